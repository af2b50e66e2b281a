"""What single PTX instructions compute, one thread at a time, with Python integers and fractions.

An independent second opinion: nothing here comes from ``kerncast``. It follows the pseudo-code of the PTX ISA 8.8,
bit by bit where that is written so, and is slow.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import NamedTuple

#: Floating-point type: bits of the exponent, bits of the fraction.
FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
WIDTHS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32, "u32": 32,
    "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64,
    "u16x2": 32, "s16x2": 32, "f32x2": 64, "tf32": 32, "u2": 2, "s2": 2, "u4": 4, "s4": 4,
    "e4m3x2": 16, "e5m2x2": 16, "e2m3x2": 16, "e3m2x2": 16, "e2m1x2": 8, "ue8m0x2": 16,
}  # fmt: skip
_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8000000000000}
#: Small floating-point type: bits of the exponent, bits of the fraction, bias, largest number, what NaN becomes.
SMALL = {
    "e4m3": (4, 3, 7, Fraction(448), 0x7F), "e5m2": (5, 2, 15, Fraction(57344), 0x7F),
    "e2m3": (2, 3, 1, Fraction(15, 2), 0x1F), "e3m2": (3, 2, 3, Fraction(28), 0x1F),
    "e2m1": (2, 1, 1, Fraction(6), 0x7),
}  # fmt: skip
_PAIRS = {"f16x2", "bf16x2", "ue8m0x2", *(f"{name}x2" for name in SMALL)}
_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


class Number(NamedTuple):
    """A floating-point value: kind is nan, inf or finite; the magnitude counts for finite ones."""

    kind: str
    negative: bool = False
    magnitude: Fraction = Fraction(0)

    @property
    def exact(self) -> Fraction:
        """The value of a finite number."""
        return -self.magnitude if self.negative else self.magnitude


NAN = Number("nan")


def finite(value: Fraction | int) -> Number:
    """Return a value as a number; zero is positive."""
    return Number("finite", value < 0, abs(Fraction(value)))


def decode(bits: int, kind: str) -> Number:
    """Return the value of a bit pattern."""
    exponent_bits, fraction_bits = FLOATS[kind]
    negative = bool(bits >> (exponent_bits + fraction_bits) & 1)
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    if exponent == (1 << exponent_bits) - 1:
        return NAN if fraction else Number("inf", negative)
    bias = (1 << (exponent_bits - 1)) - 1
    significand = fraction + (1 << fraction_bits if exponent else 0)
    return Number("finite", negative, Fraction(2) ** (max(exponent, 1) - bias - fraction_bits) * significand)


def encode(number: Number, kind: str, mode: str = "rn") -> int:
    """Round a number to a type and return its bit pattern."""
    exponent_bits, fraction_bits = FLOATS[kind]
    sign = int(number.negative) << (exponent_bits + fraction_bits)
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    if number.kind == "nan":
        return _NAN[kind]
    if number.kind == "inf":
        return sign | infinity
    if not number.magnitude:
        return sign
    least = 2 - (1 << (exponent_bits - 1))
    exponent = max(_floor_log2(number.magnitude), least)
    scaled = number.magnitude / Fraction(2) ** (exponent - fraction_bits)
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    away = _rounds_away(whole, Fraction(rest, scaled.denominator), number.negative, mode)
    bits = ((exponent - least) << fraction_bits) + whole + away
    if bits >= infinity:
        to_infinity = mode == "rn" or (mode == "rm" and number.negative) or (mode == "rp" and not number.negative)
        bits = infinity if to_infinity else infinity - 1
    return sign | bits


def _floor_log2(value: Fraction) -> int:
    estimate = value.numerator.bit_length() - value.denominator.bit_length()
    return estimate if Fraction(2) ** estimate <= value else estimate - 1


def _rounds_away(whole: int, rest: Fraction, negative: bool, mode: str) -> bool:
    if not rest or mode == "rz":
        return False
    if mode == "rn":
        return rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    return negative == (mode == "rm")


def product(a: Number, b: Number) -> Number:
    """Return the exact product."""
    negative = a.negative != b.negative
    if "nan" in {a.kind, b.kind}:
        return NAN
    if "inf" in {a.kind, b.kind}:
        zero = any(x.kind == "finite" and not x.magnitude for x in (a, b))
        return NAN if zero else Number("inf", negative)
    return Number("finite", negative, a.magnitude * b.magnitude)


def total(a: Number, b: Number, mode: str) -> Number:
    """Return the exact sum; the sign of a zero depends on the rounding mode."""
    if "nan" in {a.kind, b.kind}:
        return NAN
    if "inf" in {a.kind, b.kind}:
        if a.kind == b.kind and a.negative != b.negative:
            return NAN
        return a if a.kind == "inf" else b
    exact = a.exact + b.exact
    if exact:
        return finite(exact)
    same = a.negative == b.negative
    return Number("finite", a.negative if same else mode == "rm")


def quotient(a: Number, b: Number) -> Number:
    """Return the exact quotient."""
    negative = a.negative != b.negative
    if "nan" in {a.kind, b.kind} or (a.kind == b.kind == "inf"):
        return NAN
    if a.kind == "inf":
        return Number("inf", negative)
    if b.kind == "inf":
        return Number("finite", negative)
    if not b.magnitude:
        return Number("inf", negative) if a.magnitude else NAN
    return Number("finite", negative, a.magnitude / b.magnitude)


def square_root(a: Number) -> Number:
    """Return the square root, cut where no format can see it, with a sticky bit."""
    if a.kind == "nan" or (a.negative and (a.kind == "inf" or a.magnitude)):
        return NAN
    if a.kind == "inf" or not a.magnitude:
        return a
    shift = 300 + max(0, -_floor_log2(a.magnitude))
    scaled = a.magnitude * Fraction(4) ** shift
    whole = scaled.numerator // scaled.denominator
    root = math.isqrt(whole)
    inexact = root * root != whole or scaled.denominator != 1
    return Number("finite", False, (root + Fraction(int(inexact), 2)) / Fraction(2) ** shift)


def signed(bits: int, width: int) -> int:
    """Read bits as two's complement."""
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> (width - 1) else bits


