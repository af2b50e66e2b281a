"""The simulation of an SM against one written independently, cycle by cycle."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.models.sm.simulate import simulate
from tests.helpers.sm_cases import random_case, random_sm
from tests.helpers.sm_oracle import Oracle
from tests.helpers.thorough import examples


@given(st.integers(0, 2**32))
@settings(max_examples=examples(150), deadline=None)
def test_it_agrees_with_a_simulation_cycle_by_cycle(seed: int) -> None:
    random = Random(seed)  # noqa: S311  reproducible
    program, trace, resident = random_case(random)
    sm = random_sm(random)
    ours, oracle = simulate(program, trace, sm, resident), Oracle(program, trace, sm, resident).run()
    assert ours.finish_cycles.tolist() == oracle.finish
    assert ours.stalls.tolist() == oracle.stalls
    assert ours.stalls.sum() == oracle.resident_cycles
    assert ours.stalls.min() >= 0
    counted = (ours.issued, ours.l1_sectors, ours.l1_hits, ours.l2_read_sectors, ours.l2_write_sectors)
    assert counted == (oracle.issued, oracle.l1_sectors, oracle.l1_hits, oracle.l2_read, oracle.l2_write)
    assert (ours.local_read_sectors, ours.local_write_sectors) == (oracle.local_read, oracle.local_write)
    assert (ours.dram_sectors, ours.l2_merged_sectors) == (oracle.dram_sectors, oracle.merged)
    assert ours.l2_requests == oracle.lines_asked
