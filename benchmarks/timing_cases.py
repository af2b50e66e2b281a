"""Launches whose times others have measured, with equivalents of their kernels: the sets, and which rows are taken.

Data, read from ``../shared/data``: gpuperfpredict (Amaris et al., CC BY 4.0), Kernel Tuner's and the Kernel Tuning
Toolkit's results (MIT, benchmark_hub). Which clock each GPU ran at is said in ``timing_clocks.csv``, with evidence.
"""

import csv
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from pathlib import Path
from typing import TypeVar

import numpy as np
from counter_cases import DATA, vecmat_launch
from numpy.typing import NDArray

from kerncast.bench import KERNELS
from kerncast.launch import Argument, Buffer, Extent, Fill, Launch, Value
from kerncast.prediction import Timing
from kerncast.units import MICROSECOND

FOLDER = Path(__file__).parent
SUITE = KERNELS / "suite"
VECMAT = DATA / "gpuperfpredict" / "vecmat_times.parquet"
RODINIA = DATA / "gpuperfpredict" / "rodinia.parquet"
RODINIA_K40 = DATA / "gpuperfpredict" / "rodinia_k40_repeats.parquet"

#: As the data names them.
GPUS = {
    "Tesla-K20": "k20", "Tesla-K40": "k40", "Titan": "gtx-titan", "TitanBlack": "gtx-titan-black",
    "GTX-680": "gtx-680", "GTX-750": "gtx-750", "GTX-980": "gtx-980", "GeForce GTX 1070": "gtx-1070",
    "GeForce RTX 2080 Ti": "rtx-2080-ti", "NVIDIA GeForce RTX 2080 Ti": "rtx-2080-ti", "NVIDIA TITAN RTX": "titan-rtx",
    "GeForce RTX 3090": "rtx-3090", "NVIDIA GeForce RTX 3090": "rtx-3090",
    "NVIDIA RTX A4000": "rtx-a4000", "NVIDIA RTX A6000": "rtx-a6000",
}  # fmt: skip
#: Larger ones need more memory than they tell about time.
MOST_ELEMENTS = 2**26
_MEDIAN = "time_us_median"
_SEED, _TIME_BINS = 20260101, 10
_HIDDEN, _TILE, _PARTICLES = 16, 16, 100

Row = Mapping[str, object]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    """One launch on one GPU, or several in a row, and how long it took."""

    set: str
    kernel: str
    """the family that is left out together"""
    size: str
    gpu: str
    timing: Timing
    launch: Launch
    seconds: float
    """median of the repetitions"""
    others: tuple[Launch, ...] = ()
    """launches of other kernels whose times are in ``seconds``, too"""

    @property
    def launches(self) -> tuple[Launch, ...]:
        """All launches that the time is the sum of."""
        return (self.launch, *self.others)


@dataclass(frozen=True, slots=True)
class Measured:
    """One launch with its times on several GPUs."""

    kernel: str
    size: str
    launch: Launch
    times: tuple[tuple[str, float], ...]
    """(GPU, seconds)"""

    def cases(self, of: str, timing: Timing) -> Iterator[Case]:
        """Return a case per GPU."""
        for gpu, seconds in self.times:
            yield Case(of, self.kernel, self.size, gpu, timing, self.launch, seconds)


def spread(items: Iterable[T], key: Callable[[T], tuple[object, ...]], count: int | None) -> list[T]:
    """Return so many items from all along their order by key: each stratum in proportion to its size.

    Places follow van der Corput's sequence in base 2, so that a smaller sample is part of a larger one.
    """
    ordered = sorted(items, key=key)
    wanted = len(ordered) if count is None else min(count, len(ordered))
    places: dict[int, None] = {}
    for number in count_from():
        if len(places) == wanted:
            return [ordered[place] for place in sorted(places)]
        places[int(_van_der_corput(number) * len(ordered))] = None
    raise AssertionError


