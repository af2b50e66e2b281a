"""The registers and operands of one basic block while its code is written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kerncast.errors import UnsupportedError
from kerncast.execute.native.ir import (
    BLOCK,
    WARP,
    WORKER,
    Emitter,
    Value,
    bits,
    each_lane,
    get,
    integer,
    offset_of,
    vector,
)
from kerncast.execute.native.jit import TooLargeError
from kerncast.execute.setup.cluster_addresses import RANK_SHIFT
from kerncast.execute.setup.layout import Program, immediate
from kerncast.ptx import (
    TYPE_BITS,
    ControlFlowGraph,
    Function,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    kept_by,
    results_of,
    sources_of,
)

# Which virtual registers live from one basic block to the next, and where they lie in the frame of a warp.
#
# Registers that live inside one block only stay in registers of the CPU.
# Source of the liveness equations: Aho, Lam, Sethi, Ullman, "Compilers", 2nd ed., section 9.2.5.


_LINE_BYTES = 64
_WORK_LIMIT = 4 * 10**9  # bits looked at, which takes about a second


@dataclass(frozen=True, slots=True)
class RegisterPlan:
    """The places of registers that live across blocks."""

    slots: Mapping[str, int]
    """offset of each register in the frame of a warp, in bytes"""
    live_out: tuple[frozenset[str], ...]
    """registers of each basic block that it sets and that a later block may read"""
    start_bytes: int
    """bytes of a frame that are set when a block of threads begins: its head and registers that may be read first"""
    frame_bytes: int


def plan_registers(function: Function, cfg: ControlFlowGraph) -> RegisterPlan:
    """Return where the registers of a function lie."""
    uses, defines = _uses_and_definitions(function, cfg)
    bit_of = {name: 1 << n for n, name in enumerate(sorted(set().union(*uses)))}
    live_out = _live_out(cfg, [_as_bits(u, bit_of) for u in uses], [_as_bits(d, bit_of) for d in defines])
    types = {r.name: r.type for i in function.instructions for r in (*results_of(i), *sources_of(i))}
    across = set(bit_of)
    at_start = live_out[0] if live_out else 0
    first = {n for n, bit in bit_of.items() if (at_start & bit and n not in defines[0]) or n in uses[0]}
    slots: dict[str, int] = {}
    position = start_bytes = -(-WARP.itemsize // _LINE_BYTES) * _LINE_BYTES
    for name in [*sorted(first), *sorted(across - first)]:
        slots[name] = position
        position += max(_LINE_BYTES, 4 * TYPE_BITS[types[name]])
        start_bytes = position if name in first else start_bytes
    later = (frozenset(n for n in d if bit_of.get(n, 0) & out) for d, out in zip(defines, live_out, strict=True))
    return RegisterPlan(slots, tuple(later), start_bytes, position)


def _as_bits(names: set[str], bit_of: Mapping[str, int]) -> int:
    bits = 0
    for name in names:
        bits |= bit_of.get(name, 0)
    return bits


def _live_out(cfg: ControlFlowGraph, uses: list[int], defines: list[int]) -> list[int]:
    """Return which registers a later block may read, per block, as bits: sets would take gigabytes in a giant one."""
    work = 0
    live_out = [0] * len(uses)
    live_in = [*uses, 0]  # nothing is read behind the exit
    backwards = sorted(range(len(uses)), key=cfg.order.place_of.__getitem__, reverse=True)
    changed = True
    while changed:
        changed = False
        work += sum(bits.bit_length() for bits in live_in) + len(uses)
        if work > _WORK_LIMIT:
            raise TooLargeError
        for number in backwards:
            out = 0
            for successor in cfg.blocks[number].successors:
                out |= live_in[successor]
            live_out[number] = out
            found = uses[number] | out & ~defines[number]
            changed |= found != live_in[number]
            live_in[number] = found
    return live_out


def _uses_and_definitions(function: Function, cfg: ControlFlowGraph) -> tuple[list[set[str]], list[set[str]]]:
    """Return per block the registers that are read before they are written there, and those that are written."""
    all_uses, all_defines = [], []
    for block in cfg.blocks:
        uses: set[str] = set()
        defines: set[str] = set()
        for ins in function.instructions[block.start : block.stop]:
            read = {r.name for r in sources_of(ins)}
            written = {r.name for r in results_of(ins)}
            uses |= (read | {r.name for r in kept_by(ins)}) - defines
            defines |= written
        all_uses.append(uses)
        all_defines.append(defines)
    return all_uses, all_defines


_FLOAT = {"f32": "float", "f64": "double"}
LINE = 64
WIDEST_NUMBER = 64
I1, I8, I16, I32, I64 = (vector(f"i{n}") for n in (1, 8, 16, 32, 64))


@dataclass(frozen=True, slots=True)
class Pointers:
    """Arguments of the generated function."""

    worker: Value
    warp: Value
    counters: Value


ARGUMENTS = Pointers(Value("%worker", "ptr"), Value("%warp", "ptr"), Value("%counters", "ptr"))


@dataclass
class BlockCode:
    """One basic block in the making: the current value of each register, and which lanes run."""

    emit: Emitter
    program: Program
    plan: RegisterPlan
    symbols: dict[str, int]
    """number of each module variable in the table of addresses"""
    active: Value
    """lanes that run this block, as bits"""
    pointers: Pointers = ARGUMENTS
    executing: Value = field(init=False)
    """lanes that execute the instruction: those that run the block, and whose guard holds"""
    guarded: bool = False
    lanes: Value = field(init=False)
    """``executing`` as a vector"""
    _values: dict[str, Value] = field(default_factory=dict)
    _written: dict[str, str] = field(default_factory=dict)
    """registers that this block wrote, with their types"""

    def __post_init__(self) -> None:
        self._active_lanes = self.emit.mask_lanes(self.active)
        self.executing, self.lanes = self.active, self._active_lanes

    def guard(self, ins: Instruction) -> None:
        """Let the instruction that follows run in the lanes whose guard holds."""
        if ins.condition is None:
            self.guarded, self.executing, self.lanes = False, self.active, self._active_lanes
            return
        self.guarded = True
        self.lanes = self.emit.and_(self.source(ins.condition, "pred"), self._active_lanes)
        self.executing = self.emit.mask_bits(self.lanes)

    # Operands

    def source(self, operand: Operand, type_name: str) -> Value:
        """Return an operand read as a PTX type: integers and halves as integers, floats as floats."""
        match operand:
            case Register():
                return self.typed(self.read(operand), type_name)
            case Negated(register):
                return self.typed(self.emit.not_(self.typed(self.read(register), "pred")), type_name)
            case Immediate(value, kind):
                return self._immediate(value, kind, type_name)
            case Special(name):
                return self.typed(self._special(name), type_name)
            case Symbol(name, offset):
                return self.typed(self.emit.add(self._address_of(name), offset), type_name)
        raise UnsupportedError(f"operand {operand} cannot be read as a value")

    def read(self, register: Register) -> Value:
        """Return the bits of a register."""
        value = self._values.get(register.name)
        if value is None:
            value = self._values[register.name] = self._load(register)
        return value

    def typed(self, value: Value, type_name: str) -> Value:
        """Read integer bits as a type: a narrower one takes the low bits, a wider one is filled with zeros."""
        if type_name == "pred":
            return value if bits(value.type) == 1 else self.emit.compare("ne", value, 0)
        value = self.emit.resize(value, f"i{TYPE_BITS[type_name]}")
        return self.emit.cast("bitcast", value, vector(_FLOAT[type_name])) if type_name in _FLOAT else value

    def write(self, operand: Operand, value: Value, *, signed: bool = False) -> None:
        """Set a register in the lanes that execute; a signed value fills a wider register with its sign."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register):
            raise UnsupportedError(f"operand {operand} cannot be written")
        value = self._as_register(value, operand, signed=signed)
        if self.guarded:
            value = self.emit.select(self.lanes, value, self.read(operand))
        self._values[operand.name] = value
        self._written[operand.name] = operand.type

    def flush(self, number: int) -> None:
        """Store what later blocks may read; ends the block."""
        for name in self._written:
            if name in self.plan.live_out[number]:
                self._store(name, self._values[name])

    def lane_numbers(self) -> Value:
        """Return 0 to 31."""
        return each_lane(I32, range(32))

    # Inside

    def _slot(self, name: str) -> Value:
        return self.emit.at(self.pointers.warp, self.plan.slots[name])

    def _load(self, register: Register) -> Value:
        if register.name not in self.plan.slots:
            # Only code that no thread reaches reads a register that nothing has written.
            return integer(vector(_storage(register.type)), 0)
        slot = self._slot(register.name)
        if register.type == "pred":
            return self.emit.mask_lanes(self.emit.load(slot, "i32"))
        return self.emit.load(slot, vector(_storage(register.type)), LINE)

    def _store(self, name: str, value: Value) -> None:
        emit, slot = self.emit, self._slot(name)
        if bits(value.type) == 1:
            new = emit.and_(emit.mask_bits(value), self.active)
            old = emit.and_(emit.load(slot, "i32"), emit.not_(self.active))
            emit.store(emit.or_(new, old), slot)
            return
        old = emit.load(slot, value.type, LINE)
        emit.store(emit.select(self._active_lanes, value, old), slot, LINE)

    def _as_register(self, value: Value, register: Register, *, signed: bool) -> Value:
        if bits(value.type) == 1:
            return self.emit.resize(value, _storage(register.type))
        raw = self.emit.cast("bitcast", value, vector(f"i{bits(value.type)}"))
        if register.type == "pred":
            return self.emit.compare("ne", raw, 0)
        return self.emit.resize(raw, _storage(register.type), signed=signed)

    def _immediate(self, value: int, kind: str, type_name: str) -> Value:
        if TYPE_BITS[type_name] > WIDEST_NUMBER:
            return integer(vector(f"i{TYPE_BITS[type_name]}"), value)
        constant = immediate(value, kind, type_name)
        if type_name == "pred":
            return integer(I1, int(constant[0]))
        pattern = int.from_bytes(constant.tobytes(), "little")
        raw = integer(vector(f"i{TYPE_BITS[type_name]}"), pattern)
        return self.emit.cast("bitcast", raw, vector(_FLOAT[type_name])) if type_name in _FLOAT else raw

    def _address_of(self, name: str) -> Value:
        """Return the address of a variable, in its own state space."""
        if name not in self.symbols:
            address = integer(I64, self.program.address_of(name))
            return self.emit.add(self.own_window(), address) if name in self.program.shared else address
        table = get(self.emit, self.pointers.worker, WORKER, "symbols")
        return self.emit.splat(self.emit.load(self.emit.at(table, 8 * self.symbols[name]), "i64"))

    def own_window(self) -> Value:
        """Return where the block's own shared memory begins among that of its cluster."""
        if not self.program.sees_cluster:
            return integer(I64, 0)
        rank = self.emit.cast("zext", self._rank(), "i64")
        return self.emit.splat(self.emit.shl(rank, RANK_SHIFT))

    def _rank(self) -> Value:
        return get(self.emit, get(self.emit, self.pointers.warp, WARP, "block"), BLOCK, "rank")

    def _special(self, name: str) -> Value:
        root, _, axis = name.removeprefix("%").partition(".")
        if axis:
            return self._index(root, 4 * "xyz".find(axis))
        if root == "laneid":
            return self.lane_numbers()
        if root.startswith("lanemask"):
            return each_lane(I32, [_lane_mask(root, lane) for lane in range(32)])
        return self._clock(root) if root.startswith(("clock", "globaltimer")) else self._count(root)

    def _index(self, root: str, at: int) -> Value:
        """Return an index or an extent; ``at`` is 0, 4 or 8 for x, y or z."""
        emit, warp = self.emit, self.pointers.warp
        if root == "tid":
            return emit.load(emit.at(warp, offset_of(WARP, "tid") + 32 * at), I32, LINE)
        extents = {"ntid": "block", "nctaid": "grid", "cluster_nctaid": "cluster"}
        if root in extents:
            return emit.splat(self._extent(extents[root], at))
        if root == "nclusterid":
            return emit.splat(emit.binary("udiv", self._extent("grid", at), self._extent("cluster", at)))
        index = emit.load(emit.at(get(emit, warp, WARP, "block"), at), "i32")
        if root == "ctaid":
            return emit.splat(index)
        operation = "udiv" if root == "clusterid" else "urem"
        return emit.splat(emit.binary(operation, index, self._extent("cluster", at)))

    def place_in_grid(self) -> tuple[Value, Value]:
        """Return the number of the block in the grid, x first, and how many blocks the grid has, as i64."""
        emit, number, count = self.emit, integer("i64", 0), integer("i64", 1)
        block = get(emit, self.pointers.warp, WARP, "block")
        for at in (0, 4, 8):
            index = emit.cast("zext", emit.load(emit.at(block, at), "i32"), "i64")
            number = emit.add(emit.mul(index, count), number)
            count = emit.mul(count, emit.cast("zext", self._extent("grid", at), "i64"))
        return number, count

    def _extent(self, name: str, at: int) -> Value:
        return self.emit.load(self.emit.at(self.pointers.worker, offset_of(WORKER, name) + at), "i32")

    def _count(self, root: str) -> Value:
        emit = self.emit
        if root == "warpid":
            return emit.splat(get(emit, self.pointers.warp, WARP, "number"))
        if root == "cluster_ctarank":
            return emit.splat(self._rank())
        fields = {"cluster_nctarank": "cluster_blocks", "is_explicit_cluster": "explicit_cluster", "nwarpid": "warps",
                  "dynamic_smem_size": "dynamic_bytes", "total_smem_size": "shared_bytes"}  # fmt: skip
        if root in fields:
            return emit.splat(get(emit, self.pointers.worker, WORKER, fields[root]))
        return integer(I32, {"smid": 0, "nsmid": 1, "gridid": 1}[root])

    def _clock(self, root: str) -> Value:
        """Return a clock that grows, so that a kernel which waits for it goes on."""
        emit = self.emit
        place = emit.at(self.pointers.worker, offset_of(WORKER, "clock"))
        now = emit.add(emit.load(place, "i64"), 16)
        emit.store(now, place)
        return emit.splat(emit.lshr(now, 32) if root.endswith("_hi") else now)


