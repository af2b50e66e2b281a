"""Public names, JSON fields and their types are a promise: a change here is a change for users."""

import importlib
import json
from dataclasses import fields
from inspect import isfunction, signature
from pathlib import Path
from typing import Any

import pytest

import kerncast
from kerncast.errors import GPUError, InputError, Refusal
from kerncast.forecast import Options, forecast_all, resolve_gpus
from kerncast.launch import Argument, Buffer, Fill, Launch
from kerncast.prediction import Prediction, Timing
from kerncast.report.as_json import predict_object
from tests.helpers.launch_files import dump_launches
from tests.helpers.places import ROOT

EXAMPLES = ROOT / "examples"
KERNELS = EXAMPLES / "kernels"
FIVE = ["GTX TITAN Black", "GTX TITAN X", "TITAN V", "RTX 2080 Ti", "RTX 4070"]


def test_public_names() -> None:
    assert list(kerncast.__all__) == [
        "GPU", "Argument", "Bound", "Bounds", "Budget", "Comparison", "Forecasts", "KerncastError", "KernelProfile",
        "Launch", "Occupancies", "Prediction", "Profile", "ProgramRun", "Sensitivities", "SweepResults", "Timing",
        "__version__", "bound", "compare", "list_gpus", "load_gpu", "load_launches", "occupancy", "predict", "profile",
        "record", "run", "sensitivity", "sweep",
    ]  # fmt: skip
    assert all(getattr(kerncast, name) is not None for name in kerncast.__all__)
    assert set(dir(kerncast)) == set(kerncast.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = kerncast.nonsense


def test_predict_and_profile_stay_functions_after_every_import() -> None:
    kerncast.predict(KERNELS / "gpusd_declared.toml", "t4")
    importlib.import_module("kerncast.occupancy")
    importlib.import_module("kerncast.occupancy.advice")
    for name in ("bound", "compare", "occupancy", "predict", "profile", "record", "run", "sensitivity", "sweep"):
        assert isfunction(getattr(kerncast, name))


KEYWORDS = {
    "predict": (
        "evidence gpu model args measured timing level clock force budget features kernel launch_skip launch_count"
        " source_gpu source progress"
    ),
    "profile": "evidence gpu args budget late progress",
    "compare": "evidence gpu args price sort against timing clock budget progress",
    "occupancy": "evidence gpu block registers shared static_shared barriers cluster carveout progress",
    "sensitivity": "evidence gpu parameters advice level timing clock budget progress",
    "bound": (
        "evidence gpu tpcs kind method anchors times kernel form blocks blocks_per_tpc plan beside beside_tpcs train"
        " profile level timing budget progress"
    ),
    "sweep": ("evidence gpu values where launch model timing level clock jobs cluster resume top budget progress"),
    "run": (
        "program gpu args build clock out include defines compiler_options on_fault launch_seconds timeout"
        " memory_bytes kept_bytes level progress"
    ),
    "record": "work gpu",
    "load_gpu": "name_or_path",
    "load_launches": "path",
    "list_gpus": "",
}


@pytest.mark.parametrize(("verb", "keywords"), KEYWORDS.items())
def test_keywords_of_the_verbs(verb: str, keywords: str) -> None:
    found = signature(getattr(kerncast, verb)).parameters.values()
    assert [each.name for each in found] == keywords.split()
    assert not [each for each in found if each.kind is each.VAR_KEYWORD]


def test_an_unknown_keyword_names_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"predict\(\) has no keyword 'levle'. Did you mean level\?"):
        kerncast.predict("k.toml", "t4", levle=0.9)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"no keyword 'x'. Known: evidence, gpu, "):
        kerncast.occupancy(x=1)  # type: ignore[call-arg]


