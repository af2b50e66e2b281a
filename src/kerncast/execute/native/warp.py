"""Writes the function that runs one warp until it ends, waits at a barrier, or has used up its loop iterations.

Control follows the places of ``kerncast.ptx.cfg``: the lanes at the first place run, and the others wait there for
them. As long as the lanes that run stay before all others, a jump is a jump; else the places of all lanes are looked
through again. All state is in the frame of the warp whenever the function returns.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from kerncast import traces
from kerncast.errors import UnsupportedError
from kerncast.execute.native.arithmetic import crosslane, group_products, tensor_products
from kerncast.execute.native.arithmetic.conversion import set_predicate
from kerncast.execute.native.arithmetic.integers import uses_carry, with_carry
from kerncast.execute.native.block import I32, LOWERINGS, BlockCode, Operation, RegisterPlan
from kerncast.execute.native.cluster_barrier import CLUSTER_BARRIER, arrive_in_cluster, take_turn
from kerncast.execute.native.ir import (
    BLOCK,
    FAULTS,
    LANES,
    WARP,
    WORKER,
    Emitter,
    Unit,
    Value,
    field,
    get,
    integer,
    offset_of,
    put,
)
from kerncast.execute.native.jit import TooLargeError
from kerncast.execute.native.memory import mbarriers, tensor_copies, tensor_memory, textures, transfer
from kerncast.execute.native.memory.access import COUNTERS, Fault, note_fault
from kerncast.execute.native.memory.banks import record_change, record_detail
from kerncast.execute.native.memory.transfer import GENERIC_COUNTERS
from kerncast.execute.native.scheduler import GROUP_BARRIER
from kerncast.execute.setup.dataflow import waiting_blocks
from kerncast.execute.setup.layout import Program
from kerncast.execute.setup.state import Console, is_switched
from kerncast.ptx import (
    ControlFlowGraph,
    Flow,
    Function,
    Immediate,
    Instruction,
    Trait,
    access_and_tell,
    result_count,
    waiting_loops,
)
from kerncast.traces import operation_of

_GENERIC_BYTES = 8 * sum(len(names) for names in COUNTERS.values())


@dataclass(frozen=True, slots=True)
class CounterPlan:
    """Offsets in a row of counters, in bytes."""

    guarded: dict[int, int]
    """offset of the thread counter of each guarded instruction"""
    memory: dict[int, int]
    """offset of the first counter of each memory instruction"""
    divergent: int
    longest: int
    """offset of the counter of the instructions of the busiest warp"""
    bytes: int

    @staticmethod
    def of_block(number: int) -> int:
        """Return the offset of a basic block's counters: of warps, then of threads."""
        return 16 * number

    def columns(self, ins: Instruction, number: int, name: str) -> list[int]:
        """Return where in the row a memory instruction has a counter; more than one where it counts by space."""
        start = self.memory[number] // 8
        has_all = _counts_every_space(ins)
        spaces = COUNTERS if has_all else {ins.space: COUNTERS.get(ins.space, ())}
        offsets = GENERIC_COUNTERS if has_all else {ins.space: 0}
        return [start + offsets[space] // 8 + names.index(name) for space, names in spaces.items() if name in names]


def plan_counters(function: Function, cfg: ControlFlowGraph) -> CounterPlan:
    """Return where the counters of a function lie."""
    position = 16 * len(cfg.blocks)
    guarded, memory = {}, {}
    for number, ins in enumerate(function.instructions):
        if is_switched(ins):
            guarded[number] = position
            position += 8
        if ins.opcode.access is not None:
            memory[number] = position
            position += _GENERIC_BYTES if _counts_every_space(ins) else 8 * len(COUNTERS.get(ins.space, ()))
    return CounterPlan(guarded, memory, position, position + 8, position + 16)


def _counts_every_space(ins: Instruction) -> bool:
    """Return whether a memory instruction may access several state spaces, each of which is counted by itself."""
    return ins.space == "generic" or ins.is_copy


#: What generated code calls: with a warp, the lanes that print as bits, and the number of the instruction.
Printer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)


