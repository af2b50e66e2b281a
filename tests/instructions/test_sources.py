"""Sources that use all of the language: everything is known before it runs, and both engines compute the same."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.compile import CompiledKernel, compile_source
from kerncast.execute import WholeGrid, execute
from kerncast.execute.setup import check_supported, link
from kerncast.launch import Argument, Launch, parse_value
from kerncast.ptx import parse_ptx

HERE = Path(__file__).parent
#: Source: its first kernel, and the architectures that it is for.
SOURCES = {
    "atomics": ("words", ("sm_52", "sm_70", "sm_120")),
    "language": ("cache_hints", ("sm_52", "sm_75", "sm_120")),
    "groups": ("tiles", ("sm_52", "sm_120")),
    "atomic_objects": ("references", ("sm_100",)),
}
Arrays = dict[str, npt.NDArray[Any]]
LANE = np.arange(32)


@cache
def compiled(source: str, architecture: str) -> CompiledKernel:
    path = HERE / f"{source}.cu"
    return compile_source(path, architectures=[architecture], kernel=SOURCES[source][0]).kernels[0]


@pytest.mark.parametrize("source", SOURCES)
def test_every_instruction_is_supported(source: str) -> None:
    for architecture in SOURCES[source][1]:
        ptx = compiled(source, architecture).ptx
        module = parse_ptx(ptx)
        assert module.kernels
        for kernel in module.kernels:
            check_supported(link(module, kernel).function)


def run(case: str, arguments: dict[str, Any], engine: Any, architecture: str = "sm_120") -> Arrays:
    """Run one warp of a kernel, named as source.kernel."""
    source, name = case.split(".")
    kernel = replace(compiled(source, architecture), kernel=name, mangled=name, signature=None)
    values = tuple(Argument(key, parse_value(value, key, HERE)) for key, value in arguments.items())
    trace, _ = execute(
        kernel, Launch(HERE / "k.cu", name, (1, 1, 1), (32, 1, 1), 0, values), WholeGrid(), engine=engine
    )
    return trace.memory


#: Kernel and its arguments, in order.
LAUNCHES: dict[str, dict[str, Any]] = {
    "atomics.words": {
        "u": "u32[64] iota", "i": "i32[64] iota", "w": "u64[64] iota", "s": "i64[64] iota", "f": "f32[64] zeros"
    },
    "atomics.reductions": {"u": "u32[16] zeros", "w": "u64[16] zeros", "s": "i64[2] zeros", "f": "f32[1] zeros"},
    "atomics.generic": {"u": "u32[40] zeros", "f": "f32[1] zeros", "which": 1},
    "atomics.floats": {"d": "f64[2] zeros", "h2": "u32[2] zeros", "old": "f64[32] zeros"},
    "atomics.halves": {
        "h": "f16[2] zeros", "b": "u16[2] zeros", "b2": "u32[2] zeros", "c": "u16[1] zeros", "old": "f32[32] zeros"
    },
    "atomics.vectors": {"f2": "f32[6] zeros", "f4": "f32[12] zeros", "old": "f32[32] zeros"},
    "atomics.wide": {"p": "u64[8] zeros", "old": "u64[128] zeros"},
    "language.cache_hints": {
        "x": "f32[128] iota", "y": "f32[512] zeros", "c": "i8[64] iota", "d": "i8[64] zeros", "w": "f64[64] iota",
        "z": "f64[64] zeros",
    },
    "language.wide_access": {"x": "f32[256] iota", "y": "f32[256] zeros", "p": "i64[128] iota", "q": "i64[128] zeros"},
    "language.local_memory": {"x": "i32[64] randint(0, 32)", "y": "i32[32] zeros", "n": 70},
    "language.layouts": {
        "p": "u8[480] randint(0, 64)", "q": "u8[480] zeros", "a": "f32[32] random", "b": "f32[64] zeros",
        "v": "i32[64] iota",
    },
    "language.speaks": {"x": "i32[32] iota", "y": "i32[32] zeros", "text": "u8[8] zeros"},
    "language.barriers": {"x": "i32[32] zeros"},
    "language.warp_wide": {"x": "u32[32] iota", "y": "u32[128] zeros", "d": "f64[32] iota", "h": "u32[32] iota"},
    "language.choices": {"x": "i32[32] randint(0, 9)", "y": "i32[33] iota"},
    "language.three_way": {
        "x": "f32[40] random", "k": "i32[40] randint(-9, 9)", "y": "f32[64] zeros", "z": "i32[32] zeros"
    },
    "language.pointers": {"x": "i32[32] iota", "y": "i32[32] zeros"},
    "groups.tiles": {"x": "i32[32] randint(0, 9)", "y": "i32[32] zeros"},
    "groups.collectives": {
        "x": "i32[32] randint(0, 9)", "y": "i32[32] zeros", "f": "f32[32] random", "g": "f32[32] zeros"
    },
    "atomic_objects.references": {
        "i": "i32[40] zeros", "u": "u32[40] zeros", "l": "i64[40] zeros", "f": "f32[40] zeros", "d": "f64[40] zeros",
        "s": "i16[40] zeros", "c": "u8[40] zeros",
    },
    "atomic_objects.objects": {"y": "i32[32] zeros", "flags": "u8[4] zeros"},
}  # fmt: skip


@pytest.mark.parametrize("case", LAUNCHES)
def test_both_engines_compute_the_same(case: str) -> None:
    architecture = SOURCES[case.partition(".")[0]][1][-1]
    native, reference = (run(case, LAUNCHES[case], engine, architecture) for engine in ("native", "reference"))
    assert {name: array.tobytes() for name, array in native.items()} == {
        name: array.tobytes() for name, array in reference.items()
    }
    if case in EXPECTED:
        EXPECTED[case](native)


def check_vectors(m: Arrays) -> None:
    wide = np.array([1, 2, 3, 4])
    assert m["f2"].tolist() == [32, 64, 16, 8, 32, 64]
    assert m["f4"].reshape(3, 4).tolist() == [(32 * wide).tolist()] * 3
    # What lane i finds: i times what was added; one element of the last two updates.
    assert m["old"].tolist() == (LANE * (1 + 2 + wide.sum()) + LANE * (1 + 4)).tolist()


def check_wide(m: Arrays) -> None:
    found = m["old"].reshape(64, 2)
    last = (1 << 64) - 1
    assert found[0].tolist() == [0, 0]
    assert found[1:32, 0].tolist() == list(range(31))
    assert set(found[1:32, 1].tolist()) == {last}
    assert found[32:, 0].tolist() == list(range(32))
    pairs = m["p"].reshape(4, 2).tolist()
    # The exchange leaves the last lane's pair, each compare-and-swap the next number; the third keeps the first lane's.
    assert pairs == [[31, last], [32, 0], [0, last], [0, last]]


def check_words(m: Arrays) -> None:
    assert m["u"][:11].tolist()[:4] == [3 * LANE.sum(), (1 - 3 * LANE.sum()) % 2**32, 0, 31]
    assert m["i"][:4].tolist() == [3 * LANE.sum(), 1 - 3 * LANE.sum(), -31, 31]
    assert m["f"][:2].tolist() == [32 * 3 * 1.5, 2.5]
    assert m["s"][:2].tolist() == [-31, 31]


def check_reductions(m: Arrays) -> None:
    lanes = 0
    for lane in range(32):
        lanes ^= lane
    # Shared memory: sum, least, largest, 32 steps up modulo 21, 32 down from 4, and, or, exclusive or.
    down = 4
    for _ in range(32):
        down = 20 if down == 0 or down > 20 else down - 1
    assert m["u"][8:].tolist() == [LANE.sum(), 0, 31, (3 + 32) % 21, down, 0, 31, 7 ^ lanes]
    assert m["w"][8:12].tolist() == [96, 31, 4, 7]
    assert m["w"][0] == 32
    assert m["s"].tolist() == [5, -5]
    assert m["f"][0] == 16


def check_barriers(m: Arrays) -> None:
    assert m["x"].tolist() == [16 + 1 + 0] * 32


def check_wide_access(m: Arrays) -> None:
    assert np.array_equal(m["y"], m["x"] + 1)
    assert np.array_equal(m["q"], m["p"])


def check_collectives(m: Arrays) -> None:
    x, f = m["x"].astype(np.int64), m["f"]
    y = x.sum() + x.max() + x.min() + np.bitwise_xor.reduce(x) + 2 * np.cumsum(x) - x
    odd = x % 2 == 1
    here = x[odd]
    rank = np.cumsum(odd) - 1
    y = y + np.where(odd, odd.sum() + rank + here.sum() + here[0], 0)
    label = np.array([(x & 3 == one & 3).sum() for one in x])
    big = x > 2
    y = y + 2 * label + np.where(big, np.cumsum(big), np.cumsum(~big)) - 1 + x[0]
    assert m["y"].tolist() == y.tolist()
    least = f[odd].min()
    g = f.sum(dtype=np.float64) + np.maximum.accumulate(f) + np.where(odd, least, 0)
    assert np.allclose(m["g"], g, rtol=1e-6)


def check_tiles(m: Arrays) -> None:
    x = m["x"].astype(np.int64)
    tiles = x.reshape(2, 16)
    rank = LANE % 16
    up = np.where(rank == 0, x, np.roll(x, 1))
    down = np.where(LANE % 4 == 3, x, np.roll(x, -1))
    y = np.repeat(tiles[:, 3], 16) + x[LANE ^ 1] + up + down
    y = y + np.repeat((tiles > 3).any(1) + 0 + (tiles > 3).all(1), 16)
    y = y + np.repeat(((tiles & 1) << np.arange(16)).sum(1), 16) + LANE // 16 + 8 + LANE % 8
    same = (tiles[:, :, None] & 3 == tiles[:, None, :] & 3) << np.arange(16)
    assert not (tiles == tiles[:, :1]).all(1).any()  # so that match_all gives nothing
    assert m["y"].tolist() == (y + same.sum(2).reshape(32)).tolist()


def check_three_way(m: Arrays) -> None:
    a, b, c = (np.lib.stride_tricks.sliding_window_view(m["k"], 3)[:32, i] for i in range(3))
    assert np.array_equal(m["z"], np.maximum(np.maximum(a, b), c) + np.minimum(np.minimum(a, b), c))


EXPECTED: dict[str, Callable[[Arrays], None]] = {
    "atomics.vectors": check_vectors, "atomics.wide": check_wide, "atomics.words": check_words,
    "atomics.reductions": check_reductions, "language.barriers": check_barriers,
    "language.wide_access": check_wide_access, "groups.tiles": check_tiles, "groups.collectives": check_collectives,
    "language.three_way": check_three_way,
}  # fmt: skip


def test_a_breakpoint_ends_the_kernel() -> None:
    from kerncast.errors import KernelFault

    for engine in ("native", "reference"):
        with pytest.raises(KernelFault, match="the kernel traps"):
            run("language.speaks", LAUNCHES["language.speaks"] | {"x": "i32[32] randint(536870912, 536870913)"}, engine)


def test_every_kernel_is_launched() -> None:
    names = {
        f"{source}.{name}"
        for source in SOURCES
        for name in re.findall(r"__global__ void (\w+)\(", (HERE / f"{source}.cu").read_text(encoding="utf-8"))
    }
    # Clocks run at different speeds; asynchronous copies are refused.
    assert names - set(LAUNCHES) == {"language.fences_and_clocks", "groups.copies"}
