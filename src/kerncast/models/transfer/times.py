"""A forecast from measured times alone: without source, without counters, without even the launch.

Hypothesis k: resource k limits the kernel on every GPU, so that its time is inverse to the rate r_k of that resource:

    ln T(gpu) = a - ln r_k(gpu) + e(gpu)

a is unknown (flat prior). e is a sum of normal effects, which GPUs of one family of instruction sets share, those of
one generation, and one GPU alone. With times y on some GPUs, covariances C of their effects, variances D of the
measurements, A = C + D, and c, the covariances with the target:

    a_k = 1^T A^-1 (y + ln r_k) / 1^T A^-1 1          z_k = y + ln r_k - a_k
    mean_k = a_k - ln r_k(target) + c^T A^-1 z_k
    variance = c_tt - c^T A^-1 c + (1 - 1^T A^-1 c)^2 / 1^T A^-1 1
    probability_k ~ prior_k exp(-z_k^T A^-1 z_k / 2)

The forecast is the exponential of the mean over k; the interval has the quantiles of the mixture of normals.

Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equations 2.41 and 2.42 (an unknown
constant); Kass and Raftery, "Bayes Factors", JASA 90, 1995 (probabilities of hypotheses). The hypotheses are this
project's; ``benchmarks/score_times.py`` estimates the priors and variances (``data/calibration/times.toml``).
Valid for: the same code and the same work on all GPUs. Fails when: the limit changes from GPU to GPU, as where data
fit the larger L2; the code differs, as where a library chooses by GPU; tensor cores are used; the clock is unknown.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

import kerncast
from kerncast.bounded_file import our_table
from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError, MissingEvidenceError
from kerncast.gpu import GPU, WARP_SIZE, launch_overhead_s
from kerncast.models.base import Case, Estimate, Model, Question
from kerncast.models.calibration import normal_deviations
from kerncast.models.transfer.posterior import era_of
from kerncast.observation import LEAST_BODY, LEAST_VARIANCE, Observation, TimedKernel
from kerncast.prediction import MeasuredEvidence, MeasuredTime, Prediction, ProbableLimit, Term, Timing
from kerncast.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Iterable

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

_FILE = Path(kerncast.__path__[0]) / "data" / "calibration" / "times.toml"
#: Of the file's form.
VERSION = 1
#: Resources that may limit a kernel; ``mixed`` is FP32 arithmetic among other instructions.
RESOURCES = ("dram", "l2", "issue", "mixed", "fp32", "fp64", "latency")
_ISSUE = RESOURCES.index("issue")
#: Share of FP32 in ``mixed``: half way between one half, from which on the 64 lanes of Volta, Turing and A100 limit
#: before four schedulers do, and all instructions.
_FP32_SHARE = 0.75
#: The launch's part of a time is known no better.
_OVERHEAD_DEVIATION = 0.3
#: A time outside this range of all others contradicts them.
_CONTRADICTS = 0.99
#: Less probable limits are not told in words.
_TOLD = 0.01
#: Each of more times would be compared with all others, at a cost that grows with the fourth power of their number.
_MOST_COMPARED = 100
#: Halvings that make a quantile of ln(time) exact to 1e-12.
_HALVINGS = 48


@dataclass(frozen=True, slots=True)
class Priors:
    """Prior probabilities of the hypotheses, and the variances of ln(time)."""

    dram: float
    l2: float
    issue: float
    mixed: float
    fp32: float
    fp64: float
    latency: float
    """probability that a very short kernel is limited by the latency of a few warps on a few SMs"""
    latency_slots: float
    """issue slots of the whole GPU at which that probability is half as large; it falls with their square"""
    era: float
    """variance of the effect of a family of instruction sets"""
    generation: float
    """variance of the effect of a major compute capability"""
    gpu: float
    """variance of the effect of one GPU"""
    measurement: float
    """variance of ln(time) of a measurement that comes without a spread"""
    kernels: int
    """number of kernels that all this was estimated from"""
    launches: int

    def log_of(self, log_slots: Floats) -> Floats:
        """Return [kernels, resources] the logarithms of the prior probabilities for kernels of so many issue slots.

        Time alone would not do: what keeps a small GPU busy for as long is no work for a large one.
        """
        fill = np.array([getattr(self, name) for name in RESOURCES[:-1]])
        latency = self.latency / (1.0 + np.exp(2 * (log_slots - math.log(self.latency_slots))))
        with np.errstate(divide="ignore"):
            found: Floats = np.log(np.column_stack([np.outer(1.0 - latency, fill / fill.sum()), latency]))
        return found


@dataclass(frozen=True, slots=True)
class Body:
    """The time of a kernel on one GPU without its launch."""

    gpu: GPU
    log_seconds: float
    variance: float
    """variance of ``log_seconds``: spread of the repeats, and the launch's unknown part"""


