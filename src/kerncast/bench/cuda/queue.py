"""A stream whose timed launches all wait in the GPU's queue before the first begins.

What the host needs to submit a launch, some microseconds, would otherwise be measured with every short kernel. A delay
kernel goes first and keeps the GPU busy until all is queued; whether it was long enough is looked up afterwards.
"""

import ctypes
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kerncast.bench.cuda.driver import NOT_READY, SUCCESS, Driver
from kerncast.bench.device import Call, Copy, Flush, Step, Timed, Untimed
from kerncast.errors import DeviceLostError, KerncastError, UnsupportedError
from kerncast.units import GIGA, KIB, KILO, MICROSECOND, MILLISECOND

#: A stream holds about 1000 launches, after which submitting waits for the GPU. NVIDIA documents no number.
#: Source: measured in https://stackoverflow.com/questions/53970187; where it is less, batches are halved.
MOST_COMMANDS = 900
#: Commands before a timed step that stay with it, even if it fills the queue alone.
_SHORT_PRELUDE = 20


@dataclass(slots=True)
class Delay:
    """The time for which the GPU must be kept busy while commands are queued."""

    seconds_per_command: float = 10 * MICROSECOND
    least: float = 100 * MICROSECOND
    most: float = 500 * MILLISECOND
    attempts: int = 4

    def seconds(self, commands: int, attempt: int = 0) -> float:
        """Return the delay for so many commands; each further attempt doubles it.

        >>> round(Delay().seconds(10), 6), round(Delay().seconds(10, attempt=1), 6)
        (0.0002, 0.0004)
        """
        return min(self.most, (self.least + commands * self.seconds_per_command) * 2.0**attempt)

    def learn(self, commands: int, seconds: float) -> None:
        """Take over what submitting has cost, with half of it as a reserve; a few commands tell nothing."""
        if commands >= 20:
            self.seconds_per_command = max(MICROSECOND, 1.5 * seconds / commands)


def command_count(step: Step) -> int:
    """Return how many places of the queue a step takes."""
    match step:
        case Timed():
            return 2 + (1 if step.as_graph else len(step.calls))
        case Untimed():
            return len(step.calls)
    return 1


def batches(steps: Sequence[Step], limit: int = MOST_COMMANDS) -> Iterator[tuple[Step, ...]]:
    """Cut steps where the queue would be full, after a timed step if possible; a timed step is never cut.

    What stands before a timed step, such as a copy that restores its buffers, so is queued again with it.
    """
    batch: list[Step] = []
    taken = 0
    for group in _groups(steps, limit):
        places = queue_places(group)
        if batch and taken + places > limit:
            yield tuple(batch)
            batch, taken = [], 0
        batch += group
        taken += places
    if batch:
        yield tuple(batch)


def _groups(steps: Sequence[Step], limit: int) -> Iterator[list[Step]]:
    """Cut steps after each timed one; before, only what is too long to be queued with it."""
    group: list[Step] = []
    for step in _pieces(steps, limit):
        is_timed = isinstance(step, Timed)
        room = _SHORT_PRELUDE if is_timed else 0
        if group and queue_places(group) > room and queue_places(group) + command_count(step) > limit:
            yield group
            group = []
        group.append(step)
        if is_timed:
            yield group
            group = []
    if group:
        yield group


def queue_places(steps: Sequence[Step]) -> int:
    """Return how many places of the queue steps take."""
    return sum(map(command_count, steps))


def _pieces(steps: Sequence[Step], limit: int) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, Untimed) and len(step.calls) > limit:
            yield from (Untimed(step.calls[i : i + limit]) for i in range(0, len(step.calls), limit))
        else:
            yield step


#: A timed step for which the queue is too short counts where, of its time, so much lay after the last submission:
#: had the GPU waited for the host, no more than one launch would have been left.
_BUSY_AFTER = 0.25

#: Dynamic shared memory that a launch may have without asking (CUDA C++ Programming Guide, technical specifications).
_PLAIN_SHARED_BYTES = 48 * KIB

#: Names in the array `extra` of cuLaunchKernel (cuda.h, CU_LAUNCH_PARAM_*).
_PARAM_END, _PARAM_BUFFER_POINTER, _PARAM_BUFFER_SIZE = 0, 1, 2

#: What stands for a time below the resolution of events, which is about half a microsecond (CUDA driver API,
#: cuEventElapsedTime): an empty kernel may come out as 0, and a time of 0 is none.
_LEAST_SECONDS = 0.1 * MICROSECOND

_FIRST_PAUSE, _LONGEST_PAUSE = 20 * MICROSECOND, KILO * MICROSECOND


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A kernel's handles in the driver."""

    kernel: Any
    """CUkernel handle, which belongs to no context"""
    function: Any
    """the kernel's handle as a CUfunction, the type that launches take"""
    static_shared_bytes: int
    library: Any
    """CUlibrary that holds the kernel, for unloading it"""


