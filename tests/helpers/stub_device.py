"""A server of the virtual GPU that executes nothing: it notes what a program says, and answers what a test wants.

It speaks the protocol of ``runtime/wire.h`` by the code of the real server, so that a test of the runtime is one of
both.
"""

import array
import mmap
import os
import secrets
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from kerncast.device.wire import (
    NO_FUNCTION,
    Environment,
    FunctionFacts,
    LaunchAsked,
    Message,
    Stream,
    device_facts,
    done,
    launch_asked,
    text_of,
)
from kerncast.gpu import load_gpu
from kerncast.units import GIB, MIB

ROOM_BYTES = 1 * GIB
BASE = 1 << 44
#: Where the server places variables of modules that only it has read.
OWN_PLACE = BASE + 4096


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel as the server answers for it."""

    parameters: tuple[tuple[int, int], ...] = ()
    run: Callable[["Memory", LaunchAsked], bytes] = lambda *_: done(0, 1e-3)
    shared_bytes: int = 0
    most_threads: int = 1024

    @property
    def facts(self) -> bytes:
        """What the program is told of it."""
        facts = FunctionFacts(self.parameters, 32, self.shared_bytes, 0, 0, self.most_threads, 75, 75)
        return facts.packed()


class Memory:
    """The memory of the device, by its addresses."""

    def __init__(self, region: mmap.mmap) -> None:
        self._region = region

    def read(self, address: int, nbytes: int) -> bytes:
        """Return bytes."""
        return self._region[address - BASE : address - BASE + nbytes]

    def write(self, address: int, data: bytes) -> None:
        """Change bytes."""
        self._region[address - BASE : address - BASE + len(data)] = data


@dataclass(slots=True)
class StubDevice:
    """A server on a thread; what programs said is in ``messages``, in their order."""

    kernels: Mapping[str, Kernel] = field(default_factory=dict)
    symbols: Mapping[str, int] = field(default_factory=dict)
    """bytes of the variables that modules have"""
    has_clock: bool = True
    gpu: str = "T4"
    launch_s: float = 5e-6
    messages: list[tuple[Message, bytes]] = field(default_factory=list)
    name: str = field(default_factory=lambda: f"kerncast-test-{secrets.token_hex(8)}")
    _listener: socket.socket | None = None
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"\0{self.name}")
        self._listener.listen()
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which a program finds it."""
        return {"KERNCAST_SERVER": self.name, "KERNCAST_ROOM": str(ROOM_BYTES)}

    def said(self, kind: Message) -> list[bytes]:
        """Return what was said in messages of a kind."""
        return [data for each, data in self.messages if each is kind]

    @property
    def launches(self) -> list[LaunchAsked]:
        """All launches."""
        return [launch_asked(memoryview(data)) for data in self.said(Message.LAUNCH)]

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        assert self._listener is not None
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._start(partial(self._serve, connection))

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            memory = self._hello(connection)
            stream, functions, variables = Stream(), dict[int, str](), dict[str, tuple[int, int]]()
            while received := connection.recv(1 << 20):
                for kind, data in stream.messages(received):
                    self.messages.append((kind, bytes(data)))
                    if kind is Message.FUNCTION:
                        functions[struct.unpack_from("<i", data)[0]] = text_of(data[8:])
                    if kind is Message.VARIABLE:
                        variables[text_of(data[20:])] = struct.unpack_from("<QQ", data, 4)
                    if answer := self._answer(kind, data, memory, functions, variables):
                        connection.sendall(answer)

    def _hello(self, connection: socket.socket) -> Memory:
        data, ancillary, _, _ = connection.recvmsg(16, socket.CMSG_SPACE(4))
        self.messages.append((Message.HELLO, data[8:]))
        (number,) = array.array("i", ancillary[0][2])
        region = mmap.mmap(number, ROOM_BYTES)
        os.close(number)
        rates = 1e10, 1e10
        connection.sendall(
            device_facts(load_gpu(self.gpu), Environment(self.has_clock, 64 * MIB, self.launch_s, 1e-6, *rates))
        )
        return Memory(region)

    def _answer(
        self, kind: Message, data: memoryview, memory: Memory, functions: Mapping[int, str],
        variables: Mapping[str, tuple[int, int]],
    ) -> bytes | None:  # fmt: skip
        match kind:
            case Message.FUNCTION:
                kernel = self.kernels.get(text_of(data[8:]))
                return kernel.facts if kernel else NO_FUNCTION
            case Message.LAUNCH:
                asked = launch_asked(data)
                return self.kernels[functions[asked.function]].run(memory, asked)
            case Message.LIBRARY:
                return done(0)
            case Message.SYMBOL:
                name = text_of(data[4:])
                own = (OWN_PLACE, self.symbols[name]) if name in self.symbols else (0, 0)
                return struct.pack("<QQ", *variables.get(name, own))
            case _:
                return None


def run_on(device: StubDevice, program: Path, libraries: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program on a device, with the runtime's libraries from a folder."""
    environment = {**os.environ, **device.environment, "LD_LIBRARY_PATH": str(libraries),
                   "LD_PRELOAD": str(libraries / "libkerncast_device.so")}  # fmt: skip
    return subprocess.run(
        [program, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
