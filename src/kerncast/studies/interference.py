"""Slowdown of a kernel by another one that runs beside it on the same GPU, each on TPCs of its own.

They share L2 and DRAM. The kernel is simulated again with what the other one leaves it:

    bandwidth:  1 - u, where u is the share of the time in which the other one, alone, keeps L2 or DRAM busy, but at
                least what it gets of them where requests are served in their order, own / (own + u)
    capacity:   own / (own + u) of L2 by the shares of time at L2, or all that the other one's buffers do not need

As a bound, the other one takes up to twice what it asks for alone, in proportion to its TPCs at most; all waits are
added to the kernel's time, and the clock falls to the lower end of its range as far as the other one works. Source: an
LRU cache is shared in proportion to the rates of what comes in (Chandra, Guo, Kim, Solihin, "Predicting inter-thread
cache contention on a chip multi-processor architecture", HPCA 2005); arbiters are taken to serve requests in their
order. Nothing of it was measured here. Fails where arbiters are unfair, DRAM loses open rows to the other kernel, or
both share TPCs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kerncast.errors import InputError
from kerncast.forecast import Means, Options
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.models import DEFAULT_MODEL
from kerncast.prediction import Prediction, Timing
from kerncast.studies.partitions import Parts, forecast_on, most_tpcs, part_of

_SHARED = ("l2", "dram")
#: Terms that no other kernel and no clock changes.
_FIXED = "launch"
#: Shares of bandwidth or of L2 below this one are taken to be this one: something always gets through.
_LEAST_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Beside:
    """The other kernel, on so many TPCs."""

    launch: Launch
    tpcs: int | None = None
    """None: all that the kernel leaves free"""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """By what factor a kernel on some TPCs is slower because of the other one."""

    tpcs: int
    beside_tpcs: int
    expected: float
    bound: float


@dataclass(frozen=True, slots=True)
class _Load:
    """What one kernel, alone on its TPCs, does to what all share."""

    seconds: float
    busy: Mapping[str, float]
    """share of the time in which it keeps L2 and DRAM busy"""
    works: float
    """share of the time in which its busiest resource works"""
    nbytes: int
    """bytes of its buffers"""


def slowdowns(
    launch: Launch, beside: Beside, parts: Parts, timing: Timing, means: Means | None = None
) -> tuple[Slowdown, ...]:
    """Return the slowdown of a launch on each number of TPCs; raises InputError and Refusal.

    Swapping both kernels with their TPCs swaps their slowdowns; without a load beside, both factors are 1.
    """
    gpu, tpcs = parts
    others = tuple(_tpcs_beside(beside, gpu, count) for count in tpcs)
    own = _loads(launch, gpu, tpcs, timing, means)
    theirs = _loads(beside.launch, gpu, tuple(sorted(set(others) - {0})), timing, means)
    pairs = [(own[count], theirs.get(number)) for count, number in zip(tpcs, others, strict=True)]
    left = [
        (_left(part, one, two), _left_at_worst(part, (one, two), number / (part_tpcs + number)))
        for part_tpcs, part, number, (one, two) in zip(
            tpcs, (part_of(gpu, count) for count in tpcs), others, pairs, strict=True
        )
    ]
    expected = _seconds(launch, [each for each, _ in left], timing, means)
    worst = _seconds(launch, [each for _, each in left], timing, means)
    found = []
    for place, (count, number) in enumerate(zip(tpcs, others, strict=True)):
        one, two = pairs[place]
        usual = max(1.0, expected[place].seconds / one.seconds)
        bound = _bound(one, two, left[place][1], worst[place], gpu)
        found.append(Slowdown(count, number, usual, max(usual, bound)))
    return tuple(found)


def _tpcs_beside(beside: Beside, gpu: GPU, count: int) -> int:
    most = most_tpcs(gpu)
    wanted = most - count if beside.tpcs is None else beside.tpcs
    if wanted < 0:
        raise InputError(f"--beside-tpcs is {wanted}", cure=f"Give 1 to {most - 1}, or leave it out.")
    if count + wanted > most:
        raise InputError(
            f"{count} TPCs and {wanted} beside them are more than the {most} of {gpu.name}",
            cure=f"Ask for --tpcs 1-{max(1, most - wanted)}, or for fewer --beside-tpcs.",
        )
    return wanted


def _loads(launch: Launch, gpu: GPU, counts: tuple[int, ...], timing: Timing, means: Means | None) -> dict[int, _Load]:
    found = _seconds(launch, [part_of(gpu, count) for count in counts], timing, means)
    nbytes = sum(buffer.nbytes for _, buffer in launch.buffers)
    return {count: _load(each, nbytes) for count, each in zip(counts, found, strict=True)}


def _load(alone: Prediction, nbytes: int) -> _Load:
    terms = {term.name: min(1.0, term.seconds / alone.seconds) for term in alone.terms if term.name != _FIXED}
    return _Load(
        alone.seconds, {name: terms.get(name, 0.0) for name in _SHARED}, max(terms.values(), default=0.0), nbytes
    )


def _seconds(launch: Launch, gpus: list[GPU], timing: Timing, means: Means | None) -> tuple[Prediction, ...]:
    return forecast_on(launch, gpus, Options(DEFAULT_MODEL, timing), means).predictions if gpus else ()


def _left(part: GPU, own: _Load, other: _Load | None) -> GPU:
    """Return the part with what is expected to be left of L2 and DRAM."""
    if other is None:
        return part
    shares = {name: _share(own.busy[name], other.busy[name]) for name in _SHARED}
    taken = _taken(own.busy["l2"], other.busy["l2"])
    return _with_shares(part, shares, _capacity(part, other, taken))


def _left_at_worst(part: GPU, loads: tuple[_Load, _Load | None], theirs: float) -> GPU:
    """Return the part with the least of L2 and DRAM that is left: in proportion to the TPCs, or by what is asked."""
    own, other = loads
    if other is None:
        return part
    shares = {name: _share_at_worst(own.busy[name], other.busy[name], theirs) for name in _SHARED}
    taken = max(theirs, _taken(own.busy["l2"], other.busy["l2"])) if other.busy["l2"] else 0.0
    return _with_shares(part, shares, _capacity(part, other, taken))


def _share(own: float, other: float) -> float:
    """Return the share of a bandwidth that a kernel gets, by the shares of time in which each keeps it busy.

    >>> _share(0.9, 0.9), _share(0.1, 0.75), _share(0.5, 0.0)
    (0.5, 0.25, 1.0)
    """
    return max(_LEAST_SHARE, 1 - other, own / (own + other) if own else 0.0)


def _share_at_worst(own: float, other: float, theirs: float) -> float:
    """Return the least share: the other one takes as much as its TPCs may, up to twice what it asks for alone.

    >>> _share_at_worst(0.9, 0.9, 0.75), _share_at_worst(0.9, 0.1, 0.75), _share_at_worst(0.9, 0.0, 0.75)
    (0.25, 0.8, 1.0)
    """
    return min(_share(own, other), max(_LEAST_SHARE, 1 - min(theirs, 2 * other)))


def _taken(own: float, other: float) -> float:
    return other / (own + other) if other else 0.0


def _capacity(part: GPU, other: _Load, taken: float) -> float:
    """Return the share of L2 that is left: the other kernel holds no more than its buffers."""
    return max(_LEAST_SHARE, 1 - min(taken, other.nbytes / part.l2_bytes if part.l2_bytes else 1.0))


def _with_shares(part: GPU, shares: Mapping[str, float], capacity: float) -> GPU:
    l2, dram, known = shares["l2"], shares["dram"], part.l2_rate
    sustained = part.sustained_dram_bytes_per_s
    return replace(
        part,
        id=f"{part.id}-shared",
        name=f"{part.name}, shared",
        l2_bytes=None if part.l2_bytes is None else max(1, int(part.l2_bytes * capacity)),
        l2_bytes_per_s=known.bytes_per_s * l2 if known and l2 < 1 else part.l2_bytes_per_s,
        dram_bytes_per_s=part.dram_bytes_per_s * dram,
        sustained_dram_bytes_per_s=None if sustained is None else sustained * dram,
    )


def _bound(own: _Load, other: _Load | None, left: GPU, worst: Prediction, gpu: GPU) -> float:
    """Return the largest slowdown: nothing hides the further waits, and the clock falls as the other one works."""
    if other is None:
        return 1.0
    part_rate = gpu.dram_bytes_per_s / left.dram_bytes_per_s
    waits = own.busy["dram"] * (part_rate - 1)
    if gpu.l2_rate and left.l2_rate:
        waits += own.busy["l2"] * (gpu.l2_rate.bytes_per_s / left.l2_rate.bytes_per_s - 1)
    known = gpu.clock_range_hz
    slower = gpu.clock_hz / known[0] if known and known[0] < gpu.clock_hz else 1.0
    return max(worst.seconds / own.seconds, 1 + waits) * (1 + (slower - 1) * other.works)
