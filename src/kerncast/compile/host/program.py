"""Who writes which variable of host code, who calls whom: the tree of its functions, indexed."""

from clang.cindex import Cursor, CursorKind, LinkageKind, StorageClass

from kerncast.compile.headers import header_folders
from kerncast.compile.host.dropped import Dropped
from kerncast.compile.host.libclang import identity
from kerncast.compile.host.tree import FUNCTIONS, Call, Node, Tree
from kerncast.compile.host.writes import Write, WriteKind, field_keys, written
from kerncast.compile.source.parsing import SHIM_FOLDER, qualified_name

#: Stands among the effects of a function for all variables that other sources may change.
SHARED_GLOBALS = 0


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
        self.fields_meant: dict[int, Cursor] = {}
        """the fields that functions name, by their key"""
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
