"""A GPU and the caches that a kernel finds there become the SM that is simulated."""

import math
from dataclasses import dataclass

import numpy as np

from kerncast.cache_geometry import CacheGeometry, l1_operations
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU
from kerncast.models.sm.micro_ops import Pipe
from kerncast.models.sm.multiprocessor import SM
from kerncast.recording import LINE_BITS, LINE_BYTES, OPERATION_MASK, OPERATION_SHIFT, Operation
from kerncast.sm_trace import SMTrace


@dataclass(frozen=True, slots=True)
class MemoryShares:
    """What one SM gets of what all share, under one launch."""

    active_sms: float
    """as busy as this one"""
    dram_read: float
    """part of the sectors read from L2 that come from DRAM"""
    dram_write: float
    """part of the sectors written to L2 that go on to DRAM"""
    dram_local: float
    """part of local memory's sectors read from L2 or written to it that DRAM sees"""
    atomic_lines: float
    """distinct 128-byte lines that atomics update"""


def atomic_lines(trace: SMTrace, grid_blocks: int) -> float:
    """Return how many distinct lines of global memory the atomics of a grid update, as they grow with its blocks."""
    blocks = len(trace.block_ids)
    first, all_of_them = _updated_lines(trace.head(1)), _updated_lines(trace)
    growth = (all_of_them - first) / (blocks - 1) if blocks > 1 else 0.0
    return first + growth * (grid_blocks - 1)


def _updated_lines(trace: SMTrace) -> int:
    operation = trace.events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
    atomics = (operation == Operation.ATOMIC) | (operation == Operation.REDUCTION)
    return len(np.unique(trace.events[atomics] & np.uint64(2**LINE_BITS - 1)))


