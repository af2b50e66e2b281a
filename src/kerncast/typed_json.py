"""Frozen dataclasses as JSON, and back by their annotations: what is read is checked, and nothing of it is executed."""

import base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
#: Key of a field's metadata that tells that older texts do not have it; it needs a default.
LATER = "later"


def to_json(value: Any) -> Any:
    """Return a value as JSON holds it: dataclasses as objects, tuples as lists, bytes in base64, paths as texts.

    A class is its name. Raises TypeError for what has no form here.
    """
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return [[to_json(key), to_json(each)] for key, each in value.items()]
    if isinstance(value, tuple | list | frozenset):
        return [to_json(each) for each in (sorted(value) if isinstance(value, frozenset) else value)]
    return _plain(value)


def _plain(value: Any) -> Any:
    """Return a value without parts."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, Path | bytes):
        return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "item"):  # a scalar of NumPy
        return value.item()
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def from_json(kind: type[T], data: Any) -> T:
    r"""Return the value of this type that ``to_json`` has made the data of; raises ValueError for any other data.

    >>> from_json(tuple[int | None, ...], [1, None]), from_json(bytes, "AQI=")
    ((1, None), b'\x01\x02')
    """
    found: T = _read(kind, data)
    return found


def _read(kind: Any, data: Any) -> Any:
    origin = get_origin(kind)
    if origin in {Union, UnionType}:
        return _read_one_of(get_args(kind), data)
    if origin is not None:
        return _read_several(origin, get_args(kind), data)
    if is_dataclass(kind):
        return _read_fields(kind, data)
    if kind in _FROM_TEXT and isinstance(data, str):
        return _FROM_TEXT[kind](data)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    # True is no number here. A whole number may stand for a real one, and stays one, so that it is shown as it was.
    if type(data) is not kind and not (kind is float and type(data) is int):
        raise ValueError(f"a {type(data).__name__} stands where {kind} should")
    return data


_FROM_TEXT: dict[Any, Callable[[str], Any]] = {bytes: partial(base64.b64decode, validate=True), Path: Path}


def _read_one_of(kinds: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in kinds:
        return None
    for kind in kinds:
        with suppress(ValueError):
            return _read(kind, data)
    raise ValueError(f"a {type(data).__name__} is none of {kinds}")


def _read_kind(base: type, data: Any) -> type:
    """Return the class of this name, which is ``base`` or made from it."""
    waiting = [base]
    while waiting:
        found = waiting.pop()
        if found.__name__ == data:
            return found
        waiting += found.__subclasses__()
    raise ValueError(f"no {base.__name__} is called so")


def _read_several(origin: Any, kinds: tuple[Any, ...], data: Any) -> Any:
    if origin is type:
        return _read_kind(kinds[0], data)
    if not isinstance(data, list):
        raise ValueError(f"a {type(data).__name__} stands where a list should")  # noqa: TRY004  as the others
    if origin is tuple:
        each_kind = kinds[:1] * len(data) if kinds[-1] is Ellipsis else kinds
        return tuple(_read(kind, each) for kind, each in zip(each_kind, data, strict=True))
    if origin is frozenset:
        return frozenset(_read(kinds[0], each) for each in data)
    return {_read(kinds[0], key): _read(kinds[1], each) for key, each in data}


def _read_fields(kind: Any, data: Any) -> Any:
    types = _types_of(kind)
    if not isinstance(data, dict) or not types.keys() - _later(kind) <= data.keys() <= types.keys():
        raise ValueError(f"an object with {', '.join(types)} should stand here")
    return kind(**{name: _read(types[name], each) for name, each in data.items()})


@cache
def _later(kind: type) -> frozenset[str]:
    """Return the fields that older texts do not have."""
    return frozenset(each.name for each in fields(kind) if each.metadata.get(LATER))


@cache
def _types_of(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
