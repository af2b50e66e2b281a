"""NOUN Trace: what one execution of blocks logged, before any scaling."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.ptx.cfg import ControlFlowGraph
from kerncast.ptx.module import Function

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Allocation:
    """One buffer or module variable in global memory."""

    name: str
    address: int
    """as the kernel sees it"""
    start: int
    """offset in the arena that holds all of global memory"""
    nbytes: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """Distinct 32-byte sectors touched after some of the blocks have run, per allocation."""

    blocks: int
    """how many blocks had run"""
    read: Counts
    """[allocations] sectors that a load or an atomic touched"""
    written: Counts
    """[allocations] sectors that a store or an atomic touched"""
    either: Counts
    """[allocations]"""


@dataclass(frozen=True, slots=True)
class Trace:
    """Counts per executed block; the rows are in the order of ``block_ids``."""

    function: Function
    """the kernel with its calls inlined: instruction numbers refer to it"""
    cfg: ControlFlowGraph
    block_ids: Counts
    """[n] linear block numbers"""
    warp_executions: Counts
    """[n, instructions] warps that issued the instruction"""
    thread_executions: Counts
    """[n, instructions] threads that executed it, guards applied"""
    requests: Counts
    """[n, instructions] warps with at least one thread that accessed global memory"""
    sectors: Counts
    """[n, instructions] distinct 32-byte sectors of global memory per request, summed"""
    accesses: Counts
    """[n, instructions] threads that accessed global memory"""
    shared_requests: Counts
    """[n, instructions] warps with at least one thread that accessed shared memory"""
    shared_accesses: Counts
    """[n, instructions] threads that accessed shared memory"""
    local_accesses: Counts
    """[n, instructions] threads that accessed their own memory"""
    divergent_branches: Counts
    """[n] branches that split a warp"""
    footprints: tuple[Footprint, ...]
    """growing; the last one is after all blocks"""
    allocations: tuple[Allocation, ...]
    """buffers and module variables, in the order of the footprints"""
    memory: dict[str, npt.NDArray[Any]]
    """contents of each buffer after the run, by parameter name"""
    remarks: tuple[str, ...]
    """what a reader of the counts should know, such as that the text of printf was dropped"""
