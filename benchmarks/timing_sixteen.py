"""Fifteen small kernels timed on three GPUs: vector operations, products, convolutions, reductions, atomics.

Data, read from ``../shared/data``: Debdeep23/Kernel_Performance_Prediction (numbers only). All buffers were zeros.
"""

from collections.abc import Mapping
from dataclasses import replace

from counter_cases import DATA
from timing_cases import SUITE, Case, Measured, Row, launch_of, read_rows, seconds_of, spread, whole, zeros

from kerncast.launch import Buffer, Extent, Launch, Value
from kerncast.prediction import Timing

TIMES = DATA / "sixteen_kernels" / "times.parquet"
_GPUS = {"TITAN V": "titan-v", "GeForce RTX 2080 Ti": "rtx-2080-ti", "GeForce RTX 4070": "rtx-4070"}
#: Seconds. Shorter series show the launch rate, not the kernel: on the RTX 4070 small launches of every kernel take 8.7
#: to 9.4 µs, whatever they do.
_LEAST_SECONDS = {"TITAN V": 5e-6, "GeForce RTX 2080 Ti": 5e-6, "GeForce RTX 4070": 9.5e-6}
_TIME = "time_us_mean"
_BINS, _STEP = 256, 0.0001
#: Their rows give one block per 256 elements, but each thread takes two: the second half of such a grid would find
#: nothing, and launching it alone takes longer than these times leave beside their DRAM traffic. So the grid is half.
_TWO_PER_THREAD = {"reduce_sum", "dot_product"}
_INSTANCES = {"matmul_tiled": "matmul_tiled<32>", "shared_transpose": "shared_transpose<32>"}


def sixteen(count: int | None) -> list[Case]:
    """Return launches with their times on each GPU, spread over kernels and sizes.

    The RTX 4070's rows of ``atomic_hotspot`` do not say how often each thread adds: they are left out.
    """
    taken: dict[tuple[str, Launch], list[Row]] = {}
    for row in read_rows(TIMES):
        kernel = str(row["kernel"])
        if seconds_of(row, _TIME) < _LEAST_SECONDS[str(row["gpu"])] or (
            kernel == "atomic_hotspot" and not whole(row, "iters")
        ):
            continue
        taken.setdefault((kernel, _launch(kernel, row)), []).append(row)
    chosen = spread(taken, lambda key: (key[0], key[1].blocks), count)
    return [case for key in chosen for case in _measured(*key, taken[key]).cases("sixteen", Timing.SERIES)]


def _measured(kernel: str, launch: Launch, rows: list[Row]) -> Measured:
    size = f"{whole(rows[0], 'N') or whole(rows[0], 'rows')}, {launch.blocks} blocks"
    if kernel == "atomic_hotspot":
        size += f", {whole(rows[0], 'iters')} times"
    return Measured(kernel, size, launch, tuple((_GPUS[str(row["gpu"])], seconds_of(row, _TIME)) for row in rows))


def _launch(kernel: str, row: Row) -> Launch:
    """Return our equivalent of a row; the suite's kernels are written from the same descriptions."""
    blocks, threads = whole(row, "grid_blocks"), whole(row, "threads_per_block")
    if kernel in _TWO_PER_THREAD:
        blocks = -(-blocks // 2)
    values = _values(kernel, row)
    shape: tuple[Extent, Extent] = ((blocks, 1, 1), (threads, 1, 1))
    if whole(row, "rows"):
        side = round(threads**0.5)
        across = -(-whole(row, "rows") // side)
        shape = ((across, across, 1), (side, side, 1))
    launch = launch_of(SUITE / f"{kernel}.cu", _INSTANCES.get(kernel, kernel), shape, values)
    if kernel in _TWO_PER_THREAD:
        return replace(launch, shared_bytes=4 * threads)
    return launch


def _values(kernel: str, row: Row) -> Mapping[str, Value]:
    """Return the arguments of a row's launch, in the order of the kernel's parameters."""
    n, rows, blocks = whole(row, "N"), whole(row, "rows"), whole(row, "grid_blocks")
    vector, square = zeros(n), zeros(rows, rows)
    values: dict[str, Mapping[str, Value]] = {
        "vector_add": {"A": vector, "B": vector, "C": vector, "n": n},
        "saxpy": {"n": n, "a": 2.0, "x": vector, "y": vector},
        "strided_copy_8": {"source": vector, "target": vector, "n": n},
        "naive_transpose": {"A": square, "B": square, "rows": rows, "columns": rows},
        "shared_transpose": {"A": square, "B": square, "rows": rows, "columns": rows},
        "matmul_naive": {"A": square, "B": square, "C": square, "size": rows},
        "matmul_tiled": {"A": square, "B": square, "C": square, "size": rows},
        "conv2d_3x3": _convolution(square, 3, rows),
        "conv2d_7x7": _convolution(square, 7, rows),
        "reduce_sum": {"values": vector, "partial": zeros(blocks), "n": n},
        "dot_product": {"A": vector, "B": vector, "partial": zeros(blocks), "n": n},
        "histogram": {"values": zeros(n, element="u32"), "counts": zeros(_BINS, element="u32"), "n": n},
        "atomic_hotspot": {"counter": zeros(1, element="u32"), "repeats": whole(row, "iters")},
        "random_access": {"source": vector, "indices": zeros(n, element="i32"), "target": vector, "n": n},
        "vector_add_divergent": {"A": vector, "B": vector, "C": vector, "step": _STEP, "n": n},
    }
    return values[kernel]


def _convolution(square: Buffer, width: int, rows: int) -> Mapping[str, Value]:
    return {
        "image": square, "weights": zeros(width, width), "filtered": square, "height": rows, "width": rows,
    }  # fmt: skip
