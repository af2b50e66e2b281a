"""The user's own headers: which a source includes, and under what names.

NVRTC resolves an #include inside a header in memory by its spelling, not by its folder; so each spelling has to be
known, and as soon as one header has lost its host code all of them have to be in memory.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from clang.cindex import TranslationUnit

from kerncast.compile.source.host_code import DeviceCode
from kerncast.compile.source.parsing import SHIM_FOLDER
from kerncast.errors import CompileError

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)


def user_headers(unit: TranslationUnit, excluded: Sequence[Path]) -> tuple[str, ...]:
    """Return the files on disk that the source includes, without those of the wheels."""
    names = dict.fromkeys(inclusion.include.name for inclusion in unit.get_includes())
    return tuple(
        name
        for name in names
        if not name.startswith(SHIM_FOLDER) and not any(Path(name).is_relative_to(folder) for folder in excluded)
    )


def included_headers(
    names: Sequence[str], including: Mapping[str, bytes], folders: Sequence[Path]
) -> list[tuple[str, str]]:
    """Return each spelling by which the user's headers are included, beside the header that it means."""
    files = {Path(name).resolve(): name for name in names}
    found = [
        (spelling, files[path])
        for name, text in including.items()
        for spelling, path in _included(text, (Path(name).parent, *folders))
        if path in files
    ]
    return list(dict.fromkeys(found))


def headers_in_memory(codes: Mapping[str, DeviceCode], included: Sequence[tuple[str, str]]) -> dict[str, bytes]:
    """Return each user header under each of its spellings; none where no header holds host code."""
    if not any(code.changed for code in codes.values()):
        return {}
    headers: dict[str, bytes] = {}
    first: dict[str, str] = {}
    found: dict[str, str] = {}
    for spelling, meant in included:
        if found.setdefault(spelling, meant) != meant:
            raise CompileError(
                f'"{spelling}" is the name of two headers, {found[spelling]} and {meant}',
                cure="Rename one, or take the host code out of them.",
            )
        # A second spelling includes the first: NVRTC applies "#pragma once" to names, not to contents.
        known = first.setdefault(meant, spelling)
        headers[spelling] = _placed(codes[meant].text, meant) if known == spelling else f'#include "{known}"\n'.encode()
    return headers


def _placed(text: bytes, file: str) -> bytes:
    """Return the text of a header that says where it is: NVRTC takes a name in memory as one in the current folder."""
    if not file.isprintable():
        return text
    name = file.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{name}"\n'.encode() + text


def _included(text: bytes, folders: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for match in _INCLUDE.finditer(text):
        spelling = match[1].decode(errors="replace")
        path = next((folder / spelling for folder in folders if (folder / spelling).is_file()), None)
        if path is not None:
            yield spelling, path.resolve()
