"""Score bounds on parts of GPUs from no, one and two measured counts: a self-consistency study on simulated sweeps.

The truth is simulated (``benchmarks/partition_sweeps.py``), once as it is and once as a board would have it whose
resources differ from the simulation by what measured kernels do. Its ten runs per count differ as those of a Tesla K40
did (gpuperfpredict, Amaris et al., CC BY 4.0). Learned curves never hold the family that is bounded. Prints Markdown.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from learn_shapes import learned
from partition_sweeps import Sweep, read_sweeps, shares_of

from kerncast.measurements import PartitionTimes
from kerncast.models import DEFAULT_MODEL
from kerncast.models.calibration import calibration_of
from kerncast.report.pictures.colours import SERIES
from kerncast.report.pictures.picture_files import drawing, save_picture
from kerncast.studies.bounds import BoundQuestion, bound_method
from kerncast.studies.bounds.base import Curve, Floats, never_rising
from kerncast.studies.bounds.published.forms import regressors_of_curve
from kerncast.studies.bounds.shapes import SHAPES_FILE, Shapes, ShapesBound, read_shapes
from kerncast.studies.bounds.simulation import SimulatedCurve, SimulationBound
from kerncast.studies.repeats import drawn_runs
from kerncast.studies.worst_case import WorstCaseScores, worst_case_of

RUNS = 10
_SEED = 21
#: Standard deviation of what a board has in common on all its TPCs.
_COMMON = 0.1
#: Applications that the report held out, and its mean errors with one measured count.
HELD_OUT = {"heartwall": 10.86, "srad": 12.65}


@dataclass(frozen=True, slots=True)
class Truth:
    """What would be measured of one sweep: ten runs on each number of TPCs."""

    sweep: Sweep
    runs: Floats
    """[counts, runs] seconds"""

    def times(self, counts: Sequence[int]) -> PartitionTimes:
        """Return the runs of some counts."""
        rows = [self.sweep.counts.index(count) for count in counts]
        return PartitionTimes(
            tuple(count for count in counts for _ in range(RUNS)), tuple(self.runs[rows].ravel().tolist())
        )

    def judged(self, bound: Curve, known: Sequence[int]) -> "Judged":
        """Return the runs and the bounds of all counts that were not measured."""
        rows = [row for row, count in enumerate(self.sweep.counts) if count not in known]
        return Judged(self.runs[rows], bound.at([self.sweep.counts[row] for row in rows]))


@dataclass(frozen=True, slots=True)
class Judged:
    """Runs that a method did not know, and its bounds."""

    runs: Floats
    """[counts, runs]"""
    bounds: Floats
    """[counts]"""

    @property
    def misses(self) -> int:
        """Runs above their bound."""
        return int((self.runs > self.bounds[:, np.newaxis]).sum())

    @property
    def median_misses(self) -> int:
        """Counts whose median is above the bound."""
        return int((np.median(self.runs, axis=1) > self.bounds).sum())

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """The longest run and the bound of each count."""
        return list(zip(self.runs.max(axis=1).tolist(), self.bounds.tolist(), strict=True))


def board(sweep: Sweep, draw: np.random.Generator) -> Floats:
    """Return the times of a board whose resources differ from the simulation's by what they do on measured kernels."""
    calibration = calibration_of(DEFAULT_MODEL)
    assert calibration is not None
    error = {each.name: draw.normal(0, each.deviation) for each in calibration.classes}
    of_classes = [calibration.shares_of_classes(row) for row in shares_of(sweep)]
    logs = [sum(share * error[name] for name, share in row.items()) for row in of_classes]
    times = np.array(sweep.seconds) * np.exp(np.array(logs) + draw.normal(0, _COMMON))
    return np.array(never_rising(times))


def truths(sweeps: Sequence[Sweep], *, is_board: bool) -> list[Truth]:
    """Return what would be measured of each sweep; seeded."""
    draw = np.random.default_rng((_SEED, is_board))
    return [
        Truth(each, drawn_runs(board(each, draw) if is_board else np.array(each.seconds), RUNS, draw))
        for each in sweeps
    ]


Anchors = Callable[[Sweep, SimulatedCurve], tuple[int, ...]]


