"""Launches of host code: which kernel, how wide, on which memory."""

from pathlib import Path

import pytest

from kerncast.compile import CompileRequest
from kerncast.hostcode import HostLaunch, read_host_code
from tests.helpers.host_programs import argument, launches_of

KERNEL = "__global__ void k(float *x, int n) {}\n"


def only(text: str, folder: Path, argv: str | None = None) -> HostLaunch:
    (launch,) = launches_of(text, folder, argv)
    return launch


def main(body: str, before: str = KERNEL) -> str:
    return f"{before}int main(int argc, char **argv) {{\n{body}\n}}\n"


@pytest.mark.parametrize(
    ("body", "grid", "block"),
    [
        ("k<<<4, 256>>>(0, 1);", (4,), (256,)),
        ("dim3 g(4, 3), b{16, 16};\nk<<<g, b>>>(0, 1);", (4, 3), (16, 16)),
        ("k<<<dim3(4, 1, 2), dim3(8)>>>(0, 1);", (4, 1, 2), (8,)),
        ("dim3 g; g.x = 7; g.y = 2; k<<<g, 32>>>(0, 1);", (7, 2), (32,)),
        ("dim3 g(9); g = dim3(5, 5); k<<<g, 32>>>(0, 1);", (5, 5), (32,)),
        ("dim3 g = 6; dim3 b = 64; k<<<g, b>>>(0, 1);", (6,), (64,)),
        ("uint3 g = {2, 3, 1}; k<<<g, 32>>>(0, 1);", (2, 3), (32,)),
        ("k<<<\n  4,\n  32\n>>>(0, 1);", (4,), (32,)),
        ("auto g = make_uint3(3, 1, 1); k<<<dim3(g), 32>>>(0, 1);", (3,), (32,)),
        ('int n; scanf("%d", &n); k<<<dim3(n, 4), 32>>>(0, 1);', (None, 4), (32,)),
        ("k<<<0, 32>>>(0, 1);", (None,), (32,)),
        ("cudaLaunchKernel((void *)k, dim3(4), dim3(32), 0, 8, 0);", (4,), (32,)),
        ("hipLaunchKernelGGL(k, dim3(4), dim3(32), 0, 0, 0, 1);", (4,), (32,)),
    ],
)  # fmt: skip
def test_geometry(body: str, grid: tuple[int | None, ...], block: tuple[int, ...], tmp_path: Path) -> None:
    launch = only(main(body), tmp_path)
    assert (launch.grid.value, launch.block.value) == (grid, block)
    assert launch.kernel == "k"


def test_the_place_and_the_text_of_each_value(tmp_path: Path) -> None:
    launch = only(main("int n = 1000;\nk<<<(n + 255) / 256, 256, n * 4>>>(0, n);"), tmp_path)
    assert (launch.place, launch.grid.expression, launch.grid.place) == ("k.cu:4", "(n + 255) / 256", "k.cu:4")
    assert (launch.shared_bytes.value, launch.shared_bytes.expression) == (4000, "n * 4")
    assert argument(launch, "n").expression == "int n = 1000"


