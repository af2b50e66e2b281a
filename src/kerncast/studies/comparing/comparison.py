"""Which of several GPUs is the fastest for some launches, and how sure that is: their errors are alike.

The error of launch k on GPU i is e_ik = ln(measured / forecast). Its half-width at 90 %, h_ik, is the interval's; two
launches on two GPUs correlate as the effects that they share (``models/transfer/posterior.py``): with variance k(x, y),

    cov(e_ik, e_jl) = k(ik, jl) / sqrt(k(ik, ik) k(jl, jl)) x h_ik h_jl / z^2,    z = 2.353

What an unknown clock adds is a GPU's own: the same for its launches, and independent of other GPUs. The total of a GPU
has the error sum of w_ik e_ik, where w_ik is the share of a launch in its time. Errors have Student's distribution with
3 degrees of freedom, whose quantile z holds 90 %: half of the measured errors lie within 1, nine of ten within 3.04 of
some unit (``data/calibration/simulation.toml``), and within 3.08 in this distribution. So with d = ln(forecast of B /
forecast of A) and s^2 = variance of the difference of both errors,

    P(A is faster than B) = F(d / s),    F(x) = 1/2 + (u / (1 + u^2) + atan u) / pi,   u = x / sqrt 3

and the probability to be the best of all is counted in draws from the multivariate distribution.

Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, section 2.2 (the covariance); Kotz and
Nadarajah, "Multivariate t Distributions", 2004 (one chi-square for all). ``benchmarks/score_pairs.py`` says how often
the probabilities come true. Fails when: a kernel's error on one GPU has a cause of its own, as another compilation is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.models.transfer.posterior import Effects, Subject, read_effects, shared_variance

Floats = npt.NDArray[np.float64]

#: Degrees of freedom of the errors, and the quantile that holds 90 %.
FREEDOM, Z_OF_90 = 3.0, 2.3533634348018264
_DRAWS, _SEED = 20_000, 20261123
#: Least variance of a difference of errors: of 0.1 %.
_LEAST_VARIANCE = 0.001**2


@dataclass(frozen=True, slots=True)
class Timed:
    """The forecast of one launch on one GPU, with its error's half-widths at 90 %, in ln(time)."""

    subject: Subject
    seconds: float
    """of all its calls together"""
    model: float
    """half-width of the model's own error, which GPUs share in part"""
    below: float
    """half-width of what the clock adds towards shorter times"""
    above: float


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of some launches on one GPU, with its 90 % interval."""

    seconds: float
    low: float
    high: float

    @property
    def log_sigma(self) -> float:
        """Standard deviation of ln(time), as of a normal error with this interval."""
        return math.log(self.high / self.low) / (2 * 1.645)


@dataclass(frozen=True, slots=True)
class Faster:
    """The probability that the later of two versions is faster on one GPU, by how much their errors have in common."""

    probability: float | None
    """with the correlation that measured times tell; None where nothing is known of one version but its time"""
    correlation: float | None
    if_independent: float
    """where the model's errors of both versions have nothing in common"""
    if_alike: float
    """where they are the same but for their size"""


def faster(before: Sequence[Timed], after: Sequence[Timed], effects: Effects | None = None) -> Faster:
    """Return how probable it is that the launches after take less time than those before, on the same GPU.

    With the widths h of the model's errors of both totals, and w of what the unknown clock adds, which is one clock:

        s^2 = (h_b^2 + h_a^2 - 2 r h_b h_a + (w_b - w_a)^2) / z^2,    P(after is faster) = F(ln(T_b / T_a) / s)

    r is that of the effects that the launches share: of one build the kernel's and the GPU's, of two builds only the
    GPU's own, as nobody measured what two versions of a kernel share beyond that. So r = 0 and r = 1 are bounds.

    Half as long, each with an interval of / 1.5 to x 1.5: ln 2 / (ln 1.5 x 2^0.5 / 2.353) = 2.845.

    >>> parts = [Subject(name, name, "a", 70, "a", 64, (("dram", 1.0),)) for name in ("old", "new")]
    >>> old, new = ([Timed(part, seconds, math.log(1.5), 0, 0)] for part, seconds in zip(parts, (2.0, 1.0)))
    >>> found = faster(old, new, Effects(0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0, 1))
    >>> round(found.if_independent, 4), found.probability == found.if_independent, round(found.if_alike, 4)
    (0.9673, True, 1.0)
    """
    known = _correlation([each.subject for each in (*before, *after)], effects or read_effects())
    count, (old, new) = len(before), (_weighted(before), _weighted(after))
    own = [
        float(old.widths @ known[:count, :count] @ old.widths),
        float(new.widths @ known[count:, count:] @ new.widths),
    ]
    both, most = float(old.widths @ known[:count, count:] @ new.widths), math.sqrt(own[0] * own[1])

    def chance(shared: float) -> float:
        variance = (sum(own) - 2 * shared + (old.clock - new.clock) ** 2) / Z_OF_90**2
        return student(math.log(old.seconds / new.seconds) / math.sqrt(max(_LEAST_VARIANCE, variance)))

    return Faster(chance(both), both / most if most else 1.0, chance(0.0), chance(most))


@dataclass(frozen=True, slots=True)
class _Weighted:
    """Some launches of one version, by their shares of its time."""

    seconds: float
    widths: Floats
    """[launches] half-widths of the model's errors, times the shares"""
    clock: float
    """half-width of what the clock adds to the total"""


