"""Metrics of memory that follow from counts: ratios, bytes of sectors; L1, L2 and DRAM on one GPU."""

from collections.abc import Iterable
from dataclasses import dataclass

from kerncast.metrics.execution import flops_per_byte
from kerncast.metrics.metric_names import percentage, ratio, total
from kerncast.profiles import SECTOR_BYTES, CacheSimulation, Count, Counts, KernelProfile, Origin
from kerncast.profiles.counts import (
    DRAM_BYTES,
    DRAM_READ_SECTORS,
    DRAM_WRITE_SECTORS,
    L1_LOAD_HITS,
    L1_LOAD_SECTORS,
    L1_LOCAL_HITS,
    L2_ATOMIC_HITS,
    L2_ATOMIC_SECTORS,
    L2_INSTRUCTION_SECTORS,
    L2_LOAD_HITS,
    L2_LOAD_SECTORS,
    L2_WRITE_SECTORS,
    OPERATIONS,
    QUANTITIES,
    SPACES,
    access_name,
)

_LANES = 32.0
_ATOMICS = frozenset({"atom", "red"})


@dataclass(frozen=True, slots=True)
class Accesses:
    """Counts of the accesses to one state space by some operations together; 0 where there are none."""

    requests: Count
    """warp instructions with at least one active thread"""
    threads: Count
    nbytes: Count
    """bytes that the threads ask for"""
    sectors: Count
    lines: Count
    wavefronts: Count
    conflicts: Count
    contention: Count


def accesses(counts: Counts, space: str, operations: Iterable[str] = OPERATIONS) -> Accesses:
    """Return the accesses to one state space by some operations together."""
    wanted = set(operations)
    chosen = [operation for operation in OPERATIONS if operation in wanted]
    return Accesses(*(counts.total(access_name(space, each, quantity) for each in chosen) for quantity in QUANTITIES))


def occurring_accesses(profile: KernelProfile) -> tuple[tuple[str, str, Accesses], ...]:
    """Return the state space, the operation and the accesses of an executed profile, where there are any."""
    if profile.mix is None:  # of a profiler's counts some are missing, which does not mean that there are none
        return ()
    found = [(space, each, accesses(profile.counts, space, {each})) for space in SPACES for each in OPERATIONS]
    return tuple(row for row in found if row[2].requests.value)


def memory_metrics(profile: KernelProfile) -> dict[str, Count | None]:
    """Return what follows from the accesses of an executed profile; what does not occur is zero."""
    values: dict[str, Count | None] = {}
    for space, operations in (("global", ("ld", "st", "atom", "red")), ("local", ("ld", "st"))):
        for operation in operations:
            values |= _sector_values(space, operation, accesses(profile.counts, space, {operation}))
    values |= _shared_values(profile) | _copy_values(profile.counts)
    for space in ("global", "shared"):
        atomics = accesses(profile.counts, space, _ATOMICS)
        values[f"kerncast__atomic_contention_{space}.ratio"] = ratio(atomics.contention, atomics.requests, _LANES)
    return values


