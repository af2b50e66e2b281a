"""NOUN Space: the settings that a sweep varies, and the launch that each of their combinations makes."""

import copy
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import product
from pathlib import Path
from typing import Any

from kerncast.bounded_file import read_bytes
from kerncast.compile import SOURCE_FILE
from kerncast.errors import InputError, LaunchError
from kerncast.launch import Launch, parse_launches, read_toml
from kerncast.studies.sweeps.expressions import Scalar, evaluate, names_in

#: As many as the largest search space that was measured in full, several times over.
MOST_POINTS = 1_000_000
_MOST_VALUES = 100_000
#: Steps of a real number end a little beside their last value.
_ROUNDING = 1e-8

_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?:([*+])({_NUMBER}))?")
_BUFFER = re.compile(r"(\s*[a-z]+\d+\s*\[)([^\]]*)(\].*)", re.DOTALL)
_BRACES = re.compile(r"\{([^{}]*)\}")
_CALL = re.compile(r"(ceil|floor|round|abs|min|max|sqrt|log2|int)\(")
_ARITHMETIC = re.compile(r"[\d\s.+*/%()-]*\d[\d\s.+*/%()-]*|(ceil|floor|round|abs|min|max|sqrt|log2|int)\(.*\)")
_TEMPLATE_PARAMETER = r"\btemplate\s*<[^<>]*\b[A-Za-z_]\w*\s+{name}\s*[,>=]"
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_AXES = "xyz"
_EXTENTS = ("grid", "block")
_EXTENT_TEXT = re.compile(r"\[?\s*(\d+(?:\s*[x,]\s*\d+){0,2})\s*\]?")
_FIELDS = ("kernel", "grid", "block", "shared_bytes")
_ROOMS = ("launch", "args", "defines", "globals")


@dataclass(frozen=True, slots=True)
class Axis:
    """One setting and the values that it takes, in order."""

    name: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Derived:
    """One setting that the others decide: an expression, or a text with expressions in braces or in a shape."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of values."""

    number: int
    """place among all points, from 0"""
    settings: tuple[tuple[str, Scalar], ...]
    """values of the axes, in their order"""


def parse_setting(text: str) -> Axis | Derived:
    """Return what one ``NAME=VALUES`` means; raises InputError.

    Values are separated by commas outside of brackets. ``2..512*2`` multiplies, ``1..10+3`` adds, ``1..10`` counts.

    >>> parse_setting("Ni=2..512*4").values, parse_setting("B=8,16"), parse_setting("grid.x=ceil(N / B)")
    ((2, 8, 32, 128, 512), Axis(name='B', values=(8, 16)), Derived(name='grid.x', text='ceil(N / B)'))
    """
    name, equals, given = text.partition("=")
    name = name.strip()
    if not equals or not name or not given.strip():
        cure = "Write --set BLOCK=4,8,16, --set N=2..512*2, or --set grid.x=ceil(N/BLOCK)."
        raise InputError(f"--set {text[:60]!r} is not NAME=VALUES", cure=cure)
    parts = _split(given)
    where = f"--set {name}"
    if len(parts) == 1 and not _RANGE.fullmatch(parts[0]) and isinstance(_scalar(parts[0]), str):
        return Derived(name, parts[0])
    values = [value for part in parts for value in _values(part, where)]
    if len(values) > _MOST_VALUES:
        raise InputError(f"it has {len(values)} values", where=where, cure=f"Give at most {_MOST_VALUES}.")
    return Axis(name, tuple(dict.fromkeys(values)))