class PackedCall:
    """The arguments of cuLaunchKernel for one call, with the memory that they point to."""

    def __init__(self, call: Call, stream: Any) -> None:
        self._block = ctypes.create_string_buffer(call.parameters, max(1, len(call.parameters)))
        self._size = ctypes.c_size_t(len(call.parameters))
        self._extra = (ctypes.c_void_p * 5)(
            _PARAM_BUFFER_POINTER,
            ctypes.addressof(self._block),
            _PARAM_BUFFER_SIZE,
            ctypes.addressof(self._size),
            _PARAM_END,
        )
        extra = ctypes.addressof(self._extra) if call.parameters else 0
        geometry = (*call.grid, *call.block)
        self.arguments = (call.handle.function, *geometry, call.shared_bytes, stream, 0, extra)


@dataclass(frozen=True, slots=True)
class Lane:
    """One context and one of its streams; everything is queued there."""

    context: Any
    stream: Any
    device: int


class Queue:
    """Submits steps to one stream and times them."""

    def __init__(self, driver: Driver, lane: Lane, delay_kernel: LoadedKernel, flush_call: Callable[[], Call]) -> None:
        self.lane = lane
        self.deadline_seconds = 30.0
        """longest wait for one timed step, or for the untimed ones at the end"""
        self.most_commands = MOST_COMMANDS
        self.delay = Delay()
        self._driver = driver
        self._delay_kernel = delay_kernel
        self._flush_call = flush_call
        self._events: list[Any] = []

    def run(self, steps: Sequence[Step]) -> tuple[float, ...]:
        """Run steps and return the seconds of the timed ones."""
        seconds: list[float] = []
        with self._current():
            for batch in batches(steps, self.most_commands):
                seconds += self._run_cut(batch)
        return tuple(seconds)

    def close(self) -> None:
        """Give back the events; whoever made the stream gives that back."""
        with self._current():
            for event in self._events:
                self._driver.call("cuEventDestroy", event)
        self._events.clear()

    @contextmanager
    def _current(self) -> Iterator[None]:
        self._driver.call("cuCtxPushCurrent", self.lane.context)
        try:
            yield
        finally:
            if not self._driver.lost:
                self._driver.call("cuCtxPopCurrent")

    def _run_cut(self, batch: Sequence[Step]) -> list[float]:
        """Run a batch, in halves where the queue or the host cannot take it whole."""
        seconds = self._run_batch(batch)
        if seconds is not None:
            return seconds
        cuts = [number for number, step in enumerate(batch[:-1], start=1) if isinstance(step, Timed)]
        if not cuts:
            raise UnsupportedError(
                f"the GPU began before {queue_places(batch)} commands were queued, {self.delay.attempts} times over",
                cure="Let the host do less beside, time fewer launches at once, or time them as a graph.",
            )
        self.most_commands = max(1, queue_places(batch) // 2)
        middle = cuts[len(cuts) // 2]
        return self._run_cut(batch[:middle]) + self._run_cut(batch[middle:])

    def _run_batch(self, batch: Sequence[Step]) -> list[float] | None:
        timed = sum(isinstance(step, Timed) for step in batch)
        events = self._take_events(2 * timed + 1)
        packed: dict[int, PackedCall] = {}
        graphs: dict[int, Any] = {}
        try:
            submissions = [self._prepare(step, packed, graphs) for step in batch]
            return self._until_unbroken(batch, submissions, events)
        except KeyboardInterrupt:
            # What was queued still runs: none of the memory and code that it uses may be given back.
            self._driver.lost = self._driver.lost or "an interruption while kernels ran"
            raise
        finally:
            if not self._driver.lost:
                for graph in graphs.values():
                    self._driver.call("cuGraphExecDestroy", graph)

    def _until_unbroken(
        self, batch: Sequence[Step], submissions: Sequence[Callable[[], None]], events: Sequence[Any]
    ) -> list[float] | None:
        """Queue a batch until the GPU does not begin before all is queued; None where it always does."""
        commands = queue_places(batch)
        for attempt in range(self.delay.attempts):
            if len(events) > 1:
                self._hold(self.delay.seconds(commands, attempt))
            began = time.perf_counter()
            try:
                self._submit(batch, submissions, events)
            except KerncastError:
                self._drain(events[-1])
                raise
            ran_dry = len(events) > 1 and self._has_happened(events[0])
            queued = time.perf_counter()
            self._wait(events)
            left = time.perf_counter() - queued
            self.delay.learn(commands, queued - began)
            seconds = [self._elapsed(a, b) for a, b in zip(events[:-1:2], events[1::2], strict=True)]
            is_last = attempt + 1 == self.delay.attempts
            if not ran_dry or (is_last and len(seconds) == 1 and left > _BUSY_AFTER * sum(seconds)):
                return seconds
        return None

    def _submit(self, batch: Sequence[Step], submissions: Sequence[Callable[[], None]], events: Sequence[Any]) -> None:
        record, stream, number = self._driver.api.cuEventRecord, self.lane.stream, 0
        for step, submit in zip(batch, submissions, strict=True):
            if isinstance(step, Timed):
                self._check(record(events[number], stream), "cuEventRecord")
                submit()
                self._check(record(events[number + 1], stream), "cuEventRecord")
                number += 2
            else:
                submit()
        self._check(record(events[-1], stream), "cuEventRecord")

    def _prepare(self, step: Step, packed: dict[int, PackedCall], graphs: dict[int, Any]) -> Callable[[], None]:
        """Do all that can be done before, and return what queues the step."""
        stream = self.lane.stream
        match step:
            case Copy():
                return lambda: self._driver.call("cuMemcpyDtoDAsync", step.target, step.source, step.nbytes, stream)
            case Flush():
                flush = [self._pack(self._flush_call(), packed)]
                return lambda: self._launch(flush)
        launches = [self._pack(call, packed) for call in step.calls]
        if isinstance(step, Untimed) or not step.as_graph:
            return lambda: self._launch(launches)
        # One graph for all steps with the same calls, so that a first replay can bring it to the GPU.
        if id(step.calls) not in graphs:
            graphs[id(step.calls)] = self._capture(launches)
        graph = graphs[id(step.calls)]
        return lambda: self._driver.call("cuGraphLaunch", graph, stream)

    def _pack(self, call: Call, packed: dict[int, PackedCall]) -> tuple[Any, ...]:
        # By identity, which is quick and enough: the steps keep their calls alive, and the device that of a flush.
        if id(call) not in packed:
            loaded: LoadedKernel = call.handle
            if call.shared_bytes + loaded.static_shared_bytes > _PLAIN_SHARED_BYTES:
                attribute = self._driver.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self._driver.call("cuKernelSetAttribute", attribute, call.shared_bytes, loaded.kernel, self.lane.device)
            packed[id(call)] = PackedCall(call, self.lane.stream)
        return packed[id(call)].arguments

    def _launch(self, launches: Sequence[tuple[Any, ...]]) -> None:
        launch = self._driver.api.cuLaunchKernel
        for arguments in launches:
            (status,) = launch(*arguments)
            if status:
                raise self._driver.error(status, "cuLaunchKernel")

    def _capture(self, launches: Sequence[tuple[Any, ...]]) -> Any:
        """Build a CUDA graph of launches in a row, and send it to the GPU."""
        api, stream = self._driver.api, self.lane.stream
        self._driver.call("cuStreamBeginCapture", stream, api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        try:
            self._launch(launches)
        finally:
            # The capture ends in any case: a stream that still captures takes no other work.
            status, graph = api.cuStreamEndCapture(stream)
        self._check((status,), "cuStreamEndCapture")
        try:
            executable = self._driver.call("cuGraphInstantiate", graph, 0)
            self._driver.call("cuGraphUpload", executable, stream)
        finally:
            if not self._driver.lost:
                self._driver.call("cuGraphDestroy", graph)
        return executable

    def _hold(self, seconds: float) -> None:
        parameters = struct.pack("<Q", round(seconds * GIGA))
        call = Call(self._delay_kernel, (1, 1, 1), (1, 1, 1), 0, parameters)
        packed = PackedCall(call, self.lane.stream)
        self._launch([packed.arguments])

    def _take_events(self, count: int) -> list[Any]:
        flags = int(self._driver.api.CUevent_flags.CU_EVENT_DEFAULT)
        self._events += [self._driver.call("cuEventCreate", flags) for _ in range(count - len(self._events))]
        return self._events[:count]

    def _has_happened(self, event: Any) -> bool:
        (status,) = self._driver.api.cuEventQuery(event)
        if int(status) not in {SUCCESS, NOT_READY}:
            raise self._driver.error(status, "cuEventQuery")
        return int(status) == SUCCESS

    def _wait(self, events: Sequence[Any]) -> None:
        """Wait for events in order by asking, since a wait in the driver cannot be given up."""
        for event in events:
            deadline, pause = time.monotonic() + self.deadline_seconds, _FIRST_PAUSE
            while not self._has_happened(event):
                if time.monotonic() > deadline:
                    self._driver.lost = f"a kernel that did not end within {self.deadline_seconds:g} s"
                    raise DeviceLostError(
                        f"the kernel did not end within {self.deadline_seconds:g} s on the GPU",
                        cure="It still runs: end this process, then look for the loop that does not end.",
                    )
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _drain(self, event: Any) -> None:
        """Let what was queued before an error end, so that nothing runs when the error is reported."""
        if not self._driver.lost:
            self._check(self._driver.api.cuEventRecord(event, self.lane.stream), "cuEventRecord")
            self._wait([event])

    def _elapsed(self, start: Any, end: Any) -> float:
        return max(_LEAST_SECONDS, float(self._driver.call("cuEventElapsedTime", start, end)) / KILO)

    def _check(self, result: tuple[Any, ...], function: str) -> None:
        if result[0]:
            raise self._driver.error(result[0], function)
