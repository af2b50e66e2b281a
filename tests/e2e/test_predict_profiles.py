"""``kerncast predict`` on recorded files of profilers and tuners: what is printed, exit status, pictures, mistakes."""

import csv
import json
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncast.cli import main
from tests.helpers.places import TESTS

GOLDEN = TESTS / "golden"
HEAT = GOLDEN / "ncu" / "raw_2024.csv"
AXPY = GOLDEN / "ncu" / "raw_2020.csv"
BLUR = GOLDEN / "ncu" / "details_2025.csv"
SPMV = GOLDEN / "ncu" / "details_metrics_2023.csv"
STENCIL = GOLDEN / "nvprof" / "gtx980_launches.csv"
KEPLER = GOLDEN / "nvprof" / "k20_trace_and_metrics.csv"
T4 = GOLDEN / "tuners" / "blur_t4.json"
CACHE = GOLDEN / "tuners" / "blur_cache.json"
TRANSPOSE = GOLDEN / "tuners" / "transpose_ktt.json"
ON = ("--gpu", "h100-pcie")

SAXPY = """
__global__ void spmv(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2.0f * x[i] + y[i];
}
"""
SAXPY_LAUNCH = """
source = "k.cu"
[[launch]]
kernel = "spmv"
grid = [640]
block = [128]
args = { x = "f32[81920] random", y = "f32[81920] random" }
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


class Done:
    """What a command did: its status and what it printed."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> dict[str, Any]:
        """Return the object on stdout."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def predictions(self) -> list[dict[str, Any]]:
        """Return the forecasts on stdout."""
        assert self.status == 0, self.err
        found = self.json["predictions"]
        assert isinstance(found, list)
        return found


Predict = Callable[..., Done]


@pytest.fixture
def predict(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Predict:
    """Forecast from a file in this process and return what was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kerncast.child_process.is_possible", lambda: False)  # as the fixture kerncast does

    def run(*arguments: object) -> Done:
        with pytest.raises(SystemExit) as left:
            main(["predict", *map(str, arguments), "-q"])
        captured = capsys.readouterr()
        return Done(int(left.value.code or 0), captured.out, captured.err)

    return run


def refused(done: Done, status: int, *words: str) -> None:
    """Assert the status, and that stderr is one paragraph that holds these words."""
    assert done.status == status, done.err
    assert "Traceback" not in done.err + done.out
    assert done.err.startswith("kerncast: ")
    assert "\n\n" not in done.err.strip()
    for word in words:
        assert word in done.err, done.err


def test_the_command_carries_a_profile_over(kerncast: Run) -> None:
    done = kerncast("predict", HEAT, *ON, "--gpu", "t4", "--json", "-q")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert [(p["launch"], p["gpu_id"]) for p in found["predictions"]] == [
        (0, "h100-pcie"), (0, "t4"), (1, "h100-pcie"), (1, "t4"), (2, "h100-pcie"), (2, "t4"),
    ]  # fmt: skip
    assert [p["model"] for p in found["predictions"]][4:] == ["times", "times"]  # it lacks the bytes of DRAM
    assert found["refused"] == []


def test_what_was_carried_over_stands_in_the_json(predict: Predict) -> None:
    p = predict(HEAT, *ON, "--model", "ceilings", "--json").predictions[0]
    transfer = p["transfer"]
    assert (p["model"], transfer["gpu_id"], transfer["measured_seconds"]) == ("ceilings", "rtx-3090", 10.80e-6)
    assert p["timing"] == "profiler"
    figures = {figure["name"]: figure for figure in transfer["figures"]}
    # 4,194,304 additions, 1,048,576 multiplications and 1,048,576 fused: 7,340,032 FLOP; DRAM 4.21 + 3.90 MB.
    assert figures["operations"] == {"name": "operations", "unit": "FLOP", "source": 7340032.0, "target": 7340032.0}
    assert figures["dram intensity"]["source"] == pytest.approx(7340032 / 8.11e6)
    assert figures["l1 intensity"]["source"] == pytest.approx(7340032 / (20.97e6 + 5.44e6))
    assert p["low"] <= p["seconds"] <= p["high"]
    ends = sorted(figures[f"{level} time"]["target"] for level in ("l1", "l2", "dram"))
    assert (p["low"], p["high"]) == (ends[0], ends[-1])
    assert p["seconds"] == pytest.approx((ends[0] + ends[-1]) / 2)


