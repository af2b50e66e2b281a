"""The fast engine: PTX compiled to code of this CPU, a warp as vectors of 32 lanes."""

import ctypes
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat
from kerncast.errors import AssertionFailed, BudgetExceededError, IllegalAddress, KerncastError, KernelFault
from kerncast.execute.native.arithmetic import bitwise, conversion, floats, integers
from kerncast.execute.native.block import RegisterPlan, plan_registers
from kerncast.execute.native.ir import BLOCK, FAULTS, SPACES, WARP, WORKER, Unit
from kerncast.execute.native.jit import Host, Machine, compile_unit, run_until
from kerncast.execute.native.memory.tensor_copies import World, copier_of
from kerncast.execute.native.memory.tensor_memory import TENSOR_BYTES
from kerncast.execute.native.scheduler import NOT_DONE, write_scheduler
from kerncast.execute.native.warp import CounterPlan, Plans, asks, meets, plan_counters, printer_of, prints, write_warp
from kerncast.execute.sampling.sample import endless, runaway
from kerncast.execute.setup import phases
from kerncast.execute.setup.arena import Arena, Room, check_room
from kerncast.execute.setup.cluster_addresses import cluster_fault, outside_of_cluster
from kerncast.execute.setup.dataflow import blocks_are_independent
from kerncast.execute.setup.layout import Program
from kerncast.execute.setup.state import ACCESS_COUNTS, Console, Report, Setting, doubt_about, remark_on
from kerncast.execute.setup.supported import unravel, uses_tensor_memory
from kerncast.execute.setup.tensor_faults import NAMES as TENSOR_FAULTS
from kerncast.execute.setup.tensor_faults import tensor_fault
from kerncast.execute.setup.textures import OBJECT_FAULTS, object_fault
from kerncast.launch import NO_CLUSTER, Launch
from kerncast.ptx import Instruction
from kerncast.remembered import remembered
from kerncast.traces import SEGMENT, BlockCounts, Counts
from kerncast.units import format_bytes

__all__ = ["Compiled", "Run", "compile_program"]

