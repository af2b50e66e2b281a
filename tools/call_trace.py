"""Which files of kerncast a command enters, and which files call which.

Run as ``python tools/call_trace.py predict examples/saxpy.toml --gpu "TITAN V"``: arguments are those of kerncast.
Counted is what runs in this process, so that a compilation is told once as the call that asks for it. Calls while
a module is imported are left out: modules that are imported and never entered are listed by themselves.
"""

import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

import kerncast

PACKAGE = Path(kerncast.__path__[0])
#: A module without functions of this many lines costs nothing to import.
_SMALL_LINES = 60


class Trace:
    """Calls between files."""

    def __init__(self) -> None:
        self.functions: set[CodeType] = set()
        self.edges: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call; called by the interpreter."""
        if event != "call" or (callee := _place(frame.f_code)) is None:
            return
        caller, back = None, frame.f_back
        while back is not None:
            if back.f_code.co_name == "<module>" and back.f_code.co_filename.startswith(str(PACKAGE)):
                return
            caller, back = caller or _place(back.f_code), back.f_back
        self.functions.add(frame.f_code)
        if caller is not None and caller != callee:
            self.edges[caller, callee] += 1

    @property
    def files(self) -> set[str]:
        """Files with at least one function that ran."""
        return {place for code in self.functions if (place := _place(code))}


def _place(code: CodeType) -> str | None:
    """Return the file of a function, relative to the package; None for other code, and for the body of a module."""
    path = code.co_filename
    if not path.startswith(str(PACKAGE)) or code.co_name == "<module>" or not code.co_flags & 0x2:  # CO_NEWLOCALS
        return None
    return str(Path(path).relative_to(PACKAGE))


def main(arguments: list[str]) -> None:
    """Run a command and print what it entered."""
    from kerncast.cli import main as command  # noqa: PLC0415  imported where the trace begins

    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        command(arguments)
    except SystemExit as done:
        print(f"exit status {done.code}", file=sys.stderr)
    finally:
        sys.setprofile(None)
    _report(trace)


def _report(trace: Trace) -> None:
    imported = {
        str(Path(file).relative_to(PACKAGE))
        for name, module in sys.modules.items()
        if name.startswith("kerncast.") and (file := module.__file__) and not file.endswith("__init__.py")
    }
    idle = sorted(imported - trace.files)
    large = [name for name in idle if len((PACKAGE / name).read_text(encoding="utf-8").splitlines()) > _SMALL_LINES]
    wrong = [edge for edge in trace.edges if edge[0].startswith("models") and edge[1].startswith("execute")]
    print(f"{len(trace.files)} files entered, {len(trace.functions)} functions, {len(trace.edges)} edges between files")
    print(f"{len(imported)} modules imported, {len(idle)} of them never entered, {len(large)} of more than 60 lines")
    print("never entered:", *large)
    print("from a model to the executor:", *(" -> ".join(edge) for edge in wrong) if wrong else ("none",))
    print(*(f"{times:8} {a} -> {b}" for (a, b), times in sorted(trace.edges.items())), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
