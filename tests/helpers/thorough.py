"""How much the tests try: what covers each kind of thing by default, every combination with ``make test-thorough``."""

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest

THOROUGH = os.environ.get("KERNCAST_TESTS") == "thorough"

#: Left out of a run that is not thorough.
thorough = pytest.mark.thorough


def examples(count: int) -> int:
    """Return how many of a property's examples to draw: a quarter of the thorough number, at least 5."""
    return count if THOROUGH else min(count, max(count // 4, 5))


def sampled(cases: Iterable[Any], usual: Collection[Any]) -> list[Any]:
    """Return all cases as parameters, of which the usual ones run every time."""
    return [
        case if case in usual else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=thorough)
        for case in cases
    ]
