"""NOUN GPU and NOUN Architecture: what a GPU can do, in SI base units, and where each number comes from.

The facts lie in ``data/gpus/*.toml`` and ``data/architectures/*.toml``. A GPU inherits the limits of its chip
generation by the field ``from`` of its file. Unknown is None, never 0.
"""

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import GPUError, InputError
from kerncast.gpu.files import (
    DATA,
    GPU_FOLDER,
    INCOMPLETE_FOLDER,
    Fact,
    Sheet,
    Status,
    find_id,
    incomplete_ids,
    is_path,
    known_ids,
    missing_faults,
    missing_of_all,
    raise_faults,
    read_sheet,
    rules,
    rules_of_changes,
    unknown_to_all,
    usual_clock_range,
)
from kerncast.gpu.hypothetical import changed_facts
from kerncast.units import BITS_PER_BYTE, GIB, GIGA, KIB, MEGA, MICROSECOND, PERCENT

# NOUN Architecture: what all chips of one compute capability have in common, in SI base units.
#
# The facts lie in ``data/architectures/*.toml``. An architecture inherits each value that its file does not
# give from the one that its field ``from`` names; the status ``unknown`` cancels an inherited value.


#: Threads of a warp, on every CUDA GPU.
WARP_SIZE = 32

_FOLDER = DATA / "architectures"

