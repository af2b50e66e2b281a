"""Attention against times worked by hand, its limits, and what no change of sizes or of a GPU may do."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, load_gpu
from kerncast.models.operators.attention import (
    DECODE_FITTED,
    DECODE_PRIORS,
    PREFILL_FITTED,
    PREFILL_PRIORS,
    Decode,
    DecodeConstants,
    Prefill,
    PrefillConstants,
    _PrefillTask,
)
from kerncast.models.operators.attention_work import callers_of, soft_maximum
from kerncast.models.operators.operator_work import OperatorBatch, OperatorWork, batches_of
from kerncast.operators import parse_operator
from kerncast.prediction import Timing
from tests.helpers.machines import without_tensor_rate
from tests.helpers.thorough import examples

A100, L40S, H100 = (load_gpu(name) for name in ("A100 SXM 80GB", "L40S", "H100 SXM"))
FITTED = (Prefill(), Decode())
#: The same by constants as they were before any fit, which none moves: for times worked by hand.
PRIOR = (Prefill(PrefillConstants.prior()), Decode(DecodeConstants.prior()))
TINY, HUGE = 1, 2**40
CALLERS = (
    "", ",library=trtllm", ",library=vllm,kernel=vllm_flash_attn_fa2", ",library=vllm,kernel=vllm_flashinfer_fidecode",
    ",library=sglang,kernel=fa3", ",library=sglang,kernel=flashinfer", ",library=sglang,kernel=triton",
)  # fmt: skip
callers = st.sampled_from(CALLERS)
gpus = st.sampled_from((A100, L40S, H100, load_gpu("B200"), load_gpu("RTX 4090")))


def batch_of(*texts: str) -> OperatorBatch:
    ((found, _),) = batches_of([parse_operator(text) for text in texts])
    return found


def work_of(
    text: str, gpu: GPU = A100, timing: Timing = Timing.SERIES, models: tuple[Prefill, Decode] = FITTED
) -> OperatorWork:
    prefill, decode = models
    model = decode if text.startswith("generation") else prefill
    return model.work(batch_of(text), gpu, timing)


def seconds(text: str, gpu: GPU = A100, timing: Timing = Timing.SERIES) -> float:
    return float(work_of(text, gpu, timing).seconds[0])


def prior_seconds(text: str) -> float:
    return float(work_of(text, models=PRIOR).seconds[0])


def resource(
    name: str, text: str, gpu: GPU = A100, timing: Timing = Timing.SERIES, models: tuple[Prefill, Decode] = FITTED
) -> float:
    (found,) = (each for each in work_of(text, gpu, timing, models).resources if each.name == name)
    return float(found.seconds[0])


def prior_resource(name: str, text: str, gpu: GPU = A100, timing: Timing = Timing.SERIES) -> float:
    return resource(name, text, gpu, timing, PRIOR)


def feature(name: str, text: str) -> float:
    return float(work_of(text).features[0, Prefill().features.index(name)])


def test_long_decode_is_cached_bytes_over_bandwidth() -> None:
    """2 x 64 x 8 x 65536 keys of 128 x 2 bytes: 17.18 GB, by far more than L2, and Q and O; 0.8075 x 2039 GB/s."""
    text = "generation_attention(B=64,S=65535,H=64,KV=8)"
    dram_s = (2 * 64 * 8 * 65536 + 2 * 64 * 64) * 128 * 2 / (0.8075 * 2.039e12)
    assert prior_resource("dram", text) == pytest.approx(dram_s, rel=1e-5)
    assert dram_s < prior_seconds(text) < 1.08 * dram_s


def test_short_decode_is_the_floor() -> None:
    """16000 cycles at 1410 MHz: 11.35 us."""
    text = "generation_attention(B=1,S=0,H=1,KV=1)"
    assert prior_resource("launch", text) == pytest.approx(16_000 / 1.41e9)
    assert 11.347e-6 < prior_seconds(text) < 11.9e-6


def test_long_prefill_is_pairs_times_cycles() -> None:
    """128 tiles of 128 queries: 128 x 129 / 2 tiles of pairs for each of 128 heads, at the mean clock of both."""
    text = "context_attention(B=4,S=16384,H=32,KV=8)"
    cycles = 2 * 128 / (1024 * 0.85) + (1 / 16 + 4 / 64) * 1
    pairs = 4 * 32 * 128**2 * 128 * 129 / 2
    compute_s = pairs * cycles / (108 * (1.275e9 * 1.41e9) ** 0.5)
    assert prior_resource("tensor", text) == pytest.approx(compute_s, rel=0.01)
    assert compute_s < prior_seconds(text) < 1.1 * compute_s


def test_fp8_products_are_faster_where_the_softmax_leaves_them() -> None:
    text = "context_attention(B=4,S=16384,H=32,KV=8,dtype={})"
    group = 2 * 128 / (2048 * 0.75)
    softmax = (1 / 16 + 4 / 128) * 0.3
    ratio = (group / (2 * 0.8) + softmax) / (group + softmax)
    found = prior_resource("tensor", text.format("fp8"), H100) / prior_resource("tensor", text.format("bf16"), H100)
    assert found == pytest.approx(ratio, rel=1e-3)


def test_no_mask_computes_twice_the_pairs() -> None:
    sizes = "(B=4,S=16384,H=32,D=128)"
    both = [resource("tensor", kind + sizes) for kind in ("encoder_attention", "context_attention")]
    assert both[0] / both[1] == pytest.approx(2 * 128 / 129, rel=0.01)


def test_a_window_leaves_the_tiles_near_the_diagonal() -> None:
    """A window of 256 reaches 3 tiles of 128: 3 x 128 tiles less a corner, of 128 x 129 / 2."""
    text = "context_attention(B=4,S=16384,H=32,W={})"
    ratio = resource("tensor", text.format(256)) / resource("tensor", text.format(0))
    assert ratio == pytest.approx((6 + 125 * 3) / (128 * 129 / 2), rel=0.01)


def test_a_window_as_long_as_the_sequence_is_none() -> None:
    assert seconds("context_attention(B=1,S=1024,H=32,W=1024)") == seconds("context_attention(B=1,S=1024,H=32)")
    assert seconds("generation_attention(B=1,S=99,H=32,W=100)") == seconds("generation_attention(B=1,S=99,H=32)")


def test_no_kv_heads_means_as_many_as_query_heads() -> None:
    for kind in ("context_attention", "generation_attention"):
        assert seconds(f"{kind}(B=2,S=512,H=16)") == seconds(f"{kind}(B=2,S=512,H=16,KV=16)")


def test_fp8_cache_halves_what_decode_reads_and_adds_a_kernel() -> None:
    text = "generation_attention(B=64,S=65535,H=64,KV=8{})"
    ratio = prior_resource("dram", text.format(",cache=fp8")) / prior_resource("dram", text.format(""))
    assert ratio == pytest.approx(0.5 / 0.85, rel=1e-3)
    small = "generation_attention(B=1,S=0,H=1{})"
    added = prior_resource("launch", small.format(",cache=fp8")) - prior_resource("launch", small.format(""))
    assert added == pytest.approx(5_000 / 1.41e9)


@pytest.mark.parametrize(("heads", "by_cuda_cores"), [(8, True), (64, False), (8 * 33, True)])
def test_tensorrt_llm_uses_cuda_cores_for_heads_that_share_none_or_too_many(heads: int, by_cuda_cores: bool) -> None:
    text = f"generation_attention(B=8,S=1023,H={heads},KV=8,library=trtllm)"
    assert (resource("fp32", text) > 0, resource("tensor", text) > 0) == (by_cuda_cores, not by_cuda_cores)


def test_cuda_cores_do_four_operations_per_key_and_element() -> None:
    """8 x 64 heads of 1024 keys x 128, 4 operations, half of 64 lanes of 108 SMs."""
    text = "generation_attention(B=64,S=1023,H=8,KV=8,library=trtllm)"
    assert resource("fp32", text) == pytest.approx(64 * 8 * 1024 * 128 * 4 / 32 / (108 * 1.41e9))


def test_another_timing_exchanges_the_launch_alone() -> None:
    for text in ("context_attention(B=1,S=512,H=32)", "generation_attention(B=1,S=512,H=32)"):
        added = seconds(text, timing=Timing.SINGLE) - seconds(text)
        assert added == pytest.approx(2.75e-6 - 1.6e-6)


def test_cold_reads_from_dram_what_a_series_finds_in_l2() -> None:
    text = "generation_attention(B=4,S=1023,H=32,KV=8)"
    assert prior_resource("dram", text) == 0
    expected = 2 * 4 * 8 * 1024 * 128 * 2 / (0.8075 * 2.039e12)
    assert prior_resource("dram", text, timing=Timing.COLD) == pytest.approx(expected, rel=0.02)
    for text in ("context_attention(B=1,S=512,H=32)", "encoder_attention(B=1,S=512,H=32)"):
        assert resource("dram", text) == 0
        assert resource("dram", text, timing=Timing.COLD) > 0
        assert seconds(text, timing=Timing.COLD) > seconds(text, timing=Timing.SINGLE)


@pytest.mark.parametrize(
    ("kernel", "family"),
    [
        ("torch_flow", "torch_flow"), ("vllm_flash_attn_fa3", "flash_attention"), ("fa3", "flash_attention"),
        ("flash_attention_v3", "flash_attention"), ("vllm_flashinfer_fidecode", "flashinfer"),
        ("flashinfer", "flashinfer"), ("vllm_triton_attn", "triton"), ("Triton", "triton"),
        ("my_own", "unknown_kernel"), ("", "unknown_kernel"),
    ],
)  # fmt: skip
def test_kernels_are_known_by_family(kernel: str, family: str) -> None:
    named = f",kernel={kernel}" if kernel else ""
    assert feature(family, f"context_attention(B=1,S=512,H=32{named})") == 1


def test_each_operator_has_one_library_and_one_family() -> None:
    batch = batch_of(*(f"context_attention(B=1,S=512,H=32{each})" for each in CALLERS))
    found = callers_of(batch)
    assert found.libraries.sum(axis=1).tolist() == found.families.sum(axis=1).tolist() == [1.0] * len(CALLERS)
    assert found.typical.tolist() == [True] + [False] * 6


def test_a_library_without_its_kernel_is_the_typical_one() -> None:
    text = "context_attention(B=1,S=2048,H=32{})"
    assert seconds(text.format(",library=vllm")) == seconds(text.format(""))
    # Before any fit their kernels are alike.
    faster = Prefill(replace(PrefillConstants.prior(), vllm_flash_block_ratio=0.5)), Decode()
    own, typical = (
        float(work_of(text.format(each), models=faster).seconds[0]) for each in (",library=vllm,kernel=fa3", "")
    )
    assert own < typical


def test_architecture_is_the_last_feature() -> None:
    for model, kind in ((Prefill(), "context_attention"), (Decode(), "generation_attention")):
        work = model.work(batch_of(f"{kind}(B=1,S=512,H=32)"), H100, Timing.SERIES)
        assert model.features[-1] == "architecture"
        assert work.features.shape == (1, len(model.features))
        assert work.features[0, -1] == 90


def test_a_batch_is_timed_as_its_operators_alone() -> None:
    texts = [f"generation_attention(B={b},S={s},H=32,KV=8)" for b in (1, 64) for s in (0, 777, 9000)]
    together = Decode().work(batch_of(*texts), H100, Timing.SERIES)
    assert together.seconds.tolist() == [seconds(text, H100) for text in texts]


def test_tensor_resources_stay_below_the_time() -> None:
    for kind in ("context_attention", "encoder_attention", "generation_attention"):
        work = work_of(f"{kind}(B=8,S=2048,H=32)", L40S)
        assert max(float(each.seconds[0]) for each in work.resources) <= work.seconds[0]


@pytest.mark.parametrize("kind", ["context_attention", "encoder_attention", "generation_attention"])
@pytest.mark.parametrize("gpu", [A100, L40S, H100, load_gpu("B200"), load_gpu("RTX 4090")], ids=lambda gpu: gpu.id)
def test_tiny_and_huge_sizes_have_a_time(kind: str, gpu: GPU) -> None:
    names = "BSHD" if kind == "encoder_attention" else ("B", "S", "H", "KV", "D", "W")
    texts = [f"{kind}({','.join(f'{name}={size}' for name in names)}" for size in (TINY, HUGE)]
    texts += [
        f"{kind}({','.join(f'{name}={HUGE if name == only else TINY}' for name in names)}"
        for only in names if only != "KV"  # of which there are no more than query heads
    ]  # fmt: skip
    batch = batch_of(*(f"{text}{each})" for text in texts for each in CALLERS))
    work = (Decode() if kind == "generation_attention" else Prefill()).work(batch, gpu, Timing.COLD)
    assert np.isfinite(work.seconds).all()
    assert (work.seconds > 0).all()
    assert np.isfinite(work.features).all()
    assert all(np.isfinite(each.seconds).all() and (each.seconds >= 0).all() for each in work.resources)


def test_nothing_asked_nothing_timed() -> None:
    empty = batch_of("context_attention(B=1,S=1,H=1)").rows(slice(0, 0))
    assert Prefill().work(empty, A100, Timing.SERIES).features.shape == (0, len(Prefill().features))


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 8), callers, gpus)
def test_more_tiles_of_queries_take_longer(batch: int, tiles: int, times: int, caller: str, gpu: GPU) -> None:
    text = "context_attention(B={},S={},H=32,KV=8" + caller + ")"
    least = seconds(text.format(batch, tiles * 128), gpu)
    assert least <= seconds(text.format(batch, (tiles + times) * 128), gpu)
    assert least <= seconds(text.format(batch * times, tiles * 128), gpu)


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(1, 256), st.integers(0, 2000), st.integers(0, 64), callers, gpus)
def test_more_cached_keys_take_longer(batch: int, tiles: int, more: int, caller: str, gpu: GPU) -> None:
    text = "generation_attention(B={},S={},H=32,KV=8" + caller + ")"
    both = [seconds(text.format(batch, each * 64), gpu) for each in (tiles, tiles + more)]
    assert both[0] <= both[1] * (1 + 1e-12)


def faster(gpu: GPU) -> list[GPU]:
    return [
        replace(gpu, dram_bytes_per_s=1.5 * gpu.dram_bytes_per_s), gpu.at_clock(1.2 * gpu.clock_hz),
        replace(gpu, clock_boost_hz=1.2 * gpu.clock_boost_hz), replace(gpu, l2_bytes=2 * (gpu.l2_bytes or 0)),
        replace(gpu, l2_bytes_per_s=1e14),
    ]  # fmt: skip


@settings(max_examples=examples(25), deadline=None)
@given(
    st.sampled_from(("context_attention", "encoder_attention", "generation_attention")),
    st.tuples(st.integers(1, 300), st.integers(1, 20_000), st.sampled_from((64, 96, 128, 192, 256))), callers, gpus,
)  # fmt: skip
def test_a_faster_gpu_is_never_slower(kind: str, sizes: tuple[int, int, int], caller: str, gpu: GPU) -> None:
    batch, tokens, head_size = sizes
    text = f"{kind}(B={batch},S={tokens},H=32,D={head_size}{caller})"
    least = seconds(text, gpu)
    assert all(seconds(text, each) <= least * (1 + 1e-12) for each in faster(gpu))


@pytest.mark.parametrize("kind", ["context_attention", "generation_attention"])
def test_unknown_facts_are_refused(kind: str) -> None:
    text = f"{kind}(B=1,S=512,H=32)"
    with pytest.raises(MissingEvidenceError, match="how large L2"):
        work_of(text, replace(A100, l2_bytes=None))
    with pytest.raises(MissingEvidenceError, match="tensor cores"):
        work_of(text, load_gpu("P100 PCIe"))
    with pytest.raises(MissingEvidenceError, match="per clock is not known"):
        work_of(text, without_tensor_rate(load_gpu("GB10")))
    with pytest.raises(MissingEvidenceError, match="bf16"):
        work_of(text, load_gpu("T4"))
    assert seconds(text.replace(")", ",dtype=fp16)"), load_gpu("T4")) > 0


def test_fp8_needs_tensor_cores_that_have_it() -> None:
    with pytest.raises(MissingEvidenceError, match="fp8"):
        work_of("context_attention(B=1,S=512,H=32,dtype=fp8)", A100)


def test_l2_bandwidth_is_measured_else_the_architectures_else_the_usual_one() -> None:
    def rate(gpu: GPU) -> float:
        task = _PrefillTask(PrefillConstants.read(), batch_of("context_attention(B=1,S=1,H=1)"), gpu, Timing.SERIES)
        return task.l2_bytes_per_s()

    unknown = replace(L40S, architecture=replace(L40S.architecture, l2_bytes_per_clock_per_channel=None))
    unlisted = replace(unknown, architecture=replace(unknown.architecture, compute_capability="7.5"))
    assert rate(A100) == 5402.9e9
    assert rate(L40S) == pytest.approx(174 * 384 / 32 * 2.52e9)
    assert rate(unknown) == pytest.approx(16 * 142 * 2.52e9)
    assert rate(unlisted) == pytest.approx(20 * 142 * 2.52e9)


@pytest.mark.parametrize(
    ("gpu", "hz"),
    [
        (A100, (1.275e9 * 1.41e9) ** 0.5),
        (A100.at_clock(1e9), 1e9),
        (replace(A100, clock_base_hz=None), 0.85 * 1.41e9),
        (replace(A100, clock_base_hz=1e8), 0.6 * 1.41e9),
        (load_gpu("B200"), 0.8 * 1.965e9),
    ],
)
def test_clock_under_tensor_load(gpu: GPU, hz: float) -> None:
    task = _PrefillTask(PrefillConstants.read(), batch_of("context_attention(B=1,S=1,H=1)"), gpu, Timing.SERIES)
    assert task.loaded_clock_hz() == pytest.approx(hz)


def test_a_soft_maximum_lies_between_the_longest_and_the_sum() -> None:
    one, two = np.array([1e-6, 3.0]), np.array([2e-6, 0.0])
    assert soft_maximum(3.0, one, two).tolist() == pytest.approx([9 ** (1 / 3) * 1e-6, 3.0])


def test_every_fitted_constant_has_a_prior_and_a_positive_value() -> None:
    for kind, priors, fitted in (
        (PrefillConstants, PREFILL_PRIORS, PREFILL_FITTED), (DecodeConstants, DECODE_PRIORS, DECODE_FITTED),
    ):  # fmt: skip
        names = {field.name for field in fields(kind)}
        assert set(fitted) <= names
        assert len(set(fitted)) == len(fitted)
        prior = kind.prior()
        assert all(getattr(kind.read(), name) > 0 for name in fitted)
        assert [getattr(prior, each.name) for each in priors] == [each.value for each in priors]
        kept = names - set(fitted)
        assert all(getattr(prior, name) == getattr(kind.read(), name) for name in kept)
