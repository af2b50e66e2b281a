"""Statements that a jump may leave out, or repeat: what stands behind a return, or between a goto and its label."""

from clang.cindex import CursorKind

from kerncast.compile.host.tree import Node

_LEAVING = {CursorKind.RETURN_STMT, CursorKind.CXX_THROW_EXPR, CursorKind.GOTO_STMT}


class Jumps:
    """The returns of functions, and their gotos with the order of the label."""

    def __init__(self) -> None:
        self._returns: dict[int, list[Node]] = {}
        self._gotos: dict[int, list[tuple[Node, int]]] = {}

    def over(self, node: Node, function: Node, order: int) -> list[Node]:
        """Return the jumps that leave a statement out on the way to a moment of this order."""
        self._find(function)
        found = [jump for jump, label in self._gotos[function.order] if jump.order < node.order < label <= order]
        if order > function.last:
            found += [each for each in self._returns[function.order] if each.last < node.order]
        return found

    def back(self, node: Node, function: Node, order: int) -> list[Node]:
        """Return the jumps back that repeat a statement before a moment of this order."""
        self._find(function)
        return [jump for jump, label in self._gotos[function.order] if label < node.order < jump.order < order]

    def leaves(self, last: Node, function: Node, order: int) -> bool:
        """Whether a statement leaves the function, or jumps behind a moment of this order inside it."""
        if last.kind not in _LEAVING or order > function.last:
            return False
        self._find(function)
        labels = [label for jump, label in self._gotos[function.order] if jump is last]
        return last.kind != CursorKind.GOTO_STMT or all(label > order for label in labels)

    def _find(self, function: Node) -> None:
        if function.order in self._returns:
            return
        nodes = list(function.walk())
        labels = {node.name: node.order for node in nodes if node.kind == CursorKind.LABEL_STMT}
        self._gotos[function.order] = [
            (node, labels.get(node.children[0].name, function.last))
            for node in nodes
            if node.kind == CursorKind.GOTO_STMT and node.children
        ]
        self._returns[function.order] = [
            node
            for node in nodes
            if node.kind == CursorKind.RETURN_STMT
            and not any(parent.kind == CursorKind.LAMBDA_EXPR for parent, _ in node.ancestors())
        ]
