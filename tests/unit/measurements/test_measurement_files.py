"""Measurement files: what is added stays, whatever is cut, mangled, mixed or killed; and the tables made from them."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from kerncast.bench.export import SAMPLE_COLUMNS, export
from kerncast.errors import InputError
from kerncast.measurements import (
    Check,
    ClockState,
    Configuration,
    Counters,
    Failure,
    Machine,
    Measurement,
    Method,
    Outcome,
    Reading,
    Record,
    Recorder,
    Trial,
    files,
    read_measurement,
    read_with_remarks,
)
from tests.helpers.places import ROOT, required_packages

MACHINE = Machine(
    gpu_name="NVIDIA H200",
    gpu_uuid="GPU-6d1a9c6e-0000-0000-0000-000000000001",
    compute_capability="9.0",
    sm_count=132,
    memory_bytes=150_754_820_096,
    l2_bytes=62_914_560,
    clock_max_hz=1.98e9,
    memory_clock_hz=3.201e9,
    memory_bus_bits=6144,
    power_limit_w=700.0,
    ecc_enabled=True,
    mig_enabled=False,
    driver="570.124.06, CUDA 12.8",
    compiler="NVRTC 12.9",
    host="Linux 6.8, AMD EPYC 9654",
    software="kerncast 0.2.0, Python 3.12.3",
)
SAXPY = Configuration(
    key="seed/saxpy#0",
    kernel="saxpy",
    source_sha256="5f2c",
    code_sha256="91ab",
    grid=(4096, 1, 1),
    block=(256, 1, 1),
    shared_bytes=0,
    arguments=(("n", "1048576"), ("a", "2.0"), ("x", "f32[1048576] random"), ("y", "f32[1048576] zeros")),
    seed=0,
    registers_per_thread=12,
    amount=12582912.0,
    amount_unit="B",
)
COOL = ClockState(sm_hz=1.98e9, memory_hz=3.201e9, temperature_c=41.0, power_w=118.5)
HOT = ClockState(sm_hz=1.755e9, temperature_c=62.0, throttle_reasons=("sw_power_cap", "hw_slowdown"))
TRIAL = Trial(
    configuration="seed/saxpy#0",
    method=Method.COLD,
    number=0,
    seconds=(6.112e-06, 6.048e-06, 6.08e-06, 9.5e-06, 6.1e-06),
    warmup_seconds=(1.2e-05, 6.2e-06),
    launches_per_sample=1,
    before=COOL,
    after=HOT,
    began="2026-03-01T12:00:00.250000+00:00",
)
OTHERS: tuple[Record, ...] = (
    Check("seed/saxpy#0", Outcome.EQUAL, 4096, 0.0, ""),
    Reading("seed/saxpy#0", "latency", (34.0, 35.5), "cycles"),
    Counters("seed/saxpy#0", (("dram__bytes.sum", 12582912.0, "byte"),)),
    Failure("seed/huge#3", "needs 96 KiB of shared memory", "2026-03-01T12:00:01.500000+00:00"),
)
ALL = (SAXPY, TRIAL, *OTHERS)


def record(path: Path, *records: Record, machine: Machine = MACHINE) -> Path:
    with Recorder.open(path, machine) as recorder:
        for each in records:
            recorder.add(each)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "h200.jsonl"


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_measurement(path)
    return str(caught.value)


# --- what is written is read ----------------------------------------------------------------------


def test_everything_is_read_as_it_was_written(path: Path) -> None:
    found, remarks = read_with_remarks(record(path, *ALL))
    assert remarks == ()
    check, reading, counters, failure = ((each,) for each in OTHERS)
    assert found == Measurement(MACHINE, (SAXPY,), (TRIAL,), reading, check, counters, failure)  # type: ignore[arg-type]


def test_resuming_knows_what_is_there(path: Path) -> None:
    record(path, SAXPY, TRIAL)
    with Recorder.open(path, replace(MACHINE, host="another kernel version")) as recorder:
        assert recorder.has("seed/saxpy#0", Method.COLD, 0)
        assert not recorder.has("seed/saxpy#0", Method.COLD, 1)
        assert not recorder.has("seed/saxpy#0", Method.SERIES, 0)
        recorder.add(SAXPY)
        recorder.add(replace(TRIAL, number=1))
        assert recorder.measurement == read_measurement(path)
    assert len(path.read_bytes().splitlines()) == 4


def test_a_record_is_in_the_file_when_add_returns(path: Path) -> None:
    with Recorder.open(path, MACHINE) as recorder:
        for number, each in enumerate(ALL):
            recorder.add(each)
            assert len(path.read_bytes().splitlines()) == number + 2


# --- what is refused when recording ---------------------------------------------------------------


def test_another_machine_is_refused_and_the_file_left_alone(path: Path) -> None:
    before = record(path, SAXPY, TRIAL).read_bytes()
    with pytest.raises(InputError, match=r"sm_count is 132, not 114; .*driver is '570.* not '580.*--out"):
        Recorder.open(path, replace(MACHINE, sm_count=114, driver="580.1, CUDA 13.0"))
    assert path.read_bytes() == before


def test_a_changed_kernel_is_refused(path: Path) -> None:
    with (
        Recorder.open(record(path, SAXPY), MACHINE) as recorder,
        pytest.raises(InputError, match=r"changed.* another source_sha256, code_sha256, seed"),
    ):
        recorder.add(replace(SAXPY, source_sha256="0", code_sha256="1", seed=1))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (TRIAL, "trial 0 is recorded already"),
        (replace(TRIAL, configuration="seed/other#0"), "unknown"),
        (replace(TRIAL, number=-1), "number is -1"),
        (replace(TRIAL, before=ClockState(sm_hz=float("nan"))), "cannot be written"),
        (
            replace(TRIAL, launches_per_sample=1.5),  # type: ignore[arg-type]
            "launches_per_sample is 1.5",
        ),
        (Failure("\ud800", "", ""), "surrogates"),
    ],
)
def test_what_no_reader_would_accept_is_not_written(path: Path, wrong: Record, message: str) -> None:
    before = record(path, SAXPY, TRIAL).read_bytes()
    with Recorder.open(path, MACHINE) as recorder, pytest.raises(InputError, match=message):
        recorder.add(wrong)
    assert path.read_bytes() == before


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    for place in (tmp_path / "no" / "file", tmp_path, tmp_path / ("n" * 300), Path("a\0b")):
        with pytest.raises(InputError):
            Recorder.open(place, MACHINE)


def test_a_file_of_something_else_is_left_alone(path: Path) -> None:
    for text in ("my notes", "my notes\n", '{"record": "trial"}\n', "{\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError):
            Recorder.open(path, MACHINE)
        assert path.read_text(encoding="utf-8") == text


def test_a_full_disk_spoils_no_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Recorder.open(record(path, SAXPY), MACHINE) as recorder:
        monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(InputError, match="No space left"):
            recorder.add(TRIAL)
        monkeypatch.undo()
        assert not recorder.has("seed/saxpy#0", Method.COLD, 0)
        recorder.add(TRIAL)
    assert read_measurement(path).trials == (TRIAL,)


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_a_line_that_fits_in_part_is_taken_back(path: Path) -> None:
    before = record(path, SAXPY).read_bytes()
    code = (
        "import resource, sys, test_measurement_files as t\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + 100},) * 2)\n"
        "t.record(t.Path(sys.argv[1]), t.TRIAL)\n"
    )
    done = python(code, path)
    assert "cannot be written (File too large)" in done.communicate()[1]
    assert path.read_bytes() == before


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )


# --- killed, torn, locked -------------------------------------------------------------------------

ADD_FOR_EVER = """
import itertools, sys, test_measurement_files as t
with t.Recorder.open(sys.argv[1], t.MACHINE) as recorder:
    recorder.add(t.SAXPY)
    for number in itertools.count(len(recorder.measurement.trials)):
        recorder.add(t.replace(t.TRIAL, number=number, seconds=(number + 1.0,) * 2000))
        print(number, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_process_loses_nothing_that_it_had_recorded(path: Path) -> None:
    recorded = -1
    for attempt in range(4):
        child = python(ADD_FOR_EVER, path)
        assert child.stdout is not None
        assert child.stdout.readline() == f"{recorded + 1}\n"
        time.sleep(0.037 * attempt)
        child.send_signal(signal.SIGKILL)
        recorded = int(([str(recorded + 1), *child.communicate()[0].splitlines()])[-1])
        trials = read_measurement(path).trials
        # The last one may be whole on the disk, and killed before it was said.
        assert recorded + 1 <= len(trials) <= recorded + 2
        assert all(t.number == i and t.seconds == (i + 1.0,) * 2000 for i, t in enumerate(trials))
        recorded = len(trials) - 1
    record(path, replace(TRIAL, number=recorded + 1))
    assert len(read_measurement(path).trials) == recorded + 2


def test_a_file_that_ends_anywhere_is_read_and_resumed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # thousands of files, none of which has to survive
    whole = record(path, SAXPY, TRIAL, OTHERS[3]).read_bytes()
    ends = [place.start() for place in re.finditer(b"\n", whole)]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        records_there = sum(cut >= end for end in ends) - 1
        if records_there < 0:
            assert "h200.jsonl" in refusal(path)
        else:
            found, remarks = read_with_remarks(path)
            assert (len(found.configurations), len(found.trials), len(found.failures)) == tuple(
                int(records_there > i) for i in range(3)
            )
            is_torn = cut not in {*ends, *(end + 1 for end in ends)}
            assert bool(remarks) == is_torn
        with Recorder.open(path, MACHINE) as recorder:
            for each in (SAXPY, TRIAL, OTHERS[3])[max(0, records_there) :]:
                recorder.add(each)
        assert path.read_bytes() == whole


def test_only_one_process_writes(path: Path) -> None:
    pytest.importorskip("fcntl")
    child = python(ADD_FOR_EVER, path)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(InputError, match="another process is writing"):
            Recorder.open(path, MACHINE)
        assert read_measurement(path).trials
    finally:
        child.kill()
        child.communicate()
    Recorder.open(path, MACHINE).close()


# --- what no file can mean ------------------------------------------------------------------------


def changed(kind: str, **values: Any) -> bytes:
    tables = {"trial": asdict(TRIAL), "configuration": asdict(replace(SAXPY, key="seed/new#0")), "check": {}}
    tables["check"], tables["failure"] = asdict(OTHERS[0]), asdict(OTHERS[3])
    table = {"record": kind, **tables[kind], **({"number": 1} if kind == "trial" else {}), **values}
    return json.dumps({k: v for k, v in table.items() if v != "absent"}).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\n", "not JSON"),
        (b"{}\n", "not a record"),
        (b"[1]\n", "not a record"),
        (b"\xff\n", "not UTF-8"),
        (b"[" * 200_000 + b"\n", "too deeply nested"),
        (b'{"record": ' * 200_000 + b"\n", "too deeply nested"),
        (b"1" * 5000 + b"\n", "line 4"),
        (b'{"record": "trial", "record": "trial"}\n', "twice"),
        (b'{"record": "colour"}\n', "'colour' in the file is unknown"),
        (b'{"record": "header"}\n', "'header' in the file is unknown"),
        (b'{"record": "counters", "configuration": "seed/saxpy#0", "metrics": [{"name": "x"}]}\n', "metric"),
        (changed("trial", colour=1), "colour in trial is unknown"),
        (changed("trial", began="absent"), "began is missing"),
        (changed("failure", at="absent"), "at is missing from failure"),
        (changed("configuration", code_sha256="absent"), "code_sha256 is missing from configuration"),
        (changed("trial", seconds=[]), "a sample is missing"),
        (changed("trial", seconds=[-1e-6]), "not a time above zero"),
        (changed("trial", seconds=["1"]), "seconds is '1'"),
        (changed("trial", seconds=[10**400]), "not a number"),
        (changed("trial", seconds=[True]), "not a number"),
        (changed("trial", seconds=[1e-6, float("nan")]), "NaN is not a number"),
        (changed("trial", seconds=[float("inf")]), "Infinity is not a number"),
        (changed("trial", seconds=[1e101]), "not a number of at most 1e100"),
        (changed("trial", seconds=["INF"]).replace(b'"INF"', b"1e999"), "not a number of at most 1e100"),
        (changed("trial", seconds={}), "not a list"),
        (changed("trial", number=0), "recorded already"),
        (changed("trial", number=1.0), "not a whole number"),
        (changed("trial", method="warm"), "none of series, rotated"),
        (changed("trial", before=[]), "not an object"),
        (changed("trial", configuration="seed/gone#0"), "unknown"),
        (changed("trial", configuration=7), "not a text"),
        (changed("check", configuration="seed/gone#0"), "unknown"),
        (changed("check", outcome="good"), "none of equal"),
        (changed("check", outcome=None), "not a text"),
        (changed("configuration", grid=[1, 1]), "2 values, not 3"),
        (changed("configuration", arguments=[["n"]]), "1 values, not 2"),
        (changed("configuration", key="seed/saxpy#0", seed=1), "changed"),
    ],
)
def test_a_line_that_cannot_be_meant(path: Path, line: bytes, message: str) -> None:
    whole = record(path, SAXPY, TRIAL).read_bytes()
    path.write_bytes(whole + line)
    text = refusal(path)
    assert "h200.jsonl line 4: " in text
    assert message in text
    assert len(text) < 1000


