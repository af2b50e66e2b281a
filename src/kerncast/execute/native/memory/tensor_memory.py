"""Tensor memory of a block: who has which columns, and words that move to and from registers and from shared memory.

A column is 128 words, one for each lane. Every move is done where it is issued; waits for it do nothing.
"""

from kerncast import traces
from kerncast.execute.native.block import Operation
from kerncast.execute.native.ir import (
    BLOCK,
    FAULTS,
    LANES,
    WARP,
    WORKER,
    Emitter,
    Unit,
    Value,
    element,
    field,
    get,
    integer,
    put,
    vector,
)
from kerncast.execute.native.memory.access import POINTERS, SITE, Fault, note_fault
from kerncast.execute.native.memory.descriptors import ROW_BYTES, Tile, copy_tile, from_tensor_descriptor
from kerncast.execute.native.memory.transfer import address_of, store_word
from kerncast.execute.setup.cluster_addresses import RANK_SHIFT
from kerncast.ptx import Address, Immediate, Operand, Vector
from kerncast.ptx.tensor_layouts import (
    COLUMNS,
    COPIES,
    MOVEMENTS,
    PAIR,
    UNIT_COLUMNS,
    WARP_LANES,
    Movement,
    movement_of,
)
from kerncast.ptx.tensor_layouts import LANES as TENSOR_LANES

COLUMN_BYTES = 4 * TENSOR_LANES
TENSOR_BYTES = COLUMNS * COLUMN_BYTES
_REGISTER_BYTES = 4 * LANES
_UNITS = COLUMNS // UNIT_COLUMNS
LANE = Value("%lane", "i32")
_ADDRESS, _COUNT, _SPLIT = Value("%address", "i32"), Value("%count", "i32"), Value("%split", "i32")
_FIRST, _MASK, _DESCRIPTOR = Value("%first", "i32"), Value("%mask", "i32"), Value("%descriptor", "i64")


def run(o: Operation, number: int) -> None:
    """Write an instruction on tensor memory; ``number`` is its place in the function."""
    _WRITERS[o.ins.opcode.name](o, number)


def leader(o: Operation) -> Value:
    """Return the first lane that executes an instruction, or one of no meaning."""
    return o.emit.first_lane(o.emit.or_(o.block.executing, 0x80000000))


def uniform(o: Operation, operand: Operand, lane: Value) -> Value:
    """Return 32 bits that are the same in all lanes: an operand, or the address that it holds."""
    value = address_of(o, operand) if isinstance(operand, Address) else o.block.source(operand, "b32")
    one = o.emit.op(f"extractelement {value.typed}, {lane.typed}", element(value.type))
    return o.emit.resize(one, "i32")


def pointers_of(o: Operation) -> tuple[Value, Value]:
    """Return those of the worker and the warp."""
    return o.block.pointers.worker, o.block.pointers.warp


def pair_of(emit: Emitter, warp: Value) -> tuple[Value, Value]:
    """Return a warp of each of two blocks that work together, the one of even rank first.

    The blocks of a cluster lie one after the other, by rank.
    """
    block = get(emit, warp, WARP, "block")
    rank = emit.cast("zext", emit.and_(get(emit, block, BLOCK, "rank"), 1), "i64")
    even = emit.at(block, emit.mul(rank, -BLOCK.itemsize))
    return get(emit, even, BLOCK, "warps"), get(emit, emit.at(even, BLOCK.itemsize), BLOCK, "warps")


def check_partner(emit: Emitter, lane: Value) -> None:
    """Write the return from the function where the other block of a pair has ended."""
    block = get(emit, POINTERS[1], WARP, "block")
    other = emit.xor(get(emit, block, BLOCK, "rank"), 1)
    gone = emit.and_(emit.lshr(get(emit, block, BLOCK, "gone"), other), 1)
    with emit.when(emit.compare("ne", gone, 0)):
        address = emit.cast("zext", emit.shl(other, RANK_SHIFT), "i64")
        note_fault(emit, POINTERS, Fault(integer("i32", FAULTS["gone"]), SITE, lane, address))
        emit.give()
        emit.label(emit.fresh("unreached"))


