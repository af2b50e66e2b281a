"""Requests for clusters that have not begun (clusterlaunchcontrol), as PTX on both engines against NumPy.

No request is granted, so that each block does its own share, once; what a granted one would say is read from a literal.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast.caveats import CaveatKind
from kerncast.compile import CompiledKernel
from kerncast.errors import IllegalAddress, KernelFault, UnsupportedError
from kerncast.execute import WholeGrid, execute
from kerncast.launch import Argument, Launch, parse_value
from kerncast.traces import Trace
from tests.helpers.execute_helpers import WITH_FRAME
from tests.instructions.test_wide_memory import ENGINES

#: Each block of 64 threads doubles its numbers, and those of each block that it takes over. %x is whose turn it is.
HEAD = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 b) {
.reg .b64 %b, %at, %g<4>; .reg .b32 %t, %rank, %x, %y, %z, %w<8>, %here, %bar, %phase; .reg .b128 %h;
.reg .pred %p, %no, %first, %asks; .shared .align 16 .b8 answer[48]; .shared .align 8 .b64 phases[2];
ld.param.u64 %b, [b]; mov.u32 %t, %tid.x; mov.u32 %x, %ctaid.x; mov.u32 %rank, %cluster_ctarank;
mov.u32 %here, answer; mov.u32 %bar, phases; setp.eq.u32 %first, %t, 0; mov.u32 %phase, 0;
setp.eq.and.u32 %asks, %rank, ASKING, %first; shl.b32 %w0, %t, 2; mov.b32 %w1, 0x7FFFFFFF;
@%first st.shared.v4.b32 [%here], {%w1, %w1, %w1, %w1}; @%first mbarrier.init.shared::cta.b64 [%bar], 1;
bar.sync 0; barrier.cluster.arrive; barrier.cluster.wait;
"""
LOOP = """
next: @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 16;
SYNC
@%asks clusterlaunchcontrol.try_cancel.async.FORM.b128 ASKED;
mad.lo.u32 %w2, %x, 64, %t; mul.wide.u32 %at, %w2, 4; add.s64 %at, %at, %b;
ld.global.u32 %w3, [%at]; add.u32 %w3, %w3, %w3; st.global.u32 [%at], %w3;
wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], %phase; @!%p bra wait;
xor.b32 %phase, %phase, 1; ld.shared.b128 %h, [%here];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p, %h;
@%p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%x, %y, %z, _}, %h; @%p add.u32 %x, %x, %rank;
bar.sync 0; @%p bra next; SYNC ret; }
"""
TELLS = "mbarrier::complete_tx::bytes"
SYNC = "barrier.cluster.arrive; barrier.cluster.wait;"


def run(text: str, engine: Any, cluster: int = 1, **options: Any) -> Trace:
    compiled = CompiledKernel("k", "k", "sm_100a", text, WITH_FRAME, None)
    arguments = (Argument("b", parse_value("u32[512] iota", "b", Path())),)
    launch = Launch(Path("k.ptx"), "k", (8, 1, 1), (64, 1, 1), 0, arguments, cluster=(cluster, 1, 1))
    return execute(compiled, launch, WholeGrid(), engine=engine, **options)[0]


def looping(form: str = f"shared::cta.{TELLS}", asked: str = "[%here], [%bar]", *, asking: str = "%rank") -> str:
    head = HEAD.replace("ASKING", asking)
    sync = SYNC if "multicast" in form else ""
    return head + LOOP.replace("FORM", form).replace("ASKED", asked).replace("SYNC", sync)


MULTICAST = f"shared::cta.{TELLS}.multicast::cluster::all"


@pytest.mark.parametrize("engine", ["native", "reference", "late"])
@pytest.mark.parametrize(("cluster", "form", "asking"), [
    (1, f"shared::cta.{TELLS}", "%rank"), (1, MULTICAST, "0"), (2, f"shared::cta.{TELLS}", "%rank"),
    (2, MULTICAST, "0"), (2, MULTICAST, "1"), (4, MULTICAST, "2"),
])  # fmt: skip
def test_each_block_does_its_own_share_once(engine: str, cluster: int, form: str, asking: str) -> None:
    found = run(looping(form, asking=asking), engine, cluster)
    assert found.memory["b"].tolist() == (2 * np.arange(512)).tolist()
    assert {each.kind for each in found.remarks} == {CaveatKind.REQUEST_NOT_GRANTED}


