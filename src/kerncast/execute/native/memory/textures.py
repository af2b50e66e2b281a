"""Reads textures, reads and writes surfaces: ``tex``, ``tld4``, ``suld`` and ``sust`` by the handle of an object.

A handle is the address of an object in global memory (see ``execute.setup.textures``). Whatever a kernel makes of one,
each texel is read through the checked loads of global memory. Of a request that needs several texels of a row, the
first counts; of further rows the sectors do. Source: NVIDIA, CUDA C++ Programming Guide 12.9, section 16.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kerncast import traces
from kerncast.execute.native.arithmetic import conversion
from kerncast.execute.native.block import F32, I32, I64, Operation
from kerncast.execute.native.ir import FAULTS, WORKER, Emitter, Unit, Value, field, integer, real, vector
from kerncast.execute.native.memory.access import PARAMETERS, POINTERS, SITE, Fault, note_fault
from kerncast.execute.native.memory.transfer import loader, plain_loader, put_together, storer, taken_apart
from kerncast.execute.setup.textures import (
    ADDRESS_SHIFTS,
    BORDER,
    CLAMP,
    FIELDS,
    FLOAT,
    IS_LINEAR,
    IS_NORMALIZED,
    MAGIC,
    MIRROR,
    OBJECT_BYTES,
    READS_NORMALIZED,
    SIGNED,
    WRAP,
)
from kerncast.ptx import TYPE_BITS, Address, Vector

_HANDLE, _MASK = Value("%handle", I64), Value("%mask", "i32")
_COORDINATES = tuple(Value(f"%at{n}", I32) for n in range(4))
_COUNTERS = PARAMETERS[2]
_COMPONENTS = 4
#: Two bits for each corner of four texels: its place in the result.
_GATHERED = 0b01_00_10_11
_FRACTION = 256.0  # weights of a linear filter have 8 bits


def dimensions_of(o: Operation) -> tuple[int, bool]:
    """Return how many dimensions a texture has, and whether it has layers."""
    name = next(m for m in o.ins.modifiers if m in o.ins.opcode.one_of)
    return int(name[-2]), name.startswith("a")


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is known of a fetch where code is written for it."""

    dimensions: int
    is_layered: bool
    by_index: bool
    """whether coordinates are whole numbers"""
    operation: traces.Operation | None
    component: int | None
    """the one that tld4 gathers of four texels"""

    @property
    def name(self) -> str:
        """Name of the function."""
        parts = (self.dimensions, self.is_layered, self.by_index)
        verb = "tex_" if self.component is None else f"tld4_{self.component}_"
        return verb + "_".join(str(int(part)) for part in parts) + ("" if self.operation is not None else "_plain")


def fetch(o: Operation, number: int, counters: Value, operation: traces.Operation | None) -> None:
    """Write tex: results are four components of 32 bits."""
    emit = o.emit
    target, place = o.ins.operands[:2]
    assert isinstance(place, Address)
    dimensions, is_layered = dimensions_of(o)
    component = next((n for n, name in enumerate("rgba") if o.has(name)), None)
    kind = _Kind(dimensions, is_layered, o.type == "s32", operation, component)
    if kind.name not in emit.unit:
        _define_fetch(emit.unit, kind)
    given = [o.block.source(each, "b32") for each in place.coordinates[: dimensions + is_layered]]
    if is_layered:  # the layer stands first
        given = [*given[1:], *[integer(I32, 0)] * (3 - dimensions), given[0]]
    given += [integer(I32, 0)] * (4 - len(given))
    handle = o.block.source(place.base, "u64") if place.base is not None else integer(I64, 0)
    handle = emit.add(handle, place.offset)
    pointers = (*_pointers(o), counters, integer("i32", number), o.block.executing, handle)
    emit.call_void(kind.name, *pointers, *given)
    merged = field(emit, o.block.pointers.worker, WORKER, "merged")
    elements = target.elements if isinstance(target, Vector) else (target,)
    for position, each in enumerate(elements):
        o.block.write(each, emit.load(emit.at(merged, 128 * position), I32, 64))


def _pointers(o: Operation) -> tuple[Value, Value]:
    return o.block.pointers.worker, o.block.pointers.warp


