"""Rooflines as pictures and rows: every line and marker is where the numbers put it."""

import csv
import io
import math
import warnings
import xml.etree.ElementTree as ET
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast.models.transfer.ceilings import kernel_rooflines
from kerncast.profiles import FloatMix, KernelRoofline, LevelCeiling
from kerncast.report.pictures.picture_files import save_picture, svg_text
from kerncast.report.pictures.roofline import draw_rooflines, drawable, extents, roofline_csv, rooflines_of_cases
from tests.helpers.profiles import answered, with_counts
from tests.helpers.transfers import NOTHING, case, exact, profiled

MATHEMATICS = "square<$x^2$> & \\frac{1}{2} _ %"
LONG = "void " + "ns::" * 40 + "kernel<" + ", ".join(f"Policy<{n}, float>" for n in range(60)) + ">(const T1 *)"
SVG = "{http://www.w3.org/2000/svg}"


def level(name: str, intensity: float, most: float, ceiling: float, *, is_measured: bool = True) -> LevelCeiling:
    """Return a level of a kernel of 6 GFLOP."""
    return LevelCeiling(name, 6e9 / intensity, intensity, most, ceiling, is_measured, most * 1.25)


#: The worked example of docs/projecting.md on the V100 of the paper's Table 1.
V100 = KernelRoofline(
    kernel="made_up",
    gpu="V100",
    flops=6e9,
    max_flops_per_s=6890e9,
    mix_flops_per_s=5167.5e9,
    ceiling_flops_per_s=3875.6e9,
    levels=(
        level("l1", 6 / 12.5298, 13963e9, 3386.4e9),
        level("l2", 6 / 4.152, 2460e9, 1384e9, is_measured=False),
        level("dram", 6 / 1.692, 846e9, 846e9),
    ),
    low_flops_per_s=1200e9,
    high_flops_per_s=1200e9,
    is_projected=False,
    is_compute_measured=True,
    peak_flops_per_s=7000e9,
)
H100 = replace(
    V100, gpu="H100", max_flops_per_s=24979e9, peak_flops_per_s=25600e9, low_flops_per_s=2705e9,
    high_flops_per_s=2989.2e9, is_projected=True,
)  # fmt: skip


