"""Counts, shares and intervals of a profile, in words."""

from kerncast.launch import Extent
from kerncast.metrics import Metric, word
from kerncast.profiles import Count, KernelProfile, Origin
from kerncast.units import PERCENT, format_bytes, format_count

NOTHING = "–"
#: Its ends are what caches can do, not those of a sample.
_BRACKET = "kerncast__dram_bytes_bracket.sum"
#: Extrapolated by how it grew, and bounded by the buffers: the widest of all, and no measure of the sample.
_WORKING_SET = "kerncast__global_bytes_touched.sum"
_ORIGINS = {
    Origin.EXECUTED: "counted while the PTX ran on the CPU",
    Origin.COUNTED: "counted by the PTX, the arguments and the launch, without running it",
    Origin.COMPILED: "read from the compiled kernel",
    Origin.DECLARED: "as launched",
    Origin.DISASSEMBLED: "disassembled machine code, run as often as the PTX it comes from",
    Origin.ESTIMATED: "estimated from the PTX: no disassembler is at hand, or it does not know this architecture",
    Origin.SIMULATED: "caches of this GPU, simulated on the executed accesses, cold at the start",
}


def describe_origin(origin: Origin) -> str:
    """Return where a number comes from."""
    return _ORIGINS[origin]


def extent_text(extent: Extent) -> str:
    """Return an extent without ones at its end.

    >>> extent_text((16, 16, 1)), extent_text((1, 1, 1))
    ('16 × 16', '1')
    """
    return " × ".join(map(str, trimmed(extent)))


def trimmed(extent: Extent) -> list[int]:
    """Return an extent as launch files write it: without ones at its end."""
    kept = list(extent)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return kept


def describe_scaled(count: Count | None, unit: str = "") -> str:
    """Return a count, with the farther end of its interval in percent where it was scaled from a sample.

    >>> describe_scaled(Count(4096, 4000, 4200)), describe_scaled(Count.exact(2e6), "B"), describe_scaled(None)
    ('4096 ±2.5 %', '2 MB', '–')
    """
    if count is None:
        return NOTHING
    text = format_bytes(count.value) if unit == "B" else format_count(count.value, unit)
    return text if count.is_exact else f"{text} {describe_spread(count)}"


def describe_spread(count: Count) -> str:
    """Return the farther end of the interval in percent of the value; nothing where the count is exact."""
    percent = relative_spread(count) / PERCENT
    if not percent:
        return ""
    return f"±{percent:.0f} %" if percent >= 10 else f"±{percent:.1g} %" if percent < 1 else f"±{percent:.1f} %"


def describe_ratio(count: Count | None, unit: str = "") -> str:
    """Return a ratio to two decimals; its interval is in the JSON.

    >>> describe_ratio(Count(3.14159, 3, 4), "FLOP/B"), describe_ratio(None)
    ('3.14 FLOP/B', '–')
    """
    return NOTHING if count is None else format_count(round(count.value, 2), unit)


def describe_share(part: float, whole: float) -> str:
    """Return a part in percent of the whole.

    >>> describe_share(1, 8), describe_share(1, 10_000), describe_share(0, 0)
    ('12.5 %', '<0.1 %', '–')
    """
    if not whole:
        return NOTHING
    percent = part / whole / PERCENT
    return "<0.1 %" if 0 < percent < 0.05 else f"{percent:.1f} %"


def relative_spread(count: Count) -> float:
    """Return the farther end of the interval relative to the value; 0 where the count is exact."""
    if count.is_exact or not count.value:
        return 0.0
    return max(count.high - count.value, count.value - count.low) / count.value


def describe_sample(profile: KernelProfile, metrics: tuple[Metric, ...]) -> str:
    """Return how much of the grid ran, and how wide the widest interval of a counter is."""
    sampling = profile.sampling
    if sampling is None:
        return "nothing was executed"
    if sampling.is_whole_grid:
        return "the whole grid: what does not depend on caches is exact"
    text = f"{describe_share(sampling.blocks_executed, sampling.blocks)} of the grid, scaled to all of it"
    totals = [
        each
        for each in metrics
        if each.origin is Origin.EXECUTED and word(each.name).is_total and each.name not in {_BRACKET, _WORKING_SET}
    ]
    widest = max(totals, key=lambda each: relative_spread(each.count), default=None)
    if widest is None or not relative_spread(widest.count):
        return f"{text}; all executed blocks did the same"
    return f"{text}; widest 95 % interval {describe_spread(widest.count)} ({widest.name})"
