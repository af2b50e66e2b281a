"""Bounds of one kernel on parts of a GPU: from measured times, from a launch that is simulated, or from both."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kerncast.caveats import OF_INTERVALS, Caveat
from kerncast.errors import InputError, Refusal
from kerncast.forecast import Means
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.measurements import CountFeatures, PartitionTimes
from kerncast.measurements.feature_table import FeatureTable
from kerncast.models import DEFAULT_MODEL
from kerncast.prediction import Timing
from kerncast.read.features.profiled import ProfiledMeans
from kerncast.studies.bounds import (
    OF_LAUNCHES,
    Blocks,
    BoundAnswer,
    BoundMethod,
    BoundQuestion,
    Kind,
    Regressors,
    measured_anchors,
    method_for,
)
from kerncast.studies.bounds.base import never_rising
from kerncast.studies.bounds.published.forms import (
    DEFAULT_FORM,
    regressors_of_curve,
    regressors_of_features,
    regressors_of_form,
    selected_features,
)

if TYPE_CHECKING:
    from kerncast.studies.interference import Beside, Slowdown

#: Usual probability that a run stays below the bound: by kind, and of a launch without a measured time.
_LEVELS = {Kind.EXTREME: 0.999}
_LEVEL, _LEVEL_UNMEASURED = 0.99, 0.9
#: Methods that know the number of blocks only as how many a TPC holds, and those that need all of it.
_BY_PER_TPC, _BY_BLOCKS = "list-scheduling", "equal-blocks"
_BY_SIMULATION, _BY_WORST_PATH, _BY_SHAPES = "simulation", "worst-path", "shapes"
#: Methods that tell which count to measure next.
_PLANNING = {_BY_SIMULATION, _BY_SHAPES, _BY_PER_TPC}
#: Up to these levels errors and repeats were seen: of learned curves, of the simulation, of fitted tails.
_MOST_LEVEL = {_BY_SHAPES: 0.999, Kind.EXTREME.value: 0.999999}
_MOST_LEVEL_OF_OTHERS = 0.9999


@dataclass(frozen=True, slots=True)
class BoundOptions:
    """Options of a bound."""

    method: str | None = None
    """name of the method; None: the usual one of the kind"""
    anchors: tuple[int, ...] | None = None
    """TPC counts that a method may use; None: the fewest and the most for published ones, all for others"""
    form: str | None = None
    blocks: Blocks | None = None
    training: FeatureTable | None = None
    """launches of other applications, to learn from"""
    level: float | None = None
    """probability that a run stays below the bound; None: the usual one"""
    kind: Kind | None = None
    timing: Timing = Timing.SERIES
    """how the launch was timed, for its simulation"""
    plan: int = 0
    """further measurements to plan"""
    beside: "Beside | None" = None
    """another kernel that runs at the same time; None: the GPU is left to this one"""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One more count measured, the one that lowers the bounds most, with the time that is expected there."""

    tpcs: int | None
    """the count; None for what is known already"""
    mean_above: float
    """mean of bound / expected time - 1 over the counts asked for"""


@dataclass(frozen=True, slots=True)
class KernelBounds:
    """Bounds of one kernel on numbers of TPCs of one GPU."""

    gpu: GPU
    method: str
    kind: Kind
    tpcs: tuple[int, ...]
    answer: BoundAnswer
    level: float
    """probability that a run stays below the bound, where the method states one"""
    times: PartitionTimes | None = None
    """measured times; None where nothing was measured"""
    caveats: tuple[Caveat, ...] = ()
    plan: "tuple[PlanStep, ...]" = ()
    """what further measurements would give; empty where it was not asked"""
    slowdowns: "tuple[Slowdown, ...]" = ()
    """by what factors another kernel slows this one, which its times hold; empty where none runs beside it"""


def bound_times(times: PartitionTimes, gpu: GPU, tpcs: Sequence[int], options: BoundOptions) -> KernelBounds:
    """Bound a kernel by measured times alone; raises InputError where the method lacks something."""
    from kerncast.studies.partitions import most_tpcs  # noqa: PLC0415  LLVM loads late

    method = check_method(options, is_launch=False)
    if options.beside is not None:
        raise InputError(
            "--beside needs a launch that is simulated, without --train",
            cure="Give a launch file, with these times as --times.",
        )
    _check_used(method, times, options)
    anchors, most = _anchors(times, method, options.anchors), most_tpcs(gpu)
    regressors = _regressors(times, anchors, (tpcs, most), options) if method.has_base_model else None
    question = BoundQuestion(
        times, anchors, tuple(tpcs), most, _level(method, options, times), regressors, options.blocks
    )
    return _bounds(method, gpu, question, options.plan)


