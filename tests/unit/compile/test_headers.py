"""Headers that are missing, and stand-ins for those that only host code needs."""

import os
import re
from pathlib import Path

import pytest
from clang.cindex import TranslationUnit

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import CompiledKernel, CompileRequest, Parameter, compile_request, compile_source
from kerncast.compile.source import parsing
from kerncast.errors import CompileError

KERNEL = '\nextern "C" __global__ void k(float *x) { x[0] = 1; }\n'


def compile_text(tmp_path: Path, text: str, architecture: str = "sm_70") -> CompiledKernel:
    path = tmp_path / "k.cu"
    path.write_text(text, encoding="utf-8")
    return compile_source(path, architectures=[architecture], kernel="k").kernels[0]


def test_a_missing_header_of_host_code_is_a_caveat(tmp_path: Path) -> None:
    host = "#include <GL/glew.h>\n#include <GL/glut.h>\nGLuint buffer;\nint main() { glewInit(); return 0; }\n"
    kernel = compile_text(tmp_path, host + KERNEL)
    names = ("GL/glew.h", "GL/glut.h")
    assert kernel.caveats == tuple(Caveat(CaveatKind.HEADER_MISSING, name) for name in names)


def test_a_header_missing_in_a_header_is_a_caveat(tmp_path: Path) -> None:
    (tmp_path / "own.h").write_text('#include "nowhere.h"\nvoid host() {}\n', encoding="utf-8")
    (caveat,) = compile_text(tmp_path, '#include "own.h"' + KERNEL).caveats
    assert caveat == Caveat(CaveatKind.HEADER_MISSING, "nowhere.h")


def test_a_missing_header_in_quotes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r'k\.cu\(1\): the header "nowhere\.h" cannot be found'):
        compile_text(tmp_path, '#include "nowhere.h"' + KERNEL)


@pytest.mark.parametrize("use", ["x[0] = SIZE;", "Image i; x[0] = 1;", "twice(x);"])
def test_where_the_kernel_needs_it_the_missing_header_is_the_error(use: str, tmp_path: Path) -> None:
    with pytest.raises(
        CompileError, match=r'k\.cu\(1\): the header "sizes\.h" cannot be found.*include = \["folder"\]'
    ):
        compile_text(tmp_path, f'#include "sizes.h"\nextern "C" __global__ void k(float *x) {{ {use} }}\n')


def test_another_error_is_not_hidden_by_it(tmp_path: Path) -> None:
    (tmp_path / "own.h").write_text("#error stop here\n", encoding="utf-8")
    with pytest.raises(CompileError, match="stop here"):
        compile_text(tmp_path, '#include "own.h"\n#include "nowhere.h"' + KERNEL)


def test_nothing_missing_leaves_no_caveat(tmp_path: Path) -> None:
    assert compile_text(tmp_path, "#include <vector>" + KERNEL).caveats == ()


