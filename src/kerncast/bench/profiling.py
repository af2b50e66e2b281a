"""Counts each measured launch once under Nsight Compute: a child process launches, ncu listens.

ncu runs a kernel again for every pass, so that nothing may be queued that waits for the host: launches only.
"""

import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from kerncast.bench.counters import find_ncu, match_counters, ncu_argv, run_under_ncu
from kerncast.bench.device import Device, Untimed
from kerncast.bench.harness import Progress, compiled_for, compiling_ahead
from kerncast.bench.plan import Subject
from kerncast.bench.workspace import Workspace
from kerncast.measurements import Counters, Measurement

#: Launches that one child is asked for: what they gave is kept before the next begins.
BATCH = 20


def uncounted(measurement: Measurement, subjects: Iterable[Subject]) -> tuple[Subject, ...]:
    """Return the launches on the whole GPU that were measured and have no counters yet, in their order."""
    counted = {each.configuration for each in measurement.counters}
    measured = {each.configuration for each in measurement.trials}
    return tuple(
        each
        for each in subjects
        if each.ceiling is None and each.sm_counts == (None,)
        if each.key() in measured and each.key() not in counted
    )


def launch_once(device: Device, subjects: Iterable[Subject], progress: Progress | None = None) -> None:
    """Launch each subject once, on buffers that were just filled."""
    chosen = list(subjects)
    with compiling_ahead([each.launch for each in chosen], device.machine):
        for subject in chosen:
            if progress:
                progress(f"{subject.key()}: one launch")
            kernel = compiled_for(subject.launch, device.machine)
            with Workspace(device, kernel, subject.launch) as space:
                device.run([Untimed((space.call(),))])


def count(
    measurement: Measurement, subjects: Sequence[Subject], child: Sequence[str], limit_seconds: float = 600.0
) -> tuple[Counters, ...]:
    """Run a child, which calls ``launch_once`` on these subjects, under ncu; raises InputError where ncu fails."""
    configurations = [measurement.configuration(subject.key()) for subject in subjects]
    kernels = {each.kernel for each in configurations}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counters.csv"
        argv = ncu_argv(
            [sys.executable, "-m", "kerncast", *child],
            path,
            find_ncu(),
            kernels,
            measurement.machine.compute_capability,
        )
        return match_counters(run_under_ncu(argv, path, limit_seconds), configurations)
