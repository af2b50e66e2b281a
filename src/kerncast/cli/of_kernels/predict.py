"""kerncast predict: forecast launches on GPUs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kerncast.cli.shared import options as option
from kerncast.cli.shared.baseline import Baseline, forecast_baseline, read_baseline, slower_than, without_baseline
from kerncast.cli.shared.output import check_place, emit_forecast, progress_on_stderr, tell, write_text
from kerncast.cli.shared.reports import ReportPlaces, before_of, beyond_of
from kerncast.cli.shared.scripts import SCRIPT, forecast_of_script, is_script
from kerncast.errors import InputError
from kerncast.units import parse_seconds

if TYPE_CHECKING:
    from kerncast.forecast import Forecast, Options, Reading
    from kerncast.read.selection import Selection


def parse_limit(text: str | None) -> float | None:
    """Return the seconds of --max."""
    if text is None:
        return None
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise InputError(f"--max: {error}") from None


@dataclass(frozen=True, slots=True)
class Pictures:
    """Files for rooflines and bars; the name's ending says how: a picture, or .csv for the numbers."""

    rooflines: tuple[Path, ...]
    bars: tuple[Path, ...]

    def check(self) -> None:
        """Raise InputError where a name does not say how to draw, before any work."""
        paths = (*self.rooflines, *self.bars)
        if not paths:
            return
        from kerncast.report.pictures.picture_files import FORMATS  # noqa: PLC0415

        for path in paths:
            check_place(path, (*FORMATS, ".csv"))

    def draw(self, forecast: "Forecast") -> None:
        """Write what was asked for; raises InputError where there is no roofline to draw."""
        from kerncast.report.forecast import picture  # noqa: PLC0415  draws with matplotlib
        from kerncast.report.pictures.picture_files import save_picture  # noqa: PLC0415

        for path in self.bars:
            if path.suffix.lower() == ".csv":
                write_text(path, picture.bars_text(forecast))
            else:
                save_picture(picture.draw_bars(forecast), path)
        numbers = picture.roofline_text(forecast) if self.rooflines else ""
        if numbers is None:
            raise InputError(
                "there is no roofline to draw: operations and bytes of this evidence are not counted",
                where=f"--roofline {self.rooflines[0]}",
                cure="Give the kernel's source, a profile or declared counts, or leave the option out.",
            )
        for path in self.rooflines:
            if path.suffix.lower() == ".csv":
                write_text(path, numbers)
            elif figure := picture.draw_roofline(forecast):
                save_picture(figure, path)


_SLOWER_STATUS = 4
_REFUSED_STATUS = 3


