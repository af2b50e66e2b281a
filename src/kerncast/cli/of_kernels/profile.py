"""kerncast profile: what a profiler would show of each launch, without a GPU."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared import options as option
from kerncast.cli.shared.output import console_of, emit_json, emit_text, progress_on_stderr, tell
from kerncast.cli.shared.reports import ReportPlaces
from kerncast.cli.shared.scripts import is_script
from kerncast.errors import InputError, Refusal, UnsupportedError
from kerncast.units import parse_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from kerncast.caveats import Caveat
    from kerncast.execute import Budget
    from kerncast.forecast import Job, Means, Progress
    from kerncast.gpu import GPU
    from kerncast.launch import Launch
    from kerncast.prediction import Refused
    from kerncast.profiles import KernelProfile, ProfiledLaunch
    from kerncast.read.ncu.rows import NcuRow
    from kerncast.studies.sensitivity.lifting import Advice

_REFUSED_STATUS = 3
#: More is a slip of the keyboard.
_MOST_BUDGET_SECONDS = 86_400.0
_NUMBER = re.compile(r"\s*[0-9]*\.?[0-9]+\s*")


@dataclass(frozen=True, slots=True)
class Form:
    """The form of the output, and its destination."""

    as_json: bool = False
    as_csv: bool = False
    lines: bool = False
    advice: bool = False
    out: Path | None = None
    features: Path | None = None

    def __post_init__(self) -> None:
        if self.as_json and self.as_csv:
            raise InputError("--json and --csv are both given", cure="Give one of them.")
        if self.as_csv and self.lines:
            raise InputError("the raw page of --csv has no place for --lines", cure="Use --json --lines.")
        if self.as_csv and self.advice:
            raise InputError("the raw page of --csv has no place for --advice", cure="Use --json --advice.")
        if self.out is not None and self.out == self.features:
            raise InputError(f"--out and --features both name {self.out}", cure="Give each its own file.")


def command(  # noqa: PLR0913  each parameter is one option of the contract
    evidence: Annotated[Path, typer.Argument(help="Launch file (.toml), or a source (.cu).", metavar="LAUNCH")],
    gpu: Annotated[
        list[str] | None, typer.Option(help="One GPU: name, id or TOML file; else only counts that no GPU changes.")
    ] = None,
    kernel: Annotated[str | None, typer.Option(help="Kernel of a .cu, such as saxpy or 'reduce<float, 256>'.")] = None,
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
    lines: Annotated[bool, typer.Option("--lines", help="Annotate the source, line by line.")] = False,
    advice: Annotated[
        bool, typer.Option("--advice", help="Tell what lifting each limit of the kernel would gain; needs --gpu.")
    ] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Run the whole grid, whatever the time.")] = False,
    budget: Annotated[
        str | None, typer.Option(help="Time for the sample of blocks, such as 2s or 500ms.", show_default="2s")
    ] = None,
    memory: option.Memory = None,
    late: Annotated[
        bool,
        typer.Option("--late", help="Do cp.async when it is waited for; a read before is a fault."),
    ] = False,
    json_: option.AsJson = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print Nsight Compute's raw page.")] = False,
    compare_to: Annotated[
        Path | None, typer.Option(help="Version before, a profile of Nsight Compute or a launch file: what changed.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="With --compare-to, write a page: .html or .md.")] = None,
    out: option.Out = None,
    features: Annotated[Path | None, typer.Option(help="Write a row of features per launch: .csv or .parquet.")] = None,
    quiet: option.Quiet = False,
) -> int:
    """Count what each launch does, as Nsight Compute would: instructions, memory traffic, conflicts, hot spots."""
    from kerncast.forecast import Means  # noqa: PLC0415

    form = Form(json_, csv, lines, advice, out, features)
    places = ReportPlaces(report)
    _check_comparison(evidence, compare_to, places, form)
    inline = option.InlineLaunch(
        kernel, grid, block, shared, arg, define, include, global_, std, use_fast_math, cluster, cooperative
    )
    limits = _budget(budget, exact=exact)
    limits = limits if memory is None else replace(limits, memory_bytes=option.memory_of(memory))
    if features is not None:
        from kerncast.report.profile.export import check_feature_path  # noqa: PLC0415  heavy imports wait

        check_feature_path(features)
    chosen, assumed = _gpu(gpu)
    if advice and chosen is None:
        raise InputError("--advice needs a GPU", cure="Name one with --gpu.")
    if compare_to is not None:
        asked = _Asked((chosen, assumed), limits, late=late, quiet=quiet)
        return _compare(
            (compare_to, inline.build(evidence) if inline.applies_to(evidence) else evidence), asked, form, places
        )
    is_source = inline.applies_to(evidence)
    with TemporaryDirectory(prefix="kerncast-") as folder, progress_on_stderr(quiet=quiet) as progress:
        if is_script(evidence):
            gpus = [] if chosen is None else [(chosen, assumed)]
            from kerncast.scripts.script_forecasts import launches_of_script  # noqa: PLC0415  few profiles need it

            launches = launches_of_script(evidence, gpus, Path(folder), progress)
        else:
            launches = [inline.build(evidence)] if is_source else _launches(evidence)
        jobs = [_counting(launch, chosen, late=late) for launch in launches]
        found, refused = _profile_all(jobs, chosen, Means(limits, progress, apart=True))
        lifted = _advice(launches, chosen, found, (option.budget_of(memory), progress)) if advice and chosen else ()
    _emit(tuple(replace(each, assumed=assumed) for each in found), refused, form, lifted)
    for each in refused:
        tell(f"{each.kernel} (launch {each.launch}) refused: {each.reason}")
    return 0 if found else _REFUSED_STATUS


def _check_comparison(evidence: Path, compare_to: Path | None, places: ReportPlaces, form: Form) -> None:
    """Raise InputError for options that do not go together."""
    places.check()
    if compare_to is None:
        if places.is_asked:
            raise InputError("--report of a profile needs a version before", cure="Add --compare-to, or use predict.")
        return
    given = [name for name, value in (("--csv", form.as_csv), ("--lines", form.lines), ("--advice", form.advice),
                                      ("--features", form.features)) if value]  # fmt: skip
    if given:
        raise InputError(f"--compare-to makes no use of {', '.join(given)}", cure="Leave it out.")
    if is_script(evidence) or is_script(compare_to):
        raise InputError("launches of scripts are not compared", cure="Write both profiles: kerncast profile --csv.")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What launches are counted with."""

    gpu: "tuple[GPU | None, tuple[Caveat, ...]]"
    limits: "Budget"
    late: bool
    quiet: bool


