"""Reads tables of launches from Parquet, whatever its footer says of their size.

A footer's sizes are only told. What a page unpacks to stands in the header before the page, and the reader takes memory
by that: these headers are read first, and added up.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kerncast.bounded_file import Bound, place_of, read_bytes
from kerncast.errors import InputError
from kerncast.read.bounded_text import MOST_BYTES
from kerncast.read.features.launches import MOST_CELLS, Column, Columns, check_header, too_large
from kerncast.units import GIB, MIB

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

_TABLE = Bound(MOST_BYTES, cure="Name a table of launches.", cure_if_larger="Give fewer launches, or fewer columns.")
#: Numbers of 8 bytes in each cell are 400 MB.
_MOST_UNPACKED_BYTES = 1 * GIB
#: Columns that repeat one value are packed by their dictionary; what else packs so well is made to.
_MOST_RATIO = 1000
_ALWAYS_UNPACKED_BYTES = 64 * MIB
#: A footer takes a hundred times its size in memory. One of 250 columns in 100 groups has 4 MB.
_MOST_FOOTER_BYTES = 8 * MIB
_MOST_PAGES = 100_000
_CELLS_OF_A_BATCH = 1_000_000
_MOST_TEXT_BYTES = 256 * MIB
_MOST_CHARS = 4096
_MAGIC = b"PAR1"
_CURE = "The file is cut off or damaged: write or copy it again."


def parquet_columns(path: Path) -> Columns:
    """Return the columns of a Parquet file; raises InputError for one that is damaged or too large."""
    import pyarrow as pa  # noqa: PLC0415  only who reads Parquet needs it

    raw, where = read_bytes(path, _TABLE), place_of(path)
    try:
        return _columns(raw, where)
    except InputError:
        raise
    except (
        pa.ArrowException, OSError, ValueError, TypeError, NotImplementedError, LookupError, ArithmeticError,
        MemoryError, RecursionError,
    ) as error:  # fmt: skip
        reason = ascii(str(error).splitlines()[0] if str(error) else type(error).__name__)[1:-1][:120]
        raise InputError(f"not a Parquet table ({reason})", where=where, cure=_CURE) from None


def _columns(raw: bytes, where: str) -> Columns:
    from pyarrow import BufferReader, parquet  # noqa: PLC0415

    if not raw.endswith(_MAGIC):
        raise ValueError("it does not end as one does")
    if int.from_bytes(raw[-8:-4], "little") > _MOST_FOOTER_BYTES:
        raise too_large(where)
    groups = _chunks_of(raw)
    with parquet.ParquetFile(BufferReader(raw)) as file:
        rows, names = file.metadata.num_rows, file.schema_arrow.names
        if rows < 0 or rows * file.metadata.num_columns > MOST_CELLS:
            raise too_large(where)
        check_header(names, where)
        wanted = _wanted(file)
    packed = _packed_texts(wanted, groups)
    largest = _largest_page(raw, (group[each.leaf] for group in groups for each in wanted), where)
    with parquet.ParquetFile(BufferReader(raw), read_dictionary=packed) as file:
        found = _read(file, wanted, _rows_at_once(wanted, packed, largest), where)
        other = {field.name: (str(field.type)[:_MOST_CHARS],) * rows for field in file.schema_arrow}
    return Columns(tuple(names), tuple(found.get(name, other[name]) for name in names), rows, where)


def _packed_texts(wanted: Sequence["_Wanted"], groups: Sequence[Sequence["Chunk"]]) -> list[str]:
    """Return the texts that can be read as places in a dictionary, so that none is repeated in memory."""
    texts = [each for each in wanted if not _is_number(each.kind)]
    return [e.name for e in texts if not any(_DELTAS.intersection(group[e.leaf][_ENCODINGS]) for group in groups)]


def _rows_at_once(wanted: Sequence["_Wanted"], packed: Sequence[str], largest_page: int) -> int:
    """Return how many rows to read at a time: no text is longer than its page, so that this bounds what they take."""
    rows = _CELLS_OF_A_BATCH // max(1, len(wanted))
    if all(_is_number(each.kind) or each.name in packed for each in wanted):
        return max(1, rows)
    return max(1, min(rows, _MOST_TEXT_BYTES // max(1, largest_page)))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A column of numbers or texts, and its place among the columns that the file stores."""

    name: str
    kind: Any
    leaf: int


def _wanted(file: "ParquetFile") -> list[_Wanted]:
    """Return the columns that are read: lists may hold any number of values in a row, and are not."""
    found, leaf = [], 0
    for field in file.schema_arrow:
        if _is_text(field.type) or _is_number(field.type):
            found.append(_Wanted(field.name, field.type, leaf))
        leaf += _leaves(field.type)
    if leaf != file.metadata.num_columns or any(file.schema.column(e.leaf).max_repetition_level for e in found):
        raise ValueError("its two schemas differ")
    return found


