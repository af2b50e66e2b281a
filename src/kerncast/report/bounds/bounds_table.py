"""Bounds of a kernel on parts of a GPU, as a table, in words and as JSON."""

from typing import Any

from rich.console import Console
from rich.markup import escape

from kerncast.caveats import Caveat, CaveatKind
from kerncast.measurements.scores import Scores, scores_of
from kerncast.report.as_json import SCHEMA_VERSION
from kerncast.report.notebook import Part, Shown
from kerncast.report.tables import Table, print_notes, print_table
from kerncast.report.words import caveat_fields, describe_caveats
from kerncast.studies.bounding import KernelBounds
from kerncast.studies.bounds import Contradiction, Kind
from kerncast.studies.worst_case import worst_case_of
from kerncast.units import format_seconds

_PROMISES = {
    "list-scheduling": (
        "holds for every greedy schedule of the blocks, and for every time that is convex in 1/TPCs, if blocks are not"
        " slower on fewer TPCs"
    ),
    "equal-blocks": "holds if all blocks take equally long, and are not slower on fewer TPCs",
    "worst-path": (
        "holds if blocks go to the first free place and no resource idles while it is asked, with every wait added up:"
        " no load hits L1, L2 starts empty, each access takes as long as DRAM, {clock}; if the executed"
        " inputs take the worst path, nothing else runs, and rates and latencies are those of the GPU's facts"
    ),
    "simulation": (
        "with a probability of {level}, a run stays below, by the errors of the simulation on measured kernels and by"
        " how measured runs differ"
    ),
    "shapes": (
        "with a probability of {level}, a run of a kernel like those that were learned from stays below, by the shapes"
        " of their curves and by how measured runs differ"
    ),
    "quantile-network": "none: the network's 80 % quantile, of launches that it learned from",
    "curve-fit-offset": "none: raised by what the anchors were above the forecast",
}
#: Of a model that stands in for the simulation.
_NOT_SIMULATED = "none: the {model} stands in for the simulation, and its error was not measured on parts of a GPU"
_CONTRADICTIONS = {
    Contradiction.SLOWER_WITH_MORE: CaveatKind.SLOWER_WITH_MORE_TPCS,
    Contradiction.LESS_WORK_WITH_MORE: CaveatKind.LESS_WORK_WITH_MORE_TPCS,
    Contradiction.ABOVE_OTHERS: CaveatKind.TIME_ABOVE_BOUND_OF_OTHERS,
    Contradiction.NO_STAIRCASE: CaveatKind.NO_STAIRCASE,
    Contradiction.FAR_FROM_SIMULATION: CaveatKind.TIME_FAR_FROM_SIMULATION,
    Contradiction.SIMULATION_ABOVE_WORST_PATH: CaveatKind.SIMULATION_ABOVE_WORST_PATH,
    Contradiction.ABOVE_WORST_PATH: CaveatKind.TIME_ABOVE_WORST_PATH,
}


def is_oracle(bounds: KernelBounds) -> bool:
    """Whether the method looks at the times that it is judged by."""
    return bounds.method.endswith("-oracle")


def guarantee_of(bounds: KernelBounds, tpcs: int) -> str:
    """Return what the bound of a count promises."""
    alone = _guarantee_alone(bounds, tpcs)
    if not any(each.beside_tpcs for each in bounds.slowdowns):
        return alone
    return (
        f"alone: {alone}; the slowdown beside the other kernel holds if L2 and DRAM serve requests in their order and"
        " that kernel asks for at most twice what it does alone, and was not measured"
    )


def _guarantee_alone(bounds: KernelBounds, tpcs: int) -> str:
    answer, level = bounds.answer, _share(bounds.level)
    if bounds.kind is Kind.MARGIN:
        return _of_margin(bounds)
    if bounds.kind is Kind.EXTREME:
        fit = answer.extremes
        assert fit is not None
        if tpcs not in answer.calibrated_on:
            return (
                "none: the heaviest fitted tail around what bounds the median of so many TPCs; too few runs for a fit"
            )
        return (
            f"a run passes it with a probability of at most {_share(1 - bounds.level)}, at {100 * fit.confidence:g} %"
            f" confidence, if later runs are like these; {fit.tail} of {fit.runs} runs, {fit.exceedances} in the tail,"
            f" shape {fit.shape:.2f}"
        )
    is_staircase = Contradiction.NO_STAIRCASE not in answer.contradictions
    clock = "at the base clock" if bounds.gpu.clock_base_hz else "at the boost clock, as the base clock is unknown"
    promise = _PROMISES[bounds.method if is_staircase else "list-scheduling"].format(level=level, clock=clock)
    if bounds.times is None:
        return f"{promise}; nothing was measured"
    return f"{promise}; {_of_runs(bounds)}" if answer.spread is not None else promise