#: The only conversion from the units of data files to SI base units.
_SI = {
    "1": 1, "bit": 1, "B": 1, "cycle": 1, "B/cycle": 1, "W": 1, "KiB": KIB, "GiB": GIB,
    "MHz": MEGA, "GB/s": GIGA, "GFLOP/s": GIGA, "us": MICROSECOND, "ns": 1 / GIGA,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles of an SM: what a warp instruction occupies in its sub-partition, what all share, and latencies."""

    fma: float | None = None
    alu: float | None = None
    imad: float | None = None
    imad_on_fma: float | None = None
    """cycles that an integer multiply-add occupies the FMA pipe; 0 where it has a pipe of its own"""
    alu_on_fma: float | None = None
    """cycles that an integer add, logic or compare instruction occupies the FMA pipe"""
    special: float | None = None
    load_store: float | None = None
    fp64: float | None = None
    fp16: float | None = None
    """cycles of a packed FP16 instruction, with two results per lane"""
    tensor: float | None = None
    """cycles of a product of 16 x 8 x 16 FP16 values with FP32 sums"""
    branch: float | None = None
    uniform: float | None = None
    """cycles of an instruction of the uniform datapath; None where there is none"""
    load_store_sm: float | None = None
    """cycles per instruction of the queue that the sub-partitions share"""
    shared_wavefront: float | None = None
    shared_reissue: float | None = None
    """cycles until an access is issued again, for each wavefront that a bank conflict adds; None: it is issued once"""
    shared_word: float | None = None
    """cycles of an SM per 4-byte word that each lane of a wide load gets: registers take them in one after the other"""
    l1_tag: float | None = None
    """cycles per 128-byte line of a request"""
    l1_pass: float | None = None
    """cycles per pass of a load through the banks of L1; None: L1 has no banks, or nobody has measured it"""
    l2_request: float | None = None
    """cycles between two lines of which L1 asks L2 for sectors; None: its bytes alone count"""
    store_line: float | None = None
    """cycles per 128-byte line of a store"""
    shared_atomic: float | None = None
    """cycles per lane that wants the same address"""
    alu_latency: float | None = None
    fma_latency: float | None = None
    """cycles to the result of an FMA; None, here and for imad and fp16: ``alu_latency``"""
    imad_latency: float | None = None
    special_latency: float | None = None
    fp64_latency: float | None = None
    fp16_latency: float | None = None
    tensor_latency: float | None = None
    uniform_latency: float | None = None
    bulk_latency: float | None = None
    """cycles that a bulk copy by the copy engine takes longer than a load of the same data"""
    bulk_tensor_latency: float | None = None
    """the same for copies by a tensor map; None: ``bulk_latency``"""
    tensor_commit: float | None = None
    """cycles from the end of a product in tensor memory until a thread that waits at its mbarrier goes on"""
    tensor_memory: float | None = None
    """cycles of a sub-partition to move a register of a warp from or to tensor memory"""
    tensor_memory_latency: float | None = None
    """cycles to the first register that is loaded from tensor memory"""
    shared_latency: float | None = None
    l1_latency: float | None = None
    """cycles to data in L1, or in the read-only cache where global loads bypass L1"""
    l2_latency: float | None = None
    l2_merge: float | None = None
    """cycles of L2 that a slice takes longer for a sector that a store fills in part only"""
    dram_latency: float | None = None
    """cycles to data in DRAM, at dram_latency_clock_hz; GPU.dram_latency is at the GPU's clock"""
    barrier_latency: float | None = None
    cluster_latency: float | None = None
    """cycles to data in the shared memory of another block of the cluster"""
    cluster_bytes: float | None = None
    """bytes per cycle that an SM exchanges with others"""
    cluster_barrier: float | None = None
    """cycles from the last thread's arrival at the cluster's barrier; then the fewest and the most that it may take"""
    cluster_barrier_least: float | None = None
    cluster_barrier_most: float | None = None
    branch_latency: float | None = None
    block_launch: float | None = None
    """cycles from the end of a block to the first instruction of its successor"""
    grid_launch: float | None = None
    """cycles from the start of a block to that of the next one anywhere on the GPU"""
    idle_block: float | None = None
    """cycles of a block that finds nothing to do"""
    lsu_queue: float | None = None
    """depth of the load/store queue in cycles of work: beyond it warps wait; likewise the queues below"""
    l2_queue: float | None = None
    dram_queue: float | None = None
    dram_burst: float | None = None
    """work for DRAM that an SM may bring ahead of its share: the other SMs are not busy at the same moment"""
    store_round_trips: float | None = None
    """latencies of L2 for which a store keeps its block's place on the SM"""
    atomic_queue: float | None = None


@dataclass(frozen=True, slots=True)
class Architecture:
    """Facts that all chips of one compute capability share; counts are per SM unless named otherwise."""

    id: str
    """name of the architecture, such as sm_70"""
    name: str
    compute_capability: str
    """compute capability, such as 7.0"""
    fp32_lanes_per_sm: int
    """FP32 results per clock; a fused multiply-add is one result"""
    fp64_lanes_per_sm: int
    int32_lanes_per_sm: int
    special_lanes_per_sm: int
    """results per clock of reciprocal, square root, exponential, logarithm, sine and cosine"""
    schedulers_per_sm: int
    """number of schedulers; each owns an equal part of the registers: a sub-partition"""
    warp_instructions_per_clock_per_sm: int
    """most warp instructions issued per clock"""
    max_threads_per_sm: int
    max_threads_per_block: int
    max_blocks_per_sm: int
    registers_per_sm: int
    max_registers_per_block: int
    max_registers_per_thread: int
    register_allocation_unit: int
    """registers of a warp are rounded up to a multiple of this number"""
    warp_allocation_granularity: int
    """warps of a block are rounded up to a multiple of this number where its registers are checked"""
    shared_bytes_per_sm: int
    """shared memory at the largest carve-out"""
    shared_bytes_per_block: int
    """most shared memory of a block without opting in"""
    shared_bytes_per_block_optin: int
    reserved_shared_bytes_per_block: int
    shared_allocation_bytes: int
    """shared memory of a block is rounded up to a multiple of these bytes"""
    caches_global_loads_in_l1: bool
    """whether L1 caches global loads, with the compiler's default cache operators, here and below"""
    caches_read_only_loads_in_l1: bool
    """whether loads by ld.global.nc are cached, in L1 or in a cache of their own"""
    caches_local_in_l1: bool
    stores_allocate_in_l1: bool
    """whether a global store that misses L1 puts its data there"""
    issues_oldest_first: bool | None = None
    """whether schedulers prefer the warp resident longest; where False or unknown, all take turns"""
    fp16_lanes_per_sm: int | None = None
    """FP16 results per clock; both halves of a packed instruction count"""
    tensor_cores_per_sm: int | None = None
    """tensor cores; None where there are none"""
    tensor_fp16_lanes_per_sm: int | None = None
    """multiply-adds of FP16 with FP32 sums per clock by warp-level instructions of tensor cores"""
    tensor_group_fp16_lanes_per_sm: int | None = None
    """the same by instructions of groups of warps; None where there are none, or where that is unknown"""
    barriers_per_sm: int | None = None
    """barriers that resident blocks share; None where barriers never limit occupancy"""
    sms_per_tpc: int | None = None
    sms_per_gpc: int | None = None
    """most SMs of a graphics processing cluster; a cluster of blocks lies in one"""
    gpcs: int | None = None
    """graphics processing clusters of the whole chip"""
    shared_carveouts_bytes: tuple[int, ...] | None = None
    """carve-outs that the driver can choose; the rest of l1_and_shared_bytes serves as L1"""
    l1_and_shared_bytes: int | None = None
    least_default_carveout_bytes: int | None = None
    """smallest carve-out that the driver chooses by itself"""
    heeds_carveout_percent: bool | None = None
    """whether a program can ask for a carve-out in percent; else only for more of one part, or as much of both"""
    l1_bytes: int | None = None
    """size of an L1 that shared memory takes nothing of"""
    read_only_cache_bytes: int | None = None
    """size of the read-only cache; None where L1 caches read-only loads, or nothing does"""
    instruction_cache_bytes: int | None = None
    """code that an SM holds"""
    l2_writes_back_early: bool | None = None
    """whether dirty sectors go to DRAM before their place is needed"""
    l2_fills_sectors: bool | None = None
    """whether a sector that was stored in part is read from DRAM before it is written there"""
    l2_fetch_bytes: int | None = None
    """aligned bytes that L2 reads from DRAM when one sector misses"""
    dram_channel_bits: int | None = None
    """Width of a channel of the interface: each opens rows of its own."""
    dram_activate_s: float | None = None
    """seconds between two rows that one channel opens"""
    sustained_dram_fraction: float | None = None
    """sustained over peak DRAM bandwidth, for GPUs that were not measured"""
    dram_one_way: float | None = None
    """sustained DRAM bandwidth of reads alone over that of a copy"""
    l2_bytes_per_clock_per_channel: float | None = None
    """sustained L2 bandwidth per SM clock and 32-bit DRAM channel, for GPUs that were not measured"""
    l2_bytes_per_clock_per_sm: float | None = None
    """most bytes per clock that one SM gets from L2"""
    l2_bytes_per_clock_per_slice: float | None = None
    """most bytes per clock that one slice of L2 delivers; None where unknown"""
    l2_write_fraction: float | None = None
    """L2 bandwidth of writes over that of reads"""
    l2_slices_per_channel: float | None = None
    """slices of L2 per 32 bits of the DRAM interface"""
    l1_bytes_per_clock: float | None = None
    """bandwidth of L1 per SM, or of the read-only cache where global loads bypass L1"""
    atomics_per_clock_per_slice: float | None = None
    """updates of sectors by atomics per clock and slice of L2"""
    same_address_atomics_per_clock: float | None = None
    """updates of one address by atomics per clock of L2; lanes that the compiler joins count as one"""
    dram_latency_clock_hz: float | None = None
    """SM clock at which cycles.dram_latency was seen"""
    cycles: Cycles = Cycles()
    facts: tuple[Fact, ...] = ()
    """all values above as the file gives them, with sources and status"""

    @property
    def max_warps_per_sm(self) -> int:
        """Most resident warps of an SM."""
        return self.max_threads_per_sm // WARP_SIZE

    @property
    def microarchitecture(self) -> str:
        """First word of its name, such as Volta or Ada."""
        return self.name.partition(" ")[0]

    @property
    def code_name(self) -> str:
        """Name for the compiler, such as sm_70; a user's own architecture may have another id."""
        return f"sm_{self.number}"

    @property
    def number(self) -> int:
        """The compute capability as the compiler writes it: 70 for 7.0."""
        major, _, minor = self.compute_capability.partition(".")
        return int(major) * 10 + int(minor)


def load_architecture(name: str) -> Architecture:
    """Load an architecture by its id.

    >>> load_architecture("sm_89").max_blocks_per_sm
    24
    """
    if name not in _known():
        raise GPUError(_unknown(name), cure=f"Known are {', '.join(_known())}.")
    return _shipped(name)


def inherited_architecture(sheet: Sheet) -> Architecture:
    """Return the architecture that a GPU's file names in its field ``from``, with what the file says otherwise."""
    path = _parent_path(sheet)
    own = {key: fact for key, fact in sheet.facts.items() if is_of_architecture(key)}
    if own:
        return _build(path, own, sheet.path)
    return _shipped(path.stem) if path.parent == _FOLDER else _build(path)


def is_of_architecture(key: str) -> bool:
    """Whether a key of a GPU's file replaces its architecture's: both schemas have it, and GPU has no field for it.

    >>> is_of_architecture("cycles.tensor"), is_of_architecture("sustained.dram_fraction")
    (True, False)
    """
    own = rules("gpu").get(key)
    return key in rules("architecture") and (own is None or own.field is None)


def si_fields(facts: Mapping[str, Fact], kind: str) -> dict[str, Any]:
    """Return the known values in SI base units, by the Python field that the schema names."""
    return {
        rule.field: _convert(facts[key].value, rule.unit)
        for key, rule in rules(kind).items()
        if rule.field is not None and key in facts and facts[key].value is not None
    }


@cache
def _shipped(name: str) -> Architecture:
    return _build(_FOLDER / f"{name}.toml")


@cache
def _known() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def _build(path: Path, own: Mapping[str, Fact] | None = None, place: Path | None = None) -> Architecture:
    """Build what a file and its relatives say, where ``own`` facts of the file at ``place`` win."""
    chain = _read_chain(path)
    facts = {key: fact for sheet in reversed(chain) for key, fact in sheet.facts.items()} | dict(own or {})
    facts = {key: facts[key] for key in rules("architecture") if key in facts}
    capability = next((sheet.compute_capability for sheet in chain if sheet.compute_capability), "")
    faults = missing_faults(facts, "architecture")
    if not re.fullmatch(r"[1-9][0-9]?\.[0-9]", capability):
        faults.append(f'compute_capability is {capability[:20]!r} (give a text such as "8.6")')
    fields = si_fields(facts, "architecture")
    raise_faults(faults or _limit_contradictions(fields), place or path)
    cycles = {name.removeprefix("cycles."): fields.pop(name) for name in list(fields) if name.startswith("cycles.")}
    return Architecture(
        id=path.stem,
        name=chain[0].name or path.stem,
        compute_capability=capability,
        cycles=Cycles(**cycles),
        facts=tuple(facts.values()),
        **fields,
    )


def _read_chain(path: Path) -> list[Sheet]:
    """Read a file and all that it inherits from, nearest first."""
    chain = [_sheet(path)]
    while chain[-1].parent is not None:
        parent = _parent_path(chain[-1])
        if any(parent.resolve() == sheet.path.resolve() for sheet in chain):
            raise_faults([f"from leads back to {parent.name} (name another architecture)"], path)
        chain.append(_sheet(parent))
    return chain


def _sheet(path: Path) -> Sheet:
    return _shipped_sheet(path) if path.parent == _FOLDER else read_sheet(path, "architecture")


@cache
def _shipped_sheet(path: Path) -> Sheet:
    return read_sheet(path, "architecture")


def _parent_path(sheet: Sheet) -> Path:
    parent = sheet.parent or ""
    if parent.endswith(".toml"):
        return sheet.path.parent / parent
    if parent not in _known():
        raise_faults([f"from: {_unknown(parent)} (known are {', '.join(_known())})"], sheet.path)
    return _FOLDER / f"{parent}.toml"


def _limit_contradictions(fields: Mapping[str, Any]) -> list[str]:
    """Return a fault for each pair of values that cannot both be true."""
    faults = []
    if fields["max_registers_per_block"] > fields["registers_per_sm"]:
        faults.append("registers.max_per_block is above registers.per_sm (mend one of them)")
    if (
        fields["shared_bytes_per_block_optin"] + fields["reserved_shared_bytes_per_block"]
        > fields["shared_bytes_per_sm"]
    ):
        faults.append("shared.per_block_optin_kib and the reserved part exceed shared.per_sm_kib (mend one of them)")
    if fields["shared_bytes_per_block"] > fields["shared_bytes_per_block_optin"]:
        faults.append("shared.per_block_kib is above shared.per_block_optin_kib (mend one of them)")
    least, carveouts = fields.get("least_default_carveout_bytes"), fields.get("shared_carveouts_bytes")
    if least is not None and carveouts is not None and least not in carveouts:
        faults.append("shared.least_default_carveout_kib is none of shared.carveouts_kib (mend one of them)")
    return faults


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name[:40], _known(), n=1)
    return f"no architecture is called {name[:40]!a}" + (f"; the nearest is {near[0]}" if near else "")


