"""kerncast init: list the kernels of a source, and write a launch file with the geometry that its text states."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import AsJson, Defines, IncludeFolders, checked_folders, split_define
from kerncast.cli.shared.output import emit_json, emit_text, progress_on_stderr, stdout_console, write_text
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.compile import SourceListing

_RUN = "Run the program: kerncast run PROGRAM --export launches.toml"


def command(  # noqa: PLR0913  each parameter is one option
    source: Annotated[list[Path], typer.Argument(help="Source with kernels.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Launch file to write; stdout without it.")] = None,
    kernel: Annotated[
        list[str] | None, typer.Option(help="Kernel to write launches for; repeatable. Default: all.")
    ] = None,
    define: Defines = None,
    include: IncludeFolders = None,
    std: Annotated[str | None, typer.Option(help="Version of C++.")] = None,
    argv: Annotated[str | None, typer.Option(hidden=True)] = None,
    host: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json_: AsJson = False,
) -> int:
    """List the kernels of a source and write a launch file to fill in, with the geometry that is constant there."""
    from kerncast.compile.listing import list_source  # noqa: PLC0415
    from kerncast.compile.nouns import CompileRequest  # noqa: PLC0415
    from kerncast.launch import DEFAULT_STANDARD, check_standard  # noqa: PLC0415
    from kerncast.report.files.launch_skeleton import skeleton_object, skeleton_text  # noqa: PLC0415

    _check_options(source, argv, host)
    if out is not None and out.exists() and not force:
        raise InputError("exists already", where=str(out), cure="Add --force to write over it, or choose another name.")
    request = CompileRequest(
        source[0],
        (),
        defines=tuple(split_define(text) for text in define or ()),
        include_dirs=checked_folders(include or ()),
        standard=check_standard(std or DEFAULT_STANDARD, "--std"),
    )
    with progress_on_stderr(quiet=False) as show:
        if show is not None:
            show(f"reading {request.source.name}", 0, 0)
        found = list_source(request, kernel or ())
    text = skeleton_text(found, request, out.parent if out is not None else Path())
    if out is not None:
        write_text(out, text)
    if json_:
        emit_json(skeleton_object(found))
    elif out is None:
        emit_text(text, None)
    else:
        _print_summary(found, out)
    return 0


def _check_options(sources: list[Path], argv: str | None, host: list[str] | None) -> None:
    """Raise InputError for options of the time when init evaluated host code, and for several sources."""
    if argv is not None:
        raise InputError("--argv means nothing to init, which evaluates no host code", cure=f"{_RUN} -- ARGS")
    if host:
        raise InputError("--host means nothing to init, which evaluates no host code", cure=f"{_RUN}.")
    if len(sources) > 1:
        raise InputError(
            f"{len(sources)} sources are given, and a launch file has one",
            cure="Call init for each; or run them as one program: kerncast run SOURCES --export launches.toml.",
        )


def _print_summary(found: "SourceListing", out: Path) -> None:
    from kerncast.report.files import launch_skeleton  # noqa: PLC0415
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415

    console = stdout_console()
    print_table(launch_skeleton.kernel_table(found), console)
    print_notes(launch_skeleton.caveats_of(found), console)
    number = launch_skeleton.launch_count(found)
    lines = [f"{out}: {number} launch" + ("" if number == 1 else "es")]
    notes = launch_skeleton.unknown_notes(found)
    lines += ["to fill in:", *(f"  {note}" for note in notes)] if notes else []
    for line in (*lines, launch_skeleton.RUN_IT):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
