"""What the simulation makes of whole launches, against closed forms and bounds."""

from pathlib import Path

import numpy as np
import pytest

from kerncast.caveats import CaveatKind
from kerncast.errors import MissingEvidenceError, Refusal
from kerncast.forecast import Options, forecast_all, profile_launch
from kerncast.gpu import load_gpu
from kerncast.launch import load_launches
from kerncast.models.sm.micro_ops import Pipe
from kerncast.models.sm.multiprocessor import need_pipes, updated_lines
from kerncast.models.sm.results import load_of
from kerncast.prediction import Prediction, Timing
from kerncast.traces import INSTRUCTION_SHIFT, LAST_SHIFT, MASK_SHIFT, OPERATION_SHIFT, Operation, SMTrace
from tests.helpers.caveats import kinds, only
from tests.helpers.sm_programs import Op, program_of

KERNELS = """
__device__ void piece(int i, int length, float *y) {
    float sum = i;
    for (int k = 0; k < length; ++k) sum = sum * 0.5f + 1;
    y[i * 64 + threadIdx.x] = sum;
}
template <int STEP> __device__ void drain(int n, int step, int *next, float *y) {
    __shared__ int ticket;
    while (true) {
        if (threadIdx.x == 0) ticket = STEP ? atomicAdd(next, STEP) : atomicAdd(next, step);
        __syncthreads();
        const int i = ticket;
        __syncthreads();
        if (i >= n) return;
        piece(i, 400, y);
    }
}
extern "C" __global__ void queue(int n, int *next, float *y) { drain<1>(n, 1, next, y); }
extern "C" __global__ void steps(int n, int step, int *next, float *y) { drain<0>(n, step, next, y); }
extern "C" __global__ void told(int n, const int *step, int *next, float *y) { drain<0>(n, *step, next, y); }
// Each warp has places of its results from another counter.
template <bool TAKES> __device__ void reserve(int n, int *next, float *y) {
    __shared__ int ticket;
    for (int i = blockIdx.x;; i += gridDim.x) {
        if (TAKES) {
            if (threadIdx.x == 0) ticket = atomicAdd(next, 1);
            __syncthreads();
            i = ticket;
            __syncthreads();
        }
        if (i >= n) return;
        int place = 0;
        if (threadIdx.x % 32 == 0) place = atomicAdd(next + 32, 32);
        place = __shfl_sync(~0u, place, 0);
        float sum = i;
        for (int k = 0; k < 400; ++k) sum = sum * 0.5f + 1;
        y[place + threadIdx.x % 32] = sum;
    }
}
extern "C" __global__ void reserve_taken(int n, int *next, float *y) { reserve<true>(n, next, y); }
extern "C" __global__ void reserve_known(int n, int *next, float *y) { reserve<false>(n, next, y); }
// Every warp takes a tile, or has tiles of the same number without asking; TILE tells how many words one has.
__device__ float read(const float *x, int tile) {
    float sum = 0;
    for (int k = 0; k < 8; ++k) sum += x[(tile * 8 + k) * 32 + threadIdx.x % 32];
    return sum;
}
extern "C" __global__ void by_warp(int n, int *next, const float *x, float *y) {
    while (true) {
        int i = 0;
        if (threadIdx.x % 32 == 0) i = atomicAdd(next, 1);
        i = __shfl_sync(~0u, i, 0);
        if (i >= n) return;
        y[i * 32 + threadIdx.x % 32] = read(x, i);
    }
}
extern "C" __global__ void by_number(int n, int *next, const float *x, float *y) {
    const int warps = gridDim.x * blockDim.x / 32;
    for (int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32; i < n; i += warps) {
        int asked = 0;
        if (threadIdx.x % 32 == 0) asked = atomicAdd(next, 0);
        asked = __shfl_sync(~0u, asked, 0);
        y[i * 32 + threadIdx.x % 32] = read(x, i + asked);
    }
}
extern "C" __global__ void numbered(int more, int *next, const float *x, float *y) {
    __shared__ int ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(next, 1);
    __syncthreads();
    const int tile = ticket * blockDim.x / 32 + threadIdx.x / 32;
    for (int k = 0; k < (ticket % 8 == 7 ? more : 1); ++k) y[tile * 32 + threadIdx.x % 32] += read(x, tile);
}
extern "C" __global__ void by_index(int more, int *next, const float *x, float *y) {
    const int tile = blockIdx.x * blockDim.x / 32 + threadIdx.x / 32;
    for (int k = 0; k < (blockIdx.x % 8 == 7 ? more : 1); ++k) y[tile * 32 + threadIdx.x % 32] += read(x, tile);
}
extern "C" __global__ void compacted(int n, int *next, float *y) {
    for (int i = 0; i < blockIdx.x + 1; ++i) y[atomicAdd(next, 1)] = i;
}
extern "C" __global__ void last_sums(int n, int *next, float *y) {
    __shared__ int ticket;
    piece(blockIdx.x, 400, y);
    __syncthreads();
    if (threadIdx.x == 0) ticket = atomicAdd(next, 1);
    __syncthreads();
    if (ticket == gridDim.x - 1) piece(0, 400 * n, y);
}
extern "C" __global__ void in_turn(int n, float *y) {
    for (int i = blockIdx.x; i < n; i += gridDim.x) {
        __syncthreads();
        piece(i, 400, y);
        __syncthreads();
    }
}
extern "C" __global__ void uneven(int n, int shorter, int *next, float *y) {
    __shared__ int ticket;
    for (int i = blockIdx.x; i < n; i = ticket) {
        piece(i, 20 * (n - shorter * i), y);
        __syncthreads();
        if (threadIdx.x == 0) ticket = atomicAdd(next, 1) + gridDim.x;
        __syncthreads();
    }
}
extern "C" __global__ void copy(int n, const float *x, float *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
extern "C" __global__ void masked(int n, const float *x, float *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 1;
    if (i < n) v = x[i];
    for (int k = 0; k < 64; ++k) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(v));
    if (i < n) y[i] = v;
}
extern "C" __global__ void tiles(int n, int m, int tiles, float *x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool has_tile = blockIdx.x < tiles;
    float v = 1;
    if (has_tile) v = x[i];
    for (int k = 0; k < (has_tile ? n : m); ++k) v = v * 0.5f + 1;
    if (has_tile || v == -1) x[i] = v;
}
extern "C" __global__ void chunk(const float *x, float *y) {
    for (int k = 0; k < 64; ++k) {
        const int i = (blockIdx.x * 64 + k) * 256 + threadIdx.x;
        y[i] = x[i];
    }
}
extern "C" __global__ void count(unsigned *c) { atomicAdd(c, 1u); }
extern "C" __global__ void sum(float *c) { atomicAdd(c, 1.0f); }
extern "C" __global__ void turn(int n, float *a) {
    float sum = a[blockIdx.x * 64 + threadIdx.x];
    for (int k = 50 * blockIdx.x; k < n; ++k) sum = sum * 0.5f + 1;
    a[blockIdx.x * 64 + threadIdx.x] = sum;
}
extern "C" __global__ void pairs(int n, const float *x, float *y) {
    __shared__ float sums[256];
    const int first = 512 * blockIdx.x + threadIdx.x;
    sums[threadIdx.x] = (first < n ? x[first] : 0) + (first + 256 < n ? x[first + 256] : 0);
    __syncthreads();
    y[blockIdx.x] = sums[threadIdx.x ^ 1];
}
extern "C" __global__ void __launch_bounds__(64) bounded(float *y) { y[threadIdx.x] = 1; }
"""


