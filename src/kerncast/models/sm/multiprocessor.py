"""A GPU and the caches that a kernel finds there become the SM that is simulated."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU
from kerncast.models.base import known_fact
from kerncast.models.sm.micro_ops import Pipe, Program
from kerncast.occupancy import CacheGeometry, l1_operations
from kerncast.profiles import SECTOR_BYTES
from kerncast.traces import (
    LINE_BITS,
    LINE_BYTES,
    MASK_SHIFT,
    OPERATION_MASK,
    OPERATION_SHIFT,
    FootprintCurve,
    Operation,
    SMTrace,
)

# How much longer DRAM takes where each row that it opens gives or takes few bytes.
#
# A channel opens a row at most every so many nanoseconds. Bytes that lie in one row and are wanted at about the same
# time need it opened once: reads, what is on its way at once (bandwidth x latency), but of some neighbouring blocks
# at least, because they run in step; writes, what the blocks of a wave write, because L2 keeps it longer. Equation:
# slowdown = max(1, bandwidth / (bytes per row x rows per second)), for reads and for writes by itself. Fails when:
# each thread walks along a row of its own for long, because the rows of whole blocks are looked at, which these fill
# in the end; when L2 gathers what later waves write; where what L2 holds hides how scattered the rest is. Without it,
# transposes of HeCBench were forecast at 0.55 to 0.72 of their times.

#: Neighbouring blocks that are taken to run in step, whatever they touch; blocks far apart would make random accesses
#: look dense.
_IN_STEP = 8
#: Counted blocks below which nothing is known of the rows beside a block's tile.
_FEWEST = 4


@dataclass(frozen=True, slots=True)
class RowSlowdown:
    """Time that DRAM takes relative to as many bytes in long rows; at least 1."""

    read: float = 1.0
    """factor for reads"""
    written: float = 1.0
    """factor for writes"""


NO_SLOWDOWN = RowSlowdown()


def row_slowdown(curve: FootprintCurve, gpu: GPU, wave_blocks: int, written: float = 0.5) -> RowSlowdown:
    """Return what opening rows costs; nothing where the GPU's file does not tell how fast it opens them.

    ``written`` is the part of DRAM's traffic that is.
    """
    rows_per_s, latency = gpu.dram_rows_per_s, gpu.dram_latency
    bandwidth = gpu.dram_bytes_per_s_of(written)
    counted = int(curve.blocks[-1])
    if rows_per_s is None or latency is None or counted < min(_FEWEST, curve.grid_blocks):
        return NO_SLOWDOWN
    # Little's law: bandwidth x latency is in flight at once, and can be sorted by row.
    on_the_way = bandwidth * latency / gpu.clock_hz / SECTOR_BYTES
    sectors_at_full_rate = bandwidth / rows_per_s / SECTOR_BYTES
    reading = min(max(_IN_STEP, curve.blocks_for(on_the_way, "read")), wave_blocks)
    return RowSlowdown(
        read=max(1.0, sectors_at_full_rate / curve.sectors_per_row(reading, "read")),
        written=max(1.0, sectors_at_full_rate / curve.sectors_per_row(wave_blocks, "written")),
    )


# The line of global memory that all blocks read most: it lies in one slice of L2, which all SMs then wait for.
#
# A slice delivers so many bytes per clock, whoever asks. Of what is spread over many lines each slice has its share;
# what every warp of a grid reads from one and the same line comes from one of them. Source: counters of
# backprop_adjust_weights on K20, K40 and GTX TITAN (gpuperfpredict): 6 sectors of one line and 27.5 others per warp
# in 20, 24 and 24 slices make 7.4, 7.1 and 7.1 cycles per warp of the grid; measured are 7.2, 7.8 and 7.0, whatever
# the number of SMs. Fails when: several such lines lie in one slice, or blocks read a line at the same time though
# not all of the grid do.

_LOADS = (Operation.LOAD, Operation.LOAD_READ_ONLY, Operation.LOAD_UNCACHED)
_SECTORS = np.array([mask.bit_count() for mask in range(16)], np.int64)


@dataclass(frozen=True, slots=True)
class HotLine:
    """One 128-byte line that every block reads."""

    line: int
    """number of the line"""
    sectors_per_block: float
    """sectors of it that a block reads from L2, on average"""


def hot_line(trace: SMTrace, l1_operations: int, slices: float, beside: SMTrace) -> HotLine | None:
    """Return the line that makes one slice of L2 busier than the mean of all, None where there is none.

    ``l1_operations``: one bit for each operation that L1 answers. ``beside``: two blocks with consecutive numbers,
    because blocks of one SM may share what others do not read.
    """
    for line in hot_lines(trace, l1_operations, slices):
        if _is_in_each(line, beside, l1_operations):
            all_lines, all_sectors = _loads(trace.events, l1_operations)
            return HotLine(int(line), float(all_sectors[all_lines == line].sum()) / len(trace.block_ids))
    return None


def hot_lines(trace: SMTrace, l1_operations: int, slices: float) -> Iterator[np.uint64]:
    """Yield the lines that each of these blocks reads, and that keep one slice busier than the mean of all."""
    lines, sectors = _loads(trace.head(1).events, l1_operations)
    own, place = np.unique(lines, return_inverse=True)
    read = np.bincount(place, sectors, len(own))
    for number in np.argsort(-read, kind="stable"):
        # No line that is read less can exceed a slice's share of the traffic either.
        if read[number] * slices <= read.sum():
            return
        if _is_in_each(own[number], trace, l1_operations):
            yield own[number]


def _is_in_each(line: np.uint64, trace: SMTrace, l1_operations: int) -> bool:
    """Tell whether each block reads a line."""
    ends = trace.chains[:: trace.warps]
    blocks = (trace.events[start:stop] for start, stop in pairwise(ends.tolist()))
    return all(bool((_loads(events, l1_operations)[0] == line).any()) for events in blocks)


def _loads(events: npt.NDArray[np.uint64], l1_operations: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return line and number of sectors of each load that L1 does not answer."""
    operation = events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
    wanted = [load for load in _LOADS if not l1_operations >> load & 1]
    found = events[np.isin(operation, np.array(wanted, np.uint64))]
    masks = (found >> np.uint64(MASK_SHIFT) & np.uint64(0xF)).astype(np.int64)
    return found & np.uint64(2**LINE_BITS - 1), _SECTORS[masks]


