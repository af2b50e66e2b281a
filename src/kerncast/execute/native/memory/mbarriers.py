"""Barriers in shared memory (mbarrier): their 64 bits, the updates that lanes make one after the other, and questions.

The coding of the 64 bits is our own; NVIDIA's is not documented. Source of what they mean: Parallel Thread Execution
ISA 8.8, section 9.7.13.15: a phase ends when no arrival and no byte is pending, and the next one begins at once.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kerncast.execute.native.block import I64, Operation, lowers
from kerncast.execute.native.ir import BLOCK, FAULTS, WARP, WORKER, Emitter, Unit, Value, field, get, integer, put
from kerncast.execute.native.memory.access import (
    ADDRESS,
    MASK,
    POINTERS,
    SITE,
    Access,
    Fault,
    in_bounds,
    lane_pointers,
    note_fault,
)
from kerncast.execute.native.memory.banks import record_change
from kerncast.execute.native.memory.transfer import given_address
from kerncast.execute.setup.arena import SHARED_WINDOW
from kerncast.execute.setup.cluster_addresses import OFFSET_MASK, RANK_SHIFT
from kerncast.execute.setup.phases import (
    ANSWER_BYTES,
    BYTES_BITS,
    BYTES_SHIFT,
    COUNT_BITS,
    MOST,
    PAIR_SHIFT,
    PHASE_SHIFT,
    VALID_SHIFT,
    answered_places,
)
from kerncast.ptx import Address, Sink
from kerncast.traces import TOLD_SHIFT, EventChange

_ARRIVALS, _DROPS, _BYTES, _PHASES = (Value(f"%{name}", I64) for name in ("arrivals", "drops", "bytes", "phases"))
_HEAD = (*POINTERS, SITE, MASK, ADDRESS)
_WORD_BYTES = 8
#: Blocks that the mask of a multicast may name.
_MOST_RANKS = 16
_NEVER_DIRECT = integer("i32", -1)


def run(o: Operation, number: int) -> None:
    """Write an instruction on mbarriers; ``number`` is its place in the function."""
    WRITERS[o.ins.opcode.name](o, number)


def _arguments(o: Operation, number: int) -> tuple[Value, ...]:
    """Return the first arguments of every function here."""
    operand = next(each for each in o.ins.operands if isinstance(each, Address))
    pointers = (o.block.pointers.worker, o.block.pointers.warp)
    return (*pointers, integer("i32", number), o.block.executing, _address(o, operand))


def _address(o: Operation, operand: Address) -> Value:
    address = given_address(o, operand)
    return o.emit.sub(address, SHARED_WINDOW) if o.ins.space == "generic" else address


def _initialise(o: Operation, number: int) -> None:
    _call(o, "mbarrier_init", *_arguments(o, number), o.source(1, "u32"))


def _invalidate(o: Operation, number: int) -> None:
    _call(o, "mbarrier_inval", *_arguments(o, number), integer("<32 x i32>", 0))


def _space(o: Operation) -> str:
    return "cluster" if o.block.program.sees_cluster else "shared"


def _call(o: Operation, name: str, *arguments: Value) -> None:
    if name not in o.emit.unit:
        _define_set(o.emit.unit, name, _space(o))
    o.emit.call_void(name, *arguments)


def _define_set(unit: Unit, name: str, space: str) -> None:
    """Write the function that begins the first phase of each lane's mbarrier, or takes it away."""
    count = Value("%count", "<32 x i32>")
    emit = Emitter(unit, name, "void", [*_HEAD, count])
    access = in_bounds(Access(emit, space, _WORD_BYTES, None))
    counts = emit.allocate("<32 x i32>")
    emit.store(count, counts, 64)
    table = lane_pointers(access)
    with emit.each_bit(access.mask) as lane:
        place = emit.cast("inttoptr", emit.load(emit.index(table, "i64", lane), "i64"), "ptr")
        if name == "mbarrier_inval":
            emit.store(integer("i64", 0), place)
        else:
            _begin(emit, lane, place, emit.load(emit.index(counts, "i32", lane), "i32"))
    _note_change(emit)
    emit.give()
    emit.finish()


