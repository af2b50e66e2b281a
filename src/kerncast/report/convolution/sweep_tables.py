"""The sweeps of a convolution layer as tables, as a page, as CSV and as JSON."""

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.console import Console

from kerncast.measurements.scores import Scores
from kerncast.printable import markdown_text
from kerncast.read.given_layers import SIZES, LayerSizes
from kerncast.replaced_file import replacing
from kerncast.report.as_json import SCHEMA_VERSION, fields_of
from kerncast.report.convolution.sweep_picture import draw_sweeps
from kerncast.report.pictures.picture_files import save_picture
from kerncast.report.tables import Table, TextColumn, csv_text, markdown, print_notes, print_table
from kerncast.report.words import describe_caveat
from kerncast.studies.convolution import COMPARED, ConvolutionStudy, LayerPoint, Quantities, SweptLayers, name_of
from kerncast.units import MEGA, MICROSECOND, TERA, format_count

_FOLDER, _PICTURE = "pictures", "convolution-sweeps.svg"
_WIDTH = 120
_UNKNOWN = "–"
_LEVELS = ("l1_ops_per_byte", "l2_ops_per_byte", "dram_ops_per_byte")
#: What a table calls each quantity.
_QUANTITIES = {
    "flops": "FLOP", "int_ops": "INT operations", "ops": "total operations", "seconds": "time, µs", "ops_per_s": "TOPs",
    "l1_ops_per_byte": "OP/B, L1", "l2_ops_per_byte": "OP/B, L2", "dram_ops_per_byte": "OP/B, DRAM",
}  # fmt: skip
_COUNTS = frozenset({"flops", "int_ops", "ops"})
_WAYS = ("given", "predicted", "simulated")
_WORDS = (
    "*given*: counted and timed on the GPU. *predicted*: the published model; its OP/B are operations per byte that a"
    " level holds. *simulated*: our own kernel of the layer, executed; its OP/B are per byte that moves: between SMs"
    " and L1 with shared memory, L1 and L2, L2 and DRAM. *error*: |forecast - given| / given."
)


def print_sweeps(study: ConvolutionStudy, console: Console) -> None:
    """Print a table of each sweep, and the scores of the times."""
    console.print(_summary(study), highlight=False, markup=False)
    for each in study.sweeps:
        console.print(_title(each), highlight=False, markup=False)
        print_table(_table(each, format_count), console)
    if (scores := _scores(study)).rows:
        console.print("Errors of the times", highlight=False, markup=False)
        print_table(scores, console)
    print_notes([*_notes(study), *study.refused], console)


def page_text(study: ConvolutionStudy, command: str, picture: str) -> str:
    """Return the page in Markdown; every number on it is the study's, operations to the last digit."""
    parts = [
        "# A published convolution layer",
        f"Written by `{command}`.",
        fill(_summary(study), _WIDTH),
        fill(_WORDS, _WIDTH),
    ]
    for each in study.sweeps:
        parts += [f"## {_title(each)}", markdown(_table(each, lambda number: f"{number:,.0f}"))]
    if (scores := _scores(study)).rows:
        parts += ["## Errors of the times", markdown(scores)]
    notes = "\n".join(f"- {markdown_text(each)}" for each in (*_notes(study), *study.refused))
    return "\n\n".join([*parts, *([notes] if notes else []), f"![Times and errors of each sweep]({picture})"]) + "\n"


def write_study(study: ConvolutionStudy, out: Path, command: str) -> tuple[Path, ...]:
    """Write a table (.csv), a page with its picture (.md), or the picture alone; return what was written."""
    if out.suffix not in {".csv", ".md"}:
        save_picture(draw_sweeps(study), out)
        return (out,)
    picture = out.parent / _FOLDER / _PICTURE
    text = csv_of(study) if out.suffix == ".csv" else page_text(study, command, f"{_FOLDER}/{_PICTURE}")
    with replacing(out) as place:
        place.write_text(text, encoding="utf-8")
        if out.suffix == ".md":
            picture.parent.mkdir(exist_ok=True)
    if out.suffix == ".csv":
        return (out,)
    save_picture(draw_sweeps(study), picture)
    return out, picture


def _summary(study: ConvolutionStudy) -> str:
    points = [point for each in study.sweeps for point in each.points]
    given = sum(point.given != Quantities() for point in points)
    launches, sweeps = _counted(len(points), "launch", "launches"), _counted(len(study.sweeps), "sweep", "sweeps")
    return (
        f"A convolution layer on {study.gpu.name} at {study.gpu.clock_hz / MEGA:,.0f} MHz: {launches} in {sweeps},"
        f" {given} of them with given values."
    )


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _title(swept: SweptLayers) -> str:
    default, own = LayerSizes(), swept.sweep.parameter
    others = ", ".join(f"{name} {getattr(default, name)}" for name in SIZES if name != own)
    return f"Sweep of {own} ({others})"


def _table(swept: SweptLayers, count: Callable[[float], str]) -> Table:
    """Return a column for each value of the parameter, as the paper has it."""
    points = swept.points
    rows: list[tuple[str, ...]] = []
    for way in _WAYS:
        if way == "given" and all(each.given == Quantities() for each in points):
            continue
        rows += _rows(way, [getattr(each, way) for each in points], count)
        if way == "predicted":
            rows += _part_rows(points)
    for way in _WAYS[1:]:
        rows += _error_rows(way, points)
    texts = (TextColumn(swept.sweep.parameter, is_whole=True), TextColumn("", is_whole=True))
    return Table((*texts, *map(str, swept.sweep.values)), tuple(rows))


def _rows(way: str, known: Sequence[Quantities], count: Callable[[float], str]) -> list[tuple[str, ...]]:
    names = [name for name in _QUANTITIES if any(getattr(each, name) is not None for each in known)]
    return [
        ("" if n else way, _QUANTITIES[name], *(_number(getattr(each, name), name, way, count) for each in known))
        for n, name in enumerate(names)
    ]


