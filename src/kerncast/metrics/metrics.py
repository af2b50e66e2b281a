"""A profile as metrics: Nsight Compute's names where it has the counter, names of our own where it has none."""

from collections.abc import Iterator, Mapping

from kerncast.gpu import GPU
from kerncast.metrics.execution import (
    execution_metrics,
    launch_metrics,
    machine_metrics,
    sampling_metrics,
    warp_metrics,
)
from kerncast.metrics.memory import cache_metrics, memory_metrics
from kerncast.metrics.metric_names import Metric, is_word, measured, place_of, word
from kerncast.profiles import Count, KernelProfile, Origin

__all__ = ["Metric", "metrics_of"]


def metrics_of(profile: KernelProfile, gpu: GPU | None = None) -> tuple[Metric, ...]:
    """Return every metric that is known, in the order of the vocabulary; without a GPU those that none changes."""
    found = {each.name: each for metrics in (_derived(profile, gpu), _counted(profile)) for each in metrics}
    shown = [each for each in found.values() if gpu is not None or not word(each.name).needs_gpu]
    return tuple(sorted(shown, key=lambda each: place_of(each.name)))


def _counted(profile: KernelProfile) -> Iterator[Metric]:
    for name, row in profile.counts.rows.items():
        if is_word(name):
            yield measured(name, row.count, row.origin)


def _derived(profile: KernelProfile, gpu: GPU | None) -> Iterator[Metric]:
    yield from launch_metrics(profile, gpu)
    if profile.machine is not None:
        yield from machine_metrics(profile.machine)
    yield from _of(profile.origin, execution_metrics(profile))
    if profile.mix is not None:  # what was not executed has no accesses, which does not mean that it makes none
        yield from _of(Origin.EXECUTED, memory_metrics(profile))
    if profile.caches is not None:
        yield from _of(Origin.SIMULATED, cache_metrics(profile, profile.caches))
    if profile.warp_states is not None and gpu is not None:
        yield from warp_metrics(profile.warp_states, gpu)
    if profile.sampling is not None:
        yield from sampling_metrics(profile.sampling)


def _of(origin: Origin, values: Mapping[str, Count | None]) -> Iterator[Metric]:
    for name, value in values.items():
        if value is not None:
            yield measured(name, value, origin)
