"""The machine instructions that a launch executes, those for spilled registers among them."""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import fields, replace

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
from kerncast.profiles import AccessCount, CacheTraffic, Count, KernelProfile, MachineMix, OpcodeCount, Origin
from kerncast.traces import Trace

# The machine instructions of a launch: disassembled where that is possible, else estimated.


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
    loads, stores = (_spilled(profile, operation) for operation in ("ld", "st"))
    others = [each for each in profile.accesses if each.space != "local"]
    own = [_sum(profile, each) for each in (loads, stores)]
    caches = profile.caches
    if caches is not None:
        caches = _through(caches, loads.sectors, stores.sectors, is_in_l1=_fits_l1(profile, caches))
    return replace(profile, accesses=(*others, *own), caches=caches)


def _spilled(profile: KernelProfile, operation: str) -> AccessCount:
    """Return the accesses that only the machine code has."""
    assert profile.resources is not None
    machine, resources = profile.machine, profile.resources
    if machine is not None and machine.origin is Origin.DISASSEMBLED:
        found = [each.warp_instructions for each in machine.opcodes if each.opcode == _OPCODES[operation]]
        known = [each.requests for each in profile.accesses if (each.space, each.operation) == ("local", operation)]
        requests = sum(found, Count.exact(0)) - sum(known, Count.exact(0))
    else:
        nbytes = resources.spill_load_bytes if operation == "ld" else resources.spill_store_bytes
        warps = math.prod(profile.grid) * -(-math.prod(profile.block) // _LANES)
        value = warps * nbytes / _WORD_BYTES
        requests = Count(value, 0.0, value)
    none = Count.exact(0)
    threads = requests.times(_LANES)
    sectors = requests.times(_SECTORS_PER_REQUEST)
    return AccessCount(
        "local", operation, requests, threads, threads.times(_WORD_BYTES), sectors, requests, none, none, none
    )


def _sum(profile: KernelProfile, spilled: AccessCount) -> AccessCount:
    """Return spills together with what the PTX itself accesses in local memory."""
    own = [each for each in profile.accesses if (each.space, each.operation) == ("local", spilled.operation)]
    names = [each.name for each in fields(AccessCount) if each.name not in {"space", "operation"}]
    return replace(
        spilled, **{name: sum((getattr(each, name) for each in own), getattr(spilled, name)) for name in names}
    )


def _fits_l1(profile: KernelProfile, caches: CacheTraffic) -> bool:
    assert profile.resources is not None
    threads = caches.resident_blocks_per_sm * math.prod(profile.block)
    return threads * profile.resources.local_bytes_per_thread <= (caches.l1_bytes or 0)


def _through(caches: CacheTraffic, loads: Count, stores: Count, *, is_in_l1: bool) -> CacheTraffic:
    """Return the traffic with spills that hit in L1 or in L2."""
    changed = {"l2_write_sectors": stores, "l2_write_hits": stores}
    changed |= {"l1_local_hits": loads} if is_in_l1 else {"l2_read_sectors": loads, "l2_read_hits": loads}
    return replace(caches, **{name: getattr(caches, name) + count for name, count in changed.items()})
