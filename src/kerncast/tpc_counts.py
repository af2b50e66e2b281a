"""Which parts of a GPU a text means, in texture processing clusters (TPCs)."""

from dataclasses import dataclass

from kerncast.errors import InputError

_LONGEST_PART = 12
#: No GPU has more SMs than this.
MOST_TPCS = 4096


@dataclass(frozen=True, slots=True)
class TPCRanges:
    """Ranges of TPC counts, both ends included."""

    text: str
    ranges: tuple[tuple[int, int], ...]

    def __contains__(self, count: object) -> bool:
        return isinstance(count, int) and any(low <= count <= high for low, high in self.ranges)

    @property
    def largest(self) -> int:
        """The largest count that is named."""
        return max(high for _, high in self.ranges)

    @property
    def shown(self) -> str:
        """The text, cut where it is long."""
        return repr(self.text[:40])


def parse_tpcs(text: str, option: str = "--tpcs") -> TPCRanges:
    """Return what a text such as ``1-8,16`` means; raises InputError that names the option.

    >>> parse_tpcs("1-3, 8").ranges
    ((1, 3), (8, 8))
    """
    wanted: list[tuple[int, int]] = []
    for part in text.split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        numbers = (first, last) if dash else (first,)
        if len(part) > _LONGEST_PART or not all(each.isascii() and each.isdecimal() for each in numbers):
            raise InputError(f"{option} {text[:40]!r} is no list of TPCs", cure="Write it as 1-8 or as 1,2,4,8-16.")
        wanted.append((int(first), int(last or first)))
    return TPCRanges(text, tuple(wanted))


def counts_up_to(text: str, largest: int, owner: str, option: str = "--tpcs") -> tuple[int, ...]:
    """Return every count that a text means, ascending; raises InputError for one above the largest, or below 1.

    >>> counts_up_to("1-3,8", 40, "TITAN V")
    (1, 2, 3, 8)
    """
    wanted = parse_tpcs(text, option)
    cure = f"{owner} has 1 to {largest}."
    if any(high < low for low, high in wanted.ranges):
        raise InputError(f"{option} {wanted.shown} has a range that ends before it begins", cure="Write 1-8, not 8-1.")
    if wanted.largest > largest:
        raise InputError(f"{option} {wanted.shown} asks for more TPCs than there are", cure=cure)
    if any(low < 1 for low, _ in wanted.ranges):
        raise InputError(f"{option} {wanted.shown} asks for 0 TPCs", cure=cure)
    return tuple(sorted({count for low, high in wanted.ranges for count in range(low, high + 1)}))
