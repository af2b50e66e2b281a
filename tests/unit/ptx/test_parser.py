"""The PTX parser: what texts mean, and what is said about texts that mean nothing."""

import struct

import pytest

from kerncast.errors import PTXSyntaxError, UnsupportedError
from kerncast.ptx import (
    Address,
    Function,
    Immediate,
    Label,
    Location,
    Module,
    Negated,
    Register,
    Relocation,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
    inline,
    inline_calls,
    parse_ptx,
)

HEAD = ".version 8.8\n.target sm_70, texmode_independent\n.address_size 64\n"


def module(text: str) -> Module:
    return parse_ptx(HEAD + text)


def kernel(body: str, parameters: str = "") -> Function:
    return module(f".visible .entry k({parameters}) {{\n{body}\n}}").functions["k"]


def variable(text: str) -> Variable:
    return module(text).variables[0]


def message(text: str) -> str:
    with pytest.raises(PTXSyntaxError) as caught:
        module(text)
    return str(caught.value)


def test_head() -> None:
    found = module(
        ".visible .entry a() { ret; } .func b() { ret; } .extern .func c(); .entry d() .maxntid 32, 1, 1 { }"
    )
    assert (found.version, found.target) == ("8.8", "sm_70")
    assert found.kernels == ("a", "d")
    assert set(found.functions) == {"a", "b", "d"}


def test_comments_are_skipped_but_not_in_quotes() -> None:
    found = kernel("/* .reg .bad\n */ .reg .b32 %r<2>; // mov\n mov.u32 %r1, %tid.x;\n .loc 1 7 3\n ret; /**/")
    assert [i.name for i in found.instructions] == ["mov.u32", "ret"]
    text = '.entry k() { .loc 3 5 1\n ret; }\n.file 3 "http://x/*y.cu"'
    assert module(text).functions["k"].instructions[0].location == Location("http://x/*y.cu", 5)


def test_operands() -> None:
    found = kernel(
        """.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<5>;
        setp.lt.and.s32 %p1|%p2, %r1, -5, !%p1;
        ld.global.v2.f32 {%f1, _}, [%rd1+-8];
        st.shared.u32 [tile+12], 0x1F;
        mov.u64 %rd2, tile+16;
        mov.f32 %f3, 0f3F800000;
        @!%p2 mov.f64 %rd3, -0d3FF0000000000000;
        mov.u32 %r2, %laneid;
        add.u32 %r3, %r2, WARP_SZ;
        ld.const.u32 %r4, [16];
        """
    )
    p1, p2, r1 = Register("%p1", "pred"), Register("%p2", "pred"), Register("%r1", "b32")
    rd1, rd3 = Register("%rd1", "b64"), Register("%rd3", "b64")
    assert [i.operands for i in found.instructions] == [
        (p1, p2, r1, Immediate(-5, "int"), Negated(p1)),
        (Vector((Register("%f1", "f32"), Sink())), Address(rd1, -8)),
        (Address(Symbol("tile"), 12), Immediate(31, "int")),
        (Register("%rd2", "b64"), Symbol("tile", 16)),
        (Register("%f3", "f32"), Immediate(0x3F800000, "f32")),
        (rd3, Immediate(0xBFF0000000000000, "f64")),
        (Register("%r2", "b32"), Special("%laneid")),
        (Register("%r3", "b32"), Register("%r2", "b32"), Immediate(32, "int")),
        (Register("%r4", "b32"), Address(None, 16)),
    ]
    guarded = found.instructions[5]
    assert (guarded.guard, guarded.guard_negated) == (p2, True)
    load = found.instructions[1]
    assert (load.name, load.types, load.space) == ("ld.global.v2.f32", ("f32",), "global")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("42", 42), ("0x7fU", 127), ("0b101", 5), ("017", 15), ("-1", -1), ("4294967295U", 2**32 - 1),
        ("1.5", 1.5), ("0f40490FDB", 3.1415927), ("1.0e-3", 1e-3), ("2E+2", 200.0), ("-0f3F800000", -1.0),
        ("0dC000000000000000", -2.0),
    ],
)  # fmt: skip
def test_literals(text: str, value: float) -> None:
    (operand,) = kernel(f".reg .b64 %rd<2>; mov.b64 %rd1, {text};").instructions[0].operands[1:]
    assert isinstance(operand, Immediate)
    if operand.kind == "int":
        assert operand.value == value
        return
    code = {"f32": ("<f", 4), "f64": ("<d", 8)}[operand.kind]
    assert struct.unpack(code[0], operand.value.to_bytes(code[1], "little"))[0] == pytest.approx(value, rel=1e-7)


