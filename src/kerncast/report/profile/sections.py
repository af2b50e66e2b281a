"""The sections of a profile as facts and tables, in the order of reading."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from kerncast.gpu import GPU
from kerncast.metrics import (
    Accesses,
    accesses,
    active_warps,
    barriers_per_warp,
    dependency_distance,
    dram_bracket,
    flops,
    flops_per_byte,
    issue_width,
    l2_totals,
    metrics_of,
    occupancy_of,
    occurring_accesses,
    parallelism,
    ratio,
    warps_per_block,
    wave_bytes,
    waves,
)
from kerncast.profiles import (
    SECTOR_BYTES,
    Count,
    Counts,
    KernelProfile,
    LineStates,
    Origin,
    SourceText,
    StateCycles,
    WarpStates,
)
from kerncast.profiles import counts as named
from kerncast.report.profile.source import AnnotatedText, source_of
from kerncast.report.profile.words import (
    NOTHING,
    describe_origin,
    describe_ratio,
    describe_sample,
    describe_scaled,
    describe_share,
    describe_spread,
    extent_text,
)
from kerncast.report.tables import Fact, Section, Table, TextColumn
from kerncast.report.words import describe_limiter
from kerncast.units import format_bytes, format_count, format_seconds

_OPERATIONS = {"ld": "load", "st": "store", "atom": "atomic", "red": "red", "ldgsts": "copy"}


def memory_facts(profile: KernelProfile, gpu: GPU | None) -> Iterator[Fact]:
    """Yield bytes asked for, bytes touched, and what DRAM traffic can be at least and at most."""
    counts, caches = profile.counts, profile.caches if gpu else None
    requested, touched = counts.get(named.GLOBAL_BYTES_REQUESTED), counts.get(named.GLOBAL_BYTES_TOUCHED)
    if requested is not None and requested.value:
        yield Fact("bytes that threads ask for", describe_scaled(requested, "B"), "global memory")
    if touched is not None and touched.value:
        yield Fact("bytes touched", describe_scaled(touched, "B"), "working set, in whole sectors")
    if (bracket := dram_bracket(profile)) is not None and bracket.value:
        low, high = format_bytes(bracket.low), format_bytes(bracket.high)
        bounds = low if low == high else f"{low} to {high}"
        yield Fact("DRAM traffic, any caches", bounds, "each sector once, to no reuse at all; dirty data too")
    if caches is not None and (wave := wave_bytes(caches)) is not None:
        note = f"the {caches.wave_blocks} blocks that run at once"
        yield Fact("bytes touched by a wave", describe_scaled(wave, "B"), note)
    if caches is not None and counts[named.L2_DIRTY_BYTES].value:
        left = describe_scaled(counts[named.L2_DIRTY_BYTES], "B")
        yield Fact("written, still in L2", left, "DRAM gets it after the kernel")


def memory_tables(profile: KernelProfile, gpu: GPU | None) -> Iterator[Table]:
    """Yield accesses to global and local memory and, on a GPU, what its caches do with them."""
    members = [row for row in occurring_accesses(profile) if row[0] != "shared"]
    if members:
        heading = ("access", "requests", "bytes", "sectors", "sect/req", "used")
        yield _with_spread(heading, [(_access_row(*row), row[2].sectors) for row in members])
    if gpu is not None and profile.caches is not None:
        yield Table(("cache", "asked for", "found", "hit rate"), tuple(_cache_rows(profile.counts)))


def _access_row(space: str, operation: str, each: Accesses) -> tuple[str, ...]:
    moved = each.sectors.times(SECTOR_BYTES)
    return (
        f"{space} {_OPERATIONS[operation]}",
        format_count(each.requests.value),
        format_bytes(each.nbytes.value),
        format_count(each.sectors.value),
        describe_ratio(ratio(each.sectors, each.requests)),
        describe_share(min(each.nbytes.value, moved.value), moved.value),
    )


def _with_spread(heading: tuple[str, ...], rows: Sequence[tuple[tuple[str, ...], Count]]) -> Table:
    """Return a table, with a column for the intervals where there are any: cells with them would not fit."""
    if all(count.is_exact for _, count in rows):
        return Table(heading, tuple(row for row, _ in rows))
    return Table((*heading, "±"), tuple((*row, describe_spread(count)) for row, count in rows))


def _cache_rows(counts: Counts) -> Iterator[tuple[str, ...]]:
    local = accesses(counts, "local", {"ld"}).sectors
    code, written = counts[named.L2_INSTRUCTION_SECTORS], counts[named.L2_WRITE_SECTORS]
    asked, hits = l2_totals(counts)
    for label, whole, found in (
        ("L1, global loads", counts[named.L1_LOAD_SECTORS], counts[named.L1_LOAD_HITS]),
        ("L1, local loads", local, counts[named.L1_LOCAL_HITS]),
        ("L2, loads", counts[named.L2_LOAD_SECTORS], counts[named.L2_LOAD_HITS]),
        ("L2, code", code, code),
        ("L2, writes", written, written),
        ("L2, atomics", counts[named.L2_ATOMIC_SECTORS], counts[named.L2_ATOMIC_HITS]),
        ("L2, all", asked, hits),
    ):
        if whole.value:
            yield (label, _in_bytes(whole), _in_bytes(found), describe_share(found.value, whole.value))
    yield ("DRAM, reads", _in_bytes(counts[named.DRAM_READ_SECTORS]), "", "")
    yield ("DRAM, writes", _in_bytes(counts[named.DRAM_WRITE_SECTORS]), "", "")


def _in_bytes(sectors: Count) -> str:
    return describe_scaled(sectors.times(SECTOR_BYTES), "B")


def atomic_facts(profile: KernelProfile) -> Iterator[Fact]:
    """Yield how many threads update one address at the same time, by state space."""
    for space in ("global", "shared"):
        found = accesses(profile.counts, space, {"atom", "red"})
        if found.requests.value:
            most = describe_ratio(ratio(found.contention, found.requests, 32.0))
            lanes = describe_ratio(ratio(found.threads, found.requests, 32.0))
            note = f"{most} of the {lanes} threads of a request update the same address"
            yield Fact(f"atomics, {space} memory", describe_scaled(found.threads), note)


def shared_tables(profile: KernelProfile) -> Iterator[Table]:
    """Yield the accesses to shared memory, where there are any."""
    members = [row for row in occurring_accesses(profile) if row[0] == "shared"]
    if members:
        heading = ("access", "requests", "bytes", "wavefronts", "wave/req", "conflicts")
        yield _with_spread(heading, [(_shared_row(*row), row[2].wavefronts) for row in members])


def _shared_row(space: str, operation: str, each: Accesses) -> tuple[str, ...]:
    return (
        f"{space} {_OPERATIONS[operation]}",
        format_count(each.requests.value),
        format_bytes(each.nbytes.value),
        format_count(each.wavefronts.value),
        describe_ratio(ratio(each.wavefronts, each.requests)),
        format_count(each.conflicts.value),
    )


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


#: Operations of tensor cores are told with the type of A, and that of the sums where it may differ.
_TENSOR_LABELS = tuple(
    (f"tensor operations, {name.partition('_src_')[2].removesuffix('.sum').replace('_dst_', ' to ')}", name)
    for name in dict.fromkeys(named.TENSOR_OPS.values())
)


def _compute(profile: KernelProfile, gpu: GPU | None) -> Iterator[Fact]:
    counts, launched = profile.counts, math.prod(profile.grid) * warps_per_block(profile)
    for label, name in (
        ("FP32 FLOPs", named.FP32_FLOPS), ("FP64 FLOPs", named.FP64_FLOPS), ("FP16 FLOPs", named.FP16_FLOPS),
        ("special functions", named.SPECIAL_OPS), ("integer operations", named.INTEGER_OPS), *_TENSOR_LABELS,
    ):  # fmt: skip
        count = counts.get(name)
        if count is not None and count.value:
            yield Fact(label, describe_scaled(count), f"{describe_ratio(ratio(count, Count.exact(launched)))} per warp")
    done = flops(profile)
    if done is not None and done.value:
        once = describe_ratio(flops_per_byte(profile, counts.get(named.GLOBAL_BYTES_TOUCHED)))
        moved = None if profile.caches is None else flops_per_byte(profile, counts[named.DRAM_BYTES])
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
    yield Fact("work, requests, sectors", profile.origin.value, describe_origin(profile.origin))
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


_MOST_HOT_LINES = 10
_MOST_ROOFS = 6
_MOST_STATES = 2
_SHARE_COLUMNS, _STATES_COLUMNS = 8, 44
#: What a warp waits for in each of its states, by Nsight Compute's names.
STALLS = {
    "selected": "nothing: it issues",
    "not_selected": "another warp that issues",
    "wait": "an arithmetic result",
    "short_scoreboard": "shared memory or XU",
    "long_scoreboard": "L1, L2 or DRAM",
    "barrier": "other warps of the block",
    "math_pipe_throttle": "a busy arithmetic pipe",
    "lg_throttle": "the queue to L1",
    "mio_throttle": "the queue to shared memory",
    "branch_resolving": "the target of a branch",
}


def warp_facts(profile: KernelProfile, gpu: GPU | None) -> Iterator[Fact]:
    """Yield the duration and how busy an SM is."""
    found = profile.warp_states
    if found is None or gpu is None:
        return
    blocks = f"{found.blocks_simulated} block{'s' * (found.blocks_simulated > 1)} of one SM simulated"
    yield Fact("duration", format_seconds(found.seconds), f"{format_count(found.cycles)} cycles; {blocks}")
    slots = found.schedulers * found.simulated_cycles * issue_width(gpu)
    each = found.issued / found.schedulers / found.simulated_cycles
    yield Fact(
        "issue slots used", describe_share(found.issued, slots), f"{each:.2f} instructions per scheduler and cycle"
    )
    most = gpu.architecture.max_warps_per_sm
    yield Fact("achieved occupancy", describe_share(active_warps(found), most), f"of {most} warps")
    latency = found.warp_cycles / found.issued
    yield Fact("cycles per instruction", f"{latency:.1f}", "of one warp")


def warp_tables(profile: KernelProfile, gpu: GPU | None) -> Iterator[Table]:
    """Yield the states of warps, and the resources that are busiest."""
    found = profile.warp_states
    if found is None or gpu is None:
        return
    ranked = sorted((each for each in found.states if each.warp_cycles), key=lambda each: -each.warp_cycles)
    rows = tuple(
        (
            each.state,
            describe_share(each.warp_cycles, found.warp_cycles),
            f"{each.warp_cycles / found.issued:.2f}",
            STALLS[each.state],
        )
        for each in ranked
    )
    yield Table(("warp state", "share", "warps per issue", TextColumn("waits for")), rows)
    roofs = tuple(
        (describe_limiter(each.resource), describe_share(min(1.0, each.share), 1.0))
        for each in found.resources[:_MOST_ROOFS]
    )
    yield Table(("busiest resources", "of the duration"), roofs)


def waiting_lines(found: WarpStates, sources: Sequence[SourceText], *, all_lines: bool) -> AnnotatedText:
    """Return the lines at which warps wait longest, or all of them in their order, with the states that they are in."""
    ranked = sorted(found.lines, key=lambda line: -line.warp_cycles)[:_MOST_HOT_LINES]
    lines = found.lines if all_lines else ranked
    places = [f"{Path(line.file).name}:{line.line}" for line in lines]
    width = max(map(len, ["  line", *places])) + 2
    rows = tuple(
        _joined(
            place, width, describe_share(line.warp_cycles, found.warp_cycles), _reasons(line), source_of(sources, line)
        )
        for place, line in zip(places, lines, strict=True)
    )
    return AnnotatedText("Where warps wait", _joined("  line", width, "cycles", "longest states", "source"), rows)


def _joined(place: str, width: int, share: str, reasons: str, source: str) -> str:
    return f"{place:>{width}}{share:>{_SHARE_COLUMNS}}  {reasons:<{_STATES_COLUMNS}}  {source}".rstrip()


def _reasons(line: LineStates) -> str:
    def worded(each: StateCycles) -> str:
        return f"{each.state} {each.warp_cycles / line.warp_cycles:.0%}"

    return ", ".join(map(worded, line.states[:_MOST_STATES]))