def _weighted(launches: Sequence[Timed]) -> _Weighted:
    seconds = np.array([each.seconds for each in launches])
    shares = seconds / seconds.sum()
    clocks = np.array([(each.below + each.above) / 2 for each in launches])
    return _Weighted(float(seconds.sum()), shares * np.array([each.model for each in launches]), float(shares @ clocks))


class Comparison:
    """The totals of several GPUs for the same launches, with the covariance of their errors."""

    def __init__(self, contenders: Sequence[Sequence[Timed]], effects: Effects | None = None) -> None:
        """``contenders``: the launches of each GPU, the same ones in the same order."""
        effects = effects or read_effects()
        self._seconds = np.array([sum(each.seconds for each in one) for one in contenders])
        flat = [each for one in contenders for each in one]
        shares = np.array([each.seconds for each in flat])
        sums = _membership([len(one) for one in contenders])
        shares /= self._seconds @ sums
        widths = shares * np.array([each.model for each in flat])
        of_model = sums @ (np.outer(widths, widths) * _correlation([each.subject for each in flat], effects)) @ sums.T
        below, above = (
            sums @ (shares * np.array([getattr(each, side) for each in flat])) for side in ("below", "above")
        )
        self._below = np.sqrt(np.diag(of_model) + below**2)
        self._above = np.sqrt(np.diag(of_model) + above**2)
        self.covariance: Floats = (of_model + np.diag(((below + above) / 2) ** 2)) / Z_OF_90**2
        """[GPUs, GPUs] scale of Student's distribution of ln(measured / forecast) of the totals, squared"""

    @property
    def totals(self) -> tuple[Total, ...]:
        """The time of all launches on each GPU."""
        ends = zip(self._seconds.tolist(), np.exp(self._below).tolist(), np.exp(self._above).tolist(), strict=True)
        return tuple(Total(seconds, seconds / below, seconds * above) for seconds, below, above in ends)

    def beats(self, one: int, other: int, factor: float = 1.0) -> float:
        """Return the probability that one GPU needs less than another; ``factor``: price of the other over the one's.

        Two GPUs, 20 % apart, each with an interval of / 1.2 to x 1.2, without a common error: d / s = 1.664.

        >>> gpus, shares = (("a", 35), ("b", 70)), (("dram", 1.0),)
        >>> parts = [Subject("k", "k", name, number, name, 64, shares) for name, number in gpus]
        >>> half = math.log(1.2)
        >>> own = Effects(0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0, 1)  # of a kernel on one GPU
        >>> found = Comparison([[Timed(parts[0], 1.0, half, 0, 0)], [Timed(parts[1], 1.2, half, 0, 0)]], own)
        >>> round(found.beats(0, 1), 3), round(found.beats(1, 0), 3)
        (0.903, 0.097)
        """
        if one == other:
            return 0.5
        c = self.covariance
        variance = max(_LEAST_VARIANCE, float(c[one, one] + c[other, other] - 2 * c[one, other]))
        distance = math.log(float(self._seconds[other]) * factor / float(self._seconds[one]))
        return student(distance / math.sqrt(variance))

    def best(self, prices: Sequence[float] | None = None) -> tuple[float, ...]:
        """Return for each GPU the probability that it needs the least of all; ``prices`` multiply the times."""
        logs = np.log(self._seconds) + (0.0 if prices is None else np.log(np.array(prices)))
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        draw = np.random.default_rng(_SEED)
        normal = draw.standard_normal((_DRAWS, len(logs))) @ root.T
        stretch = np.sqrt(FREEDOM / draw.chisquare(FREEDOM, _DRAWS))[:, np.newaxis]
        winners = np.argmin(logs + normal * stretch, axis=1)
        return tuple((np.bincount(winners, minlength=len(logs)) / _DRAWS).tolist())


def student(x: float) -> float:
    """Return the probability of less than x in Student's distribution with 3 degrees of freedom.

    >>> round(student(2.3533634348018264), 6), student(0.0)  # the table's 95 %
    (0.95, 0.5)
    """
    u = x / math.sqrt(FREEDOM)
    return 0.5 + (u / (1 + u * u) + math.atan(u)) / math.pi


def _membership(sizes: Sequence[int]) -> Floats:
    """Return [GPUs, launches of all] ones where a launch is of a GPU."""
    found = np.zeros((len(sizes), sum(sizes)))
    begin = 0
    for row, size in enumerate(sizes):
        found[row, begin : begin + size] = 1.0
        begin += size
    return found


def _correlation(subjects: Sequence[Subject], effects: Effects) -> Floats:
    """Return [launches, launches] how much of their errors launches share."""
    found = np.ones((len(subjects), len(subjects)))
    own = [math.sqrt(shared_variance(each, each, effects)) for each in subjects]
    for row, one in enumerate(subjects):
        for column in range(row):
            shared = shared_variance(one, subjects[column], effects) / (own[row] * own[column])
            found[row, column] = found[column, row] = min(1.0, shared)
    return found


def pareto_front(points: Sequence[tuple[float, float]]) -> tuple[int, ...]:
    """Return the points that no other one undercuts in both, by their first value.

    >>> pareto_front([(1.0, 5.0), (2.0, 2.0), (3.0, 2.0), (4.0, 1.0)])
    (0, 1, 3)
    """
    front: list[int] = []
    for place in sorted(range(len(points)), key=lambda each: points[each]):
        if not front or points[place][1] < points[front[-1]][1]:
            front.append(place)
    return tuple(front)
