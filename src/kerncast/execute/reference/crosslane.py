"""Instructions that read other lanes of the warp: shuffles, votes, matches, reductions.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.13. A lane takes part if it is active and in the
member mask; a shuffle from a lane that is not active returns that lane's register, as the hardware does. Lanes that
execute one instruction with different masks are groups of their own, as tiles of a warp are.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.reference import floats
from kerncast.execute.reference.threads import WARP_LANES, Index, Threads
from kerncast.ptx import Instruction, Order

# Where the lanes of each warp stand, and which of them run next.
#
# A warp runs the lanes at its first place in the order of the control-flow graph (see ``kerncast.ptx.cfg``); its
# other lanes wait there for them. Lanes at ``__syncwarp`` are parked until all that it names have come.


Lanes = npt.NDArray[np.bool_]

_PARKED = 1 << 30  # added to the place of a lane that waits at __syncwarp


class WarpPlaces:
    """The place of each lane of all warps of a batch."""

    def __init__(self, lanes: Lanes, order: Order) -> None:
        self.end = order.end
        start = order.place_of[0] if order.place_of else order.end
        self._place = np.where(lanes, start, self.end).astype(np.int32)
        self._mask = np.zeros(lanes.shape, np.uint32)
        """[warps, lanes] lanes that each parked lane waits for, as bits"""
        self._parks = False
        """whether any lane was ever parked"""
        self._deferred: Lanes = np.zeros(lanes.shape, np.bool_)
        """[warps, lanes] lanes that let the others of their warp go first"""
        self.current: npt.NDArray[np.int32] = self._place.min(axis=1)
        """place that each warp runs next; ``end`` and above when it has ended or only waits"""

    @property
    def ended(self) -> npt.NDArray[np.bool_]:
        """[warps] whether the warp has ended."""
        ended: npt.NDArray[np.bool_] = self.current == self.end
        return ended

    @property
    def alive(self) -> Lanes:
        """[warps, 32] whether the lane is still in the kernel."""
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

    def defer(self, lanes: Lanes) -> None:
        """Let the other lanes of each warp go first from now on, if any can go."""
        self._deferred = np.logical_and(lanes, self.alive)
        self.current = self._running(np.arange(len(lanes)))

    def defer_none(self) -> None:
        """Let all lanes go in the usual order."""
        if self._deferred.any():
            self.defer(np.zeros_like(self._deferred))

    def deferring(self, warps: Index) -> Lanes:
        """Return whether lanes of these warps let others go first."""
        return np.asarray((self._deferred[warps] & self.alive[warps]).any(axis=1))

    def _running(self, warps: Index) -> npt.NDArray[np.int32]:
        """Return the first place of each warp; the end counts behind a parked lane's."""
        place = self._place[warps]
        if self._deferred.any():
            others = np.where(self._deferred[warps], np.int32(self.end), place)
            goes = (others != self.end) & (others < _PARKED)
            place = np.where(goes.any(axis=1)[:, None], others, place)
        first: npt.NDArray[np.int32] = place.min(axis=1)
        if not self._parks:
            return first
        only_waits = (first == self.end) & (place >= _PARKED).any(axis=1)
        return np.where(only_waits, np.int32(_PARKED), first)


def pack_lanes(lanes: Lanes) -> npt.NDArray[np.uint32]:
    """Return lanes [warps, 32] as one word per warp."""
    words: npt.NDArray[np.uint32] = np.packbits(lanes, axis=1, bitorder="little").view(np.uint32)[:, 0]
    return words


