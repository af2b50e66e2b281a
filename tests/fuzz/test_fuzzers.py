"""Each fuzzer works: its inputs can be made again, some are accepted and some refused, and no reader fails on them."""

import tempfile
from pathlib import Path

import pytest

from tests.fuzz.campaign import Plan, run
from tests.fuzz.target import HANG_SECONDS, Target, Verdict, tried
from tests.fuzz.worker import targets

_INPUTS = 60
#: Readers that pass over what they do not understand.
_REFUSES_NOTHING = {"Makefile", "sass"}
TARGETS = targets()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize("name", list(TARGETS))
def test_no_input_is_a_defect(name: str) -> None:
    target = TARGETS[name]
    inputs = [target.input(0, index) for index in range(len(target.corpus) + _INPUTS)]
    found = [tried(target, each) for each in inputs]
    assert [each.trace for each in found if each.trace] == []
    verdicts = {each.verdict for each in found}
    assert Verdict.ACCEPTED in verdicts
    assert (Verdict.REFUSED in verdicts) == (name not in _REFUSES_NOTHING)


def test_an_index_makes_the_same_input_again() -> None:
    for target in TARGETS.values():
        assert [target.input(3, index) for index in range(12)] == [target.input(3, index) for index in range(12)]
        assert target.input(3, 11) != target.input(4, 11) or target.input(3, 12) != target.input(4, 12)


def _fail(_: bytes) -> None:
    raise IndexError("no such thing")


def test_what_is_no_error_of_ours_is_a_defect() -> None:
    found = tried(Target("x", _fail, (b"a",), ()), b"a")
    assert found.verdict is Verdict.DEFECT
    assert "IndexError: no such thing" in found.trace
    assert found.seconds < HANG_SECONDS


def test_a_campaign_counts_every_input() -> None:
    (row,) = run(["layers.csv"], Plan(seed=0, seconds=60, inputs=100), jobs=1)
    assert row.inputs == 100
    assert row.is_clean
