"""libclang set up for CUDA without a toolkit: own declarations instead of the toolkit's headers.

The result is used for names, types and extents of declarations only; expressions may well stay unresolved.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from clang.cindex import Cursor, CursorKind, Index, LibclangError, TranslationUnit, TranslationUnitLoadError

from kerncast.compile.headers import PRELUDE, stand_ins
from kerncast.compile.wheels import cure_for_broken
from kerncast.errors import CompileError

# CXTranslationUnit_KeepGoing: a missing header does not end the parse (clang-c/Index.h; not named in cindex).
KEEP_GOING = 0x200
# CXTranslationUnit_DetailedPreprocessingRecord: which text the preprocessor leaves out.
_SKIPPED_RANGES = 0x01

#: A folder that exists only in the tables of the parser.
SHIM_FOLDER = "/kerncast-shims"
_DECLARATIONS = f"{SHIM_FOLDER}/kerncast_parse.h"


def _vectors() -> str:
    rows = []
    for short, element in (
        ("char", "signed char"), ("uchar", "unsigned char"), ("short", "short"), ("ushort", "unsigned short"),
        ("int", "int"), ("uint", "unsigned int"), ("long", "long"), ("ulong", "unsigned long"),
        ("longlong", "long long"), ("ulonglong", "unsigned long long"),
        ("float", "float"), ("double", "double"),
    ):  # fmt: skip
        for width in (1, 2, 3, 4):
            members = ", ".join("xyzw"[:width])
            # Alignment: CUDA C++ Programming Guide, table "Alignment Requirements"; 16 bytes at most.
            align = f"__attribute__((aligned(kerncast_alignment(sizeof({element}), {width}))))" if width != 3 else ""
            rows.append(f"struct {align} {short}{width} {{ {element} {members}; }};")
    return "\n".join(rows)


#: Include guards of the headers that NVRTC has built in: a source may ask for them to learn what it is compiled with.
_GUARDS = (
    "CUDA_RUNTIME_API CUDA_RUNTIME DEVICE_ATOMIC_FUNCTIONS DEVICE_LAUNCH_PARAMETERS DEVICE_TYPES DRIVER_TYPES"
    " LIBRARY_TYPES SM_30_INTRINSICS SM_32_INTRINSICS SM_35_ATOMIC_FUNCTIONS SM_35_INTRINSICS"
    " SURFACE_INDIRECT_FUNCTIONS SURFACE_TYPES TEXTURE_INDIRECT_FUNCTIONS TEXTURE_TYPES VECTOR_FUNCTIONS VECTOR_TYPES"
)

#: Put before the source that is parsed.
DEVICE_DECLARATIONS = (
    "".join(f"#define __{guard}_H__\n" for guard in _GUARDS.split())
    + """
#define KERNCAST_PARSE 1
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((device))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __block_size__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define CUDART_CB
#define CUDAAPI
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define NULL 0
#define assert(x) ((void)0)
typedef decltype(sizeof(0)) size_t;
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
typedef long clock_t;
typedef long time_t;
constexpr unsigned kerncast_alignment(unsigned size, unsigned width) {
  return size * width > 16 ? 16 : size * width;
}
"""
    + _vectors()
    + """
