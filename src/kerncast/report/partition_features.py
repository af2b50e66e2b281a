"""Features of a launch on parts of a GPU, by execution and simulation, under the names that a training table has."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kerncast.characterised import Progress
from kerncast.feature_table import FeatureTable
from kerncast.forecast import profile
from kerncast.gpu import GPU
from kerncast.kernel_profile import KernelProfile
from kerncast.partition_times import CountFeatures, PartitionTimes
from kerncast.report.metrics import metrics_of
from kerncast.studies.bounds.forms import Selected, selected_features
from kerncast.studies.partitions import only_launch, part_of


def with_executed_features(
    times: PartitionTimes, path: Path, training: FeatureTable, on: tuple[GPU, Sequence[int]], progress: Progress | None
) -> PartitionTimes:
    """Return measured times with the features of the only launch of a file on each number of TPCs.

    ``on`` is the GPU and the counts. The features are those of section 3.2 that the training table has. Raises Refusal
    where the launch cannot be simulated, InputError where it is not the only one.
    """
    gpu, tpcs = on
    launch = only_launch(path)
    names = selected_features([training.names])
    rows = []
    for count in tpcs:
        part = part_of(gpu, count)
        found = _features(profile(launch, part, progress=progress), part, gpu)
        rows.append(CountFeatures(count, tuple(found[each] for each in names)))
    return replace(times, feature_names=tuple(names.values()), features=tuple(rows))


def _features(found: KernelProfile, part: GPU, gpu: GPU) -> dict[Selected, float]:
    """Return the five features; all SMs that have blocks are taken to be as long busy as the busiest one.

    Cycles elapse on all SMs of the GPU, as a profiler counts them where a kernel is kept from some.
    """
    metrics = {metric.name: float(metric.count.value) for metric in metrics_of(found, part)}
    cycles = metrics["sm__cycles_elapsed.max"]
    values = {each: metrics.get(each.value[0], 0.0) for each in Selected}
    return values | {
        Selected.CYCLES_ELAPSED: cycles * gpu.sm_count,
        Selected.CYCLES_ACTIVE: cycles * min(part.sm_count, math.prod(found.grid)),
    }
