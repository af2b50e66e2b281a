"""NOUN GPU and NOUN Architecture: what a GPU can do, in SI base units, and where each number comes from.

The facts lie in ``data/gpus/*.toml`` and ``data/architectures/*.toml``. A GPU inherits the limits of its chip
generation by the field ``from`` of its file. Unknown is None, never 0.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kerncast.caveats import Caveat
from kerncast.errors import GPUError
from kerncast.gpu.architecture import (
    WARP_SIZE,
    Architecture,
    Cycles,
    inherited_architecture,
    is_of_architecture,
    load_architecture,
    si_fields,
)
from kerncast.gpu.files import DATA, Fact, Status, raise_faults, read_sheet
from kerncast.gpu.names import GPU_FOLDER, find_id, is_path, known_ids
from kerncast.units import BITS_PER_BYTE, GIGA, MEGA, PERCENT

__all__ = [
    "GPU",
    "WARP_SIZE",
    "Architecture",
    "Cycles",
    "Fact",
    "Rate",
    "Status",
    "launch_overhead_s",
    "list_gpus",
    "load_architecture",
    "load_gpu",
    "resolve_gpu",
]

_DRAM_CHANNEL_BITS = 32
_LOWEST_CLOCK_HZ = MEGA
_PEAK_TOLERANCE = 1 * PERCENT


@dataclass(frozen=True, slots=True)
class Rate:
    """A sustained bandwidth, and whether somebody measured it on this very model of GPU."""

    bytes_per_s: float
    is_measured: bool


@dataclass(frozen=True, slots=True)
class GPU:
    """One model of GPU at one clock."""

    id: str
    name: str
    architecture: Architecture
    sm_count: int
    clock_hz: float
    """the clock that models use: boost, unless at_clock() says otherwise"""
    clock_boost_hz: float
    dram_bytes_per_s: float
    """peak: data rate x bus width"""
    clock_base_hz: float | None = None
    memory_bytes: int | None = None
    dram_bus_bits: int | None = None
    l2_bytes: int | None = None
    l2_partitions: int | None = None
    """each caches for its own SMs: data read by all SMs takes its size in every one"""
    tdp_w: float | None = None
    sustained_dram_bytes_per_s: float | None = None
    """measured on this model: streaming copy, bytes read and written together"""
    own_dram_fraction: float | None = None
    """replaces the architecture's sustained_dram_fraction"""
    l2_bytes_per_s: float | None = None
    """measured on this model: L2 reads by all SMs"""
    l1_bytes_per_s: float | None = None
    """measured on this model: L1 reads by all SMs"""
    sustained_fp32_flops_per_s: float | None = None
    sustained_fp64_flops_per_s: float | None = None
    sgemm_flops_per_s: float | None = None
    """measured on this model: a large cuBLAS matrix product"""
    launch_interval_s: float | None = None
    """shortest time between kernels queued in a stream"""
    l1_latency_cycles: float | None = None
    l2_latency_cycles: float | None = None
    dram_latency_s: float | None = None
    facts: tuple[Fact, ...] = ()
    """every value of the GPU's own file, with sources and status"""

    @property
    def compute_capability(self) -> str:
        """Such as 7.0."""
        return self.architecture.compute_capability

    @property
    def tpc_count(self) -> int | None:
        """Texture processing clusters, the unit of partitioning; None where unknown."""
        per_tpc = self.architecture.sms_per_tpc
        return None if per_tpc is None else -(-self.sm_count // per_tpc)

    @property
    def peak_fp32_flops_per_s(self) -> float:
        """FP32 rate at clock_hz; a fused multiply-add counts 2."""
        return 2 * self._per_second(self.architecture.fp32_lanes_per_sm)

    @property
    def peak_fp64_flops_per_s(self) -> float:
        """FP64 rate at clock_hz; a fused multiply-add counts 2."""
        return 2 * self._per_second(self.architecture.fp64_lanes_per_sm)

    @property
    def peak_fp16_flops_per_s(self) -> float | None:
        """FP16 rate at clock_hz without tensor cores; a fused multiply-add counts 2."""
        lanes = self.architecture.fp16_lanes_per_sm
        return None if lanes is None else 2 * self._per_second(lanes)

    @property
    def peak_int32_ops_per_s(self) -> float:
        """32-bit integer additions per second at clock_hz."""
        return self._per_second(self.architecture.int32_lanes_per_sm)

    @property
    def peak_special_ops_per_s(self) -> float:
        """Reciprocals, roots, exponentials, … per second at clock_hz."""
        return self._per_second(self.architecture.special_lanes_per_sm)

    @property
    def peak_warp_instructions_per_s(self) -> float:
        """Warp instructions that all SMs together can issue per second at clock_hz."""
        return self._per_second(self.architecture.warp_instructions_per_clock_per_sm)

    @property
    def peak_memory_requests_per_s(self) -> float | None:
        """Warp-level loads and stores that the load/store units of all SMs take per second at clock_hz."""
        cycles = self.architecture.cycles.load_store_sm
        return None if cycles is None else self._per_second(1) / cycles

    @property
    def dram_rate(self) -> Rate | None:
        """Sustained DRAM bandwidth: measured, else the usual fraction of the peak, else None."""
        if self.sustained_dram_bytes_per_s is not None:
            return Rate(self.sustained_dram_bytes_per_s, is_measured=True)
        fraction = self.own_dram_fraction or self.architecture.sustained_dram_fraction
        return None if fraction is None else Rate(fraction * self.dram_bytes_per_s, is_measured=False)

    @property
    def dram_rows_per_s(self) -> float | None:
        """Rows that all DRAM channels together can open; None where unknown."""
        bits, interval = self.architecture.dram_channel_bits, self.architecture.dram_activate_s
        if bits is None or interval is None or self.dram_bus_bits is None:
            return None
        return self.dram_bus_bits / bits / interval

    @property
    def l2_rate(self) -> Rate | None:
        """Sustained L2 bandwidth: measured, else from bus width and the boost clock, else None.

        L2 has a clock of its own: where profilers hold the SMs at their base clock, kernels that L2 limits stay fast.
        """
        if self.l2_bytes_per_s is not None:
            return Rate(self.l2_bytes_per_s, is_measured=True)
        per_channel = self.architecture.l2_bytes_per_clock_per_channel
        if per_channel is None or self.dram_bus_bits is None:
            return None
        return Rate(per_channel * self.dram_bus_bits / _DRAM_CHANNEL_BITS * self.clock_boost_hz, is_measured=False)

    @property
    def l2_slices(self) -> float | None:
        """Slices of L2, each of which does atomics of its own; None where unknown."""
        per_channel = self.architecture.l2_slices_per_channel
        if per_channel is None or self.dram_bus_bits is None:
            return None
        return per_channel * self.dram_bus_bits / _DRAM_CHANNEL_BITS

    @property
    def l1_latency(self) -> float | None:
        """Cycles of a hit in L1: measured, else the architecture's, else None."""
        return self.l1_latency_cycles or self.architecture.cycles.l1_latency

    @property
    def l2_latency(self) -> float | None:
        """Cycles of a hit in L2: measured, else the architecture's, else None."""
        return self.l2_latency_cycles or self.architecture.cycles.l2_latency

    @property
    def dram_latency(self) -> float | None:
        """Cycles of a DRAM access at clock_hz: measured, else the architecture's, else None.

        Cycles up to L2 and nanoseconds beyond it stay the same at another clock.
        """
        to_l2, beyond_s = self.l2_latency, self._beyond_l2_s()
        if to_l2 is None or beyond_s is None:
            return self.architecture.cycles.dram_latency
        return to_l2 + beyond_s * self.clock_hz

    def at_clock(self, spec: str | float) -> "GPU":
        """Return this GPU at its ``"base"`` or ``"boost"`` clock, or at a frequency in hertz."""
        clocks = {"base": self.clock_base_hz, "boost": self.clock_boost_hz}
        clock = clocks.get(spec) if isinstance(spec, str) else spec
        if clock is None and spec == "base":
            raise GPUError("its base clock is unknown", where=self.name, cure="Give the clock as a number.")
        if clock is None or isinstance(clock, bool) or not _LOWEST_CLOCK_HZ <= clock < math.inf:
            raise GPUError(f"{str(spec)[:40]!r} is no clock", where=self.name, cure="Give base, boost or hertz.")
        return replace(self, clock_hz=float(clock))

    @property
    def all_facts(self) -> tuple[Fact, ...]:
        """Every value of the GPU's own file, then those that it inherits; what it gives itself is not inherited."""
        own = {fact.key for fact in self.facts if is_of_architecture(fact.key)}
        return (*self.facts, *(fact for fact in self.architecture.facts if fact.key not in own))

    def fact(self, key: str) -> Fact | None:
        """Return the fact behind a key such as ``peak.l2_kib`` or ``lanes.fp32_per_sm``."""
        return next((fact for fact in (*self.facts, *self.architecture.facts) if fact.key == key), None)

    def _beyond_l2_s(self) -> float | None:
        """Return what a DRAM access takes beyond one that hits L2."""
        cycles, clock_hz = self.architecture.cycles, self.architecture.dram_latency_clock_hz
        if self.dram_latency_s is not None and self.l2_latency is not None:
            return max(0.0, self.dram_latency_s - self.l2_latency / self.clock_boost_hz)
        if cycles.dram_latency is None or cycles.l2_latency is None or clock_hz is None:
            return None
        return (cycles.dram_latency - cycles.l2_latency) / clock_hz

    def _per_second(self, per_clock_and_sm: int) -> float:
        return per_clock_and_sm * self.sm_count * self.clock_hz


def load_gpu(name_or_path: str | Path) -> GPU:
    """Load a GPU by id, marketing name or family name, or from a user's own TOML file.

    >>> load_gpu("NVIDIA TITAN V").peak_fp32_flops_per_s
    14899200000000.0
    """
    return resolve_gpu(name_or_path)[0]


def resolve_gpu(name_or_path: str | Path) -> tuple[GPU, tuple[Caveat, ...]]:
    """Load a GPU and say what had to be assumed to know which one is meant."""
    if is_path(name_or_path):
        return _build_gpu(Path(name_or_path)), ()
    gpu_id, caveats = find_id(str(name_or_path))
    return _shipped_gpu(gpu_id), caveats


def list_gpus() -> tuple[GPU, ...]:
    """Load every GPU that has a data file, sorted by id."""
    return tuple(_shipped_gpu(gpu_id) for gpu_id in known_ids())


@cache
def launch_overhead_s(situation: str) -> float:
    """Return the seconds that a launch adds: series, single, cold, profiler (a Timing does), or template.

    >>> launch_overhead_s("series")
    1.6e-06
    """
    sheet = read_sheet(DATA / "launch_overhead.toml", "launch_overhead")
    values = si_fields(sheet.facts, "launch_overhead")
    if situation not in values:
        raise GPUError(f"no launch overhead is called {situation!r}", cure=f"Known are {', '.join(values)}.")
    return float(values[situation])


@cache
def _shipped_gpu(gpu_id: str) -> GPU:
    return _build_gpu(GPU_FOLDER / f"{gpu_id}.toml")


def _build_gpu(path: Path) -> GPU:
    sheet = read_sheet(path, "gpu")
    architecture = inherited_architecture(sheet)
    facts = {key: fact for key, fact in sheet.facts.items() if not is_of_architecture(key)}
    fields = si_fields(facts, "gpu")
    gpu = GPU(
        id=path.stem,
        name=sheet.name or path.stem,
        architecture=architecture,
        clock_hz=fields["clock_boost_hz"],
        facts=tuple(sheet.facts.values()),
        **fields,
    )
    raise_faults(_contradictions(gpu, facts), path)
    return gpu


def _contradictions(gpu: GPU, facts: Mapping[str, Fact]) -> list[str]:
    """Return a fault for each pair of values that cannot both be true."""
    faults = []
    if gpu.clock_base_hz is not None and gpu.clock_base_hz > gpu.clock_boost_hz:
        faults.append("peak.clock_base_mhz is above peak.clock_boost_mhz (mend one of them)")
    if gpu.sustained_dram_bytes_per_s is not None and gpu.sustained_dram_bytes_per_s > gpu.dram_bytes_per_s:
        faults.append("sustained.dram_gb_per_s is above peak.dram_gb_per_s (mend one of them)")
    for key, computed in (
        ("peak.fp32_gflops", gpu.peak_fp32_flops_per_s / GIGA),
        ("peak.fp64_gflops", gpu.peak_fp64_flops_per_s / GIGA),
    ):
        stated = facts[key].value if key in facts else None
        if isinstance(stated, int | float) and not math.isclose(stated, computed, rel_tol=_PEAK_TOLERANCE):
            faults.append(
                f"{key} is {stated:g}, but 2 x lanes x SMs x boost clock is {computed:.5g} (mend one of them)"
            )
    return faults + _wrong_data_rate(gpu, facts)


def _wrong_data_rate(gpu: GPU, facts: Mapping[str, Fact]) -> list[str]:
    """Return a fault where data rate x bus width is another DRAM bandwidth."""
    key = "peak.dram_gbit_per_s_per_pin"
    rate = facts[key].value if key in facts else None
    if not isinstance(rate, int | float) or gpu.dram_bus_bits is None:
        return []
    computed, stated = rate * gpu.dram_bus_bits / BITS_PER_BYTE, gpu.dram_bytes_per_s / GIGA
    if math.isclose(stated, computed, rel_tol=_PEAK_TOLERANCE):
        return []
    return [f"peak.dram_gb_per_s is {stated:g}, but data rate x bus width is {computed:.5g} (mend one of them)"]
