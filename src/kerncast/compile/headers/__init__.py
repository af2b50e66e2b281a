"""The places where #include lines are resolved: folders of the wheels, and stand-ins for headers that no wheel has.

A stand-in holds the part of a header that device code can use. It lies in ``stand_ins`` under the name by which a
source includes it; a header of the same content is an alias of the first.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path

from kerncast.bounded_file import OUR_DATA, read_text
from kerncast.compile.wheels import cure_for_missing

_FOLDER = Path(__file__).parent
_STAND_INS = _FOLDER / "stand_ins"

PRELUDE_NAME = "kerncast_prelude.h"
#: The header that every source gets first.
PRELUDE = read_text(_FOLDER / PRELUDE_NAME, OUR_DATA)

#: The headers of Thrust that do not compile under NVRTC, beside host_vector.
_THRUST = (
    "device_vector universal_vector device_ptr universal_ptr device_malloc device_free device_new device_delete"
    " device_allocator device_malloc_allocator device_new_allocator device_reference universal_allocator memory"
    " execution_policy adjacent_difference binary_search copy count equal extrema fill find for_each gather"
    " generate inner_product logical merge mismatch partition random reduce remove replace reverse scan scatter"
    " sequence set_operations shuffle sort swap system_error tabulate transform transform_reduce transform_scan"
    " uninitialized_copy uninitialized_fill unique zip_function system/cuda/execution_policy async/copy"
    " async/for_each async/reduce async/scan async/sort async/transform random/linear_congruential_engine"
    " random/uniform_int_distribution random/uniform_real_distribution random/normal_distribution"
)

#: A stand-in, and the other headers that it stands for.
_ALIASES = {
    "stdint.h": "sys/types.h",
    "float.h": "cfloat",
    "stddef.h": "cstddef",
    "math.h": "cmath",
    "string.h": "cstring memory.h strings.h",
    "stdio.h": "cstdio",
    "stdlib.h": "cstdlib malloc.h",
    "time.h": "ctime sys/time.h sys/times.h sys/timeb.h sys/stat.h sys/resource.h",
    "assert.h": (
        "cassert limits.h climits stdbool.h cstdbool sys/mman.h unistd.h getopt.h errno.h cerrno signal.h csignal"
        " ctype.h cctype stdarg.h cstdarg fcntl.h dirent.h fenv.h omp.h mpi.h windows.h Windows.h err.h error.h"
        " arpa/inet.h netinet/in.h sys/socket.h sys/wait.h glob.h"
    ),
    "iostream": "ostream istream fstream sstream",
    "string": "string_view",
    "map": "unordered_map",
    "set": "unordered_set",
    "list": "deque queue stack",
    "tuple": "optional variant",
    "thread": "mutex condition_variable future",
    "exception": "stdexcept",
    "filesystem": "regex bitset valarray ratio execution",
    "iomanip": (
        "ios iosfwd iterator numeric new initializer_list typeinfo locale clocale cfenv compare numbers ranges"
        " source_location span format"
    ),
    "cublas_v2.h": (
        "cuda_profiler_api.h cudaProfiler.h nvToolsExt.h nvtx3/nvToolsExt.h nvtx3/nvToolsExtCuda.h"
        " nvtx3/nvToolsExtCudaRt.h cublas.h cublasLt.h cufft.h cusparse.h cusparse_v2.h"
        " cusolverDn.h cudnn.h nccl.h curand.h nvml.h helper_cuda.h helper_functions.h"
        " helper_timer.h helper_string.h helper_image.h exception.h cuda_gl_interop.h cuda_egl_interop.h"
        " cuda_vdpau_interop.h cudaGL.h cudaEGL.h"
    ),
    "thrust/host_vector.h": " ".join(f"thrust/{name}.h" for name in _THRUST.split()),
}

#: Package that holds a folder of headers, folder inside it, and the wheel to install; searched in this order:
#: crt of CUDA 13 comes after the runtime of CUDA 12, whose headers it must not replace.
HEADER_WHEELS = (
    ("nvidia.cuda_runtime", "include", "nvidia-cuda-runtime-cu12"),
    ("nvidia.cuda_cccl", "include", "nvidia-cuda-cccl-cu12"),
    ("nvidia.cu13", "include", "nvidia-cuda-crt"),
    ("nvidia.curand", "include", "nvidia-curand-cu12"),
)

#: The wheel that holds a header, by the beginning of its name.
_WHEEL_OF_HEADER = (
    ("crt/", "nvidia-cuda-crt"),
    ("nv/", "nvidia-cuda-cccl-cu12"),
    ("cuda/", "nvidia-cuda-cccl-cu12"),
    ("cub/", "nvidia-cuda-cccl-cu12"),
    ("thrust/", "nvidia-cuda-cccl-cu12"),
    ("curand", "nvidia-curand-cu12"),
    ("cuda_", "nvidia-cuda-runtime-cu12"),
    ("cooperative_groups", "nvidia-cuda-runtime-cu12"),
    ("mma.h", "nvidia-cuda-runtime-cu12"),
    ("math_constants.h", "nvidia-cuda-runtime-cu12"),
    ("vector_types.h", "nvidia-cuda-runtime-cu12"),
    ("device_launch_parameters.h", "nvidia-cuda-runtime-cu12"),
)


@cache
def package_folders(name: str) -> tuple[Path, ...]:
    """Return the folders of an installed package without importing it; none where it is not installed."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return ()
    places = spec.submodule_search_locations if spec else None
    return tuple(Path(place) for place in places or ())


