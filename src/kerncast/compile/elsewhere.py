"""Where a kernel stands that a source does not define: in another file of its folder, which the error can name."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from kerncast.errors import CompileError

_SUFFIXES = {".cu", ".cuh", ".h", ".hpp", ".inc"}
_MOST_FILES = 200
_MOST_BYTES = 2**21
_MOST_NAMED = 3
#: A kernel with its body: attributes and a list of parameters, without what ends a declaration.
_DEFINITION = r"__global__\b[^;{{}}]{{0,200}}?\b{name}\s*\([^;{{}}]{{0,2000}}\)\s*\{{"
_KERNEL = re.compile(rb"\b__global__\b")
_MOST_KERNELS = 200


def with_other_file(error: CompileError, source: Path, kernel: str | None) -> CompileError:
    """Return an error that finds no kernel, with the files beside the source that define it; others as they are."""
    # "is no kernel": the source declares it, and another file defines it.
    if not (error.what.startswith("no kernel") or error.what.endswith(" is no kernel")):
        return error
    name = (kernel or r"\w+").partition("<")[0].partition("(")[0].strip().rpartition("::")[2]
    if kernel is not None and not name.isidentifier():
        return error
    pattern = re.compile(_DEFINITION.format(name=name).encode())
    files = [file.name for file in _files_beside(source) if _holds(file, pattern)][:_MOST_NAMED]
    if not files:
        return error
    what = f"{name} is defined" if kernel is not None else "Kernels are defined"
    hint = f"{what} in {', '.join(files)}, beside it: give that file."
    return CompileError(error.what, where=error.where, cure=f"{hint} {error.cure or ''}".strip())


def _files_beside(source: Path) -> Iterator[Path]:
    try:
        found = sorted(source.parent.iterdir())[:_MOST_FILES]
    except OSError:
        return
    yield from (file for file in found if file.suffix in _SUFFIXES and file.name != source.name)


def _holds(file: Path, pattern: re.Pattern[bytes]) -> bool:
    try:
        if not file.is_file():  # a pipe would be waited for
            return False
        with file.open("rb") as stream:
            text = stream.read(_MOST_BYTES)
    except OSError:
        return False
    kernels = islice(_KERNEL.finditer(text), _MOST_KERNELS)
    return any(pattern.match(text, kernel.start()) for kernel in kernels)
