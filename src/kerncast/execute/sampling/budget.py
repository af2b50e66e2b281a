"""How much an execution may cost."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.errors import BudgetExceededError, MachineLimitError
from kerncast.traces import BlockCounts
from kerncast.units import GIB

#: What work is reckoned at: 4 x 10^8 thread-instructions per second of full warps without memory. One core with AVX-512
#: is 2 to 15 times as fast on the programs of examples/kernels. These are nominal seconds: a budget in them buys the
#: same work on every machine, busy or idle, so that equal input gives equal counts.
_STEP_SECONDS = 80e-9
_BLOCK_SECONDS = 7e-6
#: Wall time after which a launch is stopped: what ends by its steps has ended long before, also on a starved machine.
_RUNAWAY_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits that keep any user kernel finite; sampling aims far below them."""

    sample_seconds: float = 2.0
    """nominal seconds of work that the sample of blocks may cost"""
    block_steps: int = 50_000_000
    """loop iterations that the warps of one block may do before the kernel counts as endless"""
    seconds: float = _RUNAWAY_SECONDS
    """wall time of one launch, compiling included: it only stops what runs away, and the refusal says so"""
    memory_bytes: int = 4 * GIB
    """buffers, shared and local memory together"""

    @classmethod
    def for_sample(cls, seconds: float) -> "Budget":
        """Return a budget for a sample of so many nominal seconds."""
        return cls(sample_seconds=seconds, seconds=_RUNAWAY_SECONDS + seconds)

    @property
    def is_whole_grid(self) -> bool:
        """Whether every block is to run, whatever it costs."""
        return math.isinf(self.sample_seconds)


@dataclass(frozen=True, slots=True)
class WholeGrid(Budget):
    """Run every block: exact counts and final memory, whatever it costs."""

    sample_seconds: float = math.inf
    seconds: float = 3600.0


def nominal_seconds(counts: BlockCounts, lengths: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return [n] what each block that ran is reckoned to cost; ``lengths`` are those of the basic blocks.

    A warp instruction, a sector of global memory and a wavefront of shared memory cost one step each.
    """
    steps = counts.block_warps @ np.array(lengths, np.int64)
    steps = steps + counts.sectors.sum(axis=1) + counts.shared_wavefronts.sum(axis=1)
    return np.asarray(steps * _STEP_SECONDS + _BLOCK_SECONDS)


def runaway(seconds: float, where: str) -> MachineLimitError:
    """Return the error for a launch that the clock has stopped."""
    return MachineLimitError(
        f"the launch was stopped after {seconds:g} s of wall time, which only ends what runs away",
        where=where,
        cure="Check the loop's condition and the arguments, use a smaller problem, or a machine that is less busy.",
    )


def endless(limit: str, where: str) -> BudgetExceededError:
    """Return the error for a kernel that did not end within a limit."""
    return BudgetExceededError(
        f"the kernel did not end {limit}: an endless loop, a lock that lanes of one warp contend for, or too much work"
        " for one block",
        where=where,
        cure="Check the loop's condition and the arguments, or use a smaller problem.",
    )
