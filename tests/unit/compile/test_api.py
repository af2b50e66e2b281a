"""compile_source: choosing the kernel, signatures, PTX, errors."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

import pytest

import kerncast
from kerncast.compile import CompiledKernel, CompileRequest, Parameter, compile_request, compile_source
from kerncast.compile.headers import package_folders
from kerncast.errors import CompileError
from tests.helpers.inspection import kernels_of

SAXPY = """#include <cstdio>
#include <vector>

__global__ void saxpy(int n, float a, const float *__restrict__ x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

int main() {
    std::vector<float> host(1024);
    float *x, *y;
    cudaMalloc(&x, 4096);
    cudaMalloc(&y, 4096);
    saxpy<<<dim3(4, 1), 256, 2 * sizeof(float)>>>(1024, 2.0f, x, y);
    printf("%f\\n", host[0]);
    return 0;
}
"""

TWO = """namespace blas {
__global__ void scale(float *x, float a) { x[threadIdx.x] *= a; }
}
__global__ void shift(float *x, float a) { x[threadIdx.x] += a; }
"""

REDUCE = """template <typename T, int THREADS>
__global__ void reduce(const T *x, T *sum, unsigned n) {
    __shared__ T part[THREADS];
    part[threadIdx.x] = x[blockIdx.x * THREADS + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0 && n) *sum = part[0] + part[THREADS - 1];
}
"""


class Writer(Protocol):
    def __call__(self, text: str, name: str = "k.cu") -> Path: ...


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    def write_source(text: str, name: str = "k.cu") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_source


def failure(path: Path, **options: Any) -> str:
    with pytest.raises(CompileError) as caught:
        compile_source(path, architectures=["sm_70"], **options)
    return str(caught.value)


def parameters(kernel: CompiledKernel) -> tuple[Parameter, ...]:
    assert kernel.signature is not None
    return kernel.signature.parameters


def test_source_with_host_code_compiles_for_each_architecture(write: Writer) -> None:
    compiled = compile_source(write(SAXPY), architectures=["sm_50", "8.0", "sm_90"])
    assert [k.architecture for k in compiled.kernels] == ["sm_50", "sm_80", "sm_90"]
    for kernel in compiled.kernels:
        assert kernel.kernel == "saxpy"
        assert kernel.mangled == "_Z5saxpyifPKfPf"
        assert f".entry {kernel.mangled}(" in kernel.ptx
        assert f".target {kernel.architecture}" in kernel.ptx
        assert kernel.caveats == ()
        assert kernel.cubin.startswith(b"\x7fELF")
    assert compiled.kernel_for("sm_80") is compiled.kernels[1]
    assert compiled.log == ()


def test_line_information_names_the_users_file_and_line(write: Writer) -> None:
    path = write(SAXPY)
    ptx = compile_source(path, architectures=["sm_70"]).kernels[0].ptx
    assert f'"{path}"' in ptx
    assert ".loc\t1 6 " in ptx.replace(".loc 1", ".loc\t1")


def test_signature_of_saxpy(write: Writer) -> None:
    signature = compile_source(write(SAXPY), architectures=["sm_70"]).kernels[0].signature
    assert signature is not None
    assert (signature.name, signature.line, signature.is_template) == ("saxpy", 4, False)
    n, a, x, y = signature.parameters
    assert (n.name, n.kind, n.byte_size, n.element, n.signed) == ("n", "integer", 4, "i32", True)
    assert (a.name, a.kind, a.byte_size, a.element) == ("a", "float", 4, "f32")
    assert (x.is_pointer, x.is_const, x.element, x.pointee_bytes) == (True, True, "f32", 4)
    assert (y.is_pointer, y.is_const, y.pointee_type, y.byte_size) == (True, False, "float", 8)


def test_types_of_parameters(write: Writer) -> None:
    source = """#include <cstdint>
#include <cuda_fp16.h>
struct Box { float low[3]; double weight; char tag; };
typedef unsigned short pixel;
enum Mode { FAST, SLOW };
__global__ void k(uint8_t *a, const __half *b, int64_t c, bool d, Box e, float4 *f, pixel g, Mode h,
                  unsigned long long i, const Box *j, double k, half l, size_t m) {}
"""
    kernel = compile_source(write(source), architectures=["sm_70"]).kernels[0]
    found = {p.name: (p.kind, p.byte_size, p.element, p.pointee_bytes) for p in parameters(kernel)}
    assert found == {
        "a": ("pointer", 8, "u8", 1),
        "b": ("pointer", 8, "f16", 2),
        "c": ("integer", 8, "i64", None),
        "d": ("bool", 1, "u8", None),
        "e": ("struct", 32, None, None),
        "f": ("pointer", 8, None, 16),
        "g": ("integer", 2, "u16", None),
        "h": ("integer", 4, "i32", None),
        "i": ("integer", 8, "u64", None),
        "j": ("pointer", 8, None, 32),
        "k": ("float", 8, "f64", None),
        "l": ("float", 2, "f16", None),
        "m": ("integer", 8, "u64", None),
    }
    # The compiler's own view of the same sizes.
    assert f".param .align 8 .b8 {kernel.mangled}_param_4[32]" in kernel.ptx
    assert f".param .u8 {kernel.mangled}_param_3" in kernel.ptx


@pytest.mark.parametrize("name", ["scale", "blas::scale", "::blas::scale"])
def test_plain_and_qualified_names(write: Writer, name: str) -> None:
    kernel = compile_source(write(TWO), architectures=["sm_70"], kernel=name).kernels[0]
    assert kernel.mangled == "_ZN4blas5scaleEPff"
    assert kernel.kernel == name


def test_several_kernels_and_none_named_lists_them(write: Writer) -> None:
    message = failure(write(TWO))
    assert "several kernels" in message
    assert "blas::scale(float *x, float a)" in message
    assert "shift(float *x, float a)" in message


def test_unknown_kernel_names_the_nearest_and_all(write: Writer) -> None:
    message = failure(write(TWO), kernel="scael")
    assert "no kernel 'scael'" in message
    assert "Did you mean blas::scale?" in message
    assert "shift(" in message


def test_template_instance_has_a_signature_of_its_own(write: Writer) -> None:
    compiled = compile_source(write(REDUCE), architectures=["sm_70"], kernel="reduce<double, 64>")
    kernel = compiled.kernels[0]
    assert kernel.mangled == "_Z6reduceIdLi64EEvPKT_PS0_j"
    assert kernel.resources.static_shared_bytes == 64 * 8
    assert [p.element for p in parameters(kernel)] == ["f64", "f64", "u32"]
    assert [p.name for p in parameters(kernel)] == ["x", "sum", "n"]


def test_template_in_a_namespace(write: Writer) -> None:
    text = "namespace a { namespace b {\n" + REDUCE + "} }\n"
    kernel = compile_source(write(text), architectures=["sm_80"], kernel="reduce<float, 32>").kernels[0]
    assert kernel.mangled.startswith("_ZN1a1b6reduceIfLi32EEE")
    assert parameters(kernel)[0].element == "f32"


def test_template_without_instance_says_how_to_write_one(write: Writer) -> None:
    for name in ("reduce", None):
        message = failure(write(REDUCE), kernel=name)
        assert "is a template" in message
        assert '"reduce<T, THREADS>"' in message


def test_instance_that_does_not_fit(write: Writer) -> None:
    message = failure(write(REDUCE), kernel="reduce<Nothing, 64>")
    assert 'identifier "Nothing" is undefined' in message
    assert "__nv_name_map" not in message


def test_arguments_for_a_kernel_that_is_no_template(write: Writer) -> None:
    assert "is not a template" in failure(write(TWO), kernel="shift<float>")


def test_same_name_in_two_namespaces_is_ambiguous(write: Writer) -> None:
    text = "".join(f"namespace {n} {{ __global__ void k(int *p) {{ *p = 1; }} }}\n" for n in "ab")
    message = failure(write(text), kernel="k")
    assert "a::k(" in message
    assert "b::k(" in message


def test_the_name_of_overloaded_kernels_is_ambiguous(write: Writer) -> None:
    text = "__global__ void k(int *p) { *p = 1; }\n__global__ void k(float *p) { *p = 1; }\n"
    assert "overloaded" in failure(write(text), kernel="k")


def test_static_and_anonymous_kernels_are_compiled(write: Writer) -> None:
    text = "static __global__ void s(int *p) { *p = 1; }\nnamespace { __global__ void t(int *p) { *p = 2; } }\n"
    path = write(text)
    for name in "st":
        kernel = compile_source(path, architectures=["sm_70"], kernel=name).kernels[0]
        assert f".entry {kernel.mangled}(" in kernel.ptx


@pytest.mark.parametrize("text", ["", "int main() { return 0; }\n", "__device__ int f() { return 1; }\n"])
def test_no_kernel(write: Writer, text: str) -> None:
    assert "no kernel found" in failure(write(text))


def test_error_shows_file_line_and_text(write: Writer) -> None:
    path = write(SAXPY.replace("y[i] = a", "z[i] = a"))
    message = failure(path)
    assert f'{path}(6): error: identifier "z" is undefined' in message
    assert "if (i < n) z[i] = a * x[i] + y[i];\n" in message
    assert "1 error." in message


def test_error_behind_host_code_keeps_its_line(write: Writer) -> None:
    host = "#include <string>\nint count = 0;\nvoid host() {\n  std::string s;\n}\n/* a\n   b */\n"
    path = write(host + "__global__ void k(float *x) {\n  x[0] = nothing;\n}\n")
    assert f"{path}(9): error" in failure(path)


def test_only_the_first_errors_are_shown(write: Writer) -> None:
    lines = "".join(f"  x[{i}] = unknown{i};\n" for i in range(20))
    message = failure(write(f"__global__ void k(float *x) {{\n{lines}}}\n"))
    assert "20 errors, the first 5 shown." in message
    assert "unknown4" in message
    assert "unknown5" not in message


def test_missing_header_is_named_with_its_cure(write: Writer) -> None:
    path = write('#include "nowhere/special.h"\n__global__ void k(int *p) { *p = SPECIAL; }\n')
    message = failure(path)
    assert message.startswith(f"{path}(1): ")
    assert 'the header "nowhere/special.h" cannot be found' in message
    assert "Put it in the folder of the source" in message


@pytest.mark.skipif(bool(package_folders("nvidia.curand")), reason="the extra curand is installed")
def test_header_of_a_wheel_that_is_not_installed_names_the_wheel(write: Writer) -> None:
    message = failure(write("#include <curand_kernel.h>\n__global__ void k(int *p) { *p = 1; }\n"))
    assert message.endswith("pip install 'kerncast[curand]'")


def test_device_function_of_another_file(write: Writer) -> None:
    text = "__device__ int far(int);\n__global__ void k(int *p) { *p = far(1); }\n"
    assert "defined in another file" in failure(write(text))


def test_no_such_file(tmp_path: Path) -> None:
    assert "no such file" in failure(tmp_path / "none.cu")
    assert "it is a folder" in failure(tmp_path)


def test_defines_reach_the_parser_and_the_compiler(write: Writer) -> None:
    text = "#ifdef WIDE\n__global__ void k(double *p) { p[0] = WIDE; }\n#else\n#error narrow\n#endif\n"
    kernel = compile_source(write(text), architectures=["sm_70"], defines=[("WIDE", "2.5")]).kernels[0]
    assert parameters(kernel)[0].element == "f64"
    assert "#error directive: narrow" in failure(write(text))


def test_a_header_beside_the_source_may_hold_host_code(write: Writer) -> None:
    write(
        '#pragma once\n#include "inner.h"\n#include <vector>\ninline std::vector<int> host() { return {}; }\n',
        "util/outer.h",
    )
    write("#pragma once\n__device__ inline float twice(float x) { return 2 * x; }\n", "util/inner.h")
    path = write('#include "util/outer.h"\n#include "util/inner.h"\n__global__ void k(float *x) { *x = twice(*x); }\n')
    assert compile_source(path, architectures=["sm_70"]).kernels[0].mangled == "_Z1kPf"


def test_include_directories(write: Writer, tmp_path: Path) -> None:
    write("#define N 7\n", "elsewhere/n.h")
    path = write('#include "n.h"\n__global__ void k(int *p) { *p = N; }\n')
    request = CompileRequest(path, ("sm_70",), include_dirs=(tmp_path / "elsewhere",))
    assert "7;" in compile_request(request).kernels[0].ptx


def test_code_that_depends_on_the_architecture(write: Writer) -> None:
    text = """#if __CUDA_ARCH__ >= 800
__global__ void k(float *x) { *x = 1; }
#else
__global__ void k(double *x) { *x = 1; }
#endif
"""
    old, new = compile_source(write(text), architectures=["sm_70", "sm_80"]).kernels
    assert (parameters(old)[0].element, parameters(new)[0].element) == ("f64", "f32")
    assert (old.mangled, new.mangled) == ("_Z1kPd", "_Z1kPf")


def test_inspect_lists_kernels(write: Writer) -> None:
    assert [k.name for k in kernels_of(write(SAXPY))] == ["saxpy"]


def test_a_path_with_spaces_and_other_letters(write: Writer) -> None:
    path = write('#include "größe.h"\n' + SAXPY, "mein Ordner/kärnel 1.cu")
    write("#define X 1\n", "mein Ordner/größe.h")
    assert compile_source(path, architectures=["sm_70"]).kernels[0].kernel == "saxpy"


def test_a_relative_path(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(SAXPY, "sub/k.cu")
    monkeypatch.chdir(path.parent.parent)
    assert "sub/k.cu(1): error" in failure_of(write, "nonsense\n")
    assert compile_source(Path("sub/k.cu"), architectures=["sm_70"]).kernels[0].kernel == "saxpy"


def failure_of(write: Writer, text: str) -> str:
    write(text + SAXPY, "sub/k.cu")
    try:
        return failure(Path("sub/k.cu"))
    finally:
        write(SAXPY, "sub/k.cu")


def test_a_foreign_toolkit_makes_no_difference(write: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("#include <cuda_fp16.h>\n#include <vector>\n" + SAXPY)
    expected = compile_source(path, architectures=["sm_70"]).kernels[0]
    foreign = tmp_path / "toolkit"
    for folder in ("include", "lib64"):
        (foreign / folder).mkdir(parents=True)
    for name in ("cuda_fp16.h", "vector", "cstdio"):
        (foreign / "include" / name).write_text("#error foreign\n", encoding="utf-8")
    (foreign / "lib64" / "libnvrtc-builtins.so.12.9").write_bytes(b"not a library")
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        monkeypatch.setenv(name, str(foreign))
    for name in ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"):
        monkeypatch.setenv(name, str(foreign / "include"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(foreign / "lib64"))
    assert compile_source(path, architectures=["sm_70"]).kernels[0] == expected


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX environment")
def test_an_almost_empty_environment(write: Writer) -> None:
    path = write(SAXPY)
    code = (
        "from kerncast.compile import compile_source as c;"
        f"print(c({str(path)!r}, architectures=['sm_70']).kernels[0].mangled)"
    )
    root = str(Path(kerncast.__path__[0]).parent)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": root, "KERNCAST_CACHE": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("_Z5saxpyifPKfPf", "")


def test_two_headers_of_one_name_are_told_apart_where_they_hold_host_code(write: Writer) -> None:
    for number, folder in enumerate("ab", start=1):
        write(f"#define FROM_{folder} {number}\ninline int host_{folder}() {{ return 1; }}\n", f"{folder}/same.h")
        write('#include "same.h"\n', f"{folder}/outer.h")
    path = write(
        '#include "a/outer.h"\n#include "b/outer.h"\n__global__ void k(int *p) { *p = 10 * FROM_a + FROM_b; }\n'
    )
    (kernel,) = compile_source(path, architectures=["sm_70"]).kernels
    assert "12;" in kernel.ptx


def test_host_code_that_a_macro_makes_does_no_harm(write: Writer) -> None:
    text = "#define BOTH(n) int host_##n() { return 1; } __global__ void k_##n(int *p) { *p = 1; }\nBOTH(a)\n"
    assert compile_source(write(text), architectures=["sm_70"], kernel="k_a").kernels[0].mangled == "_Z3k_aPi"


def test_constant_functions_without_annotation(write: Writer) -> None:
    text = "constexpr int square(int a) { return a * a; }\n__global__ void k(int *p) { *p = square(*p); }\n"
    assert "mul.lo.s32" in compile_source(write(text), architectures=["sm_70"]).kernels[0].ptx


def test_every_public_name_is_there() -> None:
    from kerncast import compile as package

    assert all(getattr(package, name) is not None for name in package.__all__)
    assert dir(package) == sorted(package.__all__)
    with pytest.raises(AttributeError):
        _ = package.nothing
