"""One launch in a function template stands for all instances of the function: what they agree on, and what not."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kerncast.compile.host.parameters import OF_FIRST_CALL
from kerncast.compile.host.program import Program
from kerncast.compile.host.tree import Node
from kerncast.compile.host_launches import UNDECIDED, HostArgument, HostLaunch, HostValue

_BETWEEN_BRACKETS = re.compile(r"(?<=[\[(])[^\])]*(?=[\])])")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one instance of a function launches at a place."""

    rank: int
    node: Node
    launch: HostLaunch


def merged(program: Program, candidates: Sequence[Candidate]) -> HostLaunch:
    """Return the launch of the instance that is called first, and say where others of the same rank differ."""
    best = max((each.launch.is_reached, each.rank) for each in candidates)
    left = [each for each in candidates if (each.launch.is_reached, each.rank) == best]
    if left[0].launch.kernel == UNDECIDED:
        return left[0].launch  # one block stands for all that a macro launches
    order = [_called_at(program, each.node) for each in left]
    is_ordered = len({each[0] for each in order}) == 1 and order[0][0] >= 0
    if is_ordered:
        left = [each for _, each in sorted(zip(order, left, strict=True), key=lambda pair: pair[0])]
    name = f"{len(left)} instances of {left[0].node.function.name}"
    launch = left[0].launch
    for other in left[1:]:
        launch = _beside(launch, other.launch, name, is_ordered=is_ordered)
    return launch


def _called_at(program: Program, node: Node) -> tuple[int, int]:
    """Return which function calls the one of a node first, and where; negative where that is not known."""
    call = program.caller.get(node.function.order)
    return (call.node.function.order, call.node.order) if call is not None else (-1, -1)


def _beside(launch: HostLaunch, other: HostLaunch, name: str, *, is_ordered: bool) -> HostLaunch:
    def common(mine: HostValue, theirs: HostValue) -> HostValue:
        if mine.value == theirs.value or mine.is_undecided:
            return mine
        if is_ordered:
            note = f"{OF_FIRST_CALL} {name}"
            return mine if note in mine.notes else replace(mine, notes=(*mine.notes, note))
        return replace(mine, value=_undecided(mine), reason=f"{name} give it different values")

    if len(launch.arguments) != len(other.arguments):
        return launch
    return replace(
        launch,
        grid=common(launch.grid, other.grid),
        block=common(launch.block, other.block),
        shared_bytes=common(launch.shared_bytes, other.shared_bytes),
        arguments=tuple(
            HostArgument(each.parameter, common(each.value, theirs.value))
            for each, theirs in zip(launch.arguments, other.arguments, strict=True)
        ),
    )


def _undecided(value: HostValue) -> str | tuple[None, ...] | None:
    """Return a value without its numbers."""
    if isinstance(value.value, tuple):
        return (None,)
    if not isinstance(value.value, str):
        return None
    return _BETWEEN_BRACKETS.sub(UNDECIDED, value.value) if "[" in value.value or "(" in value.value else UNDECIDED
