"""The child process in which NVIDIA's library reads a report: one JSON request on stdin, one JSON reply on stdout.

Run as ``python -m kerncast.read.ncu.report_worker``. API: module ``ncu_report``; a report holds ranges, these hold
actions (profiled kernels), and these metrics. Metrics of lines of code have instances; of these only opcodes are kept.
"""

import importlib
import math
from collections.abc import Iterator
from typing import Any

from kerncast.child_process import serve
from kerncast.read.ncu.counts import OPCODE_COUNTS
from kerncast.read.ncu.rows import MOST_VALUE, MOST_VALUES

_DEVICE = "device__attribute_display_name"
#: Sums over the source page, which have no unit in front of their names.
_SOURCE = frozenset({
    "inst_executed", "thread_inst_executed", "thread_inst_executed_true", "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_local",
})  # fmt: skip
#: Tables of the occupancy calculator, links, samples of the program counter, the profiler itself.
_LEFT_OUT = (
    "breakdown:", "group:", "launch__occupancy_per_", "launch__function", "nvlink__", "numa__", "c2clink__",
    "profiler__", "pmsampling:", "smsp__pcsamp",
)  # fmt: skip
#: An opcode that is not listed did not run.
_FLOAT_OPCODES = ("FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA", "HADD2", "HMUL2", "HFMA2")
_LONGEST_NAME = 4000
#: Instructions of one kernel that are told of, and the letters of a line of its source or code.
_MOST_INSTRUCTIONS, _LONGEST_LINE = 20_000, 400
_EXECUTED, _SAMPLED, _NOT_ISSUED = "inst_executed", "smsp__pcsamp_warps_issue_stalled_", "_not_issued"


def main() -> None:
    """Answer the request on stdin."""
    serve(lambda request: answer(request["path"]), "kerncast.read.ncu.report")


def answer(path: str) -> dict[str, Any]:
    """Return the launches of a report, or why there are none."""
    try:
        library = importlib.import_module("ncu_report")
    except ImportError:
        return {"error": "a .ncu-rep file needs NVIDIA's reader, which is not installed", "is_missing": True}
    try:
        context = library.load_report(path)
        rows = []
        room = MOST_VALUES
        for action in (action for profiled in context for action in profiled):
            row = _row(action, library)
            room -= len(row["metrics"]) + len(row["code"])
            if room < 0:
                return {"error": f"it holds more than {MOST_VALUES:,} values"}
            rows.append(row)
    except MemoryError:
        return {"error": "NVIDIA's reader ran out of memory"}
    except Exception as error:  # noqa: BLE001  whatever the library raises for a damaged file
        return {"error": f"NVIDIA's reader refuses it ({type(error).__name__}: {str(error)[:160]})"}
    return {"rows": rows}


def _row(action: Any, library: Any) -> dict[str, Any]:
    device = action.metric_by_name(_DEVICE)
    return {
        "name": str(action.name(library.IAction.NameBase_DEMANGLED))[:_LONGEST_NAME],
        "device": str(device.as_string())[:100] if device is not None else None,
        "metrics": [*_metrics(action, library.IMetric)],
        **_code(action),
    }


def _code(action: Any) -> dict[str, Any]:
    """Return file, line, machine code, executions by warps and samples by state of each instruction, and the source.

    Instances of a metric correlate with addresses of instructions; a report without the source counters has none.
    """
    warps = _by_address(action.metric_by_name(_EXECUTED))
    states = [name for name in action.metric_names() if name.startswith(_SAMPLED) and not name.endswith(_NOT_ISSUED)]
    samples = {name.removeprefix(_SAMPLED): _by_address(action.metric_by_name(name)) for name in states}
    addresses = sorted({*warps, *(each for found in samples.values() for each in found)})[:_MOST_INSTRUCTIONS]
    code: list[Any] = []
    places: set[tuple[str, int]] = set()
    for address in addresses if warps else ():
        info = action.source_info(address)
        place = ("", 0) if info is None else (str(info.file_name())[:_LONGEST_NAME], int(info.line()))
        places.add(place)
        told = {state: found[address] for state, found in samples.items() if found.get(address)}
        code.append([*place, str(action.sass_by_pc(address))[:_LONGEST_LINE], warps.get(address, 0.0), told])
    return {"code": code, "texts": _texts(action, places) if code else []}


def _by_address(metric: Any) -> dict[int, float]:
    if metric is None or not metric.num_instances() or not metric.has_correlation_ids():
        return {}
    ids = metric.correlation_ids()
    values = [(int(ids.as_uint64(place)), float(metric.as_double(place))) for place in range(metric.num_instances())]
    return {address: value for address, value in values if math.isfinite(value) and 0 <= value < MOST_VALUE}


def _texts(action: Any, places: set[tuple[str, int]]) -> list[tuple[str, int, str]]:
    """Return the source lines that instructions are of, as far as the report holds the source."""
    found = []
    for file, text in action.source_files().items():
        lines = str(text).splitlines()
        wanted = (line for name, line in places if name == file and 0 < line <= len(lines))
        found += [(str(file), line, lines[line - 1][:_LONGEST_LINE]) for line in wanted]
    return found


def _metrics(action: Any, kinds: Any) -> Iterator[tuple[str, float, str]]:
    numbers = {kinds.ValueKind_FLOAT, kinds.ValueKind_DOUBLE, kinds.ValueKind_UINT32, kinds.ValueKind_UINT64}
    for name in action.metric_names():
        is_wanted = name in _SOURCE or ("__" in name and not name.startswith(_LEFT_OUT))
        metric = action.metric_by_name(name) if is_wanted else None
        if metric is None or metric.kind() not in numbers:
            continue
        value = metric.as_double()
        if math.isfinite(value) and abs(value) < MOST_VALUE:
            yield name, value, metric.unit() or ""
        if name == OPCODE_COUNTS:
            yield from _opcodes(metric, kinds)


def _opcodes(metric: Any, kinds: Any) -> Iterator[tuple[str, float, str]]:
    """Yield how often each floating-point opcode ran, per thread; nothing where the report has no instances."""
    opcodes = metric.correlation_ids() if metric.has_correlation_ids() else None
    if opcodes is None or opcodes.kind() != kinds.ValueKind_STRING or not metric.num_instances():
        return
    found = dict.fromkeys(_FLOAT_OPCODES, 0.0)
    for place in range(metric.num_instances()):
        opcode, value = str(opcodes.as_string(place)), metric.as_double(place)
        if opcode.startswith(_FLOAT_OPCODES) and 0 <= value < MOST_VALUE:
            found[opcode] = found.get(opcode, 0.0) + value
    for opcode, value in found.items():
        yield f"{OPCODE_COUNTS}.{opcode}", value, "inst"


if __name__ == "__main__":
    main()
