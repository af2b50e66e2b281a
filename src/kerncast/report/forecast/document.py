"""A forecast as a report: the answer first, then times, what they are made of, and everything that they rest on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from kerncast.forecast import Forecast
from kerncast.forecast.closer_look import CloserLook
from kerncast.gpu import GPU
from kerncast.models import Case, FeatureCase, TimedCase
from kerncast.models.operators.operator_work import OperatorCase
from kerncast.prediction import Prediction
from kerncast.report.as_json import totals_of
from kerncast.report.comparison import before_after
from kerncast.report.comparison.before_after import Before
from kerncast.report.explain import terms
from kerncast.report.files.gpus import fact_table, sources_of
from kerncast.report.forecast.forecast_tables import (
    EVIDENCE_HEADING,
    EXPLANATION,
    LIMITS_HEADING,
    TRANSFER_HEADING,
    estimate_table,
    evidence_tables,
    index_of,
    is_sum_of_operators,
    limit_tables,
    notes_of,
    roof_tables,
    total_table,
    transfer_tables,
)
from kerncast.report.forecast.launch_page import LaunchEvidence, launch_sections, source_sections
from kerncast.report.forecast.time_pictures import (
    OVERLAP,
    by_state,
    intervals,
    overlaps,
    parts_of,
    parts_table,
    state_parts,
)
from kerncast.report.forecast.verdict import Contest, answer, contests
from kerncast.report.page.figures import Picture, bars_picture, stacks_picture
from kerncast.report.page.fragments import Bar, Stack
from kerncast.report.page.pages import Document, Origin, Section
from kerncast.report.tables import Table, TextColumn
from kerncast.report.what_if.advice import advice_sections
from kerncast.report.words import (
    MOST_GPUS,
    OPERATORS,
    advise,
    advise_operator,
    describe_interval,
    describe_interval_kind,
    describe_limiter,
    describe_name,
    describe_operator,
    describe_times,
    describe_timing,
    head_interval,
    is_published,
    some_of,
)
from kerncast.studies.sensitivity.lifting import Advice
from kerncast.units import GIGA, KIB, MEGA, TERA, format_seconds

_MOST_NAMED = 3
#: Launches of which a report has sections of their own: those that take longest.
_MOST_LAUNCHES = 12
_ASK_FOR_ADVICE = "--advice simulates each limit lifted, and adds here what that would gain."


@dataclass(frozen=True, slots=True)
class Beyond:
    """What a report shows beyond the forecast, as far as somebody has found it out."""

    looks: tuple[CloserLook, ...] = ()
    advice: tuple[Advice, ...] = ()
    rooflines: tuple[tuple[str, Picture], ...] = ()
    """title and picture of each, the fastest GPU's first"""
    bars: tuple[Picture, ...] = ()
    """measured and forecast times"""
    origin: Origin | None = None
    before: Before | None = None
    """the version that the forecast is compared with"""


def build_document(forecast: Forecast, beyond: Beyond | None = None) -> Document:
    """Return the report of a forecast; it must hold at least one prediction."""
    beyond = beyond or Beyond()
    found = answer(forecast)
    kernels = list(dict.fromkeys(describe_name(p.kernel) for p in forecast.predictions))
    of_launches = contests(forecast)
    is_one = len(of_launches) == 1
    sections = [
        *(_before_sections(beyond.before, forecast, beyond.looks) if beyond.before else ()),
        *(_one_launch(of_launches[0]) if is_one else _overview(forecast, of_launches)),
        *_total_section(forecast),
        *_time_sections(forecast, beyond, is_one=is_one),
        *_roofline_sections(beyond),
        *_own_sections(forecast, beyond, is_one=is_one),
        _advice_section(forecast, beyond),
        *_evidence_sections(forecast.predictions, beyond),
        Section("Caveats", tuple(notes_of(forecast)), is_list=True, key="caveats"),
        facts_section([case.gpu for case in forecast.cases]),
        words_section(forecast.predictions, has_states=any(look.profile.warp_states for look in beyond.looks)),
        *origin_sections(beyond.origin, tuple(_question(forecast.predictions))),
    ]
    title = f"Forecast of {some_of(kernels, _MOST_NAMED)}"
    if beyond.before:
        before = beyond.before
        told = (before_after.lead(before), *found.lead)
        title += f", compared with {some_of(list(dict.fromkeys(old.kernel for old, _ in before.pairs)), _MOST_NAMED)}"
        return Document(title, tuple(sections), before_after.headline(before), told, tuple(before_after.tiles(before)))
    return Document(title, tuple(sections), found.headline, found.lead, found.tiles)


