"""Reports that commands write: what a page needs beyond the answer is found out for it alone."""

from pathlib import Path
from typing import TYPE_CHECKING

from kerncast.cli.application import asked_command
from kerncast.cli.shared.output import tell, write_text
from kerncast.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncast.cli.shared.baseline import Baseline
    from kerncast.forecast import Forecast, Means
    from kerncast.forecast.closer_look import CloserLook
    from kerncast.gpu import GPU
    from kerncast.launch import Launch
    from kerncast.models import Question
    from kerncast.report.comparison.before_after import Before
    from kerncast.report.forecast.document import Beyond
    from kerncast.report.page.pages import Document
    from kerncast.studies.sensitivity.lifting import Advice

PAGES = (".html", ".md")


def check_report(report: Path | None, *, advises: bool = False) -> None:
    """Raise InputError for a name of no report, and for advice that nobody could read."""
    if advises and report is None:
        raise InputError("--advice is told in a report", cure="Add --report page.html, or use kerncast profile.")
    if report is not None and report.suffix not in PAGES:
        raise InputError(f"{report} is neither .html nor .md", cure="End its name in .html or .md.")


def write_document(path: Path, document: "Document") -> None:
    """Write a report in the form that its name says."""
    from kerncast.report.page.pages import render_html, render_markdown  # noqa: PLC0415

    write_text(path, render_markdown(document) if path.suffix == ".md" else render_html(document))


def beyond_of(forecast: "Forecast", means: "Means", *, advises: bool = False) -> "Beyond":
    """Return what a report shows beyond a forecast: looks at its launches, pictures, and advice where it is wanted."""
    from kerncast.forecast.closer_look import look_closer  # noqa: PLC0415
    from kerncast.report.forecast.document import Beyond  # noqa: PLC0415
    from kerncast.report.forecast.picture import page_bars, page_rooflines  # noqa: PLC0415
    from kerncast.report.page.pages import Origin  # noqa: PLC0415

    looks = look_closer(forecast, means)
    advice = _advice(forecast, looks, means) if advises else ()
    return Beyond(looks, advice, page_rooflines(forecast), page_bars(forecast), Origin.of(asked_command()))


def before_of(baseline: "Baseline", forecast: "Forecast", means: "Means") -> "Before":
    """Return the version before, with looks at its launches where it has some; at least one forecast must pair."""
    from kerncast.forecast.closer_look import look_closer  # noqa: PLC0415
    from kerncast.report.comparison.before_after import Before  # noqa: PLC0415

    pairs = tuple(baseline.pairs(forecast.predictions))
    if baseline.forecast is None:
        return Before(str(baseline.path), pairs)
    return Before(str(baseline.path), pairs, baseline.forecast.profiled, look_closer(baseline.forecast, means))


def advice_told(launches: "Sequence[Launch]", gpu: "GPU", question: "Question", means: "Means") -> "tuple[Advice, ...]":
    """Return the advice on each launch that can be simulated; the others are told on stderr."""
    from kerncast.api.varying import advice_on  # noqa: PLC0415

    found, refusals = advice_on(launches, gpu, question, means)
    for number, refusal in refusals:
        tell(f"no advice on launch {number}: {refusal}")
    return found


def _advice(forecast: "Forecast", looks: "Sequence[CloserLook]", means: "Means") -> "tuple[Advice, ...]":
    """Return the advice on the launches that were looked at, on the fastest GPU of each."""
    from kerncast.models import Question  # noqa: PLC0415

    cases = {(case.profile.index, case.gpu.id): case for case in forecast.profiled}
    first = {look.profile.index: look for look in reversed(looks)}
    chosen = [cases[look.profile.index, look.gpu] for look in first.values()]
    found = [
        advice
        for case in chosen
        if case.launch is not None
        for advice in advice_told([case.launch], case.gpu, Question(forecast.predictions[0].timing), means)
    ]
    if not found:
        tell("no launch can be simulated, so that there is no advice beyond what limits it")
    return tuple(found)
