"""The commands and how they are run."""

import shlex
from collections.abc import Sequence
from contextvars import ContextVar
from importlib import import_module

import typer
from typer.exceptions import TyperException

from kerncast.errors import InputError
from kerncast.version import __version__

#: The folder of each command, in the order of --help.
COMMANDS = {
    "init": "of_kernels", "run": "of_kernels", "predict": "of_kernels", "profile": "of_kernels",
    "compare": "of_kernels", "sensitivity": "of_kernels", "sweep": "of_kernels", "bound": "of_kernels",
    "gpus": "of_machine",
    "occupancy": "of_kernels", "measure": "of_machine", "collect": "of_machine", "train": "of_studies",
    "evaluate": "of_studies", "study": "of_studies", "serve": "of_machine", "cache": "of_machine",
    "doctor": "of_machine", "explain": "of_machine",
}  # fmt: skip


_ASKED: ContextVar[tuple[str, ...]] = ContextVar("asked", default=())


def asked_command() -> str:
    """Return the command line that is run, as a shell reads it."""
    return shlex.join(("kerncast", *_ASKED.get())) if _ASKED.get() else ""


#: Stands between the arguments of ``kerncast run`` and those of the program that it runs.
SEPARATOR = "\0--"


def _show_version(asked: bool) -> None:
    if asked:
        from kerncast.cli.shared.output import emit_text  # noqa: PLC0415  the help does without

        emit_text(f"kerncast {__version__}\n", None)
        raise typer.Exit


def options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
) -> None:
    """Forecast CUDA kernels on GPUs that are not here."""
    del version


def application(names: Sequence[str] = tuple(COMMANDS)) -> typer.Typer:
    """Return the command line with these commands; only their modules are imported."""
    app = typer.Typer(
        name="kerncast",
        help="How long will this CUDA kernel take on a GPU that I don't have, how sure is that, and why?",
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in names:
        # What follows the name of an application that is profiled is its own, options too.
        settings = {"allow_interspersed_args": False} if name == "collect" else {}
        app.command(name, context_settings=settings)(import_module(f"kerncast.cli.{COMMANDS[name]}.{name}").command)
    app.callback()(options)
    return app


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit status, raises InputError for bad usage."""
    _ASKED.set(tuple(arguments))
    try:
        asked = [each for each in arguments[:1] if each in COMMANDS]
        if asked == ["run"] and "--" in arguments:  # what follows is the program's, whatever it looks like
            place = arguments.index("--") + 1
            arguments = [*arguments[:place], SEPARATOR, *arguments[place:]]
        app = application(asked or tuple(COMMANDS))
        result = app(arguments or ["--help"], standalone_mode=False, prog_name="kerncast")
    except TyperException as error:
        raise InputError(error.format_message(), cure="See kerncast --help.") from None
    return result if isinstance(result, int) else 0