def command(  # noqa: PLR0913  each parameter is one option of the contract
    evidence: Annotated[
        Path | None,
        typer.Argument(
            help="Launch file or declared counts (.toml), source (.cu), script (.py), recording (.kc), a profiler's or"
            " tuner's file, times or operators (.csv), or a model (.json)."
        ),
    ] = None,
    op: Annotated[
        list[str] | None,
        typer.Option("--op", help="Operator of a library: 'bmm(B=64,M=512,N=512,K=64,dtype=bf16)'; repeatable."),
    ] = None,
    gpu: Annotated[list[str] | None, typer.Option(help="GPU name, id, TOML file, or all; repeatable.")] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            "-k",
            help="Kernel of a .cu, such as 'reduce<float, 256>'; of a profile or of operators, regex:… too.",
        ),
    ] = None,
    grid: option.Grid = None,
    block: option.Block = None,
    shared: option.SharedBytes = 0,
    cluster: option.Cluster = None,
    arg: option.Arguments = None,
    define: option.Defines = None,
    include: option.IncludeFolders = None,
    std: option.Standard = None,
    use_fast_math: option.FastMath = False,
    cooperative: option.Cooperative = False,
    global_: option.Globals = None,
    measured: Annotated[
        list[str] | None,
        typer.Option(
            help='Measured time: "RTX 2080 Ti=1.23ms", "GPU#LAUNCH=1.23ms", or a file of times: .csv, .jsonl.'
        ),
    ] = None,
    source_gpu: Annotated[str | None, typer.Option(help="GPU of a profile, if the profile does not name it.")] = None,
    source: Annotated[
        Path | None,
        typer.Option(help="Launch file of a profile's kernels, to count what the profile lacks."),
    ] = None,
    launch_skip: Annotated[int, typer.Option(help="Launches of a profile, or operators, to leave out first.")] = 0,
    launch_count: Annotated[int | None, typer.Option(help="Most launches of a profile, or operators, to read.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="simulation, roofline, template, algorithm1, ceilings, pipes, times, convolution, convolution-latency,"
            " or a file of kerncast train (.kcm)."
        ),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE of a feature that a trained model needs and no execution tells; repeatable."),
    ] = None,
    level: Annotated[float, typer.Option(help="Share of measured times that the interval should hold.")] = 0.9,
    clock: Annotated[str | None, typer.Option(help="Clock: base, boost, default or a number of MHz.")] = None,
    timing: Annotated[
        str | None, typer.Option(help="Kind of time: series (default), single, cold or profiler.")
    ] = None,
    memory: option.Memory = None,
    force: Annotated[bool, typer.Option("--force", help="Forecast launches that the GPU could not run.")] = False,
    json_: option.AsJson = False,
    out: option.Out = None,
    report: Annotated[Path | None, typer.Option(help="Write a report: .html or .md.")] = None,
    pictures: option.PictureFolder = None,
    advice: Annotated[
        bool, typer.Option("--advice", help="Simulate each limit lifted, for the report; takes longer.")
    ] = False,
    roofline: Annotated[list[Path] | None, typer.Option(help="Draw rooflines: .png, .svg, .pdf, or .csv.")] = None,
    bars: Annotated[
        list[Path] | None, typer.Option(help="Draw forecast and measured times: .png, .svg, .pdf, or .csv.")
    ] = None,
    max_: Annotated[
        str | None,
        typer.Option("--max", help="Exit 4 if the forecast of any launch is slower, such as 2ms; one call of it."),
    ] = None,
    compare_to: Annotated[
        Path | None, typer.Option(help="Version before, a launch file or JSON; exit 4 if slower beyond both intervals.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Name every GPU that a caveat concerns.")] = False,
    quiet: option.Quiet = False,
) -> int:
    """Forecast how long each launch takes on each GPU."""
    from kerncast.forecast import Options, forecast_all, observations, resolve_gpus, timing_named  # noqa: PLC0415
    from kerncast.models import is_model_file  # noqa: PLC0415
    from kerncast.read.selection import Selection  # noqa: PLC0415

    limit_seconds = parse_limit(max_)
    baseline = read_baseline(compare_to) if compare_to is not None and compare_to.suffix == ".json" else None
    places, drawn = ReportPlaces(report, pictures), Pictures(tuple(roofline or ()), tuple(bars or ()))
    places.check(advises=advice)
    drawn.check()
    if evidence is not None:
        _check_options_of_profiles(evidence, launch_skip or launch_count is not None, source_gpu, source)
    inline = option.InlineLaunch(
        kernel, grid, block, shared, arg, define, include, global_, std, use_fast_math, cluster, cooperative
    )
    reading = _reading(Selection(kernel, launch_skip, launch_count), source_gpu, source)
    options = Options(
        model,
        timing_named(timing or "series"),
        level,
        option.clock_of(clock),
        force,
        measured=observations(measured or ()),
        reading=reading,
        budget=option.budget_of(memory),
        operator_timing=None if timing is None else timing_named(timing),
        features=_features(feature or (), model),
        apart=True,
    )
    subject = _subject(evidence, op, inline)
    with progress_on_stderr(quiet=quiet) as progress:
        # The rows of a table of features may name their own GPUs.
        gpus = resolve_gpus(gpu or ()) if gpu or not is_model_file(model or "") else []
        if is_script(subject):
            forecast = forecast_of_script(subject, gpus, options, progress)
        else:
            forecast = forecast_all(subject, gpus, options, progress)
        if compare_to is not None and baseline is None and forecast.predictions:
            baseline = forecast_baseline(compare_to, gpus, options, progress)
    emit_forecast(forecast, options.timing, as_json=json_, out=out, is_verbose=verbose)
    if places.is_asked and forecast.predictions:
        _write_report(places, (forecast, baseline), options, quiet=quiet, advises=advice)
    if forecast.predictions and (drawn.rooflines or drawn.bars):
        drawn.draw(forecast)
    if not forecast.predictions:
        for refused in forecast.refused:
            tell(f"{refused.kernel} (launch {refused.launch}) refused: {refused.reason}")
        return _REFUSED_STATUS
    forecast.whole()
    if baseline is not None:
        for sentence in without_baseline(forecast.predictions, baseline):
            tell(sentence)
    slower = slower_than(forecast.predictions, limit_seconds, baseline)
    for sentence in slower:
        tell(sentence)
    return _SLOWER_STATUS if slower else 0


