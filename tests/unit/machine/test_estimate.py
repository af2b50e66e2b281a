"""Machine instructions estimated from PTX: closed forms, the recorded machine code, and the tables behind it."""

import csv
from pathlib import Path

import pytest

import kerncast
from kerncast.caveats import Caveat, CaveatKind
from kerncast.execute import WholeGrid, execute
from kerncast.execute.setup import linked_program
from kerncast.launch import Launch
from kerncast.machine.forms import forms_of, predicated_blocks
from kerncast.machine.instruction_set import UNKNOWN, kind_of, lowered
from kerncast.machine.joined_loads import JoinedLoad, joined_loads
from kerncast.machine.listing import Disassembly, parse_listing
from kerncast.machine.mix import machine_mix
from kerncast.profiles import MachineMix, Origin
from tests.helpers.execute_helpers import compiled, launch, ptx_kernel
from tests.helpers.places import TESTS

DATA = Path(kerncast.__path__[0]) / "data" / "instructions"
GOLDEN = TESTS / "golden" / "machine"
CLASSES = {
    "fp16", "fp32", "fp64", "integer", "conversion", "control", "memory", "misc", "inter_thread", "uniform",
}  # fmt: skip
PIPES = {"fma", "alu", "fp16", "fp64", "xu", "lsu", "cbu", "adu", "uniform", "tex", "tensor", "none"}
MATMUL = """extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}"""
GUARDED = """extern "C" __global__ void guarded(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    if (i < n) v = v * 3.0f + x[i + 1];
    y[i] = v;
}"""


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def estimate(monkeypatch: pytest.MonkeyPatch, source: str, where: Launch) -> MachineMix:
    monkeypatch.setattr("kerncast.machine.mix.disassemble", lambda *_: Disassembly(problem="none here"))
    one = compiled(source)
    trace, sampler = execute(one, where, WholeGrid())
    return machine_mix(trace, sampler.scale, one)


def test_a_matmul_is_estimated_by_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    square = "f32[1024] random"
    found = estimate(monkeypatch, MATMUL, launch([2, 2], [16, 16], a=square, b=square, c=square, n=32))
    threads = {each.opcode: each.threads_on.value for each in found.opcodes}
    assert found.origin is Origin.ESTIMATED
    assert found.doubts == (Caveat.of(CaveatKind.MACHINE_CODE_ESTIMATED, reason="none here"),)
    assert threads["FFMA"] == pytest.approx(32**3, rel=0.02)
    assert threads["LDG"] == pytest.approx(2 * 32**3, rel=0.02)
    assert threads["STG"] == pytest.approx(32**2, rel=0.02)


