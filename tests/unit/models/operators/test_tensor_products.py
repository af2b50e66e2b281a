"""Products on tensor cores: closed forms, and what more hardware or more work may never do."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, load_gpu
from kerncast.models.operators.forecasts import times_of
from kerncast.models.operators.operator_work import OperatorWork, batches_of, tensor_load
from kerncast.models.operators.tensor_products import FITTED, TensorProducts, shape_of
from kerncast.operators import parse_operator
from kerncast.prediction import Timing
from tests.helpers.machines import without_tensor_rate
from tests.helpers.thorough import examples

A100, L40S, H100, RTX, B200, V100 = (
    load_gpu(name) for name in ("a100-sxm-80gb", "l40s", "h100-sxm", "rtx-4090", "b200", "v100-sxm2-16gb")
)
MODEL = TensorProducts()
SIZES = st.integers(0, 14).map(lambda power: 2**power)


def work(text: str, gpu: GPU, timing: Timing = Timing.SERIES, model: TensorProducts = MODEL) -> OperatorWork:
    [(batch, _)] = batches_of([parse_operator(text)])
    return model.work(batch, gpu, timing)


def seconds(text: str, gpu: GPU, timing: Timing = Timing.SERIES, model: TensorProducts = MODEL) -> float:
    return float(work(text, gpu, timing, model).seconds[0])


def test_a_large_product_is_held_by_the_power_of_the_tensor_cores() -> None:
    """On an A100, 2 x 16384^3 operations at 80 % of 108 x 2048 per clock, the clock half-way between base and boost."""
    model = replace(MODEL, constants=replace(MODEL.constants, power_share=0.8, clock_share=0.5, dram_share=0.8))
    clock_hz = (A100.clock_base_hz or 0) / 2 + A100.clock_boost_hz / 2
    expected = 2 * 16384**3 / (0.8 * 108 * 2048 * clock_hz)
    own = work("gemm(M=16384,N=16384,K=16384)", A100, model=model)
    launch = next(float(each.seconds[0]) for each in own.resources if each.name == "launch")
    assert float(own.seconds[0]) - launch == pytest.approx(expected, rel=1e-9)


def test_a_cold_product_with_a_vector_streams_its_weights() -> None:
    """16384 x 16384 weights of two bytes are 537 MB: at 80 % of 2,039 GB/s 329 us."""
    # Nothing else takes time: steps and tiles follow one another at once, and L2 delivers all operands.
    quick = replace(
        MODEL.constants, dram_share=0.8, step_cycles=1, tile_cycles=1, l2_share=2, most_l2_bytes_per_clock=1e3
    )
    model = replace(MODEL, constants=quick)
    found = seconds("gemm(M=1,N=16384,K=16384)", A100, Timing.COLD, model)
    assert found == pytest.approx(2 * 16384**2 / (0.8 * A100.dram_bytes_per_s), rel=0.1)


def test_one_product_has_three_names() -> None:
    texts = (
        "gemm(M=96,N=512,K=256)",
        "linear(B=4,M=24,N=256,K=512,dtype=bf16)",
        "bmm(B=1,M=96,N=256,K=512,dtype=bf16)",
    )
    assert len({seconds(text, H100) for text in texts}) == 1


def test_a_batch_is_so_many_products() -> None:
    [(batch, _)] = batches_of([parse_operator("bmm(B=64,M=512,N=512,K=64,dtype=bf16)")])
    assert shape_of(batch).flops.tolist() == [2 * 64 * 512 * 512 * 64]


def test_small_weights_stay_in_l2_and_cold_ones_do_not() -> None:
    text = "gemm(M=16,N=1024,K=1024)"
    warm, cold = work(text, H100), work(text, H100, Timing.COLD)
    dram = {each.name: float(each.seconds[0]) for each in warm.resources}["dram"]
    assert dram == 0
    assert float(cold.seconds[0]) > float(warm.seconds[0])


def test_boards_of_half_the_rate_keep_their_clock() -> None:
    """cuBLAS takes 895 us for 4096^3 on an RTX 4090 at 2520 MHz (spatters/mma-matmul, MIT): 0.93 of its peak."""
    assert (tensor_load(RTX), tensor_load(L40S), tensor_load(A100)) == (0.5, 1.0, 1.0)
    [(batch, _)] = batches_of([parse_operator("gemm(M=4096,N=4096,K=4096,dtype=fp16)")])
    assert float(times_of(batch, RTX).seconds[0]) == pytest.approx(895e-6, rel=0.1)


@pytest.mark.parametrize(
    ("text", "gpu", "said"),
    [
        ("gemm(M=1,N=1,K=1,dtype=fp8)", A100, "no tensor cores for fp8"),
        ("gemm(M=1,N=1,K=1)", V100, "no tensor cores for bf16"),
        ("gemm(M=1,N=1,K=1)", load_gpu("p100-pcie"), "no tensor cores for bf16"),
        ("gemm(M=1,N=1,K=1)", without_tensor_rate(load_gpu("gb10")), "is not known"),
        ("gemm(M=1,N=1,K=1)", replace(A100, l2_bytes=None), "l2_kib"),
    ],
)
def test_what_a_gpu_cannot_do_or_lacks_is_refused(text: str, gpu: GPU, said: str) -> None:
    with pytest.raises(MissingEvidenceError, match=said):
        work(text, gpu)


def test_sixteen_bits_run_where_bfloat_does_not() -> None:
    assert seconds("gemm(M=4096,N=4096,K=4096,dtype=fp16)", V100) > 2 * 4096**3 / 125.4e12


@settings(max_examples=examples(25), deadline=None)
@given(st.tuples(SIZES, SIZES, SIZES), st.sampled_from(("bf16", "fp8", "int4_wo")), st.sampled_from((L40S, H100, B200)))
def test_a_better_gpu_is_never_slower(sizes: tuple[int, int, int], dtype: str, gpu: GPU) -> None:
    text = "gemm(M={},N={},K={},dtype={})".format(*sizes, dtype)
    before = seconds(text, gpu)
    rate = gpu.l2_rate
    assert rate is not None
    faster = (
        replace(gpu, dram_bytes_per_s=1.3 * gpu.dram_bytes_per_s),
        replace(gpu, l2_bytes_per_s=1.3 * rate.bytes_per_s),
        replace(gpu, l2_bytes=2 * (gpu.l2_bytes or 0), l2_bytes_per_s=rate.bytes_per_s),
    )
    for better in faster:
        assert seconds(text, better) <= before * (1 + 1e-12)


@settings(max_examples=examples(25), deadline=None)
@given(
    st.tuples(SIZES, SIZES, SIZES),
    st.sampled_from(("bf16", "fp8", "int8_wo")),
    st.sampled_from((L40S, H100, RTX, B200)),
)
def test_twice_the_work_is_never_much_faster_and_nothing_beats_the_peak(
    sizes: tuple[int, int, int], dtype: str, gpu: GPU
) -> None:
    m, n, k = sizes
    one, two = (f"gemm(M={rows},N={n},K={k},dtype={dtype})" for rows in (m, 2 * m))
    assert seconds(two, gpu) >= seconds(one, gpu) * 0.98
    [(batch, _)] = batches_of([parse_operator(one)])
    least = MODEL.work(batch, gpu, Timing.SERIES).least
    assert least is not None
    assert float(times_of(batch, gpu).seconds[0]) >= float(least[0])


def test_sizes_from_one_to_the_longest_are_finite() -> None:
    texts = [f"bmm(B={b},M={m},N={n},K={k},dtype=bf16)" for b, m, n, k in
             ((1, 1, 1, 1), (2**20, 1, 1, 2**20), (1, 2**40, 1, 1), (1, 1, 2**40, 1), (3, 7, 5, 11))]  # fmt: skip
    [(batch, _)] = batches_of([parse_operator(text) for text in texts])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = MODEL.work(batch, H100, Timing.SERIES)
    assert np.isfinite(found.seconds).all()
    assert np.isfinite(found.features).all()
    assert found.features.shape == (len(texts), len(MODEL.features))


def test_rows_do_not_depend_on_their_neighbours() -> None:
    texts = [f"gemm(M={m},N=4096,K=4096)" for m in range(1, 4200)]
    [(batch, _)] = batches_of([parse_operator(text) for text in texts])
    whole = MODEL.work(batch, H100, Timing.SERIES).seconds
    for row in (0, 4095, 4096, 4198):
        assert whole[row] == seconds(texts[row], H100)


def test_what_is_fitted_is_a_constant() -> None:
    assert all(getattr(MODEL.constants, name) > 0 for name in FITTED)
