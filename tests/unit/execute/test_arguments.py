"""Arguments of a launch beside the kernel's parameters."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast.compile import CompiledKernel
from kerncast.errors import LaunchError
from kerncast.launch import Argument, Buffer, Fill, Launch, Struct, Value, parse_value
from tests.helpers.execute_helpers import compiled, launch, run
from tests.helpers.scalar_arithmetic import decode_any

SOURCE = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
struct Pair { int a; float b; };
extern "C" __global__ void simple(int n, float a, const float *x, unsigned *y) { if (n) y[0] = (unsigned)(a * x[0]); }
extern "C" __global__ void numbers(
    signed char c, unsigned short s, long long l, bool b, double d, __half h, unsigned u, double *out
) {
    out[0] = c; out[1] = s; out[2] = l; out[3] = b; out[4] = d; out[5] = __half2float(h); out[6] = u;
}
extern "C" __global__ void with_struct(Pair p, double *out) { out[0] = p.a; out[1] = p.b; }
extern "C" __global__ void with_bf16(__nv_bfloat16 v, float *out) { out[0] = __bfloat162float(v); }
"""


def only(name: str) -> CompiledKernel:
    """Compile one kernel with its signature: the helper keeps that of a source's first."""
    head, _, rest = SOURCE.partition('extern "C"')
    kernels = [f'extern "C"{part}' for part in rest.split('extern "C"')]
    return compiled(head + next(k for k in kernels if f"void {name}(" in k), name)


SIMPLE = {"n": 1, "a": 2.0, "x": "f32[4] ones", "y": "u32[4]"}
NUMBERS = {"c": -128, "s": 65535, "l": -(2**63), "b": True, "d": 0.1, "h": 1.5, "u": 2**32 - 1, "out": "f64[7]"}


def refusal(name: str, **arguments: Any) -> str:
    with pytest.raises(LaunchError) as caught:
        run(only(name), launch(1, 1, **arguments))
    return str(caught.value)


def test_arguments_arrive() -> None:
    memory = run(only("numbers"), launch(1, 1, **NUMBERS)).memory
    assert memory["out"].tolist() == [-128, 65535, -(2.0**63), 1, 0.1, 1.5, 2**32 - 1]
    data = struct.pack("<if", -7, 0.25).hex()
    assert run(only("with_struct"), launch(1, 1, p=f"bytes({data})", out="f64[2]")).memory["out"].tolist() == [-7, 0.25]


def test_arguments_may_stand_in_any_order_by_name() -> None:
    memory = run(only("numbers"), launch(1, 1, **dict(reversed(NUMBERS.items())))).memory
    assert memory["out"].tolist()[:2] == [-128, 65535]


def test_names_that_are_not_the_parameters_count_by_place() -> None:
    memory = run(only("simple"), launch(1, 1, p=1, q=3.0, r="f32[4] ones", s="u32[4]")).memory
    assert memory["s"].tolist() == [3, 0, 0, 0]


def test_a_parameters_name_in_anothers_place() -> None:
    text = refusal("simple", p=1, x=2.0, a="f32[4]", y="u32[4]")
    assert "argument x stands where parameter a belongs" in text
    assert "The parameters are n, a, x, y." in text


@pytest.mark.parametrize("count", [0, 3, 5])
def test_wrong_number(count: int) -> None:
    arguments = dict([*SIMPLE.items(), ("z", 1)][:count])
    assert f"{count} arguments for 4 parameters (n, a, x, y)" in refusal("simple", **arguments)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("n", "f32[4]", "a parameter that is not a pointer gets a buffer"),
        ("a", "f32[4]", "a parameter that is not a pointer gets a buffer"),
        ("n", 1.5, "1.5 is given for an integer parameter"),
        ("n", float("nan"), "nan is given for an integer parameter"),
        ("n", float("inf"), "inf is given for an integer parameter"),
        ("n", 2**31, "2147483648 does not fit a parameter of 32 bits. Give -2147483648 to 2147483647."),
        ("n", -(2**31) - 1, "-2147483649 does not fit"),
        ("n", "bytes(00)", "1 bytes are given for a parameter of 4"),
        ("x", 5, "a pointer is given neither a buffer nor 0"),
        ("x", "bytes(0011223344556677)", "a pointer is given neither a buffer nor 0"),
        ("a", 1e39, "1e+39 does not fit a floating-point parameter of 32 bits"),
        ("a", 10**400, "does not fit a floating-point parameter of 32 bits"),
    ],
)
def test_wrong_kind(name: str, value: Any, expected: str) -> None:
    text = refusal("simple", **{**SIMPLE, name: value})
    assert expected in text
    assert f"k.cu launch 0 (k), argument {name}" in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("c", 128), ("c", -129), ("s", -1), ("s", 65536), ("l", 2**63), ("b", 2), ("b", -1), ("u", -1), ("u", 2**32),
        ("h", 65536),
    ],
)  # fmt: skip
def test_out_of_range(name: str, value: int) -> None:
    assert "does not fit" in refusal("numbers", **{**NUMBERS, name: value})


