"""Tables of launches from CSV, Parquet, profilers and the executor; cleaning that counts what goes."""

import os
import random
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from kerncast.errors import InputError
from kerncast.measurements.feature_table import FeatureTable
from kerncast.profiles.counts import FP32_FLOPS
from kerncast.read.features import (
    CleaningRules,
    CleanTable,
    Derived,
    Why,
    derived,
    modified_z_scores,
    read_feature_table,
    roles_of,
)
from tests.helpers.places import ROOT

RODINIA = ROOT.parent / "shared" / "data" / "gpuperfpredict" / "rodinia.parquet"
HEADER = "gpu,kernel,grid_x,inst,cycles_elapsed,l2_throughput,note,time_us_min,time_us_median,time_us_std,n\n"


def row(grid: int, inst: float | str, time: float | str, kernel: str = "k") -> str:
    return f"K20,{kernel},{grid},{inst},{grid * 7},{grid * 3},text,{time},{time},0.1,10\n"


def read(folder: Path, text: str, rules: CleaningRules | None = None) -> CleanTable:
    path = folder / "launches.csv"
    path.write_text(text)
    return read_feature_table([path], rules)


def numbers(table: FeatureTable) -> list[list[float]]:
    return [[float(cell) for cell in row] for row in table.values]


def test_roles_and_units_are_told_by_names(tmp_path: Path) -> None:
    found = read(tmp_path, HEADER + row(1, 10, 2.5) + row(2, 20, 5))
    table = found.table
    assert table.names == ("grid_x", "inst", "cycles_elapsed")
    assert numbers(table) == [[1, 10, 7], [2, 20, 14]]
    assert table.seconds == pytest.approx([2.5e-6, 5e-6])
    assert (table.kernels, table.gpus, table.configurations) == (("k", "k"), ("K20",) * 2, ("grid_x=1", "grid_x=2"))
    assert {(each.name, each.why) for each in found.cleaning.removed} == {
        ("time_us_min", Why.TIME),
        ("time_us_std", Why.TIME),
        ("n", Why.LABEL),
        ("note", Why.TEXT),
        ("l2_throughput", Why.RATE),
    }
    assert found.cleaning.time_derived == ("cycles_elapsed",)


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("seconds", 2.0),
        ("time_ms", 2e-3),
        ("time_ns_mean", 2e-9),
        ("Duration (us)", 2e-6),
        ("duration_s", 2.0),
        ("gpu__time_duration.sum [us]", 2e-6),
        ("gpu__time_duration.sum_ns", 2e-9),
    ],
)
def test_units_of_time(tmp_path: Path, name: str, seconds: float) -> None:
    table = read(tmp_path, f"inst,{name}\n1,2\n2,2\n").table
    assert table.seconds == pytest.approx([seconds, seconds])


def test_each_row_that_goes_is_counted_once(tmp_path: Path) -> None:
    text = HEADER + row(1, 10, 2.5) + row(1, 10, 2.5) + row(2, "", 5) + row(3, 30, 0) + row(4, 40, -1) + row(5, 50, "")
    rows = [row(100 + i, i, 1) for i in range(15)]
    cleaning = read(tmp_path, text + "".join(rows)).cleaning
    assert (cleaning.rows_read, cleaning.rows_kept) == (21, 16)
    assert (cleaning.without_time, cleaning.missing, cleaning.duplicates, cleaning.outliers) == (3, 1, 1, 0)


def test_constant_and_mostly_missing_columns_are_named(tmp_path: Path) -> None:
    found = read(tmp_path, "a,b,c,seconds\n1,7,\n".replace("\n1,7,\n", "\n1,7,,1\n2,7,,1\n3,7,4,1\n"))
    assert found.table.names == ("a",)
    assert {(each.name, each.why) for each in found.cleaning.removed} == {("b", Why.CONSTANT), ("c", Why.MISSING)}
    asked = read(tmp_path, "a,b,seconds\n1,7,1\n2,7,1\n", CleaningRules(features=("b", "a"))).table
    assert asked.names == ("b", "a")