def _convert(value: Any, unit: str) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, tuple):
        return tuple(item * _SI[unit] for item in value)
    converted = value * _SI[unit]
    # Bytes are whole even where the file writes 0.5 KiB.
    return round(converted) if unit in {"KiB", "GiB"} else converted


__all__ = [
    "GPU", "WARP_SIZE", "Architecture", "Cycles", "Fact", "Rate", "Status", "launch_overhead_s", "list_gpus",
    "load_architecture", "load_gpu", "resolve_gpu",
]  # fmt: skip

_DRAM_CHANNEL_BITS = 32
_LOWEST_CLOCK_HZ = MEGA
_PEAK_TOLERANCE = 1 * PERCENT
#: Files that a GPU's file may lead through.
_MOST_ANCESTORS = 8


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
    """clock that models use: default_clock_hz, unless at_clock() says otherwise"""
    clock_boost_hz: float
    dram_bytes_per_s: float
    """peak DRAM bandwidth: data rate x bus width"""
    clock_base_hz: float | None = None
    clock_default_hz: float | None = None
    """clock under a long compute kernel; None: the boost clock"""
    clock_low_hz: float | None = None
    """lowest clock of such kernels; None, here and for the highest: unknown, or the clock was given by at_clock()"""
    clock_high_hz: float | None = None
    clock_tensor_hz: float | None = None
    """clock with all tensor cores at work; None: the default one, or the clock was given by at_clock()"""
    memory_bytes: int | None = None
    dram_bus_bits: int | None = None
    l2_bytes: int | None = None
    l2_partitions: int | None = None
    """parts of L2 that each cache for their own SMs: data read by all SMs takes its size in every one"""
    tdp_w: float | None = None
    sustained_dram_bytes_per_s: float | None = None
    """measured bandwidth of a streaming copy, bytes read and written together"""
    own_dram_fraction: float | None = None
    """sustained over peak DRAM bandwidth, in place of the architecture's sustained_dram_fraction"""
    l2_bytes_per_s: float | None = None
    """measured bandwidth of L2 reads by all SMs"""
    l1_bytes_per_s: float | None = None
    """measured bandwidth of L1 reads by all SMs"""
    sustained_fp32_flops_per_s: float | None = None
    sustained_fp64_flops_per_s: float | None = None
    sgemm_flops_per_s: float | None = None
    """measured rate of a large cuBLAS matrix product"""
    launch_interval_s: float | None = None
    """shortest time between kernels queued in a stream"""
    l1_latency_cycles: float | None = None
    l2_latency_cycles: float | None = None
    dram_latency_s: float | None = None
    facts: tuple[Fact, ...] = ()
    """all values of the GPU's own file, with sources and status"""

    @property
    def compute_capability(self) -> str:
        """Compute capability, such as 7.0."""
        return self.architecture.compute_capability

    @property
    def default_clock_hz(self) -> float:
        """SM clock under a long compute kernel, with the settings that the GPU is delivered with."""
        return self.clock_boost_hz if self.clock_default_hz is None else self.clock_default_hz

    @property
    def clock_range_hz(self) -> tuple[float, float] | None:
        """Clocks that compute kernels run at; None where nobody knows, and where the clock was given."""
        if self.clock_low_hz is None or self.clock_high_hz is None:
            return None
        return self.clock_low_hz, self.clock_high_hz

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

    def dram_bytes_per_s_of(self, written: float) -> float:
        """Return the sustained DRAM bandwidth of traffic of which a part, 0 to 1, is written; the peak where unknown.

        DRAM loses time where it turns from reads to writes: the gain of reads alone over a copy shrinks by 4 x part x
        (1 - part), to nothing where as much is written as read; what is mostly written gains nothing (a V100 fills
        arrays as fast as it copies them). Fails when: reads and writes come apart, in phases that all SMs share.
        """
        if self.dram_rate is None:
            return self.dram_bytes_per_s
        gain = (self.architecture.dram_one_way or 1.0) - 1.0
        copied, read = self.dram_rate.bytes_per_s, min(0.5, written)
        return min(self.dram_bytes_per_s, copied * (1 + gain * (1 - 4 * read * (1 - read))))

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
        """Return this GPU at its ``"base"``, ``"boost"`` or ``"default"`` clock, or at a frequency in hertz.

        Such a clock is taken as known, and has no range; busy tensor cores lower the default one only.
        """
        clocks = {"base": self.clock_base_hz, "boost": self.clock_boost_hz, "default": self.default_clock_hz}
        clock = clocks.get(spec) if isinstance(spec, str) else spec
        if clock is None and spec == "base":
            raise GPUError("its base clock is unknown", where=self.name, cure="Give the clock as a number.")
        if clock is None or isinstance(clock, bool) or not _LOWEST_CLOCK_HZ <= clock < math.inf:
            raise GPUError(
                f"{str(spec)[:40]!r} is not a clock", where=self.name, cure="Give base, boost, default or hertz."
            )
        under_load = self.clock_tensor_hz if spec == "default" else None
        return replace(self, clock_hz=float(clock), clock_low_hz=None, clock_high_hz=None, clock_tensor_hz=under_load)

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

    >>> load_gpu("NVIDIA TITAN V").at_clock("boost").peak_fp32_flops_per_s
    14899200000000.0
    """
    return resolve_gpu(name_or_path)[0]


def resolve_gpu(name_or_path: str | Path) -> tuple[GPU, tuple[Caveat, ...]]:
    """Load a GPU and say what had to be assumed to know which one is meant."""
    if is_path(name_or_path):
        sheet = _whole_sheet(Path(name_or_path))
        return _gpu_of(sheet), sheet.caveats
    gpu_id, caveats = find_id(str(name_or_path))
    return _shipped_gpu(gpu_id), caveats


def list_gpus() -> tuple[GPU, ...]:
    """Load every GPU that has a data file, sorted by id."""
    return tuple(_shipped_gpu(gpu_id) for gpu_id in known_ids())


def launch_overhead_s(situation: str) -> float:
    """Return the seconds that a launch adds: series, single, cold, profiler (a Timing does), or template.

    >>> launch_overhead_s("series")
    1.6e-06
    """
    values = _around_a_launch("overhead")
    if situation not in values:
        raise GPUError(f"no launch overhead is called {situation!r}", cure=f"Known are {', '.join(values)}.")
    return float(values[situation])


@dataclass(frozen=True, slots=True)
class DoBench:
    """What Triton's do_bench adds to a time beside its overhead."""

    dirty_l2: float
    """part of L2 that its fill leaves to be written back; of what was seen: the middle"""
    dirty_l2_low: float
    dirty_l2_high: float
    width: float
    """how much wider intervals of its times are, in ln(time)"""


