"""kerncast bound: the worst case of a kernel on parts of a GPU."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import (
    RECORDING,
    SOURCES,
    AsJson,
    Memory,
    Out,
    Quiet,
    budget_of,
    counts_of_tpcs,
    one_gpu,
)
from kerncast.cli.shared.output import check_place, console_of, emit_json, progress_on_stderr
from kerncast.errors import InputError, Refusal

if TYPE_CHECKING:
    from kerncast.caveats import Caveat
    from kerncast.forecast import Means
    from kerncast.gpu import GPU
    from kerncast.launch import Launch
    from kerncast.measurements import PartitionTimes
    from kerncast.measurements.feature_table import FeatureTable
    from kerncast.prediction import Timing
    from kerncast.read.features.profiled import ProfiledMeans
    from kerncast.studies.bounding import BoundOptions, KernelBounds
    from kerncast.studies.bounds import Blocks
    from kerncast.studies.interference import Beside

_MEASUREMENT = ".jsonl"
_LEAST_LEVEL = 0.5
_MOST_STEPS = 20
_PROFILE = re.compile(r"([0-9]{1,6})=(.+)", re.DOTALL)


def command(  # noqa: PLR0913  each parameter is one option of the contract
    evidence: Annotated[
        Path, typer.Argument(help="Times on parts of the GPU: .csv (tpcs,seconds) or .jsonl; or a launch file.")
    ],
    gpu: Annotated[list[str] | None, typer.Option(help="One GPU: name, id or TOML file.")] = None,
    tpcs: Annotated[str | None, typer.Option(help="TPC counts to bound, such as 1-8,16. Default: all.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="margin, conformal, analytical or extreme.", show_default="conformal, or that of --method"),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Method (docs/bound.md); default: simulation for a launch, shapes for times.")
    ] = None,
    anchors: Annotated[
        str | None, typer.Option(help="Measured counts to use; published methods: the fewest and the most TPCs.")
    ] = None,
    times: Annotated[Path | None, typer.Option(help="Times of a launch on parts of the GPU.")] = None,
    kernel: Annotated[str | None, typer.Option(help="Kernel of a file that has several, or its number.")] = None,
    form: Annotated[
        str | None,
        typer.Option(help="Curve of published methods: suite, inverse, affine or staircase.", show_default="suite"),
    ] = None,
    blocks: Annotated[int | None, typer.Option(help="Blocks of the grid, if all take equally long.")] = None,
    blocks_per_tpc: Annotated[int, typer.Option(help="Blocks that one TPC runs at a time.")] = 1,
    plan: Annotated[
        int, typer.Option(help="Plan so many further measurements: which counts, and what they would give.")
    ] = 0,
    beside: Annotated[
        Path | None, typer.Option(help="Launch file of another kernel that runs on further TPCs at the same time.")
    ] = None,
    beside_tpcs: Annotated[
        int | None, typer.Option(help="TPCs of that kernel.", show_default="all that are left")
    ] = None,
    train: Annotated[
        list[Path] | None, typer.Option(help="Launches of other applications with features and times; repeatable.")
    ] = None,
    profile: Annotated[
        list[str] | None, typer.Option(help="Features on so many TPCs from a profiler's file: TPCS=FILE; repeatable.")
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(
            help="Probability that a run stays below the bound.", show_default="0.99; 0.9 unmeasured; 0.999 extreme"
        ),
    ] = None,
    timing: Annotated[
        str | None,
        typer.Option(help="How the times were taken: series, single, cold or profiler.", show_default="series"),
    ] = None,
    memory: Memory = None,
    json_: AsJson = False,
    out: Out = None,
    picture: Annotated[list[Path] | None, typer.Option(help="Draw the curves: .png, .svg or .pdf; repeatable.")] = None,
    quiet: Quiet = False,
) -> int:
    """Bound the time of a kernel on some of a GPU's TPCs."""
    from kerncast.forecast import Means  # noqa: PLC0415
    from kerncast.report.pictures.picture_files import FORMATS  # noqa: PLC0415
    from kerncast.studies.bounding import BoundOptions, bound_launch, bound_times  # noqa: PLC0415
    from kerncast.studies.bounds import kind_named  # noqa: PLC0415

    for path in picture or ():
        check_place(path, FORMATS)
    is_launch = _is_launch(evidence)
    _check_usage(is_launch=is_launch, times=times, of_tables=(form, profile, train if times is None else None))
    if is_launch and times is None and anchors is not None:
        raise InputError("--anchors belongs to measured times", cure="Leave it out, or add --times.")
    chosen, assumed = one_gpu(gpu, "Name the one that the times are of.")
    counts = counts_of_tpcs(tpcs, chosen)
    launch = _launch(evidence, kernel, times) if is_launch else None
    table = _times(times if is_launch else evidence, chosen, kernel, is_launch=is_launch)
    options = BoundOptions(
        method, _anchors(anchors), form, _blocks(blocks, blocks_per_tpc), _training(train), _level(level),
        None if kind is None else kind_named(kind), _timing(timing, times), _steps(plan),
        _beside(beside, beside_tpcs),
    )  # fmt: skip
    if table is not None and profile:
        table = _with_profiles(table, profile, options)
    with progress_on_stderr(quiet=quiet) as progress, _refusal_as_json(as_json=json_, out=out):
        if progress:
            progress("bounding", 0, 0)
        means = Means(budget_of(memory), progress, apart=True)
        if table is not None and launch is not None and options.training is not None:
            table = _with_features(table, launch, options, (chosen, counts), means)
        if launch is not None and options.training is None:
            found = bound_launch(launch, table, chosen, (counts, options), means)
        else:
            assert table is not None
            found = bound_times(table, chosen, counts, options)
    _emit(found, assumed, as_json=json_, out=out)
    for path in picture or ():
        _draw(found, path)
    return 0


