"""One set of colours: what stands side by side can be told apart, also by people who see few colours."""

import re
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from kerncast.occupancy import Limiter
from kerncast.report.pictures.colours import INK, LIMITS, OCCUPANCY, PAPER, SERIES, limit_colour, series_colours
from tests.helpers.places import PACKAGE, ROOT

#: Machado, Oliveira, Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE TVCG
#: 15(6), 2009, table 1, severity 1.0; on linear RGB.
DEFICIENCIES = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
#: Just noticeable is 2.3 (Mahy et al. 1994): twice that, for small marks.
LEAST = 4.6


def linear(colour: str) -> NDArray[np.float64]:
    """Return linear RGB (IEC 61966-2-1)."""
    values = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return CIELAB of linear RGB under D65."""
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x = matrix @ np.clip(rgb, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(x > (6 / 29) ** 3, np.cbrt(x), x / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(first: str, second: str, deficiency: str) -> float:
    """Return the CIE76 difference of two colours as they are seen."""
    seen = np.array(DEFICIENCIES[deficiency])
    return float(np.linalg.norm(lab(seen @ linear(first)) - lab(seen @ linear(second))))


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize(
    "colours",
    [SERIES[:8], tuple(dict.fromkeys(LIMITS[name] for name in ("dram", "l2", "l1", "shared", "tensor", "latency")))],
    ids=["series", "limits"],
)
def test_neighbours_are_told_apart(colours: tuple[str, ...], deficiency: str) -> None:
    for first, second in combinations(colours, 2):
        assert distance(first, second, deficiency) > LEAST, (first, second)


def test_text_has_the_contrast_of_wcag() -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1."""
    light, dark = (float(np.array([0.2126, 0.7152, 0.0722]) @ linear(each)) for each in (PAPER, INK))
    assert (light + 0.05) / (dark + 0.05) > 4.5


def test_a_resource_has_one_colour_and_names_keep_theirs() -> None:
    assert {limiter.value for limiter in Limiter} == set(OCCUPANCY)
    assert OCCUPANCY["shared_memory"] == limit_colour("shared")
    assert series_colours(["a", "b", "a"]) == {"a": SERIES[0], "b": SERIES[1]}
    assert len(series_colours([str(number) for number in range(30)])) == 30


def test_no_picture_has_colours_of_its_own() -> None:
    files = [*(PACKAGE / "report").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py"), *(ROOT / "tools").glob("*.py")]
    own = {
        path.name: found
        for path in files
        if path.name != "colours.py" and (found := re.findall(r'"#[0-9a-fA-F]{6}"', path.read_text(encoding="utf-8")))
    }
    assert own == {}
