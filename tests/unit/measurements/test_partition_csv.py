"""The reader of times on parts of a GPU: what it takes, and how it refuses the rest."""

import gzip
from pathlib import Path

import pytest

from kerncast.errors import InputError
from kerncast.measurements import CountFeatures, PartitionTimes
from kerncast.read.partition_files import read_partition_times


def written(folder: Path, text: str) -> Path:
    path = folder / "times.csv"
    path.write_bytes(text.encode())
    return path


def test_repeats_are_further_rows(tmp_path: Path) -> None:
    times = read_partition_times(written(tmp_path, "tpcs,seconds\n2,3e-3\n1,5e-3\n2,4e-3\n\n"))
    assert times.counts == (1, 2)
    assert times.repeats(2) == (3e-3, 4e-3)
    assert times.largest(2) == 4e-3
    assert times.typical(2) == pytest.approx(3.5e-3)


def test_headers_may_have_spaces_capitals_and_windows_lines(tmp_path: Path) -> None:
    times = read_partition_times(written(tmp_path, "\ufeffTPCs, Seconds\r\n1 , 0.5\r\n"))
    assert (times.tpcs, times.seconds) == ((1,), (0.5,))


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_bytes(gzip.compress(b"tpcs,seconds\n1,2\n"))
    assert read_partition_times(path).seconds == (2.0,)


def test_features_are_averaged_over_repeats_and_need_no_time(tmp_path: Path) -> None:
    times = read_partition_times(written(tmp_path, "tpcs,seconds,reads\n1,5e-3,10\n1,5e-3,20\n2,,30\n4,2e-3,\n"))
    assert times.counts == (1, 4)
    assert times.feature_names == ("reads",)
    assert times.features == (CountFeatures(1, (15.0,)), CountFeatures(2, (30.0,)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing"),
        ("tpcs,seconds\n", "no time"),
        ("tpcs,seconds,reads\n1,,4\n", "no time"),
        ("tpc,seconds\n1,1\n", "begin with the header"),
        ("1,0.5\n2,0.3\n", "begin with the header"),
        ("tpcs,seconds\n1,nan\n", "not a finite number"),
        ("tpcs,seconds\n1,inf\n", "not a finite number"),
        ("tpcs,seconds\n1,-1\n", "line 2: seconds is '-1'"),
        ("tpcs,seconds\n1,0\n", "seconds is '0'"),
        ("tpcs,seconds\n1,1e300\n", "not a finite number"),
        ("tpcs,seconds\n1,1e9\n", "seconds is"),
        ("tpcs,seconds\n1,\n", "not a number"),
        ("tpcs,seconds\n1,soon\n", "'soon' is not a number"),
        ("tpcs,seconds\n0,1\n", "tpcs is '0'"),
        ("tpcs,seconds\n-3,1\n", "tpcs is '-3'"),
        ("tpcs,seconds\n1.5,1\n", "tpcs is '1.5'"),
        ("tpcs,seconds\n٣,1\n", "tpcs is"),
        ("tpcs,seconds\n99999999999999999999,1\n", "tpcs is"),
        ("tpcs,seconds\n1\n", "1 columns, not 2"),
        ("tpcs,seconds,reads\n1,2\n", "2 columns, not 3"),
        ("tpcs,seconds\n1,2,3\n", "3 columns, not 2"),
        ("tpcs,seconds,a,a\n1,2,3,4\n", "a name of its own"),
        ("tpcs,seconds,\n1,2,3\n", "a name of its own"),
        ('tpcs,seconds\n1,"2\n', "not CSV"),
        ("tpcs,seconds,reads\n1,2,nan\n", "not a finite number"),
        ("tpcs,seconds\0\n", "binary"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        read_partition_times(written(tmp_path, text))
    assert words.lower() in str(error.value).lower()
    assert "times.csv" in str(error.value)


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="more than 200000 rows"):
        read_partition_times(written(tmp_path, "tpcs,seconds\n" + "1,1\n" * 200_001))
    with pytest.raises(InputError, match="16 MiB"):
        read_partition_times(written(tmp_path, "x" * (16 * 2**20 + 1)))


def test_the_noun_checks_what_it_holds() -> None:
    for arguments in (
        {"tpcs": (1,), "seconds": ()},
        {"tpcs": (0,), "seconds": (1.0,)},
        {"tpcs": (1,), "seconds": (float("nan"),)},
        {"tpcs": (1,), "seconds": (1.0,), "features": (CountFeatures(1, (2.0,)),)},
        {"tpcs": (1,), "seconds": (1.0,), "features": (CountFeatures(1, ()), CountFeatures(1, ()))},
    ):
        with pytest.raises(InputError):
            PartitionTimes(**arguments)
