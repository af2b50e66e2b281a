"""Values of expressions in host code, as far as they are known without running it."""

from functools import partial
from typing import Any

from clang.cindex import Cursor, CursorKind, StorageClass, TypeKind

from kerncast.compile.host import arithmetic
from kerncast.compile.host.arithmetic import BINARY, UNARY, Number
from kerncast.compile.host.calls import Calls
from kerncast.compile.host.libclang import constant, is_declared_here, operator_of
from kerncast.compile.host.memory import Pointers
from kerncast.compile.host.moments import Frame, Moment
from kerncast.compile.host.parameters import Parameters
from kerncast.compile.host.passes import Pass, Passes
from kerncast.compile.host.program import Program
from kerncast.compile.host.reaching import Reaching
from kerncast.compile.host.tree import Node, measures_unknown
from kerncast.compile.host.undecided import Undecided
from kerncast.compile.host.writes import POINTEE, Place, Step, Write, WriteKind, place_of

#: Steps that one value may take, and how deep they may lie inside one another.
_MOST_STEPS = 10_000
#: Steps that all values of a source together may take.
_MOST_STEPS_IN_ALL = 300_000
_MOST_DEPTH = 150

_REFERENCES = {CursorKind.TYPE_REF, CursorKind.TEMPLATE_REF, CursorKind.NAMESPACE_REF}
_CASTS = {
    CursorKind.CSTYLE_CAST_EXPR, CursorKind.CXX_STATIC_CAST_EXPR, CursorKind.CXX_FUNCTIONAL_CAST_EXPR,
    CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR, CursorKind.CXX_CONST_CAST_EXPR,
    CursorKind.CXX_REINTERPRET_CAST_EXPR,
}  # fmt: skip
_NAMES = {CursorKind.DECL_REF_EXPR, CursorKind.MEMBER_REF_EXPR, CursorKind.ARRAY_SUBSCRIPT_EXPR}
_DECLARED = {CursorKind.VAR_DECL, CursorKind.FIELD_DECL}
#: ++n and --n, of CXUnaryOperatorKind.
_CHANGED_FIRST = {3, 4}
_POINTERS = {TypeKind.POINTER, TypeKind.NULLPTR}
_ARRAYS = {TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY}


