"""Moves data between registers and memory: loads, stores and atomic updates of a warp."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate

from kerncast import traces
from kerncast.execute.native.arithmetic import conversion
from kerncast.execute.native.arithmetic.crosslane import lies_in
from kerncast.execute.native.arithmetic.matrix_products import TRANSPOSED
from kerncast.execute.native.block import I64, BlockCode, Operation
from kerncast.execute.native.ir import (
    FAULTS,
    LANES,
    SPACES,
    WARP,
    WORKER,
    Emitter,
    Unit,
    Value,
    each_lane,
    element,
    field,
    get,
    integer,
    vector,
)
from kerncast.execute.native.memory.access import (
    COUNTERS,
    PARAMETERS,
    POINTERS,
    Access,
    Fault,
    checked,
    count_request,
    forget_window,
    in_bounds,
    lane_pointers,
    note_fault,
)
from kerncast.execute.native.memory.banks import (
    count_conflict_free,
    count_global_update,
    count_local,
    count_run,
    count_scattered,
    count_shared_update,
    count_wavefronts,
)
from kerncast.execute.setup.arena import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from kerncast.execute.setup.dataflow import common_counters
from kerncast.ptx import MATRIX_ROW_BYTES, TYPE_BITS, Address, Operand, Register, Symbol, Vector, opcode_of
from kerncast.ptx.tensor_layouts import SHORT_NUMBERS

# Loads and stores of a warp, through functions that are written once per state space and size.
#
# A load returns the address of its lanes' data, one after the other: where lanes read neighbouring places that is the
# memory itself, else a copy. A store finds the data in the worker's ``staged`` area.


_COUNTERS, _SITE, _MASK, _ADDRESS = PARAMETERS[2:]
_WINDOWS = {
    "global": 0,
    "shared": SHARED_WINDOW,
    "cluster": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "param": PARAMETER_WINDOW,
    "call": 0,
}
#: Most bytes per lane that neighbouring lanes access at once; as much room lies before and behind each memory.
_MOST_BYTES_AT_ONCE = 16
_LOADS_AND_STORES = {
    "local": (traces.Operation.LOCAL_LOAD, traces.Operation.LOCAL_STORE),
    "shared": (traces.Operation.SHARED_LOAD, traces.Operation.SHARED_STORE),
    "cluster": (traces.Operation.SHARED_LOAD, traces.Operation.SHARED_STORE),
}
Lanes = tuple[str, Value]
"""state space, and the lanes that point to it"""
#: Where the counters of each state space begin, for an instruction with a generic address.
_ENDS = list(accumulate((8 * len(names) for names in COUNTERS.values()), initial=0))
GENERIC_COUNTERS = dict(zip(COUNTERS, _ENDS[:-1], strict=True)) | dict.fromkeys(("param", "call"), _ENDS[-1])
GENERIC_COUNTERS["cluster"] = GENERIC_COUNTERS["shared"]
#: Ways to read a generic address: where no other block's shared memory can be meant, and where it can.
_GENERIC = ("generic", "generic_cluster")


def loader(unit: Unit, space: str, size: int, operation: traces.Operation | None) -> str:
    """Return the name of the function that loads ``size`` bytes per lane, and write it if need be."""
    name = f"load_{space}_{size}" + _suffix(operation)
    if name not in unit:
        if space in _GENERIC:
            _define_merged_load(unit, name, size, _spaces_of(space), operation)
        elif space == "argument":
            _define_merged_load(unit, name, size, _parameter_spaces, operation)
        else:
            _define_load(unit, name, space, size, operation)
    return name


@dataclass(frozen=True, slots=True)
class Wide:
    """The joined load that an instruction stands for."""

    nbytes: int
    """bytes per lane; 0: another instruction stands for it"""
    shift: int
    """address of the joined load relative to the instruction's"""


def joined_loader(unit: Unit, size: int, operation: traces.Operation | None, wide: Wide) -> str:
    """Return the name of the function that loads ``size`` bytes per lane and counts the passes of the joined load."""
    name = f"load_joined_{size}_{wide.nbytes}_{wide.shift}".replace("-", "m") + _suffix(operation)
    if name not in unit:
        emit = Emitter(unit, name, "ptr", PARAMETERS)
        staged = field(emit, POINTERS[0], WORKER, "staged")
        access = checked(Access(emit, "shared", size, _in_space(operation, "shared")), staged)
        if wide.nbytes:
            lowest = emit.add(access.offset, each_lane(I64, [wide.shift] * LANES))
            count_wavefronts(replace(access, size=wide.nbytes, offset=lowest))
        _write_load(replace(access, operation=None), staged)
    return name


def plain_loader(unit: Unit, size: int) -> str:
    """Return the name of the function that loads from global memory what is not to be recorded."""
    name = f"load_plain_{size}"
    if name not in unit:
        _define_load(unit, name, "global", size, None)
    return name


def storer(unit: Unit, space: str, size: int, operation: traces.Operation | None) -> str:
    """Return the name of the function that stores ``size`` bytes per lane, and write it if need be."""
    name = f"store_{space}_{size}"
    if name not in unit:
        if space in _GENERIC:

            def inner(part: str) -> str:
                return storer(unit, part, size, operation)

            define_generic(unit, name, space, inner)
        elif space == "param":
            define_refusal(unit, name, space, "constant")
        else:
            _define_store(unit, name, space, size, operation)
    return name


