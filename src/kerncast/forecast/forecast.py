"""The one entry: evidence and GPUs become forecasts.

Each kernel is compiled for every architecture asked for, executed once per distinct PTX, and timed per GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import BudgetExceededError, InputError, MissingEvidenceError, Refusal
from kerncast.execute import Budget
from kerncast.forecast.cases import Choices, by_times, cases_of, launch_of, observation_of
from kerncast.forecast.compiled_launch import (
    Failure,
    Means,
    Progress,
    Source,
)
from kerncast.forecast.evidence import (
    Evidence,
    GPUs,
    Reading,
    Subject,
    matched,
    measured_of,
    observations,
    operators_of,
    read_evidence,
    resolve_gpus,
)
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.models import (
    DEFAULT_MODEL,
    DEFAULT_MODEL_OF_COUNTS,
    DEFAULT_MODEL_OF_PROFILES,
    MODEL_OF_TIMES_ALONE,
    Case,
    FeatureCase,
    Question,
    TimedCase,
    is_model_file,
    model_named,
)
from kerncast.occupancy import check_fits
from kerncast.prediction import Prediction, Refused, Timing
from kerncast.profiles import KernelProfile, Origin

if TYPE_CHECKING:
    from kerncast.forecast.observed import Observed
    from kerncast.models.operators.operator_work import OperatorCase
    from kerncast.observation import Observation
    from kerncast.read.operator_files import OperatorTable

#: Simulations of one launch that may come to nothing: each takes seconds, and on further GPUs the next one would, too.
_MOST_LOST = 4
_NOT_TRIED = (
    f"on {_MOST_LOST} other GPUs it did not end within its budget, so that it was not tried on this one;"
    " naming this GPU alone may give another forecast"
)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a forecast."""

    model: str | None = None
    timing: Timing = Timing.SERIES
    level: float = 0.9
    clock: str | float | None = None
    """base, boost, default or hertz; None: the GPU's default, as one of the clocks that it may have"""
    force: bool = False
    """whether to forecast even launches that the GPU cannot run"""
    budget: Budget | None = None
    measured: tuple["Observation", ...] = ()
    """measured times of these launches on other GPUs"""
    reading: Reading = field(default_factory=Reading)
    """how a profile is read"""
    operator_timing: Timing | None = None
    """how operators are timed; None: as the data that their model was made from"""
    features: tuple[tuple[str, float], ...] = ()
    """features of a trained model that no execution tells, by name"""

    def __post_init__(self) -> None:
        if not 0.001 <= self.level <= 0.9999:
            raise InputError(f"level is {self.level}", cure="Give a share from 0.001 to 0.9999, such as 0.9.")

    @property
    def simulates(self) -> bool:
        """Whether the simulation may be asked."""
        return self.model in {None, DEFAULT_MODEL}

    @property
    def fuses(self) -> bool:
        """Whether a model may be asked that all measured times move."""
        return self.model in {None, DEFAULT_MODEL, DEFAULT_MODEL_OF_PROFILES}


@dataclass(frozen=True, slots=True)
class Forecast:
    """All that came of some evidence and some GPUs."""

    predictions: tuple[Prediction, ...]
    refused: tuple[Refused, ...]
    cases: "tuple[Case | TimedCase | FeatureCase | OperatorCase, ...]"
    """case behind each prediction, in the same order"""
    first_refusal: Refusal | None = None

    @property
    def profiled(self) -> tuple[Case, ...]:
        """Cases with a profile: all but those of kernels of which only times are known."""
        return tuple(case for case in self.cases if isinstance(case, Case))


