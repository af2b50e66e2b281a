"""What the child process does for ``kerncast init``: read the launches that host code makes."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kerncast.compile.headers import header_folders
from kerncast.errors import CompileError

#: Decides which kernels #if __CUDA_ARCH__ lets through.
_ARCHITECTURE = 80

#: Calls inside one another: a value is followed through many functions, each some calls deep.
_DEEPEST = 20_000

_MOST_SHOWN = 8
_CUT = "the source is too large to be read as a whole: launches may be missing"


def host_launches(request: dict[str, Any]) -> dict[str, Any]:
    """Return the kernels of a source, and the launches of its host code with their values."""
    try:
        from kerncast.compile.host import dropped, launches, parsing, program, tree  # noqa: PLC0415  needs libclang
        from kerncast.compile.source import parsing as device  # noqa: PLC0415
        from kerncast.compile.source import signatures, variables  # noqa: PLC0415
    except ImportError:
        raise CompileError("libclang is not installed", cure="Install libclang.") from None
    sys.setrecursionlimit(_DEEPEST)
    path = Path(request["source"])
    folders = (path.parent, *(Path(folder) for folder in request["include_dirs"]))
    defines = tuple((name, value) for name, value in request["defines"])
    options = device.ParseOptions(_ARCHITECTURE, request["standard"], defines, folders)
    device_unit, host_unit = device.parse(path, options), parsing.parse_host(path, options)
    if device_unit is None or host_unit is None:
        raise CompileError(
            "libclang cannot parse this file", where=str(path), cure="Look for an #include or a macro without end."
        )
    wheels = header_folders()
    declared = [
        cursor
        for cursor in device.declarations(host_unit.cursor)
        if cursor.location.file
        and not cursor.location.file.name.startswith(device.SHIM_FOLDER)
        and not any(Path(cursor.location.file.name).is_relative_to(folder) for folder in wheels)
    ]
    text = path.read_bytes()
    nodes = tree.Tree(sorted(declared, key=lambda cursor: not _may_launch(cursor, text)))
    texts = {name: Path(name).read_bytes() for name in {each.file for each in nodes.functions.values()}}
    files = texts | {str(path): text}
    left_out = dropped.Dropped(files, dropped.skipped(host_unit))
    read = program.Program(nodes, left_out)
    known = variables.device_variables(device.by_file(host_unit), files)
    literal = frozenset(v.name for v in known if v.copies and all(copy.data is not None for copy in v.copies))
    arguments = None if request["arguments"] is None else tuple(request["arguments"])
    sites = launches.Launches(read, arguments, literal)
    found = sites.found()
    lost = _lost(left_out.launches(sites.nodes))
    return {
        "kernels": [asdict(each) for each in signatures.kernel_signatures(device_unit)],
        "launches": [asdict(each) for each in found],
        "caveats": [_CUT] * nodes.is_cut + lost,
    }


def _lost(places: list[tuple[str, int]]) -> list[str]:
    """Say where launches stand that could not be read."""
    shown = ", ".join(f"{Path(file).name}:{line}" for file, line in places[:_MOST_SHOWN])
    more = f" and {len(places) - _MOST_SHOWN} more" if len(places) > _MOST_SHOWN else ""
    return [f"a launch could not be read and is missing: {shown}{more}"] if places else []


def _may_launch(cursor: Any, text: bytes) -> bool:
    """Whether a declaration of the source is main, or launches kernels: those come first where there is too much."""
    extent = cursor.extent
    return cursor.spelling == "main" or b"<<<" in text[extent.start.offset : extent.end.offset]
