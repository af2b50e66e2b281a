"""Coded tensor maps for the recorder, from what Triton tells of a tensor descriptor."""

from collections.abc import Mapping, Sequence
from typing import Any

from kerncast.scripts.recorder import Pointer, TensorMap

_MAP_BYTES = 128


def tiled_map(
    pointer: Pointer | bytes, told: Mapping[str, Any], shape: Sequence[int], strides: Sequence[int], *, fills_nan: bool
) -> TensorMap | bytes:
    """Return the map of a tensor that is copied in tiles; zeros where it has no memory."""
    del told, shape, strides, fills_nan
    if isinstance(pointer, bytes):
        return bytes(_MAP_BYTES)
    return TensorMap(bytes(_MAP_BYTES), pointer)
