"""Instructions that read other lanes of the warp: shuffles, votes, matches, reductions.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.13. A lane takes part if it is active and in the
member mask; a shuffle from a lane that is not active returns that lane's register, as the hardware does. Lanes that
execute one instruction with different masks are groups of their own, as tiles of a warp are.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.reference.threads import WARP_LANES, Index, Threads
from kerncast.execute.reference.warps import pack_lanes
from kerncast.ptx.module import Instruction

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


def members(threads: Threads, ins: Instruction, active: Index) -> npt.NDArray[np.uint32]:
    """Return the member mask of each active thread; of an instruction without .sync that is every lane."""
    if "sync" not in ins.modifiers and "warp" not in ins.modifiers:
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
