"""What the warp-level requests of one memory instruction cost: sectors and lines, passes of shared memory, contention.

A warp's local memory lies interleaved by 4-byte words, so that equal addresses of its 32 lanes fill one 128-byte line.
Source: banks and words from the CUDA C++ Programming Guide 12.9, section "Shared Memory"; that 16-byte accesses are
served by quarters of a warp from NVIDIA's talk S9593 at GTC 2019. That quarters and halves merge where neighbours agree
has been observed, and is not documented by NVIDIA.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerncast.execute.reference.threads import WARP_LANES, Index
from kerncast.kernel_profile import SECTOR_BYTES
from kerncast.recording import LINE_BYTES

Numbers = npt.NDArray[np.int64]

_BANKS = 32
_WORD_BYTES = 4
_SECTOR_BITS = 2
"""that number the sectors of a line"""
#: Lanes that shared memory serves together, by the bytes of each; twice as many where neighbours agree.
_GROUP_LANES = {8: 16, 16: 8, 32: 4}
_MERGED_BYTES = (8, 16)


class Lanes(NamedTuple):
    """Lanes that access one state space by one instruction, in rising order; those of one warp are one request."""

    warp: Index
    lane: Index
    address: Numbers
    """in the memory of the state space, which is that of the block (shared) or the thread (local)"""
    size: int
    """bytes of each lane"""


class Pieces(NamedTuple):
    """The sectors that lanes touch, by lane, then by rising word; some occur more than once."""

    warp: Index
    line: Numbers
    """number of the 128-byte line; in local memory the word of each lane has one"""
    sector: Numbers
    """of the line, 0 to 3"""
    passes: Numbers | None = None
    """[warps] that its request would take through the banks of shared memory, where somebody asks"""


def global_pieces(lanes: Lanes) -> Pieces:
    """Return the sectors of accesses to global memory: each lies in one sector, because it is naturally aligned."""
    return Pieces(lanes.warp, lanes.address // LINE_BYTES, lanes.address % LINE_BYTES // SECTOR_BYTES)


def local_pieces(lanes: Lanes) -> Pieces:
    """Return the sectors of accesses to local memory."""
    words = _words(lanes)
    per_lane = words.shape[1]
    sector = lanes.lane * _WORD_BYTES // SECTOR_BYTES
    return Pieces(np.repeat(lanes.warp, per_lane), words.ravel(), np.repeat(sector, per_lane))


def sectors_and_lines(pieces: Pieces, warps: int) -> tuple[Numbers, Numbers]:
    """Return [warps] the distinct sectors and the distinct lines that the request of each warp touches."""
    bits = _bits(pieces.line)
    sectors = _distinct((pieces.warp << bits | pieces.line) << _SECTOR_BITS | pieces.sector)
    lines = _distinct(sectors >> _SECTOR_BITS)
    return np.bincount(sectors >> _SECTOR_BITS + bits, minlength=warps), np.bincount(lines >> bits, minlength=warps)


def shared_passes(lanes: Lanes, warps: int, *, is_atomic: bool, pairs_words: bool = False) -> tuple[Numbers, Numbers]:
    """Return [warps] the wavefronts that the request of each warp takes, and how many it takes without a conflict.

    A group of lanes takes as many as its busiest bank has words to serve. Lanes that ask for one word are served
    together, except by atomics. Banks of 8 bytes (``pairs_words``) serve two words 32 apart in a row of 64 together.
    """
    group_lanes = _GROUP_LANES.get(lanes.size, WARP_LANES)
    groups = WARP_LANES // group_lanes
    group = lanes.lane // group_lanes
    if lanes.size in _MERGED_BYTES:
        group = np.where(_neighbours_agree(lanes, warps)[lanes.warp], group // 2, group)
    words = _words(lanes)
    if pairs_words and lanes.size <= _WORD_BYTES and not is_atomic:
        words = words // (2 * _BANKS) * _BANKS + words % _BANKS
    served = np.repeat(lanes.warp * groups + group, words.shape[1])
    bits = _bits(words)
    wanted = served << bits | words.ravel()
    if not is_atomic:
        wanted = _distinct(wanted)
    bank = wanted & (1 << bits) - 1 & _BANKS - 1
    in_bank = np.bincount((wanted >> bits) * _BANKS + bank, minlength=warps * groups * _BANKS)
    wavefronts = in_bank.reshape(warps, groups, _BANKS).max(axis=2)
    return wavefronts.sum(axis=1), np.count_nonzero(wavefronts, axis=1)


def contention(lanes: Lanes, warps: int) -> tuple[Numbers, Numbers]:
    """Return [warps] how many lanes of the request of each warp have its most frequent address, and its addresses."""
    room = int(lanes.address.max(initial=0)) + 1
    key, lanes_there = np.unique(lanes.warp * room + lanes.address, return_counts=True)
    most: Numbers = np.zeros(warps, np.int64)
    np.maximum.at(most, key // room, lanes_there)
    return most, np.bincount(key // room, minlength=warps)


def _words(lanes: Lanes) -> Numbers:
    """Return [lanes, words] the numbers of the 4-byte words that each lane accesses."""
    words: Numbers = (lanes.address // _WORD_BYTES)[:, None] + np.arange(max(1, lanes.size // _WORD_BYTES))
    return words


def _neighbours_agree(lanes: Lanes, warps: int) -> npt.NDArray[np.bool_]:
    """Return [warps] whether lanes that differ in their lowest bit only, or in the next, have one address.

    A lane whose neighbour does not take part agrees with it.
    """
    address = np.full((warps, WARP_LANES), -1, np.int64)
    address[lanes.warp, lanes.lane] = lanes.address
    agrees = np.zeros(warps, np.bool_)
    for distance in (1, 2):
        other = address[:, np.arange(WARP_LANES) ^ distance]
        agrees |= ((address == other) | (address < 0) | (other < 0)).all(axis=1)
    return agrees


def _bits(numbers: Numbers) -> int:
    """Return how many bits the largest number has."""
    return int(numbers.max(initial=0)).bit_length()


def _distinct(values: npt.NDArray[Any]) -> Numbers:
    """Return the values without repetitions, in rising order."""
    ordered = np.sort(values)
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    distinct: Numbers = ordered[is_new]
    return distinct
