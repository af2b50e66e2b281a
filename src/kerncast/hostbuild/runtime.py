"""Compiles the libraries that stand for CUDA's own in a running program: its runtime, its driver and what these share.

They are C, compiled once by the system's C compiler, or by zig, and kept by the digest of all that they are made of.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kerncast.bounded_file import OUR_DATA, read_bytes
from kerncast.child_process import Progress
from kerncast.compile.headers import header_folders
from kerncast.errors import CompileError, InputError
from kerncast.hostbuild.host_compilers import CCompiler, Finished, Limits, c_compilers, run_tool
from kerncast.hostbuild.objects import digest_of, file_digest, key_of, replacing_folder, workplace
from kerncast.printable import printable_lines

_SOURCES = Path(__file__).parents[1] / "device" / "runtime"
#: Interfaces of CUDA's libraries that no wheel brings.
_HEADERS = Path(__file__).with_name("include")
_CONTENTS = "contents.json"
_LIMITS = Limits(seconds=600.0)
_FLAGS = ("-std=c11", "-O1", "-fPIC", "-shared", "-w")
#: Found by one another wherever their folder lies; calls among their own functions go to no other library.
_LINKING = ("-Wl,-rpath,$ORIGIN", "-Wl,-Bsymbolic")
_MOST_SAID = 8


@dataclass(frozen=True, slots=True)
class _Library:
    file: str
    """name by which programs ask for it"""
    prefix: str | None
    """how the names of its sources begin; None: it is made of those that no other library has"""
    alias: str | None = None
    """name by which a linker looks for it"""
    symbols: str = ""
    """file with what it exports, where that is not called by the prefix"""
    macros: tuple[str, ...] = ()


#: Each is linked with the first one.
_LIBRARIES = (
    _Library("libkerncast_device.so", None, symbols="device"),
    _Library("libcudart.so.12", "cudart", "libcudart.so", "cudart-12", ("-DKC_CUDA_MAJOR=12",)),
    _Library("libcudart.so.13", "cudart", None, "cudart-13", ("-DKC_CUDA_MAJOR=13",)),
    _Library("libcudart.so.11.0", "cudart", None, "cudart-11", ("-DKC_CUDA_MAJOR=11",)),
    _Library("libcuda.so.1", "driver", "libcuda.so"),
    _Library("libcublas.so.12", "cublas", "libcublas.so"),
    _Library("libcufft.so.11", "cufft", "libcufft.so"),
    _Library("libcurand.so.10", "curand", "libcurand.so"),
)


@dataclass(frozen=True, slots=True)
class RuntimeLibraries:
    """The libraries that a program on the virtual GPU loads."""

    folder: Path
    files: tuple[Path, ...]
    """the libraries, without their other names"""


def runtime_libraries(folder: Path | None = None, progress: Progress | None = None) -> RuntimeLibraries:
    """Return the libraries, compiled where they are not there or not whole; raises CompileError.

    They lie below ``folder``, or in the cache.
    """
    compilers = c_compilers()
    names = sorted(each.name for each in _SOURCES.iterdir() if each.suffix in {".c", ".h", ".map"})
    sources = {name: digest_of(read_bytes(_SOURCES / name, OUR_DATA)) for name in names}
    sources |= {f"include/{each.name}": digest_of(read_bytes(each, OUR_DATA)) for each in sorted(_HEADERS.glob("*.h"))}
    # Headers of CUDA are pinned, and named by the folders of their wheels.
    key = key_of("runtime", sources, compilers[0].identity, _FLAGS, _LINKING, list(map(str, header_folders())))
    place = (folder or workplace() / "runtime") / key[:32]
    if not _is_whole(place):
        if progress is not None:
            progress("compiling the runtime", 0, 0)
        _replace(place, compilers, names)
    return RuntimeLibraries(place, tuple(place / each.file for each, _ in _made_of(names)))


def _made_of(names: Sequence[str]) -> Iterator[tuple[_Library, list[str]]]:
    """Yield each library that there are sources for, with their names."""
    prefixes = tuple(each.prefix for each in _LIBRARIES if each.prefix)
    texts = [name for name in names if name.endswith(".c")]
    for library in _LIBRARIES:
        own = [name for name in texts if name.startswith(library.prefix or prefixes) == (library.prefix is not None)]
        if own:
            yield library, own


def _is_whole(place: Path) -> bool:
    """Tell whether all libraries are there as they were compiled."""
    try:
        digests = json.loads(read_bytes(place / _CONTENTS, OUR_DATA)).items()
    except (InputError, ValueError, AttributeError, RecursionError):
        return False
    return bool(digests) and all(file_digest(str(place / name)) == digest for name, digest in digests)


def _replace(place: Path, compilers: Sequence[CCompiler], names: Sequence[str]) -> None:
    """Compile into a new folder, and put it in the place of what is there."""
    with replacing_folder(place) as made:
        _build(made, compilers, names)
    if not _is_whole(place):
        raise CompileError("the runtime cannot be kept", where=str(place), cure="Remove what lies there.")


def _build(folder: Path, compilers: Sequence[CCompiler], names: Sequence[str]) -> None:
    """Compile the libraries by the first compiler that can."""
    finished = Finished(1, "", "")
    for compiler in compilers:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        finished = _build_with(compiler, folder, names)
        if finished.status == 0:
            digests = {each.name: file_digest(str(each)) for each in sorted(folder.iterdir())}
            (folder / _CONTENTS).write_text(json.dumps(digests), encoding="utf-8")
            return
    lines = printable_lines(finished.said).strip().splitlines()[:_MOST_SAID]
    raise CompileError("\n".join(["the runtime does not compile", *lines]), cure="kerncast doctor checks the tools.")


def _build_with(compiler: CCompiler, folder: Path, names: Sequence[str]) -> Finished:
    """Compile the libraries, the first one before all others; returns the compiler that failed, or the last one."""

    def one(made: tuple[_Library, list[str]]) -> Finished:
        library, sources = made
        finished = run_tool([*compiler.command, *_words(library, sources, folder)], _LIMITS)
        if library.alias:
            (folder / library.alias).symlink_to(library.file)
        return finished

    first, *others = _made_of(names)
    finished = [one(first)]
    if finished[0].status == 0:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            finished += pool.map(one, others)
    return next((each for each in finished if each.status), finished[-1])


def _words(library: _Library, sources: Sequence[str], folder: Path) -> list[str]:
    """Return the options that compile and link a library."""
    words = [*_FLAGS, *library.macros]
    words += [word for each in (*header_folders(), _HEADERS) for word in ("-isystem", str(each))]
    words += [str(_SOURCES / name) for name in sources]
    words += ["-o", str(folder / library.file), f"-Wl,-soname,{library.file}"]
    exported = _SOURCES / f"{library.symbols or library.prefix}.map"
    words += [f"-Wl,--version-script={exported}"] if exported.exists() else []
    if library.prefix is not None:
        words += [*_LINKING, f"-L{folder}", "-lkerncast_device"]
    return [*words, "-lm", "-lpthread", "-ldl"]
