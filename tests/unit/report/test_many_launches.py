"""Many launches are one list: each forecast in it once, what limits them together, the caveats of most."""

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from kerncast.caveats import Caveat, CaveatKind
from kerncast.forecast import Forecast
from kerncast.gpu import load_gpu
from kerncast.models import Case
from kerncast.prediction import Prediction, Refused, Term, Timing
from kerncast.read.declared import declared_profile
from kerncast.report.forecast.terminal import MOST_TABLES, all_launches, common_notes, print_forecast
from kerncast.report.forecast.verdict import verdict_together
from kerncast.report.words import describe_caveat


def prediction(
    launch: int, gpu: str, seconds: float, limiter: str = "dram", caveats: tuple[Caveat, ...] = ()
) -> Prediction:
    return Prediction(
        f"kernel{launch}", launch, load_gpu(gpu).name, gpu, seconds, seconds / 2, seconds * 2, 0.9, Timing.SERIES,
        limiter, (Term(limiter, seconds),), caveats, "roofline",
    )  # fmt: skip


def forecast(predictions: Sequence[Prediction], refused: tuple[Refused, ...] = ()) -> Forecast:
    cases = tuple(
        Case(declared_profile(p.kernel, (8, 1, 1), (64, 1, 1), fp32_flops=1e6, dram_bytes=1e6), load_gpu(p.gpu_id))
        for p in predictions
    )
    return Forecast(tuple(predictions), refused, cases)


def printed(found: Forecast, width: int = 100) -> str:
    console = Console(file=io.StringIO(), record=True, width=width)
    print_forecast(found, console)
    return console.export_text()


def test_each_forecast_is_one_line_of_the_list() -> None:
    many = [prediction(n, gpu, 1e-3 * (n + 1)) for n in range(MOST_TABLES + 1) for gpu in ("t4", "l4")]
    lines = printed(forecast(many)).splitlines()
    for p in many:
        assert sum(line.split()[:3] == [str(p.launch), p.kernel, p.gpu] for line in lines) == 1
    assert sum("Total of all launches" in line for line in lines) == 1


def test_a_few_launches_keep_their_tables() -> None:
    few = [prediction(n, "t4", 1e-3) for n in range(MOST_TABLES)]
    assert "launch  kernel" not in printed(forecast(few))


@pytest.mark.parametrize(
    ("width", "end"),
    [
        (80, " shared"),
        (120, " shared 90 %, l2 20 %"),
        (170, " shared 900 µs (90 %), l2 200 µs (20 %), blocks 100 µs (10 %)"),
    ],
)
def test_rows_of_gpus_stay_on_one_line(width: int, end: str) -> None:
    """What decides least is left out of a narrow terminal, so that no cell wraps."""
    terms = tuple(Term(name, seconds) for name, seconds in (("shared", 9e-4), ("l2", 2e-4), ("blocks", 1e-4)))
    few = [replace(prediction(0, gpu, 1e-3, "shared"), terms=terms) for gpu in ("rtx-pro-6000-server", "t4")]
    lines = [line.rstrip() for line in printed(forecast(few), width).splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith(" ──"))
    assert [line.split()[0] for line in lines[start + 1 : start + 3]] == ["RTX", "T4"]
    assert all(line.endswith(end) for line in lines[start + 1 : start + 3])
    assert not lines[start + 3]


def test_names_of_any_length_and_with_brackets_stay_on_one_line() -> None:
    long = prediction(0, "t4", 1.0)
    names = ["[bold]" + "x" * 500, "y" * 30]
    rows = all_launches([replace(long, kernel=name) for name in names])
    assert [row[1] for row in rows.rows] == ["[bold]" + "x" * 17 + "…" + "x" * 27, "y" * 30]


def test_limits_are_shares_of_the_time_of_the_fastest_gpu() -> None:
    found = [
        prediction(0, "t4", 3.0), prediction(1, "t4", 1.0, "fma"),
        prediction(0, "l4", 30.0, "fma"), prediction(1, "l4", 10.0),
    ]  # fmt: skip
    first, second = verdict_together(forecast(found))
    assert (
        first
        == "All 2 launches take 4 s (2 s to 8 s) on T4, the fastest of 2 GPUs with a probability of >99 %; 40 s on L4."
    )
    assert second == "What limits them on T4, by time: DRAM bandwidth 75 %, the FMA pipe 25 %."


def test_a_gpu_that_lacks_launches_is_not_the_fastest() -> None:
    found = [prediction(0, "t4", 3.0), prediction(1, "t4", 1.0), prediction(0, "l4", 0.1)]
    assert verdict_together(forecast(found))[0] == "All 2 launches take 4 s (2 s to 8 s) on T4."


def test_caveats_of_most_come_first_with_their_numbers() -> None:
    everywhere, rare = Caveat(CaveatKind.COUNTS_DECLARED), Caveat(CaveatKind.INTERPRETED)
    found = [prediction(n, "t4", 1.0, caveats=(everywhere, *([rare] if n == 3 else []))) for n in range(30)]
    notes = common_notes(forecast(found, (Refused("k", 40, "L4", "no bytes"),) * 2))
    texts = [describe_caveat(everywhere), f"1 of 30 forecasts: {describe_caveat(rare)}"]
    assert notes == [*texts, "Refused, 2 times: no bytes"]


@pytest.mark.parametrize("kinds", [12, 15])
def test_rare_caveats_are_counted(kinds: int) -> None:
    notes = common_notes(
        forecast([prediction(n, "t4", 1.0, caveats=(Caveat(CaveatKind.TUNED_WITH, str(n)),)) for n in range(kinds)])
    )
    assert len(notes) == min(kinds, 13)
    assert kinds == 12 or notes[-1].startswith("3 further caveats")
