"""Buffers larger than the memory budget: they cost what is touched, hold what small ones hold, and fault as they do."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import BudgetExceededError, KernelFault, LaunchError, MachineLimitError
from kerncast.execute import Budget, execute, run_launch
from kerncast.execute.setup.arena import PAGE_SECTORS, Arena, Touched, opened_rows
from kerncast.execute.setup.paged import PERIOD_BYTES
from kerncast.execute.setup.prepare import prepare
from kerncast.launch import Launch
from kerncast.profiles import SECTOR_BYTES
from kerncast.units import GIB, MIB
from tests.helpers.engine_agreement import disagreement, outcome
from tests.helpers.execute_helpers import compiled, launch, ptx_kernel, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="memory is set aside as a whole there")

SOURCE = """#define KERNEL extern "C" __global__ void
extern "C" __global__ void strided(float *y, const float *x, long long stride) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    y[i * stride] = x[i * stride] + (float)i;
}
KERNEL streamed(float *y, const float *x) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    y[i] = y[i] + x[i];
}
KERNEL scattered(float *y, unsigned mask) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[(i * 2654435761u) & mask] = 1.0f;
}
"""
EIGHT_GI = 2**33
#: A small budget, so that a small machine tests it too.
SMALL = Budget(memory_bytes=256 * MIB)


def strided(stride: int, threads: int, fill: str = "zeros", grid: int = 4) -> Launch:
    size = f"f32[{EIGHT_GI}]"
    return launch([grid], [threads // grid], y=f"{size} zeros", x=f"{size} {fill}", stride=stride)


def test_engines_agree_beyond_four_gibibytes() -> None:
    """128 threads stand 2^26 elements apart: 256 MiB, up to 32 GiB - 256 MiB in each buffer."""
    where = strided(2**26, 128, "random")
    first, second = (outcome(compiled(SOURCE, "strided"), where, SMALL, name) for name in ("native", "reference"))
    assert first.kind == "ran"
    for found in (first, second):
        assert found.trace is not None
        written = found.trace.memory["y"][:: 2**26]
        values = np.random.default_rng([0, 1]).random(1, dtype=np.float32)  # each stands at a multiple of the period
        assert np.array_equal(written, values + np.arange(128, dtype=np.float32))
        found.trace.memory.clear()  # 32 GiB are compared nowhere else
    assert disagreement(first, second) is None


def test_the_footprint_of_few_sectors_is_exact() -> None:
    """Each of 1024 threads touches one sector of each buffer, and a row of its own: they stand 32 MiB apart."""
    found = run_launch(compiled(SOURCE, "strided"), strided(2**23, 1024), SMALL)
    last = found.trace.footprints[-1]
    assert (last.read.tolist(), last.written.tolist()) == ([0, 1024], [1024, 0])
    assert (last.either.tolist(), last.partly.tolist()) == ([1024, 1024], [1024, 0])
    assert found.setting.touched.rows() == pytest.approx((1024, 1024))


def test_only_written_pages_and_marks_take_memory() -> None:
    """1024 pages are written; 4 KiB of marks are for 128 KiB, so that each sector has a page of them."""
    found = run_launch(compiled(SOURCE, "strided"), strided(2**23, 1024), SMALL)
    assert found.setting.arena.kept_bytes == 0
    assert found.setting.touched.nbytes == 4096 * (1024 + 1024 + 1024)


@pytest.mark.skipif(sys.platform != "linux", reason="values repeat by mappings of Linux")
@pytest.mark.parametrize(
    ("element", "fill", "draw"),
    [
        ("f32", "random", lambda made, count: made.random(count, dtype=np.float32)),
        ("f64", "random", lambda made, count: made.random(count)),
        ("i32", "randint(-5, 100)", lambda made, count: made.integers(-5, 100, count, dtype=np.int32)),
        ("u8", "ones", lambda _, count: np.ones(count, np.uint8)),
        ("u16", "iota", lambda _, count: np.arange(count).astype(np.uint16)),
    ],
)
def test_large_values_are_those_of_small_ones_and_repeat(element: str, fill: str, draw: object) -> None:
    kernel = ptx_kernel(".entry k(.param .u64 p, .param .u64 q) { ret; }")
    size = np.dtype(draw(np.random.default_rng(0), 1).dtype).itemsize  # type: ignore[operator]
    count = 5 * GIB // size + 3
    setting = prepare(kernel, launch([1], [1], p=f"{element}[{count}] {fill}", q="u32[4] iota"), Budget())
    place = setting.arena.allocations[0]
    held = setting.arena.bytes_of(place)[: count * size].view(f"{element[0]}{size}")
    period = PERIOD_BYTES // size
    expected = draw(np.random.default_rng([0, 0]), 2**20)  # type: ignore[operator]
    assert setting.arena.kept_bytes == PERIOD_BYTES + 16
    for start in (0, period, 17 * period):
        assert np.array_equal(held[start : start + 2**20], expected)
    rest = count % period
    assert np.array_equal(held[-3:], held[rest - 3 : rest])
    held[period + 7] = 99  # a store reaches no other copy
    assert held[7] == expected[7]
    assert held[2 * period + 7] == expected[7]
    assert setting.arena.bytes_of(setting.arena.allocations[1]).view("u4").tolist() == [0, 1, 2, 3]


def test_numbers_that_count_up_do_not_repeat() -> None:
    kernel = ptx_kernel(".entry k(.param .u64 p) { ret; }")
    where = launch([1], [1], p=f"u32[{EIGHT_GI}] iota")
    with pytest.raises(BudgetExceededError, match=r"the values of the buffers need 34.4 GB.* iota") as caught:
        prepare(kernel, where, Budget())
    assert "argument p" in str(caught.value)
    assert "zeros, random or randint" in str(caught.value)
    assert "--memory 33GiB" in str(caught.value)


def test_the_named_cure_cures() -> None:
    kernel = ptx_kernel(".entry k(.param .u64 p) { ret; }")
    where = launch([1], [1], p=f"u32[{2**22}] iota")
    with pytest.raises(BudgetExceededError, match=r"need 16.8 MB.*memory budget of 1.05 MB"):
        prepare(kernel, where, Budget(memory_bytes=MIB))
    prepare(kernel, where, Budget(memory_bytes=17 * MIB))
    prepare(kernel, launch([1], [1], p=f"u32[{2**22}] zeros"), Budget(memory_bytes=MIB))


def test_values_that_this_machine_has_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerncast.execute.setup.prepare.is_free", lambda nbytes: nbytes < 1000)
    kernel = ptx_kernel(".entry k(.param .u64 p) { ret; }")
    with pytest.raises(MachineLimitError, match=r"need 4.1 kB.*more than is free"):
        prepare(kernel, launch([1], [1], p="u32[1024] ones"), Budget())


def test_registers_beside_full_buffers() -> None:
    """Buffers up to 3.07 kB below the budget: the error says what the budget is, and what is left of it."""
    where = launch([1], [256], y=f"f32[{2**18}] ones", mask=2**18 - 1)
    budget = Budget(memory_bytes=2**20 + 3072)
    expected = r"registers need .* kB, and of the memory budget of 1.05 MB only 3.07 kB are left beside the buffers"
    with pytest.raises(BudgetExceededError, match=expected) as caught:
        run(compiled(SOURCE, "scattered"), where, budget)
    assert "--memory" in str(caught.value)


def test_shared_memory_that_no_launch_can_ask_for() -> None:
    with pytest.raises(LaunchError, match="shared_bytes is 9223372036854775808, and CUDA takes a number of 32 bits"):
        launch([1], [32], 2**63)


def test_too_much_shared_memory_names_shared_memory_first() -> None:
    kernel = ptx_kernel(".entry k() { ret; }")
    with pytest.raises(BudgetExceededError, match="shared memory needs") as caught:
        run(kernel, launch([1], [32], 3 * 10**9))
    assert str(caught.value).startswith("k.cu launch 0 (k): ")
    assert str(caught.value).index("Give a block less shared") < str(caught.value).index("--memory")


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("past", [0, 500, 40 * GIB])
def test_an_access_outside_of_a_large_buffer_is_found(past: int) -> None:
    kernel = compiled(
        'extern "C" __global__ void past(float *y, const float *x, long long bytes) { ((char *)y)[bytes] = x[0]; }'
    )
    stored = launch([1], [1], y=f"f32[{EIGHT_GI}] zeros", x="f32[64] ones", bytes=4 * EIGHT_GI - 1)
    assert run(kernel, stored).memory["y"].view(np.uint8)[-1] == 1
    outside = launch([1], [1], y=f"f32[{EIGHT_GI}] zeros", x="f32[64] ones", bytes=4 * EIGHT_GI + past)
    with pytest.raises(KernelFault, match="is out of bounds: 1 bytes"):
        run(kernel, outside)


def test_a_sample_ends_before_the_budget_does() -> None:
    """Each of 2^16 blocks writes 256 pages of their own, 1 MiB: not all fit, and not more than half are taken."""
    where = launch([2**16], [256], y=f"f32[{2**32}] zeros", mask=2**32 - 1)
    kernel = compiled(SOURCE, "scattered")
    budget = Budget(memory_bytes=200 * MIB)
    found = run_launch(kernel, where, budget)
    assert 16 <= len(found.trace.block_ids) < 2**16
    assert found.setting.touched.nbytes <= budget.memory_bytes
    last = found.trace.footprints[-1]
    assert last.written.sum() == len(found.trace.block_ids) * 256  # no two threads meet in one sector
    with pytest.raises(BudgetExceededError, match="the parts of the buffers that the blocks touch need"):
        run(kernel, launch([2**10], [256], y=f"f32[{2**32}] zeros", mask=2**32 - 1), _whole(budget))


def _whole(budget: Budget) -> Budget:
    return Budget(sample_seconds=float("inf"), memory_bytes=budget.memory_bytes)


def test_dense_blocks_are_counted_exactly() -> None:
    """2^14 blocks of 256 threads read 16 MiB of each buffer and write 16 MiB of one."""
    size = f"f32[{EIGHT_GI}] zeros"
    trace, _ = execute(compiled(SOURCE, "streamed"), launch([2**14], [256], y=size, x=size), _whole(Budget()))
    sectors = 2**14 * 256 * 4 // SECTOR_BYTES
    last = trace.footprints[-1]
    assert (last.read.tolist(), last.written.tolist()) == ([sectors, sectors], [sectors, 0])


@given(st.lists(st.integers(0, 2**12), unique=True), st.integers(0, 2**20))
def test_rows_do_not_depend_on_the_place(pieces: list[int], regions: int) -> None:
    """A region has 32 KiB, 128 pieces of 256 bytes."""
    here = np.array(sorted(pieces), np.int64)
    assert opened_rows(here + 128 * regions) == pytest.approx(opened_rows(here))


@given(st.data())
def test_marks_are_counted_alike_in_small_and_large_memories(data: st.DataObject) -> None:
    """The same marks, in a memory that is looked through as a whole and in one whose touched pages are."""
    sizes = [("a", 5000), ("b", 40), ("c", 300_000)]
    small, large = Touched(Arena.for_buffers(sizes)), Touched(Arena.for_buffers([*sizes, ("d", GIB)]))
    places = data.draw(st.lists(st.integers(0, small.sectors - 1), max_size=50))
    stored = data.draw(st.lists(st.integers(0, 255), min_size=len(places), max_size=len(places)))
    for each in (small, large):
        for sector, words in zip(places, stored, strict=True):
            each.written[sector] |= words
            each.read[sector] |= not words
            each.pages[sector // PAGE_SECTORS] = 3
    one, other = small.footprint(1), large.footprint(1)
    for name in ("read", "written", "either", "partly"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()[:3]
    assert small.rows() == large.rows()
