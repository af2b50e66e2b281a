"""A place in a run of host code: a function, how it was called, and how far it is."""

from dataclasses import dataclass

from kerncast.compile.host.tree import Call, Node


@dataclass(frozen=True, slots=True)
class Frame:
    """A call whose function is looked into: its parameters are the arguments of this call."""

    call: Call
    function: Node
    outer: "Frame | None"


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in a function: just before the node of this order."""

    order: int
    function: Node
    frame: Frame | None