def read(bits: int, kind: str) -> int:
    """Read bits as an integer type; wider bits are cut."""
    bits &= (1 << WIDTHS[kind]) - 1
    return signed(bits, WIDTHS[kind]) if kind.startswith("s") else bits


def evaluate(opcode: str, sources: list[int]) -> int:
    """Return what an instruction computes from the bits of its sources, as bits."""
    root, *modifiers = opcode.split(".")
    types = [m for m in modifiers if m in WIDTHS]
    kind = types[-1]
    if root == "cvt":
        return _convert(modifiers, types, sources)
    if root in {"selp", "slct"}:
        return _select(root, modifiers, types, sources)
    if root in {"set", "setp"}:
        return _set(root, modifiers, types, sources)
    if kind.endswith("x2"):
        one = opcode.replace(kind, kind.removesuffix("x2"))
        width = WIDTHS[kind] // 2
        low = evaluate(one, [s & (1 << width) - 1 for s in sources])
        high = evaluate(one, [s >> width & (1 << width) - 1 for s in sources])
        return low | high << width
    if kind in FLOATS and root != "mov":
        return _evaluate_float(root, modifiers, kind, sources)
    width = WIDTHS[_WIDER[kind]] if "wide" in modifiers else WIDTHS[kind]
    function = _INTEGER.get(root) or _BITWISE[root]
    return function(modifiers, types, sources) & ((1 << width) - 1)


# Floating point


def flush(bits: int, kind: str) -> int:
    """Replace a subnormal number by zero."""
    exponent_bits, fraction_bits = FLOATS[kind]
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    return bits if exponent else bits & 1 << (exponent_bits + fraction_bits)


