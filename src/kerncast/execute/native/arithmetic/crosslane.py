"""Instructions that read other lanes of the warp: shuffles, votes, matches, reductions.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.13. A lane takes part if it executes the instruction and
is in its member mask; a shuffle from a lane that does not execute it gives the lane its own value. Lanes that execute
one instruction with different masks are groups of their own, as tiles of a warp are.
"""

from kerncast.execute.native.arithmetic import matrix_products
from kerncast.execute.native.block import I32, I64, Operation
from kerncast.execute.native.ir import WARP, WORKER, Emitter, Unit, Value, bits, element, field, get, integer
from kerncast.execute.setup.arena import GLOBAL_BASE, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from kerncast.execute.setup.cluster_addresses import RANK_MASK, RANK_SHIFT
from kerncast.ptx import Vector

_ALL_BUT_SIGN, _INFINITY = 0x7FFFFFFF, 0x7F800000
_WINDOWS = {"shared": SHARED_WINDOW, "cluster": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW}


def move(o: Operation) -> None:
    """Write mov, which may pack a vector into a register or take it apart."""
    target, source = o.ins.operands
    emit, block, width = o.emit, o.block, o.width
    if isinstance(source, Vector):
        each = width // len(source.elements)
        packed = integer(f"<32 x i{width}>", 0)
        for position, element in enumerate(source.elements):
            part = emit.resize(block.source(element, f"b{each}"), f"i{width}")
            packed = emit.or_(packed, emit.shl(part, position * each))
        block.write(target, packed)
    elif isinstance(target, Vector):
        each = width // len(target.elements)
        whole = block.source(source, f"b{width}")
        for position, element in enumerate(target.elements):
            block.write(element, emit.resize(emit.lshr(whole, position * each), f"i{each}"))
    else:
        block.write(target, block.source(source, o.type), signed=o.is_signed)


def convert_address(o: Operation) -> None:
    """Write cvta: between an address in a state space and a generic one."""
    base = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(o.ins.space, 0)
    address = o.source(0, "u64")
    if o.ins.space == "param" and not o.has("to"):  # of 32 bits are left of one that was kept in a short register
        address = o.emit.or_(address, PARAMETER_WINDOW)
    o.block.write(o.ins.operands[0], o.emit.sub(address, base) if o.has("to") else o.emit.add(address, base))


def is_space(o: Operation) -> None:
    """Write isspacep."""
    address = o.source(0, "u64")
    found = lies_in(o.emit, address, o.ins.space)
    if o.ins.space == "shared" and o.block.program.sees_cluster:
        inside = o.emit.sub(address, SHARED_WINDOW)
        blocks = o.emit.cast("zext", get(o.emit, o.block.pointers.worker, WORKER, "cluster_blocks"), "i64")
        least, room = o.block.own_window(), integer(I64, 1 << RANK_SHIFT)
        if o.ins.is_cluster_wide:
            least, room = integer(I64, 0), o.emit.splat(o.emit.shl(blocks, RANK_SHIFT))
        found = o.emit.compare("ult", o.emit.sub(inside, least), room)
    o.block.write(o.ins.operands[0], found)


def map_to_rank(o: Operation) -> None:
    """Write mapa: the address of the same place in another block of the cluster."""
    emit, kind = o.emit, o.type
    window = emit.and_(o.source(0, kind), ~_RANK_BITS)
    rank = emit.resize(o.source(1, "u32"), f"i{o.width}")
    # A rank of more bits than an address has room for is made one that no cluster has.
    rank = emit.select(emit.compare("ult", rank, RANK_MASK), rank, RANK_MASK)
    o.block.write(o.ins.operands[0], emit.or_(window, emit.shl(rank, RANK_SHIFT)))


def rank_of_address(o: Operation) -> None:
    """Write getctarank: the rank of the block that an address in the cluster belongs to."""
    address = o.source(0, o.type)
    o.block.write(o.ins.operands[0], o.emit.and_(o.emit.lshr(address, RANK_SHIFT), RANK_MASK))


_RANK_BITS = RANK_MASK << RANK_SHIFT


def lies_in(emit: Emitter, address: Value, space: str) -> Value:
    """Return which generic addresses point into a state space; ``const`` is a part of global memory."""
    if space not in _WINDOWS:
        return emit.compare("uge", address, GLOBAL_BASE)
    inside = emit.sub(address, integer(I64, _WINDOWS[space]))
    return emit.compare("ult", inside, WINDOW_BYTES)


