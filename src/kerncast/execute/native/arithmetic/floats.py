"""Arithmetic of singles and doubles. Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.3 and 9.7.5.

Directed rounding sets the rounding mode of the CPU around the operation. Approximate functions are computed in double
precision and rounded once, as in the reference engine: the two differ by at most one unit in the last place of a
single, where their mathematical libraries differ in the last place of a double.
"""

from collections.abc import Callable

from kerncast.execute.native.arithmetic import halves
from kerncast.execute.native.block import F32, F64, HALVES, I16, I32, Operation, lowers
from kerncast.execute.native.ir import Emitter, Value, element, integer, real, vector
from kerncast.ptx import COMBINATIONS, TYPE_BITS

_MODES = {"rz": 0, "rn": 1, "rp": 2, "rm": 3}  # as llvm.set.rounding counts them
_CANONICAL_NAN = 0x7FFFFFFF
_LEAST_NORMAL = 2.0**-126
#: Functions of the C library for what LLVM has no vector code for.
_LIBRARY = {"sin": "sin", "cos": "cos", "ex2": "exp2", "lg2": "log2", "tanh": "tanh"}


def rounding_of(o: Operation) -> str:
    """Return the rounding modifier; rn is the default."""
    return next((m for m in o.ins.modifiers if m in _MODES), "rn")


def source(o: Operation, position: int) -> Value:
    """Return a source; .ftz takes subnormal singles as zero."""
    value = o.source(position)
    return flush(o.emit, value) if o.has("ftz") and value.type == F32 else value


def result(o: Operation, value: Value) -> Value:
    """Return a result as the hardware gives it: saturated, with its one NaN, flushed, as the modifiers say."""
    if o.has("sat"):
        value = saturate(o.emit, value)
    value = canonical(o.emit, value)
    return flush(o.emit, value) if o.has("ftz") and value.type == F32 else value


def flush(emit: Emitter, value: Value) -> Value:
    """Return singles with subnormal ones replaced by zero of the same sign."""
    raw = emit.cast("bitcast", value, I32)
    is_small = emit.compare("eq", emit.and_(raw, 0x7F800000), 0)
    flushed = emit.select(is_small, emit.and_(raw, 0x80000000), raw)
    return emit.cast("bitcast", flushed, F32)


def saturate(emit: Emitter, value: Value) -> Value:
    """Return values clamped to [0, 1]; NaN becomes 0."""
    zero, one = real(value.type, 0.0), real(value.type, 1.0)
    below = emit.select(emit.compare("olt", value, one), value, one)
    return emit.select(emit.compare("ogt", value, zero), below, zero)


def canonical(emit: Emitter, value: Value) -> Value:
    """Return singles with every NaN replaced by the one of the hardware; doubles as they are."""
    if value.type != F32:
        return value
    nan = emit.cast("bitcast", integer(I32, _CANONICAL_NAN), F32)
    return emit.select(emit.compare("uno", value, value), nan, value)


def rounded(emit: Emitter, operation: str, mode: str, to: str, *arguments: Value) -> Value:
    """Apply an operation of LLVM under a rounding mode; ``operation`` is fadd, fma, fptrunc, sitofp, …"""
    name = f"{operation}_{mode}_{to}_{element(arguments[0].type)}"
    target = vector(to)
    if name not in emit.unit:
        parameters = [Value(f"%x{i}", a.type) for i, a in enumerate(arguments)]
        inner = Emitter(emit.unit, name, target, parameters, strict=True)
        inner.call_void("llvm.set.rounding", integer("i32", _MODES[mode]))
        value = _constrained(inner, operation, target, parameters)
        inner.call_void("llvm.set.rounding", integer("i32", _MODES["rn"]))
        inner.give(value)
        inner.finish()
    return emit.call(name, target, *arguments)


def _constrained(emit: Emitter, operation: str, target: str, arguments: list[Value]) -> Value:
    short = {"float": "f32", "double": "f64"}
    kinds = [target] + ([arguments[0].type] if operation in {"fptrunc", "sitofp", "uitofp"} else [])
    suffix = ".".join(f"v32{short.get(element(k), element(k))}" for k in kinds)
    words = [Value('!"round.dynamic"', "metadata"), Value('!"fpexcept.ignore"', "metadata")]
    return emit.call(f"llvm.experimental.constrained.{operation}.{suffix}", target, *arguments, *words)