def forecast(folder: Path, launch: str, gpu: str = "TITAN V", **options: object) -> Prediction:
    (folder / "k.cu").write_text(KERNELS, encoding="utf-8")
    (folder / "k.toml").write_text(f'source = "k.cu"\n[[launch]]\n{launch}', encoding="utf-8")
    found = forecast_all(folder / "k.toml", [(load_gpu(gpu), ())], Options(timing=Timing.COLD, **options))  # type: ignore[arg-type]
    return found.predictions[0]


def queued(folder: Path, pieces: int) -> Prediction:
    args = f'args = {{ n = {pieces}, next = "i32[1] zeros", y = "f32[{64 * pieces}] zeros" }}'
    return forecast(folder, f'kernel = "queue"\ngrid = [80]\nblock = [64]\n{args}')


def test_each_block_has_its_share_of_a_work_queue(tmp_path: Path) -> None:
    """Twenty pieces a block take what a loop over them takes, and a way to L2 for each ticket."""
    args = 'args = { n = 1600, y = "f32[102400] zeros" }'
    in_turn = forecast(tmp_path, f'kernel = "in_turn"\ngrid = [80]\nblock = [64]\n{args}')
    found, gpu = queued(tmp_path, 1600), load_gpu("TITAN V")
    assert found.model == in_turn.model == "simulation"
    latency = (gpu.architecture.cycles.l2_latency or 0) / gpu.clock_hz
    assert 20 * latency <= found.seconds - in_turn.seconds <= 2 * 20 * latency


