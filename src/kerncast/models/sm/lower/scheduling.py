"""The order in which the compiler issues the micro-ops of a straight line, as far as it matters for time.

List scheduling: of the micro-ops whose operands are there, the one goes first behind which most latency lies, so that
loads and the arithmetic of their addresses come early. Loaded values that nothing has read yet are limited, as
registers are. Stores and loads that may touch the same bytes stay in order, and all accesses around atomics and fences.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from kerncast.models.sm.lower.accesses import Place
from kerncast.models.sm.lower.operation_costs import Cost
from kerncast.models.sm.micro_ops import Memory

#: Loaded values that may wait for their reader, as each occupies a register; the timing study's window.
_MOST_LOADED = 24
#: Earlier accesses that are compared one by one, which takes quadratic time; with more, the latest one orders all.
_MOST_COMPARED = 256
_LOADS = {Memory.LOAD, Memory.SHARED_LOAD}

#: [micro-op] numbers of those that must come after it, and whether they wait for its result.
Followers = list[dict[int, bool]]


@dataclass(frozen=True, slots=True)
class MicroOp:
    """A micro-op in the making, see ``micro_ops.Program``."""

    cost: Cost
    memory: Memory
    weight: int
    """executions in which it runs, out of FULL_WEIGHT"""
    phase: int
    """offset of these executions"""
    sources: tuple[int, ...]
    """registers that it reads"""
    destinations: tuple[int, ...]
    """registers that it writes"""
    accesses: tuple[int, ...]
    """PTX instructions whose access it makes"""
    instruction: int
    """PTX instruction that it comes from"""
    places: tuple[Place, ...] = ()
    """bytes that its accesses touch"""
    is_fence: bool = False
    """whether no access moves across it"""
    keeps_old: bool = False
    """whether its results keep their old values in threads where a predicate is off"""


def scheduled(ops: Sequence[MicroOp], latencies: Sequence[float]) -> list[int]:
    """Return the order of issue of a block's micro-ops; ``latencies`` are cycles until their results are there."""
    followers = _followers(ops)
    # The critical path behind each micro-op: what lies furthest from the end goes first, so that its latency is hidden.
    paths = list(latencies)
    for number in range(len(ops) - 1, -1, -1):
        for after, waits in followers[number].items():
            paths[number] = max(paths[number], paths[after] + (latencies[number] if waits else 1.0))
    return _List(ops, latencies, followers, paths).order()


class _List:
    """List scheduling of one block."""

    def __init__(
        self,
        ops: Sequence[MicroOp],
        latencies: Sequence[float],
        followers: Followers,
        paths: Sequence[float],
    ) -> None:
        self._latencies, self._followers, self._paths = latencies, followers, paths
        self._is_load = [op.memory in _LOADS for op in ops]
        self._loaded = _Loaded(ops, followers)
        self._open = [0] * len(ops)
        for following in followers:
            for after in following:
                self._open[after] += 1
        self._start = [0.0] * len(ops)
        self._waiting: list[tuple[float, float, int]] = []
        self._ready: list[tuple[float, int]] = []
        self._loads: list[tuple[float, int]] = []

    def order(self) -> list[int]:
        """Return the numbers of the micro-ops in order of issue."""
        for number, count in enumerate(self._open):
            if not count:
                self._release(number)
        found: list[int] = []
        now = 0.0
        while len(found) < len(self._open):
            number = self._next(now)
            if number < 0:
                now = max(now + 1.0, self._waiting[0][0])
                continue
            found.append(number)
            self._issue(number, now)
            now += 1.0
        return found

    def _next(self, now: float) -> int:
        """Return what is issued in a cycle; negative for nothing."""
        while self._waiting and self._waiting[0][0] <= now:
            _, path, ready = heapq.heappop(self._waiting)
            heapq.heappush(self._loads if self._is_load[ready] else self._ready, (path, ready))
        # A load beyond the window only goes where nothing else can: else the compiler would have to spill registers.
        is_load_due = self._loads and (self._loaded.has_room or not (self._ready or self._waiting))
        if is_load_due and not (self._ready and self._ready[0] < self._loads[0]):
            return heapq.heappop(self._loads)[1]
        return heapq.heappop(self._ready)[1] if self._ready else -1

    def _release(self, number: int) -> None:
        heapq.heappush(self._waiting, (self._start[number], -self._paths[number], number))

    def _issue(self, number: int, now: float) -> None:
        self._loaded.issue(number)
        for after, waits in self._followers[number].items():
            self._start[after] = max(self._start[after], now + (self._latencies[number] if waits else 1.0))
            self._open[after] -= 1
            if not self._open[after]:
                self._release(after)