@dataclass(frozen=True, slots=True)
class SM:
    """The SM's rates, latencies and caches; all rates hold while the other SMs are as busy as this one."""

    sub_partitions: int
    """schedulers with their pipes; warps belong to them in turn"""
    issue_width: int
    """instructions of one warp that a scheduler issues in one cycle"""
    is_oldest_first: bool
    """whether a scheduler takes the warp in the lowest slot, for the one resident longest; else round robin"""
    pipe_cycles: tuple[float, ...]
    """[Pipe] cycles that a warp instruction occupies its pipe"""
    pipe_latency: tuple[float, ...]
    """[Pipe] cycles from issue to result"""
    fma_cycles: tuple[float, ...]
    """[Pipe] cycles of the FMA pipe that an instruction of this pipe takes besides; 0: none"""
    lsu_cycles: float
    """cycles of the SM's load/store queue for each instruction, whatever it accesses"""
    wavefront_cycles: float
    """cycles of a wavefront of shared memory"""
    replay_cycles: float
    """cycles of a wavefront that a bank conflict adds"""
    l1_tag_cycles: float
    """cycles that L1 takes to look up a 128-byte line"""
    l1_bytes_per_cycle: float
    """bytes per cycle that L1 delivers on hits"""
    store_line_cycles: float
    """cycles of the load/store queue for a 128-byte line that is stored"""
    l1_is_apart: bool
    """whether L1 is separate from shared memory: their accesses then do not wait for one another"""
    l1_lines: int
    """capacity of L1 in 128-byte lines; 0: no L1 for global memory"""
    l1_operations: int
    """one bit for each traces.Operation whose data L1 keeps"""
    stores_allocate: bool
    """whether a store puts its data into L1"""
    l2_path_bytes_per_cycle: float
    """bytes per cycle that the path from L2 to this SM carries"""
    l2_bytes_per_cycle: float
    """bytes per cycle of this SM's share of L2 for reads"""
    l2_write_bytes_per_cycle: float
    """bytes per cycle of this SM's share of L2 for writes"""
    dram_bytes_per_cycle: float
    """bytes per cycle of this SM's share of DRAM for reads"""
    dram_write_bytes_per_cycle: float
    """bytes per cycle of this SM's share of DRAM for writes"""
    dram_read_share: float
    """share of the sectors read from L2 that come from DRAM"""
    dram_write_share: float
    """share of the sectors written to L2 that go on to DRAM"""
    dram_local_share: float
    """share of local memory's sectors, read or written, that DRAM sees"""
    dram_atomic_share: float
    """share of the sectors that atomics update that DRAM sees, reading and writing"""
    shared_latency: float
    """cycles from a request to its data in shared memory"""
    l1_latency: float
    """cycles from a request to its data in L1"""
    l2_latency: float
    """cycles from a request to its data in L2"""
    dram_latency: float
    """cycles from a request to its data in DRAM; includes the way through L1 and L2"""
    barrier_latency: float
    """cycles from the last warp's arrival to the next instruction"""
    branch_latency: float
    """cycles from a branch to the next instruction of its warp"""
    block_launch_cycles: float
    """cycles from the end of a block to the first instruction of its successor"""
    atomic_cycles: float
    """cycles of this SM's share of L2 for an atomic's sector, and for each further lane on its most wanted address; one
    lane more is one update more, but lanes that all want one address are added up on the way"""
    shared_atomic_cycles: float
    """cycles per lane that wants the same address of shared memory"""
    lsu_queue_cycles: float
    """depth of the load/store queue in cycles of work: beyond it warps wait to issue; assumed, as the depths below"""
    l2_queue_cycles: float
    """depth of the queue to L2 in cycles of work"""
    dram_queue_cycles: float
    """depth of the queue to DRAM in cycles of work"""
    atomic_queue_cycles: float
    """depth of the queue of atomics in cycles of work"""
    dram_burst_cycles: float = 0.0
    """cycles of work for DRAM that this SM may bring ahead of its share, which other SMs leave for a while"""
    store_latency: float = 0.0
    """cycles from a store to where it no longer keeps its block's place"""
    l1_pass_cycles: float = 0.0
    """cycles of a load's pass through the banks of L1; 0: only its sectors count"""
    l2_request_cycles: float = 0.0
    """cycles between two lines of which L1 asks L2 for sectors; 0: only their bytes count"""
    shared_word_cycles: float = 0.0
    """least cycles of each word of a joined shared load: registers take in so many bytes per clock"""
    reissue_cycles: float = 0.0
    """cycles for which a warp issues nothing per wavefront that a bank conflict adds; 14 on Kepler (Mei and Chu)"""
    hot_line: int = -1
    """line that all blocks read so often that its slice of L2 is busier than the others; -1: none"""
    hot_sector_cycles: float = 0.0
    """cycles of this SM's share of that slice for a sector of the hot line"""
    merge_cycles: float = 0.0
    """cycles of this SM's share of L2 for each sector that a store fills in part only, beyond writing it"""
    sector_slice_cycles: float = 0.0
    """cycles of that share for any other sector, on average over the slices"""
    signal_latency: float = 0.0
    """cycles until an arrival at an mbarrier on another SM of the cluster is there; 0: as on this one"""

    def with_share(self, part: float, most: float) -> "SM":
        """Return an SM that draws so many times its share of L2 and DRAM, as others draw less.

        Its own path from L2 carries ``most`` bytes per cycle, whatever its share is.
        """
        rates = ("l2_bytes_per_cycle", "l2_write_bytes_per_cycle", "dram_bytes_per_cycle", "dram_write_bytes_per_cycle")
        cycles = ("atomic_cycles", "hot_sector_cycles", "sector_slice_cycles", "merge_cycles")
        changed: dict[str, Any] = {name: getattr(self, name) * part for name in rates}
        changed |= {name: getattr(self, name) / part for name in cycles}
        changed["l2_path_bytes_per_cycle"] = min(most, changed["l2_bytes_per_cycle"])
        changed["l2_write_bytes_per_cycle"] = min(most, changed["l2_write_bytes_per_cycle"])
        return replace(self, **changed)


