"""Measures subjects one after the other: check, wake the GPU, run the trials, write each down as soon as it ends."""

import hashlib
import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache

from kerncast.bench.check import CHECK_BUDGET, Expectation, compare, expect
from kerncast.bench.device import Call, Copy, Device, Flush, Step, Timed, Untimed
from kerncast.bench.plan import PILOTS, Subject, launch_counts, without_impossible_rotation
from kerncast.bench.workspace import Workspace
from kerncast.compile import CompiledKernel, CompileRequest, compile_request, request_for
from kerncast.errors import CompileError, DeviceLostError, InputError, KernelFault, LaunchError, PTXSyntaxError, Refusal
from kerncast.execute import Budget
from kerncast.launch import Launch
from kerncast.measurements import Configuration, Failure, Machine, Method, Protocol, Reading, Recorder, Trial
from kerncast.units import MILLISECOND

#: Compilers at a time: each takes some 200 MB.
_MOST_COMPILERS = 8


def compiled_for(launch: Launch, machine: Machine) -> CompiledKernel:
    """Compile a launch's kernel for a machine, once; raises CompileError."""
    return _compiled(_request(launch, machine))


@contextmanager
def compiling_ahead(launches: Iterable[Launch], machine: Machine) -> Iterator[None]:
    """Compile the kernels of launches on other cores while the first are measured already.

    What fails is left to say so in its turn. At the end, what has not begun to compile is dropped.
    """
    requests = dict.fromkeys(_request(launch, machine) for launch in launches)
    # Half of the cores are left to what queues launches, which must not be late.
    pool = ThreadPoolExecutor(max(1, min((os.cpu_count() or 1) // 2, _MOST_COMPILERS)))
    for request in requests:
        pool.submit(_compiled, request)
    try:
        yield
    finally:
        pool.shutdown(cancel_futures=True)


def code_sha256(kernel: CompiledKernel) -> str:
    """Return a digest of a kernel's code: of its PTX without the lines that name files and places in them."""
    lines = (line for line in kernel.ptx.splitlines() if not line.lstrip().startswith((".file", ".loc", "//")))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _request(launch: Launch, machine: Machine) -> CompileRequest:
    return request_for(launch, [machine.compute_capability])


@lru_cache(maxsize=1024)
def _lock_of(_request: CompileRequest) -> threading.Lock:
    return threading.Lock()


@lru_cache(maxsize=1024)
def _compiled_once(request: CompileRequest) -> CompiledKernel:
    return compile_request(request).kernels[0]


def _compiled(request: CompileRequest) -> CompiledKernel:
    """Compile what a request asks for, in one thread only: another waits for its result."""
    with _lock_of(request):
        return _compiled_once(request)


# One trial: restore the buffers, warm up, take the samples.
#
# Protocol: 10 to 20 warm-ups, 50 to 100 launches, 10 trials, CUDA events (the gpu-perf report, section 6.4: "kernel
# dependent"; here by the kernel's duration).


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
    """call that always uses the same buffers"""
    rotated: tuple[Call, ...]
    """calls on buffers of their own, together larger than L2; empty unless asked for"""
    restoring: tuple[Copy, ...]
    """copies that restore the buffers of ``same``"""
    restoring_all: tuple[Copy, ...]
    """copies that restore the buffers of ``rotated``"""

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


#: How long a GPU is kept busy at least before it is timed, and in which steps.
_LEAST_WAKING_SECONDS, _WAKING_STEP_SECONDS = 0.05, 10 * MILLISECOND
#: A clock so near the highest, or one that has not risen for so long, is taken for the GPU's working clock.
_HIGH_CLOCK, _STEADY_SECONDS = 0.95, 0.25
_MOST_QUEUED = 500

#: Called with what is being measured.
Progress = Callable[[str], None]


class Deadline:
    """A moment after which no further trial begins."""

    def __init__(self, seconds: float | None = None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def has_passed(self) -> bool:
        """Whether it is time to stop."""
        return self._end is not None and time.monotonic() >= self._end

    def share(self, fraction: float) -> "Deadline":
        """Return a deadline after a fraction of the time that is left."""
        part = Deadline()
        if self._end is not None:
            now = time.monotonic()
            part._end = now + fraction * max(self._end - now, 0.0)
        return part


@dataclass(frozen=True, slots=True)
class Conditions:
    """The circumstances of a run, whatever is measured."""

    deadline: Deadline
    is_checked: bool = True
    retries: bool = False
    """whether to measure again what failed in an earlier run"""
    check_budget: Budget = CHECK_BUDGET
    waking_seconds: float = 2.0
    """longest time for which the GPU is kept busy before it is timed, so that its clock rises"""


class Harness:
    """Measures on one device and writes into one file."""

    def __init__(self, device: Device, recorder: Recorder, conditions: Conditions, progress: Progress | None) -> None:
        self._device = device
        self._recorder = recorder
        self._conditions = conditions
        self._show = progress or (lambda _text: None)
        self._failed = {failure.configuration for failure in recorder.measurement.failures}

    def measure(self, subjects: Iterable[Subject], deadline: Deadline | None = None) -> int:
        """Measure until the deadline; returns how many subjects are left unfinished.

        What a kernel or its launch file is to blame for is recorded as a failure. Raises DeviceLostError where the GPU
        gave up, and InputError where the file holds a subject that has changed since.
        """
        limit = deadline or self._conditions.deadline
        machine = self._device.machine
        possible = [without_impossible_rotation(subject, machine) for subject in subjects]
        self._refuse_changed(possible)
        chosen = [subject for subject in possible if self._missing(subject)]
        unfinished = 0
        with compiling_ahead([launch for each in chosen for launch in each.launches], machine):
            for number, subject in enumerate(chosen, start=1):
                if limit.has_passed:
                    return unfinished + len(chosen) - number + 1
                self._show(f"{subject.key()} ({number} of {len(chosen)})")
                unfinished += not self._measure(subject, limit)
        return unfinished

    def _refuse_changed(self, subjects: Iterable[Subject]) -> None:
        for subject in subjects:
            for sm_count in subject.sm_counts:
                known = self._recorder.configuration(subject.key(sm_count))
                if known is not None and (changes := subject.differences(known)):
                    raise InputError(
                        f"{known.key} has changed since it was measured: {'; '.join(changes)}",
                        where="the measurement file",
                        cure="Give another --out.",
                    )

    def _missing(self, subject: Subject) -> list[tuple[int | None, Method, int]]:
        """Return the trials that are not yet recorded."""
        return [
            (sm_count, method, number)
            for sm_count in subject.sm_counts
            if self._conditions.retries or subject.key(sm_count) not in self._failed
            for number in range(subject.protocol.trials)
            for method in subject.protocol.methods
            if not self._recorder.has(subject.key(sm_count), method, number)
        ]

    def _measure(self, subject: Subject, limit: Deadline) -> bool:
        try:
            kernel = compiled_for(subject.launch, self._device.machine)
            configuration, expected = self._expected(subject, kernel)
            for sm_count in subject.sm_counts:
                self._recorder.add(replace(configuration, key=subject.key(sm_count), sm_count=sm_count))
            with Workspace(self._device, kernel, subject.launch) as space:
                if expected is not None:
                    self._check(subject, space, expected)
                if subject.ceiling is not None and subject.ceiling.setup is not None:
                    setup = subject.ceiling.setup
                    space.prepare(compiled_for(setup, self._device.machine), setup)
                return self._trials(subject, configuration, space, limit)
        except DeviceLostError as error:
            self._fail(subject, str(error))
            raise
        except (Refusal, CompileError, LaunchError, PTXSyntaxError) as error:
            self._fail(subject, str(error))
            return True

    def _expected(self, subject: Subject, kernel: CompiledKernel) -> tuple[Configuration, Expectation | None]:
        """Return what to record of a subject, and what its results should be unless they are known to be right."""
        checked = {each.configuration for each in self._recorder.measurement.checks}
        key, configuration = subject.key(subject.sm_counts[0]), _configuration(subject, kernel)
        known, expected = self._recorder.configuration(key), None
        if key not in checked and self._conditions.is_checked and subject.ceiling is None:
            self._show(f"{key}: expected results on the CPU")
            expected = expect(kernel, subject.launch, self._conditions.check_budget)
        if known is not None:
            in_place = known.in_place
        elif expected is not None:
            in_place = expected.in_place
        else:
            # Nothing is known of what the kernel does with its buffers; a ceiling's do not matter.
            in_place = () if subject.ceiling else tuple(name for name, _ in subject.launch.buffers)
        return replace(configuration, in_place=in_place), expected

    def _check(self, subject: Subject, space: Workspace, expected: Expectation) -> None:
        self._device.run([Untimed((space.call(),))])
        self._recorder.add(compare(subject.key(subject.sm_counts[0]), expected, space.contents(), space.read()))
        space.refill()

    def _trials(self, subject: Subject, configuration: Configuration, space: Workspace, limit: Deadline) -> bool:
        """Run the trials that are missing; returns whether all of them could be run."""
        missing = self._missing(subject)
        is_rotated = any(method is Method.ROTATED for _, method, _ in missing)
        # All that takes the host long comes before the GPU is woken.
        rotated = space.rotated_calls() if is_rotated else ()
        restoring, restoring_all = (space.restoring(configuration.in_place, every_set=each) for each in (False, True))
        calls = Calls(space.call(), rotated, restoring, restoring_all)
        runner = TrialRunner(self._device, subject.protocol, calls)
        if missing and not limit.has_passed:
            self._wake(space.call())
        for sm_count, method, number in missing:
            if limit.has_passed:
                return False
            key = subject.key(sm_count)
            self._show(f"{key}: {method}, trial {number + 1} of {subject.protocol.trials}")
            trial = runner.run(Job(key, method, number, sm_count))
            self._read_out(subject, space)
            self._recorder.add(trial)
        return True

    def _read_out(self, subject: Subject, space: Workspace) -> None:
        """Record what a ceiling's kernel has measured itself; before its trial, which then is not run again."""
        if subject.ceiling is None or subject.ceiling.reading is None:
            return
        buffer, name, unit = subject.ceiling.reading
        values = tuple(float(value) for value in space.read(buffer)[buffer].reshape(-1))
        if not all(map(math.isfinite, values)):
            raise KernelFault(f"{name} is not a number", where=subject.key(), cure="Report this fault of kerncast.")
        self._recorder.add(Reading(subject.key(), name, values, unit))

    def _wake(self, call: Call) -> None:
        """Keep the GPU busy until its clock has risen: while the CPU prepares, it falls asleep."""
        if not self._conditions.waking_seconds:
            return
        seconds = min(self._device.run([Timed((call,))] * PILOTS))
        load = (call,) * max(1, min(int(_WAKING_STEP_SECONDS / seconds), _MOST_QUEUED))
        began = rose = time.monotonic()
        highest = 0.0
        while (moment := time.monotonic()) - began < self._conditions.waking_seconds:
            self._device.run([Untimed(load)])
            clock = self._device.state().sm_hz
            if clock is not None and clock > highest:
                highest, rose = clock, moment
            is_high = clock is None or clock >= _HIGH_CLOCK * self._device.machine.clock_max_hz
            if moment - began > _LEAST_WAKING_SECONDS and (is_high or moment - rose > _STEADY_SECONDS):
                return

    def _fail(self, subject: Subject, reason: str) -> None:
        for sm_count in subject.sm_counts:
            self._recorder.add(Failure(subject.key(sm_count), reason, now()))


def _configuration(subject: Subject, kernel: CompiledKernel) -> Configuration:
    launch, ceiling = subject.launch, subject.ceiling
    return Configuration(
        key=subject.key(),
        kernel=kernel.kernel,
        source_sha256=subject.source_sha256,
        code_sha256=code_sha256(kernel),
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        arguments=tuple((each.name, str(each.value)) for each in launch.arguments),
        seed=launch.seed,
        registers_per_thread=kernel.resources.registers_per_thread,
        amount=ceiling.amount if ceiling else None,
        amount_unit=ceiling.unit if ceiling else None,
    )
