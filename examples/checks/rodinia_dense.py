"""What the programs on dense matrices and boxes leave in memory: backprop, gaussian, lud, lavamd."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arguments = Mapping[str, Any]
Array = npt.NDArray[Any]
Results = dict[str, Array]

_TILE = 16
_PARTICLES = 100
_RATE = _MOMENTUM = 0.3


def backprop_layerforward(before: Arguments) -> Results:
    """Sums of each tile's products; row r of a tile ends with the sum of as many rows as 2 divides r."""
    weights = before["weights"].astype(np.float64)
    tiles = (weights[1:, 1:] * before["input"][1:, None]).reshape(-1, _TILE, _TILE)
    sums = np.empty_like(tiles)
    for row in range(_TILE):
        rows = row & -row or _TILE
        sums[:, row] = tiles[:, row : row + rows].sum(axis=1)
    weights[1:, 1:] = sums.reshape(-1, _TILE)
    return {"weights": weights, "partial_sums": sums[:, 0]}


def backprop_adjust_weights(before: Arguments) -> Results:
    """Change all weights by the rate and the momentum; column 0 belongs to no hidden unit."""
    layer = before["layer"].astype(np.float64)
    layer[0] = 1  # the bias
    change = _RATE * np.outer(layer, before["delta"]) + _MOMENTUM * before["previous"]
    weights, previous = before["weights"].astype(np.float64), before["previous"].astype(np.float64)
    weights[:, 1:] += change[:, 1:]
    previous[:, 1:] = change[:, 1:]
    return {"weights": weights, "previous": previous}


def gaussian_fan1(before: Arguments) -> Results:
    """The multipliers that clear the pivot's column."""
    pivot, a = before["pivot"], before["a"]
    multipliers = before["multipliers"].copy()
    multipliers[pivot + 1 :, pivot] = a[pivot + 1 :, pivot] / a[pivot, pivot]
    return {"multipliers": multipliers}


def gaussian_fan2(before: Arguments) -> Results:
    """A rank-1 update of the rows below the pivot, and of the right-hand side."""
    pivot = before["pivot"]
    factors = before["multipliers"][pivot + 1 :, pivot].astype(np.float64)
    a, b = before["a"].astype(np.float64), before["b"].astype(np.float64)
    a[pivot + 1 :, pivot:] -= np.outer(factors, a[pivot, pivot:])
    b[pivot + 1 :] -= factors * b[pivot]
    return {"a": a, "b": b}


def lud_diagonal(before: Arguments) -> Results:
    """L and U of the diagonal tile, by rank-1 updates of what remains."""
    matrix, (tile, _) = _split(before)
    for k in range(_TILE - 1):
        tile[k + 1 :, k] /= tile[k, k]
        tile[k + 1 :, k + 1 :] -= np.outer(tile[k + 1 :, k], tile[k, k + 1 :])
    return {"matrix": matrix}


def lud_perimeter(before: Arguments) -> Results:
    """Solve with L for the tiles to the right and with U for the tiles below."""
    matrix, (tile, rest) = _split(before)
    offset = before["offset"]
    lower = np.tril(tile, -1) + np.eye(_TILE)
    right, below = matrix[offset : offset + _TILE, rest:], matrix[rest:, offset : offset + _TILE]
    right[:] = np.linalg.solve(lower, right)
    below[:] = np.linalg.solve(np.triu(tile).T, below.T).T
    return {"matrix": matrix}


def lud_internal(before: Arguments) -> Results:
    """Subtract the product of the tiles below and the tiles to the right."""
    matrix, (_, rest) = _split(before)
    strip = slice(before["offset"], before["offset"] + _TILE)
    matrix[rest:, rest:] -= matrix[rest:, strip] @ matrix[strip, rest:]
    return {"matrix": matrix}


def _split(before: Arguments) -> tuple[Array, tuple[Array, int]]:
    """Return the matrix, its diagonal tile and where the rest begins."""
    matrix, offset = before["matrix"].astype(np.float64), before["offset"]
    rest = offset + _TILE
    return matrix, (matrix[offset:rest, offset:rest], rest)


def lavamd_forces(before: Arguments) -> Results:
    """All pairs at once; those of boxes that do not touch count nothing."""
    positions = before["positions"].reshape(-1, 4)
    charges = before["charges"].ravel()
    boxes = np.arange(before["grid"][0])
    across, deep = before["boxes_x"], before["boxes_x"] * before["boxes_y"]
    places = np.stack([boxes % across, boxes % deep // across, boxes // deep], axis=1)
    touches = (np.abs(places[:, None] - places).max(axis=2) <= 1).repeat(_PARTICLES, axis=0)
    touches = touches.repeat(_PARTICLES, axis=1)

    v, xyz = positions[:, 0], positions[:, 1:]
    distance = v[:, None] + v - xyz @ xyz.T
    weight = touches * charges * np.exp(-2 * before["alpha"] ** 2 * distance)
    total = weight.sum(axis=1)
    forces = np.column_stack([total, 2 * (total[:, None] * xyz - weight @ xyz)])
    return {"forces": before["forces"] + forces.reshape(before["forces"].shape)}
