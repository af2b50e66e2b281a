"""NOUN NcuRow: one launch as Nsight Compute saw it, from whichever file, with its metrics in base units."""

from dataclasses import dataclass

from kerncast.launch import Extent


@dataclass(frozen=True, slots=True)
class NcuMetric:
    """One metric of one launch, in ncu's base unit."""

    name: str
    value: float
    unit: str
    """byte, ns, hz, cycle, inst, sector, %, …; a rate is per s, such as byte/s; empty where ncu prints none"""


@dataclass(frozen=True, slots=True)
class NcuRow:
    """One launch that Nsight Compute profiled."""

    number: int
    """ncu's ID"""
    kernel: str
    """as ncu prints it, such as void reduce<float, 256>(const T1 *, T1 *)"""
    grid: Extent | None
    """None where the file does not say"""
    block: Extent | None
    compute_capability: str | None
    metrics: tuple[NcuMetric, ...]
    """without those that ncu could not collect"""
    device: str | None = None
    """marketing name of the GPU; None where the file does not say, as in most CSV"""

    empties_caches: bool = True
    """whether the profiler empties them before each pass unless told otherwise: ncu does, others do not"""

    def value(self, name: str) -> float | None:
        """Return the value of a metric, or None where the file has none."""
        return next((metric.value for metric in self.metrics if metric.name == name), None)
