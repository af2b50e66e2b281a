"""Writes the functions that start blocks, give their warps turns, and let them pass barriers."""

from kerncast.execute.native.cluster_barrier import CLUSTER_BARRIER, write_cluster
from kerncast.execute.native.ir import (
    BLOCK,
    FAULTS,
    WARP,
    WORKER,
    Emitter,
    Unit,
    Value,
    field,
    get,
    integer,
    put,
    vector,
)
from kerncast.execute.native.memory.access import Fault, note_fault
from kerncast.execute.native.memory.mbarriers import note_deadlock
from kerncast.traces import SEGMENT, End

_WORKER, _BLOCK = Value("%worker", "ptr"), Value("%block", "ptr")
_BARRIERS = 16
#: Behind the barriers of the block, those of each group of four warps: 32 warps are 8 groups.
GROUP_BARRIER, _ALL_BARRIERS = 16, 24
#: Rounds in which all warps of a block ask mbarriers in vain before it is a dead lock: a kernel may watch a clock.
_SILENT_ROUNDS = 10_000
_PREDICATE_RESULT = 2  # kinds of reduction from here on give a predicate
#: What run_worker returns.
DONE, NOT_DONE = 0, 1


def write_scheduler(unit: Unit, start_bytes: int, *, sees_cluster: bool, asks: bool, meets: bool) -> None:
    """Add ``run_worker`` and what it calls; ``start_bytes`` of each frame are set when a block begins.

    ``asks`` says that warps ask for the end of phases of mbarriers, ``meets`` that groups of warps wait for each other.
    """
    _start_block(unit, start_bytes)
    _start_cluster(unit)
    if sees_cluster:
        write_cluster(unit)
    _write_release(unit, sees_cluster=sees_cluster, meets=meets)
    if asks:
        _write_all_ask(unit)
    _turn_block(unit, sees_cluster=sees_cluster, asks=asks)
    _run_worker(unit)


def _run_worker(unit: Unit) -> None:
    """Write the worker's loop: every resident block has its turn, until all have ended or patience has."""
    emit = Emitter(unit, "run_worker", "i32", [_WORKER])
    busy = emit.allocate("i32")
    emit.go("round")
    emit.label("round")
    emit.branch(emit.compare("ne", get(emit, _WORKER, WORKER, "stop"), 0), "pause", "begin")
    emit.label("begin")
    emit.store(integer("i32", 0), busy)
    size = integer("i64", BLOCK.itemsize)
    with emit.count_up(get(emit, _WORKER, WORKER, "slots")) as slot:
        place = emit.mul(emit.cast("zext", slot, "i64"), size)
        block = emit.at(get(emit, _WORKER, WORKER, "resident"), place)
        rank = emit.binary("urem", slot, get(emit, _WORKER, WORKER, "cluster_blocks"))
        is_first = emit.compare("eq", rank, 0)
        left = emit.compare("slt", get(emit, _WORKER, WORKER, "next_row"), get(emit, _WORKER, WORKER, "block_count"))
        goes_on = emit.compare("eq", get(emit, _WORKER, WORKER, "stop"), 0)  # clearing a block's memory takes time too
        with emit.when(emit.and_(emit.and_(is_first, left), goes_on)):
            emit.call_void("start_cluster", _WORKER, block)
        with emit.when(emit.compare("ne", get(emit, block, BLOCK, "busy"), 0)):
            emit.store(integer("i32", 1), busy)
            emit.call_void("turn_block", _WORKER, block)
    failed = emit.compare("ne", get(emit, _WORKER, WORKER, "fault"), 0)
    done = emit.compare("eq", emit.load(busy, "i32"), 0)
    emit.branch(emit.binary("or", failed, done), "done", "on")
    emit.label("done")
    emit.give(integer("i32", DONE))
    emit.label("on")
    emit.branch(emit.compare("sgt", get(emit, _WORKER, WORKER, "patience"), 0), "round", "pause")
    emit.label("pause")
    emit.give(integer("i32", NOT_DONE))
    emit.finish(public=True)


