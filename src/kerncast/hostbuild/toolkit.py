"""A folder that looks like a CUDA toolkit, for Makefiles and CMake: links to headers and libraries, and small scripts.

``nvcc`` there is our own (``kerncast.hostbuild.nvcc``). ``cc`` and ``c++`` beside it lead to the system's compilers,
or with ``ar`` to zig where there are none.
"""

import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import kerncast
from kerncast.compile.headers import header_folders
from kerncast.errors import InputError
from kerncast.hostbuild.host_compilers import (
    CUDA_ONLY_HEADERS,
    OWN_HEADERS,
    Toolchain,
    program_on_path,
    standins_folder,
    toolchain,
    zig_environment,
)
from kerncast.hostbuild.objects import key_of, replacing_folder

TOOLKIT_VARIABLE = "KERNCAST_TOOLKIT"
"""Names the folder to our nvcc."""
ARCHITECTURE_VARIABLE = "KERNCAST_ARCHITECTURE"
"""Tells our nvcc the number of the GPU's architecture."""

#: Variables by which builds are told where CUDA lies.
_OF_TOOLKITS = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_DIR", "CUDA_INSTALL_PATH", "CUDAToolkit_ROOT")
#: Those that Makefiles set themselves, whatever the environment says; one on make's command line counts all the same.
_OVERRIDDEN = ("CUDA_HOME", "CUDA_DIR", "CUDA_INSTALL_PATH")
_FOLDERS = ("bin", "include", "lib64/stubs", "nvvm/libdevice")
#: Names under which the CUDA runtime is linked; a program needs libcudart.so whichever it is.
_RUNTIME_NAMES = ("libcudart_static.a", "libcudadevrt.a", "libculibos.a")
_COMPILERS = ("cc", "gcc", "c++", "g++")


def toolkit_environment(runtime: Path) -> dict[str, str]:
    """Return variables of the environment with which a build takes our nvcc and our libraries.

    ``runtime`` is the folder of the runtime's libraries.
    """
    folder = str(toolkit_folder(runtime))
    found = dict.fromkeys(_OF_TOOLKITS, folder)
    found |= {TOOLKIT_VARIABLE: folder, "CUDACXX": f"{folder}/bin/nvcc", "NVCC": f"{folder}/bin/nvcc"}
    for name, inside in (
        ("PATH", "bin"),
        ("LIBRARY_PATH", "lib64"),
        ("LD_LIBRARY_PATH", "lib64"),  # for programs that are run to build others
        ("C_INCLUDE_PATH", "include"),
        ("CPLUS_INCLUDE_PATH", "include"),
    ):
        found[name] = os.pathsep.join([f"{folder}/{inside}", *filter(None, [os.environ.get(name)])])
    escaped = folder.replace("\\", "\\\\").replace(" ", "\\ ")
    overrides = [f"{name}={escaped}" for name in _OVERRIDDEN]
    # The first word of MAKEFLAGS may be letters of options; what has an equals sign is a variable anywhere.
    found["MAKEFLAGS"] = " ".join([*filter(None, [os.environ.get("MAKEFLAGS")]), *overrides])
    if toolchain().cxx is None:
        found |= {"CC": f"{folder}/bin/cc", "CXX": f"{folder}/bin/c++", "AR": f"{folder}/bin/ar"}
    return found


def toolkit_folder(runtime: Path) -> Path:
    """Return the folder, made where it is not there."""
    tools = toolchain()
    scripts = tuple(_scripts(tools))
    key = key_of("toolkit", tools.identity, str(runtime), list(map(str, header_folders())), [*map(str, scripts)])
    folder = standins_folder() / key[:32]
    if not _is_whole(folder, scripts):
        _make(folder, runtime, scripts)
    return folder


@dataclass(frozen=True, slots=True)
class _Script:
    name: str
    text: str


