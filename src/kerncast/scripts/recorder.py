"""Launches of a script's kernels: executed here on what its arrays hold, and kept as those of a program are.

The GPU's memory is one room of addresses. An array of the script's has a place in it from the first launch that is
given it on: what it holds is copied there before a launch, and back from there after one that has written it.
"""

import hashlib
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kerncast.device.modules import Function, Modules
from kerncast.device.running import Launches, Shared
from kerncast.device.wire import Form
from kerncast.errors import InputError, MachineLimitError, UnsupportedError
from kerncast.execute.live import Call, LiveKernel, LiveMemory, Work
from kerncast.execute.setup.arena import GLOBAL_BASE
from kerncast.launch import Extent, Memory
from kerncast.recording import EventKind, Group
from kerncast.scripts.entries import Entry, entry_in
from kerncast.scripts.host_arrays import Bytes, HostArray, bytes_of
from kerncast.units import MIB

#: Below the arrays, kernels have their own variables.
_FIRST_PLACE = 64 * MIB
_ALIGNMENT = 4096
#: Addresses are not used again until this much is behind: an access behind an array's end finds nobody.
_NO_RESERVE = 0x4000
#: Launches of a benchmark that are kept where nothing else launches their kernel.
_MOST_BENCHMARKED = 8


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer into an array of the script's."""

    array: HostArray
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Scratch:
    """A pointer to memory that only the launch uses."""

    nbytes: int


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A coded description of a tensor, as tensor copies take it: bytes that hold a pointer."""

    code: bytes
    pointer: Pointer
    place: int = 0
    """offset of the pointer in the bytes"""


Parameter = bytes | Pointer | Scratch | TensorMap


@dataclass(frozen=True, slots=True)
class Asked:
    """A launch, as a script asks for it."""

    ptx: str
    name: str
    grid: Extent
    block: Extent
    shared_bytes: int
    parameters: tuple[Parameter, ...]
    """one for each parameter of the kernel in PTX; zeros for those that are left out at the end"""


@dataclass(frozen=True, slots=True)
class _Kernel:
    number: int
    function: Function
    entry: Entry


@dataclass(slots=True)
class _Mirror:
    """The place of an array in the GPU's memory."""

    address: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Benchmarked:
    """A launch that is to be timed, not to be executed."""

    group: Group
    call: Call
    memory: Memory


