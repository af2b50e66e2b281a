"""NOUN GPU: what is known of a chip and of its architecture, and the files that say so."""

from kerncast.gpu.files import (
    DATA,
    GPU_FOLDER,
    Fact,
    Rule,
    Status,
    Value,
    find_id,
    find_incomplete,
    normalise,
    read_names,
    rules,
)
from kerncast.gpu.gpu import (
    GPU,
    WARP_SIZE,
    Architecture,
    CarveoutWish,
    Cycles,
    IncompleteGPU,
    Rate,
    default_bytes,
    granted_bytes,
    launch_overhead_s,
    list_gpus,
    list_incomplete,
    load_architecture,
    load_gpu,
    load_incomplete,
    parse_carveout,
    preferred_bytes,
    resolve_gpu,
    varied,
)

__all__ = [
    "DATA", "GPU", "GPU_FOLDER", "WARP_SIZE", "Architecture", "CarveoutWish", "Cycles", "Fact", "IncompleteGPU",
    "Rate", "Rule", "Status", "Value", "default_bytes", "find_id", "find_incomplete", "granted_bytes",
    "launch_overhead_s", "list_gpus", "list_incomplete", "load_architecture", "load_gpu", "load_incomplete",
    "normalise", "parse_carveout", "preferred_bytes", "read_names", "resolve_gpu", "rules", "varied",
]  # fmt: skip