@pytest.mark.parametrize(
    ("call", "kernel"),
    [
        ("red<float, 256><<<1, 32>>>(0);", "red<float, 256>"),
        ("double *d; red<double><<<1, 32>>>(d);", "red<double, 64>"),
        ("double *d; ded<<<1, 32>>>(d, 2.0);", "ded<double>"),
        ("a::inner<<<1, 32>>>(0);", "a::inner"),
        ("run<float, 128>(3);", "red<float, 128>"),
        ("flag<true, 0, 4294967295u, GREEN><<<1, 32>>>(0);", "flag<true, false, 4294967295, (Colour)1>"),
        ("pack<1, 2><<<1, 32>>>(0); a::inner<<<1, 1>>>(0);", "a::inner"),
        ("Box<int> box; box.go();", "ded<int>"),
        ("auto f = [](int n) { ded<<<n, 32>>>((float *)0, 1.0f); }; f(3);", "ded<float>"),
        ("CHECK((red<char, 2><<<1, 32>>>(0)));", "red<char, 2>"),
        ("LAUNCH((red<char, 2>), 1, 32, 0);", "red<char, 2>"),
    ],
)
def test_the_instance_that_is_launched(call: str, kernel: str, tmp_path: Path) -> None:
    before = """#define CHECK(x) do { x; if (cudaGetLastError()) exit(1); } while (0)
#define LAUNCH(k, g, b, ...) k<<<g, b>>>(__VA_ARGS__)
template <class T, int B = 64> __global__ void red(T *x) {}
template <class T> __global__ void ded(T *x, T v) {}
enum Colour { RED, GREEN };
template <bool A, bool B, unsigned N, Colour C> __global__ void flag(int *x) {}
template <int... N> __global__ void pack(int *x) {}
namespace a { __global__ void inner(int *x) {} }
template <class T, int B> void run(int n) { T *d; cudaMalloc(&d, n * sizeof(T)); red<T, B><<<n, B>>>(d); }
template <class T> struct Box { T *p; void go() { ded<<<1, 4>>>(p, (T)1); } };
"""
    found = launches_of(main(call, before), tmp_path)
    # A template that nothing makes an instance of has its launches too.
    assert [each.kernel for each in found if "?" not in each.kernel] == [kernel]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("float *d; cudaMalloc((void **)&d, 4000);", "f32[1000] random"),
        ("float *d; cudaMalloc(&d, 10 * sizeof(*d)); cudaMemset(d, 0, 40);", "f32[10] zeros"),
        ("float *d; cudaMalloc(&d, 40); cudaMemset(d, 0, 40); cudaMemcpy(d, d, 40, cudaMemcpyHostToDevice);",
         "f32[10] random"),
        ("float *d; cudaMallocManaged(&d, 40);", "f32[10] random"),
        ("float *d; cudaMallocAsync(&d, 40, 0);", "f32[10] random"),
        ("float *h, *d; cudaHostAlloc(&h, 40, 2); cudaHostGetDevicePointer(&d, h, 0);", "f32[10] random"),
        ("float *a, *d; cudaMalloc(&a, 40); d = a + 2;", "f32[8] random"),
        ("float *a; cudaMalloc(&a, 40); float *d = &a[4];", "f32[6] random"),
        ("float *d = NULL;", 0),
        ("float *d = (float *)malloc(80);", "f32[20] random"),
        ("float *d = new float[12];", "f32[12] random"),
        ("float *d = get<float>(6);", "f32[6] random"),
        ("float *d; make(&d, 7);", "f32[7] random"),
        ("S s; cudaMalloc(&s.p, 48); float *d = s.p;", "f32[12] random"),
        ("float *d; CHECK(cudaMalloc(&d, 44));", "f32[11] random"),
        ("thrust::device_vector<float> v(15); float *d = thrust::raw_pointer_cast(v.data());", "f32[15] zeros"),
        ("thrust::device_vector<float> v(15, 2.0f); float *d = thrust::raw_pointer_cast(&v[0]);", "f32[15] random"),
        ("std::vector<float> h(9); float *d; cudaMalloc(&d, h.size() * sizeof(float));", "f32[9] random"),
        ("float *a, *b; cudaMalloc(&a, 40); cudaMalloc(&b, 80); float *d = a; a = b; std::swap(d, a);",
         "f32[20] random"),
        ('int n; scanf("%d", &n); float *d; cudaMalloc(&d, n);', "f32[?] random"),
        ("float *d; if (unknown()) cudaMalloc(&d, 40); else cudaMalloc(&d, 80);", "f32[?] random"),
        ("float *d = unknown(3);", "f32[?] random"),
    ],
)  # fmt: skip
def test_the_memory_behind_a_pointer(body: str, expected: object, tmp_path: Path) -> None:
    before = f"""#include <vector>
#include <thrust/device_vector.h>
#define CHECK(x) if (x != cudaSuccess) {{ printf("no"); exit(1); }}
{KERNEL}struct S {{ float *p; }};
template <class T> T *get(int n) {{ T *p; cudaMalloc(&p, n * sizeof(T)); return p; }}
void make(float **p, int n) {{ cudaMalloc(p, n * sizeof(float)); }}
"""
    assert argument(only(main(f"{body}\nk<<<1, 32>>>(d, 1);", before), tmp_path), "x").value == expected


