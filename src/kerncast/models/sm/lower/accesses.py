"""Memory accesses of PTX instructions: their places, and which of them become one machine instruction."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import kerncast
from kerncast.bounded_file import our_rows
from kerncast.machine.joined_loads import joined_loads
from kerncast.models.sm.micro_ops import Group, Memory
from kerncast.ptx import (
    TYPE_BITS,
    Address,
    BasicBlock,
    ControlFlowGraph,
    Function,
    Immediate,
    Instruction,
    Operand,
    Register,
    Special,
    Symbol,
    Trait,
    Vector,
    results_of,
    sources_of,
)
from kerncast.traces import Operation, operation_of

# Atomics of a warp on one address that the compiler makes one, from ``joined_atomics.csv``.
#
# An address is known to be the warp's own where it depends on no thread's number. What is joined, and how, was read
# off the machine code of ptxas 12.9; that NVCC joins atomics is public, too (NVIDIA, "CUDA Pro Tip: Optimized
# Filtering with Warp-Aggregated Atomics", note of 2017). Fails when: the compiler knows more than these rules, or is
# another one.


_FILE = Path(kerncast.__path__[0]) / "data" / "instructions" / "joined_atomics.csv"
_JOINED = {"add", "min", "max", "and", "or", "xor"}
_TYPES = {"s32", "u32", "b32", "s64", "u64", "b64"}
_WIDE = {"s64", "u64", "b64"}
#: Special registers that have one value for a whole block.
_OF_THE_BLOCK = ("%ctaid", "%nctaid", "%ntid", "%gridid", "%cluster")


@dataclass(frozen=True, slots=True)
class Joining:
    """Way in which the atomics of a warp's lanes become one."""

    by_all_lanes: bool
    """whether it needs all 32 lanes to take part; with fewer, each lane makes its own atomic"""
    opcodes: tuple[str, ...]
    """machine instructions that it takes besides the atomic"""


def joined_atomics(function: Function, architecture: int) -> dict[int, Joining]:
    """Return the atomics that are joined on an architecture such as 86, by number of instruction."""
    code = function.instructions
    numbers = [n for n, ins in enumerate(code) if ins.is_update and not ins.opcode.has(Trait.PHASE)]
    if not numbers:
        return {}
    read = {register.name for ins in code for register in sources_of(ins)}
    varying = varying_registers(function)
    found = {}
    for number in numbers:
        is_read = any(register.name in read for register in results_of(code[number]))
        for case in _cases(code[number], varying, is_read=is_read):
            joining = _joining(case, architecture)
            if joining is not None:
                found[number] = joining
                break
    return found


def varying_registers(function: Function) -> frozenset[str]:
    """Return the registers that may differ between the lanes of a warp.

    One with several definitions may where any branch depends on such a register: lanes come from different ones.
    """
    code = function.instructions
    definitions: dict[str, int] = {}
    for ins in code:
        for register in results_of(ins):
            definitions[register.name] = definitions.get(register.name, 0) + 1
    varying: set[str] = set()
    while True:
        before = len(varying)
        diverges = any(ins.is_jump and _varies(ins, varying) for ins in code)
        for ins in code:
            is_own = ins.opcode.has(Trait.LANE) or _is_private_load(ins) or _varies(ins, varying)
            varying |= {r.name for r in results_of(ins) if is_own or (diverges and definitions[r.name] > 1)}
        if len(varying) == before:
            return frozenset(varying)


def _is_private_load(ins: Instruction) -> bool:
    """Tell whether each lane loads from memory of its own, or from where that cannot be told."""
    return ins.root == "ld" and ins.space in {"local", ""}


def _varies(ins: Instruction, varying: set[str]) -> bool:
    return any(r.name in varying for r in sources_of(ins)) or any(_is_of_a_thread(o) for o in ins.operands)


def _is_of_a_thread(operand: Operand) -> bool:
    if isinstance(operand, Vector):
        return any(map(_is_of_a_thread, operand.elements))
    return isinstance(operand, Special) and not operand.name.startswith(_OF_THE_BLOCK)


