"""Waits for events in the simulation of an SM, against what can be worked out by hand."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from kerncast import predict
from kerncast.errors import UnsupportedError
from kerncast.models.sm.micro_ops import Group, Memory, Pipe
from kerncast.models.sm.plan import have_roles
from kerncast.models.sm.results import Simulated, Stall, of_cluster, parts_of
from kerncast.models.sm.simulate import simulate, simulate_together
from kerncast.traces import OBJECT_BITS, TOLD_SHIFT, EventChange, Operation
from tests.helpers.sm_programs import WHOLE_LINE, Op, Step, program_of, sm_of, trace_of

LINE = 128
#: Numbers of the instructions below, each in a basic block of its own, and the copy engine's time to begin.
BEGIN, EXPECT, COPY, WAIT, ARRIVE, WORK, PRODUCT, COMMIT, STORE, LEFT, READ, MEET, ASK, ANSWER = range(14)
ENGINE, COMMITTED = 170.0, 107.0
FULL, EMPTY = 100, 200
Event = tuple[Operation, int, int]


def request(memory: Memory, number: int, **values: object) -> Op:
    return Op(Pipe.LSU, memory, accesses=(number,), **values)  # type: ignore[arg-type]


OPS = [
    request(Memory.PHASE, BEGIN), request(Memory.PHASE, EXPECT),
    request(Memory.BULK, COPY, cycles=1.0, latency=ENGINE, group=Group.BULK), request(Memory.WAIT, WAIT),
    request(Memory.PHASE, ARRIVE), Op(Pipe.FMA, sources=(0,), destinations=(0,)),
    request(Memory.TENSOR_PRODUCT, PRODUCT, cycles=0.5, group=Group.TENSOR, left=1),
    request(Memory.TELL, COMMIT, latency=COMMITTED, group=Group.TENSOR),
    request(Memory.BULK, STORE, cycles=1.0, latency=ENGINE, group=Group.BULK),
    Op(Pipe.BRANCH, Memory.AWAIT, group=Group.BULK), Op(Pipe.BRANCH, Memory.AWAIT, group=Group.BULK_READS),
    Op(Pipe.BRANCH, Memory.BARRIER, accesses=(MEET,)), request(Memory.ASK, ASK, destinations=(1,)),
    Op(Pipe.FMA, sources=(1,), destinations=(2,)),
]  # fmt: skip
ENDS = [Op(Pipe.BRANCH, Memory.COMMIT, group=kind) for kind in (Group.BULK, Group.BULK_READS)]
PROGRAM = program_of(*([op, *(ENDS if number == STORE else ())] for number, op in enumerate(OPS)))
#: Nothing comes from DRAM, and L2 is fast, unless a test says otherwise.
FAST = {"dram_read_share": 0.0, "l2_bytes_per_cycle": 1e6, "l2_path_bytes_per_cycle": 1e6}


def event(change: EventChange, place: int, number: int) -> Event:
    return Operation.EVENT, place | number << OBJECT_BITS, change


def other(found: Event) -> Event:
    """Return an event of the mbarrier of the other block of a cluster of two."""
    return found[0], found[1] | 1 << TOLD_SHIFT, found[2]


def begin(place: int, arrivals: int = 1) -> Step:
    return Step(BEGIN, {BEGIN: [event(EventChange.BEGIN, place, arrivals)]})


def wait(place: int, parity: int) -> Step:
    return Step(WAIT, {WAIT: [event(EventChange.WAIT, place, parity)]})


def ask(place: int, parity: int) -> Step:
    return Step(ASK, {ASK: [event(EventChange.WAIT, place, parity)]})


def arrive(place: int, count: int = 1) -> Step:
    return Step(ARRIVE, {ARRIVE: [event(EventChange.ARRIVE, place, count)]})


def load(place: int, lines: int, first: int) -> list[Step]:
    """Return the steps of a thread that expects bytes at an mbarrier and asks for them."""
    expected = [event(EventChange.EXPECT, place, LINE * lines), event(EventChange.ARRIVE, place, 1)]
    copied = [event(EventChange.COMPLETE, place, LINE * lines)]
    copied += [(Operation.LOAD_UNCACHED, first + line, WHOLE_LINE) for line in range(lines)]
    return [Step(EXPECT, {EXPECT: expected}), Step(COPY, {COPY: copied})]


def multiply(rows: int, columns: int) -> Step:
    return Step(PRODUCT, {PRODUCT: [event(EventChange.PRODUCT, rows, columns)]})


def commit(place: int) -> Step:
    return Step(COMMIT, {COMMIT: [event(EventChange.ARRIVE, place, 1)]})


def run(*warps: Sequence[Step], blocks: int = 1, **changes: float) -> Simulated:
    return simulate(PROGRAM, trace_of([warps] * blocks), sm_of(**{**FAST, **changes}), 1)


def run_pair(first: Sequence[Sequence[Step]], second: Sequence[Sequence[Step]], blocks: int = 1) -> list[float]:
    """Return when the last blocks of both ranks of some clusters end."""
    traces = [trace_of([warps] * blocks) for warps in (first, second)]
    return [last(done) for done in simulate_together(PROGRAM, traces, [sm_of(**FAST)] * 2, 1)]


def last(done: Simulated) -> float:
    return float(done.finish_cycles[-1])


@pytest.mark.parametrize("count", [1, 4, 32])
def test_a_chain_of_copies_takes_their_latencies(count: int) -> None:
    """Each is asked for when the one before is there: two issues, L2, the engine, 16 lines, and the answer's branch."""
    steps = [begin(FULL)]
    for turn in range(count):
        steps += [*load(FULL, 16, 16 * turn), wait(FULL, turn & 1)]
    sm = sm_of()
    one = max(sm.l2_latency, 16.0) + ENGINE
    assert last(run(steps)) == pytest.approx(count * one, abs=8 + 6 * count)
    assert last(run(steps)) >= count * one


