"""Rooflines and bars."""

from kerncast.report.pictures.picture_files import check_picture, save_picture, shown_name, svg_text
from kerncast.report.pictures.projection import Beside, draw_projection, projection_csv
from kerncast.report.pictures.roofline import draw_rooflines, drawable, extents, roofline_csv, rooflines_of_cases

__all__ = [
    "Beside",
    "check_picture",
    "draw_projection",
    "draw_rooflines",
    "drawable",
    "extents",
    "projection_csv",
    "roofline_csv",
    "rooflines_of_cases",
    "save_picture",
    "shown_name",
    "svg_text",
]
