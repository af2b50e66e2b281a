"""Answers of the verbs: what they show, and that JSON, tables and pictures say what the command line says."""

import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from matplotlib.figure import Figure

import kerncast
from kerncast.api import notebook
from kerncast.api.answers import Answer
from kerncast.cli.application import run
from kerncast.errors import InputError
from kerncast.metrics import metrics_of
from kerncast.units import GIGA, parse_seconds
from tests.helpers.places import ROOT

SAXPY = ROOT / "examples" / "saxpy.toml"
DECLARED = ROOT / "examples" / "kernels" / "gpusd_declared.toml"
GPUS = ["TITAN V", "T4", "h100-sxm"]
#: Names that would be a tag, an entity, mathematics or a table, if they were not text.
HOSTILE = "<script>alert(1)</script> & $x_1$ |`*[a](b) \x1b[2J"


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    return {
        "predict": kerncast.predict(SAXPY, GPUS),
        "profile": kerncast.profile(SAXPY, "T4"),
        "compare": kerncast.compare(SAXPY, GPUS),
        "occupancy": kerncast.occupancy(SAXPY, [*GPUS, "8.6"]),
        "sensitivity": kerncast.sensitivity(SAXPY, "T4", parameters=["dram_bandwidth"], advice=False),
        "bound": kerncast.bound(SAXPY, "TITAN V", [1, 2]),
        "sweep": kerncast.sweep(SAXPY, "T4", {"block": [128, 256]}, jobs=0),
    }


OPTIONS = {
    "predict": [f"--gpu={gpu}" for gpu in GPUS],
    "profile": ["--gpu=T4"],
    "compare": [f"--gpu={gpu}" for gpu in GPUS],
    "occupancy": [f"--gpu={gpu}" for gpu in (*GPUS, "8.6")],
    "sensitivity": ["--gpu=T4", "--parameter=dram_bandwidth", "--no-advice"],
    "bound": ["--gpu=TITAN V", "--tpcs=1,2"],
    "sweep": ["--gpu=T4", "--set=block=128,256", "--jobs=0"],
}
TOP = {
    "predict": ["schema_version", "timing", "predictions", "totals", "refused"],
    "profile": ["schema_version", "kernels", "refused"],
    "compare": [
        "schema_version", "level", "launches", "sort", "groups", "set_apart", "caveats", "caveat_details",
    ],
    "occupancy": ["schema_version", "occupancies", "caveats", "caveat_details"],
    "sensitivity": [
        "schema_version", "gpu", "gpu_id", "seconds", "low", "high", "launch_share", "elasticities", "unknown",
        "recommendations", "launches", "refused", "caveats",
    ],
    "bound": [
        "schema_version", "gpu", "gpu_id", "method", "kind", "level", "calibrated_on", "margin", "offset_seconds",
        "spread_factor", "measure_next", "bounds", "plan", "extremes", "scores", "caveats", "caveat_details",
    ],
    "sweep": [
        "schema_version", "level", "parameters", "points", "excluded", "reused", "best", "infeasible", "results",
    ],
}  # fmt: skip
COLUMNS = {
    "predict": "kernel launch count gpu gpu_id seconds low high level timing clock_hz limiter model",
    "profile": "metric value unit low high origin",
    "compare": (
        "gpu gpu_id models seconds low high clock_hz probability_fastest probability_cheapest joules joules_low"
        " joules_high watts limit_watts usd_per_run runs_per_s_per_usd on_front"
    ),
    "occupancy": (
        "kernel launch gpu gpu_id compute_capability threads_per_block registers_per_thread shared_bytes_per_block"
        " blocks_per_sm warps_per_sm occupancy limiter"
    ),
    "sensitivity": "kernel launch gpu parameter elasticity low high kind enough_factor",
    "bound": "tpcs expected_seconds bound_seconds kind guarantee measured_seconds",
    "sweep": "block gpu gpu_id seconds low high limiter model infeasible reason",
}
VERBS = list(TOP)