def predict(
    evidence: Evidence,
    gpu: GPUs,
    model: str | Path | None = None,
    *,
    measured: Sequence["str | Path | Observation"] = (),
    **options: object,
) -> list[Prediction]:
    """Forecast every launch of the evidence on every GPU; raises Refusal when nothing could be forecast.

    ``evidence`` is a launch file, declared counts, a profiler's or tuner's file, a CSV of times or operators, a model
    (.json), or launches, profiles, timed kernels or operators; ``gpu`` is a name, ``all``, a GPU, or several;
    ``measured`` are texts such as "T4=1.23ms", files of times, and Observations; ``model`` is a name, or a trained
    model's file (.kcm), whose evidence may be a table of features. Options: timing, level, clock (base, boost, default
    or hertz), force, budget, reading, features.
    """
    if "timing" in options:
        options["timing"] = options["operator_timing"] = timing_named(str(options["timing"]))
    chosen = Options(None if model is None else str(model), measured=observations(measured), **options)  # type: ignore[arg-type]
    own = not gpu and model is not None and is_model_file(str(model))  # rows of a table may name their GPUs
    forecast = forecast_all(evidence, [] if own else resolve_gpus(gpu), chosen)
    if not forecast.predictions and forecast.first_refusal:
        raise forecast.first_refusal
    return list(forecast.predictions)


def timing_named(text: str) -> Timing:
    """Return the timing of this name; raises InputError listing the known ones."""
    try:
        return Timing(text)
    except ValueError:
        raise InputError(f"no timing is called {text[:40]!r}", cure=f"Known: {', '.join(Timing)}.") from None


def forecast_all(
    evidence: Evidence, gpus: list[tuple[GPU, tuple[Caveat, ...]]], options: Options, progress: Progress | None = None
) -> Forecast:
    """Forecast every launch or operator of the evidence on every GPU."""
    operators = operators_of(evidence, options.reading.selection)
    if operators is not None:
        return _of_operators(operators, gpus, options, progress)
    if options.model is not None and is_model_file(options.model):
        return _by_model_file(evidence, gpus, options, progress)
    model = None if options.model is None else model_named(options.model)
    subjects = read_evidence(evidence, options.reading)
    options = replace(options, measured=matched(options.measured, subjects))
    gathered = _Gathered()
    means = Means(options.budget, progress)
    observed = _observed(subjects, options, means)
    uses_caches = model is not None and model.uses_caches
    choices = Choices(options.timing, uses_caches, options.simulates, means, options.reading.sources)
    for subject in subjects:
        cases = cases_of(subject, [gpu for gpu, _ in gpus], measured_of(options.measured, subject.index), choices)
        timer = _Timer(options, observed, progress)
        for failure in cases.failures:
            gathered.fail(failure, subject.index, gpus)
        for number, (gpu, assumed) in enumerate(gpus):
            try:
                case = cases.on(gpu if options.clock is None else gpu.at_clock(options.clock))
                if case is None:
                    continue
                prediction = timer.forecast(case, cases.source_on(case.gpu), (number, len(gpus)))
            except Refusal as refusal:
                gathered.refuse(refusal, cases.kernel, subject.index, gpu.name)
                continue
            gathered.add(prediction, case, assumed)
    return gathered.forecast()


def _of_operators(
    table: "OperatorTable", gpus: list[tuple[GPU, tuple[Caveat, ...]]], options: Options, progress: Progress | None
) -> Forecast:
    from kerncast.forecast.operators import OPERATORS_MODEL, OperatorOptions, forecast_operators  # noqa: PLC0415

    if options.model not in {None, OPERATORS_MODEL}:
        raise InputError(f"--model {options.model} times no operators", cure="Leave it out.")
    if options.measured:
        cure = "Leave --measured out, or give the kernel's source or times alone."
        raise InputError("measured times do not move forecasts of operators", cure=cure)
    for name, value in (("--source-gpu", options.reading.source_gpu), ("--source", options.reading.sources)):
        if value:
            raise InputError(f"forecasts of operators make no use of {name}", cure="Leave it out.")
    timing = options.operator_timing or (Timing.SERIES if table.is_model else None)
    found = forecast_operators(table.operators, gpus, OperatorOptions(timing, options.level, options.clock), progress)
    first = MissingEvidenceError(table.refused[0].reason) if table.refused else found.first_refusal
    return Forecast(found.predictions, (*table.refused, *found.refused), found.cases, first)


