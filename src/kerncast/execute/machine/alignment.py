"""Which loads from shared memory the compiler joins into wider ones: neighbours whose alignment it can prove."""

from collections import defaultdict

from kerncast.ptx.cfg import ControlFlowGraph
from kerncast.ptx.module import Address, Function, Immediate, Instruction, Register, Symbol

_LARGEST = 4
"""powers of two: 16 bytes, the widest load"""
_WIDEST = 16


def merged_accesses(function: Function, cfg: ControlFlowGraph) -> set[int]:
    """Return the loads from shared memory that another load of the same block takes in.

    Loads of 4 bytes each with one base, at 2 or 4 neighbouring places whose first is a multiple of their size, are one
    load. Stores are left out: the compiler seldom joins them.
    """
    zeros = _low_zero_bits(function)
    taken: set[int] = set()
    for block in cfg.blocks:
        places: dict[str, dict[int, int]] = defaultdict(dict)
        for number in range(block.start, block.stop):
            ins = function.instructions[number]
            address = ins.operands[-1] if ins.operands else None
            if ins.root == "ld" and ins.space == "shared" and ins.type.endswith("32") and isinstance(address, Address):
                if isinstance(address.base, Register | Symbol) and isinstance(ins.operands[0], Register):
                    places[address.base.name].setdefault(address.offset, number)
            elif ins.root in {"bar", "barrier", "st", "atom"}:
                taken |= _joined(places, zeros)
                places.clear()
        taken |= _joined(places, zeros)
    return taken


def _joined(places: dict[str, dict[int, int]], zeros: dict[str, int]) -> set[int]:
    taken: set[int] = set()
    for base, offsets in places.items():
        left = dict(offsets)
        for width in (_WIDEST, _WIDEST // 2):
            if 2 ** zeros.get(base, 0) < width:
                continue
            for first in sorted(left):
                group = [first + 4 * n for n in range(width // 4)]
                if first % width == 0 and all(each in left for each in group):
                    taken.update(left[each] for each in group[1:])
                    for each in group:
                        del left[each]
    return taken


def _low_zero_bits(function: Function) -> dict[str, int]:
    """Return how many low bits of each register are provably zero, at most four."""
    found = {v.name: _power_of_two(v.align) for v in function.variables}
    code = [ins for ins in function.instructions if ins.operands and isinstance(ins.operands[0], Register)]
    known = dict.fromkeys((ins.operands[0].name for ins in code if isinstance(ins.operands[0], Register)), _LARGEST)
    for _ in range(_LARGEST * 4):
        new = dict.fromkeys(known, _LARGEST)
        for ins in code:
            assert isinstance(ins.operands[0], Register)
            name = ins.operands[0].name
            new[name] = min(new[name], _result(ins, known | found))
        if new == known:
            break
        known = new
    return known | found


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