def best_count(sweep: Sweep, curve: SimulatedCurve) -> tuple[int, ...]:
    """Return the count that the simulation alone would measure next."""
    question = BoundQuestion(None, (), sweep.counts, sweep.most, 0.99, simulated=curve)
    found = SimulationBound().bound(question).measure_next
    assert found is not None
    return (found,)


ONE: dict[str, Anchors] = {
    "the fewest TPCs": lambda sweep, _: sweep.counts[:1],
    "all TPCs": lambda sweep, _: (sweep.most,),
    "the count that `measure_next` names": best_count,
}
TWO: dict[str, tuple[float, ...]] = {
    "1 and all": (0.0, 1.0), "2 and all": (0.05, 1.0), "1 and a half": (0.0, 0.5),
    "1, a quarter and all": (0.0, 0.25, 1.0),
}  # fmt: skip


def with_launch(truth: Truth, anchors: Anchors | None, level: float) -> Judged:
    """Bound one launch by its simulation and the runs of some counts; return judged times and their bounds."""
    sweep = truth.sweep
    curve = sweep.curve(level)
    known = anchors(sweep, curve) if anchors else ()
    times = truth.times(known) if known else None
    question = BoundQuestion(times, known, sweep.counts, sweep.most, level, simulated=curve)
    answer = SimulationBound().bound(question)
    return truth.judged(Curve(sweep.counts, answer.bound), known)


def nearest(counts: Sequence[int], wanted: float) -> int:
    """Return the count next to a number."""
    return min(counts, key=lambda count: abs(count - wanted))


def of_table(truth: Truth, shares: Sequence[float], shapes: Shapes) -> Judged:
    """Bound a bare table by the curves of other families."""
    sweep = truth.sweep
    known = tuple(sorted({nearest(sweep.counts, max(1, share * sweep.most)) for share in shares}))
    question = BoundQuestion(truth.times(known), known, sweep.counts, sweep.most, 0.99)
    answer = ShapesBound(learned=shapes.without(sweep.family)).bound(question)
    return truth.judged(Curve(sweep.counts, answer.bound), known)


def published(truth: Truth, method: str, anchors: tuple[int, ...], level: float) -> Judged:
    """Bound one launch by a published method whose base model is the simulated curve."""
    sweep = truth.sweep
    regressors = regressors_of_curve("simulation", Curve(sweep.counts, sweep.seconds))
    question = BoundQuestion(truth.times(anchors), anchors, sweep.counts, sweep.most, level, regressors)
    answer = bound_method(method).bound(question)
    return truth.judged(Curve(sweep.counts, answer.bound), anchors)


def row(name: str, found: Sequence[Judged]) -> str:
    """Return a row of a table: runs above their bound, and by how much bounds are above the longest of ten."""
    scores: WorstCaseScores = worst_case_of([pair for each in found for pair in each.pairs])
    runs, misses = sum(each.runs.size for each in found), sum(each.misses for each in found)
    missed = sum(each.misses > 0 for each in found)
    medians = sum(each.median_misses for each in found)
    return (
        f"| {name} | {len(found)} | {runs} | {misses} ({misses / runs:.2%}) | {missed} |"
        f" {medians} of {scores.times} | {scores.worst_miss:.1%} |"
        f" {scores.mean_over:.1%} | {scores.largest_over:.0%} | {scores.tightness or 0:.2f} |"
    )


_COLUMNS = (
    "sweeps",
    "runs",
    "above",
    "sweeps with one",
    "medians above",
    "worst",
    "mean over",
    "most over",
    "tightness",
)
_HEAD = "| {} | " + " | ".join(_COLUMNS) + " |\n" + "|---" * 10 + "|"