AnyArray = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def shuffle(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run shfl and shfl.sync."""
    sources = ins.operands[1:]
    predicate = None
    if len(sources) > (4 if "sync" in ins.modifiers else 3):
        predicate, sources = sources[0], sources[1:]
    value = threads.values(sources[0], "b32", threads.all)
    b = threads.value(sources[1], "u32", active).astype(np.int64) & 31
    c = threads.value(sources[2], "u32", active).astype(np.int64)
    lane = threads.lane[active]
    segment = (c >> 8) & 31
    limit = (lane & segment) | (c & 31 & ~segment)
    if "up" in ins.modifiers:
        source = lane - b
        valid = source >= limit
    elif "idx" in ins.modifiers:
        source = (lane & segment) | (b & ~segment)
        valid = source <= limit
    else:
        source = lane + b if "down" in ins.modifiers else lane ^ b
        valid = source <= limit
    source = np.where(valid, source, lane)
    threads.write(ins.operands[0], value[active - lane + source], active)
    if predicate is not None:
        threads.write(predicate, valid, active)


def vote(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run vote and vote.sync."""
    predicate = threads.values(ins.operands[1], "pred", active)
    group = _group(threads, ins, active)
    agree = group & _ballot(threads, active, predicate)
    if "ballot" in ins.modifiers:
        threads.write(ins.operands[0], agree, active)
        return
    if "any" in ins.modifiers:
        result = agree != 0
    elif "all" in ins.modifiers:
        result = agree == group
    else:
        result = (agree == group) | (agree == 0)
    threads.write(ins.operands[0], result, active)


def active_mask(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run activemask."""
    threads.write(ins.operands[0], _ballot(threads, active, np.ones(len(active), np.bool_)), active)


def match(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run match.any.sync and match.all.sync."""
    value = threads.values(ins.operands[-2], ins.type, active).astype(np.uint64)
    group = _group(threads, ins, active)
    key = np.stack([threads.warp[active].astype(np.uint64), value])
    _, which = np.unique(key, axis=1, return_inverse=True)
    masks = np.zeros(int(which.max(initial=-1)) + 1, np.uint32)
    np.bitwise_or.at(masks, which, np.uint32(1) << threads.lane[active].astype(np.uint32))
    same = masks[which] & group
    if "any" in ins.modifiers:
        threads.write(ins.operands[0], same, active)
        return
    everyone = same == group
    threads.write(ins.operands[0], np.where(everyone, same, np.uint32(0)), active)
    if len(ins.operands) == 4:
        threads.write(ins.operands[1], everyone, active)


def elect(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run elect.sync: the first of the members is chosen."""
    group = _group(threads, ins, active).astype(np.int64)
    first = np.bitwise_count((group & -group) - 1).astype(np.uint32)
    threads.write(ins.operands[0], first, active)
    threads.write(ins.operands[1], threads.lane[active] == first, active)


def reduce_warp(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run redux.sync."""
    if ins.type == "f32":
        _reduce_singles(threads, ins, active)
        return
    value = threads.values(ins.operands[1], ins.type, active)
    operations: dict[str, tuple[Any, int]] = {
        "add": (np.add, 0), "min": (np.minimum, int(np.iinfo(value.dtype).max)),
        "max": (np.maximum, int(np.iinfo(value.dtype).min)), "and": (np.bitwise_and, 0xFFFFFFFF),
        "or": (np.bitwise_or, 0), "xor": (np.bitwise_xor, 0),
    }  # fmt: skip
    operation, neutral = next(operations[m] for m in ins.modifiers if m in operations)
    of_warp = np.full((threads.warps, WARP_LANES), neutral, value.dtype)
    of_warp.reshape(-1)[active] = value
    in_group = _group(threads, ins, active)[:, None] >> np.arange(WARP_LANES, dtype=np.uint32) & np.uint32(1) != 0
    kept = np.where(in_group, of_warp[threads.warp[active]], value.dtype.type(neutral))
    threads.write(ins.operands[0], operation.reduce(kept, axis=1, dtype=value.dtype), active)


def _reduce_singles(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run redux.sync of singles: one lane after the other, NaN where a lane is not in the group."""
    value = threads.values(ins.operands[1], ins.type, active)
    of_warp = np.full((threads.warps, WARP_LANES), np.nan, np.float32)
    of_warp.reshape(-1)[active] = np.abs(value) if "abs" in ins.modifiers else value
    in_group = _group(threads, ins, active)[:, None] >> np.arange(WARP_LANES, dtype=np.uint32) & np.uint32(1) != 0
    kept = np.where(in_group, of_warp[threads.warp[active]], np.float32(np.nan))
    result = kept[:, 0]
    for lane in range(1, WARP_LANES):
        result = (floats.minimum if "min" in ins.modifiers else floats.maximum)(result, kept[:, lane])
    if "NaN" in ins.modifiers:
        result = np.where((np.isnan(kept) & in_group).any(axis=1), np.float32(np.nan), result)
    threads.write(ins.operands[0], floats.canonical_nan(result), active)


def members(threads: Threads, ins: Instruction, active: Index) -> npt.NDArray[np.uint32]:
    """Return the member mask of each active thread; of an instruction without .sync that is every lane."""
    if ("sync" not in ins.modifiers and "warp" not in ins.modifiers) or "aligned" in ins.modifiers:
        return np.full(len(active), 0xFFFFFFFF, np.uint32)
    return threads.values(ins.operands[-1], "u32", active)


def _group(threads: Threads, ins: Instruction, active: Index) -> npt.NDArray[np.uint32]:
    """Return for each active thread those of its member mask that take part."""
    masks = members(threads, ins, active)
    return masks & _ballot(threads, active, _member_lanes(threads, ins, active))


def _member_lanes(threads: Threads, ins: Instruction, active: Index) -> Mask:
    """Return which of the active threads are in their own member mask."""
    lanes: Mask = (members(threads, ins, active) >> threads.lane[active].astype(np.uint32)) & np.uint32(1) != 0
    return lanes


def absent(threads: Threads, ins: Instruction, active: Index, alive: Mask) -> bool:
    """Return whether a member mask names a lane that lives, and has gone another way."""
    if "sync" not in ins.modifiers:
        return False
    running = np.zeros((threads.warps, WARP_LANES), np.bool_)
    running.reshape(-1)[active] = True
    elsewhere = pack_lanes(alive & ~running)[threads.warp[active]]
    return bool((members(threads, ins, active) & elsewhere).any())


def _ballot(threads: Threads, active: Index, said_yes: Mask) -> npt.NDArray[np.uint32]:
    """Return for each active thread the mask of its warp's lanes that said yes."""
    lanes = np.zeros((threads.warps, WARP_LANES), np.bool_)
    lanes.reshape(-1)[active[said_yes]] = True
    return pack_lanes(lanes)[threads.warp[active]]
