"""Bounds of a kernel's time on parts of a GPU: one method per file, and their names."""

from kerncast.errors import InputError
from kerncast.studies.bounds.base import (
    Blocks,
    BoundAnswer,
    BoundMethod,
    BoundQuestion,
    Contradiction,
    Regressors,
    measured_anchors,
)
from kerncast.studies.bounds.curve_fit import CurveFit
from kerncast.studies.bounds.curve_fit_adaptive import CurveFitAdaptive
from kerncast.studies.bounds.curve_fit_offset import CurveFitOffset
from kerncast.studies.bounds.equal_blocks import EqualBlocks
from kerncast.studies.bounds.linear_regression import LinearRegressionMargin
from kerncast.studies.bounds.list_scheduling import ListScheduling
from kerncast.studies.bounds.quantile_network import QuantileNetwork
from kerncast.studies.bounds.random_forest import RandomForestMargin

__all__ = [
    "DEFAULT_METHOD", "METHODS", "Blocks", "BoundAnswer", "BoundMethod", "BoundQuestion", "Contradiction",
    "Regressors", "bound_method", "measured_anchors",
]  # fmt: skip

METHODS: tuple[BoundMethod, ...] = (
    ListScheduling(),
    EqualBlocks(),
    LinearRegressionMargin(),
    QuantileNetwork(),
    CurveFit(),
    CurveFitAdaptive(),
    CurveFitAdaptive(is_oracle=True),
    CurveFitOffset(),
    CurveFitOffset(is_oracle=True),
    RandomForestMargin(),
    RandomForestMargin(is_oracle=True),
)
DEFAULT_METHOD = "list-scheduling"


def bound_method(name: str) -> BoundMethod:
    """Return the method of this name; raises InputError that lists the known ones."""
    for method in METHODS:
        if method.name == name:
            return method
    known = ", ".join(method.name for method in METHODS)
    raise InputError(f"no method of bounding is called {name[:40]!r}", cure=f"Known: {known}.")
