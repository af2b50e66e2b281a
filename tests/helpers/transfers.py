"""Profiles of made-up kernels with a measured run, for the models that carry a time over to another GPU."""

from dataclasses import replace

from kerncast.gpu import GPU, load_gpu
from kerncast.models import Case
from kerncast.prediction import Timing
from kerncast.profiles import Count, FloatMix, KernelProfile, MemoryLevels, Origin, Resources, SourceRun, Traffic, Work

exact = Count.exact
NOTHING = exact(0.0)


def run(gpu: str | GPU, seconds: float = 1e-3, **fields: object) -> SourceRun:
    """Return a run by a profiler; fields not named are as below."""
    known: dict[str, object] = {"achieved_occupancy": 0.6, "active_threads": 32.0} | fields
    gpu = load_gpu(gpu) if isinstance(gpu, str) else gpu
    return SourceRun(gpu, seconds, known.pop("timing", Timing.PROFILER), **known)  # type: ignore[arg-type]


def profiled(
    source: str | GPU = "titan-v",
    seconds: float = 1e-3,
    flops: float = 6e8,
    dram_bytes: float = 2e8,
    bits: int = 32,
) -> KernelProfile:
    """Return what a profiler tells of a kernel of 8192 blocks of 256 threads, half of its FLOP fused.

    L2 is asked for twice the bytes of DRAM and L1 for three times, shared memory for half without conflicts.
    """
    level = MemoryLevels(
        l1_bytes=exact(3 * dram_bytes),
        shared_bytes=exact(dram_bytes / 2),
        shared_wavefronts=exact(dram_bytes / 2 / 128),
        l2_bytes=exact(2 * dram_bytes),
        dram_bytes=exact(dram_bytes),
    )
    work = {16: NOTHING, 32: NOTHING, 64: NOTHING} | {bits: exact(flops)}
    mix = FloatMix(bits, exact(flops / 4), exact(flops / 4), exact(flops / 4))
    return KernelProfile(
        kernel="made_up",
        index=0,
        grid=(8192, 1, 1),
        block=(256, 1, 1),
        shared_bytes=0,
        resources=Resources("sm_70", 32, 0, 0, 0, 0, 0, 0, None),
        work=Work(Origin.PROFILED, work[32], work[64], work[16], None, None, None),
        traffic=Traffic(Origin.PROFILED, None, None, None, None, None, None, exact(dram_bytes), None, None, None),
        mix=None,
        sampling=None,
        run=run(source, seconds),
        levels=level,
        float_mixes=(mix,),
    )


def case(profile: KernelProfile, target: str | GPU) -> Case:
    """Return the case of a profile and another GPU."""
    return Case(profile, load_gpu(target) if isinstance(target, str) else target, None, profile)


def with_levels(profile: KernelProfile, **levels: Count | None) -> KernelProfile:
    """Return a profile with other bytes at some levels."""
    assert profile.levels is not None
    return replace(profile, levels=replace(profile.levels, **levels))
