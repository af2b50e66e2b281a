"""Two profiles compared: ratios and their order in closed form, pairs by place and by name, from files and pages."""

import json
from pathlib import Path

import pytest

from kerncast.cli.application import run
from kerncast.errors import InputError
from kerncast.read.ncu.rows import NcuMetric, NcuRow
from kerncast.studies.comparing.profile_changes import ProfilePair, pair_profiles
from tests.helpers.places import ROOT

GOLDEN = ROOT / "tests" / "golden" / "ncu" / "raw_2024.csv"


def row(kernel: str = "k", number: int = 0, busy: dict[str, float] | None = None, **values: float) -> NcuRow:
    metrics = [NcuMetric(name, value, "inst") for name, value in {**(busy or {}), **values}.items()]
    return NcuRow(number, kernel, None, None, None, tuple(metrics))


def only(before: NcuRow, after: NcuRow) -> ProfilePair:
    (found,) = pair_profiles([before], [after])
    return found


def test_changes_are_ranked_by_doublings_and_by_how_busy_their_unit_is() -> None:
    """DRAM at 80 % of its peak: one doubling counts 0.8. L1 at 10 %: three doublings count 0.3. L2: not known, 0.5."""
    busy = {
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 80.0,
        "l1tex__throughput.avg.pct_of_peak_sustained_active": 10.0,
    }
    before = row(busy=busy, dram__a=8.0, l1tex__b=8.0, lts__c=2**0.5, same=5.0, device__d=1.0, gone=1.0)
    after = row(busy=busy, dram__a=4.0, l1tex__b=64.0, lts__c=2.0, same=5.01, device__d=2.0)
    found = only(before, after)
    assert [each.name for each in found.changes] == ["dram__a", "lts__c", "l1tex__b"]
    assert [each.importance for each in found.changes] == pytest.approx([0.8, 0.5, 0.3])
    assert [each.ratio for each in found.changes] == pytest.approx([0.5, 2**0.5, 8.0])
    assert (found.unchanged, found.only_before, found.only_after) == (3, ("gone",), ())


def test_what_comes_and_goes_counts_most() -> None:
    found = only(row(sm__a=0.0, sm__b=1.0, sm__c=1.0), row(sm__a=7.0, sm__b=0.0, sm__c=100.0))
    assert {each.name: each.ratio for each in found.changes} == {"sm__a": None, "sm__b": 0.0, "sm__c": 100.0}
    assert found.changes[-1].name == "sm__c"


def test_launches_pair_by_place_or_by_kernel_and_turn() -> None:
    old, new = [row("naive", 0)], [row("tiled", 0)]
    assert [(a.before.kernel, a.after.kernel) for a in pair_profiles(old, new)] == [("naive", "tiled")]
    old, new = [row("a", 0), row("b", 1), row("a", 2)], [row("a", 5), row("a", 6)]
    assert [(a.before.number, a.after.number) for a in pair_profiles(old, new)] == [(0, 5), (2, 6)]
    with pytest.raises(InputError, match="no kernel is in both profiles"):
        pair_profiles(old, [row("c")])


def changed(folder: Path) -> Path:
    """Return the golden profile with the first launch in half of its time, and half of its loads."""
    path = folder / "after.csv"
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith('"0","2711"'))
    lines[place] = lines[place].replace('"10.80"', '"5.40"').replace('"163,840"', '"81,920"')
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_profiles_of_nsight_compute_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, page = tmp_path / "out.json", tmp_path / "page.md"
    words = ["profile", str(changed(tmp_path)), "--compare-to", str(GOLDEN), "--json", "--out", str(out)]
    assert run([*words, "--report", str(page)]) == 0
    first, *others = json.loads(out.read_text(encoding="utf-8"))["pairs"]
    assert (first["before"]["seconds"], first["after"]["seconds"]) == pytest.approx((10.8e-6, 5.4e-6))
    (metric,) = first["metrics"]
    assert (metric["name"], metric["ratio"]) == ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 0.5)
    assert all(not each["metrics"] for each in others)
    text = page.read_text(encoding="utf-8")
    assert "10.8 µs before, 5.4 µs after: 2.00 times as fast" in text
    assert "| ×0.5 |" in text
    assert run(["profile", str(changed(tmp_path)), "--compare-to", str(GOLDEN)]) == 0
    assert "163 k" in capsys.readouterr().out or "164 k" in text


def test_own_counts_are_compared(tmp_path: Path) -> None:
    """A launch over a quarter of the grid, counted now, against the raw page of the whole one."""
    saxpy = ROOT / "examples" / "saxpy.toml"
    small, before, out = tmp_path / "small.toml", tmp_path / "before.csv", tmp_path / "out.json"
    kernel = (ROOT / "examples" / "kernels" / "saxpy.cu").as_posix()
    text = saxpy.read_text(encoding="utf-8").replace('"kernels/saxpy.cu"', f'"{kernel}"')
    small.write_text(text.replace("[4096]", "[1024]"), encoding="utf-8")
    assert run(["profile", str(saxpy), "--csv", "--out", str(before), "--quiet"]) == 0
    words = ["profile", str(small), "--compare-to", str(before), "--json", "--out", str(out), "--quiet"]
    assert run(words) == 0
    (pair,) = json.loads(out.read_text(encoding="utf-8"))["pairs"]
    ratios = {each["name"]: each["ratio"] for each in pair["metrics"]}
    assert ratios["launch__grid_size"] == ratios["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 0.25
    assert pair["after"]["seconds"] is None


def test_what_is_no_profile_is_told(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("gpu,seconds\nT4,1\n", encoding="utf-8")
    damaged = tmp_path / "damaged.ncu-rep"
    damaged.write_bytes(bytes(range(256)))
    for words, told in (
        (["--compare-to", str(other)], "no profile of Nsight Compute"),
        (["--compare-to", str(damaged)], "does not begin as a report"),
        (["--compare-to", str(GOLDEN), "--csv"], "makes no use of --csv"),
        (["--report", str(tmp_path / "page.html")], "needs a version before"),
    ):
        with pytest.raises(InputError, match=told):
            run(["profile", str(GOLDEN), *words])
