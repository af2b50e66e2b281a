"""Replaces ``wmma`` by what ptxas makes of it: loads and stores of fragments, and ``mma``.

PTX leaves open which lane holds which element of a wmma fragment. Here it is the layout of ``mma``, so that fragments
of one shape and type agree, and an accumulator's element is the same one whether C or D. A product of 8 x 32 is
computed as the transposed one of 32 x 8. Read off ptxas 12.9 for sm_80: ldmatrix from shared memory, else 32 bits at a
time, which are transposed in registers (movmatrix) where neighbours in memory are not those of a register.
Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.14.4 (wmma).
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kerncast.ptx.fragments import Product, product_of
from kerncast.ptx.module import Address, Immediate, Instruction, Operand, Register, Special, Symbol, Vector
from kerncast.ptx.opcodes import COMBINATIONS

Point = tuple[int, int]
Shape = tuple[int, int, int]

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_BITS = {
    "f64": 64, "f32": 32, "tf32": 32, "s32": 32, "f16": 16, "bf16": 16, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
}  # fmt: skip
_HALF, _BYTE, _WORD = 16, 8, 32
_GROUP = 8
#: The first architecture whose mma take 16 rows of integers, and 16 columns of A of FP16.
_AMPERE = 80
#: Registers of a fragment of A or B of FP16, whatever its shape: some hold what others do.
_REGISTERS_OF_F16 = 8
_LARGE = frozenset({(16, 16, 16), (32, 8, 16), (8, 32, 16)})
#: Shapes by the type of A and B.
_SHAPES: dict[str, frozenset[Shape]] = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), _LARGE),
    "tf32": frozenset({(16, 16, 8)}), "f64": frozenset({(8, 8, 4)}), "s4": frozenset({(8, 8, 32)}),
    "u4": frozenset({(8, 8, 32)}), "b1": frozenset({(8, 8, 128)}),
}  # fmt: skip
_TOTALS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}
_OF_SPACE = ("global", "shared")
_MODIFIERS = COMBINATIONS | {
    "load", "store", "mma", "a", "b", "c", "d", "sync", "aligned", "row", "col", "global", "shared", "shared::cta",
    "satfinite", "rn"
} | {"popc"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Held:
    """Where the first elements of a register lie in memory, as (line, place in the line)."""

    origin: Point
    """of lane 0"""
    per_group: Point
    """what four lanes further adds"""
    per_lane: Point
    """what one lane further adds in a group of four"""
    per_element: Point
    """what one element further adds; (0, 0) where there is one"""


@dataclass(frozen=True, slots=True)
class _Tiles:
    """A wmma as several mma."""

    product: Product
    rows: int
    """mma below one another"""
    columns: int
    """mma beside one another"""
    is_turned: bool
    """whether the transposed product is computed"""

    def fragment(self, which: str, is_by_row: bool) -> list[_Held]:
        """Return the registers of a fragment: a, b, c or d, which lies in memory row by row or column by column."""
        # Of the transposed product, b is the left factor, whose rows are the columns of b.
        part = {"a": "b", "b": "a"}.get(which, "c") if self.is_turned else which if which in {"a", "b"} else "c"
        is_straight = is_by_row != self.is_turned
        one = self.product
        place = {"a": one.place_in_a, "b": one.place_in_b, "c": one.place_in_total}[part]
        count = one.registers["abc".index(part)]
        per = one.per_total if part == "c" else one.per_register
        rows, columns = (1 if part == "b" else self.rows), (1 if part == "a" else self.columns)
        found = []
        for tile in range(rows * columns):
            corner = one.m * (tile // columns), one.n * (tile % columns)
            for register in range(count):
                points = [place(lane, register, e) for lane, e in ((0, 0), (4, 0), (1, 0), (0, min(1, per - 1)))]
                moved = [(row + corner[0], column + corner[1]) for row, column in points]
                first, *others = moved if is_straight else [(column, row) for row, column in moved]
                steps = [(line - first[0], at - first[1]) for line, at in others]
                found.append(_Held(first, *steps))
        return found


def _tiles_of(shape: Shape, types: tuple[str, ...], *, is_old: bool) -> _Tiles:
    """Return the mma that a wmma is made of; types are those of D, A, B and C."""
    m, n, k = shape
    is_turned = m < n
    rows, columns = (n, m) if is_turned else (m, n)
    height = _GROUP if is_old and types[0] == "s32" else min(rows, 2 * _GROUP)
    product = product_of((f"m{height}n8k{k}",), types)
    assert product is not None, (shape, types)
    return _Tiles(product, rows // height, columns // product.n, is_turned)


def is_wmma(ins: Instruction) -> bool:
    """Return whether an instruction is one of those that are replaced."""
    return ins.root == "wmma"


def expanded(ins: Instruction, prefix: str, target: str) -> tuple[Instruction, ...]:
    """Return the instructions that do what a wmma does, or the wmma itself where that is not known.

    ``prefix`` begins the names of registers that they need; the target is an architecture such as sm_80.
    """
    if any(m not in _MODIFIERS and m not in _BITS and _SHAPE.fullmatch(m) is None for m in ins.modifiers):
        return (ins,)
    number = re.search(r"\d+", target)
    code = _Code(ins, prefix, is_old=number is not None and int(number[0]) < _AMPERE)
    operation = next((m for m in ins.modifiers if m in {"load", "store", "mma"}), "")
    done = {"load": _load, "store": _store, "mma": _multiply}[operation](ins, code) if operation else False
    return tuple(code.instructions) if done else (ins,)


@dataclass(slots=True)
class _Code:
    """Instructions in the place of another one."""

    of: Instruction
    prefix: str
    is_old: bool
    """whether mma are small, as on Turing"""
    instructions: list[Instruction] = field(default_factory=list)
    registers: int = 0

    def add(self, name: str, *operands: Operand) -> None:
        """Append an instruction."""
        root, *modifiers = name.split(".")
        note = f"part of {self.of.name}"
        self.instructions.append(
            replace(self.of, root=root, modifiers=tuple(modifiers), operands=operands, note=self.of.note or note)
        )

    def register(self, kind: str) -> Register:
        """Return a register of its own."""
        self.registers += 1
        return Register(f"{self.prefix}{self.registers}", kind)

    def value(self, name: str, kind: str, *operands: Operand | int) -> Register:
        """Append an instruction and return its result."""
        result = self.register(kind)
        self.add(name, result, *(_number(each) if isinstance(each, int) else each for each in operands))
        return result

    def scaled(self, value: Register, factor: int, more: Operand | None) -> Operand | None:
        """Return value x factor + more of 32 bits; None is 0."""
        if not factor:
            return more
        if more is None:
            return value if factor == 1 else self.value("mul.lo.u32", "b32", value, factor)
        if factor == 1:
            return self.value("add.u32", "b32", value, more)
        return self.value("mad.lo.u32", "b32", value, factor, more)


def _number(value: int) -> Immediate:
    return Immediate(value, "int")


@dataclass(frozen=True, slots=True)
class _Place:
    """A memory operand of wmma with its stride."""

    address: Address
    stride: Operand
    """elements from one line to the next"""
    bits: int
    """of an element"""
    space: str
    """with a dot in front; empty: generic"""

    def lane(self, code: _Code, line: Operand | None, at: Operand | None) -> Register:
        """Write the address of a lane's element, at a place in a line."""
        base = self.address.base
        is_near = isinstance(base, Register) and base.type.endswith("32")
        wide = "32" if is_near else "64"
        where = code.register(f"b{wide}")
        code.add(
            f"mov.u{wide}",
            where,
            _number(0) if base is None else Symbol(base.name) if isinstance(base, Symbol) else base,
        )
        if line is not None:
            name = "mul.lo.u32" if is_near else "mul.wide.u32"
            where = self._added(code, where, code.value(name, where.type, line, self.stride))
        if at is not None:
            far = at if is_near else code.value("cvt.u64.u32", "b64", at)
            where = self._added(code, where, far)
        return where

    def _added(self, code: _Code, where: Register, elements: Operand) -> Register:
        """Add a number of elements to an address."""
        wide = where.type.removeprefix("b")
        shift = round(math.log2(self.bits / _BYTE))
        if shift:
            name = f"shl.b{wide}" if shift > 0 else f"shr.u{wide}"
            elements = code.value(name, where.type, elements, abs(shift))
        return code.value(f"add.u{wide}", where.type, where, elements)

    def lines(self, code: _Code, where: Register, count: int) -> Register:
        """Return an address some lines further on."""
        if not count:
            return where
        name = "mul.wide.u32" if where.type == "b64" else "mul.lo.u32"
        step = code.value(name, where.type, self.stride, count * self.bits // _BYTE)
        return code.value(f"add.u{where.type.removeprefix('b')}", where.type, where, step)

    def at(self, where: Register, elements: int) -> Address:
        """Return a memory operand so many elements behind an address."""
        return Address(where, self.address.offset + elements * self.bits // _BYTE)


def _place_of(ins: Instruction, operands: Sequence[Operand], bits: int, default: int) -> _Place | None:
    address = operands[0]
    if not isinstance(address, Address) or len(operands) > 2:
        return None
    stride = operands[1] if len(operands) > 1 else _number(default)
    if not isinstance(stride, Register | Immediate):
        return None
    space = next((f".{m}" for m in ins.modifiers if m.split("::")[0] in _OF_SPACE), "")
    return _Place(address, stride, bits, space)


@dataclass(frozen=True, slots=True)
class _Fragment:
    """The registers of a wmma.load or wmma.store, and where their elements lie."""

    registers: tuple[Operand, ...]
    held: list[_Held]
    place: _Place
    kind: str
    """type of the elements"""

    @property
    def distinct(self) -> int:
        """Registers that hold what no other one does."""
        return len(self.held)


def _fragment(code: _Code, which: str, registers: Operand, rest: Sequence[Operand]) -> _Fragment | None:
    """Return what is loaded or stored; None where PTX has no such wmma."""
    ins = code.of
    shape = m, n, k = _shape_of(ins)
    layout = [m for m in ins.modifiers if m in {"row", "col"}]
    if len(ins.types) != 1 or len(layout) != 1:
        return None
    kind, is_by_row, is_factor = ins.types[0], layout[0] == "row", which in {"a", "b"}
    factor = kind if is_factor else _factor_of(shape, kind)
    # Where elements share a byte, only neighbours in k may.
    is_split = is_factor and _BITS.get(kind, _BYTE) < _BYTE and is_by_row != (which == "a")
    if shape not in _SHAPES.get(factor, ()) or is_split:
        return None
    total = _totals_of(factor)[-1] if is_factor else kind
    tiles = _tiles_of(shape, (total, factor, factor, total), is_old=code.is_old)
    sides = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    place = _place_of(ins, rest, _BITS[kind], sides[is_by_row])
    held = tiles.fragment(which, is_by_row)
    expected = _REGISTERS_OF_F16 if kind == "f16" and is_factor else len(held)
    listed = _listed(registers)
    return _Fragment(listed, held, place, kind) if place is not None and len(listed) == expected else None


def _listed(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


def _shape_of(ins: Instruction) -> Shape:
    """Return m, n and k; zeros where none is named."""
    found = next(filter(None, map(_SHAPE.fullmatch, ins.modifiers)), None)
    return (int(found[1]), int(found[2]), int(found[3])) if found is not None else (0, 0, 0)


def _totals_of(factor: str) -> tuple[str, ...]:
    """Return the types that sums of products of a type may have."""
    return _TOTALS.get(factor, ("s32",))


def _factor_of(shape: Shape, total: str) -> str:
    """Return a type of A and B whose products of a shape have such sums; the layout is the same for all."""
    fitting = (factor for factor, shapes in _SHAPES.items() if shape in shapes and total in _totals_of(factor))
    return next(fitting, "")


def _load(ins: Instruction, code: _Code) -> bool:
    """Replace wmma.load; returns whether it is one of PTX."""
    which = next((m for m in ins.modifiers if m in {"a", "b", "c"}), "")
    fragment = _fragment(code, which, ins.operands[0], ins.operands[1:]) if len(ins.operands) > 1 else None
    if not which or fragment is None:
        return False
    bits = _BITS[fragment.kind]
    if bits == _HALF and fragment.place.space.startswith(".shared"):
        _load_rows(fragment, code)
    elif bits == _BYTE and fragment.held[0].per_element[0]:
        _load_bytes(fragment, code)
    else:
        _load_words(fragment, code)
    for number, register in enumerate(fragment.registers[fragment.distinct :]):
        code.add("mov.b32", register, fragment.registers[number % fragment.distinct])
    return True


def _load_rows(fragment: _Fragment, code: _Code) -> None:
    """Write ldmatrix, four registers at a time: eight lanes give the addresses of the lines of one."""
    is_turned = bool(fragment.held[0].per_element[0])
    lane = code.value("mov.u32", "b32", Special("%laneid"))
    line = code.value("and.b32", "b32", lane, 7)
    bits = [code.value("bfe.u32", "b32", lane, 3 + n, 1) for n in range(2)]
    width = min(4, fragment.distinct)
    addresses: dict[tuple[Point, ...], Register] = {}
    moves = []
    for first in range(0, fragment.distinct, width):
        origins = [held.origin for held in fragment.held[first : first + width]]
        steps = tuple((origins[n][0] - origins[0][0], origins[n][1] - origins[0][1]) for n in (1, 2) if n < width)
        if steps not in addresses:
            at: Operand | None = None
            own: Operand | None = line
            for bit, step in zip(bits, steps, strict=False):
                own = code.scaled(bit, step[0], own)
                at = code.scaled(bit, step[1], at)
            addresses[steps] = fragment.place.lane(code, own, at)
        moved = fragment.place.lines(code, addresses[steps], origins[0][0])
        moves.append((fragment.registers[first : first + width], fragment.place.at(moved, origins[0][1])))
    trans = ".trans" if is_turned else ""
    for registers, address in moves:
        code.add(f"ldmatrix.sync.aligned.m8n8.x{width}{trans}.shared.b16", Vector(registers), address)


def _lane_address(fragment: _Fragment, code: _Code, *, is_turned: bool) -> Register:
    """Write the address of a lane's first element; turned, that of the element across the diagonal of its matrix."""
    held = fragment.held[0]
    lane = code.value("mov.u32", "b32", Special("%laneid"))
    group = code.value("shr.u32", "b32", lane, 2)
    member = code.value("and.b32", "b32", lane, 3)
    side = (1, 0) if is_turned else (0, 1)
    line, at = (code.scaled(member, held.per_lane[n], code.scaled(group, held.per_group[n], None)) for n in side)
    return fragment.place.lane(code, line, at)


def _load_words(fragment: _Fragment, code: _Code) -> None:
    """Write loads of 32 or 64 bits, of two neighbours where both are elements of a register of their own."""
    is_turned = bool(fragment.held[0].per_element[0])
    wide = f"b{max(_WORD, _BITS[fragment.kind])}"
    for registers, address in _accesses(fragment, code, is_turned=is_turned):
        if len(registers) > 1:
            code.add(f"ld{fragment.place.space}.v2.{wide}", Vector(registers), address)
        else:
            code.add(f"ld{fragment.place.space}.{wide}", registers[0], address)
    if is_turned:
        for register in fragment.registers[: fragment.distinct]:
            code.add("movmatrix.sync.aligned.m8n8.trans.b16", register, register)


def _accesses(fragment: _Fragment, code: _Code, *, is_turned: bool) -> list[tuple[tuple[Operand, ...], Address]]:
    """Return the registers of each access with its address."""
    first = _lane_address(fragment, code, is_turned=is_turned)
    lines = {line: fragment.place.lines(code, first, line) for line in sorted({h.origin[0] for h in fragment.held})}
    found: list[tuple[tuple[Operand, ...], Address]] = []
    number = 0
    while number < fragment.distinct:
        line, at = fragment.held[number].origin
        following = fragment.held[number + 1].origin if number + 1 < fragment.distinct else None
        count = 2 if following == (line, at + 1) else 1
        found.append((fragment.registers[number : number + count], fragment.place.at(lines[line], at)))
        number += count
    return found


def _load_bytes(fragment: _Fragment, code: _Code) -> None:
    """Write loads of single bytes, four of which make a register."""
    first = _lane_address(fragment, code, is_turned=False)
    per = _WORD // _BYTE
    lines = sorted({held.origin[0] + n for held in fragment.held for n in range(per)})
    addresses = {line: fragment.place.lines(code, first, line) for line in lines}
    for register, held in zip(fragment.registers, fragment.held, strict=True):
        line, at = held.origin
        parts = [
            code.value(f"ld{fragment.place.space}.u8", "b32", fragment.place.at(addresses[line + n], at))
            for n in range(per)
        ]
        low, high = (code.value("prmt.b32", "b32", *parts[n : n + 2], 0x0040) for n in (0, 2))
        code.add("prmt.b32", register, low, high, _number(0x5410))


def _store(ins: Instruction, code: _Code) -> bool:
    """Replace wmma.store; returns whether it is one of PTX."""
    if "d" not in ins.modifiers or len(ins.operands) < 2:
        return False
    fragment = _fragment(code, "d", ins.operands[1], (ins.operands[0], *ins.operands[2:]))
    if fragment is None:
        return False
    is_turned = bool(fragment.held[0].per_element[0])
    if is_turned:
        turned = tuple(
            code.value("movmatrix.sync.aligned.m8n8.trans.b16", "b32", register) for register in fragment.registers
        )
        fragment = replace(fragment, registers=turned)
    wide = f"b{max(_WORD, _BITS[fragment.kind])}"
    for registers, address in _accesses(fragment, code, is_turned=is_turned):
        if len(registers) > 1:
            code.add(f"st{fragment.place.space}.v2.{wide}", address, Vector(registers))
        else:
            code.add(f"st{fragment.place.space}.{wide}", address, registers[0])
    return True


def _multiply(ins: Instruction, code: _Code) -> bool:
    """Replace wmma.mma; returns whether it is one of PTX."""
    shape = _shape_of(ins)
    types = (ins.types[0], "f16", "f16", ins.types[1]) if len(ins.types) == len("dc") else ins.types
    if len(types) != len("dabc") or types[1] != types[2] or shape not in _SHAPES.get(types[1], ()):
        return False
    if not {types[0], types[3]}.issubset(_totals_of(types[1])):
        return False
    lists = [_listed(each) for each in ins.operands]
    total = "f32" if types[0] != types[3] else types[0]
    tiles = _tiles_of(shape, (total, types[1], types[1], total), is_old=code.is_old)
    needed = [len(tiles.fragment(which, is_by_row=True)) for which in "dabc"]
    halved = [needed[0] // 2 if types[n] == "f16" != total else needed[0] for n in (0, 3)]
    factors = [_REGISTERS_OF_F16] * 2 if types[1] == "f16" else needed[1:3]
    if [len(each) for each in lists] != [halved[0], *factors, halved[1]]:
        return False
    a, b = (lists[2], lists[1]) if tiles.is_turned else (lists[1], lists[2])
    before = _as_floats(code, lists[3]) if types[3] == "f16" != total else lists[3]
    result = _results(code, lists, total, is_halved=types[0] == "f16" != total)
    _write_products(ins, code, tiles, (result, a, b, before))
    if result is not lists[0]:
        _finish(code, lists[0], result)
    return True


def _as_floats(code: _Code, halves: Sequence[Operand]) -> tuple[Operand, ...]:
    """Write conversions of packed halves to FP32."""
    found: list[Operand] = []
    for register in halves:
        parts = [code.register("b16"), code.register("b16")]
        code.add("mov.b32", Vector(tuple(parts)), register)
        found += [code.value("cvt.f32.f16", "b32", part) for part in parts]
    return tuple(found)


def _results(code: _Code, lists: Sequence[tuple[Operand, ...]], total: str, *, is_halved: bool) -> tuple[Operand, ...]:
    """Return where the products go: D itself, or elsewhere where D has other numbers or is read after it is written."""
    d, a, b, c = lists
    is_read = any(each in a or each in b for each in d) or any(x in c and x != y for x, y in zip(d, c, strict=False))
    if not is_halved and not is_read:
        return d
    kind = "b64" if total == "f64" else "b32"
    return tuple(code.register(kind) for _ in range(len(d) * (1 + is_halved)))


def _write_products(ins: Instruction, code: _Code, tiles: _Tiles, lists: tuple[Sequence[Operand], ...]) -> None:
    """Write the mma; lists are the registers of D, of the left factor, of the right one, and of C."""
    d, a, b, c = lists
    one = tiles.product
    in_a, in_b, in_total = one.registers
    modes = [m for m in ins.modifiers if m in COMBINATIONS] + ["popc"] * ("popc" in ins.modifiers)
    ends = ["satfinite"] if "satfinite" in ins.modifiers else []
    steps = 2 if code.is_old and one.a == "f16" else 1
    kinds = [one.total, one.a, one.b, one.total]
    name = ".".join(
        ["mma", "sync", "aligned", f"m{one.m}n{one.n}k{one.k // steps}", "row", "col", *ends, *kinds, *modes]
    )
    for tile in range(tiles.rows * tiles.columns):
        row, column = tile // tiles.columns, tile % tiles.columns
        sums = _part(d, tile, in_total)
        for step in range(steps):
            left = _part(_part(a, row, in_a).elements, step, in_a // steps)
            right = _part(_part(b, column, in_b).elements, step, in_b // steps)
            code.add(name, sums, left, right, sums if step else _part(c, tile, in_total))


def _part(registers: Sequence[Operand], number: int, count: int) -> Vector:
    return Vector(tuple(registers[number * count : (number + 1) * count]))


def _finish(code: _Code, d: Sequence[Operand], result: Sequence[Operand]) -> None:
    """Write D from what the products have left elsewhere, rounded where it is of halves."""
    if len(result) == len(d):
        for to, each in zip(d, result, strict=True):
            kind = each.type if isinstance(each, Register) else "b32"
            code.add(f"mov.{kind}", to, each)
        return
    for number, to in enumerate(d):
        code.add("cvt.rn.f16x2.f32", to, result[2 * number + 1], result[2 * number])
