"""Writes what an event does to L1 and L2: which sectors hit, which go on, and what DRAM reads and writes."""

import numpy as np

from kerncast.execute.native.ir import Emitter, Unit, Value, field, get, integer, put
from kerncast.traces import MASK_SHIFT, OPERATION_MASK, OPERATION_SHIFT, Operation

WAYS = 16
#: One cache: for each set WAYS tags, ages and bits (four valid sectors, and above them four dirty ones).
CACHE = np.dtype(
    [
        ("tags", "u8"),
        ("ages", "u8"),
        ("bits", "u8"),
        ("sets", "u4"),
        ("ways", "u4"),  # as bits: fewer than WAYS in a cache of less than a set
        ("age", "u4"),  # lookups so far
        ("pad", "u4"),
    ],
    align=True,
)
#: One resident warp.
WARP = np.dtype([("segment", "i8"), ("position", "i8"), ("stop", "i8"), ("state", "u4"), ("pad", "u4")], align=True)
RUNS, WAITS, GONE = 0, 1, 2
#: One place for a block in an SM: position of its block in the recording, and how many of its warps wait or are gone.
SLOT = np.dtype([("row", "i4"), ("stopped", "u4")])
EMPTY_SLOT = -1
#: One SM: which of its warps have an event to issue, which is next, and how many of its slots hold a block.
SM = np.dtype([("ready", "i8"), ("next", "u4"), ("busy", "u4")], align=True)

COUNTERS = (
    "l1_load_sectors", "l1_load_hits", "l1_local_sectors", "l1_local_hits", "l2_read_sectors", "l2_read_hits",
    "l2_write_sectors", "l2_write_hits", "l2_atomic_sectors", "l2_atomic_hits", "l2_dirtied_sectors",
    "dram_read_sectors", "dram_write_sectors",
)  # fmt: skip

SIMULATION = np.dtype(
    [
        ("counters", "i8", len(COUNTERS)),
        ("events", "u8"),
        ("segments", "u8"),  # sorted by block and warp
        ("chains", "u8"),  # of each warp of each block: its first segment
        ("l1", "u8"),  # array of CACHE, one per SM, and behind them those for read-only loads where they are others
        ("l2", "u8"),
        ("warps", "u8"),  # array of WARP: [SM, slot, warp]
        ("slots", "u8"),  # array of SLOT: [SM, slot]
        ("sms", "u8"),  # array of SM
        ("snapshots", "u8"),  # counters after each further part of the blocks
        ("rows", "i8"),
        ("next_row", "i8"),
        ("finished", "i8"),
        ("snapshot_every", "i8"),  # blocks
        ("snapshot_count", "i8"),
        ("sm_count", "u4"),
        ("resident", "u4"),
        ("block_warps", "u4"),
        ("local_lines", "u4"),
        ("uses_l1", "u4"),  # one bit per recording.Operation
        ("stores_allocate", "u4"),
        ("read_only_bytes", "u4"),  # from an SM's L1 to its cache for read-only loads in the array
        ("fetch", "u4"),  # sectors that L2 reads from DRAM where one is missing: 1, 2 or 4, aligned
        ("pad", "u4"),
        ("rounds", "i8"),  # until it reports to Python
    ],
    align=True,
)


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


_L1, _L2 = Value("%l1", "ptr"), Value("%l2", "ptr")
_MASK, _OPERATION = Value("%mask", "i8"), Value("%operation", "i32")
_LOCAL_LINES = 1 << 31


def write_hierarchy(unit: Unit) -> None:
    """Add ``run_event``: (simulation, L1, event, first local line of the warp); only events with a line come here."""
    _write_read(unit)
    _write_update(unit, "write", ("l2_write_sectors", "l2_write_hits"), fetches=False)
    _write_update(unit, "atomic", ("l2_atomic_sectors", "l2_atomic_hits"), fetches=True)
    _write_load(unit)
    _write_store(unit)
    _write_event(unit)


def _write_event(unit: Unit) -> None:
    event, local = Value("%event", "i64"), Value("%local", "i32")
    emit = Emitter(unit, "run_event", "void", [_SIM, _L1, event, local])
    mask = emit.and_(emit.resize(emit.lshr(event, MASK_SHIFT), "i8"), VALID)
    operation = emit.and_(emit.resize(emit.lshr(event, OPERATION_SHIFT), "i32"), OPERATION_MASK)
    is_local = emit.compare("uge", operation, int(Operation.LOCAL_LOAD))
    place = emit.resize(event, "i32")
    own = emit.add(emit.add(local, place), _LOCAL_LINES)
    line = emit.select(is_local, own, place)
    l2 = get(emit, _SIM, SIMULATION, "l2")
    is_read_only = emit.compare("eq", operation, int(Operation.LOAD_READ_ONLY))
    apart = emit.select(is_read_only, get(emit, _SIM, SIMULATION, "read_only_bytes"), 0)
    own_l1 = emit.at(_L1, emit.cast("zext", apart, "i64"))
    load, change = emit.fresh("load"), emit.fresh("change")
    loads = sum(1 << o for o in Operation if "LOAD" in o.name)
    is_load = emit.and_(emit.lshr(integer("i32", loads), operation), 1)
    emit.branch(emit.compare("ne", is_load, 0), load, change)
    for label, name in ((load, "run_load"), (change, "run_store")):
        emit.label(label)
        emit.call_void(name, _SIM, own_l1, l2, line, mask, operation)
        emit.give()
    emit.finish()


def _uses_l1(emit: Emitter) -> Value:
    used = emit.lshr(get(emit, _SIM, SIMULATION, "uses_l1"), _OPERATION)
    return emit.compare("ne", emit.and_(used, 1), 0)


