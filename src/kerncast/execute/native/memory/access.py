"""Memory accesses of lanes: bounds and alignment, counters, and the memory behind the addresses.

Generated code reaches memory through the functions written here only, so that no address of a kernel is ever used
unchecked. A lane that points outside is taken out of the access, and the fault is noted; the warp stops at the next
loop iteration or at its end. Global memory remembers per instruction which allocation it met last, so that the usual
check is two comparisons.
"""

from dataclasses import dataclass, replace

from kerncast.execute.native.block import I64
from kerncast.execute.native.ir import (
    BLOCK,
    FAULTS,
    SPACES,
    WARP,
    WORKER,
    Emitter,
    Unit,
    Value,
    each_lane,
    field,
    get,
    integer,
    put,
)
from kerncast.execute.setup.arena import GLOBAL_BASE
from kerncast.execute.setup.cluster_addresses import OFFSET_MASK, RANK_SHIFT
from kerncast.traces import Operation

POINTERS = (Value("%worker", "ptr"), Value("%warp", "ptr"))
SITE = Value("%site", "i32")
_COUNTERS, MASK, ADDRESS = (
    Value("%counters", "ptr"),
    Value("%mask", "i32"),
    Value("%address", I64),
)
_START = Value("0", "i64")
_FIRST_SPACE = Value("0", "i32")
#: Parameters of every function that accesses memory.
PARAMETERS = (*POINTERS, _COUNTERS, SITE, MASK, ADDRESS)
#: Counters of a memory instruction in each state space.
COUNTERS = {
    "global": ("requests", "accesses", "sectors", "lines", "contention"),
    "shared": ("shared_requests", "shared_accesses", "shared_wavefronts", "shared_conflicts", "contention"),
    "local": ("local_requests", "local_accesses", "local_sectors", "local_lines"),
}


@dataclass(frozen=True, slots=True)
class Access:
    """One access of a warp, in the function that makes it."""

    emit: Emitter
    space: str
    """global, const, shared, cluster (shared memory of any of its blocks), local, call (parameters of an inlined
    function) or param (of the kernel)"""
    size: int
    """bytes per lane"""
    operation: Operation | None
    """kind of event to record; None where only instructions are counted"""
    mask: Value = MASK
    """lanes that take part, as bits"""
    offset: Value = ADDRESS
    """offset of each lane from the start of the memory"""
    start: Value = _START
    """address of the memory, as an integer"""
    private: Value = ADDRESS
    """offset of each lane in its own part of local memory"""
    is_arrival: bool = False
    """whether it changes an mbarrier: in a block that has ended nobody waits for it any more"""

    @property
    def is_counted(self) -> bool:
        """Whether sectors, lines and wavefronts are counted."""
        return self.operation is not None

    @property
    def is_recorded(self) -> bool:
        """Whether a recording shows it."""
        return self.is_counted and self.space in {"global", "local"}

    @property
    def touches(self) -> tuple[str, ...]:
        """Maps of touched sectors that the access marks: read, written."""
        if self.operation is None or self.space not in {"global", "const"}:
            return ()
        if self.operation in {Operation.ATOMIC, Operation.REDUCTION}:
            return ("read", "written")
        return ("written",) if self.operation is Operation.STORE else ("read",)

    @property
    def is_stored(self) -> bool:
        """Whether it stores to global memory."""
        return self.operation is Operation.STORE

    @property
    def variant(self) -> str:
        """Ending of the names of the functions that count the access."""
        return "_".join((self.space, *self.touches))

    @property
    def counters(self) -> dict[str, int]:
        """Offsets of the counters of the instruction."""
        return {name: 8 * place for place, name in enumerate(COUNTERS.get(self.space, ()))}

    def count(self, name: str, amount: Value) -> None:
        """Add to a counter."""
        if name in self.counters:
            self.emit.increase(self.emit.at(_COUNTERS, self.counters[name]), amount)

    def agrees(self, wanted: Value) -> Value:
        """Return whether the offsets of all lanes that take part are as wanted."""
        emit = self.emit
        other = emit.and_(emit.mask_bits(emit.compare("ne", self.offset, wanted)), self.mask)
        return emit.compare("eq", other, 0)


