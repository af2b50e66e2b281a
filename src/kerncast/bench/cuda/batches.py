"""How steps are cut to fit a stream's queue, and how long the GPU is kept busy meanwhile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kerncast.bench.device import Step, Timed, Untimed
from kerncast.units import MICROSECOND, MILLISECOND

#: A stream holds about 1000 launches, after which submitting waits for the GPU. NVIDIA documents no number.
#: Source: measured in https://stackoverflow.com/questions/53970187; where it is less, batches are halved.
MOST_COMMANDS = 900
#: Commands before a timed step that stay with it, even if it fills the queue alone.
_SHORT_PRELUDE = 20


@dataclass(slots=True)
class Delay:
    """How long the GPU must be kept busy while commands are queued."""

    seconds_per_command: float = 10 * MICROSECOND
    least: float = 100 * MICROSECOND
    most: float = 500 * MILLISECOND
    attempts: int = 4

    def seconds(self, commands: int, attempt: int = 0) -> float:
        """Return the delay for so many commands; each further attempt doubles it.

        >>> round(Delay().seconds(10), 6), round(Delay().seconds(10, attempt=1), 6)
        (0.0002, 0.0004)
        """
        return min(self.most, (self.least + commands * self.seconds_per_command) * 2.0**attempt)

    def learn(self, commands: int, seconds: float) -> None:
        """Take over what submitting has cost, with half of it as a reserve; a few commands tell nothing."""
        if commands >= 20:
            self.seconds_per_command = max(MICROSECOND, 1.5 * seconds / commands)


def command_count(step: Step) -> int:
    """Return how many places of the queue a step takes."""
    match step:
        case Timed():
            return 2 + (1 if step.as_graph else len(step.calls))
        case Untimed():
            return len(step.calls)
    return 1


def batches(steps: Sequence[Step], limit: int = MOST_COMMANDS) -> Iterator[tuple[Step, ...]]:
    """Cut steps where the queue would be full, after a timed step if possible; a timed step is never cut.

    What stands before a timed step, such as a copy that restores its buffers, so is queued again with it.
    """
    batch: list[Step] = []
    taken = 0
    for group in _groups(steps, limit):
        places = queue_places(group)
        if batch and taken + places > limit:
            yield tuple(batch)
            batch, taken = [], 0
        batch += group
        taken += places
    if batch:
        yield tuple(batch)


def _groups(steps: Sequence[Step], limit: int) -> Iterator[list[Step]]:
    """Cut steps after each timed one; before, only what is too long to be queued with it."""
    group: list[Step] = []
    for step in _pieces(steps, limit):
        is_timed = isinstance(step, Timed)
        room = _SHORT_PRELUDE if is_timed else 0
        if group and queue_places(group) > room and queue_places(group) + command_count(step) > limit:
            yield group
            group = []
        group.append(step)
        if is_timed:
            yield group
            group = []
    if group:
        yield group


def queue_places(steps: Sequence[Step]) -> int:
    """Return how many places of the queue steps take."""
    return sum(map(command_count, steps))


def _pieces(steps: Sequence[Step], limit: int) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, Untimed) and len(step.calls) > limit:
            yield from (Untimed(step.calls[i : i + limit]) for i in range(0, len(step.calls), limit))
        else:
            yield step