def test_the_total_of_an_application_has_an_interval(predict: Predict) -> None:
    done = predict(HEAT, *ON, "--json", "--model", "algorithm1")
    (total,) = done.json["totals"]
    assert total["launches"] == 2
    assert total["launches_refused"] == 1
    for key in ("seconds", "low", "high"):
        assert total[key] == pytest.approx(sum(p[key] for p in done.predictions))


def test_a_launch_that_lacks_a_metric_is_refused_by_its_name(predict: Predict) -> None:
    (row,) = predict(HEAT, *ON, "--json", "--model", "algorithm1").json["refused"]
    assert row["launch"] == 2
    assert "dram__bytes_read.sum,dram__bytes_write.sum" in row["reason"]
    assert "--set full" in row["reason"]


@pytest.mark.parametrize(
    ("options", "launches"),
    [
        (("-k", "regex:heat"), [0, 2]),
        (("-k", "regex:^tot"), [1]),
        (("-k", "total"), [1]),
        (("--kernel", "heat_step"), [0, 2]),
        (("--launch-skip", "1", "--launch-count", "1"), [1]),
        (("--launch-count", "1"), [0]),
        (("-k", "regex:.", "--launch-skip", "1", "--launch-count", "1"), [1]),
    ],
)
def test_kernels_are_chosen_and_keep_their_place(
    predict: Predict, options: tuple[str, ...], launches: list[int]
) -> None:
    assert [p["launch"] for p in predict(HEAT, *ON, "--json", *options).predictions] == launches


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-k", "regex:nothing"), ("regex:nothing",)),
        (("-k", "regex:(a"), ("(a",)),
        (("-k", "regex:(?=a)"), ("(?=a)",)),
        (("--launch-skip", "-1"), ("launch-skip",)),
        (("--launch-count", "0"), ("launch-count",)),
        (("--launch-skip", "99"), ("every launch is skipped", "heat_step")),
        (("--source-gpu", "RTX 9999"), ("RTX 9999",)),
        (("--source", "none.toml"), ("none.toml",)),
        (("--model", "guess"), ("guess", "ceilings")),
        (("--measured", "T4"), ("--measured", "1.23ms")),
        (("--measured", "T4#0=fast"), ("fast",)),
        (("--measured", "T4#x=1ms"), ("--measured",)),
        (("--measured", "T4#0=-1ms"), ("-1ms",)),
        (("--measured", "T4#0=1"), ("1",)),
        (("--measured", "RTX 9999#0=1ms"), ("RTX 9999",)),
        (("--measured", "T4=1ms"), ("which of the 3 launches", "T4#0=1.23ms")),
        (("--measured", "T4#7=1ms"), ("launch 7", "0, 1, 2")),
        (("--roofline", "picture.jpg"), ("picture.jpg", ".svg")),
        (("--bars", "picture"), ("picture", ".png")),
    ],
)
def test_a_wrong_option_says_how_to_mend_it(predict: Predict, options: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(predict(HEAT, *ON, *options), 2, *words)


def test_a_time_beside_a_profile_is_of_its_launch(predict: Predict) -> None:
    on = ("--gpu", "rtx-2080-ti")  # the generation of the T4; the profile is of an RTX 3090
    found = predict(HEAT, *on, "--json", "--measured", "T4#1=50us", "--model", "ceilings").predictions
    assert [(p["launch"], p["transfer"]["gpu_id"], p["transfer"]["measured_seconds"]) for p in found] == [
        (0, "rtx-3090", 10.80e-6), (1, "t4", pytest.approx(50e-6)),
    ]  # fmt: skip


def test_one_launch_needs_no_number(predict: Predict) -> None:
    (p,) = predict(HEAT, "--gpu", "rtx-2080-ti", "--json", "-k", "total", "--measured", "T4=50us").predictions
    assert [each["gpu_id"] for each in p["evidence"]["measured"]] == ["t4"]


@pytest.mark.parametrize(
    ("file", "words"), [(AXPY, "does not say on which GPU"), (BLUR, "fits gh200-96gb, h100-nvl, h100-sxm, h200")]
)
def test_a_profile_that_does_not_tell_its_gpu(predict: Predict, file: Path, words: str) -> None:
    refused(predict(file, *ON), 2, words, "--source-gpu")
    done = predict(file, *ON, "--source-gpu", "V100", "--json", "--model", "roofline")
    assert done.status == 0, done.err


def test_the_source_gpu_is_the_one_named(predict: Predict) -> None:
    (p,) = predict(AXPY, *ON, "--source-gpu", "v100-pcie-32gb", "--model", "algorithm1", "--json").predictions
    assert p["transfer"]["gpu_id"] == "v100-pcie-32gb"
    assert p["transfer"]["measured_seconds"] == pytest.approx(84.5e-6)
    figures = {figure["name"]: figure for figure in p["transfer"]["figures"]}
    assert {"occupancy", "efficiency", "roof"} <= set(figures)
    # 4,194,304 fused multiply-adds in 84.5 us.
    assert figures["achieved"]["source"] == pytest.approx(2 * 4194304 / 84.5e-6)


def test_a_time_that_agrees_with_the_projection_moves_little(predict: Predict) -> None:
    """What a launch adds to a time in a series is taken off before it is held against a profiler's."""
    plain = ("--gpu", "rtx-2080-ti", "--json", "-k", "total")
    (alone,) = predict(HEAT, "--gpu", "T4", *plain[2:]).predictions
    series = alone["seconds"] + 0.4e-6  # 1.6 µs of a launch in a series, 1.2 µs of one under a profiler
    (without,) = predict(HEAT, *plain).predictions
    (p,) = predict(HEAT, *plain, "--measured", f"T4={series * 1e6:.6f}us").predictions
    assert p["seconds"] == pytest.approx(without["seconds"], rel=1e-3)
    assert p["high"] / p["low"] < without["high"] / without["low"]
    assert not any(each["contradicts"] for each in p["evidence"]["measured"])


def test_nvprof_tells_the_pipes_of_kepler(predict: Predict) -> None:
    found = predict(KEPLER, *ON, "--json", "-k", "axpy").predictions
    assert [(p["launch"], p["model"]) for p in found] == [(0, "pipes"), (2, "pipes")]
    assert [p["transfer"]["measured_seconds"] for p in found] == pytest.approx([98.304e-6, 98.016e-6])


def test_a_profile_that_lacks_metrics_is_refused_by_their_names(predict: Predict) -> None:
    done = predict(STENCIL, *ON, "--json", "--model", "ceilings")
    assert done.status == 3
    assert "l1tex__t_bytes.sum" in done.err
    assert "--set full" in done.err
    assert done.json["predictions"] == []
    assert {row["launch"] for row in done.json["refused"]} == {0, 1}
    refused(predict(SPMV, *ON, "--model", "algorithm1"), 3, "launch__registers_per_thread", "sm__warps_active")


@pytest.mark.parametrize("file", [CACHE, TRANSPOSE])
def test_what_files_of_tuners_lack_is_told_row_by_row(predict: Predict, file: Path) -> None:
    done = predict(file, *ON, "--json")
    assert done.predictions
    assert done.json["refused"] == []
    assert "times" in {p["model"] for p in done.predictions}
    refused_rows = predict(file, *ON, "--json", "--model", "algorithm1").json["refused"]
    assert refused_rows
    assert all("Collect " in row["reason"] and "ncu --set full" in row["reason"] for row in refused_rows)


def test_a_source_fills_what_the_profile_lacks_and_says_so(predict: Predict, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SAXPY)
    (tmp_path / "k.toml").write_text(SAXPY_LAUNCH)
    assert predict(SPMV, *ON, "--json", "--model", "ceilings").status == 3
    (p,) = predict(SPMV, *ON, "--json", "--model", "ceilings", "--source", "k.toml").predictions
    said = [each["subject"] for each in p["caveat_details"] if each["kind"] == "counted-by-execution"]
    assert said
    assert "l1_bytes" in said[0]
    assert "active_threads" in said[0]
    figures = {figure["name"]: figure for figure in p["transfer"]["figures"]}
    # What the profile has stays: 1000 additions, 500 multiplications, 2000 fused.
    assert figures["operations"]["source"] == 5500
    assert p["transfer"]["measured_seconds"] == pytest.approx(12e-6)


def test_t4_results_with_a_launch_file(predict: Predict, tmp_path: Path) -> None:
    source = SAXPY.replace("spmv", "blur")
    (tmp_path / "k.cu").write_text(source.replace("blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.x * block_size_x"))
    launch = SAXPY_LAUNCH.replace("spmv", "blur").replace("block = [128]", "block = [16, 4]")
    launch = launch.replace("[[launch]]", "defines = { block_size_x = 16, block_size_y = 4 }\n[[launch]]")
    (tmp_path / "k.toml").write_text(launch)
    asked = (*ON, "--json", "--model", "algorithm1", "--source-gpu", "RTX A4000")
    refused(predict(T4, *asked), 3, "only times of blur_t4 are known", "give the source")
    (p,) = predict(T4, *asked, "--source", "k.toml").predictions
    assert (p["kernel"], p["launch"], p["timing"]) == ("blur", 0, "single")
    assert p["transfer"]["measured_seconds"] == pytest.approx(0.512e-3)
    (tmp_path / "k.toml").write_text(launch.replace("block = [16, 4]", "block = [16, 8]"))
    refused(predict(T4, *asked, "--source", "k.toml"), 2, "the grid of", "--source LAUNCH.toml")


def test_a_source_that_cannot_be_executed_is_an_error_of_the_user(predict: Predict, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SAXPY.replace("x[i] + y[i]", "x[i] + y[i + 1000000]"))
    (tmp_path / "k.toml").write_text(SAXPY_LAUNCH)
    done = predict(SPMV, *ON, "--json", "--model", "ceilings", "--source", "k.toml")
    assert done.status == 3
    assert "out of bounds" in done.err
    assert "out of bounds" in done.json["refused"][0]["reason"]


@pytest.mark.parametrize(("model", "used"), [((), "times"), (("--model", "ceilings"), "ceilings")])
def test_a_source_that_does_not_compile_for_a_target_leaves_other_models(
    predict: Predict, tmp_path: Path, model: tuple[str, ...], used: str
) -> None:
    (tmp_path / "k.cu").write_text(f"#if __CUDA_ARCH__ >= 900\n#error not for Hopper\n#endif\n{SAXPY}")
    (tmp_path / "k.toml").write_text(SAXPY_LAUNCH)
    (p,) = predict(SPMV, *ON, "--json", *model, "--source", "k.toml").predictions
    assert p["model"] == used
    run = p["transfer"] or p["evidence"]
    assert (run["measured"][0]["seconds"] if used == "times" else run["measured_seconds"]) == pytest.approx(12e-6)


@pytest.mark.parametrize("file", [HEAT, AXPY, STENCIL, KEPLER, CACHE, TRANSPOSE], ids=lambda path: path.name)
@pytest.mark.parametrize("share", [0.03, 0.4, 0.93])
def test_a_truncated_file_ends_in_a_paragraph(predict: Predict, tmp_path: Path, file: Path, share: float) -> None:
    whole = file.read_bytes()
    cut = tmp_path / f"cut{file.suffix}"
    cut.write_bytes(whole[: int(len(whole) * share)])
    done = predict(cut, *ON, "--json")
    assert done.status in {0, 2, 3}
    assert "Traceback" not in done.err + done.out
    if done.status:
        refused(done, done.status)


@pytest.mark.parametrize("file", [HEAT, TRANSPOSE], ids=lambda path: path.name)
def test_a_file_cut_within_its_first_row_is_bad_input(predict: Predict, tmp_path: Path, file: Path) -> None:
    cut = tmp_path / f"cut{file.suffix}"
    cut.write_bytes(file.read_bytes()[:700])
    refused(predict(cut, *ON), 2, cut.name)


def test_an_empty_file_and_no_file(predict: Predict, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    refused(predict("empty.csv", *ON), 2, "empty.csv")
    refused(predict("none.csv", *ON), 2, "none.csv")
    refused(predict("none.ncu-rep", *ON), 2, "none.ncu-rep")


def test_pictures_and_their_numbers(predict: Predict, tmp_path: Path) -> None:
    pictures = ("--roofline", "r.svg", "--roofline", "r.csv", "--bars", "b.png", "--bars", "b.csv")
    found = predict(HEAT, *ON, "--gpu", "t4", "--json", *pictures, "--report", "r.html").predictions
    rows = list(csv.DictReader((tmp_path / "r.csv").read_text().splitlines()))
    assert {(row["gpu"], row["is_projected"]) for row in rows} == {
        ("RTX 3090", "false"), ("H100 PCIe", "true"), ("T4", "true"),
    }  # fmt: skip
    assert len(rows) == 3 * 2 * 3
    bars = list(csv.DictReader((tmp_path / "b.csv").read_text().splitlines()))
    assert [float(row["seconds"]) for row in bars] == [p["seconds"] for p in found]
    assert [float(row["low"]) for row in bars] == [p["low"] for p in found]
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
    ET.parse(tmp_path / "r.svg")  # noqa: S314  our own
    html = (tmp_path / "r.html").read_text()
    assert html.count("<svg") == 4  # a roofline per GPU, and bars
    assert "Carried over from a measured run" in html


def test_source_and_counts_are_drawn_without_a_run(predict: Predict, tmp_path: Path) -> None:
    found = predict(SPMV, *ON, "--roofline", "r.svg", "--roofline", "r.csv", "--bars", "b.svg", "--model", "roofline")
    assert found.status == 0
    assert "of its" in (tmp_path / "r.svg").read_text()
    assert {row["gpu"] for row in csv.DictReader((tmp_path / "r.csv").read_text().splitlines())} == {"H100 PCIe"}
    ET.parse(tmp_path / "b.svg")  # noqa: S314  our own


def test_a_roofline_that_cannot_be_drawn_is_an_error_after_the_forecast(predict: Predict, tmp_path: Path) -> None:
    """The forecast is on stdout all the same."""
    done = predict("--op", "bmm(B=8,M=64,N=64,K=64,dtype=bf16)", "--gpu", "a100-sxm-80gb", "--roofline", "r.svg")
    refused(done, 2, "no roofline to draw")
    assert "A100" in done.out
    assert not (tmp_path / "r.svg").exists()


def test_a_report_in_markdown_shows_both_gpus(predict: Predict, tmp_path: Path) -> None:
    assert predict(HEAT, *ON, "-k", "heat_step", "--model", "ceilings", "--report", "r.md").status == 0
    text = (tmp_path / "r.md").read_text()
    assert "RTX 3090, measured" in text
    assert "dram efficiency" in text


def test_a_gpu_that_is_the_source_gets_its_own_time_back(predict: Predict) -> None:
    """At the clock of the run, 1400 MHz, exactly; at its own, between that and what the clock alone would make it."""
    own = ("--gpu", "rtx-3090", "-k", "total", "--json")
    (p,) = predict(HEAT, *own, "--clock", "1400").predictions
    assert [p["low"], p["seconds"], p["high"]] == pytest.approx([6.5e-6] * 3, rel=1e-3)
    (p,) = predict(HEAT, *own).predictions
    assert [p["low"], p["high"]] == pytest.approx([6.5e-6 * 1400 / 1695, 6.5e-6], rel=1e-3)
    assert p["low"] < p["seconds"] < p["high"]
    (p,) = predict(HEAT, *own, "--model", "algorithm1").predictions
    assert [p["low"], p["seconds"], p["high"]] == pytest.approx([6.5e-6] * 3)


def test_brackets_in_a_name_are_text(predict: Predict, tmp_path: Path) -> None:
    """A terminal takes [/] and [lambda] for its own marks, and headings of tables hold names, too."""
    for name in ("[/]close(int)", "[lambda at a.cu:1]::operator()", "name[bold]"):
        (tmp_path / "k.csv").write_text(HEAT.read_text().replace("heat_step", name), encoding="utf-8")
        done = predict("k.csv", *ON)
        assert done.status == 0, done.err
        assert done.out.count(name) >= 3  # above the table, over the carried figures, in the conclusion


def test_a_profile_keeps_its_time_on_its_own_gpu(predict: Predict) -> None:
    """A -> A is exact, whatever was measured elsewhere; what is not used, or of another run, is said."""
    both = ("--gpu", "rtx-3090", "--gpu", "rtx-2080-ti", "-k", "total", "--measured", "T4=50us", "--json")
    own, _ = predict(HEAT, *both, "--clock", "1400").predictions
    assert own["seconds"] == pytest.approx(6.5e-6, rel=0.02)
    own, other = predict(HEAT, *both, "--model", "algorithm1").predictions
    assert own["seconds"] == pytest.approx(6.5e-6)
    assert ("time-elsewhere-unused", "T4") in [(each["kind"], each["subject"]) for each in own["caveat_details"]]
    assert other["transfer"]["gpu_id"] == "t4"
    apart = [each["texts"] for each in other["caveat_details"] if each["kind"] == "counts-and-time-apart"]
    assert apart == [{"counted": "RTX 3090", "timed": "T4"}]


def test_what_a_family_name_was_taken_for_is_said(predict: Predict) -> None:
    (p,) = predict(AXPY, *ON, "--source-gpu", "V100", "--model", "algorithm1", "--json").predictions
    assert ("gpu-name-ambiguous", "V100") in [(each["kind"], each["subject"]) for each in p["caveat_details"]]
    (p,) = predict(HEAT, "--gpu", "titan-v", "-k", "total", "--measured", "V100=9us", "--json").predictions
    assert ("gpu-name-ambiguous", "V100") in [(each["kind"], each["subject"]) for each in p["caveat_details"]]


@pytest.mark.parametrize("time", ["1e-300s", "1e-13s", "2e7s"])
def test_a_time_that_no_kernel_takes(predict: Predict, time: str) -> None:
    refused(predict(HEAT, *ON, "--measured", f"T4#0={time}"), 2, "--measured", "1e-12 to 1e+07 s")


def test_a_second_time_that_a_model_does_not_use_is_named(predict: Predict) -> None:
    two = ("--measured", "T4#1=1ms", "--measured", "GTX 1070#1=2ms")
    done = predict(HEAT, *ON, *two, "--json", "--model", "ceilings")
    (second,) = [p for p in done.json["predictions"] if p["launch"] == 1]
    assert any("GTX 1070" in caveat and "not used" in caveat for caveat in second["caveats"])


def test_the_interval_of_the_paper_has_no_level(predict: Predict, tmp_path: Path) -> None:
    done = predict(HEAT, *ON, "--level", "0.5", "--model", "ceilings", "--report", "r.md")
    assert "published interval" in done.out
    assert "50% interval" not in done.out
    assert "Interval: published" in (tmp_path / "r.md").read_text()
    assert "50% interval" in predict(HEAT, *ON, "--level", "0.5").out


@pytest.mark.parametrize(
    "options", [("--launch-skip", "1"), ("--launch-count", "1"), ("--source-gpu", "T4"), ("--source", "k.toml")]
)
@pytest.mark.parametrize("evidence", ["k.toml", "k.cu"])
def test_options_of_profiles_are_refused_for_launches(
    predict: Predict, tmp_path: Path, evidence: str, options: tuple[str, ...]
) -> None:
    (tmp_path / "k.cu").write_text(SAXPY)
    (tmp_path / "k.toml").write_text(SAXPY_LAUNCH)
    refused(predict(evidence, *ON, *options), 2, "need a profile", evidence)
