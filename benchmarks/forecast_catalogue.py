"""Forecast two examples on every GPU of the catalogue, and name those that stand out among their relatives.

saxpy moves 12 bytes per element: where DRAM limits it, time x sustained bandwidth is the same on all GPUs. matmul_tiled
does 2 x 1024^3 operations with two loads from shared memory for each fused multiply-add: within one generation its
share of the FP32 peak is the same.

python benchmarks/forecast_catalogue.py
"""

import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import kerncast
from kerncast.gpu import GPU, list_gpus
from kerncast.prediction import Prediction

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SAXPY_BYTES = 12 * 2**20
MATMUL_FLOPS = 2 * 1024**3
#: A GPU stands out beyond this factor of the median of those that the same resource limits.
MOST_FACTOR = 1.25
#: Of fewer relatives a median says little.
LEAST_RELATIVES = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One forecast, and the figure that should be like its relatives'."""

    gpu: GPU
    prediction: Prediction
    figure: float


def traffic(gpu: GPU, prediction: Prediction) -> float:
    """Return the bytes that DRAM could move in the time beyond the launch, over those that saxpy moves."""
    rate = gpu.dram_rate.bytes_per_s if gpu.dram_rate else gpu.dram_bytes_per_s
    launch = sum(term.seconds for term in prediction.terms if term.name == "launch")
    return (prediction.seconds - launch) * rate / SAXPY_BYTES


def share(gpu: GPU, prediction: Prediction) -> float:
    """Return the share of the FP32 peak."""
    return MATMUL_FLOPS / prediction.seconds / gpu.peak_fp32_flops_per_s


def rows(example: str, figure: Callable[[GPU, Prediction], float]) -> list[Row]:
    """Forecast an example on every GPU."""
    gpus = list_gpus()
    began = time.perf_counter()
    predictions = kerncast.predict(EXAMPLES / f"{example}.toml", gpus)
    seconds = time.perf_counter() - began
    print(f"\n{example}: {len(predictions)} of {len(gpus)} GPUs in {seconds:.1f} s\n")
    by_id = {gpu.id: gpu for gpu in gpus}
    return [Row(by_id[p.gpu_id], p, figure(by_id[p.gpu_id], p)) for p in predictions]


def print_groups(found: Sequence[Row], family_of: Callable[[Row], str], heading: str) -> int:
    """Print one line per family and those that stand out; returns how many do."""
    families: dict[str, list[Row]] = {}
    for row in found:
        families.setdefault(family_of(row), []).append(row)
    print(f"| {heading} | GPUs | lowest | median | highest | stand out |\n|---|---|---|---|---|---|")
    count = 0
    for name, members in families.items():
        figures = [row.figure for row in members]
        middle = statistics.median(figures)
        odd = [row for row in members if len(members) >= LEAST_RELATIVES and not _is_near(row.figure, middle)]
        count += len(odd)
        named = ", ".join(f"{row.gpu.id} {row.figure:.2f}" for row in odd)
        print(f"| {name} | {len(members)} | {min(figures):.2f} | {middle:.2f} | {max(figures):.2f} | {named} |")
    return count


def _is_near(figure: float, middle: float) -> bool:
    return middle / MOST_FACTOR <= figure <= middle * MOST_FACTOR


def main() -> int:
    """Print both tables; returns 1 where a GPU was refused or stands out where it should not."""
    saxpy = rows("saxpy", traffic)
    odd = print_groups(
        [r for r in saxpy if r.prediction.limiter == "dram"], lambda r: r.prediction.limiter, "saxpy limited by"
    )
    others = Counter(row.prediction.limiter for row in saxpy if row.prediction.limiter != "dram")
    print(f"\nlimited otherwise: {', '.join(f'{count} by {name}' for name, count in others.most_common())}")
    matmul = sorted(rows("matmul_tiled", share), key=lambda row: row.gpu.architecture.number)
    odd += print_groups(matmul, lambda r: f"{r.gpu.architecture.name}, {r.prediction.model}", "matmul_tiled on")
    refused = 2 * len(list_gpus()) - len(saxpy) - len(matmul)
    print(f"\n{refused} refused, {odd} stand out")
    return 1 if refused or odd else 0


if __name__ == "__main__":
    sys.exit(main())
