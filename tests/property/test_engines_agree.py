"""Random programs: the two engines count the same, fail the same way, and leave the same memory.

``tools/fuzz_engines.py`` runs many more of them, and reduces those that the engines disagree about.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kerncast.execute import WholeGrid
from tests.helpers.engine_agreement import Outcome, disagreement, outcome
from tests.helpers.random_ptx import HEAD, RandomProgram, compare, random_program

BEGIN = """.entry k(.param .u64 in, .param .u64 own, .param .u64 mid, .param .u64 common, .param .u64 out,
.param .u64 fa, .param .u64 ha, .param .u64 ba, .param .align 8 .b8 struct[16], .param .u32 n, .param .f32 x) {
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .local .align 8 .b8 depot[8];
mov.u32 %r1, %tid.x; ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r1, 4, %d1; setp.ne.u32 %p1, %r1, 5;
"""
STORE = " st.global.u32 [%d1], %r2; ret; }"


def program(body: str, threads: int = 64) -> RandomProgram:
    """Return a program of one block; with ``STORE`` each thread gives %r2."""
    return RandomProgram(HEAD + BEGIN + body, (1, 1, 1), (threads, 1, 1), "")


@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.integers(0, 2**32 - 1))
def test_random_program(seed: int) -> None:
    assert compare(random_program(seed))[1] is None


def test_a_seed_gives_one_program() -> None:
    assert random_program(7) == random_program(7)
    assert random_program(7) != random_program(8)


# What the engines once disagreed about, reduced; with what the PTX ISA says.

OTHERS = np.arange(64) != 5
HALF, PAIR = 0x3C003C00, 0x40004000
RESULTS: list[tuple[str, str, npt.NDArray[Any]]] = [
    (
        "votes whose result nothing reads count too",
        "setp.gt.u32 %p2, %r1, 31; @%p2 bra B; bar.red.popc.u32 %r2, 1, %p1; bra C;"
        "B: mov.u32 %r3, 4; bar.red.popc.u32 %r3, 1, %p1; C:" + STORE,
        np.where(np.arange(64) < 32, OTHERS.sum(), 0),
    ),
    (
        "and do so in other reductions of the same barrier",
        "setp.gt.u32 %p2, %r1, 31; @%p2 bra B; bar.red.popc.u32 %r2, 1, %p1; bra C;"
        "B: setp.ne.u32 %p3, 0, 0; bar.red.and.pred %p3, 1, %p1; C:" + STORE,
        np.where(np.arange(64) < 32, OTHERS.sum(), 0),
    ),
    (
        "a vector atomic may write registers that it reads",
        f"ld.param.u64 %d2, [own]; mad.wide.u32 %d2, %r1, 8, %d2; mov.b32 %r2, {HALF}; mov.b32 %r3, {PAIR};"
        "atom.global.add.noftz.v2.f16x2 {%r3, %r4}, [%d2], {%r2, %r3}; ld.global.u32 %r2, [%d2+4];" + STORE,
        np.full(64, PAIR),
    ),
]


@pytest.mark.parametrize(("body", "expected"), [row[1:] for row in RESULTS], ids=[row[0] for row in RESULTS])
def test_results_that_differed(body: str, expected: npt.NDArray[Any]) -> None:
    one = program(body)
    assert compare(one) == ("ran", None)
    for engine in ("native", "reference"):
        trace = outcome(one.kernel, one.launch, WholeGrid(), engine).trace
        assert trace
        assert np.array_equal(trace.memory["out"][:64], expected)


@pytest.mark.parametrize("body", ["@%p1 bra A; A:", "{L}: @%p1 bra A; A: add.u32 %r1, %r1, 9;"])
def test_a_branch_to_what_follows_parts_no_lanes(body: str) -> None:
    one = program(body.format(L="L") + STORE)
    assert compare(one) == ("ran", None)
    trace = outcome(one.kernel, one.launch, WholeGrid(), "native").trace
    assert trace
    assert trace.counts.divergent_branches.sum() == 0


FAULTS = [
    ("", "ld.param.u32 %r2, [struct+24];", "out of bounds"),
    ("", "ld.param.u32 %r2, [struct+8000];", "out of bounds"),
    ("", "ld.param.v4.u32 {%r2, %r3, %r4, %r5}, [struct+16];", "out of bounds"),
    ("mov.u64 %d2, depot; cvta.local.u64 %d2, %d2;", "atom.add.u32 %r2, [%d2], 1;", "no atomics"),
    ("mov.b64 %d2, struct; cvta.param.u64 %d2, %d2;", "red.add.u32 [%d2], 1;", "no atomics"),
]


@pytest.mark.parametrize(("before", "bad", "kind"), FAULTS)
def test_faults_that_differed(before: str, bad: str, kind: str) -> None:
    assert compare(program(before + bad + STORE)) == (f"IllegalAddress {kind}", None)
    assert compare(program(f"{before} setp.ne.u32 %p2, 0, 0; @%p2 {bad} {STORE}")) == ("ran", None)


def test_a_call_of_printf_that_no_thread_makes_is_not_remarked() -> None:
    call = "{ .param .b64 a; .param .b64 b; .param .b32 q; %s call (q), vprintf, (a, b); }"
    head = ".extern .func (.param .b32 q) vprintf (.param .b64 a, .param .b64 b);\n"
    body = f"setp.ne.u32 %p2, 0, 0; {call % '@%p2'} @!%p2 bra B; {call % ''} B:{STORE}"
    one = program(body)
    one = replace(one, text=one.text.replace(HEAD, HEAD + head))
    assert compare(one) == ("ran", None)
    trace = outcome(one.kernel, one.launch, WholeGrid(), "native").trace
    assert trace
    assert not trace.remarks


def test_a_difference_is_seen() -> None:
    one = program("mov.u32 %r2, 3;" + STORE)
    ran = outcome(one.kernel, one.launch, WholeGrid(), "native")
    assert ran.trace
    changed: dict[str, Any]
    for name in ("block_warps", "guarded_threads", "sectors", "divergent_branches"):
        array = getattr(ran.trace.counts, name)
        changed = {name: np.pad(array, [(0, 1)] * array.ndim) + 1}
        counts = replace(ran.trace.counts, **changed)
        assert name in str(disagreement(ran, Outcome("ran", replace(ran.trace, counts=counts))))
    memory = dict(ran.trace.memory, out=ran.trace.memory["out"] ^ 1)
    assert "memory out" in str(disagreement(ran, Outcome("ran", replace(ran.trace, memory=memory))))
    assert "outcome" in str(disagreement(ran, Outcome("KernelFault traps", None)))
