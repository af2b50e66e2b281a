"""The documents tell the truth: links lead somewhere, the README's output is what the command prints."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kerncast.gpu import list_gpus
from tests.helpers.places import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (document.parent / target).exists(), target


def test_the_readme_shows_what_the_command_prints() -> None:
    block = re.search(
        r"```console\n\$ kerncast (.*)\n((?:.*\n)*?)```", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    assert block
    command = [sys.executable, "-m", "kerncast", *shlex.split(block[1])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, encoding="utf-8")
    assert [line.rstrip() for line in done.stdout.rstrip().splitlines()] == block[2].rstrip().splitlines()


def test_the_number_of_gpus() -> None:
    assert f"{len(list_gpus())} from Kepler to Blackwell" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_files_to_read_first_are_short() -> None:
    (sentence,) = re.findall(
        r"Read these four files first: (.*?)\.\n\n", (ROOT / "docs" / "flow.md").read_text(), re.DOTALL
    )
    files = [ROOT / "src" / "kerncast" / name for name in re.findall(r"`([\w/]+\.py)`", sentence)]
    assert len(files) == 4
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) < 1150


def test_the_example_runs() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "gpusd_by_hand.py"],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    counts = re.findall(r"^(.+?)  +(\S+) +(\d+)$", done.stdout, re.MULTILINE)
    assert [(by_hand, executed) for _, by_hand, executed in counts] == [
        ("20900", "15775"), ("–", "100"), ("20500", "20500"), ("–", "4608"),
    ]  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_no_document_is_too_wide(document: Path) -> None:
    wide = [line for line in document.read_text(encoding="utf-8").splitlines() if len(line) > 150 and "|" not in line]
    assert wide == []
