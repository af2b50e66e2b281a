"""Makes profiles of measured runs, through the readers' own tables; what the counters lack, the executor counts."""

import math
from collections.abc import Iterator
from functools import lru_cache
from unittest.mock import patch

from projection_cases import Launched, Run
from timing_cases import Row, whole
from timing_runs import compile_kept

from kerncast.errors import KerncastError
from kerncast.execute import Budget
from kerncast.execute.on_gpu import with_caches
from kerncast.forecast import compiled_launch, filled
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.models.transfer.measured_run import float_mixes_of
from kerncast.profiles import KernelProfile
from kerncast.profiles.counts import DRAM_CROSSING, L1_BYTES, L2_CROSSING, SHARED_BYTES, SHARED_WAVEFRONTS
from kerncast.read.ncu.profile import profiles_of
from kerncast.read.ncu.rows import NcuMetric, NcuRow
from kerncast.read.nvprof import NvprofLaunch, NvprofMetric, is_nvprof_name, nvprof_profiles
from kerncast.read.tuners import counter, launch_counters
from kerncast.units import NANOSECOND

_NVPROF_SETS = frozenset({"rodinia", "vecmat"})
_WHERE = "measured run"


def profile_of(launched: Launched, run: Run, gpu: GPU, budget: Budget) -> KernelProfile:
    """Return the profile of one run; raises KerncastError where the executor cannot complete it."""
    assert run.counters is not None
    read = nvprof_profile if launched.set in _NVPROF_SETS else ncu_profile
    return completed(read(launched, run.counters, run.seconds, gpu), launched.launch, budget)


def nvprof_profile(launched: Launched, row: Row, seconds: float, gpu: GPU) -> KernelProfile:
    """Return what nvprof counted; the columns are its descriptions in small letters.

    None of these kernels uses local memory, as compiled here; vecmat's local_memory_overhead is 0 or nearly so.
    """
    launch = launched.launch
    counters = [*_counters(row), *((f"local_{way}_transactions", 0.0) for way in ("load", "store"))]
    read = NvprofLaunch(
        kernel=launched.kernel,
        device=gpu.name,
        grid=launch.grid,
        block=launch.block,
        seconds=seconds,
        registers_per_thread=whole(row, "regs_per_thread"),
        static_shared_bytes=whole(row, "static_smem_bytes"),
        dynamic_shared_bytes=whole(row, "dynamic_smem_bytes") if "dynamic_smem_bytes" in row else 0,
        metrics=tuple(NvprofMetric(name, value, "") for name, value in counters if is_nvprof_name(name)),
        averaged_over=None,
    )
    return nvprof_profiles([read], gpu, _WHERE)[0]


def ncu_profile(launched: Launched, row: Row, seconds: float, gpu: GPU) -> KernelProfile:
    """Return what Nsight Compute's library counted; the columns are its names."""
    launch = launched.launch
    metrics = (
        NcuMetric("gpu__time_duration.sum", seconds / NANOSECOND, "ns"),
        *launch_counters(whole(row, "regs_per_thread"), whole(row, "static_smem_bytes")),
        *(counter(name, value) for name, value in _counters(row) if "__" in name),
    )
    return profiles_of([NcuRow(0, launched.kernel, launch.grid, launch.block, None, metrics)], gpu, _WHERE)[0]


def _counters(row: Row) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a row that were measured."""
    for name, value in row.items():
        if isinstance(value, int | float) and math.isfinite(value):
            yield str(name), float(value)


def completed(profile: KernelProfile, launch: Launch, budget: Budget) -> KernelProfile:
    """Return a profile with what it lacks as the kernel's equivalent does it on the same GPU."""
    counts, run = profile.counts, profile.run
    assert run is not None
    levels = [counts.get(name) for name in (L1_BYTES, SHARED_BYTES, SHARED_WAVEFRONTS)]
    known = (*levels, run.active_threads, profile.resources)
    caches = (counts.first(L2_CROSSING), counts.first(DRAM_CROSSING))
    if None not in (*known, *caches, float_mixes_of(profile)):
        return profile
    own = _executed(launch, run.gpu.architecture.code_name, budget)
    executed = own.profile if None not in caches else with_caches(own.profile, own.executed(), run.gpu)
    return filled(profile, executed)


@lru_cache(maxsize=4)
def _executed(launch: Launch, architecture: str, budget: Budget) -> compiled_launch.CompiledLaunch:
    """Execute a launch as compiled for one architecture, once for all boards of it."""
    with patch.object(compiled_launch, "compile_launch", compile_kept):
        found = compiled_launch.compile_and_count(launch, [architecture], compiled_launch.Means(budget))
    own = found.on(architecture)
    if own is None:
        raise found.failures[0].refusal
    return own


def refusal_of(error: KerncastError, launched: Launched) -> str:
    """Return a reason without the kernel's name, so that equal ones can be counted."""
    return str(error).replace(launched.kernel, "the kernel").split("\n", 1)[0]
