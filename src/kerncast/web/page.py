"""The page: what both panes have in common, and what is kept of it for a reload."""

import io
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicegui import app, background_tasks, ui

import kerncast
from kerncast.bounded_file import OUR_DATA, read_text
from kerncast.errors import InputError
from kerncast.gpu import list_gpus, load_gpu
from kerncast.typed_json import from_json, to_json
from kerncast.web import panels
from kerncast.web.jobs import Workshop
from kerncast.web.launch_text import hypothetical_text, launch_text, left_out, with_launch
from kerncast.web.pane import Pane
from kerncast.web.questions import Asked, Hypothetical, Problem
from kerncast.web.typed_launch import SOURCE_NAME

if TYPE_CHECKING:
    from fastapi import FastAPI
    from nicegui.events import MultiUploadEventArguments

_SUITE = Path(kerncast.__path__[0]) / "kernels" / "suite"
_FIRST_EXAMPLE = "matmul_tiled"
_FIRST_GPUS = ("h100-sxm", "a100-sxm-80gb", "rtx-4090")
_MOST_UPLOADED = 2_000_000
_CONNECT_SECONDS = 30.0
#: The editor has a theme of its own, which follows the system's.
_FOLLOW_DARK = (
    'const dark = matchMedia("(prefers-color-scheme: dark)");'
    ' dark.addEventListener("change", (event) => emitEvent("kc_dark", event.matches));'
    " return dark.matches"
)


def add_page(application: "FastAPI", include: Sequence[Path] = ()) -> None:
    """Add the page to an application, with the warm process behind it; sources may include headers of some folders."""
    workshop = Workshop(include)
    style = read_text(Path(__file__).with_name("page.css"), OUR_DATA)

    @ui.page("/", title="kerncast", response_timeout=_CONNECT_SECONDS)
    async def page(example: str = "", gpu: str = "") -> None:
        ui.add_css(style)
        await ui.context.client.connected(timeout=_CONNECT_SECONDS)
        desk = Desk(workshop, app.storage.tab, _begun_with(example, gpu))
        ui.context.client.on_delete(desk.stop)
        desk.begin()
        ui.on("kc_dark", lambda event: desk.set_theme(is_dark=bool(event.args)))
        with suppress(TimeoutError):  # then the editor stays light
            desk.set_theme(is_dark=await ui.run_javascript(_FOLLOW_DARK, timeout=_CONNECT_SECONDS))

    app.on_startup(lambda: background_tasks.create(workshop.start()))
    app.on_shutdown(workshop.close)
    ui.run_with(application, title="kerncast", dark=None, tailwind=False, show_welcome_message=False)


@cache
def examples() -> dict[str, Asked]:
    """Return the kernels of the suite with their first launches, by name."""
    found = {}
    for path in sorted(_SUITE.glob("*.cu")):
        launch = path.with_suffix(".toml")
        if launch.is_file():
            asked = with_launch(Asked(read_text(path, OUR_DATA)), read_text(launch, OUR_DATA))
            found[path.stem] = replace(asked, others=())
    return found


@cache
def _gpu_names() -> dict[str, str]:
    return {gpu.id: gpu.name for gpu in list_gpus()}


def _begun_with(example: str, gpu: str) -> Asked:
    """Return what a new tab shows: an example on some GPUs, which the address may name (``?example=saxpy&gpu=t4``)."""
    asked = examples().get(example, examples()[_FIRST_EXAMPLE])
    gpus = tuple(each for each in gpu.split(",") if each in _gpu_names())
    return replace(asked, gpus=gpus or _FIRST_GPUS)


