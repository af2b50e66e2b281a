"""Metrics of accesses to global, local and shared memory, which no GPU changes."""

from collections.abc import Iterable, Iterator

from kerncast.kernel_profile import SECTOR_BYTES, AccessCount, Count, KernelProfile, Origin
from kerncast.report.ratios import ZERO, ratio, total
from kerncast.report.vocabulary import Metric, measured

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
