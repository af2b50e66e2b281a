"""Evidence on measured kernels: a fixed subset of the sets, on which one time may never make forecasts worse."""

import json
import math
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from kerncast.models.transfer.posterior import Effects, Residual, Subject, read_effects
from tests.helpers.places import ROOT


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a script of the folder as its siblings do."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module


@pytest.fixture
def evidence(scripts: Any) -> Any:
    """Return the script that scores evidence."""
    return scripts("score_evidence")


@pytest.fixture
def timed(evidence: Any) -> Any:
    """Make a measured launch that is so many times its simulation."""

    def make(of: str, kernel: str, gpu: str, ratio: float) -> Any:
        subject = Subject(kernel, f"{kernel} 1", f"{gpu} {of}", 35, "Kepler", 4096, (("dram", 1.0),))
        return evidence.Timed(of, kernel, gpu, 1e-3, Residual(subject, math.log(ratio), 1e-4))

    return make


def test_each_kind_of_pairs_has_its_weight(evidence: Any, timed: Any) -> None:
    cases = [timed("a", kernel, gpu, 1.1) for kernel in ("x", "y", "z") for gpu in ("k20", "k40")]
    cases += [timed("b", "x", gpu, 1.1) for gpu in ("k20", "k40")]
    pairs = list(evidence.pairs_of(cases))
    same = [pair for pair in pairs if cases[pair.known].family == cases[pair.wanted].family]
    assert sum(pair.weight for pair in same) == pytest.approx(1.0)
    assert sum(pair.weight for pair in pairs) == pytest.approx(1.5)
    assert sum(pair.weight for pair in same if cases[pair.wanted].set == "b") == pytest.approx(0.5)


def test_what_is_scored_takes_no_part_in_the_estimate(evidence: Any, timed: Any) -> None:
    cases = [timed("a", kernel, gpu, ratio) for kernel, ratio in (("x", 1.3), ("y", 0.8)) for gpu in ("k20", "k40")]
    other = [
        replace(case, residual=replace(case.residual, log_error=2.0)) if case.family == "x" else case for case in cases
    ]
    assert evidence.Without(cases)(("x",)) == evidence.Without(other)(("x",))
    assert evidence.Without(cases)() != evidence.Without(other)()


def test_data_without_a_licence_are_never_fitted(evidence: Any, timed: Any) -> None:
    cases = [timed("a", kernel, gpu, 1.2) for kernel in ("x", "y") for gpu in ("k20", "k40")]
    further = [timed("sixteen", "z", gpu, 5.0) for gpu in ("k20", "k40")]
    assert evidence.Without(cases)() == evidence.Without([*cases, *further])()


def test_the_effects_of_the_package_are_those_that_the_script_would_keep(evidence: Any) -> None:
    found = read_effects()
    given = evidence._LIKE
    assert [getattr(found, name) for name in ("kernel_era", "doublings", "measurement", "body")] == [
        getattr(given, name) for name in ("kernel_era", "doublings", "measurement", "body")
    ]
    assert found.unseen == pytest.approx(evidence.with_unseen(found).unseen, rel=1e-4)
    assert isinstance(found, Effects)


def test_one_time_never_makes_measured_kernels_worse(scripts: Any, evidence: Any) -> None:
    """One launch of each kernel of vecmat, from each of four GPUs onto each other; the simulation alone beside it."""
    convolutions, runs, scores = scripts("timing_convolutions"), scripts("timing_runs"), scripts("score_timing")
    every = convolutions.read_cases(["vecmat"], 7, full=False)
    cases = [case for case in every if case.gpu in {"k20", "gtx-titan", "gtx-680", "gtx-980"}]
    if not cases:
        pytest.skip("the measurements of gpuperfpredict are not in ../shared/data")
    gpus, _ = runs.known_gpus(cases)
    work = runs.units(cases, gpus, scripts("timing_cases").read_clocks())
    found = [
        scored for unit in work for scored in runs.forecast_unit(unit, runs.Plan("simulation", sample_seconds=0.02))
    ]
    rows = json.loads(json.dumps([scores.record_of(each) for each in found]))
    known = list(evidence.read_timed(rows))
    effects = read_effects()
    errors = [each.error for each in evidence.one_time(known, lambda *_: effects)]
    alone = [abs(math.exp(-each.timed.residual.log_error) - 1) for each in evidence.one_time(known, lambda *_: effects)]
    assert len(errors) > 40
    assert sum(errors) < sum(alone)
