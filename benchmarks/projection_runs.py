"""Projects every run of a launch onto the other GPUs that it was measured on, in several processes."""

import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from projection_cases import LEAST_SOURCE_SECONDS, Launched, Run
from projection_profiles import profile_of, refusal_of
from projection_scores import Pair, Projected, rules_of_thumb

from kerncast.errors import KerncastError
from kerncast.execute import Budget
from kerncast.gpu import GPU
from kerncast.models import Case, Question, model_named
from kerncast.prediction import Timing

MODELS = ("pipes", "algorithm1", "ceilings")


@dataclass(frozen=True, slots=True)
class Plan:
    """How to project."""

    level: float = 0.9
    sample_seconds: float = 0.1
    """what executing blocks of a launch may take: only counts that the profile lacks come from it"""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a model gives no projection of a pair, or nobody gives one of a run."""

    set: str
    kernel: str
    source: str
    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one launch."""

    projected: tuple[Projected, ...]
    """by the models and by the rules of thumb"""
    refused: tuple[Refused, ...]
    asked: int
    """ordered pairs"""


def run(work: list[Launched], gpus: Mapping[tuple[str, str], GPU], plan: Plan, jobs: int) -> Iterator[Outcome]:
    """Project everything; the order is that of the launches whatever ends first."""
    found: dict[int, Outcome] = {}
    started = time.perf_counter()
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(project, each, gpus, plan): number for number, each in enumerate(work)}
        for done, future in enumerate(as_completed(futures), 1):
            found[futures[future]] = future.result()
            if sys.stderr.isatty() or done % 50 == 0 or done == len(work):
                left = (time.perf_counter() - started) / done * (len(work) - done)
                print(f"\r{done} of {len(work)} launches, {left:.0f} s left ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return iter([found[number] for number in sorted(found)])


def project(launched: Launched, gpus: Mapping[tuple[str, str], GPU], plan: Plan) -> Outcome:
    """Project one launch from each GPU with counters onto all others."""
    projected: list[Projected] = []
    refused: list[Refused] = []
    asked = 0
    for source in launched.runs:
        targets = [run for run in launched.runs if run.gpu != source.gpu and (launched.set, run.gpu) in gpus]
        if not _is_source(source) or (launched.set, source.gpu) not in gpus:
            continue
        asked += len(targets)
        try:
            gpu = gpus[launched.set, source.gpu]
            profile = profile_of(launched, source, gpu, Budget.for_sample(plan.sample_seconds))
        except KerncastError as error:
            reason = refusal_of(error, launched)
            refused += [
                Refused(launched.set, launched.kernel, source.gpu, name, reason) for name in MODELS for _ in targets
            ]
            continue
        for target in targets:
            pair = Pair(
                launched.set, launched.kernel, launched.size, source.gpu, target.gpu, source.seconds, target.seconds
            )
            case = Case(profile, gpus[launched.set, target.gpu], None, profile)
            projected += rules_of_thumb(pair, case)
            found = list(_by_models(pair, case, launched, plan))
            projected += [each for each in found if isinstance(each, Projected)]
            refused += [each for each in found if isinstance(each, Refused)]
    return Outcome(tuple(projected), tuple(refused), asked)


def _is_source(run: Run) -> bool:
    return run.counters is not None and run.seconds > LEAST_SOURCE_SECONDS


def _by_models(pair: Pair, case: Case, launched: Launched, plan: Plan) -> Iterator[Projected | Refused]:
    for name in MODELS:
        try:
            found = model_named(name).predict(case, Question(Timing.PROFILER, plan.level))
        except KerncastError as error:
            yield Refused(pair.set, pair.kernel, pair.source, name, refusal_of(error, launched))
            continue
        yield Projected(pair, name, found.seconds, found.low, found.high, found.limiter)
