"""Whether a launch may happen with this command line: no branch on the way from main is known not to be taken."""

from typing import TYPE_CHECKING

from clang.cindex import CursorKind

from kerncast.compile.host.chances import NO_OPTION
from kerncast.compile.host.first_pass import switches_to
from kerncast.compile.host.tree import Node, parts_of_if

if TYPE_CHECKING:
    from kerncast.compile.host.values import Values


class Reached:
    """Looks at the conditions around launches, and around the calls that lead to them."""

    def __init__(self, values: "Values") -> None:
        self._values = values
        self._conditions: dict[int, bool | None] = {}
        """whether conditions surely hold, by their order"""
        self._calls: dict[int, bool] = {}
        """whether calls may happen, by their order"""

    def may_happen(self, node: Node) -> bool:
        """Whether a launch, or a call that leads to one, may happen."""
        if node.order not in self._calls:
            self._calls[node.order] = True  # for what calls itself
            self._calls[node.order] = self._may_happen(node)
        return self._calls[node.order]

    def _may_happen(self, node: Node) -> bool:
        if any(self._is_left_out(parent, child, node) for parent, child in node.ancestors()):
            return False
        calls = self._values.program.calls.get(node.function.key, ())
        return not calls or any(self.may_happen(call.node) for call in calls)

    def _is_left_out(self, parent: Node, child: Node, node: Node) -> bool:
        """Whether a child is a branch of which it is known that it is not taken."""
        if parent.kind == CursorKind.SWITCH_STMT and child is not parent.children[0]:
            self._values.begin()
            return switches_to(self._values, parent, node) is False and not self._is_assumed()
        if parent.kind != CursorKind.IF_STMT:
            return False
        condition, branches = parts_of_if(parent)
        if child not in branches:
            return False
        if condition.order not in self._conditions:
            self._values.begin()
            taken = self._values.truth(condition, None)
            self._conditions[condition.order] = None if self._is_assumed() else taken
        taken = self._conditions[condition.order]
        return taken is not None and taken is not (child is branches[0])

    def _is_assumed(self) -> bool:
        return not all(each.startswith(NO_OPTION) for each in self._values.notes)
