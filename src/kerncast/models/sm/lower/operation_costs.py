"""The cost of one operation in micro-ops, with whole numbers made of average ones."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import kerncast
from kerncast.bounded_file import our_rows
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import Architecture
from kerncast.machine.instruction_set import UNKNOWN, kind_of
from kerncast.models.sm.lower.tensor_costs import cycles_of_machine_product, cycles_of_product
from kerncast.models.sm.micro_ops import FULL_WEIGHT, Pipe
from kerncast.ptx import TYPE_BITS, Flow, Instruction, Vector
from kerncast.ptx.fragments import group_product_of
from kerncast.ptx.tensor_layouts import COPIES, movement_of
from kerncast.ptx.tensor_layouts import LANES as TENSOR_LANES

_FILE = Path(kerncast.__path__[0]) / "data" / "instructions" / "opcode_cycles.csv"
_PIPES = {
    "fma": Pipe.FMA, "alu": Pipe.ALU, "fp16": Pipe.FP16, "fp64": Pipe.FP64, "xu": Pipe.XU, "lsu": Pipe.LSU,
    "tex": Pipe.LSU, "cbu": Pipe.BRANCH, "adu": Pipe.BRANCH, "uniform": Pipe.UNIFORM, "tensor": Pipe.TENSOR,
}  # fmt: skip
#: Opcodes after which a warp goes on elsewhere; others of the branch pipe hold it for one cycle.
_JUMPS = {"BRA", "BRX", "BRK", "CONT", "CAL", "CALL", "EXIT", "JMP", "JMX", "KILL", "RET", "SYNC"}
_GOES_ON_ELSEWHERE = {Flow.BRANCH, Flow.LEAVE, Flow.CALL, Flow.TRAP}
_NO_JUMP_CYCLES = 1.0
_WIDE_BITS = 64
#: A wgmma: its warps, the bytes of a row of A or a column of B, those of a number of 16 bits, and of shared memory.
_GROUP_WARPS, _ROW_BYTES, _HALF_BYTES, _SHARED_BYTES_PER_CLOCK = 4, 32, 2, 128
#: Modifiers in the table of costs: a conversion to or from 64 bits, a comparison that decides what runs.
_WIDE, _GUARD = "64", "guard"
_PIPE_OF_TYPE = {"f64": Pipe.FP64, "f32": Pipe.FMA, "f16": Pipe.FP16, "f16x2": Pipe.FP16, "bf16x2": Pipe.FP16}


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """Pipe of a micro-op, and where its cost differs from the pipe's."""

    pipe: Pipe
    """pipe that executes it"""
    cycles: float = 0.0
    """cycles that it occupies the pipe; 0: the pipe's interval"""
    latency: float = 0.0
    """cycles to its result, or to the next instruction where the branch pipe does not jump; 0: the pipe's latency"""


def cost_of(
    opcode: str, ins: Instruction, architecture: Architecture, modifiers: tuple[str, ...] = (), *, guards: bool = False
) -> Cost | None:
    """Return what an opcode costs that a PTX instruction became; None where nothing executes it.

    ``modifiers`` are known of machine code, not of the table's averages. ``guards`` says that its result decides
    whether other instructions run, which takes longer than to be read as data. Fails when: the
    opcode is newer than the tables, or none is known (an empty one); the type of the PTX decides then. Raises
    MissingEvidenceError for a product of tensor cores whose rate is unknown.
    """
    kind = kind_of(opcode, modifiers, architecture.number)
    if kind is UNKNOWN:
        return _unknown_cost(ins, architecture)
    if kind.pipe not in _PIPES:
        return None
    is_wide = ins.root == "cvt" and any(TYPE_BITS[name] == _WIDE_BITS for name in ins.types)
    named = (_WIDE if is_wide else _GUARD if guards else "", *modifiers)
    row = _special(opcode, named, architecture.number)
    pipe = _PIPES[row.pipe if row is not None and row.pipe else kind.pipe]
    if pipe is Pipe.FMA and kind.work == "integer":
        pipe = Pipe.IMAD
    if pipe is Pipe.TENSOR:
        return Cost(pipe, *cycles_of_machine_product(opcode, modifiers, ins, architecture))
    if row is not None:
        return Cost(pipe, row.cycles, row.latency)
    is_jump = opcode in _JUMPS and ins.opcode.flow in _GOES_ON_ELSEWHERE
    return Cost(pipe, latency=_NO_JUMP_CYCLES if pipe is Pipe.BRANCH and not is_jump else 0.0)


