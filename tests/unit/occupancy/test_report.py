"""Occupancy as JSON, CSV, tables, sentences and a picture: fields and columns are a promise."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kerncast.caveats import Caveat, CaveatKind
from kerncast.gpu import CarveoutWish, list_gpus, load_architecture, load_gpu
from kerncast.occupancy import BlockRequest, Limiter
from kerncast.occupancy.advice import OccupancyCase
from kerncast.report.occupancy.curves_picture import MOST_ROWS, draw_occupancy, picture_rows
from kerncast.report.occupancy.tables import (
    CURVE_COLUMNS,
    LIMITER_WORDS,
    PARAMETER_WORDS,
    advice_notes,
    curve_table,
    curves_csv,
    occupancy_object,
    occupancy_sentences,
    occupancy_table,
    resource_table,
)
from kerncast.report.pictures.picture_files import save_picture


def case_on(
    gpu_id: str, request: BlockRequest, kernel: str | None = None, wish: CarveoutWish | None = None
) -> OccupancyCase:
    gpu = load_gpu(gpu_id)
    launch = None if kernel is None else 0
    return OccupancyCase(request, gpu.architecture, gpu, kernel=kernel, launch=launch, wish=wish)


VOLTA = case_on("titan-v", BlockRequest(256, 40))
LIMITED = case_on("a100-sxm-80gb", BlockRequest(64, 16, 30_000, 30_000), "stencil")
NONE_FITS = case_on("rtx-4090", BlockRequest(1024, 80))
PASCAL = OccupancyCase(BlockRequest(64, 16), load_architecture("sm_62"), wish=CarveoutWish(percent=50))


def test_json_fields() -> None:
    table = occupancy_object(VOLTA)
    assert list(table) == [
        "kernel", "launch", "gpu", "gpu_id", "compute_capability", "threads_per_block", "registers_per_thread",
        "shared_bytes_per_block", "static_shared_bytes_per_block", "dynamic_shared_bytes_per_block",
        "barriers_per_block", "max_threads_per_block", "blocks_per_sm", "warps_per_sm", "occupancy", "limiter",
        "limits", "resources", "reason", "clusters", "carveout", "one_more_block", "best_block_size",
        "smaller_block_size", "larger_block_size",
    ]  # fmt: skip
    assert (table["gpu_id"], table["compute_capability"], table["limiter"]) == ("titan-v", "7.0", "registers")
    assert table["resources"]["registers"] == {"per_block": 10_240, "per_sm": 65_536, "used": 61_440}
    assert table["carveout"] == {"shared_bytes": 0, "l1_bytes": 131_072, "preferred_bytes": None}
    changes = [{"resource": "registers", "now": 40, "at_most": 32}]
    assert table["one_more_block"] == {"blocks_per_sm": 7, "changes": changes, "carveout_bytes": None}
    best = {"threads_per_block": 768, "blocks_per_sm": 2, "warps_per_sm": 48, "min_grid_blocks": 160}
    assert table["best_block_size"] == best
    assert table["smaller_block_size"] is table["larger_block_size"] is table["reason"] is None


def test_json_of_what_does_not_fit_or_has_no_gpu() -> None:
    table = occupancy_object(NONE_FITS)
    assert (table["blocks_per_sm"], table["limiter"], table["carveout"]) == (0, "none-fits", None)
    assert "over the 65536 of a block" in table["reason"]
    table = occupancy_object(PASCAL)
    assert (table["gpu"], table["gpu_id"]) == ("capability 6.2", "sm_62")
    assert table["best_block_size"]["min_grid_blocks"] is None
    assert occupancy_object(case_on("rtx-4090", BlockRequest(64, 300)))["best_block_size"] is None


def test_curves_as_json() -> None:
    curves = occupancy_object(VOLTA, with_curves=True)["curves"]
    assert [curve["parameter"] for curve in curves] == [
        "threads_per_block", "registers_per_thread", "shared_bytes_per_block",
    ]  # fmt: skip
    assert curves[1]["own"] == 40
    assert curves[1]["steps"][1] == {
        "first": 33, "last": 40, "blocks_per_sm": 6, "warps_per_sm": 48, "occupancy": 0.75, "limiter": "registers",
    }  # fmt: skip


def test_curves_as_csv() -> None:
    text = curves_csv([LIMITED, PASCAL])
    assert text.splitlines()[0] == (
        "kernel,launch,gpu,gpu_id,parameter,first,last,blocks_per_sm,warps_per_sm,occupancy,limiter,is_own"
    )
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == CURVE_COLUMNS
    assert {(row["kernel"], row["launch"], row["gpu"]) for row in rows} == {
        ("stencil", "0", "A100 SXM 80GB"), ("", "", "capability 6.2"),
    }  # fmt: skip
    own = [row for row in rows if row["is_own"] == "1" and row["kernel"]]
    assert [row["parameter"] for row in own] == ["threads_per_block", "registers_per_thread", "shared_bytes_per_block"]
    assert {row["blocks_per_sm"] for row in own} == {"2"}


def test_tables() -> None:
    assert occupancy_table([VOLTA]).rows == (
        ("TITAN V", "256", "40", "0 B", "6", "48", "75 %", "registers", "≤ 32 registers"),
    )
    assert occupancy_table([LIMITED]).rows[0][0] == "stencil"
    assert resource_table(case_on("titan-v", BlockRequest(1, 16))).heading[0] == "1 thread on TITAN V"
    assert occupancy_table([replace(LIMITED, launch=2)]).rows[0][0] == "stencil (launch 2)"
    assert [row[0] for row in resource_table(NONE_FITS).rows][1] == "registers (limits)"
    assert resource_table(VOLTA).rows[1] == ("registers (limits)", "10240", "65536", "4096", "6 blocks")
    _, registers, _ = VOLTA.curves
    marked = [row for row in curve_table(VOLTA, registers).rows if row[0].startswith("> ")]
    assert marked == [("> 40", "6", "48", "75 %", "█" * 12, "registers")]


def test_full_occupancy_asks_for_nothing() -> None:
    full = case_on("titan-v", BlockRequest(256, 32))
    assert occupancy_table([full]).rows[0][-1] == "–"
    assert not any("at most" in note for note in advice_notes(full))


def test_sentences() -> None:
    assert next(advice_notes(VOLTA)) == "7 blocks per SM with at most 32 registers per thread (8 fewer than 40)"
    caveats, texts = zip(*occupancy_sentences([], [VOLTA, LIMITED, NONE_FITS, PASCAL]), strict=True)
    assert caveats[0] == Caveat.of(CaveatKind.SHARED_MEMORY_OPT_IN, limit=48 * 1024)
    assert caveats[1].kind is CaveatKind.NO_BLOCK_FITS
    assert caveats[1].details["reason"].startswith("1024 threads x 80 registers take 81920 registers")
    assert caveats[2] == Caveat(CaveatKind.CARVEOUT_HAS_NO_EFFECT)
    assert [text.partition(": ")[0] for text in texts] == ["A100 SXM 80GB", "RTX 4090", "capability 6.2"]
    bounded = OccupancyCase(BlockRequest(512, 16), VOLTA.architecture, kernel="k", launch=0, most_threads=256)
    ((caveat, _),) = occupancy_sentences([], [bounded])
    assert caveat == Caveat.of(CaveatKind.OVER_LAUNCH_BOUNDS, threads=512, most=256)
    assert "blocks of 256" in " ".join(advice_notes(bounded))
    assert occupancy_object(bounded)["max_threads_per_block"] == 256
    assert occupancy_object(VOLTA)["max_threads_per_block"] is None


def test_a_sentence_about_many_gpus_is_said_once() -> None:
    cases = [OccupancyCase(BlockRequest(1024, 80), gpu.architecture, gpu) for gpu in list_gpus()]
    notes = occupancy_sentences([], cases)
    assert len(notes) <= 3
    assert all(" more: " in text or ": " in text for _, text in notes)


def test_every_limiter_and_parameter_has_words() -> None:
    assert set(LIMITER_WORDS) == set(Limiter)
    assert {curve.parameter for curve in VOLTA.curves} == set(PARAMETER_WORDS)


def test_rows_of_the_picture() -> None:
    cases = [OccupancyCase(BlockRequest(256, 40, 20_000), gpu.architecture, gpu) for gpu in list_gpus()]
    rows = picture_rows(cases)
    assert sum(map(len, rows)) == len(cases)
    assert len(rows) <= MOST_ROWS, "all GPUs fit into one picture"
    assert all(case.found == row[0].found for row in rows for case in row)


def test_what_the_picture_draws() -> None:
    figure = draw_occupancy([VOLTA, NONE_FITS, case_on("gtx-680", BlockRequest(64, 16))])
    assert len(figure.axes) == 9
    threads, registers, shared = figure.axes[:3]
    drawn = [np.array(line.get_data()).T.tolist() for line in registers.lines]
    for step in VOLTA.curves[1].steps:
        assert [[max(0, step.first - 1), step.found.warps_per_sm], [step.last, step.found.warps_per_sm]] in drawn
    assert [[40, 48]] in drawn, "the block itself"
    assert [panel.get_xlabel() for panel in (threads, registers, shared)] == [
        "threads per block", "registers per thread", "shared memory per block in KiB",
    ]  # fmt: skip
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[0] == "this block"
    assert "not one block fits" in labels


def test_the_picture_names_a_wished_carveout() -> None:
    wished = replace(VOLTA, wish=CarveoutWish(percent=50))
    headings = [draw_occupancy([case]).subfigs[0].get_suptitle() for case in (VOLTA, wished)]
    assert headings == [
        "TITAN V – 256 threads, 40 registers, 0 B shared: 6 x 8 warps, 75 %",
        "TITAN V – 256 threads, 40 registers, 0 B shared, carve-out 64 KiB: 6 x 8 warps, 75 %",
    ]


def test_a_block_beyond_the_limits_is_shown_at_the_edge() -> None:
    beyond = case_on("rtx-4090", BlockRequest(2**31 - 1, 300, 0, 2**31 - 1))
    for panel, words in zip(draw_occupancy([beyond]).axes, ("2147483647", "300", "2.097e+06"), strict=True):
        last = panel.get_xlim()[1]
        assert last < 1100
        assert [[last, 0]] in [np.array(line.get_data()).T.tolist() for line in panel.lines]
        assert panel.texts[0].get_text().startswith(f"{words}: over ")


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures_are_written_and_repeat(tmp_path: Path, ending: str) -> None:
    files = [tmp_path / f"{name}.{ending}" for name in ("one", "two")]
    for file in files:
        save_picture(draw_occupancy([VOLTA]), file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].stat().st_size > 5_000
