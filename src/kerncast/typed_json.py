"""Frozen dataclasses to JSON and back, by their annotations: what is read back is checked, never executed."""

import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_json(value: object) -> Any:
    """Return a value as JSON has it: a dataclass as its name and the list of its fields' values.

    Raises TypeError for what has no form here.
    """
    if is_dataclass(value):
        return {type(value).__name__: [to_json(getattr(value, field.name)) for field in fields(value)]}
    if isinstance(value, Mapping):
        return [[to_json(key), to_json(each)] for key, each in value.items()]
    if isinstance(value, tuple | frozenset):
        return [to_json(each) for each in (sorted(value) if isinstance(value, frozenset) else value)]
    return _plain(value)


def _plain(value: object) -> Any:
    """Return a value without parts."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path | bytes):
        return value.hex() if isinstance(value, bytes) else str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    # The compiler's process starts without NumPy: where it is not loaded, no value is one of its.
    if (numpy := sys.modules.get("numpy")) is not None and isinstance(value, numpy.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def from_json(kind: type[T], data: object) -> T:
    """Return the value of a kind that JSON data stands for; raises ValueError or TypeError for any other data."""
    found: T = _read(kind, data)
    return found


def _read(kind: Any, data: Any) -> Any:
    origin = get_origin(kind)
    if origin in {Union, types.UnionType}:
        return _read_one_of(get_args(kind), data)
    if origin is not None:
        return _read_several(origin, get_args(kind), data)
    if is_dataclass(kind):
        return _read_dataclass(kind, data)
    if kind in _READERS:
        return _READERS[kind](data)
    if issubclass(kind, Enum):
        return kind(data)
    return _checked(data, type(data) is kind, kind)


_READERS: dict[Any, Callable[[Any], Any]] = {
    type(None): lambda data: _checked(data, data is None, type(None)),
    Path: lambda data: Path(_checked(data, isinstance(data, str), Path)),
    bytes: lambda data: bytes.fromhex(_checked(data, isinstance(data, str), bytes)),
    # A whole number stays one, so that a report shows it as it did.
    float: lambda data: _checked(data, isinstance(data, int | float) and not isinstance(data, bool), float),
}


def _read_one_of(kinds: tuple[Any, ...], data: Any) -> Any:
    """Return what the first kind makes of the data; a dataclass is known by its name."""
    for kind in kinds:
        try:
            return _read(kind, data)
        except (TypeError, ValueError):
            continue
    raise ValueError(f"none of {kinds} fits {str(data)[:60]!r}")


def _read_several(origin: Any, kinds: tuple[Any, ...], data: Any) -> Any:
    _checked(data, isinstance(data, list), origin)
    if origin is tuple and not (len(kinds) == 2 and kinds[1] is ...):
        _checked(data, len(data) == len(kinds), origin)
        return tuple(_read(kind, each) for kind, each in zip(kinds, data, strict=True))
    if origin in {tuple, frozenset}:
        return origin(_read(kinds[0], each) for each in data)
    if issubclass(origin, Mapping):
        return {_read(kinds[0], key): _read(kinds[1], each) for key, each in data}
    raise TypeError(f"{origin} has no form in JSON")


def _read_dataclass(kind: Any, data: Any) -> Any:
    _checked(data, isinstance(data, dict) and list(data) == [kind.__name__], kind)
    values = data[kind.__name__]
    hints = _hints(kind)
    _checked(values, isinstance(values, list) and len(values) == len(hints), kind)
    return kind(**{name: _read(hint, each) for (name, hint), each in zip(hints.items(), values, strict=True)})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    known = get_type_hints(kind)
    return {field.name: known[field.name] for field in fields(kind)}


def _checked(data: Any, is_fitting: bool, kind: Any) -> Any:
    if not is_fitting:
        raise ValueError(f"{str(data)[:60]!r} is no {getattr(kind, '__name__', kind)}")
    return data
