"""One trial: restore the buffers, warm up, take the samples.

Protocol: 10 to 20 warm-ups, 50 to 100 launches, 10 trials, CUDA events (the gpu-perf report, section 6.4: "kernel
dependent"; here by the kernel's duration).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kerncast.bench.device import Call, Copy, Device, Flush, Step, Timed
from kerncast.bench.plan import PILOTS, launch_counts
from kerncast.measurement import Method, Protocol, Trial

#: Methods of which one sample is the mean over many launches.
_SERIES = frozenset({Method.SERIES, Method.ROTATED, Method.GRAPH})


def now() -> str:
    """Return date and time as measurement files write them."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class Job:
    """One trial to be run."""

    key: str
    method: Method
    number: int
    sm_count: int | None


@dataclass(frozen=True, slots=True)
class Calls:
    """The launches of one subject, and what puts their buffers back."""

    same: Call
    """always on the same buffers"""
    rotated: tuple[Call, ...]
    """each on buffers of its own, together larger than L2; empty where nobody asked"""
    restoring: tuple[Copy, ...]
    """puts the buffers of `same` back"""
    restoring_all: tuple[Copy, ...]
    """puts those of `rotated` back"""

    def restoring_for(self, method: Method) -> tuple[Copy, ...]:
        """Return what puts the buffers back that a method launches on."""
        return self.restoring_all if method is Method.ROTATED else self.restoring


class TrialRunner:
    """Runs the trials of one subject."""

    def __init__(self, device: Device, protocol: Protocol, calls: Calls) -> None:
        self._device, self._protocol, self._calls = device, protocol, calls
        # It goes on through all trials, so that no set of buffers comes again too soon.
        self._rotation = itertools.cycle(calls.rotated)

    def run(self, job: Job) -> Trial:
        """Warm up, learn from that how long the kernel takes, and take the samples."""
        began, before = now(), self._device.state()
        restoring = self._calls.restoring_for(job.method)
        pilots = self._run([*restoring, *(Timed((call,)) for call in self._take(job.method, PILOTS))], job)
        warmups, iterations = launch_counts(self._protocol, min(pilots))
        warming: list[Step] = [Timed((call,)) for call in self._take(job.method, warmups - PILOTS)]
        times = self._run([*warming, *self._samples(job.method, iterations)], job)
        # The first replay of a graph brings it to the GPU.
        split = len(warming) + (job.method is Method.GRAPH)
        launches = iterations if job.method in _SERIES else 1
        replays = tuple(each / launches for each in times[len(warming) : split])
        return Trial(
            configuration=job.key,
            method=job.method,
            number=job.number,
            seconds=tuple(each / launches for each in times[split:]),
            warmup_seconds=(*pilots, *times[: len(warming)], *replays),
            launches_per_sample=launches,
            before=before,
            after=self._device.state(),
            began=began,
        )

    def _run(self, steps: Sequence[Step], job: Job) -> tuple[float, ...]:
        return self._device.run(steps, job.sm_count)

    def _take(self, method: Method, count: int) -> tuple[Call, ...]:
        return (
            tuple(itertools.islice(self._rotation, count)) if method is Method.ROTATED else (self._calls.same,) * count
        )

    def _samples(self, method: Method, iterations: int) -> list[Step]:
        restoring = self._calls.restoring_for(method)
        if method not in _SERIES:
            flush: list[Step] = [Flush()] if method is Method.COLD else []
            return [*restoring, *flush, Timed((self._calls.same,))] * iterations
        series = self._take(method, iterations)
        if method is Method.GRAPH:
            return [*restoring, Timed(series, as_graph=True)] * 2
        # Restored buffers would be found in L2.
        return [*restoring, *([Flush()] if method is Method.ROTATED else []), Timed(series)]
