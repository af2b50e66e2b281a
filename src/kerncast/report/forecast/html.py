"""A document as HTML and as Markdown."""

from collections.abc import Sequence
from importlib.resources import files

from kerncast.report.forecast.document import Document, Section
from kerncast.report.tables import Table


def render_html(document: Document, pictures_svg: Sequence[str]) -> str:
    """Return a report as one HTML text; every text of the user's is escaped, nothing is loaded from elsewhere."""
    from jinja2 import Environment  # noqa: PLC0415  only reports need it
    from markupsafe import Markup  # noqa: PLC0415

    environment = Environment(autoescape=True)
    template = files("kerncast.report").joinpath("templates", "report.html").read_text(encoding="utf-8")
    # The pictures are made by us, from numbers and escaped names.
    pictures = [Markup(picture) for picture in pictures_svg]  # noqa: S704
    return environment.from_string(template).render(document=document, pictures=pictures)


def render_markdown(document: Document) -> str:
    """Return a report as Markdown text."""
    parts = [f"# {_escape(document.title)}"]
    for section in document.sections:
        parts += _render_section(section)
    return "\n\n".join(parts) + "\n"


def _render_section(section: Section) -> list[str]:
    parts = [f"## {_escape(section.title)}"]
    parts += [("- " if section.is_list else "") + _escape(paragraph) for paragraph in section.paragraphs]
    return parts + [_render_table(table) for table in section.tables]


def _render_table(table: Table) -> str:
    lines = [table.heading, tuple("---" for _ in table.heading), *table.rows]
    return "\n".join("| " + " | ".join(_escape(cell) for cell in line) + " |" for line in lines)


def _escape(text: str) -> str:
    for mark in ("\\", "|", "<", "*", "_", "`"):
        text = text.replace(mark, "\\" + mark if mark != "<" else "&lt;")
    return text
