"""Whether the parts of the toolchain are installed and work, for ``kerncast doctor``."""

import importlib.metadata
import tempfile
from importlib.util import find_spec
from pathlib import Path

from kerncast.compile.compiler import compile_source
from kerncast.compile.disassemble import WHEEL as DISASSEMBLER
from kerncast.compile.disassemble import disassembler
from kerncast.compile.headers import package_folders
from kerncast.compile.nouns import ToolStatus
from kerncast.compile.nvrtc import library_paths, wheel
from kerncast.errors import KerncastError

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
    ("clang", "cindex.py", "libclang", "host code in the source, signatures of kernels"),
)

_REPORT_READER = "ncu-report"


def toolchain_report() -> tuple[ToolStatus, ...]:
    """Say of each part whether it is there, and whether a small kernel compiles."""
    libraries = tuple(
        _status(wheel(major), library_paths(major) is not None, needed_for, wheel(major))
        for major, needed_for in ((12, "every source"), (11, "Kepler: sm_35 and sm_37 (extra kepler)"))
    )
    folders = tuple(
        _status(name, any((folder / inside).is_file() for folder in package_folders(package)), needed_for, name)
        for package, inside, name, needed_for in _FOLDERS
    )
    machine_code = _status(
        DISASSEMBLER, disassembler() is not None, "exact counts of machine instructions (extra sass)", DISASSEMBLER
    )
    reports = _status(
        _REPORT_READER, find_spec("ncu_report") is not None, "reports .ncu-rep (extra ncu)", _REPORT_READER
    )
    return (*libraries, *folders, machine_code, reports, _smoke_compile())


def _status(name: str, found: bool, needed_for: str, package: str) -> ToolStatus:
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = None
    cure = None if found else f"Install {package}."
    is_optional = package in {wheel(11), DISASSEMBLER, _RANDOM_NUMBERS, _REPORT_READER}
    return ToolStatus(name, version if found else None, found, needed_for, cure, is_optional)


def _smoke_compile() -> ToolStatus:
    name = f"compile for {_SMOKE_ARCHITECTURE}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "smoke.cu"
        source.write_text(_SMOKE, encoding="utf-8")
        try:
            compiled = compile_source(source, architectures=[_SMOKE_ARCHITECTURE])
        except KerncastError as error:
            return ToolStatus(name, None, found=False, needed_for="every source", cure=str(error))
    registers = compiled.kernels[0].resources.registers_per_thread
    return ToolStatus(name, f"{registers} registers", found=True, needed_for="every source", cure=None)
