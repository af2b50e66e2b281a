"""What the text of a kernel tells of its data: which buffers it reads and writes, and which decide what it does.

Told by what an address is made from: the parameters that hold a buffer, and the module's variables. Values that went
through memory, and pointers that came out of it, may be anything.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from kerncast.execute.setup.layout import Program
from kerncast.ptx import (
    Address,
    ControlFlowGraph,
    Flow,
    Function,
    Instruction,
    Operand,
    Register,
    Special,
    Symbol,
    Trait,
    results_of,
    sources_of,
    symbols_of,
)
from kerncast.remembered import remembered
from kerncast.traces import Allocation

Bases = frozenset[str]
"""parameters and variables by their names in PTX"""

_GLOBAL = frozenset({"global", "const", "generic"})
_TENSOR = "tensor"
#: A pointer that comes out of memory.
UNKNOWN = "?"


#: Modifiers of loads that may see what other threads have just written.
_FRESH = frozenset({"volatile", "acquire", "relaxed", "mmio"})


def waiting_blocks(function: Function, cfg: ControlFlowGraph) -> frozenset[int]:
    """Return the basic blocks that are loops in which a thread waits until another one has written to memory.

    Such a loop is one block that loads from one place, again and again, and does nothing else that others could see.
    """
    code, found = function.instructions, set()
    for loop in cfg.loops.loops:
        block = cfg.blocks[loop.header]
        body = code[block.start : block.stop]
        accesses = [ins for ins in body if ins.opcode.access is not None]
        if loop.body == {loop.header} and len(accesses) == 1 and _may_wait(accesses[0], body):
            found.add(loop.header)
    return frozenset(found)


def _may_wait(load: Instruction, body: tuple[Instruction, ...]) -> bool:
    written = {register.name for ins in body for register in results_of(ins)}
    bases = {o.base.name for o in load.operands if isinstance(o, Address) and isinstance(o.base, Register)}
    does_more = any(ins.is_barrier or ins.opcode.flow in _DOES_MORE for ins in body)
    return load.is_load and not _FRESH.isdisjoint(load.modifiers) and written.isdisjoint(bases) and not does_more


_DOES_MORE = frozenset({Flow.CALL, Flow.TRAP, Flow.BREAKPOINT})


@remembered(64)
def common_counters(program: Program) -> Mapping[int, int]:
    """Return the atomics that add the same number to the same place of global memory wherever they run.

    Those whose result something reads, each with the number of its place: they tell a thread how many came before it.
    None where the places are more than MOST_COUNTERS.
    """
    code, made = program.function.instructions, _common_registers(program)
    found: dict[int, str] = {}
    for number, ins in enumerate(code):
        is_counting = ins.root == "atom" and "add" in ins.modifiers and ins.type in _WHOLE_NUMBERS
        is_read = any(register.name in program.read for register in results_of(ins))
        if is_counting and is_read and ins.space in _GLOBAL and _is_common(ins, program, made):
            found[number] = _made_from(ins.operands[1], made)
    places = sorted(set(found.values()))
    return {number: places.index(place) for number, place in found.items()} if len(places) <= MOST_COUNTERS else {}


#: Counters of the grid of which a warp remembers how many numbers it has taken.
MOST_COUNTERS = 16
_WHOLE_NUMBERS = frozenset({"u32", "s32", "u64", "s64", "b32", "b64"})


def _common_registers(program: Program) -> Mapping[str, str]:
    """Return the registers that hold one value for all threads of a grid, made from parameters and constants.

    Each with a name of how it is made: those of the same name are equal.
    """
    code = program.function.instructions
    written = Counter(register.name for ins in code for register in results_of(ins))
    made: dict[str, str] = {}
    names: dict[tuple[str, ...], str] = {}
    while True:
        before = len(made)
        for ins in code:
            differs = ins.opcode.has(Trait.LANE) or ins.guard is not None or _reads_memory(ins)
            if not differs and _is_common(ins, program, made):
                how = (ins.name, *(_made_from(each, made) for each in ins.operands[1:]))
                name = names.setdefault(how, f"value {len(names)}")
                made |= {register.name: name for register in results_of(ins) if written[register.name] == 1}
        if len(made) == before:
            return made


def _made_from(operand: Operand, made: Mapping[str, str]) -> str:
    """Return an operand, with what its register is made from in the place of its name."""
    if isinstance(operand, Address) and isinstance(operand.base, Register):
        return f"{_made_from(operand.base, made)} + {operand.offset}"
    return made.get(operand.name, operand.name) if isinstance(operand, Register) else str(operand)


def _reads_memory(ins: Instruction) -> bool:
    return ins.opcode.access is not None and not (ins.root == "ld" and ins.space == "param")


def _is_common(ins: Instruction, program: Program, common: Collection[str]) -> bool:
    """Whether all operands that an instruction reads are the same for all threads of a grid."""
    symbols = {name for operand in ins.operands for name in symbols_of(operand)}
    is_special = any(isinstance(operand, Special) for operand in ins.operands)
    return not is_special and not symbols & program.shared and all(r.name in common for r in sources_of(ins))


@dataclass(frozen=True)  # no slots: the bases are found once and kept
class BufferUse:
    """The buffers that a kernel may read and write."""

    program: Program
    buffers: Bases
    """parameters that hold a buffer which no other one reaches"""

    @cached_property
    def read(self) -> Bases:
        """Buffers that loads and updates may read; UNKNOWN among them: any."""
        return _union(self.of(ins) for ins in self._accesses if not ins.is_store and not _only_writes(ins))

    @cached_property
    def written(self) -> Bases:
        """Buffers that stores and updates may write; UNKNOWN among them: any."""
        return _union(self.of(ins) for ins in self._accesses if ins.is_store or ins.is_update or ins.writes_global)

    @cached_property
    def updates(self) -> bool:
        """Whether global memory is updated atomically."""
        return any(ins.is_update or (ins.writes_global and ins.reads_global) for ins in self._accesses)

    @cached_property
    def deciding(self) -> Bases:
        """Buffers whose values may decide which instructions run, or where they access memory.

        What other buffers hold changes no count. A tensor map says where copies go, wherever it lies.
        """
        maps = (self._map_of(ins) for ins in self._accesses if _has_map(ins))
        return _union((*(self.of(ins) for ins in _Deciding(self).loads), *maps))

    @property
    def are_disjoint(self) -> bool:
        """Whether nothing that is written may be read."""
        if self.updates:
            return False
        if not self.read or not self.written:
            return True
        return UNKNOWN not in self.read | self.written and not self.read & self.written

    @cached_property
    def _accesses(self) -> tuple[Instruction, ...]:
        code = self.program.function.instructions
        return tuple(ins for ins in code if ins.space in _GLOBAL and ins.opcode.access is not None)

    @cached_property
    def _bases(self) -> Mapping[str, Bases]:
        return _bases_of_registers(self.program)

    @cached_property
    def _known(self) -> Bases:
        return self.buffers | {variable.name for variable in self.program.globals}

    def of(self, ins: Instruction) -> Bases:
        """Return what the address of an access is made from.

        What was loaded only counts as a pointer where there is no other. What a tensor map describes may be anything.
        """
        if _has_map(ins):
            return frozenset({UNKNOWN})
        address = _address_of(ins)
        if isinstance(address.base, Symbol):
            return frozenset({address.base.name})
        found = self._bases.get(address.base.name, frozenset()) if address.base else frozenset()
        return found & self._known or frozenset({UNKNOWN})

    def _map_of(self, ins: Instruction) -> Bases:
        """Return the buffers that hold the tensor map of a copy; none where a parameter itself is the map."""
        base = _address_of(ins).base
        found = frozenset({base.name}) if isinstance(base, Symbol) else self._bases.get(base.name) if base else None
        itself = {each.name for each in self.program.function.parameters if each.nbytes > _POINTER_BYTES}
        if found and found & itself:
            return frozenset()
        return (found or frozenset()) & self._known or frozenset({UNKNOWN})


_POINTER_BYTES = 8


def _has_map(ins: Instruction) -> bool:
    return ins.opcode.has(Trait.BULK) and "tensor" in ins.opcode.name


@remembered(64)
def use_of(program: Program, buffers: Bases) -> BufferUse:
    """Return what a kernel reads and writes; ``buffers`` are the parameters that hold one of their own."""
    return BufferUse(program, buffers)


def blocks_are_independent(program: Program, buffers: Bases) -> bool:
    """Return False if some block may read global memory that another one writes, or update it atomically.

    Where blocks are not, one core runs them one after the other, so that equal input gives equal counts. ``buffers``
    are the parameters that hold one. Two blocks that write one place are not told apart.
    """
    return use_of(program, buffers).are_disjoint


class Finder(Protocol):
    """Memory that tells where an address lies."""

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that an address lies in, or at the end of."""