def bound_launch(
    launch: Launch, times: PartitionTimes | None, gpu: GPU, question: tuple[Sequence[int], BoundOptions],
    means: Means | None = None,
) -> KernelBounds:  # fmt: skip
    """Bound a launch by its simulation and by measured times, if any.

    Raises Refusal where it cannot be simulated. A method that needs neither the simulation nor the grid does without.
    """
    tpcs, options = question
    alone = _bound_alone(launch, times, gpu, (tpcs, replace(options, beside=None)), means)
    return alone if options.beside is None else _slowed(launch, alone, options.beside, options.timing, means)


def _bound_alone(
    launch: Launch, times: PartitionTimes | None, gpu: GPU, question: tuple[Sequence[int], BoundOptions],
    means: Means | None,
) -> KernelBounds:  # fmt: skip
    from kerncast.studies.partitions import (  # noqa: PLC0415  LLVM loads late
        most_tpcs,
        simulated_partitions,
        worst_paths,
    )

    tpcs, options = question
    method = check_method(options, is_launch=True)
    _check_times(method, times)
    _check_used(method, times, options)
    if method.name == _BY_PER_TPC or (method.name == _BY_BLOCKS and options.blocks):
        assert times is not None
        return bound_times(times, gpu, tpcs, options)
    level = _level(method, options, times)
    anchors = () if times is None else _anchors(times, method, options.anchors)
    parts = gpu, tuple(sorted({*tpcs, *(times.counts if times else ())}))
    found = simulated_partitions(launch, parts, min(level, _MOST_LEVEL_OF_OTHERS), options.timing, means)
    asked = BoundQuestion(
        times, anchors, tuple(tpcs), most_tpcs(gpu), level,
        regressors=regressors_of_curve("simulation", found.curve.seconds) if method.has_base_model else None,
        blocks=options.blocks or (found.blocks if method.name == _BY_BLOCKS else None),
        simulated=found.curve,
        worst=worst_paths(launch, parts, options.timing, means) if method.name == _BY_WORST_PATH else None,
    )  # fmt: skip
    is_interval = times is None and method.kind is Kind.CONFORMAL
    caveats = tuple(each for each in found.caveats if is_interval or each.kind not in OF_INTERVALS)
    alone = _bounds(method, gpu, asked, options.plan, caveats)
    if found.model != DEFAULT_MODEL and method.name == _BY_SIMULATION:  # whose error was measured nowhere
        return replace(alone, method=found.model, kind=Kind.MARGIN)
    return alone


def _slowed(launch: Launch, alone: KernelBounds, beside: "Beside", timing: Timing, means: Means | None) -> KernelBounds:
    """Return the bounds beside another kernel."""
    from kerncast.studies.interference import slowdowns  # noqa: PLC0415  LLVM loads late

    found, answer = slowdowns(launch, beside, (alone.gpu, alone.tpcs), timing, means), alone.answer
    bound = (time * each.bound for time, each in zip(answer.bound, found, strict=True))
    expected = (time * each.expected for time, each in zip(answer.expected, found, strict=True))
    slower = replace(answer, expected=never_rising(tuple(expected)), bound=never_rising(tuple(bound)))
    return replace(alone, answer=slower, slowdowns=found)


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
    return replace(times, feature_names=names, features=features)


def check_method(options: BoundOptions, *, is_launch: bool) -> BoundMethod:
    """Return the method asked for; raises InputError for one that is not there, or that makes no use of an option."""
    method = method_for(options.kind, options.method, is_launch=is_launch)
    if not is_launch and method.name in OF_LAUNCHES:
        raise InputError(
            f"the method {method.name} needs a launch", cure="Give a launch file, with these times as --times."
        )
    if options.plan and method.name not in _PLANNING:
        raise InputError(
            f"--plan has no effect on {method.name}", cure=f"Leave it out, or take {', '.join(sorted(_PLANNING))}."
        )
    if not method.has_base_model and (options.form is not None or options.training is not None):
        raise InputError(
            f"--form and --train have no effect on {method.name}", cure="Leave them out, or name a method that learns."
        )
    return method


