"""Memory in a launch that Nsight Compute profiled: bytes at each level, requests, sectors, atomics."""

from kerncast.count import SECTOR_BYTES, Count, Origin
from kerncast.gpu import GPU
from kerncast.kernel_profile import Traffic
from kerncast.memory_levels import MemoryLevels
from kerncast.read.ncu_counts import NcuCounts
from kerncast.units import KILO, PERCENT

_SHARED_BYTES = ("smsp__sass_data_bytes_mem_shared", "sm__sass_data_bytes_mem_shared")
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
_LSU = "l1tex__t_{}_pipe_lsu_mem_{}_op_{}"
_ATOMIC_REQUESTS = (
    (_LSU.format("requests", "global", "atom"), "smsp__inst_executed_op_global_atom"),
    (_LSU.format("requests", "global", "red"), "smsp__inst_executed_op_global_red"),
    ("smsp__inst_executed_op_shared_atom", "smsp__inst_executed_op_shared_atom"),
)
#: What a level is asked for, in the forms that a profile may hold it; parts are added.
_L1_PARTS = (
    ("",),
    ("_pipe_lsu_mem_global_op_ld", "_pipe_lsu_mem_global_op_st", "_pipe_lsu_mem_local_op_ld",
     "_pipe_lsu_mem_local_op_st"),
)  # fmt: skip
_L2_PARTS = (("",), ("_op_read", "_op_write", "_op_atom", "_op_red"), ("_op_read", "_op_write"))
_DRAM_PARTS = (("_read", "_write"), ("_op_read", "_op_write"), ("",))
_DRAM_BUSY = (
    "dram__bytes.sum.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
)


def memory_levels(counts: NcuCounts, dram: Count | None) -> MemoryLevels:
    """Return the bytes that each level of memory is asked for."""
    return MemoryLevels(
        l1_bytes=counts.first(counts.bytes_of("l1tex__t", _L1_PARTS), _theoretical_bytes(counts)),
        shared_bytes=counts.first(
            counts.total(*_SHARED_BYTES),
            *(counts.sum_of(f"{stem}_op_ld", f"{stem}_op_st") for stem in _SHARED_BYTES),
        ),
        shared_wavefronts=counts.first(
            counts.total(_WAVEFRONTS), counts.sum_of(f"{_WAVEFRONTS}_op_ld", f"{_WAVEFRONTS}_op_st")
        ),
        l2_bytes=counts.first(counts.bytes_of("lts__t", _L2_PARTS)),
        dram_bytes=dram,
    )


def dram_bytes(counts: NcuCounts, gpu: GPU) -> Count | None:
    """Return the bytes that DRAM moved: counted, else its busy share of the peak times the peak and the time."""
    counted = counts.first(counts.bytes_of("dram_", _DRAM_PARTS), counts.bytes_of("fbpa__dram", _DRAM_PARTS))
    if counted is not None:
        return counted
    busy, seconds = counts.value(*_DRAM_BUSY), counts.seconds()
    if busy is None or seconds is None:
        return None
    counts.notes.append(
        "the profile does not count DRAM bytes: the share of the peak bandwidth in which DRAM was busy was taken, times"
        " the data sheet's peak"
    )
    clock, highest = (
        counts.value("dram__cycles_elapsed.avg.per_second"),
        counts.value("device__attribute_memory_clock_rate"),
    )
    if highest and not counts.units["device__attribute_memory_clock_rate"]:
        highest *= KILO  # CUDA has this attribute in kHz
    of_peak = clock / highest if clock and highest else 1.0
    # A clock above the highest is of another kind: twice the data rate, say.
    of_peak = of_peak if 0 < of_peak <= 1 else 1.0
    most = busy * PERCENT * of_peak * gpu.dram_bytes_per_s * seconds
    return Count.exact(most)


def traffic_of(counts: NcuCounts, dram: Count | None) -> Traffic:
    """Return requests and sectors; what only an executor sees, such as the working set, is unknown."""

    def lsu(what: str, space: str, operation: str) -> Count | None:
        return counts.first(counts.total(_LSU.format(what, space, operation)))

    return Traffic(
        origin=Origin.PROFILED,
        global_load_requests=lsu("requests", "global", "ld"),
        global_store_requests=lsu("requests", "global", "st"),
        global_load_sectors=lsu("sectors", "global", "ld"),
        global_store_sectors=lsu("sectors", "global", "st"),
        global_bytes_requested=counts.first(
            counts.total("smsp__sass_data_bytes_mem_global", "sm__sass_data_bytes_mem_global")
        ),
        global_bytes_touched=None,
        dram_bytes=dram,
        shared_requests=counts.first(
            counts.sum_of(*(f"smsp__inst_executed_op_shared_{operation}" for operation in ("ld", "st", "atom"))),
            counts.total("smsp__sass_inst_executed_op_shared", "smsp__inst_executed_op_shared"),
        ),
        atomic_operations=_atomic_operations(counts),
        local_bytes=_local_bytes(counts),
    )


def atomic_requests(counts: NcuCounts) -> float | None:
    """Return warp instructions that are atomics, of those kinds that the profile counts."""
    known = [total for names in _ATOMIC_REQUESTS if (total := counts.total(*names)) is not None]
    return sum(known) if known else None


def _atomic_operations(counts: NcuCounts) -> Count | None:
    """Return atomics, one per thread: a profile counts one per warp, so they are known only where there are none."""
    totals = [counts.total(*names) for names in _ATOMIC_REQUESTS]
    return Count.exact(0.0) if all(total == 0 for total in totals) else None


def _local_bytes(counts: NcuCounts) -> Count | None:
    sectors = counts.sum_of(_LSU.format("sectors", "local", "ld"), _LSU.format("sectors", "local", "st"))
    return counts.first(
        counts.total("smsp__sass_data_bytes_mem_local", "sm__sass_data_bytes_mem_local"),
        None if sectors is None else sectors * SECTOR_BYTES,
    )


def _theoretical_bytes(counts: NcuCounts) -> float | None:
    """Return what the source page of a report sums over the memory instructions."""
    sectors = counts.value("memory_l2_theoretical_sectors_global")
    if sectors is None:
        return None
    return (sectors + (counts.value("memory_l2_theoretical_sectors_local") or 0.0)) * SECTOR_BYTES