def _start_cluster(unit: Unit) -> None:
    """Write the start of the blocks of a cluster, in slots one after the other, once all of these are free."""
    emit = Emitter(unit, "start_cluster", "void", [_WORKER, _BLOCK])
    size, busy = get(emit, _WORKER, WORKER, "cluster_blocks"), emit.allocate("i32")
    emit.store(integer("i32", 0), busy)
    bytes_each = integer("i64", BLOCK.itemsize)
    with emit.count_up(size) as rank:
        block = emit.at(_BLOCK, emit.mul(emit.cast("zext", rank, "i64"), bytes_each))
        emit.increase(busy, get(emit, block, BLOCK, "busy"))
    with emit.when(emit.compare("eq", emit.load(busy, "i32"), 0)), emit.count_up(size) as rank:
        block = emit.at(_BLOCK, emit.mul(emit.cast("zext", rank, "i64"), bytes_each))
        put(emit, rank, block, BLOCK, "rank")
        for name in ("gone", "idle"):
            put(emit, integer("i32", 0), block, BLOCK, name)
        emit.call_void("start_block", _WORKER, block)
    emit.give()
    emit.finish()


def _start_block(unit: Unit, start_bytes: int) -> None:
    emit = Emitter(unit, "start_block", "void", [_WORKER, _BLOCK])
    row = get(emit, _WORKER, WORKER, "next_row")
    put(emit, emit.add(row, 1), _WORKER, WORKER, "next_row")
    put(emit, row, _BLOCK, BLOCK, "row")
    _place_block(emit, emit.load(emit.index(get(emit, _WORKER, WORKER, "blocks"), "i64", row), "i64"))
    put(emit, integer("i32", 1), _BLOCK, BLOCK, "busy")
    put(emit, integer("i64", 0), _BLOCK, BLOCK, "iterations")
    _clear(emit, field(emit, _BLOCK, BLOCK, "passed"), integer("i64", 4 * _ALL_BARRIERS))
    for name in ("before", "silent"):
        put(emit, integer("i64", 0), _BLOCK, BLOCK, name)
    shared = get(emit, _BLOCK, BLOCK, "shared")
    _clear(emit, shared, emit.cast("zext", get(emit, _WORKER, WORKER, "shared_bytes"), "i64"))
    for name in ("columns", "allocations", "relinquished"):
        put(emit, integer("i32", 0), _BLOCK, BLOCK, name)
    tensor = get(emit, _BLOCK, BLOCK, "tensor")
    _clear(emit, tensor, emit.cast("zext", get(emit, _WORKER, WORKER, "tensor_bytes"), "i64"))
    counters = emit.at(
        get(emit, _WORKER, WORKER, "counters"), emit.mul(row, get(emit, _WORKER, WORKER, "counter_bytes"))
    )
    private_bytes = emit.mul(emit.cast("zext", get(emit, _WORKER, WORKER, "private_bytes"), "i64"), 32)
    with emit.count_up(get(emit, _WORKER, WORKER, "warps")) as number:
        place = emit.cast("zext", number, "i64")
        warp = _warp(emit, place)
        template = emit.at(get(emit, _WORKER, WORKER, "frame_template"), emit.mul(place, start_bytes))
        emit.call_void("llvm.memcpy.p0.p0.i64", warp, template, integer("i64", start_bytes), Value("false", "i1"))
        private = emit.at(get(emit, _BLOCK, BLOCK, "private"), emit.mul(place, private_bytes))
        _clear(emit, private, private_bytes)
        pointers = {"private": private, "shared": shared, "counters": counters, "block": _BLOCK}
        for name, pointer in pointers.items():
            put(emit, pointer, warp, WARP, name)
    emit.give()
    emit.finish()


def _place_block(emit: Emitter, linear: Value) -> None:
    """Write the coordinates of a block in the grid."""
    grid = field(emit, _WORKER, WORKER, "grid")
    rest = linear
    for axis in range(3):
        if axis == 2:
            coordinate = rest
        else:
            extent = emit.cast("zext", emit.load(emit.at(grid, 4 * axis), "i32"), "i64")
            coordinate, rest = emit.binary("urem", rest, extent), emit.binary("udiv", rest, extent)
        emit.store(emit.resize(coordinate, "i32"), emit.at(field(emit, _BLOCK, BLOCK, "index"), 4 * axis))


