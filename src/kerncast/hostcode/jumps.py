"""Statements that a jump may leave out, or repeat: what stands behind a return, or between a goto and its label."""

from collections.abc import Container, Iterator

from clang.cindex import CursorKind

from kerncast.hostcode.parsing import constant
from kerncast.hostcode.program import Node, parts_of_if

_LEAVING = {CursorKind.RETURN_STMT, CursorKind.CXX_THROW_EXPR, CursorKind.GOTO_STMT}
_JUMPS = {*_LEAVING, CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT}
LOOPS = {CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT, CursorKind.CXX_FOR_RANGE_STMT}
#: Functions that end the program.
ENDING = {"exit", "abort", "_exit", "quick_exit", "terminate", "MPI_Abort"}
_LABELS = {CursorKind.CASE_STMT, CursorKind.DEFAULT_STMT}


def statements_with_labels(body: Node) -> Iterator[tuple[list[Node | None], Node]]:
    """Yield the statements of the body of a switch with the constants of the cases before each; None for default."""
    for each in body.children:
        statement, labels = each, list[Node | None]()
        while statement.kind in _LABELS and statement.children:
            labels.append(statement.children[0] if statement.kind == CursorKind.CASE_STMT else None)
            statement = statement.children[-1]
        yield labels, statement


def rows_of(switch: Node) -> list[tuple[list[Node | None], Node]] | None:
    """Return the statements of a switch with their labels; None where labels stand elsewhere, or mean a range."""
    body = switch.children[-1]
    if len(switch.children) != 2 or body.kind != CursorKind.COMPOUND_STMT:
        return None
    rows = list(statements_with_labels(body))
    labels = [
        each for each in body.walk() if each.kind in _LABELS and _target(each, {CursorKind.SWITCH_STMT}) is switch
    ]
    is_plain = all(len(each.children) == (2 if each.kind == CursorKind.CASE_STMT else 1) for each in labels)
    return rows if is_plain and len(labels) == sum(len(each) for each, _ in rows) else None


def entry_of(switch: Node, value: float) -> int | None:
    """Return the order of the statement that a switch jumps to, one behind the switch where no case is meant.

    None where labels stand elsewhere, or their values are not known.
    """
    rows = rows_of(switch)
    if rows is None:
        return None
    cases = {constant(each.cursor): row.order for labels, row in rows for each in labels if each is not None}
    default = next((row.order for labels, row in rows if None in labels), switch.last + 1)
    return None if None in cases else cases.get(value, default)


def breaks_of(switch: Node) -> Iterator[Node]:
    """Yield the jumps that leave a switch by break."""
    for node in switch.walk():
        if node.kind == CursorKind.BREAK_STMT and _target(node, {*LOOPS, CursorKind.SWITCH_STMT}) is switch:
            yield node


def jumps_of(loop: Node) -> Iterator[Node]:
    """Yield the jumps that end a pass of a loop, the loop, the function or the program."""
    for node in loop.walk():
        if any(parent.kind == CursorKind.LAMBDA_EXPR and loop.holds(parent.order) for parent, _ in node.ancestors()):
            continue
        is_break = node.kind == CursorKind.BREAK_STMT and _target(node, {*LOOPS, CursorKind.SWITCH_STMT}) is loop
        is_continue = node.kind == CursorKind.CONTINUE_STMT and _target(node, LOOPS) is loop
        is_end = node.call is not None and node.call.name in ENDING
        if is_break or is_continue or is_end or node.kind in _LEAVING:
            yield node


def may_leave_early(loop: Node) -> bool:
    """Whether a break or a continue may leave out a part of the body of a loop."""
    return any(each.kind in {CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT} for each in jumps_of(loop))


def _target(jump: Node, kinds: Container[CursorKind]) -> Node | None:
    return next((parent for parent, _ in jump.ancestors() if parent.kind in kinds), None)


def section(body: Node, first: Node) -> Iterator[Node]:
    """Yield the statements of the body of a switch from the one that holds a node to one that may jump."""
    is_inside = False
    for _, statement in statements_with_labels(body):
        is_inside = is_inside or first.holds(statement.order)
        if is_inside:
            yield statement
        if is_inside and any(each.kind in _JUMPS and not _is_in_own_loop(each, statement) for each in statement.walk()):
            return


