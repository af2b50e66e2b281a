"""Equations 1 to 8 and 10 of Van Lanker et al., Euro-Par 2024, one function each; rates per second, sizes in bytes.

Source: Van Lanker, Taboada, Brunet, Trahay, "Predicting GPU kernel's performance on upcoming architectures".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kerncast.architecture import WARP_SIZE
from kerncast.float_mix import FloatMix
from kerncast.models.machine_maxima import SHARED_BYTES_PER_CLOCK, MachineMaxima

#: An addition or a multiplication takes the place of a fused multiply-add, which is two operations.
_ADD_MUL_OVER_FMA = 0.5
#: A precision with less of the time of all operations is not named: a round figure.
_TRACE = 0.02


@dataclass(frozen=True, slots=True)
class Demand:
    """What one kernel asks of a machine: its operations, and the bytes N+ that cross each level of memory."""

    mixes: tuple[FloatMix, ...]
    """one per precision that occurs"""
    active_threads: float
    """per warp instruction, up to 32"""
    l1_bytes: float
    """without shared memory"""
    shared_bytes: float
    shared_wavefronts: float
    """cycles of shared memory"""
    l2_bytes: float
    dram_bytes: float

    @property
    def flops(self) -> float:
        """FLOP of equation 10."""
        return sum([mix.flops_value for mix in self.mixes])


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A place that data come from."""

    name: str
    """l1, shared, l2 or dram"""
    nbytes: float
    """that hit it"""
    seconds: float


@dataclass(frozen=True, slots=True)
class LevelTime:
    """One level of memory: the bytes that cross it, and the least time for all that these come from."""

    level: str
    crossing_bytes: float
    """N+: at L1, with shared memory"""
    ceiling_bytes_per_s: float
    """BW^Ceil"""

    @property
    def seconds(self) -> float:
        """Of all bytes that cross the level, at its ceiling."""
        return self.crossing_bytes / self.ceiling_bytes_per_s


def roofline(intensity: float, bytes_per_s: float, flops_per_s: float) -> float:
    """Return what can be reached, in FLOP/s (equation 1).

    >>> roofline(2.0, 846e9, 6890e9) / 1e9
    1692.0
    """
    return min(bytes_per_s * intensity, flops_per_s)


def mix_rate(fma_flops_per_s: float, fused: float, others: float) -> float:
    """Return Perf^mix of so many fused and other instructions (equation 2); additions have half the rate.

    A quarter fused on the V100 of Table 1: 6890 x 1/4 + 3445 x 3/4 GFLOP/s:

    >>> mix_rate(6890e9, 1, 3) / 1e9
    4306.25
    """
    share = fused / (fused + others)
    return fma_flops_per_s * share + _ADD_MUL_OVER_FMA * fma_flops_per_s * (1 - share)


def active_rate(active_threads: float, mix_flops_per_s: float) -> float:
    """Return Perf^ceil with so many active threads per warp instruction (equation 3).

    >>> active_rate(24, 4306.25)
    3229.6875
    """
    return active_threads / WARP_SIZE * mix_flops_per_s


def memory_time(nbytes: float, max_bytes_per_s: float) -> float:
    """Return the seconds for bytes that one level delivers (equation 4).

    >>> memory_time(846e6, 846e9)
    0.001
    """
    return nbytes / max_bytes_per_s


def shared_time(nbytes: float, bytes_per_clock: float, max_bytes_per_s: float) -> float:
    """Return the seconds of shared memory at so many bytes per clock (equation 5): 128 are without conflict.

    >>> shared_time(128e6, 64, 12800e9)  # two-way conflicts: twice 10 us
    2e-05
    """
    return nbytes / bytes_per_clock * SHARED_BYTES_PER_CLOCK / max_bytes_per_s


def bandwidth_ceiling(parts: Sequence[MemoryPart]) -> float | None:
    """Return BW^Ceil, all bytes over all times (equations 6 to 8); None without bytes.

    >>> bandwidth_ceiling([MemoryPart("l2", 3e9, 1.0), MemoryPart("dram", 1e9, 1.0)]) / 1e9
    2.0
    """
    seconds = sum([part.seconds for part in parts])
    return sum([part.nbytes for part in parts]) / seconds if seconds else None


def intensity(flops: float, crossing_bytes: float) -> float:
    """Return OI in FLOP per byte that crosses a level (equation 10); infinite without bytes.

    >>> intensity(6e9, 3e9)
    2.0
    """
    return flops / crossing_bytes if crossing_bytes else float("inf")


def memory_parts(demand: Demand, machine: MachineMaxima) -> tuple[MemoryPart, ...]:
    """Return L1, shared memory, L2 and DRAM with the bytes that hit each (equations 4 and 5).

    What crosses a level and not the next hits it, at least 0: DRAM may move more than L2 was asked for.
    """
    hits_l1, hits_l2 = max(0.0, demand.l1_bytes - demand.l2_bytes), max(0.0, demand.l2_bytes - demand.dram_bytes)
    wavefronts = demand.shared_wavefronts or demand.shared_bytes / SHARED_BYTES_PER_CLOCK
    per_clock = demand.shared_bytes / wavefronts if demand.shared_bytes else SHARED_BYTES_PER_CLOCK
    return (
        MemoryPart("l1", hits_l1, memory_time(hits_l1, machine.l1.rate)),
        MemoryPart("shared", demand.shared_bytes, shared_time(demand.shared_bytes, per_clock, machine.shared.rate)),
        MemoryPart("l2", hits_l2, memory_time(hits_l2, machine.l2.rate)),
        MemoryPart("dram", demand.dram_bytes, memory_time(demand.dram_bytes, machine.dram.rate)),
    )


