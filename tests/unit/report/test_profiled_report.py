"""What kerncast profile prints: sections, annotated source, JSON, and a raw page that readers of ncu's take."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from kerncast.caveats import Caveat, CaveatKind
from kerncast.gpu import load_gpu
from kerncast.launch import Launch
from kerncast.metrics import metrics_of, word
from kerncast.prediction import Refused
from kerncast.profiles import Count, ProfiledLaunch, Sampling, SourceText
from kerncast.read.ncu import read_raw_page
from kerncast.report.profile.details import print_profiles
from kerncast.report.profile.export import profile_object, raw_page
from kerncast.report.profile.sections import waiting_lines
from kerncast.report.profile.source import annotated_lines, hot_lines, read_sources
from kerncast.report.words import describe_caveat
from tests.helpers.profiles import SAXPY, THREADS, TILED, WARP_STATES, WARPS, answered, line

TITAN_V = load_gpu("titan-v")
SOURCE = SourceText(
    "saxpy.cu",
    (
        "__global__ void saxpy(int n, float a, const float *x, float *y) {",
        "\tint i = blockIdx.x * blockDim.x + threadIdx.x;",
        "\tif (i < n) y[i] = a * x[i] + y[i];",
        "}",
    ),
)
TAKEN = Caveat.of(CaveatKind.GPU_NAME_AMBIGUOUS, "T", taken="titan-v", others="t4")
LAUNCHES = (ProfiledLaunch(SAXPY, TITAN_V, (), (SOURCE,)), ProfiledLaunch(TILED, TITAN_V, (TAKEN,)))


def printed(*launches: ProfiledLaunch, lines: bool = False, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_profiles(launches, console, lines=lines)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120, 140])
@pytest.mark.parametrize("lines", [False, True])
def test_nothing_is_wider_than_the_terminal(width: int, *, lines: bool) -> None:
    text = printed(*LAUNCHES, lines=lines, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text


def test_tables_do_not_fold_at_80_columns() -> None:
    text = printed(*LAUNCHES, width=80)
    for row in ("global load", "local store", "shared atomic", "L1, global loads", "0  saxpy.cu:2"):
        assert any(each.strip().startswith(row) for each in text.splitlines()), row


def test_sections_with_and_without_a_gpu() -> None:
    with_gpu, without = printed(LAUNCHES[1]), printed(replace(LAUNCHES[1], gpu=None))
    for title in (
        "Launch and occupancy", "Compute workload", "Memory workload", "Shared memory and atomics", "Instruction mix",
        "Warps", "Basic blocks", "Source hot spots", "Sample and origin",
    ):  # fmt: skip
        assert title in with_gpu
        assert title in without
    for words in (
        "bytes touched by a wave",
        "theoretical occupancy",
        "registers per thread",
        "DRAM, reads",
        "SASS opcode",
        "TITAN V",
        "Time and warp states",
        "long_scoreboard",
    ):
        assert words in with_gpu
        assert words not in without
    assert "PTX instruction" in without


def test_intervals_are_shown_where_counts_were_scaled() -> None:
    scaled, exact = printed(LAUNCHES[1]), printed(LAUNCHES[0])
    assert "655 k ±5.0 %" in scaled
    assert "240 / 4096" in scaled
    assert "±" not in exact
    assert "the whole grid" in exact
    alike = replace(SAXPY, sampling=Sampling(240, 4096))
    assert "all executed blocks did the same" in " ".join(printed(ProfiledLaunch(alike)).split())


def test_caveats_and_what_was_assumed_come_last() -> None:
    text = printed(LAUNCHES[1]).rstrip().splitlines()
    assert text[-2:] == [f"* {describe_caveat(each)}" for each in (TAKEN, *TILED.caveats)]


def test_names_that_look_like_markup_are_printed_as_they_are() -> None:
    odd = replace(SAXPY, kernel="k<[bold]>", lines=(replace(line(1, 5), file="[red].cu"),))
    named = (Caveat(CaveatKind.TUNED_WITH, "[link]"),)
    launch = ProfiledLaunch(odd, None, named, (SourceText("[red].cu", ("a[i] = [b]; // [/]",)),))
    text = printed(launch, lines=True)
    for words in ("k<[bold]>", "[red].cu", "a[i] = [b]; // [/]", "with [link]"):
        assert words in text


def test_annotated_source() -> None:
    (file,) = annotated_lines(SAXPY, (SOURCE,))
    assert file.title == "saxpy.cu"
    assert len(file.lines) == 4
    assert file.lines[2].split() == [
        *("3", "393", "k", "60.0", "%", "32", "2.1", "M", "4", "–"),
        *["if", "(i", "<", "n)", "y[i]", "=", "a", "*", "x[i]", "+", "y[i];"],
    ]
    assert file.lines[1].endswith("      int i = blockIdx.x * blockDim.x + threadIdx.x;")


def test_lines_far_from_those_that_ran_are_left_out() -> None:
    text = SourceText("saxpy.cu", tuple(f"line {n}" for n in range(1, 101)))
    (file,) = annotated_lines(replace(SAXPY, lines=(line(10, 1), line(50, 1))), (text,))
    assert [row.split()[0] for row in file.lines] == [*map(str, range(7, 14)), "⋮", *map(str, range(47, 54))]


def test_source_that_is_not_here_leaves_line_numbers() -> None:
    (file,) = annotated_lines(SAXPY, ())
    assert "not here" in file.title
    assert [row.split()[0] for row in file.lines] == ["2", "3"]
    past_the_end = replace(SAXPY, lines=(line(9, 1),))
    (file,) = annotated_lines(past_the_end, (SOURCE,))
    assert file.lines[-1].split()[0] == "9"


def test_hot_lines_begin_with_the_hottest() -> None:
    spots = hot_lines(SAXPY, (SOURCE,))
    assert [row.split()[0] for row in spots.lines] == ["saxpy.cu:3", "saxpy.cu:2"]


def test_where_warps_wait() -> None:
    spots = waiting_lines(WARP_STATES, (SOURCE,), all_lines=False)
    assert [row.split()[:6] for row in spots.lines] == [
        ["saxpy.cu:3", "94.0", "%", "long_scoreboard", "80%,", "lg_throttle"],
        ["saxpy.cu:2", "2.0", "%", "wait", "50%,", "short_scoreboard"],
    ]
    assert spots.lines[0].endswith("  if (i < n) y[i] = a * x[i] + y[i];")
    in_order = waiting_lines(WARP_STATES, (), all_lines=True)
    assert [row.split()[0] for row in in_order.lines] == ["saxpy.cu:2", "saxpy.cu:3"]


def test_json_of_warp_states() -> None:
    (kernel,) = profile_object(LAUNCHES[:1], (), lines=True)["kernels"]
    found = kernel["warp_states"]
    assert found["seconds"] == 22e-6
    assert found["warp_cycles"]["long_scoreboard"] == 300_000
    assert found["lines"][0] == {
        "file": "saxpy.cu", "line": 2, "warp_cycles": {"wait": 4000, "short_scoreboard": 4000},
    }  # fmt: skip
    (kernel,) = profile_object(LAUNCHES[:1], (), lines=False)["kernels"]
    assert "lines" not in kernel["warp_states"]
    (kernel,) = profile_object((ProfiledLaunch(SAXPY),), (), lines=True)["kernels"]
    assert "warp_states" not in kernel


def test_only_files_of_the_launch_are_read(tmp_path: Path) -> None:
    (tmp_path / "saxpy.cu").write_bytes(b"a\n\xff\n")
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "tile.cuh").write_text("b\n")
    launch = Launch(tmp_path / "saxpy.cu", "saxpy", (1, 1, 1), (1, 1, 1), include_dirs=(tmp_path / "include",))
    files = ("saxpy.cu", "tile.cuh", "gone.cuh", "include")
    texts = read_sources(replace(SAXPY, lines=tuple(replace(line(1, 1), file=file) for file in files)), launch)
    assert [(text.file, text.lines) for text in texts] == [("saxpy.cu", ("a", "\ufffd")), ("tile.cuh", ("b",))]


def test_no_file_that_a_source_only_names_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "saxpy.cu").write_text("a\n")
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    (folder / "link.cuh").symlink_to(secret)
    with (folder / "huge.cuh").open("wb") as file:
        file.truncate(3 * 2**30)
    launch = Launch(folder / "saxpy.cu", "saxpy", (1, 1, 1), (1, 1, 1))
    files = ("saxpy.cu", str(secret), "../secret", "link.cuh", "huge.cuh", "/dev/zero")
    texts = read_sources(replace(SAXPY, lines=tuple(replace(line(1, 1), file=file) for file in files)), launch)
    assert [text.file for text in texts] == ["saxpy.cu"]


def test_the_raw_page_reads_back() -> None:
    rows = read_raw_page(raw_page(LAUNCHES).splitlines())
    for row, launch in zip(rows, LAUNCHES, strict=True):
        profile = launch.profile
        assert (row.number, row.kernel, row.grid, row.block) == (
            profile.index, profile.kernel, profile.grid, profile.block,
        )  # fmt: skip
        assert row.compute_capability == "7.0"
        expected = {each.name: (each.count.value, each.unit) for each in metrics_of(profile, TITAN_V)}
        assert {each.name: each.unit for each in row.metrics} == {name: unit for name, (_, unit) in expected.items()}
        read = {each.name: each.value for each in row.metrics}
        assert read == pytest.approx({name: value for name, (value, _) in expected.items()})


def test_totals_in_the_raw_page_are_whole() -> None:
    third = answered(SAXPY, fp32_flops=Count.exact(16.384))
    (row,) = read_raw_page(raw_page([ProfiledLaunch(third)]).splitlines())
    assert row.value("kerncast__fp32_flops.sum") == 16
    assert row.compute_capability is None


def test_pandas_reads_the_raw_page() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(io.StringIO(raw_page(LAUNCHES)))
    assert list(table["Kernel Name"][1:]) == ["saxpy", "tiled<16>"]
    assert table["smsp__inst_executed.sum"][0] == "inst"
    assert float(table["smsp__inst_executed.sum"][1]) == 12 * WARPS


def test_an_empty_raw_page_has_a_heading() -> None:
    assert read_raw_page(raw_page([]).splitlines()) == ()


def test_json_by_its_contract() -> None:
    refused = (Refused("k", 2, None, "it traps"),)
    found = json.loads(json.dumps(profile_object(LAUNCHES, refused, lines=False), allow_nan=False))
    assert found["schema_version"] == "1.0"
    assert found["refused"] == [{"kernel": "k", "launch": 2, "gpu": None, "reason": "it traps"}]
    saxpy, tiled = found["kernels"]
    assert (saxpy["kernel"], saxpy["launch"], saxpy["gpu"]) == ("saxpy", 0, "titan-v")
    assert saxpy["metrics"]["smsp__inst_executed.sum"] == {
        "value": 12 * WARPS, "unit": "inst", "low": 12 * WARPS, "high": 12 * WARPS, "origin": "disassembled",
    }  # fmt: skip
    assert isinstance(saxpy["metrics"]["smsp__inst_executed.sum"]["value"], int)
    assert "lines" not in saxpy
    assert saxpy["opcodes"][0]["opcode"] == "IMAD"
    assert tiled["caveats"] == [each["text"] for each in tiled["caveat_details"]]
    assert tiled["caveat_details"][0] == {
        "kind": "gpu-name-ambiguous", "subject": "T", "numbers": {}, "texts": {"taken": "titan-v", "others": "t4"},
        "text": describe_caveat(TAKEN),
    }  # fmt: skip
    assert tiled["caveat_details"][1]["numbers"] == {"executed": 240, "blocks": 4096}
    metric = tiled["metrics"]["kerncast__ptx_inst_executed.sum"]
    assert metric["low"] < metric["value"] < metric["high"]
    for name, metric in (tiled["metrics"] | saxpy["metrics"]).items():
        assert metric["unit"] == word(name).unit


def test_json_with_lines_and_without_a_gpu() -> None:
    (kernel,) = profile_object([ProfiledLaunch(SAXPY)], (), lines=True)["kernels"]
    assert kernel["gpu"] is None
    assert "opcodes" not in kernel
    assert not any(word(name).needs_gpu for name in kernel["metrics"])
    assert [(each["line"], each["flops"]["value"]) for each in kernel["lines"]] == [(2, 0), (3, 2 * THREADS)]
    assert kernel["sampling"] == {"blocks_executed": 4096, "blocks": 4096, "is_whole_grid": True}


def test_a_source_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "saxpy.cu"
    path.write_text("\tint i; // \x1b[2J\x1b[31m\x07 é\n", encoding="utf-8")
    where = Launch(path, "saxpy", (1, 1, 1), (32, 1, 1), 0, ())
    (text,) = read_sources(SAXPY, where)
    assert text.lines == ("\tint i; // \\x1b[2J\\x1b[31m\\x07 é",)
