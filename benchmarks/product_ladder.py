"""Forecast eight FP32 products, each one step from the last, on a GPU of each generation, with what the steps change.

Prints Markdown; ``docs/product-ladder.md`` explains it. Nothing is measured here.
"""

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import kerncast
from kerncast.forecast import profile_launch
from kerncast.gpu import load_gpu
from kerncast.launch import Argument, Buffer, Extent, Fill, Launch
from kerncast.metrics import metrics_of
from kerncast.prediction import Prediction
from kerncast.profiles import Count
from kerncast.units import MILLISECOND, PERCENT

SOURCE = Path(__file__).parent / "kernels" / "product_ladder.cu"
GPUS = ("V100 SXM2 16GB", "RTX 2080 Ti", "A100 SXM 40GB", "RTX 4090", "H100 SXM")
SIZE = 2048
_OPERATIONS_PER_STEP = 2
#: Heading, name and divisor of each count.
COUNTERS = (
    ("DRAM MB", "dram__bytes.sum", 1e6),
    ("L2 MB", "lts__t_bytes.sum", 1e6),
    ("L1 sectors, millions", "l1tex__t_sectors.sum", 1e6),
    ("L1 lines per load", "kerncast__lines_per_request_global_ld.ratio", 1),
    ("shared wavefronts, millions", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", 1e6),
    ("warp instructions, millions", "smsp__inst_executed.sum", 1e6),
    ("registers", "launch__registers_per_thread", 1),
    ("resident warps", "sm__maximum_warps_avg_per_active_cycle", 1),
    ("rounds of blocks", "launch__waves_per_multiprocessor", 1),
)
_BUSIEST = 3
_WORKING = "selected"
#: A count whose range is wider than this factor is shown as a range: a sample of the blocks does not settle it.
_WIDE = 2.0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the ladder: a kernel with its block."""

    name: str
    kernel: str
    tile: int
    """rows, and columns, of the results of a block"""
    block: Extent


STEPS = (
    Step("1 uncoalesced", "product_column", 32, (32, 32, 1)),
    Step("2 coalesced", "product_coalesced", 32, (32, 32, 1)),
    Step("3 shared tiles", "product_shared", 32, (32, 32, 1)),
    Step("4 thread tiles 8 x 1", "product_line", 64, (512, 1, 1)),
    Step("5 thread tiles 8 x 8", "product_square", 128, (256, 1, 1)),
    Step("6 float4", "product_float4", 128, (256, 1, 1)),
    Step("7 warp tiles", "product_warp", 128, (256, 1, 1)),
    Step("8 double buffering", "product_double", 128, (256, 1, 1)),
)


@dataclass(frozen=True, slots=True)
class Rung:
    """One step on one GPU: its forecast, and the counts that explain it."""

    step: Step
    size: int
    forecast: Prediction
    counts: Mapping[str, Count]
    resources: tuple[tuple[str, float], ...]
    """shares of the time that resources are busy, the busiest first"""
    stall: str
    """longest state of the warps that do not issue"""

    @property
    def peak_share(self) -> float:
        """Share of the FP32 peak at the clock of the forecast."""
        operations = _OPERATIONS_PER_STEP * self.size**3
        return operations / self.forecast.seconds / load_gpu(self.forecast.gpu_id).peak_fp32_flops_per_s


def main() -> None:
    """Forecast each step on each GPU, print the tables."""
    asked = _arguments()
    with ProcessPoolExecutor(asked.jobs) as pool:
        by_step = list(pool.map(rungs_of, STEPS, [asked.size] * len(STEPS)))
    by_gpu = {rungs[0].forecast.gpu: rungs for rungs in zip(*by_step, strict=True)}
    print(f"# C = A B in FP32, {asked.size} x {asked.size}: forecasts, nothing measured\n")
    print("\n".join(speedup_table(by_gpu)))
    for name, rungs in by_gpu.items():
        print(f"\n## {name}\n")
        print("\n".join((*time_table(rungs), "", *counter_table(rungs))))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=SIZE, help="rows and columns, a multiple of 128")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    return parser.parse_args()


def ladder_launch(step: Step, size: int) -> Launch:
    """Return the launch of a step on random matrices."""
    given, result = (Buffer("f32", (size, size), Fill(kind)) for kind in ("random", "zeros"))
    blocks = size // step.tile
    arguments = (Argument("A", given), Argument("B", given), Argument("C", result), Argument("size", size))
    return Launch(SOURCE, step.kernel, (blocks, blocks, 1), step.block, arguments=arguments)


def rungs_of(step: Step, size: int) -> list[Rung]:
    """Return a step on each GPU."""
    launch = ladder_launch(step, size)
    return [_rung(step, size, forecast) for forecast in kerncast.predict(launch, GPUS)]


def _rung(step: Step, size: int, forecast: Prediction) -> Rung:
    gpu = load_gpu(forecast.gpu_id)
    profile = profile_launch(ladder_launch(step, size), gpu)
    counts = {each.name: each.count for each in metrics_of(profile, gpu)}
    states = profile.warp_states
    resources = tuple((each.resource, each.share) for each in states.resources) if states else ()
    stalls = [each for each in states.states if each.state != _WORKING] if states else []
    stall = max(stalls, key=lambda each: each.warp_cycles).state if stalls else "unknown"
    return Rung(step, size, forecast, counts, resources, stall)


def speedup_table(by_gpu: Mapping[str, Sequence[Rung]]) -> list[str]:
    """Return the lines of a table with the speed-up of each step over the one before, and of all together."""
    lines = [_row(["step", *by_gpu]), _row(["---", *["---:"] * len(by_gpu)])]
    for number, step in enumerate(STEPS[1:], 1):
        lines.append(_row([step.name, *(_speedup(rungs, number) for rungs in by_gpu.values())]))
    whole = [f"{rungs[0].forecast.seconds / rungs[-1].forecast.seconds:.0f}" for rungs in by_gpu.values()]
    return [*lines, _row(["all", *whole])]


def time_table(rungs: Sequence[Rung]) -> list[str]:
    """Return the lines of a table with the time of each step on one GPU, and what limits it."""
    lines = [
        _row(["step", "ms", "of the FP32 peak", "speed-up", "limiter", "busiest", "warps wait for"]),
        _row(["---", "---:", "---:", "---:", "---", "---", "---"]),
    ]
    for number, rung in enumerate(rungs):
        busiest = ", ".join(f"{name} {share / PERCENT:.0f} %" for name, share in rung.resources[:_BUSIEST])
        time, share = f"{rung.forecast.seconds / MILLISECOND:.3f}", f"{rung.peak_share / PERCENT:.0f} %"
        speedup = _speedup(rungs, number) if number else "–"
        lines.append(_row([rung.step.name, time, share, speedup, rung.forecast.limiter, busiest, rung.stall]))
    return lines


def counter_table(rungs: Sequence[Rung]) -> list[str]:
    """Return the lines of a table with the counts of each step on one GPU."""
    lines = [_row(["step", *(heading for heading, _, _ in COUNTERS)]), _row(["---", *["---:"] * len(COUNTERS)])]
    for rung in rungs:
        shown = [_count(rung.counts.get(name), unit) for _, name, unit in COUNTERS]
        lines.append(_row([rung.step.name, *shown]))
    return lines


def _count(count: Count | None, unit: float) -> str:
    if count is None:
        return "–"
    if count.high > _WIDE * count.low:
        return f"{count.low / unit:.3g} to {count.high / unit:.3g}"
    return f"{count.value / unit:.4g}"


def _speedup(rungs: Sequence[Rung], number: int) -> str:
    return f"{rungs[number - 1].forecast.seconds / rungs[number].forecast.seconds:.2f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
