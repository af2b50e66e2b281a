"""Ceilings: what each part of a GPU sustains, by kernels that nothing else limits.

The kernels are in ``kernels/ceilings``; ``docs/ceilings.md`` says what each measures and what it does not tell.
"""

from kerncast.bench.ceilings.ceiling import SOURCES, Ceiling, chip_of
from kerncast.bench.ceilings.microbenchmarks import (
    atomics,
    clock,
    dram,
    l1,
    l2,
    latencies,
    launches,
    matrix_product,
    rates,
    shared,
    tensor_rates,
)
from kerncast.measurements.measurement import Machine

__all__ = ["SOURCES", "Ceiling", "ceilings_for"]


def ceilings_for(machine: Machine) -> tuple[Ceiling, ...]:
    """Return every ceiling that a machine can have, sized for it, the most important first."""
    chip = chip_of(machine)
    parts = (dram, l2, l1, shared, rates, tensor_rates, matrix_product, clock, launches, latencies, atomics)
    return tuple(ceiling for part in parts for ceiling in part(chip))