struct dim3 {
  unsigned x, y, z;
  __host__ __device__ constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct cudaArray *cudaArray_t;
typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef unsigned long long CUdeviceptr;
enum cudaError { cudaSuccess = 0 };
typedef enum cudaError cudaError_t;
enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice
};
struct cudaDeviceProp;
struct cudaExtent { size_t width, height, depth; };
struct cudaPitchedPtr { void *ptr; size_t pitch, xsize, ysize; };
extern __device__ const uint3 threadIdx, blockIdx;
extern __device__ const dim3 blockDim, gridDim;
extern __device__ const int warpSize;
extern "C" int cudaConfigureCall(dim3, dim3, size_t = 0, cudaStream_t = 0);
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, size_t = 0, void * = 0);
extern "C" __host__ __device__ int printf(const char *, ...);
"""
)

_HALF = """#pragma once
#define __CUDA_FP16_H__
struct __attribute__((aligned(2))) __half { unsigned short bits; };
struct __attribute__((aligned(4))) __half2 { __half x, y; };
typedef __half half;
typedef __half2 half2;
"""
_BFLOAT = """#pragma once
#define __CUDA_BF16_H__
#include "cuda_fp16.h"
struct __attribute__((aligned(2))) __nv_bfloat16 { unsigned short bits; };
struct __attribute__((aligned(4))) __nv_bfloat162 { __nv_bfloat16 x, y; };
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
"""
_FP8 = """#pragma once
#define __CUDA_FP8_H__
#include "cuda_fp16.h"
#include "cuda_bf16.h"
struct __nv_fp8_e4m3 { unsigned char bits; };
struct __nv_fp8_e5m2 { unsigned char bits; };
struct __nv_fp8_e8m0 { unsigned char bits; };
typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
"""
_FP6 = """#pragma once
#define __CUDA_FP6_H__
#include "cuda_fp8.h"
struct __nv_fp6_e2m3 { unsigned char bits; };
struct __nv_fp6_e3m2 { unsigned char bits; };
typedef unsigned char __nv_fp6_storage_t;
typedef unsigned short __nv_fp6x2_storage_t;
typedef unsigned int __nv_fp6x4_storage_t;
enum __nv_fp6_interpretation_t { __NV_E2M3, __NV_E3M2 };
"""
_FP4 = """#pragma once
#define __CUDA_FP4_H__
#include "cuda_fp6.h"
struct __nv_fp4_e2m1 { unsigned char bits; };
struct __nv_fp4x2_e2m1 { unsigned char bits; };
typedef unsigned char __nv_fp4_storage_t;
typedef unsigned char __nv_fp4x2_storage_t;
typedef unsigned short __nv_fp4x4_storage_t;
enum __nv_fp4_interpretation_t { __NV_E2M1 };
"""
_COMPLEX = """#pragma once
#define CU_COMPLEX_H_
typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;
"""
_CURAND = """#pragma once
#define CURAND_KERNEL_H_
struct __attribute__((aligned(8))) curandStateXORWOW { unsigned bits[12]; };
typedef curandStateXORWOW curandState;
typedef curandStateXORWOW curandState_t;
typedef curandStateXORWOW curandStateXORWOW_t;
"""
_GROUPS = """#pragma once
#define _COOPERATIVE_GROUPS_H_
#include "cuda_fp8.h"
namespace cooperative_groups { struct thread_block {}; struct grid_group {}; }
"""

#: What the parser sees instead of headers of the toolkit: only types that a kernel may take as parameters.
TOOLKIT_SHIMS = {
    "cuda_fp16.h": _HALF,
    "cuda_bf16.h": _BFLOAT,
    "cuda_fp8.h": _FP8,
    "cuda_fp6.h": _FP6,
    "cuda_fp4.h": _FP4,
    "cuComplex.h": _COMPLEX,
    "curand_kernel.h": _CURAND,
    "cooperative_groups.h": _GROUPS,
    "cuda_runtime.h": "#pragma once\n",
    "cuda_runtime_api.h": "#pragma once\n",
    "device_launch_parameters.h": "#pragma once\n",
    "math_constants.h": "#pragma once\n#define __MATH_CONSTANTS_H__\n",
    "vector_types.h": "#pragma once\n",
    "mma.h": '#pragma once\n#include "cuda_bf16.h"\nnamespace nvcuda { namespace wmma {} }\n',
}

# NVRTC defines none of these, and clang all.
_UNDEFINED = ("__clang__", "__GNUC__", "__linux__", "__unix__", "__x86_64__", "__aarch64__", "__CUDA_ARCH__")


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """The options that decide which text the preprocessor lets through."""

    architecture: int
    """value for __CUDA_ARCH__ as a number of the architecture, such as 70"""
    standard: str
    defines: tuple[tuple[str, str], ...]
    include_dirs: tuple[Path, ...]


def parse(source: Path, options: ParseOptions, extra: str | None = None) -> TranslationUnit | None:
    """Parse a source, with extra text behind it where given; None where libclang gives up."""
    files = [(f"{SHIM_FOLDER}/{name}", text) for name, text in (stand_ins() | TOOLKIT_SHIMS).items()]
    files.append((_DECLARATIONS, DEVICE_DECLARATIONS + PRELUDE))
    main = str(source)
    if extra is not None:
        main = f"{SHIM_FOLDER}/kerncast_extra.cu"
        files.append((main, f'#include "{source.resolve()}"\n{extra}\n'))
    try:
        return new_index().parse(main, _arguments(options), files, options=KEEP_GOING)
    except TranslationUnitLoadError:
        return None


def parse_host(options: ParseOptions, texts: Mapping[str, str], declared: str) -> TranslationUnit | None:
    """Parse a source as the host's compiler sees it; None where libclang gives up.

    ``texts`` stand in the place of the source, which is the first, and of its headers; ``declared`` is C++ before it.
    """
    main = next(iter(texts))
    files = [(f"{SHIM_FOLDER}/{name}", text) for name, text in (stand_ins() | TOOLKIT_SHIMS).items()]
    files += [(_DECLARATIONS, DEVICE_DECLARATIONS + PRELUDE + declared), *texts.items()]
    try:
        return new_index().parse(main, _host_arguments(options), files, options=KEEP_GOING | _SKIPPED_RANGES)
    except TranslationUnitLoadError:
        return None


def new_index() -> Index:
    """Return a new index of libclang; raises CompileError where the library cannot be loaded."""
    try:
        return Index.create()
    except LibclangError as error:
        raise CompileError(f"libclang cannot be loaded ({error})", cure=cure_for_broken("libclang")) from None


def by_file(unit: TranslationUnit) -> dict[str, list[Cursor]]:
    """Return the declarations of namespace scope by the name of their file."""
    found: dict[str, list[Cursor]] = {}
    for cursor in declarations(unit.cursor):
        file = cursor.location.file
        if file is not None:
            found.setdefault(file.name, []).append(cursor)
    return found


def declarations(parent: Cursor) -> Iterator[Cursor]:
    """Yield the declarations of namespace scope, through namespaces and ``extern "C"`` blocks."""
    for cursor in parent.get_children():
        if cursor.kind in {CursorKind.NAMESPACE, CursorKind.LINKAGE_SPEC}:
            yield from declarations(cursor)
        else:
            yield cursor


def qualified_name(cursor: Cursor) -> str:
    """Return the name of a declaration with its named namespaces."""
    names = [cursor.spelling]
    parent = cursor.semantic_parent
    while parent is not None and parent.kind != CursorKind.TRANSLATION_UNIT:
        if parent.kind != CursorKind.LINKAGE_SPEC and parent.spelling and not parent.is_anonymous():
            names.append(parent.spelling)
        parent = parent.semantic_parent
    return "::".join(reversed(names))


def _arguments(options: ParseOptions) -> list[str]:
    defines = {"__CUDA_ARCH__": f"{options.architecture}0", "__CUDACC_RTC__": "1", "__CUDACC__": "1", "__NVCC__": "1"}
    return [
        "--cuda-device-only",
        *(f"-U{name}" for name in _UNDEFINED),
        *(f"-D{name}={value}" for name, value in defines.items()),
        *_common_arguments(options),
    ]


def _host_arguments(options: ParseOptions) -> list[str]:
    return ["--cuda-host-only", "-target", "x86_64-unknown-linux-gnu", "-D__CUDACC__=1", *_common_arguments(options)]


def _common_arguments(options: ParseOptions) -> list[str]:
    defines = {"__CUDACC_VER_MAJOR__": "12", "__CUDACC_VER_MINOR__": "9"} | dict(options.defines)
    return [
        "-x", "cuda", "-nostdinc", "-nostdinc++",
        # An empty path, so that clang looks for no toolkit on the machine.
        "-nocudainc", "-nocudalib", f"--cuda-path={SHIM_FOLDER}",
        f"-std={options.standard}", "-ferror-limit=0", "-w",
        *(f"-D{name}={value}" for name, value in defines.items()),
        "-include", _DECLARATIONS,
        *(f"-I{folder}" for folder in options.include_dirs),
        "-isystem", SHIM_FOLDER,
    ]  # fmt: skip
