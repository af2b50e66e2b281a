"""Refuses by name, before the kernel starts, what the engine does not cover.

A modifier that is not listed for its opcode is refused too, so that none is silently ignored.
"""

from dataclasses import dataclass

from kerncast.errors import UnsupportedError
from kerncast.execute.setup.specials import SPECIALS
from kerncast.ptx import (
    TYPE_BITS,
    Address,
    Function,
    Instruction,
    Label,
    Negated,
    Opaque,
    Operand,
    Register,
    Sink,
    Special,
    Vector,
)

# Which forms of which instructions the engine covers: a table, one row per form.
#
# Columns: opcodes | types | other modifiers, all optional | number of operands | place of the memory operand.
# An instruction with two types has ``>`` between the types allowed first and those allowed second.


_INT = "u16 s16 u32 s32 u64 s64"
_ROUND = "rn rz rm rp"
_HALF = "f16 bf16 f16x2 bf16x2"
_WORD = "b32 u32 s32 f32"
_VIDEO = "vadd{0} vsub{0} vavrg{0} vmin{0} vmax{0} vabsdiff{0}"
_SPACE = "global shared local param const shared::cta param::entry param::func"
_CACHE = (
    "ca cg cs cv lu wb wt nc volatile relaxed acquire release weak cta gpu sys cluster acq_rel mmio unified"
    " L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"
    " L2::evict_last L2::evict_normal L2::evict_first L2::64B L2::128B L2::256B"
)
_COMPARE = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan"
_ANY = f"b8 u8 s8 b16 b32 b64 f32 f64 f16 bf16 f16x2 bf16x2 {_INT}"
_NUMBER = f"u8 s8 f16 bf16 f32 f64 {_INT}"

