"""The command line: the only place that prints and exits. One file per command.

Exit status: 0 done; 1 a defect of ours; 2 bad usage or bad input; 3 everything refused; 4 slower than asked.
"""

import gc
import os
import sys
from collections.abc import Sequence

#: A command makes many values that live until it ends: looking for garbage among them is a fifth of its time.
_OBJECTS_BETWEEN_COLLECTIONS = 2_000_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    from typer import Exit  # noqa: PLC0415

    from kerncast.cli.application import run  # noqa: PLC0415  keeps `import kerncast.cli` free of cost
    from kerncast.errors import KerncastError  # noqa: PLC0415

    if sys.stdout is None:
        sys.exit(_complain("stdout is closed", 2))
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal may not know µ
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
        status = _complain(
            f"a defect of kerncast: {type(error).__name__}: {error}. Set KERNCAST_DEBUG=1 to see where, and report it.",
            1,
        )
    sys.exit(status)


def _complain(text: str, status: int) -> int:
    sys.stderr.write(f"kerncast: {text}\n")
    return status