@pytest.mark.parametrize(("name", "mangled"), [("matmul_naive", "_Z12matmul_naivePKfS0_Pfi"), ("branchy", "branchy")])
def test_estimates_are_near_the_recorded_machine_code(name: str, mangled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.unit.machine.test_counts import kernel, matmul_launch

    one = kernel(name, mangled)
    where = matmul_launch(64)
    if name == "branchy":
        where = launch([3], [64], x="f32[192] random", y="f32[192] zeros", n=64, scale=2.0)
    trace, sampler = execute(one, where, WholeGrid())
    recorded = Disassembly(parse_listing((GOLDEN / f"{name}.sass").read_text(encoding="utf-8")))
    values = []
    for found in (recorded, Disassembly(problem="none")):
        monkeypatch.setattr("kerncast.machine.mix.disassemble", lambda *_, one=found: one)
        values.append(machine_mix(trace, sampler.scale, one).warp_instructions.value)
    assert values[1] == pytest.approx(values[0], rel=0.2)


def test_a_short_block_behind_a_branch_is_issued_by_every_warp(monkeypatch: pytest.MonkeyPatch) -> None:
    found = estimate(monkeypatch, GUARDED, launch([4], [64], x="f32[257] random", y="f32[256] zeros", n=16))
    loads = next(each for each in found.opcodes if each.opcode == "LDG")
    # Each of the 8 warps issues two loads; all threads do the first, 16 of them the second.
    assert loads.warp_instructions.value == pytest.approx(2 * 8, rel=0.02)
    program = linked_program(compiled(GUARDED).ptx, "guarded")
    assert predicated_blocks(program.function, program.cfg) == {1: 0}
    assert loads.thread_instructions.value == pytest.approx(2 * 256, rel=0.02)
    assert loads.threads_on.value == pytest.approx(256 + 16, rel=0.02)


def test_shared_loads_are_joined_where_their_alignment_is_known() -> None:
    body = """.visible .entry k(.param .u64 p) {
        .shared .align 16 .b8 held[1024]; .reg .f32 %f<9>; .reg .b32 %r<9>; .reg .b64 %d<3>;
        mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; mov.u32 %r3, held; add.s32 %r4, %r3, %r2; add.s32 %r5, %r3, %r1;
        ld.shared.f32 %f1, [%r4]; ld.shared.f32 %f2, [%r4+4]; ld.shared.f32 %f3, [%r4+8]; ld.shared.f32 %f4, [%r4+12];
        ld.shared.f32 %f5, [%r5]; ld.shared.f32 %f6, [%r5+4];
        ret; }"""
    program = linked_program(ptx_kernel(body).ptx, "k")
    found = joined_loads(program.function, program.cfg)
    assert found == dict.fromkeys((5, 6, 7, 8), JoinedLoad((5, 6, 7, 8), 16, 0))


def test_forms_tell_address_arithmetic_from_other_arithmetic() -> None:
    program = linked_program(compiled(GUARDED).ptx, "guarded")
    forms = set(forms_of(program.function, program.cfg))
    assert {"fma.f32", "ld.global.32", "st.global.32", "bra.predicated", "mov.tid", "mov.ntid"} <= forms
    assert any(form.startswith("mul.wide.s32") for form in forms)
    assert any(form.startswith("add.s64.wide") for form in forms)


def test_forms_tell_products_that_a_sum_takes_in() -> None:
    body = """.visible .entry k(.param .u64 p) {
        .reg .f64 %fd<9>; .reg .f32 %f<9>; .reg .b64 %d<3>;
        mul.f64 %fd1, %fd2, %fd3; add.f64 %fd4, %fd1, %fd5;
        mul.f64 %fd6, %fd2, %fd3; fma.rn.f64 %fd7, %fd6, %fd4, %fd5;
        mul.rn.f32 %f1, %f2, %f3; sub.f32 %f4, %f5, %f1;
        mul.f32 %f6, %f2, %f3; sub.f32 %f7, %f6, %f5; add.f32 %f8, %f6, %f7;
        ret; }"""
    program = linked_program(ptx_kernel(body).ptx, "k")
    forms = forms_of(program.function, program.cfg)
    assert [form for form in forms if form.startswith("mul")] == ["mul.f64.added", "mul.f64", "mul.f32", "mul.f32"]
    assert dict(lowered("mul.f64.added", 52))["DMUL"] < 0.5 < dict(lowered("mul.f64", 52))["DMUL"]


def test_lines_are_those_of_the_text() -> None:
    one = compiled(MATMUL)
    text = one.ptx.split("\n")
    program = linked_program(one.ptx, "matmul")
    for ins in program.function.instructions:
        assert ins.root in text[ins.line - 1]


def test_every_opcode_has_one_class_and_one_pipe() -> None:
    table = rows("machine_opcodes.csv")
    assert {row["work"] for row in table} <= CLASSES
    assert {row["pipe"] for row in table} <= PIPES
    keys = [(row["opcode"], row["modifier"], row["from"]) for row in table]
    assert len(keys) == len(set(keys))


def test_every_opcode_that_appears_is_known() -> None:
    known = {row["opcode"] for row in rows("machine_opcodes.csv")}
    named = {row["opcode"] for row in rows("lowering.csv")} - {""}
    listings = [parse_listing(path.read_text(encoding="utf-8")) for path in GOLDEN.glob("*.sass")]
    listed = {ins.opcode for found in listings for routine in found.values() for ins in routine.instructions}
    assert (named | listed) - known == set()
    assert kind_of("NEWEST", (), 200) == UNKNOWN


@pytest.mark.parametrize(
    ("opcode", "architecture", "work", "pipe"),
    [
        ("IMAD", 75, "integer", "fma"), ("IADD3", 80, "integer", "alu"), ("FFMA", 86, "fp32", "fma"),
        ("MUFU", 75, "fp32", "xu"), ("LDS", 90, "memory", "lsu"), ("DFMA", 70, "fp64", "fp64"),
        ("HADD2", 75, "fp16", "fp16"), ("HADD2", 86, "fp16", "fma"), ("BRA", 75, "control", "cbu"),
        ("S2R", 75, "misc", "lsu"), ("UIADD3", 75, "uniform", "uniform"), ("HMMA", 80, "misc", "tensor"),
    ],
)  # fmt: skip
def test_classes_and_pipes(opcode: str, architecture: int, work: str, pipe: str) -> None:
    kind = kind_of(opcode, (), architecture)
    assert (kind.work, kind.pipe) == (work, pipe)


def test_the_table_of_lowering() -> None:
    table = rows("lowering.csv")
    columns = [name for name in table[0] if name.startswith("sm_")]
    assert columns == sorted(columns)
    keys = [(row["form"], row["opcode"]) for row in table]
    assert len(keys) == len(set(keys))
    values = [float(row[column]) for row in table for column in columns if row[column]]
    assert all(0 < value < 200 for value in values)
    # What no compiler can do in another number of instructions.
    for architecture in (52, 70, 75, 80, 86, 90):
        assert dict(lowered("fma.f32", architecture))["FFMA"] == pytest.approx(1, abs=0.02)
        assert dict(lowered("st.global.32", architecture))["STG"] == pytest.approx(1, abs=0.02)
        assert lowered("ld.param.64", architecture) == ()
    assert lowered("fma.f32.of.a.kind.unheard.of", 75) == lowered("fma.f32", 75)
    assert lowered("fma.f32", 121) == lowered("fma.f32", 90)
    assert lowered("fma.f32", 30) == lowered("fma.f32", 35)
