"""Projections as bars and rows: heights, intervals and marks are the forecast's numbers."""

import csv
import io
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kerncast.errors import InputError
from kerncast.models import Question, model_named
from kerncast.prediction import Prediction, Term, Timing, Transfer
from kerncast.report.pictures.picture_files import check_picture, save_picture, shown_name, svg_text
from kerncast.report.pictures.projection import Beside, draw_projection, projection_csv
from tests.helpers.transfers import case, profiled

SVG = "{http://www.w3.org/2000/svg}"
RUN = Transfer("V100", "v100-pcie-32gb", 4e-3, ())


def forecast(
    gpu: str = "A100", seconds: float = 2e-3, launch: int = 0, kernel: str = "made_up", run: Transfer | None = RUN
) -> Prediction:
    """Return a forecast whose interval reaches from half to twice its time."""
    return Prediction(
        kernel, launch, gpu, gpu.lower(), seconds, seconds / 2, seconds * 2, 0.9, Timing.PROFILER, "dram",
        (Term("dram", seconds),), (), "ceilings", run,
    )  # fmt: skip


def drawn(predictions: Sequence[Prediction], beside: Beside | None = None) -> Any:
    """Draw with every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = draw_projection(predictions, beside)
        assert found is not None
        found.canvas.draw()
    return found


def bars(panel: Any) -> list[tuple[float, float]]:
    """Return the middle and the height of each bar, from left to right."""
    boxes = [patch.get_bbox() for patch in panel.patches]
    return sorted((float(box.x0 + box.x1) / 2, float(box.y1)) for box in boxes)


def labels_of(panel: Any) -> list[str]:
    """Return what the legend says."""
    figure = panel.figure.get_figure(root=True)
    return [str(text.get_text()) for text in figure.legends[0].get_texts()]


def test_bars_are_the_run_and_each_forecast_with_its_interval() -> None:
    (panel,) = drawn([forecast("A100", 2e-3), forecast("H100", 1e-3)]).axes
    assert [height for _, height in bars(panel)] == [4e-3, 2e-3, 1e-3]
    ends = [tuple(float(y) for _, y in line.get_segments()[0]) for line in panel.collections]
    assert ends == [(1e-3, 4e-3), (0.5e-3, 2e-3)]
    assert not panel.lines
    across = [x for x, _ in bars(panel)]
    assert [float(line.get_segments()[0][0][0]) for line in panel.collections] == pytest.approx(across[1:])
    assert panel.get_ylim()[0] == 0
    assert panel.get_ylim()[1] >= 4e-3


def test_a_published_span_does_not_pass_for_an_interval() -> None:
    """The span of ceilings claims no share of times; the interval of a simulation does."""
    simulated = replace(forecast("H100", 1e-3), model="simulation")
    (panel,) = drawn([forecast("A100"), simulated]).axes
    styles = [line.get_linestyle()[0][1] for line in panel.collections]
    assert styles[0] is not None  # dots
    assert styles[1] is None
    assert labels_of(panel)[-2:] == ["90% interval of the forecast", "published span of ceilings, no interval"]


def test_no_bar_covers_another() -> None:
    group = [forecast(f"GPU {number}", launch=launch) for launch in range(3) for number in range(4)]
    (panel,) = drawn(group).axes
    boxes = sorted((patch.get_bbox().x0, patch.get_bbox().x1) for patch in panel.patches)
    assert len(boxes) == 15
    assert all(right <= left + 1e-12 for (_, right), (left, _) in pairwise(boxes))


def test_a_target_keeps_its_place_where_another_was_refused() -> None:
    (panel,) = drawn([forecast("A100"), forecast("H100"), forecast("H100", launch=1)]).axes
    places = [x for x, _ in bars(panel)]
    assert places[4] - 1 == pytest.approx(places[2])
    labels = labels_of(panel)
    assert labels[:3] == ["V100, measured", "A100, forecast", "H100, forecast"]


def test_the_legend_names_targets_that_the_first_kernel_lacks() -> None:
    (panel,) = drawn([forecast("A100"), forecast("H100", launch=1)]).axes
    labels = labels_of(panel)
    assert {"A100, forecast", "H100, forecast"} <= set(labels)


def test_times_far_apart_are_on_a_logarithmic_axis_that_holds_them_all() -> None:
    (panel,) = drawn([forecast(seconds=1e-6), forecast(seconds=3e-3, launch=1)]).axes
    assert panel.get_yscale() == "log"
    low, high = panel.get_ylim()
    assert low < 0.5e-6
    assert high > 6e-3
    ticks = [tick.get_text() for tick in panel.get_yticklabels()]
    assert len(ticks) == len(set(ticks))
    assert {"1 µs", "10 µs", "100 µs", "1 ms"} <= set(ticks)


def test_an_interval_from_zero_can_be_drawn() -> None:
    wide = replace(forecast(seconds=1e-6), low=0.0, high=1.0)
    assert drawn([wide]).axes[0].get_ylim()[0] > 0


def test_times_beside_stand_over_their_bars() -> None:
    beside = Beside("simulated", "simulated on the target", (3e-3, 0.9e-3))
    (panel,) = drawn([forecast("A100", 2e-3), forecast("H100", 1e-3)], beside).axes
    marks = [(float(x[0]), float(y[0])) for x, y in (m.get_data() for m in panel.lines if m.get_marker() == "D")]
    assert marks == [pytest.approx((x, y)) for (x, _), y in zip(bars(panel)[1:], (3e-3, 0.9e-3), strict=True)]
    labels = labels_of(panel)
    assert labels[0] == "V100, simulated"
    assert labels[-1] == "simulated on the target"


def test_of_many_kernels_the_longest_are_drawn_in_their_order() -> None:
    many = [
        forecast(launch=number, kernel=f"k{number}", run=replace(RUN, measured_seconds=1e-3 * (1 + number * 7 % 30)))
        for number in range(30)
    ]
    (panel,) = drawn(many).axes
    names = [tick.get_text() for tick in panel.get_xticklabels()]
    longest = sorted(range(30), key=lambda number: -(number * 7 % 30))[:24]
    assert names == [f"k{number}" for number in sorted(longest)]


def test_thirty_gpus_are_told_apart(tmp_path: Path) -> None:
    figure = drawn([forecast(f"GPU {number}", 1e-3 * (1 + number % 5)) for number in range(30)])
    (panel,) = figure.axes
    looks = {(patch.get_facecolor(), patch.get_hatch()) for patch in panel.patches}
    assert len(looks) == 31
    box = figure.legends[0].get_window_extent()
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.x1
    save_picture(figure, tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size < 1_000_000


def test_launches_of_one_kernel_are_told_apart_and_long_names_cut() -> None:
    long = "void reduce<float, " + "8, " * 100 + ">(const T1 *)"
    (panel,) = drawn([forecast(launch=0), forecast(launch=1), forecast(launch=2, kernel=long)]).axes
    names = [tick.get_text() for tick in panel.get_xticklabels()]
    assert names[:2] == ["made_up #0", "made_up #1"]
    assert names[2].startswith("reduce<float")
    assert len(names[2]) <= 28


@pytest.mark.parametrize(
    ("kernel", "shown"),
    [
        ("saxpy", "saxpy"),
        ("heat_step(const float *, float *, int)", "heat_step"),
        ("void app::total<float, 256>(const T1 *, T1 *, int)", "app::total<float, 256>"),
        ("void sum<(int)256>(float const *, float*)", "sum<(int)256>"),
        ("void apply(void (*)(int), float *)", "apply"),
        ("(anonymous namespace)::k(int)", "(anonymous namespace)::k"),
        ("())", "())"),
        ("(int)", "(int)"),
        ("", ""),
        (")" * 50, ")" * 27 + "…"),
    ],
)
def test_names_are_shown_without_return_type_and_parameters(kernel: str, shown: str) -> None:
    assert shown_name(kernel, 28) == shown


def test_names_are_text_and_never_mathematics() -> None:
    name = "f<$x^2$> & \\frac{a}"
    picture = ET.fromstring(svg_text(drawn([forecast(kernel=name)])))  # noqa: S314  our own
    words = {node.text for node in picture.iter(f"{SVG}text")}
    assert name in words
    assert "nan" not in {str(word).lower() for word in words}


def test_without_a_run_there_are_no_bars() -> None:
    assert draw_projection([]) is None
    assert draw_projection([forecast(run=None)]) is None


def test_the_csv_holds_what_the_forecasts_hold() -> None:
    one = profiled(seconds=3e-3)
    found = [model_named("ceilings").predict(case(one, gpu), Question(Timing.PROFILER)) for gpu in ("t4", "rtx-3090")]
    rows = list(csv.DictReader(io.StringIO(projection_csv([*found, forecast(run=None)]))))
    for row, p in zip(rows, found, strict=False):
        assert (row["kernel"], int(row["launch"]), row["gpu"], row["model"]) == (p.kernel, p.launch, p.gpu, "ceilings")
        assert [float(row[name]) for name in ("seconds", "low", "high")] == [p.seconds, p.low, p.high]
        assert float(row["measured_seconds"]) == 3e-3
    assert rows[2]["measured_seconds"] == ""


def test_hostile_names_stay_one_cell() -> None:
    name = 'a,"b"\nc'
    (row,) = csv.DictReader(io.StringIO(projection_csv([forecast(kernel=name)])))
    assert row["kernel"] == 'a,"b"\\nc'


@pytest.mark.parametrize("name", ["bars", "bars.jpg", "bars.csv.gz"])
def test_a_name_that_says_no_format_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="not a name for a picture"):
        check_picture(Path(name))


def test_a_folder_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        save_picture(drawn([forecast()]), tmp_path / "none" / "bars.svg")
