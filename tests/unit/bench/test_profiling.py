"""Counting launches under Nsight Compute: the child launches what the parent expects, in its order."""

import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.bench.harness import Conditions, Deadline, Harness
from kerncast.bench.plan import Subject, launch_file_subjects, partition_subjects
from kerncast.bench.profiling import count, launch_once, uncounted
from kerncast.errors import InputError
from kerncast.measurements import Measurement, Method, Protocol, Recorder
from tests.helpers.executor_device import ExecutorDevice

QUICK = Protocol(trials=1, iterations=2, warmups=3, methods=(Method.SINGLE,))
SOURCE = """
extern "C" __global__ void first(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f; }
extern "C" __global__ void second(float *x) { x[threadIdx.x] = 2.0f; }
"""
LAUNCHES = 'source = "k.cu"\n' + "".join(
    f'[[launch]]\nkernel = "{kernel}"\ngrid = [{grid}]\nblock = [32]\nargs = {{ x = "f32[128] zeros" }}\n'
    for kernel, grid in (("second", 1), ("first", 4), ("first", 2))
)


@pytest.fixture
def measured(tmp_path: Path) -> tuple[Measurement, tuple[Subject, ...]]:
    """Measure three launches, and one of them on a part of the GPU."""
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "k.toml").write_text(LAUNCHES)
    subjects = launch_file_subjects(tmp_path / "k.toml", QUICK)
    parts = partition_subjects((2,), subjects[:1], QUICK)
    device = ExecutorDevice()
    with Recorder.open(tmp_path / "m.jsonl", device.machine) as recorder:
        Harness(device, recorder, Conditions(Deadline(), waking_seconds=0.0), None).measure([*parts, *subjects])
        return recorder.measurement, (*parts, *subjects)


def fake_ncu(folder: Path, rows: list[tuple[str, int]]) -> Path:
    """Write an ncu that prints these kernels and grids as its raw page."""
    header = '"ID","Kernel Name","Block Size","Grid Size","CC","smsp__inst_executed.sum"'
    lines = [header, '"","","","","","inst"']
    lines += [
        f'"{n}","{kernel}(float *)","(32, 1, 1)","({grid}, 1, 1)","7.0","{n + 10}"'
        for n, (kernel, grid) in enumerate(rows)
    ]
    path = folder / "ncu"
    text = "\\n".join(lines)
    path.write_text(
        f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\n"
        f"Path(sys.argv[sys.argv.index('--log-file') + 1]).write_text('''{text}''')\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_what_is_counted_is_launched_once_in_order(measured: tuple[Measurement, tuple[Subject, ...]]) -> None:
    measurement, subjects = measured
    chosen = uncounted(measurement, subjects)
    assert [subject.name for subject in chosen] == ["k#0", "k#1", "k#2"]
    assert {subject.group for subject in chosen} == {"k"}
    device = ExecutorDevice()
    launch_once(device, chosen)
    names = ["second", "first", "first"]
    assert device.events == [event for name in names for event in (f"load {name}", "Untimed", f"unload {name}")]
    assert device.launches == 3
    assert device.live == {}


def test_counters_go_to_their_configurations(
    measured: tuple[Measurement, tuple[Subject, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measurement, subjects = measured
    fake_ncu(tmp_path, [("second", 1), ("delay", 1), ("first", 4), ("first", 2)])
    monkeypatch.setenv("PATH", str(tmp_path))
    found = count(measurement, uncounted(measurement, subjects), ["measure", "k.toml", "--once"], 30.0)
    assert [(each.configuration, each.metrics[0][1]) for each in found] == [("k/k#0", 10), ("k/k#1", 12), ("k/k#2", 13)]
    counted = replace(measurement, counters=found[:2])
    assert [subject.name for subject in uncounted(counted, subjects)] == ["k#2"]


def test_launches_in_another_order_are_refused(
    measured: tuple[Measurement, tuple[Subject, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measurement, subjects = measured
    fake_ncu(tmp_path, [("second", 1), ("first", 2), ("first", 4)])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="grid"):
        count(measurement, uncounted(measurement, subjects), ["measure", "k.toml", "--once"], 30.0)