def call_printer(code: BlockCode, position: int) -> None:
    """Write a call of vprintf."""
    emit, pointers = code.emit, code.pointers
    with emit.when(emit.compare("ne", code.executing, 0)):
        printer = get(emit, pointers.worker, WORKER, "printer")
        arguments = (pointers.warp, code.executing, integer("i32", position))
        emit.do(f"call void {printer.text}({', '.join(a.typed for a in arguments)})")


def printer_of(program: Program, console: Console) -> Any:
    """Return the function that generated code calls; it has to be kept as long as that may run."""

    def print_lanes(warp: int, lanes: int, position: int) -> None:
        start = ctypes.c_uint64.from_address(warp + offset_of(WARP, "private")).value
        call, size = program.function.instructions[position], program.private_bytes
        for lane in range(LANES):
            if lanes >> lane & 1:
                memory = (ctypes.c_uint8 * size).from_address(start + lane * size)
                console.print(call, np.ctypeslib.as_array(memory))

    return Printer(print_lanes)


def prints(program: Program) -> bool:
    """Return whether a kernel can print."""
    return any("vprintf" in instruction.modifiers for instruction in program.function.instructions)


_ACCESSES = transfer.ACCESSES | textures.ACCESSES | tensor_copies.ACCESSES
_BEHIND = 0x7FFFFFFF
#: What ends the kernel, or calls a function of the driver: printf, or that for assertions that fail.
_STOPS = frozenset({Flow.TRAP, Flow.BREAKPOINT, Flow.CALL})
_WORKER, _WARP, _COUNTERS = Value("%worker", "ptr"), Value("%warp", "ptr"), Value("%counters", "ptr")
_REDUCES = {"popc": 1, "and": 2, "or": 3}
_MOVES = {
    "mov": crosslane.move, "cvta": crosslane.convert_address, "isspacep": crosslane.is_space, "setp": set_predicate,
    "mapa": crosslane.map_to_rank, "getctarank": crosslane.rank_of_address,
    "clusterlaunchcontrol.query_cancel": mbarriers.read_answer,
}  # fmt: skip
_ANYWHERE = integer("i32", 0)
_GROUP_WARPS = 4
#: Characters of LLVM text of a kernel: 10 million take 5 s to compile and 0.4 GB of memory, 6 million 2 s and 0.3 GB.
_TEXT_LIMIT = 12_000_000
_PIECE_SIZE = 12_000


@dataclass(frozen=True, slots=True)
class Plans:
    """Decisions about a program, made before code is written."""

    program: Program
    registers: RegisterPlan
    counters: CounterPlan
    symbols: dict[str, int]
    counts_memory: bool


def asks(program: Program) -> bool:
    """Return whether some instruction of a program asks for the end of a phase of an mbarrier."""
    return any(ins.opcode.has(Trait.WAIT) for ins in program.function.instructions)


def meets(program: Program) -> bool:
    """Return whether warps of a program wait for the others of their groups of four."""
    return any(ins.opcode.has(Trait.MEET) for ins in program.function.instructions)


def write_warp(unit: Unit, plans: Plans) -> None:
    """Add the function ``run_warp`` to a module."""
    WarpWriter(unit, plans).write()


