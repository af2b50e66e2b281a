"""Conditions around a launch, each worked out once: whether they let it happen, and on which assumptions."""

from typing import TYPE_CHECKING

from clang.cindex import CursorKind

from kerncast.compile.host.jumps import entry_of, rows_of
from kerncast.compile.host.tree import Node, last_statement, parts_of_if
from kerncast.compile.host.undecided import Undecided

if TYPE_CHECKING:
    from kerncast.compile.host.values import Values

_LEAVING_CASE = {CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT, CursorKind.RETURN_STMT}

#: Whether something holds, None where that is not known, and the notes on what was assumed.
Answer = tuple[bool | None, tuple[str, ...]]


class Conditions:
    """Whether conditions hold at the first time that they are reached."""

    def __init__(self, values: "Values") -> None:
        self._values = values
        self._known: dict[int, Answer] = {}

    def holds(self, condition: Node) -> Answer:
        """Say whether a condition holds."""
        if condition.order not in self._known:
            self._values.begin()
            found = self._values.truth(condition, None)
            self._known[condition.order] = found, tuple(self._values.notes)
        return self._known[condition.order]

    def lets_run(self, parent: Node, child: Node, node: Node) -> Answer:
        """Say whether a statement runs its child, in which a node stands: a branch of an if, or a case of a switch."""
        if parent.kind == CursorKind.IF_STMT:
            condition, branches = parts_of_if(parent)
            if child in branches:
                found, notes = self.holds(condition)
                return (None if found is None else found is (child is branches[0])), notes
        if parent.kind == CursorKind.SWITCH_STMT and child is not parent.children[0]:
            self._values.begin()
            return self._switches_to(parent, node), tuple(self._values.notes)
        return True, ()

    def _switches_to(self, switch: Node, node: Node) -> bool | None:
        try:
            begin = entry_of(switch, self._values.number(switch.children[0], None))
        except (Undecided, LookupError):
            return None
        if begin is None or node.order < begin:
            return None if begin is None else False
        before = (row for _, row in rows_of(switch) or () if begin <= row.order and row.last < node.order)
        return not any(last_statement(row).kind in _LEAVING_CASE for row in before)
