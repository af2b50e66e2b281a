"""Coded tensor maps for the recorder, from what Triton tells of a tensor descriptor."""

from collections.abc import Mapping, Sequence
from typing import Any

from kerncast.launch import ADDRESS_PLACE, ELEMENTS, MAP_BYTES, SWIZZLES, TensorTiles
from kerncast.scripts.recorder import Pointer, TensorMap


def tiled_map(
    pointer: Pointer | bytes, told: Mapping[str, Any], shape: Sequence[int], strides: Sequence[int], *, fills_nan: bool
) -> TensorMap | bytes:
    """Return the map of a tensor that is copied in tiles; zeros where it has no memory."""
    if isinstance(pointer, bytes):
        return bytes(MAP_BYTES)
    size, swizzle = int(told["elem_size"]), int(told["swizzle"])
    element = ELEMENTS[int(told["elem_type"])]
    tiles = TensorTiles(
        element,
        tuple(reversed(shape)),
        tuple(each * size for each in reversed(strides[:-1])),
        tuple(int(each) for each in reversed(told["block_size"])),
        SWIZZLES[swizzle],
        fills_nan,
    )
    return TensorMap(tiles.coded(), pointer, ADDRESS_PLACE)