def _define_load(unit: Unit, name: str, space: str, size: int, operation: traces.Operation | None) -> None:
    emit = Emitter(unit, name, "ptr", PARAMETERS)
    staged = field(emit, POINTERS[0], WORKER, "staged")
    _write_load(checked(Access(emit, space, size, _in_space(operation, space)), staged), staged)


def _write_load(access: Access, staged: Value) -> None:
    """Write the rest of a function that loads what a checked access asks for."""
    emit, space, size = access.emit, access.space, access.size
    if size <= _MOST_BYTES_AT_ONCE and space in {"global", "const", "shared"}:
        first, run = _begin(access)
        with _returns(emit, access.agrees(run)):
            _count_run(access, first)
            emit.give(_pointer(emit, access, run))
        if size <= 8:
            with _returns(emit, access.agrees(emit.splat(first))):
                _count_run(access, first, is_broadcast=True)
                kind = f"i{8 * size}"
                one = emit.load(_pointer_to(emit, access, first), kind)
                emit.store(emit.splat(one), staged, 64)
                emit.give(staged)
    _count_any(access)
    table = lane_pointers(access)
    for lane in range(LANES):
        place = emit.cast("inttoptr", emit.load(emit.at(table, 8 * lane), "i64"), "ptr")
        align = min(size, _MOST_BYTES_AT_ONCE)  # memory of NumPy begins at a multiple of 16
        emit.store(emit.load(place, f"i{8 * size}", align), emit.at(staged, size * lane), align)
    emit.give(staged)
    emit.finish()


def _define_store(unit: Unit, name: str, space: str, size: int, operation: traces.Operation | None) -> None:
    emit = Emitter(unit, name, "void", PARAMETERS)
    staged = field(emit, POINTERS[0], WORKER, "staged")
    access = checked(Access(emit, space, size, _in_space(operation, space)), None)
    if size <= _MOST_BYTES_AT_ONCE and space in {"global", "shared"}:
        first, run = _begin(access)
        whole = emit.compare("eq", access.mask, -1)
        with _returns(emit, emit.binary("and", whole, access.agrees(run))):
            _count_run(access, first)
            words = f"<{4 * size} x i64>"
            emit.store(emit.load(staged, words, 64), _pointer(emit, access, run), size)
            emit.give()
    _count_any(access)
    table = lane_pointers(access)
    for lane in range(LANES):  # in the order of the lanes: of several that write one place the last wins
        place = emit.cast("inttoptr", emit.load(emit.at(table, 8 * lane), "i64"), "ptr")
        align = min(size, _MOST_BYTES_AT_ONCE)
        emit.store(emit.load(emit.at(staged, size * lane), f"i{8 * size}", align), place, align)
    emit.give()
    emit.finish()


def _count_run(access: Access, first: Value, *, is_broadcast: bool = False) -> None:
    """Count lanes that access neighbouring places from ``first`` on, or all of them this one."""
    if access.space == "shared":
        count_conflict_free(access, is_broadcast=is_broadcast)
    else:
        count_run(access, first)


def _count_any(access: Access) -> None:
    match access.space:
        case "global" | "const":
            count_scattered(access)
        case "shared":
            count_wavefronts(access)
        case "local":
            count_local(access)


def _in_space(operation: traces.Operation | None, space: str) -> traces.Operation | None:
    """Return what is recorded of an access, given what it would be in global memory."""
    if operation is None or space not in _LOADS_AND_STORES:
        return operation
    return _LOADS_AND_STORES[space][operation is traces.Operation.STORE]


def _suffix(operation: traces.Operation | None) -> str:
    return "" if operation in {None, traces.Operation.LOAD} else f"_{operation.name.lower()}"


def _begin(access: Access) -> tuple[Value, Value]:
    """Return the offset of the first lane that takes part, and all offsets if the lanes were neighbours from there."""
    emit = access.emit
    table = field(emit, POINTERS[0], WORKER, "offsets")
    emit.store(access.offset, table, 64)
    lane = emit.first_lane(access.mask)
    first = emit.load(emit.index(table, "i64", lane), "i64")
    start = emit.sub(first, emit.mul(emit.cast("zext", lane, "i64"), access.size))
    return first, emit.add(each_lane(I64, [access.size * n for n in range(LANES)]), emit.splat(start))


def _pointer(emit: Emitter, access: Access, run: Value) -> Value:
    """Return the address of lane 0's data. Before and behind each memory lie bytes for lanes that take no part."""
    return _pointer_to(emit, access, emit.op(f"extractelement {run.typed}, i64 0", "i64"))


def _pointer_to(emit: Emitter, access: Access, offset: Value) -> Value:
    return emit.cast("inttoptr", emit.add(offset, access.start), "ptr")


@contextmanager
def _returns(emit: Emitter, condition: Value) -> Iterator[None]:
    """Write a path that is taken where a condition holds, and that returns from the function."""
    path, on = emit.fresh("path"), emit.fresh("on")
    emit.branch(condition, path, on)
    emit.label(path)
    yield
    emit.label(on)


