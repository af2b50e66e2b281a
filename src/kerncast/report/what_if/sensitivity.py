"""Elasticities as tables, sentences, JSON and a page."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from kerncast.gpu import GPU
from kerncast.report.as_json import SCHEMA_VERSION, fields_of, refused_launch
from kerncast.report.page.figures import Picture
from kerncast.report.page.pages import Document, Section
from kerncast.report.tables import Table, TextColumn, print_notes, print_table
from kerncast.report.what_if.advice import advice_fields, advice_sections, print_advice
from kerncast.report.words import describe_caveat, describe_limiter, describe_percent, describe_range
from kerncast.studies.sensitivity.elasticities import Elasticity, Kind, Sensitivity, Study
from kerncast.studies.sensitivity.lifting import Advice
from kerncast.units import MEGA, format_seconds

PARAMETERS = {
    "sm_count": "number of SMs",
    "sm_clock": "clock of SMs and L2",
    "dram_bandwidth": "DRAM bandwidth",
    "dram_latency": "DRAM latency",
    "l2_size": "size of L2",
    "l2_bandwidth": "L2 bandwidth",
    "l2_latency": "L2 latency",
    "l1_bandwidth": "L1 bandwidth",
    "l1_latency": "L1 latency",
    "shared_size": "shared memory of an SM",
    "shared_bandwidth": "shared memory bandwidth",
    "shared_latency": "shared memory latency",
    "registers": "registers of an SM",
    "thread_slots": "threads that an SM can hold",
    "fp32_lanes": "FP32 lanes",
    "fp64_lanes": "FP64 lanes",
    "int32_lanes": "integer lanes",
    "special_lanes": "lanes of special functions",
    "load_store_lanes": "load/store lanes",
    "atomic_rate": "rate of atomics in L2",
    "arithmetic_latency": "latency of arithmetic",
}
#: A smaller change of the time is not told.
_MATTERS = 0.03
#: Elasticities below this are not told apart from schedules that differ by chance.
_NOISE = 0.05
_FARTHEST = 0.95
_SHOWN_DIGITS = 4
#: Whole numbers miss a factor by up to this.
_ROUNDED = 1.1
_EXPLANATION = (
    "Elasticity -1: twice the parameter, half the time; 0: it does not matter. Its interval goes from the slope with"
    " less to the slope with more of the parameter. Each time is simulated again with the same blocks."
)


def elasticity_table(found: Sensitivity) -> Table:
    """Return a row per parameter that changes the time, the strongest first."""
    heading = (
        TextColumn("parameter"),
        "now",
        "elasticity",
        "interval",
        "time at half",
        "time at double",
        "matters until",
    )
    rows = tuple(_row(each, found) for each in found.elasticities if _matters(each, found))
    return Table(heading, rows)


def _row(each: Elasticity, found: Sensitivity) -> tuple[str, ...]:
    changes = (_change_at(each, factor, found) for factor in (0.5, 2.0))
    interval = f"{signed(each.low)} to {signed(each.high)}"
    name = PARAMETERS[each.parameter.name]
    now = _value(found.gpu, each)
    return (name, now, signed(each.elasticity), interval, *changes, _reach(each))


def signed(value: float) -> str:
    """Return an elasticity with its sign, without one where it is nothing."""
    text = f"{value:+.2f}"
    return "0.00" if text in {"+0.00", "-0.00"} else text


def _change_at(each: Elasticity, factor: float, found: Sensitivity) -> str:
    """Return the change of the time in percent; a dash where no such GPU can run the launch."""
    if not each.points[0].factor / _ROUNDED <= factor <= each.points[-1].factor * _ROUNDED:
        return "–"
    percent = round(100 * (each.seconds_at(factor) / found.seconds - 1))
    return f"{percent:+d} %" if percent else "0 %"


def _value(gpu: GPU, each: Elasticity, factor: float = 1.0) -> str:
    """Return the value of a parameter's first known key, in the unit of its file; nothing where it is cycles of all."""
    if each.parameter.name == "sm_clock":  # the clock that is used, not the boost clock that is scaled
        return f"{gpu.clock_hz * factor / MEGA:.0f} MHz"
    for key in each.parameter.keys:
        fact = gpu.fact(key)
        if fact is not None and isinstance(fact.value, int | float):
            unit = "" if fact.unit == "1" else f" {fact.unit}"
            value = fact.value * factor
            whole = value >= 10**_SHOWN_DIGITS
            return f"{value:.0f}{unit}" if whole else f"{value:.{_SHOWN_DIGITS}g}{unit}"
    return ""


