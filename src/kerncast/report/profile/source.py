"""Source lines with what they did."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from kerncast.bounded_file import is_file, read_bytes
from kerncast.compile import SOURCE_FILE
from kerncast.compile.headers import header_folders
from kerncast.confinement import is_hidden, is_source
from kerncast.errors import InputError
from kerncast.launch import Launch
from kerncast.metrics import ratio, total
from kerncast.printable import printable_lines
from kerncast.profiles import Count, KernelProfile, LineCount, LineStates, SourceText
from kerncast.report.profile.words import NOTHING, describe_ratio, describe_share
from kerncast.units import format_count

_MOST_HOT_LINES = 10
#: No source is larger.
#: Lines around those that ran which an annotated source shows.
_CONTEXT = 3
_TAB_COLUMNS = 4
_NUMBER_COLUMNS = 6
_COLUMNS = (("PTX inst", 9), ("share", 7), ("lanes", 6), ("FLOPs", 8), ("sect/req", 9), ("wave/req", 9))


@dataclass(frozen=True, slots=True)
class AnnotatedText:
    """Source lines with their counts before them, under a title and a heading."""

    title: str
    heading: str
    lines: tuple[str, ...]


def read_sources(profile: KernelProfile, launch: Launch) -> tuple[SourceText, ...]:
    """Read the source files that the profile names, those that lie where the launch says.

    A source names files as it likes, as by ``#line 1 "/etc/passwd"``: read are only those below the folders of the
    source, of its headers and of the packages' headers, and none that is larger than a source is.
    """
    roots = [os.path.realpath(folder) for folder in (*_folders(launch), *header_folders())]
    texts = []
    for file in dict.fromkeys(line.file for line in profile.lines):
        path = _place_of(file, launch)
        try:
            text = _text(path, roots) if path else None
        except InputError:
            continue
        if text is not None:
            texts.append(SourceText(file, tuple(map(printable_lines, text.splitlines()))))
    return tuple(texts)


def _text(path: Path, roots: Sequence[str]) -> str | None:
    """Return the text of a file below one of some folders, links followed; None for another, or a large one."""
    place = os.path.realpath(path)
    if not any(Path(place).is_relative_to(root) for root in roots):
        return None
    if is_hidden(Path(place), Path(place).parents[-1]) and not is_source(Path(place)):  # settings, keys, tokens
        return None
    return read_bytes(place, SOURCE_FILE).decode("utf-8", errors="replace")


def hot_lines(profile: KernelProfile, sources: Sequence[SourceText]) -> AnnotatedText:
    """Return the source lines that most warp instructions come from."""
    ran = [line for line in profile.lines if line.warp_instructions.value]
    ranked = sorted(ran, key=lambda line: -line.warp_instructions.value)[:_MOST_HOT_LINES]
    everything = _everything(profile)
    places = [f"{Path(line.file).name}:{line.line}" for line in ranked]
    width = max(map(len, places), default=0) + 2
    lines = tuple(
        _joined(place, width, _cells(line, everything), source_of(sources, line))
        for place, line in zip(places, ranked, strict=True)
    )
    return AnnotatedText("Source hot spots", _heading("  line", width), lines)


def annotated_lines(profile: KernelProfile, sources: Sequence[SourceText]) -> Iterator[AnnotatedText]:
    """Yield every file that ran: its lines near those that did something, or these alone where it is not here."""
    texts = {text.file: text.lines for text in sources}
    everything = _everything(profile)
    for file, group in groupby(sorted(profile.lines, key=lambda line: (line.file, line.line)), lambda line: line.file):
        counts = {line.line: line for line in group}
        lines = tuple(_annotated(counts, texts.get(file), everything))
        title = Path(file).name if file in texts else f"{Path(file).name} (its text is not here)"
        yield AnnotatedText(title, _heading("line", _NUMBER_COLUMNS), lines)


def _annotated(counts: dict[int, LineCount], text: Sequence[str] | None, everything: Count) -> Iterator[str]:
    before = 0
    for number in sorted(counts) if text is None else shown_lines(list(counts), len(text)):
        if text is not None and before and number > before + 1:
            yield f"{'⋮':>{_NUMBER_COLUMNS}}"
        source = text[number - 1] if text is not None and number <= len(text) else ""
        cells = _cells(counts[number], everything) if number in counts else ("",) * len(_COLUMNS)
        yield _joined(str(number), _NUMBER_COLUMNS, cells, source.expandtabs(_TAB_COLUMNS))
        before = number


def _folders(launch: Launch) -> tuple[Path, ...]:
    return launch.source.parent, *launch.include_dirs


def _place_of(file: str, launch: Launch) -> Path | None:
    """Return where a file that the compiler names lies; a path that is not absolute begins at the source or a -I."""
    places = [folder / file for folder in _folders(launch)]
    return next(filter(is_file, places), None)


def shown_lines(numbers: Sequence[int], length: int) -> list[int]:
    """Return the numbers of the lines to show of a text: those given, and some around each."""
    near = {n for number in numbers for n in range(number - _CONTEXT, number + _CONTEXT + 1)}
    return sorted({n for n in near if 1 <= n <= length} | set(numbers))


def _heading(first: str, width: int) -> str:
    return _joined(first, width, [name for name, _ in _COLUMNS], "source")


def _joined(place: str, width: int, cells: Sequence[str], source: str) -> str:
    columns = "".join(f"{cell:>{size}}" for cell, (_, size) in zip(cells, _COLUMNS, strict=True))
    return f"{place:>{width}}{columns}  {source}".rstrip()


def _cells(line: LineCount, everything: Count) -> tuple[str, ...]:
    return (
        format_count(line.warp_instructions.value),
        describe_share(line.warp_instructions.value, everything.value),
        describe_ratio(ratio(line.thread_instructions, line.warp_instructions)),
        format_count(line.flops.value) if line.flops.value else NOTHING,
        describe_ratio(ratio(line.global_sectors, line.global_requests)),
        describe_ratio(ratio(line.shared_wavefronts, line.shared_requests)),
    )


def _everything(profile: KernelProfile) -> Count:
    if profile.mix is not None:
        return profile.mix.warp_instructions
    return total(line.warp_instructions for line in profile.lines)


def source_of(sources: Sequence[SourceText], line: LineCount | LineStates) -> str:
    """Return the text of a line without the blanks around it; nothing where its file is not here."""
    text = next((each.lines for each in sources if each.file == line.file), ())
    return text[line.line - 1].strip() if 0 < line.line <= len(text) else ""
