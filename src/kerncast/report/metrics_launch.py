"""Metrics of the launch, of its occupancy and of the sample."""

import math
from collections.abc import Iterator

from kerncast.gpu import GPU, WARP_SIZE
from kerncast.kernel_profile import Count, KernelProfile, Origin, Resources, Sampling
from kerncast.occupancy import Limiter, Occupancy, block_request_of, occupancy
from kerncast.report.ratios import percentage
from kerncast.report.vocabulary import Metric, measured

_LIMITS = {
    Limiter.BARRIERS: "barriers",
    Limiter.BLOCKS: "blocks",
    Limiter.REGISTERS: "registers",
    Limiter.SHARED_MEMORY: "shared_mem",
    Limiter.WARPS: "warps",
}


def launch_metrics(profile: KernelProfile, gpu: GPU | None) -> Iterator[Metric]:
    """Yield geometry, resources and, on a GPU, theoretical occupancy."""
    for noun, extent in (("grid", profile.grid), ("block", profile.block)):
        yield _declared(f"launch__{noun}_size", math.prod(extent))
        for axis, size in zip("xyz", extent, strict=True):
            yield _declared(f"launch__{noun}_dim_{axis}", size)
    blocks, threads = math.prod(profile.grid), math.prod(profile.block)
    yield _declared("launch__thread_count", blocks * threads)
    yield _declared("launch__shared_mem_per_block_dynamic", profile.shared_bytes)
    yield _declared("sm__ctas_launched.sum", blocks)
    for unit in ("sm", "smsp"):
        yield _declared(f"{unit}__warps_launched.sum", blocks * warps_per_block(profile))
        yield _declared(f"{unit}__threads_launched.sum", blocks * threads)
    if profile.resources is not None:
        yield from _resource_metrics(profile.resources)
    found = occupancy_of(profile, gpu)
    if gpu is not None and found is not None:
        yield from _occupancy_metrics(found, blocks, gpu)


def sampling_metrics(sampling: Sampling) -> Iterator[Metric]:
    """Yield how much of the grid was executed."""
    executed, blocks = Count.exact(sampling.blocks_executed), Count.exact(sampling.blocks)
    yield measured("kerncast__blocks_executed", executed, Origin.EXECUTED)
    if share := percentage(executed, blocks):
        yield measured("kerncast__blocks_executed_share.pct", share, Origin.EXECUTED)


def warps_per_block(profile: KernelProfile) -> int:
    """Return the warps of one block; the last may be partly empty."""
    return -(-math.prod(profile.block) // WARP_SIZE)


def occupancy_of(profile: KernelProfile, gpu: GPU | None) -> Occupancy | None:
    """Return the theoretical occupancy; None without a GPU, or where the kernel's resources are unknown."""
    request = block_request_of(profile)
    return None if gpu is None or request is None else occupancy(request, gpu.architecture)


def waves(found: Occupancy, blocks: int, gpu: GPU) -> float | None:
    """Return the blocks of the grid over those that all SMs hold at once; None where no block fits."""
    return blocks / (found.blocks_per_sm * gpu.sm_count) if found.blocks_per_sm else None


def _resource_metrics(resources: Resources) -> Iterator[Metric]:
    for name, value in (
        ("launch__shared_mem_per_block_static", resources.static_shared_bytes),
        ("launch__registers_per_thread", resources.registers_per_thread),
    ):
        yield measured(name, Count.exact(value), Origin.COMPILED)


def _occupancy_metrics(found: Occupancy, blocks: int, gpu: GPU) -> Iterator[Metric]:
    values = {
        "launch__shared_mem_per_block_driver": gpu.architecture.reserved_shared_bytes_per_block,
        "launch__waves_per_multiprocessor": waves(found, blocks, gpu),
        "sm__maximum_warps_avg_per_active_cycle": found.warps_per_sm,
        **{f"launch__occupancy_limit_{name}": found.limit(limiter) for limiter, name in _LIMITS.items()},
    }
    for name, value in values.items():
        if value is not None:
            yield measured(name, Count.exact(value), Origin.COMPILED)
    if share := percentage(Count.exact(found.warps_per_sm), Count.exact(gpu.architecture.max_warps_per_sm)):
        yield measured("sm__maximum_warps_per_active_cycle_pct", share, Origin.COMPILED)


def _declared(name: str, value: float) -> Metric:
    return measured(name, Count.exact(value), Origin.DECLARED)
