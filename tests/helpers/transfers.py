"""Profiles of made-up kernels with a measured run, for the models that carry a time over to another GPU."""

from kerncast.gpu import GPU, load_gpu
from kerncast.models import Case
from kerncast.prediction import Timing
from kerncast.profiles import Count, Counts, FloatMix, KernelProfile, Origin, Resources, SourceRun
from kerncast.profiles.counts import DRAM_BYTES, FLOPS, L1_BYTES, L2_BYTES, SHARED_BYTES, SHARED_WAVEFRONTS

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
    counts = {
        L1_BYTES: exact(3 * dram_bytes),
        SHARED_BYTES: exact(dram_bytes / 2),
        SHARED_WAVEFRONTS: exact(dram_bytes / 2 / 128),
        L2_BYTES: exact(2 * dram_bytes),
        DRAM_BYTES: exact(dram_bytes),
        **dict.fromkeys(FLOPS.values(), NOTHING),
        FLOPS[bits]: exact(flops),
        **float_mixes(FloatMix(bits, exact(flops / 4), exact(flops / 4), exact(flops / 4))),
    }
    return KernelProfile(
        kernel="made_up",
        index=0,
        grid=(8192, 1, 1),
        block=(256, 1, 1),
        shared_bytes=0,
        resources=Resources("sm_70", 32, 0, 0, 0, 0, 0, 0, None),
        origin=Origin.PROFILED,
        counts=Counts.of(Origin.PROFILED, counts),
        mix=None,
        sampling=None,
        run=run(source, seconds),
    )


def case(profile: KernelProfile, target: str | GPU) -> Case:
    """Return the case of a profile and another GPU."""
    return Case(profile, load_gpu(target) if isinstance(target, str) else target, None, profile)


def float_mixes(*mixes: FloatMix) -> dict[str, Count | None]:
    """Return floating-point instructions of these precisions by name, of all others none."""
    found = {bits: FloatMix(bits, NOTHING, NOTHING, NOTHING) for bits in FLOPS} | {mix.bits: mix for mix in mixes}
    return {name: count for mix in found.values() for name, count in mix.by_name.items()}


def no_float_mixes() -> dict[str, Count | None]:
    """Return the names of floating-point instructions, all unknown."""
    return dict.fromkeys(float_mixes())
