"""kerncast evaluate: forecast launches with a trained model, and score it on their measured times."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import AsJson, GPUName, KeepOutliers, Quiet, TimeColumn
from kerncast.cli.shared.output import check_place, emit_json, progress_on_stderr, stdout_console, write_text
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.models.learned.model_files import ModelHeader
    from kerncast.studies.evaluation import Evaluation, Unscored


def command(  # noqa: PLR0913  each parameter is one option
    model: Annotated[Path, typer.Argument(help="File of a model that kerncast train wrote (.kcm).")],
    data: Annotated[list[Path], typer.Argument(help="Launches with features and times: CSV, Parquet, profiles.")],
    gpu: GPUName = None,
    time: TimeColumn = None,
    keep_outliers: KeepOutliers = False,
    csv: Annotated[Path | None, typer.Option(help="Write the forecast of each launch as CSV.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw forecast against measured time.")] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Forecast launches by a trained model, and score it where they have times; what was held out is scored apart."""
    from kerncast.models.learned.model_files import read_model  # noqa: PLC0415
    from kerncast.report.pictures.picture_files import FORMATS  # noqa: PLC0415
    from kerncast.report.training.scores_table import evaluation_notes  # noqa: PLC0415
    from kerncast.studies.evaluation import Selected, Unscored, evaluate  # noqa: PLC0415

    if picture is not None:
        check_place(picture, FORMATS)
    with progress_on_stderr(quiet=quiet) as show:
        if show:
            show(f"forecasting with {model.name}", 0, 0)
        found_model = read_model(model)
        found = evaluate(found_model, data, Selected(gpu, not keep_outliers, time))
    if isinstance(found, Unscored):
        _print_unscored(found, found_model.header, (csv, picture), as_json=json_)
        return 0
    notes = evaluation_notes(found, found_model.header)
    _write(found, csv, picture)
    _print(found, found_model.header, notes, as_json=json_)
    return 0


def _write(found: "Evaluation", csv: Path | None, picture: Path | None) -> None:
    from kerncast.report.pictures.picture_files import save_picture  # noqa: PLC0415
    from kerncast.report.training.pictures import draw_fit, panel_of_evaluation  # noqa: PLC0415
    from kerncast.report.training.scores_table import evaluation_csv  # noqa: PLC0415

    if csv is not None:
        write_text(csv, evaluation_csv(found))
    if picture is not None:
        save_picture(draw_fit([panel_of_evaluation(found)]), picture)


def _print(found: "Evaluation", header: "ModelHeader", notes: tuple[str, ...], *, as_json: bool) -> None:
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415
    from kerncast.report.training.scores_table import evaluation_object, evaluation_table, header_sentences  # noqa: PLC0415

    if as_json:
        emit_json(evaluation_object(found, header, notes))
        return
    console = stdout_console()
    for sentence in header_sentences(header):
        console.print(sentence, highlight=False, markup=False)
    print_table(evaluation_table(found), console)
    print_notes(notes, console)


def _print_unscored(
    found: "Unscored", header: "ModelHeader", files: tuple[Path | None, Path | None], *, as_json: bool
) -> None:
    """Print the forecasts of launches without times; raises InputError where a picture was asked for."""
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415
    from kerncast.report.training import scores_table as words  # noqa: PLC0415

    csv, picture = files
    if picture is not None:
        cure = "Leave --picture out, or give the measured times."
        raise InputError("no launch has a time to draw its forecast against", where="--picture", cure=cure)
    notes = words.unscored_notes(found, header)
    if csv is not None:
        write_text(csv, words.unscored_csv(found))
    if as_json:
        emit_json(words.unscored_object(found, header, notes))
        return
    console = stdout_console()
    for sentence in words.header_sentences(header):
        console.print(sentence, highlight=False, markup=False)
    print_table(words.unscored_table(found), console)
    print_notes(notes, console)
