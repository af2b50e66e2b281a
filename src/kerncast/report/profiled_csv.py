"""Profiles as the raw page that ``ncu --csv --page raw --print-units base`` prints.

Source: files that Nsight Compute 2020 to 2025 wrote; ``read/ncu_csv.py`` reads both.
"""

import csv
import io
from collections.abc import Sequence

from kerncast.launch import Extent
from kerncast.report.metrics import Metric, metrics_of
from kerncast.report.profiled import ProfiledLaunch
from kerncast.report.profiled_json import number
from kerncast.report.vocabulary import place_of, word

#: What stands before the metrics in the versions since 2022.
_LAUNCH_COLUMNS = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC",
)  # fmt: skip
#: There is no process, host, context or stream; ncu writes these for the first ones.
_PROCESS, _PROCESS_NAME, _HOST, _CONTEXT, _STREAM, _DEVICE = "0", "kerncast", "127.0.0.1", "1", "7", "0"


def raw_page(launches: Sequence[ProfiledLaunch]) -> str:
    """Return a heading, a row of units and a row per launch; a metric that a launch lacks is empty there.

    Totals are rounded to whole events: a reader may take 16.384 for another locale's 16,384.
    """
    found = [{each.name: each for each in metrics_of(launch.profile, launch.gpu)} for launch in launches]
    names = sorted({name for metrics in found for name in metrics}, key=place_of)
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow((*_LAUNCH_COLUMNS, *names))
    writer.writerow((*("" for _ in _LAUNCH_COLUMNS), *(word(name).unit for name in names)))
    for launch, metrics in zip(launches, found, strict=True):
        writer.writerow((*_launch_cells(launch), *(_cell(metrics.get(name)) for name in names)))
    return text.getvalue()


def _launch_cells(launch: ProfiledLaunch) -> tuple[str, ...]:
    profile = launch.profile
    capability = launch.gpu.compute_capability if launch.gpu else ""
    geometry = (_extent(profile.block), _extent(profile.grid))
    process = (_PROCESS, _PROCESS_NAME, _HOST)
    return (str(profile.index), *process, profile.kernel, _CONTEXT, _STREAM, *geometry, _DEVICE, capability)


def _cell(metric: Metric | None) -> str:
    if metric is None:
        return ""
    value = metric.count.value
    return str(round(value)) if word(metric.name).is_total else str(number(value))


def _extent(extent: Extent) -> str:
    return f"({', '.join(map(str, extent))})"
