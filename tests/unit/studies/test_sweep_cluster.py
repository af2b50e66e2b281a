"""A sweep on a Dask cluster of two worker processes on this machine, one of which is killed in the middle."""

import os
import signal
import time
from collections import Counter
from pathlib import Path
from threading import Thread

import pytest

from kerncast.errors import InputError
from kerncast.forecast import Options, resolve_gpus
from kerncast.launch import Launch
from kerncast.studies.sweeps import cluster
from kerncast.studies.sweeps.cluster import DaskCluster
from kerncast.studies.sweeps.point_results import Job, Outcome, PointResult, Task
from kerncast.studies.sweeps.space import Point

_POINTS, _LONG_POINT, _LONG_SECONDS = 40, 8, 60.0
_TWO_WORKERS = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}


@pytest.fixture
def job() -> Job:
    return Job(tuple(resolve_gpus(["titan-v"])), Options())


def answered(task: Task, _: Job) -> PointResult:
    """Note in a file who works on a point; the first try of one point lasts until its worker is killed."""
    folder = task.launch.source.parent
    is_first = not list(folder.glob(f"{task.point.number}.*"))
    (folder / f"{task.point.number}.{os.getpid()}").touch()
    time.sleep(_LONG_SECONDS if task.point.number == _LONG_POINT and is_first else 0.01)
    return PointResult(task.point, (Outcome("titan-v", 1.0, 1.0, 1.0, "dram", "simulation", None, ""),))


def answered_at_once(task: Task, _: Job) -> PointResult:
    """Note in a file who answered a point; a second try takes a while."""
    is_second = bool(list(task.launch.source.parent.glob(f"{task.point.number}.*")))
    (task.launch.source.parent / f"{task.point.number}.{os.getpid()}").touch()
    time.sleep(2.0 * is_second)
    return PointResult(task.point, (Outcome("titan-v", 1.0, 1.0, 1.0, "dram", "simulation", None, ""),))


def _kill_its_worker(folder: Path) -> None:
    while not (begun := list(folder.glob(f"{_LONG_POINT}.*"))):
        time.sleep(0.05)
    os.kill(int(begun[0].suffix.removeprefix(".")), signal.SIGKILL)


def _tasks(folder: Path, count: int) -> list[Task]:
    launch = Launch(folder / "k.cu", "k", (1, 1, 1), (32, 1, 1))
    return [Task(Point(number, ()), launch) for number in range(count)]


@pytest.mark.filterwarnings("ignore")  # of the library about ports and about workers that end
def test_no_point_is_lost_and_none_is_told_twice(tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra cluster is not installed")
    monkeypatch.setattr(cluster, "forecast_point", answered)
    tasks = _tasks(tmp_path, _POINTS)
    with distributed.LocalCluster(processes=True, host="127.0.0.1", **_TWO_WORKERS) as found:
        killer = Thread(target=_kill_its_worker, args=(tmp_path,), daemon=True)
        killer.start()
        results = list(DaskCluster(job, found.scheduler_address).run(tasks))
        killer.join()
    assert Counter(each.point.number for each in results) == Counter(range(_POINTS))
    assert all(each.outcomes[0].seconds == 1.0 for each in results)
    tries = Counter(int(path.stem) for path in tmp_path.glob("*.*"))
    assert tries[_LONG_POINT] == 2
    assert len({path.suffix for path in tmp_path.glob("*.*")}) >= 2, "the killed worker, and another"


@pytest.mark.filterwarnings("ignore")  # as above
def test_an_answer_lost_before_it_is_fetched_is_computed_again(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra cluster is not installed")
    monkeypatch.setattr(cluster, "forecast_point", answered_at_once)
    count = 12  # of fewer than are on their way at once
    with distributed.LocalCluster(processes=True, host="127.0.0.1", **_TWO_WORKERS) as found:
        results = DaskCluster(job, found.scheduler_address).run(_tasks(tmp_path, count))
        told = [next(results)]
        while len(answers := list(tmp_path.glob("*.*"))) < count:
            time.sleep(0.05)
        unfetched = [each for each in answers if each.stem != str(told[0].point.number)]
        os.kill(int(unfetched[0].suffix.removeprefix(".")), signal.SIGKILL)
        while len(list(tmp_path.glob("*.*"))) == count:
            time.sleep(0.05)
        time.sleep(0.5)  # the scheduler has told what it lost
        told += results
    assert Counter(each.point.number for each in told) == Counter(range(count))
    assert {each.outcomes[0].seconds for each in told} == {1.0}


def test_without_a_cluster_the_error_names_the_cure(job: Job) -> None:
    pytest.importorskip("distributed", reason="the extra cluster is not installed")
    with pytest.raises(InputError, match="Start one"):
        list(DaskCluster(job, "tcp://127.0.0.1:9", 0.3).run([]))
    with pytest.raises(InputError, match="no Dask scheduler"):
        list(DaskCluster(job, "nonsense", 0.3).run([]))


def test_without_dask_the_error_names_the_extra(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(InputError, match=r"kerncast\[cluster\]"):
        list(DaskCluster(job, "tcp://127.0.0.1:9").run([]))
