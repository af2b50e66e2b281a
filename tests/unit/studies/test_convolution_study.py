"""The sweeps of a published convolution layer, beside the tables that its paper prints."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.errors import InputError, Refusal
from kerncast.launch import Buffer
from kerncast.read.given_layers import LayerSizes
from kerncast.report.convolution.sweep_picture import draw_sweeps
from kerncast.report.convolution.sweep_tables import csv_of, page_text, sweeps_object, write_study
from kerncast.report.pictures.picture_files import svg_text
from kerncast.studies import convolution
from kerncast.studies.convolution import (
    ConvolutionStudy,
    LayerPoint,
    Quantities,
    layer_launch,
    published_sweeps,
    study_convolution,
    sweep_of,
)
from tests.helpers.places import PACKAGE, ROOT


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


PRINTED = rows_of(ROOT / "tests" / "golden" / "layer_convolution_printed.csv")
ACTUAL = rows_of(PACKAGE / "data" / "convolution-layer-2025-measured.csv")
PARTS = ("compute_seconds", "memory_seconds", "latency_seconds")
LEVELS = ("l1_ops_per_byte", "l2_ops_per_byte", "dram_ops_per_byte")
COMPARED = ("flops", "int_ops", "ops", "seconds", "ops_per_s")


@pytest.fixture
def _no_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise Refusal("left out of this test")

    monkeypatch.setattr(convolution._Forecasts, "_simulated", refuse)


@pytest.fixture
def published(_no_simulation: None) -> ConvolutionStudy:
    """Return the two sweeps whose measured tables are published, without simulations."""
    return study_convolution(published_sweeps()[:2], "TITAN V")


def points_of(study: ConvolutionStudy) -> list[LayerPoint]:
    return [point for each in study.sweeps for point in each.points]


def test_given_columns_have_the_papers_digits(published: ConvolutionStudy) -> None:
    for row, point in zip(ACTUAL, points_of(published), strict=True):
        given = point.given
        assert (point.sizes.block, point.sizes.channels) == (int(row["block"]), int(row["channels"]))
        assert (given.flops, given.int_ops, given.ops) == (int(row["flops"]), int(row["int_ops"]), int(row["ops"]))
        assert given.seconds == pytest.approx(float(row["milliseconds"]) * 1e-3)
        assert given.ops_per_s is not None
        assert f"{given.ops_per_s / 1e12:.3f}" == row["tops"]


def test_predicted_columns_have_the_papers_digits(published: ConvolutionStudy) -> None:
    for row, point in zip(PRINTED, points_of(published), strict=True):
        found, times = point.predicted, point.times
        assert (found.flops, found.int_ops, found.ops) == (int(row["flops"]), int(row["int_ops"]), int(row["ops"]))
        for seconds, name in ((times.compute_seconds, "compute_ms"), (times.memory_seconds, "memory_ms")):
            assert seconds is not None
            assert f"{seconds * 1e3:.3f}" == row[name]
        assert found.seconds is not None
        assert found.ops_per_s is not None
        assert f"{found.seconds * 1e3:.3f}" == row["execution_ms"]
        assert f"{found.ops_per_s / 1e12:.6g}" == row["tops"]
        printed = [row[f"{level}_intensity"] for level in ("l1", "l2", "dram")]
        assert [str(int(getattr(found, name))) for name in LEVELS] == printed


def test_errors_are_those_that_the_paper_prints(published: ConvolutionStudy) -> None:
    columns = ("flops_error", "int_ops_error", "ops_error", "execution_error", "tops_error")
    for row, point in zip(PRINTED, points_of(published), strict=True):
        printed = [float(row[column].rstrip("%")) for column in columns]
        assert [100 * (error or 0.0) for error in point.errors(point.predicted)] == pytest.approx(printed, abs=0.021)


def test_scores_of_the_times(published: ConvolutionStudy) -> None:
    found = [(each.sweep.parameter, name, scores.n, f"{scores.mape:.1%}") for each in published.sweeps
             for name, scores in each.scores()]  # fmt: skip
    assert found == [
        ("block", "predicted", 4, "20.1%"), ("block", "predicted by latencies", 4, "47.5%"),
        ("channels", "predicted", 9, "108.2%"), ("channels", "predicted by latencies", 9, "145.6%"),
    ]  # fmt: skip


def test_what_is_refused_is_told_once_for_each_layer(published: ConvolutionStudy) -> None:
    # The default layer stands in both sweeps.
    assert len(published.refused) == 12
    assert published.refused[0] == "block 4, channels 32, kernel 3, size 32: not simulated: left out of this test."


@pytest.fixture(scope="module")
def simulated() -> list[LayerPoint]:
    """Return two layers of both sweeps: a small block, and two channels."""
    study = study_convolution([sweep_of("block=4"), sweep_of("channels=2")], "TITAN V")
    assert study.refused == ()
    return points_of(study)


def test_simulated_operations_are_those_that_nvprof_counted(simulated: list[LayerPoint]) -> None:
    """INT within 10 %, FLOPs within 0.5, but for two channels: there the paper's code rectified half of the outputs."""
    for point in simulated:
        flops, int_ops, ops, *_ = (error or 0.0 for error in point.errors(point.simulated))
        assert flops < (0.014 if point.sizes.channels == 2 else 0.005)
        assert int_ops < 0.1
        assert ops < 0.06
        assert all(getattr(point.simulated, name) for name in (*COMPARED, *LEVELS))


