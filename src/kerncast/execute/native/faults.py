"""Turns a fault that generated code noted into an error with the user's line, block and thread."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import KernelFault
from kerncast.execute.counting.sums import access_bytes
from kerncast.execute.native.frames import FAULTS, SPACES
from kerncast.execute.sampling.budget import endless
from kerncast.execute.setup.specials import unravel
from kerncast.ptx import Instruction

if TYPE_CHECKING:
    from kerncast.execute.native.engine import Run, Worker

_NAMES = {number: name for name, number in FAULTS.items()}
_GEOMETRY = "Check the index, the sizes of the buffers and the launch geometry."
_ARGUMENTS = "Check the arguments and the launch geometry."


def check(worker: "Worker", run: "Run") -> None:
    """Raise the error of a worker, if it has met one."""
    fault = int(worker.state["fault"])
    if fault == FAULTS["endless"]:
        raise endless(f"within {run.budget.block_steps} steps", where_stands(worker, run))
    if fault:
        raise _error(worker.state, run, worker.blocks)


def where_stands(worker: "Worker", run: "Run") -> str:
    """Return the line of the user's source where a worker was last seen."""
    place = worker.standing()
    cfg, function = run.program.cfg, run.program.function
    if place is None or place >= cfg.order.end:
        return function.name
    block = cfg.blocks[cfg.order.block_at[place]]
    lines = (i.where for i in function.instructions[block.start : block.stop])
    return next((line for line in lines if line), function.name)


def _error(state: Any, run: "Run", blocks: npt.NDArray[np.int64]) -> KernelFault:
    name = _NAMES[int(state["fault"])]
    ins = run.program.function.instructions[int(state["fault_instruction"])]
    where = ins.where or run.program.function.name
    thread = _thread(state, run, blocks)
    address = int(state["fault_address"]) & (1 << 64) - 1
    match name:
        case "bounds" | "misaligned" | "constant" | "atomic":
            return KernelFault(_access(name, ins, thread, state, run), where=where, cure=_GEOMETRY)
        case "trap" | "assertion":
            what = "the kernel traps" if name == "trap" else "an assertion failed"
            return KernelFault(f"{what} in {thread}", where=where, cure=_ARGUMENTS)
        case "table":
            return KernelFault("a branch table is used with an index past its end", where=where)
        case "barrier":
            return KernelFault(
                f"a barrier is used with number {address >> 32} for {address & 0xFFFFFFFF} threads",
                where=where,
                cure="Barriers are numbered 0 to 15, and wait for a multiple of 32 threads.",
            )
        case "stuck":
            return KernelFault(
                f"threads wait at a barrier that the others never reach, such as {thread}",
                where=where,
                cure="Let every thread of the block reach the same barrier.",
            )
    raise AssertionError(name)


def _access(name: str, ins: Instruction, thread: str, state: Any, run: "Run") -> str:
    verb = "atomic" if ins.opcode.access is None or ins.is_update else ins.opcode.access.value
    space = SPACES[int(state["fault_space"])]
    address = int(state["fault_address"]) & (1 << 64) - 1
    size = access_bytes(ins)
    if name == "constant":
        what = "writes to a kernel parameter, which is constant"
    elif name == "atomic":
        what = f"points to {space} memory, which has no atomics"
    elif name == "misaligned":
        what = f"is misaligned: {size} bytes at address {address:#x}"
    elif space in {"global", "const"}:
        what = f"is out of bounds: {size} bytes at {address:#x}, {run.arena.describe(address)}"
    else:
        program, launch = run.program, run.launch
        length = {"shared": program.static_shared_bytes + launch.shared_bytes,
                  "param": run.parameter_bytes}.get(space, program.private_bytes)  # fmt: skip
        what = f"is out of bounds: {size} bytes at {address:#x} of {length} bytes of {space} memory"
        what += " (static and dynamic)" if space == "shared" else ""
    return f"a {ins.space} {verb} by {thread} {what}"


def _thread(state: Any, run: "Run", blocks: npt.NDArray[np.int64]) -> str:
    block = unravel(int(blocks[int(state["fault_row"])]), run.launch.grid)
    in_block = 32 * int(state["fault_warp"]) + int(state["fault_lane"])
    return f"block {block}, thread {unravel(in_block, run.launch.block)}"
