"""The table of whole programs: its list, how outcomes are told apart, its totals; no program is run."""

import csv
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.helpers.places import ROOT

BENCHMARKS = ROOT / "benchmarks"
LAUNCHED = {"status": 0, "launches": 5, "distinct": 2, "remarks": []}


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("score_whole_programs")


@pytest.fixture
def judged(module: ModuleType) -> Callable[..., tuple[str, str, str]]:
    """Judge what one run gave, of a program whose check prints PASS."""

    def judge(printed: str = "", found: dict[str, Any] | None = None, **changed: Any) -> tuple[str, str, str]:
        program = replace(module.load_programs()[0], check="^PASS$")
        text = f"main {module._STARTED}\n{printed}"
        ran = module.Ran(**{"status": 0, "found": LAUNCHED | (found or {}), "said": text, "built_after": 1.0,
                            "seconds": 2.0} | changed)  # fmt: skip
        result: tuple[str, str, str] = module._judged(program, ran, module.Limits(60.0, 0.0, None, is_reduced=False))
        return result

    return judge


def test_the_list_has_the_programs_that_it_is_to_have(module: ModuleType) -> None:
    programs = module.load_programs()
    with (BENCHMARKS / "front_end_programs.csv").open(newline="", encoding="utf-8") as file:
        named = {(row["suite"], row["program"]) for row in csv.DictReader(file)}
    found = {(each.suite, each.program) for each in programs}
    assert {each for each in found if each[0] in {"rodinia", "hecbench"}} == named
    assert sum(suite == "samples" for suite, _ in found) == 22
    assert len({(each.suite, each.name) for each in programs}) == len(programs)


def test_inputs_of_the_list_can_be_made(module: ModuleType, tmp_path: Path) -> None:
    inputs = import_module("whole_program_inputs")
    for each in module.load_programs():
        for entry in filter(None, each.inputs.split(";")):
            assert entry.split()[0] in inputs.KINDS, each.name
    assert inputs.make_inputs("keys data/k.txt 5; graph data/g.txt 4 2", tmp_path, tmp_path)
    keys = (tmp_path / "data" / "k.txt").read_text(encoding="utf-8").split()
    assert keys[0] == "5"
    assert sorted(keys[1:]) == list("01234")
    assert not inputs.make_inputs("keys data/k.txt 7", tmp_path, tmp_path)  # what is there stays


def test_outcomes_are_told_apart(judged: Callable[..., tuple[str, str, str]]) -> None:
    assert judged("PASS\n") == ("passed", "ran whole", "")
    assert judged("FAIL\n")[:2] == ("failed", "wrong")
    assert judged("PASS\n", {"remarks": ["k: out of bounds"]}) == ("passed", "failed", "k: out of bounds")
    assert judged("PASS\n", {"remarks": ["k went on, as on a GPU: 4 bytes"]})[1] == "ran whole"
    assert judged("no file\n", status=3)[1:] == ("failed", "status 3: no file")
    assert judged("", {"status": -15}, seconds=99.0)[1] == "too long"
    assert judged("", status=-9, found={})[1] == "too long"
    assert judged("", built_after=None, said="cc a.c\na.c:1: error: no\nmake: ***")[1:] == (
        "does not build", "a.c:1: error: no",
    )  # fmt: skip


def test_of_several_programs_in_one_folder_the_worst_counts(module: ModuleType) -> None:
    good = module.Outcome("rodinia", "srad", "srad v1", "full", "ran whole", check="none")
    bad = replace(good, name="srad v2", outcome="too long")
    assert list(module.totals([good, bad]))[2] == "| rodinia | 1 | 0 | 0 | 0 | 0 | 1 | 0 | 0 |"
    assert list(module.targets([good, bad]))[2] == "| rodinia, hecbench | 1 of 83 tried | 0 | 70 |"
    assert list(module.targets([good]))[2].endswith("| 1 | 70 |")


def test_what_is_run_again_replaces_what_was_known(module: ModuleType, tmp_path: Path) -> None:
    programs = [each for each in module.load_programs() if each.suite == "samples"][:2]
    first, second = (module.Outcome(each.suite, each.program, each.name, "full", "failed") for each in programs)
    again = replace(first, outcome="ran whole")
    assert module.merged([second, first], [again], programs) == [again, second]
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n{module._BEGIN}old\n{module._END}end\n", encoding="utf-8")
    module.write_page(page, [again])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Page\n")
    assert text.endswith("end\n")
    assert module.table_row(again) in text
    assert "\nold\n" not in text
