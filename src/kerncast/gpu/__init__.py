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
    DoBench,
    IncompleteGPU,
    Rate,
    default_bytes,
    do_bench,
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
from kerncast.gpu.tensor_rates import (
    FACTORS,
    TensorRate,
    group_rate,
    has_products_by_quads,
    kind_of_factor,
    rate_in_use,
    tensor_rate,
)

__all__ = [
    "DATA", "FACTORS", "GPU", "GPU_FOLDER", "WARP_SIZE", "Architecture", "CarveoutWish", "Cycles", "DoBench", "Fact",
    "IncompleteGPU", "Rate", "Rule", "Status", "TensorRate", "Value", "default_bytes", "do_bench", "find_id",
    "find_incomplete", "granted_bytes", "group_rate", "has_products_by_quads", "kind_of_factor", "launch_overhead_s",
    "list_gpus", "list_incomplete", "load_architecture", "load_gpu", "load_incomplete", "normalise", "parse_carveout",
    "preferred_bytes", "rate_in_use", "read_names", "resolve_gpu", "rules", "tensor_rate", "varied",
]  # fmt: skip
