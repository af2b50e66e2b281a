"""The destinations of a command's words: stdout or a file; progress to stderr."""

import io
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.segment import Segment
from rich.text import Text

from kerncast.errors import InputError
from kerncast.prediction import Timing
from kerncast.printable import message, printable, printable_lines
from kerncast.replaced_file import replacing

if TYPE_CHECKING:
    from kerncast.forecast import Forecast

_PATIENCE_SECONDS = 1.0
_FILE_COLUMNS = 140


class SafeConsole(Console):
    """A console whose texts steer no terminal: controls are written out, and ``:x:`` stays what it is."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(emoji=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Return a text to be laid out; its width is that of what is shown."""
        return super().render_str(printable_lines(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield the segments of anything; what moves the cursor of a bar is rich's own."""
        for segment in super().render(renderable, options):
            is_plain = segment.control is not None or segment.text == "\n" or segment.text.isprintable()
            yield segment if is_plain else Segment(printable_lines(segment.text), segment.style)


@contextmanager
def progress_on_stderr(*, quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield a function that shows progress once the work has lasted a second."""
    if quiet:
        yield None
        return
    from kerncast.report.words import describe_name  # noqa: PLC0415  help does without

    console = SafeConsole(stderr=True)
    label, count = (TextColumn(form, markup=False) for form in ("{task.description}", "{task.fields[detail]}"))
    bar = Progress(SpinnerColumn(), label, BarColumn(), count, console=console, transient=True)
    task = bar.add_task("", total=None, detail="")
    begun = time.monotonic()
    last_line = current = ""

    def remind() -> None:  # the first step may be the one that lasts
        if current:
            show(current, 0, 0)

    def show(what: str, done: int, total: int) -> None:
        nonlocal last_line, current
        what = current = describe_name(printable(what), _FILE_COLUMNS)  # an instance of a template has 2,000 letters
        if time.monotonic() - begun < _PATIENCE_SECONDS:
            return
        detail = f"{done}/{total}" if total else ""
        if console.is_terminal:
            bar.start()
            bar.update(task, description=what, completed=done, total=total or None, detail=detail)
        elif what != last_line:
            console.print(what, highlight=False, markup=False, soft_wrap=True)
            last_line = what

    timer = threading.Timer(_PATIENCE_SECONDS + 0.05, remind)
    timer.daemon = True
    timer.start()
    try:
        yield show
    finally:
        timer.cancel()
        if bar.live.is_started:
            bar.stop()


def check_place(path: Path, endings: Sequence[str]) -> None:
    """Raise InputError for a name that does not end so, or lies in no folder: before the work, not after it."""
    if path.suffix.lower() not in endings or not path.parent.is_dir():
        cure = f"End it in {', '.join(endings)}, in a folder that is there."
        raise InputError(f"{path} is no place for this output", cure=cure)


def emit_forecast(
    forecast: "Forecast", timing: Timing, *, as_json: bool, out: Path | None, is_verbose: bool = False
) -> None:
    """Print a forecast, or write it to a file."""
    from kerncast.report.as_json import predict_object  # noqa: PLC0415  only forecasts need the executor
    from kerncast.report.forecast.terminal import print_forecast  # noqa: PLC0415

    if as_json:
        emit_json(predict_object(forecast, timing), out)
        return
    with console_of(out) as console:
        print_forecast(forecast, console, is_verbose=is_verbose)


def emit_json(table: dict[str, Any], out: Path | None = None) -> None:
    """Print a JSON object, or write it to a file."""
    from kerncast.report.as_json import json_text  # noqa: PLC0415  help does without

    emit_text(json_text(table), out)


def emit_text(text: str, out: Path | None) -> None:
    """Print a text, or write it to a file."""
    if out is None:
        sys.stdout.write(printable_lines(text))
        sys.stdout.flush()
    else:
        write_text(out, text)


def tell(text: str) -> None:
    """Say on stderr what is no part of the answer."""
    sys.stderr.write(f"{message(text)}\n")


def tell_plainly(text: str) -> None:
    """Say something on stderr, of several lines or one, without the name of the program before it."""
    sys.stderr.write(f"{printable_lines(text)}\n")


def stdout_console() -> Console:
    """Return the console of stdout: as wide as the terminal, and wide enough for tables where there is none."""
    return SafeConsole() if sys.stdout.isatty() else SafeConsole(width=_FILE_COLUMNS)


def stderr_console() -> Console:
    """Return the console of stderr, for what stands beside another program's output."""
    return SafeConsole(stderr=True) if sys.stderr.isatty() else SafeConsole(stderr=True, width=_FILE_COLUMNS)


@contextmanager
def console_of(out: Path | None) -> Iterator[Console]:
    """Yield the console of stdout, or one whose plain text is written to a file in the end."""
    if out is None:
        yield stdout_console()
        return
    console = SafeConsole(record=True, width=_FILE_COLUMNS, file=io.StringIO(), no_color=True)
    yield console
    write_text(out, console.export_text())


def make_folder(path: Path) -> None:
    """Make a folder unless it is there; raises InputError where that is not possible."""
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made ({error.strerror})", where=str(path), cure="Choose another place.") from None


def write_text(path: Path, text: str) -> None:
    """Write a file whole, or leave it as it was; raises InputError where that is not possible."""
    with replacing(path) as place:
        place.write_text(text, encoding="utf-8", errors="backslashreplace")
