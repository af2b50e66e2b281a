"""The whole check-up: what is required, what is optional, what this machine offers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kerncast.checkup.machine import cache_status, machine_status
from kerncast.checkup.packages import package_statuses, python_status
from kerncast.checkup.simulator import simulator_status
from kerncast.checkup.whole import forecast_status
from kerncast.compile import ToolStatus, toolchain_report

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was found, in the order in which it is shown."""

    packages: tuple[ToolStatus, ...]
    """Python, and what it imports: without these nothing works"""
    compiler: tuple[ToolStatus, ...]
    """without these no source can be forecast"""
    optional: tuple[ToolStatus, ...]
    here: tuple[ToolStatus, ...]
    """the machine, its caches, and one forecast from start to end"""

    @property
    def parts(self) -> tuple[ToolStatus, ...]:
        """Everything that was looked at."""
        return (*self.packages, *self.compiler, *self.optional, *self.here)

    @property
    def counts_work(self) -> bool:
        """Whether profiles and declared counts can be forecast."""
        return _works(self.packages)

    @property
    def sources_work(self) -> bool:
        """Whether sources can be forecast."""
        return _works((*self.packages, *self.compiler, *self.here))

    @property
    def is_healthy(self) -> bool:
        """Whether everything that is required works."""
        return _works(self.parts)


def check_up(progress: Progress | None = None) -> Checkup:
    """Look at every part, and forecast one kernel where all that this needs is there."""
    if progress:
        progress("looking at the compiler", 0, 0)
    tools = toolchain_report()
    compiler = tuple(each for each in tools if not each.is_optional)
    packages = (python_status(), *package_statuses({each.name for each in tools}))
    simulator = simulator_status()
    here = [machine_status(), cache_status(), simulator]
    if _works((*packages, *compiler, simulator)):
        if progress:
            progress("forecasting a kernel", 0, 0)
        here = _forecast(here)
    optional = (*(each for each in tools if each.is_optional), *_measuring())
    return Checkup(packages, compiler, optional, tuple(here))


def _forecast(here: Sequence[ToolStatus]) -> list[ToolStatus]:
    """Return what is here after one forecast, which compiles the simulator where that has not been done yet."""
    *others, before = here
    forecast, after = forecast_status(), simulator_status()
    if forecast.found and after.version != before.version:
        forecast = replace(forecast, version=f"{forecast.version}, most of it to compile the simulator, once")
    return [*others, after, forecast]


def _measuring() -> tuple[ToolStatus, ...]:
    try:
        from kerncast.bench.readiness import measuring_report  # noqa: PLC0415  what it imports may be missing
    except ImportError:
        return ()
    return measuring_report()


def _works(parts: Sequence[ToolStatus]) -> bool:
    return all(part.found or part.is_optional for part in parts)
