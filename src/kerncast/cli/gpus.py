"""kerncast gpus: list the GPUs, show one with its sources and check its file, or begin a file for a new one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncast.gpu import GPU
    from kerncast.gpu_incomplete import IncompleteGPU


def command(  # noqa: PLR0913  each parameter is one option
    name: Annotated[str | None, typer.Argument(help="Name, id or TOML file of one GPU.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    add: Annotated[str | None, typer.Option(help="Begin a TOML file for this GPU, every key explained.")] = None,
    like: Annotated[str | None, typer.Option(help="With --add: similar GPU, or architecture such as sm_89.")] = None,
    device: Annotated[int | None, typer.Option(help="With --add: ask the driver of the GPU with this number.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="With --add: the file; made from the name.")] = None,
) -> int:
    """List the known GPUs; or show every fact of one with its sources, and check its file; or begin a new file."""
    if add is not None:
        from kerncast.cli.gpus_add import add_gpu  # noqa: PLC0415

        if name is not None:
            raise InputError("--add and a GPU to show are two commands", cure="Run them one after the other.")
        return add_gpu(add, like, device, out, json_=json_)
    if like is not None or device is not None or out is not None:
        raise InputError("--like, --device and --out belong to --add", cure='Say --add "My GPU" as well.')
    if name is not None:
        return _show(name, json_=json_)
    return _list(json_=json_)


def _list(*, json_: bool) -> int:
    from kerncast.cli.output import emit_json, stdout_console  # noqa: PLC0415
    from kerncast.gpu import list_gpus  # noqa: PLC0415
    from kerncast.gpu_incomplete import list_incomplete  # noqa: PLC0415
    from kerncast.report.as_json import SCHEMA_VERSION, gpu_object, incomplete_object  # noqa: PLC0415
    from kerncast.report.gpu_catalogue import gpu_table  # noqa: PLC0415
    from kerncast.report.tables import print_table  # noqa: PLC0415

    gpus, incomplete = list_gpus(), list_incomplete()
    if json_:
        table = {
            "gpus": [gpu_object(gpu) for gpu in gpus],
            "incomplete": [incomplete_object(gpu) for gpu in incomplete],
        }
        emit_json({"schema_version": SCHEMA_VERSION, **table, "caveats": []})
    else:
        print_table(gpu_table(gpus, incomplete), stdout_console())
    return 0


def _show(name: str, *, json_: bool) -> int:
    from kerncast.cli.output import emit_json  # noqa: PLC0415
    from kerncast.gpu import resolve_gpu  # noqa: PLC0415
    from kerncast.gpu_doubts import doubts  # noqa: PLC0415
    from kerncast.gpu_incomplete import load_incomplete  # noqa: PLC0415
    from kerncast.gpu_names import find_incomplete  # noqa: PLC0415
    from kerncast.models.missing_facts import missing_facts  # noqa: PLC0415
    from kerncast.report import as_json  # noqa: PLC0415
    from kerncast.report.gpu_catalogue import doubt_notes, incomplete_notes, missing_notes  # noqa: PLC0415

    incomplete_id = find_incomplete(name)
    if incomplete_id is not None:
        incomplete = load_incomplete(incomplete_id)
        if json_:
            table = {"gpus": [], "incomplete": [as_json.incomplete_object(incomplete)], "caveats": []}
            emit_json({"schema_version": as_json.SCHEMA_VERSION, **table})
        else:
            _print_facts(incomplete, incomplete_notes(incomplete))
        return 0
    gpu, caveats = resolve_gpu(name)
    missing, doubted = missing_facts(gpu), doubts(gpu)
    if json_:
        emit_json(
            {
                "schema_version": as_json.SCHEMA_VERSION,
                "gpus": [as_json.gpu_object(gpu)],
                "incomplete": [],
                "caveats": list(caveats),
                "missing": [as_json.missing_object(each) for each in missing],
                "doubts": [as_json.doubt_object(each) for each in doubted],
            }
        )
    else:
        _print_facts(gpu, (*caveats, *doubt_notes(doubted), *missing_notes(missing)))
    return 0


def _print_facts(gpu: "GPU | IncompleteGPU", notes: "Sequence[str]") -> None:
    from kerncast.cli.output import stdout_console  # noqa: PLC0415
    from kerncast.report.gpu_catalogue import fact_table, sources_of  # noqa: PLC0415
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415

    console, a, own = stdout_console(), gpu.architecture, len(gpu.facts)
    sources = sources_of(gpu.all_facts)
    console.print(f"{gpu.name} ({gpu.id})", highlight=False, markup=False)
    print_table(fact_table(gpu.all_facts[:own], sources), console)
    console.print(f"{a.name} ({a.id}), compute capability {a.compute_capability}", highlight=False, markup=False)
    print_table(fact_table(gpu.all_facts[own:], sources), console)
    for number, source in enumerate(sources, 1):
        console.print(f"[{number}] {source}", highlight=False, markup=False)
    print_notes(notes, console)
