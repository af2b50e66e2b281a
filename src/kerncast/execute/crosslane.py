"""Instructions that read other lanes of the warp: shuffles, votes, matches, reductions.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.13. A lane takes part if it is active and in the
member mask; a shuffle from a lane that is not active returns that lane's register, as the hardware does.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.arithmetic import refuse
from kerncast.execute.threads import WARP_LANES, Threads
from kerncast.ptx.module import TYPE_BITS, Instruction

AnyArray = npt.NDArray[Any]
Index = npt.NDArray[np.intp]


def shuffle(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run shfl and shfl.sync."""
    sources = ins.operands[1:]
    predicate = None
    expected = 4 if "sync" in ins.modifiers else 3
    if len(sources) > expected:
        predicate, sources = sources[0], sources[1:]
    value = threads.peek(sources[0], "b32")
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
    predicate = np.broadcast_to(threads.value(ins.operands[1], "pred", active), active.shape)
    member = _members(threads, ins, active, 2)
    agree = _ballot(threads, active, predicate & member)
    if "ballot" in ins.modifiers:
        threads.write(ins.operands[0], agree, active)
        return
    present = _ballot(threads, active, member)
    if "any" in ins.modifiers:
        result = agree != 0
    elif "all" in ins.modifiers:
        result = agree == present
    else:
        result = (agree == present) | (agree == 0)
    threads.write(ins.operands[0], result, active)


def active_mask(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run activemask."""
    threads.write(ins.operands[0], _ballot(threads, active, np.ones(len(active), np.bool_)), active)


def match(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run match.any.sync and match.all.sync."""
    value_at = 1 if "any" in ins.modifiers or len(ins.operands) == 3 else 2
    value = np.broadcast_to(threads.value(ins.operands[value_at], ins.type, active), active.shape).astype(np.uint64)
    member = _members(threads, ins, active, value_at + 1)
    key = np.stack([threads.warp[active].astype(np.uint64), value])
    _, group = np.unique(key, axis=1, return_inverse=True)
    masks = np.zeros(int(group.max(initial=-1)) + 1, np.uint32)
    np.bitwise_or.at(masks, group[member], _lane_bit(threads, active)[member])
    same = masks[group]
    if "any" in ins.modifiers:
        threads.write(ins.operands[0], same, active)
        return
    everyone = same == _ballot(threads, active, member)
    threads.write(ins.operands[0], np.where(everyone, same, np.uint32(0)), active)
    if value_at == 2:
        threads.write(ins.operands[1], everyone, active)


def reduce_warp(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run redux.sync."""
    if TYPE_BITS[ins.type] != 32 or ins.type == "f32":
        raise refuse(ins)
    value = np.broadcast_to(threads.value(ins.operands[1], ins.type, active), active.shape)
    member = _members(threads, ins, active, 2)
    operations: dict[str, tuple[Any, int]] = {
        "add": (np.add, 0), "min": (np.minimum, int(np.iinfo(value.dtype).max)),
        "max": (np.maximum, int(np.iinfo(value.dtype).min)), "and": (np.bitwise_and, -1), "or": (np.bitwise_or, 0),
        "xor": (np.bitwise_xor, 0),
    }  # fmt: skip
    operation, neutral = next(operations[m] for m in ins.modifiers if m in operations)
    start = np.array([neutral & 0xFFFFFFFF], np.uint32).view(value.dtype)[0]
    result = np.full(threads.warps, start, value.dtype)
    operation.at(result, threads.warp[active][member], value[member])
    threads.write(ins.operands[0], result[threads.warp[active]], active)


def _members(threads: Threads, ins: Instruction, active: Index, position: int) -> npt.NDArray[np.bool_]:
    if "sync" not in ins.modifiers:
        return np.ones(len(active), np.bool_)
    mask = threads.value(ins.operands[position], "u32", active)
    return (mask >> threads.lane[active].astype(np.uint32)) & np.uint32(1) != 0


def _lane_bit(threads: Threads, active: Index) -> npt.NDArray[np.uint32]:
    return np.uint32(1) << threads.lane[active].astype(np.uint32)


def _ballot(threads: Threads, active: Index, said_yes: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
    """Return for each active thread the mask of its warp's lanes that said yes."""
    lanes = np.zeros((threads.warps, WARP_LANES), np.bool_)
    yes = active[said_yes]
    lanes[threads.warp[yes], threads.lane[yes]] = True
    masks = np.packbits(lanes, axis=1, bitorder="little").view(np.uint32)[:, 0]
    return masks[threads.warp[active]]
