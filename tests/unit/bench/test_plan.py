"""What is to be measured, and how often: what the user chose, and what is usual."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kerncast.bench.plan import launch_counts, spread_sizes
from kerncast.bench.stages import Choices, site_of, stages_for
from kerncast.gpu import load_gpu
from kerncast.measurements import Method, Protocol


@given(st.sets(st.integers(1, 300), min_size=1), st.integers(0, 20))
def test_spread_sizes_are_some_of_those_there_are_with_both_ends(sizes: set[int], most: int) -> None:
    chosen = spread_sizes(sorted(sizes), most)
    assert set(chosen) <= sizes
    assert len(chosen) == min(most, len(sizes))
    assert list(chosen) == sorted(set(chosen))
    if most >= 2:
        assert {min(sizes), max(sizes)} <= set(chosen)


def test_choices_reach_the_protocols() -> None:
    site = site_of(load_gpu("t4"))
    chosen = Choices(trials=7, iterations=9, warmups=4, methods=(Method.COLD,))
    for what in ("suite", "partition"):
        stages = stages_for(what, site, chosen)
        protocols = {subject.protocol for stage in stages for subject in stage.subjects}
        assert {(p.trials, p.iterations, p.warmups, p.methods) for p in protocols} == {(7, 9, 4, (Method.COLD,))}
    usual = {(s.group, s.protocol.trials) for stage in stages_for("suite", site, Choices()) for s in stage.subjects}
    assert usual == {("seed", 10), ("extended", 3)}
    partition = stages_for("partition", site, Choices())[0].subjects[0].protocol
    assert (partition.trials, partition.iterations) == (1, 30)
    ceilings = stages_for("ceilings", site, replace(chosen, methods=None))[0].subjects
    assert {each.protocol.trials for each in ceilings} == {7}
    assert len({each.protocol.methods for each in ceilings}) > 1


def test_stated_launches_are_kept_for_slow_kernels_too() -> None:
    assert launch_counts(Protocol(iterations=30, warmups=5), 1.0) == (5, 30)
    assert launch_counts(Protocol(), 1.0) == (5, 5)
