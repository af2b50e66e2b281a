"""What the words of forecasts and profiles mean: ``data/terms.csv``, the states of warps, and every counter."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import kerncast
from kerncast.bounded_file import our_rows
from kerncast.errors import InputError
from kerncast.report.profile.sections import STALLS
from kerncast.report.words import advise

_DATA = Path(kerncast.__path__[0]) / "data"


@dataclass(frozen=True, slots=True)
class Term:
    """One word with its meaning."""

    name: str
    kind: str
    """resource, model, column, timing, warp state, counter or word"""
    called: str
    """name in sentences; empty: as it is"""
    counter: str
    """counter of Nsight Compute that tells it; empty: there is none"""
    meaning: str

    @property
    def sentences(self) -> Iterator[str]:
        """The explanation, sentence by sentence."""
        called = f" ({self.called})" if self.called else ""
        yield f"{self.name}{called}, {self.kind}: {self.meaning}."
        if self.counter:
            yield f"Nsight Compute: {self.counter}."
        if self.kind == "resource" and advise(self.name):
            yield f"What would help: {advise(self.name)}."


def terms() -> tuple[Term, ...]:
    """Return what is explained, without the counters."""
    own = [
        Term(row["term"], row["kind"], row["called"], row["counter"], row["meaning"])
        for row in our_rows(_DATA / "terms.csv")
    ]
    states = [Term(name, "warp state", "", "", f"a warp waits for {text}") for name, text in STALLS.items()]
    return (*own, *states)


def explain(name: str) -> Term:
    """Return what a term or a counter means; raises InputError with the ones of similar names."""
    known = {term.name: term for term in terms()}
    named = {term.called: term for term in known.values() if term.called}
    found = known.get(name.lower()) or named.get(name)
    if found is not None:
        return found
    counters = {row["name"]: row for row in our_rows(_DATA / "vocabulary.csv")}
    if name in counters:
        return Term(name, "counter", "", "", counters[name]["meaning"])
    close = get_close_matches(name.lower(), [*known, *counters], 3)
    cure = f"Did you mean {', '.join(close)}?" if close else "kerncast explain lists the terms."
    raise InputError(f"no term is called {name[:60]!r}", cure=cure)
