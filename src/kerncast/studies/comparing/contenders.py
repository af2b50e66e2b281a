"""The GPUs that compete for some launches: time and energy of each, at a clock that its board's power limit allows.

A GPU whose model power exceeds the limit of its board gets a lower clock, and the launches are forecast again there,
until the power fits (``models/energy.py``). That happens here only: predict forecasts at the clock that it is given.
A GPU that cannot run every launch is set apart. Forecasts by counts alone are not put beside simulations.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError, MissingEvidenceError, Refusal
from kerncast.forecast import Forecast, Options, Progress, forecast_all
from kerncast.forecast.observed import subject_of
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.models import DEFAULT_MODEL, Case, calibration_of
from kerncast.models.base import FOREIGN_CODE_LOG_SIGMA, widened
from kerncast.models.clock import clock_share
from kerncast.models.energy import (
    LEVEL,
    Energy,
    EnergyParts,
    board_limit_w,
    clock_within_limit_hz,
    energy_of,
    least_clock_hz,
    parts_of,
    power_w,
    work_of,
)
from kerncast.models.transfer.posterior import Subject
from kerncast.prediction import Prediction
from kerncast.profiles import KernelProfile
from kerncast.studies.comparing.comparison import Comparison, Faster, Timed, Total, faster

Evidence = Sequence[Launch] | Sequence[KernelProfile]
Resolved = tuple[GPU, tuple[Caveat, ...]]

_MOST_ROUNDS = 4
#: A power so little above the limit is at the limit.
_CLOSE = 1.01


@dataclass(frozen=True, slots=True)
class Contender:
    """One GPU with all launches."""

    gpu: GPU
    """at the clock that its power limit allows"""
    predictions: tuple[Prediction, ...]
    total: Total
    energy: Energy | None
    """None where a number is unknown"""
    own_clock_hz: float
    """clock before the power limit"""
    caveats: tuple[Caveat, ...]
    """what concerns the power and the energy"""

    @property
    def is_capped(self) -> bool:
        """Whether the power limit lowers the clock."""
        return self.gpu.clock_hz < self.own_clock_hz


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs that were forecast by the same models, and can be compared."""

    models: tuple[str, ...]
    contenders: tuple[Contender, ...]
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class SetApart:
    """A GPU that is not compared."""

    gpu: str
    gpu_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Field:
    """All GPUs that were asked for."""

    groups: tuple[Group, ...]
    """simulated ones first"""
    set_apart: tuple[SetApart, ...]
    launches: tuple[str, ...]
    """kernels, in the order of the launches"""


@dataclass(frozen=True, slots=True)
class _Run:
    """What was forecast of one GPU."""

    gpu: GPU
    predictions: tuple[Prediction, ...]
    cases: tuple[Case, ...]

    @property
    def seconds(self) -> float:
        return sum(each.count * each.seconds for each in self.predictions)

    @property
    def clock_share(self) -> float:
        """Part of the time that follows the clock of the SMs."""
        of_all = sum(each.count * each.seconds * clock_share(each.seconds, each.terms) for each in self.predictions)
        return of_all / self.seconds

    def parts(self) -> EnergyParts:
        """Return the energy of all launches; raises MissingEvidenceError."""
        found = EnergyParts(0.0, 0.0)
        for each, case in zip(self.predictions, self.cases, strict=True):
            found += parts_of(work_of(case.profile, each.terms, self.gpu), self.gpu).times(each.count)
        return found


def contenders_of(
    evidence: Evidence, gpus: Sequence[Resolved], options: Options, progress: Progress | None = None
) -> Field:
    """Forecast all launches on all GPUs, each within the power of its board."""
    if options.level != LEVEL:
        raise InputError("GPUs are compared by 90 % intervals", cure="Leave the level out.")
    if options.clock is not None:
        gpus = [(gpu.at_clock(options.clock), assumed) for gpu, assumed in gpus]
        options = replace(options, clock=None)
    forecast = forecast_all(evidence, list(gpus), options, progress).whole()
    by_gpu = _by_gpu(forecast)
    apart: list[SetApart] = []
    found: list[tuple[Contender, tuple[Timed, ...]]] = []
    for gpu, assumed in gpus:
        reason = _refusal(forecast, gpu)
        run = by_gpu.get(gpu.id)
        if run is None or reason:
            apart.append(SetApart(gpu.name, gpu.id, reason or "no forecast"))
            continue
        found.append(_contender(run, assumed, evidence, options, progress))
    launches = {each.launch: each.kernel for each in forecast.predictions}
    return Field(_grouped(found), tuple(apart), tuple(launches[key] for key in sorted(launches)))


def fastest_of(runs: Sequence[Sequence[tuple[Prediction, Case]]]) -> tuple[float, ...]:
    """Return for each run the probability to take the least time of all; each has the same launches on one GPU.

    Fails when: the intervals are not those of 90 %.
    """
    return Comparison([[_one_timed(p, case) for p, case in run] for run in runs]).best()


def faster_version(
    before: Sequence[tuple[Prediction, Case | None]], after: Sequence[tuple[Prediction, Case | None]]
) -> Faster:
    """Return how probable it is that a later version of some launches is faster, on one GPU, by 90 % intervals.

    Without the case behind every forecast, as of an earlier output, only the bounds are known.
    """
    if any(case is None for _, case in (*before, *after)):
        found = faster([_bare_timed(p, n) for n, (p, _) in enumerate(before)],
                       [_bare_timed(p, -1 - n) for n, (p, _) in enumerate(after)])  # fmt: skip
        return replace(found, probability=None, correlation=None)
    old, new = ([_one_timed(p, case) for p, case in one if case is not None] for one in (before, after))
    return faster(old, new)


