"""Models that others have published, a file each."""

from kerncast.models.published.convolution import (
    ComputeTime,
    Convolution,
    ConvolutionLatency,
    ConvolutionLayer,
    MemoryTime,
    bandwidth_time,
    blocks_at_a_time,
    compute_time,
    execution_seconds,
    latency_time,
    layer_of,
    machine_of,
    operational_intensity,
    ops_per_second,
    published_titan_v,
)
from kerncast.models.published.template import Template

__all__ = [
    "ComputeTime", "Convolution", "ConvolutionLatency", "ConvolutionLayer", "MemoryTime", "Template",
    "bandwidth_time", "blocks_at_a_time", "compute_time", "execution_seconds", "latency_time", "layer_of",
    "machine_of", "operational_intensity", "ops_per_second", "published_titan_v",
]  # fmt: skip
