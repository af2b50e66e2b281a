"""Reads the data files on GPUs and architectures, and checks them against ``data/schema.toml``.

A file becomes a Sheet: its texts and its facts, each with unit, sources and status. All faults of a file are
reported at once, with the key and what to write instead.
"""

import difflib
import math
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from kerncast import bounded_file
from kerncast.bounded_file import NOT_TOML, OUR_DATA, Bound, place_of, read_text
from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import GPUError
from kerncast.units import KIB

#: Allowed values of facts of the kind text: names that are safe to print.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .,+/()-]{0,39}")

Value = bool | int | float | str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """The schema's entry for one key."""

    key: str
    unit: str
    kind: str
    """whole, number, fraction, list, flag or text"""
    meaning: str
    required: bool
    field: str | None
    """attribute in Python; None for a fact that only checks others"""
    minimum: float
    """smallest allowed value"""
    maximum: float
    """largest allowed value"""
    found_in: str | None
    """where a user finds the value of a GPU"""


def cure_of(rule: Rule, value: Any) -> str | None:
    """Return what to write instead of a value of a file; None where the rule allows it.

    >>> cure_of(Rule("peak.clock_boost_mhz", "MHz", "number", "SM clock", True, None, 10, 20_000, None), 1.7)
    'give a number from 10 to 20,000 (unit MHz)'
    """
    if rule.kind == "flag":
        return None if isinstance(value, bool) else "give true or false"
    if rule.kind == "text":
        return None if isinstance(value, str) and _NAME.fullmatch(value) else "give a name of at most 40 letters"
    return _list_cure(rule, value) if rule.kind == "list" else _number_cure(rule, value)


def _list_cure(rule: Rule, value: Any) -> str | None:
    are_numbers = isinstance(value, list) and value and all(_is_number(rule, item) for item in value)
    if not are_numbers or value != sorted(set(value)):
        return "give a list of ascending integers"
    return None if _is_within(rule, value[0]) and _is_within(rule, value[-1]) else _range(rule, "integers")


def _number_cure(rule: Rule, value: Any) -> str | None:
    form = {"whole": "a whole number", "number": "a finite number", "fraction": "a number up to 1"}[rule.kind]
    if not _is_number(rule, value):
        bound = "of at least 0" if rule.minimum == 0 else "above 0"
        return f"give {form} {bound} (unit {rule.unit})"
    if _is_within(rule, value):
        return None
    return _range(rule, "a whole number" if rule.kind == "whole" else "a number")


def _range(rule: Rule, form: str) -> str:
    return f"give {form} from {_digits(rule.minimum)} to {_digits(rule.maximum)} (unit {rule.unit})"


def _digits(bound: float) -> str:
    return f"{bound:,.0f}" if bound == round(bound) else f"{bound:g}"


def _is_number(rule: Rule, value: Any) -> bool:
    """Whether a value is a number of the rule's kind and not negative; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if rule.kind in {"whole", "list"} and not isinstance(value, int):
        return False
    if isinstance(value, float) and not math.isfinite(value):
        return False
    above = value >= 0 if rule.minimum == 0 else value > 0
    return above and (rule.kind != "fraction" or value <= 1)


def _is_within(rule: Rule, value: float) -> bool:
    return rule.minimum <= value <= rule.maximum


DATA = Path(__file__).parent.parent / "data"

_LONGEST_TEXT = 100
#: Largest size of a GPU's file; none here has a tenth of it.
GPU_FILE = Bound(256 * KIB, error=GPUError)


class Status(StrEnum):
    """How well the sources support a value."""

    CONFIRMED = "confirmed"
    """a second, independent source agrees"""
    SINGLE_SOURCE = "single-source"
    """one source, or several that go back to one"""
    UNKNOWN = "unknown"
    """looked for and not found; cancels an inherited value"""


@dataclass(frozen=True, slots=True)
class Fact:
    """One value of a data file, in the file's own unit, and where it comes from."""

    key: str
    """section and key, such as peak.dram_gb_per_s"""
    value: Value | None
    """value in the file's unit; None when unknown"""
    unit: str
    sources: tuple[str, ...]
    status: Status


@dataclass(frozen=True, slots=True)
class Sheet:
    """The contents of one data file."""

    path: Path
    name: str | None
    aliases: tuple[str, ...]
    parent: str | None
    """name of the parent file, the key ``from``"""
    compute_capability: str | None
    facts: Mapping[str, Fact]
    changes: Path | None = None
    """file of the GPU that a hypothetical one changes; None for every other"""
    caveats: tuple[Caveat, ...] = ()
    """what is to be known of a GPU made from another"""