def shuffle(o: Operation) -> None:
    """Write shfl and shfl.sync."""
    emit, block = o.emit, o.block
    sources = o.ins.operands[o.first :]
    value = block.source(sources[0], "b32")
    b = emit.and_(block.source(sources[1], "u32"), 31)
    c = block.source(sources[2], "u32")
    lane = block.lane_numbers()
    segment = emit.and_(emit.lshr(c, 8), 31)
    outside = emit.xor(segment, 31)
    limit = emit.or_(emit.and_(lane, segment), emit.and_(emit.and_(c, 31), outside))
    if o.has("up"):
        source = emit.sub(lane, b)
        valid = emit.compare("sge", source, limit)
    else:
        if o.has("idx"):
            source = emit.or_(emit.and_(lane, segment), emit.and_(b, outside))
        else:
            source = emit.add(lane, b) if o.has("down") else emit.xor(lane, b)
        valid = emit.compare("sle", source, limit)
    source = emit.select(valid, source, lane)
    runs = emit.and_(emit.lshr(emit.splat(block.executing), source), 1)
    source = emit.select(emit.compare("ne", runs, 0), source, lane)
    if "permute" not in emit.unit:
        _define_permute(emit.unit)
    block.write(o.ins.operands[0], emit.call("permute", I32, value, source))
    if o.first == 2:
        block.write(o.ins.operands[1], valid)


def _define_permute(unit: Unit) -> None:
    """Write the function that gives each lane the value of another."""
    value, source = Value("%value", I32), Value("%source", I32)
    emit = Emitter(unit, "permute", I32, [value, source])
    values, sources, results = (emit.allocate(I32) for _ in range(3))
    emit.store(value, values, 64)
    emit.store(source, sources, 64)
    for lane in range(32):
        number = emit.load(emit.at(sources, 4 * lane), "i32")
        emit.store(emit.load(emit.index(values, "i32", number), "i32"), emit.at(results, 4 * lane))
    emit.give(emit.load(results, I32, 64))
    emit.finish()


def vote(o: Operation) -> None:
    """Write vote and vote.sync."""
    emit, block = o.emit, o.block
    group = _group(o)
    agree = emit.and_(group, emit.splat(emit.mask_bits(o.source(0, "pred"))))
    if o.has("ballot"):
        block.write(o.ins.operands[0], agree)
        return
    if o.has("any"):
        result = emit.compare("ne", agree, 0)
    else:
        result = emit.compare("eq", agree, group)
        if o.has("uni"):
            result = emit.binary("or", result, emit.compare("eq", agree, 0))
    block.write(o.ins.operands[0], result)


def active_mask(o: Operation) -> None:
    """Write activemask."""
    o.block.write(o.ins.operands[0], o.emit.splat(o.block.executing))


def match(o: Operation) -> None:
    """Write match.any.sync and match.all.sync."""
    emit, block = o.emit, o.block
    value = block.source(o.ins.operands[-2], o.type)
    name = f"match_{bits(value.type)}"
    if name not in emit.unit:
        _define_match(emit.unit, name, value.type)
    group = _group(o)
    same = emit.and_(emit.call(name, I32, value, block.executing), group)
    if o.has("any"):
        block.write(o.ins.operands[0], same)
        return
    everyone = emit.compare("eq", same, group)
    block.write(o.ins.operands[0], emit.select(everyone, same, 0))
    if len(o.ins.operands) == 4:
        block.write(o.ins.operands[1], everyone)


def _define_match(unit: Unit, name: str, kind: str) -> None:
    """Write the function that gives each lane those with the same value."""
    value, executing = Value("%value", kind), Value("%executing", "i32")
    emit = Emitter(unit, name, I32, [value, executing])
    values, results = emit.allocate(kind), emit.allocate(I32)
    emit.store(value, values, 64)
    emit.store(integer(I32, 0), results, 64)
    with emit.while_left(executing) as (left, rest):
        one = emit.load(emit.index(values, element(kind), emit.first_lane(left)), element(kind))
        same = emit.compare("eq", value, emit.splat(one))
        old = emit.load(results, I32, 64)
        emit.store(emit.select(same, emit.splat(emit.mask_bits(same)), old), results, 64)
        emit.store(emit.and_(left, emit.not_(emit.mask_bits(same))), rest)
    emit.give(emit.load(results, I32, 64))
    emit.finish()


def elect(o: Operation) -> None:
    """Write elect.sync: the first of the members is chosen."""
    emit, block = o.emit, o.block
    first = emit.call("llvm.cttz.v32i32", I32, _group(o), Value("false", "i1"))
    block.write(o.ins.operands[0], first)
    block.write(o.ins.operands[1], emit.compare("eq", first, block.lane_numbers()))


def reduce_warp(o: Operation) -> None:
    """Write redux.sync."""
    operation = next(m for m in o.ins.modifiers if m in o.ins.opcode.one_of)
    if o.type == "f32":
        _reduce_singles(o, operation)
        return
    letter = ("s" if o.is_signed else "u") if operation.startswith("m") else ""
    least, most = (-(1 << 31), (1 << 31) - 1) if o.is_signed else (0, (1 << 32) - 1)
    neutral = {"min": most, "max": least, "and": -1}.get(operation, 0)
    name = f"reduce_{letter}{operation}"
    if name not in o.emit.unit:
        _define_reduce(o.emit.unit, f"{letter}{operation}", neutral)
    o.block.write(o.ins.operands[0], o.emit.call(name, I32, o.source(0), _group(o), o.block.executing))