def is_excluded(node: Node, order: int) -> bool | None:
    """Whether another branch of one choice is taken where a later place is reached; None where that may be so.

    Branches of an if and of ?: exclude one another, as do cases with a break between them.
    """
    for parent, child in node.ancestors():
        if parent.holds(order):
            other = next((each for each in parent.children if each.holds(order)), child)
            return other is not child and _is_other_branch(parent, child, other)
    return False


def _is_other_branch(parent: Node, child: Node, other: Node) -> bool | None:
    if parent.kind == CursorKind.IF_STMT:
        branches = parts_of_if(parent)[1]
        return child in branches and other in branches
    if parent.kind == CursorKind.CONDITIONAL_OPERATOR:
        return child is not parent.children[0]
    if parent.kind != CursorKind.COMPOUND_STMT or parent.parent is None or parent.parent.kind != CursorKind.SWITCH_STMT:
        return False
    rows = [
        (bool(labels), statement)
        for labels, statement in statements_with_labels(parent)
        if child.order < statement.order <= other.last and not child.holds(statement.order)
    ]
    if any(statement.kind in _JUMPS for _, statement in rows):
        return True
    last = child.children[-1] if child.kind in _LABELS and child.children else child
    if _ends(last):
        return True
    return None if any(has_label for has_label, _ in rows) else False


def _ends(statement: Node) -> bool:
    """Whether nothing behind a statement, perhaps in braces, is run after it."""
    if statement.kind == CursorKind.COMPOUND_STMT and statement.children:
        return _ends(statement.children[-1])
    return statement.kind in _JUMPS


def _is_in_own_loop(jump: Node, branch: Node) -> bool:
    """Whether what a break or a continue is about lies inside a branch."""
    for parent, child in jump.ancestors():
        if child is branch:
            break
        if parent.kind in LOOPS or (parent.kind == CursorKind.SWITCH_STMT and jump.kind == CursorKind.BREAK_STMT):
            return True
    return False


class Jumps:
    """The returns of functions, and their gotos with the order of the label."""

    def __init__(self) -> None:
        self._returns: dict[int, list[Node]] = {}
        self._gotos: dict[int, list[tuple[Node, int]]] = {}

    def over(self, node: Node, function: Node, order: int) -> list[Node]:
        """Return the jumps that leave a statement out on the way to a moment of this order."""
        self._find(function)
        found = [jump for jump, label in self._gotos[function.order] if jump.order < node.order < label <= order]
        if order > function.last:
            found += [each for each in self._returns[function.order] if each.last < node.order]
        return found

    def back(self, node: Node, function: Node, order: int) -> list[Node]:
        """Return the jumps back that repeat a statement before a moment of this order."""
        self._find(function)
        return [jump for jump, label in self._gotos[function.order] if label < node.order < jump.order < order]

    def leaves(self, last: Node, function: Node, order: int) -> bool:
        """Whether a statement leaves the function, or jumps behind a moment of this order inside it."""
        if last.kind not in _LEAVING or order > function.last:
            return False
        self._find(function)
        labels = [label for jump, label in self._gotos[function.order] if jump is last]
        return last.kind != CursorKind.GOTO_STMT or all(label > order for label in labels)

    def escapes(self, branch: Node, last: Node, function: Node, order: int) -> bool:
        """Whether a jump inside a branch may lead around its last statement, to where a moment can see it."""
        for node in branch.walk():
            if node is last or node.kind not in _JUMPS:
                continue
            if node.kind in {CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT}:
                if not _is_in_own_loop(node, branch):
                    return True
            elif node.kind == CursorKind.GOTO_STMT or order > function.last:
                return True
        return False

    def _find(self, function: Node) -> None:
        if function.order in self._returns:
            return
        nodes = list(function.walk())
        labels = {node.name: node.order for node in nodes if node.kind == CursorKind.LABEL_STMT}
        self._gotos[function.order] = [
            (node, labels.get(node.children[0].name, function.last))
            for node in nodes
            if node.kind == CursorKind.GOTO_STMT and node.children
        ]
        self._returns[function.order] = [
            node
            for node in nodes
            if node.kind == CursorKind.RETURN_STMT
            and not any(parent.kind == CursorKind.LAMBDA_EXPR for parent, _ in node.ancestors())
        ]