class Desk:
    """All that one browser tab works on: GPUs, a hypothetical one, and one pane or two."""

    def __init__(self, workshop: Workshop, kept: Any, begun: Asked) -> None:
        self._workshop, self._kept, self._begun = workshop, kept, begun
        known = [each for each in kept.get("gpus", begun.gpus) if each in _gpu_names()]
        self._gpus: list[str] = known or list(begun.gpus)
        self._what_if: WhatIf | None = None
        self._panes: list[Pane] = []
        self._is_dark = False
        self._build()

    def begin(self) -> None:
        """Ask for the first time."""
        for pane in self._panes:
            pane.ask(0.0)

    def set_theme(self, *, is_dark: bool) -> None:
        """Show the editors as the rest of the page is shown."""
        self._is_dark = is_dark
        for pane in self._panes:
            pane.set_theme(is_dark=is_dark)

    def stop(self) -> None:
        """Give up all that was asked: the tab is closed."""
        for pane in self._panes:
            pane.stop()

    def _whole(self, asked: Asked) -> Asked:
        hypothetical = self._what_if.hypothetical if self._what_if is not None else None
        return replace(asked, gpus=tuple(self._gpus), hypothetical=hypothetical)

    # What stands where.

    def _build(self) -> None:
        with ui.element("header").classes("kc-head"):
            ui.label("kerncast").classes("kc-brand")
            ui.label("How long will this kernel take on a GPU that you don't have?").classes("kc-tagline")
            self._build_menus()
        with ui.element("div").classes("kc-controls"):
            ui.select(
                _gpu_names(), multiple=True, value=self._gpus, label="GPUs", with_input=True,
                on_change=lambda event: self._choose(event.value),
            ).props('dense outlined use-chips input-debounce="0"').classes("kc-gpus")  # fmt: skip
            ui.switch("What if", value=bool(self._kept.get("what_if")), on_change=lambda e: self._imagine(on=e.value))
            ui.switch(
                "Compare two versions", value=bool(self._kept.get("two")), on_change=lambda e: self._two(on=e.value)
            )
        if self._workshop.include:
            folders = ", ".join(map(str, self._workshop.include))
            ui.label(f"Sources may include headers of {folders}").classes("kc-note kc-folders")
        self._what_if_place = ui.element("div")
        self._comparison = ui.html("", sanitize=False).classes("kc-compare")
        self._pane_place = ui.element("main").classes("kc-panes")
        self._add_pane("A", self._begun)
        if self._kept.get("what_if"):
            self._imagine(on=True)
        if self._kept.get("two"):
            self._two(on=True)

    def _build_menus(self) -> None:
        with (
            ui.button("Examples", icon="menu_book", color=None).props("flat dense"),
            ui.menu().props('max-height="60vh"'),
        ):
            for name, asked in examples().items():
                ui.menu_item(name.replace("_", " "), on_click=lambda asked=asked: self._panes[0].load(asked))
        upload = ui.upload(multiple=True, auto_upload=True, max_file_size=_MOST_UPLOADED, on_multi_upload=self._opened)
        upload.props('accept=".cu,.cuh,.toml"').style("display: none")
        ui.button(
            "Open", icon="folder_open", color=None, on_click=lambda: upload.run_method("pickFiles")
        ).props("flat dense")  # fmt: skip
        with ui.button("Share", icon="ios_share", color=None).props("flat dense"), ui.menu():
            ui.menu_item("Launch file and source (.zip)", on_click=self._share_launch)
            ui.menu_item("Report (.html)", on_click=self._share_report)

    def _add_pane(self, name: str, otherwise: Asked) -> None:
        try:
            asked = from_json(Asked, self._kept[f"pane {name}"])
        except (KeyError, ValueError, TypeError):
            asked = otherwise
        with self._pane_place:
            pane = Pane(name, asked, self._workshop, self._heard)
        pane.ask_with(self._whole)
        self._panes.append(pane)

    # What somebody does.

    def _choose(self, gpus: list[str]) -> None:
        self._gpus = list(gpus)
        self._kept["gpus"] = self._gpus
        self._ask()

    def _imagine(self, *, on: bool) -> None:
        if not on:
            self._what_if = None
            self._kept["what_if"] = None
            self._what_if_place.clear()
        elif self._what_if is None:
            kept = self._kept.get("what_if") or {"base": (self._gpus or list(_FIRST_GPUS))[0], "steps": {}}
            with self._what_if_place:
                self._what_if = WhatIf(kept, self._imagined)
            self._kept["what_if"] = kept
        self._ask()

    def _imagined(self) -> None:
        assert self._what_if is not None
        self._kept["what_if"] = self._what_if.kept
        self._ask()

    def _two(self, *, on: bool) -> None:
        self._kept["two"] = on
        if on and len(self._panes) == 1:
            self._add_pane("B", self._panes[0].asked)
            self._pane_place.classes(add="kc-two")
            self._panes[1].set_theme(is_dark=self._is_dark)
            self._panes[1].ask(0.0)
        elif not on and len(self._panes) > 1:
            pane = self._panes.pop()
            pane.stop()
            pane.root.delete()
            self._pane_place.classes(remove="kc-two")
        for pane in self._panes:
            pane.set_name(pane.name if on else "")
        self._heard(self._panes[0])

    def _ask(self) -> None:
        for pane in self._panes:
            pane.ask()

    def _heard(self, pane: Pane) -> None:
        self._kept[f"pane {pane.name}"] = to_json(pane.asked)
        told = [each.told for each in self._panes]
        both = len(told) == 2 and told[0] is not None and told[1] is not None
        self._comparison.set_content(panels.comparison(told[0], told[1]) if both else "")  # type: ignore[arg-type]
        self._comparison.set_visibility(both)

    # Files that come and go.

    async def _opened(self, event: "MultiUploadEventArguments") -> None:
        asked = self._panes[0].asked
        texts = {file.name: (await file.read()).decode("utf-8-sig", "replace") for file in event.files}
        sources = [text for name, text in texts.items() if not name.endswith(".toml")]
        launches = [text for name, text in texts.items() if name.endswith(".toml")]
        try:
            if sources:
                asked = replace(asked, source=sources[0], kernel="")
            if launches:
                asked = with_launch(asked, launches[0])
                _tell_what_is_left_out(left_out(launches[0]))
        except InputError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        self._panes[0].load(asked)
        event.sender.run_method("reset")

    def _share_launch(self) -> None:
        asked = self._panes[0].shown()
        content = io.BytesIO()
        gpus = " ".join(f"--gpu {each}" for each in asked.gpus)
        try:
            launch = launch_text(asked, SOURCE_NAME, self._workshop.include)
        except InputError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        several = f"#{asked.place}" if asked.others else ""
        times = [each.partition("=") for each in asked.measured.split(",") if each.strip()]
        measured = "".join(f' --measured "{gpu.strip()}{several}={time.strip()}"' for gpu, _, time in times)
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(SOURCE_NAME, asked.source)
            file.writestr("launch.toml", launch)
            if asked.hypothetical is not None:
                file.writestr("gpu.toml", hypothetical_text(asked.hypothetical))
                gpus += " --gpu gpu.toml"
            file.writestr("README.txt", f"kerncast predict launch.toml {gpus}{measured}\n")
        ui.download.content(content.getvalue(), "kerncast.zip", "application/zip")

    async def _share_report(self) -> None:
        found = await self._panes[0].report()
        if isinstance(found, Problem):
            ui.notify(f"There is no report: {found.what}", type="negative", multi_line=True)
            return
        ui.download.content(found.html.encode(), "kerncast.html", "text/html")


