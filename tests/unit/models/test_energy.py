"""The energy of launches: closed forms, limits, and what is not known."""

import math
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import InputError, MissingEvidenceError
from kerncast.gpu import DATA, load_gpu
from kerncast.models.energy import (
    EnergyParts,
    Work,
    board_limit_w,
    clock_within_limit_hz,
    energy_facts,
    energy_of,
    least_clock_hz,
    parts_of,
    power_w,
    work_of,
)
from kerncast.prediction import Term
from kerncast.read.declared import declared_profile

T4, V100, K40 = (load_gpu(name) for name in ("t4", "v100-sxm2-16gb", "k40"))
PARTS = st.builds(EnergyParts, st.floats(0, 10), st.floats(0, 10))
SECONDS = st.floats(1e-6, 10)


def test_every_process_and_every_memory_of_the_catalogue_has_a_number_or_is_refused() -> None:
    facts = energy_facts()
    assert {30, 35, 52, 61, 70, 75, 80, 86, 89, 90, 100, 120} <= facts.nodes.keys()
    assert facts.nodes[35] == 1.0
    assert facts.nodes[35] > facts.nodes[61] > facts.nodes[86] > facts.nodes[90]
    jetson = load_gpu("jetson-agx-orin-64gb")
    with pytest.raises(MissingEvidenceError, match="the energy of LPDDR5 is unknown"):
        parts_of(Work({}, {}), jetson)


def test_every_number_has_a_source() -> None:
    found = tomllib.loads((DATA / "energy.toml").read_text(encoding="utf-8"))
    tables = [found[name] for name in ("instruction_pj", "path_pj_per_bit", "dram_pj_per_bit", "board", "error")]
    named = [each["source"] for each in (*(row for table in tables for row in table.values()), *found["node"])]
    used = {name for each in named for name in ([each] if isinstance(each, str) else each)}
    assert used == set(found["sources"])


def test_dram_of_a_k40_costs_what_was_published_less_what_circuits_say() -> None:
    """By the board's numbers alone it would be 30.55 pJ per bit; by those of circuits 14.0 + 1.35."""
    found = parts_of(Work({}, {"dram": 1.0}), K40).dram_j * 1e12 / 8
    assert 14.0 + 1.35 < found < 30.55
    assert found == pytest.approx(14.0 + math.sqrt(16.55 * 1.35))


def test_work_by_counts_takes_bytes_from_the_times_of_the_levels() -> None:
    profile = declared_profile("k", (64, 1, 1), (256, 1, 1), fp32_flops=2e6, integer_ops=5e5)
    found = work_of(profile, [Term("dram", 1e-3), Term("l2", 2e-4)], V100)
    assert V100.dram_rate is not None
    assert V100.l2_rate is not None
    assert found.bytes["dram"] == pytest.approx(1e-3 * V100.dram_rate.bytes_per_s)
    assert found.bytes["l2"] == pytest.approx(2e-4 * V100.l2_rate.bytes_per_s)
    assert (found.threads["fp32"], found.threads["integer"]) == (1e6, 5e5)


@given(PARTS, SECONDS)
def test_power_is_between_what_is_constant_and_the_limit(parts: EnergyParts, seconds: float) -> None:
    found, facts = energy_of(parts, seconds, T4, 0.1), energy_facts()
    assert facts.constant_share * 70 <= found.watts <= 70
    assert found.joules == pytest.approx(found.watts * seconds)
    assert found.low <= found.joules <= found.high
    assert found.high <= 70 * seconds * math.exp(1.645 * 0.1) * 1.001


@given(PARTS, SECONDS, st.floats(0, 1))
def test_the_clock_fits_the_limit_or_is_the_least(parts: EnergyParts, seconds: float, share: float) -> None:
    clock = clock_within_limit_hz(parts, seconds, T4, share)
    assert least_clock_hz(T4) <= clock <= T4.clock_hz
    if clock > least_clock_hz(T4):
        slower = seconds * (1 - share + share * T4.clock_hz / clock)
        assert power_w(parts, slower, T4, clock) <= board_limit_w(T4) * (1 + 1e-9)


def test_what_draws_less_keeps_its_clock() -> None:
    assert clock_within_limit_hz(EnergyParts(0.001, 0.0), 1.0, T4, 1.0) == T4.clock_hz


def test_without_a_range_the_base_clock_is_the_least() -> None:
    given_clock = T4.at_clock("boost")
    assert least_clock_hz(given_clock) == T4.clock_base_hz
    assert least_clock_hz(T4) == T4.clock_low_hz


def test_an_unknown_limit_is_refused() -> None:
    with pytest.raises(MissingEvidenceError, match="the power limit of T4 is unknown"):
        board_limit_w(replace(T4, tdp_w=None))


@pytest.mark.parametrize("text", ["version = 2", "version = 1", "version = 1\ninstruction_pj = 3", "not TOML"])
def test_a_faulty_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "energy.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"energy\.toml: the energies are faulty"):
        energy_facts(path)
