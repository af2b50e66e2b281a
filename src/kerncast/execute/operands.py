"""Refuses instructions whose modifiers and operands do not go together, before code is written for them.

ptxas refuses them too; PTX that was never seen by it may hold anything.
"""

from kerncast.errors import UnsupportedError
from kerncast.execute.forms import NEEDED
from kerncast.ptx.module import TYPE_BITS, Function, Instruction, Register

_WIDTHS = {"v2", "v4", "v8"}
_COMBINATIONS = {"and", "or", "xor"}
_MOST_RESULTS = {"set": 1, "setp": 2}
_FLOATS = {"f16", "bf16", "f16x2", "bf16x2", "f32", "f64"}


def check_operands(function: Function) -> None:
    """Raise UnsupportedError for the first instruction that cannot be meant."""
    for ins in function.instructions:
        if not (_names_one(ins) and _compares(ins) and _reduces_into(ins)):
            what = f"PTX instruction {ins.name} with these operands is not supported"
            raise UnsupportedError(what, where=ins.where or function.name)


def _names_one(ins: Instruction) -> bool:
    """Return whether the opcode names one operation and one vector width, where it has to."""
    needed = NEEDED.get(ins.root, "").split()
    return sum(m in needed for m in ins.modifiers) == bool(needed) and sum(m in _WIDTHS for m in ins.modifiers) < 2


def _compares(ins: Instruction) -> bool:
    """Return whether a comparison has the operands that its modifiers ask for; only floats can be unordered."""
    if ins.root not in _MOST_RESULTS:
        return True
    combinations = sum(m in _COMBINATIONS for m in ins.modifiers)
    results = len(ins.operands) - 2 - combinations
    ordered = ins.type in _FLOATS or {"num", "nan"}.isdisjoint(ins.modifiers)
    return combinations < 2 and ordered and 1 <= results <= _MOST_RESULTS[ins.root]


def _reduces_into(ins: Instruction) -> bool:
    """Return whether bar.red has a result of the size that the scheduler writes where the register lies."""
    if ins.root not in {"bar", "barrier"} or "red" not in ins.modifiers or not isinstance(ins.operands[0], Register):
        return True
    return TYPE_BITS[ins.operands[0].type] == (32 if "popc" in ins.modifiers else 1)