@ENGINES
def test_generic_addresses(engine: str) -> None:
    text = looping(TELLS, "[%g0], [%g1+8]").replace("phases;", "phases; sub.u32 %bar, %bar, 8;", 1)
    text = text.replace("[%bar]", "[%bar+8]")
    wide = (
        "cvt.u64.u32 %g0, %here; cvta.shared.u64 %g0, %g0; cvt.u64.u32 %g1, %bar; cvta.shared.u64 %g1, %g1; bar.sync 0;"
    )
    found = run(text.replace("bar.sync 0;", wide, 1), engine)
    assert found.memory["b"].tolist() == (2 * np.arange(512)).tolist()


@ENGINES
def test_what_a_granted_request_says(engine: str) -> None:
    """Where a block is taken over, it is the one whose place the answer has, which is written here by hand."""
    query = "clusterlaunchcontrol.query_cancel"
    body = f"""
mov.b64 %g0, {5 << 32 | 1}; mov.b64 %g1, {7 << 32 | 6}; mov.b128 %h, {{%g0, %g1}}; {query}.is_canceled.pred.b128 %p, %h;
selp.u32 %w1, 1, 0, %p; {query}.get_first_ctaid.v4.b32.b128 {{%x, _, %z, _}}, %h;
{query}.get_first_ctaid::y.b32.b128 %y, %h; {query}.get_first_ctaid::x.b32.b128 %w2, %h;
{query}.get_first_ctaid::z.b32.b128 %w3, %h; add.u32 %w2, %w2, %w3; mul.wide.u32 %at, %t, 32; add.s64 %at, %at, %b;
setp.lt.u32 %p, %t, 16; @%p st.global.v4.b32 [%at], {{%w1, %x, %y, %z}}; @%p st.global.b32 [%at+16], %w2; ret; }}
"""
    found = run(HEAD.replace("ASKING", "%rank") + body, engine).memory["b"].reshape(64, 8)[:16, :5]
    assert found.tolist() == [[1, 5, 6, 7, 12]] * 16


@ENGINES
@pytest.mark.parametrize(("asked", "error", "message"), [
    ("[%here+8], [%bar]", IllegalAddress, "misaligned"), ("[%here+64], [%bar]", IllegalAddress, "out of bounds"),
    ("[%here], [%bar+8]", KernelFault, "which nobody has initialised"),
])  # fmt: skip
def test_faults(engine: str, asked: str, error: Any, message: str) -> None:
    for form in (f"shared::cta.{TELLS}", MULTICAST):
        with pytest.raises(error, match=message):
            run(looping(form, asked, asking="0"), engine)


@pytest.mark.parametrize(("old", "new"), [
    ("{%x, %y, %z, _}", "%x"), ("{%x, %y, %z, _}", "{%x, %y, %z}"), ("{%x, %y, %z, _}, %h", "{%x, %y, %z, _}, %at"),
    ("{%x, %y, %z, _}", "{%x, %y, %g0, _}"), ("ctaid.v4", "ctaid::w"), ("pred.b128 %p", "pred.b128 %w1"),
    ("ctaid.v4", "ctaid::x"), ("try_cancel.async", "try_cancel"),
])  # fmt: skip
def test_other_forms_are_refused(old: str, new: str) -> None:
    assert looping().count(old) == 1
    with pytest.raises(UnsupportedError):
        run(looping().replace(old, new), "native")


@ENGINES
def test_a_wide_register_gives_its_low_bits_and_takes_fewer(engine: str) -> None:
    """A fuzzer found a register of 128 bits for a guard, which the interpreter could not read."""
    body = """
mov.b64 %g0, 3; mov.b64 %g1, 5; mov.b128 %h, {%g0, %g1}; mov.b32 %w1, 0; @%h mov.b32 %w1, 7;
add.s32 %w2, %h, 1; add.s32 %h, %w2, -9; mov.b128 {%g2, %g3}, %h; mul.wide.u32 %at, %t, 32; add.s64 %at, %at, %b;
setp.lt.u32 %p, %t, 16; @%p st.global.b32 [%at], %w1; @%p st.global.b32 [%at+4], %w2;
@%p st.global.v2.b64 [%at+16], {%g2, %g3}; ret; }
"""
    found = run(HEAD.replace("ASKING", "%rank") + body, engine).memory["b"].reshape(64, 8)[:16]
    assert found[:, :2].tolist() == [[7, 4]] * 16
    assert found[:, 4:].copy().view(np.int64).tolist() == [[-5, -1]] * 16
