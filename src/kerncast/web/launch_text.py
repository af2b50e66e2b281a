"""The texts of files that the page gives away and takes in: a launch file, and the file of a hypothetical GPU."""

import tomllib
from dataclasses import replace
from typing import Any

from kerncast.errors import InputError
from kerncast.report.files.toml_text import toml_key, toml_text
from kerncast.web.questions import Asked, Hypothetical

#: Launches of one file are few; more characters are no launch file that somebody edits here.
MOST_CHARACTERS = 1_000_000


def launch_text(asked: Asked, kernel: str, source: str) -> str:
    """Return a launch file with the launch of a pane, whose source has this name.

    >>> print(launch_text(Asked("", "k", "64", "32, 2", arguments=(("n", "4"), ("x", "f32[4] zeros"))), "k", "k.cu"))
    source = "k.cu"
    <BLANKLINE>
    [[launch]]
    kernel = "k"
    grid = [64]
    block = [32, 2]
    args = { n = 4, x = "f32[4] zeros" }
    <BLANKLINE>
    """
    lines = [f"source = {toml_text(source)}", "", "[[launch]]", f"kernel = {toml_text(kernel)}"]
    lines += [
        f"{name} = [{', '.join(_numbers(text))}]" for name, text in (("grid", asked.grid), ("block", asked.block))
    ]
    if asked.shared_bytes.strip() not in {"", "0"}:
        lines.append(f"shared_bytes = {asked.shared_bytes.strip()}")
    arguments = ", ".join(f"{toml_key(name)} = {_value(text)}" for name, text in asked.arguments)
    return "\n".join([*lines, f"args = {{ {arguments} }}", ""])


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
    """Return a pane's state with the first launch of a launch file; raises InputError."""
    if len(text) > MOST_CHARACTERS:
        raise InputError("the launch file is too long", cure=f"Give one of at most {MOST_CHARACTERS} characters.")
    try:
        launch = tomllib.loads(text)["launch"][0]
        arguments = tuple((str(name), _shown(value)) for name, value in launch.get("args", {}).items())
        return replace(
            asked,
            kernel=str(launch.get("kernel", "")),
            grid=_extents(launch["grid"]),
            block=_extents(launch["block"]),
            shared_bytes=str(launch.get("shared_bytes", "")),
            arguments=arguments,
        )
    except (tomllib.TOMLDecodeError, LookupError, TypeError, AttributeError, RecursionError) as error:
        cure = "It needs a [[launch]] with grid and block: kerncast init writes one."
        raise InputError(f"this is not a launch file ({error})"[:300], cure=cure) from None


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
