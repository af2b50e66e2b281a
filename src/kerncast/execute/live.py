"""Kernels of a running program: its memory is theirs, whole grids run, and what a geometry needs is kept.

A launch of a program costs little where another one of its kernel and geometry ran before: its code, its blocks' memory
and its threads are there already, and only parameters change.
"""

import bisect
import hashlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kerncast.errors import DoesNotFitError, LaunchError, MachineLimitError, UnsupportedError
from kerncast.execute.native.engine import Compiled, Run, compile_program, stray_of, worker_count
from kerncast.execute.native.jit import TooLargeError
from kerncast.execute.sampling.sample import Budget
from kerncast.execute.setup.arena import GLOBAL_BASE, Arena, Touched
from kerncast.execute.setup.dataflow import UNKNOWN, BufferUse, own_pointers, use_of
from kerncast.execute.setup.layout import Program
from kerncast.execute.setup.state import Setting
from kerncast.execute.setup.supported import check_operands, check_pairs, check_supported, in_clusters
from kerncast.launch import NO_CLUSTER, Extent, Launch, blocks_of_clusters
from kerncast.traces import Allocation

Bytes = npt.NDArray[np.uint8]

#: Blocks at a time, so that the counters of a large grid take little memory.
_BLOCKS_AT_ONCE = 2**14
#: Geometries of one kernel that are kept ready.
_MOST_KEPT = 64
#: Grids of fewer threads are not worth a second core.
_FEW_THREADS = 2**15
#: Address space for the frames of generated code, of which only what is touched costs memory.
STACK_BYTES = 512 * 2**20
#: Nothing but the clock ends a launch of a program: what it does is its own business.
_BLOCK_STEPS = 2**62
_MEMORY_BYTES = 2**62