@dataclass(frozen=True, slots=True)
class MemoryShares:
    """One SM's part in the memory that all SMs share, for one launch."""

    active_sms: float
    """SMs that compete for L2 and DRAM, as busy as this one"""
    dram_read: float
    """share of the sectors read from L2 that come from DRAM"""
    dram_write: float
    """sectors that DRAM moves per sector written to L2: above one where it reads some of them first, to fill them"""
    dram_local: float
    """share of local memory's sectors, read or written, that DRAM sees"""
    dram_atomic: float
    """share of the sectors that atomics update that DRAM sees"""
    atomic_pieces: float
    """distinct 512-byte pieces of memory that the grid's atomics update"""
    hot_line: HotLine | None = None
    """the line that keeps one slice of L2 busier than the others"""
    rows: RowSlowdown = NO_SLOWDOWN
    """slowdown of DRAM by opening rows"""
    written: float = 0.5
    """part of DRAM's traffic that is written"""


#: Lines of 128 bytes that lie in the same slice of L2. Assumed: address maps of Accel-Sim go on to the next channel
#: after 256 bytes; that eight counters' lines are eight times as fast as one was seen to be wrong.
_LINES_PER_PIECE = 4


@dataclass(frozen=True, slots=True)
class UpdatedLines:
    """Lines of global memory that the atomics of some blocks update, as often as they do."""

    blocks: int
    of_first: npt.NDArray[np.uint64]
    """lines of the first block"""
    of_all: npt.NDArray[np.uint64]

    def pieces(self, grid_blocks: int) -> float:
        """Return how many pieces the atomics of a grid update; a piece lies in one slice of L2, the next in another."""
        return self._grown(grid_blocks, _LINES_PER_PIECE)

    def first_share(self, grid_blocks: int) -> float:
        """Return the part of a grid's updates that are the first of their line; 1 where there are none.

        One counter stays in L2, however often it is updated: taken to be as rare in DRAM as other data, atomics of
        filter (HeCBench) waited for DRAM, and were forecast 1.28 times too long. Fails when: the lines do not fit L2.
        """
        updates = len(self.of_all) / self.blocks * grid_blocks
        return min(1.0, self._grown(grid_blocks, 1) / updates) if updates else 1.0

    def _grown(self, grid_blocks: int, lines_each: int) -> float:
        """Return how many pieces of so many lines a grid updates.

        Linear growth from the first block on: counters that all blocks share do not grow, histograms per block do.
        """
        first, all_of_them = (len(np.unique(each // np.uint64(lines_each))) for each in (self.of_first, self.of_all))
        growth = (all_of_them - first) / (self.blocks - 1) if self.blocks > 1 else 0.0
        return first + growth * (grid_blocks - 1)


def updated_lines(trace: SMTrace) -> UpdatedLines:
    """Return the lines that the atomics of recorded blocks update."""
    return UpdatedLines(len(trace.block_ids), _updated(trace.head(1)), _updated(trace))


def _updated(trace: SMTrace) -> npt.NDArray[np.uint64]:
    operation = trace.events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
    atomics = (operation == Operation.ATOMIC) | (operation == Operation.REDUCTION)
    found: npt.NDArray[np.uint64] = trace.events[atomics] & np.uint64(2**LINE_BITS - 1)
    return found


def sm_of(gpu: GPU, geometry: CacheGeometry, shares: MemoryShares) -> SM:
    """Return one SM of a GPU in cycles of its clock; raises MissingEvidenceError for a fact that the GPU lacks."""
    a = gpu.architecture
    bandwidth = _Bandwidth(gpu, shares.active_sms, shares.written)
    hot = _hot_sector_cycles(gpu, shares)
    return SM(
        sub_partitions=a.schedulers_per_sm,
        issue_width=max(1, a.warp_instructions_per_clock_per_sm // a.schedulers_per_sm),
        is_oldest_first=bool(a.issues_oldest_first),
        pipe_cycles=_pipe_cycles(gpu),
        pipe_latency=_pipe_latency(gpu),
        fma_cycles=_fma_cycles(gpu),
        **_cycles_and_latencies(gpu, shares),
        l1_is_apart=a.l1_and_shared_bytes is None,
        l1_lines=(geometry.l1_bytes or 0) // LINE_BYTES,
        l1_operations=l1_operations(geometry),
        stores_allocate=geometry.stores_allocate,
        l2_path_bytes_per_cycle=bandwidth.path,
        signal_latency=gpu.architecture.cycles.cluster_latency or 0.0,
        l2_bytes_per_cycle=bandwidth.l2,
        l2_write_bytes_per_cycle=bandwidth.written,
        # Rows that are opened for few bytes cost DRAM time, whoever opens them: they slow down every SM's share.
        dram_bytes_per_cycle=bandwidth.dram / shares.rows.read,
        dram_write_bytes_per_cycle=bandwidth.dram / shares.rows.written,
        dram_read_share=shares.dram_read,
        dram_write_share=shares.dram_write,
        dram_local_share=shares.dram_local,
        dram_atomic_share=shares.dram_atomic,
        hot_line=shares.hot_line.line if shares.hot_line else -1,
        hot_sector_cycles=hot,
        merge_cycles=_merge_cycles(gpu, shares),
        sector_slice_cycles=hot / (gpu.l2_slices or 1.0),
    )


def _cycles_and_latencies(gpu: GPU, shares: MemoryShares) -> dict[str, float]:
    """Return the fields of an SM that are facts of its architecture: cycles, latencies and depths of queues."""
    c = gpu.architecture.cycles

    def of(name: str) -> float:
        return known_fact(getattr(c, name), f"cycles.{name}", gpu)

    return {
        "lsu_cycles": of("load_store_sm"),
        "wavefront_cycles": of("shared_wavefront"),
        "shared_word_cycles": c.shared_word or 0.0,
        "replay_cycles": of("shared_wavefront"),
        "reissue_cycles": c.shared_reissue or 0.0,
        "l1_tag_cycles": of("l1_tag"),
        "l1_bytes_per_cycle": known_fact(gpu.architecture.l1_bytes_per_clock, "sustained.l1_bytes_per_clock", gpu),
        "l1_pass_cycles": c.l1_pass or 0.0,
        "l2_request_cycles": c.l2_request or 0.0,
        "store_line_cycles": of("store_line"),
        "shared_latency": of("shared_latency"),
        "l1_latency": gpu.l1_latency or of("shared_latency"),
        "l2_latency": known_fact(gpu.l2_latency, "cycles.l2_latency", gpu),
        "dram_latency": known_fact(gpu.dram_latency, "cycles.dram_latency", gpu),
        "barrier_latency": of("barrier_latency"),
        "branch_latency": of("branch_latency"),
        "block_launch_cycles": of("block_launch"),
        "atomic_cycles": _atomic_cycles(gpu, shares),
        "shared_atomic_cycles": of("shared_atomic"),
        "dram_burst_cycles": c.dram_burst or 0.0,
        "store_latency": (c.store_round_trips or 0.0) * known_fact(gpu.l2_latency, "cycles.l2_latency", gpu),
        "lsu_queue_cycles": of("lsu_queue"),
        "l2_queue_cycles": of("l2_queue"),
        "dram_queue_cycles": of("dram_queue"),
        "atomic_queue_cycles": of("atomic_queue"),
    }


def path_bytes_per_cycle(gpu: GPU) -> float:
    """Return the bytes per cycle that one SM's own path to L2 carries; infinite where that is unknown."""
    return gpu.architecture.l2_bytes_per_clock_per_sm or math.inf


class _Bandwidth:
    """Sustained bytes per cycle of one SM, when so many draw on L2 and DRAM.

    Sustained, not of the data sheet: with theoretical L2 bandwidth the timing study was 2.4 points of MAPE worse.
    """

    def __init__(self, gpu: GPU, active_sms: float, dram_written: float) -> None:
        cycles = gpu.clock_hz * active_sms
        # One SM alone cannot draw all of L2: its own path limits it where few are active.
        most = path_bytes_per_cycle(gpu)
        l2 = gpu.l2_rate.bytes_per_s / cycles if gpu.l2_rate else math.inf
        self.path = min(most, l2)
        self.l2 = l2
        writes = known_fact(gpu.architecture.l2_write_fraction, "sustained.l2_write_fraction", gpu)
        self.written = min(most, l2 * writes)
        if math.isinf(l2):
            raise MissingEvidenceError(
                "its L2 bandwidth is unknown", where=gpu.name, cure="Give sustained.l2_gb_per_s in its file."
            )
        # Kernels sustain 0.78 to 0.93 of the data sheet's peak: without that fact, forecasts are as much too fast.
        self.dram = gpu.dram_bytes_per_s_of(dram_written) / cycles


def need_pipes(program: Program, gpu: GPU) -> None:
    """Raise MissingEvidenceError where tensor cores do what has no rate of its own, and none is known."""
    if np.any((program.pipe == Pipe.TENSOR) & (program.cycles == 0)):
        known_fact(gpu.architecture.cycles.tensor, "cycles.tensor", gpu)


def _pipe_cycles(gpu: GPU) -> tuple[float, ...]:
    """Return [Pipe] intervals; a pipe whose rate is unknown is as fast as the ALU.

    A guess for rare pipes only: ``need_pipes`` refuses tensor cores, which do most of the work where they occur.
    """
    c = gpu.architecture.cycles
    alu = known_fact(c.alu, "cycles.alu", gpu)
    found = {
        Pipe.FMA: known_fact(c.fma, "cycles.fma", gpu), Pipe.ALU: alu, Pipe.IMAD: c.imad, Pipe.XU: c.special,
        Pipe.LSU: c.load_store, Pipe.FP64: c.fp64, Pipe.FP16: c.fp16 or c.fma, Pipe.TENSOR: c.tensor,
        Pipe.BRANCH: c.branch, Pipe.UNIFORM: c.uniform, Pipe.TENSOR_MEMORY: c.tensor_memory,
    }  # fmt: skip
    return tuple(found[pipe] or alu for pipe in Pipe)


def _pipe_latency(gpu: GPU) -> tuple[float, ...]:
    """Return [Pipe] latencies; where one is unknown, that of the ALU and the pipe's interval beyond its own."""
    c = gpu.architecture.cycles
    alu = known_fact(c.alu_latency, "cycles.alu_latency", gpu)
    found = {
        Pipe.FMA: c.fma_latency, Pipe.ALU: alu, Pipe.IMAD: c.imad_latency, Pipe.XU: c.special_latency,
        Pipe.LSU: alu, Pipe.FP64: c.fp64_latency, Pipe.FP16: c.fp16_latency, Pipe.TENSOR: c.tensor_latency,
        Pipe.BRANCH: alu, Pipe.UNIFORM: c.uniform_latency, Pipe.TENSOR_MEMORY: c.tensor_memory_latency,
    }  # fmt: skip
    return tuple(found[pipe] or alu for pipe in Pipe)


def _fma_cycles(gpu: GPU) -> tuple[float, ...]:
    """Return [Pipe] cycles of the FMA pipe that instructions of other pipes take."""
    c = gpu.architecture.cycles
    # Chips differ: GA10x adds integers in half of its FP32 lanes, Hopper multiplies them in 64 of 128 (whitepapers).
    shared = {Pipe.IMAD: c.imad_on_fma, Pipe.ALU: c.alu_on_fma}
    return tuple(shared.get(pipe) or 0.0 for pipe in Pipe)


def _atomic_cycles(gpu: GPU, shares: MemoryShares) -> float:
    """Return cycles of an atomic in this SM's share of L2: slices work side by side, one piece in one slice.

    Atomics on few pieces are therefore limited by these pieces' own rate, those on many by all slices; this rule was
    worth 1.5 points of MAPE in the timing study. L2 has a clock of its own, see ``GPU.l2_rate``.
    """
    if not shares.atomic_pieces:
        return 1.0  # there are none
    a = gpu.architecture
    one_line = known_fact(a.same_address_atomics_per_clock, "atomics.same_address_per_clock", gpu)
    per_slice = known_fact(a.atomics_per_clock_per_slice, "atomics.distinct_per_clock_per_slice", gpu)
    # A piece lies in one slice: with fewer pieces than keep all slices busy, the pieces' rate decides.
    slices = known_fact(gpu.l2_slices, "caches.l2_slices_per_channel", gpu) * per_slice
    rate = min(max(1, shares.atomic_pieces) * one_line, slices) * gpu.clock_boost_hz / gpu.clock_hz
    return shares.active_sms / rate


def _merge_cycles(gpu: GPU, shares: MemoryShares) -> float:
    """Return cycles of this SM's share of L2 for a sector that is written in part; 0 where nothing is known of it.

    A slice reads such a sector, puts in what is new and writes it back. Source: ``cycles.l2_merge`` of architectures.
    """
    merge, slices = gpu.architecture.cycles.l2_merge, gpu.l2_slices
    if merge is None or slices is None:
        return 0.0
    return merge * shares.active_sms / slices * gpu.clock_hz / gpu.clock_boost_hz


def _hot_sector_cycles(gpu: GPU, shares: MemoryShares) -> float:
    """Return cycles of a sector in this SM's share of one slice of L2; 0 where no slice is busier than the others."""
    # All SMs share the one slice, so that each gets it for one cycle in ``active_sms``.
    per_clock = gpu.architecture.l2_bytes_per_clock_per_slice
    if shares.hot_line is None or per_clock is None:
        return 0.0
    return shares.active_sms * SECTOR_BYTES / per_clock
