"""Launch arguments to parameter bytes and buffers."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.compile import KernelSignature
from kerncast.errors import LaunchError
from kerncast.launch import Argument, Buffer, Launch, Struct
from kerncast.ptx.module import Variable

_DTYPES = {
    "u8": "u1", "i8": "i1", "u16": "u2", "i16": "i2", "u32": "u4", "i32": "i4", "u64": "u8", "i64": "i8", "f16": "f2",
    "f32": "f4", "f64": "f8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BoundArgument:
    """One argument beside the parameter that it is passed to."""

    argument: Argument
    parameter: Variable
    is_pointer: bool | None
    """None where the source's signature is unknown"""
    kind: str
    """pointer, integer, float, bool, struct or unknown"""
    signed: bool


def bind_arguments(
    launch: Launch, parameters: tuple[Variable, ...], signature: KernelSignature | None
) -> tuple[BoundArgument, ...]:
    """Match the arguments of a launch with the kernel's parameters; raises LaunchError where they don't fit."""
    names = [p.name for p in signature.parameters] if signature else [None] * len(parameters)
    arguments = _in_order(launch, names, signature)
    if len(arguments) != len(parameters):
        expected = f" ({', '.join(str(n) for n in names)})" if signature else ""
        raise LaunchError(
            f"{len(arguments)} arguments for {len(parameters)} parameters{expected}",
            where=launch.label,
            cure="Give one argument per parameter, in their order.",
        )
    bound = []
    for position, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True)):
        declared = signature.parameters[position] if signature and len(signature.parameters) > position else None
        one = BoundArgument(
            argument,
            parameter,
            declared.is_pointer if declared and declared.kind != "unknown" else None,
            declared.kind if declared else "unknown",
            declared.signed if declared else True,
        )
        _check_kind(one, launch)
        bound.append(one)
    return tuple(bound)


def pack_parameters(bound: tuple[BoundArgument, ...], addresses: dict[str, int], offsets: list[int]) -> bytes:
    """Return the parameter block: each argument at its offset."""
    data = bytearray(offsets[-1] + bound[-1].parameter.nbytes if bound else 0)
    for one, offset in zip(bound, offsets, strict=True):
        value = one.argument.value
        if isinstance(value, Buffer):
            raw = struct.pack("<Q", addresses[one.argument.name])
        elif isinstance(value, Struct):
            raw = value.data
        else:
            raw = _pack_scalar(one, value)
        data[offset : offset + len(raw)] = raw
    return bytes(data)


