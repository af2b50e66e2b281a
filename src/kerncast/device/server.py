"""The server of the virtual GPU: it answers programs, executes what they launch, and keeps what is worth keeping.

It runs in a process with limits. The program itself runs as its user; what it says here is checked, and may be
anything.
"""

import array
import fcntl
import gc
import math
import mmap
import os
import select
import socket
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kerncast.device.capture import Capture
from kerncast.device.libraries import call_library
from kerncast.device.modules import Function, Modules, Origin, facts_of
from kerncast.device.wire import (
    NO_FUNCTION,
    PROTOCOL,
    Environment,
    MemoryKind,
    Message,
    Stream,
    WireError,
    device_facts,
    done,
    launch_asked,
    text_of,
    unpack,
)
from kerncast.errors import AssertionFailed, IllegalAddress, KernelFault, LaunchError, MachineLimitError, Refusal
from kerncast.execute.live import Call, LiveMemory, Rules, Work
from kerncast.execute.native.warp import prints
from kerncast.execute.setup.arena import GLOBAL_BASE
from kerncast.execute.setup.dataflow import UNKNOWN
from kerncast.gpu import GPU
from kerncast.recording import EventKind, Group, Kernel, LibraryCall
from kerncast.recording.recording import HOST_WAITS, PAGEABLE

#: Errors of cudaError_t, by what ended a launch.
_STATUS: tuple[tuple[type[Refusal], int], ...] = (
    (IllegalAddress, 700), (AssertionFailed, 710), (KernelFault, 719), (MachineLimitError, 702),
)  # fmt: skip
_NOT_SUPPORTED = 801
_MOST_RECEIVED = 1 << 20
_MOST_REMARKS = 200
#: Launches whose results may still stand when they are asked for again.
_MOST_REPEATS = 4096
_MOST_PROCESSES = 256


class Clock(Protocol):
    """Tells how long launches take, where the program's clock shows forecasts."""

    def seconds(self, group: Group, work: Work) -> float:
        """Return the duration of a launch on the GPU."""

    def share(self, group: Group) -> float:
        """Return which part of the SMs a launch fills whose duration was asked for."""

    def library_seconds(self, call: LibraryCall) -> float:
        """Return the duration of a call of a library."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What one run of a program is to be like."""

    gpu: GPU
    environment: Environment
    room_bytes: int
    """address space of one process for the GPU's memory"""
    rules: Rules


class Remarks:
    """What the user is told at the end, each once, with how often."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, text: str) -> None:
        """Note something."""
        if text in self._counts or len(self._counts) < _MOST_REMARKS:
            self._counts[text] = self._counts.get(text, 0) + 1

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them, in the order in which they first came up."""
        return tuple(text if n == 1 else f"{text} ({n} times)" for text, n in self._counts.items())


@dataclass(slots=True)
class Shared:
    """What all processes of one run have in common."""

    settings: Settings
    capture: Capture
    report: Callable[[str], None]
    clock: Clock | None = None
    remarks: Remarks = field(default_factory=Remarks)
    kernels: list[Kernel] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    """where the code of the kernels is from, by the number of it"""
    library_calls: dict[LibraryCall, int] = field(default_factory=dict)
    """calls that differ, and their numbers"""
    processes: int = 0
    host_seconds: float = 0.0
    last_ended: int | None = None
    """number of the process that ended last"""
    skipped: int = 0
    """launches that repeated others on unchanged memory"""

    def kernel_number(self, function: Function, origin: Origin) -> int:
        """Return the number of a kernel, which may be new."""
        if origin not in self.origins:
            self.origins.append(origin)
        kernel = Kernel(function.name, function.mangled, self.origins.index(origin))
        if kernel not in self.kernels:
            self.kernels.append(kernel)
        return self.kernels.index(kernel)


@dataclass(frozen=True, slots=True)
class _Done:
    """A launch that could be skipped were it asked for again: what it read and wrote, as it left it."""

    work: Work
    versions: tuple[tuple[int, int], ...]
    """start and version of each allocation"""