@contextmanager
def _each_object(emit: Emitter) -> "Iterator[tuple[_Object, Value]]":
    """Write a loop over the objects that lanes name; gives each with its handle, for the lanes that name it."""
    handles = emit.allocate(I64)
    emit.store(_HANDLE, handles, 64)
    with emit.while_left(_MASK) as (left, rest):
        first = emit.load(emit.index(handles, "i64", emit.first_lane(left)), "i64")
        same = emit.and_(emit.mask_bits(emit.compare("eq", _HANDLE, emit.splat(first))), left)
        emit.store(emit.and_(left, emit.not_(same)), rest)
        yield _Object.read(emit, first, same), first


def _define_fetch(unit: Unit, kind: _Kind) -> None:
    emit = Emitter(unit, kind.name, "void", (*POINTERS, _COUNTERS, SITE, _MASK, _HANDLE, *_COORDINATES))
    out, everything = emit.allocate(f"[{_COMPONENTS * 128} x i8]"), f"<{_COMPONENTS * 32} x i32>"
    emit.store(integer(everything, 0), out, 64)
    with _each_object(emit) as (found, _), emit.when(emit.compare("ne", found.mask, 0)):
        _Fetch(emit, kind, found).write(out)
    merged = field(emit, POINTERS[0], WORKER, "merged")
    emit.store(emit.load(out, everything, 64), merged, 64)
    emit.give()
    emit.finish()