@pytest.mark.parametrize("work", [10, 100, 1000])
def test_a_warp_that_asks_waits_where_it_reads_the_answer(work: int) -> None:
    """The copy and the work overlap, where the copy's end is asked for before the work and the answer is read after."""
    begun = [begin(FULL), *load(FULL, 16, 0)]
    worked = [Step(WORK)] * work
    copied, alone = last(run([*begun, wait(FULL, 0)])), last(run([*worked]))
    asked = last(run([*begun, ask(FULL, 0), *worked, Step(ANSWER)]))
    assert asked == pytest.approx(max(copied, alone), abs=40)
    assert last(run([*begun, wait(FULL, 0), *worked])) == pytest.approx(copied + alone, abs=40)


def test_an_answer_comes_from_another_warp_or_is_never_read() -> None:
    late = [*[Step(WORK)] * 500, arrive(FULL)]
    alone = last(run(late))
    assert last(run([begin(FULL), ask(FULL, 0), Step(ANSWER)], late)) == pytest.approx(alone, abs=40)
    # The slot of the block that has never read its answer is the next block's: nothing of it is left in registers.
    far = [begin(FULL), *[multiply(128, 256)] * 40, commit(FULL)]
    two = [[far, [ask(FULL, 0), Step(WORK)]], [[Step(WORK)], [Step(ANSWER)]]]
    first, second = simulate(PROGRAM, trace_of(two), sm_of(**FAST), 1).finish_cycles.tolist()
    assert second - first < last(run([Step(WORK)])) + 600
    # What has ended already keeps nobody who has asked for something else.
    ended = [begin(FULL), begin(EMPTY), ask(FULL, 0), wait(EMPTY, 1), *[Step(WORK)] * 500]
    assert last(run(ended, late)) == pytest.approx(alone, abs=80)
    unread = run([begin(FULL), ask(FULL, 0), Step(WORK)], blocks=3)
    assert last(unread) < alone
    with pytest.raises(UnsupportedError, match="an mbarrier"):
        run([begin(FULL), ask(FULL, 0), Step(ANSWER)])


def test_a_warp_asks_for_one_phase_at_a_time() -> None:
    """The second question waits for the first answer, as a wait would: what follows a pipeline's next question."""
    late = [*[Step(WORK)] * 500, arrive(FULL)]
    asked = run([begin(FULL), begin(EMPTY), ask(FULL, 0), ask(EMPTY, 1), *[Step(WORK)] * 500], late)
    assert last(asked) == pytest.approx(2 * last(run(late)), abs=80)


