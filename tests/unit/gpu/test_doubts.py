"""What the check of a GPU's file finds beyond what cannot be true; and how the catalogue is shown."""

import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from kerncast.cli import main
from kerncast.gpu import list_gpus, list_incomplete, load_gpu
from kerncast.gpu.confidence import Doubt, doubts
from kerncast.report.files.gpus import doubt_notes, fact_table, gpu_table, sources_of
from kerncast.report.tables import print_table
from tests.helpers.places import ROOT

CARD = {"sm_count": 46, "clock_boost_mhz": 1725, "dram_gb_per_s": 448, "dram_bus_bits": 256, "l2_kib": 4096}


def write(folder: Path, values: dict[str, float], tail: str = "") -> Path:
    path = folder / "mine.toml"
    lines = [f"{key} = {value}" for key, value in (CARD | values).items()]
    path.write_text("\n".join(['from = "sm_86"', *lines, tail]), encoding="utf-8")
    return path


def found(path: Path) -> list[tuple[str, str | None]]:
    return [(doubt.key, doubt.by) for doubt in doubts(load_gpu(path))]


def test_a_card_as_it_is_raises_no_doubt(tmp_path: Path) -> None:
    assert found(write(tmp_path, {})) == []


@pytest.mark.parametrize(
    ("key", "value", "slip"),
    [
        ("clock_boost_mhz", 172.5, "a digit lost"),
        ("dram_gb_per_s", 4.48, "a point in the wrong place"),
        ("l2_kib", 36, "MiB of the RTX 4070"),
        ("dram_bus_bits", 32, "bytes"),
        ("sm_count", 5888, "CUDA cores of the RTX 4070"),
        ("dram_gib", 8192, "MiB"),
        ("tdp_w", 0.7, "kW"),
    ],
)
def test_slips_of_the_unit(tmp_path: Path, key: str, value: float, slip: str) -> None:
    keys = [doubt for doubt, by in found(write(tmp_path, {key: value})) if by is None]
    assert keys == [f"peak.{key}"], slip


@pytest.mark.parametrize(
    ("tail", "values", "key", "by"),
    [
        ("", {"sm_count": 45}, "peak.sm_count", "limits.sms_per_tpc"),
        ("", {"dram_bus_bits": 4096, "dram_gb_per_s": 100}, "peak.dram_bus_bits", "peak.dram_gb_per_s"),
        ("[sustained]\nl2_gb_per_s = 400", {}, "sustained.l2_gb_per_s", "peak.dram_gb_per_s"),
        ("[sustained]\nl2_gb_per_s = 4000\nl1_gb_per_s = 3999", {}, "sustained.l1_gb_per_s", "sustained.l2_gb_per_s"),
        ("[sustained]\nfp32_gflops = 26000", {}, "sustained.fp32_gflops", "peak.clock_boost_mhz"),
        ("[sustained]\nfp64_gflops = 500", {}, "sustained.fp64_gflops", "peak.clock_boost_mhz"),
        ("[lanes]\nfp64_per_sm = 64", {}, "cycles.fp64", "lanes.fp64_per_sm"),
    ],
)
def test_values_that_do_not_fit_one_another(
    tmp_path: Path, tail: str, values: dict[str, float], key: str, by: str
) -> None:
    assert found(write(tmp_path, values, tail)) == [(key, by)]


def test_the_bounds_follow_from_the_equations(tmp_path: Path) -> None:
    """46 SMs x 2 lanes x 2 x 1.725 GHz with a quarter as reserve; 45 SMs lie between 22 and 23 TPCs."""
    (doubt,) = doubts(load_gpu(write(tmp_path, {}, "[sustained]\nfp64_gflops = 500")))
    assert doubt.high == pytest.approx(46 * 2 * 2 * 1.725 * 1.25)
    assert doubts(load_gpu(write(tmp_path, {"sm_count": 45}))) == (
        Doubt("peak.sm_count", 45, "1", 44, 46, "limits.sms_per_tpc"),
    )


def test_the_command_says_what_is_doubted_and_still_shows_the_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, {"sm_count": 45, "l2_kib": 36})
    with pytest.raises(SystemExit) as ended:
        main(["gpus", str(path)])
    assert not ended.value.code
    notes = " ".join(capsys.readouterr().out.split())
    assert "* peak.l2_kib is 36 KiB: with a reserve of a factor of 3, the GPUs here have" in notes
    assert "* peak.sm_count is 45, but by limits.sms_per_tpc one expects 44 to 46" in notes
    with pytest.raises(SystemExit):
        main(["gpus", str(path), "--json"])
    table = json.loads(capsys.readouterr().out)
    assert table.keys() == {"schema_version", "gpus", "incomplete", "caveats", "caveat_details", "missing", "doubts"}
    assert [doubt["key"] for doubt in table["doubts"]] == ["peak.l2_kib", "peak.sm_count"]
    assert table["doubts"][0].keys() == {"key", "value", "unit", "low", "high", "by"}