class LiveMemory:
    """Global memory that a program shares with the engine: allocations come and go between launches."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        """memory from GLOBAL_BASE on"""
        self._starts: list[int] = []
        self._allocations: dict[int, Allocation] = {}
        self._arena: Arena | None = None
        self.highest = 0
        """end of the highest allocation so far, as an offset"""

    def add(self, address: int, nbytes: int, name: str) -> None:
        """Take an allocation; raises LaunchError for one that lies outside the memory, or in another one's place."""
        start = address - GLOBAL_BASE
        place = bisect.bisect_right(self._starts, start)
        before = self._allocations[self._starts[place - 1]] if place else None
        overlaps = before is not None and before.start + max(1, before.nbytes) > start
        overlaps |= place < len(self._starts) and self._starts[place] < start + nbytes
        if not 0 <= start <= start + nbytes <= len(self._data) or overlaps:
            raise LaunchError(f"{nbytes} bytes at {address:#x} are no place for {name}")
        self._starts.insert(place, start)
        self._allocations[start] = Allocation(name, address, start, nbytes)
        self.highest = max(self.highest, start + nbytes)
        self._arena = None

    def remove(self, address: int) -> None:
        """Give an allocation back; one that is not there is no error."""
        if self._allocations.pop(address - GLOBAL_BASE, None):
            self._starts.remove(address - GLOBAL_BASE)
            self._arena = None

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that an address lies in, or at the end of."""
        place = bisect.bisect_right(self._starts, address - GLOBAL_BASE) - 1
        if place < 0:
            return None
        found = self._allocations[self._starts[place]]
        return found if address <= found.address + found.nbytes else None

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """All of them, in the order of their addresses."""
        return self.arena.allocations

    @property
    def arena(self) -> Arena:
        """The memory as engines see it; another object whenever allocations have changed."""
        if self._arena is None:
            self._arena = Arena(self._data, [self._allocations[start] for start in self._starts])
        return self._arena

    def bytes_at(self, address: int, nbytes: int) -> Bytes:
        """Return memory as a view; raises LaunchError where there is none."""
        start = address - GLOBAL_BASE
        if not 0 <= start <= start + nbytes <= len(self._data):
            raise LaunchError(f"{nbytes} bytes at {address:#x} are not in the memory of the GPU")
        return self._data[start : start + nbytes]


@dataclass(frozen=True, slots=True)
class Call:
    """One launch of a program: geometry and raw parameters."""

    grid: Extent
    block: Extent
    shared_bytes: int
    parameters: bytes
    is_cooperative: bool = False
    """whether all blocks have to be resident, because they wait for one another"""
    cluster: Extent | None = None
    """blocks of a cluster, where the launch names them"""


@dataclass(frozen=True, slots=True)
class Rules:
    """How launches end that do not end well."""

    seconds: float = 600.0
    """wall time of one launch"""
    goes_on: bool = False
    """whether an access outside all allocations goes on, as on a GPU, where memory is mapped"""
    is_over: Callable[[], bool] = lambda: False
    """tells that the program has ended, and a launch of it with it"""


@dataclass(frozen=True, slots=True)
class Work:
    """What one launch did."""

    thread_instructions: int
    fingerprint: bytes
    """digest of the counts of all basic blocks: launches that have it in common took the same ways"""
    printed: str = ""
    stray: str | None = None
    """the first access outside all allocations that went on"""


@dataclass(slots=True)
class LiveKernel:
    """One kernel of a program, with its variables placed in the program's memory."""

    linked: Program
    addresses: Mapping[str, int]
    """address of each module variable that the kernel reaches"""
    compiled: Compiled | None = None
    _runs: dict[tuple[Extent, Extent, Extent | None, int, int], Run] = field(default_factory=dict)
    """what is kept, by geometry and number of workers"""
    _own: "tuple[bytes, Arena, Mapping[str, Allocation]] | None" = None
    """parameters that point to a buffer of their own, as they were asked for last"""

    @property
    def program(self) -> Program:
        """The program with the addresses of its variables."""
        return replace(self.linked, addresses={**self.linked.addresses, **self.addresses})

    def launch(self, call: Call, memory: LiveMemory, rules: Rules) -> Work:
        """Run the whole grid in order, on the program's memory.

        Raises UnsupportedError for a kernel that cannot be executed, KernelFault for one that misbehaves, and
        MachineLimitError for one that takes too long. Call it on a thread with STACK_BYTES of stack.
        """
        deadline = time.monotonic() + rules.seconds
        run = self._ready(call, memory, rules)
        run.deadline, run.is_over = deadline, rules.is_over
        try:
            return _whole_grid(run, deadline, rules)
        except BaseException:  # its blocks stand somewhere in their middle
            self._runs.clear()
            raise

    def use(self, parameters: bytes, memory: LiveMemory) -> BufferUse:
        """Return what the kernel reads and writes, given which parameters are pointers into which allocations."""
        return use_of(self.linked, frozenset(self._pointers(parameters, memory)))

    def reaches(self, bases: frozenset[str], parameters: bytes, memory: LiveMemory) -> set[int] | None:
        """Return the starts of the allocations that some bases mean; None where it may be any."""
        if UNKNOWN in bases:
            return None
        own = self._pointers(parameters, memory)
        found = set()
        for name in bases:
            if name in own:
                found.add(own[name].start)
            elif name in self.addresses:
                found.add(self.addresses[name] - GLOBAL_BASE)
            else:
                return None
        return found

    def _pointers(self, parameters: bytes, memory: LiveMemory) -> Mapping[str, Allocation]:
        """Return the parameters that point to a buffer of their own: asked several times for each launch."""
        if self._own is None or self._own[0] != parameters or self._own[1] is not memory.arena:
            self._own = parameters, memory.arena, own_pointers(self.linked, parameters, memory)
        return self._own[2]

    def _ready(self, call: Call, memory: LiveMemory, rules: Rules) -> Run:
        parameters = call.parameters[: self.linked.parameter_bytes].ljust(self.linked.parameter_bytes, b"\0")
        workers = 0 if call.is_cooperative else self._workers(call, parameters, memory)
        geometry = call.grid, call.block, call.cluster, call.shared_bytes, workers
        run = self._runs.get(geometry)
        if run is not None:
            run.renew(parameters, memory.arena)
            return run
        if len(self._runs) >= _MOST_KEPT:
            self._runs.clear()
        run = self._new_run(call, parameters, memory, rules)
        run.prepare(
            parameters,
            [run.program.address_of(name) for name in run.compiled.symbols],
            workers or 1,
            None if workers else math.prod(call.grid),
        )
        self._runs[geometry] = run
        return run

    def _new_run(self, call: Call, parameters: bytes, memory: LiveMemory, rules: Rules) -> Run:
        function = self.linked.function
        launch = Launch(Path(function.name), None, call.grid, call.block, call.shared_bytes, cluster=call.cluster)
        try:
            launch = in_clusters(launch, function, self.linked.target)
            check_pairs(launch, function)
        except LaunchError as error:
            raise DoesNotFitError(error.what, where=function.name, cure=error.cure) from None
        budget = Budget(block_steps=_BLOCK_STEPS, seconds=rules.seconds, memory_bytes=_MEMORY_BYTES)
        touched = Touched(_NOTHING)
        setting = Setting(self.linked, self.program, launch, memory.arena, parameters, budget, touched, (), frozenset())
        run = Run(self._compile(), replace(setting, goes_on=rules.goes_on))
        run.runs_here = True
        return run

    def _workers(self, call: Call, parameters: bytes, memory: LiveMemory) -> int:
        """Return how many cores run blocks: one where these could see what others write."""
        if math.prod(call.grid) * math.prod(call.block) < _FEW_THREADS:
            return 1
        return worker_count(self.linked, frozenset(self._pointers(parameters, memory)))

    def _compile(self) -> Compiled:
        if self.compiled is None:
            check_supported(self.linked.function)
            check_operands(self.linked.function)
            try:
                self.compiled = compile_program(self.linked, counts_memory=False)
            except TooLargeError:
                raise UnsupportedError("the kernel is too large to be compiled for this CPU") from None
        return self.compiled