def test_the_busiest_block_of_a_work_queue_has_a_piece_more(tmp_path: Path) -> None:
    assert queued(tmp_path, 90).seconds == pytest.approx(queued(tmp_path, 160).seconds, rel=0.05)


def test_the_longest_piece_decides_where_each_block_has_one(tmp_path: Path) -> None:
    """Pieces of 20 to 1600 turns, one for each of 80 blocks, take what as many of 1600 turns take."""
    uneven, even = (
        forecast(
            tmp_path,
            'kernel = "uneven"\ngrid = [80]\nblock = [64]\n'
            f'args = {{ n = 80, shorter = {shorter}, next = "i32[1] zeros", y = "f32[5120] zeros" }}',
        )
        for shorter in (1, 0)
    )
    assert uneven.model == even.model == "simulation"
    assert uneven.seconds == pytest.approx(even.seconds, rel=0.05)


def test_who_is_done_first_takes_the_next_piece(tmp_path: Path) -> None:
    """The 40 shortest of 120 pieces are taken by blocks that had short ones: the longest piece decides all the same."""
    each_one, in_turn = (
        forecast(
            tmp_path,
            f'kernel = "uneven"\ngrid = [{grid}]\nblock = [64]\n'
            'args = { n = 120, shorter = 1, next = "i32[1] zeros", y = "f32[7680] zeros" }',
        )
        for grid in (120, 80)
    )
    assert each_one.model == in_turn.model == "simulation"
    assert in_turn.seconds == pytest.approx(each_one.seconds, rel=0.1)