def test_whole_floats_are_integers_and_numbers_are_floats() -> None:
    memory = run(only("simple"), launch(1, 1, n=1.0, a=2, x="f32[4] ones", y="u32[4]")).memory
    assert memory["y"][0] == 2


@pytest.mark.parametrize(("value", "check"), [(float("nan"), np.isnan), (float("inf"), np.isinf), (1e-320, bool)])
def test_special_floats_are_allowed(value: float, check: Any) -> None:
    assert check(run(only("numbers"), launch(1, 1, **{**NUMBERS, "d": value})).memory["out"][4])


def test_a_null_pointer_may_be_given() -> None:
    memory = run(only("simple"), launch(1, 1, n=0, a=1.0, x=0, y="u32[4]")).memory
    assert list(memory) == ["y"]


def test_struct() -> None:
    assert "7 bytes are given for a parameter of 8" in refusal("with_struct", p=f"bytes({'00' * 7})", out="f64[2]")
    assert "a number is given for a struct of 8 bytes" in refusal("with_struct", p=5, out="f64[2]")
    assert "not a pointer" in refusal("with_struct", p="f32[2]", out="f64[2]")


def test_bfloat16_is_given_as_bytes_unless_the_signature_says_float() -> None:
    memory = run(only("with_bf16"), launch(1, 1, v="bytes(803f)", out="f32[1]")).memory
    assert memory["out"][0] == 1


def test_an_argument_given_twice() -> None:
    twice = Launch(Path("k.cu"), "k", (1, 1, 1), (1, 1, 1), 0, (Argument("n", 1), Argument("n", 2)))
    with pytest.raises(LaunchError, match="argument n is given twice"):
        run(only("simple"), twice)


def test_a_buffer_with_the_name_of_a_variable_is_another() -> None:
    source = """__device__ int counter = 5;
    extern "C" __global__ void adds(int *out) { out[0] = counter; out[1] = atomicAdd(&counter, 2); }
    """.replace("extern", 'extern "C" __global__ void none() {}\nextern', 1)
    memory = run(compiled(source, "adds"), launch(1, 1, counter="i32[2]")).memory
    assert memory["counter"].tolist() == [5, 5]


# Contents of buffers


def contents(text: str, seed: int = 0) -> Any:
    kernel = only("simple")
    where = launch(1, 1, n=0, a=0.0, x=text, y="u32[1]")
    return run(kernel, Launch(where.source, "k", (1, 1, 1), (1, 1, 1), 0, where.arguments, seed=seed)).memory["x"]


@pytest.mark.parametrize("element", ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "f32", "f64"])
def test_fills(element: str) -> None:
    kind = element.replace("u", "uint").replace("i", "int").replace("f", "float").replace("uintnt", "uint")
    kind = {"uint": "uint", "int": "int", "float": "float"}[kind.rstrip("0123456789")] + element[1:]
    assert contents(f"{element}[3, 5]").tolist() == [[0] * 5] * 3
    ones = contents(f"{element}[7] ones")
    assert ones.dtype == np.dtype(kind)
    assert ones.tolist() == [1] * 7
    assert contents(f"{element}[300] iota").tolist() == np.arange(300).astype(kind).tolist()
    drawn = contents(f"{element}[500] randint(3, 9)")
    assert set(drawn.tolist()) == set(range(3, 9))


@pytest.mark.parametrize("element", ["f16", "f32", "f64"])
def test_random_is_in_the_unit_interval_and_follows_the_seed(element: str) -> None:
    drawn = contents(f"{element}[20000] random")
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert abs(drawn.astype(np.float64).mean() - 0.5) < 0.02
    assert np.array_equal(drawn, contents(f"{element}[20000] random"))
    assert not np.array_equal(drawn, contents(f"{element}[20000] random", seed=1))


#: Element: the numbers of codes, and what 0 to 7 and those of randint(3, 7) are rounded to.
SHORT = {"bf16": "bf16", "f8e4m3": "e4m3", "f8e5m2": "e5m2", "f6e2m3": "e2m3", "f6e3m2": "e3m2", "f4e2m1x2": "e2m1"}


def numbers_of(codes: Any, element: str) -> list[float]:
    """Return what codes mean, the lower one of a pair first."""
    shifts = (0, 4) if element == "f4e2m1x2" else (0,)
    return [float(decode_any(int(code) >> s, SHORT[element]).exact) for code in codes.ravel() for s in shifts]