def checked(access: Access, nothing: Value | None) -> Access:
    """Write the check of an access, and its counts; without lanes left the function returns ``nothing``."""
    emit = access.emit
    access = in_bounds(access)
    none, some = emit.fresh("none"), emit.fresh("some")
    emit.branch(emit.compare("eq", access.mask, 0), none, some)
    emit.label(none)
    emit.give(nothing)
    emit.label(some)
    count_request(access)
    return access


def in_bounds(access: Access) -> Access:
    """Write the check of an access; lanes that point outside take no part in what is returned."""
    return _CHECKS[access.space](access)


def count_request(access: Access) -> None:
    """Count the request of a warp, and the lanes that take part."""
    threads = access.emit.count_lanes(access.mask)
    access.count("accesses", threads)
    access.count("shared_accesses", threads)
    access.count("local_accesses", threads)
    for name in ("requests", "shared_requests", "local_requests"):
        access.count(name, integer("i64", 1))


def forget_window(emit: Emitter) -> None:
    """Write that the next access by this instruction looks for its allocation again."""
    window = emit.at(get(emit, POINTERS[0], WORKER, "windows"), emit.shl(emit.cast("zext", SITE, "i64"), 4))
    for place in (0, 8):
        emit.store(integer("i64", 0), emit.at(window, place))


def lane_pointers(access: Access) -> Value:
    """Write the address of each lane to a table and return it; lanes that take no part point to a place of no use."""
    emit, worker = access.emit, POINTERS[0]
    trash = emit.cast("ptrtoint", field(emit, worker, WORKER, "trash"), "i64")
    address = emit.add(access.offset, emit.splat(access.start))
    table = field(emit, worker, WORKER, "offsets")
    emit.store(emit.select(emit.mask_lanes(access.mask), address, emit.splat(trash)), table, 64)
    return table


def _check_global(access: Access) -> Access:
    emit, worker = access.emit, POINTERS[0]
    offset = emit.sub(access.offset, integer(I64, GLOBAL_BASE))
    site = emit.cast("zext", SITE, "i64")
    window = emit.at(get(emit, worker, WORKER, "windows"), emit.shl(site, 4))
    start, places = emit.load(window, "i64"), emit.load(emit.at(window, 8), "i64")
    bad = emit.compare("uge", emit.sub(offset, emit.splat(start)), emit.splat(places))
    mask = _mended(access, _with_misaligned(access, bad, offset), offset, "find_allocation")
    arena = emit.cast("ptrtoint", get(emit, worker, WORKER, "arena"), "i64")
    return replace(access, mask=mask, offset=offset, start=arena)


def _check_shared(access: Access) -> Access:
    return _check_room(access, "shared_bytes", get(access.emit, POINTERS[1], WARP, "shared"))


def _check_cluster(access: Access) -> Access:
    """Write the check of addresses in the cluster; what is accessed counts as shared memory."""
    emit, (worker, warp) = access.emit, POINTERS
    block = get(emit, warp, WARP, "block")
    rank, offset = emit.lshr(access.offset, RANK_SHIFT), emit.and_(access.offset, OFFSET_MASK)
    blocks = emit.cast("zext", get(emit, worker, WORKER, "cluster_blocks"), "i64")
    size = emit.cast("zext", get(emit, worker, WORKER, "shared_bytes"), "i64")
    places = emit.select(emit.compare("uge", size, access.size), emit.sub(size, access.size - 1), integer("i64", 0))
    bad = emit.or_(emit.compare("uge", offset, emit.splat(places)), emit.compare("uge", rank, emit.splat(blocks)))
    mask = _mended(access, _with_misaligned(access, bad, offset), access.offset, "reject")
    mask = _without_departed(access, mask, rank, get(emit, block, BLOCK, "gone"))
    stride = get(emit, worker, WORKER, "shared_stride")
    own = emit.mul(emit.cast("zext", get(emit, block, BLOCK, "rank"), "i64"), stride)
    start = emit.sub(emit.cast("ptrtoint", get(emit, warp, WARP, "shared"), "i64"), own)
    offset = emit.add(offset, emit.mul(rank, emit.splat(stride)))
    return replace(access, space="shared", mask=mask, offset=offset, start=start)


