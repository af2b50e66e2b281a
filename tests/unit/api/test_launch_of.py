"""Launches of source texts, numbers and arrays of NumPy, against what NumPy says of them."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kerncast
from kerncast.child_process import is_possible
from kerncast.errors import LaunchError
from kerncast.forecast import Options, forecast_all, resolve_gpus
from kerncast.launch import Argument, Buffer, Launch, Struct
from kerncast.profiles.counts import FP32_FLOPS
from tests.helpers.places import ROOT

COUNTED = """
__global__ void counted(const int *turns, float *out, float step, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = 0; k < turns[i]; k++) sum += step;
  out[i] = sum;
}
"""
N = 1024


def counted(**changed: Any) -> Launch:
    args = {"turns": np.arange(N, dtype=np.int32) % 7, "out": np.zeros(N, np.float32), "step": 0.5, "n": N} | changed
    return Launch.of(COUNTED, grid=N // 256, block=256, args=args)


def additions(launch: Launch) -> float:
    count = kerncast.profile(launch).profile.counts.get(FP32_FLOPS)
    assert count is not None
    return count.value


def test_the_contents_of_an_array_are_executed() -> None:
    turns = np.random.default_rng(0).integers(0, 20, N, dtype=np.int32)
    assert additions(counted(turns=turns)) == turns.sum()


def test_an_array_is_as_it_was_when_the_launch_was_made() -> None:
    turns = np.ones(N, np.int32)
    launch = counted(turns=turns)
    turns[:] = 9
    assert additions(launch) == N
    assert additions(counted(turns=turns)) == 9 * N


def saved(value: Any) -> tuple[Buffer, npt.NDArray[Any]]:
    (argument,) = Launch.of("source.cu", grid=1, block=1, args={"x": value}).arguments
    assert isinstance(argument.value, Buffer)
    assert argument.value.fill.path is not None
    return argument.value, np.load(argument.value.fill.path)


@pytest.mark.parametrize("value", [
    np.arange(24, dtype=np.float64).reshape(2, 3, 4), np.arange(24, dtype=np.int16).reshape(4, 6).T,
    np.arange(100, dtype=np.uint32)[::7], np.arange(9, dtype=">f4"), np.asfortranarray(np.eye(3, dtype=np.float16)),
    np.broadcast_to(np.float32(2.5), (5, 2)),
], ids=["3d", "transposed", "strided", "big-endian", "fortran", "broadcast"])  # fmt: skip
def test_arrays_are_kept_in_the_order_of_c(value: npt.NDArray[Any]) -> None:
    buffer, found = saved(value)
    np.testing.assert_array_equal(found, value)
    assert found.flags.c_contiguous
    assert found.dtype.isnative
    assert (buffer.shape, buffer.nbytes) == (value.shape, value.nbytes)


def test_equal_contents_are_equal_launches() -> None:
    assert counted() == counted()
    assert counted(step=np.float32(0.5), n=np.int64(N)) == counted(step=np.array(0.5), n=N)
    assert counted() != counted(turns=np.zeros(N, np.int32))
    assert saved(np.array([True, False]))[0] == saved(np.array([1, 0], np.uint8))[0]


class Tensor:
    """An array of another package."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.float32]:
        return np.full(3, 1.5, np.float32)


def test_what_becomes_an_array_is_one() -> None:
    assert saved(Tensor())[1].tolist() == [1.5] * 3


def test_other_values_are_those_of_launch_files() -> None:
    launch = Launch.of(
        "k.cu", grid=[2, 3], block=(8, 8), args={"s": b"\1\2", "x": "f32[8] iota", "p": "&x[1]", "b": True}
    )
    assert (launch.source, launch.grid, launch.block) == (Path("k.cu"), (2, 3, 1), (8, 8, 1))
    assert launch.arguments[0] == kerncast.Argument("s", Struct(b"\1\2"))
    by_file = kerncast.load_launches(ROOT / "examples" / "saxpy.toml")[0]
    own = Launch.of(
        by_file.source, kernel="saxpy", grid=4096, block=256,
        args={"n": 2**20, "a": 2.0, "x": "f32[1048576] random", "y": "f32[1048576] random"},
    )  # fmt: skip
    assert (own.arguments, own.grid) == (by_file.arguments, by_file.grid)


