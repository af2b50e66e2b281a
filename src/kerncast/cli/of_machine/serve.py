"""kerncast serve: a local page to write kernels and see their times as you type."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from kerncast.cli.shared.output import emit_text, tell
from kerncast.errors import InputError

_PORT = 8470


def command(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of this machine; 0: any that is free.")] = _PORT,
    include: Annotated[
        list[Path] | None, typer.Option("--include", "-I", help="Folder whose headers sources may include.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> int:
    """Open a page of this machine alone: write a kernel, and see its time on each GPU."""
    if sys.platform != "linux":
        cure = "Use kerncast predict, or Linux (Windows Subsystem for Linux serves)."
        raise InputError("kerncast serve needs Linux: only there its jobs have limits", cure=cure)
    _check_extra()
    from kerncast.web.server import bound, serve  # noqa: PLC0415  loads a web server

    def ready(address: str) -> None:
        emit_text(f"{address}\n", None)
        tell("Only this machine can open the address, and only with its token. Ctrl-C ends it.")
        if not no_browser:
            import webbrowser  # noqa: PLC0415

            webbrowser.open(address)

    serve(bound(port), ready, _folders(include or []))
    return 0


def _folders(named: list[Path]) -> list[Path]:
    for each in named:
        if not each.is_dir():
            raise InputError(f"--include {str(each)[:200]} is not a folder", cure="Name a folder of headers.")
    return [each.resolve() for each in named]


def _check_extra() -> None:
    from kerncast.requirements import Requirement, is_importable  # noqa: PLC0415

    if not is_importable("nicegui"):
        command = Requirement("nicegui", "", "web").command
        raise InputError("kerncast serve needs the extra web", cure=f"Install with: {command}")