def test_what_is_no_measurement_file(path: Path, tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "none")
    assert "it is a folder" in refusal(tmp_path)
    assert "cannot be read" in refusal(Path("a\0b"))
    path.touch()
    assert "is empty" in refusal(path)
    path.write_bytes(changed("trial"))
    assert "line 1: the first line is not a header" in refusal(path)


def test_sizes_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = record(path, SAXPY, TRIAL).stat().st_size
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 400)
    assert "line 1: the line is longer than" in refusal(path)
    monkeypatch.undo()
    with Recorder.open(path, MACHINE) as recorder:
        monkeypatch.setattr(files, "MAX_FILE_BYTES", size)
        with pytest.raises(InputError, match="would exceed"):
            recorder.add(OTHERS[0])
    monkeypatch.undo()
    os.truncate(path, files.MAX_FILE_BYTES + 1)
    assert "it holds more than 256 MiB" in refusal(path)


def with_version(path: Path, version: object) -> Path:
    text = record(path, SAXPY, TRIAL).read_text(encoding="utf-8")
    path.write_text(text.replace('"1.0"', json.dumps(version), 1), encoding="utf-8")
    return path


@pytest.mark.parametrize("version", ["2.0", "0.9", "1", "1.x", "", None, 1.0, "1." + "9" * 5000])
def test_other_major_versions_are_refused(path: Path, version: object) -> None:
    assert "schema_version" in refusal(with_version(path, version))


