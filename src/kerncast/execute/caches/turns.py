"""Writes the order of a simulation: SMs take turns, and in each one its warps do, one request at a time.

Blocks go to the SMs one after the other until all are full; then a slot whose block has ended takes the next one.
"""

from kerncast.execute.caches.hierarchy import CACHE, COUNTERS, EMPTY_SLOT, GONE, RUNS, SIMULATION, SLOT, SM, WAITS, WARP
from kerncast.execute.native.ir import Emitter, Unit, Value, field, get, integer, put
from kerncast.execute.native.scheduler import DONE, NOT_DONE
from kerncast.traces import LAST_SHIFT, SEGMENT, End

_SIM, _SM, _SLOT = Value("%simulation", "ptr"), Value("%sm", "i32"), Value("%slot", "i32")
_WARP_BITS = 64


def write_turns(unit: Unit) -> None:
    """Add ``run_simulation``, which returns whether it is done."""
    _write_enter(unit)
    _write_start(unit)
    _write_pass(unit)
    _write_settle(unit)
    _write_issue(unit)
    _write_run(unit)


def _sm(emit: Emitter, sm: Value = _SM) -> Value:
    place = emit.mul(emit.cast("zext", sm, "i64"), SM.itemsize)
    return emit.at(get(emit, _SIM, SIMULATION, "sms"), place)


def _slot_number(emit: Emitter, sm: Value = _SM, slot: Value = _SLOT) -> Value:
    return emit.add(emit.mul(sm, get(emit, _SIM, SIMULATION, "resident")), slot)


def _slot(emit: Emitter, slot: Value = _SLOT) -> Value:
    place = emit.mul(emit.cast("zext", _slot_number(emit, slot=slot), "i64"), SLOT.itemsize)
    return emit.at(get(emit, _SIM, SIMULATION, "slots"), place)


def _warp(emit: Emitter, number: Value, slot: Value) -> Value:
    """Return a warp; ``slot`` is a number among all slots."""
    place = emit.add(emit.mul(slot, get(emit, _SIM, SIMULATION, "block_warps")), number)
    return emit.at(get(emit, _SIM, SIMULATION, "warps"), emit.mul(emit.cast("zext", place, "i64"), WARP.itemsize))


def _write_enter(unit: Unit) -> None:
    """Write how a warp begins a segment."""
    warp, segment = Value("%warp", "ptr"), Value("%segment", "i64")
    emit = Emitter(unit, "enter_segment", "void", [_SIM, warp, segment])
    put(emit, segment, warp, WARP, "segment")
    entry = emit.at(get(emit, _SIM, SIMULATION, "segments"), emit.mul(segment, SEGMENT.itemsize))
    put(emit, get(emit, entry, SEGMENT, "start"), warp, WARP, "position")
    put(emit, get(emit, entry, SEGMENT, "stop"), warp, WARP, "stop")
    put(emit, integer("i32", RUNS), warp, WARP, "state")
    emit.give()
    emit.finish()


def _write_start(unit: Unit) -> None:
    """Write how a slot takes the next block, if there is one."""
    emit = Emitter(unit, "start_block", "void", [_SIM, _SM, _SLOT])
    row = get(emit, _SIM, SIMULATION, "next_row")
    some, none = emit.fresh("some"), emit.fresh("none")
    emit.branch(emit.compare("slt", row, get(emit, _SIM, SIMULATION, "rows")), some, none)
    emit.label(none)
    put(emit, integer("i32", EMPTY_SLOT), _slot(emit), SLOT, "row")
    emit.give()
    emit.label(some)
    put(emit, emit.add(row, 1), _SIM, SIMULATION, "next_row")
    put(emit, emit.resize(row, "i32"), _slot(emit), SLOT, "row")
    emit.increase(field(emit, _sm(emit), SM, "busy"), integer("i32", 1))
    warps = get(emit, _SIM, SIMULATION, "block_warps")
    with emit.count_up(warps) as number:
        chain = emit.add(emit.mul(row, emit.cast("zext", warps, "i64")), emit.cast("zext", number, "i64"))
        segment = emit.load(emit.index(get(emit, _SIM, SIMULATION, "chains"), "i64", chain), "i64")
        emit.call_void("enter_segment", _SIM, _warp(emit, number, _slot_number(emit)), segment)
    emit.give()
    emit.finish()