def test_levels_move_fewer_bytes_the_farther_they_are(simulated: list[LayerPoint]) -> None:
    """Weights and inputs come from DRAM once; outputs are still in L2 when the kernel ends."""
    for point in simulated:
        nearest, middle, farthest = (getattr(point.simulated, name) for name in LEVELS)
        assert nearest < middle < farthest
        channels = point.sizes.channels
        assert point.simulated.ops is not None
        read = 4 * (9 * channels**2 + 34**2 * channels)
        assert point.simulated.ops / farthest == pytest.approx(read, abs=4 * 32)  # arrays end inside of sectors


@pytest.mark.usefixtures("_no_simulation")
def test_a_users_own_values_go_before_the_published_ones_on_any_gpu(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("sweep,size,block,milliseconds\nsize,28,32,0.05\n,32,8,0.07\n", encoding="utf-8")
    study = study_convolution([sweep_of("size=14,28"), sweep_of("block=8")], "TITAN V", path)
    assert [each.given.seconds for each in points_of(study)] == [None, pytest.approx(5e-5), pytest.approx(7e-5)]
    other = study_convolution([sweep_of("size=28"), sweep_of("block=16")], "v100-pcie-16gb", path)
    assert [each.given.seconds for each in points_of(other)] == [pytest.approx(5e-5), None]
    assert other.gpu.clock_hz != study.gpu.clock_hz == 1.2e9


def test_a_sweeps_own_row_is_not_that_of_another(published: ConvolutionStudy) -> None:
    """The paper measured its default layer twice, and keeps back the other two times."""
    times = [each.points[index].given.seconds for each, index in zip(published.sweeps, (3, 4), strict=True)]
    assert times == [pytest.approx(64.64e-6), pytest.approx(64.384e-6)]


@pytest.mark.usefixtures("_no_simulation")
def test_reserved_sweeps_have_no_given_values() -> None:
    study = study_convolution(published_sweeps()[2:], "TITAN V")
    assert {each.given for each in points_of(study)} == {Quantities()}
    assert [each.sweep.values for each in study.sweeps] == [(3, 5, 7, 9, 11), (14, 28, 56, 112, 256)]
    assert all(not each.scores() for each in study.sweeps)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("width", "no sweep is called 'width'"), ("", "no sweep is called ''"), ("size=", "no values of size"),
        ("size=0", "no values"), ("size=14,,28", "no values"), ("size=5000", "no values"), ("size=1.5", "no values"),
        ("size=²", "no values"), (f"size={'9' * 9999}", "no values"), (f"size={','.join('1' * 65)}", "65 values"),
    ],
)  # fmt: skip
def test_sweeps_that_are_none(text: str, what: str) -> None:
    with pytest.raises(InputError, match=re.escape(what)):
        sweep_of(text)


