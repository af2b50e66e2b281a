"""Lowering: the micro-ops that a kernel's PTX becomes on one architecture.

How many micro-ops of which kind an instruction becomes is in ``averages``. Each waits for what its PTX instruction
reads, and they issue in the order that list scheduling gives.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import WARP_SIZE, Architecture
from kerncast.machine.forms import predicated_blocks
from kerncast.models.sm.lower.accesses import TOLD_GROUPS, Accesses, Place, joined_atomics
from kerncast.models.sm.lower.averages import Code, by_machine_code, by_table, guards_of
from kerncast.models.sm.lower.operation_costs import (
    Cost,
    Diffusion,
    Share,
    cost_in_tensor_memory,
    cost_of_group_product,
)
from kerncast.models.sm.lower.scheduling import MicroOp, RegisterMap, Registers, latest, scheduled
from kerncast.models.sm.lower.tensor_costs import check_products
from kerncast.models.sm.micro_ops import (
    BARRIERS,
    FIRST_OF_EVENTS,
    FULL_WEIGHT,
    JOINED,
    MOST_DESTINATIONS,
    MOST_GROUPS,
    MOST_SOURCES,
    NO_REGISTER,
    Group,
    Ints,
    Memory,
    Pipe,
    Program,
)
from kerncast.ptx import (
    Address,
    BasicBlock,
    ControlFlowGraph,
    Function,
    Immediate,
    Instruction,
    Trait,
    result_count,
    reversed_graph,
)
from kerncast.traces import NO_MACHINE_CODE, MachineCode

# Which basic blocks the compiler makes one straight line of machine code, in which it orders instructions freely.
#
# A block that a branch skips and that becomes predicated is issued with the block before it, and what follows both
# with them. ptxas writes four times ``if (inside) held[i] = in[i]`` as four loads, then four stores. Block by block,
# each load would be waited for before the next one issues.


@dataclass(frozen=True, slots=True)
class Member:
    """A basic block in a straight line."""

    block: int
    """number of the basic block"""
    guard: str = ""
    """predicate register that decides in which threads it runs; empty: it runs wherever the first block does"""


Superblock = tuple[Member, ...]


def superblocks(function: Function, cfg: ControlFlowGraph) -> list[Superblock]:
    """Return every basic block once, each with those that are issued with it, in the order of the text.

    Control enters at the first one only; the last one alone leads back, waits at a barrier or branches.
    """
    growing = _Growing(function, cfg)
    found: list[Superblock] = []
    taken: set[int] = set()
    for block in range(len(cfg.blocks)):
        if block not in taken:
            found.append(growing.from_block(block))
            taken.update(member.block for member in found[-1])
    return found


class _Growing:
    """Adds block after block to a straight line."""

    def __init__(self, function: Function, cfg: ControlFlowGraph) -> None:
        self._code, self._cfg = function.instructions, cfg
        self._before = reversed_graph([*cfg.successors, ()])
        self._predicated = predicated_blocks(function, cfg)

    def from_block(self, first: int) -> Superblock:
        """Return the superblock that starts with a block."""
        members = [Member(first)]
        while added := self._next(members):
            members += added
        return tuple(members)

    def _next(self, members: list[Member]) -> list[Member]:
        """Return what follows: a predicated block, or the one that all threads run after the last such one."""
        tail = next(member.block for member in reversed(members) if not member.guard)
        last = members[-1].block
        branch = self._code[self._cfg.blocks[tail].stop - 1]
        if branch.is_barrier:
            return []
        following = set(self._cfg.successors[tail])
        if last == tail and branch.guard is not None:
            child = next((each for each in following if self._predicated.get(each) == tail), tail)
            is_inner = self._follows(tail, child) and child < max(following)
            return [Member(child, branch.guard.name)] if is_inner else []
        # Behind a predicated block: where both ways meet; behind any other: its only successor.
        meeting = self._cfg.successors[last]
        is_inner = len(meeting) == 1 and self._follows(last, meeting[0])
        return [Member(meeting[0])] if is_inner and set(self._before[meeting[0]]) == {tail, last} else []

    def _follows(self, block: int, after: int) -> bool:
        """Return whether a warp runs a block right after another, whatever other blocks some of its threads are at."""
        place_of = self._cfg.order.place_of
        return block < after < self._cfg.exit and place_of[after] == place_of[block] + 1


Places = dict[int, tuple[Place, ...]]
"""what is known of the accesses of instructions, by number"""
#: Groups by their names in the table of opcodes.
_GROUPS = {group.name.lower(): group for group in Group}
_LINE_BYTES = 128
#: Threads of a block.
_MOST_THREADS = 1024
#: From so many micro-ops of an instruction on, one in three checks operands beside the chain that makes the result.
_LONG_CHAIN, _OFF_CHAIN_PART = 4, 3
#: Latencies in cycles by which instructions are ordered where the architecture's are unknown.
_TYPICAL_ALU, _TYPICAL_SHARED, _TYPICAL_GLOBAL = 5.0, 25.0, 250.0


def lower(
    function: Function,
    cfg: ControlFlowGraph,
    architecture: Architecture,
    own: MachineCode = NO_MACHINE_CODE,
    *,
    keeps_local: bool = True,
) -> Program:
    """Return the micro-ops of a kernel, by its own machine code where that was read.

    ``keeps_local`` says whether its local arrays stay in memory; else accesses to them are what the compiler makes of
    arrays in registers. Raises MissingEvidenceError for what has no timing yet.
    """
    return _Lowering(function, cfg, architecture, own, keeps_local=keeps_local).program()


class _Lowering:
    """The micro-ops while they are collected."""

    def __init__(
        self,
        function: Function,
        cfg: ControlFlowGraph,
        architecture: Architecture,
        own: MachineCode,
        *,
        keeps_local: bool,
    ) -> None:
        self._function, self._code = function, function.instructions
        self._cfg, self._architecture = cfg, architecture
        self._accesses = Accesses(function, cfg)
        self._memory = [self._accesses.memory(number) for number in range(len(self._code))]
        if not keeps_local:
            self._memory = [
                Memory.NONE if ins.space == "local" else memory
                for ins, memory in zip(self._code, self._memory, strict=True)
            ]
        self._joined = joined_atomics(function, architecture.number)
        for number, joining in self._joined.items():
            self._memory[number] = JOINED[self._memory[number]][joining.by_all_lanes]
        self._lines = superblocks(function, cfg)
        self._shares, self._beside = self._all_shares(own)
        self._registers = RegisterMap(self._code, [self._makes(number) for number in range(len(self._code))])
        self._latency = _Latencies(architecture)

    def program(self) -> Program:
        """Return all blocks' micro-ops in order of issue."""
        leader = np.arange(len(self._cfg.blocks), dtype=np.int32)
        blocks: list[list[MicroOp]] = [[] for _ in self._cfg.blocks]
        for members in self._lines:
            first = members[0].block
            leader[[member.block for member in members]] = first
            blocks[first] = self._line(members)
        return _program(blocks, leader, self._registers.count)

    def _line(self, members: Superblock) -> list[MicroOp]:
        """Return the micro-ops of blocks that are issued as one, in order of issue."""
        blocks = [self._cfg.blocks[member.block] for member in members]
        places = self._accesses.places(blocks)
        registers = self._registers.along()
        ops: list[MicroOp] = []
        needed: Registers = ()
        for member, block in zip(members, blocks, strict=True):
            guard = registers.of(member.guard)
            # Between the members of a straight line no branch is left: predicates have replaced it.
            goes_on = block.stop - 1 if block is not blocks[-1] else -1
            alone = [_filler(share, block.start) for share in self._beside[member.block]]
            ops += [_predicated(op, guard) for op in alone] if member.guard else alone
            for number in range(block.start, block.stop):
                needed = self._registers.needed(registers.read(number))
                own = self._operations(number, needed, places)
                kept = [op for op in own if number != goes_on or op.memory is not Memory.NONE or not _is_branch(op)]
                ops += [_predicated(op, guard) for op in kept] if member.guard else kept
                registers.go_on(number, keeps_old=bool(member.guard or self._code[number].guard))
        return self._ordered(ops, blocks[-1], needed)

    def _all_shares(self, own: MachineCode) -> tuple[list[list[Share]], list[list[Share]]]:
        """Return the micro-ops of each instruction, without the access that it makes, and those of blocks alone."""
        code = Code(self._function, self._cfg, self._memory, self._joined, guards_of(self._code))
        check_products(self._code, self._architecture)
        if own.operations:
            leader = {member.block: members[0].block for members in self._lines for member in members}
            found = by_machine_code(code, own, [leader[n] for n in sorted(leader)], self._architecture)
        else:
            found = by_table(code, self._architecture)
        diffusion = Diffusion()
        shares: list[list[Share]] = []
        beside: list[list[Share]] = []
        for block, of_block in zip(self._cfg.blocks, found.of_blocks, strict=True):
            first, *others = diffusion.whole([of_block, *found.of_instructions[block.start : block.stop]])
            beside.append(first)
            shares += others
        return shares, beside

    def _makes(self, number: int) -> int:
        """Return in how many of FULL_WEIGHT executions an instruction makes its result itself."""
        if self._memory[number] is not Memory.NONE:
            return FULL_WEIGHT
        return max((share.weight for share in _split(self._shares[number])[0]), default=0)

    def _operations(self, number: int, sources: Registers, places: Places) -> Iterator[MicroOp]:
        ins, memory = self._code[number], self._memory[number]
        results = self._registers.made(number)[:MOST_DESTINATIONS]
        if memory is not Memory.NONE:
            for share in self._shares[number]:
                yield _filler(share, number, sources)
            if memory is Memory.AWAIT and ins.opcode.has(Trait.COMMIT):
                yield self._grouping(number, Memory.COMMIT)
            if memory is Memory.COMMIT and _GROUPS[ins.opcode.group] is Group.BULK:
                yield replace(self._grouping(number, memory), group=Group.BULK_READS)
            if ins.is_cluster_barrier:
                yield self._signal(number, sources)
            if number not in self._accesses.taken_in:
                yield self._access(number, sources, places)
            return
        on_chain, beside = _split(self._shares[number])
        for share in beside:
            yield _filler(share, number, sources)
        before: tuple[int, ...] = ()
        for share in on_chain:
            waits = tuple(dict.fromkeys((*before, *sources)))[:MOST_SOURCES]
            yield MicroOp(
                share.cost, Memory.NONE, share.weight, share.phase, waits, results, (), number,
                is_fence=ins.opcode.has(Trait.FENCE),
            )  # fmt: skip
            is_by_halves = ins.opcode.has(Trait.HALVES)
            before = () if is_by_halves else results
            # Only one that always runs stands between the sources and the rest of the chain.
            if share.weight == FULL_WEIGHT and not is_by_halves:
                sources = ()

    def _access(self, number: int, sources: Registers, places: Places) -> MicroOp:
        memory = self._memory[number]
        if memory in {Memory.BARRIER, Memory.ARRIVE}:
            return self._barrier(number, sources)
        if memory >= FIRST_OF_EVENTS:
            return self._event(number, sources)
        if memory in {Memory.COMMIT, Memory.AWAIT}:
            return self._grouping(number, memory)
        kind = self._code[number].opcode.group
        if memory is Memory.PRODUCT:
            cost = cost_of_group_product(self._code[number], self._architecture)
            waits = latest(sources)
            return MicroOp(cost, memory, FULL_WEIGHT, 0, waits, (), (), number, group=_GROUPS[kind])
        group = self._accesses.joined.get(number, (number,))
        results = tuple(dict.fromkeys(r for each in group for r in self._registers.made(each)))[:MOST_DESTINATIONS]
        found = tuple(place for each in group for place in places[each])
        cost = self._cost_of_exchange(number) if self._accesses.leaves_block(number) else Cost(Pipe.LSU)
        return MicroOp(cost, memory, FULL_WEIGHT, 0, sources, results, group, number, found, group=_GROUPS.get(kind, 0))

    def _barrier(self, number: int, sources: Registers) -> MicroOp:
        """Return an arrival at a barrier of the block, with its number and its warps where the PTX tells them."""
        ins = self._code[number]
        given = ins.operands[result_count(ins) :]
        given = given[:-1] if "red" in ins.modifiers else given
        values = [o.value if isinstance(o, Immediate) else None for o in given]
        barrier, threads = (*values, None, None)[:2] if not ins.is_cluster_barrier else (None, None)
        told = () if ins.is_cluster_barrier or None not in values else (number,)  # the recording tells it
        warps = -(-min(max(threads or 0, 0), _MOST_THREADS) // WARP_SIZE)  # other numbers are faults where they run
        return MicroOp(
            Cost(Pipe.BRANCH), self._memory[number], FULL_WEIGHT, 0, sources, (), told, number, is_fence=True,
            group=(barrier or 0) % BARRIERS, left=warps,
        )  # fmt: skip

    def _event(self, number: int, sources: Registers) -> MicroOp:
        """Return what changes a phase of an mbarrier, waits for one, or is told to one later."""
        ins, memory = self._code[number], self._memory[number]
        cost, group, left = Cost(Pipe.LSU), 0, 0
        if memory is Memory.BULK:
            cost, group = self._cost_of_bulk_copy(ins), Group.BULK
        elif memory is Memory.TELL:
            group = TOLD_GROUPS[ins.opcode.name]
            cost = Cost(Pipe.LSU, latency=self._commit_latency() if group is Group.TENSOR else 0.0)
        elif "try_cancel" in ins.modifiers:
            cost = self._cost_of_request(ins)
        elif memory in {Memory.TENSOR_PRODUCT, Memory.TENSOR_COPY}:
            cost, group = cost_in_tensor_memory(ins, self._architecture), Group.TENSOR
            left = int(not isinstance(ins.operands[1], Address))  # whether shared memory is read for A
        return MicroOp(
            cost, memory, FULL_WEIGHT, 0, latest(sources), self._registers.made(number)[:MOST_DESTINATIONS], (number,),
            number, is_fence=True, group=group, left=left,
        )  # fmt: skip

    def _commit_latency(self) -> float:
        """Return the cycles until an mbarrier is told; the answer to the thread that waits comes on top."""
        cycles = self._architecture.cycles
        return max(0.0, (cycles.tensor_commit or 0.0) - (cycles.shared_latency or 0.0))

    def _cost_of_request(self, ins: Instruction) -> Cost:
        """Return the cycles until the answer to a request for a cluster is there: those of a bulk copy from L2.

        Nobody has published them under a licence that lets us use them.
        """
        latency = self._cost_of_copy_from_global(ins).latency
        return Cost(Pipe.LSU, latency=latency + (self._architecture.cycles.l2_latency or 0.0))

    def _cost_of_bulk_copy(self, ins: Instruction) -> Cost:
        """Return the cycles that the copy engine takes for 128 bytes, and those that it takes to begin."""
        if "global" not in ins.modifiers:
            rate, latency = self._of_clusters("cluster_bytes"), self._of_clusters("cluster_latency")
            return Cost(Pipe.LSU, _LINE_BYTES / rate, latency)
        return self._cost_of_copy_from_global(ins)

    def _cost_of_copy_from_global(self, ins: Instruction) -> Cost:
        cycles = self._architecture.cycles
        latency = cycles.bulk_tensor_latency if "tensor" in ins.modifiers else None
        latency = cycles.bulk_latency if latency is None else latency
        if latency is None:
            raise MissingEvidenceError(
                f"{ins.name}: how long bulk copies take is unknown on {self._architecture.id}",
                where=ins.where, cure="Give cycles.bulk_latency in the GPU's file, or use --model roofline.",
            )  # fmt: skip
        return Cost(Pipe.LSU, cycles.shared_wavefront or 1.0, latency)

    def _cost_of_exchange(self, number: int) -> Cost:
        """Return what an access to another block's shared memory costs: its bytes on the way, and the way."""
        rate, latency = self._of_clusters("cluster_bytes"), self._of_clusters("cluster_latency")
        # The sub-partitions share the way; where all use it, each has its part.
        nbytes = WARP_SIZE * self._code[number].access_bytes * self._architecture.schedulers_per_sm
        return Cost(Pipe.LSU, nbytes / rate, latency)

    def _signal(self, number: int, sources: Registers) -> MicroOp:
        """Return what holds a warp before the cluster's barrier for as long as that takes more than a block's."""
        longer = self._of_clusters("cluster_barrier") - (self._architecture.cycles.barrier_latency or 0.0)
        return MicroOp(
            Cost(Pipe.BRANCH, latency=max(1.0, longer)), Memory.NONE, FULL_WEIGHT, 0, sources, (), (), number,
            is_fence=True,
        )  # fmt: skip

    def _of_clusters(self, name: str) -> float:
        value = getattr(self._architecture.cycles, name)
        if value is None:
            raise MissingEvidenceError(
                "what clusters of blocks cost is unknown",
                where=self._architecture.id,
                cure="Give clusters.latency, clusters.bytes_per_cycle and clusters.barrier in the GPU's file,"
                " or use --model roofline.",
            )
        return float(value)

    def _grouping(self, number: int, memory: Memory) -> MicroOp:
        """Return the micro-op that ends a group of asynchronous operations, or waits for groups."""
        ins = self._code[number]
        awaits = memory is Memory.AWAIT
        left = next((o.value for o in ins.operands if isinstance(o, Immediate)), 0)
        group = _GROUPS[ins.opcode.group]
        if group is Group.BULK and "read" in ins.modifiers:
            group = Group.BULK_READS
        pipe = Pipe.LSU if memory is Memory.COMMIT and group is Group.COPIES else Pipe.BRANCH
        return MicroOp(
            Cost(pipe), memory, FULL_WEIGHT, 0, (), (), (), number, is_fence=awaits, group=group,
            left=min(max(left, 0), MOST_GROUPS - 1),
        )  # fmt: skip

    def _ordered(self, ops: Sequence[MicroOp], block: BasicBlock, needed: Collection[int]) -> list[MicroOp]:
        """Return micro-ops in order of issue; what ends the last block stays last, the branch itself behind it.

        ``needed``: registers that the last instruction reads, which may have no micro-op of its own.
        """
        last = block.stop - 1 if self._code[block.stop - 1].ends_block else -1
        moving = [op for op in ops if op.instruction != last]
        parts = _between_products(moving)
        ordered = [part[n] for part in parts for n in scheduled(part, [self._latency.of(op) for op in part])]
        ending = sorted((op for op in ops if op.instruction == last), key=_is_branch)
        deciding = {*(needed if last >= 0 else ()), *(register for op in ending for register in op.sources)}
        return [*_with_questions(ordered, deciding), *ending]


def _between_products(ops: Sequence[MicroOp]) -> list[list[MicroOp]]:
    """Return micro-ops up to each wait for products, and behind it: what reads their sums does not move before it."""
    parts: list[list[MicroOp]] = [[]]
    for op in ops:
        parts[-1].append(op)
        if op.memory is Memory.AWAIT and op.group == Group.PRODUCTS:
            parts.append([])
    return parts


def _with_questions(ops: Sequence[MicroOp], deciding: Collection[int]) -> list[MicroOp]:
    """Return micro-ops in which each wait only asks whose answer decides nothing here, and what it makes comes last.

    ``deciding``: registers that the end of the line reads. Pipelines ask for their next stage before they work on this
    one. Machine code writes a predicate that nothing reads until then (``SYNCS.PHASECHK.TRANS64.TRYWAIT``, then
    ``UTCHMMA``; nvJitLink 12.9 for CUTLASS's kernels for sm_100a).
    """
    found = list(ops)
    for wait in (op for op in ops if op.memory is Memory.WAIT):
        answers, late = set(wait.destinations), list[MicroOp]()
        for op in found[found.index(wait) + 1 :]:
            if answers.intersection(op.sources):
                answers.update(op.destinations)
                late.append(op)
        if answers and not answers.intersection(deciding) and all(op.memory is Memory.NONE for op in late):
            rest = [op for op in found if not any(op is each for each in late)]
            found = [replace(op, memory=Memory.ASK) if op is wait else op for op in rest] + late
    return found


def _is_branch(op: MicroOp) -> bool:
    return op.cost.pipe is Pipe.BRANCH


def _predicated(op: MicroOp, guard: Registers) -> MicroOp:
    """Return a micro-op that waits for a predicate, too."""
    return replace(op, sources=latest((*guard, *op.sources)), keeps_old=True)


def _filler(share: Share, number: int, sources: tuple[int, ...] = ()) -> MicroOp:
    """Return a micro-op that nothing waits for."""
    return MicroOp(share.cost, Memory.NONE, share.weight, share.phase, sources, (), (), number)


def _split(shares: Sequence[Share]) -> tuple[list[Share], list[Share]]:
    """Return the micro-ops that make a result one after the other, special functions first, and those beside them.

    Beside it are branches, a part of a long expansion, which checks operands, and what comes with a whole micro-op in
    some executions only, as constants do.
    """
    aside = len(shares) // _OFF_CHAIN_PART if len(shares) >= _LONG_CHAIN else 0
    has_whole = any(share.weight == FULL_WEIGHT and share.cost.pipe is not Pipe.BRANCH for share in shares)
    on_chain: list[Share] = []
    beside: list[Share] = []
    for share in sorted(shares, key=lambda share: share.cost.pipe is not Pipe.XU):
        is_check = share.cost.pipe in {Pipe.ALU, Pipe.UNIFORM} and len(beside) < aside
        is_extra = has_whole and share.weight < FULL_WEIGHT
        (beside if is_check or is_extra or share.cost.pipe is Pipe.BRANCH else on_chain).append(share)
    return on_chain, beside


class _Latencies:
    """Cycles to the result of a micro-op, for ordering."""

    def __init__(self, architecture: Architecture) -> None:
        cycles = architecture.cycles
        self._alu = cycles.alu_latency or _TYPICAL_ALU
        self._shared = cycles.shared_latency or _TYPICAL_SHARED
        self._global = cycles.l2_latency or _TYPICAL_GLOBAL

    def of(self, op: MicroOp) -> float:
        """Return the cycles of one micro-op."""
        match op.memory:
            case Memory.LOAD | Memory.ATOMIC | Memory.ATOMIC_JOINED | Memory.ATOMIC_JOINED_BY_ALL:
                return self._global
            case Memory.SHARED_LOAD | Memory.SHARED_ATOMIC:
                return self._shared
            case Memory.SHARED_ATOMIC_JOINED | Memory.SHARED_ATOMIC_JOINED_BY_ALL:
                return self._shared
        if op.cost.pipe is Pipe.TENSOR:  # as if they were short: ptxas leaves products in the order of the PTX
            return self._alu
        if op.cost.pipe in {Pipe.XU, Pipe.LSU}:
            return op.cost.latency or self._shared
        return op.cost.latency or self._alu


def _program(blocks: Sequence[Sequence[MicroOp]], leader: Ints, registers: int) -> Program:
    ops = [op for block in blocks for op in block]
    return Program(
        starts=np.cumsum([0, *map(len, blocks)], dtype=np.int32),
        leader=leader,
        pipe=np.array([op.cost.pipe for op in ops], np.int32),
        memory=np.array([op.memory for op in ops], np.int32),
        cycles=np.array([op.cost.cycles for op in ops], np.float32),
        latency=np.array([op.cost.latency for op in ops], np.float32),
        weight=np.array([op.weight for op in ops], np.int32),
        phase=np.array([op.phase for op in ops], np.int32),
        sources=_padded([op.sources for op in ops], MOST_SOURCES),
        destinations=_padded([op.destinations for op in ops], MOST_DESTINATIONS),
        accesses=_padded([op.accesses for op in ops], MOST_DESTINATIONS),
        group=np.array([op.group for op in ops], np.int32),
        left=np.array([op.left for op in ops], np.int32),
        instruction=np.array([op.instruction for op in ops], np.int32),
        registers=registers,
    )


def _padded(rows: Sequence[tuple[int, ...]], width: int) -> npt.NDArray[np.int32]:
    found = np.full((len(rows), width), NO_REGISTER, np.int32)
    for number, row in enumerate(rows):
        found[number, : len(row)] = row
    return found
