"""A whole number that is found when somebody reckons with it."""

import operator
from collections.abc import Callable
from functools import cached_property
from typing import Any


class LateNumber:
    """Behaves as the number that a function finds, once.

    >>> 65536 // (LateNumber(lambda: 32) * 64), LateNumber(lambda: 3) > 2
    (32, True)
    """

    def __init__(self, find: Callable[[], int]) -> None:
        self._find = find

    @cached_property
    def _value(self) -> int:
        return self._find()

    def __int__(self) -> int:
        return self._value

    __index__ = __int__

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return repr(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)


def _forward(name: str) -> Callable[[LateNumber, Any], Any]:
    def reckon(own: LateNumber, other: Any) -> Any:
        return getattr(operator, name)(int(own), other)

    return reckon


def _backward(name: str) -> Callable[[LateNumber, Any], Any]:
    def reckon(own: LateNumber, other: Any) -> Any:
        return getattr(operator, name)(other, int(own))

    return reckon


for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod"):
    setattr(LateNumber, f"__{_name}__", _forward(_name))
    setattr(LateNumber, f"__r{_name}__", _backward(_name))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(LateNumber, f"__{_name}__", _forward(_name))
