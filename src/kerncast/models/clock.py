"""An unknown clock makes an interval wider, by as much of the time as follows the clock of the SMs.

A GPU's file or ``data/clock_ranges.toml`` says between which clocks boards like it run compute kernels. If a share s of
the time is in proportion to 1 / clock, the time at the clock c is that at the default clock c0, times (c0 / c)^s. Each
end of the range counts as the end of a 90 % interval of a lognormal error, independent of the model's own: that one was
measured at known clocks. DRAM, L2 and the launch have clocks of their own and count as not following. Fails when: at
the lower clock another resource limits than at the default clock, or waiting for DRAM, which counts as following.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kerncast.caveats import Caveat, CaveatKind
from kerncast.gpu import GPU
from kerncast.models.calibration import normal_deviations
from kerncast.prediction import Term
from kerncast.profiles import KernelProfile
from kerncast.profiles.counts import TENSOR_OPS

LATENCY = "latency"
#: Terms with a clock of their own.
OWN_CLOCK = {"dram", "l2", "atomics", "launch"}
#: A resource that is busy for half of the time limits little: its share of the blame falls with the fourth power.
BLAME_POWER = 4
#: Level of the interval that the clocks seen stand for.
_LEVEL_OF_RANGE = 0.9
#: An end that moves by less is not told.
_TOLD = 1.05


@dataclass(frozen=True, slots=True)
class UnknownClock:
    """What not knowing the clock adds to an interval: standard deviations of ln(time) below and above the forecast."""

    faster: float = 0.0
    slower: float = 0.0

    def caveats(self, gpu: GPU, faster: float, slower: float) -> tuple[Caveat, ...]:
        """Return what to say of it, where it moves an end by as much as is worth saying: the factors of both ends."""
        if gpu.clock_range_hz is None or max(faster, slower) < _TOLD:
            return ()
        low_hz, high_hz = gpu.clock_range_hz
        z = normal_deviations(_LEVEL_OF_RANGE)
        told = Caveat.of(
            CaveatKind.CLOCK_UNKNOWN,
            gpu.name,
            gpu_hz=gpu.clock_hz,
            low_hz=low_hz,
            high_hz=high_hz,
            faster=math.exp(self.faster * z),
            slower=math.exp(self.slower * z),
        )
        return (told,)


def unknown_clock(gpu: GPU, seconds: float, terms: Sequence[Term]) -> UnknownClock:
    """Return what a GPU's range of clocks adds to the interval around a time; nothing where its clock was given."""
    if gpu.clock_range_hz is None:
        return UnknownClock()
    low_hz, high_hz = gpu.clock_range_hz
    share = clock_share(seconds, terms) / normal_deviations(_LEVEL_OF_RANGE)
    return UnknownClock(share * math.log(high_hz / gpu.clock_hz), share * math.log(gpu.clock_hz / low_hz))


#: Part of the time that the tensor cores of all SMs are busy from which on the clock is that of the data sheet's peak:
#: about half of what products reach that do nothing else. Nobody has published a curve.
_FULL_LOAD = 0.5


def slower_under_tensor_load(gpu: GPU, seconds: float, terms: Sequence[Term], profile: KernelProfile) -> float:
    """Return how much longer a time is as busy tensor cores lower the clock; 1 where that is unknown or was given.

    t = t(default clock) (c0 / c)^(s p), with c the clock of the data sheet's peak, s the share that follows the clock
    and p the part of all tensor cores that is busy, of ``_FULL_LOAD``. The data sheet's peak of FP64 is that of the
    boost clock. Fails when: the board's power limit or its cooling is another one.
    """
    if gpu.clock_tensor_hz is None or seconds <= 0.0 or TENSOR_OPS["f64", "f64"] in profile.counts:
        return 1.0
    blocks = math.prod(profile.grid)
    busy = max((term.seconds for term in terms if term.name == "tensor"), default=0.0) / seconds
    load = min(1.0, busy * min(1.0, blocks / gpu.sm_count) / _FULL_LOAD)
    return float(max(1.0, gpu.clock_hz / gpu.clock_tensor_hz) ** (load * clock_share(seconds, terms)))


def clock_share(seconds: float, terms: Sequence[Term]) -> float:
    """Return the part of a time that follows the clock of the SMs, 0 to 1.

    >>> clock_share(1.0, [Term("fp32", 1.0)]), clock_share(1.0, [Term("dram", 1.0)])
    (1.0, 0.0)
    """
    blame = blame_of(seconds, terms)
    return math.fsum(part for name, part in blame.items() if name not in OWN_CLOCK)


def blame_of(seconds: float, terms: Sequence[Term]) -> dict[str, float]:
    """Return by how much each resource limits a time, 1 in all; what no resource explains is latency."""
    if seconds <= 0.0:
        return {}
    parts = {term.name: min(1.0, term.seconds / seconds) for term in terms}
    blame = {name: part**BLAME_POWER for name, part in parts.items()}
    blame[LATENCY] = 1 - max(parts.values(), default=0.0)
    total = sum(blame.values())
    return {name: part / total for name, part in blame.items() if part > 0} if total else {}
