"""Forecasts by a trained model's file: launches are executed for their features, tables are taken row by row."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import GPUError, InputError, MissingEvidenceError, Refusal
from kerncast.forecast.compiled_launch import Progress, Source, compile_and_count
from kerncast.forecast.evidence import Evidence, Subject
from kerncast.forecast.profiling import profile_launch
from kerncast.gpu import GPU, find_id, resolve_gpu
from kerncast.launch import Launch
from kerncast.measurements.feature_table import Floats
from kerncast.models import DEFAULT_MODEL, Case, Estimate, FeatureCase, Question, calibration_of, model_named
from kerncast.models.learned.forecasts import NEAR_FACTOR, FeatureRow, LearnedModel, is_called
from kerncast.models.learned.launch_features import LaunchFeatures, features_of, synonyms, told_by_counters
from kerncast.models.learned.model_files import read_model
from kerncast.models.learned.reach import assumed_log_error
from kerncast.models.learned.residual import SimulatedLaunch, residual_values
from kerncast.observation import TimedKernel
from kerncast.occupancy import check_fits
from kerncast.prediction import Prediction, Timing
from kerncast.printable import printable
from kerncast.profiles import KernelProfile
from kerncast.read.bounded_text import listed
from kerncast.read.features.cleaning import UNNAMED, LaunchRows, check_magnitudes
from kerncast.read.features.table_files import read_launches
from kerncast.read.selection import Selection

Resolved = Sequence[tuple[GPU, tuple[Caveat, ...]]]
#: These are launches or declared counts; every other file is a table, or what a profiler or a tuner wrote.
_LAUNCHES = frozenset({".toml", ".cu", ".cuh", ".cpp", ".cc", ".cxx"})


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a forecast by a trained model."""

    model: Path
    question: Question
    selection: Selection
    features: tuple[tuple[str, float], ...]
    """features that no execution tells, by name"""
    force: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What came of one launch or row on one GPU."""

    kernel: str
    launch: int
    gpu: str | None
    outcome: Prediction | Refusal
    case: Case | FeatureCase | None = None


def learned_forecasts(
    subjects: Iterable[Subject], gpus: Resolved, asked: Asked, progress: Progress | None = None
) -> Iterator[Found]:
    """Yield the forecast of each launch on each GPU; raises InputError."""
    if not gpus:
        raise InputError("no GPU is named", cure='Add --gpu "TITAN V" (kerncast gpus lists them), or --gpu all.')
    model = _model_of(asked, progress)
    for subject in subjects:
        if isinstance(subject, TimedKernel):
            reason = f"only times of {subject.kernel} are known, and a trained model needs its features"
            yield Found(subject.kernel, subject.index, None, MissingEvidenceError(reason))
            continue
        for number, (gpu, assumed) in enumerate(gpus):
            if progress:
                progress(f"features of {subject.kernel or 'the kernel'} on {gpu.name}", number, len(gpus))
            yield _of_launch(subject, (gpu, assumed), model, asked)


def _model_of(asked: Asked, progress: Progress | None) -> LearnedModel:
    if progress:
        progress(f"reading {asked.model.name}", 0, 0)
    return LearnedModel(read_model(asked.model), printable(asked.model.name), asked.question)


def is_table(evidence: Evidence) -> bool:
    """Whether evidence is a table of features, of which nothing runs."""
    return isinstance(evidence, str | Path) and Path(str(evidence)).suffix.lower() not in _LAUNCHES


def simulated(launch: Launch, gpu: GPU, timing: Timing) -> tuple[Case, Estimate]:
    """Return a launch on a GPU with its simulated time; raises Refusal."""
    name = gpu.architecture.code_name
    compiled = compile_and_count(launch, [name])
    known = compiled.on(name)
    if known is None:
        raise compiled.failures[0].refusal
    case = Case(known.profile, gpu, launch=launch)
    return case, Source(known).estimate(model_named(DEFAULT_MODEL), case, timing)


def _of_launch(
    subject: Launch | KernelProfile, on: tuple[GPU, tuple[Caveat, ...]], model: LearnedModel, asked: Asked
) -> Found:
    gpu, assumed = on
    launch = subject if isinstance(subject, Launch) else None
    kernel = subject.kernel or (launch.source.stem if launch else "")
    try:
        counted = profile_launch(subject, gpu) if isinstance(subject, Launch) else subject
        kernel = counted.kernel
        impossible = check_fits(counted, gpu, force=asked.force)
        if model.file.header.base is not None:
            return _of_residual(counted, launch, on, model, asked)
        found = features_of(model.file.header.features, counted, gpu, launch, dict(asked.features))
        if found.missing:
            raise _untold(found.missing, kernel, asked)
        simulated = _simulation_error(asked.question.level) if found.simulated else 0.0
        caveats = (*assumed, *impossible, *counted.caveats, *_said(found, simulated))
        names = model.file.header.features
        near = tuple(place for place, name in enumerate(names) if name in found.near and name not in found.simulated)
        row = FeatureRow(kernel, subject.index, gpu, found.values, caveats, near, simulated)
        outcome: Prediction | Refusal = next(model.forecasts([row]))
    except Refusal as refusal:
        return Found(kernel, subject.index, gpu.name, refusal)
    return Found(kernel, subject.index, gpu.name, outcome, Case(counted, gpu, launch=launch))


def _of_residual(
    counted: KernelProfile, launch: Launch | None, on: tuple[GPU, tuple[Caveat, ...]], model: LearnedModel, asked: Asked
) -> Found:
    """Simulate a launch, and multiply its time by what the model has learned of the simulation's error."""
    gpu, assumed = on
    if launch is None:
        raise MissingEvidenceError(f"{model.name} needs the source of {counted.kernel}", cure="Give its launch file.")
    case, estimate = simulated(launch, gpu, asked.question.timing)
    # What the model tells is that of the GPU's usual clock: at another clock, the simulation alone answers, so that
    # a higher one never makes a forecast longer.
    usual = gpu.at_clock("default")
    _, at_usual = (
        (case, estimate) if usual.clock_hz == gpu.clock_hz else simulated(launch, usual, asked.question.timing)
    )
    resources = case.profile.resources
    known = SimulatedLaunch(
        at_usual.seconds, tuple((term.name, term.seconds) for term in at_usual.terms), launch.blocks,
        launch.threads_per_block, resources.registers_per_thread if resources else None,
    )  # fmt: skip
    values = residual_values(model.file.header.features, known, usual)
    caveats = (*assumed, *check_fits(counted, gpu, force=asked.force), *case.profile.caveats, *estimate.caveats)
    outcome = next(model.forecasts([FeatureRow(counted.kernel, launch.index, gpu, values, caveats)]))
    if isinstance(outcome, Prediction):
        outcome = _scaled(outcome, estimate.seconds / at_usual.seconds)
        outcome = replace(outcome, terms=estimate.terms, limiter=estimate.limiter)
    return Found(counted.kernel, launch.index, gpu.name, outcome, case)


