"""Any measurement is read as it was written; any mangled file is a measurement or a readable error."""

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from kerncast.bench.export import export
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
    Recorder,
    Trial,
    outliers,
    read_with_remarks,
    summarise,
)
from kerncast.printable import write_csv
from tests.helpers.thorough import examples

texts = st.text(st.characters(codec="utf-8"), max_size=8)
wholes = st.integers(0, 2**63 - 1)
numbers = st.floats(-1e100, 1e100)
times = st.floats(0, 1e100, exclude_min=True)
extents = st.tuples(wholes, wholes, wholes)
machines = st.builds(
    Machine,
    **dict.fromkeys(("gpu_name", "gpu_uuid", "compute_capability", "driver", "compiler", "host", "software"), texts),
    **dict.fromkeys(("sm_count", "memory_bytes", "l2_bytes"), wholes),
    clock_max_hz=numbers,
    memory_clock_hz=st.none() | numbers,
    memory_bus_bits=st.none() | wholes,
    power_limit_w=st.none() | numbers,
    ecc_enabled=st.none() | st.booleans(),
    mig_enabled=st.none() | st.booleans(),
)
states = st.builds(
    ClockState,
    **dict.fromkeys(("sm_hz", "memory_hz", "temperature_c", "power_w"), st.none() | numbers),
    throttle_reasons=st.lists(texts, max_size=2).map(tuple),
)


@st.composite
def measurements(draw: st.DrawFn) -> Measurement:
    """Return any measurement that a file can hold."""
    keys = draw(st.lists(texts, min_size=1, max_size=3, unique=True))
    key = st.sampled_from(keys)
    trial = st.builds(
        Trial,
        configuration=key,
        method=st.sampled_from(Method),
        number=wholes,
        seconds=st.lists(times, min_size=1, max_size=5).map(tuple),
        warmup_seconds=st.lists(times, max_size=2).map(tuple),
        launches_per_sample=wholes,
        before=states,
        after=states,
        began=texts,
    )
    values = st.lists(numbers, max_size=3).map(tuple)
    metrics = st.lists(st.tuples(texts, numbers, texts), max_size=3).map(tuple)
    check = st.builds(Check, key, st.sampled_from(Outcome), wholes, numbers, texts)
    return Measurement(
        machine=draw(machines),
        configurations=tuple(draw(configuration(key)) for key in keys),
        trials=tuple(
            draw(st.lists(trial, max_size=4, unique_by=lambda t: (t.configuration, t.method, t.number))),
        ),
        readings=tuple(draw(st.lists(st.builds(Reading, key, texts, values, texts), max_size=2))),
        checks=tuple(draw(st.lists(check, max_size=2))),
        counters=tuple(draw(st.lists(st.builds(Counters, key, metrics), max_size=2))),
        failures=tuple(draw(st.lists(st.builds(Failure, texts, texts, texts), max_size=2))),
    )


def configuration(key: str) -> st.SearchStrategy[Configuration]:
    return st.builds(
        Configuration,
        key=st.just(key),
        kernel=texts,
        source_sha256=texts,
        code_sha256=texts,
        grid=extents,
        block=extents,
        shared_bytes=wholes,
        arguments=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
        seed=wholes,
        registers_per_thread=wholes,
        sm_count=st.none() | wholes,
        amount=st.none() | numbers,
        amount_unit=st.none() | texts,
    )


@contextmanager
def empty_folder() -> Iterator[Path]:
    """Give a folder in which no file has to survive a power cut."""
    with tempfile.TemporaryDirectory() as folder, patch.object(os, "fsync"):
        yield Path(folder)


def write(measurement: Measurement, path: Path) -> None:
    m = measurement
    with Recorder.open(path, m.machine) as recorder:
        for group in (m.configurations, m.trials, m.readings, m.checks, m.counters, m.failures):
            for record in group:
                recorder.add(record)
        assert recorder.measurement == measurement


@given(measurements())
@settings(max_examples=examples(40))
def test_what_is_written_is_read(measurement: Measurement) -> None:
    with empty_folder() as folder:
        write(measurement, folder / "m.jsonl")
        assert read_with_remarks(folder / "m.jsonl") == (measurement, ())
        with Recorder.open(folder / "m.jsonl", measurement.machine) as recorder:
            assert recorder.measurement == measurement


