"""How a measured time was carried over to other GPUs: the numbers of both."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from kerncast.prediction import Figure, Prediction
from kerncast.report.tables import Table
from kerncast.units import format_count, format_seconds

_RATES = ("FLOP/s", "B/s", "FLOP", "B")


def transfer_tables(predictions: Sequence[Prediction]) -> Iterator[Table]:
    """Yield a table per launch and measured GPU: a row per number, a column per GPU."""
    carried = [p for p in predictions if p.transfer]
    for _, group in groupby(sorted(carried, key=_origin), key=_origin):
        yield _table(list(group))


def _origin(p: Prediction) -> tuple[int, str]:
    return p.launch, p.transfer.gpu if p.transfer else ""


def _table(group: list[Prediction]) -> Table:
    transfers = [p.transfer for p in group if p.transfer]
    targets, times = (p.gpu for p in group), (format_seconds(p.seconds, 3) for p in group)
    rows = [("time", format_seconds(transfers[0].measured_seconds, 3), *times)]
    for name in dict.fromkeys(figure.name for transfer in transfers for figure in transfer.figures):
        figures = [transfer.figure(name) for transfer in transfers]
        cells = (_cell(figure.target, figure.unit) if figure else "–" for figure in figures)
        rows.append((name, _source_cell([figure for figure in figures if figure]), *cells))
    return Table((group[0].kernel, f"{transfers[0].gpu}, measured", *targets), tuple(rows))


def _source_cell(figures: Sequence[Figure]) -> str:
    """Return the number of the measured GPU: a range where it depends on what is known of each target."""
    known = [figure.source for figure in figures if figure.source is not None]
    ends = [_cell(end, figures[0].unit) for end in (min(known), max(known))] if known else ["–"]
    return " to ".join(dict.fromkeys(ends))


def _cell(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit in _RATES:
        return format_count(value, unit)
    if unit == "s":
        return format_seconds(value, 3)
    return f"{value:.3g}" if unit == "1" else f"{value:.3g} {unit}"
