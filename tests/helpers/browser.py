"""Pages in headless Chromium: what a reader sees at a width and in a scheme of colours, and what goes wrong there.

The browser is Debian's (package ``chromium``), driven by Playwright; nothing is downloaded. Tests without either are
skipped, with the reason.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]
NARROW, WIDE = 400, 1600
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_HEIGHT = 900
#: WCAG 2.2, criterion 1.4.3: of text, and of large text (24 px, or 18.66 px bold).
LEAST_CONTRAST, LEAST_OF_LARGE = 4.5, 3.0


def started_browser() -> "Iterator[Browser]":
    """Yield a headless Chromium; skip the test where there is none."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (extra test)")
    with api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@dataclass(slots=True)
class Seen:
    """An open page, and what it said and asked for since."""

    page: "Page"
    messages: list[str] = field(default_factory=list)
    """errors and warnings of the console, and exceptions that nothing caught"""
    requests: list[str] = field(default_factory=list)
    """addresses that were asked for"""

    @property
    def hosts(self) -> list[str]:
        """Addresses that are no file and no data of the page itself."""
        return [each for each in self.requests if not each.startswith(("file:", "data:", "blob:"))]

    def ask(self, script: str) -> Any:
        """Return what a function of JavaScript returns."""
        return self.page.evaluate(script)

    @property
    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        return int(self.ask("() => document.documentElement.scrollWidth - window.innerWidth"))

    @property
    def cut(self) -> list[str]:
        """What is wider or higher than a box that shows no more of it, and cannot be scrolled there."""
        return cast("list[str]", self.ask(_CUT))

    @property
    def first_screen(self) -> str:
        """The text in the window before anything is scrolled."""
        return str(self.ask(_FIRST_SCREEN))

    @property
    def faint(self) -> list[str]:
        """Texts whose contrast with what is behind them is too low, with the contrast."""
        return [
            f"{each['text']!r} has {each['contrast']:.2f}"
            for each in self.ask(_CONTRASTS)
            if each["contrast"] < (LEAST_OF_LARGE if each["large"] else LEAST_CONTRAST)
        ]


def open_page(browser: "Browser", address: str | Path, width: int, scheme: Scheme = "light") -> Seen:
    """Open a file, or an address, in a window of so many pixels."""
    context = browser.new_context(viewport={"width": width, "height": _HEIGHT}, color_scheme=scheme)
    seen = Seen(context.new_page())
    seen.page.on("console", lambda said: seen.messages.append(said.text) if said.type in {"error", "warning"} else None)
    seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.goto(address.resolve().as_uri() if isinstance(address, Path) else address)
    return seen


_SHOWN = """
  const shown = e => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const named = e => `${e.tagName.toLowerCase()}.${e.className} ${(e.textContent || "").trim().slice(0, 40)}`;
"""
_CUT = (
    "() => {"
    + _SHOWN
    + """
  return [...document.body.querySelectorAll("*")].filter(e => {
    if (!shown(e) || e.closest("svg") || e.matches(".away")) return false;
    const style = getComputedStyle(e);
    const hides = v => v === "hidden" || v === "clip";
    return (hides(style.overflowX) && e.scrollWidth > e.clientWidth + 1)
      || (hides(style.overflowY) && e.scrollHeight > e.clientHeight + 1);
  }).map(named);
}"""
)
_FIRST_SCREEN = (
    "() => {"
    + _SHOWN
    + """
  const texts = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walk.currentNode);
    const box = range.getBoundingClientRect();
    if (shown(walk.currentNode.parentElement) && box.height && box.top < innerHeight && box.bottom > 0)
      texts.push(walk.currentNode.data.trim());
  }
  return texts.filter(Boolean).join(" ");
}"""
)
_CONTRASTS = (
    "() => {"
    + _SHOWN
    + """
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
  const light = rgb => {
    const [r, g, b] = rgb.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = e => {
    const layers = [];
    for (; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
    const page = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
    return layers.reverse().reduce((below, top) => top[3] ? over(top, below) : below, page);
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, text = walk.currentNode.data.trim();
    if (!text || !shown(e) || e.closest("svg, script, style")) continue;
    const style = getComputedStyle(e), below = behind(e), own = rgba(style.color);
    const [a, b] = [light(over(own, below)), light(below)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    found.push({ text: text.slice(0, 40), contrast: (a + 0.05) / (b + 0.05), large });
  }
  return found;
}"""
)
