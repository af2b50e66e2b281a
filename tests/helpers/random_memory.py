"""Random accesses of memory in every state space, atomics, and instructions that read other lanes.

Threads write only to places of their own, so that the outcome does not depend on which thread comes first; lanes of
one warp may share a place in shared memory, where their order is defined. A line of text is whole by itself.
"""

from dataclasses import dataclass

from tests.helpers.random_code import CLASSES, IN_BLOCK, PLACE, REGISTERS, Code

_SHARED = "mov.u32 %t6, {name}; mad.lo.u32 %t6, {index}, {stride}, %t6; cvt.u64.u32 %a0, %t6;"


@dataclass(frozen=True)
class Area:
    """Memory that a thread may touch."""

    space: str
    base: str
    """text that leaves its address in %a0"""
    size: int
    written: bool
    atomic: bool = False


AREAS = {
    "in": Area("global", "ld.param.u64 %a0, [in]; add.s64 %a0, %a0, 64;", 1024, written=False),
    "own": Area("global", f"ld.param.u64 %a0, [own]; mad.wide.u32 %a0, {PLACE}, 64, %a0;", 64, True, True),
    "cells": Area("shared", _SHARED.format(name="cells", index=IN_BLOCK, stride=32), 32, True, True),
    "dynamic": Area("shared", _SHARED.format(name="dynamic", index=IN_BLOCK, stride=16), 16, True, True),
    "warps": Area(
        "shared",
        f"shr.u32 %t7, {IN_BLOCK}, 5; " + _SHARED.format(name="warps", index="%t7", stride=64),
        64,
        written=True,
    ),
    "depot": Area("local", "mov.u64 %a0, depot;", 128, written=True),
    "table": Area("const", "mov.u64 %a0, table;", 128, written=False),
    "words": Area("global", "mov.u64 %a0, words;", 128, written=False),
    "struct": Area("param", "mov.b64 %a0, struct;", 16, written=False),
}
_TYPES = ["b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64", "f32", "f32", "f64", "b128"]
_CACHES = {
    ("ld", "global"): ["", "", ".ca", ".cg", ".cs", ".volatile", ".relaxed.gpu"],
    ("st", "global"): ["", "", ".wb", ".cg", ".cs", ".wt", ".volatile", ".release.cta"],
    ("ld", "shared"): ["", ".volatile"],
    ("st", "shared"): ["", ".volatile"],
}
_ATOMICS = {"add": "u32 s32 u64", "min": "u32 s32 u64 s64", "max": "u32 s32 u64 s64", "inc": "u32", "dec": "u32",
            "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64", "exch": "b32 b64 b128", "cas": "b16 b32 b64 b128",
            "add.noftz": "f16 f16x2 bf16 bf16x2"}  # fmt: skip
_COMMUTATIVE = [(name, kind) for name in ("add", "min", "max", "and", "or", "xor") for kind in _ATOMICS[name].split()]


def _bytes(kind: str) -> int:
    return 4 if kind.endswith("x2") else int(kind.lstrip("bfsu")) // 8


def _offset(code: Code, area: int, size: int) -> tuple[str, int]:
    """Return text that adds a random offset inside an area to %a0, and a constant part."""
    whole = area - 1 & ~(size - 1)
    constant = code.choose.randrange(0, area, size)
    if code.chance(0.25):
        return "", constant
    if code.chance(0.3):
        return f" and.b32 %t8, {code.register('b32')}, {whole}; cvt.u64.u32 %a1, %t8; add.s64 %a0, %a0, %a1;", 0
    # A negative constant is made up for in the register.
    text = f" and.b32 %t8, {code.register('b32')}, {whole}; cvt.u64.u32 %a1, %t8; add.s64 %a1, %a1, {constant};"
    return text + " add.s64 %a0, %a0, %a1;", -constant


def _generic(name: str) -> str:
    area = AREAS[name]
    return f"{area.base} cvta.{area.space}.u64 %a0, %a0;"


