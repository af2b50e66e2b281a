"""Random instructions that compute in registers: arithmetic, comparison, conversion, carry chains.

Each line of text is whole by itself, so that a program stays valid when lines are taken out. Results that are NaN as
doubles are replaced by one NaN, because the engines need not agree on payloads; results of approximate functions go
to memory and nowhere else, because the engines may differ in their last bit.
"""

from tests.helpers.random_code import CLASSES, REGISTERS, Code

_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_INT = "u16 s16 u32 s32 u64 s64"
_ROUND = "rn rz rm rp"
#: Opcodes | types | groups of modifiers, - is none | operands, of which the first is the result: t is the type, w a
#: wider one, n a number that is mostly small.
_FORMS = f"""
add sub | {_INT} | - | t t t
add sub | s32 | sat | t t t
add min max | u16x2 s16x2 | - | t t t
mul | {_INT} | lo hi | t t t
mul | u16 s16 u32 s32 | wide | w t t
mad | {_INT} | lo hi | t t t t
mad | u16 s16 u32 s32 | wide | w t t w
div rem min max | {_INT} | - | t t t
neg abs | s16 s32 s64 | - | t t
min max | s32 s16x2 | relu | t t t
sad | {_INT} | - | t t t t
mul24 | u32 s32 | lo | t t t
mad24 | u32 s32 | lo | t t t t
dp4a | u32.u32 u32.s32 s32.u32 s32.s32 | - | b32 b32 b32 b32
dp2a | u32.u32 u32.s32 s32.u32 s32.s32 | lo hi | b32 b32 b32 b32
and or xor | pred b16 b32 b64 | - | t t t
not | pred b16 b32 b64 | - | t t
cnot | b16 b32 b64 | - | t t
shl | b16 b32 b64 | - | t t n
shr | b16 b32 b64 {_INT} | - | t t n
shf | b32 | l r, clamp wrap | t t t n
popc clz | b32 b64 | - | u32 t
brev | b32 b64 | - | t t
bfind | u32 s32 u64 s64 | - shiftamt | u32 t
bfe | u32 s32 u64 s64 | - | t t n n
bfi | b32 b64 | - | t t t n n
bmsk | b32 | clamp wrap | t n n
prmt | b32 | - | t t t t
selp | b16 b32 b64 {_INT} f32 f64 | - | t t t pred
slct | b32.s32 u16.s32 s64.s32 | - | x x x s32
slct | f32.f32 b64.f32 | - ftz | x x x f32
add sub mul | f32 | - {_ROUND}, - ftz, - sat | t t t
add sub mul | f64 | - {_ROUND} | t t t
add sub mul | f32x2 | - {_ROUND}, - ftz | t t t
fma | f32x2 | {_ROUND}, - ftz | t t t t
add sub mul | f16 f16x2 | - rn, - ftz, - sat | t t t
add sub mul | bf16 bf16x2 | - rn | t t t
fma mad | f32 | {_ROUND}, - ftz, - sat | t t t t
fma mad | f64 | {_ROUND} | t t t t
fma | f16 f16x2 | rn, - ftz, - sat relu | t t t t
fma | bf16 bf16x2 | rn, - relu | t t t t
div | f32 | approx full {_ROUND}, - ftz | t t t
div | f64 | {_ROUND} | t t t
neg abs | f32 f16 f16x2 | - ftz | t t
neg abs | f64 bf16 bf16x2 | - | t t
min max | f32 f16 f16x2 | - ftz, - NaN | t t t
min max | bf16 bf16x2 | - NaN | t t t
min max | f32 | - ftz, - NaN | t t t t
min max copysign | f64 | - | t t t
copysign | f32 | - | t t t
sqrt rcp | f32 | approx {_ROUND}, - ftz | t t
sqrt rcp | f64 | {_ROUND} | t t
rcp rsqrt | f64 | approx, ftz | t t
rsqrt | f32 | approx, - ftz | t t
testp | f32 f64 | finite infinite number notanumber normal subnormal | pred t
cvt | e4m3x2.f32 e5m2x2.f32 e2m3x2.f32 e3m2x2.f32 e2m1x2.f32 | rn, satfinite, - relu | b16 f32 f32
cvt | e4m3x2.f16x2 e5m2x2.f16x2 | rn, satfinite, - relu | b16 f16x2
cvt | f16x2.e4m3x2 f16x2.e5m2x2 f16x2.e2m3x2 f16x2.e3m2x2 f16x2.e2m1x2 | rn, - relu | f16x2 b16
cvt | ue8m0x2.f32 | rz rp, - satfinite | b16 f32 f32
cvt | bf16x2.ue8m0x2 | rn | bf16x2 b16
cvt | tf32.f32 | rna rn rz, - satfinite | b32 f32
cvt | u16.s32 s16.s32 | pack, sat | b32 s32 s32
cvt | u2.s32.b32 s4.s32.b32 u8.s32.b32 | pack, sat | b32 s32 s32 b32
mov | pred b16 b32 b64 {_INT} f32 f64 | - | t t
"""
_APPROXIMATE = """
sin cos lg2 ex2 | f32 | approx, - ftz | t t
tanh | f32 f16 f16x2 bf16 bf16x2 | approx | t t
ex2 | f16 f16x2 | approx | t t
ex2 | bf16 bf16x2 | approx, ftz | t t
"""
#: Specials that do not depend on time.
SPECIALS = ("tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y", "ctaid.x", "ctaid.y", "nctaid.x", "laneid", "warpid",
            "nwarpid", "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge")  # fmt: skip
