"""Launch arguments to the bytes of the kernel's parameters."""

import difflib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.bounded_file import opened, place_of
from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import DeviceVariable, KernelSignature, Parameter
from kerncast.errors import InputError, LaunchError
from kerncast.execute.setup.npy_file import read_header, read_npy
from kerncast.execute.setup.paged import PERIOD_BYTES, kept_bytes, repeat
from kerncast.execute.setup.small_floats import KINDS, LARGEST_BELOW_ONE, codes_of
from kerncast.launch import (
    ELEMENT_BYTES,
    FILL_FILE,
    FLOAT_ELEMENTS,
    MAP_BYTES,
    Argument,
    Buffer,
    Launch,
    Reference,
    Struct,
)
from kerncast.ptx import Variable, source_name

Values = npt.NDArray[Any]

#: NumPy types of the element types of launch files; floats that NumPy does not have are bit patterns.
ELEMENT_DTYPES = {
    "u8": "u1", "i8": "i1", "u16": "u2", "i16": "i2", "u32": "u4", "i32": "i4", "u64": "u8", "i64": "i8", "f16": "f2",
    "f32": "f4", "f64": "f8", "bf16": "u2", **dict.fromkeys(KINDS, "u1"),
}  # fmt: skip
_BIT_PATTERNS = frozenset({"bf16", *KINDS})
#: Integers that iota has counted through within what repeats.
_WRAPPING = frozenset({"u8", "i8", "u16", "i16"})
_CHUNK = 1 << 20  # elements filled at a time, so that filling takes little memory beside the buffer
#: Largest number below 1 of each short format.
_BELOW_ONE = {"f16": 1 - 2**-11, "bf16": 1 - 2**-8, **LARGEST_BELOW_ONE}


def fill_argument(
    data: npt.NDArray[np.uint8], launch: Launch, position: int, argument: Argument, *, repeats: bool = False
) -> None:
    """Fill the zeroed memory of a launch's buffer argument: each place in the list draws numbers of its own."""
    assert isinstance(argument.value, Buffer)
    generator = np.random.default_rng([launch.seed, position])
    fill_buffer(data, argument.value, generator, f"{launch.label}, argument {argument.name}", repeats=repeats)


def kept_bytes_of(buffer: Buffer, *, repeats: bool) -> int:
    """Return the memory that the values of a buffer take before anything is touched."""
    if buffer.fill.kind == "zeros":
        return 0
    return kept_bytes(buffer.nbytes) if repeats and _may_repeat(buffer) else buffer.nbytes


def _may_repeat(buffer: Buffer) -> bool:
    """Return whether the values of a large buffer may repeat: numbers that count up, and a file's, are all others."""
    counts_up = buffer.fill.kind == "iota" and buffer.element not in _WRAPPING
    return buffer.nbytes > PERIOD_BYTES and buffer.fill.kind not in {"zeros", "file"} and not counts_up


def fill_buffer(
    data: npt.NDArray[np.uint8], buffer: Buffer, generator: np.random.Generator, where: str, *, repeats: bool = False
) -> None:
    """Fill zeroed memory as a launch file says; raises LaunchError where that is impossible.

    ``repeats`` says that values may repeat where the buffer is large, so that they take less memory.
    """
    if repeats and _may_repeat(buffer):
        repeat(data, lambda part: _fill_values(part, buffer, generator, where))
    else:
        _fill_values(data, buffer, generator, where)


def _fill_values(data: npt.NDArray[np.uint8], buffer: Buffer, generator: np.random.Generator, where: str) -> None:
    values: Values = data.view(ELEMENT_DTYPES[buffer.element])
    match buffer.fill.kind:
        case "ones":
            values[:] = _encoded(np.ones(buffer.numbers_per_element), buffer)
        case "iota":
            per = buffer.numbers_per_element
            for start in range(0, len(values), _CHUNK):
                chunk = values[start : start + _CHUNK]
                chunk[:] = _encoded(np.arange(per * start, per * (start + len(chunk))), buffer)
        case "randint":
            _fill_integers(values, buffer, generator, where)
        case "random":
            _fill_random(values, buffer, generator, where)
        case "file":
            _fill_from_file(values, buffer, where)


