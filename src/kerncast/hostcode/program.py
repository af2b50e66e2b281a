"""Who writes which variable of host code, who calls whom: the tree of its functions, indexed."""

import ctypes
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

from clang.cindex import (
    Cursor,
    CursorKind,
    LinkageKind,
    SourceRange,
    StorageClass,
    TranslationUnit,
    Type,
    TypeKind,
    conf,
)

from kerncast.compile.headers import header_folders
from kerncast.compile.source.parsing import SHIM_FOLDER, qualified_name
from kerncast.hostcode.arithmetic import BINARY, UNARY, is_number
from kerncast.hostcode.parsing import (
    UNKNOWN,
    constant,
    identity,
    is_declared_here,
    is_stand_in,
    operator_of,
    parameter_types,
    written_at,
)

# The host functions of a source as a tree of nodes in the order of the text, with instances of templates.
#
# libclang shows the body of an instance only behind a reference to it; here it stands beside the other functions, with
# the types and numbers of the instance in place of the template's parameters.


#: Nodes of all functions together, and of one list of initial values; what is beyond is left out.
_MOST_NODES = 400_000
_MOST_IN_LIST = 4096
#: Nodes inside one another; a value that lies deeper is not known.
_MOST_DEEP = 300

FUNCTIONS = {CursorKind.FUNCTION_DECL, CursorKind.CXX_METHOD, CursorKind.CONSTRUCTOR, CursorKind.CONVERSION_FUNCTION}
_TEMPLATES = {CursorKind.FUNCTION_TEMPLATE}
_CLASSES = {CursorKind.STRUCT_DECL, CursorKind.CLASS_DECL, CursorKind.CLASS_TEMPLATE}
_REFERENCES = {CursorKind.TYPE_REF, CursorKind.TEMPLATE_REF, CursorKind.NAMESPACE_REF}
_CASTS = {
    CursorKind.CSTYLE_CAST_EXPR, CursorKind.CXX_STATIC_CAST_EXPR, CursorKind.CXX_REINTERPRET_CAST_EXPR,
    CursorKind.CXX_CONST_CAST_EXPR, CursorKind.CXX_FUNCTIONAL_CAST_EXPR, CursorKind.UNEXPOSED_EXPR,
    CursorKind.PAREN_EXPR,
}  # fmt: skip
_CONFIGURE = {"cudaConfigureCall", "__cudaPushCallConfiguration"}


class Node:
    """One declaration, statement or expression."""

    __slots__ = ("__dict__", "children", "cursor", "kind", "last", "order", "parent")

    def __init__(self, cursor: Cursor, parent: "Node | None", order: int) -> None:
        self.cursor = cursor
        self.kind = cursor.kind
        self.parent = parent
        self.order = order
        self.last = order
        """highest order inside the node"""
        self.children: list[Node] = []

    @cached_property
    def name(self) -> str:
        """Name that is declared or used; of an unresolved name, its text."""
        if self.cursor.spelling:
            return str(self.cursor.spelling)
        first = self.children[0] if self.children else None
        return first.name if first and first.kind == CursorKind.OVERLOADED_DECL_REF else ""

    @cached_property
    def type(self) -> Type:
        """The type without its aliases."""
        return self.cursor.type.get_canonical()

    @cached_property
    def meant(self) -> Cursor | None:
        """The declaration that is named."""
        found = self.cursor.referenced
        return found.canonical if found is not None else None

    @cached_property
    def key(self) -> int:
        """Identity of the declaration; 0 where none is named."""
        return identity(self.meant) if self.meant is not None else 0

    @property
    def line(self) -> int:
        """Line in its file."""
        return int(self.cursor.location.line)

    @property
    def file(self) -> str:
        """Path of its file."""
        return str(self.cursor.location.file.name) if self.cursor.location.file else ""

    @cached_property
    def function(self) -> "Node":
        """The function that it stands in, or the declaration at namespace scope."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    @property
    def parameters(self) -> "list[Node]":
        """The parameters that a function declares."""
        return [each for each in self.children if each.kind == CursorKind.PARM_DECL]

    def holds(self, order: int) -> bool:
        """Whether the node of this order is inside this one, or is this one."""
        return self.order <= order <= self.last

    def walk(self) -> Iterator["Node"]:
        """Yield this node and all inside it, in order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += reversed(node.children)

    def ancestors(self) -> Iterator[tuple["Node", "Node"]]:
        """Yield pairs of a parent and its child on the way up."""
        child = self
        while child.parent is not None:
            yield child.parent, child
            child = child.parent

    @cached_property
    def plain(self) -> "Node":
        """The expression inside casts and parentheses."""
        node = self
        while node.kind in _CASTS and node.call is None:
            inner = [each for each in node.children if each.kind not in _REFERENCES]
            if not inner or (len(inner) > 1 and node.kind == CursorKind.UNEXPOSED_EXPR):
                break
            node = inner[-1]  # behind the numbers of its type, such as (float (*)[4])p
        return node

    @cached_property
    def is_recovered(self) -> bool:
        """Whether this is what the parser keeps of an expression that it does not understand: some of its operands."""
        if self.kind != CursorKind.UNEXPOSED_EXPR:
            return False
        inner = [each for each in self.children if each.kind not in _REFERENCES]
        kinds = [each.cursor.type.kind for each in (self, *inner)]
        return len(inner) > 1 or (kinds[0] == TypeKind.DEPENDENT and TypeKind.DEPENDENT not in kinds[1:])

    @cached_property
    def call(self) -> "Call | None":
        """The call that this node is; None for others."""
        return _call(self)


