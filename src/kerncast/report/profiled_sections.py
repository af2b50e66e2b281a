"""The sections of a profile as facts and tables, in the order of reading."""

import math
from collections.abc import Iterator
from pathlib import Path

from kerncast.gpu import GPU
from kerncast.kernel_profile import Count, KernelProfile, Origin
from kerncast.report.metrics import metrics_of
from kerncast.report.metrics_caches import dram_bytes
from kerncast.report.metrics_execution import barriers_per_warp, dependency_distance, flops, flops_per_byte, parallelism
from kerncast.report.metrics_launch import occupancy_of, warps_per_block, waves
from kerncast.report.profiled_memory import atomic_facts, memory_facts, memory_tables, shared_tables
from kerncast.report.profiled_warps import warp_facts, warp_tables
from kerncast.report.profiled_words import (
    NOTHING,
    describe_origin,
    describe_ratio,
    describe_sample,
    describe_scaled,
    describe_share,
    extent_text,
)
from kerncast.report.ratios import ratio
from kerncast.report.sections import Fact, Section
from kerncast.report.tables import Table
from kerncast.units import format_count

_MOST_ROWS = 10


def sections_of(profile: KernelProfile, gpu: GPU | None) -> tuple[Section, ...]:
    """Return every section that has something to show, in the order of reading."""
    found = [
        Section("Launch and occupancy", tuple(_launch(profile, gpu))),
        Section("Compute workload", tuple(_compute(profile, gpu)), tuple(_pipes(profile, gpu))),
        Section("Memory workload", tuple(memory_facts(profile, gpu)), tuple(memory_tables(profile, gpu))),
        Section("Shared memory and atomics", tuple(atomic_facts(profile)), tuple(shared_tables(profile))),
        Section("Instruction mix", (), tuple(_mix_table(profile, gpu))),
        Section("Warps", tuple(_warps(profile))),
        Section("Time and warp states", tuple(warp_facts(profile, gpu)), tuple(warp_tables(profile, gpu))),
        Section("Basic blocks of the PTX", (), tuple(_block_table(profile))),
        Section("Sample and origin", tuple(_origins(profile, gpu))),
    ]
    return tuple(section for section in found if section.facts or section.tables)


def _launch(profile: KernelProfile, gpu: GPU | None) -> Iterator[Fact]:
    blocks, threads = math.prod(profile.grid), math.prod(profile.block)
    warps = warps_per_block(profile)
    yield Fact("grid", extent_text(profile.grid), f"{format_count(blocks)} blocks")
    yield Fact("block", extent_text(profile.block), f"{threads} threads, {warps} warp{'s' * (warps > 1)}")
    static = profile.resources.static_shared_bytes if profile.resources else None
    shared = f"{'unknown' if static is None else static} static, {profile.shared_bytes} dynamic"
    yield Fact("shared memory per block", f"{(static or 0) + profile.shared_bytes} B", shared)
    found = occupancy_of(profile, gpu)
    if gpu is None or found is None or profile.resources is None:
        return
    yield Fact("registers per thread", str(profile.resources.registers_per_thread), profile.resources.architecture)
    limits = ", ".join(
        f"{limit.limiter.value.replace('_', ' ')} {limit.blocks}" for limit in found.limits if limit.blocks is not None
    )
    limiter = found.limiter.value.replace("_", " ")
    resident = f"{found.blocks_per_sm} blocks, {found.warps_per_sm} warps per SM; limited by {limiter}"
    yield Fact("theoretical occupancy", f"{found.fraction:.0%}".replace("%", " %"), resident)
    yield Fact("blocks per SM by limit", "", limits)
    full = waves(found, blocks, gpu)
    if full is not None:
        yield Fact(
            "waves",
            format_count(round(full, 2)),
            f"{gpu.sm_count} SMs hold {found.blocks_per_sm * gpu.sm_count} blocks",
        )


def _compute(profile: KernelProfile, gpu: GPU | None) -> Iterator[Fact]:
    work, launched = profile.work, math.prod(profile.grid) * warps_per_block(profile)
    for label, count in (
        ("FP32 FLOPs", work.fp32_flops), ("FP64 FLOPs", work.fp64_flops), ("FP16 FLOPs", work.fp16_flops),
        ("special functions", work.special_ops), ("integer operations", work.integer_ops),
    ):  # fmt: skip
        if count is not None and count.value:
            yield Fact(label, describe_scaled(count), f"{describe_ratio(ratio(count, Count.exact(launched)))} per warp")
    done = flops(profile)
    if done is not None and done.value:
        once = describe_ratio(flops_per_byte(profile, profile.traffic.global_bytes_touched))
        moved = None if profile.caches is None else flops_per_byte(profile, dram_bytes(profile.caches))
        note = "" if gpu is None or moved is None else f"{describe_ratio(moved)} FLOP/B of DRAM traffic"
        yield Fact("arithmetic intensity", f"{once} FLOP/B", f"of the working set{'; ' * bool(note)}{note}")
    if profile.mix is not None:
        yield _per_warp("PTX instructions", profile.mix.warp_instructions, launched)
    if gpu is not None and profile.machine is not None:
        yield _per_warp("machine instructions", profile.machine.warp_instructions, launched)


