"""What a process that works on a stranger's file may still do: named limits, which it puts upon itself for good.

Limits of memory, time and file sizes hold wherever there is ``resource``. On Linux the process also ends with its
parent, opens no socket, and, unless it must, starts no process (seccomp). Where the kernel has Landlock (5.13), it
reads and writes only below named folders. Sources: Linux man-pages, landlock(7), seccomp(2), prctl(2); the numbers are
those of the kernel's headers linux/landlock.h, linux/seccomp.h, linux/bpf_common.h and asm/unistd.h.
"""

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

__all__ = [
    "Confinement", "confine", "include_places", "is_hidden", "is_source", "package_places", "source_places",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Confinement:
    """Limits of one process and of all that it starts."""

    memory_bytes: int
    """address space"""
    seconds: float
    """processor time; a process that reaches it is ended by SIGXCPU"""
    reads: tuple[Path, ...] | None = ()
    """files and folders that may be read, beside the interpreter, its packages and the system's libraries; None: all"""
    writes: tuple[Path, ...] = ()
    """folders in which files may be made and changed"""
    file_bytes: int = 2**26
    """size of the largest file that it may write"""
    starts_processes: bool = False
    """whether it may start further ones, which have the same limits"""


def confine(rules: Confinement, parent: int | None = None) -> None:
    """Put limits upon this process; there is no way back.

    ``parent`` is the process that has started this one, with which it ends. What a system lacks is left out.
    """
    if sys.platform.startswith("linux"):
        library = ctypes.CDLL(None, use_errno=True)
        if parent is not None:
            _end_with_parent(library, parent)
        library.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _drop_capabilities(library)
        if rules.reads is not None:
            _see_only(library, rules)
        _call_only(library, starts_processes=rules.starts_processes)
    _limit(rules)


def _limit(rules: Confinement) -> None:
    """Set the limits, the address space last: between a fork and its program the parent's may be above it already."""
    try:
        import resource  # noqa: PLC0415  Windows has none
    except ImportError:
        return
    limits = {
        resource.RLIMIT_CPU: int(rules.seconds) + 1,
        resource.RLIMIT_FSIZE: rules.file_bytes,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_AS: rules.memory_bytes,
    }
    for kind, limit in limits.items():
        most = resource.getrlimit(kind)[1]
        least = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(kind, (least, most if kind == resource.RLIMIT_CPU else least))


_SET_PARENT_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES, _SET_SECCOMP = 1, 38, 22


def _end_with_parent(library: ctypes.CDLL, parent: int) -> None:
    library.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


_CAPABILITY_VERSION = 0x20080522
#: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: root reads a source that belongs to somebody else.
_KEPT_CAPABILITIES = 1 << 1 | 1 << 2


def _drop_capabilities(library: ctypes.CDLL) -> None:
    """Take from root what would undo the limits; source: capabilities(7), capset(2)."""
    whom = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    held = ctypes.create_string_buffer(24)
    if library.capget(whom, held):
        return
    effective, permitted, *_ = struct.unpack("=6I", held.raw)
    kept = (effective & _KEPT_CAPABILITIES, permitted & _KEPT_CAPABILITIES, 0, 0, 0, 0)
    if library.capset(whom, struct.pack("=6I", *kept)):
        raise OSError(ctypes.get_errno(), "capabilities cannot be dropped")


# What may be read and written: Landlock.
#
# Rights are bits; a kernel that knows fewer of them gets fewer. What a rule does not give below its folder is denied.

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ONLY_VERSION, _BELOW_A_PATH = 1, 1
_EXECUTE, _WRITE, _READ, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_READING = _EXECUTE | _READ | _READ_FOLDER
_TRUNCATE, _DEVICES = 1 << 14, 1 << 15
#: Of a file itself, a rule may give no more than these.
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICES
#: Rights, and rights of the network, by the version of Landlock; of version 6 on, processes outside get no signal.
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_NETWORK_SINCE, _NETWORK = 4, 3
_SCOPES_SINCE, _SCOPES = 6, 3

_SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/include", "/usr/share/zoneinfo",
    "/etc/ld.so.cache", "/etc/ld.so.preload", "/sys/devices/system/cpu", "/proc/cpuinfo", "/proc/meminfo", "/dev/null",
    "/dev/zero", "/dev/urandom",
)  # fmt: skip


