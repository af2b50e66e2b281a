"""Two kernels beside one another: one at no load, never below one, symmetric, and slower the more the other asks."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from kerncast.errors import InputError
from kerncast.gpu import load_gpu
from kerncast.measurements import PartitionTimes
from kerncast.prediction import Timing
from kerncast.read.launches import only_launch
from kerncast.studies.bounding import BoundOptions, bound_launch, bound_times
from kerncast.studies.interference import Beside, Slowdown, slowdowns

GPU = load_gpu("TITAN V")
SOURCE = """
__global__ void copy(int n, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
__global__ void nothing(int n, float *y) {
    if (n < 0) y[0] = 1;
}
__global__ void turns(int n, float *y) {
    float a = threadIdx.x;
    for (int k = 0; k < n; k++) a = a * 1.5f + 2.0f;
    if (a == 1.0f) y[0] = a;
}
"""
LAUNCHES = {
    "copy": ("4096, ", 'n = 1048576, x = "f32[1048576] ones", y = "f32[1048576] zeros"'),
    "nothing": ("1, ", 'n = 1, y = "f32[1] zeros"'),
    "turns": ("160, ", 'n = 500, y = "f32[1] zeros"'),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("beside")
    (folder / "k.cu").write_text(SOURCE, encoding="utf-8")
    found = {}
    for name, (grid, arguments) in LAUNCHES.items():
        found[name] = folder / f"{name}.toml"
        found[name].write_text(
            f'source = "k.cu"\n[[launch]]\nkernel = "{name}"\ngrid = [{grid.strip(", ")}]\nblock = [256]\n'
            f"args = {{ {arguments} }}\n",
            encoding="utf-8",
        )
    return found


def slowed(files: dict[str, Path], one: str, other: str, tpcs: int, beside: int) -> Slowdown:
    (found,) = slowdowns(
        only_launch(files[one]), Beside(only_launch(files[other]), beside), (GPU, (tpcs,)), Timing.PROFILER
    )
    return found


def test_no_load_slows_nothing_down(files: dict[str, Path]) -> None:
    assert slowed(files, "copy", "nothing", 20, 20).expected == 1.0
    assert slowed(files, "copy", "nothing", 20, 20).bound == pytest.approx(1.0, abs=0.02)
    assert slowed(files, "copy", "copy", 20, 0) == Slowdown(20, 0, 1.0, 1.0)


def test_two_copies_on_half_of_the_gpu_each_take_twice_as_long_at_most_and_alike(files: dict[str, Path]) -> None:
    """Both are limited by DRAM, of which each gets half."""
    both = slowed(files, "copy", "copy", 20, 20)
    assert 1.6 < both.expected <= 2.01
    assert both.bound >= both.expected
    few, many = slowed(files, "copy", "copy", 16, 24), slowed(files, "copy", "copy", 24, 16)
    assert few.expected == pytest.approx(many.expected, rel=0.1)


def test_arithmetic_takes_nothing_of_l2_and_dram(files: dict[str, Path]) -> None:
    assert slowed(files, "copy", "turns", 20, 20).expected == pytest.approx(1.0, abs=0.01)
    assert slowed(files, "turns", "copy", 20, 20).expected == pytest.approx(1.0, abs=0.01)


def test_more_tpcs_beside_never_make_it_faster(files: dict[str, Path]) -> None:
    found = [slowed(files, "copy", "copy", 8, beside) for beside in (0, 4, 8, 16, 32)]
    for fewer, more in pairwise(found):
        assert more.expected >= fewer.expected - 0.01
        assert more.bound >= fewer.bound - 0.01
        assert more.bound >= more.expected >= 1


def test_bounds_beside_another_kernel_are_those_alone_times_the_slowdown(files: dict[str, Path]) -> None:
    options = BoundOptions(timing=Timing.PROFILER)
    alone = bound_launch(only_launch(files["copy"]), None, GPU, ((4, 20), options))
    beside = bound_launch(
        only_launch(files["copy"]), None, GPU, ((4, 20), replace(options, beside=Beside(only_launch(files["copy"]))))
    )
    assert [each.beside_tpcs for each in beside.slowdowns] == [36, 20]
    for place, each in enumerate(beside.slowdowns):
        assert beside.answer.bound[place] >= alone.answer.bound[place] * each.bound * (1 - 1e-9)
        assert beside.answer.expected[place] >= alone.answer.expected[place] * each.expected * (1 - 1e-9)


def test_what_does_not_fit_beside_is_told(files: dict[str, Path]) -> None:
    with pytest.raises(InputError, match="30 TPCs and 20 beside"):
        slowed(files, "copy", "copy", 30, 20)
    with pytest.raises(InputError, match="--beside needs a launch"):
        bound_times(PartitionTimes((1,), (1.0,)), GPU, (1,), BoundOptions(beside=Beside(only_launch(files["copy"]))))
