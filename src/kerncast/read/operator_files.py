"""Reads operators: a CSV that begins with the column op, or a model, a JSON list of operators with their counts."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kerncast.errors import InputError, MissingEvidenceError
from kerncast.operators import Operator, check_names, kind_named, operator_of, parse_operator
from kerncast.prediction import Refused
from kerncast.printable import printable
from kerncast.read.bounded_text import names_in_first_line, parse_json, read_text, shown
from kerncast.read.selection import Pattern, Selection

_OP = "op"
_LIST = "operators"
_MOST_SHOWN = 60
_CURE = f'Write {{"{_LIST}": [{{"{_OP}": "linear", "M": 512, "N": 4096, "K": 4096, "dtype": "bf16", "count": 32}}]}}.'


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """The operators of a file, and the rows that no data cover."""

    operators: tuple[Operator, ...]
    refused: tuple[Refused, ...] = ()
    is_model: bool = False
    """whether they are called one after the other, as the layers of a model are"""
    refused_kinds: tuple[str, ...] = ()
    """what each refused row calls its kind"""

    def selected(self, selection: Selection, where: str) -> "OperatorTable":
        """Return the rows that are meant, by kind, text or label; raises InputError where none is.

        Rows that no data cover are skipped and counted like the others.
        """
        if selection == Selection():
            return self
        names = {each.index: (each.kind.name, each.text, each.label) for each in self.operators}
        kinds = zip(self.refused, self.refused_kinds, strict=True)
        names |= {each.launch: (_kind_name(kind), kind, each.kernel) for each, kind in kinds}
        fits = _Matcher(selection.kernel)
        matching = [index for index in sorted(names) if fits(names[index])]
        end = None if selection.count is None else selection.skip + selection.count
        chosen = tuple(matching[selection.skip : end])
        selection.check(chosen, (names[index][0] for index in sorted(names)), where)
        taken = frozenset(chosen)
        kept = [pair for pair in zip(self.refused, self.refused_kinds, strict=True) if pair[0].launch in taken]
        return replace(
            self,
            operators=tuple(each for each in self.operators if each.index in taken),
            refused=tuple(each for each, _ in kept),
            refused_kinds=tuple(kind for _, kind in kept),
        )


_REGEX = "regex:"


class _Matcher:
    """Whether one of an operator's names fits; blanks in its text do not count."""

    def __init__(self, name: str | None) -> None:
        is_regex = name is not None and name.startswith(_REGEX)
        self._pattern = Pattern((name or "").removeprefix(_REGEX)) if is_regex else None
        self._name = None if name is None else _packed(name)
        self._known: dict[str, bool] = {}

    def __call__(self, names: Iterable[str]) -> bool:
        if self._name is None:
            return True
        if self._pattern is None:
            return any(_packed(name) == self._name for name in names)
        return any(self._fits(self._pattern, name) for name in names if name)

    def _fits(self, pattern: Pattern, name: str) -> bool:
        if name not in self._known:
            self._known[name] = pattern.is_in(name)
        return self._known[name]


def _packed(text: str) -> str:
    return "".join(text.split())


def _kind_name(text: str) -> str:
    """Return the name of a kind, whichever of its names is given; an unknown one as it stands."""
    try:
        return kind_named(text).name
    except MissingEvidenceError:
        return text


def operators_in(texts: Iterable[str]) -> OperatorTable:
    """Return operators from texts such as ``softmax(B=64,H=512)``; raises InputError."""
    rows = (printable(text) for text in texts)
    return _table(_Row(text, text.partition("(")[0].strip(), "", partial(parse_operator, text)) for text in rows)


def is_table_of_operators(path: Path) -> bool:
    """Return whether a file is a CSV of operators, by its first line; a file that cannot be read is none."""
    return _OP in names_in_first_line(path)


def is_model(path: Path) -> bool:
    """Return whether a JSON file is a list of operators; a file that cannot be read is none."""
    try:
        found = parse_json(read_text(path), str(path))
    except InputError:
        return False
    if isinstance(found, list):
        return any(isinstance(each, dict) and _OP in each for each in found)
    return isinstance(found, dict) and _LIST in found


