"""The machine instructions that a launch executes: disassembled where that is possible, else estimated from the PTX.

Estimated, each PTX instruction becomes what its form became on average in the machine code of the suite. Short blocks
behind a branch are issued, with a predicate, with the block before them. Fails when: the compiler treats the kernel at
hand otherwise than most, as when it unrolls a loop whose body is large.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import CompiledKernel
from kerncast.machine.control_flow import MachineGraph, is_anchor, machine_graph, stays_in_place
from kerncast.machine.forms import forms_of, issuing_blocks
from kerncast.machine.frequencies import Frequencies, block_frequencies, rare_blocks
from kerncast.machine.instruction_set import ENTRY, Step, kind_of, lowered
from kerncast.machine.linear_program import NotSolvedError
from kerncast.machine.listing import MachineInstruction, disassemble
from kerncast.machine.ptx_counts import PtxCounts, UnmatchedError, count_lines
from kerncast.profiles import CacheSimulation, Count, Counts, KernelProfile, MachineMix, OpcodeCount, Origin
from kerncast.profiles.counts import (
    L1_LOCAL_HITS,
    L2_LOAD_HITS,
    L2_LOAD_SECTORS,
    L2_WRITE_HITS,
    L2_WRITE_SECTORS,
    access_name,
    with_totals,
)
from kerncast.ptx import Trait
from kerncast.traces import Trace

_DIGITS = 4
Scale = Callable[[npt.NDArray[np.float64]], Count]


def machine_mix(trace: Trace, scale: Scale, kernel: CompiledKernel) -> MachineMix:
    """Return the machine instructions of a launch; ``scale`` turns a value per executed block into a count."""
    architecture = kernel.resources.architecture
    number = int("".join(filter(str.isdigit, architecture)))
    reading, problem = reading_of(trace, kernel)
    if reading is not None:
        mix = _mix(trace, scale, reading.steps(number), (Origin.DISASSEMBLED, architecture))
        return replace(mix, doubts=(RARE,) if rare_blocks(reading.graph) else ())
    doubt = Caveat.of(CaveatKind.MACHINE_CODE_ESTIMATED, reason=problem)
    return replace(
        _mix(trace, scale, estimated_steps(trace, number), (Origin.ESTIMATED, architecture)), doubts=(doubt,)
    )


def _mix(trace: Trace, scale: Scale, steps: list[Step], source: tuple[Origin, str]) -> MachineMix:
    """Add up the steps of each opcode and scale them to the grid."""
    blocks = len(trace.cfg.blocks)
    times: dict[tuple[str, str, str], npt.NDArray[np.float64]] = defaultdict(lambda: np.zeros(blocks))
    on: dict[tuple[str, str, str], npt.NDArray[np.float64]] = defaultdict(lambda: np.zeros(blocks))
    for step in steps:
        key = step.opcode, step.work, step.pipe
        times[key][step.block] += step.times
        on[key][step.block] += step.times * step.on
    warps, threads = trace.counts.block_warps, trace.counts.block_threads

    def total_of(executed: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> Count:
        # What is solved for is right to some ten digits: noise beyond them would look like variation between blocks.
        return scale(np.round(executed @ weights, _DIGITS))

    opcodes = [
        OpcodeCount(*key, total_of(warps, times[key]), total_of(threads, times[key]), total_of(threads, on[key]))
        for key in times
    ]
    total, total_on = sum(times.values(), np.zeros(blocks)), sum(on.values(), np.zeros(blocks))
    return MachineMix(
        *source,
        tuple(sorted(opcodes, key=lambda o: (-o.warp_instructions.value, o.opcode, o.work))),
        total_of(warps, total),
        total_of(threads, total),
        total_of(threads, total_on),
    )


_JUMPS = {"BRA", "BRX", "JMP", "EXIT", "CALL", "RET"}
#: A selection becomes two moves, of which each thread does one, or one move that it may do.
_HALF = 0.5
_NEGLIGIBLE = 1e-8
_ANCHOR_VOTES = 4
#: Least executions of a PTX block, relative to the machine block's; with fewer it does not run with that block.
_ENOUGH = 0.99
#: Least share of instructions whose lines the PTX has; routines of the compiler and padding have none.
_MATCHED = 0.25
_UNMATCHED = "the machine code could not be matched with the PTX"
RARE = Caveat(CaveatKind.RARE_CODE_NOT_EXECUTED)


def reading_of(trace: Trace, kernel: CompiledKernel) -> tuple["Reading | None", str]:
    """Return the kernel's machine code with its counts, or why there is none."""
    code = disassemble(kernel.cubin, kernel.resources.architecture)
    if kernel.mangled in code.routines:
        try:
            executed = count_lines(trace)
            graph = machine_graph(code.routines[kernel.mangled])
            _check_matched(graph, executed)
            return Reading(graph, executed, block_frequencies(graph, executed)), ""
        except (NotSolvedError, UnmatchedError):
            return None, _UNMATCHED
    return None, code.problem or _UNMATCHED