def _part_rows(points: Sequence[LayerPoint]) -> list[tuple[str, ...]]:
    """Return the parts of the predicted time, and the time with the memory time that the paper gave up."""
    words = {"compute_seconds": "compute, µs", "memory_seconds": "memory, µs", "latency_seconds": "by latencies, µs"}
    return [("", said, *(_microseconds(getattr(each.times, name)) for each in points)) for name, said in words.items()]


def _error_rows(way: str, points: Sequence[LayerPoint]) -> list[tuple[str, ...]]:
    by_point = [each.errors(getattr(each, way)) for each in points]
    rows: list[tuple[str, ...]] = []
    for name, errors in zip(COMPARED, zip(*by_point, strict=True), strict=True):
        if any(error is not None for error in errors):
            cells = (_UNKNOWN if error is None else f"{error:.2%}" for error in errors)
            rows.append((f"error, {way}" if not rows else "", _QUANTITIES[name].removesuffix(", µs"), *cells))
    return rows


def _number(value: float | None, name: str, way: str, count: Callable[[float], str]) -> str:
    if name == "seconds":
        return _microseconds(value)
    if value is None:
        return _UNKNOWN
    if name in _COUNTS:
        return count(value)
    if name in _LEVELS and way == "predicted":
        return f"{int(value):,}"  # as the paper prints it
    return f"{value / TERA:,.3f}" if name == "ops_per_s" else f"{value:,.2f}"


def _microseconds(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else f"{seconds / MICROSECOND:,.3f}"


def _scores(study: ConvolutionStudy) -> Table:
    """Return the six measures of the times."""
    columns = (TextColumn("sweep"), TextColumn("by"), "n", "MAPE", "MAE, µs", "max AE, µs", "RMSE, µs", "R2")
    return Table(
        columns,
        tuple(
            (each.sweep.parameter, name, *_measures(found)) for each in study.sweeps for name, found in each.scores()
        ),
    )


def _measures(found: Scores) -> tuple[str, ...]:
    times = (f"{each / MICROSECOND:,.1f}" for each in (found.mae, found.max_ae, found.rmse))
    r2 = _UNKNOWN if found.known_r2 is None else f"{found.r2:.2f}"
    return (str(found.n), f"{found.mape:.1%}", *times, r2)


def _notes(study: ConvolutionStudy) -> list[str]:
    codes = {each.evidence.code for swept in study.sweeps for each in swept.points if each.simulated != Quantities()}
    own = study.gpu.architecture.code_name
    notes = [describe_caveat(each) for each in study.caveats]
    for code in sorted(codes - {own}):
        read = f"those of its machine code for {code}" if code else "estimated from the PTX"
        notes.append(f"No disassembler reads {own}: simulated INT operations are {read}.")
    for point in (point for swept in study.sweeps for point in swept.points):
        notes += [f"{name_of(point.sizes)}: {describe_caveat(each)}" for each in point.evidence.caveats]
    return list(dict.fromkeys(notes))


_COLUMNS = (*COMPARED, *_LEVELS)
_PARTS = ("compute_seconds", "memory_seconds", "latency_seconds")


def csv_of(study: ConvolutionStudy) -> str:
    """Return a row for each launch, with given, predicted and simulated columns, and errors; times in seconds."""
    ways = [f"{way}_{name}" for way in _WAYS for name in (COMPARED if way == "given" else _COLUMNS)]
    errors = [f"{way}_{name}_error" for way in _WAYS[1:] for name in COMPARED]
    heading = ["sweep", *SIZES, *ways, *(f"predicted_{name}" for name in _PARTS), "code", *errors]
    return csv_text(heading, (_csv_row(swept, each) for swept in study.sweeps for each in swept.points))


def _csv_row(swept: SweptLayers, point: LayerPoint) -> list[object]:
    known = [getattr(getattr(point, way), name) for way in _WAYS for name in (COMPARED if way == "given" else _COLUMNS)]
    errors = [error for way in _WAYS[1:] for error in point.errors(getattr(point, way))]
    sizes = [getattr(point.sizes, name) for name in SIZES]
    return [
        swept.sweep.parameter,
        *sizes,
        *known,
        *(getattr(point.times, name) for name in _PARTS),
        point.evidence.code,
        *errors,
    ]


def sweeps_object(study: ConvolutionStudy) -> dict[str, Any]:
    """Return what ``kerncast study convolution --json`` prints; times in seconds, unknown is null."""
    return {
        "schema_version": SCHEMA_VERSION,
        "study": "convolution",
        "gpu": study.gpu.name,
        "gpu_id": study.gpu.id,
        "clock_hz": study.gpu.clock_hz,
        "sweeps": [
            {
                "sweep": each.sweep.parameter,
                "points": [_point(point) for point in each.points],
                "scores": [
                    {"by": name, **fields_of(found, "n", "mape", "mae", "max_ae", "rmse"), "r2": found.known_r2}
                    for name, found in each.scores()
                ],
            }
            for each in study.sweeps
        ],
        "notes": _notes(study),
        "refused": list(study.refused),
    }


def _point(point: LayerPoint) -> dict[str, Any]:
    return {
        **fields_of(point.sizes, *SIZES),
        "given": fields_of(point.given, *COMPARED),
        "predicted": {**fields_of(point.predicted, *_COLUMNS), **fields_of(point.times, *_PARTS)},
        "simulated": {**fields_of(point.simulated, *_COLUMNS), "code": point.evidence.code or None},
        "errors": {way: dict(zip(COMPARED, point.errors(getattr(point, way)), strict=True)) for way in _WAYS[1:]},
    }
