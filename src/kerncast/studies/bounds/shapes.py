"""Time against TPCs, learned from kernels that were simulated on parts of GPUs: the default for bare tables.

Nothing but times is known of the kernel, so what other kernels do between the measured counts bounds it: each learned
curve is led through the measured medians, in ln(time) over ln(TPCs), and counts the more the less it had to be bent.
The bound of a count is a quantile of these curves. Source: weighted conformal prediction (Tibshirani, Barber, Candes,
Ramdas, "Conformal prediction under covariate shift", NeurIPS 2019; Guan, "Localized conformal prediction", Biometrika
110, 2023); the curves are this project's (benchmarks/learn_shapes.py), and what a family of kernels that was left out
needed beyond that is added. Fails where a kernel is unlike all of them: a grid of few blocks makes steps that two
counts do not show, but ``--blocks`` tells of. Before the allowance, no bound is above that of list-scheduling, which
holds for steps.
"""

import csv
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

import kerncast
from kerncast.bounded_file import OUR_DATA, read_text
from kerncast.errors import InputError
from kerncast.measurements import PartitionTimes
from kerncast.studies.bounds.base import (
    Blocks,
    BoundAnswer,
    BoundQuestion,
    Curve,
    Floats,
    Kind,
    answer_on,
    never_rising,
    passed_with,
    run_tails,
    spread_of,
    typical_of,
)
from kerncast.studies.bounds.list_scheduling import consistent, graham
from kerncast.studies.bounds.sequence import bounds_in_order

SHAPES_FILE = Path(kerncast.__path__[0]) / "data" / "calibration" / "partition_shapes.csv"
#: Shares of a GPU's TPCs at which a curve is kept.
SHARES = (
    0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225, 0.25, 0.275, 0.3, 0.325, 0.35, 0.375, 0.4, 0.45, 0.5, 0.55,
    0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0,
)  # fmt: skip
#: Slopes of ln(time) over ln(TPCs) that are alike: curves that need a slope to be bent by more than this count little.
_ALIKE_SLOPES = 0.1
#: Curves, each family as one, that must count at least; else slopes are alike within twice as much.
_LEAST_FAMILIES = 5.0


@dataclass(frozen=True, slots=True)
class Shapes:
    """Learned curves, and what families that were left out needed beyond their quantile."""

    families: tuple[str, ...]
    """[curves] kernel"""
    logs: Floats
    """[curves, shares] ln(seconds)"""
    levels: tuple[float, ...]
    allowances: tuple[float, ...]
    """[levels] ln of the factor beyond the quantile of that level"""
    grid: tuple[Blocks, int] | None = None
    """blocks of the kernel, and TPCs of the GPU, where they are known: they make steps of the curves"""

    @property
    def weights(self) -> Floats:
        """[curves] one over the curves of the family, so that families count alike."""
        size = Counter(self.families)
        return np.array([1 / size[each] for each in self.families])

    def without(self, family: str) -> "Shapes":
        """Return the curves of all other families."""
        kept = [place for place, each in enumerate(self.families) if each != family]
        return replace(self, families=tuple(self.families[place] for place in kept), logs=self.logs[kept])

    def at(self, shares: Floats) -> Floats:
        """Return [curves, shares] ln(seconds), straight in ln(TPCs) between the known shares and beyond them."""
        known, wanted = np.log(SHARES), np.log(shares)
        inside = np.array([np.interp(wanted, known, row) for row in self.logs])
        slope = (self.logs[:, 1] - self.logs[:, 0]) / (known[1] - known[0])
        below = self.logs[:, :1] + slope[:, np.newaxis] * (wanted - known[0])
        return np.asarray(np.where(wanted < known[0], below, inside) + self._steps(shares), np.float64)

    def _steps(self, shares: Floats) -> Floats:
        """Return [shares] ln of what whole waves of blocks take over parts of waves."""
        if self.grid is None:
            return np.zeros(len(shares))
        blocks, most = self.grid
        counts = np.maximum(1, np.round(shares * most)).astype(int)
        steps = blocks.waves(tuple(counts.tolist())) * blocks.per_tpc * counts / blocks.count
        return np.asarray(np.log(steps), np.float64)

    def allowance(self, level: float) -> float:
        """Return ln of the factor beyond the quantile of a level."""
        return float(np.interp(level, self.levels, self.allowances))


@dataclass(frozen=True, slots=True)
class Bundle:
    """Learned curves as led through measured times, and how much each counts."""

    logs: Floats
    """[curves, counts] ln(seconds)"""
    weights: Floats
    """[curves] sum 1"""

    def quantile(self, level: float) -> Floats:
        """Return [counts] ln(seconds) that so large a part of the curves does not exceed."""
        order = np.argsort(self.logs, axis=0, kind="stable")
        stops = np.cumsum(self.weights[order], axis=0)
        places = np.minimum((stops < level - 1e-12).sum(axis=0), len(self.logs) - 1)
        return np.asarray(np.take_along_axis(self.logs, np.take_along_axis(order, places[np.newaxis], 0), 0)[0])


def bundle(shapes: Shapes, measured: Curve, counts: Sequence[int], most: int) -> Bundle:
    """Return the learned curves as led through the measured medians, on a GPU of ``most`` TPCs."""
    anchors = np.array(measured.counts, np.float64)
    at_anchors = shapes.at(anchors / most)
    bend = np.log(measured.seconds) - at_anchors
    x, wanted = np.log(anchors), np.log(np.array(counts, np.float64))
    logs = shapes.at(np.array(counts) / most) + np.array([np.interp(wanted, x, row) for row in bend])
    # How much the slope from one anchor to the next had to be bent.
    slopes = np.diff(bend, axis=1) / np.diff(x)
    own, alike = shapes.weights, _ALIKE_SLOPES
    while True:
        weights = own * np.exp(-(slopes**2).sum(axis=1) / (2 * alike**2))
        if weights.sum() >= _LEAST_FAMILIES or alike > 1e3:
            return Bundle(logs, weights / weights.sum())
        alike *= 2


