"""Control-flow graph of a function: basic blocks and where control goes from each.

Blocks also end at barriers, so that a warp that waits always stands between two blocks.
"""

from dataclasses import dataclass
from functools import cached_property

from kerncast.errors import PTXSyntaxError, UnsupportedError
from kerncast.ptx.dominance import DominatorTree, dominators, post_dominators
from kerncast.ptx.loops import LoopNest, find_loops
from kerncast.ptx.module import Function, Instruction, Label
from kerncast.ptx.order import Order, arrange

_LEAVES = {"ret", "exit", "trap"}


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions [start, stop) that always run one after the other."""

    start: int
    stop: int
    successors: tuple[int, ...]
    """of a branch the targets come first, then the fall-through; ``len(blocks)`` is the exit"""


@dataclass(frozen=True)  # no slots: what is derived from the edges is computed once and kept
class ControlFlowGraph:
    """Blocks in the order of the text, and the order in which a warp runs them."""

    blocks: tuple[BasicBlock, ...]
    order: Order

    @property
    def exit(self) -> int:
        """Index of the virtual block where every thread ends."""
        return len(self.blocks)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Instructions of each block."""
        return tuple(block.stop - block.start for block in self.blocks)

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """The edges, per block."""
        return tuple(block.successors for block in self.blocks)

    @cached_property
    def dominators(self) -> DominatorTree:
        """Which blocks stand on every path from the start to a block."""
        return dominators(self.successors)

    @cached_property
    def post_dominators(self) -> DominatorTree:
        """Which blocks stand on every path from a block to the exit."""
        return post_dominators(self.successors)

    @cached_property
    def loops(self) -> LoopNest:
        """The natural loops."""
        return find_loops(self.successors, self.dominators)


def build_cfg(function: Function) -> ControlFlowGraph:
    """Return the control-flow graph; raises PTXSyntaxError for a branch to nowhere."""
    code = function.instructions
    starts = {0, *function.labels.values()} | {i + 1 for i, instruction in enumerate(code) if instruction.ends_block}
    bounds = [*sorted(start for start in starts if start < len(code)), len(code)]
    block_at = {start: number for number, start in enumerate(bounds)}
    blocks = []
    for number in range(len(bounds) - 1):
        start, stop = bounds[number], bounds[number + 1]
        last = code[stop - 1]
        names = _target_names(last, function)
        for name in names:
            if name not in function.labels:
                raise PTXSyntaxError(f"branch to unknown label {name}", where=last.where or function.name)
        successors = [block_at[function.labels[name]] for name in names]
        if last.root in _LEAVES:
            successors.append(len(bounds) - 1)
        if last.root not in _LEAVES | {"bra", "brx"} or last.guard is not None:
            successors.append(number + 1)
        blocks.append(BasicBlock(start, stop, tuple(successors)))
    return ControlFlowGraph(tuple(blocks), arrange([block.successors for block in blocks]))


def _target_names(last: Instruction, function: Function) -> tuple[str, ...]:
    target = last.operands[-1] if last.operands else None
    if last.root not in {"bra", "brx"}:
        return ()
    if not isinstance(target, Label) or len(last.operands) != (1 if last.root == "bra" else 2):
        raise PTXSyntaxError("a branch has no label", where=last.where or function.name)
    if last.root == "bra":
        return (target.name,)
    if last.guard is not None:
        raise UnsupportedError("brx.idx with a guard is not supported", where=last.where or function.name)
    if not function.tables.get(target.name):
        raise PTXSyntaxError(f"branch table {target.name} is missing", where=last.where or function.name)
    return function.tables[target.name]