def _unknown_cost(ins: Instruction, architecture: Architecture) -> Cost:
    """Return what an opcode costs that no table has, by the PTX instruction that it comes from."""
    if ins.root == "tcgen05":  # such as what joins the lanes of a warp before it
        return Cost(Pipe.BRANCH, latency=_NO_JUMP_CYCLES)
    if ins.opcode.pipe == "tensor":
        return Cost(Pipe.TENSOR, *cycles_of_product(ins, architecture))
    # A NOP has an equal one.
    return Cost(Pipe[ins.opcode.pipe.upper()] if ins.opcode.pipe else _PIPE_OF_TYPE.get(ins.type, Pipe.ALU))


def cost_of_group_product(ins: Instruction, architecture: Architecture) -> Cost:
    """Return what a warp's 16 rows of a wgmma take; raises MissingEvidenceError where the rate is unknown.

    A sub-partition does a quarter of the multiply-adds; of every type a row of A has 32 bytes, which take as long as
    16 of 16 bits (data sheet: FP8 twice the rate of FP16, TF32 half of it). What lies in shared memory is read at
    128 bytes per clock: A by each warp, B once for all four. So 64 x N x 16 take max(N / 2, N / 4 + 16) on Hopper. With
    a sparse A, which holds as much, rows of B are twice as long.
    Source: intervals of m64n64, n128 and n256, and of sparse m64n256k32: 144 cycles, 128 with A in registers (arXiv
    2402.13499). Fails when: other accesses want shared memory.
    """
    product = group_product_of(ins.modifiers, ins.types)
    lanes = architecture.tensor_group_fp16_lanes_per_sm
    if product is None or lanes is None or product.a == "b1":
        raise MissingEvidenceError(
            f"{ins.name} is a product of tensor cores whose rate is unknown",
            where=ins.where, cure="Known are those of 16 or 8 bits and TF32 on Hopper.",
        )  # fmt: skip
    rows = _GROUP_WARPS * product.m
    reads_a = not isinstance(ins.operands[1], Vector)
    read = product.n * (2 if product.is_sparse else 1) + (rows if reads_a else 0)
    shared = _ROW_BYTES * read / _SHARED_BYTES_PER_CLOCK
    return Cost(Pipe.TENSOR, cycles=max(rows * product.n * _ROW_BYTES / _HALF_BYTES / lanes, shared))


def cost_in_tensor_memory(ins: Instruction, architecture: Architecture) -> Cost:
    """Return what a tcgen05 instruction costs by itself: moves take a turn for each register of the warp.

    A product costs so many cycles for each column of B, whose number is known when it runs only: 128 rows of A of
    32 bytes each, or 64 in the same time. A copy costs what reading shared memory takes. Source: intervals of B200
    (SemiAnalysisAI/microbench-blackwell at 9a068d8).
    """
    cycles, lanes = architecture.cycles, architecture.tensor_group_fp16_lanes_per_sm or 1
    each, latency = cycles.tensor_memory or 1.0, cycles.tensor_memory_latency or 1.0
    if movement_of(ins.modifiers) is not None:
        registers = next((len(o.elements) for o in ins.operands if isinstance(o, Vector)), 1)
        return Cost(Pipe.TENSOR_MEMORY, each * registers, latency + each * (registers - 1))
    if ins.opcode.name == "tcgen05.mma":
        return Cost(Pipe.TENSOR, TENSOR_LANES * _ROW_BYTES / _HALF_BYTES / lanes)
    if ins.opcode.name == "tcgen05.cp":
        rows, size, _ = COPIES[tuple(m for m in ins.details if not m.startswith("cta_group"))]
        return Cost(Pipe.TENSOR, rows * size / _SHARED_BYTES_PER_CLOCK)
    return Cost(Pipe.BRANCH, latency=_NO_JUMP_CYCLES)


