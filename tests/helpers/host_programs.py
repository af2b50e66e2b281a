"""What the tests of host code share: the launches of a program, read without a child process."""

from collections.abc import Mapping
from pathlib import Path

from kerncast.compile.source.parsing import SHIM_FOLDER, ParseOptions, declarations
from kerncast.hostcode import HostLaunch, HostValue, launches, parsing, program


def program_of(text: str, folder: Path, hosts: Mapping[str, str] | None = None) -> program.Program:
    """Return a program of one source with kernels, and of further ones by their file names."""
    units, ranges = [], dict[str, list[tuple[int, int]]]()
    for name, content in {"k.cu": text, **(hosts or {})}.items():
        (folder / name).write_text(content, encoding="utf-8")
        if not name.endswith(".h"):
            unit = parsing.parse_host(folder / name, ParseOptions(80, "c++17", (), (folder,)))
            assert unit is not None
            units.append(unit)
            ranges |= program.skipped(unit)
    found = [each for unit in units for each in declarations(unit.cursor)]
    own = [c for c in found if c.location.file and not c.location.file.name.startswith(SHIM_FOLDER)]
    nodes = program.Tree(own)
    texts = {name: Path(name).read_bytes() for name in {each.file for each in nodes.functions.values()}}
    return program.Program(nodes, program.Dropped(texts, ranges))


def launches_with(read: program.Program, argv: str | None) -> tuple[HostLaunch, ...]:
    """Return the launches of a program with the values that its host code gives them for a command line."""
    return launches.Launches(read, None if argv is None else tuple(argv.split())).found()


def launches_of(text: str, folder: Path, argv: str | None = None) -> tuple[HostLaunch, ...]:
    """Return the launches of a source with the values that its host code gives them."""
    return launches_with(program_of(text, folder), argv)


def argument(launch: HostLaunch, name: str) -> HostValue:
    """Return what a launch passes for one parameter."""
    return dict(zip(launch.names, launch.arguments, strict=True))[name].value