def _write_pass(unit: Unit) -> None:
    """Write one look at the warps of a slot: those at the end of a segment go on, wait, or are gone.

    Returns how many wait in the low half, and how many are gone in the high half.
    """
    emit = Emitter(unit, "pass_warps", "i64", [_SIM, _SM, _SLOT])
    waiting, gone, ready = emit.allocate("i64"), emit.allocate("i64"), emit.allocate("i64")
    for place in (waiting, gone, ready):
        emit.store(integer("i64", 0), place)
    warps = get(emit, _SIM, SIMULATION, "block_warps")
    with emit.count_up(warps) as number:
        warp = _warp(emit, number, _slot_number(emit))
        _leave_segments(emit, warp)
        state = get(emit, warp, WARP, "state")
        for total, value in ((waiting, WAITS), (gone, GONE)):
            emit.increase(total, emit.cast("zext", emit.compare("eq", state, value), "i64"))
        runs = emit.cast("zext", emit.compare("eq", state, RUNS), "i64")
        emit.store(emit.or_(emit.load(ready, "i64"), emit.shl(runs, emit.cast("zext", number, "i64"))), ready)
    shift = emit.cast("zext", emit.mul(_SLOT, warps), "i64")
    old = get(emit, _sm(emit), SM, "ready")
    mask = emit.lshr(integer("i64", -1), emit.sub(integer("i64", _WARP_BITS), emit.cast("zext", warps, "i64")))
    others = emit.and_(old, emit.not_(emit.shl(mask, shift)))
    emit.store(emit.or_(others, emit.shl(emit.load(ready, "i64"), shift)), field(emit, _sm(emit), SM, "ready"))
    emit.give(emit.or_(emit.load(waiting, "i64"), emit.shl(emit.load(gone, "i64"), 32)))
    emit.finish()


def _leave_segments(emit: Emitter, warp: Value) -> None:
    """Write how a warp leaves a segment without further events, until it has one, waits or is gone."""
    head, body, after = emit.fresh("head"), emit.fresh("body"), emit.fresh("after")
    emit.go(head)
    emit.label(head)
    runs = emit.compare("eq", get(emit, warp, WARP, "state"), RUNS)
    used_up = emit.compare("eq", get(emit, warp, WARP, "position"), get(emit, warp, WARP, "stop"))
    emit.branch(emit.binary("and", runs, used_up), body, after)
    emit.label(body)
    segment = get(emit, warp, WARP, "segment")
    entry = emit.at(get(emit, _SIM, SIMULATION, "segments"), emit.mul(segment, SEGMENT.itemsize))
    end = get(emit, entry, SEGMENT, "end")
    with emit.when(emit.compare("eq", end, int(End.PAUSE))):
        emit.call_void("enter_segment", _SIM, warp, emit.add(segment, 1))
    with emit.when(emit.compare("eq", end, int(End.BARRIER))):
        put(emit, integer("i32", WAITS), warp, WARP, "state")
    with emit.when(emit.compare("eq", end, int(End.EXIT))):
        put(emit, integer("i32", GONE), warp, WARP, "state")
    emit.go(head)
    emit.label(after)


def _release(emit: Emitter, slot: Value) -> None:
    """Write how all warps of a slot that wait go on."""
    with emit.count_up(get(emit, _SIM, SIMULATION, "block_warps")) as number:
        warp = _warp(emit, number, slot)
        with emit.when(emit.compare("eq", get(emit, warp, WARP, "state"), WAITS)):
            emit.call_void("enter_segment", _SIM, warp, emit.add(get(emit, warp, WARP, "segment"), 1))


def _write_settle(unit: Unit) -> None:
    """Write what follows when a warp has used up a segment: barriers open, blocks end, and the next ones begin."""
    emit = Emitter(unit, "settle_slot", "void", [_SIM, _SM, _SLOT])
    names = ("head", "held", "everyone", "released", "ended", "after")
    head, held, stuck, released, ended, after = (emit.fresh(name) for name in names)
    emit.go(head)
    emit.label(head)
    emit.branch(emit.compare("eq", get(emit, _slot(emit), SLOT, "row"), EMPTY_SLOT), after, held)
    emit.label(held)
    found = emit.call("pass_warps", "i64", _SIM, _SM, _SLOT)
    waiting, gone = emit.resize(found, "i32"), emit.resize(emit.lshr(found, 32), "i32")
    stopped = emit.add(waiting, gone)
    put(emit, stopped, _slot(emit), SLOT, "stopped")
    everyone = emit.compare("eq", stopped, get(emit, _SIM, SIMULATION, "block_warps"))
    emit.branch(everyone, stuck, after)
    emit.label(stuck)
    emit.branch(emit.compare("eq", waiting, 0), ended, released)
    emit.label(released)
    _release(emit, _slot_number(emit))
    emit.go(head)
    emit.label(ended)
    emit.increase(field(emit, _sm(emit), SM, "busy"), integer("i32", -1))
    _finish_block(emit)
    emit.call_void("start_block", _SIM, _SM, _SLOT)
    emit.go(head)
    emit.label(after)
    emit.give()
    emit.finish()


def _finish_block(emit: Emitter) -> None:
    finished = emit.add(get(emit, _SIM, SIMULATION, "finished"), 1)
    put(emit, finished, _SIM, SIMULATION, "finished")
    count = get(emit, _SIM, SIMULATION, "snapshot_count")
    due = emit.mul(emit.add(count, 1), get(emit, _SIM, SIMULATION, "snapshot_every"))
    with emit.when(emit.compare("eq", finished, due)):
        size = 8 * len(COUNTERS)
        place = emit.at(get(emit, _SIM, SIMULATION, "snapshots"), emit.mul(count, size))
        counters = field(emit, _SIM, SIMULATION, "counters")
        emit.call_void("llvm.memcpy.p0.p0.i64", place, counters, integer("i64", size), Value("false", "i1"))
        put(emit, emit.add(count, 1), _SIM, SIMULATION, "snapshot_count")


