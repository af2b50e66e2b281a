"""The tables that hold kerncast against measurements, on files whose truth is known: it comes from the executor."""

import io
import runpy
import subprocess
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import kerncast
from kerncast.bench.harness import Conditions, Deadline, Harness
from kerncast.bench.plan import Subject, partition_subjects, suite_subjects
from kerncast.errors import UnsupportedError
from kerncast.forecast import profile_launch
from kerncast.gpu import DATA
from kerncast.measurements import (
    Check,
    ClockState,
    Configuration,
    Counters,
    Machine,
    Method,
    Outcome,
    Protocol,
    Reading,
    Record,
    Recorder,
    Trial,
)
from kerncast.profiles import Count
from kerncast.profiles.counts import DRAM_BYTES_ONCE, GLOBAL_LOAD_REQUESTS
from tests.helpers.executor_device import MACHINE, ExecutorDevice
from tests.helpers.places import ROOT

SCRIPT = ROOT / "benchmarks" / "score_measurements.py"
QUICK = Protocol(trials=2, iterations=3, warmups=3, methods=(Method.SERIES, Method.SINGLE))
TITAN = replace(MACHINE, gpu_name="NVIDIA TITAN V", memory_bytes=2**29, sm_count=80)
SUBJECTS = {each.key(): each for each in suite_subjects(QUICK)}
ADD, BANKS = SUBJECTS["seed/vector_add#0"], SUBJECTS["seed/shared_bank_conflict#0"]
CLOCK = ClockState(sm_hz=1.164e9)


