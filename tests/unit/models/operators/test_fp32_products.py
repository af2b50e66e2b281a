import warnings
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast import predict
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, load_gpu
from kerncast.models.operators.fp32_products import FITTED, FITTED_OF_BMM, FITTED_OF_LINEAR, Fp32Products
from kerncast.models.operators.operator_work import OperatorBatch, OperatorWork, batches_of
from kerncast.operators import parse_operator
from kerncast.prediction import Timing
from tests.helpers.thorough import examples

P4, P100, V100, T4, A100, H100, RTX = (
    load_gpu(name) for name in ("p4", "p100-pcie", "v100-pcie-32gb", "t4", "a100-pcie-40gb", "h100-sxm", "rtx-4090")
)
GPUS = st.sampled_from((P4, P100, V100, T4, A100, H100, RTX))
BMM, LINEAR = Fp32Products(), Fp32Products.with_weights()
#: The same by round constants, which no fit moves: for times worked by hand.
ROUND_BMM, ROUND_LINEAR = (
    replace(
        model,
        constants=replace(
            model.constants, launch_bmm_s=20e-6, launch_linear_s=45e-6, rate_128=1, operand_loss=0.3,
            overhead_steps=10, half_rate_warps=1.6, dram_share=0.6, sharpness=5, flop_energy_j=15e-12,
            operand_energy=0.4, burst_s=100e-6, stream_share_pascal=0.75, stream_share_hbm=0.9, stream_share_gddr=0.75,
        ),
    )
    for model in (BMM, LINEAR)
)  # fmt: skip
SIDES = st.integers(0, 40).flatmap(lambda power: st.integers(2**power, min(2 ** (power + 1), 2**40)))


def batch_of(*texts: str) -> OperatorBatch:
    [(batch, _)] = batches_of([parse_operator(text) for text in texts])
    return batch


def work_of(text: str, gpu: GPU = A100, timing: Timing = Timing.SINGLE) -> OperatorWork:
    model = BMM if text.startswith("bmm") else LINEAR
    return model.work(batch_of(text), gpu, timing)


def seconds(text: str, gpu: GPU = A100) -> float:
    return float(work_of(text, gpu).seconds[0])


def test_a_large_batched_product_runs_near_its_peak() -> None:
    """A100: 64 x 32 x 32 tiles of 128 x 128 by 108 SMs are 607 on the busiest one, in 303 pairs and one alone.

    Each takes 2 x 128^2 x (4096 + 10) / 180.48e9 s = 745.5 us, a pair 2 + 1.6 / 8 of that: 497.8 ms.
    """
    work = ROUND_BMM.work(batch_of("bmm(B=64,M=4096,N=4096,K=4096)"), A100, Timing.SINGLE)
    tile = 2 * 128**2 * (4096 + 10) / (2 * 64 * 1.41e9)
    assert work.resources[0].seconds[0] == pytest.approx((607 + 304 * 1.6 / 8) * tile)
    share = 2 * 64 * 4096**3 / 19.49e12 / work.seconds[0]
    assert 0.8 < share < 1


def test_a_card_of_70_watts_is_held_by_its_power() -> None:
    """T4, 64 x 4096^3: 2 x 64 x 4096^2 x 4106 operations at 15 pJ with 56 W."""
    work = ROUND_BMM.work(batch_of("bmm(B=64,M=4096,N=4096,K=4096)"), T4, Timing.SINGLE)
    flops = 2 * 64 * 4096**2 * 4106
    names = [each.name for each in work.resources]
    power = work.resources[names.index("power")].seconds[0]
    # The tiles of Turing are smaller than 128 x 128 and load more operands: o = 1/4 for 128 x 64, a loss of 0.4 / 4.
    assert power == pytest.approx(flops * 15e-12 * (1 + 0.4 / 4) / 56 - 100e-6)
    assert work.seconds[0] == pytest.approx(power + 20e-6)


def test_a_product_with_a_vector_streams_its_matrix() -> None:
    """The parts of a split sum add 0.2 %."""
    work = ROUND_LINEAR.work(batch_of("linear(M=1,N=16384,K=16384)"), A100, Timing.SINGLE)
    [dram] = (each.seconds[0] for each in work.resources if each.name == "dram")
    assert dram == pytest.approx(4 * 16384**2 / (0.9 * A100.dram_bytes_per_s), rel=3e-3)


def test_the_format_of_gemm_is_that_of_blas() -> None:
    assert seconds("gemm(M=300,N=500,K=7000,dtype=fp32)") == seconds("linear(M=300,N=7000,K=500)")


def test_a_batch_of_linear_is_more_rows() -> None:
    assert seconds("linear(B=6,M=50,N=700,K=300)") == seconds("linear(M=300,N=700,K=300)")


def test_a_long_sum_of_a_small_result_is_split() -> None:
    """One tile by one SM would take 50 times as long as its part of a sum that is split."""
    assert seconds("linear(M=64,N=1000000,K=64)") < 0.2 * seconds("bmm(B=1,M=64,N=1000000,K=64)")


def test_newer_architectures_have_amperes_tiles() -> None:
    text = "bmm(B=8,M=30,N=512,K=30)"
    names = Fp32Products().features
    fills = {each.id: work_of(text, each).features[0, names.index("fill")] for each in (P4, A100, H100, RTX)}
    assert fills["a100-pcie-40gb"] == fills["h100-sxm"] == fills["rtx-4090"] == 30**2 / 128**2
    assert fills["p4"] == 30**2 / (128 * 64)