class _Loaded:
    """Loads of which no micro-op of the block has read a value yet, though some are to."""

    def __init__(self, ops: Sequence[MicroOp], followers: Followers) -> None:
        self._values = [len(op.destinations) for op in ops]
        self._is_awaited = [False] * len(ops)
        self._reads: list[list[int]] = [[] for _ in ops]
        for number, op in enumerate(ops):
            if op.memory in _LOADS:
                for after, waits in followers[number].items():
                    if waits:
                        self._is_awaited[number] = True
                        self._reads[after].append(number)
        self._count = 0

    @property
    def has_room(self) -> bool:
        """Whether registers are left for another load."""
        return self._count < _MOST_LOADED

    def issue(self, number: int) -> None:
        """Count what a micro-op loads, and what it is the first one to read."""
        if self._is_awaited[number]:
            self._count += self._values[number]
        for load in self._reads[number]:
            if self._is_awaited[load]:
                self._is_awaited[load] = False
                self._count -= self._values[load]


def _followers(ops: Sequence[MicroOp]) -> Followers:
    """Return for each micro-op those that must come after it, and whether they wait for its result."""
    followers: Followers = [{} for _ in ops]
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    memory = _MemoryOrder(followers)
    for number, op in enumerate(ops):
        read = (*op.sources, *op.destinations) if op.keeps_old else op.sources
        for register in read:
            if register in writer:
                followers[writer[register]][number] = True
        for register in op.destinations:
            # A result may not be written before its old value was read, or before an earlier write.
            for before in (*readers.get(register, ()), *((writer[register],) if register in writer else ())):
                if before != number:
                    followers[before].setdefault(number, False)
        for register in read:
            readers.setdefault(register, []).append(number)
        for register in op.destinations:
            writer[register], readers[register] = number, []
        # Registers order what is computed; memory orders what may touch the same bytes.
        if op.places or op.is_fence:
            memory.add(number, op)
    return followers


class _MemoryOrder:
    """Which accesses wait for which earlier ones."""

    def __init__(self, followers: Followers) -> None:
        self._followers = followers
        self._fence: int | None = None
        self._writes: list[tuple[int, MicroOp]] = []
        self._loads: list[tuple[int, MicroOp]] = []

    def add(self, number: int, op: MicroOp) -> None:
        """Order an access behind earlier ones; writes stay in order among themselves."""
        if self._fence is not None:
            self._after(self._fence, number)
        if op.is_fence:
            for before, _ in (*self._loads, *self._writes):
                self._after(before, number)
            self._fence, self._writes, self._loads = number, [], []
        elif op.memory in _LOADS:
            for compared, (before, write) in enumerate(reversed(self._writes)):
                if compared >= _MOST_COMPARED or _may_overlap(op, write):
                    self._after(before, number)
                    break
            self._loads.append((number, op))
        else:
            if self._writes:
                self._after(self._writes[-1][0], number)
            known, self._loads = self._loads[-_MOST_COMPARED:], []
            for before, load in known:
                if _may_overlap(op, load):
                    self._after(before, number)
                else:
                    self._loads.append((before, load))
            self._writes.append((number, op))

    def _after(self, before: int, number: int) -> None:
        self._followers[before].setdefault(number, False)


def _may_overlap(one: MicroOp, other: MicroOp) -> bool:
    return any(a.may_overlap(b) for a in one.places for b in other.places)