_TABLE = f"""
add sub           | {_INT}                        |                                     | 3
add sub           | s32                           | sat                                 | 3
add sub addc subc | u32 s32 u64 s64               | cc                                  | 3
add sub mul       | f32                           | {_ROUND} ftz sat                    | 3
add sub mul       | f64                           | {_ROUND}                            | 3
add sub mul       | {_HALF}                       | rn ftz sat                          | 3
add sub mul       | f32x2                         | {_ROUND} ftz                        | 3
add               | u16x2 s16x2                   |                                     | 3
mul               | {_INT}                        | lo hi                               | 3
mul               | u16 s16 u32 s32               | wide                                | 3
mad               | {_INT}                        | lo hi                               | 4
mad               | u16 s16 u32 s32               | wide                                | 4
mad madc          | u32 s32 u64 s64               | lo hi cc                            | 4
fma mad           | f32                           | {_ROUND} ftz sat                    | 4
fma mad           | f64                           | {_ROUND}                            | 4
fma               | {_HALF}                       | rn ftz sat relu                     | 4
fma               | f32x2                         | {_ROUND} ftz                        | 4
div rem           | {_INT}                        |                                     | 3
div               | f32                           | approx full ftz {_ROUND}            | 3
div               | f64                           | {_ROUND}                            | 3
neg abs           | s16 s32 s64 f64               |                                     | 2
neg abs           | f32 {_HALF}                   | ftz                                 | 2
min max           | {_INT} f64                    |                                     | 3
min max           | s32 s16x2                     | relu                                | 3
min max           | u16x2                         |                                     | 3
min max           | f32                           | ftz NaN                             | 3 4
min max           | {_HALF}                       | ftz NaN                             | 3
sqrt rcp          | f32                           | approx ftz {_ROUND}                 | 2
sqrt rcp          | f64                           | {_ROUND}                            | 2
rcp rsqrt         | f64                           | approx ftz                          | 2
rsqrt             | f32                           | approx ftz                          | 2
sin cos lg2       | f32                           | approx ftz                          | 2
ex2               | f32 {_HALF}                   | approx ftz                          | 2
tanh              | f32 {_HALF}                   | approx                              | 2
copysign          | f32 f64                       |                                     | 3
testp             | f32 f64                       | finite infinite number notanumber normal subnormal | 2
and or xor        | pred b16 b32 b64              |                                     | 3
not               | pred b16 b32 b64              |                                     | 2
cnot              | b16 b32 b64                   |                                     | 2
shl               | b16 b32 b64                   |                                     | 3
shr               | b16 b32 b64 {_INT}            |                                     | 3
shf               | b32                           | l r clamp wrap                      | 4
lop3              | b32                           |                                     | 5
popc clz brev     | b32 b64                       |                                     | 2
bfind             | u32 s32 u64 s64               | shiftamt                            | 2
bfe               | u32 s32 u64 s64               |                                     | 4
bfi               | b32 b64                       |                                     | 5
prmt              | b32                           |                                     | 4
sad               | {_INT}                        |                                     | 4
mul24             | u32 s32                       | lo                                  | 3
mad24             | u32 s32                       | lo                                  | 4
dp4a              | u32 s32 > u32 s32             |                                     | 4
dp2a              | u32 s32 > u32 s32             | lo hi                               | 4
{_VIDEO.format(2)} {_VIDEO.format(4)} | u32 s32 > u32 s32 > u32 s32 | sat add | 4
vset2 vset4       | u32 s32 > u32 s32             | eq ne lt le gt ge add               | 4
fns               | b32                           |                                     | 4
setp              | {_INT} b16 b32 b64 f64        | {_COMPARE} and or xor               | 3 4 5
setp              | f32 {_HALF}                   | {_COMPARE} and or xor ftz           | 3 4 5
set               | u32 s32 f32 f16 bf16 > {_INT} b16 b32 b64 f32 f64 f16 bf16 | {_COMPARE} and or xor ftz | 3 4
set               | u16 s16 > f16 bf16            | {_COMPARE} and or xor ftz           | 3 4
set               | f16x2 u32 s32 > f16x2         | {_COMPARE} and or xor ftz           | 3 4
set               | bf16x2 u32 s32 > bf16x2       | {_COMPARE} and or xor               | 3 4
selp              | {_ANY}                        |                                     | 4
slct              | {_ANY} > s32                  |                                     | 4
slct              | {_ANY} > f32                  | ftz                                 | 4
cvt               | {_NUMBER} > {_NUMBER}         | ftz sat relu rni rzi rmi rpi {_ROUND} | 2
cvt               | f16x2 bf16x2 > f32            | relu {_ROUND}                       | 3
mov               | pred {_ANY} b128              |                                     | 2
cvta              | u64                           | to {_SPACE}                         | 2
isspacep          |                               | {_SPACE}                            | 2
ld                | {_ANY}                        | {_CACHE} {_SPACE} v2 v4             | 2 | 1
ld                | {_WORD}                       | {_CACHE} {_SPACE} v8                | 2 | 1
ld                | b128                          | {_CACHE} {_SPACE}                   | 2 | 1
ldu               | {_ANY}                        | global v2 v4                        | 2 | 1
st                | {_ANY}                        | {_CACHE} {_SPACE} v2 v4             | 2 | 0
st                | {_WORD}                       | {_CACHE} {_SPACE} v8                | 2 | 0
st                | b128                          | {_CACHE} {_SPACE}                   | 2 | 0
atom              | u32 s32 u64 f32 f64           | add {_CACHE} {_SPACE}               | 3 | 1
atom              | {_HALF}                       | add noftz {_CACHE} {_SPACE}         | 3 | 1
atom              | u32 s32 u64 s64               | min max {_CACHE} {_SPACE}           | 3 | 1
atom              | u32                           | inc dec {_CACHE} {_SPACE}           | 3 | 1
atom              | b32 b64                       | and or xor exch {_CACHE} {_SPACE}   | 3 | 1
atom              | b128                          | exch {_CACHE} {_SPACE}              | 3 | 1
atom              | b16 b32 b64 b128              | cas {_CACHE} {_SPACE}               | 4 | 1
atom              | f32                           | add v2 v4 {_CACHE} global           | 3 | 1
atom              | f16x2 bf16x2                  | add noftz v2 v4 {_CACHE} global     | 3 | 1
atom              | f16 bf16                      | add noftz v2 v4 v8 {_CACHE} global  | 3 | 1
red               | u32 s32 u64 f32 f64           | add {_CACHE} {_SPACE}               | 2 | 0
red               | {_HALF}                       | add noftz {_CACHE} {_SPACE}         | 2 | 0
red               | f32                           | add v2 v4 {_CACHE} global           | 2 | 0
red               | f16x2 bf16x2                  | add noftz v2 v4 {_CACHE} global     | 2 | 0
red               | f16 bf16                      | add noftz v2 v4 v8 {_CACHE} global  | 2 | 0
red               | u32 s32 u64 s64               | min max {_CACHE} {_SPACE}           | 2 | 0
red               | u32                           | inc dec {_CACHE} {_SPACE}           | 2 | 0
red               | b32 b64                       | and or xor {_CACHE} {_SPACE}        | 2 | 0
shfl              | b32                           | up down bfly idx                    | 4 5
shfl              | b32                           | sync up down bfly idx               | 5 6
vote              | pred b32                      | all any uni ballot                  | 2
vote              | pred b32                      | sync all any uni ballot             | 3
match             | b32 b64                       | sync any                            | 3
match             | b32 b64                       | sync all                            | 3 4
activemask        | b32                           |                                     | 1
elect             |                               | sync                                | 3
redux             | u32 s32                       | sync add min max                    | 3
redux             | b32                           | sync and or xor                     | 3
bar barrier       |                               | sync cta aligned                    | 1 2
bar barrier       |                               | arrive cta aligned                  | 2
bar barrier       | u32                           | red popc cta aligned                | 3 4
bar barrier       | pred                          | red and or cta aligned              | 3 4
bar               |                               | warp sync                           | 1
membar            |                               | gl cta sys                          | 0
fence             |                               | sc acq_rel acquire release cta gpu sys cluster | 0
bra               |                               | uni                                 | 1
brx               |                               | idx uni                             | 2
ret               |                               | uni                                 | 0
exit trap brkpt   |                               |                                     | 0
call              |                               | vprintf __assertfail                | 0 1 2 3 4 5 6
nanosleep         | u32                           |                                     | 1
prefetch          |                               | global local L1 L2                  | 1 | 0
prefetchu         |                               | L1                                  | 1 | 0
pmevent           |                               | mask                                | 1
griddepcontrol    |                               | wait launch_dependents              | 0
"""

