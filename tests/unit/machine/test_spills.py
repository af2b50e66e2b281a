"""Spilled registers: 4 bytes of each thread per request, 4 sectors, written through and found again in L1 or L2."""

from dataclasses import replace

from kerncast.machine import with_spills
from kerncast.profiles import AccessCount, KernelProfile, Origin
from tests.helpers.profiles import SAXPY, WARPS, access, opcode


def spilling(frame_bytes: int, **machine: object) -> KernelProfile:
    """Return saxpy as if its machine code loaded 3 words per thread from local memory and stored 2."""
    assert SAXPY.resources is not None
    assert SAXPY.machine is not None
    resources = replace(SAXPY.resources, local_bytes_per_thread=frame_bytes, spill_load_bytes=12, spill_store_bytes=8)
    opcodes = (opcode("LDL", "memory", "lsu", 3 * WARPS), opcode("STL", "memory", "lsu", 2 * WARPS))
    mix = replace(SAXPY.machine, opcodes=(*SAXPY.machine.opcodes, *opcodes), **machine)  # type: ignore[arg-type]
    return replace(SAXPY, resources=resources, machine=mix)


def local(profile: KernelProfile) -> dict[str, AccessCount]:
    return {each.operation: each for each in profile.accesses if each.space == "local"}


def test_disassembled_loads_and_stores_are_counted() -> None:
    found = local(with_spills(spilling(16)))
    assert (found["ld"].requests.value, found["ld"].sectors.value) == (3 * WARPS, 12 * WARPS)
    assert (found["st"].requests.value, found["st"].nbytes.value) == (2 * WARPS, 2 * WARPS * 32 * 4)


def test_what_the_ptx_accesses_is_not_counted_twice() -> None:
    own = access("local", "ld", requests=WARPS, sectors=8 * WARPS, lines=WARPS, threads=32 * WARPS)
    found = local(with_spills(replace(spilling(16), accesses=(*SAXPY.accesses, own))))
    assert (found["ld"].requests.value, found["ld"].sectors.value) == (3 * WARPS, (8 + 2 * 4) * WARPS)


def test_without_a_disassembler_each_spill_runs_once_per_thread() -> None:
    found = local(with_spills(spilling(16, origin=Origin.ESTIMATED)))
    assert (found["ld"].requests.value, found["st"].requests.value) == (3 * WARPS, 2 * WARPS)
    assert found["ld"].requests.low == 0


def test_a_warp_that_is_partly_empty_spills_too() -> None:
    found = local(with_spills(replace(spilling(16, origin=Origin.ESTIMATED), grid=(10, 1, 1), block=(40, 1, 1))))
    assert found["ld"].requests.value == 3 * 10 * 2


def test_spills_are_written_through_and_read_from_the_level_that_holds_them() -> None:
    """2048 resident threads: 32 bytes of each fit into 128 KiB of L1, 128 do not."""
    before = SAXPY.caches
    assert before is not None
    small, large = (with_spills(spilling(each)).caches for each in (32, 128))
    assert small is not None
    assert large is not None
    assert small.l1_local_hits.value == 12 * WARPS
    assert small.l2_read_sectors == before.l2_read_sectors
    assert small.l2_write_hits.value == before.l2_write_hits.value + 8 * WARPS
    assert small.l2_write_sectors.value == before.l2_write_sectors.value + 8 * WARPS
    assert large.l1_local_hits.value == 0
    assert large.l2_read_sectors.value == before.l2_read_sectors.value + 12 * WARPS
    assert small.dram_read_sectors == large.dram_read_sectors == before.dram_read_sectors


def test_nothing_changes_without_spills() -> None:
    assert with_spills(SAXPY) is SAXPY
