"""The forecast of operators: the physics of their family, times what measured operators taught, with an interval.

The interval is that of operators on GPUs that were left out when it was measured (benchmarks/score_operators.py), by
what limits them: models/calibration.py.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU
from kerncast.models.calibration import Calibration, calibration_of
from kerncast.models.clock import BLAME_POWER, LATENCY
from kerncast.models.operators.attention import Decode, Prefill
from kerncast.models.operators.elementwise import Elementwise
from kerncast.models.operators.experts import Experts
from kerncast.models.operators.fp32_products import Fp32Products
from kerncast.models.operators.operator_work import Floats, OperatorBatch, OperatorModel, OperatorWork, Resource
from kerncast.models.operators.residuals import Residual, residual_of
from kerncast.models.operators.row_operators import Norm, Softmax
from kerncast.models.operators.tensor_products import TensorProducts
from kerncast.operators import Family, Operator
from kerncast.prediction import Prediction, Term, Timing

OPERATORS_MODEL = "operators"


def model_of(batch: OperatorBatch) -> OperatorModel:
    """Return the model of a kind of operator in a format; raises MissingEvidenceError where there is none."""
    return _model(batch.kind.family, batch.kind.name, batch.dtype.name)


@cache
def _model(family: Family, kind: str, dtype: str) -> OperatorModel:
    if family is Family.PRODUCT:
        fp32 = Fp32Products() if kind == "bmm" else Fp32Products.with_weights()
        return fp32 if dtype == "fp32" else TensorProducts()
    models: dict[Family, type[OperatorModel]] = {
        Family.ELEMENTWISE: Elementwise, Family.SOFTMAX: Softmax, Family.NORM: Norm, Family.PREFILL: Prefill,
        Family.DECODE: Decode, Family.EXPERTS: Experts,
    }  # fmt: skip
    return models[family]()


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """The forecast times of a batch, with their interval."""

    seconds: Floats
    low: Floats
    high: Floats
    resources: tuple[Resource, ...]
    timing: Timing
    caveats: tuple[Caveat, ...]
    is_beyond: npt.NDArray[np.bool_]
    """whether an operator is unlike all that were measured on its architecture"""


def times_of(batch: OperatorBatch, gpu: GPU, timing: Timing | None = None, level: float = 0.9) -> BatchTimes:
    """Return the times of operators of one kind and format; raises MissingEvidenceError for a GPU that lacks a fact.

    ``timing`` None means: timed as the data were that the model was made from.
    """
    model = model_of(batch)
    chosen = timing or model.timing
    work = model.work(batch, gpu, chosen)
    residual = _learned(model, work, (batch, gpu, chosen))
    least = np.zeros(len(batch)) if work.least is None else work.least
    seconds = np.maximum(work.seconds * np.exp(residual.log_ratios), least)
    if not np.isfinite(seconds).all():
        raise MissingEvidenceError(f"an operator such as {batch.kind.signature} of these sizes is beyond all measured")
    factor, notes = _interval(model, work, gpu, level)
    low = np.maximum(seconds / factor, least)
    caveats = (*_timed_so(timing, model), *_taken_as(batch), *notes)
    return BatchTimes(seconds, low, seconds * factor, work.resources, chosen, caveats, residual.is_beyond)


def _learned(model: OperatorModel, work: OperatorWork, asked: tuple[OperatorBatch, GPU, Timing]) -> Residual:
    """Return what was learned of a batch; nothing of a cold L2, as all that was measured was warm."""
    batch, gpu, timing = asked
    if timing is Timing.COLD:
        return Residual(np.zeros(len(batch)), np.zeros(len(batch), np.bool_))
    return residual_of(model, work.features, gpu, batch.libraries)


#: Kinds that were not measured, and those that they are taken to be like.
_LIKE = {"sigmoid": "tanh", "silu": "tanh", "exp": "tanh", "rmsnorm": "ln"}


def _taken_as(batch: OperatorBatch) -> Iterator[Caveat]:
    """Yield what stands in for a kind or a format that was not measured."""
    kind, dtype = batch.kind.name, batch.dtype.name
    if kind in _LIKE:
        yield Caveat.of(CaveatKind.OPERATOR_TAKEN_AS, kind, other=_LIKE[kind])
    if dtype != "fp32" and kind in {"bmm", "linear"}:
        yield Caveat.of(CaveatKind.OPERATOR_TAKEN_AS, f"{kind} in {dtype}", other="gemm")
    if dtype == "fp16":
        yield Caveat.of(CaveatKind.OPERATOR_TAKEN_AS, dtype, other="bf16")


def _timed_so(asked: Timing | None, model: OperatorModel) -> Iterator[Caveat]:
    if asked is None and model.timing is not Timing.SERIES:
        yield Caveat(CaveatKind.OPERATOR_TIMED_SO)
    elif asked is not None and asked is not model.timing:
        yield Caveat.of(CaveatKind.OPERATOR_TIMED_OTHERWISE, model.timing.value)


def _interval(model: OperatorModel, work: OperatorWork, gpu: GPU, level: float) -> tuple[Floats, tuple[Caveat, ...]]:
    """Return by how much to multiply and divide each time, and what to say of it."""
    calibration = calibration_of(model.name)
    if calibration is None:
        raise MissingEvidenceError(f"how far {model.name} errs was not measured")
    factor = np.exp(_widths(calibration, work) * math.log(calibration.factor(level)))
    usual, cases = calibration.factor(level), calibration.cases
    notes = [Caveat.of(CaveatKind.OPERATOR_INTERVAL, calibration.measured, level=level, usual=usual, cases=cases)]
    if not calibration.has_seen(gpu):
        notes.append(Caveat.of(CaveatKind.OPERATOR_GPU_NOT_MEASURED, gpu.architecture.microarchitecture))
    return factor, tuple(notes)


def _widths(calibration: Calibration, work: OperatorWork) -> Floats:
    """Return how wide each interval is over the usual one, in ln(time): as Calibration.width, for a batch."""
    class_of = {name: each.name for each in calibration.classes for name in each.resources}
    if not calibration.classes:
        return np.ones(len(work.seconds))
    widest = max(calibration.classes, key=lambda each: each.deviation).name
    variance = {each.name: each.deviation**2 for each in calibration.classes}
    names, blame = blame_in(work)
    widths: Floats = np.sqrt(blame @ np.array([variance[class_of.get(name, widest)] for name in names]))
    return widths / calibration.usual


def blame_in(work: OperatorWork) -> tuple[tuple[str, ...], Floats]:
    """Return the resources, and [operators, resources] by how much each limits, as ``models/clock.blame_of`` has it."""
    parts = np.column_stack([np.minimum(1.0, each.seconds / work.seconds) for each in work.resources])
    blame = np.column_stack([parts**BLAME_POWER, 1 - parts.max(axis=1)])
    shares: Floats = blame / blame.sum(axis=1, keepdims=True)
    return (*(each.name for each in work.resources), LATENCY), shares


def forecast_batch(
    operators: Sequence[Operator], batch: OperatorBatch, gpu: GPU, timing: Timing | None, level: float
) -> list[Prediction]:
    """Return the forecasts of the operators of a batch; raises MissingEvidenceError for a GPU that lacks a fact."""
    found = times_of(batch, gpu, timing, level)
    names = [*(each.name for each in found.resources), LATENCY]
    table = np.column_stack([each.seconds for each in found.resources])
    # What no resource explains is latency, or kernels that use none of them well.
    explained = table.max(axis=1) >= found.seconds / 2
    limits = np.where(explained, table.argmax(axis=1), len(names) - 1).tolist()
    beyond = (Caveat(CaveatKind.OPERATOR_BEYOND_MEASURED), *found.caveats)
    numbers = (found.seconds.tolist(), found.low.tolist(), found.high.tolist(), table.tolist(), limits)
    rows = zip(operators, *numbers, found.is_beyond.tolist(), strict=True)
    return [
        Prediction(
            kernel=operator.label or operator.text, launch=operator.index, gpu=gpu.name, gpu_id=gpu.id,
            seconds=seconds, low=low, high=high, level=level, timing=found.timing, limiter=names[limit],
            terms=tuple(Term(name, each) for name, each in zip(names[:-1], terms, strict=True)),
            caveats=beyond if is_beyond else found.caveats, model=OPERATORS_MODEL, count=operator.count,
        )
        for operator, seconds, low, high, terms, limit, is_beyond in rows
    ]  # fmt: skip
