"""The launch file that ``kerncast init`` writes: what the text of a source says, and a mark for what it does not."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncast.compile.listing import is_named
from kerncast.compile.nouns import CompileRequest, Geometry, KernelSignature, Parameter, SourceListing, WrittenLaunch
from kerncast.launch import DEFAULT_STANDARD, FLOAT_ELEMENTS
from kerncast.report.as_json import SCHEMA_VERSION
from kerncast.report.files.toml_text import toml_key, toml_path, toml_text
from kerncast.report.tables import Table, TextColumn

_COMMENT_COLUMN = 40
_LONGEST_COMMENT = 150
_LONGEST_EXPRESSION = 60
#: What stands in a launch file for what the user has to fill in.
_UNKNOWN = "?"
_UNKNOWN_EXTENTS = Geometry("", (None,))
_NO_BYTES = Geometry("", (0,))
#: What is told wherever a source is listed.
RUN_IT = "For the launches of the whole program, run it: kerncast run PROGRAM --export launches.toml"


@dataclass(frozen=True, slots=True)
class _Value:
    """One key of a launch: its value, and the text of the source that stands for it."""

    key: str
    value: str | int | tuple[int | None, ...] | None
    """value, with a question mark or None where the user has to fill it in"""
    expression: str = ""
    type_text: str = ""

    @property
    def is_unknown(self) -> bool:
        """Whether the user has to fill it in, or a part of it."""
        if isinstance(self.value, tuple):
            return None in self.value
        return self.value is None or (isinstance(self.value, str) and _UNKNOWN in self.value)

    @property
    def toml(self) -> str:
        """The value as TOML writes it."""
        if isinstance(self.value, tuple):
            return f"[{', '.join(toml_text(_UNKNOWN) if each is None else str(each) for each in self.value)}]"
        return str(self.value) if isinstance(self.value, int) else toml_text(self.value or _UNKNOWN)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One launch of the file."""

    name: str
    """kernel, or instance of its template, as launch files write it; with a question mark where that is not known"""
    written: str
    """kernel as the launch writes it"""
    place: str
    """file and line; empty where nothing launches the kernel"""
    geometry: tuple[_Value, ...]
    arguments: tuple[_Value, ...]

    @property
    def unknown(self) -> tuple[tuple[str, _Value], ...]:
        """The values to fill in, by their keys in the launch file."""
        named = [(each.key, each) for each in (_Value("kernel", self.name, self.written), *self.geometry)]
        named += [(f"args.{each.key}", each) for each in self.arguments]
        return tuple((key, value) for key, value in named if value.is_unknown)


def skeleton_text(found: SourceListing, request: CompileRequest, folder: Path) -> str:
    """Return the text of a launch file that lies in a folder."""
    entries = _entries(found)
    lines = [f"# {_one_line(request.source.name)} defines:"]
    lines += [f"#   {_one_line(str(kernel))}, line {kernel.line}" for kernel in found.kernels]
    lines += [f"# {_one_line(caveat)}" for caveat in caveats_of(found)]
    unknown = sum(len(each.unknown) for each in entries)
    if unknown:
        values = "1 value is" if unknown == 1 else f"{unknown} values are"
        lines.append(f'# {values} left to fill in, each marked by "{_UNKNOWN}".')
    lines += [f"# {RUN_IT}", "", f"source = {toml_path(request.source, folder)}"]
    if request.include_dirs:
        lines.append(f"include = [{', '.join(toml_path(each, folder) for each in request.include_dirs)}]")
    if macros := (*request.defines, *found.defines):
        defines = ", ".join(f"{toml_key(name)} = {toml_text(value)}" for name, value in macros)
        made = f"{', '.join(name for name, _ in found.defines)} as in the Makefile" if found.defines else ""
        lines.append(_with_comment(f"defines = {{ {defines} }}", made))
    if request.standard != DEFAULT_STANDARD:
        lines.append(f"std = {toml_text(request.standard)}")
    for entry in entries:
        lines += ["", *_entry_lines(entry)]
    return "\n".join(lines) + "\n"


def skeleton_object(found: SourceListing) -> dict[str, Any]:
    """Return the object that ``kerncast init --json`` prints."""
    entries = _entries(found)
    return {
        "schema_version": SCHEMA_VERSION,
        "kernels": [
            {
                "kernel": each.name,
                "template_parameters": list(each.template_parameters),
                "signature": str(each),
                "line": each.line,
                "launches": _count(found, each),
            }
            for each in found.kernels
        ],
        "launches": [_entry_object(each) for each in entries],
        "undecided": [
            {
                "launch": index, "kernel": each.name, "key": key, "expression": value.expression,
                "place": each.place,
            }
            for index, each in enumerate(entries)
            for key, value in each.unknown
        ],
        "defines": dict(found.defines),
        "caveats": list(caveats_of(found)),
    }  # fmt: skip


def kernel_table(found: SourceListing) -> Table:
    """Return one row per kernel of a source."""
    rows = tuple((each.name, str(each), str(each.line), str(_count(found, each))) for each in found.kernels)
    return Table((TextColumn("name"), TextColumn("kernel"), "line", "launches"), rows)


def launch_count(found: SourceListing) -> int:
    """Return how many launches the file has."""
    return len(_entries(found))


def unknown_notes(found: SourceListing) -> list[str]:
    """Return a line for every launch with values that are left to fill in."""
    return [
        f"launch {index} ({each.name}{', ' * bool(each.place)}{each.place}): "
        + ", ".join(key for key, _ in each.unknown)
        for index, each in enumerate(_entries(found))
        if each.unknown
    ]


