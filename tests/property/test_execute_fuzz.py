"""Damaged PTX: whatever is wrong with it, the answer is an error of ours, and it comes soon."""

import random
import re
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerncast.compile import CompiledKernel
from kerncast.errors import KerncastError
from kerncast.execute import Budget, execute
from kerncast.launch import Argument, Buffer, Fill, Launch, Struct
from tests.helpers.thorough import examples

PTX = """.version 8.8
.target sm_70
.address_size 64
.global .align 4 .u32 total = 3;
.global .u64 where[2] = {generic(total)+0, total};
.const .align 4 .b8 table[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
.func (.param .b32 out) twice(.param .b32 a) {
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [a]; add.s32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret;
}
.visible .entry k(.param .u64 .ptr .align 4 p, .param .u32 n, .param .align 4 .b8 s[8])
.maxntid 64, 1, 1
{
    .reg .pred %p<6>; .reg .b16 %rs<6>; .reg .b32 %r<20>; .reg .f32 %f<6>; .reg .f64 %fd<4>; .reg .b64 %rd<9>;
    .shared .align 16 .b8 tile[256];
    .local .align 8 .b8 depot[32];
    .loc 1 5 3
    ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.v2.u32 {%r11, %r12}, [s];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.s32 %r4, %r3, 32, %r2;
    setp.ge.s32 %p1, %r4, %r1; @%p1 bra DONE;
    mul.wide.s32 %rd3, %r4, 4; add.s64 %rd4, %rd2, %rd3; ld.global.f32 %f1, [%rd4];
    shl.b32 %r5, %r2, 2; mov.u32 %r6, tile; add.u32 %r7, %r6, %r5; st.shared.f32 [%r7], %f1;
    bar.sync 0;
    ld.shared.v2.f32 {%f2, %f3}, [tile+8]; fma.rn.f32 %f4, %f1, %f2, 0f3F800000; cvt.rzi.s32.f32 %r8, %f4;
    cvt.rn.f16.f32 %rs1, %f4; mov.b32 %r9, {%rs1, %rs1}; add.rn.f16x2 %r10, %r9, %r9;
    mov.u64 %rd5, depot; cvta.local.u64 %rd6, %rd5; st.u32 [%rd6+4], %r10; ld.local.u32 %r13, [%rd5+4];
    mov.u32 %r14, 0;
LOOP:
    add.u32 %r14, %r14, 1; bfe.u32 %r15, %r13, %r14, 3; setp.lt.and.u32 %p2|%p3, %r14, 4, !%p1; @%p2 bra LOOP;
    shfl.sync.down.b32 %r16|%p4, %r15, 1, 31, -1; vote.sync.ballot.b32 %r17, %p4, 0xFFFFFFFF;
    { .param .b32 a; .param .b32 q; st.param.b32 [a], %r16; call.uni (q), twice, (a); ld.param.b32 %r18, [q]; }
    and.b32 %r19, %r18, 1; brx.idx %r19, targets;
targets: .branchtargets EVEN, ODD;
ODD:
    { .reg .b32 t; atom.global.add.u32 t, [total], 1; ld.const.u8 t, [table+3]; }
EVEN:
    selp.b32 %r18, %r17, %r18, %p2; st.global.u32 [%rd4], %r18;
    .loc 1 9 3
    @%p1 trap;
DONE:
    ret;
}
.file 1 "k.cu"
"""
TOKENS = re.findall(r'"[^"]*"|[\w$%.:]+|[^\w\s]', PTX)
SOUP = [
    *TOKENS,
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ";",
    ",",
    "@",
    "!",
    "-",
    "0",
    "-1",
    "99999999999",
    "0x",
    "1e400",
    "%",
    ".",
    "²",
]
OUTCOMES = {
    "ran", "PTXSyntaxError", "UnsupportedError", "NotExecutedError", "KernelFault", "IllegalAddress", "AssertionFailed",
    "BudgetExceededError", "LaunchError",
}  # fmt: skip
SMALL = Budget(sample_seconds=0.0001, block_steps=300, seconds=5, memory_bytes=1 << 22)


def attempt(text: str) -> str:
    """Run a kernel text; returns what came of it."""
    kernel = CompiledKernel("k", "k", "sm_70", text, cast("Any", None), None)
    buffer = Buffer("f32", (64,), Fill("ones"))
    arguments = (Argument("p", buffer), Argument("n", 50), Argument("s", Struct(bytes(8))))
    launch = Launch(Path("k.cu"), "k", (2, 1, 1), (32, 1, 1), 0, arguments)
    try:
        execute(kernel, launch, SMALL)
    except KerncastError as error:
        return type(error).__name__ if str(error) else "an error without words"
    return "ran"


def test_the_undamaged_text_runs() -> None:
    assert attempt(PTX) == "ran"


def damage(text: str, choose: random.Random) -> str:
    """Delete, double, swap or replace some words, or some characters."""
    for _ in range(choose.choice([1, 1, 1, 2, 3])):
        parts = re.split(r"(\s+)", text) if choose.random() < 0.8 else list(text)
        at, other = choose.randrange(len(parts)), choose.randrange(len(parts))
        match choose.randrange(9):
            case 0:
                del parts[at]
            case 1:
                parts.insert(at, parts[other])
            case 2:
                parts[at], parts[other] = parts[other], parts[at]
            case 3:
                parts[at] = choose.choice(SOUP)
            case 4:
                words = re.split(r"([.\s,;]+)", parts[at])
                words[choose.randrange(len(words))] = choose.choice(SOUP).strip(".;")
                parts[at] = "".join(words)
            case _:  # another word of the same sort: most of these are read, and run
                spans = [m.span() for m in re.finditer(r"[%\w.]+", text)]
                start, stop = choose.choice(spans)
                alike = [t for t in TOKENS if t[0] == text[start] or t[0].isdigit() == text[start].isdigit()]
                parts = [text[:start], choose.choice(alike), text[stop:]]
        text = "".join(parts)
    return text


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_damaged_text(choose: random.Random) -> None:
    assert attempt(damage(PTX, choose)) in OUTCOMES


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sampled_from(SOUP), max_size=40), st.sampled_from([".entry k() {", ".global .b8 x =", ".func", ""]))
def test_word_soup(words: list[str], start: str) -> None:
    assert attempt(".version 8.8 " + start + " ".join(words)) in OUTCOMES


@pytest.mark.parametrize(
    "text", ["/*" * 40_000, "{" * 40_000, ".version 8.8 .entry k() {" + "{ret;" * 20_000, "(" * 9999]
)
def test_long_nonsense_is_refused_soon(text: str) -> None:
    assert attempt(text) == "PTXSyntaxError"
