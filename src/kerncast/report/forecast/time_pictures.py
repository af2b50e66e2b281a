"""The times of a forecast as pictures of a page: intervals side by side, and the parts that they are made of."""

from collections.abc import Sequence

from kerncast.prediction import Prediction
from kerncast.profiles import WarpStates
from kerncast.report.page.figures import Picture, bars_picture, stacks_picture
from kerncast.report.page.fragments import Bar, Part, Stack
from kerncast.report.pictures.colours import REST, STATES, limit_colour
from kerncast.report.profile.sections import STALLS
from kerncast.report.tables import Table, TextColumn
from kerncast.report.words import describe_interval_kind, describe_limiter, describe_percent, is_published
from kerncast.units import format_seconds

#: States with a smaller part are one.
_LEAST_STATE = 0.02
_REST = "latency, and what does not overlap"
OVERLAP = (
    "The time of the resource that is busy longest, and what comes on top of it: the launch, waits that other warps do"
    " not hide, blocks that end late."
)
_BY_STATE = (
    "The same time by what the warps of an SM do or wait for, as the simulation saw them; names are those of Nsight"
    " Compute."
)


def intervals(predictions: Sequence[Prediction]) -> Picture:
    """Return the forecasts of one launch by one model, the fastest first."""
    first = predictions[0]
    kind = describe_interval_kind(first.model)
    caption = f"Interval: {kind if is_published(first.model) else f'{first.level:.0%}, {kind}'}"
    ranked = sorted(predictions, key=lambda p: p.seconds)
    return bars_picture([Bar(p.gpu, p.low, p.seconds, p.high) for p in ranked], f"{caption}. Point: the forecast.")


def overlaps(predictions: Sequence[Prediction]) -> Picture:
    """Return each time as that of its busiest resource and what comes on top."""
    ranked = sorted(predictions, key=lambda p: p.seconds)
    return stacks_picture([Stack(p.gpu, p.seconds, parts_of(p)) for p in ranked], OVERLAP)


def parts_of(p: Prediction) -> tuple[Part, ...]:
    """Return the parts that add up to a forecast.

    >>> from kerncast.prediction import Term, Timing
    >>> terms = Term("dram", 6e-6), Term("l2", 5e-6), Term("launch", 1e-6)
    >>> p = Prediction("k", 0, "T4", "t4", 1e-5, 1e-5, 1e-5, 0.9, Timing.SERIES, "dram", terms, (), "simulation")
    >>> [(part.name, round(part.seconds * 1e6, 3)) for part in parts_of(p)]
    [('DRAM bandwidth', 6.0), ('latency, and what does not overlap', 3.0), ('the launch overhead', 1.0)]
    """
    launch = min(p.term("launch") or 0.0, p.seconds)
    others = [term for term in p.terms if term.name != "launch"]
    most = max(others, key=lambda term: term.seconds, default=None)
    busy = min(most.seconds, p.seconds - launch) if most else 0.0
    found = [Part(describe_limiter(most.name), busy, limit_colour(most.name))] if most else []
    rest = p.seconds - launch - busy
    found += [Part(_REST, rest, REST)] if rest > p.seconds * 1e-3 else []
    return (*found, Part(describe_limiter("launch"), launch, limit_colour("launch"))) if launch else tuple(found)


def by_state(looks: Sequence[tuple[Prediction, WarpStates]]) -> Picture:
    """Return each time by the states of its warps."""
    return stacks_picture([Stack(p.gpu, p.seconds, state_parts(p.seconds, states)) for p, states in looks], _BY_STATE)


def state_parts(seconds: float, found: WarpStates) -> tuple[Part, ...]:
    """Return a time by the states of its warps, the longest first; small ones are one part."""
    whole = found.warp_cycles or 1.0
    ranked = sorted(found.states, key=lambda each: -each.warp_cycles)
    shown = [each for each in ranked if each.warp_cycles >= _LEAST_STATE * whole]
    parts = [Part(state_name(each.state), seconds * each.warp_cycles / whole, STATES[each.state]) for each in shown]
    rest = seconds * (1 - sum(each.warp_cycles for each in shown) / whole)
    return (*parts, Part("other states", rest, REST)) if rest > 0 else tuple(parts)


def state_name(state: str) -> str:
    """Return what warps do in a state, with its name.

    >>> state_name("barrier"), state_name("selected")
    ('waiting for other warps of the block (barrier)', 'issuing (selected)')
    """
    words = {"selected": "issuing", "not_selected": "ready, while another warp issues"}
    return f"{words.get(state) or f'waiting for {STALLS[state]}'} ({state})"


def parts_table(found: Sequence[tuple[str, float, tuple[Part, ...]]]) -> Table:
    """Return a row per part and a column per GPU, for readers without pictures."""
    names = dict.fromkeys(part.name for _, _, parts in found for part in parts)
    rows = []
    for name in names:
        shares = [next((p.seconds for p in parts if p.name == name), 0.0) / seconds for _, seconds, parts in found]
        rows.append((name, *map(describe_percent, shares)))
    rows.append(("time", *(format_seconds(seconds, 3) for _, seconds, _ in found)))
    return Table((TextColumn("part"), *(gpu for gpu, _, _ in found)), tuple(rows))