class WarpWriter:
    """Writes one function."""

    def __init__(self, unit: Unit, plans: Plans) -> None:
        self.plans = plans
        self.program = plans.program
        self.order = plans.program.cfg.order
        self.waiting = waiting_blocks(plans.program.function, plans.program.cfg)
        self.emit = Emitter(unit, "run_warp", "void", [_WORKER, _WARP, _COUNTERS])
        self.active = self.emit.allocate("i32")
        """lanes that run, while control goes from block to block"""
        self._size_before = 0
        self._asks = asks(plans.program)
        self._waiting = waiting_loops(plans.program.function, plans.program.cfg) if self._asks else {}

    def write(self) -> None:
        """Write everything."""
        self.emit.go("dispatch")
        self._dispatch()
        for place, is_turn in enumerate(self.order.is_turn):
            if is_turn:
                self._turn(place)
        for number in range(len(self.program.cfg.blocks)):
            self._block(number)
        self.emit.finish()

    # Which lanes run next

    def _dispatch(self) -> None:
        emit = self.emit
        emit.label("dispatch")
        live, parked = get(emit, _WARP, WARP, "live"), get(emit, _WARP, WARP, "parked")
        ready = emit.and_(live, emit.not_(parked))
        emit.branch(emit.compare("eq", ready, 0), "idle", "choose")
        self._idle()
        emit.label("choose")
        ready = self._without_deferred(ready)
        places = emit.load(_WARP, I32, 64)
        places = emit.select(emit.mask_lanes(ready), places, _BEHIND)
        first = emit.call("llvm.vector.reduce.smin.v32i32", "i32", places)
        here = emit.compare("eq", places, emit.splat(first))
        rest = emit.select(here, integer(I32, _BEHIND), places)
        put(emit, emit.call("llvm.vector.reduce.smin.v32i32", "i32", rest), _WARP, WARP, "next")
        emit.store(emit.mask_bits(here), self.active)
        targets = " ".join(f"i32 {place}, label %{self._label(place)}" for place in range(self.order.end))
        emit.do(f"switch {first.typed}, label %leave [{targets}]")
        emit.label("leave")
        emit.give()

    def _without_deferred(self, ready: Value) -> Value:
        """Return the lanes that may run: those that let others go first only where there are no others."""
        if not self._asks:
            return ready
        emit = self.emit
        deferred = get(emit, _WARP, WARP, "deferred")
        others = emit.and_(ready, emit.not_(deferred))
        nobody = emit.compare("eq", others, 0)
        put(emit, emit.select(nobody, integer("i32", 0), deferred), _WARP, WARP, "deferred")
        return emit.select(nobody, ready, others)

    def _idle(self) -> None:
        """Let parked lanes go on, if all that they wait for are parked too or gone."""
        emit = self.emit
        emit.label("idle")
        self._release_parked()
        live, parked = get(emit, _WARP, WARP, "live"), get(emit, _WARP, WARP, "parked")
        freed = emit.and_(live, emit.not_(parked))
        emit.branch(emit.compare("eq", freed, 0), "leave", "dispatch")

    def _release_parked(self) -> None:
        emit = self.emit
        live, parked = get(emit, _WARP, WARP, "live"), get(emit, _WARP, WARP, "parked")
        missing = emit.splat(emit.and_(live, emit.not_(parked)))
        waits_for = emit.load(field(emit, _WARP, WARP, "waits_for"), I32, 64)
        free = emit.mask_bits(emit.compare("eq", emit.and_(waits_for, missing), 0))
        put(emit, emit.and_(parked, emit.not_(free)), _WARP, WARP, "parked")

    def _label(self, place: int) -> str:
        return f"turn{place}" if self.order.is_turn[place] else f"block{self.order.block_at[place]}"

    def _turn(self, place: int) -> None:
        """Write the way around a loop, where a warp stops when it has used up its iterations."""
        emit = self.emit
        emit.label(f"turn{place}")
        fuel = field(emit, _WARP, WARP, "fuel")
        left = emit.sub(emit.load(fuel, "i32"), 1)
        emit.store(left, fuel)
        out = emit.fresh("out")
        leaves = get(emit, _WORKER, WORKER, "stop")
        if self._asks:
            leaves = emit.or_(leaves, get(emit, _WARP, WARP, "spun"))
        if place in self._waiting:
            self._take_back(self._waiting[place])
        goes_on = emit.compare("eq", leaves, 0)
        if self.order.block_at[place] in self.waiting:  # nothing comes of it before others have had their turn
            is_new = emit.compare("sge", left, emit.sub(get(emit, _WORKER, WORKER, "quantum"), 1))
            goes_on = emit.and_(goes_on, is_new)
        emit.branch(emit.and_(emit.compare("sgt", left, 0), goes_on), f"block{self.order.block_at[place]}", out)
        emit.label(out)
        # What was taken back must not be so once more when the warp goes on.
        again = self.order.place_of[self.order.block_at[place]] if place in self._waiting else place
        self._stand(emit.load(self.active, "i32"), integer(I32, again))
        emit.give()

    def _take_back(self, blocks: tuple[int, ...]) -> None:
        """Write that a turn of a loop which only asks in vain is not counted: nobody knows how many a GPU takes."""
        emit = self.emit
        active, length = emit.load(self.active, "i32"), integer("i64", 0)
        for position, block in enumerate(blocks):
            lanes = emit.and_(emit.load(self._walked(position), "i32"), active)
            warps = emit.cast("zext", emit.compare("ne", lanes, 0), "i64")
            counter = emit.at(_COUNTERS, CounterPlan.of_block(block))
            for offset, amount in ((0, warps), (8, emit.count_lanes(lanes))):
                emit.increase(emit.at(counter, offset), emit.sub(integer("i64", 0), amount))
            length = emit.add(length, emit.mul(warps, self.program.cfg.lengths[block]))
        issued, mark = get(emit, _WARP, WARP, "issued"), get(emit, _WARP, WARP, "mark")
        put(emit, emit.sub(issued, length), _WARP, WARP, "issued")
        # Where nothing else of the warp ran since the loop was entered, the last events are those of the turn.
        is_whole = emit.compare("eq", emit.sub(issued, mark), length)
        count, most = (get(emit, _WORKER, WORKER, f"event_{name}") for name in ("count", "limit"))
        with emit.when(emit.binary("and", is_whole, emit.compare("ult", count, most))):
            put(emit, get(emit, _WARP, WARP, "mark_events"), _WORKER, WORKER, "event_count")

    def _walked(self, position: int) -> Value:
        return self.emit.at(_WARP, offset_of(WARP, "walked") + 4 * position)

    def _walk(self, number: int, active: Value) -> None:
        """Write down which lanes run a block of a loop that only asks; at its head a turn begins."""
        emit = self.emit
        for blocks in self._waiting.values():
            if number == blocks[0]:
                put(emit, get(emit, _WARP, WARP, "issued"), _WARP, WARP, "mark")
                put(emit, get(emit, _WORKER, WORKER, "event_count"), _WARP, WARP, "mark_events")
                for place in map(self._walked, range(len(blocks))):
                    emit.store(emit.and_(emit.load(place, "i32"), emit.not_(active)), place)
            if number in blocks:
                place = self._walked(blocks.index(number))
                emit.store(emit.or_(emit.load(place, "i32"), active), place)

    def _stand(self, mask: Value, places: Value) -> None:
        """Note where lanes stand that stop running for now."""
        emit = self.emit
        old = emit.load(_WARP, I32, 64)
        emit.store(emit.select(emit.mask_lanes(mask), places, old), _WARP, 64)

    def _go(self, place: int, mask: Value) -> None:
        """Send the running lanes to a place: directly, if no others stand before it or there."""
        emit = self.emit
        if place == self.order.end:
            self._leave_kernel(mask)
            return
        direct, later = emit.fresh("direct"), emit.fresh("later")
        is_first = emit.compare("sgt", get(emit, _WARP, WARP, "next"), place)
        emit.branch(is_first, direct, later)
        emit.label(later)
        self._stand(mask, integer(I32, place))
        emit.go("dispatch")
        emit.label(direct)
        emit.store(mask, self.active)
        emit.go(self._label(place))

    def _leave_kernel(self, mask: Value) -> None:
        emit = self.emit
        put(emit, emit.and_(get(emit, _WARP, WARP, "live"), emit.not_(mask)), _WARP, WARP, "live")
        emit.go("dispatch")

    # Basic blocks

    def _block(self, number: int) -> None:
        emit, cfg = self.emit, self.program.cfg
        emit.label(f"block{number}")
        active = emit.load(self.active, "i32")
        code = BlockCode(emit, self.program, self.plans.registers, self.plans.symbols, active)
        counter = emit.at(_COUNTERS, CounterPlan.of_block(number))
        emit.increase(counter, integer("i64", 1))
        emit.increase(emit.at(counter, 8), emit.count_lanes(active))
        block = cfg.blocks[number]
        self._walk(number, active)
        emit.increase(field(emit, _WARP, WARP, "issued"), integer("i64", block.stop - block.start))
        if self.plans.counts_memory:
            record_detail(emit, traces.Operation.BASIC_BLOCK, integer("i32", number), active)
        for position in range(block.start, block.stop):
            self._instruction(code, position)
            self._cut()
        self._end(code, number)

    def _cut(self) -> None:
        """Begin another block of LLVM after so much text, as its time grows with the square of a block's length."""
        emit = self.emit
        if emit.size > _TEXT_LIMIT:
            raise TooLargeError
        if emit.size - self._size_before > _PIECE_SIZE:
            following = emit.fresh("piece")
            emit.go(following)
            emit.label(following)
            self._size_before = emit.size

    def _instruction(self, code: BlockCode, position: int) -> None:
        ins = self.program.function.instructions[position]
        if ins.is_jump or (ins.opcode.has(Trait.INERT) and ins.guard is None):
            return
        code.guard(ins)
        if position in self.plans.counters.guarded:
            counter = self.emit.at(_COUNTERS, self.plans.counters.guarded[position])
            self.emit.increase(counter, self.emit.count_lanes(code.executing))
        operation = Operation(ins, code, result_count(ins))
        if ins.opcode.has(Trait.TENSOR_MEMORY):
            self._use_tensor_memory(operation, position)
        elif ins.opcode.access is not None:
            self._access(operation, position)
        elif ins.opcode.has(Trait.CROSS_LANE):
            crosslane.remark_absent(operation, position)
            if ins.opcode.has(Trait.DESCRIBED):
                group_products.multiply(operation, position)
            else:
                crosslane.CROSS_LANE[ins.opcode.name](operation)
        elif ins.opcode.name == "barrier.cluster.arrive":
            arrive_in_cluster(code, position)
        elif ins.opcode.has(Trait.PHASE):
            mbarriers.run(operation, position)
        elif ins.opcode.flow in _STOPS:
            self._trap(code, ins, position)
        elif not (ins.is_barrier or ins.opcode.has(Trait.INERT)):
            self._arithmetic(operation)

    def _access(self, operation: Operation, position: int) -> None:
        ins = operation.ins
        counters = self.emit.at(_COUNTERS, self.plans.counters.memory[position])
        what = operation_of(ins, self.program.read) if self.plans.counts_memory else None
        if not ins.opcode.has(Trait.PHASE):
            _ACCESSES[ins.opcode.name](operation, position, counters, what)
            return
        access, tell = (Operation(each, operation.block, 0) for each in access_and_tell(ins))  # done at once
        _ACCESSES[access.ins.opcode.name](access, position, counters, what)
        mbarriers.run(tell, position)

    def _use_tensor_memory(self, operation: Operation, position: int) -> None:
        ins = operation.ins
        if ins.opcode.access is not None:  # what allocates stores an address
            counters = self.emit.at(_COUNTERS, self.plans.counters.memory[position])
            what = operation_of(ins, self.program.read) if self.plans.counts_memory else None
            tensor_memory.allocate(operation, position, counters, what)
        elif ins.opcode.has(Trait.DESCRIBED) and not ins.operands[2:]:
            tensor_memory.copy(operation, position)
        elif ins.opcode.has(Trait.DESCRIBED):
            tensor_products.multiply(operation, position)
        else:
            tensor_memory.run(operation, position)

    def _arithmetic(self, operation: Operation) -> None:
        ins = operation.ins
        if uses_carry(operation):
            with_carry(operation)
        elif ins.opcode.name in _MOVES:
            _MOVES[ins.opcode.name](operation)
        elif ins.opcode.name in LOWERINGS:
            value = LOWERINGS[ins.opcode.name](operation)
            signed = bool(ins.types) and ins.types[0].startswith("s")
            operation.block.write(ins.operands[0], value, signed=signed)
        else:
            raise UnsupportedError(f"PTX instruction {ins.name} is not supported", where=ins.where)

    def _trap(self, code: BlockCode, ins: Instruction, position: int) -> None:
        if "vprintf" in ins.modifiers:
            call_printer(code, position)
            return
        emit = self.emit
        trap, on = emit.fresh("trap"), emit.fresh("on")
        emit.branch(emit.compare("eq", code.executing, 0), on, trap)
        emit.label(trap)
        self._fault("assertion" if ins.root == "call" else "trap", position, emit.first_lane(code.executing))
        emit.give()
        emit.label(on)

    def _fault(self, name: str, position: int, lane: Value) -> None:
        note_fault(self.emit, (_WORKER, _WARP), Fault(integer("i32", FAULTS[name]), integer("i32", position), lane))

    # Ends of blocks

    def _end(self, code: BlockCode, number: int) -> None:
        block = self.program.cfg.blocks[number]
        last = self.program.function.instructions[block.stop - 1]
        targets = self.order.targets[number]
        if last.root == "brx":
            self._branch_table(code, number, block.stop - 1)
            return
        if last.is_cluster_barrier:
            self._wait_for_cluster(code, number, block.stop - 1)
            return
        if last.is_barrier:
            self._barrier(code, number, block.stop - 1)
            return
        if last.opcode.has(Trait.MEET):
            self._meet_group(code, number, block.stop - 1)
            return
        if len(set(targets)) == 1:  # also a branch to what follows it, which parts no lanes
            code.flush(number)
            self._go(targets[0], code.active)
            return
        assert last.condition is not None
        emit = self.emit
        taken = emit.and_(emit.mask_bits(code.source(last.condition, "pred")), code.active)
        code.flush(number)
        self._branch(taken, code.active, targets)

    def _branch(self, taken: Value, active: Value, targets: tuple[int, ...]) -> None:
        """Write a branch: all lanes one way, or both ways."""
        emit = self.emit
        yes, maybe, no, split = (emit.fresh(name) for name in ("yes", "maybe", "no", "split"))
        emit.branch(emit.compare("eq", taken, active), yes, maybe)
        emit.label(maybe)
        emit.branch(emit.compare("eq", taken, 0), no, split)
        emit.label(yes)
        self._go(targets[0], active)
        emit.label(no)
        self._go(targets[1], active)
        emit.label(split)
        emit.increase(emit.at(_COUNTERS, self.plans.counters.divergent), integer("i64", 1))
        places = emit.select(emit.mask_lanes(taken), integer(I32, targets[0]), integer(I32, targets[1]))
        self._stand(active, places)
        if self.order.end in targets:
            gone = taken if targets[0] == self.order.end else emit.and_(active, emit.not_(taken))
            self._leave_kernel(gone)
        else:
            emit.go("dispatch")

    def _branch_table(self, code: BlockCode, number: int, position: int) -> None:
        emit = self.emit
        ins = self.program.function.instructions[position]
        targets = self.order.targets[number]
        choice = code.source(ins.operands[0], "u32")
        code.flush(number)
        bad = emit.and_(emit.mask_bits(emit.compare("uge", choice, len(targets))), code.active)
        wrong, right = emit.fresh("wrong"), emit.fresh("right")
        emit.branch(emit.compare("eq", bad, 0), right, wrong)
        emit.label(wrong)
        self._fault("table", position, emit.first_lane(bad))
        emit.give()
        emit.label(right)
        table = emit.unit.table(f"table{position}", targets)
        emit.size += len(table.text) * len(targets)
        safe = emit.select(emit.mask_lanes(code.active), choice, 0)
        choices, places = emit.allocate(I32), emit.allocate(I32)
        emit.store(safe, choices, 64)
        with emit.count_up(integer("i32", 32)) as lane:
            one = emit.load(emit.index(choices, "i32", lane), "i32")
            emit.store(emit.load(emit.index(table, "i32", one), "i32"), emit.index(places, "i32", lane))
        found = emit.load(places, I32, 64)
        self._stand(code.active, found)
        first = emit.op(f"extractelement {found.typed}, {emit.first_lane(code.active).typed}", "i32")
        others = emit.and_(emit.mask_bits(emit.compare("ne", found, emit.splat(first))), code.active)
        differs = emit.cast("zext", emit.compare("ne", others, 0), "i64")
        emit.increase(emit.at(_COUNTERS, self.plans.counters.divergent), differs)
        if self.order.end in targets:
            gone = emit.and_(emit.mask_bits(emit.compare("eq", found, self.order.end)), code.active)
            self._leave_kernel(gone)
        else:
            emit.go("dispatch")

    # Barriers

    def _barrier(self, code: BlockCode, number: int, position: int) -> None:
        emit = self.emit
        ins = self.program.function.instructions[position]
        place = self.order.targets[number][0]
        if "warp" in ins.modifiers:
            self._synchronise_warp(code, number, ins)
            return
        operands = ins.operands[1:-1] if "red" in ins.modifiers else ins.operands
        lane = emit.first_lane(emit.or_(code.executing, 0x80000000))
        sources = (code.source(operand, "u32") for operand in operands)
        values = [emit.op(f"extractelement {source.typed}, {lane.typed}", "i32") for source in sources]
        barrier, expected, *_ = (*values, integer("i32", 0), integer("i32", 0))
        votes = emit.mask_bits(code.source(ins.operands[-1], "pred")) if "red" in ins.modifiers else _ANYWHERE
        code.flush(number)
        skip, arrive = emit.fresh("skip"), emit.fresh("arrive")
        emit.branch(emit.compare("eq", code.executing, 0), skip, arrive)
        emit.label(arrive)
        if not all(isinstance(o, Immediate) and 0 <= o.value < 16 for o in operands):
            self._check_barrier(position, lane, barrier, expected)
            self._record_barrier(position, barrier, expected)
        if "arrive" in ins.modifiers:
            block = get(emit, _WARP, WARP, "block")
            emit.increase(self._passed(block, barrier), integer("i32", 32))
            self._go(place, code.active)
        else:
            kind = next((_REDUCES[m] for m in ins.modifiers if m in _REDUCES), 0)
            target = self.plans.registers.slots.get(getattr(ins.operands[0], "name", ""), 0) if kind else 0
            if self._asks:
                self._check_deferred()
            numbers = {"expected": expected, "arrived": code.executing, "votes": votes,
                       "reduces": integer("i32", kind), "result": integer("i32", target),
                       "instruction": integer("i32", position), "barrier": barrier}  # fmt: skip
            self._wait_at_barrier(code.active, place, numbers)
        emit.label(skip)
        self._go(place, code.active)

    def _record_barrier(self, position: int, barrier: Value, threads: Value) -> None:
        """Write the event that tells a barrier which the instruction does not name, and its warps."""
        if self.plans.counts_memory:
            emit = self.emit
            warps = emit.lshr(emit.add(threads, LANES - 1), 5)
            what = (emit.cast("zext", barrier, "i64"), emit.cast("zext", warps, "i64"))
            record_change(emit, traces.EventChange.BARRIER, what, integer("i32", position))

    def _wait_for_cluster(self, code: BlockCode, number: int, position: int) -> None:
        """Write barrier.cluster.wait: lanes go on at once if the phase at which they arrived is over."""
        emit = self.emit
        place = self.order.targets[number][0]
        take_turn(code, position, is_arrival=False)
        pending = emit.and_(get(emit, _WARP, WARP, "arrived_in_cluster"), code.executing)
        code.flush(number)
        over, wait = emit.fresh("over"), emit.fresh("wait")
        emit.branch(emit.compare("eq", pending, 0), over, wait)
        emit.label(wait)
        numbers = {"arrived": pending, "result": integer("i32", 0), "instruction": integer("i32", position),
                   "barrier": integer("i32", CLUSTER_BARRIER)}  # fmt: skip
        self._wait_at_barrier(code.active, place, numbers)
        emit.label(over)
        self._go(place, code.active)

    def _meet_group(self, code: BlockCode, number: int, position: int) -> None:
        """Write how a warp waits for the others of its group of four."""
        emit = self.emit
        place = self.order.targets[number][0]
        code.flush(number)
        skip, wait = emit.fresh("skip"), emit.fresh("wait")
        emit.branch(emit.compare("eq", code.executing, 0), skip, wait)
        emit.label(wait)
        own = get(emit, _WARP, WARP, "number")
        group = emit.binary("udiv", own, integer("i32", _GROUP_WARPS))
        left = emit.sub(get(emit, _WORKER, WORKER, "warps"), emit.mul(group, integer("i32", _GROUP_WARPS)))
        expected = emit.mul(emit.intrinsic("umin", left, integer("i32", _GROUP_WARPS)), integer("i32", 32))
        numbers = {"expected": expected, "arrived": code.executing, "reduces": integer("i32", 0),
                   "result": integer("i32", 0), "instruction": integer("i32", position),
                   "barrier": emit.add(group, integer("i32", GROUP_BARRIER))}  # fmt: skip
        self._wait_at_barrier(code.active, place, numbers)
        emit.label(skip)
        self._go(place, code.active)

    def _wait_at_barrier(self, active: Value, place: int, numbers: dict[str, Value]) -> None:
        """Write the end of a warp's turn: what it waits for by the names of its state, and where it goes on."""
        for name, value in numbers.items():
            put(self.emit, value, _WARP, WARP, name)
        self._stand(active, integer(I32, place))
        self.emit.give()

    def _check_deferred(self) -> None:
        """Write the end of a kernel whose warp comes to a barrier while lanes of it wait for ever at an mbarrier."""
        emit = self.emit
        deferred = get(emit, _WARP, WARP, "deferred")
        with emit.when(emit.compare("ne", emit.and_(deferred, get(emit, _WARP, WARP, "live")), 0)):
            mbarriers.note_deadlock(emit, _WORKER, _WARP)

    def _passed(self, block: Value, barrier: Value) -> Value:
        return self.emit.index(field(self.emit, block, BLOCK, "passed"), "i32", barrier)

    def _check_barrier(self, position: int, lane: Value, barrier: Value, expected: Value) -> None:
        emit = self.emit
        bad = emit.binary("or", emit.compare("uge", barrier, 16), emit.compare("ne", emit.and_(expected, 31), 0))
        wrong, right = emit.fresh("wrong"), emit.fresh("right")
        emit.branch(bad, wrong, right)
        emit.label(wrong)
        both = emit.or_(emit.shl(emit.cast("zext", barrier, "i64"), 32), emit.cast("zext", expected, "i64"))
        code = integer("i32", FAULTS["barrier"])
        note_fault(emit, (_WORKER, _WARP), Fault(code, integer("i32", position), lane, both))
        emit.give()
        emit.label(right)

    def _synchronise_warp(self, code: BlockCode, number: int, ins: Instruction) -> None:
        """Write __syncwarp: lanes go on at once if all that they name are here, else they are parked."""
        emit = self.emit
        place = self.order.targets[number][0]
        named = crosslane.members(Operation(ins, code))
        code.flush(number)
        elsewhere = emit.and_(get(emit, _WARP, WARP, "live"), emit.not_(code.executing))
        missing = emit.mask_bits(emit.compare("ne", emit.and_(named, emit.splat(elsewhere)), 0))
        waits = emit.and_(missing, code.executing)
        together, park = emit.fresh("together"), emit.fresh("park")
        parked = get(emit, _WARP, WARP, "parked")
        nobody = emit.compare("eq", emit.or_(waits, parked), 0)
        emit.branch(nobody, together, park)
        emit.label(park)
        masks = field(emit, _WARP, WARP, "waits_for")
        old = emit.load(masks, I32, 64)
        emit.store(emit.select(emit.mask_lanes(code.executing), named, old), masks, 64)
        put(emit, emit.or_(parked, code.executing), _WARP, WARP, "parked")
        self._stand(code.active, integer(I32, place))
        self._release_parked()
        emit.go("dispatch")
        emit.label(together)
        self._go(place, code.active)