def caveats_of(found: SourceListing) -> tuple[str, ...]:
    """Return what is not in the file: launches of what is no kernel of the source."""
    return tuple(
        f"{each.written}, launched at {each.place}, is no kernel of this source: the launch is left out"
        for each in found.launches
        if not _candidates(found, each)
    )


def _entries(found: SourceListing) -> list[_Entry]:
    """Return the launches of a source, and one without values for each kernel that nothing launches."""
    launched = [(candidates, each) for each in found.launches if (candidates := _candidates(found, each))]
    reached = {kernel for candidates, _ in launched for kernel in candidates}
    return [_launched(found, *each) for each in launched] + [
        _never_launched(found, each) for each in found.kernels if each not in reached
    ]


def _candidates(found: SourceListing, launch: WrittenLaunch) -> list[KernelSignature]:
    """Return the kernels that a launch may mean: overloaded ones are told apart by their number of parameters."""
    named = [each for each in found.kernels if is_named(launch.written.removeprefix("::"), (each.name,))]
    return [each for each in named if len(each.parameters) == len(launch.arguments)] or named


def _launched(found: SourceListing, candidates: list[KernelSignature], launch: WrittenLaunch) -> _Entry:
    kernel = candidates[0]
    written = f"{launch.written}<{launch.template}>" if launch.template else launch.written
    several = len(candidates) > 1
    name = _UNKNOWN if several else _name(found, kernel, launch.template if launch.is_instance else _UNKNOWN)
    written = " or ".join(map(str, candidates)) if several else written
    fits = len(kernel.parameters) == len(launch.arguments)
    passed = launch.arguments if fits else ("",) * len(kernel.parameters)
    return _Entry(
        name,
        written,
        launch.place,
        _geometry(launch.grid, launch.block, launch.shared_bytes),
        () if several else _arguments(kernel, passed),
    )


def _never_launched(found: SourceListing, kernel: KernelSignature) -> _Entry:
    return _Entry(
        _name(found, kernel, _UNKNOWN),
        str(kernel) if kernel.is_template else kernel.name,
        "",
        _geometry(_UNKNOWN_EXTENTS, _UNKNOWN_EXTENTS, _NO_BYTES),
        _arguments(kernel, ("",) * len(kernel.parameters)),
    )


def _name(found: SourceListing, kernel: KernelSignature, template: str) -> str:
    """Return the name of a kernel in a launch file: with its instance, or with its types where it is overloaded."""
    if kernel.is_template:
        return f"{kernel.name}<{template}>"
    if sum(each.name == kernel.name for each in found.kernels) > 1:
        return f"{kernel.name}({', '.join(each.type_text for each in kernel.parameters)})"
    return kernel.name


def _geometry(grid: Geometry, block: Geometry, shared: Geometry) -> tuple[_Value, ...]:
    return (
        _Value("grid", grid.extents, grid.expression),
        _Value("block", block.extents, block.expression),
        _Value("shared_bytes", shared.extents[0], shared.expression),
    )


def _arguments(kernel: KernelSignature, passed: tuple[str, ...]) -> tuple[_Value, ...]:
    return tuple(
        _Value(each.name or f"argument_{place}", _placeholder(each), passed[place], each.type_text)
        for place, each in enumerate(kernel.parameters)
    )


def _placeholder(parameter: Parameter) -> str | None:
    if parameter.kind == "struct":
        return f"bytes({_UNKNOWN})"
    if not parameter.is_pointer or parameter.element is None or "*" in (parameter.pointee_type or ""):
        return None
    fill = "random" if parameter.element in FLOAT_ELEMENTS else "zeros"
    return f"{parameter.element}[{_UNKNOWN}] {fill}"


def _entry_lines(entry: _Entry) -> Iterator[str]:
    yield _with_comment(
        "[[launch]]", f"launched at {entry.place}" if entry.place else "nothing here launches this kernel"
    )
    yield _line(_Value("kernel", entry.name, entry.written if _UNKNOWN in entry.name else ""))
    for value in entry.geometry:
        yield _line(value)
    if entry.arguments:
        yield "[launch.args]"
    for value in entry.arguments:
        yield _line(value)


def _line(value: _Value) -> str:
    is_same = value.expression == value.toml.strip("[]")
    said = ", ".join(filter(None, (value.type_text, "" if is_same else _cut(value.expression))))
    if value.is_unknown:
        said = f"fill in: {said}" if said else "fill in"
    return _with_comment(f"{toml_key(value.key)} = {value.toml}", said)


def _with_comment(text: str, comment: str) -> str:
    return f"{text.ljust(_COMMENT_COLUMN)} # {_one_line(comment)}" if comment else text


def _cut(expression: str) -> str:
    return expression if len(expression) <= _LONGEST_EXPRESSION else expression[: _LONGEST_EXPRESSION - 1] + "…"


def _entry_object(entry: _Entry) -> dict[str, Any]:
    return {
        "kernel": entry.name,
        "written": entry.written,
        "place": entry.place,
        **{each.key: _value_object(each) for each in entry.geometry},
        "args": {each.key: {"type": each.type_text, **_value_object(each)} for each in entry.arguments},
    }


def _value_object(value: _Value) -> dict[str, Any]:
    found = list(value.value) if isinstance(value.value, tuple) else value.value
    return {"value": found, "decided": not value.is_unknown, "expression": value.expression}


def _count(found: SourceListing, kernel: KernelSignature) -> int:
    """Return how many places launch a kernel."""
    return sum(kernel in _candidates(found, each) for each in found.launches)


def _one_line(text: str) -> str:
    plain = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return plain if len(plain) <= _LONGEST_COMMENT else plain[: _LONGEST_COMMENT - 1] + "…"
