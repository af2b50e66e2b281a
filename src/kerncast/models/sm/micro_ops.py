"""NOUN Program: a kernel as micro-ops, what each costs an SM and what it waits for."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

#: Weight of a micro-op that runs in every execution of its basic block; one of weight w runs in w of 256.
FULL_WEIGHT = 256
#: Registers that a micro-op names at most. Of more that it would wait for, the latest are kept: they arrive last.
MOST_SOURCES, MOST_DESTINATIONS = 10, 4
NO_REGISTER = -1
#: Barriers of a block that threads can name.
BARRIERS = 16
#: Groups of one kind that a warp remembers; a wait that lets more of them go on waits for the oldest of these.
MOST_GROUPS = 16

Ints = npt.NDArray[np.int32]


class Pipe(IntEnum):
    """Execution pipe of a sub-partition; each has an interval and a latency on each architecture."""

    FMA = 0
    """32-bit floating point"""
    ALU = 1
    """integer and logic"""
    IMAD = 2
    """32-bit integer multiply-add; it takes the FMA pipe too where that one does it"""
    XU = 3
    """special functions and conversions"""
    LSU = 4
    """loads, stores and exchanges between lanes"""
    FP64 = 5
    FP16 = 6
    TENSOR = 7
    BRANCH = 8
    UNIFORM = 9
    TENSOR_MEMORY = 10
    """the way between registers and tensor memory"""


class Memory(IntEnum):
    """Request of a micro-op to memory or to the block's other warps."""

    NONE = 0
    LOAD = 1
    """Loads from global or local memory."""
    STORE = 2
    ATOMIC = 3
    """Updates global memory, and its result is read."""
    REDUCTION = 4
    """Updates global memory; nothing reads its result, so no warp waits for it."""
    SHARED_LOAD = 5
    SHARED_STORE = 6
    SHARED_ATOMIC = 7
    SHARED_ATOMIC_JOINED = 8
    """Its lanes count as one, because the compiler joins them."""
    SHARED_ATOMIC_JOINED_BY_ALL = 9
    """Its lanes count as one where all 32 take part."""
    BARRIER = 10
    ATOMIC_JOINED = 11
    ATOMIC_JOINED_BY_ALL = 12
    REDUCTION_JOINED = 13
    REDUCTION_JOINED_BY_ALL = 14
    COPY = 15
    """Copies from global to shared memory; no register waits for it, but a group does."""
    COMMIT = 16
    """Ends a group of asynchronous operations."""
    AWAIT = 17
    """Waits until all groups of asynchronous operations but the latest ones are done."""
    PRODUCT = 18
    """Its part of a product of matrices by four warps; it queues for its pipe, and a group waits for it."""
    ARRIVE = 19
    """Arrives at a barrier of the block, and goes on."""
    PHASE = 20
    """Changes the phase of an mbarrier: initialises it, arrives, or expects bytes."""
    TELL = 21
    """Arrives at an mbarrier when the earlier operations of a group are done, and goes on."""
    WAIT = 22
    """Waits for the end of a phase of an mbarrier."""
    ASK = 23
    """Asks for the end of a phase of an mbarrier, and goes on: what reads the answer waits."""
    BULK = 24
    """Asks the SM's copy engine for many bytes; an mbarrier is told when they are there, or a group waits for them."""
    TENSOR_PRODUCT = 25
    """A product in tensor memory, which all sub-partitions compute together; it queues, and an mbarrier is told."""
    TENSOR_COPY = 26
    """Copies from shared to tensor memory, in the same queue."""


#: From this one on: what concerns mbarriers and the engines that tell them.
FIRST_OF_EVENTS = Memory.PHASE


class Group(IntEnum):
    """The kinds of groups of asynchronous operations; groups of one kind are waited for in their order."""

    COPIES = 0
    PRODUCTS = 1
    BULK = 2
    """bulk copies from shared memory, until they are written"""
    BULK_READS = 3
    """the same until shared memory has been read"""
    TENSOR = 4
    """products in tensor memory, and copies to it"""


#: By atomic, what it is where the compiler joins its lanes: any of them, or all 32 only.
JOINED = {
    Memory.ATOMIC: (Memory.ATOMIC_JOINED, Memory.ATOMIC_JOINED_BY_ALL),
    Memory.REDUCTION: (Memory.REDUCTION_JOINED, Memory.REDUCTION_JOINED_BY_ALL),
    Memory.SHARED_ATOMIC: (Memory.SHARED_ATOMIC_JOINED, Memory.SHARED_ATOMIC_JOINED_BY_ALL),
}


@dataclass(frozen=True, slots=True)
class Program:
    """The micro-ops of one kernel on one architecture, basic block after basic block, in the order of issue."""

    starts: Ints
    """[basic blocks + 1] first micro-op of each basic block of the PTX"""
    leader: Ints
    """[basic blocks] block with whose micro-ops it is issued; itself for most, the others have no micro-ops"""
    pipe: Ints
    """[n] Pipe that executes it"""
    memory: Ints
    """[n] Memory request that it makes"""
    cycles: npt.NDArray[np.float32]
    """[n] cycles that it occupies its pipe; 0: the pipe's interval on the architecture"""
    latency: npt.NDArray[np.float32]
    """[n] cycles from issue to result; 0: the latency of the pipe or the memory on the architecture"""
    weight: Ints
    """[n] executions of its leader in which it runs, out of FULL_WEIGHT"""
    phase: Ints
    """[n] offset that says which: it runs in execution k where (k x weight + phase) modulo FULL_WEIGHT < weight"""
    sources: Ints
    """[n, MOST_SOURCES] registers that it waits for, or NO_REGISTER"""
    destinations: Ints
    """[n, MOST_DESTINATIONS] registers that it writes, or NO_REGISTER"""
    accesses: Ints
    """[n, MOST_DESTINATIONS] PTX instructions whose recorded access it makes; several where the compiler joins them"""
    group: Ints
    """[n] Group that it belongs to, ends or waits for; of a barrier of the block its number"""
    left: Ints
    """[n] groups that it lets go on where it waits for the others; of a barrier the warps that meet, 0: all"""
    instruction: Ints
    """[n] PTX instruction that it comes from"""
    registers: int
    """number of registers; all register numbers are below it"""
