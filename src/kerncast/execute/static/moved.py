"""What the accesses of a kernel that is not executed move: by their addresses where these are known.

Where they are not, the lanes of a warp are taken to lie side by side, and shared memory to be without conflicts.
"""

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from kerncast.execute.reference.memory import Part
from kerncast.execute.reference.tally import Tally
from kerncast.execute.reference.threads import Index, Threads
from kerncast.execute.setup.arena import GLOBAL_BASE, window_of
from kerncast.execute.setup.dataflow import UNKNOWN, own_pointers, use_of
from kerncast.execute.setup.state import Setting
from kerncast.execute.setup.tensor_copies import is_issued_once
from kerncast.execute.static.known_values import KnownValues
from kerncast.profiles import SECTOR_BYTES
from kerncast.ptx import Address, Immediate, Instruction, Operand, Trait, sources_of
from kerncast.traces import LINE_BYTES

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Bytes = dict[int, list[int]]
"""bytes of each executed block by the place of a buffer; 0: nobody knows of which"""

#: Bytes that shared memory gives in one pass.
_PASS_BYTES = 128


class Moves:
    """Counts the accesses of one launch; what has no address is counted by the buffer that it may lie in."""

    def __init__(self, setting: Setting, tally: Tally) -> None:
        self._setting, self._tally = setting, tally
        self._use = use_of(setting.program, setting.buffers)
        pointers = own_pointers(setting.program, setting.parameters, setting.arena)
        self._place_of = {name: allocation.address for name, allocation in pointers.items()}
        self.read: Bytes = defaultdict(list)
        self.written: Bytes = defaultdict(list)
        self.unknown: dict[str, None] = {}
        """accesses of which not even the bytes are known, by their lines"""
        self._rows = 0

    def start(self, blocks: int) -> None:
        """Make room for further blocks."""
        self._rows += blocks

    def count(self, number: int, ins: Instruction, active: Index, values: KnownValues) -> None:
        """Count an access by these threads."""
        if ins.opcode.has(Trait.BULK):
            self._bulk(number, ins, active, values)
            return
        if ins.is_copy:
            self._shared(number, ins, active, values.threads)
        if ins.space in {"shared", "local"}:
            count = self._shared if ins.space == "shared" else self._local
            count(number, ins, active, values.threads)
        elif ins.space != "param" and ins.access_bytes:
            self._global(number, ins, active, values)

    def _global(self, number: int, ins: Instruction, active: Index, values: KnownValues) -> None:
        addresses = [each for each in ins.operands if isinstance(each, Address)]
        places, unknown = values.addresses(addresses[1 if ins.is_copy and len(addresses) > 1 else 0], active)
        if ins.space == "generic" and not unknown.all():
            in_shared = (window_of(places.astype(np.uint64)) == 1) & ~unknown
            if in_shared.any():
                self._shared(number, ins, active[in_shared], values.threads)
                active, places, unknown = active[~in_shared], places[~in_shared], unknown[~in_shared]
        size = ins.access_bytes
        outside = np.zeros(len(active), np.bool_)
        outside[self._setting.arena.outside(places - GLOBAL_BASE, size)] = True
        unknown |= outside | ins.opcode.has(Trait.SAMPLED)
        known = ~unknown
        if known.any():
            offsets = places[known] - GLOBAL_BASE
            which = np.flatnonzero(known)
            data = self._setting.arena.data
            part = Part("global", data, offsets, active[known], which, places[known], size)
            self._tally.memory(number, ins, [part])
        if unknown.any():
            self._side_by_side(number, ins, active[unknown], values.threads)

    def _side_by_side(self, number: int, ins: Instruction, active: Index, threads: Threads) -> None:
        per_warp = np.bincount(threads.warp[active], minlength=threads.warps)
        nbytes = per_warp * ins.access_bytes
        for name, amount in (
            ("accesses", per_warp), ("requests", (per_warp > 0).astype(np.int64)),
            ("sectors", -(-nbytes // SECTOR_BYTES)), ("lines", -(-nbytes // LINE_BYTES)),
        ):  # fmt: skip
            self._tally.add(name, number, amount)
        per_block = nbytes.reshape(threads.blocks, -1).sum(axis=1)
        bases = self._use.of(ins) if not ins.opcode.has(Trait.SAMPLED) else frozenset({UNKNOWN})
        places = {self._place_of.get(name, 0) for name in bases}
        place = places.pop() if len(places) == 1 else 0
        if not ins.is_store:
            self._add(self.read, place, per_block)
        if ins.is_store or ins.is_update:
            self._add(self.written, place, per_block)

    def _shared(self, number: int, ins: Instruction, active: Index, threads: Threads) -> None:
        per_warp = np.bincount(threads.warp[active], minlength=threads.warps)
        passes = -(-per_warp * max(1, ins.access_bytes) // _PASS_BYTES)
        for name, amount in (
            ("shared_accesses", per_warp), ("shared_requests", (per_warp > 0).astype(np.int64)),
            ("shared_wavefronts", passes),
        ):  # fmt: skip
            self._tally.add(name, number, amount)

    def _local(self, number: int, ins: Instruction, active: Index, threads: Threads) -> None:
        per_warp = np.bincount(threads.warp[active], minlength=threads.warps)
        nbytes = per_warp * max(1, ins.access_bytes)
        for name, amount in (
            ("local_accesses", per_warp), ("local_requests", (per_warp > 0).astype(np.int64)),
            ("local_sectors", -(-nbytes // SECTOR_BYTES)), ("local_lines", -(-nbytes // LINE_BYTES)),
        ):  # fmt: skip
            self._tally.add(name, number, amount)

    def _bulk(self, number: int, ins: Instruction, active: Index, values: KnownValues) -> None:
        """Count copies of many bytes: of a box as its map says, of a row as its size does."""
        if "global" not in ins.modifiers:
            return
        addresses = [each for each in ins.operands if isinstance(each, Address)]
        operand = addresses[0 if ins.writes_global else 1]
        if "tensor" in ins.opcode.name:
            tiles = values.map_of(operand, active)
            boxes = len(operand.coordinates) - 1 if ins.names_rows else 1
            place, size = (tiles.address, boxes * tiles.box_bytes) if tiles else (0, None)
        else:
            size = self._size(ins.operands, active, values)
            places, unknown = values.addresses(operand, active[:1])
            place = 0 if unknown.any() else int(places[0])
        if size is None:
            self.unknown[ins.where or ins.name] = None
            return
        threads = values.threads
        copies = np.bincount(threads.warp[_asking(ins, active, values)], minlength=threads.warps)
        for name, each in (("requests", 1), ("accesses", 1), ("sectors", size / SECTOR_BYTES), ("lines", size / 128)):
            self._tally.add(name, number, np.ceil(copies * each).astype(np.int64))
        allocation = self._setting.arena.find(place) if place >= GLOBAL_BASE else None
        per_block = copies.reshape(threads.blocks, -1).sum(axis=1) * size
        place = allocation.address if allocation else 0
        if ins.reads_global:
            self._add(self.read, place, per_block)
        if ins.writes_global:
            self._add(self.written, place, per_block)

    def _size(self, operands: tuple[Operand, ...], active: Index, values: KnownValues) -> int | None:
        """Return how many bytes a copy of a row moves: its operand that is no address."""
        operand = next((each for each in operands if not isinstance(each, Address)), None)
        if isinstance(operand, Immediate):
            return operand.value
        register = [operand] if operand is not None else []
        if not register or values.is_unknown(register, active[:1]).any():  # type: ignore[arg-type]
            return None
        return int(values.threads.values(operand, "u32", active[:1])[0])  # type: ignore[arg-type]

    def _add(self, to: Bytes, place: int, per_block: Numbers) -> None:
        rows = to[place]
        rows += [0] * (self._rows - len(rows))
        first = self._rows - len(per_block)
        for number, nbytes in enumerate(per_block.tolist()):
            rows[first + number] += nbytes

    def per_block(self, rows: list[int]) -> Numbers:
        """Return [executed blocks] bytes, those of blocks that did nothing too."""
        return np.array(rows + [0] * (self._rows - len(rows)), np.int64)


def _asking(ins: Instruction, active: Index, values: KnownValues) -> Index:
    """Return the threads that get a copy: one of those in a warp that ask for the same, as far as that is known."""
    registers = sources_of(ins)
    if not is_issued_once(ins) or values.is_unknown(registers, active).any():
        return active
    threads = values.threads
    asked = [threads.warp[active].astype(np.uint64), *(threads.values(each, "u64", active) for each in registers)]
    return active[np.unique(np.stack(asked), axis=1, return_index=True)[1]]
