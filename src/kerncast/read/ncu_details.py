"""The details page that Nsight Compute prints as CSV: one row per launch and metric, by display name or metric id.

Which id a display name stands for is in ``data/ncu_labels.csv``. Rows of rules (advice) are skipped; newer versions
give rows of metrics fewer values than there are columns.
"""

import csv
import re
from dataclasses import dataclass, field
from functools import cache, lru_cache

from kerncast.errors import InputError
from kerncast.gpu_files import DATA
from kerncast.read.ncu_row import NcuMetric, NcuRow
from kerncast.read.ncu_values import (
    MOST_LINE_CHARS,
    MOST_VALUES,
    base_unit,
    extent_of,
    page_fault,
    read_cells,
    read_extent,
    read_number,
    too_many,
)

_ID = re.compile(r"[0-9]{1,18}")
_METRIC_ID = re.compile(r"(?<![\w.:])[a-z][a-z0-9]*__[\w.]+")
_REQUIRED = ("Kernel Name", "Metric Name", "Metric Unit", "Metric Value")
#: Lines that the text of a rule may take.
_MOST_LINES_OF_A_ROW = 100


@dataclass(slots=True)
class _Launch:
    """What the rows of one launch have said so far."""

    number: int
    kernel: str
    grid: str
    block: str
    compute_capability: str | None
    device: str | None = None
    metrics: list[NcuMetric] = field(default_factory=list)


class DetailsTable:
    """Takes the rows of one table, and gives one NcuRow per launch."""

    def __init__(self, header: list[str], where: str, place: str, *, is_quoted: bool) -> None:
        """Take the header; raises InputError where a column is missing."""
        for name in _REQUIRED:
            if name not in header:
                raise page_fault(f"the column {name} is missing", "is no page of ncu", place, "details")
        self.header = header
        self.where = where
        self.is_quoted = is_quoted
        self.place_of = {name: index for index, name in enumerate(header)}
        self.least = self.place_of["Metric Value"] + 1
        self.launches: dict[tuple[str, str], _Launch] = {}
        self.values = 0
        self.pending: list[str] = []
        self.pending_place = ""

    def take(self, line: str, place: str) -> None:
        """Take one line; raises InputError."""
        if self.pending:
            self._continue(line)
        elif not line.strip() or line.startswith("==") or (self.is_quoted and not line.startswith('"')):
            return
        elif line.count('"') % 2:
            self.pending, self.pending_place = [line], place
        else:
            self._take_row(line, place)

    def finish(self) -> list[NcuRow]:
        """Return the launches in the order of their first rows; raises InputError where the last row is cut off."""
        if self.pending:
            raise page_fault("the last row has no end", "is cut off", self.pending_place, "details")
        rows = []
        for launch in self.launches.values():
            metrics = tuple(launch.metrics)
            rows.append(
                NcuRow(
                    number=launch.number,
                    kernel=launch.kernel,
                    grid=read_extent(launch.grid) or extent_of(metrics, "launch__grid_dim"),
                    block=read_extent(launch.block) or extent_of(metrics, "launch__block_dim"),
                    compute_capability=launch.compute_capability,
                    metrics=metrics,
                    device=launch.device,
                )
            )
        return rows

    def _continue(self, line: str) -> None:
        """Add a line to a row whose text goes over several."""
        self.pending.append(line)
        whole = "\n".join(self.pending)
        if len(self.pending) > _MOST_LINES_OF_A_ROW or len(whole) > MOST_LINE_CHARS:
            raise page_fault("the row has no end", "is cut off", self.pending_place, "details")
        if line.count('"') % 2:
            self.pending = []
            self._take_row(whole.replace("\n", " "), self.pending_place)

    def _take_row(self, line: str, place: str) -> None:
        cells = read_cells(line, place, "details")
        if not self.least <= len(cells) <= len(self.header) + 1:
            what = f"{len(cells)} values stand under {len(self.header)} columns"
            raise page_fault(what, "is cut off", place, "details")
        label, text = cells[self.place_of["Metric Name"]], cells[self.least - 1]
        if not label:
            return  # a rule
        launch = self._launch(cells, place)
        unit = cells[self.place_of["Metric Unit"]]
        factor, base = _unit(unit)
        name = metric_id(label, base)
        if name is None:
            return
        if name == "device__attribute_display_name":
            launch.device = text or None
            return
        value = read_number(text, unit, name, place)
        if value is None:
            return
        self.values += 1
        if self.values > MOST_VALUES:
            raise too_many(self.where)
        launch.metrics.append(NcuMetric(name, value * factor, base))

    def _launch(self, cells: list[str], place: str) -> _Launch:
        number, process = self._cell(cells, "ID"), self._cell(cells, "Process ID")
        launch = self.launches.get((process, number))
        kernel = self._cell(cells, "Kernel Name")
        if launch is None:
            if not _ID.fullmatch(number) or not kernel:
                raise page_fault("the ID or the kernel's name is missing", "was changed", place, "details")
            launch = _Launch(
                int(number),
                kernel,
                self._cell(cells, "Grid Size"),
                self._cell(cells, "Block Size"),
                self._cell(cells, "CC") or None,
            )
            self.launches[process, number] = launch
        elif launch.kernel != kernel:
            raise InputError(
                f"launch {number} is of two kernels",
                where=place,
                cure="Keep the output of each run in a file of its own.",
            )
        return launch

    def _cell(self, cells: list[str], name: str) -> str:
        place = self.place_of.get(name)
        return "" if place is None else cells[place]


def metric_id(label: str, unit: str) -> str | None:
    """Return the metric that a display name with this base unit stands for, or None where it is not known.

    ``--metrics`` and ``--print-metric-name name`` print the id itself.

    >>> metric_id("Duration", "ns"), metric_id("Memory Throughput", "byte/s"), metric_id("SOL FB", "%")
    ('gpu__time_duration.sum', 'dram__bytes.sum.per_second', 'dram__throughput.avg.pct_of_peak_sustained_elapsed')
    """
    if "__" in label:
        found = _METRIC_ID.search(label)
        return found[0] if found else None
    return _labels().get((label.casefold(), unit))


@lru_cache(maxsize=1024)
def _unit(unit: str) -> tuple[float, str]:
    return base_unit(unit)


@cache
def _labels() -> dict[tuple[str, str], str]:
    with (DATA / "ncu_labels.csv").open(encoding="utf-8", newline="") as file:
        return {(row["label"].casefold(), row["unit"]): row["metric"] for row in csv.DictReader(file)}
