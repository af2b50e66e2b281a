"""Compiles one source to an object, but for what is remembered of an earlier time, and says why where it cannot be.

In the place of a fatbin, an object of a CUDA source holds a line that names the source and its options: each kernel is
compiled from there when it is first launched.
"""

import json
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kerncast.bounded_file import Bound, read_bytes
from kerncast.child_process import Progress
from kerncast.compile.headers import cure_for_header, wheel_of_header
from kerncast.errors import CompileError
from kerncast.hostbuild.device_code import (
    DECLARES_CLUSTERS,
    TO_IR,
    cutlass_macros,
    declared_clusters,
    device_command,
    needs_clang,
    with_clusters,
)
from kerncast.hostbuild.host_compilers import Toolchain, folder_variables, run_tool
from kerncast.hostbuild.nvcc_options import CodeOptions, Input, Language
from kerncast.hostbuild.objects import Kept, Search, content_of, digest_of, keep, key_of, recall
from kerncast.hostbuild.rewriting import ERROR, SOURCE, Copies, absolute, run_until_read
from kerncast.launch import DEFAULT_STANDARD
from kerncast.printable import printable_lines
from kerncast.units import GIB

SOURCE_TAG = "KERNCAST SOURCE "
"""How the text begins that stands in the place of a fatbin; the server of the virtual GPU reads it."""

#: What compilers and linkers write.
OUTPUT = Bound(2 * GIB, cure="Build it again.", error=CompileError)

#: The oldest version of C++ that LLVM's headers for CUDA take.
_OLDEST_STANDARD = "c++14"
_TOO_OLD = frozenset({"c++98", "c++03", "c++11"})