def _check_times(method: BoundMethod, times: PartitionTimes | None) -> None:
    if times is not None or method.name in OF_LAUNCHES:
        return
    if method.kind is Kind.EXTREME:
        raise Refusal(
            "The kind extreme fits the tail of repeated runs, and nothing was measured. Add --times with 200 runs"
            " of one TPC count or more, or ask for --kind conformal."
        )
    raise InputError(f"the method {method.name} needs measured times", cure="Add --times times.csv.")


def _check_used(method: BoundMethod, times: PartitionTimes | None, options: BoundOptions) -> None:
    """Raise InputError for features or blocks that the method makes no use of."""
    if method.has_base_model and options.training is None and times is not None and times.feature_names:
        raise InputError(
            "it has features, but no launches to learn from",
            where=times.source,
            cure="Add --train, or leave out the features.",
        )
    if options.blocks is None:
        return
    if method.has_base_model:
        is_used = options.form == "staircase"
    else:
        is_used = method.name in {_BY_BLOCKS, _BY_SHAPES} or (method.name == _BY_PER_TPC and options.blocks.per_tpc > 1)
    if not is_used:
        raise InputError(
            f"--blocks has no effect on {method.name} alone",
            cure="Use --method shapes or equal-blocks, --form staircase with a method that learns, or list-scheduling"
            " with --blocks-per-tpc.",
        )


def _level(method: BoundMethod, options: BoundOptions, times: PartitionTimes | None) -> float:
    if options.level is not None:
        most = _MOST_LEVEL.get(method.name, _MOST_LEVEL.get(method.kind.value, _MOST_LEVEL_OF_OTHERS))
        if options.level > most:
            raise InputError(
                f"{method.name} cannot tell of a level of {options.level:.12g}", cure=f"Give at most {most:g}."
            )
        return options.level
    return _LEVEL_UNMEASURED if times is None else _LEVELS.get(method.kind, _LEVEL)


def _bounds(
    method: BoundMethod, gpu: GPU, question: BoundQuestion, steps: int, caveats: tuple[Caveat, ...] = ()
) -> KernelBounds:
    """Return what a method answers; no bound rises with more TPCs, whatever the method."""
    answer = method.bound(question)
    plan = _plan(method, question, answer, steps) if steps else ()
    answer = replace(answer, bound=never_rising(answer.bound))
    return KernelBounds(
        gpu, method.name, method.kind, question.tpcs, answer, question.level, question.times, caveats, plan
    )  # fmt: skip


def _plan(method: BoundMethod, question: BoundQuestion, answer: BoundAnswer, steps: int) -> tuple[PlanStep, ...]:
    """Return what each of some further counts would give; shorter where the method does not tell the next one."""
    found = [PlanStep(None, _mean_above(answer))]
    while len(found) <= steps and answer.measure_next is not None:
        count = answer.measure_next
        expected = answer.expected[question.tpcs.index(count)]
        known = question.runs
        # As many runs as the others have: a single one would count as one that says nothing of its repeats.
        runs = max(map(len, known.by_count().values())) if known else 1
        times = PartitionTimes(
            (*(known.tpcs if known else ()), *(count,) * runs), (*(known.seconds if known else ()), *(expected,) * runs)
        )
        question = replace(question, times=times, anchors=tuple(sorted({*question.anchors, count})))
        answer = method.bound(question)
        found.append(PlanStep(count, _mean_above(answer)))
    return tuple(found)


def _mean_above(answer: BoundAnswer) -> float:
    pairs = zip(answer.bound, answer.expected, strict=True)
    shares = [bound / expected - 1 for bound, expected in pairs if expected > 0]
    return sum(shares) / len(shares) if shares else 0.0


def _anchors(times: PartitionTimes, method: BoundMethod, asked: tuple[int, ...] | None) -> tuple[int, ...]:
    if asked is not None:
        return measured_anchors(times, asked)
    counts = times.counts
    return tuple(dict.fromkeys((counts[0], counts[-1]))) if method.has_base_model else counts


def _regressors(
    times: PartitionTimes, anchors: tuple[int, ...], wanted: tuple[Sequence[int], int], options: BoundOptions
) -> Regressors:
    tpcs, most = wanted
    if options.training is None:
        form = options.form or DEFAULT_FORM
        return regressors_of_form(form, times.only(anchors), (*tpcs, *times.counts), options.blocks, most)
    if options.form is not None:
        raise InputError("--form and --train are both given", cure="Learn from one of them.")
    return regressors_of_features(options.training, times, (*tpcs, *anchors))
