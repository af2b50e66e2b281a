"""Measures subjects one after the other: check, warm-ups, trials, each written down as soon as it ends.

Protocol: 10 to 20 warm-ups, 50 to 100 launches, 10 trials, CUDA events (the gpu-perf report, section 6.4: "kernel
dependent"; here by the kernel's duration).
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache

from kerncast.bench.check import CHECK_BUDGET, Expectation, compare, expect
from kerncast.bench.device import Call, Copy, Device, Flush, Step, Timed, Untimed
from kerncast.bench.plan import PILOTS, Subject, launch_counts
from kerncast.bench.workspace import Workspace
from kerncast.compile import CompiledKernel, CompileRequest, compile_request
from kerncast.errors import CompileError, DeviceLostError, KerncastError, KernelFault, LaunchError, Refusal
from kerncast.execute import Budget
from kerncast.launch import Launch
from kerncast.measurement import Configuration, Failure, Machine, Method, Protocol, Reading, Trial
from kerncast.measurement_files import Recorder
from kerncast.units import MILLISECOND

#: How long a GPU is kept busy at least before it is timed, and in which steps.
_LEAST_WAKING_SECONDS, _WAKING_STEP_SECONDS = 0.05, 10 * MILLISECOND
_MOST_QUEUED = 500
#: Compilers at a time: each takes some 200 MB.
_MOST_COMPILERS = 8

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
    """How a run goes, whatever is measured."""

    deadline: Deadline
    is_checked: bool = True
    retries: bool = False
    """measure again what failed in an earlier run"""
    check_budget: Budget = CHECK_BUDGET
    waking_seconds: float = 0.5
    """how long the GPU is kept busy at most before it is timed, for its clock to rise"""


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
        gave up.
        """
        limit = deadline or self._conditions.deadline
        chosen = [subject for subject in subjects if self._missing(subject)]
        if chosen and not limit.has_passed:
            self._show(f"compiling {len(chosen)} launches")
            setups = [each.ceiling.setup for each in chosen if each.ceiling and each.ceiling.setup]
            compile_ahead([*(each.launch for each in chosen), *setups], self._device.machine)
        unfinished = 0
        for number, subject in enumerate(chosen, start=1):
            self._show(f"{subject.key()} ({number} of {len(chosen)})")
            if limit.has_passed or not self._measure(subject, limit):
                unfinished += 1
        return unfinished

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
        except (Refusal, CompileError, LaunchError) as error:
            self._fail(subject, str(error))
            return True

    def _expected(self, subject: Subject, kernel: CompiledKernel) -> tuple[Configuration, Expectation | None]:
        """Return what to record of a subject, and what its results should be unless they are known to be right."""
        recorded = {each.key: each for each in self._recorder.measurement.configurations}
        checked = {each.configuration for each in self._recorder.measurement.checks}
        key, configuration = subject.key(subject.sm_counts[0]), _configuration(subject, kernel)
        known = recorded.get(key)
        if known is not None and (key in checked or not self._is_checked(subject)):
            return replace(configuration, in_place=known.in_place), None
        if not self._is_checked(subject):
            return configuration, None
        self._show(f"{key}: expected results on the CPU")
        expected = expect(kernel, subject.launch, self._conditions.check_budget)
        return replace(configuration, in_place=expected.in_place), expected

    def _is_checked(self, subject: Subject) -> bool:
        return self._conditions.is_checked and subject.ceiling is None

    def _check(self, subject: Subject, space: Workspace, expected: Expectation) -> None:
        self._device.run([Untimed((space.call(),))])
        self._recorder.add(compare(subject.key(subject.sm_counts[0]), expected, space.contents(), space.read()))
        space.refill()

    def _trials(self, subject: Subject, configuration: Configuration, space: Workspace, limit: Deadline) -> bool:
        """Run the trials that are missing; returns whether all of them could be run."""
        missing = self._missing(subject)
        if missing and not limit.has_passed and self._conditions.waking_seconds:
            self._wake(space.call())
        for sm_count, method, number in missing:
            if limit.has_passed:
                return False
            key = subject.key(sm_count)
            self._show(f"{key}: {method}, trial {number + 1} of {subject.protocol.trials}")
            restoring = space.restoring(configuration.in_place)
            runner = _TrialRunner(self._device, space, subject.protocol, restoring, sm_count)
            self._recorder.add(runner.run(key, method, number))
        if subject.ceiling is not None and subject.ceiling.reading is not None and missing:
            buffer, name, unit = subject.ceiling.reading
            values = tuple(float(value) for value in space.read(buffer)[buffer].reshape(-1))
            if not all(map(math.isfinite, values)):
                raise KernelFault(f"{name} is no number", where=subject.key(), cure="Report it: the kernel is ours.")
            self._recorder.add(Reading(subject.key(), name, values, unit))
        return True

    def _wake(self, call: Call) -> None:
        """Keep the GPU busy until its clock no longer rises: while the CPU prepares, it falls asleep."""
        seconds = min(self._device.run([Timed((call,))] * PILOTS))
        load = (call,) * max(1, min(int(_WAKING_STEP_SECONDS / seconds), _MOST_QUEUED))
        began, before = time.monotonic(), None
        while (spent := time.monotonic() - began) < self._conditions.waking_seconds:
            self._device.run([Untimed(load)])
            clock = self._device.state().sm_hz
            if spent > _LEAST_WAKING_SECONDS and (clock is None or (before is not None and clock <= before)):
                return
            before = clock

    def _fail(self, subject: Subject, reason: str) -> None:
        for sm_count in subject.sm_counts:
            self._recorder.add(Failure(subject.key(sm_count), reason))


