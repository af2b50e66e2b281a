"""The parent's side of ``kerncast init``: ask a child process for the kernels of a source and their launches."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kerncast.bounded_file import read_head
from kerncast.compile.build_file import build_options, folders_of_missing_headers, headers_of, macros_not_given
from kerncast.compile.compiler import ChildTask, run_task, with_other_file
from kerncast.compile.nouns import CompileRequest, SourceListing
from kerncast.errors import CompileError, InputError

_LISTER = ChildTask("kerncast.compile.worker", "list")
#: Bytes of a source in which macros of its Makefile are looked for.
_MOST_BYTES = 2**22


def list_source(request: CompileRequest, kernels: Sequence[str] = ()) -> SourceListing:
    """Return the kernels of a source and the launches that its text writes; raises CompileError, InputError.

    ``kernels`` selects by name.
    """
    options = build_options(request.source)
    macros: tuple[tuple[str, str], ...] = ()
    if options is not None:
        folders = folders_of_missing_headers(request.source, request.include_dirs, options)
        request = replace(request, include_dirs=(*request.include_dirs, *folders))
        macros = _named(macros_not_given(request, options), request)
        request = replace(request, defines=(*request.defines, *macros))
    found = run_task(_LISTER, request, request, SourceListing)
    if not found.kernels:
        error = CompileError(
            "no kernel found",
            where=str(request.source),
            cure="Mark the function that a GPU is to run with __global__, or name the file that holds it.",
        )
        raise with_other_file(error, request.source, None)
    return _selected(replace(found, defines=macros), kernels)


def is_named(name: str, names: Iterable[str]) -> bool:
    """Return whether a kernel is among names, with or without their namespaces."""
    return any(name == each or name.endswith(f"::{each}") or each.endswith(f"::{name}") for each in names)


def _selected(found: SourceListing, kernels: Sequence[str]) -> SourceListing:
    """Return what is asked for; raises InputError for a kernel that is not there."""
    if not kernels:
        return found
    names = [re.split(r"[<(]", each, maxsplit=1)[0].strip().removeprefix("::") for each in kernels]
    known = list(dict.fromkeys(each.name for each in found.kernels))
    for name in names:
        if not is_named(name, known):
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise InputError(f"no kernel {name[:60]!r}", cure=f"{hint}There are: {', '.join(known)}.")
    return replace(
        found,
        kernels=tuple(each for each in found.kernels if is_named(each.name, names)),
        launches=tuple(each for each in found.launches if is_named(each.written.removeprefix("::"), names)),
    )


def _named(macros: tuple[tuple[str, str], ...], request: CompileRequest) -> tuple[tuple[str, str], ...]:
    """Return the macros that a source, or a header of its own, names."""
    text = bytearray()
    for file in (request.source, *headers_of(request.source, request.include_dirs)):
        try:
            text += read_head(file, _MOST_BYTES) + b"\n"
        except InputError:
            continue
    return tuple(each for each in macros if re.search(rb"\b" + each[0].encode() + rb"\b", text) is not None)
