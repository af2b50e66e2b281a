"""Builds micro-op programs, SMs and traces by hand, to try the simulation of an SM on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kerncast.models.sm.micro_ops import FULL_WEIGHT, MOST_DESTINATIONS, MOST_SOURCES, Memory, Pipe, Program
from kerncast.models.sm.multiprocessor import SM
from kerncast.traces import INSTRUCTION_SHIFT, LAST_SHIFT, MASK_SHIFT, OPERATION_SHIFT, Operation, SMTrace

WHOLE_LINE = 0xF


@dataclass(frozen=True)
class Op:
    """One micro-op."""

    pipe: Pipe = Pipe.FMA
    memory: Memory = Memory.NONE
    sources: tuple[int, ...] = ()
    destinations: tuple[int, ...] = ()
    accesses: tuple[int, ...] = ()
    cycles: float = 0.0
    latency: float = 0.0
    weight: int = FULL_WEIGHT
    phase: int = 0
    group: int = 0
    left: int = 0


@dataclass(frozen=True)
class Step:
    """A warp's execution of a basic block, with the events of its accesses."""

    block: int
    accesses: Mapping[int, Sequence[tuple[Operation, int, int]]] = field(default_factory=dict)
    """[PTX instruction] its events: what it does, line (or what stands there), sectors"""


def program_of(*blocks: Sequence[Op], leader: Sequence[int] | None = None) -> Program:
    """Return basic blocks as a program; ``leader`` names by block the one with whose micro-ops it is issued."""
    leader = range(len(blocks)) if leader is None else leader
    lines = [
        [op for member, ops in zip(leader, blocks, strict=True) if member == b for op in ops]
        for b in range(len(blocks))
    ]
    ops = [op for line in lines for op in line]
    registers = [r for op in ops for r in (*op.sources, *op.destinations)]

    def table(rows: Sequence[Sequence[int]], width: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
        out = np.full((len(ops), width), -1, np.int32)
        for row, values in enumerate(rows):
            out[row, : len(values)] = values
        return out

    return Program(
        starts=np.cumsum([0, *map(len, lines)]).astype(np.int32),
        leader=np.array(leader, np.int32),
        pipe=np.array([op.pipe for op in ops], np.int32),
        memory=np.array([op.memory for op in ops], np.int32),
        cycles=np.array([op.cycles for op in ops], np.float32),
        latency=np.array([op.latency for op in ops], np.float32),
        weight=np.array([op.weight for op in ops], np.int32),
        phase=np.array([op.phase for op in ops], np.int32),
        sources=table([op.sources for op in ops], MOST_SOURCES),
        destinations=table([op.destinations for op in ops], MOST_DESTINATIONS),
        accesses=table([op.accesses for op in ops], MOST_DESTINATIONS),
        group=np.array([op.group for op in ops], np.int32),
        left=np.array([op.left for op in ops], np.int32),
        instruction=np.arange(len(ops), dtype=np.int32),
        registers=max(registers, default=-1) + 1,
    )


def trace_of(blocks: Sequence[Sequence[Sequence[Step]]], local_lines: int = 4) -> SMTrace:
    """Return blocks of warps of steps as a trace."""
    events: list[int] = []
    chains = [0]
    for block in blocks:
        for warp in block:
            for step in warp:
                events += _events(step)
            chains.append(len(events))
    return SMTrace(
        block_ids=np.arange(len(blocks), dtype=np.int64),
        warps=len(blocks[0]),
        local_lines=local_lines,
        events=np.array(events, np.uint64),
        chains=np.array(chains, np.int64),
    )


def _events(step: Step) -> list[int]:
    found = [step.block << INSTRUCTION_SHIFT | Operation.BASIC_BLOCK << OPERATION_SHIFT | 1 << LAST_SHIFT | 32]
    for instruction, accesses in step.accesses.items():
        for number, (operation, line, mask) in enumerate(accesses):
            is_last = number == len(accesses) - 1
            found.append(
                instruction << INSTRUCTION_SHIFT
                | operation << OPERATION_SHIFT
                | is_last << LAST_SHIFT
                | mask << MASK_SHIFT
                | line
            )
    return found


LATENCIES = {Pipe.IMAD: 5.0, Pipe.XU: 18.0, Pipe.LSU: 24.0, Pipe.FP64: 8.0}


def sm_of(**changes: object) -> SM:
    """Return an SM like Volta's, with changes; ``pipe_cycles`` and ``pipe_latency`` may be given by pipe."""
    cycles = {Pipe.FMA: 2.0, Pipe.ALU: 2.0, Pipe.IMAD: 2.0, Pipe.XU: 8.0, Pipe.LSU: 2.0, Pipe.FP64: 4.0}
    values: dict[str, object] = {
        "sub_partitions": 4, "issue_width": 1, "is_oldest_first": False,
        "pipe_cycles": tuple(cycles.get(p, 1.0) for p in Pipe),
        "pipe_latency": tuple(LATENCIES.get(p, 4.0) for p in Pipe),
        "fma_cycles": (0.0,) * len(Pipe), "lsu_cycles": 1.0, "wavefront_cycles": 1.0,
        "replay_cycles": 1.0, "l1_tag_cycles": 1.0,
        "l1_bytes_per_cycle": 128.0, "store_line_cycles": 1.0, "l1_lines": 1024, "l1_is_apart": False,
        "l1_operations": 1 << Operation.LOAD | 1 << Operation.LOCAL_LOAD | 1 << Operation.LOCAL_STORE,
        "stores_allocate": False, "l2_path_bytes_per_cycle": 64.0,
        "l2_bytes_per_cycle": 64.0, "l2_write_bytes_per_cycle": 64.0,
        "dram_bytes_per_cycle": 8.0, "dram_write_bytes_per_cycle": 8.0,
        "dram_read_share": 1.0, "dram_write_share": 1.0, "dram_local_share": 0.0, "dram_atomic_share": 1.0,
        "shared_latency": 19.0, "l1_latency": 28.0, "l2_latency": 215.0, "dram_latency": 437.0, "barrier_latency": 10.0,
        "branch_latency": 8.0, "block_launch_cycles": 300.0, "atomic_cycles": 1.0, "shared_atomic_cycles": 4.0,
        "lsu_queue_cycles": 32.0, "l2_queue_cycles": 1000.0, "dram_queue_cycles": 1500.0, "atomic_queue_cycles": 200.0,
    }  # fmt: skip
    return SM(**{**values, **changes})  # type: ignore[arg-type]
