"""NOUN Trace: what one execution of blocks logged, before any scaling."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat
from kerncast.ptx import ControlFlowGraph, Function

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Allocation:
    """One buffer or module variable in global memory."""

    name: str
    address: int
    """address that the kernel sees"""
    start: int
    """offset in the arena that holds all of global memory"""
    nbytes: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """Distinct 32-byte sectors touched after some of the blocks have run, per allocation."""

    blocks: int
    """number of blocks that had run"""
    read: Counts
    """[allocations] sectors that a load or an atomic touched"""
    written: Counts
    """[allocations] sectors that a store or an atomic touched"""
    either: Counts
    """[allocations] sectors that any access touched"""


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """The counts of the blocks of threads that have run, one row for each."""

    block_warps: Counts
    """[n, basic blocks] warps that ran the basic block"""
    block_threads: Counts
    """[n, basic blocks] threads that ran it"""
    guarded: tuple[int, ...]
    """instructions with a guard that switches threads off"""
    guarded_threads: Counts
    """[n, guarded] threads that executed them"""
    accessing: tuple[int, ...]
    """instructions that access memory"""
    requests: Counts
    """[n, accessing] warps with at least one thread that accessed global memory"""
    sectors: Counts
    """[n, accessing] distinct 32-byte sectors of global memory per request, summed"""
    lines: Counts
    """[n, accessing] distinct 128-byte lines of global memory per request, summed"""
    accesses: Counts
    """[n, accessing] threads that accessed global memory"""
    shared_requests: Counts
    """[n, accessing] warps with at least one thread that accessed shared memory"""
    shared_accesses: Counts
    """[n, accessing] threads that accessed shared memory"""
    shared_wavefronts: Counts
    """[n, accessing] passes of shared memory that the requests take, with banks of 4 bytes"""
    shared_conflicts: Counts
    """[n, accessing] passes beyond what requests of this width take without a bank conflict"""
    local_requests: Counts
    """[n, accessing] warps with at least one thread that accessed its own memory"""
    local_accesses: Counts
    """[n, accessing] threads that accessed their own memory"""
    local_sectors: Counts
    """[n, accessing] distinct 32-byte sectors of local memory per request, summed; lanes lie interleaved by words"""
    local_lines: Counts
    """[n, accessing] distinct 128-byte lines of local memory per request, summed"""
    contention: Counts
    """[n, accessing] atomics: threads of a request that update its most wanted address, summed over requests"""
    divergent_branches: Counts
    """[n] branches that split a warp"""
    longest_warp: Counts
    """[n] instructions that the busiest warp of the block issued"""


@dataclass(frozen=True, slots=True)
class Trace:
    """Counts per executed block of threads; the rows are in the order of ``block_ids``."""

    function: Function
    """kernel with its calls inlined; instruction numbers refer to it"""
    cfg: ControlFlowGraph
    block_ids: Counts
    """[n] linear block numbers"""
    counts: BlockCounts
    footprints: tuple[Footprint, ...]
    """footprints after more and more blocks; the last one is after all"""
    allocations: tuple[Allocation, ...]
    """buffers and module variables, in the order of the footprints"""
    memory: dict[str, npt.NDArray[Any]]
    """contents of each buffer after the run, by parameter name"""
    remarks: tuple[Caveat, ...]
    """caveats on the counts, such as that the cost of printf is left out"""
    printed: str = ""
    """output of printf in the blocks that ran, in the order of execution; at most 64 KiB"""

    @property
    def warp_executions(self) -> Counts:
        """[n, instructions] warps that issued each instruction."""
        return np.repeat(self.counts.block_warps, self.cfg.lengths, axis=1)

    @property
    def thread_executions(self) -> Counts:
        """[n, instructions] threads that executed each instruction, guards applied."""
        threads = np.repeat(self.counts.block_threads, self.cfg.lengths, axis=1)
        threads[:, list(self.counts.guarded)] = self.counts.guarded_threads
        return threads
