"""Whether a launch happens in the pass of a loop, and in the call of a function, that its values are taken from."""

from typing import TYPE_CHECKING

from clang.cindex import CursorKind

from kerncast.compile.host.jumps import rows_of
from kerncast.compile.host.libclang import constant
from kerncast.compile.host.parameters import OF_FIRST_CALL
from kerncast.compile.host.reaching import OF_FIRST_ROUND
from kerncast.compile.host.tree import Node, parts_of_if
from kerncast.compile.host.undecided import Undecided

if TYPE_CHECKING:
    from kerncast.compile.host.values import Values

#: Calls from main to a launch that are looked at.
_MOST_CALLS = 50
_LEAVING = {
    CursorKind.RETURN_STMT, CursorKind.CONTINUE_STMT, CursorKind.BREAK_STMT, CursorKind.CXX_THROW_EXPR,
}  # fmt: skip


def is_of_first(note: str) -> bool:
    """Whether a note says that a value is the one of a first pass, or of a first call."""
    return note.startswith((OF_FIRST_ROUND, OF_FIRST_CALL))


class FirstPass:
    """Looks at the conditions on the way from main to a launch."""

    def __init__(self, values: "Values") -> None:
        self._values = values
        self._known: dict[int, bool] = {}
        self._conditions: dict[int, bool | None] = {}

    def misses(self, node: Node) -> bool:
        """Whether a condition that holds only in later passes or calls keeps a statement from the first one."""
        for _ in range(_MOST_CALLS):
            if node.order not in self._known:
                self._known[node.order] = self._misses_in_function(node)
            if self._known[node.order]:
                return True
            call = self._values.program.caller.get(node.function.order)
            if call is None:
                break
            node = call.node
        return False

    def _misses_in_function(self, node: Node) -> bool:
        for parent, child in node.ancestors():
            if parent.kind == CursorKind.IF_STMT:
                condition, branches = parts_of_if(parent)
                if child in branches and self._holds(condition) is (child is not branches[0]):
                    return True
            elif parent.kind == CursorKind.SWITCH_STMT and child is not parent.children[0]:
                self._values.begin()
                if switches_to(self._values, parent, node) is False and self._is_of_first():
                    return True
            elif parent.kind == CursorKind.COMPOUND_STMT:
                before = parent.children[: parent.children.index(child)]
                if any(each.kind == CursorKind.IF_STMT and self._leaves(each) for each in before):
                    return True
        return False

    def _leaves(self, statement: Node) -> bool:
        """Whether an if leaves what it stands in, in the first pass or call."""
        condition, branches = parts_of_if(statement)
        leaving = [_last(each).kind in _LEAVING for each in branches]
        if not any(leaving):
            return False
        holds = self._holds(condition)
        return holds is not None and (leaving[0] if holds else leaving[1:] == [True])

    def _holds(self, condition: Node) -> bool | None:
        """Whether a condition holds in a first pass or call; None where that is not known, or holds in all of them."""
        if condition.order not in self._conditions:
            self._values.begin()
            holds = self._values.truth(condition, None)
            self._conditions[condition.order] = holds if self._is_of_first() else None
        return self._conditions[condition.order]

    def _is_of_first(self) -> bool:
        return any(map(is_of_first, self._values.notes))


def _last(branch: Node) -> Node:
    return branch.children[-1] if branch.kind == CursorKind.COMPOUND_STMT and branch.children else branch


def switches_to(values: "Values", switch: Node, node: Node) -> bool | None:
    """Whether a switch runs a node inside it; None where that is not known."""
    try:
        value = values.number(switch.children[0], None)
    except (Undecided, LookupError):
        return None
    rows = rows_of(switch)
    if rows is None:
        return None
    cases = [constant(label.cursor) for labels, _ in rows for label in labels if label is not None]
    if None in cases:
        return None
    is_running = False
    for labels, statement in rows:
        for label in labels:
            meant = value not in cases if label is None else constant(label.cursor) == value
            is_running = is_running or meant
        if statement.holds(node.order):
            return is_running
        last = statement
        if statement.kind == CursorKind.COMPOUND_STMT and statement.children:
            last = statement.children[-1]
        if last.kind in {CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT, CursorKind.RETURN_STMT}:
            is_running = False
    return None
