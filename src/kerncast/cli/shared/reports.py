"""Reports that commands write: what a page needs beyond the answer is found out for it alone."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncast.cli.application import asked_command
from kerncast.cli.shared.output import check_place, make_folder, tell, write_text
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

#: Launches that are simulated anew for advice, once for each limit.
_MOST_ADVISED = 4
_PAGES = (".html", ".md")


@dataclass(frozen=True, slots=True)
class ReportPlaces:
    """The places of a report: its page, and a folder for its pictures as files."""

    page: Path | None
    pictures: Path | None = None

    @property
    def is_asked(self) -> bool:
        """Whether anybody wants a report."""
        return self.page is not None or self.pictures is not None

    def check(self, *, advises: bool = False) -> None:
        """Raise InputError for a name of no report, and for advice that nobody could read."""
        if advises and self.page is None:
            raise InputError("--advice is told in a report", cure="Add --report page.html, or use kerncast profile.")
        if self.page is not None:
            check_place(self.page, _PAGES)
        folder = self.pictures
        if folder is not None and not (folder.is_dir() or (folder.parent.is_dir() and not folder.exists())):
            raise InputError(f"--pictures {folder} is no folder", cure="Name a folder that is there, or one to make.")

    def write(self, document: "Document") -> None:
        """Write the report in the form that its name says, and each of its pictures in every format."""
        from kerncast.report.page.figures import pictures_of, save_pictures  # noqa: PLC0415
        from kerncast.report.page.pages import render_html, render_markdown  # noqa: PLC0415

        images: dict[int, str] = {}
        if self.pictures is not None:
            make_folder(self.pictures)
            save_pictures(document, self.pictures)
            place = Path(os.path.relpath(self.pictures, self.page.parent if self.page else None))
            images = {id(picture): (place / f"{name}.svg").as_posix() for name, picture in pictures_of(document)}
        if self.page is not None:
            is_text = self.page.suffix == ".md"
            write_text(self.page, render_markdown(document, images) if is_text else render_html(document))


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
    from kerncast.report.comparison.before_after import Before, sureness  # noqa: PLC0415

    pairs = tuple(baseline.pairs(forecast.predictions))
    sure = sureness(pairs, baseline.forecast.profiled if baseline.forecast else (), forecast.profiled)
    if baseline.forecast is None:
        return Before(str(baseline.path), pairs, sure=sure)
    return Before(str(baseline.path), pairs, baseline.forecast.profiled, look_closer(baseline.forecast, means), sure)


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
    chosen = [cases[look.profile.index, look.gpu] for look in list(first.values())[:_MOST_ADVISED]]
    found = [
        advice
        for case in chosen
        if case.launch is not None
        for advice in advice_told([case.launch], case.gpu, Question(forecast.predictions[0].timing), means)
    ]
    if not found:
        tell("no launch can be simulated, so that there is no advice beyond what limits it")
    return tuple(found)