def _check_matched(graph: MachineGraph, executed: PtxCounts) -> None:
    """Raise UnmatchedError where few lines of the machine code are known."""
    matched = sum(ins.line in executed.on_line for ins in graph.code)
    if matched < _MATCHED * len(graph.code):
        raise UnmatchedError


class Reading:
    """Machine code whose blocks have counts."""

    def __init__(self, graph: MachineGraph, executed: PtxCounts, found: Frequencies) -> None:
        self.graph = graph
        self.executed = executed
        self.found = found
        self.ran = {block: times for block, times in found.blocks.items() if times > _NEGLIGIBLE}
        self.guarded: dict[tuple[object, ...], float] = defaultdict(float)
        """executions of guarded instructions, by the work that they do"""
        for block, times in self.ran.items():
            for ins in self.code_of(block):
                if ins.guard:
                    self.guarded[self._work(ins)] += times

    def steps(self, architecture: int) -> list[Step]:
        """Return the instructions that ran."""
        steps = []
        for block, times in sorted(self.ran.items()):
            beside = self.ptx_block(block, times)
            ratio = times / float(self.executed.block_threads[beside])
            for ins in self.code_of(block):
                kind = kind_of(ins.opcode, ins.modifiers, architecture)
                on = self.share_on(ins, block, times) if ins.guard else 1.0
                steps.append(Step(ins.opcode, kind.work, kind.pipe, beside, ratio, on))
        return steps

    def ptx_block(self, block: int, times: float) -> int:
        """Return the PTX block whose warps run a machine block: most of it, and as often or, unrolled, more often."""
        votes: Counter[int] = Counter()
        for ins in self.code_of(block):
            if not ins.guard and ins.line in self.executed.on_line:
                first = self.executed.first(ins.line)
                weight = _ANCHOR_VOTES if is_anchor(ins, first) else 2 if stays_in_place(ins, first) else 1
                votes[self.executed.block(ins.line)] += weight
        counts = self.executed.block_threads
        enough = [ptx for ptx in votes if counts[ptx] >= _ENOUGH * times]
        if enough:
            return max(enough, key=lambda ptx: (votes[ptx], -ptx))
        # Where threads meet again, the code bears lines of a block that few of them ran: one before it held them all.
        ptx: int | None = max(votes, key=lambda ptx: (votes[ptx], -ptx), default=0)
        while ptx is not None and counts[ptx] < _ENOUGH * times:
            ptx = self.executed.cfg.dominators.parents[ptx]
        return 0 if ptx is None else ptx

    def share_on(self, ins: MachineInstruction, block: int, times: float) -> float:
        """Return the share of threads whose predicate holds."""
        if ins.opcode in _JUMPS and self.graph.code[self.graph.blocks[block].stop - 1] is ins:
            to = self.graph.blocks[block].successors[0]
            return min(1.0, max(0.0, self.found.edges.get((block, to), 0.0) / times))
        if ins.line not in self.executed.on_line:
            return 1.0
        ptx = self.executed.first(ins.line)
        if ptx.opcode.has(Trait.RARE):
            return 0.0
        if ptx.root == "selp":
            return _HALF
        return min(1.0, self.executed.count(ins.line) / max(self.guarded[self._work(ins)], _NEGLIGIBLE))

    def _work(self, ins: MachineInstruction) -> tuple[object, ...]:
        """Return what instructions share that do the work of one PTX instruction between them.

        A local array in registers is read by a chain of moves, of which each thread does one.
        """
        ptx = self.executed.first(ins.line) if ins.line in self.executed.on_line else None
        if ptx is not None and ptx.space == "local" and ins.opcode not in {"LDL", "STL"}:
            return (ins.line,)
        return ins.line, ins.opcode, ins.modifiers

    def code_of(self, block: int) -> tuple[MachineInstruction, ...]:
        """Return the instructions of a machine block."""
        place = self.graph.blocks[block]
        return self.graph.code[place.start : place.stop]


#: Instructions whose predicate says where threads go; the threads that take the branch count as on.
_BRANCHES = {"BRA", "BRX", "EXIT"}


def estimated_steps(trace: Trace, architecture: int) -> list[Step]:
    """Return the steps that the executed PTX should become on an architecture, such as 75."""
    lowering = _Lowering(trace, architecture)
    for number, form in enumerate(forms_of(trace.function, trace.cfg)):
        lowering.add(number, form)
    for opcode, times in lowered(ENTRY, architecture):
        lowering.steps.append(lowering.step(opcode, 0, times, 1.0))
    return lowering.steps


