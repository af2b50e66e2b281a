"""Executors and the store of a sweep: no point is lost, none is computed twice, and a child may die."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kerncast.errors import InputError
from kerncast.forecast import Options, resolve_gpus
from kerncast.launch import Launch
from kerncast.studies.sweeps.executors import LocalProcesses
from kerncast.studies.sweeps.point_results import Infeasible, Job, Outcome, PointResult, Task, infeasible
from kerncast.studies.sweeps.space import Point, Space, launch_space
from kerncast.studies.sweeps.sweep import Sweep, sweep
from kerncast.studies.sweeps.sweep_store import SweepStore
from tests.helpers.places import ROOT

EXAMPLE = ROOT / "examples" / "saxpy.toml"


@pytest.fixture(scope="module")
def job() -> Job:
    return Job(tuple(resolve_gpus(["titan-v"])), Options())


def answered(task: Task, _: Job) -> PointResult:
    """Return a result that tells which point it is of."""
    seconds = 1.0 + task.point.number
    return PointResult(task.point, (Outcome("titan-v", seconds, seconds, seconds, "dram", "simulation", None, ""),))


def troubled(task: Task, job: Job) -> PointResult:
    """Crash at point 3, hang at point 5."""
    if task.point.number == 3:
        os._exit(7)
    if task.point.number == 5:
        time.sleep(60)
    return answered(task, job)


def _tasks(count: int) -> list[Task]:
    launch = Launch(Path("k.cu"), "k", (1, 1, 1), (32, 1, 1))
    return [Task(Point(number, ()), launch) for number in range(count)]


def test_a_child_that_crashes_or_hangs_loses_only_its_point(job: Job) -> None:
    results = list(LocalProcesses(job, 2, 3.0, troubled).run(_tasks(9)))
    assert sorted(each.point.number for each in results) == list(range(9))
    lost = {each.point.number: each.outcomes[0] for each in results if each.outcomes[0].seconds is None}
    assert set(lost) == {3, 5}
    assert {each.infeasible for each in lost.values()} == {Infeasible.LOST}
    assert "status 7" in lost[3].reason
    assert "hung for 3 s" in lost[5].reason


def dying(task: Task, _: Job) -> PointResult:
    """Crash at every point."""
    os._exit(task.point.number + 1)


def test_children_that_never_answer_are_an_error(job: Job) -> None:
    with pytest.raises(InputError, match="4 child processes have ended without an answer"):
        list(LocalProcesses(job, 2, 60.0, dying).run(_tasks(9)))


class Counting:
    """Answers at once, and may be killed after some points."""

    def __init__(self, dies_after: int | None = None) -> None:
        self.done: Counter[int] = Counter()
        self._left = dies_after

    def run(self, tasks: Iterable[Task]) -> Iterator[PointResult]:
        for task in tasks:
            if self._left is not None and sum(self.done.values()) == self._left:
                raise KeyboardInterrupt
            self.done[task.point.number] += 1
            yield answered(task, Job((), Options()))


@pytest.fixture
def space() -> Space:
    return launch_space(EXAMPLE, ["block=32,64,128,256,2048", "grid=1,2"])


def _swept(path: Path, space: Space, job: Job, executor: Counting) -> Sweep:
    with SweepStore(path, space, job) as store:
        return sweep(space, job, executor, store)


def test_a_killed_sweep_goes_on(tmp_path: Path, space: Space, job: Job) -> None:
    path = tmp_path / "kept.jsonl"
    first, second = Counting(dies_after=3), Counting()
    with pytest.raises(KeyboardInterrupt):
        _swept(path, space, job, first)
    found = _swept(path, space, job, second)
    assert first.done + second.done == Counter(range(8)), "each point once; 8 and 9 are no launches"
    assert found.reused == 3 + 2
    assert [each.seconds for each in found.ranked(found.gpus[0])] == [1.0 + n for n in range(8)]
    assert [(kind, count) for kind, count, _ in found.infeasible(found.gpus[0])] == [(Infeasible.LAUNCH, 2)]
    keys = [json.loads(line)["key"] for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    assert len(keys) == len(set(keys)) == 10


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_last_line_is_repaired(tmp_path: Path, space: Space, job: Job, cut: int) -> None:
    path = tmp_path / "kept.jsonl"
    whole = _swept(path, space, job, Counting())
    text = path.read_bytes()
    path.write_bytes(text[:-cut])
    again = Counting()
    found = _swept(path, space, job, again)
    assert found.results == whole.results
    assert sum(again.done.values()) == 1
    assert sorted(path.read_bytes().splitlines()) == sorted(text.splitlines())


def test_a_lost_point_is_tried_again(tmp_path: Path, space: Space, job: Job) -> None:
    class Losing(Counting):
        def run(self, tasks: Iterable[Task]) -> Iterator[PointResult]:
            for task in tasks:
                is_lost = task.point.number == 2
                yield infeasible(task.point, job, Infeasible.LOST, "gone") if is_lost else answered(task, job)

    assert len(_swept(tmp_path / "kept.jsonl", space, job, Losing()).results) == 10
    again = Counting()
    found = _swept(tmp_path / "kept.jsonl", space, job, again)
    assert again.done == Counter([2])
    assert found.results[2].outcomes[0].seconds == 3.0


def test_more_values_reuse_what_is_known(tmp_path: Path, space: Space, job: Job) -> None:
    _swept(tmp_path / "kept.jsonl", space, job, Counting())
    wider = launch_space(EXAMPLE, ["block=32,64,128,256,512,2048", "grid=1,2"])
    more = Counting()
    assert len(_swept(tmp_path / "kept.jsonl", wider, job, more).results) == 12
    assert sum(more.done.values()) == 2


@pytest.mark.parametrize("line", ["{}", "[1]", "nonsense", '{"key": "k", "result": {"point": 1}}'])
def test_a_damaged_line_is_named(tmp_path: Path, space: Space, job: Job, line: str) -> None:
    path = tmp_path / "kept.jsonl"
    _swept(path, space, job, Counting())
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[3:]]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 3: it is no result"):
        _swept(path, space, job, Counting())


def test_the_file_of_another_sweep_is_refused(tmp_path: Path, space: Space, job: Job) -> None:
    path = tmp_path / "kept.jsonl"
    _swept(path, space, job, Counting())
    before = path.read_bytes()
    others = [
        (launch_space(ROOT / "examples" / "matmul_tiled.toml", ["block=32,64"]), job),
        (space, Job(tuple(resolve_gpus(["h100-sxm"])), Options())),
        (space, Job(job.gpus, Options(level=0.5))),
    ]
    for other, its_job in others:
        with pytest.raises(InputError, match="it holds another sweep"):
            _swept(path, other, its_job, Counting())
    assert path.read_bytes() == before


@pytest.mark.parametrize("notes", ["my notes\n", "my notes", "{}", "\n", "x" * 5_000_000])
def test_a_file_of_something_else_stays_as_it_is(tmp_path: Path, space: Space, job: Job, notes: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(notes, encoding="utf-8")
    with pytest.raises(InputError, match="no result of a sweep"):
        _swept(file, space, job, Counting())
    assert file.read_text(encoding="utf-8") == notes


def test_a_torn_first_line_is_begun_anew(tmp_path: Path, space: Space, job: Job) -> None:
    path = tmp_path / "kept.jsonl"
    _swept(path, space, job, Counting())
    text = path.read_bytes()
    path.write_bytes(text[:40])
    _swept(path, space, job, Counting())
    assert sorted(path.read_bytes().splitlines()) == sorted(text.splitlines())
