"""What nvcc takes and NVRTC does not: its own macro, GNU's spellings, prototypes, folders of a build file."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import CompiledKernel, CompileRequest, compile_request, compile_source, nvrtc
from kerncast.compile.build_file import build_options
from kerncast.errors import CompileError
from tests.helpers.caveats import kinds, only
from tests.helpers.execute_helpers import launch, run


def compiled(folder: Path, text: str, **options: str) -> CompiledKernel:
    path = folder / "k.cu"
    path.write_text(text, encoding="utf-8")
    return compile_request(CompileRequest(path, ("sm_70",), **options)).kernels[0]  # type: ignore[arg-type]


def result(kernel: CompiledKernel) -> list[float]:
    values: list[float] = run(kernel, launch(1, 1, out="f32[8] zeros")).memory["out"].tolist()
    return values


def test_code_for_nvcc_alone(tmp_path: Path) -> None:
    text = """
#include <vector>
#include <string>
using std::vector;
using std::string;
using std::sort;
struct Holder { vector<int> v; string s; };
#if defined(__NVCC__) || defined(__HIPCC__)
#define BOTH __host__ __device__
#else
#define BOTH
#endif
float late(float x);
float host_only(float x);
long errors(0);
typedef float2 T2;
#define UNIT   (T2){ 1.f, 0.f }
struct Number { float v; BOTH Number(float x) : v(x) {} BOTH friend float twice(Number n) { return 2 * n.v; } };
__device__ T2 made(float a, float b) { return (T2){a, b}; }
static __device__ __const__ unsigned char bit = 4;
__global__ void k(float *out) {
  T2 t = (T2) {3.f, 4.f};
  if (out) { t.x += 1; }
  out[0] = late(made(1, 2).y); out[1] = t.x; out[2] = UNIT.x + bit; out[3] = twice(Number(5));
}
BOTH float late(float x) { return x + 10; }
"""
    assert result(compiled(tmp_path, text))[:4] == [12, 4, 5, 10]


def test_uint64_t_taken_for_unsigned_long_as_on_linux(tmp_path: Path) -> None:
    text = """#include <cstdint>
__device__ void next(unsigned long *seed) { *seed += 1; }
__global__ void k(float *out) { uint64_t seed = 41; next(&seed); out[0] = seed; }
"""
    assert result(compiled(tmp_path, text))[0] == 42


def test_formats_of_inttypes(tmp_path: Path) -> None:
    text = """#include <cinttypes>
