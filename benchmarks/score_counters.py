"""Hold our counters against hardware counters that others measured, kernel by kernel. Nothing is fitted.

Prints Markdown: what the targets ask for; per source and counter the ratio of ours to the measured one over all
launches; and all that is off by more than 10 %, by reason, as far as it is known (``counter_reasons.csv``).
"""

import csv
import math
import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from counter_cases import Case, read_cases
from counters import COUNTERS, Metrics

import kerncast
from kerncast.errors import KerncastError
from kerncast.execute import Budget
from kerncast.forecast import profile_launch
from kerncast.metrics import metrics_of

REASONS = Path(__file__).parent / "counter_reasons.csv"
#: Enough for counts that do not vary much from block to block.
BUDGET = Budget(sample_seconds=0.5)
TOLERANCE = 0.1
#: Where one side counts nothing: fewer than this may be counted that are not the kernel's.
NOISE = 64
UNEXPLAINED = "not explained"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One counter of one launch: ours over the measured one."""

    source: str
    counter: str
    kernel: str
    gpu: str
    size: str
    ours: float
    measured: float

    @property
    def value(self) -> float:
        """Ours over measured; infinite where we count what the profiler saw nothing of."""
        return self.ours / self.measured if self.measured else math.inf


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one case; ``refused`` says why there is nothing."""

    case: Case
    ratios: tuple[Ratio, ...]
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why counters are off; an empty field stands for all."""

    source: str
    counter: str
    kernel: str
    text: str


@dataclass(frozen=True, slots=True)
class Target:
    """The median error that some counters may have on some sources."""

    label: str
    limit: float
    sources: tuple[str, ...]
    """beginnings of their names"""
    counters: tuple[str, ...]
    is_total: bool = False
    """whether the counters of a launch are added first"""


_ALL, _OLD = ("",), ("Kepler", "Maxwell")
_L2 = ("L2 sectors read", "L2 sectors written")
_READ, _WRITTEN = "DRAM sectors read", "DRAM sectors written"
TARGETS = (
    Target("FLOPs, all GPUs", 0.05, _ALL, ("FP32 FLOPs", "FP64 FLOPs")),
    Target("global load and store requests, all GPUs", 0.05, _ALL, ("global load requests", "global store requests")),
    Target("executed instructions, estimated: Kepler, Maxwell", 0.2, _OLD, ("warp instructions",)),
    Target("executed instructions, disassembled: Turing", 0.1, ("Turing",), ("warp instructions",)),
    Target("L2 sectors read and written: Kepler, Maxwell", 0.1, _OLD, _L2),
    Target("L2 sectors read and written: Turing", 0.1, ("Turing",), _L2),
    Target("DRAM bytes: Kepler, Maxwell", 0.15, _OLD, (_READ, f"{_WRITTEN}, and left in L2"), is_total=True),
    Target("DRAM bytes: Turing", 0.15, ("Turing",), (_READ, _WRITTEN), is_total=True),
    Target("DRAM bytes: Ampere", 0.15, ("Ampere",), ("DRAM bytes",)),
)


def main() -> None:
    """Print the tables; progress on stderr."""
    cases = read_cases()
    if not cases:
        sys.exit("skipped: the measurements are not here (../shared/data)")
    results = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for number, result in enumerate(pool.map(score, cases), 1):
            print(f"\r{number} of {len(cases)} launches", end="", file=sys.stderr, flush=True)
            results.append(result)
    print("\r", end="", file=sys.stderr)
    ratios = [ratio for result in results for ratio in result.ratios]
    print(targets(ratios))
    print()
    print(summary(ratios))
    print()
    print(deviations(ratios, read_reasons()))
    for result in results:
        if result.refused:
            print(f"\nRefused: {result.case.kernel} {result.case.size} on {result.case.gpu}: {result.refused}")


def score(case: Case) -> Result:
    """Profile a launch and hold every counter that was measured against ours."""
    try:
        gpu = kerncast.load_gpu(case.gpu)
        profile = profile_launch(case.launch, gpu=gpu, budget=BUDGET)
    except KerncastError as error:
        return Result(case, (), str(error))
    metrics = {each.name: each.count.value for each in metrics_of(profile, gpu)}
    return Result(case, tuple(compare(case, metrics)))


def compare(case: Case, metrics: Metrics) -> Iterable[Ratio]:
    """Yield the counters of a case that both sides have; where neither counts anything there is no ratio."""
    for counter in COUNTERS[case.source]:
        found = [value for name in counter.measured if (value := case.counter(name)) is not None]
        ours = counter.value(metrics)
        if ours is not None and found and (min(ours, sum(found)) > 0 or max(ours, sum(found)) >= NOISE):
            yield Ratio(case.source, counter.name, case.kernel, case.gpu, case.size, ours, sum(found))


def targets(ratios: Sequence[Ratio]) -> str:
    """Return a row per target."""
    lines = ["| counter | target | median error | within 10 % | n |", "|---|---|---|---|---|"]
    for target in TARGETS:
        chosen = [r for r in ratios if r.source.startswith(target.sources) and r.counter in target.counters]
        if target.is_total:
            chosen = _totals(chosen)
        if chosen:
            errors = np.abs(np.array([r.value for r in chosen]) - 1)
            share = (errors <= TOLERANCE).mean()
            lines.append(
                f"| {target.label} | {target.limit:.0%} | {_percent(np.median(errors))} | {share:.0%} | {len(chosen)} |"
            )
    return "\n".join(lines)


def _totals(ratios: Sequence[Ratio]) -> list[Ratio]:
    """Return one ratio per launch, of the sums of its counters."""
    launches: dict[tuple[str, str, str, str], list[Ratio]] = {}
    for each in ratios:
        launches.setdefault((each.source, each.kernel, each.gpu, each.size), []).append(each)
    return [
        replace(group[0], ours=sum(r.ours for r in group), measured=sum(r.measured for r in group))
        for group in launches.values()
    ]


def _percent(error: "float | np.floating[Any]") -> str:
    return f"{error:.1%}" if math.isfinite(error) else "∞"


def summary(ratios: Sequence[Ratio]) -> str:
    """Return a row per source and counter."""
    lines = [
        "| measured on | counter | n | median ours / measured | median error | 90th percentile | within 10 % |",
        "|---|---|---|---|---|---|---|",
    ]
    for source, counters in COUNTERS.items():
        for counter in counters:
            values = np.array([r.value for r in ratios if (r.source, r.counter) == (source, counter.name)])
            if values.size:
                errors = np.abs(values - 1)
                median, most = _percent(np.median(errors)), _percent(np.quantile(errors, 0.9, method="higher"))
                middle = f"{np.median(values):.3f}".replace("inf", "∞")
                lines.append(
                    f"| {source} | {counter.name} | {values.size} | {middle} | {median} | {most} |"
                    f" {(errors <= TOLERANCE).mean():.0%} |"
                )
    return "\n".join(lines)


def deviations(ratios: Sequence[Ratio], reasons: Sequence[Reason]) -> str:
    """Return a row per source and reason, with what is off by more than 10 % for it."""
    grouped: dict[tuple[str, str, str], list[Ratio]] = {}
    for ratio in ratios:
        if abs(ratio.value - 1) > TOLERANCE:
            why = reason(reasons, ratio)
            unclear = f"{ratio.counter} {ratio.kernel}" if why == UNEXPLAINED else ""
            grouped.setdefault((ratio.source, why, unclear), []).append(ratio)
    lines = ["| measured on | counters | kernels | off | ratios | reason |", "|---|---|---|---|---|---|"]
    for (source, why, _), off in sorted(grouped.items(), key=lambda item: list(COUNTERS).index(item[0][0])):
        counters, kernels = (
            ", ".join(dict.fromkeys(names)) for names in zip(*((r.counter, r.kernel) for r in off), strict=True)
        )
        values = [r.value for r in off]
        lines.append(f"| {source} | {counters} | {kernels} | {len(off)} | {_range(min(values), max(values))} | {why} |")
    return "\n".join(lines)


def _range(low: float, high: float) -> str:
    return f"{low:.2f} to {high:.2f}".replace("inf", "∞")


def reason(reasons: Sequence[Reason], ratio: Ratio) -> str:
    """Return the first reason whose source, counter and kernel fit; an empty field fits everything."""
    names = (ratio.source, ratio.counter, ratio.kernel)
    for each in reasons:
        if all(
            wanted in {"", name} for wanted, name in zip((each.source, each.counter, each.kernel), names, strict=True)
        ):
            return each.text
    return UNEXPLAINED


def read_reasons(file: Path = REASONS) -> list[Reason]:
    """Read the reasons that were found by looking at each."""
    with file.open(encoding="utf-8", newline="") as text:
        rows = csv.DictReader(text)
        return [Reason(row["measured_on"], row["counter"], row["kernel"], row["reason"]) for row in rows]


if __name__ == "__main__":
    main()