def blame_own(emit: Emitter) -> None:
    """Write that a fault in the other block of a pair is that of the warp which issued the instruction."""
    worker, warp = POINTERS
    put(emit, integer("i32", 0), warp, WARP, "fuel")
    put(emit, get(emit, warp, WARP, "number"), worker, WORKER, "fault_warp")
    put(emit, get(emit, get(emit, warp, WARP, "block"), BLOCK, "row"), worker, WORKER, "fault_row")


# Columns that are taken


def allocate(o: Operation, number: int, counters: Value, operation: traces.Operation | None) -> None:
    """Write alloc, which stores the address of the first column; ``counters`` and ``operation`` are of the store."""
    emit, lane = o.emit, leader(o)
    emit.unit.borrow("tensor_allocate", _define_allocate)
    first = emit.and_(o.block.executing, emit.sub(integer("i32", 0), o.block.executing))
    count = uniform(o, o.ins.operands[1], lane)
    arguments = (*pointers_of(o), integer("i32", number), lane, first, count)
    found = emit.call("tensor_allocate", "i32", *arguments)
    store_word(o, number, counters, (emit.splat(found), first, operation))


def _define_allocate(unit: Unit) -> None:
    """Write the function that takes the first free columns, in multiples of their number."""
    emit = Emitter(unit, "tensor_allocate", "i32", [*POINTERS, SITE, LANE, _MASK, _COUNT])
    leave_if(emit, emit.compare("eq", _MASK, 0), None)
    block = get(emit, POINTERS[1], WARP, "block")
    is_size = emit.compare("eq", emit.intrinsic("ctpop", _COUNT), 1)
    in_range = emit.compare("ule", emit.sub(_COUNT, UNIT_COLUMNS), COLUMNS - UNIT_COLUMNS)
    may = emit.compare("eq", get(emit, block, BLOCK, "relinquished"), 0)
    leave_if(emit, emit.not_(emit.and_(emit.and_(is_size, in_range), may)), ("allocation", _COUNT))
    units = emit.lshr(_COUNT, 5)
    wanted = emit.sub(emit.shl(integer("i32", 1), units), 1)
    taken = get(emit, block, BLOCK, "columns")
    with emit.count_up(emit.binary("udiv", integer("i32", _UNITS), units)) as number:
        at = emit.mul(number, units)
        own = emit.shl(wanted, at)
        with emit.when(emit.compare("eq", emit.and_(taken, own), 0)):
            put(emit, emit.or_(taken, own), block, BLOCK, "columns")
            starts = emit.or_(get(emit, block, BLOCK, "allocations"), emit.shl(integer("i32", 1), at))
            put(emit, starts, block, BLOCK, "allocations")
            put(emit, SITE, block, BLOCK, "allocator")
            emit.give(emit.shl(at, 5))
            emit.label(emit.fresh("unreached"))
    leave_if(emit, integer("i1", 1), ("allocation", _COUNT))
    emit.give(integer("i32", 0))
    emit.finish(public=True)


def _free(o: Operation, number: int) -> None:
    """Write dealloc."""
    o.emit.unit.borrow("tensor_free", _define_free)
    lane = leader(o)
    given = [uniform(o, each, lane) for each in o.ins.operands]
    arguments = (*pointers_of(o), integer("i32", number), lane, o.block.executing, *given)
    o.emit.call_void("tensor_free", *arguments)


