"""Registers that hold one number wherever they are read, and what they tell of products in tensor memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kerncast.ptx.module import (
    TYPE_BITS,
    Address,
    Function,
    Immediate,
    Instruction,
    Operand,
    Register,
    Vector,
    results_of,
)
from kerncast.ptx.tensor_layouts import kind_of

#: What is folded: integer arithmetic that descriptors are put together by.
_FOLDS: Mapping[str, Callable[..., int]] = {
    "mov": lambda a: a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b if b < 64 else 0,
    "shr": lambda a, b: a >> b if b < 64 else 0,
    "bfi": lambda a, b, at, count: b & ~(_ones(count) << at) | (a & _ones(count)) << at,
}
_ONLY_LOW = {"mul": "lo", "mad": "lo"}
_WORD = 0xFFFFFFFF


def _ones(count: int) -> int:
    return (1 << min(count, 64)) - 1


class Constants:
    """The registers of a function that have one value, whoever reads them and when."""

    def __init__(self, function: Function) -> None:
        self._makers: dict[str, list[Instruction]] = {}
        for ins in function.instructions:
            for register in results_of(ins):
                self._makers.setdefault(register.name, []).append(ins)
        self._known: dict[str, int | None] = {}

    def of(self, operand: Operand) -> int | None:
        """Return the value of an operand without its sign; None where it may have several, or none is known."""
        if isinstance(operand, Immediate):
            return operand.value if operand.kind == "int" else None
        if not isinstance(operand, Register):
            return None
        if operand.name not in self._known:
            self._known[operand.name] = None  # what is made of itself has no value
            made = {self._made(ins) for ins in self._makers.get(operand.name, ())}
            self._known[operand.name] = made.pop() if len(made) == 1 else None
        return self._known[operand.name]

    def _made(self, ins: Instruction) -> int | None:
        fold = _FOLDS.get(ins.root)
        is_whole = ins.type[:1] in {"u", "s", "b"} and _ONLY_LOW.get(ins.root, "") in {"", *ins.modifiers}
        if fold is None or ins.guard is not None or not is_whole or isinstance(ins.operands[0], Vector):
            return None
        values = [self.of(operand) for operand in ins.operands[1:]]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        try:
            return int(fold(*known)) & _ones(TYPE_BITS[ins.type])
        except (TypeError, ValueError):  # not as many operands as it has
            return None


@dataclass(frozen=True, slots=True)
class DescribedProduct:
    """What one tcgen05.mma computes."""

    m: int
    n: int
    k: int
    a: str
    """type of A, or of the two of 8-bit floats the first: products of one kind are as fast"""
    total: str

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k


_SPARSE = 4


def described_product(ins: Instruction, constants: Constants) -> DescribedProduct | None:
    """Return what a tcgen05.mma computes; None where its descriptor is not constant, or tells of no dense product.

    Of a pair of blocks (``cta_group::2``) one thread asks for the product of both.
    """
    if not ins.opcode.name.startswith("tcgen05.mma") or "sp" in ins.modifiers:
        return None
    named = kind_of(ins.modifiers)
    others = [each for each in ins.operands[3:] if not isinstance(each, Address | Vector)]
    word = constants.of(others[0]) if others else None
    if named is None or word is None or word & _SPARSE:
        return None
    word &= _WORD
    a = named.formats.get(word >> 7 & 7)
    total = "f32" if named.is_scaled else named.totals.get(word >> 4 & 3)
    m = 128 * (word >> 27 & 3) if named.is_scaled else 16 * (word >> 24 & 31)
    n = 8 * (word >> 17 & 63)
    if a is None or total is None or not m or not n:
        return None
    return DescribedProduct(m, n, named.k, {"u8": "s8", "e5m2": "e4m3"}.get(a, a), total)
