"""The forecasts that --compare-to names: an earlier output, or another version that is forecast now."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncast.errors import InputError
from kerncast.prediction import Prediction, Term, Timing
from kerncast.units import MIB, format_seconds

if TYPE_CHECKING:
    from kerncast.forecast import Forecast, Options, Progress
    from kerncast.forecast.asked import GPUsNoted

#: A forecast has 2 kB: those of 10,000 launches on ten GPUs.
_MOST_BYTES = 256 * MIB


@dataclass(frozen=True, slots=True)
class Baseline:
    """Forecasts of the version before."""

    path: Path
    predictions: tuple[Prediction, ...]
    forecast: "Forecast | None" = None
    """all of it, where it was forecast now: its launches then pair by their places, whatever the kernels are called"""

    _by_place: dict[tuple[str, int, str], Prediction] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Of two forecasts of one place the first one counts.
        object.__setattr__(self, "_by_place", {self._place(each): each for each in reversed(self.predictions)})

    def of(self, p: Prediction) -> Prediction | None:
        """Return what was forecast before in the place of a forecast, None where nothing was."""
        return self._by_place.get(self._place(p))

    def _place(self, p: Prediction) -> tuple[str, int, str]:
        return ("" if self.forecast is not None else p.kernel), p.launch, p.gpu_id

    def pairs(self, predictions: Sequence[Prediction]) -> list[tuple[Prediction, Prediction]]:
        """Return the forecasts that have one before, each with it: (before, after)."""
        return [(before, p) for p in predictions if (before := self.of(p)) is not None]


def read_baseline(path: Path) -> Baseline:
    """Read the forecasts of an earlier ``--json`` output; raises InputError for anything else."""
    from kerncast.read.bounded_text import parse_json, read_text  # noqa: PLC0415  only of who compares

    try:
        text = read_text(path, _MOST_BYTES)
    except InputError as error:
        raise InputError(f"--compare-to {error.what}", where=error.where, cure=error.cure) from None
    try:
        table: Any = parse_json(text, str(path))
        return Baseline(path, tuple(_prediction(row) for row in table["predictions"]))
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError) as error:
        reason = error.what if isinstance(error, InputError) else f"{type(error).__name__}: {error}"[:200]
        raise InputError(
            f"--compare-to is no output of kerncast predict --json ({reason})",
            where=error.where if isinstance(error, InputError) else str(path),
            cure="Give what kerncast predict --json --out FILE has written, or a launch file.",
        ) from None


def forecast_baseline(path: Path, gpus: "GPUsNoted", options: "Options", progress: "Progress | None") -> Baseline:
    """Forecast another launch file, profile or source as the one at hand; raises InputError, and what it refuses."""
    from kerncast.forecast import forecast_all  # noqa: PLC0415

    found = forecast_all(path, gpus, replace(options, measured=()), progress)
    if not found.predictions:
        raise InputError("--compare-to has no launch that can be forecast", where=str(path))
    return Baseline(path, found.predictions, found)


def without_baseline(predictions: Sequence[Prediction], baseline: Baseline) -> list[str]:
    """Return a sentence for each forecast that the baseline lacks; raises InputError when it lacks them all."""
    lacking = [p for p in predictions if baseline.of(p) is None]
    if predictions and len(lacking) == len(predictions):
        raise InputError("--compare-to holds none of these kernels, launches and GPUs", where=str(baseline.path))
    return [f"{p.kernel} (launch {p.launch}) on {p.gpu} is not in {baseline.path}: nothing to compare" for p in lacking]


def slower_than(predictions: Sequence[Prediction], limit_seconds: float | None, baseline: Baseline | None) -> list[str]:
    """Return a sentence for each forecast that is slower than the limit, or than the baseline beyond both intervals."""
    sentences = []
    for p in predictions:
        what = f"{p.kernel} (launch {p.launch}) on {p.gpu} takes {format_seconds(p.seconds)}"
        if limit_seconds is not None and p.seconds > limit_seconds:
            sentences.append(f"{what}, over --max {format_seconds(limit_seconds)}")
        old = baseline.of(p) if baseline else None
        if old is not None and p.low > old.high:
            sentences.append(
                f"{what}, slower than before beyond both intervals (it was at most {format_seconds(old.high)})"
            )
    return sentences


def _prediction(row: Mapping[str, Any]) -> Prediction:
    low, high = _seconds(row["low"], "low"), _seconds(row["high"], "high")
    # Only its ends were read of an earlier output before: one edited by hand may have its middle elsewhere.
    seconds = min(max(_seconds(row.get("seconds", math.sqrt(low * high)), "seconds"), low), high)
    terms = tuple(Term(str(name), _seconds(value, "a term")) for name, value in dict(row.get("terms") or {}).items())
    gpu_id = str(row["gpu_id"])
    return Prediction(
        str(row["kernel"]), int(row["launch"]), str(row.get("gpu", gpu_id)), gpu_id, seconds, low, high,
        float(row.get("level", 0.9)), Timing.SERIES, str(row.get("limiter", "")), terms, (), str(row.get("model", "")),
    )  # fmt: skip


def _seconds(value: Any, name: str) -> float:
    seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{name} is {seconds}")
    return seconds