def _reduce_singles(o: Operation, operation: str) -> None:
    """Write redux.sync of singles, as integers in their order; those at both ends of the order stand for NaN."""
    emit = o.emit
    raw = emit.cast("bitcast", o.source(0), I32)
    if o.has("abs"):
        raw = emit.and_(raw, _ALL_BUT_SIGN)
    least, most = integer(I32, -(1 << 31)), integer(I32, _ALL_BUT_SIGN)
    wins, loses = (least, most) if operation == "min" else (most, least)
    is_nan = emit.compare("ugt", emit.and_(raw, _ALL_BUT_SIGN), _INFINITY)
    ordered = emit.select(is_nan, wins if o.has("NaN") else loses, _in_order(emit, raw))
    name = f"reduce_s{operation}"
    if name not in emit.unit:
        _define_reduce(emit.unit, f"s{operation}", (1 << 31) - 1 if operation == "min" else -(1 << 31))
    found = emit.call(name, I32, ordered, _group(o), o.block.executing)
    is_number = emit.and_(emit.compare("ne", found, least), emit.compare("ne", found, most))
    o.block.write(o.ins.operands[0], emit.select(is_number, _in_order(emit, found), integer(I32, _ALL_BUT_SIGN)))


def _in_order(emit: Emitter, raw: Value) -> Value:
    """Turn patterns of singles into integers in their order, or back: all bits but the sign, where that is set."""
    return emit.xor(raw, emit.and_(emit.ashr(raw, 31), _ALL_BUT_SIGN))


def _define_reduce(unit: Unit, operation: str, neutral: int) -> None:
    """Write the function that reduces the values of each group; each turn is that of the first lane left."""
    value, group, executing = Value("%value", I32), Value("%group", I32), Value("%executing", "i32")
    emit = Emitter(unit, f"reduce_{operation}", I32, [value, group, executing])
    groups, results = emit.allocate(I32), emit.allocate(I32)
    emit.store(group, groups, 64)
    emit.store(integer(I32, 0), results, 64)
    with emit.while_left(executing) as (left, rest):
        one = emit.load(emit.index(groups, "i32", emit.first_lane(left)), "i32")
        kept = emit.select(emit.mask_lanes(one), value, neutral)
        result = emit.call(f"llvm.vector.reduce.{operation}.v32i32", "i32", kept)
        same = emit.compare("eq", group, emit.splat(one))
        emit.store(emit.select(same, emit.splat(result), emit.load(results, I32, 64)), results, 64)
        emit.store(emit.and_(left, emit.not_(emit.mask_bits(same))), rest)
    emit.give(emit.load(results, I32, 64))
    emit.finish()


def members(o: Operation) -> Value:
    """Return the member mask of each lane; of an instruction without .sync that is every lane."""
    if not (o.has("sync") or o.has("warp")) or o.has("aligned"):
        return integer(I32, -1)
    return o.block.source(o.ins.operands[-1], "u32")


def _group(o: Operation) -> Value:
    """Return for each lane those of its member mask that take part."""
    return o.emit.and_(members(o), o.emit.splat(_member_lanes(o)))


def _member_lanes(o: Operation) -> Value:
    """Return which of the executing lanes are in their own member mask, as bits."""
    emit = o.emit
    named = emit.and_(emit.lshr(members(o), o.block.lane_numbers()), 1)
    return emit.and_(emit.mask_bits(emit.compare("ne", named, 0)), o.block.executing)


def remark_absent(o: Operation, number: int) -> None:
    """Note an instruction whose member mask names a lane that lives, and has gone another way."""
    if not o.has("sync"):
        return
    emit, pointers = o.emit, o.block.pointers
    elsewhere = emit.and_(get(emit, pointers.warp, WARP, "live"), emit.not_(o.block.executing))
    named = emit.and_(members(o), emit.splat(elsewhere))
    absent = emit.and_(emit.mask_bits(emit.compare("ne", named, 0)), o.block.executing)
    # Without a doubt it writes to a place of no use: the cache line of the remarks is one for both cores.
    noted = emit.at(get(emit, pointers.worker, WORKER, "remarks"), number)
    place = emit.select(emit.compare("ne", absent, 0), noted, field(emit, pointers.worker, WORKER, "trash"))
    emit.store(integer("i8", 1), place)


CROSS_LANE = {"shfl": shuffle, "vote": vote, "match": match, "activemask": active_mask, "elect": elect,
              "redux": reduce_warp, "mma": matrix_products.multiply,
              "mma.sp": matrix_products.multiply, "mma.sp::ordered_metadata": matrix_products.multiply,
              "movmatrix": matrix_products.transpose}  # fmt: skip
