"""Launches whose hardware counters others have measured, with equivalents of their kernels.

Data, read from ``../shared/data``: gpuperfpredict (Amaris et al., CC BY 4.0; nvprof on Kepler and Maxwell), the Kernel
Tuning Toolkit's convolution and Coulomb sum (MIT; Nsight Compute on an RTX 2080 Ti) and gpuFLOPBench (MIT; Nsight
Compute on an RTX 3080, HeCBench programs). ``kernels/`` holds the equivalents, written for this comparison.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hecbench_launches import LAUNCHES

from kerncast.launch import Argument, Buffer, Fill, Launch, Value
from kerncast.units import GIGA

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).parent
DATA = FOLDER.parent.parent / "shared" / "data"
VECMAT = DATA / "gpuperfpredict" / "vecmat_counters.parquet"
KTT = DATA / "ktt_counters" / "measurements.parquet"
FLOPBENCH = DATA / "gpuflopbench" / "rtx3080.parquet"

#: GPUs of gpuperfpredict; K20, K40 and Titan are left out: the same code as TITAN Black, the Teslas with ECC on.
VECMAT_GPUS = {"GTX-680": "gtx-680", "TitanBlack": "gtx-titan-black", "GTX-980": "gtx-980"}
#: All of them move at least twice what L2 holds: nvprof repeats a kernel without emptying L2, so that the counters of
#: smaller ones are those of a warm cache.
VECTOR_SIZES = (1_048_576, 16_777_216)
MATRIX_SIZES = (1024, 2048)
VECMAT_SIZES = {
    "vectorAdd": VECTOR_SIZES, "dotProd": VECTOR_SIZES, "subSeqMax": VECTOR_SIZES,
    "matrix_sum_coalesced": MATRIX_SIZES, "matMul_gpu": MATRIX_SIZES, "matMul_gpu_uncoalesced": MATRIX_SIZES,
    "matMul_gpu_sharedmem": MATRIX_SIZES,
}  # fmt: skip
#: Of the configurations in the order of the file, every how many are taken, and from which on.
CONVOLUTION_STEP, CONVOLUTION_START = 87, 20
COULOMB_STEP, COULOMB_START = 7, 0

_CONVOLUTION_MACROS = (
    "BLOCK_SIZE_X", "BLOCK_SIZE_Y", "TILE_SIZE_X", "TILE_SIZE_Y", "IMAGE_WIDTH", "IMAGE_HEIGHT", "HFS", "READ_ONLY",
)  # fmt: skip
_COULOMB_MACROS = ("Z_ITERATIONS", "INNER_UNROLL_FACTOR", "USE_SOA")
#: What the measured number of requests of the Coulomb sum says: 64 atoms in a cube of 256 points a side.
_ATOMS, _POINTS = 64, 256
#: Results that subSeqMax leaves per thread.
_RESULTS = 5
_SUBSEQ_BLOCKS = 32

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Case:
    """One launch and what a profiler counted in it."""

    source: str
    """where the counters come from, as ``counters.COUNTERS`` names it"""
    kernel: str
    """which kernel, without its size"""
    size: str
    gpu: str
    launch: Launch
    measured: tuple[tuple[str, float], ...]
    """counters as the data names them"""

    def counter(self, name: str) -> float | None:
        """Return a measured counter; None where it was not measured."""
        return dict(self.measured).get(name)


def read_cases() -> list[Case]:
    """Read all cases whose data is here, in a fixed order."""
    cases: list[Case] = []
    if VECMAT.exists():
        cases += vecmat_cases(_read(VECMAT).to_dict("records"))
    if KTT.exists():
        frame = _read(KTT)
        frame = frame[frame["gpu"] == "GeForce RTX 2080 Ti"]
        # The original never reads PADDING: both values are the same kernel.
        both = frame[(frame["benchmark"] == "convolution") & (frame["p_PADDING"] == 0)]
        cases += [convolution_case(row) for row in every(both, CONVOLUTION_STEP, CONVOLUTION_START)]
        cases += [
            coulomb_case(row) for row in every(frame[frame["benchmark"] == "coulomb3d"], COULOMB_STEP, COULOMB_START)
        ]
    if FLOPBENCH.exists():
        cases += hecbench_cases(_read(FLOPBENCH).to_dict("records"))
    return cases


def every(frame: "pd.DataFrame", step: int, start: int) -> list[Row]:
    """Return every ``step``-th row, from one on."""
    rows: list[Row] = frame.iloc[start::step].to_dict("records")
    return rows


def vecmat_cases(rows: Iterable[Row]) -> list[Case]:
    """Return one case per kernel, size, block and GPU, with the arguments that the measured program gives it."""
    seen: set[tuple[object, ...]] = set()
    cases = []
    for row in rows:
        app = str(row["app"])
        key = (row["gpu"], app, row["input_size"], row["block_x"])
        wanted = row["gpu"] in VECMAT_GPUS and row["input_size"] in VECMAT_SIZES.get(app, ())
        # Some runs have a matMul with a further parameter: another program.
        if key in seen or not wanted or str(row["kernel"]).count("int, int") > (app == "subSeqMax"):
            continue
        seen.add(key)
        size = f"{_number(row, 'input_size')} by {_number(row, 'block_x')}"
        source = "Maxwell" if row["gpu"] == "GTX-980" else "Kepler"
        cases.append(Case(source, app, size, VECMAT_GPUS[str(row["gpu"])], vecmat_launch(row), _counters(row)))
    return cases


def vecmat_launch(row: Row) -> Launch:
    """Return our equivalent of a launch of gpuperfpredict."""
    app, size = str(row["app"]), _number(row, "input_size")
    is_matrix = app.startswith("mat")
    defines: tuple[tuple[str, str], ...] = (("TILE", str(_number(row, "block_x"))),) if is_matrix else ()
    values: dict[str, Value]
    if app == "subSeqMax":
        per_block = size // _SUBSEQ_BLOCKS
        threads = _number(row, "grid_x") * _number(row, "block_x")
        values = {
            "values": Buffer("i32", (size,), Fill("randint", -1, 0)),
            "results": Buffer("i32", (_RESULTS * threads,), Fill("zeros")),
            "per_thread": per_block // _number(row, "block_x"),
            "per_block": per_block,
        }
    elif app == "dotProd":
        values = {"a": _zeros(size), "b": _zeros(size), "partial": _zeros(_number(row, "grid_x")), "n": size}
        defines = (("DOT_THREADS", str(_number(row, "block_x"))),)
    else:
        shape = (size, size) if is_matrix else (size,)
        values = {"a": _zeros(*shape), "b": _zeros(*shape), "c": _zeros(*shape), "n": size}
    return _launch("vecmat.cu", row, app, values, defines)


def convolution_case(row: Row) -> Case:
    """Return one configuration of the convolution."""
    macros = _macros(row, _CONVOLUTION_MACROS)
    sizes = dict(macros)
    width, height = int(sizes["IMAGE_WIDTH"]), int(sizes["IMAGE_HEIGHT"])
    border = 2 * int(sizes["HFS"])
    values: dict[str, Value] = {
        "output": _zeros(height, width),
        "input": _zeros(height + border, width + border),
        "filter": _zeros(border + 1, border + 1),
    }
    launch = _launch("ktt_convolution.cu", row, "Convolution", values, macros)
    size = "x".join(value for _, value in macros[:4]) + (" read-only" if sizes["READ_ONLY"] == "1" else "")
    return Case("Turing convolution", "Convolution", size, "rtx-2080-ti", launch, _counters(row))


def coulomb_case(row: Row) -> Case:
    """Return one configuration of the direct Coulomb sum."""
    macros = _macros(row, _COULOMB_MACROS)
    values: dict[str, Value] = {
        "atoms": Buffer("f32", (4 * _ATOMS,), Fill("random")),
        **{name: Buffer("f32", (_ATOMS,), Fill("random")) for name in ("atomX", "atomY", "atomZ", "atomCharge")},
        "count": _ATOMS,
        "spacing": 0.5,
        "size": _POINTS,
        "energy": _zeros(_POINTS, _POINTS, _POINTS),
    }
    launch = _launch("ktt_coulomb3d.cu", row, "directCoulombSum", values, macros)
    size = f"{launch.block[0]}x{launch.block[1]} " + " ".join(f"{name}={value}" for name, value in macros)
    return Case("Turing coulomb", "directCoulombSum", size, "rtx-2080-ti", launch, _counters(row))


def hecbench_cases(rows: Iterable[Row]) -> list[Case]:
    """Return the first profiled launch of each HeCBench kernel that has an equivalent here."""
    cases, seen = [], set()
    for row in rows:
        program, kernel = str(row["targetName"]).removesuffix("-cuda"), str(row["kernelName"])
        launch = LAUNCHES.get((program, kernel))
        if launch is None or (program, kernel) in seen or _extents(row) != (launch.grid, launch.block):
            continue
        seen.add((program, kernel))
        seconds = float(str(row["time_ns"])) / GIGA
        measured = {
            "fp32_flops": float(str(row["spPerf"])) * seconds,
            "fp64_flops": float(str(row["dpPerf"])) * seconds,
            "integer": float(str(row["intops"])),
            "dram_bytes": float(str(row["traffic"])) * seconds,
        }
        cases.append(
            Case("Ampere", f"{program} {kernel}", str(row["exeArgs"]), str(RTX_3080), launch, tuple(measured.items()))
        )
    return cases


#: The GPU of gpuFLOPBench, which kerncast itself does not know.
RTX_3080 = FOLDER / "gpus" / "rtx-3080.toml"


def _extents(row: Row) -> tuple[tuple[int, ...], tuple[int, ...]]:
    grid, block = (
        tuple(int(part) for part in str(row[column]).strip("()").split(",")) for column in ("Grid Size", "Block Size")
    )
    return grid, block


def _launch(
    source: str, row: Row, kernel: str, values: Mapping[str, Value], defines: tuple[tuple[str, str], ...]
) -> Launch:
    x, y, z = (_number(row, f"grid_{axis}") for axis in "xyz")
    threads_x, threads_y, threads_z = (_number(row, f"block_{axis}") for axis in "xyz")
    return Launch(
        source=FOLDER / "kernels" / source,
        kernel=kernel,
        grid=(x, y, z),
        block=(threads_x, threads_y, threads_z),
        arguments=tuple(Argument(name, value) for name, value in values.items()),
        defines=defines,
    )


def _macros(row: Row, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(_number(row, f"p_{name}"))) for name in names)


def _zeros(*shape: int) -> Buffer:
    return Buffer("f32", shape, Fill("zeros"))


def _counters(row: Row) -> tuple[tuple[str, float], ...]:
    """Return the numbers of a row that were measured."""
    return tuple((str(name), float(v)) for name, v in row.items() if isinstance(v, int | float) and math.isfinite(v))


def _number(row: Row, column: str) -> int:
    return int(float(str(row[column])))


def _read(file: Path) -> "pd.DataFrame":
    import pandas as pd  # noqa: PLC0415  only this comparison needs it

    return pd.read_parquet(file)
