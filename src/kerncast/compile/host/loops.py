"""Loops around a place in host code, and which of their parts have run when it is reached."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clang.cindex import CursorKind

from kerncast.compile.host.jumps import LOOPS
from kerncast.compile.host.tree import Node

if TYPE_CHECKING:
    from kerncast.compile.host.moments import Moment
    from kerncast.compile.host.passes import Pass
    from kerncast.compile.host.program import Program


def body_of(loop: Node) -> Node:
    """Return the statement that a loop repeats."""
    return loop.children[0 if loop.kind == CursorKind.DO_STMT else -1]


def is_in_past_loop(node: Node, moment: "Moment", one: "Pass | None" = None) -> bool:
    """Whether a node is in a loop that the moment is not in, but for one of which the pass is known."""
    inside = (parent for parent, _ in node.ancestors() if parent.kind in LOOPS)
    return any(not parent.holds(moment.order) for parent in inside if one is None or parent is not one.loop.node)


def around(moment: "Moment") -> Iterator[tuple[Node, Node]]:
    """Yield the statements around a moment with the child that it is in, the outermost first."""
    node = moment.function
    while True:
        child = next((each for each in node.children if each.holds(moment.order)), None)
        if child is None:
            return
        yield node, child
        node = child


def is_step_of(node: Node, loop: Node, moment: "Moment") -> bool:
    """Whether a node is in what a for loop does after each pass, and the moment inside its body."""
    if loop.kind != CursorKind.FOR_STMT or len(loop.children) < 2 or not loop.children[-1].holds(moment.order):
        return False
    step = loop.children[-2]
    is_step = step.kind != CursorKind.DECL_STMT and (len(loop.children) > 2 or step.order > loop.order + 1)
    return is_step and step.holds(node.order) and step is not loop.children[0]


def calls_change(program: "Program", loop: Node, root: int, moment: "Moment") -> bool:
    """Whether a function that a loop calls at a moment inside it, or behind it, writes a variable."""
    calls = program.calls_in(moment.function)
    callees = (program.callee(each) for each in calls if loop.holds(each.node.order) and each.node.last >= moment.order)
    return any(each is not None and root in program.effects(each) for each in callees)
