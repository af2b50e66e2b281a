"""Every function that the CUDA headers declare for device code compiles to instructions that the engines know."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from kerncast.compile import nvrtc
from kerncast.compile.headers import PRELUDE_NAME, header_folders, memory_headers
from kerncast.errors import UnsupportedError
from kerncast.execute.setup import check_supported
from kerncast.ptx import INTRINSICS, Function, Special, Symbol, parse_ptx
from tests.helpers.thorough import thorough

HEADERS = (
    "crt/device_functions.h crt/math_functions.h crt/device_double_functions.h crt/sm_70_rt.h crt/sm_80_rt.h"
    " crt/sm_90_rt.h crt/sm_100_rt.h cuda_fp16.h cuda_bf16.h sm_20_intrinsics.h sm_30_intrinsics.h sm_32_intrinsics.h"
    " sm_61_intrinsics.h sm_20_atomic_functions.h sm_32_atomic_functions.h sm_60_atomic_functions.h"
    " device_atomic_functions.h"
)
TYPES = (
    "float double int unsigned long short char bool __half __half2 __nv_bfloat16 __nv_bfloat162 float2 float4 double2"
    " int2 int4 uint2 uint4 char2 char4 uchar2 uchar4 short2 short4 ushort2 ushort4 longlong2 ulonglong2 long2 ulong2"
    " size_t signed void"
)
KNOWN = frozenset(TYPES.split())
#: Words of the headers that say where a function lives, not what it returns.
WHERE = re.compile(
    r"\b(?:__\w*(?:DECL|device|host|builtin|inline|pure|cudart|CRTIMP|HOSTDEVICE|cdecl)\w*|static|inline|extern"
    r"|constexpr|CUDARTAPI|_CRTIMP)\b"
)
DECLARATION = re.compile(
    r"([\w \t*\n]+?)\b(\w+)\s*\(([^()]*)\)\s*(?:throw\(\)\s*|noexcept\s*|__THROW\s*)?(?:;|\{|__DEF_IF_HOST)"
)
NOISE = re.compile(r"/\*.*?\*/|//[^\n]*|\\\n|^[ \t]*#[^\n]*", re.DOTALL | re.MULTILINE)
#: Functions that newer architectures have no longer.
OLD = re.compile(r"__(?:all|any|ballot|shfl\w*?)(?<!_sync)|any|all|ballot")
REFUSED = {
    "cp": "asynchronous copies", "barrier.cluster": "clusters", "getctarank": "clusters", "mapa": "clusters",
    "%is_explicit_cluster": "clusters", "%cluster_ctarank": "clusters", "%cluster_nctarank": "clusters",
    "%pm": "counters of the hardware", "__cuda_syscall_aligned_malloc": "memory from a heap",
    "_Z4powidi": "NVRTC 11 has no body for pow(double, int)", "_Z5powiffi": "nor for pow(float, int)",
}  # fmt: skip


@cache
def declarations() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return the name, the type and the types of the parameters of each function."""
    return tuple(dict.fromkeys(one for one in each_declaration() if not OLD.fullmatch(one[0])))


def each_declaration() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for header in HEADERS.split():
        path = next(folder / header for folder in header_folders() if (folder / header).is_file())
        text = NOISE.sub(" ", path.read_text(errors="replace"))
        for found in DECLARATION.finditer(text):
            result = " ".join(WHERE.sub(" ", found[1]).split())
            parts = [" ".join(re.sub("=.*", "", part).split()) for part in found[3].split(",")]
            types = tuple(re.sub(r"\w+$", "", part).strip() or part for part in parts if part not in {"", "void"})
            if "operator" not in found[1] and all(is_known(one) for one in (result, *types)):
                yield found[2], result, types


def is_known(text: str) -> bool:
    words = re.sub(r"\b(?:const|volatile)\b|[*&]", " ", text).split()
    return bool(words) and KNOWN.issuperset(words)


def kernel(number: int, name: str, result: str, types: tuple[str, ...]) -> str:
    parameters = [
        f"{re.sub('^const ', '', one).rstrip('&')}{'' if '*' in one else '*'} p{i}" for i, one in enumerate(types)
    ]
    arguments = [f"p{i}" if "*" in one else f"p{i}[threadIdx.x]" for i, one in enumerate(types)]
    call = f"{name}({', '.join(arguments)})"
    if result != "void":
        parameters.append(f"{result}* r")
        call = f"r[threadIdx.x] = {call}"
    return f'extern "C" __global__ void k{number}({", ".join(parameters)}) {{ {call}; }}'


def ptx_of(lines: list[str], architecture: int) -> tuple[str, int]:
    """Return the PTX of the lines that compile, and how many these are."""
    compiler = nvrtc.load(12 if architecture >= 50 else 11)
    if compiler is None:
        pytest.skip("the compiler for Kepler is not installed")
    options = [f"--gpu-architecture=compute_{architecture}", "-default-device", f"--pre-include={PRELUDE_NAME}", "-w"]
    options += ["--pre-include=nv/target", *(f"--include-path={folder}" for folder in header_folders())]
    for _ in range(4):
        text = "\n".join(["#include <cuda_fp16.h>\n#include <cuda_bf16.h>", *lines])
        unit = nvrtc.Unit(text.encode(), "all.cu", memory_headers())
        try:
            return compiler.compile(unit, options).ptx, len(lines)
        except nvrtc.NvrtcError as error:  # not each function is declared for each architecture
            bad = {int(line) - 3 for line in re.findall(r"all\.cu\((\d+)\): error", error.log)}
            if not bad:
                raise
            lines = [line for number, line in enumerate(lines) if number not in bad]
    raise AssertionError(lines)


def refusals(functions: dict[str, Function]) -> Iterator[str]:
    """Give the instructions, special registers and functions that the engines refuse."""
    seen = set()
    for function in functions.values():
        for ins in function.instructions:
            if ins.root == "call":
                called = next(operand.name for operand in ins.operands if isinstance(operand, Symbol))
                if called not in functions and called not in INTRINSICS:
                    yield called
                continue
            kind = (ins.name, *(o.name if isinstance(o, Special) else type(o) for o in ins.operands))
            if kind in seen:
                continue
            seen.add(kind)
            try:
                check_supported(replace(function, instructions=(ins,)))
            except UnsupportedError as error:
                register = re.search(r"%\w+", str(error))
                yield register[0] if register else ins.name


#: All functions by either compiler: the older and the newer code generator of the newer one share them.
@pytest.mark.parametrize(
    ("architecture", "least", "part"),
    [
        (35, 1300, slice(None)),
        (52, 700, slice(0, None, 2)),
        (120, 800, slice(1, None, 2)),
        pytest.param(120, 800, slice(0, None, 2), marks=thorough),
    ],
)
def test_functions_of_the_headers(architecture: int, least: int, part: slice) -> None:
    declared = declarations()[part]
    ptx, count = ptx_of([kernel(number, *one) for number, one in enumerate(declared)], architecture)
    assert count >= least
    unexpected = {name for name in refusals(dict(parse_ptx(ptx).functions)) if not name.startswith(tuple(REFUSED))}
    assert unexpected == set()
