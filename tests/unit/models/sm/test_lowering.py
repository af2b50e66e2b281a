"""Lowering of PTX to micro-ops: known code on seven architectures, the tables' totals, and what holds for all code."""

from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.bench import KERNELS
from kerncast.compile import compile_source
from kerncast.execute import WholeGrid, execute
from kerncast.execute.setup import Program as PTXProgram
from kerncast.execute.setup import linked_program
from kerncast.gpu import load_architecture
from kerncast.launch import load_launches
from kerncast.machine.forms import forms_of
from kerncast.machine.instruction_set import ENTRY, kind_of, lowered
from kerncast.machine.mix import estimated_steps
from kerncast.models.sm.lower import lower
from kerncast.models.sm.micro_ops import FULL_WEIGHT, Memory, Pipe, Program
from kerncast.ptx import Address, Instruction
from kerncast.traces import MachineCode, MachineOperation, Trace
from tests.helpers.execute_helpers import PTX_HEAD
from tests.helpers.thorough import examples

SHARED = ".shared .align 4 .b8 held[1024];"
ARCHITECTURES = ["sm_35", "sm_52", "sm_70", "sm_75", "sm_86", "sm_90", "sm_120"]
REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %d<40>; .reg .f64 %g<9>;"
#: Nsight Compute's pipes as the simulation has them, for opcodes of the tables that the tests use.
PIPES = {
    "fma": {Pipe.FMA, Pipe.IMAD}, "alu": {Pipe.ALU}, "fp64": {Pipe.FP64}, "xu": {Pipe.XU}, "fp16": {Pipe.FP16},
    "uniform": {Pipe.UNIFORM},
}  # fmt: skip


@cache
def linked(body: str) -> PTXProgram:
    return linked_program(f"{PTX_HEAD}.visible .entry k(.param .u64 p) {{ {REGISTERS} {body} ret; }}", "k")


def lowered_ptx(body: str, architecture: str) -> Program:
    found = linked(body)
    return lower(found.function, found.cfg, load_architecture(architecture))


def rows_of(program: Program, instruction: int) -> list[int]:
    return [int(n) for n in np.flatnonzero(program.instruction == instruction)]


def registers(row: np.ndarray) -> set[int]:
    return {int(r) for r in row if r >= 0}


def table_of(body: str, architecture: str) -> dict[str, float]:
    """Return the opcodes that the table gives for a body, its kernel's entry included."""
    found = linked(body)
    number = load_architecture(architecture).number
    total: dict[str, float] = defaultdict(float)
    for form in [ENTRY, *forms_of(found.function, found.cfg)]:
        for opcode, times in lowered(form, number):
            total[opcode] += times
    return total


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [("sm_35", 1), ("sm_52", 3), ("sm_70", 1), ("sm_75", 1), ("sm_86", 1), ("sm_90", 1), ("sm_120", 1)],
)
def test_maxwell_multiplies_integers_in_three_steps(architecture: str, expected: int) -> None:
    program = lowered_ptx("mad.lo.s32 %r1, %r2, %r3, %r4; st.global.u32 [%d1], %r1;", architecture)
    whole = [n for n in rows_of(program, 0) if program.pipe[n] == Pipe.IMAD and program.weight[n] == FULL_WEIGHT]
    assert len(whole) == expected
    for before, after in pairwise(whole):
        assert registers(program.destinations[before]) <= registers(program.sources[after])
    store = rows_of(program, 1)[-1]
    assert registers(program.destinations[whole[-1]]) <= registers(program.sources[store])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_fused_multiply_add_is_one_micro_op(architecture: str) -> None:
    program = lowered_ptx(
        "ld.global.f32 %f1, [%d1]; fma.rn.f32 %f2, %f1, %f1, %f1; st.global.f32 [%d1], %f2;", architecture
    )
    (load,) = (n for n in rows_of(program, 0) if program.memory[n] == Memory.LOAD)
    (fma,) = (n for n in rows_of(program, 1) if program.weight[n] == FULL_WEIGHT)
    (store,) = (n for n in rows_of(program, 2) if program.memory[n] == Memory.STORE)
    assert program.pipe[[load, fma, store]].tolist() == [Pipe.LSU, Pipe.FMA, Pipe.LSU]
    assert registers(program.sources[fma]) == registers(program.destinations[load])
    assert registers(program.sources[store]) == registers(program.destinations[fma])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_becomes_nothing_hands_on_what_it_reads(architecture: str) -> None:
    body = """ld.global.u64 %d1, [%d9]; cvta.to.global.u64 %d2, %d1; mov.u64 %d3, %d2; ld.param.u64 %d4, [p];
        ld.global.f32 %f1, [%d2]; ld.global.f32 %f2, [%d4];"""
    program = lowered_ptx(body, architecture)
    pointer, value, other = (
        next(n for n in rows_of(program, number) if program.memory[n] == Memory.LOAD) for number in (0, 4, 5)
    )
    assert registers(program.sources[value]) == registers(program.destinations[pointer])
    assert registers(program.sources[other]) == set()