def _before_sections(before: Before, forecast: Forecast, looks: Sequence[CloserLook]) -> Iterator[Section]:
    """Yield what has changed, and below it the source lines of the version before."""
    launches = {new.launch for _, new in before.pairs}
    known = {(case.profile.index, case.gpu.id): case for case in before.cases}
    own = [old for old, new in sorted(before.pairs, key=lambda pair: pair[1].seconds)]
    source: tuple[Section, ...] = ()
    if len(launches) == 1 and all((p.launch, p.gpu_id) in known for p in own):
        cases = tuple(known[p.launch, p.gpu_id] for p in own)
        order = [p.gpu_id for p in own]
        known_looks = sorted(
            (each for each in before.looks if each.gpu in order), key=lambda each: order.index(each.gpu)
        )
        found = source_sections(LaunchEvidence(tuple(own), cases, tuple(known_looks)), "-before")
        source = tuple(replace(each, title=f"{each.title}, before", is_folded=True) for each in found)
    yield from before_after.before_sections(before, forecast.profiled, looks, source)


def _one_launch(found: Sequence[Contest]) -> Iterator[Section]:
    """Yield the times of a single launch, and below them those of models that are not compared."""
    main, *others = found
    inside = tuple(
        Section(
            f"Not compared with these: forecast by {contest.predictions[0].model}",
            pictures=(intervals(contest.predictions),), tables=(estimate_table(contest.predictions),),
        ) for contest in others
    )  # fmt: skip
    yield Section(
        "Forecast", pictures=(intervals(main.predictions),), tables=(estimate_table(main.predictions),),
        key="forecast", inside=inside,
    )  # fmt: skip


def _overview(forecast: Forecast, of_launches: Sequence[Sequence[Contest]]) -> Iterator[Section]:
    """Yield all launches on the GPU that is best for all, and the rows of all others."""
    whole = sorted(totals_of(forecast), key=lambda row: row["seconds"])
    bars = [Bar(row["gpu"], row["low"], row["seconds"], row["high"]) for row in whole]
    rows = tuple(
        (str(best.launch), best.kernel, best.gpu, format_seconds(best.seconds, 3), describe_interval(best),
         describe_limiter(best.limiter))
        for contest, *_ in of_launches for best in contest.predictions[:1]
    )  # fmt: skip
    interval = head_interval(forecast.predictions[:1])
    columns = ("launch", TextColumn("kernel"), TextColumn("fastest GPU"), "time", interval, TextColumn("limited by"))
    picture = bars_picture(bars, "All launches together, with the interval of their sum.")
    yield Section("Forecast", tables=(Table(columns, rows),), key="forecast", pictures=(picture,))


def _evidence(forecast: Forecast, looks: Sequence[CloserLook]) -> list[LaunchEvidence]:
    """Return the launches with counts, the longest first; of each launch the fastest GPU first."""
    by_launch: dict[int, list[tuple[Prediction, Case]]] = {}
    for p, case in zip(forecast.predictions, forecast.cases, strict=True):
        if isinstance(case, Case):
            by_launch.setdefault(p.launch, []).append((p, case))
    found = []
    for launch, pairs in by_launch.items():
        pairs.sort(key=lambda pair: pair[0].seconds)
        order = {p.gpu_id: place for place, (p, _) in enumerate(pairs)}
        own = sorted(
            (look for look in looks if look.profile.index == launch and look.gpu in order),
            key=lambda look: order[look.gpu],
        )
        predictions, cases = tuple(p for p, _ in pairs), tuple(case for _, case in pairs)
        found.append(LaunchEvidence(predictions, cases, tuple(own)))
    return sorted(found, key=lambda of: -of.predictions[0].count * of.predictions[0].seconds)


def _time_sections(forecast: Forecast, beyond: Beyond, *, is_one: bool) -> Iterator[Section]:
    """Yield what the times of the launches are made of: of several, of each on its fastest GPU."""
    of_launches = _evidence(forecast, beyond.looks)
    if is_one and of_launches:
        yield time_section(of_launches[0], _roof_sections(forecast))
    elif of_launches:
        best = [of.predictions[0] for of in of_launches[:_MOST_LAUNCHES]]
        made = [Stack(p.kernel, p.seconds, parts_of(p), f"launch {p.launch}, {p.gpu}") for p in best]
        yield Section(
            "Where the time goes",
            key="time",
            pictures=(stacks_picture(made, OVERLAP),),
            inside=_roof_sections(forecast),
        )


def time_section(of: LaunchEvidence, inside: tuple[Section, ...] = (), key: str = "") -> Section:
    """Return what the time of one launch is made of on each GPU."""
    known = [(of.forecast_of(look), found) for look in of.looks if (found := look.profile.warp_states) is not None]
    tables = [parts_table([(p.gpu, p.seconds, parts_of(p)) for p in of.predictions])]
    if known:
        tables.append(parts_table([(p.gpu, p.seconds, state_parts(p.seconds, found)) for p, found in known]))
    return Section(
        "Where the time goes", key=f"time{key}", instead=tuple(tables), inside=inside,
        pictures=(overlaps(of.predictions), *((by_state(known),) if known else ())),
    )  # fmt: skip