@pytest.mark.parametrize("latency", [50.0, 400.0])
def test_answers_to_requests_take_their_latency(latency: float) -> None:
    """Twelve one after the other; what is done meanwhile is hidden, up to the latency, but for four cycles a step."""
    ask = request(Memory.PHASE, 1, latency=latency)
    asking = program_of(
        [OPS[BEGIN]], [ask], [OPS[EXPECT]], [OPS[WAIT]], [Op(Pipe.FMA, sources=(0,), destinations=(0,))]
    )
    expected = [event(EventChange.EXPECT, FULL, 16), event(EventChange.ARRIVE, FULL, 1)]

    def cycles(work: int) -> float:
        steps = [begin(FULL)]
        for turn in range(12):
            told = Step(1, {1: [event(EventChange.COMPLETE, FULL, 16)]})
            asked = Step(3, {WAIT: [event(EventChange.WAIT, FULL, turn & 1)]})
            steps += [Step(2, {EXPECT: expected}), told, *[Step(4)] * work, asked]
        return last(simulate(asking, trace_of([[steps]]), sm_of(**FAST), 1))

    assert cycles(0) == pytest.approx(12 * latency, abs=12 * 8)
    assert cycles(200) == pytest.approx(12 * max(latency, 800.0), abs=12 * 30)


