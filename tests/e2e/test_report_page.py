"""Reports as a reader sees them: at two widths, in two schemes of colours, with the keyboard, and without a network.

The pages are those of docs/examples, and one that is made here of hostile names.
"""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kerncast.report.page.fragments import (
    Bar,
    Lane,
    Part,
    SourceRow,
    Stack,
    interval_bars,
    source_lines,
    stacks,
    timeline,
    verdict_html,
)
from kerncast.report.page.pages import Document, Origin, Section, render_html
from kerncast.report.tables import Fact, Table, TextColumn
from tests.helpers.browser import NARROW, WIDE, Scheme, open_page
from tests.helpers.places import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EXAMPLES = ROOT / "docs" / "examples"
PAGES = ("kernel", "before-after", "program")
EVIL = '<script>window.hurt = 1</script><img src=x onerror="window.hurt = 1">\'"><b onclick=alert(1)>'
LONG = "std::transform_reduce_kernel<" + "unsigned_long_long_name, " * 12 + ">"


def hostile_page() -> str:
    """Return a page of every kind of fragment, all of whose texts are hostile or long."""
    bars = [Bar(EVIL, 1e-6, 2e-6, 3e-6, EVIL), Bar(LONG, 1e-6, 5e-5, 1e-4)]
    made = [Stack(EVIL, 1e-6, (Part(EVIL, 6e-7, "#0072b2"), Part(LONG, 4e-7, "#e69f00")))]
    rows = [SourceRow(1, EVIL + LONG, 0.5, ("50 %", EVIL, "1 %"), (EVIL, LONG), (EVIL,)), SourceRow(2, "", None, ("",))]
    lanes = [Lane(EVIL, (("#0072b2", ((0.0, 1e-3),)),))]
    table = Table((TextColumn(EVIL), "time", "count", TextColumn(LONG)), tuple(
        (f"{EVIL}{n}", f"{n} µs", f"{10 - n} k", LONG) for n in range(10)
    ))  # fmt: skip
    pictures = (
        interval_bars(bars, EVIL), stacks(made, EVIL), source_lines(rows, ("time", EVIL, "PTX"), EVIL),
        timeline(lanes, 1e-3, [(EVIL, "#0072b2")], EVIL), verdict_html(EVIL, [EVIL], [Fact(EVIL, EVIL, EVIL)]),
    )  # fmt: skip
    inside = (Section(EVIL, (EVIL,), facts=(Fact(EVIL, LONG, EVIL),), key=EVIL, is_folded=True),)
    section = Section(EVIL, (EVIL, LONG), (table,), pictures=pictures, inside=inside, key="all")
    origin = Section("Origin", key="origin", facts=Origin(EVIL, datetime(2026, 1, 1, tzinfo=UTC)).facts)
    return render_html(Document(EVIL, (section, origin), LONG, (EVIL,), (Fact(EVIL, LONG, EVIL),)))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "hostile.html"
    path.write_text(hostile_page(), encoding="utf-8")
    return path


def page_of(name: str, hostile: Path) -> Path:
    return hostile if name == "hostile" else EXAMPLES / f"{name}.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("name", [*PAGES, "hostile"])
