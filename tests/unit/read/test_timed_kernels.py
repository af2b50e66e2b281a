"""Tables of measured times as the only evidence: which rows are of one kernel, and what is wrong with others."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.errors import InputError
from kerncast.forecast import read_evidence
from kerncast.measurements import TimedKernel
from kerncast.read import Selection
from kerncast.read.observations import MOST_OBSERVATIONS, is_table_of_times, read_timed_kernels
from tests.helpers.thorough import examples


def table(folder: Path, text: str, name: str = "times.csv") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def shapes(kernels: tuple[TimedKernel, ...]) -> list[tuple[str, int, list[str]]]:
    return [(each.kernel, each.index, [time.gpu.id for time in each.times]) for each in kernels]


def test_rows_of_one_name_are_one_kernel(tmp_path: Path) -> None:
    text = "gpu,seconds,kernel\nt4,1e-3,a\nt4,2e-3,b\ntitan-v,5e-4,a\n"
    assert shapes(read_timed_kernels(table(tmp_path, text))) == [("a", 0, ["t4", "titan-v"]), ("b", 1, ["t4"])]


def test_launch_numbers_tell_rows_of_one_name_apart(tmp_path: Path) -> None:
    text = "gpu,seconds,launch,kernel\nt4,1e-3,7,a\nt4,2e-3,3,a\ntitan-v,5e-4,7,\n"
    assert shapes(read_timed_kernels(table(tmp_path, text))) == [("a", 7, ["t4", "titan-v"]), ("a", 3, ["t4"])]


def test_without_names_and_numbers_all_rows_are_one_kernel(tmp_path: Path) -> None:
    text = "gpu,seconds\nt4,1e-3\ntitan-v,5e-4\n"
    assert shapes(read_timed_kernels(table(tmp_path, text, "product.csv"))) == [("product", 0, ["t4", "titan-v"])]


def test_kernels_are_selected_as_in_a_profile(tmp_path: Path) -> None:
    file = table(tmp_path, "gpu,seconds,kernel\nt4,1e-3,a\nt4,2e-3,b\nt4,3e-3,c\n")
    assert [each.kernel for each in read_timed_kernels(file, Selection("regex:[bc]", skip=1))] == ["c"]
    with pytest.raises(InputError, match=r"no kernel is called 'd'.*It holds a, b, c"):
        read_timed_kernels(file, Selection("d"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("gpu,seconds\n", "holds no time"),
        ("gpu,seconds,launch\nt4,1,0\nt4,1,\n", r"line 3.*has no launch"),
        ("gpu,seconds,launch,kernel\nt4,1,0,a\nt4,1,0,b\n", "launch 0 has the kernels 'a' and 'b'"),
        ("gpu,seconds,colour\nt4,1,red\n", "first line"),
        ("gpu,seconds\nt4,0\n", r"line 2.*seconds is '0'"),
        ("gpu,seconds\nVoodoo 2,1\n", r"line 2.*Voodoo 2"),
        ('gpu,seconds\n"t4,1\n', "not a CSV"),
        ("gpu,seconds\n" + "t4,1\n" * (MOST_OBSERVATIONS + 1), "501 times, more than 500"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault) as caught:
        read_timed_kernels(table(tmp_path, text))
    assert caught.value.cure


def test_a_table_of_times_is_told_by_its_header(tmp_path: Path) -> None:
    assert is_table_of_times(table(tmp_path, "\ufeffSeconds, GPU\n1,t4\n"))
    assert not is_table_of_times(table(tmp_path, "tpcs,seconds\n1,2\n"))
    assert not is_table_of_times(tmp_path / "missing.csv")
    assert not is_table_of_times(tmp_path)


def test_a_table_is_evidence(tmp_path: Path) -> None:
    (found,) = read_evidence(table(tmp_path, "gpu,seconds\nt4,1e-3\n"))
    assert isinstance(found, TimedKernel)
    assert read_evidence(found) == read_evidence([found]) == [found]


@given(st.text(max_size=300))
@settings(max_examples=examples(100), deadline=None)
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "hostile.csv"
    file.write_bytes(b"gpu,seconds,launch,kernel\nt4,1,0," + text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(InputError):
        assert all(each.kernel.isprintable() for each in read_timed_kernels(file))
