"""The settings of a sweep: values, expressions, conditions, and the launches that they make."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import InputError
from kerncast.studies.sweeps.expressions import Scalar, evaluate, names_in
from kerncast.studies.sweeps.space import Axis, Derived, Space, launch_space, parse_setting

SOURCE = """
template <int T> __global__ void k(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int s = 0; s < STEPS; ++s) if (i < n) x[i] += T;
}
"""
LAUNCH = """
source = "k.cu"
defines = { STEPS = 2, block = 7 }
[[launch]]
kernel = "k<1>"
grid = [16]
block = [64]
args = { x = "f32[1024] zeros", n = 1024 }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "k.toml").write_text(LAUNCH, encoding="utf-8")
    return tmp_path / "k.toml"


WHOLE = st.integers(-1000, 1000)


@given(
    WHOLE, WHOLE, st.integers(1, 50), st.sampled_from(["+", "-", "*", "//", "%", "<", "==", "and", "or", "if 1 else"])
)
def test_arithmetic_is_pythons(a: int, b: int, c: int, sign: str) -> None:
    text = f"(a {sign} c) + max(b, -a) * (c ** 2) - ceil(b / c)"
    mine = evaluate(text, {"a": a, "b": b, "c": c})
    theirs = eval(text, {"a": a, "b": b, "c": c, "ceil": math.ceil})  # noqa: S307  the oracle, on a text of ours
    assert mine == theirs


@pytest.mark.parametrize(
    "text", ["1..1e309", "1e999..2", f"1.5..{'9' * 400}", f"1.5..1e308+1{'0' * 308}", f"1..2*{'9' * 400}.0"]
)
def test_ends_that_no_number_holds_are_input_errors(text: str) -> None:
    with pytest.raises(InputError, match="is too large"):
        parse_setting(f"n={text}")


@pytest.mark.timeout(10)  # with a pattern that looks at pairs of digits: hours
def test_a_number_of_a_million_digits_is_read_at_once() -> None:
    assert parse_setting("n=" + "9" * 1_000_000) == Derived("n", "9" * 1_000_000)


def test_a_range_below_zero_has_its_end() -> None:
    assert parse_setting("n=-3..-1") == Axis("n", (-3, -2, -1))


@given(st.text(max_size=40))
def test_any_text_is_a_value_or_an_input_error(text: str) -> None:
    try:
        evaluate(text, {"n": 3})
    except InputError:
        assert names_in(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "open('x')", "(1).__class__", "[].__class__.__base__", "lambda: 1", "9**9**9", "1<<10**9",
        "'a'*10**9", "[i for i in range(10**9)]", "[[j for j in range(10**4)] for i in range(10**4)]", "f'{1}'",
        "(" * 500, "n.real", "1/0", "max()", "x:=1", "sqrt(-1)", "int('9'*10)", "'%s' % 1",
    ],
)  # fmt: skip
def test_what_is_no_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        evaluate(text, {"n": 3})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=4,8,16", (4, 8, 16)),
        ("a=2..512*2", (2, 4, 8, 16, 32, 64, 128, 256, 512)),
        ("a=2..500*2", (2, 4, 8, 16, 32, 64, 128, 256)),
        ("a=1..10+3", (1, 4, 7, 10)),
        ("a=3..5,9", (3, 4, 5, 9)),
        ("a=0.1..0.3+0.1", (0.1, 0.2, pytest.approx(0.3))),
        ("a=float,double", ("float", "double")),
        ("a=k<1, 2>,k<3, 4>", ("k<1, 2>", "k<3, 4>")),
        ("a=f32[8, 8] ones,f32[4] zeros", ("f32[8, 8] ones", "f32[4] zeros")),
        ("a=5", (5,)),
        ("a=1,1,2", (1, 2)),
    ],
)
def test_values(text: str, values: tuple[Scalar, ...]) -> None:
    assert parse_setting(text) == Axis("a", values)


@pytest.mark.parametrize(
    "text", ["a", "=3", "a=", "a=1,,2", "a=5..1", "a=0..8*2", "a=1..9*1", "a=1..9+0", "a=1..10**9"]
)
def test_what_is_no_setting_names_itself(text: str) -> None:
    if text == "a=1..10**9":
        assert parse_setting(text) == Derived("a", "1..10**9")
        return
    with pytest.raises(InputError, match="--set"):
        parse_setting(text)


