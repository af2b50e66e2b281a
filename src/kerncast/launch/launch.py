"""NOUN Launch: one kernel, its geometry and its arguments; reads and writes launch files.

The format is described in ``docs/launch-file.md``. A launch file is TOML; each ``[[launch]]`` is one launch.
"""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kerncast import bounded_file
from kerncast.bounded_file import Bound, is_file, is_folder, place_of, read_text
from kerncast.confinement import is_hidden, is_source
from kerncast.errors import LaunchError
from kerncast.launch.clusters import NO_CLUSTER, check_cluster
from kerncast.launch.given import is_array, is_text, number_of, saved_array, written_source
from kerncast.launch.sampling import Sampling, parse_sampling
from kerncast.launch.seen_memory import Memory
from kerncast.launch.tensor_maps import TensorTiles, parse_tensor_map
from kerncast.units import GIB, MIB

#: Bytes of one element, by the type names of launch files.
ELEMENT_BYTES = {
    "u8": 1, "i8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8, "f16": 2, "f32": 4, "f64": 8,
    "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "f8e8m0": 1, "f6e2m3": 1, "f6e3m2": 1, "f4e2m1x2": 1,
}  # fmt: skip

#: Elements that are floating-point numbers; two of four bits lie in a byte.
FLOAT_ELEMENTS = frozenset(name for name in ELEMENT_BYTES if name[0] in "fb")

_BUFFER = re.compile(r"\s*([a-z][a-z0-9]*)\s*\[([^\]]*)\]\s*(.*?)\s*", re.DOTALL)
_FILL = re.compile(r"(zeros|ones|random|iota|randint|file)\s*(?:\((.*)\))?", re.DOTALL)
#: bytes.fromhex passes over spaces of ASCII alone.
_STRUCT = re.compile(r"\s*bytes\(\s*((?:[0-9a-fA-F]{2}\s*)+)\)\s*", re.ASCII)
_REFERENCE = re.compile(r"\s*&\s*([A-Za-z_]\w*)\s*(?:\[\s*(\d{1,18})\s*\]\s*)?")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_NAME = re.compile(r"[A-Za-z_]\w*")
#: No GPU holds a larger buffer.
FILL_FILE = Bound(1024 * GIB, error=LaunchError)
#: 40,000 launches of 200 characters each.
_LAUNCH_FILE = Bound(8 * MIB, cure="Check the path.", cure_if_larger="Write fewer launches into it.", error=LaunchError)


@dataclass(frozen=True, slots=True)
class Fill:
    """The way to fill a buffer: zeros, ones, random in [0, 1), iota, randint in [low, high), or a .npy file."""

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
    """type of the elements, a name of ELEMENT_BYTES"""
    shape: tuple[int, ...]
    fill: Fill
    sampling: Sampling | None = None
    """how the kernel reads it, where it gets a texture or a surface instead of a pointer"""
    tiles: TensorTiles | None = None
    """box of it that one copy moves, where the kernel gets a tensor map instead of a pointer"""
    is_typed: bool = False
    """whether the parameter must point to elements of this type: an array of a program has one, a text may stand for
    any memory"""

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def numbers_per_element(self) -> int:
        """Numbers that lie in an element."""
        return 2 if self.element.endswith("x2") else 1

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.count * ELEMENT_BYTES[self.element]

    def __str__(self) -> str:
        text = f"{self.element}[{', '.join(map(str, self.shape))}] {self.fill}"
        if self.tiles is not None:
            return f"tensormap({text}, {self.tiles.options})"
        if self.sampling is None:
            return text
        return f"{'surface' if self.sampling.is_surface else 'texture'}({text}, {self.sampling})"


@dataclass(frozen=True, slots=True)
class Struct:
    """A parameter given byte for byte, for a struct passed by value."""

    data: bytes

    def __str__(self) -> str:
        return f"bytes({self.data.hex()})"


@dataclass(frozen=True, slots=True)
class Reference:
    """A pointer into the buffer of another argument."""

    name: str
    offset: int = 0
    """offset from the start of that buffer, in elements"""

    def __str__(self) -> str:
        return f"&{self.name}[{self.offset}]"


Value = bool | int | float | Buffer | Struct | Reference


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, in the order of the kernel's parameters."""

    name: str
    value: Value


