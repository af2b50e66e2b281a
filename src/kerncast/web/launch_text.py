"""The texts of files that the page gives away and takes in: a launch file, and the file of a hypothetical GPU."""

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kerncast.errors import InputError
from kerncast.report.files.toml_text import toml_key, toml_text
from kerncast.web.questions import Asked, Hypothetical, TypedLaunch
from kerncast.web.typed_launch import kernels_in, macros

#: Launches of one file are few; more characters are no launch file that somebody edits here.
MOST_CHARACTERS = 1_000_000
#: More than somebody looks at side by side; each takes a second.
MOST_LAUNCHES = 16


def launch_text(asked: Asked, source: str, include: Sequence[Path] = ()) -> str:
    """Return a launch file with the launches of a pane, whose source has this name.

    >>> print(launch_text(Asked("", "k", "64", "32, 2", arguments=(("n", "4"),), defines="TILE=8"), "k.cu"))
    source = "k.cu"
    defines = { TILE = "8" }
    <BLANKLINE>
    [[launch]]
    kernel = "k"
    grid = [64]
    block = [32, 2]
    args = { n = 4 }
    <BLANKLINE>
    """
    lines = [f"source = {toml_text(source)}"]
    if include:
        lines.append(f"include = [{', '.join(toml_text(str(each)) for each in include)}]")
    if asked.defines.strip():
        pairs = (f"{toml_key(name)} = {toml_text(value)}" for name, value in macros(asked.defines))
        lines.append(f"defines = {{ {', '.join(pairs)} }}")
    first = next(iter(kernels_in(asked.source)), "")
    return "\n".join([*lines, *(line for each in asked.launches for line in _launch_lines(each, first)), ""])


def _launch_lines(launch: TypedLaunch, otherwise: str) -> list[str]:
    lines, kernel = ["", "[[launch]]"], launch.kernel.strip() or otherwise
    if kernel:
        lines.append(f"kernel = {toml_text(kernel)}")
    sizes = ("grid", launch.grid), ("block", launch.block)
    lines += [f"{name} = [{', '.join(_numbers(text))}]" for name, text in sizes]
    if launch.shared_bytes.strip() not in {"", "0"}:
        lines.append(f"shared_bytes = {launch.shared_bytes.strip()}")
    arguments = ", ".join(f"{toml_key(name)} = {_value(text)}" for name, text in launch.arguments)
    return [*lines, f"args = {{ {arguments} }}"]


def _numbers(text: str) -> list[str]:
    return [part for part in text.replace("x", ",").replace(",", " ").split() if part]


def _value(text: str) -> str:
    """Return a number as it is, and anything else in quotes."""
    try:
        float(text) if not text.strip().isdigit() else int(text)
    except ValueError:
        return toml_text(text)
    return text.strip() if text.strip().lstrip("-")[:1].isdigit() else toml_text(text)


def with_launch(asked: Asked, text: str) -> Asked:
    """Return a pane's state with the launches and macros of a launch file; raises InputError."""
    if len(text) > MOST_CHARACTERS:
        raise InputError("the launch file is too long", cure=f"Give one of at most {MOST_CHARACTERS} characters.")
    try:
        table = tomllib.loads(text)
        launches = tuple(_typed(launch) for launch in table["launch"][:MOST_LAUNCHES])
        defines = " ".join(f"{name}={_macro(value)}" for name, value in table.get("defines", {}).items())
        return replace(asked, defines=defines).at(0, launches)
    except (tomllib.TOMLDecodeError, LookupError, TypeError, AttributeError, RecursionError) as error:
        cure = "It needs a [[launch]] with grid and block: kerncast init writes one."
        raise InputError(f"this is not a launch file ({error})"[:300], cure=cure) from None


def left_out(text: str) -> list[str]:
    r"""Return what a launch file says that the page has no place for.

    >>> left_out("fast_math = true\n[[launch]]\ngrid = 1\nblock = 1\ncooperative = true")
    ['fast_math', 'cooperative']
    """
    table = tomllib.loads(text)
    known = {"source", "defines", "launch", "kernel", "grid", "block", "shared_bytes", "args"}
    names = [name for part in (table, *table["launch"]) for name in part]
    more = [f"launches after the first {MOST_LAUNCHES}"] if len(table["launch"]) > MOST_LAUNCHES else []
    return [*dict.fromkeys(name for name in names if name not in known), *more]


def _typed(launch: dict[str, Any]) -> TypedLaunch:
    arguments = tuple((str(name), _shown(value)) for name, value in launch.get("args", {}).items())
    grid, block = _extents(launch["grid"]), _extents(launch["block"])
    return TypedLaunch(str(launch.get("kernel", "")), grid, block, str(launch.get("shared_bytes", "")), arguments)


def _macro(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _extents(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def hypothetical_text(gpu: Hypothetical) -> str:
    """Return the file of a GPU that does not exist.

    >>> print(hypothetical_text(Hypothetical("t4", "T4 with 80 SMs", (("sm_count", 80),))))
    name = "T4 with 80 SMs"
    from = "t4"
    sm_count = 80
    <BLANKLINE>
    """
    lines = [f"name = {toml_text(gpu.name)}", f"from = {toml_text(gpu.base)}"]
    return "\n".join([*lines, *(f"{toml_key(key)} = {value:g}" for key, value in gpu.changes), ""])
