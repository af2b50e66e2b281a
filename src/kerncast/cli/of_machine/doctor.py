"""kerncast doctor: is everything here that a forecast needs?"""

from kerncast.cli.shared.options import AsJson
from kerncast.cli.shared.output import emit_json, progress_on_stderr, stdout_console


def command(json_: AsJson = False) -> int:
    """Check every part, and forecast a small kernel; exit 2 when a required part is missing."""
    from kerncast.checkup import check_up  # noqa: PLC0415
    from kerncast.report.as_json import SCHEMA_VERSION, doctor_object  # noqa: PLC0415
    from kerncast.report.files.toolchain import doctor_lines  # noqa: PLC0415

    with progress_on_stderr(quiet=False) as progress:
        found = check_up(progress)
    if json_:
        emit_json({"schema_version": SCHEMA_VERSION, **doctor_object(found)})
    else:
        console = stdout_console()
        for line in doctor_lines(found):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    return 0 if found.is_healthy else 2