def _write_issue(unit: Unit) -> None:
    """Write the turn of an SM: the next warp that is ready issues one request."""
    emit = Emitter(unit, "issue", "void", [_SIM, _SM])
    state = _sm(emit)
    ready = get(emit, state, SM, "ready")
    next_warp = get(emit, state, SM, "next")
    ahead = emit.and_(ready, emit.shl(integer("i64", -1), emit.cast("zext", next_warp, "i64")))
    from_start = emit.compare("eq", ahead, 0)
    choice = emit.select(from_start, ready, ahead)
    number = emit.resize(emit.call("llvm.cttz.i64", "i64", choice, Value("false", "i1")), "i32")
    put(emit, emit.and_(emit.add(number, 1), _WARP_BITS - 1), state, SM, "next")
    warps = get(emit, _SIM, SIMULATION, "block_warps")
    slot = emit.binary("udiv", number, warps)
    in_block = emit.binary("urem", number, warps)
    warp = _warp(emit, in_block, _slot_number(emit, slot=slot))
    local = emit.add(emit.mul(_slot_number(emit, slot=slot), warps), in_block)
    local = emit.mul(local, get(emit, _SIM, SIMULATION, "local_lines"))
    l1 = emit.at(get(emit, _SIM, SIMULATION, "l1"), emit.mul(emit.cast("zext", _SM, "i64"), CACHE.itemsize))
    position = get(emit, warp, WARP, "position")
    at = emit.allocate("i64")
    emit.store(position, at)
    head, after = emit.fresh("head"), emit.fresh("after")
    emit.go(head)
    emit.label(head)
    place = emit.load(at, "i64")
    event = emit.load(emit.index(get(emit, _SIM, SIMULATION, "events"), "i64", place), "i64")
    emit.store(emit.add(place, 1), at)
    emit.call_void("run_event", _SIM, l1, event, local)
    is_last = emit.compare("ne", emit.and_(event, 1 << LAST_SHIFT), 0)
    emit.branch(is_last, after, head)
    emit.label(after)
    reached = emit.load(at, "i64")
    put(emit, reached, warp, WARP, "position")
    with emit.when(emit.compare("eq", reached, get(emit, warp, WARP, "stop"))):
        _leave_segments(emit, warp)
        with emit.when(emit.compare("ne", get(emit, warp, WARP, "state"), RUNS)):
            _stop_warp(emit, number, slot)
    emit.give()
    emit.finish()


def _stop_warp(emit: Emitter, number: Value, slot: Value) -> None:
    """Write that a warp waits or is gone; the last one of its block lets the others go on, or ends the block."""
    bit = emit.shl(integer("i64", 1), emit.cast("zext", number, "i64"))
    put(emit, emit.and_(get(emit, _sm(emit), SM, "ready"), emit.not_(bit)), _sm(emit), SM, "ready")
    stopped = emit.add(get(emit, _slot(emit, slot), SLOT, "stopped"), 1)
    put(emit, stopped, _slot(emit, slot), SLOT, "stopped")
    with emit.when(emit.compare("eq", stopped, get(emit, _SIM, SIMULATION, "block_warps"))):
        emit.call_void("settle_slot", _SIM, _SM, slot)


def _write_run(unit: Unit) -> None:
    emit = Emitter(unit, "run_simulation", "i32", [_SIM])
    sms = get(emit, _SIM, SIMULATION, "sm_count")
    left = field(emit, _SIM, SIMULATION, "rounds")
    with emit.when(emit.compare("eq", get(emit, _SIM, SIMULATION, "next_row"), 0)):
        for name in ("start_block", "settle_slot"):
            with emit.count_up(get(emit, _SIM, SIMULATION, "resident")) as slot, emit.count_up(sms) as sm:
                emit.call_void(name, _SIM, sm, slot)
    head, body, done, pause = (emit.fresh(name) for name in ("round", "body", "done", "pause"))
    emit.go(head)
    emit.label(head)
    over = emit.compare("sge", get(emit, _SIM, SIMULATION, "finished"), get(emit, _SIM, SIMULATION, "rows"))
    emit.branch(over, done, body)
    emit.label(body)
    with emit.count_up(sms) as sm:
        state = _sm(emit, sm)
        ready = get(emit, state, SM, "ready")
        with emit.when(emit.compare("ne", ready, 0)):
            emit.call_void("issue", _SIM, sm)
    rounds = emit.sub(emit.load(left, "i64"), 1)
    emit.store(rounds, left)
    emit.branch(emit.compare("sgt", rounds, 0), head, pause)
    emit.label(done)
    emit.give(integer("i32", DONE))
    emit.label(pause)
    emit.give(integer("i32", NOT_DONE))
    emit.finish(public=True)
