"""Metrics of memory: requests, sectors and conflicts; L1, L2 and DRAM on one GPU."""

from collections.abc import Iterable, Iterator

from kerncast.metrics.execution import flops_per_byte
from kerncast.metrics.metric_names import ZERO, Metric, measured, percentage, ratio, total
from kerncast.profiles import SECTOR_BYTES, AccessCount, CacheTraffic, Count, KernelProfile, Origin

# Metrics of accesses to global, local and shared memory, which no GPU changes.


_LANES = 32.0
_OPERATIONS = ("ld", "st", "atom", "red")
_ATOMICS = frozenset({"atom", "red"})


def memory_metrics(profile: KernelProfile) -> Iterator[Metric]:
    """Yield requests, sectors, wavefronts and conflicts of an executed profile; what does not occur is zero."""
    values: dict[str, Count | None] = {}
    for operation in _OPERATIONS:
        values |= _global_values(operation, accesses(profile, "global", {operation}))
    for operation in ("ld", "st"):
        values |= _local_values(operation, accesses(profile, "local", {operation}))
    sectors = total(each.sectors for each in profile.accesses)
    values |= {"l1tex__t_sectors.sum": sectors, "l1tex__t_bytes.sum": sectors.times(SECTOR_BYTES)}
    values |= _shared_values(profile)
    for space in ("global", "shared"):
        atomics = accesses(profile, space, _ATOMICS)
        values[f"kerncast__atomic_contention_{space}.ratio"] = ratio(atomics.contention, atomics.requests, _LANES)
    for name, value in values.items():
        if value is not None:
            yield measured(name, value, Origin.EXECUTED)


def accesses(profile: KernelProfile, space: str, operations: Iterable[str]) -> AccessCount:
    """Return the accesses to one state space by some operations together; all zero where there are none."""
    wanted = set(operations)
    members = [each for each in profile.accesses if each.space == space and each.operation in wanted]
    return AccessCount(
        space=space,
        operation=" ".join(sorted(wanted)),
        requests=total(each.requests for each in members),
        threads=total(each.threads for each in members),
        nbytes=total(each.nbytes for each in members),
        sectors=total(each.sectors for each in members),
        lines=total(each.lines for each in members),
        wavefronts=total(each.wavefronts for each in members),
        conflicts=total(each.conflicts for each in members),
        contention=total(each.contention for each in members),
    )


def _global_values(operation: str, found: AccessCount) -> dict[str, Count | None]:
    pipe = f"pipe_lsu_mem_global_op_{operation}"
    sectors_each = ratio(found.sectors, found.requests)
    values: dict[str, Count | None] = {
        f"l1tex__t_requests_{pipe}.sum": found.requests,
        f"l1tex__t_sectors_{pipe}.sum": found.sectors,
        f"l1tex__t_bytes_{pipe}.sum": found.sectors.times(SECTOR_BYTES),
        f"l1tex__average_t_sectors_per_request_{pipe}.ratio": sectors_each,
        f"smsp__sass_data_bytes_mem_global_op_{operation}.sum": found.nbytes,
        f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{operation}.ratio": ratio(found.nbytes, found.sectors),
    }
    if operation != "atom":  # ncu has this counter for atomics through generic addresses only
        values[f"smsp__inst_executed_op_global_{operation}.sum"] = found.requests
    if operation not in _ATOMICS:
        values[f"kerncast__lines_per_request_global_{operation}.ratio"] = ratio(found.lines, found.requests)
    return values


def _local_values(operation: str, found: AccessCount) -> dict[str, Count | None]:
    pipe = f"pipe_lsu_mem_local_op_{operation}"
    return {
        f"l1tex__t_requests_{pipe}.sum": found.requests,
        f"l1tex__t_sectors_{pipe}.sum": found.sectors,
        f"l1tex__t_bytes_{pipe}.sum": found.sectors.times(SECTOR_BYTES),
        f"l1tex__average_t_sectors_per_request_{pipe}.ratio": ratio(found.sectors, found.requests),
        f"smsp__inst_executed_op_local_{operation}.sum": found.requests,
    }


def is_disassembled(profile: KernelProfile) -> bool:
    """Return whether machine instructions are those of the compiled code; estimates of single opcodes are poor."""
    return profile.machine is not None and profile.machine.origin is Origin.DISASSEMBLED


def _shared_values(profile: KernelProfile) -> dict[str, Count | None]:
    wavefronts, conflicts, nbytes = "data_pipe_lsu_wavefronts", "data_bank_conflicts_pipe_lsu", ZERO
    values: dict[str, Count | None] = {}
    for operation, members in (("ld", {"ld"}), ("st", {"st"}), ("atom", _ATOMICS)):
        found = accesses(profile, "shared", members)
        nbytes += found.nbytes
        if not is_disassembled(profile):  # else machine instructions are counted: compilers join loads of neighbours
            values[f"smsp__inst_executed_op_shared_{operation}.sum"] = found.requests
        values |= {
            f"l1tex__{wavefronts}_mem_shared_op_{operation}.sum": found.wavefronts,
            f"l1tex__{conflicts}_mem_shared_op_{operation}.sum": found.conflicts,
            f"smsp__sass_data_bytes_mem_shared_op_{operation}.sum": found.nbytes,
            f"kerncast__wavefronts_per_request_shared_{operation}.ratio": ratio(found.wavefronts, found.requests),
        }
    everything = accesses(profile, "shared", _OPERATIONS)
    return values | {
        f"l1tex__{wavefronts}_mem_shared.sum": everything.wavefronts,
        f"l1tex__{conflicts}_mem_shared.sum": everything.conflicts,
        "smsp__sass_data_bytes_mem_shared.sum": nbytes,
    }