def _scaled(found: Prediction, factor: float) -> Prediction:
    return replace(found, seconds=found.seconds * factor, low=found.low * factor, high=found.high * factor)


def _untold(missing: Sequence[str], kernel: str, asked: Asked) -> MissingEvidenceError:
    return MissingEvidenceError(
        f"no execution tells these features of {kernel}: {listed(missing)}",
        where=printable(asked.model.name),
        cure=f"Give each, such as --feature {missing[0]}=1, or train with --features executed, which leaves them out.",
    )


def _simulation_error(level: float) -> float:
    """Return the error of simulated times at a level, of the median launch."""
    calibration = calibration_of(DEFAULT_MODEL)
    return math.log(calibration.factor(level)) if calibration else assumed_log_error(level)


def _said(found: LaunchFeatures, simulated: float) -> tuple[Caveat, ...]:
    caveats = [Caveat.of(CaveatKind.LEARNED_COUNTERS_EXECUTED, features=len(found.values))]
    if found.near:
        caveats.append(Caveat.of(CaveatKind.LEARNED_COUNTERS_NEAR, listed(found.near), factor=NEAR_FACTOR))
    if found.simulated:
        names = listed(found.simulated)
        caveats.append(Caveat.of(CaveatKind.LEARNED_TIME_SIMULATED, names, factor=math.exp(simulated)))
    return tuple(caveats)


# Tables: each row is a launch whose features are known.


