"""Time the forecasts of trained models on one core: a million rows each, beside scikit-learn's own in the same run.

The models are those of the recipe ``acet`` and boosted trees, trained on launches of Rodinia on one GPU, or on made-up
launches where these data are missing. Times are of the processor, so that a busy machine gives the same ratios.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")  # before NumPy is loaded

import numpy as np  # noqa: E402

from kerncast.measurements.feature_table import FeatureTable, Floats  # noqa: E402
from kerncast.models.learned.regressors import Scaling, Trained  # noqa: E402
from kerncast.models.learned.trees import prepare  # noqa: E402
from kerncast.read.features.cleaning import CleaningRules  # noqa: E402
from kerncast.read.features.table_files import read_feature_table  # noqa: E402
from kerncast.studies.learning import training  # noqa: E402
from kerncast.studies.learning.training import train  # noqa: E402
from kerncast.studies.recipes import ModelRecipe, load_recipe  # noqa: E402
from kerncast.units import NANOSECOND  # noqa: E402

RODINIA = Path("../shared/data/gpuperfpredict/rodinia.parquet")
GPU = "Tesla K40"
#: The training part of this GPU, as the report has it.
LAUNCHES = 6_849
BOOSTED = ModelRecipe("boosted", "", "HistGradientBoostingRegressor", False, False, (("max_iter", 200),), None)


def main() -> None:
    """Train, forecast, print a row per model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, default=RODINIA)
    asked = parser.parse_args()
    table = _table(asked.data)
    rows = _rows(table, asked.rows)
    prepare()
    print(f"{len(table)} launches with {len(table.names)} features; {len(rows):,} rows forecast on one core.\n")
    print("| model | kerncast, s | scikit-learn, s | ratio | largest difference |\n|---|---|---|---|---|")
    for recipe in (*load_recipe("acet").models, BOOSTED):
        trained, estimator = _fitted(recipe, table)
        own_s, own = _timed(lambda trained=trained: trained.seconds(rows))  # type: ignore[misc]
        their_s, their = _timed(lambda trained=trained, e=estimator: _by_sklearn(trained, e, rows))  # type: ignore[misc]
        apart = float(np.max(np.abs(own / their - 1)))
        print(f"| {recipe.name} | {own_s:.2f} | {their_s:.2f} | {their_s / own_s:.2f} | {apart:.1e} |", flush=True)


def _table(path: Path) -> FeatureTable:
    if path.exists():
        return read_feature_table([path], CleaningRules(gpu=GPU)).table.rows(np.arange(LAUNCHES))
    chance = np.random.default_rng(0)
    values = chance.lognormal(10, 2, (LAUNCHES, 40))
    seconds = (values @ chance.random(40)) ** 0.9 * NANOSECOND
    names, labels = tuple(f"f{column}" for column in range(40)), ("",) * LAUNCHES
    return FeatureTable(names, values, seconds, labels, labels, labels, "made up", "")


def _rows(table: FeatureTable, count: int) -> Floats:
    """Return rows like those that were learned from, no two alike."""
    chance = np.random.default_rng(1)
    drawn = table.values[chance.integers(0, len(table), count)]
    found: Floats = drawn * np.exp(0.02 * chance.standard_normal(drawn.shape))
    return found


def _fitted(recipe: ModelRecipe, table: FeatureTable) -> tuple[Trained, Any]:
    """Return a model, and scikit-learn's own that it was made from."""
    caught: list[Any] = []
    converted = training.regressor_of

    def keep(estimator: Any, values: Floats) -> Any:
        caught.append(estimator)
        return converted(estimator, values)

    training.regressor_of = keep
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trained = train(recipe, table, 0).trained
    finally:
        training.regressor_of = converted
    if hasattr(caught[0], "n_jobs"):
        caught[0].n_jobs = 1
    return trained, caught[0]


def _by_sklearn(trained: Trained, estimator: Any, rows: Floats) -> Floats:
    features: Scaling | None = trained.feature_scaling
    found = estimator.predict(features.forward(rows) if features else rows)
    seconds: Floats = (trained.time_scaling.backward(found) if trained.time_scaling else found) * NANOSECOND
    return seconds


def _timed(forecast: Callable[[], Floats]) -> tuple[float, Floats]:
    begun = time.process_time()
    found = forecast()
    return time.process_time() - begun, found


if __name__ == "__main__":
    main()
