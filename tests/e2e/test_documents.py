"""The documents tell the truth: links lead somewhere, the README's output is what the command prints."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerncast.gpu import list_gpus
from tests.helpers.places import ROOT

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (document.parent / target).exists(), target


def test_the_tests_that_trust_names_exist() -> None:
    named = re.findall(r"`(tests/[^`]+)`", (ROOT / "docs" / "trust.md").read_text(encoding="utf-8"))
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_the_readme_shows_what_the_command_prints() -> None:
    block = re.search(
        r"```console\n\$ kerncast (.*)\n((?:.*\n)*?)```", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    assert block
    command = [sys.executable, "-m", "kerncast", *shlex.split(block[1])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, encoding="utf-8")
    assert [line.rstrip() for line in done.stdout.rstrip().splitlines()] == block[2].rstrip().splitlines()


#: Commands that no test can repeat: they show this machine, or files of the reader's own.
NOT_REPEATED = {
    "kerncast cache", "kerncast cache --clear", "kerncast doctor", "kerncast gpus ./my-card.toml",
}  # fmt: skip


_SHOWN = re.compile(r"^\$ (kerncast (?:[^\n]*\\\n)*[^\n]*)\n((?:(?!\$ ).*\n?)*)", re.MULTILINE)


def console_blocks() -> Iterator[tuple[str, str]]:
    """Yield each command of kerncast that a document shows with its output."""
    for document in DOCUMENTS:
        for block in re.findall(r"```console\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL):
            for command, shown in re.findall(
                r"^\$ (kerncast (?:[^\n]*\\\n)*[^\n]*)\n((?:(?!\$ ).*\n?)*)", block, re.MULTILINE
            ):
                if shown.strip() and command not in NOT_REPEATED:
                    yield command, shown


@pytest.mark.parametrize(("command", "shown"), list(console_blocks()), ids=lambda text: text[:40])
def test_documents_show_what_commands_print(command: str, shown: str, kerncast: Any, tmp_path: Path) -> None:
    """An ellipsis stands for what is left out; how lines are broken is up to the terminal."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copytree(ROOT / "examples", tmp_path, dirs_exist_ok=True)
    for folder in ("benchmarks", "src"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    if "times.csv" in command:
        (tmp_path / "times.csv").write_text(bound_times(), encoding="utf-8")
    done = kerncast(*shlex.split(command.replace("\\\n", " "))[1:])
    printed = " ".join((done.stdout + done.stderr).split())
    for part in shown.split("…"):
        text = " ".join(part.split())
        assert text in printed
        printed = printed[printed.index(text) + len(text) :]


def bound_times() -> str:
    """Return the file of times that the page on bounds shows."""
    page = (ROOT / "docs" / "bound.md").read_text(encoding="utf-8")
    found = re.search(r"```(?:csv|text)?\n(tpcs,seconds\n.*?)```", page, re.DOTALL)
    assert found
    return found[1]


def test_the_number_of_gpus() -> None:
    assert f"{len(list_gpus())} from Kepler to Blackwell" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_files_to_read_first_are_short() -> None:
    (sentence,) = re.findall(
        r"Read these four files first: (.*?)\.\n\n", (ROOT / "docs" / "flow.md").read_text(), re.DOTALL
    )
    files = [ROOT / "src" / "kerncast" / name for name in re.findall(r"`([\w/]+\.py)`", sentence)]
    assert len(files) == 4
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) < 1200


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