def define_generic(unit: Unit, name: str, way: str, inner: Callable[[str], str]) -> None:
    """Write an access by generic addresses, without a result: one call for each state space that lanes point to."""
    emit = Emitter(unit, name, "void", PARAMETERS)
    for space, mask in _spaces_of(way)(emit):
        with emit.when(emit.compare("ne", mask, 0)):
            emit.call_void(inner(space), *_arguments(emit, space, mask))
    emit.give()
    emit.finish()


def define_refusal(unit: Unit, name: str, space: str, fault: str) -> None:
    """Write an access to a state space that does not allow it."""
    emit = Emitter(unit, name, "void", PARAMETERS)
    with emit.when(emit.compare("ne", _MASK, 0)):
        code, number = integer("i32", FAULTS[fault]), integer("i32", SPACES.index(space))
        note_fault(emit, POINTERS, Fault(code, _SITE, emit.first_lane(_MASK), space=number))
    emit.give()
    emit.finish()


def _define_merged_load(
    unit: Unit,
    name: str,
    size: int,
    spaces_of: Callable[[Emitter], "Iterator[Lanes]"],
    operation: traces.Operation | None,
) -> None:
    """Write a load whose lanes may point to several state spaces."""
    emit = Emitter(unit, name, "ptr", PARAMETERS)
    merged = field(emit, POINTERS[0], WORKER, "merged")
    spaces = list(spaces_of(emit))
    for space, mask in spaces:
        function = loader(unit, space, size, operation)
        with _returns(emit, emit.compare("eq", mask, _MASK)):
            emit.give(emit.call(function, "ptr", *_arguments(emit, space, mask)))
    for space, mask in spaces:
        with emit.when(emit.compare("ne", mask, 0)):
            found = emit.call(loader(unit, space, size, operation), "ptr", *_arguments(emit, space, mask))
            with emit.each_bit(mask) as lane:
                place = emit.mul(emit.cast("zext", lane, "i64"), size)
                emit.store(emit.load(emit.at(found, place), f"i{8 * size}", 1), emit.at(merged, place), 1)
    emit.give(merged)
    emit.finish()


def _parameter_spaces(emit: Emitter) -> "Iterator[Lanes]":
    """Give the lanes that point to a parameter of the kernel, and those that do to one of an inlined function."""
    mask = emit.and_(emit.mask_bits(lies_in(emit, _ADDRESS, "param")), _MASK)
    yield "param", mask
    yield "call", emit.and_(_MASK, emit.not_(mask))


def _spaces_of(way: str) -> "Callable[[Emitter], Iterator[Lanes]]":
    """Return how the state spaces of generic addresses are told apart."""
    names = ("shared" if way == "generic" else "cluster", "local", "param")

    def spaces(emit: Emitter) -> "Iterator[Lanes]":
        """Give each state space with the lanes that point to it; a bad pointer counts as one to global memory."""
        rest = _MASK
        found = []
        for space in names:
            mask = emit.and_(emit.mask_bits(lies_in(emit, _ADDRESS, space)), _MASK)
            rest = emit.and_(rest, emit.not_(mask))
            found.append((space, mask))
        yield from [("global", rest), *found]

    return spaces


def _arguments(emit: Emitter, space: str, mask: Value) -> list[Value]:
    counters = emit.at(_COUNTERS, GENERIC_COUNTERS[space])
    address = emit.sub(_ADDRESS, integer(I64, _WINDOWS[space])) if _WINDOWS[space] else _ADDRESS
    return [*POINTERS, counters, _SITE, mask, address]


# Atomic updates of memory: the lanes of a warp take turns.
#
# Blocks that run at the same time on two cores never share an atomic: a kernel with atomics on global memory runs on
# one core (see engine.py), so that results do not depend on chance.


_OPERATIONS = opcode_of("atom").one_of
_FLOATS = {"f32": "float", "f64": "double"}
_HALVES = {"f16", "bf16", "f16x2", "bf16x2"}
_SECOND_BYTES = 512  # where in the worker's staged area the second operand of cas lies


@dataclass(frozen=True, slots=True)
class Update:
    """The change that an atomic makes in one place."""

    operation: str
    type: str
    count: int
    """elements of a vector, or 1"""

    @property
    def bytes(self) -> int:
        """Size of one element."""
        return TYPE_BITS[self.type] // 8

    @property
    def kind(self) -> str:
        """An element as an integer of LLVM."""
        return f"i{TYPE_BITS[self.type]}"


def update_of(modifiers: tuple[str, ...], type_name: str, count: int) -> Update:
    """Return the update that the modifiers of atom or red name."""
    return Update(next(m for m in modifiers if m in _OPERATIONS), type_name, count)


def updater(unit: Unit, update: Update, space: str, operation: traces.Operation | None) -> str:
    """Return the name of the function for an update, and write it if need be.

    It takes its operands from the worker's ``staged`` area, and leaves the old values in ``merged``.
    """
    name = f"atomic_{update.operation}_{update.type}_{update.count}_{space}"
    name += "_red" if operation is traces.Operation.REDUCTION else ""
    if name in unit:
        return name
    if space in _GENERIC:
        define_generic(unit, name, space, lambda part: updater(unit, update, part, operation))
    elif space not in {"global", "shared", "cluster"}:
        define_refusal(unit, name, "param" if space == "argument" else space, "atomic")
    else:
        _define(unit, name, update, space, operation)
    return name