def read_operators(path: Path) -> OperatorTable:
    """Return the operators of a CSV or of a model; raises InputError with the place."""
    is_csv = path.suffix.lower() == ".csv"
    found = replace(_table(_of_csv(path) if is_csv else _of_json(path)), is_model=not is_csv)
    if not found.operators and not found.refused:
        raise InputError("it holds no operator", where=str(path), cure="Add one.")
    return found


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a table, not read yet."""

    name: str
    kind: str
    """what it calls its kind"""
    place: str
    made: Callable[[], Operator]


def _table(rows: Iterable[_Row]) -> OperatorTable:
    operators: list[Operator] = []
    refused: list[Refused] = []
    kinds: list[str] = []
    for index, row in enumerate(rows):
        try:
            operators.append(replace(row.made(), index=index))
        except MissingEvidenceError as refusal:
            refused.append(Refused(row.name[:_MOST_SHOWN], index, None, str(refusal)))
            kinds.append(row.kind)
        except InputError as error:
            raise InputError(error.what, where=row.place or None, cure=error.cure) from None
    return OperatorTable(tuple(operators), tuple(refused), refused_kinds=tuple(kinds))


def _row(values: Mapping[str, str], place: str, *, is_closed: bool) -> _Row:
    """Return the row of values by name; a closed one holds no other names than its kind's."""
    # What a file calls things must not steer a terminal.
    shown_values = {name: printable(value) for name, value in values.items()}
    kind = shown_values.pop(_OP)
    label = next((shown_values[name] for name in ("label", "name") if shown_values.get(name, "").strip()), kind)
    return _Row(label, kind, place, partial(_made, kind, shown_values, is_closed))


def _made(name: str, values: Mapping[str, str], is_closed: bool) -> Operator:
    kind = kind_named(name)
    if is_closed:
        check_names(kind, values)
    return operator_of(kind, values)


def _of_csv(path: Path) -> Iterator[_Row]:
    """Yield the rows of a CSV; columns that no operator has are not used."""
    lines = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True, restkey="", restval=None)
    try:
        names = [name.strip().lower() for name in lines.fieldnames or ()]
        twice = _twice(names)
        if twice is not None:
            raise InputError(f"two columns are called {twice[:40]!r}", where=str(path), cure="Rename one.")
        if _OP not in names:
            raise InputError(f"it has no column {_OP!r}", where=str(path), cure="Write the names into the first line.")
        lines.fieldnames = names
        for row in lines:
            place = f"{path}, line {lines.line_num}"
            if "" in row or None in row.values():
                raise InputError(f"the row does not have {len(names)} cells", where=place, cure="Mend the row.")
            yield _row(row, place, is_closed=False)
    except csv.Error as error:
        cure = "It is cut off or changed: write it again."
        raise InputError(f"not a CSV: {error}", where=f"{path}, line {lines.line_num}", cure=cure) from None


def _twice(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


class _Object(dict[str, object]):
    """An object of JSON that remembers a name that stands in it twice; the case of names does not count."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self.twice = _twice(name.strip().lower() for name, _ in pairs)

    def check(self, place: str) -> None:
        """Raise InputError where a name stands in it twice."""
        if self.twice is not None:
            raise InputError(f"{self.twice[:40]!r} stands twice in one object", where=place, cure="Give it once.")


def _of_json(path: Path) -> Iterator[_Row]:
    """Yield the operators of a model."""
    for number, each in enumerate(_listed(path)):
        place = f"{path}, operator {number}"
        if not isinstance(each, _Object):
            raise InputError(f"{_OP} is {shown(each)}", where=place, cure=_CURE)
        each.check(place)
        values = {name.strip().lower(): value for name, value in each.items()}
        if not isinstance(values.get(_OP), str):
            raise InputError(f"{_OP} is {shown(values.get(_OP))}", where=place, cure=_CURE)
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise InputError(f"{name[:40]} is {shown(value)}", where=place, cure=_CURE)
        yield _row({name: str(value) for name, value in values.items()}, place, is_closed=True)


def _listed(path: Path) -> list[object]:
    """Return the list of a model, which may stand alone."""
    text = read_text(path)
    parse_json(text, str(path))  # its errors name the line
    try:
        found: object = json.loads(text, object_pairs_hook=_Object)
    except RecursionError:
        raise InputError("it is nested too deeply", where=str(path), cure=_CURE) from None
    if isinstance(found, _Object):
        found.check(str(path))
        found = found.get(_LIST)
    if not isinstance(found, list):
        raise InputError(f"it has no list {_LIST!r}", where=str(path), cure=_CURE)
    return found