@dataclass(frozen=True, slots=True)
class Posterior:
    """What times on some GPUs say of the time on another one, all in ln(seconds)."""

    log_seconds: float
    """mean over the hypotheses"""
    low: float
    """lower end of the interval, below the mean"""
    high: float
    probabilities: tuple[float, ...]
    """by resource, in the order of RESOURCES"""
    means: tuple[float, ...]
    """mean under each hypothesis; nan where a GPU's rate is unknown"""

    @property
    def log_width(self) -> float:
        """Logarithm of the interval's upper over its lower end."""
        return self.high - self.low


def log_rates(gpu: GPU) -> Floats:
    """Return ln of the rate of each resource, in units of which only ratios count; nan where unknown.

    An SM of GA102 has twice the FP32 lanes of one of TU102, but no more schedulers: of code with three quarters FP32,
    1 / max(1 / 4, 0.75 / 2) instructions per clock become 1 / max(1 / 4, 0.75 / 4).

    >>> from kerncast.gpu import load_gpu
    >>> old, new = load_gpu("RTX 2080 Ti").at_clock(1.5e9), load_gpu("RTX 3090").at_clock(1.5e9)
    >>> (np.exp(log_rates(new) - log_rates(old)) * 68 / 82)[2:].round(2).tolist()  # per SM; one warp is as fast
    [1.0, 1.5, 2.0, 1.0, 0.83]
    """
    a, clocks = gpu.architecture, gpu.sm_count * gpu.clock_hz
    lanes = a.fp32_lanes_per_sm / WARP_SIZE
    # Of L2 the usual rate, as few GPUs have a measured one: a ratio of the two kinds would not be fair.
    dram, l2 = gpu.dram_rate, replace(gpu, l2_bytes_per_s=None).l2_rate or gpu.l2_rate
    return np.log(
        [
            dram.bytes_per_s if dram else math.nan,
            l2.bytes_per_s if l2 else math.nan,
            clocks * a.schedulers_per_sm,
            clocks / max(1 / a.schedulers_per_sm, _FP32_SHARE / lanes),
            clocks * lanes,
            clocks * a.fp64_lanes_per_sm / WARP_SIZE,
            gpu.clock_hz,
        ]
    )


