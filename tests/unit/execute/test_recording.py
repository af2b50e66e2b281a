"""What the engines record, against the definition of an event and against their own counts."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError
from kerncast.execute import WholeGrid
from kerncast.execute.recording import Plan
from kerncast.execute.recording import Recorder as NativeRecorder
from kerncast.execute.reference.tally import Pieces
from kerncast.execute.reference.threads import Threads
from kerncast.execute.setup import Setting
from kerncast.execute.setup.prepare import prepare
from kerncast.launch import Launch
from kerncast.ptx import Instruction
from kerncast.traces import (
    INSTRUCTION_SHIFT,
    LAST_SHIFT,
    LINE_BITS,
    MASK_SHIFT,
    OPERATION_MASK,
    OPERATION_SHIFT,
    Operation,
    Recording,
)
from tests.helpers import memory_oracle as oracle
from tests.helpers.access_kernels import OUT, OWN, ROOM, Offsets, access, accessing, launch_of, patterns, requests_of
from tests.helpers.execute_helpers import compiled, launch, ptx_kernel, run
from tests.helpers.recordings import between_barriers
from tests.helpers.reference_recorder import Recorder, recorded_by_reference

Record = Callable[[CompiledKernel, Launch], tuple[Recording, Setting]]
Requests = list[tuple[int, Operation, list[tuple[int, int]]]]
"""instruction, operation, and lines with the masks of their sectors"""


@pytest.fixture
def record(engine: str) -> Record:
    """Record all blocks of a launch on one engine."""

    def whole_grid(kernel: CompiledKernel, where: Launch) -> tuple[Recording, Setting]:
        setting = prepare(kernel, where, WholeGrid())
        if engine == "native":
            recorder = NativeRecorder(setting, Plan(10**6))
            recorder.run(np.arange(where.blocks))
            return recorder.recording(), setting
        return recorded_by_reference(setting, list(range(where.blocks))), setting

    return whole_grid


def requests(events: Iterable[int]) -> Requests:
    """Put the events of a warp together to requests."""
    found: Requests = []
    is_new = True
    for event in events:
        number, operation = event >> INSTRUCTION_SHIFT, Operation(event >> OPERATION_SHIFT & OPERATION_MASK)
        if is_new:
            found.append((number, operation, []))
        assert found[-1][:2] == (number, operation)
        found[-1][2].append((event & (1 << LINE_BITS) - 1, event >> MASK_SHIFT & 15))
        is_new = bool(event >> LAST_SHIFT & 1)
    assert is_new, "the last event of a request says so"
    return found


def start_of(setting: Setting, name: str) -> int:
    """Return the first line of a buffer."""
    return next(a.start for a in setting.arena.allocations if a.name == name) // 128


def numbered(recording: Recording, block: int = 0, warp: int = 0) -> list[Requests]:
    """Return the requests of a warp between its barriers."""
    return [requests(events) for events in between_barriers(recording)[block, warp]]


@pytest.mark.parametrize(
    ("name", "vector", "size", "operation"),
    [
        ("ld.global.u8", 1, 1, Operation.LOAD),
        ("ld.global.f32", 4, 16, Operation.LOAD),
        ("st.global.f64", 1, 8, Operation.STORE),
        ("ld.local.u8", 1, 1, Operation.LOCAL_LOAD),
        ("st.local.f32", 1, 4, Operation.LOCAL_STORE),
        ("ld.local.f64", 1, 8, Operation.LOCAL_LOAD),
        ("st.local.f32", 4, 16, Operation.LOCAL_STORE),
    ],
)
def test_patterns(record: Record, tmp_path: Path, name: str, vector: int, size: int, operation: Operation) -> None:  # noqa: PLR0913, PLR0917
    local = "local" in name
    rows: list[Offsets] = patterns(size, OWN if local else ROOM)
    recording, setting = record(accessing(access(name, vector)), launch_of(rows, tmp_path))
    first = 0 if local else start_of(setting, "data")
    number = next(n for n, ins in enumerate(setting.program.function.instructions) if ins.guard is not None)
    found = between_barriers(recording)
    assert recording.local_lines == OWN // 4
    for block, row in enumerate(rows):
        for warp, lanes in enumerate((row[:32], row[32:])):
            table, *rest = requests(found[block, warp][0])
            assert table[1] == Operation.LOAD
            expected = [oracle.events(request, local=local) for request in requests_of(lanes, size)]
            assert rest == [(number, operation, [(first + line, mask) for line, mask in r]) for r in expected]


@pytest.mark.parametrize(
    ("instruction", "operation"),
    [
        ("ld.global.nc.f32 %f1, [%rd2];", Operation.LOAD_READ_ONLY),
        ("ldu.global.f32 %f1, [%rd2];", Operation.LOAD),
        ("ld.global.ca.f32 %f1, [%rd2];", Operation.LOAD),
        ("ld.global.cs.f32 %f1, [%rd2];", Operation.LOAD),
        ("ld.global.lu.f32 %f1, [%rd2];", Operation.LOAD),
        ("ld.global.cg.f32 %f1, [%rd2];", Operation.LOAD_UNCACHED),
        ("ld.global.cv.f32 %f1, [%rd2];", Operation.LOAD_UNCACHED),
        ("ld.volatile.global.f32 %f1, [%rd2];", Operation.LOAD_UNCACHED),
        ("ld.relaxed.gpu.global.f32 %f1, [%rd2];", Operation.LOAD_UNCACHED),
        ("ld.acquire.gpu.global.f32 %f1, [%rd2];", Operation.LOAD_UNCACHED),
        ("ld.f32 %f1, [%rd2];", Operation.LOAD),
        ("ld.volatile.f32 %f1, [%rd2];", Operation.LOAD_UNCACHED),
        ("st.volatile.global.f32 [%rd2], %f1;", Operation.STORE),
        ("st.f32 [%rd2], %f1;", Operation.STORE),
        ("red.global.add.u32 [%rd2], %r1;", Operation.REDUCTION),
        ("atom.global.add.u32 %r8, [%rd2], %r1;", Operation.REDUCTION),
        ("atom.global.add.u32 %r4, [%rd2], %r1;", Operation.ATOMIC),
        ("atom.add.u32 %r4, [%rd2], %r1;", Operation.ATOMIC),
        ("atom.global.exch.b32 _, [%rd2], %r1;", Operation.REDUCTION),
    ],
)
def test_operations(record: Record, tmp_path: Path, instruction: str, operation: Operation) -> None:
    """Register %r4 is read by others, %r8 is not."""
    recording, setting = record(accessing(instruction), launch_of([4 * np.arange(32)], tmp_path))
    found = numbered(recording)[0]
    assert [(what, lines) for _, what, lines in found[1:]] == [(operation, [(start_of(setting, "data"), 15)])]


def test_shared_memory_is_not_recorded(record: Record, tmp_path: Path) -> None:
    for name in ("ld.shared.f32", "red.shared.add.u32"):
        recording, _ = record(accessing(access(name)), launch_of([4 * np.arange(32)], tmp_path))
        assert len(recording.events) == 1


def recorded_by_hand(number: int, limit_bytes: int) -> Recording:
    """Return a recording of one store to line 0, by an instruction with this number."""
    kernel, where = ptx_kernel(".entry k() { ret; }"), launch(1, 32)
    program = prepare(kernel, where, WholeGrid()).program
    recorder = Recorder(program, 1, limit_bytes)
    recorder.start(Threads(program, where, np.zeros(1, np.int64)))
    store = Instruction("st", ("global", "f32"), (), guard=None, guard_negated=False, location=None)
    lane = np.zeros(1, np.int64)
    recorder.access(number, store, "global", Pieces(lane, lane, lane))
    recorder.end()
    return recorder.recording()


def test_the_number_of_a_far_instruction_is_the_largest() -> None:
    assert [numbered(recorded_by_hand(number, 100)) for number in (70_000, 32_767, 32_766)] == [
        [[(number, Operation.STORE, [(0, 1)])]] for number in (32_767, 32_767, 32_766)
    ]


def test_a_recording_has_to_fit_the_budget() -> None:
    with pytest.raises(BudgetExceededError, match=r"the recorded accesses need"):
        recorded_by_hand(1, 10)


SOURCE = """
extern "C" __global__ void rows(const float *x, float *y, int n) {
    __shared__ float edge[2];
    float last = 0;
    for (int i = 0; i < n; i++) {
        float here = x[(i * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x];
        if (threadIdx.x == blockDim.x - 1) edge[i % 2] = here;
        __syncthreads();
        last += here + edge[i % 2];
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = last;
}
extern "C" __global__ void gathers(const int *at, double *y) {
    double own[6];
    for (int i = 0; i < 6; i++) own[i] = i * (double)blockDim.x;
    if (threadIdx.x % 3) y[threadIdx.x] = own[at[threadIdx.x] % 6];
    atomicAdd(y + at[threadIdx.x] % 16, 1.0);
}
extern "C" __global__ void spread(const int *at, float *y) {
    float sum = 0;
    for (int i = 0; i < at[threadIdx.x] % 9; i++) sum += y[(at[threadIdx.x] * 7 + i * 31) % 500];
    y[500 + blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void anywhere(float *x, float *y) {
    float own[2] = {x[0], x[1]};
    volatile float *p = threadIdx.x % 3 == 1 ? own + (int)(x[0] != 0) : x + threadIdx.x;
    y[threadIdx.x] = *p;
}
__constant__ float table[32] = {1, 2, 3};
extern "C" __global__ void constant(float *y) { y[threadIdx.x] = table[threadIdx.x % 32]; }
"""


def test_barriers_cut_what_a_warp_does(record: Record) -> None:
    """Blocks of 40 threads read a row of 40 floats each round: two warps, the second of 8 lanes."""
    blocks, rounds = 5, 4
    where = launch(blocks, 40, x=f"f32[{rounds * blocks * 40}]", y=f"f32[{blocks * 40}]", n=rounds)
    recording, setting = record(compiled(SOURCE), where)
    assert sorted(recording.block_ids.tolist()) == list(range(blocks))
    found = between_barriers(recording)
    x, y = start_of(setting, "x"), start_of(setting, "y")

    def row(first: int, position: int, lanes: range) -> list[tuple[int, int]]:
        return [(first + line, mask) for line, mask in oracle.events([(k, 4 * (position + k), 4) for k in lanes])]

    for block in range(blocks):
        for warp, lanes in enumerate((range(32), range(32, 40))):
            parts = [requests(events) for events in found[block, warp]]
            assert [len(part) for part in parts] == [1] * rounds + [1]
            for i in range(rounds):
                assert parts[i][0][2] == row(x, (i * blocks + block) * 40, lanes)
            assert parts[-1][0][1:] == (Operation.STORE, row(y, block * 40, lanes))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("rows", {"x": "f32[1000]", "y": "f32[1000]", "n": 3}),
        ("gathers", {"at": "i32[104] randint(0, 100)", "y": "f64[104]"}),
        ("spread", {"at": "i32[104] randint(0, 1000)", "y": "f32[1000]"}),
        ("anywhere", {"x": "f32[104] iota", "y": "f32[104]"}),
        ("constant", {"y": "f32[104]"}),
    ],
)
def test_events_add_up_to_the_counts(record: Record, name: str, arguments: dict[str, Any]) -> None:
    kernel, where = compiled(SOURCE, name), launch(3, 104, **arguments)
    recording, _ = record(kernel, where)
    counts = run(kernel, where).counts
    places = {number: column for column, number in enumerate(counts.accessing)}
    found = {what: np.zeros(len(places), np.int64) for what in ("requests", "lines", "sectors")}
    locals_found = {what: np.zeros(len(places), np.int64) for what in ("requests", "lines", "sectors")}
    for event in recording.events.tolist():
        table = found if Operation(event >> OPERATION_SHIFT & OPERATION_MASK) < Operation.LOCAL_LOAD else locals_found
        column = places[event >> INSTRUCTION_SHIFT]
        table["requests"][column] += event >> LAST_SHIFT & 1
        table["lines"][column] += 1
        table["sectors"][column] += (event >> MASK_SHIFT & 15).bit_count()
    for what in ("requests", "lines", "sectors"):
        assert found[what].tolist() == getattr(counts, what).sum(axis=0).tolist()
        assert locals_found[what].tolist() == getattr(counts, f"local_{what}").sum(axis=0).tolist()
    assert len(recording.events)
    assert any(locals_found["lines"]) == (name in {"gathers", "anywhere"})


def test_a_generic_access_is_two_requests(record: Record) -> None:
    """Of 8 lanes, 1, 4 and 7 read their own second word, the others the buffer."""
    recording, setting = record(compiled(SOURCE, "anywhere"), launch(1, 8, x="f32[8] ones", y="f32[8]"))
    found = [(what, lines) for _, what, lines in numbered(recording)[0]]
    assert (Operation.LOCAL_LOAD, [(1, 1)]) in found
    assert (Operation.LOAD_UNCACHED, [(start_of(setting, "x"), 1)]) in found


def test_blocks_recorded_in_parts_are_recorded_in_order() -> None:
    kernel, where = compiled(SOURCE), launch(5, 40, x="f32[400]", y="f32[200]", n=2)
    setting = prepare(kernel, where, WholeGrid())
    whole = recorded_by_reference(setting, [3, 1, 4, 0, 2])
    parts = recorded_by_reference(setting, [3, 1], [4], [0, 2])
    assert parts.block_ids.tolist() == [3, 1, 4, 0, 2]
    assert list(between_barriers(parts).items()) == list(between_barriers(whole).items())


def test_a_warp_that_accesses_nothing_ends_all_the_same(record: Record) -> None:
    kernel = ptx_kernel(".entry k() { bar.arrive 1, 64; bar.sync 0; bar.sync 0; ret; }")
    recording, _ = record(kernel, launch(2, 64))
    assert between_barriers(recording) == {(block, warp): [[], [], []] for block in (0, 1) for warp in (0, 1)}


def test_lanes_that_take_no_part_leave_no_request(record: Record, tmp_path: Path) -> None:
    recording, _ = record(accessing(access("ld.global.f32")), launch_of([np.full(32, OUT)], tmp_path))
    assert len(recording.events) == 1
