"""The five models of the average case: settings as published, forecasts as scikit-learn's, honest folds, baselines."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import InputError
from kerncast.measurements.feature_table import FeatureTable
from kerncast.measurements.scores import scores_of
from kerncast.models.learned.regressors import Perceptron, RadialBasis, scaling_of
from kerncast.models.learned.trees import BoostedTrees, Forest, Trees
from kerncast.read.features import CleaningRules, read_feature_table
from kerncast.report.training.pictures import draw_fit, panels_of
from kerncast.studies.average_case import Study, StudyPlan, study_of
from kerncast.studies.correlation import FeatureChoice, chosen_features
from kerncast.studies.learning.training import train
from kerncast.studies.recipes import known_recipes, load_recipe
from kerncast.studies.splits import Split
from tests.helpers.learned_tables import linear_table
from tests.helpers.places import ROOT
from tests.helpers.thorough import THOROUGH

RECIPE = load_recipe("acet")
RODINIA = ROOT.parent / "shared" / "data" / "gpuperfpredict" / "rodinia.parquet"
PUBLISHED = (
    "elapsed_cycles_sm",
    "executed_control_flow_instructions",
    "gld_request",
    "l2_read_transactions",
    "active_cycles",
)


def study(table: FeatureTable, *models: str, split: Split = Split.ROWS, features: str = "all") -> Study:
    chosen = tuple(RECIPE.model(name) for name in models)
    return study_of(table, StudyPlan(RECIPE, chosen, split, FeatureChoice.of(features)))


def test_the_recipe_is_the_reports() -> None:
    assert known_recipes() == ("acet", "residual")
    assert (RECIPE.test_share, RECIPE.seed) == (0.2, 0)
    found = {m.name: (m.estimator, m.scales_features, m.scales_times, dict(m.settings)) for m in RECIPE.models}
    network = {
        "hidden_layer_sizes": (30,),
        "activation": "relu",
        "solver": "adam",
        "learning_rate": "adaptive",
        "max_iter": 500,
    }
    assert found == {
        "linear": ("LinearRegression", True, True, {}),
        "mlp": ("MLPRegressor", True, True, network),
        "forest": ("RandomForestRegressor", False, False, {"n_estimators": 150, "n_jobs": -1}),
        "linear-svr": ("LinearSVR", False, False, {}),
        "rbf-svr": ("SVR", True, True, {"kernel": "rbf"}),
    }
    with pytest.raises(InputError, match="Known are linear, mlp, forest, linear-svr, rbf-svr, all"):
        RECIPE.model("boost")
    with pytest.raises(InputError, match="Known are acet"):
        load_recipe("wcet/../acet")


def test_linear_regression_finds_an_exact_line() -> None:
    table = linear_table(60)
    found = study(table, "linear", features="inst,sectors")
    (model,) = found.models
    assert found.outcomes[0].scores.mape == pytest.approx(0, abs=1e-9)
    # an added instruction costs 3 ns, an added sector 0.5 ns, and nothing at all 2 µs
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert model.fit.trained.seconds(rows) == pytest.approx([2e-6, 2.003e-6, 2.0005e-6])


@pytest.mark.parametrize("name", ["linear", "mlp", "forest", "rbf-svr", "linear-svr"])
def test_forecasts_are_those_of_scikit_learn(name: str) -> None:
    table = linear_table(80, noise=0.1)
    fit = train(RECIPE.model(name), table, seed=0)
    assert fit.trained.seconds(table.values) == pytest.approx(by_scikit_learn(name, table), rel=1e-9)


def by_scikit_learn(name: str, table: FeatureTable) -> Any:
    """Return the forecasts of the same model written with scikit-learn alone."""
    import warnings

    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.neural_network import MLPRegressor
    from sklearn.svm import SVR, LinearSVR

    network = MLPRegressor(
        hidden_layer_sizes=(30,),
        activation="relu",
        solver="adam",
        learning_rate="adaptive",
        max_iter=500,
        random_state=0,
    )
    models = {
        "linear": LinearRegression(),
        "mlp": network,
        "forest": RandomForestRegressor(150, random_state=0),
        "linear-svr": LinearSVR(random_state=0),
        "rbf-svr": SVR(kernel="rbf"),
    }
    values, times = table.values, table.seconds / 1e-9
    is_scaled = name in {"linear", "mlp", "rbf-svr"}
    if is_scaled:
        values = (values - values.mean(axis=0)) / values.std(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = models[name].fit(values, (times - times.mean()) / times.std() if is_scaled else times)
    found = model.predict(values)
    return (found * times.std() + times.mean() if is_scaled else found) * 1e-9


@given(st.integers(2, 200), st.floats(1e-6, 1e6), st.integers(0, 99))
def test_scaling_is_that_of_the_standard_scaler(rows: int, constant: float, seed: int) -> None:
    from sklearn.preprocessing import StandardScaler

    values = np.random.default_rng(seed).random((rows, 2)) * [1e8, 1e-8]
    values = np.column_stack([values, np.full(rows, constant), np.full(rows, 0.1)])
    ours, theirs = scaling_of(values), StandardScaler().fit(values)
    assert ours.deviation == pytest.approx(theirs.scale_, rel=1e-9)
    assert ours.mean == pytest.approx(theirs.mean_, rel=1e-9)


def test_linear_regression_is_that_of_pipelines_with_standard_scalers() -> None:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = linear_table(80, noise=0.1)
    pipeline = make_pipeline(StandardScaler(), LinearRegression())
    model = TransformedTargetRegressor(pipeline, transformer=StandardScaler()).fit(table.values, table.seconds)
    found = train(RECIPE.model("linear"), table, seed=0).trained.seconds(table.values)
    assert found == pytest.approx(model.predict(table.values), rel=1e-9)


def test_a_small_forest_network_and_kernel_by_hand() -> None:
    # one tree: feature 0 up to 5 gives 10, else feature 1 up to 2 gives 20, else 30; a second tree gives 40
    trees = Trees(
        roots=np.array([0, 5], np.int32),
        feature=np.array([0, -1, 1, -1, -1, -1], np.int16),
        threshold=np.array([5.0, 10, 2, 20, 30, 40]),
        right=np.array([2, 0, 4, 0, 0, 0], np.int32),
        features=2,
    )
    rows = np.array([[5.0, 9], [6, 2], [6, 3]])
    assert Forest(trees).predict(rows).tolist() == [25, 30, 35]
    assert BoostedTrees(trees, 0.5).predict(rows).tolist() == [50.5, 60.5, 70.5]
    network = Perceptron((np.array([[1.0, -1.0]]), np.array([[2.0], [3.0]])), (np.array([0.0, 1]), np.array([0.5])))
    # max(0, x) * 2 + max(0, 1 - x) * 3 + 0.5
    assert network.predict(np.array([[2.0], [-1.0]])).tolist() == [4.5, 6.5]
    basis = RadialBasis(np.array([[0.0], [1.0]]), np.array([2.0, -1.0]), 0.25, 0.5)
    assert basis.predict(np.array([[1.0]])) == pytest.approx([2 * np.exp(-0.5) - 1 + 0.25])


def test_a_kernel_machine_gives_what_scikit_learn_says_of_the_same_numbers() -> None:
    from sklearn.svm import SVR

    chance = np.random.default_rng(0)
    values, times = chance.standard_normal((50, 3)), chance.standard_normal(50)
    machine = SVR(kernel="rbf", gamma=0.3).fit(values, times)
    basis = RadialBasis(machine.support_vectors_, machine.dual_coef_[0], float(machine.intercept_[0]), 0.3)
    assert basis.predict(values) == pytest.approx(machine.predict(values), rel=1e-9)


@pytest.mark.parametrize(("feature", "right"), [([0, -1, -1], [0, 0, 0]), ([1, -1, -1], [2, 0, 0])])
def test_trees_that_turn_back_are_refused(feature: list[int], right: list[int]) -> None:
    with pytest.raises(InputError, match="do not form trees"):
        Trees(np.array([0]), np.array(feature), np.zeros(3), np.array(right), 1)


def test_what_did_not_converge_says_so() -> None:
    found = study(linear_table(60, noise=0.3), "mlp", "linear-svr")
    assert "linear-svr had not converged" in " ".join(found.outcomes[1].caveats)


def test_rows_beyond_the_recipes_are_drawn_and_told() -> None:
    from dataclasses import replace

    recipe = replace(RECIPE.model("rbf-svr"), most_rows=20)
    fit = train(recipe, linear_table(60), seed=0)
    assert fit.rows == 20
    assert fit.caveats == ("rbf-svr learned from 20 of 60 launches, drawn at random",)


def test_r2_is_no_number_where_all_measured_times_are_equal() -> None:
    times = [7e-6] * 5  # their variance is not 0 in floating point
    assert np.var(times) > 0
    assert math.isnan(scores_of(times, times).r2)


def test_whole_groups_are_scored_while_they_are_held_out() -> None:
    found = study(linear_table(60), "linear", split=Split.GPUS, features="inst,sectors")
    linear, constant, cycles, scaled = found.outcomes
    assert [fold.held_out for fold in linear.folds] == ["GTX-980", "Tesla-K20"]
    assert linear.scores.n == 60
    assert found.models[0].learned_from == "all launches"
    assert (constant.name, constant.is_baseline, cycles.name, scaled.name) == (
        "constant",
        True,
        "cycles",
        "SMs x clock",
    )
    # cycles = time x clock: the other GPU's time per cycle is off by the ratio of the clocks, 1.216 : 0.706
    errors = [fold.scores.mape for fold in cycles.folds]
    assert errors == pytest.approx([1.216 / 0.706 - 1, 1 - 0.706 / 1.216])


def test_cycles_by_gpu_are_the_time_itself() -> None:
    outcomes = {each.name: each for each in study(linear_table(60), "linear").outcomes}
    assert outcomes["cycles per GPU"].scores.mape == pytest.approx(0, abs=1e-12)
    assert outcomes["cycles"].scores.mape > 0.1


def test_scaling_by_sms_and_clock_uses_the_same_configuration_elsewhere() -> None:
    from kerncast.gpu import load_gpu

    names = [("k", "GTX-980", "grid_x=1"), ("k", "Tesla-K20", "grid_x=1")] * 6
    kernels, gpus, configurations = (tuple(column) for column in zip(*names, strict=True))
    seconds = np.array([1e-6, 3e-6] * 6)
    values = np.arange(12.0)[:, None]
    table = FeatureTable(("inst",), values, seconds, kernels, gpus, configurations, "t.csv", "")
    found = study(table, "linear", split=Split.GPUS)
    outcome = next(each for each in found.outcomes if each.name == "SMs x clock")
    fast, slow = load_gpu("gtx-980"), load_gpu("k20")
    ratio = fast.sm_count * fast.clock_hz / (slow.sm_count * slow.clock_hz)
    by_row = dict(zip(outcome.rows.tolist(), outcome.seconds.tolist(), strict=True))
    assert by_row[1] == pytest.approx(1e-6 * ratio)
    assert by_row[0] == pytest.approx(3e-6 / ratio)


def test_features_by_rule_and_by_name() -> None:
    table = linear_table(60)
    choose = {text: chosen_features(table, FeatureChoice.of(text), RECIPE) for text in ("all", "timeless", "inst")}
    assert choose == {"all": table.names, "timeless": ("inst", "sectors"), "inst": ("inst",)}
    # instructions tell nearly all of the time, and cycles go with them
    assert "sectors" not in chosen_features(table, FeatureChoice.of("selected"), RECIPE)
    with pytest.raises(InputError, match=r"lacks the published features smsp__inst_executed_op_branch\.sum"):
        chosen_features(table, FeatureChoice.of("published"), RECIPE)
    assert RECIPE.published_among(PUBLISHED, "t") == PUBLISHED
    for wrong in ("", "a,a"):
        with pytest.raises(InputError, match="--features"):
            FeatureChoice.of(wrong)


def test_too_few_launches_are_an_error() -> None:
    with pytest.raises(InputError, match="9 launches are left"):
        study(linear_table(9), "linear")


def test_the_picture_has_a_panel_per_model_and_a_point_per_launch() -> None:
    found = study(linear_table(60), "linear", "forest")
    panels = panels_of(found)
    assert [panel.title.partition(":")[0] for panel in panels] == ["Linear Regression", "Random Forest"]
    figure = draw_fit(panels)
    lines = figure.axes[0].lines[:-1]  # without the diagonal
    assert sum(len(np.asarray(line.get_xdata())) for line in lines) == 12


@pytest.mark.skipif(not RODINIA.exists(), reason="needs the measured data of gpuperfpredict")
def test_rodinia_on_one_gpu_is_reproduced_in_kind() -> None:
    table = read_feature_table([RODINIA], CleaningRules(gpu="Tesla-K40")).table
    every = np.arange(0, len(table), 6 if THOROUGH else 18)
    linear, forest = study(table.rows(every), "linear", "forest").outcomes[:2]
    assert linear.scores.mape < 0.04
    assert forest.scores.mape < 0.01
