"""Refuses by name, before the kernel starts, what the engine does not cover.

A modifier that is not listed for its opcode is refused too, so that none is silently ignored.
"""

from kerncast.errors import UnsupportedError
from kerncast.execute.forms import FORMS, NEEDED, Form
from kerncast.execute.specials import SPECIALS
from kerncast.ptx.module import (
    TYPE_BITS,
    Address,
    Function,
    Instruction,
    Label,
    Negated,
    Opaque,
    Operand,
    Register,
    Sink,
    Special,
    Vector,
)

_CURES = {
    name: cure
    for names, cure in {
        "mma wmma wgmma ldmatrix stmatrix movmatrix tcgen05": "Tensor-core instructions are not executed yet.",
        "cp mbarrier tensormap": "Asynchronous copies are not executed yet.",
        "tex tld4 txq suld sust sured suq istypep": "Textures and surfaces are not executed yet.",
        "mapa getctarank clusterlaunchcontrol multimem barrier.cluster": "Clusters of blocks are not executed yet.",
    }.items()
    for name in names.split()
}
_WITHOUT_RESULT = {"st", "red", "bra", "brx", "call", "nanosleep", "pmevent", "prefetch", "prefetchu"}
_WITH_VECTOR = {"mov", "ld", "ldu", "st", "atom", "red"}
_WITH_NEGATED = {"setp", "set", "vote", "bar", "barrier"}
_WITH_LABEL = {"bra": 0, "brx": 1}


def check_supported(function: Function) -> None:
    """Raise UnsupportedError for the first instruction that the engine does not cover."""
    for instruction in function.instructions:
        if not any(_fits(instruction, form) for form in FORMS.get(instruction.root, ())):
            raise UnsupportedError(
                f"PTX instruction {instruction.name} is not supported",
                where=instruction.where or function.name,
                cure=_cure(instruction),
            )
        _check_specials(instruction, function)


def _cure(ins: Instruction) -> str | None:
    return next((cure for name, cure in _CURES.items() if f"{ins.name}.".startswith(f"{name}.")), None)


def _fits(ins: Instruction, form: Form) -> bool:
    others = [m for m in ins.modifiers if m not in TYPE_BITS]
    needed = NEEDED.get(ins.root)
    return (
        len(ins.types) == len(form.types)
        and all(given in allowed for given, allowed in zip(ins.types, form.types, strict=True))
        and form.modifiers.issuperset(others)
        and len(set(others)) == len(others)
        and len(ins.operands) in form.operands
        and (needed is None or any(m in needed.split() for m in others))
        and all(_is_operand(ins, form, position) for position in range(len(ins.operands)))
        and _has_result(ins)
    )


def _is_operand(ins: Instruction, form: Form, position: int) -> bool:
    """Return whether an operand is of a kind that the instruction takes at this position."""
    operand = ins.operands[position]
    if position == form.address:
        return isinstance(operand, Address)
    if isinstance(operand, Label) or _WITH_LABEL.get(ins.root) == position:
        return isinstance(operand, Label) and _WITH_LABEL.get(ins.root) == position
    if isinstance(operand, Vector):
        return ins.root in _WITH_VECTOR and _is_vector(ins, operand)
    if isinstance(operand, Negated):
        return ins.root in _WITH_NEGATED
    width = next((int(m[1]) for m in ins.modifiers if m in {"v2", "v4", "v8"}), 1)
    return not isinstance(operand, Address | Opaque) and (width == 1 or ins.root == "mov")


def _is_vector(ins: Instruction, vector: Vector) -> bool:
    count = len(vector.elements)
    if any(isinstance(element, Vector | Address | Opaque | Label) for element in vector.elements):
        return False
    if ins.root != "mov":
        return f"v{count}" in ins.modifiers
    both = sum(isinstance(operand, Vector) for operand in ins.operands)
    sizes = {2} if ins.type == "b128" else {2, 4, 8}
    return both == 1 and count in sizes and TYPE_BITS[ins.type] // count >= 8


def _has_result(ins: Instruction) -> bool:
    if ins.root in _WITHOUT_RESULT or not ins.operands or (ins.root in {"bar", "barrier"} and not ins.types):
        return True
    target = ins.operands[0]
    elements: tuple[Operand, ...] = target.elements if isinstance(target, Vector) else (target,)
    return all(isinstance(element, Register | Sink) for element in elements)


def _check_specials(instruction: Instruction, function: Function) -> None:
    for operand in instruction.operands:
        if isinstance(operand, Special) and operand.name not in SPECIALS:
            # The driver hands the barrier of a cooperative launch over in these registers.
            is_grid_wide = operand.name.startswith("%envreg")
            raise UnsupportedError(
                f"special register {operand.name} is not supported",
                where=instruction.where or function.name,
                cure="Barriers of the whole grid (cooperative groups, grid.sync()) are not executed."
                if is_grid_wide
                else None,
            )