def _roofline_sections(beyond: Beyond) -> Iterator[Section]:
    """Yield the roofline of the fastest GPU, and below it those of others, folded."""
    if beyond.rooflines:
        (title, picture), *others = beyond.rooflines
        folded = tuple(Section(name, pictures=(each,), is_folded=True) for name, each in others)
        yield Section("Roofline", (f"{title}.",), key="roofline", pictures=(picture,), inside=folded)


def _own_sections(forecast: Forecast, beyond: Beyond, *, is_one: bool) -> Iterator[Section]:
    """Yield what is told of each launch: of several folded, the longest first."""
    of_launches = _evidence(forecast, beyond.looks)
    if is_one and of_launches:
        yield from launch_sections(of_launches[0])
    else:
        yield from _each_launch(of_launches, "Each launch")
    for _, group in groupby(forecast.cases, key=index_of):
        cases = list(group)
        yield from _timed_sections([case for case in cases if isinstance(case, TimedCase)])
        yield from _operator_sections([case for case in cases if isinstance(case, OperatorCase)])
        yield from _feature_sections([case for case in cases if isinstance(case, FeatureCase)])


def _each_launch(of_launches: Sequence[LaunchEvidence], title: str) -> Iterator[Section]:
    if of_launches:
        folded = tuple(_folded(of) for of in of_launches[:_MOST_LAUNCHES])
        left = len(of_launches) - len(folded)
        more = (f"{left} more are in the table above, without details.",) if left else ()
        yield Section(title, more, key="launches", inside=folded)


def kernel_sections(forecast: Forecast, beyond: Beyond) -> Iterator[Section]:
    """Yield the longest launch of each kernel of a program, folded; those that were looked at come first."""
    looked_at = {look.profile.index for look in beyond.looks}
    ranked = sorted(_evidence(forecast, beyond.looks), key=lambda of: of.profile.index not in looked_at)
    by_kernel = {of.profile.kernel: of for of in reversed(ranked)}
    yield from _each_launch(
        [of for of in ranked if by_kernel[of.profile.kernel] is of], "The longest launch of each kernel"
    )


def _folded(of: LaunchEvidence) -> Section:
    best = of.predictions[0]
    key = f"-{best.launch}"
    title = f"{best.kernel} (launch {best.launch}): {format_seconds(best.seconds, 3)} on {best.gpu}"
    times = Section("Forecast", pictures=(intervals(of.predictions),), tables=(estimate_table(of.predictions),))
    inside = (times, time_section(of, key=key), *launch_sections(of, key))
    return Section(title, key=f"launch{key}", inside=inside, is_folded=True)


def _advice_section(forecast: Forecast, beyond: Beyond) -> Section:
    """Return what would make the launches faster: by what limits them, and by lifting it where that was tried."""
    rows: dict[tuple[str, str], list[str]] = {}
    for p in forecast.predictions:
        advice = advise_operator(p.limiter) if p.model == OPERATORS else advise(p.limiter)
        rows.setdefault((p.limiter, advice), []).append(p.gpu)
    columns = (TextColumn("limited by"), TextColumn("on"), TextColumn("what would help"))
    table = Table(columns, tuple(
        (describe_limiter(limiter), some_of(list(dict.fromkeys(gpus)), MOST_GPUS), advice or "–")
        for (limiter, advice), gpus in rows.items()
    ))  # fmt: skip
    tried = tuple(section for each in beyond.advice for section in advice_sections(each))
    has_source = any(isinstance(case, Case) and case.launch for case in forecast.cases)
    paragraphs = (_ASK_FOR_ADVICE,) if has_source and not tried else ()
    return Section("What would help", paragraphs, (table,), key="advice", inside=tried)


def facts_section(gpus: Sequence[GPU]) -> Section:
    """Return the facts of every GPU with unit, status and source, folded."""
    unique = {gpu.id: gpu for gpu in gpus}
    every = [fact for gpu in unique.values() for fact in gpu.all_facts if fact.value is not None]
    sources = sources_of(every)
    own = {gpu.name: gpu.all_facts[: len(gpu.facts)] for gpu in unique.values()}
    shared = {gpu.architecture.name: gpu.all_facts[len(gpu.facts) :] for gpu in unique.values()}
    folded = [
        Section(
            f"{name}: every fact",
            tables=(fact_table([f for f in facts if f.value is not None], sources),),
            is_folded=True,
        )
        for name, facts in (own | shared).items()
    ]
    numbered = tuple(f"[{number}] {source}" for number, source in enumerate(sources, 1))
    folded.append(Section("Sources", numbered, is_list=True, is_folded=True))
    return Section("GPU facts and their sources", tables=(_gpu_table(list(gpus)),), key="facts", inside=tuple(folded))


