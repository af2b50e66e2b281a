"""Score the bounds of times on parts of a GPU: how many times are above them, and how far they are above the others.

Curves of every shape are drawn at random; measured ones are grids of a Tesla K40, read as parts of it. Two anchors, the
fewest and the most TPCs, are known; every other count is judged. Prints Markdown; ``docs/bound.md`` explains it.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bound_curves import CURVES_PER_SHAPE, SIZES, Drawn, drawn_curves, weak_scaling_curves

from kerncast.gpu import GPU, load_gpu
from kerncast.measurements.feature_table import FeatureTable
from kerncast.measurements.scores import scores_of
from kerncast.report.pictures.picture_files import drawing, save_picture
from kerncast.studies.bounding import BoundOptions, KernelBounds, bound_times
from kerncast.studies.bounds import METHODS, OF_LAUNCHES, Kind
from kerncast.studies.partitions import part_of
from kerncast.units import MICROSECOND, PERCENT

DATA = Path(__file__).parent.parent.parent / "shared" / "data" / "gpuperfpredict"
_ROUNDING = 1e-9
#: Methods that train on each curve are slow: fewer curves of the smallest size.
_FEW_PER_SHAPE = 8
_SAFE = ("list-scheduling", "equal-blocks")
#: Methods that need no launch, and not hundreds of runs.
OF_TABLES = tuple(
    method.name for method in METHODS if method.kind is not Kind.EXTREME and method.name not in OF_LAUNCHES
)
_KERNEL = ("lud_perimeter", 8192)
_FEATURES = (
    "elapsed_cycles_sm", "executed_control_flow_instructions", "gld_request", "l2_read_transactions", "active_cycles",
)  # fmt: skip
_TRAINING_LAUNCHES = 4000


@dataclass(frozen=True, slots=True)
class Judged:
    """One method on one curve: the times that it did not know, and its bounds."""

    method: str
    shape: str
    tpcs: int
    times: tuple[float, ...]
    bounds: tuple[float, ...]
    medians: tuple[float, ...]
    known: int
    """counts whose times it knew, which it is exact for"""

    @property
    def violations(self) -> int:
        """Longest times above their bound."""
        return _above(self.times, self.bounds)

    @property
    def median_violations(self) -> int:
        """Median times above their bound."""
        return _above(self.medians, self.bounds)

    @property
    def over(self) -> tuple[float, ...]:
        """Shares by which the bounds are above the times."""
        return tuple(bound / time - 1 for time, bound in zip(self.times, self.bounds, strict=True))


def _above(times: Sequence[float], bounds: Sequence[float]) -> int:
    return sum(time > bound * (1 + _ROUNDING) for time, bound in zip(times, bounds, strict=True))


def main() -> None:
    """Draw, bound, print."""
    asked = _arguments()
    gpu = load_gpu("TITAN V")
    if asked.only_shapes:
        _draw_shapes(asked.pictures or Path(), gpu)
        sys.exit()
    safe = [judge(each, method, gpu) for size in SIZES for each in drawn_curves(size, asked.curves) for method in _SAFE]
    print("## Curves of every shape, from two anchors\n")
    print(_shapes_table(safe))
    few = [each for size in SIZES[:1] for each in drawn_curves(size, _FEW_PER_SHAPE)]
    print(f"\n## Every method, {SIZES[0]} TPCs, the median learned kernel as base curve\n")
    print(_methods_table([judge(each, method, gpu) for method in OF_TABLES for each in few]))
    if asked.pictures:
        _draw_shapes(asked.pictures, gpu)
    if not (DATA / "rodinia_k40_repeats.parquet").exists():
        print("\nMeasured grids: skipped, ../shared/data/gpuperfpredict is not there.")
        sys.exit()
    _score_measured(gpu, asked.pictures)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--curves", type=int, default=CURVES_PER_SHAPE, help="curves of each shape and size")
    parser.add_argument("--pictures", type=Path, help="folder for pictures of some curves")
    parser.add_argument("--only-shapes", action="store_true", help="draw the curves of every shape, and score nothing")
    return parser.parse_args()


def judge(drawn: Drawn, method: str, gpu: GPU, training: FeatureTable | None = None) -> Judged:
    """Bound one curve from its two ends, and compare with all that was measured between."""
    bounds = bounds_of(drawn, method, gpu, training)
    counts = drawn.times.counts
    known = {counts[0], counts[-1], *bounds.answer.calibrated_on}
    others = [place for place, count in enumerate(counts) if count not in known]
    return Judged(
        method,
        drawn.shape,
        drawn.tpcs,
        tuple(drawn.times.largest(counts[place]) for place in others),
        tuple(bounds.answer.bound[place] for place in others),
        tuple(drawn.times.typical(counts[place]) for place in others),
        len(counts) - len(others),
    )


def bounds_of(drawn: Drawn, method: str, gpu: GPU, training: FeatureTable | None = None) -> KernelBounds:
    """Bound one curve from its two ends."""
    counts = drawn.times.counts
    options = BoundOptions(method, (counts[0], counts[-1]), training=training)
    return bound_times(drawn.times, part_of(gpu, drawn.tpcs), counts, options)


def _shapes_table(found: Sequence[Judged]) -> str:
    """Return a row per shape: of each method and size the violations and the mean over-estimation."""
    sizes = sorted({each.tpcs for each in found})
    columns = [(method, size) for method in _SAFE for size in sizes]
    lines = [
        "| shape | n |" + "".join(f" {method}, K = {size} |" for method, size in columns),
        "|---|---|" + "---|" * len(columns),
    ]
    for shape in [*dict.fromkeys(each.shape for each in found), ""]:
        chosen = [each for each in found if shape in {"", each.shape}]
        cells = [[each for each in chosen if (each.method, each.tpcs) == column] for column in columns]
        lines.append(f"| {shape or 'all'} | {len(cells[0])} |" + "".join(f" {_cell(cell)} |" for cell in cells))
    return "\n".join(lines)


def _cell(found: Sequence[Judged]) -> str:
    """Return longest and median times above the bound, of how many; the mean over-estimation, also with the anchors."""
    judged = sum(len(each.times) for each in found)
    over = sum(sum(each.over) for each in found)
    everywhere = over / (judged + sum(each.known for each in found))
    above = f"{sum(each.violations for each in found)}, {sum(each.median_violations for each in found)}"
    return f"{above} of {judged}; {over / judged:.1%} ({everywhere:.1%})"


def _methods_table(found: Iterable[Judged]) -> str:
    """Return a row per method: violations, over-estimation, and the six measures."""
    by_method: dict[str, list[Judged]] = {}
    for each in found:
        by_method.setdefault(each.method, []).append(each)
    lines = [
        "| method | curves | times | above | worst | mean over | MAE µs | max AE µs | MSE µs² | RMSE µs | R² | MAPE |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for method, judged in by_method.items():
        times = [time / MICROSECOND for each in judged for time in each.times]
        bounds = [bound / MICROSECOND for each in judged for bound in each.bounds]
        over = [share for each in judged for share in each.over]
        scores = scores_of(times, bounds)
        above = sum(each.violations for each in judged)
        lines.append(
            f"| {method} | {len(judged)} | {scores.n} | {above} | {max(0.0, -min(over)):.1%} | {np.mean(over):.1%} |"
            f" {scores.mae:.4g} | {scores.max_ae:.4g} | {scores.mse:.4g} | {scores.rmse:.4g} | {scores.r2:.4f} |"
            f" {scores.mape / PERCENT:.2f} % |"
        )
    return "\n".join(lines)


def _score_measured(gpu: GPU, pictures: Path | None) -> None:
    curves = {name: list(weak_scaling_curves(DATA, _KERNEL, name)) for name in ("median", "max")}
    for name, drawn in curves.items():
        print(f"\n## Measured grids of {_KERNEL[0]} on a Tesla K40, as parts of it: {name} of ten runs\n")
        found = [judge(each, method, gpu) for method in _SAFE for each in drawn]
        others = ["shapes", *(method.name for method in METHODS if method.has_base_model)]
        print(_methods_table([*found, *(judge(each, method, gpu) for method in others for each in drawn[::10])]))
    training = training_table()
    featured = list(weak_scaling_curves(DATA, _KERNEL, "median", _FEATURES))
    print(f"\n## The same with features, learned from {len(training)} launches of other kernels on other GPUs\n")
    based = [method.name for method in METHODS if method.has_base_model]
    print(_methods_table([judge(each, method, gpu, training) for method in based for each in featured[::20]]))
    if pictures:
        shown, steep = _median_of(featured), _median_of(curves["max"])
        _draw(pictures / "features.svg", [(shown, method, training) for method in based], gpu)
        _draw(pictures / "measured.svg", [(steep, method, None) for method in OF_TABLES], gpu)


def _median_of(curves: Sequence[Drawn]) -> Drawn:
    """Return the curve of median ratio between its ends, among those that rise twofold or more."""
    ratios = [(max(each.times.seconds) / min(each.times.seconds), place) for place, each in enumerate(curves)]
    rising = sorted(pair for pair in ratios if pair[0] > 2)
    return curves[rising[len(rising) // 2][1]]


def training_table() -> FeatureTable:
    """Return launches of all kernels but LU's on all GPUs but the K40, thinned evenly."""
    import pandas as pd  # noqa: PLC0415

    table = pd.read_parquet(DATA / "rodinia.parquet").dropna(subset=[*_FEATURES, "time_us_median"])
    table = table[(table["gpu"] != "Tesla-K40") & ~table["kernel"].str.startswith("lud")]
    table = table.iloc[:: max(1, len(table) // _TRAINING_LAUNCHES)]
    return FeatureTable(
        _FEATURES, table[list(_FEATURES)].to_numpy(float), table["time_us_median"].to_numpy(float) * MICROSECOND,
        tuple(table["kernel"]), tuple(table["gpu"]), tuple(map(str, table.index)), "rodinia.parquet", "",
    )  # fmt: skip


def _draw_shapes(folder: Path, gpu: GPU) -> None:
    first: dict[str, Drawn] = {}
    for each in drawn_curves(SIZES[-1], 2):
        first.setdefault(each.shape, each)
    for method in _SAFE:
        _draw(folder / f"{method}.svg", [(each, method, None) for each in first.values()], gpu)


def _draw(path: Path, panels: Sequence[tuple[Drawn, str, FeatureTable | None]], gpu: GPU) -> None:
    """Draw bound and measured times, a panel per curve or method."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    from kerncast.report.bounds.bound_picture import draw_bounds_on  # noqa: PLC0415

    path.parent.mkdir(parents=True, exist_ok=True)
    across = 3
    rows = -(-len(panels) // across)
    with drawing():
        figure = Figure(figsize=(5 * across, 3.6 * rows), layout="constrained")
        axes = figure.subplots(rows, across, squeeze=False).ravel()
        for axis, (drawn, method, training) in zip(axes, panels, strict=False):
            draw_bounds_on(axis, bounds_of(drawn, method, gpu, training))
            axis.set_title(f"{drawn.shape}: {method}", fontsize=11, loc="left")
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
    save_picture(figure, path)


if __name__ == "__main__":
    main()
