"""The input and the output of an engine."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat, CaveatKind
from kerncast.execute.sampling.sample import Budget
from kerncast.execute.setup.arena import GLOBAL_BASE, LOCAL_WINDOW, Arena, Touched
from kerncast.execute.setup.arguments import BoundArgument
from kerncast.execute.setup.layout import Program
from kerncast.launch import Launch
from kerncast.ptx import Instruction, Symbol, Trait
from kerncast.traces import BlockCounts

_PRINTF, _REQUEST = Caveat(CaveatKind.PRINTF_LEFT_OUT), Caveat(CaveatKind.REQUEST_NOT_GRANTED)


def remark_on(ins: Instruction) -> Caveat | None:
    """Return what is to be said about an instruction wherever it is executed."""
    if "vprintf" in ins.modifiers:
        return _PRINTF
    return _REQUEST if "try_cancel" in ins.modifiers else None


def doubt_about(ins: Instruction) -> Caveat:
    """Return the remark on an instruction of which PTX does not say what it does here, though hardware goes on.

    A warp-wide one has a member mask with lanes that are elsewhere; one on an mbarrier, a block that has ended.
    """
    kind = CaveatKind.LATE_ARRIVAL if ins.opcode.has(Trait.PHASE) else CaveatKind.LANES_ABSENT
    return Caveat.of(kind, ins.where or ins.name)


#: What is counted of each instruction that accesses memory, by the names of BlockCounts.
ACCESS_COUNTS = (
    "requests", "sectors", "lines", "accesses", "shared_requests", "shared_accesses", "shared_wavefronts",
    "shared_conflicts", "local_requests", "local_accesses", "local_sectors", "local_lines", "contention",
)  # fmt: skip

#: Called with how many blocks have run, and with how many are to run.
Progress = Callable[[int, int], None]
#: Called with how many blocks have run.
Report = Callable[[int], None]


def is_switched(ins: Instruction) -> bool:
    """Return whether a guard switches threads off for an instruction; that of a branch decides where they go."""
    return ins.guard is not None and not ins.is_jump


@dataclass(frozen=True, slots=True)
class Turns:
    """Who takes numbers from a counter of the whole grid: all in turn, whoever runs first."""

    warps: int
    """warps of a block that take, as bits: the lowest of warp 0"""
    blocks: int
    """blocks of the grid that take"""
    first: int = 0
    """turns that others have had before"""
    beyond: int = 0
    """how much further the counter is, in the direction in which it moves"""


@dataclass(frozen=True, slots=True)
class Setting:
    """A launch that is ready to run."""

    linked: Program
    """program before its global variables have addresses, the same for all launches of a kernel"""
    program: Program
    launch: Launch
    arena: Arena
    parameters: bytes
    budget: Budget
    touched: Touched
    arguments: tuple[BoundArgument, ...]
    """arguments of a launch file; none where the parameters were recorded"""
    buffers: frozenset[str]
    """parameters that point to a buffer which no other one reaches"""
    remarks: tuple[Caveat, ...] = ()
    """caveats on variables that the host would set"""
    goes_on: bool = False
    """whether an access outside all buffers goes on where memory is mapped, as on a GPU; it is noted"""
    turns: Mapping[int, Turns] = field(default_factory=dict)
    """counters of the whole grid that stay as they are while all take in turn; of others who asks first has it"""


class Engine(Protocol):
    """Runs blocks of one launch."""

    slowness: ClassVar[float]
    """nominal cost of a step relative to compiled code"""

    @property
    def remarks(self) -> tuple[Caveat, ...]:
        """Caveats on the counts."""

    @property
    def printed(self) -> str:
        """Text that the kernel printed."""

    def check_room(self, blocks: int) -> None:
        """Raise BudgetExceededError if the counts of so many blocks take too much memory."""

    def run(self, blocks: list[int], report: Report | None) -> None:
        """Run these blocks of the grid; raises KernelFault or BudgetExceededError."""

    def thread_instructions(self) -> int:
        """Return how many instructions all threads have executed so far."""

    def counts(self) -> BlockCounts:
        """Return the counts of all blocks that have run, in the order in which they were given."""


# What a kernel prints: the text of its calls of printf, in the order in which they were executed.
#
# Source of what printf takes and returns: CUDA C++ Programming Guide, section Formatted Output.


LIMIT_BYTES = 64 * 1024
_LONGEST_STRING = 1024
_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?(?P<size>hh|h|ll|l|j|z|t)?"
    r"(?P<type>[diouxXeEfFgGaAcsp%])"
)
_SIZES = {"hh": 1, "h": 2, "l": 8, "ll": 8, "j": 8, "z": 8, "t": 8}


class Console:
    """Collects text, as far as there is room for it."""

    def __init__(self, program: Program, arena: Arena) -> None:
        self._program = program
        self._arena = arena
        self._texts: list[str] = []
        self._room = LIMIT_BYTES
        self._counts: dict[int, int] = {}
        """number of arguments of each printf format, by its address"""

    @property
    def text(self) -> str:
        """All that was printed."""
        return "".join(self._texts)

    def take(self) -> str:
        """Return what was printed since this was asked last, and make room for more."""
        text, self._texts, self._room = self.text, [], LIMIT_BYTES
        return text

    def print(self, call: Instruction, private: npt.NDArray[np.uint8]) -> None:
        """Run one thread's call of vprintf: its operands and its result lie in the thread's own memory."""
        names = [operand.name for operand in call.operands if isinstance(operand, Symbol)]
        if len(names) < 2:
            return
        *result, template, values = (self._program.addresses.get(name, len(private)) for name in names)
        address, start = _word(private, template), _word(private, values) - LOCAL_WINDOW
        if self._room or address not in self._counts:
            arguments = private[start:].tobytes() if 0 <= start < len(private) else b""
            text, self._counts[address] = formatted(self._string(address), arguments, self._string)
            self._texts.append(text[: self._room])
            self._room -= len(self._texts[-1])
        if result and result[0] + 4 <= len(private):
            count = self._counts[address].to_bytes(4, "little")
            private[result[0] : result[0] + 4] = np.frombuffer(count, np.uint8)

    def _string(self, address: int) -> str:
        """Return a string in global memory, where those of a source lie; one elsewhere is left out."""
        offset = address - GLOBAL_BASE
        for allocation in self._arena.allocations:
            if 0 <= offset - allocation.start < allocation.nbytes:
                stop = min(allocation.start + allocation.nbytes, offset + _LONGEST_STRING)
                return self._arena.data[offset:stop].tobytes().split(b"\0")[0].decode(errors="replace")
        return ""


def formatted(pattern: str, arguments: bytes, string: Callable[[int], str]) -> tuple[str, int]:
    """Return the text of a call of printf, and how many arguments it took.

    >>> formatted("%d of %5.2f%%", bytes([7, 0, 0, 0, 0, 0, 0, 0]) + bytes([0, 0, 0, 0, 0, 0, 0xF8, 0x3F]), str)
    ('7 of  1.50%', 2)
    """
    values = _Arguments(arguments)
    return _CONVERSION.sub(lambda found: _converted(found, values, string), pattern), values.count


class _Arguments:
    """The arguments of one call, packed as a C structure."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.count = 0

    def take(self, nbytes: int) -> bytes:
        start = -(-self._position // nbytes) * nbytes
        self._position = start + nbytes
        self.count += 1
        return self._data[start : start + nbytes].ljust(nbytes, b"\0")

    def integer(self, nbytes: int = 4, *, signed: bool = True) -> int:
        return int.from_bytes(self.take(nbytes), "little", signed=signed)


def _converted(found: "re.Match[str]", values: _Arguments, string: Callable[[int], str]) -> str:
    kind = found["type"]
    if kind == "%":
        return "%"
    width, precision = (_extent(found[name], values) for name in ("width", "precision"))
    plain = f"%{found['flags']}{width}"
    omitted = found["precision"] is None or precision.startswith("-")
    spec = plain if omitted else f"{plain}.{precision}"
    if kind in "eEfFgGaA":
        number = float(np.frombuffer(values.take(8), np.float64)[0])
        return (plain + "s") % number.hex() if kind in "aA" else (spec + kind) % number
    if kind in "sp":
        address = values.integer(8, signed=False)
        return (spec + "s") % (string(address) if kind == "s" else f"{address:#x}")
    if kind == "c":
        return (plain + "c") % (values.integer() & 0xFF)
    return _integer(spec, kind, _SIZES.get(found["size"] or "", 4), values)


def _extent(text: str | None, values: _Arguments) -> str:
    """Return a width or a precision; one that is very large is cut, and a negative width is one to the left."""
    number = values.integer() if text == "*" else int(text or 0)
    return str(max(-_LONGEST_STRING, min(number, _LONGEST_STRING))) if number else ""


def _integer(spec: str, kind: str, nbytes: int, values: _Arguments) -> str:
    signed = kind in "di"
    whole = values.integer(max(nbytes, 4), signed=signed)  # shorter ones are passed as int
    if nbytes < 4:
        low = (whole & (1 << 8 * nbytes) - 1).to_bytes(nbytes, "little")
        whole = int.from_bytes(low, "little", signed=signed)
    if kind == "o":  # Python writes another prefix
        return (spec.replace("#", "") + "o") % whole
    return (spec + ("d" if kind in "diu" else kind)) % whole


def _word(private: npt.NDArray[np.uint8], place: int) -> int:
    return int.from_bytes(private[place : place + 8].tobytes(), "little")
