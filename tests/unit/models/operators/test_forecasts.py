"""What is done with the physics of all families: residuals as far as they are believed, intervals, limits, caveats."""

import math
from pathlib import Path

import numpy as np
import pytest

import kerncast
from kerncast import predict
from kerncast.caveats import CaveatKind
from kerncast.gpu import GPU, list_gpus, load_gpu
from kerncast.models.learned.model_files import read_model
from kerncast.models.operators.forecasts import forecast_batch, model_of, times_of
from kerncast.models.operators.operator_work import OperatorBatch, batches_of
from kerncast.models.operators.residuals import file_of, residual_of
from kerncast.operators import KINDS, parse_operator
from kerncast.prediction import Prediction, Timing

H100, H200, B200, A100, L40S = (load_gpu(name) for name in ("h100-sxm", "h200", "b200", "a100-sxm-80gb", "l40s"))
GEMM = "gemm(M=4096,N=4096,K=4096)"
EXAMPLES = {
    "bmm": "B=4,M=128,N=64,K=128", "linear": "M=128,N=64,K=128", "gemm": "M=128,N=64,K=128",
    "context_attention": "B=2,S=512,H=8", "encoder_attention": "B=2,S=512,H=8,D=64",
    "generation_attention": "B=2,S=512,H=8", "moe": "T=64,H=2048,F=768,topk=8,E=128",
}  # fmt: skip


def batch_of(text: str) -> OperatorBatch:
    [(batch, _)] = batches_of([parse_operator(text)])
    return batch


def one(text: str, gpu: GPU, timing: Timing | None = None, level: float = 0.9) -> Prediction:
    [found] = forecast_batch([parse_operator(text)], batch_of(text), gpu, timing, level)
    return found


def log_ratio(text: str, gpu: GPU) -> float:
    batch = batch_of(text)
    model = model_of(batch)
    work = model.work(batch, gpu, Timing.SERIES)
    return float(residual_of(model, work.features, gpu, batch.libraries).log_ratios[0])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_in_every_format_is_forecast(kind: str) -> None:
    sizes = EXAMPLES.get(kind, "B=64,H=1024")
    for dtype in KINDS[kind].formats:
        found = one(f"{kind}({sizes},dtype={dtype})", A100 if dtype in {"int8", "int4_wo"} else L40S)
        assert 0 < found.low < found.seconds < found.high
        assert math.isfinite(found.high)


def test_only_gpus_of_measured_architectures_have_a_residual() -> None:
    assert log_ratio(GEMM, H200) != 0
    assert log_ratio(GEMM, B200) == 0
    assert log_ratio(GEMM, load_gpu("rtx-3090")) == 0


def test_a_residual_ends_beyond_what_was_measured() -> None:
    near, far = (one(f"prefill(B=1,S=4096,H=8,KV=1,D={size})", A100) for size in (128, 512))
    assert log_ratio("prefill(B=1,S=4096,H=8,KV=1,D=512)", A100) == 0
    assert CaveatKind.OPERATOR_BEYOND_MEASURED in {each.kind for each in far.caveats}
    assert CaveatKind.OPERATOR_BEYOND_MEASURED not in {each.kind for each in near.caveats}


def test_without_a_library_the_residual_is_a_factor_of_two_at_most() -> None:
    """TensorRT-LLM alone was measured with 64 query heads for one of keys and values, and is slow there."""
    assert log_ratio("generation_attention(B=1,S=32767,H=64,KV=1)", A100) == pytest.approx(math.log(2))
    assert log_ratio("generation_attention(B=1,S=32767,H=128,KV=1,library=sglang,kernel=fa3)", A100) > math.log(2)


@pytest.mark.parametrize("gpu", [L40S, load_gpu("l4"), H200], ids=lambda gpu: gpu.id)
def test_a_cold_cache_comes_from_dram_at_its_peak_at_most(gpu: GPU) -> None:
    for heads in (32, 64):
        text = f"generation_attention(B=4,S=1000,H={heads},D=64)"
        nbytes = 2 * 4 * 1000 * heads * 64 * 2
        cold = one(text, gpu, Timing.COLD)
        assert cold.low >= nbytes / gpu.dram_bytes_per_s


def test_nothing_is_above_the_peak_of_any_gpu() -> None:
    for gpu in list_gpus():
        lanes = gpu.architecture.tensor_group_fp16_lanes_per_sm or gpu.architecture.tensor_fp16_lanes_per_sm
        if lanes is None or gpu.architecture.number < 80:
            continue
        peak = 2 * lanes * gpu.sm_count * max(gpu.clock_hz, gpu.clock_boost_hz)
        texts = (GEMM, "prefill(B=8,S=16384,H=32,KV=1)")
        flops = (2 * 4096**3, 4 * 8 * 32 * 128 * 16384 * 16385 / 2)
        for text, work in zip(texts, flops, strict=True):
            try:
                found = times_of(batch_of(text), gpu)
            except kerncast.KerncastError:
                continue
            assert float(found.low[0]) >= work / peak * (1 - 1e-9), gpu.id


def test_what_no_resource_explains_is_latency() -> None:
    found = one("gemm(M=16,N=64,K=65536)", H100)
    assert max(term.seconds for term in found.terms) < found.seconds / 2
    assert found.limiter == "latency"
    assert one(GEMM, H100).limiter == "tensor"


def test_what_was_not_measured_says_so() -> None:
    kinds = {text: {each.subject for each in one(text, A100).caveats if each.kind is CaveatKind.OPERATOR_TAKEN_AS}
             for text in ("silu(B=64,H=64)", "bmm(B=1,M=64,N=64,K=64,dtype=fp16)", GEMM)}  # fmt: skip
    assert list(kinds.values()) == [{"silu"}, {"bmm in fp16", "fp16"}, set()]


def test_a_higher_level_is_a_wider_interval() -> None:
    widths = [one(GEMM, H200, level=level).high for level in (0.5, 0.8, 0.9, 0.95, 0.99)]
    assert widths == sorted(widths)


def test_operators_of_a_table_do_not_see_one_another() -> None:
    texts = [f"gemm(M={m},N=1024,K=4096)" for m in (1, 17, 300, 5000)] + ["softmax(B=64,H=128)", "ln(B=64,H=128)"]
    together = predict([parse_operator(text) for text in texts], H100)
    assert [each.seconds for each in together] == [predict([parse_operator(text)], H100)[0].seconds for text in texts]


def test_shipped_residuals_are_of_the_models_that_are_shipped() -> None:
    """A residual whose physics has changed is wrong: it was learned from the features that the model had."""
    files = sorted((Path(kerncast.__path__[0]) / "data" / "operators").glob("*.kcm"))
    assert len(files) == 12
    for path in files:
        header = read_model(path).header
        name, number = path.stem.rsplit("-", 1)
        assert file_of(name, int(number)) == path
        assert load_gpu(header.gpus[0]).architecture.number == int(number)
        assert header.reach is not None
        assert np.isfinite(header.reach.low).all()
