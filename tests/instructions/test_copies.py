"""Asynchronous copies from global to shared memory, on both engines against NumPy."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from kerncast.errors import IllegalAddress, KernelFault, UnsupportedError
from kerncast.execute import WholeGrid, execute
from kerncast.execute.reference.late_copies import Copies, LateCopies
from kerncast.execute.setup import linked_program
from kerncast.execute.setup.dataflow import BufferUse
from kerncast.launch import Launch
from kerncast.ptx import Immediate, Instruction, Symbol
from kerncast.traces import Trace
from tests.helpers.execute_helpers import compiled, launch
from tests.helpers.places import ROOT
from tests.instructions.test_wide_memory import HEAD, LANE, TARGET, run

#: The engines, and that which copies when copies are waited for.
ENGINES = pytest.mark.parametrize("engine", ["native", "reference", "late"])
SOURCE = (Path(__file__).parent / "copies.cu").read_text()
#: Each lane copies its own bytes to its own place, and gives them back.
BODY = """
.reg .b32 %s, %n; mov.u32 %s, here; mad.lo.u32 %s, %t, {size}, %s; mul.wide.u32 %at, %t, {size}; add.s64 %a, %a, %at;
add.s64 %b, %b, %at; st.shared.b32 [%s], -1; {before}
cp.async.{cache}.shared.global [%s], [%a], {size}{given}; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
"""
BACK = {
    4: "ld.shared.b32 %w0, [%s]; st.global.b32 [%b], %w0;",
    8: "ld.shared.v2.b32 {%w0, %w1}, [%s]; st.global.v2.b32 [%b], {%w0, %w1};",
    16: "ld.shared.v4.b32 {%w0, %w1, %w2, %w3}, [%s]; st.global.v4.b32 [%b], {%w0, %w1, %w2, %w3};",
}


def copied(engine: str, instruction: str, before: str = "", room: int = 512) -> Trace:
    """Run a copy, of which the size and what stands behind it are given as ``ca 4`` or ``cg 16, %n``."""
    cache, operands = instruction.split(" ", 1)
    size, _, given = operands.partition(",")
    body = BODY.format(size=size, given=f", {given}" if given else "", before=before, cache=cache) + BACK[int(size)]
    return run(body, engine, f"u8[{room}] iota", f"u8[{32 * int(size)}] zeros")


def counted(trace: Trace) -> dict[str, int]:
    """Return what the copy was counted as: the first access but for a store."""
    names = ("requests", "accesses", "sectors", "lines", "shared_requests", "shared_accesses", "shared_wavefronts",
             "shared_conflicts")  # fmt: skip
    at = next(n for n, i in enumerate(trace.counts.accessing) if trace.function.instructions[i].is_copy)
    return {name: int(getattr(trace.counts, name)[0, at]) for name in names}


@ENGINES
@pytest.mark.parametrize("instruction", ["ca.L2::128B 4", "ca.L2::cache_hint 8, 8, %a", "cg 16"])
def test_whole_copies(engine: str, instruction: str) -> None:
    trace = copied(engine, instruction)
    size = int(instruction.partition(",")[0].split()[1])
    assert trace.memory["b"].tolist() == (np.arange(32 * size) % 256).tolist()
    assert counted(trace) == {
        "requests": 1, "accesses": 32, "sectors": size, "lines": size // 4, "shared_requests": 1,
        "shared_accesses": 32, "shared_wavefronts": size // 4, "shared_conflicts": 0,
    }  # fmt: skip


@ENGINES
@pytest.mark.parametrize("size", [4, 8, 16])
def test_what_is_not_read_is_zero(engine: str, size: int) -> None:
    """Lane n reads n of its bytes, at most all; those of lane 31 would lie behind the buffer."""
    trace = copied(engine, f"ca {size}, %n", "setp.eq.u32 %p0, %t, 31; selp.b32 %n, 0, %t, %p0;", room=31 * size)
    rows = (np.arange(32 * size) % 256).reshape(32, size)
    read = np.minimum(np.where(LANE == 31, 0, LANE), size)
    expected = np.where(np.arange(size) < read[:, None], rows, 0)
    assert trace.memory["b"].tolist() == expected.ravel().tolist()
    found = counted(trace)
    sectors = {lane * size // 32 for lane in LANE if read[lane]}
    assert (found["accesses"], found["shared_accesses"]) == (30, 32)
    assert (found["requests"], found["sectors"]) == (1, len(sectors))


@ENGINES
def test_a_predicate_reads_nothing(engine: str) -> None:
    trace = copied(engine, "cg 16, %p0", "setp.ge.u32 %p0, %t, 12;", room=12 * 16)
    assert trace.memory["b"].tolist() == [*range(12 * 16), *[0] * (20 * 16)]
    assert counted(trace)["sectors"] == 6


@ENGINES
def test_no_bytes_at_all(engine: str) -> None:
    trace = copied(engine, "ca 8, 0", "mov.u64 %a, 64;")
    assert not trace.memory["b"].any()
    assert (counted(trace)["requests"], counted(trace)["shared_requests"]) == (0, 1)


@ENGINES
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("add.u64 %a, %a, 256;", "out of bounds: 16 bytes"), ("add.u64 %a, %a, 4;", "misaligned: 16 bytes"),
        ("add.u32 %s, %s, 256;", "out of bounds: 16 bytes .* shared memory"), ("add.u32 %s, %s, 8;", "misaligned"),
        ("add.u64 %a, %a, 256; mov.u32 %n, 3;", "out of bounds"), ("add.u64 %a, %a, 8; mov.u32 %n, 3;", "misaligned"),
    ],
)  # fmt: skip
def test_faults(engine: str, change: str, fault: str) -> None:
    with pytest.raises(IllegalAddress, match=fault) as raised:
        copied(engine, "ca 16, %n" if "%n" in change else "ca 16", change)
    assert "a copy by block (0, 0, 0)" in str(raised.value)


@ENGINES
def test_single_bytes_do_not_open_the_way_for_whole_copies(engine: str) -> None:
    """A copy of one byte at the end of a buffer, then by the same instruction one of all."""
    body = """
