"""The memory of a launch: where its buffers lie, and which sectors of it were touched."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kerncast.errors import BudgetExceededError, MachineLimitError
from kerncast.execute.setup.paged import ALIGNMENT_BYTES, zeroed
from kerncast.profiles import SECTOR_BYTES
from kerncast.traces import LINE_BYTES, Allocation, Footprint
from kerncast.units import GIB, format_bytes

# Global memory: one array of bytes with an allocation per buffer, and exact bounds.
#
# Buffers stand apart by a gap, so that an access just past an end is caught, not served from a neighbour.


Bytes = npt.NDArray[np.uint8]
Marks = npt.NDArray[np.bool_]
Offsets = npt.NDArray[np.int64]
Pieces = npt.NDArray[np.int64]

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
#: Up to this size the values of all buffers lie in memory as they are; beyond, those that can repeat do.
_WHOLE_BYTES = 4 * GIB
#: Simulated caches tell lines of global memory from local ones by the highest of 32 bits.
_MOST_BYTES = 2**31 * LINE_BYTES
_CURE = "Use a smaller problem, or a larger memory budget: --memory 8GiB, or Budget(memory_bytes=…) in Python."
_CURE_OF_BLOCKS = (
    "Give a block less shared or local memory (no GPU has 256 KiB of shared memory for one), or use a larger memory"
    " budget: --memory 8GiB, or Budget(memory_bytes=…) in Python."
)


class Arena:
    """All of global memory of one launch, of which only what is touched costs memory."""

    def __init__(self, data: Bytes, allocations: Sequence[Allocation]) -> None:
        """Take memory with allocations in it, in the order of their addresses."""
        self.data, self.allocations = data, tuple(allocations)
        self.repeats = False
        """whether random values and the like repeat in large buffers"""
        self.kept_bytes = 0
        """memory that values take before any block runs"""
        self._starts = np.array([a.start for a in allocations], np.int64)
        self._ends = np.array([a.start + a.nbytes for a in allocations], np.int64)

    @classmethod
    def for_buffers(cls, sizes: Sequence[tuple[str, int]]) -> "Arena":
        """Return zeroed memory with a buffer of each name and size."""
        repeats = sum(nbytes for _, nbytes in sizes) > _WHOLE_BYTES
        alignment = ALIGNMENT_BYTES if repeats else _ALIGNMENT
        position = alignment if repeats else _GAP_BYTES
        allocations = []
        for name, nbytes in sizes:
            allocations.append(Allocation(name, GLOBAL_BASE + position, position, nbytes))
            position = -(-(position + nbytes + _GAP_BYTES) // alignment) * alignment
        arena = cls(addressable(position), allocations)
        arena.repeats = repeats
        return arena

    def bytes_of(self, allocation: Allocation) -> Bytes:
        """Return the bytes of an allocation, as a view."""
        return self.data[allocation.start : allocation.start + allocation.nbytes]

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that an address lies in, or at the end of."""
        offset = address - GLOBAL_BASE
        number = int(np.searchsorted(self._starts, offset, side="right")) - 1
        return self.allocations[number] if number >= 0 and offset <= self._ends[number] else None

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


def addressable(nbytes: int) -> Bytes:
    """Return zeroed memory for all buffers; raises BudgetExceededError, MachineLimitError where the system refuses."""
    if nbytes > _MOST_BYTES:
        most = format_bytes(_MOST_BYTES)
        what = f"the buffers need {format_bytes(nbytes)}, over the {most} that can be addressed here"
        raise BudgetExceededError(what, cure="Use a smaller problem.")
    try:
        return zeroed(nbytes)
    except MemoryError:
        what = f"the system refuses {format_bytes(nbytes)} of addresses for the buffers"
        cure = "Use a smaller problem, or raise the limit of address space (ulimit -v, vm.overcommit_memory)."
        raise MachineLimitError(what, cure=cure) from None


def check_room(nbytes: int, limit_bytes: int, what: str, taken_bytes: int = 0, cure: str = _CURE) -> None:
    """Raise BudgetExceededError where something takes more memory than the budget has left beside what is taken."""
    if nbytes + taken_bytes <= limit_bytes:
        return
    text = f"{what} {format_bytes(nbytes)}, over the memory budget of {format_bytes(limit_bytes)}"
    if nbytes <= limit_bytes:
        left = format_bytes(max(0, limit_bytes - taken_bytes))
        text = f"{what} {format_bytes(nbytes)}, and of the memory budget of {format_bytes(limit_bytes)}"
        text += f" only {left} are left beside the buffers"
    raise BudgetExceededError(text, cure=cure)