def _begin(emit: Emitter, lane: Value, place: Value, count: Value) -> None:
    one = emit.cast("zext", count, "i64")
    wrong = emit.compare("uge", emit.sub(one, 1), MOST)
    with emit.when(wrong):
        _note(emit, "overrun", lane, place)
    with emit.when(emit.not_(wrong)):
        emit.store(emit.or_(emit.or_(one, emit.shl(one, COUNT_BITS)), 1 << VALID_SHIFT), place)
        record_change(emit, EventChange.BEGIN, (_object(emit, place), one))


def _arrive(o: Operation, number: int) -> None:
    """Write arrive and arrive_drop, which may expect bytes first."""
    emit = o.emit
    last = o.source(1, "u32") if len(o.ins.operands) > 2 else None
    expects = o.has("expect_tx")
    given = emit.resize(last, "i64") if last is not None else integer(I64, 1)
    count, more = (integer(I64, 1), given) if expects else (given, integer(I64, 0))
    drops = count if o.ins.opcode.name.endswith("drop") else integer(I64, 0)
    found = _update(o, number, (count, drops, more))
    if not isinstance(o.ins.operands[0], Sink):
        o.block.write(o.ins.operands[0], emit.load(found, I64, 64))


def _change_bytes(o: Operation, number: int) -> None:
    """Write expect_tx and complete_tx."""
    count = o.emit.resize(o.source(1, "u32"), "i64")
    signed = count if "expect_tx" in o.ins.opcode.name else o.emit.sub(integer(I64, 0), count)
    _update(o, number, (integer(I64, 0), integer(I64, 0), signed))


def _arrive_when_copied(o: Operation, number: int) -> None:
    """Write cp.async.mbarrier.arrive: copies are complete where they were issued, so that it arrives at once.

    Without noinc the arrival is one more than those that the mbarrier expects, and nothing is left of both.
    """
    _update(o, number, (integer(I64, int(o.has("noinc"))), integer(I64, 0), integer(I64, 0)))


def _arrive_when_computed(o: Operation, number: int) -> None:
    """Write tcgen05.commit: products and copies are complete where they were issued."""
    changes = (integer(I64, 1), integer(I64, 0), integer(I64, 0))
    if not o.has("multicast::cluster"):
        _update(o, number, changes)
        return
    emit = o.emit
    if "mbarrier_update" not in emit.unit:
        define_update(emit.unit, _space(o))
    *head, executing, address = _arguments(o, number)
    masks, offset = emit.resize(o.source(1, "b16"), "i32"), emit.and_(address, OFFSET_MASK)
    with emit.count_up(integer("i32", _MOST_RANKS)) as rank:
        named = emit.and_(emit.lshr(masks, emit.splat(rank)), 1)
        lanes = emit.and_(emit.mask_bits(emit.compare("ne", named, 0)), executing)
        there = emit.or_(offset, emit.splat(emit.shl(emit.cast("zext", rank, "i64"), RANK_SHIFT)))
        with emit.when(emit.compare("ne", lanes, 0)):
            emit.call_void("mbarrier_update", *head, lanes, there, *changes)


def _ask_for_cluster(o: Operation, number: int) -> None:
    """Write clusterlaunchcontrol.try_cancel: the answer, which is no, comes at once, as mbarriers are told."""
    emit, mbarrier = o.emit, o.ins.operands[1]
    for name, define in (("refuse_cluster", _define_refuse_cluster), ("mbarrier_update", define_update)):
        if name not in emit.unit:
            define(emit.unit, _space(o))
    assert isinstance(mbarrier, Address)
    *head, answer = _arguments(o, number)
    places = answer, _address(o, mbarrier)
    changes = (integer(I64, 0), integer(I64, 0), integer(I64, -ANSWER_BYTES))
    if not o.ins.tells_cluster:
        emit.call_void("refuse_cluster", *head, places[0])
        emit.call_void("mbarrier_update", *head, places[1], *changes)
        return
    with emit.count_up(get(emit, o.block.pointers.worker, WORKER, "cluster_blocks")) as rank:
        there = emit.splat(emit.shl(emit.cast("zext", rank, "i64"), RANK_SHIFT))
        answer, told = (emit.or_(emit.and_(each, OFFSET_MASK), there) for each in places)
        emit.call_void("refuse_cluster", *head, answer)
        emit.call_void("mbarrier_update", *head, told, *changes)