def test_what_a_newer_minor_version_adds_is_skipped_with_a_remark(path: Path) -> None:
    with_version(path, "1.7")
    with path.open("ab") as stream:
        stream.write(changed("trial", colour="blue", before={"sm_hz": 1e9, "fan_hz": 50.0}))
        stream.write(b'{"record": "weather", "rain": true}\n')
    found, remarks = read_with_remarks(path)
    assert [t.before.sm_hz for t in found.trials] == [1.98e9, 1e9]
    assert [text.split(",")[0] for text in remarks] == [
        "colour in trial",
        "fan_hz in before",
        "record 'weather' in the file",
    ]
    with pytest.raises(InputError, match=r"schema version 1\.7"):
        Recorder.open(path, MACHINE)


# --- tables ---------------------------------------------------------------------------------------


def csv_cells(path: Path) -> Iterator[tuple[str, ...]]:
    with path.open(encoding="utf-8", newline="") as stream:
        yield from map(tuple, csv.reader(stream))


def test_both_tables_agree_and_keep_what_is_unknown_unknown(path: Path, tmp_path: Path) -> None:
    partition = replace(SAXPY, key="seed/saxpy#0@8", sm_count=8)
    trial = replace(TRIAL, configuration=partition.key, before=ClockState(), after=ClockState(), number=4)
    measurement = read_measurement(record(path, SAXPY, TRIAL, partition, trial))
    export(measurement, tmp_path / "t.csv")
    export(measurement, tmp_path / "t.parquet")
    names, *rows = csv_cells(tmp_path / "t.csv")
    table = parquet.read_table(tmp_path / "t.parquet")
    assert list(names) == table.column_names == list(SAMPLE_COLUMNS)
    kinds = {str: "string", int: "int64", float: "double", bool: "bool"}
    assert [str(t) for t in table.schema.types] == [kinds[kind] for kind in SAMPLE_COLUMNS.values()]
    texts = [{k: "" if v is None else str(v).lower() if v in {True, False} and isinstance(v, bool) else str(v)
              for k, v in row.items()} for row in table.to_pylist()]  # fmt: skip
    assert texts == [dict(zip(names, row, strict=True)) for row in rows]
    first, last = table.to_pylist()[0], table.to_pylist()[-1]
    assert (first["is_warmup"], first["is_outlier"], first["sm_count"]) == (True, None, None)
    assert (first["sm_hz_before"], first["power_w_after"]) == (1.98e9, None)
    assert first["throttle_reasons"] == "sw_power_cap;hw_slowdown"
    assert (last["sm_count"], last["trial"], last["sample"], last["is_warmup"]) == (8, 4, 4, False)
    assert [last[name] for name in ("sm_hz_before", "throttle_reasons")] == [None, None]
    assert [row["seconds"] for row in table.to_pylist() if row["is_outlier"]] == [9.5e-06] * 2