@pytest.mark.parametrize("rate", [64.0, 32.0, 16.0])
def test_many_copies_at_once_take_the_rate_of_l2(rate: float) -> None:
    stages, turns, lines = 32, 64, 16
    steps = [begin(FULL + n) for n in range(stages)]
    for turn in range(turns):
        if turn >= stages:
            steps.append(wait(FULL + turn % stages, turn // stages + 1 & 1))
        steps += load(FULL + turn % stages, lines, lines * turn)
    done = run(steps, l2_path_bytes_per_cycle=rate)
    assert last(done) == pytest.approx(turns * lines * LINE / rate, rel=0.03, abs=500)
    assert done.l2_read_sectors == 4 * turns * lines
    assert done.shared_cycles == turns * lines  # each line is written once


def pipeline(stages: int, work: int, turns: int = 24) -> tuple[list[Step], list[Step]]:
    """Return a producer that copies 16 lines into each stage when it is free, and a consumer that works on it."""
    producer = [begin(each + n) for n in range(8) for each in (FULL, EMPTY)]
    consumer: list[Step] = []
    for turn in range(turns):
        stage, parity = turn % stages, turn // stages & 1
        producer += [wait(EMPTY + stage, 1 - parity), *load(FULL + stage, 16, 16 * turn)]
        consumer += [wait(FULL + stage, parity), *[Step(WORK)] * work, arrive(EMPTY + stage)]
    # The consumer asks before the phases exist where it begins first; a kernel has a barrier there.
    return producer, [*[Step(WORK)] * 20, *consumer]


@pytest.mark.parametrize("work", [10, 60, 200])
def test_a_stage_more_is_never_slower(work: int) -> None:
    times = [last(run(*pipeline(stages, work))) for stages in range(1, 9)]
    assert times == sorted(times, reverse=True)
    copied, computed = 215 + ENGINE, 4.0 * work
    # With one stage copies and work take turns; with enough of them the slower of the two decides.
    assert times[0] == pytest.approx(24 * (copied + computed), rel=0.2)
    if computed > copied / 7:
        assert times[-1] == pytest.approx(24 * computed + copied, rel=0.15)


def test_more_bandwidth_is_never_slower() -> None:
    times = [
        last(run(*pipeline(4, 20), dram_read_share=1.0, dram_bytes_per_cycle=rate)) for rate in (2.0, 4.0, 8.0, 16.0)
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] == pytest.approx(24 * 16 * LINE / 2.0, rel=0.05)


@pytest.mark.parametrize(
    ("rows", "columns", "cycles"), [(128, 64, 48), (128, 128, 64), (128, 256, 128), (64, 64, 32), (64, 256, 128)]
)
def test_products_in_tensor_memory_take_their_published_intervals(rows: int, columns: int, cycles: float) -> None:
    """Half a cycle a column, or what 128 bytes per clock take for both tiles of 32 bytes a row (B200)."""
    done = run([begin(FULL), *[multiply(rows, columns)] * 100, commit(FULL), wait(FULL, 0)])
    assert last(done) == pytest.approx(100 * cycles + COMMITTED, abs=16)
    assert last(done) >= 100 * cycles
    assert done.busy_cycles[Pipe.TENSOR] == 100 * cycles * 4


def test_a_loop_of_products_with_waits_never_beats_the_pipe() -> None:
    steps = [begin(FULL)]
    for turn in range(50):
        steps += [multiply(128, 128), commit(FULL), wait(FULL, turn & 1)]
    done = last(run(steps))
    assert done >= 50 * (64 + COMMITTED)
    assert done == pytest.approx(50 * (64 + COMMITTED), rel=0.05)


def test_a_store_is_read_sooner_than_written() -> None:
    stored = Step(STORE, {STORE: [(Operation.STORE, line, WHOLE_LINE) for line in range(64)]})
    after = [Step(WORK)] * 100
    read, written = (run([stored, Step(waits), *after]) for waits in (READ, LEFT))
    sm = sm_of()
    assert last(written) == pytest.approx(64 + sm.shared_latency + sm.l2_latency + 400, abs=8)
    assert last(read) == pytest.approx(64 + sm.shared_latency + 400, abs=8)
    assert read.l2_write_sectors == 4 * 64


def test_what_nobody_does_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="wait at an mbarrier for what none of its blocks does"):
        run([begin(FULL, 2), arrive(FULL), wait(FULL, 0)])


def test_phases_count_arrivals_and_bytes() -> None:
    """Four warps arrive, each two times; the fifth waits for both phases, and then for one that bytes end."""
    of_four = [*[Step(WORK)] * 20, arrive(FULL), *[Step(WORK)] * 100, arrive(FULL)]
    waiting = [begin(FULL, 4), wait(FULL, 0), wait(FULL, 1)]
    done = last(run(*[of_four] * 4, waiting))
    assert done == pytest.approx(4 * 120 + 19, abs=12)


def test_a_barrier_of_some_warps_waits_for_these_alone() -> None:
    """Two warps meet at barrier 1, where a third arrives and goes on to barrier 2; the fourth is slow and alone."""
    meet = Op(Pipe.BRANCH, Memory.BARRIER, group=1, left=3)
    pass_by = Op(Pipe.BRANCH, Memory.ARRIVE, group=1, left=3)
    work = Op(Pipe.FMA, sources=(0,), destinations=(0,))
    program = program_of([meet], [pass_by], [work], [Op(Pipe.BRANCH, Memory.BARRIER, group=2, left=3)])
    meeting, passing = [Step(0), Step(3)] * 5, [Step(1), Step(3)] * 5
    quick = simulate(program, trace_of([[meeting, meeting, passing, [Step(2)]]]), sm_of(), 1)
    slow = simulate(program, trace_of([[meeting, meeting, passing, [Step(2)] * 500]]), sm_of(), 1)
    assert last(quick) == 5 * 2 * 10
    assert last(slow) == 500 * 4


@pytest.mark.parametrize("together", [True, False])
def test_warps_meet_at_the_barrier_that_the_recording_names(together: bool) -> None:
    """Two pairs of warps work by turns: at barriers of their own none waits for the other pair."""

    def pair(number: int, *works: int) -> list[Step]:
        barrier = event(EventChange.BARRIER, 0 if together else number, 0 if together else 2)
        return [step for work in works for step in [*[Step(WORK)] * work, Step(MEET, {MEET: [barrier]})]]

    long, short = 400, 40
    warps = [pair(1, long, short)] * 2 + [pair(2, short, long)] * 2
    cycles = last(run(*warps)) / last(run([Step(WORK)] * (long + short)))
    assert cycles == pytest.approx(2 * long / (long + short) if together else 1.0, rel=0.05)


def test_a_barrier_of_more_threads_than_there_are_has_a_time_where_nobody_comes(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(
        ".version 8.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a) .reqntid 32,1,1 {\n"
        ".reg .pred %p; .reg .b32 %t; mov.u32 %t, %tid.x; setp.gt.u32 %p, %t, 99;"
        "@%p bar.sync 0, 143833713099145216; ret; }",
        encoding="utf-8",
    )
    (tmp_path / "k.toml").write_text(
        'source = "k.ptx"\n[[launch]]\nkernel = "k"\ngrid = [8]\nblock = [32]\nargs = { a = "u8[8] zeros" }\n',
        encoding="utf-8",
    )
    (found,) = predict(tmp_path / "k.toml", "a100-sxm-80gb")
    assert found.model in {"simulation", "roofline"}


WAKE = [Step(WORK)] * 20
"""What lasts until the other block's mbarriers have begun, as behind a barrier of the cluster."""


def copy_for_both(place: int, lines: int, first: int, *, expects: bool = True) -> list[Step]:
    """Return the steps of a thread that asks for lines which both blocks of a cluster get."""
    expected, copied = load(place, lines, first)
    (told, *read) = copied.accesses[COPY]
    return [*([expected] if expects else []), Step(COPY, {COPY: [told, other(told), *read]})]


def expect(place: int, lines: int) -> Step:
    return load(place, lines, 0)[0]


@pytest.mark.parametrize("turns", [1, 4, 24])
def test_a_block_that_copies_for_two_serves_both_as_one_alone(turns: int) -> None:
    """Each copy is asked for when both have used the one before; the second block only expects and waits."""
    copying: list[Step] = [begin(FULL), begin(EMPTY, 2), *WAKE]
    using: list[Step] = [begin(FULL), *WAKE]
    for turn in range(turns):
        free = {ARRIVE: [event(EventChange.ARRIVE, EMPTY, 1)]}
        copying += [
            *copy_for_both(FULL, 16, 16 * turn),
            wait(FULL, turn & 1),
            Step(ARRIVE, free),
            wait(EMPTY, turn & 1),
        ]
        using += [expect(FULL, 16), wait(FULL, turn & 1), Step(ARRIVE, {ARRIVE: [other(free[ARRIVE][0])]})]
    sm = sm_of()
    one = max(sm.l2_latency, 16.0) + ENGINE
    first, second = run_pair([copying], [using])
    assert first >= turns * (one + sm.shared_latency)
    assert first == pytest.approx(turns * (one + sm.shared_latency), abs=90 + 16 * turns)
    assert turns * one <= second <= first
    assert run_pair([using], [copying]) == [second, first], "whichever rank it has"


@pytest.mark.parametrize("work", [10, 200])
def test_a_pair_whose_leader_multiplies_takes_the_slower_of_copies_and_products(work: int) -> None:
    """Both copy a half for the leader's mbarrier; its products tell both that a stage is free."""
    turns, rows = 24, 128
    leader: list[Step] = [begin(FULL), begin(EMPTY), *WAKE]
    helper: list[Step] = [begin(EMPTY), *WAKE]
    products: list[Step] = [*WAKE, *WAKE]
    free = event(EventChange.ARRIVE, EMPTY, 1)
    (copied, *read) = load(FULL, 16, 0)[1].accesses[COPY]
    for turn in range(turns):
        leader += [wait(EMPTY, 1 - (turn & 1)), expect(FULL, 32), Step(COPY, {COPY: [copied, *read]})]
        helper += [wait(EMPTY, 1 - (turn & 1)), Step(COPY, {COPY: [other(copied), *read]})]
        products += [wait(FULL, turn & 1), *[multiply(rows, 128)] * work, Step(COMMIT, {COMMIT: [free, other(free)]})]
    sm = sm_of()
    one = sm.l2_latency + ENGINE + 64.0 * work + COMMITTED
    for first in (run_pair([leader, products], [helper, []])[0], run_pair([helper, []], [leader, products])[1]):
        assert first >= (turns - 1) * one
        assert first == pytest.approx(turns * one, rel=0.05)


@pytest.mark.parametrize(("path", "drawn"), [(math.inf, 32.0), (24.0, 24.0), (12.0, 12.0)])
def test_the_shares_of_l2_go_to_the_block_that_copies_for_all(path: float, drawn: float) -> None:
    """It draws what both SMs have of L2, unless its own path from there is narrower."""
    lines, rate = 2000, 16.0
    copying = [begin(FULL), *WAKE, *copy_for_both(FULL, lines, 0), wait(FULL, 0)]
    using = [begin(FULL), *WAKE, expect(FULL, lines), wait(FULL, 0)]
    sm = sm_of(**{**FAST, "l2_bytes_per_cycle": rate, "l2_path_bytes_per_cycle": min(path, rate)})
    traces = [trace_of([[steps]]) for steps in (copying, using)]
    done = simulate_together(PROGRAM, traces, [sm.with_share(part, path) for part in parts_of([lines, 0.0])], 1)
    assert last(of_cluster(done)) == pytest.approx(lines * LINE / drawn + sm.l2_latency + ENGINE + 80, abs=30)
    found = of_cluster(done)
    assert found.l2_read_sectors == 4 * lines / 2, "by the mean block"
    assert found.l2_requests == lines, "each SM asks one after the other"
    assert found.stalls[:, Stall.SELECTED].sum() == pytest.approx(found.issued, abs=0.5)


@pytest.mark.parametrize("others", [1, 3])
def test_a_copy_for_many_blocks_takes_the_engine_of_one(others: int) -> None:
    """Each block's shared memory takes the lines, at 128 bytes per clock, when the engine of one has read them."""
    lines = 2000
    expected, copied = load(FULL, lines, 0)
    (told, *read) = copied.accesses[COPY]
    further = [(told[0], told[1] | number << TOLD_SHIFT, told[2]) for number in range(1, others + 1)]
    copying = [begin(FULL), *WAKE, expected, Step(COPY, {COPY: [told, *further, *read]}), wait(FULL, 0)]
    using = [begin(FULL), *WAKE, expect(FULL, lines), wait(FULL, 0)]
    traces = [trace_of([[steps]]) for steps in (copying, *[using] * others)]
    done = simulate_together(PROGRAM, traces, [sm_of(**FAST)] * len(traces), 1)
    for each in done:
        assert last(each) == pytest.approx(lines + ENGINE + 80, abs=60)


def test_copies_from_shared_memory_to_two_blocks_take_turns() -> None:
    """Two lanes copy a thousand lines each, one of them to the other block, by 128 bytes per clock."""
    lines = 1000
    told = event(EventChange.COMPLETE, FULL, LINE * lines)
    copying = [begin(FULL), *WAKE, expect(FULL, lines), Step(COPY, {COPY: [told, other(told)]}), wait(FULL, 0)]
    using = [begin(FULL), *WAKE, expect(FULL, lines), wait(FULL, 0)]
    for end in run_pair([copying], [using]):
        assert end == pytest.approx(2 * lines + ENGINE + 80, abs=60)


@pytest.mark.parametrize("latency", [0.0, 180.0])
def test_an_arrival_on_another_sm_takes_the_way_there(latency: float) -> None:
    """Two blocks wait for each other in turn, so that every step is one way between their SMs."""
    turns, tell = 20, Step(ARRIVE, {ARRIVE: [other(event(EventChange.ARRIVE, FULL, 1))]})
    one, two = ([begin(FULL), *WAKE] for _ in range(2))
    for turn in range(turns):
        one += [tell, wait(FULL, turn & 1)]
        two += [wait(FULL, turn & 1), tell]
    sm = sm_of(**{**FAST, "signal_latency": latency})
    done = simulate_together(PROGRAM, [trace_of([[one]]), trace_of([[two]])], [sm, sm], 1)
    way = max(latency, sm.shared_latency)
    assert last(done[0]) >= 2 * turns * way
    assert last(done[0]) == pytest.approx(2 * turns * way, abs=90 + 2 * turns * 3)


def test_clusters_follow_one_another_on_their_sms() -> None:
    """What is told to a block that has not begun waits for it."""
    copying = [begin(FULL), *WAKE, *copy_for_both(FULL, 16, 0), wait(FULL, 0)]
    using = [begin(FULL), *[Step(WORK)] * 300, expect(FULL, 16), wait(FULL, 0)]
    one, three = (run_pair([copying], [using], blocks) for blocks in (1, 3))
    launch = sm_of().block_launch_cycles
    assert three[1] == pytest.approx(3 * one[1] + 2 * launch, abs=16)
    assert three[0] == pytest.approx(3 * one[0] + 2 * launch, abs=16)


def test_what_nobody_of_a_cluster_does_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="wait at an mbarrier for what none of its blocks does"):
        run_pair([[begin(FULL, 2), arrive(FULL), wait(FULL, 0)]], [[begin(FULL)]])


def copies_of(lines: Sequence[tuple[int, int]]) -> list[Step]:
    """Return the steps of a thread that expects so many lines, copies so many, and waits, phase by phase."""
    steps = [begin(0)]
    for turn, (expected, copied) in enumerate(lines):
        steps += [load(0, expected, 0)[0], load(0, copied, 8 * turn)[1], wait(0, turn % 2)]
    return steps


@pytest.mark.parametrize("lines", [[(4, 4)] * 4, [(4, 4), (4, 4), (2, 2)]])
def test_a_block_whose_phases_get_what_they_expect_stands_for_its_cluster(lines: list[tuple[int, int]]) -> None:
    steps = copies_of(lines)
    assert not have_roles(trace_of([[steps]]))
    assert last(run(steps)) > 0


def test_phases_that_get_the_bytes_of_others_in_sum_alone_have_roles() -> None:
    """Others' copies are taken in proportion to a block's own: where only the first are for all, phases are uneven."""
    steps = copies_of([(4, 2), (4, 2), (2, 3), (2, 5)])
    assert have_roles(trace_of([[steps]]))
    with pytest.raises(UnsupportedError, match="wait at an mbarrier"):
        run(steps)
