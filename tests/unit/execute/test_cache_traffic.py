"""What caches make of whole launches: closed forms, and windows of a grid against all of it."""

from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest

import kerncast
from kerncast.caveats import CaveatKind
from kerncast.errors import KernelFault, Refusal
from kerncast.execute import Budget, WholeGrid, profile_of, recording, run_launch
from kerncast.execute.on_gpu import with_gpu
from kerncast.forecast import compile_launch, profile_launch
from kerncast.launch import Argument, Launch, parse_extent, parse_value
from kerncast.profiles import Count, KernelProfile
from kerncast.profiles.counts import (
    DRAM_READ_SECTORS,
    DRAM_WRITE_SECTORS,
    FP32_FLOPS,
    GLOBAL_LOAD_SECTORS,
    L1_LOAD_HITS,
    L1_LOAD_SECTORS,
    L2_ATOMIC_SECTORS,
    L2_DIRTY_BYTES,
    L2_INSTRUCTION_SECTORS,
    L2_LOAD_HITS,
    L2_LOAD_SECTORS,
    L2_WRITE_SECTORS,
)
from tests.helpers.caveats import only
from tests.helpers.thorough import sampled, thorough

SOURCE = """
extern "C" {
__global__ void transpose(float *out, const float *in, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    out[x * n + y] = in[y * n + x];
}
__global__ void add(float *c, const float *a, const float *b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];
}
__global__ void product(float *c, const float *a, const float *b, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}
__global__ void drain(int *left, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (; left[i] > 0; left[i]--) sum += x[left[i] * 1024 + i % 1024];
    y[i] = sum;
}
__global__ void again(const float *x, float *y, int n) {
    float sum = 0;
    for (int pass = 0; pass < 4; pass++)
        for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void first(float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 1;
}
__global__ void astray(float *y, int bad, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[blockIdx.x == bad ? i + n : i] = 1;
}
__global__ void countdown(volatile int *left) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 32;
    while (left[i] > 0) left[i] = left[i] - 1;
}
__global__ void broadcast(const float *x, float *y, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += __ldcg(&x[i]);
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void count(unsigned *bins, const unsigned *x) {
    atomicAdd(&bins[x[blockIdx.x * blockDim.x + threadIdx.x]], 1u);
}
}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("caches") / "k.cu"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def launch(source: Path, kernel: str, grid: list[int], block: list[int], **arguments: object) -> Launch:
    values = tuple(Argument(name, parse_value(value, name, Path())) for name, value in arguments.items())
    return Launch(source, kernel, parse_extent(grid, "grid", ""), parse_extent(block, "block", ""), 0, values)


class Found:
    """What the caches of a GPU let through, in sectors, and how they were simulated."""

    def __init__(self, profile: KernelProfile) -> None:
        assert profile.caches is not None, profile.caveats
        self.simulation, self._counts = profile.caches, profile.counts

    def __getitem__(self, name: str) -> Count:
        return self._counts[name].times(1 / 32 if name == L2_DIRTY_BYTES else 1)


def on(gpu: str, where: Launch, budget: Budget | None = None) -> Found:
    return Found(profile_launch(where, gpu, budget))


def values(found: Found, *names: str) -> list[float]:
    return [found[name].value for name in names]


def transpose_of(source: Path, n: int) -> Launch:
    arrays = {"out": f"f32[{n},{n}]", "in": f"f32[{n},{n}] iota"}
    return launch(source, "transpose", [n // 32, n // 8], [32, 8], **arrays, n=n)


def add_of(source: Path, n: int) -> Launch:
    return launch(source, "add", [n // 256], [256], **dict.fromkeys("cab", f"f32[{n}] iota"))


@pytest.mark.parametrize("gpu", ["titan-v", "gtx-980", "k40", "a100-sxm-40gb"])
def test_a_transpose_moves_each_byte_once(source: Path, gpu: str) -> None:
    """768 x 768 floats: 2.25 MiB are read, and 2.25 MiB are written then or later."""
    n = 768
    found = on(gpu, transpose_of(source, n), WholeGrid())
    moved = sum(values(found, DRAM_READ_SECTORS, DRAM_WRITE_SECTORS, L2_DIRTY_BYTES))
    assert 32 * moved == 2 * 4 * n * n
    assert values(found, L1_LOAD_SECTORS, L1_LOAD_HITS) == [n * n / 8, 0]
    assert found[L2_WRITE_SECTORS].value == n * n  # one per thread: each lane of a warp has a sector of its own
    if gpu in {"gtx-980", "k40"}:  # little stays in L2 there
        assert values(found, DRAM_WRITE_SECTORS, L2_DIRTY_BYTES) == [n * n / 8, 0]
        assert found[DRAM_WRITE_SECTORS].low < found[DRAM_WRITE_SECTORS].value == found[DRAM_WRITE_SECTORS].high


def test_a_vector_sum(source: Path) -> None:
    found = on("titan-v", add_of(source, 2**20), WholeGrid())
    sectors = 2**20 // 8
    assert values(found, L2_LOAD_SECTORS, DRAM_READ_SECTORS, L2_WRITE_SECTORS) == [
        2 * sectors,
        2 * sectors,
        sectors,
    ]
    assert found[DRAM_WRITE_SECTORS].value + found[L2_DIRTY_BYTES].value == sectors
    assert 0 < found[L2_DIRTY_BYTES].value * 32 <= found.simulation.l2_bytes
    assert (found.simulation.wave_blocks, found.simulation.wave_sectors) == (640, 3 * 640 * 256 // 8)


def test_l1_serves_what_a_block_reads_again_where_it_caches_global_loads(source: Path) -> None:
    """Four passes over 16 KiB: three hit on Volta, none does on Maxwell, where loads that may be written pass by L1."""
    n = 4096
    where = launch(source, "again", [80], [256], x=f"f32[80,{n}]", y="f32[80,256]", n=n)
    sectors = 80 * n // 8
    cached = on("titan-v", where, WholeGrid())
    assert values(cached, L1_LOAD_SECTORS, L1_LOAD_HITS, L2_LOAD_SECTORS) == [4 * sectors, 3 * sectors, sectors]


def test_atomics_are_carried_out_by_l2(source: Path) -> None:
    where = launch(source, "count", [64], [256], bins="u32[1024]", x="u32[16384] randint(0, 1024)")
    found = on("titan-v", where, WholeGrid())
    assert found[L2_ATOMIC_SECTORS].value > 16384 / 8
    assert values(found, DRAM_READ_SECTORS, L2_LOAD_SECTORS) == [1024 / 8 + 16384 / 8, 16384 / 8]
    assert found[L2_DIRTY_BYTES].value == 1024 / 8


def test_a_part_of_a_wave_reads_each_sector_once_at_least(source: Path) -> None:
    """A cold cache fetches all of two matrices: of one wave, the blocks that end last ask for nothing new."""
    n = 512
    found = on("h100-sxm", product_of(source, n), Budget(sample_seconds=0.5))
    once = 2 * 4 * n * n / 32
    assert found.simulation.blocks_simulated < 1024
    assert once == found[DRAM_READ_SECTORS].low == found[DRAM_READ_SECTORS].value
    assert found[DRAM_WRITE_SECTORS].value + found[L2_DIRTY_BYTES].value == 4 * n * n / 32


@pytest.mark.parametrize(("timing", "read"), [("cold", 2 * 4 * 512**2), ("series", 0)])
def test_a_forecast_reads_the_footprint_from_dram_unless_l2_is_warm(source: Path, timing: str, read: int) -> None:
    """50 MB of L2 hold both matrices: a launch that follows another one finds them there."""
    (p,) = kerncast.predict(product_of(source, 512), gpu="h100-sxm", timing=timing)
    assert p.work is not None
    assert p.work.dram_read_bytes == pytest.approx(read)


@pytest.mark.parametrize("n", [2**20, 2**22])
def test_a_window_of_a_streaming_launch_scales_to_all_of_it(source: Path, n: int) -> None:
    whole = on("titan-v", add_of(source, n), WholeGrid())
    part = on("titan-v", add_of(source, n), Budget(sample_seconds=0.02))
    assert part.simulation.blocks_simulated < n // 256
    names = (L1_LOAD_SECTORS, L2_LOAD_SECTORS, L2_WRITE_SECTORS, DRAM_READ_SECTORS)
    assert values(part, *names) == pytest.approx(values(whole, *names), rel=0.01)
    both = [sum(values(each, DRAM_WRITE_SECTORS, L2_DIRTY_BYTES)) for each in (part, whole)]
    assert both[0] == pytest.approx(both[1], rel=0.25)


def product_of(source: Path, n: int) -> Launch:
    arrays = dict.fromkeys("cab", f"f32[{n},{n}] iota")
    return launch(source, "product", [n // 16, n // 16], [16, 16], **arrays, n=n)


@cache
def whole_product(source: Path, gpu: str) -> Found:
    return on(gpu, product_of(source, 512), WholeGrid())


def test_a_wave_of_a_matrix_product_scales_to_all_of_it(source: Path) -> None:
    """A wave of 160 blocks of a grid of 1024; rows and columns are shared by the blocks of a wave."""
    whole = whole_product(source, "t4")
    part = on("t4", product_of(source, 512), Budget(sample_seconds=0.5))
    assert (part.simulation.wave_blocks, part.simulation.blocks_simulated, whole.simulation.blocks_simulated) == (
        160,
        160,
        1024,
    )
    assert part[L1_LOAD_HITS].value == pytest.approx(whole[L1_LOAD_HITS].value, rel=0.05)
    assert part[L2_LOAD_SECTORS].value == pytest.approx(whole[L2_LOAD_SECTORS].value, rel=0.15)
    assert part[DRAM_READ_SECTORS].low <= whole[DRAM_READ_SECTORS].value <= part[DRAM_READ_SECTORS].high


def test_a_part_of_a_wave_stands_for_a_part_of_the_gpu(source: Path) -> None:
    n = 2**22
    whole = on("titan-v", add_of(source, n), WholeGrid())
    part = on("titan-v", add_of(source, n), Budget(sample_seconds=0.002))
    assert 0 < part.simulation.blocks_simulated < part.simulation.resident_blocks_per_sm * 80
    names = (L1_LOAD_SECTORS, L2_LOAD_SECTORS, DRAM_READ_SECTORS)
    assert values(part, *names) == pytest.approx(values(whole, *names), rel=0.05)


def test_a_window_lies_where_the_work_is(source: Path) -> None:
    """Only the first quarter of the grid does anything."""
    n = 2**20
    where = launch(source, "first", [4 * n // 256], [256], y=f"f32[{n}]", n=n)
    found = on("titan-v", where, Budget(sample_seconds=0.02))
    assert found.simulation.blocks_simulated < n // 256
    assert found[L2_WRITE_SECTORS].value == pytest.approx(n / 8, rel=0.1)
    assert found[DRAM_WRITE_SECTORS].value + found[L2_DIRTY_BYTES].value == pytest.approx(n / 8, rel=0.2)


def test_code_that_does_not_fit_is_read_from_l2(source: Path) -> None:
    """Turing holds 46 KiB of code: what is beyond is read by each block, or once by those that run together."""
    where = add_of(source, 2**12)
    compiled = compile_launch(where, ["sm_75"]).kernels[0]
    large = replace(compiled, resources=replace(compiled.resources, code_bytes=(46 + 32) * 1024))
    gpu, executed = kerncast.load_gpu("rtx-2080-ti"), run_launch(compiled, where)
    found = [
        Found(with_gpu(profile_of(executed.trace, executed.sampler, each, where), replace(executed, kernel=each), gpu))
        for each in (compiled, large)
    ]
    assert found[0][L2_INSTRUCTION_SECTORS] == Count.exact(0)
    assert found[1][L2_INSTRUCTION_SECTORS] == Count(
        16 * 1024, 16 * 1024 / found[1].simulation.resident_blocks_per_sm, 16 * 1024
    )


@pytest.mark.parametrize("seconds", [0.003, 0.05])
def test_what_a_launch_leaves_dirty_fits_l2(source: Path, seconds: float) -> None:
    """Streaming 48 MiB through 4.5 MiB of L2: a part of a wave speaks for the whole L2, not for its own part of it."""
    n = 2**22
    found = on("titan-v", add_of(source, n), Budget(sample_seconds=seconds))
    assert found[L2_DIRTY_BYTES].value * 32 == pytest.approx(found.simulation.l2_bytes / 3, rel=0.5)
    assert found[DRAM_WRITE_SECTORS].value + found[L2_DIRTY_BYTES].value == pytest.approx(n / 8, rel=0.1)


def test_blocks_run_on_fresh_memory(source: Path) -> None:
    """What the kernel loops over is used up by the first run; a second one on the same memory would find nothing."""
    where = launch(source, "drain", [64], [64], left="i32[4096] randint(5, 6)", x="f32[8,1024] iota", y="f32[4096]")
    found = profile_launch(where, "titan-v")
    assert found.caches is not None
    assert found.counts[L1_LOAD_SECTORS].value == found.counts[GLOBAL_LOAD_SECTORS].value


def test_blocks_that_change_what_they_read_are_never_run_twice(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is too small for a chunk ends the recording of such a kernel; it must not run on used-up memory."""
    monkeypatch.setattr(recording, "_EVENTS_PER_LOG", 1000)
    where = launch(source, "countdown", [16], [64], left=f"i32[{16 * 64 * 32}] randint(3, 40)")
    found = profile_launch(where, "t4", WholeGrid())
    asked = found.counts[GLOBAL_LOAD_SECTORS]
    assert asked.value > 16 * 1000
    if found.caches is not None:
        assert found.counts[L1_LOAD_SECTORS] == asked


