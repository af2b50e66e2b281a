"""Projections beside measured times: the rules of thumb that models must beat, classes of GPU pairs, scores."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kerncast.gpu import GPU
from kerncast.models import Case
from kerncast.models.transfer.measured_run import float_mixes_of
from kerncast.profiles import Count, KernelProfile
from kerncast.profiles.counts import DRAM_CROSSING

CONSTANT = "constant (fitted)"


@dataclass(frozen=True, slots=True)
class Pair:
    """One launch, timed on two GPUs."""

    set: str
    kernel: str
    size: str
    source: str
    target: str
    source_seconds: float
    seconds: float
    """on the target, measured"""


@dataclass(frozen=True, slots=True)
class Projected:
    """What one model, or rule of thumb, makes of a pair."""

    pair: Pair
    model: str
    seconds: float
    low: float
    """the same as high for rules of thumb, which have no interval"""
    high: float
    limiter: str = ""

    @property
    def ratio(self) -> float:
        """Forecast over measured."""
        return self.seconds / self.pair.seconds


def rules_of_thumb(pair: Pair, case: Case) -> list[Projected]:
    """Return the source's time times some ratio of the two GPUs; data-sheet peaks, at the clocks that they ran at."""
    profile, target = case.profile, case.gpu
    assert profile.run is not None
    source = profile.run.gpu
    rules: list[tuple[str, Callable[[GPU], float]]] = [
        ("DRAM bandwidth", lambda gpu: 1 / gpu.dram_bytes_per_s),
        ("SMs x clock", lambda gpu: 1 / (gpu.sm_count * gpu.clock_hz)),
        ("SMs x lanes x clock", lambda gpu: 1 / gpu.peak_fp32_flops_per_s),
    ]
    if roofline_seconds(profile, source):
        rules.insert(0, ("naive roofline", lambda gpu: roofline_seconds(profile, gpu)))
    found = []
    for name, time in rules:
        seconds = pair.source_seconds * time(target) / time(source)
        found.append(Projected(pair, name, seconds, seconds, seconds))
    return found


def roofline_seconds(profile: KernelProfile, gpu: GPU) -> float:
    """Return the longer of all arithmetic and all DRAM traffic at data-sheet peaks; 0 where neither is known."""
    dram = _value(profile.counts.first(DRAM_CROSSING)) / gpu.dram_bytes_per_s
    peaks = {16: gpu.peak_fp16_flops_per_s, 32: gpu.peak_fp32_flops_per_s, 64: gpu.peak_fp64_flops_per_s}
    compute = sum(
        mix.flops.value / (peaks[mix.bits] or gpu.peak_fp32_flops_per_s) for mix in float_mixes_of(profile) or ()
    )
    return max(dram, compute)


def _value(count: Count | None) -> float:
    return 0.0 if count is None else count.value


def with_constants(projected: Sequence[Projected]) -> list[Projected]:
    """Add what one factor per set and pair of GPUs gives at best: an oracle, fitted on the targets' times."""
    pairs = dict.fromkeys(each.pair for each in projected)
    groups: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.set, pair.source, pair.target), []).append(pair)
    found = list(projected)
    for group in groups.values():
        factor = best_factor([pair.source_seconds for pair in group], [pair.seconds for pair in group])
        for pair in group:
            seconds = factor * pair.source_seconds
            found.append(Projected(pair, CONSTANT, seconds, seconds, seconds))
    return found


def best_factor(source: Sequence[float], target: Sequence[float]) -> float:
    """Return the factor c with the least mean of |c x source / target - 1|: a weighted median.

    >>> best_factor([1.0, 1.0, 1.0], [2.0, 3.0, 100.0])  # 2: errors 0, 1/3, 0.98; 3 would have 0.5, 0, 0.97
    2.0
    """
    ratios = np.array(target) / np.array(source)
    order = np.argsort(ratios)
    weights = np.cumsum(1 / ratios[order])
    return float(ratios[order][int(np.searchsorted(weights, weights[-1] / 2))])


def in_common(projected: Iterable[Projected]) -> list[Projected]:
    """Return the projections of those pairs that every model and rule has one of: all are scored on the same."""
    by_pair: dict[Pair, list[Projected]] = {}
    for each in projected:
        by_pair.setdefault(each.pair, []).append(each)
    most = max((len(found) for found in by_pair.values()), default=0)
    return [each for found in by_pair.values() if len(found) == most for each in found]


def pair_class(source: GPU, target: GPU) -> str:
    """Say how far the two GPUs are from each other."""
    chips = {_chip(source), _chip(target)}
    if len(chips) == 1:
        return f"{chips.pop()}, other boards"
    generations = [_GENERATIONS.get(gpu.architecture.number // 10, "") for gpu in (source, target)]
    if generations[0] == generations[1]:
        return " and ".join(sorted(chips))
    return f"from {generations[0]} to {generations[1]}"


_GENERATIONS = {3: "Kepler", 5: "Maxwell", 7: "Turing", 8: "Ampere"}
_CHIPS = {"k20": "GK110", "k40": "GK110", "gtx-titan": "GK110", "gtx-titan-black": "GK110", "gtx-680": "GK104",
          "gtx-980": "GM204", "gtx-750": "GM107", "rtx-2080-ti": "TU102", "rtx-3090": "GA102"}  # fmt: skip


def _chip(gpu: GPU) -> str:
    return _CHIPS.get(gpu.id, gpu.architecture.code_name)


@dataclass(frozen=True, slots=True)
class Score:
    """How well projections fit."""

    n: int
    mape: float
    """mean absolute percentage error, as a share"""
    median: float
    p90: float
    bias: float
    """geometric mean of forecast / measured"""
    coverage: float | None
    """share of measured times inside the interval; None without intervals"""
    width: float | None
    """median of high / low"""


def score(projected: Sequence[Projected]) -> Score:
    """Return the score of some projections, at least one."""
    ratios = np.array([each.ratio for each in projected])
    errors = np.abs(ratios - 1)
    has_interval = any(each.low < each.high for each in projected)
    inside = sum(each.low <= each.pair.seconds <= each.high for each in projected) / len(projected)
    return Score(
        len(projected),
        float(errors.mean()),
        float(np.median(errors)),
        float(np.quantile(errors, 0.9)),
        math.exp(float(np.log(ratios).mean())),
        inside if has_interval else None,
        float(np.median([each.high / each.low for each in projected])) if has_interval else None,
    )