# Metrics of L1, L2 and DRAM on one GPU.


def cache_metrics(profile: KernelProfile, caches: CacheTraffic) -> Iterator[Metric]:
    """Yield what the caches asked of one another and of DRAM."""
    dram = dram_bytes(caches)
    values = _l1_values(profile, caches) | _l2_values(profile, caches)
    for operation, sectors in (("read", caches.dram_read_sectors), ("write", caches.dram_write_sectors)):
        values[f"dram__sectors_{operation}.sum"] = sectors
        values[f"dram__bytes_{operation}.sum"] = sectors.times(SECTOR_BYTES)
    values |= {
        "dram__bytes.sum": dram,
        "kerncast__l2_rewritten_sectors.sum": caches.l2_write_hits,
        "kerncast__l2_dirty_bytes_left.sum": caches.left_dirty_sectors.times(SECTOR_BYTES),
        "kerncast__l2_instruction_sectors.sum": caches.l2_instruction_sectors,
        "kerncast__flops_per_dram_byte.ratio": flops_per_byte(profile, dram),
        "kerncast__l1_capacity": None if caches.l1_bytes is None else Count.exact(caches.l1_bytes),
        "kerncast__l2_capacity": Count.exact(caches.l2_bytes),
        "kerncast__wave_blocks": Count.exact(caches.wave_blocks) if caches.wave_blocks else None,
        "kerncast__wave_bytes_touched": wave_bytes(caches),
        "kerncast__blocks_simulated": Count.exact(caches.blocks_simulated),
    }
    for name, value in values.items():
        if value is not None:
            yield measured(name, value, caches.origin)


def dram_bytes(caches: CacheTraffic) -> Count:
    """Return bytes read from and written to DRAM while the kernel runs."""
    return (caches.dram_read_sectors + caches.dram_write_sectors).times(SECTOR_BYTES)


def wave_bytes(caches: CacheTraffic) -> Count | None:
    """Return the bytes that the blocks that run at once touch, in whole sectors."""
    return None if caches.wave_sectors is None else Count.exact(caches.wave_sectors * SECTOR_BYTES)


def l2_reads(caches: CacheTraffic) -> tuple[Count, Count]:
    """Return the sectors that loads and instruction fetches ask of L2, and those found there; code is always found."""
    code = caches.l2_instruction_sectors
    return caches.l2_read_sectors + code, caches.l2_read_hits + code


def l2_totals(caches: CacheTraffic) -> tuple[Count, Count]:
    """Return the sectors that reads, writes and atomics ask of L2, and those found there.

    Profilers count all writes as found, as L2 takes them in without reading DRAM: on a Volta card none missed in 25
    kernels (accel-sim-framework, counters of hardware).
    """
    read, found = l2_reads(caches)
    asked = total((read, caches.l2_write_sectors, caches.l2_atomic_sectors))
    return asked, total((found, caches.l2_write_sectors, caches.l2_atomic_hits))


def l1_totals(profile: KernelProfile, caches: CacheTraffic) -> tuple[Count, Count]:
    """Return the sectors that loads from global and local memory ask of L1, and those found there."""
    local = accesses(profile, "local", {"ld"}).sectors
    return caches.l1_load_sectors + local, caches.l1_load_hits + caches.l1_local_hits


def _l1_values(profile: KernelProfile, caches: CacheTraffic) -> dict[str, Count | None]:
    asked, hits = caches.l1_load_sectors, caches.l1_load_hits
    all_asked, all_hits = l1_totals(profile, caches)
    local = accesses(profile, "local", {"ld"}).sectors
    loads = "pipe_lsu_mem_global_op_ld"
    return {
        f"l1tex__t_sectors_{loads}_lookup_hit.sum": hits,
        f"l1tex__t_sectors_{loads}_lookup_miss.sum": asked - hits,
        f"l1tex__t_sector_{loads}_hit_rate.pct": percentage(hits, asked),
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum": caches.l1_local_hits,
        "l1tex__t_sector_pipe_lsu_mem_local_op_ld_hit_rate.pct": percentage(caches.l1_local_hits, local),
        "l1tex__t_sector_hit_rate.pct": percentage(all_hits, all_asked),
    }


def _l2_values(profile: KernelProfile, caches: CacheTraffic) -> dict[str, Count | None]:
    values: dict[str, Count | None] = {}
    for operation, asked, hits in (
        ("read", *l2_reads(caches)),
        ("write", caches.l2_write_sectors, caches.l2_write_sectors),
    ):
        values |= {
            f"lts__t_sectors_op_{operation}.sum": asked,
            f"lts__t_sectors_op_{operation}_lookup_hit.sum": hits,
            f"lts__t_sectors_op_{operation}_lookup_miss.sum": asked - hits,
            f"lts__t_sector_op_{operation}_hit_rate.pct": percentage(hits, asked),
        }
    for operation in ("atom", "red"):
        values[f"lts__t_sectors_op_{operation}.sum"] = accesses(profile, "global", {operation}).sectors
    asked, hits = l2_totals(caches)
    return values | {
        "lts__t_sectors.sum": asked,
        "lts__t_bytes.sum": asked.times(SECTOR_BYTES),
        "lts__t_sector_hit_rate.pct": percentage(hits, asked),
    }
