"""Counters of a run in place of executed counts: what must hold whatever they are."""

import doctest
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.caveats import Caveat, CaveatKind
from kerncast.gpu import load_gpu
from kerncast.models import Estimate
from kerncast.models.transfer import recount
from kerncast.models.transfer.pipes import resource_cycles, work_of
from kerncast.models.transfer.recount import Recount, recount_of
from kerncast.prediction import Term
from kerncast.profiles import Count
from kerncast.profiles.counts import DRAM_BYTES, INSTRUCTIONS
from tests.helpers.profiles import with_counts
from tests.helpers.transfers import profiled

GPU = load_gpu("rtx-3090")
times = st.floats(1e-7, 1e-2)
ratios = st.floats(0.01, 100)


def estimate(seconds: float, **terms: float) -> Estimate:
    return Estimate(seconds, "dram", tuple(Term(*each) for each in terms.items()), seconds, seconds)


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(recount).failed == 0


@given(times, times, times, ratios)
def test_more_work_takes_as_many_times_as_long(dram: float, issue: float, waits: float, ratio: float) -> None:
    """Whatever limits the launch: resources and waiting grow alike."""
    found = estimate(dram + issue + waits, dram=dram, issue=issue)
    after = Recount(ratio, ratio).of(found)
    assert after.seconds == pytest.approx(ratio * found.seconds)
    assert [term.seconds for term in after.terms] == pytest.approx([ratio * dram, ratio * issue])


@given(times, times, times, ratios, ratios)
def test_more_bytes_are_never_faster(dram: float, issue: float, waits: float, fewer: float, more: float) -> None:
    found = estimate(dram + issue + waits, dram=dram, issue=issue)
    low, high = sorted((fewer, more))
    first, second = (Recount(1.0, each).of(found).seconds for each in (low, high))
    assert first <= second * (1 + 1e-9)
    assert second >= issue


def test_a_stream_takes_what_its_bytes_take() -> None:
    found = estimate(10e-6, dram=10e-6, issue=1e-6)
    after = Recount(1.0, 3.0).of(found)
    assert after.seconds == pytest.approx(30e-6)
    assert (after.low, after.high, after.limiter) == (after.seconds, after.seconds, "dram")


def executed_alike(**scaled: float) -> Estimate:
    """Return an estimate whose resources take what this profile counts, divided by these ratios."""
    profile = with_counts(profiled(GPU), {INSTRUCTIONS: Count.exact(1e8)})
    cycles = resource_cycles(work_of(profile), GPU)
    terms = {name: each / GPU.clock_hz / scaled.get(name, 1.0) for name, each in cycles.items()}
    return estimate(2 * max(terms.values()), **terms)


def test_ratios_are_of_what_the_run_counted() -> None:
    profile = with_counts(profiled(GPU), {INSTRUCTIONS: Count.exact(1e8)})
    assert not recount_of(profile, GPU, executed_alike())
    assert not recount_of(profile, GPU, executed_alike(dram=1.5, issue=1.2))
    found = recount_of(profile, GPU, executed_alike(dram=2.0))
    assert found.work == 1.0
    assert found.dram == pytest.approx(2.0)


def test_work_and_bytes_may_grow_alike() -> None:
    profile = with_counts(profiled(GPU), {INSTRUCTIONS: Count.exact(1e8)})
    found = recount_of(profile, GPU, executed_alike(issue=4.0, dram=4.0))
    assert found.work == pytest.approx(4.0)
    assert found.dram == pytest.approx(4.0)


def test_caches_that_the_profiler_emptied_tell_nothing_of_dram() -> None:
    profile = with_counts(profiled(GPU), {INSTRUCTIONS: Count.exact(1e8), DRAM_BYTES: Count.exact(2e8)})
    emptied = replace(profile, caveats=(Caveat.of(CaveatKind.CACHES_EMPTIED, GPU.name),))
    assert recount_of(profile, GPU, executed_alike(dram=2.0))
    assert not recount_of(emptied, GPU, executed_alike(dram=2.0))


def test_too_few_counters_change_nothing() -> None:
    assert not recount_of(profiled(GPU), GPU, executed_alike(dram=2.0))
