"""Launches written as a launch file, which reads as they were."""

import os
from collections.abc import Iterable
from pathlib import Path

from kerncast.launch import DEFAULT_STANDARD, Argument, Launch, Value


def dump_launches(launches: Iterable[Launch]) -> str:
    """Write launches of one source as the text of a launch file."""
    rows = list(launches)
    first = rows[0]
    lines = [f"source = {_quote(first.source.name)}"]
    if first.include_dirs:
        folders = (Path(os.path.relpath(folder, first.source.parent)).as_posix() for folder in first.include_dirs)
        lines.append(f"include = [{', '.join(map(_quote, folders))}]")
    if first.defines:
        lines.append("defines = { " + ", ".join(f"{k} = {_quote(v)}" for k, v in first.defines) + " }")
    if first.standard != DEFAULT_STANDARD:
        lines.append(f"std = {_quote(first.standard)}")
    if first.fast_math:
        lines.append("fast_math = true")
    if first.seed:
        lines.append(f"seed = {first.seed}")
    for row in rows:
        lines += ["", "[[launch]]"] + ([f"kernel = {_quote(row.kernel)}"] if row.kernel else [])
        lines += [f"grid = {list(row.grid)}", f"block = {list(row.block)}", f"shared_bytes = {row.shared_bytes}"]
        lines.append(f"args = {_inline_table(row.arguments)}")
        lines += [f"globals = {_inline_table(row.globals)}"] if row.globals else []
    return "\n".join(lines) + "\n"


def _inline_table(values: Iterable[Argument]) -> str:
    return "{ " + ", ".join(f"{_quote(each.name)} = {_toml_value(each.value)}" for each in values) + " }"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _toml_value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else _quote(str(value))
