"""What sscanf reads from a text that is known: whole and real numbers, as ISO C 7.21.6.2 has it."""

import re

_FIELD = re.compile(r"%(?P<skip>\*)?(?P<width>\d+)?(?:hh?|ll?|[zjt])?(?P<kind>[dufeg])|(?P<space>\s+)|(?P<letter>[^%])")
_SCANNED_WHOLE = re.compile(r"[+-]?\d+")
_SCANNED_REAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_SPACE = re.compile(r"\s*")


def scanned(text: str, pattern: str) -> list[int | float] | None:
    """Return the numbers that sscanf stores, as many as the text holds; None for a pattern with more than numbers.

    >>> scanned("12x3.5", "%dx%f")
    [12, 3.5]
    >>> scanned("n", "%d")
    []
    """
    fields = _fields(pattern)
    if fields is None:
        return None
    found: list[int | float] = []
    place = 0
    for field in fields:
        if field["letter"] is not None:
            if text[place : place + 1] != field["letter"]:
                break
            place += 1
            continue
        place = _end(_SPACE, text, place)
        if field["space"] is not None:
            continue
        shape = _SCANNED_REAL if field["kind"] in "feg" else _SCANNED_WHOLE
        read = shape.match(text, place, place + int(field["width"]) if field["width"] else len(text))
        if read is None:
            break
        place = read.end()
        if field["skip"] is None:
            found.append(float(read[0]) if shape is _SCANNED_REAL else int(read[0]))
    return found


def _fields(pattern: str) -> list[re.Match[str]] | None:
    fields = list(_FIELD.finditer(pattern))
    return fields if "".join(field[0] for field in fields) == pattern else None


def _end(shape: re.Pattern[str], text: str, place: int) -> int:
    found = shape.match(text, place)
    return found.end() if found is not None else place
