"""NOUN SM: one streaming multiprocessor as one kernel finds it, in cycles of its clock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SM:
    """What the simulation needs to know; all rates are of one SM, with the others as busy as it is."""

    sub_partitions: int
    """each has a scheduler; warps belong to them in turn"""
    issue_width: int
    """instructions of one warp that a scheduler issues in one cycle"""
    is_oldest_first: bool
    """whether a scheduler takes the warp in the lowest slot, for the one resident longest; else in turn"""
    pipe_cycles: tuple[float, ...]
    """[Pipe] that a warp instruction occupies its pipe"""
    pipe_latency: tuple[float, ...]
    """[Pipe] from issue to result"""
    fma_cycles: tuple[float, ...]
    """[Pipe] that a warp instruction of another pipe occupies the FMA pipe too; 0 where it does not use it"""
    lsu_cycles: float
    """that each instruction occupies the load/store queue which all sub-partitions share"""
    wavefront_cycles: float
    """of shared memory"""
    replay_cycles: float
    """of shared memory, for each wavefront that a bank conflict adds"""
    l1_tag_cycles: float
    """per 128-byte line of a request"""
    l1_bytes_per_cycle: float
    """of hits"""
    store_line_cycles: float
    """per 128-byte line of a store"""
    l1_is_apart: bool
    """whether L1 is no part of shared memory, so that their accesses do not wait for one another"""
    l1_lines: int
    """128-byte lines; 0: no L1 for global memory"""
    l1_operations: int
    """one bit for each recording.Operation that L1 keeps data for"""
    stores_allocate: bool
    """whether a store puts its data into L1"""
    l2_path_bytes_per_cycle: float
    """of reads: what the way back from L2 to this SM carries"""
    l2_bytes_per_cycle: float
    """of reads: the share of this SM in what L2 delivers"""
    l2_write_bytes_per_cycle: float
    dram_bytes_per_cycle: float
    """of reads: the share of this SM"""
    dram_write_bytes_per_cycle: float
    dram_read_share: float
    """of the sectors that L2 is asked for"""
    dram_write_share: float
    """of the sectors that are written to L2"""
    dram_local_share: float
    """of the sectors of local memory that are read from L2 or written to it"""
    shared_latency: float
    l1_latency: float
    l2_latency: float
    dram_latency: float
    """from the request, as the others"""
    barrier_latency: float
    branch_latency: float
    """from a branch to the next instruction of its warp"""
    block_launch_cycles: float
    """from the end of a block to the first instruction of the one that takes its place"""
    atomic_cycles: float
    """that atomics on one sector occupy this SM's share of L2, and each further lane on the most wanted address where a
    warp updates several; alone it is one update"""
    shared_atomic_cycles: float
    """per lane that wants the same address of shared memory"""
    lsu_queue_cycles: float
    """of work that the load/store queue takes in before warps have to wait; likewise those below"""
    l2_queue_cycles: float
    dram_queue_cycles: float
    atomic_queue_cycles: float
    l1_pass_cycles: float = 0.0
    """that each pass of a load through the banks of L1 takes; 0: only its sectors count"""
    joined_wavefronts: float = 0.0
    """that each access which the compiler joined into one shared load takes at least"""
    reissue_cycles: float = 0.0
    """until an access is issued again, for each wavefront that a bank conflict adds: its warp waits meanwhile"""
    hot_line: int = -1
    """line that all blocks read so often that its slice of L2 is busier than the others; -1: none"""
    hot_sector_cycles: float = 0.0
    """that a sector read from it occupies this SM's share of its slice"""
    sector_slice_cycles: float = 0.0
    """that any other sector occupies that share on average"""