def test_registers_of_inner_scopes_are_others() -> None:
    found = kernel(
        """.reg .b32 %r<3>; .reg .b32 t;
        mov.u32 t, 1;
        { .reg .b64 t; .reg .b16 %r<9>; mov.u64 t, 2; mov.u16 %r1, 3; { .reg .f32 t; mov.f32 t, 0f00000000; } }
        { .reg .b64 t; mov.u64 t, 4; mov.u32 %r2, 5; }
        mov.u32 t, 6;"""
    )
    targets = [i.operands[0] for i in found.instructions]
    assert len({t.name for t in targets if isinstance(t, Register)}) == 6
    assert [t.type for t in targets if isinstance(t, Register)] == ["b32", "b64", "b16", "f32", "b64", "b32", "b32"]
    assert targets[0] == targets[6]


def test_ranges_of_registers() -> None:
    found = kernel(".reg .b32 r1<12>, r<3>; mov.b32 r12, r2; mov.b32 r111, r1;")
    assert [i.operands for i in found.instructions] == [
        (Register("r12", "b32"), Register("r2", "b32")), (Register("r111", "b32"), Register("r1", "b32")),
    ]  # fmt: skip
    assert "register %r3 is not declared" in message(".entry k() { .reg .b32 %r<3>; mov.b32 %r3, 1; }")


def test_directives_may_stand_without_space() -> None:
    found = kernel(".reg.b16 a; .shared.align 8 .b8 s[8]; mov.b16 a, 1;", ".param.u32 p")
    assert found.instructions[0].operands[0] == Register("a", "b16")
    assert (found.variables[0].align, found.parameters[0].nbytes) == (8, 4)


def test_labels_of_inner_scopes_are_others() -> None:
    """Inline assembly with a label may stand in a kernel several times."""
    found = kernel("bra END; { bra SKIP; SKIP: bra END; } { bra SKIP; SKIP: ret; } END: ret;")
    goals = [i.operands[0] for i in found.instructions if i.root == "bra"]
    assert [found.labels[g.name] for g in goals if isinstance(g, Label)] == [5, 2, 5, 4]


def test_locations() -> None:
    found = kernel(
        """ret;
        .loc 1 12 5
        ret;
        .loc 2 34 1, function_name $L__info_string0, inlined_at 1 12 5
        ret;
        .loc 2 34 1, function_name $L__info_string0+7, inlined_at 1 12 5
        ret;
        .loc 1 0 5
        ret;"""
    )
    where = [str(i.location) for i in found.instructions]
    assert where == ["None", "?:12", "?:34", "?:34", "?:34"]
    assert found.instructions[0].where is None


def test_pragmas_sections_and_limits_are_skipped() -> None:
    found = module(
        """.pragma "nounroll";
        .section .debug_str { .b8 1, 2 { 3 } }
        .alias one, other;
        .entry k() .minnctapersm 2 { .pragma "used_bytes_mask 15"; ret; }"""
    )
    assert [i.name for i in found.functions["k"].instructions] == ["ret"]


def test_branch_table() -> None:
    found = kernel("brx.idx %r1, table; A: ret; B: ret; table: .branchtargets A, B, A;".replace("%r1", "%tid.x"))
    assert found.tables == {"table": ("A", "B", "A")}
    assert len(found.instructions) == 3