Form = tuple[str, str, list[list[str]], list[str]]


def _parse(table: str) -> list[Form]:
    forms = []
    for line in table.strip().splitlines():
        roots, types, groups, operands = (part.strip() for part in line.split("|"))
        modifiers = [group.split() for group in groups.split(",")]
        forms += [(root, kind, modifiers, operands.split()) for root in roots.split() for kind in types.split()]
    return forms


_BY_ROOT = {root: [form for form in _parse(_FORMS) if form[0] == root] for root, *_ in _parse(_FORMS)}
_ROOTS = list(_BY_ROOT)
_FORMS_OF_FUNCTIONS = _parse(_APPROXIMATE)


def one_nan(register: str) -> str:
    """Return the text that replaces every NaN of a double by one."""
    return f" setp.nan.f64 %q0, {register}, {register}; selp.f64 {register}, 0d7FF8000000000000, {register}, %q0;"


def _opcode(code: Code, root: str, kind: str, groups: list[list[str]]) -> str:
    chosen = [code.choose.choice(group) for group in groups]
    return ".".join([root, *(m for m in chosen if m != "-"), kind])


def arithmetic(code: Code) -> None:
    """Write one instruction of the table."""
    root, kind, groups, pattern = code.choose.choice(_BY_ROOT[code.choose.choice(_ROOTS)])
    types = {"t": kind, "w": _WIDER.get(kind, kind), "x": kind.split(".", maxsplit=1)[0]}
    kinds = [types.get(letter, letter) for letter in pattern]
    target = code.register(kinds[0])
    sources = [code.source(k) for k in kinds[1:]]
    small = f"and.b32 %t0, {code.register('b32')}, 127; " if "%t0" in sources else ""
    text = f"{small}{code.guard()}{_opcode(code, root, kind, groups)} {', '.join([target, *sources])};"
    code.add(text + (one_nan(target) if kinds[0] == "f64" else ""))


def logic_table(code: Code) -> None:
    """Write lop3, whose last operand is a literal, or fns, whose base is the number of a bit."""
    first, *others = (code.source("b32") for _ in range(3))
    if code.chance(0.7):
        text = f"lop3.b32 {code.register('b32')}, {first}, {', '.join(others)}, {code.choose.randrange(256)};"
    else:
        text = f"fns.b32 {code.register('b32')}, {code.register('b32')}, %t0, {code.choose.randrange(-9, 10)};"
    code.add(f"and.b32 %t0, {first}, 31; {code.guard()}{text}")


def video(code: Code) -> None:
    """Write an instruction on the halves or the bytes of words."""
    root = code.choose.choice(["vadd", "vsub", "vavrg", "vmin", "vmax", "vabsdiff", "vset"])
    target, first, second = (code.choose.choice(("u32", "s32")) for _ in range(3))
    end = code.choose.choice(["", "", ".add", ".sat"])
    kinds = f"{target}.{first}.{second}{end}"
    if root == "vset":
        kinds = f"{first}.{second}.{code.choose.choice(_UNSIGNED[:6])}{end.removesuffix('.sat')}"
    operands = ", ".join(code.register("b32") for _ in range(4))
    code.add(f"{code.guard()}{root}{code.choose.choice('24')}.{kinds} {operands};")


def special(code: Code) -> None:
    """Write the read of a special register, or an instruction that has no effect here."""
    read = f"mov.u32 {code.register('b32')}, %{code.choose.choice(SPECIALS)};"
    others = ["nanosleep.u32 20;", "prefetch.global.L2 [words];", "pmevent 1;", "membar.cta;", "fence.sc.gpu;",
              "griddepcontrol.wait;"]  # fmt: skip
    code.add(code.guard() + (read if code.chance(0.8) else code.choose.choice(others)))


