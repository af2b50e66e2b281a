"""Bounds of one kernel on parts of a GPU: from measured times, from a launch that is simulated, or from both."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncast.caveats import OF_INTERVALS, Caveat
from kerncast.errors import InputError
from kerncast.forecast import Progress
from kerncast.gpu import GPU
from kerncast.measurements import CountFeatures, PartitionTimes
from kerncast.measurements.feature_table import FeatureTable
from kerncast.read.features.profiled import ProfiledMeans
from kerncast.studies.bounds import (
    DEFAULT_METHOD,
    Blocks,
    BoundAnswer,
    BoundMethod,
    BoundQuestion,
    Regressors,
    bound_method,
    measured_anchors,
)
from kerncast.studies.bounds.forms import (
    DEFAULT_FORM,
    regressors_of_curve,
    regressors_of_features,
    regressors_of_form,
    selected_features,
)

#: What bounds a launch without a measured time.
SIMULATION = "simulation"


@dataclass(frozen=True, slots=True)
class BoundOptions:
    """Options of a bound."""

    method: str | None = None
    """name of the method; None: the default"""
    anchors: tuple[int, ...] | None = None
    """TPC counts that a method may use; None: all for the default, the fewest and the most for published ones"""
    form: str | None = None
    blocks: Blocks | None = None
    training: FeatureTable | None = None
    """launches of other applications, to learn from"""
    level: float = 0.9
    """level of the interval of a simulated launch"""


@dataclass(frozen=True, slots=True)
class KernelBounds:
    """Bounds of one kernel on numbers of TPCs of one GPU."""

    gpu: GPU
    method: str
    tpcs: tuple[int, ...]
    answer: BoundAnswer
    times: PartitionTimes | None = None
    """measured times; None where nothing was measured"""
    level: float | None = None
    """level of the interval that ends at the bound; None where it is not from one"""
    caveats: tuple[Caveat, ...] = ()


def bound_times(times: PartitionTimes, gpu: GPU, tpcs: Sequence[int], options: BoundOptions) -> KernelBounds:
    """Bound a kernel by measured times; raises InputError where the method lacks something."""
    if options.method == SIMULATION:
        raise InputError("the method simulation needs a launch", cure="Give a launch file instead of times.")
    method = check_method(options)
    _check_used(method, times, options)
    anchors = _anchors(times, method, options.anchors)
    regressors = _regressors(times, anchors, tpcs, options) if method.has_base_model else None
    return _bounds(method, gpu, BoundQuestion(times, anchors, tuple(tpcs), regressors, options.blocks))


def bound_launch(
    path: Path, gpu: GPU, tpcs: Sequence[int], options: BoundOptions, progress: Progress | None = None
) -> KernelBounds:
    """Bound the only launch of a file by the simulation alone; raises Refusal where it cannot be simulated."""
    from kerncast.studies.partitions import simulated_answer, simulated_partitions  # noqa: PLC0415  LLVM loads late

    if options.method not in {None, SIMULATION}:
        bound_method(str(options.method))
        raise InputError(f"the method {options.method} needs measured times", cure="Add --times times.csv.")
    if options.blocks is not None:
        raise InputError("--blocks belongs to measured times", cure="Leave it out, or add --times times.csv.")
    found = simulated_partitions(path, gpu, tuple(tpcs), options.level, progress)
    answer = simulated_answer(found, tpcs)
    return KernelBounds(gpu, SIMULATION, tuple(tpcs), answer, level=found.level, caveats=found.caveats)


def bound_measured_launch(
    path: Path, times: PartitionTimes, gpu: GPU, question: tuple[Sequence[int], BoundOptions],
    progress: Progress | None = None,
) -> KernelBounds:  # fmt: skip
    """Bound the only launch of a file by measured times; the simulation is the base model that they calibrate.

    A method that needs neither a base model nor the grid is not simulated for.
    """
    from kerncast.studies.partitions import only_launch, simulated_partitions  # noqa: PLC0415  LLVM loads late

    tpcs, options = question
    method = check_method(options)
    _check_used(method, times, options)
    if not method.has_base_model and (method.name == DEFAULT_METHOD or options.blocks is not None):
        only_launch(path)
        return bound_times(times, gpu, tpcs, options)
    anchors = _anchors(times, method, options.anchors)
    counts = tuple(sorted({*tpcs, *times.counts}))
    found = simulated_partitions(path, gpu, counts, options.level, progress)
    regressors = regressors_of_curve(SIMULATION, found.seconds, times.only(anchors))
    blocks = options.blocks or (found.blocks if method.name == "equal-blocks" else None)
    caveats = tuple(each for each in found.caveats if each.kind not in OF_INTERVALS)
    return _bounds(method, gpu, BoundQuestion(times, anchors, tuple(tpcs), regressors, blocks), caveats)


def with_profiled_features(
    times: PartitionTimes, profiled: Sequence[tuple[int, ProfiledMeans]], training: FeatureTable
) -> PartitionTimes:
    """Return measured times with the features that profiles of some TPC counts tell: the means of their launches.

    Those of section 3.2 of the report on execution times are kept. Raises InputError where profiles and training table
    share none.
    """
    if times.feature_names:
        raise InputError(
            "it has columns of features, and profiles are given too", where=times.source, cure="Give one of them."
        )
    names = tuple(selected_features([training.names, *(means.names for _, means in profiled)]).values())
    features = tuple(CountFeatures(count, means.of(names)) for count, means in profiled)
    return PartitionTimes(times.tpcs, times.seconds, names, features, times.source)


def check_method(options: BoundOptions) -> BoundMethod:
    """Return the method asked for; raises InputError for one that is not there, or that makes no use of an option."""
    method = bound_method(options.method or DEFAULT_METHOD)
    if not method.has_base_model and (options.form is not None or options.training is not None):
        raise InputError(
            f"--form and --train have no effect on {method.name}", cure="Leave them out, or name a method that learns."
        )
    return method


def _check_used(method: BoundMethod, times: PartitionTimes, options: BoundOptions) -> None:
    """Raise InputError for features or blocks that the method makes no use of."""
    if method.has_base_model and options.training is None and times.feature_names:
        raise InputError(
            "it has features, but no launches to learn from",
            where=times.source,
            cure="Add --train, or leave out the features.",
        )
    if options.blocks is None:
        return
    is_used = options.form == "staircase" if method.has_base_model else method.name != DEFAULT_METHOD
    if not is_used and (method.has_base_model or options.blocks.per_tpc == 1):
        raise InputError(
            f"--blocks has no effect on {method.name} alone",
            cure="Use --method equal-blocks, --form staircase with a method that learns, or add --blocks-per-tpc.",
        )


def _bounds(method: BoundMethod, gpu: GPU, question: BoundQuestion, caveats: tuple[Caveat, ...] = ()) -> KernelBounds:
    return KernelBounds(gpu, method.name, question.tpcs, method.bound(question), question.times, caveats=caveats)


def _anchors(times: PartitionTimes, method: BoundMethod, asked: tuple[int, ...] | None) -> tuple[int, ...]:
    if asked is not None:
        return measured_anchors(times, asked)
    counts = times.counts
    return tuple(dict.fromkeys((counts[0], counts[-1]))) if method.has_base_model else counts


def _regressors(
    times: PartitionTimes, anchors: tuple[int, ...], tpcs: Sequence[int], options: BoundOptions
) -> Regressors:
    if options.training is None:
        form = options.form or DEFAULT_FORM
        return regressors_of_form(form, times.only(anchors), (*tpcs, *times.counts), options.blocks)
    if options.form is not None:
        raise InputError("--form and --train are both given", cure="Learn from one of them.")
    return regressors_of_features(options.training, times, (*tpcs, *anchors))
