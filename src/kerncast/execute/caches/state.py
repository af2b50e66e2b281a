"""What generated code and Python share of a simulation: caches, warps, slots and SMs as NumPy structures."""

import numpy as np

WAYS = 16
#: One cache: for each set WAYS tags, ages and bits (four valid sectors, and above them four dirty ones).
CACHE = np.dtype(
    [
        ("tags", "u8"),
        ("ages", "u8"),
        ("bits", "u8"),
        ("sets", "u4"),
        ("ways", "u4"),  # as bits: fewer than WAYS in a cache of less than a set
        ("age", "u4"),  # lookups so far
        ("pad", "u4"),
    ],
    align=True,
)
#: One resident warp.
WARP = np.dtype([("segment", "i8"), ("position", "i8"), ("stop", "i8"), ("state", "u4"), ("pad", "u4")], align=True)
RUNS, WAITS, GONE = 0, 1, 2
#: One place for a block in an SM: position of its block in the recording, and how many of its warps wait or are gone.
SLOT = np.dtype([("row", "i4"), ("stopped", "u4")])
EMPTY_SLOT = -1
#: One SM: which of its warps have an event to issue, which is next, and how many of its slots hold a block.
SM = np.dtype([("ready", "i8"), ("next", "u4"), ("busy", "u4")], align=True)

COUNTERS = (
    "l1_load_sectors", "l1_load_hits", "l1_local_sectors", "l1_local_hits", "l2_read_sectors", "l2_read_hits",
    "l2_write_sectors", "l2_write_hits", "l2_atomic_sectors", "l2_atomic_hits", "l2_dirtied_sectors",
    "dram_read_sectors", "dram_write_sectors",
)  # fmt: skip

SIMULATION = np.dtype(
    [
        ("counters", "i8", len(COUNTERS)),
        ("events", "u8"),
        ("segments", "u8"),  # sorted by block and warp
        ("chains", "u8"),  # of each warp of each block: its first segment
        ("l1", "u8"),  # array of CACHE, one per SM, and behind them those for read-only loads where they are others
        ("l2", "u8"),
        ("warps", "u8"),  # array of WARP: [SM, slot, warp]
        ("slots", "u8"),  # array of SLOT: [SM, slot]
        ("sms", "u8"),  # array of SM
        ("snapshots", "u8"),  # counters after each further part of the blocks
        ("rows", "i8"),
        ("next_row", "i8"),
        ("finished", "i8"),
        ("snapshot_every", "i8"),  # blocks
        ("snapshot_count", "i8"),
        ("sm_count", "u4"),
        ("resident", "u4"),
        ("block_warps", "u4"),
        ("local_lines", "u4"),
        ("uses_l1", "u4"),  # one bit per recording.Operation
        ("stores_allocate", "u4"),
        ("read_only_bytes", "u4"),  # from an SM's L1 to its cache for read-only loads in the array
        ("fetch", "u4"),  # sectors that L2 reads from DRAM where one is missing: 1, 2 or 4, aligned
        ("pad", "u4"),
        ("rounds", "i8"),  # until it reports to Python
    ],
    align=True,
)
