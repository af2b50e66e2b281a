"""Whether a launch may happen with this command line: no branch on the way from main is known not to be taken."""

from kerncast.compile.host.chances import NO_OPTION
from kerncast.compile.host.conditions import Conditions
from kerncast.compile.host.program import Program
from kerncast.compile.host.tree import Node


class Reached:
    """Looks at the conditions around launches, and around the calls that lead to them."""

    def __init__(self, program: Program, conditions: Conditions) -> None:
        self._program = program
        self._conditions = conditions
        self._calls: dict[int, bool] = {}
        """whether calls may happen, by their order"""

    def may_happen(self, node: Node) -> bool:
        """Whether a launch, or a call that leads to one, may happen."""
        if node.order not in self._calls:
            self._calls[node.order] = True  # for what calls itself
            self._calls[node.order] = self._may_happen(node)
        return self._calls[node.order]

    def _may_happen(self, node: Node) -> bool:
        for parent, child in node.ancestors():
            runs, notes = self._conditions.lets_run(parent, child, node)
            if runs is False and all(each.startswith(NO_OPTION) for each in notes):
                return False
        calls = self._program.calls.get(node.function.key, ())
        return not calls or any(self.may_happen(call.node) for call in calls)