def approximate(code: Code) -> None:
    """Write an approximate function and the store of its result; %a0 is the start of the thread's results."""
    root, kind, groups, _ = code.choose.choice(_FORMS_OF_FUNCTIONS)
    name = {"f32": "fa", "f16": "ha", "f16x2": "ha", "bf16": "ba", "bf16x2": "ba"}[kind]
    target = {"f": "%t0", "h": "%u0", "r": "%t0"}[CLASSES[kind]]
    size = "b16" if target == "%u0" else "b32"
    value = code.register(kind)
    opcode = _opcode(code, root, kind, groups)
    code.add(
        f"{code.guard()}{opcode} {target}, {value}; ld.param.u64 %a0, [{name}]; mad.wide.u32 %a0, %c1, 32, %a0; "
        f"st.global.{size} [%a0+{4 * code.choose.randrange(8)}], {target}; mov.{size} {target}, 0;"
    )


_UNSIGNED = ["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"]
_FLOAT = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]


def _condition(code: Code, kind: str) -> str:
    """Return a comparison that a type has, with .ftz if it may."""
    table = _FLOAT if "f" in kind else _UNSIGNED[:2] if kind[0] == "b" else _UNSIGNED[: 10 if kind[0] == "u" else 6]
    return code.choose.choice(table)


def _may_flush(code: Code, kind: str) -> str:
    return ".ftz" if kind in {"f32", "f16", "f16x2"} and code.chance(0.3) else ""


def compare(code: Code) -> None:
    """Write setp."""
    kinds = f"{_INT} u32 s32 b16 b32 b64 f32 f32 f64 f16 f16x2 bf16 bf16x2"
    kind = code.choose.choice(kinds.split())
    first, second = code.choose.sample(range(REGISTERS["p"][0]), 2)
    two = kind.endswith("x2") or (kind[-3:] != "f16" and code.chance(0.3))
    both = (
        code.choose.choice([f"%p{first}|%p{second}"] * 4 + [f"%p{first}|_", f"_|%p{second}"]) if two else f"%p{first}"
    )
    combine = code.choose.choice(["", "", "", ".and", ".or", ".xor"])
    third = f", {code.choose.choice(('', '!'))}{code.register('pred')}" if combine else ""
    sources = f"{code.register(kind)}, {code.source(kind)}"
    opcode = f"setp.{_condition(code, kind)}{combine}{_may_flush(code, kind)}.{kind}"
    code.add(f"{code.guard()}{opcode} {both}, {sources}{third};")


def set_value(code: Code) -> None:
    """Write set."""
    kinds = "u16 s16 u32 s32 u64 s64 b16 b32 b64 f32 f64"
    pairs = [(target, kind) for target in ("u32", "s32", "f32") for kind in kinds.split()]
    pairs += [(target, kind) for kind in ("f16", "bf16") for target in ("u32", "s32", "u16", "s16", kind)]
    pairs += [(target, kind) for kind in ("f16x2", "bf16x2") for target in ("u32", "s32", kind)]
    target, kind = code.choose.choice(pairs)
    combine = code.choose.choice(["", "", ".and", ".or", ".xor"])
    third = f", {code.choose.choice(('', '!'))}{code.register('pred')}" if combine else ""
    opcode = f"set.{_condition(code, kind)}{combine}{_may_flush(code, kind)}.{target}.{kind}"
    code.add(f"{code.guard()}{opcode} {code.register(target)}, {code.register(kind)}, {code.source(kind)}{third};")


def pack(code: Code) -> None:
    """Write mov from or to several registers."""
    whole, part, count = code.choose.choice(
        [("b32", "b16", 2), ("b64", "b32", 2), ("b64", "b16", 4), ("b128", "b64", 2)]
    )
    if code.chance(0.5):
        parts = ", ".join(code.register(part) for _ in range(count))
        code.add(f"{code.guard()}mov.{whole} {code.register(whole)}, {{{parts}}};")
    else:
        letter = CLASSES[part]
        parts = ", ".join(f"%{letter}{n}" for n in code.choose.sample(range(REGISTERS[letter][0]), count))
        code.add(f"{code.guard()}mov.{whole} {{{parts}}}, {code.register(whole)};")


