"""Reads nvprof's tables, and gives its metrics the names and units of Nsight Compute."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from kerncast.bounded_file import our_rows
from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError
from kerncast.gpu import DATA, GPU
from kerncast.launch import MAX_BLOCK, MAX_GRID, Extent
from kerncast.profiles import QUESTIONS, Count, Counts, KernelProfile, Origin
from kerncast.read.bounded_text import MOST, MOST_SECONDS
from kerncast.read.ncu.profile import Device, find_gpu, profiles_of_rows
from kerncast.read.ncu.rows import NcuMetric, NcuRow
from kerncast.read.selection import Selection
from kerncast.units import GIB, KIB, MIB, NANOSECOND, PERCENT, parse_seconds

# The CSV that nvprof writes for GPUs up to Volta: kernel times with their launches, and metrics.
#
# Three tables are known, and one file may hold several: ``--print-gpu-trace`` (one row per launch with its time),
# metrics of each launch (``--print-gpu-trace --metrics``), and metrics by kernel (``--metrics``). nvprof collects
# metrics in runs of their own, so a table of metrics has no times: both are put into one file, and joined here by
# device and kernel. Sources: CUDA Profiler User's Guide; tables that CUDA 5.5 to 11 wrote. KB and MB are powers of
# 1024 there.


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
    """unit, such as % or GB/s; empty where there is none"""


@dataclass(frozen=True, slots=True)
class NvprofLaunch:
    """One launch of the trace, or the mean launch of a kernel where only its metrics are known."""

    kernel: str
    device: str
    grid: Extent | None
    """grid; None, as the rest of the launch, without a trace"""
    block: Extent | None
    seconds: float | None
    registers_per_thread: int | None
    static_shared_bytes: int | None
    dynamic_shared_bytes: int | None
    metrics: tuple[NvprofMetric, ...]
    averaged_over: int | None
    """launches of the kernel that its metrics are means of; None where the metrics are of this launch alone"""


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
            "it holds no kernel of nvprof",
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
        """launches with metrics of each (kernel, device), in the order of the file"""
        self.means: dict[tuple[str, str], NvprofLaunch] = {}
        self._place = where
        self._header: list[str] = []
        self._units: dict[str, str] = {}
        self.rows_of_tables: list[Counter[tuple[str, str]]] = []
        """rows of each (kernel, device) in each table of metrics"""
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
                raise self._fault(f"{len(cells)} values for {len(self._header)} columns", "is cut off")
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
            raise self._fault(f"{ascii(name)[:60]} is {ascii(text)[:40]}, not a number of at least 0", "was changed")
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


# What nvprof counts, in the names and units of Nsight Compute: one reading of counters serves both.
#
# ``data/nvprof_metrics.csv`` says which metric is which. Three things were found on kernels of known traffic on
# Kepler and Maxwell. Bytes of shared memory are its transactions times its efficiency, to nine digits. On Kepler a
# transaction of global memory is anything up to 128 bytes; L1 caches no loads there, so what L2 is asked for is a
# better bound. On Maxwell gld_transactions is two to three times what loads ask for; the unified cache's transactions
# are nearer.


#: On older architectures, L1 caches no global loads by default, and never stores.
_L1_CACHES_LOADS = 50
_PASSED_ON = (
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "lts__t_sectors_op_read.sum"),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "lts__t_sectors_op_write.sum"),
)
_SHARED_BYTES = "smsp__sass_data_bytes_mem_shared.sum"
_FLOPS = (("add", 1), ("mul", 1), ("fma", 2))
#: Counts that no counter of ncu has: these go into the profile's work as they are.
_WORK = frozenset({"fp32_flops", "fp64_flops", "fp16_flops", "special_ops"})
#: Where one of these is 0, and none is more, the kernel does not use local memory.
_LOCAL_MEMORY = ("local_memory_overhead", "local_{}_requests", "inst_executed_local_{}s")
#: Metrics of no use but for that.
_NOT_COUNTED = _WORK | {"local_memory_overhead"}
_NOT_WORD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class _Rule:
    """One line of the data file."""

    name: str
    metric: str
    factor: float
    unit: str
    kind: str
    """printed form in nvprof: count, percent or ratio"""
    first: int
    last: int
    """last architecture that has the metric, such as 37"""


def nvprof_profiles(
    launches: Sequence[NvprofLaunch],
    source_gpu: GPU | None = None,
    where: str = "nvprof CSV",
    selection: Selection | None = None,
) -> tuple[KernelProfile, ...]:
    """Return the profiles of launches that nvprof saw, on the GPU that it names unless one is given."""
    for launch in launches:
        if launch.grid is None:
            raise InputError(
                f"Duration, Grid and Block of {ascii(launch.kernel)[:60]} are missing: it holds metrics only",
                where=where,
                cure="Run nvprof --csv --print-gpu-trace too, and put what both runs wrote into one file.",
            )
    numbers = {each.device: profiled_gpu(each.device, source_gpu, where).architecture.number for each in launches}
    rows = [ncu_row(launch, number, numbers[launch.device]) for number, launch in enumerate(launches)]
    profiles = profiles_of_rows(rows, source_gpu, where, selection)
    return tuple(_completed(profile, launches[profile.index], numbers) for profile in profiles)


def ncu_row(launch: NvprofLaunch, number: int, architecture: int) -> NcuRow:
    """Return a launch as Nsight Compute would have counted it on a GPU of this architecture, such as 35."""
    printed = printed_values(launch.metrics)
    counted = counted_metrics(printed, architecture)
    known = (
        ("gpu__time_duration.sum", None if launch.seconds is None else launch.seconds / NANOSECOND, "ns"),
        ("launch__registers_per_thread", launch.registers_per_thread, "register/thread"),
        ("launch__shared_mem_per_block_static", launch.static_shared_bytes, "byte/block"),
        ("launch__shared_mem_per_block_dynamic", launch.dynamic_shared_bytes, "byte/block"),
    )
    return NcuRow(
        number=number,
        kernel=launch.kernel,
        grid=launch.grid,
        block=launch.block,
        compute_capability=f"{architecture // 10}.{architecture % 10}",
        metrics=(*(NcuMetric(name, float(value), unit) for name, value, unit in known if value is not None), *counted),
        device=launch.device,
        empties_caches=False,
    )


def printed_values(metrics: Iterable[NvprofMetric]) -> Mapping[str, float]:
    """Return metrics by nvprof's names, shares in nvprof's own scale; a name that stands twice counts once."""
    values: dict[str, float] = {}
    for metric in metrics:
        name = _names().get(_plain(metric.name))
        if name is None:
            continue
        kind = _kinds()[name]
        if metric.unit and not (metric.unit == "%" and kind in {"percent", "ratio"}):
            cure = "Write the file again with nvprof --csv."
            raise InputError(f"{name} is {metric.value:g} {metric.unit}, not a number of events", cure=cure)
        is_share_of_100 = metric.unit == "%" and kind == "ratio"
        values.setdefault(name, metric.value * PERCENT if is_share_of_100 else metric.value)
    return values


def counted_metrics(printed: Mapping[str, float], architecture: int) -> tuple[NcuMetric, ...]:
    """Return nvprof's metrics under ncu's names, in base units, as they are counted on this architecture.

    >>> [(each.name, each.value) for each in counted_metrics({"dram_read_transactions": 1000}, 60)]
    [('dram__bytes_read.sum', 32000.0)]
    """
    printed = _completed_mix(_without_local_memory(printed))
    found: dict[str, float] = {}
    units: dict[str, str] = {}
    for rule in _rules():
        value = printed.get(rule.name)
        if value is None or rule.metric in found or not rule.first <= architecture <= rule.last:
            continue
        if rule.metric == _SHARED_BYTES:
            transactions = [printed.get(f"shared_{operation}_transactions") for operation in ("load", "store")]
            if None in transactions:
                continue
            value *= sum(filter(None, transactions))
        found[rule.metric], units[rule.metric] = value * rule.factor, rule.unit
    if architecture < _L1_CACHES_LOADS:
        for operation, passed_on in _PASSED_ON:
            if operation in found and passed_on in found:
                found[operation] = min(found[operation], found[passed_on])
    return tuple(NcuMetric(name, value, units[name]) for name, value in found.items() if name not in _NOT_COUNTED)


def _without_local_memory(printed: Mapping[str, float]) -> Mapping[str, float]:
    """Return the counters with no transactions of local memory where another counter says that it is not used.

    >>> _without_local_memory({"local_memory_overhead": 0.0})["local_load_transactions"]
    0.0
    """
    completed = dict(printed)
    for way in ("load", "store"):
        asked = [printed.get(name.format(way)) for name in _LOCAL_MEMORY]
        if 0 in asked and not any(asked):
            completed.setdefault(f"local_{way}_transactions", 0.0)
    return completed


def _completed_mix(printed: Mapping[str, float]) -> Mapping[str, float]:
    """Return the counters with the one of additions, multiplications and FMAs that only their total tells.

    >>> printed = {"flop_count_dp": 1179760, "flop_count_dp_add": 131088, "flop_count_dp_mul": 524320}
    >>> _completed_mix(printed)["flop_count_dp_fma"]
    262176.0
    """
    completed = dict(printed)
    for width in ("sp", "dp", "hp"):
        total = printed.get(f"flop_count_{width}")
        flops = {f"flop_count_{width}_{kind}": each for kind, each in _FLOPS}
        missing = [name for name in flops if name not in printed]
        if total is not None and len(missing) == 1:
            rest = total - sum(printed[name] * each for name, each in flops.items() if name in printed)
            completed[missing[0]] = max(0.0, rest / flops[missing[0]])
    return completed


def is_nvprof_name(name: str) -> bool:
    """Whether nvprof has a metric of this name or description that serves a forecast."""
    return _plain(name) in _names()


def as_printed(name: str, counted: Mapping[str, float], architecture: int) -> float | None:
    """Return what nvprof would print under a name or description, by ncu's counters; None where they do not tell it.

    >>> as_printed("Device Memory Read Transactions", {"dram__bytes_read.sum": 32000.0}, 60)
    1000.0
    """
    known = _names().get(_plain(name))
    for rule in _rules():
        metric = QUESTIONS[rule.metric][0] if rule.metric in _WORK else rule.metric
        is_told = rule.name == known and rule.first <= architecture <= rule.last and rule.metric != _SHARED_BYTES
        if is_told and metric in counted:
            return counted[metric] / rule.factor
    return None


def profiled_gpu(device: str, source_gpu: GPU | None, where: str) -> GPU:
    """Return the GPU that a file was made on: the one given, else the one that it names."""
    if source_gpu is not None:
        return source_gpu
    return find_gpu(Device(device, None, None, None, None), where)[0]


def _completed(profile: KernelProfile, launch: NvprofLaunch, numbers: Mapping[str, int]) -> KernelProfile:
    """Add what nvprof counts and ncu does not, and what is to be known of its counters."""
    printed = printed_values(launch.metrics)
    totals = {rule.metric: Count.exact(printed[rule.name]) for rule in _rules() if rule.name in printed}
    operations = Counts.of(Origin.PROFILED, {QUESTIONS[key][0]: totals.get(key) for key in _WORK})
    notes = []
    if launch.averaged_over is not None and launch.averaged_over > 1:
        notes.append(Caveat.of(CaveatKind.MEANS_OVER_LAUNCHES, launches=launch.averaged_over))
    if numbers[launch.device] < _L1_CACHES_LOADS and "gld_transactions" in printed:
        notes.append(Caveat.of(CaveatKind.L1_TAKEN_AS_UNUSED))
    return replace(profile, counts=profile.counts.merged(operations), caveats=(*profile.caveats, *notes))


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    """Return what counts of a name: nvprof writes Operation and Operations, with and without spaces."""
    return _NOT_WORD.sub("", name.lower()).replace("operations", "operation")


@cache
def _names() -> Mapping[str, str]:
    """Return nvprof's name of a metric by its name or its description, as older versions head their columns."""
    rows = our_rows(DATA / "nvprof_metrics.csv")
    return {_plain(row[column]): row["name"] for row in rows for column in ("description", "name")}


@cache
def _kinds() -> Mapping[str, str]:
    return {rule.name: rule.kind for rule in _rules()}


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(
        _Rule(
            name=row["name"],
            metric=row["metric"],
            factor=float(row["factor"]),
            unit=row["unit"],
            kind=row["kind"],
            first=_architecture(row["from"]),
            last=_architecture(row["to"] or "99.9"),
        )
        for row in our_rows(DATA / "nvprof_metrics.csv")
    )


def _architecture(text: str) -> int:
    major, minor = text.split(".")
    return int(major) * 10 + int(minor)