def _evaluate_float(root: str, modifiers: list[str], kind: str, sources: list[int]) -> int:
    if "ftz" in modifiers and kind != "f64":
        sources = [flush(s, kind) for s in sources]
    if root in {"neg", "abs", "copysign"}:
        top = 1 << (WIDTHS[kind] - 1)
        if root == "copysign":
            return (sources[1] & ~top) | (sources[0] & top)
        return sources[0] ^ top if root == "neg" else sources[0] & ~top
    numbers = [decode(s, kind) for s in sources]
    if root == "testp":
        return int(_test_property(modifiers, sources[0], kind))
    mode = next((m for m in modifiers if m in {"rn", "rz", "rm", "rp"}), "rn")
    bits = encode(_combine(root, modifiers, numbers, mode), kind, mode)
    if {"approx", "ftz"} <= set(modifiers) and kind == "f64":
        bits &= 0xFFFFFFFF00000000
    if "sat" in modifiers:
        bits = _saturate(bits, kind)
    if "relu" in modifiers and bits != _NAN[kind] and (bits >> (WIDTHS[kind] - 1) or not bits):
        bits = 0
    return flush(bits, kind) if "ftz" in modifiers and kind != "f64" else bits


def _combine(root: str, modifiers: list[str], x: list[Number], mode: str) -> Number:  # noqa: PLR0911  a table
    match root:
        case "add":
            return total(x[0], x[1], mode)
        case "sub":
            return total(x[0], x[1]._replace(negative=not x[1].negative), mode)
        case "mul":
            return product(x[0], x[1])
        case "fma" | "mad":
            return total(product(x[0], x[1]), x[2], mode)
        case "div":
            return quotient(x[0], x[1])
        case "rcp":
            return quotient(finite(1), x[0])
        case "sqrt":
            return square_root(x[0])
        case "rsqrt":
            root_of = square_root(x[0])
            return quotient(finite(1), root_of)
        case "min" | "max":
            first = _extreme(root, x[0], x[1], nan_wins="NaN" in modifiers)
            return first if len(x) == 2 else _extreme(root, first, x[2], nan_wins="NaN" in modifiers)
    return _transcendental(root, x[0])


def _extreme(root: str, a: Number, b: Number, *, nan_wins: bool) -> Number:
    if "nan" in {a.kind, b.kind}:
        return NAN if nan_wins or a.kind == b.kind else (b if a.kind == "nan" else a)

    def key(number: Number) -> tuple[Fraction, bool]:
        size = Fraction(2) ** 2000 if number.kind == "inf" else number.magnitude
        return (-size if number.negative else size, not number.negative)

    return (min if root == "min" else max)(a, b, key=key)


def _transcendental(root: str, x: Number) -> Number:
    value = math.nan if x.kind == "nan" else math.inf if x.kind == "inf" else float(x.magnitude)
    value = -value if x.negative else value
    function: Callable[[float], float] = {
        "sin": math.sin, "cos": math.cos, "ex2": math.exp2, "lg2": math.log2, "tanh": math.tanh
    }[root]  # fmt: skip
    try:
        result = function(value)
    except ValueError:
        return Number("inf", negative=True) if value == 0 else NAN
    except OverflowError:
        return Number("inf")
    if math.isnan(result):
        return NAN
    if math.isinf(result):
        return Number("inf", result < 0)
    return Number("finite", math.copysign(1, result) < 0, abs(Fraction(result)))


def _saturate(bits: int, kind: str) -> int:
    number = decode(bits, kind)
    if number.kind == "nan" or number.negative or (not number.magnitude and number.kind == "finite"):
        return 0
    one = encode(finite(1), kind)
    return min(bits, one)


