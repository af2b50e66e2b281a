"""kerncast train: models that learn execution times from measured launches, by a recipe."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import AsJson, GPUName, KeepOutliers, Quiet, TimeColumn
from kerncast.cli.shared.output import emit_json, make_folder, progress_on_stderr, stdout_console, tell, write_text
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.forecast import Progress
    from kerncast.read.features.cleaning import CleaningRules, CleanTable
    from kerncast.studies.average_case import Study, StudyPlan

_ALL = "all"


def command(  # noqa: PLR0913  each parameter is one option
    data: Annotated[
        list[Path],
        typer.Argument(help="Measured launches: CSV, Parquet, profiles, .jsonl, tuners' JSON, and their launch file."),
    ],
    recipe: Annotated[
        str, typer.Option(help="Recipe of the models: acet (average case), or residual (of the simulation).")
    ] = "acet",
    model: Annotated[
        str, typer.Option(help="Models of the recipe by name, such as forest or residual-gp; or all.")
    ] = _ALL,
    split: Annotated[str, typer.Option(help="Part to hold out: rows, configurations, kernels or gpus.")] = "rows",
    features: Annotated[
        str, typer.Option(help="Features: all, selected, published, timeless, executed, or names A,B.")
    ] = _ALL,
    gpu: GPUName = None,
    time: TimeColumn = None,
    keep_outliers: KeepOutliers = False,
    out: Annotated[Path | None, typer.Option(help="File of the model; of several, NAME-MODEL.kcm each.")] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose settings by cross-validation, kernels held out.")
    ] = False,
    pictures: Annotated[Path | None, typer.Option(help="Folder for the correlation matrix and the fits.")] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Train the models of a recipe, and score them on launches that were held out."""
    from kerncast.read.features.cleaning import CleaningRules  # noqa: PLC0415
    from kerncast.studies.average_case import study_of  # noqa: PLC0415

    plan = replace(_plan(recipe, model, split, features), tunes=tune)
    files = _Files(out, pictures)
    files.check()
    asked = plan.features.names or None
    rules = CleaningRules(asked, drops_outliers=not keep_outliers, gpu=gpu)
    with progress_on_stderr(quiet=quiet) as show:
        clean = _read(data, rules, time, show)
        say = (lambda text: show(text, 0, 0)) if show else None
        study = study_of(clean.table, plan, keeps_models=out is not None, progress=say)
    written = files.write(study, clean, _options(gpu, time, keep_outliers))
    _print(study, clean, written, as_json=json_)
    return 0


def _read(data: Sequence[Path], rules: "CleaningRules", time: str | None, show: "Progress | None") -> "CleanTable":
    """Read the measured launches; launches of launch files are executed for their features."""
    from kerncast.read.features.table_files import gpus_of, read_feature_table  # noqa: PLC0415
    from kerncast.studies.learning.executed import execute_features, is_launch_file  # noqa: PLC0415

    tables = [path for path in data if not is_launch_file(path)]
    files = [path for path in data if is_launch_file(path)]
    if show:
        show(f"reading {', '.join(path.name for path in tables)}", 0, 0)
    if files and not tables:
        cure = "Add a file of measured times: .csv, .parquet, .jsonl."
        raise InputError("launches alone have no times", where=str(files[0]), cure=cure)
    executed = execute_features(files, gpus_of(tables), show) if files else None
    return read_feature_table(tables, rules, time=time, executed=executed)


def _plan(recipe: str, model: str, split: str, features: str) -> "StudyPlan":
    from kerncast.studies.average_case import StudyPlan  # noqa: PLC0415
    from kerncast.studies.correlation import FeatureChoice  # noqa: PLC0415
    from kerncast.studies.recipes import load_recipe  # noqa: PLC0415
    from kerncast.studies.splits import Split  # noqa: PLC0415

    found = load_recipe(recipe)
    known = [each.value for each in Split]
    if split not in known:
        raise InputError(f"--split {split[:40]!r} is not known", cure=f"Known are {', '.join(known)}.")
    models = found.models if model == _ALL else (found.model(model),)
    return StudyPlan(found, models, Split(split), FeatureChoice.of(features))