def test_a_vector_load_is_one_access_with_four_results() -> None:
    program = lowered_ptx("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d1]; add.f32 %f5, %f3, %f4;", "sm_80")
    (load,) = (n for n in range(len(program.pipe)) if program.memory[n] == Memory.LOAD)
    assert len(registers(program.destinations[load])) == 4
    assert registers(program.accesses[load]) == {0}
    assert registers(program.sources[rows_of(program, 1)[0]]) < registers(program.destinations[load])


def test_loads_that_the_compiler_joins_are_one_micro_op() -> None:
    loads = " ".join(f"ld.shared.f32 %f{n}, [%r4+{4 * n}];" for n in range(4))
    body = f""".shared .align 4 .b8 held[1024]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; mov.u32 %r3, held;
        add.s32 %r4, %r3, %r2; {loads} ld.shared.f32 %f5, [%r1]; ld.shared.f32 %f6, [%r1+4];"""
    program = lowered_ptx(body, "sm_75")
    joined = [registers(row) for row, memory in zip(program.accesses, program.memory, strict=True) if memory]
    assert joined.count({4, 5, 6, 7}) == 1
    assert {8} in joined
    assert {9} in joined


@pytest.mark.parametrize(
    ("text", "pipe", "latency"),
    [
        ("mov.u32 %r1, %tid.x;", Pipe.LSU, 20), ("shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;", Pipe.LSU, 24),
        ("cvt.f64.f32 %g1, %f1;", Pipe.FP64, 0), ("max.f32 %f1, %f2, %f3;", Pipe.ALU, 0),
        ("ex2.approx.ftz.f32 %f1, %f2;", Pipe.XU, 0), ("fma.rn.f64 %g1, %g2, %g2, %g2;", Pipe.FP64, 0),
        ("unheard.f64 %g1, %g2;", Pipe.FP64, 0),
    ],
)  # fmt: skip
def test_pipes_and_latencies_on_turing(text: str, pipe: Pipe, latency: float) -> None:
    program = lowered_ptx(text, "sm_75")
    own = [n for n in rows_of(program, 0) if registers(program.destinations[n])]
    assert program.pipe[own[0]] == pipe
    assert program.latency[own[0]] == latency


@pytest.mark.parametrize(("architecture", "pipe"), [("sm_52", Pipe.FP64), ("sm_60", Pipe.XU), ("sm_90", Pipe.XU)])
def test_conversions_of_64_bits_run_where_the_guide_rates_them(architecture: str, pipe: Pipe) -> None:
    program = lowered_ptx("cvt.f64.f32 %g1, %f1; st.global.f64 [%d1], %g1;", architecture)
    assert pipe in {Pipe(program.pipe[n]) for n in rows_of(program, 0)}


@pytest.mark.parametrize(("architecture", "guard", "data"), [("sm_52", 13, 13), ("sm_75", 12, 0), ("sm_86", 13, 0)])
def test_a_comparison_that_decides_what_runs_takes_longer(architecture: str, guard: float, data: float) -> None:
    body = "setp.lt.s32 %p1, %r1, %r2; setp.lt.s32 %p2, %r1, %r3; selp.b32 %r4, %r1, %r2, %p2; @%p1 bra $end; $end:"
    program = lowered_ptx(body, architecture)
    first, second = (max(rows_of(program, i), key=lambda n: float(program.latency[n])) for i in (0, 1))
    assert (program.latency[first], program.latency[second]) == (guard, data)
    assert program.cycles[first] == (2 if architecture == "sm_52" else 0)