def _test_property(modifiers: list[str], bits: int, kind: str) -> bool:
    number = decode(bits, kind)
    is_subnormal = bool(flush(bits, kind) != bits)
    return {
        "finite": number.kind == "finite",
        "infinite": number.kind == "inf",
        "number": number.kind != "nan",
        "notanumber": number.kind == "nan",
        "normal": number.kind == "finite" and not is_subnormal,
        "subnormal": is_subnormal,
    }[modifiers[0]]


# Comparison, selection, conversion


def _compare(modifiers: list[str], kind: str, a: int, b: int) -> bool:
    operator = next(m for m in modifiers if m in _OPERATORS)
    if kind not in FLOATS:
        x, y = read(a, kind), read(b, kind)
        return _OPERATORS[operator](x, y)
    if "ftz" in modifiers:
        a, b = flush(a, kind), flush(b, kind)
    p, q = decode(a, kind), decode(b, kind)
    unordered = "nan" in {p.kind, q.kind}
    if operator in {"num", "nan"}:
        return unordered == (operator == "nan")
    if unordered:
        return operator.endswith("u") and operator != "eq"
    sizes = [Fraction(2) ** 2000 if n.kind == "inf" else n.magnitude for n in (p, q)]
    values = [-s if n.negative else s for s, n in zip(sizes, (p, q), strict=True)]
    return _OPERATORS[operator](*values)


_OPERATORS: dict[str, Callable[..., bool]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y, "lo": lambda x, y: x < y, "ls": lambda x, y: x <= y,
    "hi": lambda x, y: x > y, "hs": lambda x, y: x >= y, "equ": lambda x, y: x == y, "neu": lambda x, y: x != y,
    "ltu": lambda x, y: x < y, "leu": lambda x, y: x <= y, "gtu": lambda x, y: x > y, "geu": lambda x, y: x >= y,
    "num": lambda _x, _y: True, "nan": lambda _x, _y: False,
}  # fmt: skip


def _set(root: str, modifiers: list[str], types: list[str], sources: list[int]) -> int:
    """Return the result of set, or of setp without its Boolean operation (bit 1: second half of a packed type)."""
    kind = types[-1]
    if kind.endswith("x2"):
        half = kind.removesuffix("x2")
        pairs = [(sources[0] >> shift & 0xFFFF, sources[1] >> shift & 0xFFFF) for shift in (0, 16)]
        low, high = (_combine_truth(modifiers, _compare(modifiers, half, a, b), sources) for a, b in pairs)
        if root == "setp":
            return int(low) | int(high) << 1
        one = encode(finite(1), half) if types[0].endswith("x2") else 0xFFFF
        return one * low | one * high << 16
    result = _combine_truth(modifiers, _compare(modifiers, kind, sources[0], sources[1]), sources)
    if root == "setp":
        return int(result)
    if types[0] in FLOATS:
        return encode(finite(int(result)), types[0])
    return (1 << WIDTHS[types[0]]) - 1 if result else 0


def _combine_truth(modifiers: list[str], result: bool, sources: list[int]) -> bool:
    operation = next((m for m in modifiers if m in {"and", "or", "xor"}), None)
    if operation is None:
        return result
    third = bool(sources[2])
    return {"and": result and third, "or": result or third, "xor": result != third}[operation]


def _select(root: str, modifiers: list[str], types: list[str], sources: list[int]) -> int:
    mask = (1 << WIDTHS[types[0]]) - 1
    if root == "selp":
        return sources[0 if sources[2] else 1] & mask
    control = sources[2]
    if types[1] == "f32":
        control = flush(control, "f32") if "ftz" in modifiers else control
        number = decode(control, "f32")
        chosen = number.kind != "nan" and (not number.negative or (number.kind == "finite" and not number.magnitude))
    else:
        chosen = signed(control, 32) >= 0
    return sources[0 if chosen else 1] & mask


