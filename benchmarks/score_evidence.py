"""Score forecasts that measured times have moved, and estimate how far a time is carried over to other launches.

    python benchmarks/score_timing.py --json scores.json
    python benchmarks/score_evidence.py scores.json ... [--write]

Of each set: the simulation alone; with one time of the same launch on another GPU (every ordered pair); with the times
of all other GPUs; with a time of another size on the target; with times of three other kernels on the target. The
variances of the effects are estimated without the family that is scored, and without both GPUs where one time is
carried over. ``--write`` estimates them from all trained sets and writes ``data/calibration/evidence.toml``.
"""

import argparse
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from projection_cases import LEAST_SOURCE_SECONDS
from timing_runs import load_known

import kerncast
from kerncast.models import Calibration, calibration_of
from kerncast.models.base import FOREIGN_CODE_LOG_SIGMA, Estimate, widened
from kerncast.models.calibration import normal_deviations
from kerncast.models.transfer.posterior import Effects, Posterior, Residual, Subject, shares_of
from kerncast.prediction import Term
from kerncast.studies.evidence import Pair, Pairs

FILE = Path(kerncast.__path__[0]) / "data" / "calibration" / "evidence.toml"
MODEL = "simulation"
LEVEL = 0.9
#: Scored, never fitted: the licence of one allows no table or model made from its rows to be part of the project, and
#: the bandwidths of the other are among the facts of its GPUs.
NOT_TRAINED = {"sixteen", "streams"}
#: Sets that time one kernel in different builds.
SAME_KERNEL = {"convolution-2023": "convolution", "convolution-2025": "convolution", "convolution-ktt": "convolution"}
_SEED, _OTHER_KERNELS, _MOST_PER_KERNEL = 20261122, 3, 12
#: What no likelihood of these pairs tells. A kernel on several generations of one era: only convolutions are among the
#: sets, and alone would tell 0.002. On other suites' kernels, on GPUs of Turing and Ampere, half of a residual and more
#: is carried over (projection study of this project, last section); 0.006 carries over 0.4. A size that differs by 2^8
#: counts for 1/e; 1 % of spread; the width of intervals, so that nine of ten kernels' times lie inside.
_LIKE = Effects(0, 0.006, 0, 0, 0, 0, 0, 0, 0, unseen=0, doublings=8.0, measurement=1e-4, body=1.0)


@dataclass(frozen=True, slots=True)
class Timed:
    """One measured launch, with how far the simulation was off."""

    set: str
    family: str
    gpu: str
    seconds: float
    residual: Residual

    @property
    def log_factor(self) -> float:
        """Logarithm of the factor of the interval without evidence."""
        subject = self.residual.subject
        own = _calibration().factor(LEVEL, _calibration().width(dict(subject.shares)))
        return math.log(widened(own, FOREIGN_CODE_LOG_SIGMA, LEVEL) if subject.is_unseen else own)


@dataclass(frozen=True, slots=True)
class Scored:
    """One forecast with some evidence."""

    timed: Timed
    log_forecast_over_measured: float
    log_half_width: float

    @property
    def error(self) -> float:
        """Absolute error over the measured time."""
        return abs(math.exp(self.log_forecast_over_measured) - 1)

    @property
    def is_inside(self) -> bool:
        """Whether the interval holds the measured time."""
        return abs(self.log_forecast_over_measured) <= self.log_half_width