def _reach(each: Elasticity) -> str:
    """Return up to which value a parameter matters."""
    enough, points = each.enough, each.points
    if each.parameter.kind is Kind.CAPACITY and enough > points[-1].factor * _FARTHEST:
        return f"beyond ×{points[-1].factor:.3g}"
    if each.parameter.kind is Kind.LATENCY and enough < points[0].factor / _FARTHEST:
        return f"below ×{points[0].factor:.2g}"
    return f"×{enough:.2g}"


def _matters(each: Elasticity, found: Sensitivity) -> bool:
    ends = (each.seconds_at(factor) / found.seconds - 1 for factor in (0.5, 2.0))
    return any(abs(change) >= _MATTERS for change in ends) or abs(each.elasticity) >= _MATTERS


def recommendations(found: Sensitivity) -> list[str]:
    """Return what the next GPU should have for this launch, by what twice (half) of each parameter gains."""
    gains = sorted(
        ((1 - each.seconds_at(_better(each)) / found.seconds, each) for each in found.elasticities),
        key=lambda pair: -pair[0],
    )
    sentences = [_recommended(gain, each, found) for gain, each in gains if gain >= _MATTERS]
    enough = [each for gain, each in gains if gain < _MATTERS]
    scarce = [each for each in enough if abs(each.elasticity) >= _NOISE]
    for told, group in (("Just enough, so that worse values cost time", scarce), ("More than enough", enough)):
        names = ", ".join(PARAMETERS[each.parameter.name] for each in group if group is scarce or each not in scarce)
        if names:
            sentences.append(f"{told}: {names}.")
    if found.launch_share >= _MATTERS:
        share = describe_percent(found.launch_share)
        sentences.append(f"Launching takes {share} of the time, which no parameter here changes.")
    return sentences


def _better(each: Elasticity) -> float:
    return 2.0 if each.parameter.kind is Kind.CAPACITY else 0.5


def _recommended(gain: float, each: Elasticity, found: Sensitivity) -> str:
    name, more = PARAMETERS[each.parameter.name], each.parameter.kind is Kind.CAPACITY
    now, then = _value(found.gpu, each), _value(found.gpu, each, _better(each))
    what = "Double" if more else "Halve"
    values = f" ({now} to {then})" if now else ""
    enough = each.enough
    limit = ""
    if (more and 1 < enough < 2) or (not more and 0.5 < enough < 1):
        limit = f"; ×{enough:.2g} is enough"
    return f"{what} the {name}{values}: {describe_percent(gain)} less time{limit}."


def headline(found: Sensitivity) -> str:
    """Return what matters most, in one sentence."""
    strong = [each for each in found.elasticities if abs(each.elasticity) >= _NOISE]
    if not strong:
        least = describe_percent(found.launch_share)
        return f"None of the parameters that were changed moves the time by much; launching takes {least} of it."
    names = [f"{PARAMETERS[each.parameter.name]} ({signed(each.elasticity)})" for each in strong[:3]]
    return f"What matters most: {', '.join(names)}."


def _forecast_line(found: Sensitivity) -> str:
    limiters = dict.fromkeys(describe_limiter(p.limiter) for p in found.predictions)
    return (
        f"{format_seconds(found.seconds)} ({describe_range(found.low, found.high)}), limited by {', '.join(limiters)}."
    )


def title_of(found: Sensitivity) -> str:
    """Return the name of a launch, or of all together."""
    return found.name if len(found.launches) > 1 else f"{found.name} (launch {found.launches[0]})"


