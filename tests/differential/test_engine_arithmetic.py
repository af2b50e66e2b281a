"""Every arithmetic instruction of the engine against the scalar oracle, over bit patterns of all kinds."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.execute import reference  # noqa: F401  importing the engine registers all instructions
from kerncast.execute.reference.arithmetic import ARITHMETIC
from kerncast.execute.setup import check_supported
from kerncast.execute.setup.layout import as_type, raw_dtype
from kerncast.ptx import Function, Instruction, Register
from tests.helpers.scalar_arithmetic import WIDTHS, evaluate
from tests.helpers.thorough import examples

EDGES = [
    0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x3C00, 0x7C00, 0x7C01, 0xFC00, 0x03FF, 0x0400,
    0x7BFF, 0x3F80, 0x7F80, 0x7F81, 0x7F7F, 0xFF80, 0x3C003C00, 0x80008000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
    0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0x00800000, 0x007FFFFF, 0x80000001,
    0x4B000000, 0x4F000000, 0xCF000000, 0x4F800000, 0x5F000000, 0x5F800000, 0x3EFFFFFF, 0x3F000000, 0x3F7FFFFF,
    0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0x3FF0000000000000, 0xBFF0000000000000,
    0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x7FEFFFFFFFFFFFFF, 0x0010000000000000,
    0x000FFFFFFFFFFFFF, 0x8000000000000001, 0x41DFFFFFFFC00000, 0x41E0000000000000, 0x43E0000000000000,
    0x43F0000000000000, 0x47EFFFFFE0000000, 0x36A0000000000000, 0x3FE0000000000000, 0x0000000100000000,
]  # fmt: skip


def patterns(width: int) -> st.SearchStrategy[int]:
    top = (1 << width) - 1
    near = st.tuples(st.sampled_from(EDGES), st.integers(-2, 2)).map(lambda pair: pair[0] + pair[1] & top)
    few_bits = st.sets(st.integers(0, width - 1), max_size=4).map(lambda bits: sum(1 << b for b in bits))
    return st.one_of(st.sampled_from([e for e in EDGES if e <= top]), near, few_bits, st.integers(0, top))


def expand(text: str) -> list[str]:
    """Write out alternatives: ``add.{,sat}.{s32,u32}``."""
    head, brace, rest = text.partition("{")
    if not brace:
        return [re.sub(r"\.+", ".", text).rstrip(".")]
    choices, _, tail = rest.partition("}")
    return [opcode for choice in choices.split(",") for opcode in expand(head + choice + tail)]


INTS = "{u16,s16,u32,s32,u64,s64}"
COMPARE_INT = "{eq,ne,lt,le,gt,ge}"
COMPARE_FLOAT = "{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}"
PAIRS = "{e4m3x2,e5m2x2,e2m3x2,e3m2x2,e2m1x2}"
#: opcode: number of sources (with the widths of those that have their own)
FAMILIES = {
    f"{{add,sub,div,rem,min,max}}.{INTS}": 2,
    "{add,sub}.sat.s32": 2, "{min,max}.relu.s32": 2,
    f"mul.{{lo,hi}}.{INTS}": 2, "mul.wide.{u16,s16,u32,s32}": 2,
    f"mad.{{lo,hi}}.{INTS}": 3, "mad.wide.{u16,s16,u32,s32}": 3,
    "{neg,abs}.{s16,s32,s64}": 1, f"sad.{INTS}": 3,
    "mul24.lo.{u32,s32}": 2, "mad24.lo.{u32,s32}": 3, "dp4a.{u32,s32}.{u32,s32}": 3,
    "{and,or,xor}.{b16,b32,b64}": 2, "not.{b16,b32,b64}": 1, "cnot.{b16,b32,b64}": 1,
    "shl.{b16,b32,b64}": 2, f"shr.{{b16,b32,b64,{INTS[1:-1]}}}": 2, "shf.{l,r}.{clamp,wrap}.b32": 3,
    "dp2a.{lo,hi}.{u32,s32}.{u32,s32}": 3, "fns.b32": 3,
    "v{add,sub,avrg,min,max,absdiff}{2,4}.{u32.u32.u32,s32.s32.s32,u32.s32.u32}.{,sat,add}": 3,
    "vset{2,4}.{u32.u32,s32.s32}.{eq,ne,lt,le,gt,ge}.{,add}": 3,
    "{add,min,max}.{u16x2,s16x2}": 2, "{min,max}.relu.s16x2": 2, "{add,sub,mul}.{rn,rz,rm,rp}.{,ftz}.f32x2": 2,
    "fma.{rn,rz,rm,rp}.{,ftz}.f32x2": 3, "{min,max}.{,ftz}.{,NaN}.f32": 3,
    "div.{rz,rm,rp}.f64": 2, "{sqrt,rcp}.{rz,rm,rp}.f64": 1,
    f"set.{COMPARE_FLOAT}.{{,ftz}}.{{u32,s32}}.{{f16,f16x2}}": 2, f"set.{COMPARE_FLOAT}.{{u32,s32}}.{{bf16,bf16x2}}": 2,
    f"set.{COMPARE_FLOAT}.{{u16,s16}}.{{f16,bf16}}": 2, f"set.{COMPARE_FLOAT}.{{f16,bf16}}.{{f32,f64}}": 2,
    "{popc,clz,brev}.{b32,b64}": 1, "bfind.{,shiftamt}.{u32,s32,u64,s64}": 1,
    "bfe.{u32,s32,u64,s64}": 3, "bfi.{b32,b64}": 4, "prmt.b32": 3, "bmsk.{clamp,wrap}.b32": 2,
    "{add,sub,mul}.{rn,rz,rm,rp}.{,ftz}.{,sat}.f32": 2, "{add,sub,mul}.{rn,rz,rm,rp}.f64": 2,
    "fma.{rn,rz,rm,rp}.{,ftz}.{,sat}.f32": 3, "fma.{rn,rz,rm,rp}.f64": 3,
    "{add,sub,mul}.rn.{,ftz}.{,sat}.{f16,f16x2}": 2, "{add,sub,mul}.rn.{bf16,bf16x2}": 2,
    "fma.rn.{,ftz}.{sat,relu,}.{f16,f16x2}": 3, "fma.rn.{,relu}.{bf16,bf16x2}": 3,
    "div.{rn,rz,rm,rp}.{,ftz}.f32": 2, "div.rn.f64": 2,
    "{sqrt,rcp}.{rn,rz,rm,rp}.{,ftz}.f32": 1, "{sqrt,rcp}.rn.f64": 1,
    "{neg,abs}.{,ftz}.{f32,f16,f16x2}": 1, "{neg,abs}.{f64,bf16,bf16x2}": 1,
    "{min,max}.{,ftz}.{,NaN}.{f32,f16,f16x2}": 2, "{min,max}.{f64,bf16,bf16x2}": 2, "{min,max}.NaN.{bf16,bf16x2}": 2,
    "copysign.{f32,f64}": 2, "testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64}": 1,
    f"setp.{COMPARE_INT}.{INTS}": 2, "setp.{lo,ls,hi,hs}.{u16,u32,u64}": 2, "setp.{eq,ne}.{b16,b32,b64}": 2,
    f"setp.{COMPARE_FLOAT}.{{,ftz}}.{{f32,f16,f16x2}}": 2, f"setp.{COMPARE_FLOAT}.{{f64,bf16,bf16x2}}": 2,
    f"set.{COMPARE_INT}.{{u32,f32}}.{{s32,u64,s16}}": 2, f"set.{COMPARE_FLOAT}.{{,ftz}}.{{u32,f32}}.f32": 2,
    f"set.{COMPARE_FLOAT}.s32.f64": 2, f"set.{COMPARE_FLOAT}.{{,ftz}}.f16.f16": 2,
    f"set.{COMPARE_FLOAT}.f16x2.f16x2": 2, f"set.{COMPARE_FLOAT}.bf16x2.bf16x2": 2, f"set.{COMPARE_FLOAT}.bf16.bf16": 2,
    "slct.{b32,u64,f32,s16}.s32": 3, "slct.{,ftz}.{b32,f64}.f32": 3,
    "cvt.{,sat}.{u8,s8,u16,s16,u32,s32,u64,s64}.{u8,s8,u16,s16,u32,s32,u64,s64}": 1,
    "cvt.{rn,rz,rm,rp}.{f16,bf16,f32,f64}.{u8,s8,u16,s16,u32,s32,u64,s64}": 1,
    "cvt.{rni,rzi,rmi,rpi}.{,ftz}.{u8,s8,u16,s16,u32,s32,u64,s64}.f32": 1,
    "cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16,u32,s32,u64,s64}.{f16,bf16,f64}": 1,
    "cvt.{rni,rzi,rmi,rpi}.{f16.f16,f32.f32,f64.f64,bf16.bf16}": 1, "cvt.{,rzi}.{,ftz}.{,sat}.f32.f32": 1,
    "cvt.{rn,rz,rm,rp}.{,ftz}.{,sat}.f32.f64": 1, "cvt.{,ftz}.{,sat}.f64.f32": 1,
    "cvt.{rn,rz,rm,rp}.{,relu}.{f16,bf16}.f32": 1, "cvt.{rn,rz,rm,rp}.{f16,bf16}.f64": 1,
    "cvt.{f32,f64}.{f16,bf16}": 1, "cvt.{rn,rz}.{,relu}.{,satfinite}.{f16x2,bf16x2}.f32": 2,
    "cvt.rn.satfinite.{,relu}.{f16,bf16}.f32": 1, "cvt.{rna,rn,rz}.{,satfinite}.tf32.f32": 1,
    "cvt.{rn,rz}.relu.tf32.f32": 1, f"cvt.rn.satfinite.{{,relu}}.{PAIRS}.f32": 2,
    f"cvt.rn.satfinite.{{,relu}}.{PAIRS}.{{f16x2,bf16x2}}": 1, f"cvt.rn.{{,relu}}.{{f16x2,bf16x2}}.{PAIRS}": 1,
    "cvt.{rz,rp}.{,satfinite}.ue8m0x2.f32": 2, "cvt.{rz,rp}.{,satfinite}.ue8m0x2.bf16x2": 1, "cvt.rn.bf16x2.ue8m0x2": 1,
    "cvt.pack.sat.{u16,s16}.s32": 2, "cvt.pack.sat.{u2,s2,u4,s4,u8,s8}.s32.b32": 3,
}  # fmt: skip
OPCODES = [(opcode, count) for family, count in FAMILIES.items() for opcode in expand(family)]
#: Sources that are not of the instruction's type: opcode and position to width.
SHIFT_LIKE = {"shl": {1: 32}, "shr": {1: 32}, "bfe": {1: 32, 2: 32}, "bfi": {2: 32, 3: 32}}
SMALL = {
    ("bmsk", 0),
    ("bmsk", 1),
    ("shl", 1),
    ("shr", 1),
    ("shf", 2),
    ("bfe", 1),
    ("bfe", 2),
    ("bfi", 2),
    ("bfi", 3),
    ("fns", 1),
    ("fns", 2),
}


def source_width(opcode: str, position: int) -> int:
    root, *modifiers = opcode.split(".")
    types = [m for m in modifiers if m in WIDTHS]
    if root == "slct":
        return 32 if position == 2 else WIDTHS[types[0]]
    if "wide" in modifiers and position == 2:
        return 2 * WIDTHS[types[-1]]
    return SHIFT_LIKE.get(root, {}).get(position, WIDTHS[types[-1]])


def run(opcode: str, sources: list[list[int]]) -> list[int]:
    """Let the engine compute an instruction for several threads; returns the bits of its results."""
    root, *modifiers = opcode.split(".")
    operands = tuple(Register(f"%r{i}", f"b{source_width(opcode, max(i - 1, 0))}") for i in range(len(sources) + 1))
    instruction = Instruction(root, tuple(modifiers), operands, None, False, None)
    check_supported(Function("k", True, (), (), (), (instruction,), {}, {}))
    arrays = [np.array(values, raw_dtype(f"b{source_width(opcode, i)}")) for i, values in enumerate(sources)]

    def source(position: int, type_name: str | None = None) -> np.ndarray:
        return as_type(arrays[position], type_name or instruction.type)

    with np.errstate(all="ignore"):
        result = np.broadcast_to(ARITHMETIC[instruction.opcode.name](instruction, source), (len(sources[0]),))
    raw = np.ascontiguousarray(result)
    return [int(x) for x in (raw if raw.dtype.kind == "b" else raw.view(f"u{raw.dtype.itemsize}"))]


def result_type(opcode: str) -> str:
    types = [m for m in opcode.split(".") if m in WIDTHS]
    if opcode.startswith("cvt.pack"):
        return "b32"
    return types[0] if opcode.startswith(("cvt", "set.", "slct")) else types[-1]


def agree(kind: str, a: int, b: int) -> bool:
    """Say whether two results are equal; the bits of a double-precision NaN are not specified."""
    is_nan = kind == "f64" and all(x & 0x7FFFFFFFFFFFFFFF > 0x7FF0000000000000 for x in (a, b))
    return a == b or is_nan


@pytest.mark.parametrize("family", FAMILIES)
def test_instruction(family: str) -> None:
    opcodes = expand(family)

    @settings(max_examples=12, deadline=None, database=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        opcode = data.draw(st.sampled_from(opcodes))
        root = opcode.split(".")[0]
        rows = []
        for position in range(FAMILIES[family]):
            values = patterns(source_width(opcode, position))
            if (root, position) in SMALL:
                values = st.one_of(st.integers(0, 70), values)
            rows.append(data.draw(st.lists(values, min_size=12, max_size=12)))
        computed = run(opcode, rows)
        for lane, result in enumerate(computed):
            sources = [row[lane] for row in rows]
            expected = evaluate(opcode, sources)
            assert agree(result_type(opcode), result, expected), (
                f"{opcode} of {[hex(s) for s in sources]} is {result:#x}, not {expected:#x}"
            )

    check()


APPROXIMATE = {
    "{sqrt,rcp,rsqrt,lg2,ex2,sin,cos}.approx.{,ftz}.f32": 1, "tanh.approx.f32": 1, "div.{approx,full}.{,ftz}.f32": 2,
    "{ex2,tanh}.approx.{f16,f16x2}": 1, "ex2.approx.ftz.{bf16,bf16x2}": 1, "tanh.approx.{bf16,bf16x2}": 1,
    "{rcp,rsqrt}.approx.ftz.f64": 1, "rsqrt.approx.f64": 1,
}  # fmt: skip


@pytest.mark.parametrize("family", APPROXIMATE)
def test_approximate_instruction(family: str) -> None:
    """Computed in double precision by both: a unit in the last place apart at most."""
    opcodes = expand(family)

    @settings(max_examples=examples(24), deadline=None, database=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        opcode = data.draw(st.sampled_from(opcodes))
        values = patterns(source_width(opcode, 0))
        rows = [data.draw(st.lists(values, min_size=12, max_size=12)) for _ in range(APPROXIMATE[family])]
        step = 1 << 32 if opcode.endswith("ftz.f64") else 1
        for lane, result in enumerate(run(opcode, rows)):
            expected = evaluate(opcode, [row[lane] for row in rows])
            halves = (0, 16) if opcode.endswith("x2") else (0,)
            for shift in halves:
                mask = 0xFFFF if opcode.endswith("x2") else (1 << 64) - 1
                a, b = result >> shift & mask, expected >> shift & mask
                assert agree(result_type(opcode), a, b) or abs(a - b) <= step, (opcode, [hex(r[lane]) for r in rows])

    check()


def test_fused_multiply_adds_where_rounding_is_hard() -> None:
    """Double precision, where rounding to odd has its hard cases: sums that cancel, and results at the lower end."""
    random = np.random.default_rng(1)
    size = 4000
    a, b = (random.integers(0, 2**64, size, np.uint64).view(np.float64) for _ in range(2))
    with np.errstate(all="ignore"):
        exact = a * b
        near = np.where(np.isfinite(exact), -exact * random.choice([1, 1 + 2.0**-52, 1 - 2.0**-53, 2.0**-54], size), 0)
    ulp = 2.0**-52
    few, c = random.integers(1, 9, size), 1 + ulp * random.integers(0, 2**52, size)
    just_off_a_tie = [(1 + few * ulp) * 2.0**-53 * random.choice([1.0, -1.0], size), 1 - few * ulp, c]
    for rows in ([[int(v) for v in x.view(np.uint64)] for x in just_off_a_tie],):
        for opcode in ("fma.rn.f64", "fma.rz.f64", "fma.rm.f64", "fma.rp.f64"):
            results = run(opcode, rows)
            for lane in range(0, size, 16):
                assert results[lane] == evaluate(opcode, [row[lane] for row in rows])
    for c in (near, random.integers(0, 2**64, size, np.uint64).view(np.float64), np.zeros(size), np.full(size, 5e-324)):
        rows = [[int(v) for v in x.view(np.uint64)] for x in (a, b, c)]
        for opcode in ("fma.rn.f64", "fma.rz.f64"):
            results = run(opcode, rows)
            for lane in range(0, size, 16):
                expected = evaluate(opcode, [row[lane] for row in rows])
                assert agree("f64", results[lane], expected)