def _is_launch(evidence: Path) -> bool:
    if evidence.suffix.lower() in SOURCES:
        raise InputError(
            f"{evidence} is a source without a launch", cure="Write a launch file: kerncast bound LAUNCH.toml."
        )
    return evidence.suffix.lower() in {".toml", RECORDING}


def _launch(path: Path, kernel: str | None, times: Path | None) -> "Launch":
    """Return the launch to bound: the file's only one, or the one that is named."""
    from kerncast.read.launches import load_launches, only_launch  # noqa: PLC0415

    is_of_times = times is not None and times.suffix.lower() == _MEASUREMENT and len(load_launches(path)) == 1
    return only_launch(path, None if is_of_times else kernel)


def _check_usage(*, is_launch: bool, times: Path | None, of_tables: Sequence[object]) -> None:
    if times is not None and not is_launch:
        raise InputError("--times belongs to a launch file", cure="Give one file of times, and no other.")
    if is_launch and any(of_tables):
        raise InputError(
            "--form and --profile belong to a file of times, and --train to times, too",
            cure="Leave them out, or add --times: the simulation is the base model of a launch.",
        )


def _with_features(
    table: "PartitionTimes", launch: "Launch", options: "BoundOptions", on: "tuple[GPU, tuple[int, ...]]",
    means: "Means",
) -> "PartitionTimes":  # fmt: skip
    """Return the times with the features of the launch on all counts, for a method that learns from other launches."""
    from kerncast.studies.bounding import check_method  # noqa: PLC0415
    from kerncast.studies.partitions import with_executed_features  # noqa: PLC0415  LLVM loads late

    check_method(options, is_launch=False)
    assert options.training is not None
    gpu, counts = on
    known = tuple(sorted({*counts, *table.counts}))
    return with_executed_features(table, launch, options.training, (gpu, known), means)


@contextmanager
def _refusal_as_json(*, as_json: bool, out: Path | None) -> Iterator[None]:
    """Print an object without bounds where a launch is refused."""
    try:
        yield
    except Refusal as refusal:
        if as_json:
            from kerncast.report.bounds.bounds_table import refused_object  # noqa: PLC0415

            emit_json(refused_object(str(refusal)), out)
        raise