@dataclass(frozen=True, slots=True)
class _Files:
    """The files to write."""

    out: Path | None
    pictures: Path | None

    def check(self) -> None:
        """Raise InputError before anything is trained where it could not be written."""
        from kerncast.models import MODEL_SUFFIX  # noqa: PLC0415

        if self.out is not None and self.out.suffix != MODEL_SUFFIX:
            raise InputError(f"{self.out} is not a name for a model", where="--out", cure=f"End it in {MODEL_SUFFIX}.")
        if self.out is not None and self.out.is_dir():
            raise InputError(f"{self.out} is a folder", where="--out", cure="Name a file.")
        for path in (self.out, self.pictures):
            if path is not None and not path.parent.is_dir():
                raise InputError(f"the folder of {path} does not exist", cure="Make it, or choose another place.")
        if self.pictures is not None and self.pictures.exists() and not self.pictures.is_dir():
            raise InputError(f"{self.pictures} is not a folder", where="--pictures", cure="Name a folder.")

    def write(self, study: "Study", clean: "CleanTable", options: tuple[str, ...]) -> list[Path]:
        """Write models and pictures; returns their paths."""
        return [*self._write_models(study, clean, options), *self._draw(study)]

    def _write_models(self, study: "Study", clean: "CleanTable", options: tuple[str, ...]) -> list[Path]:
        from kerncast.models.learned.model_files import write_model  # noqa: PLC0415
        from kerncast.studies.learning.kept_models import Origin, model_file  # noqa: PLC0415

        written = []
        for model in study.models if self.out else ():
            assert self.out is not None
            is_only = len(study.models) == 1
            path = self.out if is_only else self.out.with_stem(f"{self.out.stem}-{model.recipe.name}")
            write_model(path, model_file(study, model, Origin(clean.files, options)))
            written.append(path)
        return written

    def _draw(self, study: "Study") -> list[Path]:
        if self.pictures is None:
            return []
        from kerncast.report.pictures.picture_files import save_picture  # noqa: PLC0415
        from kerncast.report.training.pictures import correlation_csv, draw_correlation, draw_fit, panels_of  # noqa: PLC0415  # noqa: PLC0415
        from kerncast.studies.correlation import correlation  # noqa: PLC0415

        make_folder(self.pictures)
        paths = [self.pictures / name for name in ("correlation.png", "correlation.csv", "forecast.png")]
        found = correlation(study.table)
        save_picture(draw_correlation(found), paths[0])
        write_text(paths[1], correlation_csv(found))
        save_picture(draw_fit(panels_of(study)), paths[2])
        return paths


def _options(gpu: str | None, time: str | None, keep_outliers: bool) -> tuple[str, ...]:
    named = [(name, value) for name, value in (("--gpu", gpu), ("--time", time)) if value is not None]
    return (*(word for pair in named for word in pair), *(["--keep-outliers"] if keep_outliers else []))


def _print(study: "Study", clean: "CleanTable", written: Sequence[Path], *, as_json: bool) -> None:
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415
    from kerncast.report.training.scores_table import (  # noqa: PLC0415
        folds_table,
        study_notes,
        study_object,
        study_sentence,
        study_table,
        tuning_table,
    )

    notes = study_notes(study, clean.cleaning)
    if as_json:
        emit_json(study_object(study, clean.cleaning, notes, written))
        return
    console = stdout_console()
    console.print(study_sentence(study), highlight=False, markup=False)
    for table in filter(None, (study_table(study), folds_table(study), tuning_table(study))):
        print_table(table, console)
    print_notes(notes, console)
    for path in written:
        tell(f"written to {path}")
