"""Fuzzer of PTX of tensor cores, asynchronous copies and clusters: run as it is, written as LLVM IR and lowered."""

from pathlib import Path
from typing import Any, cast

from kerncast.compile import CompiledKernel
from kerncast.execute import Budget, execute
from kerncast.execute.native.engine import write_module
from kerncast.execute.setup.layout import link
from kerncast.gpu import load_architecture
from kerncast.launch import Argument, Launch, parse_value
from kerncast.models.sm.lower import lower
from kerncast.ptx import parse_ptx
from kerncast.ptx.opcodes import FORMS, OPCODES
from tests.fuzz.mutations import of_text
from tests.fuzz.target import Target

#: What a warp or a thread may do; every input of the corpus is a few of them.
_HEAD = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a)
{
.reg .b64 %d<8>; .reg .b32 %r<40>; .reg .b16 %h<4>; .reg .f32 %f<8>; .reg .pred %p<4>; .reg .b128 %q<2>;
.shared .align 1024 .b8 tile[16384]; .shared .align 8 .b64 bar[4];
ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, bar; mov.u32 %r4, %cluster_ctarank;
setp.eq.u32 %p1, %r1, 0; shl.b32 %r5, %r1, 4; add.u32 %r6, %r2, %r5; mov.b64 %d2, 0x4000004000010000;
mov.b32 %r7, 0x08040490; mov.b16 %h1, 3; mov.b64 %d3, 0x4000000800080000;
@%p1 mbarrier.init.shared::cta.b64 [%r3], 1; @%p1 mbarrier.init.shared::cta.b64 [%r3+8], 32; bar.sync 0;
"""
_WAIT = "w{0}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+{1}], 0; @!%p2 bra w{0};"
_FOUR = "{%r20, %r21, %r22, %r23}"
_ASK = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
_QUERY = "clusterlaunchcontrol.query_cancel"
_BODIES = (
    f"""
ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {_FOUR}, [%r6]; movmatrix.sync.aligned.m8n8.trans.b16 %r24, %r20;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {_FOUR}, {_FOUR}, {{%r20, %r21}}, {_FOUR};
mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16 {_FOUR}, {{%r20, %r21}}, {{%r22, %r23}}, {_FOUR};
mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {_FOUR}, {_FOUR}, {_FOUR}, {_FOUR}, %r20, 1;
mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32 {_FOUR}, {_FOUR}, {_FOUR},
 {_FOUR}, %r20, 0; mma.sp.sync.aligned.m16n8k128.row.col.s32.s4.u4.s32 {_FOUR}, {_FOUR}, {_FOUR}, {_FOUR}, %r20, 0;
ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b6x16_p32 {_FOUR}, [%r6];
stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [%r6], {_FOUR};
stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r6], {_FOUR};
""",
    f"""
cvt.u64.u32 %d4, %r5; add.u64 %d4, %d1, %d4; cp.async.cg.shared.global [%r6], [%d4], 16; cp.async.commit_group;
cp.async.wait_group 0; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r3+8]; {_WAIT.format(1, 8)}
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d1], 512, [%r3]; {_WAIT.format(2, 0)}
@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%r2], 64; cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0; redux.sync.add.u32 %r8, %r1, -1;
""",
    """
mapa.shared::cluster.u32 %r9, %r2, 1; mapa.shared::cluster.u32 %r10, %r3, 1; barrier.cluster.arrive;
barrier.cluster.wait; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 4;
setp.eq.u32 %p3, %r4, 0; @!%p1 bra on;
@%p3 st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r9], %r1, [%r10];
@!%p3 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r9+0], %r1, [%r10];
on: bar.sync 1, 32; barrier.cluster.arrive; barrier.cluster.wait;
""",
    f"""
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2+8192], 64;
ld.shared.b32 %r11, [%r2+8192]; @%p1 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r11+32], %d3;
@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r11], %d2, %d2, %r7, 0;
@%p1 tcgen05.mma.ws.cta_group::1.kind::f16.collector::b2::use [%r11], %d2, %d2, %r7, 0;
@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3]; {_WAIT.format(3, 0)}
tcgen05.ld.sync.aligned.16x64b.x4.b32 {_FOUR}, [%r11]; tcgen05.wait::ld.sync.aligned;
tcgen05.st.sync.aligned.32x32b.x4.b32 [%r11], {_FOUR}; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 64;
""",
    f"""
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16; setp.eq.and.u32 %p3, %r4, 0, %p1; barrier.cluster.arrive;
barrier.cluster.wait; @%p3 {_ASK}.multicast::cluster::all.b128 [%r2], [%r3]; {_WAIT.format(4, 0)}
ld.shared.b128 %q1, [%r2]; {_QUERY}.is_canceled.pred.b128 %p3, %q1;
@%p3 {_QUERY}.get_first_ctaid.v4.b32.b128 {{%r20, %r21, _, _}}, %q1; {_QUERY}.get_first_ctaid::z.b32.b128 %r22, %q1;
barrier.cluster.arrive; barrier.cluster.wait;
""",
    """
wgmma.fence.sync.aligned; setp.ne.u32 %p3, 0, 0; mov.b64 %d5, 0x0000000800080000;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d5, %d5, %p3, 1, 1, 0, 0;
wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d5, %d5, %r20, 1, %p3, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; elect.sync %r12|%p3, -1; fence.proxy.async; setmaxnreg.inc.sync.aligned.u32 240;
""",
)
_FAMILIES = (
    "mma",
    "ldmatrix",
    "stmatrix",
    "cp.",
    "mbarrier",
    "wgmma",
    "tcgen05",
    "st.async",
    "red.async",
    "barrier",
    "cluster",
)


def _words() -> tuple[bytes, ...]:
    """Return opcodes, modifiers and types of these families."""
    found: set[str] = set()
    for name in (each for each in OPCODES if each.startswith(_FAMILIES)):
        found.add(name)
        for form in FORMS.get(name, ()):
            found |= {f".{word}" for word in form.modifiers | frozenset().union(*form.types)}
    operands = ("0", "1", "-1", "16", "0x7FFFFFFF", "%p1", "%d1", "%d2", "%r2", "{%r1,%r2}", "[%r3]", "[%r2+16000]")
    return tuple(word.encode() for word in sorted(found.union(operands)))


def _run(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    kernel = CompiledKernel("k", "k", "sm_100a", text, cast("Any", None), None)
    arguments = (Argument("a", parse_value("u8[8192] zeros", "a", Path())),)
    launch = Launch(Path("k.ptx"), "k", (2, 1, 1), (32, 1, 1), 0, arguments, cluster=(2, 1, 1))
    budget = Budget(block_steps=2000, seconds=1.0, memory_bytes=2**28)
    execute(kernel, launch, budget, engine="reference")
    program = link(parse_ptx(text), "k")
    write_module(program)
    lower(program.function, program.cfg, load_architecture("sm_100"))


def kernel_targets() -> list[Target]:
    """Return the fuzzer of kernels."""
    corpus = tuple(f"{_HEAD}{body}ret;\n}}\n".encode() for body in _BODIES)
    return [Target("kernel.ptx", _run, corpus, (of_text(_words()),))]
