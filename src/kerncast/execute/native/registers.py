"""Which virtual registers live from one basic block to the next, and where they lie in the frame of a warp.

Registers that live inside one block only stay in registers of the CPU.
Source of the liveness equations: Aho, Lam, Sethi, Ullman, "Compilers", 2nd ed., section 9.2.5.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kerncast.execute.native.frames import WARP
from kerncast.execute.native.jit import TooLargeError
from kerncast.ptx import TYPE_BITS, ControlFlowGraph, Function, kept_by, results_of, sources_of

_LINE_BYTES = 64
_WORK_LIMIT = 4 * 10**9  # bits looked at, which takes about a second


@dataclass(frozen=True, slots=True)
class RegisterPlan:
    """Where registers lie that live across blocks."""

    slots: Mapping[str, int]
    """register: offset in the frame of the warp, in bytes"""
    live_out: tuple[frozenset[str], ...]
    """per basic block the registers that it sets and that a later block may read"""
    start_bytes: int
    """the part of a frame that is set when a block of threads begins: its head and registers that may be read first"""
    frame_bytes: int


def plan_registers(function: Function, cfg: ControlFlowGraph) -> RegisterPlan:
    """Return where the registers of a function lie."""
    uses, defines = _uses_and_definitions(function, cfg)
    bit_of = {name: 1 << n for n, name in enumerate(sorted(set().union(*uses)))}
    live_out = _live_out(cfg, [_as_bits(u, bit_of) for u in uses], [_as_bits(d, bit_of) for d in defines])
    types = {r.name: r.type for i in function.instructions for r in (*results_of(i), *sources_of(i))}
    across = set(bit_of)
    at_start = live_out[0] if live_out else 0
    first = {n for n, bit in bit_of.items() if (at_start & bit and n not in defines[0]) or n in uses[0]}
    slots: dict[str, int] = {}
    position = start_bytes = -(-WARP.itemsize // _LINE_BYTES) * _LINE_BYTES
    for name in [*sorted(first), *sorted(across - first)]:
        slots[name] = position
        position += max(_LINE_BYTES, 4 * TYPE_BITS[types[name]])
        start_bytes = position if name in first else start_bytes
    later = (frozenset(n for n in d if bit_of.get(n, 0) & out) for d, out in zip(defines, live_out, strict=True))
    return RegisterPlan(slots, tuple(later), start_bytes, position)


def _as_bits(names: set[str], bit_of: Mapping[str, int]) -> int:
    bits = 0
    for name in names:
        bits |= bit_of.get(name, 0)
    return bits


def _live_out(cfg: ControlFlowGraph, uses: list[int], defines: list[int]) -> list[int]:
    """Return which registers a later block may read, per block, as bits: sets would take gigabytes in a giant one."""
    work = 0
    live_out = [0] * len(uses)
    live_in = [*uses, 0]  # nothing is read behind the exit
    backwards = sorted(range(len(uses)), key=cfg.order.place_of.__getitem__, reverse=True)
    changed = True
    while changed:
        changed = False
        work += sum(bits.bit_length() for bits in live_in) + len(uses)
        if work > _WORK_LIMIT:
            raise TooLargeError
        for number in backwards:
            out = 0
            for successor in cfg.blocks[number].successors:
                out |= live_in[successor]
            live_out[number] = out
            found = uses[number] | out & ~defines[number]
            changed |= found != live_in[number]
            live_in[number] = found
    return live_out


def _uses_and_definitions(function: Function, cfg: ControlFlowGraph) -> tuple[list[set[str]], list[set[str]]]:
    """Return per block the registers that are read before they are written there, and those that are written."""
    all_uses, all_defines = [], []
    for block in cfg.blocks:
        uses: set[str] = set()
        defines: set[str] = set()
        for ins in function.instructions[block.start : block.stop]:
            read = {r.name for r in sources_of(ins)}
            written = {r.name for r in results_of(ins)}
            uses |= (read | {r.name for r in kept_by(ins)}) - defines
            defines |= written
        all_uses.append(uses)
        all_defines.append(defines)
    return all_uses, all_defines