def _define_free(unit: Unit) -> None:
    emit = Emitter(unit, "tensor_free", "void", [*POINTERS, SITE, LANE, _MASK, _ADDRESS, _COUNT])
    leave_if(emit, emit.compare("eq", _MASK, 0), None, "")
    block = get(emit, POINTERS[1], WARP, "block")
    check_columns(emit, _ADDRESS, _COUNT, "")
    at = emit.lshr(_ADDRESS, 5)
    starts, taken = get(emit, block, BLOCK, "allocations"), get(emit, block, BLOCK, "columns")
    own = emit.shl(emit.sub(emit.shl(integer("i32", 1), emit.lshr(_COUNT, 5)), 1), at)
    start = emit.shl(integer("i32", 1), at)
    # It begins where columns were taken, and none of the others was.
    is_one = emit.compare("eq", emit.and_(starts, own), start)
    behind = emit.and_(emit.and_(taken, emit.not_(starts)), emit.shl(own, 1))
    goes_on = emit.compare("ne", emit.and_(behind, emit.not_(own)), 0)
    whole = emit.compare("eq", emit.and_(_COUNT, UNIT_COLUMNS - 1), 0)
    aligned = emit.compare("eq", emit.and_(_ADDRESS, UNIT_COLUMNS - 1), 0)
    is_right = emit.and_(emit.and_(is_one, emit.not_(goes_on)), emit.and_(whole, aligned))
    leave_if(emit, emit.not_(is_right), ("columns", _ADDRESS), "", _COUNT)
    put(emit, emit.and_(taken, emit.not_(own)), block, BLOCK, "columns")
    put(emit, emit.and_(starts, emit.not_(own)), block, BLOCK, "allocations")
    emit.give()
    emit.finish(public=True)


def _relinquish(o: Operation, number: int) -> None:
    """Write relinquish_alloc_permit."""
    del number
    block = get(o.emit, o.block.pointers.warp, WARP, "block")
    put(o.emit, o.block.executing, block, BLOCK, "relinquished")


def check_columns(emit: Emitter, address: Value, count: Value, result: str = "i1") -> None:
    """Write the return from the function where columns are not taken; a function with a result gives 0."""
    block = get(emit, POINTERS[1], WARP, "block")
    first = emit.and_(address, 0xFFFF)
    end = emit.add(first, count)
    bad = emit.or_(
        emit.compare("uge", first, COLUMNS),
        emit.or_(emit.compare("ugt", count, COLUMNS), emit.compare("ugt", end, COLUMNS)),
    )
    bad = emit.or_(bad, emit.compare("eq", count, 0))
    leave_if(emit, bad, ("columns", address), result, count)
    last, start = emit.lshr(emit.sub(end, 1), 5), emit.lshr(first, 5)
    units = emit.sub(emit.shl(integer("i32", 2), last), emit.shl(integer("i32", 1), start))
    missing = emit.and_(units, emit.not_(get(emit, block, BLOCK, "columns")))
    leave_if(emit, emit.compare("ne", missing, 0), ("columns", address), result, count)


def leave_if(
    emit: Emitter, condition: Value, fault: tuple[str, Value] | None, result: str = "i32", count: Value | None = None
) -> None:
    """Write the return from the function where a condition holds, with a fault and what is wrong or without one."""
    with emit.when(condition):
        if fault is not None:
            low = emit.cast("zext", fault[1], "i64")
            high = emit.shl(emit.cast("zext", count, "i64"), 32) if count is not None else integer("i64", 0)
            note_fault(emit, POINTERS, Fault(integer("i32", FAULTS[fault[0]]), SITE, LANE, emit.or_(low, high)))
        emit.give(integer(result, 0) if result else None)
        emit.label(emit.fresh("unreached"))


def place_of(emit: Emitter, address: Value, lane: Value) -> Value:
    """Return where a lane of a column lies in the memory of this process; both have been checked."""
    memory = get(emit, get(emit, POINTERS[1], WARP, "block"), BLOCK, "tensor")
    column = emit.cast("zext", emit.and_(address, 0xFFFF), "i64")
    return emit.at(memory, emit.add(emit.mul(column, COLUMN_BYTES), emit.mul(emit.cast("zext", lane, "i64"), 4)))


# Moves


