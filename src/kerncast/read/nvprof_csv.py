"""The CSV that nvprof writes for GPUs up to Volta: kernel times with their launches, and metrics.

Three tables are known, and one file may hold several: ``--print-gpu-trace`` (one row per launch with its time), metrics
of each launch (``--print-gpu-trace --metrics``), and metrics by kernel (``--metrics``). nvprof collects metrics in runs
of their own, so a table of metrics has no times: both are put into one file, and joined here by device and kernel.
Sources: CUDA Profiler User's Guide; tables that CUDA 5.5 to 11 wrote. KB and MB are powers of 1024 there.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kerncast.errors import InputError
from kerncast.launch import MAX_BLOCK, MAX_GRID, Extent
from kerncast.read.bounded_text import MOST, MOST_SECONDS
from kerncast.units import GIB, KIB, MIB, parse_seconds

#: More launches than this are a run to be sampled, not a profile.
MOST_LAUNCHES = 200_000
_BESIDE_METRICS = frozenset({"Device", "Context", "Stream", "Kernel", "Correlation_ID"})
_BYTES_PER_UNIT = {"": 1, "B": 1, "KB": KIB, "MB": MIB, "GB": GIB}
_VALUE = re.compile(r"([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*(%|[KMGT]?B/s|)")
_WHOLE = re.compile(r"[1-9]\d{0,11}")
_TIME_UNITS = frozenset({"s", "ms", "us", "ns"})
_LEVEL = re.compile(r"(?:Idle|Low|Mid|High|Max) \((\d+)\)")
_ABSENT = frozenset({"", "n/a", "nan", "-nan", "inf", "<overflow>", "overflow", "no data"})
_LAUNCH_ID = re.compile(r" \[\d+\]$")
_DEVICE_INDEX = re.compile(r" \(\d+\)$")


@dataclass(frozen=True, slots=True)
class NvprofMetric:
    """One metric of one launch, as printed: shares of 100 where its unit is %."""

    name: str
    """nvprof's name or description, such as gld_transactions or Global Load Transactions"""
    value: float
    unit: str
    """%, such as GB/s, or empty"""


@dataclass(frozen=True, slots=True)
class NvprofLaunch:
    """One launch of the trace, or the mean launch of a kernel where only its metrics are known."""

    kernel: str
    device: str
    grid: Extent | None
    """None without a trace, and so the rest of the launch"""
    block: Extent | None
    seconds: float | None
    registers_per_thread: int | None
    static_shared_bytes: int | None
    dynamic_shared_bytes: int | None
    metrics: tuple[NvprofMetric, ...]
    averaged_over: int | None
    """launches of this kernel that its metrics are means of; None where they are this launch's own"""


def read_nvprof(lines: Iterable[str], where: str = "nvprof CSV") -> tuple[NvprofLaunch, ...]:
    """Read the launches of nvprof's tables, in order; raises InputError that names the line.

    Lines that nvprof or the application wrote between the tables, and copies between host and GPU, are skipped.
    """
    tables = _Tables(where)
    for number, line in enumerate(lines, 1):
        tables.take(line.rstrip("\r\n").removeprefix("\ufeff"), number)
    launches = _joined(tables)
    if not launches:
        raise InputError(
            "no kernel of nvprof is in it",
            where=where,
            cure="Make it with nvprof --csv --print-gpu-trace, and --metrics in a second run.",
        )
    return launches


def is_nvprof_header(line: str) -> bool:
    """Whether a line heads one of the tables that are known."""
    if "," not in line or line.startswith("="):
        return False
    try:
        return _heads_table(next(csv.reader([line.strip()], strict=True), []))
    except csv.Error:
        return False


def _heads_table(cells: Sequence[str]) -> bool:
    return {"Start", "Duration", "Name"} <= set(cells) or {"Device", "Kernel"} <= set(cells)