def main() -> None:
    """Read the scores; print the tables, or write the effects."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("scores", nargs="+", type=Path, help="what score_timing.py --json wrote")
    parser.add_argument("--write", action="store_true", help="write the effects of all trained sets")
    asked = parser.parse_args()
    every = [timed for file in asked.scores for timed in read_timed(json.loads(file.read_text(encoding="utf-8")))]
    effects = Without(every)
    if asked.write:
        FILE.write_text(document(effects(), every), encoding="utf-8")
    print(f"Effects from all trained sets: {effects()}\n")
    print(report(every, effects))


def read_timed(rows: Iterable[Mapping[str, Any]]) -> Iterator[Timed]:
    """Return the cases that the simulation has forecast."""
    for row in rows:
        found = row["forecasts"].get(MODEL)
        if not found:
            continue
        gpu = load_known(row["gpu"])
        family = SAME_KERNEL.get(row["set"], f"{row['set']} {row['kernel']}")
        terms = tuple(Term(name, seconds) for name, seconds in found["terms"].items())
        seconds = found["seconds"]
        shares = shares_of(Estimate(seconds, found["limiter"], terms, seconds, seconds))
        subject = Subject(
            # Another build is another kernel.
            f"{family} {sorted(row['defines'].items())}"
            + f" spills on {gpu.architecture.id}" * row.get("spills", False),
            f"{row['set']} {row['kernel']} {row['size']}",
            f"{row['gpu']} {row['set']}",  # another board, at another clock
            gpu.architecture.number,
            gpu.architecture.microarchitecture,
            math.prod(row["grid"]) * math.prod(row["block"]),
            shares,
            is_unseen=not _calibration().has_seen(gpu),
        )
        error = math.log(row["measured_seconds"] / seconds)
        residual = Residual(subject, error, _LIKE.measurement)
        yield Timed(row["set"], family, row["gpu"], row["measured_seconds"], residual)


class Without:
    """Effects estimated without some families and GPUs; each estimate is made once."""

    def __init__(self, every: Sequence[Timed]) -> None:
        trained = [timed for timed in every if timed.set not in NOT_TRAINED]
        pairs = list(pairs_of(trained))
        self._pairs = Pairs([timed.residual for timed in trained], pairs, _LIKE)
        ends = [(trained[each.known], trained[each.wanted]) for each in pairs]
        self._families = [{known.family, wanted.family} for known, wanted in ends]
        self._gpus = [{known.gpu, wanted.gpu} for known, wanted in ends]
        self._known: dict[tuple[frozenset[str], frozenset[str]], Effects] = {}

    def __call__(self, families: Iterable[str] = (), gpus: Iterable[str] = ()) -> Effects:
        """Return the effects of all trained cases but those of some families and those on some GPUs."""
        key = frozenset(families), frozenset(gpus)
        if key not in self._known:
            used = [
                not key[0] & families and not key[1] & gpus
                for families, gpus in zip(self._families, self._gpus, strict=True)
            ]
            self._known[key] = with_unseen(self._pairs.fit(np.array(used)))
        return self._known[key]


def with_unseen(effects: Effects) -> Effects:
    """Return effects with the variance of an unseen microarchitecture: as much of the interval's width as there."""
    usual = math.log(_calibration().factor(LEVEL)) / normal_deviations(LEVEL)
    return replace(effects, unseen=effects.prior * (FOREIGN_CODE_LOG_SIGMA / usual) ** 2)


def pairs_of(timed: Sequence[Timed]) -> Iterator[Pair]:
    """Yield pairs: one launch on two GPUs, two sizes on one GPU, two kernels on one GPU.

    Each of the three kinds has its weight, within it each set, and within that each family.
    """
    order = random.Random(_SEED)  # noqa: S311  a sample, no secret
    kinds: list[tuple[float, list[tuple[int, int]]]] = [
        (weight, list(_ends(timed, key, order, most))) for weight, key, most in _KINDS
    ]
    for weight, ends in kinds:
        rows = Counter((timed[wanted].set, timed[wanted].family) for _, wanted in ends)
        families = Counter(of for of, _ in rows)
        for known, wanted in ends:
            of, family = timed[wanted].set, timed[wanted].family
            yield Pair(known, wanted, weight / (rows[of, family] * families[of] * len(families)))


def _ends(
    timed: Sequence[Timed], key: Callable[[Timed], tuple[object, object]], order: random.Random, most: int
) -> Iterator[tuple[int, int]]:
    """Yield ends of pairs with one first part of the key and two second ones, so many per wanted launch."""
    groups: dict[object, list[int]] = {}
    for number, each in enumerate(timed):
        groups.setdefault(key(each)[0], []).append(number)
    for group in groups.values():
        for wanted in group:
            others = [
                known
                for known in group
                if key(timed[known])[1] != key(timed[wanted])[1] and timed[known].seconds > LEAST_SOURCE_SECONDS
            ]
            yield from ((known, wanted) for known in order.sample(others, min(most, len(others))))


#: Weight of a kind of pairs; what both launches share, and what differs; most pairs for a launch.
_KINDS: tuple[tuple[float, Callable[[Timed], tuple[object, object]], int], ...] = (
    (1.0, lambda timed: (timed.residual.subject.launch, timed.gpu), 100),
    (0.5, lambda timed: ((timed.residual.subject.gpu_id, timed.family), timed.residual.subject.launch), 3),
    (0.5, lambda timed: (timed.residual.subject.gpu_id, timed.family), 3),
)


Find = Callable[[Sequence[Timed], Callable[..., Effects]], Iterator[Scored]]


def report(every: Sequence[Timed], effects: Without) -> str:
    """Return a line for each set and each kind of evidence."""
    kinds: dict[str, Find] = {
        "none": alone,
        "one time on another GPU": one_time,
        "the same, one generation": partial(one_time, in_generation=True),
        "all other GPUs": all_others,
        "another size on the target": another_size,
        "three other kernels on the target": three_kernels,
    }
    lines = [
        "| set | evidence | n | MAPE | median APE | without | in interval | by kernel | high / low |", "|---" * 9 + "|",
    ]  # fmt: skip
    for of in dict.fromkeys(timed.set for timed in every):
        chosen = [timed for timed in every if timed.set == of]
        lines += [f"| {of} | {name} | {cells(list(find(chosen, effects)))} |" for name, find in kinds.items()]
    return "\n".join(line for line in lines if not line.endswith("| 0 |"))


