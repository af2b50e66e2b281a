"""Which kernels may run on two cores, and which counters tell blocks whose turn it is."""

from dataclasses import replace

import numpy as np
import pytest

from kerncast.execute.native import NativeEngine
from kerncast.execute.sampling.sample import Budget
from kerncast.execute.setup import linked_program
from kerncast.execute.setup.dataflow import blocks_are_independent, common_counters
from kerncast.execute.setup.prepare import contents, prepare
from kerncast.execute.setup.state import Turns
from tests.helpers.execute_helpers import compiled, launch, run

SOURCE = """
#define KERNEL extern "C" __global__ void
extern "C" __global__ void copies(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}
KERNEL in_place(float *x) { x[threadIdx.x] += 1; }
KERNEL gathers(const float *x, const int *at, float *y, size_t n) { y[threadIdx.x * n] = x[at[threadIdx.x * n]]; }
KERNEL follows(float **rows, float *y) { y[threadIdx.x] = rows[threadIdx.x][0]; }
KERNEL counts(int *n) { atomicAdd(n, 1); }
KERNEL counts_in_shared(const int *x, int *y) {
    __shared__ int sum;
    sum = 0;
    __syncthreads();
    atomicAdd(&sum, x[threadIdx.x]);
    __syncthreads();
    y[blockIdx.x] = sum;
}
__device__ float state[64];
KERNEL uses_state(float *y) { y[threadIdx.x] = state[threadIdx.x]; }
KERNEL changes_state(float *y) { state[threadIdx.x] = state[threadIdx.x + 1] + y[0]; }
KERNEL either(const float *x, float *y, int which) { const float *p = which ? x : y; y[threadIdx.x] = p[threadIdx.x]; }
KERNEL chases(volatile int *next, int *steps) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int n = 0;
    while (next[i] > 0 && n < 1000) {
        next[i] = next[next[i]];
        ++n;
    }
    steps[i] = n;
}
__device__ int tail[2];
KERNEL takes(int n, int *next, int *y) {
#pragma unroll 1
    for (int k = 0; k < 3; ++k) y[(blockIdx.x * blockDim.x + threadIdx.x) * 3 + k] = atomicAdd(next + 1, n);
}
KERNEL takes_twice(int *next, int *y) {
    const int first = atomicAdd(next, 1);
    __syncthreads();
    y[threadIdx.x] = first + atomicAdd(next, 1) + atomicAdd(next + 1, 1);
}
KERNEL takes_from_variable(int *y) { y[threadIdx.x] = atomicAdd(&tail[1], 1); }
KERNEL takes_from_lists(const int *list, int *next, int *y) { y[threadIdx.x] = atomicAdd(next + list[0], 1); }
KERNEL takes_sums(const int *x, int *next, int *y) { y[threadIdx.x] = atomicAdd(next, x[threadIdx.x]); }
KERNEL takes_by_block(int *next, int *y) { y[threadIdx.x] = atomicAdd(next + blockIdx.x, 1); }
KERNEL takes_in_shared(int *y) {
    __shared__ int next;
    next = 0;
    __syncthreads();
    y[threadIdx.x] = atomicAdd(&next, 1);
}
"""


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("copies", True), ("in_place", False), ("gathers", True), ("follows", False), ("counts", False),
        ("counts_in_shared", True), ("uses_state", True), ("changes_state", False), ("either", False),
        ("chases", False),
    ],
)  # fmt: skip
def test_which_kernels_may_run_on_two_cores(kernel: str, expected: bool) -> None:
    found = compiled(SOURCE, kernel)
    program = linked_program(found.ptx, found.mangled)
    buffers = frozenset(p.name for p in program.function.parameters if p.nbytes == 8)
    if kernel == "gathers":  # its last parameter is a number as wide as a pointer
        buffers = frozenset(sorted(buffers)[:-1])
    assert blocks_are_independent(program, buffers) is expected


def test_blocks_that_race_give_equal_counts_each_time() -> None:
    where = launch(64, 128, next="i32[8192] randint(0, 8192)", steps="i32[8192]")
    first, *others = (run(compiled(SOURCE, "chases"), where) for _ in range(4))
    for other in others:
        assert (other.counts.block_threads == first.counts.block_threads).all()
        assert (other.memory["steps"] == first.memory["steps"]).all()


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("takes", True), ("takes_from_variable", True), ("takes_from_lists", False), ("takes_sums", False),
        ("takes_by_block", False), ("takes_in_shared", False), ("counts", False),
    ],
)  # fmt: skip
def test_which_atomics_count_for_the_whole_grid(kernel: str, expected: bool) -> None:
    found = compiled(SOURCE, kernel)
    assert bool(common_counters(linked_program(found.ptx, found.mangled))) is expected


def test_warps_get_the_numbers_of_their_turns() -> None:
    """Ticket k of lane l of warp w of 3 blocks of 2 warps: 1 + 4 (32 (w + 6 k) + l); the counter stays at 1."""
    setting = prepare(compiled(SOURCE, "takes"), launch(3, 64, n=4, next="i32[2] ones", y="i32[576]"), Budget())
    NativeEngine(replace(setting, turns={0: Turns(0b11, 3)})).run_parts(np.array([2, 0, 1]))
    thread, turn = np.arange(192)[:, None], np.arange(3)
    expected = 1 + 4 * (32 * (thread // 32 + 6 * turn) + thread % 32)
    held = contents(setting)
    assert (held["y"].reshape(192, 3) == expected).all()
    assert (held["next"] == 1).all()


def test_atomics_on_one_place_share_a_counter() -> None:
    found = compiled(SOURCE, "takes_twice")
    counters = list(common_counters(linked_program(found.ptx, found.mangled)).values())
    assert sorted(counters) in ([0, 0, 1], [0, 1, 1])
    assert counters[0] == counters[1]
