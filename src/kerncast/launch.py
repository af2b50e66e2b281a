"""NOUN Launch: one kernel, its geometry and its arguments; reads and writes launch files.

The format is described in ``docs/launch-file.md``. A launch file is TOML; each ``[[launch]]`` is one launch.
"""

import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kerncast.errors import LaunchError

Extent = tuple[int, int, int]

#: Bytes of one element, by the type names of launch files.
ELEMENT_BYTES = {
    "u8": 1, "i8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8, "f16": 2, "f32": 4, "f64": 8,
}  # fmt: skip

#: Limits of every CUDA GPU since compute capability 3.0 (CUDA C++ Programming Guide, technical specifications).
MAX_GRID: Extent = (2**31 - 1, 65535, 65535)
MAX_BLOCK: Extent = (1024, 1024, 64)
MAX_THREADS_PER_BLOCK = 1024

_BUFFER = re.compile(r"\s*([a-z]+\d+)\s*\[([^\]]*)\]\s*(.*?)\s*", re.DOTALL)
_FILL = re.compile(r"(zeros|ones|random|iota|randint|file)\s*(?:\((.*)\))?", re.DOTALL)
_STRUCT = re.compile(r"\s*bytes\(\s*((?:[0-9a-fA-F]{2}\s*)+)\)\s*")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Fill:
    """How a buffer is filled: zeros, ones, random in [0, 1), iota, randint in [low, high), or a .npy file."""

    kind: str
    low: int = 0
    high: int = 0
    path: Path | None = None

    def __str__(self) -> str:
        if self.kind == "randint":
            return f"randint({self.low}, {self.high})"
        return f"file({self.path})" if self.kind == "file" else self.kind


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array in global memory that a pointer parameter points to."""

    element: str
    """u8 i8 u16 i16 u32 i32 u64 i64 f16 f32 f64"""
    shape: tuple[int, ...]
    fill: Fill

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.count * ELEMENT_BYTES[self.element]

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(map(str, self.shape))}] {self.fill}"


@dataclass(frozen=True, slots=True)
class Struct:
    """A parameter given byte for byte, for a struct passed by value."""

    data: bytes

    def __str__(self) -> str:
        return f"bytes({self.data.hex()})"


Value = bool | int | float | Buffer | Struct


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, in the order of the kernel's parameters."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch: what runs, how wide, on what arguments."""

    source: Path
    kernel: str | None
    """Name or template instance; None means the only kernel of the source."""
    grid: Extent
    block: Extent
    shared_bytes: int = 0
    """Dynamic shared memory per block."""
    arguments: tuple[Argument, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    index: int = 0
    """Zero-based place in the launch file."""
    include_dirs: tuple[Path, ...] = ()
    """Folders of headers, searched after the folder of the source."""

    def __post_init__(self) -> None:
        check_geometry(self.grid, self.block, self.label)
        if self.shared_bytes < 0:
            raise LaunchError(f"shared_bytes is {self.shared_bytes}, below zero", where=self.label)

    @property
    def label(self) -> str:
        """Where this launch comes from, for messages."""
        return f"{self.source.name} launch {self.index}" + (f" ({self.kernel})" if self.kernel else "")

    @property
    def buffers(self) -> tuple[tuple[str, Buffer], ...]:
        """The arguments that are buffers, by name."""
        return tuple((each.name, each.value) for each in self.arguments if isinstance(each.value, Buffer))

    @property
    def blocks(self) -> int:
        """Number of blocks of the grid."""
        return math.prod(self.grid)

    @property
    def threads_per_block(self) -> int:
        """Number of threads of a block."""
        return math.prod(self.block)

    @property
    def warps_per_block(self) -> int:
        """Number of warps of a block; the last may be partly empty."""
        return -(-self.threads_per_block // 32)


def load_launches(path: str | os.PathLike[str]) -> tuple[Launch, ...]:
    """Read a launch file; raises LaunchError with place and cure for anything that it cannot mean."""
    file = Path(path)
    table = read_toml(file)
    _refuse_unknown(table, {"source", "include", "defines", "seed", "launch"}, str(file))
    source = table.get("source")
    if not isinstance(source, str) or not source:
        raise LaunchError("source is missing", where=str(file), cure='Add: source = "kernel.cu"')
    rows = table.get("launch")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise LaunchError("no [[launch]] found", where=str(file), cure="Add one per kernel launch.")
    shared = Launch(
        source=file.parent / expand_variables(source, str(file)),
        kernel=None,
        grid=(1, 1, 1),
        block=(1, 1, 1),
        defines=_parse_defines(table.get("defines", {}), str(file)),
        seed=_seed(table.get("seed", 0), str(file)),
        include_dirs=_parse_include(table.get("include", []), file),
    )
    return tuple(_parse_row(row, replace(shared, index=i), file) for i, row in enumerate(rows))


def dump_launches(launches: Iterable[Launch]) -> str:
    """Write launches of one source as the text of a launch file."""
    rows = list(launches)
    first = rows[0]
    lines = [f"source = {_quote(first.source.name)}"]
    if first.include_dirs:
        folders = (Path(os.path.relpath(folder, first.source.parent)).as_posix() for folder in first.include_dirs)
        lines.append(f"include = [{', '.join(map(_quote, folders))}]")
    if first.defines:
        lines.append("defines = { " + ", ".join(f"{k} = {_quote(v)}" for k, v in first.defines) + " }")
    if first.seed:
        lines.append(f"seed = {first.seed}")
    for row in rows:
        lines += ["", "[[launch]]"] + ([f"kernel = {_quote(row.kernel)}"] if row.kernel else [])
        lines += [f"grid = {list(row.grid)}", f"block = {list(row.block)}", f"shared_bytes = {row.shared_bytes}"]
        arguments = ", ".join(f"{_quote(a.name)} = {_toml_value(a.value)}" for a in row.arguments)
        lines.append(f"args = {{ {arguments} }}")
    return "\n".join(lines) + "\n"


def parse_extent(value: object, name: str, where: str) -> Extent:
    """Return three extents from one number or a list of 1 to 3 numbers."""
    numbers = value if isinstance(value, list | tuple) else [value]
    if not 1 <= len(numbers) <= 3:
        raise LaunchError(f"{name} has {len(numbers)} numbers", where=where, cure="Give 1 to 3 numbers.")
    whole = [_whole_number(number, name, where) for number in numbers]
    x, y, z = whole + [1] * (3 - len(whole))
    return (x, y, z)


def parse_value(value: object, where: str, folder: Path) -> Value:
    """Return what an argument means: a number, a buffer ``TYPE[SHAPE] FILL`` or ``bytes(hex)``."""
    if isinstance(value, bool | int | float):
        return value
    if not isinstance(value, str):
        raise LaunchError(f"{value!r} is neither a number nor a text", where=where, cure=_ARGUMENT_CURE)
    struct = _STRUCT.fullmatch(value)
    if struct:
        return Struct(bytes.fromhex(struct[1]))
    match = _BUFFER.fullmatch(value)
    if match:
        return Buffer(*_parse_buffer(match, where, folder))
    return _parse_number(value, where)


_ARGUMENT_CURE = (
    'Write a number, a buffer such as "f32[1024] random" (u8 i8 … u64 i64 f16 f32 f64; zeros, ones, random, '
    'iota, randint(lo, hi), file(path.npy)), or a struct as "bytes(00ff…)".'
)


def _parse_buffer(match: re.Match[str], where: str, folder: Path) -> tuple[str, tuple[int, ...], Fill]:
    element, dimensions, fill_text = match[1], match[2], match[3]
    if element not in ELEMENT_BYTES:
        raise LaunchError(f"{element!r} is no element type", where=where, cure=_ARGUMENT_CURE)
    try:
        shape = tuple(int(part) for part in dimensions.replace("x", ",").split(","))
    except ValueError:
        raise LaunchError(f"[{dimensions}] is no shape", where=where, cure=_ARGUMENT_CURE) from None
    if any(extent < 1 for extent in shape):
        raise LaunchError(f"[{dimensions}] has an extent below 1", where=where, cure=_ARGUMENT_CURE)
    return element, shape, _parse_fill(fill_text or "zeros", where, folder)


def _parse_fill(text: str, where: str, folder: Path) -> Fill:
    match = _FILL.fullmatch(text)
    if match is None or (match[2] is None) == (match[1] in {"randint", "file"}):
        raise LaunchError(f"{text!r} is no fill", where=where, cure=_ARGUMENT_CURE)
    if match[1] == "file":
        return Fill("file", path=folder / expand_variables(match[2].strip().strip("'\""), where))
    if match[1] == "randint":
        try:
            low, high = (int(part) for part in match[2].split(","))
        except ValueError:
            raise LaunchError(f"{text!r} is no fill", where=where, cure="Write randint(lo, hi).") from None
        if low >= high:
            raise LaunchError(f"{text!r} is empty: hi is excluded", where=where, cure="Make hi larger than lo.")
        return Fill("randint", low=low, high=high)
    return Fill(match[1])


def _parse_number(text: str, where: str) -> int | float:
    for convert in (lambda t: int(t, 0), float):
        try:
            return convert(text.strip())
        except ValueError:
            continue
    raise LaunchError(f"{text!r} is no argument", where=where, cure=_ARGUMENT_CURE)


def _parse_row(row: Mapping[str, Any], shared: Launch, file: Path) -> Launch:
    where = f"{file} launch {shared.index}"
    _refuse_unknown(row, {"kernel", "grid", "block", "shared_bytes", "args"}, where)
    kernel = row.get("kernel")
    if kernel is not None and not isinstance(kernel, str):
        raise LaunchError("kernel is not a text", where=where)
    for name in ("grid", "block"):
        if name not in row:
            raise LaunchError(f"{name} is missing", where=where, cure=f"Add: {name} = [256]")
    arguments = row.get("args", {})
    if not isinstance(arguments, dict):
        raise LaunchError("args is not a table", where=where, cure="Write args = { n = 1024, … }.")
    return replace(
        shared,
        kernel=kernel,
        grid=parse_extent(row["grid"], "grid", where),
        block=parse_extent(row["block"], "block", where),
        shared_bytes=_whole_number(row.get("shared_bytes", 0), "shared_bytes", where),
        arguments=tuple(
            Argument(name, parse_value(value, f"{where}, argument {name}", file.parent))
            for name, value in arguments.items()
        ),
    )


def read_toml(file: Path) -> dict[str, Any]:
    """Return the table of a TOML file; raises LaunchError where it cannot be read."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LaunchError("no such file", where=str(file), cure="Check the path.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"cannot be read ({error})", where=str(file)) from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise LaunchError(f"is not valid TOML: {error}", where=str(file), cure="Mend the line named.") from None


def expand_variables(text: str, where: str) -> str:
    """Replace each ``${VAR}`` by its value in the environment; an unset one is an error."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise LaunchError(f"${{{match[1]}}} is not set in the environment", where=where, cure=f"Set {match[1]}.")
        return os.environ[match[1]]

    return _VARIABLE.sub(value, text)


def _parse_defines(table: object, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(table, dict):
        raise LaunchError("defines is not a table", where=where, cure="Write defines = { TILE = 16 }.")
    defines = []
    for name, value in table.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise LaunchError(f"{name!r} is no macro name", where=where)
        if not isinstance(value, bool | int | float | str):
            raise LaunchError(f"macro {name} is neither a number nor a text", where=where)
        defines.append((name, str(int(value)) if isinstance(value, bool) else str(value)))
    return tuple(defines)


def _parse_include(folders: object, file: Path) -> tuple[Path, ...]:
    if not isinstance(folders, list) or not all(isinstance(folder, str) and folder for folder in folders):
        raise LaunchError("include is not a list of folders", where=str(file), cure='Write include = ["../common"].')
    found = tuple(file.parent / expand_variables(folder, str(file)) for folder in folders)
    for folder in found:
        if not folder.is_dir():
            what = "is no folder" if folder.exists() else "does not exist"
            raise LaunchError(
                f"include folder {folder} {what}",
                where=str(file),
                cure="Check the path: it is relative to this file.",
            )
    return found


def _whole_number(value: object, name: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise LaunchError(f"{name} is {value!r}, not a whole number", where=where)
    return value


def _seed(value: object, where: str) -> int:
    seed = _whole_number(value, "seed", where)
    if seed < 0:
        raise LaunchError(f"seed is {seed}, below zero", where=where)
    return seed


def check_geometry(grid: Extent, block: Extent, where: str) -> None:
    """Raise LaunchError for a grid or a block that no CUDA GPU can run."""
    _check_extent("grid", grid, MAX_GRID, where)
    _check_extent("block", block, MAX_BLOCK, where)
    threads = math.prod(block)
    if threads > MAX_THREADS_PER_BLOCK:
        raise LaunchError(
            f"block {list(block)} has {threads} threads, over the {MAX_THREADS_PER_BLOCK} that a block of any CUDA GPU"
            " can hold",
            where=where,
            cure="Make the block smaller.",
        )


def _check_extent(name: str, extent: Extent, limit: Extent, where: str) -> None:
    for axis, size, most in zip("xyz", extent, limit, strict=True):
        if not 1 <= size <= most:
            raise LaunchError(
                f"{name} {list(extent)} has {axis} = {size}, outside 1 to {most}",
                where=where,
                cure=f"Choose a {name} that a CUDA GPU can run.",
            )


def _refuse_unknown(table: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise LaunchError(f"unknown key {unknown[0]!r}", where=where, cure=f"Known: {', '.join(sorted(known))}.")


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _toml_value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else _quote(str(value))
