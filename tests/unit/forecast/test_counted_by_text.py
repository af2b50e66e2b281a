"""A kernel with an instruction that is not executed is forecast by counts of its text, which is always said."""

import json
from pathlib import Path

import pytest

from kerncast.caveats import CaveatKind
from kerncast.forecast import Forecast, Options, forecast_all, resolve_gpus
from kerncast.gpu import load_gpu
from kerncast.models import MODEL_OF_TEXT
from kerncast.prediction import Timing
from kerncast.report.as_json import predict_object
from tests.helpers.caveats import kinds, only

SOURCE = """
__global__ void add_all(float* out, const float* x, int turns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < turns; ++t) sum = fmaf(x[i], sum, 1.0f);
    asm volatile("multimem.red.relaxed.sys.global.add.f32 [%0], %1;" :: "l"(out + i), "f"(sum) : "memory");
}
__global__ void until(float* out, float limit) {
    float v = out[threadIdx.x];
    while (v < limit) { v = v * v + out[0]; out[0] = v; }
    asm volatile("multimem.red.relaxed.sys.global.add.f32 [%0], %1;" :: "l"(out), "f"(v) : "memory");
}
"""
LAUNCHES = """
source = "k.cu"
[[launch]]
kernel = "add_all"
grid = [4224]
block = [256]
args = { out = "f32[1081344] zeros", x = "f32[1081344] random", turns = 4000 }
[[launch]]
kernel = "until"
grid = [1]
block = [256]
args = { out = "f32[256] zeros", limit = 4.0 }
"""


@pytest.fixture(scope="module")
def launches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    (folder / "k.cu").write_text(SOURCE, encoding="utf-8")
    path = folder / "k.toml"
    path.write_text(LAUNCHES, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def found(launches: Path) -> Forecast:
    return forecast_all(launches, resolve_gpus(["h100-sxm"]), Options())


def test_its_time_is_that_of_the_busiest_resource(found: Forecast) -> None:
    (prediction,) = found.predictions
    gpu = load_gpu("h100-sxm")
    least = 2 * 4000 * 4224 * 256 / gpu.peak_fp32_flops_per_s  # an fma is two operations
    assert prediction.model == MODEL_OF_TEXT
    assert prediction.term("fp32") == pytest.approx(least, rel=0.01)
    assert least < prediction.seconds < 3 * least


def test_it_says_why_and_how_it_was_counted(found: Forecast) -> None:
    (prediction,) = found.predictions
    told = only(prediction.caveats, CaveatKind.COUNTED_BY_TEXT)
    assert told.subject.endswith("k.cu:6")
    assert "multimem.red" in str(told.details["instruction"])
    row = json.loads(json.dumps(predict_object(found, Timing.SERIES)))["predictions"][0]
    assert row["counts"] == "counted"
    assert prediction.high / prediction.low > 2


def test_where_data_end_a_loop_there_is_no_forecast(found: Forecast) -> None:
    (refused,) = found.refused
    assert (refused.kernel, refused.launch) == ("until", 1)
    assert "k.cu:11: PTX instruction multimem.red.relaxed.sys.global.add.f32 is not supported" in refused.reason
    assert "k.cu:10: how often a loop runs depends on data" in refused.reason


def test_models_that_need_an_execution_refuse_it(launches: Path) -> None:
    for name in ("simulation",):
        found = forecast_all(launches, resolve_gpus(["h100-sxm"]), Options(model=name))
        assert not found.predictions
        assert "is not supported" in found.refused[0].reason
    found = forecast_all(launches, resolve_gpus(["h100-sxm"]), Options(model="roofline"))
    assert [each.model for each in found.predictions] == [MODEL_OF_TEXT]
    assert CaveatKind.COUNTED_BY_TEXT in kinds(found.predictions[0].caveats)