def _see_only(library: ctypes.CDLL, rules: Confinement) -> None:
    version = library.syscall(_CREATE_RULESET, None, 0, _ONLY_VERSION)
    if version < 1:
        return
    rights = _RIGHTS[min(version, max(_RIGHTS))]
    fields = [rights, _NETWORK if version >= _NETWORK_SINCE else 0, _SCOPES if version >= _SCOPES_SINCE else 0]
    known = fields[: 1 + (version >= _NETWORK_SINCE) + (version >= _SCOPES_SINCE)]
    request = struct.pack(f"{len(known)}Q", *known)
    ruleset = library.syscall(_CREATE_RULESET, request, len(request), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "Landlock takes no rules")
    try:
        for path in (*map(Path, _SYSTEM), *package_places(), *(rules.reads or ())):
            _allow(library, ruleset, path, _READING & rights)
        for folder in _whole_folders(rules.reads or ()):
            _allow(library, ruleset, folder, _READ_FOLDER & rights)
        for path in rules.writes:
            _allow(library, ruleset, path, rights)
        if Path("/dev/null").exists():
            _allow(library, ruleset, Path("/dev/null"), (_READ | _WRITE) & rights)
        if library.syscall(_RESTRICT_SELF, ruleset, 0):
            raise OSError(ctypes.get_errno(), "Landlock does not hold")
    finally:
        os.close(ruleset)


def _whole_folders(reads: Sequence[Path]) -> Iterator[Path]:
    """Yield folders of which all but the hidden may be read: compilers list them on the way to what lies there."""
    known = set(reads)
    for folder in dict.fromkeys(path.parent for path in reads):
        if not _is_shared(folder) and set(_shown_in(folder, folder)) <= known:
            yield folder


