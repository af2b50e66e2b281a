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
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from kerncast.device.libraries import call_library
from kerncast.device.modules import Modules, facts_of
from kerncast.device.running import Launches, Shared, refused
from kerncast.device.wire import (
    NO_FUNCTION,
    PROTOCOL,
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
from kerncast.errors import (
    AssertionFailed,
    DoesNotFitError,
    IllegalAddress,
    KernelFault,
    LaunchError,
    MachineLimitError,
    Refusal,
)
from kerncast.execute.live import Call, LiveMemory
from kerncast.execute.setup.arena import GLOBAL_BASE
from kerncast.recording import EventKind, Group
from kerncast.recording.recording import HOST_WAITS, PAGEABLE

#: Errors of cudaError_t, by what ended a launch.
_STATUS: tuple[tuple[type[Refusal], int], ...] = (
    (IllegalAddress, 700), (AssertionFailed, 710), (KernelFault, 719), (MachineLimitError, 702),
    (DoesNotFitError, 912),
)  # fmt: skip
_NOT_SUPPORTED = 801
_MOST_RECEIVED = 1 << 20
_MOST_PROCESSES = 256


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
        self._launches = Launches(shared, self._memory)
        self._allocations = 0
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
        self._launches.clear()
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
        self._launches = Launches(self.shared, self._memory)
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
        self._launches.changed({start})
        if kind in {MemoryKind.PINNED, MemoryKind.MANAGED, MemoryKind.REGISTERED}:
            self._launches.unseen.add(start)
        self._event(EventKind.ALLOCATE, at, value=int(nbytes))

    def _free(self, data: memoryview) -> None:
        at, address = unpack(struct.Struct("<dQ"), data)
        self._memory.remove(int(address))
        self._launches.forget(int(address) - GLOBAL_BASE)
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
            self._launches.changed({found.start})
            self.modules.written_by_host(address)

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
        group = Group(
            self._numbers[asked.function], asked.grid, asked.block, asked.shared_bytes, asked.is_cooperative,
            asked.cluster,
        )  # fmt: skip
        call = Call(asked.grid, asked.block, asked.shared_bytes, asked.parameters, asked.is_cooperative, asked.cluster)
        try:
            work, number = self._launches.run(group, call, function)
        except Refusal as refusal:
            refused(refusal, function.name, self.shared)
            return done(_status_of(refusal))
        seconds, share = self._launches.lasting(group, work)
        self._event(EventKind.LAUNCH, asked.at, stream=asked.stream, value=number)
        if work.stray:
            self.shared.remarks.add(f"{function.name} went on, as on a GPU: {work.stray}")
        return done(0, seconds, work.printed, share)

    def _library(self, data: memoryview) -> bytes:
        at, stream, length = unpack(struct.Struct("<dII"), data)
        name, operands = text_of(data[16 : 16 + int(length)]), bytes(data[16 + int(length) :])
        try:
            found = call_library(name, operands, self._memory)
        except Refusal as refusal:
            self.shared.remarks.add(f"{name}: {refusal}")
            return done(_status_of(refusal))
        self._launches.changed(None)
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