def test_an_outlier_is_one_among_its_own_method_and_configuration(path: Path, tmp_path: Path) -> None:
    """Worked by hand: the median of GRAPH is 1.01 and its median deviation 0.01, so 1.3 is beyond the limit of 0.052.

    Over all samples together these are 1.15 and 0.145: the limit of 0.75 would flag those of COLD, and not 1.3.
    """
    quick = replace(TRIAL, method=Method.SERIES, seconds=(1.0, 1.1, 1.2, 1.0, 1.1, 1.2, 1.0, 1.1, 1.2, 1.1))
    slow = replace(TRIAL, method=Method.COLD, seconds=(5.0, 5.1, 5.0, 5.1))
    steady = replace(TRIAL, method=Method.GRAPH, seconds=(1.0, 1.01, 1.02))
    unsteady = replace(steady, number=1, seconds=(1.01, 1.3))
    partition = replace(SAXPY, key="seed/saxpy#0@8", sm_count=8)
    part = replace(steady, configuration=partition.key, seconds=(1.3, 1.31, 1.29))
    measurement = read_measurement(record(path, SAXPY, quick, slow, steady, partition, part, unsteady))
    export(measurement, tmp_path / "t.parquet")
    rows = [row for row in parquet.read_table(tmp_path / "t.parquet").to_pylist() if not row["is_warmup"]]
    assert [(r["key"], r["method"], r["seconds"]) for r in rows if r["is_outlier"]] == [(SAXPY.key, "graph", 1.3)]
    assert len(rows) == 22


