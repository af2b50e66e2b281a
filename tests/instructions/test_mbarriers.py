"""Barriers in shared memory (mbarrier) as PTX and as cuda::barrier, on both engines against NumPy and closed forms."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from kerncast.compile import CompiledKernel
from kerncast.errors import KernelFault
from kerncast.execute import WholeGrid, execute
from kerncast.execute.recording import Plan, Recorder, trace_of
from kerncast.execute.setup.prepare import linked_program, prepare
from kerncast.gpu import load_architecture
from kerncast.launch import Argument, Launch, parse_value
from kerncast.models.sm.lower import lower
from kerncast.models.sm.micro_ops import Memory
from kerncast.ptx import Trait
from kerncast.traces import (
    INSTRUCTION_SHIFT,
    MASK_SHIFT,
    OBJECT_BITS,
    OPERATION_MASK,
    OPERATION_SHIFT,
    EventChange,
    Operation,
    Trace,
)
from tests.helpers.execute_helpers import compiled, launch
from tests.instructions.test_wide_memory import ENGINES

HEAD = """.version 8.8
.target sm_100
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b) {
.reg .b64 %a, %b, %at, %s<8>; .reg .b32 %t, %w<20>; .reg .pred %p<8>; .shared .align 8 .b64 bar[8];
.shared .align 16 .b8 tile[4096];
ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; mov.u32 %t, %tid.x;
mul.wide.u32 %at, %t, 4; add.s64 %a, %a, %at; add.s64 %b, %b, %at; mov.u32 %w19, 0;
"""


def run(body: str, engine: Any, threads: int = 32, a: str = "u32[1] zeros", blocks: int = 1) -> Trace:
    """Run PTX whose ``b`` has a word for each thread of a block."""
    kernel = CompiledKernel("k", "k", "sm_100", f"{HEAD}{body}\nret; }}", cast("Any", None), None)
    values = {"a": a, "b": f"u32[{threads}] zeros"}
    arguments = tuple(Argument(name, parse_value(text, name, Path())) for name, text in values.items())
    where = Launch(Path("k.ptx"), "k", (blocks, 1, 1), (threads, 1, 1), 0, arguments)
    return execute(kernel, where, WholeGrid(), engine=engine)[0]


def waits(label: str, address: str, parity: str) -> str:
    """Return a loop that waits for the end of a phase."""
    return f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p7, [{address}], {parity}; @!%p7 bra {label};"


@ENGINES
def test_phases_by_their_closed_form(engine: str) -> None:
    """With 3 arrivals a phase, the parity after n of them is that of n // 3."""
    body = """
setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bar], 3; bar.sync 0;
mbarrier.arrive.shared::cta.b64 %s0, [bar];
mbarrier.pending_count.b64 %w0, %s0; shr.u64 %s1, %s0, 63; cvt.u32.u64 %w1, %s1;
mbarrier.test_wait.shared.b64 %p1, [bar], %s0; selp.u32 %w2, 4, 0, %p1;
mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; selp.u32 %w3, 8, 0, %p2;
mad.lo.u32 %w0, %w1, 16, %w0; or.b32 %w0, %w0, %w2; or.b32 %w0, %w0, %w3; st.global.u32 [%b], %w0;
"""
    found = run(body, engine, 32).memory["b"]
    n = np.arange(32)
    pending, phase = 3 - n % 3, n // 3 % 2
    now = 32 // 3 % 2
    over = np.where(phase != now, 4, 0) + (8 if now else 0)
    assert found.tolist() == (pending | phase << 4 | over).tolist()


@ENGINES
def test_drops_counts_and_bytes(engine: str) -> None:
    body = f"""
setp.eq.u32 %p0, %t, 0; @!%p0 bra behind;
mbarrier.init.shared.b64 [bar+8], 5;
mbarrier.arrive_drop.shared::cta.b64 _, [bar+8], 2;
mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %s0, [bar+8], 2;
mbarrier.pending_count.b64 %w0, %s0; st.global.u32 [%b], %w0;
mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [bar+8], 96;
mbarrier.test_wait.parity.shared.b64 %p1, [bar+8], 0; selp.u32 %w0, 1, 0, %p1; st.global.u32 [%b+4], %w0;
mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar+8], 32;
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar+8], 64;
mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar+8], 128;
{waits("turn", "bar+8", "0")}
mbarrier.arrive.shared.b64 %s0, [bar+8]; mbarrier.pending_count.b64 %w0, %s0; st.global.u32 [%b+8], %w0;
mov.u32 %w1, bar; cvt.u64.u32 %s1, %w1; cvta.shared.u64 %s1, %s1;
cp.async.mbarrier.arrive.b64 [%s1+8]; mbarrier.arrive.b64 %s0, [%s1+8];
mbarrier.pending_count.b64 %w0, %s0; st.global.u32 [%b+12], %w0;
cp.async.mbarrier.arrive.noinc.shared.b64 [bar+8]; mbarrier.inval.shared.b64 [bar+8];
ld.shared.u32 %w0, [bar+8]; st.global.u32 [%b+16], %w0;
behind:
"""
    assert run(body, engine).memory["b"][:5].tolist() == [3, 0, 3, 2, 0]


ROLES = f"""
setp.eq.u32 %p0, %t, 0; @!%p0 bra ready;
mbarrier.init.shared.b64 [bar], 1; mbarrier.init.shared.b64 [bar+8], 1;
mbarrier.init.shared.b64 [bar+16], 128; mbarrier.init.shared.b64 [bar+24], 128;
fence.mbarrier_init.release.cluster;
ready: bar.sync 0; mov.u32 %w1, bar; setp.ge.u32 %p1, %t, 128; @%p1 bra consume;
mov.u32 %w2, 0;
fill: and.b32 %w3, %w2, 1; shr.u32 %w4, %w2, 1; and.b32 %w4, %w4, 1; xor.b32 %w4, %w4, 1; mad.lo.u32 %w5, %w3, 8, %w1;
{waits("empty", "%w5+16", "%w4")}
ld.global.u32 %w6, [%a]; add.s64 %a, %a, 512;
mad.lo.u32 %w7, %t, 4, 0; mad.lo.u32 %w7, %w3, 512, %w7; mov.u32 %w8, tile; add.u32 %w7, %w7, %w8;
st.shared.u32 [%w7], %w6; bar.sync 1, 128; fence.proxy.async;
setp.eq.u32 %p2, %t, 7; @%p2 mbarrier.arrive.shared.b64 _, [%w5];
add.u32 %w2, %w2, 1; setp.lt.u32 %p3, %w2, 6; @%p3 bra fill; bra done;
consume: mov.u32 %w2, 0; sub.u32 %w9, 255, %t;
drain: and.b32 %w3, %w2, 1; shr.u32 %w4, %w2, 1; and.b32 %w4, %w4, 1; mad.lo.u32 %w5, %w3, 8, %w1;
{waits("full", "%w5", "%w4")}
mad.lo.u32 %w7, %w9, 4, 0; mad.lo.u32 %w7, %w3, 512, %w7; mov.u32 %w8, tile; add.u32 %w7, %w7, %w8;
ld.shared.u32 %w6, [%w7]; mad.lo.u32 %w19, %w19, 3, %w6; bar.sync 2, 128;
mbarrier.arrive.shared.b64 _, [%w5+16];
add.u32 %w2, %w2, 1; setp.lt.u32 %p3, %w2, 6; @%p3 bra drain;
done: st.global.u32 [%b], %w19;
"""


@ENGINES
def test_warps_of_different_roles(engine: str) -> None:
    """Four warps fill two stages, four drain them; each four also meet at a named barrier of their own."""
    trace = run(ROLES, engine, 256, "u32[768] iota", blocks=3)
    expected = np.zeros(128, np.uint32)
    for stage in np.arange(768, dtype=np.uint32).reshape(6, 128):
        expected = expected * 3 + stage[::-1]
    assert trace.memory["b"].tolist() == [0] * 128 + expected.tolist()
    waiting = [n for n, ins in enumerate(trace.function.instructions) if ins.name.startswith("mbarrier.try_wait")]
    # A wait counts once, however often a warp asks.
    assert trace.thread_executions[:, waiting].tolist() == [[6 * 128] * 2] * 3


@ENGINES
def test_a_waiting_warp_hears_of_a_phase_behind_which_another_has_ended(engine: str) -> None:
    """A warp copies twice and waits for itself alone; on a GPU copies take so long that the other sees each phase.

    CUTLASS's 05_mma_tma_epi_sm100 reads its first tile for the epilogue into the mbarrier of its operands so.
    """
    body = f"""
setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bar], 1; @%p0 mbarrier.init.shared.b64 [bar+8], 1; bar.sync 0;
setp.ge.u32 %p1, %t, 32; @%p1 bra other; @!%p0 bra done; {waits("ready", "bar+8", "0")}
mov.u32 %w2, 0; mov.u32 %w3, tile;
again: mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%w3], [%a], 128, [bar];
{waits("copied", "bar", "%w2")}
add.s64 %a, %a, 128; add.u32 %w3, %w3, 128; add.u32 %w2, %w2, 1; setp.lt.u32 %p3, %w2, 2; @%p3 bra again; bra done;
other: setp.eq.u32 %p2, %t, 32; @%p2 mbarrier.arrive.shared.b64 _, [bar+8];
{waits("first", "bar", "0")} {waits("second", "bar", "1")}
sub.u32 %w4, %t, 32; mov.u32 %w5, tile; mad.lo.u32 %w4, %w4, 4, %w5;
ld.shared.u32 %w6, [%w4]; ld.shared.u32 %w7, [%w4+128]; mad.lo.u32 %w19, %w7, 100, %w6;
done: st.global.u32 [%b], %w19;
"""
    found = run(body, engine, 64, "u32[64] iota").memory["b"]
    numbers = np.arange(32)
    assert found.tolist() == [0] * 32 + (numbers + (numbers + 32) * 100).tolist()


@ENGINES
def test_lanes_of_one_warp_wait_for_one_another(engine: str) -> None:
    """Lane 0 stands first in the order of the code, and waits for lane 31."""
    body = f"""
setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;
@!%p0 bra others;
{waits("turn", "bar", "0")}
ld.shared.u32 %w0, [tile]; st.global.u32 [%b], %w0; bra meet;
others: setp.ne.u32 %p1, %t, 31; @%p1 bra meet;
mov.u32 %w0, 77; st.shared.u32 [tile], %w0; mbarrier.arrive.shared.b64 _, [bar];
meet: bar.sync 0;
"""
    assert run(body, engine).memory["b"][0] == 77


ONE = "mbarrier.init.shared.b64 [bar], 1; setp.eq.u32 %p0, %t, 0;"
TURN = waits("turn", "bar", "0")
FAULTS = [
    (
        "mbarrier.init.shared.b64 [bar], 33; bar.sync 0; mbarrier.arrive.shared.b64 _, [bar];" + TURN,
        r"block \(0, 0, 0\), thread \(0, 0, 0\): the phase of the mbarrier in bar at shared address 0x0 lacks 1 arr",
    ),
    (f"{ONE} @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64; {TURN}", "lacks 0 arrivals and 64 bytes"),
    (f"{ONE} @!%p0 bra on; {TURN} on: bar.sync 0;", "wait for ever"),
    ("mbarrier.arrive.shared.b64 _, [bar];", "nobody has initialised"),
    ("mbarrier.test_wait.parity.shared.b64 %p0, [bar], 0;", "nobody has initialised"),
    ("mbarrier.init.shared.b64 [bar], 0;", "more arrivals"),
    ("mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.shared.b64 _, [bar], 3;", "more arrivals"),
    (f"{ONE} mov.u32 %w0, -1; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], %w0;", "more arrivals"),
    ("mbarrier.init.shared.b64 [bar+4], 2;", "misaligned"),
    ("mbarrier.init.shared.b64 [bar+4160], 2;", "out of bounds"),
    ("mov.u64 %s0, 64; mbarrier.init.b64 [%s0], 2;", "out of bounds"),
]


@ENGINES
@pytest.mark.parametrize(("body", "words"), FAULTS)
def test_what_cannot_be_meant(engine: str, body: str, words: str) -> None:
    with pytest.raises(KernelFault, match=words):
        run(body, engine)


CUDA = """
#include <cuda/barrier>
extern "C" __global__ void k(const float* a, float* b, int n) {
    __shared__ float tile[2][128];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar[2];
    if (threadIdx.x == 0) { init(&bar[0], blockDim.x); init(&bar[1], blockDim.x); }
    __syncthreads();
    float sum = 0;
    cuda::memcpy_async(&tile[0][threadIdx.x], &a[threadIdx.x], sizeof(float), bar[0]);
    for (int s = 0; s < n; s++) {
        int t = (s + 1) & 1;
        if (s + 1 < n)
            cuda::memcpy_async(&tile[t][threadIdx.x], &a[(s + 1) * 128 + threadIdx.x], sizeof(float), bar[t]);
        bar[s & 1].arrive_and_wait();
        sum += tile[s & 1][127 - threadIdx.x];
        bar[s & 1].wait(bar[s & 1].arrive());
    }
    b[threadIdx.x] = sum;
}
"""


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_barriers_of_libcu(architecture: str) -> None:
    kernel = compiled(CUDA, None, architecture)
    where = launch(2, 128, a="f32[1024] iota", b="f32[128] zeros", n=8)
    traces = [execute(kernel, where, WholeGrid(), engine=cast("Any", name))[0] for name in ("native", "reference")]
    expected = np.arange(1024, dtype="f4").reshape(8, 128)[:, ::-1].sum(axis=0)
    for trace in traces:
        assert trace.memory["b"].tolist() == expected.tolist()
    one, other = (trace.thread_executions for trace in traces)
    assert one.tolist() == other.tolist()


def test_a_wait_is_one_request_for_a_phase() -> None:
    """Of cuda::barrier on either architecture no instruction of a wait is without a time."""
    for architecture in ("sm_80", "sm_90"):
        program = linked_program((kernel := compiled(CUDA, None, architecture)).ptx, kernel.mangled)
        found = lower(program.function, program.cfg, load_architecture(architecture))
        waits = sum(ins.opcode.has(Trait.WAIT) for ins in program.function.instructions)
        assert np.count_nonzero(found.memory == Memory.WAIT) == waits > 0


def recorded(body: str, threads: int) -> list[tuple[int, ...]]:
    """Return what a block records of its mbarriers: warp, change, place and number, warp after warp."""
    kernel = CompiledKernel("k", "k", "sm_100", f"{HEAD}{body}\nret; }}", cast("Any", None), None)
    values = {"a": "u32[1] zeros", "b": f"u32[{threads}] zeros"}
    arguments = tuple(Argument(name, parse_value(text, name, Path())) for name, text in values.items())
    where = Launch(Path("k.ptx"), "k", (1, 1, 1), (threads, 1, 1), 0, arguments)
    recorder = Recorder(prepare(kernel, where, WholeGrid()), Plan(10**6, in_detail=True))
    recorder.run(np.arange(1))
    trace = trace_of(recorder.recording())
    found: list[tuple[int, ...]] = []
    for warp in range(trace.warps):
        for event in trace.events[trace.chains[warp] : trace.chains[warp + 1]].tolist():
            kind, change = event >> OPERATION_SHIFT & OPERATION_MASK, event >> MASK_SHIFT & 0xF
            content = event & (1 << MASK_SHIFT) - 1
            if kind == Operation.EVENT:
                found.append((warp, change, content & (1 << OBJECT_BITS) - 1, content >> OBJECT_BITS))
            elif kind == Operation.BASIC_BLOCK:
                found.append((warp, -1, event >> INSTRUCTION_SHIFT, 0))
    return found


@pytest.mark.parametrize("turns", [1, 3000])
def test_what_a_recording_tells_of_phases(turns: int) -> None:
    """Warp 1 asks until warp 0 has worked and arrived: however long that takes, it asks once."""
    body = f"""
setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bar+16], 33; bar.sync 0;
setp.lt.u32 %p1, %t, 32; @!%p1 bra asks;
mov.u32 %w0, 0; work: add.u32 %w0, %w0, 1; setp.lt.u32 %p2, %w0, {turns}; @%p2 bra work;
mbarrier.arrive.shared.b64 _, [bar+16]; @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar+16], 64;
@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar+16], 64; bra done;
asks: {waits("turn", "bar+16", "0")}
done:
"""
    found = recorded(body, 64)
    events = [each for each in found if each[1] >= 0]
    first = {number for warp, change, place, number in events if change == EventChange.BEGIN}
    (place,) = {place for _, _, place, _ in events}
    changes = [(EventChange.BEGIN, 33), (EventChange.ARRIVE, 32), (EventChange.EXPECT, 64), (EventChange.ARRIVE, 1)]
    expected = [(0, change, place, number) for change, number in [*changes, (EventChange.COMPLETE, 64)]]
    assert events == [*expected, (1, EventChange.WAIT, place, 0)]
    assert first == {33}
    blocks = [each for each in found if each[0] == 1 and each[1] < 0]
    assert len(blocks) == len(set(blocks))  # no block of warp 1 is entered twice


@ENGINES
def test_arrivals_in_another_block_of_the_cluster(engine: str) -> None:
    """Block 1 stores to block 0 and arrives there, which waits, and the other way round."""
    body = f"""
.reg .b32 %own, %peer, %remote;
mov.u32 %own, %cluster_ctarank; xor.b32 %peer, %own, 1; setp.eq.u32 %p0, %t, 0;
@%p0 mbarrier.init.shared::cta.b64 [bar], 32; barrier.cluster.arrive; barrier.cluster.wait;
mov.u32 %w0, tile; mapa.shared::cluster.u32 %remote, %w0, %peer; mad.lo.u32 %remote, %t, 4, %remote;
mad.lo.u32 %w1, %own, 1000, %t; st.shared::cluster.u32 [%remote], %w1;
mov.u32 %w0, bar; mapa.shared::cluster.u32 %remote, %w0, %peer;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%remote];
{waits("turn", "bar", "0")}
mov.u32 %w0, tile; mad.lo.u32 %w0, %t, 4, %w0; ld.shared.u32 %w1, [%w0];
mad.lo.u32 %w2, %own, 128, 0; cvt.u64.u32 %s0, %w2; add.s64 %b, %b, %s0; st.global.u32 [%b], %w1;
barrier.cluster.arrive; barrier.cluster.wait;
"""
    kernel = CompiledKernel("k", "k", "sm_100", f"{HEAD}{body}\nret; }}", cast("Any", None), None)
    texts = {"a": "u32[1] zeros", "b": "u32[64] zeros"}
    arguments = tuple(Argument(name, parse_value(text, name, Path())) for name, text in texts.items())
    where = Launch(Path("k.ptx"), "k", (2, 1, 1), (32, 1, 1), 0, arguments, cluster=(2, 1, 1))
    trace = execute(kernel, where, WholeGrid(), engine=cast("Any", engine))[0]
    assert trace.memory["b"].tolist() == [*range(1000, 1032), *range(32)]
