"""The memory of a launch: where its buffers lie, and which sectors of it were touched."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kerncast.errors import BudgetExceededError, MachineLimitError
from kerncast.profiles import SECTOR_BYTES
from kerncast.traces import Allocation, Counts, Footprint
from kerncast.units import format_bytes

# Global memory: one array of bytes with an allocation per buffer, and exact bounds.
#
# Buffers stand apart by a gap, so that an access just past an end is caught, not served from a neighbour.


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
    """Return zeroed bytes; raises BudgetExceededError for too much, MachineLimitError where less is free."""
    check_room(nbytes, limit_bytes, what)
    try:
        return np.zeros(nbytes, np.uint8)
    except MemoryError:
        cure = "Use a smaller problem, or a larger memory budget."
        raise MachineLimitError(f"{what} {format_bytes(nbytes)}, more than is free", cure=cure) from None


def window_of(addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.int8]:
    """Return the state space of generic addresses: 0 global, 1 shared, 2 local, 3 kernel parameters.

    Global memory lies above the windows; what lies below them is a bad pointer and is reported as global.
    """
    space = np.zeros(addresses.shape, np.int8)
    for number, start in enumerate((SHARED_WINDOW, LOCAL_WINDOW, PARAMETER_WINDOW), start=1):
        space[(addresses >= start) & (addresses < start + WINDOW_BYTES)] = number
    return space


# How many rows of DRAM an access to some sectors opens.
#
# A row lies in one channel, and neighbouring pieces of memory lie in different channels: 16 rows of 2 KiB hold 32 KiB
# together, in pieces of 256 bytes that a hash spreads over them. Where n such pieces are touched, 16 (1 - (15/16)^n)
# of the rows are expected to be opened. Source: GPGPU-Sim's tested configurations (667834cf): a channel each 256
# bytes, rows of 2 KiB per channel; 16 stands for the 8 to 32 channels of today's GPUs. Fails when: strides camp on
# one channel in spite of the hash.


PIECE_BYTES = 256
_ROWS = 16
_REGION_PIECES = _ROWS * 2048 // PIECE_BYTES
_SECTORS_PER_PIECE = PIECE_BYTES // SECTOR_BYTES


def opened_rows(touched: "npt.NDArray[np.bool_] | npt.NDArray[np.uint8]") -> float:
    """Return how many rows are expected to be opened for sectors that are accessed at about the same time.

    ``touched`` has one byte per sector, of whole pieces; 0: untouched. It is read eight sectors at a time.
    """
    pieces = np.flatnonzero(touched.view(np.uint64))
    in_region = np.bincount(pieces // _REGION_PIECES)
    return float(_ROWS * (1 - (1 - 1 / _ROWS) ** in_region).sum())


assert np.dtype(np.uint64).itemsize == _SECTORS_PER_PIECE


#: Marks of a sector of which all words are written.
_WHOLE_SECTOR = 0xFF


class Touched:
    """What was read and written of the arena, by sectors of 32 bytes."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        # Whole lines, as an engine marks the four sectors of a line at once, and whole pieces of DRAM rows.
        sectors = -(-len(arena.data) // PIECE_BYTES) * (PIECE_BYTES // SECTOR_BYTES)
        self.sectors = sectors
        self.read = np.zeros(sectors, np.bool_)
        #: One bit for each word of 4 bytes that a store reaches; of a sector that an atomic changes, any.
        self.written = np.zeros(sectors, np.uint8)

    def footprint(self, blocks: int) -> Footprint:
        """Return how many sectors of each allocation were touched by the blocks that have run."""
        either = self.read.view(np.uint8) | self.written
        read, written, touched = (self._per_allocation(marks) for marks in (self.read, self.written, either))
        partly = np.array([*map(self._left_in_part, self._allocations())], np.int64)
        return Footprint(blocks, read, written, touched, partly)

    def rows(self) -> tuple[float, float]:
        """Return the rows of DRAM that reading, and that writing what was touched would open."""
        return opened_rows(self.read), opened_rows(self.written)

    def _per_allocation(self, touched: "npt.NDArray[np.bool_] | npt.NDArray[np.uint8]") -> Counts:
        return np.array([np.count_nonzero(touched[sectors]) for sectors in self._allocations()], np.int64)

    def _left_in_part(self, sectors: slice) -> int:
        """Return how many sectors of an allocation have words that were stored and others that were not, unread."""
        written = self.written[sectors]
        # Most kernels fill what they store in: that is told in half of the time.
        if np.count_nonzero(written) == np.count_nonzero(written == _WHOLE_SECTOR):
            return 0
        return int(np.count_nonzero((written != 0) & (written != _WHOLE_SECTOR) & ~self.read[sectors]))

    def _allocations(self) -> Iterator[slice]:
        for each in self._arena.allocations:
            yield slice(each.start // SECTOR_BYTES, -(-(each.start + each.nbytes) // SECTOR_BYTES))
