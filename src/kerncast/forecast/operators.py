"""Forecasts of operators: batches of one kind at a time, so that a table of many costs little more than one."""

from collections.abc import Sequence
from dataclasses import replace

from kerncast.caveats import Caveat
from kerncast.errors import InputError, MissingEvidenceError, Refusal
from kerncast.forecast.asked import Forecast, Options
from kerncast.forecast.compiled_launch import Progress
from kerncast.gpu import GPU
from kerncast.models.operators.forecasts import OPERATORS_MODEL, forecast_batch
from kerncast.models.operators.operator_work import OperatorCase, batches_of
from kerncast.operators import Operator
from kerncast.prediction import Prediction, Refused, Timing
from kerncast.read.operator_files import OperatorTable


def forecast_operators(
    table: OperatorTable, gpus: Sequence[tuple[GPU, tuple[Caveat, ...]]], options: Options, progress: Progress | None
) -> Forecast:
    """Forecast the operators of a table on GPUs, in their order, on one GPU after the other for each.

    What a GPU or the data do not cover is refused by name; raises InputError for options that operators cannot use.
    """
    if options.model not in {None, OPERATORS_MODEL}:
        raise InputError(f"--model {options.model} times no operators", cure="Leave it out.")
    if options.measured:
        cure = "Leave --measured out, or give the kernel's source or times alone."
        raise InputError("measured times do not move forecasts of operators", cure=cure)
    for name, value in (("--source-gpu", options.reading.source_gpu), ("--source", options.reading.sources)):
        if value:
            raise InputError(f"forecasts of operators make no use of {name}", cure="Leave it out.")
    timing = options.operator_timing or (Timing.SERIES if table.is_model else None)
    found = _forecasts(table.operators, gpus, replace(options, operator_timing=timing), progress)
    first = MissingEvidenceError(table.refused[0].reason) if table.refused else found.first_refusal
    return replace(found, refused=(*table.refused, *found.refused), first_refusal=first)


def _forecasts(
    operators: Sequence[Operator],
    gpus: Sequence[tuple[GPU, tuple[Caveat, ...]]],
    options: Options,
    progress: Progress | None,
) -> Forecast:
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
                predictions = forecast_batch(own, batch, gpu, options.operator_timing, options.level)
            except Refusal as refusal:
                first = first or refusal
                refused += [Refused(each.text, each.index, gpu.name, str(refusal)) for each in own]
                continue
            for place, prediction in zip(places, predictions, strict=True):
                found[place, number] = _noted(prediction, assumed), OperatorCase(operators[place], gpu)
    ordered = [found[key] for key in sorted(found)]
    predicted, cases = tuple(prediction for prediction, _ in ordered), tuple(case for _, case in ordered)
    return Forecast(predicted, tuple(refused), cases, first)


def _noted(prediction: Prediction, assumed: tuple[Caveat, ...]) -> Prediction:
    return replace(prediction, caveats=(*assumed, *prediction.caveats)) if assumed else prediction