@pytest.mark.parametrize("verb", VERBS)
def test_json_is_that_of_the_command_line(
    verb: str, answers: dict[str, Answer], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run([verb, str(SAXPY), *OPTIONS[verb], "--json", "--quiet"]) == 0
    text = answers[verb].to_json()
    assert text == capsys.readouterr().out
    found = json.loads(text)
    assert list(found) == TOP[verb]
    assert found["schema_version"] == "1.0"


@pytest.mark.parametrize("verb", VERBS)
def test_a_data_frame_has_a_row_per_element(verb: str, answers: dict[str, Answer]) -> None:
    found = answers[verb].to_pandas()
    assert list(found.columns) == COLUMNS[verb].split()
    answer: Any = answers[verb]
    assert len(found) == len(answer)


@pytest.mark.parametrize("verb", VERBS)
def test_a_repr_is_the_verdict(verb: str, answers: dict[str, Answer]) -> None:
    text = repr(answers[verb])
    assert 20 < len(text) < 500
    assert max(map(len, text.splitlines())) <= 100
    assert not re.search(r"\w+\(\w+=", text)  # no dump of fields


def parsed(html: str) -> ET.Element:
    return ET.fromstring(html)  # noqa: S314  it is ours


def cells(answer: Answer) -> list[str]:
    return ["".join(each.itertext()) for each in parsed(answer._repr_html_()).iter() if each.tag == "td"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_notebook_shows_well_formed_tables_without_colours_of_their_own(
    verb: str, answers: dict[str, Answer]
) -> None:
    html = answers[verb]._repr_html_()
    page = parsed(html)
    assert {each.tag for each in page.iter()} <= {
        "div", "style", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "ul", "li",
    }  # fmt: skip
    assert set(re.findall(r"(?:color|background|border)[a-z-]*:([^;}]*)", html)) <= {
        "none", "inherit", "collapse", "1px solid currentColor",
    }  # fmt: skip
    assert " ".join(repr(answers[verb]).split()) in " ".join(" ".join(page.itertext()).split())
    assert cells(answers[verb])


@pytest.mark.parametrize("verb", VERBS)
def test_every_answer_has_a_picture(verb: str, answers: dict[str, Answer]) -> None:
    figure = answers[verb].plot()
    assert isinstance(figure, Figure)
    assert figure.axes[0].has_data()


def test_times_in_cells_are_those_of_the_predictions(answers: dict[str, Answer]) -> None:
    found = answers["predict"]
    assert isinstance(found, kerncast.Forecasts)
    shown = [parse_seconds(each) for each in cells(found) if re.fullmatch(r"[\d.]+ [mµn]?s", each)]
    assert shown == pytest.approx(sorted(p.seconds for p in found), rel=2e-3)
    # Three vectors of 4 MiB at less than the peak bandwidth of a data sheet.
    assert found[1].gpu_id == "t4"
    assert found[1].seconds > 3 * 2**20 * 4 / (320 * GIGA)


def test_forecasts_are_a_sequence(answers: dict[str, Answer]) -> None:
    found = answers["predict"]
    assert isinstance(found, kerncast.Forecasts)
    assert [p.gpu for p in found] == [found[0].gpu, found[1].gpu, found[-1].gpu]
    assert found[1:] == tuple(found)[1:]
    again = kerncast.predict(SAXPY, GPUS)
    assert (found == again, found != again, hash(found) == hash(again)) == (True, False, True)
    assert found != list(again)
    assert found.refused == ()


def test_a_profile_has_the_names_of_nsight_compute() -> None:
    found = kerncast.profile(SAXPY)
    n = 2**20
    assert found["launch__grid_size"] == n / 256
    assert found["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == n * 4 / 32
    one = found.metric("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum")
    assert (one.unit, one.count.low, one.count.high) == ("sector", n / 8, n / 8)
    assert list(found) == [each.name for each in metrics_of(found.profile)]
    with pytest.raises(KeyError, match=r"dram__bytes_read\.sum is not known here: name a GPU"):
        found["dram__bytes_read.sum"]
    with pytest.raises(KeyError, match=r"no metric is called launch__gridsize: did you mean launch__grid_size\?"):
        found["launch__gridsize"]
    assert kerncast.predict(found, "T4", model="roofline")[0].seconds > 0
    assert isinstance(found.plot(), Figure)


def test_bounds_are_above_what_is_expected_and_fewer_tpcs_take_longer() -> None:
    found = kerncast.bound(SAXPY, "TITAN V", "1-2")
    one, two = found
    assert [one.tpcs, two.tpcs] == [1, 2]
    assert one.bound_seconds > one.expected_seconds > two.expected_seconds
    # Three vectors of 4 MiB at less than the data sheet's 652.8 GB/s.
    assert two.expected_seconds > 3 * 2**22 / (652.8 * GIGA)


PROGRAM = """
__global__ void twice(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2.0f; }
int main(int count, char **values) {
  float *x; cudaMalloc(&x, 4 << 20);
  for (int i = 0; i < 3; ++i) twice<<<4096, 256>>>(x, 1 << 20);
  return cudaDeviceSynchronize() != cudaSuccess || count != 2;
}
"""


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("g++"), reason="programs are built on Linux by g++")
def test_a_program_runs_and_is_forecast(tmp_path: Path) -> None:
    (tmp_path / "twice.cu").write_text(PROGRAM, encoding="utf-8")
    found = kerncast.run(tmp_path / "twice.cu", ["T4", "TITAN V"], args=["one"], out=tmp_path / "twice.kc")
    assert (found.status, len(found.recording.launches), len(found)) == (0, 3, 2)
    told = json.loads(found.to_json())
    assert list(told) == [
        "schema_version", "command", "ended", "status", "launches", "distinct", "kernels", "host_seconds",
        "applications", "refused", "remarks",
    ]  # fmt: skip
    assert [each["kernel"] for each in told["applications"][0]["by_kernel"]] == ["twice"]
    assert list(found.to_pandas()["gpu"]) == ["T4", "TITAN V"]
    assert found.plot().axes[0].has_data()
    assert parsed(found._repr_html_()).tag == "div"
    assert repr(found).startswith("The program takes about ")
    again = kerncast.run(tmp_path / "twice.kc", "T4")
    assert again.status is None
    assert again[0].kernels == found[0].kernels
    assert repr(kerncast.run(tmp_path / "twice.kc")) == "3 launches of 1 kernel, 1 of them kept."


def test_names_of_kernels_are_text(tmp_path: Path) -> None:
    text = DECLARED.read_text(encoding="utf-8")
    name = re.search(r'^kernel = "(.*)"$', text, re.MULTILINE)
    assert name
    hostile = json.dumps(HOSTILE.replace("\x1b", ""))
    (tmp_path / "k.toml").write_text(text.replace(name[0], f"kernel = {hostile}"), encoding="utf-8")
    found = kerncast.predict(tmp_path / "k.toml", ["T4", "k40"])
    page = parsed(found._repr_html_())
    assert "<script" not in found._repr_html_()
    assert HOSTILE.replace("\x1b", "") in "".join(page.itertext())
    assert "mathjax_ignore" in page.attrib["class"].split()


def test_what_is_refused_stands_beside_the_forecasts() -> None:
    launch = kerncast.Launch.of(
        "__global__ void k(int *p) { p[threadIdx.x] = 1; }", grid=1, block=1024, args={"p": "i32[1024]"}
    )
    small = kerncast.Launch.of(
        "__global__ void k(int *p) { p[threadIdx.x + 9] = 1; }", grid=1, block=32, args={"p": "i32[32]"}
    )
    found = kerncast.predict([launch, small], "T4")
    assert [p.launch for p in found] == [0]
    assert [(r.launch, "out of bounds" in r.reason) for r in found.refused] == [(1, True)]
    assert "Refused: k (launch 1)" in found._repr_html_()


def test_progress_is_told_to_a_function_and_stdout_stays_clean(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[str, int, int]] = []
    kerncast.predict(SAXPY, "T4", progress=lambda what, done, total: told.append((what, done, total)))
    assert any("saxpy" in what for what, _, _ in told)
    assert all(0 <= done <= total or not total for _, done, total in told)
    assert capfd.readouterr() == ("", "")


class Screen:
    """A stand-in for IPython in a kernel: it keeps what is displayed."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.display = SimpleNamespace(display=self.show)

    def get_ipython(self) -> Any:
        return SimpleNamespace(kernel=object())

    def show(self, forms: dict[str, str], **told: object) -> Any:
        assert told == {"raw": True, "display_id": True}
        self.shown.append(forms)
        return SimpleNamespace(update=lambda forms, raw: self.shown.append(forms) if raw else None)


def test_a_notebook_has_a_line_that_is_empty_in_the_end(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    screen = Screen()
    monkeypatch.setitem(sys.modules, "IPython", screen)
    monkeypatch.setattr(notebook, "_PATIENCE_SECONDS", 0.0)
    with notebook.reporting(None) as report:
        assert report is not None
        report(f"executing {HOSTILE}", 1, 8)
    first, last = screen.shown
    assert "executing" in first["text/html"]
    assert "1/8" in first["text/plain"]
    assert parsed(first["text/html"]).tag == "span"
    assert last == {"text/plain": "", "text/html": ""}
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(notebook, "_PATIENCE_SECONDS", 3600.0)
    with notebook.reporting(None) as report:
        assert report is not None
        report("what is done at once is not told", 0, 0)
    assert len(screen.shown) == 2


def test_ipython_shows_the_html(answers: dict[str, Answer]) -> None:
    core = pytest.importorskip("IPython.core.formatters")
    forms, _ = core.DisplayFormatter().format(answers["predict"])
    assert forms["text/html"] == answers["predict"]._repr_html_()


two: Any = ["t4", "k40"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kerncast.occupancy(gpu="t4"), "neither a launch file nor"),
        (lambda: kerncast.occupancy(gpu="t4", block=0, registers=32), "block is 0"),
        (lambda: kerncast.occupancy(DECLARED, "t4"), "no launch with a source"),
        (lambda: kerncast.sensitivity(DECLARED, "t4"), "no launch with a source"),
        (lambda: kerncast.sensitivity(SAXPY, two), "2 GPUs are named"),
        (lambda: kerncast.compare(SAXPY, "t4", sort="speed"), "--sort 'speed' is unknown"),
        (lambda: kerncast.compare(SAXPY, "t4", against="k40"), "not among the GPUs"),
        (lambda: kerncast.predict(SAXPY, "t4", timing="warm"), "no timing is called"),
        (lambda: kerncast.profile(5), "evidence"),  # type: ignore[arg-type]
        (lambda: kerncast.bound(SAXPY, "t4", "1-999"), "more TPCs than there are"),
        (lambda: kerncast.bound("k.cu", "t4"), "a source without a launch"),
        (lambda: kerncast.sweep(SAXPY, "t4", {"TILE": [8]}), "TILE"),
        (lambda: kerncast.run("there_is_no_such_program", "t4"), "there_is_no_such_program"),
        (lambda: kerncast.run("script.py", "t4"), "a script in Python"),
    ],
)
def test_bad_input_is_an_input_error(call: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()
