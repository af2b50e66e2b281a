"""Writes events into a worker's log (see ``kerncast.recording``).

Lines of global and local memory are recorded wherever a recording is made; basic blocks, shared memory and contention
only where it is made in detail, because a simulation of caches has no use for them.
"""

from kerncast.execute.native.access import POINTERS
from kerncast.execute.native.frames import WORKER, field, get
from kerncast.execute.native.ir import Emitter, Unit, Value, integer
from kerncast.recording import INSTRUCTION_SHIFT, LAST_SHIFT, MOST_INSTRUCTIONS, OPERATION_SHIFT, Operation


def tag(emit: Emitter, operation: Operation, number: Value) -> Value:
    """Return the bits of an event that tell what is done, and by which instruction; ``number`` is 32 bits wide."""
    return emit.or_(_numbered(emit, number), int(operation) << OPERATION_SHIFT)


def record(emit: Emitter, event: Value) -> None:
    """Append an event to the log, if that has room."""
    counter = field(emit, POINTERS[0], WORKER, "event_count")
    count = emit.load(counter, "i64")
    with emit.when(emit.compare("ult", count, get(emit, POINTERS[0], WORKER, "event_limit"))):
        emit.store(event, emit.index(get(emit, POINTERS[0], WORKER, "events"), "i64", count))
        emit.store(emit.add(count, 1), counter)


def record_detail(emit: Emitter, operation: Operation, number: Value, content: Value) -> None:
    """Append an event without a line, where the recording is in detail; ``content`` takes the place of the line."""
    last = 0 if operation is Operation.CONTENTION else 1 << LAST_SHIFT  # the lines of its request follow
    with emit.when(emit.compare("ne", get(emit, POINTERS[0], WORKER, "in_detail"), 0)):
        what = integer("i64", operation << OPERATION_SHIFT | last)
        emit.unit.borrow("record_detail", _define_record)
        emit.call_void("record_detail", POINTERS[0], what, number, emit.resize(content, "i64"))


def _define_record(unit: Unit) -> None:
    what, number, content = Value("%what", "i64"), Value("%number", "i32"), Value("%content", "i64")
    emit = Emitter(unit, "record_detail", "void", [POINTERS[0], what, number, content])
    record(emit, emit.or_(emit.or_(what, content), _numbered(emit, number)))
    emit.give()
    emit.finish(public=True)


def _numbered(emit: Emitter, number: Value) -> Value:
    known = emit.intrinsic("umin", number, integer("i32", MOST_INSTRUCTIONS - 1))
    return emit.shl(emit.cast("zext", known, "i64"), INSTRUCTION_SHIFT)
