"""Correlations against SciPy and closed forms; the selection against cases worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.measurements.feature_table import FeatureTable, Floats
from kerncast.report.training.pictures import correlation_csv, draw_correlation
from kerncast.studies.correlation import TIME, correlation, select


def table_of(values: Floats, seconds: Floats) -> FeatureTable:
    names = tuple("abcdefgh"[: values.shape[1]])
    same = ("x",) * len(seconds)
    return FeatureTable(names, values, seconds, same, same, same, "t.csv", "")


@given(st.integers(0, 1000), st.integers(5, 40))
def test_both_are_those_of_scipy(seed: int, rows: int) -> None:
    from scipy import stats

    chance = np.random.default_rng(seed)
    values = chance.integers(0, 6, (rows, 4)).astype(np.float64)  # many ties
    values[:2] = [[0] * 4, [9] * 4]  # none is constant
    seconds = chance.random(rows) + 0.1
    found = correlation(table_of(values, seconds))
    columns = np.column_stack([values, seconds])
    assert found.names == ("a", "b", "c", "d", TIME)
    assert np.allclose(found.pearson, np.corrcoef(columns.T), atol=1e-12)
    assert np.allclose(found.spearman, stats.spearmanr(columns).statistic, atol=1e-12)


def test_a_line_a_curve_and_a_constant() -> None:
    x = np.arange(1.0, 11)
    found = correlation(table_of(np.column_stack([x, -2 * x + 5, x**3, np.full(10, 7.0)]), 1e-9 * x))
    assert found.pearson[4].tolist() == pytest.approx([1, -1, 0.9284, 0, 1], abs=5e-4)
    assert found.spearman[4].tolist() == pytest.approx([1, -1, 1, 0, 1])


def test_numbers_of_any_size_are_correlated() -> None:
    x = np.array([1.0, 2, 3, 5])
    found = correlation(table_of(np.column_stack([x * 1e29, x * 1e-300]), x))
    assert found.pearson.min() == pytest.approx(1)


def test_selection_takes_the_strongest_and_what_does_not_repeat_it() -> None:
    chance = np.random.default_rng(3)
    work, other, noise = chance.random((3, 400))
    seconds = work + 0.5 * other + 1
    values = np.column_stack([work + 0.001 * noise, work, other, noise])
    chosen = select(correlation(table_of(values, seconds)), least_with_time=0.3, most_between=0.95)
    taken = [each.name for each in chosen if each.is_taken]
    assert taken in (["a", "c"], ["b", "c"])
    repeated = next(each for each in chosen if each.name in {"a", "b"} and not each.is_taken)
    assert repeated.because_of == taken[0]
    dropped = next(each for each in chosen if each.name == "d")
    assert (dropped.is_taken, dropped.because_of) == (False, None)
    assert dropped.with_time < 0.3


def test_csv_and_picture_hold_every_pair() -> None:
    x = np.arange(1.0, 6)
    found = correlation(table_of(np.column_stack([x, x[::-1]]), x))
    lines = correlation_csv(found).splitlines()
    assert lines[0] == "name,with,pearson,spearman"
    assert lines[1:] == ["b,a,-1.000000,-1.000000", "time,a,1.000000,1.000000", "time,b,-1.000000,-1.000000"]
    figure = draw_correlation(found)
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == ["a", "b", "time"]
