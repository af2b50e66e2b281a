"""What a notebook shows of each answer: the same sentences, tables and caveats as the terminal."""

from collections.abc import Iterator, Sequence

from kerncast.caveats import Caveat
from kerncast.forecast import Forecast
from kerncast.metrics import metrics_of
from kerncast.occupancy.advice import OccupancyCase
from kerncast.profiles import ProfiledLaunch
from kerncast.report.comparison.comparison_table import (
    MOST_NAMES,
    Compared,
    apart_note,
    energy_table,
    front_note,
    heading,
    sentences_of,
    time_table,
    verdict,
)
from kerncast.report.forecast.forecast_tables import (
    EVIDENCE_HEADING,
    TRANSFER_HEADING,
    estimate_table,
    evidence_tables,
    is_sum_of_operators,
    lacks_launches,
    notes_of,
    total_table,
    transfer_tables,
)
from kerncast.report.forecast.terminal import MOST_TABLES, all_launches, common_notes
from kerncast.report.forecast.verdict import contests, verdict_together
from kerncast.report.forecast.verdict import verdict as verdict_of_launch
from kerncast.report.notebook import Part, Shown
from kerncast.report.occupancy.tables import (
    LIMITER_WORDS,
    advice_notes,
    describe_occupancy,
    label,
    occupancy_sentences,
    occupancy_table,
)
from kerncast.report.profile.sections import sections_of
from kerncast.report.profile.words import extent_text
from kerncast.report.tables import Section, Table, TextColumn
from kerncast.report.what_if.advice import advice_sections
from kerncast.report.what_if.sensitivity import (
    elasticity_table,
    headline,
    notes_of_study,
    recommendations,
    title_of,
)
from kerncast.report.words import describe_caveats, describe_limiter, describe_percent
from kerncast.studies.sensitivity.elasticities import Study
from kerncast.studies.sensitivity.lifting import Advice
from kerncast.units import format_seconds


def shown_forecast(forecast: Forecast) -> Shown:
    """Return the verdict, a table per launch or one of all, and the caveats."""
    found = contests(forecast)
    if len(found) > MOST_TABLES:
        said = verdict_together(forecast, is_partial=lacks_launches(forecast))
        parts = (Part(all_launches(forecast.predictions)), Part(total_table(forecast), "Total of all launches"))
        return Shown(tuple(said), parts, tuple(common_notes(forecast)))
    is_one = len(found) == 1
    own = [
        Part(estimate_table(contest.predictions), contest.predictions[0].kernel if not number and not is_one else "")
        for launch in found
        for number, contest in enumerate(launch)
    ]
    if not is_one or is_sum_of_operators(forecast):
        own.append(Part(total_table(forecast), "Total of all launches"))
    own += [Part(each, TRANSFER_HEADING) for each in transfer_tables(forecast.predictions)]
    own += [Part(each, EVIDENCE_HEADING) for each in evidence_tables(forecast.predictions)]
    said = [verdict_of_launch(found[0])] if is_one else verdict_together(forecast)
    return Shown(tuple(said), tuple(own), tuple(notes_of(forecast)))


def shown_profile(launch: ProfiledLaunch) -> Shown:
    """Return what the kernel spends its time on, the sections of a profile, and the caveats."""
    profile, gpu = launch.profile, launch.gpu
    parts = [part for each in sections_of(profile, gpu) for part in _parts_of(each)]
    return Shown((_profile_verdict(launch),), tuple(parts), tuple(describe_caveats(launch.caveats)))


def _profile_verdict(launch: ProfiledLaunch) -> str:
    profile, gpu, found = launch.profile, launch.gpu, launch.profile.warp_states
    where = f" on {gpu.name}" if gpu else ""
    name = f"{profile.kernel}{where}: {extent_text(profile.grid)} blocks of {extent_text(profile.block)} threads"
    count = len(metrics_of(profile, gpu))
    if found is None or gpu is None or not found.resources:
        return f"{name}, {count} metrics."
    waits = sorted((each for each in found.states if each.state != "selected"), key=lambda each: -each.warp_cycles)
    share = describe_percent(waits[0].warp_cycles / found.warp_cycles)
    busiest = found.resources[0]
    return (
        f"{name}, {format_seconds(found.seconds, 3)}; busiest is {describe_limiter(busiest.resource)}"
        f" ({describe_percent(min(1.0, busiest.share))} of the time); warps wait most by {waits[0].state} ({share});"
        f" {count} metrics."
    )


def _parts_of(section: Section) -> Iterator[Part]:
    if section.facts:
        rows = tuple((fact.label, fact.value, fact.note) for fact in section.facts)
        yield Part(Table(("", "", TextColumn("")), rows), section.title)
    for number, table in enumerate(section.tables):
        yield Part(table, "" if number or section.facts else section.title)


def shown_comparison(compared: Compared) -> Shown:
    """Return who is the best, and the tables of each group."""
    parts: list[Part] = []
    for number, ranking in enumerate(compared.rankings):
        parts.append(Part(time_table(ranking), heading(ranking, is_first=not number)))
        parts.append(Part(energy_table(compared, ranking)))
    notes = [front_note(compared)] if compared.rankings else []
    notes += [text for _, text in sentences_of(compared, MOST_NAMES)]
    notes += [apart_note(each) for each in compared.field.set_apart]
    return Shown(tuple(verdict(each) for each in compared.rankings), tuple(parts), tuple(notes))


def shown_occupancy(cases: Sequence[OccupancyCase], assumed: Sequence[Caveat]) -> Shown:
    """Return how many blocks an SM holds and why, and what would change that."""
    said = [_resident(case) for case in cases[:1]]
    if len(cases) > 1:
        ranked = sorted(cases, key=lambda case: case.found.fraction)
        low, high = (describe_occupancy(each.found.fraction) for each in (ranked[0], ranked[-1]))
        span = low if low == high else f"{low} ({ranked[0].name}) to {high} ({ranked[-1].name})"
        said.append(f"Of {len(cases)} cases the occupancy is {span}.")
    advice = [f"{case.name}: {note}" for case in cases for note in advice_notes(case)]
    notes = [text for _, text in occupancy_sentences(assumed, cases)]
    return Shown(tuple(said), (Part(occupancy_table(cases)),), (*notes, *advice))


def _resident(case: OccupancyCase) -> str:
    found = case.found
    blocks = f"{found.blocks_per_sm} block{'s' * (found.blocks_per_sm != 1)}"
    limited = LIMITER_WORDS[found.limiter]
    return (
        f"An SM of {case.name} holds {blocks} of {label(case)}, {found.warps_per_sm} warps:"
        f" an occupancy of {describe_occupancy(found.fraction)}, limited by {limited}."
    )


def shown_sensitivity(study: Study, advice: Sequence[Advice]) -> Shown:
    """Return what matters most for each launch, the elasticities, and what the author of the kernel could change."""
    by_launch = {each.launch: each for each in advice}
    said = tuple(f"{title_of(each)} on {each.gpu.name}: {headline(each)}" for each in study.found)
    parts: list[Part] = []
    notes: list[str] = []
    for each in study.found:
        parts.append(Part(elasticity_table(each), title_of(each) if len(study.found) > 1 else ""))
        notes += recommendations(each)
        own = by_launch.get(each.launches[0]) if len(each.launches) == 1 else None
        for section in advice_sections(own) if own else ():
            parts += [Part(table, section.title) for table in section.tables]
            notes += section.paragraphs
    return Shown(said, tuple(parts), (*notes, *notes_of_study(study)))
