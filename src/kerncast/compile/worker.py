"""The child process in which NVRTC and libclang run: one JSON request on stdin, one JSON reply on stdout.

Run as ``python -m kerncast.compile.worker``. User sources are untrusted, and the compilers are libraries that
end their process on a bad day; here they end only this one.
"""

import json
import os
import sys
from typing import Any

from kerncast.errors import CompileError


def main() -> None:
    """Answer the request on stdin."""
    # The compilers may print; only the reply goes to the real stdout.
    reply_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        request = json.load(sys.stdin)
    except ValueError:
        sys.exit("no request on stdin: this module is run by kerncast.compile")
    _limit(request["memory_bytes"], request["seconds"])
    with reply_to:
        json.dump(answer(request), reply_to)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to a request: a result, or the parts of an error."""
    from kerncast.compile import tasks  # noqa: PLC0415  the limits hold before the compilers load

    try:
        return {"result": tasks.TASKS[request["task"]](request)}
    except CompileError as error:
        return {"error": [error.what, error.where, error.cure]}
    except MemoryError:
        return {"error": ["the compiler ran out of memory", request["source"], None]}


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


if __name__ == "__main__":
    main()