def _compare(versions: "tuple[Path | Launch, ...]", asked: _Asked, form: Form, places: ReportPlaces) -> int:
    """Compare the version before with the one after: what Nsight Compute wrote, or what is counted now."""
    from kerncast.cli.application import asked_command  # noqa: PLC0415
    from kerncast.report.comparison import profile_words  # noqa: PLC0415
    from kerncast.report.page.pages import Origin  # noqa: PLC0415
    from kerncast.studies.comparing.profile_changes import pair_profiles  # noqa: PLC0415

    before, after = (_rows(each, asked) for each in versions)
    pairs = pair_profiles(before, after)
    if len(pairs) < max(len(before), len(after)):
        tell(f"{len(pairs)} launches are in both profiles, of {len(before)} before and {len(after)} after")
    if form.as_json:
        emit_json(profile_words.changes_object(pairs), form.out)
    else:
        with console_of(form.out) as console:
            profile_words.print_changes(pairs, console)
    if places.is_asked:
        names = tuple(str(each) if isinstance(each, Path) else each.label for each in versions)
        places.write(profile_words.change_document(pairs, (names[0], names[1]), Origin.of(asked_command())))
    return 0


def _rows(version: "Path | Launch", asked: _Asked) -> "tuple[NcuRow, ...]":
    """Return the metrics of a profile, or those of launches that are counted now; raises InputError and Refusal."""
    from kerncast.forecast import Means  # noqa: PLC0415
    from kerncast.read.ncu.pages import read_ncu_csv  # noqa: PLC0415
    from kerncast.read.profile_files import lines_of, read_ncu_rows  # noqa: PLC0415
    from kerncast.report.profile.export import raw_page  # noqa: PLC0415

    if isinstance(version, Path) and version.suffix != ".toml":
        return read_ncu_rows(version)
    launches = _launches(version) if isinstance(version, Path) else [version]
    chosen, assumed = asked.gpu
    with progress_on_stderr(quiet=asked.quiet) as progress:
        jobs = [_counting(launch, chosen, late=asked.late) for launch in launches]
        found, refused = _profile_all(jobs, chosen, Means(asked.limits, progress, apart=True))
    if refused:
        each = refused[0]
        raise UnsupportedError(f"{each.kernel} (launch {each.launch}): {each.reason}")
    return read_ncu_csv(lines_of(raw_page([replace(each, assumed=assumed) for each in found])))


