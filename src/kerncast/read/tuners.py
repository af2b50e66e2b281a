"""Reads the results of Kernel Tuner and of the Kernel Tuning Toolkit (KTT 2)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError
from kerncast.gpu import GPU
from kerncast.launch import BLOCK_PARAMETERS, MAX_BLOCK, MAX_GRID, Extent, Launch, Settings, is_tuned_so
from kerncast.measurements import Observation, TimedKernel
from kerncast.prediction import Timing
from kerncast.profiles import Count, Counts, KernelProfile, Origin
from kerncast.profiles.counts import FP32_FLOPS
from kerncast.read.bounded_text import MOST_SECONDS, number, shown
from kerncast.read.ncu.profile import Device, find_gpu, profiles_of_rows
from kerncast.read.ncu.rows import NcuMetric, NcuRow, expected_units
from kerncast.read.nvprof import NvprofMetric, counted_metrics, is_nvprof_name, printed_values, profiled_gpu
from kerncast.read.selection import Selection
from kerncast.units import GIGA, MEGA, NANOSECOND, TERA, parse_seconds

#: More than any published search space that was measured in full.
MOST_CONFIGURATIONS = 200_000


@dataclass(frozen=True, slots=True)
class TunedConfiguration:
    """One configuration that compiled, ran and was right; what the file does not say is None."""

    kernel: str
    device: str | None
    parameters: str
    """parameters as one text, such as block_size_x=128, tile_size=4"""
    seconds: float
    block: Extent | None
    grid: Extent | None
    flops: float | None = None
    """operations by the user's own formula for a rate in the file, of unknown precision"""
    counters: tuple[NcuMetric, ...] = ()
    legacy_counters: tuple[NvprofMetric, ...] = ()
    """counters under nvprof's names, on GPUs before Volta"""
    notes: tuple[Caveat, ...] = ()
    settings: Settings = ()
    """parameters one by one"""


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
        raise InputError("no configuration in it ran with right results", where=where, cure="Tune again; see its log.")
    known = _launched(configurations, launches, where)
    rows = [_row(number, each, source_gpu, where) for number, each in enumerate(known)]
    profiles = profiles_of_rows(rows, source_gpu, where, selection)
    return tuple(_completed(profile, known[profile.index]) for profile in profiles)


def tuned_kernels(
    configurations: Sequence[TunedConfiguration],
    source_gpu: GPU | None = None,
    where: str = "tuner's file",
    selection: Selection | None = None,
    launches: Sequence[Launch] = (),
) -> tuple[KernelProfile, ...] | tuple[TimedKernel, ...]:
    """Return a profile per configuration; where one has neither counters nor its launch, all of them by their times."""
    is_known = launches or all(each.grid and each.block for each in configurations)
    if is_known or any(map(_has_counters, configurations)):
        return tuned_profiles(configurations, source_gpu, where, selection, launches)
    choice, names = selection or Selection(), [each.kernel for each in configurations]
    chosen = choice.chosen(names)
    choice.check(chosen, names, where)
    return tuple(_timed(place, configurations[place], source_gpu, where) for place in chosen)


def _has_counters(configuration: TunedConfiguration) -> bool:
    """Return whether a tuner has counted anything while the kernel ran."""
    counted = (each for each in configuration.counters if not each.name.startswith("launch__"))
    return bool(configuration.legacy_counters) or any(counted)


def _timed(place: int, configuration: TunedConfiguration, source_gpu: GPU | None, where: str) -> TimedKernel:
    """Return a configuration of which only the time tells anything."""
    device = Device(configuration.device, None, None, None, None)
    gpu, names = (source_gpu, ()) if source_gpu else find_gpu(device, where)
    time = Observation(gpu, configuration.seconds, timing=Timing.SINGLE, caveats=names, where=where)
    notes = [Caveat.of(CaveatKind.TUNED_WITH, configuration.parameters)] if configuration.parameters else []
    return TimedKernel(configuration.kernel, place, (time,), tuple(notes))


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
    lost, everything = len(found) - len(known), len(found)
    left_out = Caveat.of(CaveatKind.CONFIGURATIONS_LEFT_OUT, left_out=lost, all=everything)
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
    told = Caveat(CaveatKind.GEOMETRY_FROM_SOURCE)
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
    notes = [Caveat.of(CaveatKind.TUNED_WITH, configuration.parameters)] if configuration.parameters else []
    counts = profile.counts
    if configuration.flops is not None and FP32_FLOPS not in counts:
        counts = counts.updated(Counts.of(Origin.PROFILED, {FP32_FLOPS: Count.exact(configuration.flops)}))
        notes.append(Caveat.of(CaveatKind.OPERATIONS_FROM_RATE))
    run = profile.run and replace(profile.run, timing=Timing.SINGLE, settings=configuration.settings)
    return replace(profile, counts=counts, run=run, caveats=(*profile.caveats, *notes, *configuration.notes))


