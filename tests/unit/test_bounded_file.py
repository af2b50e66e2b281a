"""Bytes come in through one reader: regular files up to a limit, and nothing that would be waited for."""

import ast
import os
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerncast.bounded_file import Bound, check_depth, place_of, read_bytes, read_head, read_text, read_toml, sha256_of
from kerncast.errors import LaunchError
from tests.helpers.places import FILES, PACKAGE, nodes_of
from tests.helpers.thorough import examples

SMALL = Bound(1024, error=LaunchError)
pytestmark = pytest.mark.timeout(60)  # a hang is a failure


def refusal(path: Path, bound: Bound = SMALL) -> str:
    with pytest.raises(bound.error) as caught:
        read_bytes(path, bound)
    return str(caught.value)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for size in (0, 1, 1023, 1024):
        path.write_bytes(bytes(size))
        assert read_bytes(path, SMALL) == bytes(size)
    path.write_bytes(bytes(1025))
    assert refusal(path).endswith("it holds more than 1 KiB. Split it, or leave out what is not needed.")


def test_a_sparse_file_of_a_terabyte_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)
    assert "it holds more than 1 KiB" in refusal(tmp_path / "large")


def test_what_is_waited_for_or_never_ends_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "pipe"), (tmp_path / "link", "pipe"), (Path("/dev/zero"), "device")):
        assert f"{path}: cannot be read (it is a {kind}). Write what it gives into a file" in refusal(path)
    assert f"{tmp_path}: cannot be read (it is a folder). Name an existing file." in refusal(tmp_path)


def test_names_that_no_system_takes_are_refused_in_few_words() -> None:
    assert "cannot be read (no such file)" in refusal(Path("no/such.file"))
    assert "cannot be read (no such path)" in refusal(Path("a\0b"))
    long = refusal(Path("x" * 100_000))
    assert "cannot be read (File name too long)" in long
    assert len(long) < 500
    assert place_of(Path("a/\udcff")) == "a/?"


def test_a_file_of_the_system_that_has_no_size_is_read() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc here")
    assert read_bytes(Path("/proc/self/status"), Bound(65_536)).startswith(b"Name:")


def test_a_head_is_read_from_a_file_of_any_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"PAR1" + bytes(4096))
    assert read_head(tmp_path / "file", 4) == b"PAR1"


def test_text_has_its_mark_and_its_line_ends_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfa\r\nb\rc")
    assert read_text(tmp_path / "file", SMALL) == "a\nb\nc"
    (tmp_path / "file").write_bytes(b"ab\xff")
    with pytest.raises(LaunchError, match=r"byte 2 is not UTF-8 text. Save it as text in UTF-8."):
        read_text(tmp_path / "file", SMALL)


def test_a_digest_is_one_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")  # FIPS 180-4's own example
    assert sha256_of(tmp_path / "file", SMALL).startswith("ba7816bf8f01cfea")


@pytest.mark.parametrize("part", ["a", '"a b"', "'a.b'", '"\\"#"'])
def test_a_key_of_thousands_of_parts_is_refused_at_once(part: str, tmp_path: Path) -> None:
    """The parser would take seconds and gigabytes."""
    for text in (f"{'.'.join([part] * 20_000)} = 1", f"[{' . '.join([part] * 20_000)}]", f"x = {{ {part}.{part}"):
        (tmp_path / "deep.toml").write_text(f'a = """ " ""\n""" # \'\n{text}', encoding="utf-8")
        with pytest.raises(LaunchError, match="is not valid TOML"):
            read_toml(tmp_path / "deep.toml", Bound(2**20, error=LaunchError))


def test_dots_in_texts_comments_and_numbers_are_no_depth() -> None:
    dots = "a." * 50
    check_depth(f'x = "{dots}"\n# {dots}\ny = """\n{dots}"""""\nz = [{"1.5, " * 50}]\n' + f"'{dots}' = '''{dots}\n'''")


@given(st.text(alphabet="ab.\"'\\#=[]{}\n ,1", max_size=200))
@settings(max_examples=examples(200))
def test_no_valid_table_hides_a_deep_key(text: str) -> None:
    """Whatever TOML takes before a deep key does not keep the key from being seen."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    with pytest.raises(ValueError, match="twenty dots or more"):
        check_depth(f"{text}\n{'.'.join('c' * 30)} = 1")


@given(raw=st.binary(max_size=300))
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_a_table_or_an_error(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "any.toml"
    path.write_bytes(raw)
    found = None
    with suppress(LaunchError):
        found = read_toml(path, SMALL)
    if found is None:
        with pytest.raises(LaunchError, match=r"any\.toml: .+\. .+\."):
            read_toml(path, SMALL)


#: Who opens files himself, and which.
OWN_FILES = {
    "bounded_file.py": "it is the one way in",
    "bench/ceilings/sustained.py": "a draft, to write",
    "bench/counters.py": "what ncu has written into a folder of ours",
    "bench/cuda/telemetry.py": "/proc/cpuinfo",
    "child_process.py": "pipes of processes of ours",
    "checkup/report.py": "limits of a container, below /sys",
    "cli/__init__.py": "/dev/null, for an output that has gone",
    "device/session.py": "/proc of processes of ours",
    "hostbuild/toolkit.py": "our own scripts in the cache",
    "recording/contents.py": "a recording, to write",
    "recording/recording_files.py": "members of an archive of bounded size",
    "report/files/recorded_launches.py": "an array, to write",
    "compile/cache/store.py": "entries of the cache: by owner, size and checksum",
    "confinement.py": "places, not contents (O_PATH)",
    "launch/given.py": "an array or a text of the program's own, to write",
    "machine/listing.py": "what the disassembler has written into a folder of ours, up to a limit",
    "measurements/table_files.py": "tables, to write",
    "models/jit_cache.py": "our own source files",
    "models/learned/model_files.py": "members of an archive that was read whole",
    "report/page/pages.py": "a template that came with kerncast",
    "studies/sweeps/sweep_store.py": "a store that is added to",
    "web/warm.py": "/dev/null",
}
OPENS = {"open", "os.open", "io.open", "os.fdopen", "np.load", "np.fromfile", "np.loadtxt", "np.memmap", "json.load",
         "tomllib.load", "pickle.load", "pd.read_csv", "pd.read_parquet", "pq.read_table"}  # fmt: skip
METHODS = {"read_text", "read_bytes", "open"}
#: Methods of these names that open no file.
OTHERS = {"Recorder.open", "cls.open", "webbrowser.open"}


def test_nothing_opens_a_file_but_by_the_one_way_in() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and opens(node.func)
    }
    assert found == set(OWN_FILES)


def opens(function: ast.expr) -> bool:
    name = ast.unparse(function)
    is_method = isinstance(function, ast.Attribute) and function.attr in METHODS and name not in OTHERS
    return name in OPENS or is_method