def test_a_barrier_is_the_last_micro_op_and_waits_for_nobodys_registers() -> None:
    program = lowered_ptx("st.shared.f32 [%r1], %f1; bar.sync 0; ld.shared.f32 %f2, [%r2];", "sm_75")
    assert program.memory[program.starts[1] - 1] == Memory.BARRIER
    assert (program.memory == Memory.BARRIER).sum() == 1
    assert not registers(program.sources[program.starts[1] - 1])
    assert Memory.BARRIER not in lowered_ptx("bar.warp.sync -1;", "sm_75").memory


@pytest.mark.parametrize("architecture", ["sm_35", "sm_52", "sm_70"])
def test_no_uniform_datapath_before_turing(architecture: str) -> None:
    program = lowered_ptx("add.s32 %r1, %r1, 4; add.s32 %r2, %r1, 7; st.global.u32 [%d1], %r2;", architecture)
    assert Pipe.UNIFORM not in program.pipe


def test_voltas_nops_are_none() -> None:
    program = lowered_ptx("rcp.rn.f32 %f1, %f2; st.global.f32 [%d1], %f1;", "sm_70")
    assert dict(lowered("rcp.rn.f32", 70))["SHFL"] > 0
    assert Pipe.LSU not in program.pipe[program.instruction == 0]


def test_atomics_say_whether_their_result_is_read() -> None:
    body = """mov.u32 %r9, %tid.x; atom.global.exch.b32 %r1, [%d1], 1; atom.global.exch.b32 %r2, [%d1], 1;
        atom.shared.add.u32 %r3, [%r9], 1; red.global.inc.u32 [%d1], 1; st.global.u32 [%d2], %r1;"""
    program = lowered_ptx(body, "sm_75")
    of = {int(row[0]): Memory(m) for row, m in zip(program.accesses, program.memory, strict=True) if m}
    assert of == {
        1: Memory.ATOMIC, 2: Memory.REDUCTION, 3: Memory.SHARED_ATOMIC, 4: Memory.REDUCTION, 5: Memory.STORE,
    }  # fmt: skip


def test_local_arrays_in_registers_are_no_accesses() -> None:
    found = linked(".local .align 4 .b8 own[16]; ld.local.u32 %r1, [own+4]; st.global.u32 [%d1], %r1;")
    architecture = load_architecture("sm_75")
    assert Memory.LOAD in lower(found.function, found.cfg, architecture).memory
    held = lower(found.function, found.cfg, architecture, keeps_local=False)
    assert Memory.LOAD not in held.memory
    assert held.weight[held.pipe == Pipe.ALU].sum() / FULL_WEIGHT > dict(lowered("ld.local.32", 75))["ISETP"] - 1


# --- What the tables say, on average.

ARITHMETIC = [
    "add.s32 %r{a}, %r{b}, %r{c};", "mad.lo.s32 %r{a}, %r{b}, %r{c}, %r{a};", "add.f32 %f{a}, %f{b}, %f{c};",
    "fma.rn.f32 %f{a}, %f{b}, %f{c}, %f{a};", "add.s64 %d{a}, %d{b}, 8;", "mul.wide.s32 %d{a}, %r{b}, 4;",
    "mov.u32 %r{a}, %r{b};", "shl.b32 %r{a}, %r{b}, 2;", "min.s32 %r{a}, %r{b}, %r{c};", "sqrt.rn.f32 %f{a}, %f{b};",
    "cvt.rn.f32.s32 %f{a}, %r{b};", "div.rn.f32 %f{a}, %f{b}, %f{c};", "setp.lt.s32 %p1, %r{a}, %r{b};",
    "selp.b32 %r{a}, %r{b}, %r{c}, %p1;", "@%p1 mov.b32 %r{a}, %r{b};",
]  # fmt: skip
ACCESSES = [
    "ld.global.f32 %f{a}, [%d{b}+{o}];", "st.global.f32 [%d{b}+{o}], %f{a};", "ld.shared.f32 %f{a}, [held+{o}];",
    "ld.global.nc.f32 %f{a}, [%d{b}+{o}];", "ld.shared.f32 %f{a}, [%r{b}+{o}];", "st.shared.f32 [%r{b}+{o}], %f{a};",
    "atom.global.add.u32 %r{a}, [%d{b}], %r{c};", "membar.gl;",
]  # fmt: skip


