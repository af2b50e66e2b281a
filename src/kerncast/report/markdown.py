"""A document as Markdown."""

from kerncast.report.document import Document, Section
from kerncast.report.tables import Table


def render_markdown(document: Document) -> str:
    """Return a report as Markdown text."""
    parts = [f"# {_escape(document.title)}"]
    for section in document.sections:
        parts += _render_section(section)
    return "\n\n".join(parts) + "\n"


def _render_section(section: Section) -> list[str]:
    parts = [f"## {_escape(section.title)}"]
    bullets = section.title.endswith(("Conclusion", "Caveats"))
    parts += [("- " if bullets else "") + _escape(paragraph) for paragraph in section.paragraphs]
    return parts + [_render_table(table) for table in section.tables]


def _render_table(table: Table) -> str:
    lines = [table.heading, tuple("---" for _ in table.heading), *table.rows]
    return "\n".join("| " + " | ".join(_escape(cell) for cell in line) + " |" for line in lines)


def _escape(text: str) -> str:
    for mark in ("\\", "|", "<", "*", "_", "`"):
        text = text.replace(mark, "\\" + mark if mark != "<" else "&lt;")
    return text
