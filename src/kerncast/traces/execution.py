"""What running blocks of a launch told: Trace (counts), Recording and SMTrace (event by event), Execution (all)."""

import math
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat
from kerncast.ptx import ControlFlowGraph, Function, Instruction, MemoryAccess, Register, Vector, sources_of
from kerncast.traces.machine_code import NO_MACHINE_CODE, MachineCode

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Allocation:
    """One buffer or module variable in global memory."""

    name: str
    address: int
    """address that the kernel sees"""
    start: int
    """offset in the arena that holds all of global memory"""
    nbytes: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """Distinct 32-byte sectors touched after some of the blocks have run, per allocation."""

    blocks: int
    """number of blocks that had run"""
    read: Counts
    """[allocations] sectors that a load or an atomic touched"""
    written: Counts
    """[allocations] sectors that a store or an atomic touched"""
    either: Counts
    """[allocations] sectors that any access touched"""
    partly: Counts
    """[allocations] sectors of which some words were stored, others not, and none was read"""

    @property
    def only_read(self) -> Counts:
        """[allocations] sectors that were read, and never written: a cold cache has to fetch each of them."""
        return self.either - self.written

    @property
    def only_written(self) -> Counts:
        """[allocations] sectors that were written, and never read."""
        return self.either - self.read


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """The counts of the blocks of threads that have run, one row for each."""

    block_warps: Counts
    """[n, basic blocks] warps that ran the basic block"""
    block_threads: Counts
    """[n, basic blocks] threads that ran it"""
    guarded: tuple[int, ...]
    """instructions with a guard that switches threads off"""
    guarded_threads: Counts
    """[n, guarded] threads that executed them"""
    accessing: tuple[int, ...]
    """instructions that access memory"""
    requests: Counts
    """[n, accessing] warps with at least one thread that accessed global memory"""
    sectors: Counts
    """[n, accessing] distinct 32-byte sectors of global memory per request, summed"""
    lines: Counts
    """[n, accessing] distinct 128-byte lines of global memory per request, summed"""
    accesses: Counts
    """[n, accessing] threads that accessed global memory"""
    shared_requests: Counts
    """[n, accessing] warps with at least one thread that accessed shared memory"""
    shared_accesses: Counts
    """[n, accessing] threads that accessed shared memory"""
    shared_wavefronts: Counts
    """[n, accessing] passes of shared memory that the requests take, with banks of 4 bytes; joined loads count once"""
    shared_conflicts: Counts
    """[n, accessing] passes beyond what requests of this width take without a bank conflict"""
    local_requests: Counts
    """[n, accessing] warps with at least one thread that accessed its own memory"""
    local_accesses: Counts
    """[n, accessing] threads that accessed their own memory"""
    local_sectors: Counts
    """[n, accessing] distinct 32-byte sectors of local memory per request, summed; lanes lie interleaved by words"""
    local_lines: Counts
    """[n, accessing] distinct 128-byte lines of local memory per request, summed"""
    contention: Counts
    """[n, accessing] atomics: threads of a request that update its most wanted address, summed over requests"""
    divergent_branches: Counts
    """[n] branches that split a warp"""
    longest_warp: Counts
    """[n] instructions that the busiest warp of the block issued"""


def telling_accesses(function: Function) -> frozenset[int]:
    """Return the instructions that tell a block of others: updates of memory whose result it reads, loads past L1."""
    code = function.instructions
    read = frozenset(register.name for ins in code for register in sources_of(ins))
    telling = {Operation.ATOMIC, Operation.LOAD_UNCACHED}
    return frozenset(
        number
        for number, ins in enumerate(code)
        # Copies pass L1 for speed.
        if ins.opcode.access is not None and ins.space in {"global", "generic"} and not ins.is_copy
        if operation_of(ins, read) in telling
    )


