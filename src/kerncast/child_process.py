"""Work on what is not trusted, in a child process with limits: one JSON request on stdin, one JSON reply on stdout.

A library that crashes or hangs ends the child, and is an error in the parent.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kerncast

#: The child's limit counts processor time; a starved machine gives it less of that per second. By the clock it is only
#: stopped where it waits for something for ever.
_WALL_PER_CPU_SECOND = 10.0


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a child process, and its reply."""

    reply: Any
    """reply of the child; None where it is not JSON"""
    status: int
    said: str
    """output on stderr; empty where nobody reads it"""

    @property
    def how(self) -> str:
        """Way in which the child ended, such as ``by signal SIGSEGV``."""
        status = self.status
        return f"by signal {signal.Signals(-status).name}" if status < 0 else f"with status {status}"


def ask(
    module: str,
    request: dict[str, Any],
    *,
    grace_seconds: float,
    foreign: tuple[str, ...] = (),
    reads_stderr: bool = False,
) -> Ended:
    """Run a module on a request with ``memory_bytes`` and ``seconds`` of processor time; raises TimeoutError.

    ``grace_seconds`` of wall time are beyond its limit, for the child to start and to report. Variables of the
    environment whose names start with one of ``foreign`` are left out.
    """
    process = subprocess.Popen(  # noqa: S603  a module of ours
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if reads_stderr else subprocess.DEVNULL,
        env=_environment(foreign),
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    with process:
        try:
            patience = _WALL_PER_CPU_SECOND * request["seconds"] + grace_seconds
            out, said = process.communicate(json.dumps(request), timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            raise TimeoutError from None
        except BaseException:
            process.kill()
            raise
    try:
        reply = json.loads(out)
    except (ValueError, RecursionError):
        reply = None
    return Ended(reply, process.returncode, said or "")


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]], parent: str) -> None:
    """Answer the request on stdin, within its limits; ``parent`` is the module that asks."""
    # Libraries may print; only the reply goes to the real stdout.
    reply_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        request = json.load(sys.stdin)
    except ValueError:
        sys.exit(f"no request on stdin: this module is run by {parent}")
    _limit(request["memory_bytes"], request["seconds"])
    with reply_to:
        json.dump(answer(request), reply_to)


def _limit(memory_bytes: int, seconds: float) -> None:
    """Limit address space and processor time where the system can."""
    try:
        import resource  # noqa: PLC0415  Windows has none
    except ImportError:
        return
    limits = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: int(seconds) + 1,
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in limits.items():
        most = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def _environment(foreign: tuple[str, ...]) -> dict[str, str]:
    """Return the environment of the child, with this package in its path."""
    kept = {name: value for name, value in os.environ.items() if not (foreign and name.startswith(foreign))}
    root = str(Path(kerncast.__path__[0]).parent)
    kept["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [kept.get("PYTHONPATH")])])
    return kept
