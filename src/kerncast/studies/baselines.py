"""What a model has to beat: a constant, elapsed cycles by one factor, and scaling by SMs and clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kerncast.errors import GPUError
from kerncast.feature_table import FeatureTable, Floats
from kerncast.gpu import load_gpu
from kerncast.gpu_names import find_id
from kerncast.studies.recipes import Recipe
from kerncast.studies.splits import Fold

CONSTANT, CYCLES, CYCLES_PER_GPU, SM_CLOCK = "constant", "cycles", "cycles per GPU", "SMs x clock"
NAMES = (CONSTANT, CYCLES, CYCLES_PER_GPU, SM_CLOCK)


@dataclass(frozen=True, slots=True)
class Baseline:
    """Forecasts of a rule of thumb for the test part of a fold; NaN where it cannot tell."""

    name: str
    seconds: Floats


def baselines(table: FeatureTable, fold: Fold, recipe: Recipe) -> tuple[Baseline, ...]:
    """Return the rules of thumb that a fold allows.

    ``constant`` is the median time of the training part; ``cycles`` multiplies elapsed cycles by the median of time per
    cycle, ``cycles per GPU`` by that of the same GPU; ``SMs x clock`` takes the time of the same kernel in the same
    configuration on another GPU times the ratio of SMs times clock, the median where several were measured.
    """
    train, test = table.rows(fold.train), table.rows(fold.test)
    found = [Baseline(CONSTANT, np.full(len(test), np.median(train.seconds)))]
    cycles = next((n for n in (recipe.published[0].name, *recipe.published[0].also) if n in table.names), None)
    if cycles is not None:
        column = table.names.index(cycles)
        factors, counts = _per_cycle(train, column), test.values[:, column]
        pooled = factors.get("")
        if pooled is not None:
            found.append(Baseline(CYCLES, counts * pooled))
            own = np.array([factors.get(f"on {gpu}", np.nan) for gpu in test.gpus])
            if len(set(train.gpus)) > 1:
                found.append(Baseline(CYCLES_PER_GPU, counts * own))
    found.append(Baseline(SM_CLOCK, _scaled(train, test)))
    return tuple(each for each in found if np.isfinite(each.seconds).any())


def _per_cycle(train: FeatureTable, column: int) -> Mapping[str, float]:
    """Return the median of seconds per cycle: of all launches under an empty name, and of each GPU."""
    cycles = train.values[:, column]
    is_counted = cycles > 0
    if not is_counted.any():
        return {}
    ratio = train.seconds[is_counted] / cycles[is_counted]
    gpus = np.array(train.gpus)[is_counted]
    return {"": float(np.median(ratio))} | {f"on {gpu}": float(np.median(ratio[gpus == gpu])) for gpu in set(gpus)}


def _scaled(train: FeatureTable, test: FeatureTable) -> Floats:
    rates = {name: _sm_hz(name) for name in {*train.gpus, *test.gpus}}
    work: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for kernel, configuration, gpu, seconds in _rows(train):
        if rates[gpu]:
            work.setdefault((kernel, configuration), []).append((gpu, seconds * rates[gpu]))
    forecast = np.full(len(test), np.nan)
    for row, (kernel, configuration, gpu, _) in enumerate(_rows(test)):
        others = [cycles for other, cycles in work.get((kernel, configuration), ()) if other != gpu]
        if others and rates[gpu]:
            forecast[row] = float(np.median(others)) / rates[gpu]
    return forecast


def _rows(table: FeatureTable) -> Sequence[tuple[str, str, str, float]]:
    return list(zip(table.kernels, table.configurations, table.gpus, table.seconds.tolist(), strict=True))


def _sm_hz(name: str) -> float:
    """Return SMs times boost clock of a GPU, 0 where it is not known."""
    try:
        gpu = load_gpu(find_id(name)[0])
    except GPUError:
        return 0.0
    return gpu.sm_count * gpu.clock_hz