def parse_value(value: object, where: str, folder: Path) -> Value:
    """Return what an argument means: a number, a buffer ``TYPE[SHAPE] FILL``, ``bytes(hex)`` or ``&x[128]``."""
    if isinstance(value, bool | int | float):
        return value
    if not isinstance(value, str):
        raise LaunchError(f"{value!r} is neither a number nor a text", where=where, cure=_ARGUMENT_CURE)
    struct = _STRUCT.fullmatch(value)
    if struct:
        return Struct(bytes.fromhex(struct[1]))
    reference = _REFERENCE.fullmatch(value)
    if reference:
        return Reference(reference[1], int(reference[2] or 0))
    mapped = parse_tensor_map(value, where)
    if mapped is not None:
        buffer = _BUFFER.fullmatch(mapped[0])
        element, shape, fill = _parse_buffer(buffer, where, folder) if buffer else ("", (), Fill("zeros"))
        return Buffer(element, shape, fill, tiles=mapped[1].of(element, shape, where))
    sampled = parse_sampling(value, where)
    match = _BUFFER.fullmatch(value if sampled is None else sampled[1])
    if match:
        element, shape, fill = _parse_buffer(match, where, folder)
        if sampled is not None:
            sampled[0].check(element, shape, where)
        return Buffer(element, shape, fill, sampled and sampled[0])
    return _parse_number(value, where)


_ARGUMENT_CURE = (
    'Write a number, a buffer such as "f32[1024] random" (u8 i8 … u64 i64 f16 bf16 f32 f64; zeros, ones, random, '
    'iota, randint(lo, hi), file(path.npy)), a struct as "bytes(00ff…)", or "&x[128]" for a place '
    "in the buffer of argument x."
)


def _parse_buffer(match: re.Match[str], where: str, folder: Path) -> tuple[str, tuple[int, ...], Fill]:
    element, dimensions, fill_text = match[1], match[2], match[3]
    if element not in ELEMENT_BYTES:
        raise LaunchError(f"{element!r} is not an element type", where=where, cure=_ARGUMENT_CURE)
    try:
        shape = tuple(int(part) for part in dimensions.replace("x", ",").split(","))
    except ValueError:
        raise LaunchError(f"[{dimensions}] is not a shape", where=where, cure=_ARGUMENT_CURE) from None
    if any(extent < 1 for extent in shape):
        raise LaunchError(f"[{dimensions}] has an extent below 1", where=where, cure=_ARGUMENT_CURE)
    return element, shape, _parse_fill(fill_text or "zeros", where, folder)


def _parse_fill(text: str, where: str, folder: Path) -> Fill:
    match = _FILL.fullmatch(text)
    if match is None or (match[2] is None) == (match[1] in {"randint", "file"}):
        raise LaunchError(f"{text!r} is not a fill", where=where, cure=_ARGUMENT_CURE)
    if match[1] == "file":
        return Fill("file", path=expanded_path(folder, match[2].strip().strip("'\""), where))
    if match[1] == "randint":
        try:
            low, high = (int(part) for part in match[2].split(","))
        except ValueError:
            raise LaunchError(f"{text!r} is not a fill", where=where, cure="Write randint(lo, hi).") from None
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
    raise LaunchError(f"{text!r} is not an argument", where=where, cure=_ARGUMENT_CURE)


