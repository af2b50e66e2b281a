"""Textures and surfaces over arrays of threads: ``tex``, ``suld`` and ``sust``.

Source: NVIDIA, CUDA C++ Programming Guide 12.9, section 16 (texture fetching): T(i, j) with i = floor(x), or weights of
8 bits of fraction between the texels around x - 0.5.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.setup.textures import (
    ADDRESS_SHIFTS,
    BORDER,
    CLAMP,
    FLOAT,
    IS_LINEAR,
    IS_NORMALIZED,
    MIRROR,
    READS_NORMALIZED,
    SIGNED,
    WRAP,
    TextureObject,
)

AnyArray = npt.NDArray[Any]
Loader = Callable[[AnyArray, AnyArray, str, bool], AnyArray]
"""loads numbers of a type at the addresses of some lanes, and says whether they count"""


def _signed(number: int) -> int:
    """Return the lowest 64 bits as NumPy adds them up."""
    number %= 2**64
    return number - 2**64 if number >= 2**63 else number


def dimensions_of(name: str) -> tuple[int, bool]:
    """Return how many dimensions a modifier such as a2d means, and whether it has layers."""
    return int(name[-2]), name.startswith("a")


def fetch(found: TextureObject, coordinates: list[AnyArray], layer: AnyArray | None, load: Loader) -> AnyArray:
    """Return [4, lanes] the patterns of what a texture holds at coordinates: of floats, or of integers as they are."""
    by_index = coordinates[0].dtype.kind == "i"
    reads_floats = found.kind == FLOAT or bool(found.flags & READS_NORMALIZED)
    is_linear = bool(found.flags & IS_LINEAR) and reads_floats and not by_index
    axes = [_axis(found, number, at, is_linear) for number, at in enumerate(coordinates)]
    total = None
    for corner in product((0, 1), repeat=len(axes)) if is_linear else [(0,) * len(axes)]:
        values = _at_corner(found, axes, (corner, by_index), layer, load)
        weight = np.ones(len(coordinates[0]), np.float32)
        for bit, (_, part) in zip(corner, axes, strict=True):
            weight = weight * (part if bit else 1 - part)
        part_of = values * weight if is_linear else values
        total = part_of if total is None else total + part_of
    patterns: AnyArray = np.ascontiguousarray(total).view(np.uint32)
    return patterns


def gather(
    found: TextureObject, coordinates: list[AnyArray], layer: AnyArray | None, load: Loader, component: int
) -> AnyArray:
    """Return [4, lanes] one component of the texels at (0, 1), (1, 1), (1, 0) and (0, 0)."""
    axes = [_axis(found, number, at, True) for number, at in enumerate(coordinates)]
    corners = ((0, 1), (1, 1), (1, 0), (0, 0))
    values = [_at_corner(found, axes, (corner, False), layer, load)[component] for corner in corners]
    patterns: AnyArray = np.ascontiguousarray(np.stack(values)).view(np.uint32)
    return patterns


def _at_corner(
    found: TextureObject,
    axes: list[tuple[AnyArray, AnyArray]],
    which: tuple[tuple[int, ...], bool],
    layer: AnyArray | None,
    load: Loader,
) -> AnyArray:
    """Return [4, lanes] the texels at a corner, given whether it is named by index."""
    corner, by_index = which
    sizes, lanes = (found.width, found.height, found.depth), len(axes[0][0])
    steps = (_signed(found.element_bytes * found.components), _signed(found.pitch), _signed(found.slice))
    address, valid = np.full(lanes, _signed(found.address), np.int64), np.ones(lanes, np.bool_)
    for number, bit in enumerate(corner):
        index = axes[number][0] + bit
        inside = (index >= 0) & (index < sizes[number])
        if by_index or _mode(found, number) == BORDER:
            valid &= inside
        elif _mode(found, number) == WRAP:
            index = index % max(1, sizes[number])
        address += np.clip(index, 0, max(0, sizes[number] - 1)) * steps[number]
    if layer is not None:
        address += np.clip(layer.astype(np.int64), 0, max(0, found.layers - 1)) * _signed(found.slice)
    return _texels(found, address, valid, load, counts=not corner[0])


def _mode(found: TextureObject, number: int) -> int:
    mode = found.flags >> ADDRESS_SHIFTS[number] & 3
    return mode if found.flags & IS_NORMALIZED or mode >= CLAMP else CLAMP


def _axis(found: TextureObject, number: int, at: AnyArray, is_linear: bool) -> tuple[AnyArray, AnyArray]:
    """Return the index of the first texel, and the weight of the next."""
    if at.dtype.kind == "i":
        return at.astype(np.int64), np.zeros(len(at), np.float32)
    size = np.float32((found.width, found.height, found.depth)[number])
    if found.flags & IS_NORMALIZED:
        whole = np.floor(at)
        rest = at - whole
        mode = _mode(found, number)
        if mode == WRAP:
            at = rest
        elif mode == MIRROR:
            at = np.where(whole % 2 != 0, np.float32(1) - rest, rest)
        at = at * size
    at = at - np.float32(0.5) if is_linear else at
    whole = np.floor(at)
    weight = np.rint((at - whole) * np.float32(256)) / np.float32(256)
    index = np.nan_to_num(np.clip(whole, -(2.0**30), 2.0**30)).astype(np.int64)
    return index, np.where(np.isfinite(weight), weight, 0).astype(np.float32)


def _texels(found: TextureObject, address: AnyArray, valid: AnyArray, load: Loader, *, counts: bool) -> AnyArray:
    """Return [4, lanes] singles, or integers of 32 bits."""
    letter = {FLOAT: "f", SIGNED: "i"}.get(found.kind, "u")
    if found.element_bytes not in {1, 2, 4} or f"{letter}{found.element_bytes}" == "f1":
        return np.zeros((4, len(address)), np.float32)  # nothing that CUDA makes
    code = f"{letter}{found.element_bytes}"
    values = np.zeros((4, len(address)), code)
    for component in range(min(found.components, 4)):
        raw = load(address + component * found.element_bytes, valid, code, counts and not component)
        values[component, valid] = raw
    if letter == "f":
        return values.astype(np.float32)
    if found.flags & READS_NORMALIZED:
        most = np.float32(2 ** (8 * found.element_bytes - (letter == "i")) - 1)
        parts: AnyArray = np.maximum(values.astype(np.float32) / most, np.float32(-1))
        return parts
    return values.astype(np.int32 if letter == "i" else np.uint32)


def place_in_surface(
    found: TextureObject, coordinates: list[AnyArray], layer: AnyArray | None, size: int, mode: str
) -> tuple[AnyArray, AnyArray]:
    """Return the address of each lane in a surface, and which lanes lie inside; the first coordinate counts bytes."""
    limits = [max(0, found.width * found.element_bytes * found.components - size + 1), found.height, found.depth]
    given = [
        (at.astype(np.int64), limits[n], (1, _signed(found.pitch), _signed(found.slice))[n])
        for n, at in enumerate(coordinates)
    ]
    if layer is not None:
        given.append((layer.astype(np.int64), found.layers, _signed(found.slice)))
    address, valid = (
        np.full(len(coordinates[0]), _signed(found.address), np.int64),
        np.ones(len(coordinates[0]), np.bool_),
    )
    for index, limit, step in given:
        if mode == "clamp":
            address = address + np.clip(index, 0, max(0, limit - 1)) * step
        else:
            valid &= (index >= 0) & (index < limit)
            address = address + index * step
    return address, valid
