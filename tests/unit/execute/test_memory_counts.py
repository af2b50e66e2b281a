"""Sectors, lines, wavefronts, conflicts and contention against closed forms and against oracles of the definitions."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kerncast.traces import Trace
from tests.helpers import memory_oracle as oracle
from tests.helpers.access_kernels import LANES, OUT, OWN, ROOM, Offsets, access, accessing, patterns, requests_of
from tests.helpers.execute_helpers import compiled, launch, ptx_kernel, run

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def counts(tmp_path: Path) -> Callable[..., dict[str, list[int]]]:
    """Run a kernel of ``accessing`` with one block per row of offsets; returns the counts of its access per block."""

    def measure(instruction: str, *rows: Offsets, target: str = "sm_70") -> dict[str, list[int]]:
        path = tmp_path / "at.npy"
        np.save(path, np.array(rows, np.int32))
        where = launch(len(rows), len(rows[0]), at=f"i32[{len(rows)},{len(rows[0])}] file({path})", data=f"u8[{ROOM}]")
        kernel = accessing(instruction)
        trace = run(replace(kernel, ptx=kernel.ptx.replace("sm_70", target)), where)
        order = np.argsort(trace.block_ids)
        names = ("requests", "sectors", "lines", "accesses", "shared_requests", "shared_accesses", "shared_wavefronts",
                 "shared_conflicts", "local_requests", "local_accesses", "local_sectors", "local_lines",
                 "contention")  # fmt: skip
        return {name: getattr(trace.counts, name)[order, -1].tolist() for name in names}

    return measure


Measure = Callable[..., dict[str, list[int]]]


# Closed forms


@pytest.mark.parametrize("root", ["ld", "st", "red"])
def test_sectors_and_lines_by_stride(counts: Measure, root: str) -> None:
    name = f"{root}.global.add.u32" if root == "red" else f"{root}.global.f32"
    found = counts(access(name), *(4 * k * LANES for k in (1, 2, 3, 8, 32)), 4 + 4 * LANES, 0 * LANES)
    assert found["sectors"] == [4, 8, 12, 32, 32, 5, 1]
    assert found["lines"] == [1, 2, 3, 8, 32, 2, 1]
    assert found["requests"] == [1] * 7
    assert found["accesses"] == [32] * 7
    assert found["contention"] == ([1] * 6 + [32] if root == "red" else [0] * 7)
    assert not any(found["shared_requests"] + found["shared_wavefronts"] + found["local_requests"])


@pytest.mark.parametrize(
    ("kind", "vector", "size"), [("u8", 1, 1), ("u16", 1, 2), ("f32", 2, 8), ("f32", 4, 16), ("f64", 2, 16)]
)
def test_sectors_by_width(counts: Measure, kind: str, vector: int, size: int) -> None:
    found = counts(access(f"ld.global.{kind}", vector), size * LANES, 128 - size + size * LANES)
    assert found["sectors"] == [size, size + 1]
    assert found["lines"] == [math.ceil(32 * size / 128), math.ceil(32 * size / 128) + 1]


@pytest.mark.parametrize("root", ["ld", "st"])
@pytest.mark.parametrize(("vector", "groups"), [(1, 1), (2, 2), (4, 4)])
def test_bank_conflicts_by_stride(counts: Measure, root: str, vector: int, groups: int) -> None:
    """Lanes that are s elements apart meet in a bank as often as s shares factors with the lanes of a group."""
    strides = range(1, 34)
    found = counts(access(f"{root}.shared.f32", vector), *(4 * vector * s * LANES for s in strides))
    expected = [groups * math.gcd(s, 32 // groups) for s in strides]
    assert found["shared_wavefronts"] == expected
    assert found["shared_conflicts"] == [n - groups for n in expected]
    assert found["shared_requests"] == [1] * 33
    assert not any(found["requests"] + found["sectors"] + found["lines"] + found["contention"])


@pytest.mark.parametrize("root", ["ld", "st"])
def test_banks_of_kepler_serve_two_words(counts: Measure, root: str) -> None:
    """Words 32 apart in an aligned row of 64 share a bank of 8 bytes: a stride of 32 costs half as much as later."""
    strides = [1, 2, 4, 16, 31, 32, 64, 96]
    found = counts(access(f"{root}.shared.f32"), *(4 * s * LANES % ROOM for s in strides), target="sm_35")
    words = [s * LANES % (ROOM // 4) for s in strides]
    served = [{(word // 64, word % 32) for word in row.tolist()} for row in words]
    passes = [max(Counter(bank for _, bank in row).values()) for row in served]
    assert found["shared_wavefronts"] == passes
    assert passes[:3] == [1, 1, 2]
    assert passes[5:7] == [16, 32]


def test_bank_conflicts_of_doubles(counts: Measure) -> None:
    found = counts(access("ld.shared.f64"), 8 * LANES, 16 * LANES, 256 * LANES)
    assert found["shared_wavefronts"] == [2, 4, 32]
    assert found["shared_conflicts"] == [0, 2, 30]


def test_lanes_that_share_words_are_served_together(counts: Measure) -> None:
    narrow = counts(access("ld.shared.u8"), LANES, 4 * LANES, 0 * LANES, 128 * LANES)
    assert narrow["shared_wavefronts"] == [1, 1, 1, 32]
    wide = counts(access("ld.shared.f32", 4), 0 * LANES, 16 * (LANES // 2), 16 * (LANES // 4), 16 * (LANES & ~2))
    assert wide["shared_wavefronts"] == [2, 2, 2, 4], "of the last, 16 lanes ask for 32 words in 16 banks"
    assert wide["shared_conflicts"] == [0, 0, 0, 2]
    double = counts(access("ld.shared.f64"), 0 * LANES, 8 * (LANES // 2), 8 * (LANES // 4))
    assert double["shared_wavefronts"] == [1, 1, 1]


def test_a_group_without_threads_costs_nothing(counts: Measure) -> None:
    quarter = np.where(LANES < 8, 16 * LANES, OUT)
    ends = np.where((LANES < 8) | (LANES >= 24), 16 * LANES, OUT)
    found = counts(access("ld.shared.f32", 4), quarter, ends, np.full(32, OUT))
    assert found["shared_wavefronts"] == [1, 2, 0]
    assert found["shared_conflicts"] == [0, 0, 0]
    assert found["shared_requests"] == [1, 1, 0]


def test_shared_atomics_take_turns(counts: Measure) -> None:
    found = counts(access("red.shared.add.u32"), 0 * LANES, 4 * LANES, 4 * (LANES // 2), 128 * LANES)
    assert found["shared_wavefronts"] == [32, 1, 2, 32]
    assert found["shared_conflicts"] == [31, 0, 1, 31]
    assert found["contention"] == [32, 1, 2, 1]


def test_contention_of_global_atomics(counts: Measure) -> None:
    rows = (0 * LANES, 4 * LANES, 4 * (LANES % 4), np.where(LANES < 7, 0, 4 * LANES), np.where(LANES < 7, 0, OUT))
    assert counts(access("red.global.add.u32"), *rows)["contention"] == [32, 1, 8, 7, 7]


def test_local_memory_lies_interleaved(counts: Measure) -> None:
    """Lanes with one index fill one line per word; lanes with 8 indices spread over all sectors of 8 lines."""
    found = counts(access("ld.local.f32"), 0 * LANES, 4 * (LANES % 8), 4 * (LANES // 8), np.where(LANES < 9, 8, OUT))
    assert found["local_sectors"] == [4, 32, 4, 2]
    assert found["local_lines"] == [1, 8, 4, 1]
    assert found["local_accesses"] == [32, 32, 32, 9]
    assert found["local_requests"] == [1] * 4
    assert not any(found["requests"] + found["sectors"] + found["shared_requests"])
    wide = counts(access("st.local.f64"), 0 * LANES, 8 * (LANES % 2))
    assert wide["local_sectors"] == [8, 16]
    assert wide["local_lines"] == [2, 4]
    assert counts(access("ld.local.u8"), LANES % 4, LANES % 8)["local_sectors"] == [4, 8]


# Every form of access, many patterns


@pytest.mark.parametrize(
    ("name", "vector", "size"),
    [("ld.global.u8", 1, 1), ("ld.global.f32", 1, 4), ("st.global.f64", 1, 8), ("ld.global.nc.f32", 4, 16)],
)
def test_global_patterns(counts: Measure, name: str, vector: int, size: int) -> None:
    rows = patterns(size, ROOM)
    found = counts(access(name, vector), *rows)
    requests = [requests_of(row, size) for row in rows]
    assert found["requests"] == [len(block) for block in requests]
    assert found["accesses"] == [sum(map(len, block)) for block in requests]
    assert found["sectors"] == [sum(map(oracle.sectors, block)) for block in requests]
    assert found["lines"] == [sum(map(oracle.lines, block)) for block in requests]


@pytest.mark.parametrize(
    ("name", "vector", "size"),
    [("ld.shared.u8", 1, 1), ("st.shared.u16", 1, 2), ("ld.shared.f32", 1, 4), ("st.shared.f32", 2, 8),
     ("ld.shared.f64", 1, 8), ("ld.shared.f32", 4, 16), ("st.shared.f64", 2, 16), ("red.shared.add.u32", 1, 4),
     ("red.shared.add.u64", 1, 8)],
)  # fmt: skip
def test_shared_patterns(counts: Measure, name: str, vector: int, size: int) -> None:
    rows = patterns(size, ROOM)
    atomic = name.startswith("red")
    found = counts(access(name, vector), *rows)
    requests = [requests_of(row, size) for row in rows]
    assert found["shared_requests"] == [len(block) for block in requests]
    assert found["shared_accesses"] == [sum(map(len, block)) for block in requests]
    assert found["shared_wavefronts"] == [sum(oracle.wavefronts(r, atomic=atomic) for r in block) for block in requests]
    assert found["shared_conflicts"] == [sum(oracle.conflicts(r, atomic=atomic) for r in block) for block in requests]
    assert found["contention"] == [sum(map(oracle.contention, block)) if atomic else 0 for block in requests]


@pytest.mark.parametrize(
    ("name", "vector", "size"),
    [("ld.local.u8", 1, 1), ("st.local.f32", 1, 4), ("ld.local.f64", 1, 8), ("st.local.f32", 4, 16)],
)
def test_local_patterns(counts: Measure, name: str, vector: int, size: int) -> None:
    rows = patterns(size, OWN)
    found = counts(access(name, vector), *rows)
    requests = [requests_of(row, size) for row in rows]
    assert found["local_requests"] == [len(block) for block in requests]
    assert found["local_accesses"] == [sum(map(len, block)) for block in requests]
    assert found["local_sectors"] == [sum(map(oracle.local_sectors, block)) for block in requests]
    assert found["local_lines"] == [sum(map(oracle.local_lines, block)) for block in requests]


# Whole kernels

SOURCE = """
#ifndef PAD
#define PAD 0
#endif
#define KERNEL extern "C" __global__ void
extern "C" __global__ void transpose(const float *x, float *y, int n) {
    __shared__ float tile[32][32 + PAD];
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = x[row * n + column];
    __syncthreads();
    y[(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
KERNEL histogram(const int *data, unsigned *bins) {
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    atomicAdd(&local[data[blockIdx.x * blockDim.x + threadIdx.x]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}
KERNEL gathers(const int *at, int *y) {
    int own[8];
    for (int i = 0; i < 8; i++) own[i] = i * (int)blockDim.x;
    y[threadIdx.x] = own[at[threadIdx.x]];
}
KERNEL halves(const float *x, float *y) {
    if (threadIdx.x % 2) y[threadIdx.x] = x[threadIdx.x];
    else y[threadIdx.x] = x[64 + threadIdx.x] * 2;
}
KERNEL anywhere(float *x, float *y) {
    __shared__ float tile[64];
    float own[2] = {x[0], x[1]};
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    int which = threadIdx.x % 4;
    volatile float *p = which == 0 ? tile + threadIdx.x : which == 1 ? own + (int)(x[0] != 0) : x + threadIdx.x;
    y[threadIdx.x] = *p;
}
"""


def total(trace: Trace, name: str, opcode: str) -> int:
    """Return a count, summed over blocks and over the instructions whose opcode begins so."""
    code = trace.function.instructions
    columns = [c for c, n in enumerate(trace.counts.accessing) if code[n].name.startswith(opcode)]
    return int(getattr(trace.counts, name)[:, columns].sum())


@pytest.mark.parametrize(("pad", "per_request"), [(0, 32), (1, 1)])
def test_transpose(pad: int, per_request: int) -> None:
    where = launch([2, 2], [32, 32], x="f32[64,64] iota", y="f32[64,64]", n=64)
    trace = run(compiled(f"#define PAD {pad}\n{SOURCE}"), where)
    assert np.array_equal(trace.memory["y"], trace.memory["x"].T)
    assert total(trace, "shared_requests", "ld.shared") == 4 * 32
    assert total(trace, "shared_wavefronts", "ld.shared") == 4 * 32 * per_request
    assert total(trace, "shared_conflicts", "ld.shared") == 4 * 32 * (per_request - 1)
    assert total(trace, "shared_wavefronts", "st.shared") == 4 * 32
    assert total(trace, "sectors", "ld.global") == total(trace, "sectors", "st.global") == 64 * 64 * 4 // 32
    assert total(trace, "lines", "ld.global") == total(trace, "lines", "st.global") == 64 * 64 * 4 // 128


@pytest.mark.parametrize("bins", [1, 7, 256])
def test_histogram(bins: int) -> None:
    where = launch(3, 104, data=f"i32[312] randint(0, {bins})", bins="u32[256]")
    trace = run(compiled(SOURCE, "histogram"), where)
    data = trace.memory["data"]
    assert np.array_equal(trace.memory["bins"], np.bincount(data, minlength=256))
    requests = [r for block in data.reshape(3, 104) for r in requests_of(4 * block, 4)]
    assert len(requests) == 12
    shared = [name for name in ("atom.shared", "red.shared") if total(trace, "shared_requests", name)]
    assert [total(trace, "shared_requests", name) for name in shared] == [12]
    assert total(trace, "shared_wavefronts", shared[0]) == sum(oracle.wavefronts(r, atomic=True) for r in requests)
    assert total(trace, "shared_conflicts", shared[0]) == sum(oracle.conflicts(r, atomic=True) for r in requests)
    assert total(trace, "contention", shared[0]) == sum(map(oracle.contention, requests))


def test_local_array_with_an_index() -> None:
    trace = run(compiled(SOURCE, "gathers"), launch(1, 72, at="i32[72] randint(0, 8)", y="i32[72]"))
    at = trace.memory["at"]
    assert trace.memory["y"].tolist() == (72 * at).tolist()
    requests = requests_of(4 * at, 4)
    assert total(trace, "local_requests", "ld.local") == 3
    assert total(trace, "local_sectors", "ld.local") == sum(map(oracle.local_sectors, requests))
    assert total(trace, "local_lines", "ld.local") == sum(map(oracle.local_lines, requests))
    assert total(trace, "local_sectors", "st.local") == 8 * (4 + 4 + 1), "8 words of two whole warps and of 8 lanes"


def test_halves_of_a_warp_ask_apart() -> None:
    trace = run(compiled(SOURCE, "halves"), launch(1, 64, x="f32[128] iota", y="f32[64]"))
    assert total(trace, "requests", "ld.global") == total(trace, "requests", "st.global") == 4
    assert total(trace, "sectors", "ld.global") == total(trace, "sectors", "st.global") == 16
    assert total(trace, "lines", "ld.global") == 4


def test_a_generic_access_is_one_request_per_space() -> None:
    trace = run(compiled(SOURCE, "anywhere"), launch(1, 64, x="f32[64] iota", y="f32[64]"))
    thread = np.arange(64)
    assert trace.memory["y"].tolist() == np.where(thread % 4 == 1, 0, thread).tolist()
    generic = "ld.volatile"
    names = ("requests", "sectors", "lines", "shared_requests", "shared_wavefronts", "local_requests", "local_sectors",
             "local_lines", "shared_accesses", "accesses", "local_accesses", "shared_conflicts")  # fmt: skip
    found = {name: total(trace, name, generic) for name in names}
    assert found == {
        "requests": 2, "accesses": 32, "sectors": 8, "lines": 2, "shared_requests": 2, "shared_accesses": 16,
        "shared_wavefronts": 2, "shared_conflicts": 0, "local_requests": 2, "local_accesses": 16, "local_sectors": 8,
        "local_lines": 2,
    }  # fmt: skip


def test_the_longest_warp() -> None:
    """In block b the lower half of warp w runs the loop w + b + 1 times, the upper half once more."""
    kernel = ptx_kernel(
        """.entry k(.param .u64 p) { .reg .pred %p<3>; .reg .b32 %r<9>;
        mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %r3, %ctaid.x; add.u32 %r2, %r2, %r3; shr.u32 %r4, %r1, 4;
        and.b32 %r4, %r4, 1; add.u32 %r2, %r2, %r4;
        LOOP: sub.u32 %r2, %r2, 1; setp.ge.s32 %p1, %r2, 0; @%p1 bra LOOP;
        and.b32 %r5, %r1, 1; setp.eq.u32 %p2, %r5, 0; @%p2 bra EVEN;
        add.u32 %r6, %r6, 1; bra END;
        EVEN: add.u32 %r6, %r6, 2; add.u32 %r6, %r6, 3;
        END: ret; }"""
    )
    trace = run(kernel, launch(2, 80, p="u32[1]"))
    # 7 instructions, 3 for each time, 3, 2 and 2 on both sides, 1; warp 2 has no upper half.
    found = dict(zip(trace.block_ids.tolist(), trace.counts.longest_warp.tolist(), strict=True))
    assert found == {0: 7 + 3 * 3 + 3 + 4 + 1, 1: 7 + 3 * 4 + 3 + 4 + 1}
    issued = trace.counts.block_warps @ np.array(trace.cfg.lengths)
    assert dict(zip(trace.block_ids.tolist(), issued.tolist(), strict=True)) == {
        block: sum(7 + 3 * trips + 3 + 4 + 1 for trips in (block + 2, block + 3, block + 3)) for block in (0, 1)
    }
