"""Notebooks: one line of progress that changes in its place, and figures; nothing goes to stdout."""

import html
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kerncast.child_process import Progress
from kerncast.printable import printable

#: What is done sooner is not told.
_PATIENCE_SECONDS = 0.5
#: A line changes no more often than it can be read.
_PAUSE_SECONDS = 0.2


@contextmanager
def reporting(progress: Progress | None) -> Iterator[Progress | None]:
    """Yield the caller's function; without one, in a notebook, a function that shows a line; else None."""
    if progress is not None or not is_notebook():
        yield progress
        return
    line = _Line()
    try:
        yield line.tell
    finally:
        line.clear()


def is_notebook() -> bool:
    """Whether this program is the kernel of a notebook."""
    core: Any = sys.modules.get("IPython")
    shell = core.get_ipython() if core is not None else None
    return getattr(shell, "kernel", None) is not None


class _Line:
    """A line below the cell: it comes after half a second, changes in its place, and is empty in the end."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PATIENCE_SECONDS
        self._handle: Any = None

    def tell(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PAUSE_SECONDS
        text = f"{printable(what)} {done}/{total}" if total else printable(what)
        self._show({"text/plain": text, "text/html": f'<span style="opacity:0.6">{html.escape(text)}</span>'})

    def clear(self) -> None:
        if self._handle is not None:
            self._show({"text/plain": "", "text/html": ""})

    def _show(self, forms: Mapping[str, str]) -> None:
        if self._handle is None:
            display: Any = sys.modules["IPython"].display
            self._handle = display.display(forms, raw=True, display_id=True)
        else:
            self._handle.update(forms, raw=True)


def let_figures_show() -> None:
    """Let a notebook show a Figure of Matplotlib, unless it knows how: without pyplot nobody has told it."""
    if not is_notebook():
        return
    from IPython.core.pylabtools import select_figure_formats  # noqa: PLC0415  it is loaded: this is a notebook
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy

    shell: Any = sys.modules["IPython"].get_ipython()
    if not any(Figure in form.type_printers for form in shell.display_formatter.formatters.values()):
        select_figure_formats(shell, {"png"})
