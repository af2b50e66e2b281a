"""Bounds of a kernel on parts of a GPU, as a table, in words and as JSON."""

import math
from typing import Any

from rich.console import Console
from rich.markup import escape

from kerncast.caveats import Caveat, CaveatKind
from kerncast.report.as_json import SCHEMA_VERSION
from kerncast.report.tables import Table, print_notes, print_table
from kerncast.report.words import caveat_fields, describe_caveats
from kerncast.studies.bounding import SIMULATION, KernelBounds
from kerncast.studies.bounds import DEFAULT_METHOD, Contradiction
from kerncast.studies.bounds.base import ROUNDING
from kerncast.studies.splits import Scores, scores_of
from kerncast.units import format_seconds

KIND = "margin"

_PROMISES = {
    "list-scheduling": (
        "holds for every greedy schedule of the blocks, and for every time that is convex in 1/TPCs, if blocks are not"
        " slower on fewer TPCs"
    ),
    "equal-blocks": "holds if all blocks take equally long, and are not slower on fewer TPCs",
    "quantile-network": "none: the network's 80 % quantile, of launches that it learned from",
    "curve-fit-offset": "none: raised by what the anchors were above the forecast",
}
_CONTRADICTIONS = {
    Contradiction.SLOWER_WITH_MORE: CaveatKind.SLOWER_WITH_MORE_TPCS,
    Contradiction.LESS_WORK_WITH_MORE: CaveatKind.LESS_WORK_WITH_MORE_TPCS,
    Contradiction.ABOVE_OTHERS: CaveatKind.TIME_ABOVE_BOUND_OF_OTHERS,
    Contradiction.NO_STAIRCASE: CaveatKind.NO_STAIRCASE,
}


def is_oracle(bounds: KernelBounds) -> bool:
    """Whether the method looks at the times that it is judged by."""
    return bounds.method.endswith("-oracle")


def guarantee_of(bounds: KernelBounds, tpcs: int) -> str:
    """Return what the bound of one count promises."""
    times, answer = bounds.times, bounds.answer
    if times is not None and tpcs in answer.calibrated_on:
        runs = len(times.repeats(tpcs))
        return f"measured: the longest of {runs} runs" if runs > 1 else "measured: one run"
    if bounds.method == SIMULATION:
        return (
            f"none: the upper end of the simulation's {100 * (bounds.level or 0.0):g} % interval; nothing was measured"
        )
    if answer.spread is not None:
        is_staircase = Contradiction.NO_STAIRCASE not in answer.contradictions
        promise = _PROMISES[bounds.method if is_staircase else DEFAULT_METHOD]
        return f"{promise}; {_of_runs(bounds)}"
    if answer.margin and bounds.method not in _PROMISES:
        oracle = ", chosen by the times that it is to forecast" if is_oracle(bounds) else ""
        return f"none: a margin of {answer.margin:.0%}, as published{oracle}"
    if is_oracle(bounds):
        return "none: raised until no measured time was above it, by the times that it is to forecast"
    return _PROMISES[bounds.method]


def _of_runs(bounds: KernelBounds) -> str:
    spread = bounds.answer.spread
    if spread is None or spread.runs < 2:
        return "nothing was repeated, so that it says nothing of how runs differ"
    runs = f"the longest of {spread.runs} runs"
    return f"{runs} passes it with a risk of at most {spread.risk:.0%}, if the runs' tail is no heavier than Pareto's"


def caveats_of(bounds: KernelBounds) -> tuple[Caveat, ...]:
    """Return what speaks against the bounds, and what would make them tighter."""
    answer = bounds.answer
    found = [*bounds.caveats, *(Caveat(_CONTRADICTIONS[each]) for each in answer.contradictions)]
    if not answer.is_enough and answer.margin is not None:
        found.append(Caveat.of(CaveatKind.MARGIN_TOO_SMALL, margin=answer.margin))
    if nothing := [str(count) for count, bound in zip(bounds.tpcs, answer.bound, strict=True) if bound <= 0]:
        found.append(Caveat.of(CaveatKind.NO_TIME_ABOVE_ZERO, ", ".join(nothing)[:100]))
    if answer.spread is not None and answer.spread.runs > 1:
        found.append(Caveat.of(CaveatKind.BOUND_ABOVE_MEDIAN, factor=answer.spread.factor))
    if bounds.gpu.architecture.sms_per_tpc is None:
        found.append(Caveat.of(CaveatKind.SMS_PER_TPC_UNKNOWN, bounds.gpu.name))
    if answer.measure_next is not None:
        found.append(Caveat.of(CaveatKind.MEASURE_NEXT, tpcs=answer.measure_next))
    return tuple(found)


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
        **caveat_fields(caveats_of(bounds)),
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
    print_notes(describe_caveats(caveats_of(bounds)), console)


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
