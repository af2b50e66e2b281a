"""What warps wait for, as facts and tables, and line by line."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kerncast.gpu import GPU
from kerncast.kernel_profile import KernelProfile
from kerncast.report.metrics_warps import active_warps, issue_width
from kerncast.report.profiled_source import AnnotatedText, SourceText
from kerncast.report.profiled_words import describe_share
from kerncast.report.sections import Fact
from kerncast.report.tables import Table
from kerncast.report.words import describe_limiter
from kerncast.units import format_count, format_seconds
from kerncast.warp_states import LineStates, StateCycles, WarpStates

_MOST_HOT_LINES = 10
_MOST_ROOFS = 6
_MOST_STATES = 2
_SHARE_COLUMNS, _STATES_COLUMNS = 8, 44
_MEANINGS = {
    "selected": "nothing: it issues",
    "not_selected": "another warp that issues",
    "wait": "an arithmetic result",
    "short_scoreboard": "shared memory or XU",
    "long_scoreboard": "L1, L2 or DRAM",
    "barrier": "other warps of the block",
    "math_pipe_throttle": "a busy arithmetic pipe",
    "lg_throttle": "the queue to L1",
    "mio_throttle": "the queue to shared memory",
    "branch_resolving": "the target of a branch",
}


def warp_facts(profile: KernelProfile, gpu: GPU | None) -> Iterator[Fact]:
    """Yield the duration and how busy an SM is."""
    found = profile.warp_states
    if found is None or gpu is None:
        return
    blocks = f"{found.blocks_simulated} block{'s' * (found.blocks_simulated > 1)} of one SM simulated"
    yield Fact("duration", format_seconds(found.seconds), f"{format_count(found.cycles)} cycles; {blocks}")
    slots = found.schedulers * found.simulated_cycles * issue_width(gpu)
    each = found.issued / found.schedulers / found.simulated_cycles
    yield Fact(
        "issue slots used", describe_share(found.issued, slots), f"{each:.2f} instructions per scheduler and cycle"
    )
    most = gpu.architecture.max_warps_per_sm
    yield Fact("achieved occupancy", describe_share(active_warps(found), most), f"of {most} warps")
    latency = found.warp_cycles / found.issued
    yield Fact("cycles per instruction", f"{latency:.1f}", "of one warp")


def warp_tables(profile: KernelProfile, gpu: GPU | None) -> Iterator[Table]:
    """Yield the states of warps, and the resources that are busiest."""
    found = profile.warp_states
    if found is None or gpu is None:
        return
    ranked = sorted((each for each in found.states if each.warp_cycles), key=lambda each: -each.warp_cycles)
    rows = tuple(
        (
            each.state,
            describe_share(each.warp_cycles, found.warp_cycles),
            f"{each.warp_cycles / found.issued:.2f}",
            _MEANINGS[each.state],
        )
        for each in ranked
    )
    yield Table(("warp state", "share", "warps per issue", "waits for"), rows)
    roofs = tuple(
        (describe_limiter(each.resource), describe_share(min(1.0, each.share), 1.0))
        for each in found.resources[:_MOST_ROOFS]
    )
    yield Table(("busiest resources", "of the duration"), roofs)


def waiting_lines(found: WarpStates, sources: Sequence[SourceText], *, all_lines: bool) -> AnnotatedText:
    """Return the lines at which warps wait longest, or all of them in their order, with the states that they are in."""
    texts = {text.file: text.lines for text in sources}
    ranked = sorted(found.lines, key=lambda line: -line.warp_cycles)[:_MOST_HOT_LINES]
    lines = found.lines if all_lines else ranked
    places = [f"{Path(line.file).name}:{line.line}" for line in lines]
    width = max(map(len, ["  line", *places])) + 2
    rows = tuple(
        _joined(place, width, describe_share(line.warp_cycles, found.warp_cycles), _reasons(line), _source(texts, line))
        for place, line in zip(places, lines, strict=True)
    )
    return AnnotatedText("Where warps wait", _joined("  line", width, "cycles", "longest states", "source"), rows)


def _joined(place: str, width: int, share: str, reasons: str, source: str) -> str:
    return f"{place:>{width}}{share:>{_SHARE_COLUMNS}}  {reasons:<{_STATES_COLUMNS}}  {source}".rstrip()


def _reasons(line: LineStates) -> str:
    def worded(each: StateCycles) -> str:
        return f"{each.state} {each.warp_cycles / line.warp_cycles:.0%}"

    return ", ".join(map(worded, line.states[:_MOST_STATES]))


def _source(texts: dict[str, tuple[str, ...]], line: LineStates) -> str:
    text = texts.get(line.file, ())
    return text[line.line - 1].strip() if 0 < line.line <= len(text) else ""
