"""Barriers of a block: who waits, and when they may go on.

A barrier counts whole warps, as hardware did before Volta, so that a warp whose lanes have gone different ways still
arrives. Threads that have left the kernel are not waited for.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import KernelFault
from kerncast.execute.reference.threads import WARP_LANES, Index, Threads
from kerncast.ptx import Instruction

Mask = npt.NDArray[np.bool_]

_BARRIERS = 16
_NONE = -1


class Barriers:
    """All barriers of a batch of blocks."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._per_block = threads.warps_per_block
        self._waits_at = np.full(threads.warps, _NONE, np.int64)
        """[warps] barrier at which the warp waits"""
        self._expected = np.zeros(threads.warps, np.int64)
        """[warps] threads that the barrier waits for, as the warp says; 0 is the whole block"""
        self._passed = np.zeros((threads.blocks, _BARRIERS), np.int64)
        """[blocks, barriers] threads that have arrived without waiting (bar.arrive)"""
        self._instruction: npt.NDArray[Any] = np.full(threads.warps, None)
        """[warps] instruction by which the warp waits"""
        self._lanes = np.zeros((threads.warps, WARP_LANES), np.bool_)
        """[warps, lanes] whether the lane has arrived"""
        self._votes = np.zeros((threads.warps, WARP_LANES), np.bool_)
        """[warps, lanes] predicate that the lane gives to a reducing barrier (bar.red)"""
        self._reduces = False

    @property
    def waiting(self) -> Mask:
        """[warps] whether the warp waits."""
        waiting: Mask = self._waits_at != _NONE
        return waiting

    def arrive(self, ins: Instruction, active: Index) -> Index:
        """Let the warps of these threads wait, or only count them; returns those that wait."""
        warps, first = np.unique(self._threads.warp[active], return_index=True)
        barrier, expected = self._operands(ins, active, first)
        if "arrive" in ins.modifiers:
            np.add.at(self._passed, (warps // self._per_block, barrier), WARP_LANES)
            return warps[:0]
        self._waits_at[warps] = barrier
        self._expected[warps] = expected
        self._instruction[warps] = ins
        self._lanes[warps] = False
        self._lanes.reshape(-1)[active] = True
        if "red" in ins.modifiers:
            self._reduces = True
            self._votes.reshape(-1)[active] = self._threads.value(ins.operands[-1], "pred", active)
        return warps

    def release(self, ended: Mask) -> bool:
        """Let warps go on whose barrier is complete; returns whether there were any."""
        waits = self._waits_at.reshape(-1, self._per_block)
        gone = ended.reshape(waits.shape)
        released = False
        for barrier in np.unique(waits[waits != _NONE]).tolist():
            here = waits == barrier
            expected = np.where(here, self._expected.reshape(waits.shape), 0).max(axis=1)
            arrived = here.sum(axis=1) * WARP_LANES + self._passed[:, barrier]
            done = np.where(expected == 0, (here | gone).all(axis=1), arrived >= expected) & here.any(axis=1)
            complete = here & done[:, None]
            self._give_results(complete)
            self._passed[done, barrier] = 0
            self._waits_at[complete.ravel()] = _NONE
            released |= bool(done.any())
        return released

    def stuck(self) -> KernelFault:
        """Return the error for warps that wait in vain."""
        warp = int(np.flatnonzero(self.waiting)[0])
        thread = warp * WARP_LANES + int(np.flatnonzero(self._lanes[warp])[0])
        return KernelFault(
            f"threads wait at a barrier that the others never reach, such as {self._threads.describe(thread)}",
            where=self._instruction[warp].where or self._threads.program.function.name,
            cure="Let every thread of the block reach the same barrier.",
        )

    def _operands(self, ins: Instruction, active: Index, first: Index) -> tuple[Index, Index]:
        operands = ins.operands[1:-1] if "red" in ins.modifiers else ins.operands
        zeros = np.zeros(len(first), np.int64)
        numbers = [self._threads.values(operand, "u32", active)[first].astype(np.int64) for operand in operands]
        barrier, expected, *_ = (*numbers, zeros, zeros)
        if (barrier >= _BARRIERS).any() or (expected % WARP_LANES).any():
            raise KernelFault(
                f"a barrier is used with number {int(barrier.max())} for {int(expected.max())} threads",
                where=ins.where,
                cure="Barriers are numbered 0 to 15, and wait for a multiple of 32 threads.",
            )
        return barrier, expected

    def _give_results(self, complete: Mask) -> None:
        """Write what bar.red computes over the threads of a block that arrived together; ``complete`` is per block."""
        if not self._reduces:
            return
        for row in np.flatnonzero(complete.any(axis=1)).tolist():
            warps = row * self._per_block + np.flatnonzero(complete[row])
            reducing = [warp for warp in warps.tolist() if "red" in self._instruction[warp].modifiers]
            if not reducing:
                continue
            votes = self._votes[reducing][self._lanes[reducing]]
            results = {"popc": np.uint32(votes.sum()), "and": votes.all(), "or": votes.any()}
            for warp in reducing:
                ins = self._instruction[warp]
                threads = warp * WARP_LANES + np.flatnonzero(self._lanes[warp])
                result = next(value for name, value in results.items() if name in ins.modifiers)
                self._threads.write(ins.operands[0], np.full(len(threads), result), threads)
