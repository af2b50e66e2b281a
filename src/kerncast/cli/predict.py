"""kerncast predict: forecast launches on GPUs."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kerncast.cli.inline import SOURCES, InlineLaunch
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.evidence import Reading
    from kerncast.read.selection import Selection

_SLOWER_STATUS = 4
_HIGHEST_MEGAHERTZ = 10_000
_REFUSED_STATUS = 3


def command(  # noqa: PLR0913  each parameter is one option of the contract
    evidence: Annotated[
        Path,
        typer.Argument(help="Launch file or declared counts (.toml), source (.cu), or a profiler's or tuner's file."),
    ],
    gpu: Annotated[list[str] | None, typer.Option(help="GPU name, id, TOML file, or all; repeatable.")] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel", "-k", help="Kernel of a .cu, such as 'reduce<float, 256>'; of a profile, regex:… too."
        ),
    ] = None,
    grid: Annotated[str | None, typer.Option(help="Blocks of a .cu's launch: X[,Y[,Z]].")] = None,
    block: Annotated[str | None, typer.Option(help="Threads per block: X[,Y[,Z]].")] = None,
    shared: Annotated[int, typer.Option(help="Dynamic shared memory in bytes.")] = 0,
    arg: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, in the order of the parameters.")] = None,
    define: Annotated[list[str] | None, typer.Option("--define", "-D", help="NAME=VALUE macro.")] = None,
    include: Annotated[list[Path] | None, typer.Option("--include", "-I", help="Folder of headers.")] = None,
    std: Annotated[str | None, typer.Option(help="Version of C++: c++11, c++14, c++17 (default) or c++20.")] = None,
    use_fast_math: Annotated[
        bool, typer.Option("--use-fast-math", help="Compile with fast, less exact mathematics.")
    ] = False,
    global_: Annotated[
        list[str] | None, typer.Option("--global", help="NAME=VALUE of a __constant__ or __device__ variable.")
    ] = None,
    measured: Annotated[
        list[str] | None, typer.Option(help='Time on another GPU: "RTX 2080 Ti=1.23ms", or "GPU#LAUNCH=1.23ms".')
    ] = None,
    source_gpu: Annotated[str | None, typer.Option(help="GPU that a profile was made on, if it does not say.")] = None,
    source: Annotated[
        Path | None,
        typer.Option(help="Launch file of a profile's kernels, to count what the profile lacks."),
    ] = None,
    launch_skip: Annotated[int, typer.Option(help="Launches of a profile to leave out first.")] = 0,
    launch_count: Annotated[int | None, typer.Option(help="Launches of a profile to read at most.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="simulation, roofline, template, algorithm1, ceilings, convolution or convolution-latency."),
    ] = None,
    level: Annotated[float, typer.Option(help="Share of truths that the interval should hold.")] = 0.9,
    clock: Annotated[str | None, typer.Option(help="base, boost, or MHz.")] = None,
    timing: Annotated[str, typer.Option(help="series, single, cold or profiler.")] = "series",
    force: Annotated[bool, typer.Option("--force", help="Forecast launches that the GPU could not run.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write what would be printed to a file.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report: .html or .md.")] = None,
    roofline: Annotated[
        list[Path] | None, typer.Option(help="Draw rooflines of a profile: .png, .svg, .pdf, or .csv.")
    ] = None,
    bars: Annotated[
        list[Path] | None, typer.Option(help="Draw measured and forecast times: .png, .svg, .pdf, or .csv.")
    ] = None,
    max_: Annotated[
        str | None, typer.Option("--max", help="Exit 4 if the forecast of any launch is slower, such as 2ms.")
    ] = None,
    compare_to: Annotated[
        Path | None, typer.Option(help="Exit 4 if slower than this JSON beyond both intervals.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Forecast how long each launch takes on each GPU."""
    from kerncast.cli import verdict  # noqa: PLC0415  heavy imports wait until the command runs
    from kerncast.cli.output import emit_forecast, progress_on_stderr  # noqa: PLC0415
    from kerncast.cli.predict_pictures import Pictures  # noqa: PLC0415
    from kerncast.evidence import measured_times, resolve_gpus  # noqa: PLC0415
    from kerncast.forecast import Options, forecast_all, timing_named  # noqa: PLC0415
    from kerncast.read.selection import Selection  # noqa: PLC0415

    limit_seconds = verdict.parse_limit(max_)
    baseline = verdict.read_baseline(compare_to) if compare_to else None
    _check_report(report)
    pictures = Pictures(tuple(roofline or ()), tuple(bars or ()))
    pictures.check()
    _check_options_of_profiles(evidence, launch_skip or launch_count is not None, source_gpu, source)
    inline = InlineLaunch(
        kernel,
        grid,
        block,
        shared,
        tuple(arg or ()),
        tuple(define or ()),
        tuple(include or ()),
        globals=tuple(global_ or ()),
        standard=std,
        fast_math=use_fast_math,
    )
    reading = _reading(Selection(kernel, launch_skip, launch_count), source_gpu, source)
    options = Options(
        model,
        timing_named(timing),
        level,
        _clock(clock),
        force,
        measured=measured_times(measured or ()),
        reading=reading,
    )
    subject: Any = inline.build(evidence) if inline.applies_to(evidence) else evidence
    with progress_on_stderr(quiet=quiet) as progress:
        forecast = forecast_all(subject, resolve_gpus(gpu or ()), options, progress)
    emit_forecast(forecast, options.timing, as_json=json_, out=out)
    if report is not None and forecast.predictions:
        _write_report(report, forecast)
    if forecast.predictions:
        for reason in pictures.draw(forecast):
            typer.echo(f"kerncast: {reason}", err=True)
    if not forecast.predictions:
        for refused in forecast.refused:
            typer.echo(f"kerncast: {refused.kernel} (launch {refused.launch}) refused: {refused.reason}", err=True)
        return _REFUSED_STATUS
    if baseline is not None and compare_to is not None:
        for sentence in verdict.without_baseline(forecast.predictions, baseline, compare_to):
            typer.echo(f"kerncast: {sentence}", err=True)
    slower = verdict.slower_than(forecast.predictions, limit_seconds, baseline)
    for sentence in slower:
        typer.echo(f"kerncast: {sentence}", err=True)
    return _SLOWER_STATUS if slower else 0


