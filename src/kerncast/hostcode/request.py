"""The parent's side of ``kerncast init``: ask a child process for the launches of host code."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kerncast.bounded_file import is_file, read_head
from kerncast.compile.build_file import build_options, folders_of_missing_headers, headers_of, macros_not_given
from kerncast.compile.compiler import ChildTask, run_task
from kerncast.compile.nouns import CompileRequest, KernelSignature, Parameter
from kerncast.confinement import source_places
from kerncast.errors import CompileError, InputError
from kerncast.hostcode.nouns import UNDECIDED, HostArgument, HostJob, HostLaunch, HostProgram, HostReply, HostValue

_READER = ChildTask("kerncast.hostcode.worker", "launches")
_SUFFIXES = {".c", ".cc", ".cpp", ".cxx", ".cu"}
#: Files that are looked into, and bytes of one.
_MOST_FILES = 200
_MOST_BYTES = 2**22
_MOST_SHOWN = 4
#: What stands before a call: a declaration has a type there.
_BEFORE = rb"(?:[=(,;{})]|^|\breturn)\s*(?:\w+::)*"
_KERNEL = re.compile(rb"^(?!\s*//).*\b__global__\b", re.MULTILINE)


def callers_elsewhere(source: Path, hosts: Sequence[Path], functions: Sequence[str]) -> tuple[str, ...]:
    """Return a caveat for each function that nothing calls in the sources read, where a file nearby seems to."""
    if not functions:
        return ()
    read = {each.resolve() for each in (source, *hosts)}
    texts = [(file, _text(file)) for file in _nearby(source) if file.resolve() not in read]
    found: dict[tuple[Path, ...], list[str]] = {}
    for name in functions:
        call = re.compile(_BEFORE + re.escape(name.encode()) + rb"\s*\(", re.MULTILINE)
        files = tuple(file for file, text in texts if call.search(text))
        if files:
            found.setdefault(files, []).append(name)
    return tuple(_caveat(files, names) for files, names in found.items())


def kernels_elsewhere(source: Path, hosts: Sequence[Path]) -> tuple[Path, ...]:
    """Return the sources that hold kernels: those that are given with one that has none, else those near it."""
    files = [*hosts, *_nearby(source)]
    return tuple(dict.fromkeys(file for file in files if _KERNEL.search(_text(file))))[:_MOST_SHOWN]


def _caveat(files: Sequence[Path], names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_SHOWN]) + (" and others" if len(names) > _MOST_SHOWN else "")
    one, *more = files
    other = f"; so do {', '.join(each.name for each in more[:_MOST_SHOWN])}" if more else ""
    return f"{one.name} seems to call {shown}{other}: what it passes is read with --host {one.as_posix()}"


def _nearby(source: Path) -> Iterable[Path]:
    """Return the sources in the folder of a source and below that of its Makefile."""
    options = build_options(source)
    roots = [source.parent] + ([options.file.parent] if options is not None else [])
    found: dict[Path, Path] = {}
    for file in (file for root in roots for file in _sources_below(root)):
        found.setdefault(file.resolve(), file)
        if len(found) >= _MOST_FILES:
            break
    return sorted(found.values())


def _sources_below(folder: Path) -> Iterator[Path]:
    try:
        for file in sorted(folder.glob("*")) + sorted(folder.glob("*/*")):
            if file.suffix in _SUFFIXES and is_file(file):
                yield file
    except OSError:
        return


def _text(file: Path) -> bytes:
    try:
        return read_head(file, _MOST_BYTES)
    except InputError:
        return b""


_NOT_LAUNCHED = "nothing here launches this kernel"


def read_host_code(
    request: CompileRequest,
    *,
    arguments: Sequence[str] | None = None,
    kernels: Sequence[str] = (),
    hosts: Sequence[Path] = (),
) -> HostProgram:
    """Return the kernels of a source and the launches of its host code; raises CompileError, InputError.

    ``arguments`` is the command line of the program, without its name; ``kernels`` selects by name; ``hosts`` are
    further sources of the program, such as the one with main.
    """
    folders = {source: _folders(request, source) for source in (request.source, *hosts)}
    macros = _macros(request, folders)
    whole = replace(request, include_dirs=folders[request.source], defines=(*request.defines, *macros))
    given = None if arguments is None else tuple(arguments)
    job = HostJob(whole, given, tuple((host, folders[host]) for host in hosts))
    reads = [place for source, found in folders.items() for place in (*source_places(source), *found)]
    reply = run_task(_READER, whole, job, HostReply, reads=reads)
    signatures = reply.kernels
    launches = tuple(_told_apart(each, signatures) for each in reply.launches)
    if hosts:  # they may launch kernels of their own
        own = {each.name for each in signatures} | {UNDECIDED}
        launches = tuple(each for each in launches if _is_in(_base(each.kernel), own))
    if not signatures and not launches:
        raise _no_kernel(request.source, hosts)
    names = _selected(kernels, signatures, launches)
    launched = {_base(each.kernel) for each in launches}
    left_out = [] if kernels else [each for each in launches if not each.is_reached]
    launches = tuple(each for each in launches if kernels or each.is_reached) + tuple(
        _told_apart(_never_launched(each), signatures) for each in signatures if not _is_in(each.name, launched)
    )
    return HostProgram(
        tuple(each for each in signatures if names is None or _is_in(each.name, names)),
        tuple(each for each in launches if names is None or _is_in(_base(each.kernel), names)),
        (*reply.caveats, *map(_unreached, left_out), *callers_elsewhere(request.source, hosts, reply.uncalled)),
        macros,
    )


def _no_kernel(source: Path, hosts: Sequence[Path]) -> CompileError:
    others = ", ".join(each.as_posix() for each in kernels_elsewhere(source, hosts))
    such = f", such as {others}, and this one with --host" if others else ""
    return CompileError(
        "no kernel found",
        where=str(source),
        cure=f"Mark the function that a GPU is to run with __global__, or name the file that holds it{such}.",
    )


def _macros(request: CompileRequest, folders: dict[Path, tuple[Path, ...]]) -> tuple[tuple[str, str], ...]:
    """Return the macros of the Makefile that a source of the program, or a header of one, names.

    ``folders`` are those of headers, by source.
    """
    options = build_options(request.source)
    if options is None:
        return ()
    headers = [header for source, each in folders.items() for header in headers_of(source, each)]
    return _named(macros_not_given(request, options), (*folders, *headers))


def _folders(request: CompileRequest, source: Path) -> tuple[Path, ...]:
    """Return the folders of headers for a source of the program: those that are given, and what its Makefile names."""
    options = build_options(source)
    more = folders_of_missing_headers(source, request.include_dirs, options) if options is not None else ()
    return (*request.include_dirs, *more)


def _named(macros: Sequence[tuple[str, str]], sources: Iterable[Path]) -> tuple[tuple[str, str], ...]:
    """Return the macros that one of several sources names."""
    text = b"\n".join(map(_text, sources))
    return tuple(
        (name, value) for name, value in macros if re.search(rb"\b" + name.encode() + rb"\b", text) is not None
    )


def _selected(
    kernels: Sequence[str], signatures: Iterable[KernelSignature], launches: Iterable[HostLaunch]
) -> set[str] | None:
    """Return the names that are asked for; None for all. Raises InputError for one that is not there."""
    if not kernels:
        return None
    known = dict.fromkeys([each.name for each in signatures] + [_base(each.kernel) for each in launches])
    for name in kernels:
        if not _is_in(_base(name), set(known)):
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise InputError(f"no kernel {name[:60]!r}", cure=f"{hint}There are: {', '.join(known)}.")
    return {_base(name) for name in kernels}


def _is_in(name: str, names: set[str]) -> bool:
    """Whether a kernel is among names, with or without their namespaces."""
    return any(name == each or name.endswith(f"::{each}") or each.endswith(f"::{name}") for each in names)


def _base(kernel: str) -> str:
    return re.split(r"[<(]", kernel, maxsplit=1)[0].strip().removeprefix("::")


def _told_apart(launch: HostLaunch, signatures: Iterable[KernelSignature]) -> HostLaunch:
    """Return a launch of an overloaded kernel with the types of the parameters in its name."""
    name = _base(launch.kernel)
    if UNDECIDED in launch.kernel or sum(each.name == name for each in signatures) < 2:
        return launch
    types = ", ".join(each.parameter.type_text for each in launch.arguments)
    return replace(launch, kernel=f"{launch.kernel}({types})")


def _never_launched(signature: KernelSignature) -> HostLaunch:
    """Return a launch with placeholders for a kernel that no host code launches."""

    def undecided(value: Any) -> HostValue:
        return HostValue("", "", value, (), _NOT_LAUNCHED)

    name = f"{signature.name}<{UNDECIDED}>" if signature.is_template else signature.name
    return HostLaunch(
        kernel=name,
        written=f"{signature.name}<{', '.join(signature.template_parameters)}>" if signature.is_template else name,
        place="",
        grid=undecided((None,)),
        block=undecided((None,)),
        shared_bytes=HostValue("", "", 0),
        arguments=tuple(HostArgument(each, undecided(_placeholder(each))) for each in signature.parameters),
        notes=(_NOT_LAUNCHED,),
    )


def _placeholder(parameter: Parameter) -> str | None:
    if parameter.kind == "struct":
        return f"bytes({UNDECIDED})"
    if not parameter.is_pointer or parameter.element is None or "*" in (parameter.pointee_type or ""):
        return UNDECIDED
    fill = "random" if parameter.element.startswith("f") else "zeros"
    return f"{parameter.element}[{UNDECIDED}] {fill}"


def _unreached(launch: HostLaunch) -> str:
    base = _base(launch.kernel)
    return (
        f"{base} is not launched at {launch.place}: a condition on the way there does not hold;"
        f" --kernel {base} writes it all the same"
    )
