"""The order in which the compiler issues the micro-ops of a straight line, as far as it matters for time.

List scheduling: of the micro-ops whose operands are there, the one goes first behind which most latency lies, so that
loads and the arithmetic of their addresses come early. Loaded values that nothing has read yet are limited, as
registers are. Stores and loads that may touch the same bytes stay in order, and all accesses around atomics and fences.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kerncast.models.sm.lower.accesses import Place
from kerncast.models.sm.lower.operation_costs import Cost
from kerncast.models.sm.micro_ops import FULL_WEIGHT, MOST_DESTINATIONS, MOST_SOURCES, Memory
from kerncast.ptx import Instruction, results_of, sources_of

# Which micro-ops' results a register of the PTX stands for.
#
# An instruction that becomes no machine code of its own, as a copy or an address that the memory instruction takes in,
# hands on what it reads; one that runs in a part of its executions does both.


#: Passes over the code until values that loops hand on have settled; chains of more copies are cut.
_MOST_PASSES = 4

Registers = tuple[int, ...]


class RegisterMap:
    """Registers of the program for those of the PTX."""

    def __init__(self, code: Sequence[Instruction], weights: Sequence[int]) -> None:
        """``weights`` says in how many of FULL_WEIGHT executions an instruction makes its result itself."""
        self._read = [tuple(dict.fromkeys(r.name for r in sources_of(ins))) for ins in code]
        self._made = [tuple(dict.fromkeys(r.name for r in results_of(ins))) for ins in code]
        self._weights = weights
        self._own: dict[str, int] = {}
        self.count = 0
        for names, weight in zip(self._made, weights, strict=True):
            if weight:
                self._number(names)
        self._first = self._first_of_each()
        self._values = self._handed_on(weights)

    def made(self, instruction: int) -> Registers:
        """Return the registers that an instruction writes."""
        return tuple(dict.fromkeys(self._own[name] for name in self._made[instruction] if name in self._own))

    def along(self) -> "Line":
        """Return what the registers of the PTX stand for in one straight line, before its first instruction."""
        return Line(self._read, self._made, self._weights, self._own, self._values)

    def needed(self, registers: Iterable[int]) -> Registers:
        """Return the registers to wait for: of those that are always made together the first stands for all."""
        return latest(self._first.get(each, each) for each in registers)

    def _first_of_each(self) -> dict[int, int]:
        """Return the first of the registers that the same instructions make, as the fragment of a matrix."""
        makers: dict[int, list[int]] = {}
        for instruction, names in enumerate(self._made):
            for name in names:
                if name in self._own:
                    makers.setdefault(self._own[name], []).append(instruction)
        first: dict[tuple[int, ...], int] = {}
        return {number: first.setdefault(tuple(of), number) for number, of in sorted(makers.items())}

    def _number(self, names: Sequence[str]) -> None:
        """Give each name its register; a micro-op names so many, further ones share the last."""
        for place, name in enumerate(names):
            if name in self._own:
                continue
            if place < MOST_DESTINATIONS:
                self._own[name] = self.count
                self.count += 1
            else:
                self._own[name] = self._own[names[MOST_DESTINATIONS - 1]]

    def _handed_on(self, weights: Sequence[int]) -> dict[str, Registers]:
        values: dict[str, Registers] = {name: (number,) for name, number in self._own.items()}
        handing = [n for n, weight in enumerate(weights) if weight < FULL_WEIGHT and self._made[n]]
        for _ in range(_MOST_PASSES):
            changed = False
            for number in handing:
                found = [r for name in self._read[number] for r in values.get(name, ())]
                for name in self._made[number]:
                    own = (self._own[name],) if name in self._own else ()
                    handed = latest(r for r in (*values.get(name, ()), *found) if r not in own)
                    # Too many to wait for: the register itself, then what is made last and so arrives last.
                    new = (*own, *handed)[:MOST_SOURCES]
                    changed |= new != values.get(name, ())
                    values[name] = new
            if not changed:
                break
        return values


class Line:
    """The value of each PTX register along a straight line: the copy of a value outlives its source."""

    def __init__(
        self,
        read: Sequence[Sequence[str]],
        made: Sequence[Sequence[str]],
        weights: Sequence[int],
        own: Mapping[str, int],
        before: Mapping[str, Registers],
    ) -> None:
        """``before`` says what registers stand for that the line has not written yet."""
        self._read, self._made, self._weights, self._own, self._before = read, made, weights, own, before
        self._handed: dict[str, Registers] = {}
        self._made_at: dict[str, int] = {}
        self._written_at: dict[int, int] = {}
        self._constant: set[str] = set()
        self._now = 0

    def of(self, name: str) -> Registers:
        """Return the registers that one of the PTX stands for."""
        return (*((self._own[name],) if name in self._own else ()), *self._handed_to(name))

    def read(self, instruction: int) -> Registers:
        """Return the registers that an instruction reads."""
        return tuple(r for name in self._read[instruction] for r in self.of(name))

    def go_on(self, instruction: int, *, keeps_old: bool) -> None:
        """Note what an instruction writes, everywhere or where a predicate is on."""
        self._now += 1
        weight = self._weights[instruction]
        handed: Registers = ()
        is_constant = False
        if weight < FULL_WEIGHT:
            is_constant = all(name in self._constant for name in self._read[instruction])
            handed = tuple(r for name in self._read[instruction] for r in self._hands_on(name))
        for name in self._made[instruction]:
            old = self._handed_to(name) if keeps_old else ()
            own = self._own.get(name)
            self._handed[name] = tuple(dict.fromkeys(r for r in (*handed, *old) if r != own))[:MOST_SOURCES]
            self._made_at[name] = self._now
            if own is not None and weight:
                self._written_at[own] = self._now
            if not is_constant:
                self._constant.discard(name)
            elif not keeps_old:
                self._constant.add(name)

    def _handed_to(self, name: str) -> Registers:
        """Return the registers whose values a register has taken over and that hold them still."""
        handed = self._handed.get(name, self._before.get(name, ()))
        since, own = self._made_at.get(name, 0), self._own.get(name)
        return tuple(r for r in handed if r != own and self._written_at.get(r, 0) <= since)

    def _hands_on(self, name: str) -> Registers:
        """Return what a copy of a register stands for; nobody waits for a constant."""
        return () if name in self._constant else self.of(name)


def latest(registers: Iterable[int]) -> Registers:
    """Return the registers that are made last in the order of the program, as many as a micro-op names."""
    return tuple(sorted(set(registers), reverse=True)[:MOST_SOURCES])


#: Loaded values that may wait for their reader, as each occupies a register; the timing study's window.
_MOST_LOADED = 24
#: Earlier accesses that are compared one by one, which takes quadratic time; with more, the latest one orders all.
_MOST_COMPARED = 256
_LOADS = {Memory.LOAD, Memory.SHARED_LOAD}
#: What stays in order with copies and stores, whatever it touches.
_GROUPED = {Memory.COMMIT, Memory.PRODUCT}

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
    group: int = 0
    """Group that it belongs to, ends or waits for"""
    left: int = 0
    """groups that it lets go on where it waits for the others"""
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
        if op.places or op.is_fence or op.memory in _GROUPED:
            memory.add(number, op)
    return followers


class _MemoryOrder:
    """Finds which accesses wait for which earlier ones."""

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