def _is_text(kind: Any) -> bool:
    from pyarrow import types  # noqa: PLC0415

    values = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(values) or types.is_large_string(values))


def _is_number(kind: Any) -> bool:
    from pyarrow import types  # noqa: PLC0415

    tests = (types.is_null, types.is_boolean, types.is_integer, types.is_floating)
    return any(test(kind) for test in tests)


def _leaves(kind: Any) -> int:
    """Return how many columns a file stores for one of the table."""
    kind = getattr(kind, "storage_type", kind)  # what a type of somebody's own is stored as
    if kind.num_fields == 0:
        return 1
    return sum(_leaves(kind.field(place).type) for place in range(kind.num_fields))


def _read(file: "ParquetFile", wanted: Sequence[_Wanted], rows_at_once: int, where: str) -> dict[str, Column]:
    """Return the cells of columns by their names, batch after batch."""
    rows = file.metadata.num_rows
    numbers = {each.name: np.empty(rows) for each in wanted if _is_number(each.kind)}
    texts: dict[str, list[str]] = {each.name: [] for each in wanted if each.name not in numbers}
    names = [each.name for each in wanted]
    words = _Words(where)
    done = 0
    for batch in file.iter_batches(rows_at_once, columns=names) if wanted and rows else ():
        if batch.schema.names != names or done + batch.num_rows > rows:
            raise InputError("it holds other rows or columns than it says", where=where, cure=_CURE)
        for name, column in zip(names, batch.columns, strict=True):
            if name in numbers:
                numbers[name][done : done + len(column)] = _numbers(column)
            else:
                texts[name] += _texts(column, words)
        done += batch.num_rows
    if wanted and done != rows:
        raise InputError(f"it says that it has {rows:,} rows, and has {done:,}", where=where, cure=_CURE)
    return {**numbers, **{name: tuple(cells) for name, cells in texts.items()}}