def do_bench() -> DoBench:
    """Return what Triton's do_bench adds.

    >>> do_bench().dirty_l2
    0.2
    """
    return DoBench(**_around_a_launch("do_bench"))


@cache
def _around_a_launch(section: str) -> dict[str, Any]:
    """Return the facts of a section of the file on launches."""
    facts = read_sheet(DATA / "launch_overhead.toml", "launch_overhead").facts
    return si_fields({key: fact for key, fact in facts.items() if key.startswith(f"{section}.")}, "launch_overhead")


@cache
def _shipped_gpu(gpu_id: str) -> GPU:
    return _build_gpu(GPU_FOLDER / f"{gpu_id}.toml")


def _build_gpu(path: Path) -> GPU:
    return _gpu_of(_whole_sheet(path))


def _whole_sheet(path: Path, seen: tuple[Path, ...] = ()) -> Sheet:
    """Return what a GPU's file says, with what it inherits from another GPU."""
    sheet = read_sheet(path, "gpu")
    if sheet.changes is None:
        usual = usual_clock_range(path.stem, sheet.facts) if path.parent == GPU_FOLDER else {}
        return replace(sheet, facts=dict(sheet.facts) | usual)
    if path.resolve() in seen or len(seen) == _MOST_ANCESTORS:
        raise_faults([f"from leads back to {path.name}, or through too many files (name a GPU of the catalogue)"], path)
    other = _whole_sheet(sheet.changes, (*seen, path.resolve()))
    changed = _gpu_of(other)
    facts = changed_facts(
        sheet.facts, other.facts, {fact.key: fact for fact in changed.architecture.facts}, changed.name
    )
    of_file = other.parent is not None and other.parent.endswith(".toml")
    parent = f"{(other.path.parent / str(other.parent)).resolve()}" if of_file else other.parent
    own = ", ".join(sheet.facts) or "nothing"
    caveat = Caveat.of(CaveatKind.GPU_IS_HYPOTHETICAL, other.name or other.path.stem, changed=own)
    whole = replace(sheet, parent=parent, facts=facts, caveats=(caveat,))
    raise_faults(missing_of_all(whole), path)
    return whole


