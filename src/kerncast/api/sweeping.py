"""A sweep as it is asked for: the values of its settings, and who works on its points."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from kerncast.errors import InputError
from kerncast.studies.sweeps.executors import Executor, LocalProcesses, ThisProcess
from kerncast.studies.sweeps.point_results import Job
from kerncast.studies.sweeps.space import Space, launch_space
from kerncast.studies.sweeps.sweep import Progress, Sweep, sweep


def settings_of(values: Mapping[str, object]) -> list[str]:
    """Return settings as the command line writes them.

    >>> settings_of({"BLOCK": [64, 128], "n": "2..512*2"})
    ['BLOCK=64,128', 'n=2..512*2']
    """
    return [f"{name}={_values(given)}" for name, given in values.items()]


def _values(given: object) -> str:
    if isinstance(given, str) or not isinstance(given, Sequence | range):
        return str(given)
    return ",".join(map(str, given))


def space_of_file(file: Path, settings: Sequence[str], conditions: Sequence[str], launch: int | None) -> Space:
    """Return the points of a launch file, or of a tuner's problem (.json); raises InputError."""
    if file.suffix.lower() == ".json":
        from kerncast.studies.sweeps.kernel_tuner import problem_space  # noqa: PLC0415

        return problem_space(file, settings, conditions)
    return launch_space(file, settings, conditions, launch)


def executor_of(job: Job, jobs: int | None, cluster: str | None) -> Executor:
    """Return what works on the points: child processes, as many as cores unless they are given, or a cluster."""
    if cluster is not None:
        if jobs is not None:
            raise InputError("--jobs and --cluster are both given", cure="Give one of them.")
        from kerncast.studies.sweeps.cluster import DaskCluster  # noqa: PLC0415

        return DaskCluster(job, cluster)
    count = os.cpu_count() or 1 if jobs is None else jobs
    return LocalProcesses(job, count) if count else ThisProcess(job)


def swept(space: Space, job: Job, executor: Executor, resume: Path | None, progress: Progress | None) -> Sweep:
    """Return the results of all points; ``resume`` is a file that keeps each one as it arrives."""
    if resume is None:
        return sweep(space, job, executor, None, progress)
    from kerncast.studies.sweeps.sweep_store import SweepStore  # noqa: PLC0415

    with SweepStore(resume, space, job) as store:
        return sweep(space, job, executor, store, progress)
