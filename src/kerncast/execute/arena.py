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

#: First address of global memory; the windows of the other state spaces in generic addressing lie below.
GLOBAL_BASE = 1 << 44
SHARED_WINDOW = 1 << 40
LOCAL_WINDOW = 1 << 41
PARAMETER_WINDOW = 1 << 42
#: Addresses of functions, which hold nothing that can be read.
CODE_WINDOW = 1 << 43
WINDOW_BYTES = 1 << 40
_GAP_BYTES = 512
_ALIGNMENT = 256
_NEAR_BYTES = 2**32


class Arena:
    """All of global memory of one launch."""

    def __init__(self, sizes: list[tuple[str, int]], limit_bytes: int) -> None:
        position = _GAP_BYTES
        allocations = []
        for name, nbytes in sizes:
            allocations.append(Allocation(name, GLOBAL_BASE + position, position, nbytes))
            position = -(-(position + nbytes + _GAP_BYTES) // _ALIGNMENT) * _ALIGNMENT
        self.allocations = tuple(allocations)
        self.data: Bytes = allocate(position, limit_bytes, "the buffers need")
        self._starts = np.array([a.start for a in allocations], np.int64)
        self._ends = np.array([a.start + a.nbytes for a in allocations], np.int64)

    def bytes_of(self, allocation: Allocation) -> Bytes:
        """Return the bytes of an allocation, as a view."""
        return self.data[allocation.start : allocation.start + allocation.nbytes]

    def outside(self, offsets: Offsets, size: int) -> npt.NDArray[np.intp]:
        """Return which accesses of ``size`` bytes do not lie inside one allocation."""
        if not len(self._starts):
            return np.arange(len(offsets))
        lowest, highest = int(offsets.min()), int(offsets.max())
        first = int(np.searchsorted(self._starts, lowest, side="right")) - 1
        if first >= 0 and highest <= self._ends[first] - size:  # the common case: all in one buffer
            return np.zeros(0, np.intp)
        index = np.searchsorted(self._starts, offsets, side="right") - 1
        return np.flatnonzero((index < 0) | (offsets > self._ends[index] - size))

    def describe(self, address: int) -> str:
        """Say in words where a bad address points."""
        if address < 4096:
            return "a null pointer"
        after = min((a for a in self.allocations if a.address > address), key=lambda a: a.address, default=None)
        before = max((a for a in self.allocations if a.address <= address), key=lambda a: a.address, default=None)
        past = address - (before.address + before.nbytes) if before else _NEAR_BYTES
        ahead = after.address - address if after else _NEAR_BYTES
        if before and past < min(ahead, _NEAR_BYTES):
            return f"{max(past, 0)} bytes past the end of {before.name} ({before.nbytes} bytes)"
        if after and ahead < _NEAR_BYTES:
            return f"{ahead} bytes before the start of {after.name} ({after.nbytes} bytes)"
        return "no buffer is near"


def check_room(nbytes: int, limit_bytes: int, what: str) -> None:
    """Raise BudgetExceededError where something takes more memory than the budget has left."""
    if nbytes > limit_bytes:
        text = f"{what} {format_bytes(nbytes)}, over the budget of {format_bytes(max(limit_bytes, 0))}"
        raise BudgetExceededError(text, cure="Use a smaller problem, or a larger memory budget.")


def allocate(nbytes: int, limit_bytes: int, what: str) -> Bytes:
    """Return zeroed bytes; raises BudgetExceededError where that is too much for the budget or for the machine."""
    check_room(nbytes, limit_bytes, what)
    try:
        return np.zeros(nbytes, np.uint8)
    except MemoryError:
        cure = "Use a smaller problem, or a larger memory budget."
        raise BudgetExceededError(f"{what} {format_bytes(nbytes)}, more than is free", cure=cure) from None


def window_of(addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.int8]:
    """Return the state space of generic addresses: 0 global, 1 shared, 2 local, 3 kernel parameters.

    Global memory lies above the windows; what lies below them is a bad pointer and is reported as global.
    """
    space = np.zeros(addresses.shape, np.int8)
    for number, start in enumerate((SHARED_WINDOW, LOCAL_WINDOW, PARAMETER_WINDOW), start=1):
        space[(addresses >= start) & (addresses < start + WINDOW_BYTES)] = number
    return space
