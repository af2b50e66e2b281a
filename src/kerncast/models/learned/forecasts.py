"""Forecasts by a trained model: its time for each row of features, and an interval as wide as its errors were.

The interval is that of launches held out which were as new to the model: of another configuration, kernel or GPU. What
lies outside the range that was learned from makes it wider by as much: trees stay where they are there, and nothing
tells how far the others go wrong.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import GPUError, Refusal
from kerncast.gpu import GPU, find_id, normalise
from kerncast.launch import base_name
from kerncast.measurements.feature_table import Floats
from kerncast.models.base import Question
from kerncast.models.learned.model_files import ModelFile
from kerncast.models.learned.reach import MOST_LOG_ERROR, SplitErrors, assumed_log_error
from kerncast.prediction import Prediction, Term
from kerncast.read.bounded_text import MOST_SECONDS, listed
from kerncast.units import format_seconds

LIMITER = "learned"
_OLD_FORMAT = "1.0"
#: How far a counter may be from the profiler's whose place it takes. On Rodinia's rows of a K40, issue slots are 0.9 to
#: 1.8 times the executed instructions of a kernel, issued loads and stores 1.2 to 2.6 times the executed ones.
NEAR_FACTOR = 1.5
_MOST_NAMES = 6
_KERNELS, _GPUS = "kernels", "gpus"
_SEEN = ("configurations", "rows")
#: What caveats call the splits.
_CALLED = {"rows": "launches", "gpus": "GPUs"}
_CURE = "Its features are far from those that the model learned from, or the model does not fit such launches."


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """The features of one launch on one GPU, in the order of the model."""

    kernel: str
    launch: int
    gpu: GPU
    values: tuple[float, ...]
    caveats: tuple[Caveat, ...] = ()
    """caveats on the features"""
    uncertain: tuple[int, ...] = ()
    """features of which only a counter near to the profiler's is known"""
    log_error: float = 0.0
    """error of what the features follow from, such as the simulated time, at the level asked for"""


@dataclass(frozen=True, slots=True)
class _Interval:
    """The error of a model on launches that are as new to it, and what tells it."""

    log_error: float
    caveats: tuple[Caveat, ...]