def test_a_users_header_with_the_name_of_a_wheels_is_no_reason_to_install(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compile_text(tmp_path, '#include "cuda_sizes.h"\nextern "C" __global__ void k(int *x) { x[0] = SIZE; }\n')
    assert "Install" not in str(caught.value)


STAND_INS = {
    "barriers of threads": "#include <pthread.h>\nstruct A { pthread_t t; pthread_mutex_t m; pthread_barrier_t *b; };",
    "threads through a stream": "#include <iostream>\nstruct A { pthread_barrier_t *b; };",
    "atomics by their short names": "#include <atomic>\nstruct W { std::atomic_int *n; std::atomic_bool b; };",
    "allocators": "#include <memory>\ntemplate <class A> struct H { typename std::allocator_traits<A>::size_type n; };",
    "files and networks": "#include <dirent.h>\n#include <arpa/inet.h>\n#include <nvtx3/nvToolsExtCudaRt.h>\n",
    "error.h": '#include <error.h>\nvoid fail() { error(1, 0, "x"); }',
    "Thrust": "#include <thrust/gather.h>\n#include <thrust/unique.h>\n#include <thrust/execution_policy.h>\n"
    "#include <thrust/binary_search.h>\n#include <thrust/tuple.h>\n#include <thrust/iterator/zip_iterator.h>\n"
    "void host() { thrust::gather(thrust::device, 0, 0, 0, 0); }",
    "OpenGL": "#include <cuda_gl_interop.h>\nvoid host() { cudaGLSetGLDevice(0); }",
    "error texts": "__host__ __device__ inline void check(cudaError_t e) {\n"
    '  if (e != cudaSuccess) printf("%s\\n", cudaGetErrorString(e));\n}',
}


@pytest.mark.parametrize("what", STAND_INS)
@pytest.mark.parametrize("runtime", ["", "#include <cuda_runtime.h>\n#include <cstdio>\n"])
def test_what_host_code_needs_does_no_harm(what: str, runtime: str, tmp_path: Path) -> None:
    kernel = compile_text(tmp_path, runtime + STAND_INS[what] + KERNEL)
    assert ".entry k(" in kernel.ptx
    assert kernel.caveats == ()


def test_traits_in_device_code(tmp_path: Path) -> None:
    text = """#include <type_traits>
template <class T, class U> __device__ std::common_type_t<T, U> larger(T a, U b) { return a > b ? a : b; }
static_assert(std::is_same<std::common_type<int, float>::type, float>::value, "");
static_assert(std::is_same<std::common_type<char, short>::type, int>::value, "");
static_assert(std::is_same<std::common_type_t<int, float, double>, double>::value, "");
static_assert(std::is_same<std::common_type_t<const int &>, int>::value, "");
static_assert(std::alignment_of<double>::value == 8 && std::alignment_of<char>::value == 1, "");
extern "C" __global__ void k(float *x, int *y) { x[0] = larger(x[0], y[0]); }
"""
    assert "cvt.rn.f32.s32" in compile_text(tmp_path, text).ptx


def test_threads_have_the_sizes_of_linux(tmp_path: Path) -> None:
    # Sizes of the GNU C library on x86-64.
    sizes = {"mutex": 40, "cond": 48, "barrier": 32, "rwlock": 56, "attr": 56}
    lines = "".join(f'static_assert(sizeof(pthread_{name}_t) == {size}, "");\n' for name, size in sizes.items())
    compile_text(tmp_path, "#include <pthread.h>\n" + lines + KERNEL)


GUARDS = ["__DRIVER_TYPES_H__", "__CUDA_RUNTIME_H__", "__CUDA_RUNTIME_API_H__", "__VECTOR_TYPES_H__"]


@pytest.mark.parametrize("guard", GUARDS)
def test_host_code_under_the_guard_of_a_cuda_header_goes(guard: str, tmp_path: Path) -> None:
    host = f'#ifdef {guard}\nstatic void check(const char *s) {{ if (cudaGetLastError()) fprintf(stderr, "%s", s); }}\n'
    compile_text(tmp_path, "#include <cuda_runtime.h>\n#include <cstdio>\n" + host + "#endif" + KERNEL)


HEADERS = ["cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuComplex.h", "math_constants.h", "cooperative_groups.h"]


@pytest.mark.parametrize("header", ["", *HEADERS])
def test_parser_and_compiler_see_the_same_guards(header: str, tmp_path: Path) -> None:
    """The parser declares a variable for each guard that it knows; the compiler must know them all."""
    names = parsing._GUARDS.split()
    guards = [f"__{name}_H__" for name in names]
    guards += ["__CUDA_FP16_H__", "__CUDA_BF16_H__", "__CUDA_FP8_H__", "CU_COMPLEX_H_", "__MATH_CONSTANTS_H__"]
    rows = "".join(f"#ifdef {guard}\n__device__ int has_{guard};\n#endif\n" for guard in guards)
    text = (f"#include <{header}>\n" if header else "") + rows
    path = tmp_path / "k.cu"
    path.write_text(text, encoding="utf-8")
    unit = parsing.parse(path, parsing.ParseOptions(70, "c++17", (), ()))
    assert isinstance(unit, TranslationUnit)
    of_parser = {each.spelling for each in parsing.by_file(unit).get(str(path), ())}
    ptx = compile_text(tmp_path, text + KERNEL).ptx
    assert of_parser == {f"has_{guard}" for guard in guards if f"has_{guard};" in ptx or f" has_{guard}" in ptx}


def parameters(kernel: CompiledKernel) -> tuple[Parameter, ...]:
    assert kernel.signature is not None
    return kernel.signature.parameters


@pytest.mark.parametrize("architecture", ["sm_35", "sm_90"])
def test_functions_of_cmath_are_in_std_without_it_as_nvcc_has_them(tmp_path: Path, architecture: str) -> None:
    text = 'extern "C" __global__ void k(float *x) { x[0] = std::exp(x[1]); }\n'
    assert "ex2.approx" in compile_text(tmp_path, text, architecture).ptx


def test_types_that_come_along_with_other_headers(tmp_path: Path) -> None:
    text = """#include <cuda_fp8.h>
template <typename T> struct Parameters { T *data; int n; };
extern "C" __global__ void k(Parameters<__nv_bfloat16> p, const __nv_bfloat16 *b, __half h) {
  p.data[0] = b[threadIdx.x];
}
"""
    struct, pointer, half = parameters(compile_text(tmp_path, text))
    assert (struct.kind, struct.byte_size, struct.type_text) == ("struct", 16, "Parameters<__nv_bfloat16>")
    assert (pointer.kind, pointer.pointee_type, pointer.pointee_bytes) == ("pointer", "__nv_bfloat16", 2)
    assert (half.kind, half.byte_size, half.element) == ("float", 2, "f16")


def test_a_type_that_the_parser_does_not_know_is_not_taken_for_an_int(tmp_path: Path) -> None:
    text = """#include <cuda_fp8.h>
typedef __nv_fp8x4_e4m3 Four;
extern "C" __global__ void k(cudaTextureAddressMode mode, __nv_fp8x4_e4m3 four, const Four *p, Four q, int n) {}
"""
    mode, four, pointer, alias, number = parameters(compile_text(tmp_path, text))
    assert (mode.kind, mode.byte_size, mode.element) == ("unknown", 4, None)
    assert (four.kind, four.byte_size, four.type_text) == ("struct", 4, "__nv_fp8x4_e4m3")
    assert (pointer.kind, pointer.element, pointer.pointee_bytes) == ("pointer", None, None)
    assert (alias.kind, alias.byte_size, alias.element) == ("struct", 4, None)
    assert (number.kind, number.byte_size, number.element) == ("integer", 4, "i32")


TEXTURE = """texture<float, 1, cudaReadModeElementType> t;
extern "C" __global__ void k(float *x) { x[threadIdx.x] = tex1Dfetch(t, threadIdx.x); }
"""


def test_texture_references_compile_for_kepler(tmp_path: Path) -> None:
    kernel = compile_text(tmp_path, "void host() {}\n" + TEXTURE, "sm_35")
    assert ".global .texref t;" in kernel.ptx
    assert "tex.1d.v4.f32.s32" in kernel.ptx


def test_texture_references_have_a_cure_for_newer_gpus(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="ended with CUDA 12: use texture objects"):
        compile_text(tmp_path, TEXTURE)


@pytest.mark.parametrize("host", ["", "void host() {}\n"])
def test_a_users_header_goes_before_the_stand_in_of_its_name(host: str, tmp_path: Path) -> None:
    (tmp_path / "error.h").write_text(f"{host}#define FIVE 5\n", encoding="utf-8")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "queue").write_text("#define SIX 6\n", encoding="utf-8")
    (tmp_path / "inner" / "outer.h").write_text('#include "queue"\n', encoding="utf-8")
    text = '#include "error.h"\n#include "inner/outer.h"\nextern "C" __global__ void k(int *x) { x[0] = FIVE + SIX; }\n'
    assert "11;" in compile_text(tmp_path, text).ptx