def test_all_of_a_page_can_be_read(browser: "Browser", hostile: Path, name: str, width: int, scheme: Scheme) -> None:
    seen = open_page(browser, page_of(name, hostile), width, scheme)
    for is_open in (False, True):
        if is_open:
            seen.ask("() => document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert seen.overflow <= 0
        assert seen.cut == []
        assert seen.faint == []
    assert seen.messages == []
    assert seen.hosts == []
    assert len(seen.requests) == 1


def test_nothing_hostile_runs(browser: "Browser", hostile: Path) -> None:
    seen = open_page(browser, hostile, WIDE)
    assert seen.ask("() => window.hurt") is None
    assert seen.ask("() => document.scripts.length") == 1
    assert seen.ask("() => document.images.length") == 0
    assert EVIL in seen.page.inner_text("header")


def test_tables_sort_and_filter_by_keyboard(browser: "Browser", hostile: Path) -> None:
    seen = open_page(browser, hostile, WIDE)
    page = seen.page

    def column(number: int) -> list[str]:
        return page.locator(f".table tbody tr:visible td:nth-child({number})").all_inner_texts()

    assert column(2) == [f"{n} µs" for n in range(10)]
    page.focus(".table th:nth-child(3) button")
    page.keyboard.press("Enter")
    assert page.get_attribute(".table th:nth-child(3)", "aria-sort") == "ascending"
    assert column(3) == [f"{n} k" for n in range(1, 11)]
    page.keyboard.press("Space")
    assert page.get_attribute(".table th:nth-child(3)", "aria-sort") == "descending"
    assert column(3) == [f"{n} k" for n in range(10, 0, -1)]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    assert seen.ask("() => document.activeElement.type") == "search"
    page.keyboard.type("7 µs")
    assert column(2) == ["7 µs"]
    assert page.inner_text(".table output") == "1 of 10"


def test_units_are_sorted_by_their_size(browser: "Browser", tmp_path: Path) -> None:
    ordered = ["900 ns", "1.5 µs", "20 µs (<1 %)", "3 ms", "1 s", "–"]
    counts = ["<1 %", "2 %", "×3.5", "836", "20.9 k", "2.15 G"]
    rows = tuple(zip(reversed(ordered), counts, strict=True))
    table = Table(("time", "count"), rows)
    path = tmp_path / "units.html"
    path.write_text(render_html(Document("t", (Section("s", tables=(table,)),))), encoding="utf-8")
    page = open_page(browser, path, WIDE).page
    for number, expected in ((1, ordered), (2, counts)):
        page.click(f"th:nth-child({number}) button")
        assert page.locator(f"tbody td:nth-child({number})").all_inner_texts() == expected


def test_narrow_tables_are_cards_that_a_list_sorts(browser: "Browser", hostile: Path) -> None:
    page = open_page(browser, hostile, NARROW).page
    assert not page.is_visible(".table thead")
    page.select_option(".table select", label="count ↑")
    assert page.locator(".table tbody td:nth-child(3)").all_inner_texts()[0].endswith("1 k")
    content = page.evaluate(
        "() => getComputedStyle(document.querySelector('.table td:nth-child(3)'), '::before').content"
    )
    assert content == '"count"'


def test_a_source_line_opens_to_its_code_by_keyboard(browser: "Browser") -> None:
    page = open_page(browser, EXAMPLES / "kernel.html", WIDE).page
    line = page.locator(".source details").filter(has_text="sum += tileA").first
    line.locator("summary").focus()
    page.keyboard.press("Enter")
    assert "fma.rn.f32" in line.inner_text()
    assert "FFMA" in line.inner_text()


def test_a_link_opens_what_is_folded(browser: "Browser") -> None:
    page = open_page(browser, EXAMPLES / "kernel.html", WIDE).page
    page.click("nav a[href='#terms']")
    page.wait_for_selector("#terms[open]")


def test_paper_shows_what_is_folded(browser: "Browser") -> None:
    page = open_page(browser, EXAMPLES / "kernel.html", WIDE).page
    page.emulate_media(media="print")
    assert not page.is_visible("nav")
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.section:not([open])").count() == 0
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.section:not([open])").count() > 0


# The ten questions of docs/examples/README.md.

_ROW = re.compile(r"^\| \d+ \| (?P<question>.+?) \| (?P<place>.+?) \| (?P<words>.+?) \|$", re.MULTILINE)
QUESTIONS = [match.groupdict() for match in _ROW.finditer((EXAMPLES / "README.md").read_text(encoding="utf-8"))]


def test_there_are_ten_questions() -> None:
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: asked["question"])
def test_each_question_is_answered_on_the_first_screen_or_one_click_away(
    browser: "Browser", asked: dict[str, str], width: int
) -> None:
    seen = open_page(browser, EXAMPLES / "kernel.html", width)
    words = [word.strip() for word in asked["words"].replace("`", "").split(";")]
    link = re.search(r"\(kernel\.html#([a-z]+)\)", asked["place"])
    if link is None:
        text = seen.first_screen
    else:
        seen.page.click(f"nav a[href='#{link[1]}']")
        text = seen.page.inner_text(f"#{link[1]}")
    for word in words:
        assert word.lower() in text.lower()


def test_examples_are_small_and_whole() -> None:
    for name in PAGES:
        text = (EXAMPLES / f"{name}.html").read_text(encoding="utf-8")
        assert len(text.encode()) < 400_000
        assert text.rstrip().endswith("</html>")
        for width in (NARROW, WIDE):
            for scheme in ("light", "dark"):
                assert (EXAMPLES / f"{name}-{width}-{scheme}.png").stat().st_size < 400_000


def test_the_first_600_characters_hold_a_gpu_and_a_time() -> None:
    text = (EXAMPLES / "kernel.html").read_text(encoding="utf-8")
    shown = re.sub(r"(?s)<(style|script|svg|head).*?</\1>", "", text)
    first = " ".join(re.sub(r"<[^>]+>", " ", shown).split())[:600]
    assert re.search(r"\d\s*(µs|ms)", first)
    assert "B200" in first
