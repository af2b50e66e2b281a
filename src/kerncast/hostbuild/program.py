"""Builds a program of sources and objects, but for what is remembered of an earlier time."""

import json
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncast.bounded_file import read_bytes
from kerncast.child_process import Progress
from kerncast.errors import CompileError
from kerncast.hostbuild.compiling import (
    OUTPUT,
    SOURCE_TAG,
    Compiled,
    Unit,
    compile_units,
    object_of,
    remarks_on,
)
from kerncast.hostbuild.host_compilers import Limits, Toolchain, folder_variables, run_tool, toolchain
from kerncast.hostbuild.nvcc_options import CodeOptions, CommandLine, Input, Language, LinkOptions
from kerncast.hostbuild.objects import content_of, keep, key_of, recall, workplace
from kerncast.hostbuild.rewriting import absolute
from kerncast.printable import printable_lines
from kerncast.replaced_file import replacing

#: Options of the host's compiler that say nothing to the linker.
_NOT_FOR_LINKING = re.compile(
    r"-W(?!l,)\S*|-pedantic\S*|-g\d?|-w|-static|-M\w+|-f(?!openmp|lto|sanitize|PI|pi|use-ld|no-lto).*"
)
#: Libraries of CUDA that every program is linked with anyway, and one that headers of ours stand for.
_RUNTIME = frozenset({"cudart", "cudart_static", "cudadevrt", "culibos", "nvToolsExt", "nvtx3interop"})
#: Without a compiler of the system, loops run in one thread.
_OF_OPENMP = frozenset({"gomp", "omp"})
#: Libraries of NVIDIA's that are not there: a program may name them and need nothing of them.
_CLOSED = re.compile(
    r"(?:cu(?:sparse|solver|solverMg|dnn\w*|tensor|pti|file|fftw|blasLt|blas|fft|rand)"
    r"|nv(?:rtc|jpeg|JitLink|graph|idia-ml)|npp\w*|nccl|nvshmem\w*|cuda)(?:_static)?"
)
_RUNTIME_LIBRARY = "libcudart.so.12"
#: What nvcc links programs with unasked, and what clang takes from the library of mathematics.
_OF_THE_SYSTEM = ("-lm", "-lrt", "-lpthread", "-ldl")
_LINKING = Limits(seconds=3600.0)


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """A program to build, and how."""

    inputs: tuple[Input, ...]
    """sources and objects"""
    code: CodeOptions
    link: LinkOptions
    output: Path
    """file for the program"""
    runtime: Path
    """folder of the runtime's libraries"""

    @classmethod
    def of(cls, line: CommandLine, output: Path, runtime: Path) -> "BuildRequest":
        """Return the request that a command line makes."""
        return cls(line.inputs, line.code, line.link, output, runtime)


@dataclass(frozen=True, slots=True)
class Program:
    """A program that was built."""

    path: Path
    sources: tuple[Path, ...]
    compiled: int
    """sources that were compiled; the others were remembered"""
    remarks: tuple[str, ...] = ()
    """what a user should know of options and libraries that have no effect"""


def build_program(request: BuildRequest, progress: Progress | None = None) -> Program:
    """Compile and link a program; raises CompileError where a source does not compile or the program does not link."""
    tools, show = toolchain(), progress or _ignored
    units = [Unit(each, request.code) for each in request.inputs if each.language != Language.OBJECT]
    compiled = compile_units(units, tools, show)
    libraries = _libraries(request, tools)
    try:
        content = _linked(request, _Parts(units, compiled, libraries), tools, show)
    except CompileError as error:
        what = "\n".join([error.what, *libraries.remarks])
        raise CompileError(what, where=error.where, cure=error.cure) from None
    with replacing(request.output) as place:
        place.write_bytes(content)
        place.chmod(0o755)
    remarks = [*(remark for unit in units for remark in remarks_on(unit, tools)), *libraries.remarks]
    return Program(
        request.output,
        tuple(unit.source.path for unit in units),
        sum(each.content is not None for each in compiled),
        tuple(dict.fromkeys(remarks)),
    )


def _ignored(what: str, done: int, total: int) -> None:
    del what, done, total


@dataclass(frozen=True, slots=True)
class _Libraries:
    words: tuple[str, ...]
    files: tuple[str, ...]
    """libraries whose files are known: when one changes, the program is linked again"""
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Parts:
    units: Sequence[Unit]
    compiled: Sequence[Compiled]
    libraries: _Libraries


def _libraries(request: BuildRequest, tools: Toolchain) -> _Libraries:
    """Return what is linked for the libraries that a request names: the runtime's come before all others."""
    words, files, remarks = [], [], []
    for name in request.link.libraries:
        own = library_of_runtime(name, request.runtime)
        found = next((each for each in _places(name, request.link.folders) if each.is_file()), None)
        if name in _RUNTIME or (tools.cxx is None and name in _OF_OPENMP):
            continue
        if own is not None:
            words.append(str(own))
        elif found is None and _CLOSED.fullmatch(name):
            remarks.append(f"there is no library {name} for programs that are run here: it is left out")
        else:
            words.append(f"-l{name}")
            files += [absolute(found)] if found is not None else []
    if request.link.has_runtime:
        words.append(str(request.runtime / _RUNTIME_LIBRARY))
    return _Libraries(tuple(words), tuple(files), tuple(remarks))