# Files of Kernel Tuner: its cache, and results in the T4 format that other tuners write too.
#
# A cache is one JSON object that the tuner leaves open while it runs; times are milliseconds. T4 (schema 1.0.0) names
# the unit of each measurement. Sources: kernel_tuner/util.py, file_utils.py and schema/ of Kernel Tuner 0.4 to 1.4,
# Source/Output/JsonT4Converters.cpp of KTT. A configuration that failed is left out.


#: Kernel Tuner writes this instead of a time where its strategies need a number for a failure.
_FAILED = 1e20
_RATES = {"gflop/s": GIGA, "gflops": GIGA, "gflops/s": GIGA, "tflop/s": TERA, "tflops": TERA, "mflop/s": MEGA}
_UNITS = {
    "s": "s", "ms": "ms", "us": "us", "µs": "us", "ns": "ns",
    "seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns",
}  # fmt: skip
_SIZES = re.compile(r"[(\[]?\s*\d{1,10}(?:\s*,\s*\d{1,10}){0,2}\s*,?\s*[)\]]?")
_ASSUMED_GRID = (Caveat(CaveatKind.GRID_FROM_PROBLEM_SIZE),)
_LONGEST = 300
_COMPILED = ("registers", "local_memory_size")

Table = Mapping[str, Any]


def close_cache(text: str) -> str:
    """Return the text of a cache with the two brackets that Kernel Tuner leaves out until it ends.

    >>> close_cache('{"cache": {"1": {"time": 2.5}, ')
    '{"cache": {"1": {"time": 2.5}}}'
    """
    body = text.rstrip()
    return body[:-1] + "}}" if body.endswith(",") else body


def read_cache(table: Table, where: str) -> tuple[TunedConfiguration, ...]:
    """Return the configurations of a cache that ran, in order; raises InputError with the configuration's key."""
    kernel = text_of(table.get("kernel_name"), "kernel_name", where)
    device = text_of(table.get("device_name"), "device_name", where)
    names = table.get("tune_params_keys")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError("tune_params_keys is missing", where=where, cure="Give a cache file of Kernel Tuner.")
    problem = _problem_size(table.get("problem_size"))
    found = []
    for key, entry in _limited(table.get("cache"), where).items():
        place = f"{where}, configuration {key[:60]!r}"
        if not isinstance(entry, Mapping):
            raise InputError("it is not an object", where=place, cure="The file was changed.")
        time = entry.get("time")
        if "__error__" in entry or isinstance(time, str) or (isinstance(time, float) and time >= _FAILED):
            continue
        parameters = {name: entry.get(name) for name in names}
        seconds = seconds_of(time, "ms", place)
        block = _block(parameters)
        found.append(
            TunedConfiguration(
                kernel=kernel,
                device=device,
                parameters=listed(parameters),
                seconds=seconds,
                block=block,
                grid=_grid(problem, block),
                flops=_flops(entry, seconds, place),
                counters=tuple(counter(name, number(entry[name], name, place)) for name in entry if "__" in name),
                notes=_ASSUMED_GRID,
                settings=settings_of(parameters),
            )
        )
    return tuple(found)


def read_t4(table: Table, where: str) -> tuple[TunedConfiguration, ...]:
    """Return the valid configurations of results in the T4 format, in order; raises InputError with the place."""
    metadata = table.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    results = table.get("results")
    if not isinstance(results, list) or len(results) > MOST_CONFIGURATIONS:
        raise InputError(f"results is {shown(results)}", where=where, cure="Give a file in the T4 format.")
    found = []
    for index, result in enumerate(results):
        place = f"{where}, result {index}"
        if not isinstance(result, Mapping):
            raise InputError("it is not an object", where=place, cure="The file was changed.")
        if result.get("invalidity", "correct") == "correct":
            configuration = _t4_configuration(result, metadata, place, Path(where).stem)
            if configuration is not None:
                found.append(configuration)
    return tuple(found)


def _is_named(measurement: object) -> bool:
    return isinstance(measurement, Mapping) and isinstance(measurement.get("name"), str)


