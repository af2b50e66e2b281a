"""Named numbers of a profile: Nsight Compute's metrics and the features that models learn from."""

from kerncast.metrics.execution import (
    active_warps,
    barriers_per_warp,
    dependency_distance,
    dram_bracket,
    flops,
    flops_per_byte,
    issue_width,
    occupancy_of,
    parallelism,
    warps_per_block,
    waves,
)
from kerncast.metrics.features import FEATURES, AccessClass, feature_row, pattern_of
from kerncast.metrics.memory import Accesses, accesses, l2_totals, occurring_accesses, wave_bytes
from kerncast.metrics.metric_names import Metric, is_word, percentage, place_of, ratio, total, vocabulary, word
from kerncast.metrics.metrics import metrics_of

__all__ = [
    "FEATURES",
    "AccessClass",
    "Accesses",
    "Metric",
    "accesses",
    "active_warps",
    "barriers_per_warp",
    "dependency_distance",
    "dram_bracket",
    "feature_row",
    "flops",
    "flops_per_byte",
    "is_word",
    "issue_width",
    "l2_totals",
    "metrics_of",
    "occupancy_of",
    "occurring_accesses",
    "parallelism",
    "pattern_of",
    "percentage",
    "place_of",
    "ratio",
    "total",
    "vocabulary",
    "warps_per_block",
    "wave_bytes",
    "waves",
    "word",
]  # fmt: skip