def _of_margin(bounds: KernelBounds) -> str:
    if bounds.answer.margin and bounds.method not in _PROMISES:
        oracle = ", chosen by the times that it is to forecast" if is_oracle(bounds) else ""
        return f"none: a margin of {bounds.answer.margin:.0%}, as published{oracle}"
    if is_oracle(bounds):
        return "none: raised until no measured time was above it, by the times that it is to forecast"
    return _PROMISES.get(bounds.method, _NOT_SIMULATED.format(model=bounds.method))


def _share(value: float) -> str:
    """Return a share in per cent, with all of its digits.

    >>> _share(0.9), _share(0.99999)
    ('90 %', '99.999 %')
    """
    return f"{100 * value:.10g} %"


def _of_runs(bounds: KernelBounds) -> str:
    spread = bounds.answer.spread
    if spread is None or spread.runs < 2:
        return "nothing was repeated, so that runs are taken to differ as those of other kernels do"
    runs = f"the longest of {spread.runs} runs"
    return f"{runs} passes it with a risk of at most {_share(spread.risk)} if their tail is no heavier than Pareto's"


def caveats_of(bounds: KernelBounds) -> tuple[Caveat, ...]:
    """Return what speaks against the bounds, and what would make them tighter."""
    answer = bounds.answer
    found = [*bounds.caveats, *(Caveat(_CONTRADICTIONS[each]) for each in answer.contradictions)]
    if not answer.is_enough and answer.margin is not None:
        found.append(Caveat.of(CaveatKind.MARGIN_TOO_SMALL, margin=answer.margin))
    if nothing := [str(count) for count, bound in zip(bounds.tpcs, answer.bound, strict=True) if bound <= 0]:
        found.append(Caveat.of(CaveatKind.NO_TIME_ABOVE_ZERO, ", ".join(nothing)[:100]))
    if answer.spread is not None:
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
    if times is None or bounds.slowdowns:  # what was measured was measured alone
        return ()
    known = answer.calibrated_on if is_oracle(bounds) else (*answer.calibrated_on, *answer.known_beside)
    return tuple(
        (times.largest(count), bound)
        for count, bound in zip(bounds.tpcs, answer.bound, strict=True)
        if count in times.counts and count not in known
    )


def bound_object(bounds: KernelBounds) -> dict[str, Any]:
    """Return the bounds as a JSON object: a row per number of TPCs."""
    answer, pairs = bounds.answer, judged(bounds)
    return {
        "schema_version": SCHEMA_VERSION,
        "gpu": bounds.gpu.name,
        "gpu_id": bounds.gpu.id,
        "method": bounds.method,
        "kind": bounds.kind.value,
        "level": bounds.level if bounds.kind is not Kind.MARGIN else None,
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
                "kind": bounds.kind.value,
                "guarantee": guarantee_of(bounds, count),
                "measured_seconds": _measured(bounds, count),
                **beside,
            }
            for count, expected, bound, beside in zip(
                bounds.tpcs, answer.expected, answer.bound, _beside_objects(bounds), strict=True
            )
        ],
        "plan": [{"tpcs": step.tpcs, "mean_above_expected": step.mean_above} for step in bounds.plan],
        "extremes": _extremes_object(bounds),
        "scores": _scores_object(pairs),
        **caveat_fields(caveats_of(bounds)),
    }


def refused_object(reason: str) -> dict[str, Any]:
    """Return the object of a launch that cannot be bounded."""
    return {"schema_version": SCHEMA_VERSION, "bounds": [], "refused": [{"reason": reason}]}


def print_bounds(bounds: KernelBounds, console: Console) -> None:
    """Print the bounds: a row per number of TPCs, what they promise, and what speaks against them."""
    console.print(f"[bold]{escape(bounds.gpu.name)}[/bold]  {bounds.kind} bounds by {bounds.method}", highlight=False)
    beside = ("beside", "slower", "at most") if bounds.slowdowns else ()
    print_table(Table(("TPCs", "expected", "bound", "above", "longest measured", *beside), _rows(bounds)), console)
    for promise in dict.fromkeys(guarantee_of(bounds, count) for count in bounds.tpcs):
        console.print(f"Guarantee: {escape(promise)}.", highlight=False)
    pairs = judged(bounds)
    if pairs:
        found = _scores(pairs)
        known = "was set by" if is_oracle(bounds) else "does not know"
        worst = worst_case_of(pairs)
        console.print(
            f"Of {found.n} measured times that it {known}, {worst.misses} are above the bound; mean error"
            f" {format_seconds(found.mae)} ({found.mape:.1%}), largest {format_seconds(found.max_ae)}. The bound is"
            f" {worst.mean_over:.1%} above them on average, {worst.largest_over:.1%} at most. A miss has a probability"
            f" of at most {worst.miss_probability_upper:.0%}, at 95 % confidence.",
            highlight=False,
        )
    if bounds.plan:
        steps = tuple(
            (str(number), str(step.tpcs) if step.tpcs else "–", f"{step.mean_above:.0%}")
            for number, step in enumerate(bounds.plan)
        )
        alone = " of the kernel alone" if bounds.slowdowns else ""
        console.print(f"What further measurements{alone} would give, if they came out as expected:", highlight=False)
        print_table(Table(("further counts", "measured last", "mean above expected"), steps), console)
    print_notes(describe_caveats(caveats_of(bounds)), console)


