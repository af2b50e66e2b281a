"""One streaming multiprocessor: micro-ops of its blocks against its pipes, its caches and its share of memory."""

from kerncast.models.sm.micro_ops import FULL_WEIGHT, MOST_DESTINATIONS, MOST_SOURCES, Memory, Pipe, Program
from kerncast.models.sm.multiprocessor import SM, MemoryShares, sm_of
from kerncast.models.sm.results import Simulated, Stall
from kerncast.models.sm.whole_grid import Slots

__all__ = [
    "FULL_WEIGHT", "MOST_DESTINATIONS", "MOST_SOURCES", "SM", "Memory", "MemoryShares", "Pipe", "Program",
    "Simulated", "Slots", "Stall", "sm_of",
]  # fmt: skip
