"""Reports: every section of the gpuSD report is there, users' texts are escaped, pictures are well-formed."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from kerncast import models
from kerncast.forecast import Forecast, Options, forecast_all, resolve_gpus
from kerncast.metrics import vocabulary
from kerncast.models import Calibration
from kerncast.models.sm.micro_ops import Pipe
from kerncast.prediction import Prediction, Term, Timing
from kerncast.profiles import Count
from kerncast.report.forecast.document import build_document
from kerncast.report.forecast.forecast_tables import estimate_table, roof_tables
from kerncast.report.forecast.picture import draw_forecast
from kerncast.report.forecast.time_pictures import parts_of
from kerncast.report.page.pages import render_html, render_markdown
from kerncast.report.pictures.colours import LIMITS
from kerncast.report.pictures.picture_files import svg_text
from kerncast.report.words import advise, describe_count, describe_limiter
from kerncast.units import format_bytes, format_count, format_seconds, parse_seconds
from tests.helpers.places import ROOT
from tests.helpers.profiles import answered

KERNELS = ROOT / "examples" / "kernels"

SECTIONS = [
    "Forecast",
    "Where the time goes",
    "Occupancy",
    "Memory",
    "Operations",
    "What would help",
    "Caveats",
    "GPU facts and their sources",
    "Terms",
    "How this was made",
]


@pytest.fixture(scope="module")
def gpusd() -> Forecast:
    return forecast_all(KERNELS / "gpusd.toml", resolve_gpus(["TITAN V", "RTX 4070"]), Options())


def test_the_answer_comes_first_and_all_sections_follow(gpusd: Forecast) -> None:
    document = build_document(gpusd)
    best = min(gpusd.predictions, key=lambda p: p.seconds)
    assert document.headline == f"{format_seconds(best.seconds, 3)} on {best.gpu}"
    assert [section.title for section in document.sections] == SECTIONS


def test_markdown_tables_are_rectangular(gpusd: Forecast) -> None:
    text = render_markdown(build_document(gpusd))
    widths = [re.sub(r"\\\|", "", line).count("|") for line in text.splitlines() if line.startswith("|")]
    assert len(widths) > 20
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({re.sub(r"\\\|", "", line).count("|") for line in block.splitlines()}) == 1
    assert "launch overhead" in text


def test_html_is_one_file_that_loads_nothing(gpusd: Forecast) -> None:
    page = render_html(build_document(gpusd))
    assert not re.search(r"(?:src|href)=[\"'](?!#)", page)
    assert not re.search(r"url\(|@import|//[a-z]+\.[a-z]", re.sub(r"(?s)<(main|header)>.*?</\1>", "", page))
    assert page.count("<script>") == 1


def test_a_hostile_kernel_name_is_escaped(gpusd: Forecast) -> None:
    evil = "<script>alert(1)</script><img src=//a.b onerror=alert(1)>|$x_1$"
    predictions = tuple(replace(p, kernel=evil) for p in gpusd.predictions)
    document = build_document(replace(gpusd, predictions=predictions))
    page = render_html(document)
    assert page.count("<script") == 1  # our own
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in render_markdown(document)


def test_parts_add_up_to_the_time(gpusd: Forecast) -> None:
    for p in gpusd.predictions:
        assert sum(part.seconds for part in parts_of(p)) == pytest.approx(p.seconds)


def test_the_picture_is_xml_and_names_each_gpu(gpusd: Forecast) -> None:
    svg = svg_text(draw_forecast(gpusd.predictions))
    text = "".join(ET.fromstring(svg).itertext())  # noqa: S314  our own text
    assert "TITAN V" in text
    assert "RTX 4070" in text
    assert svg_text(draw_forecast(gpusd.predictions)) == svg


def one(gpu: str, seconds: float, factor: float = 1.1, limiter: str = "dram") -> Prediction:
    terms = (Term(limiter, seconds),)
    return Prediction(
        "k",
        0,
        gpu,
        gpu.lower(),
        seconds,
        seconds / factor,
        seconds * factor,
        0.9,
        Timing.SERIES,
        limiter,
        terms,
        (),
        "roofline",
    )


def test_every_limiter_of_the_simulation_has_words_a_colour_and_a_metric() -> None:
    names = {pipe.name.lower() for pipe in Pipe} | {"issue", "shared", "l1", "l2", "atomics", "dram", "blocks"}
    for name in names | {"latency", "launch"}:
        assert describe_limiter(name) != name or name == "latency"
        assert name in LIMITS
        assert advise(name) or name in {"tensor", "uniform", "fp16"}
    assert {word.name for word in vocabulary() if "__roof_" in word.name} == {f"kerncast__roof_{n}.pct" for n in names}


def test_the_largest_terms_are_named_with_their_share() -> None:
    table = estimate_table([replace(one("A", 1e-3), terms=(Term("l2", 1e-4), Term("dram", 9e-4), Term("fma", 5e-6)))])
    assert table.rows[0][-1] == "dram 900 µs (90 %), l2 100 µs (10 %), fma 5 µs (<1 %)"


def test_distance_to_each_roof(gpusd: Forecast) -> None:
    """The roofline stands beside the simulation, and the quotient is that of the two."""
    (table,) = roof_tables(gpusd)
    assert table.heading[0] == "GPU"
    assert table.heading[-2:] == ("roofline", "forecast / roofline")
    roofline = forecast_all(KERNELS / "gpusd.toml", resolve_gpus(["TITAN V"]), Options(model="roofline")).predictions[0]
    row = dict(zip(table.heading, table.rows[0], strict=True))
    assert row["roofline"] == format_seconds(roofline.seconds, 3)
    assert row["forecast / roofline"] == f"{gpusd.predictions[0].seconds / roofline.seconds:.2f}"
    launch = gpusd.predictions[0].term("launch")
    assert launch is not None
    assert row["launch"] == f"{launch / gpusd.predictions[0].seconds:.0%}".replace("%", " %")


def test_what_could_not_be_compared_is_a_dash(gpusd: Forecast) -> None:
    (first, *_) = gpusd.profiled
    case = replace(first, profile=answered(first.profile, dram_bytes=None))
    (table,) = roof_tables(replace(gpusd, predictions=gpusd.predictions[:1], cases=(case,)))
    assert table.rows[0][-2:] == ("–", "–")


@pytest.mark.parametrize("is_calibrated", [False, True])
def test_a_report_says_whether_its_intervals_are_calibrated(
    gpusd: Forecast, monkeypatch: pytest.MonkeyPatch, *, is_calibrated: bool
) -> None:
    found = Calibration((0.9,), (1.5,), 5, 50, "forecasts") if is_calibrated else None
    monkeypatch.setattr(models, "calibration_of", lambda _: found)
    expected = "calibrated on measured times" if is_calibrated else "uncalibrated"
    page = render_html(build_document(gpusd))
    assert page.count(expected) >= 2  # in the text and beside the intervals
    assert ("uncalibrated" in svg_text(draw_forecast(gpusd.predictions))) != is_calibrated


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (1.5e-9, "1.5 ns"), (999.96e-9, "1000 ns"), (5.061e-6, "5.061 µs"), (0.0123, "12.3 ms"), (61, "61 s")],
)
def test_format_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"), [("2ms", 2e-3), ("1.5 us", 1.5e-6), ("3µs", 3e-6), ("1e3ns", 1e-6), ("4s", 4)]
)
def test_parse_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("text", ["", "2", "ms", "-1ms", "0s", "nan s", "inf s", "1e999s", "2 parsecs"])
def test_parse_seconds_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        parse_seconds(text)


def test_formats_of_counts() -> None:
    assert format_count(836) == "836"
    assert format_count(20900, "FLOP") == "20.9 kFLOP"
    assert format_bytes(652.8e9) == "653 GB"
    assert describe_count(None) == "unknown"
    assert describe_count(Count(100, 90, 110)) == "100 (90 to 110)"
