"""A timeline as Chrome's trace events, which Perfetto and chrome://tracing show.

Source: Google, Trace Event Format; times in microseconds.
"""

from typing import Any

from kerncast.forecast.application import Application
from kerncast.models.timeline import Spans
from kerncast.recording import Direction, EventKind, Recording
from kerncast.units import MEGA

#: Viewers get slow with more.
_MOST_EVENTS = 200_000
_COPIES = {Direction.HOST_TO_HOST: "copy on the host", Direction.HOST_TO_DEVICE: "copy to the GPU",
           Direction.DEVICE_TO_HOST: "copy to the host", Direction.DEVICE_TO_DEVICE: "copy on the GPU"}  # fmt: skip


def trace_object(recording: Recording, found: Application) -> dict[str, Any]:
    """Return the timeline of an application on one GPU; a process per process, a thread per stream."""
    spans = found.timeline.spans[:_MOST_EVENTS]
    names = [{"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": found.gpu}}]
    streams = sorted({(int(each["process"]), int(each["stream"])) for each in spans})
    names += [
        {"ph": "M", "name": "thread_name", "pid": process, "tid": stream,
         "args": {"name": f"stream {stream}" if stream else "default stream"}}
        for process, stream in streams
    ]  # fmt: skip
    return {"displayTimeUnit": "ns", "traceEvents": [*names, *(_event(recording, each) for each in spans)]}


def _event(recording: Recording, span: Any) -> dict[str, Any]:
    return {
        "ph": "X", "name": name_of(recording, span), "cat": EventKind(int(span["kind"])).name.lower(),
        "pid": int(span["process"]), "tid": int(span["stream"]), "ts": MEGA * float(span["begin"]),
        "dur": MEGA * float(span["end"] - span["begin"]), "args": {"value": int(span["value"])},
    }  # fmt: skip


def name_of(recording: Recording, span: Any) -> str:
    """Return what a piece of work is called."""
    kind, value = int(span["kind"]), int(span["value"])
    if kind == EventKind.LAUNCH:
        group = recording.groups[int(recording.launches["group"][value])]
        return recording.kernels[group.kernel].name
    if kind == EventKind.LIBRARY:
        return recording.library_calls[value].function
    return "fill" if kind == EventKind.FILL else "copy"


def by_kind(spans: Spans) -> dict[str, float]:
    """Return the seconds of each kind of work."""
    lengths = spans["end"] - spans["begin"]
    return {kind.name.lower(): float(lengths[spans["kind"] == kind].sum()) for kind in EventKind}
