"""Machine instructions counted from recorded listings, against an interpreter of their branches and closed forms."""

import re
from functools import cache

import numpy as np
import pytest

from kerncast.caveats import CaveatKind
from kerncast.compile import CompiledKernel
from kerncast.execute import WholeGrid, execute
from kerncast.launch import Launch
from kerncast.machine.listing import Disassembly, MachineInstruction, MachineRoutine, parse_listing
from kerncast.machine.mix import machine_mix
from kerncast.profiles import MachineMix, Origin, Resources
from tests.helpers.caveats import kinds
from tests.helpers.execute_helpers import launch
from tests.helpers.places import TESTS

GOLDEN = TESTS / "golden" / "machine"
TURING = Resources("sm_75", 32, 0, 0, 0, 0, 0, None, None)
MATMUL = "_Z12matmul_naivePKfS0_Pfi"


@cache
def routines(name: str) -> dict[str, MachineRoutine]:
    return parse_listing((GOLDEN / f"{name}.sass").read_text(encoding="utf-8"))


def kernel(name: str, mangled: str) -> CompiledKernel:
    ptx = (GOLDEN / f"{name}.ptx").read_text(encoding="utf-8")
    return CompiledKernel(name, mangled, "sm_75", ptx, TURING, None, (), b"recorded")


def mix(monkeypatch: pytest.MonkeyPatch, one: CompiledKernel, where: Launch) -> MachineMix:
    found = Disassembly(routines(one.kernel))
    monkeypatch.setattr("kerncast.machine.mix.disassemble", lambda _cubin, _architecture: found)
    trace, sampler = execute(one, where, WholeGrid())
    return machine_mix(trace, sampler.scale, one)


def matmul_launch(size: int) -> Launch:
    buffer = f"f32[{size * size}] random"
    return launch([1], [16, 16], a=buffer, b=buffer, c=f"f32[{size * size}] zeros", size=size)


class Thread:
    """One thread of a recorded listing: integers, predicates and branches; what floats and memory do is left out."""

    def __init__(self, routine: MachineRoutine, constants: dict[str, int], special: dict[str, int]) -> None:
        self.routine = routine
        self.known = {f"c[0x0][{place}]": value for place, value in constants.items()} | special
        self.known |= {"RZ": 0, "PT": 1, "!PT": 0}

    def value(self, name: str) -> int:
        name = name.removesuffix(".reuse")
        if name.startswith("-"):
            return -self.value(name[1:])
        if name.startswith("!"):
            return 1 - self.value(name[1:])
        return int(name, 16) if name.startswith("0x") else self.known.get(name, 0)

    def run(self) -> int:
        """Return how many instructions the thread executes."""
        code, count, at = self.routine.instructions, 0, 0
        while True:
            ins = code[at]
            count, at = count + 1, at + 1
            if ins.guard and not self.value(ins.guard):
                continue
            if ins.opcode == "EXIT":
                return count
            if ins.opcode == "BRA":
                at = self.routine.labels[ins.targets[0]]
            else:
                self.execute(ins, [each.strip() for each in ins.operands.split(",")])

    def execute(self, ins: MachineInstruction, operands: list[str]) -> None:
        values = [self.value(each) for each in operands[1:]] if ins.opcode in INTEGER else []
        match ins.opcode, ins.modifiers[:1]:
            case (("MOV" | "S2R"), _):
                self.known[operands[0]] = values[0]
            case "IMAD", ():
                self.known[operands[0]] = values[0] * values[1] + values[2]
            case "IADD3", ():
                self.known[operands[0]] = sum(values)
            case "LOP3", _:
                self.known[operands[0]] = values[0] & values[1]
            case "PLOP3", _:
                self.known[operands[0]] = int(operands[-2], 16) >> 7
            case "ISETP", (test,):
                a, b, c = values[1:4]
                holds = {"GE": a >= b, "GT": a > b, "NE": a != b}[test]
                self.known[operands[0]] = int(holds or c) if "OR" in ins.modifiers else int(holds and c)


INTEGER = {"MOV", "S2R", "IMAD", "IADD3", "LOP3", "PLOP3", "ISETP"}


