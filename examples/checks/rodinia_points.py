"""What the programs on graphs, point sets and images leave in memory: bfs, kmeans, knn, heartwall."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arguments = Mapping[str, Any]
Array = npt.NDArray[Any]
Results = dict[str, Array]

SCRATCH = {"heartwall_track": {"windows", "correlations", "padded", "strips", "squares", "masks"}}

_ROOM = 20
_KEEP = 0.87


def bfs_expand(before: Arguments) -> Results:
    """Reach what the frontier's edges lead to and has not been visited."""
    count = before["count"]
    frontier, following, cost = (before[name].copy() for name in ("frontier", "next", "cost"))
    expands = frontier[:count] == 1
    offset, degree = before["nodes"].T
    place = np.arange(_ROOM)
    used = expands[:, None] & (place >= offset[:, None]) & (place < (offset + degree)[:, None])
    reached = before["edges"][used]
    reached = reached[before["visited"][reached] != 1]
    frontier[:count][expands] = 0
    following[reached] = 1
    cost[reached] = before["cost"][:count].max() + 1  # all of a frontier cost the same
    return {"frontier": frontier, "next": following, "cost": cost}


def bfs_update(before: Arguments) -> Results:
    """Make the nodes reached the frontier."""
    reached = before["next"] == 1
    return {
        "frontier": np.where(reached, 1, before["frontier"]),
        "visited": np.where(reached, 1, before["visited"]),
        "next": np.where(reached, 0, before["next"]),
        "again": np.array([int(reached.any())]),
    }


def kmeans_transpose(before: Arguments) -> Results:
    """The points, feature by feature."""
    return {"features": before["points"].T}


def kmeans_nearest(before: Arguments) -> Results:
    """The nearest centre, from the expanded square of the difference without the point's own norm."""
    centres = before["centres"].astype(np.float64)
    distances = (centres**2).sum(axis=1)[:, None] - 2 * centres @ before["features"]
    return {"membership": distances.argmin(axis=0)}


def knn_distances(before: Arguments) -> Results:
    """Squared distances from the expanded square of the difference."""
    references, queries = (before[name].astype(np.float64) for name in ("references", "queries"))
    norms = (references**2).sum(axis=0)[:, None] + (queries**2).sum(axis=0)
    return {"distances": norms - 2 * references.T @ queries}


def knn_select(before: Arguments) -> Results:
    """The k least of each column in order; what was below stays."""
    distances = before["distances"].copy()
    distances[: before["k"]] = np.sort(distances, axis=0)[: before["k"]]
    return {"distances": distances}


def knn_sqrt(before: Arguments) -> Results:
    """The root of row k - 1."""
    distances = before["distances"].copy()
    distances[before["k"] - 1] **= 0.5
    return {"distances": distances}


def heartwall_track(before: Arguments) -> Results:
    """Correlate each template with every place of its padded window directly, and take the best near the last."""
    half, search = before["half"], before["search"]
    found = [_tracked(before, point) for point in range(before["grid"][0])]
    down, right = (np.array([one[i] for one in found]) for i in range(2))
    templates = before["templates"].astype(np.float64)
    if before["blend"]:
        for point, template in enumerate(templates):
            row, column = before["rows"][point] + down[point], before["columns"][point] + right[point]
            template[:] = _KEEP * template + (1 - _KEEP) * _around(before["frame"], row, column, half)
    sums = np.stack([_places(before, point, search).sum(axis=(2, 3)) for point in range(before["grid"][0])])
    return {"down": down, "right": right, "templates": templates, "sums": sums}


def _tracked(before: Arguments, point: int) -> tuple[int, int]:
    """Return how far down and to the right of its first place a point is now."""
    half, search, reach = before["half"], before["search"], before["reach"]
    template = before["templates"][point].astype(np.float64)
    places = _places(before, point, search)
    deviations = places - places.mean(axis=(2, 3), keepdims=True)
    norms = np.sqrt((deviations**2).sum(axis=(2, 3)))
    scores = np.abs((deviations * (template - template.mean())).sum(axis=(2, 3)) / norms)
    centre = search + half
    top = centre + before["down"][point] - reach // 2
    left = centre + before["right"][point] - reach // 2
    near = np.s_[max(left, 0) : left + reach, max(top, 0) : top + reach]
    masked = np.zeros_like(scores)
    masked[near] = scores[near]
    column, row = np.unravel_index(masked.argmax(), masked.shape)
    return int(row) - centre, int(column) - centre


def _places(before: Arguments, point: int, search: int) -> Array:
    """Return what lies under the template at each place of the search window, with zeros around the window."""
    side = 2 * before["half"] + 1
    window = _around(before["frame"], before["rows"][point], before["columns"][point], search).astype(np.float64)
    return np.lib.stride_tricks.sliding_window_view(np.pad(window, side - 1), (side, side))


def _around(frame: Array, row: int, column: int, reach: int) -> Array:
    """Return a square of a column-major image around a place."""
    return frame[column - reach : column + reach + 1, row - reach : row + reach + 1]