def _clock(text: str | None) -> str | float | None:
    from kerncast.units import MEGA  # noqa: PLC0415

    if text is None or text in {"base", "boost"}:
        return text
    try:
        megahertz = float(text)
    except ValueError:
        megahertz = math.nan
    if not 1 <= megahertz <= _HIGHEST_MEGAHERTZ:
        raise InputError(f"--clock {text[:40]!r} is no clock", cure="Give base, boost or a number of MHz.")
    return megahertz * MEGA


def _reading(selection: "Selection", source_gpu: str | None, source: Path | None) -> "Reading":
    from kerncast.evidence import Reading  # noqa: PLC0415
    from kerncast.gpu import resolve_gpu  # noqa: PLC0415
    from kerncast.launch import load_launches  # noqa: PLC0415

    gpu, caveats = resolve_gpu(source_gpu) if source_gpu else (None, ())
    return Reading(selection, gpu, tuple(load_launches(source)) if source else (), caveats)


def _check_options_of_profiles(
    evidence: Path, selects_launches: object, source_gpu: str | None, source: Path | None
) -> None:
    is_profile = evidence.suffix.lower() not in {".toml", *SOURCES}
    if not is_profile and (selects_launches or source_gpu or source):
        raise InputError(
            f"--launch-skip, --launch-count, --source and --source-gpu need a profile, not {evidence}",
            cure="Leave them out; launches of a file are told apart by their numbers.",
        )


def _check_report(report: Path | None) -> None:
    if report is not None and report.suffix not in {".html", ".md"}:
        raise InputError(f"{report} is neither .html nor .md", cure="Name the report so.")


def _write_report(path: Path, forecast: Any) -> None:
    from kerncast.cli.output import write_text  # noqa: PLC0415
    from kerncast.report.document import build_document  # noqa: PLC0415

    document = build_document(forecast)
    if path.suffix == ".md":
        from kerncast.report.markdown import render_markdown  # noqa: PLC0415

        write_text(path, render_markdown(document))
    else:
        from kerncast.report.html import render_html  # noqa: PLC0415
        from kerncast.report.pictures import pictures_svg  # noqa: PLC0415

        write_text(path, render_html(document, pictures_svg(forecast)))