def table_forecasts(path: Path, gpus: Resolved, asked: Asked, progress: Progress | None = None) -> Iterator[Found]:
    """Yield the forecast of each row of a table of features; raises InputError.

    A row that names its GPU is forecast for that one alone; without any GPU each row is for its own.
    """
    model = _model_of(asked, progress)
    table = read_launches([path])
    check_magnitudes(table)
    chosen = asked.selection.chosen(table.kernels)
    asked.selection.check(chosen, table.kernels, table.source)
    meant = {name: _meant(name, gpus, table) for name in dict.fromkeys(table.gpus[row] for row in chosen)}
    if not any(meant.values()):
        raise InputError(
            f"no row is of {listed([gpu.name for gpu, _ in gpus])}",
            where=table.source,
            cure=f"Its GPUs are {listed(list(meant))}.",
        )
    on = [(row, each) for row in chosen for each in meant[table.gpus[row]]]
    values = _values(table, model.file.header.features, asked, {row: each[0] for row, each in on})
    whole, rows = [], []
    for row, (gpu, caveats) in on:
        if np.isnan(values[row]).any():
            yield _lacking(table, row, gpu, np.isnan(values[row]), model)
            continue
        whole.append(FeatureCase(table.kernels[row], row, gpu, path.name))
        rows.append(FeatureRow(table.kernels[row], row, gpu, tuple(values[row].tolist()), caveats))
    for case, outcome in zip(whole, model.forecasts(rows), strict=True):
        yield Found(case.kernel, case.index, case.gpu.name, outcome, case)


def _meant(name: str, gpus: Resolved, table: LaunchRows) -> Resolved:
    """Return the GPUs that rows of a GPU's name are forecast for: those asked that it means, or itself."""
    if name == UNNAMED:
        if not gpus:
            cure = "Name it with --gpu, or add a column gpu."
            raise InputError("it does not say which GPU its features are of", where=table.source, cure=cure)
        return gpus
    if not gpus:
        try:
            return (resolve_gpu(name),)
        except GPUError as error:
            raise InputError(error.what, where=table.source, cure="Name the GPU of the rows with --gpu.") from None
    if len(gpus) == 1 and not _is_known(name):
        gpu, assumed = gpus[0]
        return ((gpu, (*assumed, Caveat.of(CaveatKind.GPU_NAMED_OTHERWISE, gpu.name, named=ascii(name[:60])))),)
    return [(gpu, assumed) for gpu, assumed in gpus if is_called(gpu, name)]


def _is_known(name: str) -> bool:
    try:
        find_id(name)
    except GPUError:
        return False
    return True


def _values(table: LaunchRows, names: Sequence[str], asked: Asked, gpus: dict[int, GPU]) -> Floats:
    """Return the features of each row [rows, features], NaN for what is missing; raises InputError for a column."""
    given, places = dict(asked.features), {_plain(name): place for place, name in enumerate(table.names)}
    columns, missing = [], []
    for name in names:
        alike = (places.get(_plain(each)) for each in (name, *synonyms(name)))
        place = table.names.index(name) if name in table.names else next((p for p in alike if p is not None), None)
        if name in given:
            columns.append(np.full(len(table.seconds), given[name]))
        elif place is not None:
            columns.append(table.values[:, place])
        else:
            columns.append(_told(table, name, gpus))
            if np.isnan(columns[-1]).all():
                missing.append(name)
    if missing:
        raise InputError(
            f"it lacks features that {printable(asked.model.name)} learned from: {listed(missing)}",
            where=table.source,
            cure=f"Add them as columns, or give them by --feature {missing[0]}=1. It has {listed(table.names)}.",
        )
    return np.column_stack(columns)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _told(table: LaunchRows, name: str, gpus: dict[int, GPU]) -> Floats:
    """Return a feature that other columns tell: a model may have learned another profiler's names."""
    found = np.full(len(table.seconds), math.nan)
    for row, gpu in gpus.items():
        cells = zip(table.names, table.values[row].tolist(), strict=True)
        known = {each: value for each, value in cells if not math.isnan(value)}
        told = told_by_counters(name, known, gpu.architecture.number)
        if told is None:
            return found
        found[row] = told
    return found


def _lacking(table: LaunchRows, row: int, gpu: GPU, is_missing: Floats, model: LearnedModel) -> Found:
    names = [name for name, each in zip(model.file.header.features, is_missing, strict=True) if each]
    reason = MissingEvidenceError(f"row {row + 1} has no value of {listed(names)}", where=table.source)
    return Found(table.kernels[row], row, gpu.name, reason)
