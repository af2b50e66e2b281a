"""How many micro-ops of which kind each PTX instruction becomes, without the access that it makes.

From the kernel's own machine code where that was read, else from ``data/instructions/lowering.csv``, which averages
over the machine code of many kernels. Fails when: the table serves, and the compiler treats the kernel otherwise than
most.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kerncast.caveats import Caveat, CaveatKind
from kerncast.gpu import Architecture
from kerncast.machine.control_flow import ACCESSES
from kerncast.machine.forms import forms_of
from kerncast.machine.instruction_set import ENTRY, has_form, lowered
from kerncast.models.sm.lower.accesses import Joining
from kerncast.models.sm.lower.operation_costs import Average, Cost, cost_in_tensor_memory, cost_of
from kerncast.models.sm.micro_ops import FIRST_OF_EVENTS, Memory, Pipe
from kerncast.ptx import ControlFlowGraph, Function, Instruction, Trait, results_of, sources_of
from kerncast.traces import Execution, MachineCode

#: Opcodes of the table that are the access itself: the recording says what it does, so that its row is left out.
_ACCESS_OPCODES = ("LD", "ST", "ATOM", "RED", "BAR")
_NO_ACCESS = {"LDGDEPBAR"}
#: Opcodes of machine code that cost nothing here: the recording stands for them, accesses to spilled registers too.
_RECORDED = ACCESSES | {"BAR", "NOP", "LDGDEPBAR", "HGMMA", "IGMMA", "QGMMA"}
#: Requests that are whole instructions of the machine code by themselves.
_GROUPING = {Memory.COMMIT, Memory.AWAIT, Memory.PRODUCT, *(each for each in Memory if each >= FIRST_OF_EVENTS)}
#: Least part of the executed instructions of which a caveat tells that their machine code is not known, and how many
#: forms it names.
_TOLD_SHARE, _TOLD_FORMS = 0.02, 3


@dataclass(frozen=True, slots=True)
class Averages:
    """The micro-ops of a kernel on one architecture, as numbers that need not be whole."""

    of_instructions: tuple[Average, ...]
    """for each execution of the instruction's straight line"""
    of_blocks: tuple[Average, ...]
    """what runs with a basic block and comes from none of its instructions"""


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel's PTX, and what is known of its memory accesses."""

    function: Function
    cfg: ControlFlowGraph
    memory: Sequence[Memory]
    """[instructions] request that each makes"""
    joined: Mapping[int, Joining]
    """atomics that the compiler joins"""
    guards: frozenset[str]
    """predicates that decide whether an instruction runs"""

    def decides(self, ins: Instruction) -> bool:
        """Tell whether a comparison's result decides what runs, which takes longer than to be read as data."""
        return ins.root == "setp" and any(r.name in self.guards for r in results_of(ins))


def guards_of(code: Sequence[Instruction]) -> frozenset[str]:
    """Return the predicates that decide whether an instruction runs, by themselves or joined with others."""
    found = {ins.guard.name for ins in code if ins.guard is not None}
    return frozenset(found.union(r.name for ins in code if ins.type == "pred" for r in sources_of(ins)))


def by_machine_code(code: Code, own: MachineCode, leader: Sequence[int], architecture: Architecture) -> Averages:
    """Return what the kernel's own machine code does; ``leader`` is the basic block that each is issued with.

    The micro-ops of a straight line run wherever its leader does, so that its warps are what numbers are relative to.
    """
    of_instructions: list[list[tuple[Cost, float]]] = [[] for _ in code.function.instructions]
    of_blocks: list[list[tuple[Cost, float]]] = [[] for _ in code.cfg.blocks]
    for each in own.operations:
        number, block = each.instruction, each.block
        ran = own.block_warps[leader[block]]
        if each.opcode in _RECORDED or not ran:
            continue
        if number is not None and (code.memory[number] in _GROUPING or _is_given(code, number)):
            continue
        ins = code.function.instructions[code.cfg.blocks[block].start if number is None else number]
        cost = cost_of(each.opcode, ins, architecture, each.modifiers, guards=code.decides(ins))
        if cost is not None:
            (of_blocks[block] if number is None else of_instructions[number]).append((cost, each.warps / ran))
    for number, ins in enumerate(code.function.instructions):
        if _is_given(code, number):
            of_instructions[number] = [(cost_in_tensor_memory(ins, architecture), 1.0)]
    return Averages(tuple(map(tuple, of_instructions)), tuple(map(tuple, of_blocks)))


def _is_given(code: Code, number: int) -> bool:
    """Tell whether an instruction costs what the PTX says of it: whatever else has to do with tensor memory."""
    ins = code.function.instructions[number]
    return ins.root == "tcgen05" and ins.opcode.access is None and code.memory[number] not in _GROUPING


