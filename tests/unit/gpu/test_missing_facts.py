"""What models lack of a GPU, held against the models themselves."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from kerncast.cli import main
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, Cycles, list_gpus, load_gpu
from kerncast.models.missing_facts import MissingFacts, missing_facts
from kerncast.models.sm.multiprocessor import MemoryShares, sm_of
from kerncast.occupancy import cache_geometry
from kerncast.report.files.gpus import missing_notes
from tests.helpers.places import ROOT

SHARES = MemoryShares(active_sms=1, dram_read=1, dram_write=1, dram_local=1, dram_atomic=1, atomic_pieces=0)
#: Models that refuse a GPU, and why: docs/gpus.md. On Xavier nobody measured L2 and DRAM latency.
REFUSED_BY = {"jetson-agx-xavier": {"simulation", "ceilings"}, "b100": {"simulation"}}


def can_be_simulated(gpu: GPU) -> bool:
    try:
        sm_of(gpu, cache_geometry(gpu, 1, 0), SHARES)
    except MissingEvidenceError:
        return False
    return True


def lacks(gpu: GPU) -> dict[str, tuple[str, ...]]:
    return {each.model: each.keys for each in missing_facts(gpu)}


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_shipped_gpus_lack_nothing_but_those_of_the_list(gpu: GPU) -> None:
    assert set(lacks(gpu)) == REFUSED_BY.get(gpu.id, set())
    assert can_be_simulated(gpu) == (gpu.id not in REFUSED_BY)


@pytest.mark.parametrize("name", [field.name for field in fields(Cycles)])
def test_cycles_are_missed_where_the_simulation_refuses(name: str) -> None:
    whole = load_gpu("rtx-3090")
    gpu = replace(
        whole, architecture=replace(whole.architecture, cycles=replace(whole.architecture.cycles, **{name: None}))
    )
    assert can_be_simulated(gpu) == ("simulation" not in lacks(gpu))


@pytest.mark.parametrize(
    ("own", "inherited", "expected"),
    [
        ({"l2_bytes": None}, {}, {"simulation": ("peak.l2_kib",)}),
        (
            {"dram_bus_bits": None},
            {},
            {"simulation": ("peak.dram_bus_bits",), "ceilings": ("peak.dram_bus_bits",)},
        ),
        (
            {},
            {"l1_bytes_per_clock": None},
            {"simulation": ("sustained.l1_bytes_per_clock",), "ceilings": ("sustained.l1_gb_per_s",)},
        ),
        ({}, {"l2_write_fraction": None}, {"simulation": ("sustained.l2_write_fraction",)}),
        (
            {},
            {"l2_bytes_per_clock_per_channel": None},
            {"simulation": ("sustained.l2_gb_per_s",), "ceilings": ("sustained.l2_gb_per_s",)},
        ),
    ],
)
def test_other_facts(
    own: dict[str, object], inherited: dict[str, object], expected: dict[str, tuple[str, ...]]
) -> None:
    whole = load_gpu("rtx-3090")
    gpu = replace(whole, architecture=replace(whole.architecture, **inherited), **own)  # type: ignore[arg-type]
    assert lacks(gpu) == expected
    assert not can_be_simulated(gpu)


def test_a_users_four_lines_and_what_they_lack(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = 'from = "sm_86"\nsm_count = 46\nclock_boost_mhz = 1725\ndram_gb_per_s = 448\n'
    path.write_text(text, encoding="utf-8")
    missing = missing_facts(load_gpu(path))
    assert missing[0] == MissingFacts("simulation", ("peak.dram_bus_bits", "peak.l2_kib"))
    assert missing_notes(missing)[0] == "the model simulation refuses it without peak.dram_bus_bits, peak.l2_kib"
    path.write_text(text + "dram_bus_bits = 256\nl2_kib = 4096\n", encoding="utf-8")
    assert missing_facts(load_gpu(path)) == ()


def test_the_document_shows_what_the_command_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
    path = tmp_path / "my-card.toml"
    path.write_text(text.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["gpus", str(path)])
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.startswith("* ")]
    assert shown == [line for line in text.splitlines() if line.startswith("* the model")]
    with pytest.raises(SystemExit):
        main(["gpus", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)["missing"] == [
        {"model": "simulation", "keys": ["peak.dram_bus_bits", "peak.l2_kib"]},
        {"model": "ceilings", "keys": ["peak.dram_bus_bits"]},
    ]
