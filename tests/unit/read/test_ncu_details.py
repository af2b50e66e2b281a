"""The reader of ncu's details page: display names and ids, rules, short rows, the forms of 2020, 2023 and 2025.

The golden files are invented kernels in the forms that public output of these versions has.
"""

import csv
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import InputError, KerncastError
from kerncast.gpu import DATA
from kerncast.read.ncu import NcuRow, base_unit, metric_id, read_ncu_csv
from tests.helpers.places import TESTS

GOLDEN = TESTS / "golden" / "ncu"


def golden(name: str) -> tuple[NcuRow, ...]:
    with (GOLDEN / name).open(encoding="utf-8") as lines:
        return read_ncu_csv(lines, name)


def test_display_names_of_2020() -> None:
    force, move = golden("details_2020.csv")
    assert (force.number, force.kernel, force.grid, force.block) == (0, "force(float4 *, int)", None, None)
    assert force.value("gpu__time_duration.sum") == 123456
    assert force.value("gpc__cycles_elapsed.avg.per_second") == 1.2e9  # 1.20 cycle/nsecond
    assert force.value("dram__throughput.avg.pct_of_peak_sustained_elapsed") == 40  # SOL FB
    assert force.value("launch__grid_size") == 800
    assert force.value("launch__registers_per_thread") == 40
    assert force.value("sm__warps_active.avg.per_cycle_active") == 30.72
    assert move.value("gpu__time_duration.sum") == 8000


def test_rules_and_short_rows_of_2025() -> None:
    blur, fill = golden("details_2025.csv")
    assert (blur.grid, blur.block, blur.compute_capability) == ((1056, 1, 1), (512, 1, 1), "9.0")
    # The same display name in two sections, told apart by the unit.
    assert blur.value("dram__bytes.sum.per_second") == 1.85e12
    assert blur.value("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed") == 55.1
    assert blur.value("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed") == 55.1
    assert blur.value("gpu__time_duration.sum") == 40_000
    assert blur.value("smsp__inst_executed.sum") == 5_406_720
    assert blur.value("smsp__thread_inst_executed_per_inst_executed.ratio") == 31.5
    assert blur.value("launch__sm_count") == 132
    assert (fill.number, fill.kernel, len(fill.metrics)) == (1, "fill(float *, int)", 2)


def test_metric_ids() -> None:
    (spmv,) = golden("details_metrics_2023.csv")
    assert spmv.value("dram__bytes_read.sum") == 1_048_576
    assert spmv.value("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum") == 2000
    assert spmv.value("lts__t_sectors_op_red.sum") is None
    assert spmv.value("device__attribute_multiprocessor_count") == 68


@pytest.mark.parametrize(
    ("label", "unit", "expected"),
    [
        ("Duration", "ns", "gpu__time_duration.sum"),
        ("duration", "ns", "gpu__time_duration.sum"),
        ("Achieved Occupancy", "%", "sm__warps_active.avg.pct_of_peak_sustained_active"),
        ("gpu__time_duration.sum", "ns", "gpu__time_duration.sum"),
        ("Duration (gpu__time_duration.sum)", "ns", "gpu__time_duration.sum"),
        ("Duration", "%", None),
        ("A name of a later version", "%", None),
        ("__", "", None),
    ],
)
def test_names_of_metrics(label: str, unit: str, expected: str | None) -> None:
    assert metric_id(label, unit) == expected


HEADER = '"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name"'


def row(number: str, name: str, unit: str, value: str, kernel: str = "k(int)") -> str:
    return f'"{number}","7","{kernel}","S","{name}","{unit}","{value}",'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([HEADER, row("x", "Duration", "ns", "1")], "line 2: the ID"),
        ([HEADER, row("0", "Duration", "ns", "1", "")], "line 2: the ID"),
        ([HEADER, row("0", "Duration", "ns", "1"), row("0", "Duration", "ns", "1", "f()")], "line 3: launch 0 is of"),
        ([HEADER, '"0","7","k"'], "line 2: 3 values for 8 columns"),
        ([HEADER, row("0", "Duration", "ns", "1.234,5")], "line 2: gpu__time_duration.sum is .* LC_ALL=C"),
        ([HEADER, row("0", "Duration", "ns", "1e300")], "line 2: gpu__time_duration.sum is"),
        ([HEADER, '"0","7","k","S","","","","a rule', "without an end"], "line 2: the last row has no end"),
        ([HEADER, '"0","7","k","S","","","","a rule', *["more"] * 200], "line 2: the row has no end"),
        ([HEADER.replace("Metric Value", "Value")], "line 1: the column Metric Value is missing"),
        ([HEADER, row("0", "Duration", "ns", "1" * 2_000_000)], "line 2: the line has more than 1,048,576 characters"),
        (['"Process ID","Kernel Name","Invocations","Section Name","Metric Name","Metric Unit","Minimum","Maximum"'],
         "line 1: this is a summary over launches. Write it again without --print-summary"),
    ],
)  # fmt: skip
def test_what_is_no_details_page_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_ncu_csv(lines, "p.csv")


def test_launches_of_two_processes_are_two() -> None:
    lines = [HEADER, row("0", "Duration", "us", "1"), row("0", "Duration", "us", "2").replace('"7"', '"8"')]
    assert [each.value("gpu__time_duration.sum") for each in read_ncu_csv(lines)] == [1000, 2000]


def test_raw_and_details_tables_in_one_file() -> None:
    raw = (GOLDEN / "raw_2024.csv").read_text(encoding="utf-8").splitlines()
    details = (GOLDEN / "details_2020.csv").read_text(encoding="utf-8").splitlines()
    kernels = [each.kernel.split("(")[0] for each in read_ncu_csv([*details, *raw, *details])]
    assert kernels == ["force", "move", "heat_step", "void app::total<float, 256>", "heat_step", "force", "move"]


@pytest.mark.parametrize("name", ["details_2020.csv", "details_2025.csv", "raw_2024.csv"])
@given(st.data())
def test_changed_files_are_read_or_refused(name: str, data: st.DataObject) -> None:
    text = (GOLDEN / name).read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 200)))
    changed = text[:start] + data.draw(st.text(max_size=30)) + text[end:]
    try:
        rows = read_ncu_csv(changed.splitlines(), name)
    except KerncastError:
        return
    assert all(abs(metric.value) < 1e43 for each in rows for metric in each.metrics)


def test_the_table_of_display_names_is_whole() -> None:
    """Each name with a unit stands once, for a metric with a unit in front and, except for the launch, a suffix."""
    with (DATA / "ncu_labels.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    keys = [(each["label"].casefold(), each["unit"], each["from"]) for each in rows]
    assert len(set(keys)) == len(keys)
    for each in rows:
        assert re.fullmatch(r"launch__\w+|\w+__\w+\.[\w.]+|sm__maximum_warps_per_active_cycle_pct", each["metric"])
        assert re.fullmatch(r"20\d\d", each["from"])
        assert re.fullmatch(r"(20\d\d)?", each["to"])
        assert base_unit(each["unit"]) == (1.0, each["unit"])
