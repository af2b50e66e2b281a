"""A program on the virtual GPU, as its server sees it: what the runtime in C says, said from Python."""

import array
import fcntl
import mmap
import os
import socket
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.device.capture import Capture
from kerncast.device.running import Settings, Shared
from kerncast.device.server import Client
from kerncast.device.wire import PROTOCOL, Environment, Form, MemoryKind, Message
from kerncast.execute.live import Rules, on_large_stack
from kerncast.execute.setup.arena import GLOBAL_BASE
from kerncast.gpu import load_gpu
from kerncast.recording import ContentsWriter

ROOM = 2**26
_DONE = struct.Struct("<iIdd")
ENVIRONMENT = Environment(
    has_clock=False, budget_bytes=2**30, launch_s=2e-6, copy_s=6e-6, to_device_bytes_per_s=2e10,
    to_host_bytes_per_s=2e10,
)  # fmt: skip


def shared_for(folder: Path, kept_bytes: int = 2**24, rules: Rules | None = None) -> Shared:
    """Return what all processes of a run have in common; contents go into a folder."""
    settings = Settings(load_gpu("t4"), ENVIRONMENT, ROOM, rules or Rules(60.0))
    return Shared(settings, Capture(ContentsWriter(folder / "contents", kept_bytes)), lambda _: None)


class Program:
    """One process: its memory, and what it says."""

    def __init__(self, shared: Shared, *, seals: bool = True) -> None:
        self.shared = shared
        self._own, its = socket.socketpair()
        self.client = Client(its, shared)
        self._file = os.memfd_create("device", os.MFD_ALLOW_SEALING)
        os.ftruncate(self._file, ROOM)
        if seals:
            fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.memory = np.frombuffer(mmap.mmap(self._file, ROOM), np.uint8)
        self.at = 0.0
        self._next = 2**20
        self._modules = self._functions = 0

    def hello(self, protocol: int = PROTOCOL) -> bytes:
        """Say hello; returns the facts of the GPU."""
        data = struct.pack("<4I", Message.HELLO, 8, protocol, os.getpid())
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self._file]))
        self._own.sendmsg([data], [rights])
        self.client.serve()
        return self._own.recv(4096)

    def say(self, kind: Message, *parts: bytes, answers: bool = False) -> bytes:
        """Send a message and let the server work; returns its answer."""
        body = b"".join(parts)
        self._own.sendall(struct.pack("<II", kind, len(body)) + body)
        on_large_stack(self._served)
        return self._own.recv(1 << 16) if answers else b""

    def raw(self, data: bytes) -> None:
        """Send bytes, whatever they are."""
        self._own.sendall(data)

    def _served(self) -> None:
        assert self.client.serve()

    def allocate(self, values: npt.NDArray[Any], kind: MemoryKind = MemoryKind.DEVICE) -> int:
        """Allocate a buffer that holds some values; returns its address."""
        address = GLOBAL_BASE + self._next
        self._next += -(-(values.nbytes + 512) // 512) * 512
        self.say(Message.ALLOCATE, struct.pack("<dQQI", self.at, address, values.nbytes, kind))
        self.write(address, values)
        return address

    def write(self, address: int, values: npt.NDArray[Any]) -> None:
        """Copy values to the GPU."""
        raw = np.frombuffer(values.tobytes(), np.uint8)
        self.memory[address - GLOBAL_BASE : address - GLOBAL_BASE + len(raw)] = raw
        self.say(Message.COPY, struct.pack("<dQQQIII", self.at, address, 0, len(raw), 1, 0, 1))

    def read(self, address: int, count: int, kind: str = "<f4") -> npt.NDArray[Any]:
        """Return what memory holds."""
        start = address - GLOBAL_BASE
        return self.memory[start : start + count * np.dtype(kind).itemsize].view(kind)

    def load(self, ptx: str, form: Form = Form.PTX) -> int:
        """Load a module; returns its number."""
        number, self._modules = self._modules, self._modules + 1
        self.say(Message.MODULE, struct.pack("<iI", number, form), ptx.encode() + b"\0")
        return number

    def function(self, module: int, name: str) -> tuple[int, int]:
        """Return the number of a kernel, and how many parameters it has; -1 where it is not there."""
        number, self._functions = self._functions, self._functions + 1
        answer = self.say(Message.FUNCTION, struct.pack("<ii", number, module), name.encode(), answers=True)
        return number, struct.unpack_from("<i", answer)[0]

    def launch(self, function: int, grid: int, block: int, parameters: bytes, stream: int = 0) -> tuple[int, str]:
        """Launch a kernel; returns the status and what it printed."""
        head = struct.pack("<di3I3IIII", self.at, function, grid, 1, 1, block, 1, 1, 0, stream, 0)
        answer = self.say(Message.LAUNCH, head, parameters, answers=True)
        status, length, *_ = _DONE.unpack_from(answer)
        return status, answer[_DONE.size : _DONE.size + length].decode()

    def end(self) -> None:
        """End the process as one ends that has said all."""
        self.say(Message.GOODBYE, struct.pack("<d", self.at))
        self._own.close()
        assert not self.client.serve()
        self.close()

    def close(self) -> None:
        """End the process, whatever it was about to say."""
        self._own.close()
        self.client.end()
        os.close(self._file)


def words(*values: int) -> bytes:
    """Return parameters of 8 bytes each."""
    return b"".join(each.to_bytes(8, "little", signed=each < 0) for each in values)
