"""Numbers, units and extents in the CSV of Nsight Compute; version and locale change the spelling."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from kerncast.errors import InputError
from kerncast.launch import Extent
from kerncast.profiles import SampledLine
from kerncast.units import GIB, GIGA, KIB, KILO, MEGA, MIB, TERA


@dataclass(frozen=True, slots=True)
class NcuMetric:
    """One metric of one launch, in ncu's base unit."""

    name: str
    value: float
    unit: str
    """unit: byte, ns, hz, cycle, inst, sector, %, …; a rate is per s, such as byte/s; empty where ncu prints none"""


@dataclass(frozen=True, slots=True)
class NcuRow:
    """One launch that Nsight Compute profiled."""

    number: int
    """ID that ncu gave the launch"""
    kernel: str
    """name as ncu prints it, such as void reduce<float, 256>(const T1 *, T1 *)"""
    grid: Extent | None
    """grid; None where the file does not say"""
    block: Extent | None
    compute_capability: str | None
    metrics: tuple[NcuMetric, ...]
    """metrics that ncu could collect"""
    device: str | None = None
    """marketing name of the GPU; None where the file does not say, as in most CSV"""

    empties_caches: bool = True
    """whether the profiler empties caches before each pass unless told otherwise: ncu does, others do not"""

    lines: tuple[SampledLine, ...] = ()
    """source lines with their counters; empty where the file has none, as all CSV"""

    def value(self, name: str) -> float | None:
        """Return the value of a metric, or None where the file has none."""
        return next((metric.value for metric in self.metrics if metric.name == name), None)


#: No counter reaches this.
MOST_VALUE = 1e30
#: More than a day of profiling yields; they take some 400 MB.
MOST_VALUES = 3_000_000
#: Longer than any row: a thousand metrics and the name of a template.
MOST_LINE_CHARS = 1 << 20

_ABSENT = frozenset({"", "n/a", "(!) n/a", "nan", "(!) nan", "-nan", "inf", "-inf", "(!) inf", "no data", "none"})
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?|[-+]?\.\d+(?:[eE][-+]?\d+)?")
_NUMERIC = re.compile(r"[-+]?\d[\d.,'\s]*(?:[eE][-+]?\d+)?")
#: A total in a unit that is not scaled is whole: 16.384 inst is how another locale writes 16,384.
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")
_WHOLE = frozenset({"byte", "inst", "sector", "request", "wavefront", "warp", "cycle", "ns", "nsecond", ""})
_INSTANCES = re.compile(r"([^(]*[^\s(])\s*\([^()]*\)")
#: Numbers of fewer digits need no second look.
_PLAIN_DIGITS = 25
_WORDS = ("inst", "sector", "request", "wavefront", "warp", "thread", "block", "register", "transaction")
_PER = ("inst", "warp", "thread", "block", "request")
#: Units of a number of events: these all count one by one.
_EVENTS = frozenset({"", *_WORDS, *(f"{word}/{per}" for word in _WORDS for per in _PER)})
_UNITS = (
    (re.compile(r"^derived__"), _EVENTS | {f"{word}/cycle" for word in _WORDS}),
    (re.compile(r"__time_"), frozenset({"ns"})),
    (re.compile(r"__cycles_"), frozenset({"cycle"})),
    (re.compile(r"_memory_clock_rate"), frozenset({"", "hz"})),
    (re.compile(r"shared_mem_per_block"), frozenset({"byte", "byte/block"})),
    (re.compile(r"_bytes(?:[._]|$)"), frozenset({"byte"})),
)
_EXTENT = re.compile(r"\(?\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)?")

