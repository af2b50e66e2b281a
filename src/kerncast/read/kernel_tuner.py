"""Files of Kernel Tuner: its cache, and results in the T4 format that other tuners write too.

A cache is one JSON object that the tuner leaves open while it runs; times are milliseconds. T4 (schema 1.0.0) names
the unit of each measurement. Sources: kernel_tuner/util.py, file_utils.py and schema/ of Kernel Tuner 0.4 to 1.4,
Source/Output/JsonT4Converters.cpp of KTT. A configuration that failed is left out.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kerncast.errors import InputError
from kerncast.launch import MAX_BLOCK, MAX_GRID, Extent
from kerncast.read.bounded_text import MOST_SECONDS, number, shown
from kerncast.read.ncu_row import NcuMetric
from kerncast.read.nvprof_csv import NvprofMetric
from kerncast.read.nvprof_metrics import is_nvprof_name
from kerncast.read.tuned import MOST_CONFIGURATIONS, TunedConfiguration, counter, extent_within, launch_counters
from kerncast.tuning import BLOCK_PARAMETERS, Settings
from kerncast.units import GIGA, MEGA, TERA, parse_seconds

#: Kernel Tuner writes this instead of a time where its strategies need a number for a failure.
_FAILED = 1e20
_RATES = {"gflop/s": GIGA, "gflops": GIGA, "gflops/s": GIGA, "tflop/s": TERA, "tflops": TERA, "mflop/s": MEGA}
_UNITS = {
    "s": "s", "ms": "ms", "us": "us", "µs": "us", "ns": "ns",
    "seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns",
}  # fmt: skip
_SIZES = re.compile(r"[(\[]?\s*\d{1,10}(?:\s*,\s*\d{1,10}){0,2}\s*,?\s*[)\]]?")
_ASSUMED_GRID = ("the grid is problem_size over the block: the file does not record what else the tuner divided it by",)
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
        raise InputError("tune_params_keys is missing", where=where, cure="It is no cache of Kernel Tuner.")
    problem = _problem_size(table.get("problem_size"))
    found = []
    for key, entry in _limited(table.get("cache"), where).items():
        place = f"{where}, configuration {key[:60]!r}"
        if not isinstance(entry, Mapping):
            raise InputError("it is no object", where=place, cure="The file was changed.")
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
        raise InputError(f"results is {shown(results)}", where=where, cure="It is no file in the T4 format.")
    found = []
    for index, result in enumerate(results):
        place = f"{where}, result {index}"
        if not isinstance(result, Mapping):
            raise InputError("it is no object", where=place, cure="The file was changed.")
        if result.get("invalidity", "correct") == "correct":
            configuration = _t4_configuration(result, metadata, place, Path(where).stem)
            if configuration is not None:
                found.append(configuration)
    return tuple(found)


def _t4_configuration(result: Table, metadata: Table, place: str, name: str) -> TunedConfiguration | None:
    parameters = result.get("configuration")
    measurements = result.get("measurements")
    if not isinstance(parameters, Mapping) or not isinstance(measurements, list):
        raise InputError("configuration or measurements are missing", where=place, cure="The file was changed.")
    named = {each["name"]: each for each in measurements if isinstance(each, Mapping) and "name" in each}
    time = named.get("time", {})
    value = time.get("value")
    if isinstance(value, float) and value >= _FAILED:
        return None
    seconds = seconds_of(value, time.get("unit") or metadata.get("timeunit"), place)
    compiled = result.get("compilation_data")
    compiled = compiled if isinstance(compiled, Mapping) else {}
    block = _sizes(compiled.get("local_size"), MAX_BLOCK) or _block(parameters)
    threads = metadata.get("compute_api") == "OpenCL"
    values = {key: each.get("value") for key, each in named.items() if isinstance(key, str)}
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