@dataclass(frozen=True, slots=True)
class Trace:
    """Counts per executed block of threads; the rows are in the order of ``block_ids``."""

    function: Function
    """kernel with its calls inlined; instruction numbers refer to it"""
    cfg: ControlFlowGraph
    block_ids: Counts
    """[n] linear block numbers"""
    counts: BlockCounts
    footprints: tuple[Footprint, ...]
    """footprints after more and more blocks; the last one is after all"""
    allocations: tuple[Allocation, ...]
    """buffers and module variables, in the order of the footprints"""
    memory: dict[str, npt.NDArray[Any]]
    """contents of each buffer after the run, by parameter name"""
    remarks: tuple[Caveat, ...]
    """caveats on the counts, such as that the cost of printf is left out"""
    printed: str = ""
    """output of printf in the blocks that ran, in the order of execution; at most 64 KiB"""
    in_turn: bool = False
    """whether each block got what falls to it of a queue, as not all of the blocks that take from it have run"""

    @property
    def sees_other_blocks(self) -> bool:
        """Whether a block reads what tells of others: an atomic's result, or global memory past L1."""
        return bool(telling_accesses(self.function))

    @property
    def issued(self) -> Counts:
        """[n] PTX instructions that the warps of each block issued."""
        return self.counts.block_warps @ np.array(self.cfg.lengths, np.int64)

    @property
    def thread_executions(self) -> Counts:
        """[n, instructions] threads that executed each instruction, guards applied."""
        threads = np.repeat(self.counts.block_threads, self.cfg.lengths, axis=1)
        threads[:, list(self.counts.guarded)] = self.counts.guarded_threads
        return threads


# NOUN Recording: every access to global and local memory of some blocks, warp by warp, in the order of the program.
#
# In detail, for timing, also the basic blocks that warps enter, shared memory, and how far atomics contend.


LINE_BYTES = 128
#: Bits of an event: which line, how many passes its request takes, which of its four sectors, whether the request has
#: no further line, what is done, and by which PTX instruction. Where an operation has no line, those bits hold what its
#: docstring says.
LINE_BITS, PASSES_SHIFT, MASK_SHIFT, LAST_SHIFT, OPERATION_SHIFT, INSTRUCTION_SHIFT = 32, 32, 40, 44, 45, 49
OPERATION_MASK = 0xF
#: Passes through 32 banks of 4 bytes, as shared memory has them, that loads and atomics in global memory would take:
#: the same in each event of a request, and 0 where the recording is not in detail. Of a store the sectors of the line
#: that its lanes fill in part only.
PASSES_MASK = 0xFF
#: Where an event has two numbers instead of a line, so many bits hold the first.
CONTENT_SHIFT = 8
#: Kernels with more PTX instructions, or basic blocks, than an event can name are not traced for timing.
MOST_INSTRUCTIONS = 2**15


#: Modifiers of loads that L1 does not serve.
_PASSES_L1 = {"volatile", "relaxed", "acquire", "mmio", "cg", "cv"}


class Operation(IntEnum):
    """The kinds of events."""

    LOAD = 0
    LOAD_READ_ONLY = 1
    """ld.global.nc: data that no thread writes while the kernel runs"""
    LOAD_UNCACHED = 2
    """volatile, relaxed, .cg and the like: bypasses L1"""
    STORE = 3
    ATOMIC = 4
    """atomic whose result is read"""
    REDUCTION = 5
    LOCAL_LOAD = 6
    LOCAL_STORE = 7
    # The rest is recorded in detail only: a simulation of caches has no use for it.
    SHARED_LOAD = 8
    """load from shared memory; the event has wavefronts instead of a line"""
    SHARED_STORE = 9
    """store to shared memory; the event has wavefronts instead of a line"""
    SHARED_ATOMIC = 10
    """wavefronts in the low CONTENT_SHIFT bits, above them the number of lanes at the most wanted address"""
    BASIC_BLOCK = 11
    """a warp enters a basic block: its number instead of an instruction, one bit per active lane instead of a line"""
    CONTENTION = 12
    """begins the request of an atomic or a reduction, whose lines follow: in the low CONTENT_SHIFT bits the number of
    lanes that want its most wanted address, above them the number of its addresses"""
    EVENT = 13
    """what a wait for data that come later has to know: an EventChange in place of the sectors, in the low OBJECT_BITS
    bits the place of an mbarrier in shared memory in units of 8 bytes, above them a number; from TOLD_SHIFT on whose
    mbarrier it is: the rank of that block in its cluster, combined by exclusive or with the rank of its own"""


#: Bits of an mbarrier's place in an EVENT, and where those of the block that is told begin.
OBJECT_BITS, TOLD_SHIFT = 16, 36


