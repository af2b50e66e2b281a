"""Stores and reductions to another block of the cluster that tell an mbarrier, as PTX on both engines against NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast.compile import CompiledKernel
from kerncast.errors import IllegalAddress, KernelFault
from kerncast.execute import WholeGrid, execute, run_launch
from kerncast.execute.recording import record_blocks
from kerncast.launch import Argument, Launch, parse_value
from kerncast.traces import (
    MASK_SHIFT,
    OBJECT_BITS,
    OPERATION_MASK,
    OPERATION_SHIFT,
    TOLD_SHIFT,
    EventChange,
    Operation,
    Trace,
)
from tests.helpers.execute_helpers import WITH_FRAME
from tests.instructions.test_wide_memory import ENGINES

#: Each of 4 blocks has an mbarrier for %bytes, and tells the block behind it in the cluster; %r is the rank there.
HEAD = """.version 8.8
.target sm_100
.address_size 64
.visible .entry k(.param .u64 b) {
.reg .b64 %b, %at, %d<4>; .reg .b32 %t, %rank, %r, %w<8>, %here, %bar, %there, %told; .reg .pred %p, %first;
.shared .align 16 .b8 tile[2048]; .shared .align 8 .b64 phase;
ld.param.u64 %b, [b]; mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank; add.u32 %r, %rank, 1; and.b32 %r, %r, 3;
mov.u32 %here, tile; mov.u32 %bar, phase; setp.eq.u32 %first, %t, 0;
@%first mbarrier.init.shared::cta.b64 [%bar], 1; @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], BYTES;
mapa.shared::cluster.u32 %there, %here, %r; mapa.shared::cluster.u32 %told, %bar, %r;
barrier.cluster.arrive; barrier.cluster.wait;
"""
WAIT = """
wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra wait;
shl.b32 %w0, %t, 4; add.u32 %w0, %w0, %here; ld.shared.v4.b32 {%w1, %w2, %w3, %w4}, [%w0];
mov.u32 %w0, %ctaid.x; mad.lo.u32 %w0, %w0, 32, %t; mul.wide.u32 %at, %w0, 16; add.s64 %b, %b, %at;
st.global.v4.b32 [%b], {%w1, %w2, %w3, %w4}; ret; }
"""
TELLS = "shared::cluster.mbarrier::complete_tx::bytes"


def kernel(body: str, nbytes: int) -> tuple[CompiledKernel, Launch]:
    text = f"{HEAD.replace('BYTES', str(nbytes))}{body}{WAIT}"
    found = CompiledKernel("k", "k", "sm_100", text, WITH_FRAME, None)
    arguments = (Argument("b", parse_value("u32[1024] zeros", "b", Path())),)
    return found, Launch(Path("k.ptx"), "k", (8, 1, 1), (32, 1, 1), 0, arguments, cluster=(4, 1, 1))


def run(body: str, engine: Any, nbytes: int) -> Trace:
    compiled, launch = kernel(body, nbytes)
    return execute(compiled, launch, WholeGrid(), engine=engine)[0]


VECTOR = f"""
shl.b32 %w0, %t, 4; add.u32 %there, %there, %w0; mad.lo.u32 %w1, %rank, 1000, %t; add.u32 %w2, %w1, 100;
st.async.weak.{TELLS}.v4.b32 [%there], {{%w1, %w2, %t, %rank}}, [%told];
"""
SUM = f"red.async.relaxed.cluster.{TELLS}.add.u32 [%there], %t, [%told];"


@ENGINES
def test_vectors_arrive_with_their_bytes(engine: str) -> None:
    trace = run(VECTOR, engine, 32 * 16)
    found = trace.memory["b"].reshape(8, 32, 4)
    lane = np.arange(32)
    for block in range(8):
        rank = (block - 1) % 4
        first = 1000 * rank + lane
        assert found[block].tolist() == np.stack([first, first + 100, lane, np.full(32, rank)], axis=1).tolist()
    assert trace.counts.shared_accesses.sum(axis=0).max() == 8 * 32


@ENGINES
@pytest.mark.parametrize(("name", "kind", "expected"), [
    ("add", "u32", 496), ("max", "s32", 31), ("min", "u32", 0), ("or", "b32", 31), ("xor", "b32", 0), ("inc", "u32", 6),
])  # fmt: skip
def test_reductions_meet_in_one_place(engine: str, name: str, kind: str, expected: int) -> None:
    trace = run(SUM.replace("add.u32", f"{name}.{kind}"), engine, 32 * 4)
    first = trace.memory["b"].reshape(8, 32, 4)[:, 0, 0]
    if name == "inc":  # wraps where it meets what is smaller: by lanes 0 to 31 in their order
        value = 0
        for limit in range(32):
            value = 0 if value >= limit else value + 1
        expected = value
    assert first.tolist() == [expected] * 8


@ENGINES
@pytest.mark.parametrize(("place", "nbytes", "error", "message"), [
    ("[%there+2064]", 128, IllegalAddress, "out of bounds"), ("[%there]", 256, KernelFault, "phase"),
])  # fmt: skip
def test_faults(engine: str, place: str, nbytes: int, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        run(SUM.replace("[%there]", place), engine, nbytes)


def test_what_the_others_tell_a_block_is_recorded_as_its_own() -> None:
    """Each block tells the one behind it, so that the one recorded is told as many bytes, when it tells others."""
    compiled, launch = kernel(SUM, 128)
    executed = run_launch(compiled, launch, WholeGrid())
    trace = record_blocks(executed, np.array([1, 6]), 10**6)
    events = trace.events.view(np.int64)
    change = np.where(events >> OPERATION_SHIFT & OPERATION_MASK == Operation.EVENT, events >> MASK_SHIFT & 0xF, -1)
    assert not (events[change >= 0] >> TOLD_SHIFT & 0xF).any()
    numbers = events >> OBJECT_BITS & 0xFFFFF
    assert [int(numbers[change == each].sum()) for each in (EventChange.EXPECT, EventChange.COMPLETE)] == [256, 256]
