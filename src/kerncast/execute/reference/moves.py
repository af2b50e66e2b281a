"""Arithmetic on operands of threads, moves between registers, and addresses between state spaces."""

import numpy as np

from kerncast.execute.arena import GLOBAL_BASE, LOCAL_WINDOW, SHARED_WINDOW, window_of
from kerncast.execute.dtypes import DTYPES
from kerncast.execute.reference.arithmetic import ARITHMETIC, AnyArray
from kerncast.execute.reference.compare import COMBINATIONS
from kerncast.execute.reference.threads import Index, Threads
from kerncast.ptx.module import TYPE_BITS, Instruction, Vector


def compute(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run an arithmetic instruction."""
    if ins.root == "setp":
        _write_predicate(threads, ins, active)
        return

    def source(position: int, type_name: str | None = None) -> AnyArray:
        return threads.value(ins.operands[1 + position], type_name or ins.type, active)

    threads.write(ins.operands[0], ARITHMETIC[ins.root](ins, source), active)


def _write_predicate(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run setp: one or two results, which may be combined with a third predicate."""
    combine = next((m for m in ins.modifiers if m in COMBINATIONS), None)
    results = len(ins.operands) - 2 - (combine is not None)
    operands = ins.operands[results:]

    def source(position: int, type_name: str | None = None) -> AnyArray:
        return threads.value(operands[position], type_name or ins.type, active)

    first = ARITHMETIC["setp"](ins, source)
    # Of packed halves each gives one result; else the second result is the opposite of the first.
    both = [first & 1 != 0, first & 2 != 0] if ins.type.endswith("x2") else [first, ~first]
    if combine is not None:
        both = [COMBINATIONS[combine](result, source(2, "pred")) for result in both]
    for target, result in zip(ins.operands[:results], both, strict=False):
        threads.write(target, result, active)


def move(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run mov, which may pack a vector into a register or take it apart."""
    target, source = ins.operands
    width = TYPE_BITS[ins.type]
    if ins.type == "b128":
        _move_wide(threads, ins, active)
    elif isinstance(source, Vector):
        each = width // len(source.elements)
        packed = np.zeros(len(active), np.uint64)
        for position, element in enumerate(source.elements):
            part = threads.value(element, f"b{each}", active).astype(np.uint64)
            packed |= part << np.uint64(position * each)
        threads.write(target, packed.astype(f"u{width // 8}"), active)
    elif isinstance(target, Vector):
        each = width // len(target.elements)
        whole = threads.values(source, f"b{width}", active).astype(np.uint64)
        for position, element in enumerate(target.elements):
            part = whole >> np.uint64(position * each)
            threads.write(element, part.astype(f"u{each // 8}"), active)
    else:
        threads.write(target, threads.value(source, ins.type, active), active)


def _move_wide(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run mov.b128, whose values are pairs of words."""
    target, source = ins.operands
    whole = np.zeros(len(active), DTYPES["b128"])
    if isinstance(source, Vector):
        for name, element in zip(whole.dtype.names, source.elements, strict=True):
            whole[name] = threads.value(element, "b64", active)
    else:
        whole[:] = threads.value(source, "b128", active)
    if isinstance(target, Vector):
        for name, element in zip(whole.dtype.names, target.elements, strict=True):
            threads.write(element, whole[name], active)
    else:
        threads.write(target, whole, active)


def convert_address(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run cvta: between an address in a state space and a generic one."""
    base = np.uint64({"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(ins.space, 0))
    address = threads.value(ins.operands[1], "u64", active)
    threads.write(ins.operands[0], address - base if "to" in ins.modifiers else address + base, active)


def is_space(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run isspacep."""
    address = threads.values(ins.operands[1], "u64", active)
    kinds = window_of(address)
    wanted = {"shared": 1, "local": 2, "param": 3}.get(ins.space, 0)
    result = (kinds == wanted) & ((wanted != 0) | (address >= np.uint64(GLOBAL_BASE)))
    threads.write(ins.operands[0], result, active)
