"""Arithmetic of singles and doubles. Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.3 and 9.7.5.

Directed rounding sets the rounding mode of the CPU around the operation. Approximate functions are computed in double
precision and rounded once, as in the reference engine: the two differ by at most one unit in the last place of a
single, where their mathematical libraries differ in the last place of a double.
"""

from collections.abc import Callable

from kerncast.execute.native.block import F32, F64, I32, Operation, lowers
from kerncast.execute.native.ir import Emitter, Value, element, integer, real, vector

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
