"""What holds for every sample of every grid, and for dependences in any straight run of instructions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.execute.sampling.sample import Sampler, strata_of
from kerncast.ptx import Instruction, Register, dependences
from tests.helpers.thorough import examples

GRIDS = st.tuples(st.integers(1, 60), st.integers(1, 12), st.integers(1, 6))
TOTALS = st.lists(st.integers(1, 3000), max_size=4)


def sample(grid: tuple[int, int, int], totals: list[int]) -> Sampler:
    """Return a sampler that has chosen a pilot, and then up to each total."""
    sampler = Sampler(grid)
    sampler.pilot()
    for total in totals:
        sampler.extend(total)
    return sampler


@given(GRIDS, TOTALS)
def test_blocks_are_of_the_grid_and_none_comes_twice(grid: tuple[int, int, int], totals: list[int]) -> None:
    sampler = sample(grid, totals)
    blocks = math.prod(grid)
    assert len(set(sampler.chosen)) == len(sampler.chosen) >= min(blocks, max(totals, default=1))
    assert set(sampler.chosen) <= set(range(blocks))
    before = list(sampler.chosen)
    more = sampler.extend(blocks)
    assert sampler.chosen == before + more
    assert sorted(sampler.chosen) == list(range(blocks))
    assert sampler.is_whole


@given(GRIDS, TOTALS, st.integers(0, 2**31))
def test_scaled_counts(grid: tuple[int, int, int], totals: list[int], seed: int) -> None:
    """Equal blocks scale exactly, sums are linear, and an interval holds its value and nothing below what was seen."""
    sampler = sample(grid, totals)
    blocks = math.prod(grid)
    values = np.random.default_rng(seed).integers(0, 1000, (blocks, 3)).astype(np.float64)
    values[:, 1] = 7
    values[:, 2] = 2 * values[:, 0]
    found = sampler.scale_columns(values[sampler.chosen])
    assert found[1].value == found[1].low == found[1].high == pytest.approx(7 * blocks, rel=1e-12)
    assert found[2].value == pytest.approx(2 * found[0].value, rel=1e-12)
    assert found[2].high == pytest.approx(2 * found[0].high, rel=1e-9)
    alone = sampler.scale(values[sampler.chosen, 0])
    assert (alone.low, alone.high) == pytest.approx((found[0].low, found[0].high), rel=1e-9)
    for one, seen in zip(found, values[sampler.chosen].sum(axis=0), strict=True):
        assert seen * (1 - 1e-12) <= one.low <= one.value * (1 + 1e-12)
        assert one.value <= one.high * (1 + 1e-12)
    if sampler.is_whole:
        assert [one.value for one in found] == pytest.approx(values.sum(axis=0).tolist())
        assert all(one.is_exact for one in found)


@given(GRIDS, st.integers(0, 2**31))
def test_work_that_depends_on_the_stratum_only_is_scaled_exactly(grid: tuple[int, int, int], seed: int) -> None:
    sampler = sample(grid, [])
    random = np.random.default_rng(seed)
    values = np.zeros(math.prod(grid))
    for stratum in strata_of(grid):
        values[[stratum.block(index, grid) for index in range(stratum.size)]] = random.integers(0, 10**6)
    found = sampler.scale(values[sampler.chosen])
    assert found.value == pytest.approx(values.sum(), rel=1e-12)
    assert found.is_exact


CODE = st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 5), max_size=3), st.booleans()), max_size=30)


def instruction(result: int, sources: list[int], is_guarded: bool) -> Instruction:
    registers = tuple(Register(f"%r{n}", "u32") for n in (result, *sources))
    guard = Register("%p", "pred") if is_guarded else None
    return Instruction("add", ("u32",), registers, guard, guard_negated=False, location=None)


@settings(max_examples=examples(200))
@given(CODE)
def test_dependences_against_a_search_from_the_definition(code: list[tuple[int, list[int], bool]]) -> None:
    """An instruction waits for the last one before it that writes a register it reads, or keeps where it is off."""
    found = dependences([instruction(*one) for one in code])
    depth: list[int] = []
    distances: dict[int, int] = {}
    for reader, (result, sources, is_guarded) in enumerate(code):
        needed = {*sources, result} if is_guarded else set(sources)
        makers = {max((w for w in range(reader) if code[w][0] == register), default=-1) for register in needed} - {-1}
        assert set(found.makers[reader]) == makers
        depth.append(1 + max((depth[maker] for maker in makers), default=0))
        for maker in makers:
            distances.setdefault(maker, reader - maker)
    assert found.critical_path == max(depth, default=0)
    expected = sum(distances.values()) / len(distances) if distances else None
    assert found.mean_distance == expected
