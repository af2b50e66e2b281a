"""The pictures of a page as files: the same rows and numbers as its HTML, nothing cut, three formats."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from kerncast.cli.shared.reports import ReportPlaces
from kerncast.errors import InputError
from kerncast.report.page.figures import Picture, bars_picture, pictures_of, stacks_picture, timeline_picture
from kerncast.report.page.fragments import Bar, Lane, Part, Stack
from kerncast.report.page.pages import Document, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONG = "waiting for shared memory, or for something that has a long name (short_scoreboard)"
BARS = bars_picture([Bar("T4", 1e-6, 2e-6, 4e-6), Bar("L4 " * 20, 1e-6, 8e-6, 9e-6, "before", "other")], "A caption.")
STACKS = stacks_picture(
    [Stack("T4", 1e-3, (Part("a", 7.5e-4, "#0072b2"), Part(LONG, 2.5e-4, "#e69f00"))), Stack("L4", 2e-3, ())], LONG * 3
)
TIMELINE = timeline_picture(
    [Lane("kernels", (("#0072b2", ((0.0, 5e-4), (7.5e-4, 1e-3))),))], 1e-3, [(LONG, "#0072b2")], "c"
)


def texts(figure: "Figure") -> list[Text]:
    every: list[Text] = figure.findobj(Text)
    return [each for each in every if each.get_text()]


@pytest.mark.parametrize("picture", [BARS, STACKS, TIMELINE])
def test_nothing_is_cut(picture: Picture) -> None:
    figure = picture.draw()
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    shown = [each for each in texts(figure) if each.axes is None or each.get_window_extent().width]
    for each in shown:
        box = each.get_window_extent()
        assert figure.bbox.x0 - 1 <= box.x0, each.get_text()
        assert box.x1 <= figure.bbox.x1 + 1, each.get_text()


def test_a_long_name_without_spaces_keeps_its_ends() -> None:
    """A name of C++ has no spaces to cut at."""
    name = "cutlass::" + "detail::" * 30 + "kernel<64>"
    (panel,) = bars_picture([Bar(name, 1e-6, 2e-6, 4e-6)], "c").draw().axes
    (label,) = (each.get_text() for each in panel.get_yticklabels())
    assert label.startswith("cutlass::")
    assert label.endswith("kernel<64>")


def test_bars_have_the_axis_of_the_page() -> None:
    (panel,) = BARS.draw().axes
    on_page = re.findall(r'<i style="left:([\d.]+)%"[^>]*>([^<]+)</i>', BARS.html)
    assert [label.get_text() for label in panel.get_xticklabels()] == [text for _, text in on_page]
    assert panel.get_xticks() == pytest.approx([float(place) for place, _ in on_page], abs=0.01)
    assert "2 µs  (1 µs to 4 µs)" in {each.get_text() for each in panel.texts}


def test_stacks_are_shares() -> None:
    (panel,) = STACKS.draw().axes
    assert [bar.get_width() for bar in panel.patches if isinstance(bar, Rectangle)] == pytest.approx([75, 25])
    assert {"75 %", "25 %", "1 ms", "2 ms"} <= {each.get_text() for each in panel.texts}


def test_a_report_has_a_file_per_picture_and_format(tmp_path: Path) -> None:
    inside = Section("of another GPU", pictures=(STACKS,))
    page = Document("t", (Section("Times", pictures=(BARS,), key="forecast", inside=(inside,)), Section("none")))
    assert [name for name, _ in pictures_of(page)] == ["forecast", "forecast-2"]
    ReportPlaces(tmp_path / "page.md", tmp_path / "a folder").write(page)
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    found = {path.name: path.read_bytes() for path in (tmp_path / "a folder").iterdir()}
    assert set(found) == {f"{name}{ending}" for name in ("forecast", "forecast-2") for ending in starts}
    assert all(held.startswith(starts[Path(name).suffix]) for name, held in found.items())
    assert "![Times](a%20folder/forecast.svg)" in (tmp_path / "page.md").read_text(encoding="utf-8")


def test_pictures_need_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for place in (file, tmp_path / "none" / "below"):
        with pytest.raises(InputError, match="is no folder"):
            ReportPlaces(None, place).check()
