"""Atomic updates of memory: the lanes of a warp take turns.

Blocks that run at the same time on two cores never share an atomic: a kernel with atomics on global memory runs on one
core (see engine.py), so that results do not depend on chance.
"""

from dataclasses import dataclass

from kerncast.execute.native import halves
from kerncast.execute.native.access import PARAMETERS, POINTERS, Access, checked, lane_pointers
from kerncast.execute.native.banks import count_global_update, count_shared_update
from kerncast.execute.native.block import BlockCode
from kerncast.execute.native.frames import WORKER, field
from kerncast.execute.native.ir import Emitter, Unit, Value, integer
from kerncast.execute.native.lines import count_scattered
from kerncast.execute.native.transfer import define_generic, define_refusal
from kerncast.ptx.module import TYPE_BITS
from kerncast.recording import Operation

_OPERATIONS = ("add", "min", "max", "inc", "dec", "exch", "cas", "and", "or", "xor")
_FLOATS = {"f32": "float", "f64": "double"}
_HALVES = {"f16", "bf16", "f16x2", "bf16x2"}
_SECOND_BYTES = 512  # where in the worker's staged area the second operand of cas lies


@dataclass(frozen=True, slots=True)
class Update:
    """What an atomic does to one place."""

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


def updater(unit: Unit, update: Update, space: str, operation: Operation | None) -> str:
    """Return the name of the function for an update, and write it if need be.

    It takes its operands from the worker's ``staged`` area, and leaves the old values in ``merged``.
    """
    name = f"atomic_{update.operation}_{update.type}_{update.count}_{space}"
    name += "_red" if operation is Operation.REDUCTION else ""
    if name in unit:
        return name
    if space == "generic":
        define_generic(unit, name, lambda part: updater(unit, update, part, operation))
    elif space not in {"global", "shared"}:
        define_refusal(unit, name, "param" if space == "argument" else space, "atomic")
    else:
        _define(unit, name, update, space, operation)
    return name


def _define(unit: Unit, name: str, update: Update, space: str, operation: Operation | None) -> None:
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
    if operation in {"min", "max"}:
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
    kind = halves.kind_of(update.type)
    a, b = emit.splat(old), emit.splat(given)
    parts = (
        [(a, b)]
        if not update.type.endswith("x2")
        else list(zip(halves.unpack(emit, a), halves.unpack(emit, b), strict=True))
    )
    sums = [
        halves.from_f64(emit, emit.binary("fadd", *(halves.to_f64(emit, x, kind) for x in pair)), kind)
        for pair in parts
    ]
    total = sums[0] if len(sums) == 1 else halves.pack(emit, *sums)
    return emit.op(f"extractelement {total.typed}, i64 0", update.kind)


def stage(block: BlockCode, values: list[Value]) -> None:
    """Write the operands of an update where its function finds them."""
    emit = block.emit
    staged = field(emit, block.pointers.worker, WORKER, "staged")
    for number, value in enumerate(values):
        emit.store(value, emit.at(staged, number * _SECOND_BYTES), 64)