def level_times(demand: Demand, machine: MachineMaxima) -> tuple[LevelTime, ...]:
    """Return L1, L2 and DRAM with the kernel's ceilings (equations 6 to 8); without bytes, with the machine's."""
    return _level_times(demand, machine, memory_parts(demand, machine))


def _level_times(demand: Demand, machine: MachineMaxima, parts: tuple[MemoryPart, ...]) -> tuple[LevelTime, ...]:
    crossing = demand.l1_bytes + demand.shared_bytes, demand.l2_bytes, demand.dram_bytes
    maxima = machine.l1.rate, machine.l2.rate, machine.dram.rate
    beyond = parts, parts[2:], parts[3:]
    return tuple(
        [
            LevelTime(name, nbytes, bandwidth_ceiling(own) or most)
            for name, nbytes, own, most in zip(("l1", "l2", "dram"), crossing, beyond, maxima, strict=True)
        ]
    )


@dataclass(frozen=True, slots=True)
class ComputeCeiling:
    """The compute roofs of one kernel: of the machine, of its mix, and of its active threads."""

    max_flops_per_s: float
    mix_flops_per_s: float
    ceiling_flops_per_s: float
    peak_flops_per_s: float | None
    is_measured: bool
    """whether somebody measured the machine's maximum, of all precisions"""
    bits: tuple[int, ...] = ()
    """of the precisions that make up its maximum"""


def compute_ceiling(demand: Demand, machine: MachineMaxima) -> ComputeCeiling:
    """Return the ceilings of equations 2 and 3; of several precisions, the mean that their times give.

    The paper has one precision. Here each takes its FLOP over its own rate, one after the other.
    """
    used = [mix for mix in demand.mixes if mix.flops_value > 0]
    if not used:  # nothing asks for it: any precision will do
        known = machine.fp32 or machine.fma(64)
        ceiling = active_rate(demand.active_threads, known.rate)
        return ComputeCeiling(known.rate, known.rate, ceiling, known.peak, known.is_measured)
    flops = [mix.flops_value for mix in used]
    maxima = [machine.fma(mix.bits) for mix in used]
    rates = [
        mix_rate(maximum.rate, mix.fused.value, mix.additions.value + mix.multiplications.value)
        for mix, maximum in zip(used, maxima, strict=True)
    ]
    peaks = [maximum.peak for maximum in maxima if maximum.peak]
    mixed = _harmonic(flops, rates)
    return ComputeCeiling(
        max_flops_per_s=_harmonic(flops, [maximum.rate for maximum in maxima]),
        mix_flops_per_s=mixed,
        ceiling_flops_per_s=active_rate(demand.active_threads, mixed),
        peak_flops_per_s=_harmonic(flops, peaks) if len(peaks) == len(used) else None,
        is_measured=all(maximum.is_measured for maximum in maxima),
        bits=_telling(used, [amount / maximum.rate for amount, maximum in zip(flops, maxima, strict=True)]),
    )


def _telling(mixes: Sequence[FloatMix], seconds: Sequence[float]) -> tuple[int, ...]:
    """Return the precisions whose operations take more than a trace of the time."""
    least = _TRACE * sum(seconds)
    return tuple([mix.bits for mix, its in zip(mixes, seconds, strict=True) if its > least])


def _harmonic(flops: Sequence[float], rates: Sequence[float]) -> float:
    """Return the rate of all operations together, each precision at its own rate."""
    return sum(flops) / sum([each / rate for each, rate in zip(flops, rates, strict=True)])


@dataclass(frozen=True, slots=True)
class KernelCeilings:
    """One kernel under its own ceilings on one machine."""

    machine: MachineMaxima
    flops: float
    compute: ComputeCeiling
    parts: tuple[MemoryPart, ...]
    levels: tuple[LevelTime, ...]
    """L1, L2, DRAM"""

    @property
    def compute_s(self) -> float:
        """FLOP / Perf^Ceil."""
        return self.flops / self.compute.ceiling_flops_per_s

    def floor_s(self, level: LevelTime) -> float:
        """Return FLOP / roof by one level, max(N+ / BW^Ceil, FLOP / Perf^Ceil): it holds where FLOP is 0, too."""
        return max(level.seconds, self.compute_s)

    def intensity(self, level: LevelTime) -> float:
        """Return OI (equation 10)."""
        return intensity(self.flops, level.crossing_bytes)

    def roof(self, level: LevelTime) -> float:
        """Return the roof of equation 1 with the kernel's ceilings, in FLOP/s."""
        return roofline(self.intensity(level), level.ceiling_bytes_per_s, self.compute.ceiling_flops_per_s)


def kernel_ceilings(demand: Demand, machine: MachineMaxima) -> KernelCeilings:
    """Put a kernel under its ceilings on a machine (equations 2 to 8)."""
    parts = memory_parts(demand, machine)
    return KernelCeilings(
        machine, demand.flops, compute_ceiling(demand, machine), parts, _level_times(demand, machine, parts)
    )