def fill_buffers(bound: tuple[BoundArgument, ...], launch: Launch) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the contents of each buffer that is not all zeros."""
    for position, one in enumerate(bound):
        value = one.argument.value
        if isinstance(value, Buffer) and value.fill.kind != "zeros":
            generator = np.random.default_rng([launch.seed, position])
            yield one.argument.name, _fill(value, generator, f"{launch.label}, argument {one.argument.name}")


def _in_order(
    launch: Launch, names: list[str] | list[None], signature: KernelSignature | None
) -> tuple[Argument, ...]:
    """Order by name where every name is a parameter's; a name in another parameter's place is a mistake."""
    given = {argument.name: argument for argument in launch.arguments}
    if signature and len(given) == len(names) and set(given) == set(names):
        return tuple(given[str(name)] for name in names)
    for argument, name in zip(launch.arguments, names, strict=False):
        if argument.name in names and argument.name != name:
            raise LaunchError(
                f"argument {argument.name} stands where parameter {name} belongs",
                where=launch.label,
                cure=f"The parameters are {', '.join(str(n) for n in names)}.",
            )
    return launch.arguments


def _check_kind(one: BoundArgument, launch: Launch) -> None:
    value = one.argument.value
    size = one.parameter.nbytes
    where = f"{launch.label}, argument {one.argument.name}"
    if isinstance(value, Buffer):
        if one.is_pointer is False or size != 8:
            raise LaunchError("a buffer is given for a parameter that is no pointer", where=where, cure="Give a number.")
    elif isinstance(value, Struct):
        if len(value.data) != size:
            raise LaunchError(f"{len(value.data)} bytes are given for a parameter of {size}", where=where)
    elif one.is_pointer and value != 0:
        raise LaunchError(
            "a number is given for a pointer", where=where, cure='Give a buffer such as "f32[1024] random", or 0.'
        )
    elif one.parameter.type == "b8" and one.parameter.count > 1 and size not in {2, 4, 8}:
        raise LaunchError(f"a number is given for a struct of {size} bytes", where=where, cure='Give "bytes(hex)".')
    else:
        _check_number(one, value, where)


def _check_number(one: BoundArgument, value: float, where: str) -> None:
    bits = 8 * one.parameter.nbytes
    if _is_float(one):
        if isinstance(value, int) and abs(value) > 2**1023:
            raise LaunchError(f"{value} is too large", where=where)
        return
    if isinstance(value, float) and not value.is_integer():
        raise LaunchError(f"{value} is given for an integer parameter", where=where, cure="Give a whole number.")
    whole = int(value)
    low, high = (-(1 << (bits - 1)), (1 << bits) - 1)
    if one.kind == "integer":
        low, high = (low, (1 << (bits - 1)) - 1) if one.signed else (0, high)
    if not low <= whole <= high:
        raise LaunchError(f"{whole} does not fit a parameter of {bits} bits ({low} to {high})", where=where)


def _is_float(one: BoundArgument) -> bool:
    return one.kind == "float" or one.parameter.type in {"f32", "f64", "f16"}


def _pack_scalar(one: BoundArgument, value: float) -> bytes:
    size = one.parameter.nbytes
    if _is_float(one):
        return np.array([value], f"f{size}").tobytes()
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _fill(buffer: Buffer, generator: np.random.Generator, where: str) -> npt.NDArray[Any]:
    dtype = np.dtype(_DTYPES[buffer.element])
    fill = buffer.fill
    if fill.kind == "ones":
        return np.ones(buffer.count, dtype)
    if fill.kind == "iota":
        with np.errstate(over="ignore"):
            return np.arange(buffer.count).astype(dtype)
    if fill.kind == "randint":
        return _random_integers(buffer, generator, where)
    if fill.kind == "file":
        return _from_file(buffer, where)
    if dtype.kind != "f":
        raise LaunchError(
            f"random is uniform in [0, 1), which is 0 for {buffer.element}", where=where, cure="Use randint(lo, hi)."
        )
    if dtype.itemsize == 2:  # rounding must not reach 1
        below_one = np.float16(1 - 2**-11)
        return np.minimum(generator.random(buffer.count, np.float32).astype(np.float16), below_one)
    return generator.random(buffer.count, np.float32 if dtype.itemsize == 4 else np.float64)


def _random_integers(buffer: Buffer, generator: np.random.Generator, where: str) -> npt.NDArray[Any]:
    dtype = np.dtype(_DTYPES[buffer.element])
    low, high = buffer.fill.low, buffer.fill.high
    if dtype.kind == "f":
        return generator.integers(low, high, buffer.count).astype(dtype)
    limits = np.iinfo(dtype)
    if low < limits.min or high - 1 > limits.max:
        raise LaunchError(f"randint({low}, {high}) does not fit {buffer.element}", where=where)
    return generator.integers(low, high, buffer.count, dtype=dtype)


def _from_file(buffer: Buffer, where: str) -> npt.NDArray[Any]:
    path = buffer.fill.path
    assert path is not None
    try:
        array = np.load(path, allow_pickle=False, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise LaunchError(f"{path} cannot be read as .npy ({error})", where=where) from None
    dtype = np.dtype(_DTYPES[buffer.element])
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.size != buffer.count:
        kind = f"{array.dtype}[{array.size}]" if isinstance(array, np.ndarray) else "no array"
        raise LaunchError(f"{path} holds {kind}, not {buffer.element}[{buffer.count}]", where=where)
    return np.ascontiguousarray(array).reshape(-1)