class Client:
    """One process of the program, from its hello on."""

    def __init__(self, connection: socket.socket, shared: Shared) -> None:
        self.connection, self.shared = connection, shared
        self.number = shared.processes
        shared.processes += 1
        self._stream = Stream()
        self._memory = LiveMemory(np.zeros(0, np.uint8))
        self._modules: Modules | None = None
        self._numbers: dict[int, int] = {}
        """number of the kernel of each function"""
        self._versions: dict[int, int] = {}
        """number of the last change of each allocation, by its start"""
        self._changes = self._allocations = 0
        self._unseen: set[int] = set()
        """starts of the allocations that the host may write unseen"""
        self._repeats: OrderedDict[tuple[object, ...], _Done] = OrderedDict()
        self._last_at = 0.0
        self._answers: Mapping[Message, Callable[[memoryview], bytes | None]] = {
            Message.MODULE: self._module, Message.VARIABLE: self._variable, Message.ALLOCATE: self._allocate,
            Message.FREE: self._free, Message.COPY: self._copy, Message.FILL: self._fill, Message.WAIT: self._wait,
            Message.RECORD: self._record, Message.DEPEND: self._depend, Message.FUNCTION: self._function,
            Message.LAUNCH: self._launch, Message.SYMBOL: self._symbol, Message.LIBRARY: self._library,
            Message.MISSING: self._missing, Message.NOTE: self._note, Message.GOODBYE: self._goodbye,
            Message.STREAM: self._new_stream,
        }  # fmt: skip

    def serve(self) -> bool:
        """Answer what has arrived; returns whether the process is still there. Raises WireError."""
        if self._modules is None:
            self._hello()
            return True
        try:
            received = self.connection.recv(_MOST_RECEIVED)
        except ConnectionError:
            received = b""
        for kind, data in self._stream.messages(received):
            if kind is Message.HELLO:
                raise WireError("a second hello")
            answer = self._answers[kind](data)
            if answer is not None:
                self.connection.sendall(answer)
        return bool(received)

    def end(self) -> None:
        """Note the end of the process, and let go of its memory."""
        self.shared.host_seconds += self._last_at
        self._event(EventKind.END, self._last_at)
        self.shared.last_ended = self.number
        self.connection.close()
        # What answers refers to the process, and kernels that are kept to its memory: no other one could be mapped.
        self._answers, self._modules = {}, None
        self._memory = LiveMemory(np.zeros(0, np.uint8))
        self._repeats.clear()
        gc.collect()

    # The beginning

    def _hello(self) -> None:
        """Take the memory of the process, and tell it of its GPU."""
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        data, ancillary, _, _ = self.connection.recvmsg(16, room)
        if len(data) != 16 or struct.unpack("<4I", data)[:3] != (Message.HELLO, 8, PROTOCOL):
            raise WireError("no hello of this version")
        settings = self.shared.settings
        base = _mapped(ancillary, settings.room_bytes)
        self._memory = LiveMemory(base)
        self._modules = Modules(settings.gpu, self._memory, GLOBAL_BASE, self.shared.report)
        self.connection.sendall(device_facts(settings.gpu, settings.environment))
        before = self.shared.last_ended
        self._event(EventKind.BEGIN, 0.0, value=0 if before is None else before + 1)

    @property
    def modules(self) -> Modules:
        """The modules of the process, after its hello."""
        assert self._modules is not None
        return self._modules

    # Memory

    def _allocate(self, data: memoryview) -> None:
        at, address, nbytes, kind = unpack(struct.Struct("<dQQI"), data)
        self._allocations += 1
        self._memory.add(int(address), int(nbytes), f"{_NAMES.get(int(kind), 'buffer')} {self._allocations}")
        start = int(address) - GLOBAL_BASE
        self._changed({start})
        if kind in {MemoryKind.PINNED, MemoryKind.MANAGED, MemoryKind.REGISTERED}:
            self._unseen.add(start)
        self._event(EventKind.ALLOCATE, at, value=int(nbytes))

    def _free(self, data: memoryview) -> None:
        at, address = unpack(struct.Struct("<dQ"), data)
        self._memory.remove(int(address))
        self._versions.pop(int(address) - GLOBAL_BASE, None)
        self._unseen.discard(int(address) - GLOBAL_BASE)
        self._event(EventKind.FREE, at)

    def _copy(self, data: memoryview) -> None:
        at, to, _, nbytes, way, stream, waits = unpack(struct.Struct("<dQQQIII"), data)
        self._written(int(to))
        extra = (int(way) & 3) + (HOST_WAITS if int(waits) & 1 else 0) + (PAGEABLE if int(waits) & 2 else 0)
        self._event(EventKind.COPY, at, stream=int(stream), value=int(nbytes), extra=extra)

    def _fill(self, data: memoryview) -> None:
        at, to, nbytes, stream, waits = unpack(struct.Struct("<dQQII"), data)
        self._written(int(to))
        extra = HOST_WAITS if waits else 0
        self._event(EventKind.FILL, at, stream=int(stream), value=int(nbytes), extra=extra)

    def _written(self, address: int) -> None:
        found = self._memory.find(address)
        if found is not None:
            self._changed({found.start})
            self.modules.written_by_host(address)

    def _changed(self, starts: set[int] | None) -> None:
        """Note that some allocations, or all, may have changed."""
        self._changes += 1
        self._versions.update(dict.fromkeys(list(self._versions) if starts is None else starts, self._changes))

    # Streams and events

    def _wait(self, data: memoryview) -> None:
        at, what, number = unpack(struct.Struct("<dII"), data)
        self._event(EventKind.WAIT, at, value=int(number), extra=int(what))

    def _new_stream(self, data: memoryview) -> None:
        number, flags = unpack(struct.Struct("<II"), data)
        self._event(EventKind.STREAM, self._last_at, stream=int(number), value=int(flags))

    def _record(self, data: memoryview) -> None:
        at, event, stream = unpack(struct.Struct("<dII"), data)
        self._event(EventKind.RECORD, at, stream=int(stream), value=int(event))

    def _depend(self, data: memoryview) -> None:
        at, stream, event = unpack(struct.Struct("<dII"), data)
        self._event(EventKind.DEPEND, at, stream=int(stream), value=int(event))

    def _event(self, kind: EventKind, at: float, *, stream: int = 0, value: int = 0, extra: int = 0) -> None:
        if not math.isfinite(at):
            raise WireError("a time that is not finite")
        self._last_at = max(self._last_at, float(at))
        self.shared.capture.event((int(kind), self.number, stream, self._last_at, value, extra))

    # Code

    def _module(self, data: memoryview) -> None:
        number, form = unpack(struct.Struct("<iI"), data)
        self.modules.load(int(number), int(form), bytes(data[8:]))

    def _variable(self, data: memoryview) -> None:
        number, address, nbytes = unpack(struct.Struct("<iQQ"), data)
        self.modules.place(int(number), text_of(data[20:]), int(address), int(nbytes))

    def _symbol(self, data: memoryview) -> bytes:
        (number,) = unpack(struct.Struct("<i"), data)
        return struct.pack("<QQ", *self.modules.symbol(int(number), text_of(data[4:])))

    def _function(self, data: memoryview) -> bytes:
        number, module = unpack(struct.Struct("<ii"), data)
        function = self.modules.function(int(number), int(module), text_of(data[8:]))
        if function.kernel is None:
            self.shared.remarks.add(f"{function.name} cannot be executed: {function.refusal}")
            self.shared.report(f"{function.name} is refused: {function.refusal.what if function.refusal else ''}")
            return NO_FUNCTION
        origin = self.modules.origin_of(function)
        self._numbers[int(number)] = self.shared.kernel_number(function, origin)
        return facts_of(function, self.shared.settings.gpu).packed()

    # Work

    def _launch(self, data: memoryview) -> bytes:
        asked = launch_asked(data)
        function = self.modules.functions.get(asked.function)
        if function is None or function.kernel is None:
            return done(_NOT_SUPPORTED)
        group = Group(self._numbers[asked.function], asked.grid, asked.block, asked.shared_bytes)
        call = Call(asked.grid, asked.block, asked.shared_bytes, asked.parameters, asked.is_cooperative)
        try:
            work, (seconds, share), number = self._run(group, call, function)
        except Refusal as refusal:
            self.shared.remarks.add(f"{function.name}: {refusal}")
            self.shared.report(f"{function.name} is refused: {refusal.what}")
            return done(_status_of(refusal))
        self._event(EventKind.LAUNCH, asked.at, stream=asked.stream, value=number)
        if work.stray:
            self.shared.remarks.add(f"{function.name} went on, as on a GPU: {work.stray}")
        return done(0, seconds, work.printed, share)

    def _run(self, group: Group, call: Call, function: Function) -> tuple[Work, tuple[float, float], int]:
        kernel, capture = function.kernel_for(call), self.shared.capture
        assert kernel is not None
        memory = capture.begin(group, call, kernel, self._memory)
        key = (group, call.parameters)
        work = self._still_stands(key)
        if work is None:
            work = kernel.launch(call, self._memory, self.shared.settings.rules)
            self._note_repeat(key, call, function, work)
        else:
            self.shared.skipped += 1
        number = capture.end(group, call, work, memory)
        clock = self.shared.clock
        lasting = (clock.seconds(group, work), clock.share(group)) if clock else (0.0, 0.0)
        return work, lasting, number

    def _still_stands(self, key: tuple[object, ...]) -> Work | None:
        """Return what a launch would do again, where nothing that it reads or writes has changed since."""
        found = self._repeats.get(key)
        if found is None or any(self._versions.get(start) != version for start, version in found.versions):
            return None
        return found.work

    def _note_repeat(self, key: tuple[object, ...], call: Call, function: Function, work: Work) -> None:
        """Note which allocations a launch has changed, and whether it would only do the same again."""
        kernel = function.kernel_for(call)
        assert kernel is not None
        use = kernel.use(call.parameters, self._memory)
        written = kernel.reaches(use.written, call.parameters, self._memory)
        self._changed(written)
        self._repeats.pop(key, None)
        read = kernel.reaches(use.read, call.parameters, self._memory)
        if written is None or read is None or not use.are_disjoint or prints(kernel.linked):
            return
        if (read | written) & self._unseen or UNKNOWN in use.read | use.written:
            return
        versions = tuple((start, self._versions.get(start, 0)) for start in sorted(read | written))
        self._repeats[key] = _Done(work, versions)
        if len(self._repeats) > _MOST_REPEATS:
            self._repeats.popitem(last=False)

    def _library(self, data: memoryview) -> bytes:
        at, stream, length = unpack(struct.Struct("<dII"), data)
        name, operands = text_of(data[16 : 16 + int(length)]), bytes(data[16 + int(length) :])
        try:
            found = call_library(name, operands, self._memory)
        except Refusal as refusal:
            self.shared.remarks.add(f"{name}: {refusal}")
            return done(_status_of(refusal))
        self._changed(None)
        if found.work is not None:
            number = self.shared.library_calls.setdefault(found.work, len(self.shared.library_calls))
            self._event(EventKind.LIBRARY, at, stream=int(stream), value=number)
        clock = self.shared.clock
        seconds = clock.library_seconds(found.work) if clock and found.work else 0.0
        return done(found.status, seconds, share=1.0 if seconds else 0.0)

    # Words

    def _missing(self, data: memoryview) -> None:
        self.shared.remarks.add(f"the program calls {text_of(data)[:200]}, which the virtual GPU does not have")

    def _note(self, data: memoryview) -> None:
        self.shared.remarks.add(text_of(data)[:500])

    def _goodbye(self, data: memoryview) -> None:
        (at,) = unpack(struct.Struct("<d"), data)
        if math.isfinite(at):
            self._last_at = max(self._last_at, float(at))


