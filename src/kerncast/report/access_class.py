"""How the threads of a warp spread over memory, told from sectors, lines and bytes per request.

The counts are means over all requests of the launch: loads of two kinds look like one between them. Which address each
lane asked for is not kept, so that a stride of a line or more looks like random access.
"""

from dataclasses import dataclass
from enum import StrEnum

from kerncast.kernel_profile import SECTOR_BYTES, AccessCount

_LINE_SECTORS = 4
_LINE_BYTES = _LINE_SECTORS * SECTOR_BYTES
#: A mean within 5 % of one counts as one: the threads at a grid's edge do otherwise.
_NEARLY = 0.95
#: Lines of an even stride may exceed sectors / 4 by one where the range begins inside a line.
_LINE_TOLERANCE = 1.25


class AccessClass(StrEnum):
    """How the threads of a request lie in memory."""

    NONE = "none"
    """no request"""
    SINGLE = "single"
    """fewer than two threads per request: nothing to coalesce"""
    BROADCAST = "broadcast"
    """at most half of the sectors that different words would need: threads share words"""
    COALESCED = "coalesced"
    """no more sectors than the bytes need, but for one where the range begins inside a sector"""
    STRIDED = "strided"
    """sectors and lines fit words at an even distance of less than a line"""
    SCATTERED = "scattered"
    """each sector lies in a line of its own: strides of 128 bytes or more, or random addresses"""
    IRREGULAR = "irregular"
    """sectors and lines fit no stride"""


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """The class of the accesses, and the distance of neighbouring threads where it is known."""

    access_class: AccessClass
    stride_elements: float | None = None
    """0 for one word for all, 1 for neighbouring words; None where no stride fits, or only a lower bound is known"""

    @property
    def is_coalesced(self) -> bool | None:
        """Whether requests need no more sectors than their bytes do; None where there is nothing to coalesce."""
        if self.access_class in {AccessClass.NONE, AccessClass.SINGLE}:
            return None
        return self.access_class in {AccessClass.COALESCED, AccessClass.BROADCAST}

    @property
    def may_be_random(self) -> bool | None:
        """Whether addresses may be random, as they fit no even stride below a line; None where none can be told."""
        if self.access_class in {AccessClass.NONE, AccessClass.SINGLE}:
            return None
        return self.access_class in {AccessClass.SCATTERED, AccessClass.IRREGULAR}


def pattern_of(found: AccessCount) -> AccessPattern:
    """Return the pattern of accesses to global or local memory.

    A warp that loads every eighth float asks for 32 sectors in 8 lines:

    >>> from kerncast.kernel_profile import Count
    >>> counts = [Count.exact(n) for n in (1, 32, 128, 32, 8, 0, 0, 0)]
    >>> pattern_of(AccessCount("global", "ld", *counts))
    AccessPattern(access_class=<AccessClass.STRIDED: 'strided'>, stride_elements=8.0)
    """
    requests, threads = found.requests.value, found.threads.value
    if not requests or not threads:
        return AccessPattern(AccessClass.NONE)
    lanes, width = threads / requests, found.nbytes.value / threads
    if lanes < 2:
        return AccessPattern(AccessClass.SINGLE)
    sectors, lines = found.sectors.value / requests, found.lines.value / requests
    needed = lanes * width / SECTOR_BYTES
    has_lines = lines >= _NEARLY * sectors
    if sectors < needed and sectors <= max(needed, 2) / 2:
        return AccessPattern(AccessClass.BROADCAST, 0.0)
    if sectors <= max(1.0, needed) + 1 and not (has_lines and sectors >= _NEARLY * lanes):
        return AccessPattern(AccessClass.COALESCED, 1.0)
    if has_lines:
        return AccessPattern(AccessClass.SCATTERED)
    stride = _stride(lanes, sectors, lines) / width
    return AccessPattern(AccessClass.STRIDED, stride) if stride else AccessPattern(AccessClass.IRREGULAR)


def _stride(lanes: float, sectors: float, lines: float) -> float:
    """Return the bytes from one thread's word to the next one's, 0 where no even stride explains the counts.

    No thread asks for more than 16 bytes at once, so that each has at most one sector. Below that the words of a
    request fill a range of sectors without a gap.
    """
    if sectors >= _NEARLY * lanes:
        return lines * _LINE_BYTES / lanes
    has_gaps = lines > _LINE_TOLERANCE * max(1.0, sectors / _LINE_SECTORS)
    return 0.0 if has_gaps else sectors * SECTOR_BYTES / lanes
