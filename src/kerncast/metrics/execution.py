"""Metrics of the launch, of executed instructions, of warps and of machine instructions."""

import math
from collections.abc import Iterator

from kerncast.gpu import GPU, WARP_SIZE
from kerncast.metrics.metric_names import Metric, measured, percentage, ratio, total
from kerncast.occupancy import Limiter, Occupancy, block_request_of, occupancy
from kerncast.profiles import (
    SECTOR_BYTES,
    BasicBlockCount,
    Count,
    InstructionMix,
    KernelProfile,
    MachineMix,
    OpcodeCount,
    Origin,
    Resources,
    Sampling,
    WarpStates,
)
from kerncast.profiles.counts import (
    FP16_FLOPS,
    FP32_FLOPS,
    FP64_FLOPS,
    GLOBAL_BYTES_TOUCHED,
    TENSOR_FLOPS,
    access_name,
    dram_bytes_of_launch,
)
from kerncast.units import NANOSECOND, PERCENT

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


_LANES = 32.0
#: 64 bytes, the most that any GPU here reads for one missing sector.
_SECTORS_PER_FETCH = 2


def dram_bracket(profile: KernelProfile) -> Count | None:
    """Return DRAM traffic whatever the caches do, until all that is written has left them.

    Low is each touched sector once; high is every sector of every request, with the neighbour that a GPU may fetch.
    """
    counts = profile.counts
    once, touched = dram_bytes_of_launch(counts), counts.get(GLOBAL_BYTES_TOUCHED)
    if once is None or touched is None or profile.origin is not Origin.EXECUTED:
        return once
    loads, stores = (
        counts.total(access_name(space, each, "sectors") for space in ("global", "local") for each in operations)
        for operations in (("ld", "ldgsts", "atom", "red"), ("st", "atom", "red"))
    )
    most = SECTOR_BYTES * (_SECTORS_PER_FETCH * loads.high + stores.high)
    return Count(once.value, min(touched.low, once.value), max(most, once.value))


