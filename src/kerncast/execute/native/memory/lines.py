"""Counts the 32-byte sectors and 128-byte lines of a warp's access to global and local memory.

Sectors of global memory are marked as touched, and each line is recorded where a recording is made.
"""

from kerncast.execute.native.frames import WORKER, field, get
from kerncast.execute.native.ir import LANES, Emitter, Unit, Value, integer
from kerncast.execute.native.lowering import I32, I64
from kerncast.execute.native.memory.access import POINTERS, SITE, Access
from kerncast.execute.native.memory.banks import passes_in_detail, record, tag
from kerncast.profiles import SECTOR_BYTES
from kerncast.traces import LAST_SHIFT, LINE_BYTES, MASK_SHIFT, PASSES_SHIFT

SECTORS_PER_LINE = LINE_BYTES // SECTOR_BYTES
_LINE_SHIFT, _SECTOR_SHIFT = LINE_BYTES.bit_length() - 1, SECTOR_BYTES.bit_length() - 1
_WORD_BYTES = 4
_WORDS_PER_SECTOR = SECTOR_BYTES // _WORD_BYTES
_COUNTERS, _MASK, _OFFSET = Value("%counters", "ptr"), Value("%mask", "i32"), Value("%offset", I64)
_TAG = Value("%tag", "i64")
_FIRST, _LAST = Value("%first", "i64"), Value("%last", "i64")


def count_run(access: Access, first: Value) -> None:
    """Count for lanes that access one place, or neighbouring ones from ``first`` on."""
    if not access.is_counted:
        return
    emit = access.emit
    lowest = emit.first_lane(access.mask)
    run = emit.lshr(access.mask, lowest)
    has_gap = emit.compare("ne", emit.and_(run, emit.add(run, 1)), 0)
    gap, dense, after = emit.fresh("gap"), emit.fresh("dense"), emit.fresh("after")
    emit.branch(has_gap, gap, dense)
    emit.label(gap)
    count_scattered(access)
    emit.go(after)
    emit.label(dense)
    lane = emit.sub(integer("i32", 31), emit.call("llvm.ctlz.i32", "i32", access.mask, Value("true", "i1")))
    last = emit.op(f"extractelement {access.offset.typed}, {lane.typed}", "i64")
    name = f"run_{access.variant}"
    emit.unit.borrow(name, lambda unit: _define_run(unit, name, access))
    emit.call_void(name, POINTERS[0], _counters(access), _tag(access), first, emit.add(last, access.size - 1))
    emit.go(after)
    emit.label(after)


def count_scattered(access: Access) -> None:
    """Count for lanes anywhere in global memory."""
    if not access.is_counted:
        return
    emit = access.emit
    name = f"scattered_{access.variant}"
    emit.unit.borrow(name, lambda unit: _define_scattered(unit, name, access))
    emit.call_void(name, POINTERS[0], _counters(access), _tag(access), access.mask, access.offset)


