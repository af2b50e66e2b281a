"""Sentences about a forecast: the only place that words a limiter, a count or a conclusion."""

from collections.abc import Sequence
from itertools import groupby

from kerncast.kernel_profile import Count, KernelProfile
from kerncast.prediction import Prediction, Timing
from kerncast.units import format_bytes, format_count, format_seconds

_LIMITERS = {
    "compute": "floating-point throughput",
    "fp32": "the FP32 lanes",
    "fp64": "the FP64 lanes",
    "fp16": "the FP16 lanes",
    "special": "the special-function units",
    "integer": "the integer lanes",
    "lsu": "the load/store units",
    "issue": "warp-instruction issue",
    "l2": "L2 bandwidth",
    "dram": "DRAM bandwidth",
    "launch": "the launch overhead",
}

_TIMINGS = {
    Timing.SERIES: "mean per launch in a warm, back-to-back series",
    Timing.SINGLE: "one launch between events",
    Timing.COLD: "one launch between events, L2 flushed before",
    Timing.PROFILER: "the kernel's own duration, as a profiler shows it",
}


def describe_limiter(name: str) -> str:
    """Return what a limiter means.

    >>> describe_limiter("dram")
    'DRAM bandwidth'
    """
    return _LIMITERS.get(name, name)


def describe_timing(timing: Timing) -> str:
    """Return what is timed, in words."""
    return _TIMINGS[timing]


def describe_interval(prediction: Prediction) -> str:
    """Return the interval of a forecast, such as ``8.3 µs to 60 µs``."""
    return describe_range(prediction.low, prediction.high)


def describe_range(low: float, high: float) -> str:
    """Return two times as a range."""
    return f"{format_seconds(low, 2)} to {format_seconds(high, 2)}"


def describe_count(count: Count | None, unit: str = "") -> str:
    """Return a count with its interval where it was scaled from a sample."""
    if count is None:
        return "unknown"
    form = format_bytes if unit == "B" else format_count
    text = form(count.value) if unit == "B" else form(count.value, unit)  # type: ignore[call-arg]
    if count.is_exact:
        return text
    return f"{text} ({form(count.low)} to {form(count.high)})"


def describe_sampling(profile: KernelProfile) -> str:
    """Return how the counts came about."""
    if profile.sampling is None:
        return "Counts declared by hand."
    if profile.sampling.is_whole_grid:
        return f"Counted exactly: all {profile.sampling.blocks} blocks were executed on the CPU."
    return (
        f"Counted by executing {profile.sampling.blocks_executed} of {profile.sampling.blocks} blocks on the CPU and"
        " scaling to the grid."
    )


def conclude(predictions: Sequence[Prediction]) -> list[str]:
    """Return the conclusion: per launch the fastest GPU, whether that is certain, and what limits."""
    sentences = []
    ordered = sorted(predictions, key=lambda p: p.launch)
    for _, group in groupby(ordered, key=lambda p: p.launch):
        ranked = sorted(group, key=lambda p: p.seconds)
        sentences.append(_conclude_launch(ranked))
    return sentences


def _conclude_launch(ranked: list[Prediction]) -> str:
    best, rest = ranked[0], ranked[1:]
    reason = f"limited by {describe_limiter(best.limiter)}"
    if not rest:
        return f"{best.kernel} takes about {format_seconds(best.seconds, 3)} on {best.gpu}, {reason}."
    second, last = rest[0], rest[-1]
    limiters = sorted({describe_limiter(p.limiter) for p in ranked})
    if last.seconds < 1.1 * best.seconds:
        head = f"{best.kernel} takes about the same time everywhere, {_span(best, last)}"
    else:
        head = f"{best.kernel} is fastest on {best.gpu} ({_span(best, last)})"
    sure = "the intervals do not overlap" if best.high < second.low else "within the intervals the order is open"
    limit = f"limited by {limiters[0]} on every GPU" if len(limiters) == 1 else f"limited by {' or '.join(limiters)}"
    return f"{head}, {limit}; {sure}."


def _span(best: Prediction, last: Prediction) -> str:
    return f"{format_seconds(best.seconds, 3)} to {format_seconds(last.seconds, 3)}"