class _Tables:
    """Takes one line after the other."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.traced: list[NvprofLaunch] = []
        self.own: dict[tuple[str, str], list[NvprofLaunch]] = {}
        """the launches of a kernel on a device with their metrics, in the order of the file"""
        self.means: dict[tuple[str, str], NvprofLaunch] = {}
        self._place = where
        self._header: list[str] = []
        self._units: dict[str, str] = {}
        self.rows_of_tables: list[Counter[tuple[str, str]]] = []
        """how often a kernel stands in each table of metrics"""
        self._launches = 0

    def take(self, line: str, number: int) -> None:
        if line.startswith("=") or "," not in line:
            return
        self._place = f"{self.where}, line {number}"
        cells = self._cells(line)
        if _heads_table(cells):
            self._header, self._units = cells, {}
            self.rows_of_tables.append(Counter())
            if len(set(cells)) != len(cells):
                raise self._fault("a column stands twice", "was changed")
        elif self._header and self._is_row(cells):
            if len(cells) != len(self._header):
                raise self._fault(f"{len(cells)} values stand under {len(self._header)} columns", "is cut off")
            row = dict(zip(self._header, cells, strict=True))
            if self._is_unit_row(row):
                self._units = row
            else:
                self._take_row(row)

    def _cells(self, line: str) -> list[str]:
        try:
            return next(csv.reader([line], strict=True))
        except (csv.Error, StopIteration) as error:
            raise self._fault("a quote is not closed", "is cut off") from error

    def _is_row(self, cells: list[str]) -> bool:
        """Whether a line below a header belongs to the table: the application writes lines of its own."""
        if "Duration" in self._header:
            return cells[0] in _TIME_UNITS or cells[0].replace(".", "", 1).isdigit()
        return bool(_DEVICE_INDEX.search(cells[0])) or not any(cells[:2])

    def _is_unit_row(self, row: dict[str, str]) -> bool:
        return row["Duration"] in _TIME_UNITS if "Duration" in row else not row["Device"]

    def _take_row(self, row: dict[str, str]) -> None:
        if "Duration" in row:
            if row.get("Grid X"):  # else it is a copy between host and GPU
                self.traced.append(self._traced(row))
                self._launches += 1
        elif "Metric Name" in row:
            self._take_mean(row)
        elif "Event Name" not in row:
            self._take_own(row)
        if self._launches > MOST_LAUNCHES:
            cure = "Profile fewer with nvprof --kernels or --profile-from-start off, or split the file."
            raise InputError(f"it holds more than {MOST_LAUNCHES} launches", where=self._place, cure=cure)

    def _traced(self, row: dict[str, str]) -> NvprofLaunch:
        text = row["Duration"] + self._units.get("Duration", "")
        try:
            seconds = parse_seconds(text)
        except ValueError as error:
            raise self._fault(f"Duration is {ascii(text)[:40]}", "was changed") from error
        if seconds > MOST_SECONDS:
            raise self._fault(f"Duration is {seconds:g} s", "was changed")
        return replace(
            _bare(row["Name"], row.get("Device", "")),
            grid=self._extent(row, "Grid", MAX_GRID),
            block=self._extent(row, "Block", MAX_BLOCK),
            seconds=seconds,
            registers_per_thread=self._size(row, "Registers Per Thread"),
            static_shared_bytes=self._size(row, "Static SMem"),
            dynamic_shared_bytes=self._size(row, "Dynamic SMem"),
        )

    def _extent(self, row: dict[str, str], name: str, most: Extent) -> Extent:
        texts = [row.get(f"{name} {axis}", "") for axis in "XYZ"]
        sizes = [int(text) if _WHOLE.fullmatch(text) else 0 for text in texts]
        if not all(1 <= size <= limit for size, limit in zip(sizes, most, strict=True)):
            raise self._fault(f"{name} is {ascii(texts)[:60]}", "was changed")
        return (sizes[0], sizes[1], sizes[2])

    def _size(self, row: dict[str, str], name: str) -> int | None:
        text, unit = row.get(name, ""), self._units.get(name, "")
        if not text:
            return None
        match = _VALUE.fullmatch(text)
        if match is None or match[2] or unit not in _BYTES_PER_UNIT or not 0 <= float(match[1]) <= GIB:
            raise self._fault(f"{name} is {ascii(text + unit)[:40]}", "was changed")
        return round(float(match[1]) * _BYTES_PER_UNIT[unit])

    def _take_own(self, row: dict[str, str]) -> None:
        names = [name for name in row if name not in _BESIDE_METRICS]
        found = [self._metric(name, row[name], self._units.get(name, "")) for name in names]
        launch = replace(_bare(row["Kernel"], row["Device"]), metrics=tuple(filter(None, found)))
        key = (launch.device, launch.kernel)
        place = self.rows_of_tables[-1][key]
        self.rows_of_tables[-1][key] += 1
        rows = self.own.setdefault(key, [])
        if place < len(rows):  # metrics of a further run
            rows[place] = replace(launch, metrics=rows[place].metrics + launch.metrics)
        else:
            rows.append(launch)
            self._launches += 1

    def _take_mean(self, row: dict[str, str]) -> None:
        invocations = row.get("Invocations", "")
        if not _WHOLE.fullmatch(invocations) or "Avg" not in row:
            raise self._fault("Invocations or Avg is missing", "was changed")
        metric = self._metric(row["Metric Name"], row["Avg"], "")
        bare = _bare(row["Kernel"], row["Device"])
        key = (bare.device, bare.kernel)
        before = self.means.get(key)
        self._launches += before is None
        metrics = (before.metrics if before else ()) + ((metric,) if metric else ())
        self.means[key] = replace(bare, metrics=metrics, averaged_over=int(invocations))

    def _metric(self, name: str, text: str, unit: str) -> NvprofMetric | None:
        """Return a metric, or None where nvprof could not collect it or prints a level such as Low (2)."""
        if text.lower() in _ABSENT or _LEVEL.fullmatch(text):
            return None
        match = _VALUE.fullmatch(text)
        if match is None or not 0 <= float(match[1]) < MOST:
            raise self._fault(f"{ascii(name)[:60]} is {ascii(text)[:40]}, no number of at least 0", "was changed")
        return NvprofMetric(name, float(match[1]), match[2] or unit)

    def _fault(self, what: str, why: str) -> InputError:
        cure = f"The file {why}; write it again with nvprof --csv."
        return InputError(what, where=self._place, cure=cure)


def _bare(kernel: str, device: str) -> NvprofLaunch:
    return NvprofLaunch(
        kernel=_LAUNCH_ID.sub("", kernel),
        device=_DEVICE_INDEX.sub("", device),
        grid=None,
        block=None,
        seconds=None,
        registers_per_thread=None,
        static_shared_bytes=None,
        dynamic_shared_bytes=None,
        metrics=(),
        averaged_over=None,
    )


def _joined(tables: _Tables) -> tuple[NvprofLaunch, ...]:
    """Return the launches of the trace with the metrics of the same kernel on the same device."""
    own, means = tables.own, tables.means
    times = Counter((launch.device, launch.kernel) for launch in tables.traced)
    for counts in (*tables.rows_of_tables, *([times] if tables.traced else [])):
        for key, launches in own.items():
            if counts[key] != len(launches) and (counts[key] or counts is times):
                raise InputError(
                    f"{ascii(key[1])[:60]} stands {len(launches)} times in one table and {counts[key]} in another",
                    where=tables.where,
                    cure="Put together the trace and the metrics of the same program on the same input.",
                )
    if not tables.traced:
        only_means = (mean for key, mean in means.items() if key not in own)
        return (*(launch for launches in own.values() for launch in launches), *only_means)
    own_in_order = {key: iter(launches) for key, launches in own.items()}
    joined = []
    for launch in tables.traced:
        key = (launch.device, launch.kernel)
        found = next(own_in_order[key]) if key in own else means.get(key)
        joined.append(replace(launch, metrics=found.metrics, averaged_over=found.averaged_over) if found else launch)
    return tuple(joined)