class LearnedModel:
    """A trained model that forecasts rows of features at one level."""

    def __init__(self, file: ModelFile, name: str, question: Question) -> None:
        self.file, self.name, self._question = file, name, question
        self._kernels = {base_name(kernel) for kernel in file.header.kernels}
        self._intervals: dict[tuple[bool, bool], _Interval] = {}
        self._known_gpus: dict[str, bool] = {}

    def forecasts(self, rows: Sequence[FeatureRow]) -> Iterator[Prediction | Refusal]:
        """Yield the forecast of each row, or why there is none."""
        if not rows:
            return
        values = np.array([row.values for row in rows], np.float64)
        seconds, reach = self.file.seconds(values), self.file.header.reach
        outside = reach.outside(values) if reach else np.zeros(values.shape)
        apart = reach.distances(values) if reach else np.zeros(len(values))
        if self.file.header.base is not None:
            seconds = self._believed(values, seconds, apart)
        for row, each_s, logs, times in zip(rows, seconds.tolist(), outside, apart.tolist(), strict=True):
            yield self._forecast(row, each_s, logs, times)

    def _believed(self, values: Floats, seconds: Floats, apart: Floats) -> Floats:
        """Return forecasts of a residual, which fades where launches are far from all that it learned from."""
        simulated = self.file.trained.simulated(values)
        share = np.exp(-np.maximum(0.0, apart - 1))
        found: Floats = simulated * np.exp(share * np.log(seconds / simulated))
        return found

    def _forecast(self, row: FeatureRow, seconds: float, outside: Floats, times: float) -> Prediction | Refusal:
        notes = self._outside(outside)
        if not 0 < seconds <= MOST_SECONDS:
            shown = format_seconds(seconds) if math.isfinite(seconds) and abs(seconds) <= MOST_SECONDS else str(seconds)
            names = f"; outside the range that it learned from are {notes[0].subject}" if notes else ""
            return Refusal(f"{self.name} forecasts {shown}, which is not a time{names}", cure=_CURE)
        is_new, is_far = base_name(row.kernel) not in self._kernels, times > 1
        interval = self._interval(is_new or is_far, not self._knows(row.gpu))
        own = math.hypot(interval.log_error, row.log_error, self._by_uncertain(row, seconds))
        factor = math.exp(min(MOST_LOG_ERROR, own + float(outside.max(initial=0.0))))
        if is_far:
            notes = (Caveat.of(CaveatKind.LEARNED_FAR, times=times if math.isfinite(times) else MOST_SECONDS), *notes)
        if is_new:
            notes = (Caveat.of(CaveatKind.LEARNED_KERNEL_NEW, row.kernel), *notes)
        if not self._knows(row.gpu):
            notes = (Caveat.of(CaveatKind.LEARNED_GPU_NEW, row.gpu.name), *notes)
        question = self._question
        return Prediction(
            kernel=row.kernel, launch=row.launch, gpu=row.gpu.name, gpu_id=row.gpu.id,
            seconds=seconds, low=seconds / factor, high=seconds * factor,
            level=question.level, timing=question.timing, limiter=LIMITER, terms=(Term(LIMITER, seconds),),
            caveats=(*row.caveats, self._origin, *notes, *interval.caveats), model=self.name,
        )  # fmt: skip

    def _by_uncertain(self, row: FeatureRow, seconds: float) -> float:
        """Return the error of a forecast by counters that are only near: each may be more or less by a factor."""
        if not row.uncertain:
            return 0.0
        values = np.tile(np.array(row.values), (2 * len(row.uncertain), 1))
        for number, column in enumerate(row.uncertain):
            values[2 * number, column] *= NEAR_FACTOR
            values[2 * number + 1, column] /= NEAR_FACTOR
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = np.abs(np.log(self.file.seconds(values) / seconds))
        largest = np.where(np.isfinite(logs), logs, MOST_LOG_ERROR).reshape(-1, 2).max(axis=1)
        return min(MOST_LOG_ERROR, math.hypot(*largest.tolist()))

    @cached_property
    def _origin(self) -> Caveat:
        """What the model learned from."""
        header = self.file.header
        return Caveat.of(
            CaveatKind.LEARNED_FROM,
            header.name,
            launches=header.learned_from,
            kernels=len(header.kernels),
            gpus=listed(header.gpus, _MOST_NAMES),
            data=listed([each.name for each in header.data], _MOST_NAMES),
        )

    def _knows(self, gpu: GPU) -> bool:
        """Whether the model learned from launches on a GPU."""
        if gpu.id not in self._known_gpus:
            self._known_gpus[gpu.id] = any(is_called(gpu, name) for name in self.file.header.gpus)
        return self._known_gpus[gpu.id]

    def _interval(self, is_new_kernel: bool, is_new_gpu: bool) -> _Interval:
        """Return the error on launches that are new in these ways, remembered: rows by the million ask for four."""
        key = is_new_kernel, is_new_gpu
        if key not in self._intervals:
            self._intervals[key] = self._errors([*[_KERNELS][: int(is_new_kernel)], *[_GPUS][: int(is_new_gpu)]])
        return self._intervals[key]

    def _errors(self, new: Sequence[str]) -> _Interval:
        """Return the error on launches of new kernels and GPUs: errors of both kinds come together."""
        reach, level = self.file.header.reach, self._question.level
        if reach is None:
            assumed = assumed_log_error(level)
            return _Interval(
                assumed,
                (Caveat.of(CaveatKind.LEARNED_ERRORS_UNKNOWN, _OLD_FORMAT, level=level, factor=math.exp(assumed)),),
            )
        seen = max(filter(None, map(reach.of, _SEEN)), key=lambda each: each.log_error(level), default=None)
        known = [(name, reach.of(name)) for name in new] or [(_SEEN[0], seen)]
        logs = [errors.log_error(level) if errors else assumed_log_error(level) for _, errors in known]
        # What is new is not forecast better than what is not, however lucky the model was with it.
        whole = max(math.hypot(*logs), seen.log_error(level) if seen else 0.0)
        return _Interval(
            whole,
            tuple(
                each for (name, errors), log in zip(known, logs, strict=True) for each in self._told(name, errors, log)
            ),
        )

    def _told(self, name: str, errors: SplitErrors | None, log_error: float) -> Iterator[Caveat]:
        level, factor = self._question.level, math.exp(log_error)
        if errors is None:
            called = _CALLED.get(name, name)
            yield Caveat.of(CaveatKind.LEARNED_INTERVAL_ASSUMED, called, level=level, factor=factor)
            return
        called = _CALLED.get(errors.split, errors.split)
        yield Caveat.of(
            CaveatKind.LEARNED_INTERVAL,
            called,
            level=level,
            factor=factor,
            launches=errors.launches,
            groups=errors.groups,
        )
        if not errors.tells(level):
            highest = min(errors.levels[-1], errors.groups / (errors.groups + 1))
            yield Caveat.of(CaveatKind.INTERVAL_EXTRAPOLATED, level=level, lowest=errors.levels[0], highest=highest)

    def _outside(self, logs: Floats) -> tuple[Caveat, ...]:
        """Return the features that lie outside the range that was learned from, the farthest first."""
        if not logs.any():
            return ()
        names = self.file.header.features
        farthest = [names[column] for column in np.argsort(-logs, kind="stable") if logs[column] > 0]
        count, factor = len(farthest), math.exp(float(logs.max()))
        return (Caveat.of(CaveatKind.LEARNED_OUTSIDE, listed(farthest, _MOST_NAMES), features=count, factor=factor),)


def is_called(gpu: GPU, name: str) -> bool:
    """Whether a name in measured data means a GPU."""
    if normalise(name) in {normalise(gpu.id), normalise(gpu.name)}:
        return True
    try:
        return find_id(name)[0] == gpu.id
    except GPUError:
        return False