def cells(scored: Sequence[Scored]) -> str:
    """Return the scores of some forecasts; ``without`` is the error of the simulation on the same cases."""
    if not scored:
        return "0"
    errors = [each.error for each in scored]
    before = [abs(math.exp(-each.timed.residual.log_error) - 1) for each in scored]
    families = defaultdict(list)
    for each in scored:
        families[each.timed.family].append(each.is_inside)
    by_kernel = np.mean([np.mean(found) for found in families.values()])
    width = math.exp(2 * float(np.median([each.log_half_width for each in scored])))
    inside = np.mean([each.is_inside for each in scored])
    return (
        f"{len(scored)} | {np.mean(errors):.1%} | {np.median(errors):.1%} | {np.mean(before):.1%} | {inside:.0%}"
        f" | {by_kernel:.0%} | {width:.2f}"
    )


def forecast(target: Timed, evidence: Sequence[Timed], effects: Effects) -> Scored:
    """Return the forecast of one case with some evidence."""
    found = Posterior([each.residual for each in evidence], effects).of(target.residual.subject)
    return Scored(target, found.log_error - target.residual.log_error, found.width * target.log_factor)


def _calibration() -> Calibration:
    found = calibration_of(MODEL)
    assert found is not None
    return found


def alone(chosen: Sequence[Timed], effects: Callable[..., Effects]) -> Iterator[Scored]:
    """Forecast each case by the simulation alone."""
    del effects
    for timed in chosen:
        yield Scored(timed, -timed.residual.log_error, timed.log_factor)


def one_time(
    chosen: Sequence[Timed], effects: Callable[..., Effects], *, in_generation: bool = False
) -> Iterator[Scored]:
    """Forecast each case from the same launch on each other GPU."""
    for launch in _grouped(chosen, lambda timed: timed.residual.subject.launch):
        for source in launch:
            if source.seconds <= LEAST_SOURCE_SECONDS:
                continue
            for target in launch:
                if source is not target and (not in_generation or _generation(source) == _generation(target)):
                    known = effects((source.family,), (source.gpu, target.gpu))
                    yield forecast(target, [source], known)


def _generation(timed: Timed) -> int:
    return timed.residual.subject.capability // 10


def all_others(chosen: Sequence[Timed], effects: Callable[..., Effects]) -> Iterator[Scored]:
    """Forecast each case from the same launch on all other GPUs, at least two."""
    for launch in _grouped(chosen, lambda timed: timed.residual.subject.launch):
        for target in launch:
            others = [each for each in launch if each is not target]
            if len(others) > 1:
                yield forecast(target, others, effects((target.family,)))


def another_size(chosen: Sequence[Timed], effects: Callable[..., Effects]) -> Iterator[Scored]:
    """Forecast each case from another launch of its kernel on the same GPU."""
    order = random.Random(_SEED)  # noqa: S311  a sample, no secret
    for group in _grouped(chosen, lambda timed: (timed.residual.subject.gpu_id, timed.family)):
        for target in group:
            others = [each for each in group if each is not target]
            if others:
                yield forecast(target, [order.choice(others)], effects((target.family,)))


def three_kernels(chosen: Sequence[Timed], effects: Callable[..., Effects]) -> Iterator[Scored]:
    """Forecast cases from one launch each of three other kernels on the same GPU."""
    order = random.Random(_SEED)  # noqa: S311  a sample, no secret
    for group in _grouped(chosen, lambda timed: timed.residual.subject.gpu_id):
        families = defaultdict(list)
        for timed in group:
            families[timed.family].append(timed)
        for family, targets in families.items():
            others = sorted(families.keys() - {family})
            for target in targets[:_MOST_PER_KERNEL] if len(others) >= _OTHER_KERNELS else ():
                chosen_families = order.sample(others, _OTHER_KERNELS)
                evidence = [order.choice(families[name]) for name in chosen_families]
                yield forecast(target, evidence, effects((family,)))


def _grouped(items: Iterable[Timed], key: Callable[[Timed], object]) -> list[list[Timed]]:
    groups: dict[object, list[Timed]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def document(effects: Effects, every: Sequence[Timed]) -> str:
    """Return the text of the effects' file."""
    trained = [timed for timed in every if timed.set not in NOT_TRAINED]
    sets = ", ".join(sorted({timed.set for timed in trained}))
    counts = len(trained), len({timed.family for timed in trained}), len({timed.gpu for timed in trained})
    lines = [
        "# Variances of the effects in ln(measured / simulated); models/transfer/posterior.py says what each is,",
        "# benchmarks/score_evidence.py writes them and says which are given. Estimated by studies/evidence.py from",
        "# {} launches of {} kernels on {} GPUs, of the sets".format(*counts),
        f"# {sets}.",
        "# Sources: gpuperfpredict (Amaris et al., CC BY 4.0); a published model's convolution layer;",
        "# gpuFLOPBench (MIT); RAJA Performance Suite, LLNL/thicket (MIT); Kernel Tuner and the Kernel Tuning",
        "# Toolkit, benchmark_hub (MIT).",
        "version = 1",
        "",
        "[effects]",
    ]
    return "\n".join([*lines, *(f"{name} = {getattr(effects, name):.6g}" for name in Effects.__slots__), ""])


if __name__ == "__main__":
    main()
