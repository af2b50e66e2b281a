"""Whether the libraries that compile can be loaded: asked of the child process, which they may end."""

import importlib.util
from typing import Any

from kerncast.compile import nvrtc
from kerncast.errors import CompileError

PARSER = "libclang"


def load_part(request: dict[str, Any]) -> dict[str, Any]:
    """Load NVRTC by its major version, or libclang; raises CompileError where that fails."""
    part = request["part"]
    if part == PARSER:
        _load_parser()
        return {}
    compiler = nvrtc.load(int(part))
    if compiler is None:
        raise CompileError("is not installed")
    return {"version": compiler.version}


def _load_parser() -> None:
    if importlib.util.find_spec("clang") is None:
        raise CompileError("is not installed")
    from kerncast.compile.source import parsing  # noqa: PLC0415  needs libclang

    parsing.new_index()