def _address(code: Code, names: list[str], size: int) -> tuple[str, str, str]:
    """Return the text before an access, its memory operand and its state space; lanes may differ in the latter."""
    first = AREAS[code.choose.choice(names)]
    text, space, room = first.base, first.space, first.size
    if "own" in names and code.chance(0.2):  # neighbouring lanes have neighbouring places
        text = f"ld.param.u64 %a0, [mid]; mad.wide.u32 %a0, {PLACE}, {size}, %a0; mul.wide.u32 %a1, %c0, {size};"
        return text + " add.s64 %a0, %a0, %a1;", "[%a0]", ".global"
    if code.chance(0.25):
        one, other = code.choose.choice(names), code.choose.choice(names)
        text = f"{_generic(one)} mov.b64 %a2, %a0; {_generic(other)}"
        text += f" selp.b64 %a0, %a2, %a0, {code.register('pred')};"
        space, room = "", min(AREAS[one].size, AREAS[other].size)
    offset, constant = _offset(code, room, size)
    return text + offset, f"[%a0+{constant}]" if constant else "[%a0]", f".{space}" if space else ""


def _holder(code: Code, kind: str) -> str:
    if kind[0] == "f" or kind == "b128":
        return code.register(kind)
    width = max(16, int(kind[1:]))
    return code.register(code.choose.choice([f"b{bits}" for bits in (16, 32, 64) if bits >= width]))


def _transfer(code: Code, root: str, names: list[str]) -> None:
    kind = code.choose.choice(_TYPES)
    count = code.choose.choice([n for n in (1, 1, 1, 2, 4) if n * _bytes(kind) <= 16])
    if _bytes(kind) == 4 and code.chance(0.1) and "own" in names:
        count, names = 8, ["own", "in", "words"] if root == "ld" else ["own"]
    before, operand, space = _address(code, names, count * _bytes(kind))
    cache = code.choose.choice(_CACHES.get((root, space[1:]), [""]))
    opcode = f"{root}{cache}{space}{f'.v{count}' if count > 1 else ''}.{kind}"
    letter = "%r" if count == 8 and kind != "f32" else _holder(code, kind)[:2]  # one class for all elements
    held = [f"{letter}{n}" for n in code.choose.sample(range(REGISTERS[letter[1]][0]), count)]
    if root == "ld" and count > 1 and code.chance(0.2):
        held[code.choose.randrange(count)] = "_"
    data = f"{{{', '.join(held)}}}" if count > 1 else held[0]
    operands = f"{data}, {operand}" if root == "ld" else f"{operand}, {data}"
    code.add(f"{before} {code.guard()}{opcode} {operands};")


def load(code: Code) -> None:
    """Write a load from any memory."""
    _transfer(code, "ld", list(AREAS))


def store(code: Code) -> None:
    """Write a store to memory of the thread's own."""
    _transfer(code, "st", [name for name, area in AREAS.items() if area.written])


def local(code: Code) -> None:
    """Write a load or a store that a device function may make."""
    if code.chance(0.5):
        _transfer(code, "ld", ["depot", "table", "words"])
    else:
        _transfer(code, "st", ["depot"])


def atomic(code: Code) -> None:
    """Write an atomic on memory of the thread's own, whose result counts, or a reduction."""
    name = code.choose.choice(list(_ATOMICS))
    kind = code.choose.choice(_ATOMICS[name].split())
    size = _bytes(kind)
    before, operand, space = _address(code, [n for n, area in AREAS.items() if area.atomic], size)
    values = ", ".join(code.source(kind) for _ in range(2 if name == "cas" else 1))
    if code.chance(0.3) and name not in {"exch", "cas"}:
        code.add(f"{before} {code.guard()}red{space}.{name}.{kind} {operand}, {values};")
        return
    spare = {2: "%u1", 4: "%t7", 8: "%a3", 16: "%w1"}[size]
    target = code.register(kind) if code.chance(0.8) else spare
    code.add(f"{before} {code.guard()}atom{space}.{name}.{kind} {target}, {operand}, {values};")


