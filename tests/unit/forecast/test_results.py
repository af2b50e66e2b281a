"""What was executed and simulated is remembered by its content, and equals what would be found again."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kerncast
from kerncast.caveats import CaveatKind
from kerncast.compile.cache import Store, cache_place
from kerncast.errors import BudgetExceededError, MachineLimitError, UnsupportedError
from kerncast.execute import Budget
from kerncast.execute.caches import launch_traffic
from kerncast.execute.on_gpu import with_caches
from kerncast.forecast import compile_launch, compiled_launch
from kerncast.forecast.results import Results, execution_key
from kerncast.launch import Argument, Buffer, Fill, Launch
from kerncast.models.sm.simulate import prepare
from kerncast.prediction import Term
from tests.helpers.caches import new_cache
from tests.helpers.caveats import only
from tests.helpers.places import ROOT

SAXPY = ROOT / "examples" / "saxpy.toml"
SOURCE = 'extern "C" __global__ void copy(float *y, const float *x) { y[threadIdx.x] = x[threadIdx.x]; }'


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare()  # here, where its machine code is kept
    new_cache(tmp_path / "killed")
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path / "cache"))


def copying(folder: Path, **fills: Fill) -> Launch:
    source = folder / "copy.cu"
    source.write_text(SOURCE)
    buffers = {name: Buffer("f32", (32,), fills.get(name, Fill("zeros"))) for name in ("y", "x")}
    arguments = tuple(Argument(name, each) for name, each in buffers.items())
    return Launch(source, "copy", (1, 1, 1), (32, 1, 1), arguments=arguments)


def key_of(launch: Launch, budget: Budget | None = None) -> str:
    kernel = compile_launch(launch, ["sm_70"]).kernels[0]
    return execution_key(kernel, launch, budget or Budget())


def test_a_second_forecast_executes_and_simulates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ["TITAN V", "T4", "H100"]
    first = kerncast.predict(SAXPY, gpus)
    monkeypatch.setattr(compiled_launch, "run_launch", lambda *_: pytest.fail("executed again"))
    assert kerncast.predict(SAXPY, gpus) == first


def test_another_gpu_executes_again_and_changes_no_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    both = kerncast.predict(SAXPY, ["TITAN V", "V100"])
    monkeypatch.setenv("KERNCAST_CACHE", "off")
    assert tuple(kerncast.predict(SAXPY, "V100")) == both[1:]


def test_what_decides_an_execution_is_in_its_key(tmp_path: Path) -> None:
    data = tmp_path / "x.npy"
    np.save(data, np.zeros(32, np.float32))
    launch = copying(tmp_path, x=Fill("file", path=data))
    key = key_of(launch)
    assert key == key_of(replace(launch, index=3))
    assert key == key_of(launch, Budget(seconds=1.0))  # the clock decides no count
    others = [
        key_of(replace(launch, grid=(2, 1, 1))),
        key_of(replace(launch, seed=1)),
        key_of(copying(tmp_path, x=Fill("ones"))),
        key_of(launch, Budget(sample_seconds=1.0)),
    ]
    np.save(data, np.ones(32, np.float32))
    others.append(key_of(launch))
    assert len({key, *others}) == 6


def test_a_refusal_is_remembered_unless_this_machine_is_to_blame() -> None:
    for error, times in (
        (UnsupportedError("no such thing", where="k.cu", cure="Do."), 1),
        (MachineLimitError("late"), 2),
    ):
        asked: list[int] = []

        def refuse(error: Exception = error, asked: list[int] = asked) -> Term:
            asked.append(1)
            raise error

        for _ in range(2):
            with pytest.raises(type(error)) as raised:
                Results().get(Term, f"key of {error}", refuse)
            assert str(raised.value) == str(error)
        assert len(asked) == times
    assert issubclass(MachineLimitError, BudgetExceededError)


def test_caches_that_this_machine_has_no_memory_for_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhaust(*_: object) -> None:
        raise MemoryError

    gpu = kerncast.load_gpu("TITAN V")
    (launch,) = kerncast.load_launches(SAXPY)
    (_, found) = compiled_launch.compile_and_count(launch, ["sm_70"]).found[0]
    with monkeypatch.context() as patched:
        patched.setattr(launch_traffic, "record_window", exhaust)
        with pytest.raises(MachineLimitError):
            with_caches(found.profile, found.executed(), gpu)
        missing = found.with_caches(gpu)
    assert "more memory" in str(only(missing.caveats, CaveatKind.CACHES_NOT_SIMULATED).details["reason"])
    assert missing.machine is not None
    (_, again) = compiled_launch.compile_and_count(launch, ["sm_70"]).found[0]
    assert again.with_caches(gpu).caches is not None


def test_a_damaged_entry_is_made_anew() -> None:
    made = Results().get(Term, "key", lambda: Term("dram", 1.5))
    folder = cache_place().folder
    assert folder is not None
    (entry,) = folder.glob("?/*.entry")
    entry.write_bytes(entry.read_bytes()[:-3])
    assert Results().get(Term, "key", lambda: Term("dram", 2.5)) == Term("dram", 2.5)
    assert made == Term("dram", 1.5)


def test_an_entry_of_another_form_is_made_anew() -> None:
    place = cache_place()
    assert place.folder is not None
    results = Results()
    results.get(Term, "key", lambda: Term("dram", 1.5))
    (entry,) = place.folder.glob("?/*.entry")
    Store(place.folder, place.most_bytes).save(entry.stem, b"no zlib")
    assert Results().get(Term, "key", lambda: Term("dram", 2.5)) == Term("dram", 2.5)


def test_a_killed_process_leaves_nothing_that_is_wrong(tmp_path: Path) -> None:
    expected = kerncast.predict(SAXPY, "T4")
    environment = {**os.environ, "KERNCAST_CACHE": str(tmp_path / "killed")}
    command = [sys.executable, "-c", f"import kerncast; print(kerncast.predict({str(SAXPY)!r}, 'T4')[0].seconds)"]
    for seconds in (0.5, 1.5):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [each.communicate()[0].strip() for each in both] == [str(expected[0].seconds)] * 2


def test_profiles_of_the_suite_survive_the_way_to_disk() -> None:
    for name in ("reduce_sum", "histogram", "fft"):
        launch = kerncast.load_launches(SUITE / f"{name}.toml")[0]
        first = compiled_launch.compile_and_count(launch, ["sm_70"]).found[0][1].profile
        again = compiled_launch.compile_and_count(launch, ["sm_70"]).found[0][1].profile
        assert again == first


SUITE = next(iter(path.parent for path in Path(kerncast.__path__[0]).rglob("reduce_sum.toml")))