class Values:
    """Evaluates expressions; one for a whole program."""

    def __init__(self, program: Program, arguments: tuple[str, ...] | None) -> None:
        self.program = program
        self.arguments = arguments
        """of the command line, without the program's name; None where they are not given"""
        self.notes: list[str] = []
        self.reaching = Reaching(self)
        self._calls = Calls(self)
        self.pointers = Pointers(self)
        self.parameters = Parameters(self)
        self._steps = self._depth = self._steps_in_all = 0
        self.is_of_any_object = False
        """whether a field was taken as it is set in objects of its class, whichever they are"""
        self.command_line = Passes(self)
        self.active: dict[int, Pass] = {}
        """the passes that values are asked for in, by the order of the loop"""
        self.passes = 0
        """how often a value was taken that later passes of a loop change"""

    @property
    def has_no_options(self) -> bool:
        """Whether the command line may be taken for one without options."""
        return not any(each.startswith("-") for each in self.arguments or ())

    def begin(self) -> None:
        """Forget the notes and the steps of the value before."""
        self.notes, self._steps, self._depth = [], 0, 0
        self.is_of_any_object = False
        self.command_line.begin()

    def note(self, text: str) -> None:
        """Remember what was assumed."""
        if text not in self.notes:
            self.notes.append(text)

    def spend(self) -> None:
        """Count a step; raises Undecided where there were too many."""
        self._steps += 1
        self._steps_in_all += 1
        if self._steps > _MOST_STEPS or self._steps_in_all > _MOST_STEPS_IN_ALL:
            raise Undecided("it takes too long to work out")

    def where(self, node: Node) -> str:
        """Return file and line, for people; nothing for what the parser itself puts in."""
        if node.line == 0 or not node.file:
            return ""
        return f"{node.file.replace(chr(92), '/').rpartition('/')[2]}:{node.line}"

    def declared(self, root: int) -> Node | None:
        """Return the function in which a variable is declared; None for one at namespace scope, and for fields."""
        if root in self.program.parameters:
            return self.program.parameters[root][0]
        node = self.program.locals.get(root)
        return node.function if node is not None else None

    def truth(self, node: Node, frame: Frame | None) -> bool | None:
        """Return whether a condition holds; None where that is not known."""
        try:
            value = self.value(node, frame)
        except (Undecided, LookupError, RecursionError):
            return None
        return bool(value) or isinstance(value, str) if isinstance(value, int | float | str) else None

    def number(self, node: Node, frame: Frame | None) -> Number:
        """Return the number that an expression has; raises Undecided."""
        value = self.value(node, frame)
        if not isinstance(value, int | float):
            raise Undecided("it is no number")
        return value

    def value(self, node: Node, frame: Frame | None) -> Any:
        """Return a number, a pointer or a text; raises Undecided."""
        self.spend()
        if self._depth > _MOST_DEPTH:
            raise Undecided("it lies too deep")
        self._depth += 1
        try:
            if arithmetic.is_number(node.type):
                known = constant(node.cursor)
                if known is not None and not measures_unknown(node):
                    return arithmetic.converted(known, node.type)
            found = self._value(node, frame)
            return arithmetic.converted(found, node.type) if isinstance(found, int | float) else found
        finally:
            self._depth -= 1

    def _value(self, node: Node, frame: Frame | None) -> Any:  # noqa: PLR0911  each kind of expression is one case
        inner = [each for each in node.children if each.kind not in _REFERENCES]
        if node.call is not None:
            return self._calls.value(node.call, frame)
        if node.type.kind in _ARRAYS or (node.type.kind in _POINTERS and node.kind not in _NAMES):
            return self.pointers.value(node, frame)
        if node.kind in _CASTS and inner and not node.is_recovered:
            return self.value(inner[-1], frame)
        if node.kind in _NAMES:
            return self._named(node, frame)
        if node.kind == CursorKind.BINARY_OPERATOR and len(inner) == 2:
            return self._binary(BINARY.get(operator_of(node.cursor), "?"), inner, frame)
        if node.kind == CursorKind.UNARY_OPERATOR and inner:
            return self._unary(node, inner[0], frame)
        if node.kind == CursorKind.CONDITIONAL_OPERATOR and len(inner) == 3:
            return self._conditional(inner, frame)
        if measures_unknown(node):
            raise Undecided("the size of a type is not known")
        if node.kind == CursorKind.INIT_LIST_EXPR and len(inner) == 1:
            return self.value(inner[0], frame)
        raise Undecided(_unknown(node))

    def _conditional(self, inner: list[Node], frame: Frame | None) -> Any:
        condition = self.truth(inner[0], frame)
        if condition is not None:
            return self.value(inner[1] if condition else inner[2], frame)
        first, second = (self.value(each, frame) for each in inner[1:])
        if first != second:
            raise Undecided("it depends on a condition that is not known")
        return first

    def _binary(self, operator: str, inner: list[Node], frame: Frame | None) -> Number:
        if operator in {"=", ","}:
            return self.number(inner[1], frame)
        if operator in {"&&", "||"}:
            return self._logical(operator == "||", inner, frame)
        return arithmetic.binary(operator, self.number(inner[0], frame), self.number(inner[1], frame))

    def _logical(self, absorbing: bool, inner: list[Node], frame: Frame | None) -> int:
        left, right = (self.truth(each, frame) for each in inner)
        if absorbing in {left, right}:
            return int(absorbing)
        if left is None or right is None:
            raise Undecided("it depends on a condition that is not known")
        return int(not absorbing)

    def _unary(self, node: Node, inner: Node, frame: Frame | None) -> Any:
        operator = UNARY.get(operator_of(node.cursor), "?")
        if operator == "*":
            return self._named(node, frame)
        if operator in {"++", "--"}:
            changed = operator_of(node.cursor) in _CHANGED_FIRST
            return self.number(inner, frame) + (1 if operator == "++" else -1) * changed
        return arithmetic.unary(operator, self.number(inner, frame))

    def _named(self, node: Node, frame: Frame | None) -> Any:
        """Return the value of a variable, an element or a field where it stands."""
        meant = node.meant
        if meant is not None and meant.kind == CursorKind.ENUM_CONSTANT_DECL:
            return int(meant.enum_value)
        place = place_of(node)
        if place is None:
            raise Undecided(_unknown(node))
        if meant is not None and _shares_bytes(meant):
            raise Undecided(f"{node.name} shares its bytes with other fields")
        return self.at(place, Moment(node.order, node.function, frame), node)

    def at(self, place: Place, moment: Moment, node: Node | None = None) -> Any:
        """Return the value of a variable, or of a part of one, at a moment; raises Undecided."""
        self.spend()
        if (held := self.command_line.held(place, moment)) is not None:
            return held
        if self.program.is_kept(place.root):
            raise Undecided(f"{self.program.name_of(place.root)} keeps its value between calls")
        place = Place(place.root, tuple(self._indexed(step, moment.frame) for step in place.path))
        return self.reaching.value(place, moment, self.read, partial(self._first, place, node))

    def _indexed(self, step: Step, frame: Frame | None) -> Step:
        """Return an index as the number that it has where it stands; as it is where that is not known."""
        try:
            return int(self.number(step, frame)) if isinstance(step, Node) else step
        except (Undecided, LookupError):
            return step

    def _first(self, asked: Place, node: Node | None, place: Place, moment: Moment) -> Any:
        """Return the value of a variable that nothing on the way to a moment sets; raises Undecided."""
        if place.root in self.program.parameters:
            if place == asked:
                return self.parameters.value(place, moment)
            try:
                return self.parameters.value(place, moment)
            except (LookupError, Undecided):
                return self._field(asked.root, self.program.field_name(asked.root) or "")
        if node is not None and node.kind == CursorKind.MEMBER_REF_EXPR:
            return self._field(node.key, node.name)
        is_field = self.declared(asked.root) is None and asked.root in self.program.fields
        if node is not None and not asked.path and is_field:
            return self._field(asked.root, node.name)
        return self._never_written(place, moment, node)

    def _never_written(self, place: Place, moment: Moment, node: Node | None) -> Any:
        """Return the value of a variable that nothing on the way from main to the moment writes."""
        declared = self.program.tree.globals.get(place.root)
        if declared is None:
            name = node.name if node is not None else ""
            raise Undecided(f"{name or 'it'} is set nowhere here")
        written = list(self.program.writes.get(place.root, ()))
        first = [each for each in written if each.node.function is declared]
        if len(first) == len(written) or self._begins_in_main(moment):
            if self.program.changes_at_start(place.root):
                raise Undecided(f"{declared.name} may change before main")
            if self.program.main is None and self.program.is_shared(place.root):
                self.note(f"{declared.name} is taken not to change in sources that are not read")
            if first:
                return self.read(first[-1], place.path, None)
            if not declared.cursor.is_definition() and declared.cursor.storage_class == StorageClass.EXTERN:
                raise Undecided(f"{declared.name} is set in another file")
            if arithmetic.is_number(declared.type):
                return 0
        if place.path:
            raise Undecided(f"{declared.name} is set by code that is not followed")
        return self._any_write(written)

    def _begins_in_main(self, moment: Moment) -> bool:
        """Whether the calls that lead to a moment are known from the beginning of the program."""
        function, frame = moment.function, moment.frame
        for _ in range(_MOST_DEPTH):
            call = frame.call if frame is not None and frame.function is function else None
            call = call or self.program.caller.get(function.order)
            if call is None:
                break
            function = call.node.function
            frame = frame.outer if frame is not None else None
        return function is self.program.main

    def _any_write(self, writes: list[Write], *, has_others: bool = False) -> Any:
        """Return what all writes of a program give, wherever they stand, or the only one but for a first value."""
        self.is_of_any_object = True
        found = []
        later = [each for each in writes if each.node.function.kind not in _DECLARED] or writes
        if has_others:
            later = writes
        for write in later:
            if write.kind is WriteKind.UPDATE:
                raise Undecided(f"it changes at {self.where(write.node)}")
            found.append(self.read(write, (), None))
        if not found:
            raise Undecided("it is set nowhere here")
        if any(each != found[0] for each in found):
            raise Undecided(f"it is set to different values at {', '.join(self.where(w.node) for w in later[:3])}")
        if later[0].node.function.kind not in _DECLARED:
            self.note(f"as set at {self.where(later[0].node)}")
        return found[0]

    def _field(self, key: int, name: str) -> Any:
        writes = [each for each in self.program.fields.get(key, ()) if each.place.path[-1:] in {(), (name,)}]
        if not writes:
            raise Undecided(f"the field {name} is set nowhere here")
        line = self.program.changes_unseen_anywhere(name)
        if line is not None:
            raise Undecided(f"the field {name} changes in code that is not followed, line {line}")
        return self._any_write(writes, has_others=self.program.has_several_objects(key))

    def part(  # noqa: PLR0911  each kind of expression is one case
        self, node: Node, path: tuple[Step, ...], frame: Frame | None
    ) -> Any:
        """Return a part of what an expression gives: a field, an element, what it points to; raises Undecided."""
        self.spend()
        node = node.plain
        if not path:
            return self.value(node, frame)
        if node.kind == CursorKind.UNARY_OPERATOR and UNARY.get(operator_of(node.cursor)) == "&" and node.children:
            rest = path[1:] if path[0] == POINTEE else path
            return self.part(node.children[0], rest, frame)
        place = place_of(node)
        if place is not None:
            whole = Place(place.root, (*place.path, *path))
            member = node if node.kind == CursorKind.MEMBER_REF_EXPR else None
            return self.at(whole, Moment(node.order, node.function, frame), member)
        call = node.call
        if call is not None:
            return self._calls.part(call, path, frame)
        inner = [each for each in node.children if each.kind not in _REFERENCES]
        if node.kind == CursorKind.INIT_LIST_EXPR:
            if any(each.type.kind == TypeKind.VOID for each in inner):
                raise Undecided("the list names its fields")
            which = self.member_index(node, path[0], frame)
            if which < len(inner):
                return self.part(inner[which], path[1:], frame)
            return 0
        if node.kind == CursorKind.CONDITIONAL_OPERATOR and len(inner) == 3:
            condition = self.truth(inner[0], frame)
            if condition is not None:
                return self.part(inner[1] if condition else inner[2], path, frame)
        raise Undecided(_unknown(node))

    def member_index(self, node: Node, step: Step, frame: Frame | None) -> int:
        """Return which one of an initial list a field or an index means."""
        if isinstance(step, Node):
            return int(self.number(step, frame))
        if isinstance(step, int) or step == POINTEE:
            return step if isinstance(step, int) else 0
        names = [field.spelling for field in node.type.get_fields()]
        if step not in names:
            raise Undecided(f"there is no field {step}")
        return names.index(step)

    def read(self, write: Write, rest: tuple[Step, ...], frame: Frame | None) -> Any:
        """Return what a write gives; raises Undecided, or LookupError where it gives nothing."""
        self.spend()
        if write.kind is WriteKind.SHARED:
            raise Undecided(f"it may change through what points to it since {self.where(write.node)}")
        if write.kind is WriteKind.PASSED:
            return self._calls.passed(write, rest, frame)
        if write.kind is WriteKind.UPDATE:
            return self._updated(write, frame)
        if write.value is None:
            raise LookupError
        if rest or _refers(write.node):
            self._check_later(write)
        if rest:
            return self.part(write.value, rest, frame)
        if is_declared_here(write.node.type):
            raise Undecided("its type is not known")
        value = self.value(write.value, frame)
        return arithmetic.converted(value, write.node.type) if isinstance(value, int | float) else value

    def _check_later(self, write: Write) -> None:
        """Raise Undecided where what a pointer or a reference is made of changes afterwards."""
        value = write.value.plain if write.value is not None else write.node
        if value.kind == CursorKind.UNARY_OPERATOR and value.children:
            value = value.children[0].plain
        elif value.type.kind not in _ARRAYS | _POINTERS and not _refers(write.node):
            return
        place = place_of(value)
        for other in self.program.writes.get(place.root, ()) if place is not None else ():
            is_later = other.node.function is write.node.function and other.node.order > write.node.last
            if is_later and other.kind is not WriteKind.SHARED:
                name = self.program.name_of(other.place.root)
                raise Undecided(f"{name or 'it'} changes at {self.where(other.node)} behind what refers to it")

    def _updated(self, write: Write, frame: Frame | None) -> Number:
        before = self.at(write.place, Moment(write.node.order, write.node.function, frame), write.node.children[0])
        operator = operator_of(write.node.cursor)
        if write.value is None:
            sign = 1 if UNARY.get(operator) == "++" else -1
            symbol, operand = "+", sign
        else:
            symbol, operand = BINARY.get(operator, "?")[:-1], self.value(write.value, frame)
        if not isinstance(before, int | float) or not isinstance(operand, int | float):
            raise Undecided("a pointer that is moved")
        return arithmetic.converted(arithmetic.binary(symbol, before, operand), write.node.type)


def _refers(node: Node) -> bool:
    """Whether a reference is declared."""
    kinds = {TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE}
    return node.kind == CursorKind.VAR_DECL and node.type.kind in kinds


def _shares_bytes(meant: Cursor) -> bool:
    """Whether a field is one of a union, or some bits of a number."""
    if meant.kind != CursorKind.FIELD_DECL:
        return False
    return bool(meant.semantic_parent.kind == CursorKind.UNION_DECL or meant.is_bitfield())


def _unknown(node: Node) -> str:
    if node.meant is not None and node.name:
        return f"{node.name} is not known here"
    return "it is not plain enough to be followed"
