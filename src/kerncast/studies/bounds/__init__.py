"""Bounds of a kernel's time on parts of a GPU: one method per file, and their names."""

from kerncast.errors import InputError
from kerncast.studies.bounds.base import (
    Blocks,
    BoundAnswer,
    BoundMethod,
    BoundQuestion,
    Contradiction,
    Kind,
    Regressors,
    measured_anchors,
)
from kerncast.studies.bounds.equal_blocks import EqualBlocks
from kerncast.studies.bounds.extreme_values import Tail
from kerncast.studies.bounds.extremes import ExtremeBound
from kerncast.studies.bounds.list_scheduling import ListScheduling
from kerncast.studies.bounds.published.curve_fit import CurveFit, CurveFitAdaptive
from kerncast.studies.bounds.published.curve_fit_offset import CurveFitOffset
from kerncast.studies.bounds.published.linear_regression import LinearRegressionMargin
from kerncast.studies.bounds.published.quantile_network import QuantileNetwork
from kerncast.studies.bounds.published.random_forest import RandomForestMargin
from kerncast.studies.bounds.shapes import ShapesBound
from kerncast.studies.bounds.simulation import SimulationBound
from kerncast.studies.bounds.worst_path import WorstPathBound

__all__ = [
    "METHODS", "OF_LAUNCHES", "Blocks", "BoundAnswer", "BoundMethod", "BoundQuestion", "Contradiction", "Kind",
    "Regressors", "bound_method", "kind_named", "measured_anchors", "method_for",
]  # fmt: skip

METHODS: tuple[BoundMethod, ...] = (
    SimulationBound(),
    ShapesBound(),
    WorstPathBound(),
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
    ExtremeBound(),
    ExtremeBound(tail=Tail.BLOCKS),
)
#: Names of the methods that do without a measured time, and not without a launch.
OF_LAUNCHES = frozenset({"simulation", "worst-path"})
#: By kind, the method for a launch, and the one for times alone.
_USUAL = {
    Kind.CONFORMAL: ("simulation", "shapes"),
    Kind.ANALYTICAL: ("worst-path", "list-scheduling"),
    Kind.MARGIN: ("curve-fit-offset", "curve-fit-offset"),
    Kind.EXTREME: (Tail.THRESHOLD.value, Tail.THRESHOLD.value),
}


def method_for(kind: Kind | None, name: str | None, *, is_launch: bool) -> BoundMethod:
    """Return the method of this name, or the usual one of a kind; raises InputError where they do not go together.

    >>> method_for(None, None, is_launch=True).name, method_for(Kind.ANALYTICAL, None, is_launch=False).name
    ('simulation', 'list-scheduling')
    """
    method = bound_method(name or _USUAL[kind or Kind.CONFORMAL][0 if is_launch else 1])
    if kind is not None and method.kind is not kind:
        others = ", ".join(each.name for each in METHODS if each.kind is kind)
        raise InputError(
            f"{method.name} is a method of the kind {method.kind}, not {kind}",
            cure=f"Leave out --kind, or name one of {others}.",
        )
    return method


def kind_named(text: str) -> Kind:
    """Return the kind of this name; raises InputError that lists the known ones."""
    try:
        return Kind(text)
    except ValueError:
        raise InputError(f"no kind of bound is called {text[:40]!r}", cure=f"Known: {', '.join(Kind)}.") from None


def bound_method(name: str) -> BoundMethod:
    """Return the method of this name; raises InputError that lists the known ones."""
    for method in METHODS:
        if method.name == name:
            return method
    known = ", ".join(method.name for method in METHODS)
    raise InputError(f"no method of bounding is called {name[:40]!r}", cure=f"Known: {known}.")
