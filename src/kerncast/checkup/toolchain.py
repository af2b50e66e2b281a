"""Whether the parts of the toolchain are installed and work, for ``kerncast doctor``."""

import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from kerncast.child_process import ask
from kerncast.compile.compiler import GRACE_SECONDS, compile_request
from kerncast.compile.headers import package_folders
from kerncast.compile.nouns import CompileRequest, Limits, ToolStatus
from kerncast.compile.nvrtc import PARSER, library_paths, wheel
from kerncast.compile.wheels import cure_for_broken, cure_for_missing, install_command
from kerncast.errors import KerncastError
from kerncast.machine.listing import WHEEL as DISASSEMBLER
from kerncast.machine.listing import disassembler
from kerncast.requirements import fits, installed_version, requirements

_SMOKE_ARCHITECTURE = "sm_70"
_SMOKE = """#include <cuda_fp16.h>
__global__ void smoke(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i] + __half2float(__float2half(y[i]));
}
int main() { return 0; }
"""

_RANDOM_NUMBERS = "nvidia-curand-cu12"

#: Package, a file that shows it is whole, wheel, what it is needed for.
_FOLDERS = (
    (
        "nvidia.cuda_runtime",
        "include/cuda_fp16.h",
        "nvidia-cuda-runtime-cu12",
        "sources that include cuda_fp16.h and the like",
    ),
    (
        "nvidia.cuda_cccl",
        "include/nv/target",
        "nvidia-cuda-cccl-cu12",
        "cooperative_groups.h, cuda/std and cub",
    ),
    ("nvidia.cu13", "include/crt/mma.h", "nvidia-cuda-crt", "mma.h (tensor cores)"),
    ("nvidia.curand", "include/curand_kernel.h", _RANDOM_NUMBERS, "curand_kernel.h (extra curand)"),
)

_REPORT_READER = "ncu-report"
_OPTIONAL = {wheel(11), DISASSEMBLER, _RANDOM_NUMBERS, _REPORT_READER}


def toolchain_report() -> tuple[ToolStatus, ...]:
    """Say of each part whether it is there, of the version that is needed, and whether a small kernel compiles."""
    libraries = tuple(
        _loaded(_status(wheel(major), library_paths(major) is not None, needed_for), str(major))
        for major, needed_for in ((12, "every source"), (11, "code of Kepler's own, sm_35 and sm_37 (extra kepler)"))
    )
    parser = _status(PARSER, find_spec("clang") is not None, "host code in the source, signatures of kernels")
    folders = tuple(
        _status(name, any((folder / inside).is_file() for folder in package_folders(package)), needed_for)
        for package, inside, name, needed_for in _FOLDERS
    )
    machine_code = _status(DISASSEMBLER, disassembler() is not None, "machine code of sm_75 and newer")
    reports = _status(_REPORT_READER, find_spec("ncu_report") is not None, "reports .ncu-rep (extra ncu)")
    return (*libraries, _loaded(parser, PARSER), *folders, machine_code, reports, _smoke_compile())


def _status(package: str, found: bool, needed_for: str) -> ToolStatus:
    version = installed_version(package)
    wanted = next((each.versions for each in requirements() if each.name == package), "")
    status = ToolStatus(package, version, found, needed_for, None, is_optional=package in _OPTIONAL)
    if version is not None and not fits(version, wanted):
        return _missing(status, f"version {version} is installed, and {wanted} is needed")
    if found:
        return status
    # Of a broken wheel the note that it is installed may be left.
    return _missing(status, None) if version is None else _broken(status, f"version {version} is not whole")


def _missing(status: ToolStatus, trouble: str | None) -> ToolStatus:
    cure, command = cure_for_missing(status.name), install_command(status.name)
    return replace(status, found=False, trouble=trouble, cure=cure, command=command)


def _broken(status: ToolStatus, trouble: str) -> ToolStatus:
    cure, command = cure_for_broken(status.name), install_command(status.name, anew=True)
    return replace(status, found=False, trouble=trouble, cure=cure, command=command)


#: A library that is there loads in a second.
_LOADING_SECONDS = 60.0


def _loaded(status: ToolStatus, part: str) -> ToolStatus:
    """Return a status after the library was loaded in a child process, or was not."""
    if not status.found:
        return status
    limits = replace(Limits(), seconds=_LOADING_SECONDS)
    request = {
        "task": "load",
        "job": part,
        "source": part,
        "seconds": limits.seconds,
        "memory_bytes": limits.memory_bytes,
    }
    try:
        ended = ask("kerncast.compile.worker", request, reads=(), grace_seconds=GRACE_SECONDS, reads_stderr=True)
    except TimeoutError:
        trouble = f"it did not load within {limits.seconds:g} s"
    else:
        if ended.reply is not None and "result" in ended.reply:
            return status
        said = ended.said.strip().splitlines()
        trouble = f"loading it ended {ended.how}{': ' + said[-1] if said else ''}"
        if ended.reply is not None:
            trouble = str(ended.reply["error"][0])
    return _broken(status, trouble)


def _smoke_compile() -> ToolStatus:
    name = f"compile for {_SMOKE_ARCHITECTURE}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "smoke.cu"
        source.write_text(_SMOKE, encoding="utf-8")
        request = CompileRequest(source, (_SMOKE_ARCHITECTURE,))
        try:
            compiled = compile_request(request, use_cache=False)
        except KerncastError as error:
            return ToolStatus(name, None, False, "every source", error.cure, trouble=error.what)
    registers = compiled.kernels[0].resources.registers_per_thread
    return ToolStatus(name, f"{registers} registers", True, "every source", None)