def own_pointers(program: Program, parameters: bytes, memory: Finder) -> Mapping[str, Allocation]:
    """Return the parameters that point into an allocation which no other parameter reaches, by their names."""
    found: dict[str, Allocation] = {}
    reached: dict[int, int] = {}
    for parameter in program.function.parameters:
        start = program.parameters[parameter.name]
        words = range(start, start + parameter.nbytes - 7, 8)
        for at in words:
            allocation = memory.find(int.from_bytes(parameters[at : at + 8], "little"))
            if allocation is not None:
                reached[allocation.start] = reached.get(allocation.start, 0) + 1
                if parameter.nbytes == 8:
                    found[parameter.name] = allocation
    return {name: each for name, each in found.items() if reached[each.start] == 1}


def _synchronises(ins: Instruction) -> bool:
    return ins.is_jump or ins.is_barrier or ins.opcode.has(Trait.PHASE)


def _address_of(ins: Instruction) -> Address:
    """Return the operand in global memory: of a copy from there the second; a tensor map is no buffer."""
    addresses = [operand for operand in ins.operands if isinstance(operand, Address)]
    return addresses[1 if ins.is_copy and not ins.writes_global else 0]


def _only_writes(ins: Instruction) -> bool:
    return ins.writes_global and not ins.reads_global