def _define_refuse_cluster(unit: Unit, space: str) -> None:
    """Write the function that answers each lane's request for a cluster."""
    emit = Emitter(unit, "refuse_cluster", "void", [*_HEAD])
    access = in_bounds(Access(emit, space, ANSWER_BYTES, None, is_arrival=True))
    table = lane_pointers(access)
    with emit.each_bit(access.mask) as lane:
        place = emit.cast("inttoptr", emit.load(emit.index(table, "i64", lane), "i64"), "ptr")
        emit.store(integer("i128", 0), place, 16)
    emit.give()
    emit.finish()


def read_answer(o: Operation) -> None:
    """Write clusterlaunchcontrol.query_cancel."""
    emit, target = o.emit, o.ins.operands[0]
    answer = o.source(0, "b128")
    if o.has("is_canceled"):
        o.block.write(target, emit.compare("ne", emit.and_(answer, 1), 0))
        return
    for element, place in answered_places(o.ins):
        o.block.write(element, emit.resize(emit.lshr(answer, place), "i32"))


def _update(o: Operation, number: int, changes: tuple[Value, Value, Value]) -> Value:
    """Write an update and return where the old words are: ``changes`` are arrivals, drops and expected bytes."""
    if "mbarrier_update" not in o.emit.unit:
        define_update(o.emit.unit, _space(o))
    o.emit.call_void("mbarrier_update", *_arguments(o, number), *changes)
    return field(o.emit, o.block.pointers.worker, WORKER, "merged")


def define_update(unit: Unit, space: str) -> None:
    """Write the function that lets lanes arrive, one after the other; the old words are left in ``merged``."""
    emit = Emitter(unit, "mbarrier_update", "void", [*_HEAD, _ARRIVALS, _DROPS, _BYTES])
    access = in_bounds(Access(emit, space, _WORD_BYTES, None, is_arrival=True))
    table, old = lane_pointers(access), field(emit, POINTERS[0], WORKER, "merged")
    places = [emit.allocate(I64) for _ in range(3)]
    for value, place in zip((_ARRIVALS, _DROPS, _BYTES), places, strict=True):
        emit.store(value, place, 64)
    sums = _Sums(emit)
    with emit.each_bit(access.mask) as lane:
        place = emit.cast("inttoptr", emit.load(emit.index(table, "i64", lane), "i64"), "ptr")
        word = emit.load(place, "i64")
        emit.store(word, emit.index(old, "i64", lane))
        changes = [emit.load(emit.index(each, "i64", lane), "i64") for each in places]
        _change(emit, lane, place, changes)
        sums.add(_object(emit, place), changes)
    sums.record()
    _note_change(emit)
    emit.give()
    emit.finish()


class _Sums:
    """The changes of lanes that tell one mbarrier, one lane after the other, which are recorded as one."""

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit
        self._place = emit.allocate("i64")
        self._sums = [emit.allocate("i64") for _ in range(3)]
        emit.store(integer("i64", -1), self._place)
        for each in self._sums:
            emit.store(integer("i64", 0), each)

    def add(self, place: Value, changes: list[Value]) -> None:
        """Write the sum of a lane's changes to the mbarrier at a place."""
        emit = self._emit
        with emit.when(emit.compare("ne", place, emit.load(self._place, "i64"))):
            self.record()
            emit.store(place, self._place)
        for each, change in zip(self._sums, changes, strict=True):
            emit.increase(each, change)

    def record(self) -> None:
        """Write the events, and begin anew. Bytes are expected before the arrival that may end the phase."""
        emit = self._emit
        arrivals, drops, more = (emit.load(each, "i64") for each in self._sums)
        place = emit.load(self._place, "i64")
        with emit.when(emit.compare("ne", place, -1)):
            for change, number in ((EventChange.DROP, drops), (EventChange.EXPECT, more)):
                with emit.when(emit.compare("sgt", number, 0)):
                    record_change(emit, change, (place, number))
            with emit.when(emit.compare("slt", more, 0)):
                record_change(emit, EventChange.COMPLETE, (place, emit.sub(integer("i64", 0), more)))
            with emit.when(emit.compare("eq", more, 0)):
                record_change(emit, EventChange.ARRIVE, (place, arrivals))
            with emit.when(emit.binary("and", emit.compare("sgt", more, 0), emit.compare("ne", arrivals, 0))):
                record_change(emit, EventChange.ARRIVE, (place, arrivals))
        for each in self._sums:
            emit.store(integer("i64", 0), each)


