"""Cleaning of a table of launches: what no model can learn from goes, and each row and column that goes is told."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.measurements.feature_table import FeatureTable, Floats
from kerncast.read.bounded_text import LEAST_SECONDS, MOST, MOST_SECONDS
from kerncast.read.features.columns import Derived, derived

#: A column that lacks more of its values costs more launches than it is worth.
MOST_MISSING = 0.1
#: Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993: modified z-scores above 3.5 are outliers.
MOST_MODIFIED_Z = 3.5
_Z_PER_MAD = 0.6745
#: With fewer repeats the spread is not known.
_LEAST_REPEATS = 5
#: Counters of the same launch differ by caches and replays, those of another size by more.
_MOST_SPREAD = 0.05

#: What a launch is called whose table names no kernel, or no GPU.
UNNAMED = "unnamed"

Mask = npt.NDArray[np.bool_]


class Why(Enum):
    """Why a column is no feature."""

    TIME = "time"
    """another time of the same launch"""
    RATE = "rate"
    """value computed from the time"""
    CONSTANT = "constant"
    MISSING = "missing"
    """value missing in more than a tenth of the launches"""
    TEXT = "text"
    LABEL = "label"
    """number that only tells rows apart, or counts runs"""
    NOT_EVERYWHERE = "not in every file"


@dataclass(frozen=True, slots=True)
class RemovedColumn:
    """A column that is no feature."""

    name: str
    why: Why


@dataclass(frozen=True, slots=True)
class CleaningRules:
    """The user's options for the cleaning."""

    features: tuple[str, ...] | None = None
    """names of the features in this order, time-derived and constant ones too; None: all that are sound"""
    drops_outliers: bool = True
    gpu: str | None = None
    """name in the data of the only GPU whose launches are taken; None: all"""