def _bases_of_registers(program: Program) -> Mapping[str, Bases]:
    """Return what each register may be made from, over all of the function."""
    bases: dict[str, Bases] = {}
    changed = True
    while changed:
        changed = False
        for ins in program.function.instructions:
            found = _result_bases(ins, program, bases)
            for register in results_of(ins) if found else ():
                before = bases.get(register.name, frozenset())
                changed |= not found <= before
                bases[register.name] = before | found
    return bases


def _result_bases(ins: Instruction, program: Program, bases: Mapping[str, Bases]) -> Bases:
    if ins.is_load:
        base = ins.operands[1].base if isinstance(ins.operands[1], Address) else None
        is_parameter = isinstance(base, Symbol) and base.name in program.parameters
        return frozenset({base.name if is_parameter and isinstance(base, Symbol) else UNKNOWN})
    if ins.is_update:
        return frozenset({UNKNOWN})
    symbols = frozenset(name for operand in ins.operands for name in symbols_of(operand))
    return _union([symbols, *(bases.get(register.name, frozenset()) for register in sources_of(ins))])


def _union(sets: Iterable[Bases]) -> Bases:
    return frozenset(name for each in sets for name in each)


class _Deciding:
    """Finds the loads of global memory whose results may reach a guard, a branch or an address.

    Backwards from these: what a deciding register is made from decides, too. Of each state space but the global one,
    either no load decides or all that is stored there does; in global memory, what is stored to a buffer that decides.
    """

    def __init__(self, use: BufferUse) -> None:
        self._use = use
        self._code = use.program.function.instructions
        self._registers: set[str] = set()
        self._spaces: set[str] = set()
        self._bases: Bases = frozenset()

    @property
    def loads(self) -> list[Instruction]:
        """All of them, and the updates whose old value decides."""
        while self._goes_on():
            pass
        return [ins for ins in self._code if ins.space in _GLOBAL and self._is_deciding_read(ins)]

    def _goes_on(self) -> bool:
        before = len(self._registers), len(self._spaces), self._bases
        for ins in reversed(self._code):
            self._registers.update(register.name for register in self._asked(ins))
            if self._is_deciding_read(ins):
                self._spaces.add(ins.space)
                if ins.space in _GLOBAL:
                    self._bases |= self._use.of(ins)
            decides = any(r.name in self._registers for r in results_of(ins))
            if ins.opcode.has(Trait.TENSOR_MEMORY) and decides:
                self._spaces.add(_TENSOR)
            if ins.opcode.has(Trait.DESCRIBED) and (decides or self._fills_deciding(ins)):
                self._spaces.add("shared")
        return (len(self._registers), len(self._spaces), self._bases) != before

    def _asked(self, ins: Instruction) -> Iterator[Register]:
        """Yield the registers that decide, by what is known so far."""
        if ins.guard is not None:
            yield ins.guard
        if ins.opcode.access is not None:
            yield from (o.base for o in ins.operands if isinstance(o, Address) and isinstance(o.base, Register))
            places = (each for o in ins.operands if isinstance(o, Address) for each in o.coordinates)
            yield from (each for each in places if isinstance(each, Register))
            # How many bytes a copy reads is counted.
            if ins.is_copy or (not ins.is_load and self._holds_deciding(ins)):
                yield from sources_of(ins)
        elif _synchronises(ins) or self._fills_deciding(ins) or any(r.name in self._registers for r in results_of(ins)):
            yield from sources_of(ins)

    def _fills_deciding(self, ins: Instruction) -> bool:
        """Whether an instruction writes tensor memory, some of which decides."""
        return _TENSOR in self._spaces and ins.opcode.has(Trait.TENSOR_MEMORY)

    def _is_deciding_read(self, ins: Instruction) -> bool:
        if ins.is_copy:
            return bool(self._spaces & {"shared", "generic"})
        reads = ins.is_load or ins.is_update
        return reads and any(register.name in self._registers for register in results_of(ins))

    def _holds_deciding(self, ins: Instruction) -> bool:
        """Whether what an instruction stores may be read by a load that decides."""
        if ins.space not in _GLOBAL:
            return bool(self._spaces & {ins.space, "generic"})
        if "generic" in {ins.space} & self._spaces or (ins.space == "generic" and self._spaces - _GLOBAL):
            return True
        found = self._use.of(ins)
        return bool(found & self._bases) or (bool(self._bases) and UNKNOWN in found | self._bases)
