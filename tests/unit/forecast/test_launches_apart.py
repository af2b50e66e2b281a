"""Launches in a process of its own: the same answers as here, and its end costs one launch."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kerncast.child_process import Progress
from kerncast.errors import CompileError, Interrupted, MachineLimitError, UnsupportedError
from kerncast.forecast import Job, Means, Options, each_in_limits, forecast_all, in_limits, resolve_gpus
from kerncast.forecast.evidence import Subject
from kerncast.forecast.gathered import Gathered, gather, room_of
from kerncast.launch import Launch, load_launches
from kerncast.models import Case
from kerncast.prediction import Prediction, Term, Timing
from tests.helpers.places import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks here")

SAXPY = ROOT / "examples" / "saxpy.toml"
LAUNCHES = [replace(load_launches(SAXPY)[0], index=number) for number in range(3)]
((TITAN_V, _),) = resolve_gpus("TITAN V")
APART = Options(apart=True)


def forecast_of(launch: Launch) -> Prediction:
    terms = (Term("dram", 1e-6),)
    return Prediction(
        "saxpy", launch.index, TITAN_V.name, TITAN_V.id, 1e-6, 5e-7, 2e-6, 0.9, Timing.SERIES, "dram", terms, (), "m"
    )


def test_the_answers_are_those_of_this_process() -> None:
    gpus = resolve_gpus(["TITAN V", "H100", "T4"])
    options = Options(measured=())
    here = forecast_all(SAXPY, gpus, options)
    assert forecast_all(SAXPY, gpus, replace(options, apart=True)) == here
    assert len(here.predictions) == 3


def test_the_processes_go_on_after_the_launch_that_ended_one() -> None:
    pids = []

    def work(subjects: Sequence[Subject], gathered: Gathered, progress: Progress | None) -> None:
        assert progress
        progress(str(os.getpid()), 0, 0)
        for each in gathered.each(subjects):
            assert isinstance(each, Launch)
            if each.index == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            gathered.add(forecast_of(each), replace(CASE, launch=each))

    found = gather(LAUNCHES, work, APART, lambda what, *_: pids.append(what))
    assert [each.launch for each in found.predictions] == [0, 2]
    assert [each.launch for each in found.cases if isinstance(each, Case)] == [LAUNCHES[0], LAUNCHES[2]]
    (refused,) = found.refused
    assert (refused.launch, refused.gpu, refused.refusal) == (1, None, MachineLimitError)
    assert "saxpy.cu launch 1 (saxpy): the process that worked on it ended by signal SIGKILL" in refused.reason
    assert "kerncast doctor" in refused.reason
    assert found.failed is None
    assert len(set(pids)) == 2
    assert str(os.getpid()) not in pids


def test_what_all_launches_have_in_common_ends_them_once() -> None:
    begun = []

    def work(subjects: Sequence[Subject], gathered: Gathered, progress: Progress | None) -> None:
        del subjects, gathered
        assert progress
        progress("begun", 0, 0)
        os._exit(5)

    found = gather(LAUNCHES, work, APART, lambda *_: begun.append(1))
    assert [each.launch for each in found.refused] == [0, 1, 2]
    assert len(begun) == 1


@pytest.mark.parametrize("apart", [True, False])
def test_an_error_leaves_what_was_found(*, apart: bool) -> None:
    def work(subjects: Sequence[Subject], gathered: Gathered, progress: Progress | None) -> None:
        del progress
        for each in gathered.each(subjects):
            assert isinstance(each, Launch)
            if each.index == 1:
                gathered.refuse(UnsupportedError("no such thing", where="k.cu", cure="Wait."), "saxpy", 1, TITAN_V)
            elif each.index == 2:
                raise CompileError("no kernel", where="k.cu")
            else:
                gathered.add(forecast_of(each), CASE)

    found = gather(LAUNCHES, work, Options(apart=apart))
    assert (found.predictions, found.cases) == ((forecast_of(LAUNCHES[0]),), (CASE,))
    (refused,) = found.refused
    assert (refused.refusal, refused.gpu_id, refused.reason) == (
        UnsupportedError,
        "titan-v",
        "k.cu: no such thing. Wait.",
    )
    with pytest.raises(CompileError, match="no kernel"):
        found.whole()
    with pytest.raises(CompileError, match="no kernel"):
        gather(LAUNCHES[2:], work, Options(apart=apart))


def test_an_interruption_leaves_what_was_found() -> None:
    def work(subjects: Sequence[Subject], gathered: Gathered, progress: Progress | None) -> None:
        assert progress
        for each in gathered.each(subjects):
            assert isinstance(each, Launch)
            if each.index == 1:
                progress("working", 0, 0)
                time.sleep(600)
            gathered.add(forecast_of(each), CASE)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    found = gather(LAUNCHES, work, APART, interrupt)
    assert [each.launch for each in found.predictions] == [0]
    assert isinstance(found.failed, Interrupted)
    assert found.failed.exit_status == 130


def test_one_result_of_one_launch() -> None:
    means = Means(apart=True)
    assert in_limits(int, lambda inside: os.getpid() * (not inside.apart), LAUNCHES, means) not in {0, os.getpid()}
    assert in_limits(int, lambda _: os.getpid(), LAUNCHES, Means()) == os.getpid()
    with pytest.raises(
        MachineLimitError, match=r"saxpy\.cu launch 0 .*: the process that worked on it ended with status"
    ):
        in_limits(int, lambda _: os._exit(5), LAUNCHES, means)
    with pytest.raises(MachineLimitError, match="more memory than is free"):
        in_limits(int, lambda _: raised(MemoryError()), LAUNCHES, means)


def test_results_of_each_launch_come_from_as_few_processes_as_can_be() -> None:
    def work(launch: Launch, _: Means) -> int:
        if launch.index == 1:
            raise UnsupportedError("tex", where="saxpy.cu:3", cure="Use loads.")
        return os._exit(5) if launch.index == 2 else os.getpid()

    launches = [replace(LAUNCHES[0], index=number) for number in range(5)]
    jobs = [Job(each, partial(work, each)) for each in launches]
    first, refused, ended, *last = each_in_limits(int, jobs, Means(apart=True))
    assert isinstance(refused, UnsupportedError)
    assert (refused.what, refused.where, refused.cure) == ("tex", "saxpy.cu:3", "Use loads.")
    assert isinstance(ended, MachineLimitError)
    assert "launch 2 (saxpy): the process that worked on it ended with status 5" in str(ended)
    assert last[0] == last[1]
    assert len({first, last[0], os.getpid()}) == 3
    (here,) = each_in_limits(int, jobs[:1], Means())
    assert here == os.getpid()


def raised(error: Exception) -> int:
    raise error


def test_the_room_of_launches(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(float* x) {}", encoding="utf-8")
    (tmp_path / "k.toml").write_text(
        'source = "k.cu"\n[[launch]]\ngrid = [1]\nblock = [32]\nargs = { x = "f32[1000] file(data/x.npy)" }\n',
        encoding="utf-8",
    )
    room = room_of(load_launches(tmp_path / "k.toml"))
    assert tmp_path / "k.cu" in room.reads
    assert any(path.name == "x.npy" for path in room.reads)
    assert not any(path == Path("/") or path == Path.home() for path in room.reads)
    assert room.buffer_bytes == 4 * 4000 + 4 * 2**30


CASE = next(each for each in forecast_all(SAXPY, [(TITAN_V, ())], Options(model="roofline")).profiled)


def test_a_cache_that_was_not_there_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path / "new"))
    found = forecast_all(SAXPY, [(TITAN_V, ())], Options(model="roofline", apart=True))
    assert len(found.predictions) == 1
    assert list((tmp_path / "new").rglob("*.entry"))