def add_sub_mul(o: Operation) -> Value:
    """Write add, sub or mul."""
    a, b, mode = source(o, 0), source(o, 1), rounding_of(o)
    operation = f"f{o.ins.root}"
    if mode == "rn":
        return result(o, o.emit.binary(operation, a, b))
    return result(o, rounded(o.emit, operation, mode, element(a.type), a, b))


def fused_multiply_add(o: Operation) -> Value:
    """Write fma."""
    factors, mode = [source(o, i) for i in range(3)], rounding_of(o)
    if mode == "rn":
        return result(o, o.emit.intrinsic("fma", *factors))
    return result(o, rounded(o.emit, "fma", mode, element(factors[0].type), *factors))


def divide(o: Operation) -> Value:
    """Write div; .approx and .full are rounded like .rn."""
    a, b, mode = source(o, 0), source(o, 1), rounding_of(o)
    if mode == "rn":
        return result(o, o.emit.binary("fdiv", a, b))
    return result(o, rounded(o.emit, "fdiv", mode, element(a.type), a, b))


def sign(o: Operation) -> Value:
    """Write neg or abs."""
    a = source(o, 0)
    if o.ins.root == "neg":
        return o.emit.op(f"fneg {a.typed}", a.type)
    return o.emit.intrinsic("fabs", a)


def extreme(o: Operation) -> Value:
    """Write min or max of two or three: a number wins over NaN, and -0 is smaller than +0."""
    value = source(o, 0)
    for position in range(1, len(o.ins.operands) - o.first):
        value = _extreme_of_two(o, value, source(o, position))
    return value


def _extreme_of_two(o: Operation, a: Value, b: Value) -> Value:
    emit = o.emit
    value = smaller_or_larger(emit, o.ins.root, a, b)
    if o.has("NaN"):
        nan = emit.binary("fadd", a, b)
        value = emit.select(emit.compare("uno", a, b), nan, value)
        if a.type == F64:
            quiet = emit.cast("bitcast", integer(vector("i64"), 0x7FF8 << 48), F64)
            value = emit.select(emit.compare("uno", a, b), quiet, value)
    return canonical(emit, value)


def smaller_or_larger(emit: Emitter, root: str, a: Value, b: Value) -> Value:
    """Return the minimum or the maximum of two floats."""
    raw = vector("i32" if a.type == F32 else "i64")
    is_negative = emit.compare("slt", emit.cast("bitcast", a, raw), 0)
    by_sign = is_negative if root == "min" else emit.not_(is_negative)
    prefers_a = emit.or_(
        emit.compare("olt" if root == "min" else "ogt", a, b),
        emit.and_(emit.compare("oeq", a, b), by_sign),
    )
    return emit.select(emit.or_(emit.compare("uno", b, b), prefers_a), a, b)


def special_function(o: Operation) -> Value:
    """Write a root, a reciprocal, or a transcendental function."""
    emit, x, mode = o.emit, source(o, 0), rounding_of(o)
    if mode != "rn":
        operation, factors = ("sqrt", [x]) if o.ins.root == "sqrt" else ("fdiv", [real(x.type, 1.0), x])
        return result(o, rounded(emit, operation, mode, element(x.type), *factors))
    if o.ins.root == "sqrt":
        return result(o, emit.intrinsic("sqrt", x))
    exact = function_f64(o, o.ins.root, emit.cast("fpext", x, "double") if x.type == F32 else x)
    if x.type == F32:
        return result(o, emit.cast("fptrunc", exact, "float"))
    return _upper_word(emit, exact) if o.has("ftz") else exact


def _upper_word(emit: Emitter, value: Value) -> Value:
    """Return doubles as .approx.ftz gives them, without their lower word; .approx alone is exact to a unit or two."""
    kept = emit.and_(emit.cast("bitcast", value, vector("i64")), 0xFFFFFFFF00000000)
    return emit.cast("bitcast", kept, F64)


