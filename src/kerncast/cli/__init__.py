"""The command line: the only place that prints and exits. One file per command.

Exit status: 0 done; 1 a defect of ours; 2 bad usage or bad input; 3 everything refused; 4 slower than asked.
"""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

_OLDEST_PYTHON = (3, 11)
#: A command makes many values that live until it ends: looking for garbage among them is a fifth of its time.
_OBJECTS_BETWEEN_COLLECTIONS = 200_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    if sys.stdout is None:
        sys.exit(_complain("stdout is closed", 2))
    if sys.version_info < _OLDEST_PYTHON:
        wanted, found = (".".join(map(str, version[:2])) for version in (_OLDEST_PYTHON, sys.version_info))
        sys.exit(_complain(f"needs Python {wanted} or newer, and this is {found}", 2))
    try:
        from typer import Exit  # noqa: PLC0415

        from kerncast.cli.application import run  # noqa: PLC0415  keeps `import kerncast.cli` free of cost
        from kerncast.errors import KerncastError  # noqa: PLC0415
    except ImportError as error:
        sys.exit(_complain(*_unexpected(error)))
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal may not know µ
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, _terminated)
    try:
        status = run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except KerncastError as error:
        status = _complain(str(error), error.exit_status)
    except Exit as done:
        status = done.exit_code
    except BrokenPipeError:  # the reader of our output has gone: say nothing more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except _TerminatedError:
        status = _complain("terminated", 143)
    except SystemExit:  # rich leaves so when the reader of our output has gone
        status = 0
    except OSError as error:  # such as a full disk behind stdout
        status = _complain(f"the output cannot be written ({error.strerror})", 2)
        sys.stdout = None  # what is left of it must not be tried again at exit
    except KeyboardInterrupt:
        status = _complain("interrupted", 130)
    except Exception as error:  # the last line of defence: no traceback for a user
        if os.environ.get("KERNCAST_DEBUG"):
            raise
        status = _complain(*_unexpected(error))
    sys.exit(status)


class _TerminatedError(BaseException):
    """Somebody asked this process to end: what it made for a time is removed on the way out."""


def _terminated(number: int, frame: object) -> None:
    del number, frame
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _TerminatedError


def _unexpected(error: Exception) -> tuple[str, int]:
    """Return what to say, and the exit status: which packages to install, where one of them is to blame."""
    from kerncast.child_process import DefectError  # noqa: PLC0415
    from kerncast.compile.wheels import cure_for_broken  # noqa: PLC0415  of almost no command
    from kerncast.requirements import install_command, missing_for, package_at_fault  # noqa: PLC0415

    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if name and (missing := missing_for(name.partition(".")[0])):
        names = ", ".join(each.name for each in missing)
        return f"needed, and not installed: {names}. Install with: {install_command(missing)}", 2
    if isinstance(error, ImportError) and (package := package_at_fault(error)):
        return f"{package} cannot be loaded ({error}). {cure_for_broken(package)}", 2
    said = str(error) if isinstance(error, DefectError) else f"{type(error).__name__}: {error}"
    return f"a defect of kerncast: {said}. Set KERNCAST_DEBUG=1 to see where, and report it.", 1


def _complain(text: str, status: int) -> int:
    from kerncast.printable import message  # noqa: PLC0415  needs nothing that could be missing

    sys.stderr.write(f"{message(text)}\n")
    return status
