"""One pane of the page: an editor, the launch below it, and the answers beside it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from nicegui import background_tasks, ui

from kerncast.units import format_seconds
from kerncast.web import panels
from kerncast.web.jobs import Workshop
from kerncast.web.launch_text import MOST_LAUNCHES
from kerncast.web.questions import (
    Answer,
    ArgumentTold,
    Asked,
    CompiledTold,
    Done,
    ForecastTold,
    LaunchesTold,
    LinesTold,
    PictureTold,
    Problem,
    ReportTold,
    TypedLaunch,
)
from kerncast.web.typed_launch import kernels_in

#: A pause in typing after which the answer is looked for.
_PAUSE_SECONDS = 0.25
_INPUT = 'dense outlined debounce="200"'
_MOST_CHARACTERS = 2_000_000
#: What a launch has, by the names of ``Asked``: label and hint of each field.
_FIELDS = (
    ("kernel", "Kernel", "saxpy, or reduce<float, 256>"),
    ("grid", "Grid (blocks)", "4096 or 64, 64"),
    ("block", "Block (threads)", "256 or 16, 16"),
    ("shared_bytes", "Dynamic shared", "0 bytes"),
)
_MORE_FIELDS = (
    ("defines", "Macros (-D)", "TILE=16 FAST"),
    ("measured", "Measured times", "T4=1.2ms, V100=0.8ms"),
)


class Pane:
    """Editor, launch and answers; each edit asks anew, and what was asked before is given up."""

    def __init__(self, name: str, asked: Asked, workshop: Workshop, heard: Callable[["Pane"], None]) -> None:
        self.name = name
        self.told: ForecastTold | None = None
        self._short = self._letter = ""
        self._kernel = "Kernel"
        self._chosen: dict[str, str] = {}
        self._remembered: dict[str, str] = {}
        self._asked, self._workshop, self._heard = asked, workshop, heard
        self._whole: Callable[[Asked], Asked] = lambda mine: mine
        self._task: asyncio.Task[None] | None = None
        self._marks: list[dict[str, object]] = []
        self._arguments: dict[str, ui.input] = {}
        self._build()

    @property
    def asked(self) -> Asked:
        """What is asked, without the GPUs of the page."""
        return self._asked

    def ask_with(self, whole: Callable[[Asked], Asked]) -> None:
        """Complete each question by what the whole page says."""
        self._whole = whole

    def question(self) -> Asked:
        """Return what is asked, whole, with what was typed for parameters that the kernel may have again."""
        known = self._remembered | dict(self._asked.arguments)
        return self._whole(replace(self._asked, arguments=tuple(known.items())))

    def shown(self) -> Asked:
        """Return what is shown, whole: the arguments are those of the kernel alone."""
        return self._whole(self._asked)

    def load(self, asked: Asked) -> None:
        """Show another kernel and launch, and ask."""
        self._asked = asked
        self._remembered.clear()
        self._show_launch()
        self._editor.set_value(asked.source)
        self.ask(0.0)

    def ask(self, pause: float = _PAUSE_SECONDS) -> None:
        """Ask after a pause; what was asked before is given up."""
        self.stop()
        self._heard(self)  # what was typed is kept at once, for a reload
        self._task = background_tasks.create(self._work(pause), name=f"pane {self.name}")

    def stop(self) -> None:
        """Give up what was asked."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def set_name(self, name: str) -> None:
        """Show a name before the kernel's, where there are two panes."""
        self._letter = name
        self._title.set_text(f"{name} · {self._kernel}" if name else self._kernel)

    def set_theme(self, *, is_dark: bool) -> None:
        """Show the editor light or dark."""
        self._editor.set_theme("vscodeDark" if is_dark else "vscodeLight")

    # What stands where.

    def _build(self) -> None:
        self.root = ui.element("section").classes("kc-pane").props(f'aria-label="Pane {self.name}"')
        with self.root:
            with ui.element("div").classes("kc-card kc-written"):
                with ui.element("div").classes("kc-pane-head"):
                    self._title = ui.label("Kernel")
                    self._status = ui.label().classes("kc-status").props('role="status"')
                self._editor = ui.codemirror(
                    self._asked.source, language="C++", theme="vscodeLight", on_change=lambda _: self._edited()
                ).classes("kc-editor")
                self._build_launch()
            self._build_answers()
        self._show_nothing()

    def _build_answers(self) -> None:
        with ui.element("div").classes("kc-card kc-answer") as self._answer:
            self._verdict, self._rows, self._every, self._parts = _html(), _html(), _html(), _html()
            self._occupancy, self._picture = _html(), _html()
            self._notes = ui.element("details")
            with self._notes:
                with ui.element("summary"):
                    ui.html("What to know before relying on it", sanitize=False, tag="span")
                self._note_list = _html()
        with ui.element("div").classes("kc-card kc-answer kc-behind") as self._behind:
            self._lines = _html()

    def _build_launch(self) -> None:
        with ui.element("div").classes("kc-launch"):
            self._tabs = ui.element("div").classes("kc-tabs").props('role="group" aria-label="Launches"')
            self._fields = {name: self._field(name, label, hint) for name, label, hint in _FIELDS}
            self._argument_grid = ui.element("div").classes("kc-arguments")
            for name, label, hint in _MORE_FIELDS:
                self._fields[name] = self._field(name, label, hint).classes("kc-wide")
        self._show_launch()

    def _field(self, name: str, label: str, hint: str) -> ui.input:
        def changed() -> None:
            value = str(self._fields[name].value or "")
            if value != getattr(self._asked, name):
                self._asked = replace(self._asked, **{name: value})  # type: ignore[arg-type]
                self.ask()

        shown = getattr(self._asked, name)
        return ui.input(label, value=shown, placeholder=hint, on_change=changed).props(_INPUT)

    def _show_tabs(self) -> None:
        """Show a button per launch, and those that add or remove one."""
        self._tabs.clear()
        launches, place = self._asked.launches, self._asked.place
        with self._tabs:
            for number, each in enumerate(launches if len(launches) > 1 else ()):
                pressed = "true" if number == place else "false"
                named = f"{number + 1} · {each.kernel or 'kernel'}"
                _button(named, partial(self._look_at, number)).props(f'aria-pressed="{pressed}"')
            if len(launches) < MOST_LAUNCHES:
                _button("Add a launch", self._add_launch).props('icon="add"')
            if len(launches) > 1:
                _button("Remove", self._remove_launch).props('icon="remove"')

    def _look_at(self, place: int, launches: tuple[TypedLaunch, ...] | None = None) -> None:
        """Show one of the launches, and ask."""
        self._asked = self._asked.at(place, launches or self._asked.launches)
        self._show_launch()
        self.ask(0.0)

    def _add_launch(self) -> None:
        launches, place = self._asked.launches, self._asked.place
        self._look_at(place + 1, (*launches[: place + 1], launches[place], *launches[place + 1 :]))

    def _remove_launch(self) -> None:
        rest = self._asked.others
        self._look_at(min(self._asked.place, len(rest) - 1), rest)

    def _show_launch(self) -> None:
        self._show_tabs()
        for name, field in self._fields.items():
            field.set_value(getattr(self._asked, name))
        self._show_arguments(
            tuple(ArgumentTold(name, "", text, is_filled=False) for name, text in self._asked.arguments)
        )

    def _show_arguments(self, told: tuple[ArgumentTold, ...]) -> None:
        """Show a field per argument; fields that stay keep their focus."""
        if [each.name for each in told] != list(self._arguments):
            self._argument_grid.clear()
            with self._argument_grid:
                self._arguments = {each.name: self._argument(each.name) for each in told}
        self._chosen |= {each.name: each.text for each in told if each.is_filled}
        for each in told:
            field = self._arguments[each.name]
            label = f"{each.name}: {each.type_text}" if each.type_text else each.name
            label += " (our choice)" if self._chosen.get(each.name) == each.text else ""
            field.props(f'label="{panels.text(label)}"')
            if field.value != each.text:
                field.set_value(each.text)

    def _argument(self, name: str) -> ui.input:
        def changed() -> None:
            value = str(self._arguments[name].value or "")
            known = dict(self._asked.arguments)
            if known.get(name) != value:
                self._asked = replace(self._asked, arguments=tuple((known | {name: value}).items()))
                self.ask()

        return ui.input(name, on_change=changed).props(_INPUT)

    def _edited(self) -> None:
        source = str(self._editor.value or "")[:_MOST_CHARACTERS]
        if source == self._asked.source:
            return
        self._asked = replace(self._asked, source=source)
        names = kernels_in(source)
        self._fields["kernel"].set_autocomplete(names)
        if names and not _is_known(self._asked.kernel, names):  # it was renamed, or another one was pasted
            self._asked = replace(self._asked, kernel="")
            self._fields["kernel"].set_value("")
        self.ask()

    # What comes back.

    async def _work(self, pause: float) -> None:
        await asyncio.sleep(pause)
        begun = time.monotonic()
        self._set_stale(stale=True)
        self._status.set_text("working …" if self._workshop.is_warm else "loading compilers and simulator, once …")
        async with aclosing(self._workshop.answers(self.question())) as answers:
            async for answer in answers:
                self._show(answer, time.monotonic() - begun)
        self._set_stale(stale=False)

    def _set_stale(self, *, stale: bool) -> None:
        """Pale what belongs to an earlier state of the source."""
        for each in (self._answer, self._behind):
            each.classes(**{"add" if stale else "remove": "kc-stale"})

    async def report(self) -> ReportTold | Problem:
        """Return the report on what is asked."""
        found: ReportTold | Problem = Problem("there is no report")
        async with aclosing(self._workshop.answers(replace(self.question(), wants_report=True))) as answers:
            async for answer in answers:
                if isinstance(answer, ReportTold | Problem):
                    found = answer
        return found

    def _show(self, answer: Answer, seconds: float) -> None:
        match answer:
            case CompiledTold():
                self._show_compiled(answer)
            case ForecastTold():
                self._show_forecast(answer)
            case Done():
                rest = "a first answer; more follows" if answer.is_draft else "by a small sample"
                self._status.set_text(f"{self._short}in {seconds:.2f} s, {rest}")
            case LaunchesTold():
                self._every.set_content(panels.launches(answer, self._asked.place))
            case LinesTold():
                self._behind.set_visibility(True)
                self._lines.set_content(panels.lines(answer, self._asked.source))
                self._mark(panels.decorations(answer, self._line_count))
            case PictureTold():
                # The picture is ours, made of numbers and escaped names outside the process that runs kernels.
                self._picture.set_content(answer.svg and f'<h3>Roofline</h3><div class="kc-picture">{answer.svg}</div>')
            case Problem():
                self._show_problem(answer)

    def _show_compiled(self, told: CompiledTold) -> None:
        self._remembered |= dict(self._asked.arguments)
        self._asked = replace(self._asked, arguments=tuple((each.name, each.text) for each in told.arguments))
        self._kernel = told.kernel
        if not self._asked.others:
            self._every.set_content("")
        self.set_name(self._letter)
        self._show_arguments(told.arguments)

    def _show_forecast(self, told: ForecastTold) -> None:
        self.told = told
        self._answer.classes(remove="kc-stale")
        self._short = f"{format_seconds(told.rows[0].seconds, 3)} on {told.rows[0].gpu} · answered "
        self._verdict.set_content(panels.verdict(told))
        self._rows.set_content(panels.rows(told))
        first = self.question().gpus[:1]
        main = next((row for row in told.rows if row.is_hypothetical or row.gpu_id in first), told.rows[0])
        self._parts.set_content(panels.resources(main))
        self._occupancy.set_content(panels.occupancy(told))
        self._note_list.set_content(panels.notes(told))
        self._notes.set_visibility(True)
        if self._marks and self._marks[0]["class"] == "kc-error":
            self._mark([])
        self._heard(self)

    def _show_problem(self, found: Problem) -> None:
        self.told = None
        self._show_nothing()
        self._verdict.set_content(panels.problem(found))
        self._set_stale(stale=False)
        self._status.set_text("no answer")
        self._mark(panels.error_decorations(found, self._line_count))
        self._heard(self)

    def _show_nothing(self) -> None:
        for each in (self._rows, self._every, self._parts, self._occupancy, self._lines, self._picture):
            each.set_content("")
        self._notes.set_visibility(False)
        self._behind.set_visibility(False)

    @property
    def _line_count(self) -> int:
        return self._asked.source.count("\n") + 1

    def _mark(self, marks: list[dict[str, object]]) -> None:
        if marks != self._marks:
            self._marks = marks
            self._editor.decorations = marks


def _is_known(kernel: str, names: Sequence[str]) -> bool:
    base = kernel.partition("<")[0].strip()
    return not base or base in names


def _html() -> ui.html:
    """Return a place for our own fragments, whose texts are escaped."""
    return ui.html("", sanitize=False)


def _button(label: str, work: Callable[[], object]) -> ui.button:
    return ui.button(label, color=None, on_click=lambda _: work()).props("flat dense no-caps")