@given(measurements())
@settings(max_examples=examples(40))
def test_both_tables_hold_the_same_cells(measurement: Measurement) -> None:
    with empty_folder() as folder:
        for kind in ("", ".counters"):
            export(measurement, folder / f"t{kind}.csv")
            export(measurement, folder / f"t{kind}.parquet")
            rows = parquet.read_table(folder / f"t{kind}.parquet").to_pylist()
            with (folder / f"t{kind}.csv").open(encoding="utf-8", newline="") as stream:
                assert list(csv.DictReader(stream)) == [{k: as_text(v) for k, v in row.items()} for row in rows]
        samples = parquet.read_table(folder / "t.parquet").to_pylist()
    assert [r["seconds"] for r in samples if not r["is_warmup"]] == pytest.approx(
        [s for group in grouped(measurement) for trial in group for s in trial.seconds], rel=0
    )
    flags = [r["is_outlier"] for r in samples if not r["is_warmup"]]
    assert flags == [
        flag for group in grouped(measurement) for flag in outliers(s for trial in group for s in trial.seconds)
    ]


def as_text(cell: object) -> str:
    """Return a cell as CSV has it: texts show signs that steer, and begin no formula."""
    if cell is None or isinstance(cell, bool):
        return {None: "", True: "true", False: "false"}[cell]
    stream = io.StringIO(newline="")
    write_csv(stream, [(cell, "")])
    return next(csv.reader([stream.getvalue()]))[0]


def grouped(measurement: Measurement) -> list[list[Trial]]:
    groups: dict[tuple[str, Method], list[Trial]] = {}
    for trial in measurement.trials:
        groups.setdefault((trial.configuration, trial.method), []).append(trial)
    return list(groups.values())


edits = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 4), st.binary(min_size=1, max_size=3)), min_size=1)


@given(measurements(), edits)
@settings(max_examples=examples(50))
def test_a_mangled_file_is_a_measurement_or_a_readable_error(
    measurement: Measurement, changes: list[tuple[float, int, bytes]]
) -> None:
    with empty_folder() as folder:
        path = folder / "m.jsonl"
        write(measurement, path)
        data = bytearray(path.read_bytes())
        for place, length, new in changes:
            start = int(place * len(data))
            data[start : start + length] = new
        path.write_bytes(data)
        check_is_read_or_refused(path, measurement.machine)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


@given(measurements(), st.integers(0, 1000), st.integers(0, 1000), json_values)
@settings(max_examples=examples(50))
def test_any_value_of_a_wrong_type_is_refused_or_read(
    measurement: Measurement, line: int, field: int, value: object
) -> None:
    with empty_folder() as folder:
        path = folder / "m.jsonl"
        write(measurement, path)
        tables = [json.loads(text) for text in path.read_text(encoding="utf-8").split("\n")[:-1]]
        table = tables[line % len(tables)]
        table = table["machine"] if "machine" in table and field % 2 else table
        table[list(table)[field % len(table)]] = value
        path.write_text("".join(json.dumps(each) + "\n" for each in tables), encoding="utf-8")
        check_is_read_or_refused(path, measurement.machine)


def answer(path: Path) -> Measurement | str:
    """Return what a file holds, or the text of the error that a user would read."""
    try:
        return read_with_remarks(path)[0]
    except InputError as error:
        return str(error)


def check_is_read_or_refused(path: Path, machine: Machine) -> None:
    before, found = path.read_bytes(), answer(path)
    if isinstance(found, str):
        assert "m.jsonl" in found
        assert len(found) < 3000
        with pytest.raises(InputError):
            Recorder.open(path, machine)
        assert path.read_bytes() == before
    elif b'"schema_version": "1.0"' in before:
        Recorder.open(path, found.machine).close()
        assert read_with_remarks(path) == (found, ())


samples = st.lists(st.integers(1, 10**6).map(float), min_size=1, max_size=40)


@given(samples, st.sampled_from([0.25, 2.0, 1024.0]))
def test_outliers_depend_on_neither_unit_nor_order(values: list[float], scale: float) -> None:
    flags = outliers(values)
    assert outliers([v * scale for v in values]) == flags
    assert outliers(values[::-1]) == flags[::-1]
    assert sum(flags) <= len(values) / 2


@given(st.lists(samples, min_size=1, max_size=5))
def test_a_summary_is_what_numpy_says(trials: list[list[float]]) -> None:
    state = ClockState()
    found = summarise(
        Trial("k", Method.SINGLE, number, tuple(seconds), (), 1, state, state, "")
        for number, seconds in enumerate(trials)
    )
    flat = np.concatenate([np.array(t) for t in trials])
    means = [np.mean(t) for t in trials]
    assert found.mean == pytest.approx(flat.mean())
    assert found.median == pytest.approx(np.median(flat))
    assert found.deviation == (pytest.approx(np.std(means, ddof=1), abs=1e-6) if len(means) > 1 else None)
    assert found.lowest <= found.median <= found.highest
    assert (found.lowest, found.highest) == (flat.min(), flat.max())
