"""Every kind of caveat has words of its own, and each that is made has just the details that its words show."""

import ast
import re
from string import Formatter

import pytest

from kerncast.caveats import Caveat, CaveatKind
from kerncast.report.words import WORDS, caveat_fields, describe_caveat, with_gpus
from tests.helpers.places import ROOT

#: Specifications that show a number; a field without one may be a number or a text.
TEXTS = {"open"}


def shown(kind: CaveatKind) -> set[str]:
    """Return the names of the fields that the words of a kind show."""
    return {name for _, name, _, _ in Formatter().parse(WORDS[kind]) if name}


def sample(kind: CaveatKind) -> Caveat:
    """Return a caveat with a detail for each field of its words."""
    details: dict[str, float | str] = {}
    for _, name, specification, _ in Formatter().parse(WORDS[kind]):
        if name and name != "subject":
            details[name] = 0.5 if specification and specification not in TEXTS else f"<{name}>"
    return Caveat.of(kind, "<subject>", **details)


def made() -> list[tuple[str, set[str]]]:
    """Return each call in the sources that makes a caveat of a known kind: the kind, and the fields that it gives."""
    found = []
    for path in (ROOT / "src").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or ast.unparse(call.func) not in {"Caveat", "Caveat.of"}:
                continue
            kind = ast.unparse(call.args[0]) if call.args else ""
            names = {each.arg for each in call.keywords if each.arg} | ({"subject"} if len(call.args) > 1 else set())
            found += [(each.name, names) for each in CaveatKind if kind == f"CaveatKind.{each.name}"]
    return found


def test_every_kind_has_words() -> None:
    assert set(WORDS) == set(CaveatKind)
    assert all(kind.value == kind.name.lower().replace("_", "-") for kind in CaveatKind)


def test_no_two_kinds_have_the_same_words() -> None:
    texts = [describe_caveat(sample(kind)) for kind in CaveatKind]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("kind", CaveatKind)
def test_words_are_sentences_that_show_the_details(kind: CaveatKind) -> None:
    text = describe_caveat(sample(kind))
    assert text.endswith(".")
    assert text[0] in "<0123456789" or text[0].isupper()
    assert "  " not in text
    assert ("<subject>" in text) == ("subject" in shown(kind))


def test_each_caveat_that_is_made_has_what_its_words_show() -> None:
    """A misspelt detail would fail where the caveat is printed, which may be long after it was made."""
    assert [(kind, names) for kind, names in made() if names != shown(CaveatKind[kind])] == []


def test_every_kind_is_made_somewhere() -> None:
    own = {"caveats.py", "words.py"}
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py") if path.name not in own]
    used = {name for text in texts for name in re.findall(r"CaveatKind\.([A-Z0-9_]+)", text)}
    assert {kind.name for kind in CaveatKind} == used


def test_numbers_are_shown_in_units() -> None:
    found = Caveat.of(
        CaveatKind.INTERVAL_CALIBRATED, "3 sets on 14 GPUs", level=0.9, factor=1.524, cases=684, families=54
    )
    assert describe_caveat(found) == (
        "90 % interval: forecast / 1.5 to forecast x 1.5, the error seen on 684 measured cases"
        " (54 kernels; 3 sets on 14 GPUs)."
    )
    found = Caveat.of(CaveatKind.WORKING_SET_FITS_ONE, "A", other="B", working_set=6e6, inside=6291456, outside=5767168)
    assert describe_caveat(found) == (
        "The working set of 6 MB fits L2 of A (6.29 MB), but not L2 of B (5.77 MB). Its efficiency does not carry over."
    )
    found = Caveat.of(CaveatKind.CLOCK_OF_RUN, "A", run_hz=1.2e9, gpu_hz=1.455e9)
    assert "at 1200 MHz, but the roofs of A are for 1455 MHz" in describe_caveat(found)


def test_the_reason_of_a_refusal_keeps_one_full_stop() -> None:
    for reason in ("it does not end", "it does not end."):
        text = describe_caveat(Caveat.of(CaveatKind.CACHES_NOT_SIMULATED, reason=reason))
        assert text == "The caches were not simulated: it does not end."


def test_braces_in_names_are_shown_as_they_are() -> None:
    assert describe_caveat(Caveat(CaveatKind.TUNED_WITH, "{kind}")) == "The kernel is tuned with {kind}."


def test_caveats_as_json() -> None:
    found = caveat_fields([Caveat.of(CaveatKind.MEASURE_NEXT, tpcs=20), Caveat(CaveatKind.NO_STAIRCASE)])
    assert found["caveats"] == [each["text"] for each in found["caveat_details"]]
    assert found["caveat_details"][0] == {
        "kind": "measure-next", "subject": "", "numbers": {"tpcs": 20}, "texts": {},
        "text": "A time on 20 TPCs would tighten the bounds most.",
    }  # fmt: skip
    assert caveat_fields([]) == {"caveats": [], "caveat_details": []}


def test_gpus_before_a_sentence() -> None:
    assert with_gpus("It is slow.", ["T4", "A2"]) == "T4, A2: It is slow."
