"""What clusters cost in the simulation of an SM: a chase through another block's shared memory, and barriers."""

import json
from pathlib import Path

import pytest

from kerncast.gpu import load_gpu
from tests.conftest import Run

_SOURCE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void chase(int *out, int steps) {
  __shared__ int next[256];
  cg::cluster_group cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) next[i] = (i + 1) % 256;
  cluster.sync();
  const int *other = cluster.map_shared_rank(next, cluster.block_rank() ^ 1);
  int at = threadIdx.x;
  for (int i = 0; i < steps; ++i) at = other[at];
  cluster.sync();
  out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}
extern "C" __global__ void meet(int *out, int steps) {
  for (int i = 0; i < steps; ++i) cg::this_cluster().sync();
  out[blockIdx.x * blockDim.x + threadIdx.x] = steps;
}
"""
_LAUNCH = """
[[launch]]
kernel = "{kernel}"
grid = [16]
block = [{block}]
cluster = [2]
args = {{ out = "i32[4096] zeros", steps = {steps} }}
"""
_STEPS = (256, 1280)


@pytest.fixture
def launches(tmp_path: Path) -> Path:
    (tmp_path / "clusters.cu").write_text(_SOURCE)
    rows = [_LAUNCH.format(kernel=kernel, block=block, steps=steps) for kernel, block in (("chase", 32), ("meet", 256))
            for steps in _STEPS]  # fmt: skip
    place = tmp_path / "clusters.toml"
    place.write_text('source = "clusters.cu"\n' + "".join(rows))
    return place


def test_steps_through_another_block_and_barriers_cost_what_the_facts_say(launches: Path, kerncast: Run) -> None:
    done = kerncast("predict", launches, "--gpu", "h100-sxm", "--timing", "profiler", "--json")
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    found = table["predictions"]
    gpu = load_gpu("h100-sxm")
    per_step = [(b["seconds"] - a["seconds"]) / (_STEPS[1] - _STEPS[0]) for a, b in (found[:2], found[2:])]
    cycles = [each * gpu.clock_hz for each in per_step]
    facts = gpu.architecture.cycles
    assert cycles[0] == pytest.approx(facts.cluster_latency, rel=0.08), "the load, and what makes its address"
    assert cycles[1] == pytest.approx(facts.cluster_barrier, rel=0.08), "the barrier, and the loop around it"
    widths = [each["high"] / each["low"] for each in found[1::2]]
    assert widths[1] > 2 * widths[0], "what was published of the barrier differs by 4.7 times"
    assert "180 to 851" in done.stdout


def test_a_gpu_whose_clusters_nobody_measured_gets_a_roofline(launches: Path, kerncast: Run) -> None:
    done = kerncast("predict", launches, "--gpu", "rtx-5090", "--json")
    found = json.loads(done.stdout)["predictions"]
    assert {each["model"] for each in found} == {"roofline"}
    facts, gpu = load_gpu("h100-sxm").architecture.cycles, load_gpu("rtx-5090")
    assert facts.cluster_barrier_least is not None
    assert found[3]["low"] > _STEPS[1] * facts.cluster_barrier_least / gpu.clock_hz, "barriers cost as on Hopper"
    assert found[3]["limiter"] == "cluster_barriers"
    assert "what clusters of blocks cost is unknown" in done.stdout
