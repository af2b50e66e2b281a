"""Spilled registers: 4 bytes of each thread per request, 4 sectors, written through and found again in L1 or L2."""

from dataclasses import replace

from kerncast.machine.mix import with_spills
from kerncast.metrics import Accesses, accesses
from kerncast.profiles import KernelProfile, Origin
from kerncast.profiles.counts import (
    DRAM_READ_SECTORS,
    L1_BYTES,
    L1_LOCAL_HITS,
    L2_BYTES_EXCHANGED,
    L2_LOAD_SECTORS,
    L2_WRITE_HITS,
    L2_WRITE_SECTORS,
)
from tests.helpers.profiles import SAXPY, WARPS, access, opcode, with_counts


def spilling(frame_bytes: int, **machine: object) -> KernelProfile:
    """Return saxpy as if its machine code loaded 3 words per thread from local memory and stored 2."""
    assert SAXPY.resources is not None
    assert SAXPY.machine is not None
    resources = replace(SAXPY.resources, local_bytes_per_thread=frame_bytes, spill_load_bytes=12, spill_store_bytes=8)
    opcodes = (opcode("LDL", "memory", "lsu", 3 * WARPS), opcode("STL", "memory", "lsu", 2 * WARPS))
    mix = replace(SAXPY.machine, opcodes=(*SAXPY.machine.opcodes, *opcodes), **machine)  # type: ignore[arg-type]
    return replace(SAXPY, resources=resources, machine=mix)


def local(profile: KernelProfile) -> dict[str, Accesses]:
    return {operation: accesses(profile.counts, "local", {operation}) for operation in ("ld", "st")}


def test_disassembled_loads_and_stores_are_counted() -> None:
    found = local(with_spills(spilling(16)))
    assert (found["ld"].requests.value, found["ld"].sectors.value) == (3 * WARPS, 12 * WARPS)
    assert (found["st"].requests.value, found["st"].nbytes.value) == (2 * WARPS, 2 * WARPS * 32 * 4)


def test_what_the_ptx_accesses_is_not_counted_twice() -> None:
    own = access("local", "ld", requests=WARPS, sectors=8 * WARPS, lines=WARPS, threads=32 * WARPS)
    found = local(with_spills(with_counts(spilling(16), own)))
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
    before = SAXPY.counts
    small, large = (with_spills(spilling(each)).counts for each in (32, 128))
    assert small[L1_LOCAL_HITS].value == 12 * WARPS
    assert small[L2_LOAD_SECTORS] == before[L2_LOAD_SECTORS]
    assert small[L2_WRITE_HITS].value == before[L2_WRITE_HITS].value + 8 * WARPS
    assert small[L2_WRITE_SECTORS].value == before[L2_WRITE_SECTORS].value + 8 * WARPS
    assert large[L1_LOCAL_HITS].value == 0
    assert large[L2_LOAD_SECTORS].value == before[L2_LOAD_SECTORS].value + 12 * WARPS
    assert small[DRAM_READ_SECTORS] == large[DRAM_READ_SECTORS] == before[DRAM_READ_SECTORS]


def test_spills_cross_the_levels_of_memory() -> None:
    """In sectors of 32 bytes: 12 and 8 per warp cross L1; stores reach L2, and loads too where L1 has no room."""
    before = SAXPY.counts
    small, large = (with_spills(spilling(each)).counts for each in (32, 128))
    assert small[L1_BYTES].value == before[L1_BYTES].value + 32 * 20 * WARPS
    assert small[L2_BYTES_EXCHANGED].value == before[L2_BYTES_EXCHANGED].value + 32 * 8 * WARPS
    assert large[L2_BYTES_EXCHANGED].value == before[L2_BYTES_EXCHANGED].value + 32 * 20 * WARPS


def test_nothing_changes_without_spills() -> None:
    assert with_spills(SAXPY) is SAXPY
