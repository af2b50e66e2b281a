"""kerncast occupancy: how many blocks an SM holds, what limits them, and what would change that."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import AsJson, Cluster, Quiet, extent
from kerncast.cli.shared.output import emit_json, progress_on_stderr, stdout_console, write_text
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.caveats import Caveat
    from kerncast.occupancy.advice import OccupancyCase

#: Largest value that the driver's own calculator takes: a 32-bit integer.
_MOST = 2**31 - 1
#: With more cases than this, only the table is printed.
_MOST_DETAILED = 3
_STDOUT = Path("-")


def command(  # noqa: PLR0913  each parameter is one option
    launch: Annotated[
        Path | None, typer.Argument(help="Launch file; without one, give --block and --registers.")
    ] = None,
    gpu: Annotated[
        list[str] | None,
        typer.Option(help="GPU name, id, TOML file, compute capability such as 8.6, or all; repeatable."),
    ] = None,
    block: Annotated[int | None, typer.Option(help="Threads per block.", min=1, max=_MOST)] = None,
    registers: Annotated[int | None, typer.Option(help="Registers per thread.", min=0, max=_MOST)] = None,
    shared: Annotated[
        int | None, typer.Option(help="Dynamic shared memory per block in bytes.", min=0, max=_MOST)
    ] = None,
    static_shared: Annotated[
        int | None, typer.Option(help="Static shared memory per block in bytes.", min=0, max=_MOST)
    ] = None,
    barriers: Annotated[int | None, typer.Option(help="Named barriers per block.", min=0, max=_MOST)] = None,
    cluster: Cluster = None,
    carveout: Annotated[
        str | None,
        typer.Option(help="Shared memory that the program asks an SM to have: 50%, 64KiB, l1, equal or shared."),
    ] = None,
    curves: Annotated[
        Path | None,
        typer.Option(help="Draw what-if curves to a .png, .svg, .pdf or .csv; - prints them, with --json too."),
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Show resident blocks and warps per SM, the resource that limits them, and what would change that."""
    from kerncast.api.resident import Given, cases_of, cluster_blocks, read_launch_file, targets_of  # noqa: PLC0415

    _check_curves(curves)
    blocks = None if cluster is None else cluster_blocks(extent(cluster, "cluster"))
    given = Given(block, registers, shared, static_shared, barriers, blocks, carveout)
    targets, caveats = targets_of(gpu or ())
    with progress_on_stderr(quiet=quiet) as progress:
        launches = None if launch is None else read_launch_file(launch)
        cases = cases_of(launches, given, targets, progress)
        if curves is not None and curves != _STDOUT:
            if progress is not None:
                progress(f"drawing {curves}", 0, 0)
            caveats += _write_curves(curves, cases)
    if json_:
        _print_json(cases, caveats, with_curves=curves is not None)
    else:
        _print_text(cases, caveats, with_curves=curves == _STDOUT)
    return 0


def _print_json(cases: "Sequence[OccupancyCase]", caveats: "list[Caveat]", *, with_curves: bool) -> None:
    from kerncast.report.occupancy.tables import occupancies_object  # noqa: PLC0415

    emit_json(occupancies_object(cases, caveats, with_curves=with_curves))


def _print_text(cases: "Sequence[OccupancyCase]", caveats: "list[Caveat]", *, with_curves: bool) -> None:
    from kerncast.report.occupancy.tables import (  # noqa: PLC0415
        advice_notes,
        curve_table,
        occupancy_sentences,
        occupancy_table,
        resource_table,
    )
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415

    console = stdout_console()
    print_table(occupancy_table(cases), console)
    print_notes([text for _, text in occupancy_sentences(caveats, cases)], console)
    for case in cases if len(cases) <= _MOST_DETAILED else ():
        print_table(resource_table(case), console)
        print_notes(advice_notes(case), console)
    for case in cases if with_curves else ():
        for curve in case.curves:
            print_table(curve_table(case, curve), console)


def _write_curves(path: Path, cases: "Sequence[OccupancyCase]") -> "list[Caveat]":
    """Draw the curves or write their numbers; return what the picture leaves out."""
    from kerncast.caveats import Caveat, CaveatKind  # noqa: PLC0415

    if path.suffix.lower() == ".csv":
        from kerncast.report.occupancy.tables import curves_csv  # noqa: PLC0415

        write_text(path, curves_csv(cases))
        return []
    from kerncast.report.occupancy.curves_picture import MOST_ROWS, draw_occupancy, picture_rows  # noqa: PLC0415
    from kerncast.report.pictures.picture_files import save_picture  # noqa: PLC0415

    save_picture(draw_occupancy(cases), path)
    rows = len(picture_rows(cases))
    return [Caveat.of(CaveatKind.CURVES_CUT, str(path), shown=MOST_ROWS, rows=rows)] if rows > MOST_ROWS else []


def _check_curves(path: Path | None) -> None:
    from kerncast.report.pictures.picture_files import FORMATS  # noqa: PLC0415

    endings = (*FORMATS, ".csv")
    if path is not None and path != _STDOUT and path.suffix.lower() not in endings:
        raise InputError(f"{path} is not a name for curves", cure=f"End it in {', '.join(endings)}, or give -.")
