"""One row of features per launch, for models that learn: work, traffic, access patterns, control flow, occupancy.

Source of the list: the report on cross-GPU prediction that the roofline of algorithm 1 comes from, section 6.5.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from kerncast.gpu import GPU
from kerncast.measurements.table_files import Cell
from kerncast.metrics.execution import barriers_per_warp, flops, flops_per_byte, occupancy_of, waves
from kerncast.metrics.memory import Accesses, accesses, wave_bytes
from kerncast.metrics.metric_names import ratio
from kerncast.profiles import SECTOR_BYTES, Count, KernelProfile, ProfiledLaunch
from kerncast.profiles.counts import (
    ATOMIC_THREADS,
    DRAM_BYTES,
    FP16_FLOPS,
    FP32_FLOPS,
    FP64_FLOPS,
    GLOBAL_BYTES_REQUESTED,
    GLOBAL_BYTES_TOUCHED,
    INTEGER_OPS,
    LOCAL_BYTES_REQUESTED,
    SPECIAL_OPS,
)

# How the threads of a warp spread over memory, told from sectors, lines and bytes per request.
#
# The counts are means over all requests of the launch: loads of two kinds look like one between them. Which address
# each lane asked for is not kept, so that a stride of a line or more looks like random access.


_LINE_SECTORS = 4
_LINE_BYTES = _LINE_SECTORS * SECTOR_BYTES
#: A mean within 5 % of one counts as one: the threads at a grid's edge do otherwise.
_NEARLY = 0.95
#: Lines of an even stride may exceed sectors / 4 by one where the range begins inside a line.
_LINE_TOLERANCE = 1.25


class AccessClass(StrEnum):
    """The arrangement in memory of the threads of a request."""

    NONE = "none"
    """no request"""
    SINGLE = "single"
    """fewer than two threads per request: nothing to coalesce"""
    BROADCAST = "broadcast"
    """at most half of the sectors that different words would need: threads share words"""
    COALESCED = "coalesced"
    """no more sectors than the bytes need, but for one where the range begins inside a sector"""
    STRIDED = "strided"
    """sectors and lines fit words at an even distance of less than a line"""
    SCATTERED = "scattered"
    """each sector lies in a line of its own: strides of 128 bytes or more, or random addresses"""
    IRREGULAR = "irregular"
    """no stride explains the sectors and lines"""


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """The class of the accesses, and the distance of neighbouring threads where it is known."""

    access_class: AccessClass
    stride_elements: float | None = None
    """elements from lane to lane: 0 for one word for all; None where no stride fits, or only a lower bound is known"""

    @property
    def is_coalesced(self) -> bool | None:
        """Whether requests need no more sectors than their bytes do; None where there is nothing to coalesce."""
        if self.access_class in {AccessClass.NONE, AccessClass.SINGLE}:
            return None
        return self.access_class in {AccessClass.COALESCED, AccessClass.BROADCAST}

    @property
    def may_be_random(self) -> bool | None:
        """Whether addresses may be random, as they fit no even stride below a line; None where none can be told."""
        if self.access_class in {AccessClass.NONE, AccessClass.SINGLE}:
            return None
        return self.access_class in {AccessClass.SCATTERED, AccessClass.IRREGULAR}


def pattern_of(found: Accesses) -> AccessPattern:
    """Return the pattern of accesses to global or local memory.

    A warp that loads every eighth float asks for 32 sectors in 8 lines:

    >>> counts = [Count.exact(n) for n in (1, 32, 128, 32, 8, 0, 0, 0)]
    >>> pattern_of(Accesses(*counts))
    AccessPattern(access_class=<AccessClass.STRIDED: 'strided'>, stride_elements=8.0)
    """
    requests, threads = found.requests.value, found.threads.value
    if not requests or not threads:
        return AccessPattern(AccessClass.NONE)
    lanes, width = threads / requests, found.nbytes.value / threads
    if lanes < 2:
        return AccessPattern(AccessClass.SINGLE)
    sectors, lines = found.sectors.value / requests, found.lines.value / requests
    needed = lanes * width / SECTOR_BYTES
    has_lines = lines >= _NEARLY * sectors
    if sectors < needed and sectors <= max(needed, 2) / 2:
        return AccessPattern(AccessClass.BROADCAST, 0.0)
    if sectors <= max(1.0, needed) + 1 and not (has_lines and sectors >= _NEARLY * lanes):
        return AccessPattern(AccessClass.COALESCED, 1.0)
    if has_lines:
        return AccessPattern(AccessClass.SCATTERED)
    stride = _stride(lanes, sectors, lines) / width
    return AccessPattern(AccessClass.STRIDED, stride) if stride else AccessPattern(AccessClass.IRREGULAR)


def _stride(lanes: float, sectors: float, lines: float) -> float:
    """Return the bytes from one thread's word to the next one's, 0 where no even stride explains the counts.

    No thread asks for more than 16 bytes at once, so that each has at most one sector. Below that the words of a
    request fill a range of sectors without a gap.
    """
    if sectors >= _NEARLY * lanes:
        return lines * _LINE_BYTES / lanes
    has_gaps = lines > _LINE_TOLERANCE * max(1.0, sectors / _LINE_SECTORS)
    return 0.0 if has_gaps else sectors * SECTOR_BYTES / lanes


_ATOMICS = frozenset({"atom", "red"})


@dataclass(frozen=True, slots=True)
class Feature:
    """Name and type of a column; the name carries the unit."""

    name: str
    type: type[str | int | float | bool]


def _features(kind: type[str | int | float | bool], names: str) -> tuple[Feature, ...]:
    return tuple(Feature(name, kind) for name in names.split())


#: Columns of the table, in their order; docs/profile.md says what each means.
FEATURES = (
    *_features(str, "kernel"),
    *_features(int, "launch"),
    *_features(str, "gpu"),
    *_features(float, "flops fp32_flops fp64_flops fp16_flops special_ops integer_ops ptx_warp_instructions"),
    *_features(float, "machine_warp_instructions global_bytes_requested global_bytes_moved working_set_bytes"),
    *_features(float, "wave_bytes_touched dram_bytes flops_per_working_set_byte flops_per_dram_byte local_bytes"),
    *_features(int, "shared_bytes_per_block registers_per_thread"),
    *_features(str, "load_access_class"),
    *_features(bool, "load_is_coalesced load_may_be_random"),
    *_features(float, "load_stride_elements load_sectors_per_request"),
    *_features(str, "store_access_class"),
    *_features(bool, "store_is_coalesced store_may_be_random"),
    *_features(float, "store_stride_elements store_sectors_per_request"),
    *_features(bool, "has_bank_conflicts"),
    *_features(float, "shared_wavefronts_per_request shared_conflicts"),
    *_features(bool, "has_divergence"),
    *_features(float, "divergent_branches active_lanes_per_warp_instruction"),
    *_features(float, "atomic_operations atomic_threads_per_address barriers_per_warp"),
    *_features(float, "theoretical_occupancy"),
    *_features(int, "blocks_per_sm"),
    *_features(float, "waves"),
    *_features(int, "threads_per_block blocks grid_x grid_y grid_z block_x block_y block_z"),
    *_features(float, "executed_share"),
)  # fmt: skip


def feature_row(launch: ProfiledLaunch) -> tuple[Cell, ...]:
    """Return the features of one launch, in the order of ``FEATURES``.

    None is what is unknown, what depends on a GPU where none is named, and a ratio to nothing.
    """
    profile, gpu = launch.profile, launch.gpu
    row: dict[str, Cell] = {"kernel": profile.kernel, "launch": profile.index, "gpu": gpu.id if gpu else None}
    row |= _work(profile, gpu)
    row |= _memory(profile)
    row |= _pattern("load", "ld", profile) | _pattern("store", "st", profile)
    row |= _control(profile)
    row |= _geometry(profile, gpu)
    # Counts may be NumPy's numbers, whose truth values are not Python's.
    cells = ((feature.type, row[feature.name]) for feature in FEATURES)
    return tuple(None if cell is None else kind(cell) for kind, cell in cells)


def _work(profile: KernelProfile, gpu: GPU | None) -> dict[str, Cell]:
    counts = profile.counts
    machine = profile.machine if gpu else None
    dram = counts[DRAM_BYTES] if gpu and profile.caches else None
    touched = counts.get(GLOBAL_BYTES_TOUCHED)
    return {
        "flops": _value(flops(profile)),
        "fp32_flops": _value(counts.get(FP32_FLOPS)),
        "fp64_flops": _value(counts.get(FP64_FLOPS)),
        "fp16_flops": _value(counts.get(FP16_FLOPS)),
        "special_ops": _value(counts.get(SPECIAL_OPS)),
        "integer_ops": _value(counts.get(INTEGER_OPS)),
        "ptx_warp_instructions": _value(profile.mix.warp_instructions if profile.mix else None),
        "machine_warp_instructions": _value(machine.warp_instructions if machine else None),
        "working_set_bytes": _value(touched),
        "wave_bytes_touched": _value(wave_bytes(profile.caches)) if gpu and profile.caches else None,
        "dram_bytes": _value(dram),
        "flops_per_working_set_byte": _value(flops_per_byte(profile, touched)),
        "flops_per_dram_byte": _value(flops_per_byte(profile, dram)),
    }


def _memory(profile: KernelProfile) -> dict[str, Cell]:
    counts, was_executed = profile.counts, profile.mix is not None
    moved = accesses(counts, "global").sectors.times(SECTOR_BYTES)
    shared, atomics = accesses(counts, "shared"), accesses(counts, "global", _ATOMICS)
    shared_atomics = accesses(counts, "shared", _ATOMICS)
    contention = ratio(atomics.contention + shared_atomics.contention, atomics.requests + shared_atomics.requests)
    return {
        "global_bytes_requested": _value(counts.get(GLOBAL_BYTES_REQUESTED)),
        "global_bytes_moved": _value(moved) if was_executed else None,
        "local_bytes": _value(counts.get(LOCAL_BYTES_REQUESTED)),
        "has_bank_conflicts": shared.conflicts.value > 0 if was_executed else None,
        "shared_wavefronts_per_request": _value(ratio(shared.wavefronts, shared.requests)),
        "shared_conflicts": _value(shared.conflicts) if was_executed else None,
        "atomic_operations": _value(counts.get(ATOMIC_THREADS)),
        "atomic_threads_per_address": _value(contention),
    }  # fmt: skip


def _pattern(prefix: str, operation: str, profile: KernelProfile) -> dict[str, Cell]:
    """Return how loads or stores spread over global memory."""
    found = accesses(profile.counts, "global", {operation})
    pattern = pattern_of(found)
    values: dict[str, Cell] = {
        "access_class": pattern.access_class.value,
        "is_coalesced": pattern.is_coalesced,
        "may_be_random": pattern.may_be_random,
        "stride_elements": pattern.stride_elements,
        "sectors_per_request": _value(ratio(found.sectors, found.requests)),
    }
    was_executed = profile.mix is not None
    return {f"{prefix}_{name}": value if was_executed else None for name, value in values.items()}


def _control(profile: KernelProfile) -> dict[str, Cell]:
    mix = profile.mix
    return {
        "has_divergence": mix.divergent_branches.value > 0 if mix else None,
        "divergent_branches": _value(mix.divergent_branches) if mix else None,
        "active_lanes_per_warp_instruction": mix.active_lanes if mix else None,
        "barriers_per_warp": _value(barriers_per_warp(profile, mix)) if mix else None,
    }


def _geometry(profile: KernelProfile, gpu: GPU | None) -> dict[str, Cell]:
    blocks, resources, sampling = math.prod(profile.grid), profile.resources, profile.sampling
    found = occupancy_of(profile, gpu)
    return {
        "shared_bytes_per_block": profile.shared_bytes + resources.static_shared_bytes if resources else None,
        "registers_per_thread": resources.registers_per_thread if gpu and resources else None,
        "theoretical_occupancy": found.fraction if found else None,
        "blocks_per_sm": found.blocks_per_sm if found else None,
        "waves": waves(found, blocks, gpu) if found and gpu else None,
        "threads_per_block": math.prod(profile.block),
        "blocks": blocks,
        **{f"grid_{axis}": size for axis, size in zip("xyz", profile.grid, strict=True)},
        **{f"block_{axis}": size for axis, size in zip("xyz", profile.block, strict=True)},
        "executed_share": sampling.blocks_executed / sampling.blocks if sampling else None,
    }


def _value(count: Count | None) -> float | None:
    return None if count is None else float(count.value)
