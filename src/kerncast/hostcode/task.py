"""The child's task for ``kerncast init``: read the launches that host code makes."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kerncast.bounded_file import read_bytes
from kerncast.compile.headers import header_folders
from kerncast.compile.nouns import SOURCE_FILE, CompileRequest
from kerncast.errors import CompileError
from kerncast.hostcode.nouns import HostJob, HostReply

if TYPE_CHECKING:
    from clang.cindex import Cursor, TranslationUnit

    from kerncast.compile.source.parsing import ParseOptions
    from kerncast.hostcode.program import Dropped

#: Decides which kernels #if __CUDA_ARCH__ lets through.
_ARCHITECTURE = 80

#: Calls inside one another: a value is followed through many functions, each some calls deep.
_DEEPEST = 20_000

_MOST_SHOWN = 8
_CUT = "the source is too large to be read as a whole: launches may be missing"


def host_launches(job: HostJob) -> HostReply:
    """Return the kernels of a source, and the launches of its host code with their values.

    What calls its functions may stand in the further sources of ``job.hosts``.
    """
    try:
        from kerncast.compile.source import parsing as device  # noqa: PLC0415
        from kerncast.compile.source import signatures, variables  # noqa: PLC0415
        from kerncast.hostcode import launches, parsing, program  # noqa: PLC0415  needs libclang
    except ImportError:
        raise CompileError("libclang is not installed", cure="Install libclang.") from None
    sys.setrecursionlimit(_DEEPEST)
    request = job.request
    path = request.source
    device_unit = device.parse(path, _options(request, path, request.include_dirs))
    if device_unit is None:
        raise _unparsed(path)
    sources = [(path, request.include_dirs), *job.hosts]
    units = [_host_unit(request, *each) for each in sources]
    texts = {str(each): read_bytes(each, SOURCE_FILE) for each, _ in sources}
    declared = [cursor for unit in units for cursor in _own_declarations(unit)]
    nodes = program.Tree(sorted(declared, key=lambda cursor: not _may_launch(cursor, texts)))
    texts |= {name: parsing.text_of(name) for name in {each.file for each in nodes.functions.values()} - set(texts)}
    left_out = _left_out(texts, units)
    read = program.Program(nodes, left_out)
    _check_one_program([each.file for each in read.mains])
    known = variables.device_variables(device.by_file(units[0]), texts)
    literal = frozenset(v.name for v in known if v.copies and all(copy.data is not None for copy in v.copies))
    sites = launches.Launches(read, job.arguments, literal)
    found = sites.found()
    lost = _lost(left_out.launches(sites.nodes))
    return HostReply(
        kernels=tuple(signatures.kernel_signatures(device_unit)),
        launches=tuple(found),
        caveats=(*[_CUT] * nodes.is_cut, *lost),
        uncalled=tuple(sites.uncalled),
    )


def _check_one_program(files: list[str]) -> None:
    """Raise CompileError where several sources have a main."""
    found = sorted(set(files))
    if len(found) > 1:
        names = " and ".join(Path(each).name for each in found)
        raise CompileError("each of them defines main", where=names, cure="Name the sources of one program.")


def _options(request: CompileRequest, source: Path, include_dirs: tuple[Path, ...]) -> "ParseOptions":
    from kerncast.compile.source.parsing import ParseOptions  # noqa: PLC0415  needs libclang

    return ParseOptions(_ARCHITECTURE, request.standard, request.defines, (source.parent, *include_dirs))


def _host_unit(request: CompileRequest, source: Path, include_dirs: tuple[Path, ...]) -> "TranslationUnit":
    from kerncast.hostcode.parsing import parse_host  # noqa: PLC0415  needs libclang

    unit = parse_host(source, _options(request, source, include_dirs))
    if unit is None:
        raise _unparsed(source)
    return unit


def _unparsed(source: Path) -> CompileError:
    return CompileError(
        "libclang cannot parse this file", where=str(source), cure="Look for an #include or a macro without end."
    )


def _own_declarations(unit: "TranslationUnit") -> "list[Cursor]":
    """Return the declarations of namespace scope that are of the user's own files."""
    from kerncast.compile.source.parsing import SHIM_FOLDER, declarations  # noqa: PLC0415  needs libclang

    wheels = header_folders()
    return [
        cursor
        for cursor in declarations(unit.cursor)
        if cursor.location.file
        and not cursor.location.file.name.startswith(SHIM_FOLDER)
        and not any(Path(cursor.location.file.name).is_relative_to(folder) for folder in wheels)
    ]


def _left_out(texts: dict[str, bytes], units: "list[TranslationUnit]") -> "Dropped":
    """Return what the parser has left out; of a header, in the first source that includes it."""
    from kerncast.hostcode.program import Dropped, skipped  # noqa: PLC0415  needs libclang

    ranges: dict[str, list[tuple[int, int]]] = {}
    for unit in reversed(units):
        ranges |= skipped(unit)
    return Dropped(texts, ranges)


def _lost(places: list[tuple[str, int]]) -> list[str]:
    """Say where launches stand that could not be read."""
    shown = ", ".join(f"{Path(file).name}:{line}" for file, line in places[:_MOST_SHOWN])
    more = f" and {len(places) - _MOST_SHOWN} more" if len(places) > _MOST_SHOWN else ""
    return [f"a launch could not be read and is missing: {shown}{more}"] if places else []


def _may_launch(cursor: "Cursor", texts: dict[str, bytes]) -> bool:
    """Whether a declaration of a source is main, or launches kernels: those come first where there is too much."""
    extent, text = cursor.extent, texts.get(cursor.location.file.name, b"")
    return cursor.spelling == "main" or b"<<<" in text[extent.start.offset : extent.end.offset]