class Room:
    """What is left of the memory budget beside the values of the buffers, for the memory that blocks have."""

    def __init__(self, arena: Arena, limit_bytes: int) -> None:
        self._limit_bytes, self._taken_bytes = limit_bytes, arena.kept_bytes

    def take(self, nbytes: int, what: str) -> None:
        """Set memory aside; raises BudgetExceededError where it is too much."""
        check_room(nbytes, self._limit_bytes, what, self._taken_bytes, _CURE_OF_BLOCKS)
        self._taken_bytes += nbytes

    def allocate(self, nbytes: int, what: str) -> Bytes:
        """Return zeroed bytes; raises BudgetExceededError for too much, MachineLimitError where less is free."""
        self.take(nbytes, what)
        try:
            return np.zeros(nbytes, np.uint8)
        except MemoryError:
            cure = "Use smaller blocks, or a machine with more memory."
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
#: Regions of larger memories are counted without those between them in which nothing is touched.
_MOST_REGIONS = 2**17


def opened_rows(pieces: Pieces) -> float:
    """Return how many rows are expected to be opened for pieces, in rising order, accessed at about the same time."""
    regions = pieces // _REGION_PIECES
    if len(regions) and regions[-1] >= _MOST_REGIONS:
        regions = np.cumsum(np.diff(regions, prepend=regions[0]) > 0)  # numbered without gaps
    in_region = np.bincount(regions)
    return float(_ROWS * (1 - (1 - 1 / _ROWS) ** in_region).sum())


assert np.dtype(np.uint64).itemsize == _SECTORS_PER_PIECE


#: Marks of a sector of which all words are written.
_WHOLE_SECTOR = 0xFF
#: Sectors of a page of memory, of which an engine notes when it first marks one.
PAGE_SECTORS = 128
PAGE_BYTES = PAGE_SECTORS * SECTOR_BYTES
#: Bits of a page of which anything was read, or written.
PAGE_BITS = {"read": 1, "written": 2}
#: Pages of memory whose marks fill a page.
_PAGES_OF_MARKS = PAGE_BYTES // PAGE_SECTORS
#: Marks of a smaller memory are looked through as a whole, which costs less than to ask which pages are touched.
_LOOKED_THROUGH = 2**22
#: Pages looked through at a time, so that what is copied stays small.
_PAGES = 2**14