_NAMES = {int(MemoryKind.PINNED): "pinned buffer", int(MemoryKind.MANAGED): "managed buffer",
          int(MemoryKind.VARIABLE): "variable", int(MemoryKind.REGISTERED): "host buffer"}  # fmt: skip


def _status_of(refusal: Refusal) -> int:
    """Return the error that the program sees."""
    return next((status for kind, status in _STATUS if isinstance(refusal, kind)), _NOT_SUPPORTED)


def _mapped(ancillary: list[tuple[int, int, bytes]], room: int) -> npt.NDArray[np.uint8]:
    """Return the memory whose file a process has sent; raises WireError for a file that could change its size."""
    files = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    try:
        if len(files) != 1:
            raise WireError("no memory")
        seals = fcntl.fcntl(files[0], fcntl.F_GET_SEALS)
        is_sealed = seals & fcntl.F_SEAL_SHRINK and seals & fcntl.F_SEAL_GROW
        if not is_sealed or os.fstat(files[0]).st_size != room:
            raise WireError("a memory of another size")
        region = mmap.mmap(files[0], room, flags=mmap.MAP_SHARED | 0x4000)  # MAP_NORESERVE
        return np.frombuffer(region, np.uint8)
    except (OSError, ValueError) as error:
        raise WireError(f"a memory that cannot be mapped: {error}") from None
    finally:
        for each in files:
            os.close(each)


