"""Bounds of one kernel on parts of a GPU, as they are asked for: of a launch, of measured times, or of both."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncast.api.resident import SOURCES
from kerncast.errors import InputError
from kerncast.forecast import Means, timing_named
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.measurements import MOST_TPCS, PartitionTimes, counts_up_to
from kerncast.prediction import Timing
from kerncast.read.launches import load_launches, only_launch
from kerncast.recording.recording_files import SUFFIX
from kerncast.studies.bounding import BoundOptions, KernelBounds, bound_launch, bound_times
from kerncast.studies.bounds import Blocks, kind_named

if TYPE_CHECKING:
    from kerncast.measurements.feature_table import FeatureTable
    from kerncast.read.features.profiled import ProfiledMeans
    from kerncast.studies.interference import Beside

_MEASUREMENT = ".jsonl"
_LEAST_LEVEL = 0.5
_MOST_STEPS = 20
_PROFILE = re.compile(r"([0-9]{1,6})=(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AskedBounds:
    """Options of a bound, by the names of the command line."""

    kind: str | None = None
    method: str | None = None
    anchors: str | None = None
    times: Path | None = None
    kernel: str | None = None
    form: str | None = None
    blocks: int | None = None
    blocks_per_tpc: int = 1
    plan: int = 0
    beside: "Path | Launch | None" = None
    beside_tpcs: int | None = None
    train: tuple[Path, ...] = ()
    profile: tuple[str, ...] = ()
    level: float | None = None
    timing: str | None = None

    def options(self) -> BoundOptions:
        """Return what they mean; raises InputError."""
        return BoundOptions(
            self.method, _anchors(self.anchors), self.form, _blocks(self.blocks, self.blocks_per_tpc),
            _training(self.train), _level(self.level), None if self.kind is None else kind_named(self.kind),
            _timing(self.timing, self.times), _steps(self.plan), _beside(self.beside, self.beside_tpcs),
        )  # fmt: skip


def counts_of_tpcs(text: str | None, gpu: GPU) -> tuple[int, ...]:
    """Return the counts that a text such as 1-8,40 means, all of the GPU's without one; raises InputError."""
    from kerncast.studies.partitions import most_tpcs  # noqa: PLC0415  LLVM loads late

    most = most_tpcs(gpu)
    return counts_up_to(f"1-{most}" if text is None else text, most, gpu.name)


@dataclass(frozen=True, slots=True)
class Bounding:
    """What is to be bounded, read."""

    launch: Launch | None
    times: PartitionTimes | None
    on: tuple[GPU, tuple[int, ...]]
    """the GPU, and the counts of TPCs that are asked for"""
    options: BoundOptions

    @classmethod
    def of(cls, evidence: Path | Launch, on: tuple[GPU, tuple[int, ...]], asked: AskedBounds) -> "Bounding":
        """Read files; raises InputError for what does not go together."""
        is_launch = isinstance(evidence, Launch) or _is_launch(evidence)
        of_tables = (asked.form, asked.profile, asked.train if asked.times is None else None)
        _check_usage(is_launch=is_launch, times=asked.times, of_tables=of_tables)
        if is_launch and asked.times is None and asked.anchors is not None:
            raise InputError("--anchors belongs to measured times", cure="Leave it out, or add --times.")
        launch = None
        if is_launch:
            launch = evidence if isinstance(evidence, Launch) else _launch(evidence, asked.kernel, asked.times)
        file = asked.times if isinstance(evidence, Launch) or is_launch else evidence
        table = _times(file, on[0], asked.kernel, is_launch=is_launch)
        options = asked.options()
        if table is not None and asked.profile:
            table = _with_profiles(table, asked.profile, options)
        return cls(launch, table, on, options)

    def bounds(self, means: Means) -> KernelBounds:
        """Return the bounds; raises Refusal for a launch that cannot be simulated."""
        table, launch, options, (gpu, counts) = self.times, self.launch, self.options, self.on
        if table is not None and launch is not None and options.training is not None:
            table = _with_features(table, launch, options, self.on, means)
        if launch is not None and options.training is None:
            return bound_launch(launch, table, gpu, (counts, options), means)
        assert table is not None
        return bound_times(table, gpu, counts, options)


def _is_launch(evidence: Path) -> bool:
    if evidence.suffix.lower() in SOURCES:
        raise InputError(
            f"{evidence} is a source without a launch", cure="Write a launch file: kerncast bound LAUNCH.toml."
        )
    return evidence.suffix.lower() in {".toml", SUFFIX}


def _launch(path: Path, kernel: str | None, times: Path | None) -> Launch:
    """Return the launch to bound: the file's only one, or the one that is named."""
    is_of_times = times is not None and times.suffix.lower() == _MEASUREMENT and len(load_launches(path)) == 1
    return only_launch(path, None if is_of_times else kernel)