def _clear(emit: Emitter, pointer: Value, count: Value) -> None:
    with emit.when(emit.compare("ne", count, 0)):
        emit.call_void("llvm.memset.p0.i64", pointer, integer("i8", 0), count, Value("false", "i1"))


def _warp(emit: Emitter, number: Value) -> Value:
    frame = get(emit, _WORKER, WORKER, "frame_bytes")
    return emit.at(get(emit, _BLOCK, BLOCK, "warps"), emit.mul(number, frame))


def _turn_block(unit: Unit, *, sees_cluster: bool, asks: bool) -> None:
    """Write one turn of a block: each warp that can runs until its iterations are used up."""
    emit = Emitter(unit, "turn_block", "void", [_WORKER, _BLOCK])
    sums = {name: emit.allocate("i32") for name in ("ran", "ended", "waiting", "spun")}
    for place in sums.values():
        emit.store(integer("i32", 0), place)
    warps = get(emit, _WORKER, WORKER, "warps")
    with emit.count_up(warps) as number:
        warp = _warp(emit, emit.cast("zext", number, "i64"))
        live = emit.compare("ne", get(emit, warp, WARP, "live"), 0)
        free = emit.compare("slt", get(emit, warp, WARP, "barrier"), 0)
        halted = emit.or_(get(emit, _WORKER, WORKER, "fault"), get(emit, _WORKER, WORKER, "stop"))
        healthy = emit.compare("eq", halted, 0)
        may_run = emit.binary("and", emit.binary("and", live, free), healthy)
        if asks:
            may_run = emit.binary("and", may_run, _has_news(emit, warp))
        with emit.when(may_run):
            _run_warp(emit, warp, asks=asks)
        _look_at(emit, warp, sums, asks=asks)
    stopped, complete = emit.fresh("stopped"), emit.fresh("complete")
    emit.branch(emit.compare("ne", get(emit, _WORKER, WORKER, "stop"), 0), stopped, complete)
    emit.label(stopped)  # warps were passed over, so that nothing can be told about the block
    emit.give()
    emit.label(complete)
    over = emit.compare("sgt", get(emit, _BLOCK, BLOCK, "iterations"), get(emit, _WORKER, WORKER, "iteration_limit"))
    with emit.when(over):
        _note(emit, "endless", _warp(emit, integer("i64", 0)), integer("i32", 0))
    is_over = emit.compare("eq", emit.load(sums["ended"], "i32"), warps)
    with emit.when(is_over):
        _end_block(emit, warps, sees_cluster=sees_cluster)
    with emit.when(emit.not_(is_over)):
        _go_on(emit, {name: emit.load(place, "i32") for name, place in sums.items()}, asks=asks)
    emit.give()
    emit.finish()


def _has_news(emit: Emitter, warp: Value) -> Value:
    """Return whether a warp that asked an mbarrier in vain may get another answer, or nobody else can run."""
    is_quiet = emit.compare("eq", get(emit, warp, WARP, "seen"), get(emit, _WORKER, WORKER, "changes"))
    loud = emit.compare("eq", get(emit, _BLOCK, BLOCK, "silent"), 0)
    spun = emit.compare("ne", get(emit, warp, WARP, "spun"), 0)
    return emit.not_(emit.binary("and", spun, emit.binary("and", is_quiet, loud)))


def _look_at(emit: Emitter, warp: Value, sums: dict[str, Value], *, asks: bool) -> None:
    """Add up how the turn of a warp has ended."""
    live = get(emit, warp, WARP, "live")
    runnable = emit.and_(live, emit.not_(get(emit, warp, WARP, "parked")))
    free = emit.compare("slt", get(emit, warp, WARP, "barrier"), 0)
    ran = emit.binary("and", free, emit.compare("ne", runnable, 0))
    states = {"ran": ran, "ended": emit.compare("eq", live, 0), "waiting": emit.not_(free)}
    if asks:
        states["spun"] = emit.binary("and", ran, emit.compare("ne", get(emit, warp, WARP, "spun"), 0))
    for name, state in states.items():
        emit.increase(sums[name], emit.cast("zext", state, "i32"))


