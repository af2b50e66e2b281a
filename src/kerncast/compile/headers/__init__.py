"""Where #include lines are resolved: the folders of the wheels, and stand-ins for headers that no wheel has."""

import importlib.util
from functools import cache
from pathlib import Path

from kerncast.compile.headers import c, cpp, libraries
from kerncast.compile.headers.prelude import PRELUDE
from kerncast.compile.wheels import cure_for_missing

PRELUDE_NAME = "kerncast_prelude.h"

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
    found = {}
    for names, text in (*c.HEADERS, *cpp.HEADERS, *libraries.HEADERS):
        first, *aliases = names.split()
        found[first] = text
        # An alias includes the first name: NVRTC applies "#pragma once" to names, not to contents.
        found |= dict.fromkeys(aliases, f'#pragma once\n#include "{first}"\n')
    return found


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
