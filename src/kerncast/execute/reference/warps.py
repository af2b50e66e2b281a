"""Where the lanes of each warp stand, and which of them run next.

A warp runs the lanes at its first place in the order of the control-flow graph (see ``kerncast.ptx.order``); its other
lanes wait there for them. Lanes at ``__syncwarp`` are parked until all that it names have come.
"""

import numpy as np
import numpy.typing as npt

from kerncast.execute.reference.threads import Index
from kerncast.ptx.order import Order

Lanes = npt.NDArray[np.bool_]

_PARKED = 1 << 30  # added to the place of a lane that waits at __syncwarp


class WarpPlaces:
    """The place of each lane of all warps of a batch."""

    def __init__(self, lanes: Lanes, order: Order) -> None:
        self.end = order.end
        start = order.place_of[0] if order.place_of else order.end
        self._place = np.where(lanes, start, self.end).astype(np.int32)
        self._mask = np.zeros(lanes.shape, np.uint32)
        """what each parked lane waits for"""
        self._parks = False
        """whether any lane was ever parked"""
        self.current: npt.NDArray[np.int32] = self._place.min(axis=1)
        """place that each warp runs next; ``end`` and above when it has ended or only waits"""

    @property
    def ended(self) -> npt.NDArray[np.bool_]:
        """Which warps have ended."""
        ended: npt.NDArray[np.bool_] = self.current == self.end
        return ended

    @property
    def alive(self) -> Lanes:
        """Which lanes have not left the kernel, [warps, 32]."""
        alive: Lanes = self._place != self.end
        return alive

    def standing_at(self, place: int, warps: Index) -> Lanes:
        """Return which lanes [warps, 32] stand at a place."""
        standing: Lanes = self._place[warps] == place
        return standing

    def go(self, warps: Index, lanes: Lanes, targets: "int | npt.NDArray[np.int32]") -> None:
        """Send some lanes [warps, 32] of these warps to one place, or each to its own."""
        self._place[warps] = np.where(lanes, targets, self._place[warps])
        self.current[warps] = self._running(warps)

    def park(self, warps: Index, lanes: Lanes, masks: npt.NDArray[np.uint32]) -> None:
        """Let lanes [warps, 32], whose place is where they will go on, wait for those that their masks name."""
        self._place[warps] += np.where(lanes, np.int32(_PARKED), np.int32(0))
        self._mask[warps] = np.where(lanes, masks, self._mask[warps])
        self._parks = True
        self.release(warps)

    def release(self, warps: Index) -> bool:
        """Let parked lanes go on for which all that they wait for are parked too or gone; returns whether any did."""
        place = self._place[warps]
        parked = place >= _PARKED
        missing = pack_lanes(self.alive[warps] & ~parked)
        free = parked & (self._mask[warps] & missing[:, None] == 0)
        self._place[warps] = np.where(free, place - _PARKED, place)
        self.current[warps] = self._running(warps)
        return bool(free.any())

    def _running(self, warps: Index) -> npt.NDArray[np.int32]:
        """Return the first place of each warp; the end counts behind a parked lane's."""
        place = self._place[warps]
        first: npt.NDArray[np.int32] = place.min(axis=1)
        if not self._parks:
            return first
        only_waits = (first == self.end) & (place >= _PARKED).any(axis=1)
        return np.where(only_waits, np.int32(_PARKED), first)


def pack_lanes(lanes: Lanes) -> npt.NDArray[np.uint32]:
    """Return lanes [warps, 32] as one word per warp."""
    words: npt.NDArray[np.uint32] = np.packbits(lanes, axis=1, bitorder="little").view(np.uint32)[:, 0]
    return words