def _go_on(emit: Emitter, sums: dict[str, Value], *, asks: bool) -> None:
    """Open barriers that are complete: also while others run, who may wait for those behind them."""
    nobody = emit.compare("eq", sums["ran"], 0)
    put(emit, integer("i32", 0), _BLOCK, BLOCK, "idle")
    with emit.when(emit.binary("or", nobody, emit.compare("ne", sums["waiting"], 0))):
        emit.call("release", "i32", _WORKER, _BLOCK, emit.cast("zext", nobody, "i32"))
    if not asks:
        return
    steps = get(emit, _WORKER, WORKER, "steps")
    quiet = emit.compare("eq", steps, get(emit, _BLOCK, BLOCK, "before"))
    put(emit, steps, _BLOCK, BLOCK, "before")
    all_ask = emit.binary("and", emit.compare("eq", sums["ran"], sums["spun"]), emit.not_(nobody))
    silent = emit.binary("and", quiet, all_ask)
    rounds = emit.add(get(emit, _BLOCK, BLOCK, "silent"), 1)
    put(emit, emit.select(silent, rounds, 0), _BLOCK, BLOCK, "silent")
    with emit.when(silent):
        emit.call_void("all_ask", _WORKER, _BLOCK)


def _write_all_ask(unit: Unit) -> None:
    """Write what happens when all warps of a block ask in vain: other lanes of theirs go first, or it is the end."""
    emit = Emitter(unit, "all_ask", "void", [_WORKER, _BLOCK])
    rounds = get(emit, _BLOCK, BLOCK, "silent")
    with emit.count_up(get(emit, _WORKER, WORKER, "warps")) as number:
        warp = _warp(emit, emit.cast("zext", number, "i64"))
        live = get(emit, warp, WARP, "live")
        failing = emit.and_(get(emit, warp, WARP, "failing"), live)
        put(emit, failing, warp, WARP, "deferred")
        free = emit.compare("slt", get(emit, warp, WARP, "barrier"), 0)
        asks = emit.binary("and", free, emit.compare("ne", failing, 0))
        with emit.when(emit.binary("and", asks, emit.compare("sgt", rounds, _SILENT_ROUNDS))):
            note_deadlock(emit, _WORKER, warp)
    emit.give()
    emit.finish()


def _end_block(emit: Emitter, warps: Value, *, sees_cluster: bool) -> None:
    put(emit, integer("i32", 0), _BLOCK, BLOCK, "busy")
    emit.increase(field(emit, _WORKER, WORKER, "finished"), integer("i64", 1))
    _note_longest(emit, warps)
    with emit.when(emit.compare("ne", get(emit, _BLOCK, BLOCK, "columns"), 0)):
        _note(emit, "unfreed", _warp(emit, integer("i64", 0)), get(emit, _BLOCK, BLOCK, "allocator"))
    if sees_cluster:
        emit.call_void("leave_cluster", _WORKER, _BLOCK)


def _note_longest(emit: Emitter, warps: Value) -> None:
    """Count the instructions of the warp that issued most."""
    place = emit.at(get(emit, _warp(emit, integer("i64", 0)), WARP, "counters"), get(emit, _WORKER, WORKER, "longest"))
    with emit.count_up(warps) as number:
        issued = get(emit, _warp(emit, emit.cast("zext", number, "i64")), WARP, "issued")
        emit.store(emit.intrinsic("smax", emit.load(place, "i64"), issued), place)


