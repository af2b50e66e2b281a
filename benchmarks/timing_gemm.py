"""The matrix product of CLBlast in many configurations, timed on three GPUs.

Data, read from ``../shared/data``: Kernel Tuner's results (MIT, benchmark_hub): OpenCL, FP32, three sides of 4096.
"""

from counter_cases import DATA
from timing_cases import (
    FOLDER,
    GPUS,
    Case,
    Measured,
    Row,
    launch_of,
    random_values,
    read_rows,
    seconds_of,
    spread_over,
    whole,
    zeros,
)  # fmt: skip

from kerncast.launch import Launch, Value
from kerncast.prediction import Timing

TIMES = DATA / "kernel_tuner_hub" / "gemm_kt2023.parquet"
SOURCE = FOLDER / "kernels" / "clblast_gemm.cu"
SIDE = 4096
_MACROS = ("MWG", "NWG", "KWG", "MDIMC", "NDIMC", "MDIMA", "NDIMB", "KWI", "VWM", "VWN", "STRM", "STRN", "SA", "SB")
#: The two Turing boards slow down during the 32 repetitions, by up to a fifth. The first one ran at one clock, and on
#: the third board, whose clock stays, it takes as long as the median.
TIME = "time_us_first"


def gemm(count: int | None) -> list[Case]:
    """Return configurations, spread over time, threads per block and outputs per thread, on all three GPUs."""
    by_config: dict[str, list[Row]] = {}
    for row in read_rows(TIMES):
        by_config.setdefault(str(row["config"]), []).append(row)
    return [
        case
        for rows in spread_over(list(by_config.values()), _shape, count, TIME)
        for case in Measured(
            "gemm",
            gemm_size(rows[0]),
            gemm_launch(rows[0]),
            tuple((GPUS[str(row["gpu"])], seconds_of(row, TIME)) for row in rows),
        ).cases("gemm", Timing.SINGLE)
    ]


def _shape(row: Row) -> tuple[int, int]:
    """Return the threads of a block and the outputs of a thread."""
    threads = whole(row, "p_MDIMC") * whole(row, "p_NDIMC")
    return threads, whole(row, "p_MWG") * whole(row, "p_NWG") // threads


def gemm_size(row: Row) -> str:
    """Say which configuration it is: tile, threads, threads that copy side by side, floats of a vector."""
    named = ("", "MWG", "NWG"), ("threads ", "MDIMC", "NDIMC"), ("copy ", "MDIMA", "NDIMB"), ("vectors ", "VWM", "VWN")
    pairs = (f"{name}{whole(row, f'p_{m}')}x{whole(row, f'p_{n}')}" for name, m, n in named)
    return " ".join([*pairs, *(name for name in ("SA", "SB", "STRM", "STRN") if whole(row, f"p_{name}"))])


def gemm_launch(row: Row, side: int = SIDE) -> Launch:
    """Return our equivalent of a configuration on square matrices."""
    macros = {name: whole(row, f"p_{name}") for name in _MACROS}
    values: dict[str, Value] = {
        "size_m": side, "size_n": side, "size_k": side, "alpha": 1.0, "beta": 1.0, "A": random_values(side, side),
        "B": random_values(side, side), "C": zeros(side, side), "offset_b": 0, "offset_c": 0,
    }  # fmt: skip
    shape = (side // macros["MWG"], side // macros["NWG"], 1), (macros["MDIMC"], macros["NDIMC"], 1)
    return launch_of(SOURCE, "clblast_gemm", shape, values, tuple((name, str(each)) for name, each in macros.items()))
