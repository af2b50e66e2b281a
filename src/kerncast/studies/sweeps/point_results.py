"""NOUN PointResult: what came of one point of a sweep on each GPU; and how one point is forecast."""

from dataclasses import dataclass
from enum import StrEnum
from threading import Lock

from kerncast.caveats import Caveat
from kerncast.errors import (
    BudgetExceededError,
    CompileError,
    DoesNotCompileError,
    DoesNotFitError,
    InputError,
    KernelFault,
    Refusal,
)
from kerncast.forecast import Options, forecast_all
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.prediction import Prediction, Refused
from kerncast.studies.sweeps.space import Point


class Infeasible(StrEnum):
    """Kinds of reasons why a point has no time."""

    LAUNCH = "launch"
    """no GPU can be asked for such a launch, or its arguments do not fit the kernel"""
    COMPILE = "compile"
    """the source does not compile with these macros"""
    FIT = "fit"
    """it needs more of an SM than there is"""
    FAULT = "fault"
    """the kernel traps, or reads or writes outside its buffers"""
    BUDGET = "budget"
    """the kernel did not end within its budget"""
    UNSUPPORTED = "unsupported"
    """an instruction or a feature is not covered, or a fact is unknown"""
    LOST = "lost"
    """the process that forecast it ended"""


#: The first that a refusal is an instance of decides.
_KINDS: tuple[tuple[type[Exception], Infeasible], ...] = (
    (CompileError, Infeasible.COMPILE),
    (DoesNotCompileError, Infeasible.COMPILE),
    (DoesNotFitError, Infeasible.FIT),
    (KernelFault, Infeasible.FAULT),
    (BudgetExceededError, Infeasible.BUDGET),
    (Refusal, Infeasible.UNSUPPORTED),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The forecast of one point on one GPU, or why there is none."""

    gpu_id: str
    seconds: float | None
    """None where the point is infeasible on this GPU"""
    low: float | None
    high: float | None
    limiter: str
    """name of the term that decides; empty without a forecast"""
    model: str
    infeasible: Infeasible | None
    reason: str


@dataclass(frozen=True, slots=True)
class PointResult:
    """All that came of one point."""

    point: Point
    outcomes: tuple[Outcome, ...]
    """one for each GPU, in the order asked for"""


@dataclass(frozen=True, slots=True)
class Task:
    """One point and the launch that it makes."""

    point: Point
    launch: Launch


@dataclass(frozen=True, slots=True)
class Job:
    """What is the same for all points: the GPUs with what was assumed of them, and the options of a forecast."""

    gpus: tuple[tuple[GPU, tuple[Caveat, ...]], ...]
    options: Options


#: The threads of a cluster's worker share what a process has compiled, which one thread at a time may change.
_ONE_AT_A_TIME = Lock()


def forecast_point(task: Task, job: Job) -> PointResult:
    """Forecast one point on all GPUs at once, so that they share compiling and executing it; raises nothing."""
    try:
        with _ONE_AT_A_TIME:
            found = forecast_all(task.launch, list(job.gpus), job.options).whole()
    except CompileError as error:
        return infeasible(task.point, job, Infeasible.COMPILE, str(error))
    except InputError as error:
        return infeasible(task.point, job, Infeasible.LAUNCH, str(error))
    except Exception as error:  # noqa: BLE001  one point must not end the others, and its reason is kept
        return infeasible(task.point, job, Infeasible.LOST, f"{type(error).__name__}: {error}")
    by_gpu = {each.gpu_id: each for each in found.predictions}
    outcomes = tuple(_outcome(gpu, by_gpu.get(gpu.id), found.refused) for gpu, _ in job.gpus)
    return PointResult(task.point, outcomes)


def infeasible(point: Point, job: Job, kind: Infeasible, reason: str) -> PointResult:
    """Return a point that has no time on any GPU."""
    return PointResult(point, tuple(_without_time(gpu.id, kind, reason) for gpu, _ in job.gpus))


def _outcome(gpu: GPU, found: Prediction | None, refused: tuple[Refused, ...]) -> Outcome:
    if found is not None:
        return Outcome(gpu.id, found.seconds, found.low, found.high, found.limiter, found.model, None, "")
    own = next(each for each in refused if each.gpu in {gpu.name, None})
    kind = next(kind for refusal, kind in _KINDS if issubclass(own.refusal, refusal))
    return _without_time(gpu.id, kind, own.reason)


def _without_time(gpu_id: str, kind: Infeasible, reason: str) -> Outcome:
    return Outcome(gpu_id, None, None, None, "", "", kind, reason)
