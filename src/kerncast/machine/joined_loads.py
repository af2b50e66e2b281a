"""Loads from shared memory that the compiler makes one wide load.

Loads of one word each, of 4 or 8 bytes, with one base and at neighbouring places whose first is a multiple of their
size together, are one load of 8 or 16 bytes. Stores are left out: the compiler seldom joins them. Read off the machine
code of ptxas 12.9 for the suite; fails when: the compiler knows more of an address than that.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kerncast.ptx import (
    TYPE_BITS,
    Address,
    ControlFlowGraph,
    Function,
    Immediate,
    Instruction,
    MemoryAccess,
    Register,
    Symbol,
    Trait,
    results_of,
    sources_of,
)
from kerncast.remembered import remembered

_WIDEST = 16
#: Bytes of the loads that are joined.
_WORDS = (4, 8)
#: Loads that are made as they are written.
_ORDERED = {"volatile", "relaxed", "acquire", "mmio"}
#: log2 of the widest load, 16 bytes.
_LARGEST = 4

Places = dict[int, int]
"""instruction by its offset from the base"""


@dataclass(frozen=True, slots=True)
class JoinedLoad:
    """Loads that are one machine instruction, which stands where the first of them does."""

    members: tuple[int, ...]
    """instructions in the order of their addresses"""
    nbytes: int
    """bytes per lane of all of them"""
    shift: int
    """address of the lowest one, relative to that of the first one in the program"""

    @property
    def first(self) -> int:
        """The first instruction in the order of the program."""
        return min(self.members)


@remembered(32)
def joined_loads(function: Function, cfg: ControlFlowGraph) -> dict[int, JoinedLoad]:
    """Return the joined loads by each of their instructions."""
    if not _has_neighbours(function.instructions):
        return {}
    zeros, code = _low_zero_bits(_laid_out(function)), _Code.of(function.instructions)
    found: dict[int, JoinedLoad] = {}
    for block in cfg.blocks:
        places: dict[tuple[str, int], Places] = defaultdict(dict)
        for number in range(block.start, block.stop):
            ins = function.instructions[number]
            address = ins.operands[-1] if _is_of_a_word(ins) else None
            if isinstance(address, Address) and isinstance(address.base, Register | Symbol):
                places[address.base.name, _word_bytes(ins)].setdefault(address.offset, number)
            elif _ends_joining(ins):
                found |= _joined(code, places, zeros)
                places.clear()
            # Of a base that is written, later loads lie elsewhere.
            written = ((register.name, nbytes) for register in results_of(ins) for nbytes in _WORDS)
            gone = {key: places.pop(key) for key in written if key in places}
            found |= _joined(code, gone, zeros)
        found |= _joined(code, places, zeros)
    return found


def _has_neighbours(code: Sequence[Instruction]) -> bool:
    """Tell whether loads lie side by side: only then is their alignment worth a look."""
    addresses = [(ins.operands[-1], _word_bytes(ins)) for ins in code if _is_of_a_word(ins)]
    places = {(a.base, a.offset, nbytes) for a, nbytes in addresses if isinstance(a, Address)}
    return any((base, offset + nbytes, nbytes) in places for base, offset, nbytes in places)


def _is_of_a_word(ins: Instruction) -> bool:
    is_load = ins.root == "ld" and ins.space == "shared" and len(ins.operands) > 1
    is_free = _ORDERED.isdisjoint(ins.modifiers)
    return is_load and is_free and isinstance(ins.operands[0], Register) and _word_bytes(ins) in _WORDS


def _word_bytes(ins: Instruction) -> int:
    return TYPE_BITS.get(ins.type, 0) // 8


def _ends_joining(ins: Instruction) -> bool:
    """Return whether no load is joined with one behind this instruction; a reduction does not get in the way."""
    is_access = ins.is_store or ins.is_copy or ins.opcode.access is MemoryAccess.ATOMIC
    is_ordered = ins.opcode.access is not None and not _ORDERED.isdisjoint(ins.modifiers)
    return ins.is_barrier or is_access or is_ordered or ins.opcode.has(Trait.FENCE)


@dataclass(frozen=True, slots=True)
class _Code:
    """The instructions of a kernel, and in order of the program those that write and read each register."""

    instructions: Sequence[Instruction]
    writers: dict[str, list[int]]
    readers: dict[str, list[int]]

    @classmethod
    def of(cls, instructions: Sequence[Instruction]) -> "_Code":
        code = cls(instructions, defaultdict(list), defaultdict(list))
        for number, ins in enumerate(instructions):
            for register in results_of(ins):
                code.writers[register.name].append(number)
            for register in sources_of(ins):
                code.readers[register.name].append(number)
        return code

    def is_moved_freely(self, number: int, first: int) -> bool:
        """Return whether an instruction can stand where an earlier one does, for all registers written and read."""
        own = {register.name for register in results_of(self.instructions[number])}
        used = own | {register.name for register in sources_of(self.instructions[number])}
        between = range(first, number)
        is_written = any(_is_any(self.writers[name], between) for name in used & self.writers.keys())
        return not is_written and not any(_is_any(self.readers[name], between) for name in own & self.readers.keys())


def _is_any(numbers: Sequence[int], wanted: range) -> bool:
    """Return whether one of these numbers, which rise, lies in a range."""
    return bisect_left(numbers, wanted.start) < bisect_left(numbers, wanted.stop)


def _joined(code: _Code, places: dict[tuple[str, int], Places], zeros: dict[str, int]) -> dict[int, JoinedLoad]:
    found: dict[int, JoinedLoad] = {}
    for (base, word), offsets in places.items():
        left = dict(offsets)
        for nbytes in (_WIDEST, _WIDEST // 2):
            if 2 ** zeros.get(base, 0) < nbytes or nbytes == word:
                continue
            for start in sorted(left):
                group = [start + word * n for n in range(nbytes // word)]
                if start % nbytes or not all(each in left for each in group):
                    continue
                members = tuple(left[each] for each in group)
                if _can_be_one(code, members):
                    first = min(members)
                    shift = start - next(offset for offset in group if left[offset] == first)
                    found |= dict.fromkeys(members, JoinedLoad(members, nbytes, shift))
                    for each in group:
                        del left[each]
    return found


def _can_be_one(code: _Code, members: Sequence[int]) -> bool:
    """Return whether all loads of a group can stand where the first one does."""
    # One machine instruction has one predicate.
    if len({(code.instructions[number].guard, code.instructions[number].guard_negated) for number in members}) > 1:
        return False
    return all(code.is_moved_freely(number, min(members)) for number in members)


def _laid_out(function: Function) -> Function:
    """Return a function whose shared variables are aligned as the compiler knows them to be, having placed them.

    Shared memory starts at a multiple of 16 bytes, so that each variable does where the sizes of all do.
    """
    shared = [v for v in function.variables if v.space == "shared"]
    if any(v.nbytes % _WIDEST for v in shared):
        return function
    aligned = (replace(v, align=max(v.align, _WIDEST)) if v in shared else v for v in function.variables)
    return replace(function, variables=tuple(aligned))


def _low_zero_bits(function: Function) -> dict[str, int]:
    """Return how many low bits of each register are provably zero, at most four."""
    found = {v.name: _power_of_two(v.align) for v in function.variables}
    code = [ins for ins in function.instructions if ins.operands and isinstance(ins.operands[0], Register)]
    known = dict.fromkeys((ins.operands[0].name for ins in code if isinstance(ins.operands[0], Register)), _LARGEST)
    others = (ins for ins in function.instructions if ins.operands and not isinstance(ins.operands[0], Register))
    known |= {register.name: 0 for ins in others for register in results_of(ins)}
    known |= found
    readers: dict[str, list[Instruction]] = defaultdict(list)
    for ins in code:
        for register in dict.fromkeys(each for each in ins.operands[1:] if isinstance(each, Register)):
            readers[register.name].append(ins)
    # From all bits down, until none is wrong: a register loses four at most, and so its readers are seen few times.
    waiting = deque(code)
    while waiting:
        ins = waiting.popleft()
        assert isinstance(ins.operands[0], Register)
        name, bits = ins.operands[0].name, _result(ins, known)
        if bits < known[name] and name not in found:
            known[name] = bits
            waiting.extend(readers[name])
    return known


def _result(ins: Instruction, known: dict[str, int]) -> int:
    """Return the low zero bits of an instruction's result, from those of its operands."""
    bits = []
    for operand in ins.operands[1:]:
        match operand:
            case Register(name):
                bits.append(known.get(name, 0))
            case Symbol(name, offset):
                bits.append(min(known.get(name, 2), _power_of_two(offset)))
            case Immediate(value, "int"):
                bits.append(_power_of_two(value))
            case _:
                bits.append(0)
    shift = next((o.value for o in ins.operands[2:] if isinstance(o, Immediate) and o.kind == "int"), None)
    zeros = 0
    if "hi" in ins.modifiers:
        return zeros
    match ins.root, bits:
        case "mov" | "cvt" | "cvta", [first, *_] if not ins.type.startswith("f"):
            zeros = first
        case "add" | "sub" | "or", [_, *_]:
            zeros = min(bits)
        case "and", [_, *_]:
            zeros = max(bits)
        case "shl", [first, *_] if shift is not None:
            zeros = first + shift
        case "mul", [first, second, *_]:
            zeros = first + second
        case "mad", [first, second, third, *_]:
            zeros = min(first + second, third)
    return min(_LARGEST, zeros)


def _power_of_two(value: int) -> int:
    """Return how many low bits of a number are zero, at most four.

    >>> [_power_of_two(value) for value in (0, 4, 24, 7)]
    [4, 2, 3, 0]
    """
    return _LARGEST if not value else min(_LARGEST, (value & -value).bit_length() - 1)
