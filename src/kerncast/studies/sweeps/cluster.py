"""Forecasts the points of a sweep on a Dask cluster, beyond one machine.

The sources lie at the same paths on all machines, as in a shared folder; GPUs and options travel with each point.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from kerncast.errors import InputError
from kerncast.studies.sweeps.point_results import Infeasible, Job, PointResult, Task, forecast_point, infeasible

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_SECONDS = 10.0
#: Points on their way for each thread of the cluster: enough that none waits, few enough to stay small.
_PER_THREAD = 4
_LEAST_WAITING = 16
#: What a future is whose worker ended after it had answered, before the answer was fetched.
_COMPUTED_AGAIN = frozenset({"lost", "pending"})


class DaskCluster:
    """Forecasts points on the workers of a Dask scheduler.

    The points of a worker that dies go to another one; a point at which several die is reported as lost.
    """

    def __init__(self, job: Job, address: str, connect_seconds: float = _CONNECT_SECONDS) -> None:
        self._job, self._address, self._seconds = job, address, connect_seconds

    def run(self, tasks: Iterable[Task]) -> Iterator[PointResult]:
        """Yield the result of each task once, as it arrives; raises InputError where there is no cluster."""
        with self._client() as client:
            yield from self._results(client, tasks)

    def _results(self, client: "Client", tasks: Iterable[Task]) -> Iterator[PointResult]:
        from distributed import as_completed  # noqa: PLC0415  an extra

        waiting: dict[str, Task] = {}
        rest = iter(tasks)

        def submitted(count: int) -> list[Any]:
            futures = []
            for task in islice(rest, count):
                # Each has a key of its own: the cluster may know results of an earlier sweep.
                future = client.submit(forecast_point, task, self._job, pure=False)
                waiting[future.key] = task
                futures.append(future)
            return futures

        threads = sum(client.nthreads().values())
        arriving = as_completed(
            submitted(max(_LEAST_WAITING, _PER_THREAD * threads)), loop=client.loop, raise_errors=False
        )
        for future in arriving:
            task = waiting.pop(future.key, None)
            if task is None:
                continue
            if future.status in _COMPUTED_AGAIN:
                waiting[future.key] = task
                arriving.add(future)
                continue
            arriving.update(submitted(1))
            yield self._result_of(future, task)

    def _result_of(self, future: Any, task: Task) -> PointResult:
        if future.status == "finished":
            found: PointResult = future.result()
            return found
        error = future.exception() if future.status == "error" else None
        reason = future.status if error is None else f"{type(error).__name__}: {error}"
        return infeasible(task.point, self._job, Infeasible.LOST, f"its workers ended: {reason}"[:300])

    def _client(self) -> "Client":
        try:
            from distributed import Client  # noqa: PLC0415  an extra
        except ImportError:
            what = "--cluster needs Dask, which is not installed"
            raise InputError(what, cure="Install the extra: pip install 'kerncast[cluster]'.") from None
        try:
            return Client(self._address, timeout=self._seconds, set_as_default=False)
        except (OSError, ValueError) as error:
            cure = "Start one: dask scheduler, then dask worker ADDRESS --nthreads 1 on each machine."
            raise InputError(f"no Dask scheduler answers ({error})", where=self._address[:100], cure=cure) from None