class EventChange(IntEnum):
    """What happens to the phase of an mbarrier, or for one that is told later."""

    BEGIN = 0
    """it is initialised; the number is of arrivals that each phase expects"""
    ARRIVE = 1
    """so many threads arrive, or none that tells when earlier copies of its warp are there"""
    DROP = 2
    """so many arrivals are not expected any more, from the next phase on"""
    EXPECT = 3
    """so many bytes are to come"""
    COMPLETE = 4
    """so many bytes have come"""
    WAIT = 5
    """a warp goes on once the phase of the parity that the number tells has ended; in vain it is not recorded"""
    PRODUCT = 6
    """a product in tensor memory begins; the object is the rows of A, the number the columns of B"""
    BARRIER = 7
    """a warp comes to a barrier whose number a register holds: the object is that one, the number the warps that it
    waits for, or 0 for all of the block"""


def operation_of(ins: Instruction, read: frozenset[str]) -> Operation:
    """Return what a recording says of an access to global memory; ``read`` are the registers that anything reads.

    A copy to shared memory loads from global memory first.
    """
    modifiers = set(ins.modifiers)
    if ins.writes_global:
        return Operation.STORE
    if ins.is_load or ins.is_copy:
        if "nc" in modifiers:
            return Operation.LOAD_READ_ONLY
        return Operation.LOAD_UNCACHED if modifiers & _PASSES_L1 else Operation.LOAD
    if ins.is_store:
        return Operation.STORE
    results = ins.operands[0] if ins.opcode.access is MemoryAccess.ATOMIC else None
    registers = results.elements if isinstance(results, Vector) else (results,)
    is_read = any(isinstance(r, Register) and r.name in read for r in registers)
    return Operation.ATOMIC if is_read else Operation.REDUCTION


class End(IntEnum):
    """Why a segment ends."""

    PAUSE = 0
    """the warp's turn is over"""
    BARRIER = 1
    EXIT = 2


#: A run of events of one warp. A warp's segments follow one another in the order of the table.
SEGMENT = np.dtype([("row", "i4"), ("warp", "i4"), ("start", "i8"), ("stop", "i8"), ("end", "i4"), ("pad", "i4")])


@dataclass(frozen=True, slots=True)
class Recording:
    """The events recorded by ``execute``: each is one 128-byte line of a warp's request, or as Operation says."""

    block_ids: npt.NDArray[np.int64]
    """[n] linear numbers of the blocks that ran to their end"""
    warps: int
    """warps per block"""
    local_lines: int
    """128-byte lines of local memory of one warp"""
    events: npt.NDArray[np.uint64]
    """line of the arena (of the warp's own memory for local accesses) in the low bits; see LINE_BITS and the others"""
    segments: npt.NDArray[np.void]
    """segments as in SEGMENT; ``row`` is a position in block_ids, and every warp of every block has its last one"""

    def head(self, blocks: int) -> "Recording":
        """Return the first blocks of it; events of others stay in the array."""
        kept = self.segments[self.segments["row"] < blocks]
        return replace(self, block_ids=self.block_ids[:blocks], segments=kept)

    def only(self, blocks: npt.NDArray[np.int64]) -> "Recording":
        """Return these blocks alone, in this order, as far as they were recorded."""
        wanted = blocks[np.isin(blocks, self.block_ids)]
        order = np.argsort(self.block_ids, kind="stable")
        rows = order[np.searchsorted(self.block_ids[order], wanted)]
        place = np.full(len(self.block_ids), -1, np.int64)
        place[rows] = np.arange(len(rows))
        kept = self.segments[place[self.segments["row"]] >= 0].copy()
        kept["row"] = place[kept["row"]]
        return replace(self, block_ids=wanted, segments=kept)

    def without_local(self) -> "Recording":
        """Return it without accesses to local memory, for a kernel whose arrays the compiler holds in registers."""
        operation = self.events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
        kept = (operation != Operation.LOCAL_LOAD) & (operation != Operation.LOCAL_STORE)
        before = np.concatenate([[0], np.cumsum(kept)])
        segments = self.segments.copy()
        segments["start"], segments["stop"] = before[segments["start"]], before[segments["stop"]]
        return replace(self, local_lines=0, events=self.events[kept], segments=segments)


#: Most events of a trace; a recording that would be longer ends.
MOST_EVENTS = 2**24