@cache
def rules(kind: str) -> Mapping[str, Rule]:
    """Return the schema of one kind of file (gpu, architecture, launch_overhead), in order, by key."""
    return {
        f"{section}.{key}": _rule(f"{section}.{key}", row)
        for section, rows in _schema()[kind].items()
        for key, row in rows.items()
    }


@cache
def rules_of_changes() -> Mapping[str, Rule]:
    """Return what a hypothetical GPU can change: all keys of a GPU, then the others of its architecture."""
    own = rules("gpu")
    return {**own, **{key: rule for key, rule in rules("architecture").items() if key not in own}}


def _rule(key: str, row: dict[str, Any]) -> Rule:
    lowest, highest = _schema()["bounds"]["fraction" if row["kind"] == "fraction" else row["unit"]]
    return Rule(
        key=key,
        unit=row["unit"],
        kind=row["kind"],
        meaning=row["meaning"],
        required=row.get("required", False),
        field=row.get("field"),
        minimum=row.get("minimum", max(1, lowest) if row["kind"] == "whole" else lowest),
        maximum=row.get("maximum", highest),
        found_in=row.get("found_in"),
    )


@cache
def _schema() -> dict[str, Any]:
    return read_toml(DATA / "schema.toml")


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file; whatever keeps it from being read is a GPUError."""
    try:
        return bounded_file.read_toml(path, GPU_FILE)
    except GPUError as error:
        raise GPUError(
            f"this is not a readable TOML file: {error.what.removeprefix(NOT_TOML)}",
            where=place_of(path),
            cure="Name an existing file; kerncast gpus --add writes one in which every key is explained.",
        ) from None


def read_sheet(path: Path, kind: str, *, may_lack: bool = False) -> Sheet:
    """Read one data file; raises one GPUError that lists every fault of it, and what it lacks unless that may be.

    What an architecture's file leaves out may be inherited, so only its reader can say what is missing there.
    """
    table = read_toml(path)
    changes = changed_gpu(table, path) if kind == "gpu" else None
    reader = _Reader(table, path, rules(kind) if changes is None else rules_of_changes())
    sheet = replace(reader.sheet(), changes=changes)
    is_whole = kind != "architecture" and not may_lack and changes is None
    missing = missing_of_all(sheet) if kind == "gpu" else missing_faults(sheet.facts, kind)
    faults = reader.faults + (missing if is_whole else [])
    if kind == "gpu" and "from" not in reader.table:
        faults.insert(0, 'from is missing (name the architecture, such as from = "sm_86")')
    raise_faults(faults, path)
    return sheet


def changed_gpu(table: Mapping[str, Any], path: Path) -> Path | None:
    """Return the file of the GPU that a file takes its values from; None where it names an architecture.

    Raises GPUError for the name of a family, which means several.
    """
    parent = table.get("from")
    if not isinstance(parent, str):
        return None
    if parent.endswith(".toml"):
        return path.parent / parent if _is_of_a_gpu(read_toml(path.parent / parent)) else None
    if normalise(parent) in _architectures():
        return None
    try:
        gpu_id, caveats = find_id(parent)
    except GPUError:
        every = {*_ids().values(), *_architectures().values()}
        near = ", ".join(difflib.get_close_matches(parent[:_LONGEST_NAME], sorted(every))) or "none of the catalogue"
        raise_faults([f"from: no GPU or architecture is called {_shorten(parent)}; the nearest are {near}"], path)
        raise
    if caveats:
        raise_faults([f"from: {_shorten(parent)} means several GPUs (name one of them, such as {gpu_id})"], path)
    return GPU_FOLDER / f"{gpu_id}.toml"


def _is_of_a_gpu(table: Mapping[str, Any]) -> bool:
    """Whether a file is one of a GPU: it gives a peak, or takes its values from a GPU of the catalogue."""
    parent = table.get("from")
    has_peak = "peak" in table or any(f"peak.{key}" in rules("gpu") for key in table)
    is_named = isinstance(parent, str) and len(parent) <= _LONGEST_NAME
    return has_peak or (is_named and normalise(str(parent)) in {*_ids(), *_names()})


@cache
def _architectures() -> Mapping[str, str]:
    return {normalise(path.stem): path.stem for path in (DATA / "architectures").glob("*.toml")}


def raise_faults(faults: Iterable[str], path: Path) -> None:
    """Raise one error with all faults of a file; none is fine."""
    found = list(faults)
    if found:
        count = "1 fault" if len(found) == 1 else f"{len(found)} faults"
        cure = "docs/adding.md says what a file holds; kerncast gpus --add begins one, with every key explained."
        raise GPUError(f"{count}: {'; '.join(found)}", where=place_of(path), cure=cure)


def missing_of_all(sheet: Sheet) -> list[str]:
    """Return a fault for each value of a GPU's file without which no model forecasts it."""
    return _missing(unknown_to_all(sheet))


