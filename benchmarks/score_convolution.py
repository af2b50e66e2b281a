"""Score the published model of a convolution layer on its two given sweeps: blocks, and channels.

Nothing is fitted. Prints Markdown: per sweep what was measured, what both of its memory times and kerncast's own
simulation give, and the errors; the scores of the times. ``--pictures FOLDER`` draws times and errors.
The measured times, operations and their source stand in ``layer_convolution*.csv``; docs/convolution.md explains them.
"""

import argparse
import csv
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from timing_cases import FOLDER, read_clocks
from timing_convolutions import LAYER, layer
from timing_runs import Plan, known_gpus, run, units

from kerncast.measurements.scores import scores_of
from kerncast.models.published.convolution import (
    ConvolutionLayer,
    ConvolutionMachine,
    MemoryTime,
    bandwidth_time,
    compute_time,
    execution_seconds,
    latency_time,
    operational_intensity,
    ops_per_second,
    published_titan_v,
)
from kerncast.report.pictures.picture_files import drawing, save_picture
from kerncast.units import MICROSECOND, MILLISECOND, PERCENT, TERA

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OPERATIONS = FOLDER / "layer_convolution_operations.csv"
METHODS: dict[str, Callable[[ConvolutionLayer, ConvolutionMachine], MemoryTime]] = {
    "convolution": bandwidth_time,
    "convolution-latency": latency_time,
}
_SIZE, _FILTER = 32, 3
_COLOURS = {"convolution": "#d62728", "convolution-latency": "#ff7f0e", "simulation": "#1f77b4"}
_ERRORS = {
    "FLOPs": ("#7f7f7f", ":"),
    "INT OPs": ("#8c564b", "-."),
    "total OPs": ("#2ca02c", "--"),
    "execution time": ("#d62728", "-"),
    "TOPs": ("#9467bd", "-."),
}
#: Times that differ by less are drawn on a linear axis.
_LEAST_FOR_LOG = 10.0