def _bare_timed(p: Prediction, number: int) -> Timed:
    """Return a launch of which only its time is known: all of its interval is the model's error, and of none other."""
    width = (math.log(p.seconds / p.low) + math.log(p.high / p.seconds)) / 2
    subject = Subject(f"{number}", f"{number}", p.gpu_id, 0, p.gpu_id, 1, ((f"{number}", 1.0),))
    return Timed(subject, p.count * p.seconds, width, 0.0, 0.0)


def _by_gpu(forecast: Forecast) -> Mapping[str, _Run]:
    rows: dict[str, list[tuple[Prediction, Case]]] = {}
    for each, case in zip(forecast.predictions, forecast.cases, strict=True):
        if isinstance(case, Case):
            rows.setdefault(each.gpu_id, []).append((each, case))
    return {
        gpu_id: _Run(found[0][1].gpu, tuple(each for each, _ in found), tuple(case for _, case in found))
        for gpu_id, found in rows.items()
    }


def _refusal(forecast: Forecast, gpu: GPU) -> str:
    """Return why a GPU lacks a launch; empty where it has them all."""
    return next((f"{r.kernel}: {r.reason}" for r in forecast.refused if r.gpu_id in {None, gpu.id}), "")


def _contender(
    run: _Run, assumed: tuple[Caveat, ...], evidence: Evidence, options: Options, progress: Progress | None
) -> tuple[Contender, tuple[Timed, ...]]:
    own, caveats = run.gpu, assumed
    energy = None
    try:
        limited = _within_limit(run, evidence, options, progress)
        timed = _timed(limited)
        total = Comparison([timed]).totals[0]
        parts = limited.parts()
        energy = energy_of(parts, total.seconds, limited.gpu, total.log_sigma)
        if limited.gpu.clock_hz < own.clock_hz:
            capped = Caveat.of(
                CaveatKind.POWER_LIMITED,
                own.name,
                watts=power_w(run.parts(), run.seconds, own, own.clock_hz),
                limit=board_limit_w(own),
                from_hz=own.clock_hz,
                to_hz=limited.gpu.clock_hz,
            )
            caveats = (*caveats, capped)
        run = limited
    except MissingEvidenceError as missing:
        timed = _timed(run)
        total = Comparison([timed]).totals[0]
        caveats = (*caveats, Caveat.of(CaveatKind.ENERGY_UNKNOWN, own.name, reason=missing.what))
    return Contender(run.gpu, run.predictions, total, energy, own.clock_hz, caveats), timed


def _within_limit(run: _Run, evidence: Evidence, options: Options, progress: Progress | None) -> _Run:
    """Return the forecast at the highest clock at which the power is within the limit; raises MissingEvidenceError."""
    own = run.gpu
    limit = board_limit_w(own)
    for _ in range(_MOST_ROUNDS):
        parts = run.parts()
        if power_w(parts, run.seconds, run.gpu, run.gpu.clock_hz) <= _CLOSE * limit:
            break
        clock_hz = clock_within_limit_hz(parts, run.seconds, run.gpu, run.clock_share)
        if clock_hz >= run.gpu.clock_hz:
            break
        if progress is not None:
            progress(f"lowering the clock of {own.name} to its power limit", 0, 0)
        lower = _at_limit(own, clock_hz)
        again = _by_gpu(_again(evidence, lower, options)).get(own.id)
        if again is None or len(again.predictions) != len(run.predictions):
            break
        run = again
    return run


def _again(evidence: Evidence, gpu: GPU, options: Options) -> Forecast:
    try:
        return forecast_all(evidence, [(gpu, ())], options).whole()
    except Refusal:
        return Forecast((), (), ())


def _at_limit(own: GPU, clock_hz: float) -> GPU:
    """Return a GPU whose power limit leaves about so much of its clock, with the clocks that it may have."""
    low, high = own.clock_range_hz or (least_clock_hz(own), own.clock_hz)
    return replace(own, clock_hz=clock_hz, clock_low_hz=min(low, clock_hz), clock_high_hz=max(high, own.clock_hz))


def _timed(run: _Run) -> tuple[Timed, ...]:
    return tuple(_one_timed(each, case) for each, case in zip(run.predictions, run.cases, strict=True))


def _one_timed(p: Prediction, case: Case) -> Timed:
    """Return one launch with its error; what the model's own does not explain of the interval is the clock's."""
    below, above = math.log(p.seconds / p.low), math.log(p.high / p.seconds)
    model = min(below, above, _model_width(p, case))
    own_below, own_above = (math.sqrt(max(0.0, side**2 - model**2)) for side in (below, above))
    return Timed(subject_of(case, p), p.count * p.seconds, model, own_below, own_above)


def _model_width(p: Prediction, case: Case) -> float:
    """Return the half-width of the model's own error at 90 %, in ln(time); infinite where none was measured."""
    calibration = calibration_of(p.model)
    if calibration is None:
        return math.inf
    subject = subject_of(case, p)
    factor = calibration.factor(LEVEL, calibration.width(dict(subject.shares)))
    return math.log(widened(factor, FOREIGN_CODE_LOG_SIGMA, LEVEL) if subject.is_unseen else factor)


def _grouped(found: Sequence[tuple[Contender, tuple[Timed, ...]]]) -> tuple[Group, ...]:
    groups: dict[tuple[str, ...], list[tuple[Contender, tuple[Timed, ...]]]] = {}
    for each in found:
        groups.setdefault(tuple(sorted({p.model for p in each[0].predictions})), []).append(each)
    ordered = sorted(groups.items(), key=lambda item: (item[0] != (DEFAULT_MODEL,), item[0]))
    return tuple(
        Group(models, tuple(each for each, _ in of), Comparison([timed for _, timed in of])) for models, of in ordered
    )
