"""Which machine instructions do exactly what one PTX instruction does, so that they count its executions.

Address arithmetic is merged, moved and shared among the copies of a loop; memory accesses, barriers and floating-point
arithmetic are not: as often as the PTX does them, the machine code does.
"""

from kerncast.compile.sass import MachineInstruction
from kerncast.ptx.module import TYPE_BITS, Instruction, Vector

_LOADS, _STORES, _ATOMICS = {"ld", "ldu"}, {"st"}, {"atom", "red"}
_ACCESSES = {
    "LDG": _LOADS, "LD": _LOADS, "LDS": _LOADS, "LDL": _LOADS,
    "STG": _STORES, "ST": _STORES, "STS": _STORES, "STL": _STORES,
}  # fmt: skip
_OTHERS = {
    "ATOM": _ATOMICS, "ATOMG": _ATOMICS, "ATOMS": _ATOMICS, "RED": _ATOMICS, "REDG": _ATOMICS,
    "BAR": {"bar", "barrier"}, "SHFL": {"shfl"}, "MUFU": {"ex2", "lg2", "sin", "cos"},
}  # fmt: skip
#: By the first letter of FADD, DADD and the like; packed halves are left out, as they also load constants.
_FLOATS = {"F": "f32", "D": "f64"}
_ARITHMETIC = {"FMA": {"fma", "mad"}, "ADD": {"add", "sub"}, "MUL": {"mul"}}
_WIDE = {"64": 64, "128": 128, "U8": 8, "S8": 8, "U16": 16, "S16": 16}
_WORD = 32

#: Their places say little of the place in the PTX that they stand for: control, constants, special registers.
_FLOATING = frozenset({
    "BSYNC", "BSSY", "BREAK", "BMOV", "NOP", "WARPSYNC", "YIELD", "BRA", "EXIT", "RET", "CALL", "DEPBAR",
    "MOV", "LDC", "S2R", "CS2R", "PLOP3", "P2R", "R2P",
})  # fmt: skip


def is_anchor(machine: MachineInstruction, ptx: Instruction) -> bool:
    """Return whether a machine instruction is executed once for each execution of a PTX instruction."""
    opcode = machine.opcode
    if opcode in _ACCESSES:
        return ptx.root in _ACCESSES[opcode] and _bits(machine) == _access_bits(ptx)
    if opcode in _OTHERS:
        return ptx.root in _OTHERS[opcode]
    return ptx.root in _ARITHMETIC.get(opcode[1:], ()) and ptx.type == _FLOATS.get(opcode[0])


def stays_in_place(machine: MachineInstruction) -> bool:
    """Return whether an instruction is likely to run as often as its line; uniform ones are moved out of loops."""
    return machine.opcode not in _FLOATING and not machine.opcode.startswith("U")


def _bits(machine: MachineInstruction) -> int:
    return next((_WIDE[m] for m in machine.modifiers if m in _WIDE), _WORD)


def _access_bits(ptx: Instruction) -> int:
    data = next((o for o in ptx.operands if isinstance(o, Vector)), None)
    return TYPE_BITS.get(ptx.type, 0) * (len(data.elements) if data else 1)
