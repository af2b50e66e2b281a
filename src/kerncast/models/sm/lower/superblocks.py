"""Which basic blocks the compiler makes one straight line of machine code, in which it orders instructions freely.

A block that a branch skips and that becomes predicated is issued with the block before it, and what follows both with
them. ptxas writes four times ``if (inside) held[i] = in[i]`` as four loads, then four stores.
"""

from dataclasses import dataclass

from kerncast.execute.machine.predication import predicated_blocks
from kerncast.ptx.cfg import ControlFlowGraph
from kerncast.ptx.dominance import reversed_graph
from kerncast.ptx.module import Function


@dataclass(frozen=True, slots=True)
class Member:
    """A basic block in a straight line."""

    block: int
    guard: str = ""
    """register of the predicate that decides in which threads it runs; empty: it runs wherever the first one does"""


Superblock = tuple[Member, ...]


def superblocks(function: Function, cfg: ControlFlowGraph) -> list[Superblock]:
    """Return every basic block once, each with those that are issued with it, in the order of the text.

    Control enters at the first one only; the last one alone leads back, waits at a barrier or branches.
    """
    growing = _Growing(function, cfg)
    found: list[Superblock] = []
    taken: set[int] = set()
    for block in range(len(cfg.blocks)):
        if block not in taken:
            found.append(growing.from_block(block))
            taken.update(member.block for member in found[-1])
    return found


class _Growing:
    """Adds block after block to a straight line."""

    def __init__(self, function: Function, cfg: ControlFlowGraph) -> None:
        self._code, self._cfg = function.instructions, cfg
        self._before = reversed_graph([*cfg.successors, ()])
        self._predicated = predicated_blocks(function, cfg)

    def from_block(self, first: int) -> Superblock:
        """Return the superblock that starts with a block."""
        members = [Member(first)]
        while added := self._next(members):
            members += added
        return tuple(members)

    def _next(self, members: list[Member]) -> list[Member]:
        """Return what follows: a predicated block, or the one that all threads run after the last such one."""
        tail = next(member.block for member in reversed(members) if not member.guard)
        last = members[-1].block
        branch = self._code[self._cfg.blocks[tail].stop - 1]
        if branch.root in {"bar", "barrier"}:
            return []
        following = set(self._cfg.successors[tail])
        if last == tail and branch.guard is not None:
            child = next((each for each in following if self._predicated.get(each) == tail), tail)
            is_inner = self._follows(tail, child) and child < max(following)
            return [Member(child, branch.guard.name)] if is_inner else []
        # Behind a predicated block: where both ways meet; behind any other: its only successor.
        meeting = self._cfg.successors[last]
        is_inner = len(meeting) == 1 and self._follows(last, meeting[0])
        return [Member(meeting[0])] if is_inner and set(self._before[meeting[0]]) == {tail, last} else []

    def _follows(self, block: int, after: int) -> bool:
        """Return whether a warp runs a block right after another, whatever other blocks some of its threads are at."""
        place_of = self._cfg.order.place_of
        return block < after < self._cfg.exit and place_of[after] == place_of[block] + 1
