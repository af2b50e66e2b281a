"""Asynchronous copies that are done as late as they may be: when their group is waited for.

A kernel that reads what it has not waited for is right as long as copies are done where they are issued, and wrong on a
GPU now and then. Here such a read is a fault, which names both lines. Not seen: a thread that waits for its own copies,
and reads those of another one without a barrier in between, where that one has waited before.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import KernelFault
from kerncast.execute.reference.threads import Index, Threads
from kerncast.ptx import Immediate, Instruction, Trait

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of one instruction, one of each of its threads."""

    ins: Instruction
    threads: Index
    source: Places
    """offset in global memory"""
    wanted: Places
    """bytes that are read; the others become zero"""
    target: Places
    """offset in the shared memory of the batch"""

    def only(self, chosen: "npt.NDArray[np.bool_]") -> "Copies":
        """Return those of some of the threads."""
        parts = (each[chosen] for each in (self.threads, self.source, self.wanted, self.target))
        return Copies(self.ins, *parts)


class LateCopies:
    """The copies of a batch of blocks that have been issued and not been waited for."""

    def __init__(self, threads: Threads, memory: Bytes, shared: Bytes) -> None:
        self._threads, self._memory, self._shared = threads, memory, shared
        self._ended: Places = np.zeros(threads.count, np.int64)
        """[threads] groups that have ended"""
        self._pending: list[tuple[Copies, Places]] = []
        """copies, and the number of the group of each thread"""
        self._filled_by: npt.NDArray[Any] = np.full(len(shared), None)
        """[bytes of shared memory] instruction whose copy is to fill it"""

    def issue(self, copies: Copies) -> None:
        """Take copies; what is in their place may not be read from now on."""
        self._pending.append((copies, self._ended[copies.threads]))
        self._filled_by[_places(copies.target, copies.ins.access_bytes)] = copies.ins

    def go_on(self, ins: Instruction, threads: Index) -> None:
        """End the group of these threads, or do the copies of all their groups but the latest.

        Those that arrive at an mbarrier are done there: by which wait that one is asked is not followed.
        """
        until: Places = np.zeros(self._threads.count, np.int64)
        if ins.name.startswith("cp.async.mbarrier."):
            until[threads] = self._ended[threads] + 1
            self._do(until)
        if ins.opcode.group != "copies":
            return
        if ins.opcode.has(Trait.COMMIT):
            self._ended[threads] += 1
        if ins.opcode.has(Trait.AWAIT):
            left = next((o.value for o in ins.operands if isinstance(o, Immediate)), 0)
            until[threads] = self._ended[threads] - left
            self._do(until)

    def finish(self, threads: Index) -> None:
        """Do all copies of these threads: an mbarrier is told when they are done."""
        until: Places = np.zeros(self._threads.count, np.int64)
        until[threads] = self._ended[threads] + 1
        self._do(until)

    def check(self, ins: Instruction, threads: Index, offsets: Places, size: int) -> None:
        """Raise KernelFault where some byte that threads read is still to come."""
        coming = self._filled_by[_places(offsets, size)] != None  # noqa: E711  element by element
        bad = np.flatnonzero(coming.any(axis=1))
        if len(bad):
            copy = self._filled_by[offsets[bad[0]] + int(np.argmax(coming[bad[0]]))]
            raise KernelFault(
                f"{self._threads.describe(int(threads[bad[0]]))} reads shared memory before the copy that fills it, "
                f"{copy.where or copy.name}, was waited for",
                where=ins.where or self._threads.program.function.name,
                cure="Wait for the group of the copy (cp.async.wait_group, __pipeline_wait_prior), then at a barrier.",
            )

    def _do(self, until: Places) -> None:
        """Do the copies of each thread in groups before a number."""
        left = []
        for copies, group in self._pending:
            due = group < until[copies.threads]
            if due.any():
                self._fill(copies.only(due))
            if not due.all():
                left.append((copies.only(~due), group[~due]))
        self._pending = left

    def _fill(self, copies: Copies) -> None:
        size = copies.ins.access_bytes
        rows = np.zeros((len(copies.threads), size), np.uint8)
        for nbytes in np.unique(copies.wanted[copies.wanted > 0]).tolist():
            which = copies.wanted == nbytes
            rows[which, :nbytes] = self._memory[_places(copies.source[which], nbytes)]
        places = _places(copies.target, size)
        self._shared[places] = rows
        self._filled_by[places] = None


def _places(starts: Places, size: int) -> Places:
    return starts[:, None] + np.arange(size)