#: These modules register what they lower when they are imported.
_LOWERINGS = (bitwise, conversion, floats, integers)
_ALIGNMENT = 64
_MARGIN_BYTES = 1024
_PATIENCE = 100_000
_WORKERS = 2
_QUANTUM = 256
_RESIDENT_BYTES = 2**19
_STRIDE_UNIT = 256  # so that equal offsets lie in equal banks, whichever block's
_MOST_BYTES = 2**32 - 1  # sizes of memories are numbers of 32 bits
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program as code of this CPU."""

    machine: Machine
    registers: RegisterPlan
    counters: CounterPlan
    symbols: tuple[str, ...]
    """module variables whose addresses the code reads from a table"""
    text_size: int
    """characters of the LLVM text"""


def compile_program(program: Program, *, counts_memory: bool = True, host: Host | None = None) -> Compiled:
    """Compile a program; raises UnsupportedError for what is not covered, TooLargeError for what takes too long."""
    unit, registers, counters, symbols = write_module(program, counts_memory=counts_memory)
    return Compiled(compile_unit(unit, host), registers, counters, symbols, len(unit.text))


def write_module(
    program: Program, *, counts_memory: bool = True
) -> tuple[Unit, RegisterPlan, CounterPlan, tuple[str, ...]]:
    """Return the LLVM IR of a program, and where its registers, counters and variables lie."""
    symbols = tuple(variable.name for variable in program.globals)
    registers = plan_registers(program.function, program.cfg)
    counters = plan_counters(program.function, program.cfg)
    unit = Unit()
    numbers = {name: number for number, name in enumerate(symbols)}
    plans = Plans(program, registers, counters, numbers, counts_memory)
    write_warp(unit, plans)
    write_scheduler(
        unit, registers.start_bytes, sees_cluster=program.sees_cluster, asks=asks(program), meets=meets(program)
    )
    return unit, registers, counters, symbols


@dataclass(frozen=True, slots=True)
class Log:
    """Events and segments of one worker (see kerncast.traces.execution)."""

    events: npt.NDArray[np.uint64]
    segments: npt.NDArray[np.void]

    @classmethod
    def with_room(cls, events: int, segments: int) -> "Log":
        """Return an empty log."""
        return cls(np.zeros(events, np.uint64), np.zeros(segments, SEGMENT))


class Run:
    """One launch in execution: its memory, its workers and the counters of its blocks."""

    def __init__(self, compiled: Compiled, setting: Setting) -> None:
        self.compiled = compiled
        self.program = setting.program
        self.launch = setting.launch
        self.arena = setting.arena
        self.budget = setting.budget
        self.touched = setting.touched
        self.deadline = math.inf
        """time at which to stop, by time.monotonic"""
        self.is_over: Callable[[], bool] = lambda: False
        """tells that nobody waits for the launch any more"""
        self.goes_on = setting.goes_on
        self.turns = setting.turns
        self.runs_here = False
        """whether a single worker runs on the calling thread, whose stack has room for its frames"""
        self._counters = [np.zeros((0, compiled.counters.bytes // 8), np.int64)]
        self.remarks = np.zeros(len(setting.program.function.instructions) + 1, np.uint8)
        self._world = World(
            self.program, self.launch, self.arena, self.touched, compiled.counters.memory, setting.parameters
        )
        self._copier = copier_of(self._world)
        self.copier_address = ctypes.c_void_p.from_buffer(self._copier).value or 0
        self._place_allocations()
        self.workers: list[Worker] = []

    @property
    def failure(self) -> Exception | None:
        """The error of a copy that failed."""
        return self._world.failure

    @property
    def finished(self) -> int:
        """Number of blocks that have run."""
        return sum(len(part) for part in self._counters)

    @property
    def counters(self) -> npt.NDArray[np.int64]:
        """[blocks, counters] of all blocks that have run."""
        self._counters = [np.concatenate(self._counters)]
        return self._counters[0]

    def forget(self) -> None:
        """Drop the counters of the blocks that have run."""
        self._counters = [np.zeros((0, self.compiled.counters.bytes // 8), np.int64)]

    def prepare(self, parameters: bytes, symbols: list[int], workers: int, resident: int | None = None) -> None:
        """Set up what the workers share; raises BudgetExceededError for too much shared or local memory.

        ``resident`` is how many blocks each worker holds at once, where their number is not its own choice.
        """
        shared = self.program.static_shared_bytes + self.launch.shared_bytes
        warps = self.launch.warps_per_block
        private = 32 * warps * self.program.private_bytes
        frames = warps * (workers * self.compiled.registers.frame_bytes + self.compiled.registers.start_bytes)
        room = Room(self.arena, self.budget.memory_bytes)
        slots = resident or self.launch.cluster_blocks
        room.take(workers * slots * shared, "shared memory needs")
        room.take(workers * slots * private, "local memory needs")
        room.take(workers * slots * TENSOR_BYTES * uses_tensor_memory(self.program.function), "tensor memory needs")
        room.take(slots * frames, "registers need")
        if workers * (shared + private) + frames > _MOST_BYTES:
            what = f"shared and local memory need {format_bytes(workers * (shared + private))}"
            raise BudgetExceededError(f"{what}, which is no number of 32 bits", cure="Give a block less of them.")
        self.parameters = np.zeros(len(parameters) + 2 * _MARGIN_BYTES, np.uint8)
        self.parameters[_MARGIN_BYTES : _MARGIN_BYTES + len(parameters)] = np.frombuffer(parameters, np.uint8)
        self.parameter_bytes = len(parameters)
        self.symbols = np.array([*symbols, 0], np.uint64)
        self.template = _frame_template(self.compiled, self.program, self.launch)
        self.workers = [Worker(self, resident) for _ in range(workers)]

    def renew(self, parameters: bytes, arena: Arena) -> None:
        """Take the parameters of another launch of the same geometry, and the memory as it is now."""
        self._world.parameters = parameters
        self.parameters[_MARGIN_BYTES : _MARGIN_BYTES + len(parameters)] = np.frombuffer(parameters, np.uint8)
        if arena is not self.arena:
            self.arena = arena
            self._place_allocations()
            for worker in self.workers:
                worker.see_allocations(self)

    def _place_allocations(self) -> None:
        self.starts = np.array([a.start for a in self.arena.allocations], np.int64)
        self.ends = np.array([a.start + a.nbytes for a in self.arena.allocations], np.int64)
        self.console = Console(self.program, self.arena)
        self._printer = printer_of(self.program, self.console)
        self._world.arena = self.arena
        # A cast would make the function refer to itself, and the memory of the launch would outlive it.
        self.printer_address = ctypes.c_void_p.from_buffer(self._printer).value or 0

    def run(self, blocks: npt.NDArray[np.int64], keep_going: Callable[[int], None]) -> list["Worker"]:
        """Run blocks, append their counters and return the workers that ran neighbouring parts of the list.

        ``keep_going`` is called with how many are finished, and may raise.
        """
        counters = np.zeros((len(blocks), self.compiled.counters.bytes // 8), np.int64)
        parts = self._shares(len(blocks))
        for worker, part in zip(self.workers, parts, strict=False):
            worker.begin(blocks[part], counters[part])
        running = self.workers[: len(parts)]
        while True:
            for worker in running:
                worker.state["patience"] = _PATIENCE
            if self.runs_here and len(running) == 1:
                running[0].run()
            else:
                run_until(running, self.deadline, self.compiled.text_size, self.is_over)
            for worker in running:
                check(worker, self)
            keep_going(sum(int(worker.state["finished"]) for worker in running))
            if not any(worker.unfinished for worker in running):
                break
        self._counters.append(counters)
        return running

    def record_into(self, logs: "list[Log]", *, in_detail: bool = False) -> None:
        """Let each worker record its accesses from now on, as far as its log has room."""
        for worker, log in zip(self.workers, logs, strict=True):
            worker.record_into(log, in_detail=in_detail)

    def _shares(self, blocks: int) -> list[slice]:
        """Cut blocks into neighbouring parts, one for each worker; a cluster is in one part."""
        size = self.launch.cluster_blocks
        bounds = [blocks // size * n // len(self.workers) * size for n in range(len(self.workers) + 1)]
        return [slice(a, b) for a, b in pairwise(bounds) if b > a]


def worker_count(program: Program, buffers: frozenset[str]) -> int:
    """Return how many threads of the CPU may run blocks: one where what they do could depend on their order.

    ``buffers`` are the parameters that hold one.
    """
    if prints(program) or not blocks_are_independent(program, buffers):
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(_WORKERS, cores)


class Worker:
    """The memory of one thread of the CPU: its state, and resident blocks with their frames."""

    def __init__(self, run: Run, resident: int | None = None) -> None:
        self._run_function = run.compiled.machine.function("run_worker")
        self._keep: list[Bytes] = []
        self.unfinished = False
        memory = self._memory(WORKER.itemsize)
        self._address = memory.ctypes.data
        self.state = memory.view(WORKER)[0]
        launch, program = run.launch, run.program
        shared_bytes = program.static_shared_bytes + launch.shared_bytes
        frames = launch.warps_per_block * run.compiled.registers.frame_bytes
        private = launch.warps_per_block * 32 * program.private_bytes
        tensor = TENSOR_BYTES if uses_tensor_memory(program.function) else 0
        per_block = frames + private + shared_bytes + tensor
        together = launch.cluster_blocks
        slots = resident or together * max(1, min(_RESIDENT_BYTES // max(per_block, 1), 8) // together)
        stride = -(-(shared_bytes + 2 * _MARGIN_BYTES) // _STRIDE_UNIT) * _STRIDE_UNIT
        self.state["grid"][:3], self.state["block"][:3] = launch.grid, launch.block
        self.state["cluster"][:3] = launch.cluster or NO_CLUSTER
        values = {
            "warps": launch.warps_per_block, "slots": slots, "shared_bytes": shared_bytes,
            "private_bytes": program.private_bytes, "tensor_bytes": tensor, "parameter_bytes": run.parameter_bytes,
            "dynamic_bytes": launch.shared_bytes, "quantum": _QUANTUM,
            "parameters": run.parameters.ctypes.data + _MARGIN_BYTES, "symbols": run.symbols.ctypes.data,
            "read": run.touched.read.ctypes.data, "written": run.touched.written.ctypes.data,
            "pages": run.touched.pages.ctypes.data, "remarks": run.remarks.ctypes.data,
            "counter_bytes": run.compiled.counters.bytes, "frame_bytes": run.compiled.registers.frame_bytes,
            "frame_template": run.template.ctypes.data, "iteration_limit": run.budget.block_steps,
            "longest": run.compiled.counters.longest, "pairs_words": program.pairs_words,
            "cluster_blocks": together, "explicit_cluster": launch.cluster is not None, "shared_stride": stride,
        }  # fmt: skip
        for name, value in values.items():
            self.state[name] = value
        for counter, turns in run.turns.items():
            for name, number in asdict(turns).items():
                self.state[f"turn_{name}"][counter] = number
        self._windows = self._memory(16 * len(run.remarks))
        self.state["windows"] = self._windows.ctypes.data
        self.see_allocations(run)
        self._resident = self._memory(slots * BLOCK.itemsize).view(BLOCK)
        self.state["resident"] = self._resident.ctypes.data
        self._frames = []
        shared = self._memory(slots * stride).ctypes.data + _MARGIN_BYTES
        for number, slot in enumerate(self._resident):
            slot["shared"] = shared + number * stride
            slot["tensor"] = self._memory(tensor).ctypes.data
            slot["private"] = self._memory(private + _ALIGNMENT).ctypes.data
            self._frames.append(self._memory(frames).reshape(launch.warps_per_block, -1))
            slot["warps"] = self._frames[-1].ctypes.data

    def see_allocations(self, run: Run) -> None:
        """Take the memory of a run, and forget which allocations were met last."""
        self._windows[:] = 0
        values = {
            "arena": run.arena.data.ctypes.data, "starts": run.starts.ctypes.data, "ends": run.ends.ctypes.data,
            "allocations": len(run.starts), "reach": len(run.arena.data) if run.goes_on else 0,
            "printer": run.printer_address, "copier": run.copier_address,
        }  # fmt: skip
        for name, value in values.items():
            self.state[name] = value

    def begin(self, blocks: npt.NDArray[np.int64], counters: npt.NDArray[np.int64]) -> None:
        """Take a list of blocks to run: of whole clusters, the blocks of each by rank."""
        assert len(blocks) % int(self.state["cluster_blocks"]) == 0
        self.blocks = np.ascontiguousarray(blocks)
        self.state["blocks"], self.state["block_count"] = self.blocks.ctypes.data, len(blocks)
        self.state["next_row"] = self.state["finished"] = 0
        self.state["counters"] = counters.ctypes.data
        self.unfinished = True

    def record_into(self, log: "Log", *, in_detail: bool) -> None:
        """Record accesses from now on; in detail, all that a simulation of an SM has to know."""
        self.state["in_detail"] = in_detail
        for name, buffer in (("event", log.events), ("segment", log.segments)):
            self.state[f"{name}s"], self.state[f"{name}_limit"] = buffer.ctypes.data, len(buffer)
            self.state[f"{name}_count"] = 0
        self._log = log

    def recorded(self) -> "Log | None":
        """Return what was recorded and begin anew; None if the log was too small for it."""
        events, segments = int(self.state["event_count"]), int(self.state["segment_count"])
        self.state["event_count"] = self.state["segment_count"] = 0
        if events == len(self._log.events) or segments == len(self._log.segments):
            return None
        return Log(self._log.events[:events].copy(), self._log.segments[:segments].copy())

    def run(self) -> bool:
        """Run until the patience ends; returns whether there is more to do."""
        self.unfinished = self._run_function(self._address) == NOT_DONE
        return self.unfinished

    def stop(self) -> None:
        """Let ``run`` return soon; its blocks cannot go on after that."""
        self.state["stop"] = 1

    def standing(self) -> int | None:
        """Return the place where some warp stands that has not ended and waits at no barrier; None if all wait."""
        for slot, frames in zip(self._resident, self._frames, strict=True):
            for warp in frames[:, : WARP.itemsize].view(WARP)[:, 0] if slot["busy"] else ():
                ready = np.flatnonzero(int(warp["live"]) & ~int(warp["parked"]) & (1 << np.arange(32)))
                if len(ready) and warp["barrier"] < 0:
                    return int(warp["place"][ready].min())
        return None

    def _memory(self, nbytes: int) -> Bytes:
        """Return zeroed memory that begins at a cache line."""
        memory = np.zeros(nbytes + _ALIGNMENT, np.uint8)
        self._keep.append(memory)
        start = -memory.ctypes.data % _ALIGNMENT
        return memory[start : start + nbytes]


def _frame_template(compiled: Compiled, program: Program, launch: Launch) -> Bytes:
    """Return the beginning of each warp's frame when its block starts."""
    size = compiled.registers.start_bytes
    template = np.zeros((launch.warps_per_block, size), np.uint8)
    head = template[:, : WARP.itemsize].view(WARP)[:, 0]
    threads = np.arange(32 * launch.warps_per_block).reshape(-1, 32)
    order = program.cfg.order
    exist = np.packbits(threads < math.prod(launch.block), axis=1, bitorder="little").view(np.uint32)[:, 0]
    x, y, _ = launch.block
    head["tid"] = np.stack([threads % x, threads // x % y, threads // (x * y)], axis=1)
    head["place"] = order.place_of[0] if order.place_of else order.end
    head["exist"], head["live"] = exist, exist if order.place_of else 0
    head["number"] = np.arange(launch.warps_per_block)
    head["barrier"] = -1
    return template


_STOPPED = {"trap": (KernelFault, "the kernel traps"), "assertion": (AssertionFailed, "an assertion failed")}
_OF_MBARRIERS = {"uninitialised": phases.uninitialised, "overrun": phases.overrun, "deadlock": phases.deadlock}
_NAMES = {number: name for name, number in FAULTS.items()}
_GEOMETRY = "Check the index, the sizes of the buffers and the launch geometry."
_ARGUMENTS = "Check the arguments and the launch geometry."


def check(worker: "Worker", run: "Run") -> None:
    """Raise the error of a worker, if it has met one."""
    fault = int(worker.state["fault"])
    if fault == FAULTS["endless"]:
        raise endless(f"within {run.budget.block_steps} steps", where_stands(worker, run))
    if run.failure is not None:
        raise run.failure
    if fault:
        raise _error(worker.state, run, worker.blocks)


def stray_of(worker: "Worker", run: "Run") -> str | None:
    """Return the first access outside all allocations that went on since this was asked last, in words."""
    if not worker.state["strays"]:
        return None
    worker.state["strays"] = 0
    ins = run.program.function.instructions[int(worker.state["fault_instruction"])]
    what = _access("bounds", ins, _thread(worker.state, run, worker.blocks), worker.state, run)
    return f"{ins.where}: {what}" if ins.where else what


def where_stands(worker: "Worker", run: "Run") -> str:
    """Return the line of the user's source where a worker was last seen."""
    place = worker.standing()
    cfg, function = run.program.cfg, run.program.function
    if place is None or place >= cfg.order.end:
        return function.name
    block = cfg.blocks[cfg.order.block_at[place]]
    lines = (i.where for i in function.instructions[block.start : block.stop])
    return next((line for line in lines if line), function.name)


def _error(state: Any, run: "Run", blocks: npt.NDArray[np.int64]) -> KerncastError:
    name = _NAMES[int(state["fault"])]
    ins = run.program.function.instructions[int(state["fault_instruction"])]
    where = ins.where or run.program.function.name
    thread = _thread(state, run, blocks)
    address = int(state["fault_address"]) & (1 << 64) - 1
    match name:
        case "bounds" | "misaligned" | "constant" | "atomic":
            return IllegalAddress(_access(name, ins, thread, state, run), where=where, cure=_GEOMETRY)
        case _ if name in TENSOR_FAULTS:
            size = run.program.static_shared_bytes + run.launch.shared_bytes
            return tensor_fault(name, ins, (thread, where), address, size)
        case "trap" | "assertion":
            kind, what = _STOPPED[name]
            return kind(f"{what} in {thread}", where=where, cure=_ARGUMENTS)
        case "table":
            return KernelFault("a branch table is used with an index past its end", where=where)
    if name in _OF_MBARRIERS:
        return _OF_MBARRIERS[name](address, int(state["fault_state"]) & (1 << 64) - 1, thread, ins, run.program)
    return _other_error(name, address, ins, (thread, where))


def _other_error(name: str, address: int, ins: Instruction, place: tuple[str, str]) -> KerncastError:
    if name == "barrier":
        return KernelFault(
            f"a barrier is used with number {address >> 32} for {address & 0xFFFFFFFF} threads",
            where=place[1],
            cure="Barriers are numbered 0 to 15, and wait for a multiple of 32 threads.",
        )
    of = object_fault if name in OBJECT_FAULTS else cluster_fault
    return of(name, ins, place, address)


def _access(name: str, ins: Instruction, thread: str, state: Any, run: "Run") -> str:
    verb = "atomic" if ins.opcode.access is None or ins.is_update else ins.opcode.access.value
    space = SPACES[int(state["fault_space"])]
    address = int(state["fault_address"]) & (1 << 64) - 1
    size = ins.access_bytes
    if name == "constant":
        what = "writes to a kernel parameter, which is constant"
    elif name == "atomic":
        what = f"points to {space} memory, which has no atomics"
    elif name == "misaligned":
        what = f"is misaligned: {size} bytes at address {address:#x}"
    elif space == "cluster":
        shared_bytes = run.program.static_shared_bytes + run.launch.shared_bytes
        what = outside_of_cluster(size, address, shared_bytes, run.launch.cluster_blocks)
    elif space in {"global", "const"}:
        what = f"is out of bounds: {size} bytes at {address:#x}, {run.arena.describe(address)}"
    else:
        program, launch = run.program, run.launch
        length = {"shared": program.static_shared_bytes + launch.shared_bytes,
                  "param": run.parameter_bytes}.get(space, program.private_bytes)  # fmt: skip
        what = f"is out of bounds: {size} bytes at {address:#x} of {length} bytes of {space} memory"
        what += " (static and dynamic)" if space == "shared" else ""
    return f"a {'' if ins.is_copy else f'{ins.space} '}{verb} by {thread} {what}"


def _thread(state: Any, run: "Run", blocks: npt.NDArray[np.int64]) -> str:
    block = unravel(int(blocks[int(state["fault_row"])]), run.launch.grid)
    in_block = 32 * int(state["fault_warp"]) + int(state["fault_lane"])
    return f"block {block}, thread {unravel(in_block, run.launch.block)}"


class NativeEngine:
    """Runs lists of blocks on the cores of this machine."""

    slowness: ClassVar[float] = 1.0

    def __init__(self, setting: Setting, compiled: Compiled | None = None, workers: int | None = None) -> None:
        deadline = time.monotonic() + setting.budget.seconds  # compiling counts too
        self._setting = setting
        compiled = compiled or _compiled(setting.linked)
        self._plan = compiled.counters
        self._places: dict[str, list[list[int]]] = {}
        """columns of each counter, by its name: a curve of a footprint asks for the counts again and again"""
        self.launch_run = Run(compiled, setting)
        addresses = [setting.program.address_of(name) for name in compiled.symbols]
        together = setting.launch.blocks if setting.launch.cooperative else None
        workers = 1 if together else workers or worker_count(setting.linked, setting.buffers)
        self.launch_run.prepare(setting.parameters, addresses, workers, together)
        self.launch_run.deadline = deadline

    @property
    def remarks(self) -> tuple[Caveat, ...]:
        """Caveats on the counts."""
        code = self._setting.program.function.instructions
        doubtful = [doubt_about(code[number]) for number in np.flatnonzero(self.launch_run.remarks).tolist()]
        told = [(number, remark) for number, ins in enumerate(code) if (remark := remark_on(ins))]
        executed = [remark for number, remark in told if self._executions([number])]
        return tuple(dict.fromkeys([*doubtful, *executed]))

    @property
    def printed(self) -> str:
        """Text that the kernel printed."""
        return self.launch_run.console.text

    @property
    def asked(self) -> list[int]:
        """Warps that have asked each counter of the whole grid so far, of any block, as bits."""
        found: list[int] = np.bitwise_or.reduce([worker.state["asked"] for worker in self.launch_run.workers]).tolist()
        return found

    def check_room(self, blocks: int) -> None:
        """Raise BudgetExceededError if the counts of so many blocks take too much memory."""
        check_room(blocks * self._plan.bytes, self._setting.budget.memory_bytes, f"the counts of {blocks} blocks need")

    def run(self, blocks: list[int], report: Report | None) -> None:
        """Run these blocks."""
        self.run_parts(np.array(blocks, np.int64), report)

    def run_parts(self, blocks: Counts, report: Report | None = None) -> list[Worker]:
        """Run these blocks and return the workers that ran them, in the order of their parts."""
        before = self.launch_run.finished

        def keep_going(finished: int) -> None:
            if report:
                report(before + finished)
            self._setting.touched.check(self._setting.budget.memory_bytes)
            if time.monotonic() > self.launch_run.deadline:
                raise runaway(self._setting.budget.seconds, where_stands(self.launch_run.workers[0], self.launch_run))

        return self.launch_run.run(blocks, keep_going)

    def thread_instructions(self) -> int:
        """Return how many instructions all threads have executed so far."""
        lengths = np.array(self._setting.program.cfg.lengths, np.int64)
        return int((self.launch_run.counters[:, 1 : 2 * len(lengths) : 2] @ lengths).sum())

    def counts(self) -> BlockCounts:
        """Return the counts of all blocks that have run."""
        rows, plan = self.launch_run.counters, self._plan
        blocks = len(self._setting.program.cfg.blocks)
        guarded, accessing = tuple(plan.guarded), tuple(plan.memory)
        return BlockCounts(
            block_warps=rows[:, 0 : 2 * blocks : 2],
            block_threads=rows[:, 1 : 2 * blocks : 2],
            guarded=guarded,
            guarded_threads=rows[:, [plan.guarded[number] // 8 for number in guarded]],
            accessing=accessing,
            **{name: self._accesses(name) for name in ACCESS_COUNTS},
            divergent_branches=rows[:, plan.divergent // 8],
            longest_warp=rows[:, plan.longest // 8],
        )

    def _accesses(self, name: str) -> Counts:
        """Return [blocks, memory instructions] a counter; one that counts by space is summed over these."""
        rows, code = self.launch_run.counters, self._setting.program.function.instructions
        found = np.zeros((len(rows), len(self._plan.memory)), np.int64)
        if name not in self._places:
            self._places[name] = [self._plan.columns(code[number], number, name) for number in self._plan.memory]
        places = self._places[name]
        for turn in range(max(map(len, places), default=0)):
            columns = [column for column, each in enumerate(places) if len(each) > turn]
            found[:, columns] += rows[:, [places[column][turn] for column in columns]]
        return found

    def _executions(self, numbers: list[int]) -> int:
        blocks, guarded = self._setting.program.cfg.blocks, self._plan.guarded
        own = [guarded[n] for n in numbers if n in guarded]
        others = [n for n in numbers if n not in guarded]
        within = [b for b, block in enumerate(blocks) if any(block.start <= n < block.stop for n in others)]
        columns = [place // 8 for place in (*own, *(CounterPlan.of_block(b) for b in within))]
        return int(self.launch_run.counters[:, columns].sum())


_compiled = remembered(32)(compile_program)