def shared_variance(one: GPU, other: GPU, priors: Priors) -> float:
    """Return the variance of the effects that two GPUs share."""
    capabilities = one.architecture.number, other.architecture.number
    found = priors.era * (era_of(capabilities[0]) == era_of(capabilities[1]))
    found += priors.generation * (capabilities[0] // 10 == capabilities[1] // 10)
    return found + priors.gpu * (one.id == other.id)


def posterior(bodies: Sequence[Body], target: GPU, level: float, priors: Priors | None = None) -> Posterior:
    """Return what bodies say of the one on another GPU; raises MissingEvidenceError where no rate is known of all.

    The interval is as wide as the narrowest of those that one or two of the times give: by Bayes' rule alone a further
    time may make a mixture wider, and a forecast must not become vaguer by evidence. The coverage is measured.

    One hypothesis, and variances of 0.01 for each GPU alone: the variance of the ratio is 0.02 and that of the
    measurement.

    >>> from kerncast.gpu import load_gpu
    >>> one = Priors(1, 0, 0, 0, 0, 0, 0, 5e6, era=0, generation=0, gpu=0.01, measurement=1e-4, kernels=1, launches=1)
    >>> v100 = load_gpu("V100 SXM2 16GB")  # 900 GB/s; half of them on the other
    >>> slow = replace(v100, id="slow", sustained_dram_bytes_per_s=v100.dram_rate.bytes_per_s / 2)
    >>> found = posterior([Body(v100, math.log(1e-3), 1e-4)], slow, 0.9, one)
    >>> round(math.exp(found.log_seconds) * 1e3, 6), round(found.log_width / 2 / 1.644854, 6)  # root of 0.0201
    (2.0, 0.141774)
    """
    known = priors or read_priors()
    ordered = sorted(bodies, key=lambda each: (each.gpu.id, each.gpu.clock_hz, each.log_seconds, each.variance))
    field = _Field(ordered, target, known)
    whole = field.given(np.arange(len(ordered))[np.newaxis])
    if not whole.weights.any():
        raise MissingEvidenceError(
            f"no rate is known of {target.name} and of all GPUs with a time", cure="Complete the GPU's file."
        )
    low, high = _narrowest(field, len(ordered), level)
    centre = float(whole.centres[0])
    probabilities = tuple(map(float, whole.weights[0]))
    means = tuple(
        float(mean) if is_known else math.nan for mean, is_known in zip(whole.means[0], whole.known[0], strict=True)
    )
    return Posterior(centre, centre + low, centre + high, probabilities, means)


@dataclass(frozen=True, slots=True)
class _Mixtures:
    """The mixtures that several choices of times give."""

    means: Floats
    """[choices, resources]"""
    weights: Floats
    """[choices, resources], each row with the sum 1; 0 where no hypothesis is known"""
    known: npt.NDArray[np.bool_]
    """[choices, resources] whether the rate of each GPU is known"""
    deviations: Floats
    """[choices]"""

    @property
    def centres(self) -> Floats:
        """Means of the mixtures."""
        found: Floats = (self.means * self.weights).sum(axis=1)
        return found

    def quantile(self, share: float) -> Floats:
        """Return [choices] below what the mixtures have this share, by halving."""
        from scipy.special import ndtr  # noqa: PLC0415  other forecasts do without

        away, scale = 9 * self.deviations, 1 / self.deviations[:, None]
        low, high = self.means.min(axis=1) - away, self.means.max(axis=1) + away
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = np.einsum("ck,ck->c", self.weights, ndtr((middle[:, None] - self.means) * scale))
            low, high = np.where(below < share, middle, low), np.where(below < share, high, middle)
        found: Floats = (low + high) / 2
        return found


class _Field:
    """The times and the target, with all that the equations ask for."""

    def __init__(self, bodies: Sequence[Body], target: GPU, priors: Priors) -> None:
        gpus = [each.gpu for each in bodies]
        self._priors = priors
        self._times = np.array([each.log_seconds for each in bodies])
        self._noise = np.array([each.variance for each in bodies])
        rates = np.array([log_rates(gpu) for gpu in (*gpus, target)])
        self._known = np.isfinite(rates)
        self._rates, self._target_rates = np.where(self._known, rates, 0.0)[:-1], np.where(self._known, rates, 0.0)[-1]
        self._effects = np.array([[shared_variance(one, other, priors) for other in gpus] for one in gpus])
        self._to_target = np.array([shared_variance(gpu, target, priors) for gpu in gpus])
        self._of_target = shared_variance(target, target, priors)

    def given(self, chosen: Places) -> _Mixtures:
        """Return the mixtures, each given the times at the places of one row of [choices, times of a choice]."""
        noise = np.eye(chosen.shape[1]) * self._noise[chosen][:, None, :]
        covariance = self._effects[chosen[:, :, None], chosen[:, None, :]] + noise
        times, to_target = self._times[chosen], self._to_target[chosen]
        above = times[:, :, None] + self._rates[chosen]
        right = np.concatenate([np.ones((*chosen.shape, 1)), to_target[:, :, None], above], axis=2)
        solved = np.linalg.solve(covariance, right)
        ones, own, rest = solved[:, :, 0], solved[:, :, 1], solved[:, :, 2:]
        total = ones.sum(axis=1)
        levels = rest.sum(axis=1) / total[:, None]
        rest = rest - ones[:, :, None] * levels[:, None, :]
        means = levels - self._target_rates + (to_target[:, :, None] * rest).sum(axis=1)
        left = self._of_target - (to_target * own).sum(axis=1) + (1 - own.sum(axis=1)) ** 2 / total
        misfit = ((above - levels[:, None, :]) * rest).sum(axis=1)
        known = self._known[chosen].all(axis=1) & self._known[-1]
        logs = np.where(known, self._priors.log_of(above[:, :, _ISSUE].mean(axis=1)) - misfit / 2, -np.inf)
        weights = np.exp(logs - np.maximum(logs.max(axis=1, keepdims=True), -1e300))
        sums = weights.sum(axis=1, keepdims=True)
        weights = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
        return _Mixtures(np.where(known, means, 0.0), weights, known, np.sqrt(np.maximum(left, LEAST_VARIANCE)))


def _narrowest(field: _Field, count: int, level: float) -> tuple[float, float]:
    """Return how far below and above the mean the interval of the one or two times ends that tell most."""
    found: list[tuple[float, float]] = []
    for size in (1, 2):
        chosen = np.array(list(combinations(range(count), size)), dtype=np.intp).reshape(-1, size)
        if not len(chosen):
            continue
        mixtures = field.given(chosen)
        ends = [mixtures.quantile(share) - mixtures.centres for share in ((1 - level) / 2, (1 + level) / 2)]
        widths = np.where(mixtures.weights.any(axis=1), ends[1] - ends[0], np.inf)
        best = int(np.argmin(widths))
        found.append((min(0.0, float(ends[0][best])), max(0.0, float(ends[1][best]))))
    return min(found, key=lambda ends: ends[1] - ends[0])


class Times(Model):
    """T by the rates of all resources that may limit a kernel of which only times are known; see the module.

    100 ms are half of that on a GPU whose every rate doubles, but for the launch, whose 1.6 µs stay:

    >>> from kerncast.gpu import load_gpu
    >>> t4 = load_gpu("T4")
    >>> twice = replace(t4, id="twice", sm_count=80, sustained_dram_bytes_per_s=2 * t4.dram_rate.bytes_per_s,
    ...                 dram_bus_bits=2 * t4.dram_bus_bits)
    >>> kernel = TimedKernel("k", 0, (Observation(t4, 1.6e-6 + 0.1),))
    >>> round(Times().predict_timed(kernel, twice, Question()).seconds * 1e3, 3)
    50.002
    """

    name: ClassVar[str] = "times"
    log_sigma: ClassVar[float] = 0.3
    """not used: the interval is that of the mixture"""
    uses_measured_run: ClassVar[bool] = True
    has_own_errors: ClassVar[bool] = True

    def __init__(self, priors: Priors | None = None) -> None:
        """Take other priors than those of the file, to score a model that was estimated without what is scored."""
        self._priors = priors

    def predict(self, case: Case, question: Question) -> Prediction:
        """Return the forecast of a case: what an estimate would hold comes from the same mixture."""
        return self._of_case(case, question)

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return the forecast of a case by its measured times; raises MissingEvidenceError without one."""
        found = self._of_case(case, Question(timing))
        return Estimate(found.seconds, found.limiter, found.terms, found.low, found.high)

    def forecast(self, case: Case, estimate: Estimate, question: Question) -> Prediction:
        """Return the forecast with the interval of the mixture."""
        del estimate
        return self._of_case(case, question)

    def _of_case(self, case: Case, question: Question) -> Prediction:
        # It uses all times: what models of one time say of the others does not hold.
        notes = (each for each in case.profile.caveats if each.kind is not CaveatKind.TIME_ELSEWHERE_UNUSED)
        known = TimedKernel(case.profile.kernel, case.profile.index, case.times, tuple(notes))
        return self.predict_timed(known, case.gpu, question)

    def predict_timed(self, known: TimedKernel, gpu: GPU, question: Question) -> Prediction:
        """Return the forecast for a GPU; the time itself where that GPU was measured at this clock."""
        if not known.times:
            raise MissingEvidenceError(
                f"no time of {known.kernel} was measured", cure='Give --measured "GPU=TIME", or a file of times.'
            )
        timing, notes = _timing_of(known.times, question.timing)
        asked = replace(question, timing=timing)
        found = posterior([body_of(each, timing) for each in known.times], gpu, asked.level, self._priors)
        overhead = launch_overhead_s(timing)
        log_mean = found.log_seconds
        seconds = overhead + math.exp(log_mean)
        low, high = overhead + math.exp(found.low), overhead + math.exp(found.high)
        own = [each for each in known.times if _is_on(each, gpu, timing)]
        if own:
            seconds, low, high = _as_measured(own, asked.level, (seconds, low, high))
        limits, measured = _limits(found, seconds, overhead), _measured(known, timing)
        odd = (
            Caveat.of(CaveatKind.TIME_CONTRADICTS, time.gpu.name, place=time.where)
            for time, its in zip(known.times, measured, strict=True)
            if its.contradicts
        )
        return Prediction(
            kernel=known.kernel, launch=known.index, gpu=gpu.name, gpu_id=gpu.id,
            seconds=seconds, low=low, high=high, level=asked.level, timing=timing,
            limiter="launch" if overhead > seconds / 2 else limits[0].resource,
            terms=(Term("launch", overhead),),
            caveats=(
                *_names(known.times), *odd, *known.caveats, *notes, *_caveats(known.times, own, limits, asked.level),
            ),
            model=self.name,
            evidence=MeasuredEvidence(None, measured, limits),
        )  # fmt: skip


def body_of(time: Observation, asked: Timing) -> Body:
    """Return a measured time without its launch, in ln(seconds).

    10 µs in a series have 8.4 µs of body; the launch's 1.6 µs are known to 30 %, the whole to 1 %:

    >>> from kerncast.gpu import load_gpu
    >>> found = body_of(Observation(load_gpu("T4"), 1e-5, spread_seconds=1e-7), Timing.SERIES)
    >>> round(math.exp(found.log_seconds) * 1e6, 3), round(math.sqrt(found.variance) * 8.4, 3)  # root of 0.1² + 0.48²
    (8.4, 0.49)
    """
    overhead = launch_overhead_s(time.timing or asked)
    seconds = time.seconds_without(overhead)
    deviation = math.hypot(math.sqrt(_variance(time)) * time.seconds, _OVERHEAD_DEVIATION * overhead)
    # The body lies between the least part and the whole, however long the launch may be.
    return Body(time.gpu, math.log(seconds), min(deviation / seconds, -math.log(LEAST_BODY)) ** 2)


def _variance(time: Observation) -> float:
    """Return the variance of ln(time) of a measurement."""
    return max(LEAST_VARIANCE, time.log_variance(read_priors().measurement))


def _timing_of(times: Sequence[Observation], asked: Timing) -> tuple[Timing, tuple[Caveat, ...]]:
    """Return the timing that was measured, where all times are of one kind, else the one asked for."""
    kinds = {each.timing or asked for each in times}
    timing = kinds.pop() if len(kinds) == 1 else asked
    differs = Caveat.of(CaveatKind.TIMING_OF_RUN, measured=timing, asked=asked)
    return timing, () if timing is asked else (differs,)


def _is_on(time: Observation, gpu: GPU, timing: Timing) -> bool:
    is_gpu = time.gpu.id == gpu.id and math.isclose(time.gpu.clock_hz, gpu.clock_hz)
    return is_gpu and (time.timing or timing) is timing


def _as_measured(
    own: Sequence[Observation], level: float, others: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Return the mean of the times on the GPU itself, with the narrower interval: theirs, or that of all times."""
    exact = [1 / _variance(each) for each in own]
    logs = sum(weight * math.log(each.seconds) for weight, each in zip(exact, own, strict=True))
    seconds = own[0].seconds if len(own) == 1 else math.exp(logs / sum(exact))
    apart = max(abs(math.log(each.seconds / seconds)) for each in own)
    away = math.exp(max(apart, normal_deviations(level) / math.sqrt(sum(exact))))
    middle, low, high = others
    if away**2 <= high / low or apart:
        return seconds, seconds / away, seconds * away
    return seconds, seconds * (low / middle), seconds * (high / middle)


def _limits(found: Posterior, seconds: float, overhead: float) -> tuple[ProbableLimit, ...]:
    """Return the resources that may limit the kernel, the most probable first, each with its forecast."""
    shift = math.log(max(seconds - overhead, LEAST_BODY * seconds)) - found.log_seconds
    limits = [
        ProbableLimit(name, probability, overhead + math.exp(mean + shift))
        for name, probability, mean in zip(RESOURCES, found.probabilities, found.means, strict=True)
        if probability > 0
    ]
    return tuple(sorted(limits, key=lambda each: -each.probability))


@remembered(64)
def _measured(known: TimedKernel, timing: Timing) -> tuple[MeasuredTime, ...]:
    """Return the measured times, and whether each lies outside what all others say."""
    bodies = [body_of(each, timing) for each in known.times]
    is_compared = 1 < len(bodies) <= _MOST_COMPARED
    return tuple(
        MeasuredTime(
            time.gpu.name, time.gpu.id, known.kernel, known.index, time.seconds, None, None,
            is_compared and _contradicts(bodies, number),
        )
        for number, time in enumerate(known.times)
    )  # fmt: skip


def _contradicts(bodies: Sequence[Body], number: int) -> bool:
    own, others = bodies[number], [*bodies[:number], *bodies[number + 1 :]]
    found = _Field(others, own.gpu, read_priors()).given(np.arange(len(others))[np.newaxis])
    if not found.weights.any():
        return False
    # Around the true time lies the measured one: both vary.
    found = replace(found, deviations=np.hypot(found.deviations, math.sqrt(own.variance)))
    low, high = (float(found.quantile(share)[0]) for share in ((1 - _CONTRADICTS) / 2, (1 + _CONTRADICTS) / 2))
    return not low <= own.log_seconds <= high


def _names(times: "Iterable[Observation]") -> tuple[Caveat, ...]:
    """Return what was assumed to know which GPUs are meant."""
    return tuple(dict.fromkeys(caveat for each in times for caveat in each.caveats))


def _caveats(
    times: Sequence[Observation], own: Sequence[Observation], limits: Sequence[ProbableLimit], level: float
) -> tuple[Caveat, ...]:
    """Return that only times were known, what the interval rests on, and the clocks that nobody has given."""
    if own:
        known = any(each.spread_seconds is not None for each in own)
        return () if known else (Caveat.of(CaveatKind.TIME_AS_MEASURED, own[0].gpu.name),)
    priors = read_priors()
    probable = ", ".join(f"{each.resource} {each.probability:.2f}" for each in limits if each.probability >= _TOLD)
    found = [
        Caveat.of(CaveatKind.ONLY_TIMES_KNOWN, probable),
        Caveat.of(CaveatKind.INTERVAL_OF_TIMES, level=level, kernels=priors.kernels, launches=priors.launches),
    ]
    assumed = dict.fromkeys(each.gpu.name for each in times if each.gpu.clock_hz == each.gpu.default_clock_hz)
    if assumed:
        found.append(Caveat.of(CaveatKind.CLOCK_TAKEN_AS_DEFAULT, ", ".join(assumed)))
    return tuple(found)


@cache
def read_priors(path: Path = _FILE) -> Priors:
    """Read the priors and variances; raises InputError for a faulty file."""
    try:
        found: dict[str, Any] = our_table(path)
        if (version := found["version"]) != VERSION:
            raise _faulty(path, f"version is {version!r:.40}, not {VERSION}")
        numbers = {name: float(value) for part in ("priors", "variances") for name, value in found[part].items()}
        priors = Priors(**numbers, kernels=int(found["kernels"]), launches=int(found["launches"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _faulty(path, str(error)[:200]) from None
    values = [getattr(priors, name) for name in Priors.__slots__]
    if not all(0 <= value < math.inf for value in values) or not priors.gpu or not priors.latency_slots:
        raise _faulty(path, "a number is negative or not finite, or a variance is 0")
    if not 0 <= priors.latency < 1 or not any(getattr(priors, name) for name in RESOURCES[:-1]):
        raise _faulty(path, "the priors are no probabilities")
    return priors


def _faulty(path: Path, what: str) -> InputError:
    cure = "Write it by benchmarks/score_times.py, or install kerncast again."
    return InputError(f"the priors of times are faulty: {what}", where=str(path), cure=cure)
