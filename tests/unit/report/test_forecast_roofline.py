"""The roofline of a forecast: rates and intensities against closed forms, and what the picture holds of them."""

import csv
import io
import math
import warnings
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kerncast.errors import MissingEvidenceError
from kerncast.forecast import Forecast, Options, forecast_all, resolve_gpus
from kerncast.gpu import load_gpu
from kerncast.models import Case
from kerncast.models.forecast_roofline import ForecastRoofline, Unit, forecast_roofline
from kerncast.prediction import Prediction, SimulatedWork, Term, Timing
from kerncast.profiles import QUESTIONS, Count, Counts, Origin
from kerncast.profiles.counts import TENSOR_OPS
from kerncast.read.declared import declared_profile
from kerncast.report.forecast.picture import draw_roofline, roofline_text
from kerncast.report.pictures.forecast_roofline import (
    describe_nearness,
    draw_forecast_rooflines,
    forecast_roofline_csv,
    rooflines_of,
)
from kerncast.report.pictures.picture_files import save_picture, svg_text
from kerncast.units import format_count
from tests.helpers.places import ROOT

#: One multiplication and one addition per element; two floats read, one written.
SAXPY_INTENSITY = 2 / 12
FMA = {"fp32_flops": 2e9, "dram_bytes": 12e9, "l2_bytes": 12e9, "l1_bytes": 12e9, "global_bytes_touched": 12e9}
TITAN_V = load_gpu("titan-v")


def forecast_of(
    counts: dict[str, float],
    gpu: str = "titan-v",
    limiter: str = "dram",
    tensor: tuple[str, str] | None = None,
    work: SimulatedWork | None = None,
) -> tuple[Prediction, Case]:
    """Return a forecast of 20 ms, from 10 ms to 40 ms, of declared counts; 1e12 operations of tensor cores if any."""
    known = {QUESTIONS[name][0]: Count.exact(value) for name, value in counts.items()}
    known |= {TENSOR_OPS[tensor]: Count.exact(1e12)} if tensor else {}
    profile = replace(declared_profile("made_up", (4096, 1, 1), (256, 1, 1)), counts=Counts.of(Origin.DECLARED, known))
    case = Case(profile, load_gpu(gpu))
    prediction = Prediction(
        "made_up", 0, case.gpu.name, case.gpu.id, 20e-3, 10e-3, 40e-3, 0.9, Timing.COLD, limiter,
        (Term("dram", 19e-3), Term("shared", 15e-3)), (), "simulation", work=work,
    )  # fmt: skip
    return prediction, case


def roofline_of(counts: dict[str, float], gpu: str = "titan-v", **other: Any) -> ForecastRoofline:
    """Return the roofline of such a forecast."""
    return forecast_roofline(*forecast_of(counts, gpu, **other))


def named(found: ForecastRoofline) -> dict[str, Any]:
    """Return the roofs by name."""
    return {roof.name: roof for roof in found.roofs}


@pytest.fixture(scope="module")
def saxpy() -> Forecast:
    options = Options(timing=Timing.COLD)
    return forecast_all(ROOT / "examples" / "saxpy.toml", resolve_gpus(["titan-v", "h100-sxm"]), options)


def test_saxpy_from_source_has_two_operations_per_twelve_bytes_at_every_level(saxpy: Forecast) -> None:
    for found in rooflines_of(saxpy):
        assert found.work == 2 * 2**20
        roofs = named(found)
        for level in ("l1", "l2", "dram"):
            assert found.intensity(roofs[level]) == pytest.approx(SAXPY_INTENSITY, rel=1e-6)
        assert found.rate == found.work / found.seconds
        assert found.intensity(roofs["shared"]) == math.inf


def test_the_picture_shows_what_was_forecast(saxpy: Forecast) -> None:
    """Every marker is at (2/12, rate), with a bar from the rate at the longest time to that at the shortest."""
    figure = drawn(draw_roofline(saxpy))
    panels = [panel for panel in figure.axes if panel.get_visible()]
    for panel, p in zip(panels, sorted(saxpy.predictions, key=lambda p: p.seconds), strict=True):
        assert {round(x, 6) for x, _ in markers(panel).values()} == {round(SAXPY_INTENSITY, 6)}
        assert [y for _, y in markers(panel).values()] == [pytest.approx(2**21 / p.seconds)] * 3
        bars = [segment for line in panel.collections for segment in line.get_segments()]
        ends = {(round(min(y for _, y in bar)), round(max(y for _, y in bar))) for bar in bars}
        assert ends == {(round(2**21 / p.high), round(2**21 / p.low))}
        assert panel.get_title(loc="left").startswith(f"{p.gpu}: ")
        assert panel.get_xscale() == panel.get_yscale() == "log"
        across, up = panel.get_xlim(), panel.get_ylim()
        assert all(across[0] < x < across[1] and up[0] < y < up[1] for x, y in markers(panel).values())


