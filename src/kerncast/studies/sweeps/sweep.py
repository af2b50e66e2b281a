"""VERB sweep: every point of a space, forecast on every GPU; and what is best."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncast.errors import InputError
from kerncast.gpu import GPU
from kerncast.studies.sweeps.executors import Executor
from kerncast.studies.sweeps.point_results import Infeasible, Job, Outcome, PointResult, Task, infeasible
from kerncast.studies.sweeps.space import Point, Space

if TYPE_CHECKING:
    from kerncast.studies.sweeps.sweep_store import SweepStore

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Ranked:
    """One point that has a time on a GPU."""

    point: Point
    outcome: Outcome
    seconds: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """The results of all points, in the order of the space."""

    space: Space
    gpus: tuple[GPU, ...]
    results: tuple[PointResult, ...]
    reused: int = 0
    """number of results that an earlier run had kept"""

    @property
    def label(self) -> str:
        """The kernel as the launch names it, or the file where it names none."""
        name = self.space.table["launch"][0].get("kernel")
        return str(name) if name else self.space.file.name

    @property
    def excluded(self) -> int:
        """Number of combinations that a condition excludes."""
        return self.space.size - len(self.results)

    def ranked(self, gpu: GPU) -> list[Ranked]:
        """Return the points that have a time on a GPU, the shortest first."""
        place = self.gpus.index(gpu)
        outcomes = ((each.point, each.outcomes[place]) for each in self.results)
        found = [Ranked(point, out, out.seconds) for point, out in outcomes if out.seconds is not None]
        return sorted(found, key=lambda each: (each.seconds, each.point.number))

    def infeasible(self, gpu: GPU) -> list[tuple[Infeasible, int, Outcome]]:
        """Return each kind of reason with its number of points and its first outcome, the most frequent first."""
        place = self.gpus.index(gpu)
        outcomes = [each.outcomes[place] for each in self.results]
        first: dict[Infeasible, Outcome] = {}
        counts: Counter[Infeasible] = Counter()
        for each in outcomes:
            if each.infeasible is not None:
                counts[each.infeasible] += 1
                first.setdefault(each.infeasible, each)
        return [(kind, count, first[kind]) for kind, count in counts.most_common()]

    @property
    def is_empty(self) -> bool:
        """Whether no point has a time on any GPU."""
        return all(outcome.seconds is None for each in self.results for outcome in each.outcomes)


def sweep(
    space: Space, job: Job, executor: Executor, store: "SweepStore | None" = None, progress: Progress | None = None
) -> Sweep:
    """Forecast every point of a space; ``store`` keeps each result as it arrives, and knows those of earlier runs."""
    points = list(space.points())
    if not points:
        raise InputError("no combination of the values fulfils the conditions", cure="Check --where.")
    found = {point.number: known for point in points if store and (known := store.known(point))}
    reused = len(found)

    def arrived(result: PointResult) -> None:
        found[result.point.number] = result
        if store:
            store.add(result)
        if progress:
            progress("forecasting the points of the sweep", len(found), len(points))

    missing = [point for point in points if point.number not in found]
    for result in executor.run(list(_tasks(missing, space, job, arrived))):
        arrived(result)
    return Sweep(space, tuple(gpu for gpu, _ in job.gpus), tuple(found[each.number] for each in points), reused)


def _tasks(points: list[Point], space: Space, job: Job, arrived: Callable[[PointResult], None]) -> Iterator[Task]:
    """Yield the points that are launches; the others have arrived."""
    for point in points:
        try:
            yield Task(point, space.launch(point))
        except InputError as error:
            arrived(infeasible(point, job, Infeasible.LAUNCH, str(error)))
