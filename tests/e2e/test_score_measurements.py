"""The tables that hold kerncast against measurements, on a file whose truth is known: it comes from the executor."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import kerncast
from executor_device import MACHINE, ExecutorDevice
from kerncast.bench.harness import Conditions, Deadline, Harness
from kerncast.bench.plan import partition_subjects, suite_subjects
from kerncast.measurement import Counters, Method, Protocol
from kerncast.measurement_files import Recorder

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "score_measurements.py"
QUICK = Protocol(trials=2, iterations=3, warmups=3, methods=(Method.SERIES, Method.SINGLE))


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("measurements")
    machine = replace(MACHINE, gpu_name="NVIDIA TITAN V", memory_bytes=2**29)
    subjects = [s for s in suite_subjects(QUICK) if s.key() in {"seed/vector_add#0", "seed/shared_bank_conflict#0"}]
    counts = kerncast.profile(subjects[0].launch, gpu="titan-v")
    assert counts.traffic.global_load_requests
    metrics = (
        # A GPU that executes the same requests, and twice as many instructions.
        ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", counts.traffic.global_load_requests.value, "request"),
        ("smsp__inst_executed.sum", 2 * counts.mix.warp_instructions.value if counts.mix else 0.0, "inst"),
    )
    with Recorder.open(folder / "titan-v.jsonl", machine) as recorder:
        device = ExecutorDevice(machine)
        harness = Harness(device, recorder, Conditions(Deadline(), waking_seconds=0.0), None)
        harness.measure(subjects)
        partition = replace(QUICK, methods=(Method.SINGLE,), trials=1)
        harness.measure(partition_subjects((2, 8), subjects[1:], partition))
        recorder.add(Counters("seed/vector_add#0", metrics))
    done = run(folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_forecasts_are_scored_per_timing_and_model(tables: str) -> None:
    assert "## NVIDIA TITAN V" in tables
    for method in ("series", "single"):
        for model in ("template", "roofline"):
            assert f"| seed | {method} | {model} | 2 |" in tables


def test_counts_are_held_against_counters(tables: str) -> None:
    assert "| global load requests | 1 | 1.000 | 100% |  |" in tables
    assert "| 1 | 0.500 | 0% | vector_add#0 0.50 |" in tables


def test_partitions_give_a_speed_up(tables: str) -> None:
    row = next(line for line in tables.splitlines() if line.startswith("| shared_bank_conflict#0 | 2 to 8 (2)"))
    assert 1 < float(row.split("|")[5]) <= 4


def test_without_measurements_it_says_so(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0
    assert "no measurement file" in done.stdout