def _object(emit: Emitter, place: Value) -> Value:
    """Return the place of an mbarrier in shared memory in 8 bytes, and whose of the cluster's blocks it is."""
    worker, warp = POINTERS
    shared = emit.cast("ptrtoint", get(emit, warp, WARP, "shared"), "i64")
    stride = get(emit, worker, WORKER, "shared_stride")
    rank = emit.cast("zext", get(emit, get(emit, warp, WARP, "block"), BLOCK, "rank"), "i64")
    first = emit.sub(shared, emit.mul(rank, stride))
    offset = emit.sub(emit.cast("ptrtoint", place, "i64"), first)
    told = emit.xor(emit.binary("udiv", offset, stride), rank)
    return emit.or_(emit.lshr(emit.binary("urem", offset, stride), 3), emit.shl(told, TOLD_SHIFT))


@dataclass(frozen=True, slots=True)
class _Word:
    """The parts of an mbarrier."""

    pending: Value
    expected: Value
    bytes: Value
    phase: Value
    """its bit, where it stands"""
    pairs: Value
    """the bit of pairs of phases, where it stands"""
    valid: Value

    @classmethod
    def of(cls, emit: Emitter, word: Value) -> "_Word":
        """Take a word apart."""
        left = 64 - BYTES_SHIFT - BYTES_BITS
        return cls(
            emit.and_(word, MOST),
            emit.and_(emit.lshr(word, COUNT_BITS), MOST),
            emit.ashr(emit.shl(word, left), 64 - BYTES_BITS),
            emit.and_(word, 1 << PHASE_SHIFT),
            emit.and_(word, 1 << PAIR_SHIFT),
            emit.compare("ne", emit.and_(word, 1 << VALID_SHIFT), 0),
        )


def _change(emit: Emitter, lane: Value, place: Value, changes: list[Value]) -> None:
    """Write the update of one mbarrier, or note that it is impossible."""
    old = _Word.of(emit, emit.load(place, "i64"))
    arrivals, drops, more = changes
    total = emit.add(old.bytes, more)
    wrong = emit.binary(
        "or",
        emit.binary("or", emit.compare("ugt", arrivals, old.pending), emit.compare("ugt", drops, old.expected)),
        emit.compare("ugt", emit.add(total, MOST), 2 * MOST),
    )
    is_good = emit.binary("and", old.valid, emit.not_(wrong))
    with emit.when(emit.not_(old.valid)):
        _note(emit, "uninitialised", lane, place)
    with emit.when(emit.binary("and", old.valid, wrong)):
        _note(emit, "overrun", lane, place)
    with emit.when(is_good):
        pending, expected = emit.sub(old.pending, arrivals), emit.sub(old.expected, drops)
        ends = emit.compare("eq", emit.or_(pending, total), 0)
        turned = emit.shl(emit.cast("zext", ends, "i64"), PHASE_SHIFT)
        pairs = emit.xor(old.pairs, emit.lshr(emit.and_(old.phase, turned), PHASE_SHIFT - PAIR_SHIFT))
        low = emit.or_(emit.select(ends, expected, pending), emit.shl(expected, COUNT_BITS))
        high = emit.shl(emit.and_(total, (1 << BYTES_BITS) - 1), BYTES_SHIFT)
        high = emit.or_(emit.or_(emit.or_(high, 1 << VALID_SHIFT), emit.xor(old.phase, turned)), pairs)
        emit.store(emit.or_(low, high), place)
        with emit.when(ends):  # lanes of this warp that let others go first may have waited for it
            put(emit, integer("i32", 0), POINTERS[1], WARP, "deferred")
            put(emit, _NEVER_DIRECT, POINTERS[1], WARP, "next")


