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
    """expression as written in the host code"""
    place: str
    """file and line; empty where the source says nothing"""
    value: HostResult | None
    """value passed; None where unknown, a text with a question mark where a part is unknown"""
    notes: tuple[str, ...] = ()
    """assumptions behind the value"""
    reason: str | None = None
    """reason why the value is unknown; None where it is known"""

    @property
    def is_undecided(self) -> bool:
        """Whether the user has to decide it, or a part of it."""
        if isinstance(self.value, tuple):
            return None in self.value
        return self.value is None or (isinstance(self.value, str) and UNDECIDED in self.value)


@dataclass(frozen=True, slots=True)
class HostArgument:
    """The value that host code passes for one parameter."""

    parameter: Parameter
    value: HostValue


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """One launch that host code makes; for a kernel that it never launches, one with all values undecided."""

    kernel: str
    """name, or template instance as launch files write it; with a question mark where a part is unknown"""
    written: str
    """name of the kernel as host code writes it"""
    place: str
    """file and line; empty where nothing launches the kernel"""
    grid: HostValue
    block: HostValue
    shared_bytes: HostValue
    arguments: tuple[HostArgument, ...]
    globals: tuple[HostArgument, ...] = ()
    """device variables that host code sets and the kernel reads"""
    notes: tuple[str, ...] = ()
    is_reached: bool = True
    """whether the launch may happen; False where a condition around it is known not to hold"""

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
    """macros of a Makefile that the source names and the user does not give"""


@dataclass(frozen=True, slots=True)
class HostJob:
    """A source, and the program that it belongs to."""

    request: CompileRequest
    arguments: tuple[str, ...] | None
    """command line of the program, without its name; None where it is not given"""
    hosts: tuple[tuple[Path, tuple[Path, ...]], ...]
    """further sources of the program, each with its folders of headers"""


@dataclass(frozen=True, slots=True)
class HostReply:
    """The kernels of a source, and the launches of its host code as they were found."""

    kernels: tuple[KernelSignature, ...]
    launches: tuple[HostLaunch, ...]
    caveats: tuple[str, ...]
    uncalled: tuple[str, ...]
    """functions with launches that no source read calls"""


class Undecided(Exception):  # noqa: N818  an answer, not a mishap
    """The value is not known: the message says why, as the end of "passes n, …"."""
