"""A report as a headline and sections of text, pictures and tables; HTML and Markdown are made from it."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kerncast.printable import markdown_text, printable_lines
from kerncast.report.tables import Fact, Table, TextColumn, markdown
from kerncast.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from kerncast.report.page.figures import Picture

#: Rows from which a table gets a field to filter it by.
_FILTERED_ROWS = 8
#: Columns that a narrow page has room for; those of texts count twice.
_MOST_COLUMNS = 3

#: The space between a number and its unit, at which no line is to end.
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s)(?![a-z]))")


@dataclass(frozen=True, slots=True)
class Section:
    """A title, paragraphs, pictures, facts and tables."""

    title: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    is_list: bool = False
    """whether each paragraph stands for itself, as a bullet"""
    key: str = ""
    """name of its place in a page; empty: it is not listed among the contents"""
    pictures: "tuple[Markup | Picture, ...]" = ()
    """pictures of ``report.page.fragments`` or ``figures``, which a page shows before the tables"""
    instead: tuple[Table, ...] = ()
    """tables that Markdown shows, and pages do not"""
    facts: tuple[Fact, ...] = ()
    inside: "tuple[Section, ...]" = ()
    """sections that belong to it"""
    is_folded: bool = False
    """whether a page shows its title alone until somebody opens it"""


@dataclass(frozen=True, slots=True)
class Origin:
    """What made a report."""

    command: str
    """command line; empty where a library's caller asked"""
    when: datetime

    @classmethod
    def of(cls, command: str) -> "Origin":
        """Return the origin of a report that is made now; SOURCE_DATE_EPOCH names another time, as for other builds."""
        epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
        return cls(command, datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC))

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What a reader needs to make the report again."""
        made = (Fact("kerncast", __version__), Fact("made", f"{self.when:%Y-%m-%d %H:%M} UTC"))
        return (Fact("command", self.command), *made) if self.command else made


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report."""

    title: str
    sections: tuple[Section, ...]
    headline: str = ""
    """the answer in a few words; empty: the title stands for it"""
    lead: tuple[str, ...] = ()
    """sentences below the headline"""
    tiles: tuple[Fact, ...] = ()
    """the numbers that are looked for first"""


def render_html(document: Document) -> str:
    """Return a report as one HTML text; every text of the user's is escaped, nothing is loaded from elsewhere."""
    return environment().get_template("report.html").render(document=document)


@cache
def environment() -> "Environment":
    """Return what fills our templates: it escapes, and writes controls out."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415  only reports need it

    made = Environment(
        autoescape=True, finalize=_shown, loader=FunctionLoader(_template), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters["kept_together"] = _kept_together
    made.tests["number_column"] = lambda column: not isinstance(column, TextColumn)
    made.tests["of_cards"] = _of_cards
    made.globals["filtered_rows"] = _FILTERED_ROWS
    return made


def _of_cards(table: Table) -> bool:
    """Tell whether a table needs so much room that narrow pages show its rows as cards."""
    texts = sum(isinstance(column, TextColumn) for column in table.columns[1:])
    return len(table.columns) + texts > _MOST_COLUMNS


def _template(name: str) -> str:
    return files("kerncast.report").joinpath("templates", name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    """Return what a page shows of a value; it is escaped after that, but for our pictures."""
    return printable_lines(value) if type(value) is str else value


def _kept_together(text: str) -> "Markup":
    """Return a text, escaped, whose numbers stay on the line of their units."""
    from markupsafe import Markup, escape  # noqa: PLC0415

    return Markup(_BEFORE_UNIT.sub("&nbsp;", str(escape(printable_lines(text)))))  # noqa: S704  escaped before


def fragment(name: str, values: Mapping[str, Any]) -> "Markup":
    """Return what a macro of ``fragments.html`` makes of some values: HTML that a page, or a notebook, can hold."""
    from markupsafe import Markup  # noqa: PLC0415

    macro = getattr(environment().get_template("fragments.html").module, name)
    return Markup(macro(**values))  # noqa: S704  the macro has escaped them


def style_sheet() -> str:
    """Return the style of our fragments, for pages of others that hold them."""
    return _template("page.css")


def script() -> str:
    """Return the script that lets tables be sorted and filtered."""
    return _template("tables.js")


def render_markdown(document: Document, images: "Mapping[int, str] | None" = None) -> str:
    """Return a report as Markdown text; ``images`` are the files of its pictures, by the id of the picture."""
    images = images or {}
    parts = [f"# {markdown_text(document.title)}"]
    if document.headline:
        parts.append(f"**{markdown_text(document.headline)}**")
    parts += [markdown_text(sentence) for sentence in document.lead]
    for section in document.sections:
        parts += _markdown(section, 2, images)
    return "\n\n".join(parts) + "\n"


def _markdown(section: Section, depth: int, images: Mapping[int, str]) -> Iterator[str]:
    yield f"{'#' * depth} {markdown_text(section.title)}"
    for paragraph in section.paragraphs:
        yield ("- " if section.is_list else "") + markdown_text(paragraph)
    for picture in section.pictures:
        if id(picture) in images:
            yield f"![{markdown_text(section.title)}]({quote(images[id(picture)])})"
    if section.facts:
        yield "\n".join(f"- {markdown_text(': '.join(_words(fact)))}" for fact in section.facts)
    yield from (markdown(table) for table in (*section.instead, *section.tables))
    for each in section.inside:
        yield from _markdown(each, depth + 1, images)


def _words(fact: Fact) -> tuple[str, ...]:
    return fact.label, f"{fact.value}{f' ({fact.note})' if fact.note else ''}".strip()
