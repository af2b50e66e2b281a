"""Which kernels may run on two cores: those whose blocks cannot see what another block writes."""

import pytest

from kerncast.execute.setup import linked_program
from kerncast.execute.setup.dataflow import blocks_are_independent
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