def _convert(modifiers: list[str], types: list[str], sources: list[int]) -> int:  # noqa: PLR0911  one for each kind
    if "pack" in modifiers:
        return _pack(types, sources)
    target, source = types
    mode = next((m for m in modifiers if m in {"rn", "rz", "rm", "rp"}), "rn")
    if target in _PAIRS:
        return _convert_pair(modifiers, types, sources)
    if target == "tf32":
        return _to_tf32(decode(sources[0], source), modifiers)
    bits = sources[0] & ((1 << WIDTHS[source]) - 1)
    if source not in FLOATS:
        value = read(bits, source)
        if target in FLOATS:
            return _to_float(finite(value), modifiers, target, mode)
        if "sat" in modifiers:
            value = _clamp(value, target)
        return value & ((1 << WIDTHS[target]) - 1)
    if "ftz" in modifiers and source == "f32":
        bits = flush(bits, source)
    number = decode(bits, source)
    whole = next((m for m in modifiers if m in {"rni", "rzi", "rmi", "rpi"}), None)
    if whole or target not in FLOATS:
        number = _to_whole(number, whole or "rzi")
    if target in FLOATS:
        return _to_float(number, modifiers, target, mode)
    return _to_integer(number, target, source)


def _pack(types: list[str], sources: list[int]) -> int:
    """Return two saturated integers, the second in the lowest bits, and above them the low bits of a third."""
    width = WIDTHS[types[0]]
    low, high = 0, (1 << width) - 1
    if types[0].startswith("s"):
        low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    a, b = (min(max(signed(s, 32), low), high) & ((1 << width) - 1) for s in sources[:2])
    return (sum(sources[2:]) << 2 * width | a << width | b) & 0xFFFFFFFF


def _convert_pair(modifiers: list[str], types: list[str], sources: list[int]) -> int:
    target, source = (kind.removesuffix("x2") for kind in types)
    if source == "f32":
        high, low = (decode(s, source) for s in sources)
    else:
        width = WIDTHS[types[1]] // 2
        low, high = (decode_any(sources[0] >> shift & ((1 << width) - 1), source) for shift in (0, width))
    width = WIDTHS[types[0]] // 2
    return _encode_any(low, modifiers, target) | _encode_any(high, modifiers, target) << width


def decode_any(bits: int, kind: str) -> Number:
    """Return the value of a pattern of a float of any size."""
    if kind in FLOATS:
        return decode(bits, kind)
    if kind == "ue8m0":
        return NAN if bits == 0xFF else finite(Fraction(2) ** (bits - 127))
    exponent_bits, fraction_bits, bias, largest, _ = SMALL[kind]
    bits &= (2 << (exponent_bits + fraction_bits)) - 1
    negative = bool(bits >> (exponent_bits + fraction_bits))
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    significand = bits % (1 << fraction_bits) + ((1 << fraction_bits) if exponent else 0)
    magnitude = Fraction(2) ** (max(exponent, 1) - bias - fraction_bits) * significand
    if magnitude <= largest:
        return Number("finite", negative, magnitude)
    return Number("inf", negative) if kind == "e5m2" and bits % 4 == 0 else NAN


def _encode_any(number: Number, modifiers: list[str], kind: str) -> int:
    """Round a number to a float of any size; of small ones what is too large becomes the largest."""
    mode = next((m for m in modifiers if m in {"rn", "rz", "rm", "rp"}), "rn")
    if kind in FLOATS:
        return _to_float(number, modifiers, kind, mode)
    if kind == "ue8m0":
        return _to_power(number, mode, 0xFE if "satfinite" in modifiers else 0xFF)
    exponent_bits, fraction_bits, _, largest, nan = SMALL[kind]
    if number.kind == "nan":
        return nan
    if number.negative and "relu" in modifiers:
        return 0
    size = largest if number.kind == "inf" else min(number.magnitude, largest)
    distance = _distances(kind, size)
    near = [code for code, far in distance.items() if far == min(distance.values())]
    return min(near, key=lambda code: code % 2) | int(number.negative) << (exponent_bits + fraction_bits)


