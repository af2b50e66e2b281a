"""The raw page that Nsight Compute prints as CSV: one row per kernel launch, one column per metric.

Sources: Nsight Compute CLI documentation, output pages; files that versions 2020 to 2025 wrote. Version and locale
change the columns before the metrics, the spelling of units and the separators of numbers.
"""

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kerncast.errors import InputError
from kerncast.launch import Extent
from kerncast.units import GIGA, KILO, MEGA, TERA

#: No counter reaches this.
_MOST = 1e30
_ABSENT = frozenset({"", "n/a", "(!) n/a", "nan", "(!) nan", "inf", "-inf", "no data"})
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?|[-+]?\.\d+(?:[eE][-+]?\d+)?")
_NUMERIC = re.compile(r"[-+]?\d[\d.,'\s]*(?:[eE][-+]?\d+)?")
#: A total in a unit that is not scaled is whole: 16.384 inst is how another locale writes 16,384.
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")
_WHOLE = frozenset({"byte", "inst", "sector", "request", "wavefront", "warp", "cycle", "ns", "nsecond", ""})
_INSTANCES = re.compile(r"(.*\S)\s*\([^()]*\)")
_ID = re.compile(r"[0-9]{1,18}")
_EXTENT = re.compile(r"\(?\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)?")

#: ncu scales by powers of 1000: it prints the 1024 bytes that the driver takes of shared memory as 1.02 Kbyte.
_PREFIX = {"": 1.0, "K": KILO, "M": MEGA, "G": GIGA, "T": TERA}
_SCALED = re.compile(r"([kKMGT]?)(byte|[hH]z|inst|sector|request|wavefront|cycle|warp|thread|block|register)s?")
_NANOSECONDS = {
    "ns": 1.0, "us": KILO, "ms": MEGA, "s": GIGA, "nsecond": 1.0, "usecond": KILO, "msecond": MEGA, "second": GIGA,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NcuMetric:
    """One metric of one launch, in ncu's base unit."""

    name: str
    value: float
    unit: str
    """byte, ns, hz, cycle, inst, sector, %, …; a rate is per s, such as byte/s; empty where ncu prints none"""


@dataclass(frozen=True, slots=True)
class NcuRow:
    """One launch that Nsight Compute profiled."""

    number: int
    """ncu's ID"""
    kernel: str
    """as ncu prints it, such as void reduce<float, 256>(const T1 *, T1 *)"""
    grid: Extent | None
    """None where the file does not say"""
    block: Extent | None
    compute_capability: str | None
    metrics: tuple[NcuMetric, ...]
    """without those that ncu could not collect"""

    def value(self, name: str) -> float | None:
        """Return the value of a metric, or None where the file has none."""
        return next((metric.value for metric in self.metrics if metric.name == name), None)


def read_raw_page(lines: Iterable[str], where: str = "ncu CSV") -> tuple[NcuRow, ...]:
    """Read the launches of a raw page, in order; raises InputError that names the line.

    Lines before the header and ncu's own messages are skipped. A file may hold several tables.
    """
    page = _Page(where)
    for number, line in enumerate(lines, 1):
        page.take(line.rstrip("\r\n").removeprefix("\ufeff"), number)
    if page.header is None:
        raise InputError("no table of ncu is in it", where=where, cure="Make it with ncu --csv --page raw.")
    if page.units is None:
        raise InputError("it ends before the row of units", where=where, cure="Write it again; it is cut off.")
    return tuple(page.rows)


class _Page:
    """Takes one line after the other."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.header: list[str] | None = None
        self.units: list[str] | None = None
        self.is_quoted = False
        self.rows: list[NcuRow] = []

    def take(self, line: str, number: int) -> None:
        if line.startswith(('"ID",', "ID,")):
            self._start(self._cells(line, number), number, is_quoted=line.startswith('"'))
        elif self.header is not None and self._is_row(line):
            cells = self._cells(line, number)
            if len(cells) != len(self.header):
                raise self._fault(number, f"{len(cells)} values stand under {len(self.header)} columns", "is cut off")
            if self.units is None:
                self._take_units(cells, number)
            else:
                self.rows.append(self._row(cells, number))

    def _start(self, header: list[str], number: int, *, is_quoted: bool) -> None:
        if "Metric Name" in header:
            raise InputError(
                "this is the details page, with one row per metric",
                where=f"{self.where}, line {number}",
                cure="Make the raw page with ncu --csv --page raw.",
            )
        if "Kernel Name" not in header:
            raise self._fault(number, "the column Kernel Name is missing", "is no raw page of ncu")
        if len(set(header)) != len(header):
            raise self._fault(number, "a column stands twice", "was changed")
        self.header, self.units, self.is_quoted = header, None, is_quoted

    def _is_row(self, line: str) -> bool:
        # Where ncu quotes every value, a line without a quote is the application's own.
        return bool(line.strip()) and not line.startswith("==") and (line.startswith('"') or not self.is_quoted)

    def _cells(self, line: str, number: int) -> list[str]:
        try:
            return [cell.strip() for cell in next(csv.reader([line], strict=True))]
        except csv.Error as error:
            raise self._fault(number, f"this is no CSV ({error})", "is cut off") from None

    def _take_units(self, cells: list[str], number: int) -> None:
        if cells[0]:
            raise self._fault(number, "the row of units is missing", "was changed")
        self.units = cells

    def _row(self, cells: list[str], number: int) -> NcuRow:
        header, units = self.header or [], self.units or []
        named = dict(zip(header, cells, strict=True))
        metrics = []
        for name, text, unit in zip(header, cells, units, strict=True):
            if "__" not in name:  # the other columns describe the launch
                continue
            factor, base = base_unit(unit)
            value = self._number(text, unit, name, number)
            if value is not None:
                metrics.append(NcuMetric(name, value * factor, base))
        if not _ID.fullmatch(named["ID"]) or not named["Kernel Name"]:
            raise self._fault(number, "the ID or the kernel's name is missing", "was changed")
        return NcuRow(
            number=int(named["ID"]),
            kernel=named["Kernel Name"],
            grid=_extent(named.get("Grid Size", "")) or _dimensions(metrics, "launch__grid_dim"),
            block=_extent(named.get("Block Size", "")) or _dimensions(metrics, "launch__block_dim"),
            compute_capability=named.get("CC") or None,
            metrics=tuple(metrics),
        )

    def _number(self, text: str, unit: str, name: str, number: int) -> float | None:
        """Return a number, or None where there is none; a number in another locale's spelling is a fault."""
        if text.lower() in _ABSENT:
            return None
        instances = _INSTANCES.fullmatch(text)
        plain = instances[1] if instances else text
        if _NUMBER.fullmatch(plain):
            value = float(plain.replace(",", ""))
            is_grouped = name.endswith(".sum") and unit in _WHOLE and _GROUPED.fullmatch(plain)
            if abs(value) < _MOST and not is_grouped:
                return value
        elif not unit and not _NUMERIC.fullmatch(plain):
            return None  # a text, such as the name of the device
        raise InputError(
            f"{name} is {text[:40]!r}, no number such as 1,234.5",
            where=f"{self.where}, line {number}",
            cure="Write the file again with LC_ALL=C in the environment of ncu.",
        )

    def _fault(self, number: int, what: str, why: str) -> InputError:
        cure = f"The file {why}; write it again with ncu --csv --page raw."
        return InputError(what, where=f"{self.where}, line {number}", cure=cure)


def base_unit(unit: str) -> tuple[float, str]:
    """Return what a value in this unit is multiplied by, and the base unit that it then has.

    A unit that is not known stays as it is.

    >>> base_unit("Kbyte/block"), base_unit("usecond"), base_unit("Gbyte/second"), base_unit("cycle/nsecond")
    ((1000.0, 'byte/block'), (1000.0, 'ns'), (1000000000.0, 'byte/s'), (1000000000.0, 'cycle/s'))
    """
    numerator, slash, denominator = unit.partition("/")
    factor, base = 1.0, numerator
    if numerator in _NANOSECONDS:
        factor, base = _NANOSECONDS[numerator], "ns"
    elif match := _SCALED.fullmatch(numerator):
        factor, base = _PREFIX[match[1].upper()], match[2].lower()
    if denominator in _NANOSECONDS:
        factor, denominator = factor * (GIGA / _NANOSECONDS[denominator]), "s"
    return factor, f"{base}{slash}{denominator}"


def _extent(text: str) -> Extent | None:
    match = _EXTENT.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _dimensions(metrics: Sequence[NcuMetric], stem: str) -> Extent | None:
    """Return an extent from three metrics: before 2022 the raw page had no column for it."""
    values = {metric.name: int(metric.value) for metric in metrics if metric.name.startswith(stem)}
    x, y, z = (values.get(f"{stem}_{axis}") for axis in "xyz")
    return None if x is None or y is None or z is None else (x, y, z)