#: Macros that steer headers: these read them, so they are defined before.
_OF_HEADERS = re.compile(r"_|NDEBUG\b|(?:CUDA|CUDART|CCCL|CUB|THRUST|LIBCUDACXX|FMT)_")
#: Options of g++ that clang takes as well, and that change what a program does.
_OF_CLANG = re.compile(
    r"-m\S+|-pthread|-U\S+|-f(?:fast-math|no-exceptions|no-rtti|no-math-errno|finite-math-only|signed-char"
    r"|unsigned-char|no-common|visibility=\w+|visibility-inlines-hidden|fp-contract=\w+|no-builtin)"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """One source to compile."""

    source: Input
    code: CodeOptions

    @property
    def path(self) -> str:
        """Path of the source from everywhere."""
        return absolute(self.source.path)

    @property
    def name(self) -> str:
        """Name of the source without its folder."""
        return self.source.path.name


@dataclass(frozen=True, slots=True)
class Compiled:
    """An object."""

    kept: Kept
    content: bytes | None
    """None where it was remembered: then it lies in the cache"""


def _untold(what: str, done: int, total: int) -> None:
    del what, done, total


def compile_units(units: Sequence[Unit], tools: Toolchain, progress: Progress = _untold) -> list[Compiled]:
    """Return the objects of sources, in their order; as many are compiled at a time as there are processors."""
    told = iter(range(len(units)))

    def one(unit: Unit) -> Compiled:
        progress(f"compiling {unit.name}", next(told), len(units))
        return compile_unit(unit, tools)

    with ThreadPoolExecutor(max(1, min(len(units), os.cpu_count() or 1))) as pool:
        return list(pool.map(one, units))


def compile_unit(unit: Unit, tools: Toolchain) -> Compiled:
    """Return the object of a source, remembered or compiled now; raises CompileError."""
    work = _work_on(unit, tools)
    kept = recall(work.key, _search(unit, tools))
    return Compiled(kept, None) if kept is not None else _compile(work)


def object_of(unit: Unit, compiled: Compiled, tools: Toolchain) -> bytes:
    """Return what an object holds; where the cache has lost it, it is compiled once more."""
    content = compiled.content if compiled.content is not None else content_of(compiled.kept)
    if content is None:
        content = _compile(_work_on(unit, tools)).content
    assert content is not None
    return content


@dataclass(frozen=True, slots=True)
class _Work:
    unit: Unit
    tools: Toolchain
    tag: str
    key: str


def _work_on(unit: Unit, tools: Toolchain) -> _Work:
    # Refuses what is no file of bytes before a compiler waits for it, too.
    source = digest_of(read_bytes(unit.path, SOURCE))
    command, macros, tag = compile_command(unit, tools), _own_macros(unit), tag_of(unit)
    key = key_of("object", tools.identity, command, macros, tag, str(Path.cwd()), folder_variables(), source)
    return _Work(unit, tools, tag, key)


def _compile(work: _Work) -> Compiled:
    started_ns = time.time_ns()
    with tempfile.TemporaryDirectory(prefix="kerncast-") as folder:
        made, read, code = (Path(folder) / name for name in ("object.o", "object.d", "code"))
        outputs = ["-c", "-o", str(made), "-MD", "-MF", str(read), "-MT", "object"]
        is_cuda = work.unit.source.language == Language.CUDA
        if is_cuda:
            # What reads the text ends at the zero; clang adds none.
            code.write_bytes(work.tag.encode() + b"\0")
            outputs += ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", str(code)]
        _run_compiler(work, outputs, Path(folder))
        content = read_bytes(made, OUTPUT)
        asks = is_cuda and (_asks_for_clang(work.unit) or needs_clang(content, _dependencies(read)))
        if asks and (ptx := _compiled_by_clang(work, Path(folder), _dependencies(read))) is not None:
            # A comment of PTX: kernels that NVRTC can compile are compiled from the source all the same.
            code.write_bytes(b"// " + work.tag.encode() + b"\n" + ptx + b"\0")
            _run_compiler(work, outputs, Path(folder))
            content = read_bytes(made, OUTPUT)
        files = [each for each in _dependencies(read) if not each.startswith(folder)]
        kept = keep(work.key, files, content, started_ns)
    return Compiled(kept, content)


#: A macro by which a user has kernels compiled with their host code.
ASKS_FOR_CLANG = "KERNCAST_CLANG"


def _asks_for_clang(unit: Unit) -> bool:
    return any(name == ASKS_FOR_CLANG for name, _ in unit.code.defines)


def _compiled_by_clang(work: _Work, folder: Path, files: Sequence[str]) -> bytes | None:
    """Return PTX of the kernels of a source; None where clang does not compile them either, and was not asked for.

    ``files`` are those that it was compiled from.
    """
    made, ir = folder / "kernels.ptx", folder / "kernels.ll"
    try:
        _run_compiler(work, ["-o", str(made)], folder, for_device=True)
        if not _declares_clusters(work, files):
            return read_bytes(made, OUTPUT)
        _run_compiler(work, [*TO_IR, "-o", str(ir)], folder, for_device=True)
    except CompileError:
        if _asks_for_clang(work.unit):
            raise
        return None
    return with_clusters(read_bytes(made, OUTPUT), declared_clusters(read_bytes(ir, OUTPUT)))


def _declares_clusters(work: _Work, files: Sequence[str]) -> bool:
    """Return whether a file names clusters, but for CUDA's headers: these define what sources name them by."""
    own = (each for each in files if not each.startswith(work.tools.folders))
    return any(DECLARES_CLUSTERS in read_bytes(each, SOURCE) for each in own)


def preprocessed(unit: Unit, tools: Toolchain) -> str:
    """Return the text of a source behind its preprocessor; raises CompileError."""
    with tempfile.TemporaryDirectory(prefix="kerncast-") as folder:
        return _run_compiler(_work_on(unit, tools), ["-E"], Path(folder))


def _run_compiler(work: _Work, outputs: Sequence[str], folder: Path, *, for_device: bool = False) -> str:
    """Run the compiler, again where something is written as clang does not read it; returns what it printed."""
    macros = folder / "macros.h"
    macros.write_text(_own_macros(work.unit), encoding="utf-8")
    command = compile_command(work.unit, work.tools, macros)
    words = [*(device_command(command, work.unit.code.architecture) if for_device else command), *outputs]
    finished = run_until_read(words, run_tool, Copies(folder, for_device))
    if finished.status:
        raise compile_error(finished.said, work.unit)
    return finished.out


def _own_macros(unit: Unit) -> str:
    """Return a header with the macros that are defined behind CUDA's headers: those have parameters called N, too."""
    if unit.source.language != Language.CUDA:
        return ""
    lines = [f"#define {name} {value}" for name, value in unit.code.defines if not _OF_HEADERS.match(name)]
    lines += [f"#undef {name}" for name in unit.code.undefined if not _OF_HEADERS.match(name)]
    return "".join(" ".join(line.splitlines()) + "\n" for line in lines)


def compile_command(unit: Unit, tools: Toolchain, macros: Path | None = None) -> list[str]:
    """Return the command that compiles a source, but for its outputs; ``macros`` is the header of its own ones."""
    language, code = unit.source.language, unit.code
    base = {Language.CUDA: tools.cuda, Language.CXX: tools.compile_cxx, Language.C: tools.compile_c}[language]
    is_cuda = language == Language.CUDA
    is_clang = is_cuda or tools.cxx is None
    words = [*base, *(["-include", str(macros)] if macros is not None and is_cuda else [])]
    words += [f"-O{code.optimization or 1}", *_standard(unit)]
    words += [f"-D__CUDA_ARCH_LIST__={code.architecture}0", *cutlass_macros(code.architecture)] if is_cuda else []
    words += [f"-D{name}={value}" for name, value in code.defines if not is_cuda or _OF_HEADERS.match(name)]
    words += [f"-U{name}" for name in code.undefined if not is_cuda or _OF_HEADERS.match(name)]
    words += [word for each in own_folders(code.include_dirs) for word in ("-I", str(each))]
    words += [word for each in own_folders(code.system_include_dirs) for word in ("-isystem", str(each))]
    words += [word for each in code.forced_includes for word in ("-include", each)]
    words += _known_to_clang(code.host) if is_clang else code.host
    # Never an option, whatever it is called.
    source = str(unit.source.path)
    return [*words, f"./{source}" if source.startswith("-") else source]


def _known_to_clang(words: Sequence[str]) -> list[str]:
    """Return the options that clang has as other compilers do, those for LLVM with their values."""
    found, left = list[str](), iter(words)
    for word in left:
        if word == "-mllvm":
            found += [each for value in islice(left, 1) for each in (word, value)]
        elif _OF_CLANG.fullmatch(word):
            found.append(word)
    return found


def _standard(unit: Unit) -> list[str]:
    standard = unit.code.standard
    if unit.source.language == Language.CUDA:
        return [f"-std={_OLDEST_STANDARD if standard in _TOO_OLD else standard or 'gnu++17'}"]
    return [f"-std={standard}"] if standard and unit.source.language == Language.CXX else []


def own_folders(folders: Iterable[Path]) -> list[Path]:
    """Return folders of headers without those of toolkits: their version is another one, or the same once more."""
    return [each for each in folders if not (each / "cuda_runtime.h").exists()]


def tag_of(unit: Unit) -> str:
    """Return the text that tells the server how the kernels of a source are compiled."""
    code = unit.code
    undefined = set(code.undefined)
    told = {
        "source": unit.path,
        "defines": [[name, value] for name, value in code.defines if name not in undefined],
        "include_dirs": list(map(absolute, own_folders((*code.include_dirs, *code.system_include_dirs)))),
        "standard": code.standard or DEFAULT_STANDARD,
        "fast_math": code.fast_math,
        "forced_includes": [absolute(each) if Path(each).exists() else each for each in code.forced_includes],
    }
    return SOURCE_TAG + json.dumps(told)


def remarks_on(unit: Unit, tools: Toolchain) -> Iterator[str]:
    """Yield what a user should know of options that have no effect on a source."""
    is_serial = unit.source.language == Language.CUDA or tools.cxx is None
    if is_serial and any(word.startswith("-fopenmp") for word in unit.code.host):
        yield f"{unit.name}: loops of OpenMP run in one thread"
    if unit.code.is_relocatable and unit.source.language == Language.CUDA:
        yield f"{unit.name}: its kernels cannot call device functions of other sources (-rdc)"


def _search(unit: Unit, tools: Toolchain) -> Search:
    folders = (Path(unit.path).parent, *unit.code.include_dirs, *unit.code.system_include_dirs)
    return Search(tuple(map(absolute, folders)), tools.folders)


_NAME = re.compile(r"(?:\\.|\S)+")
_ESCAPED = re.compile(r"\\([ #\\])")


def _dependencies(file: Path) -> list[str]:
    """Return the files that a compiler has read, with their whole paths, from the rule that it wrote for make."""
    text = read_bytes(file, SOURCE).decode("utf-8", "surrogateescape").replace("\\\n", " ")
    names = (_ESCAPED.sub(r"\1", name).replace("$$", "$") for name in _NAME.findall(text.partition("object:")[2]))
    return [absolute(name) for name in dict.fromkeys(names)]


# What compilers say

_MOST_ERRORS = 5
_WIDEST = 400
_MISSING_HEADER = re.compile(r"'([^']+)' file not found|fatal error: ([^:\n]+): No such file or directory")
_GONE = re.compile(r"no template named '(?:texture|surface)'|unknown (?:template|type) name 'texture'")
#: Libraries of which no header is there, by the beginning of its name.
_NO_LIBRARY = {
    "cusparse": "cuSPARSE", "cusolver": "cuSOLVER", "cudnn": "cuDNN", "nccl": "NCCL", "npp": "NPP", "nvjpeg": "nvJPEG",
    "cutensor": "cuTENSOR", "cupti": "CUPTI", "nvml": "NVML", "cublasLt": "cuBLASLt", "cublasXt": "cuBLASXt",
    "nvrtc": "NVRTC", "nvvm": "NVVM", "cudla": "cuDLA", "nvsci": "NvSci", "optix": "OptiX",
}  # fmt: skip


def compile_error(said: str, unit: Unit) -> CompileError:
    """Return the error that says why a source does not compile, with the first few messages."""
    text = printable_lines(said)
    errors = list(ERROR.finditer(text))
    if not errors:
        lines = [line[:_WIDEST] for line in text.strip().splitlines()[-_MOST_ERRORS:]]
        return CompileError("\n".join(["does not compile", *lines]), where=str(unit.source.path))
    first, *others = errors
    more = [each[0][:_WIDEST] for each in others[: _MOST_ERRORS - 1]]
    left = len(errors) - 1 - len(more)
    lines = [first["text"][:_WIDEST], *more, *([f"and {left} more errors"] if left else [])]
    return CompileError("\n".join(lines), where=f"{first['file']}:{first['line']}", cure=_cure(first[0]))


def _cure(message: str) -> str | None:
    if missing := _MISSING_HEADER.search(message):
        return _cure_for_header((missing[1] or missing[2]).strip())
    if _GONE.search(message):
        return "CUDA 12 has no references to textures: use texture objects."
    return None


def _cure_for_header(name: str) -> str:
    library = next((each for beginning, each in _NO_LIBRARY.items() if Path(name).name.startswith(beginning)), None)
    if library is not None:
        return f"{library} is not there for programs that are run here."
    if wheel_of_header(name) is not None:
        return cure_for_header(name)
    return "Name the folder that holds it: -I FOLDER; of a library, install its files for developers."
