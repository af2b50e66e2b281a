"""What the public verbs return: small tables that show themselves, and become JSON, a DataFrame or a picture."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from kerncast.api.notebook import let_figures_show
from kerncast.caveats import Caveat
from kerncast.errors import InputError
from kerncast.metrics import metrics_of, vocabulary
from kerncast.prediction import Refused

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from kerncast.forecast import Forecast
    from kerncast.gpu import GPU
    from kerncast.metrics import Metric
    from kerncast.occupancy.advice import OccupancyCase
    from kerncast.prediction import Prediction, Timing
    from kerncast.profiles import KernelProfile, ProfiledLaunch
    from kerncast.report.comparison.comparison_table import Compared
    from kerncast.report.notebook import Shown
    from kerncast.studies.comparing.ranking import Ranked
    from kerncast.studies.sensitivity.elasticities import Sensitivity, Study
    from kerncast.studies.sensitivity.lifting import Advice

Row = TypeVar("Row")


class Answer(ABC):
    """What a verb returns: its ``repr`` is the verdict, a notebook shows the tables, too."""

    __slots__ = ()

    def to_json(self) -> str:
        """Return the JSON that the command line prints with ``--json``; ``schema_version`` says which fields."""
        from kerncast.report.as_json import json_text  # noqa: PLC0415  words and pictures load when they are asked for

        return json_text(self._object())

    def to_pandas(self) -> "DataFrame":
        """Return a row per element, with the fields' names of the JSON; times in seconds."""
        from pandas import DataFrame  # noqa: PLC0415  heavy

        columns, rows = self._frame()
        return DataFrame([tuple(row) for row in rows], columns=list(columns))

    def plot(self) -> "Figure":
        """Return the picture as a Figure of Matplotlib; raises InputError where there is nothing to draw."""
        figure = self._figure()
        let_figures_show()
        return figure

    @abstractmethod
    def _figure(self) -> "Figure": ...

    @abstractmethod
    def _object(self) -> dict[str, Any]: ...

    @abstractmethod
    def _frame(self) -> "tuple[Sequence[str], Sequence[Sequence[object]]]": ...

    @abstractmethod
    def _shown(self) -> "Shown": ...

    def __repr__(self) -> str:
        from kerncast.report.notebook import in_lines  # noqa: PLC0415

        return in_lines(self._shown().sentences)

    def _repr_html_(self) -> str:
        from kerncast.report.notebook import fragment  # noqa: PLC0415

        return fragment(self._shown())


class Rows(Answer, Sequence[Row], Generic[Row]):
    """An answer of several rows, which is a sequence of them; answers of equal rows are equal."""

    __slots__ = ()

    @property
    @abstractmethod
    def rows(self) -> tuple[Row, ...]:
        """All rows, in the order of the JSON."""

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Row, ...]: ...

    def __getitem__(self, place: int | slice) -> Row | tuple[Row, ...]:
        return self.rows[place]

    def __eq__(self, other: object) -> bool:
        return self.rows == other.rows if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.rows)


