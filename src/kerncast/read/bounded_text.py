"""Text and JSON of files that nobody vouches for: bounded in size and depth, with a clear error for what is no text."""

import codecs
import gzip
import json
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from kerncast.bounded_file import Bound, place_of, read_bytes, read_head
from kerncast.errors import InputError
from kerncast.printable import printable
from kerncast.units import MIB

#: 20,000 tuned configurations with 40 counters each are 100 MB of JSON; Python needs about ten times that.
MOST_BYTES = 256 * MIB
#: No counter and no time in a file reaches this.
MOST = 1e30
#: No kernel runs for months, and none for less than a part of a clock cycle.
LEAST_SECONDS, MOST_SECONDS = 1e-12, 1e7
_SHOWN = 30
_MOST_BYTES_OF_HEAD = 65_536
_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def starts_with(path: Path, magic: bytes) -> bool:
    """Whether a file begins with these bytes; raises InputError where it cannot be read."""
    return read_head(path, len(magic)) == magic


def names_in_first_line(path: Path) -> frozenset[str]:
    """Return the names in the header of a CSV, in small letters; none for a file that cannot be read."""
    try:
        head = read_head(path, _MOST_BYTES_OF_HEAD)
    except InputError:
        return frozenset()
    first = next(iter(head.decode("utf-8-sig", "replace").strip().splitlines()), "")
    return frozenset(name.strip().strip('"').lower() for name in first.split(","))


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Return the text of a file, unpacked where gzip packed it; raises InputError for what is too large or no text."""
    cure = "Split it, or write fewer kernels, configurations or counters into it."
    raw = read_bytes(path, Bound(most_bytes, cure_if_larger=cure))
    where = place_of(path)
    if raw.startswith(_GZIP):
        try:
            with gzip.GzipFile(fileobj=BytesIO(raw)) as packed:
                raw = packed.read(most_bytes + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            cure = "It is cut off or changed: copy it."
            raise InputError("its gzip data are damaged", where=where, cure=cure) from error
        if len(raw) > most_bytes:
            raise InputError(f"it unpacks to more than {most_bytes // MIB} MiB", where=where, cure=cure)
    return decode_text(raw, where)


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return the first names, ready to be printed, and how many more there are.

    >>> listed(["sm", "dram", "l2"], 2), listed(["sm", "dram"], 2)
    ('sm, dram and 1 more', 'sm, dram')
    """
    text = ", ".join(printable(name) for name in names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"


def is_text_or_packed(head: bytes) -> bool:
    r"""Return whether a file that begins so may be text, UTF-16 with its mark, or packed by gzip.

    >>> [is_text_or_packed(head) for head in (b'"ID",', b"\x1f\x8b\x08", b"", b"\xff\xc0", b"ID\0")]
    [True, True, False, False, False]
    """
    if head.startswith((_GZIP, *_UTF16)):
        return True
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # the end may cut a character
    except UnicodeDecodeError:
        return False
    return bool(text) and "\0" not in text


def decode_text(raw: bytes, where: str) -> str:
    """Return bytes as text: UTF-8, or UTF-16 with its mark, as the shell of Windows redirects output."""
    encoding = "utf-16" if raw.startswith(_UTF16) else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(
            f"byte {error.start} is not text", where=where, cure="Give the CSV or JSON that the tool writes."
        ) from error
    if "\0" in text:
        raise InputError("it is binary, not text", where=where, cure="Give the CSV or JSON that the tool writes.")
    return text


def parse_json(text: str, where: str) -> object:
    """Return what a JSON text means; raises InputError that names the line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        raise InputError(
            "the JSON ends too early" if cut else f"not JSON: {error.msg}",
            where=f"{where}, line {error.lineno}",
            cure="It is cut off: write or copy it again." if cut else "It was changed: write it again.",
        ) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, nesting without end
        raise InputError("not JSON that a tool writes", where=where, cure="It was changed: write it again.") from error


def number(value: object, what: str, where: str, most: float = MOST) -> float:
    """Return a number of at least 0; raises InputError for anything else, NaN and infinity too."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise InputError(f"{what} is {shown(value)}", where=where, cure=f"Expected a number from 0 to {most:g}.")
    return float(value)


def shown(value: object) -> str:
    """Return a value as an error may quote it.

    >>> shown(None), shown("x" * 99), shown(-2), shown([1])
    ('missing', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...", '-2', 'a list')
    """
    if value is None:
        return "missing"
    if isinstance(value, str):
        return ascii(value) if len(value) <= _SHOWN else f"{ascii(value[:_SHOWN])[:-1]}..."
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < MOST):
        return str(value)
    return "a number of too many digits" if isinstance(value, int) else f"a {type(value).__name__}"