def copy(code: Code) -> None:
    """Write a copy to shared memory of the thread's own, of which it may read a part or nothing."""
    size = code.choose.choice([4, 8, 16])
    cache = "cg" if size == 16 and code.chance(0.5) else "ca"
    given = code.choose.choice(["", "", f", {size}", ", 0", f", {size // 2}", ", %t5", f", {code.register('pred')}"])
    target = AREAS[code.choose.choice(["cells", "dynamic"])]
    source = AREAS[code.choose.choice(["in", "own", "words"])]
    text, constant = _offset(code, source.size, size)
    place = code.choose.randrange(0, target.size, size)
    code.add(
        f"and.b32 %t5, {code.register('b32')}, 31; {target.base} mov.b64 %a3, %a0; {source.base}{text} {code.guard()}"
        f"cp.async.{cache}.shared.global [%a3+{place}], [%a0+{constant}], {size}{given};"
    )


def add_floats(code: Code) -> None:
    """Write an atomic sum of floats that are no NaN, or one of several halves at once."""
    if code.chance(0.5):
        _add_vector(code)
        return
    kind, one = code.choose.choice([("f32", "0f3DCCCCCD"), ("f64", "0d3FB999999999999A")])
    value = code.register(kind)
    before, operand, space = _address(code, ["own", "cells", "dynamic"], _bytes(kind))
    code.add(
        f"{before} mov.{kind} {value}, {one}; st{space}.{kind} {operand}, {value}; cvt.rn.{kind}.s16 {value}, "
        f"{code.register('b16')}; {code.guard()}atom{space}.add.{kind} {value}, {operand}, {value};"
    )


def _add_vector(code: Code) -> None:
    kind = code.choose.choice(["f16", "bf16", "f16x2", "bf16x2"])
    count, letter = code.choose.choice([2, 4]), CLASSES[kind]
    base = f"ld.param.u64 %a0, [own]; mad.wide.u32 %a0, {PLACE}, 64, %a0;"
    target, value = (
        ", ".join(f"%{letter}{n}" for n in code.choose.sample(range(REGISTERS[letter][0]), count)) for _ in range(2)
    )
    result = code.choose.choice(["", f"{{{target}}}, "])
    root = "atom" if result else "red"
    code.add(f"{base} {code.guard()}{root}.global.add.noftz.v{count}.{kind} {result}[%a0+16], {{{value}}};")


def add_together(code: Code) -> None:
    """Write a reduction on a place that all threads share, one for each operation."""
    number = code.choose.randrange(len(_COMMUTATIVE))
    name, kind = _COMMUTATIVE[number]
    root, space = code.choose.choice(["red", "atom"]), code.choose.choice(["global", "shared"])
    dropped = "" if root == "red" else "%a4, " if _bytes(kind) == 8 else "%t5, "
    text = f"{root}.{space}.{name}.{kind} {dropped}[%a0+{8 * number}], {code.source(kind)};"
    base = "ld.param.u64 %a0, [common];" if space == "global" else "mov.u64 %a0, sums;"
    code.add(f"{base} {code.guard()}{text}")


def _members(code: Code, guard: str) -> tuple[str, str]:
    """Return text and operand of a member mask."""
    text = f"mov.b32 %t0, 0; {guard}activemask.b32 %t0;"
    choice = code.choose.random()
    if choice < 0.6:
        return text, "%t0"
    if choice < 0.95:
        return text, "-1"
    return text + f" or.b32 %t8, %t0, {code.register('b32')};", "%t8"