def _t4_configuration(result: Table, metadata: Table, place: str, name: str) -> TunedConfiguration | None:
    parameters = result.get("configuration")
    measurements = result.get("measurements")
    if not isinstance(parameters, Mapping) or not isinstance(measurements, list):
        raise InputError("configuration or measurements are missing", where=place, cure="The file was changed.")
    named = {each["name"]: each for each in measurements if _is_named(each)}
    time = named.get("time", {})
    value = time.get("value")
    if isinstance(value, float) and value >= _FAILED:
        return None
    seconds = seconds_of(value, time.get("unit") or metadata.get("timeunit"), place)
    compiled = result.get("compilation_data")
    compiled = compiled if isinstance(compiled, Mapping) else {}
    block = _sizes(compiled.get("local_size"), MAX_BLOCK) or _block(parameters)
    threads = metadata.get("compute_api") == "OpenCL"
    values = {key: each.get("value") for key, each in named.items()}
    counters, legacy = split_counters(values, place)
    return TunedConfiguration(
        kernel=name,
        device=metadata.get("device") if isinstance(metadata.get("device"), str) else None,
        parameters=listed(parameters),
        seconds=seconds,
        block=block,
        grid=grid_of(_sizes(compiled.get("global_size"), MAX_GRID), block, is_threads=threads),
        flops=_flops(values, seconds, place),
        counters=(*launch_counters(*(_optional(compiled, key, place) for key in _COMPILED)), *counters),
        legacy_counters=legacy,
        settings=settings_of(parameters),
    )


def split_counters(values: Table, place: str) -> tuple[tuple[NcuMetric, ...], tuple[NvprofMetric, ...]]:
    """Return the counters among measured values: those under ncu's names, and those under nvprof's."""
    ncu, nvprof = [], []
    for name, value in values.items():
        if "__" in name:
            ncu.append(counter(name, number(value, name[:80], place)))
        elif is_nvprof_name(name):
            nvprof.append(NvprofMetric(name, number(value, name[:80], place), ""))
    return tuple(ncu), tuple(nvprof)