def _by_model_file(
    evidence: Evidence, gpus: list[tuple[GPU, tuple[Caveat, ...]]], options: Options, progress: Progress | None
) -> Forecast:
    """Forecast by a trained model: raises InputError for options that it cannot use."""
    from kerncast.forecast.learned import Asked, learned_forecasts  # noqa: PLC0415  most forecasts do without

    unused = {
        "--measured": (options.measured, "Leave it out, or leave --model out: measured times move the simulation."),
        "--clock": (options.clock, "Leave it out: the times are of the clock that the model learned from."),
        "--source": (options.reading.sources, "Give the launch file itself."),
        "--source-gpu": (options.reading.source_gpu, "Name the GPU of the rows with --gpu."),
    }
    for name, (value, cure) in unused.items():
        if value:
            raise InputError(f"a trained model makes no use of {name}", where=options.model, cure=cure)
    question = Question(options.timing, options.level)
    asked = Asked(Path(str(options.model)), question, options.reading.selection, options.features, options.force)
    gathered = _Gathered()
    for found in learned_forecasts(evidence, gpus, asked, progress):
        if isinstance(found.outcome, Refusal):
            gathered.refuse(found.outcome, found.kernel, found.launch, found.gpu)
        elif found.case is not None:
            gathered.add(found.outcome, found.case, ())
    return gathered.forecast()


def _observed(subjects: Sequence[Subject], options: Options, means: Means) -> "Observed | None":
    """Return what measured times and the runs of profiles say of the simulation; None where it is not asked."""
    if not options.fuses:
        return None
    launches = {each.index: each for each in subjects if isinstance(each, Launch)}
    counted: dict[int, KernelProfile] = {}
    profiles: dict[int, KernelProfile] = {}
    times = list(options.measured)
    for profile in subjects:
        if not isinstance(profile, KernelProfile):
            continue
        launch = launch_of(profile, options.reading.sources) if options.simulates else None
        if launch is not None:
            launches[profile.index], counted[profile.index] = launch, profile
        elif profile.run and measured_of(options.measured, profile.index):
            profiles[profile.index] = profile
        if profile.run and launch is not None:
            times.append(observation_of(profile.run, profile.index))
    if not times:
        return None
    from kerncast.forecast.observed import Observed, Sources  # noqa: PLC0415  most forecasts do without

    return Observed(times, Sources(launches, counted, profiles), means, options.timing)


class _Timer:
    """Forecasts one launch on one GPU after the other."""

    def __init__(self, options: Options, observed: "Observed | None", progress: Progress | None) -> None:
        self._options, self._observed, self._progress = options, observed, progress
        self._lost = 0
        """number of simulations that did not end within their budget"""

    def forecast(self, case: Case | TimedCase, source: Source | None, place: tuple[int, int]) -> Prediction:
        """Return the forecast of one case, the number ``place[0]`` of ``place[1]``; raises Refusal."""
        options = self._options
        if isinstance(case, TimedCase):
            return by_times(case, options.model, Question(options.timing, options.level))
        impossible = check_fits(case.profile, case.gpu, force=options.force)
        names = _models_for(case, source) if options.model is None else (options.model,)
        if DEFAULT_MODEL in names and self._progress:
            self._progress(f"timing {case.profile.kernel} on {case.gpu.name}", *place)
        prediction = self._first_of(names, case, source)
        return _noted(prediction, before=impossible, after=_unused_time(case, prediction))

    def _first_of(self, names: Sequence[str], case: Case, source: Source | None) -> Prediction:
        """Return the forecast of the first model that gives one, with the reason why it is not the first."""
        reasons: list[tuple[str, Refusal]] = []
        for name in names:
            try:
                found = self._predict(name, case, source)
            except Refusal as refusal:
                reasons.append((name, refusal))
                continue
            notes = tuple(_instead(name, other, why) for other, why in reasons)
            return _noted(found, after=notes)
        raise reasons[0][1]

    def _predict(self, name: str, case: Case, source: Source | None) -> Prediction:
        if name == DEFAULT_MODEL and self._lost >= _MOST_LOST:
            raise BudgetExceededError(_NOT_TRIED)
        model = model_named(name)
        question = Question(self._options.timing, self._options.level)
        if name == DEFAULT_MODEL_OF_PROFILES and self._observed is not None:
            return self._observed.projected(model, case, question)
        if source is None or (source.case is not None and name != DEFAULT_MODEL):
            return model.predict(case, question)
        if source.case is not None:
            case = replace(source.case, times=case.times)
        try:
            estimate = source.estimate(model, case, question.timing)
        except BudgetExceededError:
            self._lost += 1
            raise
        found = model.forecast(case, estimate, question)
        if name != DEFAULT_MODEL or self._observed is None:
            return found
        return self._observed.moved(found, case, estimate)