@dataclass(frozen=True, slots=True)
class Point:
    """One measured launch of a sweep."""

    block: int
    channels: int
    flops: int
    int_ops: int
    seconds: float

    @property
    def layer(self) -> ConvolutionLayer:
        """What the model is told."""
        return ConvolutionLayer(
            nx=_SIZE, ny=_SIZE, kx=_FILTER, ky=_FILTER, ni=self.channels, nn=self.channels,
            block_x=self.block, block_y=self.block,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sweep:
    """The points along one parameter."""

    name: str
    parameter: str
    values: tuple[int, ...]
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Times:
    """What one memory time makes of the sweep, a number per point."""

    memory: tuple[float, ...]
    seconds: tuple[float, ...]
    ops_per_s: tuple[float, ...]


def main() -> None:
    """Read, forecast, print, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--without-simulation", action="store_true", help="leave kerncast's own forecasts out")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="where to draw a picture of each sweep")
    parser.add_argument("--format", default="svg", choices=["svg", "png", "pdf"], help="of the pictures")
    asked = parser.parse_args()
    simulated = {} if asked.without_simulation else simulate(asked.jobs)
    for sweep in sweeps():
        print(report(sweep, simulated), end="\n\n")
        if asked.pictures:
            asked.pictures.mkdir(parents=True, exist_ok=True)
            draw(sweep, simulated, asked.pictures / f"convolution-{sweep.parameter}.{asked.format}")


def sweeps() -> tuple[Sweep, Sweep]:
    """Return the block sweep, four points, and the channel sweep, nine; one launch was measured for each."""
    with LAYER.open(encoding="utf-8", newline="") as times, OPERATIONS.open(encoding="utf-8", newline="") as counts:
        points = [
            Point(
                int(row["block"]), int(row["channels"]), int(count["flops"]), int(count["int_ops"]),
                float(row["milliseconds"]) * MILLISECOND,
            )
            for row, count in zip(csv.DictReader(times), csv.DictReader(counts), strict=True)
        ]  # fmt: skip
    blocks, channels = tuple(points[:4]), tuple(points[4:])
    return (
        Sweep("Block dimension, 32 channels", "block", tuple(each.block for each in blocks), blocks),
        Sweep("Channels, blocks of 32 x 32", "channels", tuple(each.channels for each in channels), channels),
    )


def simulate(jobs: int) -> dict[tuple[int, int], float]:
    """Return kerncast's own forecast of each launch, by block and channels, at the clock that the paper names."""
    cases = layer(None)
    gpus, _ = known_gpus(cases)
    found: dict[tuple[int, int], float] = {}
    for scored in run(units(cases, gpus, read_clocks()), Plan("simulation"), jobs):
        if not scored.predictions:
            sys.exit(f"{scored.case.size} is not simulated: {scored.refused}")
        shape = scored.case.launch.block[0], scored.case.launch.grid[2]
        found[shape] = scored.predictions[0].seconds
    return found


def times_of(sweep: Sweep, method: str) -> Times:
    """Return what one of the published memory times gives."""
    machine = published_titan_v()
    layers = [point.layer for point in sweep.points]
    computes = [compute_time(each, machine) for each in layers]
    memories = [METHODS[method](each, machine) for each in layers]
    return Times(
        memory=tuple(memory.seconds for memory in memories),
        seconds=tuple(map(execution_seconds, computes, memories)),
        ops_per_s=tuple(map(ops_per_second, layers, computes, memories)),
    )


def report(sweep: Sweep, simulated: Mapping[tuple[int, int], float]) -> str:
    """Return the tables of one sweep."""
    parts = [f"## {sweep.name}", _values(sweep, simulated), _scores(sweep, simulated)]
    return "\n\n".join(parts)


def forecasts_of(sweep: Sweep, simulated: Mapping[tuple[int, int], float]) -> dict[str, tuple[float, ...]]:
    """Return the times by each model, in seconds."""
    found = {method: times_of(sweep, method).seconds for method in METHODS}
    if simulated:
        found["simulation"] = tuple(simulated[point.block, point.channels] for point in sweep.points)
    return found


def errors_of(sweep: Sweep) -> dict[str, tuple[float, ...]]:
    """Return the five errors of the paper's tables, as shares, by its own memory time."""
    found = times_of(sweep, "convolution")
    layers = [point.layer for point in sweep.points]
    measured = [point.flops + point.int_ops for point in sweep.points]
    seconds = [point.seconds for point in sweep.points]
    return {
        "FLOPs": _errors([each.flops for each in layers], [point.flops for point in sweep.points]),
        "INT OPs": _errors([each.int_ops for each in layers], [point.int_ops for point in sweep.points]),
        "total OPs": _errors([each.ops for each in layers], measured),
        "execution time": _errors(found.seconds, seconds),
        "TOPs": _errors(found.ops_per_s, [ops / time for ops, time in zip(measured, seconds, strict=True)]),
    }


def _errors(forecast: Sequence[float], measured: Sequence[float]) -> tuple[float, ...]:
    return tuple(abs(ours - truth) / truth for ours, truth in zip(forecast, measured, strict=True))


def _values(sweep: Sweep, simulated: Mapping[tuple[int, int], float]) -> str:
    """Return the paper's table, with the other memory time and the simulation below."""
    points, layers = sweep.points, [point.layer for point in sweep.points]
    own, latency = (times_of(sweep, method) for method in METHODS)
    compute = [compute_time(each, published_titan_v()).seconds for each in layers]
    levels = [operational_intensity(each) for each in layers]
    measured = [point.seconds for point in points]
    total = [point.flops + point.int_ops for point in points]
    rows = [
        _row("measured", "FLOPs", [f"{point.flops:,}" for point in points]),
        _row("", "INT OPs", [f"{point.int_ops:,}" for point in points]),
        _row("", "total OPs", [f"{ops:,}" for ops in total]),
        _row("", "time, µs", _in_us(measured)),
        _row("", "TOPs", [f"{ops / time / TERA:.3f}" for ops, time in zip(total, measured, strict=True)]),
        _row("convolution", "FLOPs", [f"{each.flops:,}" for each in layers]),
        _row("", "INT OPs", [f"{each.int_ops:,}" for each in layers]),
        _row("", "total OPs", [f"{each.ops:,}" for each in layers]),
        _row("", "compute, µs", _in_us(compute)),
        _row("", "memory, µs", _in_us(own.memory)),
        _row("", "time, µs", _in_us(own.seconds)),
        _row("", "TOPs", [f"{rate / TERA:.3f}" for rate in own.ops_per_s]),
        *(_row("", f"OP/B, {of}", [f"{int(getattr(each, of)):,}" for each in levels]) for of in ("l1", "l2", "dram")),
        *(_row("" if n else "error", name, _shares(each)) for n, (name, each) in enumerate(errors_of(sweep).items())),
        _row("convolution-latency", "memory, µs", _in_us(latency.memory)),
        _row("", "time, µs", _in_us(latency.seconds)),
        _row("", "error", _shares(_errors(latency.seconds, measured))),
    ]
    if simulated:
        seconds = forecasts_of(sweep, simulated)["simulation"]
        rows += [
            _row("simulation", "time, µs", _in_us(seconds)),
            _row("", "error", _shares(_errors(seconds, measured))),
        ]
    heading = _row("", sweep.parameter, [str(value) for value in sweep.values])
    return "\n".join([heading, "|---|---" + "|---:" * len(points) + "|", *rows])


def _row(*cells: str | Sequence[str]) -> str:
    return f"| {' | '.join(text for each in cells for text in ([each] if isinstance(each, str) else each))} |"


def _in_us(seconds: Sequence[float]) -> list[str]:
    return [f"{each / MICROSECOND:.3f}" for each in seconds]


def _shares(errors: Sequence[float]) -> list[str]:
    return [f"{error:.2%}" for error in errors]


def _scores(sweep: Sweep, simulated: Mapping[tuple[int, int], float]) -> str:
    """Return the six measures of the times, of each model."""
    lines = ["| model | n | MAPE | MAE, µs | max AE, µs | RMSE, µs | R2 |", "|---|---:|---:|---:|---:|---:|---:|"]
    measured = [point.seconds / MICROSECOND for point in sweep.points]
    for name, seconds in forecasts_of(sweep, simulated).items():
        found = scores_of(measured, [each / MICROSECOND for each in seconds])
        cells = f"{found.n} | {found.mape:.1%} | {found.mae:.1f} | {found.max_ae:.1f} | {found.rmse:.1f}"
        lines.append(f"| {name} | {cells} | {found.r2:.2f} |")
    return "\n".join(lines)


def draw(sweep: Sweep, simulated: Mapping[tuple[int, int], float], path: Path) -> None:
    """Draw times and errors of a sweep, as the paper's figures of each sweep's errors."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    with drawing():
        figure = Figure(figsize=(10, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        for panel in (left, right):
            panel.set_yscale("log")
        _draw_times(left, sweep, forecasts_of(sweep, simulated))
        for name, errors in errors_of(sweep).items():
            colour, style = _ERRORS[name]
            shown = [error / PERCENT for error in errors]
            right.plot(sweep.values, shown, "o", ls=style, color=colour, ms=4, label=name)
        right.set_title("errors of convolution", fontsize=10)
        right.set_ylabel("absolute error, %")
        for panel in (left, right):
            _set_axes(panel, sweep)
        figure.suptitle(f"{sweep.name}: 32 x 32 outputs, 3 x 3 filters, TITAN V", fontsize=11)
        save_picture(figure, path)


def _draw_times(panel: "Axes", sweep: Sweep, forecasts: Mapping[str, Sequence[float]]) -> None:
    measured = [point.seconds / MICROSECOND for point in sweep.points]
    panel.plot(sweep.values, measured, "ks-", label="measured")
    for name, seconds in forecasts.items():
        panel.plot(
            sweep.values, [each / MICROSECOND for each in seconds], "o--", color=_COLOURS[name], ms=4, label=name
        )
    drawn = [*measured, *(each / MICROSECOND for seconds in forecasts.values() for each in seconds)]
    if max(drawn) < _LEAST_FOR_LOG * min(drawn):
        panel.set_yscale("linear")
        panel.set_ylim(bottom=0)
    panel.set_title("time of one launch", fontsize=10)
    panel.set_ylabel("time, µs")


def _set_axes(panel: "Axes", sweep: Sweep) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator  # noqa: PLC0415

    panel.set_xscale("log", base=2)
    panel.set_xticks(sweep.values, [str(value) for value in sweep.values])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.set_xlabel("threads of a block along x and y" if sweep.parameter == "block" else "input and output channels")
    panel.grid(visible=True, which="major", alpha=0.3)
    panel.legend(fontsize=8)


if __name__ == "__main__":
    main()
