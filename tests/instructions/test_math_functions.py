"""The mathematical functions of CUDA, run end to end on both engines, against Python within their stated error.

Bounds in units of the last place: CUDA C++ Programming Guide, "Mathematical Functions", tables 17 and 18.
"""

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.compile import CompiledKernel, compile_source
from kerncast.execute import WholeGrid, execute
from kerncast.launch import Argument, Launch, parse_value

Doubles = npt.NDArray[np.float64]
COUNT = 96
NORMAL = NormalDist()


class Row(NamedTuple):
    """A function of one to three arguments."""

    single: float | None
    """bound in single precision; None where that is not checked"""
    double: float | None
    domain: tuple[float, float]
    function: Callable[..., float]
    second: tuple[float, float] | None = None
    third: tuple[float, float] | None = None


def bessel(order: int) -> Callable[[float], float]:
    """Return J of an order by its integral, for which the trapezoidal rule is exact to rounding."""
    angle = np.arange(400) * (2 * math.pi / 400)
    return lambda x: float(np.cos(order * angle - x * np.sin(angle)).mean())


def modified_bessel(order: int) -> Callable[[float], float]:
    angle = np.arange(400) * (2 * math.pi / 400)
    return lambda x: float((np.exp(x * np.cos(angle)) * np.cos(order * angle)).mean())


def half_away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


