"""Writes what an event does to L1 and L2: which sectors hit, which go on, and what DRAM reads and writes."""

from kerncast.execute.caches.cache import DIRTY_SHIFT, VALID, bits_at, count, find, take
from kerncast.execute.caches.state import SIMULATION
from kerncast.execute.native.frames import get
from kerncast.execute.native.ir import Emitter, Unit, Value, integer
from kerncast.recording import MASK_SHIFT, OPERATION_MASK, OPERATION_SHIFT, Operation

_SIM = Value("%simulation", "ptr")
_LINE = Value("%line", "i32")
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
