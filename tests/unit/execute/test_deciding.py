"""Which buffers decide what a kernel does: what the others hold changes no count."""

from typing import Any

import pytest

from kerncast.execute import profile_of, run_launch
from kerncast.execute.setup import linked_program
from kerncast.execute.setup.dataflow import UNKNOWN, BufferUse
from kerncast.profiles import KernelProfile
from tests.helpers.execute_helpers import compiled, launch

SOURCE = """
#define KERNEL extern "C" __global__ void
extern "C" __global__ void streams(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i] + y[i];
}
KERNEL gathers(const float *x, const int *at, float *y) { y[threadIdx.x] = x[at[threadIdx.x] & 31]; }
KERNEL selects(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x] > 0.5f ? 1.f : 2.f; }
KERNEL branches(const float *x, float *y) { if (x[threadIdx.x] > 0.5f) y[threadIdx.x] = x[threadIdx.x + 1]; }
KERNEL through_shared(const int *x, const float *z, float *y) {
    __shared__ int at[32];
    at[threadIdx.x] = x[threadIdx.x] & 31;
    __syncthreads();
    y[threadIdx.x] = z[at[31 - threadIdx.x]];
}
KERNEL stages(const float *x, float *y) {
    __shared__ float tile[32];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[31 - threadIdx.x];
}
KERNEL through_memory(const int *x, int *at, float *y) {
    at[threadIdx.x] = x[threadIdx.x] & 31;
    __syncthreads();
    y[at[31 - threadIdx.x]] = 1;
}
KERNEL claims(int *next, float *y) { y[atomicAdd(next, 1) & 31] = 1; }
KERNEL sums(const float *x, float *y) { atomicAdd(y, x[threadIdx.x]); }
KERNEL loops(const int *from, const float *x, float *y) {
    float sum = 0;
    for (int k = from[threadIdx.x] & 7; k < (from[threadIdx.x + 1] & 15); ++k) sum += x[k];
    y[threadIdx.x] = sum;
}
__constant__ int table[32];
KERNEL by_table(const float *x, float *y) { y[threadIdx.x] = x[table[threadIdx.x] & 31]; }
KERNEL follows(float **rows, float *y) { if (y[0] > 1e9f) y[threadIdx.x] = rows[0][threadIdx.x]; }
"""
DECIDING = {
    "streams": set(), "gathers": {1}, "selects": set(), "branches": {0}, "through_shared": {0}, "stages": set(),
    "through_memory": {0, 1}, "claims": {0}, "sums": set(), "loops": {0},
}  # fmt: skip


def use_of(kernel: str) -> BufferUse:
    found = compiled(SOURCE, kernel)
    program = linked_program(found.ptx, found.mangled)
    return BufferUse(program, frozenset(p.name for p in program.function.parameters if p.nbytes == 8))


@pytest.mark.parametrize(("kernel", "expected"), DECIDING.items())
def test_which_buffers_decide(kernel: str, expected: set[int]) -> None:
    use = use_of(kernel)
    names = [p.name for p in use.program.function.parameters]
    assert use.deciding == {names[number] for number in expected}


def test_constants_decide_and_pointers_in_memory_may_be_anything() -> None:
    assert use_of("by_table").deciding == {"table"}
    assert UNKNOWN in use_of("follows").read
    names = [p.name for p in use_of("follows").program.function.parameters]
    assert use_of("follows").deciding == {*names, UNKNOWN}  # y decides, so that what is stored there does


MAP = "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%m, {%s}], [%s];"


@pytest.mark.parametrize(
    ("map_is", "get", "expected"),
    [(".u64 m", "ld.param.u64 %m, [m];", {"m"}), (".align 64 .b8 m[128]", "mov.b64 %m, m;", set())],
)
def test_a_tensor_map_in_memory_decides_and_its_copies_read_anything(map_is: str, get: str, expected: set[str]) -> None:
    text = f""".version 8.8\n.target sm_90a\n.address_size 64
.visible .entry k(.param {map_is}, .param .u64 y) {{
.reg .b64 %m, %y; .reg .b32 %s; .shared .align 128 .b8 here[256];
{get} ld.param.u64 %y, [y]; mov.u32 %s, 0; {MAP} st.global.b32 [%y], %s; ret; }}"""
    use = BufferUse(linked_program(text, "k"), frozenset({"m", "y"} if expected else {"y"}))
    assert use.deciding == expected
    assert use.read == {UNKNOWN}
    assert use.written == {"y"}


#: The buffers of each kernel, in the order of its parameters, and whether they hold integers.
BUFFERS = {
    "streams": "xy", "gathers": "xiy", "selects": "xy", "branches": "xy", "through_shared": "ixy", "stages": "xy",
    "through_memory": "iiy", "claims": "iy", "sums": "xy", "loops": "ixy",
}  # fmt: skip


@pytest.mark.parametrize("kernel", DECIDING)
def test_what_the_others_hold_changes_no_count(kernel: str) -> None:
    def counted(others: str) -> KernelProfile:
        values: dict[str, Any] = {}
        for place, kind in enumerate(BUFFERS[kernel]):
            fill = ("randint(0, 1000)" if kind == "i" else "random") if place in DECIDING[kernel] else others
            values[f"b{place}"] = f"{'i32' if kind == 'i' else 'f32'}[64] {fill}"
        if kernel == "streams":
            values["n"] = 30
        found = compiled(SOURCE, kernel)
        where = launch(1, 32, **values)
        executed = run_launch(found, where)
        return profile_of(executed.trace, executed.sampler, found, where)

    zeros, ones, other = (counted(fill).counts for fill in ("zeros", "ones", "random"))
    assert zeros == ones == other
