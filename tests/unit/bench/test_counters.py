"""Counters: the list of metrics, the command, the run of ncu, and which row belongs to which configuration."""

import os
import stat
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from kerncast.bench import counters
from kerncast.bench.counters import (
    all_metrics,
    base_name,
    find_ncu,
    match_counters,
    metrics_needed,
    ncu_argv,
    run_under_ncu,
)
from kerncast.errors import BudgetExceededError, InputError
from kerncast.launch import Extent
from kerncast.measurements import Configuration
from kerncast.read.ncu import NcuMetric, NcuRow

TABLE = '"ID","Kernel Name","Grid Size","Block Size","smsp__inst_executed.sum"\n"","","","","inst"\n'
ROW = '"0","saxpy(int)","(4, 1, 1)","(256, 1, 1)","1,024"\n'


def configuration(key: str, kernel: str, grid: Extent = (4, 1, 1)) -> Configuration:
    return Configuration(key, kernel, "0" * 64, "0" * 64, grid, (256, 1, 1), 0, (), 0, 16)


def row(number: int, kernel: str, grid: Extent | None = (4, 1, 1)) -> NcuRow:
    metrics = (NcuMetric("smsp__inst_executed.sum", float(number), "inst"),)
    return NcuRow(number, kernel, grid, (256, 1, 1), "9.0", metrics)


@pytest.fixture
def fake_ncu(tmp_path: Path) -> Callable[[str], tuple[tuple[str, ...], Path]]:
    """Make a program that stands for ncu: a Python text that knows ``log``, the path of the CSV file."""

    def make(text: str) -> tuple[tuple[str, ...], Path]:
        path, log = tmp_path / "ncu", tmp_path / "counters.csv"
        path.write_text(
            f"#!{sys.executable}\nimport os, subprocess, sys, time\n"
            f"log = sys.argv[sys.argv.index('--log-file') + 1]\n{text}\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return ncu_argv(("child", "--once"), log, str(path)), log

    return make


def test_names_are_unique_and_whole() -> None:
    names = [metric.name for metric in all_metrics()]
    assert len(set(names)) == len(names) > 60
    for metric in all_metrics():
        unit, _, suffix = metric.name.partition(".")
        # ncu takes a name without a suffix for a pattern and ends where it finds none; launch__ names have none.
        assert unit.startswith("launch__") or suffix, metric.name
        assert metric.models
        assert metric.meaning
        assert metric.first >= (7, 0)


def test_each_model_has_what_its_equations_need() -> None:
    names = {
        model: {metric.name for metric in metrics_needed([model])}
        for model in ("roofline", "algorithm1", "ceilings", "pipes", "counters")
    }
    flops = {f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("fadd", "fmul", "ffma", "dfma", "hfma")}
    assert flops | {"gpu__time_duration.sum", "dram__bytes_read.sum"} <= names["roofline"] <= names["algorithm1"]
    assert "sm__warps_active.avg.pct_of_peak_sustained_active" in names["algorithm1"]
    # Equations 3, 5, 6 and 7 of the ceilings: active threads, shared memory, L1, L2.
    assert {
        "smsp__thread_inst_executed_per_inst_executed.ratio",
        "smsp__sass_data_bytes_mem_shared.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
        "l1tex__t_bytes.sum",
        "lts__t_bytes.sum",
    } <= names["ceilings"]
    assert {"gpc__cycles_elapsed.max", "smsp__inst_executed.sum", "smsp__inst_executed_pipe_lsu.sum"} <= names["pipes"]
    assert len(metrics_needed()) == len(all_metrics()) == len(set().union(*names.values()))


@pytest.mark.parametrize(
    ("capability", "read"),
    [("7.0", "dram__bytes_read.sum"), ("9.0", "dram__bytes_read.sum"), ("12.0", "dram__bytes_op_read.sum")],
)
def test_a_gpu_is_asked_for_the_names_it_has(capability: str, read: str) -> None:
    names = [m.name for m in metrics_needed(["roofline"], capability) if m.name.startswith("dram__")]
    assert names == [read, read.replace("read", "write")]


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'ceiling' .* Did you mean ceilings\?"):
        metrics_needed(["ceiling"])
    with pytest.raises(InputError, match="Choose from algorithm1, ceilings"):
        metrics_needed(["xyz"])


def test_the_command_leaves_the_clocks_alone_and_flushes_caches() -> None:
    argv = ncu_argv(("python", "-m", "kerncast"), Path("c.csv"), "/opt/ncu", ["saxpy", "reduce<float, 256>"], "9.0")
    assert argv[0] == "/opt/ncu"
    assert argv[-3:] == ("python", "-m", "kerncast")
    options = dict(pairwise(argv))
    assert options["--clock-control"] == "none"
    assert options["--cache-control"] == "all"
    assert options["--replay-mode"] == "kernel"
    assert options["--kernel-name"] == "regex:^(reduce|saxpy)$"
    assert options["--kernel-name-base"] == "function"
    assert options["--log-file"] == "c.csv"
    assert options["--page"] == "raw"
    assert "dram__bytes_op_read.sum" not in options["--metrics"]


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("saxpy", "saxpy"),
        ("saxpy(int, float, const float *, float *)", "saxpy"),
        ("row_sums(float const *,float*,unsigned long)", "row_sums"),
        ("void gemv_single<__nv_bfloat16, 8, 4>(const T1 *, const T1 *, T1 *, int, int)", "gemv_single"),
        ("void at::native::elementwise<at::Fill<int, float>, (int)4>(T1)", "elementwise"),
        ("unnamed>::saxpyKernel(float, const float *)", "saxpyKernel"),
        ("<unnamed>::k(int (*)[4])", "k"),
        ("reduce<float, 256>", "reduce"),
    ],
)
def test_names_as_ncu_prints_them(printed: str, name: str) -> None:
    assert base_name(printed) == name