def _distances(kind: str, size: Fraction) -> dict[int, Fraction]:
    """Return how far each positive number of a format is from a number."""
    codes = range(1 << sum(SMALL[kind][:2]))
    numbers = {code: decode_any(code, kind) for code in codes}
    return {code: abs(n.magnitude - size) for code, n in numbers.items() if n.kind == "finite"}


def _to_power(number: Number, mode: str, most: int) -> int:
    """Return the code of a power of two below or above the magnitude."""
    if number.kind == "nan":
        return 0xFF
    if number.kind == "inf":
        return most
    if not number.magnitude:
        return 0
    power = _floor_log2(number.magnitude)
    power += mode == "rp" and Fraction(2) ** power != number.magnitude
    return min(max(power + 127, 0), most)


def _to_tf32(number: Number, modifiers: list[str]) -> int:
    """Round to 10 bits of fraction, in the upper bits of a single."""
    if number.kind == "nan":
        return _NAN["f32"]
    if number.negative and "relu" in modifiers:
        return 0
    sign, infinity = int(number.negative) << 31, 0x7F800000
    size = infinity
    if number.kind == "finite":
        unit = Fraction(2) ** (max(_floor_log2(number.magnitude) if number.magnitude else -126, -126) - 10)
        steps = number.magnitude / unit
        whole = math.floor(steps + Fraction(1, 2)) if "rna" in modifiers else round(steps)
        whole = math.floor(steps) if "rz" in modifiers else whole
        size = encode(finite(whole * unit), "f32")
    if size == infinity and "satfinite" in modifiers:
        size = 0x7F7FE000
    return sign | size


def _to_float(number: Number, modifiers: list[str], target: str, mode: str) -> int:
    bits = encode(number, target, mode)
    infinity = ((1 << FLOATS[target][0]) - 1) << FLOATS[target][1]
    if "satfinite" in modifiers and bits & ((1 << WIDTHS[target] - 1) - 1) == infinity:
        bits -= 1
    if "sat" in modifiers:
        bits = _saturate(bits, target)
    if "relu" in modifiers and bits != _NAN[target] and bits >> (WIDTHS[target] - 1):
        bits = 0
    return flush(bits, target) if "ftz" in modifiers and target == "f32" else bits


def _to_whole(number: Number, how: str) -> Number:
    if number.kind != "finite":
        return number
    exact = number.exact
    functions: dict[str, Callable[[Fraction], int]] = {
        "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil, "rni": round
    }  # fmt: skip
    whole = functions[how](exact)
    return Number("finite", number.negative, Fraction(abs(whole)))


def _to_integer(number: Number, target: str, source: str) -> int:
    width = WIDTHS[target]
    if number.kind == "nan":
        return 1 << (width - 1) if source == "f64" or width == 64 else 0
    value = (-(1 << 2000) if number.negative else 1 << 2000) if number.kind == "inf" else int(number.exact)
    return _clamp(value, target) & ((1 << width) - 1)


def _clamp(value: int, kind: str) -> int:
    width = WIDTHS[kind]
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind.startswith("s") else (0, (1 << width) - 1)
    return min(max(value, low), high)


# Integers


def _multiply(modifiers: list[str], types: list[str], s: list[int]) -> int:
    exact = read(s[0], types[-1]) * read(s[1], types[-1])
    return exact >> WIDTHS[types[-1]] if "hi" in modifiers else exact


def _multiply_add(modifiers: list[str], types: list[str], s: list[int]) -> int:
    return _multiply(modifiers, types, s) + s[2]


def _add(modifiers: list[str], types: list[str], s: list[int], factor: int = 1) -> int:
    exact = read(s[0], types[-1]) + factor * read(s[1], types[-1])
    return _clamp(exact, "s32") if "sat" in modifiers else exact


def _divide(a: int, b: int) -> tuple[int, int]:
    if not b:
        return -1, a
    magnitude = abs(a) // abs(b)
    result = magnitude if (a < 0) == (b < 0) else -magnitude
    return result, a - result * b


