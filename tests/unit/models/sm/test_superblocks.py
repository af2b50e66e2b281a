"""Blocks that the compiler predicates and issues with others: which they are, what stays as it was, what they take."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.bench import KERNELS
from kerncast.compile import compile_source
from kerncast.execute.setup import linked_program
from kerncast.gpu import load_architecture
from kerncast.models.sm.lower import lower, lowering
from kerncast.models.sm.lower.lowering import Member, superblocks
from kerncast.models.sm.micro_ops import FULL_WEIGHT, Memory, Pipe, Program
from kerncast.models.sm.simulate import simulate
from kerncast.traces import Operation
from tests.helpers.sm_cases import random_access, random_op
from tests.helpers.sm_programs import WHOLE_LINE, Op, Step, program_of, sm_of, trace_of
from tests.helpers.thorough import examples
from tests.unit.models.sm.test_lowering import linked, lowered_ptx, registers, values_read

HEAD = """.shared .align 4 .b8 held[4096]; mov.u32 %r9, %tid.x; mov.u32 %r8, held; shl.b32 %r7, %r9, 2;
    add.s32 %r6, %r8, %r7; """
GUARDED_COPIES = """
extern "C" __global__ void copies(float* out, const float* in, int n) {
    __shared__ float held[512];
    const int first = blockIdx.x * 512 + threadIdx.x;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (first + 128 * i < n) held[threadIdx.x + 128 * i] = in[first + 128 * i];
    __syncthreads();
    out[first] = held[threadIdx.x * 4 % 512];
}
"""


def guarded(number: int, body: str) -> str:
    """Return a body that a branch skips, with a predicate of its own."""
    p = number % 8 + 1
    return f"setp.ge.s32 %p{p}, %r9, {number}; @%p{p} bra $after{number}; {body} $after{number}:"


def copy(number: int) -> str:
    """Return a guarded copy from global to shared memory."""
    return guarded(
        number,
        f"ld.global.f32 %f{number + 1}, [%d1+{512 * number}]; st.shared.f32 [%r6+{512 * number}], %f{number + 1};",
    )


def copies(count: int) -> str:
    return HEAD + " ".join(copy(number) for number in range(count))


def lines_of(body: str) -> list[list[int]]:
    found = linked(body)
    return [[member.block for member in line] for line in superblocks(found.function, found.cfg)]


def alone(program: Program) -> bool:
    return bool((program.leader == np.arange(len(program.leader))).all())


# --- Which blocks.


def test_guarded_copies_are_one_line_with_their_guards() -> None:
    found = linked(copies(3) + " st.global.f32 [%d2], %f1;")
    assert superblocks(found.function, found.cfg) == [
        (Member(0), Member(1, "%p1"), Member(2), Member(3, "%p2"), Member(4), Member(5, "%p3"), Member(6))
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (copy(0) + " bar.sync 0; " + copy(1) + " bar.sync 0;", [[0, 1, 2], [3, 4, 5], [6]]),
        (copy(0) + " $top: add.s32 %r1, %r1, 1; setp.lt.s32 %p8, %r1, 9; @%p8 bra $top;", [[0, 1], [2], [3]]),
        ("$top: " + copy(0) + " setp.lt.s32 %p8, %r9, 9; @%p8 bra $top;", [[0, 1, 2], [3]]),
        (guarded(0, "add.s32 %r1, %r1, 1; " * 12) + " add.s32 %r2, %r1, 1;", [[0], [1], [2]]),
        ("bra.uni $on; $on: add.s32 %r2, %r1, 1;", [[0, 1]]),
        ("$top: setp.lt.s32 %p1, %r1, 9; @%p1 bra $top; add.s32 %r1, %r1, 1; bra.uni $top;", [[0], [1], [2]]),
        ("setp.lt.s32 %p1, %r1, 9; @%p1 bra $b; bra.uni $c; $b: " + "add.s32 %r1, %r1, 1; " * 12
         + "bra.uni $d; $c: membar.gl; $d: membar.gl;", [[0], [1], [2], [3], [4]]),
        ("setp.lt.s32 %p1, %r1, 9; @%p1 exit; add.s32 %r2, %r1, 1;", [[0], [1]]),
        ("setp.lt.s32 %p1, %r1, 9; @%p1 bra $on; bra.uni $out; $on: " + copy(0) + " $out: membar.gl;",
         [[0], [1], [2, 3], [4]]),
    ],
    ids=[
        "barriers", "before a loop", "in a loop", "long", "straight", "continuing", "around others", "leaving",
        "two ways in",
    ],
)  # fmt: skip
def test_a_line_ends_at_barriers_loops_and_branches(body: str, expected: list[list[int]]) -> None:
    assert lines_of(body) == expected


PIECES = [
    "add.s32 %r1, %r2, %r3;", "fma.rn.f32 %f20, %f21, %f20, %f20;", "mov.f32 %f21, %f20;", "ld.global.f32 %f20, [%d1];",
    "st.shared.f32 [%r6], %f20;", "ld.shared.f32 %f22, [%r6];", "st.global.f32 [%d2], %f22;",
    "mov.f32 %f20, 0f00000000;", "bar.sync 0;", "membar.gl;", "div.rn.f32 %f20, %f21, %f22;",
]  # fmt: skip


@st.composite
def guarded_code(draw: st.DrawFn) -> str:
    """Return pieces of code, guarded or not."""
    found = [HEAD]
    for number in range(draw(st.integers(1, 7))):
        body = " ".join(draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5)))
        found.append(guarded(number, body) if draw(st.booleans()) else body)
    return " ".join(found)


@settings(max_examples=examples(60), deadline=None)
@given(guarded_code())
def test_every_block_once_and_nobody_enters_in_the_middle(body: str) -> None:
    found = linked(body)
    lines = lines_of(body)
    assert sorted(block for line in lines for block in line) == list(range(len(found.cfg.blocks)))
    for line in lines:
        assert line == sorted(line)
        places = [found.cfg.order.place_of[block] for block in line]
        assert places == list(range(places[0], places[0] + len(line)))
        for block, following in enumerate(found.cfg.successors):
            assert not set(following) & set(line[1:]) or block in line


# --- What the lowering makes of them.


def unmerged(body: str, architecture: str, monkeypatch: pytest.MonkeyPatch) -> Program:
    with monkeypatch.context() as patch:
        patch.setattr(lowering, "superblocks", lambda _, cfg: [(Member(block),) for block in range(len(cfg.blocks))])
        return lowered_ptx(body, architecture)


@settings(max_examples=examples(40), deadline=None)
@given(guarded_code(), st.sampled_from(["sm_52", "sm_75", "sm_86"]))
def test_only_branches_disappear(body: str, architecture: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        single = unmerged(body, architecture, monkeypatch)
    merged = lowered_ptx(body, architecture)
    assert alone(single)

    def expected(program: Program) -> np.ndarray:
        weights = np.bincount(program.pipe, program.weight, len(Pipe))
        weights[Pipe.BRANCH] = 0
        return weights

    assert expected(merged).tolist() == expected(single).tolist()
    accesses = sorted(int(a) for a in merged.accesses.flat if a >= 0)
    assert accesses == sorted({int(a) for a in single.accesses.flat if a >= 0})
    sizes = np.diff(merged.starts)
    assert not sizes[merged.leader != np.arange(len(merged.leader))].any()


@settings(max_examples=examples(60), deadline=None)
@given(guarded_code(), st.sampled_from(["sm_52", "sm_75", "sm_86"]))
def test_the_order_keeps_values_guards_and_memory(body: str, architecture: str) -> None:
    program = lowered_ptx(body, architecture)
    count = len(program.pipe)
    in_text = sorted(range(count), key=lambda n: int(program.instruction[n]))
    assert values_read(program, range(count)) == values_read(program, in_text)
    code = linked(body).function.instructions
    accesses = [int(n) for n in program.instruction[program.memory != Memory.NONE]]
    for place, first in enumerate(accesses):
        for second in accesses[place + 1 :]:
            if first > second:  # it changed places: not with a fence, nor a write to the same space
                names = {code[first].root, code[second].root}
                assert not names & {"bar", "membar"}
                assert names == {"ld"} or code[first].space != code[second].space


@pytest.mark.parametrize("architecture", ["sm_52", "sm_75", "sm_86"])
def test_what_is_predicated_waits_for_its_guard(architecture: str) -> None:
    body = copies(2) + " st.global.f32 [%d2], %f1;"
    program = lowered_ptx(body, architecture)
    code = linked(body).function.instructions
    for number, ins in enumerate(code):
        if ins.root == "setp":
            own = program.instruction == number
            (made,) = {r for row in program.destinations[own] for r in registers(row)}
            for row in program.sources[np.isin(program.instruction, [number + 2, number + 3])]:
                assert made in registers(row)


def test_a_reader_waits_for_both_values_that_a_predicate_chooses_from() -> None:
    body = "ld.global.f32 %f1, [%d1]; mul.f32 %f2, %f1, %f1; " + guarded(0, "ld.global.f32 %f2, [%d2];")
    program = lowered_ptx(f"{body} st.global.f32 [%d3], %f2;", "sm_86")
    order = program.instruction.tolist()
    load = max(n for n in range(len(order)) if order[n] == 4)
    assert order.index(1) < load
    assert program.memory[load] == Memory.LOAD


def test_a_guarded_store_waits_for_what_was_loaded_however_its_guard_was_made() -> None:
    # A guard of two comparisons is one of many registers. The loaded value once fell out of those that a micro-op
    # names, and transposes were forecast as if no store waited for its load.
    source = KERNELS / "suite" / "shared_transpose.cu"
    compiled = compile_source(source, architectures=["sm_75"], kernel="shared_transpose<32>").kernels[0]
    found = linked_program(compiled.ptx, compiled.mangled)
    program = lower(found.function, found.cfg, load_architecture("sm_75"))
    (load,) = np.flatnonzero(program.memory == Memory.LOAD)
    store = int(np.flatnonzero(program.memory == Memory.SHARED_STORE)[0])
    assert registers(program.destinations[load]) <= registers(program.sources[store])


def test_a_copy_made_before_is_not_one_of_what_comes_later() -> None:
    body = HEAD + " mov.f32 %f2, 0f00000000; mov.f32 %f1, %f2; "
    for number in (1, 2):
        body += guarded(number, f"ld.global.f32 %f{number}, [%d1+{4 * number}];")
        body += f" st.shared.f32 [%r6+{512 * number}], %f{number};"
    program = lowered_ptx(body, "sm_86")
    kinds = [int(m) for m in program.memory if m]
    assert kinds == [Memory.LOAD, Memory.LOAD, Memory.SHARED_STORE, Memory.SHARED_STORE]


def test_guarded_copies_are_ordered_as_by_the_compiler(tmp_path: Path) -> None:
    # ptxas 12.9 for sm_86: four @!P LDG.E, then four @!P STS, then BAR.SYNC, without a branch.
    (tmp_path / "copies.cu").write_text(GUARDED_COPIES, encoding="utf-8")
    compiled = compile_source(tmp_path / "copies.cu", architectures=["sm_86"], kernel="copies").kernels[0]
    found = linked_program(compiled.ptx, compiled.mangled)
    program = lower(found.function, found.cfg, load_architecture("sm_86"))
    first = slice(int(program.starts[0]), int(program.starts[1]))
    kinds = [int(m) for m in program.memory[first] if m]
    assert kinds == [Memory.LOAD] * 4 + [Memory.SHARED_STORE] * 4 + [Memory.BARRIER]
    branches = (program.pipe[first] == Pipe.BRANCH) & (program.weight[first] == FULL_WEIGHT)
    assert branches.sum() == 1  # the barrier


# --- What the simulation makes of them.


@pytest.mark.parametrize("count", [1, 4, 16])
def test_guarded_loads_take_one_latency(count: int) -> None:
    loads = [Op(Pipe.LSU, Memory.LOAD, (), (n,), (n,)) for n in range(count)]
    uses = [Op(Pipe.ALU, sources=(n,), destinations=(n,)) for n in range(count)]
    latency = 200.0
    sm = sm_of(l1_latency=latency, l1_operations=0, l2_latency=latency, dram_read_share=0.0, l2_bytes_per_cycle=1e6,
               l2_path_bytes_per_cycle=1e6)  # fmt: skip
    members = [[*loads, *uses], *([] for _ in range(count - 1))]
    steps = [Step(n, {n: [(Operation.LOAD, n, WHOLE_LINE)]}) for n in range(count)]
    together = simulate(program_of(*members, leader=[0] * count), trace_of([[steps]]), sm, 1)
    apart = simulate(program_of(*zip(loads, uses, strict=True)), trace_of([[steps]]), sm, 1)
    turn = sm.pipe_cycles[Pipe.LSU]
    alu = sm.pipe_latency[Pipe.ALU]
    assert together.finish_cycles[0] == pytest.approx((count - 1) * turn + latency + alu, abs=2)
    assert apart.finish_cycles[0] == pytest.approx(count * latency + alu, abs=2 * count)


def lower_copies(count: int, *, is_merged: bool) -> float:
    """Return the cycles of one warp that copies so many lines."""
    body = copies(count) + " bar.sync 0;"
    with pytest.MonkeyPatch.context() as monkeypatch:
        program = lowered_ptx(body, "sm_86") if is_merged else unmerged(body, "sm_86", monkeypatch)
    code = linked(body).function.instructions
    steps = [Step(0)]
    for number, ins in enumerate(code):
        if ins.name == "ld.global.f32":
            place = len(steps)
            accesses = {number: [(Operation.LOAD, place, WHOLE_LINE)], number + 1: [(Operation.SHARED_STORE, 1, 0)]}
            steps += [Step(place, accesses), Step(place + 1)]
    return float(simulate(program, trace_of([[steps]]), sm_of(), 1).finish_cycles[0])


def test_guarded_copies_take_one_latency_not_several() -> None:
    latency = sm_of().dram_latency
    assert lower_copies(8, is_merged=True) - lower_copies(1, is_merged=True) < 0.5 * latency
    assert lower_copies(8, is_merged=False) - lower_copies(1, is_merged=False) > 7 * latency


def random_blocks(random: Random) -> list[list[Op]]:
    return [[random_op(random, 100 * b + 4 * i) for i in range(random.randint(1, 4))] for b in range(3)]


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32))
def test_blocks_in_a_line_are_one_block_of_which_some_accesses_are_off(seed: int) -> None:
    random = Random(seed)  # noqa: S311  reproducible
    blocks = random_blocks(random)
    events = [
        {a: random_access(random, op.memory) for op in block for a in op.accesses if random.random() < 0.8}
        for block in blocks
    ]
    ran = [n for n in range(len(blocks)) if n == 0 or random.random() < 0.7]
    accesses = {a: found for n in ran for a, found in events[n].items()}
    one = program_of([op for block in blocks for op in block])
    several = program_of(*blocks, leader=[0] * len(blocks))
    expected = simulate(one, trace_of([[[Step(0, accesses)] * 3]]), sm_of(), 1)
    found = simulate(several, trace_of([[[Step(n, events[n]) for n in ran] * 3]]), sm_of(), 1)
    assert found.finish_cycles.tolist() == expected.finish_cycles.tolist()
    assert found.stalls.tolist() == expected.stalls.tolist()
