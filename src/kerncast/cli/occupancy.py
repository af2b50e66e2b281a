"""kerncast occupancy: how many blocks an SM holds, and what limits them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.gpu import GPU
    from kerncast.occupancy import BlockRequest


def command(  # noqa: PLR0913  each parameter is one option
    launch: Annotated[
        Path | None, typer.Argument(help="Launch file; without one, give --block and --registers.")
    ] = None,
    gpu: Annotated[list[str] | None, typer.Option(help="GPU name, id, TOML file, or all; repeatable.")] = None,
    block: Annotated[int | None, typer.Option(help="Threads per block.")] = None,
    registers: Annotated[int | None, typer.Option(help="Registers per thread.")] = None,
    shared: Annotated[int, typer.Option(help="Shared memory per block in bytes.")] = 0,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Show resident blocks and warps per SM and the resource that limits them."""
    from kerncast.cli.output import emit_json, stdout_console  # noqa: PLC0415
    from kerncast.evidence import resolve_gpus  # noqa: PLC0415
    from kerncast.occupancy import BlockRequest, occupancy  # noqa: PLC0415
    from kerncast.report.as_json import SCHEMA_VERSION, occupancy_object  # noqa: PLC0415

    resolved = resolve_gpus(gpu or ())
    chosen = [one for one, _ in resolved]
    caveats = [caveat for _, assumed in resolved for caveat in assumed]
    if launch is not None:
        rows = _from_launches(launch, chosen)
    elif block is None or registers is None:
        raise InputError("neither a launch file nor --block and --registers are given", cure="Give one of them.")
    else:
        rows = [("", one, BlockRequest(block, registers, 0, shared)) for one in chosen]
    found = [(label, one, request, occupancy(request, one.architecture)) for label, one, request in rows]
    if json_:
        objects = [{"kernel": label or None, **occupancy_object(one, r, o)} for label, one, r, o in found]
        emit_json({"schema_version": SCHEMA_VERSION, "occupancies": objects, "caveats": caveats})
        return 0
    from kerncast.report.catalogue import occupancy_table  # noqa: PLC0415
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415

    console = stdout_console()
    print_table(occupancy_table(found), console)
    print_notes(caveats, console)
    return 0


def _from_launches(path: Path, gpus: "list[GPU]") -> "list[tuple[str, GPU, BlockRequest]]":
    from kerncast.characterised import compile_launch  # noqa: PLC0415
    from kerncast.launch import load_launches  # noqa: PLC0415
    from kerncast.occupancy import block_request  # noqa: PLC0415

    rows = []
    for launch in load_launches(path):
        architectures = list(dict.fromkeys(gpu.architecture.code_name for gpu in gpus))
        compiled = compile_launch(launch, architectures)
        for gpu in gpus:
            kernel = compiled.kernel_for(gpu.architecture.code_name)
            request = block_request(launch.threads_per_block, kernel.resources, launch.shared_bytes)
            rows.append((f"{kernel.kernel} (launch {launch.index})", gpu, request))
    return rows
