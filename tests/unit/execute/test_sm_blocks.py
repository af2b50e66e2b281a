"""Which blocks of an SM are recorded, and the chains of events of their warps."""

from dataclasses import replace
from itertools import chain as joined
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError, UnsupportedError
from kerncast.execute import Executed, WholeGrid, recording, run_launch
from kerncast.execute import recording as module
from kerncast.execute.native import NativeEngine, TooLargeError, engine
from kerncast.execute.native import warp as warp_writer
from kerncast.execute.native.engine import compile_program
from kerncast.execute.recording import chain_of, record_sm, trace_of
from kerncast.execute.setup.prepare import prepare
from kerncast.launch import Launch
from kerncast.traces import LINE_BITS, MASK_SHIFT, OPERATION_MASK, OPERATION_SHIFT, Operation, SMTrace
from tests.helpers.execute_helpers import WITH_FRAME, compiled, launch
from tests.helpers.recordings import between_barriers, random_recording

SOURCE = """
extern "C" __global__ void add(float *c, const float *a, const float *b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];
}
extern "C" __global__ void some(float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = 1;
}
extern "C" __global__ void grow(float *y, int n) {
    float v = 0;
    for (int i = 0; i < int(blockIdx.x * blockIdx.x) / n; i++) v += y[i * 32 + threadIdx.x];
    y[32000 + blockIdx.x * 32 + threadIdx.x] = v;
}
extern "C" __global__ void tickets(int *next, float *c) {
    __shared__ int ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(next, 1);
    __syncthreads();
    #pragma unroll 1
    for (int k = 0; k < ticket; k++) c[ticket * 32 + k] = k;
}
extern "C" __global__ void own(const int *at, float *c) {
    float own[4] = {1, 2, 3, 4};
    c[blockIdx.x * blockDim.x + threadIdx.x] = own[at[threadIdx.x]];
}
"""


def executed(kernel: CompiledKernel, where: Launch) -> Executed:
    return run_launch(kernel, where, WholeGrid())


def adding(blocks: int, threads: int = 64) -> Executed:
    """Return an addition of three vectors."""
    vector = f"f32[{blocks * threads}]"
    return executed(compiled(SOURCE), launch(blocks, threads, c=vector, a=vector, b=vector))


def operations(trace: SMTrace) -> list[Operation]:
    """Return the operation of each event."""
    return [Operation(event >> OPERATION_SHIFT & OPERATION_MASK) for event in trace.events.tolist()]


def of_warp(trace: SMTrace, row: int, warp: int) -> list[int]:
    """Return the events of a warp."""
    start, stop = trace.chains[row * trace.warps + warp : row * trace.warps + warp + 2]
    return [int(event) for event in trace.events[start:stop]]


@given(st.integers(0, 2**32))
def test_chains_hold_each_warps_events_in_order(seed: int) -> None:
    recording = random_recording(seed)
    trace = trace_of(recording)
    assert trace.block_ids.tolist() == recording.block_ids.tolist()
    assert len(trace.chains) == len(trace.block_ids) * trace.warps + 1
    for (block, warp), segments in between_barriers(recording).items():
        assert of_warp(trace, block, warp) == list(joined.from_iterable(segments))


def test_segments_of_a_warp_may_lie_anywhere() -> None:
    whole = random_recording(1)
    rng = np.random.default_rng(1)
    turns = rng.permutation(len(whole.segments))
    warps = whole.segments[["row", "warp"]]
    sorted_turns = turns[np.argsort(warps[turns], kind="stable")]
    in_order = np.sort(sorted_turns)
    mixed = whole.segments[turns]
    for pair in np.unique(warps):  # the order within a warp is that of time
        mixed[mixed[["row", "warp"]] == pair] = whole.segments[in_order][warps[in_order] == pair]
    trace = trace_of(replace(whole, segments=mixed))
    assert trace.events.tolist() == trace_of(whole).events.tolist()


