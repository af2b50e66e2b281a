"""Clusters of blocks: distributed shared memory, their barrier, and what cannot be, on both engines."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast.caveats import CaveatKind
from kerncast.compile import CompiledKernel
from kerncast.errors import IllegalAddress, KernelFault, LaunchError
from kerncast.execute import Budget, execute
from kerncast.execute.sampling.run import EngineName
from kerncast.execute.setup import linked_program
from kerncast.execute.setup.supported import in_clusters
from kerncast.launch import Launch, blocks_of_clusters, clusters_of_blocks
from tests.helpers.engine_agreement import disagreement, outcome
from tests.helpers.execute_helpers import WITH_FRAME, compiled, launch, run

_SOURCE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" {
__cluster_dims__(4, 1, 1) __global__ void total(const int *x, int *sums, int n) {
  __shared__ int part;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) part = 0;
  __syncthreads();
  int sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  atomicAdd(&part, sum);
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x < cluster.num_blocks())
    atomicAdd(sums + blockIdx.x / 4, *cluster.map_shared_rank(&part, threadIdx.x));
  cluster.sync();
}
__global__ void histogram(const int *x, int *bins, int n, int per_block) {
  extern __shared__ int own[];
  cg::cluster_group cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < per_block; i += blockDim.x) own[i] = 0;
  cluster.sync();
  int block = blockIdx.x + gridDim.x * blockIdx.y;
  for (int i = block * blockDim.x + threadIdx.x; i < n; i += gridDim.x * gridDim.y * blockDim.x)
    atomicAdd(cluster.map_shared_rank(own, x[i] / per_block) + x[i] % per_block, 1);
  cluster.sync();
  for (int i = threadIdx.x; i < per_block; i += blockDim.x)
    atomicAdd(bins + cluster.block_rank() * per_block + i, own[i]);
}
__global__ void places(int *found) {
  if (threadIdx.x) return;
  cg::cluster_group cluster = cg::this_cluster();
  int *mine = found + 8 * (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
  dim3 id = cluster.block_index(), size = cluster.dim_blocks();
  int is_explicit;
  asm("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.s32 %0, 1, 0, p; }" : "=r"(is_explicit));
  mine[0] = id.x; mine[1] = id.y; mine[2] = id.z;
  mine[3] = size.x * 100 + size.y * 10 + size.z;
  mine[4] = cluster.block_rank(); mine[5] = cluster.num_blocks(); mine[6] = is_explicit;
  asm("{ .reg .u32 a, b; mov.u32 a, %%clusterid.x; mov.u32 b, %%nclusterid.y; mad.lo.s32 %0, b, 100, a; }"
      : "=r"(mine[7]));
}
__global__ void ring(float *out, int steps) {
  __shared__ float value[32];
  cg::cluster_group cluster = cg::this_cluster();
  int rank = cluster.block_rank(), size = cluster.num_blocks();
  value[threadIdx.x] = 100 * rank + threadIdx.x;
  for (int step = 0; step < steps; ++step) {
    cluster.sync();
    float next = cluster.map_shared_rank(value, (rank + 1) % size)[threadIdx.x];
    cluster.sync();
    value[threadIdx.x] = next;
  }
  out[blockIdx.x * 32 + threadIdx.x] = value[threadIdx.x];
}
__global__ void leaves(int *out) {
  __shared__ int value;
  cg::cluster_group cluster = cg::this_cluster();
  value = cluster.block_rank();
  cluster.sync();
  if (cluster.block_rank() == 0) return;
#pragma unroll 1
  for (int i = 0; i < 2000; ++i) out[0] = *(volatile int *)cluster.map_shared_rank(&value, 0);
}
__global__ void tells_late(int *out) {
  __shared__ unsigned long long bar;
  cg::cluster_group cluster = cg::this_cluster();
  unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at));
  cluster.sync();
  if (cluster.block_rank() == 0) return;
#pragma unroll 1
  for (int i = 0; i < 2000; ++i) *(volatile int *)out = i;
  asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, 0;"
               " mbarrier.arrive.shared::cluster.b64 _, [there]; }" :: "r"(at));
  out[1] = 1;
}
__global__ void deserts(int *out) {
  cg::cluster_group cluster = cg::this_cluster();
  cg::cluster_group::arrival_token token = {};
  if (threadIdx.x < 32 || cluster.block_rank()) cluster.sync();
  else __syncthreads();
  out[0] = 1;
}
__global__ void strays(int *out, int rank) {
  __shared__ int value;
  value = 1;
  out[0] = *cg::this_cluster().map_shared_rank(&value, rank);
}
}
""".replace("  cg::cluster_group::arrival_token token = {};\n", "")


