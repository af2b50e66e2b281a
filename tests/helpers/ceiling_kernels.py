"""The ceilings' kernels compiled once for each source: NVRTC compiles all kernels of a source anyway."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from kerncast.compile import CompiledKernel, CompileRequest, KernelSignature, compile_request
from kerncast.compile.cubin import read_resources
from kerncast.launch import Launch
from tests.helpers.inspection import kernels_of


def compiled(launch: Launch, capability: str) -> CompiledKernel:
    """Return the kernel of a launch for a compute capability; spills are known as local memory only."""
    module = _module(launch.source, launch.defines, capability)
    name = str(launch.kernel)
    # The log is not kept; what it says of spills shows in the stack frame, which the machine code tells.
    log = f"Compiling entry function '{name}'\n0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
    resources = read_resources(module.cubin, log, module.resources.architecture)[name]
    signature = _signatures(launch.source)[name]
    return replace(module, kernel=name, mangled=name, resources=resources, signature=signature)


@cache
def _signatures(source: Path) -> Mapping[str, KernelSignature]:
    return {each.name: each for each in kernels_of(source)}


@cache
def _module(source: Path, defines: tuple[tuple[str, str], ...], capability: str) -> CompiledKernel:
    first = next(iter(_signatures(source)))
    return compile_request(CompileRequest(source, (capability,), kernel=first, defines=defines)).kernels[0]
