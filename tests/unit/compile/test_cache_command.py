"""kerncast cache: what it shows, what it removes, what it refuses."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from kerncast.cli.application import run
from kerncast.compile.cache import Store, cache_place
from kerncast.errors import InputError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "compiled"


def shown(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert run(["cache", "--json", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def keep(count: int) -> None:
    place = cache_place()
    assert place.folder is not None
    for number in range(count):
        Store(place.folder, place.most_bytes).save(f"{number:064x}", b"x" * 100)


def test_the_fields_of_its_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(3)
    for path in folder.rglob("*.entry"):
        os.utime(path, (1.0e9, 1.0e9))
    assert shown(capsys) == {
        "schema_version": "1.0",
        "folder": str(folder),
        "is_used": True,
        "why_not": None,
        "entries": 3,
        "bytes": 3 * (100 + 17 + 32),
        "most_bytes": 256 * 2**20,
        "oldest_use": "2001-09-09T01:46:40+00:00",
        "removed": None,
    }


def test_clearing_says_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    keep(2)
    assert [shown(capsys, "--clear")[name] for name in ("removed", "entries", "bytes")] == [2, 0, 0]
    assert shown(capsys, "--clear")["removed"] == 0


def test_its_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(1)
    (path,) = folder.rglob("*.entry")
    os.utime(path, (time.time() - 3 * 86_400,) * 2)
    run(["cache"])
    assert capsys.readouterr().out.splitlines() == [
        f"folder    {folder}",
        "holds     1 entry, 149 B",
        "bound     268 MB (256 MiB)",
        "oldest    last used 3 days ago",
    ]
    run(["cache", "--clear"])
    assert capsys.readouterr().out.startswith("1 entry removed\n")


def test_without_a_cache_it_says_why(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNCAST_CACHE", "off")
    found = shown(capsys, "--clear")
    assert (found["folder"], found["is_used"], found["why_not"]) == (None, False, "KERNCAST_CACHE is off")
    run(["cache"])
    assert capsys.readouterr().out == "not used  KERNCAST_CACHE is off\n"


def test_a_folder_that_is_no_cache_of_ours_is_not_cleared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.mkdir(parents=True)
    precious = folder / f"{1:064x}.entry"
    precious.touch()
    with pytest.raises(InputError, match="is not a cache that kerncast made"):
        run(["cache", "--clear"])
    assert precious.exists()
    assert shown(capsys)["why_not"] == "it holds files, but is not a cache of kerncast"
