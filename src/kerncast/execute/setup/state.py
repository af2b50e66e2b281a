"""What an engine is given, and what it gives back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from kerncast.caveats import Caveat, CaveatKind
from kerncast.execute.sampling.budget import Budget
from kerncast.execute.setup.arena import Arena, Touched
from kerncast.execute.setup.arguments import BoundArgument
from kerncast.execute.setup.layout import Program
from kerncast.launch import Launch
from kerncast.ptx import Instruction
from kerncast.traces import BlockCounts

# What a reader of the counts should know: remarks that both engines make.


PRINTF = Caveat(CaveatKind.PRINTF_LEFT_OUT)


def absent_lanes(ins: Instruction) -> Caveat:
    """Return the remark on a warp-wide instruction whose member mask names lanes that are elsewhere."""
    return Caveat.of(CaveatKind.LANES_ABSENT, ins.where or ins.name)


#: What is counted of each instruction that accesses memory, by the names of BlockCounts.
ACCESS_COUNTS = (
    "requests", "sectors", "lines", "accesses", "shared_requests", "shared_accesses", "shared_wavefronts",
    "shared_conflicts", "local_requests", "local_accesses", "local_sectors", "local_lines", "contention",
)  # fmt: skip

#: Called with how many blocks have run, and with how many are to run.
Progress = Callable[[int, int], None]
#: Called with how many blocks have run.
Report = Callable[[int], None]


def is_switched(ins: Instruction) -> bool:
    """Return whether a guard switches threads off for an instruction; that of a branch decides where they go."""
    return ins.guard is not None and not ins.is_jump


@dataclass(frozen=True, slots=True)
class Setting:
    """A launch that is ready to run."""

    linked: Program
    """the program before its global variables have addresses: the same for all launches of a kernel"""
    program: Program
    launch: Launch
    arena: Arena
    parameters: bytes
    budget: Budget
    touched: Touched
    arguments: tuple[BoundArgument, ...]
    remarks: tuple[Caveat, ...] = ()
    """on variables that the host would set"""


class Engine(Protocol):
    """Runs blocks of one launch."""

    slowness: ClassVar[float]
    """nominal cost of a step, relative to one of compiled code"""

    @property
    def remarks(self) -> tuple[Caveat, ...]:
        """What a reader of the counts should know."""

    @property
    def printed(self) -> str:
        """What the kernel printed."""

    def check_room(self, blocks: int) -> None:
        """Raise BudgetExceededError if the counts of so many blocks take too much memory."""

    def run(self, blocks: list[int], report: Report | None) -> None:
        """Run these blocks of the grid; raises KernelFault or BudgetExceededError."""

    def thread_instructions(self) -> int:
        """Return how many instructions all threads have executed so far."""

    def counts(self) -> BlockCounts:
        """Return the counts of all blocks that have run, in the order in which they were given."""
