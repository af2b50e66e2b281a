"""The pages that Nsight Compute prints as CSV: raw (one row per kernel launch) and details (one row per metric).

Sources: Nsight Compute CLI documentation, output pages; files that versions 2020 to 2026 wrote. Version and locale
change the columns before the metrics, the spelling of units and the separators of numbers.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache

from kerncast.bounded_file import our_rows
from kerncast.errors import InputError
from kerncast.gpu import DATA
from kerncast.read.ncu.rows import (
    MOST_LINE_CHARS,
    MOST_VALUES,
    NcuMetric,
    NcuRow,
    base_unit,
    extent_of,
    page_fault,
    read_cells,
    read_extent,
    read_number,
    too_many,
)

# The details page that Nsight Compute prints as CSV: one row per launch and metric, by display name or metric id.
#
# Which id a display name stands for is in ``data/ncu_labels.csv``. Rows of rules (advice) are skipped; newer versions
# give rows of metrics fewer values than there are columns.


_ID = re.compile(r"[0-9]{1,18}")
_METRIC_ID = re.compile(r"(?<![\w.:])[a-z][a-z0-9]*__[\w.]+")
_REQUIRED = ("Kernel Name", "Metric Name", "Metric Unit", "Metric Value")
#: Lines that the text of a rule may take.
_MOST_LINES_OF_A_ROW = 100


@dataclass(slots=True)
class _Launch:
    """One launch, as far as its rows have been read."""

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
                raise page_fault(f"the column {name} is missing", "is not a page of ncu", place, "details")
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
            what = f"{len(cells)} values for {len(self.header)} columns"
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
    return {(row["label"].casefold(), row["unit"]): row["metric"] for row in our_rows(DATA / "ncu_labels.csv")}


__all__ = ["NcuMetric", "NcuRow", "base_unit", "read_ncu_csv", "read_raw_page"]

#: What stands in front of a table; a summary over launches has no ID.
_HEADERS = ('"ID",', "ID,")
_SUMMARY = re.compile(r'^"?Process ID"?,.*"?Invocations"?,.*Minimum')
_DEVICE = "device__attribute_display_name"


def read_ncu_csv(lines: Iterable[str], where: str = "ncu CSV") -> tuple[NcuRow, ...]:
    """Read the launches of a raw page or a details page, in order; raises InputError that names the line.

    Lines before the header and ncu's own messages are skipped. A file may hold several tables.
    """
    return _read(lines, where, takes_details=True)


def read_raw_page(lines: Iterable[str], where: str = "ncu CSV") -> tuple[NcuRow, ...]:
    """Read the launches of a raw page, in order; raises InputError that names the line, for a details page too."""
    return _read(lines, where, takes_details=False)


def _read(lines: Iterable[str], where: str, *, takes_details: bool) -> tuple[NcuRow, ...]:
    page = _Page(where, takes_details=takes_details)
    for number, line in enumerate(lines, 1):
        page.take(line.rstrip("\r\n").removeprefix("\ufeff"), number)
    return page.finish()


@dataclass(frozen=True, slots=True)
class _Column:
    """One metric of a raw page."""

    place: int
    name: str
    unit: str
    factor: float
    base: str


class _Page:
    """Takes one line after the other."""

    def __init__(self, where: str, *, takes_details: bool) -> None:
        self.where = where
        self.takes_details = takes_details
        self.rows: list[NcuRow] = []
        self.header: list[str] | None = None
        self.columns: list[_Column] | None = None
        self.details: DetailsTable | None = None
        self.is_quoted = False
        self.values = 0

    def take(self, line: str, number: int) -> None:
        """Take one line; raises InputError."""
        place = f"{self.where}, line {number}"
        if line.startswith(_HEADERS):
            self._start(line, place)
        elif _SUMMARY.match(line):
            raise InputError(
                "this is a summary over launches",
                where=place,
                cure="Write it again without --print-summary: a forecast is of one launch.",
            )
        elif self.details is not None:
            self.details.take(line, place)
        elif self.header is not None and self._is_row(line):
            self._take_row(line, self.header, place)

    def finish(self) -> tuple[NcuRow, ...]:
        """Return the launches; raises InputError where there is no whole table."""
        if self.header is None and self.details is None:
            pages = "raw or details" if self.takes_details else "raw"
            raise InputError(
                "it holds no table of ncu", where=self.where, cure=f"Make it with ncu --csv --page {pages}."
            )
        if self.header is not None and self.columns is None:
            raise InputError("it ends before the row of units", where=self.where, cure="Write it again; it is cut off.")
        self._close_details()
        return tuple(self.rows)

    def _start(self, line: str, place: str) -> None:
        header = read_cells(line, place, "raw")
        if "Kernel Name" not in header:
            raise page_fault("the column Kernel Name is missing", "is not a page of ncu", place, "raw")
        if len(set(header)) != len(header):
            raise page_fault("a column stands twice", "was changed", place, "raw")
        self._close_details()
        self.is_quoted = line.startswith('"')
        if "Metric Name" not in header:
            self.header, self.columns = header, None
        elif self.takes_details:
            self.header, self.columns = None, None
            self.details = DetailsTable(header, self.where, place, is_quoted=self.is_quoted)
        else:
            raise InputError(
                "this is the details page, with one row per metric",
                where=place,
                cure="Make the raw page with ncu --csv --page raw.",
            )

    def _close_details(self) -> None:
        if self.details is not None:
            self.rows.extend(self.details.finish())
            self.details = None

    def _is_row(self, line: str) -> bool:
        # Where ncu quotes every value, a line without a quote is the application's own.
        return bool(line.strip()) and not line.startswith("==") and (line.startswith('"') or not self.is_quoted)

    def _take_row(self, line: str, header: list[str], place: str) -> None:
        cells = read_cells(line, place, "raw")
        if len(cells) != len(header):
            what = f"{len(cells)} values for {len(header)} columns"
            raise page_fault(what, "is cut off", place, "raw")
        if self.columns is not None:
            self.rows.append(self._row(cells, header, self.columns, place))
        elif cells[0]:
            raise page_fault("the row of units is missing", "was changed", place, "raw")
        else:
            # The other columns describe the launch.
            self.columns = [
                _Column(index, name, cells[index], *base_unit(cells[index]))
                for index, name in enumerate(header)
                if "__" in name
            ]

    def _row(self, cells: list[str], header: list[str], columns: list[_Column], place: str) -> NcuRow:
        named = dict(zip(header, cells, strict=True))
        metrics = []
        for column in columns:
            value = read_number(cells[column.place], column.unit, column.name, place)
            if value is not None:
                metrics.append(NcuMetric(column.name, value * column.factor, column.base))
        self.values += len(metrics)
        if self.values > MOST_VALUES:
            raise too_many(self.where)
        if not _ID.fullmatch(named["ID"]) or not named["Kernel Name"]:
            raise page_fault("the ID or the kernel's name is missing", "was changed", place, "raw")
        return NcuRow(
            number=int(named["ID"]),
            kernel=named["Kernel Name"],
            grid=read_extent(named.get("Grid Size", "")) or extent_of(metrics, "launch__grid_dim"),
            block=read_extent(named.get("Block Size", "")) or extent_of(metrics, "launch__block_dim"),
            compute_capability=named.get("CC") or None,
            metrics=tuple(metrics),
            device=named.get(_DEVICE) or None,
        )