@pytest.mark.parametrize(
    ("type_text", "expected"),
    [
        ("int *", "i32[24] zeros"),
        ("const unsigned char *", "u8[96] zeros"),
        ("double *", "f64[12] random"),
        ("float4 *", "f32[6, 4] random"),
        ("float2 *", "f32[12, 2] random"),
        ("bool *", "u8[96] zeros"),
        ("void *", "u8[96] zeros"),
        ("P *", "i32[12, 2] zeros"),
        ("Mixed *", "u8[6, 16] zeros"),
        ("float **", "?"),
    ],
)
def test_the_element_is_the_kernels(type_text: str, expected: str, tmp_path: Path) -> None:
    before = f"struct P {{ int a, b; }}; struct Mixed {{ double a; int b; }};\n__global__ void k({type_text}x) {{}}\n"
    body = f"void *d; cudaMalloc(&d, 96); k<<<1, 32>>>(({type_text})d);"
    assert argument(only(main(body, before), tmp_path), "x").value == expected


def test_pointers_into_one_allocation_share_it(tmp_path: Path) -> None:
    before = """__global__ void k(float *a, float *b, int *c, float *d) {}
struct Box { float *p; Box(int n) { cudaMalloc(&p, n * 4); } };
"""
    body = "float *x, *y; cudaMalloc(&x, 400); cudaMalloc(&y, 400); k<<<1, 1>>>(x + 10, x, (int *)(x + 5), y);"
    values = [each.value.value for each in only(main(body, before), tmp_path).arguments]
    assert values == ["&b[10]", "f32[100] random", "&b[5]", "f32[100] random"]
    body = "Box x(100), y(100); k<<<1, 1>>>(x.p, y.p, 0, x.p);"
    values = [each.value.value for each in only(main(body, before), tmp_path).arguments]
    assert values == ["f32[100] random", "f32[100] random", 0, "&a"]


def test_integers_say_that_their_contents_decide(tmp_path: Path) -> None:
    before = "__global__ void k(int *x) {}\n"
    launch = only(main("int *d; cudaMalloc(&d, 40); k<<<1, 32>>>(d);", before), tmp_path)
    assert "contents decide branches" in argument(launch, "x").notes[0]


def test_an_array_parameter_is_a_pointer(tmp_path: Path) -> None:
    launch = only(
        main("void *d; cudaMalloc(&d, 80); k<<<1, 1>>>((float(*)[5])d);", "__global__ void k(float x[][5]) {}\n"),
        tmp_path,
    )
    assert argument(launch, "x").value == "f32[4, 5] random"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("S s = {1, 2.0f};", "bytes(0100000000000040)"),
        ("S s; s.a = -1; s.b = 1;", "bytes(ffffffff0000803f)"),
        ("S s; s.a = 1;", "bytes(?)"),
        ("S s = {1}; unknown(s.a);", "bytes(0100000000000000)"),
    ],
)
def test_a_struct_by_value(body: str, expected: str, tmp_path: Path) -> None:
    launch = only(
        main(f"{body} k<<<1, 1>>>(s);", "struct S { int a; float b; };\n__global__ void k(S s) {}\n"), tmp_path
    )
    assert argument(launch, "s").value == expected


def test_a_scalar_has_the_parameters_type(tmp_path: Path) -> None:
    before = "__global__ void k(float f, bool b, unsigned char c, long n, double d) {}\n"
    launch = only(main("k<<<1, 1>>>(0.1, 5, 258, -1, 3);", before), tmp_path)
    values = [each.value.value for each in launch.arguments]
    assert values == [0.10000000149011612, True, 2, -1, 3.0]
    assert [type(each) for each in values] == [float, bool, int, int, float]


def test_parameters_without_a_name_are_numbered(tmp_path: Path) -> None:
    assert only(main("k<<<1, 1>>>(4, 5);", "__global__ void k(int, int n) {}\n"), tmp_path).names == ("argument_0", "n")


def test_arguments_in_an_array_of_addresses(tmp_path: Path) -> None:
    body = """float *d; cudaMalloc(&d, 40); int n = 10;
void *args[] = {&d, (void *)&n};
cudaLaunchCooperativeKernel((const void *)k, dim3(2), dim3(32), args, 64, 0);"""
    launch = only(main(body), tmp_path)
    assert (argument(launch, "x").value, argument(launch, "n").value) == ("f32[10] random", 10)
    assert launch.shared_bytes.value == 64


