"""kerncast bound: the worst case of a kernel on parts of a GPU."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import (
    AsJson,
    Memory,
    Out,
    Quiet,
    budget_of,
    one_gpu,
)
from kerncast.cli.shared.output import check_place, console_of, emit_json, progress_on_stderr
from kerncast.errors import Refusal

if TYPE_CHECKING:
    from kerncast.caveats import Caveat
    from kerncast.studies.bounding import KernelBounds


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
    from kerncast.api.bounding import AskedBounds, Bounding, counts_of_tpcs  # noqa: PLC0415
    from kerncast.forecast import Means  # noqa: PLC0415
    from kerncast.report.pictures.picture_files import FORMATS  # noqa: PLC0415

    for path in picture or ():
        check_place(path, FORMATS)
    asked = AskedBounds(
        kind, method, anchors, times, kernel, form, blocks, blocks_per_tpc, plan, beside, beside_tpcs,
        tuple(train or ()), tuple(profile or ()), level, timing,
    )  # fmt: skip
    chosen, assumed = one_gpu(gpu, "Name the one that the times are of.")
    bounding = Bounding.of(evidence, (chosen, counts_of_tpcs(tpcs, chosen)), asked)
    with progress_on_stderr(quiet=quiet) as progress, _refusal_as_json(as_json=json_, out=out):
        if progress:
            progress("bounding", 0, 0)
        found = bounding.bounds(Means(budget_of(memory), progress, apart=True))
    _emit(found, assumed, as_json=json_, out=out)
    for path in picture or ():
        _draw(found, path)
    return 0


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