def _sector_values(space: str, operation: str, found: Accesses) -> dict[str, Count | None]:
    pipe = f"pipe_lsu_mem_{space}_op_{operation}"
    values: dict[str, Count | None] = {
        f"l1tex__t_bytes_{pipe}.sum": found.sectors.times(SECTOR_BYTES),
        f"l1tex__average_t_sectors_per_request_{pipe}.ratio": ratio(found.sectors, found.requests),
    }
    if operation != "atom":  # ncu has this counter for atomics through generic addresses only
        values[f"smsp__inst_executed_op_{space}_{operation}.sum"] = found.requests
    if space == "global":
        each = ratio(found.nbytes, found.sectors)
        values[f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{operation}.ratio"] = each
        if operation not in _ATOMICS:
            values[f"kerncast__lines_per_request_global_{operation}.ratio"] = ratio(found.lines, found.requests)
    return values


def _copy_values(counts: Counts) -> dict[str, Count | None]:
    """Return what follows from copies from global to shared memory; GPUs before sm_80 have no such counters."""
    read, written = (accesses(counts, space, {"ldgsts"}) for space in ("global", "shared"))
    if not written.requests.value:
        return {}
    return {
        "smsp__inst_executed_op_ldgsts.sum": written.requests,
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ldgsts.ratio": ratio(read.nbytes, read.sectors),
        "smsp__sass_average_data_bytes_per_wavefront_mem_shared_op_ldgsts.ratio": ratio(
            written.nbytes, written.wavefronts
        ),
    }


def is_disassembled(profile: KernelProfile) -> bool:
    """Return whether machine instructions are those of the compiled code; estimates of single opcodes are poor."""
    return profile.machine is not None and profile.machine.origin is Origin.DISASSEMBLED


def _shared_values(profile: KernelProfile) -> dict[str, Count | None]:
    wavefronts, conflicts = "data_pipe_lsu_wavefronts_mem_shared", "data_bank_conflicts_pipe_lsu_mem_shared"
    values: dict[str, Count | None] = {}
    for operation, members in (("ld", {"ld"}), ("st", {"st"}), ("atom", _ATOMICS)):
        found = accesses(profile.counts, "shared", members)
        if not is_disassembled(profile):  # else machine instructions are counted: compilers join loads of neighbours
            values[f"smsp__inst_executed_op_shared_{operation}.sum"] = found.requests
        if operation == "atom":  # of both kinds, as ncu has them
            values |= {
                f"l1tex__{wavefronts}_op_atom.sum": found.wavefronts,
                f"l1tex__{conflicts}_op_atom.sum": found.conflicts,
                "smsp__sass_data_bytes_mem_shared_op_atom.sum": found.nbytes,
            }
        each = ratio(found.wavefronts, found.requests)
        values[f"kerncast__wavefronts_per_request_shared_{operation}.ratio"] = each
    return values | {f"l1tex__{conflicts}.sum": accesses(profile.counts, "shared").conflicts}


def cache_metrics(profile: KernelProfile, caches: CacheSimulation) -> dict[str, Count | None]:
    """Return what follows from the traffic between simulated caches and DRAM."""
    counts = profile.counts
    return {
        **_l1_values(counts),
        **_l2_values(counts),
        "dram__bytes_read.sum": counts[DRAM_READ_SECTORS].times(SECTOR_BYTES),
        "dram__bytes_write.sum": counts[DRAM_WRITE_SECTORS].times(SECTOR_BYTES),
        "kerncast__flops_per_dram_byte.ratio": flops_per_byte(profile, counts[DRAM_BYTES]),
        "kerncast__l1_capacity": None if caches.l1_bytes is None else Count.exact(caches.l1_bytes),
        "kerncast__l2_capacity": Count.exact(caches.l2_bytes),
        "kerncast__wave_blocks": Count.exact(caches.wave_blocks) if caches.wave_blocks else None,
        "kerncast__wave_bytes_touched": wave_bytes(caches),
        "kerncast__blocks_simulated": Count.exact(caches.blocks_simulated),
    }


def wave_bytes(caches: CacheSimulation) -> Count | None:
    """Return the bytes that the blocks that run at once touch, in whole sectors."""
    return None if caches.wave_sectors is None else Count.exact(caches.wave_sectors * SECTOR_BYTES)


def l2_reads(counts: Counts) -> tuple[Count, Count]:
    """Return the sectors that loads and instruction fetches ask of L2, and those found there; code is always found."""
    code = counts[L2_INSTRUCTION_SECTORS]
    return counts[L2_LOAD_SECTORS] + code, counts[L2_LOAD_HITS] + code


def l2_totals(counts: Counts) -> tuple[Count, Count]:
    """Return the sectors that reads, writes and atomics ask of L2, and those found there.

    Profilers count all writes as found, as L2 takes them in without reading DRAM: on a Volta card none missed in 25
    kernels (accel-sim-framework, counters of hardware).
    """
    read, found = l2_reads(counts)
    written = counts[L2_WRITE_SECTORS]
    asked = total((read, written, counts[L2_ATOMIC_SECTORS]))
    return asked, total((found, written, counts[L2_ATOMIC_HITS]))


def _l1_values(counts: Counts) -> dict[str, Count | None]:
    asked, hits, local_hits = counts[L1_LOAD_SECTORS], counts[L1_LOAD_HITS], counts[L1_LOCAL_HITS]
    local = accesses(counts, "local", {"ld"}).sectors
    loads = "pipe_lsu_mem_global_op_ld"
    return {
        f"l1tex__t_sectors_{loads}_lookup_miss.sum": asked - hits,
        f"l1tex__t_sector_{loads}_hit_rate.pct": percentage(hits, asked),
        "l1tex__t_sector_pipe_lsu_mem_local_op_ld_hit_rate.pct": percentage(local_hits, local),
        "l1tex__t_sector_hit_rate.pct": percentage(hits + local_hits, asked + local),
    }


def _l2_values(counts: Counts) -> dict[str, Count | None]:
    values: dict[str, Count | None] = {}
    written = counts[L2_WRITE_SECTORS]
    for operation, asked, hits in (("read", *l2_reads(counts)), ("write", written, written)):
        values |= {
            f"lts__t_sectors_op_{operation}.sum": asked,
            f"lts__t_sectors_op_{operation}_lookup_hit.sum": hits,
            f"lts__t_sectors_op_{operation}_lookup_miss.sum": asked - hits,
            f"lts__t_sector_op_{operation}_hit_rate.pct": percentage(hits, asked),
        }
    for operation in ("atom", "red"):
        values[f"lts__t_sectors_op_{operation}.sum"] = accesses(counts, "global", {operation}).sectors
    asked, hits = l2_totals(counts)
    return values | {
        "lts__t_sectors.sum": asked,
        "lts__t_bytes.sum": asked.times(SECTOR_BYTES),
        "lts__t_sector_hit_rate.pct": percentage(hits, asked),
    }
