"""Metrics of time and of what warps wait for, from the simulation of one SM."""

from collections.abc import Iterator

from kerncast.gpu import GPU
from kerncast.kernel_profile import Count, Origin
from kerncast.report.vocabulary import Metric, measured
from kerncast.units import NANOSECOND, PERCENT
from kerncast.warp_states import WarpStates


def warp_metrics(found: WarpStates, gpu: GPU) -> Iterator[Metric]:
    """Yield the duration, how busy schedulers and resources are, and the warps in each state per issued instruction."""
    slots = found.schedulers * found.simulated_cycles
    most = gpu.architecture.max_warps_per_sm
    values = {
        "gpu__time_duration.sum": found.seconds / NANOSECOND,
        "sm__cycles_elapsed.max": found.cycles,
        "sm__warps_active.avg.pct_of_peak_sustained_active": _percent(active_warps(found), most),
        "smsp__inst_executed.avg.per_cycle_active": found.issued / slots,
        "smsp__issue_active.avg.pct_of_peak_sustained_active": _percent(found.issued, slots * issue_width(gpu)),
        "smsp__average_warp_latency_per_inst_issued.ratio": found.warp_cycles / found.issued,
    }
    for each in found.states:
        name = f"smsp__average_warps_issue_stalled_{each.state}_per_issue_active.ratio"
        values[name] = each.warp_cycles / found.issued
    for resource in found.resources:
        values[f"kerncast__roof_{resource.resource}.pct"] = _percent(resource.share, 1.0)
    for name, value in values.items():
        yield measured(name, Count.exact(value), Origin.SIMULATED)


def active_warps(found: WarpStates) -> float:
    """Return how many warps were on the SM in the mean."""
    return found.warp_cycles / found.simulated_cycles


def issue_width(gpu: GPU) -> int:
    """Return how many instructions a scheduler issues at most in one cycle."""
    return max(1, gpu.architecture.warp_instructions_per_clock_per_sm // gpu.architecture.schedulers_per_sm)


def _percent(part: float, whole: float) -> float:
    return min(1.0, part / whole) / PERCENT