def shown_bounds(bounds: KernelBounds) -> Shown:
    """Return the bound with all TPCs in a sentence, and a row per number of TPCs."""
    count, expected, bound = bounds.tpcs[-1], bounds.answer.expected[-1], bounds.answer.bound[-1]
    said = (
        f"On {count} TPC{'s' * (count != 1)} of {bounds.gpu.name} the kernel stays below {format_seconds(bound, 3)}"
        f" ({format_seconds(expected, 3)} are expected); {bounds.kind} bounds by {bounds.method}."
    )
    promises = dict.fromkeys(guarantee_of(bounds, each) for each in bounds.tpcs)
    notes = [*(f"Guarantee: {each}." for each in promises), *describe_caveats(caveats_of(bounds))]
    beside = ("beside", "slower", "at most") if bounds.slowdowns else ()
    table = Table(("TPCs", "expected", "bound", "above", "longest measured", *beside), _rows(bounds))
    return Shown((said,), (Part(table),), tuple(notes))


def _rows(bounds: KernelBounds) -> tuple[tuple[str, ...], ...]:
    answer = bounds.answer
    slower: list[tuple[str, ...]] = [
        (str(each.beside_tpcs), f"{each.expected:.2f}", f"{each.bound:.2f}") for each in bounds.slowdowns
    ] or [()] * len(bounds.tpcs)
    return tuple(
        (
            str(count),
            format_seconds(expected),
            format_seconds(bound),
            f"{bound / expected - 1:.0%}" if expected else "–",
            format_seconds(longest) if (longest := _measured(bounds, count)) is not None else "–",
            *beside,
        )
        for count, expected, bound, beside in zip(bounds.tpcs, answer.expected, answer.bound, slower, strict=True)
    )


def _measured(bounds: KernelBounds, count: int) -> float | None:
    times = bounds.times
    return times.largest(count) if times is not None and count in times.counts else None


def _scores(pairs: tuple[tuple[float, float], ...]) -> Scores:
    return scores_of([time for time, _ in pairs], [bound for _, bound in pairs])


def _scores_object(pairs: tuple[tuple[float, float], ...]) -> dict[str, Any] | None:
    if not pairs:
        return None
    found, worst = _scores(pairs), worst_case_of(pairs)
    return {
        "n": found.n,
        "violations": worst.misses,
        "mae_seconds": found.mae,
        "max_ae_seconds": found.max_ae,
        "rmse_seconds": found.rmse,
        "mse": found.mse,
        "r2": found.known_r2,
        "mape": found.mape,
        "mean_over_estimate": worst.mean_over,
        "largest_over_estimate": worst.largest_over,
        "tightness": worst.tightness,
        "miss_probability": worst.misses / found.n,
        "miss_probability_upper": worst.miss_probability_upper,
    }


def _beside_objects(bounds: KernelBounds) -> list[dict[str, Any]]:
    """Return what another kernel does to each count; nothing where none runs beside it."""
    if not bounds.slowdowns:
        return [{} for _ in bounds.tpcs]
    return [
        {"beside_tpcs": each.beside_tpcs, "slowdown_expected": each.expected, "slowdown_bound": each.bound}
        for each in bounds.slowdowns
    ]


def _extremes_object(bounds: KernelBounds) -> dict[str, Any] | None:
    fit = bounds.answer.extremes
    if fit is None:
        return None
    return {
        "tail": fit.tail.value,
        "runs": fit.runs,
        "exceedances": fit.exceedances,
        "threshold_seconds": fit.threshold_seconds,
        "scale_seconds": fit.scale_seconds,
        "shape": fit.shape,
        "confidence": fit.confidence,
        "checks": [
            {"name": each.name, "statistic": each.statistic, "p_value": each.p_value, "passes": each.passes}
            for each in fit.checks
        ],
    }
