"""A generated kernel of thousands of lines takes memory in proportion to its length, and counts as a short one does."""

import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.execute import WholeGrid, execute, profile_of
from kerncast.execute.counting import Weights, _sums_of_columns
from kerncast.machine.joined_loads import joined_loads
from kerncast.ptx import Function, build_cfg, parse_ptx
from tests.helpers.execute_helpers import PTX_HEAD, launch, ptx_kernel

BLOCKS, THREADS = 3, 64
WARPS = BLOCKS * THREADS // 32


def lines_of_fma(count: int) -> str:
    """Return a kernel whose source has one FMA on each line from the second on."""
    body = "\n".join(f".loc 1 {number + 2} 1\nfma.rn.f32 %f1, %f1, %f2, %f3;" for number in range(count))
    return f""".file 1 "long.cu"
        .visible .entry k(.param .u64 p) {{ .reg .f32 %f<4>; .reg .b64 %d<5>; .reg .b32 %r<3>;
        .loc 1 1 1
        ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;
        add.s64 %d4, %d2, %d3; ld.global.f32 %f1, [%d4]; mov.f32 %f2, %f1; mov.f32 %f3, %f1;
        {body}
        st.global.f32 [%d4], %f1; ret; }}
        """


def peak_of_counting(count: int) -> int:
    """Return the bytes that the profile of a kernel of so many lines takes at most, once it has run."""
    kernel, where = ptx_kernel(lines_of_fma(count)), launch(BLOCKS, THREADS, p=f"f32[{THREADS}] zeros")
    found = execute(kernel, where, WholeGrid())
    tracemalloc.start()
    profile = profile_of(*found, kernel, where)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    fma = [line for line in profile.lines if line.line > 1 and line.line <= count]
    assert len(fma) == count - 1
    assert {line.warp_instructions.value for line in fma} == {WARPS}
    assert {line.thread_instructions.value for line in fma} == {BLOCKS * THREADS}
    assert {line.flops.value for line in fma} == {2 * BLOCKS * THREADS}
    return peak


def test_counting_takes_memory_in_proportion_to_the_lines() -> None:
    assert peak_of_counting(2000) < 2.5 * peak_of_counting(1000)


def chain_of_loads(count: int) -> Function:
    """Return a function that adds up addresses in a chain, and loads two words in shared memory by the last one."""
    chain = "\n".join(f"add.s32 %r{number + 1}, %r{number}, 8;" for number in range(1, count))
    text = f""".visible .entry k() {{ .shared .align 16 .b8 held[64]; .reg .b32 %r<{count + 1}>; .reg .f32 %f<3>;
        mov.u32 %r1, held;
        {chain}
        ld.shared.f32 %f1, [%r{count}]; ld.shared.f32 %f2, [%r{count}+4]; ret; }}"""
    return parse_ptx(PTX_HEAD + text).functions["k"]


def test_a_chain_of_addresses_is_followed_to_its_end() -> None:
    """Addresses that rise by 8 from a multiple of 16 are multiples of 8, after one step and after 5,000."""
    for count in (2, 5000):
        function = chain_of_loads(count)
        joined = joined_loads(function, build_cfg(function))
        assert {load.nbytes for load in joined.values()} == {8}
        assert sorted(joined) == [count, count + 1]


@st.composite
def problems(draw: st.DrawFn) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Weights]:
    """Return counts [rows, places], the place of each instruction, and weights."""
    rows, places, code, columns = (draw(st.integers(1, most)) for most in (4, 5, 12, 7))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    weights = Weights(numbers.integers(0, columns, code), numbers.integers(0, 3, code), columns)
    return numbers.integers(0, 2**30, (rows, places)), numbers.integers(0, places, code), weights


@given(problem=problems())
def test_sums_are_those_of_the_dense_product(
    problem: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Weights],
) -> None:
    counts, place_of, weights = problem
    dense = np.zeros((len(place_of), weights.columns), np.int64)
    dense[np.arange(len(place_of)), weights.column_of] = weights.values
    assert (_sums_of_columns(counts, place_of, weights) == counts[:, place_of] @ dense).all()


@pytest.mark.parametrize("rows", [1, 2**21, 2**22, 2**30])
def test_parts_of_weights_hold_each_column_once(rows: int) -> None:
    weights = Weights(np.array([0, 6, 3, 3, 5]), np.array([1, 2, 0, 4, 5]), 7)
    counts = np.arange(5)[np.newaxis] + 1
    sums = [_sums_of_columns(counts, np.arange(5), part) for part in weights.parts(rows)]
    assert np.hstack(sums).tolist() == [[1, 0, 0, 16, 0, 25, 4]]
