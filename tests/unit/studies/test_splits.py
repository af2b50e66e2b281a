"""What is held out shares nothing with what is learned from, each launch is in one part, and the seed decides."""

from collections.abc import Hashable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import InputError
from kerncast.measurements.feature_table import FeatureTable
from kerncast.studies.splits import MOST_FOLDS, Split, folds_of
from tests.helpers.learned_tables import linear_table


def table_of(names: list[tuple[str, str, str]]) -> FeatureTable:
    kernels, gpus, configurations = (tuple(column) for column in zip(*names, strict=True))
    count = len(names)
    return FeatureTable(("a",), np.ones((count, 1)), np.ones(count), kernels, gpus, configurations, "t.csv", "")


NAMES = st.lists(st.tuples(*(st.sampled_from("abcdefghijklmnop") for _ in range(3))), min_size=6, max_size=60)


@given(NAMES, st.sampled_from(list(Split)), st.integers(0, 3))
def test_parts_are_whole_and_apart(names: list[tuple[str, str, str]], split: Split, seed: int) -> None:
    table = table_of(names)
    every: dict[Split, Sequence[Hashable]] = {
        Split.ROWS: list(range(len(names))),
        Split.CONFIGURATIONS: [(kernel, configuration) for kernel, _, configuration in names],
        Split.KERNELS: [kernel for kernel, _, _ in names],
        Split.GPUS: [gpu for _, gpu, _ in names],
    }
    keys = every[split]
    try:
        folds = folds_of(table, split, seed=seed)
    except InputError:
        return  # one group only, or too few launches beside one
    for fold in folds:
        assert sorted([*fold.train, *fold.test]) == list(range(len(names)))
        assert not {keys[row] for row in fold.train} & {keys[row] for row in fold.test}
    if split in {Split.KERNELS, Split.GPUS}:
        assert sorted(row for fold in folds for row in fold.test) == list(range(len(names)))
        assert len(folds) == min(MOST_FOLDS, len(set(keys)))
    again = folds_of(table, split, seed=seed)
    assert [fold.test.tolist() for fold in again] == [fold.test.tolist() for fold in folds]


def test_a_fifth_is_held_out_by_row() -> None:
    (fold,) = folds_of(linear_table(60), Split.ROWS)
    assert (len(fold.train), len(fold.test)) == (48, 12)
    (other,) = folds_of(linear_table(60), Split.ROWS, seed=1)
    assert other.test.tolist() != fold.test.tolist()


def test_each_gpu_is_held_out_by_its_name() -> None:
    folds = folds_of(linear_table(60), Split.GPUS)
    assert [fold.held_out for fold in folds] == ["GTX-980", "Tesla-K20"]
    assert [len(fold.test) for fold in folds] == [30, 30]


def test_nothing_to_hold_out_is_an_error() -> None:
    with pytest.raises(InputError, match="all launches share one of the gpus"):
        folds_of(table_of([("k", "g", str(i)) for i in range(9)]), Split.GPUS)
