"""The failures that the projection's paper reports, and which pairs of measured runs show each.

Van Lanker et al., Euro-Par 2024: cache capacity (section 5.5), an under-used GPU (5.3), active threads in the bandwidth
terms (5.6). Two more follow from its section 4.2, which takes all but special functions to run the same way on both
GPUs: a kernel that the compiler builds with other registers or spills, and SMs with another number of FP32 lanes.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from projection_cases import Launched, convolution, rodinia, vecmat
from timing_cases import spread

from kerncast.gpu import GPU, WARP_SIZE
from kerncast.launch import Buffer
from kerncast.models.transfer.measured_run import float_mixes_of
from kerncast.profiles import KernelProfile
from kerncast.profiles.counts import GLOBAL_BYTES_TOUCHED

#: A grid with fewer warps than this for each SM leaves the GPU under-used: as in ``project_mini_apps.py``.
FEW_WARPS = 8
#: Section 5.6: docking had 26 of 32 threads active on average.
FEW_ACTIVE = 26.0
#: So much of the FP32 lanes of the source is in use where their number may matter; a round figure.
BUSY_LANES = 0.3
#: Share of DRAM's peak from which a run counts as a stream; a round figure.
STREAMS = 0.5
#: Bytes; L2 of the GPUs of gpuperfpredict holds from 512 KiB to 2 MiB.
SMALLEST_L2, LARGEST_L2 = 512 * 1024, 2048 * 1024
#: Launches of each kernel of vecmat that fit some of these L2 only.
_SMALL_PER_KERNEL = 4
_FP32_BITS = 32

#: Convolutions of each telling kind: so many registers more on the RTX 3090 than on the RTX 2080 Ti; so many FP32
#: instructions of threads per second, 0.4 of what the lanes of the RTX 2080 Ti can start at the clock of those runs.
_TELLING, _MANY_REGISTERS, _BUSY_RATE = 8, 32, 0.4 * 68 * 64 * 1.793e9
_FP32_INSTRUCTIONS = "smsp__sass_thread_inst_executed_op_fp32_pred_on.sum"

#: Launches in the sample of each set.
RODINIA, VECMAT, CONVOLUTION = 40, 42, 24


@dataclass(frozen=True, slots=True)
class Side:
    """One launch as it is on one of two GPUs."""

    gpu: GPU
    registers: int
    """registers per thread, as compiled for this GPU"""
    spill_bytes: int
    """bytes per thread that spills store and load"""

    @classmethod
    def of(cls, profile: KernelProfile, gpu: GPU) -> "Side":
        """Return what a launch that was compiled for a GPU occupies there."""
        own = profile.resources
        assert own is not None
        return cls(gpu, own.registers_per_thread, own.spill_store_bytes + own.spill_load_bytes)


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides whether a pair shows a failure: of the launch, and of both GPUs."""

    warps: int
    """warps of the grid"""
    working_set_bytes: float
    """distinct bytes of global memory that the launch touches"""
    active_threads: float
    """active threads per warp instruction, on average"""
    lane_use: float
    """share of the source's FP32 lanes that the measured run kept busy"""
    dram_use: float
    """working set over what DRAM of the source moves in the time of the measured run, at its peak"""
    source: Side
    target: Side

    @classmethod
    def of(cls, profiles: tuple[KernelProfile, KernelProfile], gpus: tuple[GPU, GPU], seconds: float) -> "Facts":
        """Return the facts of a launch, by its profile as executed for each GPU and its time on the first."""
        own = profiles[0]
        touched = own.counts.get(GLOBAL_BYTES_TOUCHED)
        blocks, threads = math.prod(own.grid), math.prod(own.block)
        return cls(
            warps=blocks * -(-threads // WARP_SIZE),
            working_set_bytes=touched.value if touched else math.inf,
            active_threads=own.mix.active_lanes if own.mix else WARP_SIZE,
            lane_use=_fp32_operations(own) / (seconds * gpus[0].peak_fp32_flops_per_s / 2),
            dram_use=(touched.value if touched else 0.0) / (seconds * gpus[0].dram_bytes_per_s),
            source=Side.of(own, gpus[0]),
            target=Side.of(profiles[1], gpus[1]),
        )


def _fp32_operations(profile: KernelProfile) -> float:
    """Return the FP32 operations of all threads; a fused multiply-add is one, as it takes one lane one cycle."""
    mixes = [mix for mix in float_mixes_of(profile) or () if mix.bits == _FP32_BITS]
    return sum(mix.additions.value + mix.multiplications.value + mix.fused.value for mix in mixes)


def fits_larger_l2(facts: Facts) -> bool:
    """Tell whether the target's L2 holds the working set and the source's does not."""
    return _fits(facts.target, facts) and not _fits(facts.source, facts)


def fits_smaller_l2(facts: Facts) -> bool:
    """Tell whether the source's L2 holds the working set and the target's does not."""
    return _fits(facts.source, facts) and not _fits(facts.target, facts)


def _fits(side: Side, facts: Facts) -> bool:
    return side.gpu.l2_bytes is not None and facts.working_set_bytes <= side.gpu.l2_bytes


def exceeds_the_larger_l2(facts: Facts) -> bool:
    """Tell whether the target has the larger L2 and the working set is more than twice as large as that."""
    source, target = (side.gpu.l2_bytes or 0 for side in (facts.source, facts.target))
    return source < target < facts.working_set_bytes / 2


def streams(facts: Facts) -> bool:
    """Tell whether the run reads and writes its working set about as fast as DRAM could, or faster."""
    return facts.dram_use >= STREAMS


def under_uses(facts: Facts) -> bool:
    """Tell whether the grid has too few warps for the GPU with more SMs."""
    return facts.warps < FEW_WARPS * max(facts.source.gpu.sm_count, facts.target.gpu.sm_count)


def has_few_active(facts: Facts) -> bool:
    """Tell whether a warp instruction has as few active threads as the paper's docking, or fewer."""
    return facts.active_threads <= FEW_ACTIVE


def is_rebuilt(facts: Facts) -> bool:
    """Tell whether the compiler gives the kernel other registers, or other spills, on the two GPUs."""
    return facts.source.registers != facts.target.registers or spills_differ(facts)


def spills_differ(facts: Facts) -> bool:
    """Tell whether a thread spills other amounts on the two GPUs."""
    return facts.source.spill_bytes != facts.target.spill_bytes


def feels_lanes(facts: Facts) -> bool:
    """Tell whether the FP32 lanes of the source are busy and an SM of the target has another number of them."""
    sides = (facts.source, facts.target)
    return facts.lane_use >= BUSY_LANES and len({side.gpu.architecture.fp32_lanes_per_sm for side in sides}) > 1


def is_one_generation(facts: Facts) -> bool:
    """Tell whether both GPUs have one instruction set."""
    source, target = (side.gpu.compute_capability.split(".")[0] for side in (facts.source, facts.target))
    return source == target


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure: which pairs show it, and which parts of them are scored apart."""

    name: str
    shows: Callable[[Facts], bool]
    sets: tuple[str, ...]
    """sets with pairs that show it; their other pairs are the comparison"""
    parts: tuple[tuple[str, Callable[[Facts], bool]], ...] = ()
    beside: tuple[tuple[str, Callable[[Facts], bool]], ...] = ()
    """parts of the other pairs, for comparison"""


_KEPLER_MAXWELL = ("vecmat", "rodinia")
FAILURES = (
    Failure(
        "cache capacity",
        lambda facts: fits_larger_l2(facts) or fits_smaller_l2(facts),
        _KEPLER_MAXWELL,
        (
            ("to the larger L2", fits_larger_l2),
            ("to the smaller L2", fits_smaller_l2),
            ("streams, to the larger L2", lambda facts: streams(facts) and fits_larger_l2(facts)),
            ("streams, to the smaller L2", lambda facts: streams(facts) and fits_smaller_l2(facts)),
            ("within a generation", is_one_generation),
        ),
        (
            (
                "streams that fit neither, to the larger L2",
                lambda facts: streams(facts) and exceeds_the_larger_l2(facts),
            ),
        ),
    ),
    Failure(
        "under-used GPU",
        under_uses,
        _KEPLER_MAXWELL,
        (
            ("to as many SMs or more", lambda facts: facts.target.gpu.sm_count >= facts.source.gpu.sm_count),
            ("to fewer SMs", lambda facts: facts.target.gpu.sm_count < facts.source.gpu.sm_count),
            ("within a generation", is_one_generation),
        ),
    ),
    Failure(
        "active threads",
        has_few_active,
        _KEPLER_MAXWELL,
        (
            ("GPU filled", lambda facts: not under_uses(facts)),
            ("GPU under-used", under_uses),
        ),
    ),
    Failure(
        "recompiled kernel",
        is_rebuilt,
        ("convolution-ktt",),
        (
            ("spills differ", spills_differ),
            ("registers only", lambda facts: not spills_differ(facts)),
        ),
    ),
    Failure("other FP32 width", feels_lanes, ("convolution-ktt",)),
)


def launches() -> list[Launched]:
    """Return the launches to score: samples of all sets, and small ones of vecmat."""
    chosen = [*rodinia(RODINIA), *vecmat(VECMAT), *small(vecmat(None))]
    chosen += [*convolution(CONVOLUTION), *telling(convolution(None))]
    return list({(each.set, each.kernel, each.size): each for each in chosen}.values())


def small(every: Iterable[Launched]) -> list[Launched]:
    """Return a few launches per kernel whose buffers fit the largest L2 of a set's GPUs and not the smallest."""
    found: dict[str, list[Launched]] = {}
    for each in every:
        if SMALLEST_L2 < buffer_bytes(each) <= LARGEST_L2:
            found.setdefault(each.kernel, []).append(each)
    return [each for of_kernel in found.values() for each in of_kernel[:_SMALL_PER_KERNEL]]


def telling(every: Iterable[Launched]) -> list[Launched]:
    """Return some convolutions that the compiler builds very differently, and some that keep the FP32 lanes busy.

    Both are rare in a sample. No time on the target decides; which pairs show a failure is decided by ``Facts``.
    """
    grown, busy = [], []
    for each in every:
        row = each.runs[0].counters
        assert row is not None
        more = float(str(row["regs_RTX3090"])) - float(str(row["regs_per_thread"]))
        rate = float(str(row[_FP32_INSTRUCTIONS])) / each.runs[0].seconds
        if more > _MANY_REGISTERS:
            grown.append(each)
        elif rate > _BUSY_RATE:
            busy.append(each)
    return [each for kind in (grown, busy) for each in spread(kind, lambda of: (of.size,), _TELLING)]


def buffer_bytes(launched: Launched) -> int:
    """Return the bytes of all buffers of a launch."""
    buffers = [argument.value for argument in launched.launch.arguments if isinstance(argument.value, Buffer)]
    return sum(buffer.nbytes for buffer in buffers)