def _note_change(emit: Emitter) -> None:
    for name in ("changes", "steps"):
        emit.increase(field(emit, POINTERS[0], WORKER, name), integer("i64", 1))


def _note(emit: Emitter, name: str, lane: Value, place: Value) -> None:
    start = emit.cast("ptrtoint", get(emit, POINTERS[1], WARP, "shared"), "i64")
    offset = emit.sub(emit.cast("ptrtoint", place, "i64"), start)
    note_fault(emit, POINTERS, Fault(integer("i32", FAULTS[name]), SITE, lane, offset))


def _ask(o: Operation, number: int) -> None:
    """Write test_wait and try_wait, which both answer at once: a warp that asks in vain gives up its turn.

    A lane that waits in try_wait hears of the end of its phase, even where the next one has ended, too.
    """
    emit = o.emit
    if "mbarrier_ask" not in emit.unit:
        _define_ask(emit.unit, _space(o))
    if o.has("parity"):
        phases = emit.and_(emit.resize(o.source(1, "u32"), "i64"), 1)
    else:
        phases = emit.lshr(o.source(1, "b64"), PHASE_SHIFT)
    waits = integer("i32", int(o.ins.opcode.name.endswith("try_wait")))
    ended = emit.call("mbarrier_ask", "i32", *_arguments(o, number), phases, waits)
    if not isinstance(o.ins.operands[0], Sink):
        o.block.write(o.ins.operands[0], emit.mask_lanes(ended))


def _define_ask(unit: Unit, space: str) -> None:
    waits = Value("%waits", "i32")
    emit = Emitter(unit, "mbarrier_ask", "i32", [*_HEAD, _PHASES, waits])
    access = in_bounds(Access(emit, space, _WORD_BYTES, None))
    table, ended, phases = lane_pointers(access), emit.allocate("i32"), emit.allocate(I64)
    emit.store(integer("i32", 0), ended)
    emit.store(_PHASES, phases, 64)
    waiting = emit.select(emit.compare("ne", waits, 0), _waiting(emit), 0)
    with emit.each_bit(access.mask) as lane:
        place = emit.cast("inttoptr", emit.load(emit.index(table, "i64", lane), "i64"), "ptr")
        word = emit.load(place, "i64")
        with emit.when(emit.not_(_Word.of(emit, word).valid)):
            _note(emit, "uninitialised", lane, place)
        asked = emit.load(emit.index(phases, "i64", lane), "i64")
        is_over = emit.compare("ne", emit.lshr(word, PHASE_SHIFT), asked)
        waited = emit.compare("ne", emit.and_(emit.lshr(waiting, lane), 1), 0)
        is_woken = emit.binary("and", waited, _has_ended(emit, place, word, asked))
        is_over = emit.binary("or", is_over, is_woken)
        bit = emit.shl(emit.cast("zext", is_over, "i32"), lane)
        emit.store(emit.or_(emit.load(ended, "i32"), bit), ended)
    result = emit.load(ended, "i32")
    with emit.when(emit.compare("ne", result, 0)):
        lane = emit.first_lane(result)
        place = emit.cast("inttoptr", emit.load(emit.index(table, "i64", lane), "i64"), "ptr")
        parity = emit.load(emit.index(phases, "i64", lane), "i64")
        record_change(emit, EventChange.WAIT, (_object(emit, place), parity))
    failing = emit.and_(access.mask, emit.not_(result))
    warp = POINTERS[1]
    before = emit.and_(get(emit, warp, WARP, "failing"), emit.not_(MASK))
    put(emit, emit.or_(before, failing), warp, WARP, "failing")
    with emit.when(emit.compare("ne", failing, 0)):
        _note_vain(emit, emit.load(emit.index(table, "i64", emit.first_lane(failing)), "i64"))
    emit.give(result)
    emit.finish()


