"""Words for bounds: what each promises, and what speaks against it."""

from kerncast.studies.bounding import SIMULATION, KernelBounds
from kerncast.studies.bounds import DEFAULT_METHOD, Contradiction

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
    Contradiction.SLOWER_WITH_MORE: (
        "the kernel was slower on more TPCs than on fewer, beyond the spread of its repeats: what the bound assumes"
        " does not hold, and the longer time is used for both"
    ),
    Contradiction.LESS_WORK_WITH_MORE: (
        "the kernel sped up by more than its TPCs grew, beyond the spread of its repeats: its blocks are slower on"
        " fewer TPCs, where the bound between measured counts may fail"
    ),
    Contradiction.ABOVE_OTHERS: (
        "a measured time is above the bound that the other ones give: the kernel is no such schedule, and may be above"
        " the bound elsewhere, too"
    ),
    Contradiction.NO_STAIRCASE: (
        "no grid of equal blocks has these times: the bound is that of list-scheduling"
    ),
}  # fmt: skip


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


def caveats_of(bounds: KernelBounds) -> tuple[str, ...]:
    """Return what speaks against the bounds, and what would make them tighter."""
    answer = bounds.answer
    found = [*bounds.caveats, *(_CONTRADICTIONS[each] for each in answer.contradictions)]
    if not answer.is_enough and answer.margin is not None:
        found.append(f"the largest margin, {answer.margin:.0%}, did not lift every time that it was judged by")
    if nothing := [str(count) for count, bound in zip(bounds.tpcs, answer.bound, strict=True) if bound <= 0]:
        found.append(f"the method forecasts no time above 0 on {', '.join(nothing)[:100]} TPCs: 0 s is no bound")
    if answer.spread is not None and answer.spread.runs > 1:
        found.append(f"the bound is {answer.spread.factor:.3g} times that of median runs, by the spread of the repeats")
    if bounds.gpu.architecture.sms_per_tpc is None:
        found.append(f"the SMs per TPC of {bounds.gpu.name} are unknown: each SM counts as a TPC")
    if answer.measure_next is not None:
        found.append(f"a time on {answer.measure_next} TPCs would tighten the bounds most")
    return tuple(found)
