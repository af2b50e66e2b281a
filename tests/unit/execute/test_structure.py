"""Basic blocks, lines of the source, balance, and accesses by space and operation."""

from pathlib import Path

import pytest

from kerncast.execute import Budget, WholeGrid
from kerncast.metrics import accesses, occurring_accesses
from kerncast.profiles import BasicBlockCount, Count, KernelProfile, LineCount
from kerncast.profiles.counts import (
    ATOMIC_THREADS,
    FP16_FLOPS,
    FP32_FLOPS,
    FP64_FLOPS,
    GLOBAL_BYTES_REQUESTED,
    GLOBAL_WRITE_SECTORS,
)
from tests.helpers.execute_helpers import compiled, launch, profile, ptx_kernel

REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<20>; .reg .f32 %f<9>; .reg .b64 %a<9>; "
MATMUL = """
#define T 16
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float s[T][T], t[T][T];
    int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * T + x, row = blockIdx.y * T + y;
    float sum = 0;
    for (int k = 0; k < n; k += T) {
        s[y][x] = a[row * n + k + x];
        t[y][x] = b[(k + y) * n + col];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < T; i++)
            sum += s[y][i] * t[i][x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
extern "C" __global__ void counts(const unsigned *where, unsigned *bins, unsigned *old, double *wide) {
    __shared__ unsigned mine[32];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, line[40];
    if (threadIdx.x < 32) mine[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&mine[where[i]], 1u);
    __syncthreads();
    old[i] = atomicAdd(&bins[mine[where[i]] % 4], 2u);
    atomicMax(&bins[7], i);
    for (int k = 0; k < 40; k++) line[k] = k ^ i;
    wide[i] = line[where[i]] * 0.5;
}
"""


def block_of(body: str) -> BasicBlockCount:
    """Return the only basic block of a kernel."""
    found = profile(ptx_kernel(f".entry k() {{ {REGISTERS} {body} ret; }}"), launch(3, 64)).blocks
    assert len(found) == 1
    assert isinstance(found[0], BasicBlockCount)
    return found[0]


def test_a_chain_has_no_parallelism() -> None:
    found = block_of("mov.u32 %r1, 1;" + "".join(f"add.u32 %r{n + 1}, %r{n}, 1;" for n in range(1, 9)))
    assert found.instructions == 10
    assert found.critical_path == 9  # ret waits for nothing
    assert found.dependency_distance == 1
    assert (found.warps, found.threads) == (Count.exact(6), Count.exact(192))


def test_independent_instructions_have_as_much_as_there_are() -> None:
    found = block_of("".join(f"mov.u32 %r{n}, {n};" for n in range(1, 10)))
    assert found.critical_path == 1
    assert found.parallelism == found.instructions == 10
    assert found.dependency_distance is None


@pytest.mark.parametrize(
    ("body", "path", "distance"),
    [
        ("mov.u32 %r1, 1; mov.u32 %r2, 2; mov.u32 %r3, 3; add.u32 %r4, %r1, %r2;", 2, 2.5),
        ("mov.u32 %r1, 1; mov.u32 %r2, 2; add.u32 %r3, %r1, 1; add.u32 %r4, %r1, 2;", 2, 2),  # only the first reader
        ("mov.u32 %r1, 1; mov.u32 %r1, 2; add.u32 %r2, %r1, 1;", 2, 1),  # the first value is read by nobody
        ("mov.u32 %r1, 1; setp.eq.u32 %p1, %r1, 0; @%p1 mov.u32 %r5, 7;", 3, 1),  # a guard is read
        ("mov.u32 %r5, 1; mov.u32 %r6, 1; @%p1 mov.u32 %r5, 7;", 2, 2),  # threads switched off keep the old value
        ("setp.eq.u32 %p1|%p2, 1, 2; @!%p2 mov.u32 %r5, 7;", 2, 1),
        ("add.cc.u32 %r1, 1, 2; mov.u32 %r9, 9; addc.u32 %r2, 3, 4;", 2, 2),  # the carry flag
        ("mov.u32 %r1, 4; st.shared.u32 [s], %r1; ld.shared.u32 %r2, [s]; add.u32 %r3, %r2, 1;", 2, 1),
        ("mov.u32 %r1, s; mov.u32 %r2, 0; ld.shared.v2.u32 {%r3, %r4}, [%r1]; add.u32 %r5, %r4, %r3;", 3, 1.5),
    ],
)
def test_dependences_worked_out_by_hand(body: str, path: int, distance: float) -> None:
    found = block_of(".shared .align 8 .b8 s[8];" + body)
    assert (found.critical_path, found.dependency_distance) == (path, distance)