@dataclass(frozen=True, slots=True)
class SMTrace:
    """What one SM executes: one chain of events (see Recording) per warp, blocks in the order of their start."""

    block_ids: npt.NDArray[np.int64]
    """[n] linear numbers of the blocks"""
    warps: int
    """warps per block"""
    local_lines: int
    """128-byte lines of local memory of one warp"""
    events: npt.NDArray[np.uint64]
    chains: npt.NDArray[np.int64]
    """[n x warps + 1] where each warp's events start: those of warp w of row r from chains[r x warps + w] on"""

    def head(self, blocks: int) -> "SMTrace":
        """Return the first blocks of it."""
        chains = self.chains[: min(blocks, len(self.block_ids)) * self.warps + 1]
        return SMTrace(self.block_ids[:blocks], self.warps, self.local_lines, self.events[: chains[-1]], chains)

    def only(self, row: int) -> "SMTrace":
        """Return one block of it."""
        chains = self.chains[row * self.warps : (row + 1) * self.warps + 1]
        events = self.events[chains[0] : chains[-1]]
        return SMTrace(self.block_ids[row : row + 1], self.warps, self.local_lines, events, chains - chains[0])

    def warp(self, row: int) -> npt.NDArray[np.uint64]:
        """Return the events of one warp, a row of the chains."""
        return self.events[self.chains[row] : self.chains[row + 1]]


@dataclass(frozen=True, slots=True)
class EventChanges:
    """The fields of the events of kind EVENT in a trace."""

    positions: Counts
    """[m] their positions among all events"""
    warps: Counts
    """[m] rows of the chains that they lie in"""
    changes: Counts
    """[m] each an EventChange"""
    objects: Counts
    """[m] places of mbarriers, in units of 8 bytes"""
    numbers: Counts
    told: Counts
    """[m] whose mbarrier it is, as Operation.EVENT has it; 0: of the block's own"""


#: Bits of a number, and of whose mbarrier it is.
NUMBER_MASK, TOLD_MASK = (1 << TOLD_SHIFT - OBJECT_BITS) - 1, (1 << MASK_SHIFT - TOLD_SHIFT) - 1


def event_changes(trace: SMTrace) -> EventChanges:
    """Return what the events of a trace say that a wait for later data has to know."""
    positions = np.flatnonzero(
        trace.events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK) == Operation.EVENT
    )
    events = trace.events[positions].astype(np.int64)
    return EventChanges(
        positions, np.searchsorted(trace.chains, positions, side="right") - 1, events >> MASK_SHIFT & 0xF,
        events & (1 << OBJECT_BITS) - 1, events >> OBJECT_BITS & NUMBER_MASK, events >> TOLD_SHIFT & TOLD_MASK,
    )  # fmt: skip


