"""Calls from generated code for copies of many bytes by one thread (see ``execute.setup.tensor_copies``)."""

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.native.block import Operation
from kerncast.execute.native.ir import BLOCK, FAULTS, LANES, WARP, WORKER, Value, get, integer, offset_of
from kerncast.execute.native.memory.transfer import given_address
from kerncast.execute.setup import phases
from kerncast.execute.setup.arena import Arena, Touched
from kerncast.execute.setup.cluster_addresses import OFFSET_MASK, RANK_SHIFT
from kerncast.execute.setup.layout import Program
from kerncast.execute.setup.supported import unravel
from kerncast.execute.setup.tensor_copies import BlockMemory, Moved, is_issued_once, moves, touch, touched_sectors
from kerncast.launch import Launch
from kerncast.ptx import Address, Instruction, Trait, Vector
from kerncast.traces import (
    INSTRUCTION_SHIFT,
    LAST_SHIFT,
    MASK_SHIFT,
    MOST_INSTRUCTIONS,
    OBJECT_BITS,
    OPERATION_SHIFT,
    TOLD_SHIFT,
    EventChange,
)
from kerncast.traces import (
    Operation as Recorded,
)

#: What generated code calls: with worker, warp, the lanes that copy as bits, the instruction and its operands' values.
Copier = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)
_LANE_BYTES = 8 * LANES


@dataclass
class World:
    """What copies reach, and the error of the first that failed."""

    program: Program
    launch: Launch
    arena: Arena
    touched: Touched
    counters: dict[int, int]
    """offset of the first counter of each memory instruction"""
    parameters: bytes = b""
    failure: Exception | None = field(default=None)


def copies(program: Program) -> bool:
    """Return whether a kernel copies many bytes by one thread."""
    return any(ins.opcode.has(Trait.BULK) for ins in program.function.instructions)


def call_copier(o: Operation, number: int, counters: Value, operation: Recorded | None) -> None:
    """Write the call for a copy."""
    del counters, operation
    emit, pointers = o.emit, o.block.pointers
    leaves = []
    for operand in o.ins.operands:
        if isinstance(operand, Address):
            leaves.append(given_address(o, operand))
            leaves += [emit.resize(o.block.source(each, "u32"), "i64") for each in operand.coordinates]
        elif isinstance(operand, Vector):
            leaves += [emit.resize(o.block.source(each, "u16"), "i64") for each in operand.elements]
        else:
            leaves.append(emit.resize(o.block.source(operand, "u32"), "i64"))
    values = emit.allocate(f"[{LANES * len(leaves)} x i64]")
    for position, leaf in enumerate(leaves):
        emit.store(leaf, emit.at(values, _LANE_BYTES * position), 8)
    with emit.when(emit.compare("ne", o.block.executing, 0)):
        copier = get(emit, pointers.worker, WORKER, "copier")
        arguments = (pointers.worker, pointers.warp, o.block.executing, integer("i32", number), values)
        emit.do(f"call void {copier.text}({', '.join(a.typed for a in arguments)})")


ACCESSES = dict.fromkeys(
    ("cp.async.bulk", "cp.async.bulk.tensor", "cp.reduce.async.bulk", "cp.reduce.async.bulk.tensor"), call_copier
)


def copier_of(world: World) -> Any:
    """Return the function that generated code calls; it has to be kept as long as that may run."""

    def copy_lanes(worker: int, warp: int, lanes: int, position: int, values: int) -> None:
        try:
            done: list[list[list[int]]] = []
            for lane in (each for each in range(LANES) if lanes >> each & 1):
                place = _Place(world, position, worker, warp, lane)
                asked = _values(place.ins, values, lane)
                if not (is_issued_once(place.ins) and asked in done):
                    _copy(world, place, asked)
                    done.append(asked)
        except Exception as error:  # noqa: BLE001  generated code cannot pass it on; the engine raises it
            world.failure = world.failure or error
            _write(worker, WORKER, "fault", FAULTS["copy"])
            _write(warp, WARP, "fuel", 0)

    return Copier(copy_lanes)


def _copy(world: World, place: "_Place", asked: list[list[int]]) -> None:
    moved = moves(place.ins, asked, place.memory())
    sectors, lines = touched_sectors(moved)
    place.count(world.counters[place.position], (1, 1, len(sectors), len(lines)))
    place.record(sectors, lines)
    touch(world.touched, sectors, reads=place.ins.reads_global, writes=place.ins.writes_global)