def _allow(library: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    with suppress(OSError):  # what is not there needs no rule
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            allowed = rights if path.is_dir() else rights & _OF_FILES
            rule = struct.pack("=Qi", allowed, place)
            if library.syscall(_ADD_RULE, ruleset, _BELOW_A_PATH, rule, 0):
                raise OSError(ctypes.get_errno(), "Landlock takes no such rule")
        finally:
            os.close(place)


def package_places() -> Iterator[Path]:
    """Yield the folders of the interpreter, its libraries and all packages, from which code is loaded."""
    found = [sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *filter(None, sys.path)]
    own = Path(__file__).resolve().parent
    seen = dict.fromkeys([own, *(Path(each).resolve() for each in found), Path(sys.executable).resolve().parent])
    yield from (each for each in seen if each.parent != each)


#: Folders that hold the files of many: no project lies in one of them itself.
_SHARED = frozenset(
    map(Path, ("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc",
               "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/local", "/var", "/var/tmp", "/Users"))  # noqa: S108  nothing is made there
)  # fmt: skip
_HOMES = frozenset(map(Path, ("/home", "/Users", "/etc", "/proc", "/sys", "/dev", "/run")))
_SIGNS_OF_A_PROJECT = (".git", ".hg", ".svn")
_MOST_UP = 2
_SUFFIXES = frozenset(
    {".c", ".cc", ".cl", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ptx"}
)
_MOST_FILES = 10_000


def source_places(source: Path) -> tuple[Path, ...]:
    """Return what is read for a source: itself, and the folder below which its own headers may lie.

    That folder is the nearest one with a version control's, else two above the source's, but none that holds the files
    of many, such as ``/tmp`` or a home; in such a one, the headers beside the source are read. What is hidden in it is
    not.
    """
    folder = source.resolve().parent
    if _is_shared(folder):
        return source, *_headers_in(folder)
    return source, *_shown_in(_project_of(folder), folder)


def _project_of(folder: Path) -> Path:
    own = [folder]
    for each in folder.parents:
        if _is_shared(each):
            break
        own.append(each)
    project = (each for each in own if any((each / sign).exists() for sign in _SIGNS_OF_A_PROJECT))
    return next(project, own[: _MOST_UP + 1][-1])


def _shown_in(project: Path, folder: Path) -> Iterator[Path]:
    """Yield what lies in a project, but for what is hidden in it, such as the tokens in ``.git`` and ``.env``.

    ``folder`` is that of the source, which may be hidden itself.
    """
    if project == folder or not is_hidden(folder, project):
        with suppress(OSError), os.scandir(project) as found:
            # A link could lead anywhere; what it leads to in the project is there by its own name.
            shown = (each for each in islice(found, _MOST_FILES) if not each.name.startswith("."))
            yield from [Path(each.path) for each in shown if not each.is_symlink()]
    if project != folder and is_hidden(folder, project):
        yield folder


def include_places(folder: Path) -> tuple[Path, ...]:
    """Return what is read of a folder of headers: all of it; of a hidden one, or one of many's files, its headers."""
    own = folder.resolve()
    return tuple(_headers_in(folder)) if _is_shared(own) or is_hidden(own, Path(own.anchor)) else (folder,)


#: Hidden folders that hold programs and their headers.
_OF_SOFTWARE = frozenset({".local", ".venv", ".cache", ".conda", ".pyenv", ".nix-profile", ".linuxbrew", ".spack"})


def is_hidden(path: Path, below: Path) -> bool:
    """Whether a path leads through something hidden below a folder: settings, keys and tokens lie there.

    >>> is_hidden(Path("/home/a/.ssh/keys"), Path("/home")), is_hidden(Path("/p/.git/x"), Path("/p/.git"))
    (True, False)
    """
    parts = path.relative_to(below).parts if path.is_relative_to(below) else path.parts
    return any(part.startswith(".") and part not in {"..", *_OF_SOFTWARE} for part in parts)


def is_source(path: Path) -> bool:
    """Whether a file is a source or a header, by the ending of its name."""
    return path.suffix.lower() in _SUFFIXES


def _headers_in(folder: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(folder) as found:
        files = (Path(each.path) for each in islice(found, _MOST_FILES) if each.is_file(follow_symlinks=False))
        yield from filter(is_source, files)


def _is_shared(folder: Path) -> bool:
    return folder in _SHARED or folder.parent in _HOMES or str(folder) == os.environ.get("HOME")


# Which calls of the system may be made: a filter of seccomp.
#
# A filter is a program for a small machine: load a word of the call, compare, jump, return. It cannot be taken away.

_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_FILTER_MODE = 2
_THREAD_FLAG = 0x00010000
#: Of x86-64: numbers of calls by another convention have this bit.
_OTHER_CONVENTION = 0x40000000


@dataclass(frozen=True, slots=True)
class _Calls:
    """Numbers of one architecture's calls."""

    audit: int
    denied: tuple[int, ...]
    """socket, socketpair, ptrace, process_vm_readv, process_vm_writev, mount, umount2, pivot_root, chroot, setns,
    unshare, bpf, perf_event_open, userfaultfd, keyctl, add_key, request_key, init_module, finit_module, kexec_load,
    io_uring_setup; setsid, setpgid; chmod, fchmod, chown, fchown, lchown, fchownat, fchmodat, fchmodat2, setxattr,
    lsetxattr, fsetxattr, removexattr, lremovexattr, fremovexattr
    """
    starting: tuple[int, ...]
    """fork, vfork, execve, execveat"""
    clone: int
    clone3: int


_CALLS = {
    "x86_64": _Calls(
        0xC000003E,
        (41, 53, 101, 310, 311, 165, 166, 155, 161, 308, 272, 321, 298, 323, 250, 248, 249, 175, 313, 246, 425,
         112, 109, 90, 91, 92, 93, 94, 260, 268, 452, 188, 189, 190, 197, 198, 199),
        (57, 58, 59, 322), 56, 435,
    ),
    "aarch64": _Calls(
        0xC00000B7,
        (198, 199, 117, 270, 271, 40, 39, 41, 51, 268, 97, 280, 241, 282, 219, 217, 218, 105, 273, 104, 425,
         157, 154, 52, 55, 54, 53, 452, 5, 6, 7, 14, 15, 16),
        (221, 281), 220, 435,
    ),
}  # fmt: skip


def _call_only(library: ctypes.CDLL, *, starts_processes: bool) -> None:
    calls = _CALLS.get(platform.machine())
    if calls is None:
        return
    steps = _program(calls, starts_processes=starts_processes)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    if library.prctl(_SET_SECCOMP, _FILTER_MODE, program, 0, 0):
        number = ctypes.get_errno()
        if number not in {errno.EINVAL, errno.EACCES}:  # a kernel without filters
            raise OSError(number, "the filter of calls does not hold")


def _program(calls: _Calls, *, starts_processes: bool) -> Sequence[tuple[int, int, int, int]]:
    denied = calls.denied if starts_processes else (*calls.denied, *calls.starting)
    not_allowed, not_there = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, calls.audit),
        (_RETURN, 0, 0, not_allowed),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_ANY_BIT, 0, 1, _OTHER_CONVENTION),
        (_RETURN, 0, 0, not_allowed),
    ]
    for number in denied:
        steps += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, not_allowed)]
    if not starts_processes:  # threads may begin: libraries then ask by clone, whose flags a filter can read
        steps += [(_JUMP_EQUAL, 0, 1, calls.clone3), (_RETURN, 0, 0, not_there)]
        steps += [
            (_JUMP_EQUAL, 0, 3, calls.clone),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_JUMP_ANY_BIT, 1, 0, _THREAD_FLAG),
            (_RETURN, 0, 0, not_allowed),
        ]
    return [*steps, (_RETURN, 0, 0, _ALLOW)]