def _storage(ptx_type: str) -> str:
    return "i1" if ptx_type == "pred" else f"i{TYPE_BITS[ptx_type]}"


def _lane_mask(root: str, lane: int) -> int:
    at = 1 << lane
    masks = {"lanemask_eq": at, "lanemask_lt": at - 1, "lanemask_le": 2 * at - 1, "lanemask_gt": ~(2 * at - 1),
             "lanemask_ge": ~(at - 1)}  # fmt: skip
    return masks[root] & 0xFFFFFFFF


# What every lowering of an arithmetic instruction shares: its operands, and the table of opcodes.
#
# Each function writes the LLVM IR of one opcode for a whole warp and returns the result; semantics are those of the
# reference engine, instruction by instruction.


FLOATS = frozenset({"f32", "f64"})
HALVES = frozenset({"f16", "bf16", "f16x2", "bf16x2"})
F32, F64 = vector("float"), vector("double")


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction with its operands at hand."""

    ins: Instruction
    block: BlockCode
    first: int = 1
    """position of the first source among the operands"""

    @property
    def emit(self) -> Emitter:
        """The emitter of the block's code."""
        return self.block.emit

    @property
    def type(self) -> str:
        """The PTX type of the operation."""
        return self.ins.type

    @property
    def width(self) -> int:
        """Bits of the type."""
        return TYPE_BITS[self.ins.type]

    @property
    def is_signed(self) -> bool:
        """Whether the type is a signed integer."""
        return self.ins.type.startswith("s")

    def has(self, modifier: str) -> bool:
        """Whether the opcode carries a modifier."""
        return modifier in self.ins.modifiers

    def source(self, position: int, type_name: str | None = None) -> Value:
        """Return a source operand; its type is the instruction's unless another is named."""
        return self.block.source(self.ins.operands[self.first + position], type_name or self.ins.type)

    def constant(self, like: Value, number: int) -> Value:
        """Return an integer constant of the type of a value."""
        return integer(like.type, number)


Lowering = Callable[[Operation], Value]
LOWERINGS: dict[str, Lowering] = {}


def lowers(*roots: str) -> Callable[[Lowering], Lowering]:
    """Register the function that writes these opcodes."""

    def register(function: Lowering) -> Lowering:
        for root in roots:
            LOWERINGS[root] = function
        return function

    return register
