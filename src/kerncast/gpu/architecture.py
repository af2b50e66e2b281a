"""NOUN Architecture: what all chips of one compute capability have in common, in SI base units.

The facts lie in ``data/architectures/*.toml``. An architecture inherits each value that its file does not
give from the one that its field ``from`` names; the status ``unknown`` cancels an inherited value.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kerncast.errors import GPUError
from kerncast.gpu.files import DATA, Fact, Sheet, missing_faults, raise_faults, read_sheet, rules
from kerncast.units import GIB, GIGA, KIB, MEGA, MICROSECOND

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
    """that an integer multiply-add occupies the FMA pipe too; 0 where it has a pipe of its own"""
    alu_on_fma: float | None = None
    """likewise for integer add, logic, compare"""
    special: float | None = None
    load_store: float | None = None
    fp64: float | None = None
    fp16: float | None = None
    """packed: two results per lane"""
    tensor: float | None = None
    """a product of 16 x 8 x 16 FP16 with FP32 sums"""
    branch: float | None = None
    uniform: float | None = None
    """None where there is no uniform datapath"""
    load_store_sm: float | None = None
    """of the queue that the sub-partitions share, per instruction"""
    shared_wavefront: float | None = None
    shared_reissue: float | None = None
    """until an access is issued again, for each such wavefront; None: the access is issued once"""
    shared_word: float | None = None
    """of one SM per 4-byte word that each lane of a wide load gets: registers take them in one after the other"""
    l1_tag: float | None = None
    """per 128-byte line of a request"""
    l1_pass: float | None = None
    """per pass of a load through the banks of L1; None: L1 has no banks, or nobody has measured it"""
    store_line: float | None = None
    """per 128-byte line of a store"""
    shared_atomic: float | None = None
    """per lane that wants the same address"""
    alu_latency: float | None = None
    fma_latency: float | None = None
    """None: as alu_latency, here and for imad and fp16"""
    imad_latency: float | None = None
    special_latency: float | None = None
    fp64_latency: float | None = None
    fp16_latency: float | None = None
    tensor_latency: float | None = None
    uniform_latency: float | None = None
    shared_latency: float | None = None
    l1_latency: float | None = None
    """of the read-only cache where global loads bypass L1"""
    l2_latency: float | None = None
    dram_latency: float | None = None
    """all of it, at dram_latency_clock_hz; GPU.dram_latency is at the GPU's clock"""
    barrier_latency: float | None = None
    branch_latency: float | None = None
    block_launch: float | None = None
    """from the end of a block to the first instruction of the one that takes its place"""
    grid_launch: float | None = None
    """from the start of a block to that of the next one anywhere on the GPU"""
    idle_block: float | None = None
    """of a block that finds nothing to do"""
    lsu_queue: float | None = None
    """of work that the load/store queue takes in before warps have to wait; likewise those below"""
    l2_queue: float | None = None
    dram_queue: float | None = None
    atomic_queue: float | None = None