def words_section(predictions: Sequence[Prediction], *, has_states: bool) -> Section:
    """Return what the terms on the page mean."""
    used = {term.name for p in predictions for term in p.terms} | {p.model for p in predictions}
    rows = tuple(
        (term.name, term.called, term.meaning) for term in terms()
        if term.name in used or (has_states and term.kind == "warp state")
    )  # fmt: skip
    columns = (TextColumn("term"), TextColumn("called"), TextColumn("meaning"))
    return Section("Terms", tables=(Table(columns, rows),), key="terms", is_folded=True)


def origin_sections(origin: Origin | None, asked: tuple[str, ...]) -> Iterator[Section]:
    """Yield what was asked, and what made the report."""
    yield Section("How this was made", asked, key="origin", facts=origin.facts if origin else ())


def _roof_sections(forecast: Forecast) -> tuple[Section, ...]:
    """Return the distances to roofs; nothing is counted of operators, and of kernels of which only times are known."""
    if not forecast.profiled:
        return ()
    return (Section("Distance to each roof", (EXPLANATION,), roof_tables(forecast), is_folded=True),)


def _total_section(forecast: Forecast) -> tuple[Section, ...]:
    """Return the sum over operators, the time of a model."""
    return (Section("Total", tables=(total_table(forecast),), key="total"),) if is_sum_of_operators(forecast) else ()


def _evidence_sections(predictions: Sequence[Prediction], beyond: Beyond) -> Iterator[Section]:
    """Yield what measured times and profiles tell; their times as bars stand in the first."""
    found = {
        (TRANSFER_HEADING, "measured"): tuple(transfer_tables(predictions)),
        (EVIDENCE_HEADING, "times"): tuple(evidence_tables(predictions)),
        (LIMITS_HEADING, "limits"): tuple(limit_tables(predictions)),
    }
    bars = beyond.bars
    for (title, key), tables in found.items():
        if tables:
            yield Section(title, tables=tables, key=key, pictures=bars)
            bars = ()


def _question(predictions: Sequence[Prediction]) -> Iterator[str]:
    """Give what was asked, once per model that answered."""
    for model in dict.fromkeys(p.model for p in predictions):
        first = next(p for p in predictions if p.model == model)
        kind = describe_interval_kind(model)
        interval = kind if is_published(model) else f"{first.level:.0%}, {kind}"
        yield f"Timing: {describe_timing(first.timing)}. Model: {model}. Interval: {interval}."


def _operator_sections(cases: list[OperatorCase]) -> list[Section]:
    if not cases:
        return []
    operator = cases[0].operator
    return [Section(f"Operator: {operator.label or operator.text}", (describe_operator(operator),))]


def _timed_sections(cases: list[TimedCase]) -> list[Section]:
    if not cases:
        return []
    timed = cases[0].timed
    return [Section(f"Evidence: {timed.kernel} (launch {timed.index})", (describe_times(timed),))]


def _feature_sections(cases: list[FeatureCase]) -> list[Section]:
    if not cases:
        return []
    row = cases[0]
    sentence = f"Features are those of row {row.index + 1} of {row.source}."
    return [Section(f"Evidence: {row.kernel} (launch {row.index})", (sentence,))]


def _gpu_table(gpus: list[GPU]) -> Table:
    heading = ("GPU", "SMs", "clock", "peak FP32", "peak FP64", "DRAM peak", "DRAM sustained", "L2")
    unique = {gpu.id: gpu for gpu in gpus}.values()
    return Table(heading, tuple(_gpu_row(gpu) for gpu in unique))


def _gpu_row(gpu: GPU) -> tuple[str, ...]:
    rate = gpu.dram_rate
    source = "" if rate is None or rate.is_measured else " (estimated)"
    return (
        gpu.name,
        str(gpu.sm_count),
        f"{gpu.clock_hz / MEGA:.0f} MHz",
        f"{gpu.peak_fp32_flops_per_s / TERA:.4g} TFLOP/s",
        f"{gpu.peak_fp64_flops_per_s / TERA:.4g} TFLOP/s",
        f"{gpu.dram_bytes_per_s / GIGA:.4g} GB/s",
        f"{rate.bytes_per_s / GIGA:.4g} GB/s{source}" if rate else "unknown",
        f"{gpu.l2_bytes / KIB:.0f} KiB" if gpu.l2_bytes else "unknown",
    )
