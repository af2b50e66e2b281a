"""Barriers of a block: who waits, and when they may go on.

A barrier counts whole warps, as hardware did before Volta, so that a warp whose lanes have gone different ways still
arrives. Threads that have left the kernel are not waited for.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import KernelFault
from kerncast.execute.reference.arithmetic import AnyArray, Sources, handles
from kerncast.execute.reference.memory import Memory, Part
from kerncast.execute.reference.threads import WARP_LANES, Index, Threads
from kerncast.execute.setup import phases
from kerncast.execute.setup.cluster_addresses import disordered, stuck
from kerncast.execute.setup.phases import COUNT_BITS, MOST, PHASE_SHIFT, VALID_SHIFT
from kerncast.ptx import Address, Immediate, Instruction, Sink, Trait

Mask = npt.NDArray[np.bool_]

_BARRIERS = 16
#: Warps of a group, which wait for one another behind the barriers of the block: 32 warps are 8 groups.
_GROUP_WARPS, _GROUPS = 4, 8
#: Blocks that the mask of a multicast may name.
_MOST_RANKS = 16
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
        self._passed = np.zeros((threads.blocks, _BARRIERS + _GROUPS), np.int64)
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

    def meet(self, ins: Instruction, active: Index) -> Index:
        """Let the warps of these threads wait for the others of their groups of four; returns them."""
        warps = np.unique(self._threads.warp[active])
        group = warps % self._per_block // _GROUP_WARPS
        self._waits_at[warps] = _BARRIERS + group
        present = np.minimum(self._per_block - _GROUP_WARPS * group, _GROUP_WARPS)
        self._expected[warps] = WARP_LANES * present
        self._instruction[warps] = ins
        self._lanes[warps] = False
        self._lanes.reshape(-1)[active] = True
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
        ins = self._instruction[warp]
        return stuck(ins, self._threads.describe(thread), ins.where or self._threads.program.function.name)

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


class ClusterBarrier:
    """The barriers of the clusters of a batch.

    A phase is over when every thread of the cluster that has not left has arrived. Threads arrive and wait by turns.
    """

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._per_cluster = threads.warps_per_block * threads.launch.cluster_blocks
        self._arrived = np.zeros(threads.count, np.bool_)
        """[threads] whether the thread has arrived in the phase that is not over"""
        self._owes = np.zeros(threads.count, np.bool_)
        """[threads] whether it has arrived and not waited since"""
        self.waiting: Mask = np.zeros(threads.warps, np.bool_)
        """[warps] whether some lane of the warp waits"""
        self._at: dict[int, tuple[Instruction, int]] = {}
        """by warp: where it waits, and its first thread that does"""

    def arrive(self, ins: Instruction, active: Index) -> None:
        """Let these threads arrive."""
        self._check(ins, active[self._owes[active]])
        self._arrived[active] = self._owes[active] = True

    def wait(self, ins: Instruction, active: Index) -> Index:
        """Let these threads wait; returns the warps that cannot go on yet."""
        self._check(ins, active[~self._owes[active]])
        self._owes[active] = False
        pending = active[self._arrived[active]]
        warps, first = np.unique(self._threads.warp[pending], return_index=True)
        self.waiting[warps] = True
        self._at |= {w: (ins, int(pending[f])) for w, f in zip(warps.tolist(), first.tolist(), strict=True)}
        return warps

    def release(self, alive: Mask) -> bool:
        """End the phases that are over, by which lanes [warps, 32] have not left; returns whether any was."""
        arrived = self._arrived.reshape(-1, self._per_cluster * WARP_LANES)
        missing = alive.reshape(arrived.shape) & ~arrived
        over = ~missing.any(axis=1) & arrived.any(axis=1)
        arrived[over] = False
        self.waiting.reshape(-1, self._per_cluster)[over] = False
        return bool(over.any())

    def stuck(self) -> KernelFault:
        """Return the error for warps that wait in vain."""
        ins, thread = self._at[int(np.flatnonzero(self.waiting)[0])]
        return stuck(ins, self._threads.describe(thread), ins.where or self._threads.program.function.name)

    def _check(self, ins: Instruction, wrong: Index) -> None:
        if len(wrong):
            where = ins.where or self._threads.program.function.name
            raise disordered(ins, self._threads.describe(int(wrong[0])), where)


# Barriers in shared memory (mbarrier): what threads, one after the other, do to them, and who asks in vain.
#
# Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.13.15; the coding of the 64 bits is our own.


class Mbarriers:
    """The mbarriers of a batch, and the lanes that wait for the end of a phase."""

    def __init__(self, threads: Threads, memory: Memory) -> None:
        self._threads = threads
        self._memory = memory
        self.changes = 0
        """updates so far"""
        self.failing = np.zeros((threads.warps, WARP_LANES), np.bool_)
        """[warps, lanes] whether the lane asked in vain when it asked last"""
        self.spun = np.zeros(threads.warps, np.bool_)
        """[warps] whether some lane of it has asked in vain since the warp had its turn"""
        self._asked: dict[int, tuple[Instruction, int, int]] = {}
        """instruction, mbarrier and word of each warp that asked in vain"""

    def run(self, ins: Instruction, active: Index) -> None:
        """Run an instruction on phases."""
        if ins.root == "clusterlaunchcontrol":
            self._refuse_cluster(ins, active)
            return
        operand = next(each for each in ins.operands if isinstance(each, Address))
        if "multicast::cluster" in ins.modifiers:
            masks = self._threads.values(ins.operands[1], "b16", active).astype(np.int64)
            for rank in range(_MOST_RANKS):
                chosen = active[masks >> rank & 1 > 0]
                if len(chosen):
                    self._run(ins, chosen, self._memory.in_shared(ins, (operand, 8), chosen, rank))
        else:
            self._run(ins, active, self._memory.in_shared(ins, (operand, 8), active))

    def _refuse_cluster(self, ins: Instruction, active: Index) -> None:
        """Run clusterlaunchcontrol.try_cancel: the answer, which is no, comes at once, as mbarriers are told."""
        answer, mbarrier = (each for each in ins.operands if isinstance(each, Address))
        count = Immediate(phases.ANSWER_BYTES, "int")
        tell = replace(ins, root="mbarrier", modifiers=("complete_tx", "b64"), operands=(mbarrier, count))
        place = self._memory.in_shared
        for rank in range(self._threads.launch.cluster_blocks) if ins.tells_cluster else (None,):
            part = place(ins, (answer, phases.ANSWER_BYTES), active, rank)
            part.data[part.offsets[:, None] + np.arange(phases.ANSWER_BYTES)] = 0
            self._run(tell, active, place(ins, (mbarrier, 8), active, rank))

    def _run(self, ins: Instruction, active: Index, part: Part) -> None:
        words = part.data[: len(part.data) // 8 * 8].view(np.uint64)
        places, own = (part.offsets // 8).tolist(), part.address.tolist()
        old = np.zeros(len(active), np.uint64)
        given = self._given(ins, active)
        if ins.opcode.has(Trait.WAIT):
            self._ask(ins, active, words[places], own)
            return
        for number, (place, address, numbers) in enumerate(zip(places, own, given.tolist(), strict=True)):
            old[number] = words[place]
            thread = int(active[number])
            words[place] = self._changed(ins, (int(words[place]), int(numbers)), address, thread)
        self.changes += 1
        if ins.opcode.has_result and not isinstance(ins.operands[0], Sink):
            self._threads.write(ins.operands[0], old, active)

    def _given(self, ins: Instruction, active: Index) -> AnyArray:
        position = 2 if ins.opcode.has_result else 1
        if len(ins.operands) <= position or ins.opcode.has(Trait.WAIT) or "multicast::cluster" in ins.modifiers:
            return np.ones(len(active), np.int64)
        return self._threads.values(ins.operands[position], "u32", active).astype(np.int64)

    def _changed(self, ins: Instruction, word_and_number: tuple[int, int], address: int, thread: int) -> int:
        """Return the word that a thread leaves."""
        word, number = word_and_number
        kind = ins.opcode.name
        if kind.endswith("inval"):
            return 0
        if kind.endswith("init"):
            if not 1 <= number <= MOST:
                raise self._error("overrun", ins, address, thread)
            return number | number << COUNT_BITS | 1 << VALID_SHIFT
        if not phases.is_valid(word):
            raise self._error("uninitialised", ins, address, thread)
        arrivals, more = number, 0
        if kind.endswith("_tx"):
            arrivals, more = 0, number if "expect" in kind else -number
        elif "expect_tx" in ins.modifiers:
            arrivals, more = 1, number
        elif ins.root == "cp":
            arrivals = int("noinc" in ins.modifiers)
        found = phases.changed(word, arrivals, arrivals if "arrive_drop" in kind else 0, more)
        if found is None:
            raise self._error("overrun", ins, address, thread)
        return found

    def complete(self, ins: Instruction, place: tuple[npt.NDArray[np.uint8], int], nbytes: int, thread: int) -> None:
        """Tell the mbarrier at an offset of shared memory that bytes have come which a copy was to bring."""
        memory, offset = place
        word = int(memory[offset : offset + 8].view(np.uint64)[0])
        if not phases.is_valid(word):
            raise self._error("uninitialised", ins, offset, thread)
        found = phases.changed(word, 0, 0, -nbytes)
        if found is None:
            raise self._error("overrun", ins, offset, thread)
        memory[offset : offset + 8] = np.frombuffer(found.to_bytes(8, "little"), np.uint8)
        self.changes += 1

    def _ask(self, ins: Instruction, active: Index, words: npt.NDArray[np.uint64], own: list[int]) -> None:
        """Answer whether the phases have ended."""
        invalid = np.flatnonzero(words >> np.uint64(VALID_SHIFT) & np.uint64(1) == 0)
        if len(invalid):
            raise self._error("uninitialised", ins, own[invalid[0]], int(active[invalid[0]]))
        if "parity" in ins.modifiers:
            asked = self._threads.values(ins.operands[2], "u32", active).astype(np.uint64) & np.uint64(1)
        else:
            asked = self._threads.values(ins.operands[2], "b64", active) >> np.uint64(PHASE_SHIFT)
        ended = words >> np.uint64(PHASE_SHIFT) != asked
        if ins.opcode.name.endswith("try_wait"):
            for number in self._waiting(ins, active, own):  # a suspended thread is woken by the end of its phase
                before = self._asked[int(self._threads.warp[active[number]])][2]
                is_asked = before >> PHASE_SHIFT == int(asked[number])
                ended[number] |= is_asked and phases.ended_meanwhile(int(words[number]), before)
        if not isinstance(ins.operands[0], Sink):
            self._threads.write(ins.operands[0], ended, active)
        warps = self._threads.warp[active]
        self.failing.reshape(-1)[active] = ~ended
        for number in np.flatnonzero(~ended)[::-1].tolist():
            self.spun[warps[number]] = True
            self._asked[int(warps[number])] = (ins, own[number], int(words[number]))

    def _waiting(self, ins: Instruction, active: Index, own: list[int]) -> list[int]:
        """Return which of these threads asked the same in vain when they asked last: by place and instruction."""
        failing = np.flatnonzero(self.failing.reshape(-1)[active]).tolist()
        asked = ((number, self._asked[int(self._threads.warp[active[number]])]) for number in failing)
        return [number for number, (by, address, _) in asked if by is ins and address == own[number]]

    def stuck(self) -> KernelFault:
        """Return the error for warps that wait for ever."""
        warp = int(np.flatnonzero(self.failing.any(axis=1))[0])
        ins, address, word = self._asked[warp]
        lane = int(np.flatnonzero(self.failing[warp])[0])
        thread = self._threads.describe(warp * WARP_LANES + lane)
        return phases.deadlock(address, word, thread, ins, self._threads.program)

    def _error(self, name: str, ins: Instruction, address: int, thread: int) -> KernelFault:
        make = phases.uninitialised if name == "uninitialised" else phases.overrun
        return make(address, 0, self._threads.describe(thread), ins, self._threads.program)


@handles("mbarrier.pending_count")
def _pending_count(ins: Instruction, src: Sources) -> AnyArray:
    del ins
    return (src(0, "u64") & np.uint64(MOST)).astype(np.uint32)
