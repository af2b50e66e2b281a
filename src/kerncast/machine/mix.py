"""The machine instructions that a launch executes, those for spilled registers among them."""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import CompiledKernel
from kerncast.machine.disassembled import disassembled_steps
from kerncast.machine.estimated import estimated_steps
from kerncast.machine.instruction_set import Step
from kerncast.machine.linear_program import NotSolvedError
from kerncast.machine.listing import disassemble
from kerncast.machine.ptx_counts import UnmatchedError, count_lines
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
from kerncast.traces import Trace

_DIGITS = 4
Scale = Callable[[npt.NDArray[np.float64]], Count]


def machine_mix(trace: Trace, scale: Scale, kernel: CompiledKernel) -> MachineMix:
    """Return the machine instructions of a launch; ``scale`` turns a value per executed block into a count."""
    architecture = kernel.resources.architecture
    number = int("".join(filter(str.isdigit, architecture)))
    code = disassemble(kernel.cubin, architecture)
    problem = code.problem or "the machine code could not be matched with the PTX"
    if kernel.mangled in code.routines:
        try:
            executed = count_lines(trace, kernel.ptx, kernel.mangled)
            steps, doubts = disassembled_steps(code.routines[kernel.mangled], executed, number)
            return replace(_mix(trace, scale, steps, (Origin.DISASSEMBLED, architecture)), doubts=doubts)
        except (NotSolvedError, UnmatchedError):
            pass
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
    if resources is None or not resources.spill_load_bytes + resources.spill_store_bytes:
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
