"""A table of features refuses what is no number, and gives rows and columns by name."""

import numpy as np
import pytest

from kerncast.errors import InputError
from kerncast.measurements.feature_table import FeatureTable


def table(values: list[list[float]], seconds: list[float]) -> FeatureTable:
    return FeatureTable(
        names=("cycles", "sectors"),
        values=np.array(values, np.float64),
        seconds=np.array(seconds),
        kernels=tuple(f"k{row}" for row in range(len(seconds))),
        gpus=("GTX 980",) * len(seconds),
        configurations=("1x1",) * len(seconds),
        source="features.csv",
        sha256="0" * 64,
    )


def test_rows_and_features_are_taken_by_mask_and_by_name() -> None:
    whole = table([[1, 2], [3, 4], [5, 6]], [0.1, 0.2, 0.3])
    part = whole.rows(np.array([False, True, True])).features(("sectors",))
    assert part.values.tolist() == [[4], [6]]
    assert part.kernels == ("k1", "k2")
    assert part.seconds.tolist() == [0.2, 0.3]
    assert len(part) == 2


@pytest.mark.parametrize(
    ("values", "seconds", "words"),
    [
        ([[1, float("nan")]], [1.0], "sectors of row 0"),
        ([[1, 2], [float("inf"), 2]], [1.0, 1.0], "cycles of row 1"),
        ([[1, 2]], [0.0], "time of row 0"),
        ([[1, 2]], [float("nan")], "time of row 0"),
        ([[1, 2]], [1.0, 2.0], "2 times"),
    ],
)
def test_what_is_no_number_is_refused_with_its_place(
    values: list[list[float]], seconds: list[float], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        table(values, seconds)


def test_a_missing_feature_is_named() -> None:
    with pytest.raises(InputError, match="no feature flops"):
        table([[1, 2]], [1.0]).features(("flops",))