def _without_departed(access: Access, mask: Value, rank: Value, gone: Value) -> Value:
    """Return the lanes whose block is still there; that one is not is noted as a fault, that of an arrival as a doubt.

    The memory of an ended block is kept until its whole cluster has ended, so that an arrival changes nothing else.
    """
    emit = access.emit
    bits = emit.splat(emit.cast("zext", gone, "i64"))
    left = emit.and_(emit.lshr(bits, emit.and_(rank, 31)), 1)
    failed = emit.and_(emit.mask_bits(emit.compare("ne", left, 0)), mask)
    if access.is_arrival:
        with emit.when(emit.compare("ne", failed, 0)):
            remarks = get(emit, POINTERS[0], WORKER, "remarks")
            emit.store(integer("i8", 1), emit.at(remarks, emit.cast("zext", SITE, "i64")))
        return mask
    with emit.when(emit.compare("ne", failed, 0)):
        offsets = field(emit, POINTERS[0], WORKER, "offsets")
        emit.store(access.offset, offsets, 64)
        lane = emit.first_lane(failed)
        address = emit.load(emit.index(offsets, "i64", lane), "i64")
        note_fault(emit, POINTERS, Fault(integer("i32", FAULTS["gone"]), SITE, lane, address))
    return emit.and_(mask, emit.not_(failed))


def _check_parameter(access: Access) -> Access:
    return _check_room(access, "parameter_bytes", get(access.emit, POINTERS[0], WORKER, "parameters"))


def _check_local(access: Access) -> Access:
    emit = access.emit
    found = _check_room(access, "private_bytes", get(emit, POINTERS[1], WARP, "private"))
    stride = emit.cast("zext", get(emit, POINTERS[0], WORKER, "private_bytes"), "i64")
    own = emit.mul(each_lane(I64, range(32)), emit.splat(stride))
    return replace(found, offset=emit.add(found.offset, own), private=found.offset)


def _check_room(access: Access, room: str, memory: Value) -> Access:
    emit = access.emit
    size = emit.cast("zext", get(emit, POINTERS[0], WORKER, room), "i64")
    places = emit.select(emit.compare("uge", size, access.size), emit.sub(size, access.size - 1), integer("i64", 0))
    bad = emit.compare("uge", access.offset, emit.splat(places))
    mask = _mended(access, _with_misaligned(access, bad, access.offset), access.offset, "reject")
    return replace(access, mask=mask, start=emit.cast("ptrtoint", memory, "i64"))


def _with_misaligned(access: Access, bad: Value, offset: Value) -> Value:
    if access.size == 1:
        return bad
    emit = access.emit
    return emit.or_(bad, emit.compare("ne", emit.and_(offset, access.size - 1), 0))


def _mended(access: Access, bad: Value, offset: Value, name: str) -> Value:
    """Return the lanes that may go on, where some have failed the quick check."""
    emit = access.emit
    if name not in emit.unit:
        {"find_allocation": _define_find_allocation, "reject": _define_reject}[name](emit.unit)
    failed = emit.and_(emit.mask_bits(bad), access.mask)
    result = emit.allocate("i32")
    emit.store(access.mask, result)
    with emit.when(emit.compare("ne", failed, 0)):
        space = integer("i32", SPACES.index(access.space))
        size = integer("i64", access.size)
        emit.store(emit.call(name, "i32", *POINTERS, SITE, access.mask, failed, offset, size, space), result)
    return emit.load(result, "i32")


