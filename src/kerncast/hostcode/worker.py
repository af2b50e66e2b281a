"""The child process in which libclang reads host code: one JSON request on stdin, one JSON reply on stdout.

Run as ``python -m kerncast.hostcode.worker``.
"""

from typing import Any

from kerncast.child_process import serve
from kerncast.compile.worker import answer
from kerncast.typed_json import from_json


def main() -> None:
    """Answer the request on stdin."""
    serve(lambda request: answer(request, _launches), "kerncast.hostcode")


def _launches(_task: str, job: Any) -> Any:
    from kerncast.hostcode.nouns import HostJob  # noqa: PLC0415  the limits hold before libclang loads
    from kerncast.hostcode.task import host_launches  # noqa: PLC0415

    return host_launches(from_json(HostJob, job))


if __name__ == "__main__":
    main()
