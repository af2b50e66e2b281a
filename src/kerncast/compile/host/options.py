"""Options that host code looks for in a loop over its command line: which pass of the loop finds one.

``for (i = 1; i < argc; i++) if (!strcmp(argv[i], "-n")) n = atoi(argv[i + 1]);`` sets n in the pass whose argument is
"-n", or in none; ``while ((c = getopt(argc, argv, "n:")) != -1) switch (c) { case 'n': n = atoi(optarg); }`` in the
pass in which c is 'n'.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from clang.cindex import CursorKind

from kerncast.compile.host.arithmetic import BINARY
from kerncast.compile.host.command_line import LongOption, parsed
from kerncast.compile.host.jumps import statements_with_labels
from kerncast.compile.host.libclang import constant, operator_of
from kerncast.compile.host.tree import Call, Node, is_null, parts_of_if
from kerncast.compile.host.undecided import Undecided
from kerncast.compile.host.writes import Place, initial_value, place_of

if TYPE_CHECKING:
    from kerncast.compile.host.reaching import Frame
    from kerncast.compile.host.values import Values

_LOOPS = {CursorKind.FOR_STMT, CursorKind.WHILE_STMT}
_GETOPT = {"getopt": 3, "getopt_long": 5, "getopt_long_only": 5}
_MOST_ARGUMENTS = 100
#: What a condition names that looks for options on the command line.
_OPTIONS = {"optarg", "optind", *_GETOPT, "strcmp", "strncmp", "strcasecmp"}

#: What variables hold in one pass of a loop, by their key.
Bound = dict[int, int | str]


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of a loop over the command line."""

    number: int
    bound: Bound


def option_passes(values: "Values", node: Node, order: int, frame: "Frame | None") -> tuple[Node, list[Pass]] | None:
    """Return the loop over the command line around a node, and what it holds in the passes that reach the node.

    None where the order lies in the loop too, where there is no such loop, and where its passes are not known.
    """
    if values.arguments is None or len(values.arguments) > _MOST_ARGUMENTS:
        return None
    for parent, _ in node.ancestors():
        if parent.holds(order):
            return None
        all_passes = _passes(values, parent, frame) if parent.kind in _LOOPS else None
        if all_passes is not None:
            reached = _reaching(values, node, parent, all_passes, frame)
            return (parent, reached) if reached is not None else None
    return None


def asks_for_options(parent: Node) -> bool:
    """Whether the condition of a branch or a loop looks for options on the command line."""
    parts = parent.children[:-1] if parent.kind == CursorKind.FOR_STMT else parent.children[:1]
    return any(node.name in _OPTIONS for part in parts for node in part.walk())


def _passes(values: "Values", loop: Node, frame: "Frame | None") -> list[Bound] | None:
    """Return what the variables of a loop over the command line hold in each pass; None for other loops."""
    arguments = values.arguments or ()
    parts = [each for part in loop.children[:-1] for each in part.walk()]
    call = next((each.call for each in loop.walk() if each.call is not None and each.call.name in _GETOPT), None)
    if call is not None:
        return _getopt_passes(values, call, frame)
    names = [each for each in parts if each.name and each.key and each.kind == CursorKind.DECL_REF_EXPR]
    variables = {each.key for each in names if each.name != "argc"}
    if len(variables) != 1 or not any(each.name == "argc" for each in names):
        return None
    variable = variables.pop()
    return [{variable: number} for number in range(1, len(arguments) + 1)]


def _getopt_passes(values: "Values", call: Call, frame: "Frame | None") -> list[Bound] | None:
    """Return the letter and the argument of each option that getopt finds; None where its tables are not plain."""
    place = _stored(call)
    if place is None or place.path or len(call.arguments) != _GETOPT[call.name]:
        return None
    try:
        letters = values.value(call.arguments[2], frame)
        options = _long_options(values, call.arguments[3]) if len(call.arguments) > 3 else ()
    except (Undecided, LookupError):
        return None
    if not isinstance(letters, str) or options is None:
        return None
    found = parsed(values.arguments or (), letters, options, is_long_only=call.name == "getopt_long_only")
    if found is None:
        return None
    where = {each.key for each in call.node.function.walk() if each.name == "optarg" and each.key}
    return [{place.root: value} | ({} if text is None else dict.fromkeys(where, text)) for value, text in found]


def _stored(call: Call) -> Place | None:
    """Return the variable that keeps what a call gives."""
    for parent, child in call.node.ancestors():
        if parent.kind == CursorKind.VAR_DECL:
            return Place(parent.key)
        if parent.kind == CursorKind.BINARY_OPERATOR:
            is_stored = BINARY.get(operator_of(parent.cursor)) == "=" and child is parent.children[-1]
            return place_of(parent.children[0]) if is_stored else None
        if parent.kind.is_statement():
            return None
    return None


def _long_options(values: "Values", table: Node) -> tuple[LongOption, ...] | None:
    """Return the rows of an array of struct option; None where it is not written plainly."""
    place = place_of(table)
    declared = None
    if place is not None and not place.path:
        declared = values.program.locals.get(place.root) or values.program.tree.globals.get(place.root)
    rows = initial_value(declared) if declared is not None else None
    if rows is None or rows.kind != CursorKind.INIT_LIST_EXPR:
        return None
    found = []
    for row in rows.children:
        name, *rest = row.children or [row]
        if name.plain.kind != CursorKind.STRING_LITERAL:
            break  # the row of zeros at the end
        numbers = [constant(each.cursor) for each in rest]
        if len(numbers) != 3 or numbers[0] is None or numbers[1] not in {0, None} or numbers[2] is None:
            return None
        if not is_null(rest[1]):
            return None  # the option sets a variable by itself
        found.append(LongOption(str(values.value(name, None)), int(numbers[0]), int(numbers[2])))
    return tuple(found)


def _reaching(
    values: "Values", node: Node, loop: Node, all_passes: list[Bound], frame: "Frame | None"
) -> list[Pass] | None:
    """Return the passes of a loop that reach a node; None where that is not known."""
    found = []
    kept = values.bound
    try:
        for number, bound in enumerate(all_passes, 1):
            values.bound = kept | bound
            is_reached = _is_reached(values, node, loop, frame)
            if is_reached is None:
                return None
            if is_reached:
                found.append(Pass(number, bound))
    finally:
        values.bound = kept
    return found


def _is_reached(values: "Values", node: Node, loop: Node, frame: "Frame | None") -> bool | None:
    """Whether one pass of a loop reaches a node; None where that is not known."""
    checks: list[Callable[[], bool | None]] = []
    for parent, child in node.ancestors():
        if parent is loop:
            break
        if parent.kind == CursorKind.IF_STMT:
            condition, branches = parts_of_if(parent)
            if child in branches:
                checks.append(partial(_takes, values, condition, child is branches[0], frame))
        elif parent.kind == CursorKind.SWITCH_STMT:
            if child is not parent.children[0]:
                checks.append(partial(switches_to, values, parent, node, frame))
        elif parent.kind in _LOOPS:
            return None
    for check in reversed(checks):
        is_so = check()
        if not is_so:
            return is_so
    return True


def _takes(values: "Values", condition: Node, branch: bool, frame: "Frame | None") -> bool | None:
    truth = values.truth(condition, frame)
    return None if truth is None else truth is branch


def switches_to(values: "Values", switch: Node, node: Node, frame: "Frame | None") -> bool | None:
    """Whether a switch runs a node inside it; None where that is not known."""
    try:
        value = values.number(switch.children[0], frame)
    except (Undecided, LookupError):
        return None
    rows = list(statements_with_labels(switch.children[-1]))
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