def shuffle(code: Code) -> None:
    """Write a shuffle; what comes from a lane that does not run is undefined, and is replaced."""
    mode = code.choose.choice(["up", "down", "bfly", "idx"])
    guard = code.guard()
    before, members = _members(code, guard)
    value, target = code.register("b32"), code.register("b32")
    lane = code.register("b32") if code.chance(0.3) else code.choose.randrange(32)
    width = code.choose.choice([0, 31, 0x1F00, 0x181F, 0x1C1F, 0x1000, code.register("b32")])
    opcode = f"shfl.sync.{mode}.b32"
    first = f"{guard}{opcode} %t1|%q1, {value}, {lane}, {width}, {members};"
    if code.chance(0.3):
        first += f" {guard}{opcode} %t1, {value}, {lane}, {width}, {members};"
    source = {
        "up": "sub.u32 %t3, %t2, %t4;",
        "down": "add.u32 %t3, %t2, %t4;",
        "bfly": "xor.b32 %t3, %t2, %t4;",
        "idx": f"mov.b32 %t5, {width}; shr.u32 %t5, %t5, 8; and.b32 %t5, %t5, 31; and.b32 %t3, %t2, %t5; "
        "not.b32 %t5, %t5; and.b32 %t4, %t4, %t5; or.b32 %t3, %t3, %t4;",
    }[mode]
    code.add(
        f"{before} mov.b32 %t1, 0; setp.ne.u32 %q1, 0, 0; {first} mov.u32 %t2, %laneid; mov.b32 %t4, {lane}; "
        f"and.b32 %t4, %t4, 31; {source} selp.b32 %t3, %t3, %t2, %q1; and.b32 %t3, %t3, 31; shr.u32 %t4, %t0, %t3; "
        f"and.b32 %t4, %t4, 1; setp.ne.u32 %q2, %t4, 0; selp.b32 {target}, %t1, -7, %q2; "
        f"mov.pred {code.register('pred')}, %q1;"
    )


def cross_lane(code: Code) -> None:
    """Write a vote, a match or a reduction."""
    guard = code.guard()
    before, members = _members(code, guard)
    word, predicate = code.register("b32"), code.register("pred")
    small = f"and.b32 %t1, {code.register('b32')}, 3;"
    code.add(f"{before} {small} {guard}{code.choose.choice(_texts(code, word, predicate))}, {members};")


def _texts(code: Code, word: str, predicate: str) -> list[str]:
    """Return instructions without guard and member mask, which comes last."""
    choose, kind = code.choose.choice, code.choose.choice(["b32", "b64"])
    vote = f"{choose(('', '!'))}{code.register('pred')}"
    value, any_value = code.register("b32"), code.register(kind)
    return [
        f"vote.sync.{choose(('all', 'any', 'uni'))}.pred {predicate}, {vote}",
        f"vote.sync.ballot.b32 {word}, {vote}",
        f"match.any.sync.{kind} {word}, {any_value}",
        f"match.any.sync.b32 {word}, %t1",
        f"match.all.sync.b32 {word}|{predicate}, %t1",
        f"match.all.sync.{kind} {word}, {any_value}",
        f"redux.sync.{choose(('add', 'min', 'max'))}.{choose(('u32', 's32'))} {word}, {value}",
        f"redux.sync.{choose(('and', 'or', 'xor'))}.b32 {word}, {value}",
        f"redux.sync.{choose(('min', 'max'))}{choose(('', '.abs'))}{choose(('', '.NaN'))}.f32 {word}, {value}",
        f"elect.sync {word}|{predicate}",
    ]


def ask(code: Code) -> None:
    """Write activemask or isspacep."""
    space = code.choose.choice(["global", "shared", "local", "const"])
    texts = [f"activemask.b32 {code.register('b32')};", f"isspacep.{space} {code.register('pred')}, %a0;"]
    code.add(code.guard() + code.choose.choice(texts))


def write_text(code: Code) -> None:
    """Write a call of printf, whose arguments lie in local memory."""
    code.add(
        f"{{ .param .b64 A; .param .b64 B; .param .b32 Q; mov.u64 %a0, format; cvta.global.u64 %a0, %a0; mov.u64 %a1, "
        f"depot; st.local.b32 [%a1], {code.register('b32')}; st.local.b32 [%a1+4], {code.register('b32')}; "
        f"cvta.local.u64 %a1, %a1; st.param.b64 [A], %a0; st.param.b64 [B], %a1; {code.guard(0.5)}call (Q), vprintf, "
        f"(A, B); ld.param.b32 {code.register('b32')}, [Q]; }}"
    )


#: What kernels do besides computing, with weights; device functions only use ``local``.
MEMORY = {
    load: 8, store: 6, copy: 2, atomic: 4, add_floats: 1, add_together: 1, shuffle: 3, cross_lane: 4, ask: 1,
    write_text: 0.3,
}  # fmt: skip