@dataclass(frozen=True, slots=True)
class _Row:
    modifier: str
    """_WIDE, _GUARD or one of the machine instruction's own; empty: any"""
    since: int
    """first architecture, such as 86"""
    pipe: str
    """pipe; empty: that of the opcode's kind"""
    cycles: float
    """cycles that it occupies the pipe; 0: the pipe's interval"""
    latency: float
    """cycles to its result; 0: the pipe's latency"""


def _special(opcode: str, modifiers: tuple[str, ...], architecture: int) -> _Row | None:
    """Return the newest row that fits, one with a modifier first."""
    known = {"", *modifiers}
    fitting = [row for row in _table().get(opcode, ()) if row.since <= architecture and row.modifier in known]
    return max(fitting, key=lambda row: (bool(row.modifier), row.since)) if fitting else None


@cache
def _table() -> dict[str, list[_Row]]:
    rows: dict[str, list[_Row]] = {}
    for row in our_rows(_FILE):
        costs = float(row["cycles"] or 0), float(row["latency"] or 0)
        rows.setdefault(row["opcode"], []).append(_Row(row["modifier"], int(row["from"] or 0), row["pipe"], *costs))
    return rows


# Turns average numbers of micro-ops into whole ones: error diffusion over a basic block.
#
# An instruction gets the nearest whole number of micro-ops to its average and what is left over from those before it,
# of the kinds that are owed most. What is left at the end of a block becomes micro-ops that run in a part of the
# block's executions, so that the sum over executions is the average, kind by kind. Rounding each instruction by itself
# would lose all that is below one half.

_HALF = 0.5

Average = tuple[tuple[Cost, float], ...]


@dataclass(slots=True)
class Share:
    """One micro-op of an instruction, and in which executions of its block it runs."""

    cost: Cost
    weight: int = FULL_WEIGHT
    """executions in which it runs, out of FULL_WEIGHT"""
    phase: int = 0
    """offset of these executions, see ``micro_ops.Program``"""


class Diffusion:
    """The micro-ops of block after block; phases spread what runs seldom over the micro-ops of all blocks."""

    def __init__(self) -> None:
        self._given: dict[Cost, int] = defaultdict(int)

    def whole(self, averages: Iterable[Average]) -> list[list[Share]]:
        """Return the micro-ops of each instruction of a block, from its average numbers."""
        owed: dict[Cost, float] = {}
        last: dict[Cost, int] = {}
        latest: dict[Cost, Share] = {}
        left = 0.0
        shares: list[list[Share]] = []
        for number, average in enumerate(averages):
            for cost, times in average:
                owed[cost] = owed.get(cost, 0.0) + times
                last[cost] = number
                left += times
            own: list[Share] = []
            for _ in range(math.floor(left + _HALF)):
                cost = max(owed, key=lambda each: owed[each])
                owed[cost] -= 1.0
                left -= 1.0
                own.append(Share(cost))
                latest[cost] = own[-1]
            shares.append(own)
        for cost, times in owed.items():
            if times < 0:
                self._reduce(latest[cost], -times)
            else:
                shares[last[cost]] += self._parts(cost, times)
        return [[share for share in own if share.weight] for own in shares]

    def _reduce(self, share: Share, times: float) -> None:
        share.weight -= round(times * FULL_WEIGHT)
        self._place(share)

    def _parts(self, cost: Cost, times: float) -> list[Share]:
        found = [Share(cost) for _ in range(int(times))]
        part = Share(cost, round((times - int(times)) * FULL_WEIGHT))
        self._place(part)
        return [*found, part]

    def _place(self, share: Share) -> None:
        """Set the phase: in first executions, every FULL_WEIGHT of weights one micro-op runs."""
        if share.weight < FULL_WEIGHT:
            share.phase = (-self._given[share.cost] - 1) % FULL_WEIGHT
            self._given[share.cost] += share.weight
