"""By what factor a model's forecasts were off on measured kernels: the width of its interval.

Each file of ``data/calibration`` holds one model's factors: a share ``level`` of measurements lay between the forecast
divided and multiplied by the factor, with kernel families as the unit. The files are written by
``tools/calibrate_interval.py``. Source: Lei, G'Sell, Rinaldo, Tibshirani, Wasserman, "Distribution-free predictive
inference for regression", JASA 113, 2018 (split conformal); Dunn, Wasserman, Ramdas, "Distribution-free prediction sets
for two-layer hierarchical models", JASA 118, 2023 (groups, each with the same weight).
Fails when: a kernel is unlike all that were measured.
"""

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np

import kerncast

_FOLDER = Path(kerncast.__path__[0]) / "data" / "calibration"


@dataclass(frozen=True, slots=True)
class Calibration:
    """The factors of one model."""

    levels: tuple[float, ...]
    """ascending"""
    factors: tuple[float, ...]
    families: int
    """kernels that were measured, with all their sizes and GPUs"""
    cases: int
    measured: str
    """what was measured, for messages"""

    def factor(self, level: float) -> float:
        """Return by how much to multiply and divide, between and beyond the known levels as for a lognormal error.

        >>> found = Calibration((0.5, 0.9), (1.2, 2.0), 5, 50, "")
        >>> round(found.factor(0.9), 3), 1.2 < found.factor(0.7) < 2.0 < found.factor(0.99)
        (2.0, True)
        """
        known = [_z(each) for each in self.levels]
        logs = [math.log(each) for each in self.factors]
        z = _z(level)
        if z > known[-1]:
            return math.exp(logs[-1] * z / known[-1])
        if z < known[0]:
            return math.exp(logs[0] * z / known[0])
        return math.exp(float(np.interp(z, known, logs)))


@cache
def calibration_of(model: str) -> Calibration | None:
    """Return the calibration of a model, or None where it has none."""
    path = _FOLDER / f"{model}.toml"
    if not path.exists():
        return None
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return Calibration(
        tuple(found["levels"]), tuple(found["factors"]), found["families"], found["cases"], found["measured"]
    )


def _z(level: float) -> float:
    return NormalDist().inv_cdf(0.5 + level / 2)