@pytest.mark.parametrize(
    ("doubt", "words"),
    [
        (Doubt("a.b", 5, "W", 7, None, "c.d"), "a.b is 5 W, but by c.d one expects at least 7 W"),
        (Doubt("a.b", 5, "1", None, 4, "c.d"), "a.b is 5, but by c.d one expects at most 4"),
        (Doubt("a.b", 5, "ns", 4, 4, "c.d"), "a.b is 5 ns, but by c.d one expects 4 ns"),
        (Doubt("a.b", 5, "ns", 4000, 12345.6, "c.d"), "a.b is 5 ns, but by c.d one expects 4,000 ns to 12,346 ns"),
    ],
)
def test_words(doubt: Doubt, words: str) -> None:
    assert doubt_notes([doubt]) == [words]


# --- how the catalogue is shown -------------------------------------------------------------------


def shown(width: int, gpu_id: str) -> str:
    console = Console(width=width, no_color=True)
    facts = load_gpu(gpu_id).all_facts
    with console.capture() as captured:
        print_table(fact_table(facts, sources_of(facts)), console)
    return captured.get()


def test_the_list_is_sorted_by_capability_and_year_and_has_all() -> None:
    table = gpu_table(list_gpus(), list_incomplete())
    order = [(float(row[1].split()[0]), row[2]) for row in table.rows]
    assert order == sorted(order)
    assert {row[0] for row in table.rows} == {g.id for g in list_gpus()} | {g.id for g in list_incomplete()}
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["titan-v"] == ("7.0 Volta", "2017", "80", "1455", "14.9", "652.8")
    assert rows["h20"] == ("9.0 Hopper", "–", "78", "–", "–", "4000")


@pytest.mark.parametrize("width", [80, 140])
def test_keys_and_status_stay_whole_where_the_terminal_is_narrow(width: int) -> None:
    lines = shown(width, "rtx-4090").splitlines()
    keys = [line.split()[0] for line in lines[3:] if re.match(" [a-z]", line)]
    assert keys == [fact.key for fact in load_gpu("rtx-4090").all_facts]
    assert max(map(len, lines)) <= width


def test_sources_are_numbered() -> None:
    gpu = load_gpu("titan-v")
    sources = sources_of(gpu.all_facts)
    assert len(set(sources)) == len(sources)
    row = next(row for row in fact_table(gpu.all_facts, sources).rows if row[0] == "peak.sm_count")
    fact = gpu.fact("peak.sm_count")
    assert fact is not None
    numbers = [int(number) for number in row[3].split()]
    assert numbers == sorted(numbers)
    assert {sources[number - 1] for number in numbers} == set(fact.sources)


def test_what_is_known_of_a_gpu_that_cannot_be_forecast(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["gpus", "H20", "--json"])
    assert not ended.value.code
    table = json.loads(capsys.readouterr().out)
    assert table["gpus"] == []
    (h20,) = table["incomplete"]
    assert h20.keys() == {"id", "name", "architecture", "compute_capability", "lacks", "facts"}
    assert h20["lacks"] == ["peak.clock_boost_mhz", "lanes.fp64_per_sm"]
    with pytest.raises(SystemExit):
        main(["gpus", "H20"])
    said = " ".join(capsys.readouterr().out.split())
    assert "every model refuses it without peak.clock_boost_mhz, lanes.fp64_per_sm, which no source gives" in said


def test_the_page_shows_what_is_known_of_the_h20(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "gpus.md").read_text("utf-8")
    with pytest.raises(SystemExit):
        main(["gpus", "H20"])
    said = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    block = page.partition("$ kerncast gpus H20\n")[2].partition("\n* every model")[0].splitlines()
    facts = [" ".join(line.split()) for line in block if line.startswith((" peak", " fact", "[", "H20"))]
    assert len(facts) == 7
    assert set(facts) <= said


def test_the_json_of_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["gpus", "--json"])
    table = json.loads(capsys.readouterr().out)
    assert table.keys() == {"schema_version", "gpus", "incomplete", "caveats", "caveat_details"}
    assert [gpu["id"] for gpu in table["gpus"]] == [gpu.id for gpu in list_gpus()]
    assert [gpu["id"] for gpu in table["incomplete"]] == ["h20"]
    assert table["gpus"][0].keys() == {
        "id", "name", "architecture", "compute_capability", "sm_count", "tpc_count", "clock_hz",
        "peak_fp32_flops_per_s", "dram_bytes_per_s", "facts",
    }  # fmt: skip
