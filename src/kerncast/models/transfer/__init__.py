"""Models that carry a measured run over to another GPU."""

from kerncast.models.transfer.algorithm1 import Algorithm1
from kerncast.models.transfer.ceilings import (
    Ceilings,
    Demand,
    KernelCeilings,
    kernel_ceilings,
    kernel_rooflines,
    project,
)
from kerncast.models.transfer.checks import Check, Roofs, transfer_caveats, transfer_checks
from kerncast.models.transfer.machine_maxima import MachineMaxima, Maximum, maxima_of

__all__ = [
    "Algorithm1", "Ceilings", "Check", "Demand", "KernelCeilings", "MachineMaxima", "Maximum", "Roofs",
    "kernel_ceilings", "kernel_rooflines", "maxima_of", "project", "transfer_caveats", "transfer_checks",
]  # fmt: skip
