"""VERB compile: a CUDA source to PTX, machine code and resources, with neither a driver nor a toolkit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kerncast.compile.compiler import compile_request, compile_source, request_for
    from kerncast.compile.nouns import (
        SOURCE_FILE,
        CompiledKernel,
        CompiledSource,
        CompileRequest,
        DeviceVariable,
        HostCopy,
        KernelSignature,
        Limits,
        Parameter,
        SourceListing,
        ToolStatus,
    )
    from kerncast.compile.targets import Target, architecture_for

__all__ = [
    "SOURCE_FILE", "CompileRequest", "CompiledKernel", "CompiledSource", "DeviceVariable", "HostCopy",
    "KernelSignature", "Limits", "Parameter", "SourceListing", "Target", "ToolStatus", "architecture_for",
    "compile_request", "compile_source", "request_for",
]  # fmt: skip

# Where names live that are not in `nouns`. Each is imported when it is first used: the worker needs few of them,
# and it starts for every compilation.
_HOME = {
    "Target": "targets",
    "architecture_for": "targets",
    "compile_request": "compiler",
    "compile_source": "compiler",
    "request_for": "compiler",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'kerncast.compile' has no attribute {name!r}")
    return getattr(import_module(f"kerncast.compile.{_HOME.get(name, 'nouns')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
