"""The texts of the page: launch files that it gives and takes, errors at their lines, and HTML that runs nothing."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.errors import CompileError, IllegalAddress, InputError, LaunchError
from kerncast.gpu import load_gpu
from kerncast.launch import parse_launches
from kerncast.typed_json import from_json, to_json
from kerncast.web import panels
from kerncast.web.launch_text import hypothetical_text, launch_text, left_out, with_launch
from kerncast.web.questions import (
    Asked,
    ForecastTold,
    Hypothetical,
    LaunchesTold,
    LaunchTime,
    LineCost,
    LinesTold,
    Part,
    Problem,
    Row,
)
from kerncast.web.typed_launch import kernels_in, macros, measured_times
from kerncast.web.work import problem_of

ASKED = Asked(
    "source", "reduce<float, 256>", "64, 2", "32x4", "1024",
    (("n", "4096"), ("a", "2.0"), ("x", "f32[4096] random"), ("up", "true"), ("s", "bytes(00)"), ("q", '"; a = 1')),
)  # fmt: skip
ROW = Row(
    "T<4", "t4", 2e-6, 1e-6, 4e-6, "DRAM", (Part("DRAM", 2e-6, "#d55e00"),), "simulation", False, "2 blocks", 16, 32
)
TOLD = ForecastTold("k takes 2 µs. Then <b>.", (ROW,), (), ("a < b",), "all blocks")


def test_a_launch_file_says_what_the_page_says() -> None:
    text = launch_text(replace(ASKED, arguments=ASKED.arguments[:3]), "k.cu")
    (launch,) = parse_launches(tomllib.loads(text), Path("launch.toml"))
    assert (launch.kernel, launch.grid, launch.block) == (ASKED.kernel, (64, 2, 1), (32, 4, 1))
    assert launch.shared_bytes == 1024
    assert [str(each.value) for each in launch.arguments] == ["4096", "2.0", "f32[4096] random"]


def test_a_launch_file_comes_back_as_it_was() -> None:
    found = with_launch(Asked("source"), launch_text(ASKED, "k.cu"))
    assert found == replace(ASKED, block="32, 4")


TWO = """
source = "k.cu"
include = ["headers"]
defines = { TILE = 16, FAST = true }
[[launch]]
kernel = "first"
grid = 4
block = [8, 8]
args = { n = 7 }
[[launch]]
kernel = "second"
grid = [1, 2, 3]
block = 32
cluster = 2
"""


def test_launches_and_macros_come_and_go_as_they_were(tmp_path: Path) -> None:
    asked = with_launch(Asked("source"), TWO)
    assert (asked.defines, asked.kernel, [each.kernel for each in asked.others]) == (
        "TILE=16 FAST=1",
        "first",
        ["second"],
    )
    assert left_out(TWO) == ["include", "cluster"]
    second = asked.at(1, asked.launches)
    assert (second.kernel, second.grid, second.place) == ("second", "1, 2, 3", 1)
    assert second.launches == asked.launches
    found = parse_launches(tomllib.loads(launch_text(second, "k.cu", [tmp_path])), tmp_path / "launch.toml")
    assert [(each.kernel, each.grid) for each in found] == [("first", (4, 1, 1)), ("second", (1, 2, 3))]
    assert {each.defines for each in found} == {(("TILE", "16"), ("FAST", "1"))}
    assert {each.include_dirs for each in found} == {(tmp_path,)}


@pytest.mark.parametrize("text", ["TILE-16", "=3", "A;B", "1A=2"])
def test_what_is_no_macro_is_refused(text: str) -> None:
    with pytest.raises(LaunchError, match="NAME=VALUE"):
        macros(text)


@pytest.mark.parametrize("text", ["/etc/passwd=1us", "times.csv", "T4", "..\\gpu.toml=1us", "T4=", "T4=fast"])
def test_measured_times_name_gpus_and_no_files(text: str) -> None:
    with pytest.raises(InputError):
        measured_times(text)


def test_measured_times_are_read() -> None:
    found = measured_times("T4=1.2ms, TITAN V = 800us")
    assert [each.gpu.id for each in found] == ["t4", "titan-v"]
    assert [each.seconds for each in found] == pytest.approx([1.2e-3, 8e-4])


def test_a_value_of_every_slider_makes_a_gpu(tmp_path: Path) -> None:
    changes = (("shared.per_sm_kib", 96.0), ("lanes.fp64_per_sm", 32.0), ("cycles.dram_latency", 400.0))
    path = tmp_path / "gpu.toml"
    path.write_text(hypothetical_text(Hypothetical("t4", "other", changes)))
    gpu = load_gpu(path)
    assert (gpu.architecture.fp64_lanes_per_sm, gpu.architecture.shared_bytes_per_sm) == (32, 96 * 1024)


def test_launches_and_instructions_are_shown_as_text() -> None:
    told = LaunchesTold("T4", (LaunchTime("k<1>", 3e-6), LaunchTime("m", 1e-6), LaunchTime("<b>", None, "no <i>")))
    html = panels.launches(told, 1)
    assert "k&lt;1&gt;" in html
    assert "4 µs" in html  # together
    assert "75 %" in html
    assert "<b>" not in html.replace("<b>PTX", "")
    line = LineCost(1, 1.0, "issues", ("ld.global.f32 %f1, [%rd1];",), ("LDG.E R2, [R2] & <x>",), 3)
    html = panels.lines(LinesTold("T4", (line,), "all"), "x[0] < 1")
    assert "ld.global.f32" in html
    assert "&amp; &lt;x&gt;" in html
    assert "3 further instructions" in html


@pytest.mark.parametrize(
    "text", ["", "launch = 3", "[[launch]]", "[[launch]\n", "[[launch]]\ngrid = 1", "a = " + "[" * 9999]
)
def test_another_file_is_no_launch_file(text: str) -> None:
    with pytest.raises(InputError, match="launch file"):
        with_launch(Asked(""), text)


def test_sliders_make_a_gpu_that_the_catalogue_reads(tmp_path: Path) -> None:
    path = tmp_path / "gpu.toml"
    path.write_text(hypothetical_text(Hypothetical("t4", "wide", (("sm_count", 80.0), ("dram_gb_per_s", 640.0)))))
    gpu = load_gpu(path)
    assert (gpu.name, gpu.sm_count, gpu.dram_bytes_per_s) == ("wide", 80, 640e9)


def test_questions_come_back_from_json() -> None:
    asked = replace(ASKED, hypothetical=Hypothetical("t4", "wide", (("sm_count", 80.0),)))
    assert from_json(Asked, to_json(asked)) == asked


def test_kernels_are_found_by_their_text() -> None:
    source = """template <int T> __global__ void __launch_bounds__(256, 2) a(int n) {}
        // __global__ void hidden() {}
        extern "C" __global__ void
        b(float *x) { }
        __device__ void c() {}"""
    assert kernels_in(source) == ["a", "b"]


def test_errors_of_the_compiler_are_told_by_line_and_without_our_folder(tmp_path: Path) -> None:
    log = f'does not compile:\n{tmp_path}/kernel.cu(4): error: expected a ";"\n    x\n    ^\n1 error.'
    found = problem_of(CompileError(log, where=f"{tmp_path}/kernel.cu"), tmp_path)
    assert found == Problem("does not compile", "", ((4, 'expected a ";"'),))


def test_a_fault_is_told_at_its_line(tmp_path: Path) -> None:
    found = problem_of(IllegalAddress("out of bounds", where=f"{tmp_path}/kernel.cu:3", cure="Mend it."), tmp_path)
    assert (found.what, found.cure, found.lines) == ("out of bounds", "Mend it.", ((3, "out of bounds"),))


def test_no_text_of_others_is_html() -> None:
    evil = "<img src=x onerror=alert(1)>"
    row = replace(ROW, gpu=evil, limiter=evil, occupancy=evil, parts=(Part(evil, 1e-6, evil),))
    told = ForecastTold(evil, (row,), (evil,), (evil,), evil)
    lines = LinesTold(evil, (LineCost(1, 0.5, evil),), evil)
    for found in (
        panels.verdict(told), panels.rows(told), panels.resources(row), panels.occupancy(told),
        panels.lines(lines, evil), panels.notes(told), panels.comparison(told, told),
        panels.problem(Problem(evil, evil, ((1, evil),))),
    ):  # fmt: skip
        assert found
        assert "<img" not in found


def test_a_comparison_divides_the_times() -> None:
    faster = replace(TOLD, rows=(replace(ROW, seconds=1e-6),))
    assert "B is 2× faster" in panels.comparison(TOLD, faster)
    assert "B is 2× slower" in panels.comparison(faster, TOLD)
    assert "equally fast" in panels.comparison(TOLD, TOLD)


def test_a_row_stands_at_its_place_on_a_logarithmic_axis() -> None:
    # 2 µs lies in the middle of 1 and 4 µs.
    assert 'class="kc-dot" style="left:50.00%"' in panels.rows(TOLD)


def test_lines_that_were_deleted_meanwhile_are_not_marked() -> None:
    told = LinesTold("T4", (LineCost(1, 0.25, "issues"), LineCost(9, 0.75, "")), "the time")
    (mark,) = panels.decorations(told, 3)
    assert mark["line"] == 1
    assert mark["attributes"] == {
        "data-cost": "25 %",
        "style": "--cost:0.333",
        "title": "25 % of the time on T4; issues",
    }
