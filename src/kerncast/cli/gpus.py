"""kerncast gpus: list the GPUs, or show one with its sources."""

from typing import Annotated

import typer


def command(
    name: Annotated[str | None, typer.Argument(help="Name, id or TOML file of one GPU.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """List the known GPUs, or every fact of one with its sources."""
    from kerncast.cli.output import emit_json, stdout_console  # noqa: PLC0415
    from kerncast.gpu import list_gpus  # noqa: PLC0415
    from kerncast.report.as_json import SCHEMA_VERSION, gpu_object  # noqa: PLC0415
    from kerncast.report.catalogue import gpu_table  # noqa: PLC0415
    from kerncast.report.tables import print_table  # noqa: PLC0415

    if name is not None:
        _show(name, json_=json_)
    elif json_:
        emit_json({"schema_version": SCHEMA_VERSION, "gpus": [gpu_object(gpu) for gpu in list_gpus()], "caveats": []})
    else:
        print_table(gpu_table(list_gpus()), stdout_console())
    return 0


def _show(name: str, *, json_: bool) -> None:
    from kerncast.cli.output import emit_json, stdout_console  # noqa: PLC0415
    from kerncast.gpu import resolve_gpu  # noqa: PLC0415
    from kerncast.models.missing_facts import missing_facts  # noqa: PLC0415
    from kerncast.report.as_json import SCHEMA_VERSION, gpu_object, missing_object  # noqa: PLC0415
    from kerncast.report.catalogue import fact_table, missing_notes  # noqa: PLC0415
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415

    gpu, caveats = resolve_gpu(name)
    missing = missing_facts(gpu)
    if json_:
        emit_json(
            {
                "schema_version": SCHEMA_VERSION,
                "gpus": [gpu_object(gpu)],
                "caveats": list(caveats),
                "missing": [missing_object(each) for each in missing],
            }
        )
        return
    console = stdout_console()
    console.print(f"{gpu.name} ({gpu.id})", highlight=False, markup=False)
    print_table(fact_table(gpu), console)
    print_notes((*caveats, *missing_notes(missing)), console)
