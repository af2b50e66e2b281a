"""The typed PTX module: functions, variables, instructions and operands, as values.

Names are unique inside a function: the parser has resolved nested scopes.
Source: NVIDIA, Parallel Thread Execution ISA 8.8.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kerncast.ptx.fragments import BY_QUADS, is_by_quads
from kerncast.ptx.opcodes import COMBINATIONS, Flow, MemoryAccess, Opcode, Trait, opcode_of

_LENGTH = re.compile(r"\d+")
#: Parts that the compiler adds for what only one file can see.
_HIDDEN = ("_INTERNAL_", "_GLOBAL__N_")


def source_name(name: str) -> str:
    """Return the qualified name of a variable whose name in PTX follows the Itanium C++ ABI, section 5.1.

    Namespaces without a name are left out, and template arguments too; any other name is returned as it is.

    >>> source_name("_ZN2ns5inner1pE"), source_name("weights")
    ('ns::inner::p', 'weights')
    """
    rest = name.removeprefix("_Z")
    if rest == name:
        return name
    rest = rest.removeprefix("N").removeprefix("L")
    parts: list[str] = []
    while match := _LENGTH.match(rest):
        end = match.end() + int(match[0])
        part = rest[match.end() : end]
        if not part.startswith(_HIDDEN):
            parts.append(part)
        rest = rest[end:].removeprefix("L")
    return "::".join(parts) or name


#: Bits of each scalar type; a predicate is one bit.
TYPE_BITS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16,
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32, "b64": 64, "u64": 64, "s64": 64,
    "f64": 64, "b128": 128, "b1": 1, "s4": 4, "u4": 4, "e4m3": 8, "e5m2": 8, "f32x2": 64, "u16x2": 32, "s16x2": 32,
    "u2": 2, "s2": 2, "e4m3x2": 16, "e5m2x2": 16, "e2m3x2": 16, "e3m2x2": 16, "e2m1x2": 8, "ue8m0x2": 16,
    "e2m1": 4, "e2m3": 6, "e3m2": 6, "ue8m0": 8, "ue4m3": 8,
}  # fmt: skip

#: Bytes of a row of the matrices that ldmatrix and stmatrix move; one lane has the address of each.
MATRIX_ROW_BYTES = 16

#: What a request to a texture counts for each thread: the size of its texels is known when it runs alone.
_TEXEL_BYTES = 4

_UPDATES = frozenset({MemoryAccess.ATOMIC, MemoryAccess.REDUCTION})
_JUMPS = frozenset({Flow.BRANCH, Flow.LEAVE})
_ENDS = _JUMPS | {Flow.BARRIER, Flow.TRAP}

SPACES = frozenset({"global", "const", "shared", "local", "param"})


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register of one thread."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Special:
    """A read-only register such as %tid.x."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal: an integer, or the bit pattern of a float (kind f32 or f64)."""

    value: int
    kind: str
    """type of the literal: int, f32 or f64"""


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, or the name of a function."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """A memory operand [base + offset]; base None means an absolute address."""

    base: "Register | Symbol | None"
    offset: int = 0
    coordinates: "tuple[Operand, ...]" = ()
    """place in the texture or surface whose handle the base is"""


@dataclass(frozen=True, slots=True)
class Vector:
    """Several operands in braces."""

    elements: "tuple[Operand, ...]"


@dataclass(frozen=True, slots=True)
class Negated:
    """A predicate operand with a leading exclamation mark."""

    register: Register


@dataclass(frozen=True, slots=True)
class Sink:
    """The destination ``_``: the result is dropped."""


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target."""

    name: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """An operand such as ``[texture, {x, y}]`` that only instructions have which the engine refuses by name."""

    text: str