def _tell_what_is_left_out(names: Sequence[str]) -> None:
    if names:
        what = f"The page has no place for: {', '.join(names)}. kerncast predict has; folders of headers: --include."
        ui.notify(what, type="warning", multi_line=True)


@dataclass(frozen=True, slots=True)
class _Slider:
    """A value that a slider changes."""

    key: str
    """key of a GPU's file"""
    label: str
    unit: str = ""
    low: float = 0.25
    """factors of its ends"""
    high: float = 4.0
    whole: int = 1
    """number that it is a multiple of"""


_SLIDERS = (
    _Slider("sm_count", "SMs"),
    _Slider("clock_boost_mhz", "Boost clock", " MHz", 0.5, 2.0),
    _Slider("dram_gb_per_s", "DRAM bandwidth", " GB/s"),
    _Slider("l2_kib", "L2 cache", " KiB", 0.25, 8.0),
)
_MORE_SLIDERS = (
    _Slider("lanes.fp32_per_sm", "FP32 lanes per SM"),
    _Slider("lanes.fp64_per_sm", "FP64 lanes per SM", high=16.0),
    _Slider("lanes.tensor_fp16_per_sm", "FP16 tensor products per SM and cycle"),
    _Slider("shared.per_sm_kib", "Shared memory per SM", " KiB"),
    _Slider("registers.per_sm", "Registers per SM", whole=256),
    _Slider("limits.max_threads_per_sm", "Threads per SM", whole=32),
    _Slider("cycles.l2_latency", "Latency of L2", " cycles"),
    _Slider("cycles.dram_latency", "Latency of DRAM", " cycles"),
)
_EVERY_SLIDER = {each.key: each for each in (*_SLIDERS, *_MORE_SLIDERS)}
_STEPS_PER_OCTAVE = 8


