"""The passes of a loop over the command line, one after the other: what each one begins with, and what it reaches.

``for (i = 1; i < argc; i++) if (!strcmp(argv[i], "-n")) n = atoi(argv[++i]);`` sets n in the pass whose argument is
"-n", or in none; ``while ((c = getopt(argc, argv, "n:")) != -1) switch (c) { case 'n': n = atoi(optarg); }`` in the
pass in which getopt gives 'n'. A loop of which one pass is not known is none of these.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clang.cindex import CursorKind

from kerncast.compile.host.arithmetic import BINARY
from kerncast.compile.host.jumps import ENDING, LOOPS, breaks_of, entry_of, jumps_of
from kerncast.compile.host.libclang import operator_of
from kerncast.compile.host.moments import Frame, Moment
from kerncast.compile.host.options import SET_BY_GETOPT, OptionCalls
from kerncast.compile.host.tree import Call, Node, parts_of_if
from kerncast.compile.host.undecided import Undecided
from kerncast.compile.host.writes import Place, WriteKind

if TYPE_CHECKING:
    from kerncast.compile.host.values import Values

_FOLLOWED = {CursorKind.FOR_STMT, CursorKind.WHILE_STMT}
_MOST_PASSES = 101
_COMPARISONS = {"<", ">", "<=", ">=", "!=", "==", "&&", "||"}
_ELSEWHERE = {CursorKind.LAMBDA_EXPR, CursorKind.CXX_CATCH_STMT, *LOOPS}
#: The third part of a for runs behind its body, before which it stands.
_BEHIND_BODY = 1 << 60


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a loop; None for those that it does not have."""

    node: Node
    condition: Node | None
    step: Node | None

    def repeats(self, order: int) -> bool:
        """Whether each pass may run a node of this order: those of a first part run before."""
        parts = (self.condition, self.step, self.node.children[-1])
        return any(part is not None and part.holds(order) for part in parts)

    def position(self, order: int) -> int:
        """Return when a node of this order runs, against others of the loop."""
        return order + (_BEHIND_BODY if self.step is not None and self.step.holds(order) else 0)


@dataclass(slots=True, eq=False)
class Pass:
    """One pass of a loop."""

    loop: Shape
    frame: Frame | None
    index: int
    siblings: "list[Pass]"
    given: dict[int, int | str]
    """what variables hold all the time, by their key, and what getopt returns, by ``OptionCalls.key``"""
    entry: dict[int, int | str]
    """what variables hold at the beginning"""
    has_body: bool = True
    """False where only the condition runs, and ends the loop"""
    known: dict[int, bool | None] = field(default_factory=dict)