#: What one of each instruction's modifiers has to be: without it the instruction would mean something else.
NEEDED = {
    "setp": _COMPARE, "set": _COMPARE, "testp": "finite infinite number notanumber normal subnormal",
    "atom": "add min max inc dec exch cas and or xor", "red": "add min max inc dec and or xor",
    "shfl": "up down bfly idx", "vote": "all any uni ballot", "match": "any all",
    "redux": "add min max and or xor", "bar": "sync arrive popc and or", "barrier": "sync arrive popc and or",
    "shf": "l r", "mul24": "lo", "mad24": "lo", "dp2a": "lo hi", "elect": "sync",
    "vset2": "eq ne lt le gt ge", "vset4": "eq ne lt le gt ge", "call": "vprintf __assertfail",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Form:
    """One form of an instruction."""

    types: tuple[frozenset[str], ...]
    """per type modifier which types it may be"""
    modifiers: frozenset[str]
    operands: frozenset[int]
    address: int | None
    """place of the memory operand"""


def _parse(table: str) -> dict[str, list[Form]]:
    forms: dict[str, list[Form]] = {}
    for line in table.strip().splitlines():
        roots, types, modifiers, operands, *address = line.split("|")
        allowed = tuple(frozenset(part.split()) for part in types.split(">")) if types.strip() else ()
        counts = frozenset(int(count) for count in operands.split())
        form = Form(allowed, frozenset(modifiers.split()), counts, int(address[0]) if address else None)
        for root in roots.split():
            forms.setdefault(root, []).append(form)
    return forms


#: Opcode before the first dot: its forms.
FORMS = _parse(_TABLE)


# Refuses instructions whose modifiers and operands do not go together, before code is written for them.
#
# ptxas refuses them too; PTX that was never seen by it may hold anything.


_WIDTHS = {"v2", "v4", "v8"}
_COMBINATIONS = {"and", "or", "xor"}
_MOST_RESULTS = {"set": 1, "setp": 2}
_FLOATS = {"f16", "bf16", "f16x2", "bf16x2", "f32", "f64"}


def check_operands(function: Function) -> None:
    """Raise UnsupportedError for the first instruction that cannot be meant."""
    for ins in function.instructions:
        if not (_names_one(ins) and _compares(ins) and _reduces_into(ins)):
            what = f"PTX instruction {ins.name} with these operands is not supported"
            raise UnsupportedError(what, where=ins.where or function.name)


def _names_one(ins: Instruction) -> bool:
    """Return whether the opcode names one operation and one vector width, where it has to."""
    needed = NEEDED.get(ins.root, "").split()
    return sum(m in needed for m in ins.modifiers) == bool(needed) and sum(m in _WIDTHS for m in ins.modifiers) < 2


def _compares(ins: Instruction) -> bool:
    """Return whether a comparison has the operands that its modifiers ask for; only floats can be unordered."""
    if ins.root not in _MOST_RESULTS:
        return True
    combinations = sum(m in _COMBINATIONS for m in ins.modifiers)
    results = len(ins.operands) - 2 - combinations
    ordered = ins.type in _FLOATS or {"num", "nan"}.isdisjoint(ins.modifiers)
    return combinations < 2 and ordered and 1 <= results <= _MOST_RESULTS[ins.root]


def _reduces_into(ins: Instruction) -> bool:
    """Return whether bar.red has a result of the size that the scheduler writes where the register lies."""
    if ins.root not in {"bar", "barrier"} or "red" not in ins.modifiers or not isinstance(ins.operands[0], Register):
        return True
    return TYPE_BITS[ins.operands[0].type] == (32 if "popc" in ins.modifiers else 1)


_CURES = {
    name: cure
    for names, cure in {
        "mma wmma wgmma ldmatrix stmatrix movmatrix tcgen05": "Tensor-core instructions are not executed yet.",
        "cp mbarrier tensormap": "Asynchronous copies are not executed yet.",
        "tex tld4 txq suld sust sured suq istypep": "Textures and surfaces are not executed yet.",
        "mapa getctarank clusterlaunchcontrol multimem barrier.cluster": "Clusters of blocks are not executed yet.",
    }.items()
    for name in names.split()
}
_WITHOUT_RESULT = {"st", "red", "bra", "brx", "call", "nanosleep", "pmevent", "prefetch", "prefetchu"}
_WITH_VECTOR = {"mov", "ld", "ldu", "st", "atom", "red"}
_WITH_NEGATED = {"setp", "set", "vote", "bar", "barrier"}
_WITH_LABEL = {"bra": 0, "brx": 1}


def check_supported(function: Function) -> None:
    """Raise UnsupportedError for the first instruction that the engine does not cover."""
    for instruction in function.instructions:
        if not any(_fits(instruction, form) for form in FORMS.get(instruction.root, ())):
            raise UnsupportedError(
                f"PTX instruction {instruction.name} is not supported",
                where=instruction.where or function.name,
                cure=_cure(instruction),
            )
        _check_specials(instruction, function)


def _cure(ins: Instruction) -> str | None:
    return next((cure for name, cure in _CURES.items() if f"{ins.name}.".startswith(f"{name}.")), None)


def _fits(ins: Instruction, form: Form) -> bool:
    others = [m for m in ins.modifiers if m not in TYPE_BITS]
    needed = NEEDED.get(ins.root)
    return (
        len(ins.types) == len(form.types)
        and all(given in allowed for given, allowed in zip(ins.types, form.types, strict=True))
        and form.modifiers.issuperset(others)
        and len(set(others)) == len(others)
        and len(ins.operands) in form.operands
        and (needed is None or any(m in needed.split() for m in others))
        and all(_is_operand(ins, form, position) for position in range(len(ins.operands)))
        and _has_result(ins)
    )


def _is_operand(ins: Instruction, form: Form, position: int) -> bool:
    """Return whether an operand is of a kind that the instruction takes at this position."""
    operand = ins.operands[position]
    if position == form.address:
        return isinstance(operand, Address)
    if isinstance(operand, Label) or _WITH_LABEL.get(ins.root) == position:
        return isinstance(operand, Label) and _WITH_LABEL.get(ins.root) == position
    if isinstance(operand, Vector):
        return ins.root in _WITH_VECTOR and _is_vector(ins, operand)
    if isinstance(operand, Negated):
        return ins.root in _WITH_NEGATED
    width = next((int(m[1]) for m in ins.modifiers if m in {"v2", "v4", "v8"}), 1)
    return not isinstance(operand, Address | Opaque) and (width == 1 or ins.root == "mov")


def _is_vector(ins: Instruction, vector: Vector) -> bool:
    count = len(vector.elements)
    if any(isinstance(element, Vector | Address | Opaque | Label) for element in vector.elements):
        return False
    if ins.root != "mov":
        return f"v{count}" in ins.modifiers
    both = sum(isinstance(operand, Vector) for operand in ins.operands)
    sizes = {2} if ins.type == "b128" else {2, 4, 8}
    return both == 1 and count in sizes and TYPE_BITS[ins.type] // count >= 8


def _has_result(ins: Instruction) -> bool:
    if ins.root in _WITHOUT_RESULT or not ins.operands or (ins.root in {"bar", "barrier"} and not ins.types):
        return True
    target = ins.operands[0]
    elements: tuple[Operand, ...] = target.elements if isinstance(target, Vector) else (target,)
    return all(isinstance(element, Register | Sink) for element in elements)


def _check_specials(instruction: Instruction, function: Function) -> None:
    for operand in instruction.operands:
        if isinstance(operand, Special) and operand.name not in SPECIALS:
            # The driver hands the barrier of a cooperative launch over in these registers.
            is_grid_wide = operand.name.startswith("%envreg")
            raise UnsupportedError(
                f"special register {operand.name} is not supported",
                where=instruction.where or function.name,
                cure="Barriers of the whole grid (cooperative groups, grid.sync()) are not executed."
                if is_grid_wide
                else None,
            )
