"""What getopt and getopt_long find on a command line, by the rules of POSIX and GNU."""

from collections.abc import Sequence
from dataclasses import dataclass

#: Stands for argv[0], of which only is known that it is no option.
PROGRAM = "\0"
_UNKNOWN = ord("?")
_NO, _NEEDED, _OPTIONAL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class LongOption:
    """A row of the table of getopt_long without a variable to set."""

    name: str
    has_argument: int
    """0: no, 1: yes, 2: only behind a ="""
    value: int
    """what getopt_long returns"""


def parsed(
    arguments: Sequence[str], letters: str, options: Sequence[LongOption] = (), *, is_long_only: bool = False
) -> list[tuple[int, str | None]] | None:
    """Return what each call gives with its optarg, up to the last option; None where that depends on the library.

    >>> parsed(["-n", "12", "file", "-v"], "n:v")
    [(110, '12'), (118, None)]
    >>> parsed(["--size=5"], "s:", [LongOption("size", 1, ord("s"))])
    [(115, '5')]
    """
    if letters[:1] in {"+", "-"} or "W;" in letters or is_long_only:
        return None
    missing = ord(letters[0]) if letters[:1] == ":" else _UNKNOWN
    letters = letters.removeprefix(":")
    found: list[tuple[int, str | None]] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            break
        if word.startswith("--") and options:
            one = _long(word[2:], options, waiting, missing)
            if one is None:
                return None
            found.append(one)
        elif word.startswith("-") and word != "-":
            found += _short(word[1:], letters, waiting, missing)
    return found


def is_reordered(arguments: Sequence[str]) -> bool:
    """Whether getopt may move arguments: it puts what is no option behind the options."""
    is_option = [each.startswith("-") and each != "-" for each in arguments]
    return True in is_option[is_option.index(False) :] if False in is_option else False


def _long(word: str, options: Sequence[LongOption], waiting: list[str], missing: int) -> tuple[int, str | None] | None:
    """Return what one long option gives; None where its short form is not clear."""
    name, equals, text = word.partition("=")
    exact = [each for each in options if each.name == name]
    meant = exact or [each for each in options if each.name.startswith(name)]
    if len(meant) != 1:
        return (_UNKNOWN, None) if not meant else None
    option = meant[0]
    if option.has_argument == _NO:
        return (_UNKNOWN, None) if equals else (option.value, None)
    if equals or option.has_argument == _OPTIONAL:
        return option.value, text if equals else None
    return (option.value, waiting.pop(0)) if waiting else (missing, None)


def _short(word: str, letters: str, waiting: list[str], missing: int) -> list[tuple[int, str | None]]:
    """Return what the letters of one word give."""
    found: list[tuple[int, str | None]] = []
    while word:
        letter, word = word[0], word[1:]
        place = letters.find(letter) if letter not in ":;" else -1
        if place < 0:
            found.append((_UNKNOWN, None))
            continue
        colons = len(letters[place + 1 : place + 3]) - len(letters[place + 1 : place + 3].lstrip(":"))
        if colons == _NO:
            found.append((ord(letter), None))
            continue
        if word or colons == _OPTIONAL:
            found.append((ord(letter), word or None))
        else:
            found.append((ord(letter), waiting.pop(0)) if waiting else (missing, None))
        break
    return found
