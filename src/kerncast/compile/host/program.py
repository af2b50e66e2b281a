"""Who writes which variable of host code, who calls whom: the tree of its functions, indexed."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from clang.cindex import Cursor, CursorKind, TypeKind

from kerncast.compile.host.arithmetic import BINARY, UNARY, is_number
from kerncast.compile.host.declarations import UNKNOWN
from kerncast.compile.host.dropped import Dropped
from kerncast.compile.host.libclang import operator_of
from kerncast.compile.host.tree import FUNCTIONS, Call, Node, Tree

#: An element of a path: the name of a field, an index, or ``*`` for what a pointer points to.
Step = str | int | Node
POINTEE = "*"
RECEIVER, ANYHOW = -1, -2

_REFERENCES = {CursorKind.TYPE_REF, CursorKind.TEMPLATE_REF, CursorKind.NAMESPACE_REF}
_ARRAYS = {TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY, TypeKind.VARIABLEARRAY}
_RESIZING = {"resize", "assign", "push_back", "emplace_back", "insert", "clear", "pop_back", "swap"}


_OPERATORS = {
    CursorKind.BINARY_OPERATOR: 2, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR: 2, CursorKind.UNARY_OPERATOR: 1,
}  # fmt: skip


_NAMES = {CursorKind.DECL_REF_EXPR, CursorKind.MEMBER_REF_EXPR, CursorKind.ARRAY_SUBSCRIPT_EXPR}


class WriteKind(Enum):
    """How a variable gets a value."""

    VALUE = "value"
    UPDATE = "update"
    """from its own old value: += and the like, ++, --"""
    PASSED = "passed"
    """its address, or a reference to it, is given to a function"""
    GUESSED = "guessed"
    """it is given to a function of which nothing is known, and may be a reference there"""
    SHARED = "shared"
    """a pointer or a reference is made of it"""


@dataclass(frozen=True, slots=True)
class Place:
    """A variable, or a part of one."""

    root: int
    path: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """One place where a variable, or a part of one, gets a value."""

    node: Node
    place: Place
    kind: WriteKind
    value: Node | None = None
    call: Call | None = None
    argument: int = -1
    """which argument of the call is passed; RECEIVER for the object of a method, ANYHOW for what the function names"""
    is_through: bool = False
    """whether only what a pointer points to may be written"""


def place_of(node: Node) -> Place | None:  # noqa: PLR0911  each kind of expression is one case
    """Return the variable that an expression names; None for other expressions."""
    node = node.plain
    inner = [each for each in node.children if each.kind not in _REFERENCES]
    if node.kind == CursorKind.DECL_REF_EXPR and node.key:
        return Place(node.key)
    if node.kind == CursorKind.MEMBER_REF_EXPR:
        if not inner or inner[0].plain.kind == CursorKind.CXX_THIS_EXPR:
            return Place(node.key) if node.key else None
        base = place_of(inner[0])
        if base is None:
            return None
        path = base.path[:-1] if base.path and base.path[-1] == POINTEE else base.path
        return Place(base.root, (*path, node.name))
    if node.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR and len(inner) == 2:
        base = place_of(inner[0])
        return Place(base.root, (*base.path, inner[1])) if base else None
    if node.kind == CursorKind.UNARY_OPERATOR and UNARY.get(operator_of(node.cursor)) == "*" and inner:
        base = place_of(inner[0])
        return Place(base.root, (*base.path, POINTEE)) if base else None
    return None


def initial_value(declared: Node) -> Node | None:
    """Return the expression that a declaration gives its variable; None where it gives none."""
    inner = [each for each in declared.children if each.kind not in _REFERENCES and each.kind.is_expression()]
    if not inner:
        return None
    if declared.type.kind in _ARRAYS:
        return inner[-1] if inner[-1].kind in {CursorKind.INIT_LIST_EXPR, CursorKind.STRING_LITERAL} else None
    return inner[-1]


class Program:
    """The functions of a tree with their writes and calls."""

    def __init__(self, tree: Tree, dropped: Dropped) -> None:
        self.tree = tree
        self._dropped = dropped
        self.writes: dict[int, list[Write]] = {}
        """by the root of what is written, in the order of the text"""
        self.fields: dict[int, list[Write]] = {}
        """by the field that is written, of whatever object"""
        self.calls: dict[int, list[Call]] = {}
        """by what is called"""
        self.launches: list[Call] = []
        self.parameters: dict[int, tuple[Node, int]] = {}
        """by the key of a parameter: its function, and which one it is"""
        self.every_call: list[Call] = []
        self.locals: dict[int, Node] = {}
        """the variables that functions declare, by their key"""
        self._effects: dict[int, set[int]] = {}
        self._written_in: dict[int, list[Write]] = {}
        self._called_in: dict[int, list[Call]] = {}
        for function in [*tree.functions.values(), *tree.globals.values(), *tree.fields]:
            self._index(function)
        self.main = next((f for f in tree.functions.values() if f.name == "main"), None)
        self.caller = self._callers()

    def effects(self, function: Node) -> set[int]:
        """Return the roots that a function writes, those of the functions that it calls among them."""
        if not self._effects:
            for each in self.tree.functions.values():
                self._effects[each.order] = {w.place.root for w in self._written_in.get(each.order, ())}
            is_growing = True
            while is_growing:
                is_growing = any([self._grow(each) for each in self.tree.functions.values()])  # noqa: C419  all of them
        return self._effects.get(function.order, set())

    def _grow(self, function: Node) -> bool:
        """Add to the effects of a function those of what it calls; say whether there were more."""
        mine = self._effects[function.order]
        before = len(mine)
        for call in self.calls_in(function):
            callee = self.callee(call)
            if callee is not None:
                mine |= self._effects.get(callee.order, set())
        return len(mine) > before

    def callee(self, call: Call) -> Node | None:
        """Return the function that a call runs, where the source defines it."""
        target = call.target
        return self.tree.functions.get(int(target.canonical.hash)) if target is not None else None

    def name_of(self, root: int) -> str:
        """Return the name of a variable by its key; empty where it is not known."""
        if root in self.parameters:
            function, which = self.parameters[root]
            return [each for each in function.children if each.kind == CursorKind.PARM_DECL][which].name
        node = self.locals.get(root) or self.tree.globals.get(root)
        return node.name if node is not None else ""

    def changes_unseen(self, function: Node, name: str) -> int | None:
        """Return the line where a function seems to change a name in code that the parser dropped; else None."""
        return self._dropped.names(function).get(name) if name else None

    def changes_unseen_anywhere(self, name: str) -> int | None:
        """Return the line where any function does so."""
        lines = (self.changes_unseen(each, name) for each in self.tree.functions.values())
        return next((line for line in lines if line is not None), None)

    def calls_in(self, function: Node) -> list[Call]:
        """Return the calls of a function in the order of the text."""
        return self._called_in.get(function.order, [])

    def _index(self, function: Node) -> None:
        parameters = [each for each in function.children if each.kind == CursorKind.PARM_DECL]
        for place, parameter in enumerate(parameters):
            self.parameters[parameter.key] = (function, place)
        for node in function.walk():
            if node.kind == CursorKind.VAR_DECL and node is not function:
                self.locals[node.key] = node
            call = node.call
            if call is not None:
                self._index_call(call, function)
            for write in _written(node, self.callee(call) if call else None):
                self.writes.setdefault(write.place.root, []).append(write)
                self._written_in.setdefault(function.order, []).append(write)
                for key in _field_keys(write):
                    self.fields.setdefault(key, []).append(write)

    def _index_call(self, call: Call, function: Node) -> None:
        self.every_call.append(call)
        if call.configuration is not None:
            self.launches.append(call)
            return
        target = call.target
        if target is not None:
            self.calls.setdefault(int(target.canonical.hash), []).append(call)
        self._called_in.setdefault(function.order, []).append(call)

    def _callers(self) -> dict[int, Call]:
        """Return by which call each function is first reached: from main where that reaches it, else from any."""
        found: dict[int, Call] = {}
        starts = [self.main] if self.main is not None else []
        seen: set[int] = set()
        for start in [*starts, *self.tree.functions.values()]:
            stack = [start]
            while stack:
                function = stack.pop(0)
                if function.order in seen:
                    continue
                seen.add(function.order)
                for call in self.calls_in(function):
                    callee = self.callee(call)
                    if callee is not None and callee.order not in found and callee is not function:
                        if callee is not self.main:
                            found[callee.order] = call
                        stack.append(callee)
        return found


def _written(node: Node, callee: Node | None) -> Iterator[Write]:
    """Yield what one node writes itself."""
    if node.kind in _OPERATORS and len(node.children) < _OPERATORS[node.kind]:
        return  # the parser has left out an operand
    if node.kind in {CursorKind.VAR_DECL, CursorKind.FIELD_DECL}:
        value = initial_value(node)
        if value is not None:
            yield Write(node, Place(node.key), WriteKind.VALUE, value)
            yield from _shared(node, value)
    elif node.kind == CursorKind.CONSTRUCTOR:
        for member, value in zip(node.children, node.children[1:], strict=False):
            if member.kind == CursorKind.MEMBER_REF:
                yield Write(member, Place(member.key), WriteKind.VALUE, value)
    elif node.kind == CursorKind.BINARY_OPERATOR and BINARY.get(operator_of(node.cursor)) == "=":
        yield from _assigned(node, node.children[0], node.children[1], WriteKind.VALUE)
        yield from _shared(node, node.children[1])
    elif node.kind == CursorKind.BINARY_OPERATOR and BINARY.get(operator_of(node.cursor)) == ">>":
        place = place_of(node.children[1]) if not is_number(node.type) else None
        if place is not None:  # read from a stream that the parser does not know
            yield Write(node, place, WriteKind.PASSED)
    elif node.kind == CursorKind.COMPOUND_ASSIGNMENT_OPERATOR:
        yield from _assigned(node, node.children[0], node.children[1], WriteKind.UPDATE)
    elif node.kind == CursorKind.UNARY_OPERATOR and UNARY.get(operator_of(node.cursor)) in {"++", "--"}:
        yield from _assigned(node, node.children[0], None, WriteKind.UPDATE)
    elif node.call is not None and node.call.configuration is None:
        yield from _passed(node.call, callee)


def _assigned(node: Node, target: Node, value: Node | None, kind: WriteKind) -> Iterator[Write]:
    place = place_of(target)
    if place is not None:
        yield Write(node, place, kind, value)


def _shared(node: Node, value: Node) -> Iterator[Write]:
    """Yield a write of a variable that a pointer or a reference is made of, through which it may change later."""
    plain = value.plain
    is_address = plain.kind == CursorKind.UNARY_OPERATOR and UNARY.get(operator_of(plain.cursor)) == "&"
    is_reference = node.kind == CursorKind.VAR_DECL and _is_reference(node.cursor)
    if (is_address and plain.children) or is_reference:
        place = place_of(plain.children[0] if is_address else plain)
        if place is not None:
            yield Write(node, place, WriteKind.SHARED)


def _passed(call: Call, callee: Node | None) -> Iterator[Write]:
    if call.name == "operator=" and len(call.arguments) == 2:
        yield from _assigned(call.node, call.arguments[0], call.arguments[1], WriteKind.VALUE)
        return
    if call.receiver is not None and call.name in _RESIZING:
        place = place_of(call.receiver)
        if place is not None:
            yield Write(call.node, place, WriteKind.PASSED, None, call, RECEIVER)
    parameters = [each for each in callee.children if each.kind == CursorKind.PARM_DECL] if callee else []
    by_reference = call.name in {"swap", "operator>>", "exchange"}
    for which, argument in enumerate(call.arguments):
        plain, is_through = argument.plain, False
        if plain.kind == CursorKind.UNARY_OPERATOR and UNARY.get(operator_of(plain.cursor)) == "&":
            place = place_of(plain.children[0]) if plain.children else None
        elif by_reference or (which < len(parameters) and _is_reference(parameters[which].cursor)):
            place = place_of(argument)
        elif callee is None and _points_to_pointer(plain):
            place = place_of(argument)
            place = Place(place.root, (*place.path, POINTEE)) if place else None
        elif callee is None and argument.kind in _NAMES and _is_unknown(call) and not plain.type.is_const_qualified():
            guessed = place_of(argument)
            if guessed is not None:
                yield Write(call.node, guessed, WriteKind.GUESSED, None, call, which)
            continue
        elif _may_be_written_through(argument, callee):
            place, is_through = place_of(argument), True
        else:
            continue
        if place is not None:
            yield Write(call.node, place, WriteKind.PASSED, None, call, which, is_through)


def _is_unknown(call: Call) -> bool:
    """Whether only the parser's own declaration of a function is known."""
    return str(call.node.type.get_declaration().spelling) == UNKNOWN


