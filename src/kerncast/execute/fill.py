"""The contents of buffers before a launch."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import LaunchError
from kerncast.launch import Argument, Buffer, Launch

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