Operand = Register | Special | Immediate | Symbol | Address | Vector | Negated | Sink | Label | Opaque


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the user's source."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)  # no slots: what is derived from the opcode is computed once and kept
class Instruction:
    """One PTX instruction."""

    root: str
    """opcode before the first dot, such as ld"""
    modifiers: tuple[str, ...]
    """parts of the name behind the first dot, such as (global, nc, f32)"""
    operands: tuple[Operand, ...]
    guard: Register | None
    guard_negated: bool
    location: Location | None
    note: str = ""
    """meaning of the instruction for messages; set where the kernel's author did not write it"""
    line: int = field(default=0, compare=False)
    """line of the PTX text that it begins on, from 1; of what a call is expanded to, the call's"""

    @cached_property
    def name(self) -> str:
        """The full opcode."""
        return ".".join((self.root, *self.modifiers))

    @cached_property
    def opcode(self) -> Opcode:
        """Row of the opcode table."""
        return opcode_of(self.name)

    @cached_property
    def details(self) -> tuple[str, ...]:
        """The modifiers behind the opcode that are no types, in order."""
        return tuple(m for m in self.modifiers[self.opcode.name.count(".") :] if m not in TYPE_BITS)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The type modifiers, in order."""
        return tuple(m for m in self.modifiers if m in TYPE_BITS)

    @cached_property
    def type(self) -> str:
        """The last type modifier: the type of the operation, or of the source of a conversion."""
        return self.types[-1] if self.types else ""

    @cached_property
    def space(self) -> str:
        """State space of a memory instruction; generic when none is named. Of a copy it is the one that is read."""
        named = [space for m in self.modifiers if (space := m.split("::")[0]) in SPACES]
        if self.opcode.has(Trait.BULK):
            return "global" if "global" in named else "shared"
        if self.opcode.has(Trait.SAMPLED):  # textures lie in global memory
            return "global"
        return named[-1 if self.is_copy else 0] if named else "generic"

    @property
    def is_cluster_wide(self) -> bool:
        """Whether it may reach the shared memory of other blocks of the cluster by its state space."""
        return "shared::cluster" in self.modifiers

    @property
    def names_rows(self) -> bool:
        """Whether it copies four rows of a matrix, each by its number."""
        return "tile::gather4" in self.modifiers or "tile::scatter4" in self.modifiers

    @property
    def tells_cluster(self) -> bool:
        """Whether an answer goes to each block of the cluster."""
        return "multicast::cluster::all" in self.modifiers

    @cached_property
    def condition(self) -> "Register | Negated | None":
        """The guard as an operand."""
        return Negated(self.guard) if self.guard is not None and self.guard_negated else self.guard

    @property
    def access_bytes(self) -> int:
        """Bytes that one thread loads or stores with a memory instruction."""
        if self.moves_matrices:
            return MATRIX_ROW_BYTES
        if self.is_copy and not self.opcode.has(Trait.BULK):
            size = self.operands[2] if len(self.operands) > 2 else None
            return size.value if isinstance(size, Immediate) else 0
        if self.opcode.has(Trait.SAMPLED) and not self.type.startswith("b"):
            return _TEXEL_BYTES
        data = next((each for each in self.operands if isinstance(each, Vector)), None)
        return TYPE_BITS.get(self.type, 0) // 8 * (len(data.elements) if data else 1)

    @property
    def moves_matrices(self) -> bool:
        """Whether lanes give the addresses of rows, whose elements others hold."""
        return self.opcode.access is not None and self.opcode.has(Trait.ROWS)

    @property
    def is_load(self) -> bool:
        """Whether it reads memory and does nothing else to it."""
        return self.opcode.access is MemoryAccess.LOAD

    @property
    def is_store(self) -> bool:
        """Whether it writes memory without reading it."""
        return self.opcode.access is MemoryAccess.STORE

    @property
    def is_update(self) -> bool:
        """Whether it updates memory atomically, with or without the old value for a result."""
        return self.opcode.access in _UPDATES

    @property
    def is_copy(self) -> bool:
        """Whether it copies from one state space to another, without a register that holds the data."""
        return self.opcode.access is MemoryAccess.COPY

    @property
    def writes_global(self) -> bool:
        """Whether it is a copy from shared to global memory."""
        return self.opcode.has(Trait.BULK) and "bulk_group" in self.modifiers

    @property
    def reads_global(self) -> bool:
        """Whether it is a copy that reads global memory, as those do which combine what is there with what comes."""
        is_read = "global" in self.modifiers and "bulk_group" not in self.modifiers
        return self.opcode.has(Trait.BULK) and (is_read or "reduce" in self.opcode.name)

    @property
    def is_barrier(self) -> bool:
        """Whether threads wait for one another here: of the block, or of the warp (bar.warp.sync)."""
        return self.opcode.flow is Flow.BARRIER

    @property
    def is_cluster_barrier(self) -> bool:
        """Whether threads wait here for those of all blocks of the cluster."""
        return self.opcode.name == "barrier.cluster.wait"

    @property
    def is_branch(self) -> bool:
        """Whether it goes to a label, or to one of a table of labels."""
        return self.opcode.flow is Flow.BRANCH

    @property
    def is_jump(self) -> bool:
        """Whether it branches or leaves: its guard says where threads go, and switches none of them off."""
        return self.opcode.flow in _JUMPS

    @property
    def ends_block(self) -> bool:
        """Whether control can leave the straight line, or wait, after this instruction."""
        return self.opcode.flow in _ENDS or self.opcode.has(Trait.MEET)

    @property
    def where(self) -> str | None:
        """The line of the user's source, for messages, and what is to be said about it."""
        return ": ".join(filter(None, (str(self.location or ""), self.note))) or None


