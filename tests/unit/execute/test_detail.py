"""Recordings in detail, which tell what an SM has to do: basic blocks, shared memory, contention, and their order."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from kerncast.compile import CompiledKernel
from kerncast.execute import WholeGrid
from kerncast.execute.recording import Plan, Recorder
from kerncast.execute.setup.prepare import prepare
from kerncast.launch import Launch
from kerncast.traces import (
    INSTRUCTION_SHIFT,
    LAST_SHIFT,
    LINE_BITS,
    MASK_SHIFT,
    OPERATION_MASK,
    OPERATION_SHIFT,
    PASSES_MASK,
    PASSES_SHIFT,
    Operation,
    Recording,
)
from tests.helpers import memory_oracle as oracle
from tests.helpers.access_kernels import OUT, ROOM, Offsets, access, accessing, launch_of, patterns, requests_of
from tests.helpers.execute_helpers import compiled, launch, ptx_kernel, run
from tests.helpers.recordings import between_barriers
from tests.helpers.reference_recorder import recorded_by_reference

ALL = 2**32 - 1
_TABLE_LOAD = 9
"""number of the instruction with which kernels of access_kernels read their offsets"""
Record = Callable[[CompiledKernel, Launch], Recording]


class Event(NamedTuple):
    """An event, taken apart by the definition."""

    operation: Operation
    number: int
    content: int
    sectors: int
    is_last: bool


def parts(event: int) -> Event:
    """Take an event apart."""
    return Event(
        Operation(event >> OPERATION_SHIFT & OPERATION_MASK),
        event >> INSTRUCTION_SHIFT,
        event & (1 << LINE_BITS) - 1,
        event >> MASK_SHIFT & 0xF,
        bool(event >> LAST_SHIFT & 1),
    )


def recorded_natively(kernel: CompiledKernel, where: Launch, most_events: int = 10**6) -> Recording:
    """Record the whole grid in detail on the fast engine."""
    recording = Recorder(prepare(kernel, where, WholeGrid()), Plan(most_events, in_detail=True))
    recording.run(np.arange(where.blocks))
    return recording.recording()


def recorded_by_oracle(kernel: CompiledKernel, where: Launch) -> Recording:
    """Record the whole grid in detail on the reference engine."""
    return recorded_by_reference(prepare(kernel, where, WholeGrid()), list(range(where.blocks)), in_detail=True)


@pytest.fixture
def record(engine: str) -> Record:
    """Record all blocks of a launch on one engine."""
    return recorded_natively if engine == "native" else recorded_by_oracle


def of_warp(recording: Recording, block: int = 0, warp: int = 0) -> list[Event]:
    """Return the events of a warp."""
    return [parts(event) for events in between_barriers(recording)[block, warp] for event in events]


def masks(events: list[Event]) -> list[tuple[int, int]]:
    """Return (basic block, lanes) in the order of execution."""
    return [(each.number, each.content) for each in events if each.operation is Operation.BASIC_BLOCK]


COUNTED_LOOP = """.entry k() { .reg .pred %p<3>; .reg .b32 %r<5>;
    mov.u32 %r1, %tid.x; rem.u32 %r2, %r1, 3; mov.u32 %r3, 0;
    loop: add.u32 %r3, %r3, 1; setp.le.u32 %p1, %r3, %r2; @%p1 bra loop;
    setp.lt.u32 %p2, %r1, 16; @!%p2 bra end;
    add.u32 %r4, %r3, 1;
    end: ret; }"""


def test_basic_blocks_are_recorded_in_the_order_of_execution(record: Record) -> None:
    """Lane i goes round tid % 3 + 1 times; lanes below 16 do one thing more."""
    found = record(ptx_kernel(COUNTED_LOOP), launch(1, 40))
    for warp, lanes in enumerate((range(32), range(32, 40))):
        here = {lane: 1 << lane % 32 for lane in lanes}
        rounds = [(1, sum(bit for lane, bit in here.items() if lane % 3 >= n)) for n in range(3)]
        low = sum(bit for lane, bit in here.items() if lane < 16)
        others = [(3, low)] if low else []
        expected = [(0, sum(here.values())), *rounds, (2, sum(here.values())), *others, (4, sum(here.values()))]
        assert masks(of_warp(found, 0, warp)) == expected


@pytest.mark.parametrize(
    ("name", "vector", "size", "operation"),
    [
        ("ld.shared.u8", 1, 1, Operation.SHARED_LOAD),
        ("ld.shared.f32", 1, 4, Operation.SHARED_LOAD),
        ("ld.shared.f32", 4, 16, Operation.SHARED_LOAD),
        ("st.shared.f64", 1, 8, Operation.SHARED_STORE),
        ("st.shared.f32", 1, 4, Operation.SHARED_STORE),
        ("red.shared.add.u32", 1, 4, Operation.SHARED_ATOMIC),
        ("red.shared.add.u64", 1, 8, Operation.SHARED_ATOMIC),
    ],
)
def test_wavefronts_of_shared_memory(  # noqa: PLR0913, PLR0917
    record: Record, tmp_path: Path, name: str, vector: int, size: int, operation: Operation
) -> None:
    rows: list[Offsets] = patterns(size, ROOM)[::3]
    recording = record(accessing(access(name, vector)), launch_of(rows, tmp_path))
    is_atomic = operation is Operation.SHARED_ATOMIC
    for block, row in enumerate(rows):
        for warp, lanes in enumerate((row[:32], row[32:])):
            entry, *rest = of_warp(recording, block, warp)
            assert entry == Event(Operation.BASIC_BLOCK, 0, (1 << len(lanes)) - 1, 0, is_last=True)
            found = [each for each in rest if each.operation is not Operation.LOAD]
            asked = requests_of(lanes, size)
            contents = [oracle.wavefronts(each, atomic=is_atomic) for each in asked]
            if is_atomic:
                contents = [each | oracle.contention(a) << 8 for each, a in zip(contents, asked, strict=True)]
            assert [(each.operation, each.content, each.sectors, each.is_last) for each in found] == [
                (operation, content, 0, True) for content in contents
            ]


@pytest.mark.parametrize(
    ("name", "vector", "size"),
    [("ld.global.u8", 1, 1), ("ld.global.f32", 1, 4), ("ld.global.f32", 4, 16),
     ("red.global.add.u32", 1, 4)],
)  # fmt: skip
def test_passes_of_global_memory_are_those_of_shared_memory(
    record: Record, tmp_path: Path, name: str, vector: int, size: int
) -> None:
    rows: list[Offsets] = patterns(size, ROOM)[::3]
    recording = record(accessing(access(name, vector)), launch_of(rows, tmp_path))
    wanted = {"ld": Operation.LOAD, "re": Operation.REDUCTION}[name[:2]]
    events = between_barriers(recording)
    for block, row in enumerate(rows):
        for warp, lanes in enumerate((row[:32], row[32:])):
            # What the kernel reads first is the table of offsets.
            found = [event for run in events[block, warp] for event in run if parts(event).number > _TABLE_LOAD]
            passes = [event >> PASSES_SHIFT & PASSES_MASK for event in found if parts(event).operation is wanted]
            asked = requests_of(lanes, size)
            assert passes == [oracle.wavefronts(each) for each in asked for _ in range(oracle.lines(each))]


@pytest.mark.parametrize(
    ("name", "strides", "partly"),
    [("st.global.f32", (0, 1), 0), ("st.global.f32", (60, 1), 2), ("st.global.f32", (0, 2), 4),
     ("st.global.f32", (0, 8), 4), ("st.global.f32", (0, 32), 1), ("st.global.f64", (0, 1), 0),
     ("st.global.f64", (0, 4), 4), ("st.global.u8", (0, 1), 0), ("st.global.u8", (3, 1), 2)],
)  # fmt: skip
def test_a_store_says_how_many_sectors_it_fills_in_part(
    record: Record, tmp_path: Path, name: str, strides: tuple[int, int], partly: int
) -> None:
    """Of each line, by the first byte and the stride in elements; a run of lanes has two ragged ends, together 2."""
    start, stride = strides
    size = {"f32": 4, "f64": 8, "u8": 1}[name.rpartition(".")[2]]
    recording = record(accessing(access(name)), launch_of([start + np.arange(32) * stride * size], tmp_path))
    events = [event for run in between_barriers(recording)[0, 0] for event in run]
    stores = [event for event in events if parts(event).operation is Operation.STORE]
    found = [event >> PASSES_SHIFT & PASSES_MASK for event in stores]
    assert found == [partly] * len(found) if stride != 1 else sum(found) == partly


@pytest.mark.parametrize(
    ("size", "stride", "passes"),
    [(4, 0, 1), (4, 1, 1), (4, 2, 2), (4, 3, 1), (4, 4, 4), (4, 8, 8), (4, 12, 4), (4, 16, 16), (4, 24, 8),
     (4, 32, 32), (4, 33, 1), (4, 40, 8), (8, 1, 2), (8, 2, 4), (8, 3, 2), (8, 4, 8), (8, 8, 16), (8, 16, 32)],
)  # fmt: skip
def test_passes_of_a_stride_are_those_that_nsight_compute_counts(
    record: Record, tmp_path: Path, size: int, stride: int, passes: int
) -> None:
    """Source: te42kyfo/gpu-benches at 0a45416b, gpu-strides/a100.txt, data-stage wavefronts per load of a warp."""
    name = {4: "ld.global.f32", 8: "ld.global.f64"}[size]
    recording = record(accessing(access(name)), launch_of([np.arange(32) * stride * size], tmp_path))
    events = [event for run in between_barriers(recording)[0, 0] for event in run]
    assert events[-1] >> PASSES_SHIFT & PASSES_MASK == passes


@pytest.mark.parametrize(("name", "size"), [("red.global.add.u32", 4), ("red.global.add.u64", 8)])
def test_contention_stands_before_the_lines(record: Record, tmp_path: Path, name: str, size: int) -> None:
    rows: list[Offsets] = patterns(size, ROOM)[::3]
    recording = record(accessing(access(name)), launch_of(rows, tmp_path))
    for block, row in enumerate(rows):
        for warp, lanes in enumerate((row[:32], row[32:])):
            _, *rest = of_warp(recording, block, warp)
            found = [each for each in rest if each.operation is not Operation.LOAD]
            asked = requests_of(lanes, size)
            assert len(found) == sum(1 + oracle.lines(each) for each in asked)
            for each in asked:
                content = oracle.contention(each) | oracle.addresses(each) << 8
                assert (found[0].operation, found[0].content) == (Operation.CONTENTION, content)
                assert [one.is_last for one in found] == [False] * oracle.lines(each) + [True]
                assert {one.operation for one in found[1:]} == {Operation.REDUCTION}
                assert {one.number for one in found} == {found[0].number}


def test_only_lines_are_recorded_without_detail(tmp_path: Path) -> None:
    for name in ("ld.shared.f32", "red.shared.add.u32", "red.global.add.u32"):
        setting = prepare(accessing(access(name)), launch_of([4 * np.arange(32)], tmp_path), WholeGrid())
        recording = Recorder(setting, Plan(10**6))
        recording.run(np.arange(1))
        found = {parts(event).operation for event in recording.recording().events.tolist()}
        assert found <= {Operation.LOAD, Operation.REDUCTION}


def test_an_access_without_lanes_leaves_no_event(record: Record, tmp_path: Path) -> None:
    for name in ("ld.shared.f32", "red.global.add.u32"):
        recording = record(accessing(access(name)), launch_of([np.full(32, OUT)], tmp_path))
        assert Counter(each.operation for each in of_warp(recording)) == {Operation.BASIC_BLOCK: 1, Operation.LOAD: 1}


SOURCE = """
extern "C" __global__ void mixed(const int *at, float *y, int *counts, int n) {
    __shared__ float tile[64]; __shared__ int bins[8]; __shared__ double wide[64];
    int i = threadIdx.x, j = at[i] % n;
    if (i < 8) bins[i] = 0;
    tile[(i * 3) % 64] = y[j];
    wide[i % 64] = j;
    __syncthreads();
    for (int k = 0; k < at[i] % 5; k++) {
        tile[(i + k) % 64] += wide[(i * k) % 64];
        if (k == 2) atomicAdd(&bins[j % 8], 1);
        if (j % 7 == 3) break;
    }
    __syncwarp();
    __syncthreads();
    if (i % 3) atomicAdd(counts + bins[j % 8] % 16, 1);
    if (atomicMax(counts + j % 4, i) >= 0) y[i] = tile[i % 64];
}
extern "C" __global__ void anywhere(const int *at, float *x, int *y) {
    __shared__ float tile[32];
    float own[3] = {x[0], x[1], x[2]};
    int i = threadIdx.x;
    tile[i % 32] = i;
    __syncthreads();
    volatile float *p = i % 4 == 1 ? own + at[i] % 3 : i % 4 == 2 ? tile + at[i] % 32 : x + i;
    float got = *p;
    if (i % 5) *p = got + 1;
    int *q = i % 2 ? (int *)tile + at[i] % 4 : y + at[i] % 4;
    atomicAdd(q, 1);
}
extern "C" __global__ void calls(const int *at, const float *x, float *y) {
    float sum = 0;
    switch (at[threadIdx.x] % 6) {
        case 0: sum = sinf(x[0]); break;
        case 1: sum = x[1] * 3; break;
        case 2: for (int i = 0; i < 3; i++) sum += x[i]; break;
        case 4: if (threadIdx.x & 1) return; sum = 4; break;
        default: sum = 2;
    }
    y[threadIdx.x] = sum;
}
"""
ARGUMENTS: dict[str, dict[str, Any]] = {
    "mixed": {"at": "i32[104] randint(0, 1000)", "y": "f32[104] iota", "counts": "i32[16]", "n": 104},
    "anywhere": {"at": "i32[104] randint(0, 1000)", "x": "f32[104] iota", "y": "i32[104]"},
    "calls": {"at": "i32[104] randint(0, 1000)", "x": "f32[104] iota", "y": "f32[104]"},
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_engines_record_the_same(name: str) -> None:
    kernel, where = compiled(SOURCE, name), launch(1, 104, **ARGUMENTS[name])
    ours, theirs = recorded_natively(kernel, where), recorded_by_oracle(kernel, where)
    assert between_barriers(ours) == between_barriers(theirs)
    found = {parts(event).operation for event in ours.events.tolist()}
    assert Operation.BASIC_BLOCK in found
    assert name == "calls" or found >= {Operation.SHARED_STORE, Operation.SHARED_ATOMIC, Operation.CONTENTION}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_details_add_up_to_the_counts(record: Record, name: str) -> None:
    kernel, where = compiled(SOURCE, name), launch(1, 104, **ARGUMENTS[name])
    events = [parts(event) for event in record(kernel, where).events.tolist()]
    counts = run(kernel, where).counts
    blocks = [each for each in events if each.operation is Operation.BASIC_BLOCK]
    width = counts.block_warps.shape[1]
    assert np.bincount([each.number for each in blocks], minlength=width).tolist() == counts.block_warps.sum(0).tolist()
    lanes = [each.content.bit_count() for each in blocks]
    threads = np.bincount([each.number for each in blocks], lanes, width)
    assert threads.tolist() == counts.block_threads.sum(0).tolist()
    for column, number in enumerate(counts.accessing):
        here = [each for each in events if each.number == number and each.operation is not Operation.BASIC_BLOCK]
        shared = [each for each in here if Operation.SHARED_LOAD <= each.operation <= Operation.SHARED_ATOMIC]
        assert len(shared) == counts.shared_requests[:, column].sum()
        assert sum(each.content & 0xFF for each in shared) == counts.shared_wavefronts[:, column].sum()
        atomics = [each.content >> 8 for each in shared if each.operation is Operation.SHARED_ATOMIC]
        atomics += [each.content & 0xFF for each in here if each.operation is Operation.CONTENTION]
        assert sum(atomics) == counts.contention[:, column].sum()


def test_what_does_not_fit_a_log_is_run_again_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    from kerncast.execute import recording

    kernel, where = ptx_kernel(COUNTED_LOOP), launch(40, 40)
    whole = recorded_natively(kernel, where)
    monkeypatch.setattr(recording, "_EVENTS_PER_LOG", 50)
    parted = recorded_natively(kernel, where)
    assert len(whole.events) == 40 * (7 + 6)
    assert between_barriers(parted) == between_barriers(whole)