def count_local(access: Access) -> None:
    """Count for local memory, which lies interleaved: word w of lane l is word 32 w + l of the warp's memory."""
    if not access.is_counted:
        return
    emit = access.emit
    emit.unit.borrow("local_lines", lambda unit: _define_local(unit, access))
    words = integer("i64", max(1, access.size // _WORD_BYTES))
    emit.call_void("local_lines", POINTERS[0], _counters(access), _tag(access), access.mask, access.private, words)


def _counters(access: Access) -> Value:
    """Return where sectors are counted, and lines behind them."""
    if access.space == "const":
        return field(access.emit, POINTERS[0], WORKER, "trash")
    return access.emit.at(_COUNTERS, access.counters["local_sectors" if access.space == "local" else "sectors"])


def _tag(access: Access) -> Value:
    """Return the bits of an event that tell the instruction, what it does and the passes that it takes."""
    assert access.operation is not None
    what = tag(access.emit, access.operation, SITE)
    if access.space != "global":
        return what
    return access.emit.or_(what, access.emit.shl(passes_in_detail(access), PASSES_SHIFT))


def _define_run(unit: Unit, name: str, like: Access) -> None:
    """Write the count of all sectors from the first to the last byte."""
    emit = Emitter(unit, name, "void", [POINTERS[0], _COUNTERS, _TAG, _FIRST, _LAST])
    start = emit.lshr(_FIRST, _SECTOR_SHIFT)
    count = emit.add(emit.sub(emit.lshr(_LAST, _SECTOR_SHIFT), start), 1)
    emit.increase(_COUNTERS, count)
    ones = emit.sub(emit.shl(integer("i64", 1), count), 1)
    bits = emit.resize(emit.shl(ones, emit.and_(start, SECTORS_PER_LINE - 1)), "i32")
    line = emit.allocate("i64")
    emit.store(emit.lshr(_FIRST, _LINE_SHIFT), line)
    with emit.while_left(bits) as (left, rest):
        _note(emit, emit.load(line, "i64"), emit.and_(left, 2**SECTORS_PER_LINE - 1), like)
        emit.increase(line, integer("i64", 1))
        emit.store(emit.lshr(left, SECTORS_PER_LINE), rest)
    _end_request(emit, like)
    emit.give()
    emit.finish(public=True)


def _define_scattered(unit: Unit, name: str, like: Access) -> None:
    """Write the count of distinct lines: each turn takes the first lane's line and drops all lanes in it."""
    emit = Emitter(unit, name, "void", [POINTERS[0], _COUNTERS, _TAG, _MASK, _OFFSET])
    line = emit.resize(emit.lshr(_OFFSET, _LINE_SHIFT), "i32")
    place = emit.and_(emit.resize(emit.lshr(_OFFSET, _SECTOR_SHIFT), "i32"), SECTORS_PER_LINE - 1)
    _each_line(emit, line, [emit.mask_bits(emit.compare("eq", place, n)) for n in range(SECTORS_PER_LINE)], like)
    _end_request(emit, like)
    emit.give()
    emit.finish(public=True)


def _define_local(unit: Unit, like: Access) -> None:
    """Write the count for local memory; an access of several words is one of each word."""
    words = Value("%words", "i64")
    emit = Emitter(unit, "local_lines", "void", [POINTERS[0], _COUNTERS, _TAG, _MASK, _OFFSET, words])
    per_sector = 2**_WORDS_PER_SECTOR - 1
    sectors = [integer("i32", per_sector << _WORDS_PER_SECTOR * n) for n in range(SECTORS_PER_LINE)]
    first = emit.resize(emit.lshr(_OFFSET, _WORD_BYTES.bit_length() - 1), "i32")
    same = emit.compare("eq", first, emit.splat(_element(emit, first, emit.first_lane(_MASK))))
    is_uniform = emit.compare("eq", emit.and_(emit.mask_bits(emit.compare("eq", same, 0)), _MASK), 0)
    uniform, mixed, after = emit.fresh("uniform"), emit.fresh("mixed"), emit.fresh("after")
    emit.branch(is_uniform, uniform, mixed)
    emit.label(uniform)
    with emit.count_up(words) as word:
        _each_line(emit, emit.add(first, emit.splat(emit.resize(word, "i32"))), sectors, like)
    emit.go(after)
    emit.label(mixed)
    _words_of_lanes(emit, first, words, like)
    emit.go(after)
    emit.label(after)
    _end_request(emit, like)
    emit.give()
    emit.finish(public=True)


def _words_of_lanes(emit: Emitter, first: Value, words: Value, like: Access) -> None:
    """Write the count where lanes access different words: each new word with all lanes that reach it."""
    table = emit.allocate(I32)
    emit.store(first, table, 64)
    before = emit.allocate("i32")
    emit.store(integer("i32", 0), before)
    wide = emit.splat(emit.resize(words, "i32"))
    with emit.each_bit(_MASK) as lane:
        with emit.count_up(words) as number:
            word = emit.add(emit.load(emit.index(table, "i32", lane), "i32"), emit.resize(number, "i32"))
            inside = emit.compare("ult", emit.sub(emit.splat(word), first), wide)
            reach = emit.and_(emit.mask_bits(inside), _MASK)
            is_new = emit.compare("eq", emit.and_(reach, emit.load(before, "i32")), 0)
            with emit.when(is_new):
                bits = _bits(emit, [emit.and_(reach, 0xFF << 8 * n) for n in range(SECTORS_PER_LINE)])
                _count(emit, bits)
                _note(emit, emit.cast("zext", word, "i64"), bits, like)
        emit.store(emit.or_(emit.load(before, "i32"), emit.shl(integer("i32", 1), lane)), before)


def _each_line(emit: Emitter, line: Value, sectors: list[Value], like: Access) -> None:
    """Count and note each distinct line; ``sectors`` are the lanes in the first, second, … sector of their line."""
    table = emit.allocate(I32)
    emit.store(line, table, 64)
    active = [emit.and_(lanes, _MASK) for lanes in sectors]
    with emit.while_left(_MASK) as (left, rest):
        one = emit.load(emit.index(table, "i32", emit.first_lane(left)), "i32")
        same = emit.mask_bits(emit.compare("eq", line, emit.splat(one)))
        emit.store(emit.and_(left, emit.not_(same)), rest)
        bits = _bits(emit, [emit.and_(lanes, same) for lanes in active])
        _count(emit, bits)
        _note(emit, emit.cast("zext", one, "i64"), bits, like)


def _count(emit: Emitter, bits: Value) -> None:
    emit.increase(_COUNTERS, emit.cast("zext", emit.intrinsic("ctpop", bits), "i64"))


def _bits(emit: Emitter, sectors: list[Value]) -> Value:
    """Return one bit per sector of a line in which some lane is."""
    bits = integer("i32", 0)
    for number, lanes in enumerate(sectors):
        there = emit.cast("zext", emit.compare("ne", lanes, 0), "i32")
        bits = emit.or_(bits, emit.shl(there, number)) if number else there
    return bits


def _note(emit: Emitter, line: Value, bits: Value, like: Access) -> None:
    """Count a line, mark its sectors as touched and record it."""
    worker = POINTERS[0]
    emit.increase(emit.at(_COUNTERS, 8), integer("i64", 1))
    spread = emit.unit.table("sectors", [_spread(n) for n in range(2**SECTORS_PER_LINE)])
    for name in like.touches:
        place = emit.at(get(emit, worker, WORKER, name), emit.mul(line, SECTORS_PER_LINE))
        marks = emit.load(emit.index(spread, "i32", bits), "i32")
        # What is marked stays as it is: writing it again would take the cache line from the other core. That core may
        # mark another sector of the same line at this very moment.
        with emit.when(emit.compare("ne", emit.and_(emit.load(place, "i32"), marks), marks)):
            emit.op(f"atomicrmw or {place.typed}, {marks.typed} monotonic", "i32")
    if not like.is_recorded:
        return
    record(emit, emit.or_(emit.or_(line, emit.shl(emit.cast("zext", bits, "i64"), MASK_SHIFT)), _TAG))


def _end_request(emit: Emitter, like: Access) -> None:
    """Mark the event that was recorded last as the last one of its request."""
    if not like.is_recorded:
        return
    worker = POINTERS[0]
    with emit.when(emit.compare("ne", get(emit, worker, WORKER, "event_limit"), 0)):
        last = emit.sub(get(emit, worker, WORKER, "event_count"), 1)
        place = emit.index(get(emit, worker, WORKER, "events"), "i64", last)
        emit.store(emit.or_(emit.load(place, "i64"), 1 << LAST_SHIFT), place)


def _element(emit: Emitter, lanes: Value, lane: Value) -> Value:
    return emit.op(f"extractelement {lanes.typed}, {lane.typed}", "i32")


def _spread(bits: int) -> int:
    """Return a byte of 1 for each bit that is set."""
    return sum(1 << 8 * n for n in range(SECTORS_PER_LINE) if bits >> n & 1)


assert LANES // _WORDS_PER_SECTOR == SECTORS_PER_LINE
