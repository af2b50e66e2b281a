"""NOUN ProfiledLaunch: a profile with the GPU that it is for and the texts of its source."""

from dataclasses import dataclass

from kerncast.caveats import Caveat
from kerncast.gpu import GPU
from kerncast.profiles.kernel_profile import KernelProfile


@dataclass(frozen=True, slots=True)
class SourceText:
    """The lines of one source file."""

    file: str
    """name of the file in the profile"""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfiledLaunch:
    """A profile, the GPU that it is for, and the source texts that could be read."""

    profile: KernelProfile
    gpu: GPU | None = None
    assumed: tuple[Caveat, ...] = ()
    """assumptions about the GPU's name"""
    sources: tuple[SourceText, ...] = ()

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """All caveats on the numbers."""
        machine = self.profile.machine
        return (*self.assumed, *self.profile.caveats, *(machine.doubts if machine else ()))