def test_outliers_among_repeats_by_the_modified_z_score(tmp_path: Path) -> None:
    times = [10, 10.1, 9.9, 10.2, 9.8, 40]
    text = HEADER + "".join(row(1, 1000 + i, time) for i, time in enumerate(times)) + row(2, 1, 900)
    assert read(tmp_path, text).cleaning.outliers == 1
    assert read(tmp_path, text, CleaningRules(drops_outliers=False)).cleaning.outliers == 0
    # launches that do ever more work are no repeats
    assert read(tmp_path, HEADER + "".join(row(1, 9**i, time) for i, time in enumerate(times))).cleaning.outliers == 0
    # median 11, distances 1 2 0 1 89, their median 1
    scores = modified_z_scores(np.array([10.0, 9, 11, 12, 100]))
    assert scores.tolist() == pytest.approx([0.6745, 1.349, 0, 0.6745, 60.0305])
    assert modified_z_scores(np.array([5.0, 5, 5, 9])).tolist() == [0] * 4


def test_one_gpu_is_chosen_by_its_name(tmp_path: Path) -> None:
    text = HEADER + row(1, 1, 1) + row(2, 2, 2) + row(3, 4, 4).replace("K20", "GTX 980")
    found = read(tmp_path, text, CleaningRules(gpu="k20"))
    assert (len(found.table), found.cleaning.of_other_gpus) == (2, 1)
    with pytest.raises(InputError, match="Its GPUs are GTX 980, K20"):
        read(tmp_path, text, CleaningRules(gpu="H100"))


def test_times_from_a_second_file_join_by_kernel_gpu_and_launch(tmp_path: Path) -> None:
    features, times = tmp_path / "features.csv", tmp_path / "times.csv"
    features.write_text(
        "kernel,launch,gpu,flops,load_is_coalesced\na,0,titan-v,5,true\na,1,titan-v,6,false\nb,0,titan-v,7,true\n"
    )
    times.write_text("kernel,launch,gpu,time_ms\na,1,NVIDIA TITAN V,2\na,0,NVIDIA TITAN V,1\na,0,NVIDIA TITAN V,1.5\n")
    found = read_feature_table([features, times])
    assert found.table.names == ("flops", "load_is_coalesced")
    assert numbers(found.table) == [[5, 1], [5, 1], [6, 0]]
    assert found.table.seconds == pytest.approx([1e-3, 1.5e-3, 2e-3])
    assert found.cleaning.without_time == 1
    assert [each.name for each in found.files] == ["features.csv", "times.csv"]


def test_what_only_the_times_name_comes_with_them(tmp_path: Path) -> None:
    features, times = tmp_path / "features.csv", tmp_path / "times.csv"
    features.write_text("kernel,grid_x,inst\na,1,5\na,2,6\n")
    times.write_text("kernel,grid_x,launch,tune_tile,gpu,time_us\na,1,0,8,K20,1\na,1,1,8,K40,2\na,2,2,4,K40,3\n")
    found = read_feature_table([features, times])
    assert found.table.gpus == ("K20", "K40", "K40")
    assert found.table.configurations == ("grid_x=1 tune_tile=8", "grid_x=1 tune_tile=8", "grid_x=2 tune_tile=4")
    assert found.table.seconds == pytest.approx([1e-6, 2e-6, 3e-6])
    assert len(read_feature_table([features, times], CleaningRules(gpu="K40")).table) == 2


def test_times_of_other_names_are_no_parts_of_one_table(tmp_path: Path) -> None:
    features, times = tmp_path / "features.csv", tmp_path / "times.csv"
    features.write_text("kernel,grid_x,inst,time_us\na,1,5,9\na,2,6,9\n")
    times.write_text("kernel,grid_x,time_ms_median\na,1,1\na,2,2\n")
    with pytest.raises(InputError, match=r"times are called time_ms_median, those of .*features\.csv time_us"):
        read_feature_table([features, times])
    found = read_feature_table([features, times], time="time_ms_median")  # as the error says
    assert found.table.seconds == pytest.approx([1e-3, 2e-3])
    assert found.table.names == ("grid_x", "inst")


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    found = read(tmp_path, "kernel,gpu,in\x1b[2Jst,time_us\nk\x1b[31m,K20,1,2\nk,K20,2,3\n")
    assert (found.table.names, found.table.kernels) == (("in\\x1b[2Jst",), ("k\\x1b[31m", "k"))


@pytest.mark.parametrize(("time", "message"), [("1e-7", "at least 1e-12 s"), ("1e15", "at most 1e")])
def test_times_that_no_kernel_takes_ask_for_their_unit(tmp_path: Path, time: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, HEADER + row(1, 1, 5) + row(2, 2, time))


