"""Damage to files: bytes, words of texts, and trees of JSON, each edit drawn from a generator that a seed decides."""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

Mutation = Callable[[random.Random, bytes], bytes]

#: What readers choke on: ends of ranges, what is no number, brackets, control characters, texts that are no UTF-8.
WORDS = (
    b"0", b"-1", b"1", b"0.0", b"-0.0", b"1e-320", b"1e308", b"1e309", b"1e999999999", b"nan", b"NaN", b"inf",
    b"-inf", b"Infinity", b"2147483647", b"2147483648", b"-2147483649", b"4294967296", b"9223372036854775808",
    b"18446744073709551616", b"9" * 40, b"9" * 400, b"9" * 5000, b"0x7fffffff", b"1_000", b"1,000.5", b"1.000,5",
    "\u0661\u0662".encode(), "\u00b2".encode(), b"1e", b".", b"+", b"true", b"false", b"null", b"None", b'""', b"''",
    b'"', b"'", b'"""', b"{", b"}", b"[", b"]", b"(", b")", b"[[", b"]]", b",", b";", b":", b"=", b"\t", b"\n", b"\r",
    b"\r\n", b"\0", b"\x1b[2J", b"\x7f", b"\x85", "\u2028".encode(), "\ufeff".encode(), "\U0001f600".encode(),
    b"\xff\xfe", b"\xed\xa0\x80", b"\xc3", b"\\", b"\\u0000", b"\\ud800", b"#", b"//", b"%n", b"../", b"/dev/zero",
    b"${HOME}", b"A" * 70_000, b"[" * 3000, b"{" * 3000, b'{"a":' * 2000, b"a." * 50, b"1979-05-27", b"?", b"*", b"@",
)  # fmt: skip
_TOKEN = re.compile(rb'"[^"\n]{0,80}"|[\w.+-]{1,60}|[^\w\s]|\s{1,20}')
_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
_EXTREMES = (0, 1, 127, 128, 255, 256, 2**15 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63)
_LARGEST = 1 << 18
#: How many edits one input gets: mostly one, as more of them hide one another.
_EDITS = (1, 1, 1, 1, 2, 2, 3, 5)


def of_bytes(words: Sequence[bytes] = ()) -> Mutation:
    """Return a mutation of any file; ``words`` are those that its format knows, beside the usual ones."""
    known = (*WORDS, *words)

    def mutated(choose: random.Random, data: bytes) -> bytes:
        for _ in range(choose.choice(_EDITS)):
            data = _BYTE_EDITS[int(choose.random() * len(_BYTE_EDITS))](choose, data, known)
        return data[:_LARGEST]

    return mutated


def of_text(words: Sequence[bytes] = ()) -> Mutation:
    """Return a mutation of a text by its words, numbers and lines."""
    known = (*words, *words, *WORDS)

    def mutated(choose: random.Random, data: bytes) -> bytes:
        for _ in range(choose.choice(_EDITS)):
            data = _TEXT_EDITS[int(choose.random() * len(_TEXT_EDITS))](choose, data, known)
        return data[:_LARGEST]

    return mutated


Edit = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def _slice(choose: random.Random, data: bytes) -> tuple[int, int]:
    start = int(choose.random() * (len(data) + 1))
    return start, min(len(data), start + int(2 ** (choose.random() * 10)))