def _numbers(column: Any) -> npt.NDArray[np.float64]:
    import pyarrow as pa  # noqa: PLC0415

    values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def _texts(column: Any, words: "_Words") -> list[str]:
    """Return the texts of a column: each place in its dictionary is checked, as the file may name any."""
    import pyarrow as pa  # noqa: PLC0415

    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    known = ~np.asarray(encoded.indices.is_null().to_numpy(zero_copy_only=False), bool)
    places = np.asarray(encoded.indices.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    used, order = np.unique(places[known], return_inverse=True)
    if used.size and not 0 <= used[0] <= used[-1] < len(encoded.dictionary):
        raise InputError("a text of it has no place in its dictionary", where=words.where, cure=_CURE)
    cells = np.full(len(places), "", dtype=object)
    if used.size:
        taken = encoded.dictionary.take(pa.array(used)).to_pylist()
        cells[known] = np.array([words.once(word) for word in taken], dtype=object)[order]
    found: list[str] = cells.tolist()
    return found


class _Words:
    """The texts of a file, each once."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._known: dict[str, str] = {}
        self._left = _MOST_TEXT_BYTES

    def once(self, word: str | None) -> str:
        """Return a text, cut where it is long; raises InputError where all of them take too much memory."""
        text = "" if word is None else word[:_MOST_CHARS]
        if text not in self._known:
            self._left -= len(text)
            if self._left < 0:
                raise too_large(self.where)
            self._known[text] = text
        return self._known[text]


# What Parquet says of itself, in Thrift's compact protocol (Apache Thrift, doc/specs/thrift-compact-protocol.md), with
# the fields of Apache Parquet's src/main/thrift/parquet.thrift. Where a file says a thing twice, or with another type,
# this takes it as the library does. The library's own objects for columns end the whole process on a footer that
# contradicts itself, so that they are not asked.

_TRUE, _FALSE, _BYTE, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 5, 6, 7, 8, 9, 10, 12
_INTEGERS = (4, _I32, _I64)
_LONG_LIST = 15
_LONGEST_NUMBER = 10
_DEEPEST = 12
#: Bytes of a page's header, texts aside; writers need some 60.
_LONGEST_HEADER = 500

_UNPACKED_SIZE, _PACKED_SIZE = 2, 3
_PAGE = {_UNPACKED_SIZE: _I32, _PACKED_SIZE: _I32}
_ENCODINGS, _CHUNK_BYTES, _DATA_PAGE, _DICTIONARY_PAGE = 2, 7, 9, 11
_CHUNK = {_ENCODINGS: [_I32], _CHUNK_BYTES: _I64, _DATA_PAGE: _I64, _DICTIONARY_PAGE: _I64}
_GROUPS, _CHUNKS, _METADATA = 4, 1, 3
_FOOTER = {_GROUPS: [{_CHUNKS: [{_METADATA: _CHUNK}]}]}
#: Those that no dictionary can be read from: packed integers are 5, texts by their lengths 6, by what they share 7.
_DELTAS = frozenset({5, 6, 7})

Chunk = dict[int, Any]


def _chunks_of(raw: bytes) -> list[list[Chunk]]:
    """Return what the footer says of each column in each group of rows."""
    length = int.from_bytes(raw[-8:-4], "little")
    if length + 8 > len(raw):
        raise ValueError("its footer is longer than it")
    footer = _Thrift(raw, len(raw) - 8 - length, length + 1).struct(_FOOTER)
    return [[chunk[_METADATA] for chunk in group[_CHUNKS]] for group in footer[_GROUPS]]


def _largest_page(raw: bytes, chunks: Iterable[Chunk], where: str) -> int:
    """Return what the largest page of some columns unpacks to; raises InputError where all are more than is taken."""
    most = min(_MOST_UNPACKED_BYTES, _ALWAYS_UNPACKED_BYTES + _MOST_RATIO * len(raw))
    unpacked = pages = largest = 0
    for chunk in chunks:
        start = min(chunk[_DATA_PAGE], chunk.get(_DICTIONARY_PAGE) or chunk[_DATA_PAGE])
        for size in _page_sizes(raw, start, start + chunk[_CHUNK_BYTES]):
            largest, unpacked, pages = max(largest, size), unpacked + size, pages + 1
            if unpacked > most or pages > _MOST_PAGES:
                what = f"its pages unpack to more than {most // MIB} MiB, or are more than {_MOST_PAGES:,}"
                raise InputError(what, where=where, cure="Give fewer launches, or fewer columns.")
    return largest


def _page_sizes(raw: bytes, place: int, end: int) -> Iterator[int]:
    """Yield the unpacked size of each page between two places; raises ValueError where there is no page."""
    if not 0 <= place <= end <= len(raw):
        raise ValueError("a column lies outside of the file")
    while place < end:
        header = _Thrift(raw, place, _LONGEST_HEADER)
        found = header.struct(_PAGE)
        packed, unpacked = found[_PACKED_SIZE], found[_UNPACKED_SIZE]
        if packed < 0 or unpacked < 0:
            raise ValueError("a page has no size")
        yield unpacked
        place = header.place + packed


class _Thrift:
    """Reads the wanted fields of a struct, and passes over the rest; raises ValueError for what is none."""

    def __init__(self, raw: bytes, place: int, most_bytes: int) -> None:
        self._raw = raw
        self._left = most_bytes
        self.place = place
        """the first byte that is not read"""

    def struct(self, wanted: Mapping[int, Any], depth: int = 0) -> dict[int, Any]:
        """Return fields by their numbers; ``wanted`` has their types: of structs a mapping, of lists a list of one."""
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            kind, what = head & 15, wanted.get(field)
            if isinstance(what, Mapping) and kind == _STRUCT:
                found[field] = found.get(field, {}) | self.struct(what, depth + 1)
            elif isinstance(what, list) and kind == _LIST:
                count = self._count()[1]
                found[field] = [self._element(what[0], depth) for _ in range(count)]
            elif kind == what:
                found[field] = self._signed()
            elif kind not in {_TRUE, _FALSE}:
                self._skip(kind, depth)
        return found

    def _element(self, what: Any, depth: int) -> Any:
        return self.struct(what, depth + 1) if isinstance(what, Mapping) else self._signed()

    def _count(self) -> tuple[int, int]:
        """Return the type and the number of a list's elements."""
        head = self._byte()
        return head & 15, head >> 4 if head >> 4 < _LONG_LIST else self._unsigned()

    def _skip(self, kind: int, depth: int) -> None:
        """Pass over a value."""
        if kind in {_TRUE, _FALSE, _BYTE}:
            self._byte()
        elif kind in _INTEGERS:
            self._unsigned()
        elif kind == _DOUBLE:
            self._over(8)
        elif kind == _BINARY:
            self._over(self._unsigned())
        elif kind == _STRUCT:
            self.struct({}, depth + 1)
        elif kind in {_LIST, _SET} and depth < _DEEPEST:
            of, count = self._count()
            for _ in range(count):
                self._skip(of, depth + 1)
        else:
            raise ValueError("it holds a type that Parquet has not")

    def _over(self, count: int) -> None:
        self.place += count
        if self.place > len(self._raw):
            raise ValueError("it is cut off")

    def _byte(self) -> int:
        self._left -= 1
        if self._left < 0:
            raise ValueError("it is longer than any")
        self._over(1)
        return self._raw[self.place - 1]

    def _unsigned(self) -> int:
        value = 0
        for place in range(_LONGEST_NUMBER):
            byte = self._byte()
            value |= (byte & 127) << 7 * place
            if byte < 128:
                return value
        raise ValueError("a number is too long")

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
