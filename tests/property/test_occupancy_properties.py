"""What has to hold for the occupancy of any block on any chip."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kerncast.architecture import Architecture, load_architecture
from kerncast.occupancy import BlockRequest, Limiter, occupancy, why_not

ARCHITECTURES = [load_architecture(f"sm_{number}") for number in (30, 35, 52, 60, 70, 75, 80, 86, 89, 90)]

architectures = st.sampled_from(ARCHITECTURES)
requests = st.builds(
    BlockRequest,
    threads=st.integers(1, 1100),
    registers_per_thread=st.integers(0, 260),
    static_shared_bytes=st.integers(0, 50_000),
    dynamic_shared_bytes=st.integers(0, 240_000),
    barriers=st.integers(0, 70),
)


@given(requests, architectures)
def test_within_the_limits_of_the_sm(block: BlockRequest, chip: Architecture) -> None:
    found = occupancy(block, chip)
    assert 0 <= found.fraction <= 1
    assert found.warps_per_sm == found.blocks_per_sm * block.warps
    assert found.warps_per_sm <= chip.max_warps_per_sm
    assert found.blocks_per_sm <= chip.max_blocks_per_sm
    used = found.blocks_per_sm * block.warps * 32 * block.registers_per_thread
    assert used <= chip.registers_per_sm
    assert found.blocks_per_sm * block.shared_bytes <= chip.shared_bytes_per_sm


@given(requests, architectures)
def test_the_limiter_is_the_smallest_limit(block: BlockRequest, chip: Architecture) -> None:
    found = occupancy(block, chip)
    assert found.blocks_per_sm == min(limit.blocks for limit in found.limits if limit.blocks is not None)
    if found.blocks_per_sm:
        assert found.limit(found.limiter) == found.blocks_per_sm
    assert (found.limiter is Limiter.NONE_FITS) == (found.blocks_per_sm == 0)


@given(requests, architectures)
def test_a_reason_is_given_exactly_when_nothing_fits(block: BlockRequest, chip: Architecture) -> None:
    fits = occupancy(block, chip).blocks_per_sm > 0
    assert (why_not(block, chip) is None) == fits


@given(
    requests,
    architectures,
    st.integers(0, 64),
    st.integers(0, 20_000),
    st.integers(0, 20_000),
    st.integers(0, 9),
)
def test_asking_for_more_never_gives_more_blocks(  # noqa: PLR0913, PLR0917  one for each resource
    block: BlockRequest,
    chip: Architecture,
    registers: int,
    static: int,
    dynamic: int,
    barriers: int,
) -> None:
    more = replace(
        block,
        registers_per_thread=block.registers_per_thread + registers,
        static_shared_bytes=block.static_shared_bytes + static,
        dynamic_shared_bytes=block.dynamic_shared_bytes + dynamic,
        barriers=block.barriers + barriers,
    )
    assert occupancy(more, chip).blocks_per_sm <= occupancy(block, chip).blocks_per_sm


@given(requests, architectures)
def test_static_and_dynamic_shared_memory_count_alike(block: BlockRequest, chip: Architecture) -> None:
    moved = replace(block, static_shared_bytes=block.shared_bytes, dynamic_shared_bytes=0)
    assert occupancy(moved, chip) == occupancy(block, chip)


@given(requests)
def test_an_sm_with_more_of_everything_holds_at_least_as_many(block: BlockRequest) -> None:
    small, large = load_architecture("sm_86"), load_architecture("sm_89")
    assert occupancy(block, small).blocks_per_sm <= occupancy(block, large).blocks_per_sm
