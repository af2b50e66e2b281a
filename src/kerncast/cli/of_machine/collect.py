"""kerncast collect: the command that profiles an application for the models."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import AsJson
from kerncast.cli.shared.output import emit_json, emit_text, tell_plainly
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.bench.counters import Metric


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """The application to profile, and the conditions."""

    application: tuple[str, ...]
    """program to profile, and its arguments"""
    models: tuple[str, ...] = ()
    """models to collect for; all where none is named"""
    kernel: str | None = None
    """regular expression for names of kernels; None: all kernels"""
    launch_skip: int | None = None
    launch_count: int | None = None
    is_cold: bool = False
    """whether caches are flushed before each pass"""
    out: Path = Path("profile.csv")
    """output file; .csv: raw page, otherwise a report of ncu"""


def command(  # noqa: PLR0913  each parameter is one option
    application: Annotated[
        list[str] | None, typer.Argument(help="The application and its arguments, after --.", metavar="-- APPLICATION")
    ] = None,
    models: Annotated[
        list[str] | None, typer.Option("--for", help="Model to collect for; repeatable. Default: all.", metavar="MODEL")
    ] = None,
    kernel: Annotated[str | None, typer.Option("--kernel", "-k", help="Regular expression of kernel names.")] = None,
    launch_skip: Annotated[int | None, typer.Option(min=0, help="Launches to pass over before the first.")] = None,
    launch_count: Annotated[int | None, typer.Option(min=1, help="Launches to profile.")] = None,
    cold: Annotated[bool, typer.Option("--cold", help="Flush the caches before each pass.")] = False,
    out: Annotated[Path, typer.Option(help="File to write: NAME.csv, or NAME.ncu-rep for a report.")] = Path(
        "profile.csv"
    ),
    nvprof: Annotated[bool, typer.Option("--nvprof", help="For GPUs before compute capability 7.0.")] = False,
    json_: AsJson = False,
) -> int:
    """Print the Nsight Compute command that collects what the models need; it is not run.

    sh -c "$(kerncast collect -- ./app)" runs it.
    """
    from kerncast.bench.counters import metrics_needed  # noqa: PLC0415

    options = CollectOptions(
        tuple(application or ()), tuple(models or ()), kernel, launch_skip, launch_count, is_cold=cold, out=out
    )
    commands = nvprof_commands(options) if nvprof else (collect_command(options),)
    notes = _nvprof_notes() if nvprof else _ncu_notes(options)
    line = " && ".join(shlex.join(one) for one in commands)
    if json_:
        from kerncast.report.as_json import SCHEMA_VERSION  # noqa: PLC0415

        metrics = [_metric_object(metric, nvprof=nvprof) for metric in metrics_needed(options.models)]
        emit_json(
            {
                "schema_version": SCHEMA_VERSION,
                "shell": line,
                "commands": [list(one) for one in commands],
                "metrics": [metric for metric in metrics if metric["name"]],
                "notes": list(notes),
            }
        )
        return 0
    emit_text(line + "\n", None)
    for note in notes:
        tell_plainly(note)
    return 0


def collect_command(options: CollectOptions) -> tuple[str, ...]:
    """Return the command of ncu that collects what the models need from an application."""
    from kerncast.bench.counters import collection_options, csv_options, metrics_needed  # noqa: PLC0415

    _check(options)
    chosen: list[str] = []
    if options.kernel is not None:
        chosen += ["--kernel-name-base", "function", "--kernel-name", f"regex:{options.kernel}"]
    if options.launch_skip:
        chosen += ["--launch-skip", str(options.launch_skip)]
    if options.launch_count is not None:
        chosen += ["--launch-count", str(options.launch_count)]
    is_csv = options.out.suffix.lower() == ".csv"
    written = csv_options(options.out) if is_csv else ("--export", str(options.out), "--force-overwrite")
    counted = collection_options(metrics_needed(options.models), cold=options.is_cold)
    return ("ncu", *counted, *chosen, *written, *options.application)


def nvprof_commands(options: CollectOptions) -> tuple[tuple[str, ...], ...]:
    """Return the commands of nvprof for GPUs before Volta: one for the times, one for the metrics.

    nvprof runs a kernel several times for metrics, so that its times come from a run without them.
    """
    from kerncast.bench.counters import metrics_needed  # noqa: PLC0415

    _check(options)
    for name, given in (
        ("--cold", options.is_cold),
        ("--launch-skip", options.launch_skip),
        ("--launch-count", options.launch_count),
    ):
        if given:
            raise InputError(f"nvprof has nothing like {name}", cure="Leave it out.")
    if options.out.suffix.lower() != ".csv":
        raise InputError(f"nvprof cannot write {options.out.name}", where="--out", cure="Name a .csv file.")
    names = dict.fromkeys(metric.nvprof for metric in metrics_needed(options.models) if metric.nvprof)
    chosen = ("--kernels", options.kernel) if options.kernel is not None else ()
    times = options.out.with_name(f"{options.out.stem}-times.csv")
    general = ("nvprof", "--csv", "--print-gpu-trace")
    return (
        (*general, "--normalized-time-unit", "ns", "--log-file", str(times), *options.application),
        (
            *general,
            *chosen,
            *("--metrics", ",".join(names)),
            *("--log-file", str(options.out)),
            *options.application,
        ),
    )


def _check(options: CollectOptions) -> None:
    if not options.application or not options.application[0]:
        raise InputError("no application is given", cure="Name it after two dashes: kerncast collect -- ./app args.")
    if options.application[0].startswith("-"):
        raise InputError(
            f"{options.application[0]!r} is not an application",
            cure="Put the options of kerncast before the two dashes: kerncast collect --cold -- ./app args.",
        )
    if options.kernel == "":
        raise InputError("the regular expression is empty", where="--kernel", cure="Leave it out, or name a kernel.")
    try:
        re.compile(options.kernel or "")
    except (re.error, RecursionError, OverflowError) as error:
        raise InputError(f"the regular expression is none: {error}", where="--kernel", cure="Mend it.") from None


def _metric_object(metric: "Metric", *, nvprof: bool) -> dict[str, object]:
    return {
        "name": metric.nvprof if nvprof else metric.name,
        "unit": None if nvprof else metric.unit,
        "models": list(metric.models),
        "meaning": metric.meaning,
    }


def _ncu_notes(options: CollectOptions) -> tuple[str, ...]:
    from kerncast.bench.counters import PERMISSION_CODE, PERMISSION_CURE  # noqa: PLC0415

    return (
        f"Writes {options.out}. It needs a GPU of compute capability 7.0 or newer; --nvprof is for older ones.",
        "ncu says how many passes it makes per launch; --for MODEL asks for fewer metrics, and so for fewer passes.",
        f"If it ends with {PERMISSION_CODE}: {PERMISSION_CURE}",
    )


def _nvprof_notes() -> tuple[str, ...]:
    return (
        "nvprof comes with CUDA up to 12 and counts on GPUs before compute capability 7.5; --for MODEL saves passes.",
        "The application runs twice: first for the times, then for the metrics.",
    )
