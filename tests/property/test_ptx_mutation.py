"""Damaged PTX text: reading it, taking its calls apart and finding its loops ends soon, if not well with our error."""

import random
import re
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerncast.errors import KerncastError
from kerncast.ptx import build_cfg, inline, inline_calls, parse_ptx, taken_functions
from tests.helpers.thorough import examples

PTX = """//
.version 8.8
.target sm_70, debug
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 list) ;
.func (.param .b32 result) plus (.param .b32 a, .param .b32 b) ;
.visible .global .align 8 .u64 table[3] = {plus, generic(minus), 0};
.weak .const .align 4 .f32 numbers[2][2] = {{0f3F800000, 1.5}, {-2.0e-3, 7}};
.global .align 1 .b8 bytes[4] = {1, 0xFF(table), 0xFF00(table+8), -1};
.extern .shared .align 16 .b8 dynamic[];
.global .attribute(.managed) .align 4 .u32 managed = 0b101U;
.visible .func (.param .b32 result) plus (.param .b32 a, .param .b32 b) .noreturn
{
    .reg .b32 %r<4>; .reg .pred %p;
    ld.param.u32 %r1, [a+0]; ld.param.u32 %r2, [b]; setp.eq.s32 %p, %r1, 0; @%p ret;
    add.s32 %r3, %r1, %r2; st.param.b32 [result+0], %r3; ret;
}
.func (.param .b32 result) minus (.param .b32 a, .param .align 4 .b8 b[4])
{
    .local .align 8 .b8 depot[16]; .reg .b64 %SP; .reg .b32 %r<2>;
    mov.u64 %SP, depot; cvta.local.u64 %SP, %SP; ld.param.u32 %r1, [b];
    { .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call.uni (q), plus, (p, p); ld.param.b32 %r1, [q]; }
    st.param.b32 [result], %r1; ret;
}
.visible .entry k(.param .u64 .ptr .global .align 4 out, .param .align 8 .b8 s[24])
.maxntid 64, 1, 1 .minnctapersm 2
{
    .reg .pred %p<4>; .reg .b16 %rs<3>; .reg .b32 %r<12>; .reg .f32 %f<5>; .reg .b64 %rd<8>;
    .shared .align 4 .b8 tile[128];
    .loc 1 12 5
    ld.param.v2.u32 {%r1, _}, [s+8]; ld.param.u64 %rd1, [out]; mov.u32 %r2, %tid.x;
    .pragma "nounroll";
OUTER:
    add.s32 %r1, %r1, -1; setp.gt.and.s32 %p1|%p2, %r1, 0, !%p3; mov.u32 %r3, 0;
INNER:
    .loc 2 7 1, function_name $L__info_string0+4, inlined_at 1 12 5
    add.s32 %r3, %r3, 0x1; setp.lt.u32 %p2, %r3, %r2; @%p2 bra INNER;
    @!%p1 bra.uni DONE;
    { .reg .b32 t<2>; .reg .pred q; bra SKIP; SKIP: mov.b32 t1, {%rs1, %rs2}; { .reg .b64 t1; cvt.u64.u32 t1, %r3; } }
    bra OUTER;
DONE:
    and.b32 %r4, %r2, 1; brx.idx %r4, ways;
ways: .branchtargets EVEN, ODD, EVEN;
ODD:
    mul.wide.u32 %rd2, %r4, 8; mov.u64 %rd3, table; add.s64 %rd3, %rd3, %rd2; ld.global.u64 %rd4, [%rd3+-8];
    { // callseq 0, 0
    .param .b32 param0; .param .b32 param1; .param .b32 retval0; st.param.b32 [param0+0], %r1;
    prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _) .noreturn;
    @%p1 call (retval0), %rd4, (param0, param1), prototype_0;
    ld.param.b32 %r5, [retval0+0];
    }
EVEN:
    bar.sync 0; shfl.sync.down.b32 %r6|%p3, %r5, 1, 31, -1; lop3.b32 %r7, %r1, %r2, %r6, 0x96;
    fma.rn.ftz.f32 %f1, %f2, 0fBF800000, %f3; ld.const.f32 %f4, [numbers+8]; st.shared.v2.f32 [tile+8], {%f1, %f4};
    atom.global.cas.b32 %r8, [%rd1], 1, 2; tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];
    { .param .b64 f; .param .b64 l; .param .b32 q; call.uni (q), vprintf, (f, l); }
    trap;
    ret;
$L__func_end1:
}
.file 1 "k.cu", 1700000000, 99
.file 2 "header \\" with.h"
.section .debug_str { $L__info_string0: .b8 102 .b8 0x6f {1, 2} .b64 .debug_str+4 }
"""
WORDS = re.findall(r'"(?:[^"\\]|\\.)*"|//[^\n]*|[\w$%.]+|\s+|.', PTX)
ODD = [
    *set(WORDS), "0", "-1", "99999999999999999999999999", "0x", "0xFFFFFFFFFFFFFFFF", "1" * 5000, "1e99999", "0f1",
    "{" * 50, "}" * 50, "{" * 9000, "[" * 9000, "(" * 9000, "@" * 9000, "-" * 9000, "{ .reg .b32 x; " * 2000,
    "\0", "\u0660", "é", '"', "/*", "<1000000000>", "[4000000000]", ".align 1073741824", ".b128", ".pred", ".f16x2",
    "call plus, ();", "bra k;", "call k;", "A: @%p1 bra A;", "brx.idx %r1, prototype_0;",
    "call (q), %rd4, (param0), ways;",
]  # fmt: skip