def _split(text: str) -> list[str]:
    """Return the parts between commas that stand outside of brackets, parentheses and braces."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth <= 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return [part.strip() for part in parts]


def _values(part: str, where: str) -> list[Scalar]:
    match = _RANGE.fullmatch(part)
    if match is None:
        if not part:
            raise InputError("a value is missing between commas", where=where)
        return [_scalar(part)]
    try:
        found = _of_range(match)
    except (ValueError, OverflowError):  # an end of infinity, or beyond what a float holds
        raise InputError(f"{part[:60]!r} is too large", where=where, cure="Write smaller numbers.") from None
    if not found:
        cure = "Write a range upwards: 2..512*2 multiplies by 2, 1..10+3 adds 3."
        raise InputError(f"{part!r} has no end or no values", where=where, cure=cure)
    return found


def _of_range(match: re.Match[str]) -> list[Scalar]:
    """Return the values of a range, one more than is taken of a longer one; none where it has no end."""
    first, last, step = (_number(text) for text in (match[1], match[2], match[4] or "1"))
    multiplies = match[3] == "*"
    if step <= 0 or last < first or (multiplies and (first <= 0 or step <= 1)):
        return []
    found: list[Scalar] = []
    value = first
    while value <= last + abs(last) * _ROUNDING and len(found) <= _MOST_VALUES:
        found.append(value)
        value = value * step if multiplies else first + len(found) * step
    return found


def _scalar(text: str) -> Scalar:
    try:
        return _number(text)
    except ValueError:
        return text


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        found = float(text)
        if not math.isfinite(found):
            raise ValueError(f"{text!r} is not finite") from None
        return found


@dataclass(frozen=True, slots=True)
class Space:
    """What a sweep covers: a launch, the axes, the settings that follow from them, and conditions on all of these."""

    file: Path
    """launch file or tuning problem: paths in its table are relative to it"""
    table: Mapping[str, Any] = field(hash=False)
    """table of a launch file with one launch, which the settings change"""
    axes: tuple[Axis, ...]
    derived: tuple[Derived, ...] = ()
    """settings that follow from others, each behind those that it needs"""
    conditions: tuple[str, ...] = ()
    index: int = 0
    """place of the launch in its file"""
    constants: tuple[tuple[str, Scalar | tuple[Scalar, ...]], ...] = ()
    """further names for expressions"""
    variables: frozenset[str] = frozenset()
    """settings that nothing of the launch is called like: only other settings use them"""

    @property
    def size(self) -> int:
        """Number of combinations, those among them that conditions exclude."""
        return math.prod(len(axis.values) for axis in self.axes)

    def points(self) -> Iterator[Point]:
        """Yield the points that fulfil all conditions; the last axis changes first."""
        names = [axis.name for axis in self.axes]
        number = 0
        for values in product(*(axis.values for axis in self.axes)):
            point = Point(number, tuple(zip(names, values, strict=True)))
            if self._holds(point):
                yield point
                number += 1

    def launch(self, point: Point) -> Launch:
        """Return the launch of a point; raises InputError where it is none."""
        table: dict[str, Any] = copy.deepcopy(dict(self.table))
        known = self._names(point)
        for name, _ in (*point.settings, *((each.name, each.text) for each in self.derived)):
            if name not in self.variables:
                _put(table, name, known[name], known)
        (launch,) = parse_launches(table, self.file)
        return replace(launch, index=self.index)

    def derived_values(self, point: Point) -> tuple[tuple[str, Scalar], ...]:
        """Return what follows from the values of a point; raises InputError."""
        known = self._names(point)
        return tuple((each.name, known[each.name]) for each in self.derived)

    def _holds(self, point: Point) -> bool:
        if not self.conditions:
            return True
        known = self._names(point)
        return all(evaluate(condition, known, f"condition {condition[:60]!r}") for condition in self.conditions)

    def _names(self, point: Point) -> dict[str, Any]:
        known: dict[str, Any] = {**_names_of(self.table), **dict(self.constants)}
        for name, value in point.settings:
            known |= _told(name, value)
        known |= dict(point.settings)  # a name as it is set goes before what another name tells
        for each in self.derived:
            known |= _told(each.name, _resolved(each.text, known, each.name))
        return known


def launch_space(
    file: Path, settings: Sequence[str], conditions: Sequence[str] = (), index: int | None = None
) -> Space:
    """Return the space of a launch file by texts such as ``BLOCK=4,8``; raises InputError.

    ``index`` is the place of the launch in the file, needed where there are several.
    """
    table = read_toml(file)
    launches = parse_launches(table, file)
    if index is None and len(launches) > 1:
        raise InputError(f"{file} has {len(launches)} launches", cure="Name one: --launch 0.")
    index = index or 0
    if not 0 <= index < len(launches):
        raise InputError(f"{file} has no launch {index}", cure=f"Known: 0 to {len(launches) - 1}.")
    parsed = [parse_setting(text) for text in settings]
    return space_of({**table, "launch": [table["launch"][index]]}, file, parsed, tuple(conditions), index)


def space_of(
    table: Mapping[str, Any],
    file: Path,
    settings: Sequence[Axis | Derived],
    conditions: tuple[str, ...] = (),
    index: int = 0,
) -> Space:
    """Return the space of a launch's table, with its settings checked and put in order; raises InputError."""
    names = [each.name for each in settings]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{twice[0]} is set twice", cure="Give all values at once: --set NAME=1,2,4.")
    axes = tuple(each for each in settings if isinstance(each, Axis))
    if not axes:
        raise InputError("nothing varies", cure="Give several values: --set BLOCK=64,128,256.")
    derived = _in_order([each for each in settings if isinstance(each, Derived)])
    source = _text_of(parse_launches(table, file)[0].source)
    used = {name for text in (*(each.text for each in derived), *conditions, *_texts(axes)) for name in _used(text)}
    variables = {name for name in names if _is_variable(name, table, source, used)}
    found = Space(file, table, axes, derived, conditions, index, variables=frozenset(variables))
    if found.size > MOST_POINTS:
        raise InputError(f"the sweep has {found.size} points", cure=f"Give fewer values: at most {MOST_POINTS} points.")
    return found


