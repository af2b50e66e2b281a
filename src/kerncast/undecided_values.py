"""Values of a launch file that its user still has to decide: ``kerncast init`` writes a question mark for them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncast.errors import LaunchError

_UNDECIDED = re.compile(r"\s*\?\s*\Z|.*\[[^\]]*\?[^\]]*\]|\s*bytes\(\s*\?|[^(]*<[^>]*\?", re.DOTALL)
_COMMENT = re.compile(r'#\s*([^"]*)\Z')
_LAUNCH = re.compile(r"\s*\[\[\s*launch\s*\]\]")


@dataclass(frozen=True, slots=True)
class _Undecided:
    launch: int
    key: str


def refuse_undecided(rows: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Raise LaunchError with every value of a launch file that is a question mark, and where it stands."""
    found = [each for index, row in enumerate(rows) for each in _undecided(index, row)]
    if not found:
        return
    lines = file.read_text(encoding="utf-8").splitlines()
    what = "; ".join(_described(each, rows[each.launch], lines) for each in found)
    number = "1 value is" if len(found) == 1 else f"{len(found)} values are"
    raise LaunchError(f"{number} not decided: {what}", where=str(file), cure='Write a value in the place of each "?".')


def _undecided(index: int, row: Mapping[str, Any]) -> Iterator[_Undecided]:
    for key, value in row.items():
        if isinstance(value, dict):
            yield from (_Undecided(index, name) for name, each in value.items() if _is_undecided(each))
        elif any(map(_is_undecided, value if isinstance(value, list) else [value])):
            yield _Undecided(index, key)


def _is_undecided(value: object) -> bool:
    return isinstance(value, str) and _UNDECIDED.match(value) is not None


def _described(found: _Undecided, row: Mapping[str, Any], lines: Sequence[str]) -> str:
    kernel = row.get("kernel")
    name = f"launch {found.launch}" + (f" ({kernel})" if isinstance(kernel, str) else "")
    line = _line(found, lines)
    if line is None:
        return f"{name} {found.key}"
    comment = _COMMENT.search(lines[line])
    words = comment[1].strip().removeprefix("decide: ") if comment else ""
    return f"{name} {found.key}, line {line + 1}" + (f" ({words})" if words else "")


def _line(found: _Undecided, lines: Sequence[str]) -> int | None:
    """Return which line gives a key of a launch an undecided value."""
    launch = -1
    key = re.compile(r'(?:^|[\s{,])"?' + re.escape(found.key) + r'"?\s*=')
    for number, line in enumerate(lines):
        launch += _LAUNCH.match(line) is not None
        if launch == found.launch and "?" in line and key.search(line):
            return number
    return None
