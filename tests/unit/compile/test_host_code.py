"""Host code is taken out, device code stays byte for byte, and every line stays where it was."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.compile.source import host_code, parsing
from tests.helpers.thorough import examples

OPTIONS = parsing.ParseOptions(70, "c++17", (), ())


def stripped(text: str, tmp_path: Path) -> host_code.DeviceCode:
    path = tmp_path / "k.cu"
    path.write_text(text, encoding="utf-8", newline="")
    unit = parsing.parse(path, OPTIONS)
    errors = host_code.errors_by_file(unit).get(str(path), ())
    return host_code.device_code(
        text.encode(), parsing.by_file(unit).get(str(path), ()), host_code.Context(errors=errors)
    )


DEVICE = [
    "__global__ void k(float *x) { x[0] = 1; }",
    "__device__ int helper(int a) { return a; }",
    "__host__ __device__ float both(float a) { return a; }",
    "template <class T> __device__ T twice(T a) { return a + a; }",
    "template <class T, int N> __global__ void instance(T *x) { x[N] = N; }",
    "struct Pair { int a; float b; };",
    "struct Method { int a; __device__ int get() const { return a; } };",
    "typedef unsigned int word;",
    "using real = float;",
    "enum class Mode { A, B };",
    "__constant__ float table[16];",
    "__device__ int counter = 3;",
    "constexpr int SIZE = 4 * 8;",
    "const int COUNT = 7;",
    "static const float WEIGHTS[3] = {0.5f, 1.0f, 0.5f};",
    "#define TILE 16",
    "#define ADD(a, b) ((a) + \\\n  (b))",
    "#define STORE(T) { x[T] = 1; }",
    "namespace inner { __device__ int g() { return 2; } }",
    'extern "C" __global__ void plain_name(int *p) { *p = 1; }',
    "// a comment: int main() { return 0; }",
    "/* void host();\n */",
    "using namespace std;",
    "#ifdef NEVER\nvoid unseen() {}\n#endif",
    "struct Defaulted { int a; Defaulted() = default; __device__ Defaulted(int v) : a(v) {} };",
]

HOST = [
    "int main(int argc, char **argv) { return 0; }",
    "static inline void check(cudaError_t e) { if (e) exit(1); }",
    "void declared(int);",
    "__host__ void annotated() { cudaFree(0); }",
    "std::vector<float> make(int n) { return std::vector<float>(n); }",
    "template <class T> void fill(T *x, int n) { for (int i = 0; i < n; i++) x[i] = i; }",
    "[[nodiscard]] int attributed() { return 1; }",
    "int global_count = 0;",
    "static float *buffer, *other;",
    "std::vector<int> sizes = {1, 2, 3};",
    'const std::string NAME = "text {";',
    "cudaStream_t stream;",
    'extern "C" int c_name(void) { return 0; }',
    'extern "C" { void first(); void second() {} }',
    "namespace host { void f() { launch<<<1, 2>>>(); } }",
    'void prints() { std::cout << "} // \\" {" << std::endl; }',
    "void outer() { auto f = [](int a) { return a; }; f(1); }",
    "unknown_library::Matrix load(const unknown_library::Path &p) { return {}; }",
    "using std::cout;",
    "namespace host { void f(int n) { launch<<<1, 2>>>(n); } } using host::f;",
    "auto trailing(int a) -> int { return a; }",
    "extern int elsewhere;",
    "UnknownTimer *timer = NULL;",
    "unknown::Type value = unknown::make<3>(), other;",
    "void CUDART_CB callback(void *data) {}",
    'void raw() { const char *s = R"x(}\n#if 0\n)x"; }',
]


@pytest.mark.parametrize("text", DEVICE)
def test_device_code_is_untouched(text: str, tmp_path: Path) -> None:
    code = stripped(text + "\n", tmp_path)
    assert code.text == (text + "\n").encode()
    assert not code.changed


@pytest.mark.parametrize("text", HOST)
def test_host_code_is_taken_out(text: str, tmp_path: Path) -> None:
    code = stripped(f"#include <vector>\n#include <string>\n#include <iostream>\n{text}\n", tmp_path)
    assert code.changed
    rest = code.text.decode().split("\n", 3)[3]
    allowed = 'extern "C" { }' if "{ void first" in text else "namespace host { }" if "namespace" in text else ""
    assert rest.replace(" ", "").replace("\n", "").replace(";", "") == allowed.replace(" ", "")
    assert code.text.count(b"\n") == text.count("\n") + 4


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.sampled_from([(True, t) for t in DEVICE] + [(False, t) for t in HOST]), unique=True, max_size=12))
def test_any_mixture_keeps_device_code_and_every_line(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[bool, str]]
) -> None:
    text = "#include <vector>\n#include <string>\n" + "\n".join(part for _, part in parts) + "\n"
    code = stripped(text, tmp_path_factory.mktemp("mixture"))
    assert len(code.text) == len(text.encode())
    assert [len(line) for line in code.text.split(b"\n")] == [len(line) for line in text.encode().split(b"\n")]
    for is_device, part in parts:
        if is_device:
            assert part.encode() in code.text
    if not any(not is_device for is_device, _ in parts):
        assert code.text == text.encode()


def test_directives_inside_host_functions_stay(tmp_path: Path) -> None:
    text = """void host() {
#define WIDTH 32
#ifdef SOMETHING
  int a = 1; /*
#endif
  */
#endif
  const char *s = "\\
#else";
}
__global__ void k(int *p) { *p = WIDTH; }
"""
    lines = stripped(text, tmp_path).text.decode().split("\n")
    kept = [line for line in lines if line.startswith("#")]
    assert kept == ["#define WIDTH 32", "#ifdef SOMETHING", "#endif"]
    assert lines[-2] == "__global__ void k(int *p) { *p = WIDTH; }"


def test_methods_of_a_class_are_sorted_one_by_one(tmp_path: Path) -> None:
    text = """struct Image {
  Image(int n) : width(n) { data = new float[n]; }
  ~Image();
  virtual void show() = 0;
  __device__ float at(int i) const { return data[i]; }
  friend std::ostream &operator<<(std::ostream &o, const Image &i) { return o; }
  static int count;
  int width; float *data;
};
"""
    rest = stripped("#include <iostream>\n" + text, tmp_path).text.decode()
    assert "__device__ float at(int i) const { return data[i]; }" in rest
    assert "int width; float *data;" in rest
    for gone in ("new float", "~Image", "show", "ostream &", "count", "= 0"):
        assert gone not in rest


def test_a_struct_stays_where_its_variables_go(tmp_path: Path) -> None:
    text = "struct S { int a; } first, second;\n__device__ int f(S s) { return s.a; }\n"
    rest = stripped(text, tmp_path).text.decode()
    assert "struct S { int a; }" in rest
    assert "first" not in rest
    assert "second" not in rest


def test_instantiations_of_host_templates_go(tmp_path: Path) -> None:
    text = (
        "template <class T> void run(T n) {}\ntemplate void run<float>(float);\n"
        "template <class T> __global__ void k(T *x) { *x = 0; }\ntemplate __global__ void k<int>(int *);\n"
    )
    rest = stripped(text, tmp_path).text.decode()
    assert "run" not in rest
    assert "template __global__ void k<int>(int *);" in rest


def test_a_macro_that_makes_host_and_device_code_stays(tmp_path: Path) -> None:
    text = "#define BOTH(n) void host_##n() {} __global__ void k_##n(int *p) { *p = 1; }\nBOTH(a)\n"
    assert stripped(text, tmp_path).text == text.encode()


def test_constant_expressions_stay_and_are_reported(tmp_path: Path) -> None:
    text = "constexpr int square(int a) { return a * a; }\n"
    code = stripped(text, tmp_path)
    assert code.text == text.encode()
    assert code.has_unannotated


def test_a_function_that_is_only_asked_for_its_type_stays(tmp_path: Path) -> None:
    text = "template <int n> struct V { static auto zero() { return n; } using T = decltype(zero()); };"
    code = stripped(text + " auto other() { return 1; }", tmp_path)
    assert b"zero() { return n; }" in code.text
    assert b"other" not in code.text
    assert code.has_unannotated


def test_members_defined_outside_their_class_template_go_with_their_heads(tmp_path: Path) -> None:
    text = """template <class T> struct Box { T v; int host() const; template <class U> Box(U u); };
template <class T> inline int Box<T>::host() const { return 1; }
template <class T>
template <class U> Box<T>::Box(U u) : v(u) {}
"""
    rest = stripped(text, tmp_path).text.decode()
    assert "".join(rest.replace(";", "").split()) == "template<classT>structBox{Tv}"
