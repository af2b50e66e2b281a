"""Score forecasts from measured times alone: no source, no counters, no launch.

    python benchmarks/score_times.py [--full] [--write]

Of each set: every ordered pair of GPUs, the same within a generation, and the times of all other GPUs. Priors and
variances are estimated without the kernel that is scored; without OpenCL's matrix product always. Beside: the time
scaled by SMs x clock, by SMs x lanes x clock and by DRAM bandwidth, and the best constant for each pair of GPUs, which
is fitted to the times that it is scored on. ``--write`` estimates the priors and writes
``data/calibration/times.toml``.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from projection_cases import LEAST_SOURCE_SECONDS
from scipy.stats import spearmanr
from times_cases import FITTED, GEMM, Launched, read_launched
from times_priors import document, fit

import kerncast
from kerncast.gpu import GPU
from kerncast.measurements import Observation, TimedKernel
from kerncast.models import Question
from kerncast.models.transfer.times import Priors, Times
from kerncast.prediction import Timing

FILE = Path(kerncast.__path__[0]) / "data" / "calibration" / "times.toml"
#: Fewer launches of a pair of GPUs tell nothing of the order of configurations.
_LEAST_RANKED = 10
_BASELINES: dict[str, Callable[[GPU], float]] = {
    "SMs x clock": lambda gpu: gpu.sm_count * gpu.clock_hz,
    "FP32 peak": lambda gpu: gpu.peak_fp32_flops_per_s,
    "DRAM peak": lambda gpu: gpu.dram_bytes_per_s,
}


@dataclass(frozen=True, slots=True)
class Scored:
    """One forecast of a time that was measured."""

    family: str
    sources: tuple[Observation, ...]
    target: Observation
    seconds: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Absolute error over the measured time."""
        return abs(self.seconds / self.target.seconds - 1)

    @property
    def pair(self) -> tuple[str, str]:
        """The two GPUs of a forecast from one time."""
        return self.sources[0].gpu.id, self.target.gpu.id


def main() -> None:
    """Estimate the priors; print the table, or write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--full", action="store_true", help="score every launch, not a sample")
    parser.add_argument("--write", action="store_true", help="write the priors of all sets but the matrix product")
    asked = parser.parse_args()
    trained = read_launched(FITTED, full=True)
    if not trained:
        print("score_times.py: ../shared/data is not here: nothing is scored.", file=sys.stderr)
        return
    priors = fit(trained)
    if asked.write:
        FILE.write_text(document(priors, FITTED), encoding="utf-8")
    print(f"Priors from all trained sets: {priors}\n")
    print(report(trained, full=asked.full))


def report(trained: Sequence[Launched], *, full: bool) -> str:
    """Return a line for each set and each kind of evidence."""
    without: dict[str, Priors] = {}
    scores = "n | MAPE | median | p90 | in interval | high / low | Spearman"
    others = "SMs x clock | FP32 peak | DRAM peak | best constant"
    lines = [f"| set | evidence | {scores} | {others} |", "|---" * 13 + "|"]
    sets = [(name, read_launched([name], full=full)) for name in (GEMM, *FITTED)]
    sets.insert(1, (f"{GEMM}, clocks unknown", read_launched([GEMM], full=full, nominal=True)))
    for name, launched in sets:
        for each in launched:
            if each.family not in without:
                without[each.family] = fit(trained, [each.family])
        kinds = {
            "one time": list(one_time(launched, without)),
            "one time, other generation": list(one_time(launched, without, in_generation=False)),
            "one time, one generation": list(one_time(launched, without, in_generation=True)),
            "all other GPUs": list(all_others(launched, without)),
        }
        lines += [f"| {name} | {kind} | {cells(scored)} |" for kind, scored in kinds.items() if scored]
    return "\n".join(lines)


def one_time(
    launched: Iterable[Launched], priors: dict[str, Priors], *, in_generation: bool | None = None
) -> Iterator[Scored]:
    """Forecast each launch from its time on each other GPU."""
    for each in launched:
        for source in each.times:
            if source.seconds <= LEAST_SOURCE_SECONDS:
                continue
            for target in each.times:
                is_same = _generation(source) == _generation(target)
                if source is not target and in_generation in {None, is_same}:
                    yield forecast(each, (source,), target, priors[each.family])


def all_others(launched: Iterable[Launched], priors: dict[str, Priors]) -> Iterator[Scored]:
    """Forecast each launch from its times on all other GPUs, at least two."""
    for each in launched:
        for target in each.times:
            others = tuple(time for time in each.times if time is not target and time.seconds > LEAST_SOURCE_SECONDS)
            if len(others) > 1:
                yield forecast(each, others, target, priors[each.family])


def _generation(time: Observation) -> int:
    return time.gpu.architecture.number // 10


def forecast(launched: Launched, sources: tuple[Observation, ...], target: Observation, priors: Priors) -> Scored:
    """Return the forecast of one time from others."""
    known = TimedKernel(launched.family, 0, sources)
    found = Times(priors).predict_timed(known, target.gpu, Question(target.timing or Timing.SERIES))
    return Scored(launched.family, sources, target, found.seconds, found.low, found.high)


def cells(scored: Sequence[Scored]) -> str:
    """Return the scores of some forecasts; baselines where each is from one time."""
    errors = np.array([each.error for each in scored])
    inside = np.mean([each.low <= each.target.seconds <= each.high for each in scored])
    width = np.median([each.high / each.low for each in scored])
    found = f"{len(scored)} | {errors.mean():.1%} | {np.median(errors):.1%} | {np.quantile(errors, 0.9):.1%}"
    found += f" | {inside:.0%} | {width:.2f}"
    if any(len(each.sources) > 1 for each in scored):
        return found + " | – " * 5
    others = [f"{_scaled(scored, rate):.1%}" for rate in _BASELINES.values()]
    return " | ".join([found, _ranks(scored), *others, f"{_best_constant(scored):.1%}"])


def _scaled(scored: Sequence[Scored], rate: Callable[[GPU], float]) -> float:
    """Return the mean error of times that are scaled by one rate."""
    ratios = [rate(each.sources[0].gpu) / rate(each.target.gpu) for each in scored]
    times = [each.sources[0].seconds / each.target.seconds for each in scored]
    return float(np.mean(np.abs(np.multiply(ratios, times) - 1)))


def _pairs(scored: Sequence[Scored]) -> Iterator[list[Scored]]:
    groups: dict[tuple[str, str], list[Scored]] = {}
    for each in scored:
        groups.setdefault(each.pair, []).append(each)
    yield from groups.values()


def _best_constant(scored: Sequence[Scored]) -> float:
    """Return the mean error with the factor for each pair of GPUs that makes it least: a weighted median."""
    errors: list[float] = []
    for group in _pairs(scored):
        times = np.sort([each.sources[0].seconds / each.target.seconds for each in group])
        factor = 1 / times[np.searchsorted(np.cumsum(times), times.sum() / 2)]
        errors += np.abs(factor * times - 1).tolist()
    return float(np.mean(errors))


def _ranks(scored: Sequence[Scored]) -> str:
    """Return Spearman's correlation of forecast and measured times of a kernel, mean over pairs of GPUs."""
    found = []
    for group in _pairs(scored):
        for family in {each.family for each in group}:
            own = [each for each in group if each.family == family]
            if len(own) >= _LEAST_RANKED:
                found.append(spearmanr([e.seconds for e in own], [e.target.seconds for e in own]).statistic)
    return f"{np.mean(found):.3f}" if found else "–"


if __name__ == "__main__":
    main()
