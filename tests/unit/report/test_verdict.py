"""The verdict: which GPU, how long, how sure, what limits and what helps; only what one model made is compared."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kerncast.caveats import Caveat, CaveatKind
from kerncast.forecast import Forecast, Options, forecast_all, resolve_gpus
from kerncast.gpu import load_gpu
from kerncast.launch import load_launches
from kerncast.models import Case
from kerncast.prediction import Prediction, Term, Timing
from kerncast.read.declared import declared_profile
from kerncast.report.forecast.forecast_tables import notes_of
from kerncast.report.forecast.verdict import verdicts
from kerncast.studies.comparing.contenders import contenders_of
from kerncast.studies.comparing.ranking import Key, rank
from tests.helpers.places import ROOT


def one(gpu: str, seconds: float, factor: float = 1.1, model: str = "simulation") -> Prediction:
    name, ends = load_gpu(gpu).name, (seconds / factor, seconds * factor)
    return Prediction(
        "k", 0, name, gpu, seconds, *ends, 0.9, Timing.SERIES, "dram", (Term("dram", seconds),), (), model
    )


def forecast_of(predictions: Sequence[Prediction]) -> Forecast:
    profile = declared_profile("k", (8, 1, 1), (64, 1, 1), fp32_flops=1e6, dram_bytes=1e6)
    return Forecast(tuple(predictions), (), tuple(Case(profile, load_gpu(p.gpu_id)) for p in predictions))


def test_one_gpu() -> None:
    (found,) = verdicts(forecast_of([one("t4", 1e-3)]))
    assert found.startswith("k takes 1 ms on T4 (909 µs to 1.1 ms at 90 %), limited by DRAM bandwidth.")


def test_the_fastest_comes_with_its_probability() -> None:
    (found,) = verdicts(forecast_of([one("l4", 4e-3), one("t4", 1e-3)]))
    assert "k takes 1 ms on T4" in found
    assert "the fastest of 2 GPUs with a probability of >99 %; next is L4 (4 ms)." in found


def test_what_is_too_close_is_named() -> None:
    (found,) = verdicts(forecast_of([one("l4", 1.01e-3, 2.0), one("t4", 1e-3, 2.0), one("k20", 1.0)]))
    assert "too close to be told apart: L4 (1.01 ms)." in found
    assert "K20" not in found


def test_other_models_are_set_apart() -> None:
    (found,) = verdicts(forecast_of([one("b100", 1e-6, model="roofline"), one("t4", 1e-3), one("l4", 2e-3)]))
    assert "k takes 1 ms on T4" in found
    assert found.endswith("Not compared, as another model (roofline) made their forecasts: B100.")


def test_the_probability_is_that_of_compare() -> None:
    """Of two GPUs compare has the closed form of what is counted in draws here."""
    path, gpus = ROOT / "examples" / "saxpy.toml", resolve_gpus(["TITAN V", "RTX 2080 Ti"])
    (sentence,) = verdicts(forecast_all(path, gpus, Options()))
    (group,) = contenders_of(load_launches(path), gpus, Options()).groups
    lead = rank(group, (), Key.TIME).lead
    assert lead is not None
    assert float(sentence.partition("probability of ")[2].partition(" %")[0]) == pytest.approx(100 * lead, abs=2)


def test_caveats_of_one_kind_are_one_sentence() -> None:
    caveats = [Caveat.of(CaveatKind.MICROARCHITECTURE_NOT_MEASURED, each, factor=2.3) for each in ("Ada", "Hopper")]
    pairs = [(one("l4", 1.0), caveats[0]), (one("h100-sxm", 1.0), caveats[1]), (one("t4", 1.0), None)]
    found = forecast_of([replace(p, caveats=(caveat,) if caveat else ()) for p, caveat in pairs])
    (note,) = notes_of(found)
    assert note.startswith("L4, H100 SXM: The interval was not measured on Ada and Hopper.")


@pytest.mark.parametrize("names_all", [False, True])
def test_many_gpus_are_counted_unless_all_are_asked_for(*, names_all: bool) -> None:
    caveat = Caveat(CaveatKind.COUNTS_DECLARED)
    names = ["t4", "l4", "k20", "k40", "l40", "l40s", "a10"]
    found = forecast_of([replace(one(gpu, 1.0), caveats=(caveat,)) for gpu in names] + [one("a2", 1.0)])
    (note,) = notes_of(found, names_all=names_all)
    assert note.startswith("T4, L4, K20, K40, L40, L40S, A10:" if names_all else "T4, L4, K20, K40 and 3 others:")
