"""What was built before is found as long as nothing of it has changed, and never where it is damaged."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kerncast.hostbuild.objects import Search, content_of, keep, key_of, recall, workplace

KEY = key_of("test", "one")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def header(tmp_path: Path) -> Path:
    file = tmp_path / "late" / "a.h"
    file.parent.mkdir()
    file.write_text("one", encoding="utf-8")
    return file


def later() -> int:
    return time.time_ns() + 10**9


def entries(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").rglob("*.entry"), key=lambda path: path.stat().st_size)


def test_what_was_kept_is_found(header: Path) -> None:
    kept = keep(KEY, [str(header)], b"object", later())
    assert recall(KEY) == kept
    assert content_of(kept) == b"object"
    assert recall(key_of("test", "two")) is None


def changed(header: Path) -> None:
    header.write_text("two", encoding="utf-8")


def removed(header: Path) -> None:
    header.unlink()


@pytest.mark.parametrize("change", [changed, removed])
def test_a_header_that_changed_makes_a_difference(header: Path, change: Callable[[Path], None]) -> None:
    keep(KEY, [str(header)], b"object", later())
    change(header)
    assert recall(KEY) is None


def test_a_header_that_now_stands_before_another_makes_a_difference(tmp_path: Path, header: Path) -> None:
    early = tmp_path / "early"
    early.mkdir()
    keep(KEY, [str(header)], b"object", later())
    search = Search((str(early), str(header.parent)), ("/usr/include",))
    assert recall(KEY, search) is not None
    (early / "a.h").touch()
    assert recall(KEY, search) is None


def test_what_changed_while_it_was_read_is_not_kept(header: Path) -> None:
    keep(KEY, [str(header)], b"object", header.stat().st_mtime_ns)
    assert recall(KEY) is None


def test_a_damaged_entry_is_never_used(tmp_path: Path, header: Path) -> None:
    kept = keep(KEY, [str(header)], b"object" * 100, later())
    for entry in entries(tmp_path):
        data = bytearray(entry.read_bytes())
        data[-1] ^= 1
        entry.write_bytes(bytes(data))
    assert recall(KEY) is None
    assert content_of(kept) is None


def test_without_a_cache_nothing_is_kept(header: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNCAST_CACHE", "off")
    kept = keep(KEY, [str(header)], b"object", later())
    assert recall(KEY) is None
    assert content_of(kept) is None
    assert workplace().is_dir()


def test_a_workplace_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    assert workplace() == tmp_path / "cache" / "hostbuild"
    workplace().chmod(0o777)
    assert not workplace().is_relative_to(tmp_path)
