"""Scripts in the place of evidence: they are run, and what was recorded is worked on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncast.cli.shared.output import stderr_console, tell

if TYPE_CHECKING:
    from kerncast.child_process import Progress
    from kerncast.forecast.asked import Forecast, GPUsNoted, Options
    from kerncast.recording import Recording
    from kerncast.scripts.benchmarks import Tuning
    from kerncast.scripts.session import Script

SCRIPT = ".py"


def is_script(evidence: object) -> bool:
    """Whether evidence is a script in Python."""
    return isinstance(evidence, Path) and evidence.suffix == SCRIPT


def forecast_of_script(path: Path, gpus: "GPUsNoted", options: "Options", progress: "Progress | None") -> "Forecast":
    """Run a script for each architecture and forecast what it launches; tells what it tuned on stderr."""
    from kerncast.scripts.script_forecasts import forecast_script  # noqa: PLC0415  few forecasts need it
    from kerncast.scripts.session import Script  # noqa: PLC0415  same

    found = forecast_script(Script(path), gpus, options, progress)
    tell_remarks(found.remarks, found.tunings)
    return found.forecast


def script_of(command: Sequence[str], seconds: float | None, launch_seconds: float, kept_bytes: int) -> "Script":
    """Return a script with its arguments and limits."""
    from kerncast.scripts.session import Script  # noqa: PLC0415  few commands need it

    found = Script(Path(command[0]), tuple(command[1:]), launch_seconds=launch_seconds, kept_bytes=kept_bytes)
    return found if seconds is None else replace(found, seconds=seconds)


def recording_of_script(
    script: "Script", gpus: "GPUsNoted", folder: Path, progress: "Progress | None"
) -> "tuple[None, Recording]":
    """Run a script as on the first GPU and return its recording; raises InputError for several architectures."""
    from kerncast.recording import read_recording  # noqa: PLC0415  few commands need it
    from kerncast.scripts.script_forecasts import check_one_architecture  # noqa: PLC0415  same
    from kerncast.scripts.session import record_script  # noqa: PLC0415  same

    check_one_architecture(script.path, gpus)
    found = record_script(script, gpus[0][0], folder / "script.kc", progress)
    tell_remarks((), found.tunings)
    if found.failed is not None:
        tell(str(found.failed))
    return None, read_recording(found.recording)


def tell_remarks(remarks: Sequence[str], tunings: "Sequence[Tuning]") -> None:
    """Tell on stderr what came up while a script ran, and what its autotuner chose by forecast."""
    from kerncast.report.scripts import tuning_table  # noqa: PLC0415
    from kerncast.report.tables import print_table  # noqa: PLC0415

    for remark in remarks:
        tell(remark)
    for tuning in tunings:
        print_table(tuning_table(tuning), stderr_console())
