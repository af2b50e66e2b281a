"""What a comparison says: the verdict, the rows, and sentences that are said once."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kerncast.caveats import Caveat, CaveatKind
from kerncast.forecast import Options, resolve_gpus
from kerncast.read.declared import declared_profile
from kerncast.read.prices import Price
from kerncast.report.comparison.comparison_table import (
    Compared,
    energy_table,
    front_note,
    heading,
    sentences_of,
    time_table,
    verdict,
)
from kerncast.report.comparison.pareto_picture import draw_pareto, points_of
from kerncast.studies.comparing.contenders import Contender, Field, contenders_of
from kerncast.studies.comparing.ranking import Key, rank

NAMES = ("titan-v", "t4", "a100-sxm-80gb")
COUNTS = declared_profile("k", (4096, 1, 1), (256, 1, 1), fp32_flops=1e9, dram_bytes=1e9)


@pytest.fixture(scope="module")
def field() -> Field:
    return contenders_of([COUNTS], resolve_gpus(NAMES), Options())


def compared(field: Field, prices: Sequence[Price] = (), key: Key = Key.TIME) -> Compared:
    return Compared(field, tuple(rank(group, prices, key) for group in field.groups), bool(prices))


def test_the_verdict_names_the_first_and_the_second(field: Field) -> None:
    (ranking,) = compared(field).rankings
    assert [row.contender.gpu.id for row in ranking.rows] == ["a100-sxm-80gb", "titan-v", "t4"]
    assert verdict(ranking).startswith("A100 SXM 80GB is the fastest of 3 GPUs with probability ")
    assert "It is faster than the next, TITAN V, with probability " in verdict(ranking)
    assert heading(ranking, is_first=True) == "Forecast by roofline, and compared among themselves only"
    alone = replace(ranking, rows=ranking.rows[:1], lead=None)
    assert verdict(alone).startswith("A100 SXM 80GB is the only GPU to compare: ")


def test_a_cheap_gpu_may_be_slow(field: Field) -> None:
    prices = (Price("t4", 0.01, 100.0), Price("titan-v", 1.0, None))
    found = compared(field, prices, Key.COST)
    (ranking,) = found.rankings
    assert verdict(ranking).startswith("T4 is the cheapest of 3 GPUs with probability >99 %: $")
    assert [row.contender.gpu.id for row in ranking.rows] == ["t4", "titan-v", "a100-sxm-80gb"]
    assert [row.is_on_front for row in ranking.rows] == [True, True, False], "no price, no front"
    table = energy_table(found, ranking)
    assert table.heading[-1] == "runs/s per $"
    assert [row[4] == "no price" for row in table.rows] == [False, False, True]
    assert front_note(found).endswith("time and money")
    assert len(points_of(ranking, has_prices=True)) == 2


def test_energy_has_no_probability(field: Field) -> None:
    (ranking,) = compared(field, key=Key.ENERGY).rankings
    assert ranking.lead is None
    assert "needs the least energy of 3 GPUs, by an estimate: " in verdict(ranking)
    assert "probability" not in verdict(ranking)


def test_a_sentence_is_said_once_with_its_gpus(field: Field) -> None:
    (ranking,) = compared(field).rankings
    caveat = Caveat.of(CaveatKind.MICROARCHITECTURE_NOT_MEASURED, "Ada", factor=2.1)
    rows = [replace(row, contender=with_caveat(row.contender, caveat)) for row in ranking.rows[:2]]
    told = Compared(field, (replace(ranking, rows=(*rows, ranking.rows[2])),), has_prices=False)
    (_, named), (_, counted) = sentences_of(told)[0], sentences_of(told, 1)[0]
    assert named.startswith("A100 SXM 80GB, TITAN V: The interval was not measured on Ada.")
    assert counted.startswith("2 GPUs: The interval was not measured on Ada.")


def with_caveat(contender: Contender, caveat: Caveat) -> Contender:
    return replace(contender, caveats=(caveat,))


def test_the_clock_of_a_limited_gpu_is_marked(field: Field) -> None:
    (ranking,) = compared(field).rankings
    first = ranking.rows[0]
    slow = replace(first.contender.gpu, clock_hz=1e9)
    capped = replace(first, contender=replace(first.contender, gpu=slow))
    assert time_table(replace(ranking, rows=(capped,))).rows[0][-1] == "1000 MHz (power)"


def test_a_picture_needs_one_gpu_with_both_numbers(field: Field) -> None:
    (ranking,) = compared(field).rankings
    unknown = tuple(replace(row, contender=replace(row.contender, energy=None)) for row in ranking.rows)
    assert draw_pareto(replace(ranking, rows=unknown), has_prices=False) is None
    figure = draw_pareto(ranking, has_prices=False)
    assert figure is not None
    names = {text.get_text() for text in figure.axes[0].texts}
    assert names == {row.contender.gpu.name for row in ranking.rows}