def test_rows_go_to_configurations_in_order() -> None:
    wanted = [configuration("a#0", "saxpy"), configuration("a#1", "saxpy", (8, 1, 1)), configuration("b#0", "sum<int>")]
    rows = [
        row(0, "delay(long long)"),
        row(1, "saxpy(int)"),
        row(2, "flush(float *)"),
        row(3, "saxpy(int)", (8, 1, 1)),
        row(4, "void sum<int>(T1 *)", None),
    ]
    found = match_counters(rows, wanted)
    assert [(c.configuration, c.metrics[0][1]) for c in found] == [("a#0", 1.0), ("a#1", 3.0), ("b#0", 4.0)]
    assert found[0].metrics == (("smsp__inst_executed.sum", 1.0, "inst"),)


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        ([("sum", (4, 1, 1)), ("saxpy", (4, 1, 1))], r"a#0: row 0 of ncu is a launch of sum, not of saxpy"),
        ([("saxpy", (5, 1, 1)), ("sum", (4, 1, 1))], r"a#0: .* with grid \(5, 1, 1\), not \(4, 1, 1\)"),
        ([("saxpy", (4, 1, 1))], "b#0: ncu has no launch of sum"),
        ([], "a#0: ncu has no launch of saxpy"),
        ([("saxpy", (4, 1, 1)), ("sum", (4, 1, 1)), ("sum", (4, 1, 1))], "row 2: ncu has one more launch of sum"),
    ],
)
def test_the_first_mismatch_is_named(kernels: list[tuple[str, Extent]], message: str) -> None:
    rows = [row(number, kernel, grid) for number, (kernel, grid) in enumerate(kernels)]
    with pytest.raises(InputError, match=message):
        match_counters(rows, [configuration("a#0", "saxpy"), configuration("b#0", "sum")])


def test_a_run_gives_its_rows(fake_ncu: Callable[[str], tuple[tuple[str, ...], Path]]) -> None:
    text = f"open(log, 'w').write('==PROF== Connected' + chr(10) + {TABLE + ROW!r})\nassert os.environ['LC_ALL'] == 'C'"
    argv, log = fake_ncu(f"{text}\nassert sys.argv[-2:] == ['child', '--once']")
    log.write_text("of an earlier run")
    (found,) = run_under_ncu(argv, log, 30)
    assert found.value("smsp__inst_executed.sum") == 1024


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("open(log, 'w').write('==ERROR== ERR_NVGPUCTRPERM - The user does not')", "ERR_NVGPUCTRPERM.*SYS_ADMIN"),
        ("print('==ERROR== ERR_NVGPUCTRPERM'); sys.exit(1)", "NVreg_RestrictProfilingToAdminUsers=0"),
        (
            r"open(log, 'w').write('==ERROR== Failed to find metric regex:^sm__x\\.(sum|min)$'); sys.exit(1)",
            "has no metric sm__x",
        ),
        ("sys.stderr.write('first\\nlast words'); sys.exit(3)", "status 3 and said: first / last words"),
        ("sys.exit(3)", "status 3 and said: nothing"),
        ("open(log, 'w').write('==WARNING== No kernels were profiled.')", "counted no kernel"),
        ("open(log, 'w').write('==ERROR== The application returned an error code (1).')", "returned an error code"),
        ("pass", "no table of ncu"),
    ],
)
def test_a_failure_says_why(fake_ncu: Callable[[str], tuple[tuple[str, ...], Path]], text: str, message: str) -> None:
    argv, log = fake_ncu(text)
    with pytest.raises(InputError, match=message):
        run_under_ncu(argv, log, 30)


def test_a_run_ends_at_its_limit_with_all_that_it_started(
    fake_ncu: Callable[[str], tuple[tuple[str, ...], Path]], tmp_path: Path
) -> None:
    child = tmp_path / "pid"
    argv, log = fake_ncu(
        f"p = subprocess.Popen(['sleep', '600']); open({str(child)!r}, 'w').write(str(p.pid)); time.sleep(600)"
    )
    for seconds in (1, 4, 16, 64):  # a busy machine starts a process late
        with pytest.raises(BudgetExceededError, match=f"did not end within {seconds} s"):
            run_under_ncu(argv, log, seconds)
        if child.exists():
            break
    pid = int(child.read_text())
    deadline = time.monotonic() + 100
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


def test_no_ncu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(counters, "_INSTALLED", ())
    with pytest.raises(InputError, match=r"PATH: ncu was not found\. Install NVIDIA Nsight Compute"):
        find_ncu()
    with pytest.raises(InputError, match="ncu cannot be started"):
        run_under_ncu((str(tmp_path / "ncu"),), tmp_path / "c.csv", 5)


def test_the_newest_ncu_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    for version in ("2024.3.2", "2025.1.0", "2025.11.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "ncu").touch()
    monkeypatch.setattr(counters, "_INSTALLED", (f"{tmp_path}/*/ncu",))
    assert find_ncu() == str(tmp_path / "2025.11.0" / "ncu")
