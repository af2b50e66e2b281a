"""Reports (.ncu-rep): what NVIDIA's reader gives becomes rows, and whatever it does to its process becomes an error.

A small module with the reader's interface stands in for it: the reader may not be passed on, and needs real reports.
Where the extra is installed, garbage goes to the real one too.
"""

import importlib.util
import json
from pathlib import Path

import pytest

from kerncast import child_process
from kerncast.errors import InputError
from kerncast.forecast import Options, forecast_all, resolve_gpus
from kerncast.gpu import load_gpu
from kerncast.profiles.counts import DRAM_BYTES, FP32_FLOPS, L1_BYTES
from kerncast.read.ncu import SIGNATURE, is_report, profiles_of, read_ncu_report
from kerncast.read.ncu import report as ncu_reader
from kerncast.report.forecast.document import build_document
from kerncast.report.page.pages import render_html, render_markdown

READER = """
import json, os, sys, time

class IMetric:
    ValueKind_UNKNOWN, ValueKind_ANY, ValueKind_STRING, ValueKind_FLOAT, ValueKind_DOUBLE = range(5)
    ValueKind_UINT32, ValueKind_UINT64 = 5, 6
    def __init__(self, value, unit="", instances=None):
        self.held, self.text, self.instances = value, unit, instances or {}
    def kind(self):
        return self.ValueKind_STRING if isinstance(self.held, str) else self.ValueKind_DOUBLE
    def as_double(self, place=None):
        return float(self.held) if place is None else float(list(self.instances.values())[place])
    def as_string(self, place=None):
        return self.held if place is None else list(self.instances)[place]
    def as_uint64(self, place):
        return int(list(self.instances)[place])
    def unit(self):
        return self.text
    def num_instances(self):
        return len(self.instances)
    def has_correlation_ids(self):
        return bool(self.instances)
    def correlation_ids(self):
        return IMetric("", "", self.instances)

class ISourceInfo:
    def __init__(self, file, line):
        self.held = file, line
    def file_name(self):
        return self.held[0]
    def line(self):
        return self.held[1]

class IAction:
    NameBase_FUNCTION, NameBase_DEMANGLED, NameBase_MANGLED = range(3)
    def __init__(self, name, metrics, code=None, files=None):
        self.code, self.files = code or {}, files or {}
        self.called, self.metrics = name, {key: IMetric(*value) for key, value in metrics.items()}
    def name(self, base=0):
        return self.called if base == self.NameBase_DEMANGLED else self.called.split("(")[0]
    def source_info(self, address):
        found = self.code.get(str(address))
        return found and ISourceInfo(*found[1:])
    def sass_by_pc(self, address):
        return self.code.get(str(address), [""])[0]
    def source_files(self):
        return self.files
    def metric_names(self):
        return tuple(self.metrics)
    def metric_by_name(self, name):
        return self.metrics.get(name)

def load_report(path):
    told = json.loads(open(path, "rb").read()[4:])
    print("the reader says something")
    if told == "abort":
        os.abort()
    if told == "exit":
        os._exit(3)
    if told == "hang":
        time.sleep(600)
    if told == "grow":
        return bytearray(7 << 30)  # above the limit, and below what the system would promise
    if told == "raise":
        raise RuntimeError("not of this version")
    return [[IAction(*action) for action in profiled] for profiled in told]
"""
SAXPY = {
    "device__attribute_display_name": ["NVIDIA TITAN V"],
    "device__attribute_multiprocessor_count": [80],
    "dram__bytes.sum.per_second": [500.0, "Gbyte/s"],
    "gpu__time_duration.sum": [20.0, "us"],
    "launch__block_dim_x": [256], "launch__block_dim_y": [1], "launch__block_dim_z": [1],
    "launch__grid_dim_x": [4096], "launch__grid_dim_y": [1], "launch__grid_dim_z": [1],
    "launch__registers_per_thread": [10, "register/thread"],
    "launch__func_cache_config": ["cudaFuncCachePreferNone"],
    "launch__occupancy_per_block_size": [1.0],
    "smsp__broken.sum": ["nan"],
    "memory_l2_theoretical_sectors_global": [393216, "sectors"],
    "thread_inst_executed_true": [9.0, "inst"],
    "sass__thread_inst_executed_true_per_opcode": [7340032, "", {"FFMA": 1048576, "IMAD": 2097152, "LDG": 2097152}],
}  # fmt: skip


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the stand-in, which the child process finds first."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "ncu_report.py").write_text(READER, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def report(folder: Path, told: object) -> Path:
    path = folder / "p.ncu-rep"
    path.write_bytes(SIGNATURE + json.dumps(told).encode())
    return path