def _cases(ins: Instruction, varying: frozenset[str], *, is_read: bool) -> list[str]:
    """Return which ways of joining an atomic allows, the best first."""
    operation = next((m for m in ins.modifiers if m in _JOINED), "")
    address = next((o for o in ins.operands if isinstance(o, Address)), None)
    if not operation or ins.type not in _TYPES or address is None:
        return []
    value = ins.operands[-1]
    adds, base = operation == "add", address.base
    is_wide, is_one = ins.type in _WIDE, isinstance(value, Immediate) and value.value == 1
    # The machine instruction that counts lanes exists for shared memory only.
    cases = ["increment"] if adds and is_one and not (is_read or is_wide) and ins.space == "shared" else []
    if isinstance(base, Register) and base.name in varying:
        return cases
    if adds and not (isinstance(value, Register) and value.name in varying):
        return [*cases, "count.read" if is_read else "count"]
    if is_wide or (is_read and not adds):
        return []
    return ["scan" if is_read else "reduce"]


def _joining(case: str, architecture: int) -> Joining | None:
    """Return the newest way that an architecture has; None where it has none."""
    rows = [row for since, row in _table().get(case, ()) if since <= architecture]
    return rows[-1] if rows else None


@cache
def _table() -> dict[str, list[tuple[int, Joining]]]:
    """Return by case, oldest first, since which architecture atomics are joined how."""
    found: dict[str, list[tuple[int, Joining]]] = {}
    for row in our_rows(_FILE):
        joining = Joining(row["lanes"] == "all", tuple(row["opcodes"].split()))
        found.setdefault(row["case"], []).append((int(row["from"]), joining))
    return {case: sorted(rows, key=lambda row: row[0]) for case, rows in found.items()}


_OF_OPERATION = {Operation.ATOMIC: Memory.ATOMIC, Operation.REDUCTION: Memory.REDUCTION}
_ORDERED = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}


def _of_barrier(ins: Instruction) -> Memory:
    """Return what a barrier of threads asks for; lanes of one warp meet at once."""
    if "warp" in ins.modifiers:
        return Memory.NONE
    return Memory.ARRIVE if "arrive" in ins.modifiers else Memory.BARRIER


def _of_event(ins: Instruction) -> Memory:
    """Return what an instruction has to do with mbarriers and bulk copies, NONE where that is nothing."""
    opcode = ins.opcode
    if opcode.has(Trait.WAIT):
        return Memory.WAIT
    if opcode.has(Trait.BULK):
        return Memory.BULK
    if opcode.has(Trait.PHASE):
        return Memory.TELL if opcode.name in TOLD_GROUPS else Memory.PHASE
    if opcode.has(Trait.TENSOR_MEMORY) and opcode.has(Trait.DESCRIBED):
        return Memory.TENSOR_PRODUCT if ins.operands[2:] else Memory.TENSOR_COPY
    return Memory.NONE