def _move(o: Operation, number: int) -> None:
    """Write ld and st, with the registers in the worker's ``tile``."""
    emit, lane = o.emit, leader(o)
    found = movement_of(o.ins.modifiers)
    assert found is not None, o.ins.name
    loads = o.ins.opcode.name.endswith("ld")
    packs = o.has("pack::16b") or o.has("unpack::16b")
    name = f"tensor_{'load' if loads else 'store'}_{next(m for m in o.ins.modifiers if m in MOVEMENTS)}" + "_16" * packs
    emit.unit.borrow(name, lambda unit: _define_move(unit, name, found[0], (loads, packs)))
    registers = next(each for each in o.ins.operands if not isinstance(each, Address | Immediate))
    listed = registers.elements if isinstance(registers, Vector) else (registers,)
    tile = field(emit, o.block.pointers.worker, WORKER, "tile")
    if not loads:
        for place, each in enumerate(listed):
            emit.store(o.block.source(each, "b32"), emit.at(tile, _REGISTER_BYTES * place), 64)
    address = next(each for each in o.ins.operands if isinstance(each, Address))
    split = next((each.value for each in o.ins.operands if isinstance(each, Immediate)), 0)
    given = (uniform(o, address, lane), integer("i32", found[1]), integer("i32", split))
    emit.call_void(name, *pointers_of(o), integer("i32", number), lane, o.block.executing, *given)
    if loads:
        for place, each in enumerate(listed):
            o.block.write(each, emit.load(emit.at(tile, _REGISTER_BYTES * place), vector("i32"), 64))


def _define_move(unit: Unit, name: str, movement: Movement, ways: tuple[bool, bool]) -> None:
    """Write the function that moves a pattern so many times; ways: whether it loads, and 16 bits of each word."""
    packs = ways[1]
    emit = Emitter(unit, name, "void", [*POINTERS, SITE, LANE, _MASK, _ADDRESS, _COUNT, _SPLIT])
    leave_if(emit, emit.compare("eq", _MASK, 0), None, "")
    width = emit.mul(_COUNT, movement.columns * (2 if packs else 1))
    check_columns(emit, _ADDRESS, width, "")
    if movement.is_split:
        check_columns(emit, emit.add(emit.and_(_ADDRESS, 0xFFFF), _SPLIT), width, "")
    own = emit.mul(emit.and_(get(emit, POINTERS[1], WARP, "number"), 3), WARP_LANES)
    # A pair's second block may number them from 128 on.
    told = emit.and_(emit.lshr(_ADDRESS, 16), TENSOR_LANES - 1)
    # An address of the first 32 lanes means a warp's own, as kernels that run on B200 take for granted (DeepGEMM).
    first = emit.select(emit.compare("ult", told, WARP_LANES), emit.add(told, own), told)
    offset = emit.sub(first, own)
    half = emit.and_(offset, 0xFFFFFFFF if movement.lanes == WARP_LANES else 0xFFFFFFEF)
    leave_if(emit, emit.compare("ne", half, 0), ("lanes", first), "")
    start, tile = place_of(emit, _ADDRESS, first), field(emit, POINTERS[0], WORKER, "tile")
    table = [
        COLUMN_BYTES * column * (2 if packs else 1) + 4 * row
        for register in range(movement.registers)
        for row, column in (movement.place(thread, register) for thread in range(LANES))
    ]
    offsets = emit.unit.table(f"{name}_places", table)
    upper = emit.mul(emit.cast("sext", _SPLIT, "i64"), COLUMN_BYTES)
    wide = COLUMN_BYTES * movement.columns * (2 if packs else 1)
    with (
        emit.count_up(emit.cast("zext", _COUNT, "i64")) as turn,
        emit.count_up(integer("i64", movement.registers)) as part,
    ):
        near = emit.at(start, emit.mul(turn, wide))
        to = emit.at(tile, emit.mul(emit.add(emit.mul(turn, movement.registers), part), _REGISTER_BYTES))
        with emit.count_up(integer("i64", LANES)) as thread:
            entry = emit.index(offsets, "i32", emit.add(emit.mul(part, LANES), thread))
            word = emit.at(near, emit.cast("zext", emit.load(entry, "i32"), "i64"))
            if movement.is_split:
                word = emit.at(word, emit.mul(emit.lshr(thread, 4), upper))
            _move_word(emit, word, emit.index(to, "i32", thread), ways)
    emit.give()
    emit.finish(public=True)