@pytest.mark.parametrize(("kernel", "elements"), [("compacted", 64 * 80 * 81 // 2), ("last_sums", 64 * 80)])
def test_a_counter_that_says_other_things_is_no_work_queue(kernel: str, elements: int, tmp_path: Path) -> None:
    """Places of results, and the ticket of the block that ends last, are left as they are."""
    args = f'args = {{ n = 20, next = "i32[1] zeros", y = "f32[{elements}] zeros" }}'
    assert forecast(tmp_path, f'kernel = "{kernel}"\ngrid = [80]\nblock = [64]\n{args}').model == "simulation"


def tiled(folder: Path, kernel: str, n: int, grid: int, tiles: int) -> Prediction:
    buffers = f'next = "i32[1] zeros", x = "f32[{256 * tiles}] random", y = "f32[{32 * tiles}] zeros"'
    return forecast(folder, f'kernel = "{kernel}"\ngrid = [{grid}]\nblock = [256]\nargs = {{ n = {n}, {buffers} }}')


def test_each_warp_has_its_share_of_a_work_queue(tmp_path: Path) -> None:
    """As if each had the tiles of its number, with as many atomics; before, the first warp did what its block has."""
    asked, known = (tiled(tmp_path, kernel, 16000, 80, 16000) for kernel in ("by_warp", "by_number"))
    assert asked.model == known.model == "simulation"
    assert asked.seconds == pytest.approx(known.seconds, rel=0.15)


def test_blocks_that_take_their_number_from_a_counter_share_no_tile(tmp_path: Path) -> None:
    """Before, all blocks of an SM had the first number, and found in L1 what the first had read."""
    taken, known = (tiled(tmp_path, kernel, 2, 1280, 10240).seconds for kernel in ("numbered", "by_index"))
    assert taken == pytest.approx(known, rel=0.2)


def test_a_work_queue_beside_places_of_results_is_shared_by_blocks_alone(tmp_path: Path) -> None:
    """All warps ask for places, one of each block for work: an eighth of the work was handed out."""
    taken, known = (
        forecast(
            tmp_path,
            f'kernel = "reserve_{how}"\ngrid = [80]\nblock = [256]\n'
            'args = { n = 1600, next = "i32[64] zeros", y = "f32[409600] zeros" }',
        )
        for how in ("taken", "known")
    )
    assert taken.model == known.model == "simulation"
    assert known.seconds <= taken.seconds <= 1.5 * known.seconds  # a way to L2 for each ticket, behind the places


def test_two_blocks_share_a_work_queue(tmp_path: Path) -> None:
    """They run side by side here, so that each had its share, but one that ran alone had all."""
    buffers = 'next = "i32[1] zeros", y = "f32[6400] zeros"'
    taken, known = (
        forecast(tmp_path, f'kernel = "{kernel}"\ngrid = [2]\nblock = [64]\nargs = {{ n = 100, {args} }}')
        for kernel, args in (("queue", buffers), ("in_turn", 'y = "f32[6400] zeros"'))
    )
    assert taken.seconds == pytest.approx(known.seconds, rel=0.25)


def test_the_block_that_ends_last_takes_longer_the_more_it_sums_up(tmp_path: Path) -> None:
    few, many = (
        forecast(
            tmp_path,
            f'kernel = "last_sums"\ngrid = [80]\nblock = [64]\n'
            f'args = {{ n = {n}, next = "i32[1] zeros", y = "f32[{64 * max(80, n)}] zeros" }}',
        ).seconds
        for n in (20, 2000)
    )
    assert many > 3 * few


def test_a_part_of_the_grid_tells_how_long_a_work_queue_lasts(tmp_path: Path) -> None:
    """As if its blocks knew their pieces; before, the first blocks took those of all, and the forecast was 30 times."""
    args = 'n = 40000, y = "f32[2560000] zeros"'
    known = forecast(tmp_path, f'kernel = "in_turn"\ngrid = [800]\nblock = [64]\nargs = {{ {args} }}')
    taken = forecast(
        tmp_path, f'kernel = "queue"\ngrid = [800]\nblock = [64]\nargs = {{ {args}, next = "i32[1] zeros" }}'
    )
    assert CaveatKind.TAKEN_IN_TURN in kinds(taken.caveats)
    assert taken.model == known.model == "simulation"
    assert taken.seconds == pytest.approx(known.seconds, rel=0.2)


def test_the_step_of_a_work_queue_may_be_an_argument(tmp_path: Path) -> None:
    args = 'args = { n = 1600, step = 1, next = "i32[1] zeros", y = "f32[102400] zeros" }'
    found = forecast(tmp_path, f'kernel = "steps"\ngrid = [80]\nblock = [64]\n{args}')
    assert found.model == "simulation"
    assert found.seconds == pytest.approx(queued(tmp_path, 1600).seconds, rel=0.01)


def test_a_work_queue_of_unknown_steps_is_not_forecast_from_the_blocks_of_one_sm(tmp_path: Path) -> None:
    args = 'args = { n = 1600, step = "i32[1] ones", next = "i32[1] zeros", y = "f32[102400] zeros" }'
    found = forecast(tmp_path, f'kernel = "told"\ngrid = [80]\nblock = [64]\n{args}')
    assert found.model == "roofline"
    assert "work queue" in str(only(found.caveats, CaveatKind.NOT_SIMULATED).details["reason"])


def test_lanes_that_the_compiler_does_not_join_update_a_counter_in_turn(tmp_path: Path) -> None:
    """Sums of floats are not joined: 32 updates a warp instead of one, 4,096 warps."""
    seconds = [
        forecast(
            tmp_path, f'kernel = "{name}"\ngrid = [512]\nblock = [256]\nargs = {{ c = "{kind}[1] zeros" }}'
        ).seconds
        for name, kind in (("count", "u32"), ("sum", "f32"))
    ]
    gpu = load_gpu("TITAN V")
    rate = 0.7 * gpu.clock_boost_hz
    assert seconds[1] - seconds[0] == pytest.approx(31 * 4096 / rate, rel=0.1)


def test_blocks_that_only_change_values_in_place_are_as_long_as_they_are(tmp_path: Path) -> None:
    """Of 80 blocks the first has 4,000 turns, the last 50: the longest decides, though all change one array."""
    args = 'args = { n = 4000, a = "f32[5120] zeros" }'
    longest, whole = (
        forecast(tmp_path, f'kernel = "turn"\ngrid = [{blocks}]\nblock = [64]\n{args}') for blocks in (1, 80)
    )
    assert whole.seconds >= 0.9 * longest.seconds
    of_whole, of_longest = (each.term("fma") or 0.0 for each in (whole, longest))
    assert of_whole > 0.4 * of_longest > 0, "the pipes of the SM that decides, not of the mean one"


def test_blocks_that_load_nothing_move_nothing_though_they_are_not_idle(tmp_path: Path) -> None:
    """A grid of one thread per element, each of which adds two: its second half finds nothing, and writes its zeros."""
    args = 'args = { n = 4194304, x = "f32[4194304] zeros", y = "f32[16384] zeros" }'
    half, whole = (
        forecast(tmp_path, f'kernel = "pairs"\ngrid = [{blocks}]\nblock = [256]\n{args}') for blocks in (8192, 16384)
    )
    dram = [next(term.seconds for term in found.terms if term.name == "dram") for found in (half, whole)]
    assert dram[1] == pytest.approx(dram[0], rel=0.05)
    assert whole.seconds < 1.5 * half.seconds


def test_one_block_more_than_sms_takes_no_more_bandwidth(tmp_path: Path) -> None:
    """81 blocks on 80 SMs: the second round of one SM has all of DRAM, as the first round's SMs share it."""
    times = []
    for blocks in (80, 81, 160):
        size = blocks * 64 * 256
        args = f'args = {{ x = "f32[{size}] zeros", y = "f32[{size}] zeros" }}'
        times.append(forecast(tmp_path, f'kernel = "chunk"\ngrid = [{blocks}]\nblock = [256]\n{args}').seconds)
    assert times[0] <= times[1] * 1.05  # shares that are not whole
    assert times[1] < times[0] * 1.1
    assert times[1] < times[2]


def test_idle_blocks_cost_little(tmp_path: Path) -> None:
    """A grid 16 times larger than its data moves no more data."""
    args = 'args = { n = 1048576, x = "f32[1048576] zeros", y = "f32[1048576] zeros" }'
    fitting = forecast(tmp_path, f'kernel = "copy"\ngrid = [4096]\nblock = [256]\n{args}')
    oversized = forecast(tmp_path, f'kernel = "copy"\ngrid = [65536]\nblock = [256]\n{args}')
    assert oversized.term("dram") == pytest.approx(fitting.term("dram"), rel=0.1)
    assert fitting.seconds < oversized.seconds < 4 * fitting.seconds


def test_blocks_beyond_the_data_take_the_time_of_what_they_compute(tmp_path: Path) -> None:
    """Blocks that Triton masks execute all arithmetic: 64 multiply-adds of 8 warps on 4 schedulers of 80 SMs."""
    args = 'args = { n = 1048576, x = "f32[1048576] zeros", y = "f32[1048576] zeros" }'
    found = forecast(tmp_path, f'kernel = "masked"\ngrid = [65536]\nblock = [256]\n{args}')
    gpu = load_gpu("TITAN V")
    fma = 65536 * 8 * 64 * 2 / 4 / gpu.sm_count / gpu.clock_hz
    assert found.term("fma") == pytest.approx(fma, rel=0.05)
    assert fma < found.seconds < 1.5 * fma
    assert found.work is not None
    assert found.work.warp_instructions > 65536 * 8 * 64


@pytest.mark.parametrize(("grid", "tiles", "idle_turns"), [(80, 8, 0), (80, 8, 200), (80, 38, 0), (80, 38, 200)])
def test_blocks_without_a_tile_disturb_none_on_other_multiprocessors(
    tmp_path: Path, grid: int, tiles: int, idle_turns: int
) -> None:
    """Of 80 blocks on 80 SMs, some have no tile: what they compute takes no time of the others."""
    args = 'args = {{ n = 2000, m = {}, tiles = {}, x = "f32[81920] zeros" }}'
    launch = f'kernel = "tiles"\ngrid = [{{}}]\nblock = [1024]\n{args}'
    alone, beside = (forecast(tmp_path, launch.format(blocks, idle_turns, tiles)).seconds for blocks in (tiles, grid))
    assert beside == pytest.approx(alone, rel=0.05)


@pytest.mark.parametrize(("grid", "block"), [(20, 1024), (80, 1024), (80, 64)])
def test_blocks_without_a_tile_last_as_long_as_they_compute(tmp_path: Path, grid: int, block: int) -> None:
    """Of blocks on SMs of their own, those without a tile compute 20 times longer: as if all had that much to do."""
    launch = (
        'kernel = "tiles"\ngrid = [{}]\nblock = [{}]\nargs = {{ n = {}, m = 4000, tiles = {}, x = "f32[81920] zeros" }}'
    )
    found, all_alike = (
        forecast(tmp_path, launch.format(grid, block, *each)).seconds for each in ((200, 8), (4000, grid))
    )
    assert found == pytest.approx(all_alike, rel=0.35)


def test_no_forecast_is_below_a_roof(tmp_path: Path) -> None:
    args = 'args = { n = 1048576, x = "f32[1048576] zeros", y = "f32[1048576] zeros" }'
    found = forecast(tmp_path, f'kernel = "copy"\ngrid = [4096]\nblock = [256]\n{args}')
    assert all(term.seconds <= found.seconds for term in found.terms)


def test_tiny_blocks_start_one_after_the_other(tmp_path: Path) -> None:
    """Two million blocks of one thread: TITAN V starts one in 1.05 cycles, whatever its SMs have room for."""
    size = 2**21
    args = f'args = {{ n = {size}, x = "f32[{size}] zeros", y = "f32[{size}] zeros" }}'
    found = forecast(tmp_path, f'kernel = "copy"\ngrid = [{size}]\nblock = [1]\n{args}')
    gpu = load_gpu("TITAN V")
    assert found.limiter == "blocks"
    assert found.term("blocks") == pytest.approx(size * 1.05 / gpu.clock_hz)
    assert found.seconds == pytest.approx(sum(t.seconds for t in found.terms if t.name in {"blocks", "launch"}))
    larger = forecast(tmp_path, f'kernel = "copy"\ngrid = [{size // 256}]\nblock = [256]\n{args}')
    assert larger.limiter == "dram"


def test_a_kernel_without_shared_memory_has_no_time_of_it(tmp_path: Path) -> None:
    """It reads its thread's number, which takes the load/store units."""
    args = 'args = { n = 1048576, x = "f32[1048576] zeros", y = "f32[1048576] zeros" }'
    found = forecast(tmp_path, f'kernel = "copy"\ngrid = [4096]\nblock = [256]\n{args}')
    assert found.term("shared") is None
    assert found.term("lsu") is not None


def test_a_profile_heeds_launch_bounds(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(KERNELS, encoding="utf-8")
    launch = (
        'source = "k.cu"\n[[launch]]\nkernel = "bounded"\ngrid = [1]\nblock = [128]\nargs = { y = "f32[128] zeros" }'
    )
    (tmp_path / "k.toml").write_text(launch, encoding="utf-8")
    with pytest.raises(Refusal, match="__launch_bounds__"):
        profile_launch(load_launches(tmp_path / "k.toml")[0], "TITAN V")


@pytest.mark.parametrize(("grid", "active"), [(80, 80.0), (81, 40.5), (160, 80.0), (3, 3.0)])
def test_who_shares_memory_with_the_busiest_sm(grid: int, active: float) -> None:
    assert load_of(grid, 80, 4, 2).active_sms == active


def test_lines_of_private_histograms_grow_with_the_blocks() -> None:
    def event(line: int) -> int:
        return (
            1 << INSTRUCTION_SHIFT | Operation.REDUCTION << OPERATION_SHIFT | 1 << LAST_SHIFT | 1 << MASK_SHIFT | line
        )

    own = SMTrace(np.arange(3), 1, 0, np.array([event(4 * n) for n in range(3)], np.uint64), np.arange(4))
    shared = SMTrace(np.arange(3), 1, 0, np.array([event(7)] * 3, np.uint64), np.arange(4))
    assert updated_lines(own).pieces(100) == 100
    assert updated_lines(shared).pieces(100) == 1


@pytest.mark.parametrize("gpu", ["gtx-1650", "t1000"])
def test_tensor_cores_of_unknown_rate_are_refused_by_name(gpu: str) -> None:
    program = program_of([Op(), Op(pipe=Pipe.TENSOR)])
    with pytest.raises(MissingEvidenceError, match=r"cycles\.tensor is unknown"):
        need_pipes(program, load_gpu(gpu))
    need_pipes(program, load_gpu("rtx-a6000"))
    need_pipes(program_of([Op()]), load_gpu(gpu))