__global__ void k(float *out) { printf("%" PRId8 " %" PRIu64 " %" PRIxPTR, int8_t(1), uint64_t(2), uintptr_t(3)); }
"""
    assert "vprintf" in compiled(tmp_path, text).ptx


#: Types of the C++ library that structs of host code hold, with types for their parameters.
HOST_TYPES = """
string string_view vector<int> map<int,int> multimap<int,int> unordered_map<int,int> unordered_multimap<int,int>
set<int> multiset<int> unordered_set<int> list<int> deque<int> queue<int> priority_queue<int> stack<int> unique_ptr<int>
shared_ptr<int> weak_ptr<int> allocator<int> function<void()> thread mutex condition_variable future<int> ostream
istream iostream ofstream ifstream fstream stringstream ostringstream istringstream mt19937 mt19937_64 random_device
default_random_engine complex<float> complex<double> atomic<int> atomic<long>
chrono::high_resolution_clock::time_point chrono::steady_clock::duration
"""
HOST_HEADERS = """
string string_view vector map unordered_map set unordered_set list deque queue stack memory functional thread mutex
condition_variable future iostream fstream sstream random complex atomic chrono
"""
COMPILER = shutil.which("g++")


@pytest.mark.skipif(COMPILER is None, reason="the sizes are those of libstdc++")
def test_types_of_host_code_leave_the_room_that_they_take_there(tmp_path: Path) -> None:
    assert COMPILER is not None
    includes = "".join(f"#include <{each}>\n" for each in HOST_HEADERS.split())
    host = tmp_path / "sizes.cpp"
    listed = ", ".join(f"sizeof(std::{each})" for each in HOST_TYPES.split())
    host.write_text(
        f'{includes}#include <cstdio>\nint main() {{ for (auto n : {{{listed}}}) std::printf("%zu ", n); }}'
    )
    subprocess.run([COMPILER, "-std=c++17", "-o", tmp_path / "sizes", host], check=True)
    sizes = subprocess.run([tmp_path / "sizes"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    text = "".join(
        f"struct S{number} {{ std::{each} own; double behind; }};\n"
        f'static_assert(sizeof(std::{each}) == {size}, "{each}");\n'
        for number, (each, size) in enumerate(zip(HOST_TYPES.split(), sizes, strict=True))
    )
    compiled(tmp_path, f"{includes}{text}__global__ void k(float *out) {{ out[0] = sizeof(S2); }}\n")


TRAITS = """
#include <type_traits>
#include <utility>
#include <functional>
#include <array>
#include <limits>
enum Kind : short { small, large };
struct Bits { int x; };
struct Square { __device__ int operator()(int i) const { return i * i; } };
template <class F, std::size_t... I> __device__ int total(F f, std::index_sequence<I...>) {
  int sum = 0;
  int each[] = {(sum += f(I), 0)...};
  return sum + each[0];
}
__global__ void k(float *out) {
  __shared__ typename std::aligned_storage<sizeof(Bits), alignof(Bits)>::type raw[4];
  raw[0].data[0] = 1;
  std::integral_constant<int, 7> seven;
  out[0] = total(Square(), std::make_index_sequence<5>());
  out[1] = std::plus<int>()(2, 3) + std::less<>()(1, 2.5) + std::is_convertible<int, float>::value;
  out[2] = sizeof(std::underlying_type<Kind>::type) + sizeof(std::make_unsigned<long long>::type);
  out[3] = sizeof(raw);
  out[4] = std::conjunction<std::is_trivially_copyable<Bits>, std::is_enum<Kind>>::value + raw[0].data[0];
  out[5] = std::make_pair(1, 2.0f).first + std::numeric_limits<int>::digits;
  out[6] = seven + std::is_array<int[3]>::value - std::negation<std::true_type>::value;
}
"""


@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++17", "c++20"])
def test_every_standard_has_the_traits(tmp_path: Path, standard: str) -> None:
    # 0 + 1 + 4 + 9 + 16; 5 + 1 + 1; 2 + 8; 4 x 4 bytes; 1 + 1; 1 + 31; 7 + 1
    assert result(compiled(tmp_path, TRAITS, standard=standard))[:7] == [30, 7, 10, 16, 2, 32, 8]


def test_a_standard_that_the_older_compiler_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text("__global__ void k(float *out) {}", encoding="utf-8")
    request = CompileRequest(path, ("sm_35",), standard="c++20")
    if nvrtc.library_paths(11) is None:  # without the extra kepler, the newer compiler stands in
        assert kinds(compile_request(request).kernels[0].caveats)[0] is CaveatKind.COMPILED_WITHOUT_KEPLER
        return
    with pytest.raises(CompileError, match=r"NVRTC 11.8, does not know c\+\+20\. Choose an older version"):
        compile_request(request)


def test_fast_mathematics_has_fewer_instructions(tmp_path: Path) -> None:
    text = "__global__ void k(float *out) { out[0] = sinf(out[0]); }"
    path = tmp_path / "k.cu"
    path.write_text(text, encoding="utf-8")
    exact, fast = (
        compile_request(CompileRequest(path, ("sm_70",), fast_math=is_fast)).kernels[0].ptx for is_fast in (False, True)
    )
    assert "sin.approx.ftz.f32" in fast
    assert len(fast) < len(exact)


MAKEFILE = """# the build
CC = nvcc
DEBUG ?= no
OPTIMIZE = yes
COMMON = ../shared
CFLAGS := -std=c++14 -I$(COMMON) -I/usr/local/cuda/include -I nowhere \\
          -DSIZE=8 -DNAME=\\"x\\" -DEMPTY= # -DREMARK
ifeq ($(DEBUG),yes)
  CFLAGS += -DDEBUG
else ifneq ($(OPTIMIZE), yes)
  CFLAGS += -DNOT
else
  CFLAGS += -use_fast_math