def _move_word(emit: Emitter, word: Value, register: Value, ways: tuple[bool, bool]) -> None:
    loads, packs = ways
    following = emit.at(word, COLUMN_BYTES)
    if loads and packs:
        low = emit.and_(emit.load(word, "i32"), 0xFFFF)
        emit.store(emit.or_(low, emit.shl(emit.load(following, "i32"), 16)), register)
    elif loads:
        emit.store(emit.load(word, "i32"), register)
    elif packs:
        both = emit.load(register, "i32")
        emit.store(emit.and_(both, 0xFFFF), word)
        emit.store(emit.lshr(both, 16), following)
    else:
        emit.store(emit.load(register, "i32"), word)


# Copies from shared memory


def copy(o: Operation, number: int) -> None:
    """Write cp: each lane that executes it copies a tile, or one in both blocks of a pair."""
    emit = o.emit
    key = tuple(m for m in o.ins.details if not m.startswith("cta_group"))
    name = "tensor_copy_" + "_".join(key).replace("::", "_")
    if o.has(PAIR):
        emit.unit.borrow(f"{name}_pair", lambda unit: _define_pair_copy(unit, name, key))
    else:
        emit.unit.borrow(name, lambda unit: _define_copy(unit, name, key))
    target, source = o.ins.operands
    assert isinstance(target, Address)
    addresses, descriptors = address_of(o, target), o.block.source(source, "b64")
    with emit.each_bit(o.block.executing) as lane:
        address = emit.resize(
            emit.op(f"extractelement {addresses.typed}, {lane.typed}", element(addresses.type)), "i32"
        )
        descriptor = emit.op(f"extractelement {descriptors.typed}, {lane.typed}", "i64")
        given = (*pointers_of(o), integer("i32", number), lane, address, descriptor)
        emit.call_void(f"{name}_pair" if o.has(PAIR) else name, *given)


def _define_pair_copy(unit: Unit, name: str, key: tuple[str, ...]) -> None:
    _define_copy(unit, name, key)
    worker, warp = POINTERS
    emit = Emitter(unit, f"{name}_pair", "void", [*POINTERS, SITE, LANE, _ADDRESS, _DESCRIPTOR])
    check_partner(emit, LANE)
    for holder in pair_of(emit, warp):
        emit.call_void(name, worker, holder, SITE, LANE, _ADDRESS, _DESCRIPTOR)
    with emit.when(emit.compare("ne", get(emit, worker, WORKER, "fault"), 0)):
        blame_own(emit)
    emit.give()
    emit.finish(public=True)


def _define_copy(unit: Unit, name: str, key: tuple[str, ...]) -> None:
    rows, size, places = COPIES[key]
    emit = Emitter(unit, name, "void", [*POINTERS, SITE, LANE, _ADDRESS, _DESCRIPTOR])
    raw = emit.allocate(f"[{rows * ROW_BYTES} x i8]")
    check_columns(emit, _ADDRESS, integer("i32", size // 4), "")
    first = emit.lshr(_ADDRESS, 16)
    leave_if(emit, emit.compare("ne", first, 0), ("lanes", first), "")
    groups = integer("i32", rows // 8)
    descriptor = from_tensor_descriptor(emit, _DESCRIPTOR, LANE, "")
    tile = Tile(descriptor, integer("i32", 0), groups, integer("i1", 0), integer("i1", size < ROW_BYTES))
    leave_if(emit, emit.not_(copy_tile(emit, tile, raw, LANE)), None, "")
    start = place_of(emit, _ADDRESS, integer("i32", 0))
    for quarter, lanes in enumerate(places):
        with emit.count_up(integer("i64", WARP_LANES)) as row:
            line = emit.at(raw, emit.mul(emit.add(row, WARP_LANES * quarter), ROW_BYTES))
            for column in range(size // 4):
                word = emit.load(emit.at(line, 4 * column), "i32")
                for lane in lanes:
                    place = emit.at(start, emit.add(emit.mul(row, 4), COLUMN_BYTES * column + 4 * lane))
                    emit.store(word, place)
    emit.give()
    emit.finish(public=True)


_WRITERS = {
    "tcgen05.dealloc": _free, "tcgen05.relinquish_alloc_permit": _relinquish, "tcgen05.ld": _move, "tcgen05.st": _move,
}  # fmt: skip