def test_diagonals_have_the_bandwidths_of_the_gpu_and_end_at_the_compute_roof() -> None:
    (panel,) = drawn(draw_forecast_rooflines([roofline_of(FMA)])).axes
    top = TITAN_V.peak_fp32_flops_per_s
    assert TITAN_V.l2_rate is not None
    known = {TITAN_V.l2_rate.bytes_per_s, TITAN_V.dram_bytes_per_s}
    lines = [
        line.get_data() for line in panel.lines if line.get_linestyle() in {"-", "--"} and len(line.get_data()[0]) == 2
    ]
    slopes = {float(y[0] / x[0]): float(y[1]) for x, y in lines if x[0] != x[1] and y[0] != y[1]}
    for rate in known:
        assert any(slope == pytest.approx(rate) and end == pytest.approx(top) for slope, end in slopes.items())
    assert any(y[0] == y[1] == pytest.approx(top) for _, y in lines)


def test_the_title_states_the_share_of_the_roof_that_limits() -> None:
    found = roofline_of(FMA)
    rate = named(found)["dram"].bytes_per_s
    assert found.share(named(found)["dram"]) == pytest.approx(12e9 / rate / 20e-3)
    said = f"{12e9 / rate / 20e-3:.0%}".replace("%", " %")
    assert describe_nearness(found) == f"{said} of its DRAM roof"
    other = roofline_of(FMA, limiter="latency")
    assert describe_nearness(other) == f"{said} of its DRAM roof, the nearest; limited by latency"
    figure = drawn(draw_forecast_rooflines([found]))
    assert figure.get_suptitle() == f"made_up on TITAN V: {said} of its DRAM roof"


def test_bank_conflicts_count_as_passes_of_128_bytes() -> None:
    """One wavefront per clock and SM: so many take as long at 100 % of the roof as they have cycles."""
    wavefronts = 80 * TITAN_V.clock_hz * 20e-3
    found = roofline_of(FMA | {"shared_wavefronts": wavefronts, "shared_bytes": 4.0}, limiter="shared")
    assert found.share(named(found)["shared"]) == pytest.approx(1.0)


def test_a_simulation_that_needs_longer_for_the_same_bytes_draws_the_kernels_own_ceiling() -> None:
    """15 ms of shared memory instead of 10 ms: 75 % of what its accesses can reach, and 50 % of the roof."""
    work = SimulatedWork(1e9, 12e9, 8e9, 4e9)
    wavefronts = 80 * TITAN_V.clock_hz * 10e-3
    found = roofline_of(FMA | {"shared_wavefronts": wavefronts}, limiter="shared", work=work)
    assert describe_nearness(found) == "50 % of its shared-memory roof (75 % of what its accesses can reach)"
    (panel,) = drawn(draw_forecast_rooflines([found])).axes
    assert any(line.get_linestyle() == ":" for line in panel.lines)


def test_what_an_earlier_launch_left_in_l2_crosses_dram_no_more() -> None:
    counts = {"fp32_flops": 2e6, "dram_bytes": 2e6, "l2_bytes": 2e6, "global_bytes_touched": 2e6}
    prediction, case = forecast_of(counts)
    assert named(forecast_roofline(prediction, case))["dram"].nbytes == 2e6
    warm = forecast_roofline(replace(prediction, timing=Timing.SERIES), case)
    assert named(warm)["dram"].nbytes == 0
    (panel,) = drawn(draw_forecast_rooflines([warm])).axes
    assert "no DRAM traffic: L2 holds the data" in {text.get_text() for text in panel.texts}


@pytest.mark.parametrize(
    ("types", "gpu", "name", "tera"),
    [
        # NVIDIA's white papers, dense: A100 312, 156, 624; RTX 4090 165 at 2520 MHz and FP32 sums; L40S 366.
        (("f16", "f32"), "a100-sxm-80gb", "FP16 tensor", 312),
        (("tf32", "f32"), "a100-sxm-80gb", "TF32 tensor", 156),
        (("s8", "s32"), "a100-sxm-80gb", "INT8 tensor", 624),
        (("f64", "f64"), "a100-sxm-80gb", "FP64 tensor", 19.5),
        (("f16", "f32"), "rtx-4090", "FP16 tensor", 165.2 * 2655 / 2520),
    ],
)
def test_tensor_cores_have_the_roof_of_their_types(types: tuple[str, str], gpu: str, name: str, tera: float) -> None:
    found = roofline_of({"dram_bytes": 1e9}, gpu, tensor=types, limiter="tensor")
    assert found.nearest.name == name
    assert found.computes[0].per_s == pytest.approx(tera * 1000**4, rel=2e-3)
    assert found.unit is (Unit.OPERATION if types[1] == "s32" else Unit.FLOP)
    assert found.share(found.nearest) == pytest.approx(1 / (tera * 20e-3), rel=2e-3)


