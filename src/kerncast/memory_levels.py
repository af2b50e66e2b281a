"""NOUN MemoryLevels: the bytes that cross each level of one GPU's memory while a kernel runs."""

from dataclasses import dataclass

from kerncast.count import Count


@dataclass(frozen=True, slots=True)
class MemoryLevels:
    """What a level is asked for, whether it holds it or not: N+ of Van Lanker et al., Euro-Par 2024, equation 10.

    Unknown is None.
    """

    l1_bytes: Count | None
    """in whole sectors, of global and local memory; without shared memory"""
    shared_bytes: Count | None
    """that threads read and write"""
    shared_wavefronts: Count | None
    """cycles of shared memory that these take, bank conflicts included"""
    l2_bytes: Count | None
    dram_bytes: Count | None
