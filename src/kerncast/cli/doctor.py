"""kerncast doctor: is everything here that a forecast needs?"""

from typing import Annotated

import typer


def command(json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> int:
    """Check the compiler's parts and compile a small kernel; exit 2 when a required part is missing."""
    import platform  # noqa: PLC0415

    from kerncast.bench.readiness import measuring_report  # noqa: PLC0415
    from kerncast.cli.output import emit_json, stdout_console  # noqa: PLC0415
    from kerncast.compile import toolchain_report  # noqa: PLC0415
    from kerncast.report.as_json import SCHEMA_VERSION, doctor_object  # noqa: PLC0415
    from kerncast.report.catalogue import doctor_table  # noqa: PLC0415
    from kerncast.report.tables import print_table  # noqa: PLC0415
    from kerncast.version import __version__  # noqa: PLC0415

    statuses = (*toolchain_report(), *measuring_report())
    healthy = all(status.found or status.is_optional for status in statuses)
    if json_:
        emit_json({"schema_version": SCHEMA_VERSION, "healthy": healthy, "parts": doctor_object(statuses)})
    else:
        console = stdout_console()
        console.print(f"kerncast {__version__}, Python {platform.python_version()}, {platform.platform()}")
        print_table(doctor_table(statuses), console)
        console.print("Ready." if healthy else "Not ready: install what is missing.")
    return 0 if healthy else 2
