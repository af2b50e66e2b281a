"""NOUN TunedConfiguration: one measured configuration of a kernel from an auto-tuner's file; makes profiles of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kerncast.errors import InputError
from kerncast.gpu import GPU
from kerncast.kernel_profile import Count, KernelProfile
from kerncast.launch import Extent, Launch
from kerncast.prediction import Timing
from kerncast.read.ncu_row import NcuMetric, NcuRow
from kerncast.read.ncu_values import expected_units
from kerncast.read.nvprof_csv import NvprofMetric
from kerncast.read.nvprof_metrics import counted_metrics, printed_values, profiled_gpu
from kerncast.read.repeated_rows import profiles_of_rows
from kerncast.read.selection import Selection
from kerncast.tuning import Settings, is_tuned_so
from kerncast.units import NANOSECOND

#: More than any published search space that was measured in full.
MOST_CONFIGURATIONS = 200_000


@dataclass(frozen=True, slots=True)
class TunedConfiguration:
    """One configuration that compiled, ran and was right; what the file does not say is None."""

    kernel: str
    device: str | None
    parameters: str
    """such as block_size_x=128, tile_size=4"""
    seconds: float
    block: Extent | None
    grid: Extent | None
    flops: float | None = None
    """by the user's own formula for a rate in the file, of unknown precision"""
    counters: tuple[NcuMetric, ...] = ()
    legacy_counters: tuple[NvprofMetric, ...] = ()
    """under nvprof's names, on GPUs before Volta"""
    notes: tuple[str, ...] = ()
    settings: Settings = ()
    """the parameters, one by one"""


def tuned_profiles(
    configurations: Sequence[TunedConfiguration],
    source_gpu: GPU | None = None,
    where: str = "tuner's file",
    selection: Selection | None = None,
    launches: Sequence[Launch] = (),
) -> tuple[KernelProfile, ...]:
    """Return a profile per configuration; raises InputError where the file does not say how one was launched.

    Where launches of the source are given, they say so of the configurations that they have the parameters of.
    """
    if not configurations:
        raise InputError("no configuration in it ran and was right", where=where, cure="Tune again; see its log.")
    known = _launched(configurations, launches, where)
    rows = [_row(number, each, source_gpu, where) for number, each in enumerate(known)]
    profiles = profiles_of_rows(rows, source_gpu, where, selection)
    return tuple(_completed(profile, known[profile.index]) for profile in profiles)


def _launched(
    configurations: Sequence[TunedConfiguration], launches: Sequence[Launch], where: str
) -> list[TunedConfiguration]:
    """Return the configurations of which grid and block are known, by the file or by a launch of the source."""
    found = [each if each.grid and each.block else _as_in_source(each, launches, where) for each in configurations]
    known = [each for each in found if each is not None]
    if not known or (not launches and len(known) < len(found)):
        unknown = next(each for each, its in zip(configurations, found, strict=True) if its is None)
        missing = "block" if unknown.block is None else "grid"
        raise InputError(
            f"the {missing} of {ascii(unknown.parameters)[:80]} cannot be told from the file",
            where=where,
            cure="Kernel Tuner's cache has problem_size, with block_size_x, y and z among the parameters; KTT's"
            " JSON has both sizes. Or give the source (--source LAUNCH.toml) with a launch that has these parameters as"
            " its block and defines, or a launch file alone, and the time by --measured.",
        )
    if len(known) == len(found):
        return known
    left_out = (
        f"{len(found) - len(known)} of {len(found)} configurations are left out: the source has no launch of them"
    )
    return [replace(each, notes=(*each.notes, left_out)) for each in known]


def _as_in_source(
    configuration: TunedConfiguration, launches: Sequence[Launch], where: str
) -> TunedConfiguration | None:
    """Return a configuration as the source launches it; None where no launch has its parameters."""
    own = [each for each in launches if configuration.settings and is_tuned_so(each, configuration.settings)]
    if not own:
        return None
    if len({(each.kernel, each.grid, each.block) for each in own}) > 1:
        raise InputError(
            f"{ascii(configuration.parameters)[:80]} fits several launches of the source",
            where=where,
            cure="Keep one of them in the launch file that --source names.",
        )
    first = own[0]
    told = "grid and block are those of the source's launch: the file does not hold both"
    return replace(
        configuration,
        kernel=first.kernel or configuration.kernel,
        grid=first.grid,
        block=first.block,
        notes=(*configuration.notes, told),
    )


def counter(name: str, value: float) -> NcuMetric:
    """Return a counter that stands without its unit: tuners ask ncu's library for it, in base units."""
    return NcuMetric(name, value, min(expected_units(name)))


def launch_counters(registers: float | None, static_shared_bytes: float | None) -> tuple[NcuMetric, ...]:
    """Return what a tuner knows of the compiled kernel, under ncu's names."""
    known = (("launch__registers_per_thread", registers), ("launch__shared_mem_per_block_static", static_shared_bytes))
    return tuple(counter(name, value) for name, value in known if value is not None)


def extent_within(sizes: Sequence[object], most: Extent) -> Extent | None:
    """Return three sizes of a launch, or None where they cannot be that."""
    whole = [size for size in sizes if isinstance(size, int) and not isinstance(size, bool)]
    if len(whole) != len(most) or not all(1 <= size <= limit for size, limit in zip(whole, most, strict=True)):
        return None
    return (whole[0], whole[1], whole[2])


def _row(number: int, configuration: TunedConfiguration, source_gpu: GPU | None, where: str) -> NcuRow:
    counters = configuration.counters
    if configuration.legacy_counters:
        architecture = profiled_gpu(configuration.device or "", source_gpu, where).architecture.number
        counters = (*counters, *counted_metrics(printed_values(configuration.legacy_counters), architecture))
    duration = NcuMetric("gpu__time_duration.sum", configuration.seconds / NANOSECOND, "ns")
    return NcuRow(
        number=number,
        kernel=configuration.kernel,
        grid=configuration.grid,
        block=configuration.block,
        compute_capability=None,
        metrics=(duration, *counters),
        device=configuration.device,
        empties_caches=False,
    )


def _completed(profile: KernelProfile, configuration: TunedConfiguration) -> KernelProfile:
    """Add what a tuner says and a profiler does not: parameters, FLOPs; its times are of single launches."""
    notes = [f"tuned with {configuration.parameters}"] if configuration.parameters else []
    work = profile.work
    if configuration.flops is not None and work.fp32_flops is None:
        work = replace(work, fp32_flops=Count.exact(configuration.flops))
        notes.append("the FLOPs are the file's rate times its time, taken as FP32: the file names no precision")
    run = profile.run and replace(profile.run, timing=Timing.SINGLE, settings=configuration.settings)
    return replace(profile, work=work, run=run, caveats=(*profile.caveats, *notes, *configuration.notes))
