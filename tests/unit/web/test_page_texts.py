"""The texts of the page: launch files that it gives and takes, errors at their lines, and HTML that runs nothing."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.errors import CompileError, IllegalAddress, InputError
from kerncast.gpu import load_gpu
from kerncast.launch import parse_launches
from kerncast.typed_json import from_json, to_json
from kerncast.web import panels
from kerncast.web.launch_text import hypothetical_text, launch_text, with_launch
from kerncast.web.questions import Asked, ForecastTold, Hypothetical, LineCost, LinesTold, Part, Problem, Row
from kerncast.web.typed_launch import kernels_in
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