def _define(unit: Unit, name: str, update: Update, space: str, operation: traces.Operation | None) -> None:
    emit = Emitter(unit, name, "void", PARAMETERS)
    worker = POINTERS[0]
    access = checked(Access(emit, space, update.bytes * update.count, operation), None)
    if space == "global":
        count_global_update(access)
        count_scattered(access)
    else:
        count_shared_update(access)
    table = lane_pointers(access)
    staged, merged = field(emit, worker, WORKER, "staged"), field(emit, worker, WORKER, "merged")
    with emit.each_bit(access.mask) as lane:
        start = emit.cast("inttoptr", emit.load(emit.index(table, "i64", lane), "i64"), "ptr")
        for position in range(update.count):
            place = emit.at(start, position * update.bytes)
            number = emit.add(emit.mul(lane, update.count), position)
            old = emit.load(place, update.kind, update.bytes)
            given = emit.load(emit.index(staged, update.kind, number), update.kind)
            second = emit.at(staged, _SECOND_BYTES)
            is_cas = update.operation == "cas"
            other = emit.load(emit.index(second, update.kind, number), update.kind) if is_cas else given
            emit.store(_new(emit, update, old, given, other), place, update.bytes)
            emit.store(old, emit.index(merged, update.kind, number))
    emit.give()
    emit.finish()


def _new(emit: Emitter, update: Update, old: Value, given: Value, other: Value) -> Value:
    """Return what an update leaves; ``other`` is the second operand of cas."""
    operation = update.operation
    if operation in {"cas", "inc", "dec"}:
        return _conditional(emit, operation, old, given, other)
    if operation == "exch":
        return given
    if update.type in _HALVES:
        return _add_halves(emit, update, old, given)
    if update.type in _FLOATS:
        kind = _FLOATS[update.type]
        total = emit.binary("fadd", emit.cast("bitcast", old, kind), emit.cast("bitcast", given, kind))
        return emit.cast("bitcast", total, old.type)
    if operation.startswith("m"):  # min or max
        return emit.intrinsic(f"{'s' if update.type.startswith('s') else 'u'}{operation}", old, given)
    return emit.binary(operation, old, given)


def _conditional(emit: Emitter, operation: str, old: Value, given: Value, other: Value) -> Value:
    if operation == "cas":
        return emit.select(emit.compare("eq", old, given), other, old)
    if operation == "inc":
        return emit.select(emit.compare("uge", old, given), integer(old.type, 0), emit.add(old, 1))
    wraps = emit.binary("or", emit.compare("eq", old, 0), emit.compare("ugt", old, given))
    return emit.select(wraps, given, emit.sub(old, 1))


def _add_halves(emit: Emitter, update: Update, old: Value, given: Value) -> Value:
    """Add as the instruction for registers does, in all lanes of a vector of which one counts."""
    kind = conversion.kind_of(update.type)
    a, b = emit.splat(old), emit.splat(given)
    parts = (
        [(a, b)]
        if not update.type.endswith("x2")
        else list(zip(conversion.unpack(emit, a), conversion.unpack(emit, b), strict=True))
    )
    sums = [
        conversion.from_f64(emit, emit.binary("fadd", *(conversion.to_f64(emit, x, kind) for x in pair)), kind)
        for pair in parts
    ]
    total = sums[0] if len(sums) == 1 else conversion.pack(emit, *sums)
    return emit.op(f"extractelement {total.typed}, i64 0", update.kind)


def stage(block: BlockCode, values: list[Value]) -> None:
    """Write the operands of an update where its function finds them."""
    emit = block.emit
    staged = field(emit, block.pointers.worker, WORKER, "staged")
    for number, value in enumerate(values):
        emit.store(value, emit.at(staged, number * _SECOND_BYTES), 64)


def space_of(o: Operation, operand: Address) -> str:
    """Return the state space that an instruction accesses; of a parameter and of shared memory, whose it may be."""
    if o.ins.is_cluster_wide:
        return "cluster"
    if o.ins.space == "generic" and o.block.program.sees_cluster:
        return "generic_cluster"
    if o.ins.space != "param":
        return o.ins.space
    is_own = isinstance(operand.base, Symbol) and operand.base.name not in o.block.program.parameters
    return "call" if is_own else "argument"


def load(o: Operation, number: int, counters: Value, operation: traces.Operation | None) -> None:
    """Write a load; ``number`` is that of the instruction, and ``counters`` is where its counters lie."""
    target, source = o.ins.operands
    assert isinstance(source, Address)
    elements = target.elements if isinstance(target, Vector) else (target,)
    size = TYPE_BITS[o.type] // 8
    space = space_of(o, source)
    if isinstance(source.base, Symbol) and space == "argument":
        program = o.block.program
        place = program.parameters[source.base.name] + source.offset
        if 0 <= place <= program.parameter_bytes - size * len(elements):  # else the checked way finds the fault
            _load_parameter(o, place, elements)
            return
    address = address_of(o, source)
    joined = o.block.program.joined.get(number)
    if joined is None:
        name = loader(o.emit.unit, space, size * len(elements), operation)
    else:
        wide = Wide(joined.nbytes if joined.first == number else 0, joined.shift)
        name = joined_loader(o.emit.unit, size, operation, wide)
    pointers = (o.block.pointers.worker, o.block.pointers.warp)
    found = o.emit.call(name, "ptr", *pointers, counters, integer("i32", number), o.block.executing, address)
    for each, value in zip(elements, taken_apart(o, found, size, len(elements)), strict=True):
        o.block.write(each, value, signed=o.is_signed)


