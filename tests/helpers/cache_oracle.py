"""Sectored caches of a GPU, simulated in plain Python on a recording: the slow twin of the executor's simulator.

Blocks take turns on SMs, warps take turns on an SM, and each turn is one request. L1 writes through, L2 writes back.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kerncast.traces import (
    LAST_SHIFT,
    LINE_BITS,
    MASK_SHIFT,
    OPERATION_MASK,
    OPERATION_SHIFT,
    End,
    Operation,
    Recording,
)

WAYS = 16
_LOCAL = 1 << 31
_MOST_LINES = 1 << 32
_GOLDEN = 0x9E3779B1


@dataclass(frozen=True)
class Geometry:
    """Sizes in lines of 128 bytes, and what L1 caches."""

    sms: int = 1
    resident: int = 1
    """blocks per SM"""
    l1_lines: int = 0
    """0: no L1"""
    l2_lines: int = 64
    caches_global: bool = True
    caches_read_only: bool = True
    caches_local: bool = True
    stores_allocate: bool = False
    read_only_lines: int | None = None
    """of a cache of its own for read-only loads; None: they use L1"""
    fetch_sectors: int = 1
    """aligned sectors that L2 reads from DRAM when one is missing"""


@dataclass
class Totals:
    """Sectors."""

    l1_load_sectors: int = 0
    l1_load_hits: int = 0
    l1_local_sectors: int = 0
    l1_local_hits: int = 0
    l2_read: int = 0
    l2_read_hits: int = 0
    l2_write: int = 0
    l2_write_hits: int = 0
    l2_atomic: int = 0
    l2_atomic_hits: int = 0
    dram_read: int = 0
    dram_write: int = 0
    left_dirty: int = 0


@dataclass
class Line:
    """One way of a set: which line it holds, and the bits of its sectors."""

    tag: int | None = None
    age: int = 0
    valid: int = 0
    dirty: int = 0


class Cache:
    """A set-associative cache that drops the line not used for longest."""

    def __init__(self, lines: int) -> None:
        self._sets = [[Line() for _ in range(min(WAYS, lines))] for _ in range(max(1, lines // WAYS))]
        self._clock = 0
        self.pushed_out = 0
        """dirty sectors that had to leave"""

    def find(self, tag: int) -> Line | None:
        """Return a line that is present; leaves its age alone."""
        return next((line for line in self._set_of(tag) if line.tag == tag), None)

    def take(self, tag: int) -> Line:
        """Return a line, brought in if it is absent."""
        self._clock += 1
        line = self.find(tag)
        if line is None:
            line = min(self._set_of(tag), key=lambda way: way.age)
            self.pushed_out += line.dirty.bit_count()
            line.tag, line.valid, line.dirty = tag, 0, 0
        line.age = self._clock
        return line

    @property
    def dirty(self) -> int:
        """Dirty sectors that it holds."""
        return sum(line.dirty.bit_count() for ways in self._sets for line in ways)

    def _set_of(self, tag: int) -> list[Line]:
        return self._sets[tag * _GOLDEN % 2**32 * len(self._sets) >> 32]


@dataclass
class Warp:
    """A warp of a resident block: what it has left to do."""

    segments: list[tuple[deque[int], End]]
    waits: bool = False

    @property
    def ended(self) -> bool:
        return not self.segments

    @property
    def is_ready(self) -> bool:
        return not self.waits and not self.ended and bool(self.segments[0][0])

    def leave(self) -> bool:
        """Leave a segment that is used up; returns whether there was one."""
        if self.waits or self.ended or self.segments[0][0]:
            return False
        if self.segments[0][1] == End.BARRIER:
            self.waits = True
        else:
            self.segments = [] if self.segments[0][1] == End.EXIT else self.segments[1:]
        return True

    def go_on(self) -> None:
        """Leave a barrier."""
        self.waits = False
        self.segments = self.segments[1:]


@dataclass
class Sm:
    """A streaming multiprocessor: its blocks, by slot."""

    slots: list[list[Warp]] = field(default_factory=list)
    next: int = 0
    """warp that may issue first"""


@dataclass(frozen=True)
class Issue:
    """One request of one warp."""

    sm: int
    slot: int
    warp: int
    events: tuple[int, ...]


def simulate(recording: Recording, geometry: Geometry) -> Totals:
    """Run the recorded blocks on the caches of a GPU."""
    run = _Caches(geometry)
    for issue in schedule(recording, geometry):
        for event in issue.events:
            place = ((issue.sm * geometry.resident + issue.slot) * recording.warps + issue.warp) * recording.local_lines
            run.access(issue.sm, event, place)
    return run.finished()


def schedule(recording: Recording, geometry: Geometry) -> Iterator[Issue]:
    """Yield the requests of all warps in the order in which they are issued."""
    blocks = _blocks(recording)
    first, waiting = blocks[: geometry.sms * geometry.resident], iter(blocks[geometry.sms * geometry.resident :])
    sms = [Sm(slots=first[number :: geometry.sms]) for number in range(geometry.sms)]
    for slot in range(geometry.resident):
        for sm in sms:
            _settle(sm, slot, waiting)
    issued = True
    while issued:
        issued = False
        for number, sm in enumerate(sms):
            chosen = _choose(sm, recording.warps)
            if chosen is not None:
                slot, warp = divmod(chosen, recording.warps)
                yield Issue(number, slot, warp, _request(sm.slots[slot][warp]))
                sm.next = chosen + 1
                _settle(sm, slot, waiting)
                issued = True
    assert all(warp.ended for sm in sms for block in sm.slots for warp in block)


def _blocks(recording: Recording) -> list[list[Warp]]:
    blocks = [[Warp([]) for _ in range(recording.warps)] for _ in recording.block_ids]
    events: Sequence[int] = recording.events.tolist()
    for row, warp, start, stop, end, _ in recording.segments.tolist():
        blocks[row][warp].segments.append((deque(events[start:stop]), End(end)))
    return blocks


def _choose(sm: Sm, warps: int) -> int | None:
    """Return the first ready warp behind the last that issued, all slots in a circle."""
    total = len(sm.slots) * warps
    circle = (n % total for n in range(sm.next, sm.next + total)) if total else iter(())
    return next((n for n in circle if sm.slots[n // warps][n % warps].is_ready), None)


def _request(warp: Warp) -> tuple[int, ...]:
    left = warp.segments[0][0]
    events = [left.popleft()]
    while not events[-1] >> LAST_SHIFT & 1:
        events.append(left.popleft())
    return tuple(events)


def _settle(sm: Sm, slot: int, waiting: Iterator[list[Warp]]) -> None:
    """Let the warps of a block leave what is used up, and a new block take its place when it has ended."""
    while slot < len(sm.slots):
        block = sm.slots[slot]
        if any(warp.leave() for warp in block):
            continue
        if any(warp.waits for warp in block) and all(warp.waits or warp.ended for warp in block):
            for warp in block:
                if warp.waits:
                    warp.go_on()
            continue
        following = next(waiting, None) if all(warp.ended for warp in block) else None
        if following is None:
            return
        sm.slots[slot] = following


class _Caches:
    """L1 of each SM, and L2."""

    def __init__(self, geometry: Geometry) -> None:
        self._geometry = geometry
        self._l1 = [Cache(geometry.l1_lines) if geometry.l1_lines else None for _ in range(geometry.sms)]
        self._read_only = self._l1
        if geometry.read_only_lines is not None:
            lines = geometry.read_only_lines
            self._read_only = [Cache(lines) if lines else None for _ in range(geometry.sms)]
        self._l2 = Cache(geometry.l2_lines)
        self._totals = Totals()

    def access(self, sm: int, event: int, local_place: int) -> None:
        """Carry out one event; the warp's local memory begins at line ``local_place`` behind the others'."""
        operation = Operation(event >> OPERATION_SHIFT & OPERATION_MASK)
        mask = event >> MASK_SHIFT & 15
        line = event & (1 << LINE_BITS) - 1
        if operation in {Operation.LOCAL_LOAD, Operation.LOCAL_STORE}:
            line += _LOCAL + local_place
        line %= _MOST_LINES
        if operation in {Operation.STORE, Operation.LOCAL_STORE}:
            self._store(sm, line, mask, local=operation == Operation.LOCAL_STORE)
        elif operation in {Operation.ATOMIC, Operation.REDUCTION}:
            self._atomic(sm, line, mask)
        else:
            self._load(sm, line, mask, operation)

    def finished(self) -> Totals:
        """Return the totals when the kernel has ended."""
        self._totals.dram_write = self._l2.pushed_out
        self._totals.left_dirty = self._l2.dirty
        return self._totals

    def _load(self, sm: int, line: int, mask: int, operation: Operation) -> None:
        caches = self._read_only if operation == Operation.LOAD_READ_ONLY else self._l1
        cache = caches[sm] if self._is_cached(operation) else None
        missing = mask
        if cache is not None:
            held = cache.take(line)
            missing = mask & ~held.valid
            held.valid |= mask
        sectors, hits = mask.bit_count(), (mask & ~missing).bit_count()
        totals = self._totals
        if operation == Operation.LOCAL_LOAD:
            totals.l1_local_sectors += sectors
            totals.l1_local_hits += hits
        else:
            totals.l1_load_sectors += sectors
            totals.l1_load_hits += hits
        if missing:
            held = self._l2.take(line)
            totals.l2_read += missing.bit_count()
            totals.l2_read_hits += (missing & held.valid).bit_count()
            self._fetch(held, missing)

    def _store(self, sm: int, line: int, mask: int, *, local: bool) -> None:
        cache = self._l1[sm]
        if cache is not None and (self._geometry.caches_local or not local):
            if self._geometry.stores_allocate:
                cache.take(line).valid |= mask
            else:
                _forget(cache, line, mask)
        held = self._l2.take(line)
        self._totals.l2_write += mask.bit_count()
        self._totals.l2_write_hits += (mask & held.valid).bit_count()
        held.valid |= mask
        held.dirty |= mask

    def _atomic(self, sm: int, line: int, mask: int) -> None:
        cache = self._l1[sm]
        if cache is not None:
            _forget(cache, line, mask)
        held = self._l2.take(line)
        self._totals.l2_atomic += mask.bit_count()
        self._totals.l2_atomic_hits += (mask & held.valid).bit_count()
        self._fetch(held, mask)
        held.dirty |= mask

    def _fetch(self, held: Line, mask: int) -> None:
        """Bring sectors of a line of L2 from DRAM, with their neighbours."""
        size = self._geometry.fetch_sectors
        groups = [(1 << size) - 1 << first for first in range(0, 4, size)]
        wanted = sum(group for group in groups if group & mask & ~held.valid)
        self._totals.dram_read += (wanted & ~held.valid).bit_count()
        held.valid |= wanted

    def _is_cached(self, operation: Operation) -> bool:
        return {
            Operation.LOAD: self._geometry.caches_global,
            Operation.LOAD_READ_ONLY: self._geometry.caches_read_only,
            Operation.LOCAL_LOAD: self._geometry.caches_local,
        }.get(operation, False)


def _forget(cache: Cache, line: int, mask: int) -> None:
    """Mark the sectors of a line that is present as out of date."""
    held = cache.find(line)
    if held is not None:
        held.valid &= ~mask
