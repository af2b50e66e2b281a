"""Launch arguments to the bytes of the kernel's parameters."""

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.compile import KernelSignature, Parameter
from kerncast.errors import LaunchError
from kerncast.launch import ELEMENT_BYTES, Argument, Buffer, Launch, Reference, Struct
from kerncast.ptx import Variable

# The contents of buffers before a launch.


Values = npt.NDArray[Any]

#: NumPy types of the element types of launch files.
ELEMENT_DTYPES = {
    "u8": "u1", "i8": "i1", "u16": "u2", "i16": "i2", "u32": "u4", "i32": "i4", "u64": "u8", "i64": "i8", "f16": "f2",
    "f32": "f4", "f64": "f8",
}  # fmt: skip
_CHUNK = 1 << 20  # elements filled at a time, so that filling takes little memory beside the buffer
_BELOW_ONE = np.float16(1 - 2**-11)


def fill_argument(data: npt.NDArray[np.uint8], launch: Launch, position: int, argument: Argument) -> None:
    """Fill the zeroed memory of a launch's buffer argument: each place in the list draws numbers of its own."""
    assert isinstance(argument.value, Buffer)
    generator = np.random.default_rng([launch.seed, position])
    fill_buffer(data, argument.value, generator, f"{launch.label}, argument {argument.name}")


def fill_buffer(data: npt.NDArray[np.uint8], buffer: Buffer, generator: np.random.Generator, where: str) -> None:
    """Fill zeroed memory as a launch file says; raises LaunchError where that is impossible."""
    values: Values = data.view(ELEMENT_DTYPES[buffer.element])
    match buffer.fill.kind:
        case "ones":
            values[:] = 1
        case "iota":
            for start in range(0, len(values), _CHUNK):
                chunk = values[start : start + _CHUNK]
                with np.errstate(over="ignore"):
                    chunk[:] = np.arange(start, start + len(chunk)).astype(values.dtype)
        case "randint":
            _fill_integers(values, buffer, generator, where)
        case "random":
            _fill_random(values, buffer, generator, where)
        case "file":
            values[:] = _read_file(buffer, where)


def _fill_integers(values: Values, buffer: Buffer, generator: np.random.Generator, where: str) -> None:
    low, high = buffer.fill.low, buffer.fill.high
    dtype = values.dtype if values.dtype.kind != "f" else np.dtype(np.int64)
    limits = np.iinfo(dtype)
    if low < limits.min or high - 1 > limits.max:
        raise LaunchError(f"randint({low}, {high}) does not fit {buffer.element}", where=where)
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        with np.errstate(over="ignore"):
            chunk[:] = generator.integers(low, high, len(chunk), dtype=dtype).astype(values.dtype)


def _fill_random(values: Values, buffer: Buffer, generator: np.random.Generator, where: str) -> None:
    if values.dtype.kind != "f":
        raise LaunchError(
            f"random is uniform in [0, 1), which is 0 for {buffer.element}", where=where, cure="Use randint(lo, hi)."
        )
    if values.dtype.itemsize > 2:
        generator.random(dtype=values.dtype.type, out=values)
        return
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        drawn = generator.random(len(chunk), np.float32).astype(np.float16)
        chunk[:] = np.minimum(drawn, _BELOW_ONE)  # rounding must not reach 1


def _read_file(buffer: Buffer, where: str) -> Values:
    path = buffer.fill.path
    assert path is not None
    try:
        array = np.load(path, allow_pickle=False, mmap_mode="r")
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise LaunchError(f"{path} cannot be read as .npy ({error})", where=where) from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise LaunchError(f"{path} holds several arrays", where=where, cure="Save one array, as .npy.")
    if array.dtype != np.dtype(ELEMENT_DTYPES[buffer.element]) or array.size != buffer.count:
        held = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
        wanted = f"{np.dtype(ELEMENT_DTYPES[buffer.element])}[{', '.join(map(str, buffer.shape))}]"
        raise LaunchError(f"{path} holds {held}, not {wanted}", where=where)
    return np.ascontiguousarray(array).reshape(-1)


@dataclass(frozen=True, slots=True)
class BoundArgument:
    """One argument beside the parameter that it is passed to."""

    argument: Argument
    parameter: Variable
    declared: Parameter | None
    """None where the source's signature is unknown"""

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
        raise LaunchError(f"{value} is given for a parameter that is no pointer", where=where, cure="Give a number.")
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
            raw = struct.pack("<Q", next(following))
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
        if one.kind not in {"pointer", "unknown"} or size != 8 or one.is_float:
            raise LaunchError(
                "a buffer is given for a parameter that is no pointer", where=where, cure="Give a number or a struct."
            )
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