.reg .b32 %s, %n; mov.u32 %s, here; mov.u32 %n, 1; add.s64 %a, %a, 496;
AGAIN: cp.async.cg.shared.global [%s], [%a], 16, %n; add.u32 %n, %n, 15; setp.eq.u32 %p0, %n, 16; @%p0 bra AGAIN;
"""
    run(body, engine, "u8[512] iota", "u8[1] zeros")
    with pytest.raises(IllegalAddress, match="out of bounds"):
        run(body, engine, "u8[497] iota", "u8[1] zeros")


@pytest.mark.parametrize("stride", [1, 2, 4, 8, 32])
@ENGINES
def test_conflicts_by_stride(engine: str, stride: int) -> None:
    """Words that lie a power of two apart meet in 32 / stride banks."""
    body = f"""
.shared .align 16 .b8 wide[4096]; .reg .b32 %s; mov.u32 %s, wide; mad.lo.u32 %s, %t, {4 * stride}, %s;
mul.wide.u32 %at, %t, {4 * stride}; add.s64 %a, %a, %at; cp.async.ca.shared.global [%s], [%a], 4;
cp.async.wait_all;
"""
    found = counted(run(body, engine, "u8[4096] iota", "u8[1] zeros"))
    assert (found["shared_wavefronts"], found["shared_conflicts"]) == (stride, stride - 1)
    assert found["sectors"] == min(32, 4 * stride)


@ENGINES
def test_a_gemm_with_two_buffers(engine: Any) -> None:
    n, k, m = 32, 40, 48
    buffers = {"a": f"f32[{m * k}] random", "b": f"f32[{k * n}] random", "c": f"f32[{m * n}]"}
    where = launch([n // 16, m // 16], [16, 16], **buffers, n=n, k=k)
    memory = executed("gemm", engine, where).memory
    a, b = memory["a"].reshape(m, k), memory["b"].reshape(k, n)
    assert np.allclose(memory["c"].reshape(m, n), a @ b, rtol=1e-5)


@ENGINES
def test_a_pipeline_of_one_thread(engine: Any) -> None:
    where = launch(1, 64, 2 * 64 * 16, x="f32[1280] iota", y="f32[1280]", n=5)
    expected = np.arange(1280.0)
    expected[::4] *= 2
    assert executed("pipe", engine, where).memory["y"].tolist() == expected.tolist()


@ENGINES
def test_copies_of_cooperative_groups(engine: Any) -> None:
    where = launch(2, 64, x="i32[128] iota", y="i32[128]", n=0)
    assert executed("staged", engine, where).memory["y"].tolist() == [*range(63, -1, -1), *range(127, 63, -1)]


def test_a_read_before_the_wait_is_found_where_copies_are_late() -> None:
    """One group too many may go on: right where copies are done at once, as on a GPU now and then."""
    fill = {"x": "i32[64] iota", "y": "i32[64]"}
    for engine in ("native", "reference"):
        assert executed("careless", engine, launch(1, 64, **fill, n=0)).memory["y"].tolist() == [*range(63, -1, -1)]
    with pytest.raises(KernelFault) as raised:
        executed("careless", "late", launch(1, 64, **fill, n=0))
    assert "reads shared memory before the copy that fills it" in str(raised.value)
    lines = [number for number, line in enumerate(SOURCE.splitlines(), 1) if "tile[63 -" in line]
    assert f"k.cu:{lines[0]}: " in str(raised.value)
    assert executed("careless", "late", launch(1, 64, **fill, n=1)).memory["y"].tolist() == [*range(63, -1, -1)]


@pytest.mark.parametrize(("engine", "expected"), [("reference", 0), ("late", 9)])
def test_late_copies_read_when_they_are_waited_for(engine: str, expected: int) -> None:
    body = BODY.format(size=4, given="", before="", cache="ca").replace(
        "cp.async.wait_group", "st.global.b32 [%a], 9; cp.async.wait_group"
    )
    assert set(run(body + BACK[4], engine, "u32[32] zeros", "u32[32] zeros").memory["b"]) == {expected}


def test_late_copies_are_done_where_they_arrive_at_an_mbarrier() -> None:
    arrival = Instruction("cp", ("async", "mbarrier", "arrive", "b64"), (), None, False, None)
    copy = Instruction(
        "cp", ("async", "ca", "shared", "global"), (*[Symbol("a")] * 2, Immediate(4, "int")), None, False, None
    )
    shared, two = np.zeros(8, np.uint8), np.arange(2)
    late = LateCopies(cast("Any", SimpleNamespace(count=2)), np.arange(8, dtype=np.uint8), shared)
    late.issue(Copies(copy, two, 4 * two, np.full(2, 4), 4 * two))
    late.go_on(arrival, two[:1])
    assert shared.tolist() == [0, 1, 2, 3, 0, 0, 0, 0]
    late.check(copy, two[:1], np.zeros(1, np.int64), 4)


def executed(name: str, engine: Any, where: Launch) -> Trace:
    return execute(compiled(SOURCE, name, "sm_86"), where, WholeGrid(), engine=engine)[0]


def use_of(ptx: str, kernel: str) -> BufferUse:
    program = linked_program(ptx, kernel)
    return BufferUse(program, frozenset(p.name for p in program.function.parameters if p.nbytes == 8))


def test_what_a_copy_reads_and_decides() -> None:
    gemm = use_of(compiled(SOURCE, "gemm", "sm_86").ptx, "gemm")
    assert gemm.read == {"gemm_param_0", "gemm_param_1"}
    assert gemm.written == {"gemm_param_2"}
    assert gemm.are_disjoint
    assert not gemm.deciding
    number = "ld.global.u32 %n, [%b];"
    body = BODY.format(size=4, given=", %n", before=number, cache="ca")
    assert use_of(f"{TARGET}{HEAD}{body} ret; }}", "k").deciding == {"b"}  # it says how much is read of a
    both = use_of(f"{TARGET}{HEAD}{body}{BACK[4]} ret; }}", "k")
    assert both.deciding == {"a", "b"}
    assert not both.are_disjoint
    body = BODY.format(size=4, given="", before="", cache="ca")
    by_address = f"{TARGET}{HEAD}{body} ld.shared.u32 %n, [%s]; st.global.b32 [%b], %n; st.shared.b32 [%n], %n; ret; }}"
    assert use_of(by_address, "k").deciding == {"a"}  # what was copied is an address


@pytest.mark.parametrize(
    "text",
    [
        "cp.async.cg.shared.global [%s], [%a], 8;", "cp.async.ca.shared.global [%s], [%a], 12;",
        "cp.async.ca.shared.global [%s], [%a], %s;", "cp.async.ca.shared.global [%s], [%a], 4, %a;",
        "cp.async.wait_group %s;",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match=r"cp\.async"):
        run(f".reg .b32 %s; {text}", "native", "u8[1] zeros", "u8[1] zeros")


def test_the_matrix_product_of_the_examples() -> None:
    source = (ROOT / "examples" / "matmul_tensor.cu").read_text(encoding="utf-8")
    m, n, k = 128, 256, 96
    where = launch([n // 128, m // 128], 256, A=f"f16[{m}, {k}] random", B=f"f16[{n}, {k}] random",
                   C=f"f32[{m}, {n}] zeros", m=m, n=n, k=k)  # fmt: skip
    trace, _ = execute(compiled(source, "matmul_tensor", "sm_80"), where, WholeGrid())
    a, b = (trace.memory[name].reshape(-1, k).astype(np.float64) for name in "AB")
    assert np.ptp(a) > 0.5
    np.testing.assert_allclose(trace.memory["C"].reshape(m, n), a @ b.T, rtol=1e-5)
    shared = trace.counts.shared_conflicts.sum()
    assert shared == 0