_ENGINES: tuple[EngineName, ...] = ("native", "reference")


def _kernel(name: str) -> CompiledKernel:
    return compiled(_SOURCE, name, "sm_90")


def _in_clusters(cluster: tuple[int, int, int], *arguments: Any, **named: Any) -> Launch:
    return replace(launch(*arguments, **named), cluster=cluster)


@pytest.mark.usefixtures("engine")
def test_a_cluster_adds_up_what_its_blocks_found() -> None:
    trace = run(_kernel("total"), launch(16, 64, x="i32[1000] randint(0, 100)", sums="i32[4] zeros", n=1000))
    x = trace.memory["x"]
    owner = np.arange(1000) % (16 * 64) // (4 * 64)
    assert trace.memory["sums"].tolist() == [int(x[owner == each].sum()) for each in range(4)]


@pytest.mark.parametrize("cluster", [(2, 1, 1), (2, 2, 1), (1, 4, 1)])
@pytest.mark.usefixtures("engine")
def test_a_histogram_over_the_shared_memories_of_a_cluster(cluster: tuple[int, int, int]) -> None:
    blocks = int(np.prod(cluster))
    where = _in_clusters(cluster, (4, 4), 64, 4 * 32, x=f"i32[3000] randint(0, {32 * blocks})",
                         bins=f"i32[{32 * blocks}] zeros", n=3000, per_block=32)  # fmt: skip
    trace = run(_kernel("histogram"), where)
    assert trace.memory["bins"].tolist() == np.bincount(trace.memory["x"], minlength=32 * blocks).tolist()


@pytest.mark.usefixtures("engine")
def test_values_go_round_in_a_ring() -> None:
    trace = run(_kernel("ring"), _in_clusters((8, 1, 1), 16, 32, out="f32[512] zeros", steps=3))
    rank = np.arange(512) // 32 % 8
    assert trace.memory["out"].tolist() == (100 * ((rank + 3) % 8) + np.arange(512) % 32).tolist()


