"""Records a warp's access: its event, its passes through the banks, and how far atomics contend."""

from collections.abc import Callable

from kerncast.execute.native.frames import WORKER, field, get
from kerncast.execute.native.ir import LANES, Emitter, Unit, Value, each_lane, integer, vector
from kerncast.execute.native.lowering import I32, I64
from kerncast.execute.native.memory.access import POINTERS, SITE, Access
from kerncast.traces import CONTENT_SHIFT, INSTRUCTION_SHIFT, LAST_SHIFT, MOST_INSTRUCTIONS, OPERATION_SHIFT, Operation

# Writes events into a worker's log (see ``kerncast.traces.recording``).
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
"""writes the passes of a group: (emitter, word of each lane, active lanes, banks)"""


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
