"""A file is written whole, or stays as it was: full disks, failures, links, devices, permissions."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kerncast.errors import InputError
from kerncast.replaced_file import replacing
from tests.helpers.places import ROOT


def write(path: Path, text: str) -> None:
    with replacing(path) as place:
        place.write_text(text, encoding="utf-8")


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def fail(path: Path, error: BaseException) -> None:
    with replacing(path) as place:
        place.write_text("half", encoding="utf-8")
        raise error


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    for text in ("old", "new"):
        write(file, text)
    assert file.read_text() == "new"
    assert names_in(tmp_path) == ["a.json"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), ValueError()])
def test_what_fails_leaves_the_old_file(tmp_path: Path, error: BaseException) -> None:
    file = tmp_path / "a.json"
    write(file, "old")
    with pytest.raises(InputError if isinstance(error, OSError) else type(error)):
        fail(file, error)
    assert file.read_text() == "old"
    assert names_in(tmp_path) == ["a.json"]


def test_a_link_still_leads_to_the_file_and_permissions_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "a", tmp_path / "b"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_devices_are_written_to_as_they_are() -> None:
    write(Path(os.devnull), "gone")
    assert not stat.S_ISREG(Path(os.devnull).stat().st_mode)


@pytest.mark.parametrize("name", ["no/such/folder/a", "a\0b", ""])
def test_what_is_no_place_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / name, "text")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a limit on the size of files")
def test_a_full_disk_leaves_the_old_baseline(tmp_path: Path) -> None:
    """That of a report is in test_written_files: here it would simulate without its cache."""
    file = tmp_path / "old.json"
    file.write_text("what was there before")
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)); from kerncast.cli import main; main(sys.argv[1:])"
    )
    launch = str(ROOT / "examples" / "saxpy.toml")
    arguments = ["predict", launch, "--gpu", "t4", "--model", "roofline", "-q", "--json", "--out", str(file)]
    # Nothing else may write: the limit would cut Python's and numba's own files, too.
    environment = {**os.environ, "KERNCAST_CACHE": "off", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, encoding="utf-8", env=environment, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "cannot be written (File too large)" in done.stderr
    assert file.read_text() == "what was there before"
    assert names_in(tmp_path) == [file.name]


def test_a_pipe_is_written_to_as_it_is() -> None:
    reads, writes = os.pipe()
    with replacing(Path(f"/dev/fd/{writes}")) as place:
        place.write_text("through", encoding="utf-8")
    os.close(writes)
    assert os.read(reads, 100) == b"through"
    os.close(reads)


def test_names_of_many_bytes_are_names(tmp_path: Path) -> None:
    path = tmp_path / ("名" * 80 + ".json")
    with replacing(path) as place:
        place.write_text("x", encoding="utf-8")
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
