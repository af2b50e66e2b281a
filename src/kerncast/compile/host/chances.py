"""Whether a statement of host code has run by a moment: by the branches, loops and jumps around it."""

from enum import Enum
from typing import TYPE_CHECKING

from clang.cindex import CursorKind

from kerncast.compile.host.arithmetic import BINARY
from kerncast.compile.host.jumps import ENDING, LOOPS, Jumps, is_excluded, may_leave_early, section
from kerncast.compile.host.libclang import operator_of
from kerncast.compile.host.loops import is_in_past_loop, is_step_of
from kerncast.compile.host.moments import Moment
from kerncast.compile.host.options import asks_for_options
from kerncast.compile.host.tree import Node, last_statement, parts_of_if

if TYPE_CHECKING:
    from kerncast.compile.host.values import Values

#: How the note begins that the command line is taken for one without options.
NO_OPTION = "no option changes it at"


class Chance(Enum):
    """Whether a statement has run."""

    CERTAIN = "certain"
    POSSIBLE = "possible"
    REPEATED = "repeated"
    NEVER = "never"


class Chances:
    """Says whether statements have run, by asking for the values of conditions."""

    def __init__(self, values: "Values") -> None:
        self._values = values
        self._jumps = Jumps()

    def of(self, node: Node, moment: Moment) -> Chance:
        """Say whether a statement before a moment of the same function has run by then."""
        chance = Chance.CERTAIN
        for parent, child in node.ancestors():
            if parent.holds(moment.order):
                break
            found = self._chance_inside(parent, child, moment)
            if found is Chance.NEVER:
                return found
            if found is not Chance.CERTAIN and chance is not Chance.REPEATED:
                chance = found
        else:
            return chance
        if is_step_of(node, parent, moment):
            return Chance.NEVER
        excluded = is_excluded(node, moment.order)
        if excluded and not any(each.kind in LOOPS for each, _ in parent.ancestors()):
            return Chance.NEVER
        # In a loop, the other branch may have been taken in an earlier pass.
        return Chance.POSSIBLE if excluded is not False and chance is Chance.CERTAIN else chance

    def _chance_inside(  # noqa: PLR0911  each kind of statement is one case
        self, parent: Node, child: Node, moment: Moment
    ) -> Chance:
        if parent.kind == CursorKind.IF_STMT:
            condition, branches = parts_of_if(parent)
            return self._chance_of_branch(parent, condition, child, moment) if child in branches else Chance.CERTAIN
        if parent.kind == CursorKind.BINARY_OPERATOR and BINARY.get(operator_of(parent.cursor)) in {"&&", "||"}:
            return self._chance_of_operand(parent, child, moment)
        if parent.kind in LOOPS:
            if parent.kind == CursorKind.DO_STMT:
                is_once = self._values.truth(parent.children[-1], moment.frame) is False
                certain = Chance.POSSIBLE if may_leave_early(parent) else Chance.CERTAIN
                return certain if is_once else Chance.REPEATED
            if parent.kind == CursorKind.FOR_STMT and child is parent.children[0] and len(parent.children) > 2:
                return Chance.CERTAIN
            return self._unknown(parent, child, moment, Chance.REPEATED)
        if parent.kind in {CursorKind.SWITCH_STMT, CursorKind.CONDITIONAL_OPERATOR}:
            if child is parent.children[0]:
                return Chance.CERTAIN
            if parent.kind == CursorKind.CONDITIONAL_OPERATOR:
                return self._chance_of_branch(parent, parent.children[0], child, moment)
            return Chance.POSSIBLE
        outer = parent.parent if parent.kind == CursorKind.COMPOUND_STMT else None
        if outer is not None and outer.kind == CursorKind.SWITCH_STMT:
            ends = any(self._leaves(each, moment) for each in section(parent, child))
            return self._unless_option(outer, child, Chance.NEVER if ends else Chance.POSSIBLE)
        if parent.kind == CursorKind.CXX_CATCH_STMT:
            return Chance.NEVER
        return Chance.POSSIBLE if parent.kind == CursorKind.LAMBDA_EXPR else Chance.CERTAIN

    def _chance_of_operand(self, parent: Node, child: Node, moment: Moment) -> Chance:
        """Say whether an operand of && or || is worked out."""
        if child is parent.children[0]:
            return Chance.CERTAIN
        passes = self._values.passes
        first = self._values.truth(parent.children[0], moment.frame)
        if first is None or passes != self._values.passes:
            return Chance.POSSIBLE
        return Chance.CERTAIN if first == (BINARY.get(operator_of(parent.cursor)) == "&&") else Chance.NEVER

    def _chance_of_branch(self, parent: Node, condition: Node, child: Node, moment: Moment) -> Chance:
        first = parent.children[parent.children.index(condition) + 1]
        passes = self._values.passes
        taken = self._values.truth(condition, moment.frame)
        # In a loop that is over, the condition of the first pass says nothing of later ones.
        if taken is not None and (passes == self._values.passes or not is_in_past_loop(parent, moment)):
            return Chance.CERTAIN if (first is child) == taken else Chance.NEVER
        return self._unknown(parent, child, moment, Chance.POSSIBLE)

    def _unknown(self, parent: Node, child: Node, moment: Moment, chance: Chance) -> Chance:
        """Say what holds where a condition is not known: a branch that ends the program has not been taken."""
        return self._unless_option(parent, child, Chance.NEVER if self._leaves(child, moment) else chance)

    def _unless_option(self, parent: Node, child: Node, chance: Chance) -> Chance:
        """Say that what an option changes has not happened, where the command line has none."""
        if chance is Chance.NEVER:
            return chance
        if self._values.has_no_options and asks_for_options(parent):
            self._values.note(f"{NO_OPTION} {self._values.where(child)}")
            return Chance.NEVER
        return chance

    def _leaves(self, branch: Node, moment: Moment) -> bool:
        """Whether a branch ends the program, or the function while the moment is inside it."""
        last = last_statement(branch)
        if self._jumps.escapes(branch, last, moment.function, moment.order):
            return False
        if last.plain.call is not None and last.plain.call.name in ENDING:
            return True
        return self._jumps.leaves(last, moment.function, moment.order)

    def behind_jumps(self, chance: Chance, node: Node, moment: Moment) -> Chance:
        """Say what is left of a chance where jumps may leave a statement out, or repeat it."""
        for jump in self._jumps.over(node, moment.function, moment.order):
            jumps = self.of(jump, moment)
            if jumps is Chance.CERTAIN:
                return Chance.NEVER
            if jumps is not Chance.NEVER and chance is Chance.CERTAIN:
                chance = Chance.POSSIBLE
        back = self._jumps.back(node, moment.function, moment.order)
        is_repeated = any(self.of(jump, moment) is not Chance.NEVER for jump in back)
        return Chance.REPEATED if is_repeated and chance is not Chance.NEVER else chance