endif
ifdef UNSET
CFLAGS += -DUNSET_MACRO
endif
SELF = $(SELF) -DLOOP=$(shell echo 1)
main: main.cu
\t$(CC) $(CFLAGS) -DRECIPE -isystem ${COMMON}/more main.cu
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("shared/more", "program/src"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "program" / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    (tmp_path / "shared" / "size.h").write_text('#include "inner.h"\n', encoding="utf-8")
    (tmp_path / "shared" / "inner.h").write_text("#define STEP 3\n", encoding="utf-8")
    return tmp_path / "program" / "src" / "k.cu"


def test_a_makefile_is_read(project: Path) -> None:
    found = build_options(project)
    assert found is not None
    names = [folder.resolve().name for folder in found.include_dirs]
    assert names == ["shared", "more"]
    assert dict(found.defines) == {"SIZE": "8", "NAME": '"x"', "EMPTY": "", "RECIPE": "1"}
    assert found.fast_math


def test_headers_are_found_where_the_makefile_says(project: Path) -> None:
    project.write_text('#include "size.h"\n__global__ void k(float *out) { out[0] = STEP; }', encoding="utf-8")
    kernel = compile_source(project, architectures=["sm_70"]).kernels[0]
    assert result(kernel)[0] == 3
    assert only(kernel.caveats, CaveatKind.HEADERS_FROM_MAKEFILE).subject == "../Makefile"


def test_macros_of_the_makefile_where_a_source_needs_them(project: Path) -> None:
    project.write_text("__global__ void k(float *out) { out[0] = SIZE; }", encoding="utf-8")
    kernel = compile_source(project, architectures=["sm_70"]).kernels[0]
    assert result(kernel)[0] == 8
    macros = only(kernel.caveats, CaveatKind.MACROS_FROM_MAKEFILE)
    assert macros.subject == "../Makefile"
    assert str(macros.details["macros"]).startswith("SIZE = 8,")
    other = compile_source(project, architectures=["sm_70"], defines=[("SIZE", "5")]).kernels[0]
    assert result(other)[0] == 5
    assert other.caveats == ()


def test_macros_of_the_makefile_are_not_used_where_a_source_compiles(project: Path) -> None:
    text = "#ifndef SIZE\n#define SIZE 2\n#endif\n__global__ void k(float *out) { out[0] = SIZE; }"
    project.write_text(text, encoding="utf-8")
    kernel = compile_source(project, architectures=["sm_70"]).kernels[0]
    assert result(kernel)[0] == 2
    assert kernel.caveats == ()


def test_what_macros_do_not_mend_is_the_first_error(project: Path) -> None:
    project.write_text("__global__ void k(float *out) { out[0] = nothing; }", encoding="utf-8")
    with pytest.raises(CompileError, match='identifier "nothing" is undefined'):
        compile_source(project, architectures=["sm_70"])


def test_a_type_that_the_makefile_defines_is_known(project: Path) -> None:
    makefile = project.parents[1] / "Makefile"
    makefile.write_text("CFLAGS = -Ddfloat=double\n", encoding="utf-8")
    project.write_text("__global__ void k(dfloat *out, dfloat a) { out[0] = a; }", encoding="utf-8")
    signature = compile_source(project, architectures=["sm_70"]).kernels[0].signature
    assert signature is not None
    assert [parameter.element for parameter in signature.parameters] == ["f64", "f64"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "else\nendif\nendif",
        "ifeq (\nA = $(A)$(A)$(A)\n" * 50,
        "\0\xff = -I",
        "A = -I\nB=-D",
        "A = $(B)\nB = $(A)",
        "ifeq (" + "," * 200_000 + "\nendif",
        "ifeq " + '"" ' * 50_000 + "x\nendif",
        "A = " + "x" * 60_000 + "\n" + "\t$(A)$(A)\nA += y\n" * 50_000,
        "ifndef A\n" * 40_000 + "B = 1\n" * 40_000,
    ],
)
def test_odd_makefiles_are_harmless(project: Path, text: str) -> None:
    (project.parents[1] / "Makefile").write_text(text, encoding="utf-8")
    found = build_options(project)
    assert found is not None
    assert (found.include_dirs, found.defines) == ((), ())


