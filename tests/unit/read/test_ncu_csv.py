"""The reader of ncu's raw page, on samples in the forms of several versions.

The texts are written by hand after public files: the wide form with a unit row, "us" against "usecond", quoted cells,
thousands separators, "n/a" for what a GPU lacks, requests with and without a unit, the locale of Germany.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import InputError
from kerncast.read.ncu import NcuRow, base_unit, read_raw_page

HEADER_2024 = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC","dram__bytes_read.sum","gpu__time_duration.sum","launch__registers_per_thread",'
    '"smsp__inst_executed.sum"'
)
UNITS_2024 = '"","","","","","","","","","","","Mbyte","us","register/thread","inst"'
ROW_2024 = (
    '"0","4711","saxpy","127.0.0.1","saxpy(int, float, const float *, float *)","1","7","(256, 1, 1)","(4096, 1, 1)",'
    '"0","9.0","8.39","5.41","16","491,520"'
)
PAGE_2024 = f"""n = 1048576
==PROF== Connected to process 4711 (/home/me/saxpy)
==PROF== Profiling "saxpy" - 0: 0%....50%....100% - 3 passes
largest error 0, all is well
==PROF== Disconnected from process 4711
{HEADER_2024}
{UNITS_2024}
{ROW_2024}
"""


def read(text: str) -> tuple[NcuRow, ...]:
    return read_raw_page(text.splitlines(), "profile.csv")


def test_a_page_with_messages_before_it() -> None:
    (row,) = read(PAGE_2024)
    assert (row.number, row.kernel) == (0, "saxpy(int, float, const float *, float *)")
    assert (row.grid, row.block, row.compute_capability) == ((4096, 1, 1), (256, 1, 1), "9.0")
    assert [(m.name, m.value, m.unit) for m in row.metrics] == [
        ("dram__bytes_read.sum", 8.39e6, "byte"),
        ("gpu__time_duration.sum", 5410.0, "ns"),
        ("launch__registers_per_thread", 16.0, "register/thread"),
        ("smsp__inst_executed.sum", 491520.0, "inst"),
    ]
    assert row.value("smsp__inst_executed.sum") == 491520
    assert row.value("l1tex__t_bytes.sum") is None


def test_the_form_of_2020_has_a_time_and_no_geometry() -> None:
    page = """==PROF== Connected to process 64237
"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream",\
"gpu__time_duration.sum","l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum","launch__grid_dim_x","launch__grid_dim_y",\
"launch__grid_dim_z"
"","","","","","","","","usecond","request","","",""
"1","64237","matrix_sums","127.0.0.1","row_sums(float const *,float*,unsigned long)","2020-Jul-28 06:42:00","1","7",\
"1,234.5","8,388,608","64","2","1"
"""
    (row,) = read(page)
    assert row.grid == (64, 2, 1)
    assert row.block is None
    assert row.compute_capability is None
    assert row.value("gpu__time_duration.sum") == pytest.approx(1_234_500)
    assert row.value("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum") == 8388608


def test_what_the_gpu_lacks_is_absent() -> None:
    for missing in ("n/a", "", "nan", "(!) n/a", "inf"):
        (row,) = read(PAGE_2024.replace('"8.39"', f'"{missing}"'))
        assert row.value("dram__bytes_read.sum") is None
        assert row.value("gpu__time_duration.sum") == 5410


def test_texts_and_instances() -> None:
    page = """"ID","Kernel Name","device__attribute_display_name","launch__func_cache_config","smsp__warps_launched.sum"