def access_and_tell(ins: Instruction) -> tuple[Instruction, Instruction]:
    """Return the store or the reduction that an asynchronous one makes, and what tells an mbarrier of its bytes.

    >>> names = ("async", "shared::cluster", "mbarrier::complete_tx::bytes", "v2", "b32")
    >>> place, data = Address(None, 0), Vector((Immediate(1, "int"), Immediate(2, "int")))
    >>> [each.name for each in access_and_tell(Instruction("st", names, (place, data, place), None, False, None))]
    ['st.shared::cluster.v2.b32', 'mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64']
    """
    left = tuple(m for m in ins.modifiers if m != "async" and not m.startswith("mbarrier::"))
    access = replace(ins, modifiers=left, operands=ins.operands[:2])
    telling = ("complete_tx", "relaxed", "cluster", "shared::cluster", "b64")
    count = Immediate(ins.access_bytes, "int")
    return access, replace(ins, root="mbarrier", modifiers=telling, operands=(ins.operands[2], count))


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place in an initial value that holds the address of a symbol, or one byte of it."""

    position: int
    """byte offset from the start of the variable"""
    symbol: str
    offset: int = 0
    """bytes added to the address"""
    nbytes: int = 8
    shift: int = 0
    """bits by which the address is shifted right before it is stored"""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in a state space."""

    name: str
    space: str
    type: str
    align: int
    count: int
    """number of elements; 0 for an extern array"""
    initial: bytes = b""
    is_extern: bool = False
    relocations: tuple[Relocation, ...] = ()

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.count * TYPE_BITS[self.type] // 8


@dataclass(frozen=True, slots=True)
class Prototype:
    """The values that a call through a pointer passes and gets back, in bytes each."""

    returns: tuple[int, ...]
    parameters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterRule:
    """What a kernel declares of the clusters of blocks that it is launched in (PTX ISA 8.8, section 11.6)."""

    blocks: tuple[int, int, int] | None = None
    """blocks of a cluster in x, y and z, which every launch has; None: the launch says"""
    is_explicit: bool = False
    """whether a launch has to be in clusters"""
    most_blocks: int | None = None
    counts_clusters: bool = False
    """whether the grid of a launch counts clusters, not blocks"""


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel (.entry) or a device function (.func)."""

    name: str
    is_kernel: bool
    parameters: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    variables: tuple[Variable, ...]
    """local, shared and call-parameter variables of the body"""
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    """index of the instruction behind each label; len(instructions) at the end"""
    tables: Mapping[str, tuple[str, ...]]
    """labels of each branch table of brx.idx, or functions that a call through a pointer can mean"""
    prototypes: Mapping[str, Prototype] = field(default_factory=dict)
    """prototypes of calls through pointers"""
    cluster: ClusterRule = field(default_factory=ClusterRule)


@dataclass(frozen=True, slots=True)
class Module:
    """One PTX text."""

    version: str
    target: str
    variables: tuple[Variable, ...]
    functions: Mapping[str, Function]
    """functions with a body: kernels and device functions"""

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels, in order."""
        return tuple(name for name, function in self.functions.items() if function.is_kernel)


def symbols_of(operand: Operand) -> Iterator[str]:
    """Yield the names of variables and functions that an operand holds."""
    match operand:
        case Symbol(name) | Address(Symbol(name)):
            yield name
        case Vector(elements):
            for element in elements:
                yield from symbols_of(element)


#: The carry flag of add.cc and its kin.
CARRY = Register("%cc", "pred")
#: Modifiers that add a source: the predicate of a comparison, or which lanes take part.
_WITH_SOURCE = COMBINATIONS | {"sync"}


def results_of(ins: Instruction) -> tuple[Register, ...]:
    """Return the registers that an instruction writes."""
    carry = (CARRY,) if "cc" in ins.modifiers else ()
    return (*_registers(ins.operands[: result_count(ins)]), *carry)


def sources_of(ins: Instruction) -> tuple[Register, ...]:
    """Return the registers that an instruction reads, its guard among them."""
    count = result_count(ins)
    reads_results = ins.opcode.has(Trait.ACCUMULATE)
    addresses = (o for o in ins.operands[:count] if reads_results or isinstance(o, Address))
    guard = (ins.guard,) if ins.guard else ()
    carry = (CARRY,) if ins.opcode.has(Trait.CARRY) else ()
    return (*_registers((*ins.operands[count:], *addresses)), *guard, *carry)


