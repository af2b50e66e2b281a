"""The simulation of an SM against what can be worked out by hand, and against common sense."""

from dataclasses import replace

import numpy as np
import pytest

from kerncast.errors import LaunchError
from kerncast.models.sm.micro_ops import Group, Memory, Pipe, Program
from kerncast.models.sm.results import Simulated, Stall, slope
from kerncast.models.sm.simulate import is_prepared, prepare, simulate
from kerncast.traces import PASSES_SHIFT, Operation
from tests.helpers.sm_programs import WHOLE_LINE, Op, Step, program_of, sm_of, trace_of

SECTOR, LINE = 32, 128


def fma(*registers: int) -> Op:
    return Op(Pipe.FMA, sources=registers, destinations=registers[:1])


LOAD = Op(Pipe.LSU, Memory.LOAD, sources=(0,), destinations=(1,), accesses=(0,))
USE = Op(Pipe.ALU, sources=(1,), destinations=(0,))
STORE = Op(Pipe.LSU, Memory.STORE, sources=(1,), accesses=(1,))
BARRIER = Op(Pipe.BRANCH, Memory.BARRIER)


def last(done: Simulated) -> float:
    return float(done.finish_cycles[-1])


@pytest.mark.parametrize("count", [1, 10, 100])
def test_a_chain_takes_its_latencies(count: int) -> None:
    done = simulate(program_of([fma(0)] * count), trace_of([[[Step(0)]]]), sm_of(), 1)
    assert last(done) == 4 * count
    assert done.stalls[:, Stall.WAIT].sum() == 3 * count


@pytest.mark.parametrize("interval", [1.0, 2.0, 0.5])
def test_independent_arithmetic_takes_its_pipe(interval: float) -> None:
    """Two issues a cycle are needed where an instruction takes half a cycle."""
    program = program_of([fma(i) for i in range(20)])
    sm = sm_of(pipe_cycles=(interval,) * len(Pipe), issue_width=2 if interval < 1 else 1)
    done = simulate(program, trace_of([[[Step(0)] * 10 for _ in range(32)]]), sm, 1)
    assert last(done) == pytest.approx(200 * 8 * interval, rel=0.01)
    assert done.busy_cycles[Pipe.FMA] == 200 * 32 * interval


def test_an_integer_multiply_takes_the_fma_pipe_too() -> None:
    ops = [Op(Pipe.IMAD, destinations=(i,)) for i in range(8)] + [Op(Pipe.FMA, destinations=(8 + i,)) for i in range(8)]
    trace = trace_of([[[Step(0)] * 20 for _ in range(32)]])
    apart = last(simulate(program_of(ops), trace, sm_of(), 1))
    shared = tuple(2.0 if pipe == Pipe.IMAD else 0.0 for pipe in Pipe)
    together = last(simulate(program_of(ops), trace, sm_of(fma_cycles=shared), 1))
    assert together == pytest.approx(20 * 16 * 8 * 2, rel=0.01)
    assert together > 1.3 * apart
    wide = [Op(Pipe.IMAD, destinations=(i,), cycles=4.0) for i in range(8)] + ops[8:]
    longer = simulate(program_of(wide), trace, sm_of(fma_cycles=shared), 1)
    assert last(longer) == pytest.approx(20 * (8 * 4 + 8 * 2) * 8, rel=0.01)
    assert longer.busy_cycles[Pipe.FMA] == 20 * 32 * (8 * 4 + 8 * 2)


def streaming(warps: int, iterations: int, blocks: int = 1) -> tuple[object, ...]:
    def line(b: int, w: int, i: int) -> int:
        return ((b * warps + w) * iterations + i) * 64

    rows = [
        [[Step(0, {0: [(Operation.LOAD, line(b, w, i), WHOLE_LINE)]}) for i in range(iterations)] for w in range(warps)]
        for b in range(blocks)
    ]
    return program_of([LOAD, USE]), trace_of(rows)


