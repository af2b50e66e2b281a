"""What clusters cost in the simulation of an SM: a chase through another block's shared memory, and barriers."""

import json
from pathlib import Path

import pytest

from kerncast import predict
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


FOLLOWING = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 b) .reqntid 32,1,1 .reqnctapercluster 2,1,1 {
.reg .b64 %b; .reg .b32 %t, %rank, %n, %s, %bar, %turn, %w; .reg .b16 %both; .reg .pred %p, %first, %copies, %follows;
.shared .align 128 .b8 s[16384]; .shared .align 8 .b64 bar[1];
ld.param.u64 %b, [b]; mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank; mov.u32 %s, s; mov.u32 %bar, bar;
mov.u16 %both, 3; mov.u32 %n, 0; setp.eq.u32 %first, %t, 0;
setp.eq.and.u32 %copies, %rank, 0, %first; setp.eq.and.u32 %follows, %rank, 1, %first;
@%first mbarrier.init.shared::cta.b64 [%bar], 1; barrier.cluster.arrive; barrier.cluster.wait;
next: and.b32 %turn, %n, 1; @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 16384;
barrier.cluster.arrive; barrier.cluster.wait;
@%copies cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
 [%s], [%b], 16384, [%bar], %both;
wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], %turn; @!%p bra wait;
READ add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 20; @%p bra next;
barrier.cluster.arrive; barrier.cluster.wait; ret; }"""


def test_a_block_that_only_waits_for_others_is_not_idle(tmp_path: Path) -> None:
    """One of each two copies for both: whether the other one reads a word of that, or none, SMs have as many blocks."""
    seconds = []
    for read in ("@%follows ld.shared.u32 %w, [%s];", ""):
        (tmp_path / "k.ptx").write_text(FOLLOWING.replace("READ", read), encoding="utf-8")
        text = (
            'source = "k.ptx"\n[[launch]]\nkernel = "k"\ngrid = [1056]\nblock = [32]\nargs = { b = "u32[4096] iota" }\n'
        )
        (tmp_path / "k.toml").write_text(text, encoding="utf-8")
        (found,) = predict(tmp_path / "k.toml", "h100-sxm", model="simulation")
        seconds.append(found.seconds)
    assert seconds[1] == pytest.approx(seconds[0], rel=0.02)