@cache
def script() -> ModuleType:
    """Import the script once: it remembers the profiles of the launches that all files have in common."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        return import_module(SCRIPT.stem)


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script in this process, and return what it did."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", [str(SCRIPT), str(folder)])
        try:
            script().main()
        except SystemExit as ended:
            status = int(ended.code or 0)
    return subprocess.CompletedProcess([], status, out.getvalue(), err.getvalue())


def write(path: Path, records: Iterable[Record], machine: Machine = TITAN) -> None:
    with Recorder.open(path, machine) as recorder:
        for each in records:
            recorder.add(each)


def configuration(subject: Subject) -> Configuration:
    """A configuration that says what the subject says now."""
    launch = subject.launch
    return Configuration(
        key=subject.key(),
        kernel=launch.kernel or "",
        source_sha256=subject.source_sha256,
        code_sha256="",
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        arguments=tuple((each.name, str(each.value)) for each in launch.arguments),
        seed=launch.seed,
        registers_per_thread=16,
    )


def ceiling(name: str, amount: float, unit: str) -> Configuration:
    return replace(configuration(ADD), key=f"ceilings/{name}", kernel=name, amount=amount, amount_unit=unit)


def trial(key: str, seconds: float = 1e-5, method: Method = Method.SERIES) -> Trial:
    return Trial(key, method, 0, (seconds,), (), 1, CLOCK, CLOCK, "2026-01-01T00:00:00+00:00")


def counted(subject: Subject, **values: float) -> Counters:
    return Counters(subject.key(), tuple((f"{name}.sum", value, "") for name, value in values.items()))


def of(count: Count | None) -> float:
    assert count is not None
    return count.value


def rows(text: str, start: str) -> list[list[str]]:
    found = [line for line in text.splitlines() if line.startswith(f"| {start}")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("measurements")
    machine = replace(TITAN, sm_count=8)
    counts = profile_launch(ADD.launch, gpu="titan-v")
    with Recorder.open(folder / "titan-v.jsonl", machine) as recorder:
        harness = Harness(ExecutorDevice(machine), recorder, Conditions(Deadline(), waking_seconds=0.0), None)
        harness.measure([ADD, BANKS])
        partition = replace(QUICK, methods=(Method.SINGLE,), trials=1)
        harness.measure(partition_subjects((2, 8), [BANKS], partition))
        # A GPU that executes the same requests, and twice as many instructions.
        assert counts.mix
        loads, instructions = of(counts.counts.get(GLOBAL_LOAD_REQUESTS)), of(counts.mix.warp_instructions)
        name = "l1tex__t_requests_pipe_lsu_mem_global_op_ld"
        recorder.add(counted(ADD, **{name: loads, "smsp__inst_executed": 2 * instructions}))
    done = run(folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_forecasts_are_scored_per_timing_and_model(tables: str) -> None:
    assert "## NVIDIA TITAN V" in tables
    for method in ("series", "single"):
        for model in ("template", "roofline"):
            assert f"| seed | {method} | {model} | 2 |" in tables
    assert "Refused: 0 of 2 timed launches." in tables


def test_counts_are_held_against_counters(tables: str) -> None:
    assert "| global load requests | 1 | 0 | 1.000 | 100% |  |" in tables
    assert "| 1 | 0 | 0.500 | 0% | vector_add#0 0.50 |" in tables


def test_partitions_give_a_speed_up(tables: str) -> None:
    row = next(line for line in tables.splitlines() if line.startswith("| shared_bank_conflict#0 | 2 to 8 (2)"))
    assert 1 < float(row.split("|")[5]) <= 4


def test_another_number_of_sms_than_the_data_say_is_said(tables: str) -> None:
    assert "Caution: The data are of 80 SMs, and 8 were measured." in tables


def test_without_measurements_it_says_so(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0
    assert "no measurement file" in done.stdout


def test_a_launch_that_has_changed_is_named_with_what_differs(tmp_path: Path) -> None:
    changed = replace(configuration(ADD), grid=(7, 1, 1), seed=99)
    write(tmp_path / "m.jsonl", [changed, trial(ADD.key()), configuration(BANKS), trial(BANKS.key())])
    done = run(tmp_path)
    said = next(line for line in done.stderr.splitlines() if "vector_add#0 has changed" in line)
    assert "grid is " in said
    assert "seed is 0, not 99" in said
    assert "source" not in said
    assert "| seed | series | roofline | 1 |" in done.stdout


def test_wrong_results_are_no_truth(tmp_path: Path) -> None:
    wrong = Check(ADD.key(), Outcome.DIFFERENT, 1, 0.5, "c differs")
    right = Check(BANKS.key(), Outcome.CLOSE, 1, 1e-7, "")
    counters = counted(ADD, smsp__inst_executed=1.0)
    known: list[Record] = [configuration(ADD), trial(ADD.key()), configuration(BANKS), trial(BANKS.key())]
    write(tmp_path / "m.jsonl", [*known, wrong, right, counters])
    done = run(tmp_path)
    assert "Left out, because the results differ from those of the CPU: seed/vector_add#0." in done.stdout
    assert "results: 1 close, 1 different" in done.stdout
    assert "| seed | series | roofline | 1 |" in done.stdout
    assert "warp instructions" not in done.stdout


def test_wrong_results_on_one_part_of_the_gpu_leave_out_all_parts(tmp_path: Path) -> None:
    parts = [replace(configuration(ADD), key=f"partition/vector_add#0@{size}", sm_count=size) for size in (2, 8)]
    write(tmp_path / "a.jsonl", parts)
    write(tmp_path / "a.jsonl", [trial(each.key, method=Method.SINGLE) for each in parts])
    assert rows(run(tmp_path).stdout, "vector_add#0")
    write(tmp_path / "a.jsonl", [Check(parts[0].key, Outcome.DIFFERENT, 1, 0.5, "c differs")])
    assert not rows(run(tmp_path).stdout, "vector_add#0")


def test_a_row_of_counters_needs_all_its_metrics(tmp_path: Path) -> None:
    once = of(profile_launch(ADD.launch, gpu="titan-v").counts.get(DRAM_BYTES_ONCE))
    write(tmp_path / "m.jsonl", [configuration(ADD), counted(ADD, dram__bytes_read=once / 2)])
    assert "DRAM bytes" not in run(tmp_path).stdout
    write(tmp_path / "m.jsonl", [counted(ADD, dram__bytes_write=once / 2)])
    assert rows(run(tmp_path).stdout, "DRAM bytes")[0][1:5] == ["1", "0", "1.000", "100%"]


def test_counters_are_known_by_their_newer_names(tmp_path: Path) -> None:
    once = of(profile_launch(ADD.launch, gpu="titan-v").counts.get(DRAM_BYTES_ONCE))
    newer = counted(ADD, dram__bytes_op_read=once, dram__bytes_op_write=once)
    write(tmp_path / "m.jsonl", [configuration(ADD), newer])
    assert rows(run(tmp_path).stdout, "DRAM bytes")[0][1:] == ["1", "0", "0.500", "0%", "vector_add#0 0.50"]


def test_a_count_of_zero_is_a_count(tmp_path: Path) -> None:
    # vector_add adds once per element, and neither multiplies nor computes in FP64.
    counters = counted(
        ADD,
        smsp__sass_thread_inst_executed_op_fadd_pred_on=0.0,
        smsp__sass_thread_inst_executed_op_fmul_pred_on=64.0,
        smsp__sass_thread_inst_executed_op_dfma_pred_on=0.0,
    )
    write(tmp_path / "m.jsonl", [configuration(ADD), counters])
    text = run(tmp_path).stdout
    added = rows(text, "FP32 additions")[0]
    assert added[1:5] == ["1", "0", "-", "0%"]
    assert added[5].endswith(" to 0")
    assert rows(text, "FP32 multiplications")[0][1:] == ["1", "0", "0.000", "0%", "vector_add#0 0.00"]
    assert rows(text, "FP64 fused")[0][1:] == ["1", "1", "-", "100%", ""]


def test_an_unknown_gpu_leaves_the_other_files(tmp_path: Path) -> None:
    records: list[Record] = [configuration(ADD), trial(ADD.key())]
    write(tmp_path / "a.jsonl", records, replace(TITAN, gpu_name="Nobody's GPU"))
    alone = run(tmp_path)
    assert alone.returncode == 2
    assert "Traceback" not in alone.stderr
    write(tmp_path / "b.jsonl", records)
    done = run(tmp_path)
    assert done.returncode == 0
    assert "a.jsonl is left out: no GPU is called" in done.stderr
    assert "## NVIDIA TITAN V" in done.stdout


def test_a_gpu_file_beside_the_measurement_is_taken(tmp_path: Path) -> None:
    machine = replace(TITAN, gpu_name="Nobody's GPU")
    write(tmp_path / "a.jsonl", [configuration(ADD), trial(ADD.key())], machine)
    text = (DATA / "gpus" / "titan-v.toml").read_text(encoding="utf-8")
    (tmp_path / "a.toml").write_text(text.replace('"TITAN V"', '"Nobody\'s GPU"'), encoding="utf-8")
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "## Nobody's GPU" in done.stdout
    assert "Caution: The GPU's data are those of a.toml." in done.stdout
    assert "| seed | series | roofline | 1 |" in done.stdout


def test_ceilings_are_held_against_the_data_sheet(tmp_path: Path) -> None:
    # TITAN V: 5120 lanes x 2 x 1455 MHz = 14.8992 TFLOP/s, half of it in FP64, 652.8 GB/s.
    ceilings = [
        (ceiling("fma_f32", 14.8992e9, "FLOP"), 2e-3),
        (ceiling("fma_f64", 7.4496e9, "FLOP"), 1e-3),
        (ceiling("dram_copy#1", 489.6e6, "B"), 1e-3),
        (ceiling("clock", 14.8992e9, "FLOP"), 1e-3),
    ]
    records: list[Record] = [record for each, seconds in ceilings for record in (each, trial(each.key, seconds))]
    empty = ceiling("launch_empty", 1.0, "launch")
    records += [empty, trial(empty.key, 2e-6), trial(empty.key, 1e-6, Method.GRAPH)]
    records += [Reading("ceilings/clock", "clock", (1.164e9, 1.164e9), "Hz")]
    write(tmp_path / "m.jsonl", records)
    text = run(tmp_path).stdout
    assert rows(text, "fma_f32")[0] == ["fma_f32", "7.45e+12 FLOP/s", "50.0%"]
    assert rows(text, "fma_f64")[0][2] == "100.0%"
    assert rows(text, "dram_copy#1")[0] == ["dram_copy#1", "4.896e+11 B/s", "75.0%"]
    assert rows(text, "clock")[0][2] == ""
    assert rows(text, "clock, read by the kernel")[0][1:] == ["1.164e+09 Hz", "80.0%"]
    assert rows(text, "launch_empty") == [
        ["launch_empty (series)", "5e+05 launch/s", ""],
        ["launch_empty (graph)", "1e+06 launch/s", ""],
    ]
    assert "median 1164 MHz: 80.0% of the 1455 MHz boost" in text


def test_what_the_executor_refuses_is_counted_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = [configuration(each) for each in (ADD, BANKS)]
    write(tmp_path / "m.jsonl", [*known, *(trial(each.key) for each in known)])

    def refusing(launch: kerncast.Launch, gpu: kerncast.GPU) -> kerncast.KernelProfile:
        if launch == BANKS.launch:
            raise UnsupportedError("an instruction that is not covered")
        return profile_launch(launch, gpu=gpu)

    monkeypatch.setattr("kerncast.forecast.profile_launch", refusing)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    done = capsys.readouterr()
    assert "Refused: 1 of 2 timed launches (shared_bank_conflict#0)." in done.out
    assert "| seed | series | roofline | 1 |" in done.out
    assert "seed/shared_bank_conflict#0: an instruction that is not covered" in done.err
