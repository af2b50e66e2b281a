"""The sections of a profile about memory: global and local memory, caches, shared memory, atomics."""

from collections.abc import Iterator, Sequence

from kerncast.gpu import GPU
from kerncast.kernel_profile import SECTOR_BYTES, AccessCount, CacheTraffic, Count, KernelProfile
from kerncast.report.metrics_caches import l2_totals, wave_bytes
from kerncast.report.metrics_execution import dram_bracket
from kerncast.report.metrics_memory import accesses
from kerncast.report.profiled_words import describe_ratio, describe_scaled, describe_share, describe_spread
from kerncast.report.ratios import ratio
from kerncast.report.sections import Fact
from kerncast.report.tables import Table
from kerncast.units import format_bytes, format_count

_OPERATIONS = {"ld": "load", "st": "store", "atom": "atomic", "red": "red"}


def memory_facts(profile: KernelProfile, gpu: GPU | None) -> Iterator[Fact]:
    """Yield bytes asked for, bytes touched, and what DRAM traffic can be at least and at most."""
    traffic, caches = profile.traffic, profile.caches if gpu else None
    if traffic.global_bytes_requested is not None and traffic.global_bytes_requested.value:
        yield Fact("bytes that threads ask for", describe_scaled(traffic.global_bytes_requested, "B"), "global memory")
    if traffic.global_bytes_touched is not None and traffic.global_bytes_touched.value:
        yield Fact("bytes touched", describe_scaled(traffic.global_bytes_touched, "B"), "working set, in whole sectors")
    if (bracket := dram_bracket(profile)) is not None and bracket.value:
        low, high = format_bytes(bracket.low), format_bytes(bracket.high)
        bounds = low if low == high else f"{low} to {high}"
        yield Fact("DRAM traffic, any caches", bounds, "each sector once, to no reuse at all; dirty data too")
    if caches is not None and (wave := wave_bytes(caches)) is not None:
        note = f"the {caches.wave_blocks} blocks that run at once"
        yield Fact("bytes touched by a wave", describe_scaled(wave, "B"), note)
    if caches is not None and caches.left_dirty_sectors.value:
        left = describe_scaled(caches.left_dirty_sectors.times(SECTOR_BYTES), "B")
        yield Fact("written, still in L2", left, "DRAM gets it after the kernel")


def memory_tables(profile: KernelProfile, gpu: GPU | None) -> Iterator[Table]:
    """Yield accesses to global and local memory and, on a GPU, what its caches do with them."""
    members = [each for each in profile.accesses if each.space != "shared"]
    if members:
        heading = ("access", "requests", "bytes", "sectors", "sect/req", "used")
        yield _with_spread(heading, [(_access_row(each), each.sectors) for each in members])
    if gpu is not None and profile.caches is not None:
        yield Table(("cache", "asked for", "found", "hit rate"), tuple(_cache_rows(profile, profile.caches)))


def _access_row(each: AccessCount) -> tuple[str, ...]:
    moved = each.sectors.times(SECTOR_BYTES)
    return (
        f"{each.space} {_OPERATIONS[each.operation]}",
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


def _cache_rows(profile: KernelProfile, caches: CacheTraffic) -> Iterator[tuple[str, ...]]:
    local = accesses(profile, "local", {"ld"}).sectors
    asked, hits = l2_totals(caches)
    for label, whole, found in (
        ("L1, global loads", caches.l1_load_sectors, caches.l1_load_hits),
        ("L1, local loads", local, caches.l1_local_hits),
        ("L2, loads", caches.l2_read_sectors, caches.l2_read_hits),
        ("L2, code", caches.l2_instruction_sectors, caches.l2_instruction_sectors),
        ("L2, writes", caches.l2_write_sectors, caches.l2_write_sectors),
        ("L2, atomics", caches.l2_atomic_sectors, caches.l2_atomic_hits),
        ("L2, all", asked, hits),
    ):
        if whole.value:
            yield (label, _in_bytes(whole), _in_bytes(found), describe_share(found.value, whole.value))
    yield ("DRAM, reads", _in_bytes(caches.dram_read_sectors), "", "")
    yield ("DRAM, writes", _in_bytes(caches.dram_write_sectors), "", "")


def _in_bytes(sectors: Count) -> str:
    return describe_scaled(sectors.times(SECTOR_BYTES), "B")


def atomic_facts(profile: KernelProfile) -> Iterator[Fact]:
    """Yield how many threads update one address at the same time, by state space."""
    for space in ("global", "shared"):
        found = accesses(profile, space, {"atom", "red"})
        if found.requests.value:
            most = describe_ratio(ratio(found.contention, found.requests, 32.0))
            lanes = describe_ratio(ratio(found.threads, found.requests, 32.0))
            note = f"{most} of the {lanes} threads of a request update the same address"
            yield Fact(f"atomics, {space} memory", describe_scaled(found.threads), note)


def shared_tables(profile: KernelProfile) -> Iterator[Table]:
    """Yield the accesses to shared memory, where there are any."""
    members = [each for each in profile.accesses if each.space == "shared"]
    if members:
        heading = ("access", "requests", "bytes", "wavefronts", "wave/req", "conflicts")
        yield _with_spread(heading, [(_shared_row(each), each.wavefronts) for each in members])


def _shared_row(each: AccessCount) -> tuple[str, ...]:
    return (
        f"{each.space} {_OPERATIONS[each.operation]}",
        format_count(each.requests.value),
        format_bytes(each.nbytes.value),
        format_count(each.wavefronts.value),
        describe_ratio(ratio(each.wavefronts, each.requests)),
        format_count(each.conflicts.value),
    )