def _flip(choose: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = int(choose.random() * len(data))
    return data[:at] + bytes([data[at] ^ (1 << int(choose.random() * 8))]) + data[at + 1 :]


def _cut(choose: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _slice(choose, data)
    return data[:start] + data[end:]


def _end(choose: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: int(choose.random() * len(data))]


def _double(choose: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _slice(choose, data)
    times = 1 if choose.random() < 0.9 else 50
    return data[:end] + data[start:end] * times + data[end:]


def _move(choose: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _slice(choose, data)
    at = int(choose.random() * (len(data) + 1))
    return data[:at] + data[start:end] + data[at + end - start :]


def _insert(choose: random.Random, data: bytes, words: Sequence[bytes]) -> bytes:
    at = int(choose.random() * (len(data) + 1))
    word = words[int(choose.random() * len(words))]
    return data[:at] + word + data[at if choose.random() < 0.5 else at + len(word) :]


def _integer(choose: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Overwrite a binary number by an extreme one, of either order of bytes."""
    size = choose.choice((1, 2, 4, 8))
    value = (choose.choice(_EXTREMES) + choose.choice((0, 0, 1, -1))) % (1 << 8 * size)
    at = int(choose.random() * (len(data) + 1))
    return data[:at] + value.to_bytes(size, choose.choice(("little", "big"))) + data[at + size :]


def _random_bytes(choose: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _slice(choose, data)
    return data[:start] + choose.randbytes(min(end - start, 16)) + data[end:]


def _token(choose: random.Random, data: bytes) -> tuple[int, int]:
    found = _TOKEN.search(data, int(choose.random() * (len(data) + 1)))
    return found.span() if found else (len(data), len(data))


def _other_word(choose: random.Random, data: bytes, words: Sequence[bytes]) -> bytes:
    start, end = _token(choose, data)
    return data[:start] + words[int(choose.random() * len(words))] + data[end:]


def _same_word(choose: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Replace a word by another one of the same file."""
    start, end = _token(choose, data)
    low, high = _token(choose, data)
    return data[:start] + data[low:high] + data[end:]


def _no_word(choose: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _token(choose, data)
    return data[:start] + data[end:]


def _other_number(choose: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    found = _NUMBER.search(data, int(choose.random() * (len(data) + 1)))
    if found is None:
        return data
    kind = choose.random()
    if kind < 0.4:  # WORDS begin with numbers
        word = WORDS[int(choose.random() * 34)]
    elif kind < 0.7:  # a little more or less is mostly taken, and used
        word = b"%d" % (int(float(found[0][:15])) + choose.choice((-1, 1, 2, 31)))
    else:
        word = b"%d" % int(choose.random() * 10 ** choose.choice((1, 2, 4, 9, 18)))
    return data[: found.start()] + word + data[found.end() :]


def _lines(choose: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    at, other = int(choose.random() * len(lines)), int(choose.random() * len(lines))
    kind = int(choose.random() * 4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[other])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] += lines[other]
    return b"\n".join(lines)


_BYTE_EDITS: tuple[Edit, ...] = (_flip, _flip, _cut, _end, _double, _move, _insert, _integer, _integer, _random_bytes)
_TEXT_EDITS: tuple[Edit, ...] = (
    _other_word, _other_word, _same_word, _no_word, _other_number, _other_number, _other_number, _lines, _flip, _insert,
)  # fmt: skip

_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 31, 2**31, 2**53, 2**63, 10**30, 10**400, 0.5, -0.0, 1e-320, 1e308, float("inf"),
    float("nan"), "", "0", "1", "nan", "1e999", "x", "\x00", "\x1b[2J", "\ud800", "A" * 70_000, [], {}, [[]], [{}],
    {"": 0}, [0] * 300, [1, 2, 3], {"x": 1}, "9" * 5000,
)  # fmt: skip


def of_tree(words: Sequence[str] = ()) -> Mutation:
    """Return a mutation of JSON that stays JSON; ``words`` are keys and values that the format knows."""
    values = (*_VALUES, *words, *words)

    def mutated(choose: random.Random, data: bytes) -> bytes:
        tree = json.loads(data)
        for _ in range(choose.choice(_EDITS)):
            tree = changed(choose, tree, values)
        found = json.dumps(tree).encode()
        return found if len(found) <= _LARGEST else data  # which a cut would leave no JSON

    return mutated


def changed(choose: random.Random, tree: Any, values: Sequence[Any] = _VALUES) -> Any:
    """Return a tree of which one node is another value, gone, doubled, renamed or swapped; the old one stays."""
    if not isinstance(tree, dict | list) or not tree or choose.random() < 0.05:
        return _value(choose, tree, values)
    copy = tree.copy()
    keys = list(copy) if isinstance(copy, dict) else range(len(copy))
    key = keys[int(choose.random() * len(keys))]
    kind = choose.random()
    if kind < 0.06:
        del copy[key]
    elif kind < 0.12 and isinstance(copy, list):
        copy.extend([copy[key]] * choose.choice((1, 1, 40)))
    elif kind < 0.16 and isinstance(copy, dict):
        word = choose.choice(values)
        copy[word if isinstance(word, str) else "x"] = copy.pop(key)
    elif kind < 0.22:
        other = keys[int(choose.random() * len(keys))]
        copy[key], copy[other] = copy[other], copy[key]
    else:
        copy[key] = changed(choose, copy[key], values)
    return copy


def _value(choose: random.Random, old: Any, values: Sequence[Any]) -> Any:
    kind = choose.random()
    if isinstance(old, int | float) and not isinstance(old, bool) and kind < 0.5:
        return old + choose.choice((-1, 1, 2, 31)) if kind < 0.25 else old * choose.choice((-1, 0, 10, 10**9))
    if isinstance(old, str) and kind < 0.3:
        return of_text()(choose, old.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    return choose.choice(values)