def test_globals_defines_and_headers(tmp_path: Path) -> None:
    (tmp_path / "two.h").write_text("#define TWO 2\n", encoding="utf-8")
    text = """#include "two.h"
    __constant__ float factors[4];
    __global__ void f(float *x) { x[threadIdx.x] *= factors[threadIdx.x % 4] * TWO * TIMES; }"""
    told: dict[str, Any] = {
        "grid": 1,
        "block": 32,
        "args": {"x": "f32[32] ones"},
        "include": tmp_path,
        "defines": {"TIMES": 3},
    }
    launch = Launch.of(text, **told, globals={"factors": np.arange(4, dtype=np.float32)})
    assert kerncast.predict(launch, "t4")[0].kernel == "f"
    with pytest.raises(LaunchError, match=r"f64 is given|32 bytes are given"):
        kerncast.profile(Launch.of(text, **told, globals={"factors": np.arange(4.0)}))
    with pytest.raises(LaunchError, match="does not exist"):
        Launch.of(text, **{**told, "include": tmp_path / "none"})


@pytest.mark.skipif(not is_possible(), reason="processes of their own are on Linux only")
def test_files_outlive_the_process_of_a_forecast() -> None:
    launch = counted()
    for _ in range(2):
        found = forecast_all(launch, resolve_gpus("t4"), Options(apart=True))
        assert [p.kernel for p in found.predictions] == ["counted"]
    assert launch.source.exists()


def test_ptx_is_a_source_too() -> None:
    ptx = (ROOT / "tests" / "unit" / "scripts" / "add_kernel.ptx").read_text(encoding="utf-8")
    assert Launch.of(ptx[ptx.index(".version") :], grid=1, block=128).source.suffix == ".ptx"


_TYPED = r"an array of {} is given for const int \*. Pass array.astype\(numpy.int32\)"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"turns": np.ones(N, np.float32)}, _TYPED.format("float32")),
        ({"turns": np.ones(N, np.int64)}, _TYPED.format("int64")),
        ({"turns": np.ones(N)}, _TYPED.format("float64")),
        ({"turns": np.ones(0, np.int32)}, "the array is empty"),
        ({"turns": np.ones(N, np.complex64)}, "an array of complex64 has no element type"),
        ({"turns": np.array(["a"])}, "has no element type"),
        ({"turns": 5}, "a pointer is given neither a buffer nor 0"),
        ({"n": np.ones(1, np.int32)}, "not a pointer gets a buffer"),
        ({"n": 0.5}, "0.5 is given for an integer"),
        ({"n": np.int64(2**40)}, "does not fit a parameter of 32 bits"),
        ({"n": None}, "None is neither a number nor a text"),
        ({"n": [1]}, "is neither a number nor a text"),
        ({"m": 1}, "5 arguments for 4 parameters"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        kerncast.profile(counted(**changed))


def test_unsigned_integers_and_vectors_of_the_width_are_taken() -> None:
    assert additions(counted(turns=np.ones(N, np.uint32))) == N
    text = "__global__ void f(float4 *x) { x[threadIdx.x].y = 1; }"
    wide = Launch.of(text, grid=1, block=32, args={"x": np.zeros((32, 4), np.float32)})
    assert kerncast.profile(wide)["launch__grid_size"] == 1
    with pytest.raises(LaunchError, match="an array of 12 bytes is given for float4"):
        kerncast.profile(Launch.of(text, grid=1, block=32, args={"x": np.zeros(3, np.float32)}))


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"grid": 0}, "grid"), ({"block": 2048}, "block"), ({"grid": "4"}, "not a whole number"),
        ({"grid": [1, 1, 1, 1]}, "4 numbers"), ({"cluster": 3, "grid": 4}, "cluster"), ({"std": "c++03"}, "c\\+\\+03"),
        ({"seed": -1}, "seed"), ({"fast_math": 1}, "neither true nor false"), ({"defines": {"1": 2}}, "macro name"),
    ],
)  # fmt: skip
def test_launches_that_no_gpu_can_run(told: dict[str, Any], words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        Launch.of("k.cu", **({"grid": 1, "block": 1} | told))


def test_arguments_of_ones_own() -> None:
    assert Launch(Path("k.cu"), None, (1, 1, 1), (1, 1, 1), arguments=(Argument("n", 1),)) == Launch.of(
        "k.cu", grid=1, block=1, args={"n": 1}
    )
