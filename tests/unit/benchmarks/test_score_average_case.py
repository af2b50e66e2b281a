"""The script that scores the average case: what it draws from the launches, and how it prints."""

from importlib import import_module
from types import ModuleType

import pytest

from kerncast.studies.average_case import StudyPlan, study_of
from kerncast.studies.correlation import FeatureChoice
from kerncast.studies.splits import Split
from tests.helpers.learned_tables import linear_table
from tests.helpers.places import ROOT

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("score_average_case")


def test_a_share_of_the_configurations_is_drawn_on_all_gpus(script: ModuleType) -> None:
    table = linear_table(60)
    drawn = script.sampled(table, 0.5)
    # each kernel in each of 10 configurations runs on both GPUs
    assert (len(drawn), len(set(zip(drawn.kernels, drawn.configurations, strict=True)))) == (30, 15)
    assert script.sampled(table, 0.5).seconds.tolist() == drawn.seconds.tolist()


def test_a_row_has_the_measures_of_the_report(script: ModuleType) -> None:
    plan = StudyPlan(script.RECIPE, (script.RECIPE.model("linear"),), Split.GPUS, FeatureChoice.of("inst,sectors"))
    linear, constant, *_ = study_of(linear_table(60), plan, keeps_models=False).outcomes
    assert script._row(linear, Split.GPUS).startswith("| Linear Regression | gpus | 60 | ")
    assert script._row(linear, Split.GPUS).endswith("| 1 | 0.00 % | GTX-980 0.00 %, Tesla-K20 0.00 % |")
    assert script._row(constant, Split.GPUS).startswith("| rule: median time of the training part | gpus | 60 | ")


def test_the_numbers_of_the_report(script: ModuleType) -> None:
    assert script.REPORT == {"linear": 2.79, "mlp": 13.29, "forest": 0.15, "linear-svr": 0.92, "rbf-svr": 1010.0}
