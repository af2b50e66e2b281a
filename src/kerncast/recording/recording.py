"""What a program did: its kernels, their launches, some of them with the memory that they saw, and all events.

A launch is told from others by its kernel and geometry (its group) and by what it did (its counts). Of each group a few
launches are kept whole, to be forecast; the others lie between them.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kerncast.launch import DEFAULT_STANDARD, Extent, Memory
from kerncast.typed_json import LATER

#: One launch: its group, the threads' instructions, and a digest of its counts.
LAUNCH = np.dtype([("group", "<u4"), ("instructions", "<u8"), ("fingerprint", "<u8")])
#: One event of a process: when the host asked for it, of which stream it is, and two numbers by its kind.
EVENT = np.dtype(
    [("kind", "u1"), ("process", "<u2"), ("stream", "<u4"), ("at", "<f8"), ("value", "<u8"), ("extra", "<u4")]
)

Launches = npt.NDArray[np.void]
Events = npt.NDArray[np.void]


class EventKind(IntEnum):
    """Kinds of events, and what their two numbers are."""

    LAUNCH = 1
    """number of the launch"""
    COPY = 2
    """bytes; Direction, and 256 where the host waits, 512 where the host's memory is not pinned"""
    FILL = 3
    """bytes; 256 where the host waits"""
    WAIT = 4
    """number of the stream or event; Waited"""
    RECORD = 5
    """number of the event"""
    DEPEND = 6
    """number of the event that the stream waits for"""
    LIBRARY = 7
    """number of the call, among those that are told apart"""
    ALLOCATE = 8
    """bytes"""
    FREE = 9
    END = 10
    """the process ends"""
    BEGIN = 11
    """the process begins; 1 + the number of the process that had ended before, or 0"""
    STREAM = 12
    """a stream is made; its flags, of which 1 is that it does not wait for the default stream"""


class Direction(IntEnum):
    """The ways of a copy."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3


#: Added to the second number of a copy for which the host waits.
HOST_WAITS = 256
#: Added where the host's side of a copy is not pinned.
PAGEABLE = 512
#: Flag of a stream that does not wait for the default one.
NON_BLOCKING = 1


class Waited(IntEnum):
    """What the host waits for."""

    DEVICE = 0
    STREAM = 1
    EVENT = 2


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the user's that a kernel is compiled from."""

    path: str
    digest: str
    """of its content, by which the recording holds it"""


@dataclass(frozen=True, slots=True)
class Code:
    """Where the kernels of one module are from: a source, or PTX."""

    source: str = ""
    """path of the source; empty where the program brought PTX"""
    defines: tuple[tuple[str, str], ...] = ()
    include_dirs: tuple[str, ...] = ()
    standard: str = DEFAULT_STANDARD
    fast_math: bool = False
    files: tuple[SourceFile, ...] = ()
    """the source and its headers, as far as they are the user's"""
    ptx: str = ""
    """digest of the PTX that the program brought"""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a program."""

    name: str
    """name as the compiler takes it, such as ``reduce<float, 256u>``"""
    mangled: str
    code: int
    """number of its code"""


@dataclass(frozen=True, slots=True)
class Group:
    """Launches of one kernel and geometry."""

    kernel: int
    grid: Extent
    block: Extent
    shared_bytes: int
    cooperative: bool = field(default=False, metadata={LATER: True})
    """whether all blocks run at the same time"""
    cluster: Extent | None = field(default=None, metadata={LATER: True})
    """blocks of a cluster, where the launch named them"""


@dataclass(frozen=True, slots=True)
class KeptLaunch:
    """A launch with the memory that it saw."""

    launch: int
    """its number among the launches"""
    memory: Memory


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call of a library of CUDA's, which does work on the GPU."""

    function: str
    """as the library names it, such as ``cublasSgemm_v2``"""
    operator: str = ""
    """the work as ``kerncast predict --op`` takes it; empty where no operator is like it"""
    operations: float = 0.0
    """floating-point operations"""
    nbytes: float = 0.0
    """bytes that are read and written at least"""
    double: bool = False
    """its numbers have 64 bits"""


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """One run of a program."""

    command: tuple[str, ...]
    gpu: str
    """id of the GPU that the program was told of"""
    ended: str
    """end of the program, such as ``with status 0``"""
    codes: tuple[Code, ...]
    kernels: tuple[Kernel, ...]
    groups: tuple[Group, ...]
    kept: tuple[KeptLaunch, ...]
    launches: Launches
    """[launches] of type LAUNCH, in the order in which they were asked for"""
    events: Events
    """[events] of type EVENT"""
    library_calls: tuple[LibraryCall, ...] = ()
    """calls of libraries that differ"""
    remarks: tuple[str, ...] = ()
    file: Path | None = None
    """the file that it was read from"""
    processes: int = 1
    host_seconds: float = 0.0
    """time of the program's own, without what the virtual GPU took"""

    @property
    def group_of_kept(self) -> tuple[Group, ...]:
        """The group of each launch that was kept."""
        return tuple(self.groups[int(self.launches["group"][each.launch])] for each in self.kept)
