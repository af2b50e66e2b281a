"""Writes the lookup in a sectored, set-associative cache that replaces the line used longest ago."""

from kerncast.execute.caches.state import CACHE, COUNTERS, SIMULATION, WAYS
from kerncast.execute.native.frames import field, get, put
from kerncast.execute.native.ir import Emitter, Unit, Value, integer

_TAGS = f"<{WAYS} x i32>"
_CACHE = Value("%cache", "ptr")
_SIM = Value("%simulation", "ptr")
_LINE = Value("%line", "i32")
#: Knuth's multiplier, 2^32 over the golden ratio: neighbouring lines spread evenly over the sets.
_SPREAD = 0x9E3779B1
_ABSENT = -1
VALID, DIRTY_SHIFT = 0xF, 4


def write_caches(unit: Unit) -> None:
    """Add ``find_line`` (its place, or -1) and ``take_line`` (its place; it takes one where it was absent)."""
    _write_find(unit)
    _write_take(unit)


def find(emit: Emitter, cache: Value, line: Value) -> Value:
    """Return the place of a line, or -1."""
    return emit.call("find_line", "i32", cache, line)


def take(emit: Emitter, cache: Value, line: Value) -> Value:
    """Return the place of a line, which is now the one used last."""
    return emit.call("take_line", "i32", _SIM, cache, line)


def bits_at(emit: Emitter, cache: Value, place: Value) -> Value:
    """Return the address of a line's valid and dirty bits."""
    return emit.index(get(emit, cache, CACHE, "bits"), "i8", emit.cast("zext", place, "i64"))


def _set_of(emit: Emitter) -> Value:
    """Return the first place of a line's set."""
    spread = emit.cast("zext", emit.mul(_LINE, _SPREAD), "i64")
    sets = emit.cast("zext", get(emit, _CACHE, CACHE, "sets"), "i64")
    return emit.mul(emit.lshr(emit.mul(spread, sets), 32), WAYS)


def _matches(emit: Emitter, first: Value) -> Value:
    """Return one bit for each way that holds the line."""
    tags = emit.load(emit.index(get(emit, _CACHE, CACHE, "tags"), "i32", first), _TAGS, 64)
    same = emit.op(f"icmp eq {tags.typed}, {_splat(emit, _LINE).text}", f"<{WAYS} x i1>")
    bits = emit.op(f"bitcast {same.typed} to i{WAYS}", f"i{WAYS}")
    return emit.cast("zext", bits, "i32")


def _write_find(unit: Unit) -> None:
    emit = Emitter(unit, "find_line", "i32", [_CACHE, _LINE])
    first = _set_of(emit)
    bits = _matches(emit, first)
    way = emit.call("llvm.cttz.i32", "i32", bits, Value("false", "i1"))
    place = emit.add(emit.resize(first, "i32"), way)
    emit.give(emit.select(emit.compare("eq", bits, 0), integer("i32", _ABSENT), place))
    emit.finish()


def _write_take(unit: Unit) -> None:
    emit = Emitter(unit, "take_line", "i32", [_SIM, _CACHE, _LINE])
    first = _set_of(emit)
    ages = emit.index(get(emit, _CACHE, CACHE, "ages"), "i32", first)
    age = emit.add(get(emit, _CACHE, CACHE, "age"), 1)
    put(emit, age, _CACHE, CACHE, "age")
    bits = _matches(emit, first)
    found, absent = emit.fresh("found"), emit.fresh("absent")
    emit.branch(emit.compare("ne", bits, 0), found, absent)
    for label, replaces in ((found, False), (absent, True)):
        emit.label(label)
        way = _oldest(emit, ages) if replaces else emit.call("llvm.cttz.i32", "i32", bits, Value("false", "i1"))
        place = emit.add(emit.resize(first, "i32"), way)
        emit.store(age, emit.index(ages, "i32", emit.cast("zext", way, "i64")))
        if replaces:
            _replace(emit, place)
        emit.give(place)
    emit.finish()


def _oldest(emit: Emitter, ages: Value) -> Value:
    """Return the way that was used longest ago, the first among equals."""
    found = emit.load(ages, _TAGS, 64)
    usable = emit.op(
        f"bitcast i{WAYS} {emit.resize(get(emit, _CACHE, CACHE, 'ways'), f'i{WAYS}').text} to <{WAYS} x i1>",
        f"<{WAYS} x i1>",
    )
    ages_of = emit.op(f"select {usable.typed}, {found.typed}, {_TAGS} splat (i32 -1)", _TAGS)
    least = emit.call(f"llvm.vector.reduce.umin.v{WAYS}i32", "i32", ages_of)
    same = emit.op(f"icmp eq {ages_of.typed}, {_splat(emit, least).text}", f"<{WAYS} x i1>")
    bits = emit.cast("zext", emit.op(f"bitcast {same.typed} to i{WAYS}", f"i{WAYS}"), "i32")
    return emit.call("llvm.cttz.i32", "i32", bits, Value("false", "i1"))


def _replace(emit: Emitter, place: Value) -> None:
    """Take a place from its line; dirty sectors are written to DRAM."""
    at = emit.cast("zext", place, "i64")
    emit.store(_LINE, emit.index(get(emit, _CACHE, CACHE, "tags"), "i32", at))
    bits = emit.index(get(emit, _CACHE, CACHE, "bits"), "i8", at)
    dirty = emit.intrinsic("ctpop", emit.lshr(emit.load(bits, "i8"), DIRTY_SHIFT))
    count(emit, "dram_write_sectors", dirty)
    emit.store(integer("i8", 0), bits)


def count(emit: Emitter, name: str, amount: Value) -> None:
    """Add to a counter of the simulation."""
    place = emit.at(field(emit, _SIM, SIMULATION, "counters"), 8 * COUNTERS.index(name))
    emit.increase(place, emit.cast("zext", amount, "i64") if amount.type != "i64" else amount)


def _splat(emit: Emitter, value: Value) -> Value:
    first = emit.op(f"insertelement {_TAGS} poison, {value.typed}, i64 0", _TAGS)
    return emit.op(f"shufflevector {first.typed}, {_TAGS} poison, <{WAYS} x i32> zeroinitializer", _TAGS)