def _fill_integers(values: Values, buffer: Buffer, generator: np.random.Generator, where: str) -> None:
    low, high = buffer.fill.low, buffer.fill.high
    dtype = np.dtype(np.int64) if buffer.element in FLOAT_ELEMENTS else values.dtype
    limits = np.iinfo(dtype)
    if low < limits.min or high - 1 > limits.max:
        raise LaunchError(f"randint({low}, {high}) does not fit {buffer.element}", where=where)
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        chunk[:] = _encoded(generator.integers(low, high, len(chunk) * buffer.numbers_per_element, dtype=dtype), buffer)


def _encoded(numbers: Values, buffer: Buffer) -> Values:
    """Return numbers as the elements of a buffer hold them: rounded, wrapped around where an integer is too large."""
    if buffer.element == "bf16":
        raw = numbers.astype(np.float32).view(np.uint32)
        return ((raw + np.uint32(0x7FFF) + (raw >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    if buffer.element in KINDS:
        return codes_of(numbers.astype(np.float64), buffer.element)
    with np.errstate(over="ignore"):
        return numbers.astype(ELEMENT_DTYPES[buffer.element])


def _fill_random(values: Values, buffer: Buffer, generator: np.random.Generator, where: str) -> None:
    if buffer.element not in FLOAT_ELEMENTS:
        raise LaunchError(
            f"random is uniform in [0, 1), which is 0 for {buffer.element}", where=where, cure="Use randint(lo, hi)."
        )
    if buffer.element in {"f32", "f64"}:
        generator.random(dtype=values.dtype.type, out=values)
        return
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        drawn = generator.random(len(chunk) * buffer.numbers_per_element, np.float32)
        chunk[:] = _encoded(np.minimum(drawn, _BELOW_ONE[buffer.element]), buffer)  # rounding must not reach 1


def _fill_from_file(values: Values, buffer: Buffer, where: str) -> None:
    path = buffer.fill.path
    assert path is not None
    try:
        with opened(path, FILL_FILE) as stream:
            if buffer.element in _BIT_PATTERNS:
                _read_numbers(stream, values, buffer)
            else:
                read_npy(stream, values, buffer.shape)
    except InputError as error:
        raise LaunchError(f"{place_of(path)}: {error.what}", where=where, cure=error.cure) from None


def _read_numbers(stream: BufferedReader, values: Values, buffer: Buffer) -> None:
    """Read floats that NumPy does not have: singles, which are rounded, or patterns, as ml_dtypes saves them too."""
    header = read_header(stream)
    stream.seek(0)
    if header.kind == np.float32:
        numbers = np.empty(buffer.count * buffer.numbers_per_element, np.float32)
        read_npy(stream, numbers, buffer.shape)
        values[:] = _encoded(numbers, buffer)
    elif header.kind == values.dtype or header.kind == np.dtype(f"V{values.dtype.itemsize}"):
        read_npy(stream, values.view(header.kind), buffer.shape)
    else:
        cure = f"Save numpy.float32, which is rounded to {buffer.element}, or its patterns as numpy.{values.dtype}."
        raise InputError(f"it holds {header}", cure=cure)


@dataclass(frozen=True, slots=True)
class BoundArgument:
    """One argument beside the parameter that it is passed to."""

    argument: Argument
    parameter: Variable
    declared: Parameter | None
    """parameter as the source declares it; None where the signature is unknown"""

    @property
    def kind(self) -> str:
        """Say pointer, integer, float, bool, struct or unknown."""
        return self.declared.kind if self.declared else "unknown"

    @property
    def is_float(self) -> bool:
        """Whether the parameter is a floating-point number."""
        return self.kind == "float" or self.parameter.type in {"f16", "f32", "f64"}


def bind_arguments(
    launch: Launch, parameters: tuple[Variable, ...], signature: KernelSignature | None
) -> tuple[BoundArgument, ...]:
    """Match the arguments of a launch with the kernel's parameters; raises LaunchError where they don't fit."""
    declared: tuple[Parameter | None, ...] = signature.parameters if signature else (None,) * len(parameters)
    if len(declared) != len(parameters):  # a parameter pack: the source does not say how many there are
        declared = (None,) * len(parameters)
    arguments = _in_order(launch, [p.name if p else "" for p in declared])
    if len(arguments) != len(parameters):
        names = [p.name for p in declared if p]
        raise LaunchError(
            f"{len(arguments)} arguments for {len(parameters)} parameters"
            + (f" ({', '.join(names)})" if names else ""),
            where=launch.label,
            cure="Give one argument per parameter, in their order.",
        )
    bound = tuple(BoundArgument(*each) for each in zip(arguments, parameters, declared, strict=True))
    buffers = _buffers(bound)
    for one in bound:
        where = f"{launch.label}, argument {one.argument.name}"
        if isinstance(one.argument.value, Reference):
            _check_reference(one, one.argument.value, buffers, where)
        else:
            _check_kind(one, where)
    return bound


def _buffers(bound: tuple[BoundArgument, ...]) -> dict[str, Buffer]:
    return {one.argument.name: one.argument.value for one in bound if isinstance(one.argument.value, Buffer)}


def _check_reference(one: BoundArgument, value: Reference, buffers: dict[str, Buffer], where: str) -> None:
    if one.kind not in {"pointer", "unknown"} or one.parameter.nbytes != 8 or one.is_float:
        raise LaunchError(f"{value} is given for a parameter that is not a pointer", where=where, cure="Give a number.")
    if value.name in buffers and buffers[value.name].sampling is not None:
        raise LaunchError(f"{value.name} is a texture or surface, which has no elements", where=where)
    if value.name not in buffers:
        known = f"Arguments with a buffer: {', '.join(buffers)}." if buffers else "No argument has one."
        raise LaunchError(f"no argument {value.name} has a buffer", where=where, cure=known)
    count = buffers[value.name].count
    if value.offset >= count:
        raise LaunchError(
            f"{value} lies outside {value.name}, which has {count} elements",
            where=where,
            cure=f"Give 0 to {count - 1}.",
        )


def own_buffers(bound: tuple[BoundArgument, ...]) -> frozenset[str]:
    """Return the parameters that point to a buffer which no other one reaches; none where some share buffers."""
    if any(isinstance(one.argument.value, Reference) for one in bound):
        return frozenset()
    return frozenset(one.parameter.name for one in bound if isinstance(one.argument.value, Buffer))


def pack_parameters(bound: tuple[BoundArgument, ...], addresses: list[int], offsets: list[int]) -> bytes:
    """Return the parameter block: each argument at its offset; ``addresses`` are those of the buffers, in order."""
    data = bytearray(offsets[-1] + bound[-1].parameter.nbytes if bound else 0)
    following = iter(addresses)
    held = {name: place for (name, _), place in zip(_buffers(bound).items(), addresses, strict=False)}
    for one, offset in zip(bound, offsets, strict=True):
        value = one.argument.value
        if isinstance(value, Buffer):
            address = next(following)
            raw = struct.pack("<Q", address) if value.tiles is None else value.tiles.at(address).coded()
        elif isinstance(value, Struct):
            raw = value.data
        elif isinstance(value, Reference):
            element = ELEMENT_BYTES[_buffers(bound)[value.name].element]
            raw = struct.pack("<Q", held[value.name] + value.offset * element)
        else:
            raw = pack_number(one, value)
        data[offset : offset + len(raw)] = raw
    return bytes(data)


def _in_order(launch: Launch, names: list[str]) -> tuple[Argument, ...]:
    """Order by name where every name is a parameter's; a name in another parameter's place is a mistake."""
    given = {argument.name: argument for argument in launch.arguments}
    if len(given) != len(launch.arguments):
        twice = next(a.name for a in launch.arguments if given[a.name] is not a)
        raise LaunchError(f"argument {twice} is given twice", where=launch.label, cure="Give it once.")
    if len(given) == len(names) and set(given) == set(names):
        return tuple(given[name] for name in names)
    for argument, name in zip(launch.arguments, names, strict=False):
        if argument.name in names and argument.name != name:
            raise LaunchError(
                f"argument {argument.name} stands where parameter {name} belongs",
                where=launch.label,
                cure=f"The parameters are {', '.join(names)}.",
            )
    return launch.arguments


def _check_kind(one: BoundArgument, where: str) -> None:
    value, size = one.argument.value, one.parameter.nbytes
    if isinstance(value, Buffer):
        _check_buffer(one, value, where)
    elif one.kind == "pointer":
        if isinstance(value, Struct) or value != 0:
            cure = 'Give a buffer such as "f32[1024] random", a place in another one such as "&x[128]", or 0.'
            raise LaunchError("a pointer is given neither a buffer nor 0", where=where, cure=cure)
    elif isinstance(value, Struct):
        if len(value.data) != size:
            raise LaunchError(
                f"{len(value.data)} bytes are given for a parameter of {size}", where=where, cure="Give all its bytes."
            )
    elif one.kind == "struct" or (one.parameter.type == "b8" and not one.is_float):
        raise LaunchError(f"a number is given for a struct of {size} bytes", where=where, cure='Give "bytes(hex)".')
    else:
        check_number(one, value, where)


def _check_buffer(one: BoundArgument, value: Buffer, where: str) -> None:
    size = one.parameter.nbytes
    if value.sampling is not None:
        if one.kind not in {"integer", "unknown"} or size != 8 or one.is_float:
            what = "a parameter that is no texture or surface object gets one"
            raise LaunchError(what, where=where, cure="Give a number, or a buffer without texture(…).")
    elif value.tiles is not None:
        if one.kind not in {"struct", "unknown"} or size != MAP_BYTES:
            what = "a parameter that is no tensor map of 128 bytes gets one"
            raise LaunchError(what, where=where, cure="Give a number, or a buffer without tensormap(…).")
    else:
        if one.kind not in {"pointer", "unknown"} or size != 8 or one.is_float:
            raise LaunchError(
                "a parameter that is not a pointer gets a buffer", where=where, cure="Give a number or a struct."
            )
        if value.is_typed and one.declared is not None:
            _check_pointee(one.declared, value, where)


def _check_pointee(declared: Parameter, value: Buffer, where: str) -> None:
    """Refuse an array whose elements are not what the parameter points to: of another width, or floats for integers."""
    element, size = declared.element, declared.pointee_bytes
    if element is not None and not _are_alike(element, value.element):
        numpy_name = np.dtype(ELEMENT_DTYPES[element]).name
        cure = f"Pass array.astype(numpy.{numpy_name}), or its bytes as they are: array.view(numpy.{numpy_name})."
        what = f"an array of {np.dtype(ELEMENT_DTYPES[value.element]).name} is given for {declared.type_text}"
        raise LaunchError(what, where=where, cure=cure)
    if element is None and size and value.nbytes % size:
        what = f"an array of {value.nbytes} bytes is given for {declared.type_text}, each of {size} bytes"
        raise LaunchError(what, where=where, cure="Pass whole elements.")


def _are_alike(one: str, other: str) -> bool:
    return ELEMENT_BYTES[one] == ELEMENT_BYTES[other] and (one in FLOAT_ELEMENTS) == (other in FLOAT_ELEMENTS)


def check_number(one: BoundArgument, value: Any, where: str) -> None:
    """Raise LaunchError for a number that the parameter cannot hold."""
    if one.is_float:
        _check_float(one, value, where)
        return
    if isinstance(value, float) and not value.is_integer():
        raise LaunchError(f"{value} is given for an integer parameter", where=where, cure="Give a whole number.")
    bits = 8 * one.parameter.nbytes
    lowest, highest = -(1 << (bits - 1)), (1 << bits) - 1
    if one.kind == "bool":
        lowest, highest = 0, 1
    elif one.declared and one.kind == "integer":
        lowest, highest = (lowest, highest >> 1) if one.declared.signed else (0, highest)
    if not lowest <= int(value) <= highest:
        raise LaunchError(
            f"{int(value)} does not fit a parameter of {bits} bits", where=where, cure=f"Give {lowest} to {highest}."
        )


def _check_float(one: BoundArgument, value: Any, where: str) -> None:
    largest = float(np.finfo(f"f{one.parameter.nbytes}").max)
    is_special = isinstance(value, float) and not math.isfinite(value)
    if not is_special and abs(value) > largest:
        raise LaunchError(
            f"{value} does not fit a floating-point parameter of {8 * one.parameter.nbytes} bits",
            where=where,
            cure=f"Give at most {largest:.6g}.",
        )


def pack_number(one: BoundArgument, value: float) -> bytes:
    """Return the bytes of a number as the parameter's type has them."""
    size = one.parameter.nbytes
    if one.is_float:
        return np.array([float(value)]).astype(f"f{size}").tobytes()
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


# What variables in constant and global memory hold when a kernel starts, beyond their own initial values.
#
# A launch says it; for the rest, literal data that the source's host code copies to a variable counts, with a remark.
# A variable that only the host could set is zero, and a remark says that too.


Bytes = npt.NDArray[np.uint8]

#: Apart from the places of arguments, so that a variable draws random numbers of its own.
_FIRST_PLACE = 1 << 20
_POINTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class GlobalValue:
    """One variable and the value that a launch gives it."""

    variable: Variable
    declared: DeviceVariable | None
    """variable as the source declares it; None where the declaration is unknown"""
    given: Argument
    place: int
    where: str

    @property
    def pointee(self) -> Buffer | None:
        """The buffer that the variable points to, where it is a pointer that is given one."""
        value = self.given.value
        return value if isinstance(value, Buffer) and _is_pointer(self.variable, self.declared) else None

    def write(self, data: Bytes, launch: Launch, *, repeats: bool = False) -> None:
        """Write the value into the memory of the variable, or of what it points to; raises LaunchError."""
        value = self.given.value
        if isinstance(value, Buffer):
            if self.pointee is None:  # over the variable's initial value
                data[:] = 0
            generator = np.random.default_rng([launch.seed, _FIRST_PLACE + self.place])
            fill_buffer(data, value, generator, self.where, repeats=repeats)
        elif isinstance(value, Struct):
            data[:] = np.frombuffer(value.data, np.uint8)
        elif not isinstance(value, Reference):
            data[:] = np.frombuffer(pack_number(_as_parameter(self), value), np.uint8)


def match_globals(
    launch: Launch, reached: Sequence[Variable], declared: Sequence[DeviceVariable]
) -> tuple[GlobalValue, ...]:
    """Return the values that a launch gives the variables of its kernel; raises LaunchError where they do not fit."""
    values: list[GlobalValue] = []
    for place, given in enumerate(launch.globals):
        where = f"{launch.label}, global {given.name}"
        found = [variable for variable in reached if _means(given.name, variable)]
        exact = [variable for variable in found if source_name(variable.name) == given.name.removeprefix("::")] or found
        if len(exact) > 1:
            names = ", ".join(source_name(variable.name) for variable in exact)
            raise LaunchError(
                "several variables have this name", where=where, cure=f"Write the namespace too: {names}."
            )
        if exact:
            value = GlobalValue(exact[0], _declaration(exact[0], declared), given, place, where)
            if any(other.variable is value.variable for other in values):
                raise LaunchError("this variable is given twice", where=where, cure="Give it once.")
            _check(value)
            values.append(value)
        elif not any(_is_called(each.name, given.name) for each in declared):
            raise _unknown(given.name, where, reached)
    return tuple(values)


def unset_remarks(
    values: Sequence[GlobalValue], reached: Sequence[Variable], declared: Sequence[DeviceVariable]
) -> tuple[Caveat, ...]:
    """Return what is to be said of variables that the launch gives no value and the host would set."""
    remarks = []
    for variable in _left(values, reached):
        known = _declaration(variable, declared) or _as_declared(variable)
        if not known.copies and (not known.is_constant or known.has_initial):
            continue
        name, key = known.name, _key(known.name)
        places = ", ".join(f"{Path(copy.file).name} line {copy.line}" for copy in known.copies[:3])
        if copied(variable, known) is not None:
            remarks.append(Caveat.of(CaveatKind.VARIABLE_COPIED, name, places=places))
        elif places:
            kind = CaveatKind.INITIAL_VALUE_REPLACED if known.has_initial else CaveatKind.VARIABLE_SET_BY_HOST
            remarks.append(Caveat.of(kind, name, places=places, key=key))
        else:
            remarks.append(Caveat.of(CaveatKind.CONSTANT_NEVER_SET, name, key=key))
    return tuple(remarks)


def copied(variable: Variable, declared: DeviceVariable | None) -> bytes | None:
    """Return what the host copies to a variable, where it does so once and the text of the source says what."""
    if declared is None or len(declared.copies) != 1:
        return None
    data = declared.copies[0].data
    return data if data is not None and len(data) == variable.nbytes else None


def copied_data(
    values: Sequence[GlobalValue], reached: Sequence[Variable], declared: Sequence[DeviceVariable]
) -> dict[str, bytes]:
    """Return what the host copies to the variables that the launch gives no value, by their names in PTX."""
    found = {}
    for variable in _left(values, reached):
        data = copied(variable, _declaration(variable, declared))
        if data is not None:
            found[variable.name] = data
    return found


def check_needs_none(launch: Launch, reached: Sequence[Variable], declared: Sequence[DeviceVariable]) -> None:
    """Raise LaunchError where a kernel reads variables that are more than their initial values: a GPU's are not set."""
    values = match_globals(launch, reached, declared)
    names = [source_name(value.variable.name) for value in values]
    names += [source_name(name) for name in copied_data(values, reached, declared)]
    if names:
        raise LaunchError(
            f"the kernel reads {', '.join(names)}, and variables cannot be set on a GPU yet",
            where=launch.label,
            cure="Pass what they hold as arguments, or give them initial values in the source.",
        )


def _left(values: Sequence[GlobalValue], reached: Sequence[Variable]) -> list[Variable]:
    given = {value.variable.name for value in values}
    return [variable for variable in reached if variable.name not in given]


def _declaration(variable: Variable, declared: Sequence[DeviceVariable]) -> DeviceVariable | None:
    name = source_name(variable.name)
    found = [each for each in declared if each.name == name]
    return found[0] if len(found) == 1 else None


def _as_declared(variable: Variable) -> DeviceVariable:
    """Return what the PTX alone tells of a variable, such as of a template's; one inside a function no host can set."""
    is_local = variable.name.startswith("_ZZ")
    has_initial = bool(variable.initial or variable.relocations) or is_local
    return DeviceVariable(
        source_name(variable.name), variable.space == "const", variable.type, None, variable.nbytes, has_initial, line=0
    )


def _means(name: str, variable: Variable) -> bool:
    return name == variable.name or _is_called(source_name(variable.name), name)


def _is_called(qualified: str, name: str) -> bool:
    short = name.removeprefix("::")
    return qualified == short or qualified.endswith(f"::{short}")


def _unknown(name: str, where: str, reached: Sequence[Variable]) -> LaunchError:
    names = sorted({source_name(variable.name) for variable in reached if "$" not in variable.name})
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}? " if near else ""
    used = f"It uses {', '.join(names[:20])}." if names else "It uses none."
    return LaunchError("the kernel uses no such variable", where=where, cure=hint + used)


def _check(value: GlobalValue) -> None:
    variable, given = value.variable, value.given.value
    size = variable.nbytes
    if isinstance(given, Buffer):
        if value.pointee is not None:
            return
        if given.nbytes != size:
            raise _wrong_size(value, given.nbytes)
        _check_element(value, given)
    elif isinstance(given, Struct):
        if len(given.data) != size:
            raise _wrong_size(value, len(given.data))
    elif isinstance(given, Reference):
        raise LaunchError(
            f"{given} is given for a variable", where=value.where, cure="Only arguments may share a buffer."
        )
    elif variable.count != 1 or (variable.type == "b8" and size != 1):
        raise LaunchError(
            f"a number is given for {_described(value)}",
            where=value.where,
            cure='Give "f32[25] random" or "bytes(hex)".',
        )
    elif _is_pointer(variable, value.declared):
        if given != 0:
            cure = 'Give a buffer such as "f32[1024] random", or 0.'
            raise LaunchError("a pointer is given neither a buffer nor 0", where=value.where, cure=cure)
    else:
        check_number(_as_parameter(value), given, value.where)


def _check_element(value: GlobalValue, given: Buffer) -> None:
    """Refuse elements of another width, or floats for integers, where the source says what the variable holds."""
    element = value.declared.element if value.declared else None
    if element is not None and not _are_alike(element, given.element):
        raise LaunchError(
            f"{given.element} is given for {_described(value)}",
            where=value.where,
            cure=f"Give elements of type {element}.",
        )


def _wrong_size(value: GlobalValue, nbytes: int) -> LaunchError:
    return LaunchError(
        f"{nbytes} bytes are given for {_described(value)}", where=value.where, cure="Give as many bytes as it has."
    )


def _described(value: GlobalValue) -> str:
    text = f"{value.declared.type_text}, " if value.declared else ""
    return f"a variable of {text}{value.variable.nbytes} bytes"


def _is_pointer(variable: Variable, declared: DeviceVariable | None) -> bool:
    """Whether a variable is one pointer."""
    is_word = variable.count == 1 and variable.nbytes == _POINTER_BYTES
    return is_word and declared is not None and declared.type_text.removesuffix("const").rstrip().endswith("*")


def _as_parameter(value: GlobalValue) -> BoundArgument:
    """Return the value as if it were passed to a parameter of the variable's type."""
    declared = value.declared
    element = declared.element if declared else None
    if declared is None or element is None:
        return BoundArgument(value.given, value.variable, None)
    kind = "bool" if declared.type_text.endswith("bool") else "float" if element[0] == "f" else "integer"
    return BoundArgument(
        value.given,
        value.variable,
        Parameter(
            declared.name, declared.type_text, kind, declared.byte_size, is_pointer=False, is_const=False,
            signed=element[0] == "i", element=element, pointee_type=None, pointee_bytes=None,
        ),
    )  # fmt: skip


def _key(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'
