"""Loads and stores of a warp, through functions that are written once per state space and size.

A load returns the address of its lanes' data, one after the other: where lanes read neighbouring places that is the
memory itself, else a copy. A store finds the data in the worker's ``staged`` area.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate

from kerncast.execute.arena import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from kerncast.execute.native.access import (
    COUNTERS,
    PARAMETERS,
    POINTERS,
    Access,
    Fault,
    checked,
    lane_pointers,
    note_fault,
)
from kerncast.execute.native.banks import count_conflict_free, count_wavefronts
from kerncast.execute.native.frames import FAULTS, SPACES, WORKER, field
from kerncast.execute.native.ir import LANES, Emitter, Unit, Value, each_lane, integer
from kerncast.execute.native.lines import count_local, count_run, count_scattered
from kerncast.execute.native.lowering import I64
from kerncast.execute.native.movement import lies_in
from kerncast.recording import Operation

_COUNTERS, _SITE, _MASK, _ADDRESS = PARAMETERS[2:]
_WINDOWS = {"global": 0, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW, "call": 0}
#: Of neighbouring lanes; what lies before and behind each memory has room for so many bytes of each lane.
_MOST_BYTES_AT_ONCE = 16
_LOADS_AND_STORES = {
    "local": (Operation.LOCAL_LOAD, Operation.LOCAL_STORE),
    "shared": (Operation.SHARED_LOAD, Operation.SHARED_STORE),
}
Lanes = tuple[str, Value]
"""a state space and the lanes that point to it"""
#: Where the counters of each state space begin, for an instruction with a generic address.
_ENDS = list(accumulate((8 * len(names) for names in COUNTERS.values()), initial=0))
GENERIC_COUNTERS = dict(zip(COUNTERS, _ENDS[:-1], strict=True)) | dict.fromkeys(("param", "call"), _ENDS[-1])


def loader(unit: Unit, space: str, size: int, operation: Operation | None) -> str:
    """Return the name of the function that loads ``size`` bytes per lane, and write it if need be."""
    name = f"load_{space}_{size}" + _suffix(operation)
    if name not in unit:
        if space == "generic":
            _define_merged_load(unit, name, size, _spaces, operation)
        elif space == "argument":
            _define_merged_load(unit, name, size, _parameter_spaces, operation)
        else:
            _define_load(unit, name, space, size, operation)
    return name


def storer(unit: Unit, space: str, size: int, operation: Operation | None) -> str:
    """Return the name of the function that stores ``size`` bytes per lane, and write it if need be."""
    name = f"store_{space}_{size}"
    if name not in unit:
        if space == "generic":

            def inner(part: str) -> str:
                return storer(unit, part, size, operation)

            define_generic(unit, name, inner)
        elif space == "param":
            define_refusal(unit, name, space, "constant")
        else:
            _define_store(unit, name, space, size, operation)
    return name


def _define_load(unit: Unit, name: str, space: str, size: int, operation: Operation | None) -> None:
    emit = Emitter(unit, name, "ptr", PARAMETERS)
    staged = field(emit, POINTERS[0], WORKER, "staged")
    access = checked(Access(emit, space, size, _in_space(operation, space)), staged)
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


def _define_store(unit: Unit, name: str, space: str, size: int, operation: Operation | None) -> None:
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


def _in_space(operation: Operation | None, space: str) -> Operation | None:
    """Return what is recorded of an access, given what it would be in global memory."""
    if operation is None or space not in _LOADS_AND_STORES:
        return operation
    return _LOADS_AND_STORES[space][operation is Operation.STORE]


def _suffix(operation: Operation | None) -> str:
    return "" if operation in {None, Operation.LOAD} else f"_{operation.name.lower()}"


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


def define_generic(unit: Unit, name: str, inner: Callable[[str], str]) -> None:
    """Write an access by generic addresses, without a result: one call for each state space that lanes point to."""
    emit = Emitter(unit, name, "void", PARAMETERS)
    for space, mask in _spaces(emit):
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
    unit: Unit, name: str, size: int, spaces_of: Callable[[Emitter], "Iterator[Lanes]"], operation: Operation | None
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


def _spaces(emit: Emitter) -> "Iterator[Lanes]":
    """Give each state space with the lanes that point to it; a bad pointer counts as one to global memory."""
    rest = _MASK
    found = []
    for space in ("shared", "local", "param"):
        mask = emit.and_(emit.mask_bits(lies_in(emit, _ADDRESS, space)), _MASK)
        rest = emit.and_(rest, emit.not_(mask))
        found.append((space, mask))
    yield from [("global", rest), *found]


def _arguments(emit: Emitter, space: str, mask: Value) -> list[Value]:
    counters = emit.at(_COUNTERS, GENERIC_COUNTERS[space])
    address = emit.sub(_ADDRESS, integer(I64, _WINDOWS[space])) if _WINDOWS[space] else _ADDRESS
    return [*POINTERS, counters, _SITE, mask, address]