def answer(code: Code) -> None:
    """Write what reads the answer to a request for a cluster; any 128 bits are one."""
    whole, query = code.register("b128"), f"{code.guard()}clusterlaunchcontrol.query_cancel"
    if code.chance(0.3):
        code.add(f"{query}.is_canceled.pred.b128 {code.register('pred')}, {whole};")
    elif code.chance(0.5):
        code.add(f"{query}.get_first_ctaid::{code.choose.choice('xyz')}.b32.b128 {code.register('b32')}, {whole};")
    else:
        first, second, third = (f"%r{n}" for n in code.choose.sample(range(REGISTERS["r"][0]), 3))
        parts = code.choose.choice([f"{first}, {second}, {third}, _", f"{first}, _, {third}, _"])
        code.add(f"{query}.get_first_ctaid.v4.b32.b128 {{{parts}}}, {whole};")


def carry_chain(code: Code) -> None:
    """Write a sum, a difference or a product of many words."""
    kind = code.choose.choice(["u32", "s32", "u64", "s64"])
    root = code.choose.choice(["add", "sub", "mad"])
    texts = []
    count = code.choose.randrange(2, 5)
    for n in range(count):
        name = root + ("c" if n else "")
        opcode = f"{name}.{code.choose.choice(('lo', 'hi'))}" if root == "mad" else name
        sources = ", ".join(code.source(kind) for _ in range(3 if root == "mad" else 2))
        flag = "" if n == count - 1 else ".cc"
        texts.append(f"{code.guard(0.1)}{opcode}{flag}.{kind} {code.register(kind)}, {sources};")
    code.add(" ".join(texts))


_WHOLE = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
_REAL = ["f16", "bf16", "f32", "f64"]
_BITS = {"u8": 16, "s8": 16, "f16": 16, "bf16": 16}


def _holder(code: Code, kind: str, *, widens: bool) -> str:
    """Return a register for an integer type: of its width, or wider."""
    width = _BITS.get(kind) or int(kind[1:])
    widths = [bits for bits in (16, 32, 64) if bits >= width]
    return code.register(f"b{code.choose.choice(widths if widens else widths[:1])}")


def convert(code: Code) -> None:
    """Write cvt."""
    target, source = (code.choose.choice(_WHOLE + _REAL) for _ in range(2))
    if {"u8", "s8", "bf16"} >= {target, source}:
        source = "s32"
    if code.chance(0.1):
        rounding, relu = code.choose.choice(["rn", "rz"]), code.choose.choice(["", ".relu"])
        packed = code.choose.choice(["f16x2", "bf16x2"])
        values = f"{code.register('f32')}, {code.register('f32')}"
        code.add(f"{code.guard()}cvt.{rounding}{relu}.{packed}.f32 {code.register(packed)}, {values};")
        return
    modifiers = _conversion(code, target, source)
    widens = "bf16" not in {target, source}
    to = _holder(code, target, widens=widens) if target in _WHOLE else code.register(target)
    value = _holder(code, source, widens=widens) if source in _WHOLE else code.register(source)
    text = f"{code.guard()}cvt{modifiers}.{target}.{source} {to}, {value};"
    code.add(text + (one_nan(to) if target == "f64" else ""))


def _holds(target: str, source: str) -> bool:
    """Return whether an integer type holds every value of another."""
    extra = int(target[1:]) - int(source[1:])
    return extra >= 0 if target[0] == source[0] else target[0] == "s" and extra > 0


def _conversion(code: Code, target: str, source: str) -> str:
    """Return the modifiers of a conversion between two types."""
    sat = ".sat" if code.chance(0.25) and "bf16" not in {target, source} else ""
    flush = ".ftz" if "f32" in {target, source} and "bf16" not in {target, source} and code.chance(0.25) else ""
    rounding, to_whole = (f".{code.choose.choice(modes.split())}" for modes in (_ROUND, "rni rzi rmi rpi"))
    if source in _WHOLE:
        return rounding + sat if target in _REAL else "" if _holds(target, source) else sat
    if target in _WHOLE or target == source:
        return to_whole + flush + sat
    if target == "bf16":
        relu = ".relu" if source == "f32" and rounding in {".rn", ".rz"} and code.chance(0.3) else ""
        return rounding + relu
    widens = _REAL.index(target) > _REAL.index(source)
    return flush + sat if widens else rounding + flush + sat


#: What a straight line of code is made of, with weights.
STRAIGHT = {arithmetic: 16, compare: 5, convert: 6, carry_chain: 2, approximate: 2, pack: 2, set_value: 1, special: 1,
            logic_table: 1, video: 1, answer: 1}  # fmt: skip
