"""Kernels that NVRTC cannot compile, compiled with their host code by clang: those of Thrust, CuTe, and of lambdas.

NVRTC reads no host code, and finds a kernel by its name: Thrust's headers are host code, and a lambda has no name.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

#: Symbols of an object, by which clang launches kernels of CUB and Thrust, or instances for a lambda, for types of
#: CuTe, whose headers hold host code, or for an object of a class.
_LAUNCHES = re.compile(rb"_ZN(?:3cub|6thrust|7cutlass)\w*__device_stub__|__device_stub__\w*(?:Ul\w*E\d*_|N4cute|IXtl)")
#: Architectures that clang 22 knows with this PTX. Source: LLVM 22, "NVPTX Target Features".
_KNOWN = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121)
#: From here on instructions of one architecture only, such as wgmma, have a target of their own: sm_90a.
_FIRST_SPECIFIC = 90
#: NVIDIA's compiler leaves no function of a kernel as one. Clang left large lambdas, as in FlashAttention-3, each
#: with more registers than its caller's warps have.
_INLINING = ("-mllvm", "-inline-threshold=10000", "-mllvm", "-locally-hot-callsite-threshold=10000")
#: Where a parameter lies matters for tensor maps. CUTLASS asks clang for no such places, which it has since LLVM 20.
_GRID_CONSTANT = "-DCUTLASS_GRID_CONSTANT=__grid_constant__"
#: What CUTLASS defines for nvcc 12.9 and, from Blackwell on, not for clang, whose first versions had no such targets.
#: Source: CUTLASS 4.2, include/cutlass/arch/config.h.
_CUTLASS_KNOWS = tuple(f"-DCUTLASS_ARCH_MMA_SM{each}_SUPPORTED=1" for each in (100, 101, 103, 120, 121))
_CUTLASS_ENABLES = (("", "ENABLED"), ("A", "ENABLED"), ("F", "SUPPORTED"), ("F", "ENABLED"))
_CUTLASS_FIRST = 100
#: Version of PTX that has all of them.
_PTX = "+ptx88"


#: Headers of libraries whose types hold host code, and leave no mark on a kernel's symbol: ThunderKittens.
_HEADERS = frozenset({"kittens.cuh"})


def needs_clang(content: bytes, files: Sequence[str] = ()) -> bool:
    """Whether an object launches kernels that NVRTC cannot compile; ``files`` are those that it was compiled from."""
    return _LAUNCHES.search(content) is not None or any(PurePath(each).name in _HEADERS for each in files)


def cutlass_macros(architecture: int) -> tuple[str, ...]:
    """Return what tells CUTLASS that kernels for a GPU may use its instructions; nothing before Blackwell."""
    return _CUTLASS_KNOWS if architecture >= _CUTLASS_FIRST else ()


def device_command(host: Sequence[str], architecture: int) -> list[str]:
    """Return the command that compiles the kernels of a source to PTX, from the one for its host code."""
    known = max((each for each in _KNOWN if each <= architecture), default=_KNOWN[0])
    target = f"sm_{known}a" if known >= _FIRST_SPECIFIC else f"sm_{known}"
    changed = {"--cuda-host-only": "--cuda-device-only", "--cuda-gpu-arch=sm_75": f"--cuda-gpu-arch={target}"}
    words = [changed.get(word, word) for word in host if not re.fullmatch(r"-O\w", word)]
    if known >= _CUTLASS_FIRST:
        words += [f"-DCUTLASS_ARCH_MMA_SM{known}{kind}_{what}=1" for kind, what in _CUTLASS_ENABLES]
    return [*words, _GRID_CONSTANT, "-O3", *_INLINING, "-Xclang", "-target-feature", "-Xclang", _PTX, "-S"]


# Clusters that kernels declare: clang 22 takes __cluster_dims__ and writes nothing of it to PTX. Our header makes an
# annotation of it, whose numbers clang computes, also those of a template's arguments.

#: What a source that declares clusters says.
DECLARES_CLUSTERS = b"__cluster_dims__"
#: What makes the command for PTX one for IR, in which annotations are left.
TO_IR = ("-emit-llvm", "-Xclang", "-disable-llvm-passes")
_MARK = re.compile(rb'^(@\S+) = .* c"kerncast cluster\\00"', re.MULTILINE)
_NUMBERS = re.compile(rb"^(@\S+) = .* constant \{[^}]*\} \{((?:,? i\d+ \d+)+) \}", re.MULTILINE)
_ANNOTATION = re.compile(rb"\{ ptr @([^\s,]+), ptr (@[^\s,]+), ptr @[^\s,]+, i32 \d+, ptr (@[^\s,]+) \}")
_HEAD = re.compile(rb"(\.entry ([\w$]+)\([^)]*\)[^{;]*)\{")
_RULE = b".explicitcluster\n.reqnctapercluster %d, %d, %d\n"


def declared_clusters(ir: bytes) -> dict[bytes, tuple[int, int, int]]:
    """Return the blocks of a cluster along each axis by the symbol of each kernel that declares them."""
    marks = set(_MARK.findall(ir))
    numbers = {name: [int(each.split()[1]) for each in given.split(b",")] for name, given in _NUMBERS.findall(ir)}
    found = {}
    for symbol, mark, given in _ANNOTATION.findall(ir):
        if mark in marks:
            x, y, z = (*numbers[given], 1, 1)[:3]
            found[symbol] = (x, y, z)
    return found


def with_clusters(ptx: bytes, clusters: Mapping[bytes, tuple[int, int, int]]) -> bytes:
    """Return PTX whose kernels declare their clusters, as nvcc writes it.

    Source: Parallel Thread Execution ISA 8.8, "Cluster Dimension Directives".
    """

    def declared(head: re.Match[bytes]) -> bytes:
        blocks = clusters.get(head[2])
        return head[0] if blocks is None else head[1] + _RULE % blocks + b"{"

    return _HEAD.sub(declared, ptx)