def test_parameters() -> None:
    found = module(
        ".entry k(.param .u32 a, .param .align 16 .b8 b[24], .param .u64 .ptr .global .align 1 c, .param .v2 .f32 d) {}"
    ).functions["k"]
    sizes = [(p.name, p.nbytes, p.align) for p in found.parameters]
    # The alignment after .ptr is that of what the parameter points to.
    assert sizes == [("a", 4, 4), ("b", 24, 16), ("c", 8, 8), ("d", 8, 8)]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (".global .align 4 .u32 x = 7;", struct.pack("<I", 7)),
        (".const .s16 x[3] = {-1, 2, -32768};", struct.pack("<3h", -1, 2, -32768)),
        (".global .f32 x[2] = {0f3F800000, -2.5};", struct.pack("<2f", 1, -2.5)),
        (".global .f64 x = 0d4000000000000000;", struct.pack("<d", 2)),
        (".global .b8 x[2][2] = {{1, 2}, {3, 255}};", bytes([1, 2, 3, 255])),
        (".global .u64 x = 0xFFFFFFFFFFFFFFFF;", b"\xff" * 8),
        (".global .f32 x = 1e300;", struct.pack("<f", float("inf"))),
        (".global .b8 x[] = {1, 2, 3};", bytes([1, 2, 3])),
    ],
)
def test_initial_values(text: str, data: bytes) -> None:
    found = variable(text)
    assert found.initial == data
    assert found.nbytes == len(data)


def test_a_short_initial_value_leaves_the_rest_zero() -> None:
    found = variable(".global .u32 x[4] = {1};")
    assert (found.nbytes, found.initial) == (16, b"\1\0\0\0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f", Relocation(0, "f")),
        ("generic(f)", Relocation(0, "f")),
        ("generic(f)+16", Relocation(0, "f", 16)),
        ("f-8", Relocation(0, "f", -8)),
    ],
)
def test_relocations(text: str, expected: Relocation) -> None:
    assert variable(f".global .u64 x = {text};").relocations == (expected,)


def test_relocations_byte_by_byte() -> None:
    found = variable(".global .b8 x[4] = {5, 0xFF(f), 0xFF00(f), 0xFF0000(generic(f)+4)};")
    assert found.initial == bytes([5, 0, 0, 0])
    assert found.relocations == (
        Relocation(1, "f", 0, 1, 0), Relocation(2, "f", 0, 1, 8), Relocation(3, "f", 4, 1, 16)
    )  # fmt: skip


def test_extern_arrays_and_attributes() -> None:
    found = module(
        ".extern .shared .align 16 .b8 s[]; .visible .global .attribute(.managed) .align 8 .b64 m;"
    ).variables
    assert (found[0].is_extern, found[0].count, found[0].align) == (True, 0, 16)
    assert (found[1].name, found[1].nbytes) == ("m", 8)


def test_instructions_that_the_engine_refuses_are_read() -> None:
    """A module may hold them in another kernel: they must not stand in the way of this one."""
    found = kernel(
        """.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
        tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];
        cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
        mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2}, {%r1}, {%r2}, {%f3,%f4};
        mov.u32 %r1, %cluster_ctaid.x;
        suld.b.1d.b32.trap {%r1}, [surface, {%r2}];"""
    )
    place = found.instructions[0].operands[1]
    assert isinstance(place, Address)
    assert place.coordinates == (Register("%f5", "f32"), Register("%f6", "f32"))
    assert len(found.instructions) == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".entry k() {\n mov.u32 %r1, 5;\n}", "PTX line 5: register %r1 is not declared"),
        (".entry k() {\n .reg .b32 %r<2>;\n mov.u32 %r2, 5;\n}", "PTX line 6: register %r2 is not declared"),
        (".entry k() {\n ret\n}", "PTX line 6: "),
        (".entry k() {\n A: A: ret; }", "PTX line 5: label A stands twice"),
        (".entry k() {\n\n ^ }", "PTX line 6: unexpected '^'"),
        (".global .u33 x;", "PTX line 4: unknown attribute .u33"),
        (".global .align 3 .b8 x;", "PTX line 4: an alignment is 3"),
        (".global .b8 x[1000000][1000000][1000000];", "PTX line 4: a variable has 1000000"),
        (".global .b8 x[2] = {1, 2, 3};", "PTX line 4: the initial value of x is larger than the variable"),
        (".global .b8 x = {1, 2", "PTX line 4: the text ends too early"),
        (".entry k() {\n .reg .v2 .f32 x; }", "PTX line 5: registers of type .v2 are not supported"),
        (".entry k() {\n .reg .s4 x; }", "PTX line 5: registers of type .s4 are not supported"),
        (".entry k() { ret;", "the text ends too early"),
        (".address_size 32", "only 64-bit PTX is supported"),
        ("hello", "PTX line 4: unexpected 'hello'"),
        (".entry k(.reg .b32 x) {}", "expected a parameter"),
        (".entry k() { 5.5 x; }", "'5.5' is not an instruction"),
        (".entry k() { mov.u32 %tid.x, ]; }", "']' is not an operand"),
    ],
)
def test_errors_name_the_line(text: str, expected: str) -> None:
    assert expected in message(text)


