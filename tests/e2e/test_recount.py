"""A profile whose run did other work than the launch file says: its counters replace the executor's."""

from dataclasses import replace
from pathlib import Path

import pytest

from kerncast import predict
from kerncast.caveats import CaveatKind
from kerncast.gpu import load_gpu
from kerncast.launch import Launch, load_launches
from kerncast.models.transfer.pipes import busy_sms
from kerncast.prediction import Prediction
from kerncast.profiles import Count, Counts, KernelProfile, Origin
from kerncast.profiles.counts import DRAM_BYTES, INSTRUCTIONS, L2_BYTES
from tests.helpers.caveats import kinds
from tests.helpers.transfers import profiled, run

SOURCE = """
extern "C" __global__ void rounds(float *y, const int *limit) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = y[thread];
    for (int k = 0; k < limit[0]; ++k) sum = sum * 0.5f + k;
    y[thread] = sum;
}
"""
BLOCKS = 2560
SOURCE_GPU = load_gpu("rtx-2080-ti")
TARGETS = ("titan-v", "rtx-3090")


def launch(folder: Path, limit: int) -> Launch:
    (folder / "k.cu").write_text(SOURCE, encoding="utf-8")
    (folder / "k.toml").write_text(
        f'source = "k.cu"\n[[launch]]\nkernel = "rounds"\ngrid = [{BLOCKS}]\nblock = [256]\n'
        f'args = {{ y = "f32[{256 * BLOCKS}]", limit = "i32[1] randint({limit}, {limit + 1})" }}\n',
        encoding="utf-8",
    )
    (found,) = load_launches(folder / "k.toml")
    return found


def simulated(of: Launch, *gpus: str) -> list[Prediction]:
    return list(predict(of, list(gpus), timing="profiler"))


def counted(real: Prediction, **more: float) -> KernelProfile:
    """Return the profile of a run that took as long, and counted as much, as a simulation says."""
    seconds = {term.name: term.seconds for term in real.terms}
    rate = SOURCE_GPU.architecture.warp_instructions_per_clock_per_sm * busy_sms(BLOCKS, SOURCE_GPU.sm_count)
    assert SOURCE_GPU.dram_rate is not None
    assert SOURCE_GPU.l2_rate is not None
    counts = {
        INSTRUCTIONS: seconds["issue"] * SOURCE_GPU.clock_hz * rate,
        DRAM_BYTES: seconds.get("dram", 0.0) * SOURCE_GPU.dram_rate.bytes_per_s,
        L2_BYTES: seconds.get("l2", 0.0) * SOURCE_GPU.l2_rate.bytes_per_s,
    }
    table = Counts.of(Origin.PROFILED, {name: Count.exact(value * more.get(name, 1)) for name, value in counts.items()})
    profile = replace(profiled(SOURCE_GPU, real.seconds), kernel="rounds", grid=(BLOCKS, 1, 1), counts=table)
    return replace(profile, run=run(SOURCE_GPU, real.seconds))


def test_work_that_the_launch_file_does_not_know(tmp_path: Path) -> None:
    """The run took 400 rounds, the file says 100: forecasts are those of 400, and the words say that counts differ."""
    real = launch(tmp_path, 400)
    on_source, *there = simulated(real, SOURCE_GPU.id, *TARGETS)
    profile = counted(on_source)
    other = launch(tmp_path, 100)
    found = predict([profile], list(TARGETS), timing="profiler", source=other)
    for forecast, truth in zip(found, there, strict=True):
        assert forecast.model == "simulation"
        assert forecast.seconds == pytest.approx(truth.seconds, rel=0.1)
        assert CaveatKind.COUNTS_REPLACED in kinds(forecast.caveats)
        assert CaveatKind.EVIDENCE_CONTRADICTS not in kinds(forecast.caveats)
    bare = predict(other, list(TARGETS), timing="profiler", measured=[f"RTX 2080 Ti={on_source.seconds * 1e6} us"])
    for forecast, truth, alone in zip(found, there, bare, strict=True):
        assert abs(forecast.seconds / truth.seconds - 1) < abs(alone.seconds / truth.seconds - 1)


def test_counts_that_agree_change_nothing(tmp_path: Path) -> None:
    real = launch(tmp_path, 100)
    on_source, *there = simulated(real, SOURCE_GPU.id, *TARGETS)
    found = predict([counted(on_source)], list(TARGETS), timing="profiler", source=real)
    assert [each.seconds for each in found] == pytest.approx([each.seconds for each in there])
    assert all(CaveatKind.COUNTS_REPLACED not in kinds(each.caveats) for each in found)
