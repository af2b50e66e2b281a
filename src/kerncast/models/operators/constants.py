"""Constants of operators' models, from ``data/operators/*.toml``: each file has a table ``constants``.

A model's frozen dataclass says which constants there are: its fields are numbers, or tuples of such dataclasses, which
the file gives as a list of tables.
"""

import math
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import kerncast
from kerncast.bounded_file import our_table
from kerncast.errors import InputError
from kerncast.typed_json import from_json

T = TypeVar("T")

#: Where the constants and the residuals of operators' models lie.
FOLDER = Path(kerncast.__path__[0]) / "data" / "operators"


@cache
def read_constants(kind: type[T], name: str) -> T:
    """Return a model's constants from the file of this name; raises InputError that names its first fault.

    >>> from dataclasses import make_dataclass
    >>> read_constants(make_dataclass("Constants", [("softness", float)]), "softmax")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    kerncast.errors.InputError: ...softmax.toml: these constants are faulty: softness is missing. Install ...
    """
    return constants_from(kind, FOLDER / f"{name}.toml")


def constants_from(kind: type[T], path: Path) -> T:
    """Return the constants of a file as the dataclass ``kind``; raises InputError that names its first fault."""
    try:
        found = our_table(path).get("constants")
    except (OSError, ValueError, RecursionError) as error:
        raise _faulty(path, f"no readable TOML file ({str(error)[:200]})") from None
    if not isinstance(found, dict):
        raise _faulty(path, "there is no table named constants")
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every kind here is a dataclass
    for name in names:
        if name not in found:
            raise _faulty(path, f"{name} is missing")
    for name, value in found.items():
        if name not in names:
            raise _faulty(path, f"{name[:40]} is no constant of this model")
        if not _is_finite(value):
            raise _faulty(path, f"{name} is not made of finite numbers")
    try:
        return from_json(kind, found)
    except ValueError as error:
        raise _faulty(path, str(error)[:200]) from None


def _is_finite(value: Any) -> bool:
    """Tell whether a value and all of its parts are finite numbers; True is none."""
    if isinstance(value, list | dict):
        return all(_is_finite(each) for each in (value.values() if isinstance(value, dict) else value))
    return type(value) in {int, float} and math.isfinite(value)


def _faulty(path: Path, what: str) -> InputError:
    return InputError(f"these constants are faulty: {what}", where=str(path), cure="Install kerncast again.")
