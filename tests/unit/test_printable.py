"""Texts of others leave by one filter, and no part of the package prints in another way."""

import ast
import csv
import io
import json
import unicodedata
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.markup import escape
from rich.progress import Progress, TextColumn

from kerncast.cli.shared.output import SafeConsole
from kerncast.printable import json_escaped, markdown_text, message, printable, printable_lines, write_csv
from kerncast.report.as_json import json_text
from kerncast.report.tables import Table, markdown, print_notes, print_table
from kerncast.report.tables import TextColumn as Words
from tests.helpers.places import FILES, PACKAGE, nodes_of

_EDGES = {"cli/shared/output.py", "cli/__init__.py", "hostbuild/nvcc.py", "scripts/session.py"}
#: Ways out of the program, and the files that may take them: the filter alone writes CSV.
_WAYS_OUT: dict[str, set[str]] = {
    "sys.stdout.write": _EDGES,
    "sys.stderr.write": _EDGES,
    "csv.writer": {"printable.py"},
    **{call: set() for call in ("print", "typer.echo", "typer.secho", "csv.DictWriter")},
    # A pipe of ours; what a script prints, with its controls written out.
    "os.write": {"device/session.py", "scripts/session.py"},
    **{call: set() for call in ("rich.console.Console", "rich.print", "rich.get_console", "rich.traceback.install")},
}
#: C0 and C1 controls, marks of the direction of writing, line separators and halves of a pair.
_CONTROLS = [chr(code) for code in (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
_HOSTILE = st.text(st.sampled_from([*_CONTROLS, "\u2028", "\u2029", "\ud800", "\udfff", *"ab[]:<>|`_=-+@ \\!()/"]))


def steers(text: str) -> bool:
    """Whether a text holds what is no sign: by the categories of Unicode, not by the filter's own rule."""
    return any(unicodedata.category(sign) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for sign in text)


@given(text=_HOSTILE | st.text())
def test_a_line_holds_signs_only(text: str) -> None:
    assert not steers(printable(text))
    assert printable(printable(text)) == printable(text)


@given(text=_HOSTILE | st.text())
def test_lines_hold_signs_tabs_and_breaks_only(text: str) -> None:
    found = printable_lines(text)
    assert not steers(found.replace("\n", "").replace("\t", ""))
    assert found.count("\n") == text.count("\n")


@given(text=_HOSTILE | st.text())
def test_a_message_is_one(text: str) -> None:
    first, *rest = message(text).split("\n")
    assert first.startswith("kerncast: ")
    assert all(line.startswith("  ") or not line for line in rest)


@given(text=_HOSTILE | st.text())
def test_json_says_the_same_in_signs(text: str) -> None:
    written = json_text({"a": text, "many": [{text: text}] * 300})
    assert not steers(written.replace("\n", ""))
    # To JSON, two halves of a pair that follow each other are the pair.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert json.loads(written) == {"a": whole, "many": [{whole: whole}] * 300}
    assert json_escaped(written) == written


@given(text=_HOSTILE)
def test_cells_of_csv_are_no_formulas(text: str) -> None:
    stream = io.StringIO(newline="")
    write_csv(stream, [("kernel", "n"), (text, -1.5)])
    _, (cell, number) = csv.reader(io.StringIO(stream.getvalue(), newline=""))
    assert number == "-1.5"
    assert not cell.strip().startswith(("=", "+", "-", "@"))
    assert not steers(stream.getvalue().replace("\n", ""))


@pytest.mark.parametrize("cell", ["=cmd|' /C calc'!A0", "+1+2", "-x", "@SUM(A1)", " =1", "\t=1", "\r=1", "-"])
def test_a_formula_becomes_a_text(cell: str) -> None:
    stream = io.StringIO()
    write_csv(stream, [(cell,)])
    assert next(csv.reader([stream.getvalue()])) == ["'" + printable(cell)]


@pytest.mark.parametrize("cell", ["-1", "+2.5e-3", "-inf", "nan", " -3", "saxpy", "x=1", "a-b", ""])
def test_numbers_and_names_stay_what_they_are(cell: str) -> None:
    stream = io.StringIO()
    write_csv(stream, [(cell, 1)])
    assert next(csv.reader([stream.getvalue()])) == [cell, "1"]


HOSTILE_NAMES = {
    "![x](https://a.b/c.png)": r"!\[x\](https:\//a.b/c.png)",
    "[x](javascript:1)": r"\[x\](javascript:1)",
    "<img src=x>": "&lt;img src=x>",
    "a|b": r"a\|b",
    "# k": r"\# k",
    "- k": r"\- k",
    "`k`": r"\`k\`",
    "a\nb": r"a\\nb".replace(r"\\n", r"\n"),
    "&lt;": "&amp;lt;",
    "-5 %": "-5 %",
}


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_markdown_shows_a_name_as_it_is(name: str) -> None:
    if "\n" not in name:
        assert markdown_text(name) == HOSTILE_NAMES[name]
    assert "\n" not in markdown_text(name)
    heading, _, row = markdown(Table((Words("kernel"),), ((name,),))).split("\n")
    assert (heading, row) == ("| kernel |", f"| {markdown_text(name)} |")


def shown(*what: object, **how: bool) -> str:
    console = SafeConsole(width=200, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(*what, **how)  # type: ignore[arg-type]  # options of printing
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@given(text=_HOSTILE)
def test_a_console_is_steered_by_no_text(text: str) -> None:
    for found in (shown(escape(text)), shown(text, markup=False)):
        assert not steers(found.replace("\n", "").replace("\t", ""))


def test_a_console_shows_neither_emoji_nor_markup_of_a_name() -> None:
    name = "default:x:y=3 [red]k[/red] [link=http://a.b]c[/link]"
    assert shown(f"[bold]{escape(name)}[/bold]").strip() == name
    console = SafeConsole(width=200, file=io.StringIO())
    print_table(Table((Words(":x:"),), ((name + "\x1b[2J",),)), console)
    assert isinstance(console.file, io.StringIO)
    assert name + r"\x1b[2J" in console.file.getvalue()
    assert ":x:" in console.file.getvalue()


def test_a_bar_still_moves_its_cursor_and_its_text_does_not() -> None:
    console = SafeConsole(width=80, file=io.StringIO(), force_terminal=True, color_system=None)
    with Progress(TextColumn("{task.description}", markup=False), console=console, transient=True) as bar:
        bar.add_task("k\x1b]0;PWN\x07[red]:x:")
    assert isinstance(console.file, io.StringIO)
    found = console.file.getvalue()
    assert r"k\x1b]0;PWN" in found
    assert "\x07" not in found
    assert "\x1b]0" not in found
    assert "\x1b[?25l" in found  # rich's own: the cursor is hidden


def name_of(call: ast.Call) -> str:
    return ast.unparse(call.func)


@cache
def calls_of(path: Path) -> set[str]:
    """Return what a file calls, a console of rich by its full name: the executor has one of its own, for printf."""
    calls = {name_of(node) for node in nodes_of(path) if isinstance(node, ast.Call)}
    imports = [node for node in nodes_of(path) if isinstance(node, ast.ImportFrom)]
    of_rich = {
        f"{alias.asname or alias.name}": f"{node.module}.{alias.name}"
        for node in imports
        if (node.module or "").startswith("rich")
        for alias in node.names
    }
    return {of_rich.get(call, call) for call in calls}


@pytest.mark.parametrize(("way_out", "edges"), _WAYS_OUT.items())
def test_texts_leave_at_the_edges_only(way_out: str, edges: set[str]) -> None:
    users = {path.relative_to(PACKAGE).as_posix() for path in FILES if way_out in calls_of(path)}
    assert users <= edges


def test_streams_are_handed_to_nobody() -> None:
    """What writes to a stream may hold it under another name; only the edges and the children's own protocol do."""
    streams = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in streams
    }
    assert found <= _EDGES


def test_a_caveat_of_several_lines_stays_one_caveat() -> None:
    out = io.StringIO()
    print_notes(["does not compile:\nk.cu(1): \x1b[2Jerror\n* all is well"], SafeConsole(file=out, width=80))
    assert out.getvalue() == "* does not compile:\n  k.cu(1): \\x1b[2Jerror\n  * all is well\n"