def texts(lines: list[str]) -> st.SearchStrategy[str]:
    """Return straight runs of lines, with registers and offsets from a few."""
    few = st.integers(0, 4)
    filled = st.builds(
        lambda t, a, b, c, o: t.format(a=a, b=b, c=c, o=4 * o), st.sampled_from(lines), few, few, few, few
    )
    return st.lists(filled, min_size=1, max_size=24).map(lambda each: " ".join([SHARED, *each]))


@settings(max_examples=examples(40), deadline=None)
@given(texts(ARITHMETIC), st.sampled_from(ARCHITECTURES))
def test_expected_counts_are_those_of_the_table(body: str, architecture: str) -> None:
    program = lowered_ptx(body, architecture)
    number = load_architecture(architecture).number
    table: dict[str, float] = defaultdict(float)
    for opcode, times in table_of(body, architecture).items():
        table[kind_of(opcode, (), number).pipe] += times
    tolerance = len(linked(body).function.instructions) / FULL_WEIGHT
    for name, pipes in PIPES.items():
        expected = program.weight[np.isin(program.pipe, list(pipes))].sum() / FULL_WEIGHT
        assert expected == pytest.approx(table[name], abs=tolerance)


@settings(max_examples=examples(60), deadline=None)
@given(texts(ARITHMETIC + ACCESSES), st.sampled_from(ARCHITECTURES))
def test_the_order_of_issue_keeps_every_dependence(body: str, architecture: str) -> None:
    program = lowered_ptx(body, architecture)
    count = len(program.pipe)
    in_text = sorted(range(count), key=lambda n: int(program.instruction[n]))
    assert values_read(program, range(count)) == values_read(program, in_text)
    code = linked(body).function.instructions
    accesses = [n for n in range(count) if program.memory[n] and program.memory[n] != Memory.BARRIER]
    for place, first in enumerate(accesses):
        for second in accesses[place + 1 :]:
            earlier, later = int(program.instruction[first]), int(program.instruction[second])
            if earlier > later:
                assert may_swap(code[later], code[earlier])


def values_read(program: Program, order: list[int] | range) -> dict[int, list[int]]:
    """Return by micro-op which micro-ops made what it reads, if they run in some order."""
    maker: dict[int, int] = {}
    found = {}
    for n in order:
        found[n] = sorted({maker.get(r, -1) for r in registers(program.sources[n])})
        maker |= dict.fromkeys(registers(program.destinations[n]), n)
    return found


def may_swap(one: Instruction, other: Instruction) -> bool:
    """Return whether two accesses can change places: neither writes, or they cannot touch the same bytes."""
    names = [one.name, other.name]
    if all(name.startswith("ld") for name in names):
        return True
    if any(name.startswith("atom") for name in names):
        return False
    if any(".nc" in name for name in names) or len({".shared" in name for name in names}) == 2:
        return True
    # One base with different offsets: registers may have changed between, which only the lowering itself sees.
    places = [o for ins in (one, other) for o in ins.operands if isinstance(o, Address)]
    return places[0].base == places[1].base and places[0].offset != places[1].offset


@settings(max_examples=examples(40), deadline=None)
@given(texts(ARITHMETIC + ACCESSES), st.sampled_from(ARCHITECTURES))
def test_every_access_appears_once(body: str, architecture: str) -> None:
    program = lowered_ptx(body, architecture)
    code = linked(body).function.instructions
    expected = {n for n, ins in enumerate(code) if ins.root in {"ld", "st", "atom"}}
    found = Counter(int(number) for number in program.accesses.flat if number >= 0)
    assert found == dict.fromkeys(expected, 1)
    has_access = (program.accesses >= 0).any(axis=1)
    assert (program.weight[has_access] == FULL_WEIGHT).all()
    assert (has_access == (program.memory != Memory.NONE)).all()
    again = lowered_ptx(body, architecture)
    assert all(np.array_equal(getattr(program, name), getattr(again, name)) for name in ("pipe", "sources", "phase"))


# --- Programs of the suite.


