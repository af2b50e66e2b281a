"""The barrier of a cluster in generated code: who has arrived, and when all may go on.

A phase is over when every thread of the cluster that has not left has arrived. Threads arrive and wait by turns; one
that does not is a fault, so that no thread can be a phase ahead of another.
"""

from kerncast.execute.native.block import BlockCode
from kerncast.execute.native.ir import BLOCK, FAULTS, WARP, WORKER, Emitter, Unit, Value, field, get, integer, put
from kerncast.execute.native.memory.access import Fault, note_fault

#: The number that a warp which waits here has in place of that of a barrier of its block.
CLUSTER_BARRIER = 24
_WORKER, _BLOCK = Value("%worker", "ptr"), Value("%block", "ptr")


def arrive_in_cluster(code: BlockCode, position: int) -> None:
    """Write barrier.cluster.arrive."""
    emit, warp = code.emit, code.pointers.warp
    take_turn(code, position, is_arrival=True)
    arrived = get(emit, warp, WARP, "arrived_in_cluster")
    put(emit, emit.or_(arrived, code.executing), warp, WARP, "arrived_in_cluster")


def take_turn(code: BlockCode, position: int, *, is_arrival: bool) -> None:
    """Write the check that lanes arrive and wait by turns, and the note of whose turn is next."""
    emit, pointers = code.emit, code.pointers
    owes = get(emit, pointers.warp, WARP, "owes_wait")
    wrong = emit.and_(code.executing, owes if is_arrival else emit.not_(owes))
    with emit.when(emit.compare("ne", wrong, 0)):
        fault = Fault(integer("i32", FAULTS["cluster"]), integer("i32", position), emit.first_lane(wrong))
        note_fault(emit, (pointers.worker, pointers.warp), fault)
    now = emit.or_(owes, code.executing) if is_arrival else emit.and_(owes, emit.not_(code.executing))
    put(emit, now, pointers.warp, WARP, "owes_wait")


def write_cluster(unit: Unit) -> None:
    """Add the functions by which the blocks of a cluster wait for one another."""
    _write_release(unit)
    _write_leave(unit)
    _write_rest(unit)


def member(emit: Emitter, block: Value, rank: Value) -> Value:
    """Return the block of a rank in the cluster of a block: their states lie one after the other."""
    own = get(emit, block, BLOCK, "rank")
    distance = emit.cast("sext", emit.sub(rank, own), "i64")
    return emit.at(block, emit.mul(distance, integer("i64", BLOCK.itemsize)))


def warp_of(emit: Emitter, block: Value, number: Value) -> Value:
    """Return the state of a warp of a block."""
    frame = get(emit, _WORKER, WORKER, "frame_bytes")
    return emit.at(get(emit, block, BLOCK, "warps"), emit.mul(emit.cast("zext", number, "i64"), frame))


def _write_release(unit: Unit) -> None:
    """Write what ends a phase if it is over; the function returns whether it was."""
    emit = Emitter(unit, "release_cluster", "i32", [_WORKER, _BLOCK])
    missing, arrived = emit.allocate("i32"), emit.allocate("i32")
    for place in (missing, arrived):
        emit.store(integer("i32", 0), place)
    size, warps = get(emit, _WORKER, WORKER, "cluster_blocks"), get(emit, _WORKER, WORKER, "warps")
    with emit.count_up(size) as rank:
        block = member(emit, _BLOCK, rank)
        with emit.count_up(warps) as number:
            warp = warp_of(emit, block, number)
            here = get(emit, warp, WARP, "arrived_in_cluster")
            away = emit.and_(get(emit, warp, WARP, "live"), emit.not_(here))
            emit.store(emit.or_(emit.load(missing, "i32"), away), missing)
            emit.store(emit.or_(emit.load(arrived, "i32"), here), arrived)
    everyone = emit.compare("eq", emit.load(missing, "i32"), 0)
    over = emit.binary("and", everyone, emit.compare("ne", emit.load(arrived, "i32"), 0))
    with emit.when(over), emit.count_up(size) as rank:
        block = member(emit, _BLOCK, rank)
        put(emit, integer("i32", 0), block, BLOCK, "idle")
        with emit.count_up(warps) as number:
            warp = warp_of(emit, block, number)
            put(emit, integer("i32", 0), warp, WARP, "arrived_in_cluster")
            with emit.when(emit.compare("eq", get(emit, warp, WARP, "barrier"), CLUSTER_BARRIER)):
                put(emit, integer("i32", -1), warp, WARP, "barrier")
    emit.give(emit.cast("zext", over, "i32"))
    emit.finish()


def _write_leave(unit: Unit) -> None:
    """Write what tells the cluster that a block has ended: its shared memory is gone."""
    emit = Emitter(unit, "leave_cluster", "void", [_WORKER, _BLOCK])
    bit = emit.shl(integer("i32", 1), get(emit, _BLOCK, BLOCK, "rank"))
    with emit.count_up(get(emit, _WORKER, WORKER, "cluster_blocks")) as rank:
        place = field(emit, member(emit, _BLOCK, rank), BLOCK, "gone")
        emit.store(emit.or_(emit.load(place, "i32"), bit), place)
    emit.give()
    emit.finish()


def _write_rest(unit: Unit) -> None:
    """Write what notes that no warp of a block can go on, and that the cluster is stuck if none of it can."""
    emit = Emitter(unit, "rest_in_cluster", "void", [_WORKER, _BLOCK])
    put(emit, integer("i32", 1), _BLOCK, BLOCK, "idle")
    hope, waiting = emit.allocate("i32"), emit.allocate("ptr")
    emit.store(integer("i32", 0), hope)
    emit.store(Value("null", "ptr"), waiting)
    with emit.count_up(get(emit, _WORKER, WORKER, "cluster_blocks")) as rank:
        block = member(emit, _BLOCK, rank)
        busy = emit.compare("ne", get(emit, block, BLOCK, "busy"), 0)
        runs = emit.binary("and", busy, emit.compare("eq", get(emit, block, BLOCK, "idle"), 0))
        emit.store(emit.or_(emit.load(hope, "i32"), emit.cast("zext", runs, "i32")), hope)
    with emit.count_up(get(emit, _WORKER, WORKER, "warps")) as number:
        warp = warp_of(emit, _BLOCK, number)
        waits = emit.compare("sge", get(emit, warp, WARP, "barrier"), 0)
        first = emit.compare("eq", emit.load(waiting, "ptr"), Value("null", "ptr"))
        with emit.when(emit.binary("and", waits, first)):
            emit.store(warp, waiting)
    nowhere = emit.compare("eq", emit.load(waiting, "ptr"), Value("null", "ptr"))  # lanes that wait in their warp
    found = emit.select(nowhere, warp_of(emit, _BLOCK, integer("i32", 0)), emit.load(waiting, "ptr"))
    with emit.when(emit.compare("eq", emit.load(hope, "i32"), 0)):
        lane = emit.first_lane(emit.or_(get(emit, found, WARP, "arrived"), 0x80000000))
        code = integer("i32", FAULTS["stuck"])
        note_fault(emit, (_WORKER, found), Fault(code, get(emit, found, WARP, "instruction"), lane))
    emit.give()
    emit.finish()