def library_of_runtime(name: str, runtime: Path) -> Path | None:
    """Return the runtime's library of a name, such as ``cublas``."""
    name = name.removesuffix("_static")
    exact = runtime / f"lib{name}.so"
    return exact if exact.exists() else next(iter(sorted(runtime.glob(f"lib{name}.so.*"))), None)


def _places(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from (folder / f"lib{name}.so", folder / f"lib{name}.a")


def _linked(request: BuildRequest, parts: _Parts, tools: Toolchain, progress: Progress) -> bytes:
    """Return a program, remembered or linked now."""
    given = [str(each.path) for each in request.inputs if each.language == Language.OBJECT]
    words = [*link_words(request), *parts.libraries.words, *_OF_THE_SYSTEM]
    digests = [each.kept.digest for each in parts.compiled]
    key = key_of("program", tools.identity, tools.linker, words, digests, given, str(Path.cwd()), folder_variables())
    kept = recall(key)
    known = content_of(kept) if kept is not None else None
    if known is not None:
        return known
    started_ns = time.time_ns()
    with tempfile.TemporaryDirectory(prefix="kerncast-") as folder:
        objects = list(_written(parts, tools, Path(folder)))
        output = Path(folder) / "program"
        run_linker([*objects, *given, *words, "-o", str(output)], tools, progress)
        content = read_bytes(output, OUTPUT)
    keep(key, [*map(absolute, given), *parts.libraries.files], content, started_ns)
    return content


def _written(parts: _Parts, tools: Toolchain, folder: Path) -> Iterator[str]:
    """Write the objects; yields their places."""
    for number, (unit, compiled) in enumerate(zip(parts.units, parts.compiled, strict=True)):
        place = folder / f"{number}-{unit.source.path.stem}.o"
        place.write_bytes(object_of(unit, compiled, tools))
        yield str(place)


def link_words(request: BuildRequest) -> list[str]:
    """Return the options of linking, without the inputs and the libraries."""
    link = request.link
    words = [word for word in request.code.host if not _NOT_FOR_LINKING.fullmatch(word)]
    words += ["-shared"] if link.is_shared else []
    words += [f"-L{request.runtime}", *(f"-L{folder}" for folder in link.folders)]
    # Libraries that the runtime's own need are found at the link, and by nobody's path at the run.
    words += [f"-Wl,-rpath-link,{request.runtime}"]
    return words + [word for each in link.words for word in ("-Xlinker", each)]


def run_linker(words: Sequence[str], tools: Toolchain, progress: Progress) -> None:
    """Run the linker; raises CompileError."""
    is_first = is_first_link(tools)
    progress("building the library of C++, once: some minutes" if is_first else "linking", 0, 0)
    finished = run_tool([*tools.linker, *words], _LINKING)
    if finished.status:
        raise link_error(finished.said + finished.out)
    if is_first:
        _marker(tools).parent.mkdir(parents=True, exist_ok=True)
        _marker(tools).touch()


def is_first_link(tools: Toolchain) -> bool:
    """Whether the next link takes minutes: zig builds its library of C++ when it links for the first time."""
    return tools.cxx is None and not _marker(tools).exists()


def _marker(tools: Toolchain) -> Path:
    return workplace() / "zig" / f"libraries-{tools.identity[:16]}"


# What a program says of its sources


@dataclass(frozen=True, slots=True)
class NamedSource:
    """A source whose kernels a program holds by name, and the folders of its headers."""

    path: Path
    include_dirs: tuple[Path, ...]


_TAG = re.compile(re.escape(SOURCE_TAG.encode()) + rb"(\{[^\0\n]*\})\0")


def sources_in(program: Path) -> tuple[NamedSource, ...]:
    """Return the sources that a program names in the place of its kernels; none for one that was built elsewhere."""
    found: dict[NamedSource, None] = {}
    for text in _TAG.findall(read_bytes(program, OUTPUT)):
        try:
            table = json.loads(text)
            folders = tuple(Path(str(each)) for each in table["include_dirs"])
            found[NamedSource(Path(str(table["source"])), folders)] = None
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return tuple(found)


# What linkers say

_MOST_NAMES = 8
_WIDEST = 400
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:|hidden symbol:) [`']?([^'\n]+)")
_NO_LIBRARY = re.compile(r"(?:cannot find|unable to find (?:library|dynamic system library)) [`'-]*l?([\w.+-]+)")


def link_error(said: str) -> CompileError:
    """Return the error that says why a program does not link."""
    text = printable_lines(said)
    names = list(dict.fromkeys(_UNDEFINED.findall(text)))
    if names:
        shown = ", ".join(name[:_WIDEST] for name in names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        cure = "Name the source or the library that holds it: FILE, or -l NAME and -L FOLDER."
        return CompileError(f"the program does not link: nothing defines {shown}{more}", cure=cure)
    if missing := _NO_LIBRARY.search(text):
        cure = "Install it, or name its folder: -L FOLDER."
        return CompileError(f"the program does not link: there is no library {missing[1]}", cure=cure)
    lines = [line[:_WIDEST] for line in text.strip().splitlines()[-_MOST_NAMES:]]
    return CompileError("\n".join(["the program does not link", *lines]))