def test_a_text_that_is_no_ptx() -> None:
    for text in ("", "\0\0", "   \n", "// only a comment"):
        with pytest.raises(PTXSyntaxError, match="this is not PTX"):
            parse_ptx(text)


def test_braces_without_end_are_refused() -> None:
    assert "nested too deeply" in message(".entry k() { mov.u32 %tid.x, " + "{" * 5000)
    assert "nested too deeply" in message(".entry k() {" + "{" * 5000)
    assert len(kernel("{" * 2000 + "ret;" + "}" * 2000).instructions) == 1


# Calls

CALLS = """
.func (.param .b32 out) leaf(.param .b32 a) {
    .reg .b32 %r<3>; .reg .pred %p<2>;
    ld.param.u32 %r1, [a]; setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE; add.u32 %r1, %r1, 1; DONE: st.param.u32 [out], %r1;
    ret;
}
.func (.param .b32 out) middle(.param .b32 a) {
    .reg .b32 %r<3>; .local .align 4 .b8 stack[8];
    ld.param.u32 %r1, [a]; st.local.u32 [stack+4], %r1;
    { .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call.uni (q), leaf, (p); ld.param.b32 %r2, [q]; }
    st.param.b32 [out], %r2; ret;
}
.entry k() {
    .reg .b32 %r<3>; .reg .pred %p<2>;
    { .param .b32 p; .param .b32 q; st.param.b32 [p], 5; call.uni (q), middle, (p); ld.param.b32 %r2, [q]; }
    { .param .b32 p; .param .b32 q; st.param.b32 [p], 6; @!%p1 call (q), middle, (p); ld.param.b32 %r2, [q]; }
    ret;
}
"""


def test_calls_are_inlined() -> None:
    found = inline_calls(module(CALLS), "k")
    assert "call" not in {i.root for i in found.instructions}
    assert [i.name for i in found.instructions].count("setp.eq.u32") == 2
    assert [i.root for i in found.instructions].count("ret") == 1
    assert sum(v.space == "local" for v in found.variables) == 2, "each call has a stack frame of its own"
    names = {v.name for v in found.variables}
    used = {
        o.base.name
        for i in found.instructions
        for o in i.operands
        if isinstance(o, Address)
        if isinstance(o.base, Symbol)
    }
    assert used <= names
    jump = next(i for i in found.instructions if i.guard is not None and i.root == "bra" and not i.guard_negated)
    assert isinstance(jump.operands[0], Label)
    assert jump.operands[0].name in found.labels


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".func f() { call f; ret; } .entry k() { call f; ret; }", "recursion of f"),
        (".func g(); .entry k() { call g; ret; }", "a call of g, which has no body"),
        (".entry k() { .reg .b64 %rd<2>; call %rd1, proto; ret; }", "a call through a pointer"),
        (".func f(.param .b32 a) { ret; } .entry k() { call f; ret; }", "does not fit its parameters"),
        (".entry k() { call; }", "a call through a pointer"),
    ],
)
def test_calls_that_cannot_be_inlined(text: str, expected: str) -> None:
    with pytest.raises(UnsupportedError, match=expected):
        inline_calls(module(text), "k")


def test_calls_that_expand_without_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "_INSTRUCTION_LIMIT", 5000)
    levels = "".join(f".func f{i}() {{ {f'call f{i - 1};' * 8 if i else 'membar.gl;'} ret; }}\n" for i in range(9))
    with pytest.raises(UnsupportedError, match="expand to over"):
        inline_calls(module(levels + ".entry k() { call f8; ret; }"), "k")
    chain = "".join(f".func f{i}() {{ {f'call f{i - 1};' if i else ''} ret; }}\n" for i in range(150))
    with pytest.raises(UnsupportedError, match="nested more than"):
        inline_calls(module(chain + ".entry k() { call f149; ret; }"), "k")


def test_an_unknown_kernel() -> None:
    with pytest.raises(PTXSyntaxError, match="no kernel nobody"):
        inline_calls(module(""), "nobody")
