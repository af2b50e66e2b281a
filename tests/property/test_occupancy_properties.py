"""What has to hold for the occupancy of any block on any chip."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.gpu import DATA, Architecture, CarveoutWish, load_architecture, preferred_bytes
from kerncast.occupancy import BlockRequest, Limiter, occupancy, sm_limits, why_not
from kerncast.occupancy.advice import (
    Change,
    Curve,
    Parameter,
    best_block_size,
    carveout_of,
    next_block_sizes,
    occupancy_curves,
    one_more_block,
    varied,
    with_shared_bytes,
)

ARCHITECTURES = [load_architecture(path.stem) for path in sorted((DATA / "architectures").glob("*.toml"))]

architectures = st.sampled_from(ARCHITECTURES)
volta_and_later = st.sampled_from([a for a in ARCHITECTURES if a.heeds_carveout_percent])
percentages = st.integers(0, 100)
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


@given(requests, volta_and_later, percentages, percentages)
def test_more_shared_memory_for_the_sm_never_gives_fewer_blocks(
    block: BlockRequest, chip: Architecture, percent: int, other: int
) -> None:
    low, high = sorted((percent, other))
    small, large = (preferred_bytes(CarveoutWish(percent=each), chip) for each in (low, high))
    fewer, more = (occupancy(block, chip, preferred).blocks_per_sm for preferred in (small, large))
    assert fewer <= more <= occupancy(block, chip).blocks_per_sm
    assert (fewer > 0) == (more > 0), "one block always gets what it needs"


@given(requests, volta_and_later, percentages, st.integers(0, 20_000))
def test_with_a_carveout_too_more_shared_memory_never_gives_more_blocks(
    block: BlockRequest, chip: Architecture, percent: int, more: int
) -> None:
    preferred = preferred_bytes(CarveoutWish(percent=percent), chip)
    larger = replace(block, dynamic_shared_bytes=block.dynamic_shared_bytes + more)
    assert occupancy(larger, chip, preferred).blocks_per_sm <= occupancy(block, chip, preferred).blocks_per_sm


@given(requests, architectures, st.sampled_from(["l1", "equal", "shared"]))
def test_the_carveout_is_a_size_of_the_sm_and_holds_the_blocks(
    block: BlockRequest, chip: Architecture, config: str
) -> None:
    for preferred in (None, preferred_bytes(CarveoutWish(cache_config=config), chip)):
        found, blocks = carveout_of(block, chip, preferred), occupancy(block, chip, preferred).blocks_per_sm
        assert (found is None) == (chip.shared_carveouts_bytes is None or not blocks)
        if found is not None:
            assert chip.shared_carveouts_bytes is not None
            assert found.shared_bytes in chip.shared_carveouts_bytes
            assert found.shared_bytes >= blocks * block.shared_bytes
            assert found.l1_bytes is not None
            assert found.l1_bytes > 0


def with_change(block: BlockRequest, change: Change, taken: int) -> BlockRequest:
    if change.limiter is Limiter.SHARED_MEMORY:
        return with_shared_bytes(block, taken)
    names = {Limiter.WARPS: "threads", Limiter.REGISTERS: "registers_per_thread", Limiter.BARRIERS: "barriers"}
    return replace(block, **{names[change.limiter]: taken})


@given(requests, architectures)
def test_the_changes_for_one_more_block_suffice_and_are_the_least(block: BlockRequest, chip: Architecture) -> None:
    now, more = occupancy(block, chip).blocks_per_sm, one_more_block(block, chip)
    assert (more is None) == (now == chip.max_blocks_per_sm), "else smaller blocks fit"
    if more is None:
        return
    assert more.blocks_per_sm == now + 1
    changed = block
    for change in more.changes:
        assert change.at_most < change.now
        changed = with_change(changed, change, change.at_most)
    assert occupancy(changed, chip).blocks_per_sm >= now + 1
    for change in more.changes:
        assert occupancy(with_change(changed, change, change.at_most + 1), chip).blocks_per_sm <= now


@given(requests, architectures, st.sampled_from(["l1", "equal", "shared"]))
def test_changes_and_carveouts_suffice_with_a_wish_too(block: BlockRequest, chip: Architecture, config: str) -> None:
    preferred = preferred_bytes(CarveoutWish(cache_config=config), chip)
    more = one_more_block(block, chip, preferred)
    if more is None:
        return
    changed = block
    for change in more.changes:
        changed = with_change(changed, change, change.at_most)
    assert occupancy(changed, chip, preferred).blocks_per_sm >= more.blocks_per_sm
    if more.carveout_bytes is not None:
        limit = occupancy(block, chip, more.carveout_bytes).limit(Limiter.SHARED_MEMORY)
        assert limit is None or limit >= more.blocks_per_sm


@given(requests, architectures, st.none() | st.integers(1, 1024))
def test_no_block_size_has_more_threads_than_the_best(
    block: BlockRequest, chip: Architecture, most_threads: int | None
) -> None:
    best = best_block_size(block, chip, None, most_threads)
    threads = {
        size * occupancy(replace(block, threads=size), chip).blocks_per_sm: size
        for size in range(1, (most_threads or 1024) + 1)
    }
    most = max(threads)
    assert (best is None) == (most == 0)
    if best is not None:
        assert best.threads * best.blocks_per_sm == most
        assert best.threads == threads[most], "the largest of several"


@given(requests, architectures)
def test_the_next_block_sizes_are_the_nearest_that_hold_more(block: BlockRequest, chip: Architecture) -> None:
    warps = {threads: occupancy(replace(block, threads=threads), chip).warps_per_sm for threads in range(32, 1025, 32)}
    now = occupancy(block, chip).warps_per_sm
    better = [threads for threads, held in warps.items() if held > now]
    smaller, larger = next_block_sizes(block, chip)
    assert (smaller and smaller.threads) == max((each for each in better if each < block.threads), default=None)
    assert (larger and larger.threads) == min((each for each in better if each > block.threads), default=None)


@given(requests, architectures, st.data(), st.sampled_from([None, "l1", "equal"]))
def test_curves_are_occupancy_at_every_value(
    block: BlockRequest, chip: Architecture, data: st.DataObject, config: str | None
) -> None:
    preferred = None if config is None else preferred_bytes(CarveoutWish(cache_config=config), chip)
    curves = occupancy_curves(block, chip, preferred)
    assert [curve.parameter for curve in curves] == list(Parameter)
    for curve in curves:
        assert_covers_all(curve, chip)
        for value in data.draw(st.lists(st.integers(curve.steps[0].first, curve.steps[-1].last), min_size=3)):
            (step,) = (each for each in curve.steps if each.first <= value <= each.last)
            expected = occupancy(varied(block, curve.parameter, value), chip, preferred)
            assert step.found.warps_per_sm == expected.warps_per_sm
            assert (step.found.blocks_per_sm, step.found.limiter) == (expected.blocks_per_sm, expected.limiter)


def assert_covers_all(curve: Curve, chip: Architecture) -> None:
    lasts = {
        Parameter.THREADS: chip.max_threads_per_block,
        Parameter.REGISTERS: chip.max_registers_per_thread,
        Parameter.SHARED: chip.shared_bytes_per_block_optin,
    }
    assert curve.steps[0].first == (1 if curve.parameter is Parameter.THREADS else 0)
    assert curve.steps[-1].last == lasts[curve.parameter]
    for before, after in zip(curve.steps, curve.steps[1:], strict=False):
        assert after.first == before.last + 1
        assert (before.found.blocks_per_sm, before.found.warps_per_sm, before.found.limiter) != (
            after.found.blocks_per_sm,
            after.found.warps_per_sm,
            after.found.limiter,
        )


@pytest.mark.parametrize("numbers", [(100, 103), (86, 89), (35, 32)], ids=str)
@given(block=requests)
def test_equal_limits_mean_equal_answers(numbers: tuple[int, int], block: BlockRequest) -> None:
    one, other = (load_architecture(f"sm_{number}") for number in numbers)
    if sm_limits(one) == sm_limits(other):
        assert occupancy(block, one) == occupancy(block, other)
    else:
        assert numbers != (100, 103)