@dataclass(frozen=True, slots=True)
class ShapesBound:
    """Bound by what a run passes with the probability 1 - level, by the learned curves and how runs differ."""

    name: str = "shapes"
    kind: Kind = Kind.CONFORMAL
    has_base_model: bool = False
    learned: Shapes | None = None
    """curves to learn from; None: those that are shipped"""

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return the weighted median of the learned curves, and their quantile times the spread of the repeats."""
        shapes, measured = self.learned or read_shapes(), question.measured
        if question.blocks is not None:
            shapes = replace(shapes, grid=(question.blocks, question.most))
        # All counts, whatever is asked for: bounds that never rise depend on those of more TPCs.
        counts = tuple(range(1, max(question.most, *question.counts) + 1))

        def estimate(runs: PartitionTimes) -> Floats:
            medians = typical_of(runs).never_rising()
            nodes, weights = _nodes(shapes, medians, (counts, question.most), question.level)
            return np.exp(passed_with(question.risk, nodes, weights, run_tails(runs, counts)))

        medians, contradictions = consistent(typical_of(measured), spread_of(measured, question.risk).factor)
        expected = expected_curve(medians, counts, question.most, shapes)
        return replace(
            answer_on(question, counts, bounds_in_order(measured, counts, estimate), expected),
            contradictions=contradictions,
            measure_next=_measure_next(shapes, medians, question),
        )


def expected_curve(measured: Curve, counts: Sequence[int], most: int, shapes: Shapes | None = None) -> Curve:
    """Return the weighted median of the learned curves: what most kernels with such times take on other counts."""
    logs = bundle(shapes or read_shapes(), measured, counts, most).quantile(0.5)
    return Curve(tuple(counts), never_rising(np.exp(logs)))


def typical_shape(counts: Sequence[int], most: int) -> Curve:
    """Return the times of the median learned kernel on a GPU of ``most`` TPCs: 1 on all of them; families count alike.

    >>> typical_shape((1, 40), 40).seconds[1], 10 < typical_shape((1, 40), 40).seconds[0] < 40
    (1.0, True)
    """
    shapes = read_shapes()
    found = Bundle(shapes.at(np.array(counts) / most), shapes.weights / shapes.weights.sum()).quantile(0.5)
    return Curve(tuple(counts), never_rising(np.exp(found)))


def shape_bounds(shapes: Shapes, measured: Curve, counts: tuple[Sequence[int], int], level: float) -> Floats:
    """Return the bounds in seconds of medians; ``counts`` are those asked for, and the TPCs of the GPU."""
    nodes, weights = _nodes(shapes, measured, counts, level)
    return np.exp(Bundle(nodes, weights).quantile(level))


def _nodes(shapes: Shapes, measured: Curve, counts: tuple[Sequence[int], int], level: float) -> tuple[Floats, Floats]:
    """Return [curves, counts] ln(seconds) of medians, none above Graham's bound, with the allowance of a level."""
    wanted, most = counts
    found = bundle(shapes, measured, wanted, most)
    is_other = np.array([each not in measured.counts for each in wanted])
    nodes = np.minimum(found.logs, np.log(graham(measured, wanted))) + shapes.allowance(level) * is_other
    return nodes, found.weights


def _measure_next(shapes: Shapes, measured: Curve, question: BoundQuestion) -> int | None:
    expected = expected_curve(measured, question.counts, question.most, shapes)
    wanted, level = (question.tpcs, question.most), question.level

    def looseness(count: int) -> float:
        more = measured.with_point(count, float(expected.at((count,))[0]))
        return float((shape_bounds(shapes, more, wanted, level) / expected.at(question.tpcs)).mean())

    left = [count for count in question.tpcs if count not in measured.counts]
    return min(left, key=looseness) if left else None


@cache
def read_shapes(path: Path = SHAPES_FILE) -> Shapes:
    """Read learned curves; raises InputError for a faulty file.

    Rows ``allowance,LEVEL,LN`` come first, then ``shape,KERNEL,GPU`` with ln(seconds) of each share, full GPU = 0.
    """
    try:
        rows = list(csv.reader(read_text(path, OUR_DATA).splitlines()))
        allowed = [(float(row[1]), float(row[2])) for row in rows if row[0] == "allowance"]
        found = [row for row in rows if row[0] == "shape"]
        logs = np.array([[float(cell) for cell in row[3:]] for row in found])
    except (OSError, ValueError, IndexError) as error:
        raise _faulty(path, str(error)[:200]) from None
    if logs.shape != (len(found), len(SHARES)) or not found or not np.isfinite(logs).all():
        raise _faulty(path, "a curve has too few numbers, or one that is not finite")
    levels, allowances = zip(*allowed, strict=True) if allowed else ((), ())
    if not levels or any(a >= b for a, b in pairwise(levels)) or not all(0 <= each < math.inf for each in allowances):
        raise _faulty(path, "the allowances do not ascend, or one is below 0")
    return Shapes(tuple(row[1] for row in found), logs, levels, allowances)


def _faulty(path: Path, what: str) -> InputError:
    cure = "Write it by benchmarks/learn_shapes.py, or install kerncast again."
    return InputError(f"the learned curves are faulty: {what}", where=str(path), cure=cure)
