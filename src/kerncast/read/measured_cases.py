"""Reads measured cases: kernels that were timed on GPUs, beside what models had forecast of them (JSON).

The file is a list of cases, or an object with ``schema_version`` "1.x" and ``cases``; ``benchmarks/score_timing.py
--json`` writes the former. ``docs/zero-shot.md`` names the fields.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncast.errors import InputError
from kerncast.printable import printable
from kerncast.read.bounded_text import LEAST_SECONDS, MOST_SECONDS, parse_json, read_text
from kerncast.units import GIGA, MEGA

VERSION = "1.0"
_MOST_CASES = 4000
_MOST_COUNT = 2**63
_CURE = "Write it by benchmarks/score_timing.py --json, or as docs/zero-shot.md describes it."


@dataclass(frozen=True, slots=True)
class ModelTime:
    """The forecast of one model."""

    model: str
    seconds: float
    low: float
    high: float
    limiter: str
    terms: tuple[tuple[str, float], ...]
    """seconds by resource"""

    def term(self, name: str) -> float:
        """Return the seconds of one resource, 0 where it has none."""
        return dict(self.terms).get(name, 0.0)


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """One launch that was measured on one GPU."""

    set: str
    kernel: str
    size: str
    gpu: str
    """name or id"""
    clock_hz: float
    blocks: int
    threads_per_block: int
    registers: int | None
    spills: bool
    build: str
    """macros of the build, as text"""
    seconds: float
    """measured"""
    forecasts: tuple[ModelTime, ...]

    def by(self, model: str) -> ModelTime | None:
        """Return what a model forecast, None where it did not."""
        return next((each for each in self.forecasts if each.model == model), None)


def read_cases(paths: Sequence[Path]) -> tuple[MeasuredCase, ...]:
    """Return the cases of some files that any model has forecast; raises InputError with the place."""
    found = tuple(case for path in paths for case in _cases(path))
    if not found:
        raise InputError("there is no case with a forecast", where=str(paths[0]) if paths else "", cure=_CURE)
    if len(found) > _MOST_CASES:
        raise InputError(f"there are {len(found)} cases", where=str(paths[0]), cure=f"Give at most {_MOST_CASES}.")
    return found


def _cases(path: Path) -> Iterator[MeasuredCase]:
    data = parse_json(read_text(path), str(path))
    if isinstance(data, Mapping):
        version = str(data.get("schema_version"))[:20]
        if version.partition(".")[0] != VERSION.partition(".")[0]:
            raise InputError(f"its schema_version is {version}, not {VERSION}", where=str(path), cure=_CURE)
        data = data.get("cases")
    if not isinstance(data, list):
        raise InputError("it holds no list of cases", where=str(path), cure=_CURE)
    for number, row in enumerate(data):
        place = f"{path}, case {number}"
        try:
            case = _case(row)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"a field is missing or wrong: {str(error)[:80]}", where=place, cure=_CURE) from None
        if case.forecasts:
            yield case


def _case(row: Mapping[str, Any]) -> MeasuredCase:
    registers = row.get("registers")
    return MeasuredCase(
        set=_text(row["set"]),
        kernel=_text(row["kernel"]),
        size=_text(row["size"]),
        gpu=_text(row["gpu"]),
        clock_hz=_within(row["clock_mhz"], 1.0, GIGA / MEGA * 10) * MEGA,
        blocks=_product(row["grid"]),
        threads_per_block=_product(row["block"]),
        registers=None if registers is None else int(_within(registers, 1, 1024)),
        spills=bool(row.get("spills", False)),
        build=_text(str(sorted(dict(row.get("defines", {})).items()))),
        seconds=_seconds(row["measured_seconds"]),
        forecasts=tuple(_model_time(name, each) for name, each in row["forecasts"].items()),
    )


def _model_time(name: str, table: Mapping[str, Any]) -> ModelTime:
    terms = tuple((_text(key), _within(value, 0.0, MOST_SECONDS)) for key, value in table["terms"].items())
    seconds, low, high = (_seconds(table[key]) for key in ("seconds", "low", "high"))
    return ModelTime(_text(name), seconds, low, high, _text(table["limiter"]), terms)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]!r} is no text")
    return printable(value)


def _product(sizes: Sequence[Any]) -> int:
    return int(_within(math.prod(int(_within(each, 1, _MOST_COUNT)) for each in sizes), 1, _MOST_COUNT))


def _seconds(value: Any) -> float:
    return _within(value, LEAST_SECONDS / 10, MOST_SECONDS * 10)


def _within(value: Any, least: float, most: float) -> float:
    number = float(value)
    if not least <= number <= most:
        raise ValueError(f"{str(value)[:40]} is not from {least:g} to {most:g}")
    return number