def test_lines_of_headers_name_the_files_that_they_are_in_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src" / "inner").mkdir(parents=True)
    (tmp_path / "common").mkdir()
    (tmp_path / "src" / "inner" / "outer.h").write_text('#include "deep.h"\nvoid host() {}\n', encoding="utf-8")
    (tmp_path / "src" / "inner" / "deep.h").write_text(
        "__device__ float deep(float a) { return a * 3; }\n", encoding="utf-8"
    )
    (tmp_path / "common" / "far.h").write_text("__device__ float far(float a) { return sqrtf(a); }\n", encoding="utf-8")
    source = tmp_path / "src" / "k.cu"
    text = '#include "inner/outer.h"\n#include <far.h>\n__global__ void k(float *x) { x[0] = far(deep(x[0])); }\n'
    source.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "common")
    request = CompileRequest(source, ("sm_70",), include_dirs=(tmp_path / "common",))
    places = re.findall(r'\.file\t\d+ "(.*)"', compile_request(request).kernels[0].ptx)
    assert {Path(each) for each in places} == {
        source,
        tmp_path / "src" / "inner" / "deep.h",
        tmp_path / "common" / "far.h",
    }


def test_an_error_in_a_header_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "own.h").write_text("void host() {}\n__device__ int f() { return nix; }\n", encoding="utf-8")
    with pytest.raises(CompileError, match=r"inner/own\.h\(2\): error: identifier \"nix\" is undefined"):
        compile_text(tmp_path, '#include "inner/own.h"' + KERNEL)


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_a_relative_path_is_completed_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, link = tmp_path / "real", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    (folder / "k.cu").write_text(KERNEL, encoding="utf-8")
    monkeypatch.chdir(link)
    monkeypatch.setenv("PWD", str(link))
    ptx = compile_source(Path("k.cu"), architectures=["sm_70"]).kernels[0].ptx
    assert re.findall(r'\.file\t\d+ "(.*)"', ptx) == [str(folder.resolve() / "k.cu")]


