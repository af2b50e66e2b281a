"""What the verbs of studies and programs return: bounds, sweeps, and whole programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncast.api.answers import Rows, cells
from kerncast.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from kerncast.forecast.application import Application, Applications
    from kerncast.recording import Recording
    from kerncast.report.notebook import Shown
    from kerncast.studies.bounding import KernelBounds
    from kerncast.studies.sweeps.point_results import PointResult
    from kerncast.studies.sweeps.sweep import Sweep

_OF_BOUNDS = ("tpcs", "expected_seconds", "bound_seconds", "kind", "guarantee", "measured_seconds")
_OF_APPLICATIONS = ("gpu", "gpu_id", "seconds", "low", "high", "level", "kernels", "copies", "host", "idle")


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound of a kernel on a number of TPCs; times in seconds."""

    tpcs: int
    expected_seconds: float
    bound_seconds: float


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Bounds(Rows[Bound]):
    """The worst case of a kernel on parts of a GPU: a sequence of Bound; plotted over the number of TPCs."""

    bounds: "KernelBounds"

    @property
    def rows(self) -> tuple[Bound, ...]:
        """One per number of TPCs, in the order that was asked for."""
        answer = self.bounds.answer
        return tuple(Bound(*each) for each in zip(self.bounds.tpcs, answer.expected, answer.bound, strict=True))

    def _figure(self) -> "Figure":
        from kerncast.report.bounds.bound_picture import draw_bounds  # noqa: PLC0415  draws with matplotlib

        return draw_bounds(self.bounds)

    def _object(self) -> dict[str, Any]:
        from kerncast.report.bounds.bounds_table import bound_object  # noqa: PLC0415

        return bound_object(self.bounds)

    def _frame(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        return _OF_BOUNDS, cells(self._object()["bounds"], _OF_BOUNDS)

    def _shown(self) -> "Shown":
        from kerncast.report.bounds.bounds_table import shown_bounds  # noqa: PLC0415

        return shown_bounds(self.bounds)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SweepResults(Rows["PointResult"]):
    """The forecast of all combinations of settings on each GPU: a sequence of points.

    Plotted are times over the first two settings that vary, or along the only one.
    """

    sweep: "Sweep"
    level: float
    top: int
    """best points of each GPU that are shown"""

    @property
    def rows(self) -> "tuple[PointResult, ...]":
        """One per point, in the order of the combinations."""
        return self.sweep.results

    def to_pandas(self) -> "DataFrame":
        """Return a row per point and GPU: the settings, then the forecast or why there is none; times in seconds."""
        from kerncast.report.sweep.sweep_tables import sweep_frame  # noqa: PLC0415

        return sweep_frame(self.sweep)

    def _figure(self) -> "Figure":
        from kerncast.report.sweep.sweep_pictures import draw_line, draw_map  # noqa: PLC0415  draws with matplotlib

        several = sum(len(axis.values) > 1 for axis in self.sweep.space.axes) > 1
        return draw_map(self.sweep) if several else draw_line(self.sweep, (), self.level)

    def _object(self) -> dict[str, Any]:
        from kerncast.report.sweep.sweep_tables import sweep_object  # noqa: PLC0415

        return sweep_object(self.sweep, self.top, self.level)

    def _frame(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        frame = self.to_pandas()
        return list(frame.columns), frame.to_numpy().tolist()

    def _shown(self) -> "Shown":
        from kerncast.report.sweep.sweep_tables import shown_sweep  # noqa: PLC0415

        return shown_sweep(self.sweep, self.top, self.level)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ProgramRun(Rows["Application"]):
    """A whole program that ran here, and how long it would take: a sequence of Application, one for each GPU.

    Plotted is what each GPU does in that time.
    """

    recording: "Recording"
    applications: "Applications | None"
    """None where no GPU was named, or the program did nothing on one"""
    status: int | None
    """status with which the program ended; None where it was not run here"""

    @property
    def rows(self) -> "tuple[Application, ...]":
        """The forecasts, in the order of the GPUs."""
        return self.applications.found if self.applications else ()

    def _figure(self) -> "Figure":
        from kerncast.report.application.application_picture import draw_applications  # noqa: PLC0415  draws with matplotlib

        if not self.rows:
            raise InputError("there is nothing to draw: no GPU has a forecast", cure="Name a GPU: run(program, gpu).")
        return draw_applications(self.rows)

    def _object(self) -> dict[str, Any]:
        from kerncast.report.application.application_tables import run_object  # noqa: PLC0415

        return run_object(self.recording, self.applications, self.status)

    def _frame(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        return _OF_APPLICATIONS, cells(self._object()["applications"], _OF_APPLICATIONS)

    def _shown(self) -> "Shown":
        from kerncast.report.application.application_tables import shown_run  # noqa: PLC0415

        return shown_run(self.recording, self.applications)