class Passes:
    """The loops over the command line of a program, for Values."""

    def __init__(self, values: "Values") -> None:
        self._values = values
        self._options = OptionCalls(values)
        self._shapes: dict[int, tuple[Shape, Call | None] | None] = {}
        self._known: dict[tuple[int, Frame | None], list[Pass] | None] = {}
        self._jumps: dict[int, list[Node]] = {}

    def begin(self) -> None:
        """Forget the passes that were worked out for the value before, and what was noted then."""
        self._known.clear()

    @contextmanager
    def within(self, one: Pass | None) -> Iterator[None]:
        """Take values as they are in one pass."""
        kept = self._values.active
        self._values.active = kept | {one.loop.node.order: one} if one is not None else kept
        try:
            yield
        finally:
            self._values.active = kept

    def returned(self, call: Call) -> int | str | None:
        """Return what a call of getopt gives in the pass that values are asked for in; None where that is not known."""
        key = OptionCalls.key(call)
        return next((each.given[key] for each in self._values.active.values() if key in each.given), None)

    def held(self, place: Place, moment: Moment) -> int | str | None:
        """Return what a variable holds all through a pass; None for others. Raises Undecided for those of getopt."""
        for each in self._values.active.values() if not place.path else ():
            is_elsewhere = moment.function is not each.loop.node.function
            if place.root in each.given and (is_elsewhere or each.loop.repeats(moment.order)):
                return each.given[place.root]
        declared = self._values.program.tree.globals.get(place.root)
        if place.root in SET_BY_GETOPT and (declared is None or not declared.cursor.is_definition()):
            raise Undecided(f"getopt sets {SET_BY_GETOPT[place.root]}")
        return None

    def around(self, node: Node, frame: Frame | None) -> list[Pass] | None:
        """Return the passes of the loop around a node that is one over the command line; None where there is none."""
        for parent, _ in node.ancestors():
            if parent.kind not in _FOLLOWED:
                continue
            active = self._values.active.get(parent.order)
            found = active.siblings if active is not None else self._of(parent, frame)
            if found is not None and found[0].loop.repeats(node.order):
                return found
        return None

    def reaches(self, one: Pass, node: Node) -> bool | None:
        """Whether a pass runs a node of its loop; None where that is not known."""
        if node.order not in one.known:
            one.known[node.order] = None
            with self.within(one):
                one.known[node.order] = self._reaches(one, node)
        return one.known[node.order]

    def _of(self, loop: Node, frame: Frame | None) -> list[Pass] | None:
        """Return the passes of a loop; None where they are not known."""
        if self._values.arguments is None:
            return None
        if loop.order not in self._shapes:
            self._shapes[loop.order] = self._shape(loop)
        shape = self._shapes[loop.order]
        if shape is None:
            return None
        key = loop.order, frame
        if key not in self._known:
            self._known[key] = None
            kept = list(self._values.notes), self._values.passes
            try:
                self._known[key] = self._simulated(*shape, frame)
            except (Undecided, LookupError):
                self._known[key] = None
            if self._known[key] is None:  # what was assumed for it has been for nothing
                self._values.notes, self._values.passes = kept
        return self._known[key]

    def _shape(self, loop: Node) -> tuple[Shape, Call | None] | None:
        """Return the parts of a loop over the command line with its call of getopt; None for other loops."""
        shape = _parts(loop)
        if shape is None:
            return None
        call = self._options.in_loop(loop)
        if call is not None or self._variable(shape):
            return shape, call
        return None

    def _variable(self, shape: Shape) -> int:
        """Return the variable that a loop compares with argc; 0 where there is none."""
        parts = [each for part in shape.node.children[:-1] for each in part.walk()]
        names = [each for each in parts if each.name and each.key and each.kind == CursorKind.DECL_REF_EXPR]
        variables = {each.key for each in names if each.name != "argc"}
        return variables.pop() if len(variables) == 1 and any(each.name == "argc" for each in names) else 0

    def _simulated(self, shape: Shape, call: Call | None, frame: Frame | None) -> list[Pass] | None:
        """Return the passes of a loop; None, or Undecided, where one of them is not known."""
        given = self._options.given(call, frame) if call is not None else None
        if call is not None and given is None:
            return None
        variable = 0 if call is not None else self._variable(shape)
        entry = {variable: self._at_start(shape, variable, frame)} if variable else {}
        passes: list[Pass] = []
        for index in range(_MOST_PASSES if given is None else len(given)):
            one = Pass(shape, frame, index, passes, given[index] if given is not None else {}, entry)
            passes.append(one)
            is_last = self._is_last(one)
            if is_last is not False:
                return passes if is_last else None
            if variable:
                with self.within(one):
                    entry = {variable: self._after(shape.node, variable, frame)}
        return None

    def _at_start(self, shape: Shape, variable: int, frame: Frame | None) -> int | str:
        """Return what the variable of a loop begins with."""
        loop, values = shape.node, self._values
        parts = [each for each in loop.children[:-1] if each not in {shape.condition, shape.step}]
        for write in values.program.writes.get(variable, ()):
            if write.kind is WriteKind.VALUE and any(part.holds(write.node.order) for part in parts):
                return _plain(values.read(write, (), frame))
        return self._at(loop.order, variable, loop.function, frame)

    def _after(self, loop: Node, variable: int, frame: Frame | None) -> int | str:
        return self._at(loop.last + 1, variable, loop.function, frame)

    def _at(self, order: int, variable: int, function: Node, frame: Frame | None) -> int | str:
        return _plain(self._values.at(Place(variable), Moment(order, function, frame)))

    def _is_last(self, one: Pass) -> bool | None:
        """Whether no pass follows; None where that is not known."""
        condition = one.loop.condition
        if condition is not None:
            with self.within(one):
                holds = self._values.truth(condition, one.frame)
            if not holds:
                one.has_body = False
                return None if holds is None else True
        for jump in self._jumps_in(one.loop.node):
            is_taken = None if jump.kind == CursorKind.CONTINUE_STMT else self.reaches(one, jump)
            if is_taken:
                return None if jump.kind == CursorKind.GOTO_STMT else True
            if is_taken is None and jump.kind != CursorKind.CONTINUE_STMT and not _ends_program(jump):
                return None
        return False

    def _jumps_in(self, loop: Node) -> list[Node]:
        if loop.order not in self._jumps:
            self._jumps[loop.order] = list(jumps_of(loop))
        return self._jumps[loop.order]

    def _reaches(self, one: Pass, node: Node) -> bool | None:
        loop = one.loop
        if loop.condition is not None and loop.condition.holds(node.order):
            return self._takes_all(one, node)
        if not one.has_body:
            return False
        found = self._takes_all(one, node)
        return self._passes_jumps(one, node) if found else found

    def _passes_jumps(self, one: Pass, node: Node) -> bool | None:
        """Whether no jump before a node leaves it out."""
        loop = one.loop
        found: bool | None = True
        for jump in self._jumps_in(loop.node):
            is_before = loop.position(jump.order) < loop.position(node.order) and not jump.holds(node.order)
            is_step = loop.step is not None and loop.step.holds(node.order)
            if not is_before or (is_step and jump.kind == CursorKind.CONTINUE_STMT):
                continue
            is_taken = self.reaches(one, jump)
            if is_taken:
                return None if jump.kind == CursorKind.GOTO_STMT else False
            if is_taken is None and not _ends_program(jump):
                found = None
        return found

    def _takes_all(self, one: Pass, node: Node) -> bool | None:
        """Whether the conditions around a node lead to it."""
        around = []
        for parent, child in node.ancestors():
            if parent is one.loop.node:
                break
            around.append((parent, child))
        found: bool | None = True
        for parent, child in reversed(around):
            taken = self._takes(one, parent, child, node)
            if taken is False:
                return False
            if taken is None:
                found = None
        return found

    def _takes(self, one: Pass, parent: Node, child: Node, node: Node) -> bool | None:
        if parent.kind in _ELSEWHERE:
            return None
        if parent.kind == CursorKind.IF_STMT:
            condition, branches = parts_of_if(parent)
            return self._is(one, condition, child is branches[0]) if child in branches else True
        if parent.kind == CursorKind.SWITCH_STMT:
            return self._switches_to(one, parent, node) if child is parent.children[-1] else True
        if parent.kind == CursorKind.CONDITIONAL_OPERATOR and child is not parent.children[0]:
            return self._is(one, parent.children[0], child is parent.children[1])
        if parent.kind == CursorKind.BINARY_OPERATOR and child is not parent.children[0]:
            operator = BINARY.get(operator_of(parent.cursor))
            return self._is(one, parent.children[0], operator == "&&") if operator in {"&&", "||"} else True
        return True

    def _is(self, one: Pass, condition: Node, wanted: bool) -> bool | None:
        truth = self._values.truth(condition, one.frame)
        return None if truth is None else truth is wanted

    def _switches_to(self, one: Pass, switch: Node, node: Node) -> bool | None:
        """Whether a switch runs a node inside it; None where that is not known."""
        try:
            begin = entry_of(switch, self._values.number(switch.children[0], one.frame))
        except (Undecided, LookupError):
            return None
        if begin is None or node.order < begin:
            return None if begin is None else False
        found: bool | None = True
        for jump in breaks_of(switch):
            if begin <= jump.order < node.order:
                is_taken = self.reaches(one, jump)
                if is_taken:
                    return False
                found = found if is_taken is False else None
        return found


def _parts(loop: Node) -> Shape | None:
    """Return the parts of a loop; None where the tree does not tell them apart."""
    *parts, _ = loop.children or [loop]
    if loop.kind == CursorKind.WHILE_STMT:
        return Shape(loop, parts[0], None) if len(parts) == 1 else None
    conditions = [which for which, each in enumerate(parts) if _compares(each)]
    if len(conditions) == 1 and conditions[0] + 2 >= len(parts):
        which = conditions[0]
        return Shape(loop, parts[which], parts[which + 1] if which + 1 < len(parts) else None)
    is_endless = all(each.kind == CursorKind.DECL_STMT for each in parts)
    return Shape(loop, None, None) if is_endless else None


def _compares(node: Node) -> bool:
    plain = node.plain
    return plain.kind == CursorKind.BINARY_OPERATOR and BINARY.get(operator_of(plain.cursor)) in _COMPARISONS


def _ends_program(jump: Node) -> bool:
    """Whether a jump ends the program: one of which nothing is known has not been taken."""
    return jump.call is not None and jump.call.name in ENDING


def _plain(value: object) -> int | str:
    if not isinstance(value, int | str):
        raise Undecided("the variable of a loop is no whole number")
    return value
