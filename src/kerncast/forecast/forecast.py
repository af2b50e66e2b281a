"""The one entry: evidence and GPUs become forecasts.

Each kernel is compiled for every architecture asked for, executed once per distinct PTX, and timed per GPU.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import BudgetExceededError, InputError, Refusal
from kerncast.forecast.asked import Forecast, GPUsNoted, Options
from kerncast.forecast.cases import Choices, at_measured_clocks, by_times, cases_of, launch_of, observation_of
from kerncast.forecast.compiled_launch import Means, Progress, Source
from kerncast.forecast.evidence import (
    Evidence,
    Subject,
    matched,
    measured_of,
    operators_of,
    read_evidence,
)
from kerncast.forecast.gathered import Gathered, gather, no_memory, noted
from kerncast.launch import Launch
from kerncast.models import (
    DEFAULT_MODEL,
    DEFAULT_MODEL_OF_COUNTS,
    DEFAULT_MODEL_OF_PROFILES,
    MODEL_OF_TEXT,
    MODEL_OF_TIMES_ALONE,
    Case,
    Model,
    Question,
    TimedCase,
    is_model_file,
    model_named,
)
from kerncast.occupancy import check_fits
from kerncast.prediction import Prediction
from kerncast.profiles import KernelProfile, Origin

if TYPE_CHECKING:
    from kerncast.forecast.learned import Found
    from kerncast.forecast.observed import Observed

#: Simulations of one launch that may come to nothing: each takes seconds, and on further GPUs the next one would, too.
_MOST_LOST = 4
_NOT_TRIED = (
    f"on {_MOST_LOST} other GPUs it did not end within its budget, so that it was not tried on this one;"
    " naming this GPU alone may give another forecast"
)


def forecast_all(evidence: Evidence, gpus: GPUsNoted, options: Options, progress: Progress | None = None) -> Forecast:
    """Forecast every launch or operator of the evidence on every GPU."""
    operators = operators_of(evidence, options.reading.selection)
    if operators is not None:
        from kerncast.forecast.operators import forecast_operators  # noqa: PLC0415  most forecasts do without

        return forecast_operators(operators, gpus, options, progress)
    if options.model is not None and is_model_file(options.model):
        return _by_model_file(evidence, gpus, options, progress)
    model = None if options.model is None else model_named(options.model)
    subjects = read_evidence(evidence, options.reading)
    options = replace(options, measured=matched(options.measured, subjects))
    uses_caches = model is not None and model.uses_caches

    def work(subjects: Sequence[Subject], gathered: Gathered, progress: Progress | None) -> None:
        means = Means(
            options.budget, progress, reads_machine_code=options.simulates, by_averages=options.by_averages,
            counts_by_text=_asks_text(model),
        )  # fmt: skip
        observed = _observed(subjects, options, means)
        choices = Choices(options.timing, uses_caches, options.simulates, means, options.reading.sources)
        for subject in gathered.each(subjects):
            try:
                _forecast_subject(subject, gpus, choices, _Timer(options, observed, progress), gathered)
            except MemoryError:  # the other launches have their answers
                gathered.refuse(no_memory(), subject.kernel or "", subject.index, None)

    return gather(subjects, work, options, progress)


def _asks_text(model: Model | None) -> bool:
    """Return whether a kernel that cannot be executed may be counted by its text, which rooflines alone can use."""
    return model is None or model.name in {DEFAULT_MODEL_OF_COUNTS, MODEL_OF_TEXT}


def _forecast_subject(subject: Subject, gpus: GPUsNoted, choices: Choices, timer: "_Timer", gathered: Gathered) -> None:
    """Forecast one launch on every GPU; what it takes of memory ends with it."""
    options, times = timer.options, measured_of(timer.options.measured, subject.index)
    gpus = at_measured_clocks(gpus, subject, times)
    cases = cases_of(subject, [gpu for gpu, _ in gpus], times, choices)
    for failure in cases.failures:
        gathered.fail(failure, subject.index, gpus)
    for number, (gpu, assumed) in enumerate(gpus):
        try:
            case = cases.on(gpu if options.clock is None else gpu.at_clock(options.clock))
            if case is None:
                continue
            prediction = timer.forecast(case, cases.source_on(case.gpu), (number, len(gpus)))
        except Refusal as refusal:
            gathered.refuse(refusal, cases.kernel, subject.index, gpu)
            continue
        if isinstance(subject, Launch) and subject.count > 1:
            prediction = replace(prediction, count=subject.count)
        gathered.add(noted(prediction, before=assumed), case)


def _by_model_file(evidence: Evidence, gpus: GPUsNoted, options: Options, progress: Progress | None) -> Forecast:
    """Forecast by a trained model: raises InputError for options that it cannot use."""
    from kerncast.forecast.learned import (  # noqa: PLC0415  most forecasts do without
        Asked,
        is_table,
        learned_forecasts,
        table_forecasts,
    )

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
    selection, force = options.reading.selection, bool(options.force)
    asked = Asked(Path(str(options.model)), question, selection, options.features, force)

    if is_table(evidence):
        gathered = Gathered()
        _take(table_forecasts(Path(str(evidence)), gpus, asked, progress), gathered)
        return gathered.forecast()

    def work(subjects: Sequence[Subject], gathered: Gathered, progress: Progress | None) -> None:
        _take(learned_forecasts(gathered.each(subjects), gpus, asked, progress), gathered)

    return gather(read_evidence(evidence), work, options, progress)


def _take(found: Iterable["Found"], gathered: Gathered) -> None:
    for each in found:
        if isinstance(each.outcome, Refusal):
            gathered.refuse(each.outcome, each.kernel, each.launch, each.gpu)
        elif each.case is not None:
            gathered.add(each.outcome, each.case)


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
        self.options, self._observed, self._progress = options, observed, progress
        self._lost = 0
        """number of simulations that did not end within their budget"""

    def forecast(self, case: Case | TimedCase, source: Source | None, place: tuple[int, int]) -> Prediction:
        """Return the forecast of one case, the number ``place[0]`` of ``place[1]``; raises Refusal."""
        options = self.options
        if isinstance(case, TimedCase):
            return by_times(case, options.model, Question(options.timing, options.level))
        impossible = check_fits(case.profile, case.gpu, force=options.force)
        names = _models_for(case, source) if options.model is None else (options.model,)
        if case.profile.origin is Origin.COUNTED:
            names = (MODEL_OF_TEXT,)
        if DEFAULT_MODEL in names and self._progress:
            self._progress(f"timing {case.profile.kernel} on {case.gpu.name}", *place)
        prediction = self._first_of(names, case, source)
        return noted(prediction, before=impossible, after=_unused_time(case, prediction))

    def _first_of(self, names: Sequence[str], case: Case, source: Source | None) -> Prediction:
        """Return the forecast of the first model that gives one, with the reason why it is not the first."""
        reasons: list[tuple[str, Refusal]] = []
        for name in names:
            try:
                found = self._predict(name, case, source)
            except Refusal as refusal:
                reasons.append((name, refusal.copied()))
                continue
            notes = tuple(_instead(name, other, why) for other, why in reasons)
            return noted(found, after=notes)
        raise reasons[0][1]

    def _predict(self, name: str, case: Case, source: Source | None) -> Prediction:
        if name == DEFAULT_MODEL and self._lost >= _MOST_LOST:
            raise BudgetExceededError(_NOT_TRIED)
        model = model_named(name)
        question = Question(self.options.timing, self.options.level)
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
