"""Writes a figure to a file: the name's ending says how."""

import io
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncast.errors import InputError
from kerncast.printable import printable_lines
from kerncast.replaced_file import replacing
from kerncast.report.pictures.colours import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
_DOTS_PER_INCH = 150
_INKED = ("text.color", "axes.labelcolor", "axes.titlecolor", "axes.edgecolor", "xtick.color", "ytick.color")
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "kerncast", "text.parse_math": False, "svg.fonttype": "none", "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(_INKED, INK),
}  # fmt: skip


def check_picture(path: Path) -> None:
    """Raise InputError where a name does not say how to draw."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} is not a name for a picture", cure=f"End it in {', '.join(FORMATS)}.")


def drawing() -> AbstractContextManager[None]:
    """Return what every picture is drawn in: names hold no mathematics, and the same numbers give the same file."""
    from matplotlib import rc_context  # noqa: PLC0415  heavy, and only pictures need it

    return rc_context(_SETTINGS)


def save_picture(figure: "Figure", path: Path) -> None:
    """Write a figure; raises InputError where that is not possible."""
    check_picture(path)
    kind = path.suffix.lower().removeprefix(".")
    dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
    with replacing(path) as place, drawing():
        figure.savefig(place, format=kind, dpi=_DOTS_PER_INCH, metadata=dates)


def shown_name(kernel: str, longest: int) -> str:
    """Return a kernel's name for a picture: without return type and parameters, cut where it is too long.

    >>> shown_name("void app::total<(int)256>(const T1 *, int)", 40), shown_name("(anonymous namespace)::k", 12)
    ('app::total<(int)256>', '(anonymous …')
    """
    name = kernel.removeprefix("void ")
    opening = _opening_of_last(name)
    name = name[:opening] if opening else name
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _opening_of_last(name: str) -> int:
    """Return where the parenthesis opens that a name ends with, 0 where it ends otherwise."""
    if not name.endswith(")"):
        return 0
    depth = 0
    for place in range(len(name) - 1, -1, -1):
        depth += (name[place] == ")") - (name[place] == "(")
        if not depth:
            return place
    return 0


def svg_text(figure: "Figure") -> str:
    """Return a figure as an SVG element that a page can hold: without background, its text in the page's own colour."""
    text = io.StringIO()
    with drawing():
        figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    svg = printable_lines(text.getvalue())
    return svg[svg.index("<svg") :].replace(INK, "currentColor")