def missing_faults(facts: Mapping[str, Fact], kind: str) -> list[str]:
    """Return a fault for each required key without a value."""
    return _missing(lacking(facts, kind))


def _missing(wanted: Iterable[Rule]) -> list[str]:
    units = {"1": ""}
    return [f"{rule.key} is missing ({rule.meaning}{units.get(rule.unit, f'; unit {rule.unit}')})" for rule in wanted]


def lacking(facts: Mapping[str, Fact], kind: str) -> tuple[Rule, ...]:
    """Return the rule of each required key without a value."""
    return tuple(
        rule
        for rule in rules(kind).values()
        if rule.required and (rule.key not in facts or facts[rule.key].status is Status.UNKNOWN)
    )


def unknown_to_all(sheet: Sheet) -> tuple[Rule, ...]:
    """Return the rule of each key without which no model forecasts a GPU and that its file has no value for."""
    of_architecture = rules("architecture")
    cancelled = [
        of_architecture[key]
        for key, fact in sheet.facts.items()
        if fact.status is Status.UNKNOWN and key in of_architecture and of_architecture[key].required
    ]
    return (*lacking(sheet.facts, "gpu"), *cancelled)


def usual_clock_range(gpu_id: str, facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Return the range of clocks that boards of its kind run at, as facts of a GPU; its file's own go before.

    >>> facts = read_sheet(GPU_FOLDER / "gtx-1070.toml", "gpu").facts
    >>> [(fact.key, fact.value) for fact in usual_clock_range("gtx-1070", facts).values()]
    [('clocks.low_mhz', 1506), ('clocks.high_mhz', 2053)]
    """
    kind = _clock_ranges().get(gpu_id)
    if kind is None:
        return {}
    boost = _number(facts, "peak.clock_boost_mhz")
    low = max(_number(facts, "peak.clock_base_mhz"), round(kind["low_of_boost"] * boost))
    ends = {"clocks.low_mhz": low, "clocks.high_mhz": round(kind["high_of_boost"] * boost)}
    said = (f"{kind['name']} (data/clock_ranges.toml): {kind['source']}",)
    found = {key: Fact(key, value, "MHz", said, Status.SINGLE_SOURCE) for key, value in ends.items()}
    return found | {key: facts[key] for key in ends if key in facts}


@cache
def _clock_ranges() -> Mapping[str, Any]:
    return {name: kind for kind in read_toml(DATA / "clock_ranges.toml")["kind"] for name in kind["gpus"]}


def _number(facts: Mapping[str, Fact], key: str) -> float:
    value = facts[key].value if key in facts else None
    return value if isinstance(value, int | float) else 0


class _Reader:
    """Walks one parsed file and collects facts and faults."""

    _TEXTS = ("name", "from", "compute_capability")

    def __init__(self, table: dict[str, Any], path: Path, schema: Mapping[str, Rule]) -> None:
        self.table, self.path, self.schema = table, path, schema
        self.sections = {key.partition(".")[0] for key in schema}
        self.faults: list[str] = []
        self.sources = self._sources()

    def sheet(self) -> Sheet:
        facts: dict[str, Fact] = {}
        for key, value in self._entries():
            rule = self.schema.get(key)
            if rule is None:
                self._fault(key, "is not a known key", self._nearest(key))
            elif key in facts:
                self._fault(key, "is given twice", "give it once, in its section")
            else:
                facts[key] = self._fact(rule, value)
        texts = {key: self._text(key) for key in self._TEXTS}
        ordered = {key: facts[key] for key in self.schema if key in facts}
        return Sheet(self.path, texts["name"], self._aliases(), texts["from"], texts["compute_capability"], ordered)

    def _entries(self) -> Iterable[tuple[str, Any]]:
        for key, value in self.table.items():
            if key in self.sections and isinstance(value, dict):
                yield from ((f"{key}.{inner}", entry) for inner, entry in value.items())
            elif f"peak.{key}" in self.schema:
                # A user's small file may do without the heading [peak].
                yield f"peak.{key}", value
            elif key not in {*self._TEXTS, "aliases", "sources"}:
                yield key, value

    def _fact(self, rule: Rule, entry: Any) -> Fact:
        table = entry if isinstance(entry, dict) else {"value": entry}
        for key in table.keys() - {"value", "source", "status"}:
            self._fault(rule.key, f"has the unknown part {_quote(key)}", "write { value = …, source = …, status = … }")
        status = self._status(rule, table, plain=table is not entry)
        value = self._value(rule, table)
        if status is Status.UNKNOWN and value is not None:
            self._fault(rule.key, "is unknown and has a value", "leave out the value, or change the status")
        return Fact(
            rule.key,
            value,
            rule.unit,
            self._fact_sources(rule, table, status, plain=table is not entry),
            status,
        )

    def _status(self, rule: Rule, table: dict[str, Any], *, plain: bool) -> Status:
        text = Status.SINGLE_SOURCE if plain else table.get("status")
        if text in list(Status):
            return Status(text)
        self._fault(rule.key, f"has the status {_quote(text)}", "write confirmed, single-source or unknown")
        return Status.SINGLE_SOURCE

    def _fact_sources(self, rule: Rule, table: dict[str, Any], status: Status, *, plain: bool) -> tuple[str, ...]:
        if plain:
            return (self.path.name,)
        names = table.get("source", [])
        names = [names] if isinstance(names, str) else names
        if not isinstance(names, list) or not all(isinstance(name, str) and name in self.sources for name in names):
            self._fault(rule.key, f"has the source {_quote(names)}", "name entries of the table [sources]")
            return ()
        needed = {Status.CONFIRMED: 2, Status.SINGLE_SOURCE: 1, Status.UNKNOWN: 0}[status]
        if len(set(names)) < needed:
            self._fault(rule.key, f"is {status} with {len(set(names))} sources", f"name at least {needed}")
        return tuple(self.sources[name] for name in names)

    def _value(self, rule: Rule, table: dict[str, Any]) -> Value | None:
        if "value" not in table:
            if table.get("status") != Status.UNKNOWN:
                self._fault(rule.key, "has no value", "give one, or the status unknown")
            return None
        value = table["value"]
        cure = cure_of(rule, value)
        if cure is not None:
            self._fault(rule.key, f"is {_quote(value)}", cure)
            return None
        return tuple(value) if isinstance(value, list) else value

    def _sources(self) -> dict[str, str]:
        table = self.table.get("sources", {})
        if isinstance(table, dict) and all(_is_line(text) for text in table.values()):
            return table
        self.faults.append('sources is not a table of texts of one line (write [sources], lines like datasheet = "…")')
        return {}

    def _text(self, key: str) -> str | None:
        value = self.table.get(key)
        if value is None or (_is_line(value) and len(value) <= _LONGEST_TEXT):
            return value
        self._fault(key, f"is {_quote(value)}", f"give a text of one line, up to {_LONGEST_TEXT} letters")
        return None

    def _aliases(self) -> tuple[str, ...]:
        value = self.table.get("aliases", [])
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self._fault("aliases", f"is {_quote(value)}", "give a list of texts")
        return ()

    def _nearest(self, key: str) -> str:
        near = difflib.get_close_matches(key[:60], list(self.schema), n=1)
        return f"did you mean {near[0]}?" if near else f"the sections are {', '.join(sorted(self.sections))}"

    def _fault(self, key: str, what: str, cure: str) -> None:
        place = key if key.isprintable() else ascii(key)
        self.faults.append(f"{place[:60]} {what} ({cure})")


def _is_line(value: Any) -> bool:
    """Whether a value is a text that a terminal shows as it is."""
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _quote(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes out no integer of that many digits
        return "an integer of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


# Finds the GPU that a name means.
#
# Case, punctuation and the words NVIDIA, GeForce, Tesla, Quadro and GPU are ignored. An exact match of an id, a
# marketing name or an alias wins; then a family name stands for the GPU that ``data/families.toml`` declares.


GPU_FOLDER = DATA / "gpus"
#: GPUs of which too little is published for a forecast.
INCOMPLETE_FOLDER = DATA / "incomplete_gpus"

_IGNORED = frozenset({"nvidia", "geforce", "tesla", "quadro", "gpu"})
_WORD = re.compile(r"[a-z0-9]+")
_LONGEST_NAME = 100


def normalise(name: str) -> str:
    """Return what counts of a name.

    >>> normalise("NVIDIA GeForce RTX 2080 Ti"), normalise("rtx-2080-ti")
    ('rtx2080ti', 'rtx2080ti')
    """
    words = _WORD.findall(unicodedata.normalize("NFKC", name).casefold())
    return "".join(word for word in words if word not in _IGNORED)


def is_path(name: str | Path) -> bool:
    """Whether a name is meant as the path of a user's own file."""
    if isinstance(name, Path):
        return True
    return name.endswith(".toml") or "/" in name or "\\" in name


def find_id(name: str) -> tuple[str, tuple[Caveat, ...]]:
    """Return the id of the GPU that a name means, and the caveats of having read it so."""
    wanted = normalise(name) if len(name) <= _LONGEST_NAME else ""
    gpu_id = _ids().get(wanted) or _names().get(wanted)
    if gpu_id is not None:
        return gpu_id, ()
    family = _families().get(wanted)
    if family is not None:
        return family
    incomplete = _incomplete().get(wanted)
    if incomplete is not None:
        raise _too_little_known(incomplete)
    raise GPUError(f"no GPU is called {_shorten(name)}", cure=_advice(wanted))


def find_incomplete(name: str) -> str | None:
    """Return the id of a GPU of which too little is known for a forecast; None for every other name."""
    return _incomplete().get(normalise(name)) if len(name) <= _LONGEST_NAME else None


def incomplete_ids() -> tuple[str, ...]:
    """Return the ids of all GPUs of which too little is known for a forecast, sorted."""
    return tuple(sorted(path.stem for path in INCOMPLETE_FOLDER.glob("*.toml")))


def known_ids() -> tuple[str, ...]:
    """Return the ids of all GPUs that have a data file, sorted."""
    return tuple(sorted(_ids().values()))


def read_names(path: Path) -> tuple[str, ...]:
    """Return marketing name and aliases of a GPU file, parsing only what stands above its first section."""
    head = re.split(r"^\[", read_text(path, OUR_DATA), maxsplit=1, flags=re.MULTILINE)[0]
    table = tomllib.loads(head)
    return (table["name"], *table.get("aliases", []))


@cache
def _ids() -> Mapping[str, str]:
    return {normalise(path.stem): path.stem for path in GPU_FOLDER.glob("*.toml")}


@cache
def _names() -> Mapping[str, str]:
    return {normalise(name): path.stem for path in GPU_FOLDER.glob("*.toml") for name in read_names(path)}


@cache
def _families() -> Mapping[str, tuple[str, tuple[Caveat, ...]]]:
    found = {}
    for row in read_toml(DATA / "families.toml")["family"]:
        for name in row["names"]:
            others = "; ".join(row["others"])
            caveat = Caveat.of(CaveatKind.GPU_NAME_AMBIGUOUS, name, taken=row["means"], others=others)
            found[normalise(name)] = (row["means"], (caveat,))
    return found


@cache
def _incomplete() -> Mapping[str, str]:
    found = {normalise(path.stem): path.stem for path in INCOMPLETE_FOLDER.glob("*.toml")}
    return found | {
        normalise(name): path.stem for path in INCOMPLETE_FOLDER.glob("*.toml") for name in read_names(path)
    }


def _too_little_known(gpu_id: str) -> GPUError:
    sheet = read_sheet(INCOMPLETE_FOLDER / f"{gpu_id}.toml", "gpu", may_lack=True)
    unknown = " and ".join(f"{rule.key} ({rule.meaning})" for rule in unknown_to_all(sheet))
    return GPUError(
        f"the {sheet.name} cannot be forecast: no source gives its {unknown}",
        cure=f"kerncast gpus {gpu_id} shows what is known; kerncast gpus --add {gpu_id} writes a file to complete.",
    )


def _advice(wanted: str) -> str:
    every = {name: gpu_id for name, (gpu_id, _) in _families().items()} | {**_names(), **_ids()}
    near = difflib.get_close_matches(wanted, list(every), n=5, cutoff=0.5)
    ids = list(dict.fromkeys(every[match] for match in near))
    if ids:
        return f"The nearest are {', '.join(ids)}; a path to your own .toml file works too."
    return f"Known are {', '.join(known_ids())}; a path to your own .toml file works too."


def _shorten(name: str) -> str:
    text = ascii(name)
    return text if len(text) <= 60 else f"{text[:57]}..."
