"""Writes the memory instructions of a block: ld, ldu, st, atom, red."""

from kerncast.execute.native.frames import WORKER, field, get
from kerncast.execute.native.ir import LANES, Value, element, integer, vector
from kerncast.execute.native.lowering import I64, Operation
from kerncast.execute.native.memory import transfer
from kerncast.ptx import TYPE_BITS, Address, Operand, Symbol, Vector
from kerncast.traces import recording


def space_of(o: Operation, operand: Address) -> str:
    """Return the state space that an instruction accesses; of a parameter, whose it is."""
    if o.ins.space != "param":
        return o.ins.space
    is_own = isinstance(operand.base, Symbol) and operand.base.name not in o.block.program.parameters
    return "call" if is_own else "argument"


def load(o: Operation, number: int, counters: Value, operation: recording.Operation | None) -> None:
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
    address = _address(o, source)
    name = transfer.loader(o.emit.unit, space, size * len(elements), operation)
    pointers = (o.block.pointers.worker, o.block.pointers.warp)
    found = o.emit.call(name, "ptr", *pointers, counters, integer("i32", number), o.block.executing, address)
    for each, value in zip(elements, _taken_apart(o, found, size, len(elements)), strict=True):
        o.block.write(each, value, signed=o.is_signed)


def store(o: Operation, number: int, counters: Value, operation: recording.Operation | None) -> None:
    """Write a store."""
    target, source = o.ins.operands
    assert isinstance(target, Address)
    elements = source.elements if isinstance(source, Vector) else (source,)
    size = TYPE_BITS[o.type] // 8
    address = _address(o, target)
    values = [o.block.source(element, f"b{8 * size}") for element in elements]
    staged = field(o.emit, o.block.pointers.worker, WORKER, "staged")
    o.emit.store(_put_together(o, values), staged, 64)
    space = space_of(o, target)
    name = transfer.storer(o.emit.unit, "call" if space == "argument" else space, size * len(elements), operation)
    pointers = (o.block.pointers.worker, o.block.pointers.warp)
    o.emit.call_void(name, *pointers, counters, integer("i32", number), o.block.executing, address)


def update(o: Operation, number: int, counters: Value, operation: recording.Operation | None) -> None:
    """Write an atomic or a reduction."""
    position = 1 if o.ins.root == "atom" else 0
    target = o.ins.operands[position]
    assert isinstance(target, Address)
    lists = [operand.elements if isinstance(operand, Vector) else (operand,) for operand in o.ins.operands]
    what = transfer.update_of(o.ins.modifiers, o.type, len(lists[-1]))
    address = _address(o, target)
    kind = f"b{TYPE_BITS[o.type]}"
    given = [[o.block.source(element, kind) for element in elements] for elements in lists[position + 1 :]]
    transfer.stage(o.block, [_put_together(o, values) for values in given])
    name = transfer.updater(o.emit.unit, what, space_of(o, target), operation)
    pointers = (o.block.pointers.worker, o.block.pointers.warp)
    o.emit.call_void(name, *pointers, counters, integer("i32", number), o.block.executing, address)
    if position:
        merged = field(o.emit, o.block.pointers.worker, WORKER, "merged")
        found = _taken_apart(o, merged, TYPE_BITS[o.type] // 8, what.count)
        for each, value in zip(lists[0], found, strict=True):
            o.block.write(each, value, signed=o.is_signed)


def _address(o: Operation, operand: Address) -> Value:
    """Return the addresses of a memory operand, in the state space of the instruction."""
    if operand.base is None:
        return integer(I64, operand.offset)
    base = o.block.source(operand.base, "u64")
    return o.emit.add(base, operand.offset) if operand.offset else base


def _load_parameter(o: Operation, place: int, elements: tuple[Operand, ...]) -> None:
    """Write the load of a kernel parameter, which is the same for all threads."""
    parameters = get(o.emit, o.block.pointers.worker, WORKER, "parameters")
    size = TYPE_BITS[o.type] // 8
    for position, each in enumerate(elements):
        one = o.emit.load(o.emit.at(parameters, place + position * size), f"i{8 * size}", 1)
        o.block.write(each, o.emit.splat(one), signed=o.is_signed)


def _taken_apart(o: Operation, found: Value, size: int, count: int) -> list[Value]:
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


def _put_together(o: Operation, values: list[Value]) -> Value:
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


ACCESSES = {"ld": load, "ldu": load, "st": store, "atom": update, "red": update}
