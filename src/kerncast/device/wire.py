"""What a program on the virtual GPU says to its server, and what is answered: the numbers of ``runtime/wire.h``.

Messages come from a process that may do anything: each is taken apart with its bounds checked, and one that makes no
sense ends the connection.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from kerncast.gpu import GPU
from kerncast.launch import Extent
from kerncast.units import GIB, MIB

PROTOCOL = 2
_HEAD = struct.Struct("<II")
#: A module's code is the largest message: fatbins of libraries have some hundred MiB.
_MOST_BYTES = 1 * GIB


class Message(IntEnum):
    """Kinds of messages of a program."""

    HELLO = 1
    MODULE = 2
    VARIABLE = 3
    ALLOCATE = 4
    FREE = 5
    COPY = 6
    FILL = 7
    WAIT = 8
    RECORD = 9
    DEPEND = 10
    FUNCTION = 11
    LAUNCH = 12
    SYMBOL = 13
    LIBRARY = 14
    MISSING = 15
    NOTE = 16
    GOODBYE = 17
    STREAM = 18


class Form(IntEnum):
    """Forms of a module's code."""

    PTX = 1
    FATBIN = 2
    SOURCE = 3
    MACHINE_CODE = 4


class MemoryKind(IntEnum):
    """Kinds of memory, by who may write it unseen."""

    DEVICE = 0
    PINNED = 1
    MANAGED = 2
    VARIABLE = 3
    REGISTERED = 4


COOPERATIVE = 1
_CLUSTER_BITS, _CLUSTER_SHIFTS = 31, (8, 13, 18)


class WireError(Exception):
    """A message that no runtime of ours sends."""


class Stream:
    """Bytes of a connection, taken apart into messages."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._wanted = 0
        """bytes of the message that has begun to arrive"""

    def messages(self, received: bytes) -> Iterator[tuple[Message, memoryview]]:
        """Yield each message that is complete; raises WireError for one of no known kind, or far too large."""
        self._data += received
        if len(self._data) < self._wanted:
            return  # not even looked at: a module comes in thousands of pieces
        position = 0
        data = bytes(self._data)
        view = memoryview(data)
        while len(data) - position >= _HEAD.size:
            number, nbytes = _HEAD.unpack_from(data, position)
            if nbytes > _MOST_BYTES:
                raise WireError(f"a message of {nbytes} bytes")
            end = position + _HEAD.size + nbytes
            if end > len(data):
                self._wanted = end - position
                break
            try:
                kind = Message(number)
            except ValueError:
                raise WireError(f"a message of kind {number}") from None
            yield kind, view[position + _HEAD.size : end]
            position, self._wanted = end, 0
        del self._data[:position]


def unpack(form: struct.Struct, data: memoryview) -> tuple[int | float, ...]:
    """Return the fields at the front of a message; raises WireError for one that is too short."""
    if len(data) < form.size:
        raise WireError("a message that is too short")
    return form.unpack_from(data)


def text_of(data: memoryview) -> str:
    """Return the text of a message."""
    return bytes(data).decode("utf-8", "replace")


_LAUNCH = struct.Struct("<di3I3IIII")


@dataclass(frozen=True, slots=True)
class LaunchAsked:
    """A launch as a program asks for it."""

    at: float
    function: int
    grid: Extent
    block: Extent
    shared_bytes: int
    stream: int
    is_cooperative: bool
    parameters: bytes
    cluster: Extent | None = None


def launch_asked(data: memoryview) -> LaunchAsked:
    """Return a launch from its message; raises WireError."""
    at, function, *numbers = unpack(_LAUNCH, data)
    gx, gy, gz, bx, by, bz, shared, stream, flags = map(int, numbers)
    x, y, z = (flags >> shift & _CLUSTER_BITS for shift in _CLUSTER_SHIFTS)
    return LaunchAsked(
        float(at), int(function), (gx, gy, gz), (bx, by, bz), shared, stream, bool(flags & COOPERATIVE),
        bytes(data[_LAUNCH.size :]), (x, y, z) if x and y and z else None,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Environment:
    """What a program is told of its GPU beside its facts, and how time passes."""

    has_clock: bool
    """whether the program's clock shows forecasts"""
    budget_bytes: int
    """memory of the GPU that may be touched on this machine"""
    launch_s: float
    copy_s: float
    to_device_bytes_per_s: float
    to_host_bytes_per_s: float
    pageable: float = 1.0
    """rate of copies of memory that is not pinned, as a part of the others'"""


_DEVICE = struct.Struct("<256s16s16iQQ6d")
#: Where a GPU's file does not know its bus.
_BUS_BITS = 256


def device_facts(gpu: GPU, environment: Environment) -> bytes:
    """Return a GPU as ``struct kc_device`` holds it."""
    a = gpu.architecture
    major, minor = map(int, a.compute_capability.split("."))
    bus = gpu.dram_bus_bits or _BUS_BITS
    # Two transfers per clock, as CUDA's own samples reckon.
    memory_khz = round(gpu.dram_bytes_per_s / (bus / 8) / 2 / 1e3)
    numbers = (
        major, minor, gpu.sm_count, round(gpu.clock_boost_hz / 1e3), memory_khz, bus, gpu.l2_bytes or 0,
        a.shared_bytes_per_block, a.shared_bytes_per_block_optin, a.shared_bytes_per_sm,
        a.reserved_shared_bytes_per_block, a.max_registers_per_block, a.registers_per_sm, a.max_threads_per_sm,
        a.max_blocks_per_sm, int(environment.has_clock),
    )  # fmt: skip
    times = (
        environment.launch_s, environment.copy_s, environment.to_device_bytes_per_s, environment.to_host_bytes_per_s,
        gpu.dram_bytes_per_s, environment.pageable,
    )  # fmt: skip
    name = f"NVIDIA {gpu.name}".encode()[:255]
    uuid = gpu.id.encode()[:16].ljust(16, b"\0")
    return _DEVICE.pack(name, uuid, *numbers, gpu.memory_bytes or 16 * GIB, environment.budget_bytes, *times)


_FUNCTION = struct.Struct("<8i")
_PARAMETER = struct.Struct("<2i")
_DONE = struct.Struct("<iIdd")
#: A kernel that is not there.
NO_FUNCTION = _FUNCTION.pack(-1, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """What a program may ask of a kernel."""

    parameters: tuple[tuple[int, int], ...]
    """offset and bytes of each"""
    registers: int
    shared_bytes: int
    local_bytes: int
    constant_bytes: int
    most_threads: int
    ptx_version: int
    """compute capability of the PTX, times ten"""
    binary_version: int

    def packed(self) -> bytes:
        """Return the facts as ``struct kc_function_head`` and its parameters hold them."""
        head = _FUNCTION.pack(
            len(self.parameters), self.registers, self.shared_bytes, self.local_bytes, self.constant_bytes,
            self.most_threads, self.ptx_version, self.binary_version,
        )  # fmt: skip
        return head + b"".join(_PARAMETER.pack(*each) for each in self.parameters)


def done(status: int, seconds: float = 0.0, text: str = "", share: float = 0.0) -> bytes:
    """Return the answer to a launch or a call of a library, which fills a share of the SMs."""
    printed = text.encode("utf-8", "surrogateescape")[: 16 * MIB]
    return _DONE.pack(status, len(printed), seconds, share) + printed
