"""Global memory: one array of bytes with an allocation per buffer, and exact bounds.

Buffers stand apart by a gap, so that an access just past an end is caught, not served from a neighbour.
"""

import numpy as np
import numpy.typing as npt

from kerncast.errors import BudgetExceededError
from kerncast.trace import Allocation
from kerncast.units import format_bytes

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]

#: First address of global memory; the windows of shared and local memory in generic addressing lie below.
GLOBAL_BASE = 1 << 44
SHARED_WINDOW = 1 << 40
LOCAL_WINDOW = 1 << 42
_WINDOW_BYTES = 1 << 40
_GAP_BYTES = 512
_ALIGNMENT = 256
SECTOR_BYTES = 32


class Arena:
    """All of global memory of one launch."""

    def __init__(self, sizes: list[tuple[str, int]], limit_bytes: int) -> None:
        position = _GAP_BYTES
        allocations = []
        for name, nbytes in sizes:
            allocations.append(Allocation(name, GLOBAL_BASE + position, position, nbytes))
            position = -(-(position + nbytes + _GAP_BYTES) // _ALIGNMENT) * _ALIGNMENT
        if position > limit_bytes:
            raise BudgetExceededError(
                f"the buffers need {format_bytes(position)}, over the budget of {format_bytes(limit_bytes)}",
                cure="Use smaller buffers, or a larger memory budget.",
            )
        self.allocations = tuple(allocations)
        self.data: Bytes = np.zeros(position, np.uint8)
        self._starts = np.array([a.start for a in allocations] or [0], np.int64)
        self._ends = np.array([a.start + a.nbytes for a in allocations] or [0], np.int64)

    def named(self, name: str) -> Allocation:
        """Return the allocation of this name."""
        return next(a for a in self.allocations if a.name == name)

    def bytes_of(self, allocation: Allocation) -> Bytes:
        """Return the bytes of an allocation, as a view."""
        return self.data[allocation.start : allocation.start + allocation.nbytes]

    def owners(self, offsets: Offsets, size: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return for each offset the index of the allocation before it, and whether the access lies inside it."""
        index = np.searchsorted(self._starts, offsets, side="right") - 1
        inside = (index >= 0) & (offsets + size <= self._ends[np.maximum(index, 0)])
        return index, inside

    def describe(self, address: int) -> str:
        """Say in words where a bad address points."""
        if address < 4096:
            return "a null pointer"
        before = [a for a in self.allocations if a.address <= address]
        if not before or address >= GLOBAL_BASE + len(self.data) + 2**32:
            return "no buffer is near"
        last = before[-1]
        past = address - (last.address + last.nbytes)
        return f"{past} bytes past the end of {last.name} ({last.nbytes} bytes)"


def window_of(addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.int8]:
    """Return the state space of generic addresses: 0 global, 1 shared, 2 local.

    Global memory lies above both windows; what lies below them is a bad pointer and is reported as global.
    """
    space = np.zeros(addresses.shape, np.int8)
    space[(addresses >= SHARED_WINDOW) & (addresses < SHARED_WINDOW + _WINDOW_BYTES)] = 1
    space[(addresses >= LOCAL_WINDOW) & (addresses < LOCAL_WINDOW + _WINDOW_BYTES)] = 2
    return space
