"""Tuning: every model has a grid, whole kernels are held out, and the better settings are found."""

import json
from dataclasses import replace

import numpy as np
import pytest

from kerncast.measurements.feature_table import FeatureTable
from kerncast.models.learned.model_files import tuning_object
from kerncast.studies.average_case import StudyPlan, study_of
from kerncast.studies.correlation import FeatureChoice
from kerncast.studies.learning.held_out import errors_of_others
from kerncast.studies.learning.tuning import tuned, with_settings
from kerncast.studies.recipes import load_recipe
from kerncast.studies.splits import Split, drawn_evenly, group_folds
from tests.helpers.learned_tables import linear_table

RECIPE = load_recipe("acet")


def silent(_: str) -> None: ...


@pytest.mark.parametrize("model", RECIPE.models, ids=lambda model: model.name)
def test_every_model_has_a_grid_that_begins_with_what_is_published(model: object) -> None:
    assert model in RECIPE.models
    recipe = next(each for each in RECIPE.models if each is model)
    assert 4 <= len(recipe.choices) <= 8
    first = with_settings(recipe, recipe.choices[0])
    published = dict(recipe.settings)
    # the first choice adds nothing but scikit-learn's own defaults to what the report gives
    assert published.items() <= dict(first.settings).items()
    assert (first.scales_features, first.scales_times) == (recipe.scales_features, recipe.scales_times)


def test_folds_hold_out_whole_kernels_and_the_same_seed_gives_the_same() -> None:
    table = linear_table(60)
    once, again = (tuned(RECIPE.model("rbf-svr"), table, 0, silent) for _ in range(2))
    assert once == again
    recipe, tuning = once
    assert (tuning.grouped_by, sorted(tuning.held_out)) == ("kernels", ["add", "mul", "sum"])
    assert [each.settings for each in tuning.tried] == list(RECIPE.model("rbf-svr").choices)
    assert all(len(each.by_fold) == 3 for each in tuning.tried)
    assert tuning.chosen == tuning.best.settings
    assert dict(recipe.settings)["C"] == dict(tuning.chosen)["C"]
    # an exact line over a wide range: the tube of a tenth of the deviation costs what the narrow one does not
    assert tuning.best.log_error < tuning.tried[0].log_error
    for fold in group_folds(table, Split.KERNELS, 5, 0):
        kernels = np.array(table.kernels)
        assert not set(kernels[fold.train]) & set(kernels[fold.test])


def test_of_one_kernel_configurations_are_held_out_and_of_one_configuration_launches() -> None:
    table = linear_table(60)
    alone = replace(table, kernels=("add",) * 60)
    assert tuned(RECIPE.model("linear"), alone, 0, silent)[1].grouped_by == "configurations"
    same = replace(alone, configurations=("grid_x=1",) * 60)
    assert tuned(RECIPE.model("linear"), same, 0, silent)[1].grouped_by == "rows"


def test_settings_that_do_as_well_do_not_take_the_place_of_the_published() -> None:
    model = RECIPE.model("linear")
    same = replace(model, grid=(("copy_X", (True, False)),))
    assert tuned(same, linear_table(60), 0, silent)[1].chosen == (("copy_X", True),)


def test_a_study_tunes_on_training_parts_alone_and_keeps_what_was_tried() -> None:
    plan = StudyPlan(RECIPE, (RECIPE.model("linear"),), Split.GPUS, FeatureChoice.of("inst,sectors"), tunes=True)
    study = study_of(linear_table(60, noise=0.05), plan)
    outcome, (model,) = study.outcomes[0], study.models
    assert [each.launches for each in outcome.tunings] == [30, 30]  # each GPU has half of the launches
    assert model.tuning is not None
    assert model.tuning.launches == 60
    found = json.loads(json.dumps(tuning_object(model.tuning)))
    assert found["chosen"] in [each["settings"] for each in found["tried"]]
    untuned = study_of(linear_table(60), replace(plan, tunes=False))
    assert (untuned.outcomes[0].tunings, untuned.models[0].tuning) == ((), None)


def test_errors_are_measured_on_what_is_new_in_every_other_way() -> None:
    table = linear_table(60, noise=0.05).features(("inst", "sectors"))
    found = {each.split: each for each in errors_of_others(RECIPE.model("linear"), table, Split.ROWS, RECIPE, silent)}
    assert set(found) == {"configurations", "kernels", "gpus"}
    assert (found["kernels"].groups, found["kernels"].launches, found["gpus"].groups) == (3, 60, 2)
    # the noise is 5 %: three kernels tell 75 %, and the line is the same for all
    assert 0.02 < found["kernels"].log_error(0.68) < 0.15


def test_launches_are_drawn_evenly() -> None:
    table = linear_table(60)
    rare = replace(table, kernels=tuple("rare" if row < 4 else "often" for row in range(60)))
    drawn: FeatureTable = rare.rows(drawn_evenly(rare, 12, 0))
    assert len(drawn) == 12
    assert drawn.kernels.count("rare") == 4
    assert len(drawn_evenly(rare, 100, 0)) == 60
