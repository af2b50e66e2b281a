"""A profile as JSON, as Nsight Compute's raw page, and as rows of features in CSV or Parquet."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kerncast.errors import InputError
from kerncast.measurements.table_files import arrow, write_table
from kerncast.metrics import FEATURES, Metric, feature_row, metrics_of, occurring_accesses, place_of, word
from kerncast.prediction import Refused
from kerncast.printable import write_csv
from kerncast.profiles import BasicBlockCount, Count, KernelProfile, LineCount, ProfiledLaunch, StateCycles, WarpStates
from kerncast.profiles.counts import QUANTITIES, access_name
from kerncast.report.as_json import SCHEMA_VERSION, fields_of, refused_launch
from kerncast.report.words import caveat_fields

#: A float holds whole numbers exactly up to here.
_EXACT_WHOLE = 2**53


def profile_object(launches: Sequence[ProfiledLaunch], refused: Sequence[Refused], *, lines: bool) -> dict[str, Any]:
    """Return the object that ``kerncast profile --json`` prints; ``lines`` adds the counts of source lines."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kernels": [_kernel(each, lines=lines) for each in launches],
        "refused": [refused_launch(each) for each in refused],
    }


def number(value: float) -> int | float:
    """Return a whole number as an integer, so that a count reads as one.

    >>> number(4096.0), number(2.5)
    (4096, 2.5)
    """
    return int(value) if float(value).is_integer() and abs(value) <= _EXACT_WHOLE else float(value)


def _kernel(launch: ProfiledLaunch, *, lines: bool) -> dict[str, Any]:
    profile, gpu = launch.profile, launch.gpu
    return {
        "kernel": profile.kernel,
        "launch": profile.index,
        "gpu": None if gpu is None else gpu.id,
        "gpu_name": None if gpu is None else gpu.name,
        "compiled_for": profile.resources.architecture if profile.resources else None,
        "grid": list(profile.grid),
        "block": list(profile.block),
        "shared_bytes": profile.shared_bytes,
        "metrics": {each.name: _metric(each) for each in metrics_of(profile, gpu)},
        "sampling": _sampling(profile),
        "accesses": list(_accesses(profile)),
        "ptx_instructions": _ptx_instructions(profile),
        **({} if gpu is None else {"opcodes": _opcodes(profile)}),
        "basic_blocks": [_basic_block(each) for each in profile.blocks],
        **({"lines": [_line(each) for each in profile.lines]} if lines else {}),
        **({} if gpu is None else {"warp_states": _warp_states(profile.warp_states, lines=lines)}),
        **caveat_fields(launch.caveats),
    }


def _warp_states(found: WarpStates | None, *, lines: bool) -> dict[str, Any] | None:
    if found is None:
        return None
    by_line = [{"file": each.file, "line": each.line, "warp_cycles": _cycles(each.states)} for each in found.lines]
    return {
        **fields_of(found, "seconds", "cycles", "blocks_simulated", "simulated_cycles", "issued"),
        "warp_cycles": _cycles(found.states),
        "roofs": {each.resource: each.share for each in found.resources},
        **({"lines": by_line} if lines else {}),
    }


def _cycles(states: Sequence[StateCycles]) -> dict[str, int | float]:
    return {each.state: number(each.warp_cycles) for each in states}


def _metric(each: Metric) -> dict[str, Any]:
    value = number(each.count.value)
    return {"value": value, "unit": each.unit, **_interval(each.count), "origin": each.origin.value}


def _sampling(profile: KernelProfile) -> dict[str, Any] | None:
    found = profile.sampling
    if found is None:
        return None
    return fields_of(found, "blocks_executed", "blocks", "is_whole_grid")


def _accesses(profile: KernelProfile) -> Iterator[dict[str, Any]]:
    for space, operation, _ in occurring_accesses(profile):
        counts = {each: profile.counts.total((access_name(space, operation, each),)) for each in QUANTITIES}
        yield {"space": space, "operation": operation, **{each: _count(count) for each, count in counts.items()}}


