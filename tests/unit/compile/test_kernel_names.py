"""Which kernel a name means: overloads, namespaces, templates; and what one that fits none is told."""

from pathlib import Path

import pytest

from kerncast.compile import KernelSignature, compile_source, nvrtc
from kerncast.compile.headers import PRELUDE_NAME, memory_headers
from kerncast.compile.selection import choose
from kerncast.errors import CompileError
from tests.helpers.inspection import kernels_of

Signatures = tuple[KernelSignature, ...]

SOURCE = """
#include <cstdint>
struct Pair { float a, b; };
template <class T> struct Box { T v; };
static __global__ void hidden(float *x) { x[0] = 1; }
namespace { __global__ void nameless(float *x) { x[0] = 2; } }
extern "C" __global__ void plain(float *x) { x[0] = 3; }
extern "C" { __global__ void in_block(float *x) { x[0] = 4; } }
__global__ void over(float *x) { x[0] = 5; }
__global__ void over(int *x, int n) { x[n] = 6; }
template <class T> __global__ void over(T *x, T a) { x[0] = a; }
template <class T, int N> __global__ void two(T *x) { x[0].a = N; }
template <class T> __global__ void two(T *x, T y) { x[0] = y; }
template <class T, int N = 4> __global__ void defaulted(T *x) { x[0] = N; }
template <class T> __global__ void of_type(T *x) { x[0] = T(); }
template <bool B, template <class> class X> __global__ void strange(float *x) { x[0] = sizeof(X<int>); }
template <class... T> __global__ void packed(float *x, T... more) { x[0] = sizeof...(more); }
#define MAKE(name, T) __global__ void name(T *x) { x[0] = sizeof(T); }
MAKE(made_f, float)
MAKE(made_d, double)
namespace one {
struct Quad { int a; };
typedef Quad *QuadPointer;
__global__ void both(QuadPointer q, const uint64_t n) { q->a = n; }
__global__ void both(int *q) { *q = 1; }
namespace deep { __global__ void same(float *x) { x[0] = 7; } }
}
namespace other { namespace deep { __global__ void same(float *x) { x[0] = 8; } } }
"""


#: Names of kernels, and what the Itanium C++ ABI makes of them.
MANGLED = {
    "hidden": "_Z6hiddenPf",
    "plain": "plain",
    "in_block": "in_block",
    "over(float *)": "_Z4overPf",
    "over(int*, int)": "_Z4overPii",
    "over(int *x, int n)": "_Z4overPii",
    "over<double>": "_Z4overIdEvPT_S0_",
    "two<Pair, 3>": "_Z3twoI4PairLi3EEvPT_",
    "two<int>(int *, int)": "_Z3twoIiEvPT_S0_",
    "defaulted<float>": "_Z9defaultedIfLi4EEvPT_",
    "defaulted<float, 2 * sizeof(int)>": "_Z9defaultedIfLi8EEvPT_",
    " defaulted < unsigned char , 2 > ": "_Z9defaultedIhLi2EEvPT_",
    "of_type<Box<Box<float>>>": "_Z7of_typeI3BoxIS0_IfEEEvPT_",
    "strange<(3 > 2), Box>": "_Z7strangeILb1E3BoxEvPf",
    "packed<int, float>": "_Z6packedIJifEEvPfDpT_",
    "made_f": "_Z6made_fPf",
    "made_d": "_Z6made_dPd",
    "one::both(int *)": "_ZN3one4bothEPi",
    "both(QuadPointer q, const uint64_t n)": "_ZN3one4bothEPNS_4QuadEy",
    "other::deep::same": "_ZN5other4deep4sameEPf",
    "::one::deep::same": "_ZN3one4deep4sameEPf",
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "names.cu"
    path.write_text(SOURCE, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def signatures(source: Path) -> Signatures:
    return kernels_of(source)


@pytest.fixture(scope="module")
def lowered(signatures: Signatures) -> dict[str, str]:
    """Compile every kernel of MANGLED at once, and return their names in PTX."""
    expressions = {name: str(choose(name, signatures, "k.cu").expression) for name in (*MANGLED, "nameless")}
    compiler = nvrtc.load(12)
    assert compiler is not None
    options = ["-arch=sm_70", f"--pre-include={PRELUDE_NAME}"]
    unit = nvrtc.Unit(SOURCE.encode(), "names.cu", memory_headers())
    image = compiler.compile(unit, options, list(expressions.values()))
    return {name: image.lowered[expression] for name, expression in expressions.items()}


@pytest.mark.parametrize("kernel", MANGLED)
def test_a_name_means_one_kernel(lowered: dict[str, str], kernel: str) -> None:
    assert lowered[kernel] == MANGLED[kernel]


def test_a_kernel_in_a_namespace_without_a_name(lowered: dict[str, str]) -> None:
    assert "8nameless" in lowered["nameless"]


def test_a_kernel_is_told_from_functions_of_headers_by_its_type(tmp_path: Path) -> None:
    """NVIDIA's headers have a norm and a rotate, which a program need not know of."""
    path = tmp_path / "k.cu"
    path.write_text("__global__ void norm(const float *x, int n, double *out) { *out = x[n]; }", encoding="utf-8")
    kernel = compile_source(path, architectures=["sm_70"], kernel="norm").kernels[0]
    assert kernel.mangled == "_Z4normPKfiPd"


def test_an_overload_has_its_own_signature(source: Path) -> None:
    kernel = compile_source(source, architectures=["sm_70"], kernel="over<double>(double *, double)").kernels[0]
    assert kernel.mangled == "_Z4overIdEvPT_S0_"
    assert kernel.signature is not None
    assert [parameter.element for parameter in kernel.signature.parameters] == ["f64", "f64"]


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("over", 'Write the types of its parameters too, such as "over(float *)":\n  over(float *x)\n'),
        ("over(double *)", "no kernel 'over' takes these parameters. There are:\n  over(float *x)\n"),
        ("plain(int)", "no kernel 'plain' takes these parameters"),
        ("both", 'such as "one::both(QuadPointer, const uint64_t)"'),
        ("same", "'same' is the name of several kernels. Write the namespace too:\n  one::deep::same("),
        ("deep::same", "is the name of several kernels"),
        ("two", "overloaded"),
        ("of_type", "is a template, which has no code until its parameters have values"),
        ("plain<float>", "plain is not a template"),
        ("defaulted<float", "no kernel 'defaulted<float'"),
        ("over(", "no kernel 'over('"),
        ("plane", "Did you mean plain?"),
        ("", "no kernel ''"),
    ],
)  # fmt: skip
def test_a_name_that_means_none_is_told_what_there_is(signatures: Signatures, kernel: str, said: str) -> None:
    with pytest.raises(CompileError) as caught:
        choose(kernel, signatures, "names.cu")
    assert said in str(caught.value)
