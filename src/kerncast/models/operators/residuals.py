"""What measured operators taught beyond the physics: ln(measured / physical) from ratios, by boosted trees.

There is one file for each measured architecture: its GPUs run the kernels that were measured. On GPUs of an
architecture that was left out, no residual made forecasts better (docs/operators.md). A residual is believed as far as
operators like this one were measured, and less where nobody says which library calls. The files are made by
``benchmarks/score_operators.py --write``.
"""

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kerncast.gpu import GPU
from kerncast.models.learned.model_files import ModelFile, read_model
from kerncast.models.learned.reach import Reach
from kerncast.models.operators.constants import FOLDER
from kerncast.models.operators.operator_work import Floats, Names, OperatorModel

#: Part of a feature's measured range beyond which nothing is believed.
_FADES_WITHIN = 0.1
#: What lies outside by rounding alone is inside.
_ROUNDING = 2.0**-20
#: Most that a residual says of an operator whose library nobody names: kernels of one library are up to 14 times as
#: slow as those of another.
_MOST_UNNAMED = math.log(2)


@dataclass(frozen=True, slots=True)
class Residual:
    """What was learned of some operators."""

    log_ratios: Floats
    """ln(measured / physical)"""
    is_beyond: npt.NDArray[np.bool_]
    """whether an operator is unlike all that were measured on its architecture"""


def file_of(name: str, architecture: int) -> Path:
    """Return the file of a model's residual on an architecture, by its number such as 80."""
    return FOLDER / f"{name}-{architecture}.kcm"


def residual_of(model: OperatorModel, features: Floats, gpu: GPU, libraries: Names) -> Residual:
    """Return what was learned of operators [operators, features]; zero where nothing was."""
    found = _read(model.name, gpu.architecture.number)
    if found is None or found.header.reach is None:
        return Residual(np.zeros(len(features)), np.zeros(len(features), np.bool_))
    values = features[:, [model.features.index(name) for name in found.header.features]]
    believed = believed_in(found.header.reach, values)
    logs = believed * found.trained.regressor.predict(values)
    capped = np.clip(logs, -_MOST_UNNAMED, _MOST_UNNAMED)
    return Residual(np.where(libraries == "", capped, logs), believed < 1 - _ROUNDING)


def believed_in(reach: Reach, values: Floats) -> Floats:
    """Return the part of a residual that is believed: 1 within the range of all features, 0 a tenth of it beyond.

    >>> reach = Reach((), (10.0,), (15.0,), (20.0,), (1.0,), (), 0.0)
    >>> believed_in(reach, np.array([[10.0], [20.5], [21.0], [8.0]])).tolist()
    [1.0, 0.5, 0.0, 0.0]
    """
    low, high = np.array(reach.low), np.array(reach.high)
    width = np.where(high > low, high - low, 1.0)
    beyond = np.maximum(0.0, np.maximum(values - high, low - values)) / width
    found: Floats = np.clip(1 - beyond.max(axis=1) / _FADES_WITHIN, 0.0, 1.0)
    return found


@cache
def _read(name: str, architecture: int) -> ModelFile | None:
    path = file_of(name, architecture)
    return read_model(path) if path.exists() else None