def _write_report(
    places: ReportPlaces, found: "tuple[Forecast, Baseline | None]", options: "Options", *, quiet: bool, advises: bool
) -> None:
    from kerncast.forecast import Means  # noqa: PLC0415
    from kerncast.report.forecast.document import build_document  # noqa: PLC0415

    forecast, baseline = found
    with progress_on_stderr(quiet=quiet) as progress:
        means = Means(options.budget, progress, apart=True)
        beyond = beyond_of(forecast, means, advises=advises)
        if baseline is not None and baseline.pairs(forecast.predictions):
            beyond = replace(beyond, before=before_of(baseline, forecast, means))
    places.write(build_document(forecast, beyond))


def _subject(evidence: Path | None, op: list[str] | None, inline: option.InlineLaunch) -> Any:
    """Return what is to be forecast; raises InputError for nothing, or for two things."""
    if evidence is not None and op:
        raise InputError(f"--op and {evidence} are both given", cure="Give one of them.")
    if op:
        from kerncast.read.operator_files import operators_in  # noqa: PLC0415

        _check_options_of_operators(inline)
        return operators_in(op)
    if evidence is None:
        raise InputError("no evidence is given: name a launch file, a source, a profile or a table, or add --op")
    if evidence.suffix.lower() in {".csv", ".json"}:
        from kerncast.forecast.evidence import holds_operators  # noqa: PLC0415

        if _options_of_launches(inline) and holds_operators(evidence):
            _check_options_of_operators(inline)
    return inline.build(evidence) if inline.applies_to(evidence) else evidence


def _options_of_launches(inline: option.InlineLaunch) -> tuple[str, ...]:
    """Return the options of a source's launch that are given; -k chooses operators, too."""
    given = {
        "--grid": inline.grid, "--block": inline.block, "--cluster": inline.cluster, "--shared": inline.shared_bytes,
        "--arg": inline.arguments, "--define": inline.defines, "--include": inline.include_dirs,
        "--global": inline.globals, "--std": inline.standard, "--use-fast-math": inline.fast_math,
        "--cooperative": inline.cooperative,
    }  # fmt: skip
    return tuple(name for name, value in given.items() if value)


def _check_options_of_operators(inline: option.InlineLaunch) -> None:
    given = _options_of_launches(inline)
    if given:
        cure = "Leave it out: the sizes of an operator say what it does."
        raise InputError(f"forecasts of operators make no use of {', '.join(given)}", cure=cure)


def _features(texts: Sequence[str], model: str | None) -> tuple[tuple[str, float], ...]:
    """Return the features that --feature gives; raises InputError for what is no number."""
    from kerncast.models import is_model_file  # noqa: PLC0415

    if texts and not is_model_file(model or ""):
        raise InputError("--feature needs a trained model", cure="Add --model FILE.kcm.")
    pairs = [(name.strip(), value) for name, _, value in (text.rpartition("=") for text in texts)]
    try:
        found = tuple((name, float(value)) for name, value in pairs)
    except ValueError:
        found = ()
    if len(found) < len(pairs) or not all(name and math.isfinite(value) for name, value in found):
        raise InputError("--feature is not NAME=NUMBER", cure="Write --feature input_size=4096.")
    return found


def _reading(selection: "Selection", source_gpu: str | None, source: Path | None) -> "Reading":
    from kerncast.forecast import Reading  # noqa: PLC0415
    from kerncast.gpu import resolve_gpu  # noqa: PLC0415
    from kerncast.read.launches import load_launches  # noqa: PLC0415

    gpu, caveats = resolve_gpu(source_gpu) if source_gpu else (None, ())
    return Reading(selection, gpu, tuple(load_launches(source)) if source else (), caveats)


def _check_options_of_profiles(
    evidence: Path, selects_launches: object, source_gpu: str | None, source: Path | None
) -> None:
    is_profile = evidence.suffix.lower() not in {".toml", SCRIPT, *option.SOURCES}
    if not is_profile and (selects_launches or source_gpu or source):
        raise InputError(
            f"--launch-skip, --launch-count, --source and --source-gpu need a profile, not {evidence}",
            cure="Leave them out; launches of a file are told apart by their numbers.",
        )
