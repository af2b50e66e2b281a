"""Estimates the priors and variances of forecasts from times alone (``models/transfer/times.py``).

The likelihood of a launch's times on n GPUs is a mixture over what limits it; the unknown level, of which nothing is
known before, is integrated out (restricted likelihood). Launches are weighted so that each kernel counts as one, and
each set of a kernel alike. Probabilities by expectation and maximisation, with one kernel in favour of each hypothesis
before any is seen (Laplace's rule of succession); variances by the method of Nelder and Mead.

Source: Dempster, Laird, Rubin, JRSS B 39, 1977 (EM); Harville, JASA 72, 1977 (restricted likelihood).
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from projection_cases import LEAST_SOURCE_SECONDS
from scipy.optimize import minimize, minimize_scalar
from times_cases import Launched

from kerncast.gpu import GPU
from kerncast.models.transfer.posterior import era_of
from kerncast.models.transfer.times import RESOURCES, Priors, body_of, log_rates, shared_variance
from kerncast.prediction import Timing
from kerncast.remembered import remembered

Floats = npt.NDArray[np.float64]

_MOST_PER_KERNEL, _SEED = 150, 20261123
_ROUNDS, _STEPS = 4, 8
#: What no set tells: none has an FP64 kernel on several GPUs; 1 % of spread without a stated one; and, of the form of
#: its prior, from which size on latency does not limit: it does with half of the kernels that take less than 0.1 ms on
#: a GPU of Kepler, 5 million issue slots, and with one in fifty of longer ones.
_FP64, _MEASUREMENT, _LATENCY_SLOTS = 0.01, 1e-4, 5e6
_START = Priors(
    *(0.165,) * 5, fp64=_FP64, latency=0.3, latency_slots=_LATENCY_SLOTS,
    era=0.05, generation=0.02, gpu=0.005, measurement=_MEASUREMENT, kernels=0, launches=0,
)  # fmt: skip
_FILLING = [RESOURCES.index(name) for name in RESOURCES if name not in {"fp64", "latency"}]
_LATENCY = RESOURCES.index("latency")


@dataclass(frozen=True, slots=True)
class _Group:
    """Launches of one kernel and set that were timed on the same GPUs."""

    family: str
    gpus: tuple[GPU, ...]
    times: Floats
    """[launches, GPUs] ln(seconds)"""
    weight: float
    """of each launch"""


def fit(launched: Sequence[Launched], without: Iterable[str] = ()) -> Priors:
    """Return the priors and variances by all launches but those of some kernels."""
    left_out = set(without)
    groups = _groups([each for each in launched if each.family not in left_out])
    priors = _START
    for _ in range(_ROUNDS):
        for _ in range(_STEPS):
            priors = _with_probabilities(groups, priors)
        priors = _with_variances(groups, priors)
    return replace(
        priors,
        kernels=len({group.family for group in groups}),
        launches=sum(len(group.times) for group in groups),
    )


def _groups(launched: Sequence[Launched]) -> list[_Group]:
    order = random.Random(_SEED)  # noqa: S311  a sample, no secret
    by_kernel: dict[tuple[str, str], list[Launched]] = {}
    for each in launched:
        by_kernel.setdefault((each.family, each.set), []).append(each)
    sets = Counter(family for family, _ in by_kernel)
    found = []
    for (family, _), every in by_kernel.items():
        taken = order.sample(every, min(_MOST_PER_KERNEL, len(every)))
        alike: dict[tuple[tuple[str, float], ...], list[Launched]] = {}
        for each in taken:
            times = tuple(time for time in each.times if time.seconds > LEAST_SOURCE_SECONDS)
            if len(times) > 1:
                key = tuple((time.gpu.id, time.gpu.clock_hz) for time in times)
                alike.setdefault(key, []).append(replace(each, times=times))
        weight = 1 / sets[family] / max(1, sum(map(len, alike.values())))
        for rows in alike.values():
            gpus = tuple(time.gpu for time in rows[0].times)
            bodies = [[body_of(time, Timing.SINGLE).log_seconds for time in row.times] for row in rows]
            found.append(_Group(family, gpus, np.array(bodies), weight))
    return found


def _likelihood(group: _Group, priors: Priors) -> Floats:
    """Return [launches, resources] the logarithms of prior times restricted likelihood."""
    rates = _rates(group.gpus)
    shared = np.array([[shared_variance(one, other, priors) for other in group.gpus] for one in group.gpus])
    inverse = np.linalg.inv(shared + priors.measurement * np.eye(len(shared)))
    ones = inverse.sum(axis=1)
    above = group.times[:, :, None] + rates[None]  # [launches, GPUs, resources]
    rest = above - np.einsum("i,lik->lk", ones, above)[:, None, :] / ones.sum()
    misfit = np.einsum("lik,ij,ljk->lk", rest, inverse, rest)
    scale = np.linalg.slogdet(inverse)[1] - np.log(ones.sum())
    found: Floats = priors.log_of(_log_slots(group)) - misfit / 2 + scale / 2
    return found


def _log_slots(group: _Group) -> Floats:
    """Return [launches] ln of the issue slots of the whole GPU that a launch takes, mean over the GPUs."""
    found: Floats = (group.times + _rates(group.gpus)[:, RESOURCES.index("issue")]).mean(axis=1)
    return found


@remembered(256)
def _rates(gpus: tuple[GPU, ...]) -> Floats:
    return np.array([log_rates(gpu) for gpu in gpus])


def _responsibilities(group: _Group, priors: Priors) -> Floats:
    """Return [launches, resources] the probabilities of the hypotheses."""
    logs = _likelihood(group, priors)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    found: Floats = shares / shares.sum(axis=1, keepdims=True)
    return found


def _with_probabilities(groups: Sequence[_Group], priors: Priors) -> Priors:
    shares = [_responsibilities(group, priors) for group in groups]
    counts = 1.0 + sum(group.weight * each.sum(axis=0) for group, each in zip(groups, shares, strict=True))
    filling = counts[_FILLING] / counts[_FILLING].sum() * (1 - _FP64)
    falls = [1 / (1 + np.exp(2 * _log_slots(group)) / priors.latency_slots**2) for group in groups]

    def misfit(latency: float) -> float:
        total = np.log(latency) / 2 + np.log1p(-latency) / 2
        for group, each, fall in zip(groups, shares, falls, strict=True):
            own = each[:, _LATENCY]
            total += group.weight * (own * np.log(latency * fall) + (1 - own) * np.log1p(-latency * fall)).sum()
        return float(-total)

    latency = float(minimize_scalar(misfit, bounds=(0.01, 0.95), method="bounded").x)
    dram, l2, issue, mixed, fp32 = map(float, filling)  # in the order of RESOURCES
    return replace(priors, latency=latency, dram=dram, l2=l2, issue=issue, mixed=mixed, fp32=fp32)


def _with_variances(groups: Sequence[_Group], priors: Priors) -> Priors:
    of = _variances_of(groups)

    def misfit(logs: Floats) -> float:
        known = of(priors, logs)
        total = 0.0
        for group in groups:
            each = _likelihood(group, known)
            most = each.max(axis=1, keepdims=True)
            total += group.weight * float((most[:, 0] + np.log(np.exp(each - most).sum(axis=1))).sum())
        return -total

    start = np.log([priors.gpu, priors.generation, priors.era])
    return of(priors, minimize(misfit, start, method="Nelder-Mead", options={"maxiter": 120}).x)


def _variances_of(groups: Sequence[_Group]) -> Callable[[Priors, Floats], Priors]:
    """Return how variances follow from their logarithms; one that no group tells lies between the two others."""
    numbers = [[gpu.architecture.number for gpu in group.gpus] for group in groups]
    tells = any(len({n // 10 for n in each}) > len({era_of(n) for n in each}) for each in numbers)

    def of(priors: Priors, logs: Floats) -> Priors:
        gpu, generation, era = map(float, np.exp(logs))
        return replace(priors, gpu=gpu, generation=generation if tells else float(np.sqrt(gpu * era)), era=era)

    return of


def document(priors: Priors, sets: Iterable[str]) -> str:
    """Return the text of the priors' file."""
    lines = [
        "# Priors and variances of forecasts from times alone; models/transfer/times.py says what each is,",
        "# benchmarks/score_times.py --write estimates them, and says which are given, from the sets",
        f"# {', '.join(sets)}.",
        "# Sources: gpuperfpredict (Amaris et al., CC BY 4.0); Kernel Tuner and the Kernel Tuning Toolkit,",
        "# benchmark_hub (MIT).",
        "version = 1",
        f"kernels = {priors.kernels}",
        f"launches = {priors.launches}",
    ]
    parts = (("priors", (*RESOURCES, "latency_slots")), ("variances", ("era", "generation", "gpu", "measurement")))
    for part, names in parts:
        lines += ["", f"[{part}]", *(f"{name} = {getattr(priors, name):.4g}" for name in names)]
    return "\n".join([*lines, ""])
