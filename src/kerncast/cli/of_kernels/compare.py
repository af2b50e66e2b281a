"""kerncast compare: which GPU is the best for some launches, by time, energy and cost, and how sure that is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared import options as option
from kerncast.cli.shared.output import check_place, console_of, emit_json, progress_on_stderr, tell, write_text
from kerncast.cli.shared.scripts import SCRIPT
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.report.comparison.comparison_table import Compared

_REFUSED_STATUS = 3


def command(  # noqa: PLR0913  each parameter is one option
    launches: Annotated[
        list[Path], typer.Argument(help="Launch files, or a file of declared counts (.toml); all launches are one run.")
    ],
    gpu: Annotated[list[str] | None, typer.Option(help="GPU name, id, TOML file, or all; repeatable.")] = None,
    price: Annotated[
        Path | None, typer.Option(help="Prices: a .csv with the columns gpu,usd_per_hour[,usd_price].")
    ] = None,
    sort: Annotated[str, typer.Option(help="time, energy or cost.")] = "time",
    against: Annotated[str | None, typer.Option(help="GPU that each one is compared with.")] = None,
    clock: Annotated[str | None, typer.Option(help="Clock: base, boost, default or a number of MHz.")] = None,
    timing: Annotated[str, typer.Option(help="Kind of time: series, single, cold or profiler.")] = "series",
    memory: option.Memory = None,
    pareto: Annotated[
        Path | None, typer.Option(help="Draw time against cost, or energy, to a .png, .svg or .pdf.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write a row per GPU to a .csv.")] = None,
    json_: option.AsJson = False,
    out: option.Out = None,
    quiet: option.Quiet = False,
) -> int:
    """Compare GPUs by time, energy and cost, with the probability that one is faster than another."""
    from kerncast.api.comparing import compared, order_of  # noqa: PLC0415
    from kerncast.api.subjects import launches_or_counts, subjects_of  # noqa: PLC0415
    from kerncast.forecast import Options, resolve_gpus, timing_named  # noqa: PLC0415

    _check_files(pareto, csv)
    options = Options(
        force=None,
        timing=timing_named(timing),
        clock=option.clock_of(clock),
        budget=option.budget_of(memory),
        apart=True,
    )
    gpus = resolve_gpus(gpu or ())
    order = order_of(sort, price, against, [each for each, _ in gpus])
    for path in launches:
        _check_is_of_launches(path)
    with progress_on_stderr(quiet=quiet) as progress, subjects_of(launches, None, gpus, progress) as subjects:
        found = compared(launches_or_counts(subjects), gpus, options, order, progress)
    _emit(found, as_json=json_, out=out)
    if csv is not None:
        from kerncast.report.comparison.comparison_table import comparison_csv  # noqa: PLC0415

        write_text(csv, comparison_csv(found))
    if not found.rankings:
        for each in found.field.set_apart:
            tell(f"{each.gpu} is set apart: {each.reason}")
        return _REFUSED_STATUS
    if pareto is not None:
        _draw(pareto, found)
    return 0


def _emit(compared: "Compared", *, as_json: bool, out: Path | None) -> None:
    from kerncast.report.comparison import comparison_table as words  # noqa: PLC0415
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415

    if as_json:
        emit_json(words.comparison_object(compared), out)
        return
    with console_of(out) as console:
        for number, ranking in enumerate(compared.rankings):
            for text in (words.heading(ranking, is_first=not number), words.verdict(ranking)):
                if text:
                    console.print(text, highlight=False, markup=False)
            print_table(words.time_table(ranking), console)
            print_table(words.energy_table(compared, ranking), console)
        notes = [words.front_note(compared)] if compared.rankings else []
        notes += [text for _, text in words.sentences_of(compared, words.MOST_NAMES)]
        print_notes([*notes, *(words.apart_note(each) for each in compared.field.set_apart)], console)


def _draw(path: Path, compared: "Compared") -> None:
    from kerncast.report.comparison.pareto_picture import draw_pareto  # noqa: PLC0415  draws with matplotlib
    from kerncast.report.pictures.picture_files import save_picture  # noqa: PLC0415

    figure = draw_pareto(compared.rankings[0], has_prices=compared.has_prices)
    if figure is None:
        what = "price" if compared.has_prices else "estimate of its energy"
        tell(f"{path} is not drawn: no GPU has a {what}")
        return
    save_picture(figure, path)


def _check_is_of_launches(path: Path) -> None:
    if path.suffix.lower() not in {".toml", option.RECORDING, SCRIPT}:
        cure = "Give launch files, recordings, or counts that are declared in a .toml; kerncast predict reads others."
        raise InputError(f"{path} is no launch file", cure=cure)


def _check_files(pareto: Path | None, csv: Path | None) -> None:
    if pareto is not None:
        from kerncast.report.pictures.picture_files import FORMATS  # noqa: PLC0415

        check_place(pareto, FORMATS)
    if csv is not None:
        check_place(csv, (".csv",))
