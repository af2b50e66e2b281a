"""kerncast sensitivity: what of a GPU, and of a kernel, decides the time."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared import options as option
from kerncast.cli.shared.output import check_place, console_of, emit_json, progress_on_stderr, tell
from kerncast.cli.shared.reports import ReportPlaces, advice_told

if TYPE_CHECKING:
    from kerncast.gpu import GPU
    from kerncast.studies.sensitivity.elasticities import Study
    from kerncast.studies.sensitivity.lifting import Advice

_REFUSED_STATUS = 3


def command(  # noqa: PLR0913  each parameter is one option
    launches: Annotated[list[Path], typer.Argument(help="Launch files (.toml).", metavar="LAUNCH…")],
    gpu: Annotated[list[str] | None, typer.Option(help="One GPU: name, id or TOML file.")] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(help="Parameter to change, such as dram_bandwidth; repeatable; else all.")
    ] = None,
    advice: Annotated[
        bool, typer.Option("--advice/--no-advice", help="Whether to lift the kernel's own limits, too.")
    ] = True,
    level: Annotated[float, typer.Option(help="Share of measured times that the interval should hold.")] = 0.9,
    clock: Annotated[str | None, typer.Option(help="Clock: base, boost, default or a number of MHz.")] = None,
    timing: Annotated[str, typer.Option(help="Kind of time: series, single, cold or profiler.")] = "series",
    memory: option.Memory = None,
    tornado: Annotated[Path | None, typer.Option(help="Draw the changes at half and double: .png, .svg, .pdf.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page: .html or .md.")] = None,
    pictures: option.PictureFolder = None,
    json_: option.AsJson = False,
    out: option.Out = None,
    quiet: option.Quiet = False,
) -> int:
    """Tell how the time changes with each parameter of a GPU, and what lifting each limit of the kernel gains."""
    from kerncast.api.varying import of_study, read_launches, varied  # noqa: PLC0415
    from kerncast.forecast import Means, Options, timing_named  # noqa: PLC0415
    from kerncast.models import Question  # noqa: PLC0415
    from kerncast.studies.sensitivity.elasticities import parameters_named  # noqa: PLC0415

    places = ReportPlaces(report, pictures)
    _check_files(tornado, places)
    chosen, assumed = option.one_gpu(gpu, "Name one: elasticities are those of one GPU.")
    at_clock = option.clock_of(clock)
    chosen = chosen if at_clock is None else chosen.at_clock(at_clock)
    question = Question(timing_named(timing), Options(level=level).level)
    wanted = parameters_named(parameter or ())
    asked = read_launches(launches)
    with progress_on_stderr(quiet=quiet) as progress:
        means = Means(option.budget_of(memory), progress, apart=True)
        study = varied(asked, (chosen, assumed), question, wanted, means)
        lifted = advice_told(of_study(asked, study), chosen, question, means) if advice else ()
    _emit(study, lifted, chosen, as_json=json_, out=out)
    for each in study.refused:
        tell(f"{each.kernel} (launch {each.launch}) refused: {each.reason}")
    if not study.found:
        return _REFUSED_STATUS
    _write(study, lifted, tornado, places)
    return 0


def _check_files(tornado: Path | None, places: ReportPlaces) -> None:
    """Raise InputError for a file that could not be written in the end."""
    if tornado is not None:
        from kerncast.report.pictures.picture_files import FORMATS  # noqa: PLC0415

        check_place(tornado, FORMATS)
    places.check()


def _emit(study: "Study", advice: "Sequence[Advice]", gpu: "GPU", *, as_json: bool, out: Path | None) -> None:
    from kerncast.report.what_if.sensitivity import print_sensitivity, sensitivity_object  # noqa: PLC0415

    if as_json:
        emit_json(sensitivity_object(study, advice, gpu), out)
        return
    with console_of(out) as console:
        print_sensitivity(study, advice, console)


def _write(study: "Study", advice: "Sequence[Advice]", tornado: Path | None, places: ReportPlaces) -> None:
    if tornado is None and not places.is_asked:
        return
    from kerncast.report.page.figures import figure_picture  # noqa: PLC0415
    from kerncast.report.pictures.picture_files import save_picture  # noqa: PLC0415
    from kerncast.report.what_if.sensitivity import sensitivity_document  # noqa: PLC0415
    from kerncast.report.what_if.tornado import draw_tornado  # noqa: PLC0415

    figure = draw_tornado(study.found)
    if tornado is not None:
        save_picture(figure, tornado)
    if places.is_asked:
        places.write(sensitivity_document(study, advice, figure_picture(figure)))
