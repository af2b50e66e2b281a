"""Write the curves that bounds of bare tables learn from, and what families that were left out needed beyond them.

Reads the sweeps of ``benchmarks/partition_sweeps.py``. Of each family in turn, the curves are bounded by those of all
other families, from several choices of measured counts. The allowance of a level is what so large a share of the
points needs at most, with families as the unit, for the choice that needs most. Prints what it found.
"""

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from partition_sweeps import Sweep, read_sweeps

from kerncast.studies.bounds.base import Curve, Floats
from kerncast.studies.bounds.shapes import SHAPES_FILE, SHARES, Shapes, shape_bounds

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999)
#: Measured counts as shares of all TPCs, at least one TPC each.
ANCHORS = ((1.0,), (0.25,), (0.0, 1.0), (0.05, 1.0), (0.125, 1.0), (0.0, 0.5), (0.25, 0.75), (0.0, 0.25, 1.0))


def curve_of(sweep: Sweep) -> Curve:
    """Return the times of all numbers of TPCs, straight in the logarithms between those that were simulated."""
    counts = tuple(range(1, sweep.most + 1))
    logs = np.interp(np.log(counts), np.log(sweep.counts), np.log(sweep.seconds))
    return Curve(counts, tuple(np.exp(logs).tolist()))


def learned(sweeps: Sequence[Sweep]) -> Shapes:
    """Return the curves of sweeps at the shares that are kept, without allowances."""
    rows = []
    for sweep in sweeps:
        x, y = np.log(sweep.counts), np.log(sweep.seconds)
        wanted = np.log(np.array(SHARES) * sweep.most)
        below = y[0] + (y[1] - y[0]) / (x[1] - x[0]) * (wanted - x[0])
        rows.append(np.where(wanted < 0, below, np.interp(wanted, x, y)) - y[-1])
    return Shapes(tuple(each.family for each in sweeps), np.array(rows), (0.0, 1.0), (0.0, 0.0))


def anchors_of(shares: Sequence[float], most: int) -> tuple[int, ...]:
    """Return the counts nearest to some shares of all TPCs.

    >>> anchors_of((0.0, 0.125, 1.0), 40)
    (1, 5, 40)
    """
    return tuple(sorted({max(1, round(share * most)) for share in shares}))


def needed(
    sweeps: Sequence[Sweep], shapes: Shapes, shares: Sequence[float], level: float
) -> Iterator[tuple[str, Floats]]:
    """Yield the family of each sweep, and ln of what its points are above their bounds from some measured counts."""
    for sweep in sweeps:
        truth, others = curve_of(sweep), shapes.without(sweep.family)
        anchors = anchors_of(shares, sweep.most)
        measured = Curve(anchors, tuple(truth.at(anchors).tolist()))
        bounds = shape_bounds(others, measured, (truth.counts, sweep.most), level)
        is_judged = np.array([count not in anchors for count in truth.counts])
        yield sweep.family, np.log(np.array(truth.seconds) / bounds)[is_judged]


def quantile(families: Sequence[str], values: Sequence[Floats], level: float) -> float:
    """Return the value that so large a share does not exceed, each family counting as one."""
    size = Counter(families)
    weights = np.concatenate([
        np.full(len(each), 1 / size[name] / len(each)) for name, each in zip(families, values, strict=True)
    ])  # fmt: skip
    every = np.concatenate(values)
    order = np.argsort(every, kind="stable")
    stops = np.cumsum(weights[order]) / weights.sum()
    return float(every[order[min(int(np.searchsorted(stops, level)), len(every) - 1)]])


def main() -> None:
    """Learn, judge, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("sweeps", type=Path, nargs="+", help="files of benchmarks/partition_sweeps.py")
    parser.add_argument("--out", type=Path, default=SHAPES_FILE)
    asked = parser.parse_args()
    sweeps = [each for path in asked.sweeps for each in read_sweeps(path)]
    shapes = learned(sweeps)
    allowances: list[float] = []
    print(f"{len(sweeps)} sweeps of {len(set(shapes.families))} families.\n")
    names = [", ".join(f"{share:g}" for share in shares) for shares in ANCHORS]
    print("| level | allowance |" + "".join(f" {name} |" for name in names) + "\n|---|---" + "|---" * len(names) + "|")
    for level in LEVELS:
        found = [list(needed(sweeps, shapes, shares, level)) for shares in ANCHORS]
        allowed = [quantile([name for name, _ in each], [above for _, above in each], level) for each in found]
        allowances.append(max(0.0, *allowed, *allowances[-1:]))
        over = [np.mean([np.expm1(allowances[-1] - above).mean() for _, above in each]) for each in found]
        print(f"| {level:.1%} | {np.expm1(allowances[-1]):.1%} |" + "".join(f" {each:.0%} |" for each in over))
    with asked.out.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerows(["allowance", level, f"{each:.4f}"] for level, each in zip(LEVELS, allowances, strict=True))
        rows.writerows(
            ["shape", sweep.family, sweep.gpu, *(f"{each:.3f}" for each in row)]
            for sweep, row in zip(sweeps, shapes.logs, strict=True)
        )
    print(f"\nWritten to {asked.out.name}.", file=sys.stderr)


if __name__ == "__main__":
    main()
