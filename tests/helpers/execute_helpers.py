"""What the tests of the engine share: compile kernels once, launch them by keyword."""

import os
import re
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile, gettempdir
from typing import Any

from kerncast.compile import CompiledKernel, compile_source
from kerncast.execute import Budget, WholeGrid, execute, profile_of
from kerncast.execute.sampling.run import EngineName
from kerncast.launch import Argument, Launch, parse_extent, parse_value
from kerncast.profiles import Resources
from kerncast.traces import Trace

#: The engine that ``run`` and ``profile`` use; the fixture ``engine`` sets it.
ENGINE: EngineName = "native"
WITH_FRAME = Resources("sm_70", 32, 0, 64, 0, 0, 0, 1, None)
_SOURCES = Path(os.environ.get("KERNCAST_CACHE") or gettempdir()) / "sources of tests"
PTX_HEAD = ".version 8.8\n.target sm_70\n.address_size 64\n"


@cache
def _compile(source: str, kernel: str, architecture: str) -> CompiledKernel:
    return compile_source(_written(source), architectures=[architecture], kernel=kernel).kernels[0]


@cache
def _written(source: str) -> Path:
    """Write a source where the other processes of the session do, so that what one has compiled all have."""
    path = _SOURCES / sha256(source.encode()).hexdigest() / "k.cu"
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        file.write(source)
    Path(file.name).replace(path)
    return path


def compiled(source: str, kernel: str | None = None, architecture: str = "sm_70") -> CompiledKernel:
    """Compile a source whose kernels are all ``extern "C"``, once, and return one of its kernels.

    Every kernel after the first goes without its signature, and as if it kept its local arrays in memory.
    """
    first = re.findall(r"__global__ void (\w+)\(", source)[0]
    found = _compile(source, first, architecture)
    if kernel in {None, first}:
        return found
    return replace(found, kernel=str(kernel), mangled=str(kernel), signature=None, resources=WITH_FRAME)


def ptx_is_the_same(source: str, one: str, other: str) -> bool:
    """Whether the compiler writes the same PTX for two architectures, but for their names."""
    texts = (compiled(source, None, name).ptx.partition(".address_size")[2] for name in (one, other))
    return len(set(texts)) == 1


def ptx_kernel(text: str) -> CompiledKernel:
    """Return the kernel ``k`` of a PTX text without its head, as if it kept its local arrays in memory."""
    return CompiledKernel("k", "k", "sm_70", PTX_HEAD + text, WITH_FRAME, None)


def launch(grid: Any, block: Any, shared: Any = 0, **arguments: Any) -> Launch:
    """Return a launch; arguments are written as in a launch file."""
    values = tuple(Argument(name, parse_value(value, name, Path())) for name, value in arguments.items())
    return Launch(Path("k.cu"), "k", parse_extent(grid, "grid", ""), parse_extent(block, "block", ""), shared, values)


def run(kernel: CompiledKernel, where: Launch, budget: Budget | None = None) -> Trace:
    """Execute the whole grid, or what the budget allows."""
    return execute(kernel, where, budget or WholeGrid(), engine=ENGINE)[0]


def profile(kernel: CompiledKernel, where: Launch, budget: Budget | None = None) -> Any:
    """Execute and scale to the whole grid."""
    return profile_of(*execute(kernel, where, budget or WholeGrid(), engine=ENGINE), kernel, where)
