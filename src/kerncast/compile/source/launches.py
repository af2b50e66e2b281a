"""Find ``kernel<<<grid, block, shared>>>(…)`` in host code, for the skeleton of a launch file."""

from collections.abc import Sequence

from clang.cindex import Token, TranslationUnit

from kerncast.compile.nouns import LaunchSite

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


def launch_sites(unit: TranslationUnit, text: bytes) -> tuple[LaunchSite, ...]:
    """Return the launches in the source itself, in order."""
    if b"<<<" not in text:
        return ()
    tokens = list(unit.get_tokens(extent=unit.cursor.extent))
    words = [_word(token) for token in tokens]
    sites = []
    for place, word in enumerate(words):
        if word == "<<<" and ">>>" in words[place:]:
            first = _start_of_name(words, place)
            parts = _split(tokens[place + 1 : words.index(">>>", place)], text)
            if first < place and len(parts) >= 2:
                sites.append(
                    LaunchSite(
                        kernel=_text(tokens[first:place], text),
                        grid=parts[0],
                        block=parts[1],
                        shared_bytes=parts[2] if len(parts) > 2 else None,
                        line=tokens[first].location.line,
                    )
                )
    return tuple(sites)


def _word(token: Token) -> str:
    """Return the text of a token; nothing for a comment or a text in another encoding than UTF-8."""
    try:
        return str(token.spelling)
    except UnicodeDecodeError:
        return ""


def _start_of_name(words: Sequence[str], end: int) -> int:
    """Return where the name before ``<<<`` begins: names, ``::`` and one list of template arguments."""
    place = end - 1
    if words[place] == ">":
        depth = 0
        while place >= 0:
            depth += (words[place] == ">") - (words[place] == "<")
            place -= 1
            if depth == 0:
                break
    while place >= 0 and (words[place] == "::" or words[place].isidentifier()):
        if words[place] != "::" and words[place + 1] not in {"::", "<", "<<<"}:
            break
        place -= 1
    return place + 1


def _split(tokens: Sequence[Token], text: bytes) -> list[str]:
    """Return the texts between the commas that stand in no bracket."""
    parts: list[str] = []
    depth = first = 0
    for place, token in enumerate(tokens):
        word = _word(token)
        depth += (word in _OPENING) - (word in _CLOSING)
        if word == "," and depth == 0:
            parts.append(_text(tokens[first:place], text))
            first = place + 1
    return [*parts, _text(tokens[first:], text)]


def _text(tokens: Sequence[Token], text: bytes) -> str:
    if not tokens:
        return ""
    found = text[tokens[0].extent.start.offset : tokens[-1].extent.end.offset]
    return " ".join(found.decode(errors="replace").split())
