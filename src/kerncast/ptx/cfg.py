"""Control-flow graph of a function: basic blocks, successors, immediate post-dominators.

Blocks also end at barriers, so that a warp that waits always stands between two blocks.
"""

from dataclasses import dataclass

from kerncast.errors import PTXSyntaxError, UnsupportedError
from kerncast.ptx.module import Function, Instruction, Label, Symbol


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions [start, stop) that always run one after the other."""

    start: int
    stop: int
    successors: tuple[int, ...]
    """of a branch the target comes first, then the fall-through; ``len(blocks)`` is the exit"""


@dataclass(frozen=True, slots=True)
class ControlFlowGraph:
    """Blocks in the order of the text."""

    blocks: tuple[BasicBlock, ...]
    post_dominators: tuple[int, ...]
    """per block the block where diverged threads meet again; ``len(blocks)`` is the exit"""

    @property
    def exit(self) -> int:
        """Index of the virtual block where every thread ends."""
        return len(self.blocks)


def build_cfg(function: Function) -> ControlFlowGraph:
    """Return the control-flow graph; raises PTXSyntaxError for a branch to nowhere."""
    code = function.instructions
    starts = {0} | {index for index in function.labels.values() if index < len(code)}
    starts |= {i + 1 for i, instruction in enumerate(code) if instruction.ends_block and i + 1 < len(code)}
    order = sorted(starts) if code else []
    block_at = {start: number for number, start in enumerate(order)}
    block_at[len(code)] = len(order)
    tables = {
        i.operands[0].name: i.operands[1:]
        for i in code
        if i.root == "branchtargets" and isinstance(i.operands[0], Label)
    }

    def resolve(name: str) -> int:
        if name not in function.labels:
            raise PTXSyntaxError(f"branch to unknown label {name}", where=function.name)
        return block_at[function.labels[name]]

    blocks = []
    for number, start in enumerate(order):
        stop = order[number + 1] if number + 1 < len(order) else len(code)
        last = code[stop - 1]
        targets = [resolve(name) for name in _target_names(last, tables)]
        if last.root in {"ret", "exit", "trap"}:
            targets = [len(order)]
        falls_through = last.root not in {"bra", "ret", "exit", "trap", "brx"} or last.guard is not None
        successors = targets + ([number + 1] if falls_through else [])
        blocks.append(BasicBlock(start, stop, tuple(successors)))
    return ControlFlowGraph(tuple(blocks), _post_dominators(blocks))


def _target_names(last: Instruction, tables: dict[str, tuple[object, ...]]) -> list[str]:
    if last.root == "bra":
        return [operand.name for operand in last.operands if isinstance(operand, Label | Symbol)]
    if last.root == "brx":
        if last.guard is not None:
            raise UnsupportedError("brx.idx with a guard", where=str(last.location))
        table = last.operands[-1]
        name = table.name if isinstance(table, Label | Symbol) else ""
        if name not in tables:
            raise PTXSyntaxError(f"branch table {name} is missing")
        return [target.name for target in tables[name] if isinstance(target, Label)]
    return []


def _post_dominators(blocks: list[BasicBlock]) -> tuple[int, ...]:
    """Iterate over the reversed graph until stable (Cooper, Harvey, Kennedy 2001)."""
    exit_block = len(blocks)
    predecessors: list[list[int]] = [[] for _ in range(exit_block + 1)]
    for number, block in enumerate(blocks):
        for successor in block.successors:
            predecessors[successor].append(number)
    order = _reverse_postorder(exit_block, predecessors)
    rank = {block: position for position, block in enumerate(order)}
    immediate = {exit_block: exit_block}

    def meet(a: int, b: int) -> int:
        while a != b:
            while rank[a] > rank[b]:
                a = immediate[a]
            while rank[b] > rank[a]:
                b = immediate[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [s for s in blocks[block].successors if s in immediate]
            new = known[0]
            for successor in known[1:]:
                new = meet(new, successor)
            if immediate.get(block) != new:
                immediate[block] = new
                changed = True
    # A block that cannot reach the exit (an endless loop) meets nowhere before it.
    return tuple(immediate.get(number, exit_block) for number in range(exit_block))


def _reverse_postorder(root: int, edges: list[list[int]]) -> list[int]:
    seen = {root}
    postorder = []
    stack = [(root, iter(edges[root]))]
    while stack:
        node, following = stack[-1]
        for child in following:
            if child not in seen:
                seen.add(child)
                stack.append((child, iter(edges[child])))
                break
        else:
            postorder.append(node)
            stack.pop()
    return postorder[::-1]