def _extreme_integer(modifiers: list[str], types: list[str], s: list[int], pick: Callable[..., int]) -> int:
    result = pick(read(s[0], types[-1]), read(s[1], types[-1]))
    return max(result, 0) if "relu" in modifiers else result


def _multiply_24(types: list[str], s: list[int]) -> int:
    cut = [signed(x, 24) if types[-1] == "s32" else x & 0xFFFFFF for x in s[:2]]
    return cut[0] * cut[1]


def _dot(types: list[str], s: list[int]) -> int:
    def byte(word: int, place: int, kind: str) -> int:
        value = word >> 8 * place & 255
        return signed(value, 8) if kind == "s32" else value

    return s[2] + sum(byte(s[0], i, types[0]) * byte(s[1], i, types[1]) for i in range(4))


def _dot_of_two(modifiers: list[str], types: list[str], s: list[int]) -> int:
    first = 2 if "hi" in modifiers else 0
    total = s[2]
    for i in range(2):
        a, b = s[0] >> 16 * i & 0xFFFF, s[1] >> 8 * (first + i) & 0xFF
        a = signed(a, 16) if types[0] == "s32" else a
        total += a * (signed(b, 8) if types[1] == "s32" else b)
    return total


def _video(name: str, width: int, modifiers: list[str], types: list[str], s: list[int]) -> int:
    result = s[2] if "add" in modifiers else 0
    for place in range(0, 32, width):
        parts = (word >> place & (1 << width) - 1 for word in s[:2])
        a, b = (signed(x, width) if kind == "s32" else x for x, kind in zip(parts, types[-2:], strict=True))
        if name == "set":
            value = int(next(_OPERATORS[m] for m in modifiers if m in _OPERATORS)(a, b))
        else:
            average = (a + b + 1) // 2 if a + b >= 0 else (a + b) // 2
            value = {
                "add": a + b, "sub": a - b, "avrg": average, "min": min(a, b), "max": max(a, b), "absdiff": abs(a - b)
            }[name]  # fmt: skip
        if "sat" in modifiers:
            value = _clamp(value, f"{types[0][0]}{width}")
        result += value if "add" in modifiers else (value & (1 << width) - 1) << place
    return result


def _find_nth(s: list[int]) -> int:
    mask, base, offset = s[0], s[1], signed(s[2], 32)
    if base > 31:
        return 0xFFFFFFFF
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [place for place in places if mask >> place & 1]
    return found[abs(offset) - 1] if len(found) >= abs(offset) else 0xFFFFFFFF


def _bit_mask(modifiers: list[str], s: list[int]) -> int:
    start, length = s if "clamp" in modifiers else (s[0] % 32, s[1] % 32)
    return sum(1 << place for place in range(32) if start <= place < start + length)


_INTEGER: dict[str, Callable[[list[str], list[str], list[int]], int]] = {
    "add": _add,
    "sub": lambda m, t, s: _add(m, t, s, -1),
    "mul": _multiply,
    "mad": _multiply_add,
    "div": lambda _, t, s: _divide(read(s[0], t[-1]), read(s[1], t[-1]))[0],
    "rem": lambda _, t, s: _divide(read(s[0], t[-1]), read(s[1], t[-1]))[1],
    "neg": lambda _, t, s: -read(s[0], t[-1]),
    "abs": lambda _, t, s: abs(read(s[0], t[-1])),
    "min": lambda m, t, s: _extreme_integer(m, t, s, min),
    "max": lambda m, t, s: _extreme_integer(m, t, s, max),
    "sad": lambda _, t, s: s[2] + abs(read(s[0], t[-1]) - read(s[1], t[-1])),
    "mul24": lambda _, t, s: _multiply_24(t, s),
    "mad24": lambda _, t, s: _multiply_24(t, s) + s[2],
    "dp4a": lambda _, t, s: _dot(t, s),
    "dp2a": _dot_of_two,
    **{
        f"v{name}{32 // width}": partial(_video, name, width)
        for name in ("add", "sub", "avrg", "min", "max", "absdiff", "set")
        for width in (8, 16)
    },
    "fns": lambda _m, _t, s: _find_nth(s),
    "bmsk": lambda m, _t, s: _bit_mask(m, s),
}


