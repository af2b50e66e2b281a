"""kerncast gpus: list the GPUs, show one with its sources and check its file, or begin a file for a new one."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import AsJson
from kerncast.cli.shared.output import emit_json, emit_text, stdout_console, tell, write_text
from kerncast.errors import GPUError, InputError

if TYPE_CHECKING:
    from kerncast.gpu import GPU, Architecture, Fact, IncompleteGPU
    from kerncast.report.files.gpus import Basis


_LONGEST_NAME = 100


def add_gpu(name: str, like: str | None, device: int | None, out: Path | None, *, json_: bool) -> int:
    """Write a file that a user completes; returns the exit status."""
    from kerncast.report.as_json import SCHEMA_VERSION  # noqa: PLC0415
    from kerncast.report.files.gpus import skeleton, to_give  # noqa: PLC0415

    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise InputError(f"--add {name[:40]!a} is not a name", cure='Name the GPU, such as --add "RTX 5060 Ti".')
    path = out or Path(f"{'-'.join(re.findall('[a-z0-9]+', name.lower())) or 'gpu'}.toml")
    if path.suffix != ".toml":
        raise InputError(f"{str(path)[-100:]!r} is not a .toml file", cure="End its name in .toml.")
    basis = _basis(name, like, device)
    _write_new(path, skeleton(basis, path.name))
    given, lacking = [fact.key for fact in basis.given if fact.value is not None], to_give(basis)
    if json_:
        table = {"file": str(path), "from": basis.architecture.id, "given": given, "to_give": list(lacking)}
        emit_json({"schema_version": SCHEMA_VERSION, **table})
        return 0
    rest = f"Every model needs {', '.join(lacking)} as well. " if lacking else ""
    checked = f"{rest}kerncast gpus {_as_argument(path)} checks it."
    emit_text(f"Written: {path}, {len(given)} values given. {checked}\n", None)
    return 0


def _basis(name: str, like: str | None, device: int | None) -> "Basis":
    """Say what the file begins with: values of the driver or the catalogue, or those of a similar GPU as examples."""
    from kerncast.report.files.gpus import Basis  # noqa: PLC0415

    if like is None and device is None:
        known = _catalogued(name)
        return Basis(known.name, _shipped(known), known.facts)
    architecture, example = (None, None) if like is None else _similar(like)
    if device is not None:
        architecture, facts = _asked_of_driver(device)
        return Basis(name, architecture, facts, example)
    assert architecture is not None
    return Basis(name, architecture, (), example)


def _asked_of_driver(device: int) -> "tuple[Architecture, tuple[Fact, ...]]":
    from kerncast.bench import cuda  # noqa: PLC0415
    from kerncast.bench.ceilings.ceiling import nearest_architecture  # noqa: PLC0415
    from kerncast.bench.ceilings.gpu_file import driver_facts  # noqa: PLC0415

    opened = cuda.open_device(device)
    try:
        machine = opened.machine
    finally:
        opened.close()
    nearest, capability = nearest_architecture(machine.compute_capability), machine.compute_capability
    if nearest.compute_capability != capability:
        tell(f"no file describes compute capability {capability}; {nearest.id} is the nearest")
    return nearest, driver_facts(machine)


def _similar(like: str) -> "tuple[Architecture, GPU | IncompleteGPU | None]":
    from kerncast.gpu import load_architecture  # noqa: PLC0415

    if like.startswith("sm_"):
        return load_architecture(like), None
    gpu = _found(like)
    return _shipped(gpu), gpu


def _catalogued(name: str) -> "GPU | IncompleteGPU":
    """Return the GPU of the catalogue that a user wants a file of his own for."""
    try:
        return _found(name)
    except GPUError as error:
        near = error.cure.partition(";")[0] + ". " if error.cure and error.cure.startswith("The nearest") else ""
        ways = "Say what it is like: --like rtx-4060, or --like sm_89 for an architecture; --device 0 asks the driver."
        raise InputError(f"{name[:40]!a} is not in the catalogue", cure=near + ways) from None


def _found(name: str) -> "GPU | IncompleteGPU":
    from kerncast.gpu import find_incomplete, load_incomplete, resolve_gpu  # noqa: PLC0415
    from kerncast.report.words import describe_caveat  # noqa: PLC0415

    incomplete_id = find_incomplete(name)
    if incomplete_id is not None:
        return load_incomplete(incomplete_id)
    gpu, caveats = resolve_gpu(name)
    for caveat in caveats:
        tell(describe_caveat(caveat))
    return gpu


def _shipped(gpu: "GPU | IncompleteGPU") -> "Architecture":
    """Return the architecture without what the GPU has otherwise."""
    from kerncast.gpu import load_architecture  # noqa: PLC0415

    return load_architecture(gpu.architecture.id)


def _as_argument(path: Path) -> str:
    """Return a path as it is typed."""
    return f'"{path}"' if " " in str(path) else str(path)


def _write_new(path: Path, text: str) -> None:
    """Write a file that must not be there yet: what a user wrote is not lost."""
    if path.exists() or path.is_symlink():
        cure = "Name another with -o, or remove it first."
        raise InputError("the file exists already", where=str(path), cure=cure)
    write_text(path, text)


def command(  # noqa: PLR0913  each parameter is one option
    name: Annotated[str | None, typer.Argument(help="Name, id or TOML file of one GPU.")] = None,
    json_: AsJson = False,
    add: Annotated[str | None, typer.Option(help="Begin a TOML file for this GPU, every key explained.")] = None,
    like: Annotated[str | None, typer.Option(help="With --add: similar GPU, or architecture such as sm_89.")] = None,
    device: Annotated[int | None, typer.Option(help="With --add: ask the driver of the GPU with this number.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="With --add: file; else NAME.toml.")] = None,
) -> int:
    """List the known GPUs; or show every fact of one with its sources, and check its file; or begin a new file."""
    if add is not None:
        if name is not None:
            raise InputError("--add and a GPU to show exclude each other", cure="Run them one after the other.")
        return add_gpu(add, like, device, out, json_=json_)
    if like is not None or device is not None or out is not None:
        raise InputError("--like, --device and --out belong to --add", cure='Give --add "My GPU" as well.')
    if name is not None:
        return _show(name, json_=json_)
    return _list(json_=json_)


def _list(*, json_: bool) -> int:
    from kerncast.gpu import list_gpus, list_incomplete  # noqa: PLC0415
    from kerncast.report.as_json import SCHEMA_VERSION, gpu_object, incomplete_object  # noqa: PLC0415
    from kerncast.report.files.gpus import gpu_table  # noqa: PLC0415
    from kerncast.report.tables import print_table  # noqa: PLC0415
    from kerncast.report.words import caveat_fields  # noqa: PLC0415

    gpus, incomplete = list_gpus(), list_incomplete()
    if json_:
        table = {
            "gpus": [gpu_object(gpu) for gpu in gpus],
            "incomplete": [incomplete_object(gpu) for gpu in incomplete],
        }
        emit_json({"schema_version": SCHEMA_VERSION, **table, **caveat_fields(())})
    else:
        print_table(gpu_table(gpus, incomplete), stdout_console())
    return 0


def _show(name: str, *, json_: bool) -> int:
    from kerncast.gpu import find_incomplete, load_incomplete, resolve_gpu  # noqa: PLC0415
    from kerncast.gpu.confidence import doubts  # noqa: PLC0415
    from kerncast.models.missing_facts import missing_facts  # noqa: PLC0415
    from kerncast.report import as_json  # noqa: PLC0415
    from kerncast.report.files.gpus import doubt_notes, incomplete_notes, missing_notes  # noqa: PLC0415
    from kerncast.report.words import caveat_fields, describe_caveats  # noqa: PLC0415

    incomplete_id = find_incomplete(name)
    if incomplete_id is not None:
        incomplete = load_incomplete(incomplete_id)
        if json_:
            table = {"gpus": [], "incomplete": [as_json.incomplete_object(incomplete)]}
            emit_json({"schema_version": as_json.SCHEMA_VERSION, **table, **caveat_fields(())})
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
                **caveat_fields(caveats),
                "missing": [as_json.missing_object(each) for each in missing],
                "doubts": [as_json.doubt_object(each) for each in doubted],
            }
        )
    else:
        _print_facts(gpu, (*describe_caveats(caveats), *doubt_notes(doubted), *missing_notes(missing)))
    return 0


def _print_facts(gpu: "GPU | IncompleteGPU", notes: Sequence[str]) -> None:
    from kerncast.report.files.gpus import fact_table, sources_of  # noqa: PLC0415
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
