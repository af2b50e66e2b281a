"""Every kind of file that is written: a kill, a full disk, a read-only folder leave the old one whole.

Damage to what is read back is in tests/fuzz; that of caches in their own tests.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.helpers.places import ROOT

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs limits of a process, and fork")
KINDS = (
    "forecasts.json", "report.html", "report.md", "model.kcm", "picture.svg", "picture.png", "table.csv",
    "table.parquet",
)  # fmt: skip
Row = tuple[int, str, list[str], bool]


@cache
def suffered() -> dict[tuple[str, str], Row]:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        environment = {**os.environ, "KERNCAST_CACHE": "off"}
        command = [sys.executable, "-m", "tests.helpers.written_files", folder]
        done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT, env=environment)
    return {
        (kind, fault): (status, state, beside, again)
        for kind, fault, status, state, beside, again in json.loads(done.stdout)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_the_old_one_or_the_new_one(kind: str) -> None:
    found = suffered()
    assert found[kind, "none"] == (0, "new", [], True)
    assert found[kind, "full disk"] == (2, "old", [], True)
    assert found[kind, "read-only folder"] == (2, "old", [], True)
    status, state, beside, is_written_again = found[kind, "kill"]
    assert status < 0
    assert state == "old"
    assert len(beside) <= 1  # a part of the new file, under another name
    assert is_written_again


def test_a_sweep_keeps_what_it_had_and_goes_on() -> None:
    """Its lines are appended: what is there is a beginning of the whole, from which the next run goes on."""
    found = suffered()
    assert found["sweep.jsonl", "none"] == (0, "new", [], True)
    status, state, beside, goes_on = found["sweep.jsonl", "kill"]
    assert status < 0
    assert (state, beside, goes_on) == ("beginning", [], True)
    assert found["sweep.jsonl", "full disk"][:3] == (2, "beginning", [])
    assert found["sweep.jsonl", "read-only folder"][0] == 2
