"""The JSON object of ``kerncast profile``: a promise, pinned by tests and versioned by ``schema_version``."""

from collections.abc import Sequence
from typing import Any

from kerncast.kernel_profile import AccessCount, BasicBlockCount, Count, KernelProfile, LineCount
from kerncast.prediction import Refused
from kerncast.report.as_json import SCHEMA_VERSION
from kerncast.report.metrics import Metric, metrics_of
from kerncast.report.profiled import ProfiledLaunch
from kerncast.warp_states import StateCycles, WarpStates

#: A float holds whole numbers exactly up to here.
_EXACT_WHOLE = 2**53


def profile_object(launches: Sequence[ProfiledLaunch], refused: Sequence[Refused], *, lines: bool) -> dict[str, Any]:
    """Return the object that ``kerncast profile --json`` prints; ``lines`` adds the counts of source lines."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kernels": [_kernel(each, lines=lines) for each in launches],
        "refused": [{"kernel": r.kernel, "launch": r.launch, "gpu": r.gpu, "reason": r.reason} for r in refused],
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
        "accesses": [_access(each) for each in profile.accesses],
        "ptx_instructions": _ptx_instructions(profile),
        **({} if gpu is None else {"opcodes": _opcodes(profile)}),
        "basic_blocks": [_basic_block(each) for each in profile.blocks],
        **({"lines": [_line(each) for each in profile.lines]} if lines else {}),
        **({} if gpu is None else {"warp_states": _warp_states(profile.warp_states, lines=lines)}),
        "caveats": list(launch.caveats),
    }


def _warp_states(found: WarpStates | None, *, lines: bool) -> dict[str, Any] | None:
    if found is None:
        return None
    by_line = [{"file": each.file, "line": each.line, "warp_cycles": _cycles(each.states)} for each in found.lines]
    return {
        "seconds": found.seconds,
        "cycles": found.cycles,
        "blocks_simulated": found.blocks_simulated,
        "simulated_cycles": found.simulated_cycles,
        "issued": found.issued,
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
    return {"blocks_executed": found.blocks_executed, "blocks": found.blocks, "is_whole_grid": found.is_whole_grid}


def _access(each: AccessCount) -> dict[str, Any]:
    names = ("requests", "threads", "nbytes", "sectors", "lines", "wavefronts", "conflicts", "contention")
    counts = {name.replace("nbytes", "bytes"): _count(getattr(each, name)) for name in names}
    return {"space": each.space, "operation": each.operation, **counts}


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
        "critical_path": each.critical_path,
        "parallelism": each.parallelism,
        "dependency_distance": each.dependency_distance,
        "loop_depth": each.loop_depth,
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
