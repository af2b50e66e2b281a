"""Forecasts of operators: batches of one kind at a time, so that a table of many costs little more than one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kerncast.caveats import Caveat
from kerncast.errors import Refusal
from kerncast.forecast.compiled_launch import Progress
from kerncast.gpu import GPU
from kerncast.models.operators.forecasts import OPERATORS_MODEL, forecast_batch
from kerncast.models.operators.operator_work import OperatorCase, batches_of
from kerncast.operators import Operator
from kerncast.prediction import Prediction, Refused, Timing

__all__ = ["OPERATORS_MODEL", "OperatorForecast", "OperatorOptions", "forecast_operators"]


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """Options of a forecast of operators."""

    timing: Timing | None = None
    """how they are timed; None: as the data that their model was made from"""
    level: float = 0.9
    clock: str | float | None = None


@dataclass(frozen=True, slots=True)
class OperatorForecast:
    """The forecasts of operators, in their order, on one GPU after the other for each."""

    predictions: tuple[Prediction, ...]
    cases: tuple[OperatorCase, ...]
    refused: tuple[Refused, ...]
    first_refusal: Refusal | None


def forecast_operators(
    operators: Sequence[Operator],
    gpus: Sequence[tuple[GPU, tuple[Caveat, ...]]],
    options: OperatorOptions,
    progress: Progress | None = None,
) -> OperatorForecast:
    """Forecast operators on GPUs; what a GPU or the data do not cover is refused by name."""
    found: dict[tuple[int, int], tuple[Prediction, OperatorCase]] = {}
    refused: list[Refused] = []
    first: Refusal | None = None
    batches = batches_of(operators)
    for number, (named, assumed) in enumerate(gpus):
        gpu = named if options.clock is None else named.at_clock(options.clock)
        for done, (batch, places) in enumerate(batches):
            if progress:
                progress(f"forecasting {batch.kind.name} on {gpu.name}", number * len(batches) + done,
                         len(gpus) * len(batches))  # fmt: skip
            own = [operators[place] for place in places]
            try:
                predictions = forecast_batch(own, batch, gpu, options.timing, options.level)
            except Refusal as refusal:
                first = first or refusal
                refused += [Refused(each.text, each.index, gpu.name, str(refusal)) for each in own]
                continue
            for place, prediction in zip(places, predictions, strict=True):
                found[place, number] = _noted(prediction, assumed), OperatorCase(operators[place], gpu)
    ordered = [found[key] for key in sorted(found)]
    return OperatorForecast(
        tuple(prediction for prediction, _ in ordered), tuple(case for _, case in ordered), tuple(refused), first
    )


def _noted(prediction: Prediction, assumed: tuple[Caveat, ...]) -> Prediction:
    return replace(prediction, caveats=(*assumed, *prediction.caveats)) if assumed else prediction
