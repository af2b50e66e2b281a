"""How much an execution may cost."""

from dataclasses import dataclass

from kerncast.errors import BudgetExceededError
from kerncast.units import GIB


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits that keep any user kernel finite; sampling aims far below them."""

    sample_thread_instructions: int = 200_000_000
    """blocks are sampled up to this much work, so that equal input gives equal counts on every machine"""
    sample_blocks: int = 50_000
    """and up to so many of them"""
    block_steps: int = 50_000_000
    """loop iterations that the warps of one block may do before the kernel counts as endless"""
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


def endless(limit: str, where: str) -> BudgetExceededError:
    """Return the error for a kernel that did not end within a limit."""
    return BudgetExceededError(
        f"the kernel did not end {limit}: an endless loop, a lock that lanes of one warp contend for, or too much work"
        " for one block",
        where=where,
        cure="Check the loop's condition and the arguments, or use a smaller problem.",
    )
