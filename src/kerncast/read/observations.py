"""Reads measured times: ``RTX 2080 Ti=1.23ms``, a CSV of times, or a file that ``kerncast measure`` wrote."""

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import kerncast
from kerncast.errors import GPUError, InputError
from kerncast.gpu import resolve_gpu
from kerncast.launch import Argument, Launch, do_same, load_launches, parse_value
from kerncast.measurements import Configuration, Method, Observation, TimedKernel, read_measurement, summarise
from kerncast.prediction import Timing
from kerncast.printable import printable
from kerncast.read.bounded_text import LEAST_SECONDS, MOST_SECONDS, names_in_first_line, read_text
from kerncast.read.selection import Selection
from kerncast.units import MIB, parse_megahertz, parse_seconds

#: The posterior's cost grows with the cube of their number.
MOST_OBSERVATIONS = 500
_SHORT = re.compile(r"([^#]+)(?:#([0-9]{1,6}))?")
_FILES = (".csv", ".jsonl")
_COLUMNS = ("gpu", "seconds", "launch", "kernel", "spread", "clock_mhz")
_MOST_BYTES = 4 * MIB
_SHOWN = 40
_SUITE = Path(kerncast.__path__[0]) / "kernels" / "suite"
#: Groups of ``kerncast measure`` whose launches come with kerncast.
_SUITE_GROUPS = {"seed", "extended"}
#: The first method that a configuration was timed by counts.
_TIMINGS = {Method.SERIES: Timing.SERIES, Method.SINGLE: Timing.SINGLE, Method.COLD: Timing.COLD}


def read_observations(texts: Sequence[str | Path | Observation]) -> tuple[Observation, ...]:
    """Return the times that texts such as ``RTX 2080 Ti#2=1.23ms`` and files give; raises InputError with the place."""
    found: list[Observation] = []
    for each in texts:
        if isinstance(each, Observation):
            found.append(each)
        elif str(each).lower().endswith(_FILES) and "=" not in str(each):
            found += _of_measurement(Path(each)) if str(each).lower().endswith(".jsonl") else _of_csv(Path(each))
        else:
            found.append(_short(str(each)))
    if len(found) > MOST_OBSERVATIONS:
        raise InputError(
            f"--measured gives {len(found)} times, more than {MOST_OBSERVATIONS}",
            cure="Keep the times of the GPUs and kernels that matter most.",
        )
    return tuple(found)


def is_table_of_times(path: Path) -> bool:
    """Return whether a file is a table of measured times, by its first line; a file that cannot be read is none."""
    return names_in_first_line(path) >= {"gpu", "seconds"}


def read_timed_kernels(path: Path, selection: Selection | None = None) -> tuple[TimedKernel, ...]:
    """Return the kernels of a table of times, each with all of its times; raises InputError with the place.

    The rows of one launch number are one kernel, else those of one name, else all of them.
    """
    times = list(_of_csv(path))
    if not times:
        raise InputError("it holds no time", where=str(path), cure="Add a row: a GPU and its seconds.")
    groups: dict[object, list[Observation]] = {}
    has_numbers = any(each.launch is not None for each in times)
    for each in times:
        if has_numbers and each.launch is None:
            cure = "Fill the column launch in every row, or in none."
            raise InputError("the row has no launch, and others have one", where=each.where, cure=cure)
        groups.setdefault(each.launch if has_numbers else each.kernel, []).append(each)
    kernels = [_timed(number, group, path) for number, group in enumerate(groups.values())]
    names = [each.kernel for each in kernels]
    chosen = (selection or Selection()).chosen(names)
    (selection or Selection()).check(chosen, names, str(path))
    return tuple(kernels[place] for place in chosen)


def _timed(number: int, times: Sequence[Observation], path: Path) -> TimedKernel:
    names = list(dict.fromkeys(each.kernel for each in times if each.kernel is not None))
    if len(names) > 1:
        two = f"{names[0][:_SHOWN]!r} and {names[1][:_SHOWN]!r}"
        cure = "Give each kernel a launch number of its own."
        raise InputError(f"launch {times[0].launch} has the kernels {two}", where=str(path), cure=cure)
    name = names[0] if names else path.stem
    if len(times) > MOST_OBSERVATIONS:
        cure = "Keep one time for each GPU and clock."
        raise InputError(
            f"{name[:_SHOWN]!r} has {len(times)} times, more than {MOST_OBSERVATIONS}", where=str(path), cure=cure
        )
    first = times[0].launch
    return TimedKernel(printable(name), number if first is None else first, tuple(times))