@pytest.mark.parametrize(
    ("gpu", "seconds"),
    sampled(
        list(product(["t4", "titan-v", "a100-sxm-40gb"], [0.00025, 0.0025, 0.025])),
        [("t4", 0.00025), ("titan-v", 0.0025), ("a100-sxm-40gb", 0.025), ("a100-sxm-40gb", 0.00025)],
    ),
)
def test_l2_misses_and_dram_reads_tell_one_story(source: Path, gpu: str, seconds: float) -> None:
    """Every block reads the same 32 KiB, which every L2 holds: whatever the window, few of the reads miss."""
    n = 2**13
    where = launch(source, "broadcast", [2048], [64], x=f"f32[{n}]", y="f32[131072]", n=n)
    found = on(gpu, where, Budget(sample_seconds=seconds))
    missed = found[L2_LOAD_SECTORS].value - found[L2_LOAD_HITS].value
    fetched = found[DRAM_READ_SECTORS].value
    assert missed <= fetched <= 2.001 * missed
    assert fetched == pytest.approx(n / 8, rel=0.1)
    assert found[DRAM_WRITE_SECTORS].value + found[L2_DIRTY_BYTES].value == pytest.approx(131072 / 8, rel=0.1)


@pytest.mark.parametrize("seconds", [0.005, 0.05, 0.5])
@pytest.mark.parametrize("gpu", ["t4", pytest.param("titan-v", marks=thorough)])
def test_intervals_are_in_order_and_hold_the_truth(source: Path, gpu: str, seconds: float) -> None:
    whole, part = whole_product(source, gpu), on(gpu, product_of(source, 512), Budget(sample_seconds=seconds))
    for name in (L1_LOAD_HITS, L2_LOAD_SECTORS, DRAM_READ_SECTORS, DRAM_WRITE_SECTORS, L2_DIRTY_BYTES):
        count, truth = part[name], whole[name].value
        assert 0 <= count.low <= count.value <= count.high, name
        slack = 0.05 * whole[L1_LOAD_SECTORS].value
        assert count.low - slack <= truth <= count.high + slack, name


