"""Random barriers of a block, and hazards: what may go wrong in a program."""

from tests.helpers.random_code import IN_BLOCK, PLACE, Code
from tests.helpers.random_memory import AREAS

HAZARDS = ("bounds", "bounds", "misaligned", "trap", "brkpt", "table", "endless", "barrier number")


def barrier(code: Code, threads: int) -> None:
    """Write a barrier, which all threads of a block reach together unless the program is loose."""
    number, all_threads = code.choose.randrange(16), 32 * -(-threads // 32)
    predicate, word = code.register("pred"), code.register("b32")
    vote = f"{code.choose.choice(('', '!'))}{code.register('pred')}"
    texts = [
        "bar.sync 0;", f"bar.sync {number};", f"bar.sync {number}, {all_threads};", f"barrier.cta.sync {number};",
        f"bar.cta.red.popc.u32 {word}, {number}, {vote};", f"bar.red.and.pred {predicate}, {number}, {vote};",
        f"bar.red.or.pred {predicate}, {number}, {all_threads}, {vote};",
        f"and.b32 %t0, %c1, 0; add.u32 %t0, %t0, {number}; bar.sync %t0;", "membar.gl; fence.acq_rel.cta;",
    ]  # fmt: skip
    if code.loose and code.chance(0.6):
        mask = code.choose.choice(["-1", "-1", "0x55555555", "0xFFFF", "0xFFFF0000", code.register("b32")])
        code.add(f"{code.guard(0.2)}bar.warp.sync {mask};")
    elif code.loose:
        code.add(f"{code.guard(0.2)}{code.choose.choice(texts[:6])}")
    elif code.chance(0.5):
        code.add(code.choose.choice(texts))
    elif code.chance(0.5) and threads > 32:
        code.add(_two_ways(code, number, all_threads))
    else:
        code.add(_exchange(code, threads))


def _two_ways(code: Code, number: int, all_threads: int) -> str:
    """Return text by which the first warp and the others reach a barrier at two instructions."""
    one, two = code.label(), code.label()
    first, others = f"bar.sync {number}, {all_threads};", f"bar.arrive {number}, {all_threads};"
    if code.chance(0.5):
        spare = code.choose.choice([code.register("b32"), "%t0"])
        first = f"bar.red.popc.u32 {code.register('b32')}, {number}, {code.register('pred')};"
        others = f"mov.b32 {spare}, 7; bar.red.popc.u32 {spare}, {number}, {code.register('pred')};"
    return (
        f"setp.gt.u32 %q0, {IN_BLOCK}, 31; @%q0 bra {one}; {first} bra {two}; {one}: {others} {two}: bar.sync {number};"
    )


def _exchange(code: Code, threads: int) -> str:
    """Return text by which each thread reads what another one has written to shared memory."""
    kind = code.choose.choice(["b32", "b64", "b16"])
    own = f"mov.u32 %t6, exchange; mad.lo.u32 %t7, {IN_BLOCK}, 8, %t6;"
    other = f"add.u32 %t7, {IN_BLOCK}, {code.choose.randrange(threads)}; rem.u32 %t7, %t7, {threads};"
    return (
        f"bar.sync 0; {own} st.shared.{kind} [%t7], {code.register(kind)}; bar.sync 0; {other} "
        f"mad.lo.u32 %t7, %t7, 8, %t6; ld.shared.{kind} {code.register(kind)}, [%t7]; bar.sync 0;"
    )


def hazard(code: Code, name: str) -> str:
    """Return a line that may go wrong in some threads."""
    label = code.label()
    guard = code.predicate() if code.chance(0.5) else ""
    return {
        "bounds": _bad_access, "misaligned": _bad_access,
        "trap": lambda *_: f"{guard} trap;", "brkpt": lambda *_: f"{guard} brkpt;",
        "table": lambda *_: f"and.b32 %t0, {code.register('b32')}, 3; {label}: .branchtargets {label}b, {label}c; "
        f"brx.idx %t0, {label}; {label}b: {label}c:",
        "endless": lambda *_: f"{label}: {guard} bra {label};",
        "barrier number": lambda *_: f"add.u32 %t0, %c0, {code.choose.choice((16, 900))}; {guard} bar.sync %t0;",
    }[name](code, name)  # fmt: skip


def _bad_access(code: Code, name: str) -> str:
    kind = code.choose.choice(["b32", "b64"])
    size = int(kind[1:]) // 8
    own = f"ld.param.u64 %a0, [own]; mad.wide.u32 %a0, {PLACE}, 64, %a0;"
    space, base, outside, accesses = code.choose.choice([
        ("global", "ld.param.u64 %a0, [in];", code.choose.choice((-8, 1152, 1280)), ["ld"]),
        ("global", own, 1 << 36, ["ld", "st", "red"]),
        ("shared", AREAS["cells"].base, 65536, ["ld", "st", "red"]),
        ("shared", "mov.u32 %t6, %total_smem_size; cvt.u64.u32 %a0, %t6; sub.s64 %a0, %a0, 16;", 16, ["ld"]),
        ("local", "mov.u64 %a0, depot;", 65536, ["ld", "st"]),
    ])  # fmt: skip
    wrong = outside if name == "bounds" else size // 2
    access = {
        "ld": f"ld.{space}.{kind} {code.register(kind)}, [%a0];",
        "st": f"st.{space}.{kind} [%a0], {code.register(kind)};",
        "red": f"red.{space}.and.{kind} [%a0], {code.register(kind)};",
    }[code.choose.choice(accesses)]
    before = f"{base} selp.b64 %a1, {wrong}, 0, {code.register('pred')}; add.s64 %a0, %a0, %a1;"
    return f"{before} {code.guard(0.5)}{access}"
