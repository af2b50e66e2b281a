"""Arithmetic of a sweep's settings: a small part of Python's expressions, read as a tree and never executed as code.

Names stand for settings. Known are the operators of arithmetic, comparison and logic (``&&`` and ``||`` too), lists,
``[… for i in range(…)]``, indices, and the functions below. Numbers and texts are bounded in size.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kerncast.errors import InputError

Number = bool | int | float
Scalar = Number | str
Names = Mapping[str, "Scalar | tuple[Scalar, ...]"]

_LONGEST = 2000
_MOST_ITEMS = 100_000
_MOST_BITS = 256
_CURE = "Known: + - * / // % ** and or not, comparisons, lists, ceil, floor, round, abs, min, max, sqrt, log2, int."


def evaluate(text: str, names: Names, where: str = "expression") -> Any:
    """Return the number, text or tuple that an expression means; raises InputError with the place.

    >>> evaluate("ceil(N / BX) * 2", {"N": 1000, "BX": 256})
    8
    >>> evaluate("[2**i for i in range(4)]", {}), evaluate("B*B<=1024 && T == 'float'", {"B": 64, "T": "int"})
    ((1, 2, 4, 8), False)
    """
    tree = _tree(text, where)
    try:
        return _bounded(_Evaluator(names).visit(tree.body))
    except _UnknownError as error:
        raise InputError(f"{text[:80]!r}: {error}", where=where, cure=_CURE) from None
    except (ArithmeticError, ValueError, TypeError, IndexError, RecursionError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        raise InputError(
            f"{text[:80]!r} has no value: {reason}", where=where, cure="Check it for these values."
        ) from None


def names_in(text: str) -> frozenset[str]:
    """Return the names that a text mentions as an expression, those with a dot too; none where it is no expression.

    >>> sorted(names_in("ceil(N / block.x)")), sorted(names_in("f32[N] random"))
    (['N', 'block.x'], [])
    """
    try:
        tree = _tree(text, "")
    except InputError:
        return frozenset()
    bound = {_name_of(each.target) for each in ast.walk(tree) if isinstance(each, ast.comprehension)}
    called = {id(each.func) for each in ast.walk(tree) if isinstance(each, ast.Call)}
    inner = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    found = (each for each in ast.walk(tree) if isinstance(each, ast.Name | ast.Attribute))
    return frozenset(_name_of(each) for each in found if id(each) not in called | inner) - bound - {""}


def _tree(text: str, where: str) -> ast.Expression:
    if len(text) > _LONGEST:
        raise InputError(f"{text[:40]!r}... is longer than {_LONGEST} characters", where=where)
    try:
        return ast.parse(text.replace("&&", " and ").replace("||", " or ").strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"{text[:80]!r} is not an expression", where=where, cure=_CURE) from None


class _UnknownError(Exception):
    """A part of an expression that is not known here."""


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > _MOST_BITS:
        raise OverflowError("a number that is too large")
    found = base**exponent
    if isinstance(found, complex):
        raise TypeError("a root of a negative number")
    return found


def _shift(base: int, by: int) -> int:
    if not 0 <= by <= _MOST_BITS:
        raise OverflowError(f"a shift by {by}")
    return base << by


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: _power, ast.LShift: _shift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert, ast.Not: operator.not_,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


def _range(*limits: int) -> tuple[int, ...]:
    found = range(*limits)
    if len(found) > _MOST_ITEMS:
        raise OverflowError(f"{len(found)} items")
    return tuple(found)


def _of_items(pick: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    """Return max or min: of the items of its only argument, or of its arguments, a number alone among them."""
    return lambda *values: pick(values[0] if len(values) == 1 and isinstance(values[0], tuple) else values)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil, "floor": math.floor, "round": round, "abs": abs, "min": _of_items(min), "max": _of_items(max),
    "sqrt": math.sqrt, "log2": math.log2, "int": int, "float": float, "range": _range, "list": tuple, "len": len,
    "sum": sum,
}  # fmt: skip


def _bounded(value: Any) -> Any:
    if isinstance(value, str | tuple) and len(value) > _MOST_ITEMS:
        raise OverflowError("a result that is too large")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise OverflowError("a number that is too large")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("no finite number")
    return value


class _Evaluator(ast.NodeVisitor):
    """Returns the value of each node; what it has no method for is unknown."""

    def __init__(self, names: Names) -> None:
        self._names: dict[str, Any] = dict(names)
        self._turns = 0

    def generic_visit(self, node: ast.AST) -> Any:
        raise _UnknownError(f"{type(node).__name__} is not known here")

    def visit_Constant(self, node: ast.Constant) -> Any:
        if not isinstance(node.value, bool | int | float | str):
            raise _UnknownError(f"{node.value!r} is not known here")
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        return self._named(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        return self._named(node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.visit(node.left), self.visit(node.right)
        if any(isinstance(each, str | tuple) for each in (left, right)):
            raise TypeError("arithmetic with a text or a list")
        return _bounded(
            _BINARY[type(node.op)](left, right) if type(node.op) in _BINARY else self.generic_visit(node.op)
        )

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return _UNARY[type(node.op)](self.visit(node.operand))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        value: Any = None
        for each in node.values:
            value = self.visit(each)
            if bool(value) is isinstance(node.op, ast.Or):
                break
        return value

    def visit_Compare(self, node: ast.Compare) -> bool:
        left = self.visit(node.left)
        for each, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.visit(right_node)
            if type(each) not in _COMPARE:
                return bool(self.generic_visit(each))
            if not _COMPARE[type(each)](left, right):
                return False
            left = right
        return True

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self.visit(node.body if self.visit(node.test) else node.orelse)

    def visit_List(self, node: ast.List) -> tuple[Any, ...]:
        return tuple(self.visit(each) for each in node.elts)

    def visit_Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.visit(each) for each in node.elts)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self.visit(node.value)[self.visit(node.slice)]

    def visit_ListComp(self, node: ast.ListComp) -> tuple[Any, ...]:
        loop = node.generators[0]
        if len(node.generators) > 1 or not isinstance(loop.target, ast.Name):
            raise _UnknownError("a list of several loops is not known here")
        found = []
        outer = self._names
        for item in self.visit(loop.iter):
            self._turns += 1
            if self._turns > _MOST_ITEMS:
                raise OverflowError(f"more than {_MOST_ITEMS} turns of a loop")
            self._names = {**outer, loop.target.id: item}
            if all(self.visit(each) for each in loop.ifs):
                found.append(self.visit(node.elt))
        self._names = outer
        return tuple(found)

    def visit_Call(self, node: ast.Call) -> Any:
        name = _name_of(node.func)
        if node.keywords or name not in _FUNCTIONS:
            raise _UnknownError(f"the function {name or 'called'} is not known here")
        return _FUNCTIONS[name](*(self.visit(each) for each in node.args))

    def _named(self, node: ast.expr) -> Any:
        name = _name_of(node)
        if name not in self._names:
            raise _UnknownError(f"{name or 'a name'} is not set")
        return self._names[name]


def _name_of(node: ast.expr) -> str:
    """Return a name, or two with a dot between them; empty for anything else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