def _noted(prediction: Prediction, before: tuple[Caveat, ...] = (), after: tuple[Caveat, ...] = ()) -> Prediction:
    """Return a forecast with more caveats."""
    if not before and not after:
        return prediction
    return replace(prediction, caveats=(*before, *prediction.caveats, *after))


def _models_for(case: Case, source: Source | None) -> tuple[str, ...]:
    """Return the models to try for some evidence, the best one first."""
    by_times_alone = (MODEL_OF_TIMES_ALONE,) if case.source is not None else ()
    is_counted = case.source is not None and case.source.origin is Origin.PROFILED
    counted = (DEFAULT_MODEL_OF_PROFILES,) if is_counted else ()
    if source is not None:
        return DEFAULT_MODEL, *counted, *by_times_alone, DEFAULT_MODEL_OF_COUNTS
    return (*counted, *by_times_alone) or (DEFAULT_MODEL_OF_COUNTS,)


def _instead(model: str, other: str, refusal: Refusal) -> Caveat:
    if other == DEFAULT_MODEL:
        return Caveat.of(CaveatKind.NOT_SIMULATED, model, reason=refusal.what)
    return Caveat.of(CaveatKind.OTHER_MODEL_USED, model, unusable=other, reason=refusal.what)


def _unused_time(case: Case, prediction: Prediction) -> tuple[Caveat, ...]:
    # The simulation says itself which times move nothing.
    if case.source is None or prediction.model == DEFAULT_MODEL or model_named(prediction.model).uses_measured_run:
        return ()
    return (Caveat.of(CaveatKind.MEASURED_TIME_UNUSED, prediction.model),)


class _Gathered:
    """Collects what comes of each launch."""

    def __init__(self) -> None:
        self.predictions: list[Prediction] = []
        self.cases: list[Case | TimedCase | FeatureCase] = []
        self.refused: list[Refused] = []
        self.first_refusal: Refusal | None = None

    def forecast(self) -> Forecast:
        return Forecast(tuple(self.predictions), tuple(self.refused), tuple(self.cases), self.first_refusal)

    def add(self, prediction: Prediction, case: Case | TimedCase | FeatureCase, assumed: tuple[Caveat, ...]) -> None:
        self.predictions.append(_noted(prediction, before=assumed))
        self.cases.append(case)

    def refuse(self, refusal: Refusal, kernel: str, launch: int, gpu: str | None) -> None:
        self.first_refusal = self.first_refusal or refusal
        self.refused.append(Refused(kernel, launch, gpu, str(refusal)))

    def fail(self, failure: Failure, launch: int, gpus: list[tuple[GPU, tuple[Caveat, ...]]]) -> None:
        """Refuse a launch for all GPUs, or for those of one architecture."""
        if failure.architecture is None:
            self.refuse(failure.refusal, failure.kernel, launch, None)
        for gpu, _ in gpus:
            if gpu.architecture.code_name == failure.architecture:
                self.refuse(failure.refusal, failure.kernel, launch, gpu.name)