class _Lowering:
    """The steps while they are collected."""

    def __init__(self, trace: Trace, architecture: int) -> None:
        self.trace = trace
        self.architecture = architecture
        self.steps: list[Step] = []
        self.block_of = [n for n, block in enumerate(trace.cfg.blocks) for _ in range(block.start, block.stop)]
        self.issued_with = issuing_blocks(trace.function, trace.cfg)
        self.block_threads = trace.counts.block_threads.sum(axis=0).astype(np.float64)
        guarded = trace.counts.guarded_threads.sum(axis=0)
        self.guarded = dict(zip(trace.counts.guarded, guarded.tolist(), strict=True))

    def add(self, number: int, form: str) -> None:
        """Add what one PTX instruction becomes."""
        block = self.block_of[number]
        issued = self.issued_with[block]
        threads = self.guarded.get(number, float(self.block_threads[block]))
        on = min(1.0, threads / float(self.block_threads[issued])) if self.block_threads[issued] else 0.0
        for opcode, times in lowered(form, self.architecture):
            share = self._taken(block) if opcode in _BRANCHES and issued == block else on
            self.steps.append(self.step(opcode, issued, times, share))

    def step(self, opcode: str, block: int, times: float, on: float) -> Step:
        """Return a step with its class and pipe."""
        kind = kind_of(opcode, (), self.architecture)
        return Step(opcode, kind.work, kind.pipe, block, times, on)

    def _taken(self, block: int) -> float:
        """Return the share of threads that a branch takes somewhere else, where block counts tell it."""
        following = self.trace.cfg.successors[block]
        own = float(self.block_threads[block])
        others = [to for to in set(following) if to != block + 1]
        if not own or len(set(following)) < 2 or len(others) != 1 or block + 1 >= self.trace.cfg.exit:
            return 1.0
        entered_by = [b for b, to in enumerate(self.trace.cfg.successors) if block + 1 in to]
        fallen = float(self.block_threads[block + 1]) if len(entered_by) == 1 else own / 2
        return min(1.0, max(0.0, 1.0 - fallen / own))


# Registers that the compiler spills to local memory: the PTX knows nothing of them, the machine code does.
#
# A request of a warp moves 4 bytes of each thread, which lie side by side: 4 sectors. Where the code is disassembled,
# its loads and stores of local memory beyond the PTX's are spills; else each is taken to run once per thread. Spills
# are written through to L2 and found again in L1, as long as it has room for the local memory of all resident
# threads; else in L2. Fails when: spills lie in a loop and nothing is disassembled; so many SMs spill that L2 has no
# room for them.


_WORD_BYTES, _SECTORS_PER_REQUEST, _LANES = 4, 4, 32
_OPCODES = {"ld": "LDL", "st": "STL"}


def with_spills(profile: KernelProfile) -> KernelProfile:
    """Add the traffic of spilled registers to the accesses of a profile, and to its caches."""
    resources = profile.resources
    if resources is None or not resources.spills:
        return profile
    requests = {operation: _spilled_requests(profile, operation) for operation in ("ld", "st")}
    added = {name: count for each, count in requests.items() for name, count in _accesses(each, count).items()}
    counts = _added(profile.counts, Origin.EXECUTED, added)
    if profile.caches is not None:
        loads, stores = (each.times(_SECTORS_PER_REQUEST) for each in requests.values())
        through = _through(loads, stores, is_in_l1=_fits_l1(profile, profile.caches))
        counts = _added(counts, Origin.SIMULATED, through)
    return replace(profile, counts=with_totals(counts))


def _spilled_requests(profile: KernelProfile, operation: str) -> Count:
    """Return the requests to local memory that only the machine code has."""
    assert profile.resources is not None
    machine, resources = profile.machine, profile.resources
    if machine is not None and machine.origin is Origin.DISASSEMBLED:
        found = [each.warp_instructions for each in machine.opcodes if each.opcode == _OPCODES[operation]]
        known = profile.counts.total((access_name("local", operation, "requests"),))
        return sum(found, Count.exact(0)) - known
    nbytes = resources.spill_load_bytes if operation == "ld" else resources.spill_store_bytes
    warps = math.prod(profile.grid) * -(-math.prod(profile.block) // _LANES)
    value = warps * nbytes / _WORD_BYTES
    return Count(value, 0.0, value)


def _accesses(operation: str, requests: Count) -> dict[str, Count]:
    """Return the accesses that so many requests for spilled registers make."""
    threads = requests.times(_LANES)
    counts = {
        "requests": requests,
        "threads": threads,
        "bytes": threads.times(_WORD_BYTES),
        "sectors": requests.times(_SECTORS_PER_REQUEST),
        "lines": requests,
    }
    return {access_name("local", operation, quantity): count for quantity, count in counts.items()}


def _added(counts: Counts, origin: Origin, more: dict[str, Count]) -> Counts:
    """Return counts that are larger by some more of the same kind."""
    return counts.updated(Counts.of(origin, {name: count + counts.total((name,)) for name, count in more.items()}))


def _fits_l1(profile: KernelProfile, caches: CacheSimulation) -> bool:
    assert profile.resources is not None
    threads = caches.resident_blocks_per_sm * math.prod(profile.block)
    return threads * profile.resources.local_bytes_per_thread <= (caches.l1_bytes or 0)


def _through(loads: Count, stores: Count, *, is_in_l1: bool) -> dict[str, Count]:
    """Return what the sectors of spills add to the traffic of the caches: they hit in L1 or in L2."""
    written = {L2_WRITE_SECTORS: stores, L2_WRITE_HITS: stores}
    return written | ({L1_LOCAL_HITS: loads} if is_in_l1 else {L2_LOAD_SECTORS: loads, L2_LOAD_HITS: loads})
