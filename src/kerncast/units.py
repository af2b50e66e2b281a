"""The only conversions between units, and the only formatting of quantities, in the project.

Python fields are SI base units with the unit in the name. GB is 1e9 bytes, GiB is 2**30.
"""

import math
import re

KILO, MEGA, GIGA, TERA = 1e3, 1e6, 1e9, 1e12
KIB, MIB, GIB = 2**10, 2**20, 2**30
MILLISECOND, MICROSECOND, NANOSECOND = 1e-3, 1e-6, 1e-9
PICOJOULE = 1e-12
SECONDS_PER_HOUR = 3600
PERCENT = 1e-2
BITS_PER_BYTE = 8

_SECONDS_PER_UNIT = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_BYTES_PER_UNIT = {
    "": 1, "b": 1, "kb": KILO, "mb": MEGA, "gb": GIGA, "tb": TERA, "kib": KIB, "mib": MIB, "gib": GIB, "tib": 2**40,
}  # fmt: skip
#: No machine has more memory.
_MOST_BYTES = 2**60
_QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Zµμ]*)\s*")
#: No SM runs at 10 GHz.
_HIGHEST_MEGAHERTZ = 10_000


def parse_megahertz(text: str) -> float:
    """Return the hertz of a clock in MHz; raises ValueError for what no SM runs at.

    >>> parse_megahertz("1545")
    1545000000.0
    """
    megahertz = float(text)
    if not 1 <= megahertz <= _HIGHEST_MEGAHERTZ:
        raise ValueError(f"{text[:40]!r} is not a clock in MHz")
    return megahertz * MEGA


def parse_seconds(text: str) -> float:
    """Return the seconds that a text such as ``1.23ms`` means; the unit is required.

    >>> parse_seconds("1.5 ms")
    0.0015
    """
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in _SECONDS_PER_UNIT:
        raise ValueError(f"{text!r} is not a time such as 2ms, 15us or 1.5s")
    seconds = float(match[1]) * _SECONDS_PER_UNIT[match[2]]
    if not math.isfinite(seconds) or seconds <= 0:
        raise ValueError(f"{text!r} is not a time above zero")
    return seconds


def parse_bytes(text: str) -> int:
    """Return the bytes that a text such as ``8GiB``, ``500 MB`` or ``4096`` means; MB is 10^6 bytes, MiB is 2^20.

    >>> parse_bytes("8GiB"), parse_bytes("1.5 kB")
    (8589934592, 1500)
    """
    match = _QUANTITY.fullmatch(text)
    unit = None if match is None else _BYTES_PER_UNIT.get(match[2].lower())
    if match is None or unit is None:
        raise ValueError(f"{text!r} is not a size such as 8GiB or 500MB")
    size = float(match[1]) * unit
    if not 1 <= size <= _MOST_BYTES:
        raise ValueError(f"{text!r} is not a size of a memory")
    return int(size)


def format_seconds(seconds: float, digits: int = 4) -> str:
    """Format a time with a fitting unit.

    >>> format_seconds(5.061e-6), format_seconds(0.25), format_seconds(0)
    ('5.061 µs', '250 ms', '0 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{_significant(seconds / size, digits)} {unit}"
    return f"{_significant(seconds / 1e-9, digits)} ns" if seconds else "0 s"


def format_joules(joules: float, digits: int = 3) -> str:
    """Format an energy with a fitting unit.

    >>> format_joules(0.00251), format_joules(7.2e-7), format_joules(0)
    ('2.51 mJ', '0.72 µJ', '0 J')
    """
    for unit, size in (("kJ", KILO), ("J", 1.0), ("mJ", 1e-3)):
        if joules >= size:
            return f"{_significant(joules / size, digits)} {unit}"
    return f"{_significant(joules / 1e-6, digits)} µJ" if joules else "0 J"


def format_bytes(size: float) -> str:
    """Format a number of bytes with decimal units.

    >>> format_bytes(12582912), format_bytes(820)
    ('12.6 MB', '820 B')
    """
    return _scaled(size, "B")


def format_count(number: float, unit: str = "") -> str:
    """Format a count; whole below ten thousand, with a decimal prefix above.

    >>> format_count(836), format_count(20900, "FLOP"), format_count(2.147e9)
    ('836', '20.9 kFLOP', '2.15 G')
    """
    if abs(number) < 10_000:
        return f"{_significant(number, 4)} {unit}".rstrip()
    return _scaled(number, unit)


def _scaled(number: float, unit: str) -> str:
    for prefix, size in (("T", TERA), ("G", GIGA), ("M", MEGA), ("k", KILO)):
        if abs(number) >= size:
            return f"{_significant(number / size, 3)} {prefix}{unit}".rstrip()
    return f"{_significant(number, 3)} {unit}".rstrip()


def _significant(number: float, digits: int) -> str:
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    text = f"{number:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