def _gpu_of(sheet: Sheet) -> GPU:
    facts = {key: fact for key, fact in sheet.facts.items() if not is_of_architecture(key)}
    fields = si_fields(facts, "gpu")
    # Times of the GPU that a file changes are none of this one.
    is_taken = sheet.changes is not None and sheet.path.stem in known_ids()
    gpu = GPU(
        id=f"{sheet.path.stem}-changed" if is_taken else sheet.path.stem,
        name=sheet.name or sheet.path.stem,
        architecture=inherited_architecture(sheet),
        clock_hz=fields.get("clock_default_hz", fields["clock_boost_hz"]),
        facts=tuple(sheet.facts[key] for key in rules_of_changes() if key in sheet.facts),
        **fields,
    )
    raise_faults(_contradictions(gpu, facts), sheet.path)
    return gpu


def _contradictions(gpu: GPU, facts: Mapping[str, Fact]) -> list[str]:
    """Return a fault for each pair of values that cannot both be true."""
    faults = []
    if gpu.clock_base_hz is not None and gpu.clock_base_hz > gpu.clock_boost_hz:
        faults.append("peak.clock_base_mhz is above peak.clock_boost_mhz (mend one of them)")
    if gpu.sustained_dram_bytes_per_s is not None and gpu.sustained_dram_bytes_per_s > gpu.dram_bytes_per_s:
        faults.append("sustained.dram_gb_per_s is above peak.dram_gb_per_s (mend one of them)")
    faults += _wrong_clocks(gpu)
    boosted = gpu.at_clock("boost")
    for key, computed in (
        ("peak.fp32_gflops", boosted.peak_fp32_flops_per_s / GIGA),
        ("peak.fp64_gflops", boosted.peak_fp64_flops_per_s / GIGA),
    ):
        stated = facts[key].value if key in facts else None
        if isinstance(stated, int | float) and not math.isclose(stated, computed, rel_tol=_PEAK_TOLERANCE):
            faults.append(
                f"{key} is {stated:g}, but 2 x lanes x SMs x boost clock is {computed:.5g} (mend one of them)"
            )
    return faults + _wrong_data_rate(gpu, facts)


