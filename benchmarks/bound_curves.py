"""Curves of a kernel's time over the number of TPCs, of every shape, with repeats; and curves from measured grids."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kerncast.measurements import CountFeatures, PartitionTimes
from kerncast.units import MICROSECOND

SIZES = (7, 20, 40)
CURVES_PER_SHAPE = 100
RUNS = 10
_SEED = 2
_MOST_WAVES = 20

Floats = npt.NDArray[np.float64]
Generator = np.random.Generator


@dataclass(frozen=True, slots=True)
class Drawn:
    """One curve: what was measured on each number of TPCs, and its shape."""

    shape: str
    tpcs: int
    """of the whole GPU"""
    times: PartitionTimes


def _ideal(_: Generator, k: Floats) -> Floats:
    return 1 / k


def _affine(draw: Generator, k: Floats) -> Floats:
    serial = 10 ** draw.uniform(-3, np.log10(0.5))
    return np.asarray(serial + (1 - serial) / k)


def _saturating(draw: Generator, k: Floats) -> Floats:
    return np.asarray(np.maximum(1 / k, 1 / draw.uniform(2, k[-1])))


def _smoothly_saturating(draw: Generator, k: Floats) -> Floats:
    power = draw.uniform(1.5, 8)
    return np.asarray((k**-power + draw.uniform(2, k[-1]) ** -power) ** (1 / power))


def _staircase(draw: Generator, k: Floats) -> Floats:
    blocks = _blocks(draw, k)
    return np.asarray(np.ceil(blocks / k) / blocks)


def _staircase_with_overhead(draw: Generator, k: Floats) -> Floats:
    return _staircase(draw, k) + 10 ** draw.uniform(-2, 0)


def _one_wave(_: Generator, k: Floats) -> Floats:
    return np.asarray(np.ceil(k[-1] / k) / k[-1])


def _uneven_blocks(draw: Generator, k: Floats) -> Floats:
    count = int(_blocks(draw, k))
    durations = draw.lognormal(0, draw.uniform(0.1, 1), count)
    return np.array([list_schedule(durations, int(machines)) for machines in k])


def _blocks_of_two_sizes(draw: Generator, k: Floats) -> Floats:
    durations = draw.choice([1.0, 5.0], int(_blocks(draw, k)))
    return np.array([list_schedule(durations, int(machines)) for machines in k])


def _blocks(draw: Generator, k: Floats) -> float:
    return float(int(10 ** draw.uniform(np.log10(2), np.log10(_MOST_WAVES * k[-1]))))


def list_schedule(durations: Floats, machines: int) -> float:
    """Return when the last block ends, if each goes to the machine that is free first."""
    free = [0.0] * machines
    for duration in durations:
        heapq.heapreplace(free, free[0] + float(duration))
    return max(free)


SHAPES: dict[str, Callable[[Generator, Floats], Floats]] = {
    "1/k": _ideal,
    "affine in 1/k": _affine,
    "saturating": _saturating,
    "smoothly saturating": _smoothly_saturating,
    "staircase": _staircase,
    "staircase, overhead": _staircase_with_overhead,
    "staircase, one wave": _one_wave,
    "uneven blocks": _uneven_blocks,
    "blocks of two sizes": _blocks_of_two_sizes,
}


def _lognormal(draw: Generator, size: tuple[int, int]) -> Floats:
    return np.asarray(draw.lognormal(0, 0.02, size))


def _pareto(draw: Generator, size: tuple[int, int]) -> Floats:
    return np.asarray(1 + 0.01 * draw.pareto(2.5, size))


def _spikes(draw: Generator, size: tuple[int, int]) -> Floats:
    return np.asarray(draw.lognormal(0, 0.005, size) * np.where(draw.random(size) < 0.1, draw.uniform(1, 1.3, size), 1))


#: Ways in which ten repeats of any of the shapes differ.
NOISE: dict[str, Callable[[Generator, tuple[int, int]], Floats]] = {
    "repeats, lognormal 2 %": _lognormal,
    "repeats, Pareto 2.5": _pareto,
    "repeats, one in ten up to 30 % slower": _spikes,
}


def drawn_curves(tpcs: int, per_shape: int = CURVES_PER_SHAPE) -> Iterator[Drawn]:
    """Yield curves of each shape without noise, then of all shapes with each kind of repeats; seeded."""
    draw = np.random.default_rng((_SEED, tpcs))
    k = np.arange(1.0, tpcs + 1)
    for name, shape in SHAPES.items():
        for _ in range(per_shape):
            yield Drawn(name, tpcs, _times(_scaled(draw, shape(draw, k))[:, np.newaxis]))
    shapes = list(SHAPES.values())
    for name, noise in NOISE.items():
        for number in range(per_shape):
            curve = _scaled(draw, shapes[number % len(shapes)](draw, k))
            yield Drawn(name, tpcs, _times(curve[:, np.newaxis] * noise(draw, (tpcs, RUNS))))


def _scaled(draw: Generator, curve: Floats) -> Floats:
    return curve * 10 ** draw.uniform(-5, -1)


def _times(seconds: Floats) -> PartitionTimes:
    """Return runs of each count, a row each."""
    counts = np.repeat(np.arange(1, len(seconds) + 1), seconds.shape[1])
    return PartitionTimes(tuple(counts.tolist()), tuple(seconds.ravel().tolist()))


def weak_scaling_curves(
    folder: Path, kernel: tuple[str, int], statistic: str, features: tuple[str, ...] = ()
) -> Iterator[Drawn]:
    """Yield pseudo partition curves of a Tesla K40: N blocks on k of its SMs, read as N 15/k blocks on all 15.

    ``kernel`` is its name and the size of its input, ``statistic`` median or max, of ten runs, with
    features of one. A part of a GPU takes as long where blocks do not compete for memory. The grid is rounded up.
    """
    import pandas as pd  # noqa: PLC0415

    sms = 15
    name = "rodinia.parquet" if features else "rodinia_k40_repeats.parquet"
    table = pd.read_parquet(folder / name)
    table = table[(table["gpu"] == "Tesla-K40") & (table["kernel"] == kernel[0]) & (table["input_size_1"] == kernel[1])]
    table = table.drop_duplicates("grid_x").set_index("grid_x").sort_index()
    most = int(table.index.max())
    for fewest in (1, 2, 3):
        counts = range(fewest, sms + 1)
        for blocks in range(1, most * fewest // sms + 1):
            grids = [-(-blocks * sms // count) for count in counts]
            if not set(grids) <= set(table.index):
                continue
            rows = table.loc[grids]
            times = PartitionTimes(
                tuple(counts), tuple((rows[f"time_us_{statistic}"] * MICROSECOND).tolist()), features,
                tuple(
                    CountFeatures(count, tuple(map(float, row)))
                    for count, row in zip(counts, rows[list(features)].to_numpy(), strict=True)
                ) if features else (),
            )  # fmt: skip
            yield Drawn(f"{kernel[0]}, {blocks} blocks", sms, times)
