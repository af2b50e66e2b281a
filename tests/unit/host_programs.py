"""What the tests of host code share: the launches of a source, read without a child process."""

from pathlib import Path

from kerncast.compile.host import dropped, launches, parsing, program, tree
from kerncast.compile.host_launches import HostLaunch, HostValue
from kerncast.compile.source.parsing import SHIM_FOLDER, ParseOptions, declarations


def launches_of(text: str, folder: Path, argv: str | None = None) -> tuple[HostLaunch, ...]:
    """Return the launches of a source with the values that its host code gives them."""
    path = folder / "k.cu"
    path.write_text(text, encoding="utf-8")
    unit = parsing.parse_host(path, ParseOptions(80, "c++17", (), (folder,)))
    assert unit is not None
    own = [c for c in declarations(unit.cursor) if c.location.file and not c.location.file.name.startswith(SHIM_FOLDER)]
    nodes = tree.Tree(own)
    texts = {name: Path(name).read_bytes() for name in {each.file for each in nodes.functions.values()}}
    read = program.Program(nodes, dropped.Dropped(texts, dropped.skipped(unit)))
    return launches.Launches(read, None if argv is None else tuple(argv.split())).found()


def argument(launch: HostLaunch, name: str) -> HostValue:
    """Return what a launch passes for one parameter."""
    return dict(zip(launch.names, launch.arguments, strict=True))[name].value