class Call:
    """A call of a function, known or not, a constructor among them."""

    __slots__ = ("arguments", "callee", "configuration", "is_constructor", "name", "node")

    def __init__(self, node: Node, callee: Node | None, arguments: list[Node]) -> None:
        self.node = node
        self.callee = callee
        self.name = (callee.plain.name if callee is not None else "") or node.name
        self.is_constructor = callee is None
        self.configuration = next((a for a in arguments if a.call and a.call.name in _CONFIGURE), None)
        """grid, block, shared memory and stream, where this call launches a kernel"""
        self.arguments = [a for a in arguments if a is not self.configuration]

    @property
    def target(self) -> Cursor | None:
        """The declaration that is called."""
        found = self.node.meant
        return found if found is not None or self.callee is None else self.callee.plain.meant

    @property
    def receiver(self) -> Node | None:
        """The object whose method is called."""
        member = self.callee.plain if self.callee is not None else None
        if member is None or member.kind != CursorKind.MEMBER_REF_EXPR:
            return None
        inner = [each for each in member.children if each.kind not in _REFERENCES]
        return inner[0] if inner else None


def _call(node: Node) -> Call | None:  # noqa: PLR0911  each kind of expression is one case
    if node.kind not in {CursorKind.CALL_EXPR, CursorKind.UNEXPOSED_EXPR}:
        return None
    children = [each for each in node.children if each.kind not in _REFERENCES]
    if node.kind == CursorKind.UNEXPOSED_EXPR:
        # A call of something that the parser does not know.
        first = children[0] if children else None
        is_call = first is not None and first.name and first.kind == CursorKind.DECL_REF_EXPR and len(children) > 1
        return Call(node, first, children[1:]) if is_call and first is not None and _is_overloaded(first) else None
    meant = node.meant
    if meant is not None and meant.kind == CursorKind.CONSTRUCTOR:
        return Call(node, None, children)
    if meant is None and len(children) == 1 and node.type.kind == TypeKind.RECORD == children[0].type.kind:
        return Call(node, None, children)  # before C++17, a temporary is moved by a constructor without a name
    if not children:
        return Call(node, node, []) if meant is not None and meant.kind in FUNCTIONS else None
    if node.name.startswith("operator") and len(children) > 1 and children[1].plain.name.startswith("operator"):
        # Operators stand between their operands; what is called by () is no argument.
        return Call(node, children[1], children[2:] if node.name == "operator()" else [children[0], *children[2:]])
    return Call(node, children[0], children[1:])


def is_null(node: Node) -> bool:
    """Whether an expression is a null pointer as sources write it."""
    kind = node.plain.kind
    is_zero = kind == CursorKind.INTEGER_LITERAL and constant(node.plain.cursor) == 0
    return is_zero or kind in {CursorKind.CXX_NULL_PTR_LITERAL_EXPR, CursorKind.GNU_NULL_EXPR}


def measures_unknown(node: Node) -> bool:
    """Whether an expression holds the size of a type that the source does not declare."""
    sizes = (each for each in node.walk() if each.kind == CursorKind.CXX_UNARY_EXPR)
    parts = [part for each in sizes for part in each.walk() if part is not each]
    return any(is_declared_here(part.cursor.type) or is_stand_in(part.meant) for part in parts)


