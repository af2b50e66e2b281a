"""Comparison and selection. Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.6 and 9.7.7."""

from kerncast.execute.native import floats, halves
from kerncast.execute.native.ir import Value, integer, real
from kerncast.execute.native.lowering import F32, F64, HALVES, I16, I32, Operation, lowers
from kerncast.ptx.module import TYPE_BITS

_INTEGER = {
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "lo": "ult", "ls": "ule", "hi": "ugt",
    "hs": "uge", "equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge",
}  # fmt: skip
_FLOAT = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq", "neu": "une",
    "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno", "lo": "olt", "ls": "ole",
    "hi": "ogt", "hs": "oge",
}  # fmt: skip
_COMBINATIONS = ("and", "or", "xor")
_ONE = {"f16": 0x3C00, "bf16": 0x3F80}


def set_predicate(o: Operation) -> None:
    """Write setp: one or two results, which may be combined with a third predicate."""
    results = o.ins.operands[: o.first]
    if o.type.endswith("x2"):  # of packed halves each gives one result
        both = _compare_packed(o)
    else:
        one = _compare(o, o.source(0), o.source(1))
        both = (one, o.emit.not_(one)) if len(results) > 1 else (one, one)
    both = (_combined(o, both[0]), _combined(o, both[1]))
    for target, value in zip(results, both, strict=False):
        o.block.write(target, value)


@lowers("set")
def _set(o: Operation) -> Value:
    emit, target = o.emit, o.ins.types[0]
    if o.type.endswith("x2"):
        one = _ONE[halves.kind_of(target)] if target.endswith("x2") else -1
        results = [_combined(o, truth) for truth in _compare_packed(o)]
        return halves.pack(emit, *(emit.select(truth, integer(I16, one), 0) for truth in results))
    truth = _combined(o, _compare(o, o.source(0), o.source(1)))
    if target in _ONE:
        return emit.resize(emit.select(truth, integer(I32, _ONE[target]), 0), "i16")
    if target == "f32":
        return emit.select(truth, real(F32, 1.0), real(F32, 0.0))
    return emit.cast("sext", truth, f"i{TYPE_BITS[target]}")


def _combined(o: Operation, truth: Value) -> Value:
    """Combine the result of a comparison with a predicate, where the instruction has one."""
    combine = next((m for m in o.ins.modifiers if m in _COMBINATIONS), None)
    return truth if combine is None else o.emit.binary(combine, truth, o.source(2, "pred"))


@lowers("selp")
def _select(o: Operation) -> Value:
    return o.emit.select(o.source(2, "pred"), o.source(0), o.source(1))


@lowers("slct")
def _select_by_sign(o: Operation) -> Value:
    value, control = o.ins.types
    c = o.source(2, control)
    if o.has("ftz"):
        c = floats.flush(o.emit, c)
    positive = o.emit.compare("oge", c, real(F32, 0.0)) if control == "f32" else o.emit.compare("sge", c, 0)
    return o.emit.select(positive, o.source(0, value), o.source(1, value))


def _compare_packed(o: Operation) -> tuple[Value, Value]:
    (a_low, a_high), (b_low, b_high) = (halves.unpack(o.emit, o.source(i)) for i in (0, 1))
    return _compare(o, a_low, b_low), _compare(o, a_high, b_high)


def _compare(o: Operation, a: Value, b: Value) -> Value:
    emit = o.emit
    if o.type in HALVES:
        kind = halves.kind_of(o.type)
        a, b = (halves.flushed(o, halves.to_f64(emit, x, kind)) for x in (a, b))
    elif o.has("ftz") and a.type == F32:
        a, b = floats.flush(emit, a), floats.flush(emit, b)
    if a.type in {F32, F64}:
        return emit.compare(next(_FLOAT[m] for m in o.ins.modifiers if m in _FLOAT), a, b)
    condition = next(_INTEGER[m] for m in o.ins.modifiers if m in _INTEGER)
    if condition in {"lt", "le", "gt", "ge"}:
        condition = ("s" if o.is_signed else "u") + condition
    return emit.compare(condition, a, b)
