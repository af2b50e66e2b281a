"""Special registers: where a thread stands in its warp, block and grid."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import UnsupportedError

AnyArray = npt.NDArray[Any]
Extent = tuple[int, int, int]

_LANE_MASKS = ("lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge")
_CONSTANT = {"smid": 0, "nsmid": 1, "gridid": 1}
_CLOCKS = ("%clock", "%globaltimer")

#: Special registers that the engine knows.
SPECIALS = frozenset(
    {f"%{root}.{axis}" for root in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"}
    | {f"%{name}" for name in (*_LANE_MASKS, *_CONSTANT, "laneid", "warpid", "nwarpid", "total_smem_size")}
    | {"%dynamic_smem_size", "%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}
)


def is_clock(name: str) -> bool:
    """Return whether a special register changes while the kernel runs."""
    return name.startswith(_CLOCKS)


def clock_value(name: str, ticks: int) -> np.uint64:
    """Return a clock after so many steps; it grows, so that a kernel that waits for it goes on."""
    return np.uint64(ticks >> 32 if name.endswith("_hi") else ticks)


def unravel(linear: Any, sizes: Extent) -> tuple[Any, Any, Any]:
    """Return the three coordinates of a linear index, or of an array of them."""
    x, y, _ = sizes
    return (linear % x, linear // x % y, linear // (x * y))


def lane_special(name: str, lane: AnyArray) -> AnyArray:
    """Return a special register that depends on the lane only."""
    if name == "%laneid":
        return lane.astype(np.uint32)
    one = np.uint64(1)
    at = one << lane.astype(np.uint64)
    masks = {
        "%lanemask_eq": at, "%lanemask_lt": at - one, "%lanemask_le": (at << one) - one,
        "%lanemask_gt": ~((at << one) - one), "%lanemask_ge": ~(at - one),
    }  # fmt: skip
    if name not in masks:
        raise UnsupportedError(f"special register {name} is not supported")
    return (masks[name] & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def constant_special(name: str) -> int | None:
    """Return a special register that is the same for every launch: the kernel sees one SM."""
    return _CONSTANT.get(name.removeprefix("%"))