@cache
def suite(name: str) -> tuple[PTXProgram, Trace]:
    where = load_launches(KERNELS / "suite" / f"{name}.toml")[0]
    compiled = compile_source(
        Path(where.source), architectures=["sm_75"], kernel=where.kernel, defines=where.defines
    ).kernels[0]
    small = replace(where, grid=(min(where.grid[0], 2), min(where.grid[1], 2), 1))
    return linked_program(compiled.ptx, compiled.mangled), execute(compiled, small, WholeGrid())[0]


#: The last three have predicated blocks, whose accesses the table of averages has fewer of: some become branches.
MIXED = dict.fromkeys(["saxpy", "matmul_naive", "conv2d_3x3", "polybench_gemm"], PIPES | {"lsu": {Pipe.LSU}})
MIXED |= dict.fromkeys(["backprop", "pathfinder", "shared_transpose"], PIPES)


@pytest.mark.parametrize(("name", "known"), MIXED.items())
def test_a_kernel_of_the_suite_has_the_estimated_mix(name: str, known: dict[str, set[Pipe]]) -> None:
    program, trace = suite(name)
    found = lower(program.function, program.cfg, load_architecture("sm_75"))
    warps = trace.counts.block_warps.sum(axis=0)
    expected: dict[str, float] = defaultdict(float)
    for step in estimated_steps(trace, 75):
        expected[step.pipe] += step.times * warps[step.block]
    blocks = np.repeat(np.arange(len(found.starts) - 1), np.diff(found.starts))
    executed = found.weight / FULL_WEIGHT * warps[blocks]
    for pipe, pipes in known.items():
        assert executed[np.isin(found.pipe, list(pipes))].sum() == pytest.approx(expected[pipe], rel=0.01, abs=0.01)


@pytest.mark.parametrize(("name", "wide", "single"), [("matmul_tiled", 8, 32), ("lud", 0, 49)])
def test_shared_loads_are_joined_as_in_recorded_machine_code(name: str, wide: int, single: int) -> None:
    # LDS.128 and LDS in ptxas 12.9's code for sm_75 of the first launch, before it unrolls the loop further.
    program, _ = suite(name)
    found = lower(program.function, program.cfg, load_architecture("sm_75"))
    joined = (found.accesses[found.memory == Memory.SHARED_LOAD] >= 0).sum(axis=1)
    assert Counter(joined.tolist()) == +Counter({4: wide, 1: single})


LOADS_AND_MULTIPLIES = """
    ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%r1, %r2, %r3, %r4}, [held];
    ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%r5, %r6}, [held + 512];
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
      {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f5, %f6, %f7, %f8};
"""


def test_a_product_waits_for_both_of_its_factors() -> None:
    body = SHARED + "".join(f"mov.f32 %f{n}, 0f00000000;" for n in range(5, 9)) + LOADS_AND_MULTIPLIES
    program = lowered_ptx(body, "sm_86")
    code = linked(body).function.instructions
    first, second, product = (n for n, ins in enumerate(code) if ins.root in {"ldmatrix", "mma"})
    (row,) = rows_of(program, product)
    made = [registers(program.destinations[rows_of(program, each)].ravel()) for each in (first, second)]
    assert all(registers(program.sources[row]) & each for each in made)


def test_a_load_of_matrices_is_one_micro_op() -> None:
    body = SHARED + LOADS_AND_MULTIPLIES
    found = linked(body)
    number = next(n for n, ins in enumerate(found.function.instructions) if ins.root == "ldmatrix")
    machine = MachineCode((MachineOperation("LDSM", ("16", "M88", "4"), 0, number, 32.0),), (32.0,))
    program = lower(found.function, found.cfg, load_architecture("sm_86"), machine)
    assert [Memory(m) for m in program.memory[rows_of(program, number)]] == [Memory.SHARED_LOAD]


def test_a_load_that_the_table_lacks_is_one_micro_op() -> None:
    program = lowered_ptx(SHARED + LOADS_AND_MULTIPLIES, "sm_86")
    assert len(rows_of(program, 1)) == 1  # instruction 0 has what the kernel begins with, too