@pytest.mark.parametrize("cluster", [None, (1, 1, 1), (2, 3, 1), (1, 2, 2)])
@pytest.mark.usefixtures("engine")
def test_every_block_knows_its_place_in_its_cluster(cluster: tuple[int, int, int] | None) -> None:
    where = replace(launch((4, 6, 2), 32, found="i32[384] zeros"), cluster=cluster)
    found = run(_kernel("places"), where).memory["found"].reshape(2, 6, 4, 8)
    x, y, z = cluster or (1, 1, 1)
    for at_z, at_y, at_x in np.ndindex(2, 6, 4):
        inside = at_x % x, at_y % y, at_z % z
        rank = inside[0] + x * (inside[1] + y * inside[2])
        expected = [*inside, 100 * x + 10 * y + z, rank, x * y * z, int(cluster is not None), 6 // y * 100 + at_x // x]
        assert found[at_z, at_y, at_x].tolist() == expected


def test_blocks_and_clusters_are_numbered_alike() -> None:
    grid, cluster = (6, 4, 2), (3, 2, 1)
    blocks = blocks_of_clusters(np.arange(8), grid, cluster)
    assert sorted(blocks.tolist()) == list(range(48))
    assert clusters_of_blocks(blocks, grid, cluster).tolist() == np.repeat(np.arange(8), 6).tolist()


def test_a_sample_takes_whole_clusters() -> None:
    where = _in_clusters((2, 2, 1), (64, 64), 32, 4 * 32, x="i32[1000] randint(0, 128)", bins="i32[128] zeros",
                         n=1000, per_block=32)  # fmt: skip
    trace, sampler = execute(_kernel("histogram"), where, Budget.for_sample(0.02))
    assert 4 < len(trace.block_ids) < 4096
    clusters = clusters_of_blocks(trace.block_ids.reshape(-1, 4), (64, 64, 1), (2, 2, 1))
    assert (clusters == clusters[:, :1]).all()
    assert sampler.weights().sum() == pytest.approx(4096)
    assert sampler.scale(np.ones(len(trace.block_ids))).value == pytest.approx(4096)


@pytest.mark.usefixtures("engine")
def test_a_block_that_has_left_cannot_be_read() -> None:
    with pytest.raises(IllegalAddress, match="rank 0 in its cluster, which has ended") as caught:
        run(_kernel("leaves"), _in_clusters((2, 1, 1), 2, 32, out="i32[1] zeros"))
    assert "k.cu:" in str(caught.value.where)


@pytest.mark.usefixtures("engine")
def test_an_arrival_in_a_block_that_has_left_is_a_caveat() -> None:
    trace = run(_kernel("tells_late"), _in_clusters((2, 1, 1), 2, 32, out="i32[2] zeros"))
    assert trace.memory["out"].tolist() == [1999, 1]
    assert CaveatKind.LATE_ARRIVAL in {each.kind for each in trace.remarks}


@pytest.mark.usefixtures("engine")
def test_a_cluster_that_waits_for_ever_is_named() -> None:
    with pytest.raises(KernelFault, match=r"wait at a barrier.* that the others never reach, such as block \(0|1"):
        run(_kernel("deserts"), _in_clusters((2, 1, 1), 2, 64, out="i32[1] zeros"))


@pytest.mark.parametrize("rank", [2, 255, 2**20])
@pytest.mark.usefixtures("engine")
def test_a_rank_that_the_cluster_has_not_is_out_of_bounds(rank: int) -> None:
    with pytest.raises(IllegalAddress, match="in a cluster of 2 blocks") as caught:
        run(_kernel("strays"), _in_clusters((2, 1, 1), 2, 32, out="i32[1] zeros", rank=rank))
    assert "k.cu:" in str(caught.value.where)


_HEAD = ".version 8.8\n.target sm_90\n.address_size 64\n"


def _ptx(body: str, rules: str = "") -> CompiledKernel:
    text = (
        f".visible .entry k(.param .u64 out) {rules} {{ .shared .align 16 .b8 pad[64]; .shared .align 16 .b8 mem[64];"
    )
    text += " .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<9>; ld.param.u64 %rd1, [out];"
    text += f" mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 32; add.u64 %rd1, %rd1, %rd2; {body} ret; }}"
    return CompiledKernel("k", "k", "sm_90", _HEAD + text, WITH_FRAME, None)


_NEIGHBOUR = """
mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1; mov.u32 %r4, mem; mapa.shared::cluster.u32 %r5, %r4, %r3;
add.u32 %r6, %r2, 7; st.shared::cluster.u32 [%r5+4], %r6; st.shared.u32 [mem], %r2;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
ld.shared::cta.u32 %r7, [mem+4]; ld.shared::cluster.u32 %r8, [%r5];
atom.shared::cluster.add.u32 %r9, [%r5+8], 5; red.shared::cluster.add.u32 [%r5+8], 1;
getctarank.shared::cluster.u32 %r10, %r5; cvta.shared::cluster.u64 %rd3, 0;
mov.u64 %rd4, mem; cvta.shared.u64 %rd4, %rd4; mapa.u64 %rd5, %rd4, %r3; getctarank.u64 %r11, %rd5;
isspacep.shared::cta %p1, %rd5; selp.u32 %r12, 1, 0, %p1; isspacep.shared::cluster %p2, %rd5; selp.u32 %r13, 1, 0, %p2;
isspacep.shared %p1, %rd4; selp.u32 %r14, 1, 0, %p1;
fence.acq_rel.cluster; barrier.cluster.arrive.relaxed; barrier.cluster.wait; ld.u32 %r15, [%rd5+8];
barrier.cluster.arrive; barrier.cluster.wait;
st.global.v4.u32 [%rd1], {%r7, %r8, %r10, %r11}; st.global.v4.u32 [%rd1+16], {%r12, %r13, %r14, %r15};
"""


@pytest.mark.usefixtures("engine")
def test_addresses_in_the_cluster_mean_one_place_each() -> None:
    kernel = _ptx(_NEIGHBOUR, ".explicitcluster .reqnctapercluster 2")
    found = run(kernel, launch(4, 1, out="u32[32] zeros")).memory["out"].reshape(4, 8)
    for block in range(4):
        other = 1 - block % 2
        assert found[block].tolist() == [other + 7, other, other, other, 0, 1, 1, 6]


_DESERTED = """
mov.u32 %r2, %cluster_ctarank; setp.eq.u32 %p1, %r2, 0; @%p1 barrier.cluster.arrive; @%p1 barrier.cluster.wait;
@%p1 bra DONE; bar.sync 0, 64; DONE:
"""


_COPIES = """
mov.u32 %r2, %cluster_ctarank; add.u32 %r3, %r2, 40; st.global.u32 [%rd1], %r3; mov.u32 %r4, mem;
cp.async.ca.shared.global [%r4], [%rd1], 4; cp.async.wait_all; barrier.cluster.arrive; barrier.cluster.wait;
xor.b32 %r5, %r2, 1; mapa.shared::cluster.u32 %r6, %r4, %r5; ld.shared::cluster.u32 %r7, [%r6];
barrier.cluster.arrive; barrier.cluster.wait; st.global.u32 [%rd1], %r7;
"""


@pytest.mark.usefixtures("engine")
def test_a_copy_writes_to_the_shared_memory_of_its_own_block() -> None:
    trace = run(_ptx(_COPIES, ".reqnctapercluster 2"), launch(4, 1, out="u32[32] zeros"))
    assert trace.memory["out"][::8].tolist() == [41, 40, 41, 40]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("barrier.cluster.arrive; barrier.cluster.arrive; barrier.cluster.wait;", "arrives twice"),
        ("barrier.cluster.wait;", "waits without having arrived"),
        (_DESERTED, "wait at a barrier"),
        ("ld.shared::cluster.u32 %r2, [mem+64];", "out of bounds: 4 bytes at 0x80 of 128 bytes of shared memory"),
        ("mapa.shared::cluster.u32 %r2, 2, 1; ld.shared::cluster.u32 %r3, [%r2];", "misaligned"),
        ("mov.u32 %r3, mem; xor.b32 %r3, %r3, 0x1000000; ld.shared.u32 %r3, [%r3];", "out of bounds"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("engine")
def test_what_cannot_be_is_a_fault(body: str, what: str) -> None:
    with pytest.raises(KernelFault, match=what):
        run(_ptx(body, ".reqnctapercluster 2, 1, 1"), launch(4, 32, out="u32[32] zeros"))


@pytest.mark.usefixtures("engine")
def test_a_warp_that_spins_in_the_block_holds_nobody_up() -> None:
    body = """
    mov.u32 %r2, %tid.x; setp.lt.u32 %p1, %r2, 32; mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1;
    mov.u32 %r5, mem; mapa.shared::cluster.u32 %r6, %r5, %r4; barrier.cluster.arrive; @%p1 bra WAIT;
    SPIN: ld.volatile.shared.u32 %r7, [mem]; setp.eq.u32 %p2, %r7, 0; @%p2 bra SPIN; barrier.cluster.wait; bra DONE;
    WAIT: barrier.cluster.wait; st.shared::cluster.u32 [%r6], 1;
    DONE: barrier.cluster.arrive; barrier.cluster.wait; st.global.u32 [%rd1], 1;
    """
    trace = run(_ptx(body, ".reqnctapercluster 2, 1, 1"), launch(2, 64, out="u32[32] zeros"))
    assert trace.memory["out"][[0, 8]].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("cluster", "rules", "what"),
    [
        ((3, 1, 1), "", "is not a multiple of the cluster"),
        ((8, 4, 1), "", "has 32 blocks, outside 1 to 16"),
        ((2, 1, 1), ".reqnctapercluster 4, 1, 1", "and the kernel declares"),
        ((4, 1, 1), ".maxclusterrank 2", "more blocks than the 2 that the kernel declares"),
        (None, ".explicitcluster", "has to be launched in clusters"),
    ],
)
def test_clusters_that_cannot_be_launched(cluster: tuple[int, int, int] | None, rules: str, what: str) -> None:
    with pytest.raises(LaunchError, match=what):
        run(_ptx("", rules), replace(launch((8, 4), 32, out="u32[256] zeros"), cluster=cluster))


def test_clusters_need_an_architecture_that_has_them() -> None:
    kernel = replace(_ptx(""), ptx=_ptx("").ptx.replace("sm_90", "sm_80"))
    with pytest.raises(LaunchError, match="need sm_90 or newer"):
        run(kernel, _in_clusters((2, 1, 1), 4, 32, out="u32[32] zeros"))


@pytest.mark.parametrize("name", ["total", "ring", "histogram"])
def test_both_engines_count_the_same(name: str) -> None:
    arguments: dict[str, Any] = {
        "total": {"x": "i32[500] randint(0, 9)", "sums": "i32[2] zeros", "n": 500},
        "ring": {"out": "f32[256] zeros", "steps": 2},
        "histogram": {"x": "i32[500] randint(0, 128)", "bins": "i32[128] zeros", "n": 500, "per_block": 32},
    }[name]
    where = _in_clusters((4, 1, 1), 8, 32, 4 * 32, **arguments)
    first, second = (outcome(_kernel(name), where, Budget(), engine) for engine in _ENGINES)
    assert disagreement(first, second) is None


def test_a_target_of_thousands_of_digits_is_some_new_architecture() -> None:
    """Python converts no such number: fuzzing found it."""
    text = f".version 8.0\n.target sm_{'9' * 5000}\n.address_size 64\n.visible .entry k() {{ ret; }}"
    where = Launch(Path("k.ptx"), "k", (2, 1, 1), (32, 1, 1), cluster=(2, 1, 1))
    program = linked_program(text, "k")
    assert in_clusters(where, program.function, f"sm_{'9' * 5000}") == where