def last_statement(branch: Node) -> Node:
    """Return the last statement of a branch, which may stand in braces."""
    return branch.children[-1] if branch.kind == CursorKind.COMPOUND_STMT and branch.children else branch


def parts_of_if(node: Node) -> tuple[Node, list[Node]]:
    """Return the condition and the branches of an if, behind what it declares."""
    declared = 0
    while node.children[declared].kind in {CursorKind.DECL_STMT, CursorKind.VAR_DECL} and declared < 2:
        declared += 1
    return node.children[declared], node.children[declared + 1 :]


def _is_overloaded(node: Node) -> bool:
    return any(child.kind == CursorKind.OVERLOADED_DECL_REF for child in node.children)


def _defines(variable: Cursor) -> int:
    """Return how much a declaration says of a variable: in C, one without extern and without a value is a zero."""
    return 2 if variable.is_definition() else int(variable.storage_class != StorageClass.EXTERN)


class Tree:
    """All host functions that the sources of a program define, and their variables at namespace scope."""

    def __init__(self, declared: list[Cursor]) -> None:
        self.functions: dict[int, Node] = {}
        self.globals: dict[int, Node] = {}
        self.fields: list[Node] = []
        self._count = 0
        self.is_cut = False
        """whether functions are left out, because the program is too large"""
        self._waiting: dict[int, Cursor] = {}
        self._generic: list[Cursor] = []
        for cursor in declared:
            self._add(cursor)
        self._add_instances()
        self._add_generic()
        self._linked: dict[str, list[Node]] = {}
        for function in self.functions.values():
            if function.cursor.linkage == LinkageKind.EXTERNAL:
                self._linked.setdefault(function.cursor.mangled_name, []).append(function)

    def definition(self, target: Cursor) -> Node | None:
        """Return the function that a declaration stands for, in the source that names it or in another one."""
        found = self.functions.get(int(target.canonical.hash))
        if found is not None or target.kind not in FUNCTIONS:
            return found
        unit = target.translation_unit
        same = self._linked.get(target.mangled_name, ())
        return next((each for each in same if each.cursor.translation_unit is not unit), None)

    def _add(self, cursor: Cursor) -> None:
        if cursor.kind in FUNCTIONS:
            self._add_function(cursor)
        elif cursor.kind in _TEMPLATES:
            self._generic.append(cursor)
        elif cursor.kind in _CLASSES:
            for member in cursor.get_children():
                if member.kind == CursorKind.FIELD_DECL:
                    self.fields.append(self._build(member, None))
                elif member.kind in FUNCTIONS | _TEMPLATES | _CLASSES:
                    (self._generic.append if cursor.kind == CursorKind.CLASS_TEMPLATE else self._add)(member)
        elif cursor.kind == CursorKind.VAR_DECL:
            node = self._build(cursor, None)
            known = self.globals.get(node.key)
            if known is None or _defines(cursor) > _defines(known.cursor):
                self.globals[node.key] = node

    def _add_function(self, cursor: Cursor) -> None:
        kinds = {child.kind for child in cursor.get_children()}
        only_device = CursorKind.CUDADEVICE_ATTR in kinds and CursorKind.CUDAHOST_ATTR not in kinds
        if CursorKind.CUDAGLOBAL_ATTR in kinds or only_device or CursorKind.COMPOUND_STMT not in kinds:
            return
        key = int(cursor.canonical.hash)
        if self._count >= _MOST_NODES:
            self.is_cut = True
        elif key not in self.functions:
            self.functions[key] = self._build(cursor, None)

    def _add_instances(self) -> None:
        while self._waiting:
            self._add_function(self._waiting.popitem()[1])

    def _add_generic(self) -> None:
        """Add templates of which nothing makes an instance."""
        known = {(n.file, n.cursor.location.offset) for n in self.functions.values()}
        for cursor in self._generic:
            place = cursor.location
            if place.file and (place.file.name, place.offset) not in known:
                self._add_function(cursor)
        self._add_instances()

    def _build(self, cursor: Cursor, parent: Node | None, depth: int = 0) -> Node:
        node = Node(cursor, parent, self._count)
        self._count += 1
        self._note(node)
        if self._count < _MOST_NODES and depth < _MOST_DEEP:
            children: list[Any] = list(cursor.get_children())
            most = _MOST_IN_LIST if node.kind == CursorKind.INIT_LIST_EXPR else len(children)
            node.children = [self._build(child, node, depth + 1) for child in children[:most]]
        else:
            self.is_cut = self.is_cut or self._count >= _MOST_NODES
            node.kind = CursorKind.UNEXPOSED_STMT  # what is cut off is not taken for a whole
        node.last = self._count - 1
        return node

    def _note(self, node: Node) -> None:
        """Remember an instance of a template that is named here."""
        meant = node.meant if node.kind in {CursorKind.DECL_REF_EXPR, CursorKind.CALL_EXPR} else None
        if meant is None or meant.kind not in FUNCTIONS or node.key in self.functions:
            return
        is_instance = conf.lib.clang_getSpecializedCursorTemplate(meant)
        if is_instance is not None or meant.kind != CursorKind.FUNCTION_DECL:
            definition = meant.get_definition() or meant
            if definition.location.file and not definition.location.file.name.startswith("/kerncast-shims"):
                self._waiting.setdefault(int(meant.hash), definition)


