"""NOUN Launch: a kernel, its grid and its arguments; reads and writes launch files."""

from kerncast.launch.clusters import (
    MOST_CLUSTER_BLOCKS,
    NO_CLUSTER,
    PORTABLE_CLUSTER_BLOCKS,
    blocks_of_clusters,
    check_cluster,
    cluster_grid,
    clusters_of_blocks,
)
from kerncast.launch.launch import (
    BLOCK_PARAMETERS,
    DEFAULT_STANDARD,
    ELEMENT_BYTES,
    FILL_FILE,
    FLOAT_ELEMENTS,
    MAX_BLOCK,
    MAX_GRID,
    MAX_THREADS_PER_BLOCK,
    STANDARDS,
    Argument,
    Buffer,
    Extent,
    Fill,
    Launch,
    Reference,
    Settings,
    Struct,
    Value,
    base_name,
    check_geometry,
    check_standard,
    do_same,
    is_tuned_so,
    load_launches,
    parse_extent,
    parse_launches,
    parse_value,
    read_toml,
)
from kerncast.launch.seen_memory import Memory, Region

__all__ = [
    "BLOCK_PARAMETERS", "DEFAULT_STANDARD", "ELEMENT_BYTES", "FILL_FILE", "FLOAT_ELEMENTS", "MAX_BLOCK", "MAX_GRID",
    "MAX_THREADS_PER_BLOCK", "MOST_CLUSTER_BLOCKS", "NO_CLUSTER", "PORTABLE_CLUSTER_BLOCKS", "STANDARDS", "Argument",
    "Buffer", "Extent", "Fill", "Launch", "Memory", "Reference", "Region", "Settings", "Struct", "Value", "base_name",
    "blocks_of_clusters", "check_cluster", "check_geometry", "check_standard", "cluster_grid", "clusters_of_blocks",
    "do_same", "is_tuned_so", "load_launches", "parse_extent", "parse_launches", "parse_value", "read_toml",
]  # fmt: skip
