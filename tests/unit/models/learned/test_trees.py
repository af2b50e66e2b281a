"""Trees: by hand, as scikit-learn has them, the same numbers for few rows and many, and nothing that is no tree."""

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from kerncast.errors import InputError
from kerncast.models.learned import trees as module
from kerncast.models.learned.trees import BoostedTrees, Forest, Trees, prepare
from kerncast.studies.learning.training import _boosted, _grown, _trees

CHANCE = np.random.default_rng(3)
VALUES = CHANCE.lognormal(size=(700, 4)) * 1e6
TIMES = VALUES[:, 0] + 0.3 * VALUES[:, 1] ** 1.1 + CHANCE.normal(size=700)


def forest() -> tuple[Any, Forest]:
    estimator = RandomForestRegressor(12, random_state=0).fit(VALUES, TIMES)
    return estimator, Forest(_trees([_grown(each.tree_) for each in estimator.estimators_], 4))


def boosted() -> tuple[Any, BoostedTrees]:
    estimator = HistGradientBoostingRegressor(max_iter=40, learning_rate=0.2, random_state=0).fit(VALUES, TIMES)
    nodes = [_boosted(each.nodes) for (each,) in estimator._predictors]
    return estimator, BoostedTrees(_trees(nodes, 4), float(estimator._baseline_prediction.item()))


@pytest.mark.parametrize("made", [forest, boosted])
def test_they_forecast_as_scikit_learn_does(made: Any) -> None:
    estimator, found = made()
    assert found.predict(VALUES) == pytest.approx(estimator.predict(VALUES), rel=1e-12)
    assert found.predict(VALUES[:0]).shape == (0,)


@pytest.mark.parametrize("made", [forest, boosted])
def test_many_rows_walk_to_the_same_last_digit(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = made()
    few = found.predict(VALUES)
    monkeypatch.setattr(module, "_MOST_WALKS_BY_NUMPY", 0)
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 300)
    prepare()
    assert found.predict(VALUES).tolist() == few.tolist()


def test_a_value_between_two_numbers_of_single_precision_goes_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    # 0.1 in double precision lies below its neighbour in single precision, which therefore goes right
    trees = Trees(
        np.array([0], np.int32), np.array([0, -1, -1], np.int16), np.array([0.1, 1.0, 2.0]), np.array([2, 0, 0]), 1
    )
    rows = np.array([[0.1], [0.09999999]])
    assert float(np.float32(0.1)) > 0.1
    assert Forest(trees).predict(rows).tolist() == [2.0, 1.0]
    monkeypatch.setattr(module, "_MOST_WALKS_BY_NUMPY", 0)
    assert Forest(trees).predict(rows).tolist() == [2.0, 1.0]


def test_a_node_that_two_others_lead_to_is_refused() -> None:
    # 2^n ways lead through n such nodes: a file of some kB would take for ever
    feature, right = np.array([0, 0, 0, -1, -1, -1], np.int16), np.array([3, 3, 4, 0, 0, 0], np.int32)
    with pytest.raises(InputError, match="do not form trees"):
        Trees(np.array([0], np.int32), feature, np.zeros(6), right, 1)


def test_a_chain_beyond_all_trees_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    links = 60
    feature = np.array([0] * links + [-1] * (links + 1), np.int16)
    right = np.array([2 * links - each for each in range(links)] + [0] * (links + 1), np.int32)
    trees = Trees(np.array([0], np.int32), feature, np.arange(2.0 * links + 1), right, 1)
    assert Forest(trees).predict(np.array([[-1.0]])).tolist() == [links]
    monkeypatch.setattr(module, "MOST_LEVELS", links)
    with pytest.raises(InputError, match="more than 60 levels"):
        Trees(np.array([0], np.int32), feature, np.zeros(2 * links + 1), right, 1)
