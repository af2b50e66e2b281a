"""The child process in which NVRTC and libclang run: one JSON request on stdin, one JSON reply on stdout.

Run as ``python -m kerncast.compile.worker``. User sources are untrusted, and the compilers are libraries that
end their process on a bad day; here they end only this one.
"""

from collections.abc import Callable
from typing import Any

from kerncast.child_process import serve
from kerncast.errors import CompileError
from kerncast.typed_json import to_json


def main() -> None:
    """Answer the request on stdin."""
    serve(lambda request: answer(request, _compile), "kerncast.compile")


def answer(request: dict[str, Any], do: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Return the reply to a request: the result of doing its task, or the parts of an error."""
    try:
        return {"result": to_json(do(request["task"], request["job"]))}
    except CompileError as error:
        return {"error": [error.what, error.where, error.cure]}
    except ImportError as error:
        from kerncast.compile.wheels import cure_for_broken  # noqa: PLC0415  of almost no request
        from kerncast.requirements import package_at_fault  # noqa: PLC0415

        package = package_at_fault(error) or "kerncast"
        return {"error": [f"{package} cannot be loaded ({error})", None, cure_for_broken(package)]}
    except MemoryError:
        return {"error": ["the compiler ran out of memory", request["source"], None]}


def _compile(task: str, job: Any) -> Any:
    from kerncast.compile import tasks  # noqa: PLC0415  the limits hold before the compilers load

    return tasks.do(task, job)


if __name__ == "__main__":
    main()
