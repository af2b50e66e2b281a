"""Times on parts of a GPU from a file of ``kerncast measure``: the samples written are the runs read."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.cli import main
from kerncast.errors import InputError
from kerncast.gpu import load_gpu
from kerncast.measurements import ClockState, Configuration, Method, Recorder, Trial
from kerncast.read.partition_files import read_measured_partitions
from tests.helpers.executor_device import MACHINE

TITAN_V = load_gpu("titan-v")
TITAN = replace(MACHINE, gpu_name="NVIDIA TITAN V", sm_count=80)
CLOCK = ClockState(sm_hz=1.2e9)


def configuration(key: str, kernel: str, sm_count: int | None) -> Configuration:
    return Configuration(key, kernel, "0" * 64, "", (64, 1, 1), (128, 1, 1), 0, (), 0, 16, sm_count=sm_count)


def trial(key: str, seconds: Sequence[float], method: Method = Method.SINGLE, number: int = 0) -> Trial:
    return Trial(key, method, number, tuple(seconds), (), 1, CLOCK, CLOCK, "2026-01-01T00:00:00+00:00")


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Two kernels: saxpy on 2 and 16 SMs and on all 80, scan on 4."""
    path = tmp_path / "titan-v.jsonl"
    with Recorder.open(path, TITAN) as recorder:
        for key, kernel, sms in (
            ("partition/saxpy#0@2", "saxpy", 2),
            ("partition/saxpy#0@16", "saxpy", 16),
            ("partition/saxpy#0", "saxpy", None),
            ("partition/scan#0@4", "scan", 4),
        ):
            recorder.add(configuration(key, kernel, sms))
        recorder.add(trial("partition/saxpy#0@2", (0.04, 0.041)))
        recorder.add(trial("partition/saxpy#0@2", (0.042,), number=1))
        recorder.add(trial("partition/saxpy#0@2", (0.039,), Method.SERIES))
        recorder.add(trial("partition/saxpy#0@16", (0.006,)))
        recorder.add(trial("partition/saxpy#0", (0.001,)))
        recorder.add(trial("partition/scan#0@4", (0.02,), Method.SERIES))
    return path


@pytest.mark.parametrize("kernel", ["saxpy", "partition/saxpy#0"])
def test_every_single_launch_is_a_run_on_whole_tpcs(measured: Path, kernel: str) -> None:
    times = read_measured_partitions(measured, TITAN_V, kernel)
    assert times.counts == (1, 8, 40)
    assert times.repeats(1) == (0.04, 0.041, 0.042)
    assert times.repeats(8) == (0.006,)
    assert times.repeats(40) == (0.001,)


def test_the_command_bounds_from_them(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["bound", str(measured), "--gpu", "TITAN V", "--kernel", "saxpy", "--tpcs", "1,2,40", "--json"])
    assert not left.value.code
    found = json.loads(capsys.readouterr().out)
    assert found["calibrated_on"] == [1, 8, 40]
    assert found["bounds"][0]["bound_seconds"] >= 0.042, "never below the longest run"
    assert found["bounds"][1]["bound_seconds"] > 0.041 / 2
    with pytest.raises(SystemExit, match="2"):
        main(["bound", "times.csv", "--gpu", "TITAN V", "--kernel", "saxpy"])
    assert "--kernel belongs to launches, or to a measurement file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (None, "several kernels on parts of the GPU. Give --kernel one of partition/saxpy#0, partition/scan#0"),
        ("lud", "none of its kernels on parts is 'lud'"),
        ("scan", "partition/scan#0 has no single launches"),
    ],
)
def test_what_is_not_clear_is_refused(measured: Path, kernel: str | None, said: str) -> None:
    with pytest.raises(InputError, match=r".") as refused:
        read_measured_partitions(measured, TITAN_V, kernel)
    assert said in str(refused.value)


def test_another_gpu_than_the_measured_one_is_refused(measured: Path) -> None:
    with pytest.raises(InputError, match="NVIDIA TITAN V was measured, with 80 SMs; RTX 4070 has 46"):
        read_measured_partitions(measured, load_gpu("rtx-4070"), "saxpy")


def test_a_file_without_parts_and_half_tpcs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "whole.jsonl"
    with Recorder.open(path, TITAN) as recorder:
        recorder.add(configuration("seed/saxpy#0", "saxpy", None))
        recorder.add(trial("seed/saxpy#0", (0.001,)))
    with pytest.raises(InputError, match="nothing in it ran on parts of the GPU"):
        read_measured_partitions(path, TITAN_V)
    with Recorder.open(path, TITAN) as recorder:
        recorder.add(configuration("seed/saxpy#0@3", "saxpy", 3))
        recorder.add(trial("seed/saxpy#0@3", (0.002,)))
    with pytest.raises(InputError, match="ran on 3 SMs, not a multiple of the 2 of a TPC"):
        read_measured_partitions(path, TITAN_V)