@dataclass(slots=True)
class Recorder:
    """Executes the launches of one script, and keeps them."""

    shared: Shared
    _memory: LiveMemory = field(init=False)
    _modules: Modules = field(init=False)
    _launches: Launches = field(init=False)
    _kernels: dict[tuple[str, str], _Kernel] = field(default_factory=dict)
    _mirrors: dict[int, _Mirror] = field(default_factory=dict)
    """by the address of the script's array"""
    _next: int = GLOBAL_BASE + _FIRST_PLACE
    benchmark: list[Benchmarked] | None = None
    """where launches are noted while they are only to be timed"""
    executes_benchmarks: bool = False
    """whether what is only to be timed is executed, too"""
    _benchmarked: list[Benchmarked] = field(default_factory=list)
    asks_for_gpu: bool = False
    """whether the script has asked for the GPU's properties"""
    done: list[tuple[Group, Work]] = field(default_factory=list)
    """launches that were executed, in their order"""
    unexecuted: dict[str, None] = field(default_factory=dict)
    """names of the kernels that a launch of was not executed"""

    def __post_init__(self) -> None:
        settings = self.shared.settings
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        room = np.frombuffer(mmap.mmap(-1, settings.room_bytes, flags=flags), np.uint8)
        self._memory = LiveMemory(room)
        self._modules = Modules(settings.gpu, self._memory, GLOBAL_BASE, self.shared.report)
        self._launches = Launches(self.shared, self._memory)
        self.shared.processes = 1
        self._event(EventKind.BEGIN)

    def launch(self, asked: Asked) -> None:
        """Execute a launch and keep it; raises KernelFault for a kernel that misbehaves."""
        if 0 in asked.grid:
            return
        kernel = self._kernel(asked)
        arrays = list({each.address: each for each in _arrays_of(asked.parameters)}.values())
        self._copy_in(arrays)
        call, scratch = self._call(asked, kernel)
        grid = Group(kernel.number, asked.grid, asked.block, asked.shared_bytes)
        try:
            if self.benchmark is not None:
                memory = self.shared.capture.memory_of(call, kernel.function.kernel, self._memory)
                self.benchmark.append(Benchmarked(grid, call, memory))
                self._benchmarked.append(self.benchmark[-1])
                if not self.executes_benchmarks or kernel.function.kernel is None:
                    return
                kernel.function.kernel.launch(call, self._memory, self.shared.settings.rules)
                self._launches.changed(None)
            else:
                self._execute(grid, call, kernel.function)
            self._copy_out(arrays, call, kernel.function.kernel)
        finally:
            for address in scratch:
                self._memory.remove(address)

    def note_asked(self) -> None:
        """Note that the script has asked for the GPU's properties."""
        self.asks_for_gpu = True

    def finish(self) -> None:
        """Keep launches of benchmarks whose kernels were launched nowhere else, and end the record."""
        launched = {self.shared.kernels[group.kernel].mangled for group in self.shared.capture.groups}
        left = [each for each in self._benchmarked if self._name_of(each) not in launched]
        for each in left[:_MOST_BENCHMARKED]:
            number = self.shared.capture.keep(each.group, each.call, each.memory)
            self._event(EventKind.LAUNCH, number)
        self._event(EventKind.END)

    def _name_of(self, benchmarked: Benchmarked) -> str:
        return self.shared.kernels[benchmarked.group.kernel].mangled

    def _event(self, kind: EventKind, value: int = 0) -> None:
        # The time of the script's own is not that of a program beside a GPU: its arrays' work is done here.
        self.shared.capture.event((int(kind), 0, 0, 0.0, value, 0))

    # Kernels

    def _kernel(self, asked: Asked) -> _Kernel:
        key = hashlib.sha256(asked.ptx.encode()).hexdigest(), asked.name
        if key not in self._kernels:
            number = len(self._kernels)
            self._modules.load(number, Form.PTX, asked.ptx.encode())
            function = self._modules.function(number, number, asked.name)
            if function.refusal is not None:
                self._tell_unexecuted(function, str(function.refusal))
            origin = self._modules.origin_of(function)
            own = self.shared.kernel_number(function, origin)
            self._kernels[key] = _Kernel(own, function, entry_in(asked.ptx, asked.name))
        return self._kernels[key]

    def _tell_unexecuted(self, function: Function, why: str) -> None:
        text = f"{function.name} was not executed, and what it would write is not there: {why}"
        self.unexecuted[function.name] = None
        self.shared.remarks.add(text)
        self.shared.report(text)

    def _execute(self, group: Group, call: Call, function: Function) -> None:
        try:
            if function.kernel is None:
                number = self.shared.capture.keep(group, call, self.shared.capture.memory_of(call, None, self._memory))
            else:
                self.shared.report(f"executing {function.name}")
                work, number = self._launches.run(group, call, function)
                self.done.append((group, work))
        except (UnsupportedError, MachineLimitError) as refusal:
            self._tell_unexecuted(function, str(refusal))
            number = self.shared.capture.keep(group, call, self.shared.capture.memory_of(call, None, self._memory))
        self._event(EventKind.LAUNCH, number)

    # Memory

    def address_of(self, array: HostArray) -> int:
        """Return the place of an array in the GPU's memory, a new one where it has none or has changed its size."""
        known = self._mirrors.get(array.address)
        if known is not None and known.nbytes == array.nbytes:
            return known.address
        for start in [at for at, each in self._mirrors.items() if _overlap(at, each.nbytes, array)]:
            self._remove(self._mirrors.pop(start))
        address = self._new_place(array.nbytes, array.name)
        self._mirrors[array.address] = _Mirror(address, array.nbytes)
        return address

    def _new_place(self, nbytes: int, name: str) -> int:
        address = self._next
        self._next += -(-(nbytes + _ALIGNMENT) // _ALIGNMENT) * _ALIGNMENT
        if self._next - GLOBAL_BASE > self.shared.settings.room_bytes:
            raise InputError("the script's arrays take more memory than there is room for", cure="Use smaller ones.")
        self._memory.add(address, nbytes, name)
        self._launches.changed({address - GLOBAL_BASE})
        return address

    def _remove(self, mirror: _Mirror) -> None:
        self._memory.bytes_at(mirror.address, mirror.nbytes)[:] = 0
        self._memory.remove(mirror.address)
        self._launches.forget(mirror.address - GLOBAL_BASE)

    def _copy_in(self, arrays: Sequence[HostArray]) -> None:
        for each in arrays:
            address = self.address_of(each)
            own, its = bytes_of(each), self._memory.bytes_at(address, each.nbytes)
            if not _are_equal(own, its):
                its[:] = own
                self._launches.changed({address - GLOBAL_BASE})

    def _copy_out(self, arrays: Sequence[HostArray], call: Call, kernel: LiveKernel | None) -> None:
        if kernel is None:
            return
        written = kernel.reaches(kernel.use(call.parameters, self._memory).written, call.parameters, self._memory)
        for each in arrays:
            address = self.address_of(each)
            if written is None or address - GLOBAL_BASE in written:
                bytes_of(each)[:] = self._memory.bytes_at(address, each.nbytes)

    def _call(self, asked: Asked, kernel: _Kernel) -> tuple[Call, list[int]]:
        """Return the launch with its raw parameters, and the places of what only it uses."""
        entry, scratch = kernel.entry, list[int]()
        raw = bytearray(entry.nbytes)
        if len(asked.parameters) > len(entry.parameters):
            what = f"{asked.name} takes {len(entry.parameters)} parameters, and {len(asked.parameters)} are given"
            raise InputError(what, cure="Report it, with the versions of the packages.")
        for size, at, value in zip(entry.parameters, entry.places, asked.parameters, strict=False):
            raw[at : at + size] = self._bytes(value, scratch)[:size].ljust(size, b"\0")
        return Call(asked.grid, asked.block, asked.shared_bytes, bytes(raw)), scratch

    def _bytes(self, value: Parameter, scratch: list[int]) -> bytes:
        match value:
            case Pointer(array, offset):
                return (self.address_of(array) + offset).to_bytes(8, "little")
            case Scratch(nbytes):
                scratch.append(self._new_place(nbytes, "scratch memory"))
                return scratch[-1].to_bytes(8, "little")
            case TensorMap(code, pointer, place):
                found = bytearray(code)
                found[place : place + 8] = self._bytes(pointer, scratch)
                return bytes(found)
            case _:
                return value


def _arrays_of(parameters: Sequence[Parameter]) -> list[HostArray]:
    pointers = [each.pointer if isinstance(each, TensorMap) else each for each in parameters]
    return [each.array for each in pointers if isinstance(each, Pointer)]


def _overlap(start: int, nbytes: int, array: HostArray) -> bool:
    return start < array.address + array.nbytes and array.address < start + nbytes


def _are_equal(one: Bytes, other: npt.NDArray[np.uint8]) -> bool:
    words = len(one) // 8 * 8
    return np.array_equal(one[:words].view(np.uint64), other[:words].view(np.uint64)) and np.array_equal(
        one[words:], other[words:]
    )