@given(st.integers(1, 10**6), st.integers(1, 200), st.integers(1, 100), st.floats(0, 1))
def test_blocks_of_an_sm(grid: int, sms: int, wanted: int, middle: float) -> None:
    count = min(wanted, -(-grid // sms))
    blocks = chain_of(grid, sms, count, middle * grid)
    assert len(blocks) == count
    assert 0 <= blocks[0] <= blocks[-1] < grid
    assert all(b - a == sms for a, b in pairwise(blocks.tolist()))
    off = (blocks[0] + blocks[-1] + 1) / 2 - middle * grid
    at_edge = blocks[0] == 0 or blocks[-1] == grid - 1
    assert at_edge or abs(off) <= 1


@pytest.mark.parametrize(
    ("grid", "sms", "blocks", "expected"),
    [
        (1, 80, 4, [0]),
        (100, 80, 4, [9, 89]),
        (3, 1, 3, [0, 1, 2]),
        (1000, 10, 6, [474, 484, 494, 504, 514, 524]),
        (64, 8, 100, [3, 11, 19, 27, 35, 43, 51, 59]),
    ],
)
def test_blocks_of_one_sm_from_the_middle_of_the_grid(grid: int, sms: int, blocks: int, expected: list[int]) -> None:
    assert record_sm(adding(grid), sms, blocks, 10**6).block_ids.tolist() == expected


def test_what_a_warp_does_is_in_its_chain() -> None:
    """Each of two warps enters the only basic block, loads a line of a and one of b, and stores one of c."""
    run = adding(40)
    trace = record_sm(run, 8, 3, 10**6)
    first = {a.name: a.start // 128 for a in run.setting.arena.allocations}
    assert (trace.warps, trace.local_lines, trace.chains.tolist()) == (2, 0, list(range(0, 25, 4)))
    for row, block in enumerate(trace.block_ids.tolist()):
        for warp in range(2):
            events = of_warp(trace, row, warp)
            assert [event >> OPERATION_SHIFT & OPERATION_MASK for event in events] == [
                Operation.BASIC_BLOCK, Operation.LOAD, Operation.LOAD, Operation.STORE,
            ]  # fmt: skip
            lines = [event & (1 << LINE_BITS) - 1 for event in events]
            assert lines == [2**32 - 1, *(first[name] + 2 * block + warp for name in ("a", "b", "c"))]
            assert [event >> MASK_SHIFT & 0xF for event in events] == [0, 15, 15, 15]


@pytest.mark.parametrize(("most", "blocks"), [(8, 1), (15, 1), (16, 2), (1000, 12)])
def test_fewer_blocks_where_more_do_not_fit(most: int, blocks: int) -> None:
    """A block of this kernel makes eight events."""
    trace = record_sm(adding(1000), 10, 12, most)
    assert len(trace.block_ids) == blocks
    assert len(trace.events) == 8 * blocks == trace.chains[-1]


def test_a_block_that_makes_too_many_events_is_refused() -> None:
    with pytest.raises(BudgetExceededError, match="more accesses than can be recorded"):
        record_sm(adding(10), 2, 3, 7)


def test_a_kernel_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = adding(10)
    monkeypatch.setattr(module, "MOST_INSTRUCTIONS", len(run.trace.function.instructions))
    assert len(record_sm(run, 2, 3, 1000).block_ids) == 3
    monkeypatch.setattr(module, "MOST_INSTRUCTIONS", len(run.trace.function.instructions) - 1)
    with pytest.raises(UnsupportedError, match="PTX instructions"):
        record_sm(run, 2, 3, 1000)


def test_blocks_are_taken_from_where_the_work_is() -> None:
    """A fifth of the grid has data; the middle of the grid would only look and leave."""
    run = executed(compiled(SOURCE, "some"), launch(1000, 64, c="f32[12800]", n=12800))
    trace = record_sm(run, 10, 6, 10**6)
    assert operations(trace).count(Operation.STORE) == 2 * len(trace.block_ids) == 12


def test_blocks_that_depend_on_others_start_from_fresh_memory_and_run_once() -> None:
    """The blocks take the tickets 0 to 5, and store as often as their ticket says."""
    run = executed(compiled(SOURCE, "tickets"), launch(60, 32, next="i32[1]", c="f32[2000]"))
    assert not run.is_independent
    trace = record_sm(run, 10, 6, 10**6)
    stores = [
        sum(event >> OPERATION_SHIFT & OPERATION_MASK == Operation.STORE for event in of_warp(trace, row, 0))
        for row in range(6)
    ]
    assert sorted(stores) == list(range(6))


@pytest.mark.parametrize(("frame", "lines"), [(WITH_FRAME, 4), (replace(WITH_FRAME, local_bytes_per_thread=0), 0)])
def test_local_memory_is_left_out_where_registers_hold_it(frame: Any, lines: int) -> None:
    kernel = replace(compiled(SOURCE, "own"), resources=frame)
    trace = record_sm(executed(kernel, launch(4, 32, at="i32[32] randint(0, 4)", c="f32[128]")), 1, 2, 10**6)
    found = operations(trace)
    assert trace.local_lines == lines
    assert (Operation.LOCAL_LOAD in found, Operation.LOCAL_STORE in found) == (bool(lines), bool(lines))
    assert found.count(Operation.STORE) == found.count(Operation.BASIC_BLOCK) == len(trace.block_ids)
    assert trace.chains[-1] == len(trace.events)


def test_kernels_that_are_only_interpreted_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for caches: whoever asks decides what to do without."""
    run = adding(10)
    monkeypatch.setattr(engine, "_compiled", lambda _: compile_program(run.setting.linked))
    monkeypatch.setattr(warp_writer, "_TEXT_LIMIT", 10)
    with pytest.raises(TooLargeError):
        record_sm(run, 2, 3, 1000)


@pytest.mark.parametrize("most_events", [3000, 5000])
def test_the_cores_of_a_machine_do_not_decide_where_a_recording_ends(
    monkeypatch: pytest.MonkeyPatch, most_events: int
) -> None:
    """Each block loads more lines than the one before; small logs make chunks end at different blocks."""
    monkeypatch.setattr(recording, "_EVENTS_PER_LOG", 500)
    kernel = compiled(SOURCE, "grow")
    found = []
    for workers in (1, 2, 3, 4):
        setting = prepare(kernel, launch(200, 32, y="f32[40000]", n=60), WholeGrid())
        one = recording.Recorder(setting, recording.Plan(most_events), NativeEngine(setting, workers=workers))
        assert not one.run(np.arange(200))
        found.append(one.recording())
    ends = np.cumsum([block * block // 60 + 1 for block in range(200)])
    assert {len(each.block_ids) for each in found} == {np.count_nonzero(ends <= most_events)}