#: Groups whose earlier operations an instruction tells an mbarrier of.
TOLD_GROUPS = {"cp.async.mbarrier.arrive": Group.COPIES, "tcgen05.commit": Group.TENSOR}


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes that an access touches, as far as the PTX tells."""

    space: str
    """state space; generic: any of global, local and shared"""
    base: str
    """register or variable that the address starts from; empty: unknown"""
    is_variable: bool
    """whether the base is a variable, whose bytes no other variable shares"""
    version: int
    """writes to the base before this access in its straight line of blocks: equal versions, equal addresses"""
    start: int
    """first byte, relative to the base"""
    stop: int
    """byte behind the last one, relative to the base"""
    is_read_only: bool
    """whether nothing writes there while the kernel runs (``ld.global.nc``)"""
    is_ordered: bool
    """whether no other access moves across it"""

    def may_overlap(self, other: "Place") -> bool:
        """Return whether both can touch the same byte, or must stay in order for another reason."""
        if self.is_ordered or other.is_ordered:
            return True
        if self.is_read_only or other.is_read_only:
            return False
        if self.space != other.space:
            return "generic" in {self.space, other.space}
        # One base that was not written in between: offsets tell exactly which bytes are meant.
        if (self.base, self.version) == (other.base, other.version) and self.base:
            return self.start < other.stop and other.start < self.stop
        return not (self.is_variable and other.is_variable and self.base and other.base)


class Accesses:
    """The accesses of a function by the number of their instruction."""

    def __init__(self, function: Function, cfg: ControlFlowGraph) -> None:
        self._code = function.instructions
        self.joined = {each.first: each.members for each in joined_loads(function, cfg).values()}
        """loads that the compiler makes one, by the first of them in the order of the program"""
        self.taken_in = {number for first, group in self.joined.items() for number in group if number != first}
        """loads that are part of another one's machine instruction"""

    @cached_property
    def _is_read(self) -> frozenset[str]:
        return frozenset(r.name for ins in self._code for r in sources_of(ins))

    def memory(self, number: int) -> Memory:
        """Return what an instruction asks of memory; a barrier of the block is one."""
        ins = self._code[number]
        event = _of_barrier(ins) if ins.is_barrier else _of_event(ins)
        if ins.is_barrier or event is not Memory.NONE:
            return event
        if ins.opcode.has(Trait.AWAIT) or ins.opcode.has(Trait.COMMIT):
            return Memory.AWAIT if ins.opcode.has(Trait.AWAIT) else Memory.COMMIT
        if ins.opcode.access is None or ins.space in {"param", "const"}:
            return Memory.PRODUCT if ins.opcode.group else Memory.NONE
        if ins.is_copy:
            return Memory.COPY
        is_shared = ins.space == "shared"
        if ins.is_update:
            return Memory.SHARED_ATOMIC if is_shared else _OF_OPERATION[operation_of(ins, self._is_read)]
        of_spaces = (Memory.LOAD, Memory.SHARED_LOAD) if ins.is_load else (Memory.STORE, Memory.SHARED_STORE)
        return of_spaces[is_shared]

    @cached_property
    def _mapped(self) -> frozenset[str]:
        """Registers that hold an address made by mapa, or made from one."""
        found: set[str] = set()
        before = -1
        while len(found) > before:
            before = len(found)
            for ins in self._code:
                is_made = ins.opcode.name == "mapa" or any(r.name in found for r in sources_of(ins))
                if is_made and ins.opcode.access is None:
                    found.update(r.name for r in results_of(ins) if r.type != "pred")
        return frozenset(found)

    def leaves_block(self, number: int) -> bool:
        """Return whether an access goes to shared memory of another block of the cluster, as far as the PTX tells."""
        ins = self._code[number]
        if ins.opcode.access is None or ins.is_copy:
            return False
        bases = (o.base for o in ins.operands if isinstance(o, Address) and isinstance(o.base, Register))
        return ins.is_cluster_wide or (ins.space == "generic" and any(base.name in self._mapped for base in bases))

    def places(self, blocks: Iterable[BasicBlock]) -> dict[int, tuple[Place, ...]]:
        """Return what is known of each access of blocks that are issued one after the other; a copy has two places."""
        versions: dict[str, int] = {}
        found = {}
        for number in (number for block in blocks for number in range(block.start, block.stop)):
            ins = self._code[number]
            if ins.opcode.access is not None:
                addresses = [o for o in ins.operands if isinstance(o, Address)]
                spaces = ("shared", ins.space) if ins.is_copy else (ins.space,)
                found[number] = tuple(
                    _place(ins, space, address, versions) for space, address in zip(spaces, addresses, strict=False)
                )
            for register in results_of(ins):
                versions[register.name] = versions.get(register.name, 0) + 1
        return found


def _place(ins: Instruction, space: str, address: Address, versions: dict[str, int]) -> Place:
    data = next((o for o in ins.operands if isinstance(o, Vector)), None)
    nbytes = TYPE_BITS.get(ins.type, 64) // 8 * (len(data.elements) if data else 1)
    if ins.moves_matrices or ins.is_copy:
        nbytes = ins.access_bytes
    base = address.base
    name = base.name if base is not None else ""
    start = address.offset
    return Place(
        space=space,
        base=name,
        is_variable=isinstance(base, Symbol),
        version=versions.get(name, 0),
        start=start,
        stop=start + nbytes,
        is_read_only="nc" in ins.modifiers,
        is_ordered=ins.is_update or bool(_ORDERED & set(ins.modifiers)),
    )
