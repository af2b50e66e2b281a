"""The pictures that ``kerncast predict`` draws, and the numbers behind them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kerncast.forecast import Forecast


@dataclass(frozen=True, slots=True)
class Pictures:
    """Where to draw rooflines and bars; the name's ending says how: a picture, or .csv for the numbers."""

    rooflines: tuple[Path, ...]
    bars: tuple[Path, ...]

    def check(self) -> None:
        """Raise InputError where a name does not say how to draw."""
        from kerncast.report.picture_files import check_picture  # noqa: PLC0415

        for path in (*self.rooflines, *self.bars):
            if path.suffix.lower() != ".csv":
                check_picture(path)

    def draw(self, forecast: "Forecast") -> tuple[str, ...]:
        """Write what was asked for, and return why there was nothing to draw, where there was not."""
        reasons = (*_draw_rooflines(self.rooflines, forecast), *_draw_bars(self.bars, forecast))
        return tuple(dict.fromkeys(reasons))


def _draw_rooflines(paths: Sequence[Path], forecast: "Forecast") -> Iterator[str]:
    if not paths:
        return
    from kerncast.report.picture_files import save_picture  # noqa: PLC0415  draws with matplotlib
    from kerncast.report.roofline_chart import roofline_csv  # noqa: PLC0415
    from kerncast.report.roofline_picture import draw_rooflines  # noqa: PLC0415
    from kerncast.report.rooflines import rooflines_of_cases  # noqa: PLC0415

    rooflines = rooflines_of_cases(forecast.cases)
    if not rooflines:
        yield 'there is no roofline to draw: it needs a profile, or --model ceilings with --measured "GPU=TIME"'
        return
    for path in paths:
        if path.suffix.lower() == ".csv":
            _write(path, roofline_csv(rooflines))
            continue
        figure = draw_rooflines(rooflines)
        if figure is None:
            yield f"{path} is not drawn: no kernel does floating-point work; a name that ends in .csv gets the numbers"
            continue
        save_picture(figure, path)


def _draw_bars(paths: Sequence[Path], forecast: "Forecast") -> Iterator[str]:
    from kerncast.report.picture_files import save_picture  # noqa: PLC0415
    from kerncast.report.projection_picture import draw_projection, projection_csv  # noqa: PLC0415

    for path in paths:
        if path.suffix.lower() == ".csv":
            _write(path, projection_csv(forecast.predictions))
            continue
        figure = draw_projection(forecast.predictions)
        if figure is None:
            yield "there are no bars to draw: nothing was carried over from a measured time; add --measured"
            continue
        save_picture(figure, path)


def _write(path: Path, text: str) -> None:
    from kerncast.cli.output import write_text  # noqa: PLC0415

    write_text(path, text)
