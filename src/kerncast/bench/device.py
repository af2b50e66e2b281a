"""The harness's interface to a GPU: memory, code, and a queue of launches of which some are timed.

``cuda/device.py`` answers with a GPU; the tests answer with the executor on the CPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel
from kerncast.launch import Extent
from kerncast.measurements import ClockState, Machine

Bytes = npt.NDArray[np.uint8]
#: Kernel that has been loaded; what it is, only the device knows.
Handle = Any


@dataclass(frozen=True, slots=True)
class Call:
    """One launch, ready to be queued."""

    handle: Handle
    grid: Extent
    block: Extent
    shared_bytes: int
    """dynamic shared memory per block"""
    parameters: bytes
    """parameter block of the kernel, with device addresses"""


@dataclass(frozen=True, slots=True)
class Timed:
    """Launches between two events; gives one time, that of all of them together."""

    calls: tuple[Call, ...]
    as_graph: bool = False
    """whether the launches are queued as one CUDA graph, built beforehand"""


@dataclass(frozen=True, slots=True)
class Untimed:
    """Launches that take their place in the queue and are not timed."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy within the device's memory."""

    target: int
    source: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Flush:
    """Read so much that L2 holds nothing of what came before, and nothing that must be written back."""


Step = Timed | Untimed | Copy | Flush


class Device(Protocol):
    """One GPU, or the part of it that ``partition`` names."""

    @property
    def machine(self) -> Machine:
        """The GPU, its driver and the compiler."""

    def state(self) -> ClockState:
        """Return clocks, temperature and power at this moment."""

    def load(self, kernel: CompiledKernel) -> Handle:
        """Load a kernel's machine code."""

    def unload(self, handle: Handle) -> None:
        """Give back what ``load`` returned."""

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory, aligned to 256 bytes; raises BudgetExceededError where there is none."""

    def free(self, address: int) -> None:
        """Give back what ``allocate`` returned."""

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes to the device."""

    def clear(self, address: int, nbytes: int) -> None:
        """Fill memory with zeros."""

    def read(self, address: int, nbytes: int) -> Bytes:
        """Copy bytes from the device."""

    def run(self, steps: Sequence[Step], sm_count: int | None = None) -> tuple[float, ...]:
        """Queue all steps without a gap, wait for them, and return the seconds of each Timed one, in order.

        ``sm_count`` confines the launches to that many SMs; it must be one of ``partition_sizes``. Raises
        DeviceLostError where a kernel misbehaves or does not end.
        """

    def partition_sizes(self) -> tuple[int, ...]:
        """Return the numbers of SMs that launches can be confined to, ascending; empty where that is impossible."""

    def close(self) -> None:
        """Give back everything."""