def _run_warp(emit: Emitter, warp: Value, *, asks: bool) -> None:
    quantum = get(emit, _WORKER, WORKER, "quantum")
    if asks:
        put(emit, integer("i32", 0), warp, WARP, "spun")
    put(emit, quantum, warp, WARP, "fuel")
    start = get(emit, _WORKER, WORKER, "event_count")
    emit.call_void("run_warp", _WORKER, warp, get(emit, warp, WARP, "counters"))
    spent = emit.add(emit.sub(quantum, get(emit, warp, WARP, "fuel")), 1)
    spent = emit.cast("sext", spent, "i64")
    _note_segment(emit, warp, start)
    if asks:
        goes_on = emit.compare("eq", get(emit, warp, WARP, "spun"), 0)
        emit.increase(field(emit, _WORKER, WORKER, "steps"), emit.cast("zext", goes_on, "i64"))
    emit.increase(field(emit, _BLOCK, BLOCK, "iterations"), spent)
    emit.increase(field(emit, _WORKER, WORKER, "patience"), emit.sub(integer("i64", 0), spent))


def _note_segment(emit: Emitter, warp: Value, start: Value) -> None:
    """Record which events a turn of a warp made, and why it ended."""
    counter = field(emit, _WORKER, WORKER, "segment_count")
    count = emit.load(counter, "i64")
    with emit.when(emit.compare("ult", count, get(emit, _WORKER, WORKER, "segment_limit"))):
        barrier = get(emit, warp, WARP, "barrier")  # those who meet others of their group go on within their block
        waits = emit.or_(emit.compare("ult", barrier, _BARRIERS), emit.compare("eq", barrier, CLUSTER_BARRIER))
        gone = emit.compare("eq", get(emit, warp, WARP, "live"), 0)
        end = emit.select(gone, integer("i32", End.EXIT), emit.select(waits, integer("i32", End.BARRIER), 0))
        segment = emit.at(get(emit, _WORKER, WORKER, "segments"), emit.mul(count, SEGMENT.itemsize))
        values = {
            "row": emit.resize(get(emit, _BLOCK, BLOCK, "row"), "i32"), "warp": get(emit, warp, WARP, "number"),
            "start": start, "stop": get(emit, _WORKER, WORKER, "event_count"), "end": end,
        }  # fmt: skip
        for name, value in values.items():
            put(emit, value, segment, SEGMENT, name)
        emit.store(emit.add(count, 1), counter)


def _note(emit: Emitter, name: str, warp: Value, instruction: Value) -> None:
    lane = emit.first_lane(emit.or_(get(emit, warp, WARP, "arrived"), 0x80000000))
    note_fault(emit, (_WORKER, warp), Fault(integer("i32", FAULTS[name]), instruction, lane))


def _write_release(unit: Unit, *, sees_cluster: bool, meets: bool) -> None:
    """Write how barriers open that are complete; where none is and no warp can run, the block is stuck.

    A barrier counts whole warps, as hardware did before Volta; threads that have left are not waited for.
    """
    is_last = Value("%last", "i32")
    emit = Emitter(unit, "release", "i32", [_WORKER, _BLOCK, is_last])
    released, stuck = emit.allocate("i32"), emit.allocate("ptr")
    emit.store(integer("i32", 0), released)
    emit.store(Value("null", "ptr"), stuck)
    with emit.count_up(integer("i32", _ALL_BARRIERS if meets else _BARRIERS)) as barrier:
        _release_one(emit, barrier, released, stuck)
    if sees_cluster:
        free = emit.call("release_cluster", "i32", _WORKER, _BLOCK)
        emit.store(emit.or_(emit.load(released, "i32"), free), released)
    result = emit.load(released, "i32")
    hopeless = emit.compare("eq", emit.or_(result, emit.xor(is_last, 1)), 0)
    if sees_cluster:
        with emit.when(emit.not_(hopeless)):
            put(emit, integer("i32", 0), _BLOCK, BLOCK, "idle")
        with emit.when(hopeless):
            emit.call_void("rest_in_cluster", _WORKER, _BLOCK)
    else:
        with emit.when(hopeless):
            found = emit.load(stuck, "ptr")
            nowhere = emit.compare("eq", found, Value("null", "ptr"))
            warp = emit.select(nowhere, _warp(emit, integer("i64", 0)), found)
            _note(emit, "stuck", warp, get(emit, warp, WARP, "instruction"))
    emit.give(result)
    emit.finish()


