"""The ways to forecast many points: in this process, or in child processes; ``cluster.py`` has the third."""

import multiprocessing
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Protocol

from kerncast.child_process import Room, settle
from kerncast.errors import InputError
from kerncast.forecast import room_of
from kerncast.launch import Launch
from kerncast.studies.sweeps.point_results import Infeasible, Job, PointResult, Task, forecast_point, infeasible

#: The budgets of a forecast end a kernel long before; this ends only what hangs.
POINT_SECONDS = 900.0
#: To start a process takes a second, and much longer where others keep the machine busy.
_START_SECONDS = 120.0
_MOST_FALSE_STARTS = 4


Work = Callable[[Task, Job], PointResult]


class Executor(Protocol):
    """Forecasts points, wherever that is."""

    def run(self, tasks: Iterable[Task]) -> Iterator[PointResult]:
        """Yield the result of each task once, in whatever order they end."""
        ...


class ThisProcess:
    """Forecasts one point after the other in this process."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def run(self, tasks: Iterable[Task]) -> Iterator[PointResult]:
        """Yield the result of each task, in order."""
        return (forecast_point(task, self._job) for task in tasks)


class LocalProcesses:
    """Forecasts in child processes, each of which keeps what it has compiled and loaded.

    A child reads the sources alone, and has the limits of ``child_process``. One that crashes or hangs loses the point
    that it was at, which is reported, and another child takes its place.
    Where the first children all end without an answer, something else is wrong, and that is an error.
    """

    def __init__(
        self, job: Job, processes: int, point_seconds: float = POINT_SECONDS, work: Work = forecast_point
    ) -> None:
        self._job, self._processes, self._seconds, self._work = job, processes, point_seconds, work
        self._room = Room()
        self._false_starts: int | None = 0
        """number of children that have ended before any has answered; None once one has"""

    def run(self, tasks: Iterable[Task]) -> Iterator[PointResult]:
        """Yield the result of each task as it ends; points with the same compiled kernel go to the same child."""
        queue = _Queue(tasks)
        with tempfile.TemporaryDirectory(prefix="kerncast-", ignore_cleanup_errors=True) as folder:
            self._room = replace(room_of(queue.launches(), self._job.options.budget), folder=Path(folder))
            yield from self._results(queue)

    def _results(self, queue: "_Queue") -> Iterator[PointResult]:
        children = [self._started() for _ in range(min(self._processes, queue.count))]
        try:
            while True:
                for child in children:
                    if child.task is None:
                        child.give(queue.next_for(child.key), self._seconds)
                busy = [child for child in children if child.task is not None]
                if not busy:
                    return
                patience = max(0.0, min(child.deadline for child in busy) - time.monotonic())
                ready = wait([child.pipe for child in busy], patience)
                for child in busy:
                    if child.pipe in ready or time.monotonic() >= child.deadline:
                        result = self._result(child, children)
                        if result is not None:
                            yield result
        finally:
            for child in children:
                child.end()

    def _result(self, child: "_Child", children: "list[_Child]") -> PointResult | None:
        """Return what a child has to say of its point, None while it starts; one that has died or hung is replaced."""
        task = child.task
        assert task is not None
        how = f"its process hung for {self._seconds:g} s"
        if child.pipe.poll():
            try:
                found = child.pipe.recv()
            except (EOFError, OSError):
                child.process.join()
                how = f"its process ended with status {child.process.exitcode}"
            else:
                if found is None:
                    child.begin(self._seconds)
                    return None
                child.task, self._false_starts = None, None
                return found
        self._note_end(how)
        child.end()
        children[children.index(child)] = self._started()
        return infeasible(task.point, self._job, Infeasible.LOST, how)

    def _note_end(self, how: str) -> None:
        if self._false_starts is None:
            return
        self._false_starts += 1
        if self._false_starts >= _MOST_FALSE_STARTS:
            what = f"{self._false_starts} child processes have ended without an answer: {how}"
            raise InputError(what, cure="Try --jobs 0, which starts none, and kerncast doctor.")

    def _started(self) -> "_Child":
        # A fork would copy the threads' locks of a process that has loaded LLVM.
        context = multiprocessing.get_context("spawn")
        ours, its = context.Pipe()
        process = context.Process(target=_serve, args=(its, self._job, self._work, self._room), daemon=True)
        process.start()
        its.close()
        return _Child(process, ours)


@dataclass(slots=True, eq=False)
class _Child:
    """A child process and the point that it is at."""

    process: SpawnProcess
    pipe: "Connection[Task | None, PointResult | None]"
    """through which it says None once it has started"""
    has_started: bool = False
    task: Task | None = None
    deadline: float = 0.0
    key: object = None

    def give(self, task: Task | None, seconds: float) -> None:
        if task is None:
            return
        self.task, self.key = task, compiled_alike(task)
        self.deadline = time.monotonic() + seconds + (0 if self.has_started else _START_SECONDS)
        with suppress(OSError):  # it has died, which its end of the pipe says next
            self.pipe.send(task)

    def begin(self, seconds: float) -> None:
        """Note that it has started, which takes long on a busy machine: its first point's time begins now."""
        self.has_started, self.deadline = True, time.monotonic() + seconds

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: "Connection[PointResult | None, Task | None]", job: Job, work: Work, room: Room) -> None:
    """Forecast what comes through the pipe until it closes."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    assert parent.pid is not None
    settle(room, parent.pid)
    try:
        pipe.send(None)
        while (task := pipe.recv()) is not None:
            pipe.send(work(task, job))
    except (EOFError, OSError):
        return


def compiled_alike(task: Task) -> object:
    """Return what decides what is compiled: points for which this is equal share the compiled kernel."""
    launch = task.launch
    return launch.source, launch.kernel, launch.defines, launch.standard, launch.fast_math, launch.include_dirs


class _Queue:
    """Tasks in groups that are compiled alike."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        groups: dict[object, deque[Task]] = {}
        for task in tasks:
            groups.setdefault(compiled_alike(task), deque()).append(task)
        self._groups = groups
        self._untouched = deque(groups)
        self.count = sum(map(len, groups.values()))

    def launches(self) -> list[Launch]:
        """Return the launches of all tasks."""
        return [task.launch for group in self._groups.values() for task in group]

    def next_for(self, key: object) -> Task | None:
        """Return the next task: of this group, of one that nobody has begun, or of the longest; None at the end."""
        if not self._groups.get(key):
            key = (
                self._untouched.popleft()
                if self._untouched
                else max(self._groups, key=lambda each: len(self._groups[each]), default=None)
            )
        group = self._groups.get(key)
        return group.popleft() if group else None
