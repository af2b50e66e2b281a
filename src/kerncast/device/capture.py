"""What is kept of a program's launches while it runs: all of their work, and of some the memory that they saw.

Launches of one kernel and geometry are a group. Its first launch is kept with its memory, then the second, the fourth
and so on, and one whenever the work has moved away from all that are kept. Of the memory, only buffers are kept whose
values may decide what the kernel does: what the others hold changes no count.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kerncast.execute.live import Call, LiveKernel, LiveMemory, Work
from kerncast.execute.setup.arena import GLOBAL_BASE
from kerncast.execute.setup.dataflow import UNKNOWN
from kerncast.execute.setup.textures import OBJECT_BYTES, TextureObject
from kerncast.launch import Extent, Memory, Region
from kerncast.ptx import Trait, Variable
from kerncast.recording import EVENT, LAUNCH, ContentsWriter, Group, KeptLaunch
from kerncast.traces import Allocation

#: Launches of one group that are kept.
_MOST_KEPT = 8
#: Launches with equal counts that differ in their numbers, which may be strides: one more than one is kept.
_MOST_ALIKE = 2
#: Work that differs by this factor from all that are kept.
_APART = 1.25
#: Allocations that one kept launch may name.
_MOST_REGIONS = 10_000
#: Events take 27 bytes each; a program with more of them is told by its first ones.
MOST_EVENTS = 2**22


@dataclass(slots=True)
class _Kept:
    launch: int
    instructions: int
    sameness: tuple[bytes, bytes]
    """fingerprint, and the parameters that are no pointers"""
    memory: Memory


@dataclass(slots=True)
class _State:
    """One group."""

    number: int
    count: int = 0
    last: int = 0
    """instructions of its last launch"""
    kept: list[_Kept] = field(default_factory=list)

    def wants_memory(self) -> bool:
        """Whether the next launch may be one to keep."""
        self.count += 1
        is_power = self.count & (self.count - 1) == 0
        return is_power or all(_ratio(self.last, each.instructions) > _APART for each in self.kept)

    def keep(self, new: _Kept) -> None:
        """Take a launch, unless one that does the same is kept; of too many, the one closest to its neighbours goes."""
        alike = [each for each in self.kept if each.sameness[0] == new.sameness[0]]
        if len(alike) >= _MOST_ALIKE or any(each.sameness == new.sameness for each in alike):
            return
        self.kept.append(new)
        self.kept.sort(key=lambda each: each.instructions)
        if len(self.kept) > _MOST_KEPT:
            work = [each.instructions for each in self.kept]
            inner = range(1, len(work) - 1)
            del self.kept[min(inner, key=lambda n: _ratio(work[n + 1], work[n - 1]))]


def _ratio(one: int, other: int) -> float:
    return math.exp(abs(math.log(max(1, one)) - math.log(max(1, other))))


class Table:
    """Rows of one type, appended one by one."""

    def __init__(self, kind: "np.dtype[np.void]") -> None:
        self._rows: npt.NDArray[np.void] = np.zeros(1024, kind)
        self.count = 0

    def append(self, row: tuple[int | float, ...]) -> None:
        """Append a row."""
        if self.count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros(len(self._rows), self._rows.dtype)])
        self._rows[self.count] = row
        self.count += 1

    @property
    def rows(self) -> npt.NDArray[np.void]:
        """All rows."""
        return self._rows[: self.count]


class Capture:
    """Everything that is kept."""

    def __init__(self, contents: ContentsWriter) -> None:
        self._contents = contents
        self.groups: list[Group] = []
        self._states: dict[Group, _State] = {}
        self.launches, self.events = Table(LAUNCH), Table(EVENT)
        self.lost_memory = 0
        """launches that are kept without the memory they saw, for want of room"""

    def begin(self, group: Group, call: Call, kernel: LiveKernel, memory: LiveMemory) -> Memory | None:
        """Note that a launch begins; returns its memory, where it may be one to keep."""
        return self.memory_of(call, kernel, memory) if self._state_of(group).wants_memory() else None

    def _state_of(self, group: Group) -> _State:
        state = self._states.get(group)
        if state is None:
            state = self._states[group] = _State(len(self.groups))
            self.groups.append(group)
        return state

    def keep(self, group: Group, call: Call, memory: Memory) -> int:
        """Note a launch that was not executed, with the memory that it would have seen; returns its number."""
        self._state_of(group).count += 1
        told = hashlib.blake2b(call.parameters, digest_size=8).digest()
        return self.end(group, call, Work(1, told), memory)

    def end(self, group: Group, call: Call, work: Work, memory: Memory | None) -> int:
        """Note what a launch did, and return its number."""
        state, number = self._states[group], self.launches.count
        state.last = work.thread_instructions
        fingerprint = int.from_bytes(work.fingerprint, "little")
        self.launches.append((state.number, work.thread_instructions, fingerprint))
        if memory is not None:
            same = work.fingerprint, numbers_of(call, memory)
            state.keep(_Kept(number, work.thread_instructions, same, memory))
        return number

    def kept_of(self, group: Group) -> tuple[KeptLaunch, ...]:
        """Return the launches of a group that are kept."""
        return tuple(KeptLaunch(each.launch, each.memory) for each in self._states[group].kept)

    def kept(self) -> tuple[KeptLaunch, ...]:
        """Return all launches that are kept, in the order in which they were asked for."""
        found = (KeptLaunch(each.launch, each.memory) for state in self._states.values() for each in state.kept)
        return tuple(sorted(found, key=lambda each: each.launch))

    def close(self) -> None:
        """End the file of contents."""
        self._contents.close()

    def flush(self) -> None:
        """Let readers of the contents see all that was kept."""
        self._contents.flush()

    def event(self, row: tuple[int | float, ...]) -> None:
        """Note an event, as far as there is room."""
        if self.events.count < MOST_EVENTS:
            self.events.append(row)

    def memory_of(self, call: Call, kernel: LiveKernel | None, memory: LiveMemory) -> Memory:
        """Return the memory that a launch sees; all of it where nothing is known of its kernel."""
        if kernel is None:
            return self._whole(call, memory)
        use = kernel.use(call.parameters, memory)
        variables = {kernel.addresses[each.name] - GLOBAL_BASE: each for each in kernel.linked.globals}
        deciding = kernel.reaches(use.deciding, call.parameters, memory)
        chosen = _chosen(memory.allocations, call, set(variables), is_known=UNKNOWN not in use.read | use.written)
        objects = _objects(chosen, kernel, memory)
        if deciding is not None:  # what a texture reads decides where its object does
            deciding |= {data.start for start, data in objects.items() if start in deciding}
        chosen = sorted({each.start: each for each in (*chosen, *objects.values())}.values(), key=lambda a: a.start)
        is_whole, regions = True, []
        for each in chosen:
            chunks: tuple[str, ...] | None = ()
            is_needed = each.start in objects or _is_constant(variables.get(each.start))
            if deciding is None or each.start in deciding or is_needed:
                chunks = self._contents.keep_memory(memory.bytes_at(each.address, each.nbytes))
            is_whole &= chunks is not None
            regions.append(Region(each.name, each.address, each.nbytes, chunks or ()))
        self.lost_memory += not is_whole
        places = tuple((name, kernel.addresses[name]) for name in sorted(kernel.addresses))
        return Memory(self._contents.path, call.parameters, tuple(regions), places, is_whole)

    def _whole(self, call: Call, memory: LiveMemory) -> Memory:
        kept = [
            (each, self._contents.keep_memory(memory.bytes_at(each.address, each.nbytes)))
            for each in _chosen(memory.allocations, call, set(), is_known=True)
        ]
        regions = tuple(Region(each.name, each.address, each.nbytes, chunks or ()) for each, chunks in kept)
        return Memory(self._contents.path, call.parameters, regions, (), all(chunks is not None for _, chunks in kept))


def _objects(chosen: list[Allocation], kernel: LiveKernel, memory: LiveMemory) -> dict[int, Allocation]:
    """Return what the objects of textures and surfaces among some allocations read, by the start of each object."""
    if not any(ins.opcode.has(Trait.SAMPLED) for ins in kernel.linked.function.instructions):
        return {}
    found = {}
    for each in chosen:
        is_object = each.nbytes == OBJECT_BYTES
        said = TextureObject.unpacked(memory.bytes_at(each.address, OBJECT_BYTES)) if is_object else None
        data = memory.find(said.address) if said is not None else None
        if data is not None:
            found[each.start] = data
    return found


def _is_constant(variable: Variable | None) -> bool:
    return variable is not None and variable.space == "const"


def _chosen(all_of: Sequence[Allocation], call: Call, variables: set[int], *, is_known: bool) -> list[Allocation]:
    """Return the allocations that a launch may reach.

    Those are the ones of its parameters, or all where pointers come from memory.
    """
    if not is_known and len(all_of) <= _MOST_REGIONS:
        return list(all_of)
    words = np.frombuffer(call.parameters[: len(call.parameters) // 8 * 8], np.uint64)
    starts = np.array([each.address for each in all_of], np.uint64)
    found = np.searchsorted(starts, words, side="right").astype(np.int64) - 1
    pointed = {
        int(number) for number, word in zip(found, words, strict=True)
        if number >= 0 and int(word) <= all_of[number].address + all_of[number].nbytes
    }  # fmt: skip
    return [each for number, each in enumerate(all_of) if number in pointed or each.start in variables]


def numbers_of(call: Call, memory: Memory) -> bytes:
    """Return the parameters without pointers into memory, of which only the size of what they point to counts."""
    starts = np.array([each.address for each in memory.regions], np.uint64)
    raw = bytearray(call.parameters)
    for at in range(0, len(raw) - 7, 8):
        word = int.from_bytes(raw[at : at + 8], "little")
        number = int(np.searchsorted(starts, np.uint64(word), side="right")) - 1
        if number >= 0 and word <= memory.regions[number].address + memory.regions[number].nbytes:
            raw[at : at + 8] = memory.regions[number].nbytes.to_bytes(8, "little")
    return bytes(raw)


def group_of(kernel: int, grid: Extent, block: Extent, shared_bytes: int) -> Group:
    """Return the group of a launch."""
    return Group(kernel, grid, block, shared_bytes)
