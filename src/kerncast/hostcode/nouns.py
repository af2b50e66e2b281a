"""NOUN HostProgram: the launches that host code makes, with what is known of their values."""

from dataclasses import dataclass
from pathlib import Path

from kerncast.compile.nouns import CompileRequest, KernelSignature, Parameter

#: What stands in a launch file for a value, or a part of one, that the user has to decide.
UNDECIDED = "?"

#: A number, the text of a launch file for a buffer or a struct, or the extents of a grid (None: undecided).
HostResult = bool | int | float | str | tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class HostValue:
    """One value that host code passes to a launch."""

    expression: str
    """as written"""
    place: str
    """file and line; empty where the source says nothing"""
    value: HostResult | None
    """None where it is not known; a text with a question mark where a part of it is not"""
    notes: tuple[str, ...] = ()
    """what was assumed"""
    reason: str | None = None
    """why it is not known, where it is not"""

    @property
    def is_undecided(self) -> bool:
        """Whether the user has to decide it, or a part of it."""
        if isinstance(self.value, tuple):
            return None in self.value
        return self.value is None or (isinstance(self.value, str) and UNDECIDED in self.value)


@dataclass(frozen=True, slots=True)
class HostArgument:
    """What host code passes for one parameter."""

    parameter: Parameter
    value: HostValue


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """One launch that host code makes; for a kernel that it never launches, one with all values undecided."""

    kernel: str
    """name, or template instance as launch files write it; with a question mark where that is not known"""
    written: str
    """the kernel as host code names it"""
    place: str
    """file and line; empty where nothing launches the kernel"""
    grid: HostValue
    block: HostValue
    shared_bytes: HostValue
    arguments: tuple[HostArgument, ...]
    globals: tuple[HostArgument, ...] = ()
    """variables of the device that host code sets, and the kernel reads"""
    notes: tuple[str, ...] = ()
    is_reached: bool = True
    """whether it may happen: False where a condition around it is known not to hold"""

    @property
    def undecided(self) -> tuple[tuple[str, HostValue], ...]:
        """The values that the user has to decide, by their keys in the launch file."""
        named = [("grid", self.grid), ("block", self.block), ("shared_bytes", self.shared_bytes)]
        named += [(f"args.{name}", each.value) for name, each in zip(self.names, self.arguments, strict=True)]
        named += [(f"globals.{each.parameter.name}", each.value) for each in self.globals]
        if UNDECIDED in self.kernel:
            reason = "the host code does not say which instance"
            named.insert(0, ("kernel", HostValue(self.written, self.place, None, (), reason)))
        return tuple((name, value) for name, value in named if value.is_undecided)

    @property
    def names(self) -> tuple[str, ...]:
        """The keys of the arguments: the parameters' names, or their places where they have none."""
        return tuple(each.parameter.name or f"argument_{place}" for place, each in enumerate(self.arguments))


@dataclass(frozen=True, slots=True)
class HostProgram:
    """The kernels of a source and the launches that its host code makes."""

    kernels: tuple[KernelSignature, ...]
    launches: tuple[HostLaunch, ...]
    caveats: tuple[str, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()
    """macros of a Makefile that the source names, and that were not given otherwise"""


@dataclass(frozen=True, slots=True)
class HostJob:
    """A source, and the program that it belongs to."""

    request: CompileRequest
    arguments: tuple[str, ...] | None
    """the command line of the program, without its name; None where it is not given"""
    hosts: tuple[tuple[Path, tuple[Path, ...]], ...]
    """further sources of the program, each with its folders of headers"""


@dataclass(frozen=True, slots=True)
class HostReply:
    """The kernels of a source, and the launches of its host code as they were found."""

    kernels: tuple[KernelSignature, ...]
    launches: tuple[HostLaunch, ...]
    caveats: tuple[str, ...]
    uncalled: tuple[str, ...]
    """functions with launches that nothing calls in the sources read"""


class Undecided(Exception):  # noqa: N818  an answer, not a mishap
    """The value is not known: the message says why, as the end of "passes n, …"."""
