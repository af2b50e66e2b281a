"""The command line in host code: argc, argv, getopt and getopt_long."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clang.cindex import CursorKind

from kerncast.hostcode.arithmetic import BINARY
from kerncast.hostcode.jumps import LOOPS
from kerncast.hostcode.parsing import constant, operator_of
from kerncast.hostcode.program import Call, Frame, Moment, Node, Place, WriteKind, initial_value, is_null, place_of

if TYPE_CHECKING:
    from kerncast.hostcode.values import Values


#: Stands for argv[0], of which only is known that it is no option.
PROGRAM = "\0"
_UNKNOWN = ord("?")
_NO, _NEEDED, _OPTIONAL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class LongOption:
    """A row of the table of getopt_long without a variable to set."""

    name: str
    has_argument: int
    """0: no argument, 1: one, 2: only behind a ="""
    value: int
    """result of getopt_long"""


def parsed(
    arguments: Sequence[str], letters: str, options: Sequence[LongOption] = (), *, is_long_only: bool = False
) -> list[tuple[int, str | None]] | None:
    """Return what each call gives with its optarg, up to the last option; None where that depends on the library.

    >>> parsed(["-n", "12", "file", "-v"], "n:v")
    [(110, '12'), (118, None)]
    >>> parsed(["--size=5"], "s:", [LongOption("size", 1, ord("s"))])
    [(115, '5')]
    """
    if letters[:1] in {"+", "-"} or "W;" in letters or is_long_only:
        return None
    missing = ord(letters[0]) if letters[:1] == ":" else _UNKNOWN
    letters = letters.removeprefix(":")
    found: list[tuple[int, str | None]] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            break
        if word.startswith("--") and options:
            one = _long(word[2:], options, waiting, missing)
            if one is None:
                return None
            found.append(one)
        elif word.startswith("-") and word != "-":
            found += _short(word[1:], letters, waiting, missing)
    return found


def is_reordered(arguments: Sequence[str]) -> bool:
    """Whether getopt may move arguments: it puts what is no option behind the options."""
    is_option = [each.startswith("-") and each != "-" for each in arguments]
    return True in is_option[is_option.index(False) :] if False in is_option else False


def _long(word: str, options: Sequence[LongOption], waiting: list[str], missing: int) -> tuple[int, str | None] | None:
    """Return what one long option gives; None where its short form is not clear."""
    name, equals, text = word.partition("=")
    exact = [each for each in options if each.name == name]
    meant = exact or [each for each in options if each.name.startswith(name)]
    if len(meant) != 1:
        return (_UNKNOWN, None) if not meant else None
    option = meant[0]
    if option.has_argument == _NO:
        return (_UNKNOWN, None) if equals else (option.value, None)
    if equals or option.has_argument == _OPTIONAL:
        return option.value, text if equals else None
    return (option.value, waiting.pop(0)) if waiting else (missing, None)


def _short(word: str, letters: str, waiting: list[str], missing: int) -> list[tuple[int, str | None]]:
    """Return what the letters of one word give."""
    found: list[tuple[int, str | None]] = []
    while word:
        letter, word = word[0], word[1:]
        place = letters.find(letter) if letter not in ":;" else -1
        if place < 0:
            found.append((_UNKNOWN, None))
            continue
        colons = len(letters[place + 1 : place + 3]) - len(letters[place + 1 : place + 3].lstrip(":"))
        if colons == _NO:
            found.append((ord(letter), None))
            continue
        if word or colons == _OPTIONAL:
            found.append((ord(letter), word or None))
        else:
            found.append((ord(letter), waiting.pop(0)) if waiting else (missing, None))
        break
    return found


#: Number of arguments of each function.
GETOPT = {"getopt": 3, "getopt_long": 5, "getopt_long_only": 5}
_MOST_ARGUMENTS = 100
_AT_END = -1
#: Calls inside one another through which the command line is followed.
_MOST_CALLS = 8
#: Variables that getopt sets, by identity().
_OPTARG, _OPTIND = hash("c:@optarg"), hash("c:@optind")
SET_BY_GETOPT = {_OPTARG: "optarg", _OPTIND: "optind", hash("c:@optopt"): "optopt"}
#: Names in a condition that looks for options on the command line.
_OPTIONS = {"optarg", "optind", *GETOPT, "strcmp", "strncmp", "strcasecmp"}


def asks_for_options(parent: Node) -> bool:
    """Whether the condition of a branch or a loop looks for options on the command line."""
    parts = parent.children[:-1] if parent.kind == CursorKind.FOR_STMT else parent.children[:1]
    return any(node.name in _OPTIONS for part in parts for node in part.walk())


class OptionCalls:
    """The calls of getopt, for Passes."""

    def __init__(self, values: "Values") -> None:
        self._values = values

    @staticmethod
    def key(call: Call) -> int:
        """Return where a pass keeps what a call gives."""
        return -1 - call.node.order

    def in_loop(self, loop: Node) -> Call | None:
        """Return the call of getopt that each pass of a loop makes; None where there is none."""
        for node in loop.walk():
            if node.call is not None and node.call.name in GETOPT:
                nearest = next((parent for parent, _ in node.ancestors() if parent.kind in LOOPS), None)
                return node.call if nearest is loop else None
        return None

    def given(self, call: Call, frame: Frame | None) -> list[dict[int, int | str]] | None:
        """Return what getopt gives in each pass, up to the end; None where that is not known."""
        values, program = self._values, self._values.program
        arguments = values.arguments or ()
        calls = [each for each in program.every_call if each.name in GETOPT]
        is_only_one = len({_place_of_call(each) for each in calls}) == 1 and program.callee(call) is None
        is_plain = len(call.arguments) == GETOPT[call.name] and len(arguments) <= _MOST_ARGUMENTS
        changed = [each for key in (_OPTIND, _OPTARG) for each in program.writes.get(key, ()) if not each.place.path]
        if not is_only_one or not is_plain or changed or len(program.calls.get(call.node.function.key, ())) > 1:
            return None
        if not self._is_command_line(call, frame):
            return None
        letters = values.value(call.arguments[2], frame)
        options = self._long_options(call.arguments[3]) if len(call.arguments) > 3 else ()
        if not isinstance(letters, str) or options is None:
            return None
        found = parsed(arguments, letters, options, is_long_only=call.name == "getopt_long_only")
        if found is None:
            return None
        loop = next(parent for parent, _ in call.node.ancestors() if parent.kind in LOOPS)
        if _is_read(loop, _OPTARG, call.node.order):
            return None
        stored = self._stored(call, loop)
        key = self.key(call)
        return [
            {key: value, _OPTARG: text if text is not None else 0} | ({stored: value} if stored else {})
            for value, text in [*found, (_AT_END, None)]
        ]

    def _is_command_line(self, call: Call, frame: Frame | None) -> bool:
        """Whether getopt gets argc and argv as main has them."""
        values = self._values
        if values.number(call.arguments[0], frame) != len(values.arguments or ()) + 1:
            return False
        node = call.arguments[1].plain
        while node.kind == CursorKind.DECL_REF_EXPR and node.key in values.program.parameters:
            if not self._is_unchanged(node.key):
                return False
            function, which = values.program.parameters[node.key]
            if function is values.program.main:
                return which == 1
            passed = values.parameters.argument_for(Place(node.key), Moment(function.order, function, frame))
            if passed is None:
                return False
            node, frame = passed
        return False

    def _is_unchanged(self, key: int, depth: int = 0) -> bool:
        """Whether nothing but getopt, also in functions that get it, changes the array that a parameter points to."""
        program = self._values.program
        for write in program.writes.get(key, ()):
            if write.call is not None and write.call.name in GETOPT:
                continue
            callee = program.callee(write.call) if write.call is not None and write.is_through else None
            parameters = callee.parameters if callee else []
            if not 0 <= write.argument < len(parameters) or depth >= _MOST_CALLS:
                return False
            parameter = parameters[write.argument]
            if not parameter.type.get_pointee().is_const_qualified() and not self._is_unchanged(
                parameter.key, depth + 1
            ):
                return False
        return True

    def _stored(self, call: Call, loop: Node) -> int:
        """Return the variable that keeps what a call gives, and nothing else in the loop; 0 where there is none."""
        key, store = 0, call.node
        for parent, child in call.node.ancestors():
            if parent.kind == CursorKind.VAR_DECL:
                key, store = parent.key, parent
            elif parent.kind == CursorKind.BINARY_OPERATOR and BINARY.get(operator_of(parent.cursor)) == "=":
                place = place_of(parent.children[0]) if child is parent.children[-1] else None
                key, store = place.root if place is not None and not place.path else 0, parent
            if key or parent.kind.is_statement() or parent.kind == CursorKind.BINARY_OPERATOR:
                break
        node = self._values.program.locals.get(key)
        writes = self._values.program.writes.get(key, ())
        inside = [each for each in writes if loop.holds(each.node.order) or each.kind is WriteKind.SHARED]
        is_whole = node is not None and node.type.get_size() == call.node.type.get_size()
        return key if is_whole and len(inside) == 1 and not _is_read(loop, key, store.order) else 0

    def _long_options(self, table: Node) -> tuple[LongOption, ...] | None:
        """Return the rows of an array of struct option; None where it is not written plainly."""
        values, place = self._values, place_of(table)
        declared = None
        if place is not None and not place.path:
            declared = values.program.locals.get(place.root) or values.program.tree.globals.get(place.root)
        rows = initial_value(declared) if declared is not None else None
        if place is None or rows is None or rows.kind != CursorKind.INIT_LIST_EXPR:
            return None
        writes = values.program.writes.get(place.root, ())
        if any(each.node is not declared and (each.call is None or each.call.name not in GETOPT) for each in writes):
            return None
        found: list[LongOption] = []
        for row in rows.children:
            name, *rest = row.children or [row]
            if is_null(name):
                return tuple(found) or None
            numbers = [constant(each.cursor) for each in rest]
            if name.plain.kind != CursorKind.STRING_LITERAL or len(numbers) != 3 or not is_null(rest[1]):
                return None  # fields by name, or an option that sets a variable by itself
            if numbers[0] not in {0, 1, 2} or numbers[2] is None:
                return None
            found.append(LongOption(str(values.value(name, None)), int(numbers[0]), int(numbers[2])))
        return None


def may_be_reordered(values: "Values") -> bool:
    """Whether getopt may have put the arguments of the command line into another order."""
    uses_getopt = any(each.name in GETOPT for each in values.program.every_call)
    return uses_getopt and is_reordered(values.arguments or ())


def _is_read(loop: Node, key: int, order: int) -> bool:
    """Whether a pass of a loop names a variable before a moment."""
    return any(each.key == key and each.order < order for each in loop.walk() if each.kind == CursorKind.DECL_REF_EXPR)


def _place_of_call(call: Call) -> tuple[str, int]:
    return call.node.file, int(call.node.cursor.location.offset)