#: ncu scales by powers of 1000: it prints the 1024 bytes that the driver takes of shared memory as 1.02 Kbyte.
_PREFIX = {"": 1.0, "K": KILO, "M": MEGA, "G": GIGA, "T": TERA}
_BINARY = {"K": float(KIB), "M": float(MIB), "G": float(GIB)}
_BINARY_BYTES = re.compile(r"([KMG])i(?:B|byte|bytes)")
_SCALED = re.compile(r"([kKMGT]?)(byte|[hH]z|inst|sector|request|wavefront|cycle|warp|thread|block|register)s?")
_NANOSECONDS = {
    "ns": 1.0, "us": KILO, "ms": MEGA, "s": GIGA, "nsecond": 1.0, "usecond": KILO, "msecond": MEGA, "second": GIGA,
}  # fmt: skip


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
    elif match := _BINARY_BYTES.fullmatch(numerator):
        factor, base = _BINARY[match[1]], "byte"
    if denominator in _NANOSECONDS:
        factor, denominator = factor * (GIGA / _NANOSECONDS[denominator]), "s"
    return factor, f"{base}{slash}{denominator}"


@lru_cache(maxsize=4096)
def expected_units(name: str) -> frozenset[str]:
    """Return the base units that a metric may have: of time and bytes one, of events any name of an event, or none.

    >>> [sorted(expected_units(f"dram__{rest}")) for rest in ("bytes.sum", "bytes.sum.per_second", "bytes.avg.pct")]
    [['byte'], ['byte/s'], ['%']]
    """
    if ".pct" in name:
        return frozenset({"%"})
    if name.endswith(".ratio"):
        return _EVENTS
    bases = next((units for pattern, units in _UNITS if pattern.search(name)), _EVENTS)
    if name.endswith(".per_second"):
        return frozenset({"hz", "cycle/s"} if "cycle" in bases else {f"{base}/s" for base in bases if base})
    if ".per_cycle" in name:
        return bases | {f"{base}/cycle" for base in bases if base}
    return bases


def read_number(text: str, unit: str, name: str, where: str) -> float | None:
    """Return a number, or None where there is none; a number in another locale's spelling is an InputError."""
    if text.isdecimal() and text.isascii() and len(text) < _PLAIN_DIGITS:
        return float(text)
    if text.lower() in _ABSENT:
        return None
    instances = _INSTANCES.fullmatch(text) if text.endswith(")") else None
    plain = instances[1] if instances else text
    if _NUMBER.fullmatch(plain):
        value = float(plain.replace(",", ""))
        is_grouped = "." in plain and name.endswith(".sum") and unit in _WHOLE and _GROUPED.fullmatch(plain)
        if abs(value) < MOST_VALUE and not is_grouped:
            return value
    elif not unit and not _NUMERIC.fullmatch(plain):
        return None  # a text, such as the name of the device
    raise InputError(
        f"{name[:80]} is {text[:40]!r}, not a number such as 1,234.5",
        where=where,
        cure="Write the file again with LC_ALL=C in the environment of ncu.",
    )


def read_extent(text: str) -> Extent | None:
    """Return grid or block of a text such as ``(256, 1, 1)``, or None where it is no such text."""
    match = _EXTENT.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def extent_of(metrics: Sequence[NcuMetric], stem: str) -> Extent | None:
    """Return an extent from three metrics: before 2022 the raw page had no column for it."""
    values = {metric.name: int(metric.value) for metric in metrics if metric.name.startswith(stem)}
    x, y, z = (values.get(f"{stem}_{axis}") for axis in "xyz")
    return None if x is None or y is None or z is None else (x, y, z)


def read_cells(line: str, where: str, page: str) -> list[str]:
    """Return the values of one line of CSV; raises InputError where quotes do not match."""
    if len(line) > MOST_LINE_CHARS:
        raise page_fault(f"the line has more than {MOST_LINE_CHARS:,} characters", "is not CSV of ncu", where, page)
    try:
        return [cell.strip() for cell in next(csv.reader([line], strict=True))]
    except csv.Error as error:
        raise page_fault(f"this is not CSV ({error})", "is cut off", where, page) from None


def page_fault(what: str, why: str, where: str, page: str) -> InputError:
    """Return the error for a file that is not what ncu writes."""
    return InputError(what, where=where, cure=f"The file {why}; write it again with ncu --csv --page {page}.")


def too_many(where: str) -> InputError:
    """Return the error for a file with more values than fit into memory."""
    return InputError(
        f"there are more than {MOST_VALUES:,} values in it",
        where=where,
        cure="Profile fewer launches (ncu -k NAME --launch-count N) or fewer metrics.",
    )