def _points_to_pointer(node: Node) -> bool:
    """Whether a function that is not known may put another pointer behind this one."""
    return bool(node.type.kind == TypeKind.POINTER and node.type.get_pointee().kind == TypeKind.POINTER)


def _is_reference(parameter: Cursor) -> bool:
    type_ = parameter.type.get_canonical()
    return type_.kind == TypeKind.LVALUEREFERENCE and not type_.get_pointee().is_const_qualified()


def _may_be_written_through(argument: Node, callee: Node | None) -> bool:
    """Whether a function that the source defines gets a pointer to what is not const."""
    type_ = argument.plain.type
    if callee is None or callee.kind not in FUNCTIONS:
        return False
    if type_.kind in _ARRAYS:
        return True
    return type_.kind == TypeKind.POINTER and not type_.get_pointee().is_const_qualified()


def _field_keys(write: Write) -> Iterator[int]:
    """Yield the fields that a write names, in whatever object."""
    node = write.node
    if node.kind == CursorKind.FIELD_DECL:
        yield node.key
        return
    if node.kind == CursorKind.VAR_DECL:
        return
    target = node if node.kind == CursorKind.MEMBER_REF else (node.children[0].plain if node.children else node)
    if write.kind is WriteKind.PASSED and write.call is not None and write.argument >= 0:
        target = write.call.arguments[write.argument].plain
        target = target.children[0].plain if target.kind == CursorKind.UNARY_OPERATOR else target
    while target.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR and target.children:
        target = target.children[0].plain
    if target.kind in {CursorKind.MEMBER_REF_EXPR, CursorKind.MEMBER_REF} and target.key:
        yield target.key