def by_table(code: Code, architecture: Architecture) -> Averages:
    """Return what the instructions become on average."""
    table = _Table(code, architecture)
    found = [table.of(number) for number in range(len(code.function.instructions))]
    if found:
        found[0] += _costs(lowered(ENTRY, architecture.number), code.function.instructions[0], architecture)
    return Averages(tuple(found), ((),) * len(code.cfg.blocks))


class _Table:
    """Averages of forms; instructions of one form share them."""

    def __init__(self, code: Code, architecture: Architecture) -> None:
        self._code, self._architecture = code, architecture
        self._forms = forms_of(code.function, code.cfg)
        self._known: dict[tuple[str, str, bool], Average] = {}

    def of(self, number: int) -> Average:
        """Return the micro-ops of an instruction."""
        return self._alone(number) + self._joining(number)

    def _alone(self, number: int) -> Average:
        ins = self._code.function.instructions[number]
        is_access = self._code.memory[number] is not Memory.NONE
        if self._code.memory[number] in _GROUPING or (is_access and ins.space == "local"):
            return ()
        if _is_given(self._code, number):
            return ((cost_in_tensor_memory(ins, self._architecture), 1.0),)
        key = (self._forms[number], ins.type, self._code.decides(ins))
        if key not in self._known:
            form = "atom" + key[0].removeprefix("red") if ins.root == "red" else key[0]
            found = lowered(form, self._architecture.number)
            if is_access:
                found = tuple((opcode, times) for opcode, times in found if opcode and not _is_access(opcode))
            self._known[key] = _costs(found, ins, self._architecture, guards=key[2])
        return self._known[key]

    def _joining(self, number: int) -> Average:
        """Return the micro-ops that make the atomics of a warp one."""
        if number not in self._code.joined:
            return ()
        ins = self._code.function.instructions[number]
        opcodes = self._code.joined[number].opcodes
        costs = (Cost(Pipe.LSU) if each == "SHFL" else cost_of(each, ins, self._architecture) for each in opcodes)
        return tuple((cost, 1.0) for cost in costs if cost is not None)


def not_in_table(function: Function, cfg: ControlFlowGraph, architecture: int) -> dict[int, str]:
    """Return the form of each instruction whose machine code the table has of a shorter form only.

    Accesses are recorded, and products of tensor cores cost what their shape says.
    """
    pairs = enumerate(zip(function.instructions, forms_of(function, cfg), strict=True))
    told = {n: form for n, (ins, form) in pairs if ins.opcode.access is None and not _is_known(ins)}
    return {n: form for n, form in told.items() if not has_form(form, architecture)}


def _is_known(ins: Instruction) -> bool:
    """Tell whether an instruction costs what its type, its shape or the event it has to do with says."""
    return ins.opcode.pipe == "tensor" or ins.opcode.has(Trait.PHASE) or bool(ins.opcode.group)


def doubts_of_code(execution: Execution, architecture: Architecture) -> tuple[tuple[Caveat, ...], float]:
    """Return what is not known of the machine code, and the part of the executed instructions that it is not known of.

    Of the kernel's own machine code nothing is in doubt. Else forms that the table lacks may become as much more or
    less as between generations of instruction sets.
    """
    if execution.machine.operations:
        return (), 0.0
    found: list[Caveat] = []
    if execution.machine.problem:
        found.append(Caveat.of(CaveatKind.MACHINE_CODE_ESTIMATED, reason=execution.machine.problem))
    trace = execution.trace
    executed = np.repeat(trace.counts.block_warps.sum(axis=0), trace.cfg.lengths)
    lacking = not_in_table(trace.function, trace.cfg, architecture.number)
    share = float(executed[list(lacking)].sum() / max(1, executed.sum()))
    if share >= _TOLD_SHARE:
        often: Counter[str] = Counter()
        for number, form in lacking.items():
            often[form] += int(executed[number])
        names = ", ".join(form for form, _ in often.most_common(_TOLD_FORMS))
        found.append(Caveat.of(CaveatKind.MACHINE_CODE_OF_SIMILAR_FORMS, names, percent=100 * share))
    return tuple(found), share


def _is_access(opcode: str) -> bool:
    return opcode.startswith(_ACCESS_OPCODES) and opcode not in _NO_ACCESS


def _costs(
    found: Iterable[tuple[str, float]], ins: Instruction, architecture: Architecture, *, guards: bool = False
) -> Average:
    # A shuffle that the PTX does not ask for is Volta's NOP: @!PT SHFL.IDX PT, RZ, RZ, RZ, RZ.
    kept = ((opcode, times) for opcode, times in found if opcode != "SHFL" or ins.root == "shfl")
    costs = ((cost_of(opcode, ins, architecture, guards=guards), times) for opcode, times in kept)
    return tuple((cost, times) for cost, times in costs if cost is not None)
