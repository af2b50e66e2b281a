"""Launches that others have timed and profiled on several GPUs: from each run the time on the others is projected.

Data, read from ``../shared/data``: gpuperfpredict (Amaris et al., CC BY 4.0; nvprof on Kepler and Maxwell) and the
Kernel Tuning Toolkit's convolution (MIT; Nsight Compute's counters on an RTX 2080 Ti, times on that and an RTX 3090).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from counter_cases import DATA, VECMAT, convolution_case, vecmat_launch
from timing_cases import (
    GPUS,
    MOST_ELEMENTS,
    RODINIA,
    Row,
    read_rows,
    rodinia_launch,
    seconds_of,
    spread,
    whole,
)  # fmt: skip
from timing_cases import VECMAT as VECMAT_TIMES

from kerncast.launch import Launch

KTT = DATA / "ktt_counters" / "projection_2080Ti_to_targets.parquet"
#: Seconds; in shorter runs the launch itself and the clock's resolution show.
LEAST_SOURCE_SECONDS = 20e-6
_TIME = "time_us_median"
#: Writes to DRAM that differ from those to L2 by more are a unit mistaken by 1000: rodinia has a few.
_PLAUSIBLE = 30.0


@dataclass(frozen=True, slots=True)
class Run:
    """One launch on one GPU."""

    gpu: str
    seconds: float
    counters: Row | None
    """as the data names them; None where only the time is known: then it is only projected to"""


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch with its runs on several GPUs."""

    set: str
    kernel: str
    size: str
    launch: Launch
    """our equivalent, for what the counters lack"""
    runs: tuple[Run, ...]


def rodinia(count: int | None) -> list[Launched]:
    """Return Rodinia's backprop and lud: of each kernel as many launches, spread over their sizes."""
    taken: dict[str, dict[tuple[int, int], list[Row]]] = {}
    for row in read_rows(RODINIA):
        key = (whole(row, "input_size_1"), whole(row, "grid_x"))
        taken.setdefault(str(row["kernel"]), {}).setdefault(key, []).append(row)
    found = []
    for kernel, launches in taken.items():
        for key in spread(launches, lambda key: (key[1], key[0]), _per_kernel(count, taken)):
            name, launch = rodinia_launch(kernel, *key)
            runs = [Run(GPUS[str(row["gpu"])], seconds_of(row, _TIME), with_writes(row)) for row in launches[key]]
            found.append(Launched("rodinia", name, f"{key[0]}, {launch.blocks} blocks", launch, _first_runs(runs)))
    return found


def with_writes(row: Row) -> Row:
    """Return a row with the writes to DRAM, of which it has only the rate: reads times the ratio of both rates.

    Counters come from replays that take longer than the timed run, so rate times time would be too little.

    >>> row = {"device_memory_read_transactions": 100.0, "device_memory_read_throughput": 2.0,
    ...        "device_memory_write_throughput": 1.0, "l2_write_transactions": 40.0}
    >>> with_writes(row)["device_memory_write_transactions"]
    50.0
    """
    read, l2 = _number(row, "device_memory_read_transactions"), _number(row, "l2_write_transactions")
    read_rate, write_rate = (_number(row, f"device_memory_{way}_throughput") for way in ("read", "write"))
    if read is None or l2 is None or write_rate is None or not read_rate:
        return row
    written = read * write_rate / read_rate
    if not l2 / _PLAUSIBLE <= written <= l2 * _PLAUSIBLE:
        return row
    return {**row, "device_memory_write_transactions": written}


def _number(row: Row, column: str) -> float | None:
    value = float(str(row[column]))
    return value if value == value else None  # noqa: PLR0124  not a number: not measured


def vecmat(count: int | None) -> list[Launched]:
    """Return vector and matrix kernels: of each as many launches, spread over block sizes and then over sizes."""
    counters = {_vecmat_key(row): row for row in read_rows(VECMAT) if not _is_other_program(row)}
    taken: dict[str, dict[tuple[int, int, int], list[Row]]] = {}
    for row in read_rows(VECMAT_TIMES):
        elements = whole(row, "input_size") ** (2 if str(row["app"]).startswith("mat") else 1)
        if _is_other_program(row) or elements > MOST_ELEMENTS:
            continue
        key = (whole(row, "block_x"), whole(row, "input_size"), whole(row, "grid_x"))
        taken.setdefault(str(row["app"]), {}).setdefault(key, []).append(row)
    found = []
    for app, launches in taken.items():
        for key in spread(launches, lambda key: key, _per_kernel(count, taken)):
            rows = launches[key]
            size = f"{key[1]}, {key[2]} blocks of {key[0]} x {whole(rows[0], 'block_y')}"
            runs = [Run(GPUS[str(row["gpu"])], seconds_of(row, _TIME), counters.get(_vecmat_key(row))) for row in rows]
            found.append(Launched("vecmat", app, size, vecmat_launch(rows[0]), _first_runs(runs)))
    return found


def _vecmat_key(row: Row) -> tuple[object, ...]:
    sizes = (whole(row, column) for column in ("input_size", "grid_x", "grid_y", "block_x", "block_y"))
    return (row["gpu"], row["app"], *sizes)


def _is_other_program(row: Row) -> bool:
    """Whether a row is of a program whose kernel has a further parameter."""
    return str(row["kernel"]).count("int, int") > (row["app"] == "subSeqMax")


def convolution(count: int | None) -> list[Launched]:
    """Return configurations of the Kernel Tuning Toolkit's convolution, spread over their time on the RTX 2080 Ti."""
    rows = [row for row in read_rows(KTT) if row["benchmark"] == "convolution" and whole(row, "p_PADDING") == 0]
    rows.sort(key=lambda row: (float(str(row[_KTT_TIMES["rtx-2080-ti"]])), str(row["config"])))
    found = []
    for _, row in spread(enumerate(rows), lambda item: (item[0],), count):
        case = convolution_case(row)
        runs = [
            Run(gpu, seconds_of(row, column), row if gpu == "rtx-2080-ti" else None)
            for gpu, column in _KTT_TIMES.items()
        ]
        found.append(Launched("convolution-ktt", "convolution", case.size, case.launch, tuple(runs)))
    return found


_KTT_TIMES = {"rtx-2080-ti": "ktt_time_us_RTX2080Ti", "rtx-3090": "ktt_time_us_RTX3090"}


def _per_kernel(count: int | None, kernels: Mapping[str, object]) -> int | None:
    return None if count is None else -(-count // max(1, len(kernels)))


def _first_runs(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return one run per GPU; of repeated rows the first counts."""
    found: dict[str, Run] = {}
    for run in runs:
        found.setdefault(run.gpu, run)
    return tuple(found.values())


#: Every set with the launches that a sample of it takes.
SETS: dict[str, tuple[Callable[[int | None], list[Launched]], int]] = {
    "rodinia": (rodinia, 100),
    "vecmat": (vecmat, 140),
    "convolution-ktt": (convolution, 60),
}


def read_cases(names: Iterable[str], sample: int | None, *, full: bool) -> list[Launched]:
    """Return the launches of some sets; ``sample`` of each instead of its own number."""
    found: list[Launched] = []
    for name in names:
        read, few = SETS[name]
        found += read(None if full else few if sample is None else sample)
    return found
