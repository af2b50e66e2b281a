"""Calls of printf: generated code calls Python, which finds format and arguments in the memory of the threads."""

import ctypes
from typing import Any

import numpy as np

from kerncast.execute.console import Console
from kerncast.execute.layout import Program
from kerncast.execute.native.block import BlockCode
from kerncast.execute.native.frames import WARP, WORKER, get, offset_of
from kerncast.execute.native.ir import LANES, integer

#: What generated code calls: with a warp, the lanes that print as bits, and the number of the instruction.
Printer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)


def call_printer(code: BlockCode, position: int) -> None:
    """Write a call of vprintf."""
    emit, pointers = code.emit, code.pointers
    with emit.when(emit.compare("ne", code.executing, 0)):
        printer = get(emit, pointers.worker, WORKER, "printer")
        arguments = (pointers.warp, code.executing, integer("i32", position))
        emit.do(f"call void {printer.text}({', '.join(a.typed for a in arguments)})")


def printer_of(program: Program, console: Console) -> Any:
    """Return the function that generated code calls; it has to be kept as long as that may run."""

    def print_lanes(warp: int, lanes: int, position: int) -> None:
        start = ctypes.c_uint64.from_address(warp + offset_of(WARP, "private")).value
        call, size = program.function.instructions[position], program.private_bytes
        for lane in range(LANES):
            if lanes >> lane & 1:
                memory = (ctypes.c_uint8 * size).from_address(start + lane * size)
                console.print(call, np.ctypeslib.as_array(memory))

    return Printer(print_lanes)


def prints(program: Program) -> bool:
    """Return whether a kernel can print."""
    return any("vprintf" in instruction.modifiers for instruction in program.function.instructions)
