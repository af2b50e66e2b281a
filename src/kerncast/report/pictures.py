"""The pictures of a report: forecasts, and where a run was measured, rooflines and bars."""

from kerncast.forecast import Forecast
from kerncast.report.picture import draw_forecast
from kerncast.report.picture_files import svg_text
from kerncast.report.projection_picture import draw_projection
from kerncast.report.roofline_picture import draw_rooflines
from kerncast.report.rooflines import rooflines_of_cases


def pictures_svg(forecast: Forecast) -> tuple[str, ...]:
    """Return each picture that there is something to draw for."""
    figures = (
        draw_forecast(forecast.predictions),
        draw_rooflines(rooflines_of_cases(forecast.cases)),
        draw_projection(forecast.predictions),
    )
    return tuple(svg_text(figure) for figure in figures if figure is not None)
