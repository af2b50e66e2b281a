"""What-if curves: occupancy against block size, registers per thread and shared memory per block.

Each step of a curve is an answer of ``occupancy``; between its first and its last value nothing changes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from kerncast.architecture import WARP_SIZE, Architecture
from kerncast.occupancy import BlockRequest, Limiter, Occupancy, occupancy
from kerncast.occupancy_advice import with_shared_bytes


class Parameter(StrEnum):
    """What a curve varies; the others stay as the block has them."""

    THREADS = "threads_per_block"
    REGISTERS = "registers_per_thread"
    SHARED = "shared_bytes_per_block"


@dataclass(frozen=True, slots=True)
class Step:
    """A range of values with one answer."""

    first: int
    last: int
    """of the range, both included"""
    found: Occupancy


@dataclass(frozen=True, slots=True)
class Curve:
    """Occupancy against one parameter, from the least value to the most that a block may have."""

    parameter: Parameter
    own: int
    """the block's own value, which may be beyond the last step"""
    steps: tuple[Step, ...]


def occupancy_curves(request: BlockRequest, a: Architecture, preferred_bytes: int | None = None) -> tuple[Curve, ...]:
    """Return three curves through one block. Where not even one fits, a step has 0 blocks and the limiter none-fits.

    With 40 registers per thread on 7.0, a block of 256 threads could have 32 without losing warps:

    >>> from kerncast.architecture import load_architecture
    >>> _, registers, _ = occupancy_curves(BlockRequest(256, 40), load_architecture("sm_70"))
    >>> [(step.last, step.found.warps_per_sm) for step in registers.steps[:3]]
    [(32, 64), (40, 48), (48, 40)]
    """
    ends = (
        (Parameter.THREADS, 1, (*range(WARP_SIZE, a.max_threads_per_block, WARP_SIZE), a.max_threads_per_block)),
        (Parameter.REGISTERS, 0, range(a.max_registers_per_thread + 1)),
        (Parameter.SHARED, 0, _shared_ends(a, preferred_bytes)),
    )
    return tuple(
        Curve(
            parameter,
            value_of(request, parameter),
            _merged(first, ((last, occupancy(varied(request, parameter, last), a, preferred_bytes)) for last in lasts)),
        )
        for parameter, first, lasts in ends
    )


def value_of(request: BlockRequest, parameter: Parameter) -> int:
    """Return what a block has of a parameter."""
    return {
        Parameter.THREADS: request.threads,
        Parameter.REGISTERS: request.registers_per_thread,
        Parameter.SHARED: request.shared_bytes,
    }[parameter]


def varied(request: BlockRequest, parameter: Parameter, value: int) -> BlockRequest:
    """Return the block with another value of one parameter."""
    if parameter is Parameter.SHARED:
        return with_shared_bytes(request, value)
    if parameter is Parameter.THREADS:
        return replace(request, threads=value)
    return replace(request, registers_per_thread=value)


def _shared_ends(a: Architecture, preferred_bytes: int | None) -> list[int]:
    """Return all totals of a block beyond which fewer blocks share an SM's memory, whatever its carve-out."""
    unit, most = a.shared_allocation_bytes, a.shared_bytes_per_block_optin
    sizes = {a.shared_bytes_per_sm, *(() if preferred_bytes is None else a.shared_carveouts_bytes or ())}
    totals = {
        size // blocks // unit * unit - a.reserved_shared_bytes_per_block
        for size in sizes
        for blocks in range(1, a.max_blocks_per_sm + 2)  # with one more than that, shared memory is not what limits
    }
    return sorted({most, *(total for total in totals if 0 <= total < most)})


def _merged(first: int, answers: Iterable[tuple[int, Occupancy]]) -> tuple[Step, ...]:
    """Return steps of neighbouring values with equal answers; each answer holds from the last one's value on."""
    steps: list[Step] = []
    for last, found in answers:
        if steps and _shown(steps[-1].found) == _shown(found):
            steps[-1] = replace(steps[-1], last=last)
        else:
            steps.append(Step(steps[-1].last + 1 if steps else first, last, found))
    return tuple(steps)


def _shown(found: Occupancy) -> tuple[int, int, Limiter]:
    return found.blocks_per_sm, found.warps_per_sm, found.limiter
