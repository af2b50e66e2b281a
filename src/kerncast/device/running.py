"""Launches on the memory of one process: executed, kept as far as they are worth it, and not repeated in vain."""

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from kerncast.device.capture import Capture
from kerncast.device.modules import Function, Origin
from kerncast.device.wire import Environment
from kerncast.errors import Refusal
from kerncast.execute.live import Call, LiveMemory, Rules, Work
from kerncast.execute.native.warp import prints
from kerncast.execute.setup.dataflow import UNKNOWN
from kerncast.gpu import GPU
from kerncast.recording import Group, Kernel, LibraryCall

_MOST_REMARKS = 200
#: Launches whose results may still stand when they are asked for again.
_MOST_REPEATS = 4096


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


class Launches:
    """The launches of one process, and what has changed in its memory between them."""

    def __init__(self, shared: Shared, memory: LiveMemory) -> None:
        self._shared, self._memory = shared, memory
        self._versions: dict[int, int] = {}
        """number of the last change of each allocation, by its start"""
        self._changes = 0
        self.unseen: set[int] = set()
        """starts of the allocations that the host may write unseen"""
        self._repeats: OrderedDict[tuple[object, ...], _Done] = OrderedDict()

    def changed(self, starts: Collection[int] | None) -> None:
        """Note that some allocations, or all, may have changed."""
        self._changes += 1
        self._versions.update(dict.fromkeys(list(self._versions) if starts is None else starts, self._changes))

    def forget(self, start: int) -> None:
        """Note that an allocation is gone."""
        self._versions.pop(start, None)
        self.unseen.discard(start)

    def clear(self) -> None:
        """Let go of what is known of launches."""
        self._repeats.clear()

    def run(self, group: Group, call: Call, function: Function) -> tuple[Work, int]:
        """Execute a launch, unless it would only do again what it did; returns its work and number. Raises Refusal."""
        kernel, capture = function.kernel_for(call), self._shared.capture
        assert kernel is not None
        memory = capture.begin(group, call, kernel, self._memory)
        key = (group, call.parameters)
        work = self._still_stands(key)
        if work is None:
            work = kernel.launch(call, self._memory, self._shared.settings.rules)
            self._note_repeat(key, call, function, work)
        else:
            self._shared.skipped += 1
        return work, capture.end(group, call, work, memory)

    def lasting(self, group: Group, work: Work) -> tuple[float, float]:
        """Return how long a launch takes by the program's clock, and which part of the SMs it fills."""
        clock = self._shared.clock
        return (clock.seconds(group, work), clock.share(group)) if clock else (0.0, 0.0)

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
        self.changed(written)
        self._repeats.pop(key, None)
        read = kernel.reaches(use.read, call.parameters, self._memory)
        if written is None or read is None or not use.are_disjoint or prints(kernel.linked):
            return
        if (read | written) & self.unseen or UNKNOWN in use.read | use.written:
            return
        versions = tuple((start, self._versions.get(start, 0)) for start in sorted(read | written))
        self._repeats[key] = _Done(work, versions)
        if len(self._repeats) > _MOST_REPEATS:
            self._repeats.popitem(last=False)


def refused(refusal: Refusal, name: str, shared: Shared) -> None:
    """Tell that a kernel is refused, now and in the end."""
    shared.remarks.add(f"{name}: {refusal}")
    shared.report(f"{name} is refused: {refusal.what}")