def execution_metrics(profile: KernelProfile) -> dict[str, Count | None]:
    """Return what follows from the counts of the executed PTX."""
    touched = profile.counts.get(GLOBAL_BYTES_TOUCHED)
    values = {
        "kerncast__dram_bytes_bracket.sum": dram_bracket(profile),
        "kerncast__flops_per_byte_touched.ratio": flops_per_byte(profile, touched),
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
    return values


def flops(profile: KernelProfile) -> Count | None:
    """Return the FLOPs of all types, those of tensor cores too; None where one of them is unknown."""
    names = (FP32_FLOPS, FP64_FLOPS, FP16_FLOPS)
    known = all(name in profile.counts for name in names)
    return profile.counts.total((*names, *TENSOR_FLOPS)) if known else None


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


def warp_metrics(found: WarpStates, gpu: GPU) -> Iterator[Metric]:
    """Yield the duration, how busy schedulers and resources are, and the warps in each state per issued instruction."""
    slots = found.schedulers * found.simulated_cycles
    most = gpu.architecture.max_warps_per_sm
    values = {
        "gpu__time_duration.sum": found.seconds / NANOSECOND,
        "sm__cycles_elapsed.max": found.cycles,
        "sm__warps_active.avg.pct_of_peak_sustained_active": _percent(active_warps(found), most),
        "smsp__inst_executed.avg.per_cycle_active": found.issued / slots,
        "smsp__issue_active.avg.pct_of_peak_sustained_active": _percent(found.issued, slots * issue_width(gpu)),
        "smsp__average_warp_latency_per_inst_issued.ratio": found.warp_cycles / found.issued,
    }
    for each in found.states:
        name = f"smsp__average_warps_issue_stalled_{each.state}_per_issue_active.ratio"
        values[name] = each.warp_cycles / found.issued
    for resource in found.resources:
        values[f"kerncast__roof_{resource.resource}.pct"] = _percent(resource.share, 1.0)
    for name, value in values.items():
        yield measured(name, Count.exact(value), Origin.SIMULATED)


def active_warps(found: WarpStates) -> float:
    """Return how many warps were on the SM in the mean."""
    return found.warp_cycles / found.simulated_cycles


def issue_width(gpu: GPU) -> int:
    """Return how many instructions a scheduler issues at most in one cycle."""
    return max(1, gpu.architecture.warp_instructions_per_clock_per_sm // gpu.architecture.schedulers_per_sm)


def _percent(part: float, whole: float) -> float:
    return min(1.0, part / whole) / PERCENT


#: The opcodes behind each arithmetic counter; those that end in 32I have a 32-bit constant for an operand.
_ARITHMETIC = {
    "fadd": {"FADD", "FADD32I"}, "fmul": {"FMUL", "FMUL32I"}, "ffma": {"FFMA", "FFMA32I"},
    "dadd": {"DADD"}, "dmul": {"DMUL"}, "dfma": {"DFMA"},
    "hadd": {"HADD2", "HADD2_32I"}, "hmul": {"HMUL2", "HMUL2_32I"}, "hfma": {"HFMA2", "HFMA2_32I"},
}  # fmt: skip
_CLASSES = {
    each: each
    for each in ("fp16", "fp32", "fp64", "integer", "conversion", "control", "memory", "misc", "uniform")
} | {"inter_thread_communication": "inter_thread"}  # fmt: skip
_PIPES = ("fma", "alu", "fp16", "fp64", "xu", "lsu", "cbu", "adu", "uniform", "tex", "tensor")
#: Not every GPU has them, so that a zero would name a counter that ncu does not know there.
_NOT_EVERYWHERE = frozenset({"fp16", "uniform"})
_BRANCHES = frozenset({"BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU"})
_SHARED = {"ld": {"LDS"}, "st": {"STS"}, "atom": {"ATOMS"}}
_UNITS = ("smsp", "sm")


def machine_metrics(machine: MachineMix) -> Iterator[Metric]:
    """Yield machine instructions in total, by class, by arithmetic operation and by pipe."""
    warps, threads, on = machine.warp_instructions, machine.thread_instructions, machine.threads_on
    counts = {"smsp__thread_inst_executed.sum": threads, "smsp__thread_inst_executed_pred_on.sum": on}
    for unit in _UNITS:
        counts[f"{unit}__inst_executed.sum"] = warps
        counts[f"{unit}__sass_thread_inst_executed.sum"] = threads
        counts[f"{unit}__sass_thread_inst_executed_pred_on.sum"] = on
        for name, count in _operations(machine):
            counts[f"{unit}__sass_thread_inst_executed_op_{name}_pred_on.sum"] = count
        for name, count in _pipes(machine):
            counts[f"{unit}__inst_executed_pipe_{name}.sum"] = count
    chosen = {"branch": _BRANCHES}
    if machine.origin is Origin.DISASSEMBLED:
        chosen |= {f"shared_{name}": frozenset(opcodes) for name, opcodes in _SHARED.items()}
    for name, opcodes in chosen.items():
        members = [each.warp_instructions for each in machine.opcodes if each.opcode in opcodes]
        counts[f"smsp__inst_executed_op_{name}.sum"] = total(members)
    ratios = {
        "smsp__thread_inst_executed_per_inst_executed.ratio": ratio(threads, warps, _LANES),
        "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": ratio(on, warps, _LANES),
    }
    for metric, value in (counts | ratios).items():
        if value is not None:
            yield measured(metric, value, machine.origin)


def _operations(machine: MachineMix) -> Iterator[tuple[str, Count]]:
    """Yield threads by arithmetic operation and by class."""
    for name, opcodes in _ARITHMETIC.items():
        yield name, _threads_on(each for each in machine.opcodes if each.opcode in opcodes)
    for name, work in _CLASSES.items():
        members = [each for each in machine.opcodes if each.work == work]
        if members or name not in _NOT_EVERYWHERE:
            yield name, _threads_on(iter(members))


def _pipes(machine: MachineMix) -> Iterator[tuple[str, Count]]:
    for pipe in _PIPES:
        members = [each.warp_instructions for each in machine.opcodes if each.pipe == pipe]
        if members or pipe not in _NOT_EVERYWHERE:
            yield pipe, total(members)


def _threads_on(opcodes: Iterator[OpcodeCount]) -> Count:
    return total(each.threads_on for each in opcodes)
