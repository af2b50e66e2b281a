"""The way that host code takes: conditions, loops, and whether a place is reached."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from clang.cindex import CursorKind

from kerncast.hostcode.arithmetic import BINARY
from kerncast.hostcode.jumps import (
    ENDING,
    LOOPS,
    Jumps,
    breaks_of,
    entry_of,
    is_excluded,
    jumps_of,
    may_leave_early,
    rows_of,
    section,
)
from kerncast.hostcode.nouns import Undecided
from kerncast.hostcode.options import SET_BY_GETOPT, OptionCalls, asks_for_options
from kerncast.hostcode.parsing import operator_of
from kerncast.hostcode.program import (
    ANYHOW,
    POINTEE,
    SHARED_GLOBALS,
    Call,
    Frame,
    Moment,
    Node,
    Place,
    Program,
    Step,
    Write,
    WriteKind,
    happens_at,
    last_statement,
    parts_of_if,
    place_of,
)

if TYPE_CHECKING:
    from kerncast.hostcode.values import Values

# Conditions around a launch, each worked out once: whether they let it happen, and on which assumptions.


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


# The passes of a loop over the command line, one after the other: what each one begins with, and what it reaches.
#
# ``for (i = 1; i < argc; i++) if (!strcmp(argv[i], "-n")) n = atoi(argv[++i]);`` sets n in the pass whose argument is
# "-n", or in none; ``while ((c = getopt(argc, argv, "n:")) != -1) switch (c) { case 'n': n = atoi(optarg); }`` in the
# pass in which getopt gives 'n'. A loop of which one pass is not known is none of these.


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
    """values during the whole pass: of variables by their key, of getopt by ``OptionCalls.key``"""
    entry: dict[int, int | str]
    """values of variables at the beginning of the pass, by their key"""
    has_body: bool = True
    """whether the body runs; False where only the condition runs, and ends the loop"""
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
                    loop = shape.node
                    entry = {variable: self._at(loop.last + 1, variable, loop.function, frame)}
        return None

    def _at_start(self, shape: Shape, variable: int, frame: Frame | None) -> int | str:
        """Return what the variable of a loop begins with."""
        loop, values = shape.node, self._values
        parts = [each for each in loop.children[:-1] if each not in {shape.condition, shape.step}]
        for write in values.program.writes.get(variable, ()):
            if write.kind is WriteKind.VALUE and any(part.holds(write.node.order) for part in parts):
                return _plain(values.read(write, (), frame))
        return self._at(loop.order, variable, loop.function, frame)

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
        raise Undecided("the variable of a loop is not a whole number")
    return value


# Whether a statement of host code has run by a moment: by the branches, loops and jumps around it.


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


# Loops around a place in host code, and which of their parts have run when it is reached.


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


# Which write of a variable a place in host code sees, when the statements before it have run.
#
# Statements are taken in the order of the text. A loop has begun its first pass where the place is inside it; a
# branch is followed where its condition is known. Writes that may or may not have happened must all give the same
# value.


#: How the note begins that a value is the one of a first pass.
OF_FIRST_ROUND = "in the first pass of the loop of"


@dataclass(frozen=True, slots=True)
class _Step:
    """A write that may have happened, and the pass of a loop over the command line that it happens in."""

    write: Write
    one: Pass | None


Read = Callable[[Write, tuple[Step, ...], Frame | None], Any]
First = Callable[[Place, Moment], Any]


class Reaching:
    """Finds the value of a variable at a moment, by asking for the values of writes."""

    def __init__(self, values: "Values") -> None:
        self._values = values
        self._program = values.program
        self.chances = Chances(values)

    def value(self, place: Place, moment: Moment, read: Read, first: First) -> Any:
        """Return the value of a variable, or of a part of one; raises Undecided, or LookupError where it has none.

        ``first`` gives what the variable is where nothing on the way sets it.
        """
        possible: list[Any] = []
        function, order, frame = moment.function, moment.order, moment.frame
        while True:
            found = self._in_function(place, Moment(order, function, frame), read, possible)
            if found is not None:
                return found[0]
            self._note_loop(place.path, place, Moment(order, function, frame))
            if self._is_local(place.root, function):
                break
            call = frame.call if frame is not None and frame.function is function else self._caller(function)
            if call is None:
                break
            place = self._of_receiver(place, call)
            order, function = call.node.order, call.node.function
            frame = frame.outer if frame is not None else None
            self._values.spend()
        if possible and self._is_local(place.root, function) and place.root not in self._program.parameters:
            return self.agreed(possible)
        try:
            possible.append(first(place, Moment(order, function, frame)))
        except Undecided as error:
            possible.append(error)
        return self.agreed(possible)

    def _of_receiver(self, place: Place, call: Call) -> Place:
        """Return a field of the object of a method as the caller names it."""
        name = self._program.field_name(place.root)
        target = place_of(call.receiver) if name is not None and call.receiver is not None else None
        if target is None or name is None:
            return place
        path = target.path[:-1] if target.path[-1:] == (POINTEE,) else target.path
        return Place(target.root, (*path, name, *place.path))

    def in_function(self, place: Place, moment: Moment, read: Read) -> tuple[Any] | None:
        """Return the value that a function surely gives by a moment, in a tuple; None where it may not."""
        possible: list[Any] = []
        return self._in_function(place, moment, read, possible)

    def _caller(self, function: Node) -> Call | None:
        return self._program.caller.get(function.order)

    def _is_local(self, root: int, function: Node) -> bool:
        declared = self._values.declared(root)
        return declared is not None and declared is function

    def agreed(self, possible: list[Any]) -> Any:
        """Return the one value that several have; raises Undecided, or LookupError where there is none."""
        if not possible:
            raise LookupError
        if any(isinstance(each, Undecided) for each in possible):
            raise next(each for each in possible if isinstance(each, Undecided))
        if any(each != possible[0] for each in possible):
            shown = (str(each) if isinstance(each, int | float) else "a pointer" for each in possible[:4])
            raise Undecided(f"it is given different values: {', '.join(shown)}")
        return possible[0]

    def _in_function(self, place: Place, moment: Moment, read: Read, possible: list[Any]) -> tuple[Any] | None:
        """Return the value that this function has given, in a tuple; None where the caller must be asked."""
        self._check_seen(place, moment)
        values = self._values
        for step in self._before(place, moment):
            write, passes = step.write, values.passes
            rest = self._rest(step, place, moment.frame)
            is_past = is_in_past_loop(write.node, moment, step.one)
            if passes != values.passes and is_past:
                raise Undecided(f"it is filled in a loop at {values.where(write.node)}")
            if rest is None:
                continue
            chance = self._chance_of(step, moment)
            if chance is Chance.NEVER:
                continue
            if write.kind is WriteKind.GUESSED:
                name = write.call.name if write.call is not None else "a function"
                values.note(f"{name}(…) at {values.where(write.node)} is not known and taken not to change it")
                continue
            try:
                self._check_repeated(write, chance)
                with values.command_line.within(step.one):
                    value = read(write, rest, moment.frame)
                if passes != values.passes and is_past:
                    value = Undecided(f"it is given values in a loop at {values.where(write.node)}")
            except LookupError:
                continue
            except Undecided as error:
                if chance is Chance.CERTAIN and not possible:
                    raise
                value = error
            if chance is Chance.CERTAIN:
                self._note_loop(write.place.path, place, moment, write)
                return (self.agreed([*possible, value]),)
            possible.append(value)
        active = self._active(moment)
        if active is not None and not place.path and place.root in active.entry:
            return (self.agreed([*possible, active.entry[place.root]]),)
        return None

    def _check_repeated(self, write: Write, chance: Chance) -> None:
        if chance is Chance.REPEATED and write.kind is WriteKind.UPDATE:
            raise Undecided(f"it changes in the loop of {self._values.where(write.node)}")

    def _check_seen(self, place: Place, moment: Moment) -> None:
        """Raise Undecided where a part of the function that is not followed seems to change a variable."""
        for name in (self._program.name_of(place.root), *(step for step in place.path if isinstance(step, str))):
            line = self._program.changes_unseen(moment.function, name)
            if line is not None:
                raise Undecided(f"{name} changes in code that is not followed, line {line}")

    def _chance_of(self, step: "_Step", moment: Moment) -> Chance:
        """Say whether a statement has run by a moment."""
        node = step.write.node
        if step.one is None:
            return self.chances.behind_jumps(self.chances.of(node, moment), node, moment)
        is_reached = self._values.command_line.reaches(step.one, node)
        if is_reached is False:
            return Chance.NEVER
        if is_reached is None:
            chance = self.chances.of(node, moment)
            return Chance.POSSIBLE if chance is Chance.CERTAIN else chance
        loop = step.one.loop.node
        if loop.holds(moment.order):
            return Chance.CERTAIN
        return self.chances.behind_jumps(self.chances.of(loop, moment), loop, moment)

    def _active(self, moment: Moment) -> Pass | None:
        """Return the pass that a moment lies in; None where it lies in none that is known."""
        inside = (each for each in self._values.active.values() if each.loop.repeats(moment.order))
        return next(inside, None)

    def _before(self, place: Place, moment: Moment) -> list["_Step"]:
        """Return the writes of a variable before a moment, the last first; calls that write it count as writes."""
        found: list[tuple[tuple[int, int, int], _Step]] = []
        active = self._active(moment)
        for write in self._writes_in(place.root, moment.function):
            passes = self._values.command_line.around(write.node, moment.frame)
            loop = passes[0].loop.node if passes else None
            is_now = active is not None and active.loop.node is loop and not _shares_loop(write.node, active, moment)
            if passes and loop is not None and (loop.last < moment.order or is_now):
                found += [
                    ((loop.last, *when), _Step(write, one)) for when, one in _unrolled(write, passes, active, moment)
                ]
            elif write.node.order < moment.order and not write.node.holds(moment.order):
                found.append((_when_in(active, write), _Step(write, None)))
        if active is not None and place.root in active.entry:
            found = [each for each in found if each[1].one is active or active.loop.repeats(each[1].write.node.order)]
        return [step for _, step in sorted(found, key=lambda each: each[0], reverse=True)]

    def _writes_in(self, root: int, function: Node) -> Iterator[Write]:
        """Yield the writes of a variable in a function, calls among them."""
        yield from (each for each in self._program.writes.get(root, ()) if each.node.function is function)
        if not self._is_local(root, function):
            for call in self._program.calls_in(function):
                yield from self._writes(call, root)

    def _writes(self, call: Call, root: int) -> Iterator[Write]:
        """Yield what a call writes of a variable that its function, or one that is passed to it, names."""
        callee, is_shared = self._program.callee(call), self._program.is_shared(root)
        effects = self._program.effects(callee) if callee is not None else set()
        if is_shared and callee is None and self._program.is_elsewhere(call):
            yield Write(call.node, Place(root), WriteKind.GUESSED, None, call, ANYHOW)
        if root in effects or (is_shared and SHARED_GLOBALS in effects):
            yield Write(call.node, Place(root), WriteKind.PASSED, None, call, ANYHOW)
        for argument in call.arguments:
            passed = self._program.tree.functions.get(argument.plain.key) if argument.plain.call is None else None
            if passed is not None and root in self._program.effects(passed):
                yield Write(call.node, Place(root), WriteKind.SHARED)

    def _rest(self, step: "_Step", place: Place, frame: Frame | None) -> tuple[Step, ...] | None:
        """Return what of the path is left behind the part that is written; None where another part is written."""
        write = step.write
        for which, (mine, theirs) in enumerate(zip(place.path, write.place.path, strict=False)):
            if theirs == POINTEE and isinstance(mine, str) and mine != POINTEE:
                return place.path[which:]  # the whole struct behind a pointer, of which a field is asked for
            if not self._same_step(mine, theirs, step.one, frame):
                return None
        if len(write.place.path) > len(place.path) or (write.is_through and len(write.place.path) == len(place.path)):
            return None
        return place.path[len(write.place.path) :]

    def _same_step(self, mine: Step, theirs: Step, one: Pass | None, frame: Frame | None) -> bool:
        if not isinstance(mine, Node) and not isinstance(theirs, Node) and POINTEE not in {mine, theirs}:
            return mine == theirs
        asked = self._index(mine, frame)
        with self._values.command_line.within(one):
            return bool(asked == self._index(theirs, frame))

    def _index(self, step: Step, frame: Frame | None) -> object:
        if not isinstance(step, Node):
            return 0 if step == POINTEE else step
        return self._values.number(step, frame)

    def _note_loop(self, path: tuple[Step, ...], place: Place, moment: Moment, last: Write | None = None) -> None:
        """Say so where a later pass of the loop around the moment would see another value."""
        for parent, _ in around(moment):
            if parent.kind not in LOOPS or parent.order in self._values.active:
                continue
            if last is not None and body_of(parent).holds(last.node.order):
                continue
            if self._changes_later(parent, path, place, moment):
                self._values.passes += 1
                self._values.note(f"{OF_FIRST_ROUND} {self._values.where(parent)}")
                return

    def _changes_later(self, loop: Node, path: tuple[Step, ...], place: Place, moment: Moment) -> bool:
        """Whether a loop changes a variable, not only what it points to, behind a moment in it or beside it."""
        for other in self._program.writes.get(place.root, ()):
            is_other = other.is_through and len(other.place.path) == len(place.path)
            if is_other or not loop.holds(other.node.order) or other.place.path != path[: len(other.place.path)]:
                continue
            is_later = other.node.last >= moment.order or is_step_of(other.node, loop, moment)
            if is_later or is_excluded(other.node, moment.order):
                return True
        is_local = self._is_local(place.root, moment.function)
        return not is_local and calls_change(self._program, loop, place.root, moment)


def _when_in(active: Pass | None, write: Write) -> tuple[int, int, int]:
    """Return what orders a write that is taken once among those of all passes of a loop."""
    is_inside = active is not None and active.loop.repeats(write.node.order)
    return (
        (active.loop.node.last, active.index, happens_at(write)) if active and is_inside else (happens_at(write), 0, 0)
    )


def _shares_loop(node: Node, active: Pass, moment: Moment) -> bool:
    """Whether a write and a moment are in one loop inside the loop of a pass."""
    loops = (parent for parent, _ in node.ancestors() if parent.kind in LOOPS and parent is not active.loop.node)
    return any(each.holds(moment.order) and active.loop.repeats(each.order) for each in loops)


def _unrolled(
    write: Write, passes: list[Pass], active: Pass | None, moment: Moment
) -> Iterator[tuple[tuple[int, int], Pass]]:
    """Yield the passes that may run a write before a moment, each with what orders it among all of them."""
    loop, node = passes[0].loop, write.node
    is_inside = active is not None and active.loop.node is loop.node
    is_before = loop.position(node.order) < loop.position(moment.order) and not node.holds(moment.order)
    last = len(passes) if active is None or not is_inside else active.index + is_before
    for one in passes[:last]:
        yield (one.index, loop.position(happens_at(write))), one


# Whether a launch may happen with this command line: no branch on the way from main is known not to be taken.


class Reached:
    """Looks at the conditions around launches, and around the calls that lead to them."""

    def __init__(self, program: Program, conditions: Conditions) -> None:
        self._program = program
        self._conditions = conditions
        self._calls: dict[int, bool] = {}
        """whether each call may happen, by its order"""

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
