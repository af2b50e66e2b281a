"""The host functions of a source as a tree of nodes in the order of the text, with instances of templates.

libclang shows the body of an instance only behind a reference to it; here it stands beside the other functions, with
the types and numbers of the instance in place of the template's parameters.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from clang.cindex import Cursor, CursorKind, LinkageKind, StorageClass, Type, TypeKind, conf

from kerncast.compile.host.libclang import constant, identity, is_declared_here, is_stand_in

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
        """the highest order inside it"""
        self.children: list[Node] = []

    @cached_property
    def name(self) -> str:
        """What is declared or named; of an unresolved name, its text."""
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
        """What tells declarations apart: 0 where none is named."""
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
        """grid, block, shared memory and stream, where this launches a kernel"""
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
        """whether functions are left out, because there is too much"""
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
