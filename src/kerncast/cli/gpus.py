"""kerncast gpus: list the GPUs, or show one with its sources."""

from typing import Annotated

import typer


def command(
    name: Annotated[str | None, typer.Argument(help="Name, id or TOML file of one GPU.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """List the known GPUs, or every fact of one with its sources."""
    from kerncast.cli.output import emit_json, stdout_console  # noqa: PLC0415
    from kerncast.gpu import list_gpus, resolve_gpu  # noqa: PLC0415
    from kerncast.report.as_json import SCHEMA_VERSION, gpu_object  # noqa: PLC0415
    from kerncast.report.catalogue import fact_table, gpu_table  # noqa: PLC0415
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415

    gpus, caveats = (list_gpus(), ()) if name is None else ((found := resolve_gpu(name))[:1], found[1])
    if json_:
        emit_json(
            {"schema_version": SCHEMA_VERSION, "gpus": [gpu_object(gpu) for gpu in gpus], "caveats": list(caveats)}
        )
        return 0
    console = stdout_console()
    if name is None:
        print_table(gpu_table(gpus), console)
        return 0
    console.print(f"{gpus[0].name} ({gpus[0].id})", highlight=False, markup=False)
    print_table(fact_table(gpus[0]), console)
    print_notes(caveats, console)
    return 0
