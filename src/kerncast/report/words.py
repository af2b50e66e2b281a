"""Sentences about a forecast: the only place that words a limiter, a count or a conclusion."""

from collections.abc import Sequence
from itertools import groupby

from kerncast.models import model_named
from kerncast.models.base import calibration_of
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import Count, KernelProfile, Origin
from kerncast.units import format_bytes, format_count, format_seconds

_LIMITERS = {
    "compute": "floating-point throughput",
    "fp32": "the FP32 lanes",
    "fp64": "the FP64 lanes",
    "fp16": "the FP16 lanes",
    "special": "the special-function units",
    "integer": "the integer lanes",
    "fma": "the FMA pipe",
    "alu": "the ALU pipe",
    "imad": "integer multiply-adds",
    "xu": "the special-function units",
    "tensor": "the tensor cores",
    "branch": "branches",
    "uniform": "the uniform datapath",
    "lsu": "the load/store units",
    "issue": "warp-instruction issue",
    "shared": "shared-memory bandwidth",
    "l1": "L1 bandwidth",
    "l2": "L2 bandwidth",
    "atomics": "atomics in L2",
    "dram": "DRAM bandwidth",
    "blocks": "the start of blocks",
    "latency": "latency",
    "launch": "the launch overhead",
}

_ONE_PERCENT = 0.01
#: What makes a kernel faster that this limits. Source: CUDA C++ Best Practices Guide (recalled).
_ADVICE = {
    "fp64": "FP32 where its precision suffices: several times as fast on most GPUs",
    "fma": "less arithmetic, or lower precision",
    "fp32": "less arithmetic, or lower precision",
    "alu": "fewer integer, compare and conversion instructions: simplify indices, unroll loops",
    "imad": "fewer integer multiplications: step through addresses instead of computing each one",
    "integer": "fewer integer instructions: simplify indices, unroll loops",
    "xu": "fewer divisions, roots and transcendental functions, or their fast intrinsics",
    "special": "fewer divisions, roots and transcendental functions, or their fast intrinsics",
    "branch": "unroll loops; turn short branches into selections",
    "lsu": "fewer, wider memory instructions: vector loads, values kept in registers",
    "issue": "fewer instructions: unroll loops, vectorise memory accesses",
    "shared": "avoid bank conflicts; keep values that are read again in registers",
    "l1": "coalesce accesses, so that a warp touches fewer lines",
    "l2": "reuse data within an SM: shared memory, tiles, coalesced accesses",
    "atomics": "combine within a warp or block before updating memory; spread the addresses",
    "dram": "move fewer bytes: reuse data in caches, coalesce accesses, use smaller types",
    "blocks": "fewer, larger blocks: more threads in each, or more work per thread",
    "latency": "more warps per SM, or more independent work in each: no resource is busy for most of the time",
    "launch": "more work per launch, or CUDA graphs",
}

_TIMINGS = {
    Timing.SERIES: "mean per launch in a warm, back-to-back series",
    Timing.SINGLE: "one launch between events, after others like it",
    Timing.COLD: "one launch between events, L2 flushed before",
    Timing.PROFILER: "the kernel's own duration, as a profiler shows it, after others like it",
}


def describe_limiter(name: str) -> str:
    """Return what a limiter means.

    >>> describe_limiter("dram")
    'DRAM bandwidth'
    """
    return _LIMITERS.get(name, name)


def advise(name: str) -> str:
    """Return what makes a kernel faster that this limits; empty where nothing is known.

    >>> advise("launch")
    'more work per launch, or CUDA graphs'
    """
    return _ADVICE.get(name, "")


def describe_part(seconds: float, whole: float) -> str:
    """Return a time with its share of another one.

    >>> describe_part(404e-6, 518e-6), describe_part(1e-9, 1e-3)
    ('404 µs (78 %)', '1 ns (<1 %)')
    """
    return f"{format_seconds(seconds, 3)} ({describe_percent(seconds / whole)})"


def describe_percent(share: float) -> str:
    """Return a share in whole percent."""
    return "<1 %" if 0 < share < _ONE_PERCENT else f"{share:.0%}".replace("%", " %")


def is_published(model: str) -> bool:
    """Return whether the interval of a model is the one of its paper, which no level changes."""
    return model_named(model).has_published_interval


def head_interval(predictions: Sequence[Prediction]) -> str:
    """Return the heading over the intervals of these forecasts, such as ``90% interval``."""
    kinds = ["published" if is_published(p.model) else f"{p.level:.0%}" for p in predictions]
    return f"{' or '.join(dict.fromkeys(kinds))} interval"


def describe_interval_kind(model: str) -> str:
    """Return whether the intervals of a model rest on measured times."""
    if is_published(model):
        return "published: the span of the projections by L1, L2 and DRAM, whatever the level"
    return "uncalibrated" if calibration_of(model) is None else "calibrated on measured times"


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
        if profile.origin is Origin.PROFILED:
            return f"Counted by a profiler on {profile.run.gpu.name}." if profile.run else "Counted by a profiler."
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
    advice = advise(best.limiter)
    advice = f" What would help: {advice}." if advice else ""
    if not rest:
        return f"{best.kernel} takes about {format_seconds(best.seconds, 3)} on {best.gpu}, {reason}.{advice}"
    second, last = rest[0], rest[-1]
    limiters = sorted({describe_limiter(p.limiter) for p in ranked})
    if last.seconds < 1.1 * best.seconds:
        head = f"{best.kernel} takes about the same time everywhere, {_span(best, last)}"
    else:
        head = f"{best.kernel} is fastest on {best.gpu} ({_span(best, last)})"
    is_certain = best.high < second.low
    sure = " The intervals do not overlap." if is_certain else " The intervals overlap, so the ranking is not certain."
    if len({p.model for p in ranked}) > 1:
        sure += " Forecasts of different models are compared."
    limit = f"limited by {limiters[0]} on every GPU" if len(limiters) == 1 else f"limited by {' or '.join(limiters)}"
    return f"{head}, {limit}.{sure}{advice if len(limiters) == 1 else ''}"


def _span(best: Prediction, last: Prediction) -> str:
    return f"{format_seconds(best.seconds, 3)} to {format_seconds(last.seconds, 3)}"