def expanded_path(folder: Path, text: str, where: str) -> Path:
    """Return the path below a folder with each ``${VAR}`` replaced by its value in the environment.

    An unset one is an error. So is a path that is not there, told as it was written: a stranger's launch file must not
    print a secret. Without variables the path may be missing.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise LaunchError(f"${{{match[1]}}} is not set in the environment", where=where, cure=f"Set {match[1]}.")
        return os.environ[match[1]]

    expanded = _VARIABLE.sub(value, text)
    path = folder / expanded
    if expanded != text and not _is_there(path):
        raise LaunchError(f"{text}: no such file or folder", where=where, cure="Check the path and the environment.")
    return path


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


__all__ = [
    "DEFAULT_STANDARD", "ELEMENT_BYTES", "FILL_FILE", "FLOAT_ELEMENTS", "MAX_BLOCK", "MAX_GRID",
    "MAX_THREADS_PER_BLOCK", "STANDARDS", "Argument", "Buffer", "Extent", "Fill", "Launch", "Reference", "Struct",
    "Value", "check_geometry", "check_standard", "expanded_path", "load_launches", "parse_extent", "parse_launches",
    "parse_value", "read_toml",
]  # fmt: skip

Extent = tuple[int, int, int]

#: The compiler's options are lines that end at a zero byte.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f]")

#: Limits of every CUDA GPU since compute capability 3.0 (CUDA C++ Programming Guide, technical specifications).
MAX_GRID: Extent = (2**31 - 1, 65535, 65535)
MAX_BLOCK: Extent = (1024, 1024, 64)
MAX_THREADS_PER_BLOCK = 1024
#: What cuLaunchKernel takes; what fits is the GPU's to say.
MAX_SHARED_BYTES = 2**32 - 1

#: Versions of C++ that both the compiler and the parser know.
STANDARDS = ("c++11", "c++14", "c++17", "c++20")
DEFAULT_STANDARD = "c++17"


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch: what runs, how wide, on what arguments."""

    source: Path
    kernel: str | None
    """name or template instance; None: the only kernel of the source"""
    grid: Extent
    block: Extent
    shared_bytes: int = 0
    """dynamic shared memory per block"""
    arguments: tuple[Argument, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    index: int = 0
    """zero-based place in the launch file"""
    include_dirs: tuple[Path, ...] = ()
    """folders of headers, searched after the folder of the source"""
    standard: str = DEFAULT_STANDARD
    """version of C++, as in --std"""
    fast_math: bool = False
    """whether the compiler uses its fast, less exact mathematics, as with -use_fast_math"""
    globals: tuple[Argument, ...] = ()
    """values of constant and global variables when the kernel starts; others keep their initial values"""
    memory: Memory | None = None
    """memory and raw parameters of a launch that a running program made, instead of arguments and globals"""
    count: int = 1
    """how many launches of a program this one stands for"""
    cluster: Extent | None = None
    """blocks of a cluster in x, y and z; None: as the kernel declares, and no clusters where it declares none"""
    cooperative: bool = False
    """whether all blocks run at the same time, so that they may wait for one another, as cudaLaunchCooperativeKernel"""

    def __post_init__(self) -> None:
        check_geometry(self.grid, self.block, self.label)
        if self.cooperative and self.cluster is not None:
            raise LaunchError("clusters in a cooperative launch are not executed", where=self.label)
        if self.shared_bytes < 0:
            raise LaunchError(f"shared_bytes is {self.shared_bytes}, below zero", where=self.label)
        if self.shared_bytes > MAX_SHARED_BYTES:
            what = f"shared_bytes is {self.shared_bytes}, and CUDA takes a number of 32 bits"
            raise LaunchError(what, where=self.label, cure="Give the bytes of one block: no GPU has 256 KiB of them.")
        check_standard(self.standard, self.label)
        if self.cluster is not None:
            check_cluster(self.cluster, self.grid, self.label)

    @classmethod
    def of(  # noqa: PLR0913  one keyword per key of a launch file
        cls,
        source: str | Path,
        *,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        kernel: str | None = None,
        args: Mapping[str, Any] | None = None,
        shared_bytes: int = 0,
        cluster: int | Sequence[int] | None = None,
        cooperative: bool = False,
        globals: Mapping[str, Any] | None = None,  # noqa: A002  the key of launch files
        defines: Mapping[str, bool | int | float | str] | None = None,
        include: str | Path | Sequence[str | Path] = (),
        std: str = DEFAULT_STANDARD,
        fast_math: bool = False,
        seed: int = 0,
    ) -> "Launch":
        """Return a launch of what a program holds: the keywords are the keys of a launch file.

        ``source`` is a path, or the text of the source itself. Values of ``args`` and ``globals`` are numbers, arrays
        (their contents now), bytes of a struct, and texts as in a launch file, such as "f32[1024] random". Raises
        LaunchError.

        >>> Launch.of("__global__ void f(float *x, int n) {}", grid=4, block=[16, 16], args={"x": 0, "n": 1}).block
        (16, 16, 1)
        """
        where = f"launch of {kernel or 'the source'}"
        folders = [include] if isinstance(include, str | Path) else include
        return cls(
            source=written_source(source) if isinstance(source, str) and is_text(source) else Path(source),
            kernel=kernel,
            grid=parse_extent(grid, "grid", where),
            block=parse_extent(block, "block", where),
            shared_bytes=_whole_number(shared_bytes, "shared_bytes", where),
            arguments=_given_values(args or {}, f"{where}, argument"),
            defines=_parse_defines(dict(defines or {}), where),
            seed=_seed(seed, where),
            include_dirs=tuple(_folder_of_headers(Path(each), where) for each in folders),
            standard=check_standard(std, where),
            fast_math=_boolean(fast_math, "fast_math", where),
            globals=_given_values(globals or {}, f"{where}, global"),
            cluster=None if cluster is None else parse_extent(cluster, "cluster", where),
            cooperative=_boolean(cooperative, "cooperative", where),
        )

    @property
    def work(self) -> tuple[object, ...]:
        """All that decides what its blocks do, beside the kernel: equal values, equal work."""
        return (
            self.grid, self.block, self.cluster, self.shared_bytes, self.cooperative, self.arguments, self.globals,
            self.seed,
        )  # fmt: skip

    @property
    def label(self) -> str:
        """Place of the launch, for messages."""
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
    def cluster_blocks(self) -> int:
        """Number of blocks of a cluster; 1 without clusters."""
        return math.prod(self.cluster or NO_CLUSTER)

    @property
    def threads_per_block(self) -> int:
        """Number of threads of a block."""
        return math.prod(self.block)

    @property
    def warps_per_block(self) -> int:
        """Number of warps of a block; the last may be partly empty."""
        return -(-self.threads_per_block // 32)


def base_name(kernel: str) -> str:
    """Return a kernel's name without return type, namespace, template arguments and parameters.

    >>> base_name("void ns::reduce<float, 256>(const T1 *, T1 *)"), base_name("saxpy")
    ('reduce', 'saxpy')
    """
    before = re.split(r"[<(]", kernel, maxsplit=1)[0]
    names = _NAME.findall(before)
    return names[-1] if names else kernel


def do_same(one: Launch, other: Launch) -> bool:
    """Whether two launches of a kernel do the same, wherever their sources lie."""
    names = {base_name(each.kernel or each.source.stem) for each in (one, other)}
    same = [
        (each.grid, each.block, each.cluster, each.shared_bytes, each.cooperative, each.arguments, each.globals)
        for each in (one, other)
    ]
    return len(names) == 1 and same[0] == same[1]


def load_launches(path: str | os.PathLike[str]) -> tuple[Launch, ...]:
    """Read a launch file; raises LaunchError with place and cure for anything that it cannot mean."""
    file = Path(path)
    table = read_toml(file)
    rows = table.get("launch")
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        refuse_undecided(rows, file)
    return parse_launches(table, file)


def parse_launches(table: Mapping[str, Any], file: Path) -> tuple[Launch, ...]:
    """Return the launches of a launch file's table; paths are relative to the file. Raises LaunchError."""
    _refuse_unknown(table, {"source", "include", "defines", "std", "fast_math", "seed", "launch"}, str(file))
    source = table.get("source")
    if not isinstance(source, str) or not source:
        raise LaunchError("source is missing", where=str(file), cure='Add: source = "kernel.cu"')
    rows = table.get("launch")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise LaunchError("no [[launch]] found", where=str(file), cure="Add one per kernel launch.")
    shared = Launch(
        source=_parse_source(source, file),
        kernel=None,
        grid=(1, 1, 1),
        block=(1, 1, 1),
        defines=_parse_defines(table.get("defines", {}), str(file)),
        seed=_seed(table.get("seed", 0), str(file)),
        include_dirs=_parse_include(table.get("include", []), file),
        standard=check_standard(table.get("std", DEFAULT_STANDARD), str(file)),
        fast_math=_boolean(table.get("fast_math", False), "fast_math", str(file)),
    )
    return tuple(_parse_row(row, replace(shared, index=i), file) for i, row in enumerate(rows))


def parse_extent(value: object, name: str, where: str) -> Extent:
    """Return three extents from one number or a list of 1 to 3 numbers."""
    numbers = value if isinstance(value, list | tuple) else [value]
    if not 1 <= len(numbers) <= 3:
        raise LaunchError(f"{name} has {len(numbers)} numbers", where=where, cure="Give 1 to 3 numbers.")
    whole = [_whole_number(number, name, where) for number in numbers]
    x, y, z = whole + [1] * (3 - len(whole))
    return (x, y, z)


def _parse_row(row: Mapping[str, Any], shared: Launch, file: Path) -> Launch:
    where = f"{file} launch {shared.index}"
    _refuse_unknown(
        row, {"kernel", "grid", "block", "cluster", "shared_bytes", "cooperative", "args", "globals"}, where
    )
    kernel = row.get("kernel")
    if kernel is not None and not (isinstance(kernel, str) and kernel.isprintable()):
        raise LaunchError("kernel is not a printable text", where=where)
    for name in ("grid", "block"):
        if name not in row:
            raise LaunchError(f"{name} is missing", where=where, cure=f"Add: {name} = [256]")
    return replace(
        shared,
        kernel=kernel,
        grid=parse_extent(row["grid"], "grid", where),
        block=parse_extent(row["block"], "block", where),
        cluster=parse_extent(row["cluster"], "cluster", where) if "cluster" in row else None,
        shared_bytes=_whole_number(row.get("shared_bytes", 0), "shared_bytes", where),
        cooperative=_boolean(row.get("cooperative", False), "cooperative", where),
        arguments=_parse_values(row, ("args", "argument"), where, file.parent),
        globals=_parse_values(row, ("globals", "global"), where, file.parent),
    )


def _parse_values(row: Mapping[str, Any], words: tuple[str, str], where: str, folder: Path) -> tuple[Argument, ...]:
    """Return the values that a table of the row gives; ``words`` are its key and what one entry is called."""
    key, entry = words
    table = row.get(key, {})
    if not isinstance(table, dict):
        raise LaunchError(f"{key} is not a table", where=where, cure=f"Write {key} = {{ n = 1024, … }}.")
    return tuple(
        Argument(name, parse_value(value, f"{where}, {entry} {name}", folder)) for name, value in table.items()
    )


def _given_values(values: Mapping[str, Any], where: str) -> tuple[Argument, ...]:
    return tuple(Argument(name, _given_value(value, f"{where} {name}")) for name, value in values.items())


def _given_value(value: Any, where: str) -> Value:
    """Return the value that a program gives: an array's contents are those of now."""
    if isinstance(value, Buffer | Struct | Reference):
        return value
    if isinstance(value, bytes | bytearray):
        return Struct(bytes(value))
    if not is_array(value):
        return parse_value(value, where, Path())
    number = number_of(value)
    if number is not None:
        return number
    element, shape, path = saved_array(value, where)
    return Buffer(element, shape, Fill("file", path=path), is_typed=True)


def read_toml(file: Path) -> dict[str, Any]:
    """Return the table of a TOML file; raises LaunchError where it cannot be read."""
    return bounded_file.read_toml(file, _LAUNCH_FILE)


def _parse_defines(table: object, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(table, dict):
        raise LaunchError("defines is not a table", where=where, cure="Write defines = { TILE = 16 }.")
    defines = []
    for name, value in table.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise LaunchError(f"{name!r} is not a macro name", where=where)
        if not isinstance(value, bool | int | float | str):
            raise LaunchError(f"macro {name} is neither a number nor a text", where=where)
        if isinstance(value, str) and _CONTROL.search(value):
            raise LaunchError(
                f"macro {name} holds a line end or a control character", where=where, cure="Write it in one line."
            )
        defines.append((name, str(int(value)) if isinstance(value, bool) else str(value)))
    return tuple(defines)


def _parse_source(text: str, file: Path) -> Path:
    """Return the path of the source: one of these files may be a stranger's, and name what it wants to see."""
    path = expanded_path(file.parent, text, str(file))
    try:
        place, own = path.resolve(), file.parent.resolve()
    except (OSError, ValueError, RuntimeError):  # halves of a pair, a null character, links in a circle
        what = f"source {text[:200]!r} is no name of a file"
        raise LaunchError(what, where=str(file), cure="Name an existing source.") from None
    if is_source(place) or (place.is_relative_to(own) and not is_hidden(place, own)):
        return path
    what = f"source {text[:200]!r} is not a source by its name, and does not lie beside the launch file"
    raise LaunchError(what, where=str(file), cure="Name a file that ends in .cu, .cuh or .ptx.")


def _parse_include(folders: object, file: Path) -> tuple[Path, ...]:
    if not isinstance(folders, list) or not all(isinstance(folder, str) and folder for folder in folders):
        raise LaunchError("include is not a list of folders", where=str(file), cure='Write include = ["../common"].')
    return tuple(_folder_of_headers(expanded_path(file.parent, folder, str(file)), str(file)) for folder in folders)


def _folder_of_headers(folder: Path, where: str) -> Path:
    if is_folder(folder):
        return folder
    what = "is not a folder" if is_file(folder) else "does not exist"
    cure = "Check the path: in a launch file it is relative to the file."
    raise LaunchError(f"include folder {place_of(folder)} {what}", where=where, cure=cure)


def _whole_number(value: object, name: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise LaunchError(f"{name} is {value!r}, not a whole number", where=where)
    return value


def _boolean(value: object, name: str, where: str) -> bool:
    if not isinstance(value, bool):
        raise LaunchError(f"{name} is {value!r}, neither true nor false", where=where)
    return value


def check_standard(value: object, where: str) -> str:
    """Return the version of C++ that a text names; raises LaunchError for one that is not known."""
    if value not in STANDARDS:
        raise LaunchError(
            f"std {str(value)[:40]!r} is not a version of C++", where=where, cure=f"Known: {', '.join(STANDARDS)}."
        )
    return str(value)


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


# Which launch a tuner's configuration is of: its parameters are what the source was compiled with.
#
# Kernel Tuner and KTT define each parameter as a macro; ``block_size_x``, ``_y`` and ``_z`` are Kernel Tuner's names
# for the sizes of the block. Fails when: a parameter acts by something else than a macro, such as a compiler option.


#: Kernel Tuner's default names.
BLOCK_PARAMETERS = ("block_size_x", "block_size_y", "block_size_z")

Settings = tuple[tuple[str, str], ...]
"""tuning parameters with their values as texts"""


def is_tuned_so(launch: Launch, settings: Settings) -> bool:
    """Return whether a launch has each of these parameters, among its defines or as a size of its block.

    >>> from pathlib import Path
    >>> launch = Launch(Path("k.cu"), "k", (8, 1, 1), (64, 1, 1), defines=(("TILE", "4"),))
    >>> [is_tuned_so(launch, (("block_size_x", x), ("TILE", t))) for x, t in (("64", "4"), ("32", "4"), ("64", "8"))]
    [True, False, False]
    >>> is_tuned_so(launch, (("TILE", "4"), ("unroll", "2")))
    False
    """
    sizes = dict(zip(BLOCK_PARAMETERS, map(str, launch.block), strict=True))
    defines = dict(launch.defines)
    return all(
        any(name in known for known in (sizes, defines))
        and all(_is_same(known[name], value) for known in (sizes, defines) if name in known)
        for name, value in settings
    )


def _is_same(one: str, other: str) -> bool:
    """Return whether two values are the same text or the same number."""
    if one == other:
        return True
    try:
        return float(one) == float(other)
    except ValueError:
        return False


_UNDECIDED = re.compile(r"\s*\?\s*\Z|.*\[[^\]]*\?[^\]]*\]|\s*bytes\(\s*\?|[^(]*<[^>]*\?", re.DOTALL)
_COMMENT = re.compile(r'#\s*([^"]*)\Z')
_LAUNCH = re.compile(r"\s*\[\[\s*launch\s*\]\]")


@dataclass(frozen=True, slots=True)
class _Undecided:
    launch: int
    key: str


def refuse_undecided(rows: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Raise LaunchError with every value of a launch file that is a question mark, and where it stands."""
    found = [each for index, row in enumerate(rows) for each in _undecided(index, row)]
    if not found:
        return
    lines = read_text(file, _LAUNCH_FILE).splitlines()
    what = "; ".join(_described(each, rows[each.launch], lines) for each in found)
    number = "1 value is" if len(found) == 1 else f"{len(found)} values are"
    raise LaunchError(f"{number} not decided: {what}", where=str(file), cure='Write a value in the place of each "?".')


def _undecided(index: int, row: Mapping[str, Any]) -> Iterator[_Undecided]:
    for key, value in row.items():
        if isinstance(value, dict):
            yield from (_Undecided(index, name) for name, each in value.items() if _is_undecided(each))
        elif any(map(_is_undecided, value if isinstance(value, list) else [value])):
            yield _Undecided(index, key)


def _is_undecided(value: object) -> bool:
    return isinstance(value, str) and _UNDECIDED.match(value) is not None


def _described(found: _Undecided, row: Mapping[str, Any], lines: Sequence[str]) -> str:
    kernel = row.get("kernel")
    name = f"launch {found.launch}" + (f" ({kernel})" if isinstance(kernel, str) else "")
    line = _line(found, lines)
    if line is None:
        return f"{name} {found.key}"
    comment = _COMMENT.search(lines[line])
    words = comment[1].strip().removeprefix("fill in").removeprefix(": ") if comment else ""
    return f"{name} {found.key}, line {line + 1}" + (f" ({words})" if words else "")


def _line(found: _Undecided, lines: Sequence[str]) -> int | None:
    """Return which line gives a key of a launch an undecided value."""
    launch = -1
    key = re.compile(r'(?:^|[\s{,])"?' + re.escape(found.key) + r'"?\s*=')
    for number, line in enumerate(lines):
        launch += _LAUNCH.match(line) is not None
        if launch == found.launch and "?" in line and key.search(line):
            return number
    return None
