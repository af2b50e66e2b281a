"""Options that more than one command takes, and the launch that some of them give instead of a launch file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.caveats import Caveat
    from kerncast.execute import Budget
    from kerncast.gpu import GPU
    from kerncast.launch import Argument, Extent, Launch

# The launch of a source, and how it is compiled.
Grid = Annotated[str | None, typer.Option(help="Blocks of a .cu's launch: X[,Y[,Z]].")]
Block = Annotated[str | None, typer.Option(help="Threads per block: X[,Y[,Z]].")]
SharedBytes = Annotated[int, typer.Option(help="Dynamic shared memory in bytes.")]
Cluster = Annotated[str | None, typer.Option(help="Blocks of a cluster, such as 2 or 2,1,1.")]
Arguments = Annotated[list[str] | None, typer.Option(help="NAME=VALUE, in the order of the parameters.")]
Defines = Annotated[list[str] | None, typer.Option("--define", "-D", help="NAME=VALUE macro.")]
IncludeFolders = Annotated[list[Path] | None, typer.Option("--include", "-I", help="Folder of headers.")]
Standard = Annotated[str | None, typer.Option(help="Version of C++: c++11, c++14, c++17 (default) or c++20.")]
Cooperative = Annotated[
    bool, typer.Option("--cooperative", help="All blocks run at the same time, so that the grid can synchronise.")
]
FastMath = Annotated[bool, typer.Option("--use-fast-math", help="Compile with fast, less exact mathematics.")]
Globals = Annotated[
    list[str] | None, typer.Option("--global", help="NAME=VALUE of a __constant__ or __device__ variable.")
]

# What the models of average-case times learn from.
GPUName = Annotated[str | None, typer.Option(help="Only launches on this GPU, by its name in the data.")]
TimeColumn = Annotated[str | None, typer.Option(help="Column of the times, where there are several.")]
KeepOutliers = Annotated[bool, typer.Option("--keep-outliers", help="Keep outliers among repeats.")]

# What executing blocks may take.
Memory = Annotated[
    str | None, typer.Option(help="Memory for the buffers' values and what blocks touch, such as 8GiB. Default: 4GiB.")
]

# What is printed, and where it goes.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Out = Annotated[Path | None, typer.Option(help="Write the output to a file.")]
PictureFolder = Annotated[
    Path | None, typer.Option("--pictures", help="Folder for the report's pictures, each as .png, .svg and .pdf.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]

SOURCES = {".cu", ".cuh", ".cpp", ".cc", ".cxx", ".ptx"}
RECORDING = ".kc"
_LAUNCH_FILE = ".toml"


@dataclass(frozen=True, slots=True)
class InlineLaunch:
    """The options that give a launch, and how its source is compiled."""

    kernel: str | None
    grid: str | None
    block: str | None
    shared_bytes: int
    arguments: list[str] | None
    defines: list[str] | None
    include_dirs: list[Path] | None
    globals: list[str] | None
    standard: str | None
    fast_math: bool
    cluster: str | None = None
    cooperative: bool = False

    def applies_to(self, evidence: Path) -> bool:
        """Whether the evidence is a source; the options mean nothing for other evidence."""
        several = self.arguments or self.globals or self.defines or self.include_dirs
        compiling = self.standard is not None or self.fast_math
        # A kernel selects rows of a profile, too.
        kernel = self.kernel if evidence.suffix == _LAUNCH_FILE else None
        if evidence.suffix in SOURCES:
            return True
        if (
            kernel
            or self.grid
            or self.block
            or several
            or compiling
            or self.shared_bytes
            or self.cluster
            or self.cooperative
        ):
            raise InputError(
                "--kernel, --grid, --block, --cluster, --shared, --cooperative, --arg, --global, --define, --include,"
                f" --std and --use-fast-math need a source, not {evidence}",
                cure="Put them into the launch file.",
            )
        return False

    def build(self, source: Path) -> "Launch":
        """Return the launch; raises InputError where an option is missing."""
        from kerncast.launch import DEFAULT_STANDARD, Launch, check_standard  # noqa: PLC0415

        if self.grid is None or self.block is None:
            raise InputError(f"{source} is a source: its launch is missing", cure="Add --grid and --block.")
        return Launch(
            source=source,
            kernel=self.kernel,
            grid=extent(self.grid, "grid"),
            block=extent(self.block, "block"),
            cluster=None if self.cluster is None else extent(self.cluster, "cluster"),
            shared_bytes=self.shared_bytes,
            arguments=_values(self.arguments or (), "arg", "parameter"),
            defines=tuple(split_define(text) for text in self.defines or ()),
            include_dirs=checked_folders(self.include_dirs or ()),
            standard=DEFAULT_STANDARD if self.standard is None else check_standard(self.standard, "--std"),
            fast_math=self.fast_math,
            cooperative=self.cooperative,
            globals=_values(self.globals or (), "global", "variable"),
        )


def extent(text: str, name: str) -> "Extent":
    """Return sizes in x, y and z from the text of an option."""
    from kerncast.launch import parse_extent  # noqa: PLC0415

    return parse_extent(_numbers(text, name), name, f"--{name}")


def checked_folders(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return folders of headers; raises InputError for one that is not there."""
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"--include {folder}: no such folder", cure="Check the path.")
    return tuple(folders)


