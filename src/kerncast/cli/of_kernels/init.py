"""kerncast init: list the kernels of a source and write a launch file from its host code."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import AsJson, Defines, IncludeFolders, checked_folders, checked_sources, split_define
from kerncast.cli.shared.output import emit_json, emit_text, progress_on_stderr, stdout_console, write_text
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.hostcode.nouns import HostProgram


def command(  # noqa: PLR0913  each parameter is one option
    source: Annotated[Path, typer.Argument(help="Source with kernels, best with the host code that launches them.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Launch file to write; stdout without it.")] = None,
    kernel: Annotated[
        list[str] | None, typer.Option(help="Kernel to write a launch for; repeatable. Default: all.")
    ] = None,
    define: Defines = None,
    include: IncludeFolders = None,
    std: Annotated[str | None, typer.Option(help="Version of C++.")] = None,
    argv: Annotated[str | None, typer.Option(help='Command line of the program, such as "1024 100".')] = None,
    host: Annotated[
        list[Path] | None, typer.Option(help="Further source of the program, such as the one with main; repeatable.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json_: AsJson = False,
) -> int:
    """Write a launch file from the launches that host code makes; what it does not say is left to decide."""
    from kerncast.compile.nouns import CompileRequest  # noqa: PLC0415
    from kerncast.hostcode.request import read_host_code  # noqa: PLC0415
    from kerncast.launch import DEFAULT_STANDARD, check_standard  # noqa: PLC0415
    from kerncast.report.files.launch_skeleton import skeleton_object, skeleton_text  # noqa: PLC0415

    if out is not None and out.exists() and not force:
        raise InputError("exists already", where=str(out), cure="Add --force to write over it, or choose another name.")
    request = CompileRequest(
        source,
        (),
        defines=tuple(split_define(text) for text in define or ()),
        include_dirs=checked_folders(include or ()),
        standard=check_standard(std or DEFAULT_STANDARD, "--std"),
    )
    with progress_on_stderr(quiet=False) as show:
        if show is not None:
            show(f"reading {source.name}", 0, 0)
        program = read_host_code(
            request,
            arguments=_words(argv),
            kernels=tuple(kernel or ()),
            hosts=checked_sources(source, host or ()),
        )
    text = skeleton_text(program, request, out.parent if out is not None else Path())
    if out is not None:
        write_text(out, text)
    if json_:
        emit_json(skeleton_object(program))
    elif out is None:
        emit_text(text, None)
    else:
        _print_summary(program, out)
    return 0


def _words(argv: str | None) -> tuple[str, ...] | None:
    if argv is None:
        return None
    try:
        return tuple(shlex.split(argv))
    except ValueError as error:
        raise InputError(f"--argv {argv[:60]!r} has an open quote ({error})", cure="Close it.") from None


def _print_summary(program: "HostProgram", out: Path) -> None:
    from kerncast.report.files.launch_skeleton import kernel_table, undecided_notes  # noqa: PLC0415
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415

    console = stdout_console()
    print_table(kernel_table(program), console)
    notes = undecided_notes(program)
    launches = f"{len(program.launches)} launch" + ("" if len(program.launches) == 1 else "es")
    print_notes(program.caveats, console)
    console.print(f"{out}: {launches}", highlight=False, markup=False, soft_wrap=True)
    if notes:
        console.print("left to decide:", highlight=False)
    for note in notes:
        console.print(f"  {note}", highlight=False, markup=False, soft_wrap=True)
