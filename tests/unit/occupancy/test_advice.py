"""What holds one more block, which block size is best, which carve-out an SM gets: by hand."""

import pytest

from kerncast.errors import InputError
from kerncast.gpu import (
    DATA,
    Architecture,
    CarveoutWish,
    default_bytes,
    granted_bytes,
    load_architecture,
    parse_carveout,
    preferred_bytes,
)
from kerncast.occupancy import BlockRequest, Limiter, occupancy
from kerncast.occupancy.advice import (
    BlockSize,
    Carveout,
    Change,
    Parameter,
    best_block_size,
    carveout_of,
    next_block_sizes,
    occupancy_curves,
    one_more_block,
    varied,
)

KIB = 1024
ARCHITECTURES = [load_architecture(path.stem) for path in sorted((DATA / "architectures").glob("*.toml"))]
KEPLER = load_architecture("sm_35")
PASCAL = load_architecture("sm_61")
VOLTA = load_architecture("sm_70")
AMPERE = load_architecture("sm_86")
HOPPER = load_architecture("sm_90")


@pytest.mark.parametrize(
    ("request_", "blocks", "changes"),
    [
        # 100 KiB for 5 blocks are 20 KiB each, of which the system takes 1.
        (BlockRequest(256, 32, 20_000), 5, [Change(Limiter.SHARED_MEMORY, 20_000, 19 * KIB)]),
        # 48 warps for 2 blocks are 24 each.
        (BlockRequest(1024, 32), 2, [Change(Limiter.WARPS, 1024, 768)]),
        # 16 warps in each of 4 sub-partitions: 16384 / 8 = 2048 registers per warp.
        (BlockRequest(1024, 80), 1, [Change(Limiter.REGISTERS, 80, 64)]),
        (
            BlockRequest(1056, 300, 0, 102_000),
            1,
            [
                Change(Limiter.WARPS, 1056, 1024),
                Change(Limiter.REGISTERS, 300, 64),
                Change(Limiter.SHARED_MEMORY, 102_000, 99 * KIB),
            ],
        ),
    ],
)
def test_what_one_more_block_needs(request_: BlockRequest, blocks: int, changes: list[Change]) -> None:
    more = one_more_block(request_, AMPERE)
    assert more is not None
    assert more.blocks_per_sm == blocks
    assert list(more.changes) == changes
    assert more.carveout_bytes is None


def test_no_carveout_helps_a_block_that_asks_for_more_than_a_block_may_have() -> None:
    chip = load_architecture("sm_37")
    smallest = preferred_bytes(CarveoutWish(cache_config="l1"), chip)
    beyond = one_more_block(BlockRequest(32, 16, 0, chip.shared_bytes_per_block + 1, 0), chip, smallest)
    assert beyond is not None
    assert (beyond.changes[0].at_most, beyond.carveout_bytes) == (chip.shared_bytes_per_block, None)
    within = one_more_block(BlockRequest(32, 16, 0, chip.shared_bytes_per_block, 0), chip, smallest)
    assert within is not None
    assert within.carveout_bytes == 98304  # two blocks of 48 KiB


def test_fewer_barriers_hold_one_more_block() -> None:
    more = one_more_block(BlockRequest(32, 16, barriers=16), HOPPER)
    assert more is not None
    assert list(more.changes) == [Change(Limiter.BARRIERS, 16, 12)], "64 / 5"


def test_nothing_holds_more_than_the_slots_for_blocks() -> None:
    assert one_more_block(BlockRequest(32, 16), VOLTA) is None


def test_a_larger_carveout_instead_of_less_shared_memory() -> None:
    more = one_more_block(BlockRequest(64, 16, 8 * KIB), VOLTA, 16 * KIB)
    assert more is not None
    assert list(more.changes) == [Change(Limiter.SHARED_MEMORY, 8 * KIB, 5 * KIB + 256)], "16 KiB / 3, of 256 bytes"
    assert more.carveout_bytes == 32 * KIB


def test_on_kepler_a_larger_block_can_fit_more_often() -> None:
    """A block beyond the preferred 16 KiB gets 48, so that 24 KiB fit twice where 12 KiB do not."""
    more = one_more_block(BlockRequest(64, 16, 25 * KIB), KEPLER, 16 * KIB)
    assert more is not None
    assert list(more.changes) == [Change(Limiter.SHARED_MEMORY, 25 * KIB, 24 * KIB)]


def test_block_sizes() -> None:
    full = BlockRequest(1024, 32)
    assert next_block_sizes(full, AMPERE) == (BlockSize(768, 2, 48), None)
    assert next_block_sizes(BlockRequest(32, 32), AMPERE) == (None, BlockSize(64, 16, 32))
    assert best_block_size(full, AMPERE) == BlockSize(768, 2, 48)
    assert best_block_size(full, AMPERE, most_threads=256) == BlockSize(256, 6, 48)
    assert best_block_size(BlockRequest(32, 300), AMPERE) is None