@pytest.mark.parametrize("element", SHORT)
def test_fills_of_short_floats(element: str, tmp_path: Path) -> None:
    assert set(numbers_of(contents(f"{element}[3]"), element)) == {0.0}
    assert set(numbers_of(contents(f"{element}[3] ones"), element)) == {1.0}
    counted = numbers_of(contents(f"{element}[7] iota"), element)[:7]
    assert counted == [0, 1, 2, 3, 4, {"f4e2m1x2": 4}.get(element, 5), 6]
    assert set(numbers_of(contents(f"{element}[99] randint(3, 5)"), element)) == {3.0, 4.0}
    drawn = numbers_of(contents(f"{element}[4000] random"), element)
    assert min(drawn) >= 0
    assert max(drawn) < 1
    assert abs(np.mean(drawn) - 0.5) < (0.15 if element == "f4e2m1x2" else 0.04)
    singles = np.array([0.0, 0.5, -1.5, 3.0] * 2, np.float32)
    np.save(tmp_path / "x.npy", singles)
    count = 4 if element == "f4e2m1x2" else 8
    filled = run(only("simple"), file_buffer(tmp_path / "x.npy", element, count)).memory["x"]
    assert numbers_of(filled, element) == singles.tolist()
    np.save(tmp_path / "codes.npy", filled)
    read = run(only("simple"), file_buffer(tmp_path / "codes.npy", element, count)).memory["x"]
    assert read.tolist() == filled.tolist()
    np.save(tmp_path / "wide.npy", singles.astype(np.float64))
    with pytest.raises(LaunchError, match=r"it holds float64\[8\]\. Save numpy\.float32, which is rounded"):
        run(only("simple"), file_buffer(tmp_path / "wide.npy", element, count))


def test_powers_of_two() -> None:
    assert contents("f8e8m0[3] ones").tolist() == [127] * 3
    assert contents("f8e8m0[5] iota").tolist() == [0, 127, 128, 128, 129]


def test_fills_that_cannot_be() -> None:
    assert "random is uniform in [0, 1)" in refusal("simple", **{**SIMPLE, "x": "i32[4] random"})
    assert "randint(0, 300) does not fit u8" in refusal("simple", **{**SIMPLE, "x": "u8[4] randint(0, 300)"})
    assert "randint(-1, 3) does not fit u64" in refusal("simple", **{**SIMPLE, "x": "u64[4] randint(-1, 3)"})
    assert "does not fit f32" in refusal("simple", **{**SIMPLE, "x": f"f32[4] randint(0, {2**70})"})


def file_buffer(path: Path, element: str = "f32", count: int = 4) -> Launch:
    values: tuple[Value, ...] = (
        1,
        2.0,
        Buffer(element, (count,), Fill("file", path=path)),
        Buffer("u32", (4,), Fill("zeros")),
    )
    arguments = tuple(Argument(name, value) for name, value in zip("naxy", values, strict=True))
    return Launch(Path("k.cu"), "k", (1, 1, 1), (1, 1, 1), 0, arguments)


def test_a_file_is_read(tmp_path: Path) -> None:
    values = np.array([[5, 6], [7, 8]], np.float32)
    np.save(tmp_path / "x.npy", np.asfortranarray(values))
    assert run(only("simple"), file_buffer(tmp_path / "x.npy")).memory["x"].tolist() == [5, 6, 7, 8]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.ones(4))
    np.save(tmp_path / "long.npy", np.ones((2, 3), np.float32))
    np.save(tmp_path / "objects.npy", np.array([{}, []], object), allow_pickle=True)
    np.savez(tmp_path / "several.npz", a=np.ones(4, np.float32))
    np.save(tmp_path / "right.npy", np.ones(4, np.float32))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "right.npy").read_bytes()[:-4])
    (tmp_path / "header.npy").write_bytes((tmp_path / "long.npy").read_bytes()[:20])
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "text.npy").write_text("1 2 3 4")
    for name, expected in {
        "missing.npy": "cannot be read (no such file)", "wide.npy": "it holds float64[4], not float32[4]",
        "long.npy": "it holds float32[2, 3], not float32[4]", "objects.npy": "it holds object[2], not float32[4]",
        "several.npz": "it is an archive of several arrays", "cut.npy": "16 bytes of numbers, and it holds 12",
        "header.npy": "cut off", "empty.npy": "it is no .npy file", "text.npy": "it is no .npy file",
        ".": "cannot be read (it is a folder)",
    }.items():  # fmt: skip
        with pytest.raises(LaunchError) as caught:
            run(only("simple"), file_buffer(tmp_path / name))
        assert expected in str(caught.value), name
        assert "argument x" in str(caught.value)


@pytest.mark.parametrize("space", ["\x85", "\xa0", "\x1c", "\u2028"])
def test_spaces_that_are_not_ascii_are_no_part_of_a_struct(space: str) -> None:
    with pytest.raises(LaunchError, match="is not an argument"):
        parse_value(f"bytes(00{space}ff)", "a.toml", Path())
    assert parse_value("bytes(00 ff\n1A)", "a.toml", Path()) == Struct(b"\x00\xff\x1a")
