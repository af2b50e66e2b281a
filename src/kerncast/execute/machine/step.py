"""NOUN Step: one machine instruction, and how often it runs with a basic block of the PTX."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """Executions of one machine instruction, as multiples of those of one PTX basic block."""

    opcode: str
    work: str
    """Nsight Compute's class"""
    pipe: str
    block: int
    """of the PTX: the instruction runs with its warps and threads"""
    times: float
    """executions for each execution of the block"""
    on: float
    """share of the threads whose predicate holds, 0 to 1"""