def test_a_stream_takes_the_bandwidth_of_dram() -> None:
    program, trace = streaming(32, 50)
    done = simulate(program, trace, sm_of(), 1)  # type: ignore[arg-type]
    assert last(done) == pytest.approx(32 * 50 * LINE / 8.0, rel=0.05)
    assert done.dram_sectors == done.l2_read_sectors == 32 * 50 * 4


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_few_warps_hide_latency_as_little_says(warps: int) -> None:
    """Each warp has one line in flight for the latency, the transfer of a line, and one instruction."""
    program, trace = streaming(warps, 40)
    sm = sm_of(dram_read_share=0.0)
    done = simulate(program, trace, sm, 1)  # type: ignore[arg-type]
    round_trip = sm.l2_latency + LINE / sm.l2_bytes_per_cycle + 4
    assert last(done) == pytest.approx(40 * round_trip, rel=0.03)


def test_a_loaded_line_is_there_after_its_latency() -> None:
    """A hit takes the latency of L1; a hit on a line that is still on its way waits for it."""

    def once(*lines: int) -> float:
        steps = [Step(0, {0: [(Operation.LOAD, line, 1)]}) for line in lines]
        return last(simulate(program_of([LOAD, USE]), trace_of([[steps]]), sm_of(dram_read_share=0.0), 1))

    miss, both = once(3), once(3, 3)
    assert both - miss == 28 + 4
    together = program_of([LOAD, replace(LOAD, destinations=(2,), accesses=(1,))])
    step = Step(0, {0: [(Operation.LOAD, 3, 1)], 1: [(Operation.LOAD, 3, 1)]})
    done = simulate(together, trace_of([[[step]]]), sm_of(dram_read_share=0.0), 1)
    assert (done.l1_sectors, done.l1_hits) == (2, 1)
    assert last(done) == np.ceil(215 + SECTOR / 64)


@pytest.mark.parametrize(("mask", "cycles"), [(1, 2.0), (WHOLE_LINE, 2.0), (1, 5.0)])
def test_lines_that_l1_misses_are_asked_for_one_after_the_other(mask: int, cycles: float) -> None:
    """32 lines of one load: one sector of each takes as long as all four."""
    lines = [(Operation.LOAD, 9 * n, mask) for n in range(32)]
    trace, program = trace_of([[[Step(0, {0: lines})]]]), program_of([LOAD, USE])
    fast = {"l2_bytes_per_cycle": 1e6, "l1_tag_cycles": 0.25, "dram_read_share": 0.0}
    done = last(simulate(program, trace, sm_of(l2_request_cycles=cycles, **fast), 1))
    assert done == pytest.approx(32 * cycles + 215 + 4, abs=4)


@pytest.mark.parametrize("wavefronts", [1, 2, 8, 32])
def test_bank_conflicts_take_the_queue(wavefronts: int) -> None:
    op = Op(Pipe.LSU, Memory.SHARED_LOAD, destinations=(1,), accesses=(0,))
    step = Step(0, {0: [(Operation.SHARED_LOAD, wavefronts, 0)]})
    done = simulate(program_of([op]), trace_of([[[step] * 50 for _ in range(16)]]), sm_of(), 1)
    assert done.shared_cycles == 50 * 16 * wavefronts
    assert last(done) == pytest.approx(max(50 * 16 * wavefronts, 50 * 19), rel=0.1)
    assert done.l1_cycles == 0


@pytest.mark.parametrize(("is_apart", "cycles"), [(False, 8 + 4), (True, 8)])
def test_lines_and_wavefronts_share_a_queue_only_where_l1_is_shared_memory(is_apart: bool, cycles: int) -> None:
    """Eight lines and a shared load of four wavefronts: one after the other, or side by side."""
    shared = Op(Pipe.LSU, Memory.SHARED_LOAD, destinations=(2,), accesses=(1,))
    lines = [(Operation.LOAD, line, 1) for line in range(8)]
    step = Step(0, {0: lines, 1: [(Operation.SHARED_LOAD, 4, 0)]})
    trace = trace_of([[[step] * 50 for _ in range(16)]])
    done = simulate(program_of([LOAD, shared]), trace, sm_of(l1_is_apart=is_apart, replay_cycles=1.0), 1)
    assert last(done) == pytest.approx(50 * 16 * cycles, rel=0.08)
    assert (done.l1_cycles, done.shared_cycles) == (50 * 16 * 8, 50 * 16 * 4)