def test_a_launch_that_the_gpu_cannot_run_is_refused(source: Path) -> None:
    too_large = replace(add_of(source, 2**20), shared_bytes=200 * 1024)
    with pytest.raises(Refusal, match=r"cannot run on TITAN V: .* 204800 bytes of shared memory"):
        profile_launch(too_large, "titan-v")


def test_a_fault_that_only_the_window_meets_is_one(source: Path) -> None:
    """A sample of few blocks misses the one that goes wrong in the middle of the grid."""
    n = 2**18
    where = launch(source, "astray", [n // 32], [32], y=f"f32[{n}]", bad=n // 64 + 6, n=n)
    few = Budget(sample_seconds=0.002)
    assert profile_launch(where, None, few).counts.get(FP32_FLOPS) == Count.exact(0)
    with pytest.raises(KernelFault, match=r"block \(4102, 0, 0\).* is out of bounds"):
        profile_launch(where, "titan-v", few)


def test_more_accesses_than_can_be_recorded_are_said(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_MOST_EVENTS", 10)
    found = profile_launch(add_of(source, 2**16), "titan-v")
    assert found.caches is None
    assert "can be recorded" in str(only(found.caveats, CaveatKind.CACHES_NOT_SIMULATED).details["reason"])


def test_equal_input_gives_equal_caches(source: Path) -> None:
    found: list[KernelProfile] = [profile_launch(transpose_of(source, 512), "titan-v") for _ in range(2)]
    assert found[0] == found[1]
