"""Which reader a profile needs is told by its content; what is no profile, too large or damaged is refused."""

import contextlib
import gzip
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.errors import InputError, KerncastError
from kerncast.gpu import load_gpu
from kerncast.profiles import KernelProfile
from kerncast.read import Selection
from kerncast.read.bounded_text import number, parse_json, read_text
from kerncast.read.profile_files import read_profile
from tests.helpers.places import TESTS
from tests.helpers.thorough import examples

GOLDEN = TESTS / "golden"
FILES = {
    GOLDEN / "nvprof" / "k20_trace_and_metrics.csv": "axpy(float, float const *, float const *, float*, int)",
    GOLDEN / "nvprof" / "gtx980_launches.csv": "stencil(double const *, double*, int)",
    GOLDEN / "tuners" / "blur_cache.json": "blur",
    GOLDEN / "tuners" / "coulomb_ktt_t4.json": "coulomb_ktt_t4",
    GOLDEN / "tuners" / "transpose_ktt.json": "transpose",
}
RAW = """==PROF== Connected to process 12
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum","launch__registers_per_thread"
"","","","","","","","","","","","Mbyte","Mbyte","us","register/thread"
"0","12","axpy","127.0.0.1","axpy(int)","1","7","(256, 1, 1)","(4096, 1, 1)","0","8.6","8.39","4.19","14.21","16"
"""


