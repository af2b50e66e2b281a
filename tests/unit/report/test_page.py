"""What pages are made of: fragments by themselves, versions before and after, the origin, looks behind the forecast."""

import json
import math
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from scipy import stats

from kerncast.cli.application import asked_command
from kerncast.cli.shared.baseline import Baseline, read_baseline, slower_than, without_baseline
from kerncast.errors import InputError
from kerncast.forecast import Forecast, Means, Options, forecast_all, resolve_gpus
from kerncast.forecast.closer_look import CloserLook, look_closer
from kerncast.prediction import Prediction, Term, Timing
from kerncast.profiles.counts import FP32_FLOPS
from kerncast.report.comparison import before_after
from kerncast.report.comparison.before_after import Before, sureness
from kerncast.report.forecast.document import Beyond, build_document
from kerncast.report.forecast.time_pictures import state_parts
from kerncast.report.page.fragments import Bar, interval_bars
from kerncast.report.page.pages import Origin, Section, render_html, render_markdown
from tests.helpers.places import ROOT

GPU = ("T4",)


@pytest.fixture(scope="module")
def saxpy() -> Forecast:
    return forecast_all(ROOT / "examples" / "saxpy.toml", resolve_gpus(GPU), Options())


@pytest.fixture(scope="module")
def look(saxpy: Forecast) -> CloserLook:
    (found,) = look_closer(saxpy, Means())
    return found


def test_a_closer_look_is_of_the_same_launch(saxpy: Forecast, look: CloserLook) -> None:
    """Two operations for each of 1,048,576 elements, and states that add up to the forecast."""
    (p,) = saxpy.predictions
    assert (look.gpu, look.profile.index) == (p.gpu_id, p.launch)
    assert look.profile.counts[FP32_FLOPS].value == 2 * 1048576
    states = look.profile.warp_states
    assert states is not None
    assert sum(part.seconds for part in state_parts(p.seconds, states)) == pytest.approx(p.seconds)


def test_more_gpus_have_warp_states_than_caches() -> None:
    gpus = resolve_gpus(["T4", "L4", "A10", "TITAN V"])
    found = look_closer(forecast_all(ROOT / "examples" / "saxpy.toml", gpus, Options()), Means())
    assert [look.profile.warp_states is not None for look in found] == [True] * 4
    assert [look.profile.caches is not None for look in found] == [True, True, True, False]
    assert all(look.profile.machine is not None and look.code for look in found)


def test_code_stands_at_the_line_that_it_is_of(look: CloserLook) -> None:
    """The line that multiplies and adds has the FMA in both languages, the loads and the store."""
    source = (ROOT / "examples" / "kernels" / "saxpy.cu").read_text(encoding="utf-8").splitlines()
    (line,) = [each for each in look.code if any(text.startswith("fma.rn.f32") for text in each.ptx)]
    assert re.search(r"y\[\w+\] = .*x\[", source[line.line - 1])
    if not look.problem:
        opcodes = {re.sub(r"^@!?U?P\w+ ", "", text).partition(".")[0].partition(" ")[0] for text in line.sass}
        assert {"FFMA", "LDG", "STG"} <= opcodes


def test_a_report_has_lines_code_facts_and_origin(saxpy: Forecast, look: CloserLook) -> None:
    origin = Origin("kerncast predict 'a b.toml'", datetime(2026, 1, 2, 3, 4, tzinfo=UTC))
    document = build_document(saxpy, Beyond(looks=(look,), origin=origin))
    keys = [section.key for section in document.sections]
    assert len(set(keys)) == len(keys)
    for text in (render_html(document), render_markdown(document)):
        assert "2026-01-02 03:04 UTC" in text
        assert "peak.sm\\_count" in text or "peak.sm_count" in text
        assert "single" in text
    assert "LDG.E" in render_html(document)
    assert "Source lines on T4" in render_markdown(document)


def test_advice_is_a_speed_up_where_it_was_asked_for(saxpy: Forecast) -> None:
    titles = [each.title for each in build_document(saxpy).sections]
    assert titles.index("What would help") < titles.index("Caveats")
    assert "--advice" in render_html(build_document(saxpy))


def test_a_page_says_when_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert Origin.of("kerncast").when == datetime(1970, 1, 2, tzinfo=UTC)
    assert asked_command() == "" or asked_command().startswith("kerncast")