def test_kernels_of_all_ranges(reader: Path) -> None:
    other = {**SAXPY, "gpu__time_duration.sum": [1.5, "ms"]}
    path = report(reader, [[["saxpy(int, float)", SAXPY]], [], [["two<3>()", other], ["three", SAXPY]]])
    rows = read_ncu_report(path)
    assert [(row.number, row.kernel) for row in rows] == [(0, "saxpy(int, float)"), (1, "two<3>()"), (2, "three")]
    saxpy = rows[0]
    assert (saxpy.grid, saxpy.block, saxpy.device) == ((4096, 1, 1), (256, 1, 1), "NVIDIA TITAN V")
    assert saxpy.value("gpu__time_duration.sum") == 20_000
    assert rows[1].value("gpu__time_duration.sum") == 1_500_000
    assert saxpy.value("launch__occupancy_per_block_size") is None
    assert saxpy.value("smsp__broken.sum") is None
    opcode = "sass__thread_inst_executed_true_per_opcode.{}"
    assert (saxpy.value(opcode.format("FFMA")), saxpy.value(opcode.format("DADD"))) == (1048576, 0)
    (profile,) = profiles_of(rows[:1], None)
    assert profile.run is not None
    assert profile.run.gpu == load_gpu("titan-v")
    assert profile.counts[FP32_FLOPS].value == 2 * 1048576
    assert profile.counts[L1_BYTES].value == 12 * 1048576  # two floats read, one written
    assert profile.counts[DRAM_BYTES].value == pytest.approx(1e7)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("abort", "NVIDIA's reader ended by signal SIGABRT"),
        ("exit", "NVIDIA's reader ended with status 3"),
        ("grow", "NVIDIA's reader ran out of memory"),
        ("raise", "NVIDIA's reader refuses it .RuntimeError: not of this version"),
        ([], "it holds no profiled kernel"),
        ([[["None", {}]]], "launch 0 of it has no metrics"),
        ({"x": 1}, "NVIDIA's reader refuses it"),
    ],
)
def test_what_ends_the_reader_is_an_error(reader: Path, told: object, message: str) -> None:
    with pytest.raises(InputError, match=f"{message}.*ncu --import FILE --csv --page raw"):
        read_ncu_report(report(reader, told))


def test_a_reader_that_hangs_is_ended(reader: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu_reader, "_SECONDS", 1.0)
    monkeypatch.setattr(ncu_reader, "_GRACE_SECONDS", 0.5)
    monkeypatch.setattr(child_process, "_WALL_PER_CPU_SECOND", 1.0)
    with pytest.raises(InputError, match="did not end within 1 s"):
        read_ncu_report(report(reader, "hang"))


@pytest.mark.parametrize("value", ["1e999", "-1e999", "1e308", "NaN", "1" + "0" * 400])
def test_a_child_that_was_taken_over_sends_no_number(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"name": "k", "device": None, "metrics": [["gpu__time_duration.sum", json.loads(value), "us"]]}
    monkeypatch.setattr(ncu_reader, "_exchange", lambda _: {"rows": [row]})
    with pytest.raises(InputError, match="cannot make sense of it"):
        read_ncu_report(report(tmp_path, []))


