"""Forecasts every launch on all of its GPUs at once, in several processes; compiled code is kept between runs."""

import hashlib
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

from timing_cases import FOLDER, Case

from kerncast.compile import CompiledSource, CompileRequest, Limits, compile_request
from kerncast.errors import KerncastError
from kerncast.execute import Budget
from kerncast.forecast import Forecast, Options, compiled_launch, forecast
from kerncast.gpu import GPU, load_gpu
from kerncast.launch import Launch
from kerncast.prediction import Prediction, Term
from kerncast.profiles import Resources

COMPILED = FOLDER.parent / "out" / "compiled"
GPU_FILES = FOLDER / "gpus"
BASELINES = ("roofline", "template")
#: Convolutions with all loops unrolled take the compiler 6 to 12 s alone, minutes on a busy machine.
_PATIENT = Limits(seconds=600.0)


Forecasts = list[tuple[Forecast, ...]]
"""for each launch one forecast by the model, then those by the baselines"""


@dataclass(frozen=True, slots=True)
class Unit:
    """Launches that were timed together, with all their measured cases: each is compiled and executed once."""

    launches: tuple[Launch, ...]
    cases: tuple[Case, ...]
    gpus: tuple[GPU, ...]
    """at the clock that they ran at"""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to forecast."""

    model: str
    level: float = 0.9
    sample_seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class Scored:
    """What came of one case: a forecast by each model, or why there is none."""

    case: Case
    clock_hz: float
    predictions: tuple[Prediction, ...]
    """the model's first, then the baselines'"""
    resources: Resources | None
    """those of the launch with the most registers"""
    unit_seconds: float
    """wall time of all forecasts of these launches"""
    refused: str = ""


def known_gpus(cases: Iterable[Case]) -> tuple[dict[str, GPU], set[str]]:
    """Return the GPUs of some cases, and the names of those that have no data file yet."""
    found: dict[str, GPU] = {}
    missing: set[str] = set()
    for name in dict.fromkeys(case.gpu for case in cases):
        try:
            found[name] = load_known(name)
        except KerncastError:
            missing.add(name)
    return found, missing


def load_known(name: str) -> GPU:
    """Load a GPU that kerncast has a file of, or one that only these comparisons know."""
    own = GPU_FILES / f"{name}.toml"
    return load_gpu(own if own.exists() else name)


def at(gpu: GPU, clock: str | float) -> GPU:
    """Return a GPU at a clock; at ``"default"``, which is an assumption, with the range of clocks that it may have."""
    return gpu if clock == "default" else gpu.at_clock(clock)


def units(cases: Iterable[Case], gpus: dict[str, GPU], clocks: dict[tuple[str, str], str | float]) -> list[Unit]:
    """Group cases by launch; each GPU at the clock of its set."""
    grouped: dict[tuple[str, tuple[Launch, ...]], list[Case]] = {}
    for case in cases:
        if case.gpu in gpus:
            grouped.setdefault((case.set, case.launches), []).append(case)
    return [
        Unit(
            launches,
            tuple(of_launches),
            tuple(at(gpus[name], clocks[of, name]) for name in dict.fromkeys(case.gpu for case in of_launches)),
        )
        for (of, launches), of_launches in grouped.items()
    ]


def run(
    work: list[Unit], plan: Plan, jobs: int, does: Callable[[Unit, Plan], list[Scored]] | None = None
) -> Iterator[Scored]:
    """Forecast everything; the order is that of the cases whatever ends first. ``does`` is what forecasts one unit."""
    found: dict[int, list[Scored]] = {}
    started = time.perf_counter()
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(does or forecast_unit, unit, plan): number for number, unit in enumerate(work)}
        for done, future in enumerate(as_completed(futures), 1):
            found[futures[future]] = future.result()
            if sys.stderr.isatty() or done % 20 == 0 or done == len(work):
                left = (time.perf_counter() - started) / done * (len(work) - done)
                print(f"\r{done} of {len(work)} launches, {left:.0f} s left ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for number in sorted(found):
        yield from found[number]


def forecast_unit(unit: Unit, plan: Plan) -> list[Scored]:
    """Forecast one launch, or the sum of several, with the model and the baselines."""
    started = time.perf_counter()
    try:
        with patch.object(compiled_launch, "compile_launch", compile_kept):
            forecasts = [tuple(_forecasts(launch, unit, plan)) for launch in unit.launches]
    except KerncastError as error:
        forecasts, reason = [], str(error)
    except Exception as error:  # noqa: BLE001  one defect must not lose hours of other cases
        forecasts, reason = [], f"defect: {type(error).__name__}: {error}"
    else:
        reason = ""
    spent = time.perf_counter() - started
    return [_scored(case, unit, forecasts, reason_of(case, forecasts, reason), spent) for case in unit.cases]


def _forecasts(launch: Launch, unit: Unit, plan: Plan) -> Iterator[Forecast]:
    budget = Budget.for_sample(plan.sample_seconds)
    timing = unit.cases[0].timing
    options = Options(plan.model, timing, plan.level, budget=budget)
    first = forecast.forecast_all(launch, [(gpu, ()) for gpu in unit.gpus], options)
    yield first
    for name in BASELINES:
        if name == plan.model:
            continue
        for each in first.profiled:
            try:
                yield forecast.forecast_all(each.profile, [(each.gpu, ())], replace(options, model=name))
            except KerncastError:
                continue


def _scored(case: Case, unit: Unit, forecasts: Forecasts, refused: str, spent: float) -> Scored:
    by_launch = [
        {p.model: p for each in of_launch for p in each.predictions if p.gpu_id == case.gpu} for of_launch in forecasts
    ]
    predictions = tuple(
        joined([found[model] for found in by_launch])
        for model in (by_launch[0] if by_launch else ())
        if all(model in found for found in by_launch)
    )
    profiled = [each for first, *_ in forecasts for each in first.profiled if each.gpu.id == case.gpu]
    known = [each.profile.resources for each in profiled if each.profile.resources]
    resources = max(known, key=lambda each: each.registers_per_thread, default=None)
    clock = next(gpu.clock_hz for gpu in unit.gpus if gpu.id == case.gpu)
    return Scored(case, clock, predictions, resources, spent, refused)


def joined(parts: Sequence[Prediction]) -> Prediction:
    """Return the forecast of launches in a row: a sum in all numbers; the longest launch says what limits.

    The errors of the parts have one cause, so that the ends of the intervals add up, too.
    """
    if len(parts) == 1:
        return parts[0]
    terms: dict[str, float] = {}
    for term in (term for part in parts for term in part.terms):
        terms[term.name] = terms.get(term.name, 0.0) + term.seconds
    return replace(
        max(parts, key=lambda part: part.seconds),
        seconds=sum(part.seconds for part in parts),
        low=sum(part.low for part in parts),
        high=sum(part.high for part in parts),
        terms=tuple(Term(*item) for item in terms.items()),
        caveats=tuple(dict.fromkeys(caveat for part in parts for caveat in part.caveats)),
    )


def reason_of(case: Case, forecasts: Forecasts, reason: str) -> str:
    """Return why a case has no forecast; empty where it has one."""
    if not forecasts:
        return reason or "no forecast"
    name = load_known(case.gpu).name
    for first, *_ in forecasts:
        if not any(p.gpu_id == case.gpu for p in first.predictions):
            return next((r.reason for r in first.refused if r.gpu in {None, name}), "no forecast")
    return ""


def compile_kept(launch: Launch, architectures: list[str]) -> CompiledSource:
    """Compile a launch for some architectures, or take what an earlier run has compiled."""
    found = [_compile_one(launch, architecture) for architecture in architectures]
    return replace(found[0], kernels=tuple(kernel for each in found for kernel in each.kernels))


def _compile_one(launch: Launch, architecture: str) -> CompiledSource:
    wanted = (launch.source.read_bytes(), launch.kernel, launch.defines, architecture, _compiler())
    key = hashlib.sha256(repr(wanted).encode()).hexdigest()
    kept = COMPILED / key[:2] / key
    if kept.exists():
        found: CompiledSource = pickle.loads(kept.read_bytes())  # noqa: S301  written by this script
        return found
    found = _compile(launch, architecture)
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(f".{time.monotonic_ns()}")
    partial.write_bytes(pickle.dumps(found))
    partial.replace(kept)
    return found


def _compile(launch: Launch, architecture: str) -> CompiledSource:
    return compile_request(
        CompileRequest(
            launch.source,
            (architecture,),
            kernel=launch.kernel,
            defines=launch.defines,
            include_dirs=launch.include_dirs,
            limits=_PATIENT,
        )
    )


@cache
def _compiler() -> str:
    """Return what tells one state of the compiling code from another."""
    folder = Path(forecast.__file__).parent / "compile"
    sources = b"".join(file.read_bytes() for file in sorted(folder.rglob("*.py")))
    return hashlib.sha256(sources).hexdigest()