def _values(texts: Sequence[str], option: str, what: str) -> "tuple[Argument, ...]":
    """Return what a repeated option gives, once for each name."""
    from kerncast.launch import Argument, parse_value  # noqa: PLC0415

    pairs = [_split(text, option) for text in texts]
    values = tuple(Argument(name, parse_value(text, f"--{option} {name}", Path())) for name, text in pairs)
    if len({value.name for value in values}) < len(values):
        raise InputError(f"--{option} names the same {what} twice", cure=f"Give each {what} once.")
    return values


def _split(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"--{option} {text[:60]!r} is not NAME=VALUE")
    return name.strip(), value


def split_define(text: str) -> tuple[str, str]:
    """Return name and value of a macro, 1 where none is given; raises InputError."""
    name, _, value = text.partition("=")
    if not name.isidentifier():
        raise InputError(
            f"--define {text[:60]!r} is not NAME or NAME=VALUE", cure="Write --define TILE=16, or --define TILE for 1."
        )
    return name, value or "1"


def _numbers(text: str, name: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"--{name} {text[:60]!r} is not X[,Y[,Z]]", cure=f"Write --{name} 256 or --{name} 16,16."
        ) from None


# The parts of one GPU.


def one_gpu(names: list[str] | None, cure: str) -> "tuple[GPU, tuple[Caveat, ...]]":
    """Return the only GPU that is named, with what was assumed; raises InputError with a cure for several."""
    from kerncast.forecast import resolve_gpus  # noqa: PLC0415

    resolved = resolve_gpus(names or ())
    if len(resolved) > 1:
        raise InputError(f"--gpu names {len(resolved)} GPUs", cure=cure)
    return resolved[0]


def clock_of(text: str | None) -> str | float | None:
    """Return the clock that --clock means, in hertz or by its name; raises InputError."""
    from kerncast.units import parse_megahertz  # noqa: PLC0415

    if text is None or text in {"base", "boost", "default"}:
        return text
    try:
        return parse_megahertz(text)
    except ValueError:
        cure = "Give base, boost, default or a number of MHz."
        raise InputError(f"--clock {text[:40]!r} is not a clock", cure=cure) from None


def budget_of(memory: str | None) -> "Budget | None":
    """Return the budget with the memory that --memory means, None where it is not given; raises InputError."""
    if memory is None:
        return None
    from kerncast.execute import Budget  # noqa: PLC0415  LLVM and NumPy load late

    return Budget(memory_bytes=memory_of(memory))


def memory_of(text: str, name: str = "--memory") -> int:
    """Return the bytes that --memory means, or another option; raises InputError."""
    from kerncast.units import parse_bytes  # noqa: PLC0415

    try:
        return parse_bytes(text)
    except ValueError:
        cure = "Give a number of bytes with its unit, such as 8GiB or 500MB."
        raise InputError(f"{name} {text[:40]!r} is not a size of memory", cure=cure) from None