def test_a_range_is_bounded() -> None:
    with pytest.raises(InputError, match="at most"):
        parse_setting("a=1..900000000")


def test_points_and_their_launches(file: Path) -> None:
    settings = ["T=1,2", "N=100..400*2", "kernel=k<{T}>", "block.x=32*T", "grid.x=ceil(N / block.x)", "n=N"]
    space = launch_space(file, [*settings, "x=f32[N] random"], ["N != 200 or T == 1"])
    points = list(space.points())
    assert [dict(point.settings) for point in points] == [
        {"T": 1, "N": 100}, {"T": 1, "N": 200}, {"T": 1, "N": 400}, {"T": 2, "N": 100}, {"T": 2, "N": 400},
    ]  # fmt: skip
    assert [point.number for point in points] == [0, 1, 2, 3, 4]
    launch = space.launch(points[4])
    assert (launch.kernel, launch.block, launch.grid) == ("k<2>", (64, 1, 1), (7, 1, 1))
    assert [(each.name, str(each.value)) for each in launch.arguments] == [("x", "f32[400] random"), ("n", "400")]
    assert launch.defines == (("STEPS", "2"), ("block", "7")), "N and T are macros of nothing"
    assert dict(space.derived_values(points[4]))["grid.x"] == 7


def test_an_extent_tells_its_sizes(file: Path) -> None:
    space = launch_space(file, ["grid.x=ceil(n / (block.x * block.y))", "launch.block={B}x2", "B=16,32"])
    launches = [space.launch(point) for point in space.points()]
    assert [(launch.block, launch.grid[0]) for launch in launches] == [((16, 2, 1), 32), ((32, 2, 1), 16)]


def test_a_quotient_that_is_whole_is_a_whole_number(file: Path) -> None:
    space = launch_space(file, ["B=32,64", "launch.block={B}", "grid={n / B}"])
    assert [space.launch(point).grid[0] for point in space.points()] == [n // b for n, b in ((1024, 32), (1024, 64))]


def test_the_order_of_settings_does_not_matter(file: Path) -> None:
    space = launch_space(file, ["grid.x=ceil(n / block.x)", "block.x=2*H", "H=16,32"])
    assert [space.launch(point).grid[0] for point in space.points()] == [32, 16]


def _space(file: Path, *settings: str) -> Space:
    return launch_space(file, settings)


def test_names_of_several_things_ask_which(file: Path) -> None:
    with pytest.raises(InputError, match=r"launch\.block or defines\.block"):
        _space(file, "block=32,64")
    space = _space(file, "launch.block=32,8x8", "defines.block=1,2", "defines.NEW=3", "STEPS=1,2")
    last = space.launch(list(space.points())[-1])
    assert last.block == (8, 8, 1)
    assert last.defines == (("STEPS", "2"), ("block", "2"), ("NEW", "3"))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (("STEP=1,2",), "neither the launch file nor its source mentions STEP"),
        (("grid.w=1,2",), "grid.w is nothing that a launch has"),
        (("STEPS=3",), None),
        (("STEPS=n",), "nothing varies"),
        (("STEPS=1,2", "STEPS=3,4"), "STEPS is set twice"),
        (("STEPS=1,2", "grid.x=n+grid.y", "grid.y=grid.x*2"), "in a circle"),
        (("STEPS=1..2000", "n=1..2000"), "4000000 points"),
    ],
)
def test_settings_that_make_no_space(file: Path, settings: tuple[str, ...], says: str | None) -> None:
    if says is None:
        assert _space(file, *settings).size == 1
        return
    with pytest.raises(InputError, match=says):
        _space(file, *settings)


def test_what_is_no_launch_is_a_point_without_one(file: Path) -> None:
    space = _space(file, "launch.block=64,96", "grid.x=n/block.x")
    good, bad = space.points()
    assert space.launch(good).grid == (16, 1, 1)
    assert bad.settings == (("launch.block", 96),)
    with pytest.raises(InputError, match="not a whole number"):
        space.launch(bad)


def test_a_file_of_several_launches_asks_which(file: Path) -> None:
    file.write_text(LAUNCH + LAUNCH[LAUNCH.index("[[launch]]") :].replace("16", "8"), encoding="utf-8")
    with pytest.raises(InputError, match="--launch 0"):
        launch_space(file, ["STEPS=1,2"])
    space = launch_space(file, ["STEPS=1,2"], index=1)
    launch = space.launch(next(space.points()))
    assert (launch.grid[0], launch.index) == (8, 1)
