"""Moves between registers, and addresses between state spaces."""

from kerncast.execute.arena import GLOBAL_BASE, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from kerncast.execute.native.ir import Emitter, Value, integer
from kerncast.execute.native.lowering import I64, Operation
from kerncast.ptx.module import Vector

_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW}


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
    o.block.write(o.ins.operands[0], o.emit.sub(address, base) if o.has("to") else o.emit.add(address, base))


def is_space(o: Operation) -> None:
    """Write isspacep."""
    address = o.source(0, "u64")
    o.block.write(o.ins.operands[0], lies_in(o.emit, address, o.ins.space))


def lies_in(emit: Emitter, address: Value, space: str) -> Value:
    """Return which generic addresses point into a state space; ``const`` is a part of global memory."""
    if space not in _WINDOWS:
        return emit.compare("uge", address, GLOBAL_BASE)
    inside = emit.sub(address, integer(I64, _WINDOWS[space]))
    return emit.compare("ult", inside, WINDOW_BYTES)
