"""A ProfiledLaunch on a terminal: sections in the order of Nsight Compute's details page."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from kerncast.profiles import ProfiledLaunch
from kerncast.report.profile.sections import sections_of, waiting_lines
from kerncast.report.profile.source import AnnotatedText, annotated_lines, hot_lines
from kerncast.report.profile.words import extent_text
from kerncast.report.tables import Fact, Section, print_notes, print_table
from kerncast.report.words import describe_caveats


def print_profiles(launches: Sequence[ProfiledLaunch], console: Console, *, lines: bool) -> None:
    """Print every launch: its sections, the source hot spots or the whole annotated source, and the caveats."""
    for number, launch in enumerate(launches):
        if number:
            console.print()
        _print_title(launch, console)
        for section in sections_of(launch.profile, launch.gpu):
            _print_section(section, console)
        if lines:
            _print_source(launch, console)
        elif launch.profile.lines:
            _print_file(hot_lines(launch.profile, launch.sources), console)
        if launch.gpu and launch.profile.warp_states:
            _print_file(waiting_lines(launch.profile.warp_states, launch.sources, all_lines=lines), console)
        print_notes(describe_caveats(launch.caveats), console)


def _print_title(launch: ProfiledLaunch, console: Console) -> None:
    profile, gpu = launch.profile, launch.gpu
    where = (
        "no GPU: counts that every GPU has"
        if gpu is None
        else f"{gpu.name}, compute capability {gpu.compute_capability}"
    )
    geometry = f"{extent_text(profile.grid)} blocks of {extent_text(profile.block)} threads"
    console.print(f"[bold]{escape(profile.kernel)}[/bold]  launch {profile.index}, {geometry}", highlight=False)
    console.print(escape(where), highlight=False)
    console.print()


def _print_section(section: Section, console: Console) -> None:
    console.print(f"[bold]{escape(section.title)}[/bold]")
    if section.facts:
        console.print(_fact_grid(section.facts))
    for table in section.tables:
        print_table(table, console)
    if not section.tables:
        console.print()


def _fact_grid(facts: Sequence[Fact]) -> RichTable:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(min_width=26)
    grid.add_column(justify="right", min_width=12)
    grid.add_column(style="dim")
    for fact in facts:
        grid.add_row(f"  {escape(fact.label)}", escape(fact.value), escape(fact.note))
    return grid


def _print_source(launch: ProfiledLaunch, console: Console) -> None:
    for file in annotated_lines(launch.profile, launch.sources):
        _print_file(file, console)


def _print_file(file: AnnotatedText, console: Console) -> None:
    """Print lines as they are, cut at the width of the terminal, as folded source is hard to read."""
    width = max(console.width, len(file.heading))
    console.print(f"[bold]{escape(file.title)}[/bold]", highlight=False)
    console.print(f"[dim]{escape(file.heading)}[/dim]", highlight=False)
    for line in file.lines:
        text = line if len(line) <= width else f"{line[: width - 1]}…"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    console.print()