def function_f64(o: Operation, root: str, x: Value) -> Value:
    """Return a special function of doubles."""
    emit, one = o.emit, real(F64, 1.0)
    if root == "rcp":
        return emit.binary("fdiv", one, x)
    if root == "rsqrt":
        return emit.binary("fdiv", one, emit.intrinsic("sqrt", x))
    name = f"each_{root}"
    if name not in emit.unit:
        _define_library_loop(emit, name, _LIBRARY[root])
    return emit.call(name, F64, x, o.block.executing)


def _define_library_loop(outer: Emitter, name: str, function: str) -> None:
    """Write a function that calls one of the C library for each executing lane."""
    x, mask = Value("%x", F64), Value("%mask", "i32")
    emit = Emitter(outer.unit, name, F64, [x, mask])
    place = emit.allocate(F64)
    emit.store(x, place, 64)
    with emit.each_bit(mask) as lane:
        one = emit.index(place, "double", lane)
        emit.store(emit.call(function, "double", emit.load(one, "double")), one)
    emit.give(emit.load(place, F64, 64))
    emit.finish()


@lowers("copysign")
def _copysign(o: Operation) -> Value:
    return o.emit.intrinsic("copysign", o.source(1), o.source(0))


@lowers("testp")
def _test_property(o: Operation) -> Value:
    emit, x = o.emit, o.source(0)
    size = emit.intrinsic("fabs", x)
    infinity = real(x.type, float("inf"))
    least = real(x.type, _LEAST_NORMAL if x.type == F32 else 2.0**-1022)
    zero = real(x.type, 0.0)
    tests: dict[str, Callable[[], Value]] = {
        "finite": lambda: emit.compare("olt", size, infinity),
        "infinite": lambda: emit.compare("oeq", size, infinity),
        "number": lambda: emit.compare("ord", x, x),
        "notanumber": lambda: emit.compare("uno", x, x),
        "subnormal": lambda: emit.and_(emit.compare("olt", size, least), emit.compare("ogt", size, zero)),
        "normal": lambda: emit.and_(
            emit.compare("olt", size, infinity),
            emit.or_(emit.compare("oge", size, least), emit.compare("oeq", size, zero)),
        ),
    }
    return next(test() for name, test in tests.items() if o.has(name))


# Comparisons and conversions between types. Source: NVIDIA, PTX ISA 8.8, sections 9.7.6 and 9.7.9.21.


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
        c = flush(o.emit, c)
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
        a, b = flush(emit, a), flush(emit, b)
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
        value = flush(emit, value)
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
        value = saturate(o.emit, value)
    if o.has("relu"):
        value = _relu(o, value)
    return value if value.type == F64 else _flushed(o, canonical(o.emit, value))


def _to_whole(o: Operation, value: Value) -> Value:
    for name, function in _TO_WHOLE.items():
        if o.has(name):
            value = o.emit.intrinsic(function, value)
    return value


def _relu(o: Operation, value: Value) -> Value:
    zero = real(value.type, 0.0)
    return o.emit.select(o.emit.compare("ole", value, zero), zero, value)


def _flushed(o: Operation, value: Value) -> Value:
    return flush(o.emit, value) if o.has("ftz") else value


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
    operation, mode = ("sitofp" if signed else "uitofp"), rounding_of(o)
    kind = "float" if target == "f32" else "double"
    if mode == "rn":
        number = o.emit.cast(operation, value, kind)
    else:
        wide = o.emit.resize(value, "i64", signed=signed)
        number = rounded(o.emit, operation, mode, kind, wide)
    return saturate(o.emit, number) if o.has("sat") else number


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
        exact = saturate(emit, exact)
    if o.has("relu"):
        exact = _relu(o, exact)
    if target == "f64":
        return exact
    mode = rounding_of(o)
    if target in _HALVES:
        return halves.from_f64(emit, exact, target, mode)
    nearest = mode == "rn"
    single = emit.cast("fptrunc", exact, "float") if nearest else rounded(emit, "fptrunc", mode, "float", exact)
    return _flushed(o, canonical(emit, single))


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
