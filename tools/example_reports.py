"""Make the reports of docs/examples, and their screenshots where there is a browser: what ``make docs`` calls.

Usage: python tools/example_reports.py [NAME…]
"""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
PLACE = Path("docs") / "examples"
CURRENT = ("h100-sxm", "h200", "b200", "l40s", "rtx-4090", "rtx-5090", "a100-sxm-80gb")
THREE = ("a100-sxm-80gb", "h100-sxm", "l40s")
#: Each report by its name: the words after ``kerncast``.
REPORTS: dict[str, tuple[str, ...]] = {
    "kernel": ("predict", "examples/matmul_tiled.toml", *(w for gpu in CURRENT for w in ("--gpu", gpu))),
    "before-after": (
        "predict", "examples/matmul_tiled.toml", "--compare-to", "examples/matmul_naive.toml",
        *(w for gpu in THREE for w in ("--gpu", gpu)),
    ),
    "program": ("run", "examples/programs/heat.cu", *(w for gpu in ("t4", *THREE) for w in ("--gpu", gpu))),
}  # fmt: skip
_ARGUMENTS = {"program": ("--", "1000000", "400")}
_WIDTHS = (400, 1600)
#: Of a screenshot: about what a reader sees before they scroll twice.
_HEIGHT = 1500
_COLOURS = 256


def make(name: str) -> Path:
    """Write one report and return its path, relative to the repository."""
    path = PLACE / f"{name}.html"
    words = (*REPORTS[name], "--report", str(path), *_ARGUMENTS.get(name, ()))
    command = [sys.executable, "-m", "kerncast", *words]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1"})
    return path


def photograph(path: Path) -> None:
    """Write what a reader sees of a report at each width, in both schemes of colours."""
    program = shutil.which("chromium")
    if program is None:
        print(f"{path}: no screenshots, as no Chromium is installed")
        return
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for width in _WIDTHS:
            for scheme in ("light", "dark"):
                size: dict[str, int] = {"width": width, "height": _HEIGHT}
                page = browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
                page.goto((ROOT / path).as_uri())
                shot = Image.open(io.BytesIO(page.screenshot()))
                small = shot.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
                small.save(ROOT / path.with_name(f"{path.stem}-{width}-{scheme}.png"), optimize=True)
        browser.close()


def main(names: list[str]) -> None:
    """Make the reports of these names, or all."""
    for name in names or list(REPORTS):
        path = make(name)
        print(f"{path}: {(ROOT / path).stat().st_size / 1000:.0f} kB")
        photograph(path)


if __name__ == "__main__":
    main(sys.argv[1:])