def print_sensitivity(study: Study, advice: Sequence[Advice], console: Console) -> None:
    """Print the elasticities of each launch, what its author could change, and what to ask of hardware."""
    by_launch = {each.launch: each for each in advice}
    for number, each in enumerate(study.found):
        if number:
            console.print()
        console.print(f"[bold]{escape(title_of(each))}[/bold] on {escape(each.gpu.name)}", highlight=False)
        console.print(escape(f"{_forecast_line(each)} {headline(each)}"), highlight=False)
        print_table(elasticity_table(each), console)
        print_notes(recommendations(each), console)
        own = by_launch.get(each.launches[0]) if len(each.launches) == 1 else None
        if own:
            print_advice(own, console)
    console.print()
    print_notes(notes_of_study(study), console)


def sensitivity_document(study: Study, advice: Sequence[Advice], picture: Picture) -> Document:
    """Return the page of a sensitivity study of at least one launch, with its tornado."""
    found = study.found
    by_launch = {each.launch: each for each in advice}
    sections: list[Section] = [Section("What the time follows", key="tornado", pictures=(picture,))]
    for each in found:
        title = title_of(each)
        said = (_forecast_line(each), headline(each), _EXPLANATION)
        sections.append(Section(f"Sensitivity: {title}", said, (elasticity_table(each),)))
        sections.append(Section(f"What to ask of a GPU: {title}", tuple(recommendations(each)), is_list=True))
        if len(each.launches) == 1 and each.launches[0] in by_launch:
            sections += advice_sections(by_launch[each.launches[0]])
    sections.append(Section("Caveats", tuple(notes_of_study(study)), is_list=True, key="caveats"))
    names = ", ".join(dict.fromkeys(each.name for each in found if len(each.launches) == 1))
    return Document(f"What would make {names} faster on {found[0].gpu.name}", tuple(sections))


def notes_of_study(study: Study) -> Iterator[str]:
    """Yield the caveats of a study, each once, what is not known, and what was refused."""
    seen = dict.fromkeys(
        caveat for each in study.found for caveat in (*each.assumed, *(c for p in each.predictions for c in p.caveats))
    )
    yield from (describe_caveat(caveat) for caveat in seen)
    for each in study.found:
        if each.unknown:
            names = ", ".join(PARAMETERS[p.name] for p in each.unknown)
            yield f"{title_of(each)}: not known, or not to be changed, on this GPU or by this model: {names}."
    yield from (f"Refused: {each.kernel} (launch {each.launch}): {each.reason}" for each in study.refused)


def sensitivity_object(study: Study, advice: Sequence[Advice], gpu: GPU) -> dict[str, Any]:
    """Return the object of --json; ``elasticities`` are those of all launches together, none where all are refused."""
    by_launch = {each.launch: advice_fields(each) for each in advice}
    singles = [each for each in study.found if len(each.launches) == 1]
    return {
        "schema_version": SCHEMA_VERSION,
        "gpu": gpu.name,
        "gpu_id": gpu.id,
        **(_own_object(study.found[-1]) if study.found else {"elasticities": []}),
        "launches": [
            {"kernel": each.name, "launch": each.launches[0], **_own_object(each)} | by_launch.get(each.launches[0], {})
            for each in singles
        ],
        "refused": [refused_launch(each) for each in study.refused],
        "caveats": list(notes_of_study(study)),
    }


def _own_object(found: Sensitivity) -> dict[str, Any]:
    return {
        **fields_of(found, "seconds", "low", "high"),
        "launch_share": found.launch_share,
        "elasticities": [_elasticity_object(each) for each in found.elasticities],
        "unknown": [each.name for each in found.unknown],
        "recommendations": recommendations(found),
    }


def _elasticity_object(each: Elasticity) -> dict[str, Any]:
    return {
        "parameter": each.parameter.name,
        **fields_of(each, "elasticity", "low", "high"),
        "kind": each.parameter.kind.value,
        "enough_factor": each.enough,
        "points": [fields_of(point, "factor", "seconds") for point in each.points],
    }
