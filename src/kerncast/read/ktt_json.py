"""The JSON of the Kernel Tuning Toolkit (KTT 2): configurations with times, what the compiler said, and counters.

With ComputeApi CUDA, GlobalSize is the grid in blocks: KTT writes what it launched, in whatever unit the tuner was set
up with (GlobalSizeType); with OpenCL it is in threads. Durations are in TimeUnit, between two events. Counters have
ncu's names from Volta on, CUPTI's (nvprof's) before; their values are in base units. Sources: Source/Output and
Source/ComputeEngine/Cuda of KTT 2.0 to 2.2.
"""

from collections.abc import Mapping

from kerncast.errors import InputError
from kerncast.launch import MAX_BLOCK, MAX_GRID, Extent
from kerncast.read.bounded_text import number, shown
from kerncast.read.kernel_tuner import Table, grid_of, listed, seconds_of, settings_of, split_counters, text_of
from kerncast.read.tuned import MOST_CONFIGURATIONS, TunedConfiguration, extent_within, launch_counters

_WRONG_API = "The sizes of other interfaces are not known: tune with CUDA or OpenCL."


def read_ktt(table: Table, where: str) -> tuple[TunedConfiguration, ...]:
    """Return every kernel run of every valid result, in order; raises InputError with the result's place."""
    metadata, results = table.get("Metadata"), table.get("Results")
    if not isinstance(metadata, Mapping) or not isinstance(results, list) or len(results) > MOST_CONFIGURATIONS:
        raise InputError("Metadata or Results are missing or too large", where=where, cure="It is no result of KTT.")
    if metadata.get("ComputeApi") not in {"CUDA", "OpenCL"}:
        raise InputError(f"ComputeApi is {shown(metadata.get('ComputeApi'))}", where=where, cure=_WRONG_API)
    text_of(metadata.get("Device"), "Device", where)
    found: list[TunedConfiguration] = []
    for index, result in enumerate(results):
        place = f"{where}, result {index}"
        if not isinstance(result, Mapping):
            raise InputError("it is no object", where=place, cure="The file was changed.")
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


def _counters(data: object, place: str) -> tuple[Table, tuple[str, ...]]:
    """Return the counters by name, none where the tuner was stopped before all passes had run."""
    if data is None:
        return {}, ()
    if not isinstance(data, Mapping) or not isinstance(data.get("Counters", []), list):
        raise InputError("ProfilingData is no object with Counters", where=place, cure="The file was changed.")
    if data.get("RemainingProfilingRuns"):
        return {}, ("the counters are left out: the tuner ended before they were complete",)
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