def _waiting(emit: Emitter) -> Value:
    """Return the lanes that asked in vain at the same instruction when they asked last."""
    is_same = emit.compare("eq", get(emit, POINTERS[1], WARP, "asks"), SITE)
    return emit.select(is_same, get(emit, POINTERS[1], WARP, "failing"), 0)


def _has_ended(emit: Emitter, place: Value, word: Value, asked: Value) -> Value:
    """Return whether the phase has ended that the warp asked for in vain (``phases.ended_meanwhile``)."""
    warp = POINTERS[1]
    shared = emit.cast("ptrtoint", get(emit, warp, WARP, "shared"), "i64")
    offset = emit.sub(emit.cast("ptrtoint", place, "i64"), shared)
    vain = emit.cast("zext", get(emit, warp, WARP, "vain"), "i64")
    is_same = emit.compare("eq", offset, get(emit, warp, WARP, "object"))
    is_asked = emit.compare("eq", emit.lshr(vain, PHASE_SHIFT - PAIR_SHIFT), asked)
    has_changed = emit.compare("ne", emit.lshr(word, PAIR_SHIFT), vain)
    return emit.binary("and", emit.binary("and", is_same, is_asked), has_changed)


def _note_vain(emit: Emitter, place: Value) -> None:
    """Write down which mbarrier a warp asked in vain."""
    warp = POINTERS[1]
    word = emit.load(emit.cast("inttoptr", place, "ptr"), "i64")
    put(emit, emit.resize(emit.lshr(word, PAIR_SHIFT), "i32"), warp, WARP, "vain")
    shared = emit.cast("ptrtoint", get(emit, warp, WARP, "shared"), "i64")
    changes = get(emit, POINTERS[0], WORKER, "changes")
    values = {"spun": integer("i32", 1), "asks": SITE, "object": emit.sub(place, shared), "seen": changes}
    for name, value in values.items():
        put(emit, value, warp, WARP, name)


def note_deadlock(emit: Emitter, worker: Value, warp: Value) -> None:
    """Write the call that notes that a warp waits for ever at the mbarrier which it asked in vain last."""
    if "note_deadlock" not in emit.unit:
        _define_note_deadlock(emit.unit)
    emit.call_void("note_deadlock", worker, warp)


def _define_note_deadlock(unit: Unit) -> None:
    emit = Emitter(unit, "note_deadlock", "void", POINTERS)
    worker, warp = POINTERS
    place = get(emit, warp, WARP, "object")
    with emit.when(emit.compare("eq", get(emit, worker, WORKER, "fault"), 0)):
        word = emit.load(emit.at(get(emit, warp, WARP, "shared"), place), "i64")
        put(emit, word, worker, WORKER, "fault_state")
    lane = emit.first_lane(emit.or_(get(emit, warp, WARP, "failing"), 0x80000000))
    code = integer("i32", FAULTS["deadlock"])
    note_fault(emit, POINTERS, Fault(code, get(emit, warp, WARP, "asks"), lane, place))
    emit.give()
    emit.finish()


@lowers("mbarrier.pending_count")
def _pending_count(o: Operation) -> Value:
    return o.emit.cast("trunc", o.emit.and_(o.source(0, "b64"), MOST), "i32")


WRITERS: dict[str, Callable[[Operation, int], None]] = {
    "mbarrier.init": _initialise, "mbarrier.inval": _invalidate, "mbarrier.arrive": _arrive,
    "mbarrier.arrive_drop": _arrive, "mbarrier.expect_tx": _change_bytes, "mbarrier.complete_tx": _change_bytes,
    "mbarrier.test_wait": _ask, "mbarrier.try_wait": _ask, "cp.async.mbarrier.arrive": _arrive_when_copied,
    "tcgen05.commit": _arrive_when_computed, "clusterlaunchcontrol.try_cancel": _ask_for_cluster,
}  # fmt: skip