def _short(text: str) -> Observation:
    name, equals, time = text.rpartition("=")
    match = _SHORT.fullmatch(name)
    if not equals or match is None:
        raise InputError(
            f"--measured {text[:60]!r} is not a GPU with a time",
            cure='Write "RTX 2080 Ti=1.23ms", or name a .csv file.',
        )
    try:
        seconds = parse_seconds(time)
    except ValueError as error:
        raise InputError(f"--measured: {error}") from None
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        cure = f"Give a time from {LEAST_SECONDS:g} to {MOST_SECONDS:g} s."
        raise InputError(f"--measured {text[:60]!r}: no kernel takes {seconds:g} s", cure=cure)
    gpu, caveats = resolve_gpu(match[1].strip())
    return Observation(gpu, seconds, int(match[2]) if match[2] else None, caveats=caveats)


def _of_csv(path: Path) -> Iterator[Observation]:
    """Yield the rows of a CSV with the columns gpu and seconds, and the others where there are any."""
    lines = csv.DictReader(io.StringIO(read_text(path, _MOST_BYTES), newline=""), strict=True, restkey="", restval=None)
    try:
        names = [name.strip().lower() for name in lines.fieldnames or ()]
        unknown = [name for name in names if name not in _COLUMNS]
        if names.count("gpu") != 1 or names.count("seconds") != 1 or unknown or len(set(names)) < len(names):
            raise InputError(
                f"its first line is {','.join(names)[:_SHOWN]!r}",
                where=str(path),
                cure="Begin with the header gpu,seconds; launch, kernel, spread and clock_mhz may follow.",
            )
        lines.fieldnames = names
        for row in lines:
            place = f"{path}, line {lines.line_num}"
            if "" in row or None in row.values():
                raise InputError(f"the row does not have {len(names)} cells", where=place, cure="Mend the row.")
            yield _row({name: cell.strip() for name, cell in row.items()}, place)
    except csv.Error as error:
        cure = "It is cut off or changed: write it again."
        raise InputError(f"not a CSV: {error}", where=f"{path}, line {lines.line_num}", cure=cure) from None


def _row(row: Mapping[str, str], place: str) -> Observation:
    seconds = _seconds(row["seconds"], "seconds", place)
    launch = row.get("launch", "")
    if not re.fullmatch("[0-9]{0,6}", launch):
        raise InputError(f"launch is {launch[:_SHOWN]!r}", where=place, cure="Give the number of the launch, from 0.")
    spread = _seconds(row["spread"], "spread", place) if row.get("spread") else None
    try:
        gpu, caveats = resolve_gpu(row["gpu"])
    except GPUError as error:
        raise InputError(error.what, where=place, cure=error.cure) from None
    if clock := row.get("clock_mhz"):
        gpu = gpu.at_clock(_clock_hz(clock, place))
    number = int(launch) if launch else None
    return Observation(gpu, seconds, number, row.get("kernel") or None, spread, caveats=caveats, where=place)


def _clock_hz(cell: str, place: str) -> float:
    try:
        return parse_megahertz(cell)
    except ValueError:
        cure = "Give the clock of the SMs in MHz."
        raise InputError(f"clock_mhz is {cell[:_SHOWN]!r}", where=place, cure=cure) from None


def _seconds(cell: str, column: str, place: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    least = LEAST_SECONDS if column == "seconds" else 0.0
    if not least <= value <= MOST_SECONDS:
        cure = f"Give seconds from {least:g} to {MOST_SECONDS:g}."
        raise InputError(f"{column} is {cell[:_SHOWN]!r}", where=place, cure=cure)
    return value


def _of_measurement(path: Path) -> Iterator[Observation]:
    """Yield one time for each configuration of a measurement file that is a whole GPU's."""
    found = read_measurement(path)
    try:
        gpu, caveats = resolve_gpu(found.machine.gpu_name)
    except GPUError as error:
        cure = 'Name its times by hand: --measured "GPU=1.23ms", with a .toml file as the GPU.'
        what = f"it was measured on {found.machine.gpu_name[:_SHOWN]!r}: {error.what}"
        raise InputError(what, where=str(path), cure=cure) from None
    for each in found.configurations:
        method = next((method for method in _TIMINGS if found.trials_of(each.key, method)), None)
        if method is None or each.sm_count is not None or each.amount is not None:
            continue
        summary = summarise(found.trials_of(each.key, method))
        yield Observation(
            gpu, summary.median, None, each.kernel, summary.deviation, _TIMINGS[method], _launch(each), caveats,
            f"{path}, {each.key}",
        )  # fmt: skip


def _launch(configuration: Configuration) -> Launch:
    """Return the launch that was measured; one that is not of the suite has no source."""
    own = Launch(
        Path(),
        configuration.kernel,
        configuration.grid,
        configuration.block,
        configuration.shared_bytes,
        tuple(Argument(name, parse_value(text, configuration.key, Path())) for name, text in configuration.arguments),
    )
    group, _, name = configuration.key.partition("/")
    stem, _, number = name.partition("#")
    file = _SUITE / f"{stem}.toml"
    if group not in _SUITE_GROUPS or not re.fullmatch(r"\w+", stem) or not file.exists():
        return own
    return next((each for each in load_launches(file) if str(each.index) == number and do_same(own, each)), own)
