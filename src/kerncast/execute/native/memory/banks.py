"""Records a warp's access: its event, its passes through the banks, and how far atomics contend."""

from collections.abc import Callable
from typing import NamedTuple

from kerncast.execute.native.block import I32, I64
from kerncast.execute.native.ir import LANES, WORKER, Emitter, Unit, Value, each_lane, field, get, integer, vector
from kerncast.execute.native.memory.access import POINTERS, SITE, Access
from kerncast.execute.setup.arena import PAGE_BITS, PAGE_SECTORS
from kerncast.profiles import SECTOR_BYTES
from kerncast.traces import (
    CONTENT_SHIFT,
    INSTRUCTION_SHIFT,
    LAST_SHIFT,
    LINE_BYTES,
    MASK_SHIFT,
    MOST_INSTRUCTIONS,
    OBJECT_BITS,
    OPERATION_SHIFT,
    PASSES_SHIFT,
    EventChange,
    Operation,
)

# Writes events into a worker's log (see ``kerncast.traces.execution``).
#
# Lines of global and local memory are recorded wherever a recording is made; basic blocks, shared memory and
# contention only where it is made in detail, because a simulation of caches has no use for them.


def tag(emit: Emitter, operation: Operation, number: Value) -> Value:
    """Return the bits of an event that tell what is done, and by which instruction; ``number`` is 32 bits wide."""
    return emit.or_(_numbered(emit, number), int(operation) << OPERATION_SHIFT)


def record(emit: Emitter, event: Value) -> None:
    """Append an event to the log, if that has room."""
    counter = field(emit, POINTERS[0], WORKER, "event_count")
    count = emit.load(counter, "i64")
    with emit.when(emit.compare("ult", count, get(emit, POINTERS[0], WORKER, "event_limit"))):
        emit.store(event, emit.index(get(emit, POINTERS[0], WORKER, "events"), "i64", count))
        emit.store(emit.add(count, 1), counter)


def record_detail(emit: Emitter, operation: Operation, number: Value, content: Value) -> None:
    """Append an event without a line, where the recording is in detail; ``content`` takes the place of the line."""
    last = 0 if operation is Operation.CONTENTION else 1 << LAST_SHIFT  # the lines of its request follow
    with emit.when(emit.compare("ne", get(emit, POINTERS[0], WORKER, "in_detail"), 0)):
        what = integer("i64", operation << OPERATION_SHIFT | last)
        emit.unit.borrow("record_detail", _define_record)
        emit.call_void("record_detail", POINTERS[0], what, number, emit.resize(content, "i64"))


def record_change(emit: Emitter, change: EventChange, what: tuple[Value, Value], site: Value = SITE) -> None:
    """Append what happens to an event: ``what`` is its object and a number, both of 64 bits."""
    content = emit.or_(what[0], emit.shl(what[1], OBJECT_BITS))
    record_detail(emit, Operation.EVENT, site, emit.or_(content, int(change) << MASK_SHIFT))


def _define_record(unit: Unit) -> None:
    what, number, content = Value("%what", "i64"), Value("%number", "i32"), Value("%content", "i64")
    emit = Emitter(unit, "record_detail", "void", [POINTERS[0], what, number, content])
    record(emit, emit.or_(emit.or_(what, content), _numbered(emit, number)))
    emit.give()
    emit.finish(public=True)


def _numbered(emit: Emitter, number: Value) -> Value:
    known = emit.intrinsic("umin", number, integer("i32", MOST_INSTRUCTIONS - 1))
    return emit.shl(emit.cast("zext", known, "i64"), INSTRUCTION_SHIFT)


# Counts the passes of shared memory that a warp's access takes, and how far atomics contend for one address.
#
# Both are recorded where a recording is made in detail.
#
# Shared memory has 32 banks of 4 bytes. An access of 4 bytes or less per lane is one group of 32 lanes; one of 8
# bytes is two groups of 16, one of 16 bytes four groups of 8, which merge two by two where neighbouring lanes (i and
# i ^ 1, or i and i ^ 2) agree on their addresses. A group takes as many passes as the most wanted bank has different
# words. Source: CUDA C++ Programming Guide, section on shared memory of compute capability 5.x; for wider accesses
# the rule that developers report to see in Nsight Compute, which NVIDIA does not document. Kepler's banks are 8 bytes
# wide: by default two words that lie 32 apart in an aligned row of 64 are served together (same guide, compute
# capability 3.x).