@pytest.mark.parametrize(("mode", "size"), [("1", "10"), ("2", "20"), ("3", "30")])
def test_of_the_branches_of_a_condition_one_counts(mode: str, size: str, project: Path) -> None:
    text = f"""MODE = {mode}
ifeq ($(MODE),1)
A = -DSIZE=10
else ifeq ($(MODE), 2)
A = -DSIZE=20
ifdef A
B = -DTWO
endif
else
ifdef NOTHING
A = -DSIZE=40
else
A = -DSIZE=30
endif
endif
"""
    (project.parents[1] / "Makefile").write_text(text, encoding="utf-8")
    found = build_options(project)
    assert found is not None
    assert dict(found.defines) == {"SIZE": size} | ({"TWO": "1"} if mode == "2" else {})


def test_of_several_values_in_a_makefile_the_first_is_used_and_that_is_said(project: Path) -> None:
    others = " ".join(f"-DM{i}" for i in range(9))
    text = f"small: k.cu\n\tnvcc -DSIZE=4 {others} k.cu\nlarge: k.cu\n\tnvcc -DSIZE=8 k.cu\n"
    (project.parents[1] / "Makefile").write_text(text, encoding="utf-8")
    project.write_text("__global__ void k(float *out) { out[0] = SIZE; }", encoding="utf-8")
    kernel = compile_source(project, architectures=["sm_70"]).kernels[0]
    assert result(kernel)[0] == 4
    *_, macros, first = kernel.caveats
    assert str(macros.details["macros"]).endswith("M6 = 1 and 2 more")
    assert first == Caveat(CaveatKind.FIRST_OF_SEVERAL_VALUES, "SIZE")


def test_no_makefile_is_looked_for_far_above(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    (tmp_path / "Makefile").write_text("A = -DX", encoding="utf-8")
    assert build_options(folder / "k.cu") is None


@pytest.mark.skipif(os.name != "posix", reason="needs the permissions of POSIX")
def test_no_makefile_is_taken_from_a_folder_above_that_all_may_write_to(project: Path) -> None:
    above = project.parents[1]
    above.chmod(0o777)
    assert build_options(project) is None
    assert build_options(above / "k.cu") is not None


def test_a_kernel_in_another_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "kernels.cu").write_text(
        "template <class T>\n__global__ void\nadd(T *x)\n{ x[0] = 1; }\n", encoding="utf-8"
    )
    (tmp_path / "add.h").write_text("__global__ void add(float *x);\n__global__ void other(int n);\n", encoding="utf-8")
    path = tmp_path / "main.cu"
    path.write_text('#include "add.h"\nint main() { add<<<1, 1>>>(nullptr); }\n', encoding="utf-8")
    for kernel, said in ((None, "Kernels are defined in kernels.cu"), ("add<float>", "add is defined in kernels.cu")):
        with pytest.raises(CompileError, match=rf"no kernel.*\. {said}, beside it: give that file\."):
            compile_source(path, architectures=["sm_70"], kernel=kernel)
    with pytest.raises(CompileError) as caught:
        compile_source(path, architectures=["sm_70"], kernel="other")
    assert "beside it" not in str(caught.value)


def test_a_kernel_that_is_only_declared_is_named_with_its_file(tmp_path: Path) -> None:
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "a.cu")
    (tmp_path / "kernels.cu").write_text("__global__ void add(float *x) { x[0] = 1; }\n", encoding="utf-8")
    path = tmp_path / "main.cu"
    path.write_text("__global__ void add(float *x);\nint main() { add<<<1, 1>>>(0); }\n", encoding="utf-8")
    for kernel in ("add", None):
        with pytest.raises(CompileError, match=r"defined in kernels\.cu, beside it: give that file\."):
            compile_source(path, architectures=["sm_70"], kernel=kernel)


def test_approximate_functions_of_a_makefile_are_named_and_not_taken(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("NVCCFLAGS = -O3 --use_fast_math\n", encoding="utf-8")
    text = "__global__ void k(float *x) { *x = sinf(*x); }\n"
    plain = compiled(tmp_path, text)
    assert plain.caveats == (Caveat(CaveatKind.FAST_MATH_IGNORED, "Makefile"),)
    assert "sin.approx" not in plain.ptx
    fast = compile_request(CompileRequest(tmp_path / "k.cu", ("sm_70",), fast_math=True)).kernels[0]
    assert fast.caveats == ()
    assert "sin.approx" in fast.ptx
