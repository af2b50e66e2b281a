"""Forecasts of a script's launches: it runs once for each architecture, and for each GPU where it asks for the GPU."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from kerncast.child_process import Progress
from kerncast.errors import InputError, KerncastError, Refusal
from kerncast.forecast import Forecast, Options, forecast_all
from kerncast.forecast.asked import GPUsNoted
from kerncast.launch import Launch
from kerncast.read.launches import launches_of
from kerncast.recording import read_recording
from kerncast.scripts.benchmarks import Tuning
from kerncast.scripts.session import Recorded, Script, record_script


@dataclass(frozen=True, slots=True)
class ForGPUs:
    """A script's recording, and the GPUs that it stands for."""

    gpus: tuple[int, ...]
    """their numbers among those asked for"""
    recorded: Recorded


@dataclass(frozen=True, slots=True)
class ScriptForecast:
    """All that came of a script."""

    forecast: Forecast
    tunings: tuple[Tuning, ...]
    remarks: tuple[str, ...]


class Asking(Protocol):
    """What was recorded for a GPU, and whether the GPU itself was asked about."""

    @property
    def asks_for_gpu(self) -> bool:
        """Whether another GPU of the architecture may have other launches."""


Found = TypeVar("Found", bound=Asking)


def for_each_architecture(gpus: GPUsNoted, record: Callable[[int], Found]) -> Iterator[tuple[tuple[int, ...], Found]]:
    """Yield what ``record`` finds for the number of a GPU, with the numbers of all GPUs that it stands for."""
    left = list(range(len(gpus)))
    while left:
        found = record(left[0])
        architecture = gpus[left[0]][0].architecture.number
        alike = [n for n in left if gpus[n][0].architecture.number == architecture]
        own = tuple(alike[:1] if found.asks_for_gpu else alike)
        left = [n for n in left if n not in own]
        yield own, found


def recordings_for(
    script: Script, gpus: GPUsNoted, folder: Path, progress: Progress | None = None
) -> Iterator[ForGPUs]:
    """Yield recordings of a script, compiled for each architecture among the GPUs; raises as ``record_script`` does."""

    def record(number: int) -> Recorded:
        return record_script(script, gpus[number][0], folder / f"{number}.kc", progress)

    for own, found in for_each_architecture(gpus, record):
        yield ForGPUs(own, found)


def forecast_script(
    script: Script, gpus: GPUsNoted, options: Options, progress: Progress | None = None
) -> ScriptForecast:
    """Forecast every launch of a script on every GPU; an error of the script's is in ``failed`` of the forecast."""
    parts: list[tuple[tuple[int, ...], Forecast]] = []
    tunings: list[Tuning] = []
    remarks: dict[str, None] = {}
    failed: KerncastError | None = None
    with tempfile.TemporaryDirectory(prefix="kerncast-script-") as folder:
        for each in recordings_for(script, gpus, Path(folder), progress):
            recording = read_recording(each.recorded.recording)
            launches = launches_of(recording)
            parts.append((each.gpus, forecast_all(launches, [gpus[n] for n in each.gpus], options, progress)))
            tunings += each.recorded.tunings
            remarks |= dict.fromkeys(recording.remarks)
            failed = failed or each.recorded.failed
    return ScriptForecast(joined([part for _, part in parts], gpus, failed), tuple(tunings), tuple(remarks))


def launches_of_script(path: Path, gpus: GPUsNoted, folder: Path, progress: Progress | None = None) -> Sequence[Launch]:
    """Return a script's launches for GPUs of one architecture, as they are on the first.

    The recording lies in the folder. Raises InputError for none, and for GPUs of several architectures.
    """
    if not gpus:
        cure = "Name one with --gpu."
        raise InputError("a script is compiled for a GPU, and none is named", where=str(path), cure=cure)
    check_one_architecture(path, gpus)
    script = Script(path)
    found = record_script(script, gpus[0][0], folder / "script.kc", progress)
    if found.failed is not None:
        raise found.failed
    return launches_of(read_recording(found.recording))


def check_one_architecture(path: Path, gpus: GPUsNoted) -> None:
    """Raise InputError for GPUs of several architectures."""
    if len({gpu.architecture.number for gpu, _ in gpus}) > 1:
        cure = "Name GPUs of one architecture, or ask kerncast predict, which compiles for each."
        what = "a script is compiled for one architecture, and the GPUs have several"
        raise InputError(what, where=str(path), cure=cure)


def joined(parts: Sequence[Forecast], gpus: GPUsNoted, failed: KerncastError | None = None) -> Forecast:
    """Return one forecast, launch by launch, in the order of the GPUs."""
    order = {gpu.id: number for number, (gpu, _) in enumerate(gpus)}
    pairs = [pair for part in parts for pair in zip(part.predictions, part.cases, strict=True)]
    pairs.sort(key=lambda pair: (pair[0].launch, order.get(pair[0].gpu_id, 0)))
    refusals: list[Refusal] = [part.first_refusal for part in parts if part.first_refusal is not None]
    return Forecast(
        tuple(prediction for prediction, _ in pairs),
        tuple(dict.fromkeys(each for part in parts for each in part.refused)),
        tuple(case for _, case in pairs),
        refusals[0] if refusals else None,
        next((part.failed for part in parts if part.failed is not None), failed),
    )
