"""Comparisons and conversions between types. Source: NVIDIA, PTX ISA 8.8, sections 9.7.6 and 9.7.9.21."""

from kerncast.execute.native.arithmetic import floats, halves
from kerncast.execute.native.ir import Value, integer, real, vector
from kerncast.execute.native.lowering import F32, F64, HALVES, I16, I32, Operation, lowers
from kerncast.ptx import COMBINATIONS, TYPE_BITS

# Comparison and selection. Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.6 and 9.7.7.


_INTEGER = {
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "lo": "ult", "ls": "ule", "hi": "ugt",
    "hs": "uge", "equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge",
}  # fmt: skip
_FLOAT = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq", "neu": "une",
    "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno", "lo": "olt", "ls": "ole",
    "hi": "ogt", "hs": "oge",
}  # fmt: skip
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
    combine = next((m for m in o.ins.modifiers if m in COMBINATIONS), None)
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


# Conversions between types. Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.9.21.


_TO_WHOLE = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_HALVES = {"f16", "bf16"}
_FLOATS = {"f16", "bf16", "f32", "f64"}


@lowers("cvt")
def _convert(o: Operation) -> Value:
    target, source = o.ins.types
    emit = o.emit
    if target in {"f16x2", "bf16x2"}:  # two singles: the first becomes the upper half
        kind = halves.kind_of(target)
        high, low = (_to_float(o, emit.cast("fpext", o.source(i, "f32"), "double"), kind) for i in (0, 1))
        return halves.pack(emit, low, high)
    value = o.source(0, source)
    if source not in _FLOATS:
        return _from_integer(o, value, target)
    if o.has("ftz") and source == "f32":
        value = floats.flush(emit, value)
    if (source, target) == ("f32", "f32") or (source, target) == ("f64", "f64"):
        return _same(o, value)
    exact = halves.to_f64(emit, value, source) if source in _HALVES else value
    exact = emit.cast("fpext", exact, "double") if exact.type == F32 else exact
    exact = _to_whole(o, exact)
    if target in _FLOATS:
        return _to_float(o, exact, target)
    return _to_integer(o, emit.intrinsic("trunc", exact), target, source)


def _same(o: Operation, value: Value) -> Value:
    value = _to_whole(o, value)
    if o.has("sat"):
        value = floats.saturate(o.emit, value)
    if o.has("relu"):
        value = _relu(o, value)
    return value if value.type == F64 else _flushed(o, floats.canonical(o.emit, value))


def _to_whole(o: Operation, value: Value) -> Value:
    for name, function in _TO_WHOLE.items():
        if o.has(name):
            value = o.emit.intrinsic(function, value)
    return value


def _relu(o: Operation, value: Value) -> Value:
    zero = real(value.type, 0.0)
    return o.emit.select(o.emit.compare("ole", value, zero), zero, value)


def _flushed(o: Operation, value: Value) -> Value:
    return floats.flush(o.emit, value) if o.has("ftz") else value


def _from_integer(o: Operation, value: Value, target: str) -> Value:
    emit = o.emit
    signed = o.ins.types[1].startswith("s")
    if target in {"f32", "f64"}:
        return _integer_to_float(o, value, target, signed=signed)
    if target in _HALVES:
        return _to_float(o, _integer_to_odd(o, value, signed=signed), target)
    if o.has("sat"):
        value = _clamp(o, value, target, signed=signed)
    return emit.resize(value, f"i{TYPE_BITS[target]}", signed=signed)


def _integer_to_float(o: Operation, value: Value, target: str, *, signed: bool) -> Value:
    operation, mode = ("sitofp" if signed else "uitofp"), floats.rounding_of(o)
    kind = "float" if target == "f32" else "double"
    if mode == "rn":
        number = o.emit.cast(operation, value, kind)
    else:
        wide = o.emit.resize(value, "i64", signed=signed)
        number = floats.rounded(o.emit, operation, mode, kind, wide)
    return floats.saturate(o.emit, number) if o.has("sat") else number


def _integer_to_odd(o: Operation, value: Value, *, signed: bool) -> Value:
    """Return integers as doubles, rounded to odd: a multiple of 2**32 and a rest, both exact."""
    emit = o.emit
    wide = emit.resize(value, "i64", signed=signed)
    upper = emit.ashr(wide, 32) if signed else emit.lshr(wide, 32)
    high = emit.binary("fmul", emit.cast("sitofp", upper, "double"), real(F64, 2.0**32))
    low = emit.cast("uitofp", emit.and_(wide, 0xFFFFFFFF), "double")
    return halves.sum_to_odd(emit, high, low)


def _clamp(o: Operation, value: Value, target: str, *, signed: bool) -> Value:
    """Clamp an integer to what the target holds."""
    width, own = TYPE_BITS[target], TYPE_BITS[o.ins.types[1]]
    to_signed = target.startswith("s")
    highest = (1 << (width - to_signed)) - 1
    lowest = -(1 << (width - 1)) if to_signed else 0
    own_highest, own_lowest = (1 << (own - signed)) - 1, (-(1 << (own - 1)) if signed else 0)
    letter = "s" if signed else "u"
    value = o.emit.intrinsic(f"{letter}max", value, integer(value.type, max(lowest, own_lowest)))
    return o.emit.intrinsic(f"{letter}min", value, integer(value.type, min(highest, own_highest)))


def _to_float(o: Operation, exact: Value, target: str) -> Value:
    emit = o.emit
    if o.has("sat"):
        exact = floats.saturate(emit, exact)
    if o.has("relu"):
        exact = _relu(o, exact)
    if target == "f64":
        return exact
    mode = floats.rounding_of(o)
    if target in _HALVES:
        return halves.from_f64(emit, exact, target, mode)
    if mode == "rn":
        single = emit.cast("fptrunc", exact, "float")
    else:
        single = floats.rounded(emit, "fptrunc", mode, "float", exact)
    return _flushed(o, floats.canonical(emit, single))


def _to_integer(o: Operation, whole: Value, target: str, source: str) -> Value:
    """Clamp to the target's range; NaN gives 0, or the highest bit where a 64-bit type takes part."""
    emit, width, to_signed = o.emit, TYPE_BITS[target], target.startswith("s")
    kind = f"i{max(width, 32)}"
    result = emit.call(f"llvm.fpto{'s' if to_signed else 'u'}i.sat.v32{kind}.v32f64", vector(kind), whole)
    if width < 32:
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if to_signed else (0, (1 << width) - 1)
        letter = "s" if to_signed else "u"
        result = emit.intrinsic(f"{letter}max", result, integer(result.type, low)) if to_signed else result
        result = emit.resize(emit.intrinsic(f"{letter}min", result, integer(result.type, high)), f"i{width}")
    if source == "f64" or width == 64:
        highest_bit = integer(result.type, 1 << (width - 1))
        result = emit.select(emit.compare("uno", whole, whole), highest_bit, result)
    return result