@pytest.mark.parametrize("warps", [1, 4, 16])
def test_a_barrier_takes_its_latency(warps: int) -> None:
    done = simulate(program_of([BARRIER] * 20), trace_of([[[Step(0)] for _ in range(warps)]]), sm_of(), 1)
    arrive = max(1, warps // 4)
    assert last(done) == 20 * (arrive - 1 + 10)


def test_a_barrier_waits_for_the_slowest_warp_and_for_its_own_stores() -> None:
    slow = program_of([fma(0)] * 100 + [BARRIER], [BARRIER, fma(0)])
    done = simulate(slow, trace_of([[[Step(0), Step(1)], [Step(1), Step(1)]]]), sm_of(), 1)
    assert last(done) >= 400
    store = Op(Pipe.LSU, Memory.SHARED_STORE, accesses=(0,))
    step = Step(0, {0: [(Operation.SHARED_STORE, 1, 0)]})
    assert last(simulate(program_of([store, BARRIER]), trace_of([[[step]]]), sm_of(), 1)) == 19 + 10


def test_a_barrier_that_some_never_reach_lets_the_others_go() -> None:
    program = program_of([BARRIER, fma(0)], [fma(0)])
    done = simulate(program, trace_of([[[Step(0)], [Step(1)], [Step(0), Step(0)]]]), sm_of(), 1)
    assert len(done.finish_cycles) == 1


def test_a_branch_takes_its_latency() -> None:
    done = simulate(program_of([Op(Pipe.BRANCH)] * 10), trace_of([[[Step(0)]]]), sm_of(), 1)
    assert last(done) == 80
    assert done.stalls[:, Stall.BRANCH_RESOLVING].sum() == 70


def test_atomics_take_one_turn_per_sector_and_more_where_lanes_meet() -> None:
    def cycles(lanes: int, addresses: int, sectors: int, memory: Memory = Memory.REDUCTION) -> float:
        op = Op(Pipe.LSU, memory, accesses=(0,))
        event = (Operation.CONTENTION, lanes | addresses << 8, 0)
        step = Step(0, {0: [event, (Operation.REDUCTION, 1, sectors)]})
        sm = sm_of(atomic_cycles=2.0)
        return simulate(program_of([op]), trace_of([[[step] * 100 for _ in range(8)]]), sm, 1).atomic_cycles / 800

    assert cycles(1, 32, sectors=WHOLE_LINE) == 4 * 2.0
    assert cycles(32, 1, sectors=1) == 32 * 2.0
    assert cycles(31, 2, sectors=1) == 2.0 + 30 * 2.0
    # Eight lanes on each of four addresses: each is updated seven times more.
    assert cycles(8, 4, sectors=1) == 2.0 + 28 * 2.0
    assert cycles(32, 1, sectors=1, memory=Memory.REDUCTION_JOINED) == 2.0
    assert cycles(5, 1, sectors=1, memory=Memory.ATOMIC_JOINED) == 2.0
    assert cycles(32, 1, sectors=1, memory=Memory.ATOMIC_JOINED_BY_ALL) == 2.0
    assert cycles(5, 1, sectors=1, memory=Memory.REDUCTION_JOINED_BY_ALL) == 5 * 2.0


def test_l2_merges_what_stores_fill_in_part_unless_the_next_one_goes_on() -> None:
    """Four sectors of a line, three of them in part, at 2 cycles each: 100 lines, once by one store and once by two."""
    one, two = Op(Pipe.LSU, Memory.STORE, accesses=(0,)), Op(Pipe.LSU, Memory.STORE, accesses=(1,))
    lines = [(Operation.STORE, line | 3 << PASSES_SHIFT, WHOLE_LINE) for line in range(100)]
    sm = sm_of(merge_cycles=2.0, l2_queue_cycles=0.0, l2_write_bytes_per_cycle=32.0)

    def stored(program: Program, steps: list[Step]) -> Simulated:
        return simulate(program, trace_of([[steps]]), sm, 1)

    once = stored(program_of([one]), [Step(0, {0: [line]}) for line in lines])
    twice = stored(program_of([one, two]), [Step(0, {0: [line], 1: [line]}) for line in lines])
    assert (once.l2_write_sectors, once.l2_merged_sectors) == (400, 300)
    assert (twice.l2_write_sectors, twice.l2_merged_sectors) == (500, 300)
    # The last line is still on its way when the warp ends.
    assert once.finish_cycles[0] == pytest.approx(99 * (4 + 3 * 2.0), abs=2)


@pytest.mark.parametrize(
    ("memory", "lanes", "cycles"),
    [
        (Memory.SHARED_ATOMIC, 32, 32 * 4), (Memory.SHARED_ATOMIC, 8, 8 * 4),
        (Memory.SHARED_ATOMIC_JOINED, 32, 4), (Memory.SHARED_ATOMIC_JOINED, 8, 4),
        (Memory.SHARED_ATOMIC_JOINED_BY_ALL, 32, 4), (Memory.SHARED_ATOMIC_JOINED_BY_ALL, 31, 31 * 4),
    ],
)  # fmt: skip
def test_joined_atomics_on_shared_memory_are_one(memory: Memory, lanes: int, cycles: int) -> None:
    step = Step(0, {0: [(Operation.SHARED_ATOMIC, lanes | lanes << 8, 0)]})
    program = program_of([Op(Pipe.LSU, memory, accesses=(0,))])
    assert simulate(program, trace_of([[[step] * 50]]), sm_of(), 1).shared_cycles == 50 * cycles


def test_a_joined_atomic_still_has_a_wavefront_for_each_further_address() -> None:
    """Eight lanes on one address and four more of the same bank."""
    step = Step(0, {0: [(Operation.SHARED_ATOMIC, 12 | 8 << 8, 0)]})
    program = program_of([Op(Pipe.LSU, Memory.SHARED_ATOMIC_JOINED, accesses=(0,))])
    assert simulate(program, trace_of([[[step]]]), sm_of(shared_atomic_cycles=1.0), 1).shared_cycles == 5


def test_registers_that_are_exchanged_are_no_shared_memory() -> None:
    done = simulate(program_of([Op(Pipe.LSU)] * 10), trace_of([[[Step(0)]]]), sm_of(), 1)
    assert (done.exchange_cycles, done.shared_cycles, done.l1_cycles) == (10, 0, 0)


@pytest.mark.parametrize("memory", [Memory.SHARED_LOAD, Memory.SHARED_STORE])
def test_an_access_with_conflicts_is_issued_again(memory: Memory) -> None:
    """A warp waits 14 cycles for each of 3 further wavefronts, others meanwhile use the pipe: one cycle a wavefront."""
    operation = Operation.SHARED_LOAD if memory == Memory.SHARED_LOAD else Operation.SHARED_STORE
    op = Op(Pipe.LSU, memory, accesses=(0,))
    step = Step(0, {0: [(operation, 4, 0)]})

    def cycles(warps: int) -> float:
        trace = trace_of([[[step] * 50 for _ in range(warps)]])
        return last(simulate(program_of([op]), trace, sm_of(reissue_cycles=14.0), 1))

    assert cycles(1) == pytest.approx(50 * 3 * 14, rel=0.02)
    assert cycles(8) == pytest.approx(cycles(1), rel=0.05)
    assert cycles(32) == pytest.approx(32 * 50 * 4, rel=0.05)


def test_blocks_follow_one_another() -> None:
    done = simulate(program_of([fma(0)] * 10), trace_of([[[Step(0)]]] * 6), sm_of(), 2)
    assert done.finish_cycles.tolist() == [40, 40, 380, 380, 720, 720]


def test_a_fraction_of_a_micro_op_runs_in_that_fraction_of_executions() -> None:
    program = program_of([replace(fma(0), weight=64), replace(fma(0), weight=100, phase=17)])
    done = simulate(program, trace_of([[[Step(0)] * 128 for _ in range(2)]] * 2), sm_of(), 1)
    assert done.issued == pytest.approx(512 * 164 / 256, abs=4)
    once = simulate(
        program_of([replace(fma(0), weight=64)]), trace_of([[[Step(0)] for _ in range(16)]] * 2), sm_of(), 1
    )
    assert once.issued == 8


def test_local_memory_is_each_warps_own() -> None:
    steps = [Step(0, {0: [(Operation.LOCAL_LOAD, 0, WHOLE_LINE)]})] * 2
    done = simulate(program_of([LOAD, USE]), trace_of([[steps, steps]]), sm_of(), 1)
    assert (done.l1_sectors, done.l1_hits) == (16, 8)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_frames_beyond_l2_take_the_bandwidth_of_dram(share: float) -> None:
    """16 warps write 50 lines and read them: the bytes of both ways, as far as DRAM sees them."""
    store = replace(STORE, sources=(0,))
    local = {0: [(Operation.LOCAL_LOAD, 0, WHOLE_LINE)], 1: [(Operation.LOCAL_STORE, 0, WHOLE_LINE)]}
    trace = trace_of([[[Step(0, local)] * 50 for _ in range(16)]])
    elsewhere = {"dram_read_share": 0.0, "dram_write_share": 0.0, "l2_latency": 9.0, "dram_latency": 9.0}
    sm = sm_of(l1_lines=0, l1_operations=0, dram_local_share=share, **elsewhere)
    done = simulate(program_of([LOAD, store]), trace, sm, 1)
    sectors = 16 * 50 * 4
    assert (done.local_read_sectors, done.local_write_sectors) == (sectors, sectors)
    assert done.dram_sectors == 2 * sectors * share
    if share:
        assert last(done) == pytest.approx(done.dram_sectors * SECTOR / sm.dram_bytes_per_cycle, rel=0.05)


def test_a_predicated_access_costs_its_turn_only() -> None:
    done = simulate(program_of([LOAD, USE]), trace_of([[[Step(0)] * 10]]), sm_of(), 1)
    assert (done.issued, done.l1_sectors, done.l1_cycles) == (20, 0, 0)


def mixture() -> tuple[object, ...]:
    program = program_of([LOAD, *(fma(2 + i, 1) for i in range(6)), USE, STORE, BARRIER, Op(Pipe.BRANCH)])

    def step(w: int, i: int) -> Step:
        lines = [(w * 7 + i * 3 + k) % 200 for k in range(1 + i % 3)]
        loads = [(Operation.LOAD, line, WHOLE_LINE) for line in lines]
        return Step(0, {0: loads, 1: [(Operation.STORE, 1000 + lines[0], WHOLE_LINE)]})

    return program, trace_of([[[step(8 * b + w, i) for i in range(12)] for w in range(8)] for b in range(12)])


FASTER = {
    "dram_bytes_per_cycle": 16.0, "l2_bytes_per_cycle": 128.0, "l2_write_bytes_per_cycle": 128.0, "l1_lines": 2048,
    "l1_bytes_per_cycle": 256.0, "l2_latency": 150.0, "dram_latency": 300.0, "l1_latency": 20.0,
    "dram_read_share": 0.25, "branch_latency": 4.0, "barrier_latency": 2.0, "block_launch_cycles": 100.0,
    "pipe_cycles": (1.0,) * len(Pipe), "pipe_latency": (2.0,) * len(Pipe), "store_line_cycles": 0.5, "issue_width": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", FASTER)
@pytest.mark.parametrize("resident", [1, 4])
def test_a_better_sm_is_never_slower(name: str, resident: int) -> None:
    """Beyond 2 %: which warp goes first may change, and with it what waits for what."""
    program, trace = mixture()
    before = last(simulate(program, trace, sm_of(l1_lines=64), resident))  # type: ignore[arg-type]
    after = last(simulate(program, trace, sm_of(**{"l1_lines": 64, name: FASTER[name]}), resident))  # type: ignore[arg-type]
    assert after <= 1.02 * before


def test_a_block_leaves_when_l2_has_what_it_stored() -> None:
    """One store, of a register that is there: its hold is all that the block waits for."""
    trace = trace_of([[[Step(0, {1: [(Operation.STORE, 5, WHOLE_LINE)]})]]])
    program = program_of([replace(STORE, sources=())])
    free, held = (last(simulate(program, trace, sm_of(store_latency=each), 1)) for each in (0.0, 215.0))
    assert held - free == pytest.approx(215, abs=1)


@pytest.mark.parametrize(("burst", "waited"), [(0.0, 8 * LINE / 8), (48.0, 8 * LINE / 8 - 48), (300.0, 0.0)])
def test_what_an_sm_left_of_dram_it_has_again(burst: float, waited: float) -> None:
    """Eight lines behind a pause of a thousand cycles: other SMs have used the pause, and leave as much now."""
    lines = [(Operation.LOAD, 64 * n, WHOLE_LINE) for n in range(1, 9)]
    steps = [Step(0, {0: [(Operation.LOAD, 0, WHOLE_LINE)]}), Step(1), Step(0, {0: lines})]
    program = program_of([LOAD, USE], [fma(0)] * 250)
    fast = {"l1_bytes_per_cycle": 1e6, "l1_tag_cycles": 0.0, "l2_bytes_per_cycle": 1e6, "l2_path_bytes_per_cycle": 1e6}
    times = [
        last(simulate(program, trace_of([[steps[:count]]]), sm_of(dram_burst_cycles=burst, **fast), 1))
        for count in (2, 3)
    ]
    assert times[1] - times[0] == pytest.approx(437 + waited + 4, abs=3)


@pytest.mark.parametrize("burst", [0.0, 300.0])
def test_a_stream_takes_the_bandwidth_of_dram_whatever_it_may_bring_ahead(burst: float) -> None:
    program, trace = streaming(32, 50)
    done = simulate(program, trace, sm_of(dram_burst_cycles=burst), 1)  # type: ignore[arg-type]
    assert last(done) == pytest.approx(32 * 50 * LINE / 8.0, rel=0.05)


@pytest.mark.parametrize(("finish", "steady"), [((100.0, 110, 150, 200), 50), ((10.0, 100, 110, 200), 50)])
def test_blocks_of_the_steady_state_take_no_longer_than_all_on_average(
    finish: tuple[float, ...], steady: float
) -> None:
    """Two blocks at once, each of 100 micro-ops: of the second case 100 were issued in as many cycles behind its start.

    Such a slope comes from queues that were full of earlier blocks' requests; atomicAggregate was 1.12 times too long.
    """
    one = simulate(program_of([fma(0)]), trace_of([[[Step(0)]]]), sm_of(), 1)
    blocks = replace(one, finish_cycles=np.array(finish), issued_at_finish=np.array([190, 200, 290, 400]), issued=400)
    assert slope(blocks, 2) == steady


def test_it_is_deterministic() -> None:
    program, trace = mixture()
    first, second = (simulate(program, trace, sm_of(), 3) for _ in range(2))  # type: ignore[arg-type]
    assert first.finish_cycles.tolist() == second.finish_cycles.tolist()
    assert first.stalls.tolist() == second.stalls.tolist()


def test_more_warps_than_an_sm_holds_are_refused() -> None:
    with pytest.raises(LaunchError, match="fewer resident blocks"):
        simulate(program_of([fma(0)]), trace_of([[[Step(0)]] * 300]), sm_of(), 1)


def test_it_says_whether_it_is_compiled() -> None:
    prepare()
    assert is_prepared()


COPY = Op(Pipe.LSU, Memory.COPY, accesses=(0,))
COMMIT = Op(Pipe.LSU, Memory.COMMIT)


def awaiting(left: int) -> Op:
    return Op(Pipe.BRANCH, Memory.AWAIT, left=left)


def copying(line: int, passes: int = 4, operation: Operation = Operation.LOAD_UNCACHED) -> Step:
    """Return a step whose first access copies one line to shared memory in so many passes."""
    return Step(0, {0: [(operation, line, WHOLE_LINE), (Operation.SHARED_STORE, passes, 0)]})


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("work", [5, 60])
def test_a_pipeline_of_copies_hides_as_much_as_its_stages_last(stages: int, work: int) -> None:
    """A turn asks for the data of the one ``stages`` later: turn = max(work, (way + work) / stages)."""
    program = program_of([awaiting(stages - 1), *[fma(0)] * work, COPY, COMMIT])
    turns = 60
    done = simulate(program, trace_of([[[copying(64 * n) for n in range(turns)]]]), sm_of(dram_read_share=0.0), 1)
    in_turn = 4 * work + 3
    way = 215 + LINE / 64 + 4
    assert last(done) == pytest.approx(turns * max(in_turn, (way + in_turn) / stages), rel=0.03)
    waited = done.stalls[0, Stall.LONG_SCOREBOARD]
    assert waited == pytest.approx(max(0.0, last(done) - turns * in_turn), abs=way + 2 * turns)


def test_a_wait_lets_the_latest_groups_go_on() -> None:
    steps = [copying(64 * n) for n in range(3)]
    ends = []
    for left in (0, 1, 2, 3):
        ops = [[COPY, COMMIT], [awaiting(left), Op(Pipe.FMA)]]
        done = simulate(program_of(*ops), trace_of([[[*steps, Step(1)]]]), sm_of(l2_latency=1000.0), 1)
        ends.append(int(done.stalls[2, Stall.LONG_SCOREBOARD]))
    assert ends == sorted(ends, reverse=True)
    assert ends[0] > ends[2] > 900
    assert ends[3] == 0


def test_what_no_group_holds_is_not_waited_for() -> None:
    program = program_of([COPY], [awaiting(0), fma(0)], [COMMIT, awaiting(0), fma(0)])
    for block, wait, waits in ((1, 1, False), (2, 4, True)):
        done = simulate(program, trace_of([[[copying(0), Step(block)]]]), sm_of(), 1)
        assert (done.stalls[wait, Stall.LONG_SCOREBOARD] > 400) == waits


def test_a_block_stays_until_its_copies_are_there() -> None:
    done = simulate(program_of([COPY]), trace_of([[[copying(0)]]]), sm_of(dram_read_share=0.0), 1)
    assert last(done) == pytest.approx(215 + LINE / 64 + 4, abs=1)


@pytest.mark.parametrize(
    ("operation", "passes", "cycles"),
    [
        (Operation.LOAD_UNCACHED, 1, 1), (Operation.LOAD_UNCACHED, 4, 4), (Operation.LOAD_UNCACHED, 32, 32),
        (Operation.LOAD, 1, 2), (Operation.LOAD, 4, 5),
    ],
)  # fmt: skip
def test_a_copy_takes_its_passes_of_shared_memory(operation: Operation, passes: int, cycles: float) -> None:
    """What passes L1 by is written as it comes; what L1 keeps is read from it first: one pass for a line."""
    steps = [copying(n % 4, passes, operation) for n in range(200)]
    sm = sm_of(dram_read_share=0.0, l2_bytes_per_cycle=1e6, l2_path_bytes_per_cycle=1e6)
    done = simulate(program_of([COPY]), trace_of([[steps] * 8]), sm, 1)
    assert last(done) == pytest.approx(200 * 8 * cycles, rel=0.2)
    assert done.shared_cycles == 200 * 8 * passes
    assert done.l1_cycles == 200 * 8 * (cycles - passes)


PRODUCT = Op(Pipe.TENSOR, Memory.PRODUCT, group=Group.PRODUCTS, cycles=64.0)
ENDS = Op(Pipe.BRANCH, Memory.COMMIT, group=Group.PRODUCTS)


def test_products_queue_for_their_pipe_while_their_warp_goes_on() -> None:
    program = program_of([PRODUCT] * 4 + [ENDS] + [fma(0)] * 20 + [awaiting(0), fma(1)])
    program.group[-2] = Group.PRODUCTS
    done = simulate(program, trace_of([[[Step(0)]]]), sm_of(), 1)
    assert last(done) == 4 * 64 + 4 + 1 + 4
    assert done.stalls[:4].sum() == 4  # none waits for the one before it
    assert done.stalls[-2, Stall.WAIT] == pytest.approx(4 * 64 - 20 * 4, abs=4)


def test_two_warps_of_a_sub_partition_share_its_tensor_pipe() -> None:
    program = program_of([PRODUCT, ENDS, awaiting(1)])
    program.group[-1] = Group.PRODUCTS
    for warps, cycles in ((4, 64), (8, 128), (12, 192)):
        done = simulate(program, trace_of([[[Step(0)] * 50 for _ in range(warps)]]), sm_of(), 1)
        assert last(done) == pytest.approx(50 * cycles, rel=0.02)
