"""Options that host code looks for with getopt and getopt_long: what each call of them gives."""

from typing import TYPE_CHECKING

from clang.cindex import CursorKind

from kerncast.compile.host.arithmetic import BINARY
from kerncast.compile.host.command_line import LongOption, is_reordered, parsed
from kerncast.compile.host.jumps import LOOPS
from kerncast.compile.host.libclang import constant, operator_of
from kerncast.compile.host.moments import Frame, Moment
from kerncast.compile.host.tree import Call, Node, is_null
from kerncast.compile.host.writes import Place, WriteKind, initial_value, place_of

if TYPE_CHECKING:
    from kerncast.compile.host.values import Values

#: How many arguments they take.
GETOPT = {"getopt": 3, "getopt_long": 5, "getopt_long_only": 5}
_MOST_ARGUMENTS = 100
_AT_END = -1
#: Calls inside one another through which the command line is followed.
_MOST_CALLS = 8
#: Variables that getopt sets, by identity().
_OPTARG, _OPTIND = hash("c:@optarg"), hash("c:@optind")
SET_BY_GETOPT = {_OPTARG: "optarg", _OPTIND: "optind", hash("c:@optopt"): "optopt"}
#: What a condition names that looks for options on the command line.
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