# Bits


def _shift(root: str, types: list[str], s: list[int]) -> int:
    width, amount = WIDTHS[types[-1]], s[1] & 0xFFFFFFFF
    amount = min(amount, width)
    value = read(s[0], types[-1])
    return value << amount if root == "shl" else value >> amount


def _funnel(modifiers: list[str], s: list[int]) -> int:
    n = min(s[2], 32) if "clamp" in modifiers else s[2] & 31
    a, b = s[0], s[1]
    return (b << n | a >> (32 - n)) if "l" in modifiers else (b << (32 - n) | a >> n)


def _logic_3(s: list[int]) -> int:
    result = 0
    for bit in range(32):
        index = (s[0] >> bit & 1) << 2 | (s[1] >> bit & 1) << 1 | (s[2] >> bit & 1)
        result |= (s[3] >> index & 1) << bit
    return result


def _find(modifiers: list[str], types: list[str], s: list[int]) -> int:
    width = WIDTHS[types[-1]]
    value = s[0]
    if types[-1].startswith("s") and value >> (width - 1):
        value = ~value & ((1 << width) - 1)
    place = value.bit_length() - 1
    if place < 0:
        return 0xFFFFFFFF
    return width - 1 - place if "shiftamt" in modifiers else place


def _extract(types: list[str], s: list[int]) -> int:
    top = WIDTHS[types[-1]] - 1
    a, place, length = s[0], s[1] & 0xFF, s[2] & 0xFF
    sign = 0 if types[-1].startswith("u") or length == 0 else a >> min(place + length - 1, top) & 1
    return sum((a >> (place + i) & 1 if i < length and place + i <= top else sign) << i for i in range(top + 1))


def _insert(types: list[str], s: list[int]) -> int:
    top = WIDTHS[types[-1]] - 1
    a, result, place, length = s[0], s[1], s[2] & 0xFF, s[3] & 0xFF
    for i in range(length):
        if place + i <= top:
            result = result & ~(1 << (place + i)) | (a >> i & 1) << (place + i)
    return result


def _permute(s: list[int]) -> int:
    both = (s[0] | s[1] << 32).to_bytes(8, "little")
    result = 0
    for i in range(4):
        control = s[2] >> 4 * i & 15
        value = both[control & 7]
        if control & 8:
            value = 0xFF if value & 0x80 else 0
        result |= value << 8 * i
    return result


_BITWISE: dict[str, Callable[[list[str], list[str], list[int]], int]] = {
    "and": lambda _m, _t, s: s[0] & s[1],
    "or": lambda _m, _t, s: s[0] | s[1],
    "xor": lambda _m, _t, s: s[0] ^ s[1],
    "not": lambda _m, _t, s: ~s[0],
    "cnot": lambda _m, _t, s: int(s[0] == 0),
    "shl": lambda _, t, s: _shift("shl", t, s),
    "shr": lambda _, t, s: _shift("shr", t, s),
    "shf": lambda m, _, s: _funnel(m, s),
    "lop3": lambda _m, _t, s: _logic_3(s),
    "popc": lambda _m, _t, s: s[0].bit_count(),
    "clz": lambda _, t, s: WIDTHS[t[-1]] - s[0].bit_length(),
    "bfind": _find,
    "brev": lambda _, t, s: int(f"{s[0]:0{WIDTHS[t[-1]]}b}"[::-1], 2),
    "bfe": lambda _, t, s: _extract(t, s),
    "bfi": lambda _, t, s: _insert(t, s),
    "prmt": lambda _m, _t, s: _permute(s),
}