def _release_one(emit: Emitter, barrier: Value, released: Value, stuck: Value) -> None:
    sums = {name: emit.allocate("i32") for name in ("here", "gone", "expected", "votes", "lanes")}
    for place in sums.values():
        emit.store(integer("i32", 0), place)
    warps = get(emit, _WORKER, WORKER, "warps")
    with emit.count_up(warps) as number:
        warp = _warp(emit, emit.cast("zext", number, "i64"))
        gone = emit.compare("eq", get(emit, warp, WARP, "live"), 0)
        emit.increase(sums["gone"], emit.cast("zext", gone, "i32"))
        with emit.when(emit.compare("eq", get(emit, warp, WARP, "barrier"), barrier)):
            _add_up(emit, warp, sums)
            with emit.when(emit.compare("eq", emit.load(stuck, "ptr"), Value("null", "ptr"))):
                emit.store(warp, stuck)
    total = {name: emit.load(place, "i32") for name, place in sums.items()}
    passed = emit.index(field(emit, _BLOCK, BLOCK, "passed"), "i32", barrier)
    arrived = emit.add(emit.mul(total["here"], 32), emit.load(passed, "i32"))
    everyone = emit.compare("eq", emit.add(total["here"], total["gone"]), warps)
    enough = emit.compare("uge", arrived, total["expected"])
    whole = emit.compare("eq", total["expected"], 0)
    complete = emit.op(f"select {whole.typed}, {everyone.typed}, {enough.typed}", "i1")
    complete = emit.binary("and", complete, emit.compare("ne", total["here"], 0))
    with emit.when(complete):
        emit.store(integer("i32", 1), released)
        emit.store(integer("i32", 0), passed)
        with emit.count_up(warps) as number:
            warp = _warp(emit, emit.cast("zext", number, "i64"))
            with emit.when(emit.compare("eq", get(emit, warp, WARP, "barrier"), barrier)):
                _give_result(emit, warp, total["votes"], total["lanes"])
                put(emit, integer("i32", -1), warp, WARP, "barrier")


def _add_up(emit: Emitter, warp: Value, sums: dict[str, Value]) -> None:
    emit.increase(sums["here"], integer("i32", 1))
    expected = emit.intrinsic("umax", emit.load(sums["expected"], "i32"), get(emit, warp, WARP, "expected"))
    emit.store(expected, sums["expected"])
    arrived = get(emit, warp, WARP, "arrived")
    reduces = emit.compare("ne", get(emit, warp, WARP, "reduces"), 0)
    for name, mask in (("votes", emit.and_(get(emit, warp, WARP, "votes"), arrived)), ("lanes", arrived)):
        counted = emit.select(reduces, emit.intrinsic("ctpop", mask), 0)
        emit.increase(sums[name], counted)


def _give_result(emit: Emitter, warp: Value, votes: Value, lanes: Value) -> None:
    """Write what bar.red computes over the threads that arrived together to their registers."""
    result, arrived = get(emit, warp, WARP, "result"), get(emit, warp, WARP, "arrived")
    is_read = emit.compare("ne", result, 0)
    kind = emit.select(is_read, get(emit, warp, WARP, "reduces"), 0)
    place = emit.at(warp, emit.cast("zext", result, "i64"))
    with emit.when(emit.compare("eq", kind, 1)):
        old = emit.load(place, vector("i32"), 64)
        emit.store(emit.select(emit.mask_lanes(arrived), emit.splat(votes), old), place, 64)
    with emit.when(emit.compare("uge", kind, _PREDICATE_RESULT)):
        all_of, any_of = emit.compare("eq", votes, lanes), emit.compare("ne", votes, 0)
        is_and = emit.compare("eq", kind, _PREDICATE_RESULT)
        truth = emit.op(f"select {is_and.typed}, {all_of.typed}, {any_of.typed}", "i1")
        old = emit.and_(emit.load(place, "i32"), emit.not_(arrived))
        emit.store(emit.or_(old, emit.select(truth, arrived, 0)), place)
