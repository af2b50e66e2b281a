"""NOUN GPU: what is known of a chip and of its architecture, and the files that say so."""

from kerncast.gpu.architecture import WARP_SIZE, Architecture, Cycles, load_architecture
from kerncast.gpu.carveout import CarveoutWish, default_bytes, granted_bytes, parse_carveout, preferred_bytes
from kerncast.gpu.confidence import BEYOND, Doubt, doubts
from kerncast.gpu.files import DATA, Fact, Rule, Status, Value, rules
from kerncast.gpu.gpu import GPU, Rate, launch_overhead_s, list_gpus, load_gpu, resolve_gpu
from kerncast.gpu.incomplete import IncompleteGPU, list_incomplete, load_incomplete
from kerncast.gpu.names import GPU_FOLDER, find_id, find_incomplete, normalise, read_names

__all__ = [
    "BEYOND",
    "DATA",
    "GPU",
    "GPU_FOLDER",
    "WARP_SIZE",
    "Architecture",
    "CarveoutWish",
    "Cycles",
    "Doubt",
    "Fact",
    "IncompleteGPU",
    "Rate",
    "Rule",
    "Status",
    "Value",
    "default_bytes",
    "doubts",
    "find_id",
    "find_incomplete",
    "granted_bytes",
    "launch_overhead_s",
    "list_gpus",
    "list_incomplete",
    "load_architecture",
    "load_gpu",
    "load_incomplete",
    "normalise",
    "parse_carveout",
    "preferred_bytes",
    "read_names",
    "resolve_gpu",
    "rules",
]
