"""Measured times as evidence: the short form, CSV files, files of kerncast measure, and what is wrong with others."""

from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.errors import InputError
from kerncast.forecast import matched
from kerncast.gpu import load_gpu
from kerncast.launch import load_launches
from kerncast.measurements import Configuration, Method, Observation, Trial
from kerncast.prediction import Timing
from kerncast.read.observations import MOST_OBSERVATIONS, read_observations
from tests.helpers.places import ROOT
from tests.unit.measurements.test_measurement_files import MACHINE, TRIAL, record

SUITE = ROOT / "src" / "kerncast" / "kernels" / "suite"


def csv_of(folder: Path, text: str) -> Path:
    """Write a CSV of times."""
    file = folder / "times.csv"
    file.write_text(text, encoding="utf-8")
    return file


def configuration(key: str) -> Configuration:
    """Return the first launch of the suite's saxpy as it is measured."""
    launch = load_launches(SUITE / "saxpy.toml")[0]
    arguments = tuple((each.name, str(each.value)) for each in launch.arguments)
    return Configuration(key, "saxpy", "5f2c", "91ab", launch.grid, launch.block, 0, arguments, 0, 12)


def trials(key: str, *seconds: float) -> list[Trial]:
    """Return a trial for each time."""
    return [
        replace(TRIAL, configuration=key, method=Method.SERIES, number=number, seconds=(time,))
        for number, time in enumerate(seconds)
    ]


def test_columns_may_come_in_any_order(tmp_path: Path) -> None:
    file = csv_of(tmp_path, "seconds,GPU,spread,launch,kernel\n2e-3,Titan V,1e-5,,saxpy\n1e-3,t4,,4,\n")
    first, second = read_observations([file])
    assert (first.gpu.id, first.seconds, first.spread_seconds, first.kernel, first.launch) == (
        "titan-v", 2e-3, 1e-5, "saxpy", None,
    )  # fmt: skip
    assert (second.gpu.id, second.launch, second.kernel, second.spread_seconds) == ("t4", 4, None, None)
    assert first.where.endswith("times.csv, line 2")


def test_a_run_may_name_its_clock(tmp_path: Path) -> None:
    file = csv_of(tmp_path, "gpu,seconds,clock_mhz\nrtx-2080-ti,2e-3,1793\nrtx-2080-ti,2e-3,\n")
    fast, usual = read_observations([file])
    assert (fast.gpu.id, fast.gpu.clock_hz) == ("rtx-2080-ti", 1793e6)
    assert usual.gpu == load_gpu("rtx-2080-ti")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "first line is ''"),
        ("tpcs,seconds\n1,2\n", "first line is 'tpcs,seconds'"),
        ("gpu,seconds,gpu\nt4,1,t4\n", "first line"),
        ("gpu,seconds,colour\nt4,1,red\n", "first line"),
        ("gpu,seconds\nt4\n", "line 2.*does not have 2 cells"),
        ("gpu,seconds\nt4,1,2\n", "line 2.*does not have 2 cells"),
        ("gpu,seconds\nt4,nan\n", "line 2.*seconds is 'nan'"),
        ("gpu,seconds\nt4,-1\n", "line 2.*seconds is '-1'"),
        ("gpu,seconds\nt4,0\n", "line 2.*seconds is '0'"),
        ("gpu,seconds\nt4,1e300\n", "line 2.*seconds is '1e300'"),
        ("gpu,seconds,spread\nt4,1,-1\n", "line 2.*spread is '-1'"),
        ("gpu,seconds,launch\nt4,1,-1\n", "line 2.*launch is '-1'"),
        ("gpu,seconds,launch\nt4,1,1.5\n", "line 2.*launch is '1.5'"),
        ("gpu,seconds,clock_mhz\nt4,1,1.5e9\n", "line 2.*clock_mhz is '1.5e9'"),
        ("gpu,seconds,clock_mhz\nt4,1,nan\n", "line 2.*clock_mhz is 'nan'"),
        ("gpu,seconds\nVoodoo 2,1\n", "line 2.*Voodoo 2"),
        ('gpu,seconds\n"t4,1\n', "not a CSV"),
        ("gpu,seconds\n" + "t4,1\n" * (MOST_OBSERVATIONS + 1), "more than 500"),
    ],
)
def test_a_faulty_file_is_named_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        read_observations([csv_of(tmp_path, text)])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv"):
        read_observations([str(tmp_path / "none.csv")])


@pytest.mark.parametrize("text", ["t4", "t4=", "=1ms", "t4=1", "t4=-1ms", "t4#=1ms", "t4#x=1ms", "t4=1e30s"])
def test_a_faulty_short_form(text: str) -> None:
    with pytest.raises(InputError, match="--measured"):
        read_observations([text])


def test_observations_pass_through() -> None:
    given = Observation(load_gpu("t4"), 1e-3, 0, timing=Timing.COLD)
    assert read_observations([given]) == (given,)


def test_a_measurement_of_the_suite_brings_its_launches(tmp_path: Path) -> None:
    file = record(tmp_path / "measured.jsonl", configuration("seed/saxpy#0"), *trials("seed/saxpy#0", 2.0e-6, 2.2e-6))
    (found,) = read_observations([file])
    assert (found.gpu.id, found.timing) == ("h200", Timing.SERIES)
    assert found.seconds == pytest.approx(2.1e-6)
    assert found.spread_seconds == pytest.approx(0.1414e-6, rel=1e-3)
    launches = load_launches(SUITE / "saxpy.toml")
    assert found.other == launches[0]
    (own,) = matched([found], launches)
    assert own.launch == 0
    (other,) = matched([found], load_launches(SUITE / "vector_add.toml"))
    assert other.launch is None


def test_a_measurement_of_a_users_launch_is_of_the_same_launch_only(tmp_path: Path) -> None:
    file = record(tmp_path / "measured.jsonl", configuration("mine/saxpy#7"), *trials("mine/saxpy#7", 2.0e-6))
    found = read_observations([file])
    assert [each.launch for each in matched(found, load_launches(SUITE / "saxpy.toml"))] == [0]
    assert [each.launch for each in matched(found, load_launches(SUITE / "saxpy.toml")[1:])] == [None]


def test_a_measurement_on_an_unknown_gpu_says_how_to_go_on(tmp_path: Path) -> None:
    machine = replace(MACHINE, gpu_name="Voodoo 2")
    key = "seed/saxpy#0"
    file = record(tmp_path / "measured.jsonl", configuration(key), *trials(key, 2.0e-6), machine=machine)
    with pytest.raises(InputError, match=r"Voodoo 2.*by hand"):
        read_observations([file])


def test_a_time_names_its_launch_by_the_kernel() -> None:
    launches = load_launches(SUITE / "saxpy.toml")
    time = Observation(load_gpu("t4"), 1e-3, kernel="saxpy")
    assert matched([time], launches[:1])[0].launch == 0
    with pytest.raises(InputError, match="which of the"):
        matched([time], launches)
    with pytest.raises(InputError, match="'dot', which is not forecast"):
        matched([Observation(load_gpu("t4"), 1e-3, kernel="dot")], launches)