def sm_of(gpu: GPU, geometry: CacheGeometry, shares: MemoryShares) -> SM:
    """Return one SM of a GPU in cycles of its clock; raises MissingEvidenceError for a fact that the GPU lacks."""
    a, c = gpu.architecture, gpu.architecture.cycles
    bandwidth = _Bandwidth(gpu, shares.active_sms)
    latency = _known(c.alu_latency, "cycles.alu_latency", gpu)
    atomic = _atomic_cycles(gpu, shares)
    return SM(
        sub_partitions=a.schedulers_per_sm,
        issue_width=max(1, a.warp_instructions_per_clock_per_sm // a.schedulers_per_sm),
        is_oldest_first=bool(a.issues_oldest_first),
        pipe_cycles=_pipe_cycles(gpu),
        pipe_latency=_pipe_latency(gpu),
        fma_cycles=_fma_cycles(gpu),
        lsu_cycles=c.load_store_sm or 1.0,
        wavefront_cycles=c.shared_wavefront or 1.0,
        joined_wavefronts=c.shared_word or 0.0,
        replay_cycles=c.shared_replay or c.shared_wavefront or 1.0,
        l1_tag_cycles=c.l1_tag or 1.0,
        l1_bytes_per_cycle=a.l1_bytes_per_clock or LINE_BYTES,
        store_line_cycles=c.store_line or 1.0,
        l1_is_apart=a.l1_and_shared_bytes is None,
        l1_lines=(geometry.l1_bytes or 0) // LINE_BYTES,
        l1_operations=l1_operations(geometry),
        stores_allocate=geometry.stores_allocate,
        l2_path_bytes_per_cycle=bandwidth.path,
        l2_bytes_per_cycle=bandwidth.l2,
        l2_write_bytes_per_cycle=bandwidth.written,
        dram_bytes_per_cycle=bandwidth.dram,
        dram_read_share=shares.dram_read,
        dram_write_share=shares.dram_write,
        dram_local_share=shares.dram_local,
        shared_latency=_known(c.shared_latency, "cycles.shared_latency", gpu),
        l1_latency=gpu.l1_latency or _known(c.shared_latency, "cycles.shared_latency", gpu),
        l2_latency=_known(gpu.l2_latency, "cycles.l2_latency", gpu),
        dram_latency=_known(gpu.dram_latency, "cycles.dram_latency", gpu),
        barrier_latency=c.barrier_latency or latency,
        branch_latency=c.branch_latency or 2 * latency,
        block_launch_cycles=c.block_launch or 0.0,
        atomic_cycles=atomic,
        same_address_cycles=atomic,
        shared_atomic_cycles=c.shared_atomic or 1.0,
    )


class _Bandwidth:
    """Sustained bytes per cycle of one SM, when so many draw on L2 and DRAM."""

    def __init__(self, gpu: GPU, active_sms: float) -> None:
        cycles = gpu.clock_hz * active_sms
        most = gpu.architecture.l2_bytes_per_clock_per_sm or math.inf
        l2 = gpu.l2_rate.bytes_per_s / cycles if gpu.l2_rate else math.inf
        self.path = min(most, l2)
        self.l2 = l2
        self.written = min(most, l2 * (gpu.architecture.l2_write_fraction or 1.0))
        if math.isinf(l2):
            raise MissingEvidenceError(
                "its L2 bandwidth is unknown", where=gpu.name, cure="Give sustained.l2_gb_per_s in its file."
            )
        rate = gpu.dram_rate.bytes_per_s if gpu.dram_rate else gpu.dram_bytes_per_s
        self.dram = rate / cycles


def _pipe_cycles(gpu: GPU) -> tuple[float, ...]:
    """Return [Pipe] intervals; a pipe whose rate is unknown is as fast as the ALU."""
    c = gpu.architecture.cycles
    alu = _known(c.alu, "cycles.alu", gpu)
    found = {
        Pipe.FMA: _known(c.fma, "cycles.fma", gpu), Pipe.ALU: alu, Pipe.IMAD: c.imad, Pipe.XU: c.special,
        Pipe.LSU: c.load_store, Pipe.FP64: c.fp64, Pipe.FP16: c.fp16 or c.fma, Pipe.TENSOR: c.tensor,
        Pipe.BRANCH: c.branch, Pipe.UNIFORM: c.uniform,
    }  # fmt: skip
    return tuple(found[pipe] or alu for pipe in Pipe)


def _pipe_latency(gpu: GPU) -> tuple[float, ...]:
    """Return [Pipe] latencies; where one is unknown, that of the ALU and the pipe's interval beyond its own."""
    c = gpu.architecture.cycles
    alu = _known(c.alu_latency, "cycles.alu_latency", gpu)
    found = {
        Pipe.FMA: c.fma_latency, Pipe.ALU: alu, Pipe.IMAD: c.imad_latency, Pipe.XU: c.special_latency,
        Pipe.LSU: alu, Pipe.FP64: c.fp64_latency, Pipe.FP16: c.fp16_latency, Pipe.TENSOR: c.tensor_latency,
        Pipe.BRANCH: alu, Pipe.UNIFORM: c.uniform_latency,
    }  # fmt: skip
    return tuple(found[pipe] or alu for pipe in Pipe)


def _fma_cycles(gpu: GPU) -> tuple[float, ...]:
    """Return [Pipe] cycles of the FMA pipe that instructions of other pipes take."""
    c = gpu.architecture.cycles
    shared = {Pipe.IMAD: c.imad_on_fma, Pipe.ALU: c.alu_on_fma}
    return tuple(shared.get(pipe) or 0.0 for pipe in Pipe)


def _atomic_cycles(gpu: GPU, shares: MemoryShares) -> float:
    """Return cycles of an atomic in this SM's share of L2: slices work side by side, one line in one slice."""
    a = gpu.architecture
    one_line = a.same_address_atomics_per_clock or 1.0
    slices = (gpu.l2_slices or 1.0) * (a.atomics_per_clock_per_slice or 1.0)
    return shares.active_sms / min(max(1, shares.atomic_lines) * one_line, slices)


def _known(value: float | None, key: str, gpu: GPU) -> float:
    if value is None:
        raise MissingEvidenceError(
            f"{key} is unknown for {gpu.architecture.name}",
            where=gpu.name,
            cure="Give it in the architecture's file, or use --model roofline.",
        )
    return value