def _ptx_instructions(profile: KernelProfile) -> list[dict[str, Any]]:
    return [
        {
            "kind": each.kind,
            "warp_instructions": _count(each.warp_instructions),
            "thread_instructions": _count(each.thread_instructions),
        }
        for each in (profile.mix.kinds if profile.mix else ())
    ]


def _opcodes(profile: KernelProfile) -> list[dict[str, Any]]:
    return [
        {
            "opcode": each.opcode,
            "class": each.work,
            "pipe": each.pipe,
            "warp_instructions": _count(each.warp_instructions),
            "thread_instructions": _count(each.thread_instructions),
            "thread_instructions_pred_on": _count(each.threads_on),
        }
        for each in (profile.machine.opcodes if profile.machine else ())
    ]


def _basic_block(each: BasicBlockCount) -> dict[str, Any]:
    return {
        "block": each.number,
        "where": each.where or None,
        "instructions": each.instructions,
        "warps": _count(each.warps),
        "threads": _count(each.threads),
        **fields_of(each, "critical_path", "parallelism", "dependency_distance", "loop_depth"),
    }


def _line(each: LineCount) -> dict[str, Any]:
    names = (
        "warp_instructions", "thread_instructions", "flops", "global_requests", "global_sectors", "shared_requests",
        "shared_wavefronts", "local_sectors", "barriers",
    )  # fmt: skip
    return {"file": each.file, "line": each.line, **{name: _count(getattr(each, name)) for name in names}}


def _count(count: Count) -> dict[str, int | float]:
    return {"value": number(count.value), **_interval(count)}


def _interval(count: Count) -> dict[str, int | float]:
    return {"low": number(count.low), "high": number(count.high)}


# Profiles as the raw page that ``ncu --csv --page raw --print-units base`` prints.
#
# Source: files that Nsight Compute 2020 to 2025 wrote; ``read/ncu/pages.py`` reads both.


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
    rows = [(*_LAUNCH_COLUMNS, *names), (*("" for _ in _LAUNCH_COLUMNS), *(word(name).unit for name in names))]
    for launch, metrics in zip(launches, found, strict=True):
        rows.append((*_launch_cells(launch), *(_cell(metrics.get(name)) for name in names)))
    write_csv(text, rows, quotes_all=True)
    return text.getvalue()


def _launch_cells(launch: ProfiledLaunch) -> tuple[str, ...]:
    profile = launch.profile
    capability = launch.gpu.compute_capability if launch.gpu else ""
    geometry = (str(profile.block), str(profile.grid))
    process = (_PROCESS, _PROCESS_NAME, _HOST)
    return (str(profile.index), *process, profile.kernel, _CONTEXT, _STREAM, *geometry, _DEVICE, capability)


def _cell(metric: Metric | None) -> str:
    if metric is None:
        return ""
    value = metric.count.value
    return str(round(value)) if word(metric.name).is_total else str(number(value))


_WHERE = "--features"


def check_feature_path(path: Path) -> None:
    """Raise InputError where no feature table can be written there, before any work is done for it."""
    if path.suffix not in {".csv", ".parquet"}:
        raise InputError(f"{path.name!r} is not a feature table", where=_WHERE, cure="End it in .csv or .parquet.")
    if not path.parent.is_dir():
        raise InputError(f"the folder of {path} does not exist", where=_WHERE, cure="Make it, or choose another place.")
    if path.suffix == ".parquet":
        arrow(_WHERE)


def write_features(launches: Sequence[ProfiledLaunch], path: Path) -> None:
    """Write a row per launch, in the format that the name ends in; the file is there whole, or as it was before."""
    check_feature_path(path)
    columns = {feature.name: feature.type for feature in FEATURES}
    write_table(path, columns, [feature_row(launch) for launch in launches])
