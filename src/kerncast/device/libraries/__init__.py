"""CUDA libraries, computed on the CPU: what a program calls is looked up by name."""

from dataclasses import dataclass

from kerncast.errors import UnsupportedError
from kerncast.execute.live import LiveMemory
from kerncast.recording import LibraryCall


@dataclass(frozen=True, slots=True)
class Called:
    """What came of a call."""

    status: int = 0
    """status of the library's own kind"""
    work: LibraryCall | None = None
    """the work that a GPU would have done; None where there was none"""


def call_library(name: str, operands: bytes, memory: LiveMemory) -> Called:
    """Do what a call of a library asks for; raises UnsupportedError for one that is not there."""
    del operands, memory
    raise UnsupportedError(f"{name} is not there")