def _texts(axes: Sequence[Axis]) -> Iterator[str]:
    yield from (value for axis in axes for value in axis.values if isinstance(value, str))


def _in_order(derived: Sequence[Derived]) -> tuple[Derived, ...]:
    by_name = {each.name: each for each in derived}
    graph = {name: {other for other in by_name if _used(each.text) & _tells(other)} for name, each in by_name.items()}
    try:
        return tuple(by_name[name] for name in TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise InputError(f"settings follow from one another in a circle: {circle}", cure="Give one a value.") from None


def _is_variable(name: str, table: Mapping[str, Any], source: str, used: set[str]) -> bool:
    """Return whether a name is of nothing in the launch; raises InputError where nothing uses it either."""
    if _rooms_of(name, table) or _IDENTIFIER.fullmatch(name) is None:
        _room(name, table)
        return False
    # A macro of the name of a template's parameter would break the template.
    if re.search(rf"\b{name}\b", source) and not re.search(_TEMPLATE_PARAMETER.format(name=name), source):
        return False
    if name in used:
        return True
    what = f"neither the launch file nor its source mentions {name}, and no other setting uses it"
    cure = "Check the name; for a macro of a header write defines.NAME."
    raise InputError(what, where=f"--set {name}", cure=cure)


def _text_of(source: Path) -> str:
    return read_bytes(source, SOURCE_FILE).decode("utf-8", errors="replace")


def _names_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a launch's table by the names that expressions have for them."""
    (row,) = table["launch"]
    found = {
        name: value
        for room in (table.get("defines", {}), row.get("globals", {}), row.get("args", {}))
        for name, value in room.items()
        if isinstance(value, bool | int | float)
    }
    for name in _EXTENTS:
        found |= {f"{name}.{axis}": size for axis, size in zip(_AXES, _extents(row[name]), strict=True)}
    return {**found, "shared_bytes": row.get("shared_bytes", 0)}


def _told(name: str, value: Scalar) -> dict[str, Any]:
    """Return what a setting tells: ``launch.block`` is ``block``, and ``block.x`` is its first size."""
    inner = _inner(name)
    found: dict[str, Any] = {inner: value, name: value}
    if inner in _EXTENTS and not name.startswith("defines."):
        found |= {f"{inner}.{axis}": size for axis, size in zip(_AXES, _extents(_extent(value, name)), strict=True)}
    return found


def _tells(name: str) -> frozenset[str]:
    """Return the names that a setting gives a value."""
    inner = _inner(name)
    return frozenset((name, inner, *(f"{inner}.{axis}" for axis in _AXES if inner in _EXTENTS)))


def _inner(name: str) -> str:
    room, dot, inner = name.partition(".")
    return inner if dot and room in _ROOMS else name


def _extents(value: Any) -> list[Any]:
    sizes = list(value) if isinstance(value, list | tuple) else [value]
    return [*sizes, 1, 1, 1][:3]


def _rooms_of(name: str, table: Mapping[str, Any]) -> list[str]:
    """Return the parts of a launch file that a name is of."""
    room, dot, inner = name.partition(".")
    if dot and room in _ROOMS:
        return [room] if room != "launch" or _is_field(inner) else []
    (row,) = table["launch"]
    found = ["launch"] if _is_field(name) else []
    holders = {"args": row.get("args", {}), "defines": table.get("defines", {}), "globals": row.get("globals", {})}
    return found + [key for key, values in holders.items() if name in values]


def _is_field(name: str) -> bool:
    field_name, dot, axis = name.partition(".")
    return name in _FIELDS or (bool(dot) and field_name in _EXTENTS and len(axis) == 1 and axis in _AXES)


def _room(name: str, table: Mapping[str, Any]) -> str:
    """Return the only part of a launch file that a name is of; raises InputError where there are others, or none."""
    rooms = _rooms_of(name, table)
    if len(rooms) > 1:
        cure = f"Write {' or '.join(f'{room}.{name}' for room in rooms)}."
        raise InputError(f"{name} may be of {' or '.join(rooms)}", where=f"--set {name}", cure=cure)
    if not rooms and _IDENTIFIER.fullmatch(name) is None:
        cure = f"Known: {', '.join(_FIELDS)}, grid.x, block.x, and names with args., defines. or globals. before them."
        raise InputError(f"{name} is nothing that a launch has", where=f"--set {name}", cure=cure)
    return rooms[0] if rooms else "defines"


def _put(table: dict[str, Any], name: str, value: Scalar, known: Mapping[str, Any]) -> None:
    """Change one value of a launch's table."""
    room = _room(name, table)
    inner = name.removeprefix(f"{room}.")
    (row,) = table["launch"]
    if isinstance(value, str) and not (room == "launch" and inner in _EXTENTS):
        value = _resolved(value, known, name)
    if room == "defines":
        table.setdefault("defines", {})[inner] = value
    elif room != "launch":
        row.setdefault(room, {})[inner] = value
    elif inner == "kernel":
        row["kernel"] = str(value)
    elif inner in _EXTENTS:
        row[inner] = _extent(value, name)
    elif inner == "shared_bytes":
        row[inner] = _whole(value, name)
    else:
        extent, _, axis = inner.partition(".")
        sizes = _extents(row[extent])
        sizes[_AXES.index(axis)] = _whole(value, name)
        row[extent] = sizes


def _extent(value: Scalar, name: str) -> list[int]:
    match = _EXTENT_TEXT.fullmatch(str(value))
    if match is None:
        raise LaunchError(f"{name} is {str(value)[:40]!r}", cure="Write 256 or 16x16, or set grid.x and grid.y.")
    return [int(part) for part in re.split(r"\s*[x,]\s*", match[1])]


def _whole(value: Scalar, name: str) -> int:
    if isinstance(value, str) or value != int(value):
        raise LaunchError(f"{name} is {value!r}, not a whole number", cure="Round it: ceil(N/B) or N//B.")
    return int(value)


def _shape_parts(text: str) -> tuple[str, list[str], str] | None:
    """Return the beginning, the extents and the end of a buffer's text; None for anything else."""
    match = _BUFFER.fullmatch(text)
    return (match[1], _split(match[2]), match[3]) if match else None


def _used(text: str) -> frozenset[str]:
    """Return the names that a value mentions in braces, in a buffer's shape, or as an expression."""
    braces = _BRACES.findall(text)
    shape = _shape_parts(text)
    return frozenset().union(*map(names_in, braces or (shape[1] if shape else [text])))


def _resolved(text: str, known: Mapping[str, Any], name: str) -> Scalar:
    """Return what a text means at one point: with its expressions computed, or as it is where it holds none."""
    where = f"--set {name}"
    if _BRACES.search(text):
        return _scalar(_BRACES.sub(lambda match: _shown(evaluate(match[1], known, where)), text))
    shape = _shape_parts(text)
    if shape:
        sizes = (_whole(evaluate(part, known, where), name) for part in shape[1])
        return f"{shape[0]}{', '.join(map(str, sizes))}{shape[2]}"
    if not _means_number(text, known):
        return text
    found: Scalar = evaluate(text, known, where)
    return found


def _means_number(text: str, known: Mapping[str, Any]) -> bool:
    """Return whether a text is an expression: of known names, or a call, which no other value looks like."""
    used = names_in(text)
    if used:
        return used <= known.keys() or bool(_CALL.match(text))
    return bool(_ARITHMETIC.fullmatch(text))


def _shown(value: object) -> str:
    """Return a value as it is written into a setting: a quotient that is whole as a whole number."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
