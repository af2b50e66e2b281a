"""What the programs on regular grids leave in memory: hotspot, pathfinder, nw, srad."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arguments = Mapping[str, Any]
Results = dict[str, npt.NDArray[Any]]

_TILE = 16
_AMBIENT = 80.0
_SRAD_BLOCK = 512


def hotspot_steps(before: Arguments) -> Results:
    """Whole-grid steps: what the blocks' halos must amount to."""
    scale = before["step"] / before["capacity"]
    heat = before["before"].astype(np.float64)
    for _ in range(before["steps"]):
        padded = np.pad(heat, 1, mode="edge")
        vertical = padded[:-2, 1:-1] + padded[2:, 1:-1] - 2 * heat
        horizontal = padded[1:-1, :-2] + padded[1:-1, 2:] - 2 * heat
        flows = vertical / before["resist_y"] + horizontal / before["resist_x"]
        heat = heat + scale * (before["power"] + flows + (_AMBIENT - heat) / before["resist_z"])
    return {"after": heat}


def pathfinder_rows(before: Arguments) -> Results:
    """Whole rows, one after the other."""
    least = before["before"]
    for row in before["wall"][before["start"] : before["start"] + before["steps"]]:
        padded = np.pad(least, 1, mode="edge")
        least = np.lib.stride_tricks.sliding_window_view(padded, 3).min(axis=1) + row
    return {"after": least}


def nw_forward(before: Arguments) -> Results:
    """The tiles of an anti-diagonal in the upper left half."""
    columns = np.arange(before["grid"][0])
    return _aligned(before, before["diagonal"] - 1 - columns, columns)


def nw_backward(before: Arguments) -> Results:
    """The tiles of an anti-diagonal in the lower right half."""
    blocks = np.arange(before["grid"][0])
    return _aligned(before, before["width"] - 1 - blocks, before["width"] - before["diagonal"] + blocks)


def _aligned(before: Arguments, tile_rows: npt.NDArray[Any], tile_columns: npt.NDArray[Any]) -> Results:
    """Score all tiles at once, a row at a time: gaps along a row are a running maximum of score + penalty * column."""
    scores, penalty = before["scores"].copy(), before["penalty"]
    columns = (_TILE * tile_columns)[:, None] + np.arange(_TILE + 1)
    ramp = penalty * np.arange(_TILE + 1)
    for step in range(1, _TILE + 1):
        row = (_TILE * tile_rows + step)[:, None]
        above = scores[row - 1, columns]
        match = above[:, :-1] + before["reference"][row, columns[:, 1:]]
        best = np.maximum(match, above[:, 1:] - penalty)
        start = scores[row, columns[:, :1]]
        scores[row, columns] = np.maximum.accumulate(np.concatenate([start, best], axis=1) + ramp, axis=1) - ramp
    return {"scores": scores}


def srad_extract(before: Arguments) -> Results:
    """Undo the compression of the brightness."""
    return {"image": np.exp(before["image"].astype(np.float64) / 255)}


def srad_compress(before: Arguments) -> Results:
    """Compress the brightness."""
    return {"image": np.log(before["image"].astype(np.float64)) * 255}


def srad_prepare(before: Arguments) -> Results:
    """Copy the pixels and their squares."""
    flat = before["image"].ravel()
    return {"sums": flat, "squares": flat**2}


def srad_reduce(before: Arguments) -> Results:
    """Sums of runs of 512 elements, in place of the first of each run."""
    count, stride = before["count"], before["stride"]
    starts = np.arange(0, count, _SRAD_BLOCK)
    result = {}
    for name in ("sums", "squares"):
        values = before[name].astype(np.float64)
        values[starts * stride] = np.add.reduceat(values[: count * stride : stride], starts)
        result[name] = values
    return result


def srad_coefficients(before: Arguments) -> Results:
    """Differences to the four neighbours, and the diffusion coefficient from their speckle."""
    image = before["image"].astype(np.float64)
    padded = np.pad(image, 1, mode="edge")
    differences = {
        "to_north": padded[1:-1, :-2] - image,
        "to_south": padded[1:-1, 2:] - image,
        "to_west": padded[:-2, 1:-1] - image,
        "to_east": padded[2:, 1:-1] - image,
    }
    relative = np.stack(list(differences.values())) / image
    laplacian = relative.sum(axis=0)
    speckle = (0.5 * (relative**2).sum(axis=0) - laplacian**2 / 16) / (1 + laplacian / 4) ** 2
    threshold = before["q0_squared"]
    coefficients = 1 / (1 + (speckle - threshold) / (threshold * (1 + threshold)))
    return {**differences, "coefficients": np.clip(coefficients, 0, 1)}


def srad_update(before: Arguments) -> Results:
    """One step of diffusion with the coefficients of a pixel and of its southern and eastern neighbours."""
    here = before["coefficients"].astype(np.float64)
    south = np.pad(here, ((0, 0), (0, 1)), mode="edge")[:, 1:]
    east = np.pad(here, ((0, 1), (0, 0)), mode="edge")[1:]
    divergence = here * (before["to_north"] + before["to_west"]) + south * before["to_south"] + east * before["to_east"]
    return {"image": before["image"] + 0.25 * before["step"] * divergence}