def one_word(words: list[str], choose: random.Random) -> None:
    """Delete, double or replace a word."""
    place = choose.randrange(len(words))
    words[place : place + 1] = choose.choice(
        [[], [words[place]] * 2, [choose.choice(ODD)], [words[place], choose.choice(ODD)]]
    )


def two_words(words: list[str], choose: random.Random) -> None:
    """Exchange two words."""
    one, other = choose.randrange(len(words)), choose.randrange(len(words))
    words[one], words[other] = words[other], words[one]


def a_part(words: list[str], choose: random.Random) -> None:
    """Cut out a part, repeat it, or put it elsewhere."""
    start = choose.randrange(len(words))
    part = words[start : start + choose.choice([3, 20, 200])]
    if choose.random() < 0.7:
        del words[start : start + len(part)]
    place = choose.randrange(len(words) + 1)
    words[place:place] = part * choose.choice([0, 1, 2, 30])


def the_end(words: list[str], choose: random.Random) -> None:
    """Let the text end early."""
    del words[choose.randrange(len(words)) :]


def a_number(words: list[str], choose: random.Random) -> None:
    """Change a number."""
    numbers = [place for place, word in enumerate(words) if word.isdigit()]
    if numbers:
        words[choose.choice(numbers)] = choose.choice(["0", "7", "-3", "65536", "2147483648", "18446744073709551616"])


DAMAGES: list[Callable[[list[str], random.Random], None]] = [one_word, one_word, two_words, a_part, the_end, a_number]


def damaged(choose: random.Random) -> str:
    """Return the text with some damage."""
    words = list(WORDS)
    for _ in range(choose.choice([1, 1, 1, 2, 3, 8])):
        if words:
            choose.choice(DAMAGES)(words, choose)
    return "".join(words)


def read(text: str) -> None:
    """Do with a text what the engine does before it runs."""
    module = parse_ptx(text)
    for kernel in module.kernels:
        function = inline_calls(module, kernel)
        graph = build_cfg(function)
        assert len(graph.loops.innermost) == len(graph.blocks)
        assert len(graph.post_dominators.parents) == len(graph.blocks) + 1
        assert set(taken_functions(module, kernel)) <= set(module.functions)


def test_the_text_itself_is_good() -> None:
    read(PTX)
    assert len(build_cfg(inline_calls(parse_ptx(PTX), "k")).loops.loops) == 2


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_damaged_text(choose: random.Random) -> None:
    try:
        read(damaged(choose))
    except KerncastError as error:
        assert str(error)  # noqa: PT017  most damaged texts raise, but not all


KERNEL = ".version 8.8 .target sm_70 .address_size 64 .entry k() {{ .reg .b32 %r<9>; .reg .pred %p; {} }}"
LONG = 200_000


@pytest.mark.parametrize(
    "body",
    [
        "mov.b32 %r1, " + "1" * LONG + ";",
        "mov.b32 %r1, " + "1" * LONG + "x;",
        "mov.b32 %r1, 1." + "1" * LONG + "x;",
        "mov.b32 %r1, a" + "1" * LONG + "x;",
        "mov.b32 %r1, %r" + "0" * LONG + "1;",
        "{" * LONG,
        "mov.b32 {" * LONG,
        "@" * LONG,
        "ld.u32 %r1, [" + "[" * LONG,
        ".reg .b32 x; {" * 2000 + "add.u32 x, x, x;" * 2000 + "}" * 2000,
        "A: @%p bra A; " + "".join(f"L{i}: @%p bra L{i}; @%p bra A;" for i in range(700)) + "ret;",
        "".join(f"L{i}: membar.gl;" for i in range(600)) + "".join(f"@%p bra L{600 - i};" for i in range(1, 600)),
        "".join(f"L{i}: @%p bra L{(i * 7919) % 300};" for i in range(300)) + "ret;",
        "".join(f"L{i}: brx.idx %r1, t;" for i in range(60)) + "t: .branchtargets L0" + ", L7, L31" * 20 + ";",
    ],
)  # fmt: skip
@pytest.mark.timeout(20)
def test_texts_that_would_take_long(body: str) -> None:
    try:
        read(KERNEL.format(body))
    except KerncastError as error:
        assert len(str(error)) < 2 * LONG  # noqa: PT017  some of these are good


@pytest.mark.timeout(20)
def test_calls_that_would_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions without instructions of their own that call one another, in a tree and in a chain."""
    monkeypatch.setattr(inline, "_INSTRUCTION_LIMIT", 20_000)
    tree = ".func f0() { }" + "".join(f".func f{i}() {{ {f'call f{i - 1};' * 8} }}" for i in range(1, 60))
    chain = ".func f0() { membar.gl; }" + "".join(f".func f{i}() {{ call f{i - 1}; }}" for i in range(1, 3000))
    head = ".version 8.8 .target sm_70 .address_size 64 "
    for text in (tree + ".entry k() { call f59; }", chain + ".entry k() { call f2999; }"):
        with pytest.raises(KerncastError, match=r"expand to over|nested more than"):
            read(head + text)
