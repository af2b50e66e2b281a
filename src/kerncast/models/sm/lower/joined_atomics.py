"""Atomics of a warp on one address of shared memory that the compiler makes one, from ``joined_atomics.csv``.

An address is known to be the warp's own where it depends on no thread's number. What is joined, and how, was read off
the machine code of ptxas 12.9; that NVCC joins atomics is public, too (NVIDIA, "CUDA Pro Tip: Optimized Filtering with
Warp-Aggregated Atomics", note of 2017). Fails when: the compiler knows more than these rules, or is another one.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import kerncast
from kerncast.ptx import (
    Address,
    Function,
    Immediate,
    Instruction,
    Operand,
    Register,
    Special,
    Trait,
    Vector,
    results_of,
    sources_of,
)

_FILE = Path(kerncast.__path__[0]) / "data" / "instructions" / "joined_atomics.csv"
_JOINED = {"add", "min", "max", "and", "or", "xor"}
_TYPES = {"s32", "u32", "b32", "s64", "u64", "b64"}
_WIDE = {"s64", "u64", "b64"}
#: Special registers that have one value for a whole block.
_OF_THE_BLOCK = ("%ctaid", "%nctaid", "%ntid", "%gridid", "%cluster")


@dataclass(frozen=True, slots=True)
class Joining:
    """Way in which the atomics of a warp's lanes become one."""

    by_all_lanes: bool
    """whether it needs all 32 lanes to take part; with fewer, each lane makes its own atomic"""
    opcodes: tuple[str, ...]
    """machine instructions that it takes besides the atomic"""


def joined_atomics(function: Function, architecture: int) -> dict[int, Joining]:
    """Return the atomics on shared memory that are joined on an architecture such as 86, by number of instruction."""
    code = function.instructions
    numbers = [n for n, ins in enumerate(code) if ins.is_update and ins.space == "shared"]
    if not numbers:
        return {}
    read = {register.name for ins in code for register in sources_of(ins)}
    varying = varying_registers(function)
    found = {}
    for number in numbers:
        is_read = any(register.name in read for register in results_of(code[number]))
        for case in _cases(code[number], varying, is_read=is_read):
            joining = _joining(case, architecture)
            if joining is not None:
                found[number] = joining
                break
    return found


def varying_registers(function: Function) -> frozenset[str]:
    """Return the registers that may differ between the lanes of a warp.

    One with several definitions may where any branch depends on such a register: lanes come from different ones.
    """
    code = function.instructions
    definitions: dict[str, int] = {}
    for ins in code:
        for register in results_of(ins):
            definitions[register.name] = definitions.get(register.name, 0) + 1
    varying: set[str] = set()
    while True:
        before = len(varying)
        diverges = any(ins.is_jump and _varies(ins, varying) for ins in code)
        for ins in code:
            is_own = ins.opcode.has(Trait.LANE) or _is_private_load(ins) or _varies(ins, varying)
            varying |= {r.name for r in results_of(ins) if is_own or (diverges and definitions[r.name] > 1)}
        if len(varying) == before:
            return frozenset(varying)


def _is_private_load(ins: Instruction) -> bool:
    """Tell whether each lane loads from memory of its own, or from where that cannot be told."""
    return ins.root == "ld" and ins.space in {"local", ""}


def _varies(ins: Instruction, varying: set[str]) -> bool:
    return any(r.name in varying for r in sources_of(ins)) or any(_is_of_a_thread(o) for o in ins.operands)


def _is_of_a_thread(operand: Operand) -> bool:
    if isinstance(operand, Vector):
        return any(map(_is_of_a_thread, operand.elements))
    return isinstance(operand, Special) and not operand.name.startswith(_OF_THE_BLOCK)


def _cases(ins: Instruction, varying: frozenset[str], *, is_read: bool) -> list[str]:
    """Return which ways of joining an atomic allows, the best first."""
    operation = next((m for m in ins.modifiers if m in _JOINED), "")
    address = next((o for o in ins.operands if isinstance(o, Address)), None)
    if not operation or ins.type not in _TYPES or address is None:
        return []
    value = ins.operands[-1]
    adds, base = operation == "add", address.base
    is_wide, is_one = ins.type in _WIDE, isinstance(value, Immediate) and value.value == 1
    cases = ["increment"] if adds and is_one and not (is_read or is_wide) else []
    if isinstance(base, Register) and base.name in varying:
        return cases
    if adds and not (isinstance(value, Register) and value.name in varying):
        return [*cases, "count.read" if is_read else "count"]
    if is_wide or (is_read and not adds):
        return []
    return ["scan" if is_read else "reduce"]


def _joining(case: str, architecture: int) -> Joining | None:
    """Return the newest way that an architecture has; None where it has none."""
    rows = [row for since, row in _table().get(case, ()) if since <= architecture]
    return rows[-1] if rows else None


@cache
def _table() -> dict[str, list[tuple[int, Joining]]]:
    """Return by case, oldest first, since which architecture atomics are joined how."""
    found: dict[str, list[tuple[int, Joining]]] = {}
    with _FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            joining = Joining(row["lanes"] == "all", tuple(row["opcodes"].split()))
            found.setdefault(row["case"], []).append((int(row["from"]), joining))
    return {case: sorted(rows, key=lambda row: row[0]) for case, rows in found.items()}
