"""VERB typed launch: the texts of a pane become a Launch, its macros and its measured times."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kerncast.compile import CompiledKernel
from kerncast.compile.nouns import Parameter
from kerncast.errors import InputError, LaunchError
from kerncast.forecast import observations
from kerncast.launch import FLOAT_ELEMENTS, Argument, Launch, parse_extent, parse_value
from kerncast.observation import Observation
from kerncast.web.questions import ArgumentTold, Asked, TypedLaunch

SOURCE_NAME = "kernel.cu"
_KERNEL = re.compile(
    r"__global__\s+(?:(?:static|inline|extern|void|__launch_bounds__\s*\([^)]*\))\s+)*(?P<name>\w+)\s*\("
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MACRO = re.compile(r"(?:-D)?([A-Za-z_]\w*)(?:=(\S*))?", re.ASCII)
#: A GPU by its name: a path would have the server read files.
_MEASURED = re.compile(r"[^=/\\]{1,80}=[^=/\\]{1,40}")
#: Elements of a buffer that nobody has given a size, where the launch is small.
_LEAST_ELEMENTS = 1024
_MOST_ELEMENTS = 1 << 26


@dataclass(frozen=True, slots=True)
class Place:
    """Folders of one question."""

    folder: Path
    """folder of the source, which holds nothing but an earlier answer's copy of the same"""
    include: tuple[Path, ...] = ()
    """folders of headers, as the command line named them"""


def kernels_in(source: str) -> list[str]:
    """Return the names of the kernels that a source defines, as far as its text shows them.

    >>> kernels_in("__global__ void a(int n) {}  // __global__ void c() {}")
    ['a']
    """
    return list(dict.fromkeys(match["name"] for match in _KERNEL.finditer(_COMMENT.sub(" ", source))))


def launch_of(asked: Asked, typed: TypedLaunch, place: Place) -> Launch:
    """Return one of the launches, without its arguments; raises InputError."""
    names = kernels_in(asked.source)
    if not asked.source.strip():
        raise InputError("there is no source yet", cure="Write a kernel, open a file, or begin with an example.")
    return Launch(
        source=place.folder / SOURCE_NAME,
        kernel=typed.kernel.strip() or (names[0] if names else None),
        grid=_extent(typed.grid, "grid"),
        block=_extent(typed.block, "block"),
        shared_bytes=_whole(typed.shared_bytes.strip() or "0", "shared"),
        defines=macros(asked.defines),
        include_dirs=place.include,
    )


def _extent(text: str, name: str) -> tuple[int, int, int]:
    parts = [part for part in re.split(r"[\s,x×]+", text.strip().strip("[]()")) if part]
    if not parts:
        raise LaunchError(f"the {name} is empty", cure=f"Give the {name} as 1 to 3 numbers, such as 256 or 16, 16.")
    return parse_extent([_whole(part, name) for part in parts], name, name)


def _whole(text: str, name: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise LaunchError(f"{name}: {text[:40]!r} is not a whole number", cure="Give numbers such as 256.") from None


def macros(text: str) -> tuple[tuple[str, str], ...]:
    """Return macros as a launch has them; raises LaunchError.

    >>> macros("TILE=16 -DFAST")
    (('TILE', '16'), ('FAST', '1'))
    """
    found: dict[str, str] = {}
    for part in text.split():
        match = _MACRO.fullmatch(part.rstrip(","))
        if match is None:
            cure = "Write TILE=16 FAST: spaces between macros, none within."
            raise LaunchError(f"macros: {part[:40]!r} is not NAME or NAME=VALUE", cure=cure)
        found[match[1]] = match[2] or "1"
    return tuple(found.items())


def measured_times(text: str) -> tuple[Observation, ...]:
    """Return measured times such as ``T4=1.2ms, V100=0.8ms``; raises InputError."""
    texts = [each.strip() for each in re.split(r"[,;\n]", text) if each.strip()]
    for each in texts:
        if not _MEASURED.fullmatch(each):
            raise InputError(f"measured: {each[:40]!r} is not a GPU and its time", cure="Write T4=1.2ms, V100=0.8ms.")
    return observations(texts)


def told_arguments(typed: TypedLaunch, kernel: CompiledKernel, launch: Launch) -> tuple[ArgumentTold, ...]:
    """Return an argument for each parameter, with a value of ours where the page has none."""
    given = dict(typed.arguments)
    if kernel.signature is None:  # without libclang, the page's own order has to be the right one
        return tuple(ArgumentTold(name, "", text, is_filled=False) for name, text in typed.arguments)
    told = []
    for number, parameter in enumerate(kernel.signature.parameters):
        name = parameter.name or f"argument{number}"
        text = given.get(name, "").strip()
        told.append(ArgumentTold(name, parameter.type_text, text or _usual(parameter, launch), is_filled=not text))
    return tuple(told)


def with_arguments(launch: Launch, told: Sequence[ArgumentTold]) -> Launch:
    """Return a launch with its arguments; raises InputError for a value that is none."""
    folder = launch.source.parent
    return replace(
        launch, arguments=tuple(Argument(each.name, parse_value(each.text, each.name, folder)) for each in told)
    )


def _usual(parameter: Parameter, launch: Launch) -> str:
    """Return a value with which a kernel of one element per thread runs."""
    threads = launch.blocks * launch.threads_per_block
    elements = max(_LEAST_ELEMENTS, min(threads, _MOST_ELEMENTS))
    if parameter.is_pointer:
        element = parameter.element or "u8"
        count = elements if parameter.element else elements * (parameter.pointee_bytes or 1)
        fill = "random" if element in FLOAT_ELEMENTS else "zeros"
        return f"{element}[{count}] {fill}"
    if parameter.kind == "float":
        return "1.0"
    if parameter.kind == "struct":
        return f"bytes({'00' * (parameter.byte_size or 1)})"
    return "1" if parameter.kind == "bool" else str(elements)
