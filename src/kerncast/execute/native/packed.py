"""Instructions on words that hold several values: two singles, two short integers or four bytes.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.1, 9.7.3 and 9.7.16.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kerncast.execute.native import halves
from kerncast.execute.native.ir import Value, element, integer
from kerncast.execute.native.lowering import F32, I32, Operation, lowers

_CONDITIONS = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
TYPES = frozenset({"f32x2", "u16x2", "s16x2"})


@dataclass(frozen=True, slots=True)
class _Single(Operation):
    """One of the two operations on singles that an instruction of type f32x2 consists of."""

    shift: int = 0
    """where its operands begin in their registers"""

    def source(self, position: int, type_name: str | None = None) -> Value:
        """Return a source of this operation."""
        del type_name
        word = self.block.source(self.ins.operands[self.first + position], "b64")
        return self.emit.cast("bitcast", self.emit.resize(self.emit.lshr(word, self.shift), "i32"), F32)


def arithmetic(o: Operation, lowering: Callable[[Operation], Value]) -> Value:
    """Write an instruction on two values; ``lowering`` writes that on one single."""
    if o.type != "f32x2":
        return _shorts(o)
    one = replace(o.ins, modifiers=tuple("f32" if m == "f32x2" else m for m in o.ins.modifiers))
    low, high = (o.emit.cast("bitcast", lowering(_Single(one, o.block, o.first, shift)), I32) for shift in (0, 32))
    return o.emit.or_(o.emit.resize(low, "i64"), o.emit.shl(o.emit.resize(high, "i64"), 32))


def _shorts(o: Operation) -> Value:
    """Write add, min or max on two short integers."""
    emit = o.emit
    (a_low, a_high), (b_low, b_high) = (halves.unpack(emit, o.source(i)) for i in (0, 1))
    return halves.pack(emit, _short(o, a_low, b_low), _short(o, a_high, b_high))


def _short(o: Operation, a: Value, b: Value) -> Value:
    if o.ins.root == "add":
        return o.emit.add(a, b)
    result = o.emit.intrinsic(f"{'s' if o.is_signed else 'u'}{o.ins.root}", a, b)
    return o.emit.intrinsic("smax", result, integer(result.type, 0)) if o.has("relu") else result


@lowers(*(f"v{name}{count}" for name in ("add", "sub", "avrg", "min", "max", "absdiff", "set") for count in (2, 4)))
def _video(o: Operation) -> Value:
    """Write an operation on four bytes or two short integers, whose results stand side by side or are added up."""
    emit, width = o.emit, 8 if o.ins.root.endswith("4") else 16
    words = [(o.source(i, "u32"), kind == "s32") for i, kind in enumerate(o.ins.types[-2:])]
    total = o.source(2, "u32") if o.has("add") else integer(I32, 0)
    for place in range(0, 32, width):
        a, b = (
            (emit.ashr if signed else emit.lshr)(emit.shl(word, 32 - width - place), 32 - width)
            for word, signed in words
        )
        result = _saturated(o, _part(o, a, b), width) if o.has("sat") else _part(o, a, b)
        if o.has("add"):
            total = emit.add(total, result)
        else:
            total = emit.or_(total, emit.shl(emit.and_(result, (1 << width) - 1), place))
    return total


def _part(o: Operation, a: Value, b: Value) -> Value:
    emit, name = o.emit, o.ins.root[1:-1]
    if name in {"min", "max"}:  # both are extended, so that they compare as signed numbers
        return emit.intrinsic(f"s{name}", a, b)
    if name == "set":
        condition = next(m for m in o.ins.modifiers if m in _CONDITIONS)
        return emit.cast("zext", emit.compare(_CONDITIONS[condition], a, b), "i32")
    if name in {"add", "avrg"}:
        total = emit.add(a, b)
        up = emit.cast("zext", emit.compare("sge", total, 0), "i32")
        return total if name == "add" else emit.ashr(emit.add(total, up), 1)
    difference = emit.sub(a, b)
    if name == "sub":
        return difference
    return emit.call(f"llvm.abs.v32{element(I32)}", I32, difference, Value("false", "i1"))


def _saturated(o: Operation, value: Value, width: int) -> Value:
    is_signed = o.ins.types[0] == "s32"
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
    return o.emit.intrinsic("smax", o.emit.intrinsic("smin", value, integer(I32, high)), integer(I32, low))
