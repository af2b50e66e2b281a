"""Features of an executed launch by the names of ncu, nvprof and kerncast, against counts worked by hand."""

import math
from pathlib import Path

import pytest

from kerncast.forecast import profile_launch
from kerncast.gpu import load_gpu
from kerncast.launch import Launch, load_launches
from kerncast.metrics import vocabulary
from kerncast.models.learned import launch_features
from kerncast.models.learned.launch_features import can_execute, features_of
from kerncast.profiles import KernelProfile

K40 = load_gpu("k40")
#: 64 blocks of 256 threads: thread i loads x[i] and y[i], multiplies and adds, stores y[i].
SAXPY = """
__global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = a * x[i] + y[i];
}
"""
LAUNCH = """
source = "saxpy.cu"
[[launch]]
kernel = "saxpy"
grid = [64]
block = [256]
args = { n = 16384, a = 2.0, x = "f32[16384] iota", y = "f32[16384] zeros" }
"""


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Launch, KernelProfile]:
    folder: Path = tmp_path_factory.mktemp("saxpy")
    (folder / "saxpy.cu").write_text(SAXPY)
    (folder / "saxpy.toml").write_text(LAUNCH)
    (launch,) = load_launches(folder / "saxpy.toml")
    return launch, profile_launch(launch, K40)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gld_request", 1024),  # two loads of 512 warps
        ("global_store", 512),
        ("gld_inst_32bit", 32_768),
        ("Global Load Transactions", 1024),  # a warp's 32 words of 4 bytes are one line of 128
        ("global_load_transactions_per_request", 1),
        ("global_memory_load_efficiency", 100),
        ("warps_launched", 512),
        ("floating_point_operations_single_precision_fma", 16_384),
        ("flop_count_sp", 32_768),
        ("shared_load", 0),
        ("shared_memory_load_transactions_per_request", 0),  # of no request
        ("threads_per_block", 256),
        ("grid_x", 64),
        ("launch__block_size", 256),
        ("n", 16_384),  # an argument: tables have such sizes as columns
    ],
)
def test_a_feature_is_what_the_launch_does(counted: tuple[Launch, KernelProfile], name: str, value: float) -> None:
    found = features_of([name], counted[1], K40, counted[0], {})
    assert found.values == pytest.approx([value])
    assert found.missing == ()


def test_cycles_of_all_sms_follow_from_the_simulated_time(counted: tuple[Launch, KernelProfile]) -> None:
    names = ["elapsed_cycles_sm", "sm__cycles_elapsed.max", "executed_ipc", "inst_executed"]
    found = features_of(names, counted[1], K40, counted[0], {})
    whole, busiest, ipc, instructions = found.values
    assert whole == pytest.approx(15 * busiest)  # a K40 has 15 SMs
    assert ipc == pytest.approx(instructions / whole)
    assert found.simulated == ("elapsed_cycles_sm", "sm__cycles_elapsed.max", "executed_ipc")
    assert found.near == ("executed_ipc",)


def test_what_no_execution_tells_is_named_or_given(counted: tuple[Launch, KernelProfile]) -> None:
    found = features_of(["input_size_1", "gld_request"], counted[1], K40, counted[0], {})
    assert found.missing == ("input_size_1",)
    assert math.isnan(found.values[0])
    given = features_of(["input_size_1", "gld_request"], counted[1], K40, counted[0], {"input_size_1": 4.0})
    assert (given.missing, given.values) == ((), (4.0, 1024.0))


def test_formulas_name_counters_of_the_vocabulary_alone() -> None:
    known = {each.name for each in vocabulary()} | {
        *("kerncast__sms", "kerncast__active_sms", "kerncast__max_warps_per_sm", "kerncast__schedulers_per_sm"),
    }
    words = {word for rule in launch_features._rules() for word in rule.formula.split() if word not in {"*", "/", "+"}}
    assert {word for word in words if not word.replace(".", "", 1).isdecimal()} <= known
    assert not can_execute("os.system")