def _values(ins: Instruction, start: int, lane: int) -> list[list[int]]:
    """Return the numbers of each operand of a lane."""
    found, at = [], start + 8 * lane
    for operand in ins.operands:
        count = 1 + len(operand.coordinates) if isinstance(operand, Address) else 1
        if isinstance(operand, Vector):
            count = len(operand.elements)
        places = (at + _LANE_BYTES * number for number in range(count))
        found.append([ctypes.c_uint64.from_address(place).value for place in places])
        at += _LANE_BYTES * count
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """A lane of a warp that copies."""

    world: World
    position: int
    """number of the instruction"""
    worker: int
    warp: int
    lane: int

    @property
    def ins(self) -> Instruction:
        """The copy."""
        return self.world.program.function.instructions[self.position]

    def memory(self) -> BlockMemory:
        """Return what the block sees of memory."""
        world, block = self.world, _read(self.warp, WARP, "block")
        rank = _read(block, BLOCK, "rank") if world.program.sees_cluster else 0
        blocks = world.launch.cluster_blocks if world.program.sees_cluster else 1
        own, gone = _read(self.warp, WARP, "shared"), _read(block, BLOCK, "gone")
        stride, size = _read(self.worker, WORKER, "shared_stride"), _read(self.worker, WORKER, "shared_bytes")

        def shared(other: int) -> npt.NDArray[np.uint8] | None:
            if not 0 <= other < blocks or gone >> other & 1:
                return None
            return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(own + (other - rank) * stride))

        def complete(address: int, nbytes: int) -> None:
            self._complete(shared(address >> RANK_SHIFT), address, nbytes)

        return BlockMemory(world.arena, world.parameters, shared, self._thread(block), complete)

    def _complete(self, room: npt.NDArray[np.uint8] | None, address: int, nbytes: int) -> None:
        offset = address & OFFSET_MASK
        thread, program = self._thread(_read(self.warp, WARP, "block")), self.world.program
        if room is None or offset + 8 > len(room) or offset % 8:
            raise phases.uninitialised(offset, 0, thread, self.ins, program)
        word = int(room[offset : offset + 8].view(np.uint64)[0])
        if not phases.is_valid(word):
            raise phases.uninitialised(offset, word, thread, self.ins, program)
        found = phases.changed(word, 0, 0, -nbytes)
        if found is None:
            raise phases.overrun(offset, word, thread, self.ins, program)
        room[offset : offset + 8] = np.frombuffer(found.to_bytes(8, "little"), np.uint8)
        self._record_complete(address, nbytes)
        for name in ("changes", "steps"):
            _write(self.worker, WORKER, name, _read(self.worker, WORKER, name) + 1)
        _write(self.warp, WARP, "deferred", 0)
        _write(self.warp, WARP, "next", -1)

    def _record_complete(self, address: int, nbytes: int) -> None:
        """Append that bytes have come to an mbarrier, where the recording is in detail and has room."""
        count, limit = _read(self.worker, WORKER, "event_count"), _read(self.worker, WORKER, "event_limit")
        if count < limit and _read(self.worker, WORKER, "in_detail"):
            own = _read(_read(self.warp, WARP, "block"), BLOCK, "rank") if self.world.program.sees_cluster else 0
            content = (address & OFFSET_MASK) >> 3 | (address >> RANK_SHIFT ^ own) << TOLD_SHIFT
            content |= nbytes << OBJECT_BITS | EventChange.COMPLETE << MASK_SHIFT
            what = Recorded.EVENT << OPERATION_SHIFT | 1 << LAST_SHIFT
            number = min(self.position, MOST_INSTRUCTIONS - 1) << INSTRUCTION_SHIFT
            start = _read(self.worker, WORKER, "events") + 8 * count
            ctypes.c_uint64.from_address(start).value = content | what | number
            _write(self.worker, WORKER, "event_count", count + 1)

    def _thread(self, block: int) -> str:
        index = tuple(ctypes.c_uint32.from_address(block + 4 * axis).value for axis in range(3))
        number = LANES * _read(self.warp, WARP, "number") + self.lane
        return f"block {index}, thread {unravel(number, self.world.launch.block)}"

    def count(self, start: int, amounts: tuple[int, ...]) -> None:
        """Add to the counters of the instruction: requests, accesses, sectors, lines."""
        place = _read(self.warp, WARP, "counters") + start
        for number, amount in enumerate(amounts):
            counter = ctypes.c_int64.from_address(place + 8 * number)
            counter.value += amount

    def record(self, sectors: npt.NDArray[np.int64], lines: npt.NDArray[np.int64]) -> None:
        """Append an event for each line, as far as the log has room."""
        count, limit = _read(self.worker, WORKER, "event_count"), _read(self.worker, WORKER, "event_limit")
        kept = lines[: max(0, limit - count)]
        if not len(kept):
            return
        masks = np.zeros(len(lines), np.int64)
        np.bitwise_or.at(masks, np.searchsorted(lines, sectors >> 2), 1 << (sectors & 3))
        what = Recorded.STORE if self.ins.writes_global else Recorded.LOAD_UNCACHED
        head = what << OPERATION_SHIFT | min(self.position, MOST_INSTRUCTIONS - 1) << INSTRUCTION_SHIFT
        events = (kept | masks[: len(kept)] << MASK_SHIFT).astype(np.uint64) | np.uint64(head)
        events[-1] |= np.uint64(1 << LAST_SHIFT)
        start = _read(self.worker, WORKER, "events") + 8 * count
        np.ctypeslib.as_array((ctypes.c_uint64 * len(kept)).from_address(start))[:] = events
        _write(self.worker, WORKER, "event_count", count + len(kept))


_TYPES: dict[str, Any] = {"i4": ctypes.c_int32, "u4": ctypes.c_uint32, "i8": ctypes.c_int64, "u8": ctypes.c_uint64}


def _cell(start: int, frame: "np.dtype[np.void]", name: str) -> Any:
    assert frame.fields is not None
    return _TYPES[frame.fields[name][0].str[1:]].from_address(start + offset_of(frame, name))


def _read(start: int, frame: "np.dtype[np.void]", name: str) -> int:
    return int(_cell(start, frame, name).value)


def _write(start: int, frame: "np.dtype[np.void]", name: str, value: int) -> None:
    _cell(start, frame, name).value = value


__all__ = ["ACCESSES", "Copier", "Moved", "World", "copier_of", "copies"]