def main() -> None:
    """Draw, bound, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("sweeps", type=Path, nargs="+", help="files of benchmarks/partition_sweeps.py")
    parser.add_argument("--picture", type=Path, help="trade-off of over-estimate and measurements, to draw")
    asked = parser.parse_args()
    sweeps = [each for path in asked.sweeps for each in read_sweeps(path)]
    shapes = replace(learned(sweeps), levels=read_shapes().levels, allowances=read_shapes().allowances)
    print(f"{len(sweeps)} sweeps of {len({each.family for each in sweeps})} families; curves of {SHAPES_FILE.name}.")
    for is_board in (False, True):
        found = truths(sweeps, is_board=is_board)
        print(f"\n## {'A board that differs' if is_board else 'The simulation itself'}, ten runs per count\n")
        print(_HEAD.format("known"))
        print(row("launch alone, 90 %", [with_launch(each, None, 0.9) for each in found]))
        for name, anchors in ONE.items():
            print(row(f"launch and {name}, 99 %", [with_launch(each, anchors, 0.99) for each in found]))
        for name, shares in TWO.items():
            print(row(f"table: {name}, 99 %", [of_table(each, shares, shapes) for each in found]))
    _print_published(truths(sweeps, is_board=True))
    if asked.picture:
        draw_trade_off(truths(sweeps, is_board=True), asked.picture)


def _print_published(found: Sequence[Truth]) -> None:
    """Print the published methods with one measured count on the applications that the report held out."""
    print("\n## Published methods, one measured count, simulated base, a board that differs\n")
    for family, mape in HELD_OUT.items():
        chosen = [each for each in found if each.sweep.family == family]
        if not chosen:
            continue
        print(f"\n{family} (curve_fit with offset in the report: {mape} %)\n\n" + _HEAD.format("method"))
        for method in ("linear-regression", "curve-fit", "curve-fit-offset", "curve-fit-adaptive", "random-forest"):
            for place, name in ((0, "fewest"), (-1, "all")):
                pairs = [published(each, method, (each.sweep.counts[place],), 0.99) for each in chosen]
                print(row(f"{method}, {name} TPCs", pairs))
        print(row("simulation, conformal, all TPCs", [with_launch(each, ONE["all TPCs"], 0.99) for each in chosen]))


def draw_trade_off(found: Sequence[Truth], path: Path) -> None:
    """Draw the mean over-estimate against the number of measured counts, placed in three ways."""
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.ticker import MaxNLocator, PercentFormatter  # noqa: PLC0415

    with drawing():
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        panel = figure.subplots()
        for (name, chosen), colour in zip(PLACES.items(), SERIES, strict=False):
            over = [trade_off(found, chosen, number) for number in range(1, 5)]
            panel.plot(range(1, 5), over, marker="o", ms=4, color=colour, label=name)
            print(f"{name}: " + ", ".join(f"{each:.1%}" for each in over))
        panel.set_ylim(0)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        panel.set_xlabel("TPC counts measured, beside the launch")
        panel.set_title("99 % bound above the longest of ten runs, mean", fontsize=10, loc="left")
        panel.grid(alpha=0.25)
        panel.legend(fontsize=8, frameon=False)
    save_picture(figure, path)


def _next_counts(truth: Truth, number: int) -> tuple[int, ...]:
    sweep, curve = truth.sweep, truth.sweep.curve(0.99)
    known: tuple[int, ...] = ()
    for _ in range(number):
        times = truth.times(known) if known else None
        question = BoundQuestion(times, known, sweep.counts, sweep.most, 0.99, simulated=curve)
        count = SimulationBound().bound(question).measure_next
        known = tuple(sorted({*known, *(() if count is None else (count,))}))
    return known


def _spread(truth: Truth, number: int) -> tuple[int, ...]:
    counts = truth.sweep.counts
    wanted = np.geomspace(1, counts[-1], number) if number > 1 else [counts[-1]]
    return tuple(sorted({nearest(counts, each) for each in wanted}))


PLACES: dict[str, Callable[[Truth, int], tuple[int, ...]]] = {
    "where the bound falls most": _next_counts,
    "evenly in the logarithm": _spread,
    "the most TPCs": lambda truth, number: truth.sweep.counts[-number:],
}


def trade_off(found: Sequence[Truth], chosen: Callable[[Truth, int], tuple[int, ...]], number: int) -> float:
    """Return the mean over-estimate with so many measured counts."""
    pairs: list[tuple[float, float]] = []
    for each in found[::3]:
        known = chosen(each, number)
        pairs += with_launch(each, lambda _, __, known=known: known, 0.99).pairs  # type: ignore[misc]
    return worst_case_of(pairs).mean_over


if __name__ == "__main__":
    main()