def test_another_timing_exchanges_the_launch() -> None:
    text = "linear(M=4096,N=4096,K=4096)"
    times = {timing: float(work_of(text, T4, timing).seconds[0]) for timing in Timing}
    assert times[Timing.COLD] == times[Timing.SINGLE]
    assert times[Timing.SERIES] == pytest.approx(times[Timing.SINGLE] - LINEAR.constants.launch_linear_s + 1.6e-6)


@settings(max_examples=examples(25), deadline=None)
@given(
    kind=st.sampled_from(("bmm", "linear")), sides=st.tuples(SIDES, SIDES, SIDES, SIDES), faster=st.floats(1, 8),
    gpu=GPUS,
)  # fmt: skip
def test_a_faster_gpu_is_never_slower(kind: str, sides: tuple[int, int, int, int], faster: float, gpu: GPU) -> None:
    text = f"{kind}({','.join(f'{name}={side}' for name, side in zip('BMNK', sides, strict=True))})"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        work = work_of(text, gpu)
    assert np.isfinite(work.seconds).all()
    assert np.isfinite(work.features).all()
    assert all(np.isfinite(each.seconds).all() and (each.seconds >= 0).all() for each in work.resources)
    # From the boost clock, which these operators are timed at: a P100's application clock is lower.
    bandwidth, clock = gpu.dram_bytes_per_s * faster, gpu.clock_boost_hz * faster
    for better in (
        replace(gpu, dram_bytes_per_s=bandwidth), replace(gpu, clock_hz=clock, clock_boost_hz=clock),
        gpu.at_clock(clock), replace(gpu, l2_bytes=2 * (gpu.l2_bytes or 0)), replace(gpu, tdp_w=2 * (gpu.tdp_w or 0)),
    ):  # fmt: skip
        assert seconds(text, better) <= work.seconds[0] * (1 + 1e-12)


@settings(max_examples=examples(25), deadline=None)
@given(tiles=st.tuples(*[st.integers(1, 200)] * 3), batch=st.integers(1, 500), gpu=GPUS, name=st.sampled_from("BMNK"))
def test_more_whole_tiles_are_never_faster(tiles: tuple[int, int, int], batch: int, gpu: GPU, name: str) -> None:
    sizes = {"B": batch, "M": 128 * tiles[0], "N": 128 * tiles[1], "K": 128 * tiles[2]}
    usual, more = (
        seconds(f"bmm({','.join(f'{key}={value}' for key, value in found.items())})", gpu)
        for found in (sizes, sizes | {name: 2 * sizes[name]})
    )
    assert more >= usual * (1 - 1e-12)


def test_many_at_once_are_as_each_alone() -> None:
    texts = [f"linear(M={rows},N=333,K=77)" for rows in range(1, 5000)]
    together = LINEAR.work(batch_of(*texts), V100, Timing.SINGLE)
    for place in (0, 4095, 4096, 4998):
        alone = work_of(texts[place], V100)
        assert together.seconds[place] == alone.seconds[0]
        assert together.features[place].tolist() == alone.features[0].tolist()


@pytest.mark.parametrize(
    "unknown", [replace(T4, tdp_w=None), replace(T4, l2_bytes=None), replace(T4, dram_bus_bits=None)]
)
def test_a_gpu_without_a_needed_fact_is_refused(unknown: GPU) -> None:
    with pytest.raises(MissingEvidenceError, match=r"is unknown\. Give it in a file of this GPU"):
        work_of("bmm(B=1,M=1,N=1,K=1)", unknown)


def test_an_architecture_without_an_energy_is_refused() -> None:
    with pytest.raises(MissingEvidenceError, match=r"compute capability 5\.2 is unknown"):
        work_of("bmm(B=1,M=1,N=1,K=1)", load_gpu("gtx-980"))


@pytest.mark.parametrize("model", [BMM, LINEAR])
def test_what_they_say_of_themselves_fits(model: Fp32Products) -> None:
    assert model.name == ("operators-linear-fp32" if model.has_weights else "operators-bmm-fp32")
    kind = "linear" if model.has_weights else "bmm"
    work = model.work(batch_of(f"{kind}(B=1,M=1,N=1,K=1)", f"{kind}(B=5,M=7,N=9,K=11)"), T4, model.timing)
    assert work.features.shape == (2, len(model.features))
    assert model.features[-1] == "architecture"
    assert set(FITTED) == {*FITTED_OF_BMM, *FITTED_OF_LINEAR}
    assert all(getattr(model.constants, name) > 0 for name in FITTED)


def test_no_product_is_faster_than_the_peak() -> None:
    """Once the shipped constants gave a large batch 1.03 times the peak of an A100."""
    gpu = load_gpu("a100-pcie-40gb")
    for text in ("bmm(B=64,M=4096,N=4096,K=4096)", "linear(M=16384,N=16384,K=16384,dtype=fp32)"):
        [found] = predict([parse_operator(text)], gpu)
        product = parse_operator(text)
        assert found.seconds >= 2 * prod(product.sizes) / gpu.peak_fp32_flops_per_s