def _times(path: Path | None, gpu: "GPU", kernel: str | None, *, is_launch: bool) -> "PartitionTimes | None":
    """Return the measured times; raises InputError for more TPCs than there are."""
    from kerncast.read.partition_files import read_measured_partitions, read_partition_times  # noqa: PLC0415
    from kerncast.studies.partitions import most_tpcs  # noqa: PLC0415

    is_measurement = path is not None and path.suffix.lower() == _MEASUREMENT
    if kernel is not None and not is_measurement and not is_launch:
        raise InputError("--kernel belongs to launches, or to a measurement file (.jsonl)", cure="Leave it out.")
    if path is None:
        return None
    times = read_measured_partitions(path, gpu, kernel) if is_measurement else read_partition_times(path)
    most = most_tpcs(gpu)
    if times.counts[-1] > most:
        raise InputError(
            f"it has times on {times.counts[-1]} TPCs; {gpu.name} has {most}",
            where=str(path),
            cure="Name the GPU that they were measured on.",
        )
    return times


def _with_profiles(times: "PartitionTimes", profiles: Sequence[str], options: "BoundOptions") -> "PartitionTimes":
    from kerncast.studies.bounding import with_profiled_features  # noqa: PLC0415

    found = [_profiled(text) for text in profiles]
    if options.training is None:
        raise InputError("--profile needs launches to learn from", cure="Add --train.")
    return with_profiled_features(times, found, options.training)


def _profiled(text: str) -> "tuple[int, ProfiledMeans]":
    from kerncast.read.features.profiled import read_profiled_means  # noqa: PLC0415

    match = _PROFILE.fullmatch(text)
    if match is None:
        raise InputError(f"--profile {text[:60]!r} is not a TPC count with a file", cure="Write 8=profile.csv.")
    return int(match[1]), read_profiled_means(Path(match[2]))


def _training(paths: list[Path] | None) -> "FeatureTable | None":
    if not paths:
        return None
    from kerncast.read.features.table_files import read_feature_table  # noqa: PLC0415

    return read_feature_table(paths).table


def _anchors(text: str | None) -> tuple[int, ...] | None:
    from kerncast.measurements import MOST_TPCS, counts_up_to  # noqa: PLC0415

    return None if text is None else counts_up_to(text, MOST_TPCS, "A GPU", "--anchors")


def _blocks(count: int | None, per_tpc: int) -> "Blocks | None":
    from kerncast.studies.bounds import Blocks  # noqa: PLC0415

    if count is None:
        if per_tpc != 1:
            raise InputError("--blocks-per-tpc needs --blocks", cure="Add --blocks N.")
        return None
    return Blocks(count, per_tpc)


def _steps(plan: int) -> int:
    if not 0 <= plan <= _MOST_STEPS:
        raise InputError(f"--plan is {plan}", cure=f"Give a number of measurements from 1 to {_MOST_STEPS}.")
    return plan


def _beside(path: Path | None, tpcs: int | None) -> "Beside | None":
    if path is None:
        if tpcs is not None:
            raise InputError("--beside-tpcs needs --beside", cure="Add --beside OTHER.toml.")
        return None
    from kerncast.read.launches import only_launch  # noqa: PLC0415
    from kerncast.studies.interference import Beside  # noqa: PLC0415  LLVM loads late

    return Beside(only_launch(path), tpcs)


def _level(level: float | None) -> float | None:
    if level is not None and not _LEAST_LEVEL < level < 1:
        raise InputError(f"level is {level}", cure="Give a probability above 0.5 and below 1, such as 0.99.")
    return level


def _timing(timing: str | None, times: Path | None) -> "Timing":
    """Return how the times were taken: a measurement of parts holds single launches."""
    from kerncast.forecast import timing_named  # noqa: PLC0415

    if timing is None:
        timing = "single" if times is not None and times.suffix.lower() == _MEASUREMENT else "series"
    return timing_named(timing)


def _emit(found: "KernelBounds", assumed: "Sequence[Caveat]", *, as_json: bool, out: Path | None) -> None:
    """Print the bounds, or write them to a file."""
    from kerncast.report.bounds.bounds_table import bound_object, print_bounds  # noqa: PLC0415

    found = replace(found, caveats=(*assumed, *found.caveats))
    if as_json:
        emit_json(bound_object(found), out)
        return
    with console_of(out) as console:
        print_bounds(found, console)


def _draw(found: "KernelBounds", path: Path) -> None:
    from kerncast.report.bounds.bound_picture import draw_bounds  # noqa: PLC0415
    from kerncast.report.pictures.picture_files import save_picture  # noqa: PLC0415

    save_picture(draw_bounds(found), path)