_FAILED, _SIZE, _SPACE = Value("%failed", "i32"), Value("%size", "i64"), Value("%space", "i32")
_SLOW = (*POINTERS, SITE, MASK, _FAILED, ADDRESS, _SIZE, _SPACE)


def _define_find_allocation(unit: Unit) -> None:
    """Write the search for the allocation of each lane, which returns the lanes that lie in one."""
    emit = Emitter(unit, "find_allocation", "i32", _SLOW)
    worker = POINTERS[0]
    offsets, kept, found = field(emit, worker, WORKER, "offsets"), emit.allocate("i32"), emit.allocate("i32")
    emit.store(ADDRESS, offsets, 64)
    emit.store(MASK, kept)
    window = emit.at(get(emit, worker, WORKER, "windows"), emit.shl(emit.cast("zext", SITE, "i64"), 4))
    starts, ends = get(emit, worker, WORKER, "starts"), get(emit, worker, WORKER, "ends")
    count = emit.cast("ptrtoint", get(emit, worker, WORKER, "allocations"), "i64")
    with emit.each_bit(MASK) as lane:
        offset = emit.load(emit.index(offsets, "i64", lane), "i64")
        emit.store(integer("i32", 0), found)
        number = _last_before(emit, starts, count, offset)
        with emit.when(emit.compare("ult", number, count)):
            start = emit.load(emit.index(starts, "i64", number), "i64")
            length = emit.sub(emit.load(emit.index(ends, "i64", number), "i64"), start)
            places = emit.add(emit.sub(length, _SIZE), 1)
            fits = emit.compare("ult", emit.sub(offset, start), places)
            with emit.when(emit.and_(fits, emit.compare("uge", length, _SIZE))):
                emit.store(start, window)
                emit.store(places, emit.at(window, 8))
                emit.store(integer("i32", 1), found)
        misaligned = emit.compare("ne", emit.and_(offset, emit.sub(_SIZE, 1)), 0)
        outside = emit.compare("eq", emit.load(found, "i32"), 0)
        reached = emit.compare("ult", offset, get(emit, worker, WORKER, "reach"))
        strays = emit.and_(emit.and_(outside, reached), emit.not_(misaligned))
        with emit.when(strays):
            _note_stray(emit, lane, emit.add(offset, GLOBAL_BASE))
        with emit.when(emit.and_(emit.or_(misaligned, outside), emit.not_(strays))):
            note_fault(
                emit, POINTERS, Fault(_code(emit, misaligned), SITE, lane, emit.add(offset, GLOBAL_BASE), _SPACE)
            )
            bit = emit.shl(integer("i32", 1), lane)
            emit.store(emit.and_(emit.load(kept, "i32"), emit.not_(bit)), kept)
    emit.give(emit.load(kept, "i32"))
    emit.finish()


def _note_stray(emit: Emitter, lane: Value, address: Value) -> None:
    """Write the note of an access that goes on, if the worker has met neither another one nor a fault."""
    worker, warp = POINTERS
    seen = emit.or_(get(emit, worker, WORKER, "fault"), get(emit, worker, WORKER, "strays"))
    with emit.when(emit.compare("eq", seen, 0)):
        row = get(emit, get(emit, warp, WARP, "block"), BLOCK, "row")
        values = {
            "strays": integer("i32", 1), "fault_instruction": SITE, "fault_lane": lane, "fault_address": address,
            "fault_space": _SPACE, "fault_warp": get(emit, warp, WARP, "number"), "fault_row": row,
        }  # fmt: skip
        for name, value in values.items():
            put(emit, value, worker, WORKER, name)