def test_the_table_of_the_executor_is_joined_with_its_times(tmp_path: Path) -> None:
    from kerncast.gpu import load_gpu
    from kerncast.profiles import ProfiledLaunch
    from kerncast.report.profile.export import write_features
    from tests.helpers.profiles import SAXPY, TILED

    launches = [ProfiledLaunch(each, load_gpu("titan-v")) for each in (SAXPY, TILED)]
    for suffix in (".csv", ".parquet"):
        write_features(launches, tmp_path / f"features{suffix}")
        times = tmp_path / "times.csv"
        kernels = [(each.kernel, each.index) for each in (SAXPY, TILED)]
        times.write_text("kernel,launch,gpu,time_us\n" + "".join(f"{k},{i},TITAN V,{i + 5}\n" for k, i in kernels))
        found = read_feature_table([tmp_path / f"features{suffix}", times], CleaningRules(("fp32_flops", "blocks")))
        work = [each.counts.get(FP32_FLOPS) for each in (SAXPY, TILED)]
        assert [row[0] for row in numbers(found.table)] == [count.value for count in work if count]
        assert found.table.seconds == pytest.approx([(i + 5) * 1e-6 for _, i in kernels])


def test_files_below_one_another_keep_what_all_have(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("kernel,a,b,seconds\nk,1,2,3\n")
    two.write_text("kernel,b,c,seconds\nk,4,5,6\n")
    found = read_feature_table([one, two])
    assert numbers(found.table) == [[2], [4]]
    assert {(each.name, each.why) for each in found.cleaning.removed} == {
        ("a", Why.NOT_EVERYWHERE),
        ("c", Why.NOT_EVERYWHERE),
    }


def test_parquet_and_csv_say_the_same(tmp_path: Path) -> None:
    import pandas as pd

    text = HEADER + row(1, 10, 2.5) + row(2, 20, 5) + row(3, "", 5) + row(4, 3, 5)
    (tmp_path / "a.csv").write_text(text)
    pd.read_csv(tmp_path / "a.csv").to_parquet(tmp_path / "a.parquet")
    rules = CleaningRules(features=("inst", "cycles_elapsed"))
    one, two = (read_feature_table([tmp_path / f"a.{kind}"], rules) for kind in ("csv", "parquet"))
    assert numbers(one.table) == numbers(two.table) == [[10, 7], [20, 14], [3, 28]]
    assert one.table.seconds.tolist() == two.table.seconds.tolist()
    assert (one.table.kernels, one.table.configurations) == (two.table.kernels, two.table.configurations)


def test_a_page_of_ncu_gives_its_raw_metrics_and_the_time_in_its_unit(tmp_path: Path) -> None:
    text = (
        '"ID","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum","lts__t_sectors_op_read.sum",'
        '"dram__bytes_read.sum.per_second","sm__cycles_elapsed.sum"\n'
        '"","","","","usecond","sector","Gbyte/second","cycle"\n'
        '"0","saxpy","(256, 1, 1)","(4096, 1, 1)","12.5","1,000","500","90,000"\n'
        '"1","saxpy","(256, 1, 1)","(8192, 1, 1)","25","2,000","500","180,000"\n'
    )
    found = read(tmp_path, text)
    assert found.table.names == ("grid_x", "lts__t_sectors_op_read.sum", "sm__cycles_elapsed.sum")
    assert found.table.seconds == pytest.approx([12.5e-6, 25e-6])
    assert found.table.gpus == ("unknown",) * 2
    assert ("dram__bytes_read.sum.per_second", Why.RATE) in {(r.name, r.why) for r in found.cleaning.removed}


def test_tables_of_nvprof_give_every_metric_by_its_name(tmp_path: Path) -> None:
    text = (
        '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread",'
        '"Static SMem","Dynamic SMem","Size","Throughput","Device","Context","Stream","Name"\n'
        "ms,us,,,,,,,,KB,B,MB,GB/s,,,,\n"
        '1.0,30.5,64,1,1,128,1,1,12,0,0,,,"Tesla K20 (0)",1,7,"k [1]"\n'
        '2.0,61.0,128,1,1,128,1,1,12,0,0,,,"Tesla K20 (0)",1,7,"k [2]"\n'
        '"Device","Context","Stream","Kernel","inst_executed","gld_throughput"\n'
        ",,,,,GB/s\n"
        '"Tesla K20 (0)",1,7,"k [1]",1000,12.5\n"Tesla K20 (0)",1,7,"k [2]",2000,12.5\n'
    )
    table = read(tmp_path, text).table
    assert table.names == ("grid_x", "inst_executed")
    assert numbers(table) == [[64, 1000], [128, 2000]]
    assert table.seconds == pytest.approx([30.5e-6, 61e-6])
    assert table.gpus == ("Tesla K20",) * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("a,seconds\n", "it holds no launch"),
        ("a,b\n1,2\n", "no column is a time with its unit"),
        ("a,time\n1,2\n", "no column is a time with its unit"),
        ("a,a,seconds\n1,2,3\n", "the column 'a' stands twice"),
        ("a,seconds\n1,2\n3", "line 3: 1 values for 2 columns"),
        ('a,seconds\n1,"2\n', "not CSV"),
        ("a,seconds\n" + "1,2\n" * 20 + "x,3\n", "row 21: 'a' is 'x', where other rows hold numbers"),
        ("a,seconds\n1,soon\n", "seconds holds 'soon'"),
        ("a,seconds\n1e40,2\n2,2\n", r"a of row 1 is 1e\+40"),
        ("a,seconds\n1,1e9\n2,2\n", r"the time of row 1 is 1e\+09 s"),
        ("a,seconds\n7,1\n7,2\n", "no column is a feature"),
        (",".join(f"a{number}" for number in range(9000)) + "\n", "it has 9,000 columns"),
        ('{"a": 1}', "no known tool writes this JSON"),
    ],
)
def test_what_is_no_table_is_told(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_files_that_cannot_be_joined_are_told(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    two.write_text("kernel,seconds\nk,3\n")
    for text, message in [
        ("a,b\n1,2\n", "no column names the launches in both"),
        ("kernel,a\nk,1\nk,2\n", "two launches of .* are called k"),
        ("kernel,a\nq,1\n", "no launch has a time in the other file"),
    ]:
        one.write_text(text)
        with pytest.raises(InputError, match=message):
            read_feature_table([one, two])
    with pytest.raises(InputError, match="is a folder"):
        read_feature_table([tmp_path])
    with pytest.raises(InputError, match="cannot be read"):
        read_feature_table([tmp_path / "absent.csv"])
    with pytest.raises(InputError, match="cannot be read"):
        read_feature_table([tmp_path / ("a" * 5000)])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
def test_a_pipe_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="it is a pipe"):
        read_feature_table([tmp_path / "pipe"])


def test_a_damaged_parquet_file_is_an_error_or_still_a_table(tmp_path: Path) -> None:
    import pandas as pd

    path = tmp_path / "a.parquet"
    pd.DataFrame({"a": range(50), "kernel": ["k"] * 50, "seconds": [1.0] * 50}).to_parquet(path)
    whole = path.read_bytes()
    chance = random.Random(0)  # noqa: S311  not a secret
    for _ in range(60):
        raw = bytearray(whole[: chance.choice([len(whole), chance.randrange(4, len(whole))])])
        for _ in range(3):
            raw[chance.randrange(4, len(raw))] = chance.randrange(256)
        path.write_bytes(raw)
        with suppress(InputError):
            assert len(read_feature_table([path]).table.seconds)


def test_names_that_follow_from_the_time() -> None:
    rates = ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "gflops", "dram_utilization", "gld_throughput")
    assert {derived(name) for name in rates} == {Derived.RATE}
    cycles = ("elapsed_cycles_sm", "sm__cycles_active.sum", "ipc", "active_warps", "inst_per_cycle")
    assert {derived(name) for name in cycles} == {Derived.CYCLES}
    counts = ("gld_transactions", "inst_executed", "grid_x", "achieved_occupancy", "smsp__inst_executed_op_branch.sum")
    assert {derived(name) for name in counts} == {None}
    assert derived("gpu__time_active.avg") is Derived.TIME
    assert roles_of(["a", "time_us_min", "time_us_max"], "time_us_max").time.name == "time_us_max"  # type: ignore[union-attr]


@pytest.mark.skipif(not RODINIA.exists(), reason="needs the measured data of gpuperfpredict")
def test_rodinia_is_read_whole() -> None:
    found = read_feature_table([RODINIA])
    assert len(found.table) == 42810
    assert set(found.table.gpus) == {"GTX-680", "GTX-980", "Tesla-K20", "Tesla-K40", "Titan"}
    assert len(found.table.names) == 57
    assert "elapsed_cycles_sm" in found.cleaning.time_derived
    assert sum(each.why is Why.RATE for each in found.cleaning.removed) == 16
