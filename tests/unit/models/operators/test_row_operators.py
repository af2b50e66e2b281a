import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, load_gpu
from kerncast.models.operators.operator_work import OperatorBatch, OperatorModel, OperatorWork, batches_of
from kerncast.models.operators.row_operators import FITTED, Norm, Softmax
from kerncast.operators import parse_operator
from kerncast.prediction import Timing
from tests.helpers.thorough import examples

P4, T4, A100, H100 = (load_gpu(name) for name in ("p4", "t4", "a100-pcie-40gb", "h100-sxm"))
MODELS: dict[str, OperatorModel] = {"softmax": Softmax(), "ln": Norm(), "rmsnorm": Norm()}
#: The same by round constants, which no fit moves: for times worked by hand.
SOFTMAX = Softmax(
    replace(
        Softmax().constants, launch_s=40e-6, row_cycles=600, iteration_cycles=900, l2_bytes_per_clock=100, sharpness=2,
        stream_share_pascal=0.75, stream_share_hbm=0.9, stream_share_gddr=0.75,
    )
)  # fmt: skip
NORM = Norm(
    replace(
        Norm().constants, launch_s=60e-6, row_cycles=5000, iteration_cycles=1200, l2_bytes_per_clock=15, sharpness=4,
        stream_share_pascal=0.75, stream_share_hbm=0.9, stream_share_gddr=0.75,
    )
)  # fmt: skip
ROUND: dict[str, OperatorModel] = {"softmax": SOFTMAX, "ln": NORM}
KINDS = st.sampled_from(sorted(MODELS))
SIDES = st.integers(1, 2**40)


def batch_of(*texts: str) -> OperatorBatch:
    [(batch, _)] = batches_of([parse_operator(text) for text in texts])
    return batch


def work_of(
    text: str, gpu: GPU = A100, timing: Timing = Timing.SINGLE, models: dict[str, OperatorModel] = MODELS
) -> OperatorWork:
    return models[text.partition("(")[0]].work(batch_of(text), gpu, timing)


def seconds(text: str, gpu: GPU = A100) -> float:
    return float(work_of(text, gpu).seconds[0])


def test_a_softmax_of_short_rows_is_a_stream() -> None:
    """2 x 4 bytes x 1e6 x 1024 at 0.9 x 1555.2 GB/s take 5.853 ms; a chain of a twentieth of that adds a little."""
    work = work_of("softmax(B=1000000,H=1024)", models=ROUND)
    dram, l2, _launch = (each.seconds[0] for each in work.resources)
    assert dram == pytest.approx(5.853e-3, rel=1e-3)
    assert l2 == 0
    # 1e6 / (108 x 32) waves of 600 + 900 cycles at 1.41 GHz.
    chain = 1e6 / (108 * 32) * (600 + 900) / 1.41e9
    assert work.seconds[0] == pytest.approx((5.853e-3**2 + chain**2) ** (1 / 2) + 40e-6, rel=1e-3)


def test_rows_that_l2_does_not_hold_are_read_again_from_dram() -> None:
    """On P4 no L1 counts: 20 SMs x 4 blocks x 4 MB are far more than 2 MiB of L2, so softmax reads three times."""
    [dram, l2, _] = (each.seconds[0] for each in work_of("softmax(B=1000,H=1000000)", P4, models=ROUND).resources)
    assert dram == pytest.approx(4 * 4e9 / (0.75 * 192.2e9), rel=1e-3)
    assert l2 == 0


def test_one_long_row_lasts_a_wave() -> None:
    """Two passes of 1954 iterations of 128 threads."""
    found = work_of("ln(B=1,H=1000000)", models=ROUND).seconds[0]
    assert found == pytest.approx((5000 + 1200 * 2 * 1954) / 1.41e9 + 60e-6, rel=1e-3)


def test_a_root_mean_square_norm_is_taken_for_a_layer_norm() -> None:
    assert seconds("rmsnorm(B=4096,H=4096)") == seconds("ln(B=4096,H=4096)")


@pytest.mark.parametrize("text", ["softmax(B=1,H=1)", "ln(B=1,H=1)", "softmax(B=7,H=1025)"])
def test_tiny_ones_take_little_more_than_their_launch(text: str) -> None:
    launch = 60e-6 if text.startswith("ln") else 40e-6
    assert launch < work_of(text, models=ROUND).seconds[0] < launch + 12e-6


def test_another_timing_exchanges_the_launch() -> None:
    text = "softmax(B=4096,H=4096)"
    times = {timing: float(work_of(text, T4, timing).seconds[0]) for timing in Timing}
    assert times[Timing.COLD] == times[Timing.SINGLE]
    assert times[Timing.SERIES] == pytest.approx(times[Timing.SINGLE] - Softmax().constants.launch_s + 1.6e-6)


@settings(max_examples=examples(25), deadline=None)
@given(kind=KINDS, rows=SIDES, length=SIDES, faster=st.floats(1, 8), gpu=st.sampled_from((P4, T4, A100, H100)))
def test_a_faster_gpu_is_never_slower(kind: str, rows: int, length: int, faster: float, gpu: GPU) -> None:
    text = f"{kind}(B={rows},H={length})"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        usual = seconds(text, gpu)
    assert np.isfinite(usual)
    bandwidth, clock = gpu.dram_bytes_per_s * faster, gpu.clock_hz * faster
    for better in (
        replace(gpu, dram_bytes_per_s=bandwidth), replace(gpu, clock_hz=clock, clock_boost_hz=clock),
        gpu.at_clock(clock), replace(gpu, l2_bytes=2 * (gpu.l2_bytes or 0)),
    ):  # fmt: skip
        assert seconds(text, better) <= usual * (1 + 1e-12)


@settings(max_examples=examples(25), deadline=None)
@given(kind=KINDS, rows=st.integers(1, 2**20), length=st.integers(1, 2**20))
def test_more_rows_and_longer_ones_are_never_faster(kind: str, rows: int, length: int) -> None:
    usual = seconds(f"{kind}(B={rows},H={length})") * (1 - 1e-12)
    assert seconds(f"{kind}(B={2 * rows},H={length})") >= usual
    # From where a row has 1024 threads: shorter ones get more threads as they grow.
    length += 8192
    usual = seconds(f"{kind}(B={rows},H={length})") * (1 - 1e-12)
    assert seconds(f"{kind}(B={rows},H={2 * length})") >= usual


@pytest.mark.parametrize("unknown", [replace(T4, l2_bytes=None), replace(T4, dram_bus_bits=None)])
def test_a_gpu_without_a_needed_fact_is_refused(unknown: GPU) -> None:
    with pytest.raises(MissingEvidenceError, match=r"is unknown\. Give it in a file of this GPU"):
        work_of("ln(B=8,H=8)", unknown)


def test_an_unknown_size_of_l1_is_refused() -> None:
    unknown = replace(T4, architecture=replace(T4.architecture, l1_and_shared_bytes=None))
    with pytest.raises(MissingEvidenceError, match="L1's size"):
        work_of("ln(B=8,H=8)", unknown)


@pytest.mark.parametrize("model", [Softmax(), Norm()])
def test_what_they_say_of_themselves_fits(model: Softmax | Norm) -> None:
    kind = "softmax" if isinstance(model, Softmax) else "ln"
    work = model.work(batch_of(f"{kind}(B=1,H=1)", f"{kind}(B=5,H=7000)"), T4, model.timing)
    assert work.features.shape == (2, len(model.features))
    assert np.isfinite(work.features).all()
    assert model.features[-1] == "architecture"
    assert all(getattr(model.constants, name) > 0 for name in FITTED)