def kept_by(ins: Instruction) -> tuple[Register, ...]:
    """Return the registers that an instruction writes in some threads only: the others keep the old value."""
    return results_of(ins) if ins.guard is not None or ins.is_barrier else ()


def result_count(ins: Instruction) -> int:
    """Return how many of the first operands are results."""
    if not ins.opcode.has_result or not ins.operands:
        return 0
    if ins.is_barrier:
        return int("red" in ins.modifiers)
    if ins.opcode.fewest_sources is None:
        return 1
    sources = ins.opcode.fewest_sources + sum(m in _WITH_SOURCE for m in ins.modifiers)
    return max(1, len(ins.operands) - sources)


@dataclass(frozen=True)  # no slots: what is derived is computed once and kept
class Dependences:
    """True dependences within a straight run of instructions: a value is made, then read.

    A guarded instruction also waits for the value that it leaves alone where its guard does not hold. Loads and stores
    do not wait for one another, whatever their addresses.
    """

    makers: tuple[tuple[int, ...], ...]
    """[instructions] positions of the instructions that make the values read"""

    @cached_property
    def critical_path(self) -> int:
        """Number of instructions on the longest chain, where each costs one."""
        depth: list[int] = []
        for makers in self.makers:
            depth.append(1 + max((depth[maker] for maker in makers), default=0))
        return max(depth, default=0)

    @cached_property
    def mean_distance(self) -> float | None:
        """Mean number of instructions from one that makes a value to the first that reads it; None without any.

        An instruction that makes several values counts once.
        """
        first_reader: dict[int, int] = {}
        for reader, makers in enumerate(self.makers):
            for maker in makers:
                first_reader.setdefault(maker, reader)
        return sum(r - m for m, r in first_reader.items()) / len(first_reader) if first_reader else None


def dependences(code: Sequence[Instruction]) -> Dependences:
    """Return who waits for whom in instructions that run one after the other."""
    made: dict[str, int] = {}
    makers = []
    for position, ins in enumerate(code):
        read = dict.fromkeys(register.name for register in (*sources_of(ins), *kept_by(ins)))
        makers.append(tuple(dict.fromkeys(made[name] for name in read if name in made)))
        made.update((register.name, position) for register in results_of(ins))
    return Dependences(tuple(makers))


def _registers(operands: Iterable[Operand]) -> Iterator[Register]:
    for operand in operands:
        match operand:
            case Register():
                yield operand
            case Negated(register):
                yield register
            case Address(base, _, coordinates):
                if isinstance(base, Register):
                    yield base
                yield from _registers(coordinates)
            case Vector(elements):
                yield from _registers(elements)


_FLOAT_CLASS = {
    "f32": "fp32", "f32x2": "fp32", "f64": "fp64", "f16": "fp16", "f16x2": "fp16", "bf16": "fp16", "bf16x2": "fp16",
}  # fmt: skip
_WORK_OF_ANY_TYPE = {"memory", "control"}


@dataclass(frozen=True, slots=True)
class WorkKind:
    """The class of an instruction and how many operations one thread does in it."""

    name: str
    """name of the kind: fp32, fp64, fp16, special, integer, control, memory or move"""
    operations: int


def classify(ins: Instruction) -> WorkKind:
    """Return the class of an instruction.

    A fused multiply-add of floats is two operations, of integers one: an integer lane takes one per clock.
    Comparison, minimum, sign and conversion of floats are moves, as Nsight Compute's FLOP counts leave them out;
    division and square root count as one special function each.
    """
    opcode, float_class = ins.opcode, _FLOAT_CLASS.get(ins.type)
    if float_class is None or opcode.work in _WORK_OF_ANY_TYPE:
        return WorkKind("move" if ins.type == "pred" and opcode.work == "integer" else opcode.work, 1)
    if opcode.flops:
        return WorkKind(float_class, opcode.flops * (2 if ins.type.endswith("x2") else 1))
    return WorkKind("special" if opcode.is_special else "move", 1)


def kind_name(ins: Instruction) -> str:
    """Return the opcode with its type, or with its state space for memory: fma.f32, ld.global, bar.sync."""
    if ins.opcode.access is not None:
        return f"{ins.opcode.name}.{ins.space}"
    if ins.opcode.has(Trait.MODE):
        return ".".join((ins.root, *ins.modifiers[:2]))
    if is_by_quads(ins.modifiers, ins.types):  # which tensor cores have from Volta to Turing only
        return f"{BY_QUADS}.{ins.type}"
    return f"{ins.opcode.name}.{ins.type}" if ins.type else ins.opcode.name
