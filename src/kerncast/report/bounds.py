"""Bounds of a kernel on parts of a GPU, as a table and as JSON."""

import math
from typing import Any

from rich.console import Console
from rich.markup import escape

from kerncast.report.as_json import SCHEMA_VERSION
from kerncast.report.bound_words import KIND, caveats_of, guarantee_of, is_oracle
from kerncast.report.tables import Table, print_notes, print_table
from kerncast.studies.bounding import KernelBounds
from kerncast.studies.bounds.base import ROUNDING
from kerncast.studies.scores import Scores, scores_of
from kerncast.units import format_seconds


def judged(bounds: KernelBounds) -> tuple[tuple[float, float], ...]:
    """Return the longest measured time and the bound, of each count that was measured but not calibrated on.

    Without an oracle, none of them is known to the method; an oracle is judged by the times that it looked at.
    """
    times, answer = bounds.times, bounds.answer
    if times is None:
        return ()
    known = answer.calibrated_on if is_oracle(bounds) else (*answer.calibrated_on, *answer.known_beside)
    return tuple(
        (times.largest(count), bound)
        for count, bound in zip(bounds.tpcs, answer.bound, strict=True)
        if count in times.counts and count not in known
    )


def violations(pairs: tuple[tuple[float, float], ...]) -> int:
    """Return how many times are above their bounds."""
    return sum(time > bound * (1 + ROUNDING) for time, bound in pairs)


def bound_object(bounds: KernelBounds) -> dict[str, Any]:
    """Return the bounds as a JSON object: a row per number of TPCs."""
    answer, pairs = bounds.answer, judged(bounds)
    return {
        "schema_version": SCHEMA_VERSION,
        "gpu": bounds.gpu.name,
        "gpu_id": bounds.gpu.id,
        "method": bounds.method,
        "kind": KIND,
        "calibrated_on": list(answer.calibrated_on),
        "margin": answer.margin,
        "offset_seconds": answer.offset_seconds,
        "spread_factor": answer.spread.factor if answer.spread else None,
        "measure_next": answer.measure_next,
        "bounds": [
            {
                "tpcs": count,
                "expected_seconds": expected,
                "bound_seconds": bound,
                "kind": KIND,
                "guarantee": guarantee_of(bounds, count),
                "measured_seconds": _measured(bounds, count),
            }
            for count, expected, bound in zip(bounds.tpcs, answer.expected, answer.bound, strict=True)
        ],
        "scores": _scores_object(pairs),
        "caveats": list(caveats_of(bounds)),
    }


def refused_object(reason: str) -> dict[str, Any]:
    """Return the object of a launch that cannot be bounded."""
    return {"schema_version": SCHEMA_VERSION, "kind": KIND, "bounds": [], "refused": [{"reason": reason}]}


def print_bounds(bounds: KernelBounds, console: Console) -> None:
    """Print the bounds: a row per number of TPCs, what they promise, and what speaks against them."""
    answer = bounds.answer
    rows = tuple(
        (
            str(count),
            format_seconds(expected),
            format_seconds(bound),
            f"{bound / expected - 1:.0%}" if expected else "–",
            format_seconds(longest) if (longest := _measured(bounds, count)) is not None else "–",
        )
        for count, expected, bound in zip(bounds.tpcs, answer.expected, answer.bound, strict=True)
    )
    console.print(f"[bold]{escape(bounds.gpu.name)}[/bold]  bounds by {bounds.method}", highlight=False)
    print_table(Table(("TPCs", "expected", "bound", "above", "longest measured"), rows), console)
    for promise in dict.fromkeys(guarantee_of(bounds, count) for count in bounds.tpcs):
        console.print(f"Guarantee: {escape(promise)}.", highlight=False)
    pairs = judged(bounds)
    if pairs:
        found = _scores(pairs)
        known = "was set by" if is_oracle(bounds) else "does not know"
        console.print(
            f"Of {found.n} measured times that it {known}, {violations(pairs)} are above the bound; mean error"
            f" {format_seconds(found.mae)} ({found.mape:.1%}), largest {format_seconds(found.max_ae)}.",
            highlight=False,
        )
    print_notes(caveats_of(bounds), console)


def _measured(bounds: KernelBounds, count: int) -> float | None:
    times = bounds.times
    return times.largest(count) if times is not None and count in times.counts else None


def _scores(pairs: tuple[tuple[float, float], ...]) -> Scores:
    return scores_of([time for time, _ in pairs], [bound for _, bound in pairs])


def _scores_object(pairs: tuple[tuple[float, float], ...]) -> dict[str, Any] | None:
    if not pairs:
        return None
    found = _scores(pairs)
    return {
        "n": found.n,
        "violations": violations(pairs),
        "mae_seconds": found.mae,
        "max_ae_seconds": found.max_ae,
        "rmse_seconds": found.rmse,
        "mse": found.mse,
        "r2": None if math.isnan(found.r2) else found.r2,
        "mape": found.mape,
    }
