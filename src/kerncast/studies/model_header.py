"""NOUN ModelHeader: what a model's file says of how it was made, how it was scored, and how to make it again."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kerncast.errors import InputError
from kerncast.read.bounded_text import printable
from kerncast.read.feature_cleaning import DataFile
from kerncast.studies.scores import Scores

FORMAT = "kerncast model"
#: 1.x are read; fields may be added in 1.y.
FORMAT_VERSION = "1.0"
_CURE = "The file was changed or damaged: copy it again, or train the model again."


@dataclass(frozen=True, slots=True)
class Versions:
    """Of what the model was trained with; forecasts need none of them."""

    kerncast: str
    python: str
    sklearn: str
    numpy: str


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """Some launches and what the model said of them when it was written."""

    values: tuple[tuple[float, ...], ...]
    """launches by features"""
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ModelHeader:
    """Where a model comes from."""

    recipe: str
    model: str
    """name in the recipe"""
    form: str
    """class in regressors.py"""
    features: tuple[str, ...]
    """in the order of the arrays"""
    data: tuple[DataFile, ...]
    gpus: tuple[str, ...]
    """that it learned from, as the data call them"""
    kernels: tuple[str, ...]
    rows: int
    """launches after cleaning"""
    learned_from: int
    """launches"""
    split: str
    seed: int
    scores: Scores
    """on what was held out; errors in seconds"""
    caveats: tuple[str, ...]
    command: str
    """that makes it again"""
    versions: Versions
    check: SelfCheck


def header_object(header: ModelHeader) -> dict[str, Any]:
    """Return a header as JSON; r2 is null where it is no number."""
    table = asdict(header)
    r2 = header.scores.r2
    table["scores"] |= {"rmse": header.scores.rmse, "r2": None if math.isnan(r2) else r2, "unit": "s"}
    return {"format": FORMAT, "format_version": FORMAT_VERSION, **table}


def read_header(text: str, where: str) -> ModelHeader:
    """Return the header of a JSON text; raises InputError for what is none, or is of a newer format."""
    try:
        table = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise InputError("its header is no JSON", where=where, cure=_CURE) from None
    if not isinstance(table, Mapping) or table.get("format") != FORMAT:
        raise InputError("it is no model of kerncast", where=where, cure="Give a file that kerncast train wrote.")
    version = str(table.get("format_version"))[:20]
    if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        what = f"its format is {version}, this kerncast reads {FORMAT_VERSION}"
        raise InputError(what, where=where, cure="Update kerncast, or train the model again.")
    try:
        return _header(table)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError("its header lacks what every model's has", where=where, cure=_CURE) from None


_VERSIONS = ("kerncast", "python", "sklearn", "numpy")


def _no_constant(text: str) -> float:
    raise ValueError(text)


def _header(table: Mapping[str, Any]) -> ModelHeader:
    check = table["check"]
    return ModelHeader(
        recipe=_text(table["recipe"]),
        model=_text(table["model"]),
        form=_text(table["form"]),
        features=_texts(table["features"]),
        data=tuple(DataFile(_text(each["name"]), _text(each["sha256"])) for each in table["data"]),
        gpus=_texts(table["gpus"]),
        kernels=_texts(table["kernels"]),
        rows=_count(table["rows"]),
        learned_from=_count(table["learned_from"]),
        split=_text(table["split"]),
        seed=_count(table["seed"]),
        scores=_scores(table["scores"]),
        caveats=_texts(table["caveats"]),
        command=_text(table["command"]),
        versions=Versions(**{name: _text(table["versions"][name]) for name in _VERSIONS}),
        check=SelfCheck(
            tuple(tuple(float(cell) for cell in row) for row in check["values"]),
            tuple(float(cell) for cell in check["seconds"]),
        ),
    )


def _texts(values: Sequence[object]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise TypeError(values)
    return tuple(map(_text, values))


def _text(value: object) -> str:
    return printable(str(value))


def _scores(table: Mapping[str, Any]) -> Scores:
    r2 = table["r2"]
    return Scores(
        n=_count(table["n"]),
        mae=_error(table["mae"]),
        max_ae=_error(table["max_ae"]),
        mse=_error(table["mse"]),
        r2=math.nan if r2 is None else _finite(r2),
        mape=_error(table["mape"]),
    )


def _count(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(value)
    return number


def _error(value: Any) -> float:
    number = _finite(value)
    if number < 0:
        raise ValueError(value)
    return number


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number