def _wrong_clocks(gpu: GPU) -> list[str]:
    """Return a fault where the clocks under load are not in order, or one end of their range is missing."""
    if (gpu.clock_low_hz is None) != (gpu.clock_high_hz is None):
        return ["of clocks.low_mhz and clocks.high_mhz one is missing (give both, or none)"]
    if gpu.clock_range_hz is None or gpu.clock_range_hz[0] <= gpu.default_clock_hz <= gpu.clock_range_hz[1]:
        return []
    return ["the clock under load is not within clocks.low_mhz and clocks.high_mhz (mend one of them)"]


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


# How an SM divides one memory between L1 and shared memory: what a program wishes, and what it gets.
#
# Source: cudaFuncSetCacheConfig and cudaFuncAttributePreferredSharedMemoryCarveout in the CUDA runtime API; the
# rounding is that of cuda_occupancy.h. What the driver does without a wish is not published: taken is the smallest
# size that the resident blocks fit in, and none below the smallest that drivers were seen to choose
# (``least_default_carveout_kib``).


#: cudaFuncCachePreferL1, …Equal and …Shared, and the percentages that they mean since Volta.
_CACHE_CONFIGS = {"l1": 0, "equal": 50, "shared": 100}
_ALL = 100
_PERCENT = re.compile(r"([0-9]{1,3})\s*%")
_KIB = re.compile(r"([0-9]{1,6})\s*KiB", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CarveoutWish:
    """A program's wish for shared memory on an SM; one of the three is given."""

    percent: int | None = None
    """share of the largest carve-out in percent, 0 to 100"""
    shared_bytes: int | None = None
    cache_config: str | None = None
    """larger part of the memory: l1, equal or shared"""


def parse_carveout(text: str) -> CarveoutWish:
    """Return the wish that a text states: ``50%``, ``64KiB``, or l1, equal or shared.

    >>> parse_carveout("50%").percent, parse_carveout("64 KiB").shared_bytes, parse_carveout("L1").cache_config
    (50, 65536, 'l1')
    """
    word = text.strip()
    if word.lower() in _CACHE_CONFIGS:
        return CarveoutWish(cache_config=word.lower())
    percent, kib = _PERCENT.fullmatch(word), _KIB.fullmatch(word)
    if percent is not None and int(percent[1]) <= _ALL:
        return CarveoutWish(percent=int(percent[1]))
    if kib is not None:
        return CarveoutWish(shared_bytes=int(kib[1]) * KIB)
    raise InputError(
        f"{text[:40]!a} is not a carve-out of shared memory",
        cure="Give 0% to 100%, a size such as 64KiB, or one of l1, equal, shared.",
    )


def preferred_bytes(wish: CarveoutWish, a: Architecture) -> int | None:
    """Return the size that a wish selects: the next that the SM has; None where it has no choice or does not heed it.

    A percentage is one of the largest size, rounded down; Kepler heeds only the three sizes. 50 % of 96 KiB on 7.0:

    >>> from kerncast.gpu.gpu import load_architecture
    >>> preferred_bytes(CarveoutWish(percent=50), load_architecture("sm_70")) // 1024
    64
    """
    if a.shared_carveouts_bytes is None:
        return None
    if wish.shared_bytes is not None:
        most = a.shared_bytes_per_sm
        if wish.shared_bytes > most:
            raise InputError(
                f"a carve-out of {wish.shared_bytes // KIB} KiB is over the {most // KIB} KiB of an SM",
                where=f"compute capability {a.compute_capability}",
                cure="Give less, or a percentage.",
            )
        return _next_size(a, wish.shared_bytes)
    percent = wish.percent
    if wish.cache_config is not None:
        percent = _CACHE_CONFIGS[wish.cache_config]
        if a.heeds_carveout_percent is False:
            sizes = a.shared_carveouts_bytes
            return sizes[(len(sizes) - 1) * percent // _ALL]
    if percent is None or a.heeds_carveout_percent is False:
        return None
    return _next_size(a, percent * a.shared_bytes_per_sm // _ALL)


def granted_bytes(a: Architecture, preferred: int | None, needed: int) -> int:
    """Return the shared memory that an SM can have, for blocks that need so much each, and a preferred size.

    Without a preference it is the largest. Where one block needs more than was preferred, it is the next size that
    holds one block; on Kepler the largest.
    """
    if preferred is None or a.shared_carveouts_bytes is None:
        return a.shared_bytes_per_sm
    if preferred >= needed:
        return preferred
    return a.shared_bytes_per_sm if a.heeds_carveout_percent is False else _next_size(a, needed)


def default_bytes(a: Architecture, needed: int) -> int | None:
    """Return the size that the driver is taken to choose where resident blocks need so much; None: it has no choice."""
    if a.shared_carveouts_bytes is None:
        return None
    return _next_size(a, max(needed, a.least_default_carveout_bytes or 0))


def _next_size(a: Architecture, least: int) -> int:
    assert a.shared_carveouts_bytes is not None
    return next((size for size in a.shared_carveouts_bytes if size >= least), a.shared_bytes_per_sm)


@dataclass(frozen=True, slots=True)
class IncompleteGPU:
    """A GPU of ``data/incomplete_gpus``: too little is published for any forecast, and what every model lacks."""

    id: str
    name: str
    architecture: Architecture
    facts: tuple[Fact, ...]
    """all values of the GPU's own file, with sources and status"""
    lacks: tuple[str, ...]
    """missing keys, such as peak.clock_boost_mhz"""

    @property
    def all_facts(self) -> tuple[Fact, ...]:
        """Every value of the GPU's own file, then those that it inherits."""
        own = {fact.key for fact in self.facts}
        return (*self.facts, *(fact for fact in self.architecture.facts if fact.key not in own))


def load_incomplete(gpu_id: str) -> IncompleteGPU:
    """Load one by its id.

    >>> load_incomplete("h20").lacks
    ('peak.clock_boost_mhz', 'lanes.fp64_per_sm')
    """
    path = INCOMPLETE_FOLDER / f"{gpu_id}.toml"
    sheet = read_sheet(path, "gpu", may_lack=True)
    return IncompleteGPU(
        id=gpu_id,
        name=sheet.name or gpu_id,
        architecture=load_architecture(sheet.parent or ""),
        facts=tuple(sheet.facts.values()),
        lacks=tuple(rule.key for rule in unknown_to_all(sheet)),
    )


def list_incomplete() -> tuple[IncompleteGPU, ...]:
    """Load all of them, sorted by id."""
    return tuple(load_incomplete(gpu_id) for gpu_id in incomplete_ids())


# A GPU that does not exist, from one in memory: what a file with ``from`` says, without a file.


def varied(gpu: GPU, values: Mapping[str, float]) -> GPU:
    """Return a GPU with other values of these keys, in the units of data files, and with what follows from them.

    It keeps its name and id, and a clock that ``at_clock`` chose keeps its part of the default clock. Raises GPUError
    for values that cannot be true. Equations and where they fail: ``gpu/hypothetical.py``.

    >>> varied(load_gpu("TITAN V"), {"peak.dram_gb_per_s": 1305.6}).sustained_dram_bytes_per_s / 1e9
    1219.8
    """
    own = {key: _told(key, value) for key, value in values.items()}
    inherited = {fact.key: fact for fact in gpu.facts}
    facts = changed_facts(own, inherited, {fact.key: fact for fact in gpu.architecture.facts}, gpu.name)
    fields = si_fields({key: fact for key, fact in facts.items() if not is_of_architecture(key)}, "gpu")
    lost = {
        rule.field: None for key, rule in rules("gpu").items() if rule.field and key in inherited.keys() - facts.keys()
    }
    architecture = _varied_architecture(gpu.architecture, facts)
    new = replace(gpu, architecture=architecture, facts=tuple(facts.values()), **(lost | fields))
    found = replace(new, clock_hz=new.default_clock_hz)
    raise_faults(_contradictions(found, facts), Path(gpu.name))
    part = gpu.clock_hz / gpu.default_clock_hz
    return found if part == 1 and gpu.clock_range_hz else found.at_clock(found.default_clock_hz * part)


def _told(key: str, value: float) -> Fact:
    rule = rules_of_changes()[key]
    whole = rule.kind == "whole"
    return Fact(key, round(value) if whole else value, rule.unit, ("given",), Status.SINGLE_SOURCE)


def _varied_architecture(a: Architecture, facts: Mapping[str, Fact]) -> Architecture:
    own = {key: fact for key, fact in facts.items() if is_of_architecture(key)}
    every = {fact.key: fact for fact in a.facts} | own
    fields = si_fields(own, "architecture")
    cycles = {name.removeprefix("cycles."): fields.pop(name) for name in list(fields) if name.startswith("cycles.")}
    raise_faults(_limit_contradictions(si_fields(every, "architecture")), Path(a.id))
    return replace(a, cycles=replace(a.cycles, **cycles), facts=tuple(every.values()), **fields)