"","","","","warp"
"0","k","NVIDIA H100 80GB HBM3","CachePreferNone","12 (3; 3; 3; 3)"
"""
    (row,) = read(page)
    assert [m.name for m in row.metrics] == ["smsp__warps_launched.sum"]
    assert row.value("smsp__warps_launched.sum") == 12


def test_a_file_without_quotes_and_with_a_byte_order_mark() -> None:
    (row,) = read('\ufeffID,Kernel Name,Grid Size,dram__bytes_read.sum\n,,,Kbyte\n3,k,"(2, 3, 4)",1.5\n')
    assert (row.number, row.grid, row.value("dram__bytes_read.sum")) == (3, (2, 3, 4), 1500)


def test_several_tables_and_messages_between_rows() -> None:
    second = ROW_2024.replace('"0","4711"', '"1","4711"')
    rows = read(f"{PAGE_2024}==WARNING== One.\nthe application speaks, too\n{second}\n{PAGE_2024}")
    assert [row.number for row in rows] == [0, 1, 0]


@pytest.mark.parametrize("value", ["27.595.520", "14,26", "1.234,5", "12 345", "1,23,456", "1e999"])
def test_a_number_of_another_locale_is_refused(value: str) -> None:
    with pytest.raises(InputError, match=r"profile\.csv, line 8: dram__bytes_read\.sum .* LC_ALL=C") as caught:
        read(PAGE_2024.replace('"8.39"', f'"{value}"'))
    assert caught.value.exit_status == 2


def test_one_group_of_another_locale_is_refused_where_only_whole_numbers_fit() -> None:
    with pytest.raises(InputError, match=r"smsp__inst_executed\.sum is '491\.520', not a number such as 1,234\.5"):
        read(PAGE_2024.replace("491,520", "491.520"))
    (row,) = read(PAGE_2024.replace('"8.39"', '"8.390"').replace("491,520", "491.00"))
    assert row.value("dram__bytes_read.sum") == 8.39e6
    assert row.value("smsp__inst_executed.sum") == 491


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no table of ncu"),
        ("==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM\n", "no table of ncu"),
        (HEADER_2024, "ends before the row of units"),
        (f"{HEADER_2024}\n{ROW_2024}", "line 2: the row of units is missing"),
        (f"{HEADER_2024}\n{UNITS_2024}\n{ROW_2024[:80]}", "line 3: this is not CSV"),
        (f'{HEADER_2024}\n{UNITS_2024}\n"0","1"', "line 3: 2 values for 15 columns"),
        (PAGE_2024.replace('"0","4711"', '"x","4711"'), "line 8: the ID"),
        (PAGE_2024.replace('"0","4711"', f'"{"9" * 5000}","4711"'), "line 8: the ID"),
        (HEADER_2024.replace("gpu__time_duration.sum", "dram__bytes_read.sum"), "line 1: a column stands twice"),
        (HEADER_2024.replace("Kernel Name", "Kernel"), "line 1: the column Kernel Name is missing"),
        ('"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n', "line 1: this is the details page"),
    ],
)
def test_what_is_no_raw_page_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text)


@pytest.mark.parametrize(
    ("unit", "factor", "base"),
    [
        ("byte", 1, "byte"),
        ("Kbyte", 1e3, "byte"),
        ("Gbyte/s", 1e9, "byte/s"),
        ("byte/block", 1, "byte/block"),
        ("msecond", 1e6, "ns"),
        ("s", 1e9, "ns"),
        ("Ghz", 1e9, "hz"),
        ("MHz", 1e6, "hz"),
        ("cycle/usecond", 1e6, "cycle/s"),
        ("%", 1, "%"),
        ("", 1, ""),
        ("sector/request", 1, "sector/request"),
        ("an unknown one", 1, "an unknown one"),
    ],
)
def test_units(unit: str, factor: float, base: str) -> None:
    found_factor, found_base = base_unit(unit)
    assert found_factor == pytest.approx(factor)
    assert found_base == base


@given(st.text(max_size=400), st.integers(min_value=0, max_value=len(PAGE_2024)))
def test_garbage_and_cut_files_are_read_or_refused(text: str, place: int) -> None:
    for page in (text, PAGE_2024[:place], PAGE_2024[:place] + text + PAGE_2024[place:], f"{HEADER_2024}\n{text}"):
        try:
            rows = read(page)
        except InputError:
            continue
        assert all(abs(metric.value) < 1e40 for row in rows for metric in row.metrics)


@given(st.integers(min_value=0, max_value=10**15))
def test_separators_change_no_value(count: int) -> None:
    (row,) = read(PAGE_2024.replace("491,520", f"{count:,}"))
    assert row.value("smsp__inst_executed.sum") == count