@pytest.mark.parametrize("size", [16, 17, 18, 19, 20, 24, 28, 31, 33, 60, 64, 79])
def test_the_unrolled_loops_of_a_matmul_run_as_often_as_their_code_says(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = mix(monkeypatch, kernel("matmul_naive", MATMUL), matmul_launch(size))
    special = {"SR_TID.X": 0, "SR_TID.Y": 0, "SR_CTAID.X": 0, "SR_CTAID.Y": 0}
    thread = Thread(routines("matmul_naive")[MATMUL], {"0x0": 16, "0x4": 16, "0x178": size}, special)
    assert found.origin is Origin.DISASSEMBLED
    assert found.warp_instructions.value == pytest.approx(8 * thread.run(), rel=1e-4)
    assert found.thread_instructions.value == pytest.approx(256 * thread.run(), rel=1e-4)


def test_a_matmul_multiplies_and_loads_as_often_as_its_formula_says(monkeypatch: pytest.MonkeyPatch) -> None:
    found = mix(monkeypatch, kernel("matmul_naive", MATMUL), matmul_launch(37))
    threads = {each.opcode: each.threads_on.value for each in found.opcodes}
    assert threads["FFMA"] == pytest.approx(256 * 37)
    assert threads["LDG"] == pytest.approx(2 * 256 * 37)
    assert threads["STG"] == pytest.approx(256)
    assert threads["EXIT"] == pytest.approx(256, rel=1e-4)  # that at the start is issued, and taken by no thread


@pytest.mark.parametrize("n", [1, 4, 7, 16, 21])
def test_divergence_barriers_and_slow_paths(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one = kernel("branchy", "branchy")
    found = branchy(monkeypatch, one, n)
    counts = {each.opcode: each for each in found.opcodes}
    blocks, threads = 3, 3 * 64
    # Odd threads run the loop; all threads divide, which takes one reciprocal.
    assert counts["MUFU"].thread_instructions.value == pytest.approx(n * threads / 2 + threads, rel=1e-4)
    assert counts["MUFU"].warp_instructions.value == pytest.approx(n * 2 * blocks + 2 * blocks, rel=1e-4)
    assert counts["BAR"].warp_instructions.value == pytest.approx(7 * 2 * blocks, rel=1e-4)
    assert counts["LDG"].threads_on.value == pytest.approx(n * threads / 2 + threads, rel=1e-4)
    # 32 + 16 + … + 1 threads add, and every thread keeps its value.
    assert counts["STS"].threads_on.value == pytest.approx(blocks * 63 + threads, rel=1e-4)
    assert CaveatKind.RARE_CODE_NOT_EXECUTED in kinds(found.doubts)
    assert "RET" not in counts


def branchy(monkeypatch: pytest.MonkeyPatch, one: CompiledKernel, n: int) -> MachineMix:
    found = Disassembly(routines("branchy"))
    monkeypatch.setattr("kerncast.machine.mix.disassemble", lambda _cubin, _architecture: found)
    where = launch([3], [64], x="f32[192] random", y="f32[192] zeros", n=n, scale=2.0)
    trace, sampler = execute(one, where, WholeGrid())
    return machine_mix(trace, sampler.scale, one)


@pytest.mark.parametrize("n", [0, 1, 6, 10])
def test_a_function_that_is_called_counts_like_the_kernel(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = mix(monkeypatch, kernel("called", "called"), launch([1], [32], y="f32[64] random", n=n))
    ffma = next(each for each in found.opcodes if each.opcode == "FFMA")
    assert ffma.threads_on.value == pytest.approx(32 * n + sum(n + i for i in range(32)), rel=1e-3)
    calls = next(each for each in found.opcodes if each.opcode == "CALL")
    assert calls.warp_instructions.value == pytest.approx(2, rel=1e-4)


def test_totals_are_the_sums_of_the_opcodes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = branchy(monkeypatch, kernel("branchy", "branchy"), 9)
    for name in ("warp_instructions", "thread_instructions", "threads_on"):
        total = sum(getattr(each, name).value for each in found.opcodes)
        assert getattr(found, name).value == pytest.approx(total)
    for each in found.opcodes:
        assert each.threads_on.value <= each.thread_instructions.value * (1 + 1e-7)
        assert each.thread_instructions.value <= 32 * each.warp_instructions.value * (1 + 1e-7)


@pytest.mark.parametrize("problem", ["unknown label", "no code of this kernel", "lines of another text"])
def test_code_that_does_not_fit_is_estimated_instead(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (GOLDEN / "matmul_naive.sass").read_text(encoding="utf-8")
    if problem == "unknown label":
        text = text.replace(".L_x_4:", ".L_x_99:")
    if problem == "no code of this kernel":
        text = text.replace(MATMUL, "other")
    if problem == "lines of another text":
        text = re.sub(r"line \d+", "line 99999", text)
    found = Disassembly(parse_listing(text))
    monkeypatch.setattr("kerncast.machine.mix.disassemble", lambda _cubin, _architecture: found)
    one = kernel("matmul_naive", MATMUL)
    trace, sampler = execute(one, matmul_launch(20), WholeGrid())
    result = machine_mix(trace, sampler.scale, one)
    assert result.origin is Origin.ESTIMATED
    assert result.doubts[0].kind is CaveatKind.MACHINE_CODE_ESTIMATED
    assert np.isfinite(result.warp_instructions.value)
