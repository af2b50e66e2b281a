"""Forecasts every launch on all of its GPUs at once, in several processes; compiled code is kept between runs."""

import hashlib
import pickle
import sys
import time
from collections.abc import Iterable, Iterator
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
from kerncast.prediction import Prediction
from kerncast.profiles import Resources

COMPILED = FOLDER.parent / "out" / "compiled"
GPU_FILES = FOLDER / "gpus"
BASELINES = ("roofline", "template")
#: Convolutions with all loops unrolled take the compiler 6 to 12 s alone, minutes on a busy machine.
_PATIENT = Limits(seconds=600.0)


@dataclass(frozen=True, slots=True)
class Unit:
    """One launch with all its measured cases: it is compiled and executed once."""

    launch: Launch
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
    unit_seconds: float
    """wall time of all forecasts of this launch"""
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


def units(cases: Iterable[Case], gpus: dict[str, GPU], clocks: dict[tuple[str, str], str | float]) -> list[Unit]:
    """Group cases by launch; each GPU at the clock of its set."""
    grouped: dict[tuple[str, Launch], list[Case]] = {}
    for case in cases:
        if case.gpu in gpus:
            grouped.setdefault((case.set, case.launch), []).append(case)
    return [
        Unit(
            launch,
            tuple(of_launch),
            tuple(gpus[name].at_clock(clocks[of, name]) for name in dict.fromkeys(case.gpu for case in of_launch)),
        )
        for (of, launch), of_launch in grouped.items()
    ]


def run(work: list[Unit], plan: Plan, jobs: int) -> Iterator[Scored]:
    """Forecast everything; the order is that of the cases whatever ends first."""
    found: dict[int, list[Scored]] = {}
    started = time.perf_counter()
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(forecast_unit, unit, plan): number for number, unit in enumerate(work)}
        for done, future in enumerate(as_completed(futures), 1):
            found[futures[future]] = future.result()
            if sys.stderr.isatty() or done % 20 == 0 or done == len(work):
                left = (time.perf_counter() - started) / done * (len(work) - done)
                print(f"\r{done} of {len(work)} launches, {left:.0f} s left ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for number in sorted(found):
        yield from found[number]


def forecast_unit(unit: Unit, plan: Plan) -> list[Scored]:
    """Forecast one launch with the model and the baselines."""
    started = time.perf_counter()
    try:
        with patch.object(compiled_launch, "compile_launch", compile_kept):
            forecasts = list(_forecasts(unit, plan))
    except KerncastError as error:
        forecasts, reason = [], str(error)
    except Exception as error:  # noqa: BLE001  one defect must not lose hours of other cases
        forecasts, reason = [], f"defect: {type(error).__name__}: {error}"
    else:
        reason = ""
    spent = time.perf_counter() - started
    return [_scored(case, unit, forecasts, reason_of(case, forecasts, reason), spent) for case in unit.cases]


def _forecasts(unit: Unit, plan: Plan) -> Iterator[Forecast]:
    budget = Budget.for_sample(plan.sample_seconds)
    timing = unit.cases[0].timing
    options = Options(plan.model, timing, plan.level, budget=budget)
    first = forecast.forecast_all(unit.launch, [(gpu, ()) for gpu in unit.gpus], options)
    yield first
    for name in BASELINES:
        if name == plan.model:
            continue
        for each in first.profiled:
            try:
                yield forecast.forecast_all(each.profile, [(each.gpu, ())], replace(options, model=name))
            except KerncastError:
                continue


def _scored(case: Case, unit: Unit, forecasts: list[Forecast], refused: str, spent: float) -> Scored:
    predictions = tuple(p for each in forecasts for p in each.predictions if p.gpu_id == case.gpu)
    profiles = [each.profile for found in forecasts[:1] for each in found.profiled if each.gpu.id == case.gpu]
    resources = profiles[0].resources if profiles else None
    clock = next(gpu.clock_hz for gpu in unit.gpus if gpu.id == case.gpu)
    return Scored(case, clock, predictions, resources, spent, refused)


def reason_of(case: Case, forecasts: list[Forecast], reason: str) -> str:
    """Return why a case has no forecast; empty where it has one."""
    if not forecasts:
        return reason or "no forecast"
    if any(p.gpu_id == case.gpu for p in forecasts[0].predictions):
        return ""
    name = load_known(case.gpu).name
    return next((r.reason for r in forecasts[0].refused if r.gpu in {None, name}), "no forecast")


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