def grid_of(size: Extent | None, block: Extent | None, *, is_threads: bool) -> Extent | None:
    """Return the grid in blocks of a size that OpenCL counts in threads and CUDA in blocks."""
    if size is None or block is None or not is_threads:
        return size
    return (-(-size[0] // block[0]), -(-size[1] // block[1]), -(-size[2] // block[2]))


def text_of(value: object, what: str, where: str) -> str:
    """Return a printable text; raises InputError for anything else."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise InputError(f"{what} is {shown(value)}", where=where, cure="The file was changed: write it again.")
    return value


def listed(parameters: Table) -> str:
    """Return tuning parameters as a text, shortened where there are very many."""
    text = ", ".join(f"{name}={value}" for name, value in parameters.items())
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def settings_of(parameters: Table) -> Settings:
    """Return tuning parameters as the texts that their macros have.

    >>> settings_of({"block_size_x": 64, "use_shared": True})
    (('block_size_x', '64'), ('use_shared', '1'))
    """
    return tuple((name, str(int(value) if isinstance(value, bool) else value)) for name, value in parameters.items())


def seconds_of(value: object, unit: object, place: str) -> float:
    """Return a time in seconds; raises InputError where it or its unit is missing or no time."""
    spelt = unit.lower() if isinstance(unit, str) else ""
    time = number(value, "the time", place)
    if spelt not in _UNITS:
        cure = 'Write "unit": "ms" (s, ms, us or ns) beside each time.'
        raise InputError(f"the unit of the time is {shown(unit)}", where=place, cure=cure)
    seconds = time * parse_seconds(f"1{_UNITS[spelt]}")
    if not 0 < seconds <= MOST_SECONDS:
        raise InputError(f"the time is {time:g} {unit}", where=place, cure="No kernel takes that: measure it again.")
    return seconds


def _limited(value: object, where: str) -> Table:
    if not isinstance(value, Mapping) or len(value) > MOST_CONFIGURATIONS:
        cure = f"It holds an object of up to {MOST_CONFIGURATIONS} configurations."
        raise InputError("cache is missing or too large", where=where, cure=cure)
    return value


def _optional(table: Table, name: str, place: str) -> float | None:
    return None if table.get(name) is None else number(table[name], name, place)


def _block(parameters: Table) -> Extent | None:
    if not any(name in parameters for name in BLOCK_PARAMETERS):
        return None
    return extent_within([parameters.get(name, 1) for name in BLOCK_PARAMETERS], MAX_BLOCK)


def _sizes(value: object, most: Extent) -> Extent | None:
    return extent_within([value.get(axis) for axis in "xyz"], most) if isinstance(value, Mapping) else None


def _problem_size(value: object) -> Sequence[object]:
    if isinstance(value, str) and _SIZES.fullmatch(value):
        value = [int(size) for size in re.findall(r"\d+", value)]
    sizes = value if isinstance(value, list) else [value]
    return [*sizes, 1, 1][:3]


def _grid(problem: Sequence[object], block: Extent | None) -> Extent | None:
    """Return the grid by Kernel Tuner's default: problem_size over the block, rounded up."""
    if block is None or not all(isinstance(size, int) and not isinstance(size, bool) for size in problem):
        return None
    blocks = [-(-int(str(size)) // width) for size, width in zip(problem, block, strict=True)]
    return extent_within(blocks, MAX_GRID)


def _flops(values: Table, seconds: float, place: str) -> float | None:
    for name, value in values.items():
        factor = _RATES.get(name.lower())
        if factor is not None:
            return number(value, name, place) * factor * seconds
    return None


# The JSON of the Kernel Tuning Toolkit (KTT 2): configurations with times, what the compiler said, and counters.
#
# With ComputeApi CUDA, GlobalSize is the grid in blocks: KTT writes what it launched, in whatever unit the tuner was
# set up with (GlobalSizeType); with OpenCL it is in threads. Durations are in TimeUnit, between two events. Counters
# have ncu's names from Volta on, CUPTI's (nvprof's) before; their values are in base units. Sources: Source/Output
# and Source/ComputeEngine/Cuda of KTT 2.0 to 2.2.


_WRONG_API = "The sizes of other interfaces are not known: tune with CUDA or OpenCL."


def read_ktt(table: Table, where: str) -> tuple[TunedConfiguration, ...]:
    """Return every kernel run of every valid result, in order; raises InputError with the result's place."""
    metadata, results = table.get("Metadata"), table.get("Results")
    if not isinstance(metadata, Mapping) or not isinstance(results, list) or len(results) > MOST_CONFIGURATIONS:
        raise InputError("Metadata or Results are missing or too large", where=where, cure="Give a result of KTT.")
    if metadata.get("ComputeApi") not in ("CUDA", "OpenCL"):  # a list has no place in a set
        raise InputError(f"ComputeApi is {shown(metadata.get('ComputeApi'))}", where=where, cure=_WRONG_API)
    text_of(metadata.get("Device"), "Device", where)
    found: list[TunedConfiguration] = []
    for index, result in enumerate(results):
        place = f"{where}, result {index}"
        if not isinstance(result, Mapping):
            raise InputError("it is not an object", where=place, cure="The file was changed.")
        runs = result.get("ComputationResults")
        if result.get("Status") != "Ok":
            continue
        if not isinstance(runs, list) or not all(isinstance(run, Mapping) for run in runs):
            raise InputError("ComputationResults is missing", where=place, cure="The file was changed.")
        parameters = _parameters(result.get("Configuration"), place)
        found += (_configuration(run, parameters, metadata, place) for run in runs)
        if len(found) > MOST_CONFIGURATIONS:
            raise InputError(f"it holds more than {MOST_CONFIGURATIONS} runs", where=where, cure="Split it.")
    return tuple(found)


def _configuration(run: Table, parameters: Table, metadata: Table, place: str) -> TunedConfiguration:
    compiled = run.get("CompilationData")
    compiled = compiled if isinstance(compiled, Mapping) else {}
    sizes = (compiled.get("RegistersCount"), compiled.get("LocalMemorySize"))
    known = [None if size is None else number(size, "CompilationData", place) for size in sizes]
    block = _extent(run.get("LocalSize"), MAX_BLOCK)
    values, notes = _counters(run.get("ProfilingData"), place)
    counters, legacy = split_counters(values, place)
    return TunedConfiguration(
        kernel=text_of(run.get("KernelFunction"), "KernelFunction", place),
        device=metadata["Device"],
        parameters=listed(parameters),
        seconds=seconds_of(run.get("Duration"), metadata.get("TimeUnit"), place),
        block=block,
        grid=grid_of(_extent(run.get("GlobalSize"), MAX_GRID), block, is_threads=metadata["ComputeApi"] == "OpenCL"),
        counters=(*launch_counters(*known), *counters),
        legacy_counters=legacy,
        notes=notes,
        settings=settings_of(parameters),
    )


def _counters(data: object, place: str) -> tuple[Table, tuple[Caveat, ...]]:
    """Return the counters by name, none where the tuner was stopped before all passes had run."""
    if data is None:
        return {}, ()
    if not isinstance(data, Mapping) or not isinstance(data.get("Counters", []), list):
        raise InputError("ProfilingData is not an object with Counters", where=place, cure="The file was changed.")
    if data.get("RemainingProfilingRuns"):
        return {}, (Caveat(CaveatKind.COUNTERS_INCOMPLETE),)
    counters = data.get("Counters", [])
    if not all(isinstance(each, Mapping) and isinstance(each.get("Name"), str) for each in counters):
        raise InputError("a counter has no Name", where=place, cure="The file was changed.")
    return {each["Name"]: each.get("Value") for each in counters}, ()


def _parameters(pairs: object, place: str) -> Table:
    if not isinstance(pairs, list) or not all(isinstance(pair, Mapping) and "Name" in pair for pair in pairs):
        raise InputError("Configuration is missing", where=place, cure="The file was changed.")
    return {str(pair["Name"]): pair.get("Value") for pair in pairs}


def _extent(value: object, most: Extent) -> Extent | None:
    return extent_within([value.get(axis) for axis in "XYZ"], most) if isinstance(value, Mapping) else None
