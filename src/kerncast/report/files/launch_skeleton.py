"""The launch file that ``kerncast init`` writes: what host code says, and a question mark for what it does not."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncast.compile.nouns import CompileRequest, KernelSignature
from kerncast.hostcode.nouns import UNDECIDED, HostLaunch, HostProgram, HostResult, HostValue
from kerncast.launch import DEFAULT_STANDARD
from kerncast.report.as_json import SCHEMA_VERSION, fields_of
from kerncast.report.tables import Table, TextColumn

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")
_COMMENT_COLUMN = 40
_LONGEST_COMMENT = 150
_LONGEST_EXPRESSION = 60


@dataclass(frozen=True, slots=True)
class _Line:
    """A key with its value, and what stands behind it."""

    text: str
    comment: str = ""

    def __str__(self) -> str:
        return f"{self.text.ljust(_COMMENT_COLUMN)} # {_one_line(self.comment)}" if self.comment else self.text


def skeleton_text(program: HostProgram, request: CompileRequest, folder: Path) -> str:
    """Return the text of a launch file that lies in a folder."""
    lines = [f"# {request.source.name} defines:"]
    lines += [f"#   {_one_line(str(kernel))}, line {kernel.line}" for kernel in program.kernels]
    lines += [f"# {_one_line(caveat)}" for caveat in program.caveats]
    undecided = sum(len(each.undecided) for each in program.launches)
    if undecided:
        values = "1 value is" if undecided == 1 else f"{undecided} values are"
        lines.append(f'# {values} left to decide, each marked by "{UNDECIDED}".')
    lines += ["", f"source = {_quoted(_relative(request.source, folder))}"]
    if request.include_dirs:
        lines.append(f"include = [{', '.join(_quoted(_relative(each, folder)) for each in request.include_dirs)}]")
    if macros := (*request.defines, *program.defines):
        defines = ", ".join(f"{_key(name)} = {_quoted(value)}" for name, value in macros)
        made = f"{', '.join(name for name, _ in program.defines)} as in the Makefile" if program.defines else ""
        lines.append(str(_Line(f"defines = {{ {defines} }}", made)))
    if request.standard != DEFAULT_STANDARD:
        lines.append(f"std = {_quoted(request.standard)}")
    for launch in program.launches:
        lines += ["", *map(str, _launch_lines(launch))]
    return "\n".join(lines) + "\n"


def skeleton_object(program: HostProgram) -> dict[str, Any]:
    """Return the object that ``kerncast init --json`` prints."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kernels": [
            {
                "kernel": each.name,
                "template_parameters": list(each.template_parameters),
                "signature": str(each),
                "line": each.line,
                "launches": _count(program.launches, each),
            }
            for each in program.kernels
        ],
        "launches": [_launch_object(each) for each in program.launches],
        "undecided": [
            {"launch": index, "kernel": launch.kernel, "key": key} | fields_of(value, "expression", "place", "reason")
            for index, launch in enumerate(program.launches)
            for key, value in launch.undecided
        ],
        "defines": dict(program.defines),
        "caveats": list(program.caveats),
    }


def kernel_table(program: HostProgram) -> Table:
    """Return one row per kernel of a source."""
    rows = tuple(
        (each.name, str(each), str(each.line), str(_count(program.launches, each))) for each in program.kernels
    )
    return Table((TextColumn("name"), TextColumn("kernel"), "line", "launches"), rows)


def undecided_notes(program: HostProgram) -> list[str]:
    """Return a line for every value that is left to decide."""
    return [
        f"launch {index} ({launch.kernel}) {key}: {_why(value)}"
        for index, launch in enumerate(program.launches)
        for key, value in launch.undecided
    ]


def _launch_lines(launch: HostLaunch) -> Iterable[_Line]:
    where = f"launched at {launch.place}" if launch.place else "; ".join(launch.notes)
    yield _Line("[[launch]]", where)
    kernel = f"decide: {launch.written}, the host code does not say which instance"
    yield _Line(f"kernel = {_quoted(launch.kernel)}", kernel if UNDECIDED in launch.kernel else "")
    yield _line("grid", launch.grid)
    yield _line("block", launch.block)
    yield _line("shared_bytes", launch.shared_bytes)
    if launch.arguments:
        yield _Line("[launch.args]")
    for name, argument in zip(launch.names, launch.arguments, strict=True):
        yield _line(name, argument.value)
    if launch.globals:
        yield _Line("[launch.globals]", "variables of the device")
    for each in launch.globals:
        yield _line(each.parameter.name, each.value)


def _line(name: str, value: HostValue) -> _Line:
    return _Line(
        f"{_key(name)} = {_toml(value.value)}", f"decide: {_why(value)}" if value.is_undecided else _said(value)
    )


def _said(value: HostValue) -> str:
    """Return what the source says: expression, place, and what was assumed."""
    return ", ".join(filter(None, (_cut(value.expression), value.place))) + "".join(f"; {note}" for note in value.notes)


def _cut(expression: str) -> str:
    return expression if len(expression) <= _LONGEST_EXPRESSION else expression[: _LONGEST_EXPRESSION - 1] + "…"


def _why(value: HostValue) -> str:
    said = _said(value)
    reason = (value.reason or "").partition("; ")[0]  # the first cause; all of them are in the JSON
    return f"{said}: {reason}" if said and reason else reason or said


def _toml(value: HostResult | None) -> str:
    if value is None:
        return f'"{UNDECIDED}"'
    if isinstance(value, tuple):
        return f"[{', '.join(str(each) if each is not None else _toml(None) for each in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _launch_object(launch: HostLaunch) -> dict[str, Any]:
    return {
        **fields_of(launch, "kernel", "written", "place"),
        "grid": _value_object(launch.grid),
        "block": _value_object(launch.block),
        "shared_bytes": _value_object(launch.shared_bytes),
        "args": {
            name: {"type": each.parameter.type_text, **_value_object(each.value)}
            for name, each in zip(launch.names, launch.arguments, strict=True)
        },
        "globals": {
            each.parameter.name: {"type": each.parameter.type_text, **_value_object(each.value)}
            for each in launch.globals
        },
    }


def _value_object(value: HostValue) -> dict[str, Any]:
    found: Any = list(value.value) if isinstance(value.value, tuple) else value.value
    if isinstance(found, float) and not abs(found) < float("inf"):
        found = repr(found)  # JSON knows neither infinity nor NaN
    return {
        "value": found,
        "decided": not value.is_undecided,
        "expression": value.expression,
        "place": value.place,
        "notes": list(value.notes),
        "reason": value.reason,
    }


def _count(launches: Sequence[HostLaunch], kernel: KernelSignature) -> int:
    """Return how many places launch a kernel."""
    names = {kernel.name, kernel.short_name}
    return len({each.place for each in launches if each.place and each.kernel.partition("<")[0] in names})


def _relative(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()


def _key(name: str) -> str:
    return name if _BARE_KEY.match(name) else _quoted(name)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in escaped) + '"'


def _one_line(text: str) -> str:
    plain = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return plain if len(plain) <= _LONGEST_COMMENT else plain[: _LONGEST_COMMENT - 1] + "…"
