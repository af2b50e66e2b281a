"""Score the source-only models on measured kernel times, beside the plainest baseline. Nothing is fitted.

Data: gpuperfpredict (Amaris et al., CC BY 4.0), exclusive durations of vector and matrix kernels on five GPUs, read
from ``../shared/data``. The kernels run here are equivalents written from the originals' names and signatures.
Prints a Markdown table: per kernel family and model the mean and median absolute percentage error, the geometric
mean of forecast over measurement, and how often the 90 % interval holds the measurement.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import kerncast
from kerncast.launch import Argument, Buffer, Fill, Launch
from kerncast.models import model_named
from kerncast.models.base import Question
from kerncast.prediction import Prediction, Timing
from kerncast.units import MICROSECOND

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data" / "gpuperfpredict" / "vecmat_times.parquet"
SOURCE = Path(__file__).parent / "kernels" / "vecmat.cu"

GPUS = {
    "Tesla-K20": "k20",
    "Tesla-K40": "k40",
    "TitanBlack": "gtx-titan-black",
    "GTX-680": "gtx-680",
    "GTX-980": "gtx-980",
}
VECTOR_SIZES = (131072, 1048576, 16777216)
MATRIX_SIZES = (256, 512, 1024, 2048)
FAMILIES = {
    "vectorAdd": VECTOR_SIZES, "matrix_sum_coalesced": MATRIX_SIZES, "matMul_gpu": MATRIX_SIZES,
    "matMul_gpu_uncoalesced": MATRIX_SIZES, "matMul_gpu_sharedmem": MATRIX_SIZES,
}  # fmt: skip
MODELS = ("template", "roofline")


@dataclass(frozen=True, slots=True)
class Scored:
    """One forecast beside its measurement."""

    family: str
    prediction: Prediction
    measured_seconds: float

    @property
    def log_ratio(self) -> float:
        """ln(forecast / measured)."""
        return float(np.log(self.prediction.seconds / self.measured_seconds))


def main() -> None:
    """Print the table and the worst forecasts."""
    if not DATA.exists():
        sys.exit(f"skipped: the measurements are not here ({DATA.name} is read from ../shared/data)")
    scored = score(read_cases())
    print(table(scored))
    print()
    for model in MODELS:
        worst = sorted((s for s in scored if s.prediction.model == model), key=lambda s: -abs(s.log_ratio))[:5]
        print(f"Worst of {model}: " + "; ".join(describe(s) for s in worst))


def read_cases() -> list[dict[str, object]]:
    """Return the chosen rows: whole warps in x, one grid that covers the data once."""
    import pandas as pd  # noqa: PLC0415  only this study needs it

    frame = pd.read_parquet(DATA)
    frame = frame[frame["gpu"].isin(GPUS)]
    rows = []
    for row in frame.to_dict("records"):
        sizes = FAMILIES.get(row["app"], ())
        covered = row["grid_x"] * row["block_x"] == row["input_size"]
        if row["input_size"] in sizes and covered and row["kernel"].count("int") == 1:
            rows.append(row)
    return rows


def score(rows: list[dict[str, object]]) -> list[Scored]:
    """Forecast every row with every model; each launch is executed once per architecture."""
    profiles: dict[tuple[object, ...], kerncast.KernelProfile] = {}
    scored = []
    for number, row in enumerate(rows, 1):
        gpu = kerncast.load_gpu(GPUS[str(row["gpu"])])
        key = (row["app"], row["input_size"], row["block_x"], gpu.architecture.id)
        if key not in profiles:
            print(f"\r{number} of {len(rows)}", end="", file=sys.stderr, flush=True)
            profiles[key] = kerncast.profile(launch_of(row), gpu=gpu)
        for name in MODELS:
            found = model_named(name).predict(profiles[key], gpu, Question(Timing.PROFILER))
            scored.append(Scored(str(row["app"]), found, float(row["time_us_median"]) * MICROSECOND))  # type: ignore[arg-type]
    print("\r", end="", file=sys.stderr)
    return scored


def launch_of(row: dict[str, object]) -> Launch:
    """Return our equivalent of a measured launch."""
    numbers = {name: int(row[name]) for name in ("grid_x", "grid_y", "block_x", "block_y", "input_size")}  # type: ignore[call-overload]
    size = numbers["input_size"]
    is_vector = row["app"] == "vectorAdd"
    shape = (size,) if is_vector else (size, size)
    buffers = tuple(Argument(name, Buffer("f32", shape, Fill("zeros"))) for name in "abc")
    return Launch(
        source=SOURCE,
        kernel=str(row["app"]),
        grid=(numbers["grid_x"], numbers["grid_y"], 1),
        block=(numbers["block_x"], numbers["block_y"], 1),
        arguments=(*buffers, Argument("n" if is_vector else "size", size)),
        defines=(("TILE", str(numbers["block_x"])),) if row["app"] == "matMul_gpu_sharedmem" else (),
    )


def table(scored: list[Scored]) -> str:
    """Return the scores as a Markdown table."""
    lines = [
        "| family | model | n | MAPE | median APE | forecast / measured | in 90 % interval |",
        "|---|---|---|---|---|---|---|",
    ]
    for family in (*FAMILIES, "all"):
        for model in MODELS:
            chosen = [s for s in scored if s.prediction.model == model and family in {s.family, "all"}]
            errors = np.array([abs(np.expm1(s.log_ratio)) for s in chosen])
            inside = np.mean([s.prediction.low <= s.measured_seconds <= s.prediction.high for s in chosen])
            bias = np.exp(np.mean([s.log_ratio for s in chosen]))
            scores = f"{errors.mean():.0%} | {np.median(errors):.0%} | {bias:.2f} | {inside:.0%}"
            lines.append(f"| {family} | {model} | {len(chosen)} | {scores} |")
    return "\n".join(lines)


def describe(s: Scored) -> str:
    """Name a forecast and its error."""
    return f"{s.family} on {s.prediction.gpu} x{np.exp(s.log_ratio):.2g} ({s.prediction.limiter})"


if __name__ == "__main__":
    main()
