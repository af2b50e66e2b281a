"""Kernels of the RAJA Performance Suite, double precision, timed in four sizes and four block sizes on a V100 SXM2.

Data, read from ``../shared/data``: LLNL/thicket and thicket-tutorial (MIT). A repetition of the suite launches a kernel
once, several times alike, or several different kernels; of the last only the sum is known, and it is scored.
Left out are seven kernels whose repetition is not the time of kernels: REDUCE_SUM, REDUCE3_INT, TRAP_INT, INDEXLIST and
INDEXLIST_3LOOP copy a result back and wait for it (about 40 µs), HALOEXCHANGE launches 156 tiny kernels and shows the
rate of launches, HALOEXCHANGE_FUSED fills tables on the host between its two.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from counter_cases import DATA
from numpy.typing import NDArray
from timing_cases import FOLDER, Case, Row, array_file, launch_of, read_rows, seconds_of, spread, whole, zeros

from kerncast.launch import Argument, Buffer, Extent, Fill, Launch, Reference, Value
from kerncast.prediction import Timing

TIMES = DATA / "rajaperf_v100" / "times.parquet"
SOURCE = FOLDER / "kernels" / "rajaperf.cu"
GPU = "v100-sxm2-16gb"
#: Lists of zones are written here when they are first asked for.
LISTS = FOLDER.parent / "out" / "rajaperf"

#: Threads of a block of two dimensions along a row; coefficients of the filter; border of the zones' nodes, both sides.
_WIDTH, _TAPS, _BORDER = 32, 16, 4
_FACTOR, _TINY = 0.5, 1e-9

Part = tuple[str, tuple[Extent, Extent], Mapping[str, Value]]
"""kernel, grid and block, arguments"""


def rajaperf(count: int | None) -> list[Case]:
    """Return launches, or sums of several different ones: per kernel so many, spread over sizes and block sizes."""
    taken: dict[str, dict[tuple[int, int], list[Row]]] = {}
    for row in read_rows(TIMES):
        if not row["sync_in_rep"]:
            key = whole(row, "size_arg"), whole(row, "block")
            taken.setdefault(str(row["kernel"]), {}).setdefault(key, []).append(row)
    per_kernel = None if count is None else -(-count // max(1, len(taken)))
    return [
        _case(kernel, key, by_key[key])
        for kernel, by_key in taken.items()
        for key in spread(by_key, _place, per_kernel)
    ]


def _place(key: tuple[int, int]) -> tuple[int, int]:
    """Return a place in an order in which every fourth one has another size and another block."""
    size, block = key
    return size, int(math.log2(block) - math.log2(size)) % 4


def _case(kernel: str, key: tuple[int, int], rows: list[Row]) -> Case:
    size, block = key
    first, *others = rajaperf_launches(kernel, size, block)
    alike = whole(rows[0], "launches_per_rep") // (1 + len(others))
    seconds = median(seconds_of(row, "us_per_rep") for row in rows) / alike
    return Case("rajaperf", kernel, f"{size}, blocks of {block}", GPU, Timing.SERIES, first, seconds, tuple(others))


def rajaperf_launches(kernel: str, size: int, block: int) -> list[Launch]:
    """Return our equivalents of a kernel's launches, each once.

    All numbers are zeros where the original's are nearly constant; only ENERGY's take another path then.
    """
    parts = _SEVERAL[kernel](size, block) if kernel in _SEVERAL else [_vector(kernel, size, block)]
    launches = [launch_of(SOURCE, *part, (("BLOCK", str(block)),)) for part in parts]
    if kernel == "FIR":
        return [replace(launch, globals=(Argument("coefficients", _ones(_TAPS)),)) for launch in launches]
    return launches


def _vector(kernel: str, n: int, block: int) -> Part:
    """Return a kernel with one launch and one element of a vector per thread."""
    v, long = _numbers(n), _numbers(n + 12)
    factors: dict[str, Value] = {"q": _FACTOR, "r": _FACTOR, "t": _FACTOR}
    parts: dict[str, tuple[str, Mapping[str, Value]]] = {
        "MEMCPY": ("copy", {"to": v, "from": v, "n": n}),
        "COPY": ("copy", {"to": v, "from": v, "n": n}),
        "MUL": ("multiply", {"to": v, "from": v, "factor": _FACTOR, "n": n}),
        "ADD": ("add", {"sum": v, "a": v, "b": v, "n": n}),
        "DAXPY": ("daxpy", {"y": v, "x": v, "a": _FACTOR, "n": n}),
        "DAXPY_ATOMIC": ("daxpy_atomic", {"y": v, "x": v, "a": _FACTOR, "n": n}),
        "INIT_VIEW1D": ("init_view", {"a": v, "step": _FACTOR, "n": n}),
        "INIT_VIEW1D_OFFSET": ("init_view_offset", {"a": v, "step": _FACTOR, "first": 1, "end": n + 1}),
        "MULADDSUB": ("muladdsub", {"product": v, "sum": v, "difference": v, "a": v, "b": v, "n": n}),
        "EOS": ("eos", {"x": v, "y": v, "z": v, "u": long, **factors, "n": n}),
        "HYDRO_1D": ("hydro_1d", {"x": v, "y": v, "z": long, **factors, "n": n}),
        "TRIDIAG_ELIM": ("tridiag_elim", {"out": v, "in": v, "y": v, "z": v, "n": n}),
        "JACOBI_1D": ("jacobi_1d", {"to": v, "from": v, "n": n}),
        "FIR": ("fir", {"out": v, "in": v, "taps": _TAPS, "n": n - _TAPS}),
    }
    name, values = parts[kernel]
    return name, _line(n - _TAPS if kernel == "FIR" else n, block), values


def _gen_lin_recur(n: int, block: int) -> list[Part]:
    v = _numbers(n)
    values: Mapping[str, Value] = {"b5": v, "stb5": v, "sa": v, "sb": v, "shift": 0, "n": n}
    return [("gen_lin_recur_up", _line(n, block), values), ("gen_lin_recur_down", _line(n + 1, block), values)]


def _energy(n: int, block: int) -> list[Part]:
    """Return six launches; ``delvc`` is positive, which is the short way through three of them."""
    v, shape = _numbers(n), _line(n, block)
    delvc: Mapping[str, Value] = {"delvc": _ones(n)}
    p_new: Mapping[str, Value] = dict.fromkeys(("pbvc", "e_new", "v_new", "bvc", "p_new"), v)
    old: Mapping[str, Value] = dict.fromkeys(("p_old", "q_old"), v)
    halves: Mapping[str, Value] = dict.fromkeys(("p_half", "q_new"), v)
    limits: Mapping[str, Value] = {"cut": _TINY, "least": _TINY}
    slow: Mapping[str, Value] = dict.fromkeys(("ql_old", "qq_old"), v)
    second = dict.fromkeys(("q_new", "half_step", "p_half", "e_new", "bvc", "pbvc", "ql_old", "qq_old"), v)
    return [
        ("energy_1", shape, {"e_new": v, "e_old": v, **delvc, **old, "work": v, "n": n}),
        ("energy_2", shape, {**delvc, **second, "rho": _FACTOR, "n": n}),
        ("energy_3", shape, {"e_new": v, **delvc, **old, **halves, "n": n}),
        ("energy_4", shape, {"e_new": v, "work": v, **limits, "n": n}),
        ("energy_5", shape, {**delvc, **p_new, **slow, **old, **halves, "rho": _FACTOR, **limits, "n": n}),
        ("energy_6", shape, {**delvc, **p_new, "q_new": v, **slow, "rho": _FACTOR, "cut": _TINY, "n": n}),
    ]


def _zonal_accumulation(size: int, block: int) -> list[Part]:
    zones = cube_side(size)
    across = zones + _BORDER
    plane = across * across
    corners = (1, across, across + 1, plane, plane + 1, plane + across, plane + across + 1)
    nodes = _numbers(across * plane)
    values: dict[str, Value] = {"volume": nodes, "x0": nodes}
    values |= {f"x{corner}": Reference("x0", offset) for corner, offset in enumerate(corners, 1)}
    values |= {"zones": Buffer("i64", (zones**3,), Fill("file", path=_zone_list(zones, across))), "n": zones**3}
    return [("zonal_accumulation_3d", _line(zones**3, block), values)]


def cube_side(size: int) -> int:
    """Return the largest whole number whose cube is at most this.

    >>> cube_side(2**21), cube_side(2**21 - 1)
    (128, 127)
    """
    side: int = round(size ** (1 / 3))
    return side - (side**3 > size)


def _zone_list(zones: int, across: int) -> Path:
    """Return a file with the numbers of the inner zones, x fastest."""

    def inner() -> NDArray[np.int64]:
        axis = np.arange(_BORDER // 2, zones + _BORDER // 2, dtype=np.int64)
        return (axis[:, None, None] * across * across + axis[:, None] * across + axis).ravel()

    return array_file(LISTS / f"zones_{zones}.npy", inner)


def _mat_mat_shared(size: int, block: int) -> list[Part]:
    side, tile = math.isqrt(size), math.isqrt(block)
    square, blocks = _numbers(side, side), -(-side // tile)
    values: Mapping[str, Value] = {"n": side, "c": square, "a": square, "b": square}
    return [("mat_mat_shared", ((blocks, blocks, 1), (tile, tile, 1)), values)]


def _atax(size: int, block: int) -> list[Part]:
    n = _side(size)
    a, v, shape = _numbers(n, n), _numbers(n), _line(n, block)
    return [
        ("atax_1", shape, {"a": a, "x": v, "y": v, "product": v, "n": n}),
        ("atax_2", shape, {"a": a, "product": v, "y": v, "n": n}),
    ]


def _gemver(size: int, block: int) -> list[Part]:
    n = _side(size)
    a, v, shape = _numbers(n, n), _numbers(n), _line(n, block)
    return [
        ("gemver_1", _plane(n, block), {"a": a, "u1": v, "v1": v, "u2": v, "v2": v, "n": n}),
        ("gemver_2", shape, {"a": a, "x": v, "y": v, "beta": _FACTOR, "n": n}),
        ("gemver_3", shape, {"x": v, "z": v, "n": n}),
        ("gemver_4", shape, {"a": a, "x": v, "w": v, "alpha": _FACTOR, "n": n}),
    ]


def _fdtd_2d(size: int, block: int) -> list[Part]:
    n = _side(size)
    field, shape = _numbers(n, n), _plane(n, block)
    return [
        ("fdtd_2d_1", _line(n, block), {"ey": field, "fict": _numbers(40), "ny": n, "t": 0}),
        ("fdtd_2d_2", shape, {"ey": field, "hz": field, "nx": n, "ny": n}),
        ("fdtd_2d_3", shape, {"ex": field, "hz": field, "nx": n, "ny": n}),
        ("fdtd_2d_4", shape, {"hz": field, "ex": field, "ey": field, "nx": n, "ny": n}),
    ]


def _floyd_warshall(size: int, block: int) -> list[Part]:
    """Return the launch in the middle; they differ in a row and a column alone."""
    n = _side(size)
    square = _numbers(n, n)
    return [("floyd_warshall", _plane(n, block), {"out": square, "in": square, "k": n // 2, "n": n})]


_SEVERAL: Mapping[str, Callable[[int, int], list[Part]]] = {
    "GEN_LIN_RECUR": _gen_lin_recur, "ENERGY": _energy, "ZONAL_ACCUMULATION_3D": _zonal_accumulation,
    "MAT_MAT_SHARED": _mat_mat_shared, "ATAX": _atax, "GEMVER": _gemver, "FDTD_2D": _fdtd_2d,
    "FLOYD_WARSHALL": _floyd_warshall,
}  # fmt: skip


def _side(size: int) -> int:
    """Return the side of Polybench's squares."""
    return math.isqrt(size) + 1


def _line(threads: int, block: int) -> tuple[Extent, Extent]:
    return (-(-threads // block), 1, 1), (block, 1, 1)


def _plane(side: int, block: int) -> tuple[Extent, Extent]:
    height = block // _WIDTH
    return (-(-side // _WIDTH), -(-side // height), 1), (_WIDTH, height, 1)


def _numbers(*shape: int) -> Buffer:
    return zeros(*shape, element="f64")


def _ones(count: int) -> Buffer:
    return Buffer("f64", (count,), Fill("ones"))