@pytest.mark.parametrize(
    ("times", "is_log", "first", "last"), [((1e-6, 8e-6), False, "0 s", "8 µs"), ((1e-6, 1e-3), True, "1 µs", "1 ms")]
)
def test_axes_have_round_numbers(times: tuple[float, float], is_log: bool, first: str, last: str) -> None:
    page = interval_bars([Bar("a", each, each, each) for each in times], "")
    ticks = re.findall(r'<i style="left:([\d.]+)%"[^>]*>([^<]+)</i>', page)
    assert (ticks[0][1], ticks[-1][1]) == (first, last)
    assert [float(place) for place, _ in ticks] == sorted(float(place) for place, _ in ticks)
    assert ("log" in page) == is_log


def prediction(seconds: float, **changes: object) -> Prediction:
    made = Prediction(
        "k", 0, "T4", "t4", seconds, seconds / 1.1, seconds * 1.1, 0.9, Timing.SERIES, "dram",
        (Term("dram", seconds),), (), "simulation",
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_change_is_told_with_its_doubt() -> None:
    apart = Before("old.toml", ((prediction(3e-3), prediction(2e-3)),))
    assert before_after.headline(apart) == "1.50 times as fast on T4"
    assert "3 ms before, 2 ms after" in before_after.lead(apart)
    assert "lie apart" in before_after.lead(apart)
    near = Before("old.toml", ((prediction(2e-3), prediction(2.1e-3)),))
    assert before_after.headline(near) == "1.05 times as slow on T4"
    assert "overlap" in before_after.lead(near)


def test_versions_have_a_probability(saxpy: Forecast) -> None:
    """The same launch, forecast twice as long before: at r = 0 by SciPy; r is between for one build."""
    (new,) = saxpy.predictions
    old = replace(new, seconds=2 * new.seconds, low=2 * new.low, high=2 * new.high)
    ((gpu, found),) = sureness([(old, new)], saxpy.profiled, saxpy.profiled)
    assert gpu == new.gpu_id
    assert found.probability is not None
    assert 0.9 < found.if_independent < found.probability <= found.if_alike
    told = before_after.lead(Before("old.toml", ((old, new),), sure=((gpu, found),)))
    assert "The later version is faster with a probability of >99 %" in told
    ((_, bare),) = sureness([(old, new)], (), saxpy.profiled)
    assert bare.probability is None
    width = math.log(new.high / new.low) / 2
    expected = float(stats.t.cdf(math.log(2) * stats.t.ppf(0.95, 3) / (width * math.sqrt(2)), 3))
    assert bare.if_independent == pytest.approx(expected)
    assert "which nothing tells" in before_after.lead(Before("old.json", ((old, new),), sure=((gpu, bare),)))
    assert sureness([(old, replace(new, level=0.5))], saxpy.profiled, saxpy.profiled) == ()


def test_versions_pair_by_name_in_a_file_of_times_and_by_place_among_forecasts(saxpy: Forecast) -> None:
    old, new = prediction(1e-3, kernel="naive"), prediction(1e-3, kernel="tiled")
    assert Baseline(Path("old.json"), (old,)).pairs([new]) == []
    assert Baseline(Path("old.toml"), (old,), saxpy).pairs([new]) == [(old, new)]
    with pytest.raises(InputError, match="holds none"):
        without_baseline([new], Baseline(Path("old.json"), (old,)))


def test_what_is_slower_beyond_both_intervals_is_told() -> None:
    baseline = Baseline(Path("old.json"), (prediction(1e-3),))
    assert slower_than([prediction(1.2e-3)], None, baseline) == []
    (told,) = slower_than([prediction(1.3e-3)], None, baseline)
    assert "slower than before" in told


def test_an_earlier_output_is_read_with_its_reasons(tmp_path: Path) -> None:
    row = {"kernel": "k", "launch": 0, "gpu": "T4", "gpu_id": "t4", "seconds": 1e-3, "low": 5e-4, "high": 2e-3,
           "level": 0.9, "limiter": "l2", "terms": {"l2": 9e-4}, "model": "simulation"}  # fmt: skip
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"predictions": [row]}), encoding="utf-8")
    (found,) = read_baseline(path).predictions
    assert (found.seconds, found.limiter, found.term("l2")) == (1e-3, "l2", 9e-4)
    path.write_text(json.dumps({"predictions": [row | {"low": 3e-3}]}), encoding="utf-8")
    with pytest.raises(InputError, match="no output of kerncast predict --json"):
        read_baseline(path)


def test_a_section_of_markdown_says_what_pictures_say(saxpy: Forecast, look: CloserLook) -> None:
    text = render_markdown(build_document(saxpy, Beyond(looks=(look,))))
    assert "| time | " in text
    assert "waiting for L1, L2 or DRAM (long\\_scoreboard)" in text
    assert isinstance(build_document(saxpy).sections[0], Section)
