"""The time of a whole application: its launches, copies, waits and own work on one timeline.

The host goes through its events in their order: between two of them passes the time that it took for itself. Work that
it puts into a stream begins when the stream's earlier work has ended, when the events that the stream waits for have
come, and when its engine has room: the SMs, or one of the two that copy. Kernels of several streams share the SMs as
far as their blocks leave room. The default stream waits for all others, and they for it (CUDA C++ Programming Guide
12.9, sections Streams and Implicit Synchronization). Fails where: kernels slow one another down in caches and DRAM,
streams do not block, or the host's own work runs on several threads.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kerncast.recording import Direction, EventKind, Recording, Waited
from kerncast.recording.recording import HOST_WAITS, NON_BLOCKING, PAGEABLE

Floats = npt.NDArray[np.float64]
#: Shares that fill the SMs add up to one but for this.
_ROUNDING = 2**-30

#: One piece of work: what it is, its stream, begin and end in seconds, and the number of the launch or the bytes.
SPAN = np.dtype(
    [("kind", "u1"), ("process", "<u2"), ("stream", "<u4"), ("begin", "<f8"), ("end", "<f8"), ("value", "<u8")]
)
Spans = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Link:
    """The times of copies and of calls."""

    call_s: float
    """of the host, for a copy"""
    launch_s: float
    """of the host, for a launch"""
    to_device_bytes_per_s: float
    to_host_bytes_per_s: float
    on_device_bytes_per_s: float
    """bytes read and written"""
    interval_s: float
    """shortest time between two kernels of one stream"""
    pageable: float = 1.0
    """rate of copies whose memory of the host is not pinned, as a part of the others'"""

    def copy_seconds(self, way: int, nbytes: int, *, is_pageable: bool = False) -> float:
        """Return how long the bytes of a copy take on the device."""
        rate = {
            Direction.HOST_TO_DEVICE: self.to_device_bytes_per_s,
            Direction.DEVICE_TO_HOST: self.to_host_bytes_per_s,
            Direction.DEVICE_TO_DEVICE: self.on_device_bytes_per_s / 2,
        }.get(Direction(way))
        return nbytes / rate / (self.pageable if is_pageable else 1.0) if rate else 0.0


@dataclass(frozen=True, slots=True)
class Durations:
    """How long each piece of work takes on one GPU."""

    launches: Floats
    """[launches] of the recording; NaN for one that has no forecast"""
    shares: Floats
    """[launches] part of the SMs that the blocks of a launch fill, at most 1"""
    library_calls: Floats
    """[library calls that differ]"""
    link: Link


@dataclass(frozen=True, slots=True)
class Timeline:
    """Where the time of an application goes on one GPU; seconds."""

    seconds: float
    """from the first event of the first process to the end of the last"""
    kernels: float
    """sum over launches and calls of libraries"""
    copies: float
    host: float
    """time that the host took for itself, measured here, and for its calls"""
    idle: float
    """time in which no engine of the GPU worked"""
    waited_host: float
    """of this, while the host was busy with its own work"""
    spans: Spans = field(repr=False)
    missing: int = 0
    """launches without a forecast, which count as nothing"""


@dataclass(slots=True)
class _Process:
    """The state of one process while its events are gone through."""

    now: float = 0.0
    last_at: float = 0.0
    streams: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    events: dict[int, float] = field(default_factory=dict)
    copying: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """when each engine for copies is free, by the way of the copy"""
    running: list[tuple[float, float]] = field(default_factory=list)
    """end and share of the kernels that may still run"""
    host: float = 0.0
    apart: set[int] = field(default_factory=set)
    """streams that do not wait for the default one, nor it for them"""

    @property
    def end(self) -> float:
        """When all that has been asked for is done."""
        return max([self.now, *self.streams.values()])


def timeline(recording: Recording, durations: Durations) -> Timeline:
    """Return when everything happens on a GPU."""
    processes: dict[int, _Process] = defaultdict(_Process)
    spans: list[tuple[int, int, int, float, float, int]] = []
    missing = 0
    for kind, number, stream, at, value, extra in recording.events.tolist():
        process = processes[number]
        gap = max(0.0, at - process.last_at)
        process.last_at = at
        process.now += gap
        process.host += gap
        if kind == EventKind.BEGIN and value:  # a script that runs one program after another
            process.now += processes[value - 1].end
        if kind == EventKind.LAUNCH:
            seconds = float(durations.launches[value])
            if np.isnan(seconds):
                missing += 1
                continue
            begin = _run(process, stream, (seconds, float(durations.shares[value])), durations.link)
            spans.append((kind, number, stream, begin, begin + seconds, value))
        elif kind == EventKind.LIBRARY:
            seconds = float(durations.library_calls[value])
            begin = _run(process, stream, (seconds, 1.0), durations.link)
            spans.append((kind, number, stream, begin, begin + seconds, value))
        elif kind in {EventKind.COPY, EventKind.FILL}:
            span = _copy(process, (kind, stream, value, extra), durations.link)
            spans.append((kind, number, stream, *span, value))
        else:
            _order(process, (kind, stream, value, extra))
    return _summed(recording, processes, np.array(spans, SPAN), missing)