def test_fields_of_a_prediction() -> None:
    assert [field.name for field in fields(Prediction)] == [
        "kernel", "launch", "gpu", "gpu_id", "seconds", "low", "high", "level", "timing", "limiter", "terms", "caveats",
        "model", "transfer", "evidence", "count", "work",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def saxpy_object() -> dict[str, Any]:
    forecast = forecast_all(EXAMPLES / "saxpy.toml", resolve_gpus(FIVE), Options())
    text = json.dumps(predict_object(forecast, Timing.SERIES), allow_nan=False)
    found: dict[str, Any] = json.loads(text)
    return found


def test_fields_of_the_predict_object(saxpy_object: dict[str, Any]) -> None:
    assert list(saxpy_object) == ["schema_version", "timing", "predictions", "totals", "refused"]
    assert saxpy_object["schema_version"] == "1.0"
    assert saxpy_object["timing"] == "series"
    prediction = saxpy_object["predictions"][0]
    types = {name: type(value) for name, value in prediction.items()}
    assert types == {
        "kernel": str, "launch": int, "count": int, "gpu": str, "gpu_id": str, "seconds": float, "low": float,
        "high": float, "level": float, "timing": str, "clock_hz": float, "limiter": str, "model": str, "terms": dict,
        "roofs": dict, "caveats": list, "caveat_details": list, "transfer": type(None), "evidence": type(None),
    }  # fmt: skip
    assert [p["gpu"] for p in saxpy_object["predictions"]] == FIVE
    assert saxpy_object["refused"] == []


def test_caveats_are_sentences_beside_their_details(saxpy_object: dict[str, Any]) -> None:
    for prediction in saxpy_object["predictions"]:
        details = prediction["caveat_details"]
        assert prediction["caveats"] == [each["text"] for each in details]
        assert {tuple(each) for each in details} == {("kind", "subject", "numbers", "texts", "text")}
        (interval,) = [each for each in details if each["kind"] == "interval-by-class"]
        assert interval["numbers"]["level"] == prediction["level"]
        assert interval["numbers"].keys() == {"level", "usual", "cases", "families"}


def test_predict_by_path_launch_and_profile_agree() -> None:
    path = EXAMPLES / "saxpy.toml"
    by_path = kerncast.predict(str(path), "TITAN V")
    (launch,) = kerncast.load_launches(path)
    by_launch = kerncast.predict(launch, kerncast.load_gpu("titan-v"))
    assert by_path == by_launch
    assert by_path[0].model == "simulation"
    by_counts = kerncast.predict(launch, "TITAN V", model="roofline")
    assert by_counts == kerncast.predict(kerncast.profile(launch, gpu="titan-v"), ["TITAN V"])


def test_predict_options() -> None:
    path = EXAMPLES / "saxpy.toml"
    (boost,) = kerncast.predict(path, "TITAN V", timing="profiler", clock="boost")
    (slow,) = kerncast.predict(path, "TITAN V", timing="profiler", clock=10e6, level=0.5)
    assert slow.seconds > boost.seconds
    assert slow.high / slow.low < boost.high / boost.low
    with pytest.raises(InputError):
        kerncast.predict(path, "TITAN V", level=1.0)
    with pytest.raises(GPUError, match=r"nearest|Known"):
        kerncast.predict(path, "TITAN W")


def test_a_refusal_is_raised_when_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(int *p) { p[threadIdx.x + 100] = 1; }")
    launch = Launch(
        tmp_path / "k.cu", None, (1, 1, 1), (32, 1, 1), 0, (Argument("p", Buffer("i32", (32,), Fill("zeros"))),)
    )
    with pytest.raises(Refusal, match="out of bounds"):
        kerncast.predict(launch, "t4")


def test_equal_input_gives_equal_output() -> None:
    path = EXAMPLES / "matmul_tiled.toml"
    assert kerncast.predict(path, "t4") == kerncast.predict(path, "t4")


def test_a_written_launch_file_reads_back(tmp_path: Path) -> None:
    for path in sorted(KERNELS.glob("*.toml")):
        if "declared" in path.name:
            continue
        launches = kerncast.load_launches(path)
        (tmp_path / launches[0].source.name).write_text(launches[0].source.read_text())
        copy = tmp_path / "copy.toml"
        copy.write_text(dump_launches(launches))
        again = kerncast.load_launches(copy)
        assert [(a.kernel, a.grid, a.block, a.arguments, a.defines) for a in again] == [
            (b.kernel, b.grid, b.block, b.arguments, b.defines) for b in launches
        ]


@pytest.mark.parametrize("evidence", [[], None, b"x.toml", 5, ["x.toml"], [None]])
def test_what_is_no_evidence_is_an_input_error(evidence: Any) -> None:
    with pytest.raises(InputError, match=r"evidence|no such file"):
        kerncast.predict(evidence, "t4")


@pytest.mark.parametrize("gpu", [[], None, [5], 5, [None]])
def test_what_is_no_gpu_is_an_input_error(gpu: Any) -> None:
    with pytest.raises(InputError, match="GPU"):
        kerncast.predict(KERNELS / "gpusd_declared.toml", gpu)


def test_two_different_gpus_of_one_name_are_not_merged() -> None:
    t4 = kerncast.load_gpu("t4")
    with pytest.raises(GPUError, match="two different GPUs are called t4"):
        kerncast.predict(KERNELS / "gpusd_declared.toml", [t4, t4.at_clock(1e9)])
    assert len(kerncast.predict(KERNELS / "gpusd_declared.toml", [t4, "T4"])) == 1


def test_a_profile_is_of_one_gpu() -> None:
    with pytest.raises(InputError, match="one GPU"):
        kerncast.profile(EXAMPLES / "saxpy.toml", gpu=["t4", "k40"])  # type: ignore[arg-type]