def test_a_launch_covers_the_outputs_and_holds_its_arrays() -> None:
    launch = layer_launch(LayerSizes(block=8, channels=4, kernel=5, size=14))
    assert (launch.grid, launch.block) == ((2, 2, 4), (8, 8, 1))
    shapes = [each.value.shape for each in launch.arguments if isinstance(each.value, Buffer)]
    assert shapes == [(4, 4, 5, 5), (4, 18, 18), (4, 14, 14)]


@pytest.mark.usefixtures("_no_simulation")
def test_what_cannot_be_predicted_is_refused_by_name() -> None:
    study = study_convolution([sweep_of("block=33,64")], "TITAN V")
    assert "33 x 33 has 1089 threads" in study.refused[0]
    assert all(each.predicted == Quantities() for each in points_of(study))


def test_the_json_fields(published: ConvolutionStudy) -> None:
    found = sweeps_object(published)
    assert list(found) == ["schema_version", "study", "gpu", "gpu_id", "clock_hz", "sweeps", "notes", "refused"]
    assert list(found["sweeps"][0]) == ["sweep", "points", "scores"]
    point = found["sweeps"][0]["points"][0]
    assert list(point) == ["block", "channels", "kernel", "size", "given", "predicted", "simulated", "errors"]
    assert list(point["given"]) == list(COMPARED)
    assert list(point["predicted"]) == [*COMPARED, *LEVELS, *PARTS]
    assert list(point["simulated"]) == [*COMPARED, *LEVELS, "code"]
    assert list(point["errors"]) == ["predicted", "simulated"]
    assert list(point["errors"]["simulated"]) == list(COMPARED)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_csv_columns(published: ConvolutionStudy) -> None:
    rows = list(csv.DictReader(csv_of(published).splitlines()))
    assert len(rows) == 13
    ways = [*(f"given_{name}" for name in COMPARED), *(f"predicted_{name}" for name in (*COMPARED, *LEVELS))]
    ways += [*(f"simulated_{name}" for name in (*COMPARED, *LEVELS)), *(f"predicted_{name}" for name in PARTS)]
    errors = [f"{way}_{name}_error" for way in ("predicted", "simulated") for name in COMPARED]
    assert list(rows[0]) == ["sweep", "block", "channels", "kernel", "size", *ways, "code", *errors]
    assert (rows[0]["given_int_ops"], rows[0]["simulated_int_ops"]) == ("41025536", "")


def test_files_are_written_by_their_ending(published: ConvolutionStudy, tmp_path: Path) -> None:
    block = replace(published, sweeps=published.sweeps[:1])
    written = [path for name in ("a.csv", "a.md") for path in write_study(block, tmp_path / name, "words")]
    assert [path.name for path in written] == ["a.csv", "a.md", "convolution-sweeps.svg"]
    assert all(path.stat().st_size for path in written)
    with pytest.raises(InputError, match="cannot be written"):
        write_study(published, tmp_path / "none" / "a.csv", "words")


def test_the_picture_names_what_it_draws(published: ConvolutionStudy) -> None:
    text = svg_text(draw_sweeps(replace(published, sweeps=published.sweeps[:1])))
    assert all(word in text for word in ("given", "predicted by latencies", "INT operations", "no error known"))
    assert ">simulated<" not in text


def test_the_document_has_the_numbers_of_the_study(published: ConvolutionStudy) -> None:
    """Every row of the document's tables that needs no simulation is one that the command writes."""
    document = (ROOT / "docs" / "convolution.md").read_text(encoding="utf-8")
    page = page_text(published, "", "")
    rows = [row for row in page.splitlines() if row.startswith("| ") and "–" not in row]
    assert len(rows) > 40
    assert [row for row in rows if row not in document] == []