@dataclass(frozen=True, slots=True)
class Cleaning:
    """The rows removed from the files by reason, the columns removed, and those left that follow from the time."""

    rows_read: int
    rows_kept: int
    of_other_gpus: int
    without_time: int
    """rows whose time is missing, 0 or negative, or in no row of the second file"""
    missing: int
    """rows that lack a feature"""
    duplicates: int
    """rows alike in each feature, the time, the kernel, the GPU and the configuration"""
    outliers: int
    """rows whose time's logarithm has a modified z-score above 3.5 among 5 or more repeats of the same work"""
    removed: tuple[RemovedColumn, ...]
    time_derived: tuple[str, ...]
    """features that were kept although they follow from the time or from elapsed cycles"""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that launches were read from."""

    name: str
    """name of the file without its folder"""
    sha256: str


@dataclass(frozen=True, slots=True)
class LaunchRows:
    """Launches as read: missing values and times are NaN."""

    names: tuple[str, ...]
    values: Floats
    """[launches, columns]"""
    seconds: Floats
    kernels: tuple[str, ...]
    gpus: tuple[str, ...]
    configurations: tuple[str, ...]
    removed: tuple[RemovedColumn, ...]
    source: str
    files: tuple[DataFile, ...]

    @property
    def sha256(self) -> str:
        """Digest of the file; of several files, that of their lines of SHA-256."""
        digests = [file.sha256 for file in self.files]
        return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CleanTable:
    """A table that models may learn from, and what was cleaned away."""

    table: FeatureTable
    cleaning: Cleaning
    files: tuple[DataFile, ...]


def clean(rows: LaunchRows, rules: CleaningRules) -> CleanTable:
    """Return the sound launches and features; raises InputError where none are left, or a feature asked for is not."""
    check_magnitudes(rows)
    own = of_gpu(rows, rules.gpu)
    with np.errstate(invalid="ignore"):
        timed = own & (rows.seconds > 0)
    if not timed.any():
        raise InputError("no launch has a time above 0", where=rows.source, cure="Give the measured times.")
    columns, removed = _columns(rows, timed, rules.features)
    values = rows.values[:, columns]
    whole = timed & ~np.isnan(values).any(axis=1)
    first = _first_of_equals(rows, values, whole)
    usual = _usual(rows, first) if rules.drops_outliers else first
    if rules.features is None:
        columns, constant = _varying(rows, columns, usual)
        removed = (*removed, *constant)
    names = tuple(rows.names[column] for column in columns)
    if not names or not usual.any():
        raise InputError(
            "nothing is left to learn from: no launch has all features" if names else "no column is a feature",
            where=rows.source,
            cure="Give launches with counters that vary and no missing values, or name fewer features.",
        )
    counts = [int(mask.sum()) for mask in (own, timed, whole, first, usual)]
    cleaning = Cleaning(
        rows_read=len(rows.seconds),
        rows_kept=counts[4],
        of_other_gpus=len(rows.seconds) - counts[0],
        without_time=counts[0] - counts[1],
        missing=counts[1] - counts[2],
        duplicates=counts[2] - counts[3],
        outliers=counts[3] - counts[4],
        removed=(*rows.removed, *removed),
        time_derived=tuple(name for name in names if derived(name)),
    )
    return CleanTable(_table(rows, columns, usual), cleaning, rows.files)


def check_magnitudes(rows: LaunchRows) -> None:
    """Raise InputError where squares of numbers, or errors as shares of times, would no longer be numbers."""
    with np.errstate(invalid="ignore"):
        huge = np.argwhere(np.abs(rows.values) > MOST)
        late = np.flatnonzero(rows.seconds > MOST_SECONDS)
        early = np.flatnonzero((rows.seconds > 0) & (rows.seconds < LEAST_SECONDS))
    if len(huge):
        row, column = (int(index) for index in huge[0])
        what = f"{rows.names[column]} of row {row + 1} is {rows.values[row, column]:g}"
        raise InputError(what, where=rows.source, cure=f"Expected a number below {MOST:g}.")
    if late.size:
        what = f"the time of row {int(late[0]) + 1} is {rows.seconds[late[0]]:g} s"
        raise InputError(what, where=rows.source, cure=f"Expected at most {MOST_SECONDS:g} s; is its unit right?")
    if early.size:
        what = f"the time of row {int(early[0]) + 1} is {rows.seconds[early[0]]:g} s"
        raise InputError(what, where=rows.source, cure=f"Expected at least {LEAST_SECONDS:g} s; is its unit right?")


def of_gpu(rows: LaunchRows, gpu: str | None) -> Mask:
    """Return which launches ran on a GPU, by its name in the data, or all; raises InputError where none did."""
    if gpu is None:
        return np.ones(len(rows.seconds), np.bool_)
    wanted = _plain(gpu)
    alike = {name for name in set(rows.gpus) if _plain(name) == wanted}
    if not alike:
        known = ", ".join(sorted(set(rows.gpus))[:20])
        raise InputError(f"no launch ran on {gpu[:60]!r}", where=rows.source, cure=f"Its GPUs are {known}.")
    return np.array([name in alike for name in rows.gpus], np.bool_)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def columns_of(rows: LaunchRows, names: Sequence[str]) -> list[int]:
    """Return the columns of some features; raises InputError for those that are not there."""
    unknown = [name for name in names if name not in rows.names]
    if unknown:
        raise InputError(
            f"it has no feature {', '.join(unknown)[:200]}",
            where=rows.source,
            cure=f"It has {', '.join(rows.names)[:400]}.",
        )
    return [rows.names.index(name) for name in names]


def _columns(rows: LaunchRows, timed: Mask, asked: Sequence[str] | None) -> tuple[list[int], tuple[RemovedColumn, ...]]:
    """Return the columns that may be features, and those that may not with the reason."""
    if asked is not None:
        return columns_of(rows, asked), ()
    missing = np.isnan(rows.values[timed]).mean(axis=0)
    kept, removed = [], []
    for column, name in enumerate(rows.names):
        if derived(name) in {Derived.RATE, Derived.TIME}:
            removed.append(RemovedColumn(name, Why.RATE))
        elif missing[column] > MOST_MISSING:
            removed.append(RemovedColumn(name, Why.MISSING))
        else:
            kept.append(column)
    return kept, tuple(removed)


def _varying(rows: LaunchRows, columns: list[int], kept: Mask) -> tuple[list[int], tuple[RemovedColumn, ...]]:
    values = rows.values[kept]
    varies = [column for column in columns if len(values) and np.ptp(values[:, column]) > 0]
    gone = (RemovedColumn(rows.names[column], Why.CONSTANT) for column in columns if column not in varies)
    return varies, tuple(gone)


def _first_of_equals(rows: LaunchRows, values: Floats, among: Mask) -> Mask:
    """Return the rows without those that repeat an earlier one in every respect."""
    seen: set[tuple[str, str, str, float, bytes]] = set()
    first = among.copy()
    for row in np.flatnonzero(among):
        names = (rows.kernels[row], rows.gpus[row], rows.configurations[row])
        key = (*names, float(rows.seconds[row]), values[row].tobytes())
        first[row] = key not in seen
        seen.add(key)
    return first


def _usual(rows: LaunchRows, among: Mask) -> Mask:
    """Return the rows without outliers among the repeats of one configuration."""
    names = list(zip(rows.kernels, rows.gpus, rows.configurations, strict=True))
    repeated = {name for name, count in Counter(names).items() if count >= _LEAST_REPEATS}
    groups: dict[tuple[str, str, str], list[int]] = {}
    for row in np.flatnonzero(among):
        if names[row] in repeated:
            groups.setdefault(names[row], []).append(int(row))
    work = rows.values[:, [column for column, name in enumerate(rows.names) if derived(name) is None]]
    usual = among.copy()
    for found in groups.values():
        if len(found) >= _LEAST_REPEATS and _are_repeats(work[found]):
            usual[found] = modified_z_scores(np.log(rows.seconds[found])) <= MOST_MODIFIED_Z
    return usual


def _are_repeats(values: Floats) -> bool:
    """Whether launches did the same work, as far as their features tell: sizes may stand in no column of the name."""
    known = np.nan_to_num(values)
    return bool((np.ptp(known, axis=0) <= _MOST_SPREAD * np.abs(known).max(axis=0)).all())


def modified_z_scores(values: Floats) -> Floats:
    """Return 0.6745 |x - median| / MAD, 0 where more than half of the values are equal.

    >>> modified_z_scores(np.array([1.0, 2.0, 3.0, 4.0, 100.0])).round(4).tolist()
    [1.349, 0.6745, 0.0, 0.6745, 65.4265]
    """
    distance = np.abs(values - np.median(values))
    spread = float(np.median(distance))
    return _Z_PER_MAD * distance / spread if spread else np.zeros_like(distance)


def _table(rows: LaunchRows, columns: list[int], kept: Mask) -> FeatureTable:
    index = np.flatnonzero(kept)
    return FeatureTable(
        names=tuple(rows.names[column] for column in columns),
        values=rows.values[index][:, columns],
        seconds=rows.seconds[index],
        kernels=tuple(rows.kernels[row] for row in index),
        gpus=tuple(rows.gpus[row] for row in index),
        configurations=tuple(rows.configurations[row] for row in index),
        source=rows.source,
        sha256=rows.sha256,
    )
