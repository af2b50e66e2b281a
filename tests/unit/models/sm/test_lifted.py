"""What is left of a recording without one of its limits: closed forms of known access patterns."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kerncast.forecast import Means
from kerncast.forecast.what_if import WhatIf
from kerncast.gpu import load_gpu
from kerncast.launch import load_launches
from kerncast.models import Question
from kerncast.models.sm.lifted import Limit, instructions, instructions_left, lifted, operations
from kerncast.models.sm.simulation import simulated_sm
from kerncast.models.sm.worst_path import path_cycles
from kerncast.traces import LAST_SHIFT, LINE_BITS, MASK_SHIFT, Execution, Operation, SMTrace, entered_blocks
from tests.helpers.places import ROOT
from tests.helpers.planted import launches, planted

GLOBAL = (Operation.LOAD, Operation.LOAD_READ_ONLY, Operation.LOAD_UNCACHED, Operation.STORE)


@cache
def what_if(kernel: str, *, is_planted: bool) -> WhatIf:
    launch = planted(kernel) if is_planted else launches()[kernel]
    return WhatIf.of(launch, load_gpu("rtx-3080"), Question(), Means())


@cache
def divergent() -> WhatIf:
    launch = load_launches(ROOT / "examples" / "kernels" / "vector_add_divergent.toml")[0]
    return WhatIf.of(launch, load_gpu("rtx-3080"), Question(), Means())


def recorded(execution: Execution) -> SMTrace:
    assert execution.sm is not None
    return execution.sm.blocks


def sectors_of_requests(trace: SMTrace) -> list[int]:
    """Return the sectors of each request to global memory."""
    found, sum_ = [], 0
    for event, operation in zip(trace.events.tolist(), operations(trace.events).tolist(), strict=True):
        if operation in GLOBAL:
            sum_ += (event >> MASK_SHIFT & 0xF).bit_count()
            if event >> LAST_SHIFT & 1:
                found.append(sum_)
                sum_ = 0
    assert sum_ == 0, "a request without a last line"
    return found


@pytest.mark.parametrize("kernel", ["scale_runs", "sum_lines"])
def test_packed_requests_of_32_floats_have_four_sectors(kernel: str) -> None:
    execution = what_if(kernel, is_planted=True).execution()
    before, after = (sectors_of_requests(recorded(each)) for each in (execution, lifted(execution, Limit.UNCOALESCED)))
    assert max(before) > 4
    assert len(before) == len(after)
    assert set(after) == {4}


def test_a_walk_down_columns_touches_the_same_lines_when_it_is_packed() -> None:
    # 32 rows of 32 words: 32 lines in either order.
    execution = what_if("sum_lines", is_planted=True).execution()

    def lines(each: Execution) -> set[int]:
        trace = recorded(each).only(0)
        loads = trace.events[np.isin(operations(trace.events), GLOBAL[:3])]
        return set((loads & np.uint64(2**LINE_BITS - 1)).tolist())

    assert lines(lifted(execution, Limit.UNCOALESCED)) == lines(execution)


def test_dram_moves_no_more_than_is_asked_for() -> None:
    launch = load_launches(ROOT / "examples" / "kernels" / "strided_copy_8.toml")[1]
    execution = WhatIf.of(launch, load_gpu("rtx-3080"), Question(), Means()).execution()
    packed = lifted(execution, Limit.UNCOALESCED)
    assert execution.sm is not None
    assert packed.sm is not None
    blocks = launch.blocks
    before, after = (each.sm.footprint.sectors(blocks, "either") for each in (execution, packed) if each.sm)
    assert after == pytest.approx(before / 8, rel=0.02)  # every eighth word


def test_without_conflicts_a_request_takes_one_pass() -> None:
    execution = what_if("transpose", is_planted=True).execution()

    def passes(each: Execution) -> set[int]:
        events = recorded(each).events
        shared = events[np.isin(operations(events), (Operation.SHARED_LOAD, Operation.SHARED_STORE))]
        return set((shared & np.uint64(0xFF)).tolist())

    assert passes(execution) == {1, 32}
    assert passes(lifted(execution, Limit.BANK_CONFLICTS)) == {1}


def test_only_the_named_instruction_changes() -> None:
    found = what_if("scale_runs", is_planted=True)
    first = found.wasted_by(Limit.UNCOALESCED)[0].instruction
    execution = found.execution()
    after = recorded(lifted(execution, Limit.UNCOALESCED, [first]))
    numbers = instructions(after.events)
    masks = np.bitwise_count(after.events >> np.uint64(MASK_SHIFT) & np.uint64(0xF))
    is_global = np.isin(operations(after.events), GLOBAL)
    assert set(np.bincount(numbers[is_global & (numbers == first)], masks[is_global & (numbers == first)])) >= {0.0}
    others = is_global & (numbers != first)
    before = recorded(execution)
    assert others.sum() == (np.isin(operations(before.events), GLOBAL) & (instructions(before.events) != first)).sum()


def test_half_empty_warps_join_to_half_as_many() -> None:
    execution = divergent().execution()
    after = lifted(execution, Limit.DIVERGENCE)
    counts = [np.bincount(entered_blocks(recorded(each).events), minlength=9) for each in (execution, after)]
    busiest = int(np.argmax(counts[0]))
    assert counts[1][busiest] == pytest.approx(counts[0][busiest] / 2, rel=0.02)
    assert 0.5 <= instructions_left(after, execution) < 0.6
    # No access is lost: as many sectors go to global memory.
    before_sectors, after_sectors = (sum(sectors_of_requests(recorded(each))) for each in (execution, after))
    assert after_sectors == before_sectors


def test_no_thread_gets_ahead_of_itself(tmp_path: Path) -> None:
    # One lane of each warp goes on alone: its turns follow one another, however warps are filled.
    (tmp_path / "k.cu").write_text(
        "__global__ void k(float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; float a = i;"
        " int turns = threadIdx.x & 31 ? 4 : n; for (int j = 0; j < turns; ++j) a = a * 1.01f + 0.3f; y[i] = a; }"
    )
    (tmp_path / "k.toml").write_text(
        'source = "k.cu"\n[[launch]]\ngrid = [80]\nblock = [32]\nargs = { y = "f32[2560] zeros", n = 4096 }\n'
    )
    found = WhatIf.of(load_launches(tmp_path / "k.toml")[0], load_gpu("titan-v"), Question(), Means())
    assert found.without(Limit.DIVERGENCE) == pytest.approx(found.seconds_on(found.gpu), rel=1e-3)


@pytest.mark.parametrize("limit", list(Limit))
def test_what_has_no_limit_stays_as_it_is(limit: Limit) -> None:
    found = what_if("far_sums", is_planted=False)
    assert not found.wasted_by(limit)
    assert found.without(limit) == found.seconds_on(found.gpu)


def test_chains_hold_all_events_of_their_warps() -> None:
    for execution, limit in (
        (what_if("sum_lines", is_planted=True).execution(), Limit.UNCOALESCED),
        (divergent().execution(), Limit.DIVERGENCE),
    ):
        trace = recorded(lifted(execution, limit))
        assert trace.chains[0] == 0
        assert trace.chains[-1] == len(trace.events)
        assert (np.diff(trace.chains) >= 0).all()
        assert len(trace.chains) == len(recorded(execution).chains)


def with_ranks(execution: Execution, *ranks: SMTrace) -> Execution:
    assert execution.sm is not None
    return replace(execution, sm=replace(execution.sm, ranks=ranks))


def test_each_rank_of_a_cluster_is_without_the_limit() -> None:
    for execution, limit in (
        (what_if("sum_lines", is_planted=True).execution(), Limit.UNCOALESCED),
        (divergent().execution(), Limit.DIVERGENCE),
    ):
        alone = lifted(execution, limit)
        found = lifted(with_ranks(execution, recorded(execution), recorded(execution)), limit)
        assert found.sm is not None
        assert len(found.sm.ranks) == 2
        for rank in found.sm.ranks:
            assert rank.events.tolist() == recorded(alone).events.tolist()
        assert instructions_left(found, execution) == pytest.approx(instructions_left(alone, execution))


def test_the_worst_path_is_that_of_all_ranks() -> None:
    what = divergent()
    execution, gpu = what.execution(), what.gpu
    long, short = recorded(execution), recorded(lifted(execution, Limit.DIVERGENCE))
    profile = what.compiled.profile
    times = []
    for ranks in ((long, short), (short, long)):
        blocks = replace(simulated_sm(profile, gpu, execution, is_warm=False).blocks, trace=ranks[0], ranks=ranks)
        found = replace(simulated_sm(profile, gpu, execution, is_warm=False), blocks=blocks)
        times.append(path_cycles(found, execution))
    assert times[0] == pytest.approx(times[1])


def test_more_resident_blocks_need_what_holds_them() -> None:
    found = what_if("iterate", is_planted=True)
    now, most = found.resident_blocks().blocks_per_sm, found.most_resident_blocks()
    assert (now, most) == (2, 12)  # 45 KiB of 100; 1536 threads in blocks of 128
    assert found.with_resident_blocks(now) == pytest.approx(found.seconds_on(found.gpu), rel=1e-9)
    assert found.with_resident_blocks(most) < found.with_resident_blocks(now + 1) < found.seconds_on(found.gpu)


def test_a_gpu_of_its_own_changes_only_what_was_changed() -> None:
    found = what_if("scale_runs", is_planted=False)
    faster = replace(found.gpu, dram_bytes_per_s=2 * found.gpu.dram_bytes_per_s, sustained_dram_bytes_per_s=None)
    assert found.seconds_on(faster) <= found.seconds_on(found.gpu)