class Touched:
    """What was read and written of the arena, by sectors of 32 bytes."""

    def __init__(self, arena: Arena, before_bytes: int = 0) -> None:
        self._arena = arena
        self._before_bytes = before_bytes
        """memory that earlier blocks have touched, and that is still there"""
        pages = -(-len(arena.data) // PAGE_BYTES)
        # Whole pages: an engine marks the four sectors of a line at once, and rows of DRAM have whole pieces.
        self.sectors = pages * PAGE_SECTORS
        self.read = zeroed(self.sectors).view(np.bool_)
        #: One bit for each word of 4 bytes that a store reaches; of a sector that an atomic changes, any.
        self.written = zeroed(self.sectors)
        #: What was done to each page, by PAGE_BITS.
        self.pages = np.zeros(-(-pages // _PAGES_OF_MARKS) * _PAGES_OF_MARKS, np.uint8)

    def footprint(self, blocks: int) -> Footprint:
        """Return how many sectors of each allocation were touched by the blocks that have run."""
        pages = self._touched_pages()
        each = [self._counted(sectors, pages) for sectors in self._allocations()]
        read, written, touched, partly = np.array(each, np.int64).reshape(-1, 4).T
        return Footprint(blocks, read, written, touched, partly)

    def rows(self) -> tuple[float, float]:
        """Return the rows of DRAM that reading, and that writing what was touched would open."""
        return opened_rows(self._pieces(self.read)), opened_rows(self._pieces(self.written))

    @property
    def nbytes(self) -> int:
        """Memory that what was touched takes: pages that were written, and those of the marks.

        Reading takes none: all pages of zeros are one, and pages of values that repeat are shared.
        """
        touched = self._touched_pages()
        written, read = (touched[self.pages[touched] & PAGE_BITS[name] > 0] for name in ("written", "read"))
        marks = sum(len(np.unique(pages // _PAGES_OF_MARKS)) for pages in (written, read))
        return self._before_bytes + PAGE_BYTES * (len(written) + marks)

    def check(self, limit_bytes: int) -> None:
        """Raise BudgetExceededError where the blocks have touched more of the buffers than a budget allows."""
        if not self._fits(limit_bytes):
            what = "the parts of the buffers that the blocks touch need"
            check_room(self.nbytes, limit_bytes, what, self._arena.kept_bytes)

    def blocks_within(self, limit_bytes: int, blocks: int) -> float:
        """Return how many blocks may touch memory if all do as those that have run, ``blocks`` of them."""
        if self._fits(limit_bytes):
            return math.inf
        left = limit_bytes - self._arena.kept_bytes - self._before_bytes
        return blocks * max(0, left) / max(1, self.nbytes - self._before_bytes)

    def _fits(self, limit_bytes: int) -> bool:
        """Whether all of the buffers may be touched."""
        return len(self._arena.data) <= limit_bytes

    def _counted(self, sectors: slice, touched: Pieces) -> tuple[int, int, int, int]:
        """Return how many sectors of an allocation were read, written, touched, and left in part."""
        reads = writes = either = partly = 0
        for read, written in self._parts(sectors, touched):
            reads += int(np.count_nonzero(read))
            writes += int(np.count_nonzero(written))
            either += int(np.count_nonzero(read.view(np.uint8) | written))
            partly += _left_in_part(read, written)
        return reads, writes, either, partly

    def _parts(self, sectors: slice, touched: Pieces) -> Iterator[tuple[Marks, Bytes]]:
        """Give the marks of an allocation of reads and of writes, at least all those of ``touched`` pages."""
        if len(self.read) <= _LOOKED_THROUGH:
            yield self.read[sectors], self.written[sectors]
            return
        # The first and the last page may hold sectors of neighbours.
        first, last = -(-sectors.start // PAGE_SECTORS), sectors.stop // PAGE_SECTORS
        if first > last:
            yield self.read[sectors], self.written[sectors]
            return
        for start, stop in ((sectors.start, first * PAGE_SECTORS), (last * PAGE_SECTORS, sectors.stop)):
            yield self.read[start:stop], self.written[start:stop]
        begin, end = np.searchsorted(touched, (first, last))
        for chosen in _portions(touched[begin:end]):
            yield (
                self.read.reshape(-1, PAGE_SECTORS)[chosen].reshape(-1),
                self.written.reshape(-1, PAGE_SECTORS)[chosen].reshape(-1),
            )

    def _pieces(self, marks: "Marks | Bytes") -> Pieces:
        """Return the pieces of memory in which sectors are marked, in rising order."""
        words = marks.view(np.uint64)
        if len(marks) <= _LOOKED_THROUGH:
            return np.flatnonzero(words)
        per_page = PAGE_SECTORS // _SECTORS_PER_PIECE
        found = [np.zeros(0, np.int64)]
        for chosen in _portions(self._touched_pages()):
            page, piece = np.nonzero(words.reshape(-1, per_page)[chosen])
            found.append(chosen[page] * per_page + piece)
        return np.concatenate(found)

    def _touched_pages(self) -> Pieces:
        """Return the pages of which anything was touched, in rising order."""
        # Most are not: eight are looked at together.
        words = np.flatnonzero(self.pages.view(np.uint64))
        word, page = np.nonzero(self.pages.reshape(-1, 8)[words])
        return words[word] * 8 + page

    def _allocations(self) -> Iterator[slice]:
        for each in self._arena.allocations:
            yield slice(each.start // SECTOR_BYTES, -(-(each.start + each.nbytes) // SECTOR_BYTES))


def _portions(pages: Pieces) -> Iterator[Pieces]:
    for start in range(0, len(pages), _PAGES):
        yield pages[start : start + _PAGES]


def _left_in_part(read: Marks, written: Bytes) -> int:
    """Return how many sectors have words that were stored and others that were not, unread."""
    # Most kernels fill what they store in: that is told in half of the time.
    if np.count_nonzero(written) == np.count_nonzero(written == _WHOLE_SECTOR):
        return 0
    return int(np.count_nonzero((written != 0) & (written != _WHOLE_SECTOR) & ~read))