# Where host code writes its variables: assignments, calls that get addresses, and what else may change them.


#: An element of a path: the name of a field, an index, or ``*`` for what a pointer points to.
Step = str | int | Node
POINTEE = "*"
RECEIVER, ANYHOW = -1, -2
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
    """The ways in which a variable gets a value."""

    VALUE = "value"
    UPDATE = "update"
    """the old value changes: += and the like, ++, --"""
    PASSED = "passed"
    """a function gets the address, or a reference"""
    GUESSED = "guessed"
    """an unknown function gets the value, and may take it by reference"""
    SHARED = "shared"
    """a pointer or a reference to the variable is made"""


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
    """number of the argument; RECEIVER for the object of a method, ANYHOW for the memory that the function names"""
    is_through: bool = False
    """whether only the target of a pointer may be written"""


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


# What the parser has left out: it drops a statement that it cannot understand, with all that is in it.
#
# A value that such a statement changes would look constant. So the text of a function is searched for what looks like
# writes, and those that the tree does not hold are remembered by the name that they change.


_NOT_CODE = re.compile(
    rb"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\r?\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
_LAUNCH = re.compile(rb"<<<|<<\s+<(?!<)|\b(?:cuda|hip)Launch(?:Cooperative)?Kernel\s*\(")
_WRITE = re.compile(
    rb"(?:\+\+|--|&|>>)\s*(?:\w+(?:\.|->))*([A-Za-z_]\w*)"
    rb"|\b([A-Za-z_]\w*)\s*(?:\[[^\[\]]*\]\s*)*(?:=(?!=)|\+=|-=|\*=|/=|%=|<<=|>>=|&=|\|=|\^=|\+\+|--)"
)


class _Ranges(ctypes.Structure):
    _fields_ = (("count", ctypes.c_uint), ("ranges", ctypes.POINTER(SourceRange)))


def skipped(unit: TranslationUnit) -> dict[str, list[tuple[int, int]]]:
    """Return what the preprocessor left out, by file: offsets from and to."""
    function = conf.lib.clang_getAllSkippedRanges
    function.argtypes, function.restype = [TranslationUnit], ctypes.POINTER(_Ranges)
    found: dict[str, list[tuple[int, int]]] = {}
    result = function(unit)
    if not result:
        return found
    for index in range(result.contents.count):
        each = result.contents.ranges[index]
        if each.start.file is not None:
            found.setdefault(each.start.file.name, []).append((each.start.offset, each.end.offset))
    return found


class Dropped:
    """Names that functions change in code that the tree does not hold."""

    def __init__(self, texts: dict[str, bytes], left_out: dict[str, list[tuple[int, int]]]) -> None:
        self._texts = {name: _code(text, left_out.get(name, ())) for name, text in texts.items()}
        self._by_function: dict[int, dict[str, int]] = {}

    def names(self, function: Node) -> dict[str, int]:
        """Return the names that a function changes unseen, each with a line."""
        if function.order not in self._by_function:
            self._by_function[function.order] = self._find(function)
        return self._by_function[function.order]

    def launches(self, seen: Iterable[Node]) -> list[tuple[str, int]]:
        """Return file and line of each launch in the text that none of those which were seen holds."""
        extents: dict[str, list[tuple[int, int]]] = {}
        for node in seen:
            extent: SourceRange = node.cursor.extent
            extents.setdefault(node.file, []).append((written_at(extent.start), written_at(extent.end)))
        return [
            (name, text.count(b"\n", 0, match.start()) + 1)
            for name, text in self._texts.items()
            for match in _LAUNCH.finditer(text)
            if not any(start <= match.start() <= end for start, end in extents.get(name, ()))
        ]

    def _find(self, function: Node) -> dict[str, int]:
        text = self._texts.get(function.file)
        extent: SourceRange = function.cursor.extent
        if text is None or function.kind in {CursorKind.VAR_DECL, CursorKind.FIELD_DECL}:
            return {}
        written = [
            (match[1] or match[2], match.start(1) if match[1] else match.start(2))
            for match in _WRITE.finditer(text, written_at(extent.start), written_at(extent.end))
        ]
        if not written:
            return {}
        seen = set(_offsets(function.walk()))
        return {
            name.decode(errors="replace"): text.count(b"\n", 0, offset) + 1
            for name, offset in written
            if offset not in seen
        }


def _offsets(nodes: Iterable[Node]) -> Iterable[int]:
    """Yield where names stand that a tree holds."""
    for node in nodes:
        cursor: Cursor = node.cursor
        if node.kind.is_expression() or node.kind.is_declaration() or node.kind.is_reference():
            yield written_at(cursor.location)
            if node.kind == CursorKind.MEMBER_REF_EXPR:
                yield written_at(cursor.extent.end) - len(node.name.encode())


def _code(text: bytes, left_out: Iterable[tuple[int, int]]) -> bytes:
    """Return a text with spaces in the place of what is no code, and of what the preprocessor left out."""
    text = _NOT_CODE.sub(lambda match: re.sub(rb"[^\n]", b" ", match[0]), text)
    for start, end in left_out:
        text = text[:start] + re.sub(rb"[^\n]", b" ", text[start:end]) + text[end:]
    return text


#: Stands among the effects of a function for all variables that other sources may change.
SHARED_GLOBALS = 0


class Program:
    """The functions of a tree with their writes and calls."""

    def __init__(self, tree: Tree, dropped: Dropped) -> None:
        self.tree = tree
        self._dropped = dropped
        self.writes: dict[int, list[Write]] = {}
        """writes by the root of the variable, in the order of the text"""
        self.fields: dict[int, list[Write]] = {}
        """writes to each field, in whatever object"""
        self.calls: dict[int, list[Call]] = {}
        """calls by the function called"""
        self.launches: list[Call] = []
        self.parameters: dict[int, tuple[Node, int]] = {}
        """function and number of each parameter, by the parameter's key"""
        self.every_call: list[Call] = []
        self.locals: dict[int, Node] = {}
        """variables that functions declare, by their key"""
        self.fields_meant: dict[int, Cursor] = {}
        """fields that functions name, by their key"""
        self._objects: dict[int, int] = {}
        self._effects: dict[int, set[int]] = {}
        self._callees: dict[int, Node | None] = {}
        self._elsewhere: dict[int, bool] = {}
        self._written_in: dict[int, list[Write]] = {}
        self._called_in: dict[int, list[Call]] = {}
        for function in [*tree.functions.values(), *tree.globals.values(), *tree.fields]:
            self._index(function)
        self.mains = [each for each in tree.functions.values() if qualified_name(each.cursor) == "main"]
        self.main = self.mains[0] if self.mains else None
        self.caller = self._callers()

    def effects(self, function: Node) -> set[int]:
        """Return the roots that a function writes, those of the functions that it calls among them."""
        if not self._effects:
            for each in self.tree.functions.values():
                self._effects[each.order] = {w.place.root for w in self._written_in.get(each.order, ())}
                if any(self.is_elsewhere(call) for call in self.calls_in(each)):
                    self._effects[each.order].add(SHARED_GLOBALS)
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
        """Return the function that a call runs, where the sources define it."""
        order = call.node.order
        if order not in self._callees:
            self._callees[order] = self.tree.definition(call.target) if call.target is not None else None
        return self._callees[order]

    def is_elsewhere(self, call: Call) -> bool:
        """Whether a call runs a function that the sources declare, and another one that is not read defines."""
        order = call.node.order
        if order not in self._elsewhere:
            self._elsewhere[order] = self.callee(call) is None and self._is_declared_only(call)
        return self._elsewhere[order]

    def _is_declared_only(self, call: Call) -> bool:
        target = call.target
        if target is None or target.kind not in FUNCTIONS:
            return False
        place, here = target.location, call.node.cursor.location
        if place.file is None or place.file.name.startswith((SHIM_FOLDER, *map(str, header_folders()))):
            return False
        is_implicit = (place.file.name, place.offset) == (call.node.file, here.offset)  # of C: mostly of its library
        kinds = {child.kind for child in target.get_children()}
        is_read = CursorKind.COMPOUND_STMT in kinds and not self.tree.is_cut
        return not is_implicit and not is_read and CursorKind.CUDAGLOBAL_ATTR not in kinds

    def is_shared(self, root: int) -> bool:
        """Whether other sources may change a variable at namespace scope."""
        node = self.tree.globals.get(root)
        is_external = node is not None and node.cursor.linkage == LinkageKind.EXTERNAL
        return node is not None and is_external and not node.type.is_const_qualified()

    def field_name(self, key: int) -> str | None:
        """Return the name of a field by its key; None for what is no field."""
        meant = self.fields_meant.get(key)
        return str(meant.spelling) if meant is not None else None

    def has_several_objects(self, field: int) -> bool:
        """Whether a program declares several objects of the class of a field."""
        meant = self.fields_meant.get(field)
        if meant is None:
            return False
        if not self._objects:
            for node in [*self.locals.values(), *self.tree.globals.values(), *self.tree.fields]:
                key = identity(node.type.get_declaration().canonical)
                self._objects[key] = self._objects.get(key, 0) + 1
        return self._objects.get(identity(meant.semantic_parent.canonical), 0) > 1

    def is_kept(self, root: int) -> bool:
        """Whether a variable of a function keeps its value between calls, and may change."""
        node = self.locals.get(root)
        if node is None or node.cursor.storage_class != StorageClass.STATIC or node.function is self.main:
            return False
        return any(write.node is not node for write in self.writes.get(root, ()))

    def changes_at_start(self, root: int) -> bool:
        """Whether the first value of another global shares a global, or sets it in a function that it calls."""
        shared = (each for each in self.writes.get(root, ()) if each.node.function.kind == CursorKind.VAR_DECL)
        if any(each.kind is WriteKind.SHARED for each in shared):
            return True
        callees = (self.callee(call) for each in self.tree.globals.values() for call in self.calls_in(each))
        return any(callee is not None and root in self.effects(callee) for callee in callees)

    def name_of(self, root: int) -> str:
        """Return the name of a variable by its key; empty where it is not known."""
        if root in self.parameters:
            function, which = self.parameters[root]
            return function.parameters[which].name
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
        for place, parameter in enumerate(function.parameters):
            self.parameters[parameter.key] = (function, place)
        for node in function.walk():
            is_declared = node.kind == CursorKind.VAR_DECL and node is not function
            if is_declared and node.cursor.storage_class != StorageClass.EXTERN:
                self.locals[node.key] = node
            is_member = node.kind in {CursorKind.MEMBER_REF_EXPR, CursorKind.MEMBER_REF}
            if is_member and node.meant is not None and node.meant.kind == CursorKind.FIELD_DECL:
                self.fields_meant[node.key] = node.meant
            call = node.call
            if call is not None:
                self._index_call(call, function)
            for write in written(node, self.callee(call) if call else None):
                self.writes.setdefault(write.place.root, []).append(write)
                self._written_in.setdefault(function.order, []).append(write)
                for key in field_keys(write):
                    self.fields.setdefault(key, []).append(write)

    def _index_call(self, call: Call, function: Node) -> None:
        self.every_call.append(call)
        if call.configuration is not None:
            self.launches.append(call)
            return
        callee = self.callee(call)
        if callee is not None:
            self.calls.setdefault(callee.key, []).append(call)
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


# A place in a run of host code: a function, how it was called, and how far it is.


@dataclass(frozen=True, slots=True)
class Frame:
    """A call whose function is looked into: its parameters are the arguments of this call."""

    call: Call
    function: Node
    outer: "Frame | None"


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in a function: just before the node of this order."""

    order: int
    function: Node
    frame: Frame | None
