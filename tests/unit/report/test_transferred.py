"""The tables of what a run was carried over by: a row per number, a column per GPU."""

from dataclasses import replace

import pytest

from kerncast.models import Question, model_named
from kerncast.prediction import Figure, Prediction, Timing, Transfer
from kerncast.report.forecast.forecast_tables import transfer_tables
from tests.helpers.transfers import case, profiled


def forecast(gpu: str, figures: tuple[Figure, ...], launch: int = 0, source: str = "V100") -> Prediction:
    """Return a forecast of 1 ms from a run of 2 ms."""
    run = Transfer(source, source.lower(), 2e-3, figures)
    return Prediction(
        "made_up", launch, gpu, gpu.lower(), 1e-3, 0.9e-3, 1.2e-3, 0.9, Timing.PROFILER, "dram", (), (), "ceilings", run
    )


def test_a_column_per_gpu_with_units() -> None:
    figures = (
        Figure("l2 ceiling", "B/s", 2460e9, 7758e9),
        Figure("l2 efficiency", "1", 0.6, 0.6),
        Figure("l2 intensity", "FLOP/B", 1.44509, 1.44509),
        Figure("operations", "FLOP", 6e9, None),
        Figure("l2 time", "s", 2e-5, 1.0956e-5),
    )
    (table,) = transfer_tables([forecast("H100", figures), forecast("A100", figures)])
    assert table.heading == ("made_up", "V100, measured", "H100", "A100")
    assert table.rows == (
        ("time", "2 ms", "1 ms", "1 ms"),
        ("l2 ceiling", "2.46 TB/s", "7.76 TB/s", "7.76 TB/s"),
        ("l2 efficiency", "0.6", "0.6", "0.6"),
        ("l2 intensity", "1.45 FLOP/B", "1.45 FLOP/B", "1.45 FLOP/B"),
        ("operations", "6 GFLOP", "–", "–"),
        ("l2 time", "20 µs", "11 µs", "11 µs"),
    )


def test_a_table_per_launch_and_source() -> None:
    ours = [forecast("A100", (), 1), forecast("A100", (), 0), forecast("H100", (), 1), forecast("T4", (), 1, "P100")]
    tables = list(transfer_tables([*ours, replace(ours[0], transfer=None)]))
    assert [table.heading[1:] for table in tables] == [
        ("V100, measured", "A100"), ("P100, measured", "T4"), ("V100, measured", "A100", "H100"),
    ]  # fmt: skip


def test_a_number_that_one_gpu_lacks_is_a_dash() -> None:
    (table,) = transfer_tables([forecast("A100", (Figure("roof", "B/s", None, 1e9),)), forecast("H100", ())])
    assert table.rows[1] == ("roof", "–", "1 GB/s", "–")


def test_a_number_that_only_a_later_gpu_has_is_shown() -> None:
    """Where the first forecast lacks a number, that of the others is not lost."""
    (table,) = transfer_tables([forecast("A100", ()), forecast("H100", (Figure("roof", "B/s", 1e9, 2e9),))])
    assert table.rows[1] == ("roof", "1 GB/s", "–", "2 GB/s")


def test_a_number_of_the_run_that_depends_on_the_target_is_a_range() -> None:
    """Maxima are taken of the same kind for both GPUs, so that what the run reached of them may differ."""
    pairs = (("A100", 1.14), ("H100", 1.08))
    (table,) = transfer_tables([forecast(gpu, (Figure("l1 efficiency", "1", share, share),)) for gpu, share in pairs])
    assert table.rows[1] == ("l1 efficiency", "1.08 to 1.14", "1.14", "1.08")


def test_nothing_was_carried_over() -> None:
    assert list(transfer_tables([])) == []
    assert list(transfer_tables([replace(forecast("A100", ()), transfer=None)])) == []


@pytest.mark.parametrize("model", ["algorithm1", "ceilings"])
def test_both_published_models_fill_the_table(model: str) -> None:
    found = [model_named(model).predict(case(profiled(), gpu), Question(Timing.PROFILER)) for gpu in ("t4", "l4")]
    (table,) = transfer_tables(found)
    assert table.heading == ("made_up", "TITAN V, measured", "T4", "L4")
    assert all(len(row) == 4 and "nan" not in "".join(row) for row in table.rows)
    assert len(table.rows) == 1 + len(found[0].transfer.figures if found[0].transfer else ())