def _scripts(tools: Toolchain) -> Iterator[_Script]:
    """Yield the programs of the folder."""
    package = shlex.quote(str(Path(kerncast.__path__[0]).parent))
    python = shlex.quote(sys.executable)
    yield _Script(
        "nvcc",
        f'#!/bin/sh\n{TOOLKIT_VARIABLE}=$(cd "$(dirname "$0")/.." && pwd) \\\n'
        f"PYTHONPATH={package}${{PYTHONPATH:+:$PYTHONPATH}} \\\n"
        f'exec {python} -P -m kerncast.hostbuild.nvcc "$@"\n',
    )
    if tools.cxx is not None:
        yield from _compilers_of_system()
        return
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in zig_environment().items())
    zig = f"{variables} exec {shlex.quote(str(tools.zig))}"
    # zig's own checks would stop programs that gcc lets run, and its NDEBUG would take their assertions away.
    plain = f"-target {tools.zig_target} -fno-sanitize=undefined -UNDEBUG -Wno-everything"
    # It reads no LIBRARY_PATH, and has no library of OpenMP.
    after = f'-L"${{0%/*}}/../lib64" -idirafter {shlex.quote(str(CUDA_ONLY_HEADERS))} -fno-openmp'
    for name in _COMPILERS:
        yield _Script(name, f'#!/bin/sh\n{zig} {"c++" if "+" in name else "cc"} {plain} "$@" {after}\n')
    for name in ("ar", "ranlib"):
        yield _Script(name, f'#!/bin/sh\n{zig} {name} "$@"\n')


def _compilers_of_system() -> Iterator[_Script]:
    """Yield the system's compilers, with our libraries before those of a toolkit that a Makefile names by its path."""
    for name in _COMPILERS:
        found = program_on_path((name,), os.environ.get("PATH", ""), str(standins_folder()))
        if found is not None:
            libraries = '-L"${0%/*}/../lib64" -L"${0%/*}/../lib64/stubs"'
            yield _Script(name, f'#!/bin/sh\nexec {shlex.quote(str(found))} {libraries} "$@"\n')


def _is_whole(folder: Path, scripts: tuple[_Script, ...]) -> bool:
    try:
        return all((folder / "bin" / each.name).read_text(encoding="utf-8") == each.text for each in scripts)
    except (OSError, UnicodeDecodeError):
        return False


def _make(folder: Path, runtime: Path, scripts: tuple[_Script, ...]) -> None:
    """Make the folder beside its place, and move it there."""
    try:
        with replacing_folder(folder) as made:
            _fill(made, runtime, scripts)
    except OSError as error:
        cure = "Name another folder for the cache by KERNCAST_CACHE."
        raise InputError(f"cannot be written ({error.strerror})", where=str(folder), cure=cure) from None


def _fill(folder: Path, runtime: Path, scripts: tuple[_Script, ...]) -> None:
    for inside in _FOLDERS:
        (folder / inside).mkdir(mode=0o700, parents=True)
    for script in scripts:
        place = folder / "bin" / script.name
        place.write_text(script.text, encoding="utf-8")
        place.chmod(0o700)
    for headers in (*header_folders(), OWN_HEADERS):
        for each in sorted(headers.iterdir()):
            place = folder / "include" / each.name
            if not place.is_symlink() and not each.name.startswith("_"):
                place.symlink_to(each)
    for library in sorted(runtime.glob("lib*.so*")):
        (folder / "lib64" / library.name).symlink_to(library)
    if (runtime / "libcuda.so.1").exists():
        (folder / "lib64" / "stubs" / "libcuda.so").symlink_to(runtime / "libcuda.so.1")
    for name in _RUNTIME_NAMES:
        # A text for the linker, which names the library to take.
        (folder / "lib64" / name).write_text(f"INPUT({runtime / 'libcudart.so.12'})\n", encoding="utf-8")
    if any(script.name == "ar" for script in scripts):
        (folder / "lib64" / "libgomp.a").write_bytes(b"!<arch>\n")  # functions of OpenMP are those of its header
    (folder / "lib").symlink_to("lib64")