def test_without_the_extra_the_cure_is_named(reader: Path) -> None:
    (reader / "ncu_report.py").write_text("raise ImportError", encoding="utf-8")
    with pytest.raises(InputError, match=r"is not installed\. .*pip install 'kerncast\[ncu\]'.* --csv --page raw"):
        read_ncu_report(report(reader, []))


def test_a_file_that_is_none_is_refused_before_a_child_is_started(tmp_path: Path) -> None:
    for content in (b"", b"NVR", b'"ID","Process ID"\n', b"\x7fELF" * 100):
        path = tmp_path / "p.ncu-rep"
        path.write_bytes(content)
        assert not is_report(content)
        with pytest.raises(InputError, match="it is not a report of Nsight Compute"):
            read_ncu_report(path)
    for path in (tmp_path / "missing", tmp_path, tmp_path / "a\0b"):
        with pytest.raises(InputError, match="cannot be read"):
            read_ncu_report(path)


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.ncu-rep"
    with path.open("wb") as stream:
        stream.write(SIGNATURE)
        stream.truncate(2**30 + 1)  # sparse
    with pytest.raises(InputError, match="more than 1024 MiB"):
        read_ncu_report(path)


@pytest.mark.skipif(importlib.util.find_spec("ncu_report") is None, reason="needs the extra ncu")
@pytest.mark.parametrize(
    "body", [b"", b"\0" * 100, b"\x02\0\0\0\x08\x07c\x01\0\0\x08\0" * 1000, bytes(range(256)) * 50]
)
def test_garbage_ends_in_an_error_of_the_real_reader(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "p.ncu-rep"
    path.write_bytes(SIGNATURE + body)
    with pytest.raises(InputError, match="ncu --import FILE"):
        read_ncu_report(path)


_STALLED = "smsp__pcsamp_warps_issue_stalled_"
#: The parts of a real report of an RTX 3070 in which each address has its instruction, its line and its counters.
SAMPLED = {
    **SAXPY,
    "inst_executed": [48, "inst", {"16": 16, "32": 16, "48": 16}],
    f"{_STALLED}long_scoreboard": [30, "", {"32": 30}], f"{_STALLED}wait": [10, "", {"16": 4, "32": 6}],
    f"{_STALLED}wait_not_issued": [9, "", {"16": 9}],
}  # fmt: skip
CODE = {"16": ["  MOV R1, c[0x0][0x28]", "k.cu", 2], "32": ["@P0   LDG.E R2, [R2.64]", "k.cu", 3]}


def test_source_lines_have_samples_and_machine_code(reader: Path) -> None:
    """40 samples: 4 of line 2, 36 of line 3; the third instruction is of no line."""
    rows = read_ncu_report(report(reader, [[["k", SAMPLED, CODE, {"k.cu": "first\nsecond\nthird"}], ["k", SAXPY]]]))
    nameless, second, third = rows[0].lines
    assert rows[1].lines == ()
    assert (nameless.file, nameless.line, nameless.samples, nameless.warp_instructions) == ("", 0, 0, 16)
    assert (second.line, second.text, second.samples, second.sass) == (2, "second", 4, ("MOV R1, c[0x0][0x28]",))
    assert [(each.state, each.samples) for each in third.states] == [("long_scoreboard", 30), ("wait", 6)]
    (profile, _) = profiles_of(rows, load_gpu("titan-v"), "p.ncu-rep")
    assert profile.run is not None
    assert profile.run.lines == rows[0].lines


def test_a_report_shows_the_lines_of_a_measured_run(reader: Path) -> None:
    path = report(reader, [[["k", SAMPLED, CODE, {"k.cu": "first\nsecond\n<third>"}]]])
    found = forecast_all(path, resolve_gpus(["T4"]), Options())
    text = render_markdown(build_document(found))
    assert "## Source lines measured on TITAN V" in text
    assert "| 90 % | L1, L2 or DRAM 83 %, an arithmetic result 17 % | 33.3 % |" in text
    page = render_html(build_document(found))
    assert "&lt;third&gt;" in page
    assert "LDG.E R2, [R2.64]" in page
