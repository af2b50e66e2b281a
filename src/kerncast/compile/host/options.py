"""Options that host code looks for in a loop over its command line: which pass of the loop finds one.

``for (i = 1; i < argc; i++) if (!strcmp(argv[i], "-n")) n = atoi(argv[i + 1]);`` sets n in the pass whose argument is
"-n", or in none.
"""

from typing import TYPE_CHECKING

from clang.cindex import CursorKind

from kerncast.compile.host.tree import Node, parts_of_if

if TYPE_CHECKING:
    from kerncast.compile.host.reaching import Frame
    from kerncast.compile.host.values import Values

_LOOPS = {CursorKind.FOR_STMT, CursorKind.WHILE_STMT}
_MOST_ARGUMENTS = 100


def option_loop(node: Node, order: int) -> tuple[Node, int] | None:
    """Return the loop over the command line around a node, and its variable; None where the order lies in it too."""
    for parent, _ in node.ancestors():
        if parent.holds(order):
            return None
        if parent.kind in _LOOPS:
            names = [each for part in parent.children[:-1] for each in part.walk() if each.name and each.key]
            variables = {each.key for each in names if each.kind == CursorKind.DECL_REF_EXPR and each.name != "argc"}
            if len(variables) == 1 and any(each.name == "argc" for each in names):
                return parent, variables.pop()
    return None


def passes(values: "Values", node: Node, loop: Node, variable: int, frame: "Frame | None") -> list[int] | None:
    """Return the passes of a loop over the command line that reach a node; None where that is not known."""
    if values.arguments is None or len(values.arguments) > _MOST_ARGUMENTS:
        return None
    found = []
    kept = dict(values.bound)
    try:
        for number in range(1, len(values.arguments) + 1):
            values.bound[variable] = number
            is_reached = _is_reached(values, node, loop, frame)
            if is_reached is None:
                return None
            if is_reached:
                found.append(number)
    finally:
        values.bound = kept
    return found


def _is_reached(values: "Values", node: Node, loop: Node, frame: "Frame | None") -> bool | None:
    """Whether one pass of a loop reaches a node; None where that is not known."""
    conditions = []
    for parent, child in node.ancestors():
        if parent is loop:
            break
        if parent.kind == CursorKind.IF_STMT:
            condition, branches = parts_of_if(parent)
            if child in branches:
                conditions.append((condition, child is branches[0]))
        elif parent.kind in {CursorKind.SWITCH_STMT, *_LOOPS}:
            return None
    for condition, expected in reversed(conditions):
        truth = values.truth(condition, frame)
        if truth is not expected:
            return None if truth is None else False
    return True