def store(o: Operation, number: int, counters: Value, operation: traces.Operation | None) -> None:
    """Write a store."""
    target, source = o.ins.operands
    assert isinstance(target, Address)
    elements = source.elements if isinstance(source, Vector) else (source,)
    size = TYPE_BITS[o.type] // 8
    address = address_of(o, target)
    values = [o.block.source(element, f"b{8 * size}") for element in elements]
    staged = field(o.emit, o.block.pointers.worker, WORKER, "staged")
    o.emit.store(put_together(o, values), staged, 64)
    space = space_of(o, target)
    name = storer(o.emit.unit, "call" if space == "argument" else space, size * len(elements), operation)
    pointers = (o.block.pointers.worker, o.block.pointers.warp)
    o.emit.call_void(name, *pointers, counters, integer("i32", number), o.block.executing, address)


def update(o: Operation, number: int, counters: Value, operation: traces.Operation | None) -> None:
    """Write an atomic or a reduction."""
    position = 1 if o.ins.root == "atom" else 0
    target = o.ins.operands[position]
    assert isinstance(target, Address)
    lists = [operand.elements if isinstance(operand, Vector) else (operand,) for operand in o.ins.operands]
    what = update_of(o.ins.modifiers, o.type, len(lists[-1]))
    address = address_of(o, target)
    kind = f"b{TYPE_BITS[o.type]}"
    given = [[o.block.source(element, kind) for element in elements] for elements in lists[position + 1 :]]
    counter = common_counters(o.block.program).get(number) if position else None
    turn = None if counter is None else _turn(o, counter, given[0][0])
    stage(o.block, [turn.added] if turn else [put_together(o, values) for values in given])
    name = updater(o.emit.unit, what, space_of(o, target), operation)
    pointers = (o.block.pointers.worker, o.block.pointers.warp)
    o.emit.call_void(name, *pointers, counters, integer("i32", number), o.block.executing, address)
    if position:
        merged = field(o.emit, o.block.pointers.worker, WORKER, "merged")
        found = taken_apart(o, merged, TYPE_BITS[o.type] // 8, what.count)
        if turn:
            found = [o.emit.add(found[0], turn.beyond)]
        for each, value in zip(lists[0], found, strict=True):
            o.block.write(each, value, signed=o.is_signed)


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a counter of the grid says where warps take its numbers in turn."""

    added: Value
    """what is added to it in memory: nothing where they do"""
    beyond: Value
    """how far it is beyond its value in memory: not at all where they do not"""


def _turn(o: Operation, counter: int, step: Value) -> _Turn:
    """Return what a counter of the grid says when a warp's next turn comes.

    s (n (f + w + W k) + l) for a step s, n lanes of which l come before, f turns that others had, and the turn k of
    warp w of the W that take; and how much further the counter is.
    """
    emit, block, worker = o.emit, o.block, o.block.pointers.worker
    names = ("turn_blocks", "turn_first", "turn_beyond")
    blocks, first, further = (emit.load(emit.at(field(emit, worker, WORKER, n), 8 * counter), "i64") for n in names)
    warps = emit.load(emit.at(field(emit, worker, WORKER, "turn_warps"), 4 * counter), "i32")
    takers = emit.count_lanes(warps)
    slot = emit.at(field(emit, block.pointers.warp, WARP, "taken"), 8 * counter)
    place, grid = block.place_in_grid()
    taking = emit.binary("udiv", emit.mul(place, blocks), grid)
    itself = emit.shl(integer("i32", 1), get(emit, block.pointers.warp, WARP, "number"))
    rank = emit.count_lanes(emit.and_(emit.sub(itself, 1), warps))
    own = emit.add(emit.mul(taking, takers), emit.add(rank, first))
    before = emit.add(own, emit.mul(emit.load(slot, "i64"), emit.mul(blocks, takers)))
    asks = emit.compare("ne", block.executing, 0)
    emit.increase(slot, emit.cast("zext", asks, "i64"))
    asked = emit.at(field(emit, worker, WORKER, "asked"), 4 * counter)
    emit.store(emit.or_(emit.load(asked, "i32"), emit.select(asks, itself, integer("i32", 0))), asked)
    lanes = emit.splat(emit.mul(before, emit.count_lanes(block.executing)))
    lower = emit.and_(emit.splat(block.executing), each_lane(vector("i32"), [(1 << lane) - 1 for lane in range(LANES)]))
    count = emit.add(lanes, emit.cast("zext", emit.intrinsic("ctpop", lower), "i64"))
    by_turns, nothing = emit.mul(emit.resize(count, element(step.type)), step), integer(step.type, 0)
    distance = emit.resize(emit.splat(further), element(step.type))
    distance = emit.select(emit.compare("slt", step, 0), emit.sub(nothing, distance), distance)
    beyond, in_turn = emit.add(by_turns, distance), emit.compare("ne", blocks, 0)
    return _Turn(emit.select(in_turn, nothing, step), emit.select(in_turn, beyond, nothing))


def address_of(o: Operation, operand: Address) -> Value:
    """Return the addresses of a memory operand: in the state space of the instruction, from its beginning on."""
    address = given_address(o, operand)
    return in_own_shared(o, address) if o.ins.space == "shared" and not o.ins.is_cluster_wide else address


def in_own_shared(o: Operation, address: Value) -> Value:
    """Return offsets in the block's own shared memory, by addresses in shared::cta: these hold the block's rank."""
    return o.emit.sub(address, o.block.own_window()) if o.block.program.sees_cluster else address


def given_address(o: Operation, operand: Address) -> Value:
    """Return the addresses of a memory operand as they are written."""
    if operand.base is None:
        return integer(I64, operand.offset)
    if isinstance(operand.base, Register) and TYPE_BITS[operand.base.type] == 32:
        # A shared address of 32 bits may be negative before its offset is added: the sum wraps within 32 bits.
        near = o.emit.add(o.block.source(operand.base, "u32"), operand.offset % 2**32)
        return o.emit.resize(near, "i64")
    base = o.block.source(operand.base, "u64")
    return o.emit.add(base, operand.offset) if operand.offset else base


def _load_parameter(o: Operation, place: int, elements: tuple[Operand, ...]) -> None:
    """Write the load of a kernel parameter, which is the same for all threads."""
    parameters = get(o.emit, o.block.pointers.worker, WORKER, "parameters")
    size = TYPE_BITS[o.type] // 8
    for position, each in enumerate(elements):
        one = o.emit.load(o.emit.at(parameters, place + position * size), f"i{8 * size}", 1)
        o.block.write(each, o.emit.splat(one), signed=o.is_signed)


def taken_apart(o: Operation, found: Value, size: int, count: int) -> list[Value]:
    """Return each element of a vector load; lanes' data lie one after the other."""
    kind = f"i{8 * size}"
    if count == 1:
        return [o.emit.load(found, vector(kind), size)]
    wide = f"<{LANES * count} x {kind}>"
    everything = o.emit.load(found, wide, size)
    return [
        o.emit.op(
            f"shufflevector {everything.typed}, {wide} poison, {_indices(range(n, LANES * count, count))}", vector(kind)
        )
        for n in range(count)
    ]


def put_together(o: Operation, values: list[Value]) -> Value:
    """Return the elements of a vector store, lane after lane."""
    if len(values) == 1:
        return values[0]
    kind = element(values[0].type)
    count = len(values)
    parts, length = values, LANES
    while len(parts) > 1:
        parts = [_joined(o, a, b, length) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        length *= 2
    order = [n * LANES + lane for lane in range(LANES) for n in range(count)]
    wide = f"<{LANES * count} x {kind}>"
    return o.emit.op(f"shufflevector {parts[0].typed}, {wide} poison, {_indices(order)}", wide)


def _joined(o: Operation, a: Value, b: Value, count: int) -> Value:
    wide = f"<{2 * count} x {element(a.type)}>"
    return o.emit.op(f"shufflevector {a.typed}, {b.typed}, {_indices(range(2 * count))}", wide)


def _indices(numbers: "range | list[int]") -> str:
    return f"<{len(numbers)} x i32> <" + ", ".join(f"i32 {n}" for n in numbers) + ">"


def load_matrices(o: Operation, number: int, counters: Value, operation: traces.Operation | None) -> None:
    """Write ldmatrix: of 8 lanes, each gives the address of a row of 16 bytes."""
    emit, (target, source) = o.emit, o.ins.operands
    assert isinstance(source, Address)
    elements = target.elements if isinstance(target, Vector) else (target,)
    mask = emit.and_(o.block.executing, (1 << 8 * len(elements)) - 1)
    pointers = (o.block.pointers.worker, o.block.pointers.warp)
    name = loader(emit.unit, o.ins.space, MATRIX_ROW_BYTES, operation)
    found = emit.call(name, "ptr", *pointers, counters, integer("i32", number), mask, address_of(o, source))
    packed = next((SHORT_NUMBERS[m] for m in o.ins.modifiers if m in SHORT_NUMBERS), 0)
    for position, each in enumerate(elements):
        if packed:
            o.block.write(each, _unpacked(o, emit.at(found, 4 * LANES * position), packed))
            continue
        halves = emit.load(emit.at(found, 4 * LANES * position), "<64 x i16>", 2)
        if o.has("trans"):
            halves = emit.op(f"shufflevector {halves.typed}, <64 x i16> poison, {_indices(TRANSPOSED)}", "<64 x i16>")
        o.block.write(each, emit.op(f"bitcast {halves.typed} to {vector('i32')}", vector("i32")))


def _unpacked(o: Operation, place: Value, width: int) -> Value:
    """Return 8 rows of 16 numbers of so few bits, which begin each 16 bytes, as the lowest bits of bytes."""
    emit, wide = o.emit, f"<{4 * LANES} x i16>"
    raw = emit.load(place, f"<{4 * LANES} x i8>", 1)
    starts = [divmod(width * (n % MATRIX_ROW_BYTES), 8) for n in range(4 * LANES)]
    first = [n // MATRIX_ROW_BYTES * MATRIX_ROW_BYTES + byte for n, (byte, _) in enumerate(starts)]
    low, high = (
        emit.op(f"shufflevector {raw.typed}, {raw.type} poison, {_indices(numbers)}", raw.type)
        for numbers in (first, [n + 1 for n in first])
    )
    low, high = (emit.op(f"zext {each.typed} to {wide}", wide) for each in (low, high))
    shifts = each_lane(wide, [shift for _, shift in starts])
    codes = emit.and_(emit.lshr(emit.or_(low, emit.shl(high, 8)), shifts), (1 << width) - 1)
    bytes_of = emit.op(f"trunc {codes.typed} to {raw.type}", raw.type)
    return emit.op(f"bitcast {bytes_of.typed} to {vector('i32')}", vector("i32"))


#: Of 16 x 8 bytes: which byte of the registers of all lanes stands at each place of 8 rows of 16 bytes in memory.
#: Lane 4 g + t has rows g and g + 8 of columns 2 t and 2 t + 1, which are rows in memory. Source: PTX ISA 8.8, section
#: 9.7.14.5.16, whose figure CUTLASS spells out (SM100_U8x4_STSM_T).
_TURNED_BYTES = [
    4 * (4 * (byte % 8) + row // 2) + row % 2 + 2 * (byte // 8) for row in range(8) for byte in range(MATRIX_ROW_BYTES)
]


def store_matrices(o: Operation, number: int, counters: Value, operation: traces.Operation | None) -> None:
    """Write stmatrix: of 8 lanes, each gives the address of a row of 16 bytes."""
    emit, (target, source) = o.emit, o.ins.operands
    assert isinstance(target, Address)
    elements = source.elements if isinstance(source, Vector) else (source,)
    mask = emit.and_(o.block.executing, (1 << 8 * len(elements)) - 1)
    address = address_of(o, target)
    staged = field(emit, o.block.pointers.worker, WORKER, "staged")
    for position, each in enumerate(elements):
        words = o.block.source(each, "b32")
        if o.has("m16n8"):
            parts = emit.op(f"bitcast {words.typed} to <{4 * LANES} x i8>", f"<{4 * LANES} x i8>")
            words = emit.op(f"shufflevector {parts.typed}, {parts.type} poison, {_indices(_TURNED_BYTES)}", parts.type)
        elif o.has("trans"):
            halves = emit.op(f"bitcast {words.typed} to <64 x i16>", "<64 x i16>")
            turned = f"shufflevector {halves.typed}, <64 x i16> poison, {_indices(TRANSPOSED)}"
            words = emit.op(turned, "<64 x i16>")
        emit.store(words, emit.at(staged, 4 * LANES * position), 64)
    name = storer(emit.unit, o.ins.space, MATRIX_ROW_BYTES, operation)
    pointers = (o.block.pointers.worker, o.block.pointers.warp)
    emit.call_void(name, *pointers, counters, integer("i32", number), mask, address)


# Copies from global to shared memory, which are done where they are issued.
#
# A program without races cannot tell: a copy may be done at any time between its issue and the wait for it. Its lanes'
# data are gathered in the worker's ``merged`` area, of which lanes that read less than they write leave the rest zero.

_TARGET, _GIVEN = Value("%target", I64), Value("%given", vector("i32"))


def copier(unit: Unit, size: int, operation: traces.Operation | None) -> str:
    """Return the name of the function that copies ``size`` bytes per lane, and write it if need be.

    Behind the usual parameters it takes where each lane writes, and how many bytes it reads.
    """
    name = f"copy_{size}" + _suffix(operation)
    if name not in unit:
        reader, writer = _copy_reader(unit, size, operation), storer(unit, "shared", size, traces.Operation.STORE)
        if operation is None:
            writer = storer(unit, "shared", size, None)
        emit = Emitter(unit, name, "void", (*PARAMETERS, _TARGET, _GIVEN))
        merged, everything = field(emit, POINTERS[0], WORKER, "merged"), f"<{4 * size} x i64>"
        emit.store(integer(everything, 0), merged, 64)
        reads = emit.and_(emit.mask_bits(emit.compare("ne", _GIVEN, 0)), _MASK)
        with emit.when(emit.compare("ne", reads, 0)):
            emit.call_void(reader, *POINTERS, _COUNTERS, _SITE, reads, _ADDRESS, _GIVEN)
        staged = field(emit, POINTERS[0], WORKER, "staged")
        emit.store(emit.load(merged, everything, 64), staged, 64)
        counters = emit.at(_COUNTERS, GENERIC_COUNTERS["shared"])
        emit.call_void(writer, *POINTERS, counters, _SITE, _MASK, _TARGET)
        emit.give()
        emit.finish()
    return name


def _copy_reader(unit: Unit, size: int, operation: traces.Operation | None) -> str:
    """Write the function that reads what lanes copy into the worker's ``merged`` area."""
    name = f"copy_from_{size}" + _suffix(operation)
    if name in unit:
        return name
    some = _copy_bytes(unit, size)
    emit = Emitter(unit, name, "void", (*PARAMETERS, _GIVEN))
    whole = emit.and_(emit.mask_bits(emit.compare("uge", _GIVEN, size)), _MASK)
    part = emit.and_(_MASK, emit.not_(whole))
    with emit.when(emit.compare("ne", part, 0)):
        emit.call_void(some, *POINTERS, _COUNTERS, _SITE, part, _ADDRESS, _GIVEN)
    access = in_bounds(Access(emit, "global", size, operation, mask=whole))
    counted = replace(access, mask=emit.or_(access.mask, part))
    count_request(counted)
    merged = field(emit, POINTERS[0], WORKER, "merged")
    first, run = _begin(access)
    is_run = emit.binary("and", emit.compare("eq", access.mask, -1), access.agrees(run))
    with _returns(emit, is_run):
        count_run(access, first)
        emit.store(emit.load(_pointer(emit, access, run), f"<{4 * size} x i64>", size), merged, 64)
        emit.give()
    count_scattered(counted)
    table = lane_pointers(access)
    with emit.each_bit(access.mask) as lane:
        place = emit.cast("inttoptr", emit.load(emit.index(table, "i64", lane), "i64"), "ptr")
        emit.store(emit.load(place, f"i{8 * size}", size), emit.index(merged, f"i{8 * size}", lane), size)
    emit.give()
    emit.finish()
    return name


def _copy_bytes(unit: Unit, size: int) -> str:
    """Write the function for lanes that read some of their bytes: each byte by itself, the last may be the last."""
    name, one = f"copy_bytes_{size}", plain_loader(unit, 1)
    emit = Emitter(unit, name, "void", (*PARAMETERS, _GIVEN))
    merged = field(emit, POINTERS[0], WORKER, "merged")
    nowhere = field(emit, POINTERS[0], WORKER, "trash")
    misaligned = emit.and_(emit.mask_bits(emit.compare("ne", emit.and_(_ADDRESS, size - 1), 0)), _MASK)
    with emit.when(emit.compare("ne", misaligned, 0)):
        lane = emit.first_lane(misaligned)
        address = emit.op(f"extractelement {_ADDRESS.typed}, {lane.typed}", "i64")
        note_fault(emit, POINTERS, Fault(integer("i32", FAULTS["misaligned"]), _SITE, lane, address))
    with emit.count_up(integer("i64", size)) as number:
        wanted = emit.compare("ugt", _GIVEN, emit.splat(emit.resize(number, "i32")))
        mask = emit.and_(emit.mask_bits(wanted), _MASK)
        address = emit.add(_ADDRESS, emit.splat(number))
        with emit.when(emit.compare("ne", mask, 0)):
            found = emit.call(one, "ptr", *POINTERS, nowhere, _SITE, mask, address)
            with emit.each_bit(mask) as lane:
                own = emit.cast("zext", lane, "i64")
                byte = emit.load(emit.at(found, own), "i8")
                emit.store(byte, emit.at(merged, emit.add(emit.mul(own, size), number)))
    forget_window(emit)  # it was for single bytes
    emit.give()
    emit.finish()
    return name


def copy(o: Operation, number: int, counters: Value, operation: traces.Operation | None) -> None:
    """Write a copy from global to shared memory; with a predicate it reads nothing where that holds."""
    emit, (target, source, _, *given) = o.emit, o.ins.operands
    assert isinstance(target, Address)
    assert isinstance(source, Address)
    size = o.ins.access_bytes
    read = integer(vector("i32"), size)
    if given and isinstance(given[0], Register) and given[0].type == "pred":
        read = emit.select(o.block.source(given[0], "pred"), integer(vector("i32"), 0), read)
    elif given:
        read = o.block.source(given[0], "u32")
    pointers = (o.block.pointers.worker, o.block.pointers.warp)
    places = (address_of(o, source), in_own_shared(o, address_of(o, target)))
    arguments = (counters, integer("i32", number), o.block.executing, *places, read)
    emit.call_void(copier(emit.unit, size, operation), *pointers, *arguments)


def store_word(o: Operation, number: int, counters: Value, what: tuple[Value, Value, traces.Operation | None]) -> None:
    """Write a store of 32 bits by an instruction that computes them: what is (words, lanes that store, event)."""
    words, mask, operation = what
    target = next(each for each in o.ins.operands if isinstance(each, Address))
    o.emit.store(words, field(o.emit, o.block.pointers.worker, WORKER, "staged"), 64)
    name = storer(o.emit.unit, space_of(o, target), 4, operation)
    pointers = (o.block.pointers.worker, o.block.pointers.warp)
    # Such instructions read 32 bits of an address: a generic pointer to shared memory is its window and an offset.
    address = o.emit.and_(address_of(o, target), (1 << 32) - 1)
    o.emit.call_void(name, *pointers, counters, integer("i32", number), mask, address)


ACCESSES = {
    "cp.async": copy, "ldmatrix": load_matrices, "stmatrix": store_matrices, "ld": load, "ldu": load, "st": store,
    "atom": update, "red": update,
}  # fmt: skip