def test_copies_and_their_groups_keep_their_order() -> None:
    body = """.reg .b32 %s<3>; ld.param.u64 %d0, [p]; mov.u32 %s0, held;
cp.async.cg.shared.global [%s0], [%d0], 16; cp.async.ca.shared.global [%s0+16], [%d0+64], 4; cp.async.commit_group;
cp.async.cg.shared.global [%s0+32], [%d0+32], 16; cp.async.commit_group; cp.async.wait_group 1;
ld.shared.f32 %f1, [%s0]; st.global.f32 [%d0+512], %f1; cp.async.wait_all; ld.shared.f32 %f2, [%s0+32];
st.global.f32 [%d0+516], %f2;"""
    program = lowered_ptx(SHARED + body, "sm_86")
    grouped = [
        (Memory(memory), int(left))
        for memory, left in zip(program.memory, program.left, strict=True)
        if memory not in {Memory.NONE, Memory.STORE}
    ]
    copy, commit, load = (Memory.COPY, 0), (Memory.COMMIT, 0), (Memory.SHARED_LOAD, 0)
    assert grouped == [copy, copy, commit, copy, commit, (Memory.AWAIT, 1), load, commit, (Memory.AWAIT, 0), load]
    (first, *_) = np.flatnonzero(program.memory == Memory.COPY)
    assert not registers(program.destinations[first])
    assert set(program.accesses[first]) == {program.instruction[first], -1}


def test_a_wait_for_products_stays_in_a_straight_line() -> None:
    """It ends its basic block, as a branch does, and took a branch's pipe: lines of several blocks lost it."""
    body = """ld.param.u64 %d0, [p]; wgmma.fence.sync.aligned;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1; add.s32 %r1, %r1, 1;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; st.global.b32 [%d0], %r1;"""
    program = lowered_ptx(body, "sm_90")
    waits = program.memory == Memory.AWAIT
    assert program.left[waits].tolist() == [1, 0]
    assert len({*program.leader.tolist()}) < len(program.leader)  # it is one line


def test_the_signal_of_a_cluster_holds_a_warp_before_its_barrier() -> None:
    program = lowered_ptx("barrier.cluster.arrive; barrier.cluster.wait; add.s32 %r1, %r1, 1;", "sm_90")
    (barrier,) = np.flatnonzero(program.memory == Memory.BARRIER)
    assert program.instruction[barrier - 1] == program.instruction[barrier]
    assert program.latency[barrier - 1] > 1


ASKED = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [held], %r1; "
WORK = "ld.shared.u32 %r2, [held]; add.s32 %r3, %r2, 1; st.shared.u32 [held], %r3; "
KEPT = f"selp.b32 %r4, 1, 0, %p1; {WORK}"


@pytest.mark.parametrize(
    ("then", "waits"),
    [
        # As a pipeline of CUTLASS asks for its next stage: another block reads the answer.
        (
            f"selp.b32 %r4, 1, 0, %p1; {WORK} setp.ne.s32 %p3, %r3, 0; @%p3 bra on; on: st.shared.u32 [held], %r4;",
            False,
        ),
        (f"{WORK} selp.b32 %r4, 1, 0, %p1; mov.u32 %r2, %r4; on: st.shared.u32 [held], %r2; @%p2 bra on;", False),
        (f"{KEPT} setp.ne.s32 %p3, %r4, 0; @%p3 bra on; on: st.shared.u32 [held], %r3;", True),
        (f"{WORK} @%p1 bra on; st.shared.u32 [held], %r1; on:", True),
        # What is stored needs it.
        (f"{KEPT} st.shared.u32 [held], %r4;", True),
    ],
)
def test_a_warp_waits_where_its_answer_is_needed(then: str, waits: bool) -> None:
    text = f"{PTX_HEAD}.visible .entry k(.param .u64 p) {{ {REGISTERS} {SHARED} mov.u32 %r1, 0; {ASKED}{then} ret; }}"
    text = text.replace(".target sm_70", ".target sm_90").replace(".align 4", ".align 8")
    program = linked_program(text, "k")
    found = lower(program.function, program.cfg, load_architecture("sm_90"))
    memory = found.memory[: found.starts[1]].tolist()
    assert (Memory.WAIT if waits else Memory.ASK) in memory
    assert (Memory.ASK if waits else Memory.WAIT) not in memory
    assert not waits or memory.index(Memory.WAIT) < memory.index(Memory.SHARED_LOAD)