def test_hopper_shows_what_groups_of_warps_would_reach() -> None:
    """1024 multiply-adds per clock and SM: 989 TFLOP/s at 1830 MHz (data sheet), here at the clock of the file."""
    found = roofline_of({"dram_bytes": 1e9}, "h100-sxm", tensor=("f16", "f32"), limiter="tensor")
    grouped = found.computes[0].grouped_per_s
    assert grouped is not None
    assert grouped == pytest.approx(2 * 2048 * 132 * load_gpu("h100-sxm").clock_hz)
    assert grouped / load_gpu("h100-sxm").clock_hz * 1830e6 == pytest.approx(989.4e12, rel=1e-3)
    words = svg_text(drawn(draw_forecast_rooflines([found])))
    assert "by wgmma" in words


def test_a_kernel_without_floats_gets_the_roofline_of_instructions() -> None:
    """Ding and Williams 2019: warp instructions per transaction of 32 bytes; V100 489.6 warp GIPS and 25.9 GTXN/s."""
    work = SimulatedWork(2e9, 32e9, 32e9, 0.0)
    found = roofline_of({"dram_bytes": 32e9, "fp32_flops": 0.0}, "v100-sxm2-16gb", work=work)
    assert found.unit is Unit.INSTRUCTION
    assert found.computes[0].per_s == pytest.approx(489.6e9, rel=1e-3)
    dram = named(found)["dram"]
    assert found.intensity(dram) == pytest.approx(2.0)
    assert found.slope(dram) == pytest.approx(dram.bytes_per_s / 32)
    assert 20e9 < found.slope(dram) < 28e9
    (panel,) = drawn(draw_forecast_rooflines([found])).axes
    assert "transaction of 32 bytes" in panel.get_xlabel()


def test_a_kernel_that_moves_nothing_is_drawn_by_its_rate() -> None:
    found = roofline_of({"fp32_flops": 1e12, "dram_bytes": 0.0}, limiter="fp32")
    (panel,) = drawn(draw_forecast_rooflines([found])).axes
    assert any(list(line.get_data()[1]) == [found.rate] * 2 for line in panel.lines)
    assert "no memory traffic: the rate alone" in {text.get_text() for text in panel.texts}


def test_work_that_nobody_counted_is_refused() -> None:
    with pytest.raises(MissingEvidenceError, match="neither operations nor instructions"):
        roofline_of({"dram_bytes": 1e9})


def test_traces_of_other_work_have_no_roof() -> None:
    found = roofline_of(FMA | {"fp64_flops": 1e3})
    assert [roof.name for roof in found.computes] == ["FP32"]
    assert found.work == 2e9 + 1e3


def test_many_forecasts_are_twelve_panels_and_all_are_in_the_csv(tmp_path: Path) -> None:
    every = [replace(roofline_of(FMA), launch=number) for number in range(20)]
    figure = drawn(draw_forecast_rooflines(every))
    assert len([panel for panel in figure.axes if panel.get_visible()]) == 12
    assert "8 more are in the CSV" in {text.get_text() for text in figure.legends[0].get_texts()}
    rows = list(csv.DictReader(io.StringIO(forecast_roofline_csv(every))))
    assert {row["launch"] for row in rows} == {str(number) for number in range(20)}
    for suffix, head in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        save_picture(drawn(draw_forecast_rooflines(every[:1])), tmp_path / f"r{suffix}")
        assert (tmp_path / f"r{suffix}").read_bytes().startswith(head)


def test_the_csv_holds_what_the_picture_shows(saxpy: Forecast) -> None:
    text = roofline_text(saxpy)
    assert text is not None
    assert "inf" not in text
    assert "nan" not in text
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["roof"] == "dram"]
    for row, p in zip(rows, sorted(saxpy.predictions, key=lambda p: p.seconds), strict=True):
        assert float(row["intensity"]) == pytest.approx(SAXPY_INTENSITY)
        assert float(row["low_rate_per_s"]) == pytest.approx(2**21 / p.high)
        assert float(row["roof_per_s"]) == pytest.approx(float(row["roof_bytes_per_s"]) * SAXPY_INTENSITY)
        assert float(row["share_of_roof"]) == pytest.approx(float(row["rate_per_s"]) / float(row["roof_per_s"]))


def test_a_page_gets_it_without_background_in_its_own_colour() -> None:
    svg = svg_text(drawn(draw_forecast_rooflines([roofline_of(FMA)])))
    root = ET.fromstring(svg)  # noqa: S314  our own
    assert "currentColor" in svg
    assert "#ffffff" not in svg
    assert {node.text for node in root.iter("{http://www.w3.org/2000/svg}text")} >= {
        f"FP32 {format_count(TITAN_V.peak_fp32_flops_per_s, 'FLOP/s')}"
    }


def drawn(figure: Any) -> Any:
    """Draw with every warning an error."""
    assert figure is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.canvas.draw()
    return figure


def markers(panel: Any) -> dict[str, tuple[float, float]]:
    """Return the place of each level's marker."""
    found = {}
    for line in panel.lines:
        x, y = (list(values) for values in line.get_data())
        if len(x) == 1 and line.get_marker() in {"^", "o", "s", "D"}:
            found[str(line.get_marker())] = (float(x[0]), float(y[0]))
    return found