UNIT, WIDE, POSITIVE, SMALL = (-1.0, 1.0), (-30.0, 30.0), (1e-6, 1e6), (-8.0, 8.0)
FUNCTIONS = {
    "sqrt": Row(0, 0, POSITIVE, math.sqrt),
    "rsqrt": Row(2, 1, POSITIVE, lambda x: 1 / math.sqrt(x)),
    "cbrt": Row(1, 1, (-1e6, 1e6), math.cbrt),
    "rcbrt": Row(1, 1, (-1e6, 1e6), lambda x: 1 / math.cbrt(x)),
    "hypot": Row(3, 2, WIDE, math.hypot, WIDE),
    "rhypot": Row(2, 1, WIDE, lambda x, y: 1 / math.hypot(x, y), WIDE),
    "norm3d": Row(3, 2, WIDE, math.hypot, WIDE, WIDE),
    "rnorm3d": Row(2, 1, WIDE, lambda *x: 1 / math.hypot(*x), WIDE, WIDE),
    "exp": Row(1, 1, WIDE, math.exp),
    "exp2": Row(2, 1, WIDE, math.exp2),
    "exp10": Row(2, 1, WIDE, lambda x: 10.0**x),
    "expm1": Row(1, 1, SMALL, math.expm1),
    "log": Row(1, 1, POSITIVE, math.log),
    "log2": Row(1, 1, POSITIVE, math.log2),
    "log10": Row(2, 1, POSITIVE, math.log10),
    "log1p": Row(1, 1, (-0.9, 30.0), math.log1p),
    "sin": Row(2, 2, (-2e5, 2e5), math.sin),
    "cos": Row(2, 2, (-2e5, 2e5), math.cos),
    "tan": Row(4, 2, (-2e5, 2e5), math.tan),
    "sinpi": Row(1, None, (-0.5, 0.5), lambda x: math.sin(math.pi * x)),
    "cospi": Row(1, None, (-0.4, 0.4), lambda x: math.cos(math.pi * x)),
    "asin": Row(2, 2, UNIT, math.asin),
    "acos": Row(2, 2, UNIT, math.acos),
    "atan": Row(2, 2, WIDE, math.atan),
    "atan2": Row(3, 2, WIDE, math.atan2, WIDE),
    "sinh": Row(3, 2, SMALL, math.sinh),
    "cosh": Row(2, 1, SMALL, math.cosh),
    "tanh": Row(2, 1, SMALL, math.tanh),
    "asinh": Row(3, 3, WIDE, math.asinh),
    "acosh": Row(4, 3, (1.0, 30.0), math.acosh),
    "atanh": Row(3, 2, (-0.99, 0.99), math.atanh),
    "pow": Row(4, 2, (0.1, 30.0), math.pow, SMALL),
    "erf": Row(2, 2, (-4.0, 4.0), math.erf),
    "erfc": Row(4, 5, (-4.0, 5.0), math.erfc),
    "erfinv": Row(2, None, (0.05, 0.95), lambda x: NORMAL.inv_cdf((x + 1) / 2) / math.sqrt(2)),
    "erfcinv": Row(4, None, (0.05, 0.9), lambda x: -NORMAL.inv_cdf(x / 2) / math.sqrt(2)),
    "erfcx": Row(4, None, (-2.0, 4.0), lambda x: math.exp(x * x) * math.erfc(x)),
    "normcdf": Row(5, None, (-5.0, 5.0), lambda x: math.erfc(-x / math.sqrt(2)) / 2),
    "normcdfinv": Row(5, None, (0.01, 0.45), NORMAL.inv_cdf),
    "lgamma": Row(6, 4 + 11, (2.5, 50.0), math.lgamma),  # Python's is off by up to 11 itself
    "tgamma": Row(5, 10, (0.1, 30.0), math.gamma),
    "j0": Row(9, None, (0.1, 2.0), bessel(0)),
    "j1": Row(9, None, (0.1, 3.0), bessel(1)),
    "cyl_bessel_i0": Row(6, 6, SMALL, modified_bessel(0)),
    "cyl_bessel_i1": Row(6, None, (0.5, 8.0), modified_bessel(1)),
    "fma": Row(0, None, WIDE, lambda x, y, z: x * y + z, WIDE, WIDE),
    "fmod": Row(0, 0, WIDE, math.fmod, (0.1, 3.0)),
    "remainder": Row(0, 0, WIDE, math.remainder, (0.1, 3.0)),
    "fdim": Row(0, 0, WIDE, lambda x, y: max(x - y, 0.0), WIDE),
    "fmax": Row(0, 0, WIDE, max, WIDE),
    "fmin": Row(0, 0, WIDE, min, WIDE),
    "copysign": Row(0, 0, WIDE, math.copysign, WIDE),
    "fabs": Row(0, 0, WIDE, abs),
    "floor": Row(0, 0, WIDE, math.floor),
    "ceil": Row(0, 0, WIDE, math.ceil),
    "trunc": Row(0, 0, WIDE, math.trunc),
    "rint": Row(0, 0, WIDE, round),
    "nearbyint": Row(0, 0, WIDE, round),
    "round": Row(0, 0, WIDE, half_away),
    "logb": Row(0, 0, POSITIVE, lambda x: math.frexp(x)[1] - 1),
}
#: Expressions with other types, or intrinsic functions: bound in units of the last place of singles.
EXPRESSIONS = {
    "ldexpf(x, (int)y)": Row(0, None, WIDE, lambda x, y: math.ldexp(x, int(y)), SMALL),
    "scalbnf(x, 3)": Row(0, None, WIDE, lambda x: 8 * x),
    "(float)ilogbf(x)": Row(0, None, POSITIVE, lambda x: math.frexp(x)[1] - 1),
    "(float)lrintf(x)": Row(0, None, WIDE, round),
    "(float)llroundf(x)": Row(0, None, WIDE, half_away),
    "(float)__double2int_rz(x * 1e3)": Row(0, None, WIDE, lambda x: math.trunc(x * 1e3)),
    "__fdividef(x, y)": Row(2, None, WIDE, lambda x, y: x / y, (0.5, 9.0)),
    "__expf(x)": Row(2 + 1.173 * 8, None, SMALL, math.exp),
    "__exp10f(x)": Row(2 + 2.97 * 8, None, SMALL, lambda x: 10.0**x),
    "__logf(x)": Row(3, None, (3.0, 1e6), math.log),
    "__log2f(x)": Row(2, None, (3.0, 1e6), math.log2),
    "__log10f(x)": Row(3, None, (3.0, 1e6), math.log10),
    "__powf(x, y)": Row(40, None, (2.0, 4.0), math.pow, (1.0, 4.0)),
    "jnf(2, x)": Row(9, None, (0.5, 4.0), bessel(2)),
    "normf(3, v)": Row(9, None, WIDE, math.hypot, WIDE, WIDE),
    "sincos_sum(x)": Row(4, None, (0.1, 1.2), lambda x: math.sin(x) + math.cos(x)),
    "frexp_product(x)": Row(0, None, WIDE, lambda x: x),
}
HALVES: dict[str, tuple[tuple[float, float], Callable[..., float]]] = {
    "hexp": (SMALL, math.exp), "hexp2": (SMALL, math.exp2), "hexp10": ((-3.0, 3.0), lambda x: 10.0**x),
    "hlog": ((2.0, 99.0), math.log), "hlog2": ((3.0, 99.0), math.log2), "hlog10": ((2.0, 99.0), math.log10),
    "hsin": ((0.1, 3.0), math.sin), "hcos": ((0.1, 1.4), math.cos), "hsqrt": ((0.1, 99.0), math.sqrt),
    "hrsqrt": ((0.1, 99.0), lambda x: 1 / math.sqrt(x)), "hrcp": ((0.1, 99.0), lambda x: 1 / x),
    "hfloor": (SMALL, math.floor), "hceil": (SMALL, math.ceil), "hrint": (SMALL, round), "htrunc": (SMALL, math.trunc),
}  # fmt: skip
PRELUDE = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
__device__ float sincos_sum(float x) { float s, c; sincosf(x, &s, &c); return s + c; }
__device__ float frexp_product(float x)
{
    int e;
    float w, f = modff(frexpf(x, &e) * 8, &w);
    return (f + w) * exp2f(e - 3);
}
"""


def kernels() -> dict[str, str]:
    """Return the expression of each kernel, by name."""
    found = {}
    for name, row in FUNCTIONS.items():
        arguments = ", ".join("xyz"[: 1 + (row.second is not None) + (row.third is not None)])
        found[f"float_{name}"] = f"{name}f({arguments})"
        found[f"double_{name}"] = f"{name}({arguments})"
    found |= {f"float_x{number}": text for number, text in enumerate(EXPRESSIONS)}
    for name in HALVES:
        found[f"half_{name}"] = f"__half2float({name}(__float2half(x)))"
        found[f"bfloat_{name}"] = f"__bfloat162float({name}(__float2bfloat16(x)))"
    return found


@cache
def texts(folder: Path, architecture: str) -> tuple[str, dict[str, str]]:
    """Return the PTX that all kernels share, and that of each; short texts are read faster."""
    source = PRELUDE
    for name, expression in kernels().items():
        kind = "double" if name.startswith("double") else "float"
        source += f"""extern "C" __global__ void {name}(const {kind}* a, const {kind}* b, const {kind}* c, {kind}* r)
{{ int i = threadIdx.x; {kind} x = a[i], y = b[i], z = c[i], v[3] = {{x, y, z}}; r[i] = {expression}; }}\n"""
    path = folder / "functions.cu"
    path.write_text(source, encoding="utf-8")
    ptx = compile_source(path, architectures=[architecture], kernel="float_sqrt").kernels[0].ptx
    shared, *entries = ptx.split(".visible .entry ")
    each = {}
    for text in entries:
        end = closing_brace(text)
        each[text.split("(", maxsplit=1)[0]] = f".visible .entry {text[:end]}"
        shared += text[end:]
    return shared, each


def closing_brace(text: str) -> int:
    """Return where the body of a function ends."""
    depth = 0
    for found in re.finditer("[{}]", text):
        depth += 1 if found[0] == "{" else -1
        if not depth:
            return found.end()
    raise AssertionError(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("math")


def points(row: Row, kind: str) -> list[Doubles]:
    """Return the arguments, spread over their domains; wide positive ones evenly by exponent."""
    random = np.random.default_rng(3)
    columns = []
    for low, high in (row.domain, row.second or UNIT, row.third or UNIT):
        wide = low > 0 and high / low > 1e3
        values = (
            np.exp(random.uniform(math.log(low), math.log(high), COUNT)) if wide else random.uniform(low, high, COUNT)
        )
        if kind != "double":
            values = values.astype(np.float32)
        if kind == "half":
            values = values.astype(np.float16)
        if kind == "bfloat":
            values = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        columns.append(values.astype(np.float64))
    return columns


def run(name: str, columns: list[Doubles], engine: Any, folder: Path) -> npt.NDArray[Any]:
    shared, each = texts(folder, "sm_90")
    kernel = CompiledKernel(name, name, "sm_90", shared + each[name], cast("Any", None), None)
    kind = "f64" if name.startswith("double") else "f32"
    arguments = []
    for letter, column in zip("abc", columns, strict=True):
        np.save(folder / f"{letter}.npy", column.astype("f8" if kind == "f64" else "f4"))
        arguments.append(Argument(letter, parse_value(f"{kind}[{COUNT}] file({letter}.npy)", letter, folder)))
    arguments.append(Argument("r", parse_value(f"{kind}[{COUNT}] zeros", "r", folder)))
    where = Launch(folder / "k.cu", name, (1, 1, 1), (COUNT, 1, 1), 0, tuple(arguments))
    result: npt.NDArray[Any] = execute(kernel, where, WholeGrid(), engine=engine)[0].memory["r"]
    return result


def unit(exact: Doubles, fraction_bits: int, least_exponent: int) -> Doubles:
    """Return the unit in the last place of each number in a format."""
    _, exponent = np.frexp(exact)
    last: Doubles = np.ldexp(1.0, np.maximum(exponent - 1, least_exponent) - fraction_bits)
    return last


FORMATS = {"float": (23, -126), "double": (52, -1022), "half": (10, -14), "bfloat": (7, -126)}
CASES = [
    *((f"float_{name}", row, row.single) for name, row in FUNCTIONS.items()),
    *((f"double_{name}", row, row.double) for name, row in FUNCTIONS.items()),
    *((f"float_x{number}", row, row.single) for number, row in enumerate(EXPRESSIONS.values())),
    *((f"half_{name}", Row(2, None, domain, function), 2) for name, (domain, function) in HALVES.items()),
    *((f"bfloat_{name}", Row(2, None, domain, function), 2) for name, (domain, function) in HALVES.items()),
]


@pytest.mark.parametrize(("name", "row", "bound"), CASES, ids=[name for name, _, _ in CASES])
def test_function(name: str, row: Row, bound: float | None, folder: Path) -> None:
    kind = name.partition("_")[0]
    columns = points(row, kind)
    native, reference = (run(name, columns, engine, folder) for engine in ("native", "reference"))
    count = 1 + (row.second is not None) + (row.third is not None)
    exact = np.array([row.function(*values) for values in zip(*columns[:count], strict=True)], np.float64)
    last = unit(exact, *FORMATS[kind])
    # The engines may differ by what their libraries differ by in approximate instructions.
    assert (np.abs(native.astype(np.float64) - reference) <= 2 * last).all()
    if bound is not None:
        # Half a unit for rounding; Python's own doubles are off by up to another one.
        slack = 1.5 if kind == "double" and bound else 0.5001
        assert (np.abs(native - exact) <= (bound + slack) * last).all()
