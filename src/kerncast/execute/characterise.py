"""A trace of some blocks to the KernelProfile of the whole launch."""

import math
from collections import defaultdict

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel
from kerncast.execute.budget import Budget
from kerncast.execute.run import execute
from kerncast.execute.sample import Sampler
from kerncast.execute.state import Progress
from kerncast.execute.work import access_bytes, classify, kind_name
from kerncast.kernel_profile import (
    SECTOR_BYTES,
    Count,
    InstructionMix,
    KernelProfile,
    KindCount,
    Origin,
    Sampling,
    Traffic,
    Work,
)
from kerncast.launch import Launch
from kerncast.trace import Trace


def characterise(
    kernel: CompiledKernel, launch: Launch, budget: Budget | None = None, progress: Progress | None = None
) -> KernelProfile:
    """Execute a launch and return its profile; raises what ``execute`` raises."""
    trace, sampler = execute(kernel, launch, budget, progress)
    return profile_of(trace, sampler, kernel, launch)


def profile_of(trace: Trace, sampler: Sampler, kernel: CompiledKernel, launch: Launch) -> KernelProfile:
    """Scale a trace to the whole launch."""
    scaled = _Scaled(trace, sampler)
    return KernelProfile(
        kernel=kernel.kernel,
        index=launch.index,
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        resources=kernel.resources,
        work=scaled.work(),
        traffic=scaled.traffic(),
        mix=scaled.mix(),
        sampling=Sampling(len(trace.block_ids), launch.blocks),
        caveats=tuple(_caveats(trace, launch)),
    )


def _caveats(trace: Trace, launch: Launch) -> list[str]:
    caveats = []
    if len(trace.block_ids) < launch.blocks:
        caveats.append(
            f"counts are scaled from {len(trace.block_ids)} of {launch.blocks} blocks; what a block reads that an"
            " unexecuted block would have written is stale"
        )
    return [*caveats, *trace.remarks]


class _Scaled:
    """Sums over instructions, scaled from the executed blocks to the grid."""

    def __init__(self, trace: Trace, sampler: Sampler) -> None:
        self.trace = trace
        self.sampler = sampler
        self.code = trace.function.instructions
        self.work_kinds = [classify(ins) for ins in self.code]
        self.bytes = np.array(
            [access_bytes(i) if k.name == "memory" else 0 for i, k in zip(self.code, self.work_kinds, strict=True)]
        )

    def work(self) -> Work:
        """Return the arithmetic of the launch."""

        def operations(name: str) -> Count:
            weights = np.array([k.operations if k.name == name else 0 for k in self.work_kinds], np.int64)
            return self._scale(self.trace.weighted_threads(weights))

        return Work(
            Origin.EXECUTED, operations("fp32"), operations("fp64"), operations("fp16"), operations("special"),
            operations("integer"), operations("control"),
        )  # fmt: skip

    def traffic(self) -> Traffic:
        """Return the memory accesses of the launch."""
        trace = self.trace
        loads, stores = self._accesses({"ld", "ldu"}), self._accesses({"st", "atom", "red"})
        atomics = self._accesses({"atom", "red"})
        nbytes = self.bytes[list(trace.counts.accessing)]
        once = self._touched("read") + self._touched("written")
        sectors = self._scale(trace.counts.sectors.sum(axis=1))
        return Traffic(
            origin=Origin.EXECUTED,
            global_load_requests=self._scale(trace.counts.requests @ loads),
            global_store_requests=self._scale(trace.counts.requests @ stores),
            global_load_sectors=self._scale(trace.counts.sectors @ loads),
            global_store_sectors=self._scale(trace.counts.sectors @ stores),
            global_bytes_requested=self._scale(trace.counts.accesses @ nbytes),
            global_bytes_touched=self._touched("either"),
            dram_bytes=Count(once.value, once.low, max(once.high, SECTOR_BYTES * sectors.high)),
            shared_requests=self._scale(trace.counts.shared_requests.sum(axis=1)),
            atomic_operations=self._scale((trace.counts.accesses + trace.counts.shared_accesses) @ atomics),
            local_bytes=self._scale(trace.counts.local_accesses @ nbytes),
        )

    def mix(self) -> InstructionMix:
        """Return the instruction mix of the launch."""
        trace = self.trace
        members: dict[str, list[int]] = defaultdict(list)
        for number, ins in enumerate(self.code):
            members[kind_name(ins)].append(number)
        kinds = [
            KindCount(
                kind,
                self._scale(trace.weighted_warps(self._at(numbers))),
                self._scale(trace.weighted_threads(self._at(numbers))),
            )
            for kind, numbers in members.items()
        ]
        kinds = [kind for kind in kinds if kind.warp_instructions.value]
        barriers = [n for n, i in enumerate(self.code) if i.root in {"bar", "barrier"} and "warp" not in i.modifiers]
        everything = np.ones(len(self.code), np.int64)
        return InstructionMix(
            Origin.EXECUTED,
            self._scale(trace.weighted_warps(everything)),
            self._scale(trace.weighted_threads(everything)),
            tuple(sorted(kinds, key=lambda kind: (-kind.thread_instructions.value, kind.kind))),
            self._scale(trace.weighted_warps(self._at(barriers))),
            self._scale(trace.counts.divergent_branches),
        )

    def _touched(self, access: str) -> Count:
        """Extrapolate the distinct sectors of each buffer by the growth seen so far, up to the whole buffer.

        ``access`` is read, written or either.
        """
        blocks = math.prod(self.sampler.grid)
        last = self.trace.footprints[-1]
        earlier = min(self.trace.footprints, key=lambda f: abs(f.blocks - last.blocks / 2))
        value = low = high = 0.0
        for number, allocation in enumerate(self.trace.allocations):
            seen, before = int(getattr(last, access)[number]), int(getattr(earlier, access)[number])
            whole = -(-allocation.nbytes // SECTOR_BYTES)
            if not seen:
                continue
            growth = blocks / last.blocks
            exponent = 1.0
            if earlier.blocks < last.blocks and before:
                exponent = min(1.0, math.log(seen / before) / math.log(last.blocks / earlier.blocks))
            value += min(whole, seen * growth**exponent)
            low += seen
            high += min(whole, seen * growth)
        return Count(value, low, high).times(SECTOR_BYTES)

    def _at(self, numbers: list[int]) -> npt.NDArray[np.int64]:
        """Return 1 for these instructions, else 0."""
        weights = np.zeros(len(self.code), np.int64)
        weights[numbers] = 1
        return weights

    def _accesses(self, roots: set[str]) -> npt.NDArray[np.int64]:
        """Return 1 for the memory instructions with these opcodes, else 0."""
        return np.array([int(self.code[n].root in roots) for n in self.trace.counts.accessing], np.int64)

    def _scale(self, per_block: npt.NDArray[np.int64]) -> Count:
        return self.sampler.scale(per_block.astype(np.float64))