#: What is touched is not noted.
_NOTHING = Arena.for_buffers([("nothing", 1)])


def _whole_grid(run: Run, deadline: float, rules: Rules) -> Work:
    blocks = run.launch.blocks
    sums = np.zeros(run.compiled.counters.bytes // 8, np.int64)

    def keep_going(_: int) -> None:
        if rules.is_over():
            raise MachineLimitError("the launch was stopped with its program", where=run.program.function.name)
        if time.monotonic() > deadline:
            raise MachineLimitError(
                f"the launch was stopped after {rules.seconds:g} s",
                where=run.program.function.name,
                cure="Use a smaller problem, or allow more time: --launch-seconds.",
            )

    strays = None
    launch, together = run.launch, run.launch.cluster_blocks
    at_once = _BLOCKS_AT_ONCE // together
    for start in range(0, blocks // together, at_once):
        chosen = np.arange(start, min(blocks // together, start + at_once), dtype=np.int64)
        if together > 1:
            chosen = blocks_of_clusters(chosen, launch.grid, launch.cluster or NO_CLUSTER)
        workers = run.run(chosen, keep_going)
        sums += run.counters.sum(axis=0)
        run.forget()
        strays = strays or next(filter(None, (stray_of(each, run) for each in workers)), None)
    lengths = np.array(run.program.cfg.lengths, np.int64)
    instructions = int(sums[1 : 2 * len(lengths) : 2] @ lengths)
    digest = hashlib.blake2b(sums.tobytes(), digest_size=8).digest()
    return Work(instructions, digest, run.console.take(), strays)


def on_large_stack(work: Callable[[], None]) -> None:
    """Do some work on a thread whose stack has room for the frames of generated code; raises what it raises."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  raised again where it is waited for
            raised.append(error)

    before = threading.stack_size(STACK_BYTES)
    try:
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    if raised:
        raise raised[0]