def test_counters_and_readings_have_a_table_of_their_own(path: Path, tmp_path: Path) -> None:
    export(read_measurement(record(path, *ALL)), tmp_path / "t.counters.csv")
    names, *rows = csv_cells(tmp_path / "t.counters.csv")
    assert [dict(zip(names, row, strict=True))["value"] for row in rows] == ["12582912.0", "34.0", "35.5"]
    assert [row[-5:-2] for row in rows] == [
        ("counter", "dram__bytes.sum", "0"), ("reading", "latency", "0"), ("reading", "latency", "1"),
    ]  # fmt: skip


def test_tables_that_cannot_be_written(tmp_path: Path) -> None:
    measurement = Measurement(MACHINE)
    for name in ("t.xlsx", "t", "no/t.csv", "no/t.parquet", "a\0b.csv"):
        with pytest.raises(InputError):
            export(measurement, tmp_path / name)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError):
        export(measurement, tmp_path / "folder.csv")
    assert [p.name for p in tmp_path.iterdir()] == ["folder.csv"]


def test_a_table_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    table = tmp_path / "t.parquet"
    table.write_text("old", encoding="utf-8")
    broken = Measurement(MACHINE, (SAXPY,), (replace(TRIAL, began="\ud800"),))
    with pytest.raises(InputError, match="cannot be written"):
        export(broken, table)
    assert [(p.name, p.read_text(encoding="utf-8")) for p in tmp_path.iterdir()] == [("t.parquet", "old")]


def test_parquet_without_pyarrow_names_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    asked = [each for each in required_packages() if each.startswith("pyarrow")]
    with pytest.raises(InputError, match=f"pip install '{asked[0]}'"):
        export(Measurement(MACHINE), tmp_path / "t.parquet")


# --- the document ---------------------------------------------------------------------------------


def test_the_document_shows_a_real_file(path: Path) -> None:
    """The example, which is broken into short lines for its readers, is what the recorder writes."""
    document = (ROOT / "docs" / "measurement-file.md").read_text(encoding="utf-8")
    rest = document.split("```json\n", 1)[1].split("```", 1)[0].strip()
    shown = []
    while rest:
        value, end = json.JSONDecoder().raw_decode(rest)
        shown.append(value)
        rest = rest[end:].lstrip()
    written = record(path, *ALL).read_text(encoding="utf-8").splitlines()
    assert [json.dumps(value, ensure_ascii=False) for value in shown] == written


def test_the_document_names_every_column() -> None:
    document = (ROOT / "docs" / "measurement-file.md").read_text(encoding="utf-8")
    assert [name for name in SAMPLE_COLUMNS if f"`{name}`" not in document] == []