@dataclass(frozen=True, slots=True)
class Architecture:
    """What all chips of one compute capability have in common; counts are per SM unless named otherwise."""

    id: str
    """such as sm_70"""
    name: str
    compute_capability: str
    """such as 7.0"""
    fp32_lanes_per_sm: int
    """results per clock; a fused multiply-add is one result"""
    fp64_lanes_per_sm: int
    int32_lanes_per_sm: int
    special_lanes_per_sm: int
    """reciprocal, square root, exponential, logarithm, sine, cosine"""
    schedulers_per_sm: int
    """each owns an equal part of the registers: a sub-partition"""
    warp_instructions_per_clock_per_sm: int
    """the most that can be issued"""
    max_threads_per_sm: int
    max_threads_per_block: int
    max_blocks_per_sm: int
    registers_per_sm: int
    max_registers_per_block: int
    max_registers_per_thread: int
    register_allocation_unit: int
    """registers of a warp are rounded up to a multiple of this"""
    warp_allocation_granularity: int
    """the check of a block's registers rounds its warps up to a multiple of this"""
    shared_bytes_per_sm: int
    """at the largest carve-out"""
    shared_bytes_per_block: int
    """without opting in"""
    shared_bytes_per_block_optin: int
    reserved_shared_bytes_per_block: int
    shared_allocation_bytes: int
    """shared memory of a block is rounded up to a multiple of this"""
    caches_global_loads_in_l1: bool
    """with the compiler's default cache operators, here and below"""
    caches_read_only_loads_in_l1: bool
    """loads by ld.global.nc, in L1 or in a cache of their own"""
    caches_local_in_l1: bool
    stores_allocate_in_l1: bool
    """whether a global store that misses L1 puts its data there"""
    issues_oldest_first: bool | None = None
    """whether schedulers prefer the warp that has been resident longest; else, and where unknown, all in turn"""
    fp16_lanes_per_sm: int | None = None
    """both halves of a packed instruction count"""
    barriers_per_sm: int | None = None
    """None where barriers never limit occupancy"""
    sms_per_tpc: int | None = None
    shared_carveouts_bytes: tuple[int, ...] | None = None
    """sizes that the driver can choose; the rest of l1_and_shared_bytes serves as L1"""
    l1_and_shared_bytes: int | None = None
    least_default_carveout_bytes: int | None = None
    """smallest of the carve-outs that the driver chooses by itself"""
    heeds_carveout_percent: bool | None = None
    """whether a program can wish for a carve-out in percent; else only for more of one part, or as much of both"""
    l1_bytes: int | None = None
    """where shared memory takes nothing of it"""
    read_only_cache_bytes: int | None = None
    """None where read-only loads are cached in L1, or not at all"""
    instruction_cache_bytes: int | None = None
    """code that an SM holds"""
    l2_writes_back_early: bool | None = None
    """whether dirty sectors go to DRAM before their place is needed"""
    l2_fetch_bytes: int | None = None
    """aligned bytes that L2 reads from DRAM when one sector misses"""
    dram_channel_bits: int | None = None
    """of the interface: each channel opens rows of its own"""
    dram_activate_s: float | None = None
    """between two rows that one channel opens"""
    sustained_dram_fraction: float | None = None
    """sustained over peak bandwidth, for GPUs that were not measured"""
    l2_bytes_per_clock_per_channel: float | None = None
    """sustained, per SM clock and 32-bit DRAM channel, for GPUs that were not measured"""
    l2_bytes_per_clock_per_sm: float | None = None
    """most that one SM gets from L2"""
    l2_bytes_per_clock_per_slice: float | None = None
    """most that one slice of L2 delivers; None where unknown"""
    l2_write_fraction: float | None = None
    """bandwidth of writes over that of reads"""
    l2_slices_per_channel: float | None = None
    """per 32 bits of the DRAM interface"""
    l1_bytes_per_clock: float | None = None
    """per SM; of the read-only cache where global loads bypass L1"""
    atomics_per_clock_per_slice: float | None = None
    """lane operations on distinct addresses, per SM clock and L2 slice"""
    same_address_atomics_per_clock: float | None = None
    """per SM clock; the lanes of a warp that agree on an address count as one"""
    dram_latency_clock_hz: float | None = None
    """SM clock at which cycles.dram_latency was seen"""
    cycles: Cycles = Cycles()
    facts: tuple[Fact, ...] = ()
    """every value above as its file gives it, with sources and status"""

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
        """What the compiler calls it, such as sm_70; a user's own architecture may have another id."""
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
    return key in rules("architecture") and rules("gpu")[key].field is None


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
    chain = [read_sheet(path, "architecture")]
    while chain[-1].parent is not None:
        parent = _parent_path(chain[-1])
        if any(parent.resolve() == sheet.path.resolve() for sheet in chain):
            raise_faults([f"from leads back to {parent.name} (name another architecture)"], path)
        chain.append(read_sheet(parent, "architecture"))
    return chain


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
