"""VERB compile: a CUDA source to PTX, machine code and resources, with neither a driver nor a toolkit."""

from kerncast.compile.compiler import compile_request, compile_source, inspect_source
from kerncast.compile.nouns import (
    CompiledKernel,
    CompiledSource,
    CompileRequest,
    KernelSignature,
    LaunchSite,
    Limits,
    Parameter,
    SourceSummary,
    ToolStatus,
)
from kerncast.compile.targets import Target, architecture_for
from kerncast.compile.toolchain import toolchain_report

__all__ = [
    "CompileRequest",
    "CompiledKernel",
    "CompiledSource",
    "KernelSignature",
    "LaunchSite",
    "Limits",
    "Parameter",
    "SourceSummary",
    "Target",
    "ToolStatus",
    "architecture_for",
    "compile_request",
    "compile_source",
    "inspect_source",
    "toolchain_report",
]