@dataclass(frozen=True, slots=True)
class _Object:
    """A texture or surface object, as it lies in memory: numbers of the kernel's own, which may be anything."""

    emit: Emitter
    mask: Value
    """lanes that use it; none where it is no object"""
    fields: dict[str, Value]

    @classmethod
    def read(cls, emit: Emitter, handle: Value, mask: Value) -> "_Object":
        """Write the reading of an object, of which nothing is counted."""
        name = plain_loader(emit.unit, 8)
        trash = field(emit, POINTERS[0], WORKER, "trash")
        words = []
        for number in range(OBJECT_BYTES // 8):
            address = emit.splat(emit.add(handle, 8 * number))
            found = emit.call(name, "ptr", *POINTERS, trash, SITE, mask, address)
            words.append(emit.load(emit.index(found, "i64", emit.first_lane(mask)), "i64"))
        is_one = emit.compare("eq", words[0], integer("i64", MAGIC))
        with emit.when(emit.not_(is_one)):
            note_fault(emit, POINTERS, Fault(integer("i32", FAULTS["texture"]), SITE, emit.first_lane(mask), handle))
        fields = {}
        for name, (offset, nbytes) in FIELDS.items():
            word = words[offset // 8]
            fields[name] = word if nbytes == 8 else emit.resize(emit.lshr(word, 8 * (offset % 8)), "i32")
        kept = emit.op(f"select {is_one.typed}, {mask.typed}, i32 0", "i32")
        return cls(emit, kept, fields)

    def has(self, flag: int) -> Value:
        """Return whether a flag is set."""
        return self.emit.compare("ne", self.emit.and_(self.fields["flags"], flag), 0)

    def wide(self, name: str) -> Value:
        """Return a field for each lane, as i64."""
        value = self.fields[name]
        return self.emit.splat(self.emit.resize(value, "i64"))

    def each(self, name: str) -> Value:
        """Return a field for each lane, as i32."""
        return self.emit.splat(self.fields[name])


def _filters(found: _Object) -> Value:
    """Return whether an object filters what it reads: floats, and integers that are read as such."""
    emit = found.emit
    reads = emit.binary("or", emit.compare("eq", found.fields["kind"], FLOAT), found.has(READS_NORMALIZED))
    return emit.binary("and", found.has(IS_LINEAR), reads)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Where lanes read along one dimension."""

    size: Value
    """texels, for each lane"""
    mode: Value
    """what is read outside"""
    index: Value
    weight: Value
    """of the texel behind that index"""


class _Fetch:
    """Writes the fetch of lanes that use one object."""

    def __init__(self, emit: Emitter, kind: _Kind, found: _Object) -> None:
        self.emit, self.kind, self.found = emit, kind, found
        gathers = kind.component is not None
        self.is_linear = Value("false", "i1") if kind.by_index or gathers else _filters(found)
        self.lies_between = Value("true", "i1") if gathers else self.is_linear
        self.shadow = emit.allocate("[64 x i8]")
        self.raw = emit.allocate(I32)

    def write(self, out: Value) -> None:
        """Write the loop over the texels that the result is made of."""
        emit = self.emit
        axes = [self._axis(number) for number in range(self.kind.dimensions)]
        emit.store(integer("<8 x i64>", 0), self.shadow, 64)
        corners = emit.op(f"select {self.lies_between.typed}, i32 {1 << len(axes)}, i32 1", "i32")
        with emit.count_up(corners) as corner:
            address, valid, weight = self._texel(axes, corner)
            if self.kind.component is not None:
                self._gather(out, corner, address, valid)
            else:
                self._all_components(out, corner, (address, valid, weight))
        for offset in (16, 24):  # sectors and lines of further rows
            amount = emit.load(emit.at(self.shadow, offset), "i64")
            emit.increase(emit.at(_COUNTERS, offset), amount)

    def _all_components(self, out: Value, corner: Value, texel: tuple[Value, Value, Value]) -> None:
        """Write the components of a corner."""
        emit, found, (address, valid, weight) = self.emit, self.found, texel
        components = emit.intrinsic("umin", found.fields["components"], integer("i32", _COMPONENTS))
        with emit.count_up(components) as component:
            at = emit.mul(component, found.fields["element_bytes"])
            counts = emit.binary("or", component, emit.and_(corner, 1))
            self._load(emit.add(address, emit.splat(emit.resize(at, "i64"))), valid, (corner, counts))
            self._add(emit.index(out, vector("i32"), component), valid, weight)

    def _gather(self, out: Value, corner: Value, address: Value, valid: Value) -> None:
        """Write one component of a corner: results are those at (0, 1), (1, 1), (1, 0) and (0, 0)."""
        emit, fields = self.emit, self.found.fields
        component = integer("i32", self.kind.component or 0)
        valid = emit.and_(valid, emit.splat(emit.compare("ugt", fields["components"], component)))
        at = emit.mul(fields["element_bytes"], component)
        place = emit.add(address, emit.splat(emit.resize(at, "i64")))
        self._load(place, valid, (corner, emit.and_(corner, 1)))
        slot = emit.and_(emit.lshr(integer("i32", _GATHERED), emit.shl(corner, 1)), 3)
        self._add(emit.index(out, vector("i32"), slot), valid, real(F32, 1.0))

    def _axis(self, number: int) -> _Axis:
        emit, found, given = self.emit, self.found, _COORDINATES[number]
        size = found.each(("width", "height", "depth")[number])
        mode = emit.and_(emit.lshr(found.fields["flags"], ADDRESS_SHIFTS[number]), 3)
        if self.kind.by_index:
            return _Axis(size, mode, given, real(F32, 0.0))
        place = emit.cast("bitcast", given, F32)
        whole = emit.intrinsic("floor", place)
        rest, half = emit.binary("fsub", place, whole), emit.binary("fmul", whole, real(F32, 0.5))
        is_odd = emit.compare("one", half, emit.intrinsic("floor", half))
        mirrored = emit.select(is_odd, emit.binary("fsub", real(F32, 1.0), rest), rest)
        folded = emit.select(emit.compare("eq", mode, MIRROR), mirrored, place)
        folded = emit.select(emit.compare("eq", mode, WRAP), rest, folded)
        scaled = emit.binary("fmul", folded, emit.cast("uitofp", size, "float"))
        is_normalized = found.has(IS_NORMALIZED)
        place = emit.select(is_normalized, scaled, place)
        place = emit.select(self.lies_between, emit.binary("fsub", place, real(F32, 0.5)), place)
        whole = emit.intrinsic("floor", place)
        steps = emit.intrinsic("rint", emit.binary("fmul", emit.binary("fsub", place, whole), real(F32, _FRACTION)))
        weight = emit.binary("fmul", steps, real(F32, 1 / _FRACTION))
        weight = emit.select(emit.compare("ord", weight, weight), weight, real(F32, 0.0))  # far outside
        index = emit.call("llvm.fptosi.sat.v32i32.v32f32", I32, whole)
        # Two texels outside are as good as more, and one more than these is a number still.
        index = emit.intrinsic("smin", emit.intrinsic("smax", index, integer(I32, -2)), emit.add(size, 1))
        # What repeats does so by normalised coordinates alone.
        mode = emit.select(emit.or_(is_normalized, emit.compare("uge", mode, CLAMP)), mode, integer("i32", CLAMP))
        return _Axis(size, mode, index, weight)

    def _texel(self, axes: list[_Axis], corner: Value) -> tuple[Value, Value, Value]:
        """Return the addresses of a corner, the lanes for which it lies inside, and its weight."""
        emit, found = self.emit, self.found
        address, valid, weight = found.wide("address"), emit.mask_lanes(found.mask), real(F32, 1.0)
        steps = (emit.splat(emit.resize(emit.mul(found.fields["element_bytes"], found.fields["components"]), "i64")),
                 found.wide("pitch"), found.wide("slice"))  # fmt: skip
        for number, axis in enumerate(axes):
            bit = emit.and_(emit.lshr(corner, number), 1)
            index = emit.add(axis.index, emit.splat(bit))
            is_inside = emit.compare("ult", index, axis.size)
            before, behind = emit.compare("slt", index, 0), emit.compare("sge", index, axis.size)
            around = emit.select(before, emit.add(index, axis.size), index)
            around = emit.select(behind, emit.sub(index, axis.size), around)
            index = emit.select(emit.compare("eq", axis.mode, WRAP), around, index)
            index = emit.intrinsic("smax", emit.intrinsic("smin", index, emit.sub(axis.size, 1)), integer(I32, 0))
            if self.kind.by_index:
                valid = emit.and_(valid, is_inside)
            else:
                has_border = emit.splat(emit.compare("eq", axis.mode, BORDER))
                valid = emit.and_(valid, emit.or_(is_inside, emit.not_(has_border)))
            address = emit.add(address, emit.mul(emit.resize(index, "i64"), steps[number]))
            is_second = emit.compare("ne", bit, 0)
            own = emit.select(is_second, axis.weight, emit.binary("fsub", real(F32, 1.0), axis.weight))
            weight = emit.binary("fmul", weight, own)
        if self.kind.is_layered:
            layers = found.each("layers")
            layer = emit.intrinsic("smin", _COORDINATES[3], emit.sub(layers, 1))
            layer = emit.intrinsic("smax", layer, integer(I32, 0))
            address = emit.add(address, emit.mul(emit.resize(layer, "i64"), found.wide("slice")))
        return address, valid, weight

    def _load(self, address: Value, valid: Value, which: tuple[Value, Value]) -> None:
        """Write the load of one component into ``raw``; the first of a row counts, of further rows apart."""
        emit, (corner, others) = self.emit, which
        emit.store(integer(I32, 0), self.raw, 64)
        mask = emit.mask_bits(valid)
        is_some = emit.compare("ne", mask, 0)
        is_counted = emit.compare("eq", others, 0)
        is_first = emit.compare("eq", corner, 0)
        counters = emit.op(f"select {is_first.typed}, {_COUNTERS.typed}, {self.shadow.typed}", "ptr")
        trash = field(emit, POINTERS[0], WORKER, "trash")
        for size in (1, 2, 4):  # an object of a kernel's own may name other sizes: nothing is loaded then
            fits = emit.binary("and", is_some, emit.compare("eq", self.found.fields["element_bytes"], size))
            ways = [(plain_loader(emit.unit, size), trash, emit.not_(is_counted))]
            if self.kind.operation is None:
                ways = [(plain_loader(emit.unit, size), trash, Value("true", "i1"))]
            else:
                ways.append((loader(emit.unit, "global", size, self.kind.operation), counters, is_counted))
            for name, at, condition in ways:
                with emit.when(emit.binary("and", fits, condition)):
                    found = emit.call(name, "ptr", *POINTERS, at, SITE, mask, address)
                    value = emit.resize(emit.load(found, vector(f"i{8 * size}"), size), "i32")
                    emit.store(emit.select(valid, value, integer(I32, 0)), self.raw, 64)

    def _add(self, place: Value, valid: Value, weight: Value) -> None:
        """Write the conversion of what was loaded, and add it to the result."""
        emit, fields = self.emit, self.found.fields
        raw, before = emit.load(self.raw, I32, 64), emit.load(place, I32, 64)
        above = emit.splat(emit.and_(emit.sub(integer("i32", 32), emit.mul(fields["element_bytes"], 8)), 31))
        extended = emit.ashr(emit.shl(raw, above), above)
        is_signed = emit.compare("eq", fields["kind"], SIGNED)
        value = emit.select(is_signed, extended, raw)
        value = emit.select(emit.compare("eq", fields["kind"], FLOAT), self._number(raw), value)
        is_integer = emit.compare("ne", fields["kind"], FLOAT)
        reads = emit.binary("and", is_integer, self.found.has(READS_NORMALIZED))
        value = emit.select(reads, self._normalized(raw, extended, is_signed), value)
        value = emit.select(valid, value, integer(I32, 0))
        part = emit.binary("fmul", emit.cast("bitcast", value, F32), weight)
        total = emit.binary("fadd", emit.cast("bitcast", before, F32), part)
        value = emit.select(self.is_linear, emit.cast("bitcast", total, I32), value)
        emit.store(emit.select(emit.mask_lanes(self.found.mask), value, before), place, 64)

    def _number(self, raw: Value) -> Value:
        """Return the patterns of singles, of halves too."""
        emit = self.emit
        half = emit.cast("bitcast", conversion.to_f32(emit, emit.resize(raw, "i16"), "f16"), I32)
        return emit.select(emit.compare("eq", self.found.fields["element_bytes"], 2), half, raw)

    def _normalized(self, raw: Value, extended: Value, is_signed: Value) -> Value:
        """Return the patterns of integers as parts of the largest one: 0 to 1, or -1 to 1."""
        emit = self.emit
        bits = emit.and_(emit.sub(integer("i32", 32), emit.mul(self.found.fields["element_bytes"], 8)), 31)
        most, most_signed = (emit.lshr(integer("i32", whole), bits) for whole in (0xFFFFFFFF, 0x7FFFFFFF))
        plain = emit.binary("fdiv", emit.cast("uitofp", raw, "float"), emit.splat(emit.cast("uitofp", most, "float")))
        signed = emit.binary(
            "fdiv", emit.cast("sitofp", extended, "float"), emit.splat(emit.cast("sitofp", most_signed, "float"))
        )
        signed = emit.intrinsic("maxnum", signed, real(F32, -1.0))
        return emit.cast("bitcast", emit.select(is_signed, signed, plain), I32)


# Surfaces, whose first coordinate counts bytes.

_MODES = ("trap", "clamp", "zero")


@dataclass(frozen=True, slots=True)
class _Surface:
    """What is known of an access to a surface where code is written for it."""

    verb: str
    dimensions: int
    is_layered: bool
    size: int
    """bytes of a lane"""
    mode: str
    operation: traces.Operation | None

    @property
    def name(self) -> str:
        """Name of the function."""
        plain = "" if self.operation is not None else "_plain"
        return f"{self.verb}_{self.dimensions}_{int(self.is_layered)}_{self.size}_{self.mode}{plain}"


def _surface_of(o: Operation, operation: traces.Operation | None) -> _Surface:
    dimensions, is_layered = dimensions_of(o)
    count = next((int(m[1]) for m in o.ins.modifiers if m in {"v2", "v4"}), 1)
    mode = next((m for m in o.ins.modifiers if m in _MODES), "trap")
    return _Surface(o.ins.root, dimensions, is_layered, TYPE_BITS[o.type] // 8 * count, mode, operation)


def _surface_call(o: Operation, number: int, counters: Value, operation: traces.Operation | None) -> None:
    emit = o.emit
    kind = _surface_of(o, operation)
    if kind.name not in emit.unit:
        _define_surface(emit.unit, kind)
    place = next(each for each in o.ins.operands if isinstance(each, Address))
    given = [o.block.source(each, "b32") for each in place.coordinates[: kind.dimensions + kind.is_layered]]
    if kind.is_layered:
        given = [*given[1:], *[integer(I32, 0)] * (3 - kind.dimensions), given[0]]
    given += [integer(I32, 0)] * (4 - len(given))
    handle = o.block.source(place.base, "u64") if place.base is not None else integer(I64, 0)
    handle = emit.add(handle, place.offset)
    emit.call_void(kind.name, *_pointers(o), counters, integer("i32", number), o.block.executing, handle, *given)


def read_surface(o: Operation, number: int, counters: Value, operation: traces.Operation | None) -> None:
    """Write suld."""
    target = o.ins.operands[0]
    elements = target.elements if isinstance(target, Vector) else (target,)
    merged, kind = field(o.emit, o.block.pointers.worker, WORKER, "merged"), _surface_of(o, operation)
    o.emit.store(integer(f"<{4 * kind.size} x i64>", 0), merged, 64)
    _surface_call(o, number, counters, operation)
    for each, value in zip(elements, taken_apart(o, merged, TYPE_BITS[o.type] // 8, len(elements)), strict=True):
        o.block.write(each, value)


def write_surface(o: Operation, number: int, counters: Value, operation: traces.Operation | None) -> None:
    """Write sust."""
    source = o.ins.operands[1]
    elements = source.elements if isinstance(source, Vector) else (source,)
    merged = field(o.emit, o.block.pointers.worker, WORKER, "merged")
    o.emit.store(put_together(o, [o.block.source(each, f"b{TYPE_BITS[o.type]}") for each in elements]), merged, 64)
    _surface_call(o, number, counters, operation)


def _define_surface(unit: Unit, kind: _Surface) -> None:
    emit = Emitter(unit, kind.name, "void", (*POINTERS, _COUNTERS, SITE, _MASK, _HANDLE, *_COORDINATES))
    with _each_object(emit) as (found, first):
        address, mask = _place_in_surface(emit, kind, found, first)
        with emit.when(emit.compare("ne", mask, 0)):
            _access_surface(emit, kind, address, mask)
    emit.give()
    emit.finish()


def _place_in_surface(emit: Emitter, kind: _Surface, found: _Object, handle: Value) -> tuple[Value, Value]:
    """Return the addresses of lanes, and the lanes that access anything."""
    texel = emit.mul(found.fields["element_bytes"], found.fields["components"])
    row = emit.mul(emit.resize(found.fields["width"], "i64"), emit.resize(texel, "i64"))
    places = emit.splat(emit.intrinsic("smax", emit.sub(row, kind.size - 1), integer("i64", 0)))
    names = ("height", "depth")[: kind.dimensions - 1]
    limits = [places, *(found.wide(name) for name in names)]
    steps = [integer(I64, 1), found.wide("pitch"), found.wide("slice")][: kind.dimensions]
    given = list(_COORDINATES[: kind.dimensions])
    if kind.is_layered:
        limits, steps, given = [*limits, found.wide("layers")], [*steps, found.wide("slice")], [*given, _COORDINATES[3]]
    address, valid = found.wide("address"), emit.mask_lanes(found.mask)
    for coordinate, limit, step in zip(given, limits, steps, strict=True):
        index = emit.resize(coordinate, "i64", signed=True)
        if kind.mode == "clamp":
            index = emit.intrinsic("smin", index, emit.sub(limit, 1))
            index = emit.intrinsic("smax", index, integer(I64, 0))
        else:
            valid = emit.and_(valid, emit.compare("ult", index, limit))
        address = emit.add(address, emit.mul(index, step))
    mask = emit.mask_bits(valid)
    if kind.mode == "trap":
        failed = emit.and_(found.mask, emit.not_(mask))
        with emit.when(emit.compare("ne", failed, 0)):
            note_fault(emit, POINTERS, Fault(integer("i32", FAULTS["surface"]), SITE, emit.first_lane(failed), handle))
    return address, mask


def _access_surface(emit: Emitter, kind: _Surface, address: Value, mask: Value) -> None:
    merged, staged = (field(emit, POINTERS[0], WORKER, name) for name in ("merged", "staged"))
    arguments = (*POINTERS, _COUNTERS, SITE, mask, address)
    if kind.verb == "sust":
        everything = f"<{4 * kind.size} x i64>"
        emit.store(emit.load(merged, everything, 64), staged, 64)
        emit.call_void(storer(emit.unit, "global", kind.size, kind.operation), *arguments)
        return
    name = loader(emit.unit, "global", kind.size, kind.operation)
    if kind.operation is None:
        name = plain_loader(emit.unit, kind.size)
    found = emit.call(name, "ptr", *arguments)
    with emit.each_bit(mask) as lane:
        place = emit.mul(emit.cast("zext", lane, "i64"), kind.size)
        emit.store(emit.load(emit.at(found, place), f"i{8 * kind.size}", 1), emit.at(merged, place), 1)


ACCESSES = {"tex": fetch, "tld4": fetch, "suld": read_surface, "sust": write_surface}
