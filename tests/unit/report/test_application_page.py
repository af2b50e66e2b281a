"""Pages of whole programs: each moment counts once, all ends are on the axis, and nothing is too narrow to be seen."""

import re
from pathlib import Path

import numpy as np
import pytest

from kerncast.forecast import Forecast
from kerncast.forecast.application import Application, Applications, KernelTime
from kerncast.models.timeline import SPAN, Timeline
from kerncast.recording import EventKind, Recording
from kerncast.report.application.application_page import application_document, moments
from kerncast.report.forecast.document import Beyond
from kerncast.report.page.pages import render_html, render_markdown
from tests.helpers.recorded_programs import written


def application(recording: Recording, gpu: str, seconds: float) -> Application:
    """Return a run whose launches are a microsecond each, and whose last copy ends with it."""
    times = np.linspace(0.1 * seconds, 0.9 * seconds, len(recording.launches))
    rows = [(EventKind.LAUNCH, 0, 0, at, at + 1e-6, number) for number, at in enumerate(times)]
    spans = np.array([*rows, (EventKind.COPY, 0, 0, 0.95 * seconds, seconds, 4)], SPAN)
    line = Timeline(seconds, 1e-6 * len(rows), 0.05 * seconds, 0.0, 0.0, 0.0, spans)
    return Application(gpu, gpu, line, seconds, seconds, 0.9, (KernelTime("scale", len(rows), 1e-6, "dram"),), ())


def test_all_work_can_be_seen_up_to_its_end(tmp_path: Path) -> None:
    recording = written(tmp_path, [(0, 512)] * 5)
    found = (application(recording, "slow", 0.02), application(recording, "fast", 0.01))
    document = application_document(recording, Applications(found, Forecast((), (), ())), Beyond())
    assert document.headline == "10 ms on fast"
    paths = re.findall(r'<path fill="[^"]+" d="([^"]+)"', render_html(document))
    assert len(paths) == 4  # kernels and copies of two GPUs
    for path in paths:
        marks = [tuple(map(float, each)) for each in re.findall(r"M([\d.]+) 0h([\d.]+)", path)]
        assert min(width for _, width in marks) > 0.5
        assert max(begin + width for begin, width in marks) <= 1000.05
    assert max(float(each) for each in re.findall(r"M([\d.]+)", paths[1])) == pytest.approx(950)


def test_each_moment_counts_once() -> None:
    """Two kernels at once from 0 to 3 s, a copy that one of them hides in part, and a second of nothing."""
    rows = [
        (EventKind.LAUNCH, 0, 1, 0.0, 2.0, 0),
        (EventKind.LAUNCH, 0, 2, 1.0, 3.0, 1),
        (EventKind.COPY, 0, 0, 2.5, 4.0, 8),
    ]
    line = Timeline(5.0, 4.0, 1.5, 0.0, 1.0, 0.0, np.array(rows, SPAN))
    found = Application("T4", "t4", line, 5.0, 5.0, 0.9, (), ())
    assert [part.seconds for part in moments(found)] == [3.0, 1.0, 1.0]


def test_names_of_programs_and_kernels_are_escaped(tmp_path: Path) -> None:
    recording = written(tmp_path, [(0, 512)])
    evil = "<script>alert(1)</script>"
    app = application(recording, evil, 0.01)
    document = application_document(recording, Applications((app,), Forecast((), (), ())), Beyond())
    assert render_html(document).count("<script") == 1
    assert "<script" not in render_markdown(document)