def written(folder: Path, content: str | bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def bare(profile: KernelProfile) -> tuple[int, object, object]:
    return profile.index, profile.run, profile.counts


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_told_by_its_content(path: Path, tmp_path: Path) -> None:
    expected = read_profile(path)
    assert expected[0].kernel == FILES[path]
    assert all(profile.run is not None for profile in expected)
    for name in ("without_a_suffix", "wrong.ncu-rep", "wrong.toml"):
        copy = written(tmp_path, path.read_bytes(), name)
        assert list(map(bare, read_profile(copy))) == list(map(bare, expected))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_packed_and_redirected_files_are_read(path: Path, tmp_path: Path) -> None:
    expected = list(map(bare, read_profile(path)))
    text = path.read_text(encoding="utf-8")
    for content in (
        gzip.compress(text.encode()),
        text.encode("utf-8-sig"),
        text.encode("utf-16"),  # as PowerShell redirects
        text.replace("\n", "\r\n").encode(),
    ):
        assert list(map(bare, read_profile(written(tmp_path, content)))) == expected


def test_a_raw_page_of_ncu_goes_to_its_reader(tmp_path: Path) -> None:
    (profile,) = read_profile(written(tmp_path, RAW), load_gpu("RTX A4000"), Selection("axpy"))
    assert (profile.kernel, profile.grid) == ("axpy(int)", (4096, 1, 1))
    assert profile.run is not None
    assert profile.run.seconds == pytest.approx(14.21e-6)


def test_a_damaged_report_of_ncu_goes_to_its_reader(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_profile(written(tmp_path, b"NVR\0" + bytes(range(256)) * 9), load_gpu("RTX A4000"))
    assert caught.value.cure


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "it holds no profile"),
        ("hello, world\n" * 9, "it holds no profile"),
        ("op,m,n\nmatmul,3,4\n", "it holds no profile"),
        ("[]", "no known tool"),
        ('{"a": 1}', "no known tool"),
        ('{"Metadata": {"a": ', "ends too early"),
        ('{"Metadata": {"Dev', "ends too early"),
        ('{"Metadata": x}', "not JSON"),
        ("[" * 100_000, "JSON"),
        ('{"cache": ' + "9" * 100_000 + "}", "JSON"),
        (b"\x7fELF\x02\x01\x01" + bytes(100), "not text|binary"),
        (b"\x1f\x8b\x08\x00damaged", "gzip data are damaged"),
        (gzip.compress(b"{" * 5000, mtime=0)[:-9], "gzip data are damaged"),
        ("text\0text", "binary"),
        (b"\xff\xfea", "not text"),
    ],
)
def test_what_is_no_profile_is_refused(content: str | bytes, what: str, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InputError, match=what) as caught:
        read_profile(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.cure


@pytest.mark.parametrize("content", [b"", bytes(5000), b"\xff" * 9, b"VR\0" + bytes(range(256))])
def test_a_damaged_report_is_called_one(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "report.ncu-rep"
    path.write_bytes(content)
    with pytest.raises(InputError, match="does not begin as a report of Nsight Compute does") as caught:
        read_profile(path)
    assert "copy it again" in str(caught.value)


def test_a_page_that_is_called_a_report_is_read(tmp_path: Path) -> None:
    path = tmp_path / "page.ncu-rep"
    path.write_bytes(gzip.compress((GOLDEN / "ncu" / "raw_2024.csv").read_bytes(), mtime=0))
    assert len(read_profile(path)) == 3


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.csv", tmp_path, Path("bad\0name")):
        with pytest.raises(InputError, match="cannot be read"):
            read_profile(path)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.write(b"{")
        file.truncate(500_000_000)  # sparse
    start = time.process_time()
    with pytest.raises(InputError, match="more than 256 MiB") as caught:
        read_profile(path)
    assert time.process_time() - start < 1
    assert "Split it" in str(caught.value)


def test_a_file_that_unpacks_to_more_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(bytes(3_000_000)))
    with pytest.raises(InputError, match="more than 1 MiB"):
        read_text(path, 2**20)


def tuned(configurations: int) -> str:
    """Return a cache of Kernel Tuner with so many configurations."""
    parameters = [{"block_size_x": 32 * (1 + i % 8), "tile": i, "time": 1 + i / 7} for i in range(configurations)]
    document = {
        "device_name": "NVIDIA RTX A4000",
        "kernel_name": "blur",
        "problem_size": [4096, 4096],
        "tune_params_keys": ["block_size_x", "tile"],
        "cache": {str(i): {**each, "times": [1.0] * 7, "GFLOP/s": 5.0} for i, each in enumerate(parameters)},
    }
    return json.dumps(document)


def test_twenty_thousand_configurations(tmp_path: Path) -> None:
    """Read in linear time, by the ratio of two reads: what grew with the square would take a hundred times as long."""
    spent = []
    for count in (2_000, 20_000):
        path = written(tmp_path, tuned(count))
        start = time.process_time()
        assert len(read_profile(path)) == count
        spent.append(time.process_time() - start)
    assert spent[1] < 40 * spent[0]
    assert spent[1] < 60  # 0.9 s on an idle core


def test_numbers_are_bounded() -> None:
    assert number(3, "x", "here") == 3.0
    for wrong in (None, True, "3", -1, float("inf"), float("nan"), 10**40, [3]):
        with pytest.raises(InputError, match="here: x is"):
            number(wrong, "x", "here")


def test_the_line_of_a_fault_in_json() -> None:
    with pytest.raises(InputError, match=r"f\.json, line 3: not JSON"):
        parse_json('{\n"a": 1,\n"b": oh\n}', "f.json")


@settings(max_examples=examples(100), deadline=None)
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_random_bytes_never_end_in_another_error(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = written(tmp_path_factory.getbasetemp(), content, "random")
    with contextlib.suppress(KerncastError):
        read_profile(path)


@pytest.mark.parametrize("details", [False, True])
def test_too_many_rows_are_refused_before_any_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, details: bool
) -> None:
    monkeypatch.setattr("kerncast.read.profile_files.MOST_VALUES", 300_000)
    header = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n' if details else RAW
    most = 300_000 if details else 200_000
    path = written(tmp_path, header + '"0","no row"\n' * (most + 1))
    begun = time.process_time()
    with pytest.raises(InputError, match=rf"rows, more than {most:,}.*--launch-count"):
        read_profile(path)
    assert time.process_time() - begun < 2
    # Below, the first row is looked at.
    path = written(tmp_path, header + '"0","no row"\n' * 3)
    with pytest.raises(InputError, match=r"2 values for"):
        read_profile(path)