def test_blocks_of_loops_know_how_deep_they_lie() -> None:
    text = (
        "mov.u32 %r1, 0; A: mov.u32 %r2, 0; B: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 5; @%p1 bra B;"
        " add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 3; @%p2 bra A; @%p3 bra C; bra D; C: mov.u32 %r3, 1; D:"
    )
    found = profile(ptx_kernel(f".entry k() {{ {REGISTERS} {text} ret; }}"), launch(1, 32)).blocks
    assert [(b.number, b.loop_depth, b.warps.value) for b in found[:4]] == [(0, 0, 1), (1, 1, 3), (2, 2, 15), (3, 1, 3)]
    assert [b.critical_path for b in found[:4]] == [1, 1, 3, 3]
    assert 6 not in {b.number for b in found}  # C never ran


def whole(source: str, name: str, where: object) -> KernelProfile:
    found = profile(compiled(source, name), where)  # type: ignore[arg-type]
    assert isinstance(found, KernelProfile)
    return found


@pytest.fixture(scope="module")
def matmul() -> KernelProfile:
    n = 64
    arguments = dict.fromkeys("abc", f"f32[{n},{n}] random")
    return whole(MATMUL, "matmul", launch([n // 16, n // 16], [16, 16], **arguments, n=n))


@pytest.fixture(scope="module")
def counts() -> KernelProfile:
    arguments = {"where": "u32[512] randint(0, 32)", "bins": "u32[8]", "old": "u32[512]", "wide": "f64[512]"}
    return whole(MATMUL, "counts", launch(4, 128, **arguments))


def line(found: KernelProfile, text: str) -> LineCount:
    number = next(n for n, content in enumerate(MATMUL.splitlines(), start=1) if text in content)
    return next(each for each in found.lines if each.line == number)


def test_lines_of_a_matrix_product(matmul: KernelProfile) -> None:
    """N = 64, T = 16: closed forms. A warp is two rows of 16 threads: 2 x 2 sectors per request."""
    n, t, warps = 64, 16, 64 * 64 // 32
    steps = n // t
    product = line(matmul, "sum +=")
    assert product.flops.value == 2 * n**3
    assert line(matmul, "s[y][x] = a[").global_requests.value == warps * steps
    assert line(matmul, "s[y][x] = a[").global_sectors.value == 4 * warps * steps
    assert line(matmul, "s[y][x] = a[").shared_requests.value == warps * steps
    assert line(matmul, "t[y][x] = b[").global_sectors.value == 4 * warps * steps
    assert line(matmul, "c[row * n + col] = sum").global_sectors.value == 4 * warps
    assert sum(each.barriers.value for each in matmul.lines) == 2 * warps * steps
    assert line(matmul, "__syncthreads").barriers.value == warps * steps
    assert product.global_requests.value == product.barriers.value == 0
    assert {Path(each.file).name for each in matmul.lines} == {"k.cu"}
    assert [each.line for each in matmul.lines] == sorted(each.line for each in matmul.lines)


@pytest.mark.parametrize("name", ["matmul", "counts"])
def test_lines_add_up_to_the_kernel(name: str, request: pytest.FixtureRequest) -> None:
    found: KernelProfile = request.getfixturevalue(name)

    def total(field: str) -> float:
        return float(sum(getattr(each, field).value for each in found.lines))

    def accessed(space: str, field: str) -> float:
        return float(getattr(accesses(found.counts, space), field).value)

    assert found.mix is not None
    assert total("warp_instructions") == found.mix.warp_instructions.value
    assert total("thread_instructions") == found.mix.thread_instructions.value
    assert total("barriers") == found.mix.barriers.value
    floats = (found.counts.get(FP16_FLOPS), found.counts.get(FP32_FLOPS), found.counts.get(FP64_FLOPS))
    assert total("flops") == sum(each.value for each in floats if each)
    assert total("global_requests") == accessed("global", "requests")
    assert total("global_sectors") == accessed("global", "sectors")
    assert total("shared_requests") == accessed("shared", "requests")
    assert total("shared_wavefronts") == accessed("shared", "wavefronts")
    assert total("local_sectors") == accessed("local", "sectors")


def test_basic_blocks_add_up_to_the_kernel(matmul: KernelProfile) -> None:
    assert matmul.mix is not None
    assert sum(b.instructions * b.warps.value for b in matmul.blocks) == matmul.mix.warp_instructions.value
    assert all(1 <= b.critical_path <= b.instructions for b in matmul.blocks)
    assert all(b.dependency_distance is None or b.dependency_distance >= 1 for b in matmul.blocks)
    assert max(b.loop_depth for b in matmul.blocks) == 1


def test_accesses_by_space_and_operation(counts: KernelProfile) -> None:
    """Of 4 blocks of 4 warps: what the source says, thread for thread."""
    found = {(space, operation): row for space, operation, row in occurring_accesses(counts)}
    assert set(found) == {
        ("global", "ld"), ("global", "st"), ("global", "atom"), ("global", "red"),
        ("shared", "ld"), ("shared", "st"), ("shared", "red"), ("local", "ld"), ("local", "st"),
    }  # fmt: skip
    atom, red = found["global", "atom"], found["global", "red"]
    assert (atom.requests.value, atom.threads.value, atom.nbytes.value) == (16, 512, 2048)
    assert (red.requests.value, red.threads.value, red.sectors.value, red.lines.value) == (16, 512, 16, 16)
    assert red.contention.value == 512  # all threads of a warp want one address
    assert 16 * 8 <= atom.contention.value <= 512  # one of four
    stored = found["global", "st"]
    assert (stored.requests.value, stored.nbytes.value) == (32, 512 * (4 + 8))
    assert stored.sectors.value == 16 * (4 + 8)
    assert stored.lines.value == 16 * (1 + 2)
    cleared = found["shared", "st"]
    assert (cleared.requests.value, cleared.threads.value, cleared.wavefronts.value) == (4, 128, 4)
    assert found["shared", "red"].threads.value == 512
    assert found["shared", "red"].sectors.value == found["shared", "red"].lines.value == 0
    assert found["local", "st"].nbytes.value == 512 * 40 * 4
    assert found["local", "st"].sectors.value * 32 == 512 * 40 * 4  # lanes lie side by side
    atomics = [row.threads.value for (_, operation), row in found.items() if operation in {"atom", "red"}]
    assert counts.counts[ATOMIC_THREADS].value == sum(atomics)


def test_accesses_agree_with_their_sums(counts: KernelProfile, matmul: KernelProfile) -> None:
    for found in (counts, matmul):

        def total(field: str, *operations: str, found: KernelProfile = found) -> float:
            return float(getattr(accesses(found.counts, "global", operations), field).value)

        assert found.counts[GLOBAL_WRITE_SECTORS] == Count.exact(total("sectors", "st", "atom", "red"))
        assert found.counts[GLOBAL_BYTES_REQUESTED] == Count.exact(total("nbytes", "ld", "st", "atom", "red"))


def test_one_warp_that_loops_ten_times() -> None:
    """4 warps of 5 instructions and loops of 4: one runs 10 of them, three run one each."""
    text = (
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; selp.u32 %r2, 10, 1, %p1; mov.u32 %r3, 0;"
        " L: add.u32 %r3, %r3, 1; mov.u32 %r4, 5; setp.lt.u32 %p2, %r3, %r2; @%p2 bra L;"
    )
    found = profile(ptx_kernel(f".entry k() {{ {REGISTERS} {text} ret; }}"), launch(6, 128)).balance
    assert found.longest_over_mean_warp == pytest.approx(45 / ((45 + 3 * 9) / 4))
    assert (found.longest_over_mean_block, found.block_variation) == (1, 0)


def test_one_block_that_loops_ten_times() -> None:
    """4 blocks: 45, 9, 9 and 9 instructions in each of 2 warps; mean 18, deviations 27, -9, -9, -9."""
    text = (
        "mov.u32 %r1, %ctaid.x; setp.lt.u32 %p1, %r1, 1; selp.u32 %r2, 10, 1, %p1; mov.u32 %r3, 0;"
        " L: add.u32 %r3, %r3, 1; mov.u32 %r4, 5; setp.lt.u32 %p2, %r3, %r2; @%p2 bra L;"
    )
    found = profile(ptx_kernel(f".entry k() {{ {REGISTERS} {text} ret; }}"), launch(4, 64)).balance
    assert found.longest_over_mean_warp == 1
    assert found.longest_over_mean_block == 45 / 18
    assert found.block_variation == pytest.approx(((27**2 + 3 * 81) / 4) ** 0.5 / 18)


def test_structure_of_a_sample_is_scaled() -> None:
    """A sample of equal blocks gives what the whole grid gives."""
    arguments = {"where": "u32[262144] randint(0, 32)", "bins": "u32[8]", "old": "u32[262144]", "wide": "f64[262144]"}
    kernel, place = compiled(MATMUL, "counts"), launch(2048, 128, **arguments)
    sampled, exact = profile(kernel, place, Budget(sample_seconds=0.005)), profile(kernel, place, WholeGrid())
    assert sampled.sampling is not None
    assert sampled.sampling.blocks_executed < 1000
    assert sampled.blocks == exact.blocks
    for ours, theirs in zip(sampled.lines, exact.lines, strict=True):
        assert (ours.line, ours.warp_instructions, ours.flops) == (theirs.line, theirs.warp_instructions, theirs.flops)
        assert ours.shared_wavefronts.value == pytest.approx(theirs.shared_wavefronts.value, rel=0.05)
    rows = zip(occurring_accesses(sampled), occurring_accesses(exact), strict=True)
    for (*ours_at, one), (*theirs_at, other) in rows:
        assert (ours_at, one.requests) == (theirs_at, other.requests)
        assert one.contention.value == pytest.approx(other.contention.value, rel=0.05)


def test_a_kernel_without_instructions_of_a_kind_has_no_rows_of_it() -> None:
    found = profile(ptx_kernel(f".entry k() {{ {REGISTERS} ret; }}"), launch(1, 32))
    assert occurring_accesses(found) == ()
    assert [(each.file, each.line, each.warp_instructions.value) for each in found.lines] == [("", 0, 1)]
    assert found.balance.block_variation == 0