def test_values_go_through_functions(tmp_path: Path) -> None:
    text = f"""{KERNEL}int width;
void run(float *x, int n) {{ k<<<width, 32>>>(x, n); }}
void start(int n) {{ float *d; cudaMalloc(&d, n * 4); run(d, n); }}
int main(int argc, char **argv) {{ width = 3; start(atoi(argv[1])); }}
"""
    launch = only(text, tmp_path, "20")
    assert (launch.grid.value, argument(launch, "x").value, argument(launch, "n").value) == ((3,), "f32[20] random", 20)


def test_the_first_of_several_calls_is_taken_and_said(tmp_path: Path) -> None:
    text = f"{KERNEL}void run(int n) {{ k<<<1, 32>>>(0, n); }}\nint main() {{ run(5);\nrun(6); }}\n"
    value = argument(only(text, tmp_path), "n")
    assert (value.value, value.notes) == (5, ("as in the first of 2 calls of run, k.cu:3",))
    same = argument(only(text.replace("run(6)", "run(5)"), tmp_path), "n")
    assert (same.value, same.notes) == (5, ())


def test_the_first_pass_of_a_loop_is_said(tmp_path: Path) -> None:
    value = argument(only(main("for (int i = 2; i < 9; i++)\n  k<<<1, 32>>>(0, i);"), tmp_path), "n")
    assert (value.value, value.notes) == (2, ("in the first pass of the loop of k.cu:3",))


def test_launches_of_included_headers_and_of_a_library_without_main(tmp_path: Path) -> None:
    (tmp_path / "run.h").write_text("template <class T> void go(T *d) { k<<<2, 32>>>(d, 4); }\n", encoding="utf-8")
    launch = only(f'{KERNEL}#include "run.h"\nvoid use(float *x) {{ go(x); }}\n', tmp_path)
    assert (launch.place, launch.grid.value) == ("run.h:1", (2,))
    assert "x is a parameter of use, which nothing here calls" in str(argument(launch, "x").reason)


def test_code_for_what_is_missing_does_no_harm(tmp_path: Path) -> None:
    text = f"""#include "missing.h"
#include <boost/nothing.hpp>
{KERNEL}template <class T> void run(T n) {{
  missing::Timer timer; std::cout << "n" << n << std::endl; auto t = std::chrono::steady_clock::now();
  MISSING_CHECK(cudaSetDevice(0)); Helper helper(n); helper.start();
  k<<<n, 32>>>(0, n);
}}
int main() {{ run(4); }}
"""
    assert only(text, tmp_path).grid.value == (4,)


def test_variables_of_the_device_that_a_kernel_reads(tmp_path: Path) -> None:
    before = """__constant__ float w[8]; __constant__ int count; __constant__ int other;
__device__ float weight(int i) { return w[i]; }
__global__ void k(float *x) { x[0] = weight(count); }
"""
    body = """float h[8]; fill(h); cudaMemcpyToSymbol(w, h, sizeof(h));
int n = argc * 3; cudaMemcpyToSymbol(count, &n, sizeof(n)); cudaMemcpyToSymbol(other, &n, sizeof(n));
k<<<1, 32>>>(0);"""
    launch = only(main(body, before), tmp_path, "")
    assert {each.parameter.name: each.value.value for each in launch.globals} == {"w": "f32[8] random", "count": 3}


def test_a_launch_that_could_not_be_read_is_named(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        "#include <tuple>\n"
        "__global__ void k(int n) {}\n"
        "// k<<<9, 9>>>(1);\n"
        "#define RUN(n) k<<<1, 32>>>(n)\n"
        "#ifdef NEVER\nvoid never() { k<<<3, 3>>>(3); }\n#endif\n"
        "int main() {\n"
        "    auto t = std::make_tuple(1, 2);\n"
        "    k<<<1, 32>>>(std::get<1>(t));\n"
        "    RUN(5);\n"
        "    k<<<\n      2,\n      32>>>(7);\n"
        "}\n",
        encoding="utf-8",
    )
    program = read_host_code(CompileRequest(source, ()))
    assert [launch.place for launch in program.launches] == ["k.cu:11", "k.cu:12"]
    assert program.caveats == ("a launch could not be read and is missing: k.cu:10",)
