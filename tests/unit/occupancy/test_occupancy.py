"""What limits occupancy, and why nothing fits; ``test_occupancy_header.py`` compares it with NVIDIA's calculator."""

import pytest

from kerncast.errors import LaunchError
from kerncast.gpu import load_architecture
from kerncast.occupancy import BlockRequest, Limiter, occupancy, why_not

VOLTA = load_architecture("sm_70")
AMPERE = load_architecture("sm_86")


@pytest.mark.parametrize(
    ("request_", "blocks", "limiter"),
    [
        (BlockRequest(1024, 32), 2, Limiter.WARPS),
        (BlockRequest(256, 40), 6, Limiter.REGISTERS),
        (BlockRequest(128, 16, 20_000), 4, Limiter.SHARED_MEMORY),
        (BlockRequest(32, 16), 32, Limiter.BLOCKS),
        (BlockRequest(1024, 65), 0, Limiter.NONE_FITS),
    ],
)
def test_limiters_on_volta(request_: BlockRequest, blocks: int, limiter: Limiter) -> None:
    found = occupancy(request_, VOLTA)
    assert found.blocks_per_sm == blocks
    assert found.limiter is limiter
    assert found.warps_per_sm == blocks * request_.warps
    assert found.fraction == pytest.approx(found.warps_per_sm / 64)


def test_barriers_limit_on_hopper_only() -> None:
    request = BlockRequest(32, 16, barriers=16)
    hopper = occupancy(request, load_architecture("sm_90"))
    assert (hopper.blocks_per_sm, hopper.limiter) == (4, Limiter.BARRIERS)
    assert occupancy(request, VOLTA).limit(Limiter.BARRIERS) is None


def test_reserved_kibibyte_counts_from_8_0() -> None:
    request = BlockRequest(64, 16, static_shared_bytes=1024)
    assert occupancy(request, AMPERE).limit(Limiter.SHARED_MEMORY) == 50
    assert occupancy(request, VOLTA).limit(Limiter.SHARED_MEMORY) == 96


def test_nothing_used_is_no_limit() -> None:
    found = occupancy(BlockRequest(64, 0), VOLTA)
    assert found.limit(Limiter.REGISTERS) is None
    assert found.limit(Limiter.SHARED_MEMORY) is None
    assert found.limit(Limiter.NONE_FITS) is None


def test_opt_in_limit_to_the_byte() -> None:
    assert occupancy(BlockRequest(64, 16, 0, 99 * 1024), AMPERE).blocks_per_sm == 1
    assert occupancy(BlockRequest(64, 16, 0, 99 * 1024 + 1), AMPERE).blocks_per_sm == 0


def test_63_registers_on_3_0() -> None:
    kepler = load_architecture("sm_30")
    assert occupancy(BlockRequest(64, 63), kepler).blocks_per_sm > 0
    assert occupancy(BlockRequest(64, 64), kepler).blocks_per_sm == 0
    assert why_not(BlockRequest(64, 64), kepler) == (
        "compute capability 3.0: a thread has 64 registers, over the 63 allowed"
    )


def test_why_not_names_every_broken_limit_with_numbers() -> None:
    text = why_not(BlockRequest(1056, 256, 40_000, 80_000), AMPERE)
    assert text is not None
    for part in (
        "compute capability 8.6",
        "1056 threads, over the 1024",
        "256 registers, over the 255",
        "over the 65536 of a block",
        "120000 bytes of shared memory (40000 static, 80000 dynamic), over the 101376",
    ):
        assert part in text
    assert why_not(BlockRequest(256, 32), AMPERE) is None


def test_why_not_barriers() -> None:
    text = why_not(BlockRequest(32, 16, barriers=65), load_architecture("sm_90"))
    assert text == "compute capability 9.0: a block has 65 barriers, over the 64 of an SM"


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ((0, 32), "threads is 0"),
        ((32, -1), "registers_per_thread is -1"),
        ((32, 32, -5), "static_shared_bytes is -5"),
    ],
)
def test_impossible_requests(values: tuple[int, ...], fault: str) -> None:
    with pytest.raises(LaunchError, match=fault):
        BlockRequest(*values)