def _check_usage(*, is_launch: bool, times: Path | None, of_tables: Sequence[object]) -> None:
    if times is not None and not is_launch:
        raise InputError("--times belongs to a launch file", cure="Give one file of times, and no other.")
    if is_launch and any(of_tables):
        raise InputError(
            "--form and --profile belong to a file of times, and --train to times, too",
            cure="Leave them out, or add --times: the simulation is the base model of a launch.",
        )


def _with_features(
    table: PartitionTimes, launch: Launch, options: BoundOptions, on: tuple[GPU, tuple[int, ...]],
    means: Means,
) -> PartitionTimes:  # fmt: skip
    """Return the times with the features of the launch on all counts, for a method that learns from other launches."""
    from kerncast.studies.bounding import check_method  # noqa: PLC0415
    from kerncast.studies.partitions import with_executed_features  # noqa: PLC0415  LLVM loads late

    check_method(options, is_launch=False)
    assert options.training is not None
    gpu, counts = on
    known = tuple(sorted({*counts, *table.counts}))
    return with_executed_features(table, launch, options.training, (gpu, known), means)


def _times(path: Path | None, gpu: GPU, kernel: str | None, *, is_launch: bool) -> PartitionTimes | None:
    """Return the measured times; raises InputError for more TPCs than there are."""
    from kerncast.read.partition_files import read_measured_partitions, read_partition_times  # noqa: PLC0415
    from kerncast.studies.partitions import most_tpcs  # noqa: PLC0415

    is_measurement = path is not None and path.suffix.lower() == _MEASUREMENT
    if kernel is not None and not is_measurement and not is_launch:
        raise InputError("--kernel belongs to launches, or to a measurement file (.jsonl)", cure="Leave it out.")
    if path is None:
        return None
    times = read_measured_partitions(path, gpu, kernel) if is_measurement else read_partition_times(path)
    most = most_tpcs(gpu)
    if times.counts[-1] > most:
        raise InputError(
            f"it has times on {times.counts[-1]} TPCs; {gpu.name} has {most}",
            where=str(path),
            cure="Name the GPU that they were measured on.",
        )
    return times


def _with_profiles(times: PartitionTimes, profiles: Sequence[str], options: BoundOptions) -> PartitionTimes:
    from kerncast.studies.bounding import with_profiled_features  # noqa: PLC0415

    found = [_profiled(text) for text in profiles]
    if options.training is None:
        raise InputError("--profile needs launches to learn from", cure="Add --train.")
    return with_profiled_features(times, found, options.training)


def _profiled(text: str) -> "tuple[int, ProfiledMeans]":
    from kerncast.read.features.profiled import read_profiled_means  # noqa: PLC0415

    match = _PROFILE.fullmatch(text)
    if match is None:
        raise InputError(f"--profile {text[:60]!r} is not a TPC count with a file", cure="Write 8=profile.csv.")
    return int(match[1]), read_profiled_means(Path(match[2]))


def _training(paths: Sequence[Path]) -> "FeatureTable | None":
    if not paths:
        return None
    from kerncast.read.features.table_files import read_feature_table  # noqa: PLC0415

    return read_feature_table(paths).table


def _anchors(text: str | None) -> tuple[int, ...] | None:
    return None if text is None else counts_up_to(text, MOST_TPCS, "A GPU", "--anchors")


def _blocks(count: int | None, per_tpc: int) -> Blocks | None:
    if count is None:
        if per_tpc != 1:
            raise InputError("--blocks-per-tpc needs --blocks", cure="Add --blocks N.")
        return None
    return Blocks(count, per_tpc)


def _steps(plan: int) -> int:
    if not 0 <= plan <= _MOST_STEPS:
        raise InputError(f"--plan is {plan}", cure=f"Give a number of measurements from 1 to {_MOST_STEPS}.")
    return plan


def _beside(path: Path | Launch | None, tpcs: int | None) -> "Beside | None":
    if path is None:
        if tpcs is not None:
            raise InputError("--beside-tpcs needs --beside", cure="Add --beside OTHER.toml.")
        return None
    from kerncast.studies.interference import Beside  # noqa: PLC0415  LLVM loads late

    return Beside(path if isinstance(path, Launch) else only_launch(path), tpcs)


def _level(level: float | None) -> float | None:
    if level is not None and not _LEAST_LEVEL < level < 1:
        raise InputError(f"level is {level}", cure="Give a probability above 0.5 and below 1, such as 0.99.")
    return level


def _timing(timing: str | None, times: Path | None) -> Timing:
    """Return how the times were taken: a measurement of parts holds single launches."""
    if timing is None:
        timing = "single" if times is not None and times.suffix.lower() == _MEASUREMENT else "series"
    return timing_named(timing)
