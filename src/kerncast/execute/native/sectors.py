"""Counts the distinct 32-byte sectors of a warp's access to global memory, and marks them as touched."""

from kerncast.execute.native.access import POINTERS, Access
from kerncast.execute.native.frames import WORKER, get
from kerncast.execute.native.ir import Emitter, Unit, Value, integer
from kerncast.execute.native.lowering import I32, I64
from kerncast.kernel_profile import SECTOR_BYTES

_SECTOR_SHIFT = SECTOR_BYTES.bit_length() - 1


def count_run(access: Access, first: Value) -> None:
    """Count for lanes that read one place, or neighbouring ones from ``first`` on."""
    if not access.touches:
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
    last = emit.sub(integer("i32", 31), emit.call("llvm.ctlz.i32", "i32", access.mask, Value("true", "i1")))
    offset = emit.op(f"extractelement {access.offset.typed}, {last.typed}", "i64")
    start = emit.lshr(first, _SECTOR_SHIFT)
    count = emit.add(emit.sub(emit.lshr(emit.add(offset, access.size - 1), _SECTOR_SHIFT), start), 1)
    access.count("sectors", count)
    for name in access.touches:
        place = emit.at(get(emit, POINTERS[0], WORKER, name), start)
        with emit.count_up(count) as number:
            _mark(emit, emit.at(place, number))
    emit.go(after)
    emit.label(after)


def _mark(emit: Emitter, place: Value) -> None:
    """Mark a sector. What is marked stays as it is: writing it again would take the cache line from the other core."""
    with emit.when(emit.compare("eq", emit.load(place, "i8"), 0)):
        emit.store(integer("i8", 1), place)


def count_scattered(access: Access) -> None:
    """Count for lanes anywhere."""
    if not access.touches:
        return
    emit = access.emit
    name = "distinct_" + "_".join(access.touches)
    if name not in emit.unit:
        _define_distinct(emit.unit, name, access.touches)
    access.count("sectors", emit.call(name, "i64", POINTERS[0], access.mask, access.offset))


def _define_distinct(unit: Unit, name: str, touches: tuple[str, ...]) -> None:
    """Write the count of distinct sectors: each turn takes the first lane's sector and drops all lanes in it."""
    worker, mask, offset = POINTERS[0], Value("%mask", "i32"), Value("%offset", I64)
    emit = Emitter(unit, name, "i64", [worker, mask, offset])
    sector = emit.resize(emit.lshr(offset, _SECTOR_SHIFT), "i32")
    table, count = emit.allocate(I32), emit.allocate("i64")
    emit.store(sector, table, 64)
    emit.store(integer("i64", 0), count)
    before = emit.op(f"shufflevector {sector.typed}, {sector.typed}, <32 x i32> <i32 0, {_indices(range(31))}>", I32)
    new = emit.or_(emit.mask_bits(emit.compare("ne", sector, before)), 1)
    ordered = emit.compare("eq", emit.mask_bits(emit.compare("ult", sector, before)), 0)
    in_order = emit.binary("and", ordered, emit.compare("eq", mask, -1))
    # In order, sectors change where they begin; else what is left is compared with the first.
    with emit.while_left(emit.select(in_order, new, mask)) as (left, rest):
        one = emit.load(emit.index(table, "i32", emit.first_lane(left)), "i32")
        same = emit.mask_bits(emit.compare("eq", sector, emit.splat(one)))
        emit.store(emit.and_(left, emit.not_(same)), rest)
        emit.increase(count, integer("i64", 1))
        for name_ in touches:
            _mark(emit, emit.at(get(emit, worker, WORKER, name_), emit.cast("zext", one, "i64")))
    emit.give(emit.load(count, "i64"))
    emit.finish()


def _indices(lanes: range) -> str:
    return ", ".join(f"i32 {lane}" for lane in lanes)