def test_a_library_that_knows_nvrtc_keeps_what_looks_like_host_code(tmp_path: Path) -> None:
    library, tools = tmp_path / "library", tmp_path / "tools"
    for folder in (library, tools):
        folder.mkdir()
    (library / "config.h").write_text("#ifdef __CUDACC_RTC__\n#define CONSTANT constexpr\n#endif\n")
    # Under a macro, and never called: by itself it is host code, which the type needs.
    (library / "pick.h").write_text(
        '#include "config.h"\n'
        "template <int N> CONSTANT auto pick() { if CONSTANT (N > 1) return 1.0f; else return 1; }\n"
        "template <int N> struct Picked { using type = decltype(pick<N>()); };\n"
    )
    (tools / "clock.h").write_text("struct Clock { void start() { cudaEventRecord(event); } cudaEvent_t event; };\n")
    path = tmp_path / "k.cu"
    path.write_text(
        '#include "pick.h"\n#include "clock.h"\nint main() { Clock c; c.start(); }\n'
        "template <class T> __global__ void k(typename Picked<sizeof(T)>::type *x) { x[0] = 2.5; }\n"
    )
    request = CompileRequest(path, ("sm_80",), kernel="k<int>", include_dirs=(library, tools))
    (kernel,) = compile_request(request).kernels
    assert "1075838976" in kernel.ptx  # the bits of the float 2.5


def test_types_of_the_driver_are_those_of_its_own_header(tmp_path: Path) -> None:
    host = "#include <cuda.h>\n#include <cudaTypedefs.h>\nint main() { CUdevice d; return cuDeviceGet(&d, 0); }\n"
    kernel = (
        'extern "C" __global__ void k(const __grid_constant__ CUtensorMap m, CUdeviceptr *p) { *p = (CUdeviceptr)&m; }'
    )
    found = compile_text(tmp_path, f"{host}{kernel}\n", "sm_90")
    assert ".param .align 64 .b8 k_param_0[128]" in found.ptx
    assert found.signature is not None
    assert [each.byte_size for each in found.signature.parameters] == [128, 8]


def test_a_header_in_brackets_is_not_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "mma.h").write_text("struct Own {};\nvoid host() {}\n")
    (tmp_path / "deep" / "both.h").write_text("#include <mma.h>\n")
    kernel = 'extern "C" __global__ void k(float *x) { x[0] = nvcuda::wmma::mem_row_major; }\n'
    compile_text(tmp_path, f'#include "deep/both.h"\nvoid other() {{}}\n{kernel}')


def test_bits_and_concepts_of_newer_standards(tmp_path: Path) -> None:
    text = """#include <bit>
#include <concepts>
template <std::integral T> __device__ T doubled(T x) { return 2 * x; }
static_assert(std::has_single_bit(8u) && !std::has_single_bit(0u) && std::bit_ceil(5u) == 8 && std::bit_floor(5u) == 4);
static_assert(std::popcount(0xf0u) == 4 && std::countl_zero(1u) == 31 && std::countr_zero(8u) == 3);
static_assert(std::bit_cast<unsigned>(1.0f) == 0x3f800000u && std::same_as<int, int> && !std::floating_point<int>);
extern "C" __global__ void k(int *x) { x[0] = doubled(x[1]); }
"""
    path = tmp_path / "k.cu"
    path.write_text(text)
    compile_request(CompileRequest(path, ("sm_80",), kernel="k", standard="c++20"))


def test_tuples_in_device_code(tmp_path: Path) -> None:
    text = """#include <tuple>
#include <cuda/std/tuple>
extern "C" __global__ void k(int *x) {
  auto both = [&](int i) -> std::tuple<int, float> { return {i, 2.5f}; };
  auto [first, second] = both(*x);
  int third; float fourth;
  std::tie(third, fourth) = both(first);
  *x = int(second) + third + int(fourth) + std::get<0>(both(7));
}
__device__ constexpr int digits() {
  auto [first, second] = std::make_tuple(3, 2.5f);
  return first + 10 * int(2 * second) + 100 * std::get<0>(std::tuple<int, char>(7, 'a'));
}
static_assert(digits() == 753 && std::tuple_size<std::tuple<int, char, int>>::value == 3);
"""
    assert ".entry k(" in compile_text(tmp_path, text, "sm_80").ptx
