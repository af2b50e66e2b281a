"""NOUN Memory: what a launch of a running program saw of the GPU's memory, by the recording that holds it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Region:
    """An allocation, and what it held."""

    name: str
    address: int
    """address that the kernel sees"""
    nbytes: int
    chunks: tuple[str, ...] = ()
    """digests of its chunks (see kerncast.recording.contents), empty for zeros; () where it was not kept: zeros do"""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one launch, before it ran, and its raw parameters."""

    file: Path
    """recording, or the part of one that holds contents"""
    parameters: bytes
    """parameter block, as the kernel finds it"""
    regions: tuple[Region, ...]
    """allocations in the order of their addresses"""
    variables: tuple[tuple[str, int], ...] = ()
    """address of each module variable, by its name in PTX"""
    is_whole: bool = True
    """whether all is kept that may decide what the kernel does"""