def instructions_of_warps(trace: SMTrace, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return [n, warps] the PTX instructions of each warp; ``lengths`` are those of the basic blocks."""
    operation = trace.events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
    per_event = np.zeros(len(trace.events), np.int64)
    per_event[operation == Operation.BASIC_BLOCK] = lengths[entered_blocks(trace.events)]
    before = np.concatenate([[0], np.cumsum(per_event)])
    found: npt.NDArray[np.int64] = np.diff(before[trace.chains]).reshape(-1, trace.warps)
    return found


def entered_blocks(events: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return the number of each basic block that a warp entered, one after the other, of the events of a trace."""
    operation = events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
    entries = events[operation == Operation.BASIC_BLOCK]
    numbers: npt.NDArray[np.int64] = (entries >> np.uint64(INSTRUCTION_SHIFT)).astype(np.int64)
    return numbers


Kind = Literal["read", "written", "either"]
#: A rate is the growth from this part of the blocks to as many times them: a steeper one would show every row of a
#: grid, a wider one would blur where reuse begins.
_AROUND = 1.5


@dataclass(frozen=True, slots=True)
class Touches:
    """Distinct 32-byte sectors of a whole launch."""

    read: float
    written: float
    either: float

    def of(self, kind: Kind) -> float:
        """Return those of one kind."""
        found: float = getattr(self, kind)
        return found


@dataclass(frozen=True, slots=True)
class FootprintCurve:
    """Distinct 32-byte sectors of global memory that blocks with consecutive numbers touch, per allocation."""

    blocks: Counts
    """[n] number of blocks, growing from one"""
    read: Counts
    """[n, allocations] sectors that a load or an atomic touched"""
    written: Counts
    """[n, allocations] sectors that a store or an atomic touched"""
    either: Counts
    """[n, allocations] sectors that any access touched"""
    allocation_sectors: Counts
    """[allocations] sectors of the allocation"""
    grid_blocks: int
    total: Touches | None = None
    """sectors of the whole launch; None where no sample of its blocks tells them"""
    rows: npt.NDArray[np.float64] | None = None
    """[n, 2] rows of DRAM that reading and that writing these sectors would open; None where nobody counted"""
    busier: npt.NDArray[np.float64] | None = None
    """[n] lines that one of these blocks asks for, relative to the mean of the grid; None where nobody counted"""
    partly: Counts | None = None
    """[n, allocations] sectors of which some words were stored, others not, and none was read; None: nobody counted"""

    @property
    def is_whole_grid(self) -> bool:
        """Whether the last point is the whole grid."""
        return int(self.blocks[-1]) == self.grid_blocks

    def sectors(self, blocks: float, kind: Kind) -> float:
        """Return the sectors that so many blocks touch: between two points a power of the blocks.

        Beyond the last point it grows on as over the second half of the points, and a little faster where that would
        not meet the total at the end of the grid. Fails when: what blocks share lies further apart than the blocks
        that were counted, and there is no total.
        """
        blocks, last = min(blocks, self.grid_blocks), int(self.blocks[-1])
        found = self._counted(kind)
        if blocks <= last:
            return float(_between(self.blocks, found, blocks).sum())
        grown, seen = float(self._beyond(found, blocks).sum()), float(found[-1].sum())
        if self.total is None:
            return grown
        total = max(seen, self.total.of(kind))
        at_end = float(self._beyond(found, self.grid_blocks).sum())
        if not at_end:
            return total * (blocks - last) / (self.grid_blocks - last)
        reached = math.log(blocks / last) / math.log(self.grid_blocks / last)
        return min(total, grown * math.pow(max(1.0, total / at_end), reached))

    def sectors_per_row(self, blocks: float, kind: Literal["read", "written"]) -> float:
        """Return the sectors of each row of DRAM that is opened, where so many blocks, at least one, run side by side.

        Infinite where nobody counted rows.
        """
        if self.rows is None:
            return math.inf
        point = self._point(blocks)
        opened = float(self.rows[point, 0 if kind == "read" else 1])
        return float(self._counted(kind)[point].sum()) / opened if opened else math.inf

    def left_in_part(self, blocks: float) -> float:
        """Return the sectors per block of which so many blocks, at least one, store some words only and read none.

        0 where nobody counted them. Fails when: more blocks than were counted meet in a sector.
        """
        if self.partly is None:
            return 0.0
        point = self._point(blocks)
        return float(self.partly[point].sum()) / float(self.blocks[point])

    def _point(self, blocks: float) -> int:
        """Return the last point with no more than so many blocks."""
        return max(0, int(np.searchsorted(self.blocks, blocks, side="right")) - 1)

    def busier_than_mean(self, blocks: float) -> float:
        """Return how many times the mean of the grid's lines each of so many neighbouring blocks asks for."""
        return 1.0 if self.busier is None else float(np.interp(blocks, self.blocks, self.busier))

    def blocks_for(self, sectors: float, kind: Kind) -> int:
        """Return how many of the counted blocks, at least one, touch no more sectors than this."""
        touched = self._counted(kind).sum(axis=1)
        return int(self.blocks[max(0, int(np.searchsorted(touched, sectors, side="right")) - 1)])

    def rate(self, blocks: float, kind: Kind) -> float:
        """Return the new sectors that a further block touches after so many blocks, at least one."""
        blocks = max(1.0, blocks)
        high = min(blocks * _AROUND, float(self.grid_blocks))
        low = min(blocks / _AROUND, high / _AROUND)
        return (self.sectors(high, kind) - self.sectors(low, kind)) / (high - low)

    def _counted(self, kind: Kind) -> Counts:
        found: Counts = getattr(self, kind)
        return found

    def _beyond(self, found: Counts, blocks: float) -> npt.NDArray[np.float64]:
        """Return [allocations] the sectors of more blocks than were counted, by the power of the second half."""
        last = int(self.blocks[-1])
        half = int(np.argmin(np.abs(self.blocks - last / 2)))
        exponents = np.ones(found.shape[1])
        if self.blocks[half] < last:
            growth = np.log(np.maximum(found[-1], 1) / np.maximum(found[half], 1)) / np.log(last / self.blocks[half])
            exponents = np.where(found[half] > 0, np.minimum(growth, 1.0), 1.0)
        return np.asarray(np.minimum(self.allocation_sectors, found[-1] * (blocks / last) ** exponents))


def _between(counted: Counts, found: Counts, blocks: float) -> npt.NDArray[np.float64]:
    """Return [allocations] the sectors of no more blocks than were counted."""
    after = int(np.searchsorted(counted, blocks, side="left"))
    if not after:
        return np.asarray(found[0] * max(0.0, blocks) / counted[0])
    few, many = float(counted[after - 1]), float(counted[after])
    low, high = found[after - 1], found[after]
    exponent = math.log(blocks / few) / math.log(many / few)
    power = low * (high / np.maximum(low, 1)) ** exponent
    return np.asarray(np.where(low > 0, power, high * (blocks - few) / (many - few)))


@dataclass(frozen=True, slots=True)
class SMRecording:
    """The blocks that a simulation of one SM needs beyond the sample."""

    blocks: SMTrace
    """blocks that one SM gets, in detail"""
    footprint: FootprintCurve
    side_by_side: SMTrace | None = None
    """two blocks with consecutive numbers; None where nothing asks for them, or they cannot run by themselves"""
    longest: SMTrace | None = None
    """longest block of the grid; None where the recorded ones last about as long"""
    ranks: tuple[SMTrace, ...] = ()
    """blocks of whole clusters by rank, of which ``blocks`` has the first; empty where no two have different roles"""


#: Work of a block over the mean beyond which it may be that of others.
_FAR_MORE = 1.1


@dataclass(frozen=True, slots=True)
class Execution:
    """One launch after a sample of its blocks has run."""

    trace: Trace
    weights: npt.NDArray[np.float64]
    """[n] blocks of the grid that each block of the sample stands for"""
    is_independent: bool
    """whether no block may read what another one writes"""
    shares_work: bool | None = None
    """whether blocks find their work by what others have done; None where that is not known"""
    sm: SMRecording | None = None
    """recorded blocks of one SM; None where no simulation is asked for"""
    machine: MachineCode = NO_MACHINE_CODE
    """the kernel's own machine code on the GPU's architecture"""

    @property
    def grid_blocks(self) -> int:
        """Number of blocks of the grid."""
        return round(float(self.weights.sum()))

    @property
    def may_share_work(self) -> bool:
        """Whether a block may find its work by what others have done: it reads an atomic's result, or past L1.

        What blocks only write in one another's place changes values, not how much they do.
        """
        if self.shares_work is not None:
            return self.shares_work
        return not self.is_independent and self.trace.sees_other_blocks

    @property
    def takes_turns(self) -> bool:
        """Whether blocks find their work by what others have done, or may do so and some have done far more."""
        issued = self.trace.issued
        return self.shares_work or (self.may_share_work and bool(issued.max() > _FAR_MORE * self.mean(issued)))

    @property
    def work_of_busiest(self) -> float:
        """PTX instructions that the warps of the busiest block issue, where blocks take their work in turns.

        The mean of all, as who is done first takes more, and no less than a piece of work that one of them began with:
        those of the sample that asked a queue least, or once more, have no other. Where all have more, the mean.
        """
        counts, code = self.trace.counts, self.trace.function.instructions
        taking = [place for place, number in enumerate(counts.accessing) if code[number].is_update]
        taken = counts.requests[:, taking].sum(axis=1)
        issued = self.trace.issued
        return max(self.mean(issued), float(issued[taken <= taken.min() + 1].max()))

    def mean(self, per_block: npt.NDArray[np.float64] | Counts) -> float:
        """Return the mean over the grid of values [n] of the blocks that ran."""
        return float(self.weights @ per_block) / self.grid_blocks


class Recorder(Protocol):
    """Runs further blocks of a launch whose sample has run, and writes down what they do.

    Each method raises the Refusals that running blocks raises.
    """

    def execution(self) -> Execution:
        """Return the sample."""

    def footprint(self) -> FootprintCurve:
        """Return how many distinct sectors growing groups of neighbouring blocks touch."""

    def sm_blocks(self, sms: int, blocks: int) -> SMTrace:
        """Record so many of the blocks that one of ``sms`` SMs gets, fewer where they make too many events."""

    def share(self, sms: int, blocks: int) -> SMTrace | None:
        """Record the same blocks, each with its share of a queue that all take work from; None without a queue."""

    def clusters(self, sms: int, blocks: int) -> tuple[SMTrace, ...]:
        """Record the clusters of as many blocks, and return a trace for each rank, in the order of clusters."""

    def block(self, number: int) -> SMTrace:
        """Record one block of the grid."""

    def machine_code(self) -> MachineCode:
        """Return what the PTX of the sample became on the architecture that it was compiled for."""