def _last_before(emit: Emitter, starts: Value, count: Value, offset: Value) -> Value:
    """Write a binary search for the last allocation that starts at an offset or before it; -1 where there is none.

    A kernel may name 100,000 variables and let each lane point to another one.
    """
    low, high = emit.allocate("i64"), emit.allocate("i64")
    emit.store(integer("i64", 0), low)
    emit.store(count, high)
    head, body, after = emit.fresh("head"), emit.fresh("body"), emit.fresh("after")
    emit.go(head)
    emit.label(head)
    first, stop = emit.load(low, "i64"), emit.load(high, "i64")
    emit.branch(emit.compare("ult", first, stop), body, after)
    emit.label(body)
    middle = emit.lshr(emit.add(first, stop), 1)
    is_behind = emit.compare("ugt", emit.load(emit.index(starts, "i64", middle), "i64"), offset)
    emit.store(emit.select(is_behind, first, emit.add(middle, 1)), low)
    emit.store(emit.select(is_behind, middle, stop), high)
    emit.go(head)
    emit.label(after)
    return emit.sub(first, 1)


def _define_reject(unit: Unit) -> None:
    """Write what happens to lanes outside of shared or local memory: the first is noted, all are taken out."""
    emit = Emitter(unit, "reject", "i32", _SLOW)
    offsets = field(emit, POINTERS[0], WORKER, "offsets")
    emit.store(ADDRESS, offsets, 64)
    lane = emit.first_lane(_FAILED)
    offset = emit.load(emit.index(offsets, "i64", lane), "i64")
    misaligned = emit.compare("ne", emit.and_(offset, emit.sub(_SIZE, 1)), 0)
    note_fault(emit, POINTERS, Fault(_code(emit, misaligned), SITE, lane, offset, _SPACE))
    emit.give(emit.and_(MASK, emit.not_(_FAILED)))
    emit.finish()


def _code(emit: Emitter, misaligned: Value) -> Value:
    return emit.select(misaligned, integer("i32", FAULTS["misaligned"]), integer("i32", FAULTS["bounds"]))


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the kernel, as far as generated code can tell."""

    code: Value
    """kind of fault, one of FAULTS"""
    instruction: Value
    lane: Value
    address: Value = _START
    space: Value = _FIRST_SPACE
    """state space by its number in SPACES"""


def note_fault(emit: Emitter, pointers: tuple[Value, Value], fault: Fault) -> None:
    """Write the call that notes a fault, if it is the worker's first, and lets the warp stop soon.

    ``pointers`` are those of the worker and the warp.
    """
    if "note_fault" not in emit.unit:
        _define_note_fault(emit.unit)
    parts = (fault.code, fault.instruction, fault.lane, fault.address, fault.space)
    emit.call_void("note_fault", *pointers, *parts)


def _define_note_fault(unit: Unit) -> None:
    names = {"fault": "i32", "fault_instruction": "i32", "fault_lane": "i32", "fault_address": "i64",
             "fault_space": "i32"}  # fmt: skip
    values = {name: Value(f"%{name}", kind) for name, kind in names.items()}
    worker, warp = POINTERS
    emit = Emitter(unit, "note_fault", "void", [*POINTERS, *values.values()])
    put(emit, integer("i32", 0), warp, WARP, "fuel")
    with emit.when(emit.compare("eq", get(emit, worker, WORKER, "fault"), 0)):
        for name, value in values.items():
            put(emit, value, worker, WORKER, name)
        put(emit, get(emit, warp, WARP, "number"), worker, WORKER, "fault_warp")
        row = get(emit, get(emit, warp, WARP, "block"), BLOCK, "row")
        put(emit, row, worker, WORKER, "fault_row")
    emit.give()
    emit.finish()


_CHECKS = {"global": _check_global, "const": _check_global, "shared": _check_shared, "local": _check_local,
           "cluster": _check_cluster, "call": _check_local, "param": _check_parameter}  # fmt: skip
