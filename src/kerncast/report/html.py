"""A document as one self-contained HTML file, with pictures."""

from collections.abc import Sequence
from importlib.resources import files

from kerncast.report.document import Document


def render_html(document: Document, pictures_svg: Sequence[str]) -> str:
    """Return a report as one HTML text; every text of the user's is escaped, nothing is loaded from elsewhere."""
    from jinja2 import Environment  # noqa: PLC0415  only reports need it
    from markupsafe import Markup  # noqa: PLC0415

    environment = Environment(autoescape=True)
    template = files("kerncast.report").joinpath("templates", "report.html").read_text(encoding="utf-8")
    # The pictures are made by us, from numbers and escaped names.
    pictures = [Markup(picture) for picture in pictures_svg]  # noqa: S704
    return environment.from_string(template).render(document=document, pictures=pictures)
