"""Pictures of timelines: every end is on the axis, and nothing is too narrow to be seen."""

from pathlib import Path

import numpy as np

from kerncast.forecast.application import Application, KernelTime
from kerncast.models.timeline import SPAN, Timeline
from kerncast.recording import EventKind, Recording
from kerncast.report.application.timeline_picture import draw_timeline
from tests.helpers.recorded_programs import written


def application(recording: Recording, gpu: str, seconds: float) -> Application:
    """Return a run whose launches are a microsecond each, and whose last copy ends with it."""
    times = np.linspace(0.1 * seconds, 0.9 * seconds, len(recording.launches))
    rows = [(EventKind.LAUNCH, 0, 0, at, at + 1e-6, number) for number, at in enumerate(times)]
    spans = np.array([*rows, (EventKind.COPY, 0, 0, 0.95 * seconds, seconds, 4)], SPAN)
    line = Timeline(seconds, 1e-6 * len(rows), 0.05 * seconds, 0.0, 0.0, 0.0, spans)
    return Application(gpu, gpu, line, seconds, seconds, 0.9, (KernelTime("scale", len(rows), 1e-6, "dram"),), ())


def test_all_ends_are_on_the_axis_and_all_work_can_be_seen(tmp_path: Path) -> None:
    recording = written(tmp_path, [(0, 512)] * 5)
    found = [application(recording, "slow", 0.02), application(recording, "fast", 0.01)]
    panels = draw_timeline(recording, found).axes
    assert [panel.get_title(loc="left") for panel in panels[:2]] == ["fast: 10 ms", "slow: 20 ms"]
    for panel in panels[:2]:
        assert panel.get_xlim()[0] == 0
        assert 20 < panel.get_xlim()[1] < 22
        widths = [path.get_extents().width for bars in panel.collections for path in bars.get_paths()]
        assert len(widths) == 6
        assert min(widths) > panel.get_xlim()[1] / 4000