def _begins(process: _Process, stream: int) -> float:
    """Return when new work of a stream may begin; the default one (0) waits for all that wait for it."""
    if stream == 0:
        return max([process.now, *(end for each, end in process.streams.items() if each not in process.apart)])
    own = max(process.now, process.streams[stream])
    return own if stream in process.apart else max(own, process.streams[0])


def _run(process: _Process, stream: int, work: tuple[float, float], link: Link) -> float:
    """Put a kernel into a stream and return when it begins."""
    seconds, share = work
    process.now += link.launch_s
    process.host += link.launch_s
    begin = _with_room(process, max(_begins(process, stream), process.streams[stream]), share)
    process.running.append((begin + seconds, share))
    process.streams[stream] = begin + max(seconds, link.interval_s)
    return begin


def _with_room(process: _Process, begin: float, share: float) -> float:
    """Return the first moment from ``begin`` on when the SMs have room for a kernel of this share."""
    process.running = sorted(each for each in process.running if each[0] > begin)
    taken = sum(each[1] for each in process.running)
    for end, other in process.running:
        if taken + share <= 1.0 + _ROUNDING:
            break
        begin, taken = end, taken - other
    return begin


def _copy(process: _Process, event: tuple[int, int, int, int], link: Link) -> tuple[float, float]:
    """Put a copy or a fill into a stream; the host waits for its end where it asked for that."""
    kind, stream, nbytes, extra = event
    way = Direction.DEVICE_TO_DEVICE if kind == EventKind.FILL else Direction(extra % HOST_WAITS % len(Direction))
    is_pageable = kind == EventKind.COPY and way != Direction.DEVICE_TO_DEVICE and bool(extra & PAGEABLE)
    process.now += link.call_s
    process.host += link.call_s
    begin = max(_begins(process, stream), process.copying[way])
    end = begin + link.copy_seconds(way, nbytes, is_pageable=is_pageable)
    process.copying[way] = process.streams[stream] = end
    if extra & HOST_WAITS:
        process.now = max(process.now, end)
    return begin, end


def _order(process: _Process, event: tuple[int, int, int, int]) -> None:
    """Let the host wait, an event be recorded, or a stream wait for one."""
    kind, stream, value, extra = event
    if kind == EventKind.WAIT:
        until = {
            Waited.DEVICE: lambda: max([0.0, *process.streams.values()]),
            Waited.STREAM: lambda: process.streams[value] if value else _begins(process, 0),
            Waited.EVENT: lambda: process.events.get(value, 0.0),
        }.get(Waited(extra % len(Waited)))
        process.now = max(process.now, until() if until else 0.0)
    elif kind == EventKind.RECORD:
        process.events[value] = _begins(process, stream)
    elif kind == EventKind.DEPEND:
        process.streams[stream] = max(process.streams[stream], process.events.get(value, 0.0))
    elif kind == EventKind.STREAM and value & NON_BLOCKING:
        process.apart.add(stream)
    elif kind == EventKind.END:
        process.now = process.end


def _summed(recording: Recording, processes: dict[int, _Process], spans: Spans, missing: int) -> Timeline:
    ends = [each.end for each in processes.values()]
    is_copy = np.isin(spans["kind"], (EventKind.COPY, EventKind.FILL))
    lengths = spans["end"] - spans["begin"]
    total = max(ends, default=recording.host_seconds)
    busy = busy_seconds(spans)
    host = sum(each.host for each in processes.values())
    return Timeline(
        seconds=total,
        kernels=float(lengths[~is_copy].sum()),
        copies=float(lengths[is_copy].sum()),
        host=host,
        idle=max(0.0, total - busy),
        waited_host=min(max(0.0, total - busy), host),
        spans=spans,
        missing=missing,
    )


def busy_seconds(spans: Sequence[object] | Spans) -> float:
    """Return the time in which at least one piece of work was under way.

    >>> busy_seconds(np.array([(1, 0, 0, 0.0, 2.0, 0), (1, 0, 1, 1.0, 3.0, 0), (2, 0, 0, 5.0, 6.0, 0)], SPAN))
    4.0
    """
    rows = np.asarray(spans)
    if not len(rows):
        return 0.0
    order = np.argsort(rows["begin"], kind="stable")
    begins, ends = rows["begin"][order], np.maximum.accumulate(rows["end"][order])
    gaps = np.maximum(0.0, begins[1:] - ends[:-1]).sum()
    return float(ends[-1] - begins[0] - gaps)