_OF_PREDICTIONS = (
    "kernel", "launch", "count", "gpu", "gpu_id", "seconds", "low", "high", "level", "timing", "clock_hz", "limiter",
    "model",
)  # fmt: skip
_OF_METRICS = ("metric", "value", "unit", "low", "high", "origin")
_OF_OCCUPANCIES = (
    "kernel", "launch", "gpu", "gpu_id", "compute_capability", "threads_per_block", "registers_per_thread",
    "shared_bytes_per_block", "blocks_per_sm", "warps_per_sm", "occupancy", "limiter",
)  # fmt: skip
_OF_ELASTICITIES = ("kernel", "launch", "gpu", "parameter", "elasticity", "low", "high", "kind", "enough_factor")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Forecasts(Rows["Prediction"]):
    """The forecast of each launch on each GPU: a sequence of Prediction; plotted with their intervals."""

    forecast: "Forecast"
    asked: "Timing"
    """timing that was asked for; operators keep that of their data"""

    @property
    def rows(self) -> "tuple[Prediction, ...]":
        """The predictions, launch by launch, in the order of the GPUs."""
        return self.forecast.predictions

    @property
    def refused(self) -> tuple[Refused, ...]:
        """Launches and GPUs without a forecast, and why."""
        return self.forecast.refused

    def _figure(self) -> "Figure":
        from kerncast.report.forecast.picture import draw_forecast  # noqa: PLC0415  draws with matplotlib

        return draw_forecast(self.rows)

    def _object(self) -> dict[str, Any]:
        from kerncast.report.as_json import predict_object  # noqa: PLC0415

        return predict_object(self.forecast, self.asked)

    def _frame(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        return _OF_PREDICTIONS, cells(self._object()["predictions"], _OF_PREDICTIONS)

    def _shown(self) -> "Shown":
        from kerncast.report.shown import shown_forecast  # noqa: PLC0415

        return shown_forecast(self.forecast)


@dataclass(frozen=True, slots=True, repr=False)
class Profile(Answer, Mapping[str, int | float]):
    """The profile of one launch by the metrics' names of Nsight Compute: ``profile["smsp__inst_executed.sum"]``.

    Plotted are the states of warps; without a GPU, the kinds of instructions.
    """

    launch: "ProfiledLaunch"

    @property
    def profile(self) -> "KernelProfile":
        """The counts themselves, each with its origin; ``predict`` takes them, too."""
        return self.launch.profile

    @property
    def gpu(self) -> "GPU | None":
        """GPU that the launch was profiled for; None: only what no GPU changes was counted."""
        return self.launch.gpu

    def metric(self, name: str) -> "Metric":
        """Return value, bounds, unit and origin of a metric; raises KeyError naming the nearest one."""
        found = self._metrics().get(name)
        if found is None:
            raise KeyError(_no_metric(name, self._metrics(), has_gpu=self.gpu is not None))
        return found

    def __getitem__(self, name: str) -> int | float:
        from kerncast.report.profile.export import number  # noqa: PLC0415

        return number(self.metric(name).count.value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics())

    def __len__(self) -> int:
        return len(self._metrics())

    def _figure(self) -> "Figure":
        from kerncast.report.profile.picture import draw_profile  # noqa: PLC0415  draws with matplotlib

        return draw_profile(self.launch)

    def _metrics(self) -> "dict[str, Metric]":
        return {each.name: each for each in metrics_of(self.launch.profile, self.launch.gpu)}

    def _object(self) -> dict[str, Any]:
        from kerncast.report.profile.export import profile_object  # noqa: PLC0415

        return profile_object([self.launch], (), lines=False)

    def _frame(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        (kernel,) = self._object()["kernels"]
        return _OF_METRICS, [(name, *cells([row], _OF_METRICS[1:])[0]) for name, row in kernel["metrics"].items()]

    def _shown(self) -> "Shown":
        from kerncast.report.shown import shown_profile  # noqa: PLC0415

        return shown_profile(self.launch)


def _no_metric(name: str, known: Mapping[str, object], *, has_gpu: bool) -> str:
    word = next((each for each in vocabulary() if each.name == name), None)
    if word is not None:
        cure = "name a GPU" if word.needs_gpu and not has_gpu else "this launch has no value of it"
        return f"{name} is not known here: {cure}"
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"no metric is called {name[:80]}" + (f": did you mean {near[0]}?" if near else "")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Comparison(Rows["Ranked"]):
    """GPUs in order of time, energy or cost, with the probability that one beats another: a sequence of places.

    Plotted is time against cost, or against energy without prices.
    """

    compared: "Compared"

    @property
    def rows(self) -> "tuple[Ranked, ...]":
        """The GPUs, the best first; those that other models forecast come after all others."""
        return tuple(row for ranking in self.compared.rankings for row in ranking.rows)

    def _figure(self) -> "Figure":
        from kerncast.report.comparison.pareto_picture import draw_pareto  # noqa: PLC0415  draws with matplotlib

        figure = draw_pareto(self.compared.rankings[0], has_prices=self.compared.has_prices)
        if figure is None:
            what = "price" if self.compared.has_prices else "estimate of its energy"
            raise InputError(f"there is nothing to draw: no GPU has a {what}", cure="Use to_pandas().")
        return figure

    def _object(self) -> dict[str, Any]:
        from kerncast.report.comparison.comparison_table import comparison_object  # noqa: PLC0415

        return comparison_object(self.compared)

    def _frame(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        from kerncast.report.comparison.comparison_table import CSV_COLUMNS, csv_rows  # noqa: PLC0415

        return CSV_COLUMNS, list(csv_rows(self.compared))

    def _shown(self) -> "Shown":
        from kerncast.report.shown import shown_comparison  # noqa: PLC0415

        return shown_comparison(self.compared)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Occupancies(Rows["OccupancyCase"]):
    """How many blocks an SM of each GPU holds, what limits them, and what would change that.

    Plotted are the curves over block size, registers and shared memory.
    """

    cases: "tuple[OccupancyCase, ...]"
    assumed: tuple[Caveat, ...] = ()
    """what was assumed about the GPUs' names"""

    @property
    def rows(self) -> "tuple[OccupancyCase, ...]":
        """One per launch and GPU."""
        return self.cases

    def _figure(self) -> "Figure":
        from kerncast.report.occupancy.curves_picture import draw_occupancy  # noqa: PLC0415  draws with matplotlib

        return draw_occupancy(self.rows)

    def _object(self) -> dict[str, Any]:
        from kerncast.report.occupancy.tables import occupancies_object  # noqa: PLC0415

        return occupancies_object(self.rows, self.assumed)

    def _frame(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        return _OF_OCCUPANCIES, cells(self._object()["occupancies"], _OF_OCCUPANCIES)

    def _shown(self) -> "Shown":
        from kerncast.report.shown import shown_occupancy  # noqa: PLC0415

        return shown_occupancy(self.rows, self.assumed)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Sensitivities(Rows["Sensitivity"]):
    """How the time of each launch follows each parameter of a GPU, and what lifting limits of the kernel gains.

    Plotted is the change of the time with half and with twice of each parameter.
    """

    study: "Study"
    gpu: "GPU"
    advice: "tuple[Advice, ...]" = ()
    """what lifting each limit of a kernel gains, by launch"""

    @property
    def rows(self) -> "tuple[Sensitivity, ...]":
        """One per launch, and the last of all together where there are several."""
        return self.study.found

    def _figure(self) -> "Figure":
        from kerncast.report.what_if.tornado import draw_tornado  # noqa: PLC0415  draws with matplotlib

        return draw_tornado(self.rows)

    def _object(self) -> dict[str, Any]:
        from kerncast.report.what_if.sensitivity import sensitivity_object  # noqa: PLC0415

        return sensitivity_object(self.study, self.advice, self.gpu)

    def _frame(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        found = self._object()
        rows = [
            {"kernel": launch["kernel"], "launch": launch["launch"], "gpu": found["gpu"], **each}
            for launch in found["launches"]
            for each in launch["elasticities"]
        ]
        return _OF_ELASTICITIES, cells(rows, _OF_ELASTICITIES)

    def _shown(self) -> "Shown":
        from kerncast.report.shown import shown_sensitivity  # noqa: PLC0415

        return shown_sensitivity(self.study, self.advice)


def cells(rows: Sequence[Mapping[str, object]], names: Sequence[str]) -> list[tuple[object, ...]]:
    """Return the values of some keys of each row."""
    return [tuple(row[name] for name in names) for row in rows]