def _budget(text: str | None, *, exact: bool) -> "Budget":
    from kerncast.execute import Budget, WholeGrid  # noqa: PLC0415

    if exact and text is not None:
        raise InputError("--exact and --budget are both given", cure="Give one of them.")
    if text is None:
        return WholeGrid() if exact else Budget()
    try:
        seconds = parse_seconds(f"{text}s" if _NUMBER.fullmatch(text) else text)
    except ValueError:
        seconds = math.inf
    if seconds > _MOST_BUDGET_SECONDS:
        raise InputError(f"--budget {text[:40]!r} is not a time up to a day", cure="Give seconds, such as 2s or 500ms.")
    return Budget.for_sample(seconds)


def _gpu(names: list[str] | None) -> "tuple[GPU | None, tuple[Caveat, ...]]":
    """Return the GPU, and what had to be assumed about its name."""
    if not names:
        return None, ()
    from kerncast.forecast import resolve_gpus  # noqa: PLC0415

    resolved = resolve_gpus(names)
    if len(resolved) > 1:
        text = " and ".join(names)
        raise InputError(f"--gpu {text} names {len(resolved)} GPUs", cure="Name one: a profile is that of one GPU.")
    return resolved[0]


def _launches(evidence: Path) -> "Sequence[Launch]":
    from kerncast.forecast import read_evidence  # noqa: PLC0415
    from kerncast.launch import Launch  # noqa: PLC0415

    launches = [each for each in read_evidence(evidence) if isinstance(each, Launch)]
    if not launches:
        raise InputError(
            "these kernels have only counts declared by hand",
            where=str(evidence),
            cure="Give a launch file with a source.",
        )
    return launches


def _profile_all(
    jobs: "Sequence[Job[KernelProfile | Refusal]]", gpu: "GPU | None", means: "Means"
) -> "tuple[list[ProfiledLaunch], list[Refused]]":
    from kerncast.forecast import each_in_limits  # noqa: PLC0415
    from kerncast.prediction import Refused  # noqa: PLC0415
    from kerncast.profiles import KernelProfile, ProfiledLaunch  # noqa: PLC0415
    from kerncast.report.profile.source import read_sources  # noqa: PLC0415

    found, refused = [], []
    for job, profile in zip(jobs, each_in_limits(KernelProfile, jobs, means), strict=True):
        launch = job.launch
        if isinstance(profile, Refusal):
            name = launch.kernel or launch.source.stem
            refused.append(Refused(name, launch.index, gpu.name if gpu else None, str(profile)))
        else:
            found.append(ProfiledLaunch(profile, gpu, (), read_sources(profile, launch)))
    return found, refused


def _counting(launch: "Launch", gpu: "GPU | None", *, late: bool) -> "Job[KernelProfile | Refusal]":
    from kerncast.forecast import Job, profile_launch  # noqa: PLC0415

    def work(means: "Means") -> "KernelProfile":
        if means.progress:
            means.progress(f"profiling {launch.label}", 0, 0)
        return profile_launch(launch, gpu, means.budget, means.progress, late=late)

    return Job(launch, work)


def _advice(
    launches: "Sequence[Launch]",
    gpu: "GPU",
    found: "Sequence[ProfiledLaunch]",
    means: "tuple[Budget | None, Progress | None]",
) -> "tuple[Advice, ...]":
    """Return the advice on each profiled launch; one that cannot be simulated is told on stderr."""
    from kerncast.cli.shared.reports import advice_told  # noqa: PLC0415
    from kerncast.forecast import Means  # noqa: PLC0415
    from kerncast.models import Question  # noqa: PLC0415

    profiled = {each.profile.index for each in found}
    asked = [each for each in launches if each.index in profiled]
    return advice_told(asked, gpu, Question(), Means(*means, apart=True))


def _emit(
    found: "Sequence[ProfiledLaunch]", refused: "Sequence[Refused]", form: Form, advice: "Sequence[Advice]"
) -> None:
    """Print the profiles, or write them to a file; then write the feature table."""
    from kerncast.report.profile.export import profile_object, raw_page, write_features  # noqa: PLC0415

    if form.as_json:
        from kerncast.report.what_if.advice import with_advice  # noqa: PLC0415

        emit_json(with_advice(profile_object(found, refused, lines=form.lines), advice), form.out)
    elif form.as_csv:
        emit_text(raw_page(found), form.out)
    elif found:
        from kerncast.report.profile.details import print_profiles  # noqa: PLC0415

        with console_of(form.out) as console:
            print_profiles(found, console, lines=form.lines)
            _print_advice(advice, console)
    if form.features is not None and found:
        write_features(found, form.features)


def _print_advice(advice: "Sequence[Advice]", console: "Console") -> None:
    from kerncast.report.what_if.advice import print_advice  # noqa: PLC0415

    for each in advice:
        print_advice(each, console)
