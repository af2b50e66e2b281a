"""Kernels that NVRTC cannot compile, compiled with their host code by clang: those of Thrust and CUB, and of lambdas.

NVRTC reads no host code, and finds a kernel by its name: Thrust's headers are host code, and a lambda has no name.
"""

import re
from collections.abc import Sequence

#: Symbols of an object, by which clang launches kernels of CUB and Thrust, or instances for a lambda.
_LAUNCHES = re.compile(rb"_ZN(?:3cub|6thrust|7cutlass)\w*__device_stub__|__device_stub__\w*Ul\w*E\d*_")
#: Architectures that clang 20 knows. Source: LLVM 20, "NVPTX Target Features".
_KNOWN = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 120)
#: Version of PTX that has all of them.
_PTX = "+ptx87"


def needs_clang(content: bytes) -> bool:
    """Whether an object launches kernels that NVRTC cannot compile."""
    return _LAUNCHES.search(content) is not None


def device_command(host: Sequence[str], architecture: int) -> list[str]:
    """Return the command that compiles the kernels of a source to PTX, from the one for its host code."""
    known = max((each for each in _KNOWN if each <= architecture), default=_KNOWN[0])
    changed = {"--cuda-host-only": "--cuda-device-only", "--cuda-gpu-arch=sm_75": f"--cuda-gpu-arch=sm_{known}"}
    words = [changed.get(word, word) for word in host if not re.fullmatch(r"-O\w", word)]
    return [*words, "-O3", "-Xclang", "-target-feature", "-Xclang", _PTX, "-S"]