def _write_load(unit: Unit) -> None:
    emit = Emitter(unit, "run_load", "void", [_SIM, _L1, _L2, _LINE, _MASK, _OPERATION])
    is_local = emit.compare("eq", _OPERATION, int(Operation.LOCAL_LOAD))
    sectors = emit.intrinsic("ctpop", _MASK)
    zero = integer("i8", 0)
    count(emit, "l1_local_sectors", emit.select(is_local, sectors, zero))
    count(emit, "l1_load_sectors", emit.select(is_local, zero, sectors))
    missing = emit.allocate("i8")
    emit.store(_MASK, missing)
    with emit.when(_uses_l1(emit)):
        bits = bits_at(emit, _L1, take(emit, _L1, _LINE))
        old = emit.load(bits, "i8")
        emit.store(emit.or_(old, _MASK), bits)
        hits = emit.intrinsic("ctpop", emit.and_(old, _MASK))
        count(emit, "l1_local_hits", emit.select(is_local, hits, zero))
        count(emit, "l1_load_hits", emit.select(is_local, zero, hits))
        emit.store(emit.and_(_MASK, emit.not_(old)), missing)
    rest = emit.load(missing, "i8")
    with emit.when(emit.compare("ne", rest, 0)):
        emit.call_void("read_l2", _SIM, _L2, _LINE, rest)
    emit.give()
    emit.finish()


def _write_store(unit: Unit) -> None:
    """Write a store or an atomic: L1 takes stores in or drops what they change, L2 has the last word."""
    emit = Emitter(unit, "run_store", "void", [_SIM, _L1, _L2, _LINE, _MASK, _OPERATION])
    atomics = sum(1 << o for o in (Operation.ATOMIC, Operation.REDUCTION))
    is_atomic = emit.compare("ne", emit.and_(emit.lshr(integer("i32", atomics), _OPERATION), 1), 0)
    with emit.when(_uses_l1(emit)):
        keeps = emit.compare("ne", get(emit, _SIM, SIMULATION, "stores_allocate"), 0)
        keep, drop, after = emit.fresh("keep"), emit.fresh("drop"), emit.fresh("after")
        emit.branch(emit.binary("and", keeps, emit.not_(is_atomic)), keep, drop)
        emit.label(keep)
        kept = bits_at(emit, _L1, take(emit, _L1, _LINE))
        emit.store(emit.or_(emit.load(kept, "i8"), _MASK), kept)
        emit.go(after)
        emit.label(drop)
        place = find(emit, _L1, _LINE)
        with emit.when(emit.compare("sge", place, 0)):
            dropped = bits_at(emit, _L1, place)
            emit.store(emit.and_(emit.load(dropped, "i8"), emit.not_(_MASK)), dropped)
        emit.go(after)
        emit.label(after)
    atomic, write = emit.fresh("atomic"), emit.fresh("write")
    emit.branch(is_atomic, atomic, write)
    for label, name in ((atomic, "atomic_l2"), (write, "write_l2")):
        emit.label(label)
        emit.call_void(name, _SIM, _L2, _LINE, _MASK)
        emit.give()
    emit.finish()


def _write_read(unit: Unit) -> None:
    emit = Emitter(unit, "read_l2", "void", [_SIM, _L2, _LINE, _MASK])
    bits, old, missing = _look_up(emit, "l2_read_sectors", "l2_read_hits")
    fetched = _fetch(emit, old, missing)
    emit.store(emit.or_(old, emit.or_(_MASK, fetched)), bits)
    emit.give()
    emit.finish()


def _write_update(unit: Unit, name: str, counters: tuple[str, str], *, fetches: bool) -> None:
    """Write a change in L2; an atomic needs the old value, a store does not."""
    emit = Emitter(unit, f"{name}_l2", "void", [_SIM, _L2, _LINE, _MASK])
    bits, old, missing = _look_up(emit, *counters)
    clean = emit.and_(_MASK, emit.not_(emit.lshr(old, DIRTY_SHIFT)))
    count(emit, "l2_dirtied_sectors", emit.intrinsic("ctpop", clean))
    new = emit.or_(_MASK, emit.shl(_MASK, DIRTY_SHIFT))
    if fetches:
        new = emit.or_(new, _fetch(emit, old, missing))
    emit.store(emit.or_(old, new), bits)
    emit.give()
    emit.finish()


def _look_up(emit: Emitter, sectors: str, hits: str) -> tuple[Value, Value, Value]:
    """Count an access to L2; returns the address of the line's bits, what they were, and the missing sectors."""
    bits = bits_at(emit, _L2, take(emit, _L2, _LINE))
    old = emit.load(bits, "i8")
    count(emit, sectors, emit.intrinsic("ctpop", _MASK))
    count(emit, hits, emit.intrinsic("ctpop", emit.and_(old, _MASK)))
    return bits, old, emit.and_(_MASK, emit.not_(old))


def _fetch(emit: Emitter, old: Value, missing: Value) -> Value:
    """Return the sectors that DRAM reads: those that are missing, and the neighbours that come with them."""
    fetch = get(emit, _SIM, SIMULATION, "fetch")
    low, high = emit.and_(missing, 0b0101), emit.and_(missing, 0b1010)
    pairs = emit.or_(missing, emit.or_(emit.shl(low, 1), emit.lshr(high, 1)))
    any_missing = emit.compare("ne", missing, 0)
    line = emit.select(any_missing, integer("i8", VALID), 0)
    wanted = emit.select(emit.compare("eq", fetch, 1), missing, emit.select(emit.compare("eq", fetch, 2), pairs, line))
    fetched = emit.and_(wanted, emit.not_(old))
    count(emit, "dram_read_sectors", emit.intrinsic("ctpop", fetched))
    return fetched