def figure_of(*rooflines: KernelRoofline) -> Any:
    """Draw rooflines, with every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = draw_rooflines(rooflines)
        assert found is not None
        found.canvas.draw()
    return found


def panels_of(figure: Any) -> list[Any]:
    """Return the panels that are shown."""
    return [panel for panel in figure.axes if panel.get_visible()]


def diagonals(panel: Any, style: str | None = None) -> list[tuple[float, float]]:
    """Return bandwidth and upper end of every diagonal of a panel: y / x is the same at both ends."""
    found = []
    for line in panel.lines:
        across, up = (np.asarray(line.get_data()[axis], dtype=float) for axis in (0, 1))
        if len(across) == 2 and up[0] != up[1] and style in {None, line.get_linestyle()}:
            assert up[0] / across[0] == pytest.approx(up[1] / across[1])
            found.append((float(up[0] / across[0]), float(up[1])))
    return found


def markers(panel: Any) -> dict[str, tuple[float, float]]:
    """Return the place of each marker."""
    return {
        str(line.get_marker()): (float(line.get_data()[0][0]), float(line.get_data()[1][0]))
        for line in panel.lines
        if line.get_marker() not in {"None", None, ""} and len(line.get_data()[0]) == 1
    }


def test_axes_are_logarithmic_and_the_same_in_all_panels() -> None:
    panels = panels_of(figure_of(V100, H100))
    assert [(panel.get_xscale(), panel.get_yscale()) for panel in panels] == [("log", "log")] * 2
    assert panels[0].get_xlim() == panels[1].get_xlim()
    assert panels[0].get_ylim() == panels[1].get_ylim()


def test_a_diagonal_per_level_ends_at_the_compute_roof() -> None:
    panel = panels_of(figure_of(V100))[0]
    assert sorted(diagonals(panel, "-")) == [pytest.approx((846e9, 6890e9)), pytest.approx((13963e9, 6890e9))]
    # 1.25 is what the data sheet says above what was measured; L2 was not measured and has no second line.
    dashed = [rate for rate, _ in diagonals(panel, "--")]
    assert sorted(dashed) == [pytest.approx(846e9 * 1.25), pytest.approx(2460e9), pytest.approx(13963e9 * 1.25)]


def test_a_panel_is_of_one_gpu_and_of_what_was_measured_or_projected() -> None:
    """A run that is projected onto its own GPU, too."""
    panels = panels_of(figure_of(V100, replace(V100, is_projected=True)))
    assert [panel.get_title() for panel in panels] == ["V100 (measured)", "V100 (projected)"]


def test_each_precision_of_a_panel_has_its_roof() -> None:
    """Kernels of FP32 and FP64 side by side; diagonals end at the higher of both roofs."""
    single = replace(V100, kernel="single", max_flops_per_s=13780e9, peak_flops_per_s=14000e9)
    other = replace(V100, kernel="another")
    (panel,) = panels_of(figure_of(V100, single, other))
    solid = [
        float(line.get_ydata()[0])
        for line in panel.lines
        if line.get_linestyle() == "-" and line.get_linewidth() == 1.6 and len(set(line.get_ydata())) == 1
    ]
    assert sorted(solid) == [6890e9, 13780e9]
    assert {top for _, top in diagonals(panel, "-")} == {13780e9}
    # A level that the first kernel does not use is another's.
    (panel,) = panels_of(figure_of(replace(V100, levels=V100.levels[2:]), other))
    assert len(diagonals(panel, "-")) == 2


def test_each_compute_roof_names_its_precision_and_labels_stand_apart() -> None:
    kinds = {"FP64": 6890e9, "FP32+FP64": 8900e9, "FP32": 13780e9}
    (panel,) = panels_of(figure_of(*(replace(V100, max_flops_per_s=m, precision=p) for p, m in kinds.items())))
    labels = [text for text in panel.texts if "FLOP/s" in text.get_text()]
    assert {text.get_text() for text in labels} == {"6.89 TFLOP/s FP64", "8.9 TFLOP/s FP32+FP64", "13.8 TFLOP/s FP32"}
    boxes = [text.get_window_extent() for text in labels]
    assert not any(one.overlaps(other) for number, one in enumerate(boxes) for other in boxes[:number])


def test_the_precision_of_a_kernel_is_that_of_its_operations() -> None:
    for bits in (16, 32, 64):
        both = kernel_rooflines(case(profiled("v100-pcie-16gb", bits=bits), "h100-pcie"))
        assert {each.precision for each in both} == {f"FP{bits}"}


@pytest.mark.parametrize(("single", "name"), [(1e5, "FP64"), (6e8, "FP32+FP64")])
def test_a_trace_of_another_precision_is_not_named(single: float, name: str) -> None:
    double = profiled("v100-pcie-16gb", bits=64)
    part = FloatMix(32, exact(single / 4), exact(single / 4), exact(single / 4))
    mixed = with_counts(double, part.by_name)
    assert {each.precision for each in kernel_rooflines(case(mixed, "h100-pcie"))} == {name}


def test_the_ceilings_of_the_kernel_are_dotted_and_end_at_its_compute_ceiling() -> None:
    panel = panels_of(figure_of(V100))[0]
    expected = [(846e9, 3875.6e9), (1384e9, 3875.6e9), (3386.4e9, 3875.6e9)]
    assert sorted(diagonals(panel, ":")) == [pytest.approx(pair) for pair in expected]
    levels = [float(line.get_data()[1][0]) for line in panel.lines if line.get_linestyle() == ":"]
    assert levels.count(3875.6e9) == 1


def test_markers_stand_at_the_intensities_and_the_measured_performance() -> None:
    found = markers(panels_of(figure_of(V100))[0])
    assert found["o"] == pytest.approx((6 / 12.5298, 1200e9))
    assert found["s"] == pytest.approx((6 / 4.152, 1200e9))
    assert found["D"] == pytest.approx((6 / 1.692, 1200e9))


def test_the_projected_band_spans_the_interval() -> None:
    measured, projected = panels_of(figure_of(V100, H100))
    assert not measured.collections
    (band,) = projected.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((2705e9, 2989.2e9))
    assert [panel.get_title() for panel in (measured, projected)] == ["V100 (measured)", "H100 (projected)"]
    assert markers(projected)["o"][1] == pytest.approx((2705e9 + 2989.2e9) / 2)


def test_everything_lies_inside_the_axes() -> None:
    for panel in panels_of(figure_of(V100, H100)):
        (left, right), (bottom, top) = panel.get_xlim(), panel.get_ylim()
        for across, up in markers(panel).values():
            assert left < across < right
            assert bottom < up < top
        assert panel.lines
        assert top > 25600e9


def test_names_are_text_and_never_mathematics() -> None:
    text = svg_text(figure_of(replace(V100, kernel=MATHEMATICS), replace(H100, kernel=MATHEMATICS)))
    words = {node.text for node in ET.fromstring(text).iter(f"{SVG}text")}  # noqa: S314  our own
    assert MATHEMATICS in words


def test_very_long_names_are_cut_in_the_legend() -> None:
    figure = figure_of(replace(V100, kernel=LONG))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert max(map(len, labels)) <= 40
    assert any(label.startswith("ns::ns::") and label.endswith("…") for label in labels)


def test_thirty_gpus_fill_twelve_panels_and_all_rows_of_the_csv(tmp_path: Path) -> None:
    many = [V100, *(replace(H100, gpu=f"GPU {number}") for number in range(29))]
    figure = figure_of(*many)
    assert len(panels_of(figure)) == 12
    save_picture(figure, tmp_path / "many.svg")
    assert len(list(csv.DictReader(io.StringIO(roofline_csv(many))))) == 90


def test_many_kernels_share_a_panel_without_ceilings() -> None:
    figure = figure_of(*(replace(V100, kernel=f"kernel{number}") for number in range(20)))
    (panel,) = panels_of(figure)
    assert not diagonals(panel, ":")
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "and 8 more" in labels
    assert "ceiling of the kernel" not in labels


def test_of_very_many_kernels_the_longest_are_drawn() -> None:
    many = [
        replace(V100, kernel=f"k{n}", low_flops_per_s=1e9 * (1 + n), high_flops_per_s=1e9 * (1 + n)) for n in range(300)
    ]
    (panel,) = panels_of(figure_of(*many))
    heights = {float(line.get_data()[1][0]) for line in panel.lines if line.get_marker() == "o"}
    assert heights == {1e9 * (1 + n) for n in range(100)}


@pytest.mark.parametrize("name", ["k", "W" * 100, LONG])
def test_the_legend_is_inside_the_picture(name: str) -> None:
    figure = figure_of(*(replace(V100, kernel=f"{number}{name}") for number in range(20)))
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert box.y0 >= 0


def test_a_kernel_without_operations_has_no_place_on_the_axes() -> None:
    without = profiled(flops=0)
    pair = kernel_rooflines(case(without, "rtx-3090"))
    assert drawable(pair) == ()
    assert draw_rooflines(pair) is None
    assert len(drawable((*pair, V100))) == 1


def test_a_level_without_bytes_is_left_out() -> None:
    pair = kernel_rooflines(case(answered(profiled(), dram_bytes=NOTHING), "rtx-3090"))
    figure = figure_of(*pair)
    assert all(set(markers(panel)) == {"o", "s"} for panel in panels_of(figure))


def test_the_csv_holds_what_the_nouns_hold() -> None:
    rows = list(csv.DictReader(io.StringIO(roofline_csv([V100, H100]))))
    assert [row["level"] for row in rows] == ["l1", "l2", "dram"] * 2
    for row, (roofline, own) in zip(rows, [(each, own) for each in (V100, H100) for own in each.levels], strict=True):
        assert (row["kernel"], row["gpu"]) == (roofline.kernel, roofline.gpu)
        assert row["is_projected"] == str(roofline.is_projected).lower()
        for name in ("low_flops_per_s", "high_flops_per_s", "max_flops_per_s", "ceiling_flops_per_s"):
            assert float(row[name]) == getattr(roofline, name)
        for name in ("crossing_bytes", "max_bytes_per_s", "peak_bytes_per_s", "ceiling_bytes_per_s"):
            assert float(row[name]) == getattr(own, name)
        assert float(row["intensity_flop_per_byte"]) == own.intensity
        # The roofs of docs/projecting.md, worked by hand: 1621.6, 2000 and 3000 GFLOP/s.
        expected = {"l1": 1621.6e9, "l2": 2000e9, "dram": 3000e9}[row["level"]]
        assert float(row["roof_flops_per_s"]) == pytest.approx(expected, rel=1e-4)
    names = {name for each in (KernelRoofline, LevelCeiling) for name in (field.name for field in fields(each))}
    kept = {"intensity_flop_per_byte", "roof_flops_per_s"}
    assert set(rows[0]) - kept <= names


def test_unknown_cells_are_empty() -> None:
    bare = replace(V100, peak_flops_per_s=None, levels=tuple(replace(e, peak_bytes_per_s=None) for e in V100.levels))
    rows = list(csv.DictReader(io.StringIO(roofline_csv([bare]))))
    assert {row["peak_flops_per_s"] for row in rows} == {""}
    assert {row["peak_bytes_per_s"] for row in rows} == {""}


def test_the_ends_of_the_axes_hold_a_ridge_of_every_level() -> None:
    across, up = extents([V100, H100])
    ridge = 24979e9 / 846e9
    assert across[0] < 6 / 12.5298
    assert across[1] > ridge
    assert up[1] > 25600e9
    assert all(math.isfinite(end) and end > 0 for end in (*across, *up))


def test_no_number_of_a_picture_is_not_a_number() -> None:
    text = svg_text(figure_of(*kernel_rooflines(case(profiled(), "rtx-3090"))))
    assert "nan" not in text.lower().split("<style", maxsplit=1)[0]
    assert not [word for word in text.replace('"', " ").split() if word.lower() in {"nan", "inf", "-inf"}]
    assert "nan" not in roofline_csv(kernel_rooflines(case(profiled(), "rtx-3090"))).lower()


def test_the_same_numbers_give_the_same_file() -> None:
    assert svg_text(figure_of(V100, H100)) == svg_text(figure_of(V100, H100))


def test_cases_are_grouped_by_gpu_with_the_run_first() -> None:
    one, two = profiled(), replace(profiled(), kernel="other", index=1)
    found = rooflines_of_cases([case(p, gpu) for p in (one, two) for gpu in ("rtx-3090", "h100-pcie")])
    assert [(each.kernel, each.is_projected) for each in found] == [
        ("made_up", False), ("other", False), ("made_up", True), ("other", True), ("made_up", True), ("other", True),
    ]  # fmt: skip
    assert [each.gpu for each in found[::2]] == ["TITAN V", "RTX 3090", "H100 PCIe"]


def test_cases_that_lack_evidence_are_left_out() -> None:
    without = replace(profiled(), run=None)
    assert rooflines_of_cases([case(without, "rtx-3090")]) == ()
