from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import load_gpu
from kerncast.models.operators.elementwise import FITTED, Constants, Elementwise, stream_bytes_per_s
from kerncast.models.operators.operator_work import OperatorBatch, batches_of
from kerncast.operators import KINDS, parse_operator
from kerncast.operators.kinds import Family
from kerncast.prediction import Timing
from tests.helpers.thorough import examples

MODEL = Elementwise()
T4, V100, P100, H100 = (load_gpu(name) for name in ("t4", "v100-pcie-32gb", "p100-pcie", "h100-sxm"))
SIDES = st.integers(1, 2**40)


def batch_of(*texts: str) -> OperatorBatch:
    [(batch, _)] = batches_of([parse_operator(text) for text in texts])
    return batch


def seconds(text: str, gpu: object = T4, timing: Timing = Timing.SINGLE) -> float:
    return float(MODEL.work(batch_of(text), gpu, timing).seconds[0])  # type: ignore[arg-type]


def test_a_large_sum_takes_its_bytes_over_the_bandwidth() -> None:
    """3 x 4 bytes of 1e9 numbers at a share of 320 GB/s, and the launch."""
    stream_s = 12e9 / (MODEL.constants.stream_share_gddr * 320e9)
    assert seconds("add(B=1000,H=1000000)") == pytest.approx(stream_s + MODEL.constants.launch_s, rel=1e-4)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.family is Family.ELEMENTWISE])
def test_all_kinds_stream_two_tensors_or_three(name: str) -> None:
    tensors = 3 if name in {"add", "mul", "div", "pow"} else 2
    work = MODEL.work(batch_of(f"{name}(B=1024,H=4096)"), V100, Timing.SINGLE)
    moved = 4 * 1024 * 4096 * tensors
    stream_s = moved / stream_bytes_per_s(V100, MODEL.constants)
    assert work.seconds[0] == pytest.approx(MODEL.constants.launch_s + stream_s)


@pytest.mark.parametrize(
    ("name", "share"),
    [("p4", 0.7), ("p100-pcie", 0.7), ("v100-pcie-32gb", 0.9), ("titan-v", 0.9), ("h200", 0.9), ("l4", 0.75),
     ("rtx-5090", 0.89), ("l40", 0.94)],
)  # fmt: skip
def test_the_kind_of_memory_decides_the_share(name: str, share: float) -> None:
    """Boards without ECC, and those that were measured, stream as their facts say; an L40 816 of 864 GB/s."""
    gpu = load_gpu(name)
    shares = Constants(20e-6, stream_share_pascal=0.7, stream_share_hbm=0.9, stream_share_gddr=0.75)
    assert stream_bytes_per_s(gpu, shares) == pytest.approx(share * gpu.dram_bytes_per_s, rel=0.005)


def test_another_timing_exchanges_the_launch() -> None:
    text = "relu(B=4096,H=4096)"
    times = {timing: seconds(text, T4, timing) for timing in Timing}
    stream = times[Timing.SINGLE] - MODEL.constants.launch_s
    assert times[Timing.COLD] == times[Timing.SINGLE]
    assert times[Timing.SERIES] == pytest.approx(stream + 1.6e-6)
    assert times[Timing.PROFILER] == pytest.approx(stream + 1.2e-6)


def test_a_series_is_no_faster_than_the_gpu_launches() -> None:
    gpu = replace(T4, launch_interval_s=5e-6)
    assert seconds("relu(B=1,H=1)", gpu, Timing.SERIES) == pytest.approx(5e-6)


@settings(max_examples=examples(25), deadline=None)
@given(rows=SIDES, columns=SIDES, faster=st.floats(1, 10))
def test_more_bandwidth_is_never_slower_and_more_work_never_faster(rows: int, columns: int, faster: float) -> None:
    text, more = f"mul(B={rows},H={columns})", f"mul(B={min(2 * rows, 2**40)},H={columns})"
    assert np.isfinite(seconds(text))
    assert seconds(text, replace(T4, dram_bytes_per_s=T4.dram_bytes_per_s * faster)) <= seconds(text)
    assert seconds(more) >= seconds(text)


def test_without_the_width_of_the_interface_it_refuses() -> None:
    unknown = replace(H100, dram_bus_bits=None)
    with pytest.raises(MissingEvidenceError, match="DRAM interface's width is unknown"):
        seconds("relu(B=1,H=1)", unknown)
    assert seconds("relu(B=1,H=1)", replace(P100, dram_bus_bits=None)) > 0


def test_what_it_says_of_itself_fits() -> None:
    work = MODEL.work(batch_of("relu(B=1,H=1)", "relu(B=5,H=7)"), T4, MODEL.timing)
    assert work.features.shape == (2, len(MODEL.features))
    assert MODEL.features[-1] == "architecture"
    assert all(getattr(MODEL.constants, name) > 0 for name in FITTED)
