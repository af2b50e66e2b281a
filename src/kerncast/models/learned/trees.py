"""Regression trees, their nodes in one list: the mean of a forest, or the sum of trees that were boosted."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.measurements.feature_table import Floats

Integers = npt.NDArray[np.signedinteger[Any]]
#: Levels of all trees together; 150 trees on 34,000 launches have some 6,000.
MOST_LEVELS = 200_000
CURE = "The file was changed or damaged: train the model again."
#: Walks of one row through one tree that NumPy does before numba would have been imported.
_MOST_WALKS_BY_NUMPY = 400_000
#: Rows at once: what a tree and one column take stays in the second cache.
_ROWS_AT_ONCE = 16_384


@dataclass(frozen=True)
class Trees:
    """Some trees: a node's left child is the next node, and each node but a root has one parent."""

    roots: Integers
    feature: Integers
    """[nodes] feature that splits the node, -1 in leaves"""
    threshold: Floats
    """[nodes] largest value of rows that go left; in leaves the value of the leaf"""
    right: Integers
    """[nodes] number of the right child, 0 in leaves"""
    features: int

    def __post_init__(self) -> None:
        nodes = len(self.feature)
        if not (len(self.threshold) == len(self.right) == nodes) or not len(self.roots):
            raise InputError("the trees' nodes are not whole", cure=CURE)
        inner = np.flatnonzero(self.feature >= 0)
        # Children come after their node, so that every way down ends.
        is_sound = (
            (self.feature < self.features).all()
            and (self.right[inner] > inner + 1).all()
            and (self.right < nodes).all()
            and (inner + 1 < nodes).all()
            and ((self.roots >= 0) & (self.roots < nodes)).all()
        )
        if not is_sound or not self._each_has_one_parent(inner):
            raise InputError("the trees' nodes do not form trees", cure=CURE)
        self._check_levels()

    def _each_has_one_parent(self, inner: npt.NDArray[np.intp]) -> bool:
        """Whether each node is reached in one way: else few nodes could be more ways than any computer can walk."""
        reached = np.bincount(np.concatenate([self.roots, inner + 1, self.right[inner]]), minlength=len(self.feature))
        return bool((reached == 1).all())

    def _check_levels(self) -> None:
        """Raise InputError for trees that are deeper than any training makes them: each level takes its time."""
        nodes, tree = self.roots.astype(np.int64), np.arange(len(self.roots))
        levels = 0
        while len(nodes):
            levels += len(np.unique(tree))
            if levels > MOST_LEVELS:
                raise InputError(f"its trees have more than {MOST_LEVELS} levels", cure=CURE)
            is_inner = self.feature[nodes] >= 0
            nodes, tree = nodes[is_inner], tree[is_inner]
            nodes, tree = np.concatenate([nodes + 1, self.right[nodes]]), np.concatenate([tree, tree])

    def sums(self, values: npt.NDArray[np.floating[Any]]) -> Floats:
        """Return the sum of each row's leaves [rows, features]; many rows walk by numba, with the same numbers."""
        if len(values) * len(self.roots) <= _MOST_WALKS_BY_NUMPY:
            return self._sums_of_few(values)
        kind = np.dtype([("threshold", values.dtype), ("right", np.uint32), ("feature", np.uint32)])
        is_leaf = self.feature < 0
        nodes = np.empty(len(is_leaf), kind)
        nodes["threshold"] = _rounded_down(self.threshold, values.dtype)
        nodes["right"] = np.where(is_leaf, np.arange(len(is_leaf)), self.right)
        nodes["feature"] = np.where(is_leaf, 0, self.feature)
        totals = np.zeros(len(values))
        for first in range(0, len(values), _ROWS_AT_ONCE):
            some = slice(first, first + _ROWS_AT_ONCE)
            _walk()(nodes, self.threshold, self.roots, np.ascontiguousarray(values[some].T), totals[some])
        return totals

    def _sums_of_few(self, values: npt.NDArray[np.floating[Any]]) -> Floats:
        """Return the same sums, all trees one level down at a time."""
        at = np.broadcast_to(self.roots.astype(np.int64), (len(values), len(self.roots))).copy()
        rows, trees = (each.ravel() for each in np.indices(at.shape))
        while len(rows):
            nodes = at[rows, trees]
            feature = self.feature[nodes]
            is_inner = feature >= 0
            rows, trees, nodes, feature = rows[is_inner], trees[is_inner], nodes[is_inner], feature[is_inner]
            goes_left = values[rows, feature] <= self.threshold[nodes]
            at[rows, trees] = np.where(goes_left, nodes + 1, self.right[nodes])
        totals = np.zeros(len(values))
        for leaves in at.T:  # in the order in which many rows are summed, for the same last digit
            totals += self.threshold[leaves]
        return totals


def _rounded_down(thresholds: Floats, kind: np.dtype[Any]) -> npt.NDArray[np.floating[Any]]:
    """Return thresholds in a type of number such that no number of this type compares otherwise."""
    with np.errstate(over="ignore"):
        near = thresholds.astype(kind)
    found: npt.NDArray[np.floating[Any]] = np.where(
        near > thresholds, np.nextafter(near, near.dtype.type(-np.inf)), near
    )
    return found


def prepare() -> None:
    """Compile the walk of many rows, once per machine: the cache keeps it (``jit_cache``)."""
    root = np.zeros(1, np.int32)
    for kind in (np.float32, np.float64):
        nodes = np.zeros(1, np.dtype([("threshold", kind), ("right", np.uint32), ("feature", np.uint32)]))
        _walk()(nodes, np.zeros(1), root, np.zeros((1, 1), kind), np.zeros(1))


@cache
def _walk() -> Any:
    from kerncast.models.jit_cache import jitted  # noqa: PLC0415  numba takes a third of a second
    from kerncast.models.learned.tree_walk import add_leaves  # noqa: PLC0415

    return jitted(add_leaves, nogil=True, error_model="numpy")


@dataclass(frozen=True)
class Forest:
    """The mean of regression trees; values are compared in single precision, as they were when it was trained."""

    trees: Trees

    @property
    def features(self) -> int:
        """Number of columns that it takes."""
        return self.trees.features

    def predict(self, values: Floats) -> Floats:
        """Return a number per row [rows, features]."""
        return self.trees.sums(values.astype(np.float32)) / len(self.trees.roots)


@dataclass(frozen=True)
class BoostedTrees:
    """y = intercept + sum of the trees' leaves, which hold the rate of learning already.

    Source: Friedman, "Greedy Function Approximation: A Gradient Boosting Machine", 2001, with the leaves times the
    rate (shrinkage) of section 5.
    """

    trees: Trees
    intercept: float

    @property
    def features(self) -> int:
        """Number of columns that it takes."""
        return self.trees.features

    def predict(self, values: Floats) -> Floats:
        """Return a number per row [rows, features]."""
        return self.intercept + self.trees.sums(values)
