"""The simulator of the caches against its oracle in plain Python, and against closed forms."""

from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.execute.caches import CacheCounts, Simulation, simulate
from kerncast.occupancy import CacheGeometry
from kerncast.traces import LINE_BYTES, Operation, Recording
from tests.helpers import cache_oracle
from tests.helpers.recordings import each, random_recording, recorded
from tests.helpers.thorough import examples

PLAIN = CacheGeometry(
    l1_bytes=16 * LINE_BYTES, l2_bytes=64 * LINE_BYTES, caches_global=True, caches_read_only=True, caches_local=True,
    stores_allocate=True, l2_fetch_bytes=32, resident=1, sms=1,
)  # fmt: skip
NAMES = {"l2_read": "l2_read_sectors", "l2_write": "l2_write_sectors", "l2_atomic": "l2_atomic_sectors",
         "dram_read": "dram_read_sectors", "dram_write": "dram_write_sectors"}  # fmt: skip


def by_oracle(recording: Recording, g: CacheGeometry) -> tuple[CacheCounts, int]:
    plain = cache_oracle.Geometry(
        g.sms, g.resident, (g.l1_bytes or 0) // LINE_BYTES, g.l2_bytes // LINE_BYTES,
        g.caches_global, g.caches_read_only, g.caches_local, g.stores_allocate,
    )  # fmt: skip
    found = asdict(cache_oracle.simulate(recording, plain))
    left = found.pop("left_dirty")
    found["l2_dirtied_sectors"] = left + found["dram_write"]
    return CacheCounts(**{NAMES.get(name, name): value for name, value in found.items()}), left


@settings(max_examples=examples(150))
@given(
    st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 5), st.integers(1, 4), st.integers(1, 6),
    st.sampled_from([0, 1, 5, 16, 48]), st.sampled_from([4, 16, 32, 160]), st.tuples(*[st.booleans()] * 4),
)  # fmt: skip
def test_equal_to_the_oracle(  # noqa: PLR0913, PLR0917  what a case is made of
    seed: int, blocks: int, warps: int, sms: int, resident: int, l1: int, l2: int, flags: tuple[bool, bool, bool, bool]
) -> None:
    recording = random_recording(seed, blocks, warps)
    geometry = CacheGeometry(l1 * LINE_BYTES, l2 * LINE_BYTES, *flags, 32, resident, sms)
    found = simulate(recording, geometry)
    assert (found.total, found.left_dirty_sectors) == by_oracle(recording, geometry)


def loads(recording_lines: list[int], operation: Operation = Operation.LOAD, **changes: object) -> Simulation:
    return simulate(recorded([[[each(operation, recording_lines)]]]), replace(PLAIN, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(("fetch_bytes", "sectors"), [(32, 1), (64, 2), (128, 4)])
def test_a_missing_sector_brings_its_neighbours(fetch_bytes: int, sectors: int) -> None:
    one = recorded([[[each(Operation.LOAD, range(20), mask=0b0100)]]])
    found = simulate(one, replace(PLAIN, l2_fetch_bytes=fetch_bytes)).total
    assert (found.l2_read_sectors, found.dram_read_sectors) == (20, 20 * sectors)
    both = recorded([[[each(Operation.LOAD, range(20), mask=0b0100), *[each(Operation.LOAD, range(20), mask=0b1000)]]]])
    again = simulate(both, replace(PLAIN, l2_fetch_bytes=fetch_bytes)).total
    assert again.dram_read_sectors == 20 * max(2, sectors)


def test_a_read_only_cache_of_its_own_is_not_thrashed_by_other_loads() -> None:
    lines = [*range(8)] * 2
    kept = loads(lines, Operation.LOAD_READ_ONLY, l1_bytes=0, read_only_bytes=8 * LINE_BYTES).total
    assert (kept.l1_load_hits, kept.l2_read_sectors) == (32, 32)
    plain = loads(lines, l1_bytes=0, read_only_bytes=8 * LINE_BYTES).total
    assert (plain.l1_load_hits, plain.l2_read_sectors) == (0, 64)


def test_partitions_of_l2_share_its_capacity() -> None:
    lines = [*range(48)] * 2
    assert loads(lines, l1_bytes=0, l2_bytes=128 * LINE_BYTES).total.dram_read_sectors == 192
    assert loads(lines, l1_bytes=0, l2_bytes=64 * LINE_BYTES, l2_partitions=2).total.dram_read_sectors > 192


def test_looks_grow_and_end_with_all_blocks() -> None:
    recording = recorded([[[each(Operation.LOAD, range(4 * n, 4 * n + 4))]] for n in range(10)])
    found = simulate(recording, PLAIN, looks=5)
    assert found.blocks.tolist() == [2, 4, 6, 8, 10]
    assert [look.dram_read_sectors for look in found.counts] == [32, 64, 96, 128, 160]


def test_blocks_without_accesses_end() -> None:
    found = simulate(recorded([[[[]]]] * 7), PLAIN)
    assert found.total == CacheCounts(*[0] * 13)
    assert found.blocks[-1] == 7
