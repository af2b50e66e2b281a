"""Metrics of executed PTX: work, divergence, barriers, balance and parallelism of instructions."""

import math
from collections.abc import Iterator

from kerncast.kernel_profile import SECTOR_BYTES, BasicBlockCount, Count, InstructionMix, KernelProfile
from kerncast.report.metrics_launch import warps_per_block
from kerncast.report.ratios import ratio, total
from kerncast.report.vocabulary import Metric, measured

_LANES = 32.0
#: 64 bytes, the most that any GPU here reads for one missing sector.
_SECTORS_PER_FETCH = 2


def dram_bracket(profile: KernelProfile) -> Count | None:
    """Return DRAM traffic whatever the caches do, until all that is written has left them.

    Low is each touched sector once; high is every sector of every request, with the neighbour that a GPU may fetch.
    """
    once, touched = profile.traffic.dram_bytes, profile.traffic.global_bytes_touched
    if once is None or touched is None or not profile.accesses:
        return once
    loads, stores = (
        total(each.sectors for each in profile.accesses if each.operation in operations)
        for operations in ({"ld", "atom", "red"}, {"st", "atom", "red"})
    )
    most = SECTOR_BYTES * (_SECTORS_PER_FETCH * loads.high + stores.high)
    return Count(once.value, min(touched.low, once.value), max(most, once.value))


def execution_metrics(profile: KernelProfile) -> Iterator[Metric]:
    """Yield what the executed PTX did."""
    work, traffic = profile.work, profile.traffic
    values = {
        "kerncast__fp32_flops.sum": work.fp32_flops,
        "kerncast__fp64_flops.sum": work.fp64_flops,
        "kerncast__fp16_flops.sum": work.fp16_flops,
        "kerncast__special_ops.sum": work.special_ops,
        "kerncast__integer_ops.sum": work.integer_ops,
        "kerncast__control_ops.sum": work.control_ops,
        "kerncast__atomic_threads.sum": traffic.atomic_operations,
        "kerncast__global_bytes_requested.sum": traffic.global_bytes_requested,
        "kerncast__global_bytes_touched.sum": traffic.global_bytes_touched,
        "kerncast__dram_bytes_bracket.sum": dram_bracket(profile),
        "kerncast__flops_per_byte_touched.ratio": flops_per_byte(profile, traffic.global_bytes_touched),
    }
    if profile.mix is not None:
        values |= _mix_values(profile, profile.mix)
    if profile.balance is not None:
        values |= {
            "kerncast__longest_warp_over_mean.ratio": Count.exact(profile.balance.longest_over_mean_warp),
            "kerncast__longest_block_over_mean.ratio": Count.exact(profile.balance.longest_over_mean_block),
            "kerncast__block_variation.ratio": Count.exact(profile.balance.block_variation),
        }
    values["kerncast__instruction_level_parallelism.ratio"] = parallelism(profile.blocks)
    values["kerncast__dependency_distance.ratio"] = dependency_distance(profile.blocks)
    for name, value in values.items():
        if value is not None:
            yield measured(name, value, work.origin)


def flops(profile: KernelProfile) -> Count | None:
    """Return the FLOPs of all types; None where one of them is unknown."""
    work = profile.work
    kinds = [count for count in (work.fp32_flops, work.fp64_flops, work.fp16_flops) if count is not None]
    return total(kinds) if len(kinds) == 3 else None


def flops_per_byte(profile: KernelProfile, nbytes: Count | None) -> Count | None:
    """Return FLOPs over some bytes; None where either is unknown, or there are no bytes."""
    work = flops(profile)
    return None if work is None or nbytes is None else ratio(work, nbytes)


def barriers_per_warp(profile: KernelProfile, mix: InstructionMix) -> Count | None:
    """Return how many barriers a warp passes, on average."""
    return ratio(mix.barriers, Count.exact(math.prod(profile.grid) * warps_per_block(profile)))


def parallelism(blocks: tuple[BasicBlockCount, ...]) -> Count | None:
    """Return instructions over those on the longest chains of dependences, over all executions of basic blocks."""
    executed = total(each.warps.times(each.instructions) for each in blocks)
    chained = total(each.warps.times(each.critical_path) for each in blocks)
    return _without_interval(ratio(executed, chained))


def dependency_distance(blocks: tuple[BasicBlockCount, ...]) -> Count | None:
    """Return the mean distance from a value to its first use, over all executions of basic blocks that have one."""
    members = [(each, each.dependency_distance) for each in blocks if each.dependency_distance is not None]
    executed = total(each.warps.times(each.instructions) for each, _ in members)
    weighted = total(each.warps.times(each.instructions * distance) for each, distance in members)
    return _without_interval(ratio(weighted, executed))


def _mix_values(profile: KernelProfile, mix: InstructionMix) -> dict[str, Count | None]:
    warps, threads = mix.warp_instructions, mix.thread_instructions
    return {
        "kerncast__ptx_inst_executed.sum": warps,
        "kerncast__ptx_thread_inst_executed.sum": threads,
        "kerncast__ptx_thread_inst_executed_per_inst_executed.ratio": ratio(threads, warps, _LANES),
        "kerncast__divergent_branches.sum": mix.divergent_branches,
        "kerncast__barrier_arrivals.sum": mix.barriers,
        "kerncast__barriers_per_warp.ratio": barriers_per_warp(profile, mix),
    }


def _without_interval(mean: Count | None) -> Count | None:
    """Return a mean over basic blocks alone: their shares vary far less than an interval from the totals would say."""
    return None if mean is None else Count.exact(mean.value)
