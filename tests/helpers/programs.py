"""The programs of examples/kernels, their launches and their checks."""

import importlib.util
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel, CompiledSource, compile_source, nvrtc
from kerncast.execute.setup import ELEMENT_DTYPES, BoundArgument, bind_arguments, fill_argument, linked_program
from kerncast.gpu import DATA
from kerncast.launch import Buffer, Launch, Struct, load_launches, read_toml
from tests.helpers.places import ROOT

EXAMPLES = ROOT / "examples"
#: The oldest and the newest; one process of the compiler takes two.
ARCHITECTURES = ["sm_50", "sm_120"]
DEFAULT_TOLERANCE = 1e-5

Array = npt.NDArray[Any]
Results = Mapping[str, Array]


@dataclass(frozen=True)
class Check:
    """What a kernel must leave in its buffers."""

    expect: Callable[[Mapping[str, Any]], Results]
    tolerance: float = DEFAULT_TOLERANCE
    scratch: frozenset[str] = field(default_factory=frozenset)
    """buffers whose contents do not matter"""


def every_architecture() -> tuple[str, ...]:
    """Return every architecture that some compiler from a wheel makes code for, and those of the GPU data."""
    numbers = {number for major in (11, 12) if (compiler := nvrtc.load(major)) for number in compiler.architectures}
    known = {f"sm_{number}" for number in numbers} | {path.stem for path in (DATA / "architectures").glob("*.toml")}
    return tuple(sorted(known, key=lambda name: int(name.removeprefix("sm_"))))


def launch_files() -> list[Path]:
    """Return the launch files; files of declared counts hold no launch."""
    return [path for path in sorted((EXAMPLES / "kernels").glob("*.toml")) if "declared" not in read_toml(path)]


def base_name(kernel: str | None) -> str:
    """Return a kernel's name without its template arguments."""
    return (kernel or "").partition("<")[0]


def first_launches(path: Path) -> dict[str, Launch]:
    """Return the first launch of each kernel of a file."""
    found: dict[str, Launch] = {}
    for launch in load_launches(path):
        found.setdefault(base_name(launch.kernel), launch)
    return found


def compiled(launch: Launch, architectures: tuple[str, ...] = (ARCHITECTURES[0],)) -> CompiledSource:
    """Compile the kernel of a launch, once."""
    return _compiled(launch.source, launch.kernel, launch.defines, architectures)


@cache
def _compiled(
    source: Path, kernel: str | None, defines: tuple[tuple[str, str], ...], architectures: tuple[str, ...]
) -> CompiledSource:
    return compile_source(source, architectures=architectures, kernel=kernel, defines=defines)


def bound_arguments(kernel: CompiledKernel, launch: Launch) -> tuple[BoundArgument, ...]:
    """Match a launch's arguments with the kernel's parameters."""
    return bind_arguments(launch, linked_program(kernel.ptx, kernel.mangled).function.parameters, kernel.signature)


def arguments_before(kernel: CompiledKernel, launch: Launch) -> dict[str, Any]:
    """Return the arguments by name, filled as the engine fills them, with the geometry."""
    values: dict[str, Any] = {"grid": launch.grid, "block": launch.block}
    for position, one in enumerate(bound_arguments(kernel, launch)):
        value = one.argument.value
        if isinstance(value, Buffer):
            data = np.zeros(value.nbytes, np.uint8)
            fill_argument(data, launch, position, one.argument)
            values[one.argument.name] = data.view(ELEMENT_DTYPES[value.element]).reshape(value.shape)
        else:
            values[one.argument.name] = value.data if isinstance(value, Struct) else value
    return values


@cache
def check_modules() -> tuple[ModuleType, ...]:
    """Import the modules of checks."""
    return tuple(_imported(path) for path in sorted((EXAMPLES / "checks").glob("*.py")))


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"checks_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def checks() -> Iterator[tuple[str, Check]]:
    """Yield every check with its kernel's name."""
    for module in check_modules():
        tolerances, scratch = getattr(module, "TOLERANCE", {}), getattr(module, "SCRATCH", {})
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                yield (
                    name,
                    Check(function, tolerances.get(name, DEFAULT_TOLERANCE), frozenset(scratch.get(name, ()))),
                )


def difference(got: Array, expected: Array, tolerance: float) -> str | None:
    """Say where a buffer differs from what is expected, or return None."""
    if got.shape != expected.shape:
        return f"shape {got.shape} instead of {expected.shape}"
    if got.dtype.kind != "f":
        wrong = got != expected
    else:
        size = np.abs(expected[np.isfinite(expected)], dtype=np.float64).max(initial=0.0)
        both_same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        with np.errstate(invalid="ignore"):
            near = np.abs(got.astype(np.float64) - expected) <= tolerance * size
        wrong = ~(both_same | near)
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size} elements, first at {place}: {got[place]} instead of {expected[place]}"