_BANKS_BYTES = 128
_WORD_BYTES = 4
_MOST_CONTENT = (1 << CONTENT_SHIFT) - 1
_COUNTERS, _MASK, _OFFSET = Value("%counters", "ptr"), Value("%mask", "i32"), Value("%offset", I64)
I8 = vector("i8")
Count = Callable[[Emitter, Value, Value, int], Value]
"""function that writes the passes of a group: (emitter, word of each lane, active lanes, banks)"""


def count_conflict_free(access: Access, *, is_broadcast: bool) -> None:
    """Count an access whose lanes read neighbouring words, or all the same one."""
    if not access.is_counted:
        return
    emit = access.emit
    groups = max(1, access.size // _WORD_BYTES)
    if groups > 1 and not is_broadcast:  # some lanes may be switched off, and what is left may merge
        whole, partial, after = emit.fresh("whole"), emit.fresh("partial"), emit.fresh("after")
        emit.branch(emit.compare("eq", access.mask, -1), whole, partial)
        emit.label(partial)
        count_wavefronts(access)
        emit.go(after)
        emit.label(whole)
        _count_passes(access, groups)
        emit.go(after)
        emit.label(after)
        return
    _count_passes(access, 1)


def count_wavefronts(access: Access) -> None:
    """Count a load or a store of any shape in shared memory."""
    if access.operation is not None:
        record_detail(access.emit, access.operation, SITE, _wavefronts(access, is_atomic=False))


def passes_in_detail(access: Access) -> Value:
    """Return the passes that an access would take through the banks of shared memory; 0 unless recorded in detail."""
    emit = access.emit
    name = _wavefronts_function(access, is_atomic=False)
    passes = emit.allocate("i64")
    emit.store(integer("i64", 0), passes)
    with emit.when(emit.compare("ne", get(emit, POINTERS[0], WORKER, "in_detail"), 0)):
        nowhere = field(emit, POINTERS[0], WORKER, "trash")
        emit.store(emit.call(name, "i64", POINTERS[0], nowhere, access.mask, access.offset), passes)
    return emit.load(passes, "i64")


def count_shared_update(access: Access) -> None:
    """Count an atomic in shared memory: its passes, and the lanes that update the most wanted address."""
    if not access.is_counted:
        return
    emit = access.emit
    passes = _wavefronts(access, is_atomic=True)
    lanes = emit.and_(_contention(access), _MOST_CONTENT)
    access.count("contention", lanes)
    content = emit.or_(passes, emit.shl(lanes, CONTENT_SHIFT))
    record_detail(emit, Operation.SHARED_ATOMIC, SITE, content)


def count_global_update(access: Access) -> None:
    """Count how far the lanes of an atomic in global memory contend; its lines follow."""
    if not access.is_counted:
        return
    emit = access.emit
    found = _contention(access)
    access.count("contention", emit.and_(found, _MOST_CONTENT))
    record_detail(emit, Operation.CONTENTION, SITE, found)


def _count_passes(access: Access, passes: int) -> None:
    """Count an access without conflicts."""
    assert access.operation is not None
    amount = integer("i64", passes)
    access.count("shared_wavefronts", amount)
    record_detail(access.emit, access.operation, SITE, amount)


def _wavefronts(access: Access, *, is_atomic: bool) -> Value:
    """Count the passes of an access and return them; the lanes of an atomic never share a word."""
    emit = access.emit
    name = _wavefronts_function(access, is_atomic=is_atomic)
    place = emit.at(_COUNTERS, access.counters["shared_wavefronts"])
    return emit.call(name, "i64", POINTERS[0], place, access.mask, access.offset)


def _wavefronts_function(access: Access, *, is_atomic: bool) -> str:
    name = f"wavefronts_{access.size}" + ("_atomic" if is_atomic else "")
    access.emit.unit.borrow(name, lambda unit: _define_wavefronts(unit, name, access.size, is_atomic=is_atomic))
    return name


def _contention(access: Access) -> Value:
    """Return the lanes at the most wanted address, and above them how many addresses there are."""
    access.emit.unit.borrow("contention", _define_contention)
    return access.emit.call("contention", "i64", access.mask, access.offset)


def _define_wavefronts(unit: Unit, name: str, size: int, *, is_atomic: bool) -> None:
    emit = Emitter(unit, name, "i64", [POINTERS[0], _COUNTERS, _MASK, _OFFSET])
    before = emit.load(_COUNTERS, "i64")
    unit_bytes = max(size, _WORD_BYTES)
    word = emit.resize(emit.lshr(_OFFSET, unit_bytes.bit_length() - 1), "i32")
    if unit_bytes == _WORD_BYTES and not is_atomic:
        word = _with_pairs(emit, word)
    groups, banks = unit_bytes // _WORD_BYTES, _BANKS_BYTES // unit_bytes
    count = _count_lanes if is_atomic else _count_words
    if groups in {2, 4}:
        apart, together = emit.fresh("apart"), emit.fresh("together")
        emit.branch(_neighbours_agree(emit, word), together, apart)
        emit.label(together)
        _each_group(emit, word, groups // 2, banks, count)
        _give_passes(emit, before)
        emit.label(apart)
    if not is_atomic:
        _even_strides(emit, word, groups, banks, before)
    _each_group(emit, word, groups, banks, count)
    _give_passes(emit, before)
    emit.finish(public=True)


def _give_passes(emit: Emitter, before: Value) -> None:
    """Return what the counter has grown by."""
    emit.give(emit.sub(emit.load(_COUNTERS, "i64"), before))


def _with_pairs(emit: Emitter, word: Value) -> Value:
    """Return words so that two which a bank of 8 bytes serves together are one: words 32 apart in a row of 64."""
    rows = emit.shl(emit.lshr(word, 6), 5)
    has_pairs = emit.compare("ne", get(emit, POINTERS[0], WORKER, "pairs_words"), 0)
    return emit.select(has_pairs, emit.or_(rows, emit.and_(word, LANES - 1)), word)


def _even_strides(emit: Emitter, word: Value, groups: int, banks: int, before: Value) -> None:
    """Write the case of all lanes at one distance from each other: that of its factor of two, up to the banks."""
    first, second = (emit.op(f"extractelement {word.typed}, i64 {lane}", "i32") for lane in (0, 1))
    stride = emit.sub(second, first)
    steps = emit.op(f"mul {I32} {each_lane(I32, range(LANES)).text}, {emit.splat(stride).text}", I32)
    agrees = emit.mask_bits(emit.compare("eq", word, emit.add(emit.splat(first), steps)))
    is_even = emit.binary("and", emit.compare("eq", agrees, -1), emit.compare("eq", _MASK, -1))
    even, other = emit.fresh("even"), emit.fresh("other")
    emit.branch(emit.binary("and", is_even, emit.compare("ne", stride, 0)), even, other)
    emit.label(even)
    power = emit.and_(stride, emit.sub(integer("i32", 0), stride))
    passes = emit.cast("zext", emit.intrinsic("umin", power, integer("i32", banks)), "i64")
    emit.increase(_COUNTERS, emit.mul(passes, groups))
    emit.increase(emit.at(_COUNTERS, 8), emit.mul(emit.sub(passes, 1), groups))
    _give_passes(emit, before)
    emit.label(other)


def _each_group(emit: Emitter, word: Value, groups: int, banks: int, count: Count) -> None:
    """Write the passes of each group that has an active lane."""
    for lanes in _lanes_of_groups(groups):
        active = emit.and_(_MASK, lanes)
        with emit.when(emit.compare("ne", active, 0)):
            most = count(emit, word, active, banks)
            emit.increase(_COUNTERS, most)
            emit.increase(emit.at(_COUNTERS, 8), emit.sub(most, 1))


def _count_words(emit: Emitter, word: Value, active: Value, banks: int) -> Value:
    """Return how many different words the most wanted bank has: one, if no two words lie in one bank."""
    leaders = _leaders(emit, word, active)
    bank = emit.and_(word, banks - 1)
    wanted = emit.select(emit.mask_lanes(leaders), emit.op(f"shl {I32} splat (i32 1), {bank.text}", I32), 0)
    all_banks = emit.call("llvm.vector.reduce.or.v32i32", "i32", wanted)
    most = emit.allocate("i64")
    emit.store(integer("i64", 1), most)
    has_own = emit.compare("eq", emit.intrinsic("ctpop", all_banks), emit.intrinsic("ctpop", leaders))
    with emit.when(emit.not_(has_own)):
        emit.store(_most_wanted(emit, word, leaders, banks, is_atomic=False), most)
    return emit.load(most, "i64")


def _count_lanes(emit: Emitter, word: Value, active: Value, banks: int) -> Value:
    """Return how many lanes the most wanted bank has."""
    return _most_wanted(emit, word, active, banks, is_atomic=True)


def _leaders(emit: Emitter, word: Value, active: Value) -> Value:
    """Return the active lanes without those that want the word of one 1, 2, 4, 8 or 16 lanes before."""
    leaders = active
    for distance in (1, 2, 4, 8, 16):
        order = ", ".join(f"i32 {max(0, lane - distance)}" for lane in range(LANES))
        before = emit.op(f"shufflevector {word.typed}, {I32} poison, <{LANES} x i32> <{order}>", I32)
        same = emit.mask_bits(emit.compare("eq", word, before))
        follows = emit.and_(same, emit.shl(active, distance))
        leaders = emit.and_(leaders, emit.not_(follows))
    return leaders


def _most_wanted(emit: Emitter, word: Value, active: Value, banks: int, *, is_atomic: bool) -> Value:
    """Return how many different words, or for an atomic how many lanes, the most wanted bank has."""
    words, table, most = emit.allocate(I32), emit.allocate(I8), emit.allocate("i8")
    emit.store(word, words, 64)
    emit.store(integer(I8, 0), table, 32)
    emit.store(integer("i8", 0), most)
    with emit.while_left(active) as (left, rest):
        one = emit.load(emit.index(words, "i32", emit.first_lane(left)), "i32")
        same = emit.and_(emit.mask_bits(emit.compare("eq", word, emit.splat(one))), left)
        emit.store(emit.and_(left, emit.not_(same)), rest)
        place = emit.index(table, "i8", emit.and_(one, banks - 1))
        weight = emit.resize(emit.intrinsic("ctpop", same), "i8") if is_atomic else integer("i8", 1)
        count = emit.add(emit.load(place, "i8"), weight)
        emit.store(count, place)
        emit.store(emit.intrinsic("umax", emit.load(most, "i8"), count), most)
    return emit.resize(emit.load(most, "i8"), "i64")


def _neighbours_agree(emit: Emitter, word: Value) -> Value:
    """Return whether all lanes agree with lane i ^ 1, or all with lane i ^ 2, where that takes part."""
    agree = []
    for distance in (1, 2):
        order = ", ".join(f"i32 {lane ^ distance}" for lane in range(LANES))
        other = emit.op(f"shufflevector {word.typed}, {I32} poison, <{LANES} x i32> <{order}>", I32)
        differs = emit.mask_bits(emit.compare("ne", word, other))
        low = sum(1 << lane for lane in range(LANES) if not lane & distance)
        up = emit.shl(emit.and_(_MASK, low), distance)
        down = emit.and_(emit.lshr(_MASK, distance), low)
        both = emit.or_(emit.and_(up, _MASK), emit.and_(down, _MASK))
        agree.append(emit.compare("eq", emit.and_(differs, both), 0))
    return emit.binary("or", *agree)


def _define_contention(unit: Unit) -> None:
    emit = Emitter(unit, "contention", "i64", [_MASK, _OFFSET])
    table, most, addresses = emit.allocate(I64), emit.allocate("i32"), emit.allocate("i32")
    emit.store(_OFFSET, table, 64)
    emit.store(integer("i32", 0), most)
    emit.store(integer("i32", 0), addresses)
    with emit.while_left(_MASK) as (left, rest):
        one = emit.load(emit.index(table, "i64", emit.first_lane(left)), "i64")
        same = emit.and_(emit.mask_bits(emit.compare("eq", _OFFSET, emit.splat(one))), left)
        emit.store(emit.and_(left, emit.not_(same)), rest)
        emit.store(emit.intrinsic("umax", emit.load(most, "i32"), emit.intrinsic("ctpop", same)), most)
        emit.increase(addresses, integer("i32", 1))
    both = emit.or_(emit.load(most, "i32"), emit.shl(emit.load(addresses, "i32"), CONTENT_SHIFT))
    emit.give(emit.cast("zext", both, "i64"))
    emit.finish(public=True)


def _lanes_of_groups(groups: int) -> list[int]:
    """Return the lanes of each group, as bits."""
    size = LANES // groups
    return [((1 << size) - 1) << size * n for n in range(groups)]


# Counts the 32-byte sectors and 128-byte lines of a warp's access to global and local memory.
#
# Sectors of global memory are marked as touched, and each line is recorded where a recording is made.


SECTORS_PER_LINE = LINE_BYTES // SECTOR_BYTES
_LINE_SHIFT, _SECTOR_SHIFT = LINE_BYTES.bit_length() - 1, SECTOR_BYTES.bit_length() - 1
_PAGE_SHIFT = (PAGE_SECTORS // SECTORS_PER_LINE).bit_length() - 1  # from lines
_WORDS_PER_SECTOR, _WORD_SHIFT = SECTOR_BYTES // _WORD_BYTES, _WORD_BYTES.bit_length() - 1
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
    name = f"scattered_{access.variant}_{access.size}" if access.is_stored else f"scattered_{access.variant}"
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
    """Return the bits of an event that tell the instruction, what it does and, but for a store, its passes."""
    assert access.operation is not None
    what = tag(access.emit, access.operation, SITE)
    if access.space != "global" or access.is_stored:
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
        now = emit.load(line, "i64")
        stored = _Stored(_words_of_run(emit, now), _ragged(emit, now)) if like.is_stored else None
        _note(emit, now, emit.and_(left, 2**SECTORS_PER_LINE - 1), like, stored)
        emit.increase(line, integer("i64", 1))
        emit.store(emit.lshr(left, SECTORS_PER_LINE), rest)
    _end_request(emit, like)
    emit.give()
    emit.finish(public=True)


class _Stored(NamedTuple):
    """What a store fills of a line."""

    words: Value
    """i32: one bit for each 4-byte word"""
    partly: Value
    """how many sectors it fills in part only, in their place in an event"""


def _words_of_run(emit: Emitter, line: Value) -> Value:
    """Return the words of a line that a run reaches."""
    start = emit.shl(line, _LINE_SHIFT)
    begins, ends = emit.sub(_FIRST, start), emit.sub(_LAST, start)
    begins = emit.select(emit.compare("slt", begins, 0), integer("i64", 0), begins)
    ends = emit.select(emit.compare("sgt", ends, LINE_BYTES - 1), integer("i64", LINE_BYTES - 1), ends)
    # All words up to the last one, without those before the first.
    upto = emit.sub(emit.shl(integer("i64", 2), emit.lshr(ends, _WORD_SHIFT)), 1)
    before = emit.sub(emit.shl(integer("i64", 1), emit.lshr(begins, _WORD_SHIFT)), 1)
    return emit.resize(emit.and_(upto, emit.not_(before)), "i32")


def _ragged(emit: Emitter, line: Value) -> Value:
    """Return how many sectors of a line the two ends of a run fill in part only, in their place in an event."""

    def at(end: Value, wanted: int) -> Value:
        """Tell whether the run ends in this line, but not where a sector does."""
        is_here = emit.compare("eq", emit.lshr(end, _LINE_SHIFT), line)
        is_ragged = emit.compare("ne", emit.and_(end, SECTOR_BYTES - 1), wanted)
        return emit.cast("zext", emit.and_(is_here, is_ragged), "i64")

    begins, ends = at(_FIRST, 0), at(_LAST, SECTOR_BYTES - 1)
    is_one = emit.cast(
        "zext", emit.compare("eq", emit.lshr(_FIRST, _SECTOR_SHIFT), emit.lshr(_LAST, _SECTOR_SHIFT)), "i64"
    )
    both = emit.and_(emit.and_(begins, ends), is_one)
    return emit.shl(emit.sub(emit.add(begins, ends), both), PASSES_SHIFT)


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
    first = emit.resize(emit.lshr(_OFFSET, _WORD_SHIFT), "i32")
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
        stored = None
        if like.is_stored:
            partly = _partly_stored(emit, [emit.and_(lanes, same) for lanes in active], like.size)
            stored = _Stored(_words_of_lanes_in_line(emit, emit.and_(same, _MASK), like.size), partly)
        _note(emit, emit.cast("zext", one, "i64"), bits, like, stored)


def _words_of_lanes_in_line(emit: Emitter, lanes: Value, size: int) -> Value:
    """Return the words of their line that lanes store; one that is stored in part counts as a whole."""
    first = emit.and_(emit.resize(emit.lshr(_OFFSET, _WORD_SHIFT), "i32"), LINE_BYTES // _WORD_BYTES - 1)
    of_lane = emit.shl(emit.splat(integer("i32", (1 << max(1, size // _WORD_BYTES)) - 1)), first)
    there = emit.select(emit.mask_lanes(lanes), of_lane, 0)
    return emit.call("llvm.vector.reduce.or.v32i32", "i32", there)


def _partly_stored(emit: Emitter, sectors: list[Value], size: int) -> Value:
    """Return how many sectors of a line get less than they hold, in their place in an event."""
    found = integer("i32", 0)
    for lanes in sectors:
        stored = emit.mul(emit.intrinsic("ctpop", lanes), size)
        is_part = emit.compare("ult", emit.sub(stored, 1), SECTOR_BYTES - 1)
        found = emit.add(found, emit.cast("zext", is_part, "i32"))
    return emit.shl(emit.cast("zext", found, "i64"), PASSES_SHIFT)


def _count(emit: Emitter, bits: Value) -> None:
    emit.increase(_COUNTERS, emit.cast("zext", emit.intrinsic("ctpop", bits), "i64"))


def _bits(emit: Emitter, sectors: list[Value]) -> Value:
    """Return one bit per sector of a line in which some lane is."""
    bits = integer("i32", 0)
    for number, lanes in enumerate(sectors):
        there = emit.cast("zext", emit.compare("ne", lanes, 0), "i32")
        bits = emit.or_(bits, emit.shl(there, number)) if number else there
    return bits


def _note(emit: Emitter, line: Value, bits: Value, like: Access, stored: _Stored | None = None) -> None:
    """Count a line, mark its sectors as touched, or the words that a store fills, and record it."""
    worker = POINTERS[0]
    emit.increase(emit.at(_COUNTERS, 8), integer("i64", 1))
    spread = emit.unit.table("sectors", [_spread(n) for n in range(2**SECTORS_PER_LINE)])
    for name in like.touches:
        place = emit.at(get(emit, worker, WORKER, name), emit.mul(line, SECTORS_PER_LINE))
        marks = stored.words if stored else emit.load(emit.index(spread, "i32", bits), "i32")
        # What is marked stays as it is: writing it again would take the cache line from the other core. That core may
        # mark another sector of the same line at this very moment.
        with emit.when(emit.compare("ne", emit.and_(emit.load(place, "i32"), marks), marks)):
            emit.op(f"atomicrmw or {place.typed}, {marks.typed} monotonic", "i32")
            page = emit.index(get(emit, worker, WORKER, "pages"), "i8", emit.lshr(line, _PAGE_SHIFT))
            emit.op(f"atomicrmw or {page.typed}, i8 {PAGE_BITS[name]} monotonic", "i8")
    if not like.is_recorded:
        return
    event = emit.or_(emit.or_(line, emit.shl(emit.cast("zext", bits, "i64"), MASK_SHIFT)), _TAG)
    record(emit, event if stored is None else emit.or_(event, stored.partly))


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
