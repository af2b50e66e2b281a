"""NOUN Program: a kernel as micro-ops, what each costs an SM and what it waits for."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

#: A micro-op that always runs when its basic block does; smaller weights run in so many of so many executions.
FULL_WEIGHT = 256
MOST_SOURCES, MOST_DESTINATIONS = 6, 4
NO_REGISTER = -1

Ints = npt.NDArray[np.int32]


class Pipe(IntEnum):
    """What executes a micro-op in a sub-partition; one has an interval and a latency on each architecture."""

    FMA = 0
    ALU = 1
    IMAD = 2
    """32-bit integer multiply-add; where the FMA pipe does it, it takes that one too"""
    XU = 3
    LSU = 4
    FP64 = 5
    FP16 = 6
    TENSOR = 7
    BRANCH = 8
    UNIFORM = 9


class Memory(IntEnum):
    """What a micro-op asks of memory or of the block's other warps."""

    NONE = 0
    LOAD = 1
    """global or local"""
    STORE = 2
    ATOMIC = 3
    """its result is read"""
    REDUCTION = 4
    SHARED_LOAD = 5
    SHARED_STORE = 6
    SHARED_ATOMIC = 7
    SHARED_ATOMIC_JOINED = 8
    """its lanes count as one, because the compiler joins them"""
    SHARED_ATOMIC_JOINED_BY_ALL = 9
    """likewise, where all 32 lanes take part"""
    BARRIER = 10


@dataclass(frozen=True, slots=True)
class Program:
    """The micro-ops of one kernel on one architecture, basic block after basic block, in the order of issue."""

    starts: Ints
    """[basic blocks + 1] first micro-op of each basic block of the PTX"""
    leader: Ints
    """[basic blocks] the block with whose micro-ops it is issued: itself for most; the others have none of their own"""
    pipe: Ints
    """[n] Pipe"""
    memory: Ints
    """[n] Memory"""
    cycles: npt.NDArray[np.float32]
    """[n] that it occupies its pipe; 0: what the architecture says for the pipe"""
    latency: npt.NDArray[np.float32]
    """[n] cycles from issue to result; 0: what the architecture says for the pipe or the memory"""
    weight: Ints
    """[n] of FULL_WEIGHT: in so many executions of its leader it runs"""
    phase: Ints
    """[n] of FULL_WEIGHT: it runs in execution k where (k x weight + phase) modulo FULL_WEIGHT < weight"""
    sources: Ints
    """[n, MOST_SOURCES] registers that it waits for, or NO_REGISTER"""
    destinations: Ints
    """[n, MOST_DESTINATIONS]"""
    accesses: Ints
    """[n, MOST_DESTINATIONS] PTX instructions whose recorded access it makes: several where the compiler joins them"""
    instruction: Ints
    """[n] PTX instruction that it comes from"""
    registers: int
    """how many there are; numbers are below"""