class WhatIf:
    """Sliders that make a GPU that does not exist of one that does."""

    def __init__(self, kept: dict[str, Any], changed: Callable[[], None]) -> None:
        self._base = kept["base"] if kept.get("base") in _gpu_names() else _FIRST_GPUS[0]
        self._steps: dict[str, int] = {key: int(kept.get("steps", {}).get(key, 0)) for key in _EVERY_SLIDER}
        self._changed = changed
        self._labels: dict[str, ui.label] = {}
        self._sliders: dict[str, ui.slider] = {}
        self._build()

    @property
    def kept(self) -> dict[str, Any]:
        """What a reload needs."""
        return {"base": self._base, "steps": self._steps}

    @property
    def hypothetical(self) -> Hypothetical | None:
        """The GPU that the sliders make; None where they change nothing."""
        facts = _facts(self._base)
        changes = tuple((key, self._value(key)) for key, step in self._steps.items() if step and key in facts)
        said = ", ".join(_said(_EVERY_SLIDER[key], value) for key, value in changes)
        return Hypothetical(self._base, f"{_gpu_names()[self._base]} with {said}", changes) if changes else None

    def _build(self) -> None:
        with ui.element("section").classes("kc-whatif").props('aria-label="A GPU that does not exist"'):
            ui.select(
                _gpu_names(), value=self._base, label="Begin with", with_input=True,
                on_change=lambda event: self._begin_with(event.value),
            ).props("dense outlined")  # fmt: skip
            for each in _SLIDERS:
                self._add(each)
            with ui.element("details").classes("kc-more").props("open" if self._has_more else ""):
                with ui.element("summary"):
                    ui.html("More values", sanitize=False, tag="span")
                with ui.element("div").classes("kc-sliders"):
                    for each in _MORE_SLIDERS:
                        self._add(each)
        self._tell()

    @property
    def _has_more(self) -> bool:
        return any(self._steps[each.key] for each in _MORE_SLIDERS)

    def _add(self, slider: _Slider) -> None:
        key = slider.key
        with ui.element("div").classes("kc-slider"):
            with ui.element("div").classes("kc-slider-head"):
                ui.label(slider.label)
                self._labels[key] = ui.label()
            self._sliders[key] = ui.slider(
                min=_steps(slider.low), max=_steps(slider.high), step=1, value=self._steps[key],
                on_change=lambda event: self._slide(key, int(event.value)),
            ).props(f'aria-label="{slider.label}"')  # fmt: skip

    def _begin_with(self, base: str) -> None:
        self._base = base
        self._tell()
        self._changed()

    def _slide(self, key: str, step: int) -> None:
        if step != self._steps[key]:
            self._steps[key] = step
            self._tell()
            self._changed()

    def _value(self, key: str) -> float:
        whole = _EVERY_SLIDER[key].whole
        value = _facts(self._base)[key] * 2.0 ** (self._steps[key] / _STEPS_PER_OCTAVE)
        return float(whole * max(1, round(value / whole)))

    def _tell(self) -> None:
        facts = _facts(self._base)
        for key, slider in _EVERY_SLIDER.items():
            is_known = key in facts
            self._sliders[key].set_enabled(is_known)
            now = f"{self._value(key):,.0f}{slider.unit}" if is_known else "not known"
            was = f"{facts[key]:,.0f} → " if is_known and self._steps[key] else ""
            self._labels[key].set_text(f"{was}{now}")


def _steps(factor: float) -> int:
    steps = 0
    while 2.0 ** (steps / _STEPS_PER_OCTAVE) < max(factor, 1 / factor):
        steps += 1
    return steps if factor > 1 else -steps


def _said(slider: _Slider, value: float) -> str:
    """Return a value in the name of a GPU.

    >>> _said(_SLIDERS[2], 640.0), _said(_MORE_SLIDERS[6], 200.0)
    ('640 GB/s', 'Latency of L2 200 cycles')
    """
    if slider in _SLIDERS:
        return f"{value:,.0f}{slider.unit or ' ' + slider.label}"
    return f"{slider.label} {value:,.0f}{slider.unit}"


def _facts(gpu_id: str) -> dict[str, float]:
    """Return the values that sliders change, in the units of GPU files."""
    gpu = load_gpu(gpu_id)
    values = {fact.key.removeprefix("peak."): fact.value for fact in (*gpu.architecture.facts, *gpu.facts)}
    return {key: float(values[key]) for key in _EVERY_SLIDER if isinstance(values.get(key), int | float)}  # type: ignore[arg-type]
