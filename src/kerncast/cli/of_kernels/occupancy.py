"""kerncast occupancy: how many blocks an SM holds, what limits them, and what would change that."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import SOURCES, AsJson, Cluster, Quiet, extent
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
#: A number alone, such as 980, is a name of GPUs.
_CAPABILITY = re.compile(r"sm_([1-9][0-9]{1,2})[af]?|([1-9][0-9]?)\.([0-9])", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Given:
    """Values of a block on the command line; None: those of the launch or of the compiler."""

    block: int | None
    registers: int | None
    shared: int | None
    static_shared: int | None
    barriers: int | None
    cluster: str | None = None

    @property
    def cluster_blocks(self) -> int | None:
        """Blocks of a cluster; raises InputError for one that no GPU runs."""
        from kerncast.launch import check_cluster  # noqa: PLC0415

        if self.cluster is None:
            return None
        cluster = extent(self.cluster, "cluster")
        check_cluster(cluster, cluster, "--cluster")
        return math.prod(cluster)


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
    from kerncast.gpu import parse_carveout  # noqa: PLC0415

    _check_curves(curves)
    wish = None if carveout is None else parse_carveout(carveout)
    given = Given(block, registers, shared, static_shared, barriers, cluster)
    targets, caveats = _targets(gpu or ())
    with progress_on_stderr(quiet=quiet) as progress:
        cases = [replace(case, wish=wish) for case in _cases(launch, given, targets, progress)]
        for case in cases:
            _check_static(case)
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
    from kerncast.report.as_json import SCHEMA_VERSION  # noqa: PLC0415
    from kerncast.report.occupancy.tables import occupancy_object, occupancy_sentences  # noqa: PLC0415
    from kerncast.report.words import sentence_fields  # noqa: PLC0415

    objects = [occupancy_object(case, with_curves=with_curves) for case in cases]
    emit_json(
        {
            "schema_version": SCHEMA_VERSION,
            "occupancies": objects,
            **sentence_fields(occupancy_sentences(caveats, cases)),
        }
    )


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


def _check_static(case: "OccupancyCase") -> None:
    most, found = case.architecture.shared_bytes_per_block, case.request.static_shared_bytes
    if found > most:
        raise InputError(
            f"{found} bytes of static shared memory are over the {most} that a kernel can declare",
            where=case.name,
            cure="Make it dynamic: --shared.",
        )


def _targets(named: Sequence[str]) -> "tuple[list[OccupancyCase], list[Caveat]]":
    """Return a case for each GPU or compute capability, with any block for now, and what was assumed."""
    from kerncast.forecast import resolve_gpus  # noqa: PLC0415
    from kerncast.gpu import load_architecture  # noqa: PLC0415
    from kerncast.occupancy import BlockRequest  # noqa: PLC0415
    from kerncast.occupancy.advice import OccupancyCase  # noqa: PLC0415

    any_block = BlockRequest(1, 0)
    capabilities = [match for name in named if (match := _CAPABILITY.fullmatch(name))]
    others = [name for name in named if not _CAPABILITY.fullmatch(name)]
    resolved = resolve_gpus(others) if others or not capabilities else []
    cases = [OccupancyCase(any_block, gpu.architecture, gpu) for gpu, _ in resolved]
    ids = dict.fromkeys(f"sm_{match[1] or match[2] + match[3]}" for match in capabilities)
    cases += [OccupancyCase(any_block, load_architecture(name)) for name in ids]
    return cases, [caveat for _, assumed in resolved for caveat in assumed]


def _cases(
    path: Path | None, given: Given, targets: "list[OccupancyCase]", progress: Callable[[str, int, int], None] | None
) -> "list[OccupancyCase]":
    from kerncast.occupancy import BlockRequest  # noqa: PLC0415

    if path is not None:
        return _from_launches(path, given, targets, progress)
    if given.block is None or given.registers is None:
        raise InputError("neither a launch file nor --block and --registers are given", cure="Give one of them.")
    barriers = 1 if given.barriers is None else given.barriers
    request = BlockRequest(given.block, given.registers, given.static_shared or 0, given.shared or 0, barriers)
    return [replace(target, request=request, cluster_blocks=given.cluster_blocks or 1) for target in targets]


def _from_launches(
    path: Path, given: Given, targets: "list[OccupancyCase]", progress: Callable[[str, int, int], None] | None
) -> "list[OccupancyCase]":
    from kerncast.forecast import compile_launch  # noqa: PLC0415
    from kerncast.occupancy import block_request  # noqa: PLC0415
    from kerncast.read.launches import load_launches  # noqa: PLC0415

    if path.suffix.lower() in SOURCES:
        raise InputError(
            f"{path} is a source without a launch",
            cure=f"Write one: kerncast init {path} -o LAUNCH.toml; or give only --block and --registers.",
        )
    cases = []
    launches = load_launches(path)
    for number, launch in enumerate(launches):
        if progress is not None:
            progress(f"compiling {launch.label}", number, len(launches))
        architectures = list(dict.fromkeys(target.architecture.code_name for target in targets))
        compiled = compile_launch(launch, architectures)
        for target in targets:
            kernel = compiled.kernel_for(target.architecture.code_name)
            request = block_request(launch.threads_per_block, kernel.resources, launch.shared_bytes)
            chosen = {
                "threads": given.block,
                "registers_per_thread": given.registers,
                "dynamic_shared_bytes": given.shared,
                "static_shared_bytes": given.static_shared,
                "barriers": given.barriers,
            }
            request = replace(request, **{name: value for name, value in chosen.items() if value is not None})
            most = kernel.resources.max_threads_per_block
            named = replace(target, kernel=kernel.kernel, launch=launch.index, caveats=kernel.caveats)
            together = given.cluster_blocks or math.prod(launch.cluster or kernel.resources.cluster_blocks or (1,))
            cases.append(replace(named, request=request, most_threads=most, cluster_blocks=together))
    return cases