def _per_warp(label: str, count: Count, warps: int) -> Fact:
    each = describe_ratio(ratio(count, Count.exact(warps)))
    return Fact(label, describe_scaled(count), f"executed by warps, {each} per warp")


def _pipes(profile: KernelProfile, gpu: GPU | None) -> Iterator[Table]:
    if gpu is None or profile.machine is None or not profile.machine.opcodes:
        return
    whole = profile.machine.warp_instructions.value
    pipes: dict[str, Count] = {}
    for each in profile.machine.opcodes:
        pipes[each.pipe] = pipes.get(each.pipe, Count.exact(0)) + each.warp_instructions
    ranked = sorted(pipes.items(), key=lambda pair: -pair[1].value)
    rows = tuple((pipe, describe_scaled(count), describe_share(count.value, whole)) for pipe, count in ranked)
    yield Table(("pipe", "warp instructions", "share"), rows)


def _mix_table(profile: KernelProfile, gpu: GPU | None) -> Iterator[Table]:
    if gpu is not None and profile.machine is not None:
        opcodes = profile.machine.opcodes
        rows = [(f"{each.opcode} ({each.pipe})", each.warp_instructions, each.thread_instructions) for each in opcodes]
        name, whole = "SASS opcode (pipe)", profile.machine.warp_instructions
    elif profile.mix is not None:
        rows = [(each.kind, each.warp_instructions, each.thread_instructions) for each in profile.mix.kinds]
        name, whole = "PTX instruction", profile.mix.warp_instructions
    else:
        return
    rows.sort(key=lambda row: -row[1].value)
    shown, rest = rows[:_MOST_ROWS], rows[_MOST_ROWS:]
    texts = [
        (label, describe_scaled(warps), describe_share(warps.value, whole.value), describe_ratio(ratio(threads, warps)))
        for label, warps, threads in shown
    ]
    if rest:
        left = sum(warps.value for _, warps, _ in rest)
        texts.append((f"{len(rest)} others", format_count(left), describe_share(left, whole.value), ""))
    yield Table((name, "warp instructions", "share", "active lanes"), tuple(texts))


def _warps(profile: KernelProfile) -> Iterator[Fact]:
    mix, balance = profile.mix, profile.balance
    if mix is not None:
        yield Fact("active lanes", format_count(round(mix.active_lanes, 2)), "of 32, per PTX instruction")
        yield Fact("divergent branches", describe_scaled(mix.divergent_branches), "branches that split a warp")
        each = describe_ratio(barriers_per_warp(profile, mix))
        yield Fact("barrier arrivals", describe_scaled(mix.barriers), f"{each} per warp")
    if balance is not None:
        yield Fact(
            "busiest warp of a block",
            format_count(round(balance.longest_over_mean_warp, 2)),
            "times the mean; 1 is even",
        )
        yield Fact(
            "busiest block", format_count(round(balance.longest_over_mean_block, 2)), "times the mean; 1 is even"
        )
        yield Fact(
            "variation of blocks", format_count(round(balance.block_variation, 2)), "standard deviation over mean"
        )
    if (found := parallelism(profile.blocks)) is not None:
        yield Fact("parallel instructions", describe_ratio(found), "instructions over longest chain, per basic block")
    if (found := dependency_distance(profile.blocks)) is not None:
        yield Fact("dependency distance", describe_ratio(found), "instructions from a value to its first use")


def _block_table(profile: KernelProfile) -> Iterator[Table]:
    done = {each.number: each.warps.value * each.instructions for each in profile.blocks}
    whole = sum(done.values())
    ranked = sorted(profile.blocks, key=lambda each: -done[each.number])[:_MOST_ROWS]
    rows = tuple(
        (
            f"{each.number}  {Path(each.where).name}".rstrip(),
            str(each.loop_depth),
            describe_scaled(each.warps),
            describe_share(done[each.number], whole),
            str(each.instructions),
            str(each.critical_path),
            f"{each.parallelism:.2f}",
            NOTHING if each.dependency_distance is None else f"{each.dependency_distance:.1f}",
        )
        for each in ranked
    )
    if rows:
        yield Table(("block", "loops", "warps", "share", "instr.", "chain", "ILP", "distance"), rows)


def _origins(profile: KernelProfile, gpu: GPU | None) -> Iterator[Fact]:
    if profile.sampling is not None:
        size = f"{profile.sampling.blocks_executed} / {profile.sampling.blocks}"
        yield Fact("blocks executed", size, describe_sample(profile, metrics_of(profile, gpu)))
    yield Fact("work, requests, sectors", profile.work.origin.value, describe_origin(profile.work.origin))
    if gpu is None:
        return
    if profile.machine is not None:
        yield Fact("machine instructions", profile.machine.origin.value, describe_origin(profile.machine.origin))
    if profile.caches is not None:
        size = f"{profile.caches.blocks_simulated} blocks, {profile.caches.resident_blocks_per_sm} at once per SM"
        yield Fact("L1, L2 and DRAM", Origin.SIMULATED.value, f"{describe_origin(Origin.SIMULATED)}; {size}")
    if profile.warp_states is not None:
        blocks = profile.warp_states.blocks_simulated
        yield Fact("time, warp states", Origin.SIMULATED.value, f"one SM with {blocks} blocks of this launch, L2 warm")
