"""How far a time that is carried over to another board, or another grid, is off: what bounds on parts rest on.

Reads the cases of ``benchmarks/score_timing.py --json``. Two boards of one architecture differ in SMs, clocks and
memory: more than two parts of one board do. Prints Markdown; ``studies/bounds/simulation.py`` holds the two numbers.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.gpu import load_gpu
from kerncast.models import DEFAULT_MODEL
from kerncast.models.calibration import calibration_of
from kerncast.models.clock import blame_of
from kerncast.prediction import Term

#: Without a licence, or from a board that no other of its kind agrees with (docs/timing-validation.md).
_LEFT_OUT = {"sixteen", "convolution-2025"}
_LEVELS = (0.5, 0.9, 0.95, 0.99)
#: Standard deviation of what two boards of one architecture differ by, where the same resources limit.
_BOARDS = 0.083


@dataclass(frozen=True, slots=True)
class Pair:
    """One launch measured on two boards, or a kernel with two grids on one board."""

    kernel: str
    error: float
    """ln of the ratio of measured times, over that of the simulated ones"""
    distance: float
    """how differently they are limited: the deviations of classes of resources times the differences of shares"""
    doublings: float
    """log2 of the ratio of the grids"""


def pairs(cases: Sequence[Mapping[str, Any]], *, is_board: bool) -> Iterator[Pair]:
    """Yield pairs of boards of one architecture, or pairs of grids on one board."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for case in cases:
        if case["refused"] or case["set"] in _LEFT_OUT or DEFAULT_MODEL not in case["forecasts"]:
            continue
        own = (case["size"], load_gpu(case["gpu"]).architecture.id) if is_board else (case["gpu"], str(case["block"]))
        groups[case["set"], case["kernel"], *own].append(case)
    for group in groups.values():
        for one, other in permutations(group, 2):
            if is_board or one["grid"] != other["grid"]:
                yield _pair(one, other)


def _pair(one: Mapping[str, Any], other: Mapping[str, Any]) -> Pair:
    calibration = calibration_of(DEFAULT_MODEL)
    assert calibration is not None
    (first, mine), (second, theirs) = (_simulated(each) for each in (one, other))
    mine, theirs = calibration.shares_of_classes(mine), calibration.shares_of_classes(theirs)
    squares = (((theirs[each.name] - mine[each.name]) * each.deviation) ** 2 for each in calibration.classes)
    measured = math.log(other["measured_seconds"] / one["measured_seconds"])
    return Pair(
        one["kernel"], measured - math.log(second / first), math.sqrt(sum(squares)),
        abs(math.log2(math.prod(other["grid"]) / math.prod(one["grid"]))),
    )  # fmt: skip


def _simulated(case: Mapping[str, Any]) -> tuple[float, dict[str, float]]:
    found = case["forecasts"][DEFAULT_MODEL]
    terms = tuple(Term(name, seconds) for name, seconds in found["terms"].items())
    return found["seconds"], dict(blame_of(found["seconds"], terms))


def quantiles(values: npt.NDArray[np.float64], kernels: Sequence[str]) -> list[float]:
    """Return the quantiles of absolute values, each kernel counting as one."""
    size = {name: kernels.count(name) for name in set(kernels)}
    weights = np.array([1 / size[name] for name in kernels])
    order = np.argsort(np.abs(values))
    stops = np.cumsum(weights[order]) / weights.sum()
    return [float(np.abs(values)[order][np.searchsorted(stops, level)]) for level in _LEVELS]


def main() -> None:
    """Print how carried-over times err."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("cases", type=Path, help="JSON of benchmarks/score_timing.py")
    cases = json.loads(parser.parse_args().cases.read_text(encoding="utf-8"))
    boards = list(pairs(cases, is_board=True))
    kernels = [each.kernel for each in boards]
    print(f"Boards of one architecture: {len(boards)} pairs of {len(set(kernels))} kernels.\n")
    print("| per deviation | 50 % | 90 % | 95 % | 99 % | above one-sided 99 % |\n|---|---|---|---|---|---|")
    for factor in (0.0, 1.0, 1.5, 2.0, 3.0):
        scale = np.array([math.hypot(_BOARDS, factor * each.distance) for each in boards])
        values = np.array([each.error for each in boards]) / scale
        above = float((values > 2.326).mean())
        cells = "".join(f" {each:.2f} |" for each in quantiles(values, kernels))
        print(f"| {factor} |{cells} {above:.1%} |")
    print("| a normal law | 0.67 | 1.64 | 1.96 | 2.58 | 1.0% |")
    near = [each for each in pairs(cases, is_board=False) if each.doublings <= 1.1 and each.distance <= 0.005]
    spread = float(np.std([each.error for each in near]))
    kinds = len({each.kernel for each in near})
    print(f"\nGrids up to twice as large, one board, limited alike: {len(near)} pairs of {kinds} kernels.")
    print(f"They err apart by {spread:.1%} (standard deviation).")


if __name__ == "__main__":
    main()
