"""Measures subjects one after the other: check, wake the GPU, run the trials, write each down as soon as it ends."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from kerncast.bench.check import CHECK_BUDGET, Expectation, compare, expect
from kerncast.bench.compiling import code_sha256, compiled_for, compiling_ahead
from kerncast.bench.device import Call, Device, Timed, Untimed
from kerncast.bench.plan import PILOTS, Subject, without_impossible_rotation
from kerncast.bench.trials import Calls, Job, TrialRunner, now
from kerncast.bench.workspace import Workspace
from kerncast.compile import CompiledKernel
from kerncast.errors import CompileError, DeviceLostError, InputError, KernelFault, LaunchError, PTXSyntaxError, Refusal
from kerncast.execute import Budget
from kerncast.measurement import Configuration, Failure, Method, Reading
from kerncast.measurement_files import Recorder
from kerncast.units import MILLISECOND

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
    """How a run goes, whatever is measured."""

    deadline: Deadline
    is_checked: bool = True
    retries: bool = False
    """measure again what failed in an earlier run"""
    check_budget: Budget = CHECK_BUDGET
    waking_seconds: float = 2.0
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
        if key not in checked and self._is_checked(subject):
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

    def _is_checked(self, subject: Subject) -> bool:
        return self._conditions.is_checked and subject.ceiling is None

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
            raise KernelFault(f"{name} is no number", where=subject.key(), cure="Report it: the kernel is ours.")
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