@pytest.mark.parametrize(
    ("text", "kepler", "volta", "ampere"),
    [
        ("0%", None, 0, 0), ("1%", None, 8, 8), ("50%", None, 64, 64), ("66%", None, 64, 100), ("100 %", None, 96, 100),
        ("l1", 16, 0, 0), ("equal", 32, 64, 64), ("Shared", 48, 96, 100),
        ("17KiB", 32, 32, 32), ("32kib", 32, 32, 32), ("0 KiB", 16, 0, 0),
    ],
)  # fmt: skip
def test_wishes_select_sizes(text: str, kepler: int | None, volta: int, ampere: int) -> None:
    wish = parse_carveout(text)
    for a, size in ((KEPLER, kepler), (VOLTA, volta), (AMPERE, ampere)):
        assert preferred_bytes(wish, a) == (None if size is None else size * KIB)
    assert preferred_bytes(wish, PASCAL) is None, "its shared memory is apart from L1"


@pytest.mark.parametrize("text", ["", "101%", "-1%", "50", "1e2%", "nan%", "64KB", "1.5KiB", "l2", "9" * 5000, "٣%"])
def test_texts_that_are_no_carveout(text: str) -> None:
    with pytest.raises(InputError, match="is not a carve-out of shared memory"):
        parse_carveout(text)


def test_a_carveout_that_the_sm_does_not_have() -> None:
    with pytest.raises(InputError, match="128 KiB is over the 100 KiB of an SM") as caught:
        preferred_bytes(CarveoutWish(shared_bytes=128 * KIB), AMPERE)
    assert "compute capability 8.6" in str(caught.value)


def test_one_block_gets_what_it_needs() -> None:
    assert granted_bytes(VOLTA, 8 * KIB, 20 * KIB) == 32 * KIB
    assert granted_bytes(VOLTA, 32 * KIB, 20 * KIB) == 32 * KIB
    assert granted_bytes(KEPLER, 16 * KIB, 20 * KIB) == 48 * KIB
    assert granted_bytes(PASCAL, 16 * KIB, 20 * KIB) == 96 * KIB
    assert granted_bytes(VOLTA, None, 0) == 96 * KIB


def test_which_carveout_a_kernel_finds() -> None:
    block = BlockRequest(256, 32, 10 * KIB)
    assert carveout_of(block, AMPERE) == Carveout(100 * KIB, 28 * KIB, is_preferred=False), "6 blocks of 11 KiB"
    assert carveout_of(block, AMPERE, 16 * KIB) == Carveout(16 * KIB, 112 * KIB, is_preferred=True)
    assert carveout_of(block, AMPERE, 8 * KIB) == Carveout(16 * KIB, 112 * KIB, is_preferred=False)
    assert carveout_of(block, PASCAL) is None
    assert carveout_of(BlockRequest(1024, 255), AMPERE) is None
    assert default_bytes(HOPPER, 0) == 32 * KIB, "the smallest that was seen"


@pytest.mark.parametrize("a", ARCHITECTURES, ids=lambda a: a.id)
def test_curves_leave_out_no_step(a: Architecture) -> None:
    request = BlockRequest(64, 24)
    for preferred in (None, *(a.shared_carveouts_bytes or ())[:1]):
        _, _, curve = occupancy_curves(request, a, preferred)
        found = {
            total: occupancy(varied(request, Parameter.SHARED, total), a, preferred)
            for total in range(0, a.shared_bytes_per_block_optin + 1, 64)
        }
        for step in curve.steps:
            inside = {found[total].blocks_per_sm for total in found if step.first <= total <= step.last}
            assert inside <= {step.found.blocks_per_sm}


def test_curves_by_hand() -> None:
    """64 KiB of registers are 65536; 32 warps of 32 threads leave 64 registers for each."""
    threads, registers, shared = occupancy_curves(BlockRequest(1024, 32), VOLTA)
    assert [(step.last, step.found.blocks_per_sm) for step in registers.steps] == [(32, 2), (64, 1), (255, 0)]
    assert registers.steps[-1].found.limiter is Limiter.NONE_FITS
    assert [(step.last, step.found.blocks_per_sm) for step in shared.steps] == [(48 * KIB, 2), (96 * KIB, 1)]
    assert (threads.steps[0].first, threads.steps[0].last, threads.steps[0].found.warps_per_sm) == (1, 32, 32)
    assert [curve.own for curve in (threads, registers, shared)] == [1024, 32, 0]
