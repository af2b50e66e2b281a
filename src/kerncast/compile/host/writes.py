"""Where host code writes its variables: assignments, calls that get addresses, and what else may change them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from clang.cindex import Cursor, CursorKind, Type, TypeKind

from kerncast.compile.host.arithmetic import BINARY, UNARY, is_number
from kerncast.compile.host.declarations import UNKNOWN
from kerncast.compile.host.libclang import operator_of, parameter_types
from kerncast.compile.host.tree import FUNCTIONS, Call, Node

#: An element of a path: the name of a field, an index, or ``*`` for what a pointer points to.
Step = str | int | Node
POINTEE = "*"
RECEIVER, ANYHOW = -1, -2

_REFERENCES = {CursorKind.TYPE_REF, CursorKind.TEMPLATE_REF, CursorKind.NAMESPACE_REF}
_ARRAYS = {TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY, TypeKind.VARIABLEARRAY}
_RESIZING = {"resize", "assign", "push_back", "emplace_back", "insert", "clear", "pop_back", "swap"}
#: Expressions through which a pointer passes into what is made of them.
_VALUES = {CursorKind.CONDITIONAL_OPERATOR, CursorKind.INIT_LIST_EXPR, CursorKind.BINARY_OPERATOR}
_NAMES = {CursorKind.DECL_REF_EXPR, CursorKind.MEMBER_REF_EXPR, CursorKind.ARRAY_SUBSCRIPT_EXPR}
_OPERATORS = {
    CursorKind.BINARY_OPERATOR: 2, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR: 2, CursorKind.UNARY_OPERATOR: 1,
}  # fmt: skip
#: Operators that a class defines to change its object.
_CHANGING = re.compile(r"operator(?:\+\+|--|(?:<<|>>|[-+*/%&|^])=)\Z")


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
        target = _of_address(inner[0])
        if target is not None:
            return place_of(target)
        base = place_of(inner[0])
        return Place(base.root, (*base.path, POINTEE)) if base else None
    return None


def _of_address(node: Node) -> Node | None:
    """Return what the address is taken of; None where an expression is no address."""
    plain = node.plain
    is_address = plain.kind == CursorKind.UNARY_OPERATOR and UNARY.get(operator_of(plain.cursor)) == "&"
    return plain.children[0] if is_address and plain.children else None


def initial_value(declared: Node) -> Node | None:
    """Return the expression that a declaration gives its variable; None where it gives none."""
    inner = [each for each in declared.children if each.kind not in _REFERENCES and each.kind.is_expression()]
    if not inner:
        return None
    if declared.type.kind in _ARRAYS:
        return inner[-1] if inner[-1].kind in {CursorKind.INIT_LIST_EXPR, CursorKind.STRING_LITERAL} else None
    return inner[-1]


def written(node: Node, callee: Node | None) -> Iterator[Write]:
    """Yield what one node writes itself."""
    if node.kind in _OPERATORS and len(node.children) < _OPERATORS[node.kind]:
        return  # the parser has left out an operand
    if node.kind in {CursorKind.VAR_DECL, CursorKind.FIELD_DECL}:
        value = initial_value(node)
        if value is not None:
            yield Write(node, Place(node.key), WriteKind.VALUE, value)
            yield from _shared(node, value)
    elif node.kind == CursorKind.CONSTRUCTOR:
        yield from _constructed(node)
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
    elif node.kind == CursorKind.RETURN_STMT and node.children:
        yield from _returned(node)
    elif node.call is not None and node.call.configuration is None:
        yield from _passed(node.call, callee)


def _constructed(node: Node) -> Iterator[Write]:
    for member, value in zip(node.children, node.children[1:], strict=False):
        if member.kind == CursorKind.MEMBER_REF:
            yield Write(member, Place(member.key), WriteKind.VALUE, value)
            yield from _kept(member, value)


def _kept(member: Node, value: Node) -> Iterator[Write]:
    """Yield a write of what an object keeps a pointer or a reference to."""
    place = place_of(value)
    type_ = member.meant.type.get_canonical() if member.meant is not None else None
    if place is not None and type_ is not None and type_.kind == TypeKind.LVALUEREFERENCE:
        yield Write(member, place, WriteKind.SHARED)
    elif place is not None and type_ is not None and _is_pointer_to_change(type_):
        yield Write(member, Place(place.root, (*place.path, POINTEE)), WriteKind.SHARED)


def _assigned(node: Node, target: Node, value: Node | None, kind: WriteKind) -> Iterator[Write]:
    place = place_of(target)
    if place is not None:
        yield Write(node, place, kind, value)
    else:
        yield from _shared_names(node, target)


def _shared(node: Node, value: Node) -> Iterator[Write]:
    """Yield a write of each variable that a pointer or a reference is made of, through which it may change later."""
    if node.type.kind in _ARRAYS and node.type.element_type.get_pointee().kind == TypeKind.VOID:
        return  # the arguments of a launch
    if node.kind == CursorKind.VAR_DECL and _is_reference(node.cursor):
        yield from _shared_names(node, value)
        return
    waiting = [value]
    while waiting:
        each = waiting.pop().plain
        if each.kind in _VALUES:
            waiting += each.children
            if any(_is_reference(field) for field in each.type.get_fields()):
                yield from (write for child in each.children for write in _shared_names(node, child))
        elif (target := _of_address(each)) is not None:
            yield from _shared_names(node, target)
        elif each.type.kind in _ARRAYS and _is_pointer_to_change(node.type):
            yield from _shared_names(node, each)
        elif _is_pointer_to_change(each.type) and _is_pointer_to_change(node.type):
            place = place_of(each)
            if place is not None:
                yield Write(node, Place(place.root, (*place.path, POINTEE)), WriteKind.SHARED)


def _shared_names(node: Node, value: Node) -> Iterator[Write]:
    """Yield a write of each variable that an expression may name."""
    plain = value.plain
    if plain.kind == CursorKind.CONDITIONAL_OPERATOR:
        for each in plain.children[1:]:
            yield from _shared_names(node, each)
    place = place_of(plain)
    if place is not None:
        yield Write(node, place, WriteKind.SHARED)


def _is_pointer_to_change(type_: Type) -> bool:
    return type_.kind == TypeKind.POINTER and not type_.get_pointee().is_const_qualified()


def _returned(node: Node) -> Iterator[Write]:
    """Yield a write of a global or a field that a function gives others to change."""
    value = node.children[0]
    result = node.function.cursor.result_type.get_canonical()
    if result.kind == TypeKind.LVALUEREFERENCE and not result.get_pointee().is_const_qualified():
        yield from _shared_names(node, value)
    elif (target := _of_address(value)) is not None and _is_pointer_to_change(result):
        yield from _shared_names(node, target)


def _passed(call: Call, callee: Node | None) -> Iterator[Write]:
    if call.name == "operator=" and len(call.arguments) == 2:
        yield from _assigned(call.node, call.arguments[0], call.arguments[1], WriteKind.VALUE)
        return
    yield from _changed_object(call, callee)
    found = list(_addressed(call, callee))
    for each in found:
        is_twice = not each.is_through and sum(other.place == each.place for other in found) > 1
        yield replace(each, kind=WriteKind.SHARED) if is_twice else each


def _changed_object(call: Call, callee: Node | None) -> Iterator[Write]:
    """Yield a write of the object whose method is called."""
    target, is_through = None, False
    is_method = callee is not None and callee.kind == CursorKind.CXX_METHOD and not callee.cursor.is_const_method()
    if is_method and call.arguments and call.receiver is None and call.name.startswith("operator"):
        yield from _shared_names(call.node, call.arguments[0])
    elif is_method and call.receiver is not None and call.receiver.plain.call is not None:
        yield from _shared_names(call.node, _first_receiver(call.receiver))
    elif _CHANGING.match(call.name) and call.arguments and call.receiver is None:
        target = call.arguments[0]
    elif call.receiver is not None and call.name in _RESIZING:
        target = call.receiver
    elif call.receiver is not None and is_method:
        target, is_through = call.receiver, True
    elif call.callee is not None and call.callee.plain.type.kind == TypeKind.RECORD and call.target is not None:
        # A method that the parser does not know stands for its object.
        target = call.callee if call.target.kind == CursorKind.VAR_DECL and call.name != "operator()" else None
    place = place_of(target) if target is not None else None
    if place is not None:
        yield Write(call.node, place, WriteKind.PASSED, None, call, RECEIVER, is_through)


def _first_receiver(node: Node) -> Node:
    """Return the object at the beginning of a chain of methods."""
    while node.plain.call is not None and node.plain.call.receiver is not None:
        node = node.plain.call.receiver
    return node


def _addressed(call: Call, callee: Node | None) -> Iterator[Write]:
    """Yield a write of each variable whose address, or a reference to it, is passed."""
    parameters = callee.parameters if callee else []
    by_reference = call.name in {"swap", "operator>>", "exchange"}
    for which, argument in enumerate(call.arguments):
        plain, is_through = argument.plain, False
        target = _of_address(plain)
        if target is not None:
            place = place_of(target)
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
        elif _may_be_written_through(argument, callee) or (callee is None and _takes_array(call, which)):
            place, is_through = _base(argument), True
        else:
            continue
        if place is not None:
            yield Write(call.node, place, WriteKind.PASSED, None, call, which, is_through)


def _base(argument: Node) -> Place | None:
    """Return the variable that a pointer, or the sum of one and a number, is made of."""
    plain = argument.plain
    if plain.kind == CursorKind.BINARY_OPERATOR and plain.children:
        return _base(plain.children[0])
    return place_of(plain)


def _takes_array(call: Call, which: int) -> bool:
    """Whether a function that is not known may write an array of the host."""
    plain = call.arguments[which].plain
    if plain.kind == CursorKind.BINARY_OPERATOR and plain.children:
        plain = plain.children[0].plain
    is_array = plain.type.kind in _ARRAYS and plain.type.element_type.kind != TypeKind.POINTER
    if not is_array or plain.kind == CursorKind.STRING_LITERAL:
        return False
    types = parameter_types(call.target)
    type_ = types[which].get_canonical() if which < len(types) else None
    return type_ is None or type_.kind != TypeKind.POINTER or not type_.get_pointee().is_const_qualified()


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


def field_keys(write: Write) -> Iterator[int]:
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


def happens_at(write: Write) -> int:
    """Return when a write happens: behind the call that it is an argument of, behind the value that it takes."""
    return write.node.last if write.kind is not WriteKind.PASSED else write.node.order
