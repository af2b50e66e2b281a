"""Reports of Nsight Compute (``.ncu-rep``), read by NVIDIA's own library in a child process with limits.

The library (module ``ncu_report``, extra ``ncu``) is not made for files that somebody has tampered with: what crashes
or hangs it ends the child, and is an error here.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

from kerncast.bounded_file import Bound, opened
from kerncast.child_process import ask
from kerncast.errors import InputError
from kerncast.profiles import SampledLine, StateSamples
from kerncast.read.ncu.rows import MOST_VALUE, NcuMetric, NcuRow, base_unit, extent_of
from kerncast.units import GIB

#: What such a file starts with.
SIGNATURE = b"NVR\0"
REPORT_SUFFIX = ".ncu-rep"
_FEWER = "Profile fewer launches (ncu -k NAME --launch-count N) or fewer sections."
_REPORT = Bound(1 * GIB, cure_if_larger=_FEWER)
#: The library maps 60 MB of itself, and holds a report in memory several times over.
_MEMORY_BYTES = 6 * GIB
_SECONDS = 120.0
_GRACE_SECONDS = 5.0
_EXPORT = "or export it where ncu is installed: ncu --import FILE --csv --page raw > profile.csv"
_INSTALL = f"Install NVIDIA's reader (pip install 'kerncast[ncu]'), {_EXPORT}."
_DAMAGED = f"It is cut off, damaged, or newer than the reader: copy it again, pip install -U ncu-report, {_EXPORT}."


def is_report(head: bytes) -> bool:
    """Return whether a file that starts with these bytes is a report of Nsight Compute."""
    return head.startswith(SIGNATURE)


def headless_report(where: str) -> InputError:
    """Return the error for a file that is called a report and is binary, but does not begin as one."""
    return InputError("it does not begin as a report of Nsight Compute does", where=where, cure=_DAMAGED)


def read_ncu_report(path: Path) -> tuple[NcuRow, ...]:
    """Read the launches of a report, in order; raises InputError with a cure, for a missing extra too."""
    where = str(path)
    with opened(path, _REPORT) as stream:
        head = stream.read(len(SIGNATURE))
    if not is_report(head):
        raise InputError("it is not a report of Nsight Compute", where=where, cure="Give a .ncu-rep file or ncu's CSV.")
    reply = _exchange(path)
    if "error" in reply:
        what, cure = str(reply["error"])[:300], _INSTALL if reply.get("is_missing") else _DAMAGED
        raise InputError(what, where=where, cure=cure)
    try:
        rows = tuple(_row(number, each) for number, each in enumerate(reply["rows"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError("NVIDIA's reader cannot make sense of it", where=where, cure=_DAMAGED) from None
    if not rows:
        raise InputError("it holds no profiled kernel", where=where, cure=_DAMAGED)
    empty = next((row.number for row in rows if not row.metrics), None)
    if empty is not None:
        raise InputError(f"launch {empty} of it has no metrics", where=where, cure=_DAMAGED)
    return rows


def _exchange(path: Path) -> dict[str, Any]:
    whole = path.resolve()
    request = {"path": str(whole), "memory_bytes": _MEMORY_BYTES, "seconds": _SECONDS}
    try:
        ended = ask("kerncast.read.ncu.report_worker", request, reads=[whole], grace_seconds=_GRACE_SECONDS)
    except TimeoutError:
        raise InputError(f"NVIDIA's reader did not end within {_SECONDS:g} s", where=str(path), cure=_DAMAGED) from None
    if ended.reply is None:
        raise InputError(f"NVIDIA's reader ended {ended.how}", where=str(path), cure=_DAMAGED)
    reply: dict[str, Any] = ended.reply
    return reply


def _row(number: int, reply: dict[str, Any]) -> NcuRow:
    metrics = []
    for name, value, unit in reply["metrics"]:
        factor, base = base_unit(str(unit))
        number_of_base = float(value) * factor
        if not abs(number_of_base) < MOST_VALUE:
            raise ValueError(f"{name} is no number")
        metrics.append(NcuMetric(str(name), number_of_base, base))
    return NcuRow(
        number=number,
        kernel=str(reply["name"]),
        grid=extent_of(metrics, "launch__grid_dim"),
        block=extent_of(metrics, "launch__block_dim"),
        compute_capability=None,
        metrics=tuple(metrics),
        device=str(reply["device"]) if reply["device"] else None,
        lines=_lines(reply["code"], {(str(file), int(line)): str(text) for file, line, text in reply["texts"]}),
    )


def _lines(code: list[Any], texts: dict[tuple[str, int], str]) -> tuple[SampledLine, ...]:
    """Return the source lines of some instructions, in the order of files and lines."""
    by_line: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for file, line, *rest in code:
        by_line[str(file), int(line)].append(rest)
    found = []
    for place in sorted(by_line):
        sampled: dict[str, float] = defaultdict(float)
        for _, _, states in by_line[place]:
            for state, samples in states.items():
                sampled[str(state)] += float(samples)
        ranked = sorted(sampled.items(), key=lambda each: (-each[1], each[0]))
        sass = tuple(" ".join(str(text).split()) for text, _, _ in by_line[place])
        warps = sum(float(warps) for _, warps, _ in by_line[place])
        states = tuple(StateSamples(*each) for each in ranked)
        found.append(SampledLine(*place, texts.get(place, ""), warps, states, sass))
    return tuple(found)