def spread_over(
    configs: list[list[Row]], shape: Callable[[Row], tuple[int, ...]], count: int | None, column: str = _MEDIAN
) -> list[list[Row]]:
    """Return so many configurations, spread over tenths of their times, then over powers of two in their shapes."""
    order = random.Random(_SEED)  # noqa: S311  a sample, no secret
    ranked = sorted(configs, key=lambda rows: (seconds_of(rows[0], column), str(rows[0]["config"])))
    keys = {
        str(rows[0]["config"]): (
            rank * _TIME_BINS // len(ranked),
            *(int(math.log2(number)) for number in shape(rows[0])),
            order.random(),
        )
        for rank, rows in enumerate(ranked)
    }
    return spread(ranked, lambda rows: keys[str(rows[0]["config"])], count)


def _van_der_corput(number: int) -> float:
    """Return the number's binary digits mirrored at the point."""
    digits = f"{number:b}"
    return float(int(digits[::-1], 2) / 2 ** len(digits))


def vecmat(count: int | None) -> list[Case]:
    """Return vector and matrix kernels: per kernel so many launches, spread over block sizes and then over sizes."""
    taken: dict[str, dict[tuple[int, int, int], list[Row]]] = {}
    for row in read_rows(VECMAT):
        # Some runs have a matMul with a further parameter: another program.
        other = str(row["kernel"]).count("int, int") > (row["app"] == "subSeqMax")
        elements = whole(row, "input_size") ** (2 if str(row["app"]).startswith("mat") else 1)
        if other or elements > MOST_ELEMENTS:
            continue
        key = (whole(row, "block_x"), whole(row, "input_size"), whole(row, "grid_x"))
        taken.setdefault(str(row["app"]), {}).setdefault(key, []).append(row)
    per_kernel = None if count is None else -(-count // max(1, len(taken)))
    found: list[Case] = []
    for app, launches in taken.items():
        for key in spread(launches, lambda key: key, per_kernel):
            rows = launches[key]
            block = f"{key[0]} x {whole(rows[0], 'block_y')}"
            size = f"{key[1]}, {key[2]} blocks of {block}" if app == "dotProd" else f"{key[1]}, blocks of {block}"
            found += Measured(app, size, vecmat_launch(rows[0]), _times(rows)).cases("vecmat", Timing.PROFILER)
    return found


def rodinia(count: int | None) -> list[Case]:
    """Return Rodinia kernels: per kernel so many launches, spread over their sizes."""
    taken: dict[str, dict[tuple[int, int], list[Row]]] = {}
    k40_only = {"lud_internal", "kernel_gpu_cuda"}
    rows = [*read_rows(RODINIA), *(row for row in read_rows(RODINIA_K40) if row["kernel"] in k40_only)]
    for row in rows:
        if row["kernel"] == "kernel_gpu_cuda" and whole(row, "grid_x") > _MOST_BOXES:
            continue
        key = (whole(row, "input_size_1"), whole(row, "grid_x"))
        taken.setdefault(str(row["kernel"]), {}).setdefault(key, []).append(row)
    per_kernel = None if count is None else -(-count // max(1, len(taken)))
    found: list[Case] = []
    for kernel, launches in taken.items():
        for key in spread(launches, lambda key: (key[1], key[0]), per_kernel):
            name, launch = rodinia_launch(kernel, *key)
            size = f"{key[0]}, {launch.blocks} blocks"
            found += Measured(name, size, launch, _times(launches[key])).cases("rodinia", Timing.PROFILER)
    return found


#: Boxes of lavaMD; larger launches last for seconds and differ from these in nothing but their number of waves.
_MOST_BOXES = 32**3


def rodinia_launch(kernel: str, size: int, grid: int) -> tuple[str, Launch]:
    """Return our equivalent of a launch, by its input size and grid; lud's grid says how far the decomposition is."""
    if kernel.startswith("bpnn"):
        name = "backprop_layerforward" if "forward" in kernel else "backprop_adjust_weights"
        return name, _backprop(name, size)
    if kernel.startswith("lud"):
        # The diagonal's time does not tell its offset: the one in the middle stands for all.
        offset = size // 2 if kernel == "lud_diagonal" else size - _TILE * (grid + 1)
        blocks: Extent = (grid, grid, 1) if kernel == "lud_internal" else (grid, 1, 1)
        threads: Extent = {"lud_diagonal": (16, 1, 1), "lud_perimeter": (32, 1, 1)}.get(kernel, (16, 16, 1))
        values: dict[str, Value] = {"matrix": random_values(size, size), "size": size, "offset": offset}
        return kernel, launch_of(SUITE / "lud.cu", kernel, (blocks, threads), values, (("FAST_DIVISION", "1"),))
    boxes = round(grid ** (1 / 3))
    values = {
        "box_number": Buffer("i32", (grid,), Fill("iota")),
        "positions": Buffer("f64", (grid, _PARTICLES, 4), Fill("random")),
        "charges": Buffer("f64", (grid, _PARTICLES), Fill("random")),
        "forces": Buffer("f64", (grid, _PARTICLES, 4), Fill("zeros")),
        "alpha": 0.5, "boxes_x": boxes, "boxes_y": boxes, "boxes_z": boxes,
    }  # fmt: skip
    return "lavamd_forces", launch_of(SUITE / "lavamd.cu", "lavamd_forces", ((grid, 1, 1), (128, 1, 1)), values)


def _backprop(kernel: str, size: int) -> Launch:
    weights = random_values(size + 1, _HIDDEN + 1)
    values: dict[str, Value]
    if kernel == "backprop_layerforward":
        sums = Buffer("f32", (size // _TILE, _HIDDEN), Fill("zeros"))
        values = {"input": random_values(size + 1), "weights": weights, "partial_sums": sums, "hidden": _HIDDEN}
    else:
        values = {
            "delta": random_values(_HIDDEN + 1), "hidden": _HIDDEN, "layer": random_values(size + 1),
            "weights": weights, "previous": weights,
        }  # fmt: skip
    return launch_of(SUITE / "backprop.cu", kernel, ((1, size // _TILE, 1), (_HIDDEN, _TILE, 1)), values)


def launch_of(
    source: Path,
    kernel: str,
    shape: tuple[Extent, Extent],
    values: Mapping[str, Value],
    defines: tuple[tuple[str, str], ...] = (),
) -> Launch:
    """Return a launch of some shape, grid and block, with named arguments."""
    arguments = tuple(Argument(name, value) for name, value in values.items())
    return Launch(source, kernel, *shape, arguments=arguments, defines=defines)


def array_file(file: Path, values: Callable[[], NDArray[np.generic]]) -> Path:
    """Return a file of numbers that no fill describes, written when it is first asked for."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, values())
    return file


def random_values(*shape: int) -> Buffer:
    """Return a buffer of random numbers."""
    return Buffer("f32", shape, Fill("random"))


def zeros(*shape: int, element: str = "f32") -> Buffer:
    """Return a buffer of zeros."""
    return Buffer(element, shape, Fill("zeros"))


def whole(row: Row, column: str) -> int:
    """Return a whole number of a row."""
    return int(float(str(row[column])))


def seconds_of(row: Row, column: str = _MEDIAN) -> float:
    """Return a time of a row."""
    return float(str(row[column])) * MICROSECOND


def _times(rows: Sequence[Row]) -> tuple[tuple[str, float], ...]:
    """Return the time on each GPU; of repeated rows the first counts."""
    found: dict[str, float] = {}
    for row in rows:
        found.setdefault(GPUS[str(row["gpu"])], seconds_of(row))
    return tuple(found.items())


def read_rows(file: Path) -> list[Row]:
    """Read a table; none where it is not here."""
    if not file.exists():
        return []
    import pandas as pd  # noqa: PLC0415  only the comparisons need it

    rows: list[Row] = pd.read_parquet(file).to_dict("records")
    return rows


def read_clocks(file: Path = FOLDER / "timing_clocks.csv") -> dict[tuple[str, str], str | float]:
    """Return the clock of each set's GPUs: base, boost, default or hertz."""
    with file.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    return {(row["set"], row["gpu"]): float(row["clock"]) if row["clock"].isdigit() else row["clock"] for row in rows}