def header_folders() -> tuple[Path, ...]:
    """Return the folders of headers that the installed wheels bring, in the order of search."""
    return tuple(
        folder / inside
        for package, inside, _ in HEADER_WHEELS
        for folder in package_folders(package)
        if (folder / inside).is_dir()
    )


@cache
def stand_ins() -> dict[str, str]:
    """Return the stand-in headers by name."""
    files = (path for path in sorted(_STAND_INS.rglob("*")) if path.is_file())
    found = {path.relative_to(_STAND_INS).as_posix(): read_text(path, OUR_DATA) for path in files}
    for first, aliases in _ALIASES.items():
        # An alias includes the first name: NVRTC applies "#pragma once" to names, not to contents.
        found |= dict.fromkeys(aliases.split(), f'#pragma once\n#include "{first}"\n')
    return found | {_DRIVER: _types_of_the_driver() or '#pragma once\n#include "cublas_v2.h"\n'}


_DRIVER = "cuda.h"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_CALL = re.compile(r"^(?:__CUDA_DEPRECATED\s+)?CUresult CUDAAPI\s+\w+\([^;{}]*\);", re.MULTILINE)


def _types_of_the_driver() -> str | None:
    """Return cuda.h of the wheel without its functions, which NVRTC takes for host code; None where there is none."""
    file = next((each / _DRIVER for each in header_folders() if (each / _DRIVER).is_file()), None)
    return _CALL.sub("", _COMMENT.sub("", read_text(file, OUR_DATA))) if file else None


@cache
def memory_headers() -> dict[str, bytes]:
    """Return what every compilation gets in memory: the prelude and the stand-ins, by name."""
    found = {PRELUDE_NAME: PRELUDE.encode()} | {name: text.encode() for name, text in stand_ins().items()}
    if package_folders("nvidia.curand"):
        # Its device functions need the types in this header, which otherwise only host code needs.
        del found["curand.h"]
    return found


def wheel_of_header(name: str) -> str | None:
    """Return the wheel that would bring a header, where it is not installed."""
    installed = {
        wheel
        for package, inside, wheel in HEADER_WHEELS
        if any((folder / inside).is_dir() for folder in package_folders(package))
    }
    wheels = (wheel for beginning, wheel in _WHEEL_OF_HEADER if name.startswith(beginning))
    return next((wheel for wheel in wheels if wheel not in installed), None)


def cure_for_header(name: str) -> str:
    """Say how a header that was not found may be had."""
    if wheel := wheel_of_header(name):
        return cure_for_missing(wheel)
    return (
        'Put it in the folder of the source, or name its folder in the launch file, include = ["folder"];'
        " or, where only host code needs it, enclose it and that code in #ifndef __CUDACC_RTC__ and #endif."
    )
