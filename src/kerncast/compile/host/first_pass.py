"""Whether a launch happens in the pass of a loop, and in the call of a function, that its values are taken from."""

from clang.cindex import CursorKind

from kerncast.compile.host.conditions import Conditions
from kerncast.compile.host.parameters import OF_FIRST_CALL
from kerncast.compile.host.program import Program
from kerncast.compile.host.reaching import OF_FIRST_ROUND
from kerncast.compile.host.tree import Node, last_statement, parts_of_if

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

    def __init__(self, program: Program, conditions: Conditions) -> None:
        self._program = program
        self._conditions = conditions
        self._known: dict[int, bool] = {}

    def misses(self, node: Node) -> bool:
        """Whether a condition that holds only in later passes or calls keeps a statement from the first one."""
        for _ in range(_MOST_CALLS):
            if node.order not in self._known:
                self._known[node.order] = self._misses_in_function(node)
            if self._known[node.order]:
                return True
            call = self._program.caller.get(node.function.order)
            if call is None:
                break
            node = call.node
        return False

    def _misses_in_function(self, node: Node) -> bool:
        for parent, child in node.ancestors():
            runs, notes = self._conditions.lets_run(parent, child, node)
            if runs is False and any(map(is_of_first, notes)):
                return True
            if parent.kind == CursorKind.COMPOUND_STMT:
                before = parent.children[: parent.children.index(child)]
                if any(each.kind == CursorKind.IF_STMT and self._leaves(each) for each in before):
                    return True
        return False

    def _leaves(self, statement: Node) -> bool:
        """Whether an if leaves what it stands in, in the first pass or call."""
        condition, branches = parts_of_if(statement)
        leaving = [last_statement(each).kind in _LEAVING for each in branches]
        if not any(leaving):
            return False
        holds, notes = self._conditions.holds(condition)
        if holds is None or not any(map(is_of_first, notes)):
            return False
        return leaving[0] if holds else leaving[1:] == [True]
