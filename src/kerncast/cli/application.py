"""The commands and how they are run."""

import typer
from typer.exceptions import TyperException

from kerncast.cli import (
    bound,
    cache,
    collect,
    doctor,
    evaluate,
    gpus,
    init,
    measure,
    occupancy,
    predict,
    profile,
    train,
)
from kerncast.errors import InputError
from kerncast.version import __version__

app = typer.Typer(
    name="kerncast",
    help="How long will this CUDA kernel take on a GPU that I don't have, how sure is that, and why?",
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("init")(init.command)
app.command("predict")(predict.command)
app.command("profile")(profile.command)
app.command("bound")(bound.command)
app.command("gpus")(gpus.command)
app.command("occupancy")(occupancy.command)
app.command("measure")(measure.command)
# What follows the application's name is its own, options too.
app.command("collect", context_settings={"allow_interspersed_args": False})(collect.command)
app.command("train")(train.command)
app.command("evaluate")(evaluate.command)
app.command("cache")(cache.command)
app.command("doctor")(doctor.command)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"kerncast {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
) -> None:
    """Forecast CUDA kernels on GPUs that are not here."""
    del version


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit status, raises InputError for bad usage."""
    try:
        result = app(arguments or ["--help"], standalone_mode=False, prog_name="kerncast")
    except TyperException as error:
        raise InputError(error.format_message(), cure="See kerncast --help.") from None
    return result if isinstance(result, int) else 0