def serve(listener: socket.socket, ended: int, shared: Shared) -> None:
    """Serve all processes that connect, until ``ended`` can be read and the last of them is gone.

    Call it on a thread with ``kerncast.execute.live.STACK_BYTES`` of stack.
    """
    waiting = select.poll()
    clients: dict[int, Client] = {}
    waiting.register(listener, select.POLLIN)
    waiting.register(ended, select.POLLIN)
    is_over = False
    while not is_over or clients:
        ready = waiting.poll(0 if is_over else None)
        if not ready:
            break  # what is still connected has nothing more to say: a child that outlives the program
        for descriptor, _ in ready:
            if descriptor == listener.fileno():
                _accept(listener, waiting, clients, shared)
            elif descriptor == ended:
                waiting.unregister(ended)
                is_over = True
            elif descriptor in clients and not _is_served(clients[descriptor], shared):
                waiting.unregister(descriptor)
                clients.pop(descriptor).end()
    for each in clients.values():
        each.end()


def _accept(listener: socket.socket, waiting: select.poll, clients: dict[int, Client], shared: Shared) -> None:
    connection, _ = listener.accept()
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", peer)[1] != os.getuid() or len(clients) >= _MOST_PROCESSES:
        connection.close()
        return
    waiting.register(connection, select.POLLIN)
    clients[connection.fileno()] = Client(connection, shared)


def _is_served(client: Client, shared: Shared) -> bool:
    try:
        return client.serve()
    except ConnectionError:  # it is gone
        return False
    except (WireError, LaunchError) as error:
        shared.remarks.add(f"a process of the program was cut off: it sent {error}")
        return False
