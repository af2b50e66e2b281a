"""A launch on parts of a GPU: forecasts, and the features that a training table has."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kerncast.caveats import Caveat
from kerncast.errors import Refusal
from kerncast.forecast import Forecast, Means, Options, forecast_all, profile_launch
from kerncast.forecast.compiled_launch import Source, compile_and_count
from kerncast.forecast.gathered import in_limits
from kerncast.gpu import GPU
from kerncast.gpu.slices import with_sms
from kerncast.launch import Launch
from kerncast.measurements import CountFeatures, PartitionTimes
from kerncast.measurements.feature_table import FeatureTable
from kerncast.metrics import metrics_of
from kerncast.models import Case
from kerncast.models.sm.worst_path import WorstPath
from kerncast.occupancy import block_request_of, occupancy
from kerncast.prediction import Timing
from kerncast.profiles import KernelProfile
from kerncast.studies.bounds import Blocks
from kerncast.studies.bounds.base import Curve
from kerncast.studies.bounds.published.forms import Selected, selected_features
from kerncast.studies.bounds.simulation import SimulatedCurve, simulated_curve


@dataclass(frozen=True, slots=True)
class SimulatedPartitions:
    """The simulation of one launch on numbers of TPCs."""

    curve: SimulatedCurve
    model: str
    """name of the model: the simulation, or what stands in for it"""
    blocks: Blocks | None
    """blocks of the grid on a TPC; None where the occupancy is unknown"""
    caveats: tuple[Caveat, ...]


#: A GPU, and numbers of its TPCs, ascending.
Parts = tuple[GPU, tuple[int, ...]]


def part_of(gpu: GPU, tpcs: int) -> GPU:
    """Return a GPU with so many TPCs, with the whole L2 and DRAM; where TPCs are unknown, one SM counts as one.

    >>> from kerncast.gpu.gpu import load_gpu
    >>> part_of(load_gpu("TITAN V"), 10).sm_count
    20
    """
    part = with_sms(gpu, min(gpu.sm_count, tpcs * sms_per_tpc(gpu)))
    return replace(part, id=f"{gpu.id}-{tpcs}-tpcs", name=f"{gpu.name} with {tpcs} TPCs")


def sms_per_tpc(gpu: GPU) -> int:
    """Return the SMs of a TPC, 1 where that is unknown."""
    return gpu.architecture.sms_per_tpc or 1


def most_tpcs(gpu: GPU) -> int:
    """Return the TPCs of a GPU; where they are unknown, its SMs."""
    return gpu.tpc_count or gpu.sm_count


def simulated_partitions(
    launch: Launch, parts: Parts, level: float, timing: Timing, means: Means | None = None
) -> SimulatedPartitions:
    """Forecast a launch on each number of TPCs; raises Refusal where one is not simulated."""
    gpu, tpcs = parts
    # Of a GPU that lacks facts for the simulation, the roofline is the curve.
    options = Options(None, timing, level=level)
    forecast = forecast_on(launch, [part_of(gpu, count) for count in tpcs], options, means)
    found = forecast.predictions
    return SimulatedPartitions(
        simulated_curve(tpcs, found, level),
        " and ".join(dict.fromkeys(each.model for each in found)),
        _blocks(forecast, gpu),
        tuple(dict.fromkeys(caveat for each in found for caveat in each.caveats)),
    )


def forecast_on(launch: Launch, gpus: Sequence[GPU], options: Options, means: Means | None = None) -> Forecast:
    """Forecast one launch on each of some GPUs; raises Refusal where one of them is refused."""
    means = means or Means()
    options = replace(options, budget=means.budget, apart=means.apart)
    forecast = forecast_all(launch, [(each, ()) for each in gpus], options, means.progress).whole()
    if len(forecast.predictions) < len(gpus):
        first = forecast.refused[0]
        raise forecast.first_refusal or Refusal(f"{first.kernel} on {first.gpu}: {first.reason}")
    return forecast


def worst_paths(launch: Launch, parts: Parts, timing: Timing, means: Means | None = None) -> Curve:
    """Return how long a launch takes at most on each number of TPCs, at the GPU's base clock."""
    return in_limits(Curve, lambda inside: _worst_paths(launch, parts, timing, inside), [launch], means or Means())


def _worst_paths(launch: Launch, parts: Parts, timing: Timing, means: Means) -> Curve:
    gpu, tpcs = parts
    name = gpu.architecture.code_name
    compiled = compile_and_count(launch, [name], means)
    known = compiled.on(name)
    if known is None:
        raise compiled.failures[0].refusal
    seconds = []
    for number, count in enumerate(tpcs):
        part = part_of(gpu, count)
        if means.progress:
            means.progress(f"worst path of {known.profile.kernel} on {part.name}", number, len(tpcs))
        case = Case(known.profile, part if gpu.clock_base_hz is None else part.at_clock("base"), launch=launch)
        seconds.append(Source(known).estimate(WorstPath(), case, timing).seconds)
    return Curve(tpcs, tuple(seconds)).never_rising()


def _blocks(forecast: Forecast, gpu: GPU) -> Blocks | None:
    profile = forecast.profiled[0].profile
    request = block_request_of(profile)
    if request is None:
        return None
    resident = occupancy(request, gpu.architecture).blocks_per_sm
    return Blocks(math.prod(profile.grid), max(1, resident) * sms_per_tpc(gpu))


def with_executed_features(
    times: PartitionTimes, launch: Launch, training: FeatureTable, on: tuple[GPU, Sequence[int]], means: Means | None
) -> PartitionTimes:
    """Return measured times with the features of a launch on each number of TPCs.

    ``on`` is the GPU and the counts. The features are those of section 3.2 that the training table has. Raises Refusal
    where the launch cannot be simulated.
    """
    gpu, tpcs = on
    names = selected_features([training.names])
    found = [executed_features(launch, part_of(gpu, count), gpu, means) for count in tpcs]
    rows = tuple(
        CountFeatures(count, tuple(row[each.value[0]] for each in names))
        for count, row in zip(tpcs, found, strict=True)
    )
    return replace(times, feature_names=tuple(names.values()), features=rows)


def executed_features(launch: Launch, part: GPU, gpu: GPU, means: Means | None = None) -> dict[str, float]:
    """Return every metric of a launch on a part of a GPU by its name, the five of section 3.2 among them.

    All SMs that have blocks are taken to be as long busy as the busiest one. Cycles elapse on all SMs of the GPU, as a
    profiler counts them where a kernel is kept from some. Raises Refusal where the launch cannot be simulated.
    """
    found = in_limits(
        KernelProfile,
        lambda inside: profile_launch(launch, part, inside.budget, inside.progress),
        [launch],
        means or Means(),
    )
    metrics = {metric.name: float(metric.count.value) for metric in metrics_of(found, part)}
    if found.warp_states is None:
        raise Refusal(f"{found.kernel} is not simulated on {part.name}, so that its cycles are unknown")
    cycles = metrics["sm__cycles_elapsed.max"]
    return (
        {each.value[0]: 0.0 for each in Selected}
        | metrics
        | {
            Selected.CYCLES_ELAPSED.value[0]: cycles * gpu.sm_count,
            Selected.CYCLES_ACTIVE.value[0]: cycles * min(part.sm_count, math.prod(found.grid)),
        }
    )
