"""How much an execution may cost."""

from dataclasses import dataclass

from kerncast.units import GIB


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits that keep any user kernel finite; sampling aims far below them."""

    sample_thread_instructions: int = 20_000_000
    """blocks are sampled up to this much work, so that equal input gives equal counts on every machine"""
    sample_blocks: int = 50_000
    """and up to so many of them"""
    block_steps: int = 2_000_000
    """basic blocks that one batch may step through before the kernel counts as endless"""
    seconds: float = 60.0
    """wall time of one launch"""
    memory_bytes: int = 4 * GIB
    """buffers, shared and local memory together"""


@dataclass(frozen=True, slots=True)
class WholeGrid(Budget):
    """Run every block: exact counts and final memory, whatever the time."""

    sample_thread_instructions: int = 10**18
    sample_blocks: int = 10**18
    seconds: float = 3600.0
