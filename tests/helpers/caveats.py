"""Caveats by their kind: tests of what makes them assert kinds, test_caveat_words.py alone tests words."""

from collections.abc import Iterable

from kerncast.caveats import Caveat, CaveatKind


def kinds(caveats: Iterable[Caveat]) -> list[CaveatKind]:
    """Return the kinds of some caveats, in their order."""
    return [caveat.kind for caveat in caveats]


def only(caveats: Iterable[Caveat], kind: CaveatKind) -> Caveat:
    """Return the one caveat of a kind; a test fails where there is none, or more."""
    (found,) = [caveat for caveat in caveats if caveat.kind is kind]
    return found