class _TrialRunner:
    """One trial of one configuration."""

    def __init__(
        self,
        device: Device,
        space: Workspace,
        protocol: Protocol,
        restoring: Sequence[Copy],
        sm_count: int | None,
    ) -> None:
        self._device, self._space, self._protocol = device, space, protocol
        self._restoring, self._sm_count = restoring, sm_count

    def run(self, key: str, method: Method, number: int) -> Trial:
        """Warm up, learn from that how long the kernel takes, and take the samples."""
        began, before = datetime.now(UTC).isoformat(timespec="seconds"), self._device.state()
        calls = self._space.rotated_calls() if method is Method.ROTATED else (self._space.call(),)
        pilots = self._run([*self._restoring, *(Timed((calls[n % len(calls)],)) for n in range(PILOTS))])
        warmups, iterations = launch_counts(self._protocol, min(pilots))
        warming: list[Step] = [Timed((calls[n % len(calls)],)) for n in range(warmups - PILOTS)]
        seconds = self._run([*warming, *self._samples(method, calls, iterations)])
        split = len(warming)
        launches = iterations if method in _SERIES else 1
        times = seconds[split:]
        if method is Method.GRAPH:  # the first replay brings the graph to the GPU
            times = times[1:]
        return Trial(
            configuration=key,
            method=method,
            number=number,
            seconds=tuple(each / launches for each in times),
            warmup_seconds=(*pilots, *seconds[:split]),
            launches_per_sample=launches,
            before=before,
            after=self._device.state(),
            began=began,
        )

    def _run(self, steps: Sequence[Step]) -> tuple[float, ...]:
        return self._device.run(steps, self._sm_count)

    def _samples(self, method: Method, calls: Sequence[Call], iterations: int) -> list[Step]:
        if method in _SERIES:
            series = tuple(calls[n % len(calls)] for n in range(iterations))
            if method is Method.GRAPH:
                return [*self._restoring, Timed(series, as_graph=True), Timed(series, as_graph=True)]
            return [*self._restoring, Timed(series)]
        flush: list[Step] = [Flush()] if method is Method.COLD else []
        return [*self._restoring, *flush, Timed((calls[0],))] * iterations


#: Methods of which one sample is the mean over many launches.
_SERIES = frozenset({Method.SERIES, Method.ROTATED, Method.GRAPH})


def _configuration(subject: Subject, kernel: CompiledKernel) -> Configuration:
    launch, ceiling = subject.launch, subject.ceiling
    return Configuration(
        key=subject.key(),
        kernel=kernel.kernel,
        source_sha256=subject.source_sha256,
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        arguments=tuple((each.name, str(each.value)) for each in launch.arguments),
        seed=launch.seed,
        registers_per_thread=kernel.resources.registers_per_thread,
        amount=ceiling.amount if ceiling else None,
        amount_unit=ceiling.unit if ceiling else None,
    )


def compiled_for(launch: Launch, machine: Machine) -> CompiledKernel:
    """Compile a launch's kernel for a machine, once; raises CompileError."""
    return _compiled(_request(launch, machine))


def compile_ahead(launches: Iterable[Launch], machine: Machine) -> None:
    """Compile the kernels of many launches on all cores; what fails is left to say so in its turn."""
    requests = dict.fromkeys(_request(launch, machine) for launch in launches)

    def compile_one(request: CompileRequest) -> None:
        with suppress(KerncastError):
            _compiled(request)

    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_COMPILERS)) as pool:
        list(pool.map(compile_one, requests))


def _request(launch: Launch, machine: Machine) -> CompileRequest:
    return CompileRequest(
        source=launch.source,
        architectures=(machine.compute_capability,),
        kernel=launch.kernel,
        defines=launch.defines,
        include_dirs=launch.include_dirs,
    )


@cache
def _compiled(request: CompileRequest) -> CompiledKernel:
    return compile_request(request).kernels[0]
