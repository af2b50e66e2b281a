"""The pages that Nsight Compute prints as CSV: raw (one row per kernel launch) and details (one row per metric).

Sources: Nsight Compute CLI documentation, output pages; files that versions 2020 to 2026 wrote. Version and locale
change the columns before the metrics, the spelling of units and the separators of numbers.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kerncast.errors import InputError
from kerncast.read.ncu_details import DetailsTable
from kerncast.read.ncu_row import NcuMetric, NcuRow
from kerncast.read.ncu_values import (
    MOST_VALUES,
    base_unit,
    extent_of,
    page_fault,
    read_cells,
    read_extent,
    read_number,
    too_many,
)

__all__ = ["NcuMetric", "NcuRow", "base_unit", "read_ncu_csv", "read_raw_page"]

#: What stands in front of a table; a summary over launches has no ID.
_HEADERS = ('"ID",', "ID,")
_SUMMARY = re.compile(r'^"?Process ID"?,.*"?Invocations"?,.*Minimum')
_ID = re.compile(r"[0-9]{1,18}")
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
                "no table of ncu is in it", where=self.where, cure=f"Make it with ncu --csv --page {pages}."
            )
        if self.header is not None and self.columns is None:
            raise InputError("it ends before the row of units", where=self.where, cure="Write it again; it is cut off.")
        self._close_details()
        return tuple(self.rows)

    def _start(self, line: str, place: str) -> None:
        header = read_cells(line, place, "raw")
        if "Kernel Name" not in header:
            raise page_fault("the column Kernel Name is missing", "is no page of ncu", place, "raw")
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
            what = f"{len(cells)} values stand under {len(header)} columns"
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
